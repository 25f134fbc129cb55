"""The incomplete functions of gamma and beta, and derivatives of the former: series and continued fractions in loops.

Source: NIST Digital Library of Mathematical Functions 8.7.1, 8.9.2 (gamma), 8.17.22 (beta); the fractions by Wallis'
recurrence, scaled in every step, and by the method of Lentz.
"""

from __future__ import annotations

import math

from tracejit.ir.math import fits
from tracejit.ir.math.exp_log import exp, log, log1p, log_reduced
from tracejit.ir.math.gamma import digamma, lgamma
from tracejit.ir.math.hyperbolic import expm1
from tracejit.ir.math.loops import repeat, unit
from tracejit.ir.math.term import Term, fma, horner, select

__all__ = ["igamma", "igamma_grad_a", "igammac", "random_gamma_grad", "regularized_incomplete_beta"]

_MOST = 5000
"""Iterations.  Series and fraction need some multiple of sqrt(a) of them where x is near a."""
_LARGE = 8.0
"""From here on Stirling's formula is exact with the terms there are."""


def _log_less_linear(d: Term, quotient: Term) -> Term:
    """log(1 + d) - d, for 1 + d = quotient."""
    inside = d.at_least(-0.25).at_most(0.4)
    return select(d.equals(inside), log_reduced(inside), log(quotient) - d)


def _stirling(a: Term) -> Term:
    """What is left of log(gamma(a)) by Stirling's formula."""
    inverse = 1.0 / a
    return inverse * horner(inverse * inverse, fits.LGAMMA_TAIL[a.dtype])


def _gamma_factor(a: Term, x: Term) -> Term:
    """x**a exp(-x) / gamma(a + 1).  For large a in terms of x / a, so that large logarithms do not cancel."""
    plain = exp(a * log(x) - x - lgamma(a + 1.0))
    large = a.at_least(_LARGE)
    deviation = _log_less_linear((x - large) / large, x / large)
    far = exp(fma(large, deviation, -_stirling(large))) / (large * (2.0 * math.pi)).sqrt()
    return select(a < _LARGE, plain, far)


def _series(a: Term, x: Term) -> Term:
    """P(a, x) over the factor: the sum of x**k / ((a + 1) ... (a + k))."""
    least = unit(a)

    def body(total: Term, term: Term, n: Term) -> list[Term]:
        term = term * (x / n)
        return [total + term, term, n + 1.0]

    one = a.const(1.0)
    return repeat([one, one, a + 1.0], lambda total, term, n: term > total * least, body, _MOST)[0]


def _series_and_slope(a: Term, x: Term) -> tuple[Term, Term]:
    """The same, and its derivative in a."""
    least = unit(a)

    def test(total: Term, slope: Term, term: Term, change: Term, n: Term) -> Term:
        return (term > total * least) | (abs(change) > abs(slope) * least)

    def body(total: Term, slope: Term, term: Term, change: Term, n: Term) -> list[Term]:
        ratio = x / n
        change = (change - term / n) * ratio
        term = term * ratio
        return [total + term, slope + change, term, change, n + 1.0]

    one, zero = a.const(1.0), a.const(0.0)
    total, slope, *_ = repeat([one, zero, one, zero, a + 1.0], test, body, _MOST)
    return total, slope


def _fraction(a: Term, x: Term) -> Term:
    """Q(a, x) over a times the factor: 1 / (x + 1 - a + (a - 1) / (x + 3 - a + 2 (a - 2) / (x + 5 - a + ...))).

    p is a convergent whose denominator is scaled to 1; p0 / q0 is the one before.
    """
    least = unit(a)

    def body(p: Term, p0: Term, q0: Term, before: Term, n: Term) -> list[Term]:
        b, c = (x - a) + fma(n, 2.0, 1.0), n * (a - n)
        scale = 1.0 / fma(c, q0, b)
        return [fma(b, p, c * p0) * scale, p * scale, scale, p, n + 1.0]

    first = 1.0 / (x - a + 1.0)
    state = [first, a.const(0.0), first, a.const(0.0), a.const(1.0)]
    return repeat(state, lambda p, p0, q0, before, n: abs(p - before) > abs(p) * least, body, _MOST)[0]


