"""Candidate schedules: legal, distinct, the default first, and varied along every axis."""

import pytest

from tracejit.autotune.choose import default_schedule
from tracejit.autotune.space import candidates
from tracejit.backends.base import Target
from tracejit.ir.schedule import Grid, Parallel, Schedule, Split, Vector, WhileUnroll, apply
from tracejit.ir.text import parse_kernel

CPU = Target("cpu", 256, 2)
GRID = Target("opencl")
ROWS = parse_kernel("""
kernel scale(x: f64[1000, 500] C, out: f64[1000, 500] C out) {
  for %i in 0..1000 {
    for %j in 0..500 {
      %a = load x[%i, %j]
      %b = sqrt %a
      store out[%i, %j] = %b
    }
  }
}
""")
FLAT = parse_kernel("""
kernel f(x: f32[1000000] C, out: f32[1000000] C out) {
  for %i in 0..1000000 {
    %a = load x[%i]
    %b = add %a %a
    store out[%i] = %b
  }
}
""")
STEPS = parse_kernel("""
kernel halve(x: f64[4096] C, out: f64[4096] C out) {
  for %i in 0..4096 {
    %a = load x[%i]
    %r = while carry(%v = %a) {
      %more = gt %v 1.0:f64
      test %more
    } do {
      %h = mul %v 0.5:f64
      yield %h
    }
    store out[%i] = %r
  }
}
""")
RECURRENCE = parse_kernel("""
kernel walk(x: f64[100] C, out: f64[100] C out) {
  %last = for %i in 0..100 carry(%s = 0.0:f64) {
    %a = load x[%i]
    %b = sub %a %s
    store out[%i] = %b
    yield %b
  }
}
""")


@pytest.mark.parametrize("kernel", [ROWS, FLAT, STEPS, RECURRENCE], ids=lambda k: k.name)
def test_candidates_are_legal_and_distinct_and_begin_with_the_default(kernel):
    default = default_schedule(kernel, CPU)
    found = candidates(kernel, CPU, default)
    assert found[0] == default
    assert len(set(found)) == len(found)
    for schedule in found:
        apply(kernel, schedule)  # raises where it is not legal


def test_widths_factors_and_grains_vary():
    default = default_schedule(FLAT, CPU)
    assert any(isinstance(d, Parallel) for d in default.directives)
    found = candidates(FLAT, CPU, default)
    vectors = {(d.width, d.factor) for s in found for d in s.directives if isinstance(d, Vector)}
    assert vectors >= {(w, f) for w in (4, 8, 16) for f in (1, 2, 4, 8)}
    sizes = {d.size for s in found for d in s.directives if isinstance(d, Split)}
    assert max(sizes) >= 12 * min(sizes)  # a quarter and four times
    assert any(not any(isinstance(d, Parallel) for d in s.directives) for s in found)


def test_blocks_are_multiples_of_what_is_done_at_once():
    for schedule in candidates(FLAT, CPU, default_schedule(FLAT, CPU)):
        once = {d.loop.removesuffix(".i"): d.width * d.factor for d in schedule.directives if isinstance(d, Vector)}
        assert all(d.size % once.get(d.loop, 1) == 0 for d in schedule.directives if isinstance(d, Split))


def test_a_default_without_threads_gets_candidates_with_them_and_natural_widths():
    found = candidates(ROWS, CPU, Schedule((Vector("L1", 2, 1),)))
    assert any(Parallel("L0", 125) in s.directives and Vector("L1", 4, 4) in s.directives for s in found)
    one_thread = candidates(ROWS, Target("cpu", 256, 1), Schedule((Vector("L1", 2, 1),)))
    assert not any(Parallel("L0", 125) in s.directives for s in one_thread)


def test_another_loop_may_become_the_vector_loop():
    loops = {d.loop for s in candidates(ROWS, CPU, default_schedule(ROWS, CPU)) for d in s.directives if isinstance(d, Vector)}
    assert loops >= {"L0", "L1"}


def test_while_loops_vary_in_how_often_the_mask_is_read():
    found = candidates(STEPS, CPU, default_schedule(STEPS, CPU))
    assert {d.factor for s in found for d in s.directives if isinstance(d, WhileUnroll)} == {1, 2, 4, 8}


def test_a_recurrence_has_no_vectors():
    assert not any(
        isinstance(d, (Vector, Parallel)) for s in candidates(RECURRENCE, CPU, default_schedule(RECURRENCE, CPU)) for d in s.directives
    )


def test_grids_vary_in_the_size_of_groups():
    found = candidates(ROWS, GRID, Schedule())
    assert found[0] == Schedule()
    assert {d.value for s in found for d in s.directives if isinstance(d, Grid) and d.option == "work_group"} >= {32, 64, 128, 256}
    assert {d.value for s in found for d in s.directives if isinstance(d, Grid) and d.option == "rows"} == {"item", "group"}
