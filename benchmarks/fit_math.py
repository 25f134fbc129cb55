"""Derives the polynomial coefficients of `tracejit.ir.math`: weighted minimax fits with coefficients rounded one by
one.

    python benchmarks/fit_math.py                 every fit: its name, error in bits, coefficients
    python benchmarks/fit_math.py exp_f64 erf     those whose name starts so

A fit minimises max |weight(x) * (f(x) - sum c[i] u(x)**i)| over [low, high] by the exchange algorithm on a dense
Chebyshev grid (Remez 1934), then rounds c[0] to the target precision, fits the others again with c[0] held, and so on:
the later coefficients absorb the rounding of the earlier ones.  Arithmetic by mpmath with 60 digits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
from attrs import frozen

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]


@frozen
class Fit:
    """One approximation: `f` by a polynomial of `terms` coefficients in `u` over [low, high],
    error weighted by `weight`.
    """

    name: str
    f: Function
    low: float
    high: float
    terms: int
    bits: int
    weight: Function
    u: Function = lambda x: x
    grid: int = 400


def round_to(value: mp.mpf, bits: int) -> mp.mpf:
    """`value` rounded to `bits` significant bits."""
    with mp.workprec(bits):
        return +value


def chebyshev_grid(fit: Fit) -> list[mp.mpf]:
    low, high = mp.mpf(fit.low), mp.mpf(fit.high)
    return [
        (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * fit.grid))
        for k in reversed(range(fit.grid))
    ]


def extremes(error: list[mp.mpf], count: int) -> list[int]:
    """Indices of `count` alternating extremes of `error`: the largest of each run of one sign, small ends dropped."""
    runs: list[int] = []
    for k, e in enumerate(error):
        if runs and (error[runs[-1]] > 0) == (e > 0):
            if abs(e) > abs(error[runs[-1]]):
                runs[-1] = k
        else:
            runs.append(k)
    while len(runs) > count:
        if len(runs) == count + 1:
            runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
            continue
        weakest = min(range(len(runs) - 1), key=lambda k: max(abs(error[runs[k]]), abs(error[runs[k + 1]])))
        del runs[weakest : weakest + 2]
    return runs


def exchange(target: list[mp.mpf], basis: list[list[mp.mpf]], steps: int = 12) -> tuple[list[mp.mpf], mp.mpf]:
    """Minimax coefficients of `target` over the rows of `basis` on the grid, and the error reached."""
    n, points = len(basis), len(target)
    if n == 0:
        return [], max(abs(t) for t in target)
    chosen = sorted({round((points - 1) * (1 - mp.cos(mp.pi * k / n)) / 2) for k in range(n + 1)})
    best: list[mp.mpf] = []
    least = mp.inf
    for _ in range(steps):
        rows = mp.matrix([[basis[i][k] for i in range(n)] + [(-1) ** row] for row, k in enumerate(chosen)])
        solution = mp.lu_solve(rows, mp.matrix([target[k] for k in chosen]))
        coefficients = [solution[i] for i in range(n)]
        error = [t - mp.fsum(c * basis[i][k] for i, c in enumerate(coefficients)) for k, t in enumerate(target)]
        worst = max(abs(e) for e in error)
        if worst < least:
            best, least = coefficients, worst
        if worst <= abs(solution[n]) * mp.mpf("1.001"):
            break
        found = extremes(error, n + 1)
        if len(found) < n + 1:
            break
        chosen = found
    return best, least


def solve(fit: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients rounded to `fit.bits` bits, and the weighted error they reach."""
    grid = chebyshev_grid(fit)
    weights = [fit.weight(x) for x in grid]
    target = [w * fit.f(x) for w, x in zip(weights, grid, strict=True)]
    u = [fit.u(x) for x in grid]
    basis = [[w * v**i for w, v in zip(weights, u, strict=True)] for i in range(fit.terms)]
    fixed: list[mp.mpf] = []
    for i in range(fit.terms):
        coefficients, _ = exchange(target, basis[i:])
        fixed.append(round_to(coefficients[0], fit.bits))
        target = [t - fixed[i] * b for t, b in zip(target, basis[i], strict=True)]
    return fixed, max(abs(t) for t in target)


def _tail(function: Function, taken: int) -> Function:
    """(function(r) - its first `taken` Taylor terms) / r**taken, by the series near 0."""
    terms = mp.taylor(function, 0, taken + 24)

    def tail(r: mp.mpf) -> mp.mpf:
        if abs(r) < mp.mpf("1e-3"):
            return mp.polyval(terms[: taken - 1 : -1], r)
        return (function(r) - mp.polyval(terms[taken - 1 :: -1], r)) / r**taken

    return tail


HALF_LN2 = mp.log(2) / 2


