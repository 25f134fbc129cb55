"""Polynomials as vectors of their coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.numpy import reductions as r, ufuncs, ufuncs as u
from tracejit.numpy.axes import reject, same_extent, static_int, unsupported
from tracejit.numpy.convolution import convolve
from tracejit.numpy.counts import may_count
from tracejit.numpy.decompositions import inv, lstsq
from tracejit.numpy.joining import concatenate, element_at, part
from tracejit.numpy.linear import dot, outer
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of, atleast_1d
from tracejit.numpy.triangles import vander
from tracejit.primitives import creation as c, shape as p
from tracejit.support.dtypes import result_type
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Raised
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots"]


def _coefficients(name: str, p_: ArrayLike) -> Result:
    x = atleast_1d(array_of(p_))
    if aval(x).ndim != 1:
        raise reject(f"np.{name}: the coefficients of a polynomial are a vector, not of rank {aval(x).ndim}")
    return x


def _with_length(name: str, p: ArrayLike) -> Result:
    x = array_of(p)
    if aval(x).ndim == 0:
        raise DtypeError(f"np.{name}: len() of unsized object; give a vector of coefficients", location=user_location())
    return x


def _lengthened(x: ArrayLike, count: int) -> Result:
    """With zeros for the powers that it has not."""
    n = int(aval(x).shape[0])
    return x if n == count else concatenate([np.zeros(count - n, aval(x).dtype), x])


def _together(name: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Result, Result]:
    x, y = atleast_1d(array_of(a1)), atleast_1d(array_of(a2))
    if same_extent(aval(x).shape[0], aval(y).shape[0]) or aval(x).shape[0] == aval(y).shape[0]:
        return x, y  # of any rank, as in NumPy
    x, y = _coefficients(name, x), _coefficients(name, y)
    count = max(int(aval(x).shape[0]), int(aval(y).shape[0]))
    return _lengthened(x, count), _lengthened(y, count)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Result:
    """The sum of two polynomials, as long as the longer one.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p, q: np.polyadd(p, q))(np.array([1, 2]), np.array([9, 5, 4]))
    array([9, 6, 6])
    """
    return u.add(*_together("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Result:
    """The difference of two polynomials, as long as the longer one.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p, q: np.polysub(p, q))(np.array([2, 10, -2]), np.array([3, 10, -4]))
    array([-1,  0,  2])
    """
    return u.subtract(*_together("polysub", a1, a2))


# -- leading zeros -----------------------------------------------------------------------------------------------------
def _leading(small: ArrayLike, most: int) -> Result:
    """How many elements at the beginning are `small`, `most` at the most."""
    n = int(aval(small).shape[0])
    places = u.where(small, n, c.iota((n,), 0, np.int64))
    return u.minimum(r.min(places, initial=n), most)


def _without_first(x: ArrayLike, count: ArrayLike, name: str) -> Result:
    """x[count:], where data say how many that are."""
    if not isinstance(count, Tracer):
        return array_of(x)[int(count) :]
    known = count.known()
    if known is not None:
        return OPERATORS.getitem(x, slice(int(known), None))
    if not may_count():
        raise unsupported(
            f"np.{name} drops leading zeros, and how many there are depends on data; where all results have one "
            f"length, as in tj.vmap, use tj.numpy.{name}(..., trim_leading_zeros=False)"
        )
    return OPERATORS.getitem(x, slice(count, None))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool | None = None) -> Result:
    """The product of two polynomials.

    trim_leading_zeros: whether leading zeros of both are dropped first, so that data say how long the product is.  By
    default they are where they are known, as in NumPy, and otherwise there may be none; False leaves them, as in JAX.

    Raises: ValueError for a leading zero that only the program finds, by default.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p, q: np.polymul(p, q))(np.array([1, 2]), np.array([9, 5, 1]))
    array([ 9, 23, 11,  2])
    """
    x, y = _coefficients("polymul", a1), _coefficients("polymul", a2)
    x, y = (z if int(aval(z).shape[0]) else np.zeros(1, aval(z).dtype) for z in (x, y))
    product = convolve(x, y)
    if trim_leading_zeros is False:
        return product
    if trim_leading_zeros is None and not all(_is_known(z) for z in (x, y)):
        for z in (x, y):
            if int(aval(z).shape[0]) > 1:
                check_none(u.equal(element_at(z, 0), 0), _LEADING_ZERO)
        return product
    dropped = [_leading(u.equal(z, 0), int(aval(z).shape[0]) - 1) for z in (x, y)]
    return _without_first(product, u.add(*dropped), "polymul")


_LEADING_ZERO = Raised(
    ValueError(
        "np.polymul drops leading zeros of polynomials, and one that data give has such; use "
        "tj.numpy.polymul(p, q, trim_leading_zeros=False), whose product is as long as both together"
    )
)


def _is_known(x: ArrayLike) -> bool:
    return not isinstance(x, Tracer) or x.known() is not None


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool | None = None) -> tuple[Result, Result]:
    """(quotient, remainder) of two polynomials, in floating point.

    trim_leading_zeros: whether leading elements of the remainder below 1e-8 are dropped, as NumPy does, so that data
    say how long it is; by default they are.  Without, it is as long as the dividend: as in JAX.

    Raises: ShapeError for empty ones.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p, q: np.polydiv(p, q))(np.array([3.0, 5.0, 2.0]), np.array([2.0, 1.0]))
    (array([1.5 , 1.75]), array([0.25]))
    """
    rest, divisor = _coefficients("polydiv", u), _coefficients("polydiv", v)
    n, m = int(aval(rest).shape[0]), int(aval(divisor).shape[0])
    if not n or not m:
        raise reject("np.polydiv: a polynomial has no coefficients")
    wide = [result_type((aval(x).dtype, False), (np.dtype(np.float64), True))[0] for x in (rest, divisor)]
    dtype = np.promote_types(*wide)
    rest, divisor = to_dtype(rest, dtype), to_dtype(divisor, dtype)
    scale = ufuncs.divide(dtype.type(1), element_at(divisor, 0))
    found: list[Any] = []
    for k in range(n - m + 1):
        factor = ufuncs.multiply(scale, element_at(rest, k))
        found.append(p.reshape(factor, (1,)))
        pieces = [
            part(rest, 0, 0, k),
            ufuncs.subtract(part(rest, 0, k, m), ufuncs.multiply(factor, divisor)),
            part(rest, 0, k + m, n - k - m),
        ]
        rest = concatenate([piece for piece in pieces if int(aval(piece).shape[0])])
    quotient = concatenate(found) if found else np.zeros(1, dtype)
    if trim_leading_zeros is False:
        return quotient, rest
    return quotient, _without_first(rest, _leading(ufuncs.less_equal(ufuncs.absolute(rest), 1e-8), n - 1), "polydiv")


# -- derivatives and integrals -----------------------------------------------------------------------------------------
def polyder(p: ArrayLike, m: ArrayLike = 1) -> Result:
    """The m-th derivative of a polynomial, m known while tracing; empty if nothing is left.

    Raises: ShapeError for a negative m.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p: np.polyder(p))(np.array([1, 1, 1, 1]))
    array([3, 2, 1])
    """
    x = _with_length("polyder", p)
    times = static_int(m, "np.polyder's order")
    if times < 0:
        raise reject("np.polyder: Order of derivative must be positive (see polyint)")
    for k in range(times + 1):
        n = max(int(aval(x).shape[0]) - 1, 0)
        # once more than it is asked for: as in NumPy, rows of coefficients that do not fit to that are an error
        less = u.multiply(part(x, 0, 0, n), np.arange(n, 0, -1))
        x = less if k < times else x
    return x


def polyint(p: ArrayLike, m: ArrayLike = 1, k: ArrayLike = None) -> Result:
    """The m-th integral of a polynomial, m known while tracing, with the constants k: one for all, or one each.

    Raises: ShapeError for a negative m, or too few constants.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p: np.polyint(p))(np.array([3.0, 2.0, 1.0]))
    array([1., 1., 1., 0.])
    """
    x = _coefficients("polyint", _with_length("polyint", p))
    times = static_int(m, "np.polyint's order")
    if times < 0:
        raise reject("np.polyint: Order of integral must be positive (see polyder)")
    constants = atleast_1d(array_of(np.zeros(times) if k is None else k))
    if int(aval(constants).shape[0]) == 1 and times > 1:
        constants = spread(constants, (times,))
    if int(aval(constants).shape[0]) < times:
        raise reject("np.polyint: k must be a scalar or a rank-1 array of length 1 or >m.")
    for step in range(times):
        n = int(aval(x).shape[0])
        x = concatenate([u.divide(x, np.arange(n, 0, -1)), part(constants, 0, step, 1)])
    return x


def poly(seq_of_zeros: ArrayLike) -> Result:
    """The coefficients of the polynomial with the given zeros, the first of them 1.

    Raises: UnsupportedError for a matrix, whose characteristic polynomial follows from eigenvalues, and for complex
    zeros, as it is real where they are conjugates of each other.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda zeros: np.poly(zeros))(np.array([1.0, -2.0]))
    array([ 1.,  1., -2.])
    """
    zeros = atleast_1d(array_of(seq_of_zeros))
    have = aval(zeros)
    if have.ndim == 2 and have.shape[0] == have.shape[1]:
        raise unsupported("np.poly of a matrix is not supported: its eigenvalues may be complex; give its eigenvalues")
    if have.ndim != 1:
        raise reject("np.poly: input must be 1d or non-empty square 2d array.")
    if not int(have.shape[0]):
        return 1.0
    if have.dtype.kind == "c":
        raise unsupported(
            "np.poly of complex zeros is not supported: its coefficients are real where these are pairs of conjugates, "
            "so data decide the dtype"
        )
    dtype = np.dtype(np.float32 if have.dtype == np.float32 else np.float64)
    zeros = to_dtype(zeros, dtype)
    found: Any = np.ones(1, dtype)
    for n in range(int(have.shape[0])):
        pair = concatenate([np.ones(1, dtype), u.negative(part(zeros, 0, n, 1))])
        found = convolve(found, pair)
    return found


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Result:
    """The zeros of a polynomial whose coefficients are known, complex unless all are real: NumPy's own.

    Raises: UnsupportedError for coefficients that are not known while tracing, and where zeros are not to be stripped.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.roots([1.0, 0.0, -4.0])
    Array([-2.,  2.], dtype=float64)
    """
    if not strip_zeros:
        raise unsupported("np.roots with strip_zeros=False is not supported; leave it out")
    known = p.known() if isinstance(p, Tracer) else p
    if known is None:
        raise unsupported(
            "np.roots is not supported in traced code: whether zeros are complex depends on data; call it on the "
            "coefficients before"
        )
    return np.roots(np.asarray(known))


# -- fits --------------------------------------------------------------------------------------------------------------
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: ArrayLike,
    rcond: ArrayLike = None,
    full: bool = False,
    w: ArrayLike = None,
    cov: Any = False,
) -> Any:
    """The polynomial of degree `deg` with the least squared distance to points (x, y).   x: [n], y: [n] or [n, k]

    w: weights of the distances.  full: also residuals, rank, singular values and rcond.
    cov: also the covariance of the coefficients; "unscaled" without the factor of chi squared.

    Raises: ShapeError for operands that do not fit.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> np.round(tj.jit(lambda x, y: np.polyfit(x, y, 1))(x, 2 * x + 1), 12)
    array([2., 1.])
    """
    order = static_int(deg, "np.polyfit's degree") + 1
    at, left = array_of(x), array_of(y)
    at, left = u.add(at, 0.0), u.add(left, 0.0)
    if order < 1:
        raise ValueError("expected deg >= 0")
    if aval(at).ndim != 1:
        raise DtypeError("np.polyfit: expected 1D vector for x", location=user_location())
    if aval(at).size == 0:
        raise DtypeError("np.polyfit: expected non-empty vector for x", location=user_location())
    if aval(left).ndim not in (1, 2):
        raise DtypeError("np.polyfit: expected 1D or 2D array for y", location=user_location())
    if aval(at).shape[0] != aval(left).shape[0]:
        raise DtypeError("np.polyfit: expected x and y to have same length", location=user_location())
    limit: Any = rcond
    if limit is None:
        dtype = aval(at).dtype
        limit = u.multiply(c.extent_value(aval(at).shape[0], dtype), np.finfo(dtype).eps)
    table = vander(at, order)
    if w is not None:
        weights = u.add(array_of(w), 0.0)
        if aval(weights).ndim != 1:
            raise DtypeError("np.polyfit: expected a 1-d array for weights", location=user_location())
        if aval(weights).shape[0] != aval(left).shape[0]:
            raise DtypeError("np.polyfit: expected w and y to have the same length", location=user_location())
        column = p.reshape(weights, (aval(weights).shape[0], 1))
        table = u.multiply(table, column)
        left = u.multiply(left, column if aval(left).ndim == 2 else weights)
    scale = u.sqrt(r.sum(u.multiply(table, table), axis=0))
    table = u.divide(table, scale)
    scaled, residuals, rank, values = lstsq(table, left, limit)
    found = u.divide(scaled, p.reshape(scale, (order, 1)) if aval(scaled).ndim == 2 else scale)
    if full:
        return found, residuals, rank, values, limit
    if not cov:
        return found
    square = inv(dot(p.transpose(table, (1, 0)), table))
    square = u.divide(square, outer(scale, scale))
    factor: Any = 1.0
    if cov != "unscaled":
        count = aval(at).shape[0]
        if count <= order:
            raise reject("np.polyfit: the number of data points must exceed order to scale the covariance matrix")
        gaps = u.subtract(left, dot(table, scaled))
        factor = u.divide(r.sum(u.multiply(gaps, gaps), axis=0), c.extent_value(count - order, np.float64))
    if aval(left).ndim == 1:
        return found, u.multiply(square, factor)
    return found, u.multiply(p.reshape(square, (order, order, 1)), factor)


for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
