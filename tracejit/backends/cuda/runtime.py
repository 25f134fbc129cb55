"""CUDA devices: kernels as PTX, calls through `driver`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tracejit.backends.cuda.driver import Driver, drivers
from tracejit.backends.cuda.ptx import architecture, machine, to_ptx
from tracejit.backends.device.device import Device, Raw
from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import Launch as DeviceKernel
from tracejit.backends.llvm_grid import print_kernels
from tracejit.backends.printing import EntryPoint, Printed
from tracejit.support.errors import BackendUnavailable, CompileError
from tracejit.support.nodes import define

__all__ = ["CudaDevice", "devices", "unavailable_reason"]

T = TypeVar("T")
_ATOMICS = frozenset({"i32", "u32", "i64", "u64"})


@define(eq=False)
class _Module:
    """A module of the driver's, and the PTX that it was made of."""

    loaded: Any
    ptx: str


class CudaDevice(Device):
    """One device with its primary context and a stream."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.name = driver.name
        self.group = driver.items
        self.full, self.failed = driver.full, driver.failed
        self.architecture = architecture(driver.capability)
        self.default_schedule = gpu_schedule(driver.units, driver.items, _ATOMICS, _ATOMICS)
        super().__init__(driver.memory, driver.memory)

    def guard(self, action: Callable[[], T]) -> T:
        def with_context() -> T:
            with self.driver.current():
                return action()

        return super().guard(with_context)

    def create(self, nbytes: int) -> Raw:
        with self.driver.current():
            return self.driver.allocate(nbytes)

    def release(self, raw: Raw) -> None:
        with self.driver.current():
            self.driver.free(raw)

    def write(self, raw: Raw, array: np.ndarray[Any, Any]) -> None:
        self.driver.write(raw, array)

    def read(self, array: np.ndarray[Any, Any], raw: Raw) -> None:
        self.driver.read(array, raw)

    def move(self, target: Raw, source: Raw, nbytes: int) -> None:
        self.driver.move(target, source, nbytes)

    def fill(self, raw: Raw, byte: int, nbytes: int) -> None:
        self.driver.fill(raw, byte, nbytes)

    def cuda_address(self, raw: Raw) -> int | None:
        return int(raw)

    def from_cuda(self, address: int, nbytes: int, wait: bool) -> DeviceBuffer:
        """A copy of the memory of another package.  wait: for all that it may have begun."""
        made = self.alloc(nbytes)
        if nbytes:
            if wait:
                self.guard(self.driver.synchronize_all)
            self.guard(lambda: self.driver.move(made.memory.raw, address, nbytes))
            self.synchronize()  # the other may write there again, or free it
        return made

    def printed(self, kernels: Sequence[DeviceKernel]) -> Printed:
        return print_kernels(kernels, machine())

    def build(self, source: str) -> Raw:
        """A module.  Raises CompileError."""
        return self._loaded(to_ptx(source, self.architecture))

    def build_source(self, source: str, entry: str) -> Raw:
        """The module of PTX, or of LLVM IR for NVPTX."""
        return self._loaded(source) if ".version" in source else self.build(source)

    def _loaded(self, ptx: str) -> Raw:
        try:
            with self.driver.current():
                return _Module(self.driver.module(ptx.encode()), ptx)
        except self.failed as error:
            raise CompileError(f"the driver of {self.name} rejected PTX", source=ptx, log=str(error)) from error

    def function(self, module: _Module, entry: EntryPoint) -> Raw:
        with self.driver.current():
            return self.driver.function(module.loaded, entry.name)

    def most_items(self, function: Raw) -> int:
        with self.driver.current():
            return self.driver.most_items(function)

    def prepare(self, function: Raw, values: Sequence[Raw | int]) -> Raw:
        return self.driver.prepare(function, values)

    def enqueue(self, prepared: Raw, groups: int, items: int) -> None:
        self.driver.launch(prepared, groups, items)

    def finish(self) -> None:
        self.driver.synchronize()

    def binary_text(self, module: _Module) -> str:
        return module.ptx


def unavailable_reason() -> str | None:
    """Why there is no CUDA device, or None."""
    try:
        devices()
    except BackendUnavailable as error:
        return error.message
    return None


_opened: list[CudaDevice] = []
_lock = threading.Lock()


def devices() -> list[CudaDevice]:
    """All devices; each is opened once a process.  Raises BackendUnavailable."""
    with _lock:
        if not _opened:
            _opened.extend(map(CudaDevice, drivers()))
    return [*_opened]
