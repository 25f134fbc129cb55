"""Conversions of f16 for processors that have none (x86-64 without F16C):
the functions of a compiler's library that LLVM then calls.

    half   @__truncsfhf2(float)     rounded to the nearest, ties to even
    half   @__truncdfhf2(double)    rounded once; no x86-64 without AVX-512 FP16 has an instruction for it
    float  @__extendhfsf2(half)     exact

LLVM makes every operation on f16 of these and operations on f32, lane by lane.  They hold no operation on f16
themselves.
"""

from __future__ import annotations

from tracejit.backends.cpu.runtime import llvm
from tracejit.backends.cpu.runtime.object_cache import load_cached
from tracejit.backends.cpu.runtime.templates import Template

__all__ = ["ensure_loaded"]


def ensure_loaded() -> None:
    """Compile the module and define its symbols.  `llvm.load` does it for code that calls one of them."""
    library = load_cached(Template("runtime/half").text())
    for name in ("__truncsfhf2", "__truncdfhf2", "__extendhfsf2"):
        llvm.define_symbol(name, library.address(name))
