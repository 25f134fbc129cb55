"""What the passes of `pipeline.py` know and share: the options of a compilation, what it produced,
and a kernel on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tracejit.backends.base import Backend, Target
from tracejit.compiler.passes import Journal, Pass
from tracejit.ir.jaxpr import Atom, Jaxpr, Var
from tracejit.ir.kernel import Buffer, Kernel
from tracejit.ir.passes.contract import ProductGroup
from tracejit.ir.passes.fuse import Fusion
from tracejit.ir.passes.groups import FormEquation, Group
from tracejit.ir.schedule import Schedule
from tracejit.support.nodes import define, field, frozen

__all__ = ["Compilation", "ComposedKernel", "Log", "forms_text", "groups_text"]


@frozen(eq=False)
class ComposedKernel:
    """A kernel on its way, with what it was made of.

    parameters: the buffer of each variable that it reads or stores.  unscheduled: the kernel that the schedule was
    chosen for.  edited: its text was written by hand, so it is no longer what the group says.  joined: it was made
    of the kernels of two groups.
    """

    group: Group
    layout_of: Callable[[Var], str]
    kernel: Kernel
    parameters: dict[Var, Buffer]
    product: ProductGroup | None = None
    schedule: Schedule = Schedule()
    unscheduled: Kernel | None = None
    edited: bool = False
    joined: bool = False


@define(eq=False)
class Log:
    """What the passes produced, for `text(stage)` and the compile report."""

    forms: list[FormEquation] = field(factory=list)
    groups: list[Group] = field(factory=list)
    refusals: list[tuple[Var, str]] = field(factory=list)
    kernels: list[tuple[Kernel, Kernel, Schedule]] = field(factory=list)  # unscheduled, scheduled, schedule
    report: list[tuple[str, str]] = field(factory=list)  # equation name, the kernel or library it runs in

    def joined(self, kernel: Kernel, parts: Iterable[Kernel]) -> None:
        """A kernel was made of others."""
        names = {k.name for k in parts}
        self.report[:] = [(equation, kernel.name if where in names else where) for equation, where in self.report]
        self.kernels = [k for k in self.kernels if k[1].name not in names]
        self.kernels.append((kernel, kernel, Schedule()))


@frozen(eq=False)
class Compilation:
    """What passes know besides what they work on.

    pick: the schedule of a kernel.  inline: whether equations are fused at all.  alternatives: the forms of primitives
    that the function asks for.
    donated: inputs whose memory results may take over.  checked: the last output is no result; the program fails where
    it is not 0. jaxpr_passes, form_passes, group_passes, kernel_passes: what `build` runs over the bodies of loops,
    every jaxpr in the program, every group and kernel.
    """

    name: str
    backend: Backend
    target: Target
    pick: Callable[[Kernel], Schedule]
    journal: Journal
    layouts: Sequence[str] = ()
    inline: bool = True
    alternatives: tuple[str, ...] = ()
    donated: Sequence[int] = ()
    checked: bool = False
    jaxpr_passes: Sequence[Pass] = ()
    form_passes: Sequence[Pass] = ()
    group_passes: Sequence[Pass] = ()
    kernel_passes: Sequence[Pass] = ()
    log: Log = field(factory=Log)

    def cleaned(self, jaxpr: Jaxpr) -> Jaxpr:
        """The body of a loop or branch without what need not be computed."""
        return self.journal.run(self.jaxpr_passes, jaxpr, self)

    def fused(self, jaxpr: Jaxpr) -> tuple[Fusion, list[Atom]]:
        """The groups of a jaxpr, and its outputs."""
        return self.journal.run(self.form_passes, jaxpr, self)

    def composed(self, group: Group, name: str, layout_of: Callable[[Var], str]) -> ComposedKernel:
        """The kernel of a group in plain loops."""
        return self.journal.run(self.group_passes, (group, name, layout_of), self, name)

    def scheduled(self, composed: ComposedKernel) -> ComposedKernel:
        """It as it will run."""
        made: ComposedKernel = self.journal.run(self.kernel_passes, composed, self, composed.kernel.name)
        assert made.unscheduled is not None
        self.log.kernels.append((made.unscheduled, made.kernel, made.schedule))
        return made


def forms_text(forms: Sequence[FormEquation]) -> str:
    """Equations and the forms that they have on the backend."""
    from tracejit.ir.text import print_form

    return "\n".join(f"{e.name}: {print_form(e.form)}" for e in forms)


def groups_text(groups: Sequence[Group], refusals: Sequence[tuple[Var, str]]) -> str:
    """Which equations share a kernel, and why values are stored between kernels."""
    lines = [f"kernel {n}: {' '.join(e.name for e in g.equations)}" for n, g in enumerate(groups)]
    return "\n".join([*lines, *(f"stored {v.aval}: {why}" for v, why in refusals)])
