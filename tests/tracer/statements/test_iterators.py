# ruff: noqa: B905 -- written as users do

"""Loops over `enumerate`, `zip` and `reversed` of each other."""

import numpy as np
import pytest

import tracejit as tj


def of_zip(x, y):
    s = 0.0
    for k, (u, v) in enumerate(zip(x, y)):
        if u > v:
            break
        s += k * u
    return s, k


def from_a_number(x, y):
    for i in range(len(x)):
        for j, v in enumerate(x[i + 1 :], i + 1):
            if v < x[i]:
                return i, j
    return -1, -1


def by_keyword(x, y):
    s = 0.0
    for k, v in enumerate(x, start=2):
        if v > 3:
            continue
        s += k * v
    return s


def of_reversed(x, y):
    s = 0.0
    for k, v in enumerate(reversed(x)):
        if v < 0.5:
            break
        s += k * v
    return s


def zip_of_enumerate(x, y):
    s = 0.0
    for (i, u), v in zip(enumerate(x), reversed(y)):
        if u * v > 4:
            break
        s += i * u - v
    return s


def of_a_range(x, y):
    s = 0
    for k, i in enumerate(range(0, len(x), 2), len(y)):
        if x[i] > 2:
            s += k
    return s


def from_data(x, y):
    n = 0
    for k, v in enumerate(x, int(y[0])):
        if v > 1:
            n += k
    return n


def of_enumerate(x, y):
    out = []
    for k, (i, v) in enumerate(enumerate(x)):
        out.append(v * k + i)
    return np.array(out).sum()


@pytest.mark.parametrize(
    "function", [of_zip, from_a_number, by_keyword, of_reversed, zip_of_enumerate, of_a_range, from_data, of_enumerate]
)
def test_iterators_of_iterators(function):
    jitted = tj.jit(function)
    for values in ([1.0, 2, 3, 0.2, 5], [5.0, 4, 3], [1.0, 1], [0.0, 9, 1, 2, 3, 4, 5]):
        x = np.array(values)
        np.testing.assert_allclose(jitted(x, x[::-1].copy()), function(x, x[::-1].copy()), rtol=1e-14)


def test_what_python_does_not_reverse():
    def f(x):
        s = 0.0
        for a, b in reversed(zip(x, x)):
            s += a * b
        return s

    with pytest.raises(TypeError, match="not reversible"):
        tj.jit(f)(np.ones(3))


def test_indices_of_enumerate_are_python_s():
    def f(x):
        return [k for k, _ in enumerate(x, np.int8(2))], [type(k) is int for k, _ in enumerate(range(2), 1)]

    assert tj.jit(f)(np.ones(3)) == f(np.ones(3))
