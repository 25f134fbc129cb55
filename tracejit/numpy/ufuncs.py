"""NumPy's ufuncs: promotion, then one primitive (or a few)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import surely_at_most
from tracejit.ir.ranges import ANYTHING
from tracejit.numpy.elementwise import (
    composed,
    floating_dtype,
    floats,
    number_dtype,
    of_primitive,
    registered,
    rounded_once,
)
from tracejit.numpy.promotion import as_array, aval, broadcast, promote, wrapped_to_dtype
from tracejit.primitives import elementwise
from tracejit.primitives.arithmetic import (
    Abs,
    Ceil,
    Floor,
    FloorDivide,
    Maximum,
    Minimum,
    Remainder,
    Rint,
    Sign,
    Trunc,
)
from tracejit.primitives.bits import Bitcast
from tracejit.primitives.comparison import And, Eq, Ge, Gt, IsFinite, Le, Lt, Ne, Not, Or, ShiftLeft, ShiftRight, Xor
from tracejit.primitives.complex_numbers import imag, real
from tracejit.primitives.elementwise import Add, Div, Elementwise, Mul, Neg, Sub
from tracejit.primitives.transcendental import (
    Acos,
    Asin,
    Atan,
    Atan2,
    Cbrt,
    Cos,
    Cosh,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log1p,
    Log2,
    Log10,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
)
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tracer import Tracer

__all__ = [
    "abs", "absolute", "add", "arccos", "arcsin", "arctan", "arctan2", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil", "copysign", "cos", "cosh",
    "deg2rad", "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "floor", "floor_divide", "fmax", "fmin",
    "greater", "greater_equal", "heaviside", "hypot", "invert", "isfinite", "isinf", "isnan", "left_shift", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "positive", "rad2deg",
    "remainder", "right_shift", "rint", "sign", "sin", "sinh", "sqrt", "subtract", "tan",
    "tanh", "true_divide", "trunc",
]  # fmt: skip


def _comparison(name: str, primitive: Elementwise) -> Callable[..., Any]:
    """A comparison.  Integers are compared as the numbers they are, whatever their dtypes, as NumPy does."""
    plain, of_numbers = of_primitive(name, primitive, 2), getattr(np, name)
    mirrored = {
        "less": Gt,
        "less_equal": Ge,
        "greater": Lt,
        "greater_equal": Le,
    }.get(name, type(primitive))()

    def compare(x: ArrayLike, y: ArrayLike, /, **kwargs: Any) -> Result:
        if not kwargs:
            x, y = as_array(x), as_array(y)
            if weak_kind(x) is not None and weak_kind(y) is not None:
                return np.bool_(of_numbers(x, y))  # of any magnitude
            found = _of_integers(primitive, x, y)
            if found is None:
                found = _of_integers(mirrored, y, x)
            if found is not None:
                return found
        elif kwargs.get("dtype") is not None and np.dtype(kwargs["dtype"]).kind != "b":
            raise DtypeError(f"np.{name} gives bools; dtype= can be nothing else", location=user_location())
        kwargs.pop("dtype", None)
        return plain(x, y, **kwargs)

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = plain.__doc__
    return registered(compare, name)


def _of_integers(primitive: Elementwise, x: ArrayLike, y: ArrayLike) -> Result:
    """The comparison of integers x with y, a Python integer or of int64 where x is of uint64,
    which no dtype need hold; None for others.
    """
    have, other = aval(x), aval(y)
    if have.dtype.kind not in "iu" or other.dtype.kind != "i" or (have.weak and not isinstance(x, Tracer)):
        return None
    limits = np.iinfo(have.dtype)
    low, high = int(limits.min), int(limits.max)
    if type(y) is int:
        return None if low <= y <= high else _everywhere(x, primitive.impl(0, -1 if y < 0 else 1))
    if not (other.weak or have.dtype == np.uint64) or have.dtype == np.int64:
        return None
    # Python's number, or the numbers of the wider dtype, are brought between the limits; what was beyond is decided
    # apart.
    wide = elementwise.convert(y, np.int64) if isinstance(y, Tracer) else np.asarray(y).astype(np.int64)[()]
    near = bind(Maximum(), wide, np.int64(low))
    near = near if high >= 2**63 else bind(Minimum(), near, np.int64(high))
    a, b, wide = broadcast([x, elementwise.convert(near, have.dtype), wide], [have.shape, other.shape, other.shape])
    found = bind(primitive, a, b)
    least, greatest = y.seen().value_range() if isinstance(y, Tracer) else ANYTHING
    beyond: list[tuple[Any, bool]] = []
    if least is None or not surely_at_most(low, least):
        beyond.append((bind(Lt(), wide, np.int64(low)), primitive.impl(0, -1)))
    if high < 2**63 - 1 and (greatest is None or not surely_at_most(greatest, high)):
        beyond.append((bind(Gt(), wide, np.int64(high)), primitive.impl(0, 1)))
    for decided, answer in beyond:
        if answer != primitive.impl(0, 0):  # else the limit itself gives that answer
            found = bind(Or(), found, decided) if answer else bind(And(), found, bind(Not(), decided))
    return found


def _everywhere(x: ArrayLike, answer: Any) -> Result:
    """The same answer for each element of x."""
    same = bind(Eq(), elementwise.convert(x, aval(x).dtype), elementwise.convert(x, aval(x).dtype))
    return same if answer else bind(Not(), same)


add = of_primitive("add", Add(), 2)
subtract = of_primitive("subtract", Sub(), 2)
multiply = of_primitive("multiply", Mul(), 2)
divide = true_divide = of_primitive(
    "divide", Div(), 2, lambda dtype: dtype if dtype.kind in "fc" else np.dtype(np.float64)
)
floor_divide = of_primitive("floor_divide", FloorDivide(), 2, number_dtype)
remainder = mod = of_primitive("remainder", Remainder(), 2, number_dtype)
negative = of_primitive("negative", Neg(), 1)
absolute = abs = of_primitive("absolute", Abs(), 1)
sign = of_primitive("sign", Sign(), 1)
maximum = of_primitive("maximum", Maximum(), 2)
minimum = of_primitive("minimum", Minimum(), 2)
arctan2 = of_primitive("arctan2", Atan2(), 2, floats)
bitwise_and = of_primitive("bitwise_and", And(), 2)
bitwise_or = of_primitive("bitwise_or", Or(), 2)
bitwise_xor = of_primitive("bitwise_xor", Xor(), 2)
invert = bitwise_invert = of_primitive("invert", Not(), 1)
left_shift = bitwise_left_shift = of_primitive("left_shift", ShiftLeft(), 2, number_dtype)
right_shift = bitwise_right_shift = of_primitive("right_shift", ShiftRight(), 2, number_dtype)
equal = _comparison("equal", Eq())
not_equal = _comparison("not_equal", Ne())
less = _comparison("less", Lt())
less_equal = _comparison("less_equal", Le())
greater = _comparison("greater", Gt())
greater_equal = _comparison("greater_equal", Ge())
sqrt = of_primitive("sqrt", Sqrt(), 1, floating_dtype)
cbrt = of_primitive("cbrt", Cbrt(), 1, floating_dtype)
exp = of_primitive("exp", Exp(), 1, floating_dtype)
exp2 = of_primitive("exp2", Exp2(), 1, floating_dtype)
expm1 = of_primitive("expm1", Expm1(), 1, floating_dtype)
log = of_primitive("log", Log(), 1, floating_dtype)
log2 = of_primitive("log2", Log2(), 1, floating_dtype)
log10 = of_primitive("log10", Log10(), 1, floating_dtype)
log1p = of_primitive("log1p", Log1p(), 1, floating_dtype)
sin = of_primitive("sin", Sin(), 1, floating_dtype)
cos = of_primitive("cos", Cos(), 1, floating_dtype)
tan = of_primitive("tan", Tan(), 1, floating_dtype)
arcsin = of_primitive("arcsin", Asin(), 1, floating_dtype)
arccos = of_primitive("arccos", Acos(), 1, floating_dtype)
arctan = of_primitive("arctan", Atan(), 1, floating_dtype)
sinh = of_primitive("sinh", Sinh(), 1, floating_dtype)
cosh = of_primitive("cosh", Cosh(), 1, floating_dtype)
tanh = of_primitive("tanh", Tanh(), 1, floating_dtype)


def _rounding(name: str, primitive: Elementwise) -> Callable[..., Any]:
    def function(x: ArrayLike) -> Result:
        x = as_array(x)
        return bind(primitive, *promote(x)) if aval(x).dtype.kind in "fc" else unchanged(x)

    function.__doc__ = f"numpy.{name}: integers stay as they are."
    return composed(name)(function)


floor = _rounding("floor", Floor())
ceil = _rounding("ceil", Ceil())
trunc = _rounding("trunc", Trunc())
rint = of_primitive("rint", Rint(), 1, floating_dtype)


@composed("positive")
def positive(x: ArrayLike) -> Result:
    """x itself, as a new array.  Raises DtypeError for bool."""
    if aval(as_array(x)).dtype.kind == "b":
        raise DtypeError("np.positive does not accept bool; use x.copy(), or x.astype(int)", location=user_location())
    return unchanged(x)


def unchanged(x: ArrayLike) -> Result:
    """x itself, as a new array."""
    from tracejit.numpy.shaping import copy

    made = copy(x)
    if isinstance(made, Tracer):
        made.is_array = False  # of rank 0: a number
    return made


def _truth(x: ArrayLike) -> Result:
    """x != 0 as bool."""
    x = as_array(x)
    return x if aval(x).dtype == np.bool_ else not_equal(x, 0)


@composed("logical_and")
def logical_and(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether both are nonzero."""
    return bitwise_and(_truth(x), _truth(y))


