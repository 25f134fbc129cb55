"""Functions of scalars that a Vulkan device has not, or not exactly, written in other operations.

Source: IEEE 754-2019 for the half-precision conversions; Boldo and Melquiond 2008, "Emulation of a FMA and correctly
rounded sums", for rounding to odd; Dekker 1971 for exact products.
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.ir.builder import ScalarRecorder, make_lambda
from tracejit.ir.kernel import Lambda, Operand, Value
from tracejit.ir.math.term import Format, Term, fma, rare, select

__all__ = ["FORMULAS", "formula"]


def formula(name: str) -> Lambda:
    """The function of this name in `FORMULAS`."""
    dtypes, write = FORMULAS[name]

    def record(recorder: ScalarRecorder, *params: Value) -> Operand:
        return write(*[Term(recorder, p) for p in params]).operand

    return make_lambda(dtypes, record)


def _widened(half: Term) -> Term:
    """The number, in f32, whose representation in f16 is given."""
    word = half.convert("u32")
    sign, exponent, fraction = (word & 0x8000) << 16, (word >> 10) & 31, word & 1023
    subnormal = (fraction.convert("f32") * 2.0**-24).bitcast("u32")
    special, normal = (fraction << 13) | 0x7F800000, ((exponent.op("add", 112)) << 23) | (fraction << 13)
    rest = select(exponent.equals(0), subnormal, normal)
    return (select(exponent.equals(31), special, rest) | sign).bitcast("f32")


def _narrowed(x: Term) -> Term:
    """The representation in f16 of an f32, rounded to nearest, ties to even."""
    bits = x.bitcast("u32")
    sign, size = (bits >> 16) & 0x8000, bits & 0x7FFFFFFF
    kept = (size >> 13) & 1023
    nan = (kept | 0x7C00) | kept.equals(0).convert("u32")
    # 0.5 + |x| has an ulp of 2**-24, the least subnormal number of f16
    small = (size.bitcast("f32") + 0.5).bitcast("u32") - 0x3F000000
    normal = (size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13
    number = select(size < 0x38800000, small, normal)
    finite = select(size >= 0x477FF000, 0x7C00, number)
    return (select(size > 0x7F800000, nan, finite) | sign).convert("u16")


def _rounded_half(x: Term) -> Term:
    return _widened(_narrowed(x))


def _odd(x: Term) -> Term:
    """An f64 as f32 rounded to odd, so that a further rounding to f16 is right."""
    near = x.convert("f32")
    bits, back = near.bitcast("u32"), near.convert("f64")
    kept = (back.equals(x) | x.differs(x)) | (bits & 1).equals(1)
    step = select(abs(back) > abs(x), bits - 1, bits + 1)
    return select(kept, bits, step).bitcast("f32")


def _two_sum(x: Term, y: Term) -> tuple[Term, Term]:
    """x + y rounded, and its error."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def _odd_sum(x: Term, y: Term) -> Term:
    """x + y rounded to odd."""
    s, error = _two_sum(x, y)
    bits = s.bits()
    away = (error > 0.0).op("eq", s > 0.0)
    step = select(away, bits + 1, bits - 1)
    kept = (error.equals(0.0) | error.differs(error)) | (bits & 1).equals(1)
    return select(kept, bits, step).bitcast(s.dtype)


