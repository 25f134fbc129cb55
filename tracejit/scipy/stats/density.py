"""Densities estimated from samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit import random
from tracejit.api.returning import returning_arrays
from tracejit.lax import linalg
from tracejit.numpy import reductions as r, special as s, ufuncs as u
from tracejit.numpy.exponentials import inexact, logsumexp
from tracejit.numpy.linear import matmul
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import expand_dims, reshape, swapaxes
from tracejit.primitives import matrix_loops as m
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.tree import register_node
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.operators import OPERATORS

__all__ = ["gaussian_kde"]

_LOG_2PI = math.log(2.0 * math.pi)


def _reject(message: str) -> ShapeError:
    return ShapeError(f"gaussian_kde: {message}", location=user_location())


class gaussian_kde:
    """The density of points, as a sum of normal densities around samples.   dataset: [d, n], or [n] of numbers

    bw_method: "scott" (by default), "silverman", a number, or a function of the object: by how much the deviation of
    the samples is multiplied.  weights: float[n].  The object is a pytree of `dataset`, `weights`, `covariance`,
    `inv_cov` (its inverse) and `neff` (the effective number of samples).

    Raises: ShapeError for other shapes, fewer than two samples and other methods; UnsupportedError for complex samples.
    Source: SciPy's stats.gaussian_kde.

    >>> import numpy as np, tracejit as tj
    >>> kde = tj.scipy.stats.gaussian_kde(np.array([-1.0, 0.0, 1.0]))
    >>> kde(np.array([0.0, 5.0])).round(4)
    Array([0.3182, 0.    ], dtype=float64)
    """

    def __init__(self, dataset: ArrayLike, bw_method: Any = None, weights: ArrayLike = None) -> None:
        given = as_array(dataset)
        if aval(given).dtype.kind == "c":
            raise UnsupportedError("gaussian_kde: complex samples are not supported", location=user_location())
        (x,) = inexact(given)
        if aval(x).ndim < 2:
            x = reshape(x, (1, -1))
        if aval(x).ndim != 2 or int(aval(x).shape[1]) < 2:
            raise _reject(f"the samples are {aval(given)}; there have to be two or more, along the last axis of two")
        self.dataset = x
        dtype = aval(x).dtype
        if weights is None:
            self.weights = u.divide(np.ones(self.n, dtype), dtype.type(self.n))
        else:
            w = to_dtype(as_array(weights), dtype)
            if aval(w).shape != (self.n,):
                raise _reject(f"weights are {aval(w)}, and there are {self.n} samples")
            self.weights = w / r.sum(w)
        self.neff = 1 / r.sum(self.weights * self.weights)
        factor = self._factor(bw_method)
        centred = x - expand_dims(r.sum(x * self.weights, axis=1), 1)
        spread = matmul(centred * self.weights, swapaxes(centred, 0, 1)) / (1 - 1 / self.neff)
        self.covariance = spread * (factor * factor)
        lower = linalg.cholesky(spread)
        eye = m.eye_like(spread)
        half = linalg.triangular_solve(lower, eye, left_side=True, lower=True)
        self.inv_cov = matmul(swapaxes(half, 0, 1), half) / (factor * factor)

    def _factor(self, method: Any) -> Any:
        if method is None or method == "scott":
            return power(self.neff, -1.0 / (self.d + 4))
        if method == "silverman":
            return power(self.neff * (self.d + 2) / 4.0, -1.0 / (self.d + 4))
        if isinstance(method, str):
            raise _reject(f"bw_method is 'scott', 'silverman', a number or a function, not {method!r}")
        return method(self) if callable(method) else method

    @property
    def d(self) -> int:
        """How many coordinates a point has."""
        return int(aval(self.dataset).shape[0])

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(aval(self.dataset).shape[1])

    def evaluate(self, points: ArrayLike) -> Result:
        """The density at points.   points: [d, m], or [m] of numbers -> [m]"""
        return _evaluated(self, points, False)

    __call__ = pdf = evaluate

    def logpdf(self, x: ArrayLike) -> Result:
        """The logarithm of the density at points, without underflow."""
        return _evaluated(self, x, True)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Result:
        """The integral of the density times a normal one.   mean: [d], cov: [d, d]"""
        return _with_gaussian(self, mean, cov)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Result:
        """The integral from low to high, of samples that are numbers.   Raises: ShapeError for others."""
        if self.d != 1:
            raise _reject("integrate_box_1d() only handles 1D pdfs")
        return _between(self, low, high)

    def integrate_kde(self, other: gaussian_kde) -> Result:
        """The integral of the product of two such densities.   Raises: ShapeError for other numbers of coordinates."""
        if other.d != self.d:
            raise _reject("KDEs are not the same dimensionality")
        return _with_other(self, other)

    def resample(self, key: ArrayLike, shape: Sequence[int] = ()) -> Result:
        """Points drawn from the density.   key: of `tj.random` -> [d, *shape]"""
        first, second = random.split(key)
        which = random.choice(first, self.n, shape, p=self.weights)
        dtype = aval(self.dataset).dtype
        noise = random.multivariate_normal(second, np.zeros(self.d, dtype), self.covariance, shape, dtype)
        return OPERATORS.getitem(self.dataset, (slice(None), which)) + np.moveaxis(noise, -1, 0)


def _points(kde: gaussian_kde, points: ArrayLike) -> Result:
    (x,) = inexact(as_array(points))
    if aval(x).ndim < 2:
        x = reshape(x, (kde.d, 1) if kde.d > 1 and aval(x).shape == (kde.d,) else (1, -1))
    if aval(x).ndim != 2 or aval(x).shape[0] != kde.d:
        raise _reject(f"points are {aval(x)}, and the samples have {kde.d} coordinates")
    return x


def _log_norm(covariance: ArrayLike, d: int) -> Result:
    """The logarithm of the integral of exp(-x C^-1 x / 2)."""
    lower = linalg.cholesky(covariance)
    return r.sum(u.log(m.diagonal_of(lower))) + d * _LOG_2PI / 2


def _apart(x: ArrayLike, y: ArrayLike, inverse: ArrayLike) -> Result:
    """Half of the squared distances of points, by an inverse covariance.   [d, n], [d, k] -> [n, k]"""
    steps = expand_dims(x, 2) - expand_dims(y, 1)
    d, n, k = aval(steps).shape
    flat = reshape(steps, (d, n * k))
    return reshape(r.sum(flat * matmul(inverse, flat), axis=0), (n, k)) / 2


@returning_arrays
def _evaluated(kde: gaussian_kde, points: ArrayLike, logarithm: bool) -> Result:
    x = _points(kde, points)
    energy = _apart(kde.dataset, x, kde.inv_cov)
    norm = _log_norm(kde.covariance, kde.d)
    weights = expand_dims(kde.weights, 1)
    if logarithm:
        return logsumexp(-energy, axis=0, b=weights + 0 * energy) - norm
    return r.sum(weights * u.exp(-energy), axis=0) / u.exp(norm)


def _overlap(kde: gaussian_kde, covariance: ArrayLike, centres: ArrayLike) -> Result:
    """Normal densities of a covariance between the samples and some centres.   centres: [d, k] -> [n, k]"""
    lower = linalg.cholesky(covariance)
    half = linalg.triangular_solve(lower, m.eye_like(covariance), left_side=True, lower=True)
    energy = _apart(kde.dataset, centres, matmul(swapaxes(half, 0, 1), half))
    return u.exp(-energy - _log_norm(covariance, kde.d))


@returning_arrays
def _with_gaussian(kde: gaussian_kde, mean: ArrayLike, cov: ArrayLike) -> Result:
    dtype = aval(kde.dataset).dtype
    centre, spread = [to_dtype(as_array(v), dtype) for v in (mean, cov)]
    centre = reshape(centre, (-1, 1))
    spread = reshape(spread, (1, 1)) if aval(spread).ndim < 2 else spread
    if aval(centre).shape[0] != kde.d or aval(spread).shape != (kde.d, kde.d):
        raise _reject(f"the mean and covariance are not of {kde.d} coordinates")
    return r.sum(kde.weights * OPERATORS.getitem(_overlap(kde, kde.covariance + spread, centre), (slice(None), 0)))


@returning_arrays
def _between(kde: gaussian_kde, low: ArrayLike, high: ArrayLike) -> Result:
    deviation = u.sqrt(OPERATORS.getitem(kde.covariance, (0, 0)))
    samples = OPERATORS.getitem(kde.dataset, 0)
    ends = [s.ndtr((to_dtype(as_array(v), aval(samples).dtype) - samples) / deviation) for v in (high, low)]
    return r.sum(kde.weights * (ends[0] - ends[1]))


@returning_arrays
def _with_other(kde: gaussian_kde, other: gaussian_kde) -> Result:
    products = _overlap(kde, kde.covariance + other.covariance, other.dataset)
    return r.sum(expand_dims(kde.weights, 1) * expand_dims(other.weights, 0) * products)


def _of_parts(_: Any, children: Sequence[Any]) -> gaussian_kde:
    # without the checks: leaves may be anything while a tree is taken apart
    made = object.__new__(gaussian_kde)
    made.dataset, made.weights, made.covariance, made.inv_cov, made.neff = children
    return made


register_node(gaussian_kde, lambda k: ((k.dataset, k.weights, k.covariance, k.inv_cov, k.neff), None), _of_parts)
