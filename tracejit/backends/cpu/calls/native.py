"""Calls of compiled functions without Python: what `backends.base.NativeCalls` asks for, on the CPU."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.backends.base import Entered
from tracejit.backends.callable import CompiledFunction
from tracejit.backends.cpu.calls.dispatch import Dispatcher, attach, make_dispatcher
from tracejit.backends.cpu.calls.dispatch_python import PythonDispatcher
from tracejit.backends.cpu.calls.entry_emit import emit_entry
from tracejit.backends.cpu.calls.watch import make_watch, words_hold
from tracejit.backends.cpu.codegen.program import FAILED_CHECK, slots_of
from tracejit.backends.cpu.compiled import CompiledProgram, status_error
from tracejit.backends.cpu.runtime import memory, pool
from tracejit.backends.entry import EntrySpec, ProgramSlot, Slot, Watch
from tracejit.ir.program import Program
from tracejit.support.nodes import evolve
from tracejit.tracer.captured import Dependencies

__all__ = ["CPUCalls"]


class CPUCalls:
    """The native entries of functions: machine code that a dispatcher tries in turn."""

    def slots(self, program: Program, numbers: frozenset[int]) -> tuple[ProgramSlot, ...]:
        return slots_of(program, numbers)

    def dispatcher(self, function: CompiledFunction, miss: Callable[..., Any], name: str) -> Dispatcher | PythonDispatcher:
        made = make_dispatcher(miss, name)
        attach(function, made)
        return made

    def enter(self, dispatcher: Any, spec: EntrySpec, slots: Callable[[Sequence[Any]], tuple[Slot, ...]], entered: Entered) -> NativeEntry:
        memory.ensure_loaded()
        pool.ensure_loaded()
        if entered.dependencies.any():
            spec = evolve(spec, watch=Watch(0, lambda: False))  # a real one when it is installed
        compiled = CompiledProgram(entered.program, entered.numbers, emit_entry(spec, "entry") if dispatcher.native else "")
        entry = NativeEntry(dispatcher, spec, slots, compiled, functools.partial(_failed, entered.again))
        entry.install(entered.dependencies, entered.arrays)
        return entry


class _Mark:
    """Lives as long as an entry that keeps it."""

    __slots__ = ("__weakref__",)


class NativeEntry:
    """A version's native entry: replaced by another over the same code when captured arrays or the memory of names have moved."""

    __slots__ = ("_dispatcher", "_failed", "_held", "_installed", "_slots", "_spec", "compiled")

    def __init__(
        self,
        dispatcher: Any,
        spec: EntrySpec,
        slots: Callable[[Sequence[Any]], tuple[Slot, ...]],
        compiled: CompiledProgram,
        failed: Callable[[int, tuple[Any, ...], dict[str, Any]], Any],
    ) -> None:
        self.compiled = compiled
        self._dispatcher = dispatcher
        self._spec = spec
        self._slots = slots
        self._failed = failed
        self._held: Any = None
        self._installed: Callable[[], Any] = lambda: None  # whether the dispatcher still has the entry: it drops those not used for long

    def install(self, dependencies: Dependencies, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        self.remove()
        watch, held = make_watch(dependencies) if self._spec.watch is not None else (None, None)
        self._spec, self._held = evolve(self._spec, slots=self._slots(arrays), watch=watch), held
        mark = _Mark()
        self._installed = weakref.ref(mark)
        address = self.compiled.library.address("entry") if self._dispatcher.native else self.compiled.address
        self._dispatcher.add(self._spec, address, (self.compiled, tuple(arrays), held, mark), self._failed)

    def holds(self) -> bool:
        return self._installed() is not None and (self._spec.watch is None or words_hold(self._spec.watch))

    def remove(self) -> None:
        self._dispatcher.remove(self._spec)


def _failed(again: Callable[..., Any], status: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an entry does when its program has returned a status."""
    if status == FAILED_CHECK:  # nothing has changed: it fails again where the failure can be read
        return again(*args, **kwargs)
    raise status_error(status)
