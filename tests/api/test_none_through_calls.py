"""None as a result that data decide, of functions that compiled functions and transformations call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError, UnsupportedError


def find(x, v):
    for k in range(len(x)):
        if x[k] == v:
            return k
    return None


def pair(x, v):
    if x[0] < v:
        return x[0], x[1]
    return None


def listed(x, v):
    return [x[0] * 2 if x[0] < v else None, x[1]]


def positive(v):
    if v > 0:
        return v * 2
    return None


X = np.array([1.0, 2.0, 3.0])


def user(inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(x, v):
        k = inner(x, v)
        if k is None:
            return -1
        return k

    return call


def summed(inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(x, v):
        s = 0.0
        for n in range(5):
            k = inner(x, n * v)
            if k is not None:
                s += 10 + k
        return s

    return call


def of_list(inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(x, v):
        first, second = inner(x, v)
        return second if first is None else first + second

    return call


def of_pair(inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(x, v):
        found = inner(x, v)
        return 0.0 if found is None else found[0] + found[1]

    return call


@pytest.mark.parametrize(
    ("inner", "outer"), [(find, user), (find, summed), (listed, of_list), (pair, of_pair)], ids=lambda f: f.__name__
)
def test_of_a_compiled_function(inner: Callable[..., Any], outer: Callable[..., Any]):
    compiled, plain = tj.jit(outer(tj.jit(inner))), outer(inner)
    for v in (1.0, 2.0, 9.0, 0.0, 3.0):
        assert compiled(X, v) == plain(X, v)


def test_it_is_handed_on():
    inner = tj.jit(find)
    compiled = tj.jit(lambda x, v: inner(x, v))
    assert (compiled(X, 2.0), compiled(X, 9.0)) == (1, None)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tj.vmap(positive)(x),
        lambda x: tj.lax.map(positive, x),
        lambda x: tj.lax.scan(lambda c, v: (c, positive(v)), 0.0, x)[1],
        lambda x: tj.checkpoint(positive)(x[1]),
        lambda x: tj.grad(positive)(x[1]),
        lambda x: tj.jvp(positive, (x[1],), (1.0,)),
        lambda x: np.vectorize(positive)(x),
    ],
)
def test_transformations_have_no_none(f: Callable[..., Any]):
    compiled = tj.jit(f)
    compiled(X)
    with pytest.raises(TypeError, match="is None here"):
        compiled(np.array([1.0, -1.0, 2.0]))


def test_the_greatest_of_lists_is_one_of_them():
    def f(x):
        lists = [[3, 0], [1, 0]]
        best = max(lists)
        best[1] = 5
        return lists, best is lists[0], min(lists, key=sum) is lists[1]

    assert tj.jit(f)(X) == f(X)


class Backwards(list):
    def __iter__(self):
        return iter([7, 8, 9])


def test_a_list_that_iterates_otherwise():
    compiled = tj.jit(lambda i: Backwards([1, 2, 3])[i[0]])
    for i in (0, 2, -1):
        assert compiled(np.array([i])) == Backwards([1, 2, 3])[i]


def numbers_compared(x):
    q = x[0] if x[0] > 0 else None
    r = x[1] if x[1] > 0 else None
    return q == r, q != r, None in [q], (q, 1) == (r, 1), (q, 1) != (r, 1), q == 3.0, q != 3.0


def tuples_compared(x):
    q = (x[0], 1) if x[0] > 0 else None
    r = (x[1], 1) if x[1] > 0 else None
    return q == r, q != r, None in [q], None in (q, r), q == (3.0, 1)


@pytest.mark.parametrize("f", [numbers_compared, tuples_compared])
def test_what_may_be_none_is_compared(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([3.0, 3.0], [3.0, -1.0], [-1.0, 3.0], [-1.0, -2.0], [2.0, 3.0]):
        assert compiled(np.array(x)) == f(np.array(x))


def test_an_array_that_may_be_none_is_asked_by_is():
    with pytest.raises(TracerError, match="ask `is None`"):
        tj.jit(lambda x: (x * 2 if x[0] > 0 else None) == None)(X)  # noqa: E711


def test_a_tuple_that_is_none_within_a_container():
    def f(x):
        best = None
        for k in range(len(x)):
            if x[k] > 0 and (best is None or x[k] < best[0]):
                best = (x[k], k)
        return best, len(x)

    compiled = tj.jit(f)
    assert compiled(X) == f(X)
    with pytest.raises(UnsupportedError, match="within a container"):
        compiled(-X)


def test_arrays_in_tuples_that_data_order_are_refused():
    def f(x):
        try:
            return 1 if (x[0], x) > (0, x + 1) else 0
        except ValueError:
            return -1

    with pytest.raises(TracerError, match="arrays in these tuples"):
        tj.jit(f)(X)


def test_the_greatest_of_nothing_has_no_derivative():
    def f(z, k):
        return z[k : k + 2].max(initial=-9.0) + z[: k - 2].min(initial=9.0)

    compiled = tj.jit(lambda z, k: (tj.jvp(lambda z: f(z, k), (z,), (np.ones(4),))[1], tj.grad(f)(z, k)))
    z = np.array([1.0, 2.0, 3.0, 4.0])
    for k in (1, 2, 4, 9):
        tangent, gradient = compiled(z, k)
        np.testing.assert_allclose(gradient, _by_differences(f, z, k), atol=1e-6)
        np.testing.assert_allclose(tangent, gradient.sum())


def _by_differences(f: Callable[..., Any], z: Any, k: int) -> Any:
    steps = 1e-6 * np.eye(len(z))
    return np.array([(f(z + h, k) - f(z - h, k)) / 2e-6 for h in steps])


def test_a_tuple_in_a_result_of_a_compiled_function():
    inner = tj.jit(lambda x, v: (pair(x, v), x[0]))

    def f(x, v):
        found, first = inner(x, v)
        return -first if found is None else found[0] + found[1]

    compiled = tj.jit(f)
    for v in (9.0, 0.0, 9.0):
        assert compiled(X, v) == (-X[0] if v == 0.0 else X[0] + X[1])


def test_an_aux_result_keeps_its_class():
    def f(v):
        return (v**2).sum(), (int(v[0]), float(v[1]), v[1])

    found = tj.jit(lambda v: tj.value_and_grad(f, has_aux=True)(v)[0][1])(X)
    assert [type(x) for x in found] == [int, float, np.float64]
