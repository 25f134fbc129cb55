# ruff: noqa: F841 -- written as users do
"""Names that tests bind (`:=`) behind `and` and `or`."""

import numpy as np
import pytest

import tracejit as tj


def behind_and(b):
    p = 0
    for i in range(len(b)):
        if b[i] > 3 and (w := b[i] * 2) < 19:
            p += w
    return p


def in_while(b):
    i = 0
    s = 0
    while i < len(b) and (v := b[i]) != 0:
        s += v
        i += 1
    return s, i


def behind_or(b):
    s = 0
    for i in range(len(b)):
        if b[i] > 5 or (w := b[i] + 1) > 3:
            s += b[i]
        else:
            s -= w
    return s


def negated(b):
    s = 0
    for i in range(len(b)):
        if not (b[i] > 5 and (w := b[i] - 5) < 3):
            s += 1
        else:
            s += w
    return s


def in_elif(b):
    s = 0
    for i in range(len(b)):
        if b[i] > 1 and (w := b[i]) < 8 and (z := w * 2) > 6:
            s += z
        elif b[i] == 1 or ((q := b[i]) == 9 and (r := q + 1)):
            s += 100
        else:
            s += 1000
    return s


def in_a_while_that_is_negated(b):
    k = 0
    while k < 50 and not ((m := b[k % len(b)]) == 0 or (n := m * k) > 30):
        k += 1
        if m == 7 and (u := k) > 3:
            return u, k
    return k, k


def of_an_argument(b, t):
    w = -1
    if t > 0 and (w := b[0]) > 3:
        return w
    return w


def known(b):
    if len(b) > 2 and (n := len(b)) > 3:
        return n
    return 0


def of_the_loop_s_own_name(b):
    s = 0
    for x in b:
        while x > 0 and (x := x - 3) > 1:
            s += x
    return s


@pytest.mark.parametrize(
    ("function", "more"),
    [
        *[(f, ()) for f in (behind_and, in_while, behind_or, negated, in_elif, in_a_while_that_is_negated, known)],
        (of_an_argument, (1,)),
        (of_an_argument, (0,)),
        (of_the_loop_s_own_name, ()),
    ],
)
def test_names_bound_behind_and_and_or(function, more):
    jitted = tj.jit(function)
    for x in ([5, 2, 9, 0, 7], [1, 1, 1], [9, 4, 8, 6, 6, 3, 2, 1], [0], [7, 7]):
        assert np.all(np.equal(jitted(np.array(x), *more), function(np.array(x), *more)))
