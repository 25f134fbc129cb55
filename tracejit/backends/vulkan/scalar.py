"""Scalar operations of the kernel IR as SPIR-V instructions, total as `ir.scalar` says.

Where an instruction has undefined results (division by zero, wide shifts, conversions out of range, remainders of
negative numbers) the operands are selected first; a constant operand that cannot fail costs nothing.  f16 lives in f32
registers and is rounded after each operation that can be inexact.

Source: SPIR-V specification 1.5, sections 3.42.11 (conversions), 3.42.13 (arithmetic), 3.42.14 (bits).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tracejit.backends.vulkan.module import Function, kind_of
from tracejit.ir.scalar import BITS, OPS, is_float, is_integer, is_signed
from tracejit.support.nodes import define

__all__ = ["Call", "SPELLINGS", "Scalars"]


class Scalars(ABC):
    """Where operations are written: the instructions of a function, and the functions that it calls."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.capabilities = function.module.capabilities
        self.tolerant = False  # fma need not be exact for extreme numbers, and may round twice from f64 to f32

    @abstractmethod
    def formula(self, name: str, dtype: str, *operands: str) -> str:
        """A call of a function of `formulas`, whose result has a dtype."""

    def operation(self, call: Call) -> str:
        """The id of the result of an operation that is no mathematical function."""
        if all(map(_is_float_constant, call.args)):
            call.args = [self.unseen(call.args[0], call.source), *call.args[1:]]
        return SPELLINGS[call.op](self, call)

    def unseen(self, x: str, dtype: str) -> str:
        """A value, which the compiler does not see if it is a constant with which it might compute, and get zero.

        Note [zeros]: the compiler of lavapipe takes x + 0 for x (whatever the sign of x), x * 0 for 0 and x - x for 0
        (whatever x is), and folds what it knows to zero before.  So it is shown no float constant that is zero, and
        others only beside an operand that is none; differences are sums with the sign changed as an integer.
        """
        hide = _is_float_constant(x) and _width(dtype) not in self.capabilities.keeps
        return self.function.hidden(x, kind_of(dtype)) if hide else x

    def rounded(self, x: str, dtype: str) -> str:
        """What an operation in f32 gives is rounded where the dtype is f16."""
        return self.formula("tj_round_f16", "f16", x) if dtype == "f16" else x

    def compare(self, op: str, x: str, y: str, dtype: str) -> str:
        instruction = _COMPARE[op][0 if is_float(dtype) else 1 if is_signed(dtype) else 2]
        emit = self.function.exact if is_float(dtype) else self.function.emit
        return emit(instruction, "bool", x, y)

    def select(self, condition: str, x: str, y: str, dtype: str) -> str:
        return self.function.emit("OpSelect", kind_of(dtype), condition, x, y)

    def number(self, value: Any, dtype: str) -> str:
        x = self.function.number(value, kind_of(dtype))
        return x if value else self.unseen(x, dtype)


@define(eq=False)
class Call:
    """An operation: its name, the dtypes of its last operand and of its result, the ids of its operands.

    safe: the second operand is such that a division or shift needs no check.
    """

    op: str
    source: str
    out: str
    args: Sequence[str]
    safe: bool = False


def _width(dtype: str) -> int:
    """The bits of a number in a register."""
    return int(kind_of(dtype)[1:])


def _is_float_constant(x: str) -> bool:
    return x.startswith(("%f32_", "%f64_"))  # constants are named by their types, other values by numbers


Spell: TypeAlias = Callable[[Scalars, Call], str]

