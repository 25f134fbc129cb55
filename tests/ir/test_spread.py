"""Loops that add to places which data say, shared out among threads with a table each: NumPy's counts and sums."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tracejit as tj
from tracejit.backends.cpu.runtime import pool
from tracejit.backends.registry import get_backend
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir.schedule import Schedule, Spread, apply
from tracejit.support.errors import ScheduleError

RNG = np.random.default_rng(0)


def counted(x, k):
    return np.bincount(k, minlength=9)


def weighed(x, k):
    return np.bincount(k, x, minlength=9)


def added(x, k):
    out = np.full(9, -0.0, x.dtype)
    np.add.at(out, k, x)
    return out


def by_elements(x, k):
    counts = np.zeros(9, np.int64)
    for i in k:
        counts[i] += 1
    return counts


def in_a_branch(x, k):
    out = np.zeros(9, np.int32)
    for i in range(len(k)):
        if x[i] > 0:
            out[k[i]] += 2
        elif x[i] < -2:
            out[k[i] - 9] += 1
    return out


def pairs(x, k):
    out = np.zeros((9, 4))
    for i in range(1, len(k)):
        out[k[i], k[i - 1] % 4] += x[i]
    return out


def two_a_step(x, k):
    out = np.zeros(9, np.int64)
    for i in range(len(k)):
        out[k[i]] += 1
        out[8 - k[i]] += 3
    return out


def pairs_counted(x, k):
    out = np.zeros((9, 4), np.uint32)
    for i in range(1, len(k)):
        out[k[i], k[i - 1] % 4] += np.uint32(7)
    return out


def whole_numbers(x, k):
    out = np.arange(9)
    np.add.at(out, k, (x * 8).astype(int))
    return out


SPREAD = [counted, whole_numbers, by_elements, in_a_branch, pairs_counted, two_a_step]


def reads_its_table(x, k):
    out = np.zeros(9)
    for i in range(len(k)):
        out[k[i]] += 1 + 1e-9 * out[0]
    return out


def asks_its_table(x, k):
    out = np.zeros(9, np.int64)
    for i in range(len(k)):
        if out[k[i]] < 3:
            out[k[i]] += 1
    return out


def replaces(x, k):
    out = np.zeros(9)
    for i in range(len(k)):
        out[k[i]] = x[i] - out[k[i]]
    return out


def two_tables(x, k):
    out, firsts = np.zeros(9), np.zeros(9, np.int64)
    for i in range(len(k)):
        out[k[i]] += x[i]
        firsts[k[i]] = i
    return out, firsts


def sums_beside(x, k):
    counts, total = np.zeros(9, np.int64), 0.0
    for i in range(len(k)):
        counts[k[i]] += 1
        total += x[i]
    return counts, total


ALONE = [sums_beside, weighed, added, pairs, reads_its_table, asks_its_table, replaces, two_tables]


def operands(n):
    return RNG.standard_normal(n), RNG.integers(0, 9, n)


def compare(found, right):
    found, right = (x if isinstance(x, tuple) else (x,) for x in (found, right))
    for a, b in zip(found, right, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("function", [*SPREAD, *ALONE])
def test_the_default_schedule(function):
    f = tj.jit(function)
    for n in (100_000, 100_001, 70_000, 5, 1, 0, 65_536):
        x, k = operands(n)
        compare(f(x, k), function(x, k))
    text = f.lower(*operands(100_000)).text("scheduled")
    assert ("alloc table" in text) == (function in SPREAD)


@settings(max_examples=25)
@given(
    st.sampled_from([counted, whole_numbers]),
    st.integers(1, 40),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(10, 200),
    st.booleans(),
)
def test_any_grain_gives_the_sums(function, grain, width, n, dynamic):
    x, k = operands(n)
    f = tj.jit(function, dynamic_shapes=dynamic)
    f(x, k)
    (version,) = f._state.versions.values()
    jaxpr = version.lowered.jaxpr
    picked = []

    def pick(kernel):
        for name in ("L0", "L1"):
            schedule = Schedule((Spread(name, grain, width),))
            try:
                apply(kernel, schedule)
            except ScheduleError:
                continue
            picked.append(schedule)
            return schedule
        return Schedule()

    layouts = ["C"] * len(jaxpr.inputs)
    lowered = lower_jaxpr(jaxpr, get_backend("cpu"), layouts, schedule=pick, checked=True)
    assert picked, lowered.text("kernel")
    args = [a for a in (x, k) if any(v.aval.dtype == a.dtype for v in jaxpr.inputs)]
    dims = {str(v.aval.shape[0]): n for v in jaxpr.inputs if not isinstance(v.aval.shape[0], int)}
    compare(lowered.compile().run(args, dims)[0], function(x, k))


@pytest.mark.parametrize("function", [counted, by_elements])
def test_the_first_index_out_of_range_is_named(function):
    x, _ = operands(200_000)
    f = tj.jit(function)
    for place, bad in ((150_000, -23), (40_000, -10)):
        k = RNG.integers(0, 9, 200_000)
        k[place], k[190_000] = bad, -77
        f(x, np.abs(k) % 9)
        with pytest.raises((IndexError, ValueError)) as raised:
            f(x, k)
        assert function is counted or str(bad) in str(raised.value)  # bincount says that one is negative


def test_on_any_number_of_threads():
    x, k = operands(300_001)
    f, before = tj.jit(counted), pool.pool_size()
    for threads in (1, 2, 5):
        try:
            pool.set_threads(threads)
            compare(f(x, k), counted(x, k))
        finally:
            pool.set_threads(before)


def test_refusals():
    lowered = tj.jit(counted).lower(*operands(100_000))
    kernel = next(k for k, _, _ in lowered.log.kernels if "if %" in str(k))
    with pytest.raises(ScheduleError, match="does not only add"):
        apply(kernel, Schedule((Spread("L0", 64, 4),)))
    with pytest.raises(ScheduleError, match="has no loop L9"):
        apply(kernel, Schedule((Spread("L9", 64, 4),)))
    with pytest.raises(ScheduleError, match="the width a power of two"):
        apply(kernel, Schedule((Spread("L1", 64, 3),)))
