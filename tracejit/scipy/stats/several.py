"""Distributions of vectors.   Source: definitions of `scipy.stats`; which functions there are: JAX's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.lax import linalg
from tracejit.numpy import reductions as r, special as s, ufuncs as u
from tracejit.numpy.exponentials import inexact_dtype
from tracejit.numpy.joining import concatenate
from tracejit.numpy.linear import diagonal
from tracejit.numpy.promotion import as_array, aval, broadcast_shapes, broadcast_to, promote, to_dtype
from tracejit.numpy.shaping import expand_dims, reshape, squeeze
from tracejit.scipy.stats.distribution import Distribution, outside
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["dirichlet", "multivariate_normal"]

_LOG_2PI = math.log(2.0 * math.pi)


def _of_one_dtype(*xs: ArrayLike) -> list[Any]:
    """Operands in one floating-point dtype, of the shapes that they have."""
    arrays = [as_array(x) for x in xs]
    numbers = [aval(a).dtype.type(0) if not aval(a).weak else 0.0 for a in arrays]
    dtype = aval(promote(*numbers, to=inexact_dtype)[0]).dtype
    return [to_dtype(a, dtype) for a in arrays]


class multivariate_normal(Distribution):
    """The normal distribution of vectors along the last axis.

    >>> import numpy as np, tracejit as tj
    >>> round(float(tj.scipy.stats.multivariate_normal.logpdf(np.zeros(2), np.zeros(2), np.eye(2))), 6)
    -1.837877
    """

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Result:
        """The logarithm of the density.

        x: [.., n], mean: [.., n], cov: [.., n, n] positive definite, or a number; all may be numbers.

        Raises: UnsupportedError for allow_singular, ShapeError for shapes that do not go together.
        """
        if allow_singular is not None:
            raise UnsupportedError(
                "multivariate_normal.logpdf: allow_singular is not supported; leave it out", location=user_location()
            )
        y, centre, spread = _of_one_dtype(x, mean, cov)
        if not aval(centre).shape:
            rest = y - centre
            return -(rest * rest / spread + u.log(spread) + _LOG_2PI) / 2
        n: Any = aval(centre).shape[-1]
        if not aval(spread).shape:
            rest = y - centre
            squares = r.sum(rest * rest, axis=-1)
            return -(squares / spread + (u.log(spread) + _LOG_2PI) * n) / 2
        shape = aval(spread).shape
        if len(shape) < 2 or shape[-1] != n or shape[-2] != n:
            raise ShapeError(
                f"multivariate_normal.logpdf: mean has {n} elements, cov the shape {shape}", location=user_location()
            )
        rest = y - centre
        have = aval(rest).shape
        lead = broadcast_shapes(have[:-1], shape[:-2])
        lower = linalg.cholesky(spread)
        solved = linalg.triangular_solve(
            broadcast_to(lower, (*lead, n, n)),
            expand_dims(broadcast_to(rest, (*lead, n)), -1),
            left_side=True,
            lower=True,
        )
        solved = squeeze(solved, -1)
        logarithm = r.sum(u.log(diagonal(lower, 0, -2, -1)), axis=-1)
        return -(r.sum(solved * solved, axis=-1) + _LOG_2PI * n) / 2 - logarithm


class dirichlet(Distribution):
    """The distribution of Dirichlet: probabilities along the first axis."""

    derived = ("pdf",)

    @staticmethod
    def logpdf(x: ArrayLike, alpha: ArrayLike) -> Result:
        """The logarithm of the density; -inf where x does not sum to 1 within 1e-6.

        x: [n] or [n, points]; the last probability may be left out.  alpha: [n]

        Raises: ShapeError for other shapes.
        """
        y, a = _of_one_dtype(x, alpha)
        shape, count = aval(y).shape, aval(a).shape
        if len(shape) not in (1, 2) or len(count) != 1:
            raise ShapeError(
                f"dirichlet.logpdf: x has rank 1 or 2 and alpha 1, not {len(shape)} and {len(count)}",
                location=user_location(),
            )
        if shape[0] != count[0]:
            if shape[0] + 1 != count[0]:
                raise ShapeError(
                    f"dirichlet.logpdf: x has {shape[0]} probabilities, alpha {count[0]}", location=user_location()
                )
            y = concatenate([y, 1 - r.sum(y, axis=0, keepdims=True)], axis=0)
        norm = r.sum(s.gammaln(a)) - s.gammaln(r.sum(a))
        each = reshape(a, (count[0], 1)) if len(shape) == 2 else a
        inside = r.all(y > 0, axis=0) & (u.absolute(r.sum(y, axis=0) - 1) < 1e-6)
        value = r.sum(s.xlogy(each - 1, u.where(y > 0, y, 1)), axis=0) - norm
        return outside(inside, value, -np.inf)
