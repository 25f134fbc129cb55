"""Small kernels in CUDA C, and what NumPy says that they compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tests.standin.exact import Array
from tests.standin.harness import rounded

__all__ = ["CASES", "Case"]

Arguments = list[Any]

N = 500
_C_TYPES = {
    "i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "i32": "int",
    "u32": "unsigned", "i64": "long long", "u64": "unsigned long long", "f32": "float", "f64": "double",
}  # fmt: skip
_NUMPY = {"i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8",
          "f32": "f4", "f64": "f8", "f16": "f2"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel `k`: `arguments` makes what it takes, `expected` gives what the arrays among them hold afterwards."""

    name: str
    source: str
    arguments: Callable[[np.random.Generator], Arguments]
    expected: Callable[..., Sequence[Array | None]]
    grid: tuple[int, int, int] = (8, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    shared: int = 0


def numbers(rng: np.random.Generator, kind: str, count: int = N) -> Array:
    """Values of every magnitude, with the special ones."""
    dtype = np.dtype(_NUMPY[kind])
    bits = rng.integers(0, 2**64, count, "u8", endpoint=False).astype(f"u{dtype.itemsize}")
    if dtype.kind != "f":
        values = bits.view(dtype)
        special = [0, 1, 2, 7, np.iinfo(dtype).max, np.iinfo(dtype).min, -1 if dtype.kind == "i" else 3]
        values[: len(special)] = special
        values[20:120] = values[20:120] >> dtype.type(4 * dtype.itemsize)
        return values
    values = bits.view(dtype)
    values[100:] = (rng.standard_normal(count - 100) * 100).astype(dtype)
    info = np.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny,
               info.smallest_subnormal, -info.smallest_subnormal, info.eps, 3.0]  # fmt: skip
    values[: len(special)] = special
    return rng.permutation(values)


def _elementwise(kind: str, lines: Sequence[str], result: str | None = None, extra: str = "") -> str:
    """A kernel of two operands whose result number j, of n values each, is what line j says."""
    t, r = _C_TYPES[kind], _C_TYPES[result or kind]
    body = "\n".join(f"  out[{j} * n + i] = ({r})({line});" for j, line in enumerate(lines))
    return f"""{extra}
extern "C" __global__ void k(const {t}* x, const {t}* y, {r}* out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  {t} a = x[i], b = y[i];
{body}
}}
"""


def _binary_case(
    name: str, kind: str, table: dict[str, Callable[[Array, Array], Array]], result: str | None = None, extra: str = ""
) -> Case:
    dtype = _NUMPY[result or kind]

    def arguments(rng: np.random.Generator) -> Arguments:
        return [numbers(rng, kind), numbers(rng, kind), np.zeros(len(table) * N, dtype), np.int32(N)]

    def expected(x: Array, y: Array, out: Array, n: Any) -> Sequence[Array | None]:
        return [None, None, np.concatenate([np.asarray(f(x, y)).astype(dtype) for f in table.values()]), None]

    return Case(name, _elementwise(kind, list(table), result, extra), arguments, expected)


def _trunc_div(a: Array, b: Array) -> Array:
    """The quotient towards zero; the kernel divides by 3 where the divisor is 0 or -1."""
    b = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), b.dtype.type(3), b)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([p // q if (p < 0) == (q < 0) else -(-p // q) for p, q in pairs], a.dtype)


def _trunc_rem(a: Array, b: Array) -> Array:
    b = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), b.dtype.type(3), b)
    return a - _trunc_div(a, b) * b


def _integer_arithmetic(kind: str) -> Case:
    dtype = np.dtype(_NUMPY[kind])
    bits = 8 * dtype.itemsize
    divisor = "(b == 0 || b == -1 ? 3 : b)" if dtype.kind == "i" else "(b == 0 ? 3 : b)"
    amount = f"((int)(b & {bits - 1}))"

    def shifted(a: Array, b: Array) -> Array:
        return b & dtype.type(bits - 1)

    return _binary_case(
        f"arithmetic_{kind}",
        kind,
        {
            "a + b": np.add,
            "a - b": np.subtract,
            "a * b": np.multiply,
            f"a / {divisor}": _trunc_div,
            f"a % {divisor}": _trunc_rem,
            "a & b": np.bitwise_and,
            "a | b": np.bitwise_or,
            "a ^ b": np.bitwise_xor,
            "~a": lambda a, b: ~a,
            "-a": lambda a, b: np.negative(a),
            f"a << {amount}": lambda a, b: a << shifted(a, b),
            f"a >> {amount}": lambda a, b: a >> shifted(a, b),
            "a < b ? a : b": np.minimum,
            "a > b ? a : b": np.maximum,
            "a == b": np.equal,
            "a != b": np.not_equal,
            "a <= b": np.less_equal,
            "a / 7 + b % 10": lambda a, b: _trunc_div(a, np.full_like(a, 7)) + _trunc_rem(b, np.full_like(b, 10)),
        },
    )


