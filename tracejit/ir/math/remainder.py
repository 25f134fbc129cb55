"""fmod: exact.  A quotient below 2**fraction takes one division and one fma; a larger one a rare branch that computes
2**d modulo the significand of the divisor by squaring, d the difference of the exponents, in wrapping 64-bit integers.
"""

from __future__ import annotations

from tracejit.ir.math.term import Term, fma, rare, select

__all__ = ["fmod"]


def fmod(x: Term, y: Term) -> Term:
    """x - trunc(x / y) y, exactly, with the sign of x; NaN for infinite x or zero y."""
    form = x.format
    a, b = abs(x), abs(y)
    ratio = a / b
    r = fma(-ratio.trunc(), b, a)  # exact: the quotient is right or one too large
    r = select(r < 0.0, r + b, r)
    unusual = ~(ratio < 2.0**form.fraction) | b.equals(float("inf"))
    return rare(unusual, lambda: _special(a, b), r).with_sign_of(x)


def _special(a: Term, b: Term) -> Term:
    valid = (a < float("inf")) & (b > 0.0)
    return select(valid, select(b.equals(float("inf")), a, _long(a, b)), float("nan"))


def _long(a: Term, b: Term) -> Term:
    """a modulo b for finite a >= b * 2**fraction > 0 (so a is normal)."""
    form = a.format
    small = b < form.tiny
    b = select(small, b * 2.0**form.fraction, b)
    leading = 1 << form.fraction
    m = _significand(b, leading)
    top = _significand(a, leading)
    top = select(top < m, top, top - m)
    d = ((a.bits() >> form.fraction) - (b.bits() >> form.fraction)).convert("i64")
    d = select(small, d + form.fraction, d)
    r = _Modulus(m, form.bits).product(top, _Modulus(m, form.bits).power_of_two(d, 4 if form.bits == 32 else 6))
    scale = (b.bits() & ~form.fraction_mask).bitcast(a.dtype)
    y = r.convert(a.dtype) * 2.0**-form.fraction * scale
    return select(small, y * 2.0**-form.fraction, y)


def _significand(x: Term, leading: int) -> Term:
    return ((x.bits() & (leading - 1)) | leading).convert("i64")


class _Modulus:
    """Arithmetic modulo the i64 `m` of 24 or 53 bits."""

    __slots__ = ("bits", "m")

    def __init__(self, m: Term, bits: int) -> None:
        self.m = m
        self.bits = bits

    def product(self, x: Term, y: Term) -> Term:
        """x y modulo m, for x and y in [0, m)."""
        if self.bits == 32:
            return (x * y).op("irem", self.m)
        q = (x.convert("f64") * y.convert("f64") / self.m.convert("f64")).convert("i64")  # right but for 2 units
        r = x * y - q * self.m  # small: exact although the products wrap
        r = select(r < 0, r + self.m * 2, r)
        r = select(r < self.m, r, r - self.m * 2)
        return select(r < 0, r + self.m, r)

    def power_of_two(self, d: Term, squarings: int) -> Term:
        """2**d modulo m: the upper bits of d by a shift, the lower `squarings` bits by squaring and doubling."""
        t = d.const(1) << (d >> squarings)
        for k in reversed(range(squarings)):
            t = self.product(t, t)
            t = select(((d >> k) & 1).differs(0), t + t, t)
            t = select(t < self.m, t, t - self.m)
        return t
