"""Powers: as functions, and as Python's operator, which goes a few ways of its own."""

from __future__ import annotations

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.numpy import ufuncs as u
from tracejit.numpy.elementwise import composed, number_dtype
from tracejit.numpy.number_checks import check_exponent
from tracejit.numpy.promotion import as_array, aval, promote, to_dtype
from tracejit.primitives import elementwise
from tracejit.primitives.arithmetic import Power
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tracer import Tracer

__all__ = ["power", "reciprocal", "square"]


@composed("square")
def square(x: ArrayLike) -> Result:
    """x * x; of bool in int8"""
    (y,) = promote(x, to=number_dtype)
    return u.multiply(y, y)


@composed("reciprocal")
def reciprocal(x: ArrayLike) -> Result:
    """1 / x in x's own dtype, of integers without the fraction."""
    (y,) = promote(x, to=number_dtype)
    dtype = aval(y).dtype
    if dtype.kind == "i":
        return elementwise.convert(u.divide(1.0, elementwise.convert(y, np.float64)), dtype)
    if dtype.kind == "c":  # with zeros of NumPy's signs; NaN of 0, of which 1 / 0 is infinite
        none = dtype.type(complex(np.nan, np.nan))
        return u.where(u.equal(y, 0), none, u.divide(dtype.type(complex(1.0, -0.0)), y))
    return u.divide(dtype.type(1), y) if dtype.kind == "f" else u.floor_divide(dtype.type(1), y)


@composed("power")
def power(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y.  Small constant exponents become multiplications, as NumPy's own fast paths.

    Raises: NegativePower for an integer to a negative integer; where that depends on values, the program does.
    """
    dtype = aval(as_array(x)).dtype
    return _power(x, y, roots=dtype != np.float16 and dtype.kind != "c")


def _power(x: ArrayLike, y: ArrayLike, roots: bool) -> Result:
    """x ** y; `roots`: x ** 0.5 is a square root, which differs at -0.0 and -inf, and of complex numbers x ** -1 the
    reciprocal, which differs in zeros' signs.
    """
    kind = aval(as_array(x)).dtype.kind
    if isinstance(y, Tracer) and y.aval.weak and y.dtype.kind == "f" and roots:
        return _power_of_number(x, y)
    if type(y) is float and kind in "iu" and y in (0.5, 1.0, 2.0):
        x, kind = to_dtype(x, np.float64), "f"
    if (type(y) in (int, float) and kind in "fc") or (type(y) is int and y >= 0 and kind != "b"):
        (base,) = promote(x)
        others = (0.5, -1) if kind == "c" else (0.5,)
        simple = _small_power(base, y) if roots or y not in others else None
        if simple is not None:
            return simple
    a, b = promote(x, y, to=number_dtype)
    _ask_for_sign(x, y)
    if aval(a).dtype.kind == "i" and not any(isinstance(n, int) and n == 0 for n in aval(a).shape):
        check_exponent(b)
    return bind(Power(), a, b)


def _power_of_number(x: ArrayLike, y: Tracer) -> Result:
    """x ** y for a Python number that is not known while tracing, and may be 0.5."""
    a, b = promote(x, y, to=number_dtype)
    found = bind(Power(), a, b)
    if aval(found).dtype.kind != "f":
        return found
    root = u.where(u.equal(a, 0), a, np.nan)
    return u.where(u.logical_and(u.equal(y, 0.5), u.less_equal(a, 0)), root, found)


def power_operator(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y, with a few short ways more than np.power has."""
    have = aval(as_array(x))
    of_bools = have.dtype.kind == "b" and not (x.is_scalar if isinstance(x, Tracer) else isinstance(x, np.generic))
    if of_bools and isinstance(y, Tracer) and y.aval.weak and y.dtype.kind == "i":
        y.ask()  # of an array of bools a square is an int8, another power an int64; of a scalar both are
    if of_bools and (type(y) is int or isinstance(y, Dim)) and y == 2:
        return square(x)
    scalar = x.is_scalar if isinstance(x, Tracer) else not isinstance(x, np.ndarray)
    if scalar and type(y) is float and y == 0.5 and (have.dtype == np.float32 or have.dtype == np.float64):
        return u.where(u.equal(x, -np.inf), np.inf, u.add(u.sqrt(x), 0.0))  # as C has it; of arrays the square root
    return _power(x, y, roots=not scalar)


def _ask_for_sign(x: ArrayLike, y: ArrayLike) -> None:
    """Python's 2**n is an integer or, for a negative n, a float: then the value of n is asked for."""
    if not isinstance(y, Tracer) or not y.aval.weak or y.aval.dtype.kind not in "iu" or not aval(as_array(x)).weak:
        return
    least = y.seen().value_range()[0]
    if aval(as_array(x)).dtype.kind in "iu" and not (isinstance(least, int) and least >= 0):
        y.ask()


def _small_power(x: ArrayLike, n: ArrayLike) -> Result:
    kind = aval(x).dtype.kind
    if n == 2:
        return u.multiply(x, x)
    if n == 1:
        return _of_zero(x, u.unchanged(x))
    if n == 0.5 and kind in "fc":
        return u.sqrt(x)
    if n == -1 and kind in "fc":
        return reciprocal(x)
    if n == 3:
        return _of_zero(x, u.multiply(u.multiply(x, x), x))
    if n == 4 and kind in "iu":
        return square(square(x))
    return None


def _of_zero(x: ArrayLike, power: ArrayLike) -> Result:
    """A positive power of x, which of complex zeros of any sign is 0."""
    return u.where(u.equal(x, 0), u.add(power, 0), power) if aval(x).dtype.kind == "c" else power