def _fraction_and_slope(a: Term, x: Term) -> tuple[Term, Term]:
    """The same, and its derivative in a; of the scaled convergents dp, dq, dp0, dq0 are the derivatives."""
    least = unit(a)

    def test(*state: Term) -> Term:
        p, dp, dq, _, _, _, _, before, slope, _ = state
        now, width = dp - p * dq, abs(dp) + abs(p * dq)
        return (abs(p - before) > abs(p) * least) | (abs(now - slope) > width * least)

    def body(*state: Term) -> list[Term]:
        p, dp, dq, p0, q0, dp0, dq0, _, _, n = state
        b, c = (x - a) + fma(n, 2.0, 1.0), n * (a - n)
        scale = 1.0 / fma(c, q0, b)
        more = fma(b, dp, c * dp0) + (n * p0 - p)
        below = fma(b, dq, c * dq0) + (n * q0 - 1.0)
        after = [fma(b, p, c * p0) * scale, more * scale, below * scale, p * scale, scale, dp * scale, dq * scale]
        return [*after, p, dp - p * dq, n + 1.0]

    first, zero = 1.0 / (x - a + 1.0), a.const(0.0)
    state = [first, zero, -first, zero, first, zero, zero, zero, zero, a.const(1.0)]
    p, dp, dq, *_ = repeat(state, test, body, _MOST)
    return p, dp - p * dq


def _by_series(a: Term, x: Term) -> tuple[Term, Term, Term]:
    """Whether the series serves, and x for it and for the fraction: easy ones where the other one serves."""
    near = x < a + 1.0
    return near, select(near, x, 0.0), select(near, fma(a, 4.0, 100.0), x.at_most(1e30))


def igamma(a: Term, x: Term) -> Term:
    """The regularised lower incomplete gamma function P(a, x); NaN outside of a >= 0, x >= 0, and at 0, 0."""
    near, small, large = _by_series(a, x)
    factor = _gamma_factor(a, x)
    value = select(near, factor * _series(a, small), 1.0 - factor * a * _fraction(a, large))
    value = select(x.equals(0.0) | a.equals(float("inf")), 0.0, value)
    value = select((x.equals(float("inf")) & (a < float("inf"))) | (a.equals(0.0) & (x > 0.0)), 1.0, value)
    return select((a >= 0.0) & (x >= 0.0) & (a + x > 0.0), value, float("nan"))


_LGAMMA_OF_ONE = (
    -0.5772156649015329,
    0.8224670334241132,
    -0.40068563438653143,
    0.27058080842778454,
    -0.20738555102867398,
    0.1695571769974082,
    -0.1440498967688461,
    0.12550966952474304,
    -0.11133426586956469,
    0.1000994575127818,
    -0.09095401714582904,
    0.083353840546109,
    -0.0769325164113522,
    0.07143294629536133,
    -0.06666870588242046,
    0.06250095514121304,
    -0.058823978658684585,
    0.055555767627403614,
    -0.05263167937961666,
    0.05000004769810169,
    -0.047619070330142226,
    0.04545455629320467,
    -0.04347826605304026,
    0.04166666915034121,
)
"""log(gamma(1 + a)) by powers of a from the first on: minus Euler's constant, zeta(2) / 2, -zeta(3) / 3, ..."""
_TINY = 0.2
"""Below this `_LGAMMA_OF_ONE` is exact, and 1 - P(a, x) is not where x is small."""


def _of_tiny(a: Term, x: Term) -> Term:
    """Q(a, x) of a < `_TINY` and x < a + 1: 1 - x**a / gamma(1 + a), less x**a / gamma(1 + a) times the other terms of
    DLMF 8.7.3.
    """
    exponent = a * (log(x) - horner(a, _LGAMMA_OF_ONE))

    def body(total: Term, term: Term, n: Term) -> list[Term]:
        term = term * (-x / n)
        return [total + term / (a + n), term, n + 1.0]

    start = [a.const(0.0), a.const(1.0), a.const(1.0)]
    total = repeat(start, lambda total, term, n: n < 28.0, body, 30)[0]
    return -expm1(exponent) - exp(exponent) * a * total


def igammac(a: Term, x: Term) -> Term:
    """The regularised upper incomplete gamma function Q(a, x); NaN outside of a >= 0, x >= 0, and at 0, 0."""
    near, small, large = _by_series(a, x)
    factor = _gamma_factor(a, x)
    tiny = near & (a < _TINY)
    by_series = select(tiny, _of_tiny(a, select(tiny, x, 1.0)), 1.0 - factor * _series(a, small))
    value = select(near, by_series, factor * a * _fraction(a, large))
    value = select(x.equals(0.0) | a.equals(float("inf")), 1.0, value)
    value = select((x.equals(float("inf")) & (a < float("inf"))) | (a.equals(0.0) & (x > 0.0)), 0.0, value)
    return select((a >= 0.0) & (x >= 0.0) & (a + x > 0.0), value, float("nan"))


