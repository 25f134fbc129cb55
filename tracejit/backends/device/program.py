"""Programs on a device: kernels compiled for it, arguments copied there, results back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.backends.base import Resident
from tracejit.backends.device.calls import CalledKernel
from tracejit.backends.device.device import Device
from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.device.resident import DeviceArray, at_most, pending_on
from tracejit.backends.device.straight import Straight
from tracejit.backends.grid import GridSchedule
from tracejit.backends.runner import Later, plan_of, run_arguments, run_in_memory, run_program
from tracejit.ir.program import Call, Check, KernelCall, Launch, Program, ProgramBuffer, walk_steps
from tracejit.ir.scalar import numpy_dtype
from tracejit.ir.schedule import Grid, Schedule
from tracejit.support.config import config
from tracejit.support.errors import ScheduleError, UnsupportedError
from tracejit.support.nodes import evolve

__all__ = ["GRID_OPTIONS", "DeviceProgram", "grid_schedule"]

GRID_OPTIONS = ("work_group", "groups", "rows", "stage", "jam")  # fields of GridSchedule that a schedule may set

_ARRAY_BYTES = 1 << 15  # of a thread's own arrays on a processor

Array = np.ndarray[Any, Any]


class DeviceProgram:
    """A program whose kernels are compiled for one device.  Arguments are copied there, results back."""

    def __init__(self, program: Program, device: Device, place: str = "") -> None:
        self.program = program
        self.device = device
        self.place = place
        self._plan = plan_of(program)
        steps = [s for s in walk_steps(program.steps) if isinstance(s, Launch)]
        schedules = [self._grid_schedule(s.schedule) for s in steps]
        compiled = device.compile_kernels([s.kernel for s in steps], schedules, program.code) if steps else []
        self._launchables = {id(s): c for s, c in zip(steps, compiled, strict=True)}
        calls = [s for s in walk_steps(program.steps) if isinstance(s, KernelCall)]
        backend = place.partition(":")[0]
        self._called = {id(s): CalledKernel(device, backend, s) for s in calls}

    def _grid_schedule(self, schedule: Schedule) -> GridSchedule:
        """For a kernel of the program: on a processor it is scheduled already, unless it has options of a grid."""
        default = self.device.default_schedule
        if self.device.cores and not any(isinstance(d, Grid) for d in schedule.directives):
            return evolve(default, cores=True, array_bytes=_ARRAY_BYTES)
        return grid_schedule(schedule, default)

    def run(self, inputs: Sequence[Array], dims: dict[str, int]) -> list[Array]:
        """The results, in the order of the signature.  Raises OutOfMemory, LaunchError."""
        for check in pending_on(inputs):
            check.look()
        return run_program(self._plan, self, inputs, dims)

    def run_resident(
        self, inputs: Sequence[Array | Resident], dims: dict[str, int], explain: Callable[[int], Exception]
    ) -> list[Resident]:
        """The results, which stay on the device.  Arguments that are there are not copied, checks not waited for.

        Raises: OutOfMemory, LaunchError; UnsupportedError for an argument on another device; what a check has found
        where the program depends on it: for a loop or a branch, or because many are to be looked at by now.
        """
        later = Later(explain, pending_on(inputs))
        found = run_arguments(self._plan, self, inputs, dims, later)
        pending = at_most(later.checks, bool(found))
        return [DeviceArray(m, numpy_dtype(b.dtype), shape, self.place, pending) for m, b, shape in found]

    def straight(
        self, inputs: Sequence[Resident], dims: Mapping[str, int], explain: Callable[[int], Exception]
    ) -> Callable[[Sequence[Resident]], list[Resident]] | None:
        """What runs the program for arguments of the same kinds, all on the device, where it is launches and checks."""
        there = all(isinstance(x, DeviceArray) and x.buffer.device is self.device for x in inputs)
        if not there or config.poison or not all(isinstance(s, (Launch, Check)) for s in self.program.steps):
            return None
        return Straight(self.program, self._launchables, self.device, self.place, dims, explain)

    def prepare(self, inputs: Sequence[Array], dims: dict[str, int]) -> Callable[[], None]:
        """Runs on arguments that are on the device already, for measuring."""
        queue = self.queued(inputs, dims)

        def call() -> None:
            queue()
            self.device.synchronize()

        return call

    def queued(self, inputs: Sequence[Array], dims: dict[str, int]) -> Callable[[], None]:
        """As `prepare`, but does not wait; `device.synchronize` does."""
        resident = [self.upload(x, "C") for x in inputs]

        def call() -> None:
            run_in_memory(self._plan, self, resident, dims)

        return call

    def identity(self) -> str:
        """The source, and the sizes it is launched with."""
        groups = [str([launch.work_group for launch in x.program.launches]) for x in self._launchables.values()]
        return "\n".join([*groups, self.text("code")])

    def text(self, stage: str) -> str:
        """The source; for "asm" what the driver made of it, where that is text."""
        if stage == "asm":
            modules = {id(x.module): x.module for x in self._launchables.values()}
            return "\n\n".join(dict.fromkeys(map(self.device.binary_text, modules.values())))
        return "\n\n".join(dict.fromkeys(x.source for x in self._launchables.values()))

    # What the runner asks for

    def allocate(self, dtype: str, shape: tuple[int, ...]) -> DeviceBuffer:
        return self.device.alloc(math.prod(shape) * numpy_dtype(dtype).itemsize, dtype)

    def upload(self, array: Array | Resident, layout: str) -> DeviceBuffer:
        if isinstance(array, DeviceArray) and array.buffer.device is self.device:
            return array.buffer
        if isinstance(array, Resident):
            raise UnsupportedError(
                f"an argument lies on {array.place}, and the function runs on {self.place}; move it there: "
                f"tj.device_put(x, {self.place!r})"
            )
        return self.device.from_host(array)  # row-major, which is a case of every layout

    def download(self, memory: DeviceBuffer, dtype: str, shape: tuple[int, ...]) -> Array:
        return self.device.to_host(memory, numpy_dtype(dtype), shape)

    def copy(self, target: DeviceBuffer, source: DeviceBuffer) -> None:
        self.device.copy(source, target, min(source.nbytes, target.nbytes))

    def call(self, step: Call, memory: Mapping[ProgramBuffer, DeviceBuffer], dims: Mapping[str, int]) -> None:
        self._called[id(step)].launch(memory, dims)

    def launch(self, step: Launch, arguments: Sequence[DeviceBuffer], dims: Mapping[str, int]) -> None:
        self._launchables[id(step)].launch(arguments, {d: dims[d] for d in step.kernel.dims})


def grid_schedule(schedule: Schedule, default: GridSchedule) -> GridSchedule:
    """A device's default with the options of a schedule.  Raises ScheduleError for an option there is not."""
    options: dict[str, Any] = {}
    for d in schedule.directives:
        if not isinstance(d, Grid) or d.option not in GRID_OPTIONS:
            raise ScheduleError(f"{d}: on a grid the options {', '.join(GRID_OPTIONS)} may be set")
        if d.value not in ("auto", "item", "group") if d.option == "rows" else not isinstance(d.value, int):
            raise ScheduleError(f"{d}: rows are shared out by auto, item or group; other options are powers of two")
        options[d.option] = d.value
    return evolve(default, **options)
