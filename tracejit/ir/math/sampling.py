"""Random numbers as formulae: the block function Threefry, and samplers that try until a number is accepted.

Each element has words of its own, and attempt n of a sampler is the block of these words at the counter n: nothing is
carried but n, so elements are computed in any order, on any backend, with the same bits.
Sources: J. Salmon, M. Moraes, R. Dror, D. Shaw, Parallel random numbers: as easy as 1, 2, 3, SC11, 2011.
G. Marsaglia, W. W. Tsang, A simple method for generating gamma variables, ACM TOMS 26, 2000.
W. Hörmann, The transformed rejection method for generating Poisson random variables, Insurance 12, 1993, and
The generation of binomial random variates, JSCS 46, 1993.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir.math.exp_log import exp, log, log1p
from tracejit.ir.math.gamma import lgamma
from tracejit.ir.math.special import erf_inv
from tracejit.ir.math.term import Term, fma, select

__all__ = ["binomial_sample", "gamma_sample", "loggamma_sample", "poisson_sample", "threefry", "unit_float"]

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_ATTEMPTS = 200
"""One in ten fails at most: so many in a row do not happen.  It ends the loops of elements that no number suits."""
_STEPS = 200
"""More than a count of mean 10 ever is, in either format."""


def threefry(k0: Term, k1: Term, x0: Term, x1: Term) -> tuple[Term, Term]:
    """The block (x0, x1) under the key (k0, k1): 20 rounds of Threefry-2x32, all u32."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for n in range(5):
        for r in ROTATIONS[n % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0
        x0, x1 = x0 + keys[(n + 1) % 3], x1 + keys[(n + 2) % 3] + (n + 1)
    return x0, x1


def unit_float(high: Term, low: Term, dtype: str) -> Term:
    """A number in [0, 1) of two u32 words: the fraction of one in [1, 2).  dtype: of f16, f32, f64."""
    if dtype == "f64":
        fraction = (high.convert("u64") << 20) | (low >> 12).convert("u64")
        return (fraction | 0x3FF0000000000000).bitcast("f64") - 1.0
    mixed = high ^ low
    if dtype == "f16":  # a multiple of 2**-10: exact in every format
        return ((mixed.convert("u16") >> 6).convert("f32") * 2.0**-10).convert("f16")
    return ((mixed >> 9) | 0x3F800000).bitcast("f32") - 1.0


def _number(like: Term, words: tuple[Term, Term]) -> Term:
    return unit_float(*words, like.dtype)


def _two_numbers(like: Term, word0: Term, word1: Term, n: Term) -> tuple[Term, Term]:
    """Two numbers in [0, 1) of attempt n, in the format of `like`."""
    first = threefry(word0, word1, n, n.const(0))
    if like.dtype == "f64":
        return _number(like, first), _number(like, threefry(word0, word1, n, n.const(1)))
    zero = n.const(0)
    return unit_float(first[0], zero, like.dtype), unit_float(first[1], zero, like.dtype)


def _normal(unit: Term) -> Term:
    """A normal number from a uniform one."""
    least = -1.0 + 2.0 ** (-53 if unit.dtype == "f64" else -24)
    return erf_inv(fma(unit, 2.0, least).at_least(least)) * math.sqrt(2.0)


def _until(
    going: Term, first: Sequence[Term], attempt: Callable[..., tuple[Term, Sequence[Term]]], most: int, word: Term
) -> list[Term]:
    """What the first attempt to be accepted gives, where `going`; `first` where not, and after `most` attempts.

    attempt: of its number, u32, and what the one before gave -> whether it is accepted, what it gives.
    """
    b: Any = going.b

    def terms(operands: Sequence[Any]) -> list[Term]:
        return [Term(b, x) for x in operands]

    def test(operands: Sequence[Any]) -> Any:
        return operands[0]

    def body(operands: Sequence[Any]) -> list[Any]:
        _, n, *values = terms(operands)
        accepted, made = attempt(n, *values)
        return [x.operand for x in ((~accepted) & (n < most), n + 1, *made)]

    return terms(b.while_loop([x.operand for x in (going, word.const(0), *first)], test, body))[2:]


def _gamma(word0: Term, word1: Term, a: Term) -> tuple[Term, Term, Term]:
    """(d, v, l): d * v * exp(l) is gamma distributed; infinite or NaN where a is, or is negative."""
    sound = (a > 0.0) & (a < float("inf"))
    low = a < 1.0
    d = select(sound, select(low, a + 1.0, a), 1.0) - 1.0 / 3.0
    c = (1.0 / 3.0) / d.sqrt()

    def attempt(n: Term, _: Term) -> tuple[Term, Sequence[Term]]:
        first, u = _two_numbers(a, word0, word1, n)
        x = _normal(first)
        t = fma(x, c, 1.0)
        v = t * t * t
        bound = fma(x * x, 0.5, d * (1.0 - v + log(v)))
        return (t > 0.0) & (log(u) < bound), (v,)

    (v,) = _until(sound, [a.const(1.0)], attempt, _ATTEMPTS, word0)
    # 1 - u is never zero
    u = _number(a, threefry(word0, word1, word0.const(0), word0.const(2)))
    boost = select(low & sound, log1p(-u) / select(sound, a, 1.0), 0.0)
    return d, v, boost


def gamma_sample(word0: Term, word1: Term, a: Term) -> Term:
    """A number of the gamma distribution of shape a: 0 for a = 0, infinite for a = inf, NaN below 0."""
    d, v, boost = _gamma(word0, word1, a)
    sample = d * v * exp(boost)
    return select((a > 0.0) & (a < float("inf")), sample, select(a >= 0.0, a, float("nan")))


def loggamma_sample(word0: Term, word1: Term, a: Term) -> Term:
    """The logarithm of such a number, finite for small a too: -inf for a = 0."""
    d, v, boost = _gamma(word0, word1, a)
    sample = log(d) + log(v) + boost
    outside = select(a > 0.0, a, select(a.equals(0.0), a.const(-float("inf")), float("nan")))
    return select((a > 0.0) & (a < float("inf")), sample, outside)


def _counted(u: Term, going: Term, start: Term, ratio: Callable[[Term], Term], word: Term) -> Term:
    """The first k at which u is below the sum of the probabilities of 0 to k.

    start: that of 0; ratio: of k -> probability of k over that of k - 1.
    """

    def attempt(_: Term, k: Term, probability: Term, rest: Term) -> tuple[Term, Sequence[Term]]:
        below = rest < probability
        more = k + 1.0
        following = probability * ratio(more)
        return below, (select(below, k, more), following, rest - probability)

    return _until(going, [u.const(0.0), start, u], attempt, _STEPS, word)[0]


def poisson_sample(word0: Term, word1: Term, lam: Term) -> Term:
    """A count of the Poisson distribution of mean lam, as a float: -1 for a negative lam and for NaN.

    Below 10 by adding up probabilities, from there on by Hörmann's rejection.
    """
    few, many = (lam > 0.0) & (lam < 10.0), (lam >= 10.0) & (lam < float("inf"))
    small = select(few, lam, 1.0)
    u, _ = _two_numbers(lam, word0, word1, word0.const(0))
    counted = _counted(u, few, exp(-small), lambda k: small / k, word0)
    mean = select(many, lam, 10.0)
    logarithm = log(mean)
    b = fma(mean.sqrt(), 2.53, 0.931)
    a = fma(b, 0.02483, -0.059)
    inverse = fma(1.0 / (b - 3.4), 1.1328, 1.1239)
    quick = 0.9277 - 3.6224 / (b - 2.0)

    def attempt(n: Term, _: Term) -> tuple[Term, Sequence[Term]]:
        first, v = _two_numbers(lam, word0, word1, n)
        x = first - 0.5
        s = 0.5 - abs(x)
        k = fma(2.0 * a / s + b, x, mean + 0.43).op("floor")
        sound = (k >= 0.0) & ((s >= 0.013) | (v <= s))
        left = log(v * inverse / (a / (s * s) + b))
        right = fma(k, logarithm, -mean) - lgamma(k.at_least(0.0) + 1.0)
        return ((s >= 0.07) & (v <= quick)) | (sound & (left <= right)), (k,)

    (rejected,) = _until(many, [lam], attempt, _ATTEMPTS, word0)
    rest = select(lam >= 0.0, lam, -1.0)
    return select(few, counted, select(many, rejected, rest))


def _tail(k: float) -> float:
    """What Stirling's formula lacks of log(k!)."""
    return math.lgamma(k + 1.0) - ((k + 0.5) * math.log(k + 1.0) - (k + 1.0) + 0.5 * math.log(2.0 * math.pi))


def _stirling_tail(k: Term) -> Term:
    """The same, of whole numbers from 0 on: from 10 on by its series."""
    inverse = 1.0 / (k + 1.0)
    square = inverse * inverse
    result = inverse * fma(square, fma(square, 1.0 / 1260.0, -1.0 / 360.0), 1.0 / 12.0)
    for n in range(10):
        result = select(k.equals(float(n)), _tail(n), result)
    return result


def binomial_sample(word0: Term, word1: Term, n: Term, p: Term) -> Term:
    """How many of n trials succeed, each with probability p, as a float.

    NaN for a p outside of [0, 1] and an n below 0; n is rounded down.  By adding up probabilities where
    10 or fewer are expected, else by Hörmann's rejection.
    """
    sound = (n >= 0.0) & (n < float("inf")) & (p >= 0.0) & (p <= 1.0)
    trials = select(sound, n, 0.0).op("floor")
    mirrored = p > 0.5
    q = select(sound, select(mirrored, 1.0 - p, p), 0.0)
    mean = trials * q
    few = sound & (mean <= 10.0) & (mean > 0.0)
    many = sound & (mean > 10.0)
    # few
    odds = q / (1.0 - q)
    u, _ = _two_numbers(p, word0, word1, word0.const(0))
    start = exp(trials * log1p(-q))
    counted = _counted(u, few, start, lambda k: odds * ((trials - k + 1.0) / k), word0)
    counted = select(counted > trials, trials, counted)
    # many
    size, q = select(many, trials, 40.0), select(many, q, 0.5)
    deviation = (size * q * (1.0 - q)).sqrt()
    b = fma(deviation, 2.53, 1.15)
    a = fma(b, 0.0248, fma(q, 0.01, -0.0873))
    centre = fma(size, q, 0.5)
    quick = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    ratio = q / (1.0 - q)
    mode = ((size + 1.0) * q).op("floor")
    other = size - mode

    def attempt(i: Term, _: Term) -> tuple[Term, Sequence[Term]]:
        first, v = _two_numbers(p, word0, word1, i)
        x = first - 0.5
        s = 0.5 - abs(x)
        k = fma(2.0 * a / s + b, x, centre).op("floor")
        inside = (k >= 0.0) & (k <= size)
        k = select(inside, k, mode)
        left = log(v * alpha / (a / (s * s) + b))
        rest = size - k
        right = (mode + 0.5) * log((mode + 1.0) / (ratio * (other + 1.0)))
        right = right + (size + 1.0) * log((other + 1.0) / (rest + 1.0))
        right = right + (k + 0.5) * log(ratio * (rest + 1.0) / (k + 1.0))
        right = right + (_stirling_tail(mode) + _stirling_tail(other) - _stirling_tail(k) - _stirling_tail(rest))
        return inside & (((s >= 0.07) & (v <= quick)) | (left <= right)), (k,)

    (rejected,) = _until(many, [mode], attempt, _ATTEMPTS, word0)
    count = select(many, rejected, select(few, counted, 0.0))
    count = select(mirrored, trials - count, count)
    return select(sound, count, float("nan"))
