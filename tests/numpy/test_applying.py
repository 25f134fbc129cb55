"""Functions of users along axes, and of elements or parts of arrays, against NumPy."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError, UserError

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_of_vectors_are_applied_along_an_axis(agree_together: Callable[..., None], axis: int):
    agree_together(
        [
            lambda xp, x: xp.apply_along_axis(np.cumsum, axis, x),
            lambda xp, x: xp.apply_along_axis(lambda v: v.sum(), axis, x),
            lambda xp, x: xp.apply_along_axis(lambda v, k, s: np.outer(v, v) * k + s, axis, x, 2.0, s=1),
            lambda xp, x: xp.apply_along_axis(np.sum, 0, x[0, 0]),
        ],
        X,
    )


def test_a_function_that_decides_is_applied_too():
    f = lambda x: np.apply_along_axis(lambda v: v.sum() if v[0] > 2 else -v.sum(), 1, x)  # noqa: E731
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tj.jit(f)(x), f(x))
    eager = tj.numpy.apply_along_axis(lambda v: v.sum() if v[0] > 2 else -v.sum(), 1, x)
    np.testing.assert_array_equal(np.asarray(eager), f(x))


def test_a_function_that_changes_its_vectors_changes_the_array_or_is_refused():
    def of_one(x: Any) -> Any:
        np.apply_along_axis(lambda row: row.fill(9) or row, 0, x)
        return x + 1

    def of_several(x: Any) -> Any:
        np.apply_along_axis(lambda row: row.fill(9) or row, 1, x)
        return x + 1

    np.testing.assert_array_equal(tj.jit(of_one)(np.ones(3)), of_one(np.ones(3)))
    with pytest.raises(TracerError, match="changed in place"):
        tj.jit(of_several)(np.ones((2, 3)))


def test_no_vectors_and_missing_axes_are_rejected():
    with pytest.raises(ValueError, match="iteration dimensions are 0"):
        tj.jit(lambda x: np.apply_along_axis(np.sum, 1, x))(X[:0])
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        tj.jit(lambda x: np.apply_along_axis(np.sum, 3, x))(X)


def test_functions_are_applied_over_several_axes(agree_together: Callable[..., None]):
    agree_together(
        [
            *[lambda xp, x, a=axes: xp.apply_over_axes(np.sum, x, a) for axes in (0, (0, 2), [1], -1, [0, 1, 2])],
            lambda xp, x: xp.apply_over_axes(np.cumsum, x, (0, 1)),
        ],
        X,
    )
    with pytest.raises(ValueError, match="correct shape"):
        tj.jit(lambda x: np.apply_over_axes(lambda v, axis: v.sum(), x, 0))(X)


OPERANDS = [
    (np.array([1.0, 2, 3, 4]), 2.5),
    (np.arange(6).reshape(2, 3), np.array([1, 2, 3])),
    (np.arange(3)[:, None], np.arange(4)),
    (np.float64(2), np.float64(3)),
    (np.arange(3, dtype=np.float32), np.float32(1)),
]


@pytest.mark.parametrize(("a", "b"), OPERANDS, ids=str)
def test_functions_of_numbers_are_broadcast(agree: Callable[..., None], a: Any, b: Any):
    def difference(x: Any, y: Any) -> Any:
        return x - y if x > y else x + y

    agree(lambda xp, a, b: xp.vectorize(difference)(a, b), a, b, protocols=False)


def test_options_of_vectorize_are_numpys(agree_together: Callable[..., None]):
    m, v = X.reshape(4, 3, 2), np.arange(6.0).reshape(3, 2)
    agree_together(
        [
            lambda xp, m, v: xp.vectorize(lambda a: a * 2, otypes=[np.float32])(v),
            lambda xp, m, v: xp.vectorize(lambda a, p: np.polyval(p, a), excluded=["p"])(a=v, p=[1, 2, 3]),
            lambda xp, m, v: xp.vectorize(lambda p, a: np.polyval(p, a), excluded={0})([1, 2, 3], v),
            lambda xp, m, v: xp.vectorize(lambda a: (a + 1, a * 2.0))(v),
            lambda xp, m, v: xp.vectorize(lambda p, q: p @ q, signature="(n,m),(m)->(n)")(m, v[0]),
            lambda xp, m, v: xp.vectorize(lambda p, q: p @ q, signature="(m),(m)->()")(v[:, None], v),
            lambda xp, m, v: xp.vectorize(lambda p: (p.sum(), p * 2), signature="(m)->(),(m)")(v),
        ],
        m, v,
    )  # fmt: skip


def test_what_a_signature_forbids_is_rejected():
    v = np.ones(3)
    with pytest.raises(ValueError, match="inconsistent size for core dimension"):
        tj.jit(lambda v: tj.numpy.vectorize(lambda p, q: p @ q, signature="(m),(m)->()")(v, v[1:]))(v)
    with pytest.raises(ValueError, match="not a valid gufunc signature"):
        tj.numpy.vectorize(lambda p: p, signature="(m")
    with pytest.raises(UserError, match="wrong number of positional arguments"):
        tj.numpy.vectorize(lambda p: p, signature="(m),(m)->()")(v)
    with pytest.raises(ValueError, match="say so in a signature"):
        tj.jit(lambda v: tj.numpy.vectorize(lambda p: np.ones(2) * p)(v))(v)


def test_a_vectorized_function_has_derivatives_batches_and_sizes():
    f = tj.numpy.vectorize(lambda a, b: np.where(a > b, a * b, -a))
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: f(x, 0.5).sum()))(x), [0.5, -1, 0.5])
    np.testing.assert_array_equal(tj.vmap(lambda x: f(x, 0.5))(x), [0.5, 2, 1.5])
    g = tj.jit(lambda x: f(x, 0.5))
    for n in (3, 5, 1, 2):
        np.testing.assert_array_equal(g(np.arange(1.0, n + 1)), np.arange(1.0, n + 1) * 0.5)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
def test_they_run_on_other_backends(record_backend: Callable[[str], None], backend: str):
    record_backend(backend)
    f = lambda x: (np.apply_along_axis(np.cumsum, 1, x), np.vectorize(lambda a: a if a > 3 else -a)(x))  # noqa: E731
    for got, want in zip(tj.jit(f, backend=backend)(X[0]), f(X[0]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_ufunc_of_a_users_function_has_methods():
    def step(a: Any, b: Any) -> Any:
        return a * b + 1

    u, x = tj.numpy.frompyfunc(step, 2, 1), np.arange(1.0, 5.0)
    assert tj.jit(lambda x: u.reduce(x))(x) == functools.reduce(step, x)
    np.testing.assert_array_equal(tj.jit(lambda x: u.accumulate(x))(x), list(itertools.accumulate(x, step)))
    np.testing.assert_array_equal(tj.jit(lambda x: u.outer(x, x))(x), np.multiply.outer(x, x) + 1)
    table = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(u.reduce(table, axis=1, keepdims=True)), [[3.0], [66.0]])
    np.testing.assert_array_equal(np.asarray(u(table, 2)), table * 2 + 1)
    with pytest.raises(ValueError, match="no identity"):
        u.reduce(x[:0])
    with pytest.raises(UserError, match="functions of two numbers"):
        tj.numpy.frompyfunc(lambda a: a, 1, 1).reduce(x)
