"""Private methods, comparisons with None, counts and tuples with None: what is decided where no jump is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError


class Private:
    def __init__(self):
        self.__total = 0.0

    def __step(self, v):
        if v > 0:
            return v * 2
        return v

    def __tree(self, v, n):
        return v if n == 0 else self.__tree(v * 2 if v > 0 else v - 1, n - 1)

    @staticmethod
    def __least(v):
        return v if v < 1 else v * 0 + 1

    def __count(self, x):
        __n = 0

        def add():
            nonlocal __n
            __n += 1

        for v in x:
            if v > 0:
                add()
        return __n

    def run(self, x):
        for v in x:
            self.__total += self.__step(v)
        return self.__total, self.__least(x[0]), self.__tree(x[1], 2), self.__count(x), self.__keyword(__k=x[0])

    def __keyword(self, **given):
        return given["__k"] if given["__k"] > 0 else 0.0


def test_private_methods_decide():
    compiled = tj.jit(lambda x: Private().run(x))
    for x in (np.array([1.0, -2.0, 3.0]), np.array([-1.0, 2.0, -3.0])):
        np.testing.assert_array_equal(compiled(x), Private().run(x))


def find(x, v):
    for j in range(len(x)):
        if x[j] > v:
            return j, x[j]
    return None


@pytest.mark.parametrize("f", [
    lambda x: find(x, 5.0) == None, lambda x: None == find(x, 5.0), lambda x: find(x, 5.0) != None,  # noqa: E711
    lambda x: find(x, 5.0) is None,
])  # fmt: skip
def test_comparisons_with_none_in_functions_without_jumps(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in (np.array([1.0, 2.0]), np.array([1.0, 7.0])):
        assert compiled(x) is f(x)


def recorded(x):
    CELLS.append(len(x[x > 0]))
    return x.sum()


CELLS: list[Any] = []


def test_counts_are_not_stored_outside():
    with pytest.raises(TracejitError, match="counts is stored outside"):
        tj.jit(recorded)(np.array([1.0, -1.0]))
    assert not CELLS


def test_none_on_one_side_of_a_tuple_is_refused_with_advice():
    def least(x):
        best = (np.inf, None)
        for t in x:
            if t < best[0]:
                best = (t, 2 * t)
        return best[0]

    with pytest.raises(TracejitError, match="needs a name of its own"):
        tj.jit(least)(np.arange(3.0))
