"""The CUDA backend: programs on the first device, or the one that TRACEJIT_CUDA_DEVICE names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tracejit.backends.base import Target
from tracejit.backends.cuda.runtime import CudaDevice, devices
from tracejit.backends.device.backend import DeviceBackend
from tracejit.backends.device.resident import DeviceArray
from tracejit.backends.spellings import fault_of_template
from tracejit.support.dtypes import canonical
from tracejit.support.errors import UnsupportedError

__all__ = ["CudaBackend"]


class CudaBackend(DeviceBackend[CudaDevice]):
    """Kernels as PTX, through NVIDIA's driver."""

    name: ClassVar[str] = "cuda"

    def __init__(self) -> None:
        super().__init__(devices(), "CUDA_DEVICE")

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_template(spelling, arity, "LLVM instructions", ("type", "suffix", "result"), lines=True)

    def fault_of_kernel(self, source: object) -> str:
        return "" if isinstance(source, str) and source.strip() else f"is PTX, or LLVM IR, as text, not {source!r:.60}"

    def put_from_cuda(self, interface: Mapping[str, Any], place: str) -> DeviceArray:
        dtype, shape = canonical(np.dtype(interface["typestr"])), tuple(interface["shape"])
        strides = tuple(interface.get("strides") or ())
        itemsize, running = dtype.itemsize, 1
        for n, stride in reversed([*zip(shape, strides, strict=bool(strides))]):
            if n > 1 and math.prod(shape) and stride != running * itemsize:
                raise UnsupportedError(
                    f"an array on a CUDA device with strides {strides} is not copied from there: its elements do not "
                    "lie one behind another; make a contiguous copy of it first"
                )
            running *= n
        device, address = self.at(place).device, int(interface["data"][0] or 0)
        buffer = device.from_cuda(address, math.prod(shape) * itemsize, interface.get("stream") is not None)
        return DeviceArray(buffer, dtype, shape, place)

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
