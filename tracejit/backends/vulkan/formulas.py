"""Functions of scalars that a Vulkan device has not, or not exactly, written in other operations.

Source: IEEE 754-2019 for the half-precision conversions; Boldo and Melquiond 2008, "Emulation of a FMA and correctly
rounded sums", for rounding to odd; Dekker 1971 for exact products.
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.ir.builder import ScalarRecorder, make_lambda
from tracejit.ir.kernel import Lambda, Operand, Value
from tracejit.ir.math.term import Term, select

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


def _half_fma(x: Term, y: Term, z: Term) -> Term:
    """Of three f16 in f32: their product is exact there."""
    return _rounded_half(_odd_sum(x * y, z))


def _single_fma(x: Term, y: Term, z: Term) -> Term:
    """Through f64, which holds the product exactly."""
    return _odd_sum(x.convert("f64") * y.convert("f64"), z.convert("f64")).convert("f32")


FORMULAS: dict[str, tuple[tuple[str, ...], Callable[..., Term]]] = {
    "tj_widen_f16": (("u16",), _widened),
    "tj_narrow_f16": (("f32",), _narrowed),
    "tj_round_f16": (("f32",), _rounded_half),
    "tj_odd_f32": (("f64",), _odd),
    "tj_fma_f16": (("f32", "f32", "f32"), _half_fma),
    "tj_fma_f32": (("f32", "f32", "f32"), _single_fma),
}
"""Each function: the dtypes of its operands, and how it is written."""
