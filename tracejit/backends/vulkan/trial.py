"""What a device's instructions give, found by trial: of floats Vulkan promises little, and drivers have faults.

Vulkan allows a quotient of f32 2.5 units in the last place, a square root what follows from that of a reciprocal, and
Fma may be a product and a sum, each rounded.  On lavapipe (Mesa 22.3.6, LLVM 15, x86-64 with fused multiply-add):

    OpFDiv, Sqrt      correctly rounded in f32 and f64, for random bits and edge values
    Fma               always two roundings
    Trunc, RoundEven  of f64 wrong from 2**31 on, and for 1.5; Floor and Ceil are right
    subnormals        kept, though it says nothing of that
    x + 0, x * 0, x - x  folded by its compiler (gallivm: lp_build_add, ..) as if there were neither signs of zero nor
                      infinities, whatever is asked for: note [zeros]
    i32 to i64        taken for larger than any constant that it is compared with, of all conversions this one alone
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.scalar import OPS
from tracejit.ir.text import parse_kernel

if TYPE_CHECKING:
    from tracejit.backends.vulkan.runtime import VulkanDevice

__all__ = ["found_to_be_so"]

_COUNT = 512
_ROWS = {"fused": (0, 1), "divides": (1, 3), "roots": (3, 4), "whole": (4, 8), "keeps": (8, 11)}


def found_to_be_so(device: VulkanDevice) -> dict[str, Any]:
    """The fields of the device's `Capabilities` that are found by trial; so far all are assumed."""
    widths = (32, 64) if device.capabilities.f64 else (32,)
    right = {bits: _right(device, bits) for bits in widths}
    found: dict[str, Any] = {
        name: frozenset(bits for bits in widths if all(right[bits][first:last]))
        for name, (first, last) in _ROWS.items()
    }
    return found | {"extends": all(rows[-1] for rows in right.values())}


def _right(device: VulkanDevice, bits: int) -> list[bool]:
    """Whether each row of the results is what it should be."""
    dtype = np.dtype(f"f{bits // 8}")
    rng = np.random.default_rng(bits)
    x, y = (rng.uniform(1, 4, _COUNT).astype(dtype) for _ in range(2))
    z = -(x * y) * (1 + rng.integers(-1, 2, _COUNT).astype(dtype) * np.finfo(dtype).eps)  # the product cancels
    z[::4] = np.arange(_COUNT // 4) / 2 - 32
    z[1::4] = np.ldexp(dtype.type(1.5), np.arange(_COUNT // 4) % 60)
    w = np.resize(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype), _COUNT)
    text = Path(__file__).with_suffix(".kernel").read_text(encoding="utf-8")
    kernel = device.compile_kernel(parse_kernel(text.format(d=f"f{bits}", n=_COUNT)))
    result = device.alloc(12 * x.nbytes)
    kernel.launch([*[device.from_host(a) for a in (x, y, z, w)], result])
    wanted: list[Any] = [OPS["fma"].impl(dtype, x, y, z), x / y, 1 / y, np.sqrt(y)]
    wanted += [function(z) for function in (np.floor, np.ceil, np.trunc, np.rint)]
    with np.errstate(invalid="ignore"):
        wanted += [w + 0, w * 0, w - w, np.arange(_COUNT) < 9]
    return [_same(*pair) for pair in zip(device.to_host(result, dtype, (12, _COUNT)), wanted, strict=True)]


def _same(x: Any, y: Any) -> bool:
    """Equal, with the signs of zero."""
    return bool(np.array_equal(x, y, equal_nan=True)) and bool(((np.signbit(x) == np.signbit(y)) | np.isnan(y)).all())
