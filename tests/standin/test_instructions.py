"""Every instruction of `arithmetic.py` by itself, against whole numbers and fractions of Python's."""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.standin.exact import Array
from tests.standin.harness import assert_same, launch, rounded
from tests.standin.module import load
from tests.standin.ptx import DTYPES, PTXError

Row = Callable[..., Any]

_SIGNED = {"u16": False, "s16": True, "u32": False, "s32": True, "u64": False, "s64": True, "b16": False, "b32": False,
           "b64": False, "u8": False, "s8": True}  # fmt: skip
_LETTERS = {1: "h", 2: "h", 4: "r", 8: "d"}


@pytest.fixture(autouse=True)
def _oracles_overflow() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def _bits(kind: str) -> int:
    return 8 * np.dtype(DTYPES[kind]).itemsize


def program(instruction: str, results: Sequence[str], sources: Sequence[str]) -> str:
    """A kernel that does one instruction: `{0}`, `{1}` are its results, `{a}`, `{b}`, `{c}`, `{d}` its sources."""
    kinds = [*results, *sources]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(kinds)))
    lines = ["mov.u32 %t, %tid.x;"]
    names: list[str] = []
    for i, kind in enumerate(kinds):
        word = _bits("u32" if kind == "pred" else kind) // 8
        name = f"%p{i}" if kind == "pred" else f"%{_LETTERS[word]}{i}"
        names.append(name)
        lines += [f"ld.param.u64 %a{i}, [p{i}];", f"mad.wide.u32 %a{i}, %t, {word}, %a{i};"]
        if i < len(results):
            continue
        if kind == "pred":
            lines += [f"ld.global.u32 %r{i}, [%a{i}];", f"setp.ne.u32 {name}, %r{i}, 0;"]
        else:
            lines.append(f"ld.global.b{8 * word} {name}, [%a{i}];")
    places = dict(zip("abcd", names[len(results) :], strict=False))
    lines.append(instruction.format(*names[: len(results)], **places) + ";")
    for i, kind in enumerate(results):
        if kind == "pred":
            lines += [f"selp.u32 %r{i}, 1, 0, %p{i};", f"st.global.u32 [%a{i}], %r{i};"]
        else:
            lines.append(f"st.global.b{_bits(kind)} [%a{i}], {names[i]};")
    body = "\n".join(lines)
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k({parameters}) {{
.reg .b32 %t; .reg .b64 %a<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;
{body}
ret;
}}"""


def run(instruction: str, results: Sequence[str], sources: Sequence[str], columns: Sequence[Array]) -> list[Array]:
    count = columns[0].size
    given = [c.astype("u4") if k == "pred" else c for c, k in zip(columns, sources, strict=True)]
    out = [np.zeros(count, "u4" if k == "pred" else DTYPES[k]) for k in results]
    launch(load(program(instruction, results, sources)), "k", [*out, *given], block=count)
    return out


def integers(kind: str, seed: int, count: int = 120) -> Array:
    """Edges, small numbers, and bits at random."""
    dtype = np.dtype(DTYPES[kind])
    values = np.random.default_rng(seed).integers(0, 2**64, count, "u8").astype(f"u{dtype.itemsize}").view(dtype)
    values[::3] >>= dtype.type(_bits(kind) // 2)
    edges = [0, 1, 2, np.iinfo(dtype).max, np.iinfo(dtype).min, -1 if dtype.kind == "i" else 5, 31, 33]
    values[: len(edges)] = edges
    return np.random.default_rng(seed + 99).permutation(values)


def floats(kind: str, seed: int, count: int = 150) -> Array:
    """Special values, bits at random, and numbers of like magnitude."""
    dtype = np.dtype(DTYPES[kind])
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64, count, "u8").astype(f"u{dtype.itemsize}").view(dtype)
    values[40:] = (rng.standard_normal(count - 40) * 4).astype(dtype)
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny,
               -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps, 3.0]  # fmt: skip
    values[: len(special)] = special
    return rng.permutation(values)


def check(instruction: str, results: Sequence[str], sources: Sequence[str], columns: Sequence[Array], row: Row) -> None:
    """The instruction gives for each row of values what `row` gives; whole numbers wrap around."""
    out = run(instruction, results, sources, columns)
    wanted: list[list[Any]] = [[] for _ in results]
    for values in zip(*(c.tolist() for c in columns), strict=True):
        answer = row(*values)
        for column, value in zip(wanted, answer if isinstance(answer, tuple) else (answer,), strict=True):
            column.append(value)
    for actual, kind, column in zip(out, results, wanted, strict=True):
        if kind[0] in "usb":
            word = np.array([v & ((1 << _bits(kind)) - 1) for v in column], f"u{_bits(kind) // 8}")
            assert_same(actual, word.view(actual.dtype), instruction)
        else:
            assert_same(actual, np.array(column, actual.dtype), instruction)


# -- integers


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Row] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_arithmetic_wraps_around(kind: str) -> None:
    a, b, c = (integers(kind, s) for s in range(3))
    bits = _bits(kind)
    for name, row in _BINARY.items():
        check(f"{name}.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, b], row)
    check(f"mul.hi.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, b], lambda x, y: x * y >> bits)
    check(f"mad.lo.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [kind], [kind] * 3, [a, b, c], lambda x, y, z: x * y + z)
    check(
        f"mad.hi.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [kind], [kind] * 3, [a, b, c], lambda x, y, z: (x * y >> bits) + z
    )
    check(f"sad.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [kind], [kind] * 3, [a, b, c], lambda x, y, z: abs(x - y) + z)
    divisor = np.where((b == 0) | (b == a.dtype.type(-1 if _SIGNED[kind] else 0)), a.dtype.type(3), b)
    check(f"div.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, divisor], _towards_zero)
    check(
        f"rem.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, divisor], lambda x, y: x - _towards_zero(x, y) * y
    )
    if bits < 64:
        wide = f"{kind[0]}{2 * bits}"
        check(f"mul.wide.{kind} {{0}}, {{a}}, {{b}}", [wide], [kind, kind], [a, b], operator.mul)
        w = integers(wide, 7)
        row = lambda x, y, z: x * y + z  # noqa: E731
        check(f"mad.wide.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [wide], [kind, kind, wide], [a, b, w], row)
    if _SIGNED[kind]:
        check(f"neg.{kind} {{0}}, {{a}}", [kind], [kind], [a], operator.neg)
        check(f"abs.{kind} {{0}}, {{a}}", [kind], [kind], [a], abs)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_division_by_zero_gives_what_shows(kind: str) -> None:
    a = integers(kind, 1)
    for name in ("div", "rem"):
        [out] = run(f"{name}.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, np.zeros_like(a)])
        assert (out.view(f"u{out.dtype.itemsize}") == int("A5" * out.dtype.itemsize, 16)).all()


def test_the_least_number_is_divided_by_minus_one() -> None:
    a = np.array([-(2**31), -(2**31), 5], "i4")
    b = np.array([-1, 1, -1], "i4")
    assert run("div.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b])[0].tolist() == [-(2**31), -(2**31), -5]
    assert run("rem.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b])[0].tolist() == [0, 0, 0]


def test_sums_saturate() -> None:
    a, b = integers("s32", 1), integers("s32", 2)
    clamp = lambda v: min(max(v, -(2**31)), 2**31 - 1)  # noqa: E731
    check("add.sat.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b], lambda x, y: clamp(x + y))
    check("sub.sat.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b], lambda x, y: clamp(x - y))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic_and_shifts(kind: str) -> None:
    a, b = integers(kind, 1), integers(kind, 2)
    bits = _bits(kind)
    for name, row in {"and": operator.and_, "or": operator.or_, "xor": operator.xor}.items():
        check(f"{name}.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, b], row)
    check(f"not.{kind} {{0}}, {{a}}", [kind], [kind], [a], operator.inv)
    check(f"cnot.{kind} {{0}}, {{a}}", [kind], [kind], [a], lambda x: int(x == 0))
    amount = np.arange(a.size, dtype="u4") % np.uint32(bits + 9)
    amount[:2] = 2**32 - 1, 2**31
    check(f"shl.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, "u32"], [a, amount], lambda x, n: x << n if n < bits else 0)
    for typed in (f"u{bits}", f"s{bits}"):
        row = lambda x, n: x >> min(n, bits)  # noqa: E731
        check(f"shr.{typed} {{0}}, {{a}}, {{b}}", [typed], [typed, "u32"], [a.view(DTYPES[typed]), amount], row)


def _field(x: int, position: int, length: int, bits: int, signed: bool) -> int:
    """The loop of PTX ISA, `bfe`."""
    pos, wanted = position & 0xFF, length & 0xFF
    word = x & ((1 << bits) - 1)
    sign = 0 if not signed or wanted == 0 else word >> min(pos + wanted - 1, bits - 1) & 1
    out = 0
    for i in range(bits):
        out |= (word >> (pos + i) & 1 if i < wanted and pos + i < bits else sign) << i
    return out


def _inserted(x: int, y: int, position: int, length: int, bits: int) -> int:
    pos, wanted = position & 0xFF, length & 0xFF
    for i in range(wanted):
        if pos + i < bits:
            y = y & ~(1 << (pos + i)) | (x >> i & 1) << (pos + i)
    return y


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_and_counts_of_bits(bits: int) -> None:
    u, s, b = f"u{bits}", f"s{bits}", f"b{bits}"
    a, c = integers(u, 1), integers(u, 2)
    rng = np.random.default_rng(0)
    position, length = (rng.integers(0, bits + 8, a.size).astype("u4") for _ in range(2))
    position[:2], length[2:4] = 300, 0
    sources = [position, length]
    check(f"bfe.{u} {{0}}, {{a}}, {{b}}, {{c}}", [u], [u, "u32", "u32"], [a, *sources],
          lambda x, p, n: _field(x, p, n, bits, False))  # fmt: skip
    check(f"bfe.{s} {{0}}, {{a}}, {{b}}, {{c}}", [s], [s, "u32", "u32"], [a.view(DTYPES[s]), *sources],
          lambda x, p, n: _field(x, p, n, bits, True))  # fmt: skip
    check(f"bfi.{b} {{0}}, {{a}}, {{b}}, {{c}}, {{d}}", [b], [b, b, "u32", "u32"], [a, c, *sources],
          lambda x, y, p, n: _inserted(x, y, p, n, bits))  # fmt: skip
    check(f"popc.{b} {{0}}, {{a}}", ["u32"], [b], [a], int.bit_count)
    check(f"clz.{b} {{0}}, {{a}}", ["u32"], [b], [a], lambda x: bits - x.bit_length())
    check(f"brev.{b} {{0}}, {{a}}", [b], [b], [a], lambda x: int(f"{x:0{bits}b}"[::-1], 2))
    check(f"bfind.{u} {{0}}, {{a}}", ["u32"], [u], [a], lambda x: x.bit_length() - 1)
    check(
        f"bfind.{s} {{0}}, {{a}}", ["u32"], [s], [a.view(DTYPES[s])], lambda x: (x if x >= 0 else ~x).bit_length() - 1
    )
    check(f"bfind.shiftamt.{u} {{0}}, {{a}}", ["u32"], [u], [a],
          lambda x: bits - x.bit_length() if x else -1)  # fmt: skip


def test_words_are_permuted_and_shifted_together() -> None:
    a, b, c = (integers("u32", s) for s in range(3))

    def permuted(x: int, y: int, choice: int) -> int:
        octets = (y << 32 | x).to_bytes(8, "little")
        out = 0
        for i in range(4):
            code = choice >> 4 * i & 15
            octet = octets[code & 7]
            out |= ((0xFF if octet & 0x80 else 0) if code & 8 else octet) << 8 * i
        return out

    words = ["b32", "b32", "b32"]
    check("prmt.b32 {0}, {a}, {b}, {c}", ["b32"], words, [a, b, c], permuted)
    both = lambda x, y: y << 32 | x  # noqa: E731
    check("shf.l.wrap.b32 {0}, {a}, {b}, {c}", ["b32"], words, [a, b, c], lambda x, y, n: both(x, y) << (n & 31) >> 32)
    check("shf.r.wrap.b32 {0}, {a}, {b}, {c}", ["b32"], words, [a, b, c], lambda x, y, n: both(x, y) >> (n & 31))
    check(
        "shf.l.clamp.b32 {0}, {a}, {b}, {c}", ["b32"], words, [a, b, c], lambda x, y, n: both(x, y) << min(n, 32) >> 32
    )
    check("shf.r.clamp.b32 {0}, {a}, {b}, {c}", ["b32"], words, [a, b, c], lambda x, y, n: both(x, y) >> min(n, 32))
    for table in (0x80, 0xE8, 0x1B):
        row = lambda x, y, z, table=table: sum(  # noqa: E731
            (table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i for i in range(32)
        )
        check(f"lop3.b32 {{0}}, {{a}}, {{b}}, {{c}}, {table}", ["b32"], words, [a, b, c], row)


def test_products_of_24_bits_and_of_octets() -> None:
    a, b = integers("s32", 1), integers("s32", 2)
    low = lambda v: ((v & 0xFFFFFF) ^ 0x800000) - 0x800000  # noqa: E731
    check("mul24.lo.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b], lambda x, y: low(x) * low(y))
    check("mul24.hi.s32 {0}, {a}, {b}", ["s32"], ["s32", "s32"], [a, b], lambda x, y: low(x) * low(y) >> 16)

    def dot(x: int, y: int, z: int) -> int:
        left, right = (x & 0xFFFFFFFF).to_bytes(4, "little"), (y & 0xFFFFFFFF).to_bytes(4, "little")
        return z + sum(p * ((q ^ 128) - 128) for p, q in zip(left, right, strict=True))

    check("dp4a.u32.s32 {0}, {a}, {b}, {c}", ["s32"], ["u32", "s32", "s32"], [a.view("u4"), b, integers("s32", 3)], dot)


@pytest.mark.parametrize("kind", ["u32", "u64"])
def test_carries_go_through_chains(kind: str) -> None:
    a, b, c, d = (integers(kind, s) for s in range(4))
    bits = _bits(kind)

    def split(v: int) -> tuple[int, int]:
        return v % 2**bits, v >> bits

    words = [kind] * 4
    both = [kind] * 2
    columns = [a, b, c, d]
    check(f"add.cc.{kind} {{0}}, {{a}}, {{c}}; addc.{kind} {{1}}, {{b}}, {{d}}", both, words, columns,
          lambda p, q, r, s: split((q << bits | p) + (s << bits | r)))  # fmt: skip
    check(f"sub.cc.{kind} {{0}}, {{a}}, {{c}}; subc.{kind} {{1}}, {{b}}, {{d}}", both, words, columns,
          lambda p, q, r, s: split((q << bits | p) - (s << bits | r)))  # fmt: skip
    chain = f"mad.lo.cc.{kind} {{0}}, {{a}}, {{b}}, {{c}}; madc.hi.{kind} {{1}}, {{a}}, {{b}}, {{d}}"
    check(chain, both, words, columns, lambda p, q, r, s: split(p * q + (s << bits | r)))
    # a carry comes in and goes on, also where it alone makes the sum overflow
    d[::2] = ~c[::2]
    chain = f"add.cc.{kind} {{0}}, {{a}}, {{b}}; addc.cc.{kind} {{1}}, {{c}}, {{d}}; addc.{kind} {{0}}, 0, 0"
    check(chain, both, words, columns, lambda p, q, r, s: split(r + s + (p + q >> bits))[::-1])


# -- comparisons and selection

_ORDERS: dict[str, Row] = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
                           "gt": operator.gt, "ge": operator.ge}  # fmt: skip


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers_are_compared_and_selected(kind: str) -> None:
    a, b = integers(kind, 1), integers(kind, 2)
    b[::4] = a[::4]
    third = np.arange(a.size) % 3 == 0
    for name, row in _ORDERS.items():
        check(f"setp.{name}.{kind} {{0}}|{{1}}, {{a}}, {{b}}", ["pred", "pred"], [kind, kind], [a, b],
              lambda x, y, row=row: (row(x, y), not row(x, y)))  # fmt: skip
        check(f"setp.{name}.xor.{kind} {{0}}, {{a}}, {{b}}, !{{c}}", ["pred"], [kind, kind, "pred"], [a, b, third],
              lambda x, y, p, row=row: row(x, y) != (not p))  # fmt: skip
        check(f"set.{name}.s32.{kind} {{0}}, {{a}}, {{b}}", ["s32"], [kind, kind], [a, b],
              lambda x, y, row=row: -int(row(x, y)))  # fmt: skip
    if kind[0] == "u":
        for name, same in {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.items():
            check(f"setp.{name}.{kind} {{0}}, {{a}}, {{b}}", ["pred"], [kind, kind], [a, b], _ORDERS[same])
    check(f"selp.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [kind], [kind, kind, "pred"], [a, b, third],
          lambda x, y, p: x if p else y)  # fmt: skip
    check(f"slct.{kind}.s32 {{0}}, {{a}}, {{b}}, {{c}}", [kind], [kind, kind, "s32"], [a, b, integers("s32", 3)],
          lambda x, y, z: x if z >= 0 else y)  # fmt: skip


def unordered(x: float, y: float) -> bool:
    return x != x or y != y


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_floats_are_compared_with_and_without_nan(kind: str) -> None:
    a, b = floats(kind, 1), floats(kind, 2)
    b[::4] = a[::4]
    for name, row in _ORDERS.items():
        check(f"setp.{name}.{kind} {{0}}, {{a}}, {{b}}", ["pred"], [kind, kind], [a, b],
              lambda x, y, row=row: row(x, y) and not unordered(x, y))  # fmt: skip
        check(f"setp.{name}u.{kind} {{0}}, {{a}}, {{b}}", ["pred"], [kind, kind], [a, b],
              lambda x, y, row=row: row(x, y) or unordered(x, y))  # fmt: skip
    check(f"setp.num.{kind} {{0}}|{{1}}, {{a}}, {{b}}", ["pred", "pred"], [kind, kind], [a, b],
          lambda x, y: (not unordered(x, y), unordered(x, y)))  # fmt: skip
    check(f"setp.nan.and.{kind} {{0}}, {{a}}, {{b}}, {{c}}", ["pred"], [kind, kind, "pred"], [a, b, a > 0],
          lambda x, y, p: unordered(x, y) and p)  # fmt: skip


def test_predicates_are_combined() -> None:
    a, b = np.arange(64) % 2 == 0, np.arange(64) % 3 == 0
    for name, row in {"and": operator.and_, "or": operator.or_, "xor": operator.xor}.items():
        check(f"{name}.pred {{0}}, {{a}}, {{b}}", ["pred"], ["pred", "pred"], [a, b], row)
    check("not.pred {0}, {a}", ["pred"], ["pred"], [a], operator.not_)
    check("mov.pred {0}, {a}", ["pred"], ["pred"], [a], bool)


# -- floating point

_MODES = ("rn", "rz", "rm", "rp")


def _exact(function: Callable[..., Fraction], native: Callable[..., float], kind: str, mode: str) -> Row:
    """`function` of fractions, rounded once; `native` says what zeros, infinities and NaN give."""

    def row(*values: float) -> float:
        if not all(math.isfinite(v) for v in values):
            return native(*values)
        try:
            exact = function(*(Fraction(v) for v in values))
        except ZeroDivisionError:
            return native(*values)
        if exact == 0:
            zero = native(*values)
            # exact zeros of unlike parts take the sign of the direction
            if function in (_sum, _difference, _fused) and _unlike(function, values):
                return -0.0 if mode == "rm" else 0.0
            return zero if zero == 0 else 0.0
        return rounded(exact, kind, mode)

    return row


def _sum(x: Fraction, y: Fraction) -> Fraction:
    return x + y


def _difference(x: Fraction, y: Fraction) -> Fraction:
    return x - y


def _fused(x: Fraction, y: Fraction, z: Fraction) -> Fraction:
    return x * y + z


def _native_fused(x: float, y: float, z: float) -> float:
    return z if math.isfinite(x) and math.isfinite(y) and not math.isfinite(z) else x * y + z


def _unlike(function: Callable[..., Fraction], values: Sequence[float]) -> bool:
    sign = lambda v: math.copysign(1, v)  # noqa: E731
    if function is _fused:
        return sign(values[0]) * sign(values[1]) != sign(values[2])
    return sign(values[0]) != sign(values[1]) * (-1 if function is _difference else 1)


def _divided(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


@pytest.mark.parametrize(("kind", "mode"), [("f16", "rn"), *itertools.product(("f32", "f64"), _MODES)])
def test_floating_point_is_rounded_once_in_every_direction(kind: str, mode: str) -> None:
    a, b, c = (floats(kind, s) for s in range(3))
    b[::6] = -a[::6]
    c[::5] = (-a * b)[::5]
    pair, three = [kind, kind], [kind] * 3
    check(f"add.{mode}.{kind} {{0}}, {{a}}, {{b}}", [kind], pair, [a, b], _exact(_sum, operator.add, kind, mode))
    check(f"sub.{mode}.{kind} {{0}}, {{a}}, {{b}}", [kind], pair, [a, b], _exact(_difference, operator.sub, kind, mode))
    check(f"mul.{mode}.{kind} {{0}}, {{a}}, {{b}}", [kind], pair, [a, b],
          _exact(operator.mul, operator.mul, kind, mode))  # fmt: skip
    check(f"fma.{mode}.{kind} {{0}}, {{a}}, {{b}}, {{c}}", [kind], three, [a, b, c],
          _exact(_fused, _native_fused, kind, mode))  # fmt: skip
    if kind == "f16":
        return
    check(
        f"div.{mode}.{kind} {{0}}, {{a}}, {{b}}", [kind], pair, [a, b], _exact(operator.truediv, _divided, kind, mode)
    )
    check(f"rcp.{mode}.{kind} {{0}}, {{a}}", [kind], [kind], [a],
          _exact(lambda x: 1 / x, lambda x: _divided(1.0, x), kind, mode))  # fmt: skip
    check(f"sqrt.{mode}.{kind} {{0}}, {{a}}", [kind], [kind], [a], lambda x: _root(x, kind, mode))


def _root(x: float, kind: str, mode: str) -> float:
    if x != x or x < 0:
        return math.nan
    if x == 0 or math.isinf(x):
        return x
    value = Fraction(x)
    scale = 1 << 3000
    root = math.isqrt(value.numerator * scale // value.denominator)
    exact = root * root * value.denominator == value.numerator * scale
    # a little more than what is known stands for the rest
    return rounded(Fraction(root) / (1 << 1500) + (0 if exact else Fraction(1, 1 << 1502)), kind, mode)


def _flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def test_subnormal_numbers_are_flushed_and_results_saturate() -> None:
    a, b = floats("f32", 0), floats("f32", 1)
    small = a * np.float32(2.0**-120)
    kinds = ["f32", "f32"]
    for x, y in ((a, b), (small, b)):
        for name, native in (("add", np.add), ("mul", np.multiply), ("sub", np.subtract)):
            with np.errstate(all="ignore"):
                out = native(*(np.array([_flushed(v) for v in w.tolist()], "f4") for w in (x, y)))
            wanted = np.array([_flushed(v) for v in out.tolist()], "f4")
            assert_same(run(f"{name}.rn.ftz.f32 {{0}}, {{a}}, {{b}}", ["f32"], kinds, [x, y])[0], wanted, name)
    with np.errstate(all="ignore"):
        total = a + b
    wanted = np.where(np.isnan(total), 0, np.clip(total, 0, 1)) + np.float32(0)
    assert_same(run("add.sat.f32 {0}, {a}, {b}", ["f32"], kinds, [a, b])[0], wanted, "sat")
    check("setp.eq.ftz.f32 {0}, {a}, {b}", ["pred"], kinds, [small, np.zeros_like(b)], lambda x, y: _flushed(x) == y)
    check("abs.ftz.f32 {0}, {a}", ["f32"], ["f32"], [small], lambda x: abs(_flushed(x)))


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_minima_prefer_numbers_and_order_zeros(kind: str) -> None:
    kinds = [kind, kind]
    special = np.array([0.0, -0.0, np.nan, 1.0, -1.0, np.inf, -np.inf], DTYPES[kind])
    a, b = (g.ravel() for g in np.meshgrid(special, special))

    def least(x: float, y: float) -> float:
        if x != x or y != y:
            return y if x != x else x
        if x == y == 0:
            return min(x, y, key=lambda v: math.copysign(1, v))
        return min(x, y)

    check(f"min.{kind} {{0}}, {{a}}, {{b}}", [kind], kinds, [a, b], least)
    check(f"max.{kind} {{0}}, {{a}}, {{b}}", [kind], kinds, [a, b], lambda x, y: -least(-x, -y))
    check(f"min.NaN.{kind} {{0}}, {{a}}, {{b}}", [kind], kinds, [a, b],
          lambda x, y: math.nan if x != x or y != y else least(x, y))  # fmt: skip


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_signs_and_properties_of_floats(kind: str) -> None:
    a, b = floats(kind, 1), floats(kind, 2)
    tiny = float(np.finfo(DTYPES[kind]).tiny)
    check(f"copysign.{kind} {{0}}, {{a}}, {{b}}", [kind], [kind, kind], [a, b], lambda x, y: math.copysign(y, x))
    tests: dict[str, Row] = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda x: x == x,
        "notanumber": math.isnan,
        "normal": lambda x: math.isfinite(x) and abs(x) >= tiny,
        "subnormal": lambda x: 0 < abs(x) < tiny,
    }
    for name, row in tests.items():
        check(f"testp.{name}.{kind} {{0}}, {{a}}", ["pred"], [kind], [a], row)
    bits = np.abs(a).view(f"u{a.dtype.itemsize}")
    [out] = run(f"neg.{kind} {{0}}, {{a}}", [kind], [kind], [a])
    assert_same(out, -a)
    assert (run(f"abs.{kind} {{0}}, {{a}}", [kind], [kind], [a])[0].view(bits.dtype) == bits).all()


def test_nan_has_one_form_in_single_precision_and_below() -> None:
    a = np.array([np.nan, np.inf, 0.0], "f4")
    [out] = run("mul.rn.f32 {0}, {a}, {b}", ["f32"], ["f32", "f32"], [a, np.array([1.0, 0.0, np.inf], "f4")])
    assert (out.view("u4") == 0x7FFFFFFF).all()
    [out] = run("add.f16 {0}, {a}, {b}", ["f16"], ["f16", "f16"], [a.astype("f2"), np.full(3, np.nan, "f2")])
    assert (out.view("u2") == 0x7FFF).all()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "min", "max"])
def test_pairs_of_halves_are_two_halves(name: str) -> None:
    columns = [floats("f16", s, 200) for s in range(2)]
    pairs = [c.view("u4") for c in columns]
    [alone] = run(f"{name}.f16 {{0}}, {{a}}, {{b}}", ["f16"], ["f16", "f16"], columns)
    [both] = run(f"{name}.f16x2 {{0}}, {{a}}, {{b}}", ["b32"], ["b32", "b32"], pairs)
    assert_same(both.view("f2"), alone)
    [fused] = run("fma.rn.f16x2 {0}, {a}, {b}, {a}", ["b32"], ["b32", "b32"], pairs)
    [alone] = run("fma.rn.f16 {0}, {a}, {b}, {a}", ["f16"], ["f16", "f16"], columns)
    assert_same(fused.view("f2"), alone)
    low, high = run("setp.lt.f16x2 {0}|{1}, {a}, {b}", ["pred", "pred"], ["b32", "b32"], pairs)
    assert (np.stack([low, high], 1).ravel() == (columns[0] < columns[1])).all()


# -- conversions

_INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_FLOATS = ("f16", "f32", "f64")


def _limits(kind: str) -> tuple[int, int]:
    bits = _bits(kind)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if _SIGNED[kind] else (0, (1 << bits) - 1)


def _clamped(v: int, kind: str) -> int:
    low, high = _limits(kind)
    return min(max(v, low), high)


@pytest.mark.parametrize("source", _INTEGERS)
def test_integers_are_converted(source: str) -> None:
    a = integers(source, 1)
    for result in _INTEGERS:
        check(f"cvt.{result}.{source} {{0}}, {{a}}", [result], [source], [a], lambda x: x)
        check(f"cvt.sat.{result}.{source} {{0}}, {{a}}", [result], [source], [a], lambda x, r=result: _clamped(x, r))
    for result, mode in itertools.product(_FLOATS, _MODES):
        check(f"cvt.{mode}.{result}.{source} {{0}}, {{a}}", [result], [source], [a],
              lambda x, r=result, m=mode: rounded(Fraction(x), r, m))  # fmt: skip


_WHOLE: dict[str, Callable[[Fraction], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("source", _FLOATS)
def test_floats_are_converted_to_integers(source: str) -> None:
    a = floats(source, 1)
    a[-60:] = np.random.default_rng(5).integers(-700, 700, 60) * a.dtype.type(0.25)

    def row(x: float, result: str, mode: str) -> int:
        if x != x:
            return 1 << _bits(result) - 1 if source == "f64" or _bits(result) == 64 else 0
        if math.isinf(x):
            return _limits(result)[x > 0]
        return _clamped(_WHOLE[mode](Fraction(x)), result)

    for result, mode in itertools.product(_INTEGERS, _WHOLE):
        check(f"cvt.{mode}.{result}.{source} {{0}}, {{a}}", [result], [source], [a],
              lambda x, r=result, m=mode: row(x, r, m))  # fmt: skip


@pytest.mark.parametrize(("source", "result"), list(itertools.product(_FLOATS, _FLOATS)))
def test_floats_are_converted(source: str, result: str) -> None:
    a = floats(source, 1, 300)
    a[-100:] *= a.dtype.type(2.0**-14)
    a[-50:] *= a.dtype.type(2.0**-8)

    def row(x: float, mode: str) -> float:
        return rounded(Fraction(x), result, mode) if math.isfinite(x) and x != 0 else x

    if _bits(result) < _bits(source):
        for mode in _MODES:
            check(
                f"cvt.{mode}.{result}.{source} {{0}}, {{a}}",
                [result],
                [source],
                [a],
                lambda x, m=mode: _signed(row, x, m),
            )
    elif source != result:
        check(f"cvt.{result}.{source} {{0}}, {{a}}", [result], [source], [a], lambda x: x)
    else:
        for mode, whole in _WHOLE.items():
            check(f"cvt.{mode}.{result}.{source} {{0}}, {{a}}", [result], [source], [a],
                  lambda x, w=whole: math.copysign(w(Fraction(x)), x) if math.isfinite(x) else x)  # fmt: skip
        check(f"cvt.sat.{result}.{source} {{0}}, {{a}}", [result], [source], [a],
              lambda x: 0.0 if x != x or x <= 0 else min(x, 1.0))  # fmt: skip


def _signed(row: Callable[[float, str], float], x: float, mode: str) -> float:
    """What is rounded to zero keeps its sign."""
    value = row(x, mode)
    return math.copysign(value, x) if value == 0 else value


def test_two_singles_become_a_pair_of_halves() -> None:
    a, b = floats("f32", 1), floats("f32", 2)
    [out] = run("cvt.rn.f16x2.f32 {0}, {a}, {b}", ["b32"], ["f32", "f32"], [a, b])
    with np.errstate(all="ignore"):
        assert_same(out.view("f2").reshape(-1, 2), np.stack([b, a], 1).astype("f2"))


# -- what is refused


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("frobnicate.u32 {0}, {a}, {b}", "frobnicate.u32 is not known"),
        ("add.strange.u32 {0}, {a}, {b}", "add.strange.u32 is not known: .strange"),
        ("add.rn.u32 {0}, {a}, {b}", "add.rn.u32 is not known: .rn"),
        ("ex2.approx.f32 {0}, {a}", "ex2.approx is not executed"),
        ("div.full.f32 {0}, {a}, {b}", "div.full is not executed"),
        ("div.f32 {0}, {a}, {b}", "one of rn, rz, rm, rp expected"),
        ("setp.lo.s32 %p0, {a}, {b}", "setp.lo.s32 is not known"),
        ("setp.ltu.s32 %p0, {a}, {b}", "setp.ltu.s32 is not known"),
        ("cvt.f32.s32 {0}, {a}", "not known without a rounding"),
        ("cvt.rn.s32.f32 {0}, {a}", "cvt.rn.s32.f32 is not known"),
        ("add.u64 {0}, {a}, {b}", "is narrower than u64"),
        ("add.u16 {0}, {a}, {b}", "is wider than u16"),
        ("mov.u16 {0}, {a}", "is wider than u16"),
        ("add.u32 {0}, {a}", "3 operands expected"),
        ("bar.sync 0, 64", "barriers of a number of threads"),
        ("ld.global.u32 {0}, [%nothing]", "%nothing is not declared"),
        ("mov.u32 {0}, %clock", "%clock"),
        ("bra nowhere", "no label nowhere"),
        ("add.u32 {0}, {a}, %undeclared", "%undeclared is not a register"),
    ],
)
def test_what_is_not_known_is_refused_by_name(instruction: str, message: str) -> None:
    one = np.ones(1, "u4")
    with pytest.raises(PTXError, match=re.escape(message)):
        run(instruction, ["u32"], ["u32", "u32"], [one, one])
