"""What each of PTX's instructions without side effects computes, as a function of NumPy arrays.

An `Operation` names the types of an instruction's operands, so that whoever executes it knows how to read registers and
how to write them.  A modifier that is not understood is refused by name: nothing is skipped.

Source: PTX ISA 8.x, chapter 9.7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tests.standin.exact import ROUNDINGS, Array, convert, exact, fma_f16
from tests.standin.ptx import DTYPES, Instruction, PTXError

__all__ = ["Operation", "Spelling", "operation", "POISON"]

POISON = 0xA5A5A5A5A5A5A5A5
"""The bits of what PTX leaves unspecified: no value that NumPy or a GPU would give."""

Compute = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """`compute` takes an array of each source type and gives one of each result type (a tuple if there are several)."""

    results: tuple[str, ...]
    sources: tuple[str, ...]
    compute: Compute
    reads_carry: bool = False
    writes_carry: bool = False


class Spelling:
    """An instruction's modifiers, taken one after the other."""

    def __init__(self, opcode: str, modifiers: tuple[str, ...]) -> None:
        self.opcode = opcode
        self._whole = ".".join((opcode, *modifiers))
        self._left = list(modifiers)

    def flag(self, *names: str) -> bool:
        return self.choice(*names) is not None

    def choice(self, *names: str) -> str | None:
        """The one of `names` that is there."""
        found = next((m for m in self._left if m in names), None)
        if found is not None:
            self._left.remove(found)
        return found

    def one_of(self, *names: str) -> str:
        found = self.choice(*names)
        if found is None:
            raise PTXError(f"{self._whole}: one of {', '.join(names)} expected")
        return found

    def type(self, *allowed: str) -> str:
        """The last type that is left."""
        for at in range(len(self._left) - 1, -1, -1):
            if self._left[at] in DTYPES:
                found = self._left.pop(at)
                if allowed and found not in allowed:
                    raise PTXError(f"the instruction {self._whole} is not known: no type {found}")
                return found
        raise PTXError(f"the instruction {self._whole} is not known: it has no type that is executed")

    def rounding(self) -> str:
        return self.choice(*ROUNDINGS) or "rn"

    def done(self) -> None:
        if self._left:
            raise PTXError(f"the instruction {self._whole} is not known: .{self._left[0]}")


_RULES: dict[str, Callable[[Spelling], Operation]] = {}

_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "f16x2", "f32", "f64")
_NUMBERS = (*_INTEGERS, *_FLOATS)
_BITS = ("pred", "b16", "b32", "b64")


def operation(instruction: Instruction) -> Operation | None:
    """What `instruction` computes; None if it has side effects, or moves data without a rule here.

    Raises: PTXError."""
    return _operation(instruction.opcode, instruction.modifiers)


@cache
def _operation(opcode: str, modifiers: tuple[str, ...]) -> Operation | None:
    rule = _RULES.get(opcode)
    if rule is None:
        return None
    spelling = Spelling(opcode, modifiers)
    found = rule(spelling)
    spelling.done()
    return found


def _rule(*opcodes: str) -> Callable[[Callable[[Spelling], Operation]], Callable[[Spelling], Operation]]:
    def register(rule: Callable[[Spelling], Operation]) -> Callable[[Spelling], Operation]:
        _RULES.update(dict.fromkeys(opcodes, rule))
        return rule

    return register


# -- floating point

_QUIET = {"f32": np.array(0x7FFFFFFF, "u4").view("f4"), "f16": np.array(0x7FFF, "u2").view("f2")}


