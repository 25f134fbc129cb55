"""The scalar operations of the kernel IR: one table, read by the verifier, the interpreter and every printer.

Every operation is total: it has an answer for every operand (NumPy's where NumPy has one), never traps and never
invokes undefined behaviour. Backends spell an operation; they do not decide what it means.

Source: NumPy's ufuncs (C semantics of its loops), IEEE 754-2019 for the floating-point rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.support.nodes import frozen

__all__ = [
    "ALL_DTYPES", "BITS", "DTYPES", "EXACT", "OPS", "ScalarOp", "is_complex", "is_float", "is_integer", "is_signed",
    "kernel_dtype", "numpy_dtype", "part_dtype", "poison_byte", "poison_value", "result_dtype",
]  # fmt: skip

DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32), "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
"""What code is made for."""
ALL_DTYPES: dict[str, np.dtype[Any]] = {**DTYPES, "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}
"""The same with complex numbers, which are two numbers each where code is made (`ir/passes/parts.py`)."""
BITS: dict[str, int] = {name: 8 * dtype.itemsize for name, dtype in ALL_DTYPES.items()}
_NAME = {dtype: name for name, dtype in ALL_DTYPES.items()}
_PART = {"c64": "f32", "c128": "f64"}
_WHOLE = {part: whole for whole, part in _PART.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a kernel dtype name.  `numpy_dtype("f32") == np.float32`"""
    return ALL_DTYPES[name]


def kernel_dtype(dtype: Any) -> str:
    """The kernel name of a NumPy dtype.  Raises KeyError for one the kernel IR has not."""
    return _NAME[np.dtype(dtype)]


def is_float(dtype: str) -> bool:
    """Whether `dtype` is f16, f32 or f64."""
    return dtype[0] == "f"


def is_complex(dtype: str) -> bool:
    """Whether `dtype` is c64 or c128."""
    return dtype[0] == "c"


def part_dtype(dtype: str) -> str:
    """The dtype of the real and imaginary parts of a complex one."""
    return _PART[dtype]


def result_dtype(op: ScalarOp, last: str, stated: str | None) -> str | None:
    """The dtype of the result of an operation whose last operand is `last`; `stated` where the statement says it."""
    match op.result:
        case "bool":
            return "bool"
        case "part":
            return _PART[last]
        case "whole":
            return _WHOLE[last]
        case "out":
            return stated
        case _:
            return last


def poison_byte(dtype: str) -> int:
    """What each byte of fresh memory is set to where `config.poison` asks for it:
    NaN in every float, in integers an improbable number.
    """
    return 0xFF if dtype[0] in "fc" else 0xA5


