"""The one list of what happens to a traced function: each stage named, verified when checks are on, and shown on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.autotune.choose import choose
from tracejit.backends.base import Backend, Compiled
from tracejit.compiler.build import BuildLog, build_program
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import Kernel
from tracejit.ir.passes.simplify import cse, dce, simplify
from tracejit.ir.program import Program
from tracejit.ir.schedule import Schedule
from tracejit.support.config import config
from tracejit.support.errors import UserError
from tracejit.support.nodes import node

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


@node
class Lowered:
    """A traced function after all passes, before code: `text(stage)` shows any of them, `compile()` makes the executable."""

    jaxpr: Jaxpr
    program: Program
    log: BuildLog
    backend: Backend
    constants: tuple[Any, ...] = ()

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
        return self.backend.compile(self.program)

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
) -> Lowered:
    """Run every pass on a staged jaxpr for a backend."""
    if config.checks:
        from tracejit.ir.check import check_jaxpr

        check_jaxpr(jaxpr)

    target = backend.target()

    def pick(kernel: Kernel) -> Schedule:
        return choose(kernel, target) if schedule is None else schedule(kernel)

    jaxpr = clean(jaxpr)
    program, log = build_program(jaxpr, name, layouts, backend.name, pick, alternatives=alternatives)
    return Lowered(jaxpr, program, log, backend, constants)


def layout_of(array: np.ndarray[Any, Any]) -> str:
    """The layout class of an argument: "C", or "strided"."""
    return "C" if array.flags.c_contiguous and array.flags.aligned else "strided"
