"""LLVM IR of device kernels to PTX, by LLVM's NVPTX target in this process: no toolkit of NVIDIA's is needed.

LLVM ends the process where it cannot select an instruction.  What reaches it is `backends.llvm_grid`'s output alone, of
which the tests compile every operation on every dtype.

Source: LLVM's user guide for the NVPTX back end (calling convention, address spaces, intrinsics, attributes).
"""

from __future__ import annotations

import functools
from typing import Any

from tracejit.backends.llvm_grid import Machine
from tracejit.support.errors import BackendUnavailable, CompileError

__all__ = ["architecture", "machine", "to_ptx"]

_TRIPLE = "nvptx64-nvidia-cuda"
_ARCHITECTURES = (60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 120)
"""Compute capabilities, times ten, that LLVM makes code for.  PTX for one runs on all later ones."""
_SREG = "@llvm.nvvm.read.ptx.sreg"
_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all"


def architecture(capability: int) -> str:
    """What to compile for on a device of a compute capability (times ten).

    Raises: BackendUnavailable for one that is too old.
    """
    found = [a for a in _ARCHITECTURES if a <= capability]
    if not found:
        raise BackendUnavailable(
            f"the cuda backend needs a device of compute capability 6.0 or later, not {capability // 10}."
            f"{capability % 10}"
        )
    return f"sm_{found[-1]}"


@functools.cache
def _target_machine(arch: str) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # Without features LLVM writes the oldest version of PTX that knows the architecture, which old drivers read too.
    return llvm.Target.from_triple(_TRIPLE).create_target_machine(cpu=arch, opt=3)


@functools.cache
def machine() -> Machine:
    """How NVIDIA's GPUs are spoken to."""
    # The layout has to be in the text: the alignment of accesses is settled where it is parsed.
    layout = str(_target_machine("sm_60").target_data)
    return Machine(
        backend="cuda",
        name="PTX",
        header=f'target datalayout = "{layout}"\ntarget triple = "{_TRIPLE}"',
        kernel="define ptx_kernel void",
        attributes='"nvvm.reqntid"="{group}"',
        spaces={"global": 1, "shared": 3},
        threads={"lane_id": f"{_SREG}.tid.x", "group_id": f"{_SREG}.ctaid.x", "group_count": f"{_SREG}.nctaid.x"},
        barrier=(f"call void {_BARRIER}(i32 0)", f"declare void {_BARRIER}(i32)"),
        scope='syncscope("device")',
    )


def to_ptx(text: str, arch: str) -> str:
    """PTX of a module.  Raises CompileError, with the text, where LLVM does not take it."""
    import llvmlite.binding as llvm

    target = _target_machine(arch)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompileError("LLVM rejected generated code", source=text, log=str(error)) from error
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return target.emit_assembly(module)
