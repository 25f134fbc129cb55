"""Numbers of several classes that meet in branches and loops, and what they decide afterwards."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import FloatIndex, MixedNumber, TracejitError


def as_an_index(x):
    k = 0
    out = np.zeros(4)
    if x[0] > 50:
        k = 1.5
    out[k] += 1
    return out


def in_a_try(x):
    k = 0
    out = np.zeros(4)
    if x[0] > 50:
        k = 1.5
    try:
        out[k] += 1
    except IndexError:
        return -1.0
    return out[0]


def in_a_while(x):
    k = i = 0
    out = np.zeros(4)
    while i < len(x) and x[i] < 9:
        out[k] += 1
        if x[i] > 5:
            k = k / 2
        i += 1
    return out


def of_numpys(x):
    k = 0
    out = np.zeros(4)
    for v in x:
        out[k] += 1
        if v > 50:
            k = v
    return out


@pytest.mark.parametrize("f", [as_an_index, in_a_try, in_a_while, of_numpys])
def test_an_index_that_may_be_a_float_is_refused(f: Callable[..., Any]):
    with pytest.raises(FloatIndex, match=r"write int\(k\)") as caught:
        tj.jit(f)(np.array([1.0, 2.0]))
    assert caught.value.location is not None


def inverted(x):
    k = s = 0
    try:
        for v in x:
            s += ~k
            if v > 50:
                k = v
    except TypeError:
        return -5
    return s


def shifted(x):
    k = s = 0
    for v in x:
        s += 1 << k
        if v > 50:
            k = 1.0
    return s


@pytest.mark.parametrize("f", [inverted, shifted])
def test_operators_of_integers_do_not_decide(f: Callable[..., Any]):
    with pytest.raises(TracejitError):
        tj.jit(f)(np.array([1.0, 2.0]))


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 2


class Hundred(int):
    def __add__(self, other: Any) -> Any:
        return 100


def chosen(x):
    c = Colour.RED if x[0] > 0 else Colour.GREEN
    return c is Colour.RED


def picked(v):
    return Colour.RED if v > 0 else Colour.GREEN


def returned(x):
    return picked(x[0]) is Colour.RED


def looked_up(x):
    return [Colour.RED, Colour.GREEN][int(x[0])] is Colour.RED


def added(x):
    return (Hundred(1) if x[0] > 0 else Hundred(2)) + 1


@pytest.mark.parametrize("f", [chosen, returned, looked_up, added])
def test_other_classes_of_numbers_are_refused(f: Callable[..., Any]):
    with pytest.raises(TracejitError):
        tj.jit(f)(np.array([1.0, 2.0]))


def test_members_of_an_enumeration_are_compared():
    def f(d):
        s = 0
        for v in d:
            if v == Colour.RED:
                s += Colour.GREEN
            elif v == Colour.GREEN:
                s += 10
        return s

    d = np.array([1, 2, 3, 1])
    assert tj.jit(f)(d) == f(d)


def test_a_checkpoint_keeps_the_class_of_numbers():
    kept = tj.jit(lambda v: tj.checkpoint(lambda v: (int(v[0]), float(v[1]), v[1]))(v))
    assert [type(x) for x in kept(np.array([2.0, 3.0]))] == [int, float, np.float64]
    mixed = tj.jit(lambda i: tj.checkpoint(lambda i: i[0] if i[1] > 0 else 100)(i) * 2)
    assert mixed(np.array([50, 1], np.int8)) == 100
    with pytest.raises(MixedNumber):
        mixed(np.array([100, 0], np.int8))


def test_lengths_among_items_and_places_that_may_have_been_none():
    def f(x, d):
        n = len(x)
        return [n, 2 * n, 0][d[0]], (n, n * n)[d[1]]

    compiled = tj.jit(f)
    for n in (2, 3, 5):
        for d in ([0, 1], [2, 0], [1, 1]):
            assert compiled(np.ones(n), np.array(d)) == f(np.ones(n), np.array(d))

    def found(x):
        for k in range(len(x)):
            if x[k] > 0:
                return k
        return None

    def g(x):
        p = found(x)
        if p is None:
            return -1
        return [5, 6, 7][p]

    compiled = tj.jit(g)
    for x in ([1.0, 2.0, 3.0], [-1.0, -1.0, 2.0], [-1.0, -1.0, -1.0]):
        assert compiled(np.array(x)) == g(np.array(x))


def test_a_list_that_a_loop_with_a_break_empties_is_refused():
    def f(x, d):
        q, s = list(range(len(x))), 0.0
        while q:
            i = q.pop()
            if d[i] == 1:
                return s
            s += x[i]
        return s

    for n in (1, 2, 3):
        with pytest.raises(TracejitError):
            tj.jit(f)(np.arange(n) + 1.0, np.zeros(3, int))


def test_an_aux_result_is_not_none():
    def f(v):
        return v.sum() ** 2, (v[0] if v[0] > 0 else None)

    compiled = tj.jit(lambda v: tj.value_and_grad(f, has_aux=True)(v)[0][1])
    assert compiled(np.array([2.0, 1.0])) == 2.0
    with pytest.raises(TypeError, match="is None here"):
        compiled(np.array([-2.0, 1.0]))


def set_in_a_loop(x):
    q = False
    for v in x:
        if v > 0:
            q = v > 1
    return q + True, q * True, q + q


def by_or(x):
    q = x[0] > 0 or False
    return q * True, q + np.True_, q & True


@pytest.mark.parametrize("f", [set_in_a_loop, by_or])
def test_sums_of_bools_that_may_be_pythons(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([1.0, 2.0], [0.5, -1.0], [-1.0, -2.0], [2.0, 1.0]):
        want = f(np.array(x))
        try:
            got = compiled(np.array(x))
        except MixedNumber:
            assert type(want[0]) is int
        else:
            assert repr(got) == repr(want)


@pytest.mark.parametrize("v", [2.0, 3.5, 2, 3])
def test_powers_of_numbers_among_the_arguments(v: Any):
    for f in (lambda v: v**2j, lambda v: v ** (1 + 0j), lambda v: (v * 1.0) ** 1j, lambda v: v**-1, lambda v: v**-3):
        got, want = tj.jit(f)(v), f(v)
        assert type(got) is type(want)
        np.testing.assert_allclose(got, want, rtol=1e-14)
