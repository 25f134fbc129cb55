"""Failures noted in branches, and operations on the side that reads them."""

import numpy as np
import pytest

from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import If, Kernel, Op, walk
from tracejit.ir.passes.rare import failures_in_branches, sink
from tracejit.ir.text import parse_kernel

NOTED = """
kernel noted(x: i64[n] C, y: i64[] C out, failure: i64[] C out) dims(n) {
  %0 = load failure[]
  %20, %21 = for %i in 0..n carry(%c = %0, %s = 0) {
    %1 = load x[%i]
    %2 = gt %1 %i
    %3 = mul %1 7
    %4 = or %3 256
    %5 = select %2 %4 0
    %6 = ne %c 0
    %7 = select %6 %c %5
    %8 = add %s %1
    yield %7 %8
  }
  store y[] = %21
  store failure[] = %20
}
"""

BOTH_SIDES = """
kernel both(x: f64[] C, y: f64[] C out) {
  %0 = load x[]
  %1 = mul %0 2.0:f64
  %2 = add %0 1.0:f64
  %3 = neg %2
  %4 = gt %0 0.0:f64
  %7 = if %4 {
    %5 = add %1 %3
    yield %5
  } else {
    yield %1
  }
  store y[] = %7
}
"""

AT_THE_END = """
kernel ends(y: f64[] C out) {
  %9 = for %i in 0..3 carry(%c = 1.0:f64) {
    %0 = add %c 1.0:f64
    %1 = gt %0 2.0:f64
    if %1 {
      %2 = mul %0 2.0:f64
      store y[] = %2
    }
    yield %0
  }
  store y[] = %9
}
"""


def results(kernel: Kernel, *arrays: np.ndarray) -> list[np.ndarray]:
    copies = [a.copy() for a in arrays]
    run_kernel(kernel, dict(zip([b.name for b in kernel.buffers], copies, strict=True)), {"n": arrays[0].size})
    return copies


def branch_of(kernel: Kernel) -> If:
    (found,) = [s for s in walk(kernel.body) if isinstance(s, If)]
    return found


def test_a_failure_is_noted_in_a_branch():
    made = failures_in_branches(parse_kernel(NOTED))
    check_kernel(made)
    branch = branch_of(made)
    assert branch.rare == 1
    # the mark, the test of what was noted before and the choice are made where they are needed
    assert [s.op for s in branch.then if isinstance(s, Op)] == ["mul", "or", "ne", "select"]
    assert str(parse_kernel(str(made))) == str(made)


@pytest.mark.parametrize("x", [[0, 0, 0], [0, 5, 9], [3, 1, 1], []])
@pytest.mark.parametrize("before", [0, 11])
def test_the_first_failure_is_kept(x: list[int], before: int):
    kernel = parse_kernel(NOTED)
    arrays = np.array(x, np.int64), np.array(0), np.array(before)
    for a, b in zip(results(kernel, *arrays), results(failures_in_branches(kernel), *arrays), strict=True):
        np.testing.assert_array_equal(a, b)


PLACED = """
kernel placed(x: f64[n] C, k: i64[] C, y: f64[] C out, failure: i64[] C out) dims(n) {
  %0 = load k[]
  %1 = lt %0 0
  %2 = add %0 n
  %3 = select %1 %2 %0
  %4: u64 = convert %3
  %5 = ge %4 n:u64
  %6 = select %5 7 0
  %7 = min %3 (n - 1)
  %8 = max %7 0
  %9 = load x[%8]
  store y[] = %9
  store failure[] = %6
}
"""


@pytest.mark.parametrize("from_the_end", [True, False])
def test_indices_that_are_not_between_0_and_the_size_are_made_in_a_branch(from_the_end: bool):
    text = PLACED if from_the_end else "\n".join(x for x in PLACED.split("\n") if x[2:4] not in ("%1", "%2", "%3"))
    kernel = parse_kernel(text if from_the_end else text.replace("%3", "%0"))
    made = failures_in_branches(kernel)
    check_kernel(made)
    (branch,) = [s for s in made.body if isinstance(s, If)]
    assert branch.rare
    assert not {s.op for s in made.body if isinstance(s, Op)} & {"min", "max", "add", "lt"}
    for at in (-9, -4, -3, -1, 0, 2, 3, 4, 2**63 - 1, -(2**63)):
        found = []
        for k in (kernel, made):
            arrays = {"x": np.array([1.0, 2.0, 3.0]), "k": np.array(at), "y": np.array(0.0), "failure": np.array(0)}
            run_kernel(k, arrays, {"n": 3})
            found.append((float(arrays["y"]), int(arrays["failure"])))
        assert found[0] == found[1]


def test_a_clip_that_nothing_checks_stays():
    text = PLACED.replace("n:u64", "5:u64")
    made = failures_in_branches(parse_kernel(text))
    assert {s.op for s in made.body if isinstance(s, Op)} >= {"min", "max"}


def test_what_both_sides_read_stays():
    kernel = parse_kernel(BOTH_SIDES)
    made = kernel.with_body(sink(kernel.body))
    check_kernel(made)
    assert [s.op for s in branch_of(made).then if isinstance(s, Op)] == ["add", "neg", "add"]
    assert [s.op for s in made.body if isinstance(s, Op)] == ["mul", "gt"]
    for v in (2.0, -3.0):
        arrays = np.array(v), np.array(0.0)
        np.testing.assert_array_equal(results(kernel, *arrays)[1], results(made, *arrays)[1])


def test_what_is_read_at_the_end_of_a_block_stays():
    kernel = parse_kernel(AT_THE_END)
    made = kernel.with_body(sink(kernel.body))
    check_kernel(made)
    np.testing.assert_array_equal(results(kernel, np.array(0.0))[0], results(made, np.array(0.0))[0])
    (loop,) = [s for s in made.body if hasattr(s, "body")]
    assert [s.op for s in loop.body if isinstance(s, Op)] == ["add", "gt"]
