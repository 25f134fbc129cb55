"""Distributions of one real number.   Source: definitions of `scipy.stats`; which functions there are: JAX's."""

from __future__ import annotations

import math

import numpy as np

from tracejit.numpy import special as s, ufuncs as u
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.selecting import clip
from tracejit.scipy.stats.distribution import Distribution, log1mexp, outside, standard
from tracejit.support.typing import ArrayLike, Result

__all__ = [
    "beta", "cauchy", "chi2", "expon", "gamma", "gennorm", "gumbel_l", "gumbel_r", "laplace", "logistic", "norm",
    "pareto", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip

_LOG_2PI = math.log(2.0 * math.pi)


def _probability(q: ArrayLike, value: Result) -> Result:
    """A quantile, NaN where q is no probability."""
    return outside((q >= 0) & (q <= 1), value, np.nan)


class norm(Distribution):
    """The normal distribution.

    >>> import tracejit as tj
    >>> round(float(tj.scipy.stats.norm.cdf(1.96)), 6)
    0.975002
    """

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return -(z * z + _LOG_2PI) / 2 - u.log(width)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        return s.ndtr(standard(x, loc, scale)[0])

    @staticmethod
    def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `cdf`, without underflow."""
        return s.log_ndtr(standard(x, loc, scale)[0])

    @staticmethod
    def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        return s.ndtr(-standard(x, loc, scale)[0])

    @staticmethod
    def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `sf`, without underflow."""
        return s.log_ndtr(-standard(x, loc, scale)[0])

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return s.ndtri(p) * width + where

    @staticmethod
    def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability q."""
        p, where, width = inexact(q, loc, scale)
        return where - s.ndtri(p) * width


class expon(Distribution):
    """The exponential distribution."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return outside(z >= 0, -z - u.log(width), of=z)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        (z, _) = standard(x, loc, scale)
        return -u.expm1(-u.maximum(z, 0))

    @staticmethod
    def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `cdf`."""
        (z, _) = standard(x, loc, scale)
        return log1mexp(u.maximum(z, 0))

    @staticmethod
    def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        (z, _) = standard(x, loc, scale)
        return u.exp(-u.maximum(z, 0))

    @staticmethod
    def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `sf`."""
        (z, _) = standard(x, loc, scale)
        return -u.maximum(z, 0)

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, where - width * u.log1p(-p))


class uniform(Distribution):
    """The uniform distribution on [loc, loc + scale]."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return outside((z >= 0) & (z <= 1), -u.log(width), of=z)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        return clip(standard(x, loc, scale)[0], 0, 1)

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, p * width + where)


class cauchy(Distribution):
    """The distribution of Cauchy."""

    derived = ("pdf", "logcdf", "logsf")

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return -u.log(width * math.pi) - u.log1p(z * z)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        return u.arctan2(1.0, -standard(x, loc, scale)[0]) / math.pi

    @staticmethod
    def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        return u.arctan2(1.0, standard(x, loc, scale)[0]) / math.pi

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, where + width * u.tan((p - 0.5) * math.pi))

    @staticmethod
    def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, where + width * u.tan((0.5 - p) * math.pi))


class logistic(Distribution):
    """The logistic distribution."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return u.where(u.equal(z, -np.inf), -np.inf, -z - 2 * u.logaddexp(-z, 0) - u.log(width))

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        return s.expit(standard(x, loc, scale)[0])

    @staticmethod
    def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        return s.expit(-standard(x, loc, scale)[0])

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return s.logit(p) * width + where

    @staticmethod
    def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability q."""
        p, where, width = inexact(q, loc, scale)
        return where - s.logit(p) * width


class laplace(Distribution):
    """The distribution of Laplace."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return -u.absolute(z) - u.log(width * 2)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        (z, _) = standard(x, loc, scale)
        low = z <= 0
        left, right = u.where(low, z, 0), u.where(low, 0, z)  # each with its own derivative where they meet
        return u.where(low, u.exp(left) * 0.5, 1 - u.exp(-right) * 0.5)


class gumbel_r(Distribution):
    """The distribution of Gumbel of maxima."""

    derived = ("pdf", "cdf")

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return -(z + u.exp(-z)) - u.log(width)

    @staticmethod
    def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the probability of less than or equal to x."""
        return -u.exp(-standard(x, loc, scale)[0])

    @staticmethod
    def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        return -u.expm1(-u.exp(-standard(x, loc, scale)[0]))

    @staticmethod
    def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `sf`."""
        return log1mexp(u.exp(-standard(x, loc, scale)[0]))

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, where - width * u.log(-u.log(p)))


