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

__all__ = [
    "COMPLEX_FUNCTIONS",
    "expand_complex",
    "exp",
    "expm1",
    "lexicographic",
    "log",
    "log1p",
    "quotient",
    "times",
    "where",
]

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


# -- arithmetic --------------------------------------------------------------------------------------------------------
def times(x: Complex, y: Complex) -> Complex:
    """The product, every operation of it rounded, as NumPy's is."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def quotient(x: Complex, y: Complex) -> Complex:
    """By the greater part of the divisor (Smith 1962); by zero the parts are divided each."""
    (a, b), (c, d) = x, y
    p, q = abs(c), abs(d)
    first = p >= q
    none = p.equals(0.0) & q.equals(0.0)
    big, small = select(first, c, d), select(first, d, c)
    u, v = select(first, a, b), select(first, b, a)
    ratio = select(none, big, small / big)
    scale = 1.0 / (big + small * ratio)
    real = (u + v * ratio) * scale
    other = u * ratio
    imaginary = (select(first, v, other) - select(first, other, v)) * scale  # a zero keeps the sign that NumPy's has
    return select(none, a / p, real), select(none, b / p, imaginary)


def size(x: Complex) -> Term:
    """sqrt(a**2 + b**2) without overflow on the way."""
    a, b = abs(x[0]), abs(x[1])
    first = a >= b
    big, small = select(first, a, b), select(first, b, a)
    ratio = small / big
    found = big * fma(ratio, ratio, 1.0).sqrt()
    found = select(big.equals(0.0), big, found)
    missing = _is_nan(a) | _is_nan(b)
    found = select(missing, a + b, found)
    return select(a.equals(_INF) | b.equals(_INF), _INF, found)


def sign(x: Complex) -> Complex:
    """x / |x|, 0 at 0; on the axis where one part is infinite, whatever the other is, NaN where both are."""
    r = size(x)
    a, b = x
    wide, high, gone = _is_infinite(a), _is_infinite(b), r.equals(0.0) | r.equals(_INF)
    along_a, along_b = select(gone, 0.0, a / r), select(gone, 0.0, b / r)
    both = a.const(float("nan"))
    real = select(wide, select(high, both, a.const(1.0).with_sign_of(a)), along_a)
    return real, select(high, select(wide, both, b.const(1.0).with_sign_of(b)), along_b)


def _is_infinite(x: Term) -> Term:
    return abs(x).equals(_INF)


def _is_finite(x: Term) -> Term:
    return abs(x) < _INF


def _is_nan(x: Term) -> Term:
    return x.differs(x)


def _scaled(x: Term, y: Term) -> Term:
    """x * y, 0 where y is, even if x is infinite or NaN."""
    return select(y.equals(0.0), select(x < 0.0, -y, y), x * y)


# -- exponentials and logarithms ---------------------------------------------------------------------------------------
def exp(x: Complex) -> Complex:
    """The exponential; in two halves where that of the real part alone overflows."""
    a, b = x
    half = select(a > _LARGE[a.dtype], a * 0.5, a).op("exp")
    c, s = b.op("cos"), b.op("sin")
    again = select(a > _LARGE[a.dtype], half, 1.0)
    none = a.equals(-_INF) & ~(_is_finite(b))
    real = select(b.equals(0.0), half * again, half * c * again)
    imaginary = _scaled(_scaled(half, s), select(s.equals(0.0), 1.0, again))
    top = a.equals(_INF) & ~(_is_finite(b))
    real = select(top, _INF, select(none, 0.0, real))
    return real, select(top, b - b, select(none, a.const(0.0).with_sign_of(b), select(b.equals(0.0), b, imaginary)))


def exp2(x: Complex) -> Complex:
    """A power of two."""
    return exp((x[0] * _LN2, x[1] * _LN2))


def expm1(x: Complex) -> Complex:
    """exp(x) - 1 without cancellation near 0, by NumPy's formula: an infinite exponential times 0 is NaN."""
    a, b = x
    half = (b * 0.5).op("sin")
    return a.op("expm1") * b.op("cos") - half * half * 2.0, a.op("exp") * b.op("sin")


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
    missing = _is_nan(a) | _is_nan(b)
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
    up = _is_infinite(b)
    return select(up, _INF, real), select(up, abs(b), imaginary).with_sign_of(b)


