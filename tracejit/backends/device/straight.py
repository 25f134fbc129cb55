"""Programs that are launches only, for arguments of known shapes on the device: a call looks its launches up by the
memory that they touch, and enqueues them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracejit.backends.device.launch import Launchable, Prepared
from tracejit.backends.device.memory import DeviceBuffer, Owned
from tracejit.backends.device.resident import DeviceArray
from tracejit.ir.extents import evaluate
from tracejit.ir.program import Launch, Program, ProgramBuffer
from tracejit.ir.scalar import numpy_dtype

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device

__all__ = ["Straight"]

_PREPARED = 8  # sets of arguments that are kept ready: results that are still in use take other memory


class Straight:
    """One program for one set of extents."""

    def __init__(
        self,
        program: Program,
        launchables: Mapping[int, Launchable],
        device: Device,
        place: str,
        dims: Mapping[str, int],
    ) -> None:
        self.device = device
        self.place = place
        self._number: dict[ProgramBuffer, int] = {b: n for n, b in enumerate(program.inputs)}
        self._steps: list[tuple[Launchable, tuple[int, ...], dict[str, int]]] = []
        for s in program.steps:
            assert isinstance(s, Launch)
            for b in s.arguments:
                self._number.setdefault(b, len(self._number))
            arguments = tuple(self._number[b] for b in s.arguments)
            self._steps.append((launchables[id(s)], arguments, {d: dims[d] for d in s.kernel.dims}))
        for b in program.outputs:
            self._number.setdefault(b, len(self._number))
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
        place = self.place
        return [
            arrays[n]
            if n < len(arrays)
            else DeviceArray(DeviceBuffer(memory[n], self._bytes[n - len(arrays)], device), dtype, shape, place)
            for n, dtype, shape in self._results
        ]

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
