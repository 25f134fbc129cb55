"""The thread pool under `parallel` axes: fork and join in IR, workers parked in native code.

Native symbols, which every module may declare:

    declare void @tj_parallel_for(ptr %fn, ptr %arg, i64 %chunks)
        fn(ptr arg, i64 chunk) for each chunk, in any order
    declare i32 @tj_parallel_for_interruptible(ptr %fn, ptr %arg, i64 %chunks, ptr %stop)
        asks tj_poll between the caller's chunks
    declare i32 @tj_check_interrupt()
        not 0: a Python exception is set; clean up and return
    declare i32 @tj_poll(ptr %stop)
        the same, once: then the i32 at %stop is 1, for all to see
    @tj_pool_threads = external global i64
        threads a job may get; results must not depend on it

# Note [one word]
A job is claimed chunk by chunk by compare-and-swap on one word that holds (epoch << 20 | next chunk). A worker that
comes late, even by several jobs, fails its swap and has touched nothing. The caller executes chunks too, and at the end
waits only for chunks that others have claimed, never for a thread that the system has not scheduled. Descriptions of
jobs are double-buffered by the epoch's parity: what was read before a successful claim is valid, since that job cannot
end before the claimed chunk does and the buffer is not rewritten before the job after the next begins. An epoch has 44
bits: a worker would have to lose the processor between two instructions for two months of back-to-back jobs to take an
old epoch for a new one. Jobs of more chunks than 20 bits hold are executed in segments.

# Note [who runs serially]
A try-lock guards the job slot. Nested calls, and calls by a second Python thread while the pool is busy, find it taken
and run their chunks themselves. So a chunk must not wait for another chunk.

# Note [threads]
Workers are native threads without any Python state: they hold no lock of the interpreter, take no signals, and end with
the process. They start at the first job of more than one chunk, in a forked child too. A worker that ran out of work
spins for about 40 us, then sleeps in the kernel; so does the caller that waits for a last chunk. Whoever is woken while
chunks are left wakes two more.

# Note [waking]
To wake a thread costs the caller 5 to 10 us, and it comes 10 to 50 us later: more than many jobs take. While workers
sleep, the caller takes the time of its first chunk, remembers it per function, and wakes only for jobs, or bursts of
jobs, that last more than 50 us. This decides who executes chunks, never what they compute. While workers spin no clock
is read.

# Note [interrupts]
Python's signal handlers run in the main thread only, when it holds the GIL and is asked to (`PyErr_CheckSignals`).
Native code asks through `tj_check_interrupt`: 5 ns for the clock, and every 50 ms, in the main thread, the GIL is taken
and handlers run. It may be called with or without the GIL; a thread that has it lets others run then. Whoever is told
that an exception is set stores 1 to the stop word of its program (`tj_poll` does); from then on no handler runs before
the exception is reported, chunks not begun of a `tj_parallel_for_interruptible` are dropped, and those in execution
return as soon as they look. The result 1 means that an exception is set and that the job's output is incomplete.

# Note [code generation]
The module is compiled without optimisation: 9 ms instead of 40 when the first parallel program is loaded, for 10 ns
more a chunk.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.backends.cpu.runtime.object_cache import load_cached
from tracejit.backends.cpu.runtime.os_functions import native_symbols, native_text
from tracejit.backends.cpu.runtime.templates import Template
from tracejit.support.platform import thread_count

__all__ = ["ensure_loaded", "ensure_started", "parallel_for", "pool_size", "set_threads"]

_SPIN_MICROSECONDS = 40
_POLL_MILLISECONDS = 50
_CHUNKS_A_POLL = 4  # a power of two: chunks between two looks for Ctrl-C; those that last long look themselves
_WAKE_NANOSECONDS = 50_000  # a job shorter than this ends before sleeping workers are there
_BURST_NANOSECONDS = 30_000  # jobs closer than this count as one
_CHUNK_BITS = 20
_SEGMENT = 1 << (_CHUNK_BITS - 1)  # chunks published at once
_MOST_THREADS = 1024
_PYTHON = (
    "PyThread_get_thread_ident", "PyGILState_Ensure", "PyGILState_Release", "PyGILState_GetThisThreadState",
    "PyErr_CheckSignals", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
# one function: its name since Python 3.13, and before
_RUNNING = "PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"
_EXPORTED = (
    "tj_parallel_for", "tj_parallel_for_interruptible", "tj_check_interrupt", "tj_poll", "tj_pool_threads",
)  # fmt: skip


def _text() -> str:
    return Template("runtime/pool").text(
        chunk_bits=_CHUNK_BITS,
        chunk_mask=(1 << _CHUNK_BITS) - 1,
        epoch_mask=(1 << (64 - _CHUNK_BITS)) - 1,
        segment=_SEGMENT,
        poll_mask=_CHUNKS_A_POLL - 1,
        poll_milliseconds=_POLL_MILLISECONDS,
        wake_nanoseconds=_WAKE_NANOSECONDS,
        burst_nanoseconds=_BURST_NANOSECONDS,
    )


class _Native:
    """The loaded module's functions as Python callables that release the GIL."""

    def __init__(self) -> None:
        python = {name: _address(getattr(ctypes.pythonapi, name)) for name in _PYTHON}
        python[_RUNNING[0]] = next(
            _address(getattr(ctypes.pythonapi, name)) for name in _RUNNING if hasattr(ctypes.pythonapi, name)
        )
        library = load_cached(native_text() + _text(), symbols={**native_symbols(), **python})
        self.addresses = {name: library.address(name) for name in _EXPORTED}
        self.parallel_for = _function(library, "tj_parallel_for", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self.resize = _function(library, "resize", ctypes.c_int64, ctypes.c_int32)
        self.reset = _function(library, "reset", ctypes.c_int64)
        self.alive = (ctypes.c_int32 * _MOST_THREADS).from_address(library.address("alive"))
        self.spin_limit = ctypes.c_int32.from_address(library.address("spin_limit"))
        self.pause_many = _function(library, "pause_many", ctypes.c_int32)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _function(library: llvm.Library, name: str, *arguments: type) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(library.address(name))


_threads: int | None = None  # what set_threads asked for


_loaded: _Native | None = None


def _native() -> _Native:
    return _loaded or _load()


def _load() -> _Native:
    global _loaded
    with processor.lock:
        if _loaded is not None:
            return _loaded
        native = _Native()
        native.reset(_main_thread())
        native.spin_limit.value = _pauses_in(_SPIN_MICROSECONDS, native)
        native.resize(pool_size() - 1, 0)
        for name, address in native.addresses.items():
            llvm.define_symbol(name, address)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: native.reset(_main_thread()))
        _loaded = native
        return native