def _split(x: Term) -> tuple[Term, Term]:
    """The upper and the lower half of a significand."""
    c = x * (2.0 ** (x.format.fraction // 2 + 1) + 1.0)
    high = c - (c - x)
    return high, x - high


def _product(x: Term, y: Term) -> tuple[Term, Term]:
    """x * y rounded, and its error: exact unless something overflows or is subnormal."""
    (xh, xl), (yh, yl) = _split(x), _split(y)
    p = x * y
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def _half_fma(x: Term, y: Term, z: Term) -> Term:
    """Of three f16 in f32: their product is exact there."""
    return _rounded_half(_odd_sum(x * y, z))


def _single_fma(x: Term, y: Term, z: Term) -> Term:
    """Through f64, which holds the product exactly."""
    return _odd_sum(x.convert("f64") * y.convert("f64"), z.convert("f64")).convert("f32")


def _near_single_fma(x: Term, y: Term, z: Term) -> Term:
    """Rounded in f64 before: the error of a product is exact, other results are off by 2**-29 of a unit more."""
    return (x.convert("f64") * y.convert("f64") + z.convert("f64")).convert("f32")


def _sum_of_three(p: Term, e: Term, z: Term) -> tuple[Term, Term]:
    """p + e + z, where e is the error of p, as two numbers whose sum, rounded, is the sum rounded once."""
    uh, ul = _two_sum(z, e)
    th, tl = _two_sum(p, uh)
    return th, _odd_sum(tl, ul)


def _exact_fma(x: Term, y: Term, z: Term) -> Term:
    """x * y + z rounded once, without a wider format.  Where numbers are large or small, or zero, they are scaled."""
    bias, fraction = x.format.bias, x.format.fraction
    large, small = 2.0 ** (bias // 2 - 12), 2.0 ** (2 * fraction + 4 - bias)  # nothing overflows or is subnormal
    p, e = _product(x, y)
    plain = ((abs(x) < large) & (abs(y) < large)) & ((abs(z) < large) & (abs(p) > small))
    th, v = _sum_of_three(p, e, z)
    return rare(~plain, lambda: _scaled_fma(x, y, z), th + v)


def _near_fma(x: Term, y: Term, z: Term) -> Term:
    """x * y + z rounded once where |x| and |y| are below 2**996 (f64) or 2**115 (f32), else twice.  A third of the
    instructions of `_exact_fma`, which compilers write out at each use.
    """
    th, v = _sum_of_three(*_product(x, y), z)
    near = th + v
    return select((abs(near) < float("inf")) & near.differs(0.0), near, x * y + z)


def _exponent(x: Term) -> Term:
    """Of a normal number, as i32 or i64."""
    form = x.format
    return ((x.bits() >> form.fraction) & (2 * form.bias + 1)) - form.bias


def _power_of_2(k: Term, form: Format) -> Term:
    return ((k + form.bias) << form.fraction).bitcast(form.dtype)


def _significand(x: Term) -> tuple[Term, Term]:
    """(a number of [1, 2) with the sign of x, its exponent), of subnormal numbers too."""
    form = x.format
    subnormal = abs(x) < form.tiny
    normal = select(subnormal, x * 2.0 ** (form.fraction + 2), x)
    exponent = _exponent(normal) - select(subnormal, normal.bits().const(form.fraction + 2), 0)
    kept = normal.bits() & (form.sign_bit | form.fraction_mask)
    return (kept | form.one_bits).bitcast(form.dtype), exponent


def _limits(form: Format) -> tuple[int, int]:
    """(a difference of exponents at which the smaller number counts by its sign alone, the exponent of the least
    number)
    """
    return 2 * (form.fraction + 1) + 24, -form.bias - form.fraction + 1


def _scaled_fma(x: Term, y: Term, z: Term) -> Term:
    """The significands are multiplied and added; what is scaled back is rounded already, also where it is subnormal.

    A summand that is far below the other counts by its sign alone, so it may be taken as larger than it is.
    """
    form, (far, least) = x.format, _limits(x.format)
    (mx, ex), (my, ey), (mz, ez) = map(_significand, (x, y, z))
    zero = z.equals(0.0)
    exponent = (ex + ey).op("max", select(zero, ez.const(least - far), ez - far))
    shift = (ez - exponent).op("max", -far)
    th, v = _sum_of_three(*_product(mx, my), select(zero, z, mz * _power_of_2(shift, form)))
    scaled, infinity = _scaled_back(th, v, exponent), float("inf")
    finite = ((abs(x) < infinity) & (abs(y) < infinity)) & (x.differs(0.0) & y.differs(0.0))
    return select(finite, select(abs(z) < infinity, scaled, z), x * y + z)


def _scaled_back(th: Term, v: Term, exponent: Term) -> Term:
    """(th + v) * 2**exponent rounded once.  v: a smaller number, exact as far as rounding goes."""
    form, (far, least) = th.format, _limits(th.format)
    exponent = exponent.op("max", least - far).op("min", 2 * form.bias)
    total = th + v
    # Rounded to a multiple of the least subnormal number: beside a number whose ulp that is
    anchor = (_power_of_2(least - exponent, form) * 2.0**form.fraction).with_sign_of(total)
    sh, sl = _two_sum(anchor, th)
    small = ((sh + _odd_sum(sl, v)) - anchor).with_sign_of(total)
    is_small = (_exponent(total) + exponent < 1 - form.bias) & total.differs(0.0)
    half = exponent.shr(1)
    return select(is_small, small, total) * _power_of_2(half, form) * _power_of_2(exponent - half, form)


def _quotient(x: Term, y: Term, guess: Term, inverse: Term, plain: Term) -> Term:
    """x / y rounded once.  guess, inverse: nearly the quotient of the significands of |x| and |y|, and 1 over the
    latter.  plain: x / y, right in sign, and where an operand is zero, infinite or NaN.

    The guess is improved, and then compared with the middle between it and its neighbours, by exact remainders.
    """
    (mx, ex), (my, ey) = _significand(abs(x)), _significand(abs(y))
    q = fma(fma(-guess, my, mx), inverse, guess)
    rest, (above, below) = fma(-q, my, mx), _steps(q)
    q = select(rest > my * (above * 0.5), q + above, select(rest < -(my * (below * 0.5)), q - below, q))
    tail = fma(-q, my, mx) * (inverse * 0.5)  # whose sign counts: all of it might be rounded to half a unit of q
    scaled = _scaled_back(q, tail, ex - ey).with_sign_of(plain)
    infinity = float("inf")
    finite = ((abs(x) < infinity) & (abs(y) < infinity)) & (x.differs(0.0) & y.differs(0.0))
    return select(finite, scaled, plain)


def _steps(x: Term) -> tuple[Term, Term]:
    """The distances of a positive number to the next larger and the next smaller one."""
    form = x.format
    ulp = _power_of_2(_exponent(x) - form.fraction, form)
    return ulp, select((x.bits() & form.fraction_mask).equals(0), ulp * 0.5, ulp)


def _positive_significand(x: Term) -> Term:
    return _significand(abs(x))[0]


def _even(x: Term) -> tuple[Term, Term]:
    """(a number of [1, 4), half the exponent) of x, which is positive."""
    m, e = _significand(x)
    return select((e & 1).equals(1), m * 2.0, m), e.shr(1)


def _even_significand(x: Term) -> Term:
    return _even(x)[0]


def _root(x: Term, guess: Term, inverse: Term) -> Term:
    """The square root rounded once.  guess, inverse: nearly that of `_even_significand`, and 1/2 over it."""
    (m, e), infinity = _even(x), float("inf")
    s = fma(fma(-guess, guess, m), inverse, guess)
    rest, (above, below) = fma(-s, s, m), _steps(s)
    s = select(rest > s * above, s + above, select(-rest >= s * below, s - below, s))
    special = select(x < 0.0, float("nan"), x)
    return select((x > 0.0) & (x < infinity), s * _power_of_2(e, x.format), special)


def _rounded_to_even(x: Term) -> Term:
    size, magic = abs(x), 2.0**x.format.fraction
    return select(size < magic, (size + magic) - magic, size).with_sign_of(x)


def _floor(x: Term) -> Term:
    whole = _rounded_to_even(x)
    return select(whole > x, whole - 1.0, whole).with_sign_of(x)


def _ceil(x: Term) -> Term:
    whole = _rounded_to_even(x)
    return select(whole < x, whole + 1.0, whole).with_sign_of(x)


def _trunc(x: Term) -> Term:
    return _floor(abs(x)).with_sign_of(x)


FORMULAS: dict[str, tuple[tuple[str, ...], Callable[..., Term]]] = {
    "tj_widen_f16": (("u16",), _widened),
    "tj_narrow_f16": (("f32",), _narrowed),
    "tj_round_f16": (("f32",), _rounded_half),
    "tj_odd_f32": (("f64",), _odd),
    "tj_fma_f16": (("f32",) * 3, _half_fma),
    "tj_fma_f32_wide": (("f32",) * 3, _single_fma),
    "tj_fma_f32_wide_near": (("f32",) * 3, _near_single_fma),
    **{f"tj_fma_{d}": ((d,) * 3, _exact_fma) for d in ("f32", "f64")},
    **{f"tj_fma_{d}_near": ((d,) * 3, _near_fma) for d in ("f32", "f64")},
    **{f"tj_significand_{d}": ((d,), _positive_significand) for d in ("f32", "f64")},
    **{f"tj_quotient_{d}": ((d,) * 5, _quotient) for d in ("f32", "f64")},
    **{f"tj_even_significand_{d}": ((d,), _even_significand) for d in ("f32", "f64")},
    **{f"tj_root_{d}": ((d,) * 3, _root) for d in ("f32", "f64")},
    **{f"tj_roundeven_{d}": ((d,), _rounded_to_even) for d in ("f32", "f64")},
    **{f"tj_floor_{d}": ((d,), _floor) for d in ("f32", "f64")},
    **{f"tj_ceil_{d}": ((d,), _ceil) for d in ("f32", "f64")},
    **{f"tj_trunc_{d}": ((d,), _trunc) for d in ("f32", "f64")},
}
"""Each function: the dtypes of its operands, and how it is written."""
