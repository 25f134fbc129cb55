"""The OpenCL backend: programs on the first device, or the one that TRACEJIT_OPENCL_DEVICE names."""

from __future__ import annotations

from typing import ClassVar

from tracejit.backends.base import Target
from tracejit.backends.device.backend import DeviceBackend
from tracejit.backends.opencl.runtime import OpenCLDevice, devices
from tracejit.backends.spellings import fault_of_template

__all__ = ["OpenCLBackend"]


class OpenCLBackend(DeviceBackend[OpenCLDevice]):
    """Kernels as OpenCL C, through pyopencl."""

    name: ClassVar[str] = "opencl"

    def __init__(self) -> None:
        super().__init__(devices(), "OPENCL_DEVICE")

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_template(spelling, arity, "expressions of OpenCL C")

    def fault_of_kernel(self, source: object) -> str:
        return "" if isinstance(source, str) and source.strip() else f"is OpenCL C as text, not {source!r:.60}"

    def target(self) -> Target:
        raw = self.device.raw
        driver = f"{raw.platform.name.strip()} {raw.driver_version} {raw.version.strip()}"
        return Target(
            "opencl",
            self.device.capabilities.vector_bits,
            threads=raw.max_compute_units,
            grid=not self.device.capabilities.vector_bits,
            lacks=self.device.lacks(),
            device=self.device.name,
            driver=driver,
        )