def _exp_fits() -> list[Fit]:
    wide = HALF_LN2 * mp.mpf("1.0005")
    fits = [
        Fit(f"exp_f{w}: exp(r) = 1 + r + r^2 q(r)", _tail(mp.exp, 2), -wide, wide, n, b, lambda r: r**2 * mp.exp(-r))
        for w, n, b in ((32, 5, 24), (64, 10, 53))
    ]
    fits += [
        Fit(
            "exp_f64_short: exp(r) = 1 + r + r^2 q(r), for sums that it is a small part of",
            _tail(mp.exp, 2),
            -wide,
            wide,
            9,
            53,
            lambda r: r**2 * mp.exp(-r),
        ),
    ]
    fits += [
        Fit(
            f"exp2_f{w}: 2^r = 1 + r q(r)",
            _tail(lambda r: mp.mpf(2) ** r, 1),
            -0.5002,
            0.5002,
            n,
            b,
            lambda r: r * mp.mpf(2) ** -r,
        )
        for w, n, b in ((32, 6, 24), (64, 11, 53))
    ]
    expm1 = _tail(mp.exp, 2)
    fits += [
        Fit(
            f"expm1_f{w}: expm1(r) = r + r^2 q(r)", expm1, -wide, wide, n, b, lambda r: abs(r) / (1 + r / 2 + r * r / 6)
        )
        for w, n, b in ((32, 5, 24), (64, 11, 53))
    ]
    return fits


def _log_fits() -> list[Fit]:
    """log((1+s)/(1-s)) = 2s + s z R(z), z = s^2 (f64); log(1+f) = f - f^2/2 + f^3 P(f) (f32)."""
    low, high = mp.mpf(1) / mp.sqrt(2) - 1, mp.sqrt(2) - 1
    top = high / (2 + high) * mp.mpf("1.001")

    def ratio(z: mp.mpf) -> mp.mpf:
        s = mp.sqrt(z)
        return (mp.log((1 + s) / (1 - s)) / s - 2) / z if z > 1e-8 else mp.mpf(2) / 3 + 2 * z / 5 + 2 * z * z / 7

    return [
        Fit("log_f32: log(1+f) = f - f^2/2 + f^3 p(f)", _tail(mp.log1p, 3), low, high, 8, 24, lambda f: abs(f) ** 2.0),
        Fit("log_f64: log((1+s)/(1-s)) = 2s + s z r(z)", ratio, 0, top**2, 7, 53, lambda z: z),
    ]


def _erf_fits() -> list[Fit]:
    def ratio(z: mp.mpf) -> mp.mpf:
        x = mp.sqrt(z)
        return mp.erf(x) / x - 1 if x > 1e-12 else 2 / mp.sqrt(mp.pi) - 1

    def exponent(x: mp.mpf) -> mp.mpf:
        return mp.log(mp.erfc(x))

    fits = []
    for w, b, small, n, far, m in ((32, 24, 0.95, 6, 3.95, 7), (64, 53, 1.0, 12, 5.95, 18)):
        fits.append(
            Fit(
                f"erf_f{w}_near: erf(x) = x + x p(x^2), x < {small}",
                ratio,
                0,
                mp.mpf(small) ** 2 * mp.mpf("1.0005"),
                n,
                b,
                lambda z: 1 / (1 + ratio(z)),
            )
        )
        fits.append(
            Fit(
                f"erf_f{w}_far: erfc(x) = exp(p(x))",
                exponent,
                small * 0.9995,
                far,
                m,
                b,
                lambda x: mp.erfc(x) / mp.erf(x),
            )
        )
    return fits


