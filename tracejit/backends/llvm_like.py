"""Scalar operations of the kernel IR as LLVM instructions, on scalars or on vectors of any width;
shared by all LLVM targets.

Everything is total, as `ir.scalar` says: where LLVM has undefined results (division by zero, wide shifts, conversions
out of range) the operands are selected first; a constant operand that cannot fail costs nothing.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tracejit.backends.intrinsics import intrinsics_of
from tracejit.ir.scalar import BITS, is_float, is_signed, numpy_dtype
from tracejit.support.errors import UnsupportedError

__all__ = ["INTRINSICS", "Emit", "constant", "llvm_type", "scalar_op"]

_TYPES = {
    "bool": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "i8", "u16": "i16", "u32": "i32",
    "u64": "i64", "f16": "half", "f32": "float", "f64": "double",
}  # fmt: skip
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}
_COMPARE = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}
_HALF = "0xH"
"""What constants of f16 begin with."""
_BINARY = {"add": ("fadd", "add"), "sub": ("fsub", "sub"), "mul": ("fmul", "mul")}


def llvm_type(dtype: str, lanes: int) -> str:
    """`float`, or `<16 x float>` for more than one lane."""
    t = _TYPES[dtype]
    return t if lanes == 1 else f"<{lanes} x {t}>"


def constant(value: float, dtype: str, lanes: int = 1) -> str:
    """A constant operand."""
    if dtype == "bool":
        text = "true" if value else "false"
    elif not is_float(dtype):
        bits = BITS[dtype]
        wrapped = int(value) & ((1 << bits) - 1)
        text = str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    elif dtype == "f16":
        with np.errstate(all="ignore"):
            text = f"{_HALF}{int(np.float16(value).view(np.uint16)):04X}"
    else:
        with np.errstate(all="ignore"):
            number = float(numpy_dtype(dtype).type(value))
        if math.isnan(number):
            text = "0x7FF8000000000000"
        else:
            text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return text if lanes == 1 else f"splat ({_TYPES[dtype]} {text})"


def _word(text: str, dtype: str) -> int:
    """The bits of a floating constant."""
    if dtype == "f16":
        return int(text.removeprefix(_HALF), 16)
    bits = int(text, 16)
    if dtype == "f32":  # written as the f64 of the same value
        return int.from_bytes(struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0]), "little")
    return bits


Known: TypeAlias = "Sequence[float | None]"
"""For each operand of an operation its constant value, if it has one."""


class Emit:
    """Where `scalar_op` writes: `line(text) -> register`, and which intrinsics were used."""

    def __init__(
        self,
        line: Callable[[str], str],
        declare: Callable[[str, str], None],
        backend: str = "cpu",
        guards_operands: bool = False,
        is_x86: bool = False,
    ) -> None:
        """is_x86: whether a conversion to an integer is one instruction of that processor, which has NumPy's answer.

        guards_operands: whether a shift by too many bits has its operands changed, not its result: LLVM's NVPTX
        target makes of a shift of 64 bits whose result is selected one by the low half of the count.
        """
        self.line = line
        self.declare = declare
        self.backend = backend
        self.guards_operands = guards_operands
        self.is_x86 = is_x86
        self.own = intrinsics_of(backend)  # the user's spellings

    def spells(self, name: str, dtype: str) -> bool:
        """Whether the user has a spelling of an operation."""
        return f"{name}.{dtype}" in self.own

    def call(self, name: str, dtype: str, lanes: int, args: list[str]) -> str:
        """An intrinsic whose operands and result have one type."""
        t = llvm_type(dtype, lanes)
        scalar = _TYPES[dtype]
        suffix = _SUFFIX.get(scalar, scalar)
        symbol = f"@llvm.{name}.{suffix}" if lanes == 1 else f"@llvm.{name}.v{lanes}{suffix}"
        self.declare(symbol, f"declare {t} {symbol}({', '.join([t] * len(args))})")
        return self.line(f"call {t} {symbol}({', '.join(f'{t} {a}' for a in args)})")

    def select(self, condition: str, x: str, y: str, dtype: str, lanes: int) -> str:
        if x.startswith("0x") and y.startswith("0x"):
            # of two floating constants LLVM 22 for x86 makes a load from a table, and ends the process where that is
            # spread to lanes (float16), or where it finds out afterwards which of them it is
            word = f"i{BITS[dtype]}"
            first, second = [constant(_word(c, dtype), word) for c in (x, y)]
            chosen = self.select(condition, first, second, word, lanes)
            return self.line(f"bitcast {llvm_type(word, 1)} {chosen} to {llvm_type(dtype, 1)}")
        t = llvm_type(dtype, lanes)
        return self.line(f"select {llvm_type('bool', lanes)} {condition}, {t} {x}, {t} {y}")

    def compare(self, name: str, x: str, y: str, dtype: str, lanes: int) -> str:
        t = llvm_type(dtype, lanes)
        ordered, signed, unsigned = _COMPARE[name]
        if is_float(dtype):
            return self.line(f"fcmp {ordered} {t} {x}, {y}")
        return self.line(f"icmp {signed if is_signed(dtype) else unsigned} {t} {x}, {y}")


def scalar_op(
    e: Emit, name: str, dtype: str, args: list[str], arg_dtypes: list[str], lanes: int, known: Known, exact: bool = True
) -> str:
    """Emit one operation; the result's register.

    dtype: of the result.  known: for each operand its constant value or None.  exact=False lets conversions to integers
    rely on operands in range (the elementary functions guarantee it).

    Raises: UnsupportedError where neither the user's spellings nor `INTRINSICS` have the operation.
    """
    source = arg_dtypes[-1]
    own = e.own.get(f"{name}.{source}") if e.own else None
    if own is not None:
        return _from_template(e, str(own), dtype, source, args, lanes)
    spell = INTRINSICS.get(name)
    if spell is None:
        raise UnsupportedError(
            f"the {e.backend} backend has no spelling of the scalar operation {name} on {source}; "
            f"give it one: tj.register_intrinsic({name!r}, ..., backend={e.backend!r}, dtypes={source!r})"
        )
    return spell(e, name, dtype, source, args, lanes, known, exact)


_FLAGS = "fast|nnan|ninf|nsz|arcp|contract|afn|reassoc"
_CALL = re.compile(rf"call (?:(?:{_FLAGS}) )*(\S+|<[^>]*>) (@[\w.$}}{{-]+)\((.*)\)$")


def _from_template(e: Emit, template: str, dtype: str, source: str, args: list[str], lanes: int) -> str:
    """A user's spelling, which `register_intrinsic` has checked: `backends.intrinsics` has the grammar."""
    scalar = _TYPES[source]
    suffix = _SUFFIX.get(scalar, scalar)
    names = {
        "type": llvm_type(source, lanes),
        "result": llvm_type(dtype, lanes),
        "suffix": suffix if lanes == 1 else f"v{lanes}{suffix}",
    }
    register = ""
    for line in template.strip().splitlines():
        target, equals, instruction = line.strip().partition(" = ")
        if not equals:
            target, instruction = "", line.strip()
        call = _CALL.search(instruction)
        if call is not None:
            types = (
                ", ".join(piece.strip().rsplit(" ", 1)[0] for piece in call[3].split(",")) if call[3].strip() else ""
            )
            symbol = call[2].format(**names)
            e.declare(symbol, f"declare {call[1]} {{symbol}}({types})".format(symbol=symbol, **names))
        register = e.line(instruction.format(*args, **names))
        if target:
            names[target] = register
    return register