def power(x: Complex, y: Complex) -> Complex:
    """Of a whole exponent below 100 products of x, of others e ** (y log x); 1 for an exponent of 0, and of 0 itself 0
    or NaN.   Source: NumPy's npy_cpow
    """
    c, d = y
    whole = c.equals(c.trunc()) & (abs(c) < 100.0) & d.equals(0.0)
    real, imaginary = where(whole, lambda: _whole_power(x, c), lambda: exp(_times_kept(y, log(x))))
    one = c.equals(0.0) & d.equals(0.0)
    none, nan = x[0].equals(0.0) & x[1].equals(0.0), c.const(float("nan"))
    of_zero = select(c > 0.0, 0.0, nan)
    real, imaginary = select(none, of_zero, real), select(none, of_zero, imaginary)
    return select(one, 1.0, real), select(one, 0.0, imaginary)


def where(condition: Term, then: Callable[[], Complex], otherwise: Callable[[], Complex]) -> Complex:
    """`then()` where `condition`, else `otherwise()`: each skipped where no lane needs it."""
    recorder: Any = condition.b
    real, imaginary = recorder.branch(
        condition.operand,
        lambda: tuple([part.operand for part in then()]),
        lambda: tuple([part.operand for part in otherwise()]),
    )
    return Term(recorder, real), Term(recorder, imaginary)


def _whole_power(x: Complex, c: Term) -> Complex:
    """x to a whole number below 100 by squares, in NumPy's order."""
    size = abs(c)
    found: Complex = (c.const(1.0), c.const(0.0))
    square = x
    for k in range(7):
        half = (size * 0.5).trunc()
        odd = (half + half).differs(size)
        more = times(found, square)
        found = select(odd, more[0], found[0]), select(odd, more[1], found[1])
        size = half
        if k < 6:
            square = times(square, square)
    over = quotient((c.const(1.0), c.const(0.0)), found)
    found = select(c < 0.0, over[0], found[0]), select(c < 0.0, over[1], found[1])
    # short ways without the 1, which would make NaN of an infinite part
    two = times(x, x)
    three = times(x, two)
    for n, short in ((1.0, x), (2.0, two), (3.0, three)):
        here = c.equals(n)
        found = select(here, short[0], found[0]), select(here, short[1], found[1])
    return found


def _times_kept(x: Complex, y: Complex) -> Complex:
    """The product; infinite where both parts would be NaN though a factor is infinite.   Source: C99 annex G"""
    real, imaginary = times(x, y)

    def kept() -> Complex:
        (a, b), (c, d) = x, y
        left, right = _is_infinite(a) | _is_infinite(b), _is_infinite(c) | _is_infinite(d)
        over = _is_infinite(a * c) | _is_infinite(b * d) | _is_infinite(a * d) | _is_infinite(b * c)
        p, q = (_direction(part, left, right | over) for part in (a, b))
        r, s = (_direction(part, right, left | over) for part in (c, d))
        far = times((p, q), (r, s))
        some = left | right | over
        return select(some, far[0] * _INF, real), select(some, far[1] * _INF, imaginary)

    return where(_is_nan(real) & _is_nan(imaginary), kept, lambda: (real, imaginary))