_COMPARE = {
    "eq": ("OpFOrdEqual", "OpIEqual", "OpIEqual"),
    "ne": ("OpFUnordNotEqual", "OpINotEqual", "OpINotEqual"),
    "lt": ("OpFOrdLessThan", "OpSLessThan", "OpULessThan"),
    "le": ("OpFOrdLessThanEqual", "OpSLessThanEqual", "OpULessThanEqual"),
    "gt": ("OpFOrdGreaterThan", "OpSGreaterThan", "OpUGreaterThan"),
    "ge": ("OpFOrdGreaterThanEqual", "OpSGreaterThanEqual", "OpUGreaterThanEqual"),
}
_OF_BOOLS = {
    "eq": "OpLogicalEqual", "ne": "OpLogicalNotEqual", "xor": "OpLogicalNotEqual", "not": "OpLogicalNot",
    **dict.fromkeys(("and", "mul", "min"), "OpLogicalAnd"), **dict.fromkeys(("or", "add", "max"), "OpLogicalOr"),
}  # fmt: skip
_ORDER_OF_BOOLS = {
    "lt": (0, "OpLogicalAnd"),
    "gt": (1, "OpLogicalAnd"),
    "le": (0, "OpLogicalOr"),
    "ge": (1, "OpLogicalOr"),
}
"""Which operand is negated, and how it is joined with the other."""
_INTEGERS = {
    "add": "OpIAdd", "sub": "OpISub", "mul": "OpIMul", "and": "OpBitwiseAnd", "or": "OpBitwiseOr",
    "xor": "OpBitwiseXor", "not": "OpNot", "neg": "OpSNegate",
}  # fmt: skip
_FLOATS = {"add": "OpFAdd", "sub": "OpFSub", "mul": "OpFMul", "neg": "OpFNegate"}
_WHOLE = {"floor": "Floor", "ceil": "Ceil", "trunc": "Trunc", "roundeven": "RoundEven"}


def _simple(s: Scalars, call: Call) -> str:
    """One instruction, of bools, integers or floats."""
    op, dtype, f = call.op, call.source, s.function
    if dtype == "bool":
        if op in _ORDER_OF_BOOLS:
            negated, joined = _ORDER_OF_BOOLS[op]
            return f.emit(joined, "bool", f.emit("OpLogicalNot", "bool", call.args[negated]), call.args[1 - negated])
        return f.emit(_OF_BOOLS[op], "bool", *call.args)
    if op in _COMPARE:
        x, y = call.args
        return s.compare(op, x, y, dtype)
    kind = kind_of(dtype)
    if not is_float(dtype):
        return f.emit(_INTEGERS[op], kind, *call.args)
    if op == "sub" and _width(dtype) not in s.capabilities.keeps:
        return s.rounded(f.exact("OpFAdd", kind, call.args[0], _negated(s, call.args[1], kind)), dtype)
    x = f.exact(_FLOATS[op], kind, *call.args)
    return s.rounded(x, dtype) if OPS[op].rounds else x


def _negated(s: Scalars, x: str, kind: str) -> str:
    """With the other sign, as an integer operation."""
    bits, f = kind.replace("f", "u"), s.function
    sign = f.number(1 << (int(kind[1:]) - 1), bits)
    return f.emit("OpBitcast", kind, f.emit("OpBitwiseXor", bits, f.emit("OpBitcast", bits, x), sign))


def _select(s: Scalars, call: Call) -> str:
    condition, x, y = call.args
    return s.select(condition, x, y, call.out)


def _absolute(s: Scalars, call: Call) -> str:
    x, dtype = call.args[0], call.source
    if dtype == "bool":
        return x
    if is_float(dtype):
        return s.function.glsl("FAbs", kind_of(dtype), x)
    if not is_signed(dtype):
        return x
    negative = s.compare("lt", x, s.number(0, dtype), dtype)
    return s.select(negative, s.function.emit("OpSNegate", kind_of(dtype), x), x, dtype)


def _extremum(s: Scalars, call: Call) -> str:
    """NaN of the first operand is kept, NaN of the second is taken as no comparison holds."""
    (x, y), dtype = call.args, call.source
    if dtype == "bool":
        return _simple(s, call)
    first = s.compare("lt" if call.op == "min" else "gt", x, y, dtype)
    if is_float(dtype):
        first = s.function.emit("OpLogicalOr", "bool", first, s.compare("ne", x, x, dtype))
    return s.select(first, x, y, dtype)


def _copysign(s: Scalars, call: Call) -> str:
    kind = kind_of(call.source)
    bits = kind.replace("f", "u")
    f, sign = s.function, 1 << (int(kind[1:]) - 1)
    size, mark = (
        f.emit("OpBitwiseAnd", bits, f.emit("OpBitcast", bits, x), f.number(mask, bits))
        for x, mask in zip(call.args, (sign - 1, sign), strict=True)
    )
    return f.emit("OpBitcast", kind, f.emit("OpBitwiseOr", bits, size, mark))


