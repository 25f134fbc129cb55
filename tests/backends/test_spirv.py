"""SPIR-V as text and as words: what is printed is valid, for every kind of device, and assembled as it stands."""

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.backends import test_device_kernels as cases
from tests.backends.drivers import validated
from tests.backends.test_device_ops import cases as operations, one_kernel
from tests.backends.test_grid_random import SCHEDULES, Generator
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.backends.vulkan.assembly import INSTRUCTIONS, WORDS, assemble
from tracejit.backends.vulkan.module import Module
from tracejit.backends.vulkan.printer import print_kernels
from tracejit.backends.vulkan.target import Capabilities
from tracejit.ir.kernel import Kernel
from tracejit.ir.scalar import OPS
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import CompileError, UnsupportedError
from tracejit.support.nodes import evolve

NONE: frozenset[int] = frozenset()
DEVICES = {
    "all": Capabilities(),
    "no promises": Capabilities(preserve=NONE, nearest=NONE),
    "subnormals": Capabilities(denormals=frozenset({32, 64})),
    "nothing is exact": Capabilities(fused=NONE, divides=NONE, roots=NONE, whole=NONE, keeps=NONE, extends=False),
    "f32 by f64": Capabilities(fused=frozenset({64}), divides=frozenset({64}), roots=frozenset({64})),
}
TEXTS = [
    cases.BROADCAST, cases.SOFTMAX, cases.PACKED, cases.FULL_SUM, cases.COLUMN_SUM, cases.PRODUCT, cases.ARGMAX,
    cases.CUMSUM, cases.SMALL,
]  # fmt: skip


def text_of(kernel: Kernel, schedule: GridSchedule | None = None, have: Capabilities | None = None) -> str:
    launches = [(a.kernel, a.work_group) for a in bind_grid(kernel, schedule).launches]
    return print_kernels(launches, have or Capabilities()).source


@pytest.mark.parametrize("have", DEVICES.values(), ids=list(DEVICES))
def test_kernels_are_valid_for_every_kind_of_device(have: Capabilities):
    for text in TEXTS:
        for rows in ("item", "group"):
            validated(text_of(parse_kernel(text), GridSchedule(rows=rows, work_group=32), have))
    validated(text_of(one_kernel(operations()), have=have))


def mathematical(dtype: str) -> Kernel:
    """Every mathematical function of a dtype, and those operations that devices may not have."""
    body = "".join(
        f"%r{n} = {name} {' '.join(['%a', '%b', '%a'][: op.arity])}; store y[{n}, %i] = %r{n}; "
        for n, (name, op) in enumerate(OPS.items())
        if op.math or name in ("fma", "div", "sqrt", "roundeven")
    )
    return parse_kernel(f"""
    kernel f(x: {dtype}[9] C, y: {dtype}[{len(OPS)}, 9] C out) {{
      for %i in 0..9 {{ %a = load x[%i]; %b = load x[0]; {body} }}
    }}""")


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_every_mathematical_function_is_valid(dtype: str):
    for have in DEVICES.values():
        validated(text_of(mathematical(dtype), have=have))


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_a_device_without_f64_computes_narrower_floats_without_it(dtype: str):
    for have in (Capabilities(f64=False), evolve(DEVICES["nothing is exact"], f64=False)):
        source = text_of(mathematical(dtype), have=have)
        assert "Float64" not in validated(source)
        printed = print_kernels([(mathematical(dtype), 1)], have)
        assert "f64" not in printed.uses


def test_random_kernels_are_valid():
    for seed in range(12):
        for schedule in SCHEDULES:
            validated(text_of(Generator(seed).kernel(), schedule))


@pytest.mark.skipif(not shutil.which("spirv-val"), reason="spirv-tools are not installed")
def test_the_validator_is_asked():
    with pytest.raises(AssertionError, match="MemoryModel"):
        validated("OpCapability Shader")


@pytest.mark.skipif(not shutil.which("spirv-as"), reason="spirv-tools are not installed")
def test_words_are_those_of_the_assembler_of_the_standard(tmp_path: Path):
    for text in TEXTS:
        source = text_of(parse_kernel(text), have=DEVICES["nothing is exact"])
        (tmp_path / "text").write_text(source)
        command = ["spirv-as", "--target-env", "vulkan1.2", str(tmp_path / "text"), "-o", str(tmp_path / "words")]
        subprocess.run(command, check=True)
        theirs, ours = (tmp_path / "words").read_bytes(), assemble(source)
        assert ours[20:] == theirs[20:]  # the head names the program that made it
        assert ours[12:16] == theirs[12:16]  # how many ids there are


