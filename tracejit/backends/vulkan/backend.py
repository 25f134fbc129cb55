"""The Vulkan backend: programs on the first device, or the one that TRACEJIT_VULKAN_DEVICE names."""

from __future__ import annotations

from typing import ClassVar

from tracejit.backends.base import Target
from tracejit.backends.device.backend import DeviceBackend
from tracejit.backends.spellings import fault_of_template
from tracejit.backends.vulkan.assembly import INSTRUCTIONS
from tracejit.backends.vulkan.runtime import VulkanDevice, devices

__all__ = ["VulkanBackend"]


class VulkanBackend(DeviceBackend[VulkanDevice]):
    """Kernels as SPIR-V, through the package vulkan."""

    name: ClassVar[str] = "vulkan"

    def __init__(self) -> None:
        super().__init__(devices(), "VULKAN_DEVICE")

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        fault = fault_of_template(spelling, arity, "SPIR-V instructions", ("type", "result"), lines=True)
        if fault or not isinstance(spelling, str):
            return fault
        for line in spelling.strip().splitlines():
            name = line.rpartition(" = ")[2].split()[0]
            if INSTRUCTIONS.get(name, (0, ""))[1] != "tr":
                return f"has {name!r} where an instruction with a result should be, as OpFAdd {{type}} {{0}} {{0}}"
        return ""

    def fault_of_kernel(self, source: object) -> str:
        whole = isinstance(source, bytes) and len(source) % 4 == 0 and len(source) > 20
        return "" if whole or (isinstance(source, str) and source.strip()) else f"is SPIR-V (bytes), not {source!r:.60}"

    def target(self) -> Target:
        return Target(
            "vulkan",
            grid=True,
            fma={32, 64} <= self.device.capabilities.fused,
            lacks=self.device.lacks(),
            device=self.device.name,
            driver=self.device.found.driver,
        )
