"""Sums of exponentials and what is divided by them, without overflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.promotion import as_array, aval, promote
from tracejit.numpy.real_functions import logaddexp2 as logaddexp2_of_reals
from tracejit.primitives.complex_numbers import imag, make_complex, real
from tracejit.primitives.custom import stop_gradient
from tracejit.support.typing import ArrayLike, AxisLike, Result

__all__ = ["inexact", "inexact_dtype", "log_softmax", "logaddexp", "logaddexp2", "logsumexp", "numbers", "softmax"]


def inexact_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A floating-point dtype itself, float64 for integers and bool."""
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def inexact(*xs: ArrayLike) -> list[Result]:
    """Operands of one floating-point dtype, and of one shape or of rank 0."""
    return promote(*xs, to=inexact_dtype)


def numbers(*xs: ArrayLike) -> list[Result]:
    """Operands of one floating-point or complex dtype, and of one shape or of rank 0."""
    return promote(*xs, to=lambda dtype: dtype if dtype.kind == "c" else inexact_dtype(dtype))


def logaddexp(x1: ArrayLike, x2: ArrayLike, /, **options: Any) -> Result:
    """log(exp(x1) + exp(x2)) without overflow; of complex numbers with an imaginary part in [-pi, pi).

    options: where= and dtype= as they are by default.

    Source: NumPy's logaddexp, which refuses complex numbers; JAX's, which takes them.

    >>> import tracejit as tj
    >>> round(float(tj.numpy.logaddexp(1000.0, 1000.0)), 6)
    1000.693147
    """
    if _are_complex(x1, x2) and not options:
        return _of_complex(x1, x2, 1.0)
    return u.logaddexp(x1, x2, **options)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /, **options: Any) -> Result:
    """log2(2**x1 + 2**x2) without overflow; of complex numbers with an imaginary part in [-p, p), p = pi / log(2).

    options: where= and dtype= as they are by default.

    Source: NumPy's logaddexp2, which refuses complex numbers; JAX's, which takes them.

    >>> import tracejit as tj
    >>> float(tj.numpy.logaddexp2(1000.0, 1000.0))
    1001.0
    """
    if _are_complex(x1, x2) and not options:
        return _of_complex(x1, x2, math.log(2.0))
    return logaddexp2_of_reals(x1, x2, **options)


def _are_complex(*xs: ArrayLike) -> bool:
    return any(aval(as_array(x)).dtype.kind == "c" for x in xs)


def _of_complex(x: ArrayLike, y: ArrayLike, base: float) -> Result:
    """The logarithm of the sum of powers of e**base."""
    a, b = promote(x, y)
    first = u.greater_equal(real(a), real(b))
    big, small = u.where(first, a, b), u.where(first, b, a)
    level = u.logical_and(u.equal(real(a), real(b)), u.isinf(real(a)))
    gap = make_complex(
        u.where(level, 0, u.subtract(real(small), real(big))),
        u.subtract(imag(small), imag(big)),
    )
    plain = base == 1.0
    step = u.log1p(u.exp(gap if plain else u.multiply(gap, base)))
    found = u.add(big, step if plain else u.divide(step, base))
    width = 2 * math.pi / base
    turns = u.floor(u.add(u.divide(imag(found), width), 0.5))
    return make_complex(real(found), u.subtract(imag(found), u.multiply(turns, width)))


def _greatest(x: ArrayLike, axis: AxisLike, where: ArrayLike | None, finite: bool = True) -> Result:
    """The maximum along an axis, of real parts, constant for derivatives.   finite: 0 where it is infinite"""
    if aval(x).dtype.kind == "c":
        x = real(x)
    shape = aval(x).shape
    empty = any(isinstance(n, int) and n == 0 for n in shape)
    if where is None and not empty:
        most = r.max(x, axis=axis, keepdims=True)
    else:
        most = r.max(x, axis=axis, keepdims=True, initial=-np.inf, where=True if where is None else where)
    return stop_gradient(u.where(u.isfinite(most), most, 0) if finite else most)


def logsumexp(
    a: ArrayLike,
    axis: AxisLike = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Result:
    """log(sum(b * exp(a))) along `axis`, without overflow; with `return_sign` the logarithm of the magnitude, and the
    sign.  Elements where `where` is False do not count.

    a: floating-point or complex, or integers that become float64.  b: factors, of a shape that broadcasts to a's.

    Source: SciPy's logsumexp.

    >>> import numpy as np, tracejit as tj
    >>> round(float(tj.scipy.special.logsumexp(np.array([1000.0, 1000.0]))), 6)
    1000.693147
    """
    if b is None:
        (x,) = numbers(as_array(a))
        factor = None
    else:
        x, factor = numbers(as_array(a), as_array(b))
        x = u.where(u.not_equal(factor, 0), x, -np.inf)
    most = _greatest(x, axis, where)
    terms = u.exp(u.subtract(x, most))
    if factor is not None:
        terms = u.multiply(factor, terms)
    total = r.sum(terms, axis=axis, keepdims=True, where=True if where is None else where)
    sign = _direction(total) if return_sign else None
    total = u.add(u.log(u.absolute(total) if return_sign else total), most)
    if not keepdims:
        total = r.sum(total, axis=axis)  # of one element each
        sign = r.sum(sign, axis=axis) if sign is not None else None
    return (total, sign) if return_sign else total


def _direction(x: ArrayLike) -> Result:
    """x over its magnitude, 0 at 0."""
    if aval(x).dtype.kind != "c":
        return u.sign(x)
    size = u.absolute(x)
    return u.where(u.equal(size, 0), 0, u.divide(x, u.where(u.equal(size, 0), 1, size)))


def softmax(x: ArrayLike, axis: AxisLike = -1, where: ArrayLike | None = None) -> Result:
    """exp(x) over its sum along `axis`; 0 where `where` is False.

    x: floating-point or complex, or integers that become float64.

    Source: JAX's nn.softmax.

    >>> import numpy as np, tracejit as tj
    >>> tj.nn.softmax(np.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float64)
    """
    (y,) = numbers(as_array(x))
    terms = u.exp(u.subtract(y, _greatest(y, axis, where, finite=False)))
    if where is None:
        return u.divide(terms, r.sum(terms, axis=axis, keepdims=True))
    return u.where(where, u.divide(terms, r.sum(terms, axis=axis, keepdims=True, where=where)), 0)


def log_softmax(x: ArrayLike, axis: AxisLike = -1, where: ArrayLike | None = None) -> Result:
    """log(softmax(x)) along `axis`, without overflow; -inf where `where` is False.

    x: floating-point or complex, or integers that become float64.

    Source: JAX's nn.log_softmax.

    >>> import numpy as np, tracejit as tj
    >>> bool(np.allclose(tj.nn.log_softmax(np.zeros(4)), -np.log(4.0)))
    True
    """
    (y,) = numbers(as_array(x))
    shifted = u.subtract(y, _greatest(y, axis, where))
    total = r.sum(u.exp(shifted), axis=axis, keepdims=True, where=True if where is None else where)
    result = u.subtract(shifted, u.log(total))
    return result if where is None else u.where(where, result, -np.inf)
