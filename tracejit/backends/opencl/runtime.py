"""OpenCL devices: memory, compilation, launches.  Wraps pyopencl, which is imported at first use.

One context and one in-order queue a device.  Nothing here waits but `to_host` and `synchronize`.
"""

from __future__ import annotations

import os
import platform
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tracejit.backends.c_like import print_kernels
from tracejit.backends.c_scalar import Intrinsics
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.backends.opencl import target
from tracejit.backends.opencl.launch import Launchable
from tracejit.backends.opencl.memory import DeviceBuffer, Pool
from tracejit.ir.kernel import Kernel
from tracejit.ir.scalar import poison_byte
from tracejit.support.config import config
from tracejit.support.errors import BackendUnavailable, CompileError, LaunchError, OutOfMemory, UnsupportedError

T = TypeVar("T")

_POCL = "Portable Computing Language"
_FLUSHED = 8  # launches: telling the driver takes as long as a fifth of one

__all__ = ["DeviceBuffer", "Launchable", "OpenCLDevice", "devices", "unavailable_reason"]


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
    found = [d for d in present if _compiles(cl, d)]
    if not found:
        names = ", ".join(f"{d.name.strip()} ({d.platform.version.strip()})" for d in present)
        raise BackendUnavailable(
            f"the OpenCL compiler does not know this processor: {names}; install a newer driver, on Debian and Ubuntu "
            "`apt install pocl-opencl-icd`, or leave backend= to its default"
        )
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
    return target.Capabilities(
        fp64="cl_khr_fp64" in extensions,
        int64_atomics="cl_khr_int64_base_atomics" in extensions,
        correct_divide=bool(device.single_fp_config & rounding),
        group=int(device.max_work_group_size),
        shared=int(device.local_mem_size),
        software=bool(device.type & _pyopencl().device_type.CPU),
        clang_builtins=device.platform.name.strip() == _POCL and _host_has_fma(),
    )


def _default_schedule(have: target.Capabilities, units: int) -> GridSchedule:
    """What keeps a device busy: of a GPU far more work-items than it has processing elements.

    Measured on an H200: 2 x + y moves 2520 GB/s in groups of 128, and 3500 in groups of 256 (4330 by fours).
    """
    atomics = frozenset({"i32", "u32", "i64", "u64"} if have.int64_atomics else {"i32", "u32"})
    if have.software:
        return GridSchedule(contiguous=True, work_group=min(128, have.group), atomics=atomics)
    return GridSchedule(
        work_group=min(256, have.group),
        groups=min(1024, 1 << (8 * units).bit_length() - 1),
        shares=1 << 14,
        pack=4,
        jam=8,
        atomics=atomics,
    )


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


