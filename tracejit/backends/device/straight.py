"""Programs that are launches and checks, for arguments of known shapes on the device: a call looks its launches up by
the memory that they touch, and enqueues them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracejit.backends.base import Pending
from tracejit.backends.device.launch import Launchable, Prepared
from tracejit.backends.device.memory import DeviceBuffer, Owned
from tracejit.backends.device.resident import DeviceArray, at_most, pending_on
from tracejit.ir.extents import evaluate
from tracejit.ir.program import Check, Launch, Program, ProgramBuffer
from tracejit.ir.scalar import numpy_dtype

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device

__all__ = ["Straight"]

_PREPARED = 16  # sets of arguments that are kept ready: results that are still in use take other memory


class Straight:
    """One program for one set of extents."""

    def __init__(
        self,
        program: Program,
        launchables: Mapping[int, Launchable],
        device: Device,
        place: str,
        dims: Mapping[str, int],
        explain: Callable[[int], Exception],
    ) -> None:
        self.device = device
        self.place = place
        self.explain = explain
        self._number: dict[ProgramBuffer, int] = {b: n for n, b in enumerate(program.inputs)}
        self._steps: list[tuple[Launchable, tuple[int, ...], dict[str, int]]] = []
        launches = [s for s in program.steps if isinstance(s, Launch)]
        for s in launches:
            for b in s.arguments:
                self._number.setdefault(b, len(self._number))
            arguments = tuple(self._number[b] for b in s.arguments)
            self._steps.append((launchables[id(s)], arguments, {d: dims[d] for d in s.kernel.dims}))
        for b in program.outputs:
            self._number.setdefault(b, len(self._number))
        self._checks = [(self._number[s.failure], s.failure) for s in program.steps if isinstance(s, Check)]
        shapes = {b: tuple(evaluate(n, dims) for n in b.room) for b in self._number}
        made = list(self._number)[len(program.inputs) :]
        self._bytes = [math.prod(shapes[b]) * numpy_dtype(b.dtype).itemsize for b in made]
        self._results = [(self._number[b], numpy_dtype(b.dtype), shapes[b]) for b in program.outputs]
        self._ready: dict[tuple[int, ...], list[tuple[Launchable, Prepared]]] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The results, which stay on the device.   Raises: OutOfMemory, LaunchError."""
        device = self.device
        memory: list[Owned] = [a.buffer.memory for a in arrays]
        take = device.pool.take
        for nbytes in self._bytes:
            memory.append(take(nbytes))
        key = tuple([m.serial for m in memory])
        ready = self._ready.get(key)
        if ready is None:
            ready = self._prepared(key, memory, arrays)

        def enqueue() -> None:
            for launchable, prepared in ready:
                launchable.again(prepared)

        device.guard(enqueue)
        pending = self._pending(arrays, memory) if self._checks or any([a.pending for a in arrays]) else ()
        place = self.place
        return [
            arrays[n]
            if n < len(arrays) and not pending
            else DeviceArray(
                arrays[n].buffer if n < len(arrays) else DeviceBuffer(memory[n], self._bytes[n - len(arrays)], device),
                dtype,
                shape,
                place,
                pending,
            )
            for n, dtype, shape in self._results
        ]

    def _pending(self, arrays: Sequence[Any], memory: Sequence[Owned]) -> tuple[Pending, ...]:
        """The checks on which the results depend: those of the arguments, and the program's."""
        checks = pending_on(arrays)
        for n, b in self._checks:
            flag = DeviceBuffer(memory[n], self._bytes[n - len(arrays)], self.device)
            checks.append(Pending(functools.partial(_read, flag, numpy_dtype(b.dtype)), self.explain))
        return at_most(checks, bool(self._results))

    def _prepared(
        self, key: tuple[int, ...], memory: Sequence[Owned], arrays: Sequence[Any]
    ) -> list[tuple[Launchable, Prepared]]:
        buffers = [a.buffer for a in arrays]
        buffers += [DeviceBuffer(m, n, self.device) for m, n in zip(memory[len(arrays) :], self._bytes, strict=True)]
        ready: list[tuple[Launchable, Prepared]] = []
        for launchable, numbers, dims in self._steps:
            runs, made = launchable.made_ready([buffers[n] for n in numbers], dims)
            ready.append((runs, made))
        while len(self._ready) >= _PREPARED:
            self._ready.pop(next(iter(self._ready)), None)
        self._ready[key] = ready
        return ready


def _read(flag: DeviceBuffer, dtype: Any) -> int:
    return int(flag.device.to_host(flag, dtype, ()))
