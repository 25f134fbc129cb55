"""OpenCL devices: the driver's calls.  Wraps pyopencl, which is imported at first use."""

from __future__ import annotations

import os
import platform
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracejit.backends.c_like import print_kernels
from tracejit.backends.c_scalar import Intrinsics
from tracejit.backends.device.device import Device, Raw
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import GridSchedule, Launch as DeviceKernel
from tracejit.backends.opencl import target
from tracejit.backends.printing import EntryPoint, Printed
from tracejit.support.config import variable
from tracejit.support.errors import BackendUnavailable, CompileError, LaunchError
from tracejit.support.nodes import define

_POCL = "Portable Computing Language"
_FLUSHED = 8  # launches: telling the driver takes as long as a fifth of one

__all__ = ["OpenCLDevice", "devices", "unavailable_reason"]


def _pyopencl() -> Any:
    """The pyopencl module.  Raises BackendUnavailable, saying what to install."""
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # the driver and tracejit keep compiled programs themselves
    try:
        import pyopencl
    except ImportError as error:
        raise BackendUnavailable(
            f"the opencl backend needs pyopencl: pip install 'tracejit[opencl]' ({error})"
        ) from error
    return pyopencl


def _raw_devices() -> list[Any]:
    cl = _pyopencl()
    try:
        present = [d for p in cl.get_platforms() for d in _platform_devices(cl, p)]
    except cl.Error as error:
        raise BackendUnavailable(
            f"no OpenCL platform: install a vendor's driver, or pip install pocl-binary-distribution ({error})"
        ) from error
    if not present:
        raise BackendUnavailable("the OpenCL platforms of this machine have no device")
    found = [part for d in present if _compiles(cl, d) for part in _parts(cl, d)]
    if not found:
        names = ", ".join(f"{d.name.strip()} ({d.platform.version.strip()})" for d in present)
        raise BackendUnavailable(
            f"the OpenCL compiler does not know this processor: {names}; install a newer driver, on Debian and Ubuntu "
            "`apt install pocl-opencl-icd`, or leave backend= to its default"
        )
    return found


_taken_apart: dict[int, list[Any]] = {}


def _parts(cl: Any, device: Any) -> list[Any]:
    """The sub-devices that a device is to be taken apart into; itself where none are asked for, or it cannot be."""
    wanted = variable("OPENCL_PARTS") or "1"
    if not wanted.isdecimal():
        raise BackendUnavailable(f"TRACEJIT_OPENCL_PARTS={wanted} is no number of devices")
    units = device.max_compute_units // int(wanted) if int(wanted) > 1 else 0
    if not units:
        return [device]
    found = _taken_apart.get(device.int_ptr)
    if found is None:
        try:
            found = list(device.create_sub_devices([cl.device_partition_property.EQUALLY, units]))
        except cl.Error:
            found = [device]
        _taken_apart[device.int_ptr] = found
    return found


_probed: dict[int, bool] = {}


def _compiles(cl: Any, device: Any) -> bool:
    """Whether the device's compiler works.  PoCL's does not on a processor that is younger than the LLVM
    that is linked into it.
    """
    if device.platform.name.strip() != _POCL:
        return True
    works = _probed.get(device.int_ptr)
    if works is None:
        try:
            cl.Program(cl.Context([device]), "__kernel void probe(__global int *x) { x[0] = 0; }").build(
                cache_dir=False
            )
            works = True
        except cl.Error:
            works = False
        _probed[device.int_ptr] = works
    return works


def _platform_devices(cl: Any, found: Any) -> list[Any]:
    try:
        return list(found.get_devices())
    except cl.Error:  # a platform without devices is an error in OpenCL
        return []


def unavailable_reason() -> str | None:
    """Why there is no OpenCL device, or None."""
    try:
        _raw_devices()
    except BackendUnavailable as error:
        return error.message
    return None


_opened: dict[int, OpenCLDevice] = {}
_lock = threading.RLock()


def devices() -> list[OpenCLDevice]:
    """All OpenCL devices, real ones before software ones; each is opened once a process.  Raises BackendUnavailable."""
    with _lock:
        found = [
            _opened.setdefault(d.int_ptr, OpenCLDevice(d)) if d.int_ptr not in _opened else _opened[d.int_ptr]
            for d in _raw_devices()
        ]
    return sorted(found, key=lambda d: d.capabilities.software)


def _capabilities(device: Any) -> target.Capabilities:
    extensions = set(device.extensions.split())
    rounding = 1 << 7  # CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
    software = bool(device.type & _pyopencl().device_type.CPU)
    clang = software and device.platform.name.strip() == _POCL and _host_has_fma()
    return target.Capabilities(
        fp64="cl_khr_fp64" in extensions,
        int64_atomics="cl_khr_int64_base_atomics" in extensions,
        more_int64_atomics="cl_khr_int64_extended_atomics" in extensions,
        correct_divide=bool(device.single_fp_config & rounding),
        group=int(device.max_work_group_size),
        shared=int(device.local_mem_size),
        software=software,
        clang_builtins=clang,
        vector_bits=_vector_bits(f"{device.name} {device.version}") if clang else 0,
    )


def _default_schedule(have: target.Capabilities, units: int) -> GridSchedule:
    atomics = frozenset({"i32", "u32", "i64", "u64"} if have.int64_atomics else {"i32", "u32"})
    if have.software:
        return GridSchedule(contiguous=True, work_group=min(128, have.group), atomics=atomics)
    return gpu_schedule(units, have.group, atomics, tables=atomics)


