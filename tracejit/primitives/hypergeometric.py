"""Hypergeometric functions."""

from __future__ import annotations

from tracejit.primitives.elementwise import Partials, add, div, mul, one_like
from tracejit.primitives.special import Formula
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["Hyp1F1", "Hyp2F1"]


def _next(x: ArrayLike) -> Result:
    return add(x, one_like(x))


@frozen(eq=False)
class Hyp1F1(Formula):
    """Kummer's confluent hypergeometric function M(a, b, x)."""

    name = "hyp1f1"
    home = "hypergeometric"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, b, x = xs
        in_x = lambda: mul(div(a, b), bind(self, _next(a), _next(b), x))  # noqa: E731
        return (self.no_derivative("a"), self.no_derivative("b"), in_x)


@frozen(eq=False)
class Hyp2F1(Formula):
    """Gauss' hypergeometric function F(a, b; c; x)."""

    name = "hyp2f1"
    home = "hypergeometric"

    def partials(self, out: ArrayLike, *xs: ArrayLike) -> Partials:
        a, b, c, x = xs
        in_x = lambda: mul(div(mul(a, b), c), bind(self, _next(a), _next(b), _next(c), x))  # noqa: E731
        return (self.no_derivative("a"), self.no_derivative("b"), self.no_derivative("c"), in_x)
