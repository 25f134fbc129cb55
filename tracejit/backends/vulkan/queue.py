"""The queue of a Vulkan device: commands are recorded into batches, which are submitted in order.

A batch has a number, which a timeline semaphore reaches when it is done; memory and argument blocks note the last
batch that uses them, and what is given up is destroyed when that is done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracejit.backends.vulkan.driver import Found, VulkanError
from tracejit.backends.vulkan.memory import Memory
from tracejit.backends.vulkan.target import WORDS
from tracejit.support.nodes import define

__all__ = ["Queue"]

_BATCHES = 8  # command buffers
_COMMANDS = 16  # of a batch, after which it is submitted
_SLICE = 50_000_000  # ns: so long Ctrl-C may wait
_COMPUTE, _SHADER = 1, 0x20  # VK_PIPELINE_BIND_POINT_COMPUTE, VK_SHADER_STAGE_COMPUTE_BIT
_STAGES, _HOST = 0x800 | 0x1000, 0x4000  # compute shaders and transfers; the host (VK_PIPELINE_STAGE_...)
_WRITES = 0x40 | 0x1000  # by shaders and transfers (VK_ACCESS_...)
_ACCESSES = _WRITES | 0x20 | 0x800 | 0x2000 | 0x4000  # and reads of both, and both of the host
_TIMELINE = 1  # VK_SEMAPHORE_TYPE_TIMELINE
_SUBMIT, _SIGNAL, _WAIT = 4, 1000207003, 1000207004
"""Types of structures: VK_STRUCTURE_TYPE_SUBMIT_INFO, .._TIMELINE_SEMAPHORE_SUBMIT_INFO, .._SEMAPHORE_WAIT_INFO."""


@define(eq=False)
class _Batch:
    """A command buffer, and the number of its last submission."""

    handle: Any
    number: int = 0


class Queue:
    """One queue of a device, which is opened for it.  Its functions may be called by several threads."""

    def __init__(self, found: Found) -> None:
        self.vulkan = vulkan = found.vulkan
        vk, ffi, lib = vulkan.vk, vulkan.ffi, vulkan.lib
        queues = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=found.family, queueCount=1, pQueuePriorities=[1.0])
        features = found.feature_chain()
        info = vk.VkDeviceCreateInfo(pNext=features, queueCreateInfoCount=1, pQueueCreateInfos=[queues])
        self.device = vulkan.made("vkCreateDevice", info, found.handle)
        handle = ffi.new("VkQueue *")
        lib.vkGetDeviceQueue(self.device, found.family, 0, handle)
        self._queue = handle[0]
        self._types = self._memory_types(found)
        kind = vk.VkSemaphoreTypeCreateInfo(semaphoreType=_TIMELINE, initialValue=0)
        self._done = vulkan.made("vkCreateSemaphore", vk.VkSemaphoreCreateInfo(pNext=kind), self.device)
        pool = vulkan.made(
            "vkCreateCommandPool", vk.VkCommandPoolCreateInfo(queueFamilyIndex=found.family, flags=2), self.device
        )
        buffers = ffi.new("VkCommandBuffer[]", _BATCHES)
        asked = vk.VkCommandBufferAllocateInfo(commandPool=pool, level=0, commandBufferCount=_BATCHES)
        vulkan.call("vkAllocateCommandBuffers", self.device, ffi.addressof(asked), buffers)
        self._batches = deque(_Batch(buffers[n]) for n in range(_BATCHES))
        self._structures()
        self.lock = threading.RLock()
        self.number = 1  # of the batch that is recorded
        self._reached = 0
        self._recorded = 0  # commands in it
        self._given_up: deque[tuple[int, Callable[[], None]]] = deque()

    def _structures(self) -> None:
        """What calls are given again and again."""
        vk, ffi = self.vulkan.vk, self.vulkan.ffi
        self._begin = vk.VkCommandBufferBeginInfo(flags=1)
        self._barrier = vk.VkMemoryBarrier(srcAccessMask=_WRITES, dstAccessMask=_ACCESSES)
        self._values = ffi.new("uint64_t *")
        self._semaphores = ffi.new("VkSemaphore[]", [self._done])
        self._command_buffers = ffi.new("VkCommandBuffer *")
        self._timeline = ffi.new("VkTimelineSemaphoreSubmitInfo *")
        self._timeline.sType = _SIGNAL
        self._timeline.signalSemaphoreValueCount = 1
        self._timeline.pSignalSemaphoreValues = self._values
        self._submit = ffi.new("VkSubmitInfo *")
        self._submit.sType = _SUBMIT
        self._submit.pNext = self._timeline
        self._submit.commandBufferCount = 1
        self._submit.pCommandBuffers = self._command_buffers
        self._submit.signalSemaphoreCount = 1
        self._submit.pSignalSemaphores = self._semaphores
        self._region = ffi.new("VkBufferCopy *")
        self._counter = ffi.new("uint64_t *")

    def _memory_types(self, found: Found) -> list[int]:
        ffi = self.vulkan.ffi
        memory = ffi.new("VkPhysicalDeviceMemoryProperties *")
        self.vulkan.lib.vkGetPhysicalDeviceMemoryProperties(found.handle, memory)
        heaps = [int(memory.memoryHeaps[n].size) for n in range(memory.memoryHeapCount)]
        types = [memory.memoryTypes[n] for n in range(memory.memoryTypeCount)]
        self.total = max((heaps[t.heapIndex] for t in types if t.propertyFlags & 1), default=0)
        return [int(t.propertyFlags) for t in types]

    def memory_type(self, allowed: int, wanted: Sequence[int]) -> int:
        """The first type of memory with the flags that are wanted most."""
        for flags in wanted:
            for n, has in enumerate(self._types):
                if allowed >> n & 1 and has & flags == flags:
                    return n
        raise VulkanError(f"the device has no memory with the properties {wanted}")

    # Recording

    def _recording(self) -> Any:
        """The command buffer of the batch, begun."""
        batch = self._batches[0]
        if not self._recorded:
            self.wait(batch.number)
            self.vulkan.check(
                "vkBeginCommandBuffer",
                self.vulkan.lib.vkBeginCommandBuffer(batch.handle, self.vulkan.ffi.addressof(self._begin)),
            )
        return batch.handle

    def _recorded_one(self, commands: Any, touched: Iterable[Memory]) -> None:
        """What comes after a command sees what it wrote."""
        for memory in touched:
            memory.used = self.number
        ffi = self.vulkan.ffi
        barrier = ffi.addressof(self._barrier)
        self.vulkan.lib.vkCmdPipelineBarrier(
            commands, _STAGES, _STAGES | _HOST, 0, 1, barrier, 0, ffi.NULL, 0, ffi.NULL
        )
        self._recorded += 1
        if self._recorded >= _COMMANDS:
            self.submit()

    def dispatch(
        self, pipeline: Any, layout: Any, pushed: Any, groups: tuple[int, int], touched: Iterable[Memory]
    ) -> None:
        """Launch.  pushed: `WORDS` words."""
        lib = self.vulkan.lib
        with self.lock:
            commands = self._recording()
            lib.vkCmdBindPipeline(commands, _COMPUTE, pipeline)
            lib.vkCmdPushConstants(commands, layout, _SHADER, 0, 8 * WORDS, pushed)
            lib.vkCmdDispatch(commands, groups[0], groups[1], 1)
            self._recorded_one(commands, touched)

    def copy(self, target: Memory, source: Memory, nbytes: int, to: int = 0, at: int = 0) -> None:
        """Copy bytes `at` of the source `to` the target."""
        with self.lock:
            commands = self._recording()
            self._region.srcOffset, self._region.dstOffset = source.offset + at, target.offset + to
            self._region.size = nbytes
            self.vulkan.lib.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, self._region)
            self._recorded_one(commands, (target, source))

    def fill(self, target: Memory, byte: int, nbytes: int) -> None:
        """Set bytes, rounded up to whole words."""
        with self.lock:
            commands = self._recording()
            size = -(-nbytes // 4) * 4
            self.vulkan.lib.vkCmdFillBuffer(commands, target.buffer, target.offset, size, byte * 0x01010101)
            self._recorded_one(commands, (target,))

    # Submitting

    def submit(self) -> None:
        """Hand the batch to the driver, which begins."""
        with self.lock:
            if not self._recorded:
                return
            batch = self._batches[0]
            self._batches.rotate(-1)
            self._recorded = 0
            lib, check = self.vulkan.lib, self.vulkan.check
            check("vkEndCommandBuffer", lib.vkEndCommandBuffer(batch.handle))
            self._values[0] = self.number
            self._command_buffers[0] = batch.handle
            check("vkQueueSubmit", lib.vkQueueSubmit(self._queue, 1, self._submit, self.vulkan.ffi.NULL))
            batch.number = self.number
            self.number += 1

    @property
    def reached(self) -> int:
        """The number of the last batch that is done."""
        lib, check = self.vulkan.lib, self.vulkan.check
        with self.lock:
            check("vkGetSemaphoreCounterValue", lib.vkGetSemaphoreCounterValue(self.device, self._done, self._counter))
            self._reached = max(self._reached, self._counter[0])
            return self._reached

    def wait(self, number: int | None = None) -> None:
        """Until the batch of this number is done, by default all that was recorded."""
        ffi, lib, check = self.vulkan.ffi, self.vulkan.lib, self.vulkan.check
        if number is None or number >= self.number:
            with self.lock:
                self.submit()
                number = self.number - 1
        if number > self._reached:
            value, info = ffi.new("uint64_t *", number), ffi.new("VkSemaphoreWaitInfo *")
            info.sType, info.semaphoreCount, info.pSemaphores, info.pValues = _WAIT, 1, self._semaphores, value
            while check("vkWaitSemaphores", lib.vkWaitSemaphores(self.device, info, _SLICE)):
                pass
            with self.lock:
                self._reached = max(self._reached, number)
        self.collect()

    # What is given up

    def give_up(self, destroy: Callable[[], None], used: int | None = None) -> None:
        """Destroy something when the last batch that uses it is done, by default the one that is recorded.  (It may be
        called while this thread is in here: objects are collected at any time.)
        """
        self._given_up.append((self.number if used is None else used, destroy))

    def collect(self) -> None:
        """Destroy what is given up and done with."""
        with self.lock:
            for _ in range(len(self._given_up)):
                number, destroy = self._given_up.popleft()
                if number <= self._reached:
                    destroy()
                else:
                    self._given_up.append((number, destroy))
