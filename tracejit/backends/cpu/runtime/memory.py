"""Recycled memory for large results and scratch, and the one function that makes result arrays.

Native symbols, which every module may declare:

    declare ptr @tj_alloc(i64 %bytes)                          ; null if there is no memory; 64-byte aligned, 4096 from 64 KiB on
    declare void @tj_free(ptr %block, i64 %bytes)              ; null is fine; the size is not needed, only convenient to pass
    declare ptr @tj_new_array(ptr %descr, i32 %nd, ptr %dims)  ; a new reference to a C-contiguous ndarray that owns its data, which is
                                                               ; not initialised; null with an exception set. Needs the GIL, borrows %descr

A page that the system has just given costs a fault and a clearing, as much as the computation that fills it: `x + 1` into 64 MB takes
5.1 ms in memory used before, 9 in fresh huge pages and 37 in fresh small ones (2 cores, Zen 4, a virtual machine; NumPy's allocator 10).
Blocks of 64 KiB and more are therefore kept when they are freed, up to a limit, and given out again; smaller ones go to malloc and to
NumPy's own small cache.

# Note [who owns the data]
The array owns it (`flags.owndata`), through a memory handler of ours (NEP 49) in the array's `mem_handler` field: NumPy frees, or resizes,
through the handler that the array names, whoever lets go of it, in whatever thread. To make and drop an array so costs 148 ns (4 MB) or
112 ns (40 bytes; NumPy alone 110). NumPy's way to attach a handler, a context variable set around the allocation, adds 450 ns. Arrays that
others make never see this handler. The field is part of NumPy's public struct; its place is checked when the module is loaded, and where it
differs arrays come from NumPy's allocator. A base object instead would leave `owndata` false and `resize` refused.

# Note [blocks]
A header of 64 bytes lies before the data: what malloc returned, the capacity, links and the time of release. Capacities are rounded up to 8
classes an octave. A request takes the youngest block of its class or of the next two. Free blocks are also in one list by age: the oldest
are given back when the limit is passed, or after 30 s without use (noticed at the next release).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from tracejit.backends.cpu.runtime import llvm
from tracejit.backends.cpu.runtime.object_cache import load_cached
from tracejit.support.errors import OutOfMemory
from tracejit.support.platform import native_symbols, native_text, physical_memory

__all__ = ["alloc", "ensure_loaded", "free", "held_bytes", "limit_bytes", "new_array", "set_limit", "trim"]

_LARGE = 64 << 10  # bytes from which on blocks are recycled
_PAGE = 4096
_HUGE = 4 << 20  # bytes from which on huge pages are asked for
_STALE_MILLISECONDS = 30_000
_CLASSES = 272  # of capacities up to 2^48

_STATE = f"""
%header = type {{ ptr, i64, ptr, ptr, ptr, ptr, i64, i64 }}    ; malloc's block, capacity, class links, age links (younger, older), time
@lock = internal global i32 0, align 128                     ; 0 free, 1 held, 2 held and somebody sleeps
@held = global i64 0, align 8                                ; bytes in free blocks
@limit = global i64 0, align 8
@lists = internal global [{_CLASSES} x ptr] zeroinitializer
@youngest = internal global ptr null
@oldest = internal global ptr null
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)

define internal void @acquire() {{
entry:
  %x = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %won = extractvalue {{ i32, i1 }} %x, 1
  br i1 %won, label %out, label %spin
spin:
  %k = phi i32 [ 0, %entry ], [ %k1, %spin2 ]
  call void @os_pause()
  %y = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %won2 = extractvalue {{ i32, i1 }} %y, 1
  br i1 %won2, label %out, label %spin2
spin2:
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 50
  br i1 %more, label %spin, label %sleep
sleep:
  %before = atomicrmw xchg ptr @lock, i32 2 acquire
  %free = icmp eq i32 %before, 0
  br i1 %free, label %out, label %wait
wait:
  call void @os_wait(ptr @lock, i32 2, i32 0)
  br label %sleep
out:
  ret void
}}

