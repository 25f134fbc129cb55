"""Formulae over kernel operands: `Term` gives an operand the arithmetic operators,
so that expansions read as mathematics.

Every operator is one scalar operation of `ir.scalar.OPS`; nothing is folded, reordered or contracted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tracejit.support.nodes import frozen

__all__ = ["F32", "F64", "FORMATS", "Format", "ScalarBuilder", "Term", "fma", "horner", "polynomial", "rare", "select"]


class ScalarBuilder(Protocol):
    """What an expansion writes to: the kernel builder, or an evaluator in the tests.  An operand has `.dtype`,
    its kernel dtype name.
    """

    def op(self, name: str, *args: Any, dtype: str | None = None) -> Any:
        """One operation of `OPS`; `dtype` only for convert and bitcast."""
        ...

    def const(self, value: float | int, dtype: str) -> Any:
        """A constant."""
        ...

    def rare(self, condition: Any, then: Callable[[], Any], otherwise: Any) -> Any:
        """Elementwise `then()` where `condition`, else `otherwise`; a branch skips `then` when no lane needs it."""
        ...


@frozen
class Format:
    """A binary floating-point format and the integers of its width."""

    dtype: str
    signed: str
    unsigned: str
    bits: int
    fraction: int  # stored bits of the significand
    bias: int
    tiny: float  # least normal number

    @property
    def magic(self) -> float:
        """1.5 * 2**fraction: adding it rounds to an integer that then sits in the low bits of the sum."""
        return 1.5 * 2.0**self.fraction

    @property
    def one_bits(self) -> int:
        return self.bias << self.fraction

    @property
    def infinity_bits(self) -> int:
        return (2 * self.bias + 1) << self.fraction

    @property
    def sign_bit(self) -> int:
        """The sign bit as a value of the signed integer type."""
        return -(1 << (self.bits - 1))

    @property
    def fraction_mask(self) -> int:
        return (1 << self.fraction) - 1


F32 = Format("f32", "i32", "u32", 32, 23, 127, 2.0**-126)
F64 = Format("f64", "i64", "u64", 64, 52, 1023, 2.0**-1022)
FORMATS = {"f32": F32, "f64": F64}


class Term:
    """An operand with arithmetic.  A Python number beside a term is a constant of the term's dtype."""

    __slots__ = ("b", "dtype", "operand")

    def __init__(self, b: ScalarBuilder, operand: Any) -> None:
        self.b = b
        self.operand = operand
        self.dtype: str = operand.dtype

    def const(self, value: float | int) -> Term:
        """A constant of this term's dtype."""
        return Term(self.b, self.b.const(value, self.dtype))

    def op(self, name: str, *others: Term | float | int) -> Term:
        """The operation `name` with this term as first operand."""
        args = (o.operand if isinstance(o, Term) else self.b.const(o, self.dtype) for o in others)
        return Term(self.b, self.b.op(name, self.operand, *args))

    def _reflected(self, name: str, other: float | int) -> Term:
        return self.const(other).op(name, self)

    def __add__(self, other: Term | float | int) -> Term:
        return self.op("add", other)

    __radd__ = __add__

    def __sub__(self, other: Term | float | int) -> Term:
        return self.op("sub", other)

    def __rsub__(self, other: float | int) -> Term:
        return self._reflected("sub", other)

    def __mul__(self, other: Term | float | int) -> Term:
        return self.op("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Term | float | int) -> Term:
        return self.op("div", other)

    def __rtruediv__(self, other: float | int) -> Term:
        return self._reflected("div", other)

    def __neg__(self) -> Term:
        return self.op("neg")

    def __abs__(self) -> Term:
        return self.op("abs")

    def __and__(self, other: Term | int) -> Term:
        return self.op("and", other)

    def __or__(self, other: Term | int) -> Term:
        return self.op("or", other)

    def __xor__(self, other: Term | int) -> Term:
        return self.op("xor", other)

    def __invert__(self) -> Term:
        return self.op("not")

    def __lt__(self, other: Term | float | int) -> Term:
        return self.op("lt", other)

    def __le__(self, other: Term | float | int) -> Term:
        return self.op("le", other)

    def __gt__(self, other: Term | float | int) -> Term:
        return self.op("gt", other)

    def __ge__(self, other: Term | float | int) -> Term:
        return self.op("ge", other)

    def equals(self, other: Term | float | int) -> Term:
        return self.op("eq", other)

    def differs(self, other: Term | float | int) -> Term:
        return self.op("ne", other)

    def __lshift__(self, count: Term | int) -> Term:
        return self.op("shl", count)

    def __rshift__(self, count: Term | int) -> Term:
        """Logical: zeros come in from the left, whatever the type."""
        return self.op("lshr", count)

    def shr(self, count: Term | int) -> Term:
        """Arithmetic: copies of the sign come in from the left."""
        return self.op("shr", count)

    def sqrt(self) -> Term:
        return self.op("sqrt")

    def trunc(self) -> Term:
        return self.op("trunc")

    def with_sign_of(self, other: Term) -> Term:
        return self.op("copysign", other)

    def at_least(self, low: float) -> Term:
        """max(self, low), NaN kept: one instruction on x86."""
        return select(self.const(low) > self, low, self)

    def at_most(self, high: float) -> Term:
        """min(self, high), NaN kept."""
        return select(self.const(high) < self, high, self)

    def bitcast(self, dtype: str) -> Term:
        return Term(self.b, self.b.op("bitcast", self.operand, dtype=dtype))

    def convert(self, dtype: str) -> Term:
        return Term(self.b, self.b.op("convert", self.operand, dtype=dtype))

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype]

    def bits(self) -> Term:
        """The representation, as the signed integer of the same width."""
        return self.bitcast(self.format.signed)


def _pair(first: Term | float | int, second: Term | float | int) -> tuple[Term, Term]:
    if isinstance(first, Term):
        return first, second if isinstance(second, Term) else first.const(second)
    if isinstance(second, Term):
        return second.const(first), second
    raise TypeError("one of the two alternatives must be a term")


def select(condition: Term, yes: Term | float | int, no: Term | float | int) -> Term:
    """`yes` where `condition`, else `no`."""
    first, second = _pair(yes, no)
    return Term(condition.b, condition.b.op("select", condition.operand, first.operand, second.operand))


def fma(x: Term, y: Term | float, z: Term | float) -> Term:
    """x * y + z, rounded once."""
    return x.op("fma", y, z)


def rare(condition: Term, then: Callable[[], Term], otherwise: Term) -> Term:
    """Elementwise `then()` where `condition`, else `otherwise`; the branch is skipped when no lane needs it."""
    return Term(condition.b, condition.b.rare(condition.operand, lambda: then().operand, otherwise.operand))


def horner(x: Term, coefficients: Sequence[float]) -> Term:
    """sum of coefficients[i] * x**i, one fma a coefficient."""
    result: Term | None = None
    for c in reversed(coefficients[:-1]):
        result = fma(x, coefficients[-1], c) if result is None else fma(result, x, c)
    return x.const(coefficients[-1]) if result is None else result


def polynomial(x: Term, coefficients: Sequence[float], square: Term | None = None) -> Term:
    """sum of coefficients[i] * x**i as two interleaved Horner chains in x**2:
    half the latency for one multiplication.
    """
    if len(coefficients) < 6:
        return horner(x, coefficients)
    z = x * x if square is None else square
    return fma(horner(z, coefficients[1::2]), x, horner(z, coefficients[::2]))
