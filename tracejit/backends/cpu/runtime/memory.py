"""Recycled memory for large results and scratch, and the one function that makes result arrays.

Native symbols, which every module may declare:

    declare ptr @tj_alloc(i64 %bytes)
        null if there is no memory; 64-byte aligned, 4096 from 64 KiB on
    declare void @tj_free(ptr %block, i64 %bytes)
        null is fine; the size is not needed, only convenient to pass
    declare ptr @tj_new_array(ptr %descr, i32 %nd, ptr %dims)
        a new reference to a C-contiguous ndarray that owns its data, which is not initialised; null with an exception
        set. Needs the GIL, borrows %descr

A page that the system has just given costs a fault and a clearing, as much as the computation that fills it: `x + 1`
into 64 MB takes 5.1 ms in memory used before, 9 in fresh huge pages and 37 in fresh small ones (2 cores, Zen 4, a
virtual machine; NumPy's allocator 10). Blocks of 64 KiB and more are therefore kept when they are freed, up to a limit,
and given out again; smaller ones go to malloc and to NumPy's own small cache.

# Note [who owns the data]
The array owns it (`flags.owndata`), through a memory handler of ours (NEP 49) in the array's `mem_handler` field: NumPy
frees, or resizes, through the handler that the array names, whoever lets go of it, in whatever thread. To make and drop
an array so costs 148 ns (4 MB) or 112 ns (40 bytes; NumPy alone 110). NumPy's way to attach a handler, a context
variable set around the allocation, adds 450 ns. Arrays that others make never see this handler. The field is part of
NumPy's public struct; its place is checked when the module is loaded, and where it differs arrays come from NumPy's
allocator. A base object instead would leave `owndata` false and `resize` refused.

# Note [blocks]
A header of 64 bytes lies before the data: what malloc returned, the capacity, links and the time of release. Capacities
are rounded up to 8 classes an octave. A request takes the youngest block of its class or of the next two. Free blocks
are also in one list by age: the oldest are given back when the limit is passed, or after 30 s without use (noticed at
the next release).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.backends.cpu.runtime.object_cache import load_cached
from tracejit.backends.cpu.runtime.os_functions import native_symbols, native_text
from tracejit.backends.cpu.runtime.templates import Template
from tracejit.support.config import variable
from tracejit.support.errors import OutOfMemory
from tracejit.support.platform import physical_memory

__all__ = ["alloc", "ensure_loaded", "free", "held_bytes", "limit_bytes", "new_array", "set_limit", "trim"]

_LARGE = 64 << 10  # bytes from which on blocks are recycled
_MOST = 1 << 47  # bytes: more is refused without asking
_PAGE = 4096
_HUGE = 4 << 20  # bytes from which on huge pages are asked for
_HUGE_PAGE = 2 << 20
_STALE_MILLISECONDS = 30_000
_CLASSES = 272  # of capacities up to 2^48
_FIRST_CLASS = (15 - 3) * 8 + 15  # what `@classify` counts from: the number of the class of `_LARGE`
_NAME = 127  # bytes of a handler's name in NumPy's struct, after which comes its version


def _text(head: int, recycle: bool) -> str:
    """The module for objects whose header has `head` bytes; without `recycle` the data of all arrays is NumPy's."""
    return Template("runtime/memory").text(
        large=_LARGE,
        most=_MOST,
        page=_PAGE,
        huge=_HUGE,
        huge_page=_HUGE_PAGE,
        stale_milliseconds=_STALE_MILLISECONDS,
        classes=_CLASSES,
        lists_bytes=8 * _CLASSES,
        first_class=_FIRST_CLASS,
        padding=r"\00" * (_NAME - len("tracejit")),
        itemsize=head + 24,
        flags=head + 48,
        mem_handler=head + 72,
        owndata=4,
        recycle="true" if recycle else "false",
    )


class _Native:
    """The loaded module's functions and variables."""

    def __init__(self) -> None:
        head = object.__basicsize__
        text = native_text() + _text(head, recycle=_layout_is_known(head))
        library = load_cached(text, symbols={**native_symbols(), **_python_symbols()})
        self.addresses = {name: library.address(name) for name in ("tj_alloc", "tj_free", "tj_new_array")}
        self.held = ctypes.c_int64.from_address(library.address("held"))
        self.limit = ctypes.c_int64.from_address(library.address("limit"))
        self.alloc = _function(library, "tj_alloc", ctypes.c_void_p, ctypes.c_int64)
        self.free = _function(library, "tj_free", None, ctypes.c_void_p, ctypes.c_int64)
        self.trim = _function(library, "trim", None, ctypes.c_int64)
        self.forget = _function(library, "forget", None)
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int32, ctypes.c_void_p)
        self.new_array: Callable[..., Any] = prototype(self.addresses["tj_new_array"])
        self.capsule_name = ctypes.c_char_p(b"mem_handler")  # a capsule does not copy its name
        ctypes.c_void_p.from_address(library.address("capsule")).value = _capsule(
            library.address("handler"), self.capsule_name
        )


