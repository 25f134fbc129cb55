"""Two tiers of machine code: made quickly for a program's first run, made well in the background once it runs again.

LLVM at level 0 takes a fifth to a half of the time, and what it makes of our code gives the same bits and runs up to
seven times as long (products of matrices; most take less than twice). So a function that is called once is not waited
for, and one that is called often pays nothing in the end. A program that has so much to do that its first run would be
felt is made well at once.

A program in the first tier is called from Python; its native entry is made with the code of the second.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.backends.cpu.codegen.work import work
from tracejit.backends.cpu.compiled import CompiledProgram
from tracejit.backends.cpu.runtime import processor
from tracejit.ir.program import Program
from tracejit.support.config import config
from tracejit.support.forks import at_fork

__all__ = ["TieredProgram"]

_MOST = 1e7
"""Scalar operations of a run in the first tier: some 1 to 3 ms."""
_HOT = 2
"""The run that asks for the second tier."""


class TieredProgram:
    """A compiled program: `run` chooses the tier.

    dims: the extents of the first run.  entry: writes the text of the native entry, which the second tier has beside
    the program.
    """

    __slots__ = ("__weakref__", "_asked", "_code", "_dims", "_entry", "_runs", "program")

    def __init__(
        self, program: Program, numbers: frozenset[int], dims: Mapping[str, int], entry: Callable[[], str] = str
    ) -> None:
        self.program = program
        self._entry = entry
        self._dims = dims
        self._runs = 0
        self._asked: object = None
        quick = config.tiers and work(program, dims) <= _MOST
        self._code = CompiledProgram(program, numbers, "" if quick else entry(), quick=quick)

    @property
    def is_final(self) -> bool:
        """Whether it is in the second tier."""
        return not self._code.quick

    def address(self, symbol: str) -> int:
        """Where a function of the second tier lies."""
        return self._code.library.address(symbol)

    def run(self, inputs: Sequence[np.ndarray[Any, Any]], dims: dict[str, int]) -> list[Any]:
        if self._code.quick:
            self._ran(dims)
        return self._code.run(inputs, dims)

    def text(self, stage: str) -> str:
        return self._code.text(stage)

    def finish(self) -> None:
        """Have it in the second tier now.   Raises: CompileError."""
        if self._code.quick:
            self.rise(self._entry())

    def rise(self, entry: str) -> None:
        """Make the second tier, unless it is there already.   Raises: CompileError."""
        with processor.lock:
            if self._code.quick:
                self._code = self._code.final(entry)

    def _ran(self, dims: Mapping[str, int]) -> None:
        """Count a run in the first tier."""
        self._runs += 1
        if dims != self._dims and work(self.program, dims) > _MOST:
            self.finish()
        elif self._runs >= _HOT and self._asked is not _background.life:
            self._asked = _background.life
            _background.ask(self, self._entry())


class _Background:
    """A thread that makes second tiers, one after the other; it ends when there is nothing to do.

    life: another object in each process: what was asked for before a fork is not done in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        at_fork(self._lock.acquire, self._lock.release, self._forked)
        self._begin()

    def _begin(self) -> None:
        self.life = object()
        self._waiting: deque[tuple[weakref.ref[TieredProgram], str]] = deque()
        self._working = False

    def _forked(self) -> None:
        self._begin()
        self._lock.release()

    def ask(self, program: TieredProgram, entry: str) -> None:
        """Have `program` in the second tier some time, if it is still there then."""
        with self._lock:
            self._waiting.append((weakref.ref(program), entry))
            if self._working:
                return
            self._working = True
        try:
            threading.Thread(target=self._work, name="tracejit").start()
        except RuntimeError:  # the interpreter exits, or there are too many threads
            self._work()

    def _work(self) -> None:
        while True:
            with self._lock:
                # the interpreter waits for this thread to exit
                if not self._waiting or not threading.main_thread().is_alive():
                    self._waiting.clear()
                    self._working = False
                    return
                program, entry = self._waiting.popleft()
            _make(program(), entry)


def _make(program: TieredProgram | None, entry: str) -> None:
    """Make a second tier.  What goes wrong is said in the log, as nobody waits for it:
    the first tier does as well, only slower.
    """
    if program is None:
        return
    try:
        program.rise(entry)
    except Exception as error:
        import logging

        logging.getLogger("tracejit").warning("a function stays as it was compiled for its first call: %s", error)


_background = _Background()
