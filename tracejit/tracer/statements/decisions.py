"""Which loops of a trace Python runs itself, and why: what cannot be one loop of the program is traced again, iteration
by iteration.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType
from typing import NoReturn

from tracejit.support.errors import Restart
from tracejit.support.nodes import define, field
from tracejit.tracer.interpreter import Interpreter, current_interpreter

__all__ = ["AsPython", "Decisions", "Site", "as_python"]

Site = tuple[CodeType, int]
"""A loop: the code it stands in, and the instruction that calls it."""


class AsPython(Restart):
    """The trace starts again, and Python runs a loop of it.  reason: why, as a sentence."""

    def __init__(self, site: Site, reason: str) -> None:
        super().__init__(reason)
        self.site = site
        self.reason = reason


def as_python(site: Site, reason: str) -> NoReturn:
    """Have the trace start again with a loop that Python runs.  Raises: AsPython."""
    restart = AsPython(site, reason)
    interpreter: Interpreter | None = current_interpreter()
    while interpreter is not None:
        if interpreter.is_program:
            interpreter.refused = restart  # should a bare `except:` catch it
        interpreter = interpreter.parent
    raise restart


@define(eq=False)
class Decisions:
    """Of one trace, however often it starts again."""

    python: dict[Site, str] = field(factory=dict[Site, str])
    open: list[Site] = field(factory=list[Site])  # whose bodies are being traced

    @contextmanager
    def tracing(self, site: Site) -> Generator[None]:
        """The body of a loop is traced in the block, once for all iterations."""
        self.open.append(site)
        try:
            yield
        finally:
            self.open.pop()

    def give_up(self, reason: str) -> None:
        """What Python does here is not what one iteration for all would do.  Raises: AsPython in the body of a loop."""
        if self.open:
            as_python(self.open[-1], reason)
