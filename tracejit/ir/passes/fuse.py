"""Fusion: which values become buffers.  Decisions look at forms and how they index each other, never at primitives.

Equations are visited from the last to the first.  A value joins the group of its consumers when that costs no repeated work: it is
evaluated once per element there, or its loops end before the consumer's inner loops begin (then composition hoists it), or it is
cheap.  Otherwise it is stored, by a group of its own or as a further result of a consumer's group.  Every refusal is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from tracejit.ir.forms import Contract, Form, LibraryCall, Loop, Map, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import Const, Lambda, Op, Read, Value, blocks, operands_of, results_of, walk
from tracejit.ir.passes.compose import MANY, FormEquation, Group, form_cost, is_few_columns, is_written_out
from tracejit.ir.passes.product import followers, follows, tiles_well
from tracejit.ir.types import Extent, Shape, prod
from tracejit.support.nodes import define, field, frozen

__all__ = ["Fusion", "fuse"]

CHEAP = 4.0  # vector adds: below this, computing again is cheaper than a store and a load
BESIDE_SCATTER = 8.0  # what may be computed for an element of a reduction that shares the loop of a scatter
MAX_OPERATIONS = 400  # of one group: beyond it registers and code size suffer
AGAIN_COST = 24.0  # of evaluating again what is read at several places: about what a store and loads from a near cache cost
MOST_PLACES = 16
ROOM = 16  # of that is left for cheap values
PACK_COST = 12.0  # what an operand of a matrix product may cost to compute where it is packed
FEW = 32  # a reduction to fewer elements than this does not feed a larger loop in the same kernel,
SMALL = 16384  # unless it reads no more than so many


Affine: TypeAlias = "tuple[Any, int, Extent]"  # (loop or index parameter, None for a constant; factor; offset)
Place: TypeAlias = "tuple[Affine | int, ...]"  # where an element is read, in the loops of its group


@frozen
class Access:
    """How a form reads an operand once: for each axis of the operand the form's index parameters it depends on; None: on data.

    at: each index as a parameter, a factor and an offset; None where it is not of that kind.
    """

    axes: tuple[frozenset[int] | None, ...]
    at: tuple[Affine | None, ...]
    own: bool = False  # at the form's own index


def _statements(lam: Lambda) -> Iterable[Any]:
    return walk(lam.body)


def _accesses(lam: Lambda, into: dict[int, list[Access]]) -> None:
    """Add the reads of a lambda to `into`, by operand number."""
    depends: dict[Value, frozenset[int] | None] = {p: frozenset({n}) for n, p in enumerate(lam.params)}
    affine: dict[Any, Affine] = {p: (n, 1, 0) for n, p in enumerate(lam.params)}

    def of(operands: Sequence[Any]) -> frozenset[int] | None:
        out: frozenset[int] = frozenset()
        for a in operands:
            if isinstance(a, Value):
                d = depends.get(a)
                if d is None:
                    return None
                out |= d
        return out

    for s in _statements(lam):
        if isinstance(s, Read):
            at = tuple((None, 0, a.value) if isinstance(a, Const) else affine.get(a) for a in s.index)
            own = len(at) == len(lam.params) and all(a is p for a, p in zip(s.index, lam.params, strict=True))
            into.setdefault(s.operand, []).append(Access(tuple(of((a,)) for a in s.index), at, own))
            depends[s.out] = None
        elif isinstance(s, Op):
            depends[s.out] = of(s.args)
            moved = _moved(s, affine)
            if moved is not None:
                affine[s.out] = moved
        else:
            for v in results_of(s):
                depends[v] = None if blocks(s) else of(operands_of(s))


def _moved(s: Op, affine: dict[Any, Affine]) -> Affine | None:
    """The result of an index plus, minus or times a constant; None for anything else."""
    if s.op not in ("add", "sub", "mul") or s.out.dtype != "i64":
        return None
    a, b = s.args
    if isinstance(a, Const):
        if s.op == "sub":
            loop, factor, offset = affine.get(b, (None, 0, None))
            return None if offset is None else (loop, -factor, a.value - offset)
        a, b = b, a
    if not isinstance(b, Const) or a not in affine:
        return None
    loop, factor, offset = affine[a]
    if s.op == "mul":
        return (loop, factor * b.value, offset * b.value) if isinstance(b.value, int) else None
    return loop, factor, (offset + b.value if s.op == "add" else offset - b.value)


@define(eq=False)
class _Shape:
    """What fusion needs to know of one form, computed once."""

    space: Shape  # loop extents of one evaluation of all results, outermost first
    domain: Shape
    reads: dict[int, list[Access]]
    cost: float
    operations: int


def _describe(form: Form) -> _Shape:
    reads: dict[int, list[Access]] = {}
    bodies: list[Lambda] = []
    space: Shape = ()
    domain: Shape = ()
    match form:
        case Map():
            bodies, space, domain = [form.body], form.domain, form.domain
        case Reduce():
            bodies, space, domain = [form.body], (*form.domain, *form.over), form.domain
        case Scan():
            bodies, space, domain = [form.body], form.domain, form.domain
        case Piecewise():
            bodies, space, domain = [p.body for p in form.pieces], form.domain, form.domain
        case Update():
            bodies, space, domain = [form.body], form.region, form.domain
            _accesses(form.start, reads)
        case Scatter():
            bodies, space, domain = [form.body], form.region, form.domain
        case _:
            pass
    for body in bodies:
        _accesses(body, reads)
    if isinstance(form, (Update, Scatter)):
        every = range(len(domain))
        reads.setdefault(0, []).append(Access(tuple(frozenset({n}) for n in every), tuple((n, 1, 0) for n in every)))
    operations = sum(1 for b in bodies for _ in _statements(b))
    return _Shape(space, domain, reads, form_cost(form), operations)


Order: TypeAlias = tuple[frozenset[int], ...]
_INNER = 1000  # numbers of loops that members bring along: they lie inside of those of the group
_BESIDE = 1_000_000  # numbers of loops that are written out side by side, inside of all others, from here on


def _own_order(form: Form, shape: _Shape) -> Order:
    """The loops of a form that is a group of its own, outermost 0: the axis of a scan is the innermost one, and so are few columns."""
    space = shape.space
    numbers = list(range(len(space)))
    if isinstance(form, Scan):
        numbers = [len(space) - 1 if d == form.axis else d - (d > form.axis) for d in numbers]
    elif isinstance(form, (Map, Reduce)):
        columns = len(shape.domain) - 1 if is_few_columns(shape.domain) else len(shape.domain)
        numbers = [_BESIDE + d if d == columns or (d >= len(shape.domain) and is_written_out(form)) else d for d in numbers]
    return tuple(frozenset({n}) for n in numbers)


@define(eq=False)
class _Node:
    """A group under construction."""

    number: int
    members: list[int]
    outputs: list[Var]
    space: Shape
    operations: int
    order: dict[int, Order] = field(factory=dict)  # which loops of the group the axes of each member run along
    many: set[int] = field(factory=set)  # members evaluated more than once an element
    places: dict[int, frozenset[Place]] = field(factory=dict)  # at which indices each member is evaluated in one iteration
    product: int | None = None  # the matrix product that its loops are for
    outer: int = 0  # how many axes the stored results have
    limit: int = MAX_OPERATIONS
    loops: int = 0  # numbered so far


@frozen(eq=False)
class Fusion:
    """Groups in the order they run, and why values were stored: (value, reason)."""

    groups: tuple[Group, ...]
    refusals: tuple[tuple[Var, str], ...]


class _Fuser:
    def __init__(self, equations: Sequence[FormEquation], outputs: Sequence[Any], inline: bool) -> None:
        self.equations = equations
        self.inline = inline
        self.program_outputs = {v for v in outputs if isinstance(v, Var)}
        described: dict[int, _Shape] = {}
        self.shapes = [
            described.setdefault(id(e.form), _describe(e.form)) if id(e.form) not in described else described[id(e.form)] for e in equations
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
            self.cost[n] = self.shapes[n].cost + sum(self.cost[m] for m in below if isinstance(equations[m].form, (Map, Piecewise)))
        self.product: list[int | None] = []  # the matrix product that an equation follows element by element
        for n, e in enumerate(equations):
            before = [self.product[self.producer[a]] for a in e.inputs if isinstance(a, Var) and a in self.producer]
            found = next(
                (
                    p
                    for p in before
                    if p is not None and follows(e, [k for k, a in enumerate(e.inputs) if self.product_of(a) == p], equations[p])
                ),
                None,
            )
            self.product.append(n if tiles_well(e.form) else found)
        self.nodes: dict[int, _Node] = {}
        self.became: dict[int, int] = {}  # a group that was merged: the group it went into
        self.groups_of: list[list[int]] = [[] for _ in equations]
        self.after: dict[int, int] = {}  # group -> the groups that run after it, as bits
        self.read_by: dict[int, list[int]] = {}
        self.refusals: list[tuple[Var, str]] = []

    def product_of(self, atom: Any) -> int | None:
        return self.product[self.producer[atom]] if isinstance(atom, Var) and atom in self.producer else None

    # -- the table over pairs of forms ---------------------------------------------------------------------------------------------
    def refuse(self, n: int, c: int, node: _Node) -> str | None:  # noqa: C901  (one table, read from the top)
        """Why equation n may not be computed inside `node` for its consumer c; None if it may.  "many" if it may, but repeatedly."""
        form, consumer = self.equations[n].form, self.equations[c]
        if not self.inline:
            return "fusion is off"
        if isinstance(form, (Scan, Scatter, Update, Loop, LibraryCall)):
            return f"a {type(form).__name__} is stored"
        if isinstance(consumer.form, (Loop, LibraryCall)):
            return f"a {type(consumer.form).__name__} reads buffers"
        operations = node.operations + self.shapes[n].operations
        cheap = isinstance(form, (Map, Piecewise)) and self.cost[n] <= CHEAP
        if operations > (node.limit if cheap else node.limit - ROOM):
            return "the kernel would grow beyond the limit"
        if tiles_well(form):
            return self.refuse_product(n, node)
        if node.product is not None and self.product[n] is not None and (c == node.product or self.product[c] != node.product):
            return "it follows another matrix product"
        if c == node.product and self.cost[n] > PACK_COST:
            return "a matrix product may pack an element more than once"
        if cheap:
            return None
        if c in node.many:
            return "the consumer is evaluated repeatedly"
        if isinstance(form, Reduce) and node.product is not None:
            return "a matrix product runs tile by tile"
        places = len(self.places(n, node))
        if places > 1 and (isinstance(form, Reduce) or self.cost[n] * (places - 1) > AGAIN_COST):
            return f"it is read at {places} places, and would be evaluated at each"
        domain, shape = self.shapes[n].domain, self.shapes[c]
        for k, atom in enumerate(consumer.inputs):
            if atom not in self.equations[n].outputs:
                continue
            for access in shape.reads.get(k, ()):
                if None in access.axes:
                    return "the consumer reads it at computed indices"
                used, missing = self.loops(access, c, node)
                if not missing:
                    continue
                if c == node.product:
                    continue  # evaluated once for each element that is packed
                if isinstance(consumer.form, Contract):
                    return "a contraction reads each element many times"
                if node.product is not None:
                    return "a matrix product runs tile by tile"
                if used and (max(used) > min(missing) or (self.is_beside(access, c, node) and operations > MANY - ROOM)):
                    return "it would be evaluated again for each outer iteration"
                if isinstance(form, Reduce) and _few(domain) and not _small((*domain, *form.over)):
                    return "a reduction to few elements ends a kernel"
                if not isinstance(form, Reduce) and not used and domain:
                    return "it would be evaluated again for each outer iteration"
        if isinstance(form, Reduce) and form.domain == () and shape.space and not _small(form.over):
            return "a reduction to few elements ends a kernel"
        return None

    def loops(self, access: Access, c: int, node: _Node) -> tuple[set[int], set[int]]:
        """The loops around consumer c in its group that an access depends on, and those it does not."""
        order, space = node.order[c], self.shapes[c].space
        used = {p for axis in access.axes if axis is not None for d in axis if d < len(order) for p in order[d]}
        return used, {p for d, ps in enumerate(order) if not (isinstance(space[d], int) and space[d] == 1) for p in ps} - used

    def is_beside(self, access: Access, c: int, node: _Node) -> bool:
        """Whether an access is evaluated once only because loops are written out side by side inside of a reduction's."""
        used, missing = self.loops(access, c, node)
        return max(missing, default=0) >= _BESIDE and max((p for p in used if p < _BESIDE), default=0) >= node.outer

    def places(self, n: int, node: _Node) -> frozenset[Place]:
        """At which indices the members of a group that read n ask for its elements in one iteration."""
        found: set[Place] = set()
        for c in self.consumed_by(n):
            if c not in node.order:
                continue
            for k, atom in enumerate(self.equations[c].inputs):
                if atom not in self.equations[n].outputs:
                    continue
                for access in self.shapes[c].reads.get(k, ()):
                    if access.own:
                        found |= node.places[c]
                        continue
                    found.update(_composed(place, access, (c, len(found))) for place in node.places[c])
                    if len(found) > MOST_PLACES:
                        return frozenset(found)
        return frozenset(found)

    def order_in(self, n: int, node: _Node) -> Order:
        """The loops that the axes of n run along inside a group, seen from all its consumers there; its own reductions lie inside."""
        domain, space = self.shapes[n].domain, self.shapes[n].space
        found: list[set[int]] = [set() for _ in domain]
        for c in self.consumed_by(n):
            if c not in node.order:
                continue
            for k, atom in enumerate(self.equations[c].inputs):
                if atom not in self.equations[n].outputs:
                    continue
                order = node.order[c]
                for access in self.shapes[c].reads.get(k, ()):
                    for positions, axis in zip(found, access.axes, strict=True):
                        # The base of a scatter has its own loops, of which the region may have fewer.
                        every = frozenset(range(len(order))) if axis is None else axis
                        positions.update(p for d in every if d < len(order) for p in order[d])
        inner = (_BESIDE if is_written_out(self.equations[n].form) else _INNER) + node.loops
        return (*map(frozenset, found), *(frozenset({inner + d}) for d in range(len(space) - len(domain))))

    def refuse_product(self, n: int, node: _Node) -> str | None:
        """A matrix product joins a group in which everything that depends on it follows element by element."""
        if node.product is not None:
            return "a kernel holds one matrix product"
        members = [self.equations[m] for m in sorted(set(node.members))]
        if not all(isinstance(e.form, (Map, Piecewise)) for e in members):
            return "a matrix product runs tile by tile"
        if followers(self.equations[n], members, node.outputs) is None:
            return "what follows a matrix product there is not element by element"
        return None

    # -- groups ----------------------------------------------------------------------------------------------------------------------
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
        """Join groups over one iteration space that none of the others waits for; with `beside` one of them may scatter."""
        first, *rest = groups
        kept = [first]
        for g in rest:
            a, b = self.nodes[first], self.nodes[g]
            same = _same_space(a.space, b.space) or (beside and _same_space(self.running(a), self.running(b)))
            if a.product is not None or b.product is not None:
                kept.append(g)
                continue
            if not same or a.operations + b.operations > MAX_OPERATIONS or self.downstream(first, g) or self.downstream(g, first):
                kept.append(g)
                continue
            if any(isinstance(self.equations[m].form, (Loop, LibraryCall, Update)) for m in (*a.members, *b.members)):
                kept.append(g)
                continue
            scatters = [node for node in (a, b) if self.scatters(node)]
            if scatters and not (beside and len(scatters) == 1 and self.fits_serial_loop(b if a in scatters else a)):
                kept.append(g)
                continue
            a.space = self.running(a) if beside else a.space
            a.members = list(dict.fromkeys((*a.members, *b.members)))
            a.outputs += b.outputs
            a.many |= b.many
            a.order |= b.order
            a.loops += b.loops
            a.places |= b.places
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

    def scatters(self, made: _Node) -> bool:
        return any(isinstance(self.equations[m].form, Scatter) for m in made.members)

    def fits_serial_loop(self, made: _Node) -> bool:
        """Whether a group makes an integer of cheap elements: that a pass less is needed outweighs that they come one at a time.

        Not a sum of floating-point numbers, which is more exact where many are added up side by side.
        """
        if any(v.aval.shape or v.aval.dtype.kind == "f" for v in made.outputs):
            return False
        return sum(self.shapes[m].cost for m in made.members if self.shapes[m].domain) <= BESIDE_SCATTER

    def join(self, n: int, g: int) -> None:
        node = self.nodes[g]
        node.members.append(n)
        node.operations += self.shapes[n].operations
        node.order[n] = self.order_in(n, node)
        node.loops += len(node.order[n])
        own = len(self.shapes[n].space) - len(self.shapes[n].domain)
        node.places[n] = frozenset((*p, *(((n, d), 1, 0) for d in range(own))) for p in self.places(n, node))
        if tiles_well(self.equations[n].form):
            node.product = n
        if g not in self.groups_of[n]:
            self.groups_of[n].append(g)
        for c in self.consumed_by(n):
            if g in self.groups_of[c]:
                if self.repeated(n, c, node):
                    node.many.add(n)
                if any(
                    self.is_beside(access, c, node)
                    for k, atom in enumerate(self.equations[c].inputs)
                    if atom in self.equations[n].outputs
                    for access in self.shapes[c].reads.get(k, ())
                ):
                    node.limit = MANY

    def repeated(self, n: int, c: int, node: _Node) -> bool:
        """Whether consumer c evaluates n more than once for an element of n."""
        if c in node.many:
            return True
        if c == node.product:
            return False  # once for each element that is packed
        for k, atom in enumerate(self.equations[c].inputs):
            if atom in self.equations[n].outputs:
                for access in self.shapes[c].reads.get(k, ()):
                    used, missing = self.loops(access, c, node)
                    if (
                        None in access.axes
                        or (missing and used and max(used) > min(missing))
                        or (missing and not used and self.shapes[n].domain)
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
        self.nodes[n] = _Node(
            n,
            [n],
            stored,
            shape.space,
            shape.operations,
            {n: _own_order(e.form, shape)},
            product=n if tiles_well(e.form) else None,
            outer=len(shape.domain) - is_few_columns(shape.domain),
            places={n: frozenset({tuple((d, 1, 0) for d in range(len(shape.space)))})},
        )
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
            cheap = isinstance(e.form, (Map, Piecewise)) and self.cost[n] <= CHEAP
            if len(groups) > 1 and not cheap:
                groups = self.merge(groups)
            if len(groups) == 1 or cheap:
                for g in groups:
                    self.join(n, g)
                return
            reasons = {g: None for g in groups}
        for g in groups:
            others = [h for h in groups if h != g]
            if reasons[g] is None and len(e.outputs) == 1 and not any(self.downstream(h, g) for h in others) and self.prefix(n, g):
                self.join(n, g)
                self.nodes[g].outputs.append(e.outputs[0])
                self.groups_of[n] = [g]
                self.run_after(g, e.outputs)
                return
        why = next((r for r in reasons.values() if r), "it is a result of the program" if needed else "several kernels read it")
        self.refusals += [(v, why) for v in e.outputs]
        self.new_group(n)

    def reason(self, n: int, g: int, consumers: Sequence[int]) -> str | None:
        node = self.nodes[g]
        for c in consumers:
            if g in self.groups_of[c]:
                why = self.refuse(n, c, node)
                if why is not None:
                    return why
        return None

    def prefix(self, n: int, g: int) -> bool:
        """Whether n's own loops are the outer loops of group g, so that storing it there costs no further loop."""
        domain, space = self.shapes[n].domain, self.nodes[g].space
        if self.nodes[g].product is not None:
            return False
        if n in self.nodes[g].many or len(domain) > len(space) or (isinstance(self.equations[n].form, Reduce) and not domain):
            return False
        if any(isinstance(self.equations[m].form, (Scan, Update, Scatter)) for m in self.nodes[g].members):
            return False
        if any(self.repeated(n, c, self.nodes[g]) for c in self.consumed_by(n) if g in self.groups_of[c]):
            return False
        return _same_space(domain, space[: len(domain)])

    def run(self) -> Fusion:
        for n in range(len(self.equations) - 1, -1, -1):
            self.visit(n)
        if self.inline:
            self.join_readers()
        return Fusion(tuple(self.finished()), tuple(reversed(self.refusals)))

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

    def reads_of(self, g: int, made: _Node) -> Iterator[tuple[Var, Place]]:
        """What a group reads of others, and where."""
        for m in made.members:
            for k, v in enumerate(self.equations[m].inputs):
                if not isinstance(v, Var) or (v in self.producer and g in self.groups_of[self.producer[v]]):
                    continue
                for access in self.shapes[m].reads.get(k, ()):
                    for place in made.places[m]:
                        at = place if access.own else _composed(place, access, -1)
                        if -1 not in at:  # every index is known
                            yield v, tuple(self.numbered(i, made) for i in at)

    def running(self, made: _Node) -> Shape:
        """The space that the loops of a group run over: for a number made of reductions to numbers that of the reductions."""
        if made.space:
            return made.space
        spaces = [self.shapes[m].space for m in made.members if isinstance(self.equations[m].form, Reduce)]
        return spaces[0] if spaces and all(_same_space(spaces[0], s) for s in spaces) else made.space

    def numbered(self, index: Affine | int, made: _Node) -> Affine | int:
        """An index with the loops of reductions to numbers counted as those of a group over the same space."""
        if isinstance(index, int) or made.space or not isinstance(index[0], tuple):
            return index
        return index[0][1], index[1], index[2]

    def finished(self) -> list[Group]:
        """Groups in an order that respects what they read from each other."""
        stored = {v: g for g, node in self.nodes.items() for v in node.outputs}
        groups: dict[int, Group] = {}
        needs: dict[int, set[int]] = {}
        for g, made in self.nodes.items():
            members = sorted(set(made.members))
            inside = {v for m in members for v in self.equations[m].outputs}
            inputs = dict.fromkeys(a for m in members for a in self.equations[m].inputs if isinstance(a, Var) and a not in inside)
            groups[g] = Group(tuple(self.equations[m] for m in members), tuple(inputs), tuple(dict.fromkeys(made.outputs)))
            needs[g] = {stored[v] for v in inputs if v in stored}
        waiting: dict[int, list[int]] = {}
        for g, need in needs.items():
            for h in need:
                waiting.setdefault(h, []).append(g)
        import heapq

        ready = [g for g, need in needs.items() if not need]
        heapq.heapify(ready)
        order: list[Group] = []
        while ready:
            g = heapq.heappop(ready)
            order.append(groups[g])
            for w in waiting.get(g, ()):
                needs[w].discard(g)
                if not needs[w]:
                    heapq.heappush(ready, w)
        assert len(order) == len(groups), "fusion made a cycle"
        return order


def _composed(place: Place, access: Access, otherwise: Any) -> Place:
    """Where a member evaluated at `place` reads; an index that is not affine makes it a place of its own."""
    out: list[Affine | int] = []
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


def _few(domain: Shape) -> bool:
    size: Extent = prod(domain)
    return isinstance(size, int) and size < FEW


def _small(space: Shape) -> bool:
    """So little work that another kernel would cost more than running it serially here."""
    size: Extent = prod(space)
    return isinstance(size, int) and size <= SMALL


def _same_space(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(
        (x == y) if isinstance(x, int) and isinstance(y, int) else (not isinstance(x, int) and x.same(y)) for x, y in zip(a, b, strict=True)
    )


def fuse(equations: Sequence[FormEquation], outputs: Sequence[Any], *, inline: bool = True) -> Fusion:
    """Group equations into kernels.  With `inline=False` every equation is its own (for comparison and debugging)."""
    return _Fuser(equations, outputs, inline).run()


def reads_own_base(form: Form) -> bool:
    """Whether an update's or scatter's body reads the array it changes (other than the element it replaces)."""
    reads: dict[int, list[Access]] = {}
    if isinstance(form, (Update, Scatter)):
        _accesses(form.body, reads)
    return 0 in reads
