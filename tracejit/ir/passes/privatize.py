"""Reductions down the columns of a large array, run along its rows: `for j: for k: acc += x[k, j]` visits one page
after the other for a few elements each.  Privatized, a block of columns has its accumulators in local memory and the
rows are read in order:

    for block: alloc acc;  for j in block: acc[j] = init;  for k: for j in block: acc[j] += x[k, j];  for j in block:
    out[j] = acc[j]
"""

from __future__ import annotations

from collections.abc import Callable

from tracejit.ir.kernel import (
    Alloc,
    Block,
    Buffer,
    Const,
    For,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    allocated_by,
    blocks,
    index_const,
    is_opaque,
    is_pure,
    results_of,
)
from tracejit.ir.rewrite import fresh_copy, replace

__all__ = ["can_privatize", "is_scalar", "parts_of", "privatize"]


def parts_of(loop: For) -> tuple[Block, For, Block] | None:
    """(statements before, the reduction, statements after) of a loop
    that holds exactly one reduction and scalar statements.
    """
    inner = [(n, s) for n, s in enumerate(loop.body) if not is_scalar(s)]
    match inner:
        case [(at, For() as reduction)]:
            return loop.body[:at], reduction, loop.body[at + 1 :]
        case _:
            return None


def is_scalar(s: Statement) -> bool:
    """Whether a statement stands for itself: no blocks, no memory of its own, nothing that its fields do not tell."""
    return not (blocks(s) or allocated_by(s) or is_opaque(s))


def can_privatize(loop: For) -> bool:
    """Whether a carry-free loop over columns holds one reduction whose range does not depend on the column."""
    parts = parts_of(loop)
    if (
        parts is None
        or loop.step != 1
        or loop.params
        or not isinstance(loop.lower, Const)
        or not isinstance(loop.upper, Const)
    ):
        return False
    before, reduction, _ = parts
    if reduction.combine is None or reduction.step != 1 or not all(map(is_scalar, reduction.body)):
        return False
    made = {r for s in before for r in results_of(s)} | {loop.index}
    return all(map(is_pure, before)) and not any(b in made for b in (reduction.lower, reduction.upper))


def privatize(loop: For, block: int) -> tuple[For, list[Value]]:
    """The loop in blocks of columns with local accumulators, and the indices of the loops over a block;
    `can_privatize(loop)` holds.
    """
    parts = parts_of(loop)
    assert parts is not None and isinstance(loop.lower, Const) and isinstance(loop.upper, Const)
    before, reduction, after = parts
    number, start, span, stop, offset = (Value("i64") for _ in range(5))
    head: list[Statement] = [
        Op(offset, "mul", (number, index_const(block))),
        Op(start, "add", (offset, loop.lower)),
        Op(span, "add", (start, index_const(block))),
        Op(stop, "min", (span, loop.upper)),
    ]
    accumulators = [
        Buffer(f"acc{reduction.index.id}_{n}", p.dtype, (block,), space="local") for n, p in enumerate(reduction.params)
    ]
    head += [Alloc(b) for b in accumulators]
    indices: list[Value] = []

    def columns(make: Callable[[Value, Value], list[Statement]]) -> For:
        index, place = Value("i64"), Value("i64")
        indices.append(index)
        body: list[Statement] = [Op(place, "sub", (index, start))]
        body += make(index, place)
        return For(index, start, stop, tuple(body))

    def fill(index: Value, place: Value) -> list[Statement]:
        return [Store(b, (place,), i) for b, i in zip(accumulators, reduction.inits, strict=True)]

    row = Value("i64")

    def fold(index: Value, place: Value) -> list[Statement]:
        rename: dict[Value, Operand] = {loop.index: index, reduction.index: row}
        out: list[Statement] = list(fresh_copy(before, rename))
        for p, b in zip(reduction.params, accumulators, strict=True):
            held = Value(p.dtype)
            out.append(Load(held, b, (place,)))
            rename[p] = held
        out += fresh_copy(reduction.body, rename)
        out += [Store(b, (place,), replace(y, rename)) for b, y in zip(accumulators, reduction.yields, strict=True)]
        return out

    def finish(index: Value, place: Value) -> list[Statement]:
        rename: dict[Value, Operand] = {loop.index: index}
        out: list[Statement] = list(fresh_copy(before, rename))
        for r, b in zip(reduction.results, accumulators, strict=True):
            held = Value(r.dtype)
            out.append(Load(held, b, (place,)))
            rename[r] = held
        return [*out, *fresh_copy(after, rename)]

    rows = For(row, reduction.lower, reduction.upper, (columns(fold),))
    count = index_const((loop.upper.value - loop.lower.value + (block - 1)) // block)
    return For(number, index_const(0), count, (*head, columns(fill), rows, columns(finish))), indices
