"""Functions that round to digits or towards zero."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import static_int
from tracejit.numpy.promotion import (
    aval,
    to_dtype,
)
from tracejit.numpy.shaping import array_of
from tracejit.numpy.strides import in_order_of_operands, like_first
from tracejit.primitives.complex_numbers import imag, make_complex, real
from tracejit.support.errors import DtypeError, NumberOutOfBounds
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.layout import LAYOUTS, Layout
from tracejit.tracer.tables import FUNCTIONS, METHODS, OUT_CASTING, SPREADING
from tracejit.tracer.tracer import Tracer

__all__ = ["around", "fix", "round"]


def round(a: ArrayLike, decimals: Any = 0, out: ArrayLike = None) -> Result:
    """Rounded to `decimals` places, halves to even; negative ones round before the point."""
    x = array_of(a)
    dtype = aval(x).dtype
    places = static_int(decimals, "np.round's decimals")
    if not -(2**31) <= places < 2**31:
        raise NumberOutOfBounds(f"np.round: {places} decimals are no 32-bit integer", location=user_location())
    if dtype.kind == "c":
        return make_complex(round(real(x), places), round(imag(x), places))
    if dtype.kind == "b":
        if places:
            raise DtypeError(
                "np.round: booleans have no decimals; convert them first (x.astype(float))", location=user_location()
            )
        return to_dtype(x, np.float16)
    if dtype.kind in "iu":
        return u.unchanged(x) if places >= 0 else _round_integer(x, -places)
    if places == 0:
        return u.rint(x)
    scale = dtype.type(_power_of_ten(builtins.abs(places)))
    scaled = u.rint(u.multiply(x, scale) if places > 0 else u.divide(x, scale))
    return u.divide(scaled, scale) if places > 0 else u.multiply(scaled, scale)


def _power_of_ten(places: int) -> float:
    return 10.0**places if places <= 308 else float("inf")


def _round_integer(x: ArrayLike, places: int) -> Result:
    """An integer rounded to a multiple of 10**places, through double precision as NumPy."""
    scale = _power_of_ten(places)
    return to_dtype(u.multiply(u.rint(u.divide(x, scale)), scale), aval(x).dtype)


around = round


def round_decimals(x: ArrayLike, digits: int) -> Result:
    """Python's round() of a float, which rounds the number that it is and not a product:
    2.55, a little less than that, to 2.5.

    The error of the product with 10**digits, which is exact up to 10**22, says to which side of a half it was.
    Source: Dekker, A floating-point technique for extending the available precision.
    """
    scale = 10.0**digits
    product = u.multiply(x, scale)
    high, low = _split(x)
    scale_high, scale_low = (float(part) for part in _split(np.float64(scale)))
    error = u.subtract(u.multiply(high, scale_high), product)
    error = u.add(
        u.add(u.add(error, u.multiply(high, scale_low)), u.multiply(low, scale_high)), u.multiply(low, scale_low)
    )
    whole = u.rint(product)
    gap = u.subtract(product, whole)
    whole = u.where(u.logical_and(u.equal(gap, 0.5), u.greater(error, 0)), u.add(whole, 1), whole)
    whole = u.where(u.logical_and(u.equal(gap, -0.5), u.less(error, 0)), u.subtract(whole, 1), whole)
    found = u.where(u.less(u.absolute(product), 2.0**53), u.divide(u.copysign(whole, x), scale), x)
    return found.as_python_number()


def _split(x: ArrayLike) -> tuple[Result, Result]:
    """x as a sum of two numbers of half as many bits."""
    large = u.multiply(x, 2.0**27 + 1)
    high = u.subtract(large, u.subtract(large, x))
    return high, u.subtract(x, high)


def fix(x: ArrayLike, out: ArrayLike = None) -> Result:
    """Rounded towards zero."""
    return u.trunc(x)


def _rule_of_out(a: ArrayLike, decimals: Any = 0, out: ArrayLike = None) -> str:
    """By which rule the result is converted to the dtype of out=.  What is scaled, NumPy rounds there."""
    places = static_int(decimals, "np.round's decimals")
    return "same_kind" if not places or (places > 0 and aval(array_of(a)).dtype.kind in "iu") else "equiv"


def _layout_of_rounded(
    arrays: Sequence[ArrayLike], result: Tracer, a: ArrayLike, decimals: Any = 0, *operands: ArrayLike, **options: Any
) -> Layout:
    scaled = result.dtype.kind == "f" and not (isinstance(decimals, int) and decimals == 0)
    return like_first(arrays, result) if scaled else in_order_of_operands(arrays, result)


METHODS["round"] = round
FUNCTIONS.update({np.round: round, np.around: around, np.fix: fix})
SPREADING.add(fix)
OUT_CASTING.update({round: _rule_of_out, around: _rule_of_out})
LAYOUTS.update({round: _layout_of_rounded, around: _layout_of_rounded, fix: in_order_of_operands})
