"""Elementwise primitives.  Operands have one shape, or rank 0; dtypes are already promoted.

A class states NumPy's function (`impl`), the scalar expression (`scalar`) and the partial derivatives (`partials`);
everything else is inherited from `Elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import is_float, kernel_dtype
from tracejit.ir.types import Extent, ShapedArray
from tracejit.support.dtypes import canonical, short_name
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.nodes import field, frozen
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.batch import align_batched
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import UndefinedPrimal, shape_of, sum_to

__all__ = ["Elementwise", "convert", "select"]

_PARENTHESES = "; comparisons joined by &, | and ~ need parentheses: (x > 0) & (x < 1)"
_INSTEAD = {
    ("neg", "b"): "; use ~ for boolean arrays", ("sub", "b"): "; use ^ for boolean arrays",
    **{(name, "f"): _PARENTHESES for name in ("and", "or", "xor", "not")},
}  # fmt: skip
"""What to write instead, by operation and kind of dtype."""


class Elementwise(Primitive):
    """`result[i] = scalar(x[i], y[i], ...)`."""

    numpy_function: ClassVar[Callable[..., Any]]
    op: ClassVar[str] = ""
    kinds: ClassVar[str] = "biuf"  # dtype kinds accepted
    same_dtype: ClassVar[bool] = True

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return avals[0].dtype

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        first = avals[0]
        # dtypes of abstract values are canonical
        if self.same_dtype and any([a.dtype is not first.dtype for a in avals]):
            raise DtypeError(
                f"[{self.name}] operands differ in dtype: {', '.join(map(str, avals))}; convert them first "
                "(x.astype(...))"
            )
        for a in avals:
            if a.dtype.kind not in self.kinds:
                advice = _INSTEAD.get((self.name, a.dtype.kind), "")
                raise DtypeError(f"[{self.name}] does not accept {short_name(a.dtype)}{advice}")
        shape = first.shape
        for a in avals[1:]:
            if not shape:
                shape = a.shape
            elif a.shape and a.shape is not shape and a.shape != shape:
                raise ShapeError(f"[{self.name}] operands differ in shape: {', '.join(map(str, avals))}")
        dtype, weak = self.result_dtype(*avals), all([a.weak for a in avals])
        for a in avals:  # an operand's abstract value, if it fits, is one object less
            if a.shape is shape and a.dtype is dtype and a.weak is weak:
                return a
        return ShapedArray(shape, dtype, weak)

    def impl(self, *args: ArrayLike) -> Result:
        with np.errstate(all="ignore"):
            return type(self).numpy_function(*args)

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        """The scalar expression; `b.op(name, ...)` and `b.const(value, dtype)` record it."""
        return b.op(self.op, *xs)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        domain = b.out_avals[0].shape
        return b.map(domain, lambda i: self.scalar(b, *[x[i] if x.aval.shape else x[()] for x in operands]))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Callable[[], Any] | None]:
        """For each operand a function that gives d out / d operand, or None where it is zero everywhere."""
        raise self._missing("partials")

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        total: Any = None
        if any(t is not None for t in tangents):
            for t, partial in zip(tangents, self.partials(out, *primals), strict=True):
                if t is None or partial is None:
                    continue
                term = t if partial is _One else (neg(t) if partial is _MinusOne else mul(t, partial()))
                total = term if total is None else add(total, term)
        return out, _fill(total, out)

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, int]:
        return bind(self, *align_batched(args, dims)), 0


class _One:
    """d out / d x = 1: the tangent passes."""


class _MinusOne:
    """d out / d x = -1."""


def _fill(tangent: ArrayLike, like: Any) -> Result:
    """A tangent of rank 0 spread to the result's shape."""
    if tangent is None:
        return None
    shape = shape_of(like)
    if shape_of(tangent) == shape:
        return tangent
    from tracejit.primitives.shape import broadcast_in_dim

    return broadcast_in_dim(tangent, shape, ())


class Floating(Elementwise):
    """A function of floating-point operands."""

    kinds = "f"


