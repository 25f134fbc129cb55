"""Elementwise operations: operands of one dtype, and of one rank or rank 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.lax.operands import array, aval, operands, reject, spread
from tracejit.primitives import elementwise as p
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "abs", "acos", "add", "asin", "atan", "atan2", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt",
    "ceil", "clamp", "convert_element_type", "cos", "cosh", "div", "eq", "erf", "exp", "exp2", "expm1", "floor", "ge",
    "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "pow",
    "reciprocal", "rem", "round", "rsqrt", "select", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh",
]  # fmt: skip


def _named(name: str, primitive: p.Elementwise, arity: int) -> Callable[..., Any]:
    def unary(x: ArrayLike) -> Result:
        return bind(primitive, *operands(name, x))

    def binary(x: ArrayLike, y: ArrayLike) -> Result:
        return bind(primitive, *spread(operands(name, x, y)))

    function = unary if arity == 1 else binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Primitive `{primitive.name}`: {type(primitive).__doc__}"
    return function


add = _named("add", p.Add(), 2)
sub = _named("sub", p.Sub(), 2)
mul = _named("mul", p.Mul(), 2)
max = _named("max", p.Maximum(), 2)
min = _named("min", p.Minimum(), 2)
neg = _named("neg", p.Neg(), 1)
abs = _named("abs", p.Abs(), 1)
sign = _named("sign", p.Sign(), 1)
floor = _named("floor", p.Floor(), 1)
ceil = _named("ceil", p.Ceil(), 1)
sqrt = _named("sqrt", p.Sqrt(), 1)
cbrt = _named("cbrt", p.Cbrt(), 1)
exp = _named("exp", p.Exp(), 1)
exp2 = _named("exp2", p.Exp2(), 1)
expm1 = _named("expm1", p.Expm1(), 1)
log = _named("log", p.Log(), 1)
log1p = _named("log1p", p.Log1p(), 1)
sin = _named("sin", p.Sin(), 1)
cos = _named("cos", p.Cos(), 1)
tan = _named("tan", p.Tan(), 1)
asin = _named("asin", p.Asin(), 1)
acos = _named("acos", p.Acos(), 1)
atan = _named("atan", p.Atan(), 1)
atan2 = _named("atan2", p.Atan2(), 2)
sinh = _named("sinh", p.Sinh(), 1)
cosh = _named("cosh", p.Cosh(), 1)
tanh = _named("tanh", p.Tanh(), 1)
erf = _named("erf", p.Erf(), 1)
eq = _named("eq", p.Eq(), 2)
ne = _named("ne", p.Ne(), 2)
lt = _named("lt", p.Lt(), 2)
le = _named("le", p.Le(), 2)
gt = _named("gt", p.Gt(), 2)
ge = _named("ge", p.Ge(), 2)
is_finite = _named("is_finite", p.IsFinite(), 1)
bitwise_and = _named("bitwise_and", p.And(), 2)
bitwise_or = _named("bitwise_or", p.Or(), 2)
bitwise_xor = _named("bitwise_xor", p.Xor(), 2)
bitwise_not = _named("bitwise_not", p.Not(), 1)
shift_left = _named("shift_left", p.ShiftLeft(), 2)
_shift_right = _named("shift_right", p.ShiftRight(), 2)
_power = _named("pow", p.Power(), 2)


def pow(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y."""
    return _power(x, y)


def div(x: ArrayLike, y: ArrayLike) -> Result:
    """x / y; integers are divided towards zero, by zero gives 0."""
    a, b = spread(operands("div", x, y))
    if aval(a).dtype.kind == "f":
        return bind(p.Div(), a, b)
    quotient, rest = bind(p.FloorDivide(), a, b), bind(p.Remainder(), a, b)
    one, zero = _scalar(a, 1), _scalar(a, 0)
    apart = ne(lt(a, zero), lt(b, zero))
    return add(quotient, p.select(bitwise_and(apart, ne(rest, zero)), one, zero))


def rem(x: ArrayLike, y: ArrayLike) -> Result:
    """What is left of x after division towards zero, with the sign of x.   Source: C's fmod and %."""
    a, b = spread(operands("rem", x, y))
    if aval(a).dtype.kind in "bu":
        return bind(p.Remainder(), a, b)
    zero = _scalar(a, 0)
    # Among numbers that are not positive the quotient is not negative: floor is truncation.
    # (-|x| exists for the least integer, |x| does not.)
    low, divisor = p.select(gt(a, zero), neg(a), a), p.select(gt(b, zero), neg(b), b)
    rest = bind(p.Remainder(), low, divisor)
    return p.select(lt(a, zero), rest, neg(rest))


def _scalar(x: ArrayLike, value: ArrayLike) -> Result:
    return aval(x).dtype.type(value)


def integer_pow(x: ArrayLike, y: int) -> Result:
    """x to a constant integer power, by repeated squaring.

    Raises: DtypeError for a negative power of an integer.
    """
    (base,) = operands("integer_pow", x)
    if y < 0 and aval(base).dtype.kind != "f":
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
    return bind(p.Div(), _scalar(a, 1), a)


def rsqrt(x: ArrayLike) -> Result:
    """1 / sqrt(x)"""
    return reciprocal(sqrt(x))


def logistic(x: ArrayLike) -> Result:
    """1 / (1 + exp(-x))"""
    (a,) = operands("logistic", x)
    return reciprocal(add(_scalar(a, 1), exp(neg(a))))


def round(x: ArrayLike, rounding_method: int = 0) -> Result:
    """Rounded to an integer: halves away from zero (0), or to even (1)."""
    (a,) = operands("round", x)
    if rounding_method == 1:
        return bind(p.Rint(), a)
    # The half is added in magnitude; from 2**52 (or its like) on every number is an integer already.
    whole = bind(p.Trunc(), a)
    far = ge(abs(sub(a, whole)), _scalar(a, 0.5))
    return p.select(far, add(whole, sign(a)), whole)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Result:
    """x shifted right; the sign fills the left."""
    a, b = operands("shift_right_arithmetic", x, y)
    if aval(a).dtype.kind != "u":
        return _shift_right(a, b)
    signed = np.dtype(f"i{aval(a).dtype.itemsize}")
    return p.convert(_shift_right(p.convert(a, signed), p.convert(b, signed)), aval(a).dtype)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Result:
    """x shifted right; zeros fill the left."""
    a, b = operands("shift_right_logical", x, y)
    if aval(a).dtype.kind == "u":
        return _shift_right(a, b)
    unsigned = np.dtype(f"u{aval(a).dtype.itemsize}")
    return p.convert(_shift_right(p.convert(a, unsigned), p.convert(b, unsigned)), aval(a).dtype)


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Result:
    """operand as another dtype."""
    return p.convert(array(operand), canonical(new_dtype))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Result:
    """on_true where pred else on_false."""
    return p.select(array(pred), *operands("select", on_true, on_false))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Result:
    """For each element the case of that number (bool: 0 or 1); numbers outside take the nearest case."""
    if not cases:
        raise reject("[select_n] needs at least one case")
    index, options = array(which), operands("select_n", *cases)
    if aval(index).dtype == np.bool_:
        if len(options) > 2:
            raise reject("[select_n] a bool chooses between at most two cases")
        return options[0] if len(options) == 1 else p.select(index, options[1], options[0])
    out = options[-1]
    for n in reversed(range(len(options) - 1)):
        out = p.select(le(index, _scalar(index, n)), options[n], out)
    return out


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Result:
    """x limited to [min, max]."""
    low, a, high = operands("clamp", min, x, max)
    return bind(p.Minimum(), bind(p.Maximum(), a, low), high)