def test_equal_kernels_give_equal_text_and_declare_once():
    source = text_of(parse_kernel(cases.SOFTMAX))
    assert source == text_of(parse_kernel(cases.SOFTMAX))
    declared = [line.split(" = ")[1] for line in source.splitlines() if " = OpType" in line or " = OpConstant" in line]
    assert len(declared) == len(set(declared)) > 10


def test_a_kernel_names_only_what_it_uses():
    plain = text_of(parse_kernel("kernel f(x: f32[9] C out) { for %i in 0..9 { store x[%i] = 1.0:f32 } }"))
    assert "Int64" in plain  # addresses
    for name in ("Float64", "Int8", "Int16", "8Bit", "16Bit", "Atomics", "Workgroup "):
        assert name not in plain
    bytes_ = text_of(parse_kernel("kernel f(x: bool[9] C out) { for %i in 0..9 { %m = lt %i 3; store x[%i] = %m } }"))
    assert "OpCapability Int8\n" in bytes_
    assert "OpCapability StorageBuffer8BitAccess\n" in bytes_


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_constants_are_exact(dtype: str):
    info = np.finfo({"f32": "f4", "f64": "f8"}[dtype])
    rng = np.random.default_rng(5)
    values = [0.0, -0.0, 1.0, -1 / 3, np.inf, -np.inf, info.max, info.tiny, info.smallest_subnormal, -info.tiny / 2]
    values += list(rng.integers(0, 256, 800, np.uint8).view(info.dtype))
    module = Module(Capabilities())
    wanted = [info.dtype.type(v) for v in values]
    for v in wanted:
        module.constant(v, dtype)
    words = assemble("\n".join(line for line in module.text().splitlines() if "OpConstant" in line or "Float" in line))
    found: set[bytes] = set()
    at = 20
    while at < len(words):
        head = struct.unpack_from("<I", words, at)[0]
        if head & 0xFFFF == INSTRUCTIONS["OpConstant"][0]:
            found.add(words[at + 12 : at + 4 * (head >> 16)])
        at += 4 * (head >> 16)
    assert found == {v.tobytes() for v in wanted}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("%1 = OpFoo %2", "line 1 of the SPIR-V text: OpFoo is no instruction that there is here"),
        ("\nOpIAdd %1 %2", "line 2 of the SPIR-V text: OpIAdd has a result and its type"),
        ("%1 = OpStore %2 %3", "OpStore has no result"),
        ("OpCapability Magic", "Magic is no word that there is here"),
        ("OpStore %1 %2 Aligned|Fast 4", "Fast is no word that there is here"),
        ("%f32 = OpTypeFloat 32\n%1 = OpConstant %f32 one", "line 2 of the SPIR-V text: one is no number"),
        ("%1 = OpConstant %f32 0x1p0", "a constant is one number, of a type that stands above"),
        ("%1 = OpFAdd f32 %2 %3", "f32 stands where an id should, %name"),
        ("%1 = OpExtInst %f32 %glsl Sinus %2", "Sinus is no word that there is here"),
    ],
)
def test_a_text_that_is_none_is_refused_with_its_line(text: str, fault: str):
    with pytest.raises(CompileError) as caught:
        assemble(text)
    assert fault in caught.value.message
    assert caught.value.source == text


def test_remarks_and_blank_lines_mean_nothing():
    assert assemble("; a remark\n\n   OpCapability Shader\n") == assemble("OpCapability Shader")
    assert WORDS["Shader"] == 1


@pytest.mark.parametrize(
    ("text", "have", "fault"),
    [
        ("atomic add x[0] %a", Capabilities(atomics64=False), "no atomic add of f64 in global memory"),
        ("alloc y: f64[n] C local", Capabilities(), "needs a constant shape"),
        ("alloc y: f64[5000] C shared; store y[0] = %a", Capabilities(), "40000 bytes of shared memory, and has 32768"),
    ],
)
def test_what_a_device_cannot_do_is_refused_by_name(text: str, have: Capabilities, fault: str):
    kernel = parse_kernel(f"kernel f(x: f64[n] C out) dims(n) {{ for %i in 0..n grid {{ %a = load x[%i]; {text} }} }}")
    with pytest.raises(UnsupportedError, match=fault):
        text_of(kernel, have=have)


def test_what_a_device_lacks_says_what_to_do():
    lacks = Capabilities(f64=False, int8=False, storage16=False).lacks("Some GPU")
    assert lacks["f64"] == "Some GPU has no f64 (shaderFloat64); use f32 arrays on this device"
    assert set(lacks) == {"f64", "i8", "u8", "i16", "u16", "f16"}
    assert not Capabilities().lacks("Some GPU")
