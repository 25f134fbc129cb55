"""State spaces as NumPy arrays: every access is checked against what is allocated, and for its alignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.standin.exact import Array

__all__ = [
    "AccessFault",
    "GlobalMemory",
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "Range",
    "SHARED_WINDOW",
    "SlicedMemory",
    "check_alignment",
    "window_of",
]

SHARED_WINDOW = 0x7100_0000_0000_0000
"""Where shared memory is among generic addresses."""
LOCAL_WINDOW = 0x7200_0000_0000_0000
PARAM_WINDOW = 0x7300_0000_0000_0000

_ILLEGAL_ADDRESS = 700
_MISALIGNED_ADDRESS = 716


class AccessFault(Exception):
    """The access at `position` of those that one instruction makes is wrong."""

    def __init__(self, position: int, address: int, reason: str, code: int = _ILLEGAL_ADDRESS) -> None:
        super().__init__(reason)
        self.position = position
        self.address = address
        self.code = code


@dataclass(frozen=True, order=True)
class Range:
    """`size` bytes that kernels see at `device`, and this process at `host`."""

    device: int
    size: int
    host: int


class _Bytes:
    """Memory of this process, for NumPy."""

    def __init__(self, address: int, count: int, dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {
            "shape": (count,), "typestr": dtype.str, "data": (address, False), "version": 3,
        }  # fmt: skip


def check_alignment(addresses: Array, size: int, space: str) -> None:
    """Raises: AccessFault if an address is no multiple of `size`."""
    wrong = addresses & np.uint64(size - 1) != 0
    if wrong.any():
        at = int(np.argmax(wrong))
        raise AccessFault(at, int(addresses[at]), f"misaligned {space} access of {size} bytes", _MISALIGNED_ADDRESS)


class GlobalMemory:
    """All that is allocated, seen as one array over the addresses between: bounds are checked before it is indexed."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        ordered = sorted(r for r in ranges if r.size)
        self._bases = np.array([r.device for r in ordered], "u8")
        self._ends = np.array([r.device + r.size for r in ordered], "u8")
        self._origin = min((r.host for r in ordered), default=0) & ~0xFF
        self._offsets = np.array([r.host - self._origin for r in ordered], "u8")
        self._extent = max((r.host + r.size for r in ordered), default=0) - self._origin
        self._views: dict[np.dtype[Any], Array] = {}

    def _view(self, dtype: np.dtype[Any]) -> Array:
        found = self._views.get(dtype)
        if found is None:
            count = -(-self._extent // dtype.itemsize)
            found = self._views[dtype] = np.asarray(_Bytes(self._origin, count, dtype))
        return found

    def address_of(self, offset: int) -> int:
        """The address of the byte at an offset in the arrays that `place` gives."""
        within = [i for i, o in enumerate(self._offsets.tolist()) if o <= offset]
        nearest = max(within, key=lambda i: int(self._offsets[i]))
        return int(self._bases[nearest]) + offset - int(self._offsets[nearest])

    def place(self, addresses: Array, dtype: np.dtype[Any], align: int) -> tuple[Array, Array]:
        """An array and where in it the elements at `addresses` are.

        Raises: AccessFault."""
        size = np.uint64(dtype.itemsize)
        check_alignment(addresses, align, "global")
        if not self._bases.size:
            raise AccessFault(0, int(addresses[0]), "global access where nothing is allocated")
        after = np.searchsorted(self._bases, addresses, side="right")
        which = np.maximum(after, 1) - 1
        room = self._ends[which] - addresses
        wrong = (after == 0) | (addresses >= self._ends[which]) | (room < size)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise AccessFault(at, int(addresses[at]), f"global access of {size} bytes out of bounds")
        index = (addresses - self._bases[which] + self._offsets[which]) // size
        return self._view(dtype), index.astype(np.intp)


class SlicedMemory:
    """Shared memory (a slice for each block) or local memory (one for each thread): `size` bytes each."""

    def __init__(self, space: str, slices: int, size: int, poison: int) -> None:
        self._space = space
        self._poison = poison
        self.size = size
        self.stride = -(-size // 16) * 16
        self._slices = slices
        self.bytes = np.full(slices * self.stride, poison, "u1")

    def grow(self, size: int) -> None:
        """Makes every slice at least `size` bytes long, keeping what is there."""
        if size > self.size:
            old = self.bytes.reshape(self._slices, -1)
            self.stride = -(-size // 16) * 16
            new = np.full((self._slices, self.stride), self._poison, "u1")
            new[:, : old.shape[1]] = old
            self.bytes = new.reshape(-1)
            self.size = size

    def forget(self, slices: Array, start: int, size: int) -> None:
        """Makes part of some slices fresh again."""
        self.bytes.reshape(self._slices, -1)[slices, start : start + size] = self._poison

    def place(self, addresses: Array, dtype: np.dtype[Any], align: int, slices: Array) -> tuple[Array, Array]:
        """As `GlobalMemory.place`; `slices` says whose slice each address is in.

        Raises: AccessFault."""
        check_alignment(addresses, align, self._space)
        size = dtype.itemsize
        wrong = (addresses >= self.size) | (addresses + np.uint64(size) > self.size)
        if wrong.any():
            at = int(np.argmax(wrong))
            text = f"{self._space} access of {size} bytes out of bounds: {self.size} bytes are there"
            raise AccessFault(at, int(addresses[at]), text)
        index = (slices * self.stride + addresses.astype(np.intp)) // size
        return self.bytes.view(dtype), index


def window_of(addresses: Array) -> Array:
    """The window of each generic address: its upper byte."""
    return addresses & np.uint64(0xFF00_0000_0000_0000)