define internal void @release() {{
  %before = atomicrmw xchg ptr @lock, i32 0 release
  %asleep = icmp eq i32 %before, 2
  br i1 %asleep, label %wake, label %out
wake:
  call void @os_wake(ptr @lock, i32 1)
  br label %out
out:
  ret void
}}
"""

# Capacity classes: with k the highest bit of bytes - 1, capacities are multiples of 2^(k-3).
_CLASS = f"""
define internal {{ i64, i64 }} @classify(i64 %bytes) {{          ; class, capacity
  %c = sub i64 %bytes, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %c, i1 false)
  %shift = sub i64 60, %zeros
  %part = lshr i64 %c, %shift
  %part1 = add i64 %part, 1
  %capacity = shl i64 %part1, %shift
  %octave = mul i64 %shift, 8
  %number = add i64 %octave, %part
  %class = sub i64 %number, {(15 - 3) * 8 + 15}
  %a = insertvalue {{ i64, i64 }} poison, i64 %class, 0
  %b = insertvalue {{ i64, i64 }} %a, i64 %capacity, 1
  ret {{ i64, i64 }} %b
}}

; Takes a free block out of both lists. The lock is held.
define internal void @unlink(ptr %h) {{
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %nextp = getelementptr %header, ptr %h, i64 0, i32 2
  %previousp = getelementptr %header, ptr %h, i64 0, i32 3
  %youngerp = getelementptr %header, ptr %h, i64 0, i32 4
  %olderp = getelementptr %header, ptr %h, i64 0, i32 5
  %capacity = load i64, ptr %capacityp
  %next = load ptr, ptr %nextp
  %previous = load ptr, ptr %previousp
  %younger = load ptr, ptr %youngerp
  %older = load ptr, ptr %olderp
  %held = load i64, ptr @held
  %held1 = sub i64 %held, %capacity
  store atomic i64 %held1, ptr @held monotonic, align 8
  %both = call {{ i64, i64 }} @classify(i64 %capacity)
  %class = extractvalue {{ i64, i64 }} %both, 0
  %list = getelementptr ptr, ptr @lists, i64 %class
  %first = icmp eq ptr %previous, null
  %before = getelementptr %header, ptr %previous, i64 0, i32 2
  %from = select i1 %first, ptr %list, ptr %before
  store ptr %next, ptr %from
  %last = icmp eq ptr %next, null
  br i1 %last, label %ages, label %mend
mend:
  %after = getelementptr %header, ptr %next, i64 0, i32 3
  store ptr %previous, ptr %after
  br label %ages
ages:
  %is_youngest = icmp eq ptr %younger, null
  %younger_link = getelementptr %header, ptr %younger, i64 0, i32 5
  %a = select i1 %is_youngest, ptr @youngest, ptr %younger_link
  store ptr %older, ptr %a
  %is_oldest = icmp eq ptr %older, null
  %older_link = getelementptr %header, ptr %older, i64 0, i32 4
  %b = select i1 %is_oldest, ptr @oldest, ptr %older_link
  store ptr %younger, ptr %b
  ret void
}}

; Puts a block at the head of both lists. The lock is held.
define internal void @link(ptr %h, i64 %capacity, i64 %now) {{
  %both = call {{ i64, i64 }} @classify(i64 %capacity)
  %class = extractvalue {{ i64, i64 }} %both, 0
  %list = getelementptr ptr, ptr @lists, i64 %class
  %next = load ptr, ptr %list
  %older = load ptr, ptr @youngest
  %nextp = getelementptr %header, ptr %h, i64 0, i32 2
  %previousp = getelementptr %header, ptr %h, i64 0, i32 3
  %youngerp = getelementptr %header, ptr %h, i64 0, i32 4
  %olderp = getelementptr %header, ptr %h, i64 0, i32 5
  %timep = getelementptr %header, ptr %h, i64 0, i32 6
  store ptr %next, ptr %nextp
  store ptr null, ptr %previousp
  store ptr null, ptr %youngerp
  store ptr %older, ptr %olderp
  store i64 %now, ptr %timep
  store ptr %h, ptr %list
  store ptr %h, ptr @youngest
  %held = load i64, ptr @held
  %held1 = add i64 %held, %capacity
  store atomic i64 %held1, ptr @held monotonic, align 8
  %last = icmp eq ptr %next, null
  br i1 %last, label %ages, label %mend
mend:
  %after = getelementptr %header, ptr %next, i64 0, i32 3
  store ptr %h, ptr %after
  br label %ages
ages:
  %only = icmp eq ptr %older, null
  %older_link = getelementptr %header, ptr %older, i64 0, i32 4
  %b = select i1 %only, ptr @oldest, ptr %older_link
  store ptr %h, ptr %b
  ret void
}}
"""

_RECYCLE = f"""
; Unlinks the oldest blocks while more than %keep bytes are held or they were released before %stale; returns them chained. The lock is
; held.
define internal ptr @evict(i64 %keep, i64 %stale) {{
entry:
  br label %next
next:
  %chain = phi ptr [ null, %entry ], [ %h, %take ]
  %h = load ptr, ptr @oldest
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %look
look:
  %held = load i64, ptr @held
  %over = icmp ugt i64 %held, %keep
  %timep = getelementptr %header, ptr %h, i64 0, i32 6
  %time = load i64, ptr %timep
  %old = icmp slt i64 %time, %stale
  %go = or i1 %over, %old
  br i1 %go, label %take, label %out
take:
  call void @unlink(ptr %h)
  %linkp = getelementptr %header, ptr %h, i64 0, i32 2
  store ptr %chain, ptr %linkp
  br label %next
out:
  ret ptr %chain
}}

