"""expm1, sinh, cosh, tanh without cancellation.

With x = n ln2 + r, expm1(x) = 2**n expm1(r) + (2**n - 1): the second part is exact and one fma adds the first.
sinh and cosh combine sinh(r), cosh(r) - 1 and 2**n, 2**-n by the addition theorems.
Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from tracejit.ir.math.exp_log import EXP_Q, reduce_exp
from tracejit.ir.math.term import Term, fma, polynomial, rare, select
from tracejit.support.nodes import frozen

__all__ = ["cosh", "expm1", "sinh", "tanh"]

# expm1(r) = r + r^2 q(r)
EXPM1_Q: dict[str, tuple[float, ...]] = {
    "f32": (0.4999999701976776, 0.16666539013385773, 0.04166774824261665, 0.00836713332682848, 0.0013836383586749434),
    "f64": (0.5, 0.16666666666666677, 0.041666666666666685, 0.00833333333332182, 0.0013888888888893404,
    0.0001984126988525302,
            2.480158728025281e-05, 2.7557245258555364e-06, 2.755732793528283e-07, 2.510864625441741e-08,
            2.0894530214681255e-09),
}  # fmt: skip
_EXPM1_RANGE = {"f32": (-20.0, 88.0), "f64": (-40.0, 709.0)}  # -1 below; 2**n is finite up to


def expm1(x: Term) -> Term:
    """e**x - 1."""
    form = x.format
    low, high = _EXPM1_RANGE[x.dtype]
    t, r = reduce_exp(x.at_least(low), offset=form.bias)
    z = r * r
    first, *rest = EXPM1_Q[x.dtype]
    p = fma(fma(polynomial(r, rest, z), r, first), z, r)
    s = (t.bits() << form.fraction).bitcast(x.dtype)
    y = fma(s, p, s - 1.0).with_sign_of(x)

    def top() -> Term:
        half = ((t.bits() - 1) << form.fraction).bitcast(x.dtype)
        value = fma(half, p, half)
        return select(x < high + 1.0, value + value, float("inf"))

    return rare(x > high, top, y)


_TANH_NEAR = {  # tanh(x) = x + x z p(z), z = x^2, |x| < 0.625
    "f32": (-0.3333328068256378, 0.13331405818462372, -0.053736791014671326, 0.02063010446727276, -0.00569555489346385),
    "f64": (-0.3333333333333285, 0.1333333333326119, -0.05396825393086667, 0.021869487567697795, -0.00886322090217187,
     0.0035919884220856407, -0.0014549552351695932, 0.0005863051254108834, -0.00022854192603348882,
     7.711976576215757e-05, -1.6060856643287192e-05),
}  # fmt: skip
# exp(2r) = 1 + 2r + r^2 p(r)
_TANH_FAR = {dtype: tuple(c * 2.0 ** (i + 2) for i, c in enumerate(q)) for dtype, q in EXP_Q.items()}
_TANH_ONE = {"f32": 10.0, "f64": 20.0}  # tanh rounds to 1 from here


def tanh(x: Term) -> Term:
    """Hyperbolic tangent: an odd polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above, both evaluated and selected."""
    form = x.format
    z = x * x
    near = fma(polynomial(z, _TANH_NEAR[x.dtype]), x * z, x)
    a = abs(x)
    t, r = reduce_exp(a.at_most(_TANH_ONE[x.dtype]), scale=2.0, offset=form.bias)
    p = fma(fma(polynomial(r, _TANH_FAR[x.dtype]), r, 2.0), r, 1.0)
    s = (t.bits() << form.fraction).bitcast(x.dtype)
    far = 1.0 - 2.0 / fma(p, s, 1.0)
    return select(a < 0.625, near, far).with_sign_of(x)


@frozen
class _Sinh:
    """sinh(r) = r + r z sine(z), cosh(r) = 1 + z cosine(z), z = r^2; up to `limit` the halves 2**(+-n-1) are normal;
    inf from `top`.
    """

    sine: tuple[float, ...]
    cosine: tuple[float, ...]
    limit: float
    top: float


_SINH = {
    "f32": _Sinh(
        (0.1666666716337204, 0.00833317544311285, 0.0001997409708565101),
        (0.5, 0.041666459292173386, 0.0013935428578406572),
        86.0, 89.6,
    ),
    "f64": _Sinh(
        (0.16666666666666677, 0.008333333333321386, 0.00019841269886815036, 2.755724345397989e-06,
        2.510931960799759e-08), (0.5000000000000013, 0.04166666666651047, 0.0013888888948355982, 2.4801488505498343e-05,
        2.7631810541170125e-07),
        708.0, 710.6,
    ),
}  # fmt: skip


def _halves(a: Term) -> tuple[Term, Term, Term, Term]:
    """(2**(n-1), 2**(-n-1), sinh(r), cosh(r) - 1) with a = n ln2 + r:
    sinh and cosh of a are sums of products of these.
    """
    c, form = _SINH[a.dtype], a.format
    t, r = reduce_exp(a, offset=form.bias - 1)
    up = t.bits() << form.fraction
    down = ((2 * form.bias - 2) << form.fraction) - up
    z = r * r
    sine = fma(polynomial(z, c.sine), r * z, r)
    cosine = polynomial(z, c.cosine) * z
    return up.bitcast(a.dtype), down.bitcast(a.dtype), sine, cosine


def _half_exp(a: Term, first: Term, sine: Term, cosine: Term) -> Term:
    """e**a / 2 for large a: the power of two halved, so that it overflows no sooner than the result."""
    half = (first.bits() - (1 << a.format.fraction)).bitcast(a.dtype)
    y = fma(half, sine + cosine, half)
    return select(a < _SINH[a.dtype].top, y + y, float("inf"))


def sinh(x: Term) -> Term:
    """Hyperbolic sine."""
    a = abs(x)
    first, second, sine, cosine = _halves(a)
    difference = first - second
    y = difference + fma(first + second, sine, difference * cosine)
    return rare(a > _SINH[x.dtype].limit, lambda: _half_exp(a, first, sine, cosine), y).with_sign_of(x)


def cosh(x: Term) -> Term:
    """Hyperbolic cosine."""
    a = abs(x)
    first, second, sine, cosine = _halves(a)
    y = first + (second + fma(first - second, sine, (first + second) * cosine))  # first + second would round once more
    return rare(a > _SINH[x.dtype].limit, lambda: _half_exp(a, first, sine, cosine), y)
