"""What tiled products are built from: loops and indices in the composer's scopes,
and the packing of operands (see contract.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Axis,
    Buffer,
    Const,
    Lambda,
    Load,
    Operand,
    Statement,
    Store,
    Value,
    index_const,
    operands_of,
    results_of,
)
from tracejit.ir.passes.composer import Composer
from tracejit.ir.passes.product import Product, epilogue_cost
from tracejit.ir.passes.scopes import OpenBranch, OpenLoop, Scope
from tracejit.ir.schedule import Tile
from tracejit.support.nodes import define, evolve

__all__ = ["ZERO", "Task", "TileAxis", "Tiler", "ceil_div"]

ZERO = index_const(0)
UNKNOWN = 512  # what a symbolic extent is taken for
STRIP = 16  # rows of the rhs that are packed together
PACKED = 32768  # elements worth a chunk of packing
SEPARATE_COST = 15.0  # an epilogue dearer than this (in vector adds) is a loop of its own over a finished tile


def ceil_div(a: Extent, b: int) -> Extent:
    """How many blocks of `b` cover `a`."""
    return (a + (b - 1)) // b


@define(eq=False)
class TileAxis:
    """How rows or columns are cut into tiles.  cover: "exact", "shift" (the last tile overlaps) or "edge" (it may be
    incomplete).
    """

    extent: Extent
    size: int
    count: Extent
    cover: str

    @staticmethod
    def of(extent: Extent, size: int) -> TileAxis:
        if not isinstance(extent, int):
            return TileAxis(extent, size, ceil_div(extent, size), "edge")
        size = min(size, extent)
        return TileAxis(extent, size, ceil_div(extent, size), "exact" if extent % size == 0 else "shift")

    @property
    def shared(self) -> Extent:
        """How many tiles blocks share out: one that overlaps goes with the tile before it,
        so that no two blocks store one element.
        """
        return self.count - 1 if self.cover == "shift" else self.count

    def blocks(self, most: int) -> tuple[Extent, int]:
        """(how many blocks of at most `most` rows or columns, tiles of the largest block)."""
        tiles = max(1, most // self.size)
        blocks = ceil_div(self.shared, tiles)
        if not isinstance(blocks, int):
            return blocks, tiles
        assert isinstance(self.count, int) and isinstance(self.shared, int)
        return blocks, self.count if blocks == 1 else -(-self.shared // blocks) + (self.cover == "shift")


@define(eq=False)
class Task:
    """What the statements of one task share."""

    scope: Scope
    tiles: tuple[Operand, Operand]
    panels: tuple[Operand, Operand]
    lhs: Buffer | None
    rhs: Buffer | None
    sums: Buffer | None
    edge: Buffer | None
    slice: Operand | None = None  # which part of the contracted axis, where tasks share that out
    first: Operand = ZERO  # the first block of the contracted axis
    own_rhs: bool = False  # the rhs is packed by the task, block by block


class Tiler:
    """Writes loops, indices and packed operands of one product into a composer's scopes."""

    def __init__(self, composer: Composer, product: Product, tile: Tile) -> None:
        self.c = composer
        self.p = product
        self.tile = tile
        self.outer: dict[int, Operand] = {}  # index of each outer domain axis
        form = product.form
        self.m = TileAxis.of(self.p.extent(self.p.rows), self.tile.rows)
        self.n = TileAxis.of(form.domain[self.p.column], self.tile.columns)
        self.k = prod(form.over)
        # Only a single contracted axis is cut into blocks.
        self.depth: Extent = (
            self.k
            if len(product.depth) != 1 or (isinstance(self.k, int) and self.k <= tile.depth and tile.share != "depth")
            else tile.depth
        )
        self.blocks: Extent = 1 if self.depth is self.k else ceil_div(self.k, self.tile.depth)
        self.dtype = form.init[0].dtype
        self.sides = tuple(_part(form.body, side ^ product.turned) for side in (0, 1))
        flat = len(product.depth) > 1  # counted as one axis, which only packed operands have
        self.packs_lhs = flat or tile.pack in ("lhs", "both")
        self.packs_rhs = flat or tile.pack in ("rhs", "both")
        # Columns of an rhs that is not packed end where the rhs ends: the vector loop itself is cut off there.
        self.cut = self.n.cover == "edge" and not self.packs_rhs
        # Whether a tile may be incomplete in its rows, in its columns: its sums then go through a small buffer, see
        # Note [edges].
        self.ragged = (self.m.cover == "edge", self.n.cover == "edge" and not self.cut)
        self.separate = epilogue_cost(self.c.group, self.p) > SEPARATE_COST

    # -- small pieces --------------------------------------------------------------------------------------------------
    def op(self, scope: Scope, name: str, *args: Operand) -> Operand:
        """An index computation; constants are folded."""
        if all(isinstance(a, Const) and isinstance(a.value, int) for a in args):
            x, y = (a.value for a in args)  # type: ignore[union-attr]
            known = {
                "idiv": lambda: x // y,
                "irem": lambda: x % y,
                "min": lambda: min(x, y),
                "max": lambda: max(x, y),
            }.get(name)
            if known is not None:
                return index_const(known())
        if (
            name in ("idiv", "irem")
            and isinstance(args[1], Const)
            and isinstance(args[1].value, int)
            and args[1].value == 1
        ):
            return args[0] if name == "idiv" else index_const(0)
        return self.c.op(scope, name, args, "i64")

    def loop(
        self,
        scope: Scope,
        upper: Extent | Operand,
        body: Callable[[Scope, Operand], None],
        axis: Axis = SERIAL,
        lower: Operand | None = None,
    ) -> None:
        """`for i in lower..upper: body(i)`, nothing but the body where there is exactly one iteration."""
        first = index_const(0) if lower is None else lower
        last = upper if isinstance(upper, (Value, Const)) else index_const(upper)
        if (
            isinstance(first, Const)
            and isinstance(last, Const)
            and not isinstance(last.value, Dim)
            and axis.kind != "vector"
            and last.value - first.value == 1
        ):
            body(scope, first)
            return
        if axis.kind == "unroll" and not (isinstance(last, Const) and isinstance(last.value, int)):
            axis = SERIAL
        inner = self.c.child(scope, extent=last)
        assert inner.index is not None
        body(inner, inner.index)
        scope.statements.append(OpenLoop(inner, lower=first, axis=axis))

    def branch(
        self,
        scope: Scope,
        condition: Operand,
        then: Callable[[Scope], Sequence[Operand]],
        orelse: Callable[[Scope], Sequence[Operand]] = lambda s: (),
    ) -> tuple[Value, ...]:
        sides = [self.c.child(scope, branch=True) for _ in range(2)]
        yields = [tuple(f(s)) for f, s in zip((then, orelse), sides, strict=True)]
        results = tuple(Value(y.dtype) for y in yields[0])
        for r in results:
            self.c.home[r] = scope
        scope.statements.append(OpenBranch(condition, sides[0], sides[1], yields[0], yields[1], results))
        return results

    def test(self, scope: Scope, name: str, a: Operand, b: Operand) -> Operand:
        return self.c.op(scope, name, (a, b), "bool")

    def load(self, scope: Scope, buffer: Buffer, index: Sequence[Operand]) -> Value:
        value = Value(buffer.dtype)
        self.c.home[value] = scope
        scope.statements.append(Load(value, buffer, tuple(index)))
        return value

    def scalar(self, scope: Scope, lam: Lambda, args: Sequence[Operand]) -> Operand:
        """The result of a lambda over scalars, in `scope`."""
        env: dict[Value, Operand] = dict(zip(lam.params, args, strict=True))
        self.c.drive(self.c.run(lam.body, env, scope, self.p.equation.inputs))
        (r,) = lam.results
        return env.get(r, r) if isinstance(r, Value) else r

    def alloc(self, scope: Scope, stem: str, shape: Sequence[Extent], dtype: str = "") -> Buffer:
        buffer = Buffer(stem, dtype or self.dtype, tuple(shape), space="local")
        scope.statements.append(Alloc(buffer))
        return buffer

    # -- indices -------------------------------------------------------------------------------------------------------
    def index(self, scope: Scope, row: Operand, column: Operand) -> tuple[Operand, ...]:
        """The index into the domain of the element at (row, column)."""
        domain = self.p.form.domain
        out: list[Operand] = [self.outer.get(a, index_const(0)) for a in range(len(domain))]
        out[self.p.column] = column
        rest = row
        for n, a in enumerate(reversed(self.p.rows)):
            last = n == len(self.p.rows) - 1
            out[a] = rest if last else self.op(scope, "irem", rest, index_const(domain[a]))
            rest = rest if last else self.op(scope, "idiv", rest, index_const(domain[a]))
        return tuple(out)

    def element(self, side: int, scope: Scope, free: Operand, depth: Sequence[Operand]) -> Operand:
        """Element (free, depth) of an operand, in the accumulator's dtype."""
        zero = index_const(0)
        index = self.index(scope, free, zero) if side == 0 else self.index(scope, zero, free)
        over: list[Operand] = [zero] * len(self.p.form.over)
        for a, k in zip(self.p.depth, depth, strict=True):
            over[a] = k
        return self.scalar(scope, self.sides[side], (*index, *over))

    def first(self, scope: Scope, axis: TileAxis, number: Operand) -> Operand:
        """Where a tile starts."""
        start = self.op(scope, "mul", number, index_const(axis.size))
        return self.op(scope, "min", start, index_const(axis.extent - axis.size)) if axis.cover == "shift" else start

    def row(self, scope: Scope, start: Operand, r: Operand) -> Operand:
        """A row of a tile; those that do not exist are the last one again."""
        i = self.op(scope, "add", start, r)
        return self.op(scope, "min", i, index_const(self.m.extent - 1)) if self.m.cover == "edge" else i

    def vector(self, span: Extent) -> Axis:
        vectors = -(-span // self.tile.width) if isinstance(span, int) else 1
        return Axis("vector", self.tile.width, max(1, vectors)) if self.tile.width > 1 else Axis("unroll")

    # -- packing -------------------------------------------------------------------------------------------------------
    def over_depth(
        self,
        scope: Scope,
        block: Operand | None,
        body: Callable[[Scope, Operand, list[Operand]], None],
        axis: Axis = SERIAL,
    ) -> None:
        """Loops over the contracted elements of a block: `body(scope, position in the block, index along each
        contracted axis)`.
        """
        axes = self.p.depth
        if len(axes) <= 1:
            start = index_const(0) if block is None else self.op(scope, "mul", block, index_const(self.depth))
            self.loop(
                scope,
                self.span(scope, block),
                lambda s, k: body(s, k, [self.op(s, "add", start, k)] if axes else []),
                axis,
            )
            return

        def nest(s: Scope, n: int, at: Operand, index: list[Operand]) -> None:
            if n == len(axes):
                body(s, at, index)
                return
            extent, last = self.p.form.over[axes[n]], n == len(axes) - 1

            def inside(inner: Scope, k: Operand) -> None:
                nest(
                    inner, n + 1, self.op(inner, "add", self.op(inner, "mul", at, index_const(extent)), k), [*index, k]
                )

            self.loop(s, extent, inside, axis if last else SERIAL)

        nest(scope, 0, index_const(0), [])

    def span(self, scope: Scope, block: Operand | None) -> Operand:
        """How many contracted elements a block has."""
        if block is None:
            return index_const(self.k)
        if isinstance(self.k, int) and self.k % self.tile.depth == 0:
            return index_const(self.depth)
        left = self.op(scope, "sub", index_const(self.k), self.op(scope, "mul", block, index_const(self.depth)))
        return self.op(scope, "min", left, index_const(self.depth))

    def pack_rhs(
        self, scope: Scope, bp: Buffer, panels: tuple[Operand, Operand], block: Operand | None, shared: bool
    ) -> None:
        """bp[panel, k, c] of a block.  Columns that do not exist are left as they are:
        what is computed from them is never stored.
        """
        size, flat = self.n.size, "rhs" not in self.tile.flip

        def columns(s: Scope, q: Operand, k: Operand, index: list[Operand], span: Extent | Operand) -> None:
            start, local = self.first(s, self.n, q), self.op(s, "sub", q, panels[0])

            def one(x: Scope, c: Operand) -> None:
                x.statements.append(Store(bp, (local, k, c), self.element(1, x, self.op(x, "add", start, c), index)))

            # Across the columns by vectors, or a transposition by scalars, all columns of a panel side by side.
            self.loop(
                s, span, one, self.vector(size) if flat else (Axis("unroll") if isinstance(span, int) else SERIAL)
            )

        def panel(
            s: Scope, q: Operand, depth: Callable[[Scope, Callable[[Scope, Operand, list[Operand]], None]], None]
        ) -> None:
            if self.n.cover != "edge":
                depth(s, lambda x, k, index: columns(x, q, k, index, size))
                return
            left = self.op(s, "sub", index_const(self.n.extent), self.first(s, self.n, q))

            def side(span: Extent | Operand) -> Callable[[Scope], tuple[Operand, ...]]:
                def run(x: Scope) -> tuple[Operand, ...]:
                    depth(x, lambda y, k, index: columns(y, q, k, index, span))
                    return ()

                return run

            self.branch(s, self.test(s, "ge", left, index_const(size)), side(size), side(left))

        if not flat or len(self.p.depth) != 1:
            work = self.k * size
            grain = max(1, PACKED // work) if isinstance(work, int) and work else 1
            whole = lambda s, f: self.over_depth(s, block, f)  # noqa: E731
            self.loop(
                scope,
                panels[1],
                lambda s, q: panel(s, q, whole),
                Axis("parallel", factor=grain) if shared else SERIAL,
                panels[0],
            )
            return

        # A few rows at a time over all panels: memory is read along the rows.
        span = self.span(scope, block)
        begin = index_const(0) if block is None else self.op(scope, "mul", block, index_const(self.depth))

        def strip(s: Scope, number: Operand) -> None:
            low = self.op(s, "mul", number, index_const(STRIP))
            high = self.op(s, "min", self.op(s, "add", low, index_const(STRIP)), span)

            def rows(x: Scope, f: Callable[[Scope, Operand, list[Operand]], None]) -> None:
                self.loop(x, high, lambda y, k: f(y, k, [self.op(y, "add", begin, k)]), lower=low)

            self.loop(s, panels[1], lambda x, q: panel(x, q, rows), lower=panels[0])

        extent = self.n.extent if isinstance(self.n.extent, int) else UNKNOWN
        axis = Axis("parallel", factor=max(1, PACKED // (STRIP * extent))) if shared else SERIAL
        strips = self.op(scope, "idiv", self.op(scope, "add", span, index_const(STRIP - 1)), index_const(STRIP))
        self.loop(scope, strips, strip, axis)

    def pack_lhs(self, t: Task, scope: Scope, block: Operand | None) -> None:
        """ap[tile, r, k] where the lhs is contiguous along k, else ap[tile, k, r]."""
        ap = t.lhs
        assert ap is not None
        low, high = t.tiles

        def one(s: Scope, q: Operand) -> None:
            start, local = self.first(s, self.m, q), self.op(s, "sub", q, low)
            if "lhs" in self.tile.flip:

                def at(inner: Scope, k: Operand, index: list[Operand]) -> None:
                    def r(deep: Scope, x: Operand) -> None:
                        deep.statements.append(
                            Store(ap, (local, k, x), self.element(0, deep, self.row(deep, start, x), index))
                        )

                    self.loop(inner, self.m.size, r, Axis("unroll"))

                self.over_depth(s, block, at)
                return

            def row(inner: Scope, r: Operand) -> None:
                i = self.row(inner, start, r)

                def at(deep: Scope, k: Operand, index: list[Operand]) -> None:
                    deep.statements.append(Store(ap, (local, r, k), self.element(0, deep, i, index)))

                axis = Axis("vector", self.tile.width, 4) if self.tile.width > 1 else SERIAL
                self.over_depth(inner, block, at, axis)

            self.loop(s, self.m.size, row)

        self.loop(scope, high, one, lower=low)


def _part(lam: Lambda, number: int) -> Lambda:
    """The statements of a lambda that one of its results needs."""
    wanted: set[Operand] = {lam.results[number]}
    kept: list[Statement] = []
    for s in reversed(lam.body):
        if any(r in wanted for r in results_of(s)):
            kept.append(s)
            wanted.update(operands_of(s))
    return evolve(lam, body=tuple(reversed(kept)), results=(lam.results[number],))
