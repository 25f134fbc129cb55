"""Measuring and searching: planted bad defaults are beaten, noise is not believed,
wrong or equal code does not count."""

import time
from typing import Any

import numpy as np
import pytest

from tracejit.autotune import search as search_module
from tracejit.autotune.choose import default_schedule
from tracejit.autotune.measure import Contender, Workload, agrees, interleave, single_kernel_program, wins
from tracejit.autotune.search import search
from tracejit.backends.base import Backend, Target
from tracejit.backends.registry import get_backend
from tracejit.ir.kernel import Kernel
from tracejit.ir.program import Program
from tracejit.ir.schedule import Schedule, Vector, parse_schedule
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import CompileError, InternalError

TEXT = """
kernel f(x: f32[200000] C, out: f32[200000] C out) {
  for %i in 0..200000 {
    %a = load x[%i]
    %b = exp %a
    %c = sin %b
    store out[%i] = %c
  }
}
"""
SLOW = Schedule((Vector("L0", 2, 1),))  # an eighth of the lanes, one thread


def workload(text: str = TEXT, **arrays: np.ndarray) -> Workload:
    kernel = parse_kernel(text)
    given = [arrays.get(b.name, np.linspace(-1, 1, int(b.shape[0]), dtype="f4")) for b in kernel.buffers]
    return Workload(kernel, given, {})


@pytest.fixture
def cpu(record_backend: Any) -> Backend:
    record_backend("cpu")
    return get_backend("cpu")


def test_a_planted_bad_default_is_beaten_and_results_stay_equal(cpu: Backend, clock: Any):
    work = workload()
    outcome = search(work, cpu, cpu.target(), SLOW, seconds=6)
    assert outcome.improved
    assert outcome.chosen_seconds < 0.7 * outcome.default_seconds
    assert max(d.width for d in outcome.chosen.directives if isinstance(d, Vector)) > 2
    default, chosen = (Contender.of(cpu, work, s) for s in (SLOW, outcome.chosen))
    np.testing.assert_array_equal(chosen.results(work)[0], default.results(work)[0])
    assert chosen.compiled.text("asm") != default.compiled.text("asm")
    assert outcome.distinct > 4
    assert not outcome.rejected


def test_candidates_differ_in_machine_code(cpu: Backend):
    work = workload()
    schedules = [
        SLOW,
        Schedule((Vector("L0", 8, 1),)),
        Schedule((Vector("L0", 8, 4),)),
        parse_schedule("split L0 4096; parallel L0.o 1; vector L0.i 8 1"),
    ]
    compiled = [Contender.of(cpu, work, s).compiled for s in schedules]
    assert len({c.text("asm") for c in compiled}) == len({c.identity() for c in compiled}) == len(schedules)


def test_schedules_with_equal_code_count_once(cpu: Backend, monkeypatch: pytest.MonkeyPatch):
    same = [
        Schedule((Vector("L0", 8, 2),)),
        parse_schedule("vector L0 8 2; while_unroll 2"),
        parse_schedule("vector L0 8 2; while_unroll 8"),
    ]
    monkeypatch.setattr(search_module, "candidates", lambda *_: same)
    outcome = search(workload(), cpu, cpu.target(), same[0], seconds=1)
    assert (outcome.considered, outcome.distinct, outcome.improved) == (3, 1, False)


@pytest.mark.opencl
def test_a_kernel_on_a_grid_is_searched(record_backend: Any, opencl_cache: None, opencl_as_a_grid: None):
    record_backend("opencl")
    backend = get_backend("opencl")
    work = workload()
    for seconds in (8, 60, 240):  # on a busy machine the time may be over after the first compilation
        outcome = search(work, backend, backend.target(), parse_schedule("grid work_group 1"), seconds=seconds)
        if outcome.distinct > 1:
            break
    assert outcome.distinct > 1
    assert outcome.chosen_seconds <= outcome.default_seconds
    # a device may have no room for the registers of so large a group; nothing else is refused
    assert all("runs in groups of at most" in str(why) for _, why in outcome.rejected)


def test_a_kernel_on_a_processor_of_opencls_is_searched(record_backend: Any, opencl_cache: None):
    record_backend("opencl")
    backend = get_backend("opencl")
    target = backend.target()
    assert target.vector_bits
    work = workload()
    for seconds in (8, 60, 240):
        outcome = search(work, backend, target, default_schedule(work.kernel, target), seconds=seconds)
        if outcome.distinct > 1:
            break
    assert outcome.distinct > 1
    assert outcome.chosen_seconds <= outcome.default_seconds
    assert not outcome.rejected


class Pretending(Backend):
    """The CPU, whose code is slower, wrong or broken for schedules of some widths."""

    name = "cpu"

    def __init__(self, behaviour: dict[int, str]) -> None:
        self.behaviour = behaviour
        self.real = get_backend("cpu")

    def target(self) -> Target:
        return self.real.target()

    def compile(self, program: Program) -> Any:
        width = next((d.width for d in program.steps[-1].schedule.directives if isinstance(d, Vector)), 0)
        behaviour = self.behaviour.get(width, "")
        if behaviour == "broken":
            raise CompileError("refused")
        return Altered(self.real.compile(program), behaviour)


class Altered:
    def __init__(self, compiled: Any, behaviour: str) -> None:
        self.compiled, self.behaviour = compiled, behaviour
        self.identity = compiled.identity

    def run(self, inputs: Any, dims: Any) -> Any:
        results = self.compiled.run(inputs, dims)
        if self.behaviour == "wrong":
            results[0][7] += 0.01
        return results

    def prepare(self, inputs: Any, dims: Any) -> Any:
        return self.compiled.prepare(inputs, dims)  # the clock knows which are slow


