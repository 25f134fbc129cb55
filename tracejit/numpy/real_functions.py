"""NumPy's functions of real numbers that are made of others or seldom used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.creation import zeros_like
from tracejit.numpy.elementwise import composed, floating_dtype, floats, number_dtype, of_primitive, rounded_once
from tracejit.numpy.joining import element_at
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, promote, to_dtype
from tracejit.numpy.shaping import array_of, as_rank_0_array
from tracejit.primitives.arithmetic import Fmod
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.transcendental import Acosh, Asinh, Atanh
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tables import FUNCTIONS

__all__ = [
    "acosh", "arccosh", "arcsinh", "arctanh", "asinh", "atanh", "float_power", "fmod", "i0", "isneginf", "isposinf",
    "ldexp", "polyval", "signbit", "sinc",
]  # fmt: skip


arcsinh = of_primitive("arcsinh", Asinh(), 1, floating_dtype)
arccosh = of_primitive("arccosh", Acosh(), 1, floating_dtype)
arctanh = of_primitive("arctanh", Atanh(), 1, floating_dtype)
asinh, acosh, atanh = arcsinh, arccosh, arctanh


@composed("fmod")
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Result:
    """The remainder of division towards zero, with the sign of x1; integers give 0 where x2 is 0."""
    a, b = promote(x1, x2, to=number_dtype)
    kind = aval(a).dtype.kind
    if kind == "f":
        return bind(Fmod(), a, b)
    if kind == "u":
        return u.remainder(a, b)
    # Among numbers that are not positive the quotient is not negative: floor is truncation.
    low, divisor = u.where(u.greater(a, 0), u.negative(a), a), u.where(u.greater(b, 0), u.negative(b), b)
    rest = u.remainder(low, divisor)
    return u.where(u.less(a, 0), rest, u.negative(rest))


@composed("float_power")
def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Result:
    """x1 ** x2 in double precision."""
    return power(*promote(x1, x2, to=lambda dtype: np.result_type(dtype, np.float64)))


@composed("signbit")
def signbit(x: ArrayLike, /) -> Result:
    """Whether the sign is negative, that of zeros included.  Raises DtypeError for complex numbers."""
    (y,) = promote(x)
    if aval(y).dtype.kind == "c":
        floats(y)
    if aval(y).dtype.kind != "f":
        return u.less(y, 0)
    return u.has_sign(y)


@composed("logaddexp2")
@rounded_once
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Result:
    """log2(2**x1 + 2**x2) without overflow."""
    a, b = floats(x1, x2)
    big, gap = u.greater_and_gap(a, b)
    return u.add(big, u.multiply(u.log1p(u.exp2(gap)), 1 / math.log(2.0)))


@composed("ldexp")
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Result:
    """x1 * 2**x2, rounded once: of three factors only the last one can make a number that is not exact.

    Source: musl's scalbn.
    """
    n = as_array(x2)
    if aval(n).weak and aval(n).dtype.kind == "i":
        n = to_dtype(n, np.int32)  # a Python integer is C's int to it
    if aval(n).dtype.kind not in "bi" and not np.can_cast(aval(n).dtype, np.int64):
        raise DtypeError(f"np.ldexp: {aval(n)} is not an exponent", location=user_location())
    x = as_array(x1)
    if aval(x).dtype.kind == "c":
        floats(x)
    dtype = floating_dtype(aval(x).dtype)
    if (
        aval(x).weak
        and aval(x).dtype.kind == "i"
        and not aval(as_array(x2)).weak
        and aval(as_array(x2)).dtype.kind in "iu"
    ):
        dtype = np.dtype(np.float16)  # a Python integer fits the first of NumPy's loops
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    (x,) = promote(to_dtype(x, dtype), to=wide)
    info = np.finfo(wide)
    high, low = int(info.maxexp) - 1, int(info.minexp)
    step = low + int(info.nmant) + 1  # a product that this makes inexact is zero in the end
    n = u.minimum(u.maximum(to_dtype(n, np.int64), low + 2 * step), 3 * high)
    for _ in range(2):
        part = u.where(u.greater(n, high), high, u.where(u.less(n, low), step, 0))
        x, n = u.multiply(x, _power_of_two(part, wide)), u.subtract(n, part)
    return to_dtype(u.multiply(x, _power_of_two(n, wide)), dtype)


def _power_of_two(n: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """2**n for integers of normal powers, which is exact."""
    return u.exp2(to_dtype(n, dtype))


def isposinf(x: ArrayLike, /) -> Result:
    """Whether x is plus infinity.  Raises DtypeError for complex numbers."""
    return u.equal(_ordered(x), np.inf)


def isneginf(x: ArrayLike, /) -> Result:
    """Whether x is minus infinity.  Raises DtypeError for complex numbers."""
    return u.equal(_ordered(x), -np.inf)


def _ordered(x: ArrayLike) -> ArrayLike:
    """x, which is not complex."""
    if aval(as_array(x)).dtype.kind == "c":
        floats(x)
    return x


def sinc(x: ArrayLike) -> Result:
    """sin(pi x) / (pi x), 1 at 0.  Near 0 it is a polynomial, whose derivatives are exact
    where those of the quotient cancel.
    """
    (y,) = promote(x, to=lambda dtype: dtype if dtype.kind in "fc" else np.dtype(np.float64))
    y = u.multiply(np.pi, y)
    near = u.less(u.absolute(y), 1)
    square = u.where(near, u.multiply(y, y), 0)
    series: Any = _SINC[-1]
    for coefficient in _SINC[-2::-1]:
        series = u.add(u.multiply(series, square), coefficient)
    far = u.where(near, 1, y)
    return u.where(near, series, u.divide(u.sin(far), far))


def i0(x: ArrayLike) -> Result:
    """The modified Bessel function of the first kind and order 0; integers in float64.

    >>> import numpy as np, tracejit as tj
    >>> round(float(tj.numpy.i0(1.0)), 6)
    1.266066
    """
    from tracejit.numpy import special  # for speed of import

    return as_rank_0_array(special.i0(x))


_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)]
"""The Taylor coefficients of sin(y) / y in y * y; of |y| < 1 the first that is left out is below 1e-19."""


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Result:
    """The polynomial with coefficients p (highest first) at x, by Horner's rule.   unroll: changes nothing."""
    coefficients = array_of(p)
    have = aval(coefficients).shape
    if not have:
        raise reject("np.polyval: the coefficients are an array, not a number")
    at = array_of(x)
    y = zeros_like(at)
    for n in range(int(have[0])):
        y = u.add(u.multiply(y, at), element_at(coefficients, n))
    return y


@composed("conjugate")
def _conjugate(x: ArrayLike, /) -> Result:
    """The complex conjugate; of a real array the array itself, of bool in int8."""
    (y,) = promote(x)
    if aval(y).dtype.kind == "c":
        return conj(y)
    return to_dtype(y, np.int8) if aval(y).dtype.kind == "b" else u.unchanged(x)


FUNCTIONS.update({np.isposinf: isposinf, np.isneginf: isneginf, np.sinc: sinc, np.i0: i0, np.polyval: polyval})
