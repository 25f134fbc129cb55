"""Which statements of the kernel IR each code generator has, and that it names one it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, get_args

import numpy as np
import pytest

from tracejit.backends.c_like import print_kernels
from tracejit.backends.cpu.codegen.emit import Module
from tracejit.backends.cpu.codegen.program import WRITERS, emit_kernel
from tracejit.backends.opencl import target
from tracejit.backends.reference.interpreter import RUNNERS, run_kernel
from tracejit.backends.vulkan import printer
from tracejit.backends.vulkan.target import Capabilities
from tracejit.ir import kernel as k
from tracejit.ir.kernel import Buffer, Kernel, Operand, Statement
from tracejit.support.errors import InternalError

ALL = set(get_args(Statement))


@k.statement
class Fill:
    """Every element of a buffer becomes `value`."""

    syntax: ClassVar = "fill {buffer} with {value}"

    buffer: Buffer = k.stored()
    value: Operand = k.used()


k.STATEMENTS.remove(Fill)  # only the test below has it


def test_the_union_names_all_statements():
    assert set(k.STATEMENTS) == ALL


def test_the_cpu_writes_all_statements_of_kernels_but_those_of_groups():
    assert set(WRITERS) == ALL - {k.Read, k.Barrier}


def test_the_reference_runs_all_statements_of_kernels():
    assert set(RUNNERS) == ALL - {k.Read}


def printed(kernel: Kernel) -> Any:
    capabilities = target.Capabilities()
    return print_kernels([(kernel, 1)], target.dialect(capabilities), target.intrinsics(capabilities))


GENERATORS: dict[str, Callable[[Kernel], Any]] = {
    "the cpu backend": lambda kernel: emit_kernel(Module(WRITERS), kernel),
    "the reference backend": lambda kernel: run_kernel(kernel, {"y": np.zeros(3)}, {}),
    "OpenCL C": printed,
    "SPIR-V": lambda kernel: printer.print_kernels([(kernel, 1)], Capabilities()),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_statement_that_a_generator_has_not_is_named(name: str):
    y = Buffer("y", "f64", (3,))
    body: Any = (Fill(y, k.const(1.0, "f64")),)
    with pytest.raises(InternalError, match=f"{name} has no Fill"):
        GENERATORS[name](Kernel("f", (y,), frozenset({"y"}), body))
