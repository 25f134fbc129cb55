"""What is Vulkan's own: its limits, what its devices promise of floats, its memory and queue, its errors."""

import gc
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.test_device_kernels import CUMSUM, normal, run
from tests.backends.test_device_ops import exact_fma
from tracejit.backends.device.backend import named_device
from tracejit.backends.device.program import DeviceProgram
from tracejit.backends.grid import GridSchedule
from tracejit.backends.intrinsics import unregister_intrinsic
from tracejit.backends.registry import get_backend
from tracejit.backends.vulkan import driver, runtime
from tracejit.backends.vulkan.driver import VulkanError
from tracejit.backends.vulkan.formulas import formula
from tracejit.backends.vulkan.runtime import VulkanDevice
from tracejit.backends.vulkan.trial import found_to_be_so
from tracejit.ir.kernel import Buffer, For, Kernel, Load, Store, Value, index_const
from tracejit.ir.scalar import OPS, numpy_dtype
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import BackendUnavailable, CompileError, LaunchError, OutOfMemory, UnsupportedError
from tracejit.support.nodes import evolve

pytestmark = pytest.mark.vulkan
NONE: frozenset[int] = frozenset()


@pytest.fixture
def device(vulkan_device: Any) -> VulkanDevice:
    return vulkan_device


@pytest.fixture
def having(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> Callable[..., VulkanDevice]:
    """The device with other capabilities."""

    def change(**fields: Any) -> VulkanDevice:
        monkeypatch.setattr(device, "capabilities", evolve(device.capabilities, **fields))
        return device

    return change


def elementwise(body: str, n: int, d: str = "f32") -> str:
    """A kernel `out = body(x, y, z)`."""
    return f"""
    kernel f(x: {d}[{n}] C, y: {d}[{n}] C, z: {d}[{n}] C, out: {d}[{n}] C out) {{
      for %i in 0..{n} {{ %a = load x[%i]; %b = load y[%i]; %c = load z[%i]; {body}; store out[%i] = %r }}
    }}"""


# -- launches


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
def test_more_groups_than_an_axis_takes_lie_in_two_dimensions(having: Callable[..., VulkanDevice], limit: int):
    device, schedule = having(groups=limit), GridSchedule(work_group=8)
    x = normal(8 * 19 + 5)
    text = elementwise("%s = add %a %b; %r = mul %s %c", len(x))
    assert np.array_equal(run(device, text, schedule, x=x, y=x, z=x), (x + x) * x)
    sums = np.random.default_rng(2).integers(-9, 10, 2000).astype("f4")
    out, last = run(device, CUMSUM, evolve(schedule, shares=100, in_order=50), {"n": 2000}, x=sums)
    assert np.array_equal(out, np.cumsum(sums))
    assert last == sums.sum()


def test_loops_with_bounds_that_depend_on_data_stride_over_two_dimensions_too(having: Callable[..., VulkanDevice]):
    text = """
    kernel fill(at: i64[] C, out: i64[5000] C out) {
      %n = load at[]
      for %i in 0..%n { store out[%i] = %i }
    }"""
    out = run(
        having(groups=5), text, GridSchedule(work_group=8, items=8 * 17), at=np.array(4000), out=np.zeros(5000, int)
    )
    assert np.array_equal(out, np.where(np.arange(5000) < 4000, np.arange(5000), 0))


def test_any_number_of_arguments(device: VulkanDevice):
    for count in (1, 12, 13, 14, 40):
        buffers = ", ".join(f"x{n}: f32[9] strided" for n in range(count))
        body = "".join(f"%a{n} = load x{n}[%i]; %s{n + 1} = add %s{n} %a{n}; " for n in range(count))
        text = f"""
        kernel many({buffers}, out: f32[m] C out) dims(m) {{
          for %i in 0..9 {{ %s0 = mul 1.0:f32 2.0:f32; {body} store out[%i] = %s{count} }}
        }}"""
        arrays = {f"x{n}": np.arange(18, dtype="f4")[::2] + n for n in range(count)}
        out = run(device, text, None, {"m": 9}, **arrays)
        assert np.array_equal(out, 2 + sum(arrays.values()))


def test_launches_from_several_threads_do_not_mix(device: VulkanDevice):
    text = "kernel inc(x: i64[500] C out) { for %i in 0..500 { %v = load x[%i]; %w = add %v 1; store x[%i] = %w } }"
    results: list[bool] = []

    def work(start: int) -> None:
        compiled, x = device.compile_kernel(parse_kernel(text)), device.from_host(np.full(500, start))
        for _ in range(40):
            compiled.launch([x])
        results.append(bool((device.to_host(x, "i8", (500,)) == start + 40).all()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4


# -- memory


def test_memory_that_is_given_up_lasts_until_what_was_enqueued_is_done(device: VulkanDevice):
    text = "kernel twice(x: i64[n] C, y: i64[n] C out) dims(n) { for %i in 0..n { %v = load x[%i]; %w = add %v %v; "
    compiled = device.compile_kernel(parse_kernel(text + "store y[%i] = %w } }"))
    for n in range(1000, 1020):
        x = device.from_host(np.arange(n))
        for _ in range(5):
            y = device.alloc(8 * n)
            compiled.launch([x, y], {"n": n})
            x = y
            device.pool.trim()
        assert np.array_equal(device.to_host(x, "i8", (n,)), np.arange(n) * 32)


def test_what_is_given_up_is_destroyed(device: VulkanDevice):
    compiled = device.compile_kernel(parse_kernel(elementwise("%r = add %a %b", 9)))
    buffers = [device.from_host(normal(9)) for _ in range(3)] + [device.alloc(36)]
    compiled.launch(buffers)
    del compiled, buffers
    gc.collect()
    device.pool.trim()
    device.synchronize()
    assert not device.queue._given_up


def test_a_write_to_memory_in_use_waits_for_nobody_and_spoils_nothing(device: VulkanDevice):
    text = (
        "kernel add(x: i64[9] C, y: i64[9] C out) { for %i in 0..9 { %a = load x[%i]; %b = load y[%i]; %c = add %a %b; "
    )
    compiled = device.compile_kernel(parse_kernel(text + "store y[%i] = %c } }"))
    x, y = device.from_host(np.zeros(9, int)), device.from_host(np.zeros(9, int))
    for n in range(100):
        device.write(x.memory.raw, np.full(9, n))
        compiled.launch([x, y])
    assert (device.to_host(y, "i8", (9,)) == 4950).all()


def test_a_device_with_memory_of_its_own(device: VulkanDevice):
    """Data go through memory that the host sees, piece by piece."""
    apart = VulkanDevice(device.found, staged=True)
    raw = apart.create(64)
    assert raw.view is None
    big = np.random.default_rng(1).random(2_500_000)  # of several pieces
    there = apart.from_host(big)
    assert np.array_equal(apart.to_host(there, "f8", big.shape), big)
    out, last = run(apart, CUMSUM, None, {"n": 5000}, x=np.ones(5000, "f4"))
    assert np.array_equal(out, np.arange(1, 5001))
    assert last == 5000
    with pytest.raises(LaunchError, match="lies on "):
        apart.compile_kernel(parse_kernel(CUMSUM)).launch([device.alloc(4)] * 3, {"n": 1})


# -- floats


def test_what_the_trial_finds_is_so(having: Callable[..., VulkanDevice], device: VulkanDevice):
    have, every = device.capabilities, frozenset({32, 64})
    names = ("fused", "divides", "roots", "whole", "keeps")
    found = found_to_be_so(having(**dict.fromkeys(names, every), extends=True))
    assert found == {name: getattr(have, name) for name in (*names, "extends")}
    if "llvmpipe" in device.name:  # as `trial` says; newer ones may be better
        assert have.divides == have.roots == every
        assert 32 in have.whole


VALUES = [0.0, -0.0, 1.0, -1.0, 3.0, 1 / 3, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(("dtype", "kernel_dtype"), [("f4", "f32"), ("f8", "f64")])
def test_fma_without_an_instruction_is_exact(having: Callable[..., VulkanDevice], dtype: str, kernel_dtype: str):
    info = np.finfo(dtype)
    edges = np.array([*VALUES, info.max, info.tiny, info.smallest_subnormal, -info.tiny / 3, 2.0**-40, 2.0**60], dtype)
    x, y, z = (np.array(column) for column in zip(*itertools.product(edges, repeat=3), strict=True))
    rng = np.random.default_rng(3)
    bits = [rng.integers(0, 256, 4000 * info.dtype.itemsize, np.uint8).view(dtype) for _ in range(3)]
    near = rng.integers(-3, 4, 4000) + rng.integers(-9, 9, 4000)
    with np.errstate(all="ignore"):
        bits[2][:2000] = (-(bits[0] * bits[1]) * np.exp2(near).astype(dtype))[:2000]  # of the size of the product
        low = np.ldexp(rng.standard_normal((3, 4000)), [[info.minexp // 2], [info.minexp // 2], [info.minexp]]).astype(
            dtype
        )
    x, y, z = (np.concatenate(parts) for parts in zip((x, y, z), bits, low, strict=True))
    wide = [True, False] if dtype == "f4" else [True]
    if dtype == "f4":
        want = OPS["fma"].impl(info.dtype, x, y, z)
    else:
        want = np.array([exact_fma(*map(float, row)) for row in zip(x, y, z, strict=True)])
    for f64 in wide:
        device = having(fused=NONE, f64=f64)
        got = run(device, elementwise("%r = fma %a %b %c", len(x), kernel_dtype), x=x, y=y, z=z)
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
        at = np.flatnonzero(wrong)[:3]
        assert not wrong.any(), [(x[n], y[n], z[n], got[n], want[n]) for n in at]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("exact", [None, NONE, frozenset({64})], ids=["device", "none", "f64"])
def test_quotients_and_roots_are_rounded_once(having: Callable[..., VulkanDevice], dtype: str, exact: Any):
    """By the device's instructions as far as they are exact, by way of f64, and by correction."""
    device, kind = having(), {"f2": "f16", "f4": "f32", "f8": "f64"}[dtype]
    if exact is not None:
        having(divides=exact, roots=exact)
    info = np.finfo(dtype)
    edges = np.array([*VALUES, info.max, info.tiny, info.smallest_subnormal, -info.tiny / 3, 4 - 2 * info.eps], dtype)
    x, y = (np.array(column) for column in zip(*itertools.product(edges, repeat=2), strict=True))
    bits = np.random.default_rng(1).integers(0, 256, (2, 20_000 * info.dtype.itemsize), np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        small = bits[1] * info.dtype.type(info.tiny)  # quotients of the size of subnormal numbers
        x, y = np.concatenate([x, bits[0], small, x * y]), np.concatenate([y, bits[1], bits[1][::-1], y])
        for op, want in (("div %a %b", x / y), ("sqrt %a", np.sqrt(x))):
            got = run(device, elementwise(f"%r = {op}", len(x), kind), x=x, y=y, z=y)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_correction_is_right_for_guesses_that_are_off(device: VulkanDevice, dtype: str):
    """No device at hand divides inexactly: here the guesses come from outside."""
    kind = numpy_dtype(dtype)
    eps, rng = np.finfo(kind).eps, np.random.default_rng(4)
    x, y = (rng.uniform(1, 2, 5000).astype(kind) for _ in range(2))
    x[::3] = (y * rng.uniform(0.7, 1.4, 5000).astype(kind))[::3]  # quotients that are near numbers of the format
    x[x < 1] = (y * (1 + eps))[x < 1]  # significands are of [1, 2)
    x[x >= 2] /= 2
    off = [1 + eps * rng.integers(-3, 4, 5000).astype(kind) for _ in range(2)]
    quotient = [x, y, (x / y * off[0]).astype(kind), (1 / y * off[1]).astype(kind), x / y]
    np.testing.assert_array_equal(applied(device, "tj_quotient_" + dtype, quotient), x / y)
    root = [x, (np.sqrt(x) * off[0]).astype(kind), (0.5 / np.sqrt(x) * off[1]).astype(kind)]
    np.testing.assert_array_equal(applied(device, "tj_root_" + dtype, root), np.sqrt(x))


def applied(device: VulkanDevice, name: str, arguments: list[np.ndarray]) -> np.ndarray:
    """A formula of arrays."""
    body, n = formula(name), len(arguments[0])
    dtype, index = body.params[0].dtype, Value("i64")
    inputs = [Buffer(f"x{k}", dtype, (n,)) for k in range(len(arguments))]
    out = Buffer("out", dtype, (n,))
    loads = [Load(p, b, (index,)) for p, b in zip(body.params, inputs, strict=True)]
    loop = For(index, index_const(0), index_const(n), (*loads, *body.body, Store(out, (index,), body.results[0])))
    kernel = Kernel("f", (*inputs, out), frozenset({"out"}), (loop,))
    result = device.alloc(arguments[0].nbytes)
    device.compile_kernel(kernel).launch([*map(device.from_host, arguments), result])
    return device.to_host(result, arguments[0].dtype, (n,))


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_zeros_infinities_and_nan_are_what_they_are(device: VulkanDevice, dtype: str):
    """Compilers that take x + 0, x * 0 and x - x for what they are in the algebra of real numbers are not followed."""
    kind = {"f16": "f2", "f32": "f4", "f64": "f8"}[dtype]
    x = np.array(VALUES, kind)
    bodies: dict[str, Callable[[Any], Any]] = {
        f"%r = add %a 0.0:{dtype}": lambda x: x + 0,
        f"%r = add -0.0:{dtype} %a": lambda x: x - 0,
        f"%r = sub 0.0:{dtype} %a": lambda x: 0 - x,
        f"%r = mul %a 0.0:{dtype}": lambda x: x * 0,
        f"%r = div 0.0:{dtype} %a": lambda x: 0 / x,
        f"%r = div %a 0.0:{dtype}": lambda x: x / kind_zero(x),
        "%r = sub %a %a": lambda x: x - x,
        "%r = div %a %a": lambda x: x / x,
        f"%n = neg %a; %m = mul %n 0.0:{dtype}; %r = neg %m": lambda x: -(-x * 0),
        f"%o = sub 1.0:{dtype} 1.0:{dtype}; %r = mul %a %o": lambda x: x * 0,
        f"%l = lt %a 5.0:{dtype}; %o = select %l 0.0:{dtype} 0.0:{dtype}; %r = add %a %o": lambda x: x + 0,
        f"""%r = for %k in 0..3 carry(%s = 1.0:{dtype}) {{
              %t = sub %s 1.0:{dtype}; %u = mul %a %t; %f: {dtype} = convert %k; %v = mul %a %f; %w = mul %f %s
              %p = add %u %v; %q = sub %p %w; yield %q
            }}""": three_rounds,
    }  # fmt: skip
    for body, function in bodies.items():
        with np.errstate(all="ignore"):
            want = np.asarray(function(x)).astype(kind)
            got = run(device, elementwise(body, len(x), dtype), x=x, y=x, z=x)
        np.testing.assert_array_equal(got, want, err_msg=body)
        np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)], body)


def kind_zero(x: Any) -> Any:
    return x.dtype.type(0)


def three_rounds(x: Any) -> Any:
    s = np.ones_like(x)
    for k in range(3):
        s = (x * (s - 1) + x * x.dtype.type(k)) - x.dtype.type(k) * s
    return s


@pytest.mark.parametrize("op", ["floor", "ceil", "trunc", "roundeven"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rounding_to_integers_without_an_instruction(having: Callable[..., VulkanDevice], op: str, dtype: str):
    kind = {"f32": "f4", "f64": "f8"}[dtype]
    x = np.concatenate([np.arange(-40, 40) / 4, VALUES, [2.0**k + 0.5 for k in range(60)], [0.49999999999999994]])
    x = np.concatenate([x, -x, np.random.default_rng(1).integers(0, 256, 8 * 500, np.uint8).view("f8")])
    with np.errstate(all="ignore"):
        x = x.astype(kind)
        got = run(having(whole=NONE), elementwise(f"%r = {op} %a", len(x), dtype), x=x, y=x, z=x)
        want = OPS[op].impl(x.dtype, x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(x)], np.signbit(want)[~np.isnan(x)])


# -- code


def test_the_text_that_runs_may_be_edited(device: VulkanDevice):
    kernel = parse_kernel(elementwise("%r = add %a 2.0:f32", 9))
    (compiled,) = device.compile_kernels([kernel], edited=lambda text: text.replace("OpFAdd", "OpFMul"))
    assert "OpFMul" in compiled.source
    out, x = device.alloc(36), device.from_host(normal(9))
    compiled.launch([x, x, x, out])
    assert np.array_equal(device.to_host(out, "f4", (9,)), normal(9) * 2)


def test_a_text_that_is_none_is_a_compile_error(device: VulkanDevice):
    with pytest.raises(CompileError, match="OpNothing is no instruction") as caught:
        device.compile_kernels([parse_kernel(CUMSUM)], edited=lambda text: f"{text}OpNothing\n")
    assert "OpNothing" in caught.value.source


def test_the_text_and_what_it_became(device: VulkanDevice):
    lowered = tj.jit(lambda x: x + 1, backend="vulkan").lower(np.ones(9, "f4"))
    assert "OpEntryPoint GLCompute" in lowered.text("code")
    assert lowered.text("asm").endswith(f"bytes of SPIR-V for {device.name}")


def test_an_intrinsic_of_the_user_is_what_the_code_holds(device: VulkanDevice):
    tj.register_intrinsic(
        "exp", "half = OpFMul {type} {0} {0}\nOpFSub {type} {half} {0}", backend="vulkan", dtypes="f32"
    )
    try:
        x = normal(5)
        text = elementwise("%r = exp %a", 5)
        assert np.array_equal(run(device, text, x=x, y=x, z=x), x * x - x)
    finally:
        unregister_intrinsic("exp", backend="vulkan")


# -- errors


def test_a_kernel_in_f64_is_refused_where_the_device_has_none(having: Callable[..., VulkanDevice]):
    device = having(f64=False)
    with pytest.raises(UnsupportedError, match=r"no f64 \(shaderFloat64\), which is needed by f"):
        device.compile_kernel(parse_kernel(elementwise("%r = add %a %b", 9, "f64")))
    assert "f64" in device.lacks()


def test_a_lost_device_is_named(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(VulkanError, match="vkQueueSubmit: VK_ERROR_DEVICE_LOST"):
        device.vulkan.check("vkQueueSubmit", -4)

    def lost() -> None:
        device.vulkan.check("vkWaitSemaphores", -4)

    monkeypatch.setattr(device, "finish", lost)
    with pytest.raises(LaunchError, match="failed: vkWaitSemaphores: VK_ERROR_DEVICE_LOST"):
        device.synchronize()


def test_no_memory_left_says_how_much_was_asked(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    def full(nbytes: int) -> Any:
        device.vulkan.check("vkAllocateMemory", -2)

    monkeypatch.setattr(device.pool, "_create", full)
    with pytest.raises(OutOfMemory, match="vkAllocateMemory: there is not enough device memory") as caught:
        device.alloc(123_456_789)
    assert caught.value.requested == 123_456_789


def test_devices_are_opened_once_and_chosen_by_number_or_name(device: VulkanDevice):
    assert runtime.unavailable_reason() is None
    assert runtime.devices()[0] is device
    found = runtime.devices()
    assert named_device("", found, "") is named_device("0", found, "") is device
    assert named_device(device.name[:5].lower(), found, "") is device
    with pytest.raises(BackendUnavailable, match=r"TRACEJIT_VULKAN_DEVICE=99 names no device; there are 0: "):
        named_device("99", found, "TRACEJIT_VULKAN_DEVICE")
    target = get_backend("vulkan").target()
    assert target.device == device.name
    assert target.driver


ROOT = Path(__file__).resolve().parents[2]


def python(source: str, environment: dict[str, str]) -> tuple[int, str, str]:
    """(exit status, output, errors) of a program of its own."""
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, check=False)
    return done.returncode, done.stdout, done.stderr


IMPORT = """
import builtins
real = builtins.__import__
def load(name, *rest):
    if name == "vulkan":
        raise {error}
    return real(name, *rest)
builtins.__import__ = load
"""
NO_DRIVER = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}


@pytest.mark.parametrize(
    ("before", "environment", "said"),
    [
        (
            IMPORT.format(error="ImportError('no vulkan')"),
            {},
            "needs the package vulkan: pip install 'tracejit[vulkan]'",
        ),
        (IMPORT.format(error="OSError('no SDK')"), {}, "needs the Vulkan loader: install a vendor's driver"),
        ("", NO_DRIVER, "there is no Vulkan driver: install a vendor's driver"),
    ],
    ids=["package", "loader", "driver"],
)
def test_what_is_missing_is_a_reason_with_a_remedy(before: str, environment: dict[str, str], said: str):
    source = f"{before}\nfrom tracejit.backends.registry import backend_reason; print(backend_reason('vulkan'))"
    status, output, errors = python(source, environment)
    assert (status, errors) == (0, "")
    assert said in output
    assert "pip install" in output or "apt install libvulkan1 mesa-vulkan-drivers" in output


def test_an_old_loader_is_a_reason(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver, "_NEWEST", ("vkGetBufferDeviceAddress", "vkOfTomorrow"))
    with pytest.raises(BackendUnavailable, match=r"older than version 1.2 \(it has no vkOfTomorrow\)"):
        driver.Vulkan()


LAYER = Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")


@pytest.mark.skipif(not LAYER.exists(), reason="vulkan-validationlayers are not installed")
def test_the_validation_layer_has_no_complaint(device: VulkanDevice):
    source = """
import numpy as np, tracejit as tj
from tracejit.backends.vulkan.formulas import formula
from tracejit.backends.vulkan.runtime import VulkanDevice, devices
x = np.arange(30000, dtype=np.float32) * 1e-5
for f in (lambda x: x + 1, lambda x: np.exp(x).sum(), np.cumsum, lambda x: x.reshape(100, 300) @ x.reshape(300, 100)):
    np.testing.assert_allclose(tj.jit(f, backend="vulkan")(x), f(x), rtol=1e-3)
apart = VulkanDevice(devices()[0].found, staged=True)
there, here = apart.from_host(x), apart.alloc(x.nbytes)
apart.copy(there, here)
assert np.array_equal(apart.to_host(here, np.float32, x.shape), x)
"""
    assert python(source, {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}) == (0, "", "")


def test_programs_are_for_one_device(device: VulkanDevice):
    lowered = tj.jit(lambda x: x * 2, backend="vulkan").lower(np.ones(3))
    program = DeviceProgram(lowered.program, device)
    assert np.array_equal(program.run([np.ones(3)], {})[0], np.full(3, 2.0))
