"""A fork waits until no thread compiles: the child would inherit locks that nobody is left to release."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Protocol

from tracejit.support.forks import at_fork
from tracejit.support.weak import WeakMap
from tracejit.tracer.interpreter import current_interpreter, eager

__all__ = ["FORKS"]

_PATIENCE = 10.0  # seconds that a fork waits for one function's compilation


class _Locked(Protocol):
    lock: threading.RLock


class _Forks:
    def __init__(self) -> None:
        self._states: WeakMap[_Locked, None] = WeakMap()
        self._gate = threading.Lock()  # held while a fork waits: what it waits for may make functions, nobody else
        self._lock = threading.Lock()
        self._held: list[_Locked] = []
        at_fork(self._before, self._after, self._in_child)

    def add(self, state: _Locked) -> None:
        """Have forks wait for a lock, as long as its owner lives."""
        with self._gate if current_interpreter() is eager else nullcontext(), self._lock:
            self._states[state] = None

    def _before(self) -> None:
        self._gate.acquire()
        with self._lock:
            states = list(self._states)
        self._held = [state for state in states if state.lock.acquire(timeout=_PATIENCE)]
        self._lock.acquire()

    def _after(self) -> None:
        for state in self._held:
            state.lock.release()
        self._held = []
        self._lock.release()
        self._gate.release()

    def _in_child(self) -> None:
        held = {id(state) for state in self._held}
        for state in self._states:
            if id(state) not in held:
                state.lock = threading.RLock()
        self._after()


FORKS = _Forks()
"""Everything whose lock a fork waits for."""