def poison_value(dtype: str) -> Any:
    """The element that such memory holds."""
    if dtype == "bool":
        return True
    return np.frombuffer(bytes([poison_byte(dtype)]) * (BITS[dtype] // 8), ALL_DTYPES[dtype])[0]


def is_integer(dtype: str) -> bool:
    """Whether `dtype` is a signed or unsigned integer; bool is not."""
    return dtype[0] in "iu"


def is_signed(dtype: str) -> bool:
    """Whether `dtype` has negative values."""
    return dtype[0] in "if"


@frozen
class ScalarOp:
    """One scalar operation.

    `result` is "same" (the dtype of the last operand), "bool", "part" and "whole" (of a complex number, of its parts),
    or "out" (stated by the statement: convert, bitcast).
    `cost` is in units of one vector add; it steers inlining and parallel grain, nothing else.
    `impl` takes NumPy arrays and the result dtype: the executable meaning.
    `kinds` are the dtypes of its operands (those of a select but the first), by their first letters.
    """

    name: str
    arity: int
    result: str
    cost: float
    impl: Callable[..., Any]
    math: bool = False  # a function that `ir.math` can expand into the other operations
    kinds: str = "f"
    rounds: bool = False  # of floats computed in a wider format, the result is to be rounded to theirs

    def accepts(self, dtype: str) -> bool:
        """Whether it is defined on operands of a kernel dtype."""
        return dtype[0] in self.kinds


_ANY, _NUMBERS, _BITS, _INTEGERS, _FLOATS = "biufc", "iuf", "biu", "iu", "f"

_ARITHMETIC = _NUMBERS + "c"
_PLAIN = "biuf"

OPS: dict[str, ScalarOp] = {}


def _op(
    name: str,
    arity: int,
    impl: Callable[..., Any],
    kinds: str,
    *,
    result: str = "same",
    cost: float = 1,
    math: bool = False,
    rounds: bool = False,
) -> None:
    OPS[name] = ScalarOp(name, arity, result, cost, impl, math, kinds, rounds)


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(dtype: np.dtype[Any], *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _total_divide(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
    """Integer quotient rounded towards zero; 0 for a zero divisor; INT_MIN / -1 wraps to INT_MIN."""
    with np.errstate(all="ignore"):
        x, y = np.asarray(x), np.asarray(y)
        q = np.floor_divide(x, y)
        if dtype.kind == "i":
            r = np.subtract(x, np.multiply(q, y))
            q = q + ((r != 0) & ((x < 0) != (y < 0)))
        return np.where(y == 0, 0, q).astype(dtype)


def _total_remainder(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
    """Integer remainder with the sign of the dividend; 0 for a zero divisor."""
    with np.errstate(all="ignore"):
        return np.where(np.asarray(y) == 0, 0, np.subtract(x, np.multiply(_total_divide(dtype, x, y), y))).astype(dtype)


def _shift(function: Any) -> Callable[..., Any]:
    def run(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
        return function(x, y).astype(dtype)

    return run


def _shr_logical(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.right_shift(np.asarray(x).view(unsigned), np.asarray(y).view(unsigned)).view(dtype)


def _complex_convert(dtype: np.dtype[Any], x: Any) -> Any:
    return x.astype(dtype) if dtype.kind == "c" else x != 0 if dtype.kind == "b" else _convert(dtype, x.real)


def _convert(dtype: np.dtype[Any], x: Any) -> Any:
    """C's conversion made total.

    NaN and out-of-range floats to integers give what x86's cvttsd2si path of NumPy gives for int32 and int64 (the least
    value); narrower integers take the low bits of the int32/int64 result; uint64 is converted in two halves, which
    gives 0 from 2**64 on and 2**63 for NaN and below -2**63.
    """
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c":
            return _complex_convert(dtype, x)
        if x.dtype.kind == "f" and dtype.kind in "iu":
            return _float_to_int(dtype, x)
        return x.astype(dtype)


def _float_to_int(dtype: np.dtype[Any], x: Any) -> Any:
    wide = x.astype(np.float64)
    low = np.iinfo(np.int64).min
    if dtype == np.uint64:
        inside = (wide >= 0) & (wide < 2.0**64)
        high = wide >= 2.0**63
        part = np.where(high, wide - 2.0**63, wide)
        part = np.where(inside, part, 0).astype(np.int64).view(np.uint64) + np.where(
            high, np.uint64(2**63), np.uint64(0)
        )
        negative = (wide < 0) & (wide >= -(2.0**63))
        whole = np.where(negative, wide, 0).astype(np.int64).view(np.uint64)
        outside = np.where(wide >= 2.0**64, np.uint64(0), np.uint64(2**63))
        return np.where(inside, part, np.where(negative, whole, outside))
    bits = 32 if dtype.itemsize < 4 or dtype == np.int32 else 64
    bound = 2.0 ** (bits - 1)
    floor = low if bits == 64 else -(2**31)
    inside = (wide > -bound - 1) & (wide < bound)
    return np.where(inside, np.where(inside, wide, 0).astype(np.int64), floor).astype(np.int64).astype(dtype)


def _bitcast(dtype: np.dtype[Any], x: Any) -> Any:
    x = np.asarray(x)
    return x.copy().view(dtype) if x.ndim else x.reshape(1).view(dtype)[0]


def _fma(dtype: np.dtype[Any], x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once.  f32 goes through f64 with the double rounding repaired;
    f64 through exact error terms.
    """
    with np.errstate(all="ignore"):
        if dtype == np.float32:
            p = np.asarray(x, np.float64) * np.asarray(y, np.float64)
            return _round_to_odd_sum(p, np.asarray(z, np.float64)).astype(np.float32)
        return _fma64(np.asarray(x, np.float64), np.asarray(y, np.float64), np.asarray(z, np.float64)).astype(dtype)


def _complex(dtype: np.dtype[Any], x: Any, y: Any) -> Any:
    """The number of these parts; a sum would lose signs of zero, and infinities."""
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, dtype)
    out.real, out.imag = x, y
    return out[()]


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _round_to_odd_sum(a: Any, b: Any) -> Any:
    """a + b rounded to odd, so that a further rounding to float32 is right (Boldo and Melquiond 2008)."""
    s, e = _two_sum(a, b)
    bits = np.asarray(s).reshape(np.shape(s) or (1,)).view(np.int64).reshape(np.shape(s))
    away = np.where((e > 0) == (s > 0), 1, -1)
    fix = np.isfinite(s) & (e != 0) & (bits & 1 == 0)
    return np.where(fix, (bits + np.where(fix, away, 0)).view(np.float64), s)


def _fma64(x: Any, y: Any, z: Any) -> Any:
    """Exact by longdouble's 64-bit mantissa pieces: split the product, add, round once (Boldo and Melquiond 2008)."""
    split = 134217729.0
    cx, cy = x * split, y * split
    xh, yh = cx - (cx - x), cy - (cy - y)
    xl, yl = x - xh, y - yh
    p = x * y
    e = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    uh, ul = _two_sum(z, e)
    th, tl = _two_sum(p, uh)
    v = _round_to_odd_sum(tl, ul)
    exact = th + v
    return np.where(np.isfinite(exact) & np.isfinite(e) & np.isfinite(cx) & np.isfinite(cy), exact, p + z)


_op("add", 2, _quiet(np.add), _ARITHMETIC, rounds=True)
_op("sub", 2, _quiet(np.subtract), _ARITHMETIC, rounds=True)
_op("mul", 2, _quiet(np.multiply), _ARITHMETIC, rounds=True)
_op("div", 2, _quiet(np.divide), _FLOATS, cost=5, rounds=True)
_op("idiv", 2, _total_divide, _INTEGERS, cost=20)
_op("irem", 2, _total_remainder, _INTEGERS, cost=20)
_op("fma", 3, _fma, _FLOATS, rounds=True)
_op("neg", 1, _quiet(np.negative), _ARITHMETIC)
_op("abs", 1, _quiet(np.absolute), _NUMBERS)
_op("sqrt", 1, _quiet(np.sqrt), _FLOATS, cost=6, rounds=True)
_op("floor", 1, _quiet(np.floor), _FLOATS)
_op("ceil", 1, _quiet(np.ceil), _FLOATS)
_op("trunc", 1, _quiet(np.trunc), _FLOATS)
_op("roundeven", 1, _quiet(np.rint), _FLOATS)
_op("copysign", 2, _quiet(np.copysign), _FLOATS)
_op("min", 2, _quiet(np.minimum), _PLAIN, cost=2)  # NaN propagates
_op("max", 2, _quiet(np.maximum), _PLAIN, cost=2)
_op("and", 2, _quiet(np.bitwise_and), _BITS)
_op("or", 2, _quiet(np.bitwise_or), _BITS)
_op("xor", 2, _quiet(np.bitwise_xor), _BITS)
_op("not", 1, _quiet(np.invert), _BITS)
_op("shl", 2, _shift(np.left_shift), _INTEGERS)  # a count outside [0, bits) gives 0
_op("shr", 2, _shift(np.right_shift), _INTEGERS)  # arithmetic for signed types; outside the sign fill or 0
_op("lshr", 2, _shr_logical, _INTEGERS)  # logical for every type
_op("eq", 2, _quiet(np.equal), _ANY, result="bool")
_op("ne", 2, _quiet(np.not_equal), _ANY, result="bool")
_op("lt", 2, _quiet(np.less), _PLAIN, result="bool")
_op("le", 2, _quiet(np.less_equal), _PLAIN, result="bool")
_op("gt", 2, _quiet(np.greater), _PLAIN, result="bool")
_op("ge", 2, _quiet(np.greater_equal), _PLAIN, result="bool")
_op("select", 3, lambda dtype, c, x, y: np.where(c, x, y), _ANY)
_op("convert", 1, _convert, _ANY, result="out")
_op("bitcast", 1, _bitcast, _PLAIN, result="out", cost=0)
_op("real", 1, _quiet(np.real), "c", result="part", cost=0)
_op("imag", 1, _quiet(np.imag), "c", result="part", cost=0)
_op("complex", 2, _complex, _FLOATS, result="whole", cost=0)
EXACT = frozenset(OPS) - {"bitcast"}
"""Operations whose answer for constants is the same wherever it is computed.  (The bits of a NaN are not.)"""

for _name, _fn, _cost in (
    ("exp", np.exp, 12), ("exp2", np.exp2, 12), ("expm1", np.expm1, 18), ("log", np.log, 16), ("log2", np.log2, 16),
    ("log10", np.log10, 16), ("log1p", np.log1p, 18), ("sin", np.sin, 18), ("cos", np.cos, 18), ("tan", np.tan, 28),
    ("asin", np.arcsin, 20), ("acos", np.arccos, 20), ("atan", np.arctan, 20), ("sinh", np.sinh, 24),
    ("cosh", np.cosh, 24), ("tanh", np.tanh, 20), ("asinh", np.arcsinh, 30), ("acosh", np.arccosh, 30),
    ("atanh", np.arctanh, 30), ("cbrt", np.cbrt, 20),
):  # fmt: skip
    _op(_name, 1, _quiet(_fn), _FLOATS, cost=_cost, math=True)
_op("pow", 2, _quiet(np.power), _FLOATS, cost=40, math=True)
_op("atan2", 2, _quiet(np.arctan2), _FLOATS, cost=30, math=True)
_op("fmod", 2, _quiet(np.fmod), _FLOATS, cost=20, math=True)


def _erf(dtype: np.dtype[Any], x: Any) -> Any:
    """By the C library, element by element: the reference has no need of speed."""
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64)).astype(dtype)


_op("erf", 1, _erf, _FLOATS, cost=24, math=True)


def _by_expansion(name: str) -> Callable[..., Any]:
    """The expansion of a function that NumPy and the C library have not, run by NumPy."""

    def run(dtype: np.dtype[Any], *args: Any) -> Any:
        from tracejit.ir.math import EXPANSIONS  # for speed of import
        from tracejit.ir.math.evaluate import evaluate  # for speed of import

        return evaluate(EXPANSIONS[name], dtype, *args)

    return run


for _name, _cost in (
    ("bessel_i0e", 70), ("bessel_i1e", 70), ("digamma", 130), ("erf_inv", 90), ("erfc", 70), ("erfc_inv", 90),
    ("erfcx", 50), ("lgamma", 120), ("tgamma", 90),
):  # fmt: skip
    _op(_name, 1, _by_expansion(_name), _FLOATS, cost=_cost, math=True)
