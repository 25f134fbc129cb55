"""Sibling loops over the same range become one, and equal statements of a merged body are computed once.

A later loop moves up to an earlier one when nothing between them, and nothing of its own, needs the earlier loop's
results.
"""

from __future__ import annotations

from tracejit.ir.kernel import (
    Block,
    Buffer,
    For,
    Kernel,
    Lambda,
    Load,
    Op,
    Operand,
    Statement,
    Value,
    accesses_of,
    allocated_by,
    is_opaque,
    is_pure,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.twins import without_twins
from tracejit.ir.rewrite import fresh_lambda, map_blocks, replace, substitute
from tracejit.support.nodes import evolve

__all__ = ["merge_loops"]


def merge_loops(kernel: Kernel) -> Kernel:
    """The kernel with loops next to each other over the same range made one,
    where no iteration reads what a later one writes.
    """
    merged = _block(kernel.body)
    return kernel if merged is kernel.body else without_twins(kernel.with_body(merged))


def _block(body: Block) -> Block:
    loops = sum(1 for s in body if isinstance(s, For))
    if loops:
        body = tuple([map_blocks(s, _block) for s in body])
    if loops > 1:
        body = _merge(body)
    return body


def _used(s: Statement) -> set[Value | Buffer]:
    """Values and buffers a statement reads, nested ones included."""
    out: set[Value | Buffer] = set()
    for x in walk((s,)):
        out.update(a for a in operands_of(x) if isinstance(a, Value))
        out.update(a.buffer for a in accesses_of(x) if a.reads)
    return out


def _written(s: Statement) -> set[Value | Buffer]:
    """Buffers a statement writes or allocates, nested ones included."""
    out: set[Value | Buffer] = set()
    for x in walk((s,)):
        out.update(a.buffer for a in accesses_of(x) if a.writes)
        out.update(allocated_by(x))
    return out


def _mergeable(a: For, b: For) -> bool:
    same = a.lower == b.lower and a.upper == b.upper and a.step == b.step and a.axis == b.axis
    ordinary = not any(is_opaque(x) for s in (a, b) for x in walk(s.body))
    carries = (not a.params or a.combine is not None) and (not b.params or b.combine is not None)
    return same and ordinary and carries


def _merge(body: Block) -> Block:
    out: list[Statement] = []
    for s in body:
        if not isinstance(s, For) or (position := _partner(out, s)) is None:
            out.append(s)
            continue
        earlier = out[position]
        assert isinstance(earlier, For)
        # What the later loop needs from between moves up with it; _partner made sure that it can.
        needed = _needed_between(out, position, s)
        moved = [out[n] for n in needed]
        for n in reversed(needed):
            del out[n]
        out[position : position + 1] = [*moved, _join(earlier, s)]
    return tuple(out)


def _needed_between(out: list[Statement], position: int, s: For) -> list[int]:
    wanted = _used(s)
    needed: list[int] = []
    for n in range(len(out) - 1, position, -1):
        x = out[n]
        if any(r in wanted for r in results_of(x)) or any(b in wanted | _written(s) for b in allocated_by(x)):
            needed.append(n)
            wanted |= _used(x)
    return sorted(needed)


def _partner(out: list[Statement], s: For) -> int | None:
    """The position of the nearest earlier loop that `s` can join."""
    for position in range(len(out) - 1, -1, -1):
        earlier = out[position]
        if not isinstance(earlier, For) or not _mergeable(earlier, s):
            continue
        needed = _needed_between(out, position, s)
        chain = [out[n] for n in needed]
        made = set(results_of(earlier)) | _written(earlier)
        reads = _used(s).union(*[_used(c) for c in chain]) if chain else _used(s)
        if reads & made or not all(is_pure(c) or allocated_by(c) for c in chain):
            return None
        writes = _written(s)
        between = [out[n] for n in range(position + 1, len(out)) if n not in needed]
        touched = (
            set[Value | Buffer]().union(*[_used(b) | _written(b) for b in between])
            if between
            else set[Value | Buffer]()
        )
        if writes & (_used(earlier) | _written(earlier) | touched):
            return None
        if any(_written(b) & reads for b in between):
            return None
        return position
    return None


def _join(a: For, b: For) -> For:
    """One loop doing both bodies; equal statements of the second are dropped."""
    rename: dict[Value, Operand] = {b.index: a.index}
    known: dict[tuple[object, ...], Value] = {}
    body: list[Statement] = []
    stores = {access.buffer for x in walk((*a.body, *b.body)) for access in accesses_of(x) if access.writes}

    def note(s: Statement) -> Value | None:
        if isinstance(s, Op):
            key: tuple[object, ...] = (s.op, s.out.dtype, s.args)
        elif isinstance(s, Load) and s.buffer not in stores:
            key = (s.buffer, s.index)
        else:
            return None
        return known.setdefault(key, s.out)

    for s in a.body:
        note(s)
        body.append(s)
    for s in b.body:
        s = substitute(s, rename)
        if isinstance(s, (Op, Load)):
            found = note(s)
            if found is not None and found is not s.out:
                rename[s.out] = found
                continue
        body.append(s)
    combine = _pair(a.combine, b.combine)
    yields = (*a.yields, *[replace(y, rename) for y in b.yields])
    return _block_again(
        evolve(
            a,
            body=tuple(body),
            params=(*a.params, *b.params),
            inits=(*a.inits, *b.inits),
            yields=yields,
            results=(*a.results, *b.results),
            combine=combine,
        )
    )


def _block_again(s: For) -> For:
    return evolve(s, body=_merge(s.body)) if sum(1 for x in s.body if isinstance(x, For)) > 1 else s


def _pair(a: Lambda | None, b: Lambda | None) -> Lambda | None:
    """The combiner of the carriers of both."""
    if a is None or b is None:
        return a or b
    n, m = len(a.params) // 2, len(b.params) // 2
    params = (*a.params[:n], *b.params[:m], *a.params[n:], *b.params[m:])
    if set(a.params) & set(b.params):
        b = fresh_lambda(b)
        params = (*a.params[:n], *b.params[:m], *a.params[n:], *b.params[m:])
    return Lambda(params, (*a.body, *b.body), (*a.results, *b.results))
