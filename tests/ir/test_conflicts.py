"""Loops whose iterations store to places read from memory: found, never run in parallel,
in lanes only where nothing is read back."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.autotune.heuristic import heuristic_schedule
from tracejit.ir.conflicts import Conflicts, conflicts
from tracejit.ir.kernel import For, Kernel
from tracejit.ir.schedule import Parallel, Schedule, Split, Unroll, Vector, apply
from tracejit.ir.text import parse_kernel
from tracejit.primitives.indexing import scatter
from tracejit.support.errors import ScheduleError

SET = """kernel set(at: i64[4096] C, x: f64[4096] C, y: f64[100] C out) {
  for %i in 0..4096 {
    %k = load at[%i]
    %v = load x[%i]
    store y[%k] = %v
  }
}"""
ADD = SET.replace("store y[%k] = %v", "%o = load y[%k]\n    %s = add %o %v\n    store y[%k] = %s")
ROWS = """kernel rows(at: i64[64] C, y: f64[64, 100] C out) {
  for %i in 0..64 {
    %k = load at[%i]
    %o = load y[%i, %k]
    %s = add %o 1.0:f64
    store y[%i, %k] = %s
  }
}"""
SHIFTED = """kernel shifted(x: f64[64] C, y: f64[200] C out) {
  for %i in 0..64 {
    %j = mul %i 3
    %k = add %j 1
    %v = load x[%i]
    store y[%k] = %v
  }
}"""


def loop(text: str) -> tuple[Kernel, For]:
    kernel = parse_kernel(text)
    (statement,) = kernel.body
    assert isinstance(statement, For)
    return kernel, statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [(SET, Conflicts(True, False)), (ADD, Conflicts(True, True)), (ROWS, Conflicts()), (SHIFTED, Conflicts())],
    ids=["set", "add", "one place a row", "affine"],
)
def test_what_may_go_wrong(text: str, expected: Conflicts):
    assert conflicts(loop(text)[1]) == expected


@pytest.mark.parametrize("text", [SET, ADD])
@pytest.mark.parametrize("directives", [(Parallel("L0", 64),), (Split("L0", 512), Parallel("L0.o", 1))])
def test_stores_to_computed_places_are_not_shared_among_threads(text: str, directives: tuple[object, ...]):
    with pytest.raises(ScheduleError, match="its iterations"):
        apply(loop(text)[0], Schedule(directives))


def test_updates_of_computed_places_do_not_run_in_lanes():
    with pytest.raises(ScheduleError, match="its iterations"):
        apply(loop(ADD)[0], Schedule((Vector("L0", 4, 1),)))


def test_copies_in_step_are_refused_where_the_last_store_counts():
    with pytest.raises(ScheduleError, match="its iterations"):
        apply(loop(SET.replace("4096", "4"))[0], Schedule((Unroll("L0"),)))


def test_a_short_scatter_of_rows_is_in_order():
    """Rows of a batch in lanes, the few updates of each around a loop over columns."""
    at = np.array([0, 1, 0])
    f = tj.vmap(lambda u: scatter(np.zeros((2, 3)), u, (0,), [at], "add"))
    updates = np.arange(54.0).reshape(6, 3, 3)
    want = np.stack([[u[0] + u[2], u[1]] for u in updates])
    np.testing.assert_array_equal(tj.jit(f)(updates), want)


def test_the_default_schedule_leaves_updates_alone():
    assert not heuristic_schedule(loop(ADD)[0], 256).directives
    assert [type(d) for d in heuristic_schedule(loop(ROWS)[0], 256).directives] == [Vector]


@pytest.mark.parametrize("op", ["set", "add"])
def test_a_long_scatter_onto_few_places_is_in_order(op: str):
    rng = np.random.default_rng(0)
    x, at = rng.standard_normal(200_000), rng.integers(0, 100, 200_000)
    got = tj.jit(lambda base, x, at: scatter(base, x, (0,), [at], op))(np.zeros(100), x, at)
    want = np.zeros(100)
    if op == "add":
        np.add.at(want, at, x)
    else:
        want[at] = x
    np.testing.assert_array_equal(got, want)
