"""The search for a kernel's schedule: all candidates of a small space, successive halving of a large one.

The default is a candidate in every round and stays the answer unless another is faster beyond noise in a last duel of
the two.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.autotune.measure import Contender, Workload, agrees, interleave, wins
from tracejit.autotune.space import candidates
from tracejit.backends.base import Backend, Target
from tracejit.ir.kernel import For, Kernel, walk
from tracejit.ir.scalar import is_float
from tracejit.ir.schedule import Schedule
from tracejit.support.errors import InternalError, TracejitError

__all__ = ["Outcome", "search"]

_SMALL = 12  # so many candidates are all measured to the end
_MOST = 96  # candidates of larger spaces are drawn, always the same ones
_HOPELESS = 4.0  # candidates this much slower than the best are dropped after their first runs
_ROUNDS = 7
_DUEL_ROUNDS = 25


@define(eq=False)
class Outcome:
    """What a search found.  `chosen` is `default` unless another schedule was faster beyond noise.  Times are seconds a
    run.
    """

    kernel: str
    default: Schedule
    chosen: Schedule
    default_seconds: float = 0.0
    chosen_seconds: float = 0.0
    considered: int = 0
    distinct: int = 0
    rejected: list[tuple[Schedule, str]] = field(factory=list)

    @property
    def improved(self) -> bool:
        return self.chosen != self.default


def search(
    workload: Workload,
    backend: Backend,
    target: Target,
    default: Schedule,
    *,
    seconds: float = 20.0,
    known: Sequence[Schedule] = (),
) -> Outcome:
    """The best schedule of a kernel for its arguments, within about `seconds` (one compilation or run is not
    interrupted).

    known: schedules to try first, such as the one of an earlier search.
    Raises: what the backend raises for the default schedule; InternalError where that computes something else than the
    kernel; candidates that fail are listed in the outcome.
    """
    deadline = time.monotonic() + seconds
    every = _drawn([default, *known, *candidates(workload.kernel, target, default)])
    outcome = Outcome(workload.kernel.name, default, default, considered=len(every))
    entrants = _entrants(workload, backend, every, outcome, time.monotonic() + 0.6 * seconds)
    first = entrants[0]
    if len(entrants) > 1:
        finalist = _halved(entrants, deadline - 0.1 * seconds)
        rounds = interleave([first, finalist], _DUEL_ROUNDS, deadline + 0.1 * seconds)
        if wins(finalist, first, rounds):
            outcome.chosen, outcome.chosen_seconds = finalist.schedule, finalist.seconds
    else:
        interleave([first], _ROUNDS, deadline)
    outcome.default_seconds = first.seconds
    outcome.chosen_seconds = outcome.chosen_seconds or first.seconds
    return outcome


def _drawn(every: Sequence[Schedule]) -> list[Schedule]:
    """Each candidate once; of many the first and a fixed choice of the others."""
    unique = list(dict.fromkeys(every))
    if len(unique) <= _MOST:
        return unique
    return [*unique[:8], *random.Random(0).sample(unique[8:], _MOST - 8)]


def _expected(backend: Backend, workload: Workload, default: Contender) -> list[np.ndarray[Any, Any]]:
    """What the kernel computes as it is, without a schedule.

    A long sum in floating point is less exact then than in the blocks and lanes of any schedule, so that of a kernel
    with sums the default's results are the measure.
    """
    results = default.results(workload)
    if not default.schedule.directives or _sums(workload.kernel):
        return results
    expected = Contender.of(backend, workload, Schedule()).results(workload)
    if not agrees(results, expected):
        raise InternalError(f"the schedule `{default.schedule}` changes the results of kernel {workload.kernel.name}")
    return expected


def _sums(kernel: Kernel) -> bool:
    """Whether a loop combines floating-point numbers."""
    loops = (s for s in walk(kernel.body) if isinstance(s, For) and s.combine is not None)
    return any(is_float(p.dtype) for s in loops for p in s.params)


def _entrants(
    workload: Workload, backend: Backend, every: Sequence[Schedule], outcome: Outcome, deadline: float
) -> list[Contender]:
    """The default, then every candidate with code of its own that computes the same and is not hopelessly slow.

    Raises: InternalError where the default changes what the kernel computes.
    """
    first = Contender.of(backend, workload, every[0])
    expected = _expected(backend, workload, first)
    best = first.warm_up()
    entrants, seen = [first], {first.compiled.identity()}
    for schedule in every[1:]:
        if time.monotonic() > deadline:
            break
        try:
            contender = Contender.of(backend, workload, schedule)
            identity = contender.compiled.identity()
            if identity in seen:
                continue
            seen.add(identity)
            if not agrees(contender.results(workload), expected):
                outcome.rejected.append((schedule, "its results are not those of the kernel"))
                continue
            once = contender.warm_up()
        except TracejitError as error:
            outcome.rejected.append((schedule, error.message))
            continue
        best = min(best, once)
        if once < _HOPELESS * best:
            entrants.append(contender)
    outcome.distinct = len(seen)
    return entrants


def _halved(entrants: Sequence[Contender], deadline: float) -> Contender:
    """The fastest challenger; the default, first of `entrants`, takes part in every round."""
    default, challengers = entrants[0], list(entrants[1:])
    rounds = _ROUNDS
    while True:
        interleave([default, *challengers], rounds, deadline)
        challengers.sort(key=lambda c: c.seconds)
        if (
            len(challengers) <= _SMALL and (len(entrants) <= _SMALL or len(challengers) <= 3)
        ) or time.monotonic() > deadline:
            return challengers[0]
        challengers = challengers[: max(1, len(challengers) // 2)]
        rounds += 4
