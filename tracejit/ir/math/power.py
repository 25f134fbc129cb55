"""pow: log2 in two words, times y, then 2**(two words).

log2(m) = s (c0 + z (c1 + z p(z))) with s = (m - 1) / (m + 1), z = s^2: all but p in two words, so that the product with
y, up to 2**10 (f64), keeps half a unit.  C99 annex F for the special cases, in a rare branch that also serves negative
and subnormal bases. Coefficients: benchmarks/fit_math.py.
"""

from __future__ import annotations

from tracejit.ir.math.double_word import fast_sum, product
from tracejit.ir.math.exp_log import normal_bits, power_of_two_pair, split_exponent, unusual
from tracejit.ir.math.term import Term, fma, polynomial, rare, select
from tracejit.support.nodes import frozen

__all__ = ["pow"]


@frozen
class _Pow:
    """c0, c1 in two words, p; 2^r = 1 + r ln2 + r^2 q(r), ln2 in two words; the largest |y| that still matters;
    bounds of the exponent.
    """

    c0: tuple[float, float]
    c1: tuple[float, float]
    p: tuple[float, ...]
    ln2: tuple[float, float]
    q: tuple[float, ...]
    y_limit: float
    low: float
    high: float


_POW = {
    "f32": _Pow(
        (2.885390043258667, 3.851926067000022e-08), (0.9617967009544373, -7.028461812552678e-09),
        (0.5770801901817322, 0.4118497669696808, 0.33782699704170227),
        (0.6931471824645996, -1.904654323148236e-09),
        (0.24022647738456726, 0.055503614246845245, 0.009618488140404224, 0.0013390638632699847,
        0.00015336304204538465), 2.0**36, -160.0, 130.0,
    ),
    "f64": _Pow(
        (2.8853900817779268, 4.0710547481862066e-17), (0.9617966939259756, 5.0577616648125907e-17),
        (0.5770780163556182, 0.4121985830918272, 0.32059890229478377, 0.262307699179061, 0.22198409127396018,
        0.19125289953873567,
         0.19040714504983317),
        (0.6931471805599453, 2.3190468138462996e-17),
        (0.24022650695910122, 0.055504108664820744, 0.009618129107597012, 0.0013333558146684313, 0.0001540353045405659,
         1.5252733548159734e-05,
         1.3215436601849828e-06, 1.0178184234404214e-07, 7.073582455025458e-09, 4.436357738354843e-10),
        2.0**66, -1090.0, 1030.0,
    ),
}  # fmt: skip


def pow(x: Term, y: Term) -> Term:
    """x**y with every special case of C99's pow.  About 80 operations."""
    a = abs(x)
    rest = unusual(x) | ~(abs(y) < float("inf"))
    high, low = _log2(*split_exponent(normal_bits(a, rest & (a < x.format.tiny)), x.format))
    power = _exp2_of_product(high, low, y)
    return rare(rest, lambda: _special(x, y, power), power)


def _exp2_of_product(high: Term, low: Term, y: Term) -> Term:
    """2**((high + low) y)."""
    c = _POW[y.dtype]
    y = y.at_least(-c.y_limit).at_most(c.y_limit)
    e = y * high
    tail = fma(y, low, fma(y, high, -e))
    near = e.at_least(c.low).at_most(c.high)
    return _exp2(near, select(near.equals(e), tail, 0.0))


def _log2(m: Term, k: Term) -> tuple[Term, Term]:
    """log2(m) + k in two words."""
    c = _POW[m.dtype]
    f = m - 1.0
    d, d_low = fast_sum(m.const(1.0), m)
    inverse = 1.0 / d
    s = f * inverse
    s_low = fma(-s, d_low, fma(-s, d, f)) * inverse
    z, z_low = product(s, s)
    z_low = fma(s + s, s_low, z_low)
    u, u_low = fast_sum(c.c1[0], z * polynomial(z, c.p))
    g, g_low = product(z, u)
    g_low = fma(z_low, u, fma(z, u_low + c.c1[1], g_low))
    h, h_low = fast_sum(c.c0[0], g)
    h_low = h_low + (g_low + c.c0[1])
    w, w_low = product(s, h)
    w_low = fma(s, h_low, fma(s_low, h, w_low))
    high, low = fast_sum(k, w)
    return high, low + w_low


def _exp2(e: Term, tail: Term) -> Term:
    """2**(e + tail), tail below a few units of e; r in two words, so that representable powers come out exact."""
    c, form = _POW[e.dtype], e.format
    shift = form.magic + 2 * form.bias
    t = e + shift
    r, r_low = fast_sum(e - (t - shift), tail)
    z = r * r
    small = fma(z, polynomial(r, c.q, z), fma(r, c.ln2[1], r_low * c.ln2[0]))
    p = fma(r, c.ln2[0], small) + 1.0
    first, second = power_of_two_pair(t)
    return p * first * second


def _special(x: Term, y: Term, power: Term) -> Term:
    """x**y where x is not positive, normal and finite or y is not finite,
    from `power` = |x|**y for finite non-zero x.
    """
    infinity = float("inf")
    a = abs(x)
    whole = y.trunc().equals(y)
    half = y * 0.5
    odd = whole & half.trunc().differs(half) & (abs(y) < infinity)
    grows = select(a < 1.0, y < 0.0, y > 0.0)  # towards infinity as |y| or |log|x|| grows
    limit = select(grows, infinity, x.const(0.0))
    extreme = a.equals(0.0) | a.equals(infinity) | abs(y).equals(infinity)
    result = select(extreme, limit, power)
    result = select(a.equals(1.0) & abs(y).equals(infinity), 1.0, result)

    negative = x.bits() < 0
    result = select(negative & odd, -result, result)
    result = select((x < 0.0) & ~whole & (a < infinity), float("nan"), result)
    result = select(x.equals(x) & y.equals(y), result, float("nan"))
    return select(y.equals(0.0) | x.equals(1.0), 1.0, result)
