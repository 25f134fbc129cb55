"""What functions return out of loops: parts of arrays that the loop changes, dicts and lists."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj


class Result(NamedTuple):
    x: Any
    history: Any


def history(x, tol):
    n = len(x)
    h = np.zeros(n)
    for k in range(n):
        x = x * 0.5
        h[k] = x.max()
        if h[k] < tol:
            return x, h[: k + 1]
    return x, h


def named(x, tol):
    h = np.zeros((len(x), 2))
    for k in range(len(x)):
        x = x * 0.5
        h[k] = x.max(), k
        if h[k, 0] < tol:
            return Result(x, h[:k])
    return Result(x, h)


def for_ever(x, tol):
    h, k = np.zeros(len(x)), 0
    while True:
        x = x * 0.5
        h[k] = x.max()
        k += 1
        if k == len(x) or h[k - 1] < tol:
            return x, h[:k]


def row(x, tol):
    h = np.zeros((len(x), 2))
    for k in range(len(x)):
        h[k] = x[k], k
        if h[k, 0] < tol:
            return h[k]
    return h[0]


def of_an_argument(x, tol):
    for k in range(len(x)):
        x[k] += 1
        if x[k] < tol:
            return x[:k]
    return x


def of_an_object(x, tol):
    o = SimpleNamespace(h=np.zeros(len(x)), n=0)
    for k in range(len(x)):
        o.h[k] = x[k] * 2
        o.n += 1
        if o.h[k] > tol:
            return o.h[: o.n], o.n
    return o.h, -1


def computed(x, tol):
    h = np.zeros(len(x))
    for k in range(len(x)):
        for j in range(k + 1):
            h[j] += x[k]
            if h[j] > tol:
                return np.sqrt(abs(h[::-1])) + j, k
    return h, -1


def a_dict(x, tol):
    for i in range(len(x)):
        if x[i] > tol:
            return {"x": x[i], "i": i}
    return {"x": 0.0, "i": -1}


def a_list(x, tol):
    for i, v in enumerate(x):
        if v > tol:
            return [v, {"i": i}]
    return [0.0, {"i": -1}]


def by_a_helper(x, tol):
    def found(y):
        y = y.copy()
        for i in range(len(y)):
            y[i] *= 2
            if y[i] > tol:
                return {"at": i, "head": y[0], "all": y}
        return {"at": -1, "head": 0.0, "all": y}

    r = found(x)
    return r["at"], r["head"] + 1, r["all"]


def by_functions(x, tol):
    def put(h, k, v):
        h[k] += v

    h, q = np.zeros(len(x)), np.ones(len(x))
    for k in range(len(x)):
        np.add.at(h, [k, 0], x[k])
        put(q, k, x[k])
        h.sort()
        if h[-1] > tol:
            return h[:k], q, h
    return h, q, x


FUNCTIONS = [
    by_functions, history, named, for_ever, row, of_an_argument, of_an_object, computed, a_dict, a_list, by_a_helper,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_python(f: Callable[..., Any], backend: str):
    jitted = tj.jit(f, backend=backend)
    for n, tol in ((4, 0.3), (7, 0.3), (7, 1e-9), (7, 1.4), (4, 9.0), (1, 0.3), (12, 2.5), (4, -1.0)):
        x, y = np.linspace(1, 2, n), np.linspace(1, 2, n)
        got, want = jitted(x, tol), f(y, tol)
        np.testing.assert_equal(got, want)
        np.testing.assert_equal(x, y)
        assert type(got) is type(want)