def widths(*sizes: int) -> list[Schedule]:
    return [Schedule((Vector("L0", n, 1),)) for n in sizes]


def test_wrong_and_broken_candidates_are_rejected_with_reasons(cpu: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search_module, "candidates", lambda *_: widths(2, 4, 8, 16))
    backend = Pretending({4: "broken", 8: "wrong", 16: "wrong"})
    outcome = search(workload(), backend, backend.target(), SLOW, seconds=2)
    assert [(str(s), why) for s, why in outcome.rejected] == [
        ("vector L0 4 1", "refused"),
        ("vector L0 8 1", "its results are not those of the kernel"),
        ("vector L0 16 1", "its results are not those of the kernel"),
    ]
    assert not outcome.improved


def test_a_default_that_computes_something_else_is_found_out(cpu: Backend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search_module, "candidates", lambda *_: widths(2, 4, 8))
    (width,) = (d.width for d in SLOW.directives if isinstance(d, Vector))
    backend = Pretending({width: "wrong"})
    with pytest.raises(InternalError, match=r"the schedule `vector L0 .*` changes the results of kernel"):
        search(workload(), backend, backend.target(), SLOW, seconds=2)


def test_a_default_that_nothing_beats_stays(cpu: Backend, monkeypatch: pytest.MonkeyPatch, clock: Any):
    monkeypatch.setattr(search_module, "candidates", lambda *_: widths(2, 4, 8))
    backend = Pretending({4: "slow", 8: "slow"})
    outcome = search(workload(), backend, backend.target(), SLOW, seconds=2)
    assert outcome.chosen == outcome.default == SLOW
    assert outcome.chosen_seconds == outcome.default_seconds > 0


def test_large_spaces_are_halved_and_the_fast_one_survives(cpu: Backend, monkeypatch: pytest.MonkeyPatch, clock: Any):
    every = [Schedule((Vector("L0", w, f),)) for w in (2, 4, 16) for f in range(1, 7)] + [
        Schedule((Vector("L0", 8, 2),))
    ]
    monkeypatch.setattr(search_module, "candidates", lambda *_: every)
    backend = Pretending({2: "slow", 4: "slow", 16: "slow"})
    outcome = search(workload(), backend, backend.target(), every[0], seconds=20)
    assert outcome.distinct == len(every) > search_module._SMALL
    assert outcome.chosen == every[-1]


def test_the_time_limit_holds(cpu: Backend, clock: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clock, "cost", lambda schedule: 0.01)
    outcome = search(workload(), cpu, cpu.target(), SLOW, seconds=0.5)
    assert clock.now < 0.5 + 0.1 + 0.1  # the last duel has a tenth more, and a round is not interrupted
    assert outcome.distinct < outcome.considered
    assert outcome.default_seconds == 0.01


class Fake:
    """A contender with times that were thought up."""

    def __init__(self, *samples: float) -> None:
        self.samples = list(samples)


@pytest.mark.parametrize(
    ("challenger", "default", "expected"),
    [
        ([0.5] * 8, [1.0] * 8, True),
        ([0.98] * 8, [1.0] * 8, False),  # less than the margin
        ([1.0] * 8, [1.0] * 8, False),
        ([0.5, 0.5, 0.5, 0.5, 2.0, 2.0, 2.0, 0.5], [1.0] * 8, False),  # faster in too few rounds
        ([0.5] * 7 + [9.0], [1.0] * 8, True),  # one disturbance
    ],
)
def test_a_win_must_be_beyond_noise(challenger: list[float], default: list[float], expected: bool):
    assert wins(Fake(*challenger), Fake(*default), 8) is expected  # type: ignore[arg-type]


def test_contenders_take_turns(cpu: Backend):
    order: list[int] = []
    contenders = [Contender(Schedule(), workload().kernel, None, lambda n=n: order.append(n)) for n in range(3)]
    assert interleave(contenders, 3, time.monotonic() + 10) == 3
    assert order == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    # past the deadline: one round, so that there are samples
    assert interleave(contenders, 5, time.monotonic() - 1) == 1


def test_agreement_is_up_to_the_order_of_sums():
    x = np.array([1.0, np.nan, np.inf, 1e-30])
    assert agrees([x], [x * (1 + 1e-13)])
    assert not agrees([x], [x * (1 + 1e-9)])
    assert not agrees([np.array([1.0, 2.0])], [np.array([1.0, np.nan])])
    assert not agrees([np.array([1.0, np.inf])], [np.array([1.0, -np.inf])])
    assert agrees([np.array([3, 4])], [np.array([3, 4])])
    assert not agrees([np.array([3, 4])], [np.array([3, 5])])
    assert not agrees([np.array([3, 4])], [np.array([3.0, 4.0])])
    assert agrees([np.empty(0)], [np.empty(0)])


UPDATE = """
kernel bump(x: f64[10] C, out: f64[100] C out) {
  for %i in 0..10 {
    %a = load x[%i]
    %j = add %i 3
    %old = load out[%j]
    %new = add %old %a
    store out[%j] = %new
  }
}
"""


def test_updates_in_place_start_from_the_same_contents_each_run(cpu: Backend):
    kernel: Kernel = parse_kernel(UPDATE)
    x, base = np.arange(10.0), np.full(100, 5.0)
    work = Workload(kernel, [x, base], {}, frozenset({"out"}))
    program = single_kernel_program(kernel, Schedule(), work.kept)
    assert [b.name for b in program.inputs] == ["x", "out"]
    contender = Contender.of(cpu, work, Schedule())
    contender.call()
    contender.call()
    expected = base.copy()
    expected[3:13] += x
    np.testing.assert_array_equal(contender.results(work)[0], expected)
    np.testing.assert_array_equal(base, 5.0)  # the argument itself is not touched
