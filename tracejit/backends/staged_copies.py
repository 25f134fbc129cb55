"""Transposed copies by groups: what a nest reads across memory comes in tiles to shared memory, where it is read along.

Neighbouring work-items store neighbouring elements, and would load elements that lie far apart, each from a line of
memory of its own.  Here they load neighbours too, along another loop of the nest, for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from tracejit.backends.group_tiles import StagedNest, TiledNest
from tracejit.backends.nest import GridSchedule, Nest
from tracejit.backends.straight_line import Copies, needed_for
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import Barrier, Buffer, For, Load, Op, Operand, Store, Value, index_const, results_of
from tracejit.ir.passes.independence import accesses, linear
from tracejit.ir.scalar import numpy_dtype

__all__ = ["staged_copy"]

_SIDE = 32
"""Rows and columns of a tile: as many as work-items that a device runs in step, and banks of shared memory."""


def staged_copy(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> StagedNest | None:
    """The nest over tiles of its last loop and the one along which memory is read; None where there is no such."""
    if schedule.stage == 1 or schedule.work_group < _SIDE or len(nest.free) < 2 or nest.ordered:
        return None
    touched = accesses(nest.body)
    if not all(isinstance(s, (Load, Op, Store)) for s in nest.body) or touched.reads & touched.writes:
        return None
    across = _across(nest)
    if across is None:
        return None
    row, loads = across
    order = [n for n in range(len(nest.free)) if nest.free[n] is not row]
    order.insert(len(order) - 1, nest.free.index(row))
    free, sizes = tuple(nest.free[n] for n in order), tuple(extents[n] for n in order)
    if any(not isinstance(n, Dim) and n < _SIDE for n in sizes[-2:]):
        return None
    if any(loop.lower != index_const(0) for loop in free[-2:]):
        return None
    size = sum(numpy_dtype(s.out.dtype).itemsize for s in loads) * _SIDE * (_SIDE + 1)
    if size > schedule.shared_bytes:
        return None
    tiles = _Transposing(Nest(free, (), nest.body), sizes, (_SIDE, _SIDE), tuple(loads), schedule.work_group)
    return tiles.by_groups()


def _across(nest: Nest) -> tuple[For, list[Load]] | None:
    """(the loop along which most of those loads lie side by side that do not along the last loop, these loads)."""
    column = nest.free[-1].index
    defined = {r: s for s in nest.body for r in results_of(s)}
    along: dict[For, list[Load]] = {}
    for s in nest.body:
        if isinstance(s, Store) and (not s.index or linear(s.index[-1], defined).get(column) != 1):
            return None
        if not isinstance(s, Load) or s.buffer.layout != "C" or not s.index:
            continue
        *before, last = (linear(x, defined) for x in s.index)
        if any(column in form for form in before) and column not in last:
            for loop in nest.free[:-1]:
                if last.get(loop.index) == 1:
                    along.setdefault(loop, []).append(s)
    return max(along.items(), key=lambda item: len(item[1])) if along else None


@define(eq=False)
class _Transposing(TiledNest):
    """What a group runs for one tile."""

    loads: tuple[Load, ...]
    lanes: int

    def by_groups(self) -> StagedNest:
        arrays = [self.array(s.out.dtype, _SIDE, _SIDE + 1) for s in self.loads]
        side = index_const(_SIDE)
        quick, slow = self.r.op("irem", self.lane, side), self.r.op("idiv", self.lane, side)
        slows = [self.r.op("add", slow, index_const(n)) for n in range(0, _SIDE, self.lanes // _SIDE)]
        staging = Copies()
        for column in slows:
            values = self.element(self.r, (quick, column))
            staging.add(needed_for([s.out for s in self.loads], self.nest.body), values)
            staging.out += [Store(b, (column, quick), values[s.out]) for s, b in zip(self.loads, arrays, strict=True)]
        body = tuple(s for s in self.nest.body if s not in self.loads)
        r, copies = ScalarRecorder(), Copies()
        for row in slows:
            values = self.element(r, (row, quick))
            values |= {s.out: self.loaded(copies, b, (quick, row)) for s, b in zip(self.loads, arrays, strict=True)}
            copies.add(body, values, self.there(r, (row, quick)))
        return self.over_tiles((*staging.out, Barrier(), *r.statements, *copies.out), self.lanes)

    def loaded(self, copies: Copies, array: Buffer, index: tuple[Operand, Operand]) -> Value:
        return copies.once(("load", array, *index), array.dtype, lambda v: Load(v, array, index))