def _fma(kind: str) -> Callable[[Array, Array], Array]:
    def of(a: Array, b: Array) -> Array:
        out = a * b + a
        finite = np.isfinite(a) & np.isfinite(b)
        for i in np.flatnonzero(finite & (a != 0) & (b != 0)):
            x, y = Fraction(float(a[i])), Fraction(float(b[i]))
            if x * y + x:
                out[i] = rounded(x * y + x, kind)
        return out

    return of


def _float_arithmetic(kind: str) -> Case:
    f = "f" if kind == "f32" else ""
    dtype = np.dtype(_NUMPY[kind])
    return _binary_case(
        f"arithmetic_{kind}",
        kind,
        {
            "a + b": np.add,
            "a - b": np.subtract,
            "a * b": np.multiply,
            "a / b": np.divide,
            f"sqrt{f}(a)": lambda a, b: np.sqrt(a),
            f"fma{f}(a, b, a)": _fma(kind),
            "-a": lambda a, b: -a,
            f"fabs{f}(a)": lambda a, b: np.abs(a),
            f"floor{f}(a)": lambda a, b: np.floor(a),
            f"ceil{f}(a)": lambda a, b: np.ceil(a),
            f"trunc{f}(a)": lambda a, b: np.trunc(a),
            f"rint{f}(a)": lambda a, b: np.rint(a),
            f"copysign{f}(a, b)": np.copysign,
            "a < b ? a : b": lambda a, b: np.where(a < b, a, b),
            f"1 / (a * a + 1) - b * {f or '0'}1.5".replace("f1.5", "1.5f").replace("01.5", "1.5"): (
                lambda a, b: dtype.type(1) / (a * a + dtype.type(1)) - b * dtype.type(1.5)
            ),
        },
    )


def _least_and_greatest(kind: str) -> Case:
    f = "f" if kind == "f32" else ""
    zeros = "(a == b ? 0 : 1) * "
    return _binary_case(
        f"extremes_{kind}",
        kind,
        {
            f"{zeros}fmin{f}(a, b)": lambda a, b: np.where(a == b, 0, 1) * np.fmin(a, b),
            f"{zeros}fmax{f}(a, b)": lambda a, b: np.where(a == b, 0, 1) * np.fmax(a, b),
        },
    )


def _comparisons(kind: str) -> Case:
    return _binary_case(
        f"comparisons_{kind}",
        kind,
        {
            "a < b": np.less,
            "a <= b": np.less_equal,
            "a > b": np.greater,
            "a >= b": np.greater_equal,
            "a == b": np.equal,
            "a != b": np.not_equal,
            "!(a < b)": lambda a, b: ~(a < b),
            "!(a >= b)": lambda a, b: ~(a >= b),
            "isnan(a) || isinf(b)": lambda a, b: np.isnan(a) | np.isinf(b),
            "a < b && b < 3 || a == 1": lambda a, b: (a < b) & (b < 3) | (a == 1),
        },
        "i32",
    )


def _bits_case(bits: int) -> Case:
    kind = f"u{bits}"
    ll = "ll" if bits == 64 else ""

    def each(function: Callable[[int], int]) -> Callable[[Array, Array], Array]:
        return lambda a, b: np.array([function(int(v)) for v in a])

    def lowest(v: int) -> int:
        return (v & -v).bit_length()

    return _binary_case(
        f"bits_{kind}",
        kind,
        {
            f"__popc{ll}(a)": each(int.bit_count),
            f"__clz{ll}(a)": each(lambda v: bits - v.bit_length()),
            f"__ffs{ll}(a)": each(lowest),
            f"__brev{ll}(a) >> 33 - 33 & 0x7fffffff": each(lambda v: int(f"{v:0{bits}b}"[::-1], 2) & 0x7FFFFFFF),
        },
        "i32",
    )


