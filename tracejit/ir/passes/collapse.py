"""Adjacent loops that only walk contiguous memory become one loop: `for i, for j: y[i, j] = x[i, j]` is a loop over i *
n + j.

Done for perfect nests of plain or reduction loops over constant or symbolic extents whose two indices are used only
together, as adjacent axes of row-major buffers that these loops cover wholly.  What else reads or writes such a buffer
gets its index computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tracejit.ir.builder import fold_index
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import (
    SERIAL,
    Block,
    Buffer,
    Const,
    For,
    Kernel,
    Op,
    Operand,
    Statement,
    Value,
    accesses_of,
    allocated_by,
    index_const,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.rewrite import map_accesses, map_allocated, map_blocks
from tracejit.support.nodes import evolve

__all__ = ["collapse"]


def collapse(kernel: Kernel) -> Kernel:
    """Collapse nests as far as possible: those of all top-level loops together where that works, else one at a time."""
    changed = True
    while changed:
        changed = False
        pairs = [pair for s in kernel.body for pair in _candidates(s)]
        for chosen in ([pairs] if len(pairs) > 1 else []) + [[pair] for pair in pairs]:
            joined = _try(kernel, chosen)
            if joined is not None:
                kernel, changed = joined, True
                break
    return kernel


def _candidates(s: Statement) -> list[tuple[For, For]]:
    """The innermost pairs of perfect nests that could be one loop: of the whole nest, else of the loops in its body."""
    pair = _candidate(s)
    if pair is not None:
        return [pair]
    return [found for x in s.body for found in _candidates(x)] if isinstance(s, For) else []


def _candidate(s: Statement) -> tuple[For, For] | None:
    """The innermost pair of a perfect nest that could be one loop, searched from the inside."""
    chain: list[For] = []
    while isinstance(s, For):
        chain.append(s)
        shifts = _shifts(s)
        inner = s.body[len(shifts)] if len(s.body) > len(shifts) else None
        if not isinstance(inner, For) or not (len(s.body) == len(shifts) + 1 or (not shifts and _joins(s, inner))):
            break
        s = inner
    for outer, inner in reversed(list(itertools.pairwise(chain))):
        if _plain(outer, any_start=True) and _plain(inner) and (outer.combine is None) == (inner.combine is None):
            return outer, inner
    return None


def _shifts(s: For) -> dict[Value, Extent]:
    """The statements at the head of a loop that add a constant to its index: value -> constant."""
    found: dict[Value, Extent] = {}
    for x in s.body:
        if not (isinstance(x, Op) and x.op == "add" and x.args[0] is s.index and isinstance(x.args[1], Const)):
            break
        found[x.out] = x.args[1].value
    return found


def _joins(outer: For, inner: For) -> bool:
    """Whether two reduction loops fold one reduction: the outer one only joins the inner one's results."""
    return (
        outer.combine is not None
        and outer.combine is inner.combine
        and outer.inits == inner.inits
        and all(isinstance(x, Op) for x in outer.body[1:])
    )


def _plain(s: For, *, any_start: bool = False) -> bool:
    extent = s.upper.value if isinstance(s.upper, Const) else None
    return (
        s.axis == SERIAL
        and s.step == 1
        and (not s.params or s.combine is not None)
        and isinstance(s.lower, Const)
        and (any_start or s.lower.value == 0)
        and isinstance(extent, (int, Dim))
    )


def _same(a: Operand, b: Operand) -> bool:
    return (
        isinstance(a, Const)
        and isinstance(b, Const)
        and type(a.value) is type(b.value)
        and (a.value.same(b.value) if isinstance(a.value, Dim) else a.value == b.value)
    )


