"""Elementwise operations: operands of one dtype, and of one rank or rank 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.lax.operands import array, aval, operands, reject, spread
from tracejit.primitives import complex_numbers, elementwise
from tracejit.primitives.arithmetic import (
    Abs,
    Ceil,
    Floor,
    FloorDivide,
    Maximum,
    Minimum,
    Power,
    Remainder,
    Rint,
    Sign,
    Trunc,
)
from tracejit.primitives.comparison import And, Eq, Ge, Gt, IsFinite, Le, Lt, Ne, Not, Or, ShiftLeft, ShiftRight, Xor
from tracejit.primitives.elementwise import Add, Div, Elementwise, Mul, Neg, Sub
from tracejit.primitives.float_parts import NextAfter
from tracejit.primitives.transcendental import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cbrt,
    Cos,
    Cosh,
    Erf,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log1p,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
)
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.precision import RoundingMethod, check_accuracy
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "cbrt", "ceil", "clamp", "convert_element_type", "cos", "cosh", "div", "eq",
    "erf", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p",
    "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "pow", "reciprocal", "rem", "round",
    "rsqrt", "select", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "sub", "tan", "tanh",
]  # fmt: skip


_ACCURATE = frozenset({
    "cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh",
})  # fmt: skip
"""Functions that take `accuracy=`, which changes nothing."""


def _named(name: str, primitive: Elementwise, arity: int) -> Callable[..., Any]:
    def plain(x: ArrayLike) -> Result:
        return bind(primitive, *operands(name, x))

    def accurate(x: ArrayLike, *, accuracy: Any = None) -> Result:
        check_accuracy(name, accuracy)
        return bind(primitive, *operands(name, x))

    def binary(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(primitive, *spread(operands(name, x, y)))

    function = binary if arity == 2 else accurate if name in _ACCURATE else plain
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Primitive `{primitive.name}`: {type(primitive).__doc__}"
    return function


add = _named("add", Add(), 2)
sub = _named("sub", Sub(), 2)
_product = _named("mul", Mul(), 2)
max = _named("max", Maximum(), 2)
min = _named("min", Minimum(), 2)
neg = _named("neg", Neg(), 1)
abs = _named("abs", Abs(), 1)
sign = _named("sign", Sign(), 1)
floor = _named("floor", Floor(), 1)
ceil = _named("ceil", Ceil(), 1)
sqrt = _named("sqrt", Sqrt(), 1)
cbrt = _named("cbrt", Cbrt(), 1)
exp = _named("exp", Exp(), 1)
exp2 = _named("exp2", Exp2(), 1)
expm1 = _named("expm1", Expm1(), 1)
log = _named("log", Log(), 1)
log1p = _named("log1p", Log1p(), 1)
sin = _named("sin", Sin(), 1)
cos = _named("cos", Cos(), 1)
tan = _named("tan", Tan(), 1)
asin = _named("asin", Asin(), 1)
acos = _named("acos", Acos(), 1)
atan = _named("atan", Atan(), 1)
atan2 = _named("atan2", Atan2(), 2)
acosh = _named("acosh", Acosh(), 1)
asinh = _named("asinh", Asinh(), 1)
atanh = _named("atanh", Atanh(), 1)
nextafter = _named("nextafter", NextAfter(), 2)
sinh = _named("sinh", Sinh(), 1)
cosh = _named("cosh", Cosh(), 1)
tanh = _named("tanh", Tanh(), 1)
erf = _named("erf", Erf(), 1)
eq = _named("eq", Eq(), 2)
ne = _named("ne", Ne(), 2)
lt = _named("lt", Lt(), 2)
le = _named("le", Le(), 2)
gt = _named("gt", Gt(), 2)
ge = _named("ge", Ge(), 2)
is_finite = _named("is_finite", IsFinite(), 1)
bitwise_and = _named("bitwise_and", And(), 2)
bitwise_or = _named("bitwise_or", Or(), 2)
bitwise_xor = _named("bitwise_xor", Xor(), 2)
bitwise_not = _named("bitwise_not", Not(), 1)
shift_left = _named("shift_left", ShiftLeft(), 2)
_shift_right = _named("shift_right", ShiftRight(), 2)
_power = _named("pow", Power(), 2)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike = None) -> Result:
    """x * y; with out_dtype computed in that, to which both are converted first.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.mul(np.array([100], np.int8), np.array([3], np.int8), out_dtype=np.int32)
    array([300], dtype=int32)
    """
    if out_dtype is None:
        return _product(x, y)
    return _product(*[elementwise.convert(a, canonical(out_dtype)) for a in operands("mul", x, y)])


def pow(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y; y may be an array of integers beside x of floating point."""
    base, exponent = array(x), array(y)
    if aval(base).dtype.kind == "f" and aval(exponent).dtype.kind in "iu" and not aval(exponent).weak:
        y = elementwise.convert(exponent, aval(base).dtype)
    return _power(x, y)


def div(x: ArrayLike, y: ArrayLike) -> Result:
    """x / y; integers are divided towards zero, by zero gives 0."""
    a, b = spread(operands("div", x, y))
    if aval(a).dtype.kind in "fc":
        return bind(Div(), a, b)
    quotient, rest = bind(FloorDivide(), a, b), bind(Remainder(), a, b)
    one, zero = _scalar(a, 1), _scalar(a, 0)
    apart = ne(lt(a, zero), lt(b, zero))
    return add(quotient, elementwise.select(bitwise_and(apart, ne(rest, zero)), one, zero))


