"""A device that does nothing: what a call takes on it is the host's time alone.

Kernels are bound and printed as for a GPU, and never run; what arrays hold is what the host has written, or nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tracejit.backends.base import Target
from tracejit.backends.c_like import print_kernels
from tracejit.backends.device.backend import DeviceBackend
from tracejit.backends.device.device import Device
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import Launch
from tracejit.backends.opencl import target
from tracejit.backends.printing import EntryPoint, Printed

__all__ = ["NullBackend", "NullDevice"]

_WORDS = target.Capabilities()
_ATOMICS = frozenset({"i32", "u32", "i64", "u64"})


class NullDevice(Device):
    """calls: how often the driver was asked for what."""

    name = "nothing"
    group = _WORDS.group
    full = MemoryError
    failed = RuntimeError
    default_schedule = gpu_schedule(100, _WORDS.group, _ATOMICS, _ATOMICS)

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        super().__init__(1 << 40, 1 << 42)

    def create(self, nbytes: int) -> Any:
        self.calls["create"] += 1
        return object()

    def release(self, raw: Any) -> None:
        self.calls["release"] += 1

    def write(self, raw: Any, array: np.ndarray[Any, Any]) -> None:
        self.calls["write"] += 1

    def read(self, array: np.ndarray[Any, Any], raw: Any) -> None:
        self.calls["read"] += 1
        array[:] = 0

    def move(self, target: Any, source: Any, nbytes: int) -> None:
        self.calls["move"] += 1

    def fill(self, raw: Any, byte: int, nbytes: int) -> None:
        self.calls["fill"] += 1

    def printed(self, kernels: Sequence[Launch]) -> Printed:
        launches = [(k.kernel, k.work_group) for k in kernels]
        return print_kernels(launches, target.dialect(_WORDS), target.intrinsics(_WORDS))

    def build(self, source: str) -> Any:
        self.calls["build"] += 1
        return source

    def function(self, module: Any, entry: EntryPoint) -> Any:
        return entry

    def prepare(self, function: Any, values: Sequence[Any]) -> Any:
        self.calls["prepare"] += 1
        return function

    def enqueue(self, prepared: Any, groups: int, items: int) -> None:
        self.calls["enqueue"] += 1

    def finish(self) -> None:
        self.calls["finish"] += 1


class NullBackend(DeviceBackend[NullDevice]):
    """The backend of that device.  What it says of OpenCL C is what the printer needs."""

    name: ClassVar[str] = "null"

    def __init__(self) -> None:
        super().__init__([NullDevice()])

    def target(self) -> Target:
        return Target("null", threads=100, grid=True, device=self.device.name)