def _vector_bits(processor: str) -> int:
    """The length of the vectors that PoCL compiles for, by the processor that it names."""
    if any(name in processor for name in ("avx512", "icelake", "sapphirerapids", "znver4", "znver5")):
        return 512
    return 256 if platform.machine().lower() in ("x86_64", "amd64") else 128


def _host_has_fma() -> bool:
    """Whether this processor surely has fused multiply-add (and with it the rounding instructions)."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    try:
        flags = next(
            line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("flags")
        )
    except (OSError, StopIteration):
        return False
    return "fma" in flags.split()


class OpenCLDevice(Device):
    """One device with its context and in-order queue."""

    def __init__(self, raw: Any) -> None:
        cl = self.cl = _pyopencl()
        self.raw = raw
        self.name = raw.name.strip()
        self.capabilities = _capabilities(raw)
        self.intrinsics: Intrinsics = target.intrinsics(self.capabilities)
        have = self.capabilities
        self.group = have.group
        self.cores = have.vector_bits > 0
        self.software = have.software
        self.full, self.failed = cl.MemoryError, cl.Error
        self.default_schedule = _default_schedule(have, int(raw.max_compute_units))
        try:
            self.context = cl.Context([raw])
            self.queue = cl.CommandQueue(self.context)
        except cl.Error as error:
            raise BackendUnavailable(f"the OpenCL device {self.name} cannot be opened: {error}") from error
        self._launch: Callable[..., Any] = cl.enqueue_nd_range_kernel
        self._unflushed = 0
        self._unified = bool(raw.host_unified_memory)
        super().__init__(int(raw.max_mem_alloc_size), int(raw.global_mem_size))

    @property
    def f64(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "" if self.capabilities.fp64 else "cl_khr_fp64"

    def create(self, nbytes: int) -> Raw:
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size=nbytes)

    def release(self, raw: Raw) -> None:
        raw.release()

    def write(self, raw: Raw, array: np.ndarray[Any, Any]) -> None:
        self.cl.enqueue_copy(self.queue, raw, array, is_blocking=True)

    def read(self, array: np.ndarray[Any, Any], raw: Raw) -> None:
        self.cl.enqueue_copy(self.queue, array, raw, is_blocking=True)

    def seen(self, raw: Raw, nbytes: int) -> tuple[np.ndarray[Any, Any], Callable[[], object]] | None:
        """Mapped, where the host and the device have one memory.  Kernels may read it meanwhile."""
        if not self._unified:
            return None
        array, _ = self.cl.enqueue_map_buffer(
            self.queue, raw, self.cl.map_flags.READ, 0, (nbytes,), np.uint8, is_blocking=True
        )
        mapped = array.base
        return array, lambda: mapped.release(self.queue)

    def move(self, target: Raw, source: Raw, nbytes: int) -> None:
        self.cl.enqueue_copy(self.queue, target, source, byte_count=nbytes)

    def fill(self, raw: Raw, byte: int, nbytes: int) -> None:
        self.cl.enqueue_fill_buffer(self.queue, raw, np.uint8(byte), 0, nbytes)

    def printed(self, kernels: Sequence[DeviceKernel]) -> Printed:
        launches = [(k.kernel, k.work_group) for k in kernels]
        return print_kernels(launches, target.dialect(self.capabilities), self.intrinsics)

    def build(self, source: str) -> Raw:
        """A built program.  Raises CompileError."""
        cl = self.cl
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyopencl warns of any compiler output; it is in the log of a failure
                return cl.Program(self.context, source).build(options=self.capabilities.build_options, cache_dir=False)
        except cl.Error as error:
            raise CompileError(
                f"the OpenCL compiler of {self.name} rejected generated code", source=source, log=str(error)
            ) from error

    def function(self, module: Raw, entry: EntryPoint) -> _Function:
        return _Function(module, entry.name, self.cl.Kernel(module, entry.name))

    def most_items(self, function: _Function) -> int:
        assert function.unused is not None
        return function.unused.get_work_group_info(self.cl.kernel_work_group_info.WORK_GROUP_SIZE, self.raw)

    def prepare(self, function: _Function, values: Sequence[Raw | int]) -> Raw:
        handle, function.unused = function.unused or self.cl.Kernel(function.module, function.name), None
        if handle.num_args != len(values):
            raise LaunchError(
                f"kernel {function.name} has {handle.num_args} parameters, and was given {len(values)} arguments: "
                "the arrays, results among them, then the sizes"
            )
        handle.set_args(*[np.int64(x) if isinstance(x, int) else x for x in values])
        return handle

    def enqueue(self, prepared: Raw, groups: int, items: int) -> None:
        """The driver is told to begin after some of them, and by whatever waits."""
        self._launch(self.queue, prepared, (groups * items,), (items,))
        self._unflushed += 1
        if self._unflushed >= _FLUSHED:
            self._unflushed = 0
            self.queue.flush()

    def finish(self) -> None:
        self.queue.finish()

    def binary_text(self, module: Raw) -> str:
        """PTX on NVIDIA."""
        binary: bytes = module.binaries[0]
        try:
            return binary.decode("ascii")
        except UnicodeDecodeError:
            return f"{len(binary)} bytes of binary code for {self.name}"


@define(eq=False)
class _Function:
    """An entry point, and a driver's kernel, which holds arguments, that nobody uses yet."""

    module: Any
    name: str
    unused: Any = None
