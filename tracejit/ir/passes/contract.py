"""Matrix products by register tiles: the kernel of a group whose main equation is a `Contract`.

    [bp: the rhs in panels of `columns`]                   pack, parallel over panels
    for task in blocks of rows x blocks of columns         parallel
      for block of the contracted axis                     `depth` elements, more than one only where the axis is longer
        [ap: the lhs in tiles of `rows`]                   pack
        for panel, for tile:                               the panel stays in the nearest cache, the rows in the next
          for r unroll, for c vector: fold over k          rows x columns accumulators in registers
          partial sums, or epilogue and store

Operands are packed by demanding their elements from the composer, so whatever computes them (a transposition, a
conversion, an activation) happens there, once for each packed element; an operand that is read straight from a buffer
need not be packed.  Everything that follows the product element by element is its epilogue.

Note [edges]: a static extent that the tile does not divide is covered by a last tile that starts earlier and overlaps
the one before: its elements are computed twice with equal results.  A symbolic extent has rows clamped to the last one,
columns padded, and incomplete tiles go through a small buffer from which only what exists is stored.

Note [order]: an element's sum depends on `depth` alone, not on tiles, tasks or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tracejit.ir.extents import Extent, prod
from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import (
    SERIAL,
    Axis,
    Buffer,
    Const,
    Factor,
    Kernel,
    Load,
    MatrixProduct,
    Op,
    Operand,
    Store,
    Value,
    index_const,
)
from tracejit.ir.passes.compose import numbers_of, parameters_of
from tracejit.ir.passes.composer import Composer
from tracejit.ir.passes.elements import ELEMENTS
from tracejit.ir.passes.groups import Group
from tracejit.ir.passes.product import Product, epilogue_cost, find_product
from tracejit.ir.passes.scopes import OpenLoop, Scope, Written, defined_by, finish
from tracejit.ir.passes.tiles import ZERO, Task, TileAxis, Tiler, ceil_div
from tracejit.ir.schedule import Tile
from tracejit.support.nodes import frozen

__all__ = ["ProductGroup", "product_group"]


@frozen(eq=False)
class ProductGroup:
    """A group that is built around a matrix product: what its kernels are made of, whatever the tile."""

    group: Group
    name: str
    product: Product
    buffers: dict[Var, Buffer]
    dims: tuple[str, ...]

    def description(self) -> MatrixProduct:
        """What is multiplied, and how the operands lie in memory."""
        p = self.product
        extents = p.extent(p.outer), p.extent(p.rows), p.extent((p.column,)), prod(p.form.over)
        lhs, rhs = (_reached(self.group, self.buffers, p, side) for side in (0, 1))
        return MatrixProduct(p.form.init[0].dtype, *extents, lhs, rhs, round(epilogue_cost(self.group, p)))

    def tiled(self, tile: Tile) -> Kernel:
        """The kernel for a tile, all its loops scheduled; its buffers are those of the plain one."""
        t = _Contraction(Composer(self.group, dict(self.buffers), ELEMENTS), self.product, tile)
        t.kernel()
        parameters = tuple(dict.fromkeys(self.buffers[v] for v in (*self.group.inputs, *self.group.outputs)))
        outputs = frozenset(self.buffers[v].name for v in self.group.outputs)
        body = finish(t.c.root)
        return Kernel(self.name, parameters, outputs, body, tuple(sorted({*self.dims, *numbers_of(body)})))


def product_group(group: Group, name: str, layout_of: Callable[[Var], str]) -> ProductGroup | None:
    """The group as a matrix product, if it is one."""
    product = find_product(group)
    return None if product is None else ProductGroup(group, name, product, *parameters_of(group, layout_of))


def _reached(group: Group, buffers: dict[Var, Buffer], p: Product, side: int) -> Factor:
    """How an operand's elements are reached, found by composing one of them."""
    t = Tiler(Composer(group, dict(buffers), ELEMENTS), p, Tile(1, 1, 1, 1, 1, 1))
    scope = t.c.root
    chain: list[Scope] = []
    for _ in range(3):
        scope = t.c.child(scope, extent=index_const(2))
        chain.append(scope)
    free, k = chain[1].index, chain[2].index
    assert free is not None and k is not None and scope.index is not None
    t.outer = dict.fromkeys(p.outer, index_const(0))
    t.element(side, scope, free, [*[index_const(0)] * (len(p.depth) - 1), k] if p.depth else [])
    statements = [s for x in (t.c.root, *chain) for s in x.statements]
    steps: dict[Operand, _Steps] = {free: {free: 1}, k: {k: 1}}
    plain = True  # one load at indices that no data enters, and nothing but that
    for s in statements:
        if isinstance(s, Op):
            plain = plain and s.out.dtype == "i64"
            steps[s.out] = _moves(s, steps)
        else:
            plain = plain and isinstance(s, Load) and not any(_is_data(a, statements) for a in s.index)
            steps.update({r: {free: None, k: None} for r in defined_by(s)})
    loads = [s for s in statements if isinstance(s, Load) and any(steps.get(a) for a in s.index)]
    votes = [_along(s, steps) for s in loads]
    names = {k: "k", free: "m" if side == 0 else "n", None: "x"}
    best = names[max(votes, key=votes.count)] if votes else "x"
    flat = len(p.depth) > 1 or (side == 0 and len(p.rows) > 1)  # several axes are counted as one
    return Factor(best, computed=not plain or len(loads) != 1 or flat or best == "x")


