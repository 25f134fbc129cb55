"""What code generation must know of a Vulkan device, and what it then lacks.

Source: Vulkan 1.2 specification, chapters 39 (features), 41 (limits) and appendix "Vulkan environment for SPIR-V"
(precision of operations).
"""

from __future__ import annotations

from tracejit.support.nodes import frozen

__all__ = ["ARGUMENTS", "Capabilities", "DIRECT", "GROUPS", "WORDS", "ZERO"]

WORDS = 16  # of 64 bits that a launch passes directly: as many push constants as every device takes
GROUPS, ZERO, ARGUMENTS = 0, 1, 2
"""Which of them are what: the number of groups, zero, and the arguments; or the address of these, where there are more
than `DIRECT`."""
DIRECT = WORDS - ARGUMENTS


@frozen
class Capabilities:
    """What a device can do.

    f64, int8, int16, storage8, storage16: arithmetic on these, and their storage in buffers.  atomics64, shared64:
    atomics on 64 bits in buffers and in shared memory.  group, shared, groups: work-items of a group, bytes of its
    memory, groups along an axis.  software: runs on the host's processor.  extends: comparisons of i32 that are
    converted to i64 with constants are right.

    The others are widths of floats.  preserve, nearest, denormals: zeros, infinities and NaN are kept, results are
    rounded to nearest, subnormal numbers are kept, each if that is asked for.  As Vulkan promises little else, `trial`
    finds the rest.  fused: Fma is one rounding.  divides, roots: OpFDiv and Sqrt round correctly.  whole: Floor, Ceil,
    Trunc and RoundEven are right.  keeps: x + 0, x * 0 and x - x are what they should be.
    """

    f64: bool = True
    int8: bool = True
    int16: bool = True
    storage8: bool = True
    storage16: bool = True
    atomics64: bool = True
    shared64: bool = True
    preserve: frozenset[int] = frozenset({32, 64})
    nearest: frozenset[int] = frozenset({32, 64})
    denormals: frozenset[int] = frozenset()
    fused: frozenset[int] = frozenset({32, 64})
    divides: frozenset[int] = frozenset({32, 64})
    roots: frozenset[int] = frozenset({32, 64})
    whole: frozenset[int] = frozenset({32, 64})
    keeps: frozenset[int] = frozenset({32, 64})
    group: int = 1024
    shared: int = 32768
    groups: int = 65535
    software: bool = False
    extends: bool = True

    def lacks(self, name: str) -> dict[str, str]:
        """The dtypes that it has not, with the reason."""
        found: dict[str, str] = {}
        if not self.f64:
            found["f64"] = f"{name} has no f64 (shaderFloat64); use f32 arrays on this device"
        if not (self.int8 and self.storage8):
            why = f"{name} has no bytes (shaderInt8 and storageBuffer8BitAccess); use i32 arrays on this device"
            found |= {"i8": why, "u8": why}
        if not (self.int16 and self.storage16):
            why = f"{name} has no 16-bit words (shaderInt16 and storageBuffer16BitAccess)"
            found |= {"i16": why, "u16": why, "f16": why}
        return found