# -- arithmetic --------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Add(Elementwise):
    """x + y; wraps around for integers, `or` for bool."""

    name = "add"
    numpy_function = np.add

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return b.op("or" if xs[0].dtype == "bool" else "add", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (_One, _One)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [sum_to(ct, a.aval) if isinstance(a, UndefinedPrimal) else None for a in args]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.total(*ranges)


@frozen(eq=False)
class Sub(Elementwise):
    """x - y; wraps around for integers."""

    name = "sub"
    numpy_function = np.subtract
    op = "sub"
    kinds = "iuf"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (_One, _MinusOne)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        return [
            sum_to(ct, x.aval) if isinstance(x, UndefinedPrimal) else None,
            sum_to(neg(ct), y.aval) if isinstance(y, UndefinedPrimal) else None,
        ]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.difference(*ranges)


@frozen(eq=False)
class Mul(Elementwise):
    """x * y; wraps around for integers, `and` for bool."""

    name = "mul"
    numpy_function = np.multiply

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return b.op("and" if xs[0].dtype == "bool" else "mul", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: xs[1], lambda: xs[0])

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        if isinstance(x, UndefinedPrimal):
            return [sum_to(mul(ct, y), x.aval), None]
        return [None, sum_to(mul(x, ct), y.aval)]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.product(*ranges)


@frozen(eq=False)
class Div(Floating):
    """x / y in floating point."""

    name = "div"
    numpy_function = np.divide
    op = "div"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(xs[1]), xs[1]), lambda: neg(div(out, xs[1])))

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        x, y = args
        return [sum_to(div(ct, y), x.aval), None]


@frozen(eq=False)
class FloorDivide(Elementwise):
    """The quotient rounded down; for integers 0 where y is 0, as NumPy."""

    name = "floor_divide"
    numpy_function = np.floor_divide
    kinds = "iuf"

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return _floor_division(b, *xs)[0]

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (None, None)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.quotient(*ranges)


@frozen(eq=False)
class Remainder(Elementwise):
    """The remainder with the sign of the divisor; for integers 0 where y is 0, as NumPy."""

    name = "remainder"
    numpy_function = np.remainder
    kinds = "iuf"

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return _floor_division(b, *xs)[1]

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (_One, lambda: neg(bind(FloorDivide(), *xs)))

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.remainder(ranges[1])


def _floor_division(b: ArrayLike, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """(floor quotient, remainder) with the divisor's sign.  Source: NumPy's npy_divmod and its integer loops."""
    dtype = x.dtype
    if dtype == "f16":  # rounded once
        q, r = _floor_division(b, b.op("convert", x, dtype="f32"), b.op("convert", y, dtype="f32"))
        return b.op("convert", q, dtype=dtype), b.op("convert", r, dtype=dtype)
    zero, one = b.const(0, dtype), b.const(1, dtype)
    if not is_float(dtype):
        q, r = b.op("idiv", x, y), b.op("irem", x, y)
        if dtype[0] == "u":
            return q, r
        wrong = b.op("and", b.op("ne", r, zero), b.op("ne", b.op("lt", r, zero), b.op("lt", y, zero)))
        return b.op("sub", q, b.op("convert", wrong, dtype=dtype)), b.op("select", wrong, b.op("add", r, y), r)
    m = b.op("fmod", x, y)
    d = b.op("div", b.op("sub", x, m), y)
    nonzero = b.op("ne", m, zero)
    wrong = b.op("and", nonzero, b.op("ne", b.op("lt", y, zero), b.op("lt", m, zero)))
    m2 = b.op("select", wrong, b.op("add", m, y), m)
    m3 = b.op("select", nonzero, m2, b.op("copysign", zero, y))
    d = b.op("select", wrong, b.op("sub", d, one), d)
    f = b.op("floor", d)
    f = b.op("select", b.op("gt", b.op("sub", d, f), b.const(0.5, dtype)), b.op("add", f, one), f)
    quotient = b.op("div", x, y)
    f = b.op("select", b.op("ne", d, zero), f, b.op("copysign", zero, quotient))
    by_zero = b.op("eq", y, zero)
    return b.op("select", by_zero, quotient, f), b.op("select", by_zero, m, m3)


@frozen(eq=False)
class Power(Elementwise):
    """x ** y.  Floating point, or integers with y >= 0 (a negative exponent gives 0 or +-1, as integer arithmetic
    would).
    """

    name = "power"
    kinds = "iuf"

    def impl(self, *args: ArrayLike) -> Result:
        x, y = map(np.asarray, args)
        with np.errstate(all="ignore"):
            if x.dtype.kind == "f":
                return np.power(x, y)
            result = np.power(x, np.maximum(y, 0))
            if x.dtype.kind == "u":
                return result
            return np.where(y < 0, np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0), result).astype(x.dtype)

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        x, y = xs
        if is_float(x.dtype):
            return b.op("pow", x, y)
        recorder, dtype = b.recorder(), x.dtype
        zero, one = b.const(0, dtype), b.const(1, dtype)
        loop = recorder.while_loop(
            (one, x, y),
            lambda c: b.op("gt", c[2], zero),
            lambda c: (
                b.op("select", b.op("ne", b.op("and", c[2], one), zero), b.op("mul", c[0], c[1]), c[0]),
                b.op("mul", c[1], c[1]),
                b.op("shr", c[2], one),
            ),
        )
        if dtype[0] == "u":
            return loop[0]
        odd = b.op("ne", b.op("and", y, one), zero)
        unit = b.op("or", b.op("eq", x, one), b.op("eq", x, b.const(-1, dtype)))
        negative = b.op("select", unit, b.op("select", odd, x, one), zero)
        return b.op("select", b.op("lt", y, zero), negative, loop[0])

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        x, y = xs
        # y * x ** (y - 1) is 0 for y = 0, also at x = 0.
        none = lambda: bind(Eq(), y, zero_like(y))  # noqa: E731
        return (
            lambda: mul(y, bind(self, x, select(none(), one_like(y), sub(y, one_like(y))))),
            lambda: select(bind(Eq(), x, zero_like(x)), zero_like(out), mul(out, bind(Log(), x))),
        )