def _direction(part: Term, infinite: Term, beside: Term) -> Term:
    """A part of a factor: 0 or 1 with its sign if the factor is infinite, 0 for NaN beside an infinite one."""
    box = select(_is_infinite(part), part.const(1.0), 0.0).with_sign_of(part)
    return select(infinite, box, select(_is_nan(part) & beside, part.const(0.0).with_sign_of(part), part))


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
    return select(_is_infinite(a) & ~_is_finite(b), _INF, real), imaginary


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
    imaginary = select(s.equals(0.0), select(_is_nan(a), s, s * a.const(1.0).with_sign_of(a)), imaginary)
    astray = ~_is_finite(b)
    return select(_is_infinite(a) & astray, _INF, real), select(a.equals(0.0) & astray, 0.0, imaginary)


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
    slope = select(_is_finite(b), slope, select(_is_infinite(a), a.const(0.0).with_sign_of(b), b - b))
    one = a.const(1.0).with_sign_of(a) + select(_is_infinite(a), 0.0, b - b)
    real, imaginary = select(flat, one, real), select(flat, slope, imaginary)
    return select(a.equals(0.0), a, real), select(b.equals(0.0), b, imaginary)


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """-i f(i z)"""

    def run(x: Complex) -> Complex:
        real, imaginary = function((-x[1], x[0]))
        return imaginary, -real

    return run


def sin(x: Complex) -> Complex:
    """i sinh(-i x)."""
    real, imaginary = sinh((x[1], -x[0]))
    return -imaginary, real


def cos(x: Complex) -> Complex:
    """cosh(i x)."""
    return cosh((-x[1], x[0]))


def _roots_of(x: Complex) -> tuple[Complex, Complex]:
    """(sqrt(1 - x), sqrt(1 + x))"""
    a, b = x
    return sqrt((1.0 - a, -b)), sqrt((a + 1.0, b))


def asin(x: Complex) -> Complex:
    """By the roots of 1 - x and 1 + x (Kahan 1987)."""
    a, b = x
    below, above = _roots_of(x)
    across = select(_is_infinite(a) & _is_finite(b), 1.0, below[0] * above[0] - below[1] * above[1])
    real = select(a.equals(0.0), a, a.op("atan2", across))
    imaginary = (below[0] * above[1] - below[1] * above[0]).op("asinh")
    return real, select(_is_infinite(a) & _is_nan(b), _INF, imaginary)


def acos(x: Complex) -> Complex:
    """By the roots of 1 - x and 1 + x (Kahan 1987)."""
    a, b = x
    below, above = _roots_of(x)
    angle = _angle_far_out(x, below[0].op("atan2", above[0]) * 2.0)
    size = (above[0] * below[1] - above[1] * below[0]).op("asinh")
    return angle, select(_is_infinite(a) & _is_nan(b), -_INF, size)


def _angle_far_out(x: Complex, angle: Term) -> Term:
    """The angle of acos and acosh: where both parts are infinite pi/4 or 3 pi/4, and where one is NaN."""
    a, b = x
    diagonal = a.const(math.pi / 2) - a.const(math.pi / 4).with_sign_of(a)
    angle = select(_is_infinite(a) & _is_infinite(b), diagonal, angle)
    return select(a.equals(0.0) & _is_nan(b), math.pi / 2, select(_is_nan(a), a, angle))


def acosh(x: Complex) -> Complex:
    """By the roots of x - 1 and x + 1 (Kahan 1987)."""
    a, b = x
    below, above = sqrt((a - 1.0, b)), sqrt((a + 1.0, b))
    real = (below[0] * above[0] + below[1] * above[1]).op("asinh")
    angle = abs(below[1].op("atan2", above[0])) * 2.0
    return select(_is_infinite(a) & _is_nan(b), _INF, real), _angle_far_out(x, angle).with_sign_of(b)


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
    nowhere = _is_nan(b) | (_is_nan(a) & (q < _INF))
    return select(a.equals(0.0), a, real.with_sign_of(a)), select(nowhere, p + q, imaginary.with_sign_of(b))


COMPLEX_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "div": quotient, "abs": size, "sign": sign, "sqrt": sqrt, "pow": power, "exp": exp, "exp2": exp2, "expm1": expm1,
    "log": log, "log1p": log1p, "log2": log2, "log10": log10, "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "sin": sin, "cos": cos, "tan": _turned(tanh), "asin": asin, "acos": acos, "atan": _turned(atanh),
    "asinh": _turned(asin), "acosh": acosh, "atanh": atanh,
}  # fmt: skip
