"""Functions of matrices, the Faddeeva function, estimated densities and NaN in distributions, against SciPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, UnsupportedError

special = pytest.importorskip("scipy.special")
linalg = pytest.importorskip("scipy.linalg")
stats = pytest.importorskip("scipy.stats")
RNG = np.random.default_rng(0)


def test_the_faddeeva_function():
    z = (RNG.standard_normal(2000) + 1j * RNG.standard_normal(2000)) * 10 ** RNG.uniform(-3, 2, 2000)
    want = special.wofz(z)
    known = np.isfinite(want) & (np.abs(want) < 1e300)
    for call in (tj.scipy.special.wofz, tj.jit(lambda z: tj.scipy.special.wofz(z))):
        got = np.asarray(call(z))
        off = np.abs(got - want)[known] / np.abs(want)[known]
        assert np.max(off[z[known].imag >= 0]) < 2e-13
        assert np.max(off) < 5e-12
    x = RNG.standard_normal(50) * 5
    got = tj.scipy.special.wofz(x)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, special.wofz(x), atol=1e-14)
    assert tj.scipy.special.wofz(x.astype(np.float32)).dtype == np.complex64
    slope = tj.jvp(tj.scipy.special.wofz, (z[known][:9],), (np.ones(9, complex),))[1]
    w = want[known][:9]
    np.testing.assert_allclose(slope, 2j / np.sqrt(np.pi) - 2 * z[known][:9] * w, rtol=1e-10)


@pytest.mark.parametrize("function", [np.exp, np.sin])
def test_functions_of_matrices(function: Any):
    a = RNG.standard_normal((5, 5))
    for x in (a, a @ a.T, a + 1j * RNG.standard_normal((5, 5))):
        want = linalg.funm(x, function)
        size = np.abs(want).max()
        for call in (lambda x: tj.scipy.linalg.funm(x, function), tj.jit(lambda x: tj.scipy.linalg.funm(x, function))):
            np.testing.assert_allclose(call(x), want, atol=1e-10 * size)
    both = tj.scipy.linalg.funm(np.stack([a, 2 * a]), function)
    np.testing.assert_allclose(both[1], linalg.funm(2 * a, function), atol=1e-9 * np.abs(both[1]).max())
    assert float(tj.scipy.linalg.funm(a, function, disp=False)[1]) < 1e-12
    with pytest.raises(ShapeError, match="eigenvalues"):
        tj.scipy.linalg.funm(a, np.sum)


@pytest.mark.parametrize(
    "options", [{}, {"bw_method": "silverman"}, {"bw_method": 0.4, "weights": RNG.uniform(size=30)}]
)
@pytest.mark.parametrize("d", [1, 2])
def test_estimated_densities(d: int, options: dict[str, Any]):
    samples, points = RNG.standard_normal((d, 30)), RNG.standard_normal((d, 7))
    if d == 1:
        samples, points = samples[0], points[0]
    got, want = tj.scipy.stats.gaussian_kde(samples, **options), stats.gaussian_kde(samples, **options)
    np.testing.assert_allclose(got(points), want(points), rtol=1e-10)
    np.testing.assert_allclose(got.logpdf(points), want.logpdf(points), rtol=1e-9)
    np.testing.assert_allclose(got.integrate_kde(got), want.integrate_kde(want), rtol=1e-9)
    np.testing.assert_allclose(
        got.integrate_gaussian(np.zeros(d), np.eye(d)), want.integrate_gaussian(np.zeros(d), np.eye(d)), rtol=1e-9
    )
    np.testing.assert_allclose(tj.jit(lambda k, p: k.pdf(p))(got, points), want(points), rtol=1e-10)
    made = tj.jit(lambda s, p: tj.scipy.stats.gaussian_kde(s, **options)(p))
    np.testing.assert_allclose(made(samples, points), want(points), rtol=1e-10)
    drawn = got.resample(tj.random.key(0), (4000,))
    assert drawn.shape == (d, 4000)
    centre = np.atleast_2d(samples) @ np.asarray(got.weights)
    np.testing.assert_allclose(drawn.mean(1), centre, atol=0.15)


def test_boxes_are_of_one_coordinate():
    x = RNG.standard_normal((2, 9))
    got = tj.scipy.stats.gaussian_kde(x[0]).integrate_box_1d(-1.0, 2.0)
    np.testing.assert_allclose(got, stats.gaussian_kde(x[0]).integrate_box_1d(-1.0, 2.0), rtol=1e-10)
    with pytest.raises(ShapeError, match="1D"):
        tj.scipy.stats.gaussian_kde(x).integrate_box_1d(-1.0, 2.0)
    with pytest.raises(UnsupportedError, match="complex"):
        tj.scipy.stats.gaussian_kde(x[0] + 1j)
    with pytest.raises(ShapeError, match="two or more"):
        tj.scipy.stats.gaussian_kde(np.ones(1))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("beta", (1.5, 2.0)), ("chi2", (2.0,)), ("expon", ()), ("gamma", (2.0,)), ("pareto", (2.0,)), ("uniform", ()),
        ("truncnorm", (-1.0, 2.0)), ("wrapcauchy", (0.4,)), ("binom", (9, 0.3)), ("bernoulli", (0.3,)),
        ("geom", (0.3,)), ("poisson", (3.0,)), ("nbinom", (4, 0.3)), ("betabinom", (8, 1.0, 2.0)),
    ],
)  # fmt: skip
def test_distributions_are_nan_of_nan(name: str, parameters: tuple[float, ...]):
    mine, x = getattr(tj.scipy.stats, name), np.array([np.nan, -3.0])
    for function in ("pdf", "logpdf", "pmf", "logpmf", "cdf"):
        if hasattr(mine, function):
            got = np.asarray(getattr(mine, function)(x, *parameters))
            assert np.isnan(got[0])
            assert got[1] == (-np.inf if function.startswith("log") else 0)


def test_outside_of_the_support_logarithms_have_no_slope():
    for name, parameters in (("gamma", (2.0,)), ("chi2", (5.0,)), ("beta", (1.5, 2.0))):
        mine = getattr(tj.scipy.stats, name)
        assert tj.grad(lambda x, f=mine.logcdf, p=parameters: f(x, *p))(-1.0) == 0


def test_the_error_of_a_mean_leaves_nan_out():
    x = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 9.0]])
    got = tj.scipy.stats.sem(x, axis=1, nan_policy="omit")
    np.testing.assert_allclose(got, stats.sem(x, axis=1, nan_policy="omit"))
    with pytest.raises(UnsupportedError, match="nan_policy"):
        tj.scipy.stats.sem(x, nan_policy="raise")


def test_exponentials_of_complex_numbers():
    z = RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))
    np.testing.assert_allclose(tj.scipy.special.logsumexp(z, axis=1), special.logsumexp(z, axis=1))
    np.testing.assert_allclose(tj.nn.softmax(z), np.exp(z) / np.exp(z).sum(-1, keepdims=True))
    np.testing.assert_allclose(tj.nn.log_softmax(z), z - np.log(np.exp(z).sum(-1, keepdims=True)))
    np.testing.assert_allclose(tj.scipy.special.expit(z), 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(tj.nn.silu(z), z / (1 + np.exp(-z)))
    np.testing.assert_allclose(tj.scipy.special.logit(z), np.log(z / (1 - z)))
    assert np.isfinite(tj.scipy.special.expit(np.array([-800 + 1j, 800 + 1j]))).all()


def test_arguments_of_jax():
    assert tj.scipy.linalg.dft(3, dtype="complex64").dtype == np.complex64
    assert float(tj.scipy.special.log_ndtr(0.5, series_order=4)) == float(tj.scipy.special.log_ndtr(0.5))