@frozen(eq=False)
class Neg(Elementwise):
    """-x; wraps around for integers."""

    name = "neg"
    numpy_function = np.negative
    op = "neg"
    kinds = "iuf"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (_MinusOne,)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [neg(ct)]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.negated(ranges[0])


@frozen(eq=False)
class Abs(Elementwise):
    """|x|"""

    name = "abs"
    numpy_function = np.absolute

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return xs[0] if xs[0].dtype[0] in "ub" else b.op("abs", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: bind(Sign(), xs[0]),)


@frozen(eq=False)
class Sign(Elementwise):
    """-1, 0 or 1; NaN stays NaN."""

    name = "sign"
    numpy_function = np.sign
    kinds = "iuf"

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        (x,) = xs
        zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
        positive = b.op("select", b.op("gt", x, zero), one, zero)
        if x.dtype[0] == "u":
            return positive
        result = b.op("select", b.op("lt", x, zero), b.const(-1, x.dtype), positive)
        return b.op("select", b.op("ne", x, x), x, result) if is_float(x.dtype) else result

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (None,)


def _half_where_equal(out: ArrayLike, x: ArrayLike, y: ArrayLike) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Derivative of min and max: 1 where chosen, 1/2 each where equal.  Source: JAX's convention."""

    def weight(a: ArrayLike, other: ArrayLike) -> Result:
        half = _constant_like(out, 0.5)
        return select(bind(Eq(), a, out), select(bind(Eq(), other, out), half, one_like(out)), zero_like(out))

    x, y = _fill(x, out), _fill(y, out)
    return (lambda: weight(x, y), lambda: weight(y, x))


@frozen(eq=False)
class Maximum(Elementwise):
    """max(x, y); NaN if either is NaN.  Of zeros of both signs the second, of float16 the first, as NumPy."""

    name = "max"
    numpy_function = np.maximum

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return b.op("or" if xs[0].dtype == "bool" else "max", *(reversed(xs) if xs[0].dtype == "f16" else xs))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return _half_where_equal(out, *xs)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.greatest(*ranges)


@frozen(eq=False)
class Minimum(Elementwise):
    """min(x, y); NaN if either is NaN.  Of zeros of both signs the second, of float16 the first, as NumPy."""

    name = "min"
    numpy_function = np.minimum

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        return b.op("and" if xs[0].dtype == "bool" else "min", *(reversed(xs) if xs[0].dtype == "f16" else xs))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return _half_where_equal(out, *xs)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.least(*ranges)


# -- rounding ----------------------------------------------------------------------------------------------------------
class _Rounding(Floating):
    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (None,)


@frozen(eq=False)
class Floor(_Rounding):
    """The greatest integer not above x."""

    name = "floor"
    numpy_function = np.floor
    op = "floor"


