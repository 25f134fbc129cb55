"""Arrays that a loop changes in place, and whose names it then binds to others, depending on data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import Tally, verdict
from tests.generators.rebinding import rebinding
from tests.numpy.cases import Cases
from tracejit.support.errors import TracejitError

X = np.array([0.5, 1.0, 0.25, 2.0])
CASES = Cases()
case = CASES.case


@case
def double_buffer(x, t):
    old = x.copy()
    cur = x.copy()
    k = 0
    while k < 300:
        old[0] += 1
        if cur.max() > t:
            break
        old, cur = cur, old
        k += 1
    return old, cur, k


@case
def two_buffers_until_near(x, t):
    old, new = x.copy(), x.copy()
    for it in range(200):  # noqa: B007
        new[1:-1] = 0.5 * (old[:-2] + old[2:])
        err = np.abs(new - old).max()
        old, new = new, old
        if err < t / 20:
            break
    old[0] = 7
    new[1] += old[2]
    return old, new, it


@case
def left_before_the_swap(x, t):
    old, new = x.copy(), np.zeros(len(x))
    for _ in range(200):
        new[1:-1] = 0.5 * (old[:-2] + old[2:])
        new[0], new[-1] = old[0], old[-1]
        if np.abs(new - old).max() < t / 20:
            break
        old, new = new, old
    new *= 2
    return new, old


@case
def three_in_turn(x, t):
    a, b, c = x.copy(), x * 2, x * 3
    k = 0
    while k < 40:
        a += b / 8
        a, b, c = b, c, a
        if a.sum() > 6 * t:
            break
        k += 1
    b[0] = -1
    c *= 2
    return a, b, c, k


@case
def rolled(x, t):
    u = x.copy()
    for i in range(50):  # noqa: B007
        u[0] += 0.5
        if u.max() > t:
            break
        u = np.roll(u, 1)
    return u, i


@case
def rolled_while(x, t):
    u = x.copy()
    k = 0
    while u.sum() < 40:
        u[0] += 0.5
        k += 1
        if u.max() > t:
            break
        u = np.roll(u, 1) * 2
    return u, k


@case
def skipped(x, t):
    a = x * 1.0
    for o in x:
        a[0] += o
        if o < t:
            continue
        a = a / 2
        a[-1] *= 0.5
    return a


@case
def handed_round(x, t):
    a = x.copy()
    b = a + 1
    d = a * 2
    k = 0
    while k < 40:
        a[0] += 1
        b[-1] -= 0.5
        if d.max() > t:
            break
        a, b, d = b, d, a
        k += 1
    return a, b, d


@case
def swapped_in_a_branch(x, t):
    a = x.copy()
    b = a * 2
    for _ in range(10):
        a[0] += 0.5
        if a.max() > t:
            a, b = b, a
    return a, b


@case
def in_a_loop(x, t):
    rows = np.outer(x, x)
    out = np.zeros(len(x))
    for i in range(len(x)):
        u = rows[i].copy()
        for _ in range(30):
            u[0] += 0.5
            if u.max() > t:
                break
            u = np.roll(u, 1)
        out[i] = u[0]
    return out


@case
def kept_beside(x, t):
    u = x.copy()
    old = u.copy()
    for _ in range(9):
        u[0] += 1
        old = u
        u = u * 0.5
    old[1] = 7
    return u, old


@case
def an_iteration_before(x, t):
    b = np.zeros_like(x)
    c = x.copy()
    a = x.copy()
    for _ in range(9):
        b = c
        c = a
    b[0] += 1
    return a, b, c


@case
def without_an_iteration(x, t):
    a = x + 1
    b = x
    c = x[::-1].copy()
    k = 0
    while k < 12:
        k += 1
        c, b, a = b, a, c
        while c.sum() < t and k < 20:
            k += 1
            b = a
            a, b = b, a
    return k, a


@pytest.mark.parametrize("t", [-1.0, 1.5, 5.0, 1e9])
@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_as_python(f: Callable[..., Any], t: float):
    x = X.copy()
    got, want = tj.jit(f)(x, t), f(X.copy(), t)
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)
    np.testing.assert_array_equal(x, X)


def the_first_has_another_name(x, t):
    u = x.copy()
    v = u
    k = 0
    while k < 50:
        u[0] += 0.5
        if u.max() > t:
            break
        u = np.roll(u, 1)
        k += 1
    return u, v


def the_argument_itself(x, t):
    k = 0
    while k < 50:
        x[0] += 0.5
        if x.max() > t:
            break
        x = np.roll(x, 1)
        k += 1
    return x


def the_test_reads_it(x, t):
    a = x.copy()
    b = x * 2
    c = a
    k = 0
    while c.sum() < t and k < 7:
        a[0] += 1
        a, b = b, a
        k += 1
    return a, b, k


def may_be_another_names(x, t):
    a = x.copy()
    b = x * 2
    c = x * 3
    s = 0.0
    for i in range(9):  # noqa: B007
        a[0] += 1
        s += c[0]
        if a.max() > t:
            c = a
        a, b = b, a
    return a, b, c, s


def along_a_chain(x, t):
    a = x * 1.0
    b = a * 2
    c = a * 3
    i = 0
    while i < x[0] * 0 + t + 20:
        c[0] += 1
        c = b
        b = a
        i += 1
    return a, b, c


def two_that_are_one(x, t):
    a = x * 1.0
    b = a * 2
    c = a * 2
    for i in range(int(t) + 60):
        b[0] = i
        if b[0] > 40:
            break
        if a[0] > 40:
            continue
        b = c + 1
        a = b
    return a, b, c


def in_nested_branches(x, t):
    a = np.ones_like(x)
    b = x
    if x[0] < 9:
        a = b + 1
        if a[0] < 100:
            b = a
    a[0] = 7.0
    return a, b


def by_breaks(x, t):
    a = np.ones_like(x)
    b = x
    for i in range(30):
        if x[0] + i > 9:
            break
        a = b + 1
        if a[0] > 100:
            break
        b = a
    a[0] = 7.0
    return a, b


@pytest.mark.parametrize(
    "f",
    [
        along_a_chain,
        two_that_are_one,
        in_nested_branches,
        by_breaks,
        the_first_has_another_name,
        the_argument_itself,
        the_test_reads_it,
        may_be_another_names,
    ],
)
def test_refused_with_a_line(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match=r"an array|in place") as error:
        tj.jit(f)(X.copy(), 2.0)
    assert error.value.location is not None


def test_derivative():
    def f(x):
        u = x * 1.0
        for _ in range(20):
            u[0] += u[1] * 0.5
            if u.max() > 3:
                break
            u = np.roll(u, 1) * 1.1
        return u.sum()

    x = np.array([0.5, 0.3, 0.2])
    eps = 1e-6
    expected = [(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(3)]
    np.testing.assert_allclose(tj.jit(tj.grad(f))(x), expected, rtol=1e-6)


CHUNK = 40


@pytest.mark.parametrize("first", range(0, 160, CHUNK))
def test_random_loops(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        made = rebinding(seed)
        found = verdict(made, tally)
        assert found is None, made.alone(found)
    assert sum(tally.refusals.values()) < CHUNK * 0.85  # many are refused: arrays of two names
    assert tally.calls > 2 * CHUNK


@pytest.mark.parametrize("seed", [145, 282, 1824])
def test_found_by_random_loops(seed: int):
    made = rebinding(seed)
    found = verdict(made)
    assert found is None, made.alone(found)
