"""Ranges of integers: what follows from those of operands holds for all values in them,
also where numbers wrap around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj
from tracejit.ir import ranges
from tracejit.ir.extents import Dim
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.types import ShapedArray
from tracejit.numpy import ufuncs as u
from tracejit.tracer.stage import stage

N = Dim.symbol("n0")

ends = st.integers(-6, 6)
intervals = st.tuples(ends, ends).map(lambda p: (min(p), max(p)))
half = st.one_of(
    intervals, intervals.map(lambda p: (p[0], None)), intervals.map(lambda p: (None, p[1])), st.just(ANYTHING)
)


def values(r: Range) -> range:
    """Some of the values of a range, its ends among them."""
    low = -9 if r[0] is None else r[0]
    high = 9 if r[1] is None else r[1]
    return range(low, high + 1)  # type: ignore[arg-type]


def holds(r: Range, value: int) -> bool:
    return (r[0] is None or r[0] <= value) and (r[1] is None or value <= r[1])  # type: ignore[operator]


@settings(max_examples=300, deadline=None)
@given(half, half)
def test_operations_on_ranges_hold_for_all_values(a: Range, b: Range):
    pairs: list[tuple[Range, Any]] = [
        (ranges.total(a, b), lambda x, y: x + y),
        (ranges.difference(a, b), lambda x, y: x - y),
        (ranges.product(a, b), lambda x, y: x * y),
        (ranges.quotient(a, b), lambda x, y: x // y if y else 0),
        (ranges.remainder(b), lambda x, y: x % y if y else 0),
        (ranges.least(a, b), min),
        (ranges.greatest(a, b), max),
        (ranges.either(a, b), lambda x, y: x),
        (ranges.either(a, b), lambda x, y: y),
        (ranges.negated(a), lambda x, y: -x),
    ]
    for x in values(a):
        for y in values(b):
            for found, operation in pairs:
                assert holds(found, operation(x, y))


def test_symbolic_ends():
    index: Range = (0, N - 1)
    assert ranges.within(index, 0 - N, N - 1)
    assert ranges.within(ranges.least(ANYTHING, (N - 1, N - 1)), 0, N - 1) is False
    assert ranges.within(ranges.greatest((0, 0), ranges.least(ANYTHING, (N - 1, N - 1))), 0, N - 1)
    assert ranges.within(ranges.remainder((N, N)), 0, N - 1)
    assert not ranges.within(ranges.total(index, (1, 1)), 0, N - 1)
    assert ranges.within(ranges.total((0, N - 2), (1, 1)), 0, N - 1)


def told(function: Any, dtype: Any, given: Range) -> Range:
    """What a trace tells of a function of an integer that lies in a range."""
    out: list[Range] = []
    stage(
        lambda x: [out.append(function(x).value_range()), x][1:], [ShapedArray((), np.dtype(dtype))], ranges={0: given}
    )
    return out[0]


@pytest.mark.parametrize(
    ("function", "dtype", "given", "want"),
    [
        (lambda x: x + 1, np.int64, (0, 4), (1, 5)),
        (lambda x: x + 1, np.int8, (0, 127), (-128, 127)),  # wraps around
        (lambda x: x + np.int64(2**62), np.int64, (0, 2**62), ANYTHING),
        (lambda x: x - 1, np.uint64, (0, 4), ANYTHING),
        (lambda x: x - 1, np.uint64, (1, 4), (0, 3)),
        (lambda x: x + 1, np.int64, (0, None), ANYTHING),
        (lambda x: x.astype(np.int8), np.int64, (0, 300), (-128, 127)),
        (lambda x: x.astype(np.int64), np.uint8, ANYTHING, (0, 255)),
        (lambda x: u.maximum(x, np.uint64(1)).astype(np.int64), np.uint64, ANYTHING, ANYTHING),
        (lambda x: u.remainder(x, 7), np.int64, ANYTHING, (0, 6)),
        (lambda x: u.minimum(u.maximum(x, 0), 9), np.int64, ANYTHING, (0, 9)),
        (lambda x: u.where(x > 3, x, 3), np.int64, (0, 9), (0, 9)),
        (lambda x: (x * 2.0).astype(np.int64), np.int64, (0, 9), ANYTHING),
        (lambda x: x > 3, np.int64, ANYTHING, (0, 1)),
    ],
)
def test_what_a_trace_tells(function: Any, dtype: Any, given: Range, want: Range):
    assert told(function, dtype, given) == want


def test_chains_as_long_as_programs_are():
    def long(x: Any) -> Any:
        for _ in range(5000):
            x = x + 1
        return x

    assert told(long, np.int64, (0, 3)) == (5000, 5003)


def spread_by(x):
    i = (np.arange(len(x)) * 2**61) // 2**61
    return x[i]


def spread_in_a_loop(x):
    s = 0.0
    for i in range(len(x)):
        s += x[(np.int64(i) * 2**61) // 2**61] * i
    return s


def doubled(x):
    i = np.arange(len(x))
    for _ in range(62):
        i = i + i
    return x[i >> 62]


@pytest.mark.parametrize("f", [spread_by, spread_in_a_loop, doubled])
def test_products_of_extents_that_wrap_around_tell_nothing_of_an_index(f: Any):
    compiled = tj.jit(f)
    for size in (3, 27, 28):
        x = np.arange(1.0, size + 1)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(compiled(x), f(x))


def test_half_open_ranges_of_unsigned_integers_end_with_their_dtype():
    x, n = np.arange(1.0, 6.0), np.array([2**64 - 1, 3, 1, 2**64 - 2], np.uint64)
    for f in (
        lambda x, n: x[np.maximum(n, np.uint64(1)).astype(np.int64)],
        lambda x, n: np.repeat(x, 2)[np.maximum(n, 1).astype(int)],
        lambda x, n: x[np.clip(n, 1, None).astype(np.int32)],
    ):  # fmt: skip
        np.testing.assert_array_equal(tj.jit(f)(x, n), f(x, n))
