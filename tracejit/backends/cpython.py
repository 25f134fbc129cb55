"""What compiled code knows about the interpreter it runs in: struct offsets, how a reference count is raised,
and the C functions it calls.

Nothing here is believed: every offset is compared with real objects (through ctypes) before native dispatch is allowed,
once per process. Where anything differs (another interpreter, free threading, a debug build, 32 bits),
`native_dispatch_supported` says why and calls are dispatched in Python. Offsets end up in compiled code, so
`Layout.key` belongs to the key of a disk cache.

Source: CPython's Include/cpython and Include/internal (3.11 to 3.14), NumPy's ndarraytypes.h and __multiarray_api.h
(1.23 to 2.x).
"""

from __future__ import annotations

import ctypes
import platform
import sys
import types
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tracejit.support.config import variable
from tracejit.support.nodes import as_dict, frozen

__all__ = [
    "PYTHON_FUNCTIONS",
    "Layout",
    "c_functions",
    "layout",
    "member_offset",
    "native_dispatch_supported",
    "probes",
]

PYTHON_FUNCTIONS = (
    "PyBool_FromLong", "PyDict_New", "PyDict_Next", "PyDict_SetItem", "PyErr_Clear", "PyErr_Occurred", "PyErr_SetNone",
    "PyEval_RestoreThread", "PyEval_SaveThread", "PyFloat_FromDouble", "PyList_New", "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLong", "PyObject_RichCompareBool", "PyObject_Vectorcall", "PyTuple_New", "PyType_GenericAlloc",
    "PyUnicode_Compare", "Py_DecRef", "Py_IncRef",
)  # fmt: skip
"""The functions of CPython that compiled code calls, under their own names."""

_NUMPY_FUNCTIONS = {"PyArray_Scalar": 60, "PyArray_NewFromDescr": 94}  # places in NumPy's table, part of its stable ABI
_NDARRAY_TYPE = 2
_DESCRIPTOR_MEMBER, _MEMBER_OFFSET = 40, 16  # PyMemberDescrObject.d_member, PyMemberDef.offset
_SWAPPED = ord(">" if sys.byteorder == "little" else "<")


@frozen
class Layout:
    """Byte offsets into the objects that compiled code reads.

    long_tag: the word at `long_size` is CPython 3.12's `lv_tag` (sign in bits 0-1, digit count from bit 3), not the
    signed digit count.
    wide_refcount: counts are one 64-bit word and no object is immortal (3.11); otherwise the low 32
    bits count, and `immortal_refcount` or more means immortal.
    swapped_byteorder: the character in a dtype of foreign byte order.
    """

    array_data: int = 16
    array_ndim: int = 24
    array_shape: int = 32
    array_strides: int = 40
    array_dtype: int = 56
    array_flags: int = 64
    dtype_byteorder: int = 26
    dtype_num: int = 28
    numpy_scalar: int = 16
    object_type: int = 8
    sequence_size: int = 16
    list_items: int = 24
    tuple_items: int = 24
    float_value: int = 16
    complex_value: int = 16
    long_size: int = 16
    long_digit: int = 24
    long_tag: bool = False
    wide_refcount: bool = True
    immortal_refcount: int = 1 << 31
    swapped_byteorder: int = _SWAPPED

    @property
    def key(self) -> str:
        """A text that is equal exactly for equal layouts."""
        return " ".join(str(int(value)) for value in as_dict(self).values())


def native_dispatch_supported() -> tuple[bool, str]:
    """Whether calls can be dispatched by compiled code here, and if not, why."""
    if (variable("DISPATCH") or "").lower() == "python":
        return False, "TRACEJIT_DISPATCH=python"
    reason = _checked_layout()
    return (False, reason) if isinstance(reason, str) else (True, "")


def layout() -> Layout:
    """The layout of this interpreter's objects.   Raises: RuntimeError where it is not known."""
    found = _checked_layout()
    if isinstance(found, str):
        raise RuntimeError(f"Compiled code cannot read this interpreter's objects: {found}.")
    return found