def _quotient(s: Scalars, call: Call) -> str:
    (x, y), kind, f = call.args, kind_of(call.source), s.function
    if _width(call.source) in s.capabilities.divides:
        return s.rounded(f.exact("OpFDiv", kind, x, y), call.source)
    if kind == "f32" and s.capabilities.f64 and 64 in s.capabilities.divides:
        return s.rounded(_through_f64(s, lambda *args: f.exact("OpFDiv", "f64", *args), call), call.source)
    mx, my = (s.formula(f"tj_significand_{kind}", kind, operand) for operand in (x, y))
    pairs = ((mx, my), (s.number(1.0, kind), my), (x, y))
    nearly = [f.exact("OpFDiv", kind, *pair) for pair in pairs]
    return s.rounded(s.formula(f"tj_quotient_{kind}", kind, x, y, *nearly), call.source)


def _root(s: Scalars, call: Call) -> str:
    (x,), kind, f = call.args, kind_of(call.source), s.function
    if _width(call.source) in s.capabilities.roots:
        return s.rounded(f.glsl("Sqrt", kind, x), call.source)
    if kind == "f32" and s.capabilities.f64 and 64 in s.capabilities.roots:
        return s.rounded(_through_f64(s, lambda x: f.glsl("Sqrt", "f64", x), call), call.source)
    nearly = f.glsl("Sqrt", kind, s.formula(f"tj_even_significand_{kind}", kind, x))
    inverse = f.exact("OpFDiv", kind, s.number(0.5, kind), nearly)
    return s.rounded(s.formula(f"tj_root_{kind}", kind, x, nearly, inverse), call.source)


def _through_f64(s: Scalars, function: Callable[..., str], call: Call) -> str:
    """Quotients and roots of f32, computed in f64 and rounded again, are correctly rounded (53 >= 2*24 + 2)."""
    wide = [s.function.exact("OpFConvert", "f64", x) for x in call.args]
    return s.function.exact("OpFConvert", "f32", function(*wide))


def _fma(s: Scalars, call: Call) -> str:
    dtype = call.source
    if dtype == "f16":
        return s.formula("tj_fma_f16", "f16", *call.args)
    if BITS[dtype] in s.capabilities.fused:
        return s.function.glsl("Fma", dtype, *call.args)
    wide = "_wide" if dtype == "f32" and s.capabilities.f64 else ""
    near = "_near" if s.tolerant else ""
    return s.formula(f"tj_fma_{dtype}{wide}{near}", dtype, *call.args)


def _whole(s: Scalars, call: Call) -> str:
    """Rounded to an integer."""
    kind = kind_of(call.source)
    if _width(call.source) in s.capabilities.whole:
        return s.function.glsl(_WHOLE[call.op], kind, *call.args)
    return s.formula(f"tj_{call.op}_{kind}", kind, *call.args)


def _division(s: Scalars, call: Call) -> str:
    """A remainder is computed of the quotient: Vulkan's has no meaning for negative operands."""
    (x, y), dtype, f = call.args, call.source, s.function
    kind, signed = kind_of(dtype), is_signed(dtype)
    zero = s.number(0, dtype)
    divide = "OpSDiv" if signed else "OpUDiv"
    if call.safe:
        quotient = f.emit(divide, kind, x, y)
        return quotient if call.op == "idiv" else f.emit("OpISub", kind, x, f.emit("OpIMul", kind, quotient, y))
    by_zero = s.compare("eq", y, zero, dtype)
    minus = s.compare("eq", y, s.number(-1, dtype), dtype) if signed else ""
    unsafe = f.emit("OpLogicalOr", "bool", by_zero, minus) if signed else by_zero
    divisor = s.select(unsafe, s.number(1, dtype), y, dtype)
    quotient = f.emit(divide, kind, x, divisor)
    if call.op == "irem":  # by 1 where the divisor is 0 or -1
        return f.emit("OpISub", kind, x, f.emit("OpIMul", kind, quotient, divisor))
    if signed:
        quotient = s.select(minus, f.emit("OpSNegate", kind, x), quotient, dtype)
    return s.select(by_zero, zero, quotient, dtype)


def _shift(s: Scalars, call: Call) -> str:
    (x, y), dtype, f = call.args, call.source, s.function
    kind, bits = kind_of(dtype), BITS[dtype]
    arithmetic = call.op == "shr" and is_signed(dtype)
    instruction = (
        "OpShiftLeftLogical" if call.op == "shl" else f"OpShiftRight{'Arithmetic' if arithmetic else 'Logical'}"
    )
    if call.safe:
        return f.emit(instruction, kind, x, y)
    inside = f.emit("OpULessThan", "bool", y, s.number(bits, dtype))
    count = s.select(inside, y, s.number(bits - 1 if arithmetic else 0, dtype), dtype)
    shifted = f.emit(instruction, kind, x, count)
    return shifted if arithmetic else s.select(inside, shifted, s.number(0, dtype), dtype)