def _flush(x: Array) -> Array:
    """Subnormal numbers of single precision as zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _canonical(x: Array, kind: str) -> Array:
    """Every NaN as the one that arithmetic in `kind` gives: GPUs keep no payload but in double precision."""
    if kind not in _QUIET:
        return x
    nan = np.isnan(x)
    return np.where(nan, _QUIET[kind], x) if nan.any() else x


def _in_halves(function: Compute) -> Compute:
    """`function` of half precision as one of pairs of them."""

    def pairs(*sources: Array) -> Array:
        halves = [np.ascontiguousarray(x).view("f2") for x in np.broadcast_arrays(*sources)]
        return np.ascontiguousarray(function(*halves)).view("u4")

    return pairs


def _floating(s: Spelling, kind: str, function: Compute, sources: int) -> Operation:
    """`function` with `.ftz` and `.sat` of the spelling."""
    flush, saturate = s.flag("ftz"), s.flag("sat")
    one_kind = "f16" if kind == "f16x2" else kind

    def compute(*xs: Array) -> Array:
        if flush and kind == "f32":
            xs = tuple(_flush(x) for x in xs)
        value = function(*xs)
        if saturate:
            value = np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0))
        value = _canonical(value, one_kind)
        return _flush(value) if flush and kind == "f32" else value

    return Operation((kind,), (kind,) * sources, _in_halves(compute) if kind == "f16x2" else compute)


_UFUNCS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide}


def _rounded(opcode: str, kind: str, rounding: str) -> Compute:
    if kind in ("f16", "f16x2"):
        if rounding != "rn":
            raise PTXError(f"the instruction {opcode}.{rounding}.{kind} is not known")
        # exact in double precision, so rounded once
        return lambda x, y: _UFUNCS[opcode](x.astype("f8"), y.astype("f8")).astype("f2")
    if rounding == "rn":
        return _UFUNCS[opcode]
    return lambda x, y: exact(f"{opcode}_{kind}", rounding, kind, x, y)


def _fused(kind: str, rounding: str) -> Compute:
    if kind in ("f16", "f16x2"):
        return fma_f16
    return lambda x, y, z: exact(f"fma_{kind}", rounding, kind, x, y, z)


def _no_approximation(s: Spelling) -> None:
    if found := s.choice("approx", "full"):
        raise PTXError(f"{s.opcode}.{found} is not executed: what it gives depends on the GPU")


@_rule("fma")
def _fma(s: Spelling) -> Operation:
    kind = s.type(*_FLOATS)
    return _floating(s, kind, _fused(kind, s.rounding()), 3)


@_rule("sqrt", "rcp")
def _root(s: Spelling) -> Operation:
    _no_approximation(s)
    kind = s.type("f32", "f64")
    rounding = s.one_of(*ROUNDINGS)
    if s.opcode == "rcp":
        one = np.ones((), DTYPES[kind])
        return _floating(s, kind, lambda x: exact(f"div_{kind}", rounding, kind, one, x), 1)
    return _floating(s, kind, lambda x: exact(f"sqrt_{kind}", rounding, kind, x), 1)


@_rule("rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def _transcendental(s: Spelling) -> Operation:
    _no_approximation(s)
    raise PTXError(f"the instruction {s.opcode} is not known without .approx")


def _least(x: Array, y: Array) -> Array:
    """The smaller one; a number rather than NaN; -0 rather than 0."""
    word = f"u{x.dtype.itemsize}"
    equal = (x.view(word) | y.view(word)).view(x.dtype)
    return np.where(x == y, equal, np.fmin(x, y))


def _greatest(x: Array, y: Array) -> Array:
    word = f"u{x.dtype.itemsize}"
    equal = (x.view(word) & y.view(word)).view(x.dtype)
    return np.where(x == y, equal, np.fmax(x, y))


@_rule("min", "max")
def _extreme(s: Spelling) -> Operation:
    kind = s.type(*_NUMBERS)
    if kind not in _FLOATS:
        return Operation((kind,), (kind, kind), np.minimum if s.opcode == "min" else np.maximum)
    choose = _least if s.opcode == "min" else _greatest
    if s.flag("NaN"):
        ignoring = choose

        def choose(x: Array, y: Array) -> Array:
            return np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), ignoring(x, y))

    return _floating(s, kind, choose, 2)


@_rule("abs", "neg")
def _sign(s: Spelling) -> Operation:
    kind = s.type("s16", "s32", "s64", *_FLOATS)
    if kind not in _FLOATS:
        return Operation((kind,), (kind,), np.abs if s.opcode == "abs" else np.negative)
    flush = s.flag("ftz") and kind == "f32"
    size = np.dtype(DTYPES[kind]).itemsize
    word = np.dtype(f"u{size}")
    sign = word.type(0x80008000 if kind == "f16x2" else 1 << (8 * size - 1))

    def compute(x: Array) -> Array:
        bits = (_flush(x) if flush else x).view(word)
        return (bits & ~sign if s.opcode == "abs" else bits ^ sign).view(DTYPES[kind])

    return Operation((kind,), (kind,), compute)


@_rule("copysign")
def _copysign(s: Spelling) -> Operation:
    kind = s.type("f32", "f64")
    return Operation((kind,), (kind, kind), lambda x, y: np.copysign(y, x))


@_rule("testp")
def _test_property(s: Spelling) -> Operation:
    kind = s.type("f32", "f64")
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Compute] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }
    return Operation(("pred",), (kind,), tests[s.one_of(*tests)])


# -- integers


def _type_of_twice(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


def _product(kind: str, part: str) -> Compute:
    """The lower or upper half of a product, or all of it."""
    if part == "lo":
        return np.multiply
    if kind in ("u64", "s64"):
        return lambda x, y: exact(f"mulhi_{kind}", "rn", kind, x, y)
    wide = DTYPES[_type_of_twice(kind)]
    if part == "wide":
        return lambda x, y: x.astype(wide) * y.astype(wide)
    bits = int(kind[1:])
    return lambda x, y: ((x.astype(wide) * y.astype(wide)) >> bits).astype(DTYPES[kind])


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def _sum_with_carry(x: Array, y: Array, carry: Array | bool) -> tuple[Array, Array]:
    first = x + y
    total = first + np.asarray(carry).astype(x.dtype)
    return total, (first < x) | (total < first)


def _difference_with_borrow(x: Array, y: Array, borrow: Array | bool) -> tuple[Array, Array]:
    first = x - y
    taken = np.asarray(borrow).astype(x.dtype)
    return first - taken, (x < y) | (first < taken)


def _sum_of_integers(s: Spelling, kind: str) -> Operation:
    subtracts = s.opcode.startswith("sub")
    if s.flag("sat"):
        if kind != "s32":
            raise PTXError(f"{s.opcode}.sat.{kind} is not known")
        ufunc = np.subtract if subtracts else np.add
        low, high = -(2**31), 2**31 - 1
        return Operation((kind,), (kind, kind), lambda x, y: np.clip(ufunc(x, y, dtype="i8"), low, high).astype("i4"))
    reads = s.opcode.endswith("c")
    writes = s.flag("cc")
    if not reads and not writes:
        return Operation((kind,), (kind, kind), np.subtract if subtracts else np.add)
    unsigned = f"u{kind[1:]}"
    function = _difference_with_borrow if subtracts else _sum_with_carry

    def compute(x: Array, y: Array, carry: Array | bool = False) -> Any:
        total, out = function(x, y, carry)
        return (total, out) if writes else total

    return Operation((unsigned,), (unsigned, unsigned), compute, reads, writes)


@_rule("add", "sub")
def _add(s: Spelling) -> Operation:
    kind = s.type(*_NUMBERS, "b32", "b64")
    if kind in _FLOATS:
        return _floating(s, kind, _rounded(s.opcode, kind, s.rounding()), 2)
    return _sum_of_integers(s, kind)


@_rule("addc", "subc")
def _addc(s: Spelling) -> Operation:
    return _sum_of_integers(s, s.type("u32", "s32", "u64", "s64", "b32", "b64"))


@_rule("mul")
def _mul(s: Spelling) -> Operation:
    kind = s.type(*_NUMBERS)
    if kind in _FLOATS:
        return _floating(s, kind, _rounded("mul", kind, s.rounding()), 2)
    part = s.one_of("lo", "hi", "wide")
    return Operation((_type_of_twice(kind) if part == "wide" else kind,), (kind, kind), _product(kind, part))


@_rule("mad", "madc")
def _mad(s: Spelling) -> Operation:
    kind = s.type(*_INTEGERS, "f32", "f64")
    if kind in _FLOATS:
        return _floating(s, kind, _fused(kind, s.rounding()), 3)
    part = s.one_of("lo", "hi", "wide")
    product = _product(kind, part)
    result = _type_of_twice(kind) if part == "wide" else kind
    reads, writes = s.opcode == "madc", s.flag("cc")

    def compute(x: Array, y: Array, z: Array, carry: Array | bool = False) -> Any:
        if not reads and not writes:
            return product(x, y) + z
        total, out = _sum_with_carry(_unsigned(product(x, y)), _unsigned(z), carry)
        total = total.view(z.dtype)
        return (total, out) if writes else total

    return Operation((result,), (kind, kind, result), compute, reads, writes)


@_rule("div", "rem")
def _div(s: Spelling) -> Operation:
    kind = s.type(*_INTEGERS, "f32", "f64")
    if kind in _FLOATS:
        _no_approximation(s)
        if s.opcode == "rem":
            raise PTXError(f"the instruction rem.{kind} is not known")
        return _floating(s, kind, _rounded("div", kind, s.one_of(*ROUNDINGS)), 2)
    return Operation((kind,), (kind, kind), _quotient if s.opcode == "div" else _remainder)


def _division(x: Array, y: Array) -> tuple[Array, Array]:
    """The quotient rounded towards zero and its remainder; by zero, what PTX calls machine-specific."""
    x, y = np.broadcast_arrays(x, y)
    dtype = x.dtype
    by_zero = y == 0
    safe = np.where(by_zero, dtype.type(1), y)
    if dtype.kind == "u":
        quotient, remainder = x // safe, x % safe
    else:
        # magnitudes as unsigned numbers: the least signed number has one
        magnitude = _unsigned(np.abs(x))
        divisor = _unsigned(np.abs(safe))
        quotient = (magnitude // divisor).view(dtype)
        quotient = np.where((x < 0) ^ (safe < 0), -quotient, quotient)
        remainder = x - quotient * safe
    poison = np.array(POISON & ((1 << (8 * dtype.itemsize)) - 1), f"u{dtype.itemsize}").view(dtype)
    return np.where(by_zero, poison, quotient), np.where(by_zero, poison, remainder)


def _quotient(x: Array, y: Array) -> Array:
    return _division(x, y)[0]


def _remainder(x: Array, y: Array) -> Array:
    return _division(x, y)[1]


@_rule("sad")
def _sad(s: Spelling) -> Operation:
    kind = s.type(*_INTEGERS)
    return Operation((kind,), (kind,) * 3, lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z)


@_rule("mul24", "mad24")
def _mul24(s: Spelling) -> Operation:
    kind = s.type("u32", "s32")
    shift = {"lo": 0, "hi": 16}[s.one_of("lo", "hi")]

    def product(x: Array, y: Array) -> Array:
        # the lowest 24 bits of each, with their sign
        x, y = (x << 8) >> 8, (y << 8) >> 8
        wide = "i8" if kind == "s32" else "u8"
        return ((x.astype(wide) * y.astype(wide)) >> shift).astype(x.dtype)

    if s.opcode == "mul24":
        return Operation((kind,), (kind, kind), product)
    return Operation((kind,), (kind,) * 3, lambda x, y, z: product(x, y) + z)


@_rule("dp4a")
def _dp4a(s: Spelling) -> Operation:
    kinds = (s.type("u32", "s32"), s.type("u32", "s32"))[::-1]
    result = "s32" if "s32" in kinds else "u32"

    def parts(x: Array, kind: str) -> Array:
        return np.ascontiguousarray(x)[..., None].view("i1" if kind == "s32" else "u1").astype("i8")

    def compute(x: Array, y: Array, z: Array) -> Array:
        x, y = np.broadcast_arrays(x, y)
        return (parts(x, kinds[0]) * parts(y, kinds[1])).sum(-1).astype(DTYPES[result]) + z

    return Operation((result,), (*kinds, result), compute)


# -- bits


@_rule("and", "or", "xor")
def _logic(s: Spelling) -> Operation:
    kind = s.type(*_BITS)
    ufunc = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[s.opcode]
    return Operation((kind,), (kind, kind), ufunc)


@_rule("not", "cnot")
def _not(s: Spelling) -> Operation:
    kind = s.type(*_BITS)
    if s.opcode == "cnot":
        return Operation((kind,), (kind,), lambda x: (x == 0).astype(x.dtype))
    return Operation((kind,), (kind,), np.invert)


@_rule("lop3")
def _lop3(s: Spelling) -> Operation:
    def compute(x: Array, y: Array, z: Array, table: Array) -> Array:
        result = np.zeros_like(x | y | z)
        for case in range(8):
            if int(np.ravel(table)[0]) >> case & 1:
                result |= (x if case & 4 else ~x) & (y if case & 2 else ~y) & (z if case & 1 else ~z)
        return result

    return Operation((s.type("b32"),), ("b32", "b32", "b32", "u32"), compute)


@_rule("shl", "shr")
def _shift(s: Spelling) -> Operation:
    kind = s.type("b16", "b32", "b64", *_INTEGERS) if s.opcode == "shr" else s.type("b16", "b32", "b64")
    bits = 8 * np.dtype(DTYPES[kind]).itemsize

    def compute(x: Array, amount: Array) -> Array:
        # amounts beyond the width are as the width
        beyond = amount >= bits
        inside = np.where(beyond, 0, amount).astype(x.dtype)
        if s.opcode == "shl":
            return np.where(beyond, x.dtype.type(0), x << inside)
        rest = x >> x.dtype.type(bits - 1) if kind[0] == "s" else x.dtype.type(0)
        return np.where(beyond, rest, x >> inside)

    return Operation((kind,), (kind, "u32"), compute)


@_rule("shf")
def _funnel(s: Spelling) -> Operation:
    kind = s.type("b32")
    left = s.one_of("l", "r") == "l"
    wraps = s.one_of("wrap", "clamp") == "wrap"

    def compute(low: Array, high: Array, amount: Array) -> Array:
        both = (high.astype("u8") << np.uint64(32)) | low.astype("u8")
        by = (amount & np.uint32(31) if wraps else np.minimum(amount, np.uint32(32))).astype("u8")
        return ((both << by) >> np.uint64(32) if left else both >> by).astype("u4")

    return Operation((kind,), (kind, kind, "u32"), compute)


def _below(length: Array) -> Array:
    """Words of 64 bits whose lowest `length` bits are set."""
    full = length >= 64
    return np.where(full, ~np.uint64(0), (np.uint64(1) << np.where(full, 0, length).astype("u8")) - np.uint64(1))


@_rule("bfe")
def _extract(s: Spelling) -> Operation:
    kind = s.type("u32", "s32", "u64", "s64")
    bits = int(kind[1:])

    def compute(x: Array, position: Array, length: Array) -> Array:
        word = _unsigned(x).astype("u8")
        start = (position & np.uint32(0xFF)).astype("i8")
        wanted = (length & np.uint32(0xFF)).astype("i8")
        there = np.clip(np.minimum(wanted, bits - start), 0, None)
        inside = start < bits
        field = np.where(inside, word >> np.where(inside, start, 0).astype("u8"), np.uint64(0)) & _below(there)
        if kind[0] == "s":
            last = np.clip(np.minimum(start + wanted - 1, bits - 1), 0, None)
            negative = (wanted > 0) & ((word >> last.astype("u8")) & np.uint64(1) == 1)
            field = np.where(negative, field | ~_below(there), field)
        return field.astype(f"u{bits // 8}").view(x.dtype)

    return Operation((kind,), (kind, "u32", "u32"), compute)


@_rule("bfi")
def _insert(s: Spelling) -> Operation:
    kind = s.type("b32", "b64")
    bits = int(kind[1:])

    def compute(x: Array, y: Array, position: Array, length: Array) -> Array:
        start = (position & np.uint32(0xFF)).astype("i8")
        there = np.clip(np.minimum((length & np.uint32(0xFF)).astype("i8"), bits - start), 0, None)
        by = np.where(start < 64, start, 0).astype("u8")
        mask = np.where(start < bits, _below(there) << by, np.uint64(0))
        return ((y.astype("u8") & ~mask) | ((x.astype("u8") << by) & mask)).astype(x.dtype)

    return Operation((kind,), (kind, kind, "u32", "u32"), compute)


def _filled(x: Array) -> Array:
    """With every bit below the highest set."""
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < 8 * x.dtype.itemsize:
            x = x | (x >> x.dtype.type(shift))
    return x


@_rule("popc", "clz")
def _count(s: Spelling) -> Operation:
    kind = s.type("b32", "b64")
    if s.opcode == "popc":
        return Operation(("u32",), (kind,), lambda x: np.bitwise_count(x).astype("u4"))
    bits = int(kind[1:])
    return Operation(("u32",), (kind,), lambda x: (bits - np.bitwise_count(_filled(x)).astype("u4")).astype("u4"))


@_rule("bfind")
def _find(s: Spelling) -> Operation:
    kind = s.type("u32", "s32", "u64", "s64")
    bits = int(kind[1:])
    from_top = s.flag("shiftamt")

    def compute(x: Array) -> Array:
        word = _unsigned(np.where(x < 0, ~x, x))
        place = np.bitwise_count(_filled(word)).astype("i8") - 1
        if from_top:
            place = np.where(place < 0, place, bits - 1 - place)
        return place.astype("u4")

    return Operation(("u32",), (kind,), compute)


@_rule("brev")
def _reverse(s: Spelling) -> Operation:
    kind = s.type("b32", "b64")
    size = int(kind[1:]) // 8
    of_byte = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], "u1")

    def compute(x: Array) -> Array:
        octets = np.ascontiguousarray(x)[..., None].view("u1")
        return np.ascontiguousarray(of_byte[octets][..., ::-1]).view(f"u{size}")[..., 0]

    return Operation((kind,), (kind,), compute)


@_rule("prmt")
def _permute(s: Spelling) -> Operation:
    def compute(low: Array, high: Array, choice: Array) -> Array:
        octets = (high.astype("u8") << np.uint64(32)) | low.astype("u8")
        result = np.uint32(0)
        for place in range(4):
            code = (choice >> np.uint32(4 * place)).astype("u8")
            octet = (octets >> ((code & np.uint64(7)) << np.uint64(3))) & np.uint64(0xFF)
            sign = np.where(octet & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
            octet = np.where(code & np.uint64(8), sign, octet)
            result = result | (octet.astype("u4") << np.uint32(8 * place))
        return np.asarray(result)

    return Operation((s.type("b32"),), ("b32", "b32", "u32"), compute)


@_rule("bmsk")
def _mask(s: Spelling) -> Operation:
    kind = s.type("b32")
    wraps = s.one_of("wrap", "clamp") == "wrap"

    def compute(position: Array, length: Array) -> Array:
        if wraps:
            position, length = position & np.uint32(31), length & np.uint32(31)
        by = np.minimum(position, np.uint32(32)).astype("u8")
        return (_below(np.minimum(length, np.uint32(32))) << by).astype("u4")

    return Operation((kind,), ("u32", "u32"), compute)


@_rule("szext")
def _extend(s: Spelling) -> Operation:
    kind = s.type("u32", "s32")
    wraps = s.one_of("wrap", "clamp") == "wrap"

    def compute(x: Array, width: Array) -> Array:
        width = width & np.uint32(31) if wraps else np.minimum(width, np.uint32(32))
        low = _unsigned(x).astype("u8") & _below(width)
        top = np.where(width > 0, low >> np.maximum(width.astype("i8") - 1, 0).astype("u8"), np.uint64(0))
        if kind == "s32":
            low = np.where(top & np.uint64(1), low | ~_below(width), low)
        return low.astype("u4").view(x.dtype)

    return Operation((kind,), (kind, "u32"), compute)


# -- comparison and selection

_ORDERS: dict[str, Compute] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNSIGNED_ORDERS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = {f"{name}u": name for name in _ORDERS}
_COMBINE: dict[str, Compute] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_COMPARABLE = ("b16", "b32", "b64", *_NUMBERS)


def _comparison(s: Spelling, kind: str) -> Compute:
    name = s.one_of(*_ORDERS, *_UNSIGNED_ORDERS, *_UNORDERED, "num", "nan")
    flush = s.flag("ftz") and kind == "f32"
    of_floats = kind in _FLOATS
    if (name in _UNORDERED or name in ("num", "nan")) and not of_floats:
        raise PTXError(f"{s.opcode}.{name}.{kind} is not known")
    if name in _UNSIGNED_ORDERS and kind[0] != "u":
        raise PTXError(f"{s.opcode}.{name}.{kind} is not known")
    if kind[0] == "b" and name not in ("eq", "ne"):
        raise PTXError(f"{s.opcode}.{name}.{kind} is not known")

    def compare(x: Array, y: Array) -> Array:
        if flush:
            x, y = _flush(x), _flush(y)
        if not of_floats:
            return _ORDERS[_UNSIGNED_ORDERS.get(name, name)](x, y)
        nan = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return nan if name == "nan" else ~nan
        if name in _UNORDERED:
            return _ORDERS[_UNORDERED[name]](x, y) | nan
        return _ORDERS[name](x, y) & ~nan

    return compare


@_rule("setp")
def _setp(s: Spelling) -> Operation:
    kind = s.type(*_COMPARABLE)
    compare = _comparison(s, kind)
    combine = s.choice(*_COMBINE)
    sources = (kind, kind, "pred") if combine else (kind, kind)

    def of_pairs(x: Array, y: Array) -> tuple[Array, Array]:
        x, y = (np.ascontiguousarray(a)[..., None].view("f2") for a in np.broadcast_arrays(x, y))
        both = compare(x, y)
        return both[..., 0], both[..., 1]

    def compute(x: Array, y: Array, third: Array | None = None) -> tuple[Array, Array]:
        first, second = of_pairs(x, y) if kind == "f16x2" else ((one := compare(x, y)), ~one)
        if combine and third is not None:
            return _COMBINE[combine](first, third), _COMBINE[combine](second, third)
        return first, second

    return Operation(("pred", "pred"), sources, compute)


@_rule("set")
def _set(s: Spelling) -> Operation:
    kind = s.type(*(k for k in _COMPARABLE if k != "f16x2"))
    result = s.type("u32", "s32", "f32", "u16", "s16", "f16")
    compare = _comparison(s, kind)
    combine = s.choice(*_COMBINE)
    dtype = np.dtype(DTYPES[result])
    yes = dtype.type(1) if dtype.kind == "f" else np.array(-1).astype(dtype)[()]

    def compute(x: Array, y: Array, third: Array | None = None) -> Array:
        found = compare(x, y)
        if combine and third is not None:
            found = _COMBINE[combine](found, third)
        return np.where(found, yes, dtype.type(0))

    return Operation((result,), (kind, kind, "pred") if combine else (kind, kind), compute)


@_rule("selp")
def _selp(s: Spelling) -> Operation:
    kind = s.type("b16", "b32", "b64", *_INTEGERS, "f16", "f32", "f64")
    return Operation((kind,), (kind, kind, "pred"), lambda x, y, p: np.where(p, x, y))


@_rule("slct")
def _slct(s: Spelling) -> Operation:
    by = s.type("s32", "f32")
    kind = s.type("b16", "b32", "b64", *_INTEGERS, "f32", "f64")
    flush = s.flag("ftz")
    return Operation(
        (kind,), (kind, kind, by), lambda x, y, z: np.where((_flush(z) if flush and by == "f32" else z) >= 0, x, y)
    )


# -- conversion


@_rule("cvt")
def _cvt(s: Spelling) -> Operation:
    source = s.type()
    result = s.type()
    rounding = s.choice(*ROUNDINGS, "rni", "rzi", "rmi", "rpi")
    saturate, flush = s.flag("sat"), s.flag("ftz")
    if result == "f16x2":
        if source != "f32" or rounding is None:
            raise PTXError(f"cvt.f16x2.{source} is not known")

        def pair(high: Array, low: Array) -> Array:
            parts = (_canonical(convert(x, "f16", "f32", rounding, saturate), "f16") for x in (low, high))
            low_bits, high_bits = (p.view("u2").astype("u4") for p in parts)
            return low_bits | (high_bits << np.uint32(16))

        return Operation((result,), (source, source), pair)
    if "x2" in source or "pred" in (source, result):
        raise PTXError(f"cvt.{result}.{source} is not known")
    to_float, from_float = result[0] == "f", source[0] == "f"
    to_narrower = to_float and from_float and DTYPES[result] < DTYPES[source]
    needs = (to_float != from_float) or to_narrower
    integral = rounding is not None and rounding.endswith("i")
    if needs and rounding is None:
        raise PTXError(f"cvt.{result}.{source} is not known without a rounding")
    if (rounding is not None and not (to_float or from_float)) or (to_float and integral and result != source):
        raise PTXError(f"cvt.{rounding}.{result}.{source} is not known")
    if from_float and not to_float and not integral:
        raise PTXError(f"cvt.{rounding}.{result}.{source} is not known")

    def compute(x: Array) -> Array:
        if flush and source == "f32":
            x = _flush(x)
        value = convert(x, result, source, rounding or "rn", saturate)
        if to_float:
            value = _canonical(value, result)
        return _flush(value) if flush and result == "f32" else value

    return Operation((result,), (source,), compute)
