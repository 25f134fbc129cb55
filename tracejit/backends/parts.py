"""Columns of row-major arrays, and other rows whose elements do not lie side by side, where they are too few to occupy
a device with a work-item each: each is folded in parts, by neighbouring work-items for neighbouring columns, then the
parts are joined.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.cooperative import cooperates
from tracejit.backends.nest import GridSchedule, Nest, constant_bounds, repeatable, scans, trip_count, values_like
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import SERIAL, Block, Buffer, For, Load, Store, Value, accesses_of, index_const, walk
from tracejit.ir.passes.independence import accesses, defined_in, linear
from tracejit.ir.rewrite import inline
from tracejit.support.nodes import evolve

__all__ = ["contiguous", "fold_parts", "part_count"]


def part_count(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> int:
    """In how many parts the reduction in each iteration of a nest is folded; 1: it is not cut."""
    rows = prod(extents)
    loops = [s for s in nest.body if isinstance(s, For)]
    if schedule.rows != "auto" or schedule.contiguous or len(loops) != 1 or isinstance(rows, Dim) or not rows:
        return 1
    (loop,) = loops
    count = trip_count(loop)
    if not isinstance(count, int) or not cooperates(loop) or scans(loop) or not accesses((loop,)).pure:
        return 1
    written = accesses(nest.body).writes
    before = nest.body[: nest.body.index(loop)]
    if contiguous(loop) or not all(repeatable(s, written) for s in before) or accesses((loop,)).reads & written:
        return 1
    if not all(free.lower == index_const(0) and constant_bounds(free) for free in nest.free):
        return 1
    return max(1, min(schedule.groups * schedule.work_group // rows, count // schedule.part_extent))


def fold_parts(nest: Nest, partials: Sequence[Buffer]) -> tuple[For, Block, Block]:
    """(a loop over the parts without a body, what it and the loops of the nest run: the fold of a part,
    what the nest runs then: the fold of the parts and what follows); `partials`, one a carry, have an element for each
    part of each row.
    """
    (loop,) = (s for s in nest.body if isinstance(s, For))
    at = nest.body.index(loop)
    count, parts = trip_count(loop), partials[0].shape[0]
    assert isinstance(count, int)
    assert isinstance(parts, int)
    assert loop.combine is not None
    row = tuple(free.index for free in nest.free)
    t, r = Value("i64"), ScalarRecorder()
    size = index_const(-(-count // parts) * loop.step)
    start = r.op("min", r.op("add", loop.lower, r.op("mul", t, size)), loop.upper)
    stop = r.op("min", r.op("add", start, size), loop.upper)
    own = evolve(loop, lower=start, upper=stop, results=values_like(loop.params), axis=SERIAL)
    stores = (Store(b, (t, *row), v) for b, v in zip(partials, own.results, strict=True))
    part = For(t, index_const(0), index_const(parts), ())
    folded = (*nest.body[:at], *r.statements, own, *stores)

    i, params, elements = Value("i64"), values_like(loop.params), values_like(loop.params)
    loads = (Load(v, b, (i, *row)) for v, b in zip(elements, partials, strict=True))
    combined, yields = inline(loop.combine, (*params, *elements))
    join = For(
        i, index_const(0), index_const(parts), (*loads, *combined), params=params, inits=loop.inits, yields=yields,
        results=loop.results, combine=loop.combine,
    )  # fmt: skip
    return part, folded, (*nest.body[:at], join, *nest.body[at + 1 :])


def contiguous(reduction: For) -> bool:
    """Whether every load that moves with the (innermost) reduction index moves along its last axis."""
    index = reduction.index
    inner = reduction
    while len(inner.body) == 1 and isinstance(inner.body[0], For) and inner.body[0].combine is not None:
        inner = inner.body[0]
        index = inner.index
    defined = defined_in((reduction,))
    read = [a.index for s in walk((reduction,)) for a in accesses_of(s) if a.reads and a.index is not None]
    moving = [places for places in read if any(index in linear(i, defined) for i in places)]
    return bool(moving) and all(index in linear(places[-1], defined) for places in moving)
