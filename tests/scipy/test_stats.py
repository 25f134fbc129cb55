"""The distributions against values of SciPy's, and each other where one follows from another."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj
from tests.scipy.recorded import NUMBERS, POINTS, PROBABILITIES, VALUES

stats = tj.scipy.stats


def arguments(name: str, function: str) -> list[Any]:
    if function in ("ppf", "isf"):
        return PROBABILITIES
    return NUMBERS if hasattr(getattr(stats, name), "logpmf") else POINTS


@pytest.mark.parametrize(("name", "function", "more", "want"), VALUES)
def test_values_are_those_of_scipy(name: str, function: str, more: tuple[Any, ...], want: list[float]):
    if (name, function) == ("cauchy", "ppf") or (name, function) == ("cauchy", "isf"):
        want = [*want]
        want[0], want[-1] = (math.copysign(1.6e16, w) * (more[1] if more else 1) for w in (want[0], want[-1]))
        tolerance = 0.03  # the ends are tangents of a number near a quarter turn, as JAX's
    else:
        tolerance = 1e-10
    x = np.array(arguments(name, function), np.float64)
    got = getattr(getattr(stats, name), function)(x, *more)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-14)
    assert type(got) is tj.Array


NAMES = sorted({row[0] for row in VALUES})


@pytest.mark.parametrize("name", NAMES)
def test_compiled_functions_agree_in_all_sizes(name: str):
    _, function, more, _ = next(row for row in VALUES if row[0] == name and row[1] in ("cdf", "logpmf", "logpdf"))
    ours = getattr(getattr(stats, name), function)
    f = tj.jit(lambda x: ours(x, *more))
    for size in (3, 0, 1, 5):
        x = np.resize(np.array(arguments(name, function), np.float64), size)
        np.testing.assert_allclose(f(x), ours(x, *more), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_float32_stays_float32(name: str):
    for _, function, more, want in [row for row in VALUES if row[0] == name]:
        x = np.array(arguments(name, function), np.float32)
        got = getattr(getattr(stats, name), function)(x, *more)
        assert got.dtype == np.float32
        inside = np.isfinite(want) & (np.abs(want) < 1e10)
        np.testing.assert_allclose(np.asarray(got)[inside], np.array(want)[inside], rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "more"),
    [("norm", (0.5, 2.0)), ("logistic", (0.5, 2.0)), ("laplace", (0.5, 2.0)), ("gumbel_r", (0.5, 2.0)),
     ("gumbel_l", (0.5, 2.0)), ("cauchy", (0.5, 2.0)), ("gamma", (1.75, 0.0, 2.0)), ("chi2", (3.5,)),
     ("expon", (0.0, 2.0)), ("beta", (1.75, 0.6)), ("pareto", (1.25, -0.75)), ("truncnorm", (-1.0, 2.0)),
     ("gennorm", (1.5,))],
)  # fmt: skip
def test_the_slope_of_cdf_is_pdf(name: str, more: tuple[float, ...]):
    distribution = getattr(stats, name)
    x = np.array([0.3, 0.55, 0.9])
    slope = tj.vmap(tj.grad(lambda y: distribution.cdf(y, *more)))(x)
    np.testing.assert_allclose(slope, distribution.pdf(x, *more), rtol=1e-9)


def test_gradients_are_finite_outside_of_the_support():
    for name, more in [("gamma", (1.75,)), ("beta", (1.75, 0.6)), ("pareto", (1.25,)), ("expon", ()), ("uniform", ())]:
        slope = tj.vmap(tj.grad(lambda x, n=name, m=more: getattr(stats, n).logpdf(x, *m)))(np.array([-1.0, 0.5]))
        assert slope[0] == 0, name


def test_the_tails_of_the_normal_distribution_do_not_underflow():
    np.testing.assert_allclose(stats.norm.logcdf(-40.0), -804.6084420137538, rtol=1e-14)
    np.testing.assert_allclose(stats.norm.logsf(40.0), -804.6084420137538, rtol=1e-14)
    np.testing.assert_allclose(stats.norm.isf(1e-300), 37.0470962993612, rtol=1e-13)
    with mpmath.workdps(30):
        want = mpmath.log(mpmath.npdf(9.5) / (mpmath.ncdf(-9) - mpmath.ncdf(-10)))
    np.testing.assert_allclose(stats.truncnorm.logpdf(9.5, 9.0, 10.0), float(want), rtol=1e-13)


def test_densities_of_vectors():
    x, mean = np.array([[0.5, -1.0], [0.0, 2.0], [1.0, 1.0]]), np.array([0.25, 0.5])
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    rest = x - mean
    want = (
        -0.5 * np.einsum("ki,ij,kj->k", rest, np.linalg.inv(cov), rest) - math.log(2 * math.pi) - 0.5 * math.log(1.75)
    )
    of = stats.multivariate_normal
    np.testing.assert_allclose(of.logpdf(x, mean, cov), want, rtol=1e-12)
    np.testing.assert_allclose(tj.jit(of.pdf)(x, mean, cov), np.exp(want), rtol=1e-12)
    np.testing.assert_allclose(of.logpdf(x, mean, 2.0), of.logpdf(x, mean, 2.0 * np.eye(2)), rtol=1e-12)
    np.testing.assert_allclose(of.logpdf(x, 0.5, 4.0), stats.norm.logpdf(x, 0.5, 2.0), rtol=1e-12)
    np.testing.assert_allclose(of.logpdf(x[0], mean, np.stack([cov, 3 * cov]))[0], want[0], rtol=1e-12)
    slope = tj.grad(lambda m: of.logpdf(x[0], m, cov))(mean)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, x[0] - mean), rtol=1e-11)
    with pytest.raises(NotImplementedError, match="allow_singular is not supported"):
        of.logpdf(x, mean, cov, True)
    with pytest.raises(ValueError, match=r"mean has 2 elements, cov the shape \(3, 3\)"):
        of.logpdf(x, mean, np.eye(3))


def test_dirichlet_takes_all_or_all_but_the_last_probability():
    x, alpha = np.array([[0.2, 0.1], [0.3, 0.6], [0.5, 0.3]]), np.array([1.5, 2.0, 0.75])
    norm = math.lgamma(4.25) - sum(map(math.lgamma, alpha))
    want = norm + ((alpha[:, None] - 1) * np.log(x)).sum(0)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), want, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x[:2], alpha), want, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:, 0], alpha), np.exp(want[0]), rtol=1e-12)
    assert stats.dirichlet.logpdf(np.array([0.5, 0.1, 0.1]), alpha) == -np.inf
    with pytest.raises(ValueError, match="x has 5 probabilities, alpha 3"):
        stats.dirichlet.logpdf(np.ones(5), alpha)


def test_multinomial_is_nothing_where_the_numbers_do_not_sum_to_n():
    p = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(stats.multinomial.pmf(np.array([2, 1, 3]), 6, p), 60 * 0.04 * 0.3 * 0.125, rtol=1e-12)
    assert stats.multinomial.logpmf(np.array([2, 1, 3]), 5, p) == -np.inf


def test_quantiles_of_bernoulli_are_0_and_1():
    got = stats.bernoulli.ppf(np.array([-0.5, 0.0, 0.7, 0.75, 1.0, 1.5], np.float32), np.float32(0.3))
    np.testing.assert_array_equal(got, np.array([np.nan, 0, 0, 1, 1, np.nan], np.float32))
    assert got.dtype == np.float32


def test_the_entropy_of_poisson_is_that_of_its_probabilities():
    k = np.arange(3000)
    for mu in (0.01, 1.0, 40.0, 99.0, 101.0, 1000.0):
        logarithm = np.asarray(stats.poisson.logpmf(k, mu))
        inside = logarithm > -700
        want = -(np.exp(logarithm[inside]) * logarithm[inside]).sum()
        np.testing.assert_allclose(stats.poisson.entropy(mu), want, rtol=1e-9)
    assert stats.poisson.entropy(0.0) == 0


@pytest.mark.parametrize(("axis", "ddof"), [(0, 1), (1, 0), (None, 1)])
def test_the_standard_error_of_the_mean(axis: int | None, ddof: int):
    x = np.random.default_rng(0).normal(size=(5, 4))
    count = x.size if axis is None else x.shape[axis]
    want = x.std(axis=axis, ddof=ddof) / math.sqrt(count)
    np.testing.assert_allclose(stats.sem(x, axis=axis, ddof=ddof), want, rtol=1e-13)
    np.testing.assert_allclose(tj.jit(lambda y: stats.sem(y, axis, ddof))(x), want, rtol=1e-13)


def test_what_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'zipf'"):
        _ = stats.zipf
    with pytest.raises(AttributeError, match="has no attribute 'signal2'"):
        _ = tj.scipy.signal2


def test_the_logistic_density_at_infinity():
    z = np.array([-np.inf, np.inf, 0.0, 3.0, np.nan])
    np.testing.assert_allclose(
        tj.scipy.stats.logistic.logpdf(z), [-np.inf, -np.inf, -1.3862943611198906, -3.0971747, np.nan], rtol=1e-7
    )
    np.testing.assert_allclose(tj.scipy.stats.logistic.pdf(z), [0, 0, 0.25, 0.04517665973091214, np.nan], rtol=1e-7)
    assert float(tj.grad(tj.grad(lambda z: tj.scipy.stats.logistic.logpdf(z)))(0.0)) == -0.5
