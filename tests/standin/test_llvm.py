"""The interpreter on what LLVM makes of its IR: the way that the CUDA backend goes."""

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.standin.exact import Array
from tests.standin.harness import assert_same, launch
from tests.standin.module import load

TRIPLE = "nvptx64-nvidia-cuda"
N = 300


def compile_ir(text: str, processor: str = "sm_80", level: int = 3) -> str:
    """PTX of LLVM IR."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=level)
    # the layout is in the text: alignments that are not named are decided when it is parsed
    header = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n'
    module = llvm.parse_assembly(header + text)
    module.verify()
    if level:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
        builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


_INDICES = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
"""


def elementwise(source: str, result: str, body: str, declarations: str = "") -> str:
    """A kernel that computes %r of %a and %b for each of n elements."""
    return f"""{_INDICES}{declarations}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %out, i32 %n) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %w = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %m = mul i32 %c, %w
  %i = add i32 %m, %t
  %in = icmp ult i32 %i, %n
  br i1 %in, label %work, label %done
work:
  %px = getelementptr {source}, ptr addrspace(1) %x, i32 %i
  %py = getelementptr {source}, ptr addrspace(1) %y, i32 %i
  %po = getelementptr {result}, ptr addrspace(1) %out, i32 %i
  %a = load {source}, ptr addrspace(1) %px
  %b = load {source}, ptr addrspace(1) %py
  br label %body
body:
{body}
  br label %last
last:
  store {result} %r, ptr addrspace(1) %po
  br label %done
done:
  ret void
}}"""


def _columns(dtype: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        x, y = ((rng.standard_normal(N) * 50).astype(kind) for _ in range(2))
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.5, np.finfo(kind).tiny], kind)
        a, b = (g.ravel() for g in np.meshgrid(special, special))
        x[: a.size], y[: b.size] = a, b
        return x, y
    x, y = (rng.integers(0, 2**64, N, "u8").astype(f"u{kind.itemsize}").view(kind) for _ in range(2))
    x[::3] >>= kind.type(4 * kind.itemsize)
    y[::5] = x[::5]
    y[y == 0] = 3
    x[:3] = 0, 1, np.iinfo(kind).max
    return x, y


