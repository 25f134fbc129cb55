"""Arrays that lie on a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracejit.backends.base import Pending, Resident
from tracejit.backends.device.memory import DeviceBuffer
from tracejit.backends.device.slices import copied_part

__all__ = ["DeviceArray", "at_most", "pending_on"]

_PENDING = 8  # checks that an array may depend on before somebody looks at them


def pending_on(arrays: Iterable[Any]) -> list[Pending]:
    """The checks on which some of `arrays` depend, each once."""
    found = [check for x in arrays if isinstance(x, Resident) for check in x.pending if not check.passed]
    return list(dict.fromkeys(found)) if found else found


def at_most(checks: Sequence[Pending], kept: bool) -> tuple[Pending, ...]:
    """The checks that stay pending: all of them, or none where they are too many; then they are waited for.

    kept: whether there is a result that they can be pending on.  Raises: the error of one that has failed.
    """
    if len(checks) > _PENDING or not kept:
        for check in checks:
            check.look()
    return tuple([check for check in checks if not check.passed])


class DeviceArray(Resident):
    """A row-major array in a device's memory.  What the host sees of it, a copy unless it shares the memory, is kept
    from when it is first asked for.
    """

    __slots__ = ("_host", "buffer")

    def __init__(
        self,
        buffer: DeviceBuffer,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        place: str,
        pending: tuple[Pending, ...] = (),
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.place = place
        self.kind = (place, dtype, shape)
        self.pending = pending
        self.buffer = buffer
        self._host: Any = None

    def host(self) -> Any:
        self.look()
        if self._host is None:
            device = self.buffer.device
            found = (device.look if self.shape else device.to_host)(self.buffer, self.dtype, self.shape)
            found.flags.writeable = False
            self._host = found if self.shape else found[()]
        return self._host

    def part(self, index: tuple[Any, ...]) -> DeviceArray:
        made, shape = copied_part(self.buffer, self.dtype, self.shape, index)
        return DeviceArray(made, self.dtype, shape, self.place, self.pending)

    def cuda_address(self) -> int | None:
        address = self.buffer.device.cuda_address(self.buffer.memory.raw)
        if address is not None:
            self.wait()
        return address

    def wait(self) -> None:
        self.buffer.device.synchronize()
        self.look()
