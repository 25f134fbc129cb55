"""From a Python call to the entry that matches it, without Python code between.

`NativeDispatcher.callable` is a builtin function whose C function is `tj_dispatch`, compiled by LLVM once per process.
Its `self` is an array of words that holds the chain of entries, most recently used first. An entry that is being tried
is held by a reference, so other threads, or the call itself, may add and remove entries. Past a few entries a table of
hints, indexed by a hash of the arguments' types and shapes, names the entry to try first, and entries are stamped when
used so that the least recently used one makes room.

Everything the C functions change is changed under the GIL, in one piece.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tracejit.backends import entry as e
from tracejit.backends.callable import CompiledFunction, install
from tracejit.backends.cpu.calls import dispatch_chain as chain
from tracejit.backends.cpu.calls.dispatch_python import PythonDispatcher, unexpected_status
from tracejit.backends.cpu.calls.entry_constants import Number, constants
from tracejit.backends.cpu.calls.entry_support import SUPPORT_FUNCTIONS, support_text
from tracejit.backends.cpython import c_functions, layout, native_dispatch_supported

__all__ = ["NativeDispatcher", "attach", "ensure_loaded", "make_dispatcher"]

_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02
_TYPES = {
    "PyArray_Type": np.ndarray, "PyComplex_Type": complex, "PyFloat_Type": float, "PyTuple_Type": tuple,
    "PyUnicode_Type": str, "_Py_TrueStruct": True,
}  # fmt: skip


def make_dispatcher(miss: Callable[..., Any], name: str = "compiled") -> NativeDispatcher | PythonDispatcher:
    """A dispatcher of the kind this process supports. Its `native` says which address `add` takes."""
    return NativeDispatcher(miss, name) if native_dispatch_supported()[0] else PythonDispatcher(miss, name)


class _State(np.ndarray):
    """The words behind a dispatcher. A subclass so that it carries `keep`,
    and an array because its memory outlives the garbage collector's `tp_clear`: the builtin function reads its
    PyMethodDef, which lies in here, while it is deallocated.
    """

    keep: list[Any]


class _Entry:
    """Holds everything that one entry's code points to."""

    __slots__ = ("keep", "objects", "record", "spec", "words")

    def __init__(self, spec: e.EntrySpec, address: int, objects: list[Any], keep: Any) -> None:
        self.spec = spec
        self.objects = objects
        self.keep = keep
        words = [item.value % 2**64 if isinstance(item, Number) else id(item) for item in objects]
        self.words = np.array(words, np.uint64)
        self.record = np.zeros(chain.RECORD_WORDS, np.uint64)
        self.record[: chain.STAMP] = address, self.words.ctypes.data, id(self)


class NativeDispatcher:
    """Entries tried in turn; a call that none matches goes to `miss(*args, **kwargs)`.

    callable: the builtin function to call.
    state: what it is bound to. Both keep all that calls need alive; the dispatcher itself need not live on.

    Raises: RuntimeError where native dispatch is not supported.
    """

    __slots__ = ("_entries", "_lock", "callable", "state")
    native = True

    def __init__(self, miss: Callable[..., Any], name: str = "compiled") -> None:
        native = _native()
        text = name.encode("utf-8", "replace") + b"\0"
        words = np.zeros(chain.NAME + len(text) // 8 + 1, np.uint64)
        words.view(np.uint8)[8 * chain.NAME :][: len(text)] = np.frombuffer(text, np.uint8)
        words[chain.MISS] = id(miss)
        words[chain.METHOD : chain.METHOD + 3] = (
            words.ctypes.data + 8 * chain.NAME,
            native.dispatch,
            _METH_FASTCALL | _METH_KEYWORDS,
        )
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()
        self.state = words.view(_State)
        self.state.keep = [miss, self._entries]
        self.state.flags.writeable = False
        self.callable: Callable[..., Any] = native.new_function(
            words.ctypes.data + 8 * chain.METHOD, self.state, None, None
        )

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, spec: e.EntrySpec, address: int, keep_alive: object, on_status: Callable[..., Any] = unexpected_status
    ) -> None:
        """Try `spec` from now on, before the entries there are. Beyond `CAPACITY` (64) the least recently used entry
        goes.

        address: of the function that `emit_entry(spec, ...)` wrote.
        keep_alive: held as long as the entry, and during its calls.
        on_status: called as `on_status(status, args, kwargs)` when the program returns a status that is not 0; raises,
        or gives the result.
        """
        entry = _Entry(spec, address, list(constants(spec, on_status).values()), keep_alive)
        with self._lock:
            if len(self._entries) >= chain.CAPACITY:
                self._evict()
            record = entry.record.ctypes.data
            self._entries[record] = entry
            _native().append(self.state.ctypes.data, record)

    def remove(self, spec: e.EntrySpec) -> None:
        """Forget the entries of this very spec. Calls in progress finish."""
        with self._lock:
            gone = [(record, entry) for record, entry in self._entries.items() if entry.spec is spec]
            for record, _ in gone:
                _native().remove(self.state.ctypes.data, record)
                del self._entries[record]
        gone.clear()  # outside the lock

    def clear(self) -> None:
        """Forget all entries. Calls in progress finish."""
        with self._lock:
            _native().clear(self.state.ctypes.data)
            gone = list(self._entries.values())
            self._entries.clear()
        gone.clear()  # outside the lock: what they keep alive may call back

    def _evict(self) -> None:
        record, _ = min(self._entries.items(), key=lambda item: int(item[1].record[chain.STAMP]))
        _native().remove(self.state.ctypes.data, record)
        del self._entries[record]


class _Native:
    """The support library's functions, as Python calls them: with the GIL."""

    def __init__(self) -> None:
        from tracejit.backends.cpu.runtime import llvm  # for speed of import: LLVM costs tens of milliseconds
        from tracejit.backends.cpu.runtime.object_cache import load_cached  # for speed of import, too

        for symbol, address in c_functions().items():
            llvm.define_symbol(symbol, address)
        types = {symbol: id(kind) for symbol, kind in _TYPES.items()}
        types["PyExc_ReferenceError"] = ctypes.addressof(
            ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyExc_ReferenceError")
        )
        c_library = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
        types["tj_compare_memory"] = ctypes.cast(c_library.memcmp, ctypes.c_void_p).value or 0
        library = load_cached(
            support_text(layout()) + chain.chain_text(layout()), passes="always-inline", symbols=types
        )
        for symbol in SUPPORT_FUNCTIONS:
            llvm.define_symbol(symbol, library.address(symbol))
        change = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        create = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
        )
        self.dispatch = library.address("tj_dispatch")
        self.vectorcall = library.address("tj_vectorcall")
        self.append = change(library.address("tj_append"))
        self.remove = change(library.address("tj_remove"))
        self.clear = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(library.address("tj_clear"))
        self.new_function = create(ctypes.cast(ctypes.pythonapi.PyCMethod_New, ctypes.c_void_p).value or 0)


_loading = threading.Lock()


def _native() -> _Native:
    with _loading:
        return _loaded()


@cache
def _loaded() -> _Native:
    return _Native()


def ensure_loaded() -> None:
    """Make every symbol that an entry refers to known to `llvm.load`.

    Raises: RuntimeError where native dispatch is not supported.
    """
    _native()


def attach(function: CompiledFunction, dispatcher: NativeDispatcher | PythonDispatcher) -> bool:
    """Have calls of `function` go straight to `dispatcher`.  False where that is not possible:
    they stay with its `__call__`.
    """
    return isinstance(dispatcher, NativeDispatcher) and install(function, dispatcher.state, _native().vectorcall)
