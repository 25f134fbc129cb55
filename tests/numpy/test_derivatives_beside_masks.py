"""Derivatives where a mask, a node or a zero keeps a value from being computed, or makes it another one."""

import cmath
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError

x = np.array([1.0, 4.0, 0.0, 0.25, -1.0])
great = np.array([np.inf, 1.0, 2.0, np.nan, 3.0])


def slopes(f: Any, at: Any) -> list[Any]:
    """The gradient in all ways."""
    eye = np.eye(len(at))
    return [tj.grad(f)(at), tj.jit(tj.grad(f))(at), np.array([tj.jvp(f, (at,), (e,))[1] for e in eye])]


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: np.divide(1.0, x, out=np.zeros_like(x), where=x != 0), [-1, -0.0625, 0, -16, -1]),
        (lambda x: np.log(x, where=x > 0, out=np.zeros_like(x)), [1, 0.25, 0, 4, 0]),
        (lambda x: np.sqrt(x, where=x > 0, out=np.zeros_like(x)), [0.5, 0.25, 0, 1, 0]),
        (lambda x: np.power(x, -1.0, where=x != 0, out=np.zeros_like(x)), [-1, -0.0625, 0, -16, -1]),
        (lambda x: np.multiply(x, great, where=np.isfinite(great), out=np.zeros_like(x)), [0, 1, 2, 0, 3]),
        (lambda x: np.subtract(x, 2 * x, where=x > 0, out=x * 3), [-1, -1, 3, -1, 3]),
    ],
)
def test_nothing_passes_where_a_ufunc_computes_nothing(f: Any, want: Any):
    for got in slopes(lambda x: f(x).sum(), x):
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_selection_of_a_selection():
    def logs(x: Any) -> Any:
        p = x[x >= 0]
        return np.log(p[p > 0]).sum()

    def inverses(x: Any) -> Any:
        p = x[np.isfinite(x)]
        p = p[p != 0]
        return (1 / p).sum()

    def roots(x: Any) -> Any:
        p = x[x >= 0]
        p[p > 0] = np.sqrt(p[p > 0])
        return p.sum()

    def powers(x: Any) -> Any:
        p = x[x >= 0]
        p[p > 0] **= -1.0
        return p.sum()

    for f, want in (
        (logs, [1, 0.25, 0, 4, 0]),
        (inverses, [-1, -0.0625, 0, -16, -1]),
        (roots, [0.5, 0.25, 1, 1, 0]),
        (powers, [-1, -0.0625, 1, -16, 0]),
    ):
        assert f(x) == pytest.approx(float(tj.jit(f)(x)))
        for got in slopes(f, x):
            np.testing.assert_allclose(got, want)


def test_interp_has_the_slope_of_its_line_at_points_too():
    nodes, values = np.array([0.0, 1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0, -4.0])
    at = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
    for got in slopes(lambda x: np.interp(x, nodes, values).sum(), at):
        np.testing.assert_allclose(got, [0, 2, 2, -1, -3, -3, -3, 0])
    line = np.array([0.0, 2.0, 4.0, 8.0])
    for got in slopes(lambda fp: (np.interp(at, nodes, fp) * np.arange(8.0)).sum(), line):
        step = 1e-4
        want = [
            ((np.interp(at, nodes, line + d) - np.interp(at, nodes, line - d)) * np.arange(8.0)).sum() / (2 * step)
            for d in np.eye(4) * step
        ]
        np.testing.assert_allclose(got, want, rtol=1e-6)
    rng = np.random.default_rng(0)
    f = tj.jit(np.interp)
    for n in (1, 2, 5, 9):
        for _ in range(10):
            nodes, values = np.sort(rng.integers(0, 8, n) / 2.0), rng.integers(-4, 5, n) * 1.0
            values[rng.random(n) < 0.2] = np.inf
            values[rng.random(n) < 0.2] = -0.0
            at = np.concatenate([rng.integers(-1, 18, 30) / 4.0, nodes, [np.nan, np.inf]])
            with np.errstate(all="ignore"):
                want, got = np.interp(at, nodes, values), f(at, nodes, values)
            assert np.array_equal(got, want, equal_nan=True)
            assert np.array_equal(np.signbit(got), np.signbit(want))


def test_functions_of_cmath_do_not_drop_derivatives():
    with pytest.raises(ConcretizationError, match="would drop its derivative"):
        tj.grad(lambda x: cmath.sqrt(x[0]).real * x[1])(x)


def test_second_derivatives_of_complex_sizes_at_zero():
    def f(a: Any) -> Any:
        return (abs(np.tril(a) * a) ** 2).sum()

    a = np.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    _, slope = tj.jvp(tj.grad(f), (a,), (a,))
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(slope, 3 * tj.grad(f)(a), atol=1e-12)  # it is homogeneous of degree 4
