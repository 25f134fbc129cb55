"""Functions of complex numbers as formulae over their parts, for c64 and c128, written once for every backend.

`expand_complex(name, b, *operands)` writes one into the builder.  Sources: C99 annex G for infinities, NaN and signs of
zero; Kahan, "Branch cuts for complex elementary functions" (1987) for the inverse functions; Smith (1962) for the
quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracejit.ir.math.term import ScalarBuilder, Term, fma, select

__all__ = ["COMPLEX_FUNCTIONS", "expand_complex", "lexicographic"]

Complex = tuple[Term, Term]
_LN2, _INF = math.log(2.0), float("inf")
_LARGE = {"f32": 64.0, "f64": 512.0}  # e**x is finite and normal up to there, and its square is not far from the range
_FLAT = {"f32": 12.0, "f64": 22.0}  # tanh is 1 from there
_HUGE = {"f32": 2.0**62, "f64": 2.0**510}
_TINY = {"f32": 2.0**-60, "f64": 2.0**-500}


def expand_complex(name: str, b: ScalarBuilder, *operands: Any) -> Any:
    """Write the function `name` of complex operands; the operand of the result, of real numbers for "abs"."""
    parts: list[Complex] = [(Term(b, b.op("real", x)), Term(b, b.op("imag", x))) for x in operands]
    found = COMPLEX_FUNCTIONS[name](*parts)
    return found.operand if isinstance(found, Term) else b.op("complex", found[0].operand, found[1].operand)


def lexicographic(name: str, b: ScalarBuilder, x: Any, y: Any) -> Any:
    """A comparison (lt, le, gt, ge) by real parts, of equal ones by imaginary parts; false where one is NaN."""
    (a, p), (c, q) = ((Term(b, b.op("real", z)), Term(b, b.op("imag", z))) for z in (x, y))
    strict = name[0] + "t"
    first = a.op(strict, c) & p.equals(p) & q.equals(q)
    return (first | (a.equals(c) & p.op(name, q))).operand


def is_nan(b: ScalarBuilder, x: Any) -> Any:
    """Whether a part is NaN."""
    return b.op("ne", x, x)


# -- arithmetic --------------------------------------------------------------------------------------------------------
def times(x: Complex, y: Complex) -> Complex:
    """The product, every operation of it rounded, as NumPy's is."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def quotient(x: Complex, y: Complex) -> Complex:
    """By the greater part of the divisor; by zero the parts are divided each."""
    (a, b), (c, d) = x, y
    p, q = abs(c), abs(d)
    first = p >= q
    none = p.equals(0.0) & q.equals(0.0)
    big, small = select(first, c, d), select(first, d, c)
    u, v = select(first, a, b), select(first, b, a)
    ratio = select(none, big, small / big)
    scale = 1.0 / (big + small * ratio)
    real = (u + v * ratio) * scale
    difference = (v - u * ratio) * scale
    imaginary = select(first, difference, -difference)
    return select(none, a / p, real), select(none, b / p, imaginary)


def size(x: Complex) -> Term:
    """sqrt(a**2 + b**2) without overflow on the way."""
    a, b = abs(x[0]), abs(x[1])
    first = a >= b
    big, small = select(first, a, b), select(first, b, a)
    ratio = small / big
    found = big * fma(ratio, ratio, 1.0).sqrt()
    found = select(big.equals(0.0), big, found)
    missing = a.differs(a) | b.differs(b)
    found = select(missing, a + b, found)
    return select(a.equals(_INF) | b.equals(_INF), _INF, found)


def sign(x: Complex) -> Complex:
    """x / |x|, 0 at 0."""
    r = size(x)
    none = r.equals(0.0)
    a, b = x
    infinite = r.equals(_INF)
    one_a = select(abs(a).equals(_INF), a.const(1.0).with_sign_of(a), select(infinite, a * 0.0, a / r))
    one_b = select(abs(b).equals(_INF), a.const(1.0).with_sign_of(b), select(infinite, b * 0.0, b / r))
    both = abs(a).equals(_INF) & abs(b).equals(_INF)
    nan = float("nan")
    return select(none, 0.0, select(both, nan, one_a)), select(none, 0.0, select(both, nan, one_b))


def _scaled(x: Term, y: Term) -> Term:
    """x * y, 0 where y is, even if x is infinite."""
    return select(y.equals(0.0), y * x.const(1.0).with_sign_of(x), x * y)


# -- exponentials and logarithms ---------------------------------------------------------------------------------------
def exp(x: Complex) -> Complex:
    """The exponential; in two halves where that of the real part alone overflows."""
    a, b = x
    half = select(a > _LARGE[a.dtype], a * 0.5, a).op("exp")
    c, s = b.op("cos"), b.op("sin")
    again = select(a > _LARGE[a.dtype], half, 1.0)
    none = a.equals(-_INF) & ~(abs(b) < _INF)
    real = select(b.equals(0.0), half * again, half * c * again)
    imaginary = _scaled(_scaled(half, s), select(s.equals(0.0), 1.0, again))
    top = a.equals(_INF) & ~(abs(b) < _INF)
    real = select(top, _INF, select(none, 0.0, real))
    return real, select(top, b - b, select(none, a.const(0.0).with_sign_of(b), select(b.equals(0.0), b, imaginary)))