Spell: TypeAlias = Callable[[Emit, str, str, str, list[str], int, Known, bool], str]
"""(emit, operation, dtype of the result, dtype of the operands, registers, lanes, constants, exact) -> register"""


def _arithmetic(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    operation = _BINARY[name][0 if is_float(source) else 1]
    if source == "bool":  # NumPy's
        operation = {"add": "or", "mul": "and"}.get(name, operation)
    return e.line(f"{operation} {llvm_type(source, lanes)} {args[0]}, {args[1]}")


def _divide(e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool) -> str:
    return e.line(f"fdiv {llvm_type(source, lanes)} {args[0]}, {args[1]}")


def _bitwise(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    return e.line(f"{name} {llvm_type(source, lanes)} {args[0]}, {args[1]}")


def _not(e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool) -> str:
    return e.line(
        f"xor {llvm_type(source, lanes)} {args[0]}, {constant(True if source == 'bool' else -1, source, lanes)}"
    )


def _comparison(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    return e.compare(name, args[0], args[1], source, lanes)


def _select(e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool) -> str:
    return e.select(args[0], args[1], args[2], dtype, lanes)


def _overloaded(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    """An intrinsic of LLVM with the operation's own name."""
    return e.call(name, dtype, lanes, args)


def _negate(e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool) -> str:
    t = llvm_type(source, lanes)
    return (
        e.line(f"fneg {t} {args[0]}")
        if is_float(source)
        else e.line(f"sub {t} {constant(0, source, lanes)}, {args[0]}")
    )


def _absolute(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    if is_float(source):
        return e.call("fabs", dtype, lanes, args)
    zero = constant(0, source, lanes)
    negative = e.compare("lt", args[0], zero, source, lanes)
    return e.select(negative, e.line(f"sub {llvm_type(source, lanes)} {zero}, {args[0]}"), args[0], dtype, lanes)


def _bitcast(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    t, target = llvm_type(source, lanes), llvm_type(dtype, lanes)
    cast = "zext" if source == "bool" else "bitcast"  # a byte in memory is one bit in a register
    return args[0] if target == t else e.line(f"{cast} {t} {args[0]} to {target}")


def _extremum(
    e: Emit, name: str, result: str, dtype: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    """NaN-propagating min and max: the comparison picks the second operand when either is NaN,
    then a NaN first operand is restored.
    """
    x, y = args
    if not is_float(dtype):
        return e.call(("s" if is_signed(dtype) else "u") + name, dtype, lanes, args)
    picked = e.select(e.compare("gt" if name == "max" else "lt", x, y, dtype, lanes), x, y, dtype, lanes)
    if known[0] is not None and not math.isnan(known[0]):
        return picked
    unordered = e.line(f"fcmp uno {llvm_type(dtype, lanes)} {x}, {x}")
    return e.select(unordered, x, picked, dtype, lanes)


def _division(
    e: Emit, name: str, result: str, dtype: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    x, y = args
    t, signed = llvm_type(dtype, lanes), is_signed(dtype)
    instruction = {"idiv": "div", "irem": "rem"}[name]
    spelled = ("s" if signed else "u") + instruction
    divisor = known[1]
    zero, one = constant(0, dtype, lanes), constant(1, dtype, lanes)
    if divisor is not None and divisor > 0:
        return e.line(f"{spelled} {t} {x}, {y}")
    if divisor is not None and divisor == 0:
        return zero
    by_zero = e.compare("eq", y, zero, dtype, lanes)
    if not signed:
        return e.select(
            by_zero, zero, e.line(f"{spelled} {t} {x}, {e.select(by_zero, one, y, dtype, lanes)}"), dtype, lanes
        )
    minus = e.compare("eq", y, constant(-1, dtype, lanes), dtype, lanes)
    safe = e.select(e.line(f"or {llvm_type('bool', lanes)} {by_zero}, {minus}"), one, y, dtype, lanes)
    quotient = e.line(f"{spelled} {t} {x}, {safe}")
    special = e.line(f"sub {t} {zero}, {x}") if name == "idiv" else zero
    return e.select(by_zero, zero, e.select(minus, special, quotient, dtype, lanes), dtype, lanes)


def _shift(e: Emit, name: str, result: str, dtype: str, args: list[str], lanes: int, known: Known, exact: bool) -> str:
    x, y = args
    t, bits = llvm_type(dtype, lanes), BITS[dtype]
    instruction = "shl" if name == "shl" else ("ashr" if name == "shr" and is_signed(dtype) else "lshr")
    count = known[1]
    if count is not None and 0 <= count < bits:
        return e.line(f"{instruction} {t} {x}, {y}")
    inside = e.line(f"icmp ult {t} {y}, {constant(bits, dtype, lanes)}")
    if e.guards_operands and instruction != "ashr":
        zero = constant(0, dtype, lanes)
        x, y = (e.select(inside, z, zero, dtype, lanes) for z in (x, y))
        return e.line(f"{instruction} {t} {x}, {y}")
    limit = bits - 1 if instruction == "ashr" else 0
    shifted = e.line(f"{instruction} {t} {x}, {e.select(inside, y, constant(limit, dtype, lanes), dtype, lanes)}")
    return shifted if instruction == "ashr" else e.select(inside, shifted, constant(0, dtype, lanes), dtype, lanes)


def _convert(
    e: Emit, name: str, dtype: str, source: str, args: list[str], lanes: int, known: Known, exact: bool
) -> str:
    (x,) = args
    t, target = llvm_type(source, lanes), llvm_type(dtype, lanes)
    if dtype == "bool":
        zero = constant(0, source, lanes)
        return e.line(f"fcmp une {t} {x}, {zero}") if is_float(source) else e.line(f"icmp ne {t} {x}, {zero}")
    if is_float(source) and is_float(dtype):
        if BITS[source] == BITS[dtype]:
            return x
        if (source, dtype) == ("f64", "f16"):
            return _double_to_half(e, x, lanes)
        return e.line(f"{'fpext' if BITS[dtype] > BITS[source] else 'fptrunc'} {t} {x} to {target}")
    if is_float(dtype):
        signed = is_signed(source)
        return e.line(f"{'sitofp' if signed else 'uitofp'} {t} {x} to {target}")
    if is_float(source):
        return _float_to_int(e, dtype, source, x, lanes, exact)
    if BITS[dtype] == BITS[source] and source != "bool":
        return x
    if BITS[dtype] < BITS[source] and source != "bool":
        return e.line(f"trunc {t} {x} to {target}")
    return e.line(f"{'sext' if is_signed(source) and source != 'bool' else 'zext'} {t} {x} to {target}")


def _double_to_half(e: Emit, x: str, lanes: int) -> str:
    """f64 to f16 rounded once: through an f32 that is rounded to odd.  (A direct fptrunc calls a function of a
    compiler's library.)
    """
    double, single, word = (llvm_type(t, lanes) for t in ("f64", "f32", "i32"))
    near = e.line(f"fptrunc {double} {x} to {single}")
    back = e.line(f"fpext {single} {near} to {double}")
    bits = e.line(f"bitcast {single} {near} to {word}")
    odd = e.compare(
        "ne", e.line(f"and {word} {bits}, {constant(1, 'i32', lanes)}"), constant(0, "i32", lanes), "i32", lanes
    )
    flag = llvm_type("bool", lanes)
    kept = e.line(f"or {flag} {odd}, {e.line(f'fcmp ueq {double} {back}, {x}')}")  # equal, or NaN
    above, positive = (
        e.compare("gt", x, back, "f64", lanes),
        e.compare("gt", x, constant(0.0, "f64", lanes), "f64", lanes),
    )
    toward_zero = e.line(f"xor {flag} {above}, {positive}")
    step = e.select(toward_zero, constant(-1, "i32", lanes), constant(1, "i32", lanes), "i32", lanes)
    rounded = e.select(kept, bits, e.line(f"add {word} {bits}, {step}"), "i32", lanes)
    return e.line(f"fptrunc {single} {e.line(f'bitcast {word} {rounded} to {single}')} to {llvm_type('f16', lanes)}")


def _float_to_int(e: Emit, dtype: str, source: str, x: str, lanes: int, exact: bool) -> str:
    """As NumPy on x86-64: through i32 or i64, whose least value stands for NaN and everything out of range;
    u64 in two halves, so that 0 stands for 2**64 and above.
    """
    t = llvm_type(source, lanes)
    if source == "f16":
        x = e.line(f"fpext {t} {x} to {llvm_type('f32', lanes)}")
        source, t = "f32", llvm_type("f32", lanes)
    if dtype == "u64":
        half = constant(2.0**63, source, lanes)
        high = e.compare("ge", x, half, source, lanes)
        reduced = e.select(high, e.line(f"fsub {t} {x}, {half}"), x, source, lanes)
        low = _float_to_int(e, "i64", source, reduced, lanes, exact)
        least = constant(-(2**63), "i64", lanes)
        return e.line(
            f"xor {llvm_type('i64', lanes)} {low}, {e.select(high, least, constant(0, 'i64', lanes), 'i64', lanes)}"
        )
    through = "i32" if BITS[dtype] < 32 or dtype == "i32" else "i64"
    between = llvm_type(through, lanes)
    if not exact:
        result = e.line(f"fptosi {t} {x} to {between}")
    elif e.is_x86 and lanes == 1:
        result = _cvtt(e, through, source, x)
    else:
        bound = 2.0 ** (BITS[through] - 1)
        # -bound - 1 is not representable in f32 (nor in f64 for i64): the comparison is then with -bound itself.
        low_open = source == "f64" and through == "i32"
        above = e.compare(
            "gt" if low_open else "ge", x, constant(-bound - 1 if low_open else -bound, source, lanes), source, lanes
        )
        inside = e.line(
            f"and {llvm_type('bool', lanes)} {above}, "
            f"{e.compare('lt', x, constant(bound, source, lanes), source, lanes)}"
        )
        safe = e.select(inside, x, constant(0, source, lanes), source, lanes)
        raw = e.line(f"fptosi {t} {safe} to {between}")
        result = e.select(inside, raw, constant(-int(bound), through, lanes), through, lanes)
    target = llvm_type(dtype, lanes)
    return result if target == between else e.line(f"trunc {between} {result} to {target}")


def _cvtt(e: Emit, dtype: str, source: str, x: str) -> str:
    """The instruction of x86-64, which gives the least integer for NaN and what is out of range."""
    t = llvm_type(source, 128 // BITS[source])
    place = e.line(f"insertelement {t} poison, {llvm_type(source, 1)} {x}, i32 0")
    kind = {"f64": "sse2.cvttsd2si", "f32": "sse.cvttss2si"}[source]
    symbol = f"@llvm.x86.{kind}{'64' if dtype == 'i64' else ''}"
    target = llvm_type(dtype, 1)
    e.declare(symbol, f"declare {target} {symbol}({t})")
    return e.line(f"call {target} {symbol}({t} {place})")


INTRINSICS: Mapping[str, Spell] = {
    **dict.fromkeys(("add", "sub", "mul"), _arithmetic),
    "div": _divide,
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    "not": _not,
    **dict.fromkeys(_COMPARE, _comparison),
    "select": _select,
    **dict.fromkeys(("sqrt", "floor", "ceil", "trunc", "roundeven", "copysign", "fma"), _overloaded),
    "neg": _negate,
    "abs": _absolute,
    **dict.fromkeys(("min", "max"), _extremum),
    **dict.fromkeys(("idiv", "irem"), _division),
    **dict.fromkeys(("shl", "shr", "lshr"), _shift),
    "convert": _convert,
    "bitcast": _bitcast,
}
"""How LLVM spells each scalar operation that is not an elementary function (`ir.math` writes those with these)."""
