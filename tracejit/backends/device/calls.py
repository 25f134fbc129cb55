"""Kernels that users have written for a device, as steps of a program."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.printing import EntryPoint
from tracejit.ir.extents import evaluate
from tracejit.ir.forms import KernelSources
from tracejit.ir.program import KernelCall, ProgramBuffer
from tracejit.support.errors import CompileError, LaunchError, UnsupportedError

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device

__all__ = ["CalledKernel"]

_PREPARED = 4  # sets of arguments that are kept ready


class CalledKernel:
    """The kernel of a step, built for a device.

    Its function takes the addresses of the arrays, row-major, and then 64-bit integers.

    Raises: CompileError with the driver's log; UnsupportedError for groups that are too large.
    """

    def __init__(self, device: Device, backend: str, step: KernelCall) -> None:
        kernel = step.environment
        assert isinstance(kernel, KernelSources)
        self.device, self.step, self.block = device, step, kernel.block
        try:
            self._module = device.build_source(
                kernel.sources[backend], kernel.entry
            )  # kept: the function is a part of it
            self._function = device.function(self._module, EntryPoint(kernel.entry, ()))
        except CompileError as error:
            raise CompileError(
                f"the {backend} source of {kernel.entry} (tj.native.kernel) does not compile: {error.message}",
                source=error.source,
                log=error.log,
            ) from error
        except device.failed as error:
            raise CompileError(
                f"the {backend} source has no kernel {kernel.entry!r} (tj.native.kernel, entry=)", log=str(error)
            ) from error
        most = device.most_items(self._function)
        if self.block > most:
            raise UnsupportedError(f"{kernel.entry} runs in groups of at most {most} work-items on {device.name}")
        self._ready: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()

    def launch(self, memory: Mapping[ProgramBuffer, DeviceBuffer], dims: Mapping[str, int]) -> None:
        """Enqueue.  Does not wait.   Raises: LaunchError."""
        step = self.step
        given = [memory[a] if isinstance(a, ProgramBuffer) else evaluate(a.value, dims) for a in step.arguments]
        groups = evaluate(step.grid, dims)
        if groups < 0:
            raise LaunchError(f"{step.symbol} is to run in {groups} groups")
        if not groups:
            return
        key = tuple([x.key if isinstance(x, DeviceBuffer) else x for x in given])
        with self._lock:  # a driver's launch may share the arguments of its function
            ready = self._ready.get(key)
            if ready is None:
                values = [x.memory.raw if isinstance(x, DeviceBuffer) else x for x in given]
                ready = self.device.guard(lambda: self.device.prepare(self._function, values))
                while len(self._ready) >= _PREPARED:
                    del self._ready[next(iter(self._ready))]
                self._ready[key] = ready
            self.device.guard(lambda: self.device.enqueue(ready, groups, self.block))