def exp2(x: Complex) -> Complex:
    """A power of two."""
    return exp((x[0] * _LN2, x[1] * _LN2))


def expm1(x: Complex) -> Complex:
    """exp(x) - 1 without cancellation near 0."""
    a, b = x
    half = (b * 0.5).op("sin")
    less = a.op("expm1")
    real = _scaled(less, b.op("cos")) - half * half * 2.0
    whole = exp(x)
    near = abs(a) < 1.0
    return select(near & (abs(b) < _INF), real, whole[0] - 1.0), whole[1]


def _log_size(x: Complex) -> Term:
    """log |x|; near 1 by what |x|**2 differs from it."""
    a, b = abs(x[0]), abs(x[1])
    first = a >= b
    big, small = select(first, a, b), select(first, b, a)
    ratio = small / big
    far = fma((ratio * ratio).op("log1p"), 0.5, big.op("log"))
    near = fma(big - 1.0, big + 1.0, small * small).op("log1p") * 0.5
    found = select((big > 0.5) & (big < 1.5) & (small < 1.0), near, far)
    found = select(big.equals(0.0), -_INF, found)
    missing = a.differs(a) | b.differs(b)
    found = select(missing, a + b, found)
    return select(a.equals(_INF) | b.equals(_INF), _INF, found)


def log(x: Complex) -> Complex:
    """The logarithm: that of the absolute value, and the angle."""
    return _log_size(x), x[1].op("atan2", x[0])


def log1p(x: Complex) -> Complex:
    """log(1 + x) without cancellation near 0."""
    a, b = x
    near = (abs(a) < 0.5) & (abs(b) < 0.5)
    small = fma(a, a + 2.0, b * b).op("log1p") * 0.5
    return select(near, small, _log_size((a + 1.0, b))), b.op("atan2", a + 1.0)


def log2(x: Complex) -> Complex:
    """The logarithm to base 2."""
    a, b = log(x)
    return a * (1.0 / _LN2), b * (1.0 / _LN2)


def log10(x: Complex) -> Complex:
    """The logarithm to base 10."""
    a, b = log(x)
    return a * (1.0 / math.log(10.0)), b * (1.0 / math.log(10.0))


def sqrt(x: Complex) -> Complex:
    """The root with the real part that is not negative; scaled where the squares would leave the range."""
    a, b = x
    big = select(abs(a) > abs(b), abs(a), abs(b))
    shrink, grow = big > _HUGE[a.dtype], big < _TINY[a.dtype]
    scale = select(shrink, a.const(2.0**-8), select(grow, a.const(2.0**60), 1.0))
    back = select(shrink, a.const(2.0**4), select(grow, a.const(2.0**-30), 1.0))
    p, q = a * scale, b * scale
    t = ((abs(p) + size((p, q))) * 0.5).sqrt()
    other = abs(q) / (t + t)
    right = p >= 0.0
    real, imaginary = select(right, t, other) * back, select(right, other, t) * back
    none = a.equals(0.0) & b.equals(0.0)
    real, imaginary = select(none, 0.0, real), select(none, abs(b), imaginary)
    # infinities: along the real axis the other part is 0, or NaN if it was; along the imaginary one both are infinite
    left, flat = a.equals(-_INF), b * 0.0
    real = select(a.equals(_INF), a, select(left, abs(flat), real))
    imaginary = select(a.equals(_INF), abs(flat), select(left, _INF, imaginary))
    up = abs(b).equals(_INF)
    return select(up, _INF, real), select(up, abs(b), imaginary).with_sign_of(b)


def power(x: Complex, y: Complex) -> Complex:
    """e ** (y log x); 1 for an exponent of 0, and of 0 itself 0 or NaN as NumPy has it."""
    c, d = y
    found = exp(times(y, log(x)))
    one = c.equals(0.0) & d.equals(0.0)
    none = x[0].equals(0.0) & x[1].equals(0.0)
    zero = none & (c > 0.0) & d.equals(0.0)
    nan = float("nan")
    real = select(zero, 0.0, select(none, nan, found[0]))
    imaginary = select(zero, 0.0, select(none, nan, found[1]))
    same = c.equals(1.0) & d.equals(0.0)
    square = times(x, x)
    twice = c.equals(2.0) & d.equals(0.0)
    real = select(same, x[0], select(twice, square[0], real))
    imaginary = select(same, x[1], select(twice, square[1], imaginary))
    return select(one, 1.0, real), select(one, 0.0, imaginary)


