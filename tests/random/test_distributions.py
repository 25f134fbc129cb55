"""Samples against the distribution functions they are to have: Kolmogorov-Smirnov and chi-square, fixed keys."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, OptionError, ShapeError

KEY = tj.random.key(2026)
R = tj.random
N = 8000


def normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def gamma_cdf(a: float, x: float) -> float:
    return float(mpmath.gammainc(a, 0, x, regularized=True))


def beta_cdf(a: float, b: float, x: float) -> float:
    return float(mpmath.betainc(a, b, 0, min(max(x, 0.0), 1.0), regularized=True))


def student_cdf(n: float, x: float) -> float:
    tail = beta_cdf(n / 2, 0.5, n / (n + x * x)) / 2
    return tail if x < 0 else 1 - tail


def triangular_cdf(x: float) -> float:  # of 0, 1, 3
    return x * x / 3 if x < 1 else 1 - (3 - x) ** 2 / 6


def truncated_cdf(x: float) -> float:  # between -1 and 2.5
    low, high = normal_cdf(-1.0), normal_cdf(2.5)
    return (normal_cdf(x) - low) / (high - low)


def wald_cdf(x: float) -> float:  # of mean 2
    root = math.sqrt(1 / x)
    return normal_cdf(root * (x / 2 - 1)) + math.exp(1.0) * normal_cdf(-root * (x / 2 + 1))


def maxwell_cdf(x: float) -> float:
    return math.erf(x / math.sqrt(2)) - math.sqrt(2 / math.pi) * x * math.exp(-x * x / 2)


CONTINUOUS: dict[str, tuple[Callable[..., Any], Callable[[float], float]]] = {
    "uniform": (lambda k, d: R.uniform(k, (N,), d, -2.0, 3.0), lambda x: (x + 2) / 5),
    "normal": (lambda k, d: R.normal(k, (N,), d), normal_cdf),
    "truncated_normal": (lambda k, d: R.truncated_normal(k, -1.0, 2.5, (N,), d), truncated_cdf),
    "exponential": (lambda k, d: R.exponential(k, (N,), d), lambda x: -math.expm1(-x)),
    "gumbel": (lambda k, d: R.gumbel(k, (N,), d), lambda x: math.exp(-math.exp(-x))),
    "gumbel high": (lambda k, d: R.gumbel(k, (N,), d, mode="high"), lambda x: math.exp(-math.exp(-x))),
    "laplace": (lambda k, d: R.laplace(k, (N,), d), lambda x: math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2),
    "logistic": (lambda k, d: R.logistic(k, (N,), d), lambda x: 1 / (1 + math.exp(-x))),
    "cauchy": (lambda k, d: R.cauchy(k, (N,), d), lambda x: 0.5 + math.atan(x) / math.pi),
    "pareto": (lambda k, d: R.pareto(k, 2.5, (N,), d), lambda x: 1 - x**-2.5),
    "rayleigh": (lambda k, d: R.rayleigh(k, 2.0, (N,), d), lambda x: -math.expm1(-x * x / 8)),
    "weibull_min": (lambda k, d: R.weibull_min(k, 2.0, 1.5, (N,), d), lambda x: -math.expm1(-((x / 2) ** 1.5))),
    "maxwell": (lambda k, d: R.maxwell(k, (N,), d), maxwell_cdf),
    "double_sided_maxwell": (
        lambda k, d: R.double_sided_maxwell(k, 1.0, 2.0, (N,), d),
        lambda x: 0.5 + math.copysign(maxwell_cdf(abs(x - 1) / 2), x - 1) / 2,
    ),
    "lognormal": (lambda k, d: R.lognormal(k, 0.5, (N,), d), lambda x: normal_cdf(math.log(x) / 0.5)),
    "triangular": (lambda k, d: R.triangular(k, 0.0, 1.0, 3.0, (N,), d), triangular_cdf),
    "wald": (lambda k, d: R.wald(k, 2.0, (N,), d), wald_cdf),
    "gamma 0.3": (lambda k, d: R.gamma(k, 0.3, (N,), d), lambda x: gamma_cdf(0.3, x)),
    "gamma 1": (lambda k, d: R.gamma(k, 1.0, (N,), d), lambda x: -math.expm1(-x)),
    "gamma 20": (lambda k, d: R.gamma(k, 20.0, (N,), d), lambda x: gamma_cdf(20.0, x)),
    "loggamma 0.01": (lambda k, d: R.loggamma(k, 0.01, (N,), d), lambda x: gamma_cdf(0.01, mpmath.exp(x))),
    "beta": (lambda k, d: R.beta(k, 2.0, 0.5, (N,), d), lambda x: beta_cdf(2.0, 0.5, x)),
    "chisquare": (lambda k, d: R.chisquare(k, 3.0, (N,), d), lambda x: gamma_cdf(1.5, x / 2)),
    "t": (lambda k, d: R.t(k, 3.0, (N,), d), lambda x: student_cdf(3.0, x)),
    "f": (lambda k, d: R.f(k, 5.0, 7.0, (N,), d), lambda x: beta_cdf(2.5, 3.5, 5 * x / (5 * x + 7))),
    "generalized_normal": (
        lambda k, d: R.generalized_normal(k, 4.0, (N,), d),
        lambda x: 0.5 + math.copysign(gamma_cdf(0.25, x**4), x) / 2,
    ),
    "dirichlet": (lambda k, d: R.dirichlet(k, np.array([1.0, 2.0, 3.0]), (N,), d)[:, 1], lambda x: beta_cdf(2, 4, x)),
    "ball": (lambda k, d: R.ball(k, 3, 2, (N,), d)[:, 0], lambda x: (2 + 3 * x - x**3) / 4),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_have_their_distribution(name: str, dtype: str):
    draw, cdf = CONTINUOUS[name]
    x = draw(KEY, dtype)
    assert x.dtype == dtype
    assert x.shape == (N,)
    assert np.isfinite(x).all()
    ordered = np.sort(x.astype(np.float64))
    places = np.linspace(0, N - 1, 120).astype(int)  # enough to see what is wrong, and mpmath takes its time
    want = np.array([cdf(float(ordered[n])) for n in places])
    distance = max(np.abs(want - places / N).max(), np.abs(want - (places + 1) / N).max())
    assert math.sqrt(N) * distance < 1.95, f"improbable by 1 to 1000: {distance}"


def poisson_pmf(lam: float, k: int) -> float:
    return math.exp(k * math.log(lam) - lam - math.lgamma(k + 1))


def binomial_pmf(n: int, p: float, k: int) -> float:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


DISCRETE: dict[str, tuple[Callable[[Any], Any], Callable[[int], float]]] = {
    "poisson 0.7": (lambda k: R.poisson(k, 0.7, (N,)), lambda k: poisson_pmf(0.7, k)),
    "poisson 9.5": (lambda k: R.poisson(k, np.float32(9.5), (N,)), lambda k: poisson_pmf(9.5, k)),
    "poisson 10": (lambda k: R.poisson(k, 10.0, (N,)), lambda k: poisson_pmf(10.0, k)),
    "poisson 80": (lambda k: R.poisson(k, 80.0, (N,), np.int32), lambda k: poisson_pmf(80.0, k)),
    "binomial few": (lambda k: R.binomial(k, 12, 0.3, (N,)), lambda k: binomial_pmf(12, 0.3, k)),
    "binomial mirrored": (lambda k: R.binomial(k, 12, 0.8, (N,)), lambda k: binomial_pmf(12, 0.8, k)),
    "binomial many": (lambda k: R.binomial(k, 100, 0.3, (N,)), lambda k: binomial_pmf(100, 0.3, k)),
    "binomial many mirrored": (lambda k: R.binomial(k, 60, 0.7, (N,), np.float32), lambda k: binomial_pmf(60, 0.7, k)),
    "geometric": (lambda k: R.geometric(k, 0.2, (N,)), lambda k: 0.2 * 0.8 ** (k - 1) if k else 0.0),
    "categorical": (
        lambda k: R.categorical(k, np.log(np.array([0.1, 0.2, 0.3, 0.4])), shape=(N,)),
        lambda k: 0.1 * (k + 1) if k < 4 else 0.0,
    ),
    "choice": (
        lambda k: R.choice(k, 4, (N,), p=np.array([0.1, 0.2, 0.3, 0.4])), lambda k: 0.1 * (k + 1) if k < 4 else 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_have_their_probabilities(name: str):
    draw, pmf = DISCRETE[name]
    x = draw(KEY).astype(np.int64)
    assert x.min() >= 0
    top = int(x.max()) + 1
    counts, expected = np.bincount(x, minlength=top).astype(float), N * np.array([pmf(k) for k in range(top)])
    often = expected >= 5
    seen = np.append(counts[often], counts[~often].sum())
    due = np.append(expected[often], N - expected[often].sum())
    if due[-1] < 5:  # too few to be a class of their own
        seen, due = np.append(seen[:-2], seen[-2:].sum()), np.append(due[:-2], due[-2:].sum())
    freedom = len(due) - 1
    assert np.sum((seen - due) ** 2 / due) < freedom + 4 * math.sqrt(2 * freedom) + 4


def test_normal_numbers_are_those_of_jax():
    recorded = {
        "float16": [-1.4296875, -0.87548828125, 1.974609375],
        "float32": [-0.02830461598932743, 0.4671318531036377, 0.2957029640674591],
        "float64": [-0.18471174528191162, -2.169824560397754, 0.18693555179382582],
    }
    key = R.key(42)
    for dtype, want in recorded.items():
        for found in (R.normal(key, (3,), dtype), tj.jit(lambda k, d=dtype: R.normal(k, (3,), d))(key)):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, want, rtol=50 * float(np.finfo(dtype).eps))


def test_normal_numbers_are_inverse_error_functions_to_the_last_digits():
    x = R.normal(KEY, (200,))
    u = R.uniform(KEY, (200,), minval=np.nextafter(-1.0, 0.0), maxval=1.0)
    with mpmath.workprec(120):
        want = np.array([float(mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(float(v)))) for v in u])
    assert (np.abs(x - want) / np.spacing(np.abs(want))).max() <= 4


@pytest.mark.parametrize("a", [0.0, -1.0, np.nan, np.inf, 1e-300, 1e300])
def test_extreme_parameters_end(a: float):
    sample, logarithm = R.gamma(KEY, a), R.loggamma(KEY, a)
    if a == 0:
        assert (sample, logarithm) == (0.0, -np.inf)
    elif not a > 0:
        assert np.isnan([sample, logarithm]).all()
    elif a == np.inf:
        assert sample == logarithm == np.inf
    elif a < 1:
        assert sample == 0
        assert -np.inf < logarithm < -1e298
    else:
        assert abs(sample / a - 1) < 1e-10
        assert abs(logarithm - math.log(a)) < 1e-10
    assert np.isnan(R.binomial(KEY, 5, a)) == (not 0 <= a <= 1)


def test_counts_of_extreme_parameters():
    found = R.poisson(KEY, np.array([0.0, -1.0, np.nan, 1e12, np.inf, 1e30]))
    assert found[:3].tolist() == [0, -1, -1]
    assert abs(found[3] / 1e12 - 1) < 1e-4
    assert (found[4:] > 2**62).all()
    assert R.poisson(KEY, 1e6, dtype=np.int16) == 32767
    found = R.binomial(KEY, np.array([0, 5, 5, -1, 10**12]), np.array([0.5, 0.0, 1.0, 0.5, 0.25]))
    assert found[:3].tolist() == [0, 0, 5]
    assert np.isnan(found[3])
    assert abs(found[4] / 2.5e11 - 1) < 1e-4
    assert R.geometric(KEY, np.array([1.0, 1.0])).tolist() == [1, 1]


def test_vectors_have_their_mean_and_covariance():
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    for method in ("cholesky", "eigh", "svd"):
        x = tj.jit(lambda k, m, c, method=method: R.multivariate_normal(k, m, c, (N,), method=method))(KEY, mean, cov)
        assert x.shape == (N, 2)
        np.testing.assert_allclose(x.mean(axis=0), mean, atol=0.06)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)
    assert R.multivariate_normal(KEY, np.zeros((3, 2)), cov).shape == (3, 2)


def test_matrices_are_orthogonal():
    for n, m in ((1, None), (3, None), (2, 4), (4, 2)):
        q = R.orthogonal(KEY, n, (5,), m=m)
        assert q.shape == (5, n, m or n)
        wide = q if n <= (m or n) else np.swapaxes(q, -1, -2)
        np.testing.assert_allclose(
            wide @ np.swapaxes(wide, -1, -2), np.tile(np.eye(wide.shape[1]), (5, 1, 1)), atol=1e-12
        )
    signs = R.orthogonal(KEY, 1, (400,))
    assert 150 < (signs > 0).sum() < 250


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: R.normal(KEY, (2,), int), DtypeError, "tj.random.normal gives floats, not int64"),
        (
            lambda: R.gamma(KEY, np.ones(3), (2,)),
            ShapeError,
            "shapes (2,), (3,) cannot be broadcast together",
        ),
        (lambda: R.beta(KEY, np.ones(3), np.ones(2)), ShapeError, "cannot be broadcast together"),
        (lambda: R.poisson(KEY, 1.0, dtype=float), DtypeError, "tj.random.poisson gives integers"),
        (lambda: R.dirichlet(KEY, 1.0), ShapeError, "alpha has an axis at least"),
        (lambda: R.gumbel(KEY, mode="highest"), OptionError, "mode is 'low' or 'high'"),
        (lambda: R.multivariate_normal(KEY, np.zeros(2), np.eye(3)), ShapeError, "a mean of 2 numbers"),
        (lambda: R.multivariate_normal(KEY, 0.0, np.eye(3)), ShapeError, "mean has one axis at least"),
        (lambda: R.multivariate_normal(KEY, np.zeros(2), np.eye(2), method="lu"), OptionError, "not 'lu'"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Any, error: type[Exception], text: str):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)


def test_outcomes_of_several_kinds_add_up():
    key, p = tj.random.key(3), np.array([[0.2, 0.3, 0.5], [0.0, 2.0, 2.0]])
    for draw in (tj.random.multinomial, tj.jit(lambda k, n, p: tj.random.multinomial(k, n, p, shape=(4000, 2)))):
        x = draw(key, 10, p, shape=(4000, 2)) if draw is tj.random.multinomial else draw(key, 10, p)
        assert x.shape == (4000, 2, 3)
        assert x.dtype == np.float64
        assert (x.sum(-1) == 10).all()
        np.testing.assert_allclose(x.mean(0), 10 * p / p.sum(1, keepdims=True), atol=0.15)
        shares = p / p.sum(1, keepdims=True)
        np.testing.assert_allclose(x.var(0), 10 * shares * (1 - shares), atol=0.25)
    assert tj.random.multinomial(key, np.array([3, 4]), p[0]).shape == (2, 3)
    assert tj.random.multinomial(key, 3, p[0], dtype="float32").dtype == np.float32
    with pytest.raises(ShapeError, match="last axis"):
        tj.random.multinomial(key, 3, 0.5)
