"""One pass over a matrix for what folds its rows and what folds its columns: `r = f(X @ w)` and `X.T @ r` read each
element twice, and a block of rows that was just read lies in a near cache.

    for task, parallel:                                   so many rows each, with sums of its own: part[task]
      for block of rows:
        for r in block:  for j: fold X[r, j] * w[j]       kept[r]
        for r in block, lanes:  f(kept[r])                what follows the folds of a row, for all rows of the block
        for j, lanes:  for r in block: fold X[r, j] * f   part[task, j]
    for j, lanes:  for task: fold part[task, j]           in order, so that threads make no difference

Rows alone, without columns, run so where what follows their folds costs much: in lanes, not row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tracejit.ir.conflicts import conflicts
from tracejit.ir.extents import Extent
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    Lambda,
    Load,
    Op,
    Operand,
    Prefix,
    Statement,
    Store,
    Value,
    accesses_of,
    allocated_by,
    index_const,
    is_pure,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.passes.privatize import can_privatize, is_scalar, parts_of
from tracejit.ir.rewrite import fresh_copy, fresh_lambda, inline, replace
from tracejit.support.nodes import frozen

__all__ = ["Rows", "can_sweep_columns", "rows_of", "sweep"]

ZERO = index_const(0)
Renamed: TypeAlias = "dict[Value, Operand]"


@frozen(eq=False)
class Rows:
    """A loop over rows: what folds each of them, what follows that element by element, and the values between."""

    loop: For
    folds: Block
    after: Block
    between: tuple[Value, ...]


def rows_of(loop: For) -> Rows | None:
    """The parts of a loop over rows, which are independent of each other; None of another loop."""
    if not _counts(loop) or (loop.params and loop.combine is None) or not independent(loop, loop.index):
        return None
    inner = [n for n, s in enumerate(loop.body) if not is_scalar(s)]
    if not inner or conflicts(loop).stores or any(isinstance(s, Prefix) for s in walk(loop.body)):
        return None
    folds, after = list(loop.body[: inner[-1] + 1]), list(loop.body[inner[-1] + 1 :])
    for n in range(len(folds) - 1, -1, -1):  # what only the later part needs belongs to it
        s = folds[n]
        if is_scalar(s) and is_pure(s) and not (set(results_of(s)) & _used(tuple(folds[n + 1 :]))):
            after.insert(0, folds.pop(n))
    first, later, whole = accesses(folds), accesses(after), accesses(loop.body)
    if first.writes or whole.writes & whole.reads or {b for s in folds for b in allocated_by(s)} & later.reads:
        return None
    if not set(loop.params).isdisjoint(_used(tuple(folds))):
        return None
    needed = _used(tuple(after)) | {y for y in loop.yields if isinstance(y, Value)}
    between = tuple([r for s in folds for r in results_of(s) if r in needed])
    return Rows(loop, tuple(folds), tuple(after), between)


def _counts(loop: For) -> bool:
    """Whether a loop runs from 0 to an extent, one by one."""
    return loop.step == 1 and loop.lower == ZERO and isinstance(loop.upper, Const) and loop.axis == SERIAL


def _used(block: Block) -> set[Value]:
    return {a for s in walk(block) for a in operands_of(s) if isinstance(a, Value)}


def can_sweep_columns(rows: Rows, columns: For, between: Block = ()) -> bool:
    """Whether a loop over columns, which folds the rows, can run along with a loop over these.

    between: what stands between the two loops; it runs after both.
    """
    if not (_counts(columns) and can_privatize(columns) and independent(columns, columns.index)):
        return False
    parts = parts_of(columns)
    assert parts is not None
    before, reduction, after = parts
    if reduction.upper != rows.loop.upper or reduction.lower != ZERO or conflicts(columns).stores:
        return False
    made = {r for s in (rows.loop, *between) for r in results_of(s)}
    if not made.isdisjoint(_used((columns,))):
        return False
    first = [a for s in walk((rows.loop, *between)) for a in accesses_of(s)]
    second = [a for s in walk((columns,)) for a in accesses_of(s)]
    if {a.buffer for a in second if a.writes} & {a.buffer for a in first}:
        return False
    handed = {a.buffer for a in first if a.writes} & {a.buffer for a in second}
    there = [a for s in reduction.body for a in accesses_of(s) if a.buffer in handed]
    if any(a.buffer in handed for s in (*before, *after) for a in accesses_of(s)):
        return False
    stores = {s.buffer for s in rows.after if isinstance(s, Store) and s.index == (rows.loop.index,)}
    return all(a.buffer in stores and a.index == (reduction.index,) and not a.writes for a in there)


def sweep(rows: Rows, columns: For | None, block: int, grain: int, lanes: Axis) -> tuple[Block, Block]:
    """(what stands for the loop over rows, what for the one over columns).

    block: rows at a time.  grain: rows of a task, a multiple of it.  lanes: how the columns run.
    """
    return _Sweep(rows, columns, block, grain, lanes).run()


class _Sweep:
    def __init__(self, rows: Rows, columns: For | None, block: int, grain: int, lanes: Axis) -> None:
        self.rows, self.columns, self.block, self.grain, self.lanes = rows, columns, block, grain, lanes
        assert isinstance(rows.loop.upper, Const)
        self.height: Extent = rows.loop.upper.value
        self.tasks: Extent = (self.height + (grain - 1)) // grain
        self.kept = [Buffer(f"kept{v.id}", v.dtype, (block,), space="local") for v in rows.between]
        self.handed: dict[Buffer, Buffer] = {}
        self.part: list[Buffer] = []
        if columns is not None:
            parts = parts_of(columns)
            assert parts is not None and isinstance(columns.upper, Const)
            self.before, self.fold, self.after = parts
            read = {a.buffer for s in self.fold.body for a in accesses_of(s)}
            for s in rows.after:
                if isinstance(s, Store) and s.buffer in read:
                    name = f"handed{s.buffer.name}"
                    self.handed[s.buffer] = Buffer(name, s.buffer.dtype, (block,), space="local")
            shape = (self.tasks, columns.upper.value)
            self.part = [
                Buffer(f"part{n}_{columns.index.id}", p.dtype, shape, space="local")
                for n, p in enumerate(self.fold.params)
            ]

    def run(self) -> tuple[Block, Block]:
        loop, task = self.rows.loop, Value("i64")
        low, end, high = (Value("i64") for _ in range(3))
        body: list[Statement] = [
            Op(low, "mul", (task, index_const(self.grain))),
            Op(end, "add", (low, index_const(self.grain))),
            Op(high, "min", (end, index_const(self.height))),
            *(Alloc(b) for b in (*self.kept, *self.handed.values())),
        ]
        if self.columns is not None:
            body.append(self._each_column(lambda j, place: self._begin(task, place)))
        count, rest = Value("i64"), Value("i64")
        span, done = Value("i64"), Value("i64")
        body += [
            Op(span, "sub", (high, low)),
            Op(count, "idiv", (span, index_const(self.block))),
            Op(done, "mul", (count, index_const(self.block))),
            Op(rest, "sub", (span, done)),
        ]
        params = tuple([Value(p.dtype) for p in loop.params])
        carried: tuple[Operand, ...] = params
        size = index_const(self.block)
        carried = self._blocks(body, count, carried, lambda q, out: self._start(low, q, out), size, task)
        if not (isinstance(self.height, int) and self.height % self.block == 0):
            last, begin = Value("i64"), Value("i64")
            body += [Op(last, "min", (rest, index_const(1))), Op(begin, "add", (low, done))]
            carried = self._blocks(body, last, carried, lambda q, out: begin, rest, task)
        axis = Axis("parallel", factor=1)
        tasks = For(
            task, ZERO, index_const(self.tasks), tuple(body), axis, params, loop.inits, carried, loop.results,
            loop.combine
        )  # fmt: skip
        return (*map(Alloc, self.part), tasks), () if self.columns is None else (self._join(),)

    def _start(self, low: Operand, q: Operand, out: list[Statement]) -> Operand:
        offset, start = Value("i64"), Value("i64")
        out += [Op(offset, "mul", (q, index_const(self.block))), Op(start, "add", (low, offset))]
        return start

    def _blocks(
        self,
        body: list[Statement],
        count: Operand,
        carried: tuple[Operand, ...],
        start: Callable[[Operand, list[Statement]], Operand],
        size: Operand,
        task: Operand,
    ) -> tuple[Operand, ...]:
        """`count` blocks of `size` rows, the first of each where `start` says: what is carried after them."""
        loop, q = self.rows.loop, Value("i64")
        params = tuple([Value(p.dtype) for p in loop.params])
        results = tuple([Value(p.dtype) for p in loop.params])
        inside: list[Statement] = []
        first = start(q, inside)
        inside.append(self._row(first, size, self._folds))
        sums, after = self._followed(first, size)
        inside += after
        if self.columns is not None:
            inside.append(self._each_column(lambda j, place: self._gather(task, first, size, j, place)))
        yields: tuple[Operand, ...] = ()
        if loop.combine is not None:
            joined, yields = inline(loop.combine, (*params, *sums))
            inside += joined
        combine = _copied(loop.combine)
        body.append(For(q, ZERO, count, tuple(inside), SERIAL, params, carried, yields, results, combine))
        return results

    def _row(
        self, first: Operand, size: Operand, make: Callable[[Value, Value], list[Statement]], axis: Axis = SERIAL
    ) -> For:
        """A loop over the rows of a block: what `make` makes of the place of one and the row."""
        r, i = Value("i64"), Value("i64")
        return For(r, ZERO, size, (Op(i, "add", (first, r)), *make(r, i)), axis)

    def _folds(self, r: Value, i: Value) -> list[Statement]:
        rename: Renamed = {self.rows.loop.index: i}
        out = list(fresh_copy(self.rows.folds, rename))
        return [*out, *(Store(b, (r,), rename[v]) for b, v in zip(self.kept, self.rows.between, strict=True))]

    def _followed(self, first: Operand, size: Operand) -> tuple[tuple[Value, ...], list[Statement]]:
        """What follows the folds, for the rows of a block in lanes; and the sums over the block."""
        loop = self.rows.loop
        params = tuple([Value(p.dtype) for p in loop.params])
        sums = tuple([Value(p.dtype) for p in loop.params])
        rename: Renamed = dict(zip(loop.params, params, strict=True))

        def one(r: Value, i: Value) -> list[Statement]:
            rename[loop.index] = i
            out: list[Statement] = []
            for b, v in zip(self.kept, self.rows.between, strict=True):
                held = Value(v.dtype)
                out.append(Load(held, b, (r,)))
                rename[v] = held
            for s in fresh_copy(self.rows.after, rename):
                out.append(s)
                if isinstance(s, Store) and s.buffer in self.handed:
                    out.append(Store(self.handed[s.buffer], (r,), s.value))
            return out

        width = min(1 << self.block.bit_length() - 1, self.lanes.width)
        axis = Axis("vector", width, 1) if width > 1 else SERIAL
        made = self._row(first, size, one, axis)
        yields = tuple([replace(y, rename) for y in loop.yields])
        return sums, [
            For(made.index, ZERO, size, made.body, axis, params, loop.inits, yields, sums, _copied(loop.combine))
        ]

    # -- columns -------------------------------------------------------------------------------------------------------
    def _each_column(self, make: Callable[[Value, Renamed], list[Statement]]) -> For:
        assert self.columns is not None
        j = Value("i64")
        rename: Renamed = {self.columns.index: j}
        before = fresh_copy(self.before, rename)
        return For(j, ZERO, self.columns.upper, (*before, *make(j, rename)), self.lanes)

    def _begin(self, task: Operand, rename: Renamed) -> list[Statement]:
        assert self.columns is not None
        j = rename[self.columns.index]
        return [Store(b, (task, j), replace(i, rename)) for b, i in zip(self.part, self.fold.inits, strict=True)]

    def _gather(self, task: Operand, first: Operand, size: Operand, j: Value, rename: Renamed) -> list[Statement]:
        """The sums of a column over a block of rows, and those of the task with them."""
        fold, r, i = self.fold, Value("i64"), Value("i64")
        params = tuple([Value(p.dtype) for p in fold.params])
        totals = tuple([Value(p.dtype) for p in fold.params])
        inits = tuple([replace(x, rename) for x in fold.inits])
        inner: Renamed = {**rename, fold.index: i, **dict(zip(fold.params, params, strict=True))}
        body: list[Statement] = [Op(i, "add", (first, r))]
        for s in fold.body:
            if isinstance(s, Load) and s.buffer in self.handed:
                held = Value(s.out.dtype)
                body.append(Load(held, self.handed[s.buffer], (r,)))
                inner[s.out] = held
            else:
                body += fresh_copy((s,), inner)
        yields = tuple([replace(y, inner) for y in fold.yields])
        combine = _copied(fold.combine)
        out: list[Statement] = [For(r, ZERO, size, tuple(body), SERIAL, params, inits, yields, totals, combine)]
        held = [Value(b.dtype) for b in self.part]
        out += [Load(h, b, (task, j)) for h, b in zip(held, self.part, strict=True)]
        assert fold.combine is not None
        joined, results = inline(fold.combine, (*held, *totals))
        return [*out, *joined, *(Store(b, (task, j), x) for b, x in zip(self.part, results, strict=True))]

    def _join(self) -> For:
        """The sums of all tasks, in order, and what follows them."""
        fold = self.fold

        def column(j: Value, rename: Renamed) -> list[Statement]:
            t = Value("i64")
            params = tuple([Value(p.dtype) for p in fold.params])
            results = tuple([Value(p.dtype) for p in fold.params])
            held = tuple([Value(p.dtype) for p in fold.params])
            inits = tuple([replace(x, rename) for x in fold.inits])
            assert fold.combine is not None
            joined, yields = inline(fold.combine, (*params, *held))
            loads = [Load(h, b, (t, j)) for h, b in zip(held, self.part, strict=True)]
            loop = For(
                t, ZERO, index_const(self.tasks), (*loads, *joined), SERIAL, params, inits, yields, results,
                _copied(fold.combine)
            )  # fmt: skip
            rename.update(zip(fold.results, results, strict=True))
            return [loop, *fresh_copy(self.after, rename)]

        return self._each_column(column)


def _copied(function: Lambda | None) -> Lambda | None:
    return None if function is None else fresh_lambda(function)
