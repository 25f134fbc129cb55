"""Fusion: which values become buffers.  Decisions look at forms and how they index each other, never at primitives.

Equations are visited from the last to the first.  A value joins the group of its consumers when that costs no repeated
work: it is evaluated once per element there, or its loops end before the consumer's inner loops begin (then composition
hoists it), or it is cheap.  Otherwise it is stored, by a group of its own or as a further result of a consumer's group.
Every refusal is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tracejit.ir.extents import Shape, greatest_extent, prod
from tracejit.ir.forms import FanOut, Form, LibraryCall, Loop, Map, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.jaxpr import Atom, Var
from tracejit.ir.passes.fusion_rules import Question, refusal
from tracejit.ir.passes.group_order import in_order
from tracejit.ir.passes.group_rules import MAX_OPERATIONS, MERGE_RULES, PREFIX_RULES, Pair, Prefix, refused
from tracejit.ir.passes.groups import MANY, FormEquation, Group, is_few_columns, is_written_out, same_space
from tracejit.ir.passes.product import follows, tiles_well
from tracejit.ir.passes.reads import Access, FormShape, Place, Position, describe
from tracejit.support.nodes import define, field, frozen

__all__ = ["Fusion", "fuse"]

CHEAP = 4.0  # vector adds: below this, computing again is cheaper than a store and a load
MOST_PLACES = 16
MOST_CHANGES = 8  # of one array, one after another, that are followed
ROW = 1 << 15  # elements of a row that is kept in local memory
SMALL_PART = 4  # an update replaces a small part of an array if that has so many times as many elements


Order: TypeAlias = tuple[frozenset[int], ...]
_INNER = 1000  # numbers of loops that members bring along: they lie inside of those of the group
_BESIDE = 1_000_000  # numbers of loops that are written out side by side, inside of all others, from here on


def _own_order(form: Form, shape: FormShape) -> Order:
    """The loops of a form that is a group of its own, outermost 0:
    the axis of a scan is the innermost one, and so are few columns.
    """
    space = shape.space
    numbers = list(range(len(space)))
    if isinstance(form, Scan):
        numbers = [len(space) - 1 if d == form.axis else d - (d > form.axis) for d in numbers]
    elif isinstance(form, (Map, Reduce)):
        columns = len(shape.domain) - 1 if is_few_columns(shape.domain) else len(shape.domain)
        numbers = [
            _BESIDE + d if d == columns or (d >= len(shape.domain) and is_written_out(form)) else d for d in numbers
        ]
    return tuple(frozenset({n}) for n in numbers)


@define(eq=False)
class Node:
    """A group under construction."""

    number: int
    members: list[int]
    outputs: list[Var]
    space: Shape
    operations: int
    order: dict[int, Order] = field(factory=dict)  # which loops of the group the axes of each member run along
    many: set[int] = field(factory=set)  # members evaluated more than once an element
    guarded: set[int] = field(factory=set)  # members evaluated inside of branches
    changed: tuple[Atom, ...] = ()  # arrays of which the group makes others that differ in a small part
    # at which indices each member is evaluated in one iteration
    places: dict[int, frozenset[Place]] = field(factory=dict)
    product: int | None = None  # the matrix product that its loops are for
    outer: int = 0  # how many axes the stored results have
    limit: int = MAX_OPERATIONS
    loops: int = 0  # numbered so far
    # how many reductions to numbers come one after the other behind each member: those of a chain run one by one
    behind: dict[int, int] = field(factory=dict)


@frozen(eq=False)
class Fusion:
    """Groups in the order they run, and why values were stored: (value, reason)."""

    groups: tuple[Group, ...]
    refusals: tuple[tuple[Var, str], ...]


class Fuser:
    """Groups of equations, merged one by one where the rules of fusion allow it."""

    def __init__(self, equations: Sequence[FormEquation], outputs: Sequence[Atom], inline: bool, rows: bool) -> None:
        self.equations = equations
        self.inline = inline
        self.rows = rows
        self.program_outputs = {v for v in outputs if isinstance(v, Var)}
        described: dict[int, FormShape] = {}
        self.shapes = [
            described.setdefault(id(e.form), describe(e.form)) if id(e.form) not in described else described[id(e.form)]
            for e in equations
        ]
        self.consumers: dict[Var, list[int]] = {}
        self.producer: dict[Var, int] = {}
        for n, e in enumerate(equations):
            for v in e.outputs:
                self.producer[v] = n
            for a in dict.fromkeys(e.inputs):
                if isinstance(a, Var):
                    self.consumers.setdefault(a, []).append(n)
        self.cost = [0.0] * len(equations)
        for n, e in enumerate(equations):
            below = {self.producer[a] for a in e.inputs if isinstance(a, Var) and a in self.producer}
            self.cost[n] = self.shapes[n].cost + sum(
                self.cost[m] for m in below if isinstance(equations[m].form, (Map, Piecewise))
            )
        self.tiles = [tiles_well(e.form) for e in equations]  # whether it is a matrix product
        self.product: list[int | None] = []  # the matrix product that an equation follows element by element
        for n, e in enumerate(equations):
            before = [self.product[self.producer[a]] for a in e.inputs if isinstance(a, Var) and a in self.producer]
            found = next(
                (
                    p
                    for p in before
                    if p is not None
                    and follows(e, [k for k, a in enumerate(e.inputs) if self.product_of(a) == p], equations[p])
                ),
                None,
            )
            self.product.append(n if self.tiles[n] else found)
        self.nodes: dict[int, Node] = {}
        self.became: dict[int, int] = {}  # a group that was merged: the group it went into
        self.groups_of: list[list[int]] = [[] for _ in equations]
        self.after: dict[int, int] = {}  # group -> the groups that run after it, as bits
        self.read_by: dict[int, list[int]] = {}
        self.read_how: dict[tuple[int, int], tuple[Access, ...]] = {}
        self.changers: dict[Atom, list[int]] = {}  # array -> groups that change a small part of it
        self.read_in_place: dict[tuple[int, int], bool] = {}
        self.refusals: list[tuple[Var, str]] = []
        self.apart = ""  # why groups were not merged, the last time

    def is_cheap(self, n: int) -> bool:
        """Whether computing an equation again is cheaper than a store and a load."""
        return isinstance(self.equations[n].form, (Map, Piecewise)) and self.cost[n] <= CHEAP

    def is_fold(self, n: int) -> bool:
        """Whether an equation is a reduction to a number."""
        return isinstance(self.equations[n].form, Reduce) and not self.shapes[n].domain

    def product_of(self, atom: Atom) -> int | None:
        return self.product[self.producer[atom]] if isinstance(atom, Var) and atom in self.producer else None

    def accesses(self, n: int, c: int) -> tuple[Access, ...]:
        """How equation c reads n."""
        found = self.read_how.get((n, c))
        if found is None:
            outputs, reads = self.equations[n].outputs, self.shapes[c].reads
            read = [
                access
                for k, atom in enumerate(self.equations[c].inputs)
                if atom in outputs
                for access in reads.get(k, ())
            ]
            found = self.read_how[n, c] = tuple(read)
        return found

    def reads_in_place(self, n: int, c: int) -> bool:
        """Whether equation c reads n at its own index only."""
        found = self.read_in_place.get((n, c))
        if found is None:
            # Where an update starts is said without indices: of the update's loops it knows none.
            accesses, loops = self.accesses(n, c), len(self.shapes[c].space)
            found = bool(accesses) and all([access.own and len(access.axes) == loops for access in accesses])
            self.read_in_place[n, c] = found
        return found

    def readers_in_place(self, n: int, node: Node) -> list[int]:
        """The members of a group that read n, if all of them do so at their own index; else none."""
        readers = [c for c in self.consumed_by(n) if c in node.order]
        return readers if all(self.reads_in_place(n, c) for c in readers) else []

    # -- loops and places ----------------------------------------------------------------------------------------------
    def loops(self, access: Access, c: int, node: Node) -> tuple[set[int], set[int]]:
        """The loops around consumer c in its group that an access depends on, and those that it leaves out.

        One along which several axes run (the rows and columns of what is flattened) is both if only some of them count.
        """
        order, space = node.order[c], self.shapes[c].space
        counting = {d for axis in access.axes if axis is not None for d in axis if d < len(order)}
        left_out = [
            ps for d, ps in enumerate(order) if d not in counting and not (isinstance(space[d], int) and space[d] == 1)
        ]
        return {p for d in counting for p in order[d]}, {p for ps in left_out for p in ps}

    def is_beside(self, access: Access, c: int, node: Node) -> bool:
        """Whether an access is evaluated once only because loops are written out side by side inside
        of a reduction's.
        """
        used, missing = self.loops(access, c, node)
        return max(missing, default=0) >= _BESIDE and max((p for p in used if p < _BESIDE), default=0) >= node.outer

    def places(self, n: int, node: Node) -> frozenset[Place]:
        """At which indices the members of a group that read n ask for its elements in one iteration."""
        shared = {node.places[c] for c in self.readers_in_place(n, node)}
        if len(shared) == 1:
            return shared.pop()
        found = self.read_places(n, node)
        if not node.space and len(found) > 1 and self.running(node):  # several reductions to numbers over one space
            found = frozenset([tuple([self.numbered(i, node) for i in place]) for place in found])
        return found

    def read_places(self, n: int, node: Node) -> frozenset[Place]:
        """The same, with the loops of each member for themselves."""
        found: set[Place] = set()
        for c in self.consumed_by(n):
            if c not in node.order:
                continue
            for access in self.accesses(n, c):
                if access.own:
                    found |= node.places[c]
                    continue
                found.update(_composed(place, access, (c, len(found))) for place in node.places[c])
                if len(found) > MOST_PLACES:
                    return frozenset(found)
        return frozenset(found)

    def order_in(self, n: int, node: Node) -> Order:
        """The loops that the axes of n run along inside a group, seen from all its consumers there;
        its own reductions lie inside.
        """
        domain, space = self.shapes[n].domain, self.shapes[n].space
        shared = {node.order[c] for c in self.readers_in_place(n, node)}
        if len(shared) == 1 and len(space) == len(domain):
            return shared.pop()
        found: list[set[int]] = [set() for _ in domain]
        for c in self.consumed_by(n):
            if c not in node.order:
                continue
            order = node.order[c]
            for access in self.accesses(n, c) if domain else ():
                for positions, axis in zip(found, access.axes, strict=True):
                    # The base of a scatter has its own loops, of which the region may have fewer.
                    every = frozenset(range(len(order))) if axis is None else axis
                    positions.update(p for d in every if d < len(order) for p in order[d])
        inner = (_BESIDE if is_written_out(self.equations[n].form) else _INNER) + node.loops
        return (*map(frozenset, found), *(frozenset({inner + d}) for d in range(len(space) - len(domain))))

    # -- groups --------------------------------------------------------------------------------------------------------
    def downstream(self, start: int, target: int) -> bool:
        """Whether group `target` runs after `start` because of a chain of stored values."""
        return bool(self.after[start] >> target & 1)

    def run_after(self, g: int, stored: Sequence[Var]) -> None:
        """Group g stores these values: the groups that read them run after it, and after all that it runs after."""
        later = 0
        for v in stored:
            for c in self.consumers.get(v, ()):
                for h in self.groups_of[c]:
                    if h != g:
                        later |= self.after[h] | 1 << h
        self.add_after(g, later)

    def add_after(self, g: int, later: int) -> None:
        """The groups of a set run after g."""
        if not later & ~self.after.get(g, 0):
            return
        self.after[g] = self.after.get(g, 0) | later
        for h, known in self.after.items():
            if known >> g & 1:
                self.after[h] = known | later

    def merge(self, groups: list[int], beside: bool = False) -> list[int]:
        """Join groups over one iteration space that none of the others waits for;
        with `beside` one of them may scatter.
        """
        first, *rest = groups
        kept = [first]
        for g in rest:
            a, b = self.nodes[first], self.nodes[g]
            why = refused(MERGE_RULES, Pair(self, a, b, beside))
            if why is not None:
                kept.append(g)
                self.apart = why
                continue
            if beside:
                self.in_loops_of_reductions(a)
                self.in_loops_of_reductions(b)
            a.outer = max(a.outer, b.outer)
            a.members = list(dict.fromkeys((*a.members, *b.members)))
            a.outputs += b.outputs
            a.many |= b.many
            a.guarded |= b.guarded
            a.changed += b.changed
            a.order |= b.order
            a.loops += b.loops
            a.places |= b.places
            a.behind |= b.behind
            a.operations += b.operations
            for m in b.members:
                self.groups_of[m] = list(dict.fromkeys(first if x == g else x for x in self.groups_of[m]))
            later, bits = self.after[first] | self.after.pop(g), 1 << first | 1 << g
            self.after[first] = later
            for h, known in self.after.items():
                if known & bits:
                    self.after[h] = known | later | bits
            del self.nodes[g]
            self.became[g] = first
        return kept

    def scatters(self, made: Node) -> bool:
        return any(isinstance(self.equations[m].form, Scatter) for m in made.members)

    def is_row(self, n: int, c: int, node: Node) -> bool:
        """Whether a group reads of n, several elements of which are made at a time, in each iteration of its outermost
        loop what one iteration of n's makes, and that is a few numbers.
        """
        form, space = self.equations[n].form, node.space
        if not (isinstance(form, FanOut) and space and form.region and form.domain and node.product is None):
            return False
        lead, row = space[0], prod(form.domain[1:])
        if lead == 1 if isinstance(lead, int) else False:
            return False
        if not (isinstance(row, int) and row <= ROW and same_space((lead, lead), (form.region[0], form.domain[0]))):
            return False
        if not all(isinstance(self.equations[m].form, (Map, Piecewise, FanOut)) for m in node.members):
            return False
        order, first = node.order[c], frozenset({0})
        for access in self.accesses(n, c):
            at = access.at[0]
            if at is None or at[0] is None or at[1:] != (1, 0) or order[at[0]] != first:
                return False
            if any(place[at[0]] != (0, 1, 0) for place in node.places[c]):  # of c another row is asked for
                return False
        return True

    def join_row(self, n: int, node: Node) -> None:
        """What `join` does for a value that is kept row by row: it has loops of its own inside of the outermost one."""
        inner = range(1, len(self.shapes[n].space))
        node.order[n] = (frozenset({0}), *[frozenset({_INNER + node.loops + d}) for d in inner])
        node.loops += len(node.order[n])
        node.limit += self.shapes[n].operations
        node.places[n] = frozenset({((0, 1, 0), *[((n, d), 1, 0) for d in inner])})

    def join(self, n: int, g: int) -> None:
        node = self.nodes[g]
        node.members.append(n)
        node.operations += self.shapes[n].operations
        after = [node.behind.get(c, 0) + self.is_fold(c) for c in self.consumed_by(n) if c in node.order]
        node.behind[n] = max(after, default=0)
        if isinstance(self.equations[n].form, FanOut):
            self.join_row(n, node)
            self.groups_of[n] = [g]
            return
        node.order[n] = self.order_in(n, node)
        node.loops += len(node.order[n])
        own = len(self.shapes[n].space) - len(self.shapes[n].domain)
        places = self.places(n, node)
        node.places[n] = frozenset((*p, *(((n, d), 1, 0) for d in range(own))) for p in places) if own else places
        if self.tiles[n]:
            node.product = n
        if g not in self.groups_of[n]:
            self.groups_of[n].append(g)
        for c in self.consumed_by(n):
            if g in self.groups_of[c]:
                if self.in_branch(c, node):
                    node.guarded.add(n)
                if self.repeated(n, c, node):
                    node.many.add(n)
                if self.reads_in_place(n, c):
                    continue
                if node.order[c] and any(self.is_beside(access, c, node) for access in self.accesses(n, c)):
                    node.limit = MANY

    def changed_by(self, e: FormEquation) -> tuple[Atom, ...]:
        """The array of which an update replaces a small part, and those that this one has replaced parts of before."""
        found: list[Atom] = []
        update: FormEquation | None = e
        while update is not None and len(found) < MOST_CHANGES:
            if not isinstance(update.form, (Update, Scatter)) or not _is_small_part(update.form):
                break
            base = update.inputs[0]
            found.append(base)
            before = self.producer.get(base) if isinstance(base, Var) else None
            update = None if before is None else self.equations[before]
        return tuple(found)

    def changes_in_part(self, node: Node, n: int) -> bool:
        """Whether a group changes a small part of an array that equation n reads, or of what that has become."""
        return any([base in self.equations[n].inputs for base in node.changed])

    def exchanges(self, node: Node, n: int) -> bool:
        """Whether equation n reads an array of which another group changes a small part, and that group one which this
        group changes, or a third one, and so on around: one of them has to read before anything is changed.
        """
        if not node.changed:
            return False
        seen: set[int] = set()
        pending = [n]  # equations; what changes the arrays that they read has to run later
        while pending and len(seen) < MOST_CHANGES:
            for a in self.equations[pending.pop()].inputs:
                for g in self.changers.get(a, ()):
                    while g in self.became:
                        g = self.became[g]
                    if self.nodes[g] is not node and g not in seen:
                        seen.add(g)
                        pending += self.nodes[g].members
                    elif self.nodes[g] is node and seen:
                        return True
        return False

    def in_branch(self, c: int, node: Node) -> bool:
        """Whether consumer c asks for its operands inside of a branch, so in every iteration of the loops around it."""
        return self.shapes[c].branches or c in node.guarded

    def repeated(self, n: int, c: int, node: Node) -> bool:
        """Whether consumer c evaluates n more than once for an element of n."""
        if c in node.many:
            return True
        if c == node.product:
            return False  # once for each element that is packed
        if self.reads_in_place(n, c):
            return False
        for access in self.accesses(n, c):
            used, missing = self.loops(access, c, node)
            if (
                None in access.axes
                or (missing and used and max(used) >= min(missing))
                or (missing and not used and self.shapes[n].domain)
                or (missing and self.in_branch(c, node))
            ):
                return True
        return False

    def consumed_by(self, n: int) -> list[int]:
        """The equations of groups that read n; all of them were visited before n is, so the answer stays."""
        found = self.read_by.get(n)
        if found is None:
            consumers = dict.fromkeys(c for v in self.equations[n].outputs for c in self.consumers.get(v, ()))
            found = self.read_by[n] = [c for c in consumers if self.groups_of[c]]
        return found

    def new_group(self, n: int) -> None:
        e, shape = self.equations[n], self.shapes[n]
        stored = [v for v in e.outputs if v in self.program_outputs or self.consumers.get(v)] or list(e.outputs[:1])
        if isinstance(e.form, (Scan, Loop, LibraryCall)):
            stored = list(e.outputs)
        self.nodes[n] = Node(
            n,
            [n],
            stored,
            shape.space,
            shape.operations,
            {n: _own_order(e.form, shape)},
            product=n if self.tiles[n] else None,
            outer=len(shape.domain) - is_few_columns(shape.domain),
            places={n: frozenset({tuple((d, 1, 0) for d in range(len(shape.space)))})},
            changed=self.changed_by(e),
        )
        for a in self.nodes[n].changed:
            self.changers.setdefault(a, []).append(n)
        self.groups_of[n] = [n]
        self.after[n] = 0
        self.run_after(n, stored)

    def visit(self, n: int) -> None:
        e = self.equations[n]
        needed = any(v in self.program_outputs for v in e.outputs)
        consumers = self.consumed_by(n)
        if not consumers and not needed:
            return  # dead
        groups = list(dict.fromkeys(g for c in consumers for g in self.groups_of[c]))
        reasons = {g: self.reason(n, g, consumers) for g in groups}
        if not needed and all(r is None for r in reasons.values()):
            cheap = self.is_cheap(n)
            if len(groups) > 1 and not cheap:
                groups = self.merge(groups, beside=self.read_at_one_place(n, groups))
            if len(groups) == 1 or cheap:
                for g in groups:
                    self.join(n, g)
                return
            reasons = {g: None for g in groups}
        why = next((r for r in reasons.values() if r), "")
        if not why:
            why = "it is a result of the program" if needed else f"several kernels read it: {self.apart}"
        for g in groups:
            if reasons[g] is not None:
                continue
            apart = refused(PREFIX_RULES, Prefix(self, n, self.nodes[g]))
            if apart is None:
                self.join(n, g)
                self.nodes[g].outputs.append(e.outputs[0])
                self.groups_of[n] = [g]
                self.run_after(g, e.outputs)
                return
            why += f"; {apart}" if needed else ""
        self.refusals += [(v, why) for v in e.outputs]
        self.new_group(n)

    def reason(self, n: int, g: int, consumers: Sequence[int]) -> str | None:
        node = self.nodes[g]
        for c in consumers:
            if g in self.groups_of[c]:
                why = refusal(Question(self, n, c, node))
                if why is not None:
                    return why
        return None

    def run(self) -> Fusion:
        for n in range(len(self.equations) - 1, -1, -1):
            self.visit(n)
        if self.inline:
            self.join_readers()
        return Fusion(tuple(in_order(self)), tuple(reversed(self.refusals)))

    def join_readers(self) -> None:
        """Groups side by side: over one iteration space, reading one array at one place, which is then loaded once."""
        readers: dict[tuple[Var, Place], dict[int, None]] = {}
        for g, made in self.nodes.items():
            if not all(isinstance(self.equations[m].form, (Map, Piecewise, Reduce, Scatter)) for m in made.members):
                continue
            for v, place in self.reads_of(g, made):
                readers.setdefault((v, place), {})[g] = None
        for groups in readers.values():
            left = list(dict.fromkeys(self.present(g) for g in groups))
            while len(left) > 1:
                left = self.merge(left, beside=True)[1:]

    def present(self, g: int) -> int:
        """The group that a group has become part of."""
        while g in self.became:
            g = self.became[g]
        return g

    def read_at_one_place(self, n: int, groups: Sequence[int]) -> bool:
        """Whether groups read equation n in each iteration at one index, the same in all of them."""
        (value,) = outputs if len(outputs := self.equations[n].outputs) == 1 else (None,)
        found: set[Place | None] = set()
        for g in groups:
            made = self.nodes[g]
            found.update(at for m in made.members for v, at in self.read_by_member(m, made) if v is value)
        return len(found) == 1 and None not in found

    def reads_of(self, g: int, made: Node) -> Iterator[tuple[Var, Place]]:
        """What a group reads of others, and where, as far as the indices are known."""
        for m in made.members:
            for v, at in self.read_by_member(m, made):
                if at is not None and not (v in self.producer and g in self.groups_of[self.producer[v]]):
                    yield v, at

    def read_by_member(self, m: int, made: Node) -> Iterator[tuple[Var, Place | None]]:
        """What a member of a group reads, and where in the loops of the group; None for an index that is not known."""
        for k, v in enumerate(self.equations[m].inputs):
            if not isinstance(v, Var):
                continue
            for access in self.shapes[m].reads.get(k, ()):
                for place in made.places[m]:
                    at = place if access.own else _composed(place, access, -1)
                    yield v, None if -1 in at else tuple(self.numbered(i, made) for i in at)

    def running(self, made: Node) -> Shape:
        """The space that the loops of a group run over: for a number made of reductions to numbers
        that of the reductions.
        """
        if made.space:
            return made.space
        spaces = [self.shapes[m].space for m in made.members if isinstance(self.equations[m].form, Reduce)]
        return spaces[0] if spaces and all(same_space(spaces[0], s) for s in spaces) else made.space

    def in_loops_of_reductions(self, made: Node) -> None:
        """Have a number made of reductions to numbers run over the space of these: their loops become its own."""
        space = self.running(made)
        if made.space or not space:
            return
        folds = {m for m in made.members if isinstance(self.equations[m].form, Reduce)}
        at_once = {m for m in folds if len(made.order[m]) == len(space) and not made.behind.get(m)}
        own = {p: d for m in at_once for d, loops in enumerate(made.order[m]) for p in loops}
        made.order = {m: tuple([frozenset(own.get(p, p) for p in ps) for ps in o]) for m, o in made.order.items()}
        made.places = {
            m: frozenset([tuple([self.numbered(i, made) for i in p]) for p in ps]) for m, ps in made.places.items()
        }
        made.space = space

    def numbered(self, index: Position | tuple[int, int] | int, made: Node) -> Position | tuple[int, int] | int:
        """An index with the loops of reductions to numbers counted as those of a group over the same space,
        where no other reduction waits for them; as loops that they share, otherwise.
        """
        if isinstance(index, int) or len(index) != 3 or made.space or not isinstance(index[0], tuple):
            return index
        fold, axis = index[0]
        behind = made.behind.get(fold, 0)
        return (-behind, axis) if behind else axis, index[1], index[2]


def _composed(place: Place, access: Access, otherwise: tuple[int, int] | int) -> Place:
    """Where a member evaluated at `place` reads; an index that is not affine makes it a place of its own."""
    out: list[Position | tuple[int, int] | int] = []
    for at in access.at:
        if at is None:
            return (*out, otherwise)
        parameter, factor, offset = at
        if parameter is None:
            out.append(at)
            continue
        base = place[parameter] if parameter < len(place) else otherwise
        if not (isinstance(base, tuple) and len(base) == 3):
            return (*out, otherwise)
        loop, inner, start = base
        out.append((loop, inner * factor, start * factor + offset))
    return tuple(out)


def _is_small_part(form: Update | Scatter) -> bool:
    """Whether so few elements are replaced that a copy of all others would cost more than to store these apart."""
    part, whole = prod(form.region), prod(form.domain)
    if isinstance(whole, int):
        part = greatest_extent(part)  # of a region that is as long as the index of a loop says
        return isinstance(part, int) and part * SMALL_PART <= whole
    return isinstance(part, int) or any(
        isinstance(n, int) and not isinstance(m, int) for n, m in zip(form.region, form.domain, strict=False)
    )


def fuse(
    equations: Sequence[FormEquation], outputs: Sequence[Atom], *, inline: bool = True, rows: bool = False
) -> Fusion:
    """Group equations into kernels.  With `inline=False` every equation is its own (for comparison and debugging).

    rows: whether a kernel may keep a row of a value in local memory, which suits threads with caches and no grid.
    """
    return Fuser(equations, outputs, inline, rows).run()
