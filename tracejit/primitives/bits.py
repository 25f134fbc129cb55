"""The bits of numbers: how many are set, what they say as another dtype, and fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import BITS, OPS, kernel_dtype, numpy_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.elementwise import Elementwise, Partials
from tracejit.support.dtypes import canonical, short_name
from tracejit.support.errors import DtypeError
from tracejit.support.nodes import field, frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["Bitcast", "Clz", "PopulationCount", "ReducePrecision"]

_MANTISSA = {"f16": 10, "f32": 23, "f64": 52}


class _Count(Elementwise):
    kinds = "iu"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,)

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return 0, 8 * avals[0].dtype.itemsize


def _word(b: FormBuilder, x: Scalar) -> Scalar:
    """x's bits as an unsigned integer of 32 or 64 bits, zeros before them."""
    bits = BITS[x.dtype]
    unsigned = x if x.dtype[0] == "u" else b.op("bitcast", x, dtype=f"u{bits}")
    return unsigned if bits >= 32 else b.op("convert", unsigned, dtype="u32")


def _ones(b: FormBuilder, v: Scalar) -> Scalar:
    """How many bits of an unsigned integer of 32 or 64 bits are set: sums of 2, 4 and 8 bits side by side, then of all
    bytes by a product.

    Source: Warren, Hacker's Delight, 2nd edition, section 5-1.
    """
    dtype, bits = v.dtype, BITS[v.dtype]

    def every(byte: int) -> Scalar:
        return b.const(int.from_bytes(bytes([byte]) * (bits // 8), "big"), dtype)

    def right(x: Scalar, count: int) -> Scalar:
        return b.op("shr", x, b.const(count, dtype))

    v = b.op("sub", v, b.op("and", right(v, 1), every(0x55)))
    v = b.op("add", b.op("and", v, every(0x33)), b.op("and", right(v, 2), every(0x33)))
    v = b.op("and", b.op("add", v, right(v, 4)), every(0x0F))
    return right(b.op("mul", v, every(0x01)), bits - 8)


def _bits_of(x: ArrayLike) -> np.ndarray[Any, Any]:
    """The bits of integers along a new last axis, the highest first."""
    x = np.asarray(x)
    width = 8 * x.dtype.itemsize
    unsigned = x.astype(f"u{x.dtype.itemsize}")[..., None]
    return (unsigned >> np.arange(width - 1, -1, -1).astype(unsigned.dtype)) & unsigned.dtype.type(1)


@frozen(eq=False)
class PopulationCount(_Count):
    """How many bits of an integer are set, those of negative ones in two's complement; same dtype."""

    name = "population_count"

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        return _bits_of(x).sum(-1).astype(x.dtype)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return b.op("convert", _ones(b, _word(b, xs[0])), dtype=xs[0].dtype)


@frozen(eq=False)
class Clz(_Count):
    """How many bits of an integer are zero before the first that is set, all of 0's; same dtype."""

    name = "clz"

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        return (np.cumsum(_bits_of(x), -1) == 0).sum(-1).astype(x.dtype)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        v, width = _word(b, xs[0]), BITS[xs[0].dtype]
        shift = 1
        while shift < width:  # every bit behind the first that is set
            v = b.op("or", v, b.op("shr", v, b.const(shift, v.dtype)))
            shift *= 2
        return b.op("convert", b.op("sub", b.const(width, v.dtype), _ones(b, v)), dtype=xs[0].dtype)


@frozen(eq=False)
class Bitcast(Elementwise):
    """The bits of x as an element of another dtype of as many."""

    name = "bitcast"
    kinds = "iuf"
    dtype: np.dtype[Any] = field(converter=canonical)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (x,) = avals
        if x.dtype.itemsize != self.dtype.itemsize or self.dtype.kind not in self.kinds:
            raise DtypeError(
                f"[{self.name}] {x} has not as many bits as {short_name(self.dtype)}, or they are no number"
            )
        return super().abstract_eval(*avals).strong()

    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return self.dtype

    def impl(self, *args: ArrayLike) -> Result:
        return OPS["bitcast"].impl(self.dtype, np.ascontiguousarray(args[0]).reshape(np.shape(args[0])))

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        target = kernel_dtype(self.dtype)
        return xs[0] if target == xs[0].dtype else b.op("bitcast", xs[0], dtype=target)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,)


@frozen(eq=False)
class ReducePrecision(Elementwise):
    """x rounded to a float of so many bits of exponent and mantissa: the nearest one, of two as near the even one.

    What is too large becomes infinite, what is too small for a normal number 0, a NaN stays one.

    Its derivative is the tangent, rounded in the same way.   Source: XLA's ReducePrecision.
    """

    name = "reduce_precision"
    kinds = "f"
    exponent_bits: int
    mantissa_bits: int

    def impl(self, *args: ArrayLike) -> Result:
        x = np.asarray(args[0])
        bits = _Rounded(_NumPy(), kernel_dtype(x.dtype), self).of(np.ascontiguousarray(x).reshape(x.shape))
        return np.asarray(bits)

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return _Rounded(b, xs[0].dtype, self).of(xs[0])

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        (t,) = tangents
        return bind(self, *primals), None if t is None else bind(self, t)

    def transpose(self, ct: ArrayLike, *args: ArrayLike) -> Sequence[Result]:
        return [bind(self, ct)]


class _NumPy:
    """Scalar operations on NumPy's arrays at once."""

    def op(self, name: str, *xs: Any, dtype: str | None = None) -> Any:
        known = next((x.dtype for x in xs[::-1] if hasattr(x, "dtype")), None)
        return OPS[name].impl(numpy_dtype(dtype) if dtype else known, *xs)

    def const(self, value: Any, dtype: str) -> Any:
        return numpy_dtype(dtype).type(value)


class _Rounded:
    """The operations of `ReducePrecision` on elements of a dtype."""

    def __init__(self, b: Any, dtype: str, wanted: ReducePrecision) -> None:
        self.b = b
        self.dtype = dtype
        self.unsigned = f"u{BITS[dtype]}"
        self.wanted = wanted

    def number(self, value: int) -> Any:
        return self.b.const(value, self.unsigned)

    def of(self, x: Any) -> Any:
        op, mantissa = self.b.op, _MANTISSA[self.dtype]
        exponent = BITS[self.dtype] - 1 - mantissa
        v = op("bitcast", x, dtype=self.unsigned)
        sign = self.number(1 << (BITS[self.dtype] - 1))
        least, infinite = 1 << mantissa, ((1 << exponent) - 1) << mantissa
        gone = mantissa - self.wanted.mantissa_bits
        if gone > 0:  # half of what is dropped, less one where the last bit that stays is 0
            last = op("and", op("shr", v, self.number(gone)), self.number(1))
            v = op("add", v, op("add", last, self.number((1 << (gone - 1)) - 1)))
            v = op("and", v, self.number((1 << BITS[self.dtype]) - (1 << gone)))
        if self.wanted.exponent_bits < exponent:
            bias, fewer = (1 << (exponent - 1)) - 1, (1 << (self.wanted.exponent_bits - 1)) - 1
            power = op("and", v, self.number(infinite))
            signed = op("and", v, sign)
            large = op("gt", power, self.number((bias + fewer) * least))
            small = op("le", power, self.number((bias - fewer) * least))
            v = op("select", large, op("or", signed, self.number(infinite)), v)
            v = op("select", small, signed, v)
        result = op("bitcast", v, dtype=self.dtype)
        return op("select", op("ne", x, x), x, result)
