"""Configuration: a few switches, read from the environment once, changeable at run time; and the variables of the
environment that are read where they are needed.
"""

from __future__ import annotations

import os
from typing import Any

from tracejit.support.nodes import define, fields_of

__all__ = ["VARIABLES", "Config", "config", "variable"]

VARIABLES = {
    "BACKEND": "the default backend",
    "CACHE_DIR": "where what is compiled once for a machine is kept; empty: nowhere",
    "CHECKS": "verify every IR after every pass",
    "CPU": "the processor that code is made for: native, x86-64-v2, x86-64-v3, x86-64-v4",
    "CUDA_DEVICE": "the CUDA device, by number or a part of its name",
    "CUDA_DRIVER": "what CUDA is reached through: pycuda, cuda-bindings; empty: the first that works",
    "DISABLE": "backends that are switched off, by commas",
    "DISPATCH": "python: calls are dispatched in Python",
    "DUMP": "a directory for what each pass makes",
    "OPENCL_DEVICE": "the OpenCL device, by number or a part of its name",
    "OPENCL_PARTS": "into how many devices each OpenCL device is taken apart",
    "POISON": "fill memory with a pattern before it is used, between guards",
    "PROBE": "0: drivers are loaded without being tried in a process of their own first",
    "RECYCLE_BYTES": "how much memory of results is kept for the next ones",
    "REPLACE": "a directory of edited texts that take the place of what passes made",
    "STATEMENTS": "trace Python's own loops and branches as loops and branches of the program; 0: do not",
    "THREADS": "how many threads parallel loops use",
    "TIERS": "translate quickly at first, and well in the background",
    "TUNE_DB": "the file of tuned schedules; empty: none",
    "UNROLL": "up to how many equations loops over arrays are written out",
    "VULKAN_DEVICE": "the Vulkan device, by number or a part of its name",
}
"""All variables of the environment that count, without their prefix TRACEJIT_."""


def variable(name: str) -> str | None:
    """The text of one of `VARIABLES`, without blanks around it; None if it is not set."""
    if name not in VARIABLES:
        raise KeyError(name)
    text = os.environ.get(f"TRACEJIT_{name}")
    return None if text is None else text.strip()


def _flag(name: str, default: bool = False) -> bool:
    return (variable(name) or ("1" if default else "0")).lower() not in ("", "0", "false", "no", "off")


@define(eq=False)
class Config:
    """`tj.config`: process-wide settings.

    checks: verify every IR after every pass (TRACEJIT_CHECKS).
    backend: the default backend, or one of its devices, "opencl:1", or "auto" (TRACEJIT_BACKEND).
    default_dtype_bits: 64 for NumPy's float64 default, 32 for JAX's.
    cache_size: how many executables one jitted function keeps.
    cpu: the processor that CPU code is made for: "native", or a level of x86-64 as "x86-64-v2", "x86-64-v3" or
        "x86-64-v4" (TRACEJIT_CPU; read when the first function is compiled).
    poison: before each use fill results, intermediate and local arrays with NaN, or an improbable integer, so that an
        element which nothing writes shows, and put them between guards, so that a write outside of them is found
        (TRACEJIT_POISON; read when a function is compiled).  The reference backend always fills them.
    tiers: have LLVM translate a program quickly for its first call, and well in the background once it is called again
        (TRACEJIT_TIERS).
    statements: trace Python's own `for`, `while` and `if` on traced values as loops and branches of the program
        (TRACEJIT_STATEMENTS; read when a function is traced).
    unroll: loops over a known range that have at most so many equations, those of all iterations together, are written
        out, and so fused (TRACEJIT_UNROLL; 0: none are).
    dump: a directory to which what each pass of the compiler makes is written (TRACEJIT_DUMP).
    replace: a directory of edited texts that take the place of what a pass made (TRACEJIT_REPLACE); see
        `compiler/passes.py`.
    """

    checks: bool = False
    backend: str = "cpu"
    default_dtype_bits: int = 64
    cache_size: int = 128
    cpu: str = "native"
    poison: bool = False
    tiers: bool = True
    statements: bool = True
    unroll: int = 100
    dump: str = ""
    replace: str = ""

    def update(self, name: str, value: Any) -> None:
        """Set one of these, or one of JAX's where that is so here.   Raises: OptionError.

        >>> import tracejit as tj
        >>> tj.config.update("jax_enable_x64", True)  # as it is
        >>> tj.config.update("unroll", tj.config.unroll)
        """
        from tracejit.support.not_here import setting  # for speed of import

        found = setting(name, value, [f.name for f in fields_of(Config)])
        if found is not None:
            setattr(self, *found)


config = Config(
    checks=_flag("CHECKS"),
    backend=variable("BACKEND") or "cpu",
    cpu=variable("CPU") or "native",
    poison=_flag("POISON"),
    tiers=_flag("TIERS", True),
    statements=_flag("STATEMENTS", True),
    unroll=int(variable("UNROLL") or 100),
    dump=variable("DUMP") or "",
    replace=variable("REPLACE") or "",
)
