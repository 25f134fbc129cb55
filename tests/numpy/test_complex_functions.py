"""Functions of complex numbers that NumPy has not: SciPy's, and JAX's where NumPy refuses."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError

RNG = np.random.default_rng(3)
Z = RNG.uniform(-4, 4, (3, 40)) + 1j * RNG.uniform(-5, 5, (3, 40))
W = RNG.uniform(-4, 4, (3, 40)) + 1j * RNG.uniform(-5, 5, (3, 40))
special = tj.scipy.special


# -- of gamma ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["loggamma", "gamma", "digamma", "psi"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_functions_of_gamma_are_scipys(name: str, dtype: str):
    theirs = getattr(pytest.importorskip("scipy.special"), name)
    z = np.concatenate([Z[0], [1 + 0j, 2 + 0j, 0j, -3 + 0j, -2.5 + 0j, -2.5 - 0.0j, 1e5 + 3j, -20.3 + 2j]]).astype(
        dtype
    )
    with np.errstate(all="ignore"):
        want = theirs(z)
    calls = [tj.jit(lambda z: theirs(z))]
    if hasattr(special, name):
        calls.append(getattr(special, name))
    for call in calls:
        got = np.asarray(call(z))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12 if dtype == "c16" else 1e-6)


def test_derivatives_of_log_gamma():
    z, size = Z[0, :8], 1e-6
    f = special.loggamma
    for order in range(3):
        slope = tj.jvp(f, (z,), (np.ones_like(z),))[1]
        difference = (np.asarray(f(z + size)) - np.asarray(f(z - size))) / (2 * size)
        np.testing.assert_allclose(slope, difference, rtol=1e-7)
        each = [tj.grad(f, holomorphic=True)(v) for v in z]
        np.testing.assert_allclose(each, slope, rtol=1e-14)
        if order == 0:
            np.testing.assert_allclose(slope, special.digamma(z), rtol=1e-14)
        f = (lambda g: lambda z: tj.jvp(g, (z,), (np.ones_like(z),))[1])(f)


def test_log_gamma_of_batches():
    got = tj.jit(tj.vmap(special.loggamma, in_axes=1, out_axes=1))(Z)
    np.testing.assert_allclose(got, special.loggamma(Z), rtol=1e-13)


def test_gammaln_names_the_function_that_takes_complex_numbers():
    with pytest.raises(DtypeError, match="gammaln takes real numbers; loggamma takes complex ones"):
        special.gammaln(Z)


# -- products with logarithms ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_with_logarithms_are_scipys(name: str):
    theirs = getattr(pytest.importorskip("scipy.special"), name)
    x, y = np.append(Z[0], [0, 0, 0]), np.append(W[0], [0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        want = theirs(x, y)
    np.testing.assert_allclose(tj.jit(lambda x, y: theirs(x, y))(x, y), want, rtol=1e-13)
    np.testing.assert_allclose(getattr(special, name)(x.real, y), theirs(x.real, y), rtol=1e-13)


def test_the_faddeeva_function_by_scipys_name():
    theirs = pytest.importorskip("scipy.special").wofz
    np.testing.assert_allclose(tj.jit(lambda z: theirs(z))(Z), theirs(Z), rtol=1e-11)


# -- sums of exponentials ----------------------------------------------------------------------------------------------
BASES = {"logaddexp": (np.exp, np.log, np.pi), "logaddexp2": (np.exp2, np.log2, np.pi / np.log(2))}


@pytest.mark.parametrize("name", BASES)
def test_the_logarithm_of_a_sum_of_complex_exponentials(name: str):
    power, logarithm, half = BASES[name]
    f = getattr(tj.numpy, name)
    for got in (f(Z, W), tj.jit(f)(Z, W)):
        np.testing.assert_allclose(got, logarithm(power(Z) + power(W)), rtol=1e-11)
        assert np.all(np.abs(np.asarray(got).imag) <= half)
    assert tj.jit(f)(Z.astype("c8"), 1.0).dtype == np.complex64
    # beside numbers that are real, and where the exponentials overflow
    np.testing.assert_allclose(f(Z, W.real), logarithm(power(Z) + power(W.real)), rtol=1e-11)
    np.testing.assert_allclose(f(1000 + 1j, 1000 + 1j), 1000 + np.log(2) / np.log(power(1)) + 1j)
    np.testing.assert_allclose(f(-np.inf + 1j, 2 - 1j), 2 - 1j)
    assert f(-np.inf + 1j, -np.inf + 0j).real == -np.inf
    np.testing.assert_allclose(f(3.0, 4.0), getattr(np, name)(3.0, 4.0))


@pytest.mark.parametrize("name", BASES)
def test_derivatives_of_these_are_the_shares_of_the_exponentials(name: str):
    power, _, _ = BASES[name]
    f, (z, w) = getattr(tj.numpy, name), (Z[0, :9], W[0, :9])
    slope = tj.jvp(f, (z, w), (np.ones_like(z), np.zeros_like(w)))[1]
    np.testing.assert_allclose(slope, power(z) / (power(z) + power(w)), rtol=1e-10)
    np.testing.assert_allclose(tj.grad(f, holomorphic=True)(z[0], z[0]), 0.5)


@pytest.mark.parametrize("name", BASES)
def test_numpys_own_refuse_complex_numbers_as_numpy_does(name: str):
    f = getattr(np, name)
    with pytest.raises(TypeError):
        f(Z, W)
    with pytest.raises(TypeError, match="not defined for complex numbers"):
        tj.jit(lambda z, w: f(z, w))(Z, W)


def test_activations_of_complex_numbers():
    z = Z[0]
    np.testing.assert_allclose(tj.nn.softplus(z), np.log(np.exp(z) + 1), rtol=1e-11)
    np.testing.assert_allclose(tj.nn.log_sigmoid(z), -np.log(np.exp(-z) + 1), rtol=1e-11)
    np.testing.assert_allclose(tj.nn.mish(z), z * np.tanh(np.log(np.exp(z) + 1)), rtol=1e-10)
    np.testing.assert_allclose(tj.nn.tanh(z), np.tanh(z), rtol=1e-11)
    np.testing.assert_allclose(tj.nn.logmeanexp(z), np.log(np.mean(np.exp(z))), rtol=1e-11)
