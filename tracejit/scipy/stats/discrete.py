"""Distributions of integers.   Source: definitions of `scipy.stats`; which functions there are: JAX's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.numpy import reductions as r, special as s, ufuncs as u
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import expand_dims
from tracejit.scipy.stats.distribution import Distribution, outside
from tracejit.support.typing import ArrayLike, Result

__all__ = ["bernoulli", "betabinom", "binom", "geom", "multinomial", "nbinom", "poisson"]


def _is_whole(k: Any) -> Any:
    return u.floor(k) == k


def _is_probability(p: Any) -> Any:
    return (p >= 0) & (p <= 1)


def _log_choose(n: Any, k: Any) -> Any:
    return s.gammaln(n + 1) - s.gammaln(k + 1) - s.gammaln(n - k + 1)


class bernoulli(Distribution):
    """1 with probability p, else 0."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        n, chance, where = inexact(k, p, loc)
        at = n - where
        inside = (at == 0) | (at == 1)
        y = u.where(inside, at, 0)
        value = s.xlogy(y, chance) + s.xlog1py(1 - y, -chance)
        return outside(_is_probability(chance), outside(inside, value, of=at), np.nan)

    @staticmethod
    def cdf(k: ArrayLike, p: ArrayLike) -> Result:
        """The probability of less than or equal to k."""
        n, chance = inexact(k, p)
        value = u.where(n < 0, 0, u.where(n < 1, 1 - chance, 1))
        return outside(_is_probability(chance) & (n == n), value, np.nan)

    @staticmethod
    def ppf(q: ArrayLike, p: ArrayLike) -> Result:
        """The least number that is exceeded with probability at most 1 - q."""
        y, chance = inexact(q, p)
        value = 1 - to_dtype(y <= 1 - chance, aval(chance).dtype)
        return outside(_is_probability(chance) & _is_probability(y), value, np.nan)


class binom(Distribution):
    """How many of n happen, each with probability p."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        number, most, chance, where = inexact(k, n, p, loc)
        at = number - where
        inside = (at >= 0) & (at <= most) & _is_whole(at)
        y = u.where(inside, at, 0)
        return outside(inside, _log_choose(most, y) + s.xlogy(y, chance) + s.xlog1py(most - y, -chance), of=at)


class betabinom(Distribution):
    """How many of n happen, with a probability that has the beta distribution of a and b."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        number, most, first, second, where = inexact(k, n, a, b, loc)
        at = number - where
        inside = (at >= 0) & (at <= most) & _is_whole(at)
        y = u.where(inside, at, 0)
        value = _log_choose(most, y) + s.betaln(y + first, most - y + second) - s.betaln(first, second)
        return outside((first > 0) & (second > 0) & (most >= 0), outside(inside, value, of=at), np.nan)


class geom(Distribution):
    """How many trials until one happens, each with probability p."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        number, chance, where = inexact(k, p, loc)
        at = number - where
        inside = (at >= 1) & _is_whole(at)
        return outside(inside, s.xlog1py(u.where(inside, at, 1) - 1, -chance) + u.log(chance), of=at)


class nbinom(Distribution):
    """How many do not happen before n happen, each with probability p."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        number, wanted, chance, where = inexact(k, n, p, loc)
        at = number - where
        inside = (at >= 0) & _is_whole(at)
        y = u.where(inside, at, 0)
        ways = s.gammaln(y + wanted) - s.gammaln(wanted) - s.gammaln(y + 1)
        return outside(inside, ways + s.xlogy(wanted, chance) + s.xlog1py(y, -chance), of=at)


_TERMS = 256
_LARGE = 100.0


class poisson(Distribution):
    """The distribution of Poisson of mean mu."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The logarithm of the probability of k."""
        number, mean, where = inexact(k, mu, loc)
        at = number - where
        inside = (at >= 0) & _is_whole(at)
        y = u.where(inside, at, 0)
        return outside(inside, s.xlogy(y, mean) - s.gammaln(y + 1) - mean, of=at)

    @staticmethod
    def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The probability of less than or equal to k."""
        number, mean, where = inexact(k, mu, loc)
        at = u.floor(number - where)
        inside = at >= 0
        return outside(inside, s.gammaincc(u.where(inside, at, 0) + 1, mean), 0.0, of=at)

    @staticmethod
    def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Result:
        """The entropy: a sum for means below 100, its asymptotic series beyond."""
        mean, _ = inexact(as_array(mu), as_array(loc))
        small = mean < _LARGE
        few = expand_dims(u.where(small, mean, 1), -1)
        k = np.arange(_TERMS).astype(few.dtype)
        logarithm = s.xlogy(k, few) - s.gammaln(k + 1) - few
        summed = -r.sum(u.exp(logarithm) * logarithm, axis=-1)
        many = u.where(small, _LARGE, mean)
        inverse = 1 / many
        series = ((inverse * (-19.0 / 360) - 1.0 / 24) * inverse - 1.0 / 12) * inverse
        value = u.where(small, summed, u.log(many * (2 * math.pi * math.e)) * 0.5 + series)
        return outside(mean >= 0, u.where(mean == 0, 0, value), np.nan)


class multinomial(Distribution):
    """How often each of several happens in n trials, with probabilities p along the last axis."""

    derived = ("pmf",)

    @staticmethod
    def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Result:
        """The logarithm of the probability of x."""
        counts, chances = inexact(as_array(x), as_array(p))
        trials, _ = inexact(as_array(n), counts.dtype.type(0))
        value = s.gammaln(trials + 1) + r.sum(s.xlogy(counts, chances) - s.gammaln(counts + 1), axis=-1)
        return outside(r.sum(counts, axis=-1) == trials, value)