def _trig_fits() -> list[Fit]:
    def sine(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return (mp.sin(r) / r - 1) / z if r > 1e-8 else -mp.mpf(1) / 6 + z / 120 - z * z / 5040

    def tangent(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return (mp.tan(r) / r - 1) / z if r > 1e-8 else mp.mpf(1) / 3 + 2 * z / 15 + 17 * z * z / 315

    def weight(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return z * r / mp.sin(r) if r > 0 else z

    return [
        Fit(f"sin_f{w}: sin(r) = r + r z p(z), z = r^2, |r| <= {high}", sine, 0, mp.mpf(high) ** 2, n, b, weight)
        for w, n, b, high in ((32, 4, 24, 1.6), (64, 8, 53, 1.5725))
    ] + [
        Fit(
            f"tan_f{w}: tan(r) = r + r z p(z), z = r^2, |r| <= {high}",
            tangent,
            0,
            mp.mpf(high) ** 2,
            n,
            b,
            lambda z: z / (1 + z * tangent(z)),
        )
        for w, n, b, high in ((32, 6, 24, 0.8), (64, 14, 53, 0.787))
    ]


def _tanh_fits() -> list[Fit]:
    def ratio(z: mp.mpf) -> mp.mpf:
        x = mp.sqrt(z)
        return (mp.tanh(x) / x - 1) / z if x > 1e-8 else -mp.mpf(1) / 3 + 2 * z / 15 - 17 * z * z / 315

    return [
        Fit(
            f"tanh_f{w}: tanh(x) = x + x z p(z), z = x^2, |x| < 0.625",
            ratio,
            0,
            mp.mpf("0.391"),
            n,
            b,
            lambda z: z / (1 + z * ratio(z)),
        )
        for w, n, b in ((32, 5, 24), (64, 11, 53))
    ]


def _sinh_fits() -> list[Fit]:
    top = (HALF_LN2 * mp.mpf("1.0005")) ** 2

    def sine(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return (mp.sinh(r) / r - 1) / z if r > 1e-8 else mp.mpf(1) / 6 + z / 120

    def cosine(z: mp.mpf) -> mp.mpf:
        r = mp.sqrt(z)
        return (mp.cosh(r) - 1) / z if r > 1e-8 else mp.mpf(1) / 2 + z / 24

    fits: list[Fit] = []
    for w, s, c, b in ((32, 3, 3, 24), (64, 5, 5, 53)):
        fits.append(Fit(f"sinh_f{w}: sinh(r) = r + r z p(z), z = r^2, |r| <= ln2/2", sine, 0, top, s, b, lambda z: z))
        fits.append(Fit(f"cosh_f{w}: cosh(r) = 1 + z p(z)", cosine, 0, top, c, b, lambda z: z))
    return fits


def _pow_fits() -> list[Fit]:
    """log2(m) = s (c0 + z (c1 + z p(z))), s = (m-1)/(m+1), z = s^2; c0 = 2/ln2, c1 = c0/3 in two words."""
    top = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")

    def tail(z: mp.mpf) -> mp.mpf:
        s = mp.sqrt(z)
        if s < mp.mpf("0.001"):
            return 2 / mp.log(2) * mp.fsum(z**k / (2 * k + 5) for k in range(12))
        return (mp.log((1 + s) / (1 - s)) / mp.log(2) / s - 2 / mp.log(2) * (1 + z / 3)) / z**2

    return [
        Fit(f"pow_f{w}: log2", tail, 0, top, n, b, lambda z: z**2 + mp.mpf("1e-12"))
        for w, n, b in ((32, 3, 24), (64, 7, 53))
    ] + [
        Fit(
            f"pow_exp2_f{w}: 2^r = 1 + r ln2 + r^2 q(r)",
            _tail(lambda r: mp.mpf(2) ** r, 2),
            -0.5002,
            0.5002,
            n,
            b,
            lambda r: r * r * mp.mpf(2) ** -r,
        )
        for w, n, b in ((32, 5, 24), (64, 10, 53))
    ]


def _odd(function: Function, third: mp.mpf) -> Function:
    """(function(x) / x - 1) / z with x = sqrt(z): 1/6, -1/3 ... at 0 (`third`)."""

    def ratio(z: mp.mpf) -> mp.mpf:
        x = mp.sqrt(z)
        return (function(x) / x - 1) / z if x > 1e-8 else third

    return ratio


def _inverse_fits() -> list[Fit]:
    families = (
        ("asin", _odd(mp.asin, mp.mpf(1) / 6), "0.2501", 5, 12),
        ("atan", _odd(mp.atan, -mp.mpf(1) / 3), "1.0001", 8, 20),
        ("atanh", _odd(mp.atanh, mp.mpf(1) / 3), "0.0901", 4, 9),
    )
    return [
        Fit(
            f"{name}_f{w}: {name}(x) = x + x z p(z), z = x^2 <= {top}",
            f,
            0,
            mp.mpf(top),
            n,
            b,
            lambda z, f=f: z / (1 + z * f(z)),
        )
        for name, f, top, *counts in families
        for w, n, b in zip((32, 64), counts, (24, 53), strict=True)
    ]


def _cbrt_fits() -> list[Fit]:
    low, high = mp.sqrt(mp.mpf("0.4999")), mp.sqrt(mp.mpf("2.0001"))
    return [
        Fit(f"cbrt_f{w}: first guess", mp.cbrt, low, high, n, b, lambda m: 1 / mp.cbrt(m))
        for w, n, b in ((32, 4, 24), (64, 9, 53))
    ]


FITS: list[Callable[[], list[Fit]]] = [
    _exp_fits,
    _log_fits,
    _erf_fits,
    _trig_fits,
    _tanh_fits,
    _sinh_fits,
    _pow_fits,
    _inverse_fits,
    _cbrt_fits,
]


def main(wanted: list[str]) -> None:
    for family in FITS:
        for fit in family():
            if wanted and not any(fit.name.startswith(w) for w in wanted):
                continue
            coefficients, error = solve(fit)
            print(f"{fit.name}   [error 2^{float(mp.log(error, 2)):.2f}]")
            for c in coefficients:
                print(f"    {float(c)!r},")


if __name__ == "__main__":
    main(sys.argv[1:])
