"""What numbers are made of: fractions and exponents, neighbours, common divisors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.elementwise import composed, floating_dtype, floats, of_primitive
from tracejit.numpy.promotion import aval, promote
from tracejit.numpy.shaping import array_of
from tracejit.primitives.float_parts import FrexpExponent, FrexpFraction, NextAfter
from tracejit.primitives.integers import Gcd, Lcm
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.layout import AS_IS
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["frexp", "gcd", "lcm", "modf", "nextafter", "real_if_close", "spacing"]


gcd = of_primitive("gcd", Gcd(), 2)  # bools, which NumPy refuses too, the primitive refuses
lcm = of_primitive("lcm", Lcm(), 2)
nextafter = of_primitive("nextafter", NextAfter(), 2, floats)


@composed("spacing")
def spacing(x: ArrayLike, /) -> Result:
    """How far the next number away from zero is from x, with x's sign; of infinities NaN.

    Of float16 the next one towards plus infinity, as in NumPy.
    """
    (y,) = promote(x, to=floating_dtype)
    dtype = aval(y).dtype
    far = dtype.type(np.inf)
    away = far if dtype == np.float16 else u.where(u.less(y, 0), u.negative(far), far)
    found = u.subtract(bind(NextAfter(), y, away), y)
    return u.where(u.isinf(y), dtype.type(np.nan), found)


@composed("modf")
def modf(x: ArrayLike, /) -> tuple[Result, Result]:
    """(fraction, whole part), both with the sign of x; of an infinity a zero and itself."""
    (y,) = promote(x, to=floating_dtype)
    whole = u.trunc(y)
    # Written for numbers of either sign, so that zeros have it too.
    rest = u.where(u.less(y, 0), u.negative(u.subtract(u.negative(y), u.negative(whole))), u.subtract(y, whole))
    zero = aval(y).dtype.type(0)
    bare = u.logical_or(u.isinf(y), u.equal(y, 0))
    return u.where(bare, u.where(u.equal(y, 0), y, u.where(u.less(y, 0), u.negative(zero), zero)), rest), whole


@composed("frexp")
def frexp(x: ArrayLike, /) -> tuple[Result, Result]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1, e of int32; x and 0 of zeros, infinities and NaN."""
    (y,) = promote(x, to=floating_dtype)
    return bind(FrexpFraction(), y), bind(FrexpExponent(), y)


def real_if_close(a: ArrayLike, tol: Any = 100) -> Result:
    """The array itself: what is real needs no rounding to real numbers.

    Raises: UnsupportedError for complex numbers, of which values would decide the dtype.
    """
    x = array_of(a)
    if aval(x).dtype.kind == "c":
        raise UnsupportedError(
            "np.real_if_close of complex numbers gives a dtype that depends on values; take x.real",
            location=user_location(),
        )
    return x


FUNCTIONS[np.real_if_close] = real_if_close
AS_IS.add(real_if_close)
