"""NumPy's ufuncs that are made of others or seldom used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import aval, promote
from tracejit.numpy.shaping import array_of
from tracejit.primitives import elementwise as p
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tracer import FUNCTIONS, UFUNCS

__all__ = [
    "acosh", "arccosh", "arcsinh", "arctanh", "asinh", "atanh", "float_power", "fmod", "isneginf", "isposinf", "ldexp", "logaddexp2",
    "signbit",
]  # fmt: skip


def arcsinh(x: Any, /) -> Any:
    """The inverse hyperbolic sine."""
    return bind(p.Asinh(), *promote(x, to=u.floating_dtype))


def arccosh(x: Any, /) -> Any:
    """The inverse hyperbolic cosine; NaN below 1."""
    return bind(p.Acosh(), *promote(x, to=u.floating_dtype))


def arctanh(x: Any, /) -> Any:
    """The inverse hyperbolic tangent; NaN beyond -1 and 1."""
    return bind(p.Atanh(), *promote(x, to=u.floating_dtype))


asinh, acosh, atanh = arcsinh, arccosh, arctanh


def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder of division towards zero, with the sign of x1; integers give 0 where x2 is 0."""
    a, b = promote(x1, x2, to=lambda d: np.dtype(np.int8) if d.kind == "b" else d)
    kind = aval(a).dtype.kind
    if kind == "f":
        return bind(p.Fmod(), a, b)
    if kind == "u":
        return u.remainder(a, b)
    # Among numbers that are not positive the quotient is not negative: floor is truncation.
    low, divisor = u.where(u.greater(a, 0), u.negative(a), a), u.where(u.greater(b, 0), u.negative(b), b)
    rest = u.remainder(low, divisor)
    return u.where(u.less(a, 0), rest, u.negative(rest))


def float_power(x1: Any, x2: Any, /) -> Any:
    """x1 ** x2 in double precision."""
    return u.power(*promote(x1, x2, to=np.float64))


def signbit(x: Any, /) -> Any:
    """Whether the sign is negative, that of zeros included."""
    (y,) = promote(x)
    if aval(y).dtype.kind != "f":
        return u.less(y, 0)
    return u.less(u.copysign(aval(y).dtype.type(1), y), 0)


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2**x1 + 2**x2) without overflow."""
    a, b = u.floats(x1, x2)
    gap = u.negative(u.absolute(u.subtract(a, b)))
    return u.where(u.equal(a, b), u.add(a, 1), u.add(u.maximum(a, b), u.divide(u.log1p(u.exp2(gap)), math.log(2.0))))


def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 * 2**x2, in two steps so that only the result can overflow."""
    a = array_of(x1)
    dtype = u.floating_dtype(aval(a).dtype)
    (a,) = promote(a, to=dtype)
    n = array_of(x2)
    half = u.right_shift(n, 1)
    return u.multiply(u.multiply(a, u.exp2(promote(half, to=dtype)[0])), u.exp2(promote(u.subtract(n, half), to=dtype)[0]))


def isposinf(x: Any, /) -> Any:
    """Whether x is plus infinity."""
    return u.equal(x, np.inf)


def isneginf(x: Any, /) -> Any:
    """Whether x is minus infinity."""
    return u.equal(x, -np.inf)


def _erf(x: Any, /) -> Any:
    return bind(p.Erf(), *promote(x, to=u.floating_dtype))


def _conjugate(x: Any, /) -> Any:
    return u.positive(x)


UFUNCS.update({
    np.arcsinh: arcsinh, np.arccosh: arccosh, np.arctanh: arctanh, np.fmod: fmod, np.float_power: float_power, np.signbit: signbit,
    np.logaddexp2: logaddexp2, np.ldexp: ldexp, np.conjugate: _conjugate, "scipy.special.erf": _erf,
})  # fmt: skip
FUNCTIONS.update({np.isposinf: isposinf, np.isneginf: isneginf})