# -- trigonometric and hyperbolic --------------------------------------------------------------------------------------
def sinh(x: Complex) -> Complex:
    """sinh a cos b + i cosh a sin b."""
    a, b = x
    s, c = b.op("sin"), b.op("cos")
    large = abs(a) > _LARGE[a.dtype]
    e = (abs(a) * 0.5).op("exp")  # of large ones half of its square is both
    whole = e * 0.5
    real = select(large, _scaled(_scaled(whole, c), e).with_sign_of(_scaled(a, c)), _scaled(c, a.op("sinh")))
    imaginary = select(large, _scaled(_scaled(whole, s), select(s.equals(0.0), 1.0, e)), _scaled(a.op("cosh"), s))
    return real, imaginary


def cosh(x: Complex) -> Complex:
    """cosh a cos b + i sinh a sin b."""
    a, b = x
    s, c = b.op("sin"), b.op("cos")
    large = abs(a) > _LARGE[a.dtype]
    e = (abs(a) * 0.5).op("exp")
    whole = e * 0.5
    real = select(large, _scaled(whole, c) * e, a.op("cosh") * c)
    far = _scaled(_scaled(whole, s), select(s.equals(0.0), 1.0, e))
    imaginary = select(large, select(a < 0.0, -far, far), _scaled(s, a.op("sinh")))
    imaginary = select(s.equals(0.0), s * a.const(1.0).with_sign_of(a), imaginary)
    return real, imaginary


def tanh(x: Complex) -> Complex:
    """By the tangent of the imaginary part (Kahan 1987)."""
    a, b = x
    t = b.op("tan")
    flat = abs(a) > _FLAT[a.dtype]
    inside = select(flat, 0.0, a)
    beta, s = fma(t, t, 1.0), inside.op("sinh")
    rho, under = fma(s, s, 1.0).sqrt(), fma(beta * s, s, 1.0)
    vertical = abs(t).equals(_INF)
    real = select(vertical, rho / s, beta * rho * s / under)
    imaginary = select(vertical, 1.0 / t, t / under)
    slope = _scaled(b.op("sin") * b.op("cos") * 4.0, (abs(a) * -2.0).op("exp"))
    slope = select(abs(b) < _INF, slope, select(abs(a).equals(_INF), a.const(0.0).with_sign_of(b), b - b))
    return select(flat, a.const(1.0).with_sign_of(a), real), select(flat, slope, imaginary)


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """-i f(i z)"""

    def run(x: Complex) -> Complex:
        real, imaginary = function((-x[1], x[0]))
        return imaginary, -real

    return run


def cos(x: Complex) -> Complex:
    """cosh(i x)."""
    return cosh((-x[1], x[0]))


def _roots_of(x: Complex) -> tuple[Complex, Complex]:
    """(sqrt(1 - x), sqrt(1 + x))"""
    a, b = x
    return sqrt((1.0 - a, -b)), sqrt((a + 1.0, b))


def asin(x: Complex) -> Complex:
    """By the roots of 1 - x and 1 + x (Kahan 1987)."""
    below, above = _roots_of(x)
    real = x[0].op("atan2", (below[0] * above[0] - below[1] * above[1]))
    return real, (below[0] * above[1] - below[1] * above[0]).op("asinh")


def acos(x: Complex) -> Complex:
    """By the roots of 1 - x and 1 + x (Kahan 1987)."""
    below, above = _roots_of(x)
    real = below[0].op("atan2", above[0]) * 2.0
    return real, (above[0] * below[1] - above[1] * below[0]).op("asinh")


def acosh(x: Complex) -> Complex:
    """By the roots of x - 1 and x + 1 (Kahan 1987)."""
    a, b = x
    below, above = sqrt((a - 1.0, b)), sqrt((a + 1.0, b))
    real = (below[0] * above[0] + below[1] * above[1]).op("asinh")
    return real, below[1].op("atan2", above[0]) * 2.0


def atanh(x: Complex) -> Complex:
    """By quotients of real numbers (Kahan 1987)."""
    a, b = x
    p, q = abs(a), abs(b)
    far = (p > _HUGE[a.dtype]) | (q > _HUGE[a.dtype])
    real = (p * 4.0 / fma(1.0 - p, 1.0 - p, q * q)).op("log1p") * 0.25
    imaginary = (q + q).op("atan2", (1.0 - p) * (p + 1.0) - q * q) * 0.5
    away = quotient((p.const(1.0), p.const(0.0)), (p, q))[0]
    real = select(far, select(p.equals(_INF) | q.equals(_INF), 0.0, away), real)
    imaginary = select(far, math.pi / 2, imaginary)
    return real.with_sign_of(a), imaginary.with_sign_of(b)


COMPLEX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "div": quotient, "abs": size, "sign": sign, "sqrt": sqrt, "pow": power, "exp": exp, "exp2": exp2, "expm1": expm1,
    "log": log, "log1p": log1p, "log2": log2, "log10": log10, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "sin": _turned(sinh), "cos": cos, "tan": _turned(tanh), "asin": asin, "acos": acos, "atan": _turned(atanh),
    "asinh": _turned(asin), "acosh": acosh, "atanh": atanh,
}  # fmt: skip