define internal void @give_back(ptr %chain) {{
entry:
  br label %next
next:
  %h = phi ptr [ %chain, %entry ], [ %rest, %one ]
  %end = icmp eq ptr %h, null
  br i1 %end, label %out, label %one
one:
  %linkp = getelementptr %header, ptr %h, i64 0, i32 2
  %rest = load ptr, ptr %linkp
  %raw = load ptr, ptr %h
  call void @free(ptr %raw)
  br label %next
out:
  ret void
}}

define void @trim(i64 %keep) {{
  call void @acquire()
  %chain = call ptr @evict(i64 %keep, i64 -9223372036854775808)
  call void @release()
  call void @give_back(ptr %chain)
  ret void
}}

; In a forked child: another thread may have been changing the lists, and the lock cannot be held over the fork, since threads that hold
; the GIL wait for it. So the child forgets the free blocks; it never touches them, so they cost it nothing.
define void @forget() {{
  call void @llvm.memset.p0.i64(ptr @lists, i8 0, i64 {8 * _CLASSES}, i1 false)
  store ptr null, ptr @youngest
  store ptr null, ptr @oldest
  store atomic i64 0, ptr @held monotonic, align 8
  store atomic i32 0, ptr @lock release, align 4
  ret void
}}

; A block from the system: data aligned to %alignment, its header before it.
define internal ptr @fresh(i64 %capacity, i64 %alignment) {{
  %slack = add i64 %alignment, 64
  %size = add i64 %capacity, %slack
  %raw = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %place
place:
  %address = ptrtoint ptr %raw to i64
  %far = add i64 %address, %slack
  %down = sub i64 0, %alignment
  %aligned = and i64 %far, %down
  %data = inttoptr i64 %aligned to ptr
  %h = getelementptr i8, ptr %data, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  store ptr %raw, ptr %h
  store i64 %capacity, ptr %capacityp
  ret ptr %data
fail:
  ret ptr null
}}

define ptr @tj_alloc(i64 %bytes) {{
entry:
  %small = icmp ult i64 %bytes, {_LARGE}
  br i1 %small, label %direct, label %check
direct:
  %p = call ptr @fresh(i64 %bytes, i64 64)
  ret ptr %p
check:
  %absurd = icmp ugt i64 %bytes, {1 << 47}
  br i1 %absurd, label %fail, label %search
search:
  %both = call {{ i64, i64 }} @classify(i64 %bytes)
  %class = extractvalue {{ i64, i64 }} %both, 0
  %capacity = extractvalue {{ i64, i64 }} %both, 1
  %last = add i64 %class, 2
  call void @acquire()
  br label %try
try:
  %c = phi i64 [ %class, %search ], [ %c1, %empty ]
  %list = getelementptr ptr, ptr @lists, i64 %c
  %h = load ptr, ptr %list
  %none = icmp eq ptr %h, null
  br i1 %none, label %empty, label %found
empty:
  %c1 = add i64 %c, 1
  %more = icmp ule i64 %c1, %last
  br i1 %more, label %try, label %new
found:
  call void @unlink(ptr %h)
  call void @release()
  %data = getelementptr i8, ptr %h, i64 64
  ret ptr %data
new:
  call void @release()
  %pays = icmp uge i64 %capacity, {_HUGE}
  %alignment = select i1 %pays, i64 {2 << 20}, i64 {_PAGE}
  %q = call ptr @fresh(i64 %capacity, i64 %alignment)
  %got = icmp ne ptr %q, null
  br i1 %got, label %out, label %again
again:
  call void @trim(i64 0)
  %r = call ptr @fresh(i64 %capacity, i64 %alignment)
  %got2 = icmp ne ptr %r, null
  br i1 %got2, label %out, label %fail
out:
  %result = phi ptr [ %q, %new ], [ %r, %again ]
  br i1 %pays, label %advise, label %leave
advise:
  call void @os_prefer_huge_pages(ptr %result, i64 %capacity)
  br label %leave
leave:
  ret ptr %result
fail:
  ret ptr null
}}

