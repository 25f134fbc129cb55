"""Roots, exponentials, logarithms, trigonometric and hyperbolic functions, elementwise."""

from __future__ import annotations

import numpy as np

from tracejit.primitives.elementwise import (
    Analytic,
    Floating,
    Partials,
    add,
    constant_like,
    div,
    mul,
    neg,
    one_like,
    sub,
)
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
   
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atan2",
    "Atanh",
    "Cbrt",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Exp2",
    "Expm1",
    "Log",
    "Log10",
    "Log1p",
    "Log2",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
    "Tanh",
]  # fmt: skip


@frozen(eq=False)
class Sqrt(Analytic):
    """The square root."""

    name = "sqrt"
    numpy_function = np.sqrt
    op = "sqrt"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(constant_like(out, 0.5), out),)


@frozen(eq=False)
class Cbrt(Floating):
    """The cube root."""

    name = "cbrt"
    numpy_function = np.cbrt
    op = "cbrt"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(constant_like(out, 1.0 / 3.0), mul(out, out)),)


@frozen(eq=False)
class Exp(Analytic):
    """e ** x"""

    name = "exp"
    numpy_function = np.exp
    op = "exp"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: out,)


@frozen(eq=False)
class Exp2(Analytic):
    """2 ** x"""

    name = "exp2"
    numpy_function = np.exp2
    op = "exp2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(out, constant_like(out, np.log(2.0))),)


@frozen(eq=False)
class Expm1(Analytic):
    """e ** x - 1 without cancellation."""

    name = "expm1"
    numpy_function = np.expm1
    op = "expm1"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: add(out, one_like(out)),)


@frozen(eq=False)
class Log(Analytic):
    """The natural logarithm."""

    name = "log"
    numpy_function = np.log
    op = "log"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(xs[0]), xs[0]),)


@frozen(eq=False)
class Log2(Analytic):
    """The logarithm to base 2."""

    name = "log2"
    numpy_function = np.log2
    op = "log2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(constant_like(xs[0], 1.0 / np.log(2.0)), xs[0]),)


@frozen(eq=False)
class Log10(Analytic):
    """The logarithm to base 10."""

    name = "log10"
    numpy_function = np.log10
    op = "log10"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(constant_like(xs[0], 1.0 / np.log(10.0)), xs[0]),)


@frozen(eq=False)
class Log1p(Analytic):
    """log(1 + x) without cancellation."""

    name = "log1p"
    numpy_function = np.log1p
    op = "log1p"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(xs[0]), add(xs[0], one_like(xs[0]))),)


@frozen(eq=False)
class Sin(Analytic):
    """sin(x), x in radians."""

    name = "sin"
    numpy_function = np.sin
    op = "sin"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Cos(), xs[0]),)


@frozen(eq=False)
class Cos(Analytic):
    """cos(x), x in radians."""

    name = "cos"
    numpy_function = np.cos
    op = "cos"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: neg(bind(Sin(), xs[0])),)


@frozen(eq=False)
class Tan(Analytic):
    """tan(x), x in radians."""

    name = "tan"
    numpy_function = np.tan
    op = "tan"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: add(one_like(out), mul(out, out)),)


@frozen(eq=False)
class Asin(Analytic):
    """arcsin(x) in radians."""

    name = "asin"
    numpy_function = np.arcsin
    op = "asin"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(out), _half_width(xs[0])),)


@frozen(eq=False)
class Acos(Analytic):
    """arccos(x) in radians."""

    name = "acos"
    numpy_function = np.arccos
    op = "acos"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: neg(div(one_like(out), _half_width(xs[0]))),)


@frozen(eq=False)
class Atan(Analytic):
    """arctan(x) in radians."""

    name = "atan"
    numpy_function = np.arctan
    op = "atan"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(out), add(one_like(out), mul(xs[0], xs[0]))),)


@frozen(eq=False)
class Atan2(Floating):
    """The angle of the point (y, x), first argument y, in radians."""

    name = "atan2"
    numpy_function = np.arctan2
    op = "atan2"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        y, x = xs
        norm = lambda: add(mul(x, x), mul(y, y))  # noqa: E731
        return (lambda: div(x, norm()), lambda: neg(div(y, norm())))


@frozen(eq=False)
class Sinh(Analytic):
    """The hyperbolic sine."""

    name = "sinh"
    numpy_function = np.sinh
    op = "sinh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Cosh(), xs[0]),)


@frozen(eq=False)
class Cosh(Analytic):
    """The hyperbolic cosine."""

    name = "cosh"
    numpy_function = np.cosh
    op = "cosh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Sinh(), xs[0]),)


@frozen(eq=False)
class Tanh(Analytic):
    """The hyperbolic tangent."""

    name = "tanh"
    numpy_function = np.tanh
    op = "tanh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: mul(add(one_like(out), out), sub(one_like(out), out)),)  # 1 - out * out would cancel near 1


@frozen(eq=False)
class Asinh(Analytic):
    """The inverse hyperbolic sine."""

    name = "asinh"
    numpy_function = np.arcsinh
    op = "asinh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(out), bind(Cosh(), out)),)


@frozen(eq=False)
class Acosh(Analytic):
    """The inverse hyperbolic cosine."""

    name = "acosh"
    numpy_function = np.arccosh
    op = "acosh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(one_like(out), bind(Sinh(), out)),)


@frozen(eq=False)
class Atanh(Analytic):
    """The inverse hyperbolic tangent."""

    name = "atanh"
    numpy_function = np.arctanh
    op = "atanh"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs
        return (lambda: div(one_like(out), mul(add(one_like(out), x), sub(one_like(out), x))),)


@frozen(eq=False)
class Erf(Floating):
    """The error function."""

    name = "erf"
    op = "erf"

    def impl(self, *args: ArrayLike) -> Result:
        import math

        x = np.asarray(args[0])
        return np.vectorize(math.erf, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        scale = 2.0 / np.sqrt(np.pi)
        return (lambda: mul(constant_like(out, scale), bind(Exp(), neg(mul(xs[0], xs[0])))),)


def _half_width(x: ArrayLike) -> Result:
    """sqrt(1 - x * x) without cancellation near 1."""
    return bind(Sqrt(), mul(sub(one_like(x), x), add(one_like(x), x)))
