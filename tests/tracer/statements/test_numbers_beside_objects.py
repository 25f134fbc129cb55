"""Numbers of NumPy's beside sequences and objects of the user's own classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError


class Vector(NamedTuple):
    a: Any
    b: Any

    def __rmul__(self, other):
        return Vector(other * self.a, other * self.b)


class Row:
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]

    def __rmul__(self, other):
        return Row([other * v for v in self.values])


class Made:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0])

    def __rmul__(self, other):
        return other * 5


def test_numbers_of_numpy_times_sequences():
    x = np.array([1.0, 2.0])
    for f in (
        lambda x: x[0] * [1, 2, 3], lambda x: (1, 2) * x.sum(), lambda x: (x[0] > 0) * [1, 2],
    ):  # fmt: skip
        with pytest.raises(TypeError, match="can't multiply sequence"):
            f(x)
        with pytest.raises(TypeError, match="can't multiply sequence"):
            tj.jit(f)(x)
    for f in (
        lambda x: x[0] * Vector(x[0], x[1]),
        lambda x: x[0] * Row([x[0], x[1]]),
        lambda x: x[0] == Row([1.0, 2.0]),
    ):
        with pytest.raises(TracejitError, match="makes an array"):
            tj.jit(f)(x)
    assert tj.jit(lambda n: n * Made())(3) == 15
    assert tj.jit(lambda n: n * Vector(1, 2))(3) == Vector(3, 6)


class Metres(np.float64):
    unit = "m"

    def __mul__(self, other):
        return 77.0


def test_numbers_of_classes_derived_from_numpys():
    f = tj.jit(lambda v, x: (v * 2, v.unit, isinstance(v, Metres), x * 3))
    for v in (Metres(2.0), Metres(3.0)):
        got = f(v, np.ones(2))
        assert got[:3] == (77.0, "m", True)


class Traced:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return np.array([self.a, self.a])


def test_classes_that_give_traced_arrays_to_numpy_are_refused():
    def f(x):
        try:
            return np.sum(np.sin(Traced(x[0])))
        except ValueError:
            return -1.0

    assert tj.jit(lambda x: np.sum(np.asarray(Traced(x[0]))))(np.ones(2)) == 2
    with pytest.raises(TracejitError):
        tj.jit(f)(np.ones(2))