class OpenCLDevice:
    """One device with its context and in-order queue."""

    def __init__(self, raw: Any) -> None:
        cl = self.cl = _pyopencl()
        self.raw = raw
        self.name: str = raw.name.strip()
        self.capabilities = _capabilities(raw)
        self.intrinsics: Intrinsics = target.intrinsics(self.capabilities)
        have = self.capabilities
        self.default_schedule = _default_schedule(have, int(raw.max_compute_units))
        try:
            self.context = cl.Context([raw])
            self.queue = cl.CommandQueue(self.context)
        except cl.Error as error:
            raise BackendUnavailable(f"the OpenCL device {self.name} cannot be opened: {error}") from error
        self.enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel
        self._unflushed = 0
        self.pool = Pool(cl, self.context, self.name, int(raw.max_mem_alloc_size), int(raw.global_mem_size) // 4)

    # Memory

    def alloc(self, nbytes: int, dtype: str = "f64") -> DeviceBuffer:
        """Uninitialised device memory, for elements of `dtype`.  Raises OutOfMemory."""
        memory = self.pool.take(nbytes)
        if config.poison and nbytes:
            self.cl.enqueue_fill_buffer(self.queue, memory.raw, np.uint8(poison_byte(dtype)), 0, nbytes)
        return DeviceBuffer(memory, nbytes, self)

    def from_host(self, array: np.ndarray[Any, Any]) -> DeviceBuffer:
        """A device copy of the elements of `array`, row-major.  Raises OutOfMemory."""
        return DeviceBuffer(self.pool.filled(np.ascontiguousarray(array)), array.nbytes, self)

    @property
    def in_use(self) -> int:
        """Bytes in live buffers."""
        return self.pool.in_use

    @property
    def peak(self) -> int:
        """The most bytes that were in use at one time."""
        return self.pool.peak

    def to_host(self, buffer: DeviceBuffer, dtype: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """The array that `buffer` holds row-major; waits for what is queued.  Raises LaunchError if that failed."""
        out = np.empty(tuple(shape), dtype)
        if out.nbytes > buffer.nbytes:
            raise LaunchError(f"an array of {out.nbytes} bytes was asked of a buffer of {buffer.nbytes}")
        if out.nbytes:
            self.guard(
                lambda: self.cl.enqueue_copy(
                    self.queue, out.reshape(-1).view(np.uint8), buffer.memory.raw, is_blocking=True
                )
            )
        return out

    def copy(self, source: DeviceBuffer, destination: DeviceBuffer, nbytes: int | None = None) -> None:
        """Copy the first `nbytes` (default: all of `source`) on the device; does not wait."""
        count = source.nbytes if nbytes is None else nbytes
        if count > min(source.nbytes, destination.nbytes):
            raise LaunchError(f"a copy of {count} bytes from {source.nbytes} to {destination.nbytes}")
        if count:
            self.guard(
                lambda: self.cl.enqueue_copy(self.queue, destination.memory.raw, source.memory.raw, byte_count=count)
            )

    def queued(self) -> None:
        """Say that a launch was enqueued: the driver is told to begin after some of them, and by whatever waits."""
        self._unflushed += 1
        if self._unflushed >= _FLUSHED:
            self._unflushed = 0
            self.queue.flush()

    def synchronize(self) -> None:
        """Wait for all launches and copies.  Raises LaunchError if one failed."""
        self.guard(self.queue.finish)

    def guard(self, action: Callable[[], T]) -> T:
        """Run a driver call.  Raises OutOfMemory or LaunchError where the driver reports one."""
        cl = self.cl
        try:
            return action()
        except cl.MemoryError as error:
            raise OutOfMemory(f"{self.name} has no memory left: {error}", peak=self.peak) from error
        except cl.Error as error:
            raise LaunchError(f"{self.name} failed: {error}") from error

    # Code

    def compile_kernel(self, kernel: Kernel, schedule: GridSchedule | None = None) -> Launchable:
        """Bind, print and build `kernel`.

        Raises: UnsupportedError (a dtype or operation the device has not), CompileError with source and log.
        """
        return self.compile_kernels([kernel], schedule)[0]

    def compile_kernels(
        self,
        kernels: Sequence[Kernel],
        schedule: GridSchedule | Sequence[GridSchedule] | None = None,
        edited: Callable[[str], str] = str,
    ) -> list[Launchable]:
        """Kernels built as one program: the driver's compiler is started once.  One schedule for all,
        or one for each.  edited: what the source goes through before.
        """
        schedule = schedule or self.default_schedule
        schedules = [schedule] * len(kernels) if isinstance(schedule, GridSchedule) else list(schedule)
        largest = max((s.work_group for s in schedules), default=0)
        if largest > self.capabilities.group:
            raise UnsupportedError(
                f"{self.name} runs groups of at most {self.capabilities.group} work-items, not {largest}"
            )
        bound = [bind_grid(k, s) for k, s in zip(kernels, schedules, strict=True)]
        launches = [(a.kernel, a.work_group) for b in bound for a in b.launches]
        printed = print_kernels(launches, target.dialect(self.capabilities), self.intrinsics)
        if "f64" in printed.uses and not self.capabilities.fp64:
            names = ", ".join(kernel.name for kernel in kernels)
            raise UnsupportedError(
                f"{self.name} has no f64 (cl_khr_fp64), which is needed by {names}; use f32 arrays on this device"
            )
        source = edited(printed.source)
        program = self.build(source)
        entries = iter(printed.entries)
        return [
            Launchable(self, k, s, b, program, [next(entries) for _ in b.launches], source)
            for k, s, b in zip(kernels, schedules, bound, strict=True)
        ]

    def build(self, source: str) -> Any:
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
