"""Matrix products by groups: what a tile needs of both operands comes to shared memory, a block of the contracted axis
at a time, and each work-item keeps some of the tile's sums in registers.

    for tile                                               one group each
      for lane                                             all of them, barriers inside
        for block of the contracted axis, carrying sums
          stage lhs[rows of the tile, block] and rhs[block, columns of the tile]; barrier
          for k in block: sums += lhs[own rows, k] * rhs[k, own columns]
          barrier
        what follows the sum, for each element

Staged are loaded values, and what is computed of one alone (a conversion, an activation), that move along the rows of
the nest or along its columns, not both.  A work-item's rows and columns lie as far apart as there are work-items beside
it: neighbours read neighbouring elements, of global and of shared memory.

The last block of the contracted axis may be shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import define

from tracejit.backends.group_tiles import StagedNest, TiledNest, tile_count
from tracejit.backends.jammed import one_reduction
from tracejit.backends.nest import GridSchedule, Nest, rounds
from tracejit.backends.straight_line import Copies, needed_for
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import (
    SERIAL,
    Barrier,
    Block,
    Buffer,
    Const,
    For,
    If,
    Load,
    Operand,
    Statement,
    Store,
    Value,
    index_const,
    operands_of,
    results_of,
)
from tracejit.ir.passes.independence import linear
from tracejit.ir.rewrite import inline, replace
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.nodes import frozen

__all__ = ["staged_product"]

_LEAST_SIDE, _LEAST_DEPTH = 8, 16  # rows and columns, and contracted elements, below which staging does not pay
_SMALL_SIDE = 32  # of a tile that is not halved again where there are few
_BANKS = 32  # words of shared memory that work-items reach at once


def staged_product(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> StagedNest | None:
    """The nest over tiles of its last two loops; None where it is no product, or too small a one."""
    loop = one_reduction(nest)
    if schedule.stage == 1 or loop is None or loop.step != 1 or loop.lower != index_const(0):
        return None
    operands = _operands(nest, loop)
    if operands is None:
        return None
    tile = _tile(extents, loop, operands, schedule)
    if tile is None:
        return None
    return _Staging(nest, extents, tile.sides, loop, operands, tile, schedule.fold).by_groups()


@frozen
class _Staged:
    """A value that groups keep in shared memory.  side: 0 where it moves along rows, 1 along columns.
    statements: what computes it.  deep: its memory is contiguous along the contracted axis.
    """

    value: Value
    side: int
    statements: Block
    deep: bool

    @property
    def itemsize(self) -> int:
        return numpy_dtype(self.value.dtype).itemsize


def _operands(nest: Nest, loop: For) -> tuple[_Staged, ...] | None:
    """The values of a reduction to stage, the last ones before rows meet columns; None where a side has none."""
    before = nest.body[: nest.body.index(loop)]
    sides = [free.index for free in nest.free[-2:]]
    moves: dict[Value, frozenset[Value]] = {v: frozenset({v}) for v in (*sides, *loop.params)}
    loaded: set[Value] = set()
    users: dict[Value, list[frozenset[Value]]] = {}
    for s in (*before, *loop.body):
        inputs = [x for x in operands_of(s) if isinstance(x, Value)]
        along = frozenset[Value]().union(*(moves.get(x, ()) for x in inputs))
        moves.update(dict.fromkeys(results_of(s), along))
        if isinstance(s, Load) or not loaded.isdisjoint(inputs):
            loaded.update(results_of(s))
        for x in inputs:
            users.setdefault(x, []).append(along)
    defined = {r: s for s in (*before, *loop.body) for r in results_of(s)}
    found: list[_Staged] = []
    for v in (r for s in loop.body for r in results_of(s)):
        for side, index in enumerate(sides):
            if v in loaded and moves[v] == frozenset({index}) and any(x != moves[v] for x in users.get(v, ())):
                needed = needed_for((v,), (*before, *loop.body))
                loads = [s for s in needed if isinstance(s, Load)]
                deep = [loop.index in linear(s.index[-1], defined) for s in loads if s.index]
                found.append(_Staged(v, side, needed, all(deep)))
    return tuple(found) if {x.side for x in found} == {0, 1} else None


@frozen
class _Tile:
    """sides: rows and columns of a group.  own: those of a work-item.  depth: contracted elements of a block."""

    sides: tuple[int, int]
    own: tuple[int, int]
    depth: int

    @property
    def beside(self) -> tuple[int, int]:
        """How many work-items there are along each side."""
        return self.sides[0] // self.own[0], self.sides[1] // self.own[1]

    @property
    def lanes(self) -> int:
        return self.beside[0] * self.beside[1]


def _tile(extents: Sequence[Extent], loop: For, operands: Sequence[_Staged], schedule: GridSchedule) -> _Tile | None:
    """The largest tile of which there are enough to occupy a device."""
    assert isinstance(loop.upper, Const)
    *_, rows, columns = extents
    depth: Extent = loop.upper.value
    least = ((rows, _LEAST_SIDE), (columns, _LEAST_SIDE), (depth, _LEAST_DEPTH))
    if any(not isinstance(n, Dim) and n < enough for n, enough in least):
        return None
    sides = [min(schedule.stage, 64 if isinstance(n, Dim) else 1 << (n - 1).bit_length()) for n in (rows, columns)]
    while (count := tile_count(extents, sides)) is not None and count < schedule.groups // 4:
        if max(sides) <= _SMALL_SIDE:
            break
        sides[sides.index(max(sides))] //= 2
    if count is not None and count < schedule.groups // 16:
        return None
    area = sides[0] * sides[1]
    share = max(area // schedule.work_group, min(4, area // _BANKS), 1)
    width = 1 << (share.bit_length() - 1) // 2
    own = share // width, width
    blocks = (n for n in (16, 8, 4) if _shared_bytes(operands, sides, n) <= schedule.shared_bytes)
    block = next(blocks, None)
    fits = block is not None and max(own) <= schedule.jam
    return _Tile((sides[0], sides[1]), own, block) if fits and block is not None else None


def _shared_bytes(operands: Iterable[_Staged], sides: Sequence[int], depth: int) -> int:
    return sum(x.itemsize * depth * (sides[x.side] + _padding(x, depth)) for x in operands)


def _padding(x: _Staged, depth: int) -> int:
    """Elements between rows of shared memory, for which what is contiguous along `depth` is stored to all banks."""
    return max(1, _BANKS // depth) if x.deep else 0


_Places: TypeAlias = "tuple[list[Operand], list[Operand]]"


@define(eq=False)
class _Staging(TiledNest):
    """What a group runs for one tile."""

    loop: For
    operands: tuple[_Staged, ...]
    tile: _Tile
    fold: int

    def by_groups(self) -> StagedNest:
        depth = self.tile.depth
        arrays = [self.array(x.value.dtype, depth, self.sides[x.side] + _padding(x, depth)) for x in self.operands]
        own = self.own_places()
        sums, totals = self.sums(arrays, own)
        return self.over_tiles((*sums, *self.finish(own, totals)), self.tile.lanes)

    # Places

    def own_places(self) -> _Places:
        """The rows and the columns of a work-item, within the tile."""
        r, (_, across) = self.r, self.tile.beside
        first = r.op("idiv", self.lane, index_const(across)), r.op("irem", self.lane, index_const(across))
        rows, columns = (
            [r.op("add", place, index_const(k * apart)) for k in range(count)]
            for place, count, apart in zip(first, self.tile.own, self.tile.beside, strict=True)
        )
        return rows, columns

    # Sums

    def sums(self, arrays: Sequence[Buffer], own: _Places) -> tuple[Block, list[Operand]]:
        """The sums of a work-item's elements, row by row; long ones are joined from those of blocks, as everywhere."""
        combine, depth = self.loop.combine, self.tile.depth
        assert isinstance(self.loop.upper, Const)
        assert combine is not None
        count: Extent = self.loop.upper.value
        whole: Extent = count // depth * depth
        identity = [x for _ in range(len(own[0]) * len(own[1])) for x in self.loop.inits]
        span, first, deep = index_const(whole), index_const(0), index_const(depth)
        if rounds(combine) and (isinstance(count, Dim) or count > 2 * self.fold):
            step = _span(count, self.fold, depth)
            start, r, params = Value("i64"), ScalarRecorder(), _like(identity)
            stop = r.op("min", r.op("add", start, index_const(step)), span)
            part = self.blocks(arrays, own, (start, stop), identity, deep)
            joined, yields = self.joined(params, part.results)
            body = (*r.statements, part, *joined)
            whole_blocks = For(
                start, first, span, body, SERIAL, params, tuple(identity), tuple(yields), _like(identity), step=step
            )
        else:
            whole_blocks = self.blocks(arrays, own, (first, span), identity, deep)
        if not isinstance(count, Dim) and count % depth == 0:
            return (whole_blocks,), list(whole_blocks.results)
        rest = self.blocks(arrays, own, (span, index_const(count)), identity, index_const(count - whole))
        joined, totals = self.joined(whole_blocks.results, rest.results)
        return (whole_blocks, rest, *joined), totals

    def joined(self, one: Sequence[Operand], other: Sequence[Operand]) -> tuple[Block, list[Operand]]:
        """Two lists of sums, combined."""
        combine, n = self.loop.combine, len(self.loop.params)
        assert combine is not None
        block: list[Statement] = []
        totals: list[Operand] = []
        for k in range(0, len(one), n):
            statements, results = inline(combine, (*one[k : k + n], *other[k : k + n]))
            block += statements
            totals += results
        return tuple(block), totals

    def blocks(
        self,
        arrays: Sequence[Buffer],
        own: _Places,
        bounds: tuple[Operand, Operand],
        inits: Sequence[Operand],
        deep: Const,
    ) -> For:
        """The loop over blocks of the contracted axis within bounds; `deep`: how many elements a block has."""
        start, params, inner, k = Value("i64"), _like(inits), _like(inits), Value("i64")
        short = deep != index_const(self.tile.depth)
        r = ScalarRecorder()
        staging = [
            s for x, array in zip(self.operands, arrays, strict=True) for s in self.stage(r, x, array, start, short)
        ]
        products, yields = self.products(arrays, own, (start, k), inner)
        sums = For(k, index_const(0), deep, products, SERIAL, inner, params, yields, _like(inits))
        body = (*r.statements, *staging, Barrier(), sums, Barrier())
        return For(start, *bounds, body, SERIAL, params, tuple(inits), sums.results, _like(inits), step=self.tile.depth)

    def stage(self, r: ScalarRecorder, x: _Staged, array: Buffer, start: Operand, short: bool) -> Block:
        """Elements of an operand to shared memory, as many by each work-item; neighbours read neighbouring ones."""
        tile, size = self.tile, self.sides[x.side]
        index = self.loop_index(x.side)
        out: list[Statement] = []
        for first in range(0, size * tile.depth, tile.lanes):
            quick, slow = self.split(first, tile.depth if x.deep else size)
            k, place = (quick, slow) if x.deep else (slow, quick)
            at = r.op("add", start, k)
            if short:
                at = r.op("min", at, r.op("sub", self.loop.upper, index_const(1)))
            copies = Copies()
            values: dict[Value, Operand] = {index: self.inside(self.r, x.side, place), self.loop.index: at}
            copies.add(x.statements, values)
            block = (*copies.out, Store(array, (k, place), values[x.value]))
            some = size * tile.depth < tile.lanes
            out += [If(r.op("lt", self.lane, index_const(size * tile.depth)), block)] if some else block
        return tuple(out)

    def split(self, first: int, inner: int) -> tuple[Operand, Operand]:
        """`first + lane` modulo `inner`, and divided by it: powers of two, and `first` is a multiple of lanes."""
        r = self.r
        if inner > self.tile.lanes:
            return r.op("add", self.lane, index_const(first % inner)), index_const(first // inner)
        n = index_const(inner)
        return r.op("irem", self.lane, n), r.op("add", r.op("idiv", self.lane, n), index_const(first // inner))

    def products(
        self, arrays: Sequence[Buffer], own: _Places, at: tuple[Value, Value], params: Sequence[Value]
    ) -> tuple[Block, tuple[Operand, ...]]:
        """What one contracted element adds to the sums of a work-item, and those."""
        start, k = at
        known = {x.value for x in self.operands}
        loop = self.loop
        before = self.nest.body[: self.nest.body.index(loop)]
        needed = needed_for(loop.yields, (*before, *loop.body), known)
        r, yields, n = ScalarRecorder(), list[Operand](), len(loop.params)
        here = r.op("add", start, k)
        read = {x for s in needed for x in operands_of(s)}
        used = [(side, free.index) for side, free in enumerate(self.nest.free[-2:]) if free.index in read]
        copies = Copies()
        elements = [(y, x) for y in own[0] for x in own[1]]
        for number, places in enumerate(elements):
            values: dict[Value, Operand] = {loop.index: here}
            values.update(zip(loop.params, params[number * n : number * n + n], strict=True))
            values.update((v, self.inside(self.r, side, places[side])) for side, v in used)
            for x, array in zip(self.operands, arrays, strict=True):
                index = (k, places[x.side])
                values[x.value] = copies.once(
                    ("load", array, *index), x.value.dtype, lambda v, b=array, i=index: Load(v, b, i)
                )
            copies.add(needed, values)
            yields += [replace(y, values) for y in loop.yields]
        return (*r.statements, *copies.out), tuple(yields)

    def finish(self, own: _Places, totals: Sequence[Operand]) -> Block:
        """What follows the sum, for each element that is there."""
        loop, n = self.loop, len(self.loop.params)
        around = tuple(s for s in self.nest.body if s is not loop)
        r, copies = ScalarRecorder(), Copies()
        for number, places in enumerate((y, x) for y in own[0] for x in own[1]):
            values: dict[Value, Operand] = dict(zip(loop.results, totals[number * n : number * n + n], strict=True))
            values.update(self.element(r, places))
            copies.add(around, values, self.there(r, places))
        return (*r.statements, *copies.out)


def _like(operands: Iterable[Operand]) -> tuple[Value, ...]:
    return tuple(Value(x.dtype) for x in operands)


def _span(count: Extent, fold: int, depth: int) -> int:
    """How many products are summed in order before they are joined with the others."""
    span = 4 * fold if isinstance(count, Dim) else max(fold, math.isqrt(count))
    return -(-span // depth) * depth
