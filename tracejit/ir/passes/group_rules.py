"""When two groups may become one kernel, and when a group may store a value that it computes on its way: ordered lists
of named rules.  The first that holds refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from tracejit.ir.forms import FanOut, LibraryCall, Loop, Reduce, Scan, Scatter, Update
from tracejit.ir.passes.groups import same_space
from tracejit.support.nodes import frozen

if TYPE_CHECKING:
    from tracejit.ir.passes.fuse import Fuser, Node

__all__ = ["MERGE_RULES", "PREFIX_RULES", "Pair", "Prefix", "refused"]

MAX_OPERATIONS = 400  # of one group: beyond it registers and code size suffer
BESIDE_SCATTER = 8.0  # what may be computed for an element of a reduction that shares the loop of a scatter


class Pair:
    """May groups a and b become one?  beside: they only read the same array, and one of them may scatter."""

    __slots__ = ("a", "b", "beside", "fuser")

    def __init__(self, fuser: Fuser, a: Node, b: Node, beside: bool) -> None:
        self.fuser, self.a, self.b, self.beside = fuser, a, b, beside

    def same_loops(self) -> bool:
        """Whether both run over one space."""
        running = self.fuser.running
        return same_space(self.a.space, self.b.space) or (self.beside and same_space(running(self.a), running(self.b)))

    def waits(self) -> bool:
        """Whether one needs what comes out of the other by way of a third."""
        a, b = self.a.number, self.b.number
        return self.fuser.downstream(a, b) or self.fuser.downstream(b, a)

    def holds(self, *kinds: type) -> bool:
        """Whether a form of these kinds is in one of them."""
        forms = self.fuser.equations
        return any(isinstance(forms[m].form, kinds) for m in (*self.a.members, *self.b.members))

    def keeps_scatter_apart(self) -> bool:
        """Whether one scatters, and the other does not fit into the serial loop which that needs."""
        scatters = [node for node in (self.a, self.b) if self.fuser.scatters(node)]
        if not scatters:
            return False
        other = self.b if self.a in scatters else self.a
        return not (self.beside and len(scatters) == 1 and self.fits_serial_loop(other))

    def fits_serial_loop(self, made: Node) -> bool:
        """Whether a group makes an integer of cheap elements: that a pass less is needed outweighs
        that they come one at a time.

        Not a sum of floating-point numbers, which is more exact where many are added up side by side.
        """
        if any(v.aval.shape or v.aval.dtype.kind == "f" for v in made.outputs):
            return False
        shapes = self.fuser.shapes
        return sum(shapes[m].cost for m in made.members if shapes[m].domain) <= BESIDE_SCATTER


class Prefix:
    """May `group`, which reads equation n, store its value: are n's own loops the outer ones of the group?"""

    __slots__ = ("fuser", "group", "n")

    def __init__(self, fuser: Fuser, n: int, group: Node) -> None:
        self.fuser, self.n, self.group = fuser, n, group

    def repeated(self) -> bool:
        """Whether the group computes elements of n more than once."""
        g, fuser = self.group, self.fuser
        return self.n in g.many or any(
            fuser.repeated(self.n, c, g) for c in fuser.consumed_by(self.n) if g.number in fuser.groups_of[c]
        )

    def has_outer_loops(self) -> bool:
        domain, space = self.fuser.shapes[self.n].domain, self.group.space
        return len(domain) <= len(space) and same_space(domain, space[: len(domain)])

    def is_number(self) -> bool:
        """Whether it is a reduction to a number."""
        return isinstance(self.fuser.equations[self.n].form, Reduce) and not self.fuser.shapes[self.n].domain

    def is_row(self) -> bool:
        """Whether several elements of it are made at a time."""
        return isinstance(self.fuser.equations[self.n].form, FanOut)

    def holds(self, *kinds: type) -> bool:
        """Whether a form of these kinds is in the group."""
        return any(isinstance(self.fuser.equations[m].form, kinds) for m in self.group.members)

    def waits(self) -> bool:
        """Whether another reader of n runs before the group."""
        others = [g for c in self.fuser.consumed_by(self.n) for g in self.fuser.groups_of[c] if g != self.group.number]
        return any(self.fuser.downstream(h, self.group.number) for h in others)


Q = TypeVar("Q")


@frozen(eq=False)
class GroupRule(Generic[Q]):
    """Refuses where `holds`, because of `reason`."""

    name: str
    holds: Callable[[Q], bool]
    reason: str


MERGE_RULES: tuple[GroupRule[Pair], ...] = (
    GroupRule(
        "product",
        lambda q: q.a.product is not None or q.b.product is not None,
        "one of them is a matrix product",
    ),
    GroupRule("other loops", lambda q: not q.same_loops(), "they loop over different extents"),
    GroupRule(
        "too many operations",
        lambda q: q.a.operations + q.b.operations > MAX_OPERATIONS,
        "their kernel would grow beyond the limit",
    ),
    GroupRule("waits", lambda q: q.waits(), "one needs what the other makes"),
    GroupRule(
        "whole arrays",
        lambda q: q.holds(Loop, LibraryCall, Update, FanOut),
        "one works on whole arrays, or changes one",
    ),
    GroupRule("scatter", lambda q: q.keeps_scatter_apart(), "one of them scatters"),
)
"""When groups that read one value, or one array at one place, stay apart."""

PREFIX_RULES: tuple[GroupRule[Prefix], ...] = (
    GroupRule(
        "several results", lambda q: len(q.fuser.equations[q.n].outputs) != 1, "the equation has several results"
    ),
    GroupRule("waits", lambda q: q.waits(), "another kernel needs it before"),
    GroupRule("product", lambda q: q.group.product is not None, "a matrix product runs tile by tile"),
    GroupRule("row", lambda q: q.is_row(), "it would be kept in local memory, row by row"),
    GroupRule("number", lambda q: q.is_number(), "it is a number, and the kernel a loop"),
    GroupRule(
        "in order",
        lambda q: q.holds(Scan, Update, Scatter, FanOut),
        "the kernel scans, updates or scatters",
    ),
    GroupRule("other loops", lambda q: not q.has_outer_loops(), "the loops of the kernel that reads it are others"),
    GroupRule("repeated", lambda q: q.repeated(), "the kernel that reads it computes elements more than once"),
)
"""When a value that is needed elsewhere is not stored by the kernel that computes it on its way."""


def refused(rules: tuple[GroupRule[Q], ...], question: Q) -> str | None:
    """Why not; None if nothing speaks against it."""
    for rule in rules:
        if rule.holds(question):
            return rule.reason
    return None
