"""Running one kernel under several schedules: programs of one kernel, equal results, interleaved times.

Times are of the same arguments, already in place.  Contenders take turns, so that a disturbance of the machine hits all
of them, and are compared by medians; a winner is believed only if it also wins most of the rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.backends.base import Backend
from tracejit.backends.runner import seen_as
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Buffer, Const, Kernel
from tracejit.ir.passes.contract import ProductGroup
from tracejit.ir.passes.parts import parts_of_program
from tracejit.ir.program import Copy, Launch, Program, ProgramBuffer
from tracejit.ir.schedule import Schedule, Tile, apply
from tracejit.support.errors import ScheduleError

__all__ = ["Contender", "Workload", "agrees", "interleave", "single_kernel_program", "wins"]

_SAMPLE_SECONDS = 200e-6  # a sample lasts about this long: the clock and the call cost little of it
_MARGIN = 0.03  # a gain below this is noise
_ROUNDS_WON = 0.75  # a winner is faster in at least this share of the rounds


@define(eq=False)
class Workload:
    """A kernel with arguments: what candidates run on.

    arrays: one an argument.  kept: names of outputs whose old contents matter (updates in place), which each run starts
    from.
    product: of a matrix product what its kernel is made of.
    """

    kernel: Kernel
    arrays: Sequence[np.ndarray[Any, Any]]
    dims: Mapping[str, int]
    kept: frozenset[str] = frozenset()
    product: ProductGroup | None = None

    def scheduled(self, schedule: Schedule) -> Kernel:
        """The kernel with a schedule applied.  Raises ScheduleError."""
        if self.product is None and any(isinstance(d, Tile) for d in schedule.directives):
            raise ScheduleError(f"{schedule}: of kernel {self.kernel.name} only the plain loops are known")
        return apply(self.kernel, schedule, self.product)

    def inputs(self, kernel: Kernel | None = None) -> list[np.ndarray[Any, Any]]:
        """The arrays a run is given, in the shapes that `kernel`, one scheduled in some way, gives them."""
        arrays = {b.name: a for b, a in zip(self.kernel.buffers, self.arrays, strict=True)}
        given = [b for b in (kernel or self.kernel).buffers if b.name not in self.kernel.outputs or b.name in self.kept]
        return [seen_as(b, arrays[b.name], self.dims) for b in given]

    def outputs(self) -> list[Buffer]:
        return [b for b in self.kernel.buffers if b.name in self.kernel.outputs]


def single_kernel_program(kernel: Kernel, schedule: Schedule, kept: frozenset[str] = frozenset()) -> Program:
    """A program that runs one kernel to which `schedule` was applied:
    its inputs and `kept` outputs are arguments, its outputs results.
    """
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
    steps.append(Launch(kernel, tuple(arguments), schedule))
    return Program(kernel.name, tuple(inputs), tuple(outputs), (), tuple(steps), tuple(sorted(symbols)))


@define(eq=False)
class Contender:
    """A compiled candidate and its samples, in seconds a run."""

    schedule: Schedule
    kernel: Kernel
    compiled: Any
    call: Callable[[], None]
    repetitions: int = 1
    samples: list[float] = field(factory=list)

    @classmethod
    def of(cls, backend: Backend, workload: Workload, schedule: Schedule) -> Contender:
        """Compile a schedule.  Raises what the backend raises."""
        kernel = workload.scheduled(schedule)
        program = parts_of_program(single_kernel_program(kernel, schedule, workload.kept))
        compiled: Any = backend.compile(program)
        return cls(schedule, kernel, compiled, compiled.prepare(workload.inputs(kernel), dict(workload.dims)))

    def results(self, workload: Workload) -> list[np.ndarray[Any, Any]]:
        """What a run returns, outputs in the shapes of the unscheduled kernel."""
        found = self.compiled.run(workload.inputs(self.kernel), dict(workload.dims))
        return [seen_as(b, a, workload.dims) for b, a in zip(workload.outputs(), found, strict=True)]

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
    """Sample all contenders in turns; how many whole rounds were run before `deadline` (of time.monotonic),
    at least one.
    """
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


# by item size, of the largest value: another order of sums, not another algorithm
_TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-11}


def agrees(got: Sequence[np.ndarray[Any, Any]], want: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Equal integers and bools; floating-point numbers equal up to the order of sums;
    NaN and infinities in the same places.
    """
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
