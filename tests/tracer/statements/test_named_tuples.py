"""Named tuples as the state of loops and branches."""

from typing import NamedTuple

import numpy as np
import pytest

import tracejit as tj


class State(NamedTuple):
    x: np.ndarray
    y: float

    def total(self):
        return self.x.sum() + self.y


class Outer(NamedTuple):
    state: State
    steps: int = 0


def counted(x, n):
    s = State(x, 0.0)
    for _ in range(n):
        if s.y > 2:
            s = s._replace(x=s.x * 2)
        s = State(s.x + 1, s.y + s.x[0])
    return s, s.total()


def until(x, n):
    s = Outer(State(x, 0.0))
    while s.state.total() < 10 * n:
        s = Outer(State(s.state.x * 1.5, s.state.y + s.state.x[1]), s.steps + 1)
    return s


def chosen(x, n):
    s = State(x, 1.0) if x[0] > n else State(x * 2, 2.0)
    if s.y > 1:
        a, b = s
        s = State(y=b + 1, x=a - 1)
    return s


@pytest.mark.parametrize("f", [counted, until, chosen], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_they_are_handed_on_as_what_they_are(f, n):
    x = np.arange(1.0, 4.0)

    def same(got, want):
        assert type(got) is type(want) or not isinstance(want, tuple)
        if isinstance(want, tuple):
            for g, w in zip(got, want, strict=True):
                same(g, w)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-14)

    same(tj.jit(f)(x, n), f(x, n))
    same(tj.jit(f)(x[:2], n), f(x[:2], n))


def test_another_kind_of_tuple_comes_of_the_first_iteration():
    def f(x):
        s = State(x, 0.0)
        while s[1] < 3:
            s = (s[0], s[1] + 1)
        return s

    assert type(tj.jit(f)(np.ones(2))) is tuple
    assert tj.jit(f)(np.ones(2))[1] == 3.0


def test_branches_that_give_different_kinds_are_refused():
    def f(x):
        return State(x, 1.0) if x[0] > 1 else (x, 1.0)

    with pytest.raises(TypeError, match="different structures"):
        tj.jit(f)(np.ones(2))
