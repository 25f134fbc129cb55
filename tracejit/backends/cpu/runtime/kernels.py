"""Kernels that users have written for the processor: LLVM IR, or a function that is in this process already."""

from __future__ import annotations

import ctypes
from typing import Any

from tracejit.backends.cpu.runtime import llvm
from tracejit.ir.forms import KernelSources
from tracejit.support.errors import CompileError

__all__ = ["address", "fault_of_kernel"]

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
"""The class of C functions."""
_loaded: dict[str, int] = {}
"""Where each is, by its name: its code stays for good, as programs name it by its address."""


def fault_of_kernel(source: object) -> str:
    """Why something is no kernel for the processor, as the rest of a sentence; empty if it is one."""
    if isinstance(source, str):
        return "" if source.strip() else "is empty"
    return "" if _address_of(source) else f"is LLVM IR as text, or a C function (ctypes, numba.cfunc), not {source!r}"


def address(kernel: KernelSources) -> int:
    """Where its function is.   Raises: CompileError for text that LLVM does not take, or without that function."""
    found = _loaded.get(kernel.name)
    if found is None:
        source = kernel.sources["cpu"]
        if isinstance(source, str):
            try:
                library = llvm.load(source, passes="O2")
                found = library.address(kernel.entry)
            except CompileError as error:
                raise CompileError(
                    f"the cpu source of {kernel.entry} (tj.native.kernel) does not compile: {error.message}",
                    source=source,
                    log=error.log,
                ) from error
            library.keep()
        else:
            found = _address_of(source)
        _loaded[kernel.name] = found
    return found


def _address_of(source: Any) -> int:
    """That of a function of ctypes, or what has an `address` (numba.cfunc); 0 of anything else."""
    if isinstance(source, _FUNCTION):
        return ctypes.cast(source, ctypes.c_void_p).value or 0
    found = getattr(source, "address", None)
    return found if isinstance(found, int) else 0
