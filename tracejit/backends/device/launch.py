"""Compiled kernels with their arguments made ready: a launch looks them up and enqueues."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.grid import GridProgram, GridSchedule
from tracejit.backends.printing import Argument, EntryPoint
from tracejit.ir.extents import evaluate
from tracejit.ir.kernel import Buffer, Kernel
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.errors import LaunchError, UnsupportedError
from tracejit.support.nodes import evolve, frozen

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device

__all__ = ["Launchable", "Prepared"]

_PREPARED = 4  # sets of arguments that a kernel keeps ready: loops exchange two


@frozen(eq=False)
class Prepared:
    """The driver's launches with their arguments, and how many groups each has.

    wide: what runs instead.  keeps: the kernel's own memory, to which the arguments point.
    """

    launches: tuple[Any, ...] = ()
    groups: tuple[int, ...] = ()
    wide: Launchable | None = None
    keeps: tuple[DeviceBuffer, ...] = ()


class Launchable:
    """A compiled kernel: one or more device kernels that run in order."""

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        schedule: GridSchedule,
        bound: GridProgram,
        module: Any,
        entries: Sequence[EntryPoint],
        source: str,
    ) -> None:
        self.device = device
        self.kernel = kernel
        self.schedule = schedule
        self.program = bound
        self.source = source
        self.entries = entries
        self.module = module
        self._wide: Launchable | None = None
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._temporaries: tuple[Any, dict[str, DeviceBuffer]] | None = None
        self._lock = threading.Lock()
        self._functions = [device.function(module, entry) for entry in entries]
        self._check_groups()

    def _check_groups(self) -> None:
        """A kernel that needs many registers may not run in groups as large as asked for."""
        for launch, function in zip(self.program.launches, self._functions, strict=True):
            most = self.device.most_items(function)
            if launch.work_group > most:
                name = launch.kernel.name
                raise UnsupportedError(
                    f"{name} runs in groups of at most {most} work-items on {self.device.name}, not {launch.work_group}"
                )

    def launch(self, buffers: Sequence[DeviceBuffer], dims: Mapping[str, int] | None = None) -> None:
        """Enqueue; `buffers` in the order of the kernel's parameters,
        `dims` the extents its symbols have.  Does not wait.

        Raises: LaunchError when the device refuses, or a buffer is too small or lies on another device.
        """
        dims = dims or {}
        key = (*(b.key for b in buffers), *dims.items())
        with self._lock:
            ready = self._prepared.get(key)
            if ready is None:
                ready = self.device.guard(lambda: self._prepare(buffers, dims))
                while len(self._prepared) >= _PREPARED:
                    del self._prepared[next(iter(self._prepared))]
                self._prepared[key] = ready
            if ready.wide is not None:
                ready.wide.launch(buffers, dims)
            else:
                self.device.guard(lambda: self._enqueue(ready))

    def made_ready(self, buffers: Sequence[DeviceBuffer], dims: Mapping[str, int]) -> tuple[Launchable, Prepared]:
        """The kernel that runs for these arguments, this one or the same with wider arithmetic, and what its `again`
        enqueues.   Raises: as `launch`.
        """
        with self._lock:
            ready = self.device.guard(lambda: self._prepare(buffers, dims))
        return (self, ready) if ready.wide is None else ready.wide.made_ready(buffers, dims)

    def again(self, ready: Prepared) -> None:
        """Enqueue what is prepared.  The driver's exceptions are the caller's to name."""
        with self._lock:  # its launches share the kernel's own memory
            self._enqueue(ready)

    def _wider(self) -> Launchable:
        """The same kernel with 64-bit arithmetic on the numbers of iterations."""
        if self._wide is None:
            self._wide = self.device.compile_kernel(self.kernel, evolve(self.schedule, wide=True))
        return self._wide

    def _enqueue(self, ready: Prepared) -> None:
        for prepared, launch, groups in zip(ready.launches, self.program.launches, ready.groups, strict=True):
            if groups:
                self.device.enqueue(prepared, groups, launch.work_group)

    def _prepare(self, buffers: Sequence[DeviceBuffer], dims: Mapping[str, int]) -> Prepared:
        missing = [d for d in self.kernel.dims if d not in dims]
        if missing or len(buffers) != len(self.kernel.buffers):
            names = ", ".join(self.kernel.dims) or "none"
            raise LaunchError(
                f"kernel {self.kernel.name} takes {len(self.kernel.buffers)} buffers and the extents {names}"
            )
        by_name = {b.name: self._checked(b, given, dims) for b, given in zip(self.kernel.buffers, buffers, strict=True)}
        if (
            not self.schedule.wide
            and self.kernel.dims
            and any(a.iterations(dims) >= 2**31 for a in self.program.launches)
        ):
            return Prepared(wide=self._wider())
        temporaries = self._temporaries_for(dims)
        by_name |= temporaries
        launches: list[Any] = []
        for function, launch, entry in zip(self._functions, self.program.launches, self.entries, strict=True):
            shapes = {b.name: b for b in launch.kernel.buffers}
            values = [self._argument(a, by_name, shapes, dims) for a in entry.arguments]
            launches.append(self.device.prepare(function, values))
        groups = tuple(a.items(dims) // a.work_group for a in self.program.launches)
        return Prepared(tuple(launches), groups, keeps=tuple(temporaries.values()))

    def _temporaries_for(self, dims: Mapping[str, int]) -> dict[str, DeviceBuffer]:
        """The kernel's own memory.  Work is done in order, so one launch may use what the one before it used."""
        key = tuple(sorted(dims.items()))
        if self._temporaries is None or self._temporaries[0] != key:
            self._prepared.clear()  # their arguments are the memory that goes now
            self._temporaries = None
            self._temporaries = (
                key,
                {t.name: self.device.alloc(_bytes(t, dims), t.dtype) for t in self.program.temporaries},
            )
        return self._temporaries[1]

    def _checked(self, buffer: Buffer, given: DeviceBuffer, dims: Mapping[str, int]) -> DeviceBuffer:
        if given.device is not self.device:
            raise LaunchError(
                f"buffer {buffer.name} lies on {given.device.name}, not on {self.device.name}; copy it there first"
            )
        if buffer.layout == "C" and (given.strides is not None or given.offset):
            raise LaunchError(f"buffer {buffer.name} must be row-major from its first byte")
        needed = _bytes(buffer, dims)
        if buffer.layout == "C" and given.nbytes < needed:
            raise LaunchError(f"buffer {buffer.name} needs {needed} bytes, not {given.nbytes}")
        if buffer.layout != "C" and needed:
            self._check_view(buffer, given, dims)
        return given

    def _check_view(self, buffer: Buffer, given: DeviceBuffer, dims: Mapping[str, int]) -> None:
        """A view stays inside its bytes: what lies outside belongs to others."""
        item = numpy_dtype(buffer.dtype).itemsize
        strides = _strides(buffer, given, dims)
        if buffer.layout == "unit" and strides and strides[-1] != item and evaluate(buffer.shape[-1], dims) > 1:
            raise LaunchError(f"the last stride of buffer {buffer.name} is {strides[-1]} bytes, not {item}")
        spans = [(evaluate(n, dims) - 1) * step for n, step in zip(buffer.shape, strides, strict=True)]
        first = given.offset + sum(s for s in spans if s < 0)
        last = given.offset + sum(s for s in spans if s > 0) + item
        if first < 0 or last > given.nbytes:
            raise LaunchError(f"buffer {buffer.name} reaches from byte {first} to {last} of {given.nbytes}")

    def _argument(
        self, a: Argument, by_name: Mapping[str, DeviceBuffer], buffers: Mapping[str, Buffer], dims: Mapping[str, int]
    ) -> Any:
        """The driver's buffer, or a number of 64 bits."""
        match a.kind:
            case "buffer":
                return by_name[a.name].memory.raw
            case "offset":
                return by_name[a.name].offset
            case "stride":
                return _strides(buffers[a.name], by_name[a.name], dims)[a.axis]
            case _:
                return dims[a.name]


def _bytes(buffer: Buffer, dims: Mapping[str, int]) -> int:
    count = numpy_dtype(buffer.dtype).itemsize
    for n in buffer.shape:
        count *= evaluate(n, dims)
    return count


def _strides(buffer: Buffer, given: DeviceBuffer, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Byte strides: those of the view, or row-major ones."""
    if given.strides is not None:
        if len(given.strides) != len(buffer.shape):
            raise LaunchError(
                f"buffer {buffer.name} of rank {len(buffer.shape)} was given {len(given.strides)} strides"
            )
        return given.strides
    strides, step = [0] * len(buffer.shape), numpy_dtype(buffer.dtype).itemsize
    for axis in reversed(range(len(buffer.shape))):
        strides[axis] = step
        step *= evaluate(buffer.shape[axis], dims)
    return tuple(strides)
