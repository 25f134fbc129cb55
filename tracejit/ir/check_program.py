"""The verifier of programs: buffers are declared, filled before they are read, and fit where they are handed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, assert_never

from tracejit.ir.effects import kernel_effects
from tracejit.ir.extents import DimDependent, Extent, prod
from tracejit.ir.kernel import Const
from tracejit.ir.program import (
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Steps,
    Swap,
    WhileLoop,
    show_steps,
)
from tracejit.support.errors import VerifyError

__all__ = ["check_program"]

ROLES = ("input", "output", "temporary")


def check_program(program: Program) -> None:
    """What holds between the steps of a program; its kernels have a verifier of their own.

    Raises: VerifyError, with the step.
    """
    c = _Checker(program)
    filled = c.block(program.steps, {*program.inputs})
    for b in program.outputs:
        if b not in filled and _count(b) != 0:
            c.fail(f"nothing fills the result {b.name}")


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.step: Step | None = None
        self.declared = {*program.inputs, *program.outputs, *program.temporaries}
        names = [b.name for b in self.declared]
        for name in {n for n in names if names.count(n) > 1} if len(set(names)) < len(names) else ():
            self.fail(f"two buffers are called {name}")
        for role, buffers in zip(ROLES, (program.inputs, program.outputs, program.temporaries), strict=True):
            for b in buffers:
                if b.role != role and not (role == "output" and b in program.inputs):
                    self.fail(f"{b.name} is declared as {role}, and says {b.role}")

    def fail(self, what: str) -> NoReturn:
        where = "" if self.step is None else f", in `{show_steps((self.step,))[0]}`"
        raise VerifyError(f"program {self.program.name}: {what}{where}")

    # -- what is filled ------------------------------------------------------------------------------------------------
    def block(self, steps: Steps, filled: set[ProgramBuffer]) -> set[ProgramBuffer]:
        """The buffers that are filled after steps before which `filled` are."""
        filled = set(filled)
        for s in steps:
            self.step = s
            filled |= self.after(s, filled)
        return filled

    def after(self, s: Step, filled: set[ProgramBuffer]) -> set[ProgramBuffer]:
        """What a step fills."""
        match s:
            case Launch():
                self.launch(s)
                reads, writes = kernel_effects(s.kernel)
                pairs = list(zip(s.kernel.buffers, s.arguments, strict=True))
                # what a kernel writes too it may fill itself, before it reads
                self.reads([a for b, a in pairs if b in reads and b not in writes], filled)
                written = [a for b, a in pairs if b in writes]
                self.writes(written)
                return {*written}
            case Call():
                self.reads([b for b in s.buffers if b not in s.writes], filled)
                for b in s.buffers:
                    if b.layout != "C":
                        self.fail(f"{b.name} is {b.layout}, and libraries take rows")
                if not {*s.writes} <= {*s.buffers}:
                    self.fail("it writes what it is not given")
                self.writes(s.writes)
                return {*s.writes}
            case Copy():
                self.reads([s.source], filled)
                self.declares([s.target])
                self.alike(s.target, s.source)
                return {s.target}
            case Swap():
                self.reads([s.a, s.b], filled)
                self.alike(s.a, s.b)
                return set()
            case WhileLoop():
                before = self.block(s.condition, filled)
                self.step = s
                self.flag(s.flag, "bool", before)
                self.block(s.body, before)
                return before
            case CountedLoop():
                self.symbols(s.count)
                return self.block(s.body, filled)  # stacked results have no elements where it does not run
            case Branch():
                self.flag(s.flag, "bool", filled)
                return self.block(s.then, filled) & self.block(s.orelse, filled)
            case Check():
                self.flag(s.failure, "i64", filled)
                return set()
            case _:
                assert_never(s)

    # -- rules ---------------------------------------------------------------------------------------------------------
    def declares(self, buffers: Sequence[ProgramBuffer]) -> None:
        for b in buffers:
            if b not in self.declared:
                self.fail(f"{b.name} is not declared")

    def reads(self, buffers: Sequence[ProgramBuffer], filled: set[ProgramBuffer]) -> None:
        self.declares(buffers)
        for b in buffers:
            if b not in filled and _count(b) != 0:
                self.fail(f"{b.name} is read before it is filled")

    def writes(self, buffers: Sequence[ProgramBuffer]) -> None:
        self.declares(buffers)
        for b in buffers:
            if b.role == "input" and b not in self.program.outputs:
                self.fail(f"{b.name} is an input that is not given up")

    def launch(self, s: Launch) -> None:
        if len(s.kernel.buffers) != len(s.arguments):
            self.fail(f"the kernel takes {len(s.kernel.buffers)} buffers, not {len(s.arguments)}")
        for name in s.kernel.dims:
            if name not in self.program.dims:
                self.fail(f"the program has no extent {name}")
        for parameter, b in zip(s.kernel.buffers, s.arguments, strict=True):
            if parameter.dtype != b.dtype:
                self.fail(f"{b.name} is {b.dtype}, and the kernel takes {parameter.dtype}")
            if parameter.layout == "C" and b.layout != "C":
                self.fail(f"{b.name} is {b.layout}, and the kernel takes rows")
            wanted = prod(n.value if isinstance(n, Const) else n for n in parameter.shape)
            if not _may_be_equal(wanted, b.size):
                self.fail(f"{b.name} has {b.size} elements, and the kernel takes {wanted}")

    def alike(self, a: ProgramBuffer, b: ProgramBuffer) -> None:
        if a.dtype != b.dtype or not _may_be_equal(a.size, b.size):
            self.fail(f"{a.name} is {a.dtype} of {a.size} elements, {b.name} {b.dtype} of {b.size}")

    def flag(self, b: ProgramBuffer, dtype: str, filled: set[ProgramBuffer]) -> None:
        self.reads([b], filled)
        if b.dtype != dtype or b.shape:
            self.fail(f"{b.name} is {b.dtype}{list(b.shape)}, not one {dtype}")

    def symbols(self, n: Extent) -> None:
        for name in () if isinstance(n, int) else n.symbols():
            if name not in self.program.dims:
                self.fail(f"the program has no extent {name}")


def _count(b: ProgramBuffer) -> int | None:
    """The number of elements, None if it is symbolic."""
    return b.size if isinstance(b.size, int) else None


def _may_be_equal(a: Extent, b: Extent) -> bool:
    try:
        return bool(a == b)
    except DimDependent:
        return True
