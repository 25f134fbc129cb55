"""The compiler's table of contents: the passes that a traced function goes through, in order, each with its name.

    jaxpr    simplify, cse, dce
    program  build: runs the passes above over the bodies of loops, `forms` and `fused` over these and the function, and
    for each group of equations
             compose, merge_loops, collapse, product, schedule, scheduled
             absorb, donate, parts

`compiler/passes.py` runs them.  Code is made of the program by its backend.  An edited text may take the place of a
jaxpr, kernel, schedule or program, and of the code; forms and groups say less than they are made of and are only shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.autotune.choose import choose, default_schedule
from tracejit.backends.base import Backend
from tracejit.compiler.absorb import absorb
from tracejit.compiler.build import build_program
from tracejit.compiler.compilation import Compilation, ComposedKernel, forms_text, groups_text
from tracejit.compiler.lower import lower
from tracejit.compiler.lowered import Lowered
from tracejit.compiler.passes import (
    Dialect,
    Journal,
    Pass,
    read_jaxpr,
    read_kernel,
    read_program,
    verify_jaxpr,
    verify_kernel,
    verify_program,
)
from tracejit.compiler.supported import check_supported
from tracejit.ir.jaxpr import Atom, Jaxpr, Var
from tracejit.ir.kernel import Kernel
from tracejit.ir.passes.collapse import collapse
from tracejit.ir.passes.compose import compose
from tracejit.ir.passes.contract import product_group
from tracejit.ir.passes.fuse import Fusion, fuse
from tracejit.ir.passes.groups import FormEquation, Group
from tracejit.ir.passes.merge_loops import merge_loops
from tracejit.ir.passes.parts import parts_of_program
from tracejit.ir.passes.simplify import cse, dce, simplify
from tracejit.ir.program import Program
from tracejit.ir.schedule import Schedule, apply, parse_schedule
from tracejit.support.config import config
from tracejit.support.nodes import evolve

__all__ = ["FORM_PASSES", "GROUP_PASSES", "JAXPR_PASSES", "KERNEL_PASSES", "PROGRAM_PASSES", "lower_jaxpr"]


# -- passes ------------------------------------------------------------------------------------------------------------
def _on_jaxpr(run: Callable[[Jaxpr], Jaxpr]) -> Callable[[Jaxpr, Compilation], Jaxpr]:
    return lambda jaxpr, _: run(jaxpr)


def _on_kernel(run: Callable[[Kernel], Kernel]) -> Callable[[ComposedKernel, Compilation], ComposedKernel]:
    def run_on(work: ComposedKernel, _: Compilation) -> ComposedKernel:
        if work.joined:  # of kernels that have been through it
            return work
        after = run(work.kernel)
        return work if after is work.kernel else evolve(work, kernel=after)

    return run_on


def _forms(jaxpr: Jaxpr, c: Compilation) -> tuple[list[FormEquation], list[Atom]]:
    equations, outputs = lower(jaxpr, c.backend.name, c.alternatives)
    c.log.forms += equations
    return equations, outputs


def _fused(lowered: tuple[list[FormEquation], list[Atom]], c: Compilation) -> tuple[Fusion, list[Atom]]:
    equations, outputs = lowered
    fusion = fuse(equations, outputs, inline=c.inline, rows=bool(c.target.vector_bits) and not c.target.grid)
    c.log.groups += fusion.groups
    c.log.refusals += fusion.refusals
    return fusion, outputs


def _composed(named: tuple[Group, str, Callable[[Var], str]], c: Compilation) -> ComposedKernel:
    group, name, layout_of = named
    kernel, parameters = compose(group, name, layout_of)
    check_supported(kernel, group.equations, c.target)
    return ComposedKernel(group, layout_of, kernel, parameters)


def _product(work: ComposedKernel, _: Compilation) -> ComposedKernel:
    """A kernel that is a matrix product says so; an edited one is the loops that it has."""
    found = None if work.edited or work.joined else product_group(work.group, work.kernel.name, work.layout_of)
    return (
        work if found is None else evolve(work, product=found, kernel=evolve(work.kernel, product=found.description()))
    )


def _schedule(work: ComposedKernel, c: Compilation) -> ComposedKernel:
    return evolve(work, schedule=c.pick(work.kernel), unscheduled=work.kernel)


def _scheduled(work: ComposedKernel, _: Compilation) -> ComposedKernel:
    return evolve(work, kernel=apply(work.kernel, work.schedule, work.product))


def _build(jaxpr: Jaxpr, c: Compilation) -> Program:
    return build_program(jaxpr, c)


def _absorb(program: Program, c: Compilation) -> Program:
    def pick(kernel: Kernel) -> Schedule:
        return default_schedule(kernel, c.target)

    launched = c.backend.native_calls() is None
    return absorb(program, vectors=bool(c.target.vector_bits), made=c.log.joined, pick=pick, launched=launched)


def _donate(program: Program, c: Compilation) -> Program:
    if not c.donated or not c.backend.donates:
        return program
    from tracejit.compiler.donate import donate

    return donate(program, c.donated)


def _parts(program: Program, _: Compilation) -> Program:
    return parts_of_program(program)


def _edited(text: str, work: ComposedKernel) -> ComposedKernel:
    kernel = read_kernel(text, work.kernel)
    return (
        work
        if str(kernel) == str(work.kernel)
        else evolve(work, kernel=evolve(kernel, product=None), product=None, edited=True)
    )


JAXPR = Dialect("jaxpr", str, verify_jaxpr, read_jaxpr)
FORMS = Dialect("forms", lambda lowered: forms_text(lowered[0]))
GROUPS = Dialect("groups", lambda fused: groups_text(fused[0].groups, fused[0].refusals))
KERNEL = Dialect(
    "kernel",
    lambda w: str(w.kernel),
    lambda w: verify_kernel(w.kernel),
    _edited,
)
SCHEDULE = Dialect(
    "schedule", lambda w: str(w.schedule), None, lambda text, w: evolve(w, schedule=parse_schedule(text.strip()))
)
PROGRAM = Dialect("program", str, verify_program, read_program)

JAXPR_PASSES = (
    Pass("simplify", _on_jaxpr(simplify), JAXPR),
    Pass("cse", _on_jaxpr(cse), JAXPR),
    Pass("dce", _on_jaxpr(dce), JAXPR),
)
PROGRAM_PASSES = (
    Pass("build", _build, PROGRAM),
    Pass("absorb", _absorb, PROGRAM),
    Pass("donate", _donate, PROGRAM),
    Pass("parts", _parts, PROGRAM),
)
FORM_PASSES = (
    Pass("forms", _forms, FORMS),
    Pass("fused", _fused, GROUPS),
)
GROUP_PASSES = (Pass("compose", _composed, KERNEL),)
KERNEL_PASSES = (
    Pass("merge_loops", _on_kernel(merge_loops), KERNEL),
    Pass("collapse", _on_kernel(collapse), KERNEL),
    Pass("product", _product, KERNEL),
    Pass("schedule", _schedule, SCHEDULE),
    Pass("scheduled", _scheduled, KERNEL),
)


def lower_jaxpr(
    jaxpr: Jaxpr,
    backend: Backend,
    layouts: Sequence[str],
    name: str = "main",
    constants: tuple[Any, ...] = (),
    *,
    schedule: Callable[[Kernel], Schedule] | None = None,
    alternatives: tuple[str, ...] = (),
    donated: Sequence[int] = (),
    checked: bool = False,
    inline: bool = True,
) -> Lowered:
    """Run every pass on a staged jaxpr for a backend; see `Compilation` for the options."""
    target = backend.target()

    def pick(kernel: Kernel) -> Schedule:
        return choose(kernel, target) if schedule is None else schedule(kernel)

    journal = Journal(name)
    c = Compilation(
        name, backend, target, pick, journal, layouts, inline, alternatives, donated, checked, JAXPR_PASSES,
        FORM_PASSES, GROUP_PASSES, KERNEL_PASSES
    )  # fmt: skip
    if config.checks:
        verify_jaxpr(jaxpr)
    with journal.named():
        jaxpr = journal.run(JAXPR_PASSES, journal.seen("staged", JAXPR, jaxpr), c)
        program = journal.run(PROGRAM_PASSES, jaxpr, c)
    journal.finish()
    if journal.edits is not None:
        program = evolve(program, edit=journal.edits)
    return Lowered(jaxpr, program, c.log, backend, journal, constants)