def _main_thread() -> int:
    return threading.main_thread().ident or 0


def _pauses_in(microseconds: int, native: _Native) -> int:
    """How many spin-loop hints last that long: one takes 1 to 140 cycles, by processor."""
    count = 500
    seconds = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        native.pause_many(count)
        seconds = min(seconds, time.perf_counter() - start)
    return min(200_000, max(50, int(count * microseconds * 1e-6 / seconds)))


def ensure_loaded() -> None:
    """Compile the pool (once, about 20 ms) and define its symbols. `llvm.load` does it for a module
    that declares one of them.
    """
    _native()


def ensure_started() -> None:
    """Start the workers now. Not needed: the first job of several chunks does it."""
    _resize(pool_size(), now=True)


def pool_size() -> int:
    """The threads that a job may run on, the caller included: `set_threads`, TRACEJIT_THREADS,
    or the processors at hand.
    """
    return min(thread_count(), _MOST_THREADS) if _threads is None else _threads


def set_threads(count: int) -> None:
    """Let jobs run on `count` threads, the caller included; 1 runs all on the caller. Waits for a running job to end.

    Results never depend on it. Raises: ValueError unless 1 <= count <= 1024.
    """
    global _threads
    if not 1 <= count <= _MOST_THREADS:
        raise ValueError(f"set_threads({count}): give a number of threads from 1 to {_MOST_THREADS}.")
    _threads = count
    if _loaded is not None:
        _resize(count, now=False)


def _resize(count: int, *, now: bool) -> None:
    native = _native()
    while not native.resize(count - 1, int(now)):
        time.sleep(0.0005)


def parallel_for(function: int, argument: int, chunks: int) -> None:
    """Call the native `void fn(ptr arg, i64 chunk)` at address `function` for every chunk. Releases the GIL."""
    _native().parallel_for(function, argument, chunks)
