"""Derivatives where formulas meet: at the edges of supports and beyond them, in the middle of even functions, and where
a parameter that one divides by is 0.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

stats, special = tj.scipy.stats, tj.scipy.special

DISTRIBUTIONS: dict[str, tuple[Any, tuple[float, ...], tuple[float, float]]] = {
    "gamma": (stats.gamma, (1.7,), (0, math.inf)),
    "gamma of 1": (stats.gamma, (1.0,), (0, math.inf)),
    "gamma below 1": (stats.gamma, (0.4,), (0, math.inf)),
    "chi2": (stats.chi2, (2.0,), (0, math.inf)),
    "chi2 of 3": (stats.chi2, (3.0,), (0, math.inf)),
    "beta": (stats.beta, (1.7, 2.2), (0, 1)),
    "beta of 1": (stats.beta, (1.0, 1.0), (0, 1)),
    "expon": (stats.expon, (), (0, math.inf)),
    "pareto": (stats.pareto, (2.0,), (1, math.inf)),
}
NAMES = ("cdf", "sf", "logcdf", "logsf")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", DISTRIBUTIONS)
def test_beyond_the_support_nothing_changes(which: str, name: str):
    distribution, shapes, (low, high) = DISTRIBUTIONS[which]
    f = getattr(distribution, name)
    for x in (low - 1.5, low - 1e-3, *([high + 0.5] if high < math.inf else [])):
        for of in (lambda x: f(x, *shapes), lambda loc, x=x: f(x, *shapes, loc), lambda s, x=x: f(x, *shapes, 0.0, s)):
            at = x if of.__code__.co_varnames[0] == "x" else 0.0 if of.__code__.co_varnames[0] == "loc" else 1.0
            assert float(tj.grad(of)(at)) == 0.0
    values = f(np.array([low - 1.0, np.nan]), *shapes)
    assert values[0] == {"cdf": 0.0, "sf": 1.0, "logcdf": -np.inf, "logsf": 0.0}[name]
    assert np.isnan(values[1])


@pytest.mark.parametrize("which", DISTRIBUTIONS)
def test_within_it_the_derivative_is_the_density(which: str):
    distribution, shapes, (low, _) = DISTRIBUTIONS[which]
    for x in (low + 0.25, low + 0.75):
        density = float(distribution.pdf(x, *shapes))
        np.testing.assert_allclose(tj.grad(lambda x: distribution.cdf(x, *shapes))(x), density, rtol=1e-12)
        np.testing.assert_allclose(tj.grad(lambda x: distribution.sf(x, *shapes))(x), -density, rtol=1e-12)


def test_at_the_first_number_of_a_support_it_is_the_density_there():
    assert float(tj.grad(lambda x: stats.chi2.cdf(x, 2.0))(0.0)) == 0.5
    assert float(tj.grad(lambda x: stats.gamma.cdf(x, 1.0))(0.0)) == 1.0
    assert float(tj.grad(lambda x: stats.gamma.cdf(x, 1.7))(0.0)) == 0.0
    np.testing.assert_allclose(tj.grad(lambda x: special.betainc(1.0, 2.0, x))(0.0), 2.0, rtol=1e-14)
    np.testing.assert_allclose(tj.grad(lambda x: special.betainc(2.0, 1.0, x))(1.0), 2.0, rtol=1e-14)


@pytest.mark.parametrize("shape", [1.0, 2.0, 3.5])
def test_in_the_middle(shape: float):
    f = lambda x: stats.gennorm.cdf(x, shape)  # noqa: E731
    for x in (0.0, 1e-9, -0.7):
        np.testing.assert_allclose(tj.grad(f)(x), stats.gennorm.pdf(x, shape), rtol=1e-7)
    assert float(f(0.0)) == 0.5
    for loc, scale in ((0.0, 1.0), (2.0, 0.5)):
        g = lambda x, loc=loc, scale=scale: stats.laplace.cdf(x, loc, scale)  # noqa: E731
        assert float(tj.grad(g)(loc)) == 0.5 / scale
        for x in (loc - 1, loc + 1):
            np.testing.assert_allclose(tj.grad(g)(x), stats.laplace.pdf(x, loc, scale), rtol=1e-14)


# by the parameter: x**k / k! of the logarithm, or what the series of the inverse gives
POWERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float], float], float]] = {
    "boxcox": (special.boxcox, lambda x: math.log(x) ** 2 / 2, 2.0),
    "boxcox1p": (special.boxcox1p, lambda x: math.log1p(x) ** 2 / 2, 1.5),
    "inv_boxcox": (special.inv_boxcox, lambda y: -math.exp(y) * y * y / 2, 0.5),
    "inv_boxcox1p": (special.inv_boxcox1p, lambda y: -math.exp(y) * y * y / 2, 0.5),
}


@pytest.mark.parametrize("name", POWERS)
def test_powers_of_0(name: str):
    f, slope, x = POWERS[name]
    g = lambda power: f(x, power)  # noqa: E731
    for power in (0.0, 1e-15, 1e-12):
        np.testing.assert_allclose(tj.grad(g)(power), slope(x), rtol=1e-11)
        np.testing.assert_allclose(tj.jvp(g, (power,), (1.0,))[1], slope(x), rtol=1e-11)
    for power in (9.9e-4 / x, 1.1e-3 / x, 0.3):  # on both sides of where the series begins
        step = 1e-5
        differences = (float(g(power + step)) - float(g(power - step))) / (2 * step)
        np.testing.assert_allclose(tj.grad(g)(power), differences, rtol=1e-8)
        below, above = float(g(power - 1e-9)), float(g(power + 1e-9))
        assert min(below, above) <= float(g(power)) <= max(below, above)


def test_the_curvature_at_a_power_of_0():
    second = tj.grad(tj.grad(lambda power: special.boxcox(2.0, power)))
    np.testing.assert_allclose(second(0.0), math.log(2.0) ** 3 / 3, rtol=1e-13)
    assert special.boxcox(np.array([0.0, 0.0, np.inf, np.inf]), np.array([0.0, 2.0, 0.0, -2.0])).tolist() == [
        -np.inf, -0.5, np.inf, 0.5,
    ]  # fmt: skip