def _slope(a: Term, x: Term) -> Term:
    """The derivative of P(a, x) in a, over the factor."""
    near, small, large = _by_series(a, x)
    total, rise = _series_and_slope(a, small)
    fraction, fall = _fraction_and_slope(a, large)
    logarithm, psi = log(x), digamma(a)
    low = fma(total, (logarithm - psi) - 1.0 / a, rise)
    return select(near, low, -a * fma(fraction, logarithm - psi, fall))


def igamma_grad_a(a: Term, x: Term) -> Term:
    """The derivative of igamma(a, x) in a."""
    value = _gamma_factor(a, x) * _slope(a, x)
    value = select(x.equals(0.0) | x.equals(float("inf")), 0.0, value)
    return select((a > 0.0) & (x >= 0.0), value, float("nan"))


def random_gamma_grad(a: Term, x: Term) -> Term:
    """How a sample x of the gamma distribution changes with a: -igamma_grad_a over the density."""
    value = select(x.equals(0.0), 0.0, -(x / a) * _slope(a, x))
    return select((a > 0.0) & (x >= 0.0), value, float("nan"))


def _beta_factor(a: Term, b: Term, x: Term) -> Term:
    """x**a (1 - x)**b / beta(a, b).  Where a or b is large in terms of its part of the sum, as the factor of gamma."""
    rest = 1.0 - x
    plain = exp(fma(a, log(x), b * log1p(-x)) - ((lgamma(a) - lgamma(a + b)) + lgamma(b)))
    order = a >= b
    greater, less = select(order, a, b).at_least(_LARGE), select(order, b, a)
    at, beside = select(order, x, rest), select(order, rest, x)
    both = greater + less
    ratio = both / greater
    first = greater * _log_less_linear(fma(less, at, -(greater * beside)) / greater, at * ratio)
    correction = _stirling(both) - _stirling(greater)
    scaled = both * beside
    one = exp(first + fma(less, log(scaled), -scaled) + correction - lgamma(less)) / ratio.sqrt()
    other = less.at_least(_LARGE)
    second = other * _log_less_linear(fma(greater, beside, -(other * at)) / other, beside * (both / other))
    two = exp(first + second + correction - _stirling(other)) * (greater / both * other / (2.0 * math.pi)).sqrt()
    far = select(less < _LARGE, one, two)
    return select((a < _LARGE) & (b < _LARGE), plain, far)


def _beta_fraction(a: Term, b: Term, x: Term) -> Term:
    """The continued fraction of the incomplete beta function for x below (a + 1) / (a + b + 2)."""
    least, tiny = unit(a), a.format.tiny
    sum_ = a + b

    def above(v: Term) -> Term:
        return select(abs(v) < tiny, tiny, v)

    def body(value: Term, c: Term, d: Term, change: Term, n: Term) -> list[Term]:
        twice = a + n * 2.0
        even = n * (b - n) * x / ((twice - 1.0) * twice)
        d, c = 1.0 / above(fma(even, d, 1.0)), above(1.0 + even / c)
        value = value * (d * c)
        odd = -(a + n) * (sum_ + n) * x / (twice * (twice + 1.0))
        d, c = 1.0 / above(fma(odd, d, 1.0)), above(1.0 + odd / c)
        change = d * c
        return [value * change, c, d, change, n + 1.0]

    first = 1.0 / above(1.0 - sum_ * x / (a + 1.0))
    state = [first, a.const(1.0), first, a.const(2.0), a.const(1.0)]
    return repeat(state, lambda value, c, d, change, n: abs(change - 1.0) > least, body, _MOST)[0]


def regularized_incomplete_beta(a: Term, b: Term, x: Term) -> Term:
    """I_x(a, b); NaN outside of a >= 0, b >= 0, 0 <= x <= 1, and where both are 0."""
    swap = x * (a + b + 2.0) > a + 1.0
    first, second = select(swap, b, a), select(swap, a, b)
    part = _beta_factor(a, b, x) * _beta_fraction(first, second, select(swap, 1.0 - x, x)) / first
    value = select(swap, 1.0 - part, part)
    value = select(x.equals(0.0) | (b.equals(0.0) & (a > 0.0)), 0.0, value)
    value = select(x.equals(1.0) | (a.equals(0.0) & (b > 0.0)), 1.0, value)
    return select((a >= 0.0) & (b >= 0.0) & (a + b > 0.0) & (x >= 0.0) & (x <= 1.0), value, float("nan"))