def rem(x: ArrayLike, y: ArrayLike) -> Result:
    """What is left of x after division towards zero, with the sign of x.   Source: C's fmod and %."""
    a, b = spread(operands("rem", x, y))
    if aval(a).dtype.kind in "bu":
        return bind(Remainder(), a, b)
    zero = _scalar(a, 0)
    # Among numbers that are not positive the quotient is not negative: floor is truncation.
    # (-|x| exists for the least integer, |x| does not.)
    low, divisor = elementwise.select(gt(a, zero), neg(a), a), elementwise.select(gt(b, zero), neg(b), b)
    rest = bind(Remainder(), low, divisor)
    return elementwise.select(lt(a, zero), rest, neg(rest))


def _scalar(x: ArrayLike, value: ArrayLike) -> Result:
    return aval(x).dtype.type(value)


def integer_pow(x: ArrayLike, y: int) -> Result:
    """x to a constant integer power, by repeated squaring.

    Raises: DtypeError for a negative power of an integer.
    """
    (base,) = operands("integer_pow", x)
    if y < 0 and aval(base).dtype.kind not in "fc":
        raise DtypeError(
            "[integer_pow] an integer has no negative power; convert it to a floating-point type",
            location=user_location(),
        )
    left, result = int(y) if y >= 0 else -int(y), None
    square_of = base
    while left:
        if left & 1:
            result = square_of if result is None else mul(result, square_of)
        left >>= 1
        square_of = mul(square_of, square_of) if left else square_of
    if result is None:
        from tracejit.primitives.creation import full

        return full(aval(base).shape, _scalar(base, 1))
    return reciprocal(result) if y < 0 else result


def square(x: ArrayLike) -> Result:
    """x * x"""
    (a,) = operands("square", x)
    return mul(a, a)


def reciprocal(x: ArrayLike) -> Result:
    """1 / x"""
    (a,) = operands("reciprocal", x)
    return bind(Div(), _scalar(a, 1), a)


def rsqrt(x: ArrayLike, *, accuracy: Any = None) -> Result:
    """1 / sqrt(x)"""
    check_accuracy("rsqrt", accuracy)
    return reciprocal(sqrt(x))


def logistic(x: ArrayLike, *, accuracy: Any = None) -> Result:
    """1 / (1 + exp(-x))"""
    check_accuracy("logistic", accuracy)
    (a,) = operands("logistic", x)
    return reciprocal(add(_scalar(a, 1), exp(neg(a))))


def round(x: ArrayLike, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Result:
    """Rounded to an integer: halves away from zero (RoundingMethod 0), or to even (1).

    Raises: ValueError for another method.
    """
    (a,) = operands("round", x)
    if RoundingMethod(rounding_method) == RoundingMethod.TO_NEAREST_EVEN:
        return bind(Rint(), a)
    # The half is added in magnitude; from 2**52 (or its like) on every number is an integer already.
    whole = bind(Trunc(), a)
    far = ge(abs(sub(a, whole)), _scalar(a, 0.5))
    return elementwise.select(far, add(whole, sign(a)), whole)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Result:
    """x shifted right; the sign fills the left."""
    a, b = operands("shift_right_arithmetic", x, y)
    if aval(a).dtype.kind != "u":
        return _shift_right(a, b)
    signed = np.dtype(f"i{aval(a).dtype.itemsize}")
    return elementwise.convert(
        _shift_right(elementwise.convert(a, signed), elementwise.convert(b, signed)), aval(a).dtype
    )


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Result:
    """x shifted right; zeros fill the left."""
    a, b = operands("shift_right_logical", x, y)
    if aval(a).dtype.kind == "u":
        return _shift_right(a, b)
    unsigned = np.dtype(f"u{aval(a).dtype.itemsize}")
    return elementwise.convert(
        _shift_right(elementwise.convert(a, unsigned), elementwise.convert(b, unsigned)), aval(a).dtype
    )


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Result:
    """operand as another dtype; as an integer NaN is 0.   Source: jax.lax.convert_element_type."""
    x, dtype = array(operand), canonical(new_dtype)
    if dtype.kind in "iu" and aval(x).dtype.kind in "fc":
        x = complex_numbers.real(x)
        x = elementwise.select(ne(x, x), _scalar(x, 0), x)
    return elementwise.convert(x, dtype)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Result:
    """on_true where pred else on_false."""
    return elementwise.select(array(pred), *operands("select", on_true, on_false))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Result:
    """For each element the case of that number (bool: 0 or 1); numbers outside take the nearest case."""
    if not cases:
        raise reject("[select_n] needs at least one case")
    index, options = array(which), operands("select_n", *cases)
    if aval(index).dtype == np.bool_:
        if len(options) > 2:
            raise reject("[select_n] a bool chooses between at most two cases")
        return options[0] if len(options) == 1 else elementwise.select(index, options[1], options[0])
    out = options[-1]
    for n in reversed(range(len(options) - 1)):
        out = elementwise.select(le(index, _scalar(index, n)), options[n], out)
    return out


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Result:
    """x limited to [min, max]."""
    low, a, high = operands("clamp", min, x, max)
    return bind(Minimum(), bind(Maximum(), a, low), high)
