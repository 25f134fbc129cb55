"""Candidate schedules: legal, distinct, the default first, and varied along every axis."""

from typing import Any, ClassVar

import numpy as np
import pytest

import tracejit as tj
from tracejit.autotune.choose import default_schedule
from tracejit.autotune.space import candidates
from tracejit.backends.base import Target
from tracejit.ir.kernel import Kernel
from tracejit.ir.schedule import Directive, Grid, Loops, Parallel, Schedule, Split, Tile, Vector, WhileUnroll, apply
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import frozen

CPU = Target("cpu", 256, 2)
GRID = Target("opencl", grid=True)
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


def product(m: object, n: object, k: object, lhs: str = "k", rhs: str = "n", outer: object = 1) -> Kernel:
    """A product in plain loops, as the tuner meets it."""
    m, n, k = (f"n{d}" if x == "?" else x for d, x in enumerate((m, n, k)))
    dims = [x for x in (m, n, k) if isinstance(x, str)]
    named = f"dims({', '.join(dims)})" if dims else ""
    factors = [side.replace("*", " computed") for side in (lhs, rhs)]
    multiplied = f"product(f32, {outer}, {m}, {n}, {k}, {', '.join(factors)}, 0)"
    return parse_kernel(f"""
kernel product(a: f32[{m}, {k}] C, b: f32[{k}, {n}] C, out: f32[{m}, {n}] C out) {named} {multiplied} {{
  for %i in 0..{m} {{
    for %j in 0..{n} {{
      %t = for %l in 0..{k} carry(%s = 0.0:f32) combine(%p, %q) {{
        %r = add %p %q
        yield %r
      }} {{
        %x = load a[%i, %l]
        %y = load b[%l, %j]
        %z = mul %x %y
        %u = add %s %z
        yield %u
      }}
      store out[%i, %j] = %t
    }}
  }}
}}
""")


PRODUCT = product(256, 300, 400)


@pytest.mark.parametrize("kernel", [ROWS, FLAT, STEPS, RECURRENCE, PRODUCT], ids=lambda k: k.name)
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
    loops = {
        d.loop
        for s in candidates(ROWS, CPU, default_schedule(ROWS, CPU))
        for d in s.directives
        if isinstance(d, Vector)
    }
    assert loops >= {"L0", "L1"}


def test_while_loops_vary_in_how_often_the_mask_is_read():
    found = candidates(STEPS, CPU, default_schedule(STEPS, CPU))
    assert {d.factor for s in found for d in s.directives if isinstance(d, WhileUnroll)} == {1, 2, 4, 8}


def test_a_recurrence_has_no_vectors():
    assert not any(
        isinstance(d, (Vector, Parallel))
        for s in candidates(RECURRENCE, CPU, default_schedule(RECURRENCE, CPU))
        for d in s.directives
    )


def test_tiles_of_products_vary_in_registers_panels_tasks_and_packing():
    default = default_schedule(PRODUCT, CPU)
    (usual,) = default.directives
    assert isinstance(usual, Tile)
    found = candidates(PRODUCT, CPU, default)
    tiles = [d for s in found for d in s.directives if isinstance(d, Tile)]
    assert len({(t.rows, t.columns, t.width) for t in tiles}) >= 12
    assert {t.columns // t.width for t in tiles} >= {1, 2, 3, 4}
    assert {t.width for t in tiles} == {4, 8}
    for name in ("depth", "tall", "wide"):
        sizes = {getattr(t, name) for t in tiles if (t.rows, t.columns) == (usual.rows, usual.columns)}
        assert min(sizes) < getattr(usual, name) < max(sizes), name
    assert {t.share for t in tiles} == {"none", "tasks"}
    assert {t.pack for t in tiles} == {"none", "lhs", "rhs", "both"}
    assert any(not any(isinstance(d, Tile) for d in s.directives) for s in found)  # plain loops


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(
    "kernel",
    [PRODUCT, product(3, 500, 64), product(1, 4096, 4096), product("?", "?", "?"), product(64, 64, 50_000)],
    ids=str,
)
def test_register_tiles_fit_the_registers(kernel: Kernel, bits: int):
    target = Target("cpu", bits, 2)
    found = candidates(kernel, target, default_schedule(kernel, target))
    tiles = [d for s in found for d in s.directives if isinstance(d, Tile)]
    assert len(tiles) > 10
    for t in tiles:
        vectors = t.columns // t.width
        assert t.rows * vectors + (vectors + 1 if t.rows > 1 else 1) <= (16 if bits <= 256 else 32)
        assert t.tall >= t.rows
        assert t.wide >= t.columns


def test_operands_that_are_read_across_stay_packed():
    kernel = product(256, 300, 400, lhs="x*", rhs="k")
    found = candidates(kernel, CPU, default_schedule(kernel, CPU))
    assert {d.pack for s in found for d in s.directives if isinstance(d, Tile)} == {"both"}


def test_a_product_whose_default_is_plain_loops_is_tried_with_tiles_and_other_loops():
    found = candidates(PRODUCT, CPU, Schedule((Vector("L1", 8, 2),)))
    assert {len({d for s in found for d in s.directives if isinstance(d, kind)}) > 2 for kind in (Tile, Vector)} == {
        True
    }


def test_grids_vary_in_the_size_of_groups():
    found = candidates(ROWS, GRID, Schedule())
    assert found[0] == Schedule()
    assert {d.value for s in found for d in s.directives if isinstance(d, Grid) and d.option == "work_group"} >= {
        32,
        64,
        128,
        256,
    }
    assert {d.value for s in found for d in s.directives if isinstance(d, Grid) and d.option == "rows"} == {
        "item",
        "group",
    }


def test_a_kind_of_directive_proposes_its_own_candidates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Directive, "kinds", dict(Directive.kinds))

    @frozen
    class Prefetch(Directive):
        word: ClassVar = "prefetch"
        loop: str
        distance: int

        @classmethod
        def candidates(cls, kernel: Kernel, target: Any) -> list[Directive]:
            return [cls("L0", n) for n in (0, target.threads, 64)]

        def apply(self, loops: Loops) -> None:
            if not self.distance:
                raise ScheduleError(f"{self}: nothing is ahead")

    for target in (CPU, GRID):
        default = default_schedule(FLAT, target)
        tried = [s for s in candidates(FLAT, target, default) if any(isinstance(d, Prefetch) for d in s.directives)]
        expected = [Schedule((*default.directives, Prefetch("L0", n))) for n in (target.threads, 64)]
        assert tried[:2] == expected


def test_a_target_with_neither_vectors_nor_a_grid_runs_loops_as_they_are():
    scalar = Target("scalar")
    assert default_schedule(FLAT, scalar) == Schedule()
    assert candidates(FLAT, scalar, Schedule()) == [Schedule()]


def test_a_target_with_threads_and_no_vectors_shares_out_loops_that_are_worth_it():
    threads = Target("threads", threads=2)
    assert default_schedule(parse_kernel(str(FLAT).replace("1000000", "100")), threads) == Schedule()
    (parallel,) = default_schedule(FLAT, threads).directives
    assert str(parallel).startswith("parallel L0 ")
    assert default_schedule(FLAT, Target("grid", threads=2, grid=True)) == Schedule()


def test_loops_that_are_jammed_have_few_copies():
    """A transposed sum of rank 8 was written out 4,096 times, and compiled for minutes."""
    for rank, extent in ((8, 4), (6, 5), (5, 8)):
        text = tj.jit(lambda x: x + x.T).lower(np.ones((extent,) * rank)).text("scheduled")
        assert extent ** text.count("unroll") <= 64
