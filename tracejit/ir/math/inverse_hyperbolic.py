"""asinh, acosh, atanh over log1p of a sum of two words.  Coefficients: benchmarks/fit_math.py."""

from __future__ import annotations

from tracejit.ir.math.double_word import fast_sum
from tracejit.ir.math.exp_log import LN2, log1p_plain
from tracejit.ir.math.term import Term, fma, polynomial, rare, select

__all__ = ["acosh", "asinh", "atanh"]

# (limit, scale, log of twice the inverse scale): squares of arguments below `limit` are finite; above it the function
# is log(2a) = log1p(a scale) + log(2 / scale), a scale being so large that 1 does not count
_LARGE = {"f32": (2.0**60, 2.0**-30, 31 * LN2), "f64": (2.0**500, 2.0**-300, 301 * LN2)}
# atanh(x) = x + x z p(z), z = x^2, |x| < 0.3
_ATANH: dict[str, tuple[float, ...]] = {
    "f32": (0.3333328068256378, 0.20005570352077484, 0.14104008674621582, 0.133987158536911),
    "f64": (0.3333333333333408, 0.19999999999668877, 0.14285714336131405, 0.11111107355253634, 0.09091066909282434,
            0.07688320789751353, 0.06728228658621468, 0.053184554545818455, 0.08006947816083368),
}  # fmt: skip


def _log1p_or_large(a: Term, t: Term, low: Term, rest: Term) -> Term:
    """log1p(t + low), and log(2a) where `rest` (rare: a not below the limit, or out of the domain)."""
    _, scale, offset = _LARGE[a.dtype]
    y = log1p_plain(select(rest, a * scale, t), select(rest, 0.0, low))
    return rare(rest, lambda: select(a < float("inf"), y + offset, a), y)


def asinh(x: Term) -> Term:
    """Inverse hyperbolic sine: log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|."""
    a = abs(x)
    square = a * a
    t, low = fast_sum(a, square / ((square + 1.0).sqrt() + 1.0))
    return _log1p_or_large(a, t, low, ~(a < _LARGE[x.dtype][0])).with_sign_of(x)


def acosh(x: Term) -> Term:
    """Inverse hyperbolic cosine: log1p(d + sqrt(d^2 + 2d)), d = x - 1; NaN below 1."""
    d = x - 1.0
    root = fma(d, d, d + d).sqrt()
    t, low = fast_sum(root, d)
    y = _log1p_or_large(x, t, low, ~(x < _LARGE[x.dtype][0]))
    return select(x < 1.0, float("nan"), y)


def atanh(x: Term) -> Term:
    """Inverse hyperbolic tangent: an odd polynomial below 0.3, log1p(2a / (1 - a)) / 2 above; NaN outside [-1, 1]."""
    a = abs(x)
    z = a * a
    near = fma(polynomial(z, _ATANH[x.dtype]), z * a, a)
    far = 0.5 * log1p_plain((a + a) / (1.0 - a))
    y = select(a < 0.3, near, far)

    def edge() -> Term:
        return select(a.equals(1.0), x.const(float("inf")), float("nan"))

    return rare(~(a < 1.0), edge, y).with_sign_of(x)