class gumbel_l(Distribution):
    """The distribution of Gumbel of minima."""

    derived = ("pdf", "sf")

    @staticmethod
    def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width = standard(x, loc, scale)
        return z - u.exp(z) - u.log(width)

    @staticmethod
    def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        return -u.expm1(-u.exp(standard(x, loc, scale)[0]))

    @staticmethod
    def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `cdf`."""
        return log1mexp(u.exp(standard(x, loc, scale)[0]))

    @staticmethod
    def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the probability of more than x."""
        return -u.exp(standard(x, loc, scale)[0])

    @staticmethod
    def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, where, width = inexact(q, loc, scale)
        return _probability(p, where + width * u.log(-u.log1p(-p)))


class gamma(Distribution):
    """The gamma distribution of shape a."""

    derived = ("pdf", "logcdf", "logsf")

    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, shape = standard(x, loc, scale, a)
        inside = z >= 0
        y = u.where(inside, z, 1)
        return outside(inside, s.xlogy(shape - 1, y) - y - s.gammaln(shape) - u.log(width), of=z)

    @staticmethod
    def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        z, _, shape = standard(x, loc, scale, a)
        return outside(z >= 0, s.gammainc(shape, u.where(z >= 0, z, 1)), 0.0, of=z)

    @staticmethod
    def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        z, _, shape = standard(x, loc, scale, a)
        return outside(z >= 0, s.gammaincc(shape, u.where(z >= 0, z, 1)), 1.0, of=z)


class chi2(Distribution):
    """The distribution of the sum of df squares of normal numbers."""

    derived = ("pdf", "logcdf", "logsf")

    @staticmethod
    def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, freedom = standard(x, loc, scale, df)
        half, inside = freedom * 0.5, z >= 0
        y = u.where(inside, z, 1)
        value = s.xlogy(half - 1, y) - y * 0.5 - s.gammaln(half) - half * math.log(2.0) - u.log(width)
        return outside(inside, value, of=z)

    @staticmethod
    def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        z, _, freedom = standard(x, loc, scale, df)
        return outside(z >= 0, s.gammainc(freedom * 0.5, u.where(z >= 0, z, 1) * 0.5), 0.0, of=z)

    @staticmethod
    def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        z, _, freedom = standard(x, loc, scale, df)
        return outside(z >= 0, s.gammaincc(freedom * 0.5, u.where(z >= 0, z, 1) * 0.5), 1.0, of=z)


class beta(Distribution):
    """The beta distribution of shapes a and b."""

    derived = ("pdf", "logcdf", "logsf")

    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, first, second = standard(x, loc, scale, a, b)
        inside = (z >= 0) & (z <= 1)
        y = u.where(inside, z, 0.5)
        value = s.xlogy(first - 1, y) + s.xlog1py(second - 1, -y) - s.betaln(first, second) - u.log(width)
        return outside(inside, value, of=z)

    @staticmethod
    def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        z, _, first, second = standard(x, loc, scale, a, b)
        inside = (z >= 0) & (z <= 1)
        value = s.betainc(first, second, u.where(inside, z, 0.5))
        return outside(z >= 0, u.where(z > 1, 1.0, value), 0.0, of=z)

    @staticmethod
    def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of more than x."""
        z, _, first, second = standard(x, loc, scale, a, b)
        inside = (z >= 0) & (z <= 1)
        value = s.betainc(second, first, 1 - u.where(inside, z, 0.5))
        return outside(z >= 0, u.where(z > 1, 0.0, value), 1.0, of=z)


class t(Distribution):
    """The distribution of Student of df degrees of freedom."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, freedom = standard(x, loc, scale, df)
        half = (freedom + 1) * 0.5
        factor = s.gammaln(half) - s.gammaln(freedom * 0.5) - u.log(freedom * math.pi) * 0.5 - u.log(width)
        return factor - half * u.log1p(z * z / freedom)


class pareto(Distribution):
    """The distribution of Pareto of shape b, from loc + scale on."""

    derived = ("pdf", "sf")

    @staticmethod
    def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, shape = standard(x, loc, scale, b)
        inside = z >= 1
        return outside(inside, u.log(shape) - (shape + 1) * u.log(u.where(inside, z, 1)) - u.log(width), of=z)

    @staticmethod
    def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the probability of more than x."""
        z, _, shape = standard(x, loc, scale, b)
        return -shape * u.log(u.maximum(z, 1))

    @staticmethod
    def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The probability of less than or equal to x."""
        z, _, shape = standard(x, loc, scale, b)
        return -u.expm1(-shape * u.log(u.maximum(z, 1)))

    @staticmethod
    def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of `cdf`."""
        z, _, shape = standard(x, loc, scale, b)
        return log1mexp(shape * u.log(u.maximum(z, 1)))

    @staticmethod
    def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The number that is exceeded with probability 1 - q."""
        p, shape, where, width = inexact(q, b, loc, scale)
        return _probability(p, where + width * u.exp(-u.log1p(-p) / shape))