def _saturated(kind: str, x: Array, of_nan: int) -> Array:
    info = np.iinfo(_NUMPY[kind])
    out = []
    for v in x.tolist():
        if np.isnan(v):
            out.append(of_nan)
        elif np.isinf(v):
            out.append(info.max if v > 0 else info.min)
        else:
            out.append(min(max(int(v), int(info.min)), int(info.max)))
    return np.array(out, _NUMPY[kind])


def _float_to_integer(kind: str) -> Case:
    t = _C_TYPES[kind]
    source = f"""
extern "C" __global__ void k(const {t}* x, int* a, unsigned* b, long long* c, unsigned long long* d, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  a[i] = (int)x[i]; b[i] = (unsigned)x[i]; c[i] = (long long)x[i]; d[i] = (unsigned long long)x[i];
}}
"""

    def arguments(rng: np.random.Generator) -> Arguments:
        return [numbers(rng, kind), *(np.zeros(N, d) for d in ("i4", "u4", "i8", "u8")), np.int32(N)]

    def expected(x: Array, *rest: Any) -> Sequence[Array | None]:
        double = kind == "f64"
        return [
            None,
            _saturated("i32", x, -(2**31) if double else 0),
            _saturated("u32", x, 2**31 if double else 0),
            _saturated("i64", x, -(2**63)),
            _saturated("u64", x, 2**63),
            None,
        ]

    return Case(f"from_{kind}", source, arguments, expected)


def _integer_to_float(kind: str) -> Case:
    t = _C_TYPES[kind]
    source = f"""
extern "C" __global__ void k(const {t}* x, float* a, double* b, float* down, double* up, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  a[i] = (float)x[i]; b[i] = (double)x[i];
  down[i] = {"__ull2float_rd" if kind == "u64" else "__ll2float_rd"}(x[i]);
  up[i] = {"__ull2double_ru" if kind == "u64" else "__ll2double_ru"}(x[i]);
}}
"""

    def arguments(rng: np.random.Generator) -> Arguments:
        return [numbers(rng, kind), *(np.zeros(N, d) for d in ("f4", "f8", "f4", "f8")), np.int32(N)]

    def expected(x: Array, *rest: Any) -> Sequence[Array | None]:
        def each(to: str, mode: str) -> Array:
            return np.array([rounded(Fraction(int(v)), to, mode) for v in x], _NUMPY[to])

        return [None, each("f32", "rn"), each("f64", "rn"), each("f32", "rm"), each("f64", "rp"), None]

    return Case(f"from_{kind}", source, arguments, expected)