def _try(kernel: Kernel, pairs: list[tuple[For, For]]) -> Kernel | None:  # noqa: C901  (one walk over the statements)
    """The kernel with these pairs of loops collapsed, or None where an access forbids it."""
    # The outer index of each pair and what is a constant away from it: value -> (pair, constant).
    rows: dict[Value, tuple[int, Extent]] = {}
    columns = {inner.index: n for n, (_, inner) in enumerate(pairs)}
    for n, (outer, _) in enumerate(pairs):
        rows[outer.index] = (n, 0)
        rows |= {v: (n, shift) for v, shift in _shifts(outer).items()}
    axes: dict[Buffer, set[int | None]] = {}
    for s in walk(kernel.body):
        left = _uses(operands_of(s), rows, columns)  # of the indices of the loops, other than as places in memory
        for access in accesses_of(s):
            index = access.index
            if index is None:
                return None
            at = _place(index, rows, columns)
            uses = _uses(index, rows, columns)
            if uses not in (0, 2) or (uses == 2 and at is None):
                return None
            left -= uses
            if at is not None:
                # The inner loop covers its axis wholly: then a row and a column are a place in memory that grows by one
                # with the column.
                inner = pairs[rows[index[at]][0]][1]  # type: ignore[index]
                if not (access.buffer.layout == "C" and _same(index_const(access.buffer.shape[at + 1]), inner.upper)):
                    return None
            axes.setdefault(access.buffer, set()).add(at)
        if left and not any(x in rows for x in results_of(s)):
            return None
    # A buffer keeps its axes if it is not walked by these loops; one that is walked along different axes cannot change
    # its shape.
    joined: dict[Buffer, int] = {}
    for b, found in axes.items():
        walked = found - {None}
        if len(walked) > 1:
            return None
        for at in walked:
            assert at is not None
            joined[b] = at
    views = {
        b: evolve(b, shape=(*b.shape[:at], b.shape[at] * b.shape[at + 1], *b.shape[at + 2 :]))
        for b, at in joined.items()
    }
    if not views:
        return None
    places: dict[Value, Value] = {}
    heads: list[list[Statement]] = []
    for n, (outer, inner) in enumerate(pairs):
        index = places[outer.index] = Value("i64")
        heads.append([])
        for v, (pair, shift) in rows.items():
            if pair == n and v is not outer.index:
                places[v] = Value("i64")
                heads[n].append(Op(places[v], "add", (index, Const(shift * inner.upper.value, "i64"))))  # type: ignore[union-attr]
    outers = {outer.index: n for n, (outer, _) in enumerate(pairs)}

    def rewritten(block: Block) -> Block:
        return tuple([y for s in block for y in rewrite(s)])

    def rewrite(s: Statement) -> list[Statement]:
        before: list[Statement] = []

        def access(buffer: Buffer, index: tuple[Operand, ...] | None) -> tuple[Buffer, tuple[Operand, ...] | None]:
            b = views.get(buffer)
            if b is None or index is None:
                return buffer, index
            at = joined[buffer]
            if _place(index, rows, columns) is None:
                extent = index_const(buffer.shape[at + 1])
                place = _computed(before, "add", _computed(before, "mul", index[at], extent), index[at + 1])
            else:
                place = places[index[at]]  # type: ignore[index]
            return b, (*index[:at], place, *index[at + 2 :])

        if isinstance(s, For) and s.index in outers:
            n = outers[s.index]
            outer, inner = pairs[n]
            lower, upper = (Const(x.value * inner.upper.value, "i64") for x in (outer.lower, outer.upper))  # type: ignore[union-attr]
            body = (*heads[n], *rewritten(inner.body))
            return [
                evolve(inner, index=places[outer.index], lower=lower, upper=upper, body=body, results=outer.results)
            ]
        s = map_blocks(map_accesses(s, access), rewritten)
        return [*before, map_allocated(s, views) if allocated_by(s) else s]

    return evolve(kernel, body=rewritten(kernel.body), buffers=tuple(views.get(b, b) for b in kernel.buffers))


def _uses(operands: Sequence[Operand], rows: dict[Value, tuple[int, Extent]], columns: dict[Value, int]) -> int:
    return sum(1 for x in operands if x in rows or x in columns)


def _computed(out: list[Statement], name: str, a: Operand, b: Operand) -> Operand:
    """An operation on indices, folded where it can be, else appended to `out`."""
    folded = fold_index(name, (a, b))
    if folded is not None:
        return folded
    out.append(op := Op(Value("i64"), name, (a, b)))
    return op.out


def _place(index: Sequence[Operand], rows: dict[Value, tuple[int, Extent]], columns: dict[Value, int]) -> int | None:
    """The axis at which an access has the row and column of one pair."""
    for k in range(len(index) - 1):
        a, b = index[k], index[k + 1]
        row = rows.get(a) if isinstance(a, Value) else None
        if row is not None and isinstance(b, Value) and columns.get(b) == row[0]:
            return k
    return None
