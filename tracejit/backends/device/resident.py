"""Arrays that lie on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.backends.base import Resident
from tracejit.backends.device.memory import DeviceBuffer

__all__ = ["DeviceArray"]


class DeviceArray(Resident):
    """A row-major array in a device's memory.  The host's copy is made when it is first asked for, and kept."""

    __slots__ = ("_host", "buffer")

    def __init__(self, buffer: DeviceBuffer, dtype: np.dtype[Any], shape: tuple[int, ...], place: str) -> None:
        self.dtype = dtype
        self.shape = shape
        self.place = place
        self.kind = (place, dtype, shape)
        self.buffer = buffer
        self._host: Any = None

    def host(self) -> Any:
        if self._host is None:
            found = self.buffer.device.to_host(self.buffer, self.dtype, self.shape)
            found.flags.writeable = False
            self._host = found if self.shape else found[()]
        return self._host

    def wait(self) -> None:
        self.buffer.device.synchronize()