@cache
def c_functions() -> dict[str, int]:
    """Addresses of the C functions that compiled code calls, by name: `PYTHON_FUNCTIONS` and those of NumPy."""
    python = {name: _address(getattr(ctypes.pythonapi, name)) for name in PYTHON_FUNCTIONS}
    return python | {name: _numpy_table()[place] for name, place in _NUMPY_FUNCTIONS.items()}


def member_offset(kind: type, slot: str) -> int:
    """Where the objects of a class with `__slots__` hold the reference of one.

    Raises: TypeError if the class has no such slot.
    """
    descriptor = getattr(kind, slot, None)
    if not isinstance(descriptor, types.MemberDescriptorType):
        raise TypeError(f"{slot!r} is not in the __slots__ of {kind.__name__}.")
    return ctypes.c_ssize_t.from_address(_word(descriptor, _DESCRIPTOR_MEMBER) + _MEMBER_OFFSET).value


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _numpy_table() -> Any:
    core: Any = getattr(np, "_core", None) or np.core  # pyright: ignore[reportAttributeAccessIssue] -- NumPy 1.x
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = prototype(_address(pointer))(core._multiarray_umath._ARRAY_API, None)
    return ctypes.cast(table, ctypes.POINTER(ctypes.c_size_t))


@cache
def _checked_layout() -> Layout | str:
    refusal = _foreign_interpreter()
    if refusal:
        return refusal
    modern = sys.version_info >= (3, 12)
    # A tuple's items follow its header, which grew in 3.14; tp_basicsize counts the header.
    found = Layout(tuple_items=tuple.__basicsize__, long_tag=modern, wide_refcount=not modern)
    for name, right in probes(found):
        if not right:
            return (
                f"the C layout of {name} is not the expected one in Python {platform.python_version()}, NumPy "
                f"{np.__version__}"
            )
    return found


def _foreign_interpreter() -> str:
    if platform.python_implementation() != "CPython":
        return f"{platform.python_implementation()} is not CPython"
    if hasattr(sys, "gettotalrefcount"):
        return "this is a debug build of CPython"
    if object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_void_p):
        return "this is a free-threaded or tracing build of CPython"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "only 64-bit little-endian systems are supported"
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        return f"Python {platform.python_version()} is not one of 3.11 to 3.14"
    return ""


def probes(at: Layout) -> Iterator[tuple[str, bool]]:
    """(what, whether the layout describes it), each tried on live objects. Lazy,
    so that after a wrong answer no later pointer is read.
    """
    yield "reference counts", _refcount_is_right(at)
    yield "type pointers", all(_word(item, at.object_type) == id(type(item)) for item in _sample_objects())
    yield "tuples", _tuple_is_right(("a", 1.5, None), at)
    yield "lists", _list_is_right(at)
    yield "float", all(_read(ctypes.c_double, number, at.float_value) == number for number in (0.5, -3.25, 1e300))
    yield (
        "complex",
        _read(ctypes.c_double, 1.5 - 2.5j, at.complex_value) == 1.5
        and _read(ctypes.c_double, 1.5 - 2.5j, at.complex_value + 8) == -2.5,
    )
    yield (
        "int",
        all(
            _long_is_right(number, at)
            for number in (0, 1, -1, 5, -6, 257, 1 - 2**30, 2**30 - 1, 2**30, -(2**40), 2**62, 2**100)
        ),
    )
    yield "ndarray", all(_array_is_right(array, at) for array in _sample_arrays())
    yield (
        "dtype",
        all(_dtype_is_right(np.dtype(text), at) for text in ("=f4", ">f4", "<f4", "i1", "?", ">i8", "c16", "=u2")),
    )
    yield "NumPy scalars", _numpy_scalars_are_right(at)
    yield "slots", _slots_are_right()
    yield "NumPy's function table", _numpy_table_is_right()


def _read(kind: Any, item: object, offset: int) -> Any:
    return kind.from_address(id(item) + offset).value