define void @tj_free(ptr %block, i64 %bytes) {{
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %out, label %look
look:
  %h = getelementptr i8, ptr %block, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %capacity = load i64, ptr %capacityp
  %small = icmp ult i64 %capacity, {_LARGE}
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %huge = icmp ugt i64 %capacity, %limit
  %direct = or i1 %small, %huge
  br i1 %direct, label %drop, label %keep
drop:
  %raw = load ptr, ptr %h
  call void @free(ptr %raw)
  ret void
keep:
  %now = call i64 @os_milliseconds()
  %stale = sub i64 %now, {_STALE_MILLISECONDS}
  call void @acquire()
  call void @link(ptr %h, i64 %capacity, i64 %now)
  %chain = call ptr @evict(i64 %limit, i64 %stale)
  call void @release()
  call void @give_back(ptr %chain)
  ret void
out:
  ret void
}}
"""

# The functions of the handler, as NumPy calls them. `resize` may shrink a block below the size that is recycled: the header still tells.
_HANDLER = f"""
define internal ptr @handler_malloc(ptr %context, i64 %bytes) {{
  %p = call ptr @tj_alloc(i64 %bytes)
  ret ptr %p
}}

define internal ptr @handler_calloc(ptr %context, i64 %count, i64 %size) {{
  %m = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue {{ i64, i1 }} %m, 0
  %over = extractvalue {{ i64, i1 }} %m, 1
  br i1 %over, label %fail, label %go
go:
  %p = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %bytes, i1 false)
  ret ptr %p
fail:
  ret ptr null
}}

define internal ptr @handler_realloc(ptr %context, ptr %old, i64 %bytes) {{
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %plain, label %compare
plain:
  %p = call ptr @tj_alloc(i64 %bytes)
  ret ptr %p
compare:
  %h = getelementptr i8, ptr %old, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %capacity = load i64, ptr %capacityp
  %fits = icmp ule i64 %bytes, %capacity
  %half = lshr i64 %capacity, 1
  %fills = icmp uge i64 %bytes, %half
  %stay = and i1 %fits, %fills
  br i1 %stay, label %same, label %move
same:
  ret ptr %old
move:
  %q = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %q, null
  br i1 %none, label %fail, label %copy
copy:
  %n = call i64 @llvm.umin.i64(i64 %bytes, i64 %capacity)
  call void @llvm.memcpy.p0.p0.i64(ptr %q, ptr %old, i64 %n, i1 false)
  call void @tj_free(ptr %old, i64 %capacity)
  ret ptr %q
fail:
  ret ptr null
}}

define internal void @handler_free(ptr %context, ptr %block, i64 %bytes) {{
  call void @tj_free(ptr %block, i64 %bytes)
  ret void
}}