def _convert(s: Scalars, call: Call) -> str:
    (x,), source, out, f = call.args, call.source, call.out, s.function
    if source == out:
        return x
    if source == "bool":
        return s.select(x, s.number(1, out), s.number(0, out), out)
    if out == "bool":
        return s.compare("ne", x, s.number(0, source), source)
    if is_float(source):
        return _of_float(s, call)
    if is_float(out):  # integers that f32 does not hold exactly are beyond f16's range
        wide = f.exact("OpConvertSToF" if is_signed(source) else "OpConvertUToF", kind_of(out), x)
        if _width(out) not in s.capabilities.keeps:  # a counter of a loop that is unrolled is a constant
            wide = f.blurred(wide, kind_of(out))
        return s.rounded(wide, out)
    return _resized(s, x, source, out)


def _resized(s: Scalars, x: str, source: str, out: str) -> str:
    """An integer in fewer or more bits; a signed one keeps its sign."""
    if BITS[source] == BITS[out]:
        return x
    if not is_signed(source):
        return s.function.emit("OpUConvert", kind_of(out), x)
    wide = s.function.emit("OpSConvert", kind_of(out), x)
    return wide if BITS[out] < 64 or s.capabilities.extends else s.function.blurred(wide, kind_of(out))


def _of_float(s: Scalars, call: Call) -> str:
    (x,), source, out, f = call.args, call.source, call.out, s.function
    if is_integer(out):
        return _to_integer(s, x, "f64" if source == "f64" else "f32", out)
    if (source, out) == ("f64", "f16"):
        return s.rounded(s.formula("tj_odd_f32", "f32", x), out)
    wide = x if kind_of(source) == kind_of(out) else f.exact("OpFConvert", kind_of(out), x)
    return s.rounded(wide, out)


def _to_integer(s: Scalars, x: str, source: str, out: str) -> str:
    """As NumPy on x86-64: through i32 or i64, whose least value stands for NaN and everything out of range;
    u64 in two halves, so that 0 stands for 2**64 and above.
    """
    f = s.function
    if out == "u64":
        half = s.number(2.0**63, source)
        high = s.compare("ge", x, half, source)
        low = _to_integer(s, s.select(high, f.exact("OpFSub", source, x, half), x, source), source, "i64")
        return f.emit("OpBitwiseXor", "u64", low, s.select(high, s.number(1 << 63, out), s.number(0, out), out))
    through = "i32" if BITS[out] < 32 or out == "i32" else "i64"
    bound = 2.0 ** (BITS[through] - 1)
    # -bound - 1 is not representable in f32 (nor in f64 for i64): the comparison is then with -bound itself.
    below = source == "f64" and through == "i32"
    above = s.compare("gt" if below else "ge", x, s.number(-bound - 1 if below else -bound, source), source)
    inside = f.emit("OpLogicalAnd", "bool", above, s.compare("lt", x, s.number(bound, source), source))
    safe = s.select(inside, x, s.number(0.0, source), source)
    result = s.select(inside, f.emit("OpConvertFToS", kind_of(through), safe), s.number(-int(bound), through), through)
    return _resized(s, result, through, out)


def _bitcast(s: Scalars, call: Call) -> str:
    (x,), source, out = call.args, call.source, call.out
    if source == "bool" or out == "bool" or (is_integer(source) and is_integer(out)) or source == out:
        return _convert(s, call)
    if out == "f16":
        return s.formula("tj_widen_f16", "f16", x)
    if source == "f16":
        return s.formula("tj_narrow_f16", out, x)
    cast = s.function.emit("OpBitcast", kind_of(out), x)
    known = x[1] == "u" and _width(out) not in s.capabilities.keeps  # a constant
    return s.function.blurred(cast, out) if known else cast


SPELLINGS: dict[str, Spell] = {
    **dict.fromkeys(("add", "sub", "mul", "neg", "and", "or", "xor", "not", *_COMPARE), _simple),
    **dict.fromkeys(_WHOLE, _whole),
    "div": _quotient,
    "sqrt": _root,
    "fma": _fma,
    "abs": _absolute,
    "copysign": _copysign,
    **dict.fromkeys(("min", "max"), _extremum),
    **dict.fromkeys(("idiv", "irem"), _division),
    **dict.fromkeys(("shl", "shr", "lshr"), _shift),
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
}
"""How each operation that is no mathematical function is written (`ir.math` writes those with these)."""
