"""What a device's floating-point instructions give, found by trial: Vulkan promises little of it.

Vulkan allows a quotient of f32 2.5 units in the last place, a square root what follows from that of a reciprocal, and
Fma may be a product and a sum, each rounded.  On lavapipe (Mesa 22.3.6, LLVM 15, x86-64 with fused multiply-add) 65,536
random triples gave: OpFDiv and Sqrt correctly rounded in f32 and f64; Fma always two roundings; Floor and Ceil right,
but Trunc and RoundEven of f64 wrong from 2**31 on, and for 1.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.scalar import OPS
from tracejit.ir.text import parse_kernel

if TYPE_CHECKING:
    from tracejit.backends.vulkan.runtime import VulkanDevice

__all__ = ["found_to_be_exact"]

_COUNT = 512
_WHOLE = ("floor", "ceil", "trunc", "roundeven")
_KERNEL = """
kernel trial(x: {d}[{n}] C, y: {d}[{n}] C, z: {d}[{n}] C, out: {d}[7, {n}] C out) {{
  for %i in 0..{n} {{
    %a = load x[%i]; %b = load y[%i]; %c = load z[%i]
    %p = fma %a %b %c; store out[0, %i] = %p
    %q = div %a %b; store out[1, %i] = %q
    %r = sqrt %b; store out[2, %i] = %r
    %s = floor %c; store out[3, %i] = %s
    %t = ceil %c; store out[4, %i] = %t
    %u = trunc %c; store out[5, %i] = %u
    %v = roundeven %c; store out[6, %i] = %v
  }}
}}
"""


def found_to_be_exact(device: VulkanDevice) -> dict[str, frozenset[int]]:
    """The fields `fused`, `divides`, `roots` and `whole` of the device's `Capabilities`, which has them all so far."""
    widths = (32, 64) if device.capabilities.f64 else (32,)
    right = {bits: _right(device, bits) for bits in widths}
    return {
        name: frozenset(bits for bits in widths if all(right[bits][part]))
        for name, part in (
            ("fused", slice(1)),
            ("divides", slice(1, 2)),
            ("roots", slice(2, 3)),
            ("whole", slice(3, 7)),
        )
    }


def _right(device: VulkanDevice, bits: int) -> list[bool]:
    """Whether each row of the results is what it should be."""
    dtype = np.dtype(f"f{bits // 8}")
    rng = np.random.default_rng(bits)
    x, y = (rng.uniform(1, 4, _COUNT).astype(dtype) for _ in range(2))
    z = -(x * y) * (1 + rng.integers(-1, 2, _COUNT).astype(dtype) * np.finfo(dtype).eps)  # the product cancels
    z[::4] = np.arange(_COUNT // 4) / 2 - 32
    z[1::4] = np.ldexp(dtype.type(1.5), np.arange(_COUNT // 4) % 60).astype(dtype)
    kernel = device.compile_kernel(parse_kernel(_KERNEL.format(d=f"f{bits}", n=_COUNT)))
    result = device.alloc(7 * x.nbytes)
    kernel.launch([*[device.from_host(a) for a in (x, y, z)], result])
    wanted: list[Any] = [OPS["fma"].impl(dtype, x, y, z), x / y, np.sqrt(y)]
    wanted += [OPS[op].impl(dtype, z) for op in _WHOLE]
    return [
        bool(np.array_equal(*pair)) for pair in zip(device.to_host(result, dtype, (7, _COUNT)), wanted, strict=True)
    ]