def _function(library: llvm.Library, name: str, result: type | None, *arguments: type) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *arguments)(library.address(name))


def _capsule(handler: int, name: ctypes.c_char_p) -> int:
    """A PyCapsule around the handler that is never released: arrays may outlive every module."""
    new = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return int(new(handler, name, None))


def _numpy_api(slot: int) -> int:
    """An entry of NumPy's C API table (numbers as in numpy/__multiarray_api.h; they never change)."""
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return int(ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))[slot])


def _python_symbols() -> dict[str, int]:
    python = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in ("Py_IncRef", "PyErr_NoMemory")
    }
    return {**python, "PyArray_Type": _numpy_api(2), "PyArray_NewFromDescr": _numpy_api(94)}


def _layout_is_known(head: int) -> bool:
    """Whether NumPy's public structs are where `tj_new_array` reads and writes:
    item sizes, flags, and the memory handler of an array.
    """
    get_handler = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_numpy_api(305))
    sizes = [ctypes.c_int64.from_address(id(np.dtype(name)) + head + 24).value for name in ("i1", "f4", "c16")]
    array = np.empty(3)
    flags = [ctypes.c_int32.from_address(id(a) + head + 48).value for a in (array, array[:2])]
    handlers = [ctypes.c_void_p.from_address(id(a) + head + 72).value for a in (array, array[:2])]
    return sizes == [1, 4, 16] and [f & 1287 for f in flags] == [1287, 1283] and handlers == [get_handler(), None]


_loaded: _Native | None = None


def _native() -> _Native:
    return _loaded or _load()


def _load() -> _Native:
    global _loaded
    with processor.lock:
        if _loaded is not None:
            return _loaded
        native = _Native()
        native.limit.value = _default_limit()
        for name, address in native.addresses.items():
            llvm.define_symbol(name, address)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=native.forget)
        _loaded = native
        return native


def _default_limit() -> int:
    text = variable("RECYCLE_BYTES")
    if not text:
        return min(1 << 30, physical_memory() // 4)
    if not text.isdecimal():
        raise ValueError(f"TRACEJIT_RECYCLE_BYTES must be a number of bytes, 0 to keep none, not {text!r}.")
    return int(text)


def ensure_loaded() -> None:
    """Compile the module (once, about 10 ms) and define its symbols. `llvm.load` does it for a module
    that declares one of them.
    """
    _native()


def alloc(size: int) -> int:
    """The address of `size` bytes of scratch, aligned to 64, from 64 KiB on to 4096.   Raises: OutOfMemory."""
    address: int | None = _native().alloc(size)
    if address is None:
        raise OutOfMemory(
            f"The system has no memory for a block. Free bytes held for reuse: {held_bytes()}.", requested=size
        )
    return address


def free(address: int) -> None:
    """Give back what `alloc` returned."""
    _native().free(address, 0)


def new_array(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array that is not initialised, C-contiguous, owning its data; large ones in recycled memory."""
    array: np.ndarray[Any, Any] = _native().new_array(dtype, len(shape), (ctypes.c_int64 * max(1, len(shape)))(*shape))
    return array


def held_bytes() -> int:
    """Bytes of free blocks that are kept for reuse."""
    return _loaded.held.value if _loaded is not None else 0


def limit_bytes() -> int:
    """The most bytes kept: `set_limit`, TRACEJIT_RECYCLE_BYTES,
    or 1 GiB but no more than a quarter of the machine's memory.
    """
    return _native().limit.value


def set_limit(size: int) -> None:
    """Keep at most `size` bytes from now on; 0 keeps none."""
    if size < 0:
        raise ValueError(f"set_limit({size}): give a number of bytes, 0 to keep none.")
    _native().limit.value = size
    trim(size)


def trim(keep: int = 0) -> None:
    """Give free blocks back to the system, oldest first, until at most `keep` bytes are held."""
    if _loaded is not None:
        _loaded.trim(keep)
