"""log(gamma(z)), digamma and its derivatives of complex numbers: Stirling's formula, recurrences to it, reflections.

Everything is computed in the upper half plane and conjugated back.
Source: Hare 1997, "Computing the principal branch of log-gamma"; SciPy's loggamma; NIST Digital Library of Mathematical
Functions 5.5, 5.7, 5.11, 5.15.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tracejit.ir.math import complex as c
from tracejit.ir.math.loops import repeat
from tracejit.ir.math.term import Term, fma, select

__all__ = ["log_gamma", "polygamma"]

Complex = tuple[Term, Term]
_FAR = 7.0
"""From this distance on Stirling's formula has all digits."""
_NEAR = 0.2
"""Around 1 and 2, where log(gamma) is 0, a series has them."""
_TAIL = 9
_REFLECTED = 0.1


def _bernoulli(count: int) -> list[Fraction]:
    """The numbers of even index from 2 on."""
    found = [Fraction(1)]
    for m in range(1, 2 * count + 1):
        found.append(-sum((math.comb(m + 1, k) * b for k, b in enumerate(found)), Fraction(0)) / (m + 1))
    return found[2::2]


_BERNOULLI = _bernoulli(12)
_STIRLING = [float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(_BERNOULLI[:_TAIL], 1)]


def _zeta(n: int) -> float:
    """The sum of k**-n, by Euler and Maclaurin."""
    last = 12
    head = math.fsum(float(k) ** -n for k in range(1, last))
    tail = [last ** (1.0 - n) / (n - 1), 0.5 * float(last) ** -n]
    rising = float(n)
    for k, b in enumerate(_BERNOULLI[:6], 1):
        tail.append(float(b) / math.factorial(2 * k) * rising * float(last) ** (1 - n - 2 * k))
        rising *= (n + 2 * k - 1) * (n + 2 * k)
    return math.fsum([head, *tail])


_AROUND_ONE = [-0.5772156649015329, *[(-1) ** n * _zeta(n) / n for n in range(2, 24)]]
"""log(gamma(1 + w)) / w"""


def _real_polynomial(z: Complex, coefficients: list[float]) -> Complex:
    """Of real coefficients at a complex place: two operations of real numbers each (Knuth)."""
    x, y = z
    if len(coefficients) == 1:
        return x.const(coefficients[0]), x.const(0.0)
    twice, square = x + x, -fma(x, x, y * y)
    first, second = x.const(coefficients[-1]), x.const(0.0)
    for a in reversed(coefficients[1:-1]):
        first, second = fma(twice, first, fma(square, second, a)), first
    return fma(x, first, fma(square, second, coefficients[0])), first * y


def _inverse(z: Complex) -> Complex:
    return c.quotient((z[0].const(1.0), z[0].const(0.0)), z)


def _chosen(condition: Term, yes: Complex, no: Complex) -> Complex:
    return select(condition, yes[0], no[0]), select(condition, yes[1], no[1])


def _upper(z: Complex) -> tuple[Complex, Term]:
    """(z or its conjugate, 1 or -1: what the imaginary part of the result is multiplied by)"""
    return (z[0], abs(z[1])), z[1].const(1.0).with_sign_of(z[1])


def _distance(x: Term) -> Term:
    """x less the nearest integer: exact."""
    return x - x.op("roundeven")


def _is_pole(z: Complex) -> Term:
    return (z[0] <= 0.0) & z[1].equals(0.0) & _distance(z[0]).equals(0.0)


# -- log gamma ---------------------------------------------------------------------------------------------------------
def log_gamma(z: Complex) -> Complex:
    """The branch of log(gamma(z)) that is real for positive numbers and cut along the negative ones; NaN at the poles
    and of what is not finite.
    """
    (x, y), sign = _upper(z)
    back = (x < _REFLECTED) & (y <= _FAR)
    right = select(back, 1.0 - x, x), y  # instead of the conjugate
    there = _of_right(right)

    def reflected() -> Complex:
        wave = _log_sine((x, y))
        turns = (fma(x, 0.5, 0.25).op("floor")) * (2.0 * math.pi)
        found = math.log(math.pi) - wave[0] - there[0], turns - wave[1] + there[1]
        return _chosen(back, found, there)

    real, imaginary = c.where(back, reflected, lambda: there)
    nowhere = _is_pole(z) | ~((abs(x) < float("inf")) & (y < float("inf")))
    nan = float("nan")
    return select(nowhere, nan, real), select(nowhere, nan, imaginary * sign)


