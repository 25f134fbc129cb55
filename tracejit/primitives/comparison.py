"""Comparisons, logic and bits, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.ir.math.complex import lexicographic
from tracejit.ir.scalar import is_complex, part_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.elementwise import Elementwise, Partials
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike

__all__ = ["And", "Eq", "Ge", "Gt", "IsFinite", "Le", "Lt", "Ne", "Not", "Or", "ShiftLeft", "ShiftRight", "Xor"]


class _Comparison(Elementwise):
    def result_dtype(self, *avals: ShapedArray) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
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


class _Ordering(_Comparison):
    """Of complex numbers by real parts, of equal ones by imaginary parts."""

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return lexicographic(self.op, b.recorder(), *xs) if is_complex(xs[0].dtype) else super().scalar(b, *xs)


@frozen(eq=False)
class Lt(_Ordering):
    """x < y"""

    name = "lt"
    numpy_function = np.less
    op = "lt"


@frozen(eq=False)
class Le(_Ordering):
    """x <= y"""

    name = "le"
    numpy_function = np.less_equal
    op = "le"


@frozen(eq=False)
class Gt(_Ordering):
    """x > y"""

    name = "gt"
    numpy_function = np.greater
    op = "gt"


@frozen(eq=False)
class Ge(_Ordering):
    """x >= y"""

    name = "ge"
    numpy_function = np.greater_equal
    op = "ge"


@frozen(eq=False)
class IsFinite(_Comparison):
    """Neither infinite nor NaN."""

    name = "is_finite"
    numpy_function = np.isfinite
    kinds = "fc"

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        (x,) = xs
        if is_complex(x.dtype):
            infinity = b.const(float("inf"), part_dtype(x.dtype))
            parts = [b.op("abs", b.op(part, x)) for part in ("real", "imag")]
            return b.op("and", *[b.op("lt", part, infinity) for part in parts])
        return b.op("lt", b.op("abs", x), b.const(float("inf"), x.dtype))


class _Bits(Elementwise):
    kinds = "biu"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
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
