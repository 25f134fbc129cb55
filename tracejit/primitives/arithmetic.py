"""Division, powers, signs, extrema and rounding, elementwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir import ranges as ranges_of
from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.math.complex import expand_complex, lexicographic
from tracejit.ir.math.term import ScalarBuilder
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import is_complex, is_float
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import Eq
from tracejit.primitives.elementwise import (
    Div,
    Elementwise,
    Floating,
    One,
    Partials,
    constant_like,
    div,
    fill_tangent,
    mul,
    neg,
    one_like,
    select,
    sub,
    zero_like,
)
from tracejit.primitives.transcendental import Log
from tracejit.support.dtypes import real_dtype
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind

__all__ = [
   
    "Abs",
    "Ceil",
    "Floor",
    "FloorDivide",
    "Fmod",
    "Maximum",
    "Minimum",
    "Power",
    "Remainder",
    "Rint",
    "Sign",
    "Trunc",
]  # fmt: skip


@frozen(eq=False)
class FloorDivide(Elementwise):
    """The quotient rounded down; for integers 0 where y is 0, as NumPy."""

    name = "floor_divide"
    numpy_function = np.floor_divide
    kinds = "iuf"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return _floor_division(b, *xs)[0]

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None, None)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.quotient(*ranges)


@frozen(eq=False)
class Remainder(Elementwise):
    """The remainder with the sign of the divisor; for integers 0 where y is 0, as NumPy."""

    name = "remainder"
    numpy_function = np.remainder
    kinds = "iuf"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return _floor_division(b, *xs)[1]

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (One, lambda: neg(bind(FloorDivide(), *xs)))

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.remainder(ranges[1])


def _floor_division(b: FormBuilder, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
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
class Fmod(Floating):
    """The remainder of division towards zero, with the sign of x.   Source: C's fmod"""

    name = "fmod"
    numpy_function = np.fmod
    op = "fmod"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (One, lambda: neg(bind(Trunc(), bind(Div(), *xs))))


@frozen(eq=False)
class Power(Elementwise):
    """x ** y.  Floating point, or integers with y >= 0 (a negative exponent gives 0 or +-1, as integer arithmetic
    would).
    """

    name = "power"
    kinds = "iufc"

    def impl(self, *args: ArrayLike) -> Result:
        x, y = map(np.asarray, args)
        with np.errstate(all="ignore"):
            if x.dtype.kind in "fc":
                return np.power(x, y)
            result = np.power(x, np.maximum(y, 0))
            if x.dtype.kind == "u":
                return result
            return np.where(y < 0, np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0), result).astype(x.dtype)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        x, y = xs
        if is_complex(x.dtype):
            return expand_complex("pow", b.recorder(), x, y)
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

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.power(*ranges)

    def _by_exponent(self, out: ArrayLike, x: ArrayLike) -> Result:
        """x ** y * log(x), 0 at x = 0; nothing in it is infinite there, for derivatives of it."""
        none = bind(Eq(), x, zero_like(x))
        return select(none, zero_like(out), mul(out, bind(Log(), select(none, one_like(x), x))))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        x, y = xs
        # y * x ** (y - 1) is 0 for y = 0, also at x = 0.
        none = lambda: bind(Eq(), y, zero_like(y))  # noqa: E731
        return (
            lambda: mul(y, bind(self, x, select(none(), one_like(y), sub(y, one_like(y))))),
            lambda: self._by_exponent(out, x),
        )


@frozen(eq=False)
class Abs(Elementwise):
    """|x|; real for complex numbers."""

    name = "abs"
    numpy_function = np.absolute

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return real_dtype(avals[0].dtype)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        if is_complex(xs[0].dtype):
            return expand_complex("abs", b.recorder(), *xs)
        return xs[0] if xs[0].dtype[0] in "ub" else b.op("abs", *xs)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Sign(), xs[0]),)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        if t is None or aval_of_argument(x).dtype.kind != "c":
            return super().jvp(primals, tangents)
        from tracejit.primitives.complex_numbers import conj, real

        return bind(self, x), real(mul(t, conj(bind(Sign(), x))))  # 0 at 0


