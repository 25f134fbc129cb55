"""`tj.native.kernel` and `from_file`: whole kernels in the languages of backends, against NumPy."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.vulkan.assembly import assemble
from tracejit.support.errors import (
    CompileError,
    DtypeError,
    LaunchError,
    OptionError,
    ShapeError,
    UnsupportedError,
    UserError,
)

pytestmark = pytest.mark.opencl

# 2 x - y and its negative: what the fallback gives has another sign, which tells what ran.
OPENCL = """
__kernel void scaled(__global const double* x, __global const double* y, __global double* p, __global double* q,
                     long n) {
    long i = get_global_id(0);
    if (i < n) { p[i] = 2 * x[i] - y[i]; q[i] = -p[i]; }
}
"""
LOOP = """
define void @scaled(ptr %x, ptr %y, ptr %p, ptr %q, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %xi = getelementptr double, ptr %x, i64 %i
  %yi = getelementptr double, ptr %y, i64 %i
  %pi = getelementptr double, ptr %p, i64 %i
  %qi = getelementptr double, ptr %q, i64 %i
  %a = load double, ptr %xi
  %b = load double, ptr %yi
  %c = fadd double %a, %a
  %d = fsub double %c, %b
  store double %d, ptr %pi
  %e = fneg double %d
  store double %e, ptr %qi
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
GRID = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @scaled(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %p, ptr addrspace(1) %q,
                               i64 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %g64 = mul i32 %g, 64
  %i32 = add i32 %g64, %t
  %i = sext i32 %i32 to i64
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %do, label %done
do:
  %xi = getelementptr double, ptr addrspace(1) %x, i64 %i
  %yi = getelementptr double, ptr addrspace(1) %y, i64 %i
  %pi = getelementptr double, ptr addrspace(1) %p, i64 %i
  %qi = getelementptr double, ptr addrspace(1) %q, i64 %i
  %a = load double, ptr addrspace(1) %xi
  %b = load double, ptr addrspace(1) %yi
  %c = fadd double %a, %a
  %d = fsub double %c, %b
  store double %d, ptr addrspace(1) %pi
  %e = fneg double %d
  store double %e, ptr addrspace(1) %qi
  br label %done
done:
  ret void
}
"""
SPIRV = """
OpCapability Shader
OpCapability VulkanMemoryModel
OpCapability PhysicalStorageBufferAddresses
OpCapability Int64
OpCapability Float64
OpMemoryModel PhysicalStorageBuffer64 Vulkan
OpEntryPoint GLCompute %scaled "scaled" %launch %WorkgroupId %LocalInvocationIndex
OpExecutionMode %scaled LocalSize 64 1 1
OpDecorate %WorkgroupId BuiltIn WorkgroupId
OpDecorate %LocalInvocationIndex BuiltIn LocalInvocationIndex
OpDecorate %Words ArrayStride 8
OpDecorate %Launch Block
OpMemberDecorate %Launch 0 Offset 0
%void = OpTypeVoid
%to_void = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%u32x3 = OpTypeVector %u32 3
%Input_u32x3 = OpTypePointer Input %u32x3
%WorkgroupId = OpVariable %Input_u32x3 Input
%Input_u32 = OpTypePointer Input %u32
%LocalInvocationIndex = OpVariable %Input_u32 Input
%c16 = OpConstant %u32 16
%u64 = OpTypeInt 64 0
%Words = OpTypeArray %u64 %c16
%Launch = OpTypeStruct %Words
%PushConstant_Launch = OpTypePointer PushConstant %Launch
%launch = OpVariable %PushConstant_Launch PushConstant
%PushConstant_u64 = OpTypePointer PushConstant %u64
%bool = OpTypeBool
%c0 = OpConstant %u32 0
%c2 = OpConstant %u32 2
%c3 = OpConstant %u32 3
%c4 = OpConstant %u32 4
%c5 = OpConstant %u32 5
%c6 = OpConstant %u32 6
%l64 = OpConstant %u64 64
%l8 = OpConstant %u64 8
%f64 = OpTypeFloat 64
%pointer = OpTypePointer PhysicalStorageBuffer %f64
%scaled = OpFunction %void None %to_void
%begin = OpLabel
%ids = OpLoad %u32x3 %WorkgroupId
%id = OpCompositeExtract %u32 %ids 0
%group = OpUConvert %u64 %id
%lane32 = OpLoad %u32 %LocalInvocationIndex
%lane = OpUConvert %u64 %lane32
%first = OpIMul %u64 %group %l64
%i = OpIAdd %u64 %first %lane
%nn = OpAccessChain %PushConstant_u64 %launch %c0 %c6
%n = OpLoad %u64 %nn
%inside = OpSLessThan %bool %i %n
OpSelectionMerge %done None
OpBranchConditional %inside %do %done
%do = OpLabel
%offset = OpIMul %u64 %i %l8
%xx = OpAccessChain %PushConstant_u64 %launch %c0 %c2
%yy = OpAccessChain %PushConstant_u64 %launch %c0 %c3
%pp = OpAccessChain %PushConstant_u64 %launch %c0 %c4
%qq = OpAccessChain %PushConstant_u64 %launch %c0 %c5
%x = OpLoad %u64 %xx
%y = OpLoad %u64 %yy
%p = OpLoad %u64 %pp
%q = OpLoad %u64 %qq
%xi = OpIAdd %u64 %x %offset
%yi = OpIAdd %u64 %y %offset
%pi = OpIAdd %u64 %p %offset
%qi = OpIAdd %u64 %q %offset
%xp = OpConvertUToPtr %pointer %xi
%yp = OpConvertUToPtr %pointer %yi
%pp2 = OpConvertUToPtr %pointer %pi
%qp2 = OpConvertUToPtr %pointer %qi
%a = OpLoad %f64 %xp Aligned 8
%b = OpLoad %f64 %yp Aligned 8
%c = OpFAdd %f64 %a %a
%d = OpFSub %f64 %c %b
%e = OpFNegate %f64 %d
OpStore %pp2 %d Aligned 8
OpStore %qp2 %e Aligned 8
OpBranch %done
%done = OpLabel
OpReturn
OpFunctionEnd
"""
SOURCES: dict[str, Any] = {
    "cpu": LOOP,
    "cuda": GRID,
    "opencl": OPENCL,
    "vulkan": assemble(SPIRV),
    "reference": lambda x, y: (2 * x - y, y - 2 * x),
}


def struct(x: Any) -> Any:
    return tj.ShapeDtypeStruct(x.shape, x.dtype)


def made(sources: Any = SOURCES, **options: Any) -> Any:
    given: dict[str, Any] = {
        "entry": "scaled",
        "out": lambda x, y: (x, struct(x)),
        "grid": lambda x, y: (x.size + 63) // 64,
        "block": 64,
        "sizes": lambda x, y: (x.size,),
    }
    return tj.native.kernel(sources, **{**given, **options})


def by_numpy(x: Any, y: Any) -> Any:
    return y - 2 * x, 2 * x - y  # with the other signs


def sign(backend: str) -> int:
    return 1 if backend in SOURCES else -1


RNG = np.random.default_rng(0)


def test_it_runs_among_others(backend: str):
    own = made(fallback=by_numpy)

    def f(x, y):
        p, q = own(x + 1, y)
        return p * 3, q - y

    compiled = tj.jit(f, backend=backend)
    for n in (1000, 7, 0, 1, 64, 65, 129):
        x, y = RNG.random(n), RNG.random(n)
        p, q = compiled(x, y)
        want = sign(backend) * (2 * (x + 1) - y)
        np.testing.assert_allclose(p, want * 3)
        np.testing.assert_allclose(q, -want - y)
    if backend in SOURCES:
        assert compiled.lower(x, y).text("program").count("run scaled") == 1


def test_operands_of_any_layout_and_rank(backend: str):
    own = made(fallback=by_numpy)
    compiled = tj.jit(lambda x, y: own(x, y)[0], backend=backend)
    x = RNG.random((6, 10))
    for a in (x, np.asfortranarray(x), x[::2, ::-1], x.T):
        b = RNG.random(a.shape)
        np.testing.assert_allclose(compiled(a, b), sign(backend) * (2 * a - b))


def test_in_loops_and_branches(backend: str):
    own = made(fallback=by_numpy)

    def f(x, n):
        y = x
        for _ in range(n):
            y = own(x, y)[0]
            if y.sum() > 100.0:
                break
        return y

    def plain(x, n):
        y = x
        for _ in range(n):
            y = sign(backend) * (2 * x - y)
            if y.sum() > 100.0:
                break
        return y

    compiled = tj.jit(f, backend=backend)
    x = RNG.random(70)
    for n in (0, 1, 5):
        np.testing.assert_allclose(compiled(x, n), plain(x, n))


def test_batches(backend: str):
    own = made(fallback=by_numpy)
    x, y = RNG.random((4, 70)), RNG.random((70, 4))
    f = tj.jit(tj.vmap(lambda x, y: own(x, y)[1], (0, 1)), backend=backend)
    np.testing.assert_allclose(f(x, y), sign(backend) * (y.T - 2 * x))
    shared = tj.jit(tj.vmap(tj.vmap(lambda x, y: own(x, y)[0], (0, None)), (None, 1)), backend=backend)
    np.testing.assert_allclose(shared(x, y), sign(backend) * (2 * x[None] - y.T[:, None]))


def test_a_rule_for_batches(backend: str):
    own = made(fallback=by_numpy)
    seen: list[Any] = []

    def rule(size: Any, batched: Any, x: Any, y: Any) -> Any:
        seen.append((size, batched))
        return own(x, np.broadcast_to(y, x.shape)), (True, True)

    assert own.def_batch(rule) is rule
    x, y = RNG.random((4, 70)), RNG.random(70)
    f = tj.jit(tj.vmap(lambda x, y: own(x, y)[0], (0, None)), backend=backend)
    np.testing.assert_allclose(f(x, y), sign(backend) * (2 * x - y))
    assert seen[0][1] == [True, False]


def test_derivatives(backend: str):
    x, y = RNG.random(70), RNG.random(70)
    own = made(fallback=by_numpy)
    f = tj.jit(tj.grad(lambda x, y: np.sum(own(x, y)[0] * x), (0, 1)), backend=backend)
    got = f(x, y)
    np.testing.assert_allclose(got[0], sign(backend) * (2 * x - y) - 2 * x)
    np.testing.assert_allclose(got[1], x)
    own.defjvp(lambda primals, tangents: (own(*primals), (7 * tangents[0], 0 * tangents[0])))
    g = tj.jit(tj.grad(lambda x: np.sum(own(x, y)[0])), backend=backend)
    np.testing.assert_allclose(g(x), np.full(70, 7.0))
    reverse = made()
    reverse.defvjp(lambda x, y: (reverse(x, y), y), lambda y, g: (g[0] * y, g[0] * 5))
    if backend in SOURCES:
        h = tj.jit(tj.grad(lambda x: np.sum(reverse(x, y)[0])), backend=backend)
        np.testing.assert_allclose(h(x), y)


@pytest.mark.parametrize("backend", ["cuda", "opencl", "vulkan"], indirect=True)
def test_arrays_stay_on_their_device(backend: str):
    own = made()
    f = tj.jit(lambda x, y: own(x, y)[0], backend=backend)
    x, y = (tj.device_put(RNG.random(100), backend) for _ in "xy")
    z = f(f(x, y), y)
    assert type(z) is tj.Array
    np.testing.assert_allclose(np.asarray(z), 2 * (2 * np.asarray(x) - np.asarray(y)) - np.asarray(y))


@pytest.mark.parametrize("backend", ["opencl"], indirect=True)
def test_a_kernel_of_another_number_of_parameters(backend: str):
    own = made(sizes=lambda x, y: (x.size, 3))
    x = RNG.random(100)
    with pytest.raises(LaunchError, match=r"scaled has 5 parameters, and was given 6 arguments: the arrays, results"):
        tj.jit(own, backend=backend)(x, x)
    np.testing.assert_allclose(tj.jit(made(), backend=backend)(x, 3 * x)[0], -x)


def test_functions_that_are_there():
    taken: list[int] = []

    def double(x: int, y: int, n: int) -> None:
        taken.append(n)
        a, b = [(ctypes.c_double * n).from_address(p) for p in (x, y)]
        b[:] = [2 * v for v in a]

    c = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(double)
    own = tj.native.kernel({"cpu": c}, entry="double", out=struct, sizes=lambda x: x.size)
    f = tj.jit(lambda x: own(x) + 1)
    np.testing.assert_array_equal(f(np.arange(5.0)), 2 * np.arange(5.0) + 1)
    assert taken == [5]


@pytest.mark.parametrize("backend", ["cpu", "cuda", "opencl", "vulkan"], indirect=True)
def test_files(tmp_path: Path, backend: str):
    texts = {"opencl": (".cl", OPENCL), "vulkan": (".spv", assemble(SPIRV)), "cpu": (".ll", LOOP)}
    if backend == "cuda":
        from tracejit.backends.cuda.ptx import to_ptx

        texts["cuda"] = (".ptx", to_ptx(GRID, "sm_70"))
    suffix, text = texts[backend]
    file = tmp_path / f"kernel{suffix}"
    file.write_bytes(text) if isinstance(text, bytes) else file.write_text(text)
    own = tj.native.from_file(
        file, "scaled", lambda x, y: (x.size + 63) // 64, 64, out=lambda x, y: (x, x), sizes=lambda x, y: x.size
    )
    x, y = RNG.random(100), RNG.random(100)
    np.testing.assert_allclose(tj.jit(own, backend=backend)(x, y)[0], 2 * x - y)


WRONG = {
    "cpu": "define void @scaled(ptr %x) { nonsense }",
    "opencl": "__kernel void scaled(__global double* x) { nonsense; }",
    "cuda": ".version 6.0\n.target sm_60\n.address_size 64\nnonsense",
    "vulkan": b"\0" * 64,
}


@pytest.mark.parametrize("backend", WRONG, indirect=True)
def test_a_wrong_source_says_so(backend: str):
    own = made({backend: WRONG[backend]})
    with pytest.raises(CompileError, match=r"source of scaled|no entry point|no SPIR-V"):
        tj.jit(own, backend=backend)(np.ones(3), np.ones(3))
    elsewhere = made({backend: SOURCES[backend]}, entry="other")
    with pytest.raises(CompileError, match="other"):
        tj.jit(elsewhere, backend=backend)(np.ones(3), np.ones(3))
    assert tj.jit(lambda x: x + 1, backend=backend)(np.ones(2)).tolist() == [2.0, 2.0]  # the next one works


def test_what_is_no_kernel():
    with pytest.raises(UserError, match="LLVM IR"):
        made({"cpu": 3})
    with pytest.raises(UserError, match="NumPy arrays"):
        made({"reference": "x"})
    with pytest.raises(UserError, match="runs no kernels of users"):
        made({"plain_c": "x"})
    with pytest.raises(OptionError, match="sources"):
        made({})
    with pytest.raises(OptionError, match="block"):
        made(block=0)
    with pytest.raises(OptionError, match="grid"):
        made(grid="x")
    with pytest.raises(UserError, match="suffix"):
        tj.native.from_file("kernel.txt", "f", out=struct)


def test_refused_by_name():
    x = np.ones(3)
    own = made({"reference": SOURCES["reference"]})
    with pytest.raises(UnsupportedError, match=r"no source for the cpu backend, only for reference"):
        tj.jit(own)(x, x)
    with pytest.raises(UnsupportedError, match="no derivative"):
        tj.jit(tj.grad(lambda x: own(x, x)[0].sum()), backend="reference")(x)
    np.testing.assert_array_equal(own(x, x)[0], x)
    with pytest.raises(UnsupportedError, match="called on NumPy arrays"):
        made({"cpu": LOOP})(x, x)
    with pytest.raises(UserError, match="out= of"):
        tj.jit(made(out=lambda x, y: 3))(x, x)
    with pytest.raises(UserError, match="sizes= of"):
        tj.jit(made(sizes=lambda x, y: 1.5))(x, x)
    with pytest.raises(ShapeError, match="fallback"):
        tj.jit(made({"opencl": OPENCL}, fallback=lambda x, y: (x[:2], x)))(x, x)
    with pytest.raises(DtypeError, match="fallback"):
        tj.jit(made({"opencl": OPENCL}, fallback=lambda x, y: (x, x > 1)))(x, x)
    with pytest.raises(ShapeError, match="results"):
        tj.jit(made({"opencl": OPENCL}, fallback=lambda x, y: x))(x, x)