@handler = global {{ [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }} {{
  [127 x i8] c"tracejit{chr(92) + "00"}{"".join(chr(92) + "00" for _ in range(118))}", i8 1,
  ptr null, ptr @handler_malloc, ptr @handler_calloc, ptr @handler_realloc, ptr @handler_free }}
"""


def _array_text(head: int, recycle: bool) -> str:
    """`tj_new_array` for objects whose header has `head` bytes; without `recycle` all data is NumPy's."""
    itemsize, flags, handler, owndata = head + 24, head + 48, head + 72, 4
    return f"""
@capsule = global ptr null
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyErr_NoMemory()
@PyArray_Type = external global i8

define ptr @tj_new_array(ptr %descr, i32 %nd, ptr %dims) {{
entry:
  call void @Py_IncRef(ptr %descr)
  %sizep = getelementptr i8, ptr %descr, i64 {itemsize}
  %size = load i64, ptr %sizep
  br i1 {"true" if recycle else "false"}, label %next, label %plain
next:
  %bytes = phi i64 [ %size, %entry ], [ %product, %multiply ]
  %k = phi i32 [ 0, %entry ], [ %k1, %multiply ]
  %more = icmp slt i32 %k, %nd
  br i1 %more, label %multiply, label %decide
multiply:
  %p = getelementptr i64, ptr %dims, i32 %k
  %extent = load i64, ptr %p
  %m = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %bytes, i64 %extent)
  %product = extractvalue {{ i64, i1 }} %m, 0
  %over = extractvalue {{ i64, i1 }} %m, 1
  %k1 = add i32 %k, 1
  br i1 %over, label %plain, label %next
decide:
  %large = icmp uge i64 %bytes, {_LARGE}
  br i1 %large, label %recycled, label %plain
plain:                                                     ; also where the size overflows: NumPy knows what to say
  %a = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  ret ptr %a
recycled:
  %data = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %plain, label %wrap
wrap:
  %b = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr %data, i32 1281, ptr null)
  %failed = icmp eq ptr %b, null
  br i1 %failed, label %undo, label %own
undo:
  call void @tj_free(ptr %data, i64 %bytes)
  ret ptr null
own:
  %capsule = load ptr, ptr @capsule
  call void @Py_IncRef(ptr %capsule)
  %handlerp = getelementptr i8, ptr %b, i64 {handler}
  store ptr %capsule, ptr %handlerp
  %flagsp = getelementptr i8, ptr %b, i64 {flags}
  %f = load i32, ptr %flagsp
  %f1 = or i32 %f, {owndata}
  store i32 %f1, ptr %flagsp
  ret ptr %b
}}
"""


class _Native:
    """The loaded module's functions and variables."""

    def __init__(self) -> None:
        head = object.__basicsize__
        text = native_text() + _STATE + _CLASS + _RECYCLE + _HANDLER + _array_text(head, recycle=_layout_is_known(head))
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
        ctypes.c_void_p.from_address(library.address("capsule")).value = _capsule(library.address("handler"), self.capsule_name)


def _function(library: llvm.Library, name: str, result: type | None, *arguments: type) -> Callable[..., Any]:
    return ctypes.CFUNCTYPE(result, *arguments)(library.address(name))


def _capsule(handler: int, name: ctypes.c_char_p) -> int:
    """A PyCapsule around the handler that is never released: arrays may outlive every module."""
    new = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
    return int(new(handler, name, None))


def _numpy_api(slot: int) -> int:
    """An entry of NumPy's C API table (numbers as in numpy/__multiarray_api.h; they never change)."""
    capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return int(ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))[slot])


def _python_symbols() -> dict[str, int]:
    python = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in ("Py_IncRef", "PyErr_NoMemory")}
    return {**python, "PyArray_Type": _numpy_api(2), "PyArray_NewFromDescr": _numpy_api(94)}


def _layout_is_known(head: int) -> bool:
    """Whether NumPy's public structs are where `tj_new_array` reads and writes: item sizes, flags, and the memory handler of an array."""
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
    with llvm.lock:
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
    text = os.environ.get("TRACEJIT_RECYCLE_BYTES", "").strip()
    if not text:
        return min(1 << 30, physical_memory() // 4)
    if not text.isdecimal():
        raise ValueError(f"TRACEJIT_RECYCLE_BYTES must be a number of bytes, 0 to keep none, not {text!r}.")
    return int(text)


def ensure_loaded() -> None:
    """Compile the module (once, about 10 ms) and define its symbols. `llvm.load` does it for a module that declares one of them."""
    _native()


def alloc(size: int) -> int:
    """The address of `size` bytes of scratch, aligned to 64, from 64 KiB on to 4096.   Raises: OutOfMemory."""
    address: int | None = _native().alloc(size)
    if address is None:
        raise OutOfMemory(f"The system has no memory for a block. Free bytes held for reuse: {held_bytes()}.", requested=size)
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
    """The most bytes kept: `set_limit`, TRACEJIT_RECYCLE_BYTES, or 1 GiB but no more than a quarter of the machine's memory."""
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
