"""exp, exp2, log, log2, log10: straight lines over one reduction each.

exp:  x = n ln2 + r, |r| <= ln2/2, by adding 1.5 * 2**fraction (Cody and Waite 1980, with fma); exp(r) by a minimax
polynomial;
      times 2**n as two factors, so that results overflow to inf and round once into the subnormals without a branch.
log:  x = m 2**k, m in [sqrt(1/2), sqrt(2)); f32 by a polynomial in f = m - 1; f64 by the series of
      log((1+s)/(1-s)), s = f/(2+f) (as Sun's fdlibm, arranged for fma).  Zero, subnormal, negative and non-finite
      arguments take a rare branch.
Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.ir.math.term import Format, Term, fma, horner, polynomial, rare, select
from tracejit.support.nodes import frozen

__all__ = [
    "EXP_Q",
    "LN2",
    "LOG2_E",
    "exp",
    "exp2",
    "log",
    "log10",
    "log1p",
    "log1p_plain",
    "log2",
    "power_of_two_pair",
    "reduce_exp",
    "split_exponent",
]


@frozen
class _Exp:
    """Constants of exp in one format: the clamp, ln2 in two parts, and q of exp(r) = 1 + r + r^2 q(r)."""

    low: float
    high: float
    ln2_high: float
    ln2_low: float
    q: tuple[float, ...]
    low2: float
    high2: float
    q2: tuple[float, ...]  # 2^r = 1 + r q2(r)


LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
_EXP = {
    "f32": _Exp(
        low=-104.0, high=89.0, ln2_high=0.6931471824645996, ln2_low=-1.904654323148236e-09,
        q=(0.4999999403953552, 0.16666516661643982, 0.0416681244969368, 0.008369199000298977, 0.001383695169351995),
        low2=-151.0, high2=129.0,
        q2=(0.6931472420692444, 0.24022655189037323, 0.05550272762775421, 0.009617065079510212, 0.001341774477623403,
        0.00015823906869627535),
    ),
    "f64": _Exp(
        low=-746.0, high=710.0, ln2_high=0.6931471805599453, ln2_low=2.3190468138462996e-17,
        q=(0.5000000000000011, 0.16666666666666435, 0.041666666666525715, 0.008333333333475735, 0.0013888888944900298,
           0.0001984126955565621, 2.4801491689887724e-05, 2.7557535116143614e-06, 2.7630780076325845e-07,
           2.50185678905371e-08),
        low2=-1076.0, high2=1025.0,
        q2=(0.6931471805599457, 0.240226506959101, 0.055504108664787964, 0.00961812910760581, 0.0013333558153822615,
        0.00015403530442859427,
            1.5252727110244585e-05, 1.321544204934539e-06, 1.018073650612086e-07, 7.072695292084905e-09,
            4.068451513571794e-10),
    ),
}  # fmt: skip
EXP_Q = {dtype: c.q for dtype, c in _EXP.items()}


def reduce_exp(x: Term, scale: float = 1.0, offset: float | None = None) -> tuple[Term, Term]:
    """(t, r): n = round(scale * x / ln2) sits in the low bits of t, plus `offset` (twice the bias);
    r = x - n ln2 / scale.

    `scale` is a power of two; |scale * x| is below 2**fraction / 4 or so.
    """
    c, form = _EXP[x.dtype], x.format
    shift = form.magic + (2 * form.bias if offset is None else offset)
    t = fma(x, scale * LOG2_E, shift)
    n = t - shift
    r = fma(n, -c.ln2_high / scale, x)
    return t, fma(n, -c.ln2_low / scale, r)


def power_of_two_pair(t: Term) -> tuple[Term, Term]:
    """Two powers of two whose product is 2**n, for t of `reduce_exp` and n in [-2 bias + 2, 2 bias]."""
    form = t.format
    bits = t.bits()
    half = bits >> 1
    return (half << form.fraction).bitcast(t.dtype), ((bits - half) << form.fraction).bitcast(t.dtype)


def exp(x: Term) -> Term:
    """e**x.  18 operations in f32, 23 in f64."""
    c = _EXP[x.dtype]
    t, r = reduce_exp(x.at_least(c.low).at_most(c.high))
    p = fma(fma(polynomial(r, c.q), r, 1.0), r, 1.0)
    first, second = power_of_two_pair(t)
    return p * first * second


def exp2(x: Term) -> Term:
    """2**x."""
    c, form = _EXP[x.dtype], x.format
    x = x.at_least(c.low2).at_most(c.high2)
    shift = form.magic + 2 * form.bias
    t = x + shift
    r = x - (t - shift)
    first, second = power_of_two_pair(t)
    return fma(polynomial(r, c.q2), r, 1.0) * first * second


@frozen
class _Log:
    """ln2 in two parts; 1/ln2 and 1/ln10 in two parts; log10(2) in two parts."""

    ln2_high: float
    ln2_low: float
    log2e: tuple[float, float]
    log10e: tuple[float, float]
    log10_2: tuple[float, float]


_LOG = {
    "f32": _Log(
        0.6931471824645996, -1.904654323148236e-09, (1.4426950216293335, 1.925963033500011e-08),
        (0.4342944920063019, -1.010306851148201e-08), (0.3010300099849701, -1.4320989e-08),
    ),
    "f64": _Log(
        0.6931471805599453, 2.3190468138462996e-17, (1.4426950408889634, 2.0355273740931033e-17),
        (0.4342944819032518, 1.098319650216765e-17), (0.3010299956639812, -2.8037281277851704e-18),
    ),
}  # fmt: skip
_LOG_P = (
    0.33333316445350647, -0.25000810623168945, 0.2000230848789215, -0.16624556481838226, 0.14180760085582733,
    -0.1312834471464157, 0.1288408637046814, -0.07863344252109528,
)  # fmt: skip  # f32: log(1+f) = f - f^2/2 + f^3 p(f)
_LOG_R = (
    0.6666666666666735, 0.39999999999408736, 0.2857142874391376, 0.222221983985978, 0.1818357423631159,
    0.1531377733764434, 0.14798867098945218,
)  # fmt: skip  # f64: log((1+s)/(1-s)) = 2s + s z r(z), z = s^2


def unusual(x: Term) -> Term:
    """Zero, subnormal, negative, infinite or NaN: one unsigned comparison."""
    form = x.format
    least = 1 << form.fraction
    return (x.bitcast(form.unsigned) - least) >= (form.infinity_bits - least)


def normal_bits(x: Term, condition: Term) -> Term:
    """The bits of positive x; where `condition` (a rare one, true of subnormals),
    with an exponent field that may be negative.

    A subnormal is scaled by 2**fraction and the scale subtracted from the field, which `split_exponent` then reads as
    any other.
    """
    form = x.format
    return rare(condition, lambda: (x * 2.0**form.fraction).bits() - (form.fraction << form.fraction), x.bits())


def split_exponent(bits: Term, form: Format) -> tuple[Term, Term]:
    """(m, k) with x = m 2**k, m in [sqrt(1/2), sqrt(2)), k a float, for `bits` of a positive normal x or of
    `normal_bits`.
    """
    root = 0x3F3504F3 if form.bits == 32 else 0x3FE6A09E667F3BCD
    if form.bits == 32:
        bits = bits + (form.one_bits - root)
        k = (bits.shr(form.fraction) - form.bias).convert(form.dtype)
    # AVX2 has neither conversion from i64 nor its arithmetic shift: a positive integer goes into the fraction of 2**52
    else:
        lift = 64
        bits = bits + (form.one_bits - root + (lift << form.fraction))
        raw = (bits >> form.fraction) | ((form.bias + form.fraction) << form.fraction)
        k = raw.bitcast(form.dtype) - (2.0**form.fraction + form.bias + lift)
    return ((bits & form.fraction_mask) + root).bitcast(form.dtype), k


def log_reduced(f: Term, addend: Term | None = None) -> Term:
    """log(1+f) - f + addend, for f in [sqrt(1/2) - 1, sqrt(2) - 1]: small beside f, so that f may be added last."""
    if f.dtype == "f32":
        y = fma(polynomial(f, _LOG_P), f, -0.5)
        z = f * f
        return y * z if addend is None else fma(y, z, addend)
    s = f / (f + 2.0)
    z = s * s
    u = fma(horner(z, _LOG_R), z, -f)
    return s * u if addend is None else fma(s, u, addend)


def _logarithm(x: Term, body: Callable[[Term, Term], Term]) -> Term:
    """body(f, k), x = (1 + f) 2**k, with the values of zero, negatives, inf and NaN put right."""
    rest = unusual(x)
    m, k = split_exponent(normal_bits(x, rest), x.format)
    y = body(m - 1.0, k)

    def special() -> Term:
        result = select(x.equals(0.0), -float("inf"), select(x.equals(float("inf")), x, y))
        return select(x >= 0.0, result, float("nan"))

    return rare(rest, special, y)


def _log(f: Term, k: Term) -> Term:
    c = _LOG[f.dtype]
    return fma(k, c.ln2_high, f + log_reduced(f, k * c.ln2_low))


def log(x: Term) -> Term:
    """Natural logarithm."""
    return _logarithm(x, _log)


def log2(x: Term) -> Term:
    """Logarithm to base 2; exact at powers of two."""

    def body(f: Term, k: Term) -> Term:
        high, low = _LOG[f.dtype].log2e
        return fma(f, high, fma(f, low, log_reduced(f) * high)) + k

    return _logarithm(x, body)


def log10(x: Term) -> Term:
    """Logarithm to base 10."""

    def body(f: Term, k: Term) -> Term:
        c = _LOG[f.dtype]
        high, low = c.log10e
        tail = fma(k, c.log10_2[1], fma(f, low, log_reduced(f) * high))
        return fma(k, c.log10_2[0], fma(f, high, tail))

    return _logarithm(x, body)


def log1p_plain(x: Term, low: Term | None = None, large: Term | None = None) -> Term:
    """log(1 + x + low) for x > -1, low a correction below half a unit of x; no special cases, -0 gives 0.

    The exponent is that of 1 + x rounded; f = x 2**-k + (2**-k - 1) has not that rounding.  x is below 2**100, or
    `large` is a rare condition, true of larger x, where 2**-k may be subnormal and 1 means nothing.
    """
    c, form = _LOG[x.dtype], x.format
    bits = (x + 1.0).bits()
    m, k = split_exponent(bits, form)
    scale = ((m.bits() - bits) + form.one_bits).bitcast(x.dtype)  # 2**-k
    f = fma(x, scale, scale - 1.0)
    if large is not None:
        plain = f
        f = rare(large, lambda: select(x > 2.0**100, m - 1.0, plain), plain)
    addend = k * c.ln2_low
    if low is not None:
        low = low * scale
        addend = addend + fma(-low, f, low)  # low / (1 + f)
    return fma(k, c.ln2_high, f + log_reduced(f, addend))


def log1p(x: Term) -> Term:
    """log(1 + x)."""
    form = x.format
    least, large = 1 << form.fraction, form.one_bits + (100 << form.fraction)
    rest = ((x + 1.0).bitcast(form.unsigned) - least) >= (large - least)  # 1 + x is zero, negative, above 2**100 or NaN
    y = log1p_plain(x, large=rest).with_sign_of(x)

    def special() -> Term:
        result = select(x.equals(-1.0), -float("inf"), select(x.equals(float("inf")), x, y))
        return select(x >= -1.0, result, float("nan"))

    return rare(rest, special, y)
