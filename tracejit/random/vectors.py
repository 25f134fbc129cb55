"""Random vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.primitives.elementwise import constant_like, div, mul
from tracejit.primitives.transcendental import Exp, Log
from tracejit.random.continuous import exponentials, normals
from tracejit.random.gammas import gamma
from tracejit.random.keys import split
from tracejit.random.operands import as_shape, aval, float_dtype, floats, known_integer, reject, shape_for
from tracejit.random.uniforms import rademacher
from tracejit.support.errors import OptionError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = ["ball", "generalized_normal", "multivariate_normal", "orthogonal"]


def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
    method: str = "cholesky",
) -> Result:
    """Normal vectors of a mean and a covariance.   -> dtype[*shape, n]

    mean: (..., n); cov: (..., n, n), positive definite; shape: by default what both have before these axes.
    method: how the covariance is factored, "cholesky", "eigh" or "svd".
    Raises: ShapeError for shapes that do not fit, OptionError for another method, LinAlgError for a covariance that
    Cholesky's method does not factor.
    Source: JAX's random.multivariate_normal.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.multivariate_normal(tj.random.key(42), np.zeros(2), np.eye(2), (3,)).round(4).shape
    (3, 2)
    """
    if method not in ("cholesky", "eigh", "svd"):
        raise OptionError(
            f"tj.random.multivariate_normal: method is 'cholesky', 'eigh' or 'svd', not {method!r}",
            location=user_location(),
        )
    kind = float_dtype("multivariate_normal", dtype)
    middle, spread_of = floats(mean, kind), floats(cov, kind)
    if not aval(middle).shape or aval(spread_of).ndim < 2:
        raise reject("tj.random.multivariate_normal: mean has one axis at least, cov two")
    n = aval(middle).shape[-1]
    if aval(spread_of).shape[-2:] != (n, n):
        raise reject(
            f"tj.random.multivariate_normal: a mean of {n} numbers goes with a covariance of shape ({n}, {n}), "
            f"not {aval(spread_of)}"
        )
    out = shape_for("multivariate_normal", shape, aval(middle).shape[:-1], aval(spread_of).shape[:-2])
    noise = normals("multivariate_normal", key, (*out, n), kind)
    return middle + np.sum(_factor(spread_of, method) * np.expand_dims(noise, -2), axis=-1)


def _factor(cov: Result, method: str) -> Result:
    """A matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return np.linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = np.linalg.eigh(cov)
    else:
        vectors, values, _ = np.linalg.svd(cov)
    return vectors * np.expand_dims(np.sqrt(values), -2)


def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = (), dtype: DTypeLike = None, m: int | None = None) -> Result:
    """Orthogonal matrices, all equally likely; of m columns where m is given.   -> dtype[*shape, n, m]

    Raises: TracerError for an n or m that is not known while tracing.
    Source: Mezzadri, How to generate random matrices from the classical compact groups, 2007.

    >>> import numpy as np, tracejit as tj
    >>> q = tj.random.orthogonal(tj.random.key(42), 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    rows = known_integer("orthogonal", "n", n)
    columns = rows if m is None else known_integer("orthogonal", "m", m)
    kind = float_dtype("orthogonal", dtype)
    z = normals("orthogonal", key, (*as_shape(shape), max(rows, columns), min(rows, columns)), kind)
    q, r = np.linalg.qr(z)
    diagonal = np.sum(r * np.eye(min(rows, columns), dtype=kind), axis=-1)
    q = q * np.expand_dims(np.sign(diagonal), -2)
    return np.swapaxes(q, -1, -2) if rows < columns else q


def generalized_normal(key: ArrayLike, p: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Numbers with a density in proportion to exp(-abs(x)**p).   -> dtype[*shape]

    >>> import tracejit as tj
    >>> tj.random.generalized_normal(tj.random.key(42), 2.0, (2, 3)).shape
    (2, 3)
    """
    kind = float_dtype("generalized_normal", dtype)
    out = as_shape(shape)
    power = floats(p, kind)
    inverse = div(constant_like(power, 1.0), power)
    first, second = split(key)
    g = gamma(first, inverse, out, kind)
    return mul(rademacher(second, out, kind), bind(Exp(), mul(bind(Log(), g), inverse)))


def ball(key: ArrayLike, d: int, p: Any = 2, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Points of the ball of radius 1 in d dimensions by the norm of exponent p.   -> dtype[*shape, d]

    Raises: TracerError for a d that is not known while tracing.
    Source: Barthe, Guédon, Mendelson, Naor, A probabilistic approach to the geometry of the lp-ball, 2005.

    >>> import numpy as np, tracejit as tj
    >>> x = tj.random.ball(tj.random.key(42), 3, shape=(100,))
    >>> x.shape, bool((np.linalg.norm(x, axis=-1) < 1).all())
    ((100, 3), True)
    """
    kind = float_dtype("ball", dtype)
    out = as_shape(shape)
    first, second = split(key)
    g = generalized_normal(first, p, (*out, known_integer("ball", "d", d)), kind)
    e = exponentials("ball", second, out, kind)
    return g / np.expand_dims((np.sum(np.abs(g) ** p, axis=-1) + e) ** (1 / p), -1)