_Steps: TypeAlias = "dict[Value, int | None]"


def _is_data(x: Operand, statements: Sequence[Written]) -> bool:
    """Whether an index was loaded or computed from what was."""
    made: dict[Operand, Written] = {r: s for s in statements for r in defined_by(s)}
    stack: list[Operand] = [x]
    while stack:
        s = made.get(stack.pop())
        if s is not None and not isinstance(s, Op):
            return True
        stack += [] if s is None else s.args
    return False


def _along(s: Load, steps: dict[Operand, _Steps]) -> Value | None:
    """The loop along which a load walks contiguous memory."""
    *others, last = [steps.get(a, {}) for a in s.index]
    if s.buffer.layout == "strided" or len(last) != 1:
        return None
    ((which, step),) = last.items()
    return which if step == 1 and not any(which in o for o in others) else None


def _moves(s: Op, steps: dict[Operand, _Steps]) -> _Steps:
    """By how much an index moves with each of the two loops; None: in another way than by a constant."""
    a, b = [steps.get(x, {}) for x in s.args] if len(s.args) == 2 else ({}, {})
    if s.op in ("add", "sub") and None not in (*a.values(), *b.values()):
        sign = 1 if s.op == "add" else -1
        return {v: (a.get(v) or 0) + sign * (b.get(v) or 0) for v in {**a, **b}}
    factor = s.args[1] if a and len(s.args) == 2 else s.args[0]
    if s.op == "mul" and isinstance(factor, Const) and isinstance(factor.value, int):
        return {v: None if x is None else x * factor.value for v, x in (a or b).items()}
    return {v: None for x in s.args for v in steps.get(x, {})}