@frozen(eq=False)
class Ceil(_Rounding):
    """The least integer not below x."""

    name = "ceil"
    numpy_function = np.ceil
    op = "ceil"


@frozen(eq=False)
class Trunc(_Rounding):
    """x rounded towards zero."""

    name = "trunc"
    numpy_function = np.trunc
    op = "trunc"


@frozen(eq=False)
class Rint(_Rounding):
    """x rounded to the nearest integer, ties to even."""

    name = "rint"
    numpy_function = np.rint
    op = "roundeven"


# -- roots, exponentials, logarithms
# --------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Sqrt(Floating):
    """The square root."""

    name = "sqrt"
    numpy_function = np.sqrt
    op = "sqrt"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(_constant_like(out, 0.5), out),)


@frozen(eq=False)
class Cbrt(Floating):
    """The cube root."""

    name = "cbrt"
    numpy_function = np.cbrt
    op = "cbrt"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(_constant_like(out, 1.0 / 3.0), mul(out, out)),)


@frozen(eq=False)
class Exp(Floating):
    """e ** x"""

    name = "exp"
    numpy_function = np.exp
    op = "exp"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: out,)


@frozen(eq=False)
class Exp2(Floating):
    """2 ** x"""

    name = "exp2"
    numpy_function = np.exp2
    op = "exp2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: mul(out, _constant_like(out, np.log(2.0))),)


@frozen(eq=False)
class Expm1(Floating):
    """e ** x - 1 without cancellation."""

    name = "expm1"
    numpy_function = np.expm1
    op = "expm1"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: add(out, one_like(out)),)


@frozen(eq=False)
class Log(Floating):
    """The natural logarithm."""

    name = "log"
    numpy_function = np.log
    op = "log"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(xs[0]), xs[0]),)


@frozen(eq=False)
class Log2(Floating):
    """The logarithm to base 2."""

    name = "log2"
    numpy_function = np.log2
    op = "log2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(_constant_like(xs[0], 1.0 / np.log(2.0)), xs[0]),)


@frozen(eq=False)
class Log10(Floating):
    """The logarithm to base 10."""

    name = "log10"
    numpy_function = np.log10
    op = "log10"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(_constant_like(xs[0], 1.0 / np.log(10.0)), xs[0]),)


@frozen(eq=False)
class Log1p(Floating):
    """log(1 + x) without cancellation."""

    name = "log1p"
    numpy_function = np.log1p
    op = "log1p"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(xs[0]), add(xs[0], one_like(xs[0]))),)


# -- trigonometry ------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Sin(Floating):
    """sin(x), x in radians."""

    name = "sin"
    numpy_function = np.sin
    op = "sin"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: bind(Cos(), xs[0]),)


@frozen(eq=False)
class Cos(Floating):
    """cos(x), x in radians."""

    name = "cos"
    numpy_function = np.cos
    op = "cos"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: neg(bind(Sin(), xs[0])),)


@frozen(eq=False)
class Tan(Floating):
    """tan(x), x in radians."""

    name = "tan"
    numpy_function = np.tan
    op = "tan"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: add(one_like(out), mul(out, out)),)


@frozen(eq=False)
class Asin(Floating):
    """arcsin(x) in radians."""

    name = "asin"
    numpy_function = np.arcsin
    op = "asin"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(out), _half_width(xs[0])),)


@frozen(eq=False)
class Acos(Floating):
    """arccos(x) in radians."""

    name = "acos"
    numpy_function = np.arccos
    op = "acos"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: neg(div(one_like(out), _half_width(xs[0]))),)


@frozen(eq=False)
class Atan(Floating):
    """arctan(x) in radians."""

    name = "atan"
    numpy_function = np.arctan
    op = "atan"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(out), add(one_like(out), mul(xs[0], xs[0]))),)


@frozen(eq=False)
class Atan2(Floating):
    """The angle of the point (y, x), first argument y, in radians."""

    name = "atan2"
    numpy_function = np.arctan2
    op = "atan2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        y, x = xs
        norm = lambda: add(mul(x, x), mul(y, y))  # noqa: E731
        return (lambda: div(x, norm()), lambda: neg(div(y, norm())))


@frozen(eq=False)
class Sinh(Floating):
    """The hyperbolic sine."""

    name = "sinh"
    numpy_function = np.sinh
    op = "sinh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: bind(Cosh(), xs[0]),)


