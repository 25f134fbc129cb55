"""A scan by the work-items of a group, who read and write memory side by side.

    for lane                                       all of them, barriers inside
      for chunk of the elements, carrying the fold so far
        elements to shared memory, neighbours by neighbours; barrier
        each lane folds a few elements that follow each other; barrier
        the lanes' folds are scanned, by doubling distances (Hillis and Steele 1986)
        each lane scans its elements from there, in shared memory; barrier
        what follows the scan, neighbours by neighbours; barrier

Elements beyond the last are read as the last: they come after all that are wanted, which depend only on those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from tracejit.backends.nest import values_like
from tracejit.backends.straight_line import Copies, needed_for
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.kernel import (
    SERIAL,
    Axis,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Load,
    Op,
    Operand,
    Prefix,
    Statement,
    Store,
    Value,
    index_const,
    operands_of,
)
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import inline, replace
from tracejit.ir.scalar import numpy_dtype

__all__ = ["is_shared_out", "scan_by_group"]

_OWN = (8, 4, 2)
"""How many elements that follow each other a work-item takes: the first number for which shared memory suffices."""


def is_shared_out(scan: For) -> bool:
    """Whether the work-items of a group can share a scan: straight-line, and what it writes is each iteration's own."""
    prefixes = [s for s in scan.body if isinstance(s, Prefix)]
    if len(prefixes) != 1 or scan.combine is None or scan.step != 1:
        return False
    touched = accesses((scan,))
    flat = all(isinstance(s, (Load, Op, Store, Prefix)) for s in scan.body)
    others = {x for s in scan.body if not isinstance(s, Prefix) for x in operands_of(s)}
    return (
        flat
        and others.isdisjoint(scan.params)
        and not touched.reads & touched.writes
        and independent(scan, scan.index)
        and tuple(scan.yields) == tuple(prefixes[0].outs)
    )


def scan_by_group(
    scan: For, lanes: int, array: Callable[[str, tuple[int, ...]], Buffer], nbytes: int
) -> tuple[Statement, Block] | None:
    """(the scan by so many lanes, what its results are then loaded by); None where shared memory of `nbytes` is too
    small.  array: makes an array there.
    """
    size = sum(numpy_dtype(p.dtype).itemsize for p in scan.params)
    own = next((n for n in _OWN if size * (lanes * (n + 1) + 2 * lanes + 1) <= nbytes), None)
    if own is None:
        return None
    elements = [array(p.dtype, (lanes, own + 1)) for p in scan.params]  # one more, so that lanes read different banks
    folds = [array(p.dtype, (2, lanes)) for p in scan.params]
    ends = [array(p.dtype, ()) for p in scan.params]
    loop = _GroupScan(scan, lanes, own, elements, folds, ends).by_lanes()
    return loop, tuple(Load(v, b, ()) for v, b in zip(scan.results, ends, strict=True))


