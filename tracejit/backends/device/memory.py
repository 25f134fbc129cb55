"""Device memory: buffers, and a pool that gives freed ones out again."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define

from tracejit.support.errors import OutOfMemory

if TYPE_CHECKING:
    from tracejit.backends.device.device import Device

__all__ = ["DeviceBuffer", "Owned", "Pool"]

_serials = itertools.count()


@define(eq=False)
class DeviceBuffer:
    """Bytes on a device.  `offset` and `strides` (bytes) place an array in them:
    None is row-major from the first byte.
    """

    memory: Owned
    nbytes: int
    device: Device
    offset: int = 0
    strides: tuple[int, ...] | None = None

    def view(self, offset: int, strides: Sequence[int]) -> DeviceBuffer:
        """The same bytes seen from byte `offset` with these byte strides (negative and zero included)."""
        return DeviceBuffer(self.memory, self.nbytes, self.device, offset, tuple(strides))

    @property
    def key(self) -> tuple[Any, ...]:
        """What a prepared launch depends on; never that of another buffer, not even of one that is gone."""
        return self.memory.serial, self.nbytes, self.offset, self.strides


class Owned:
    """A driver's buffer that goes back to its pool."""

    __slots__ = ("capacity", "pool", "raw", "serial", "size")

    def __init__(self, raw: Any, serial: int, size: int, capacity: int, pool: Pool) -> None:
        self.raw = raw
        self.serial = serial  # of the driver's buffer: one that is given out again is the same to a prepared launch
        self.size = size
        self.capacity = capacity
        self.pool = pool

    def __del__(self) -> None:
        self.pool.give_back(self)


def _capacity(size: int) -> int:
    """The size class of a request: four classes an octave."""
    step = 1 << max(4, (size - 1).bit_length() - 3)
    return -(-size // step) * step


class Pool:
    """Buffers by size class.  A device does its work in order, so memory may be given out again before the work
    that used it is done.

    create, release: the driver's, of so many bytes.  full: what it raises where there is no memory.  largest: the most
    bytes of a buffer.  limit: how many are held for later requests.
    """

    def __init__(
        self,
        create: Callable[[int], Any],
        release: Callable[[Any], None],
        full: type[Exception],
        name: str,
        largest: int,
        limit: int,
    ) -> None:
        self.name = name
        self.largest = largest
        self.limit = limit
        self.in_use = 0
        self.held = 0
        self.peak = 0
        self._create, self._release, self._full = create, release, full
        self._free: dict[int, list[tuple[Any, int]]] = {}
        self._lock = threading.RLock()  # a buffer may be collected while this thread is in here

    def take(self, nbytes: int) -> Owned:
        """A buffer of at least `nbytes`, not initialised.  Raises OutOfMemory with bytes and peak."""
        size = max(nbytes, 16)  # there are no buffers without bytes
        capacity = _capacity(size)
        with self._lock:
            known = self._free.get(capacity)
            raw, serial = known.pop() if known else (None, 0)
            if raw is not None:
                self.held -= capacity
        if raw is None:
            raw, serial = self._made(size, capacity), next(_serials)
        with self._lock:
            self.in_use += size
            self.peak = max(self.peak, self.in_use)
        return Owned(raw, serial, size, capacity, self)

    def _made(self, size: int, capacity: int) -> Any:
        if size > self.largest:
            raise OutOfMemory(
                f"{self.name} allocates at most {self.largest} bytes at once", requested=size, peak=self.peak
            )
        try:
            return self._create(capacity)
        except self._full:
            gc.collect()
            self.trim()
        try:
            return self._create(capacity)
        except self._full as error:
            raise OutOfMemory(f"{self.name} has no memory left: {error}", requested=size, peak=self.peak) from error

    def give_back(self, owned: Owned) -> None:
        """Keep a buffer for the next request of its class, or release it."""
        with self._lock:
            self.in_use -= owned.size
            if self.held + owned.capacity <= self.limit:
                self._free.setdefault(owned.capacity, []).append((owned.raw, owned.serial))
                self.held += owned.capacity
                return
        self._release(owned.raw)

    def trim(self) -> None:
        """Release all memory that is held for later requests."""
        with self._lock:
            held, self._free, self.held = self._free, {}, 0
        for raw, _ in [x for same in held.values() for x in same]:
            self._release(raw)
