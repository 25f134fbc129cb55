"""The CUDA backend: programs on the first device, or the one that TRACEJIT_CUDA_DEVICE names."""

from __future__ import annotations

from typing import ClassVar

from tracejit.backends.base import Target
from tracejit.backends.cuda.runtime import CudaDevice, devices
from tracejit.backends.device.backend import DeviceBackend
from tracejit.backends.spellings import fault_of_template

__all__ = ["CudaBackend"]


class CudaBackend(DeviceBackend[CudaDevice]):
    """Kernels as PTX, through NVIDIA's driver."""

    name: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        super().__init__(devices(), "CUDA_DEVICE")

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_template(spelling, arity, "LLVM instructions", ("type", "suffix", "result"), lines=True)

    def target(self) -> Target:
        driver = self.device.driver
        return Target(
            "cuda",
            threads=driver.units,
            grid=True,
            lacks=self.device.lacks(),
            device=f"{driver.name} ({self.device.architecture})",
            driver=f"{driver.package} {driver.version}",
        )
