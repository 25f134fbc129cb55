"""Integrals that have names: exponential, sine and cosine, of Fresnel, Dawson, Owen, and the dilogarithm.

Series near 0, continued fractions beyond.  Source: NIST Digital Library of Mathematical Functions 6.6.2, 6.9.1, 6.12.2,
7.6.4, 7.9.3, 8.19.8, 8.19.17, 25.12.6; Owen 1956.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from tracejit.ir.math.double_word import product
from tracejit.ir.math.exp_log import exp, log, log1p
from tracejit.ir.math.gamma import digamma, tgamma
from tracejit.ir.math.inverse_trig import atan
from tracejit.ir.math.loops import repeat, unit
from tracejit.ir.math.power import pow
from tracejit.ir.math.special import erfc
from tracejit.ir.math.term import Term, fma, horner, rare, select
from tracejit.ir.math.trig import cos, sin
from tracejit.ir.math.zeta import BERNOULLI

__all__ = ["cosine_integral", "dawsn", "expi", "expn", "fresnel_c", "fresnel_s", "owens_t", "sine_integral", "spence"]

_MOST = 2000
_EULER = 0.5772156649015329


def expn(n: Term, x: Term) -> Term:
    """The integral of exp(-x t) / t**n over t from 1 on; NaN for negative x, and where n is no integer from 0 on."""
    least = unit(x)
    near = x <= 1.0
    small, large = select(near, x, 1.0), select(near, 2.0, x.at_most(1e4))

    def add(total: Term, term: Term, k: Term, last: Term) -> list[Term]:
        term = -term * small / k
        apart = (k - n) + 1.0
        last = select(apart.equals(0.0), term, term / select(apart.equals(0.0), 1.0, apart))
        return [select(apart.equals(0.0), total, total - last), term, k + 1.0, last]

    def goes_on(total: Term, term: Term, k: Term, last: Term) -> Term:
        return (abs(last) > abs(total) * least) | (k < n + 2.0)

    one = x.const(1.0)
    first = select(n.equals(1.0), 0.0, -1.0 / select(n.equals(1.0), 1.0, 1.0 - n))
    series = repeat([first, one, one, one], goes_on, add, _MOST)[0]
    order = n.at_least(1.0)
    half = order * 0.5
    sign = select(half.op("floor").equals(half), -1.0, one)
    pole = sign * pow(small, order - 1.0) / tgamma(order) * (digamma(order) - log(small))
    series = series + pole

    def step(value: Term, c: Term, d: Term, change: Term, k: Term) -> list[Term]:
        a, b = -k * (n + k - 1.0), large + n + 2.0 * k
        d, c = 1.0 / fma(a, d, b), b + a / c
        change = c * d
        return [value * change, c, d, change, k + 1.0]

    begin = 1.0 / (large + n)
    state = [begin, x.const(1e30), begin, x.const(2.0), one]
    fraction = repeat(state, lambda value, c, d, change, k: abs(change - 1.0) > least, step, _MOST)[0]
    value = select(near, series, fraction * exp(-large))
    value = select(n.equals(0.0), exp(-x) / x, value)
    at_zero = select(n > 1.0, 1.0 / (n - 1.0), float("inf"))
    value = select(x.equals(0.0), at_zero, select(x > 1e4, 0.0, value))
    return select((x >= 0.0) & (n >= 0.0) & n.op("floor").equals(n), value, float("nan"))


def expi(x: Term) -> Term:
    """The principal value of the integral of exp(t) / t from minus infinity to x."""
    least = unit(x)
    positive = x > 0.0
    far = x > 40.0
    small, large = select(positive, x, 1.0).at_most(40.0), x.at_least(40.0)

    def add(total: Term, term: Term, k: Term) -> list[Term]:
        term = term * small / k
        return [total + term / k, term, k + 1.0]

    one = x.const(1.0)
    total = repeat([x.const(0.0), one, one], lambda total, term, k: term > total * least, add, _MOST)[0]
    near = total + (log(small) + _EULER)

    def shrink(total: Term, term: Term, k: Term) -> list[Term]:
        term = term * k / large
        return [total + term, term, k + 1.0]

    tail = repeat([one, one, one], lambda total, term, k: (term > least) & (k < 39.0), shrink, 40)[0]
    bound = large.at_most(750.0)
    half = exp(bound * 0.5)
    beyond = half / bound * tail * half
    value = select(far, beyond, near)
    value = select(positive, value, -expn(one, select(positive, 1.0, -x)))
    return select(x.equals(0.0), -float("inf"), select(x.equals(float("inf")), x, value))


def spence(x: Term) -> Term:
    """The integral of log(t) / (1 - t) from 1 to x; NaN for negative x."""
    low, high = x < 0.5, x > 2.0
    inverse = 1.0 / select(high, x, 2.0)
    part = select(low, x, inverse)  # up to a half
    outside = low | high
    middle = select(outside, 1.0, x)
    u = select(outside, -log1p(-select(outside, part, 0.0)), -log(middle))
    square = u * u
    series = u.const(0.0)
    for k in reversed(range(10)):
        series = fma(series, square, BERNOULLI[k] / math.factorial(2 * k + 3))
    # with z = 1 - exp(-u) this is the dilogarithm of z
    value = fma(fma(series, u, -0.25) * u, u, u)
    logarithm = log(select(outside, part, 1.0))
    mirrored = (math.pi**2 / 6.0 - value) + logarithm * u
    result = select(low, mirrored, select(high, fma(logarithm, logarithm * -0.5, -mirrored), value))
    result = select(x.equals(0.0), math.pi**2 / 6.0, select(x.equals(float("inf")), -x, result))
    return select(x >= 0.0, result, float("nan"))


def _inverse(x: Term, y: Term) -> tuple[Term, Term]:
    """1 / (x + i y)"""
    size = fma(x, x, y * y)
    return x / size, -y / size


def _times(a: Term, b: Term, c: Term, d: Term) -> tuple[Term, Term]:
    """(a + i b)(c + i d)"""
    return fma(a, c, -(b * d)), fma(a, d, b * c)


def _fraction(real: Term, imaginary: Term, step: float, numerator: Callable[[Term], Term]) -> tuple[Term, Term]:
    """1 / (b + a1 / (b + step + a2 / (b + 2 step + ...))) for b = real + i imaginary, by the method of Lentz."""
    least = unit(real)

    def test(*state: Term) -> Term:
        *_, u, v, _ = state
        return abs(u - 1.0) + abs(v) > least

    def body(*state: Term) -> list[Term]:
        h, hi, c, ci, d, di, _, _, n = state
        a, b = numerator(n), fma(n, step, real)
        d, di = _inverse(fma(a, d, b), fma(a, di, imaginary))
        e, ei = _inverse(c, ci)
        c, ci = fma(a, e, b), fma(a, ei, imaginary)
        u, v = _times(c, ci, d, di)
        h, hi = _times(h, hi, u, v)
        return [h, hi, c, ci, d, di, u, v, n + 1.0]

    first, second = _inverse(real, imaginary)
    zero = real.const(0.0)
    state = [first, second, real.const(1e30), zero, first, second, real.const(2.0), zero, real.const(1.0)]
    h, hi, *_ = repeat(state, test, body, _MOST)
    return h, hi


def _sine_and_cosine_integral(x: Term) -> tuple[Term, Term]:
    """Si and Ci of positive numbers."""
    least = unit(x)
    near = x < 2.0
    small, large = select(near, x, 1.0), select(near, 4.0, x)

    def add(odd: Term, even: Term, term: Term, k: Term) -> list[Term]:
        term = -term * small / k  # of even order
        even = even + term / k
        k = k + 1.0
        term = term * small / k
        return [odd + term / k, even, term, k + 1.0]

    state = [small, x.const(0.0), small, x.const(2.0)]
    odd, even, *_ = repeat(state, lambda odd, even, term, k: abs(term) > small * least, add, _MOST)
    h, hi = _fraction(large.const(1.0), large, 2.0, lambda n: -(n * n))
    c, s = cos(large), sin(large)
    real, imaginary = _times(h, hi, c, -s)
    sine = select(near, odd, imaginary + math.pi / 2.0)
    cosine = select(near, even + (log(small) + _EULER), -real)
    return sine, cosine


def sine_integral(x: Term) -> Term:
    """The integral of sin(t) / t from 0 to x."""
    a = abs(x)
    value = _sine_and_cosine_integral(a.at_most(1e15))[0]
    return select(x.equals(0.0), x, select(a > 1e15, math.pi / 2.0, value).with_sign_of(x))


def cosine_integral(x: Term) -> Term:
    """The integral of cos(t) / t from |x| to infinity, negated: the real part of the function for negative x."""
    a = abs(x)
    value = _sine_and_cosine_integral(a.at_most(1e15))[1]
    value = rare(a > 1e15, lambda: sin(a) / a, value)
    return select(x.equals(0.0), -float("inf"), select(a.equals(float("inf")), 0.0, value))


def _fresnel(x: Term) -> tuple[Term, Term]:
    """S and C of numbers from 0 on."""
    least = unit(x)
    near = x < 1.5
    small, large = select(near, x, 1.0), select(near, 4.0, x)
    angle = small * small * (math.pi / 2.0)

    def add(s: Term, c: Term, term: Term, k: Term) -> list[Term]:
        term = term * angle / k  # of odd k
        s = s + term / (k * 2.0 + 1.0)
        k = k + 1.0
        term = -term * angle / k
        return [s, c + term / (k * 2.0 + 1.0), term, k + 1.0]

    state = [x.const(0.0), small, small, x.const(1.0)]
    sine, cosine, *_ = repeat(state, lambda s, c, term, k: abs(term) > small * least, add, _MOST)
    square, rest = product(large, large)
    h, hi = _fraction(large.const(1.0), square * -math.pi, 4.0, lambda n: -(n * 2.0 - 1.0) * (n * 2.0))
    turn = ((square - (square * 0.25).op("roundeven") * 4.0) + rest) * (math.pi / 2.0)
    real, imaginary = _times(h * large, hi * large, turn.const(1.0), turn.const(-1.0))
    real, imaginary = _times(real, imaginary, cos(turn), sin(turn))
    real, imaginary = _times(1.0 - real, -imaginary, turn.const(0.5), turn.const(0.5))
    return select(near, sine, imaginary), select(near, cosine, real)


def fresnel_s(x: Term) -> Term:
    """The integral of sin(pi t**2 / 2) from 0 to x."""
    a = abs(x)
    value = select(a > _FAR_FRESNEL[x.dtype], 0.5, _fresnel(a.at_most(_FAR_FRESNEL[x.dtype]))[0])
    return value.with_sign_of(x)


def fresnel_c(x: Term) -> Term:
    """The integral of cos(pi t**2 / 2) from 0 to x."""
    a = abs(x)
    value = select(a > _FAR_FRESNEL[x.dtype], 0.5, _fresnel(a.at_most(_FAR_FRESNEL[x.dtype]))[1])
    return value.with_sign_of(x)


_FAR_FRESNEL = {"f32": 1e8, "f64": 1e17}
"""Beyond these the integrals are a half."""


def dawsn(x: Term) -> Term:
    """exp(-x**2) times the integral of exp(t**2) from 0 to x."""
    least = unit(x)
    a = abs(x).at_most(1e5)
    double = a * a * 2.0

    def step(p: Term, p0: Term, q0: Term, before: Term, k: Term) -> list[Term]:
        b, c = double + fma(k, 2.0, 1.0), -(double * 2.0) * k
        scale = 1.0 / fma(c, q0, b)
        return [fma(b, p, c * p0) * scale, p * scale, scale, p, k + 1.0]

    first = 1.0 / (double + 1.0)
    state = [first, x.const(0.0), first, x.const(0.0), x.const(1.0)]
    value = repeat(state, lambda p, p0, q0, before, k: abs(p - before) > p * least, step, _MOST)[0]
    series, factors = [1.0], 1.0
    for k in range(1, 10):
        factors *= 2 * k + 1
        series.append((-2.0) ** k / factors)
    low = a.at_most(0.3)
    value = select(a < 0.3, horner(low * low, series), value) * a
    return select(abs(x) > 1e5, 0.5 / abs(x), value).with_sign_of(x)


@cache
def _legendre() -> list[tuple[float, float]]:
    """Points and weights of Gauss' quadrature on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(28)
    return [(float(p) / 2.0 + 0.5, float(w) / 2.0) for p, w in zip(points, weights, strict=True)]


def owens_t(h: Term, a: Term) -> Term:
    """The probability of X > h and 0 < Y < a X for independent normal X and Y."""
    height, slope = abs(h), abs(a)
    steep = slope > 1.0
    x, y = select(steep & height.differs(0.0), height * slope, height), select(steep, 1.0 / slope, slope)
    bound = select(y * x > 9.0, 9.0 / x, y)
    half = x * x * -0.5
    total = h.const(0.0)
    for point, weight in _legendre():
        t = bound * point
        spread = fma(t, t, 1.0)
        total = total + exp(half * spread) / spread * weight
    value = select(x.equals(0.0), atan(y), total * bound) * (1.0 / (2.0 * math.pi))
    first, second = erfc(height * math.sqrt(0.5)) * 0.5, erfc(x * math.sqrt(0.5)) * 0.5
    turned = fma(-first, second, (first + second) * 0.5) - value
    value = select(steep, turned, value)
    value = select(height.equals(float("inf")), 0.0, value)
    return select(a.equals(0.0) | (h.differs(h)), a * 0.0 + h * 0.0, value).with_sign_of(a)
