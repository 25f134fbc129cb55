"""A device behind its driver: memory, code, launches.

One in-order queue a device: nothing here waits but `to_host` and `synchronize`.  A backend gives a subclass with the
driver's calls; what is above them is the same for all.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tracejit.backends.cores import bind_cores
from tracejit.backends.device.launch import Launchable
from tracejit.backends.device.memory import DeviceBuffer, Pool
from tracejit.backends.grid import GridSchedule, Launch as DeviceKernel, bind_grid
from tracejit.backends.printing import EntryPoint, Printed
from tracejit.ir.kernel import Kernel, allocated_by, walk
from tracejit.ir.scalar import poison_byte
from tracejit.support.config import config
from tracejit.support.errors import LaunchError, OutOfMemory, UnsupportedError

__all__ = ["Device", "Raw"]

T = TypeVar("T")
Raw = Any
"""A driver's buffer, module, function or prepared launch: what its backend makes of it."""


class _Seen:
    """Bytes of a device that the host looks at: the memory is not given out again before nobody does."""

    def __init__(self, buffer: DeviceBuffer, array: np.ndarray[Any, Any], done: Callable[[], object]) -> None:
        self.__array_interface__ = array.__array_interface__
        self.buffer, self.array, self.done = buffer, array, done

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.done()


