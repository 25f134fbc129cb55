"""Options of functions of elements under JAX's names, and the running logarithm of sums."""

from collections.abc import Callable

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, OptionError

lax = tj.lax


def test_halves_are_rounded_by_the_method_that_is_asked_for():
    x = np.array([0.5, 1.5, -2.5, 0.49999999999999994])
    even = tj.jit(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))(x)
    np.testing.assert_array_equal(even, [0, 2, -2, 0])
    np.testing.assert_array_equal(lax.round(x), [1, 2, -3, 0])
    with pytest.raises(ValueError, match="is not a valid RoundingMethod"):
        lax.round(x, 5)


def test_inverse_hyperbolic_functions_and_neighbours_are_numpys():
    x = np.array([1.5, 2.0])
    got = tj.jit(lambda x: (lax.acosh(x), lax.asinh(x), lax.atanh(x / 4), lax.nextafter(x, 3 * x)))(x)
    for g, w in zip(got, (np.arccosh(x), np.arcsinh(x), np.arctanh(x / 4), np.nextafter(x, 3 * x)), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-15)
    with pytest.raises(DtypeError):
        lax.acosh(np.array([1, 2]))


def test_an_accuracy_changes_nothing():
    x = np.array([0.3, 1.0])
    for accuracy in (lax.AccuracyMode.HIGHEST, lax.Tolerance(1e-3, 1e-3, 4), None):
        for name in ("exp", "log1p", "rsqrt", "logistic", "tanh"):
            np.testing.assert_array_equal(getattr(lax, name)(x, accuracy=accuracy), getattr(lax, name)(x))
    with pytest.raises(OptionError, match="accuracy is 3"):
        lax.exp(x, accuracy=3)
    with pytest.raises(OptionError, match="not negative"):
        lax.Tolerance(-1)


def test_products_are_computed_in_the_dtype_that_is_asked_for():
    x = np.array([100, -100], np.int8)
    got = tj.jit(lambda x: lax.mul(x, np.int8(3), out_dtype=np.int32))(x)
    assert got.dtype == np.int32
    assert list(got) == [300, -300]
    np.testing.assert_array_equal(lax.pow(np.array([2.0, 3.0], np.float32), np.array([2, 3])), [4, 27])


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
def test_running_logarithms_of_sums_are_stable(record_backend: Callable[[str], None], backend: str):
    record_backend(backend)
    f = tj.jit(lambda x: (lax.cumlogsumexp(x), lax.cumlogsumexp(x, reverse=True)), backend=backend)
    for n in (6, 4, 1, 0):
        x = np.array([-np.inf, -np.inf, 1000.0, 999.0, -5.0, 1001.0])[:n]
        want = np.logaddexp.accumulate(x), np.logaddexp.accumulate(x[::-1])[::-1]
        for g, w in zip(f(x), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-15)
    assert np.isnan(f(np.array([1.0, np.nan, 2.0]))[0]).tolist() == [False, True, True]


def test_running_logarithms_of_sums_have_derivatives():
    x = np.array([-np.inf, 0.3, 1.0, -2.0])
    share = np.exp(x)[None] * np.tri(4)
    share = share / np.maximum(share.sum(1, keepdims=True), 1e-300)
    np.testing.assert_allclose(tj.jit(tj.jacrev(lambda x: lax.cumlogsumexp(x)))(x), share, rtol=1e-12)
    np.testing.assert_allclose(tj.jit(tj.jacfwd(lambda x: lax.cumlogsumexp(x)))(x), share, rtol=1e-12)


def test_nan_is_zero_as_an_integer():
    f = tj.jit(lambda x: tj.lax.convert_element_type(x, np.int32))
    assert f(np.array([1.7, -2.5, np.nan])).tolist() == [1, -2, 0]
    assert f(np.array([complex(np.nan, 1), 3 + 1j])).tolist() == [0, 3]
