"""What backends have in common whose programs run on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from tracejit.backends.base import Backend, Resident
from tracejit.backends.device.device import Device
from tracejit.backends.device.resident import DeviceArray
from tracejit.support.errors import UnsupportedError

__all__ = ["DeviceBackend"]

D = TypeVar("D", bound=Device)


class DeviceBackend(Backend, Generic[D]):
    """Programs run on `device`, and arrays lie there, at `place`."""

    is_scheduled: ClassVar[bool] = True
    device: D

    @property
    def place(self) -> str:
        """The name of the device among places."""
        return f"{self.name}:0"

    def places(self) -> Mapping[str, str]:
        return {self.place: self.device.name}

    def put(self, array: np.ndarray[Any, Any], place: str) -> Resident:
        if place != self.place:
            raise UnsupportedError(f"the {self.name} backend runs on {self.place}, not on {place}")
        return DeviceArray(self.device.from_host(array), array.dtype, array.shape, place)
