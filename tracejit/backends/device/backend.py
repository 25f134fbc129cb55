"""What backends have in common whose programs run on a device."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from tracejit.backends.base import DEVICE_KINDS, Backend, Resident
from tracejit.backends.device.device import Device
from tracejit.backends.device.program import DeviceProgram
from tracejit.backends.device.resident import DeviceArray
from tracejit.ir.program import Program
from tracejit.support.config import variable
from tracejit.support.errors import BackendUnavailable
from tracejit.support.members import Member

__all__ = ["DeviceBackend", "named_device"]

D = TypeVar("D", bound=Device)


class DeviceBackend(Backend, Generic[D]):
    """Programs run on `device`, one of `devices`, and arrays lie there, at `place`."""

    is_scheduled: ClassVar[bool] = True
    devices: tuple[D, ...]
    number: int

    def __init__(self, devices: Sequence[D], wanted: str = "") -> None:
        """devices: all there are.  wanted: the variable of tracejit's, without TRACEJIT_, that says which of them is
        the one where nobody names one: the first, otherwise.   Raises: BackendUnavailable.
        """
        self.devices = tuple(devices)
        named = variable(wanted) if wanted else ""
        self.number = self.devices.index(named_device(named or "", self.devices, f"TRACEJIT_{wanted}"))
        self._others: dict[int, Self] = {self.number: self}

    @property
    def device(self) -> D:
        """Where programs run."""
        return self.devices[self.number]

    @property
    def place(self) -> str:
        return f"{self.name}:{self.number}"

    @property
    def kind(self) -> Member:
        return DEVICE_KINDS("cpu" if self.device.software else "gpu")

    def places(self) -> Mapping[str, str]:
        return {f"{self.name}:{n}": d.name for n, d in enumerate(self.devices)}

    def at(self, place: str) -> Self:
        for number, known in enumerate(self.places()):
            if known == place:
                found = self._others.get(number)
                if found is None:
                    found = copy.copy(self)
                    found.number = number
                    found = self._others.setdefault(number, found)
                return found
        raise BackendUnavailable(f"there is no device {place!r}; there are {', '.join(self.places())}")

    def put(self, array: np.ndarray[Any, Any], place: str) -> Resident:
        device = self.at(place).device
        return DeviceArray(device.from_host(array), array.dtype, array.shape, place)

    def compile(self, program: Program) -> DeviceProgram:
        return DeviceProgram(program, self.device, self.place)


def named_device(wanted: str, found: Sequence[D], variable: str) -> D:
    """The device a text names: an ordinal, or part of a device's name; the first one for an empty text.

    variable: where the text comes from.  Raises BackendUnavailable.
    """
    if not wanted:
        return found[0]
    if wanted.isdigit() and int(wanted) < len(found):
        return found[int(wanted)]
    named = [d for d in found if wanted.lower() in d.name.lower()]
    if not named or wanted.isdigit():
        names = ", ".join(f"{n}: {d.name}" for n, d in enumerate(found))
        raise BackendUnavailable(f"{variable}={wanted} names no device; there are {names}")
    return named[0]
