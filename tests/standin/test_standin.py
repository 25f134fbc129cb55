"""The driver as pycuda and cuda-bindings see it.  Each test is a process of its own, which keeps the driver."""

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.standin.build import build_cuda, default_folder

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 4 .u32 scale[2] = {3, 5};

.visible .entry axpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
    .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r0, %r1, %r2, %r0;
    ld.param.u32 %r3, [n];
    setp.ge.u32 %p0, %r0, %r3;
    @%p0 bra $done;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    mul.wide.u32 %d2, %r0, 4;
    add.u64 %d0, %d0, %d2;
    add.u64 %d1, %d1, %d2;
    ld.global.f32 %f0, [%d0];
    ld.global.f32 %f1, [%d1];
    ld.param.f32 %f2, [a];
    fma.rn.f32 %f1, %f2, %f0, %f1;
    st.global.f32 [%d1], %f1;
$done:
    ret;
}

.visible .entry scaled(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d0, %r0, 4;
    mov.u64 %d1, scale;
    add.u64 %d1, %d1, %d0;
    ld.global.u32 %r1, [%d1];
    ld.param.u64 %d2, [out];
    add.u64 %d2, %d2, %d0;
    st.global.u32 [%d2], %r1;
    ret;
}

.visible .entry dynamic(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %d<2>;
    mov.u32 %r0, %dynamic_smem_size;
    ld.param.u64 %d0, [out];
    st.global.u32 [%d0], %r0;
    ret;
}
"""

BEGIN = f"""
import ctypes, struct, sys
import numpy as np
from tests.standin.cuda import install
standin = install()
KERNELS = {KERNELS!r}
"""

PYCUDA = (
    BEGIN
    + """
import atexit
import pycuda.driver as cu
cu.init()
context = cu.Device(0).retain_primary_context()
context.push()
atexit.register(lambda: cu.Context.pop())

