"""The one list of what happens to a traced function: each stage named, verified when checks are on, and shown on request."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracejit.autotune.choose import choose
from tracejit.backends.base import Backend, Compiled
from tracejit.compiler.build import BuildLog, build_program
from tracejit.ir.effects import Effects, effects_of
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import Kernel
from tracejit.ir.passes.simplify import cse, dce, simplify
from tracejit.ir.program import Program
from tracejit.ir.schedule import Schedule
from tracejit.support.config import config
from tracejit.support.errors import TracejitError, UserError
from tracejit.support.nodes import frozen

__all__ = ["STAGES", "Lowered", "clean", "lower_jaxpr"]

STAGES = ("jaxpr", "forms", "fused", "kernel", "schedule", "scheduled", "program", "code", "asm")


def clean(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr passes, in order."""
    for run in (simplify, cse, dce):
        after = run(jaxpr)
        if config.checks and after is not jaxpr:
            from tracejit.ir.check import check_jaxpr

            check_jaxpr(after)
        jaxpr = after
    return jaxpr


@frozen(eq=False)
class Lowered:
    """A traced function after all passes, before code: `text(stage)` shows any of them, `compile()` makes the executable."""

    jaxpr: Jaxpr
    program: Program
    log: BuildLog
    backend: Backend
    constants: tuple[Any, ...] = ()
    arguments: tuple[str, ...] = ()  # what the inputs are called
    written: tuple[int, ...] = ()  # inputs whose new values are the last results: the caller's arrays get them

    def text(self, stage: str = "jaxpr") -> str:
        """The text of one of `STAGES`.  Raises UserError for another name."""
        match stage:
            case "jaxpr":
                return str(self.jaxpr)
            case "forms":
                from tracejit.ir.text import print_form

                return "\n".join(f"{e.name}: {print_form(e.form)}" for e in self.log.forms)
            case "fused":
                return self._fused()
            case "kernel":
                return "\n\n".join(str(k) for k, _, _ in self.log.kernels)
            case "schedule":
                return "\n".join(f"{k.name}: {s}" for k, _, s in self.log.kernels)
            case "scheduled":
                return "\n\n".join(str(k) for _, k, _ in self.log.kernels)
            case "program":
                return str(self.program)
            case "code" | "asm":
                return self.compile().text(stage)
            case _:
                raise UserError(f"there is no stage {stage!r}; stages are {', '.join(STAGES)}")

    def _fused(self) -> str:
        lines = [f"kernel {n}: {' '.join(e.name for e in g.equations)}" for n, g in enumerate(self.log.groups)]
        lines += [f"stored {v.aval}: {why}" for v, why in self.log.refusals]
        return "\n".join(lines)

    def compile(self) -> Compiled:
        """The executable.  Raises CompileError with source and log, UnsupportedError; both say backend, primitive and line if known."""
        with self.blamed():
            return self.backend.compile(self.program)

    @contextmanager
    def blamed(self) -> Generator[None]:
        """Errors of the block say this backend, and the equation they come from as far as that can be told."""
        try:
            yield
        except TracejitError as error:
            error.about(backend=self.backend.name)
            equations = [e for e in self.log.forms if e.location is error.location] if error.location else self.log.forms
            if error.location or len(equations) == 1:
                error.at(equations[0].location if equations else None).about(primitive=equations[0].name if equations else "")
            raise

    @property
    def effects(self) -> Effects:
        """The arguments that a call reads, changes in place, and takes over for results, as `1` (the first), `1['w']` or `'name'`."""
        found = effects_of(self.program)
        name = lambda numbers: frozenset(self.arguments[n] if n < len(self.arguments) else n for n in numbers)  # noqa: E731
        return Effects(name(found.reads), name(found.writes | set(self.written)), name(found.donated))

    @property
    def report(self) -> list[tuple[str, str]]:
        """(equation, kernel it runs in) for every equation of the compiled program."""
        return self.log.report


def lower_jaxpr(
    jaxpr: Jaxpr,
    backend: Backend,
    layouts: Sequence[str],
    name: str = "main",
    constants: tuple[Any, ...] = (),
    *,
    schedule: Any = None,
    alternatives: tuple[str, ...] = (),
    donated: Sequence[int] = (),
    checked: bool = False,
) -> Lowered:
    """Run every pass on a staged jaxpr for a backend.

    donated: inputs whose memory results may take over.  checked: the last output is no result but what the program fails by (`Check`).
    """
    if config.checks:
        from tracejit.ir.check import check_jaxpr

        check_jaxpr(jaxpr)

    target = backend.target()

    def pick(kernel: Kernel) -> Schedule:
        return choose(kernel, target) if schedule is None else schedule(kernel)

    jaxpr = clean(jaxpr)
    program, log = build_program(jaxpr, name, layouts, backend.name, pick, alternatives=alternatives, checked=checked)
    if donated and backend.execution_model == "direct":  # others work on copies of the arguments
        from tracejit.compiler.donate import donate

        program = donate(program, donated)
        if config.checks:
            from tracejit.ir.check import check_kernel

            for kernel in program.kernels():
                check_kernel(kernel)
    return Lowered(jaxpr, program, log, backend, constants)


def layout_of(array: np.ndarray[Any, Any]) -> str:
    """The layout class of an argument: "C", or "strided"."""
    return "C" if array.flags.c_contiguous and array.flags.aligned else "strided"
