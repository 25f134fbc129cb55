"""What is OpenCL's own: its words, its compiler, its spellings."""

from typing import Any

import numpy as np
import pytest

from tests.backends.test_device_kernels import normal, run
from tracejit.backends.c_like import print_kernels
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.backends.opencl import runtime, target
from tracejit.backends.opencl.runtime import OpenCLDevice
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import CompileError, UnsupportedError

pytestmark = pytest.mark.opencl


@pytest.fixture
def device(opencl_device: Any) -> OpenCLDevice:
    return opencl_device


def test_the_compiler_of_a_gpu_is_told_how_large_groups_are():
    text = "kernel f(y: f32[100] C out) { for %i in 0..100 { store y[%i] = 1.0:f32 } }"
    (launch,) = bind_grid(parse_kernel(text), GridSchedule(work_group=64, groups=1)).launches
    for software, said in (
        (False, "__attribute__((reqd_work_group_size(64, 1, 1)))\n__kernel void"),
        (True, "\n__kernel void"),
    ):
        words = target.Capabilities(software=software)
        source = print_kernels([(launch.kernel, 64)], target.dialect(words), target.intrinsics(words)).source
        assert said in source
        assert ("reqd" in source) is not software


def test_a_kernel_in_f64_is_refused_where_the_device_has_none(device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "capabilities", target.Capabilities(fp64=False))
    with pytest.raises(UnsupportedError, match=r"no f64 \(cl_khr_fp64\), which is needed by f"):
        device.compile_kernel(
            parse_kernel(
                "kernel f(x: f64[3] C, out: f64[3] C out) { for %i in 0..3 { %v = load x[%i]; store out[%i] = %v } }"
            )
        )


def test_the_driver_compilers_complaint_comes_with_source_and_log(device: OpenCLDevice):
    with pytest.raises(CompileError, match="undeclared") as caught:
        device.build("__kernel void f(__global int* x) { x[0] = nothing; }")
    assert "nothing" in caught.value.source
    assert "nothing" in caught.value.log


def test_an_intrinsic_of_the_user_is_what_the_code_calls(device: OpenCLDevice):
    table = target.intrinsics(device.capabilities)
    table.define_helper("half_it", "static inline float half_it(float x) { return x * 0.5f; }")
    table.define("exp.f32", "half_it({0})", "half_it")
    text = """
    kernel f(x: f32[5] C, out: f32[5] C out) {
      for %i in 0..5 { %v = load x[%i]; %e = exp %v; store out[%i] = %e }
    }"""
    x = normal(5)
    before, device.intrinsics = device.intrinsics, table
    try:
        out = run(device, text, x=x)
    finally:
        device.intrinsics = before
    assert np.array_equal(out, x * np.float32(0.5))


def test_devices_are_opened_once(device: OpenCLDevice):
    assert runtime.unavailable_reason() is None
    assert runtime.devices()[0] is device
