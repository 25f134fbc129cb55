"""Floating-point numbers by their bits: the next one, fraction and exponent, elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.ranges import Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import And, IsFinite, Ne
from tracejit.primitives.elementwise import Div, Floating, One, Partials, one_like, select, zero_like
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["FrexpExponent", "FrexpFraction", "NextAfter"]


_FRACTION_BITS = {"f16": 10, "f32": 23, "f64": 52}


def _integers(dtype: str) -> str:
    """The integers with as many bits."""
    return f"i{dtype[1:]}"


@frozen(eq=False)
class NextAfter(Floating):
    """The next number after x in the direction of y; y where they are equal, NaN if either is NaN."""

    name = "nextafter"
    numpy_function = np.nextafter

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        x, y = xs
        dtype, bits = x.dtype, _integers(x.dtype)
        zero, one = b.const(0, dtype), b.const(1, bits)
        word = b.op("bitcast", x, dtype=bits)
        away = b.op("eq", b.op("gt", y, x), b.op("gt", x, zero))  # from zero: its magnitude grows
        moved = b.op("select", away, b.op("add", word, one), b.op("sub", word, one))
        least = b.op("copysign", b.op("bitcast", one, dtype=dtype), y)
        found = b.op("select", b.op("eq", x, zero), least, b.op("bitcast", moved, dtype=dtype))
        found = b.op("select", b.op("eq", x, y), x if dtype == "f16" else y, found)
        return b.op("select", b.op("ne", x, x), x, b.op("select", b.op("ne", y, y), y, found))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (One, None)


def _scaled(b: FormBuilder, x: Scalar) -> tuple[Scalar, Scalar]:
    """(bits of x, made normal by a power of two, the power) for numbers that are not zero."""
    dtype, bits = x.dtype, _integers(x.dtype)
    count = _FRACTION_BITS[dtype] + 2
    low = b.op("lt", b.op("abs", x), b.const(np.finfo(f"f{int(dtype[1:]) // 8}").tiny, dtype))
    grown = b.op("select", low, b.op("mul", x, b.const(2.0**count, dtype)), x)
    power = b.op("select", low, b.const(count, bits), b.const(0, bits))
    return b.op("bitcast", grown, dtype=bits), power


def _plain(b: FormBuilder, x: Scalar) -> Scalar:
    """Whether x is finite and not zero."""
    zero = b.const(0, x.dtype)
    return b.op("and", b.op("ne", x, zero), b.op("eq", b.op("sub", x, x), zero))


def _greatest_exponent(dtype: str) -> int:
    return {"f16": 0x1F, "f32": 0xFF, "f64": 0x7FF}[dtype]


@frozen(eq=False)
class FrexpFraction(Floating):
    """The m of x = m * 2**e with 0.5 <= |m| < 1; x itself of zeros, infinities and NaN."""

    name = "frexp_fraction"

    def impl(self, *args: ArrayLike) -> Result:
        return np.frexp(*args)[0]

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        dtype, bits = x.dtype, _integers(x.dtype)
        shift, greatest = _FRACTION_BITS[dtype], _greatest_exponent(dtype)
        word, _ = _scaled(b, x)
        rest = b.op("and", word, b.const(~(greatest << shift), bits))
        found = b.op("or", rest, b.const((greatest // 2 - 1) << shift, bits))
        return b.op("select", _plain(b, x), b.op("bitcast", found, dtype=dtype), x)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs

        def scale() -> Result:
            """2**-e, which is the quotient of the two."""
            plain = bind(And(), bind(Ne(), x, zero_like(x)), bind(IsFinite(), x))
            return select(plain, bind(Div(), out, select(plain, x, one_like(x))), one_like(x))

        return (scale,)


@frozen(eq=False)
class FrexpExponent(Floating):
    """The e of x = m * 2**e with 0.5 <= |m| < 1, as int32; 0 of zeros, infinities and NaN."""

    name = "frexp_exponent"

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return np.dtype(np.int32)

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)[()]

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        dtype, bits = x.dtype, _integers(x.dtype)
        greatest = _greatest_exponent(dtype)
        word, power = _scaled(b, x)
        kept = b.op("and", b.op("shr", word, b.const(_FRACTION_BITS[dtype], bits)), b.const(greatest, bits))
        found = b.op("sub", b.op("sub", kept, b.const(greatest // 2 - 1, bits)), power)
        return b.op("select", _plain(b, x), b.op("convert", found, dtype="i32"), b.const(0, "i32"))

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return (-1100, 1100)