class gennorm(Distribution):
    """The generalised normal distribution of shape p, which SciPy names beta."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, p: ArrayLike) -> Result:
        """The logarithm of the density."""
        z, shape = inexact(x, p)
        return u.log(shape * 0.5) - s.gammaln(1 / shape) - u.absolute(z) ** shape

    @staticmethod
    def cdf(x: ArrayLike, p: ArrayLike) -> Result:
        """The probability of less than or equal to x."""
        z, shape = inexact(x, p)
        middle = u.equal(z, 0)  # where the derivative is the density
        y = u.where(middle, 1, z)
        value = (u.sign(y) * s.gammainc(1 / shape, u.absolute(y) ** shape) + 1) * 0.5
        return u.where(middle, z * u.exp(u.log(shape * 0.5) - s.gammaln(1 / shape)) + 0.5, value)


def _log_mass(a: Result, b: Result) -> Result:
    """The logarithm of the normal probability of [a, b], from the side where its ends are small."""
    right = a > 0
    low, high = u.where(right, -b, a), u.where(right, -a, b)
    tail = high <= 0
    upper, lower = s.log_ndtr(u.where(tail, high, -1)), s.log_ndtr(u.where(tail, low, -2))
    aside = upper + log1mexp(upper - lower)
    middle = u.log1p(-s.ndtr(u.where(tail, 0, low)) - s.ndtr(u.where(tail, 0, -high)))
    return u.where(tail, aside, middle)


class truncnorm(Distribution):
    """The normal distribution between a and b, given in units of scale from loc."""

    derived = ("pdf", "cdf", "sf")

    @staticmethod
    def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the density."""
        z, width, low, high = standard(x, loc, scale, a, b)
        value = -(z * z + _LOG_2PI) / 2 - _log_mass(low, high) - u.log(width)
        return outside(low < high, outside((z >= low) & (z <= high), value, of=z), np.nan)

    @staticmethod
    def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the probability of less than or equal to x."""
        z, _, low, high = standard(x, loc, scale, a, b)
        return _log_part(z, low, high, above=False)

    @staticmethod
    def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Result:
        """The logarithm of the probability of more than x."""
        z, _, low, high = standard(x, loc, scale, a, b)
        return _log_part(z, low, high, above=True)


def _log_part(z: Result, low: Result, high: Result, *, above: bool) -> Result:
    """Of the normal probability of [low, high] the logarithm of the part above z, or up to it."""
    inside = (z > low) & (z < high)
    at = u.where(inside, z, (u.maximum(low, -8) + u.minimum(high, 8)) / 2)
    whole = _log_mass(low, high)
    part, rest = _log_mass(low, at) - whole, _log_mass(at, high) - whole
    part, rest = (rest, part) if above else (part, rest)
    near = part > -0.1  # where the other part says more
    value = u.where(near, u.log1p(-u.exp(u.where(near, rest, -1))), part)
    none, all_ = (z >= high, z <= low) if above else (z <= low, z >= high)
    value = u.where(none, -np.inf, u.where(all_, 0, value))
    return outside(low < high, u.where(u.isnan(z), np.nan, value), np.nan)


class vonmises(Distribution):
    """The distribution of von Mises of angles, of concentration kappa."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, kappa: ArrayLike) -> Result:
        """The logarithm of the density."""
        angle, k = inexact(x, kappa)
        return outside(k >= 0, k * (u.cos(angle) - 1) - u.log(s.i0e(k)) - _LOG_2PI, np.nan)


class wrapcauchy(Distribution):
    """The distribution of Cauchy wrapped around the circle, on [0, 2 pi]."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, c: ArrayLike) -> Result:
        """The logarithm of the density."""
        angle, shape = inexact(x, c)
        value = u.log1p(-shape * shape) - _LOG_2PI - u.log1p(shape * shape - 2 * shape * u.cos(angle))
        inside = (angle >= 0) & (angle <= 2 * math.pi)
        return outside((shape > 0) & (shape < 1), outside(inside, value, of=angle), np.nan)