def _each(function: Any) -> Any:
    return lambda x, y: np.array([function(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], object)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


# LLVM type, NumPy's dtype, the result's of both, body, declarations, oracle
_ELEMENTWISE: dict[str, tuple[str, str, str, str, str, str, Any]] = {
    "add_i8": ("i8", "i1", "i8", "i1", "%r = add i8 %a, %b", "", np.add),
    "mul_i16": ("i16", "i2", "i16", "i2", "%r = mul i16 %a, %b", "", np.multiply),
    "divide_i8": ("i8", "i1", "i8", "i1", "%r = sdiv i8 %a, %b", "", _each(_quotient)),
    "remainder_i64": (
        "i64", "i8", "i64", "i8", "%r = srem i64 %a, %b", "", _each(lambda a, b: a - _quotient(a, b) * b)
    ),
    "divide_u64": ("i64", "u8", "i64", "u8", "%r = udiv i64 %a, %b", "", np.floor_divide),
    "divide_by_constant": ("i32", "i4", "i32", "i4", "%r = sdiv i32 %a, 7", "", _each(lambda a, b: _quotient(a, 7))),
    "product_u128": (
        "i64", "u8", "i64", "u8",
        "%p = zext i64 %a to i128\n%q = zext i64 %b to i128\n%m2 = mul i128 %p, %q\n%s = lshr i128 %m2, 64\n"
        "%r = trunc i128 %s to i64", "", _each(lambda a, b: a * b >> 64),
    ),
    "sum_i128": (
        "i64", "i8", "i64", "i8",
        "%p = sext i64 %a to i128\n%q = sext i64 %b to i128\n%m2 = add i128 %p, %q\n%s = ashr i128 %m2, 1\n"
        "%r = trunc i128 %s to i64", "", _each(lambda a, b: a + b >> 1),
    ),
    "shift_i16": (
        "i16", "i2", "i16", "i2", "%s = and i16 %b, 15\n%r = ashr i16 %a, %s", "", lambda x, y: x >> (y & 15)
    ),
    "rotate": (
        "i32", "u4", "i32", "u4", "%r = call i32 @llvm.fshl.i32(i32 %a, i32 %a, i32 %b)",
        "declare i32 @llvm.fshl.i32(i32, i32, i32)", _each(lambda a, b: (a << b % 32 | a >> 32 - b % 32) & 0xFFFFFFFF),
    ),
    "count_bits": (
        "i64", "u8", "i64", "u8",
        "%p = call i64 @llvm.ctpop.i64(i64 %a)\n%q = call i64 @llvm.ctlz.i64(i64 %a, i1 false)\n"
        "%s = call i64 @llvm.cttz.i64(i64 %b, i1 false)\n%u = mul i64 %q, 100\n%v = mul i64 %s, 10000\n"
        "%z = add i64 %p, %u\n%r = add i64 %z, %v",
        "declare i64 @llvm.ctpop.i64(i64)\ndeclare i64 @llvm.ctlz.i64(i64, i1)\ndeclare i64 @llvm.cttz.i64(i64, i1)",
        _each(lambda a, b: a.bit_count() + 100 * (64 - a.bit_length()) + 10000 * ((b & -b).bit_length() - 1)),
    ),
    "swap_bytes": (
        "i32", "u4", "i32", "u4", "%r = call i32 @llvm.bswap.i32(i32 %a)", "declare i32 @llvm.bswap.i32(i32)",
        lambda x, y: x.byteswap(),
    ),
    "saturated_sum": (
        "i32", "i4", "i32", "i4", "%r = call i32 @llvm.sadd.sat.i32(i32 %a, i32 %b)",
        "declare i32 @llvm.sadd.sat.i32(i32, i32)", _each(lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1)),
    ),
    "least_u16": (
        "i16", "u2", "i16", "u2", "%r = call i16 @llvm.umin.i16(i16 %a, i16 %b)",
        "declare i16 @llvm.umin.i16(i16, i16)",
        np.minimum,
    ),
    "divide_f32": ("float", "f4", "float", "f4", "%r = fdiv float %a, %b", "", np.divide),
    "product_and_sum_f32": (
        "float", "f4", "float", "f4", "%p = fmul float %a, %b\n%r = fadd float %p, %a", "", lambda x, y: x * y + x
    ),
    "root_f64": (
        "double", "f8", "double", "f8", "%r = call double @llvm.sqrt.f64(double %a)",
        "declare double @llvm.sqrt.f64(double)",
        lambda x, y: np.sqrt(x),
    ),
    "minimum_f32": (
        "float", "f4", "float", "f4", "%r = call float @llvm.minimum.f32(float %a, float %b)",
        "declare float @llvm.minimum.f32(float, float)",
        lambda x, y: np.where((x == 0) & (y == 0), np.where(np.signbit(x), x, y), np.minimum(x, y)),
    ),
    "ordered_compare": (
        "double", "f8", "i32", "i4",
        "%p = fcmp olt double %a, %b\n%q = fcmp uge double %a, 1.0\n%s = fcmp uno double %a, %b\n"
        "%p1 = zext i1 %p to i32\n%q1 = select i1 %q, i32 10, i32 0\n%s1 = select i1 %s, i32 100, i32 0\n"
        "%u = add i32 %p1, %q1\n%r = add i32 %u, %s1", "",
        lambda x, y: (x < y) + 10 * ~(x < 1) + 100 * (np.isnan(x) | np.isnan(y)),
    ),
    "round_f32": (
        "float", "f4", "float", "f4",
        "%p = call float @llvm.floor.f32(float %a)\n%q = call float @llvm.rint.f32(float %b)\n%r = fsub float %p, %q",
        "declare float @llvm.floor.f32(float)\ndeclare float @llvm.rint.f32(float)",
        lambda x, y: np.floor(x) - np.rint(y),
    ),
    "half": (
        "half", "f2", "half", "f2", "%p = fmul half %a, %b\n%q = fadd half %p, %a\n%r = fdiv half %q, %b", "",
        lambda x, y: ((x * y + x).astype("f4") / y.astype("f4")).astype("f2"),
    ),
    "half_to_int": (
        "half", "f2", "i32", "i4", "%p = fcmp ord half %a, %b\n%q = select i1 %p, half %a, half 0.0\n"
        "%s = fcmp olt half %q, 1.0e3\n%u = fcmp ogt half %q, -1.0e3\n%v = and i1 %s, %u\n"
        "%w2 = select i1 %v, half %q, half 7.0\n%r = fptosi half %w2 to i32", "",
        lambda x, y: np.where(
            np.isnan(x) | np.isnan(y), 0, np.where(np.abs(x) < 1000, np.nan_to_num(x, posinf=0, neginf=0), 7)
        ).astype("i4"),
    ),
    "single_to_half_and_back": (
        "float", "f4", "float", "f4", "%p = fptrunc float %a to half\n%r = fpext half %p to float", "",
        lambda x, y: x.astype("f2").astype("f4"),
    ),
    "saturating_conversion": (
        "double", "f8", "i16", "i2", "%r = call i16 @llvm.fptosi.sat.i16.f64(double %a)",
        "declare i16 @llvm.fptosi.sat.i16.f64(double)",
        lambda x, y: np.trunc(np.clip(np.nan_to_num(x, posinf=1e9, neginf=-1e9), -32768, 32767)).astype("i2"),
    ),
    "from_u64": ("i64", "u8", "float", "f4", "%r = uitofp i64 %a to float", "", lambda x, y: x.astype("f4")),
    "from_i8": ("i8", "i1", "double", "f8", "%r = sitofp i8 %a to double", "", lambda x, y: x.astype("f8")),
    "bits_of_f32": ("float", "f4", "i32", "i4", "%r = bitcast float %a to i32", "", lambda x, y: x.view("i4")),
    "truth": (
        "i8", "u1", "i8", "u1", "%p = trunc i8 %a to i1\n%q = trunc i8 %b to i1\n"
        "%s = xor i1 %p, %q\n%r = zext i1 %s to i8",
        "", lambda x, y: (x ^ y) & 1,
    ),
    "table_of_branches": (
        "i32", "u4", "i32", "u4",
        """  %s = urem i32 %a, 8
  switch i32 %s, label %d [i32 0, label %c0 i32 1, label %c1 i32 2, label %c2 i32 3, label %c3 i32 4, label %c4
                           i32 5, label %c5]
c0:
  %r0 = mul i32 %b, 3
  br label %e
c1:
  %r1 = xor i32 %b, %a
  br label %e
c2:
  %r2 = sub i32 %b, 9
  br label %e
c3:
  %r3 = udiv i32 %b, 10
  br label %e
c4:
  %r4 = shl i32 %b, 2
  br label %e
c5:
  br label %c1
d:
  br label %e
e:
  %r = phi i32 [%r0, %c0], [%r1, %c1], [%r2, %c2], [%r3, %c3], [%r4, %c4], [77, %d]""", "",
        lambda x, y: np.choose(x % 8, [y * 3, y ^ x, y - 9, y // 10, y << 2, y ^ x, 77, 77]),
    ),
    "loop": (
        "i32", "i4", "i32", "i4",
        """  %k0 = and i32 %a, 31
  br label %head
head:
  %k = phi i32 [%k0, %body], [%k2, %next]
  %s = phi i32 [%b, %body], [%s2, %next]
  %go = icmp sgt i32 %k, 0
  br i1 %go, label %next, label %after
next:
  %u = mul i32 %s, 3
  %s2 = xor i32 %u, %k
  %k2 = sub i32 %k, 1
  br label %head
after:
  %r = add i32 %s, 0""", "", _each(lambda a, b: _looped(a & 31, b)),
    ),
    "local_array": (
        "i32", "i4", "i32", "i4",
        """  %v = alloca [8 x i32], align 4
  %a7 = and i32 %a, 7
  %b7 = and i32 %b, 7
  %p0 = getelementptr [8 x i32], ptr %v, i32 0, i32 %a7
  %p1 = getelementptr [8 x i32], ptr %v, i32 0, i32 %b7
  store i32 5, ptr %p0
  store volatile i32 %a, ptr %p1
  %l = load volatile i32, ptr %p0
  %r = add i32 %l, 1""", "", lambda x, y: np.where(x & 7 == y & 7, x, 5) + 1,
    ),
    "function": (
        "i32", "i4", "i32", "i4",
        "%s = call {i32, i64} @f(i32 %a, i16 5)\n%p = extractvalue {i32, i64} %s, 0\n"
        "%q = extractvalue {i32, i64} %s, 1\n"
        "%u = trunc i64 %q to i32\n%r = add i32 %p, %u",
        """define internal {i32, i64} @f(i32 %v, i16 %s) noinline optnone {
  %w = sext i16 %s to i32
  %p = mul i32 %v, %w
  %q = sext i32 %v to i64
  %z = shl i64 %q, 3
  %a = insertvalue {i32, i64} undef, i32 %p, 0
  %b = insertvalue {i32, i64} %a, i64 %z, 1
  ret {i32, i64} %b
}""", lambda x, y: x * 5 + (x << 3),
    ),
}  # fmt: skip


def _looped(k: int, s: int) -> int:
    s &= 0xFFFFFFFF
    while k > 0:
        s = (s * 3 ^ k) & 0xFFFFFFFF
        k -= 1
    return s - 2**32 if s >> 31 else s


@pytest.mark.parametrize("processor", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", _ELEMENTWISE)
def test_llvm_ir_gives_what_numpy_gives(name: str, processor: str) -> None:
    source, dtype, result, result_dtype, body, declarations, oracle = _ELEMENTWISE[name]
    x, y = _columns(dtype)
    out = np.zeros(N, result_dtype)
    text = compile_ir(elementwise(source, result, body, declarations), processor)
    launch(load(text), "k", [x, y, out, np.int32(N)], grid=5)
    with np.errstate(all="ignore"):
        assert_same(out, np.asarray(oracle(x, y)).astype(result_dtype), name)


def test_code_that_is_not_optimised_gives_the_same() -> None:
    for name in ("loop", "table_of_branches", "function", "local_array"):
        source, dtype, result, result_dtype, body, declarations, oracle = _ELEMENTWISE[name]
        x, y = _columns(dtype)
        out = np.zeros(N, result_dtype)
        text = compile_ir(elementwise(source, result, body, declarations), level=0)
        launch(load(text), "k", [x, y, out, np.int32(N)], grid=5)
        assert_same(out, np.asarray(oracle(x, y)).astype(result_dtype), name)


_REDUCTION = f"""{_INDICES}
@sums = internal addrspace(3) global [8 x float] poison, align 4
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.down.f32(i32, float, i32, i32)
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %out, ptr addrspace(1) %most) "nvvm.maxntid"="256" {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %c, 256
  %i = add i32 %m, %t
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %v = load float, ptr addrspace(1) %px
  %s4 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %v, i32 16, i32 31)
  %a4 = fadd float %v, %s4
  %s3 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %a4, i32 8, i32 31)
  %a3 = fadd float %a4, %s3
  %s2 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %a3, i32 4, i32 31)
  %a2 = fadd float %a3, %s2
  %s1 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %a2, i32 2, i32 31)
  %a1 = fadd float %a2, %s1
  %s0 = call float @llvm.nvvm.shfl.sync.down.f32(i32 -1, float %a1, i32 1, i32 31)
  %a0 = fadd float %a1, %s0
  %lane = and i32 %t, 31
  %warp = lshr i32 %t, 5
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %keep, label %wait
keep:
  %ps = getelementptr [8 x float], ptr addrspace(3) @sums, i32 0, i32 %warp
  store float %a0, ptr addrspace(3) %ps
  %peak = atomicrmw fmax ptr addrspace(1) %most, float %a0 syncscope("device") monotonic
  br label %wait
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %zero = icmp eq i32 %t, 0
  br i1 %zero, label %total, label %done
total:
  %k = phi i32 [0, %wait], [%k2, %total]
  %sum = phi float [0.0, %wait], [%sum2, %total]
  %pk = getelementptr [8 x float], ptr addrspace(3) @sums, i32 0, i32 %k
  %w = load float, ptr addrspace(3) %pk
  %sum2 = fadd float %sum, %w
  %k2 = add i32 %k, 1
  %more = icmp ult i32 %k2, 8
  br i1 %more, label %total, label %put
put:
  %po = getelementptr float, ptr addrspace(1) %out, i32 %c
  store float %sum2, ptr addrspace(1) %po
  br label %done
done:
  ret void
}}"""


def test_a_reduction_by_warps_and_shared_memory() -> None:
    x = np.random.default_rng(0).standard_normal(1024).astype("f4")
    out, most = np.zeros(4, "f4"), np.array([-np.inf], "f4")
    launch(load(compile_ir(_REDUCTION)), "k", [x, out, most], grid=4, block=256)
    lanes = x.reshape(-1, 32)
    for h in (16, 8, 4, 2, 1):
        lanes = lanes[:, :h] + lanes[:, h : 2 * h]
    warps = lanes.reshape(4, 8)
    total = np.zeros(4, "f4")
    for k in range(8):
        total = total + warps[:, k]
    assert_same(out, total)
    assert_same(most, warps.max().reshape(1))


def _atomic(operation: str, kind: str) -> str:
    return f"""{_INDICES}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr {kind}, ptr addrspace(1) %x, i32 %t
  %v = load {kind}, ptr addrspace(1) %px
  %s = and i32 %t, 3
  %po = getelementptr {kind}, ptr addrspace(1) %out, i32 %s
  %old = atomicrmw {operation} ptr addrspace(1) %po, {kind} %v syncscope("device") monotonic
  ret void
}}"""


_ATOMICS: Sequence[tuple[str, str, str, Any]] = [
    ("add", "i32", "i4", np.add),
    ("add", "i64", "i8", np.add),
    ("add", "i8", "i1", np.add),
    ("sub", "i16", "i2", np.subtract),
    ("max", "i32", "i4", np.maximum),
    ("umin", "i64", "u8", np.minimum),
    ("xor", "i32", "i4", np.bitwise_xor),
    ("fadd", "float", "f4", np.add),
    ("fadd", "double", "f8", np.add),
    ("fmin", "double", "f8", np.minimum),
    ("xchg", "i32", "i4", lambda a, b: b),
]


@pytest.mark.parametrize(("operation", "kind", "dtype", "oracle"), _ATOMICS)
def test_atomic_operations_of_llvm(operation: str, kind: str, dtype: str, oracle: Any) -> None:
    x = (np.random.default_rng(0).standard_normal(64) * 100).astype(dtype)
    out = np.ones(4, dtype)
    launch(load(compile_ir(_atomic(operation, kind))), "k", [x, out])
    wanted = np.ones(4, dtype)
    for i, v in enumerate(x):
        wanted[i % 4] = oracle(wanted[i % 4], v)
    assert_same(out, wanted)


def test_vectors_and_structures_by_value() -> None:
    text = compile_ir(f"""{_INDICES}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %out, ptr byval({{i64, float}}) align 8 %s) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr <4 x float>, ptr addrspace(1) %x, i32 %t
  %po = getelementptr <4 x float>, ptr addrspace(1) %out, i32 %t
  %v = load <4 x float>, ptr addrspace(1) %px, align 16
  %pf = getelementptr {{i64, float}}, ptr %s, i32 0, i32 1
  %f = load float, ptr %pf
  %n = load i64, ptr %s
  %g = sitofp i64 %n to float
  %h = fadd float %f, %g
  %i = insertelement <4 x float> poison, float %h, i32 0
  %j = shufflevector <4 x float> %i, <4 x float> poison, <4 x i32> zeroinitializer
  %w = fmul <4 x float> %v, %j
  store <4 x float> %w, ptr addrspace(1) %po, align 16
  ret void
}}""")
    assert "ld.global.v4" in text
    room = np.zeros(264, "f4")
    start = -room.ctypes.data % 16 // 4
    x = room[start : start + 128].reshape(32, 4)
    x[:] = np.random.default_rng(0).standard_normal((32, 4))
    other = np.zeros(264, "f4")
    start = -other.ctypes.data % 16 // 4
    out = other[start : start + 128].reshape(32, 4)
    given = np.array([(3, 0.5)], np.dtype("i8,f4", align=True))[0]
    launch(load(text), "k", [x, out, given], block=32)
    assert_same(out, x * np.float32(3.5))
