"""Counters that are the index of their loop, and what follows of the ranges of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import For, If, Kernel, Op, While, walk
from tracejit.ir.passes.inductions import fold_inductions
from tracejit.ir.text import parse_kernel

COUNTER = """
kernel counter(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  %20 = for %i in 0..n carry(%c = 2) {
    %0 = sub %c 2
    %1 = lt %0 0
    %2 = add %0 n
    %3 = select %1 %2 %0
    %4 = min %3 (n - 1)
    %5 = max %4 0
    %6 = load x[%5]
    store y[%5] = %6
    %7 = add %c 1
    yield %7
  }
  store last[] = %20
}
"""

TRIANGLE = """
kernel triangle(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  for %i in 0..n {
    %20 = for %j in 0..%i carry(%c = 0) {
      %1 = add %c 1
      %2 = ge %1 n
      if rare(1) %2 {
        store last[] = %1
      }
      %4 = min %1 (n - 1)
      %5 = load x[%4]
      store y[%i] = %5
      yield %1
    }
    store last[] = %20
  }
}
"""

GUARDED = """
kernel guarded(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  store last[] = 0
  for %i in 0..n {
    %0 = gt %i 0
    if %0 {
      %1 = sub %i 1
      %2 = max %1 0
      %3 = load x[%2]
      store y[%i] = %3
    } else {
      %4 = max %i 0
      %5 = min %4 0
      %6 = load x[%5]
      store y[%i] = %6
    }
  }
}
"""

REPEATED = """
kernel repeated(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  %20, %21 = while carry(%c = 1, %s = 0.0:f64) {
    %0 = lt %c n
    %1 = lt %s 5.0:f64
    %2 = and %0 %1
    test %2
  } do {
    %3 = gt %c 9223372036854775806
    if rare(1) %3 {
      store last[] = -1
    }
    %5 = min %c (n - 1)
    %6 = max %5 0
    %7 = load x[%6]
    %8 = add %s %7
    store y[%6] = %8
    %9 = add %c 2
    yield %9 %8
  }
  store last[] = %20
}
"""


FLAG = """
kernel insertion(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  for %i in 0..n {
    %0 = load x[%i]
    %1 = sub %i 1
    %2 = ge %1 0
    %8 = if %2 {
      %3 = max %1 0
      %4 = load y[%3]
      %5 = gt %4 %0
      %6: i64 = convert %5
      %7 = ne %6 0
      yield %7
    } else {
      yield False
    }
    %20, %21, %22 = while carry(%f = %8, %j = %1, %same = 3) {
      test %f
    } do {
      %9 = min %j (n - 1)
      %10 = max %9 0
      %11 = load y[%10]
      %12 = add %j 1
      %13 = ge %12 n
      if rare(1) %13 {
        store last[] = %same
      }
      store y[%12] = %11
      %14 = sub %j 1
      %15 = ge %14 0
      %18 = if %15 {
        %16 = load y[%14]
        %17 = gt %16 %0
        yield %17
      } else {
        yield False
      }
      yield %18 %14 %same
    }
    %23 = add %21 1
    %24 = max %23 0
    %25 = min %24 (n - 1)
    store y[%25] = %0
    store last[] = %22
  }
}
"""

SQUARE = """
kernel sieve(x: f64[n] C, y: f64[n] C out, last: i64[] C out) dims(n) {
  %20, %21 = while carry(%f = True, %c = 2) {
    test %f
  } do {
    %0 = min %c (n - 1)
    %1 = max %0 0
    %2 = load x[%1]
    %3 = mul %c %c
    %30 = while carry(%j = %3) {
      %4 = lt %j n
      %5 = gt %c 0
      %6 = and %4 %5
      test %6
    } do {
      %7 = max %j 0
      store y[%7] = %2
      %8 = add %j %c
      yield %8
    }
    %9 = add %c 1
    %10 = mul %9 %9
    %11 = lt %10 n
    yield %11 %9
  }
  store last[] = %21
}
"""


def results(kernel: Kernel, x: np.ndarray) -> list[np.ndarray]:
    arrays = {"x": x.copy(), "y": np.zeros_like(x), "last": np.array(0)}
    run_kernel(kernel, arrays, {"n": x.size})
    return list(arrays.values())


@pytest.mark.parametrize(
    "text", [COUNTER, TRIANGLE, GUARDED, REPEATED], ids=["counter", "triangle", "guarded", "while"]
)
def test_what_is_known_folds_away(text: str):
    kernel = parse_kernel(text)
    made = fold_inductions(kernel)
    check_kernel(made)
    ops = {s.op for s in walk(made.body) if isinstance(s, Op)}
    assert not ops & {"min", "max", "select", "ge"}
    assert not [s for s in walk(made.body) if isinstance(s, For) and s.params]
    assert not [s for s in walk(made.body) if isinstance(s, If) and s.rare]
    for n in (2, 3, 9):
        x = np.arange(1.0, n + 1)
        for a, b in zip(results(kernel, x), results(made, x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_flag_tells_of_the_carries_beside_it():
    kernel = parse_kernel(FLAG)
    made = fold_inductions(kernel)
    check_kernel(made)
    assert not {s.op for s in walk(made.body) if isinstance(s, Op)} & {"min", "max", "convert", "ne"}
    assert not [s for s in walk(made.body) if isinstance(s, If) and s.rare]
    for n in (2, 3, 9):
        x = np.random.default_rng(n).permutation(n) * 1.0
        for a, b in zip(results(kernel, x), results(made, x), strict=True):
            np.testing.assert_array_equal(a, b)
        assert (np.diff(results(made, x)[1]) > 0).all()


def test_a_flag_tells_of_the_carries_beside_it_only_where_each_iteration_asks():
    for text in (
        FLAG.replace("%15 = ge %14 0", "%15 = ge %14 -1"),  # another question in the loop
        FLAG.replace("%2 = ge %1 0", "%2 = ge %1 -1"),  # and before it
        FLAG.replace("yield %18 %14 %same", "yield %18 %9 %same"),  # about another number
    ):
        kernel = parse_kernel(text)
        made = fold_inductions(kernel)
        check_kernel(made)
        assert "max" in {s.op for s in walk(made.body) if isinstance(s, Op)}


def test_a_carry_that_never_changes_is_none():
    made = fold_inductions(parse_kernel(FLAG))
    (loop,) = [s for s in walk(made.body) if isinstance(s, While)]
    assert len(loop.inits) == 2


def test_a_number_whose_square_a_loop_bounds():
    for n in (5, 9, 40):
        kernel = parse_kernel(
            SQUARE.replace("(n - 1)", str(n - 1)).replace("f64[n]", f"f64[{n}]").replace(" n\n", f" {n}\n")
        )
        made = fold_inductions(kernel)
        check_kernel(made)
        # 0 < c, so that the steps of the inner loop go up from c * c
        assert not {s.op for s in walk(made.body) if isinstance(s, Op)} & {"min", "max", "gt"}
        x = np.arange(1.0, n + 1)
        for a, b in zip(results(kernel, x), results(made, x), strict=True):
            np.testing.assert_array_equal(a, b)
    below = parse_kernel(SQUARE.replace("%c = 2", "%c = -7"))
    assert "max" in {s.op for s in walk(fold_inductions(below).body) if isinstance(s, Op)}


def test_what_is_computed_twice_is_computed_once():
    kernel = parse_kernel(
        COUNTER.replace(
            "%6 = load x[%5]",
            "%8 = mul %5 3\n    %9 = mul %5 3\n    %10 = add %8 %9\n    store last[] = %10\n    %6 = load x[%5]",
        )
    )
    assert [s.op for s in walk(fold_inductions(kernel).body) if isinstance(s, Op)].count("mul") == 1


def test_what_a_test_does_not_bound_stays():
    kernel = parse_kernel(REPEATED.replace("%0 = lt %c n", "%0 = ne %c n"))
    made = fold_inductions(kernel)
    assert [s.op for s in walk(made.body) if isinstance(s, Op)].count("min") == 1
    assert [s for s in walk(made.body) if isinstance(s, If)]


def test_a_counter_that_is_not_the_index_is_carried():
    kernel = parse_kernel(COUNTER.replace("%7 = add %c 1", "%7 = add %c 3"))
    made = fold_inductions(kernel)
    (loop,) = [s for s in made.body if isinstance(s, For | While)]
    assert len(loop.inits) == 1
    x = np.arange(6.0)
    for a, b in zip(results(kernel, x), results(made, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_last_value_of_a_counter_of_no_iterations_is_its_first():
    kernel = parse_kernel(COUNTER.replace("0..n", "3..n").replace("%c = 2", "%c = 7"))
    made = fold_inductions(kernel)
    assert results(made, np.ones(2))[2] == results(kernel, np.ones(2))[2] == 7


def up_to_a_square(y):
    i = np.int64(1)
    while i * i <= 50 and y[0] < 1000:
        y[0] += i
        i += 1
    return i


def turned_round(y):
    i = np.int64(1)
    while not (i * i >= 30) and y[0] < 500:
        y[0] += i
        i += 1
    return i


def swapped(y):
    i = np.int64(1)
    while y[0] < 500 and 30 > i * i:
        y[0] += i * i
        i += 1
    return i


def up_to_the_square_of_an_extent(y):
    i = 1
    while i * i < len(y) and y[0] < 100:
        y[0] *= 1.5
        i += np.int64(1)
    return i


def beyond_its_square(y):
    i, c, h = np.int64(10**9) + len(y), 0, 0
    while i * i < 2 * 10**18 and y[c] > -5:
        if i > 4 * 10**9:
            h += 1
        i += np.int64(2147483647)
        c += 1
        y[c] = h
    return i, c, h


def beyond_64_bits(y):
    i, c, h = np.int64(2**63 - 2**33) + len(y), 0, 0
    while i < 2**63 - 1 and c < 6:
        if i < 0:
            h += 1
        y[i % 3] += 1
        i += np.int64(2**31)
        c += 1
    return i, c, h


@pytest.mark.parametrize(
    "f",
    [up_to_a_square, turned_round, swapped, up_to_the_square_of_an_extent, beyond_its_square, beyond_64_bits],
)
def test_what_ends_a_loop_is_asked_although_the_counter_has_a_range(f: Any):
    compiled = tj.jit(f)
    for n in (7, 50, 9):
        mine, theirs = np.ones(n), np.ones(n)
        with np.errstate(over="ignore"):
            want = f(theirs)
            assert compiled(mine) == want
        np.testing.assert_array_equal(mine, theirs)


def test_a_while_loop_up_to_a_square_ends():
    def go_on(c: Any) -> Any:
        return c[0] * c[0] < np.int64(9)

    got = tj.jit(lambda x: tj.lax.while_loop(go_on, lambda c: (c[0] + np.int64(1), c[1] * 1.5), (np.int64(0), x * 1)))
    assert got(np.ones(9))[0] == 3
