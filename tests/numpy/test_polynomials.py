"""Polynomials as vectors of coefficients, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

P = [
    np.array([1, 2, 3]),
    np.array([0, 0, 2.5, 1]),
    np.array([4], np.float32),
    np.array([0, 0]),
    np.random.default_rng(0).standard_normal(6),
]


def compare(f: Callable[..., Any], *args: Any, rtol: float = 1e-12) -> None:
    want, got = f(np, *args), tj.jit(lambda *xs: f(np, *xs))(*args)
    eager = f(tj.numpy, *args)
    for g in (got, eager):
        for a, b in zip(g, want, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert np.shape(a) == np.shape(b)
            np.testing.assert_allclose(np.asarray(a), b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("b", P, ids=str)
def test_sums_products_and_quotients_are_numpys(b: Any):
    def f(xp: Any, *xs: Any) -> list[Any]:
        y = xs[-1]
        found = [g(x, y) for x in xs[:-1] for g in (xp.polyadd, xp.polysub)]
        if b[0] == 0:
            return found
        return [
            *found,
            *[xp.polymul(x, y) for x in xs[:-1] if len(x) in (1, 3, 6)],
            *xp.polydiv(xs[1], y),
            *xp.polydiv(y, y),
        ]

    compare(f, *P, b)


def test_leading_zeros_are_trimmed_where_they_are_known():
    p = [0, 0, 2.5, 1]
    want = np.polymul(p, [0, 3])
    for got in (tj.numpy.polymul(p, [0, 3]), tj.jit(lambda x: np.polymul(np.array(p), [0, 3]) * x)(1.0)):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_a_leading_zero_that_data_give_is_an_error_of_the_program():
    f = tj.jit(lambda p, q: np.polymul(p, q))
    for x in ([0.0, 1.0, 2.0], [1.0, 0.0, 2.0]):
        p, q = np.array(x), np.ones(2)
        if x[0]:
            np.testing.assert_array_equal(f(p, q), np.polymul(p, q))
            continue
        with pytest.raises(ValueError, match="trim_leading_zeros=False"):
            f(p, q)
        assert tj.jit(lambda p, q: tj.numpy.polymul(p, q, trim_leading_zeros=True))(p, q).shape == (3,)


@pytest.mark.parametrize("p", P, ids=str)
def test_derivatives_and_integrals_are_numpys(p: Any):
    compare(
        lambda xp, p: [
            *[g(p, m) for g in (xp.polyder, xp.polyint) for m in (0, 1, 2, 5)],
            xp.polyint(p, 2, k=[3, 4]), xp.polyint(p, 2, k=3), xp.poly(p),
        ],
        p,
    )  # fmt: skip


@pytest.mark.parametrize("degree", [0, 2])
def test_fits_are_numpys(degree: int):
    x = np.linspace(0, 3, 12)
    y = np.stack([np.sin(x), np.cos(x)], 1)

    def f(xp: Any, x: Any, y: Any, w: Any) -> list[Any]:
        return [
            xp.polyfit(x, y, degree), xp.polyfit(x, y[:, 0], degree, w=w), *xp.polyfit(x, y[:, 0], degree, full=True),
            *xp.polyfit(x, y, degree, cov=True), *xp.polyfit(x, y[:, 1], degree, cov="unscaled", w=w),
        ]  # fmt: skip

    compare(f, x, y, np.arange(1.0, 13), rtol=1e-9)


def test_a_product_without_trimmed_zeros_is_as_long_as_both():
    p, q = np.array([0.0, 0.0, 1.0]), np.array([0.0, 2.0])
    f = lambda p, q: tj.numpy.polymul(p, q, trim_leading_zeros=False)  # noqa: E731
    np.testing.assert_array_equal(tj.jit(f)(p, q), [0, 0, 0, 2])
    np.testing.assert_array_equal(tj.jit(tj.vmap(f))(np.stack([p, p]), np.stack([q, q])), [[0, 0, 0, 2]] * 2)
    quotient, rest = tj.jit(lambda p, q: tj.numpy.polydiv(p, q, trim_leading_zeros=False))(
        np.array([3.0, 5.0, 2.0]), np.array([2.0, 1.0])
    )
    np.testing.assert_array_equal(quotient, [1.5, 1.75])
    np.testing.assert_array_equal(rest, [0, 0, 0.25])


def test_one_compiled_product_serves_many_lengths():
    f = tj.jit(lambda p, q: np.polymul(p, q))
    for n in (3, 5, 1, 2, 4):
        p, q = np.arange(n, 0, -1), np.arange(1.0, n + 1)
        np.testing.assert_array_equal(f(p, q), np.polymul(p, q))


def test_a_polynomial_has_derivatives():
    f = lambda p, x: np.sum(np.polyval(np.polymul(p, p), x))  # noqa: E731
    p, x = np.array([1.0, 2.0]), np.array([3.0])
    np.testing.assert_allclose(tj.jit(tj.grad(f))(p, x), [2 * 5 * 3, 2 * 5])


def test_what_numpy_rejects_is_rejected():
    x = np.ones((2, 3))
    for f in (
        lambda x: np.poly(x), lambda x: np.polyder(x[0], -1), lambda x: np.polyint(x[0], -1),
        lambda x: np.polyint(x[0], 3, k=[1, 2]), lambda x: np.polyfit(x[0], x[1], -1),
    ):  # fmt: skip
        for g in (f, tj.jit(f)):
            with pytest.raises(ValueError, match=r"\w"):
                g(x)
    for f in (lambda x: np.polyfit(x, x, 1), lambda x: np.polyfit(x[0], x, 1), lambda x: np.polyfit(x[0], x[0, 1:], 1)):
        with pytest.raises(TypeError):
            f(x)
        with pytest.raises(TypeError):
            tj.jit(f)(x)


@pytest.mark.parametrize("f", [lambda x: np.polyder(x.max(), 2), lambda x: np.polyint(x.max())])
def test_a_number_is_no_polynomial_to_derive(f: Any):
    x = np.array([1.0, 2.0])
    for call in (f, tj.jit(f)):
        with pytest.raises(TypeError, match="unsized"):
            call(x)


def test_the_polynomial_of_a_matrix_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"np\.poly of a matrix is not supported"):
        tj.jit(lambda x: np.poly(x))(np.eye(2))


def test_a_batch_of_remainders_says_how_to_get_one_length():
    with pytest.raises(UnsupportedError, match="trim_leading_zeros=False"):
        tj.vmap(lambda p: np.polydiv(p, p))(np.ones((2, 3)))
