"""Nests whose iterations share what they load (matrix products): a work-item runs a tile of them at once.

A tile takes rows and columns that lie far apart, one from each of as many parts of the matrix, so that neighbouring
work-items still load neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.cooperative import cooperates
from tracejit.backends.nest import GridSchedule, Nest, scans, values_like
from tracejit.backends.straight_line import Copies
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    For,
    Lambda,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    index_const,
    operands_of,
    results_of,
)
from tracejit.ir.passes.independence import accesses
from tracejit.ir.rewrite import inline, replace
from tracejit.support.nodes import evolve

__all__ = ["jammed", "one_reduction"]

_LEAST_ITEMS = 32  # that are left for each group that a reduction is shared among: fewer do not occupy a device


def jammed(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> Nest | None:
    """The nest over tiles of its last two loops; None where it is not worth it, or cannot be."""
    loop = one_reduction(nest)
    if schedule.jam == 1 or loop is None or not _shares_loads(nest, loop):
        return None
    rows, columns = extents[-2:]
    count, least = prod(extents), schedule.groups * _LEAST_ITEMS
    if isinstance(count, Dim) or isinstance(rows, Dim) or isinstance(columns, Dim):
        return None
    side = schedule.jam
    sides = [(side >> (k + 1) // 2, side >> k // 2) for k in range(2 * side.bit_length() - 2)]
    fitting = [(a, b) for a, b in sides if rows % a == 0 and columns % b == 0 and count // (a * b) >= least]
    return _tiled(nest, loop, rows, columns, *fitting[0]) if fitting else None


def one_reduction(nest: Nest) -> For | None:
    """The one loop of a nest that a tile runs for all its iterations: straight-line, as all around it."""
    loops = [s for s in nest.body if isinstance(s, For)]
    if len(loops) != 1 or len(nest.free) < 2 or nest.ordered:
        return None
    (loop,) = loops
    if not cooperates(loop) or scans(loop) or not accesses((loop,)).pure:
        return None
    around = [s for s in nest.body if s is not loop]
    straight = all(isinstance(s, (Load, Op)) for s in loop.body) and all(
        isinstance(s, (Load, Op, Store)) for s in around
    )
    touched = accesses(nest.body)
    bounds = {x for x in (loop.lower, loop.upper) if isinstance(x, Value)}
    if not straight or touched.reads & touched.writes or bounds:
        return None
    return loop if all(free.lower == index_const(0) for free in nest.free[-2:]) else None


def _shares_loads(nest: Nest, loop: For) -> bool:
    """Whether some loads of the reduction do not move along the rows of the nest, and some not along its columns."""
    row, column = (free.index for free in nest.free[-2:])
    moves: dict[Value, set[Value]] = {row: {row}, column: {column}}
    still: set[Value] = set()
    for s in (*nest.body[: nest.body.index(loop)], *loop.body):
        along = {m for x in operands_of(s) if isinstance(x, Value) for m in moves.get(x, ())}
        for r in results_of(s):
            moves[r] = along
        if isinstance(s, Load) and s in loop.body:
            still |= {row, column} - along
    return still == {row, column}


def _tiled(nest: Nest, loop: For, rows: int, columns: int, height: int, width: int) -> Nest:
    """The nest over tiles of `height` by `width`."""
    at = nest.body.index(loop)
    *outer, row, column = nest.free
    r, down, across = ScalarRecorder(), rows // height, columns // width
    i, j = Value("i64"), Value("i64")
    below = [r.op("add", i, index_const(k * down)) for k in range(height)]
    beside = [r.op("add", j, index_const(k * across)) for k in range(width)]
    tile: list[dict[Value, Operand]] = [{row.index: y, column.index: x} for y in below for x in beside]
    before = Copies(list(r.statements))
    for values in tile:
        before.add(nest.body[:at], values)
    joint = _joint(loop, tile, before)
    after = Copies([], dict(before.known))
    for values in tile:
        after.add(nest.body[at + 1 :], values)
    free = (
        *outer,
        evolve(row, index=i, upper=index_const(down)),
        evolve(column, index=j, upper=index_const(across)),
    )
    return Nest(free, (), (*before.out, joint, *after.out))


def _joint(loop: For, tile: Sequence[dict[Value, Operand]], before: Copies) -> For:
    """The reductions of all iterations of a tile as one loop; each learns its results."""
    assert loop.combine is not None
    inits = [replace(x, values) for values in tile for x in loop.inits]
    body = before.inner()
    params: list[Value] = []
    results: list[Value] = []
    yields: list[Operand] = []
    for values in tile:
        mine, ends = values_like(loop.params), values_like(loop.results)
        inside: dict[Value, Operand] = {**values, **dict(zip(loop.params, mine, strict=True))}
        body.add(loop.body, inside)
        yields += [replace(y, inside) for y in loop.yields]
        values.update(zip(loop.results, ends, strict=True))
        params += mine
        results += ends
    n = len(loop.params)
    left, right = values_like(params), values_like(params)
    block: list[Statement] = []
    joined: list[Operand] = []
    for k in range(len(tile)):
        statements, outs = inline(loop.combine, (*left[k * n : k * n + n], *right[k * n : k * n + n]))
        block += statements
        joined += outs
    combine = Lambda((*left, *right), tuple(block), tuple(joined))
    return evolve(
        loop, params=tuple(params), inits=tuple(inits), yields=tuple(yields), results=tuple(results), combine=combine,
        body=tuple(body.out),
    )  # fmt: skip