def raises(kind, text, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")

def arrays(n):
    x, y = np.arange(n, dtype="f4"), np.ones(n, "f4")
    return x, y, cu.to_device(x), cu.to_device(y)
"""
)

BINDINGS = (
    BEGIN
    + """
from cuda.bindings import driver as cd

def call(name, *arguments):
    error, *values = getattr(cd, name)(*arguments)
    if int(error):
        raise RuntimeError(error.name)
    return values[0] if len(values) == 1 else values

def raises(text, function, *arguments):
    try:
        function(*arguments)
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")
"""
)


def run(program: str, body: str, **environment: str) -> str:
    """Runs Python in a process of its own."""
    source = program + textwrap.dedent(body) + "\nprint('reached the end')\n"
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **{f"TRACEJIT_STANDIN_{k}": v for k, v in environment.items()}}
    done = subprocess.run([sys.executable, "-c", source], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reached the end" in done.stdout, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def _built_once() -> None:
    build_cuda(default_folder())


def _needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


# -- pycuda


@_needs("pycuda")
def test_pycuda_copies_launches_and_reads_back() -> None:
    run(
        PYCUDA,
        """
        n = 1000
        x, y, X, Y = arrays(n)
        module = cu.module_from_buffer(KERNELS.encode())
        axpy = module.get_function("axpy")
        stream = cu.Stream()
        axpy._launch_kernel((4, 1, 1), (256, 1, 1), struct.pack("PPfI", int(X), int(Y), 2.0, n), 0, stream)
        stream.synchronize()
        assert (cu.from_device(Y, n, np.float32) == 2 * x + 1).all()
        # as users of pycuda call it, and with events
        start, end = cu.Event(), cu.Event()
        start.record(stream)
        axpy(X, Y, np.float32(1), np.uint32(n), block=(256, 1, 1), grid=(4, 1), stream=stream)
        end.record(stream)
        end.synchronize()
        assert end.time_since(start) >= 0
        assert (cu.from_device(Y, n, np.float32) == 3 * x + 1).all()
        # asynchronous copies from pinned memory, and a fill
        pinned = cu.pagelocked_empty(n, np.float32)
        pinned[:] = 7
        cu.memcpy_htod_async(X, pinned, stream)
        cu.memcpy_dtod(Y, X, 4 * n)
        cu.memset_d32(int(X), 0, n)
        assert (cu.from_device(Y, n, np.float32) == 7).all() and not cu.from_device(X, n, np.float32).any()
        assert axpy.max_threads_per_block == 1024 and axpy.shared_size_bytes == 0
        assert standin.counter("launches") == 2 and standin.counter("faults") == 0
        assert standin.counter("to_device") == 3 and standin.counter("bytes_to_device") == 12 * n
        assert standin.counter("in_use") == 8 * n
        del X, Y
        assert standin.counter("in_use") == 0 and standin.counter("peak") == 8 * n
        """,
    )


@_needs("pycuda")
def test_devices_are_what_the_environment_says() -> None:
    run(
        PYCUDA,
        """
        assert cu.Device.count() == 2
        device = cu.Device(1)
        assert device.compute_capability() == (9, 0) and device.total_memory() == 1 << 20
        assert device.get_attribute(cu.device_attribute.WARP_SIZE) == 32
        assert device.get_attribute(cu.device_attribute.MAX_SHARED_MEMORY_PER_BLOCK) == 49152
        raises(cu.MemoryError, "out of memory", cu.mem_alloc, (1 << 20) + 1)
        free, total = cu.mem_get_info()
        assert free == total == 1 << 20
        kept = cu.mem_alloc(1 << 19)
        assert cu.mem_get_info()[0] == 1 << 19
        raises(cu.MemoryError, "out of memory", cu.mem_alloc, (1 << 19) + 1)
        kept.free()
        cu.mem_alloc(1 << 20)
        """,
        DEVICES="2",
        CAPABILITY="90",
        MEMORY=str(1 << 20),
    )


@_needs("pycuda")
def test_no_device_is_an_error_of_cuinit() -> None:
    run(
        BEGIN,
        """
        import pycuda.driver as cu
        try:
            cu.init()
        except cu.Error as error:
            assert "no CUDA-capable device is detected" in str(error)
        else:
            raise AssertionError
        """,
        DEVICES="0",
    )


@_needs("pycuda")
def test_bad_ptx_is_named_in_the_log() -> None:
    run(
        PYCUDA,
        """
        raises(cu.LogicError, "a PTX JIT compilation failed", cu.module_from_buffer, b"no PTX at all")
        bad = KERNELS.replace("fma.rn.f32 %f1", "frobnicate.f32 %f1").encode()
        raises(cu.LogicError, "frobnicate.f32 is not known", cu.module_from_buffer, bad)
        line = KERNELS[: KERNELS.index("fma.rn")].count("\\n") + 1
        assert f"axpy, line {line} (frobnicate.f32)" in str(standin.last_error)
        raises(cu.LogicError, "target sm_75", cu.module_from_buffer, KERNELS.encode())
        """,
        CAPABILITY="70",
    )


@_needs("pycuda")
def test_what_a_kernel_does_wrong_is_reported_by_what_follows() -> None:
    run(
        PYCUDA,
        """
        x, y, X, Y = arrays(100)
        function = cu.module_from_buffer(KERNELS.encode()).get_function("axpy")
        packed = struct.pack("PPfI", int(X), int(Y), 2.0, 101)
        function._launch_kernel((1, 1, 1), (128, 1, 1), packed, 0, None)
        raises(cu.Error, "illegal memory access", cu.Context.synchronize)
        error = standin.last_error
        assert (error.block, error.thread, error.address) == ((0, 0, 0), (100, 0, 0), int(X) + 400), error
        # and by everything after that
        raises(cu.Error, "illegal memory access", cu.mem_alloc, 4)
        raises(cu.Error, "illegal memory access", cu.from_device, Y, 100, np.float32)
        standin.reset()
        assert (cu.from_device(Y, 100, np.float32) == y).all()
        assert standin.last_error is None and standin.counter("launches") == 0 and standin.counter("in_use") == 800
        """,
    )


@_needs("pycuda")
def test_launches_report_faults_themselves_if_asked_to() -> None:
    run(
        PYCUDA,
        """
        x, y, X, Y = arrays(100)
        function = cu.module_from_buffer(KERNELS.encode()).get_function("axpy")
        X.free()
        packed = struct.pack("PPfI", 4096, int(Y), 2.0, 100)
        raises(cu.Error, "illegal memory access", function._launch_kernel, (1, 1, 1), (128, 1, 1), packed, 0, None)
        """,
        SYNCHRONOUS="1",
    )


@_needs("pycuda")
def test_the_device_is_lost_at_a_given_launch() -> None:
    run(
        PYCUDA,
        """
        x, y, X, Y = arrays(100)
        function = cu.module_from_buffer(KERNELS.encode()).get_function("axpy")
        packed = struct.pack("PPfI", int(X), int(Y), 2.0, 100)
        for _ in range(2):
            function._launch_kernel((1, 1, 1), (128, 1, 1), packed, 0, None)
            cu.Context.synchronize()
        function._launch_kernel((1, 1, 1), (128, 1, 1), packed, 0, None)
        raises(cu.Error, "unspecified launch failure", cu.Context.synchronize)
        """,
        FAIL_LAUNCH="3",
    )


@_needs("pycuda")
def test_wrong_launches_are_refused_at_once() -> None:
    run(
        PYCUDA,
        """
        x, y, X, Y = arrays(100)
        function = cu.module_from_buffer(KERNELS.encode()).get_function("axpy")
        packed = struct.pack("PPfI", int(X), int(Y), 2.0, 100)
        invalid = cu.LogicError, "invalid argument", function._launch_kernel
        raises(*invalid, (1, 1, 1), (2048, 1, 1), packed, 0, None)
        raises(*invalid, (0, 1, 1), (32, 1, 1), packed, 0, None)
        raises(*invalid, (1, 1, 1), (32, 1, 1), packed, 50000, None)
        raises(*invalid, (1, 1, 1), (32, 1, 1), packed[:-8], 0, None)
        cu.Context.synchronize()
        out = cu.mem_alloc(4)
        dynamic = cu.module_from_buffer(KERNELS.encode()).get_function("dynamic")
        dynamic.set_attribute(cu.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000)
        dynamic._launch_kernel((1, 1, 1), (32, 1, 1), struct.pack("P", int(out)), 90000, None)
        assert cu.from_device(out, 1, np.uint32)[0] == 90000
        """,
    )


@_needs("pycuda")
def test_stale_memory_is_noticed() -> None:
    run(
        PYCUDA,
        """
        driver = ctypes.CDLL("libcuda.so.1")
        address = cu.mem_alloc(64)
        number = ctypes.c_uint64(int(address))
        host = np.zeros(65, "u1")
        raises(cu.LogicError, "invalid argument", cu.memcpy_htod, int(address), host)
        raises(cu.LogicError, "invalid argument", cu.memcpy_dtoh, host, int(address) + 1)
        assert standin.fault == "memory is copied or set that is not allocated"
        address.free()
        assert driver.cuMemFree_v2(number) == 1
        assert standin.fault == "memory is freed that is not allocated, or was freed before"
        raises(cu.LogicError, "invalid argument", cu.memcpy_htod, number.value, host[:4])
        assert standin.counter("faults") == 4
        """,
    )


@_needs("pycuda")
def test_fresh_memory_holds_no_zeros() -> None:
    run(PYCUDA, "assert (cu.from_device(cu.mem_alloc(64), 64, np.uint8) == 0xA5).all()")


@_needs("pycuda")
def test_variables_of_modules_have_addresses() -> None:
    run(
        PYCUDA,
        """
        module = cu.module_from_buffer(KERNELS.encode())
        address, size = module.get_global("scale")
        assert size == 8 and (cu.from_device(address, 2, np.uint32) == [3, 5]).all()
        cu.memcpy_htod(address, np.array([8, 9], "u4"))
        out = cu.mem_alloc(8)
        module.get_function("scaled")(out, block=(2, 1, 1), grid=(1, 1))
        assert (cu.from_device(out, 2, np.uint32) == [8, 9]).all()
        raises(cu.LogicError, "named symbol not found", module.get_global, "absent")
        raises(cu.LogicError, "named symbol not found", module.get_function, "absent")
        """,
    )


@_needs("pycuda")
def test_the_host_cannot_read_device_memory() -> None:
    body = "ctypes.string_at(int(cu.mem_alloc(64)), 4)"
    done = subprocess.run(
        [sys.executable, "-c", PYCUDA + body], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert done.returncode == -11


# -- cuda-bindings


@_needs("cuda")
def test_bindings_copy_launch_and_read_back() -> None:
    run(
        BINDINGS,
        """
        raises("CUDA_ERROR_NOT_INITIALIZED", call, "cuDeviceGetCount")
        call("cuInit", 0)
        assert call("cuDriverGetVersion") == 13000
        device = call("cuDeviceGet", 0)
        raises("CUDA_ERROR_INVALID_CONTEXT", call, "cuMemAlloc", 4)
        call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
        attribute = cd.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        assert call("cuDeviceGetAttribute", attribute, device) == 108
        n = 1000
        x, y = np.arange(n, dtype="f4"), np.ones(n, "f4")
        X, Y = call("cuMemAlloc", 4 * n), call("cuMemAlloc", 4 * n)
        stream = call("cuStreamCreate", 0)
        call("cuMemcpyHtoD", X, x.ctypes.data, 4 * n)
        call("cuMemcpyHtoDAsync", Y, y.ctypes.data, 4 * n, stream)
        module = call("cuModuleLoadData", KERNELS.encode() + b"\\0")
        axpy = call("cuModuleGetFunction", module, b"axpy")
        assert call("cuOccupancyMaxActiveBlocksPerMultiprocessor", axpy, 256, 0) == 8
        kinds = (None, None, ctypes.c_float, ctypes.c_uint)
        call("cuLaunchKernel", axpy, 4, 1, 1, 256, 1, 1, 0, stream, ((X, Y, 2.0, n), kinds), 0)
        call("cuStreamSynchronize", stream)
        call("cuMemcpyDtoH", y.ctypes.data, Y, 4 * n)
        assert (y == 2 * x + 1).all()
        call("cuMemsetD8", Y, 0, 4 * n)
        event = call("cuEventCreate", 0)
        call("cuEventRecord", event, stream)
        call("cuEventSynchronize", event)
        call("cuMemFree", X)
        raises("CUDA_ERROR_INVALID_VALUE", call, "cuMemFree", X)
        raises("CUDA_ERROR_OUT_OF_MEMORY", call, "cuMemAlloc", 1 << 31)
        raises("CUDA_ERROR_INVALID_PTX", call, "cuModuleLoadData", b"bad\\0")
        raises("CUDA_ERROR_NOT_FOUND", call, "cuModuleGetFunction", module, b"absent")
        call("cuStreamDestroy", stream)
        raises("CUDA_ERROR_INVALID_HANDLE", call, "cuStreamSynchronize", stream)
        call("cuModuleUnload", module)
        raises("CUDA_ERROR_INVALID_HANDLE", call, "cuLaunchKernel", axpy, 1, 1, 1, 1, 1, 1, 0, 0, ((), ()), 0)
        assert cd.cuGetErrorString(cd.CUresult(2))[1] == b"out of memory"
        assert cd.cuGetErrorName(cd.CUresult(700))[1] == b"CUDA_ERROR_ILLEGAL_ADDRESS"
        """,
    )


@_needs("cuda")
def test_bindings_see_faults_of_kernels() -> None:
    run(
        BINDINGS,
        """
        call("cuInit", 0)
        call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", 0))
        Y = call("cuMemAlloc", 400)
        module = call("cuModuleLoadData", KERNELS.encode() + b"\\0")
        axpy = call("cuModuleGetFunction", module, b"axpy")
        kinds = (ctypes.c_uint64, None, ctypes.c_float, ctypes.c_uint)
        call("cuLaunchKernel", axpy, 1, 1, 1, 64, 1, 1, 0, 0, ((int(Y) + 2, Y, 2.0, 64), kinds), 0)
        raises("CUDA_ERROR_MISALIGNED_ADDRESS", call, "cuCtxSynchronize")
        assert "misaligned global access of 4 bytes" in str(standin.last_error)
        call("cuDevicePrimaryCtxReset", 0)
        call("cuCtxSynchronize")
        """,
    )