def _directed(operation: str, symbol: Callable[[Fraction, Fraction], Fraction]) -> Case:
    modes = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}

    def function(mode: str) -> Callable[[Array, Array], Array]:
        def of(a: Array, b: Array) -> Array:
            with np.errstate(all="ignore"):
                out = {"fadd": np.add, "fmul": np.multiply, "fdiv": np.divide}[operation](a, b)
            good = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
            for i in np.flatnonzero(good):
                exact = symbol(Fraction(float(a[i])), Fraction(float(b[i])))
                out[i] = rounded(exact, "f32", modes[mode]) if exact else (-0.0 if mode == "rd" else 0.0)
            # 0 + -0, and x + -x, take the sign of the direction
            zero = (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
            if operation == "fadd" and mode == "rd":
                out[zero] = -0.0
            return out

        return of

    return _binary_case(f"directed_{operation}", "f32", {f"__{operation}_{m}(a, b)": function(m) for m in modes})


_HALF = """
typedef unsigned short half;
#define HALF2(name, text) __device__ half name(half a, half b) { half r; asm(text " %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b)); return r; }
HALF2(hadd, "add.f16") HALF2(hsub, "sub.f16") HALF2(hmul, "mul.f16")
HALF2(hmin, "min.f16") HALF2(hmax, "max.f16")
__device__ half hfma(half a, half b, half c) { half r; asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c)); return r; }
__device__ half hneg(half a) { half r; asm("neg.f16 %0, %1;" : "=h"(r) : "h"(a)); return r; }
__device__ float h2f(half a) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a)); return r; }
__device__ half f2h(float a) { half r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a)); return r; }
__device__ half lt(half a, half b) { int r; asm("{.reg .pred p; setp.lt.f16 p, %1, %2; selp.b32 %0, 1, 0, p;}" : "=r"(r) : "h"(a), "h"(b)); return f2h(r); }
__device__ half low(unsigned p) { return p & 0xffff; }
__device__ unsigned add2(unsigned a, unsigned b) { unsigned r; asm("{add.f16x2 %0, %1, %2;\\n}" : "=r"(r) : "r"(a), "r"(b)); return r; }
"""  # noqa: E501


def _half_case() -> Case:
    lines = {
        "hadd(a, b)": np.add,
        "hsub(a, b)": np.subtract,
        "hmul(a, b)": np.multiply,
        "hfma(a, b, a)": _fma("f16"),
        "hneg(a)": lambda a, b: -a,
        "f2h(h2f(a) / h2f(b))": lambda a, b: (a.astype("f4") / b.astype("f4")).astype("f2"),
        "lt(a, b)": np.less,
        "low(add2(a | (unsigned)b << 16, b | (unsigned)a << 16))": np.add,
        "add2(a | (unsigned)b << 16, b | (unsigned)b << 16) >> 16": lambda a, b: b + b,
    }
    source = _elementwise("u16", list(lines), "u16", _HALF)

    def arguments(rng: np.random.Generator) -> Arguments:
        return [numbers(rng, "f16"), numbers(rng, "f16"), np.zeros(len(lines) * N, "f2"), np.int32(N)]

    def expected(x: Array, y: Array, out: Array, n: Any) -> Sequence[Array | None]:
        return [None, None, np.concatenate([np.asarray(f(x, y)).astype("f2") for f in lines.values()]), None]

    return Case("half", source, arguments, expected)


# -- control flow

_COLLATZ = """
extern "C" __global__ void k(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long v = x[i] & 1023; int steps = 0;
  while (v > 1) { v = v % 2 ? 3 * v + 1 : v / 2; if (++steps > 60) break; }
  out[i] = steps;
}
"""

_SWITCH = """
extern "C" __global__ void k(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], r;
  switch (v & 15) {
    case 0: r = v * 3; break;
    case 1: r = v ^ 77; break;
    case 2: r = v - 1000; break;
    case 3: r = 5;
    case 4: r = v / 11; break;
    case 5: for (r = 0; r * r < (v & 0xffff); r++) {} break;
    case 6: r = __popc(v); break;
    case 7: if (v & 64) { out[i] = -7; return; } r = 9; break;
    case 8: r = ~v; break;
    case 9: r = v << 3; break;
    default: r = v >> 2;
  }
  out[i] = r;
}
"""

_NESTED = """
extern "C" __global__ void k(const float* x, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float s = 0;
    for (int j = 0; j <= i % 7; j++) {
      if ((i + j) % 3 == 0) continue;
      for (int m = j; m < 5; m++) s = s * 0.5f + x[(i + m) % n];
    }
    out[i] = s;
  }
}
"""


def _collatz(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    result = []
    for v in (x & 1023).tolist():
        steps = 0
        while v > 1:
            v = 3 * v + 1 if v % 2 else v // 2
            steps += 1
            if steps > 60:
                break
        result.append(steps)
    return [None, np.array(result, "i4"), None]


def _switch(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    result = []
    for v in x.tolist():
        root = 0
        while root * root < (v & 0xFFFF):
            root += 1
        quotient = abs(v) // 11 * (1 if v >= 0 else -1)
        table = [v * 3, v ^ 77, v - 1000, quotient, quotient, root, (v & 0xFFFFFFFF).bit_count(),
                 -7 if v & 64 else 9, ~v, v << 3]  # fmt: skip
        case = v & 15
        result.append((table[case] if case < len(table) else v >> 2) & 0xFFFFFFFF)
    return [None, np.array(result, "u4").view("i4"), None]


def _nested(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    result = np.zeros_like(x)
    for i in range(int(n)):
        s = np.float32(0)
        for j in range(i % 7 + 1):
            if (i + j) % 3:
                for m in range(j, 5):
                    s = s * np.float32(0.5) + x[(i + m) % int(n)]
        result[i] = s
    return [None, result, None]


def _ints(rng: np.random.Generator) -> Arguments:
    return [numbers(rng, "i32"), np.zeros(N, "i4"), np.int32(N)]


def _floats(rng: np.random.Generator) -> Arguments:
    return [rng.standard_normal(N).astype("f4"), np.zeros(N, "f4"), np.int32(N)]


# -- shared memory, warps, atomics

_REDUCE = """
extern "C" __global__ void k(const double* x, double* out, int n) {
  __shared__ double s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int h = 64; h; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = s[0];
}
"""

_SCAN = """
extern "C" __global__ void k(const int* x, int* out, int n) {
  extern __shared__ int s[];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * blockDim.x + t];
  for (int d = 1; d < blockDim.x; d *= 2) {
    __syncthreads();
    int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
  }
  out[blockIdx.x * blockDim.x + t] = s[t];
}
"""

_TRANSPOSE = """
extern "C" __global__ void k(const float* x, float* out, int n) {
  __shared__ float tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = x[r * n + c];
  __syncthreads();
  out[(blockIdx.x * 16 + threadIdx.y) * n + blockIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""

_WARP = """
extern "C" __global__ void k(const int* x, int* out, unsigned* votes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], s = v;
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  int up = __shfl_up_sync(~0u, v, 3), down = __shfl_down_sync(~0u, v, 5), third = __shfl_sync(~0u, v, 3, 8);
  out[i] = s; out[n + i] = up; out[2 * n + i] = down; out[3 * n + i] = third;
  votes[i] = __ballot_sync(~0u, v & 1);
  votes[n + i] = __any_sync(~0u, v == 7) * 2 + __all_sync(~0u, v != 12345);
  votes[2 * n + i] = __reduce_add_sync(~0u, (unsigned)v);
}
"""

_MEETING = """
extern "C" __global__ void k(const int* x, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i] & 7, same;
  out[i] = __match_any_sync(~0u, v);
  out[n + i] = __match_all_sync(~0u, v | (i < 32), &same);
  out[2 * n + i] = same;
  out[3 * n + i] = __syncthreads_count(v > 3);
  out[4 * n + i] = __syncthreads_and(v >= 0) * 2 + __syncthreads_or(v == 9);
  out[5 * n + i] = __activemask();
  if (v & 1) { __syncwarp(__activemask()); out[6 * n + i] = 1; }
}
"""

_ATOMICS = """
extern "C" __global__ void k(const int* x, int* counts, float* total, unsigned long long* most, int* least,
                             unsigned* bits, unsigned* ring, int* olds, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  olds[i] = atomicAdd(&counts[x[i] & 15], 1);
  atomicAdd(total, 0.25f);
  atomicMax(most, (unsigned long long)(unsigned)x[i]);
  atomicMin(least, x[i]);
  atomicOr(bits, 1u << (x[i] & 31)); atomicXor(bits + 1, (unsigned)x[i]); atomicAnd(bits + 2, (unsigned)x[i] | 0xff);
  atomicInc(ring, 6);
}
"""

_CAS = """
extern "C" __global__ void k(const float* x, float* out, int n) {
  __shared__ unsigned best;
  if (threadIdx.x == 0) best = __float_as_uint(-1.0f);
  __syncthreads();
  float v = x[blockIdx.x * blockDim.x + threadIdx.x];
  unsigned old = atomicAdd(&best, 0);
  while (__uint_as_float(old) < v) {
    unsigned seen = atomicCAS(&best, old, __float_as_uint(v));
    if (seen == old) break;
    old = seen;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = __uint_as_float(best);
}
"""


def _warp(x: Array, out: Array, votes: Array, n: Any) -> Sequence[Array | None]:
    rows = x.reshape(-1, 32)
    sums = np.broadcast_to(rows.sum(1, dtype="i4")[:, None], rows.shape)
    up = np.where(np.arange(32) >= 3, np.roll(rows, 3, 1), rows)
    down = np.where(np.arange(32) < 27, np.roll(rows, -5, 1), rows)
    third = rows[:, np.arange(32) // 8 * 8 + 3]
    ballot = ((rows & 1).astype("u8") << np.arange(32, dtype="u8")).sum(1).astype("u4")
    either = (rows == 7).any(1) * 2 + (rows != 12345).all(1)
    each = [np.broadcast_to(v.astype("u4")[:, None], rows.shape) for v in (ballot, either, rows.sum(1, dtype="i4"))]
    return [
        None,
        np.concatenate([r.ravel() for r in (sums, up, down, third)]),
        np.concatenate([e.ravel() for e in each]),
        None,
    ]


def _meeting(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    v = x & 7
    warps = v.reshape(-1, 32)
    bits = np.uint32(1) << np.arange(32, dtype="u4")
    matching = ((warps[:, :, None] == warps[:, None, :]) * bits).sum(2, dtype="u4")
    low = np.where(np.arange(128) < 32, v | 1, v).reshape(-1, 32)
    same = np.repeat((low == low[:, :1]).all(1), 32)
    count = np.repeat((v.reshape(2, 64) > 3).sum(1), 64)
    rows = [
        matching.ravel(),
        np.where(same, 2**32 - 1, 0),
        same,
        count,
        np.full(128, 2),
        np.full(128, 2**32 - 1),
        v & 1,
    ]
    return [None, np.concatenate([r.astype("u4") for r in rows]), None]


def _atomics(x: Array, counts: Array, total: Array, most: Array, least: Array, *rest: Any) -> Sequence[Array | None]:
    olds = np.zeros(N, "i4")
    seen = np.zeros(16, "i4")
    for i, v in enumerate((x & 15).tolist()):
        olds[i] = seen[v]
        seen[v] += 1
    bits = [np.bitwise_or.reduce(np.uint32(1) << (x & 31).astype("u4")), np.bitwise_xor.reduce(x.view("u4")),
            np.bitwise_and.reduce(x.view("u4") | 0xFF)]  # fmt: skip
    return [None, seen, np.float32([N / 4]), np.array([x.view("u4").max()], "u8"), np.array([x.min()]),
            np.array(bits, "u4"), np.array([N % 7], "u4"), olds, None]  # fmt: skip


# -- local arrays, device functions, wide integers, structures

_LOCAL = """
extern "C" __global__ void k(const int* x, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a[16];
  for (int j = 0; j < 16; j++) a[j] = x[(i + j) % n];
  for (int j = 1; j < 16; j++) { int v = a[j], m = j; while (m && a[m - 1] > v) { a[m] = a[m - 1]; m--; } a[m] = v; }
  out[i] = a[x[i] & 15];
}
"""

_FUNCTIONS = """
struct Pair { double a; int b; };
__device__ __noinline__ Pair step(Pair p, int v) { p.a = p.a * 0.5 + v; p.b ^= v; return p; }
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ void store(int* where, int value) { *where = value; }
extern "C" __global__ void k(const int* x, double* out, int* numbers, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Pair p = {1.0, i};
  for (int j = 0; j < (x[i] & 3) + 1; j++) p = step(p, j + i);
  int slot[2] = {0, 0};
  store(&slot[x[i] & 1], p.b);
  out[i] = p.a;
  numbers[i] = fibonacci(x[i] & 7) + slot[0] * 3 + slot[1];
}
"""

_WIDE = """
extern "C" __global__ void k(const unsigned long long* x, const unsigned long long* y, unsigned long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned __int128 p = (unsigned __int128)x[i] * y[i] + ((unsigned __int128)y[i] << 64) - x[i];
  out[i] = (unsigned long long)p; out[n + i] = (unsigned long long)(p >> 64);
  out[2 * n + i] = __umul64hi(x[i], y[i]);
  out[3 * n + i] = (unsigned long long)__mul64hi((long long)x[i], (long long)y[i]);
  out[4 * n + i] = (unsigned)__umulhi((unsigned)x[i], (unsigned)y[i]);
  out[5 * n + i] = x[i] / (y[i] | 1); out[6 * n + i] = x[i] % (y[i] >> 40 | 1);
}
"""

_VECTORS = """
struct __align__(16) F4 { float x, y, z, w; };
struct __align__(16) D2 { double x, y; };
extern "C" __global__ void k(const F4* x, F4* out, const D2* y, D2* out2, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  F4 v = x[i]; F4 r = {v.w, v.z + 1, v.y * 2, v.x}; out[i] = r;
  D2 d = y[i]; D2 q = {d.y, d.x - d.y}; out2[i] = q;
}
"""

_CONSTANTS = """
__constant__ float table[5] = {1.5f, -2.0f, 0.25f, 8.0f, 3.0f};
__device__ int counter[3] = {10, 20, 30};
__device__ const unsigned char letters[4] = {'a', 'b', 'c', 0xff};
extern "C" __global__ void k(const int* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = (unsigned)x[i];
  out[i] = table[v % 5] + counter[v % 3] + letters[v % 4];
}
"""

_STRUCTURE = """
struct Options { float scale; int shift; long long big; short small; };
extern "C" __global__ void k(Options o, char first, const int* x, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * (double)o.scale + o.shift + o.big + o.small + first;
}
"""

_PERMUTE = """
extern "C" __global__ void k(const unsigned* x, const unsigned* y, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned a = x[i], b = y[i], s = b & 31;
  out[i] = __byte_perm(a, b, 0x6207); out[n + i] = __funnelshift_l(a, b, s); out[2 * n + i] = __funnelshift_r(a, b, s);
  out[3 * n + i] = __usad(a, b, 5); out[4 * n + i] = a << 7 | a >> 25; out[5 * n + i] = (a >> 5) & 0x3ff;
  out[6 * n + i] = (a & ~0xff0u) | (b & 0xff) << 4; out[7 * n + i] = (unsigned)((int)(a << 12) >> 20);
}
"""


def _wide(x: Array, y: Array, out: Array, n: Any) -> Sequence[Array | None]:
    columns: list[list[int]] = [[] for _ in range(7)]
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        p = (a * b + (b << 64) - a) % 2**128
        signed = [v - 2**64 if v >> 63 else v for v in (a, b)]
        row = [p % 2**64, p >> 64, a * b >> 64, (signed[0] * signed[1] >> 64) % 2**64, (a % 2**32) * (b % 2**32) >> 32,
               a // (b | 1), a % (b >> 40 | 1)]  # fmt: skip
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return [None, None, np.concatenate([np.array(c, "u8") for c in columns]), None]


def _functions(x: Array, out: Array, results: Array, n: Any) -> Sequence[Array | None]:
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13]
    a, b = np.ones(N), np.arange(N)
    for i, v in enumerate(x.tolist()):
        for j in range((v & 3) + 1):
            a[i] = a[i] * 0.5 + (j + i)
            b[i] ^= j + i
    slots = np.where(x & 1, b, b * 3)
    return [None, a, (np.array(fibonacci)[x & 7] + slots).astype("i4"), None]


def _local(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    return [None, np.array([np.sort(np.roll(x, -i)[:16])[x[i] & 15] for i in range(N)]), None]


def _permute(x: Array, y: Array, out: Array, n: Any) -> Sequence[Array | None]:
    columns: list[list[int]] = [[] for _ in range(8)]
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        octets = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
        both, s = b << 32 | a, b & 31
        row = [int.from_bytes([octets[i] for i in (7, 0, 2, 6)], "little"), both << s >> 32, both >> s, abs(a - b) + 5,
               a << 7 | a >> 25, a >> 5 & 0x3FF, (a & ~0xFF0) | (b & 0xFF) << 4,
               ((a >> 8 & 0xFFF) ^ 0x800) - 0x800]  # fmt: skip
        for column, value in zip(columns, row, strict=True):
            column.append(value % 2**32)
    return [None, None, np.concatenate([np.array(c, "u4") for c in columns]), None]


def _tree_sum(x: Array, out: Array, n: Any) -> Sequence[Array | None]:
    s = np.concatenate([x, np.zeros(-x.size % 128)]).reshape(-1, 128)
    for h in (64, 32, 16, 8, 4, 2, 1):
        s = s[:, :h] + s[:, h : 2 * h]
    return [None, s[:, 0].copy(), None]


def _words(kind: str, outputs: int) -> Callable[[np.random.Generator], Arguments]:
    return lambda rng: [numbers(rng, kind), numbers(rng, kind), np.zeros(outputs * N, _NUMPY[kind]), np.int32(N)]


CASES = [
    *(_integer_arithmetic(kind) for kind in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")),
    *(_float_arithmetic(kind) for kind in ("f32", "f64")),
    *(_least_and_greatest(kind) for kind in ("f32", "f64")),
    *(_comparisons(kind) for kind in ("f32", "f64")),
    *(_bits_case(bits) for bits in (32, 64)),
    *(_float_to_integer(kind) for kind in ("f32", "f64")),
    *(_integer_to_float(kind) for kind in ("i32", "i64", "u64")),
    _directed("fadd", lambda a, b: a + b),
    _directed("fmul", lambda a, b: a * b),
    _directed("fdiv", lambda a, b: a / b),
    _half_case(),
    Case("collatz", _COLLATZ, _ints, _collatz),
    Case("switch", _SWITCH, _ints, _switch),
    Case("nested", _NESTED, _floats, _nested, grid=(2, 1, 1), block=(96, 1, 1)),
    Case(
        "reduce",
        _REDUCE,
        lambda rng: [rng.standard_normal(N), np.zeros(4), np.int32(N)],
        _tree_sum,
        (4, 1, 1),
        (128, 1, 1),
    ),
    Case(
        "scan",
        _SCAN,
        lambda rng: [rng.integers(-9, 9, 300, "i4"), np.zeros(300, "i4"), np.int32(300)],
        lambda x, out, n: [None, x.reshape(3, 100).cumsum(1, dtype="i4").ravel(), None],
        (3, 1, 1),
        (100, 1, 1),
        400,
    ),
    Case(
        "transpose",
        _TRANSPOSE,
        lambda rng: [rng.standard_normal((48, 48)).astype("f4"), np.zeros((48, 48), "f4"), np.int32(48)],
        lambda x, out, n: [None, x.T, None],
        (3, 3, 1),
        (16, 16, 1),
    ),
    Case(
        "warp",
        _WARP,
        lambda rng: [rng.integers(0, 40, 256, "i4"), np.zeros(1024, "i4"), np.zeros(768, "u4"), np.int32(256)],
        _warp,
        (2, 1, 1),
        (128, 1, 1),
    ),
    Case(
        "meeting",
        _MEETING,
        lambda rng: [
            np.where(np.arange(128) < 96, rng.integers(0, 40, 128), 3).astype("i4"),
            np.zeros(896, "u4"),
            np.int32(128),
        ],
        _meeting,
        (2, 1, 1),
    ),
    Case(
        "atomics",
        _ATOMICS,
        lambda rng: [
            numbers(rng, "i32"),
            np.zeros(16, "i4"),
            np.zeros(1, "f4"),
            np.zeros(1, "u8"),
            np.zeros(1, "i4"),
            np.array([0, 0, ~0], "i8").astype("u4"),
            np.zeros(1, "u4"),
            np.zeros(N, "i4"),
            np.int32(N),
        ],
        _atomics,
    ),
    Case(
        "compare_and_swap",
        _CAS,
        lambda rng: [rng.random(512).astype("f4"), np.zeros(8, "f4"), np.int32(512)],
        lambda x, out, n: [None, x.reshape(8, 64).max(1), None],
    ),
    Case("local_array", _LOCAL, _ints, _local),
    Case(
        "functions",
        _FUNCTIONS,
        lambda rng: [numbers(rng, "i32"), np.zeros(N), np.zeros(N, "i4"), np.int32(N)],
        _functions,
    ),
    Case("wide_integers", _WIDE, _words("u64", 7), _wide),
    Case("permute", _PERMUTE, _words("u32", 8), _permute),
    Case(
        "vectors",
        _VECTORS,
        lambda rng: [
            rng.standard_normal((N, 4)).astype("f4"),
            np.zeros((N, 4), "f4"),
            rng.standard_normal((N, 2)),
            np.zeros((N, 2)),
            np.int32(N),
        ],
        lambda x, out, y, out2, n: [
            None,
            np.stack([x[:, 3], x[:, 2] + np.float32(1), x[:, 1] * np.float32(2), x[:, 0]], 1),
            None,
            np.stack([y[:, 1], y[:, 0] - y[:, 1]], 1),
            None,
        ],
    ),
    Case(
        "constants",
        _CONSTANTS,
        lambda rng: [numbers(rng, "i32"), np.zeros(N, "f4"), np.int32(N)],
        lambda x, out, n: [
            None,
            np.float32([1.5, -2, 0.25, 8, 3])[x.view("u4") % 5]
            + np.float32([10, 20, 30])[x.view("u4") % 3]
            + np.float32([97, 98, 99, 255])[x.view("u4") % 4],
            None,
        ],
    ),
    Case(
        "structure",
        _STRUCTURE,
        lambda rng: [
            np.array([(0.5, -3, 10**12, -7)], np.dtype("f4,i4,i8,i2", align=True))[0],
            np.int8(-5),
            rng.integers(-99, 99, N, "i4"),
            np.zeros(N),
            np.int32(N),
        ],
        lambda o, first, x, out, n: [None, None, None, x * 0.5 - 3 + 10**12 - 7 - 5, None],
    ),
]
"""Every kernel; the tests run each."""
