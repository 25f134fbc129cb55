"""The verifier of programs: buffers are declared, filled before they are read, and fit where they are handed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from tracejit.ir.extents import DimDependent, Extent, prod
from tracejit.ir.kernel import Const
from tracejit.ir.program import BindExtent, Call, Launch, Program, ProgramBuffer, Step, Steps, parts_of
from tracejit.ir.scalar import is_complex, part_dtype
from tracejit.ir.text.program import show_step
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
        self.indices: list[str] = []  # of the loops around
        self.declared = {*program.inputs, *program.outputs, *program.temporaries}
        names = [b.name for b in self.declared]
        for name in {n for n in names if names.count(n) > 1} if len(set(names)) < len(names) else ():
            self.fail(f"two buffers are called {name}")
        for role, buffers in zip(ROLES, (program.inputs, program.outputs, program.temporaries), strict=True):
            for b in buffers:
                if b.role != role and not (role == "output" and b in program.inputs):
                    self.fail(f"{b.name} is declared as {role}, and says {b.role}")

    def fail(self, what: str) -> NoReturn:
        where = "" if self.step is None else f", in `{show_step(self.step)}`"
        raise VerifyError(f"program {self.program.name}: {what}{where}")

    # -- what is filled ------------------------------------------------------------------------------------------------
    def block(self, steps: Steps, filled: set[ProgramBuffer]) -> set[ProgramBuffer]:
        """The buffers that are filled after steps before which `filled` are."""
        filled, around = set(filled), len(self.indices)
        for s in steps:
            self.step = s
            filled |= self.after(s, filled)
            if isinstance(s, BindExtent):
                self.indices.append(s.index)
        del self.indices[around:]
        return filled

    def after(self, s: Step, filled: set[ProgramBuffer]) -> set[ProgramBuffer]:
        """What a step fills."""
        self.rules(s)
        before, writes = set(filled), set[ProgramBuffer]()
        choices: list[set[ProgramBuffer]] = []
        for name, part in parts_of(type(s)).items():
            value = getattr(s, name)
            match part.role:
                case "read":
                    self.reads([value], before)
                    if part.dtype and (value.dtype != part.dtype or value.shape):
                        self.fail(f"{value.name} is {value.dtype}{list(value.shape)}, not one {part.dtype}")
                case "exchanged":
                    self.reads([value], before)
                case "passed":  # what a kernel writes too it may fill itself, before it reads
                    reads, own_writes = s.accesses()  # type: ignore[union-attr]
                    self.reads([b for b in reads if b not in own_writes], before)
                    writes.update(own_writes)
                case "written":
                    writes.update(value if isinstance(value, tuple) else (value,))
                case "extent":
                    self.symbols(value)
                case _:
                    index = getattr(s, "index", "_")
                    self.indices.append(index)
                    found = self.block(value, before)
                    self.indices.pop()
                    self.step = s
                    if part.runs == "once":
                        before = found
                    elif part.runs == "either":
                        choices.append(found)
        self.writes(writes)
        return before.union(writes, set.intersection(*choices) if choices else ())

    # -- rules ---------------------------------------------------------------------------------------------------------
    def declares(self, buffers: Iterable[ProgramBuffer]) -> None:
        for b in buffers:
            if b not in self.declared:
                self.fail(f"{b.name} is not declared")

    def reads(self, buffers: Sequence[ProgramBuffer], filled: set[ProgramBuffer]) -> None:
        self.declares(buffers)
        for b in buffers:
            if b not in filled and _count(b) != 0:
                self.fail(f"{b.name} is read before it is filled")

    def writes(self, buffers: Iterable[ProgramBuffer]) -> None:
        self.declares(buffers)
        for b in buffers:
            if b.role == "input" and b not in self.program.outputs:
                self.fail(f"{b.name} is an input that is not given up")

    def rules(self, s: Step) -> None:
        """What a step asks of its own buffers."""
        if alike := getattr(s, "alike", ()):
            self.alike(*(getattr(s, name) for name in alike))
        match s:
            case Launch():
                self.launch(s)
            case Call():
                for b in s.buffers:
                    if b.layout != "C":
                        self.fail(f"{b.name} is {b.layout}, and libraries take rows")
                if not {*s.writes} <= {*s.buffers}:
                    self.fail("it writes what it is not given")
            case _:
                pass

    def launch(self, s: Launch) -> None:
        if len(s.kernel.buffers) != len(s.arguments):
            self.fail(f"the kernel takes {len(s.kernel.buffers)} buffers, not {len(s.arguments)}")
        for name in s.kernel.dims:
            self.known(name)
        for parameter, b in zip(s.kernel.buffers, s.arguments, strict=True):
            parts = is_complex(b.dtype) and parameter.dtype == part_dtype(b.dtype)
            if parameter.dtype != b.dtype and not parts:
                self.fail(f"{b.name} is {b.dtype}, and the kernel takes {parameter.dtype}")
            if parameter.layout == "C" and b.layout != "C":
                self.fail(f"{b.name} is {b.layout}, and the kernel takes rows")
            shape = parameter.shape[:-1] if parts else parameter.shape
            wanted = prod(n.value if isinstance(n, Const) else n for n in shape)
            if not _may_be_equal(wanted, b.size):
                self.fail(f"{b.name} has {b.size} elements, and the kernel takes {wanted}")

    def alike(self, a: ProgramBuffer, b: ProgramBuffer) -> None:
        if a.dtype != b.dtype or not _may_be_equal(a.size, b.size):
            self.fail(f"{a.name} is {a.dtype} of {a.size} elements, {b.name} {b.dtype} of {b.size}")

    def symbols(self, n: Extent) -> None:
        for name in () if isinstance(n, int) else n.symbols():
            self.known(name)

    def known(self, name: str) -> None:
        if name not in self.program.dims and name not in self.indices:
            self.fail(f"the program has no extent {name}")


def _count(b: ProgramBuffer) -> int | None:
    """The number of elements, None if it is symbolic."""
    return b.size if isinstance(b.size, int) else None


def _may_be_equal(a: Extent, b: Extent) -> bool:
    try:
        return bool(a == b)
    except DimDependent:
        return True
