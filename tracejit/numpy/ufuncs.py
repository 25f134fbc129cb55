"""NumPy's ufuncs: promotion, then one primitive (or a few)."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import surely_at_most
from tracejit.ir.ranges import ANYTHING
from tracejit.numpy.number_checks import check_exponent
from tracejit.numpy.promotion import as_array, aval, broadcast, promote, to_dtype, wrapped_to_dtype
from tracejit.primitives import elementwise
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
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.tables import UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "abs", "absolute", "add", "arccos", "arcsin", "arctan", "arctan2", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil", "copysign", "cos", "cosh",
    "deg2rad", "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "floor", "floor_divide", "fmax", "fmin",
    "greater", "greater_equal", "heaviside", "hypot", "invert", "isfinite", "isinf", "isnan", "left_shift", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "positive", "power", "rad2deg",
    "reciprocal", "remainder", "right_shift", "rint", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan",
    "tanh", "true_divide", "trunc", "unchanged",
]  # fmt: skip


def floating_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype a floating-point ufunc computes in: NumPy's table for integers."""
    if dtype.kind == "f":
        return dtype
    return np.dtype(np.float16 if dtype.itemsize == 1 else (np.float32 if dtype.itemsize == 2 else np.float64))


def floats(*xs: ArrayLike) -> list[Result]:
    """Operands in the first of float16, float32 and float64 that holds all of them,
    as NumPy looks for a loop of such a ufunc.

    It is not the dtype of their sum: int16 and uint16 both fit float32, but only int32 holds them as integers.
    """
    arrays = [as_array(x) for x in xs]
    avals = [aval(x) for x in arrays]
    strong = [a.dtype for a in avals if not a.weak]
    if strong:  # a Python number counts only if it is of a higher kind than the arrays
        order = {"b": 0, "i": 1, "u": 1, "f": 2}
        highest = builtins.max(order[d.kind] for d in strong)
        strong += [a.dtype for a in avals if a.weak and order[a.dtype.kind] > highest]
    return promote(*arrays, to=np.result_type(*[floating_dtype(d) for d in strong or [a.dtype for a in avals]]))


def _divide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def _number(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.int8) if dtype.kind == "b" else dtype


def _checked(kwargs: dict[str, Any], name: str) -> tuple[Result, Result]:
    """(where, dtype) of the keywords every ufunc has.  Raises UnsupportedError for others."""
    where, dtype = kwargs.pop("where", True), kwargs.pop("dtype", None)
    kwargs.pop("casting", None)
    out = kwargs.pop("out", None)
    if kwargs or out is not None:
        raise UnsupportedError(f"np.{name} does not take {', '.join(kwargs) or 'out'} here", location=user_location())
    return where, dtype


_LEAST = {"b": np.bool_, "i": np.int8, "f": np.float16}


def _refuse_conversions(name: str, dtype: DTypeLike, *xs: ArrayLike) -> None:
    """Raises: DtypeError for an operand that is not converted to the dtype asked for (dtype=) by the rule
    "same_kind".
    """
    if dtype is None:
        return
    for have in [aval(as_array(x)) for x in xs]:
        if have.weak and have.dtype.kind == "i" and np.dtype(dtype).kind == "u":
            continue  # a Python integer is checked by its value
        if not np.can_cast(_LEAST.get(have.dtype.kind, have.dtype) if have.weak else have.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"np.{name} with dtype={canonical(dtype)} does not convert {have}; convert it first",
                location=user_location(),
            )


def _ufunc(
    name: str, primitive: Elementwise, arity: int, convert: Callable[[Any], Any] | None = None
) -> Callable[..., Any]:
    if arity == 1:

        def unary(x: ArrayLike, /, **kwargs: Any) -> Result:
            where, dtype = _checked(kwargs, name) if kwargs else (True, None)
            if where is not True:
                raise UnsupportedError(f"np.{name} with where= needs out=", location=user_location())
            _refuse_conversions(name, dtype, x)
            return bind(primitive, *promote(x, to=dtype or convert))

        function: Callable[..., Any] = unary
    else:

        def binary(x: ArrayLike, y: ArrayLike, /, **kwargs: Any) -> Result:
            where, dtype = _checked(kwargs, name) if kwargs else (True, None)
            if where is not True:
                raise UnsupportedError(f"np.{name} with where= needs out=", location=user_location())
            if convert is floats and dtype is None:
                return bind(primitive, *floats(x, y))
            _refuse_conversions(name, dtype, x, y)
            return bind(primitive, *promote(x, y, to=dtype or convert))

        function = binary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} for traced and eager arrays.\n\n    Source: {type(primitive).__doc__}"
    ufunc = getattr(np, name, None)
    if ufunc is not None:
        UFUNCS[ufunc] = function
    return function


