"""When an equation may be computed inside of a group for one of its consumers there: an ordered list of named rules.

Rules are asked from the top; the first that holds decides.  One with a reason refuses, and the value is stored; one
without permits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tracejit.ir.extents import Extent, Shape, prod
from tracejit.ir.forms import Contract, FanOut, LibraryCall, Loop, Map, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.passes.groups import MANY
from tracejit.ir.passes.product import followers
from tracejit.ir.passes.reads import Access
from tracejit.support.nodes import frozen

if TYPE_CHECKING:
    from tracejit.ir.passes.fuse import Fuser, Node

__all__ = ["ACCESS_RULES", "RULES", "Question", "Rule", "refusal"]

# vector adds: of evaluating again what is read at several places; about what a store and loads from a near cache cost
AGAIN_COST = 24.0
ROOM = 16  # of the operations of a group is left for cheap values
PACK_COST = 12.0  # what an operand of a matrix product may cost to compute where it is packed
FEW = 32  # a reduction to fewer elements than this does not feed a larger loop in the same kernel,
SMALL = 16384  # unless it reads no more than so many


class Question:
    """May equation n be computed inside of `group` for its consumer c?

    cheap: whether n is; product: whether it is a matrix product; operations: of the group with n.
    """

    __slots__ = (
        "_places", "_row", "c", "cheap", "consumer", "cost", "form", "fuser", "group", "n", "operations", "product"
    )  # fmt: skip

    def __init__(self, fuser: Fuser, n: int, c: int, group: Node) -> None:
        self.fuser = fuser
        self.n = n
        self.c = c
        self.group = group
        self.form = fuser.equations[n].form
        self.consumer = fuser.equations[c].form
        self.cost = fuser.cost[n]
        self.cheap = fuser.is_cheap(n)
        self.product = fuser.tiles[n]
        self.operations = group.operations + fuser.shapes[n].operations
        self._places: int | None = None
        self._row: bool | None = None

    @property
    def places(self) -> int:
        """At how many places the group reads n."""
        if self._places is None:
            self._places = len(self.fuser.places(self.n, self.group))
        return self._places

    @property
    def accesses(self) -> Sequence[Access]:
        """How the consumer reads n."""
        return self.fuser.accesses(self.n, self.c)

    def again(self, access: Access) -> bool:
        """Whether the loops that an access depends on lie inside of others, which would evaluate n again."""
        used, missing = self.fuser.loops(access, self.c, self.group)
        beside = self.fuser.is_beside(access, self.c, self.group) and self.operations > MANY - ROOM
        return bool(used) and (max(used) >= min(missing) or beside)

    def only_elements_follow(self) -> bool:
        """Whether everything in the group follows n, a matrix product, element by element."""
        members = [self.fuser.equations[m] for m in sorted(set(self.group.members))]
        return followers(self.fuser.equations[self.n], members, self.group.outputs) is not None

    def has_only_maps(self) -> bool:
        return all(isinstance(self.fuser.equations[m].form, (Map, Piecewise)) for m in self.group.members)

    def follows_another_product(self) -> bool:
        mine, theirs = self.fuser.product[self.n], self.fuser.product[self.c]
        return (
            self.group.product is not None
            and mine is not None
            and (self.c == self.group.product or theirs != self.group.product)
        )

    def is_element_by_element(self) -> bool:
        """Whether the consumer, in a group without matrix product, asks once for each element, at its own index."""
        return (
            self.group.product is None
            and not self.product
            and isinstance(self.form, (Map, Piecewise))
            and self.c not in self.group.many
            and self.fuser.reads_in_place(self.n, self.c)
            and (self.cheap or self.places <= 1)
        )

    @property
    def row(self) -> bool:
        """Whether n is stored row by row in local memory, by the outermost loop of the group, around what reads it."""
        if self._row is None:
            self._row = self.fuser.rows and self.fuser.is_row(self.n, self.c, self.group)
        return self._row

    def computed_again(self) -> bool:
        """Whether that it is read at several places costs more than storing it."""
        return self.places > 1 and (isinstance(self.form, Reduce) or self.cost * (self.places - 1) > AGAIN_COST)


@frozen(eq=False)
class Rule:
    """holds: whether the rule decides.  reason: why the value is stored; None: it may be computed there."""

    name: str
    holds: Callable[[Question], bool]
    reason: str | Callable[[Question], str] | None


@frozen(eq=False)
class AccessRule:
    """A rule about one of the ways in which the consumer reads n; without a reason the next way is looked at."""

    name: str
    holds: Callable[[Question, Access], bool]
    reason: str | None


AGAIN = "it would be evaluated again for each outer iteration"
TILES = "a matrix product runs tile by tile"
ENDS = "a reduction to few elements ends a kernel"

RULES = (
    Rule("off", lambda q: not q.fuser.inline, "fusion is off"),
    Rule(
        "always stored",
        lambda q: isinstance(q.form, (Scan, Scatter, FanOut, Update, Loop, LibraryCall)) and not q.row,
        lambda q: f"a {_kind(q.form)} is stored",
    ),
    Rule(
        "reads buffers",
        lambda q: isinstance(q.consumer, (Loop, LibraryCall)),
        lambda q: f"a {_kind(q.consumer)} reads buffers",
    ),
    Rule(
        "reads what is changed",
        lambda q: q.fuser.changes_in_part(q.group, q.n),
        "it reads the array of which the kernel changes a small part, in place if nobody else reads it",
    ),
    Rule(
        "exchanges",
        lambda q: q.fuser.exchanges(q.group, q.n),
        "two kernels each read an array of which the other changes a small part",
    ),
    Rule("row by row", lambda q: q.row, None),
    Rule(
        "too many operations",
        lambda q: q.operations > (q.group.limit if q.cheap else q.group.limit - ROOM),
        "the kernel would grow beyond the limit",
    ),
    Rule("element by element", lambda q: q.is_element_by_element(), None),
    Rule("second product", lambda q: q.product and q.group.product is not None, "a kernel holds one matrix product"),
    Rule("product before a fold", lambda q: q.product and not q.has_only_maps(), TILES),
    Rule(
        "product before others",
        lambda q: q.product and not q.only_elements_follow(),
        "what follows a matrix product there is not element by element",
    ),
    Rule("product", lambda q: q.product, None),
    Rule("follows another product", lambda q: q.follows_another_product(), "it follows another matrix product"),
    Rule(
        "packed",
        lambda q: q.c == q.group.product and q.cost > PACK_COST,
        "a matrix product may pack an element more than once",
    ),
    Rule("cheap", lambda q: q.cheap, None),
    Rule("repeated", lambda q: q.c in q.group.many, "the consumer is evaluated repeatedly"),
    Rule("fold before a product", lambda q: isinstance(q.form, Reduce) and q.group.product is not None, TILES),
    Rule(
        "several places",
        lambda q: q.computed_again(),
        lambda q: f"it is read at {q.places} places, and would be evaluated at each",
    ),
)
"""Asked before one looks at how the consumer reads the value."""

ACCESS_RULES = (
    AccessRule("computed index", lambda q, a: None in a.axes, "the consumer reads it at computed indices"),
    AccessRule("in its own loops", lambda q, a: not q.fuser.loops(a, q.c, q.group)[1], None),
    AccessRule("in a branch", lambda q, a: q.fuser.in_branch(q.c, q.group), AGAIN),
    AccessRule("once for each packed element", lambda q, a: q.c == q.group.product, None),
    AccessRule(
        "contraction", lambda q, a: isinstance(q.consumer, Contract), "a contraction reads each element many times"
    ),
    AccessRule("tile by tile", lambda q, a: q.group.product is not None, TILES),
    AccessRule("inner loops", lambda q, a: q.again(a), AGAIN),
    AccessRule(
        "few elements",
        lambda q, a: isinstance(q.form, Reduce) and _few(q.form.domain) and not _small((*q.form.domain, *q.form.over)),
        ENDS,
    ),
    AccessRule(
        "no loop of the consumer's",
        lambda q, a: (
            not isinstance(q.form, Reduce)
            and bool(q.fuser.shapes[q.n].domain)
            and not q.fuser.loops(a, q.c, q.group)[0]
        ),
        AGAIN,
    ),
)
"""Asked for each way in which the consumer reads the value."""

LAST_RULES = (
    Rule(
        "a number",
        lambda q: (
            isinstance(q.form, Reduce)
            and q.form.domain == ()
            and bool(q.fuser.shapes[q.c].space)
            and not _small(q.form.over)
        ),
        ENDS,
    ),
)


def refusal(q: Question) -> str | None:
    """Why a value is stored; None if it may be computed where it is consumed."""
    first = _deciding(RULES, q)
    if first is not None:
        return _said(first, q)
    for access in q.accesses:
        about = next((rule for rule in ACCESS_RULES if rule.holds(q, access)), None)
        if about is not None and about.reason is not None:
            return about.reason
    last = _deciding(LAST_RULES, q)
    return None if last is None else _said(last, q)


def _deciding(rules: tuple[Rule, ...], q: Question) -> Rule | None:
    for rule in rules:
        if rule.holds(q):
            return rule
    return None


def _said(rule: Rule, q: Question) -> str | None:
    return rule.reason(q) if callable(rule.reason) else rule.reason


def _kind(form: object) -> str:
    return type(form).__name__


def _few(domain: Shape) -> bool:
    size: Extent = prod(domain)
    return isinstance(size, int) and size < FEW


def _small(space: Shape) -> bool:
    """So little work that another kernel would cost more than running it serially here."""
    size: Extent = prod(space)
    return isinstance(size, int) and size <= SMALL
