"""Memory of a Vulkan device: allocations, what launches are given in it, and the way of data to and from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.support.nodes import define

if TYPE_CHECKING:
    from tracejit.backends.vulkan.queue import Queue

__all__ = ["HOST", "LOCAL", "Memory", "SHARED", "Slabs", "Staging"]

_USAGE = 0x1 | 0x2 | 0x20 | 0x20000  # transfers from and to it, storage, addresses (VK_BUFFER_USAGE_...)
_ADDRESSES = 0x2  # VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
_DEVICE, _VISIBLE, _COHERENT, _CACHED = 1, 2, 4, 8  # VK_MEMORY_PROPERTY_...
HOST = (_VISIBLE | _COHERENT | _CACHED, _VISIBLE | _COHERENT)
LOCAL = (_DEVICE, 0)
SHARED = (_DEVICE | HOST[0], _DEVICE | HOST[1], *HOST)
"""What kinds of memory are wanted, best first: the host's, the device's, and what is both."""
_SMALL = 1 << 16  # bytes: smaller ones are slices of an allocation, of which drivers have as few as 4096
_SLICE = 256  # bytes: slices begin at multiples of it
_SLICES = 16  # of an allocation, at least
_STAGING = 1 << 23  # bytes that travel at once


@define(eq=False)
class Memory:
    """A buffer with memory of its own, or a slice of one.

    memory: the allocation.  address: on the device.  view: its bytes, where the host sees them.  offset: of a slice in
    the buffer.  used: the number of the last submission that touches it.  others: where a slice goes when it is free.
    """

    buffer: Any
    memory: Any
    address: int
    nbytes: int
    view: np.ndarray[Any, Any] | None = None
    offset: int = 0
    used: int = 0
    others: list[Memory] | None = None

    def slice(self, offset: int, nbytes: int, others: list[Memory]) -> Memory:
        view = None if self.view is None else self.view[offset : offset + nbytes]
        return Memory(self.buffer, self.memory, self.address + offset, nbytes, view, offset, others=others)


def allocate(queue: Queue, nbytes: int, wanted: tuple[int, ...], seen: bool) -> Memory:
    """New memory.  seen: by the host.  Raises VulkanMemoryError."""
    vulkan, device = queue.vulkan, queue.device
    vk, ffi, lib = vulkan.vk, vulkan.ffi, vulkan.lib
    buffer = vulkan.made("vkCreateBuffer", vk.VkBufferCreateInfo(size=nbytes, usage=_USAGE, sharingMode=0), device)
    memory = None
    try:
        needs = ffi.new("VkMemoryRequirements *")
        lib.vkGetBufferMemoryRequirements(device, buffer, needs)
        info = vk.VkMemoryAllocateInfo(
            pNext=vk.VkMemoryAllocateFlagsInfo(flags=_ADDRESSES),
            allocationSize=needs.size,
            memoryTypeIndex=queue.memory_type(needs.memoryTypeBits, wanted),
        )
        memory = vulkan.made("vkAllocateMemory", info, device)
        vulkan.call("vkBindBufferMemory", device, buffer, memory, 0)
        asked = vk.VkBufferDeviceAddressInfo(buffer=buffer)
        made = Memory(buffer, memory, int(lib.vkGetBufferDeviceAddress(device, ffi.addressof(asked))), nbytes)
        if seen:
            place = ffi.new("void **")
            vulkan.call("vkMapMemory", device, memory, 0, nbytes, 0, place)
            made.view = np.frombuffer(ffi.buffer(place[0], nbytes), np.uint8)
        return made
    except BaseException:
        free(queue, Memory(buffer, memory or ffi.NULL, 0, nbytes))
        raise


def free(queue: Queue, memory: Memory) -> None:
    """Give memory back that nothing uses any more."""
    lib, null = queue.vulkan.lib, queue.vulkan.ffi.NULL
    lib.vkDestroyBuffer(queue.device, memory.buffer, null)
    lib.vkFreeMemory(queue.device, memory.memory, null)


class Slabs:
    """Memory of one kind: small pieces are slices of larger ones, which are kept.

    wanted, seen: as in `allocate`.
    """

    def __init__(self, queue: Queue, wanted: tuple[int, ...], seen: bool) -> None:
        self.queue = queue
        self.wanted = wanted
        self.seen = seen
        self._free: dict[int, list[Memory]] = {}  # by bytes

    def take(self, nbytes: int) -> Memory:
        """Raises VulkanMemoryError."""
        if nbytes > _SMALL:
            return allocate(self.queue, nbytes, self.wanted, self.seen)
        size = -(-nbytes // _SLICE) * _SLICE
        with self.queue.lock:
            others = self._free.setdefault(size, [])
            if not others:
                whole = allocate(self.queue, max(_SMALL // size, _SLICES) * size, self.wanted, self.seen)
                others += [whole.slice(at, size, others) for at in range(0, whole.nbytes, size)]
            return others.pop()

    def give_back(self, memory: Memory) -> None:
        """Take memory that nothing uses any more."""
        if memory.others is None:
            free(self.queue, memory)
        else:
            memory.others.append(memory)


class Staging:
    """Memory that the host sees, through which data travel to memory that it does not see, piece by piece."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._memory: Memory | None = None
        self._at = 0

    def _room(self, nbytes: int) -> tuple[Memory, int]:
        """Memory, and where in it so many bytes are free."""
        memory = self._memory = self._memory or allocate(self.queue, _STAGING, HOST, seen=True)
        if self._at + nbytes > _STAGING:
            self.queue.wait(memory.used)
            self._at = 0
        at, self._at = self._at, self._at + nbytes
        return memory, at

    def write(self, target: Memory, data: np.ndarray[Any, Any]) -> None:
        for start in range(0, len(data), _STAGING):
            piece = data[start : start + _STAGING]
            with self.queue.lock:
                memory, at = self._room(len(piece))
                assert memory.view is not None
                memory.view[at : at + len(piece)] = piece
                self.queue.copy(target, memory, len(piece), start, at)

    def read(self, data: np.ndarray[Any, Any], source: Memory) -> None:
        for start in range(0, len(data), _STAGING):
            piece = data[start : start + _STAGING]
            with self.queue.lock:
                memory, at = self._room(len(piece))
                self.queue.copy(memory, source, len(piece), at, start)
                self.queue.wait(memory.used)
                assert memory.view is not None
                piece[:] = memory.view[at : at + len(piece)]
