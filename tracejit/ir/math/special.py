"""erf: one odd polynomial near 0, 1 - exp(polynomial) beyond, both evaluated and selected: no branch, no table.

log(erfc(x)) is smooth, and erfc is small beside erf from 1 on, so neither the polynomial nor the exponential needs
more than working precision.  Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from tracejit.ir.math.exp_log import LN2, LOG2_E
from tracejit.ir.math.term import Term, fma, polynomial, select
from tracejit.support.nodes import frozen

__all__ = ["erf"]


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
    z = x * x
    a = abs(x)
    near = fma(polynomial(z, c.near), a, a)
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
