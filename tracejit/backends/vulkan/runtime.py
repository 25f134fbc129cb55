"""Vulkan devices: memory, pipelines, launches."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.backends.device.device import Device
from tracejit.backends.device.schedules import gpu_schedule
from tracejit.backends.grid import GridSchedule, Launch as DeviceKernel
from tracejit.backends.printing import EntryPoint, Printed
from tracejit.backends.vulkan.assembly import assemble, entry_points
from tracejit.backends.vulkan.driver import Found, VulkanError, VulkanMemoryError, found_devices
from tracejit.backends.vulkan.memory import HOST, LOCAL, SHARED, Memory, Slabs, Staging
from tracejit.backends.vulkan.printer import print_kernels
from tracejit.backends.vulkan.queue import Queue
from tracejit.backends.vulkan.target import ARGUMENTS, DIRECT, GROUPS, WORDS, Capabilities
from tracejit.backends.vulkan.trial import found_to_be_so
from tracejit.support.errors import BackendUnavailable, CompileError
from tracejit.support.nodes import define, evolve

__all__ = ["VulkanDevice", "devices", "unavailable_reason"]


def unavailable_reason() -> str | None:
    """Why there is no Vulkan device, or None."""
    try:
        devices()
    except BackendUnavailable as error:
        return error.message
    return None


_opened: list[VulkanDevice] = []
_lock = threading.RLock()


def devices() -> list[VulkanDevice]:
    """All Vulkan devices, real ones before software ones; each is opened once a process.  Raises BackendUnavailable."""
    with _lock:
        if not _opened:
            reasons: list[str] = []
            for found in found_devices():
                try:
                    _opened.append(VulkanDevice(found))
                except BackendUnavailable as error:
                    reasons.append(error.message)
            if not _opened:
                raise BackendUnavailable("; ".join(reasons))
        return list(_opened)


def _capabilities(found: Found) -> Capabilities:
    has, floats = found.features, found.floats

    def widths(what: str) -> frozenset[int]:
        return frozenset(bits for bits in (32, 64) if f"{what}{bits}" in floats)

    return Capabilities(
        f64="shaderFloat64" in has,
        int8="shaderInt8" in has,
        int16="shaderInt16" in has,
        storage8="storageBuffer8BitAccess" in has,
        storage16="storageBuffer16BitAccess" in has,
        atomics64="shaderBufferInt64Atomics" in has,
        shared64="shaderSharedInt64Atomics" in has,
        preserve=widths("SignedZeroInfNanPreserve"),
        nearest=widths("RoundingModeRTE"),
        denormals=widths("DenormPreserve"),
        group=found.group,
        shared=found.shared,
        groups=found.groups,
        software=found.software,
    )


_UNITS = 128  # Vulkan does not say how many processors a device has: enough for a large one


def _default_schedule(have: Capabilities) -> GridSchedule:
    atomics, tables = (
        frozenset({"i32", "u32", "i64", "u64"} if wide else {"i32", "u32"}) for wide in (have.atomics64, have.shared64)
    )
    if have.software:
        # what each work-item begins with costs lavapipe as much as an access of memory
        return GridSchedule(contiguous=True, work_group=min(128, have.group), pack=8, atomics=atomics)
    return gpu_schedule(_UNITS, have.group, atomics, atomics & tables)


class VulkanDevice(Device):
    """One device with its queue.

    staged: whether data go through memory of the host's, by default where the device has memory of its own.
    """

    full, failed = VulkanMemoryError, VulkanError

    def __init__(self, found: Found, staged: bool | None = None) -> None:
        self.found = found
        self.name = found.name
        self.software = found.software
        self.vulkan = found.vulkan
        self.staged = not found.shares_memory if staged is None else staged
        try:
            self.queue = Queue(found)
        except VulkanError as error:
            raise BackendUnavailable(f"the Vulkan device {self.name} cannot be opened: {error}") from error
        self.capabilities = _capabilities(found)
        self.group = found.group
        self.default_schedule = _default_schedule(self.capabilities)
        self._memory = Slabs(self.queue, LOCAL, False) if self.staged else Slabs(self.queue, SHARED, True)
        self._blocks, self._staging = Slabs(self.queue, HOST, True), Staging(self.queue)
        vk = self.vulkan.vk
        pushed = vk.VkPushConstantRange(stageFlags=0x20, offset=0, size=8 * WORDS)
        layout = vk.VkPipelineLayoutCreateInfo(pushConstantRangeCount=1, pPushConstantRanges=[pushed])
        self._layout = self.vulkan.made("vkCreatePipelineLayout", layout, self.queue.device)
        super().__init__(min(found.largest, self.queue.total), self.queue.total)
        self.capabilities = evolve(self.capabilities, **found_to_be_so(self))

    @property
    def f64(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "" if self.capabilities.f64 else "shaderFloat64"

    def lacks(self) -> dict[str, str]:
        return self.capabilities.lacks(self.name)

    # Memory

    def create(self, nbytes: int) -> Memory:
        try:
            return self._memory.take(nbytes)
        except VulkanMemoryError:
            self.queue.wait()  # what was given up meanwhile goes now
        return self._memory.take(nbytes)

    def release(self, raw: Memory) -> None:
        memory = self._memory
        self.queue.give_up(lambda: memory.give_back(raw), raw.used)

    def write(self, raw: Memory, array: np.ndarray[Any, Any]) -> None:
        data = array.reshape(-1).view(np.uint8)
        if raw.view is not None and raw.used <= self.queue.reached:
            raw.view[: len(data)] = data
        else:
            self._staging.write(raw, data)

    def read(self, array: np.ndarray[Any, Any], raw: Memory) -> None:
        if raw.view is None:
            self._staging.read(array, raw)
            return
        self.queue.wait(raw.used)
        array[:] = raw.view[: len(array)]

    def seen(self, raw: Memory, nbytes: int) -> tuple[np.ndarray[Any, Any], Callable[[], object]] | None:
        """On the processor; other devices may have memory that the host sees, but reads slowly."""
        if raw.view is None or not self.software:
            return None
        self.queue.wait(raw.used)
        return raw.view[:nbytes], lambda: None

    def move(self, target: Memory, source: Memory, nbytes: int) -> None:
        self.queue.copy(target, source, nbytes)

    def fill(self, raw: Memory, byte: int, nbytes: int) -> None:
        self.queue.fill(raw, byte, nbytes)

    # Code

    def printed(self, kernels: Sequence[DeviceKernel]) -> Printed:
        return print_kernels([(k.kernel, k.work_group) for k in kernels], self.capabilities)

    def build(self, source: str) -> _Module:
        return self._built(assemble(source), source)

    def build_source(self, source: str | bytes, entry: str) -> _Module:
        """The module of SPIR-V.   Raises: CompileError also where it has no such function, as drivers do not look."""
        words = assemble(source) if isinstance(source, str) else source
        there = entry_points(words)
        if entry not in there:
            raise CompileError(f"SPIR-V has no entry point {entry!r}; it has {', '.join(there) or 'none'}")
        return self._built(words, source if isinstance(source, str) else f"{len(words)} bytes of SPIR-V")

    def _built(self, words: bytes, source: str) -> _Module:
        ffi, device = self.vulkan.ffi, self.queue.device
        code = ffi.new("uint32_t[]", len(words) // 4)
        ffi.memmove(code, words, len(words))
        info = ffi.new("VkShaderModuleCreateInfo *")
        info.sType, info.codeSize, info.pCode = 16, len(words), code
        try:
            module = _Module(self.vulkan.made("vkCreateShaderModule", info[0], device), source, len(words))
        except VulkanMemoryError:
            raise
        except VulkanError as error:
            raise CompileError(f"{self.name} rejected generated code", source=source, log=str(error)) from error
        self._until_unused(module, "vkDestroyShaderModule", module.handle)
        return module

    def binary_text(self, module: _Module) -> str:
        return f"{module.nbytes} bytes of SPIR-V for {self.name}"

    def function(self, module: _Module, entry: EntryPoint) -> _Pipeline:
        vk, ffi, device = self.vulkan.vk, self.vulkan.ffi, self.queue.device
        stage = vk.VkPipelineShaderStageCreateInfo(stage=0x20, module=module.handle, pName=entry.name)
        info = vk.VkComputePipelineCreateInfo(stage=stage, layout=self._layout)
        out = ffi.new("VkPipeline *")
        try:
            self.vulkan.call("vkCreateComputePipelines", device, ffi.NULL, 1, ffi.addressof(info), ffi.NULL, out)
        except VulkanMemoryError:
            raise
        except VulkanError as error:
            message = f"the compiler of {self.name} rejected {entry.name}"
            raise CompileError(message, source=module.source, log=str(error)) from error
        pipeline = _Pipeline(out[0], module)
        self._until_unused(pipeline, "vkDestroyPipeline", pipeline.handle)
        return pipeline

    def _until_unused(self, holder: Any, name: str, handle: Any) -> None:
        """Destroy a handle when what holds it is gone, and all that is recorded by then is done."""
        destroy, queue, null = getattr(self.vulkan.lib, name), self.queue, self.vulkan.ffi.NULL
        finalizer = weakref.finalize(holder, queue.give_up, lambda: destroy(queue.device, handle, null))
        finalizer.atexit = False

    def prepare(self, function: _Pipeline, values: Sequence[Memory | int]) -> _Ready:
        words = np.array([x if isinstance(x, int) else x.address for x in values], np.int64)
        touched = tuple(x for x in values if isinstance(x, Memory))
        pushed = self.vulkan.ffi.new("int64_t[]", WORDS)
        ready = _Ready(function, pushed, touched)
        if len(words) > DIRECT:
            blocks, block = self._blocks, self._blocks.take(words.nbytes)
            assert block.view is not None
            block.view[: words.nbytes] = words.view(np.uint8)
            words = np.array([block.address], np.int64)
            weakref.finalize(ready, self.queue.give_up, lambda: blocks.give_back(block)).atexit = False
        for n, word in enumerate(words):
            pushed[ARGUMENTS + n] = int(word)
        return ready

    def enqueue(self, prepared: _Ready, groups: int, items: int) -> None:
        """Groups lie in two dimensions where there are too many for one; the kernel leaves out what is too much."""
        rows = -(-groups // self.capabilities.groups)
        shape = (-(-groups // rows), rows)
        prepared.pushed[GROUPS] = groups
        self.queue.dispatch(prepared.function.handle, self._layout, prepared.pushed, shape, prepared.touched)

    def finish(self) -> None:
        self.queue.wait()


@define(eq=False)
class _Module:
    handle: Any
    source: str
    nbytes: int  # of its words


@define(eq=False)
class _Pipeline:
    handle: Any
    module: _Module


@define(eq=False)
class _Ready:
    """A function with its arguments.  pushed: what the launch passes directly.  touched: the memory among the
    arguments.
    """

    function: _Pipeline
    pushed: Any
    touched: tuple[Memory, ...]
