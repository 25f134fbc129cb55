"""Hurwitz' zeta function by the formula of Euler and Maclaurin, and what derives from it.

Source: NIST Digital Library of Mathematical Functions 25.11.5, 25.11.12.
"""

from __future__ import annotations

import math

from tracejit.ir.math.gamma import digamma, tgamma
from tracejit.ir.math.loops import repeat
from tracejit.ir.math.power import pow
from tracejit.ir.math.term import Term, fma, select

__all__ = ["BERNOULLI", "polygamma", "zeta"]

BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138,
    -236364091 / 2730,
)  # fmt: skip
_COEFFICIENTS = [b / math.factorial(2 * k + 2) for k, b in enumerate(BERNOULLI)]
_MOST = 2000


def zeta(x: Term, q: Term) -> Term:
    """The sum of (q + k)**-x over k = 0, 1, ...; inf at x = 1 and where a term is 1 / 0, NaN for x < 1,
    and for negative q where x is no integer.
    """

    def body(total: Term, at: Term) -> list[Term]:
        return [total + pow(at, -x), at + 1.0]

    until = x.at_most(60.0) + 10.0
    total, w = repeat([q.const(0.0), q.at_least(-1e3)], lambda total, at: at < until, body, _MOST)
    power = pow(w, -x)
    total = total + power * (w / (x - 1.0) + 0.5)
    inverse = 1.0 / w
    series = q.const(0.0)
    factor = x * inverse
    for n, c in enumerate(_COEFFICIENTS):
        series = series + factor * c
        factor = factor * ((x + (2.0 * n + 1.0)) * inverse) * ((x + (2.0 * n + 2.0)) * inverse)
    value = select(power.equals(0.0), total, fma(series, power, total))  # the series may have no end there
    value = select((q.equals(float("inf")) | x.equals(float("inf"))) & (q > 1.0), 0.0, value)
    pole = (q <= 0.0) & q.op("floor").equals(q)
    nowhere = (x < 1.0) | ((q < 0.0) & x.op("floor").differs(x)) | (q < -1e3) | q.differs(q) | x.differs(x)
    value = select(pole | x.equals(1.0), float("inf"), value)
    return select(nowhere, float("nan"), value)


def polygamma(n: Term, x: Term) -> Term:
    """The derivative of order n of digamma; n is an integer."""
    half = n * 0.5
    odd = half.op("floor").differs(half)
    value = tgamma(n + 1.0) * zeta(n + 1.0, x)
    value = select(odd, value, -value)
    value = select((n > 0.0) & n.op("floor").equals(n), value, float("nan"))
    return select(n.equals(0.0), digamma(x), value)
