"""Calls of compiled functions without Python: what `backends.base.NativeCalls` asks for, on the CPU."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.backends.base import Entered
from tracejit.backends.callable import CompiledFunction
from tracejit.backends.cpu.calls.dispatch import NativeDispatcher, attach, ensure_loaded, make_dispatcher
from tracejit.backends.cpu.calls.dispatch_python import PythonDispatcher
from tracejit.backends.cpu.calls.watch import make_watch, words_hold
from tracejit.backends.cpu.codegen.program import FAILED_CHECK, slots_of
from tracejit.backends.cpu.compiled import status_error
from tracejit.backends.cpu.runtime import memory, pool
from tracejit.backends.cpu.tiers import TieredProgram
from tracejit.backends.cpython import native_dispatch_supported
from tracejit.backends.entry import EntrySpec, ProgramSlot, Slot, Watch
from tracejit.ir.program import Program
from tracejit.support.nodes import evolve
from tracejit.tracer.captured import Dependencies

__all__ = ["CPUCalls"]


class CPUCalls:
    """The native entries of functions: machine code that a dispatcher tries in turn."""

    def slots(self, program: Program, numbers: frozenset[int]) -> tuple[ProgramSlot, ...]:
        return slots_of(program, numbers)

    def dispatcher(
        self, function: CompiledFunction, miss: Callable[..., Any], name: str
    ) -> NativeDispatcher | PythonDispatcher:
        made = make_dispatcher(miss, name)
        attach(function, made)
        return made

    def enter(
        self,
        dispatcher: Callable[[], Any],
        spec: EntrySpec,
        slots: Callable[[Sequence[Any]], tuple[Slot, ...]],
        entered: Entered,
    ) -> NativeEntry:
        if entered.dependencies.any():
            spec = evolve(spec, watch=Watch(0, lambda: False))  # a real one when it is installed
        compiled = TieredProgram(entered.program, entered.numbers, entered.dims, functools.partial(_entry_text, spec))
        entry = NativeEntry(dispatcher, spec, slots, compiled, functools.partial(_failed, entered.again))
        entry.install(entered.dependencies, entered.arrays)
        return entry

    def compile(self, program: Program, dims: Mapping[str, int]) -> TieredProgram:
        return TieredProgram(program, frozenset(), dims)


def _entry_text(spec: EntrySpec) -> str:
    """The LLVM text of an entry, whose symbols are known from now on; none where dispatch is Python's."""
    if not native_dispatch_supported()[0]:
        return ""
    from tracejit.backends.cpu.calls.entry_emit import emit_entry  # for speed of import: not at the first call

    memory.ensure_loaded()
    pool.ensure_loaded()
    ensure_loaded()
    return emit_entry(spec, "entry")


class _Mark:
    """Lives as long as an entry that keeps it."""

    __slots__ = ("__weakref__",)


class NativeEntry:
    """A version's native entry: replaced by another over the same code when captured arrays or the memory
    of names have moved.

    It is installed when the program is in the second tier; until then all calls are Python's.
    """

    __slots__ = ("_dispatcher", "_failed", "_held", "_installed", "_slots", "_spec", "compiled")

    def __init__(
        self,
        dispatcher: Callable[[], Any],
        spec: EntrySpec,
        slots: Callable[[Sequence[Any]], tuple[Slot, ...]],
        compiled: TieredProgram,
        failed: Callable[[int, tuple[Any, ...], dict[str, Any]], Any],
    ) -> None:
        self.compiled = compiled
        self._dispatcher = dispatcher
        self._spec = spec
        self._slots = slots
        self._failed = failed
        self._held: Any = None
        # whether the dispatcher still has the entry: it drops those not used for long
        self._installed: Callable[[], Any] = lambda: None

    def install(self, dependencies: Dependencies, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        self.remove()
        if not self.compiled.is_final:
            return
        watch, held = make_watch(dependencies) if self._spec.watch is not None else (None, None)
        self._spec, self._held = evolve(self._spec, slots=self._slots(arrays), watch=watch), held
        mark = _Mark()
        self._installed = weakref.ref(mark)
        dispatcher = self._dispatcher()
        address = self.compiled.address("entry" if dispatcher.native else "program")
        dispatcher.add(self._spec, address, (self.compiled, tuple(arrays), held, mark), self._failed)

    def holds(self) -> bool:
        if not self.compiled.is_final:
            return True
        return self._installed() is not None and (self._spec.watch is None or words_hold(self._spec.watch))

    def finish(self) -> None:
        self.compiled.finish()

    def remove(self) -> None:
        if self._installed() is not None:
            self._dispatcher().remove(self._spec)


def _failed(again: Callable[..., Any], status: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an entry does when its program has returned a status."""
    if status == FAILED_CHECK:  # nothing has changed: it fails again where the failure can be read
        return again(*args, **kwargs)
    raise status_error(status)
