"""erf: one odd polynomial near 0, 1 - exp(polynomial) beyond, both evaluated and selected: no branch, no table.

log(erfc(x)) is smooth, and erfc is small beside erf from 1 on, so neither the polynomial nor the exponential needs
more than working precision.  Coefficients: benchmarks/fit_math.py.

erfcx: (1 + 2 x) erfcx(x) is a polynomial in (x - 3.75) / (x + 3.75) for all x from 0 on (Shepherd and Laframboise
1981); erfc is that times exp(-x * x), the square in two words.  The inverses are x times a polynomial in
w = -log((1 - x)(1 + x)), from 6.25 on in sqrt(w) (as Giles 2012).  Coefficients: benchmarks/fit_special.py.
"""

from __future__ import annotations

import math

from tracejit.ir.math import fits
from tracejit.ir.math.double_word import product
from tracejit.ir.math.exp_log import LN2, LOG2_E, exp, log, log1p
from tracejit.ir.math.term import Term, fma, polynomial, rare, select
from tracejit.support.nodes import frozen

__all__ = [
    "erf", "erf_inv", "erfc", "erfc_inv", "erfcx", "log_ndtr", "logistic", "logit", "xlog1py", "xlogy",
]  # fmt: skip


@frozen
class _Erf:
    """erf(x) = x + x near(x^2) below `split`; 1 - exp(far(x)) up to `one`, from where erf rounds to 1;
    exp(r) = 1 + r + r^2 q(r).
    """

    split: float
    one: float
    near: tuple[float, ...]
    far: tuple[float, ...]
    q: tuple[float, ...]


_ERF = {
    "f32": _Erf(
        0.95, 3.95,
        (0.12837913632392883, -0.3761240839958191, 0.11280950158834457, -0.026736227795481682, 0.004950108006596565,
         -0.0005778998602181673),
        (-0.00024395274522248656, -1.127478003501892, -0.6375121474266052, -0.10364439338445663, 0.022089507430791855,
         -0.0030089826323091984, 0.00019246948068030179),
        (0.4999999403953552, 0.16666516661643982, 0.0416681244969368, 0.008369199000298977, 0.001383695169351995),
    ),
    "f64": _Erf(
        1.0, 5.95,
        (0.12837916709551256, -0.37612638903183343, 0.1128379167093694, -0.02686617064195558, 0.005223977596688211,
         -0.0008548325481188858,
         0.00012055280304911132, -1.4924459799441746e-05, 1.6444044582365182e-06, -1.6182875136388835e-07,
         1.3610414059655374e-08, -7.593180006664722e-10),
        (-5.015347560912036e-07, -1.12837410166828, -0.6366435755892599, -0.10270357892175135, 0.018990434454298825,
         0.0004102845873146057,
         -0.0019155936400018763, 0.0007703673597611742, -0.00013487978984139565, -2.034982095242209e-05,
         2.28544648999691e-05, -8.67679309563987e-06, 2.137922865488158e-06, -3.7369959482369325e-07,
         4.647416159907671e-08, -3.938828283607797e-09, 2.0474681154934876e-10, -4.934988525678004e-12),
        (0.4999999999999832, 0.1666666666661132, 0.041666666668139916, 0.008333333370990171, 0.0013888888515902848,
        0.0001984118505552656,
         2.480193144763214e-05, 2.763507380207375e-06, 2.7477102439080213e-07),
    ),
}  # fmt: skip


def erf(x: Term) -> Term:
    """The error function.  f64: 46 fma-like operations; relative error below 1.3 units everywhere."""
    c = _ERF[x.dtype]
    a = abs(x)
    near = _near_zero(a)
    far = one_minus_exp(polynomial(a.at_most(c.one), c.far), c.q)
    return select(a < c.split, near, far).with_sign_of(x)


def one_minus_exp(y: Term, q: tuple[float, ...]) -> Term:
    """1 - e**y for y in [-40, -1]: the exponential is the small part, so ln2 needs one word."""
    form = y.format
    shift = form.magic + form.bias
    t = fma(y, LOG2_E, shift)
    r = fma(t - shift, -LN2, y)
    p = fma(fma(polynomial(r, q), r, 1.0), r, 1.0)
    scale = (t.bits() << form.fraction).bitcast(y.dtype)
    return fma(-p, scale, 1.0)


def _near_zero(a: Term) -> Term:
    """erf below 0.95."""
    return fma(polynomial(a * a, _ERF[a.dtype].near), a, a)


