"""`CompiledFunction`, the base class of objects whose call is that of a C function, without the detour over `__call__`.

An instance of a Python class with `__call__` is called through a tuple and a dict made for the occasion: 50 ns, 240
with five keywords. CPython's vectorcall protocol hands the arguments over as they lie on its stack, to a function whose
address is in the object. The class here has room for that address. While it is 0, CPython falls back on `__call__` of
the subclass: nothing is compiled before `install`.

# Note [the flag]
CPython reads the address only in classes with the flag Py_TPFLAGS_HAVE_VECTORCALL. Classes made by a `class` statement
that define `__call__` do not inherit it, so it is set in the type object itself, at an offset that was compared with
`__flags__` of other types.

Source: PEP 590; CPython's Include/typeslots.h, Include/cpython/object.h.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from tracejit.backends.cpython import native_dispatch_supported
from tracejit.support.weak import WeakMap

__all__ = ["FUNCTION_STATE", "FUNCTION_VECTORCALL", "CompiledFunction", "install", "pause", "resume"]

FUNCTION_VECTORCALL, FUNCTION_STATE = 16, 24
"""Bytes into a `CompiledFunction`: the address that is called, and what it finds there."""

_TP_CALL, _TP_MEMBERS, _T_PYSSIZET, _READONLY = 50, 72, 19, 1
_BASETYPE, _HAVE_VECTORCALL = 1 << 10, 1 << 11
_TP_FLAGS = 168  # bytes into a type object


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _supported() -> bool:
    """Whether objects of our own layout can be made here. Decided once: classes outlive changes of the environment."""
    return native_dispatch_supported()[0] and all(
        _flags(kind).value == kind.__flags__ for kind in (int, type, dict, _Slot, _Plain)
    )


def _flags(kind: type) -> ctypes.c_ulong:
    return ctypes.c_ulong.from_address(id(kind) + _TP_FLAGS)


class _Plain:
    """The base where objects of our own layout cannot be made: calls always go through `__call__`."""

    __slots__ = ()


def _base() -> type:
    """A type whose instances have one word more than `object`: the address that is called."""
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, FUNCTION_VECTORCALL, _READONLY, None))
    call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p)
    slots = (_Slot * 3)(_Slot(_TP_CALL, call), _Slot(_TP_MEMBERS, ctypes.addressof(members)))
    size = FUNCTION_VECTORCALL + ctypes.sizeof(ctypes.c_void_p)
    spec = _Spec(b"tracejit.backends.callable.Base", size, 0, _BASETYPE | _HAVE_VECTORCALL, slots)
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    return create(ctypes.byref(spec))


_Base: Any = _base() if _supported() else _Plain


class CompiledFunction(_Base):
    """Base of callable objects. A subclass defines `__call__` for the calls before `install`, and always where
    vectorcall is not available.

    Instances hold an address, so they are copied and pickled only by a subclass that says how (`__reduce__`).
    """

    __slots__ = ("_called_state",)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if _supported():
            _flags(cls).value |= _HAVE_VECTORCALL


_state: Any = CompiledFunction.__dict__["_called_state"]


def install(function: CompiledFunction, state: Any, address: int) -> bool:
    """Have calls of `function` go straight to the C function at `address`, which finds `state` in it.

    False where that is not possible: calls stay with `__call__`.  The function keeps `state` alive.
    """
    if not _supported():
        return False
    _state.__set__(function, state)  # before the address: from then on it is read
    _vectorcall(function).value = address
    return True


_paused: WeakMap[CompiledFunction, int] = WeakMap()


def pause(function: CompiledFunction) -> None:
    """Have calls of `function` pass through `__call__` until `resume`."""
    if _supported() and (address := _vectorcall(function).value):
        _paused[function] = address
        _vectorcall(function).value = 0


def resume(function: CompiledFunction) -> None:
    """Have calls go where `install` has sent them again."""
    address = _paused.get(function)
    if address:
        _paused[function] = 0
        _vectorcall(function).value = address


def _vectorcall(function: CompiledFunction) -> ctypes.c_size_t:
    return ctypes.c_size_t.from_address(id(function) + FUNCTION_VECTORCALL)


def _state_is_where_compiled_code_looks() -> bool:
    sample, mark = CompiledFunction(), object()
    _state.__set__(sample, mark)
    return ctypes.c_size_t.from_address(id(sample) + FUNCTION_STATE).value == id(mark)


if _supported() and not _state_is_where_compiled_code_looks():
    raise ImportError("The first slot of a class is not behind the fields of its base: this interpreter is not known.")