@frozen(eq=False)
class Sign(Elementwise):
    """-1, 0 or 1; NaN stays NaN.  x / |x| of complex numbers."""

    name = "sign"
    numpy_function = np.sign
    kinds = "iufc"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        if is_complex(x.dtype):
            return expand_complex("sign", b.recorder(), x)
        zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
        positive = b.op("select", b.op("gt", x, zero), one, zero)
        if x.dtype[0] == "u":
            return positive
        result = b.op("select", b.op("lt", x, zero), b.const(-1, x.dtype), positive)
        return b.op("select", b.op("ne", x, x), x, result) if is_float(x.dtype) else result

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (x,), (t,) = primals, tangents
        if t is None or aval_of_argument(x).dtype.kind != "c":
            return super().jvp(primals, tangents)
        from tracejit.primitives.complex_numbers import conj, imag, make_complex

        # it turns by the part of the tangent that is across
        out = bind(self, x)
        size = bind(Abs(), x)
        across = div(imag(mul(t, conj(out))), select(bind(Eq(), size, zero_like(size)), one_like(size), size))
        return out, mul(out, make_complex(zero_like(across), across))


def greater_complex(r: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
    """The first of two complex numbers where it is greater, equal or NaN."""
    return r.op("select", r.op("or", r.op("ne", x, x), lexicographic("ge", r, x, y)), x, y)


def lesser_complex(r: ScalarBuilder, x: Scalar, y: Scalar) -> Scalar:
    """The first of two complex numbers where it is less, equal or NaN."""
    return r.op("select", r.op("or", r.op("ne", x, x), lexicographic("le", r, x, y)), x, y)


def _half_where_equal(out: ArrayLike, x: ArrayLike, y: ArrayLike) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Derivative of min and max: 1 where chosen, 1/2 each where equal.  Source: JAX's convention."""

    def weight(a: ArrayLike, other: ArrayLike) -> Result:
        half = constant_like(out, 0.5)
        return select(bind(Eq(), a, out), select(bind(Eq(), other, out), half, one_like(out)), zero_like(out))

    x, y = fill_tangent(x, out), fill_tangent(y, out)
    return (lambda: weight(x, y), lambda: weight(y, x))


@frozen(eq=False)
class Maximum(Elementwise):
    """max(x, y); NaN if either is NaN.  Of zeros of both signs the second, of float16 the first, as NumPy."""

    name = "max"
    numpy_function = np.maximum

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        if is_complex(xs[0].dtype):
            return greater_complex(b.recorder(), *xs)
        return b.op("or" if xs[0].dtype == "bool" else "max", *(reversed(xs) if xs[0].dtype == "f16" else xs))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return _half_where_equal(out, *xs)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.greatest(*ranges)


@frozen(eq=False)
class Minimum(Elementwise):
    """min(x, y); NaN if either is NaN.  Of zeros of both signs the second, of float16 the first, as NumPy."""

    name = "min"
    numpy_function = np.minimum

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        if is_complex(xs[0].dtype):
            return lesser_complex(b.recorder(), *xs)
        return b.op("and" if xs[0].dtype == "bool" else "min", *(reversed(xs) if xs[0].dtype == "f16" else xs))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return _half_where_equal(out, *xs)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return ranges_of.least(*ranges)


class _Rounding(Floating):
    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
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
    """x rounded to the nearest integer, ties to even; of complex numbers both parts."""

    name = "rint"
    numpy_function = np.rint
    op = "roundeven"
    kinds = "fc"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        if not is_complex(x.dtype):
            return super().scalar(b, x)
        return b.op("complex", *[b.op("roundeven", b.op(part, x)) for part in ("real", "imag")])