def _comparison(name: str, primitive: Elementwise) -> Callable[..., Any]:
    """A comparison.  Integers are compared as the numbers they are, whatever their dtypes, as NumPy does."""
    plain, of_numbers = _ufunc(name, primitive, 2), getattr(np, name)
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
    UFUNCS[getattr(np, name)] = compare
    return compare


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


add = _ufunc("add", Add(), 2)
subtract = _ufunc("subtract", Sub(), 2)
multiply = _ufunc("multiply", Mul(), 2)
divide = true_divide = _ufunc("divide", Div(), 2, _divide_dtype)
floor_divide = _ufunc("floor_divide", FloorDivide(), 2, _number)
remainder = mod = _ufunc("remainder", Remainder(), 2, _number)
negative = _ufunc("negative", Neg(), 1)
absolute = abs = _ufunc("absolute", Abs(), 1)
sign = _ufunc("sign", Sign(), 1)
maximum = _ufunc("maximum", Maximum(), 2)
minimum = _ufunc("minimum", Minimum(), 2)
arctan2 = _ufunc("arctan2", Atan2(), 2, floats)
bitwise_and = _ufunc("bitwise_and", And(), 2)
bitwise_or = _ufunc("bitwise_or", Or(), 2)
bitwise_xor = _ufunc("bitwise_xor", Xor(), 2)
invert = bitwise_invert = _ufunc("invert", Not(), 1)
left_shift = bitwise_left_shift = _ufunc("left_shift", ShiftLeft(), 2, _number)
right_shift = bitwise_right_shift = _ufunc("right_shift", ShiftRight(), 2, _number)
equal = _comparison("equal", Eq())
not_equal = _comparison("not_equal", Ne())
less = _comparison("less", Lt())
less_equal = _comparison("less_equal", Le())
greater = _comparison("greater", Gt())
greater_equal = _comparison("greater_equal", Ge())
sqrt = _ufunc("sqrt", Sqrt(), 1, floating_dtype)
cbrt = _ufunc("cbrt", Cbrt(), 1, floating_dtype)
exp = _ufunc("exp", Exp(), 1, floating_dtype)
exp2 = _ufunc("exp2", Exp2(), 1, floating_dtype)
expm1 = _ufunc("expm1", Expm1(), 1, floating_dtype)
log = _ufunc("log", Log(), 1, floating_dtype)
log2 = _ufunc("log2", Log2(), 1, floating_dtype)
log10 = _ufunc("log10", Log10(), 1, floating_dtype)
log1p = _ufunc("log1p", Log1p(), 1, floating_dtype)
sin = _ufunc("sin", Sin(), 1, floating_dtype)
cos = _ufunc("cos", Cos(), 1, floating_dtype)
tan = _ufunc("tan", Tan(), 1, floating_dtype)
arcsin = _ufunc("arcsin", Asin(), 1, floating_dtype)
arccos = _ufunc("arccos", Acos(), 1, floating_dtype)
arctan = _ufunc("arctan", Atan(), 1, floating_dtype)
sinh = _ufunc("sinh", Sinh(), 1, floating_dtype)
cosh = _ufunc("cosh", Cosh(), 1, floating_dtype)
tanh = _ufunc("tanh", Tanh(), 1, floating_dtype)


def _composed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function made of others under NumPy's ufunc of this name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: ArrayLike, **kwargs: Any) -> Result:
            if kwargs:
                where, dtype = _checked(kwargs, name)
                if where is not True or dtype is not None:
                    raise UnsupportedError(f"np.{name} takes no where= or dtype= here", location=user_location())
            return function(*args)

        run.__name__ = run.__qualname__ = name
        run.__doc__ = function.__doc__
        UFUNCS[getattr(np, name)] = run
        return run

    return register


def _rounding(name: str, primitive: Elementwise) -> Callable[..., Any]:
    def function(x: ArrayLike) -> Result:
        x = as_array(x)
        return bind(primitive, *promote(x)) if aval(x).dtype.kind == "f" else unchanged(x)

    function.__doc__ = f"numpy.{name}: integers stay as they are."
    return _composed(name)(function)


