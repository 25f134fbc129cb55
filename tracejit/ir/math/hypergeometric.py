"""Kummer's and Gauss' hypergeometric functions: their series, after transformations that keep the terms small.

Source: NIST Digital Library of Mathematical Functions 13.2.2, 13.2.39, 15.2.1, 15.8.1, 15.8.4, 15.4.20.
"""

from __future__ import annotations

from tracejit.ir.math.exp_log import exp
from tracejit.ir.math.gamma import tgamma
from tracejit.ir.math.loops import repeat, unit
from tracejit.ir.math.power import pow
from tracejit.ir.math.term import Term, rare, select

__all__ = ["hyp1f1", "hyp2f1"]

_MOST = 20_000


def _sum(x: Term, a: Term, b: Term | None, c: Term) -> Term:
    """The sum of (a)_k (b)_k / ((c)_k k!) x**k; without b where it is None."""
    least = unit(x)

    def add(total: Term, term: Term, k: Term, small: Term) -> list[Term]:
        factor = (a + k) / (c + k) * x / (k + 1.0)
        term = term * (factor if b is None else factor * (b + k))
        now = total + term
        return [now, term, k + 1.0, select(abs(term) > abs(now) * least, 0.0, small + 1.0)]

    # two small terms in succession: one may be small by chance
    one, zero = x.const(1.0), x.const(0.0)
    return repeat([one, one, zero, zero], lambda total, term, k, small: small < 2.0, add, _MOST)[0]


def hyp1f1(a: Term, b: Term, x: Term) -> Term:
    """Kummer's function M(a, b, x); NaN where b is an integer up to 0."""
    negative = x < 0.0
    value = _sum(abs(x).at_most(1e4), select(negative, b - a, a), None, b)
    value = select(negative, exp(x) * value, value)
    nowhere = (b <= 0.0) & b.op("floor").equals(b)
    return select(nowhere | x.differs(x), float("nan"), value)


def hyp2f1(a: Term, b: Term, c: Term, x: Term) -> Term:
    """Gauss' function F(a, b; c; x) for x up to 1; NaN beyond, and where c is an integer up to 0."""
    # (1 - x)**-a F(a, c - b; c; x / (x - 1)) for negative x
    negative = x < 0.0
    other, at = select(negative, c - b, b), select(negative, x / (x - 1.0), x)
    excess = c - a - other
    apart = abs(excess - excess.op("roundeven")) > 0.05
    near = at > 0.9
    turned = near & apart
    rest = select(negative, 1.0 / (1.0 - x), 1.0 - x)
    plain = _sum(select(turned | at.equals(1.0), 0.0, at), a, other, c)

    def around_one() -> Term:
        s, z = select(apart, excess, 0.5), select(turned, rest, 0.0)
        ratio = tgamma(c) * tgamma(s) / (tgamma(c - a) * tgamma(c - other))
        second = pow(z, s) * (tgamma(c) * tgamma(-s) / (tgamma(a) * tgamma(other)))
        value = ratio * _sum(z, a, other, 1.0 - s) + second * _sum(z, c - a, c - other, s + 1.0)
        return select(turned, value, plain)

    value = rare(turned, around_one, plain)
    value = select(negative, pow(select(negative, 1.0 - x, 1.0), -a) * value, value)

    def at_one() -> Term:
        total = c - a - b
        limit = tgamma(c) * tgamma(total) / (tgamma(c - a) * tgamma(c - b))
        return select(x.equals(1.0), select(total > 0.0, limit, float("inf")), value)

    value = rare(x.equals(1.0), at_one, value)
    nowhere = (x > 1.0) | x.differs(x) | ((c <= 0.0) & c.op("floor").equals(c))
    return select(nowhere, float("nan"), value)
