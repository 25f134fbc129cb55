"""Which loops of a trace Python runs itself, and which branches it decides, and why: what cannot be one of the
program is traced again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import CodeType
from typing import NoReturn

from tracejit.support.errors import Restart
from tracejit.support.nodes import define, field, frozen
from tracejit.tracer.given import GivenContainers
from tracejit.tracer.interpreter import Interpreter, current_interpreter
from tracejit.tracer.slots import Slot

__all__ = ["MOST_APART", "AsPython", "Decisions", "Site", "as_python"]

MOST_APART = 6
"""So many iterations of a loop at most stand apart from it."""
_MOST_NESTED = 8
"""So often a branch may be within itself, as those of functions are that call themselves."""
_MOST_RECURSIONS = 256
"""So often its sides may be traced within itself: a function that calls itself twice doubles them with each call."""
CALLS_ITSELF = "what it decides is whether a function calls itself"


@frozen
class Site:
    """Where a statement is.  place: of the instruction in its code."""

    code: CodeType
    place: int
    what: str = "loop"


class AsPython(Restart):
    """The trace starts again, and Python runs a loop of it, or decides a branch, unless there is another way.

    reason: why, as a sentence.  apart: iterations (at the beginning, at the end) that are the reason.  counted: the
    bounds of the loop are extents, and are to be taken for that.  long: Python has run it, and the program shall.
    """

    def __init__(
        self,
        site: Site,
        reason: str,
        apart: tuple[int, int] | None = None,
        *,
        counted: bool = False,
        long: bool = False,
    ) -> None:
        super().__init__(reason)
        self.site = site
        self.reason = reason
        self.apart = apart
        self.counted = counted
        self.long = long


def as_python(
    site: Site, reason: str, apart: tuple[int, int] | None = None, *, counted: bool = False, long: bool = False
) -> NoReturn:
    """Have the trace start again with a loop or branch that is left to Python.  Raises: AsPython."""
    restart = AsPython(site, reason, apart, counted=counted, long=long)
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
    # loops with iterations (at the beginning, at the end) that are none of the program's loop
    apart: dict[Site, tuple[int, int]] = field(factory=dict[Site, "tuple[int, int]"])
    open: list[Site] = field(factory=list[Site])  # loops whose bodies are being traced
    branches: list[Site] = field(factory=list[Site])  # likewise
    recursions: dict[Site, int] = field(factory=dict[Site, int])  # how often branches were in themselves
    copies: int = 1  # of what is traced now, by loops of few iterations that are written out
    counted: set[Site] = field(factory=set[Site])  # loops whose bounds are extents, and no numbers of the program
    long: set[Site] = field(factory=set[Site])  # `while` loops that Python could run, in too many iterations
    indices: int = 0  # how many loops have an index that may be in extents
    # loops, of so many iterations, that are better written out
    short: set[tuple[Site, int]] = field(factory=set[tuple[Site, int]])
    # names that a loop has bound to what cannot be handed on, and so have no value after it: the loop, and why
    dropped: dict[str, tuple[Site, str]] = field(factory=dict[str, "tuple[Site, str]"])

    # places of objects that statements have bound anew: while what was recorded, in which code
    slots: list[tuple[Interpreter, CodeType, Slot]] = field(factory=list["tuple[Interpreter, CodeType, Slot]"])

    given: GivenContainers = field(factory=GivenContainers)

    def leave(self, restart: AsPython) -> None:
        """What to do with a loop or branch that could be none of the program: some iterations may have been the reason,
        the first one if nothing else is known.
        """
        site = restart.site
        first, last = self.apart.get(site, (0, 0))
        more = restart.apart or ((1, 0) if not first and restart.apart is None else (MOST_APART, 0))
        if restart.counted:
            self.counted.add(site)
        elif restart.long:
            self.long.add(site)
        elif site.what == "loop" and max(first + more[0], last + more[1]) < MOST_APART:
            self.apart[site] = first + more[0], last + more[1]
        else:
            self.python[site] = restart.reason

    def shorten(self, reason: str) -> bool:
        """Have Python run the loops after all that it could run, whose numbers the program does not know now; whether
        there are some.
        """
        long, self.long = self.long, set[Site]()
        self.python.update(dict.fromkeys(long, reason))
        return bool(long)

    def is_wanted(self, name: str | None) -> bool:
        """Whether a name that is read has no value because of a loop, which is left to Python then."""
        if name is None or name not in self.dropped:
            return False
        site, reason = self.dropped.pop(name)
        self.python[site] = reason
        return True

    @contextmanager
    def tracing(self, site: Site) -> Generator[None]:
        """The body of a loop is traced in the block, once for all iterations."""
        self.open.append(site)
        try:
            yield
        finally:
            self.open.pop()

    @contextmanager
    def writing_out(self, count: int) -> Generator[None]:
        """The block runs the body of a loop so many times."""
        before = self.copies
        self.copies *= max(1, count)
        try:
            yield
        finally:
            self.copies = before

    @contextmanager
    def branching(self, site: Site) -> Generator[None]:
        """The sides of a branch are traced in the block.  Raises: AsPython for one that never ends to be in itself."""
        nested = self.branches.count(site)
        if nested:  # not for others: the hash of a site is that of its code, with all functions within
            self.recursions[site] = self.recursions.get(site, 0) + 1
            if nested >= _MOST_NESTED or self.recursions[site] > _MOST_RECURSIONS:
                as_python(site, CALLS_ITSELF)
        self.branches.append(site)
        try:
            yield
        finally:
            self.branches.pop()

    def give_up(self, reason: str) -> None:
        """What Python does here is not what one iteration for all would do.  Raises: AsPython in the body of a loop."""
        if self.open:
            as_python(self.open[-1], reason)