floor = _rounding("floor", Floor())
ceil = _rounding("ceil", Ceil())
trunc = _rounding("trunc", Trunc())
rint = _ufunc("rint", Rint(), 1, floating_dtype)


@_composed("positive")
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


@_composed("square")
def square(x: ArrayLike) -> Result:
    """x * x; of bool in int8"""
    (y,) = promote(x, to=_number)
    return multiply(y, y)


@_composed("reciprocal")
def reciprocal(x: ArrayLike) -> Result:
    """1 / x in x's own dtype, of integers without the fraction."""
    (y,) = promote(x, to=_number)
    dtype = aval(y).dtype
    if dtype.kind == "i":
        return elementwise.convert(divide(1.0, elementwise.convert(y, np.float64)), dtype)
    return divide(dtype.type(1), y) if dtype.kind == "f" else floor_divide(dtype.type(1), y)


@_composed("power")
def power(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y.  Small constant exponents become multiplications, as NumPy's own fast paths.

    Raises: NegativePower for an integer to a negative integer; where that depends on values, the program does.
    """
    return _power(x, y, roots=aval(as_array(x)).dtype != np.float16)


def _power(x: ArrayLike, y: ArrayLike, roots: bool) -> Result:
    """x ** y; `roots`: x ** 0.5 is a square root, which differs at -0.0 and -inf."""
    kind = aval(as_array(x)).dtype.kind
    if isinstance(y, Tracer) and y.aval.weak and y.dtype.kind == "f" and roots:
        return _power_of_number(x, y)
    if type(y) is float and kind in "iu" and y in (0.5, 1.0, 2.0):
        x, kind = to_dtype(x, np.float64), "f"
    if (type(y) in (int, float) and kind == "f") or (type(y) is int and y >= 0 and kind != "b"):
        (base,) = promote(x)
        simple = _small_power(base, y) if roots or y != 0.5 else None
        if simple is not None:
            return simple
    a, b = promote(x, y, to=_number)
    _ask_for_sign(x, y)
    if aval(a).dtype.kind == "i" and not any(isinstance(n, int) and n == 0 for n in aval(a).shape):
        check_exponent(b)
    return bind(Power(), a, b)


def _power_of_number(x: ArrayLike, y: Tracer) -> Result:
    """x ** y for a Python number that is not known while tracing, and may be 0.5."""
    a, b = promote(x, y, to=_number)
    found = bind(Power(), a, b)
    if aval(found).dtype.kind != "f":
        return found
    root = where(equal(a, 0), a, np.nan)
    return where(logical_and(equal(y, 0.5), less_equal(a, 0)), root, found)


def _power_operator(x: ArrayLike, y: ArrayLike) -> Result:
    """x ** y, with a few short ways more than np.power has."""
    have = aval(as_array(x))
    of_bools = have.dtype.kind == "b" and not (x.is_scalar if isinstance(x, Tracer) else isinstance(x, np.generic))
    if of_bools and isinstance(y, Tracer) and y.aval.weak and y.dtype.kind == "i":
        y.ask()  # of an array of bools a square is an int8, another power an int64; of a scalar both are
    if of_bools and type(y) is int and y == 2:
        return square(x)
    scalar = x.is_scalar if isinstance(x, Tracer) else not isinstance(x, np.ndarray)
    if scalar and type(y) is float and y == 0.5 and (have.dtype == np.float32 or have.dtype == np.float64):
        return where(equal(x, -np.inf), np.inf, add(sqrt(x), 0.0))  # as C's pow has it; of arrays it is the square root
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
        return multiply(x, x)
    if n == 1:
        return unchanged(x)
    if n == 0.5 and kind == "f":
        return sqrt(x)
    if n == -1 and kind == "f":
        return reciprocal(x)
    if n == 3:
        return multiply(multiply(x, x), x)
    if n == 4 and kind in "iu":
        return square(square(x))
    return None


def _truth(x: ArrayLike) -> Result:
    """x != 0 as bool."""
    x = as_array(x)
    return x if aval(x).dtype == np.bool_ else not_equal(x, 0)


@_composed("logical_and")
def logical_and(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether both are nonzero."""
    return bitwise_and(_truth(x), _truth(y))


@_composed("logical_or")
def logical_or(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether one is nonzero."""
    return bitwise_or(_truth(x), _truth(y))


@_composed("logical_xor")
def logical_xor(x: ArrayLike, y: ArrayLike) -> Result:
    """Whether exactly one is nonzero."""
    return bitwise_xor(_truth(x), _truth(y))


@_composed("logical_not")
def logical_not(x: ArrayLike) -> Result:
    """Whether x is zero."""
    return invert(_truth(x))


@_composed("isnan")
def isnan(x: ArrayLike) -> Result:
    """Whether x is NaN."""
    return not_equal(x, x)


@_composed("isfinite")
def isfinite(x: ArrayLike) -> Result:
    """Neither infinite nor NaN."""
    (y,) = promote(x)
    return bind(IsFinite(), y) if aval(y).dtype.kind == "f" else equal(y, y)


@_composed("isinf")
def isinf(x: ArrayLike) -> Result:
    """Whether x is infinite."""
    (y,) = promote(x)
    return equal(absolute(y), np.inf) if aval(y).dtype.kind == "f" else not_equal(y, y)


@_composed("fabs")
def fabs(x: ArrayLike) -> Result:
    """|x| in floating point."""
    return absolute(*promote(x, to=floating_dtype))


@_composed("hypot")
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


@_composed("copysign")
def copysign(x: ArrayLike, y: ArrayLike) -> Result:
    """|x| with the sign of y."""
    a, b = floats(x, y)
    negative_zero = logical_and(equal(b, 0), less(divide(1, b), 0))
    return where(logical_or(less(b, 0), negative_zero), negative(absolute(a)), absolute(a))


@_composed("fmax")
def fmax(x: ArrayLike, y: ArrayLike) -> Result:
    """The greater one; a NaN only if both are."""
    a, b = promote(x, y)
    return where(isnan(a), b, where(isnan(b), a, maximum(a, b)))


@_composed("fmin")
def fmin(x: ArrayLike, y: ArrayLike) -> Result:
    """The lesser one; a NaN only if both are."""
    a, b = promote(x, y)
    return where(isnan(a), b, where(isnan(b), a, minimum(a, b)))


@_composed("heaviside")
def heaviside(x: ArrayLike, y: ArrayLike) -> Result:
    """0 below zero, y at zero, 1 above."""
    a, b = floats(x, y)
    return where(isnan(a), a, where(less(a, 0), 0, where(greater(a, 0), 1, b)))


@_composed("logaddexp")
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


@_composed("deg2rad")
def deg2rad(x: ArrayLike) -> Result:
    """Degrees to radians."""
    return multiply(*promote(x, to=floating_dtype), np.pi / 180)


@_composed("rad2deg")
def rad2deg(x: ArrayLike) -> Result:
    """Radians to degrees."""
    return multiply(*promote(x, to=floating_dtype), 180 / np.pi)


UFUNCS[np.radians] = deg2rad
UFUNCS[np.degrees] = rad2deg


@_composed("divmod")
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Result, Result]:
    """(floor quotient, remainder)"""
    return floor_divide(x, y), remainder(x, y)


def where(
    condition: ArrayLike, x: ArrayLike, y: ArrayLike, convert_with: Callable[[Any, Any], Any] = wrapped_to_dtype
) -> Result:
    """x where condition else y, with NumPy's promotion of x and y.  convert_with:
    what makes a Python integer fit the dtype.
    """
    test = _truth(condition)
    if not hasattr(test, "dtype"):
        test = np.bool_(test)
    a, b = promote(x, y, convert_with=convert_with)
    test, a, b = broadcast([test, a, b], [aval(test).shape, aval(a).shape, aval(b).shape])
    return elementwise.select(test, a, b)


ARITHMETIC.update({
    "add": add, "sub": subtract, "mul": multiply, "truediv": divide, "floordiv": floor_divide, "mod": remainder,
    "pow": _power_operator, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "lshift": left_shift,
    "rshift": right_shift, "divmod": divmod, "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater,
    "ge": greater_equal, "neg": negative, "pos": positive, "abs": absolute, "invert": invert,
})  # fmt: skip
OPERATORS.select, OPERATORS.max, OPERATORS.min = elementwise.select, maximum, minimum
OPERATORS.raw_add, OPERATORS.raw_sub, OPERATORS.raw_div = elementwise.add, elementwise.sub, elementwise.div