@composed("logical_or")
def logical_or(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether one is nonzero."""
    return bitwise_or(_truth(x), _truth(y))


@composed("logical_xor")
def logical_xor(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether exactly one is nonzero."""
    return bitwise_xor(_truth(x), _truth(y))


@composed("logical_not")
def logical_not(x: ArrayLike) -> Result:
    """Whether x is zero."""
    return invert(_truth(x))


@composed("isnan")
def isnan(x: ArrayLike) -> Result:
    """Whether x is NaN."""
    return not_equal(x, x)


@composed("isfinite")
def isfinite(x: ArrayLike) -> Result:
    """Neither infinite nor NaN."""
    (y,) = promote(x)
    return bind(IsFinite(), y) if aval(y).dtype.kind in "fc" else equal(y, y)


@composed("isinf")
def isinf(x: ArrayLike) -> Result:
    """Whether x is infinite."""
    (y,) = promote(x)
    if aval(y).dtype.kind == "c":  # whose size may be infinite where the parts are not
        return logical_or(isinf(real(y)), isinf(imag(y)))
    return equal(absolute(y), np.inf) if aval(y).dtype.kind == "f" else not_equal(y, y)


@composed("fabs")
def fabs(x: ArrayLike) -> Result:
    """|x| in floating point.  Raises DtypeError for complex numbers."""
    return absolute(*floats(x))


@composed("hypot")
@rounded_once
def hypot(x: ArrayLike, y: ArrayLike) -> Result:
    """sqrt(x*x + y*y) without overflow on the way."""
    a, b = floats(x, y)
    # With their signs, and with one of two equal ones as the greater: so all derivatives are right, at zeros and ties
    # too.
    sizes = absolute(a), absolute(b)
    first = logical_or(greater_equal(*sizes), isnan(a))
    big, small = where(first, a, b), where(first, b, a)
    ratio = divide(small, where(equal(big, 0), 1, big))
    result = multiply(absolute(big), sqrt(add(1, multiply(ratio, ratio))))
    return where(logical_or(equal(sizes[0], np.inf), equal(sizes[1], np.inf)), np.inf, result)


@composed("copysign")
def copysign(x: ArrayLike, y: ArrayLike) -> Result:
    """|x| with the sign of y."""
    a, b = floats(x, y)
    return where(has_sign(b), negative(absolute(a)), absolute(a))


def has_sign(x: ArrayLike) -> Result:
    """Whether the sign's bit of a float is set: of zeros and NaN too."""
    have = aval(x).dtype
    return less(bind(Bitcast(np.dtype(f"i{have.itemsize}")), x), 0)


@composed("fmax")
def fmax(x: ArrayLike, y: ArrayLike) -> Result:
    """The greater one; a NaN only if both are, then the first."""
    a, b = promote(x, y)
    return where(isnan(b), a, where(isnan(a), b, maximum(a, b)))


@composed("fmin")
def fmin(x: ArrayLike, y: ArrayLike) -> Result:
    """The lesser one; a NaN only if both are, then the first."""
    a, b = promote(x, y)
    return where(isnan(b), a, where(isnan(a), b, minimum(a, b)))


@composed("heaviside")
def heaviside(x: ArrayLike, y: ArrayLike) -> Result:
    """0 below zero, y at zero, 1 above."""
    a, b = floats(x, y)
    return where(isnan(a), a, where(less(a, 0), 0, where(greater(a, 0), 1, b)))


@composed("logaddexp")
@rounded_once
def logaddexp(x: ArrayLike, y: ArrayLike) -> Result:
    """log(exp(x) + exp(y)) without overflow."""
    a, b = floats(x, y)
    big, gap = greater_and_gap(a, b)
    return add(big, log1p(exp(gap)))


def greater_and_gap(a: ArrayLike, b: ArrayLike) -> tuple[Result, Result]:
    """The greater one, one of two equal ones, so that all derivatives are right;
    and by how much the other one is less.
    """
    first = greater_equal(a, b)
    big, small = where(first, a, b), where(first, b, a)
    return big, where(logical_and(equal(a, b), isinf(a)), 0, subtract(small, big))


@composed("deg2rad", "radians")
@rounded_once
def deg2rad(x: ArrayLike) -> Result:
    """Degrees to radians."""
    return multiply(*floats(x), np.pi / 180)


@composed("rad2deg", "degrees")
@rounded_once
def rad2deg(x: ArrayLike) -> Result:
    """Radians to degrees."""
    return multiply(*floats(x), 180 / np.pi)


@composed("divmod")
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Result, Result]:
    """(floor quotient, remainder)"""
    return floor_divide(x, y), remainder(x, y)


def where(
    condition: ArrayLike, x: ArrayLike, y: ArrayLike, convert_with: Callable[[Any, Any], Any] = wrapped_to_dtype
) -> Result:
    """x where condition else y, with NumPy's promotion of x and y.

    convert_with: what makes a Python integer fit the dtype.
    """
    test = _truth(condition)
    if not hasattr(test, "dtype"):
        test = np.bool_(test)
    a, b = promote(x, y, convert_with=convert_with)
    test, a, b = broadcast([test, a, b], [aval(test).shape, aval(a).shape, aval(b).shape])
    return elementwise.select(test, a, b)
