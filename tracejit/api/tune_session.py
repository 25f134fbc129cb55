"""What a `tune` call does: stand in for a backend, run the program's kernels one by one,
and search each where it is met first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.api.jit import JitFunction, compiled_with, options_of
from tracejit.autotune.choose import default_schedule
from tracejit.autotune.database import Database, Entry, current_database, kernel_key, kernel_summary
from tracejit.autotune.measure import Contender, Workload
from tracejit.autotune.search import Outcome, search
from tracejit.backends.base import Backend, Target
from tracejit.backends.registry import temporary_backend
from tracejit.backends.runner import plan_of, run_program, seen_as
from tracejit.ir.kernel import Kernel
from tracejit.ir.program import Call, Launch, Program, ProgramBuffer
from tracejit.ir.scalar import numpy_dtype
from tracejit.ir.schedule import Schedule
from tracejit.support.nodes import evolve

__all__ = ["TuneReport", "tune_call"]

Array = np.ndarray[Any, Any]


@define(eq=False)
class TuneReport:
    """What `tune` found for each kernel; `print` it.  keys: of the outcomes, in the database."""

    outcomes: list[Outcome] = field(factory=list)
    keys: list[str] = field(factory=list)
    database: Path | None = None
    seconds: float = 0.0

    @property
    def improved(self) -> int:
        """How many kernels got a faster schedule than the default."""
        return sum(o.improved for o in self.outcomes)

    def __str__(self) -> str:
        lines = [f"tuned {len(self.outcomes)} kernels in {self.seconds:.1f} s, {self.improved} improved"]
        for o in self.outcomes:
            lines.append(
                f"{o.kernel}: {o.considered} schedules, {o.distinct} different programs, {len(o.rejected)} rejected"
            )
            lines.append(f"  default {o.default_seconds * 1e6:10.2f} us  {o.default or 'as it is'}")
            if o.improved:
                gain = o.default_seconds / o.chosen_seconds
                lines.append(f"  chosen  {o.chosen_seconds * 1e6:10.2f} us  {o.chosen}  ({gain:.2f} times as fast)")
            else:
                lines.append("  the default stays: nothing is faster beyond noise")
            lines += [f"  rejected: {s}: {why}" for s, why in o.rejected[:3]]
        lines.append(f"kept in {self.database}" if self.database else "not kept: TRACEJIT_TUNE_DB is empty")
        return "\n".join(lines)


def tune_call(
    function: JitFunction[Any, Any],
    backend: Backend,
    default: Callable[[Kernel], Schedule] | None,
    database: str | Path | None,
    seconds: float,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> TuneReport:
    """Tune what `function` would run on `backend` for these arguments."""
    kept = Database(Path(database)) if database is not None else current_database()
    start = time.monotonic()
    session = _Session(backend, default, kept, start + seconds)
    with temporary_backend(_Recording(session)) as name:
        clone = compiled_with(function, evolve(options_of(function).without_donation(), backend=name))
        try:
            clone(*args, **kwargs)
        except _Finished:
            pass
    session.keep()
    return TuneReport(
        list(session.outcomes.values()),
        list(session.outcomes),
        kept.path if kept is not None else None,
        time.monotonic() - start,
    )


class _Finished(Exception):
    """Every kernel of the program has been tuned."""


@define(eq=False)
class _Session:
    """One `tune` call: what is searched, and what was found."""

    backend: Backend
    default: Callable[[Kernel], Schedule] | None
    database: Database | None
    deadline: float
    outcomes: dict[str, Outcome] = field(factory=dict)
    kernels: dict[str, Kernel] = field(factory=dict)

    def tune(self, workload: Workload, left: int) -> Outcome:
        """Search one kernel in its share of the time that is left for `left` kernels."""
        kernel, target = workload.kernel, self.backend.target()
        key = kernel_key(kernel, target)
        if key not in self.outcomes:
            first = self.default(kernel) if self.default else default_schedule(kernel, target)
            entry = self.database.get(key) if self.database is not None else None
            share = max(0.05, (self.deadline - time.monotonic()) / max(1, left))
            self.outcomes[key] = search(
                workload, self.backend, target, first, seconds=share, known=[entry.schedule] if entry else []
            )
            self.kernels[key] = kernel
        return self.outcomes[key]

    def keep(self) -> None:
        """Write what improved; forget earlier winners that no longer win."""
        if self.database is None:
            return
        target = self.backend.target()
        where = f"{target.name}, {target.device}"
        found = {
            key: Entry(
                key, o.chosen, o.chosen_seconds * 1e6, o.default_seconds * 1e6, where, kernel_summary(self.kernels[key])
            )
            for key, o in self.outcomes.items()
        }
        heuristic = {key: default_schedule(k, target) for key, k in self.kernels.items()}
        better = [found[key] for key, o in self.outcomes.items() if o.chosen != heuristic[key]]
        stale = [key for key, o in self.outcomes.items() if o.chosen == heuristic[key] and self.database.get(key)]
        if better or stale:
            self.database.update(better, stale)


class _Recording(Backend):
    """Stands in for a backend: programs come unscheduled, and instead of running them their kernels are tuned."""

    def __init__(self, session: _Session) -> None:
        self.session = session
        self.name = session.backend.name  # type: ignore[misc]
        self.calls_libraries = session.backend.calls_libraries  # type: ignore[misc]

    def target(self) -> Target:
        return Target(self.name, lacks=self.session.backend.target().lacks)  # schedules stay empty

    def compile(self, program: Program) -> _Tuned:
        return _Tuned(program, self.session)


class _Tuned:
    """A program whose run tunes each kernel on the arguments it meets first."""

    def __init__(self, program: Program, session: _Session) -> None:
        self.program = program
        self.session = session

    def text(self, stage: str) -> str:
        return str(self.program)

    def run(self, inputs: Sequence[Array], dims: dict[str, int]) -> list[Array]:
        """Ends with `_Finished`.  Branches that are not taken keep their kernels as they are."""
        machine = _Machine(self.program, self.session)
        if machine.left:
            run_program(plan_of(self.program), machine, inputs, dims)
        raise _Finished


class _Machine:
    """Runs kernels one by one on arrays, each tuned before its first run."""

    def __init__(self, program: Program, session: _Session) -> None:
        self.session = session
        self.left = {id(k) for k in program.kernels()}
        self.written: set[int] = set()
        self.contenders: dict[int, Contender] = {}

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> Array:
        return np.empty(shape, numpy_dtype(dtype))

    def upload(self, array: Array, layout: str) -> Array:
        self.written.add(id(array))
        return array

    def download(self, memory: Array, dtype: str, shape: tuple[int, ...]) -> Array:
        return memory

    def copy(self, target: Array, source: Array) -> None:
        np.copyto(target, source)
        self.written.add(id(target))

    def call(self, step: Call, memory: Mapping[ProgramBuffer, Array], dims: Mapping[str, int]) -> None:
        """A function of a library, called in a program of its own."""
        inputs = {b: evolve(b, role="input") for b in step.buffers if b not in step.writes}
        outputs = {b: evolve(b, role="output") for b in step.writes}
        made = {**inputs, **outputs}
        arguments = tuple(made[a] if isinstance(a, ProgramBuffer) else a for a in step.arguments)
        alone = evolve(step, arguments=arguments, writes=tuple(outputs.values()))
        program = Program(step.symbol, tuple(inputs.values()), tuple(outputs.values()), (), (alone,), tuple(dims))
        results = self.session.backend.compile(program).run([memory[b] for b in inputs], dict(dims))
        for b, result in zip(outputs, results, strict=True):
            self.copy(memory[b], result)

    def launch(self, step: Launch, arguments: Sequence[Array], dims: Mapping[str, int]) -> None:
        kernel = step.kernel
        arrays = [seen_as(b, a, dims) for b, a in zip(kernel.buffers, arguments, strict=True)]
        written = [b.name in kernel.outputs for b in kernel.buffers]
        kept = frozenset(
            b.name for b, a, w in zip(kernel.buffers, arguments, written, strict=True) if w and id(a) in self.written
        )
        workload = Workload(kernel, arrays, {d: dims[d] for d in dims}, kept, step.product)
        first = self._tuned(workload, step)
        for target, result in zip(
            [a for a, w in zip(arrays, written, strict=True) if w], first.results(workload), strict=True
        ):
            np.copyto(target, result)
        self.written.update(id(a) for a, w in zip(arguments, written, strict=True) if w)
        if not self.left:
            raise _Finished

    def _tuned(self, workload: Workload, step: Launch) -> Contender:
        """The compiled kernel; tuned when it is met first."""
        number = id(step.kernel)
        if number in self.left:
            outcome = self.session.tune(workload, len(self.left))
            self.contenders[number] = Contender.of(self.session.backend, workload, outcome.default)
            self.left.discard(number)
        return self.contenders[number]
