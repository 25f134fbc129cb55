"""Integers of more than 64 bits meet those of loops, and what a block raises after it may have failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError


def congruential(x, m):
    h, i = 1, 0
    while i < m:
        h = (h * 6364136223846793005 + 1442695040888963407) % 2**64
        i += 1
    return h % 1000


def fibonacci(x, m):
    a, b, i = 0, 1, 0
    while i < m:
        a, b = b, (a + b) % 2**65
        i += 1
    return a


def counted(x, m):
    s, i = 0, 1
    while i <= m:
        i += 1
        s += (2**64 - i) % 97
    return s, i


def in_a_branch(x, m):
    return (2**64 - m) % 97 if x[0] > 0 else 3


@pytest.mark.parametrize("f", [congruential, fibonacci, counted, in_a_branch])
def test_of_numbers_among_the_arguments(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for m in (6, 3, 0, 1, 6):
        for x in (np.ones(2), -np.ones(2)):
            assert compiled(x, m) == f(x, m)


def of_data(x):
    s = i = 0
    while i < x[0]:
        s += (2**64 - i) % 97
        i += 1
    return s


def over_a_range(x):
    out = np.zeros(10)
    for i in range(int(x[0])):
        out[i] = (2**64 - i) % 97
    return out


def summed(x):
    s = 0
    for i in range(int(x[0])):
        s += (2**64 - i) % 97
    return s


@pytest.mark.parametrize("f", [of_data, over_a_range, summed])
def test_of_data_is_refused(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match="more than 64 bits"):
        tj.jit(f)(np.array([3.0]))


def which_error(x):
    if x[0] > 0:
        if x[0] > 100:
            raise ValueError("a")
        raise KeyError("b")
    return x


def index_first(x):
    if x[0] > 0:
        y = np.zeros(3)
        y[int(x[0])] = 1
        raise KeyError("b")
    return x


def in_a_loop(x):
    for v in x:
        if v > 0:
            if v > 100:
                raise ValueError("a")
            raise KeyError("b")
    return x


def in_a_while(x):
    i = 0
    while i < x[0]:
        if x[1] > 100:
            raise ValueError("a")
        raise KeyError("b")
    return x


def on_every_way(x):
    if x[0] > 0:
        raise KeyError("a")
    raise ValueError("b")


def one_or_the_other(x):
    if x[0] > 0:
        raise KeyError("a")
    else:
        raise ValueError("b")


def in_every_iteration(x):
    for v in x:
        if v > 0:
            raise KeyError("a")
        raise ValueError("b")


def after_an_index(x):
    y = np.zeros(3)
    y[int(x[0])] = 1
    raise ValueError("b")


def after_a_nest(x):
    for q in range(len(x)):
        for p in range(q):
            if x[p] > 0:
                raise KeyError("a")
    raise ValueError("b")


def outcome(f: Callable[..., Any], x: Any) -> Any:
    try:
        return f(x).tolist()
    except (LookupError, ValueError) as error:
        return next(kind for kind in (KeyError, IndexError, ValueError) if isinstance(error, kind))


ERRORS = [
    which_error, index_first, in_a_loop, in_a_while, on_every_way, one_or_the_other, in_every_iteration,
    after_an_index, after_a_nest,
]  # fmt: skip


@pytest.mark.parametrize("f", ERRORS)
def test_the_first_error_is_raised(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([3.0, 2.0], [-1.0, 2.0], [0.0, 0.0], [200.0, 2.0], [1.0, 300.0], [1.0, 1.0], [-1.0, -1.0]):
        assert outcome(compiled, np.array(x)) == outcome(f, np.array(x)), x
