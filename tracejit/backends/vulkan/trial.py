"""What a device's floating-point instructions give, found by trial: Vulkan promises little of it.

Vulkan allows a quotient of f32 2.5 units in the last place, a square root what follows from its reciprocal, and Fma
may be a product and a sum, each rounded.  Measured on lavapipe (Mesa 22.3.6, LLVM 15, x86-64 with fused multiply-add):
see `docs/gpu.md`.
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
_KERNEL = """
kernel trial(x: {d}[{n}] C, y: {d}[{n}] C, z: {d}[{n}] C, fused: {d}[{n}] C out, divides: {d}[{n}] C out,
  roots: {d}[{n}] C out) {{
  for %i in 0..{n} {{
    %a = load x[%i]; %b = load y[%i]; %c = load z[%i]
    %p = fma %a %b %c; %q = div %a %b; %r = sqrt %b
    store fused[%i] = %p; store divides[%i] = %q; store roots[%i] = %r
  }}
}}
"""


def found_to_be_exact(device: VulkanDevice) -> dict[str, frozenset[int]]:
    """The fields `fused`, `divides` and `roots` of the device's `Capabilities`."""
    found: dict[str, set[int]] = {"fused": set(), "divides": set(), "roots": set()}
    for bits in (32, 64) if device.capabilities.f64 else (32,):
        dtype = np.dtype(f"f{bits // 8}")
        rng = np.random.default_rng(bits)
        x, y = (rng.uniform(1, 4, _COUNT).astype(dtype) for _ in range(2))
        z = -(x * y) * (1 + rng.integers(-1, 2, _COUNT).astype(dtype) * np.finfo(dtype).eps)  # the product cancels
        kernel = device.compile_kernel(parse_kernel(_KERNEL.format(d=f"f{bits}", n=_COUNT)))
        given = [device.from_host(a) for a in (x, y, z)]
        results = [device.alloc(x.nbytes) for _ in found]
        kernel.launch([*given, *results])
        wanted: list[Any] = [OPS["fma"].impl(dtype, x, y, z), x / y, np.sqrt(y)]
        for name, result, want in zip(found, results, wanted, strict=True):
            if np.array_equal(device.to_host(result, dtype, x.shape), want):
                found[name].add(bits)
    return {name: frozenset(bits) for name, bits in found.items()}
