# ruff: noqa: F841 -- written as users do
"""A `break` behind another one: what follows the first may leave the loop itself."""

import numpy as np
import pytest

import tracejit as tj


def break_in_both(x, y, n):
    for i in range(n):
        if x[i] < 3:
            y[i] += x[i]
        else:
            break
        k = i
        break
    return y


def by_a_number(x, y, n):
    c = 0
    for i in range(n):
        if i == 1 or c < 6:
            y[i] += x[i]
        else:
            break
        last = y[i]
        if last > 0:
            break
    return y


def handed_round(x, y, n):
    a, b = x[0], x[1]
    for i in range(n):
        y[i] += a
        if a > 5:
            break
        a, b = b, a
        if y[i] > 2:
            break
    return y, a, b


def returns_behind_a_break(x, y, n):
    for i in range(n):
        y[i] += 1
        if x[i] > 3:
            break
        k = i
        if x[i] > 1:
            return y, k
    return y, -1


def in_two_loops(x, y, n):
    s = 0
    for i in range(n):
        for j in range(n):
            y[j] += x[i]
            if y[j] > 4:
                break
            s, t = j, s
            if s > t + 1:
                break
        else:
            s += 100
        if s > 50:
            break
        t = s
        break
    return y, s


def in_while(x, y, n):
    i = 0
    while i < n:
        y[i] += 1
        if x[i] > 3:
            break
        i, k = i + 1, i
        if x[k] > 1:
            break
    return y, i


@pytest.mark.parametrize(
    "function", [break_in_both, by_a_number, handed_round, returns_behind_a_break, in_two_loops, in_while]
)
@pytest.mark.parametrize("n", [5, 20, 1, 2])
def test_breaks_behind_breaks(function, n):
    jitted = tj.jit(function)
    for x in (np.arange(1.0, 22.0), np.arange(-3.0, 18.0), np.ones(21), np.full(21, 9.0), np.zeros(21)):
        ours, theirs = np.zeros(21), np.zeros(21)
        got, want = jitted(x.copy(), ours, n), function(x.copy(), theirs, n)
        for u, v in zip(got, want, strict=True):
            np.testing.assert_array_equal(u, v)
        np.testing.assert_array_equal(ours, theirs)


def power_iteration(r, a, t):
    n, it = len(a), 0
    while True:
        new = np.zeros(n)
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * r[j]
            new[i] = s
        new /= np.abs(new).max()
        d = np.abs(new - r).max()
        r = new
        it += 1
        if d < t or it > 60:
            break
    return r, it


def halved(r, a, t):
    it = 0
    while it < 30:
        y = r * 0.5
        y[0] = it
        if y.sum() < t:
            break
        r = y
        it += 1
    return r, y, it


def both_change(r, a, t):
    y, it = r, 0
    while it < 30:
        y = r.copy()
        y[0] += 1
        y[1:] *= 0.5
        r[-1] = y[0]
        it += 1
        if y[0] > t:
            break
    return r, y, it


@pytest.mark.parametrize("function", [power_iteration, halved, both_change])
def test_new_arrays_that_become_the_old_ones(function):
    jitted = tj.jit(function)
    for a in (np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]]), np.eye(2)):
        for t in (1e-10, -1.0, 7.0, 1.4):
            ours, theirs = np.ones(len(a)), np.ones(len(a))
            for u, v in zip((*jitted(ours, a, t), ours), (*function(theirs, a, t), theirs), strict=True):
                np.testing.assert_allclose(u, v, rtol=1e-12)
