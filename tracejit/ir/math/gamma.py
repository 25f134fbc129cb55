"""lgamma, digamma and gamma: a polynomial near the roots, recurrences to it, Stirling's formula from 8 (9) on.

The core of lgamma is divided by (y - 1)(y - 2), that of digamma by the distance of its root, so both are exact to the
last digits there.  Negative arguments are reflected, in a branch.
Source: NIST Digital Library of Mathematical Functions 5.5, 5.11.  Coefficients: benchmarks/fit_special.py.
"""

from __future__ import annotations

import math

from tracejit.ir.math import fits
from tracejit.ir.math.exp_log import exp, log
from tracejit.ir.math.power import pow
from tracejit.ir.math.term import Term, fma, horner, polynomial, rare, select
from tracejit.ir.math.trig import sin, tan

__all__ = ["digamma", "lgamma", "tgamma"]

LOG_PI = math.log(math.pi)
_STIRLING = 0.5 * math.log(2.0 * math.pi) - 0.5
_LEAST, _MOST, _FAR = 0.75, 3.0, 8.0
"""Where the cores begin and end, and Stirling's formula begins."""
_ROOT = {"f32": (1.4616321325302124, 1.2438149917829832e-08), "f64": (1.4616321449683622, 9.54995429965697e-17)}
"""The root of digamma in two words."""


def _near(x: Term) -> Term:
    """Of x below 8 the number in [0.75, 3] from which a recurrence leads to it."""
    last = x - (x.op("floor") - 2.0)
    return select(x < _LEAST, x + 1.0, select(x < _MOST, x, last))


def _distance(x: Term) -> Term:
    """x less the nearest integer: exact."""
    return x - x.op("roundeven")


def lgamma(x: Term) -> Term:
    """log(abs(gamma(x))); inf at integers from 0 down."""
    a = abs(x)
    y = _near(a.at_most(_FAR))
    core = (y - 1.0) * (y - 2.0) * polynomial(y - 1.875, fits.LGAMMA[x.dtype])
    factors = select(a < _LEAST, a, 1.0)
    factor = y
    for _ in range(5):
        factors = select(factor + 1.0 <= a, factors * factor, factors)
        factor = factor + 1.0
    factors = select(a < _MOST, select(a < _LEAST, a, 1.0), factors)
    logarithm = log(select(a < _FAR, factors, a))
    inverse = 1.0 / a.at_least(_FAR)
    tail = horner(inverse * inverse, fits.LGAMMA_TAIL[x.dtype])
    far = fma(a - 0.5, logarithm - 1.0, fma(tail, inverse, _STIRLING))
    positive = select(a < _FAR, select(a < _LEAST, core - logarithm, core + logarithm), far)

    def reflected() -> Term:
        sine = abs(sin(_distance(a) * math.pi))
        negative = LOG_PI - log(sine) - log(a) - positive
        pole = _distance(a).equals(0.0) | a.equals(float("inf"))
        return select(x < 0.0, select(pole, float("inf"), negative), positive)

    return rare(x < 0.0, reflected, positive)


def digamma(x: Term) -> Term:
    """The derivative of log(gamma(x)); NaN at negative integers, -inf at 0 and inf at -0, as 1 / x has it."""
    form = x.dtype

    def of_positive(a: Term) -> Term:
        y = _near(a.at_most(_FAR))
        high, low = _ROOT[form]
        core = ((y - high) - low) * polynomial(y - 1.875, fits.DIGAMMA[form])
        above, below, term = a.const(0.0), a.const(1.0), y
        for _ in range(5):
            more = term + 1.0 <= a
            above, below = select(more, fma(above, term, below), above), select(more, below * term, below)
            term = term + 1.0
        above = select(a < _LEAST, -1.0, select(a < _MOST, 0.0, above))
        below = select(a < _LEAST, a, select(a < _MOST, 1.0, below))
        far = a.at_least(_FAR)
        inverse = 1.0 / far
        z = inverse * inverse
        tail = fma(z, horner(z, fits.DIGAMMA_TAIL[form]), inverse * 0.5)
        return select(a < _FAR, core + above / below, log(far) - tail)

    positive = of_positive(abs(x))

    def reflected() -> Term:
        # digamma(1 + a) is digamma(a) + 1 / a, and x is -a
        distance = _distance(x)
        cotangent = math.pi / tan(distance * math.pi)
        value = (positive - 1.0 / x) - cotangent
        outside = distance.equals(0.0) | x.equals(-float("inf"))
        value = select(outside, float("nan"), value)
        at_zero = select(x.equals(0.0), -1.0 / x, positive)
        return select(x < 0.0, value, at_zero)

    return rare(x <= 0.0, reflected, positive)


def tgamma(x: Term) -> Term:
    """gamma(x); NaN at negative integers, infinities of the sign of 0 there."""
    form = x.dtype
    a = abs(x)
    low = a.at_most(9.0)
    y = select(low < 1.0, low + 1.0, low - (low.op("floor") - 1.0))
    value = polynomial(y - 1.5, fits.GAMMA[form])
    factor = y
    for _ in range(7):
        value = select(factor + 1.0 <= low, value * factor, value)
        factor = factor + 1.0
    rise = value  # below 1: gamma(1 + a)
    near = select(a < 1.0, rise / a, rise)

    def far() -> Term:
        bound = a.at_least(9.0).at_most(172.0 if form == "f64" else 36.0)
        half = pow(bound, fma(bound, 0.5, -0.25))
        series = horner(1.0 / bound, fits.GAMMA_TAIL[form])
        return select(a < 9.0, near, half * exp(-bound) * series * half)

    positive = rare(a >= 9.0, far, near)

    def reflected() -> Term:
        distance = _distance(x)
        wave = sin(distance * math.pi)
        # the product of two small numbers may be 0 where the quotient by each is none
        value = select(a < 1.0, -math.pi / wave / rise, -math.pi / (wave * a) / positive)
        # sin(pi x) has the sign of the distance where the nearest integer is even
        half = x.op("roundeven") * 0.5
        odd = half.op("floor").differs(half)
        value = select(odd, value, -value)
        value = select(distance.equals(0.0) | x.equals(-float("inf")), float("nan"), value)
        return select(x < 0.0, value, select(x.equals(0.0), 1.0 / x, positive))

    return rare(x <= 0.0, reflected, positive)