def _of_right(z: Complex) -> Complex:
    """Of the right half plane, and of the left one far from the real axis."""
    x, y = z
    product: Complex = (x.const(1.0), x.const(0.0))
    turns, near = x.const(0.0), y <= _FAR
    for _ in range(int(_FAR)):
        short = near & (x < _FAR)
        more = c.times(product, (x, y))
        crossed = short & (more[1] < 0.0) & (product[1] >= 0.0)
        turns = select(crossed, turns + 2.0 * math.pi, turns)
        product = _chosen(short, more, product)
        x = select(short, x + 1.0, x)
    logarithm, inverse = c.log((x, y)), _inverse((x, y))
    tail = c.times(inverse, _real_polynomial(c.times(inverse, inverse), _STIRLING))
    main = c.times((x - 0.5, y), (logarithm[0] - 1.0, logarithm[1]))
    steps = c.log(product)
    far = main[0] + (tail[0] + (0.5 * math.log(2.0 * math.pi) - 0.5)) - steps[0], main[1] + tail[1] - steps[1] - turns
    low = z[0] < 1.5
    w = z[0] - select(low, z[0].const(1.0), 2.0), y
    close = fma(w[0], w[0], y * y) < _NEAR * _NEAR
    w = _chosen(close, w, (y.const(0.0), y.const(0.0)))
    series = c.times(w, _real_polynomial(w, _AROUND_ONE))
    beyond = c.log1p(w)
    series = _chosen(low, series, (series[0] + beyond[0], series[1] + beyond[1]))
    return _chosen(close, series, far)


def _log_sine(z: Complex) -> Complex:
    """log(sin(pi z)) of the upper half plane, not far from the real axis."""
    x, y = z
    near, half = _distance(x) * math.pi, x.op("roundeven") * 0.5
    odd = half.op("floor").differs(half)
    s, t = near.op("sin"), near.op("cos")
    s, t = select(odd, -s, s), select(odd, -t, t)
    high = y * math.pi
    return c.log((s * high.op("cosh"), t * high.op("sinh")))


# -- digamma and its derivatives ---------------------------------------------------------------------------------------
def polygamma(order: int, z: Complex) -> Complex:
    """The derivative of digamma of an order from 0 on; NaN at the poles."""
    (x, y), sign = _upper(z)
    back = x < 0.0
    there = _of_positive(order, (select(back, 1.0 - x, x), y))  # instead of the conjugate

    def reflected() -> Complex:
        wave = _cotangent(order, (x, y))
        turned = (there[0], -there[1]) if order % 2 == 0 else (-there[0], there[1])
        return _chosen(back, (turned[0] - wave[0], turned[1] - wave[1]), there)

    real, imaginary = c.where(back, reflected, lambda: there)
    pole, nan = _is_pole(z), float("nan")
    return select(pole, nan, real), select(pole, nan, select(y.equals(0.0), y, imaginary * sign))


def _of_positive(order: int, z: Complex) -> Complex:
    """Of the right half plane: sums of powers down from where the series has all digits."""
    far, sign = float(10 + order), (-1.0) ** (order + 1)

    def short(x: Term, *_: Term) -> Term:
        return (x < far) & (z[1] < far)

    def step(x: Term, a: Term, b: Term) -> list[Term]:
        inverse = _inverse((x, z[1]))
        power = inverse
        for _ in range(order):
            power = c.times(power, inverse)
        return [x + 1.0, a + power[0], b + power[1]]

    zero = z[0].const(0.0)
    x, a, b = repeat([z[0], zero, zero], short, step, int(far))
    inverse = _inverse((x, z[1]))
    square = c.times(inverse, inverse)
    # order 0: log z - 1 / 2z - ..; others: (order - 1)! / z**order + order! / 2 z**(order + 1) + ..
    terms = [
        float(b * Fraction(math.factorial(2 * k + order - 1), math.factorial(2 * k)))
        for k, b in enumerate(_BERNOULLI, 1)
    ]
    tail = c.times(square, _real_polynomial(square, terms))
    half = 0.5 * math.factorial(order)
    series = tail[0] + inverse[0] * half, tail[1] + inverse[1] * half
    if order == 0:
        logarithm = c.log((x, z[1]))
        return logarithm[0] - (series[0] + a), logarithm[1] - (series[1] + b)
    series = series[0] + float(math.factorial(order - 1)), series[1]
    for _ in range(order):
        series = c.times(series, inverse)
    size = float(math.factorial(order))
    return (series[0] + a * size) * sign, (series[1] + b * size) * sign


def _cotangent(order: int, z: Complex) -> Complex:
    """The derivative of an order of pi cot(pi z) in the upper half plane: sums of k**order q**k, q = exp(2 pi i z)."""
    a, b = z[1] * (-2.0 * math.pi), _distance(z[0]) * (2.0 * math.pi)
    less, rest = c.exp((a, b)), c.expm1((a, b))
    over = _inverse((-rest[0], -rest[1]))  # 1 / (1 - q)
    found = c.times(less, over)
    if order > 0:
        found = c.times(found, _real_polynomial(less, _eulerian(order)))
        for _ in range(order):
            found = c.times(found, over)
    size = (2.0 * math.pi) ** (order + 1)
    real, imaginary = found[0] * size, found[1] * size
    for _ in range(order + 1):
        real, imaginary = -imaginary, real
    real, imaginary = -real, -imaginary
    return (real, imaginary - math.pi) if order == 0 else (real, imaginary)


def _eulerian(order: int) -> list[float]:
    """Of the sum of k**order q**k, which is q times this polynomial over (1 - q)**(order + 1)."""
    row = [1]
    for n in range(2, order + 1):
        row = [
            (k + 1) * (row[k] if k < n - 1 else 0) + (n - k) * (row[k - 1] if k > 0 else 0) for k in range(n)
        ]  # fmt: skip
    return [float(a) for a in row]
