"""Binds kernels that are scheduled for a processor to work-items that are its threads: `grid.bind_grid` for devices
that are processors.

    a parallel loop              a fixed number of work-items, each with neighbouring iterations
    a parallel reduction         the same, then one work-item folds their partial results
    anything else                one work-item

Vector and unrolled loops stay: the printer writes them with the language's vectors.  How iterations are shared out
depends on their number and the schedule only.
"""

from __future__ import annotations

from attrs import define

from tracejit.backends.cooperative import fits
from tracejit.backends.grid import Binder, GridProgram, GridSchedule, Segment, over_partials
from tracejit.backends.nest import recurrence, scans, trip_count, values_like
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import (
    SERIAL,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    Kernel,
    Operand,
    Statement,
    Store,
    Value,
    allocated_by,
    index_const,
    walk,
)
from tracejit.ir.rewrite import map_blocks, replace_buffers
from tracejit.support.nodes import evolve

__all__ = ["bind_cores"]

_ITEMS = 128  # work-items that share a loop at most


def bind_cores(kernel: Kernel, schedule: GridSchedule) -> GridProgram:
    """Share out the parallel loops of a scheduled kernel."""
    binder = _CoresBinder(kernel, schedule)
    binder.run()
    return GridProgram(tuple(binder.named()), tuple(binder.temporaries))


@define(eq=False)
class _CoresBinder(Binder):
    def shaped(self, body: Block) -> Block:
        return body

    def kind(self, s: Statement) -> str:
        if not isinstance(s, For) or s.axis.kind != "parallel" or s.step != 1 or scans(s):
            return "single"
        if not s.params:
            return "nest"
        return "reduction" if s.combine is not None and all(isinstance(i, Const) for i in s.inits) else "single"

    def printable(self, body: Block) -> Block:
        return _recurrences(body)

    def nest(self, segment: Segment) -> None:
        (loop,) = segment.statements
        assert isinstance(loop, For)
        self._shared(segment, loop, ())

    def reduction(self, segment: Segment) -> None:
        loop = segment.statements[0]
        assert isinstance(loop, For)
        items = _items(loop)
        partials = [self.temporary(p.dtype, (items,)) for p in loop.params]
        self._shared(segment, loop, partials)
        everything = self.with_pure(segment.statements)
        at = everything.index(loop)
        joined = evolve(over_partials(loop, partials), results=loop.results)
        after = self.globals_for_large_arrays(everything[at + 1 :])
        self.add((*self.loads(segment), *everything[:at], joined, *after, *self.saves(segment)), (), 1)

    def _shared(self, segment: Segment, loop: For, partials: list[Buffer] | tuple[()]) -> None:
        """The loop by as many work-items; each leaves what its carries are in `partials`."""
        items = _items(loop)
        item, r = Value("i64"), ScalarRecorder()
        span = r.op("max", r.op("sub", loop.upper, loop.lower), index_const(0))
        share = r.op("max", index_const(loop.axis.factor), _quotient_up(r, span, items))
        start = r.op("min", r.op("add", loop.lower, r.op("mul", item, share)), loop.upper)
        stop = r.op("min", r.op("add", start, share), loop.upper)
        body = self._with_room(loop.body, item, items)
        own = evolve(loop, lower=start, upper=stop, body=body, axis=SERIAL, results=values_like(loop.params))
        stores = [Store(b, (item,), v) for b, v in zip(partials, own.results, strict=True)]
        grid = For(item, index_const(0), index_const(items), (*r.statements, own, *stores), Axis("grid"))
        head = (*self.loads(segment), *self.with_pure([loop])[:-1])
        self.add((*head, grid), (items,), 1)

    def _with_room(self, body: Block, item: Value, items: int) -> Block:
        """Arrays that are too large for a work-item's own memory lie in global memory, one for each of them."""
        large = [b for s in walk(body) for b in allocated_by(s) if not fits(b, self.schedule.array_bytes)]
        made = {b: self.temporary(b.dtype, (items, *b.shape)) for b in large}
        return replace_buffers(body, made, (item,)) if made else body


def _items(loop: For) -> int:
    """How many work-items share a loop: each has some iterations, where it is known how many there are."""
    count: Extent | None = trip_count(loop)
    if count is None or isinstance(count, Dim):
        return _ITEMS
    share = max(loop.axis.factor, -(-count // _ITEMS))
    return max(1, -(-count // share))


def _quotient_up(r: ScalarRecorder, span: Operand, items: int) -> Operand:
    return r.op("idiv", r.op("add", span, index_const(items - 1)), index_const(items))


def _recurrences(body: Block) -> Block:
    """Scans as recurrences, but for those that are, or are within, loops over lanes."""

    def run(block: Block) -> Block:
        return tuple([s if _is_laned(s) else recurrence(map_blocks(s, run)) for s in block])

    return run(body)


def _is_laned(s: Statement) -> bool:
    return isinstance(s, For) and s.axis.kind in ("vector", "unroll")
