"""What `jit(f).lower(*args)` gives: a traced function after all passes, before code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from tracejit.backends.base import Backend, Compiled
from tracejit.compiler.compilation import Log, forms_text, groups_text
from tracejit.compiler.passes import Journal
from tracejit.ir.effects import Effects, effects_of
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.program import Program
from tracejit.support.errors import TracejitError, UnsupportedError, UserError
from tracejit.support.nodes import frozen

__all__ = ["STAGES", "Lowered"]

STAGES = ("jaxpr", "forms", "fused", "kernel", "schedule", "scheduled", "program", "code", "asm")


@frozen(eq=False)
class Lowered:
    """A traced function after all passes, before code: `text(stage)` shows any of them,
    `compile()` makes the executable.
    """

    jaxpr: Jaxpr
    program: Program
    log: Log
    backend: Backend
    journal: Journal
    constants: tuple[Any, ...] = ()
    arguments: tuple[str, ...] = ()  # what the inputs are called
    written: tuple[int, ...] = ()  # inputs whose new values are the last results: the caller's arrays get them

    def text(self, stage: str = "jaxpr") -> str:
        """The text of one of `STAGES`.  Raises UserError for another name."""
        match stage:
            case "jaxpr":
                return str(self.jaxpr)
            case "forms":
                return forms_text(self.log.forms)
            case "fused":
                return groups_text(self.log.groups, self.log.refusals)
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

    def compile(self) -> Compiled:
        """The executable.  Raises CompileError with source and log, UnsupportedError;
        both say backend, primitive and line if known.
        """
        with self.blamed():
            return self.kept(self.backend.compile(self.program))

    def kept(self, made: Compiled) -> Compiled:
        """The executable, whose texts are dumped if that is asked for."""
        for stage in ("code", "asm") if self.journal.keeps_texts else ():
            with suppress(UnsupportedError):  # not every backend makes machine code
                self.journal.keep(f"{stage}.txt", made.text(stage))
        return made

    @contextmanager
    def blamed(self) -> Generator[None]:
        """Errors of the block say this backend, and the equation they come from as far as that can be told."""
        try:
            with self.journal.named():
                yield
        except TracejitError as error:
            error.about(backend=self.backend.name)
            equations = (
                [e for e in self.log.forms if e.location is error.location] if error.location else self.log.forms
            )
            if error.location or len(equations) == 1:
                error.at(equations[0].location if equations else None).about(
                    primitive=equations[0].name if equations else ""
                )
            raise

    @property
    def effects(self) -> Effects:
        """The arguments that a call reads, changes in place, and takes over for results, as `1` (the first),
        `1['w']` or `'name'`.
        """
        found = effects_of(self.program)
        name = lambda numbers: frozenset(self.arguments[n] if n < len(self.arguments) else n for n in numbers)  # noqa: E731
        return Effects(name(found.reads), name(found.writes | set(self.written)), name(found.donated))

    @property
    def report(self) -> list[tuple[str, str]]:
        """(equation, kernel it runs in) for every equation of the compiled program."""
        return self.log.report