def _word(item: object, offset: int) -> int:
    return _read(ctypes.c_ssize_t, item, offset)


def _refcount_is_right(at: Layout) -> bool:
    kind = ctypes.c_int64 if at.wide_refcount else ctypes.c_uint32
    item = object()
    before = _read(kind, item, 0)
    more = [item] * 7
    raised = _read(kind, item, 0) - before == len(more)
    return (
        raised and before < at.immortal_refcount and (_read(kind, None, 0) < at.immortal_refcount) == at.wide_refcount
    )


def _tuple_is_right(items: tuple[object, ...], at: Layout) -> bool:
    return _word(items, at.sequence_size) == len(items) and all(
        _word(items, at.tuple_items + 8 * place) == id(item) for place, item in enumerate(items)
    )


def _list_is_right(at: Layout) -> bool:
    items: list[object] = ["a", 1.5]
    items.append(None)
    if _word(items, at.sequence_size) != 3:
        return False
    start = _word(items, at.list_items)
    return all(ctypes.c_size_t.from_address(start + 8 * place).value == id(item) for place, item in enumerate(items))


def _long_is_right(number: int, at: Layout) -> bool:
    word = _word(number, at.long_size)
    digits = word >> 3 if at.long_tag else abs(word)
    if digits != (number.bit_length() + 29) // 30:
        return False
    if digits > 1:
        return True
    sign = 1 - (word & 3) if at.long_tag else word
    return sign * _read(ctypes.c_uint32, number, at.long_digit) == number


def _sample_objects() -> tuple[object, ...]:
    return 1, "s", [], np.zeros(1), int


def _sample_arrays() -> tuple[Any, ...]:
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen_view = base[:, ::-1]
    frozen_view.flags.writeable = False
    return (
        base,
        frozen_view,
        base[0, 0, 0:0],
        np.array(1j),
        np.zeros(9, np.uint8)[1:].view(np.float64),
        base.astype(">f4").T,
    )


def _array_is_right(array: Any, at: Layout) -> bool:
    if _read(ctypes.c_int32, array, at.array_ndim) != array.ndim or _word(array, at.array_data) != array.ctypes.data:
        return False
    if _read(ctypes.c_int32, array, at.array_flags) != array.flags.num or _word(array, at.array_dtype) != id(
        array.dtype
    ):
        return False
    words = ctypes.c_ssize_t * array.ndim
    if not array.ndim:
        return True
    shape, strides = (words.from_address(_word(array, offset)) for offset in (at.array_shape, at.array_strides))
    return tuple(shape) == array.shape and tuple(strides) == array.strides


def _dtype_is_right(dtype: np.dtype[Any], at: Layout) -> bool:
    order = _read(ctypes.c_ubyte, dtype, at.dtype_byteorder)
    return _read(ctypes.c_int32, dtype, at.dtype_num) == dtype.num and (order == at.swapped_byteorder) == (
        not dtype.isnative
    )


def _numpy_scalars_are_right(at: Layout) -> bool:
    double = _read(ctypes.c_double, np.float64(2.5), at.numpy_scalar)
    halves = [_read(ctypes.c_float, np.complex64(1.5 + 2.5j), at.numpy_scalar + place) for place in (0, 4)]
    return double == 2.5 and halves == [1.5, 2.5] and _read(ctypes.c_int8, np.int8(-7), at.numpy_scalar) == -7


class _Slots:
    __slots__ = ("first", "second")


def _slots_are_right() -> bool:
    item = _Slots()
    item.first, item.second = 1.5, "b"
    return all(_word(item, member_offset(_Slots, name)) == id(getattr(item, name)) for name in _Slots.__slots__)


def _numpy_table_is_right() -> bool:
    table = _numpy_table()
    if table[_NDARRAY_TYPE] != id(np.ndarray):
        return False
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    value = ctypes.c_float(2.5)
    made = prototype(table[_NUMPY_FUNCTIONS["PyArray_Scalar"]])(ctypes.addressof(value), np.dtype(np.float32), None)
    return type(made) is np.float32 and made == 2.5
