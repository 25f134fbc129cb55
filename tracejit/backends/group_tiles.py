"""What kernels have in common in which a group takes a tile of the last two loops of a nest: places, edges, memory.

Rows and columns beyond the last are read as the last, and not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from tracejit.backends.nest import Nest
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    Alloc,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    Operand,
    Value,
    index_const,
)
from tracejit.support.nodes import evolve, frozen

__all__ = ["StagedNest", "TiledNest", "tile_count"]


@frozen
class StagedNest:
    """A nest over tiles: its loops, what a group runs for each iteration, and how many work-items that takes."""

    free: tuple[For, ...]
    body: Block
    work_group: int

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(loop.upper.value for loop in self.free if isinstance(loop.upper, Const))


def tile_count(extents: Sequence[Extent], sides: Sequence[int]) -> int | None:
    """How many tiles there are, if that is known."""
    count = prod((*extents[:-2], *_tiles(extents, sides)))
    return None if isinstance(count, Dim) else count


def _tiles(extents: Sequence[Extent], sides: Sequence[int]) -> tuple[Extent, ...]:
    return tuple((n + (side - 1)) // side for n, side in zip(extents[-2:], sides, strict=True))


@define(eq=False)
class TiledNest:
    """extents: of the nest's loops, which begin at 0.  sides: rows and columns of a tile.  at: its place among the
    tiles.  r: what each work-item computes first.
    """

    nest: Nest
    extents: Sequence[Extent]
    sides: tuple[int, int]
    lane: Value = field(factory=lambda: Value("i64"), init=False)
    at: tuple[Value, Value] = field(factory=lambda: (Value("i64"), Value("i64")), init=False)
    r: ScalarRecorder = field(factory=ScalarRecorder, init=False)
    arrays: list[Buffer] = field(factory=list[Buffer], init=False)

    def array(self, dtype: str, *shape: int) -> Buffer:
        """An array in shared memory."""
        made = Buffer(f"shared{len(self.arrays)}", dtype, shape, space="shared")
        self.arrays.append(made)
        return made

    def over_tiles(self, body: Block, lanes: int) -> StagedNest:
        """`body` by so many work-items, for each tile."""
        *outer, row, column = self.nest.free
        counts = _tiles(self.extents, self.sides)
        free = tuple(
            evolve(loop, index=at, upper=index_const(n))
            for loop, at, n in zip((row, column), self.at, counts, strict=True)
        )
        lane_loop = For(self.lane, index_const(0), index_const(lanes), (*self.r.statements, *body), Axis("block"))
        return StagedNest((*outer, *free), (*(Alloc(b) for b in self.arrays), lane_loop), lanes)

    # Places in the tile; side: 0 for rows, 1 for columns

    def loop_index(self, side: int) -> Value:
        return self.nest.free[side - 2].index

    def index(self, r: ScalarRecorder, side: int, place: Operand) -> Operand:
        """The row or column at a place of the tile."""
        return r.op("add", r.op("mul", self.at[side], index_const(self.sides[side])), place)

    def last(self, side: int) -> Const | None:
        """The last row or column, where tiles may reach beyond it."""
        extent = self.extents[side - 2]
        exact = not isinstance(extent, Dim) and extent % self.sides[side] == 0
        return None if exact else index_const(extent - 1)

    def inside(self, r: ScalarRecorder, side: int, place: Operand) -> Operand:
        """The row or column at a place of the tile, or the last one."""
        index, last = self.index(r, side, place), self.last(side)
        return index if last is None else r.op("min", index, last)

    def element(self, r: ScalarRecorder, places: Sequence[Operand]) -> dict[Value, Operand]:
        """What the indices of the nest's last two loops stand for at a place."""
        return {self.loop_index(side): self.inside(r, side, place) for side, place in enumerate(places)}

    def there(self, r: ScalarRecorder, places: Sequence[Operand]) -> Operand | None:
        """Whether there is an element at a place; None if always."""
        found: Operand | None = None
        for side, place in enumerate(places):
            if (last := self.last(side)) is not None:
                here = r.op("le", self.index(r, side, place), last)
                found = here if found is None else r.op("and", found, here)
        return found
