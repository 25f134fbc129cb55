"""Derives the polynomials of the special functions: writes `tracejit/ir/math/fits.py`.

    python -m benchmarks.fit_special          every fit: its name, error, and how much larger the terms are than the sum

A fit interpolates f at Chebyshev points with 60 digits, which is within a small factor of the best polynomial of that
degree (Trefethen 2013, "Approximation Theory and Approximation Practice"), and is written in powers of a variable in
which the terms do not cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mpmath as mp
import numpy as np
from attrs import frozen

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]
TARGET = Path(__file__).parent.parent / "tracejit" / "ir" / "math" / "fits.py"
HALF = mp.mpf(1) / 2
TINY = mp.mpf(10) ** -14
ROOT = mp.findroot(mp.digamma, mp.mpf("1.46"))


@frozen
class Fit:
    """`f` by a polynomial over [low, high]: how many coefficients for f64 and for f32, and what f is."""

    name: str
    f: Function
    low: mp.mpf | float
    high: mp.mpf | float
    wide: int
    narrow: int
    text: str


def points(low: mp.mpf | float, high: mp.mpf | float, count: int) -> list[mp.mpf]:
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def interpolate(fit: Fit, count: int) -> list[mp.mpf]:
    """Coefficients, lowest first, of the polynomial through `count` points, by Newton's divided differences."""
    xs = points(fit.low, fit.high, count)
    divided = [fit.f(x) for x in xs]
    for j in range(1, count):
        for i in range(count - 1, j - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (xs[i] - xs[i - j])
    result = [mp.mpf(0)] * count
    for x, d in zip(reversed(xs), reversed(divided), strict=True):
        result = [(result[i - 1] if i else d) - x * result[i] for i in range(count)]
    return result


def error(fit: Fit, coefficients: list[mp.mpf]) -> tuple[float, float]:
    """The largest relative error, and the largest sum of magnitudes of terms over that of the sum."""
    worst = cancelled = 0.0
    for x in points(fit.low, fit.high, 97):
        got, want = mp.polyval(coefficients[::-1], x), fit.f(x)
        worst = max(worst, float(abs(got / want - 1)))
        cancelled = max(cancelled, float(sum(abs(c * x**k) for k, c in enumerate(coefficients)) / abs(got)))
    return worst, cancelled


def log_gamma_core(u: mp.mpf) -> mp.mpf:
    y = u + mp.mpf("1.875")
    return mp.loggamma(y) / ((y - 1) * (y - 2))


def log_gamma_tail(z: mp.mpf) -> mp.mpf:
    x = 1 / mp.sqrt(z)
    return x * (mp.loggamma(x) - (x - HALF) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def digamma_core(u: mp.mpf) -> mp.mpf:
    y = u + mp.mpf("1.875")
    return mp.digamma(y) / (y - ROOT)


def digamma_tail(z: mp.mpf) -> mp.mpf:
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


def gamma_tail(u: mp.mpf) -> mp.mpf:
    x = 1 / u
    return mp.exp(mp.loggamma(x) - (x - HALF) * mp.log(x) + x)


def scaled_erfc(t: mp.mpf) -> mp.mpf:
    x = mp.mpf("3.75") * (1 + t) / (1 - t)
    tail = mp.exp(x * x) * mp.erfc(x) if x < 1e4 else (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return (1 + 2 * x) * tail


def inverse(w: mp.mpf) -> mp.mpf:
    """erfinv(x) / x where exp(-w) = (1 - x)(1 + x), by Newton's iteration on log(erfc)."""
    x = mp.sqrt(-mp.expm1(-w))
    target = -w - mp.log1p(x)
    y = mp.sqrt(w) if w > 2 else x
    for _ in range(100):
        value = mp.erfc(y)
        step = (mp.log(value) - target) * value * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -40:
            break
    return y / x


def scaled_bessel(order: int, u: mp.mpf) -> mp.mpf:
    return mp.besseli(order, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)


def beyond(r: mp.mpf) -> mp.mpf:
    return inverse(r * r) - r


FITS = [
    Fit("LGAMMA", log_gamma_core, -1.125, 1.125, 33, 15, "lgamma(y) / ((y - 1)(y - 2)), y - 1.875"),
    Fit("LGAMMA_TAIL", log_gamma_tail, TINY, mp.mpf(1) / 64, 7, 3, "x times what Stirling's formula leaves, 1 / x**2"),
    Fit("DIGAMMA", digamma_core, -1.125, 1.125, 35, 16, "digamma(y) / (y - its root), y - 1.875"),
    Fit("DIGAMMA_TAIL", digamma_tail, TINY, mp.mpf(1) / 64, 8, 4, "x**2 (log(x) - 1 / (2 x) - digamma(x)), 1 / x**2"),
    Fit("GAMMA", lambda u: mp.gamma(u + 1.5), -0.5, 0.5, 22, 10, "gamma(y), y - 1.5"),
    Fit("GAMMA_TAIL", gamma_tail, TINY, mp.mpf(1) / 9, 13, 5, "gamma(x) e**x / x**(x - 1/2), 1 / x"),
    Fit("ERFCX", scaled_erfc, -1, 1 - TINY, 25, 13, "(1 + 2 x) erfcx(x), (x - 3.75) / (x + 3.75)"),
    Fit("ERF_INV", lambda t: inverse(t + 3.125), -3.125, 3.125, 25, 11, "erf_inv(x) / x, w - 3.125"),
    Fit("ERF_INV_FAR", lambda t: beyond(t + 4.3125), -1.8125, 1.8125, 31, 15, "erf_inv(x) / x - r, r - 4.3125"),
    Fit("ERF_INV_END", lambda t: beyond(t + 16.75), -10.75, 10.75, 34, 15, "erf_inv(x) / x - r, r - 16.75"),
    Fit("I0", lambda z: mp.besseli(0, 16 * mp.sqrt(z)), 0, 1, 25, 20, "i0(x), (x / 16)**2"),
    Fit("I0_FAR", lambda u: scaled_bessel(0, u), TINY * 10**11, mp.mpf(1) / 16, 16, 6, "i0e(x) sqrt(x), 1 / x"),
    Fit("I1", lambda z: mp.besseli(1, 16 * mp.sqrt(z)) / mp.sqrt(z) / 16, 0, 1, 25, 18, "i1(x) / x, (x / 16)**2"),
    Fit("I1_FAR", lambda u: scaled_bessel(1, u), TINY * 10**11, mp.mpf(1) / 16, 16, 6, "i1e(x) sqrt(x), 1 / x"),
]  # fmt: skip
"""w is -log((1 - x)(1 + x)), r its square root.  The last word of a text is the variable."""


def rows(numbers: list[float]) -> str:
    lines, line = [], "       "
    for c in numbers:
        if len(line) + len(repr(c)) > 115:
            lines.append(line)
            line = "       "
        line += f" {c!r},"
    return "\n".join([*lines, line])


def main() -> None:
    out = [
        '"""Coefficients of the special functions, lowest first: written by `python -m benchmarks.fit_special`."""',
        "",
    ]
    out += ["# fmt: off", "__all__ = [", rows([f.name for f in FITS]).replace("'", '"'), "]", ""]
    for fit in FITS:
        wide, narrow = interpolate(fit, fit.wide), interpolate(fit, fit.narrow)
        print(f"{fit.name:12} f64 {error(fit, wide)}  f32 {error(fit, narrow)}", flush=True)
        out += [f"{fit.name} = {{", '    "f32": (', rows([float(np.float32(float(c))) for c in narrow]), "    ),"]
        out += ['    "f64": (', rows([float(c) for c in wide]), "    ),", "}", f'"""{fit.text}"""', ""]
    TARGET.write_text("\n".join(out))


if __name__ == "__main__":
    main()