class Device(ABC):
    """One device.

    name: in words.  group: the most work-items of a group.  cores: it is a processor, for whose vectors and threads
    programs are scheduled.  software: it is the host's processor.  f64: the feature that it lacks, if it has no f64.
    spaces: memory spaces of packages that its printer knows, by their words.
    full, failed: the exceptions of its driver, for memory and for everything.
    """

    name: str
    group: int
    cores: bool = False
    software: bool = False
    f64: str = ""
    spaces: frozenset[str] = frozenset()
    full: type[Exception]
    failed: type[Exception]
    default_schedule: GridSchedule

    def __init__(self, largest: int, total: int) -> None:
        """largest, total: bytes of one buffer, and of the device."""
        self.uploads = self.downloads = 0  # copies from the host, and what it has looked at
        self.slices: dict[tuple[int, int], Launchable] = {}  # kernels that copy parts of arrays
        self.pool = Pool(self.create, self.release, self.full, self.name, largest, total // 4)

    # What a driver does

    @abstractmethod
    def create(self, nbytes: int) -> Raw:
        """Memory."""

    @abstractmethod
    def release(self, raw: Raw) -> None:
        """Give memory back.  What was enqueued before may still use it."""

    @abstractmethod
    def write(self, raw: Raw, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to memory; afterwards it may change."""

    @abstractmethod
    def read(self, array: np.ndarray[Any, Any], raw: Raw) -> None:
        """Copy memory to a contiguous array, and wait for that."""

    @abstractmethod
    def move(self, target: Raw, source: Raw, nbytes: int) -> None:
        """Copy on the device."""

    @abstractmethod
    def fill(self, raw: Raw, byte: int, nbytes: int) -> None:
        """Set bytes."""

    @abstractmethod
    def printed(self, kernels: Sequence[DeviceKernel]) -> Printed:
        """Device kernels as the text that `build` takes."""

    @abstractmethod
    def build(self, source: str) -> Raw:
        """The module of a text.  Raises CompileError."""

    def build_source(self, source: Any, entry: str) -> Raw:
        """The module of what a user has written, with the function `entry`.  Raises CompileError."""
        return self.build(source)

    @abstractmethod
    def function(self, module: Raw, entry: EntryPoint) -> Raw:
        """An entry point of a module."""

    def most_items(self, function: Raw) -> int:
        """In how large groups a function runs."""
        return self.group

    @abstractmethod
    def prepare(self, function: Raw, values: Sequence[Raw | int]) -> Raw:
        """A function with its arguments, buffers and 64-bit numbers: for many launches."""

    @abstractmethod
    def enqueue(self, prepared: Raw, groups: int, items: int) -> None:
        """Launch so many groups of so many work-items."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for all that was enqueued."""

    def seen(self, raw: Raw, nbytes: int) -> tuple[np.ndarray[Any, Any], Callable[[], object]] | None:
        """The bytes of memory, once all is done, where the host shares it: in place, and what is to be called when
        nobody looks at them any more.  None where the host has to copy them.
        """
        return None

    def cuda_address(self, raw: Raw) -> int | None:
        """Where memory begins, for others that use CUDA."""
        return None

    def lacks(self) -> dict[str, str]:
        """What it cannot compute, for its `Target`."""
        return {"f64": f"{self.name} has no f64 ({self.f64}); use f32 arrays on this device"} if self.f64 else {}

    def binary_text(self, module: Raw) -> str:
        """What the driver made of a module, where that is text; otherwise how long it is."""
        return ""

    # Memory

    def alloc(self, nbytes: int, dtype: str = "f64") -> DeviceBuffer:
        """Uninitialised device memory, for elements of `dtype`.  Raises OutOfMemory."""
        memory = self.pool.take(nbytes)
        if config.poison and nbytes:
            self.guard(lambda: self.fill(memory.raw, poison_byte(dtype), nbytes))
        return DeviceBuffer(memory, nbytes, self)

    def from_host(self, array: np.ndarray[Any, Any]) -> DeviceBuffer:
        """A device copy of the elements of `array`, row-major.  Raises OutOfMemory."""
        memory = self.pool.take(array.nbytes)
        if array.nbytes:
            self.uploads += 1
            self.guard(lambda: self.write(memory.raw, np.ascontiguousarray(array)))
        return DeviceBuffer(memory, array.nbytes, self)

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
            self.downloads += 1
            self.guard(lambda: self.read(out.reshape(-1).view(np.uint8), buffer.memory.raw))
        return out

    def look(self, buffer: DeviceBuffer, dtype: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
        """The array that `buffer` holds row-major, for reading: in place where the host shares the memory, which then
        stays the array's; else as `to_host`.   Raises: LaunchError.
        """
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        found = self.guard(lambda: self.seen(buffer.memory.raw, nbytes)) if nbytes else None
        if found is None:
            return self.to_host(buffer, dtype, shape)
        self.downloads += 1
        array = np.asarray(_Seen(buffer, *found)).view(dtype).reshape(tuple(shape))
        array.flags.writeable = False
        return array

    def copy(self, source: DeviceBuffer, destination: DeviceBuffer, nbytes: int | None = None) -> None:
        """Copy the first `nbytes` (default: all of `source`) on the device; does not wait."""
        count = source.nbytes if nbytes is None else nbytes
        if count > min(source.nbytes, destination.nbytes):
            raise LaunchError(f"a copy of {count} bytes from {source.nbytes} to {destination.nbytes}")
        if count:
            self.guard(lambda: self.move(destination.memory.raw, source.memory.raw, count))

    def synchronize(self) -> None:
        """Wait for all launches and copies.  Raises LaunchError if one failed."""
        self.guard(self.finish)

    def guard(self, action: Callable[[], T]) -> T:
        """Run a driver call.  Raises OutOfMemory or LaunchError where the driver reports one."""
        try:
            return action()
        except self.full as error:
            raise OutOfMemory(f"{self.name} has no memory left: {error}", peak=self.peak) from error
        except self.failed as error:
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
        if largest > self.group:
            raise UnsupportedError(f"{self.name} runs groups of at most {self.group} work-items, not {largest}")
        for space in {b.space for k in kernels for s in walk(k.body) for b in allocated_by(s)}:
            if space.value is not None and space.word not in self.spaces:
                raise UnsupportedError(f"{self.name} has no {space} memory")
        bound = [(bind_cores if s.cores else bind_grid)(k, s) for k, s in zip(kernels, schedules, strict=True)]
        printed = self.printed([launch for b in bound for launch in b.launches])
        if "f64" in printed.uses and self.f64:
            names = ", ".join(kernel.name for kernel in kernels)
            raise UnsupportedError(
                f"{self.name} has no f64 ({self.f64}), which is needed by {names}; use f32 arrays on this device"
            )
        source = edited(printed.source)
        module = self.build(source)
        entries = iter(printed.entries)
        return [
            Launchable(self, k, s, b, module, [next(entries) for _ in b.launches], source)
            for k, s, b in zip(kernels, schedules, bound, strict=True)
        ]
