"""Common divisors and multiples of integers, elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.forms import FormBuilder
from tracejit.ir.kernel import Operand as Scalar
from tracejit.primitives.elementwise import Elementwise, Partials
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike

__all__ = ["Gcd", "Lcm"]


class _OfIntegers(Elementwise):
    kinds = "iu"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (None,) * len(xs)


@frozen(eq=False)
class Gcd(_OfIntegers):
    """The greatest common divisor of |x| and |y|, 0 of zeros; that of least integers wraps around, as |x| does."""

    name = "gcd"
    numpy_function = np.gcd

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        return b.op("bitcast", _divisor(b, *_magnitudes(b, *xs)), dtype=xs[0].dtype)


@frozen(eq=False)
class Lcm(_OfIntegers):
    """The least common multiple of |x| and |y|, 0 if one is zero; wraps around."""

    name = "lcm"
    numpy_function = np.lcm

    def scalar(self, b: FormBuilder, *xs: Scalar) -> Scalar:
        x, y = _magnitudes(b, *xs)
        return b.op("bitcast", b.op("mul", b.op("idiv", x, _divisor(b, x, y)), y), dtype=xs[0].dtype)


def _magnitudes(b: FormBuilder, *xs: Scalar) -> list[Scalar]:
    """|x| without a sign, which the least integer has too."""
    return [x if x.dtype[0] == "u" else b.op("bitcast", b.op("abs", x), dtype=f"u{x.dtype[1:]}") for x in xs]


def _divisor(b: FormBuilder, x: Scalar, y: Scalar) -> Scalar:
    """Euclid's algorithm.  The quotient of 0 by 0 is 0, so a common multiple of zeros is too."""
    zero = b.const(0, x.dtype)
    step: Any = b.recorder().while_loop(
        (x, y), lambda c: b.op("ne", c[1], zero), lambda c: (c[1], b.op("irem", c[0], c[1]))
    )
    return step[0]
