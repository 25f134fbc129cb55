"""Integrals that have names: exponential, sine and cosine, of Fresnel, Dawson, Owen, and the dilogarithm."""

from __future__ import annotations

import math

import numpy as np

from tracejit.primitives.comparison import Eq, Le
from tracejit.primitives.elementwise import (
    Partials,
    add,
    constant_like,
    div,
    mul,
    neg,
    one_like,
    select,
    sub,
    zero_like,
)
from tracejit.primitives.special import Formula
from tracejit.primitives.transcendental import Cos, Erf, Exp, Log, Sin
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "CosineIntegral", "Dawsn", "Expi", "Expn", "FresnelC", "FresnelS", "OwensT", "SineIntegral", "Spence",
]  # fmt: skip


@frozen(eq=False)
class Expn(Formula):
    """The exponential integral of order n, an integer from 0 on."""

    name = "expn"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        n, x = xs

        def in_x() -> Result:
            first = bind(Le(), n, zero_like(n))
            # of order 0 it is exp(-x) / x
            before = bind(self, select(first, n, sub(n, one_like(n))), x)
            return neg(select(first, mul(out, add(one_like(x), div(one_like(x), x))), before))

        return (self.no_derivative("n"), in_x)


@frozen(eq=False)
class Expi(Formula):
    """The exponential integral Ei."""

    name = "expi"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(bind(Exp(), xs[0]), xs[0]),)


@frozen(eq=False)
class Spence(Formula):
    """The integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm of 1 - x."""

    name = "spence"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs

        def slope() -> Result:
            at_one = bind(Eq(), x, one_like(x))
            rest = select(at_one, one_like(x), sub(one_like(x), x))
            return select(at_one, constant_like(x, -1), div(bind(Log(), x), rest))

        return (slope,)


@frozen(eq=False)
class SineIntegral(Formula):
    """The integral of sin(t) / t from 0 to x."""

    name = "sine_integral"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        (x,) = xs

        def slope() -> Result:
            zero = bind(Eq(), x, zero_like(x))
            nonzero = select(zero, one_like(x), x)
            return select(zero, one_like(x), div(bind(Sin(), nonzero), nonzero))

        return (slope,)


@frozen(eq=False)
class CosineIntegral(Formula):
    """The integral of cos(t) / t from |x| to infinity, negated."""

    name = "cosine_integral"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: div(bind(Cos(), xs[0]), xs[0]),)


def _quarter_turns(x: ArrayLike) -> Result:
    """pi x**2 / 2"""
    return mul(mul(x, x), constant_like(x, math.pi / 2.0))


@frozen(eq=False)
class FresnelS(Formula):
    """The integral of sin(pi t**2 / 2) from 0 to x."""

    name = "fresnel_s"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Sin(), _quarter_turns(xs[0])),)


@frozen(eq=False)
class FresnelC(Formula):
    """The integral of cos(pi t**2 / 2) from 0 to x."""

    name = "fresnel_c"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: bind(Cos(), _quarter_turns(xs[0])),)


@frozen(eq=False)
class Dawsn(Formula):
    """exp(-x**2) times the integral of exp(t**2) from 0 to x."""

    name = "dawsn"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        return (lambda: sub(one_like(out), mul(add(xs[0], xs[0]), out)),)


@frozen(eq=False)
class OwensT(Formula):
    """The probability of X > h and 0 < Y < a X for independent normal X and Y."""

    name = "owens_t"
    home = "integrals"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        h, a = xs
        half = constant_like(h, -0.5)

        def in_h() -> Result:
            density = mul(bind(Exp(), mul(mul(h, h), half)), constant_like(h, -0.5 / np.sqrt(2.0 * np.pi)))
            return mul(density, bind(Erf(), mul(mul(a, h), constant_like(h, np.sqrt(0.5)))))

        def in_a() -> Result:
            spread = add(one_like(a), mul(a, a))
            scaled = mul(bind(Exp(), mul(mul(mul(h, h), spread), half)), constant_like(h, 0.5 / np.pi))
            return div(scaled, spread)

        return (in_h, in_a)