@frozen(eq=False)
class Cosh(Floating):
    """The hyperbolic cosine."""

    name = "cosh"
    numpy_function = np.cosh
    op = "cosh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: bind(Sinh(), xs[0]),)


@frozen(eq=False)
class Tanh(Floating):
    """The hyperbolic tangent."""

    name = "tanh"
    numpy_function = np.tanh
    op = "tanh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: mul(add(one_like(out), out), sub(one_like(out), out)),)  # 1 - out * out would cancel near 1


@frozen(eq=False)
class Asinh(Floating):
    """The inverse hyperbolic sine."""

    name = "asinh"
    numpy_function = np.arcsinh
    op = "asinh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(out), bind(Cosh(), out)),)


@frozen(eq=False)
class Acosh(Floating):
    """The inverse hyperbolic cosine."""

    name = "acosh"
    numpy_function = np.arccosh
    op = "acosh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (lambda: div(one_like(out), bind(Sinh(), out)),)


@frozen(eq=False)
class Atanh(Floating):
    """The inverse hyperbolic tangent."""

    name = "atanh"
    numpy_function = np.arctanh
    op = "atanh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        (x,) = xs
        return (lambda: div(one_like(out), mul(add(one_like(out), x), sub(one_like(out), x))),)


@frozen(eq=False)
class Fmod(Floating):
    """The remainder of division towards zero, with the sign of x.   Source: C's fmod"""

    name = "fmod"
    numpy_function = np.fmod
    op = "fmod"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (_One, lambda: neg(bind(Trunc(), bind(Div(), *xs))))


@frozen(eq=False)
class Erf(Floating):
    """The error function."""

    name = "erf"
    op = "erf"

    def impl(self, *args: ArrayLike) -> Result:
        import math

        x = np.asarray(args[0])
        return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        scale = 2.0 / np.sqrt(np.pi)
        return (lambda: mul(_constant_like(out, scale), bind(Exp(), neg(mul(xs[0], xs[0])))),)


# -- comparison and logic
# -----------------------------------------------------------------------------------------------------------
class _Comparison(Elementwise):
    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (None,) * len(xs)


@frozen(eq=False)
class Eq(_Comparison):
    """x == y"""

    name = "eq"
    numpy_function = np.equal
    op = "eq"


@frozen(eq=False)
class Ne(_Comparison):
    """x != y"""

    name = "ne"
    numpy_function = np.not_equal
    op = "ne"


@frozen(eq=False)
class Lt(_Comparison):
    """x < y"""

    name = "lt"
    numpy_function = np.less
    op = "lt"


@frozen(eq=False)
class Le(_Comparison):
    """x <= y"""

    name = "le"
    numpy_function = np.less_equal
    op = "le"


@frozen(eq=False)
class Gt(_Comparison):
    """x > y"""

    name = "gt"
    numpy_function = np.greater
    op = "gt"


@frozen(eq=False)
class Ge(_Comparison):
    """x >= y"""

    name = "ge"
    numpy_function = np.greater_equal
    op = "ge"


@frozen(eq=False)
class IsFinite(_Comparison):
    """Neither infinite nor NaN."""

    name = "is_finite"
    numpy_function = np.isfinite
    kinds = "f"

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        (x,) = xs
        return b.op("lt", b.op("abs", x), b.const(float("inf"), x.dtype))


class _Bits(Elementwise):
    kinds = "biu"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return (None,) * len(xs)


@frozen(eq=False)
class And(_Bits):
    """Bitwise and."""

    name = "and"
    numpy_function = np.bitwise_and
    op = "and"


@frozen(eq=False)
class Or(_Bits):
    """Bitwise or."""

    name = "or"
    numpy_function = np.bitwise_or
    op = "or"


@frozen(eq=False)
class Xor(_Bits):
    """Bitwise exclusive or."""

    name = "xor"
    numpy_function = np.bitwise_xor
    op = "xor"


@frozen(eq=False)
class Not(_Bits):
    """Bitwise not; logical not for bool."""

    name = "not"
    numpy_function = np.invert
    op = "not"


@frozen(eq=False)
class ShiftLeft(_Bits):
    """x << y; 0 where y is outside of the width."""

    name = "shift_left"
    numpy_function = np.left_shift
    op = "shl"
    kinds = "iu"