# -- the kernel --------------------------------------------------------------------------------------------------------
class _Contraction(Tiler):
    """Tiles, tasks, and the kernel around them."""

    # -- tiles ---------------------------------------------------------------------------------------------------------
    def fold(
        self,
        t: Task,
        scope: Scope,
        local: Operand,
        panel: Operand,
        start: tuple[Operand, Operand],
        r: Operand,
        c: Operand,
        block: Operand | None,
    ) -> Operand:
        """The sum of products of one element of a tile over a block of the contracted axis."""
        form = self.p.form
        inner = self.c.child(scope, extent=self.span(scope, block))
        k, carry = inner.index, Value(self.dtype)
        assert k is not None
        self.c.home[carry] = inner
        at = k if block is None else self.op(inner, "add", self.op(inner, "mul", block, index_const(self.depth)), k)
        if t.lhs is None:
            a = self.element(0, inner, self.row(inner, start[0], r), [at] if self.p.depth else [])
        else:
            a = self.load(inner, t.lhs, (local, k, r) if "lhs" in self.tile.flip else (local, r, k))
        if t.rhs is None:
            b = self.element(1, inner, self.op(inner, "add", start[1], c), [at] if self.p.depth else [])
        else:
            b = self.load(
                inner, t.rhs, (self.op(scope, "sub", panel, t.panels[0]), k, c) if t.own_rhs else (panel, at, c)
            )
        step = form.step
        assert step is not None
        total = self.scalar(inner, step, (carry, a, b))
        result = Value(self.dtype)
        self.c.home[result] = scope
        scope.statements.append(OpenLoop(inner, (carry,), tuple(form.init), (total,), (result,), form.combine))
        return result

    def store(self, scope: Scope, index: tuple[Operand, ...], total: Operand) -> None:
        """The epilogue of one element and the stores of all outputs."""
        form, (out,) = self.p.form, self.p.equation.outputs
        value = total if form.finish is None else self.scalar(scope, form.finish, (total,))
        scope.memo[(out, index)] = value
        for var in self.c.group.outputs:
            scope.statements.append(Store(self.c.buffers[var], index, self.c.demand(var, index, scope)))

    def place(
        self, scope: Scope, q: Operand, panel: Operand
    ) -> tuple[tuple[Operand, Operand], list[Operand], Operand | None]:
        """Where a tile starts, what is left from there, and whether it is complete (None: always)."""
        start = (self.first(scope, self.m, q), self.first(scope, self.n, panel))
        left = [self.op(scope, "sub", index_const(a.extent), x) for a, x in zip((self.m, self.n), start, strict=True)]
        sides = zip((self.m, self.n), left, self.ragged, strict=True)
        tests = [self.test(scope, "ge", x, index_const(a.size)) for a, x, ragged in sides if ragged]
        return (
            start,
            left,
            tests[0] if len(tests) == 1 else (self.c.op(scope, "and", tuple(tests), "bool") if tests else None),
        )

    def one_tile(self, t: Task, scope: Scope, q: Operand, panel: Operand, block: Operand | None) -> None:
        local, side = self.op(scope, "sub", q, t.tiles[0]), self.op(scope, "sub", panel, t.panels[0])
        start, left, whole = self.place(scope, q, panel)
        last = None if block is None else self.test(scope, "eq", block, index_const(self.blocks - 1))

        def result(s: Scope, r: Operand, c: Operand, total: Operand) -> tuple[Operand, ...]:
            def direct(x: Scope) -> tuple[Operand, ...]:
                self.store(x, self.index(x, self.op(x, "add", start[0], r), self.op(x, "add", start[1], c)), total)
                return ()

            def buffered(x: Scope) -> tuple[Operand, ...]:
                assert t.edge is not None
                x.statements.append(Store(t.edge, (r, c), total))
                return ()

            if self.separate:
                buffered(s)
            elif whole is None:
                direct(s)
            else:
                self.branch(s, whole, direct, buffered)
            return ()

        def element(s: Scope, r: Operand, c: Operand) -> None:
            total = self.fold(t, s, local, panel, start, r, c, block)
            if block is None:
                result(s, r, c, total)
                return
            sums, at = t.sums, (*(() if t.slice is None else (t.slice,)), side, local, r, c)
            assert sums is not None
            begun = self.test(scope, "gt", block, t.first)
            zero = self.p.form.init
            (before,) = self.branch(s, begun, lambda x: (self.load(x, sums, at),), lambda x: zero)
            joined = self.scalar(s, self.p.form.combine, (before, total))

            def keep(x: Scope) -> tuple[Operand, ...]:
                x.statements.append(Store(sums, at, joined))
                return ()

            if t.slice is not None:
                keep(s)
            else:
                assert last is not None
                self.branch(s, last, lambda x: result(x, r, c, joined), keep)

        width = self.op(scope, "min", left[1], index_const(self.n.size)) if self.cut else self.n.size

        def row(s: Scope, r: Operand) -> None:
            self.loop(s, width, lambda x, c: element(x, r, c), self.vector(self.n.size))

        self.loop(scope, self.m.size, row, Axis("unroll"))
        edge = t.edge
        if edge is not None:
            self.finish_tile(
                scope, start, left, whole, last, lambda s, r, c: self.load(s, edge, (r, c)), every=self.separate
            )

    def finish_tile(
        self,
        scope: Scope,
        start: tuple[Operand, Operand],
        left: Sequence[Operand],
        whole: Operand | None,
        last: Operand | None,
        total: Callable[[Scope, Operand, Operand], Operand],
        *,
        every: bool,
    ) -> None:
        """The epilogue over a tile whose sums are in memory: of every tile, or of incomplete ones only."""

        def rows(s: Scope, height: Operand | int, width: Operand | int) -> tuple[Operand, ...]:
            def row(x: Scope, r: Operand) -> None:
                def column(y: Scope, c: Operand) -> None:
                    index = self.index(y, self.op(y, "add", start[0], r), self.op(y, "add", start[1], c))
                    self.store(y, index, total(y, r, c))

                self.loop(x, width, column, self.vector(min(self.n.size, 2 * self.tile.width)))

            self.loop(s, height, row)
            return ()

        def complete(s: Scope) -> tuple[Operand, ...]:
            return rows(
                s, self.m.size, self.op(s, "min", left[1], index_const(self.n.size)) if self.cut else self.n.size
            )

        def incomplete(s: Scope) -> tuple[Operand, ...]:
            height, width = (
                self.op(s, "min", x, index_const(a.size)) for a, x in zip((self.m, self.n), left, strict=True)
            )
            return rows(s, height, width)

        def run(s: Scope) -> tuple[Operand, ...]:
            if whole is None:
                return complete(s) if every else ()
            self.branch(s, whole, complete if every else lambda x: (), incomplete)
            return ()

        if last is None:
            run(scope)
        else:
            self.branch(scope, last, run)

    # -- tasks ---------------------------------------------------------------------------------------------------------
    def kernel(self) -> None:
        batch = self.tile.share == "batch"
        outer = self.p.outer

        def nest(scope: Scope, rest: Sequence[int]) -> None:
            if not rest:
                self.product(scope, shared=self.tile.share in ("tasks", "depth"))
                return

            def inside(s: Scope, i: Operand) -> None:
                self.outer[rest[0]] = i
                nest(s, rest[1:])

            self.loop(scope, self.p.form.domain[rest[0]], inside)

        if not batch or not outer:
            nest(self.c.root, outer)
            return

        def flat(s: Scope, i: Operand) -> None:
            for a in reversed(outer[1:]):
                self.outer[a] = self.op(s, "irem", i, index_const(self.p.form.domain[a]))
                i = self.op(s, "idiv", i, index_const(self.p.form.domain[a]))
            self.outer[outer[0]] = i
            self.product(s, shared=False)

        self.loop(self.c.root, self.p.extent(outer), flat, Axis("parallel", factor=self.tile.grain))

    def product(self, scope: Scope, shared: bool) -> None:
        """One product: pack the rhs, then all tasks."""
        row_blocks, tall = self.m.blocks(self.tile.tall)
        column_blocks, wide = self.n.blocks(self.tile.wide)
        # Where each panel is read by one task alone, the task packs it, block by block, and it stays in the cache.
        own = (
            self.packs_rhs
            and self.tile.share != "depth"
            and len(self.p.depth) == 1
            and isinstance(row_blocks, int)
            and row_blocks == 1
        )
        bp: Buffer | None = None
        if self.packs_rhs and not own:
            bp = self.alloc(scope, "bp", (self.n.count, self.k, self.n.size))
            self.pack_rhs(scope, bp, (ZERO, index_const(self.n.count)), None, shared)
        if self.tile.share == "depth" and len(self.p.depth) == 1:
            self.slices(scope, bp)
            return

        def task(s: Scope, number: Operand) -> None:
            i = self.op(s, "idiv", number, index_const(column_blocks))
            j = self.op(s, "irem", number, index_const(column_blocks))
            tiles, panels = self.share(s, i, self.m, row_blocks), self.share(s, j, self.n, column_blocks)
            mine = self.alloc(s, "bp", (wide, self.depth, self.n.size)) if own else bp
            self.task(s, tiles, panels, mine, tall, wide, own=own)

        self.loop(
            scope, row_blocks * column_blocks, task, Axis("parallel", factor=self.tile.grain) if shared else SERIAL
        )

    def slices(self, scope: Scope, bp: Buffer | None) -> None:
        """Tasks share the contracted axis out: each leaves partial sums of all tiles, which are joined in order."""
        each = max(1, self.tile.grain // self.tile.depth)  # blocks a task
        count = ceil_div(self.blocks, each)
        m, n = self.m, self.n
        part = self.alloc(scope, "part", (count, n.count, m.count, m.size, n.size))
        zero, form = index_const(0), self.p.form

        def task(s: Scope, number: Operand) -> None:
            low = self.op(s, "mul", number, index_const(each))
            high = self.op(s, "min", self.op(s, "add", low, index_const(each)), index_const(self.blocks))
            ap = self.lhs_buffer(s, m.count) if self.packs_lhs else None
            t = Task(s, (zero, index_const(m.count)), (zero, index_const(n.count)), ap, bp, part, None, number, low)
            self.loop(s, high, lambda x, block: self.block(t, x, block), lower=low)

        self.loop(scope, count, task, Axis("parallel"))

        def joined(s: Scope, q: Operand, panel: Operand) -> Callable[[Scope, Operand, Operand], Operand]:
            def total(x: Scope, r: Operand, c: Operand) -> Operand:
                inner = self.c.child(x, extent=index_const(count))
                carry, result = Value(self.dtype), Value(self.dtype)
                self.c.home[carry], self.c.home[result] = inner, x
                assert inner.index is not None
                value = self.load(inner, part, (inner.index, panel, q, r, c))
                yields = (self.scalar(inner, form.combine, (carry, value)),)
                x.statements.append(OpenLoop(inner, (carry,), tuple(form.init), yields, (result,), form.combine))
                return result

            return total

        def finish_one(s: Scope, q: Operand, panel: Operand) -> None:
            start, left, whole = self.place(s, q, panel)
            self.finish_tile(s, start, left, whole, None, joined(s, q, panel), every=True)

        self.loop(scope, n.count, lambda s, panel: self.loop(s, m.count, lambda x, q: finish_one(x, q, panel)))

    def share(self, scope: Scope, number: Operand, axis: TileAxis, blocks: Extent) -> tuple[Operand, Operand]:
        """Which tiles belong to block `number`: evenly shared, so that no block is much shorter than the others."""
        if isinstance(blocks, int) and blocks == 1:
            return index_const(0), index_const(axis.count)
        after, divisor = self.op(scope, "add", number, index_const(1)), index_const(blocks)
        low, high = (
            self.op(scope, "idiv", self.op(scope, "mul", x, index_const(axis.shared)), divisor) for x in (number, after)
        )
        if axis.cover == "shift":  # the last block also has the tile that overlaps
            high = self.op(scope, "add", high, self.op(scope, "idiv", after, divisor))
        return low, high

    def task(
        self,
        scope: Scope,
        tiles: tuple[Operand, Operand],
        panels: tuple[Operand, Operand],
        bp: Buffer | None,
        tall: int,
        wide: int,
        *,
        own: bool,
    ) -> None:
        """One task: its tiles and panels over all blocks of the contracted axis."""
        m, n = self.m.size, self.n.size
        ap = self.lhs_buffer(scope, tall) if self.packs_lhs else None
        many = not (isinstance(self.blocks, int) and self.blocks == 1)
        sums = self.alloc(scope, "sums", (wide, tall, m, n)) if many else None
        edge = self.alloc(scope, "tile", (m, n)) if self.separate or any(self.ragged) else None
        t = Task(scope, tiles, panels, ap, bp, sums, edge, own_rhs=own)
        if many:
            self.loop(scope, self.blocks, lambda s, block: self.block(t, s, block))
        else:
            self.block(t, scope, None)

    def lhs_buffer(self, scope: Scope, tiles: Extent) -> Buffer:
        return self.alloc(
            scope,
            "ap",
            (tiles, self.depth, self.m.size) if "lhs" in self.tile.flip else (tiles, self.m.size, self.depth),
        )

    def block(self, t: Task, scope: Scope, block: Operand | None) -> None:
        """All tiles of a task over one block of the contracted axis."""
        if t.own_rhs:
            assert t.rhs is not None
            self.pack_rhs(scope, t.rhs, t.panels, block, shared=False)
        if t.lhs is not None:
            self.pack_lhs(t, scope, block)
        one = lambda y, i, j: self.one_tile(t, y, i, j, block)  # noqa: E731
        self.loop(
            scope,
            t.panels[1],
            lambda x, j: self.loop(x, t.tiles[1], lambda y, i: one(y, i, j), lower=t.tiles[0]),
            lower=t.panels[0],
        )