@define(eq=False)
class _GroupScan:
    scan: For
    lanes: int
    own: int
    elements: Sequence[Buffer]
    folds: Sequence[Buffer]
    ends: Sequence[Buffer]
    lane: Value = field(factory=lambda: Value("i64"))
    start: Value = field(factory=lambda: Value("i64"))

    def by_lanes(self) -> For:
        scan = self.scan
        carried, results = values_like(scan.params), values_like(scan.params)
        body, yields = self.chunk(carried)
        chunks = For(
            self.start, scan.lower, scan.upper, body, SERIAL, carried, tuple(scan.inits), yields, results,
            step=self.lanes * self.own,
        )  # fmt: skip
        r = ScalarRecorder()
        first = r.op("eq", self.lane, index_const(0))
        end = If(first, tuple(Store(b, (), v) for b, v in zip(self.ends, results, strict=True)))
        block = (chunks, *r.statements, end)
        return For(self.lane, index_const(0), index_const(self.lanes), block, Axis("block"))

    def chunk(self, carried: Sequence[Value]) -> tuple[Block, tuple[Operand, ...]]:
        """What the lanes do with as many elements as they take at once, and the fold up to the last of these."""
        (prefix,) = (s for s in self.scan.body if isinstance(s, Prefix))
        r, out = ScalarRecorder(), list[Statement]()
        places = [self.place(r, number) for number in range(self.own)]
        out += r.statements
        for at, _, index in places:
            copies, values = Copies(), {self.scan.index: at}
            copies.add(needed_for(prefix.elements, self.scan.body), values)
            found = [replace(x, values) for x in prefix.elements]
            out += [*copies.out, *(Store(b, index, x) for b, x in zip(self.elements, found, strict=True))]
        out.append(Barrier())
        out += self.scanned(carried)
        end = ScalarRecorder()
        taken = end.op("min", end.op("sub", self.scan.upper, self.start), index_const(self.lanes * self.own))
        last = end.op("sub", taken, index_const(1))
        after = (end.op("idiv", last, index_const(self.own)), end.op("irem", last, index_const(self.own)))
        yields = values_like(carried)
        out += [*end.statements, *(Load(v, b, after) for v, b in zip(yields, self.elements, strict=True))]
        for at, inside, index in places:
            outs = values_like(prefix.outs)
            loads = [Load(v, b, index) for v, b in zip(outs, self.elements, strict=True)]
            values: dict[Value, Operand] = {self.scan.index: at, **dict(zip(prefix.outs, outs, strict=True))}
            copies = Copies()
            copies.add(self.following(prefix), values, inside)
            out += [*loads, *copies.out]
        out.append(Barrier())
        return tuple(out), yields

    def place(self, r: ScalarRecorder, number: int) -> tuple[Operand, Operand, tuple[Operand, Operand]]:
        """(a lane's element of this number, or the last one; whether it is there; where it lies in shared memory)."""
        mine = r.op("add", self.lane, index_const(number * self.lanes))
        at = r.op("add", self.start, mine)
        inside = r.op("lt", at, self.scan.upper)
        last = r.op("sub", self.scan.upper, index_const(1))
        size = index_const(self.own)
        return r.op("min", at, last), inside, (r.op("idiv", mine, size), r.op("irem", mine, size))

    def scanned(self, carried: Sequence[Operand]) -> list[Statement]:
        """The elements in shared memory, scanned: each lane its own, from the fold of those before."""
        out: list[Statement] = []
        mine: list[list[Value]] = []
        for number in range(self.own):
            mine.append(list(values_like(self.scan.params)))
            index = (self.lane, index_const(number))
            out += [Load(v, b, index) for v, b in zip(mine[-1], self.elements, strict=True)]
        fold: Sequence[Operand] = mine[0]
        for element in mine[1:]:
            fold = self.combined(out, fold, element)
        source, distance = 0, 1
        out += [Store(b, (index_const(0), self.lane), v) for b, v in zip(self.folds, fold, strict=True)]
        out.append(Barrier())
        while distance < self.lanes:
            there, before = self.before(out, source, distance)
            joined = self.combined(out, before, fold)
            fold = self.chosen(out, there, joined, fold)
            source, distance = 1 - source, 2 * distance
            out += [Store(b, (index_const(source), self.lane), v) for b, v in zip(self.folds, fold, strict=True)]
            out.append(Barrier())
        there, before = self.before(out, source, 1)
        running = self.chosen(out, there, self.combined(out, carried, before), carried)
        for number, element in enumerate(mine):
            running = self.combined(out, running, element)
            index = (self.lane, index_const(number))
            out += [Store(b, index, v) for b, v in zip(self.elements, running, strict=True)]
        out.append(Barrier())
        return out

    def before(self, out: list[Statement], source: int, distance: int) -> tuple[Operand, list[Value]]:
        """(whether there is a lane so far before, its fold)."""
        r = ScalarRecorder()
        other = r.op("sub", self.lane, index_const(distance))
        there, index = r.op("ge", other, index_const(0)), r.op("max", other, index_const(0))
        found = list(values_like(self.scan.params))
        loads = (Load(v, b, (index_const(source), index)) for v, b in zip(found, self.folds, strict=True))
        out += [*r.statements, *loads]
        return there, found

    def combined(self, out: list[Statement], one: Sequence[Operand], other: Sequence[Operand]) -> list[Operand]:
        assert self.scan.combine is not None
        statements, results = inline(self.scan.combine, (*one, *other))
        out += statements
        return list(results)

    def chosen(
        self, out: list[Statement], condition: Operand, one: Sequence[Operand], other: Sequence[Operand]
    ) -> list[Operand]:
        r = ScalarRecorder()
        found = [r.op("select", condition, x, y) for x, y in zip(one, other, strict=True)]
        out += r.statements
        return found

    def following(self, prefix: Prefix) -> Block:
        """The stores of the scan's body, and what they need but the scan."""
        stores = [s for s in self.scan.body if isinstance(s, Store)]
        wanted = [x for s in stores for x in operands_of(s)]
        needed = needed_for(wanted, self.scan.body, prefix.outs)
        return tuple(s for s in self.scan.body if s in needed or s in stores)
