"""Running one kernel under several schedules: programs of one kernel, equal results, interleaved times.

Times are of the same arguments, already in place.  Contenders take turns, so that a disturbance of the machine hits all of them, and
are compared by medians; a winner is believed only if it also wins most of the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.backends.base import Backend
from tracejit.ir.kernel import Const, Kernel
from tracejit.ir.program import Copy, Launch, Program, ProgramBuffer
from tracejit.ir.schedule import Schedule, apply
from tracejit.ir.types import Dim

__all__ = ["Contender", "Workload", "agrees", "interleave", "single_kernel_program", "wins"]

_SAMPLE_SECONDS = 200e-6  # a sample lasts about this long: the clock and the call cost little of it
_MARGIN = 0.03  # a gain below this is noise
_ROUNDS_WON = 0.75  # a winner is faster in at least this share of the rounds


@define(eq=False)
class Workload:
    """A kernel with arguments: what candidates run on.

    arrays: one an argument.  kept: names of outputs whose old contents matter (updates in place), which each run starts from.
    """

    kernel: Kernel
    arrays: Sequence[np.ndarray[Any, Any]]
    dims: Mapping[str, int]
    kept: frozenset[str] = frozenset()

    def inputs(self) -> list[np.ndarray[Any, Any]]:
        names = [b.name for b in self.kernel.buffers]
        return [a for n, a in zip(names, self.arrays, strict=True) if n not in self.kernel.outputs or n in self.kept]


def single_kernel_program(kernel: Kernel, schedule: Schedule, kept: frozenset[str] = frozenset()) -> Program:
    """A program that runs one kernel: its inputs and `kept` outputs are arguments, its outputs results."""
    scheduled = apply(kernel, schedule)
    inputs: list[ProgramBuffer] = []
    outputs: list[ProgramBuffer] = []
    arguments: list[ProgramBuffer] = []
    steps: list[Any] = []
    symbols: set[str] = set(kernel.dims)
    for b in kernel.buffers:
        shape = tuple(n.value if isinstance(n, Const) else n for n in b.shape)
        symbols |= {s for n in shape if isinstance(n, Dim) for s in n.symbols()}
        if b.name in kernel.outputs:
            made = ProgramBuffer(f"{b.name}_out", b.dtype, shape, "output")
            outputs.append(made)
            arguments.append(made)
            if b.name not in kept:
                continue
            old = ProgramBuffer(b.name, b.dtype, shape, "input")
            steps.append(Copy(made, old))
            inputs.append(old)
        else:
            given = ProgramBuffer(b.name, b.dtype, shape, "input", b.layout)
            inputs.append(given)
            arguments.append(given)
    steps.append(Launch(scheduled, tuple(arguments), schedule))
    return Program(kernel.name, tuple(inputs), tuple(outputs), (), tuple(steps), tuple(sorted(symbols)))


@define(eq=False)
class Contender:
    """A compiled candidate and its samples, in seconds a run."""

    schedule: Schedule
    compiled: Any
    call: Callable[[], None]
    repetitions: int = 1
    samples: list[float] = field(factory=list)

    @classmethod
    def of(cls, backend: Backend, workload: Workload, schedule: Schedule) -> Contender:
        """Compile a schedule.  Raises what the backend raises."""
        compiled: Any = backend.compile(single_kernel_program(workload.kernel, schedule, workload.kept))
        return cls(schedule, compiled, compiled.prepare(workload.inputs(), dict(workload.dims)))

    def results(self, workload: Workload) -> list[np.ndarray[Any, Any]]:
        return self.compiled.run(workload.inputs(), dict(workload.dims))

    @property
    def seconds(self) -> float:
        return statistics.median(self.samples)

    def warm_up(self) -> float:
        """Run until the time of a run is known roughly; sets how many runs make a sample."""
        self.call()
        once = min(self._time(1), self._time(1))
        self.repetitions = max(1, int(_SAMPLE_SECONDS / max(once, 1e-8)))
        return once

    def sample(self) -> None:
        self.samples.append(self._time(self.repetitions))

    def _time(self, repetitions: int) -> float:
        call, clock = self.call, time.perf_counter
        start = clock()
        for _ in range(repetitions):
            call()
        return (clock() - start) / repetitions


def interleave(contenders: Sequence[Contender], rounds: int, deadline: float) -> int:
    """Sample all contenders in turns; how many whole rounds were run before `deadline` (of time.monotonic), at least one."""
    done = 0
    for n in range(rounds):
        if n and time.monotonic() > deadline:
            break
        start = n % len(contenders)
        for c in (*contenders[start:], *contenders[:start]):
            c.sample()
        done += 1
    return done


def wins(challenger: Contender, default: Contender, rounds: int) -> bool:
    """Whether the last `rounds` samples, taken in turns, show the challenger faster beyond noise."""
    ours, theirs = challenger.samples[-rounds:], default.samples[-rounds:]
    won = sum(a < b for a, b in zip(ours, theirs, strict=True))
    return statistics.median(ours) < (1 - _MARGIN) * statistics.median(theirs) and won >= _ROUNDS_WON * len(ours)


_TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-11}  # by item size, of the largest value: another order of sums, not another algorithm


def agrees(got: Sequence[np.ndarray[Any, Any]], want: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Equal integers and bools; floating-point numbers equal up to the order of sums; NaN and infinities in the same places."""
    for g, w in zip(got, want, strict=True):
        if g.dtype != w.dtype or g.shape != w.shape:
            return False
        if g.dtype.kind != "f":
            if not np.array_equal(g, w):
                return False
            continue
        finite = np.isfinite(w)
        if not np.array_equal(g[~finite], w[~finite], equal_nan=True):
            return False
        error = np.abs(np.subtract(g[finite], w[finite], dtype=np.float64))
        scale = np.abs(w[finite], dtype=np.float64).max(initial=0.0)
        if not bool(np.all(error <= _TOLERANCE[g.dtype.itemsize] * scale)):
            return False
    return True
