"""Memory of a Vulkan device: allocations, what launches are given in it, and the way of data to and from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.support.nodes import define

if TYPE_CHECKING:
    from tracejit.backends.vulkan.queue import Queue

__all__ = ["Blocks", "LOCAL", "Memory", "SHARED", "Staging", "allocate", "free"]

_USAGE = 0x1 | 0x2 | 0x20 | 0x20000  # transfers from and to it, storage, addresses (VK_BUFFER_USAGE_...)
_ADDRESSES = 0x2  # VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
_DEVICE, _VISIBLE, _COHERENT, _CACHED = 1, 2, 4, 8  # VK_MEMORY_PROPERTY_...
HOST = (_VISIBLE | _COHERENT | _CACHED, _VISIBLE | _COHERENT)
LOCAL = (_DEVICE, 0)
SHARED = (_DEVICE | HOST[0], _DEVICE | HOST[1], *HOST)
"""What kinds of memory are wanted, best first: the host's, the device's, and what is both."""
_PAGE = 1 << 16  # bytes of argument blocks that are allocated at once
_BLOCK = 64  # bytes: the least block
_STAGING = 1 << 23  # bytes that travel at once


@define(eq=False)
class Memory:
    """A buffer with memory of its own.  address: on the device.  view: its bytes, where the host sees them.
    used: the number of the last submission that touches it.
    """

    buffer: Any
    memory: Any
    address: int
    nbytes: int
    view: np.ndarray[Any, Any] | None = None
    used: int = 0


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


@define(eq=False)
class Block:
    """Some bytes of a page that the host sees."""

    page: Memory
    at: int
    free: list[Block]

    @property
    def address(self) -> int:
        return self.page.address + self.at

    def give_back(self) -> None:
        self.free.append(self)


class Blocks:
    """Where the arguments of launches lie."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._free: dict[int, list[Block]] = {}  # by bytes

    def take(self, words: np.ndarray[Any, Any]) -> Block:
        """A block that holds these words."""
        size = max(_BLOCK, 1 << (words.nbytes - 1).bit_length())
        with self.queue.lock:
            free = self._free.setdefault(size, [])
            if not free:
                page = allocate(self.queue, max(size, _PAGE), HOST, seen=True)
                free += [Block(page, at, free) for at in range(0, page.nbytes - size + 1, size)]
            block = free.pop()
        assert block.page.view is not None
        block.page.view[block.at : block.at + words.nbytes] = words.view(np.uint8)
        return block


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
