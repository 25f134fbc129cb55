"""Configuration: a few switches, read from the environment once, changeable at run time."""

from __future__ import annotations

import os

from tracejit.support.nodes import define

__all__ = ["Config", "config"]


def _flag(name: str, default: bool = False) -> bool:
    return os.environ.get(name, "1" if default else "0").lower() not in ("", "0", "false", "no", "off")


@define(eq=False)
class Config:
    """`tj.config`: process-wide settings.

    checks: verify every IR after every pass (TRACEJIT_CHECKS).
    backend: the default backend name (TRACEJIT_BACKEND).
    default_dtype_bits: 64 for NumPy's float64 default, 32 for JAX's.
    cache_size: how many executables one jitted function keeps.
    cpu: the processor that CPU code is made for: "native", or a level of x86-64 as "x86-64-v2", "x86-64-v3" or
        "x86-64-v4" (TRACEJIT_CPU; read when the first function is compiled).
    poison: before each use fill results, intermediate and local arrays with NaN, or an improbable integer, so that an
        element which nothing writes shows, and put them between guards, so that a write outside of them is found
        (TRACEJIT_POISON; read when a function is compiled).  The reference backend always fills them.
    tiers: have LLVM translate a program quickly for its first call, and well in the background once it is called again
        (TRACEJIT_TIERS).
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
    dump: str = ""
    replace: str = ""


config = Config(
    checks=_flag("TRACEJIT_CHECKS"),
    backend=os.environ.get("TRACEJIT_BACKEND", "cpu"),
    cpu=os.environ.get("TRACEJIT_CPU", "native"),
    poison=_flag("TRACEJIT_POISON"),
    tiers=_flag("TRACEJIT_TIERS", True),
    dump=os.environ.get("TRACEJIT_DUMP", ""),
    replace=os.environ.get("TRACEJIT_REPLACE", ""),
)
