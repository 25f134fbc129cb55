"""Arguments that JAX's functions have and NumPy's have not, and what follows from them."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

RNG = np.random.default_rng(0)
jnp = tj.numpy


def test_take_fills_what_is_out_of_range():
    x = RNG.standard_normal((3, 4))
    places = np.array([0, 5, -1, -9])
    want = np.stack([x[0], np.full(4, np.nan), x[2], np.full(4, np.nan)])
    for call in (
        lambda x, i: jnp.take(x, i, axis=0, mode="fill"), tj.jit(lambda x, i: jnp.take(x, i, axis=0, mode="fill")),
    ):  # fmt: skip
        np.testing.assert_array_equal(call(x, places), want)
    np.testing.assert_array_equal(jnp.take(x, places, axis=0, fill_value=7.0), np.where(np.isnan(want), 7.0, want))
    assert list(jnp.take(np.arange(3), np.array([0, 9]), mode="fill")) == [0, -(2**63)]
    np.testing.assert_array_equal(jnp.take(x, 13, mode="fill"), np.nan)
    options: dict[str, Any] = {"unique_indices": True, "indices_are_sorted": True}
    np.testing.assert_array_equal(jnp.take(x, np.array([0, 2]), axis=0, **options), x[[0, 2]])
    with pytest.raises(ShapeError, match="mode is"):
        jnp.take(x, 0, mode="wrapped")


@pytest.mark.parametrize("period", [2.5, -3.0, np.float64(7.0)])
def test_interpolation_within_a_period(period: float):
    x, xp, fp = RNG.standard_normal(30) * 9, RNG.standard_normal(6) * 3, RNG.standard_normal(6)
    for values in (fp, fp + 1j * fp[::-1]):
        want = np.interp(x, xp, values, period=period)
        got = tj.jit(lambda x, xp, fp: np.interp(x, xp, fp, period=period))(x, xp, values)
        np.testing.assert_allclose(got, want, atol=1e-12)
        np.testing.assert_allclose(jnp.interp(x, xp, values, period=period), want, atol=1e-12)
    slope = tj.grad(lambda x: np.interp(x, xp, fp, period=period).sum())(x)
    step = 1e-7
    ends = [np.interp(x + s, xp, fp, period=period) for s in (step, -step)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), atol=1e-5)
    with pytest.raises(ValueError, match="non-zero"):
        tj.jit(lambda x: np.interp(x, xp, fp, period=0))(x)


def test_interpolation_goes_on_along_the_last_lines():
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.0])
    x = np.array([-2.0, 0.5, 5.0])
    assert list(jnp.interp(x, xp, fp, left="extrapolate", right="extrapolate")) == [-1.0, 1.5, -2.0]
    assert list(jnp.interp(x, xp, fp, left="extrapolate")) == [-1.0, 1.5, 0.0]
    assert list(jnp.interp(x, xp, fp * 1j, right="extrapolate")) == [1j, 1.5j, -2j]
    with pytest.raises(ShapeError, match="extrapolate"):
        jnp.interp(x, xp, fp, left="further")


def test_symmetric_matrices_are_made_so_where_asked():
    x = RNG.standard_normal((4, 4))
    mean = (x + x.T) / 2
    np.testing.assert_allclose(jnp.linalg.eigvalsh(x, symmetrize_input=True), np.linalg.eigvalsh(mean))
    np.testing.assert_allclose(jnp.linalg.eigh(x, symmetrize_input=True).eigenvalues, np.linalg.eigvalsh(mean))
    np.testing.assert_allclose(jnp.linalg.eigvalsh(x), np.linalg.eigvalsh(x))
    y = x + 9 * np.eye(4)
    want = np.linalg.cholesky((y + y.T) / 2)
    np.testing.assert_allclose(jnp.linalg.cholesky(y, symmetrize_input=True), want)
    np.testing.assert_allclose(jnp.linalg.cholesky(y, upper=True, symmetrize_input=True), want.T)


def test_some_singular_values_alone():
    x = RNG.standard_normal((2, 4, 3))
    u, s, v = np.linalg.svd(x, full_matrices=False)
    for call in (
        lambda x: jnp.linalg.svd(x, False, subset_by_index=(1, 3)),
        tj.jit(lambda x: jnp.linalg.svd(x, False, subset_by_index=(1, 3))),
    ):
        left, values, right = call(x)
        np.testing.assert_allclose(values, s[:, 1:])
        np.testing.assert_allclose(
            (left * values[:, None]) @ right, (u[..., 1:] * s[:, None, 1:]) @ v[:, 1:], atol=1e-12
        )
    np.testing.assert_allclose(jnp.linalg.svd(x, compute_uv=False, subset_by_index=(0, 1)), s[:, :1])
    with pytest.raises(ShapeError, match="cannot both"):
        jnp.linalg.svd(x, subset_by_index=(0, 1))


def test_residuals_are_there_in_any_case_where_asked():
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 2))
    assert jnp.linalg.lstsq(a, b)[1].shape == (0,)
    np.testing.assert_allclose(jnp.linalg.lstsq(a, b, numpy_resid=False)[1], [0, 0], atol=1e-20)


def test_other_arguments():
    rows, columns = jnp.mask_indices(3, np.triu, size=8)
    want = np.mask_indices(3, np.triu)
    assert list(rows) == [*want[0], 0, 0]
    assert list(columns) == [*want[1], 0, 0]
    x = np.arange(5)
    assert list(jnp.delete(x, np.array([1, 3]), assume_unique_indices=True)) == [0, 2, 4]
    np.testing.assert_array_equal(jnp.linspace(1 + 1j, 2, 3), np.linspace(1 + 1j, 2, 3))
    quotient, rest = jnp.polydiv(u=np.array([3.0, 5.0, 2.0]), v=np.array([2.0, 1.0]))
    assert list(quotient) == [1.5, 1.75]
    assert list(rest) == [0.25]