@frozen(eq=False)
class ShiftRight(_Bits):
    """x >> y, arithmetic for signed types; the sign where y is outside of the width."""

    name = "shift_right"
    numpy_function = np.right_shift
    op = "shr"
    kinds = "iu"


# -- selection and conversion
# ---------------------------------------------------------------------------------------------------------
@frozen(eq=False)
class Select(Elementwise):
    """x where condition else y.   condition: bool"""

    name = "select"
    same_dtype = False
    op = "select"

    def impl(self, *args: ArrayLike) -> Result:
        return np.where(*args)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        if avals[0].dtype != np.bool_:
            raise DtypeError(f"[select] the condition is {avals[0]}, not bool; compare it first (x != 0)")
        if avals[1].dtype != avals[2].dtype:
            raise DtypeError(f"[select] branches differ in dtype: {avals[1]} and {avals[2]}")
        return super().abstract_eval(*avals)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return avals[1].dtype

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        out = bind(self, *primals)
        _, t, f = tangents
        if t is None and f is None:
            return out, None
        zero = zero_like(out)
        return out, bind(
            self, primals[0], _fill(t, out) if t is not None else zero, _fill(f, out) if f is not None else zero
        )

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        condition, x, y = args
        zero = zero_like(ct)
        return [
            None,
            sum_to(select(condition, ct, zero), x.aval) if isinstance(x, UndefinedPrimal) else None,
            sum_to(select(condition, zero, ct), y.aval) if isinstance(y, UndefinedPrimal) else None,
        ]

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.either(ranges[1], ranges[2])


@frozen(eq=False)
class Convert(Elementwise):
    """x as another dtype, as NumPy's astype; out-of-range and NaN to integers are total (see ir.scalar)."""

    name = "convert"
    dtype: np.dtype[Any] = field(converter=canonical)

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return self.dtype

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return super().abstract_eval(*avals).strong()

    def impl(self, *args: ArrayLike) -> Result:
        from tracejit.ir.scalar import OPS

        return OPS["convert"].impl(self.dtype, np.asarray(args[0]))

    def scalar(self, b: ArrayLike, *xs: Scalar) -> Scalar:
        (x,) = xs
        target = kernel_dtype(self.dtype)
        if target == "bool" and x.dtype != "bool":
            return b.op("ne", x, b.const(0, x.dtype))
        return b.op("convert", x, dtype=target)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), bind(self, t) if t is not None and self.dtype.kind == "f" else None

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(Convert(args[0].aval.dtype), ct)]

    def simplify(self, *args: ArrayLike) -> int | None:
        return 0 if args[0].aval.dtype == self.dtype and not args[0].aval.weak else None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges[0]


# -- shorthands the rules are written with
# ----------------------------------------------------------------------------------------------
def _dtype_of(x: ArrayLike) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def _constant_like(x: ArrayLike, value: ArrayLike) -> Result:
    return _dtype_of(x).type(value)


def _half_width(x: ArrayLike) -> Result:
    """sqrt(1 - x * x) without cancellation near 1."""
    return bind(Sqrt(), mul(sub(one_like(x), x), add(one_like(x), x)))


def one_like(x: ArrayLike) -> Result:
    """A scalar one of x's dtype."""
    return _constant_like(x, 1)


def zero_like(x: ArrayLike) -> Result:
    """A scalar zero of x's dtype."""
    return _constant_like(x, 0)


def add(x: ArrayLike, y: ArrayLike) -> Result:
    return bind(Add(), x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Result:
    return bind(Sub(), x, y)


def mul(x: ArrayLike, y: ArrayLike) -> Result:
    return bind(Mul(), x, y)


def div(x: ArrayLike, y: ArrayLike) -> Result:
    return bind(Div(), x, y)


def neg(x: ArrayLike) -> Result:
    return bind(Neg(), x)


def select(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Result:
    """x where condition else y, elementwise."""
    return bind(Select(), condition, x, y)


def convert(x: ArrayLike, dtype: DTypeLike) -> Result:
    """x as `dtype`; x itself if it has it already."""
    dtype = np.dtype(dtype)
    aval = getattr(x, "aval", None)
    if aval is not None and aval.dtype == dtype and not aval.weak:
        return x
    return bind(Convert(dtype), x)