_LARGEST = {"f32": 1e17, "f64": 1e150}
"""From here on (x - 3.75) / (x + 3.75) is 1."""


def _scaled(a: Term) -> Term:
    """exp(a * a) erfc(a) for a from 0 on."""
    bound = a.at_most(_LARGEST[a.dtype])
    t = (bound - 3.75) / (bound + 3.75)
    return polynomial(t, fits.ERFCX[a.dtype]) / fma(a, 2.0, 1.0)


def erfc(x: Term) -> Term:
    """1 - erf(x), of full relative precision for positive x."""
    a = abs(x)
    low = a.at_most(11.0 if x.dtype == "f32" else 28.0)
    square, rest = product(low, low)
    gauss = exp(-square)
    tail = _scaled(low) * fma(-rest, gauss, gauss)
    tail = select(a < 0.5, 1.0 - _near_zero(a), tail)
    mirrored = select(a < 0.5, 1.0 + _near_zero(a), 2.0 - tail)
    return select(x < 0.0, mirrored, tail)


def erfcx(x: Term) -> Term:
    """exp(x * x) erfc(x)"""
    tail = _scaled(abs(x))

    def mirrored() -> Term:
        low = abs(x).at_most(10.0 if x.dtype == "f32" else 27.0)
        square, rest = product(low, low)
        gauss = exp(square)
        return select(x < 0.0, 2.0 * select(gauss < float("inf"), fma(rest, gauss, gauss), gauss) - tail, tail)

    return rare(x < 0.0, mirrored, tail)


def _inverse(x: Term, w: Term) -> Term:
    """erf_inv(x) where exp(-w) is (1 - x)(1 + x)."""
    form = x.dtype
    near = polynomial(w.at_most(6.25) - 3.125, fits.ERF_INV[form])

    def far() -> Term:
        r = w.sqrt()
        middle = polynomial(r.at_most(6.125) - 4.3125, fits.ERF_INV_FAR[form])
        end = polynomial(r.at_most(27.5) - 16.75, fits.ERF_INV_END[form])
        return select(w < 6.25, near, r + select(r < 6.0, middle, end))

    return x * rare(w >= 6.25, far, near)


def erf_inv(x: Term) -> Term:
    """The number whose erf is x; infinities at -1 and 1, NaN beyond."""
    w = -log1p(-(x * x))
    far = abs(x) > 0.5  # there 1 - |x| is exact, and x * x is not
    w = select(far, -log((1.0 - abs(x)) * (1.0 + abs(x))), w)
    return select(abs(x).equals(1.0), x * float("inf"), _inverse(x, w))


def erfc_inv(x: Term) -> Term:
    """The number whose erfc is x; infinities at 0 and 2, NaN beyond."""
    w = -(log(x) + log(2.0 - x))
    y = 1.0 - x
    w = select(abs(y) < 0.5, -log1p(-(y * y)), w)
    return select(x.equals(0.0) | x.equals(2.0), y * float("inf"), _inverse(y, w))


def log_ndtr(x: Term) -> Term:
    """log((1 + erf(x / sqrt(2))) / 2) of full relative precision on both sides."""
    half = math.sqrt(0.5)
    y = x * half
    low = x < -1.0
    below = fma(x, x * -0.5, log(_scaled(-select(low, y, -1.0)) * 0.5))
    return select(low, below, log1p(erfc(select(low, 1.0, y)) * -0.5))


def logistic(x: Term) -> Term:
    """1 / (1 + exp(-x)) of full relative precision on both sides."""
    e = exp(-abs(x))
    return select(x < 0.0, e, 1.0) / (e + 1.0)


def logit(x: Term) -> Term:
    """log(x / (1 - x)); by log1p near 1 / 2."""
    rest = 1.0 - x
    ratio = x / rest
    near = (x > 0.25) & (x < 0.75)
    return select(near, log1p(select(near, (x - rest) / rest, 0.0)), log(ratio))


def xlogy(x: Term, y: Term) -> Term:
    """x log(y), and 0 where x is 0 and y no NaN."""
    return select(x.equals(0.0) & y.equals(y), 0.0, x * log(y))


def xlog1py(x: Term, y: Term) -> Term:
    """x log(1 + y), and 0 where x is 0 and y no NaN."""
    return select(x.equals(0.0) & y.equals(y), 0.0, x * log1p(y))
