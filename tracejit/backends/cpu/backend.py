"""The CPU backend: native functions of this process, compiled through LLVM."""

from __future__ import annotations

from typing import ClassVar

from tracejit.backends.base import Backend, LoweringRule, NativeCalls, Target
from tracejit.backends.cpu.codegen import blas
from tracejit.backends.cpu.compiled import CompiledProgram
from tracejit.backends.cpu.runtime import processor
from tracejit.backends.spellings import fault_of_template
from tracejit.ir.program import Program
from tracejit.support.platform import thread_count

__all__ = ["CPUBackend"]


class CPUBackend(Backend):
    """Native code through LLVM, run on the thread pool."""

    name: ClassVar[str] = "cpu"
    donates: ClassVar[bool] = True
    calls_libraries: ClassVar[bool] = True
    is_scheduled: ClassVar[bool] = True
    lowerings: ClassVar[tuple[LoweringRule, ...]] = (LoweringRule("dot_general", blas.product, blas.fits, "blas"),)

    def fault_of_kernel(self, source: object) -> str:
        from tracejit.backends.cpu.runtime.kernels import fault_of_kernel

        return fault_of_kernel(source)

    def fault_of_spelling(self, spelling: object, arity: int) -> str:
        return fault_of_template(spelling, arity, "LLVM instructions", ("type", "suffix", "result"), lines=True)

    def native_calls(self) -> NativeCalls:
        # at the first call: programs that are only lowered need none of it
        from tracejit.backends.cpu.calls.native import CPUCalls

        return CPUCalls()

    def target(self) -> Target:
        threads = thread_count()
        device = f"{processor.cpu_name()}, {processor.vector_bits()} bits, {threads} threads"
        return Target(
            "cpu",
            processor.vector_bits(),
            threads,
            fma=processor.has_fma(),
            device=device,
            driver=processor.fingerprint(),
        )

    def compile(self, program: Program) -> CompiledProgram:
        return CompiledProgram(program)
