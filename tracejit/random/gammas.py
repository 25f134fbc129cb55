"""The gamma distribution, and those that are made of its samples."""

from __future__ import annotations

import numpy as np

from tracejit.primitives.arithmetic import Maximum
from tracejit.primitives.elementwise import add, constant_like, div, mul, sub
from tracejit.primitives.random import RandomGamma
from tracejit.primitives.transcendental import Exp, Sqrt
from tracejit.random.continuous import normals
from tracejit.random.keys import split
from tracejit.random.operands import (
    aval,
    element_words,
    float_dtype,
    floats,
    parameters,
    reject,
    shape_for,
)
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = ["beta", "chisquare", "dirichlet", "f", "gamma", "loggamma", "t"]


def gamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of the gamma distribution of shape a and scale 1.   -> dtype[*shape], by default a's shape

    0 for a = 0, NaN for negative a.  The derivative in a is the implicit one.
    Raises: ShapeError for a that does not fit the shape.
    Source: Marsaglia, Tsang, A simple method for generating gamma variables, ACM TOMS 26, 2000; the numbers are not
    JAX's.

    >>> import tracejit as tj
    >>> x = tj.random.gamma(tj.random.key(42), 3.0, (10_000,))
    >>> bool(abs(x.mean() - 3.0) < 0.05)
    True
    """
    return _gamma("gamma", key, a, shape, dtype, False)


def loggamma(key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """The logarithms of such numbers, finite for small a too.   -> dtype[*shape], by default a's shape

    Raises: ShapeError for a that does not fit the shape.

    >>> import numpy as np, tracejit as tj
    >>> bool(np.isfinite(tj.random.loggamma(tj.random.key(42), 1e-6, (100,))).all())
    True
    """
    return _gamma("loggamma", key, a, shape, dtype, True)


def _gamma(
    name: str, key: ArrayLike, a: ArrayLike, shape: ShapeLike | None, dtype: DTypeLike, logarithm: bool
) -> Result:
    kind = float_dtype(name, dtype)
    out, (alpha,) = parameters(name, shape, kind, a)
    return bind(RandomGamma(logarithm), *element_words(name, key, out), alpha)


def beta(key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of the beta distribution.   -> dtype[*shape], by default the parameters' shape

    Raises: ShapeError for parameters that do not fit the shape.

    >>> import tracejit as tj
    >>> x = tj.random.beta(tj.random.key(42), 2.0, 3.0, (10_000,))
    >>> bool(abs(x.mean() - 0.4) < 0.01)
    True
    """
    kind = float_dtype("beta", dtype)
    out, (one, other) = parameters("beta", shape, kind, a, b)
    first, second = split(key)
    x, y = loggamma(first, one, out, kind), loggamma(second, other, out, kind)
    most = bind(Maximum(), x, y)
    x, y = bind(Exp(), sub(x, most)), bind(Exp(), sub(y, most))
    return div(x, add(x, y))


def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Vectors of the Dirichlet distribution: positive numbers whose sum is 1.   -> dtype[*shape, n]

    alpha: (..., n); shape: by default that of alpha without its last axis.
    Raises: ShapeError for alpha that is one number, or does not fit the shape.

    >>> import numpy as np, tracejit as tj
    >>> x = tj.random.dirichlet(tj.random.key(42), np.array([1.0, 2.0, 3.0]), (1000,))
    >>> x.shape, bool(np.allclose(x.sum(axis=-1), 1.0))
    ((1000, 3), True)
    """
    kind = float_dtype("dirichlet", dtype)
    weights = floats(alpha, kind)
    if not aval(weights).shape:
        raise reject("tj.random.dirichlet: alpha has an axis at least, one weight a component")
    *lead, n = aval(weights).shape
    out = shape_for("dirichlet", shape, tuple(lead))
    x = loggamma(key, weights, (*out, n), kind)
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


def chisquare(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of the chi-square distribution of df degrees of freedom.   -> dtype[*shape], by default df's shape

    Raises: ShapeError for df that does not fit the shape.

    >>> import tracejit as tj
    >>> x = tj.random.chisquare(tj.random.key(42), 4.0, (10_000,))
    >>> bool(abs(x.mean() - 4.0) < 0.1)
    True
    """
    kind = float_dtype("chisquare", dtype)
    out, (freedom,) = parameters("chisquare", shape, kind, df)
    g = gamma(key, mul(freedom, constant_like(freedom, 0.5)), out, kind)
    return add(g, g)


def t(key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Numbers of Student's t distribution of df degrees of freedom.   -> dtype[*shape], by default df's shape

    Raises: ShapeError for df that does not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.t(tj.random.key(42), 5.0, (2, 3)).shape
    (2, 3)
    """
    kind = float_dtype("t", dtype)
    out, (freedom,) = parameters("t", shape, kind, df)
    first, second = split(key)
    half = mul(freedom, constant_like(freedom, 0.5))
    g = gamma(second, half, out, kind)
    return mul(normals("t", first, out, kind), bind(Sqrt(), div(half, g)))


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None
) -> Result:
    """Numbers of the F distribution.   -> dtype[*shape], by default the parameters' shape

    Raises: ShapeError for parameters that do not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.f(tj.random.key(42), 5.0, 7.0, (2, 3)).shape
    (2, 3)
    """
    kind = float_dtype("f", dtype)
    out, (above, below) = parameters("f", shape, kind, dfnum, dfden)
    first, second = split(key)
    numerator = div(chisquare(second, above, out, kind), above)
    return div(numerator, div(chisquare(first, below, out, kind), below))
