"""Rewrites of loops that let more iterations run at once: one loop for each result or task, and atomic updates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tracejit.backends.nest import nest_of, repeatable, scans
from tracejit.ir.kernel import (
    Atomic,
    Block,
    Buffer,
    For,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    accesses_of,
    is_pure,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import fresh_statement, map_blocks
from tracejit.ir.scalar import is_integer
from tracejit.support.nodes import evolve

__all__ = ["apart", "distribute", "with_atomics"]


def distribute(loop: Statement) -> Block:
    """One loop for each inner loop or store of an independent loop, each with the cheap values it needs;
    the statement itself where that is not all there is in it.

    Iterations touch memory of their own, so that it does not matter whether all of them do the first part before one
    does the second.
    """
    if not isinstance(loop, For) or loop.params or loop.step != 1:
        return (loop,)
    written = accesses((loop,)).writes
    parts = [s for s in loop.body if not repeatable(s, written)]
    splits = len(parts) > 1 and any(isinstance(s, For) for s in parts)
    plain = all(isinstance(s, Store) or (isinstance(s, For) and not s.params) for s in parts)
    if not splits or not plain or not independent(loop, loop.index):
        return (loop,)
    return tuple(fresh_statement(evolve(loop, body=_needed(loop.body, [part])), {}) for part in parts)


def _needed(body: Block, parts: Sequence[Statement] = (), wanted: Sequence[Operand] = ()) -> Block:
    """`parts`, and what computes `wanted`, with the statements before them that they use."""
    values, kept = {x for x in wanted if isinstance(x, Value)}, list[Statement]()
    for s in reversed(body):
        if s in parts or values.intersection(results_of(s)):
            values |= {x for inner in walk((s,)) for x in operands_of(inner) if isinstance(x, Value)}
            kept.append(s)
    return tuple(reversed(kept))


def apart(loop: Statement, dtypes: frozenset[str]) -> Block:
    """A reduction that also updates an array (a scatter with the check of its indices) as two loops, if all iterations
    of the one that updates can run at once, by atomic updates; other statements come back unchanged.
    """
    if not dtypes or not isinstance(loop, For) or loop.combine is None or scans(loop):
        return (loop,)
    written = accesses((loop,)).writes
    parts = [s for s in loop.body if not is_pure(s)]
    changing, folding = _needed(loop.body, parts), _needed(loop.body, wanted=loop.yields)
    reads = {a.buffer for s in walk(folding) for a in accesses_of(s)}
    used = {x for s in walk(changing) for x in operands_of(s) if isinstance(x, Value)}
    if not parts or reads & written or not used.isdisjoint(loop.params):
        return (loop,)
    plain = evolve(loop, body=changing, params=(), inits=(), yields=(), results=(), combine=None)
    changed = with_atomics(plain, dtypes)
    if not nest_of(changed).free:
        return (loop,)
    return fresh_statement(changed, {}), evolve(loop, body=folding)


_ORDER_FREE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})


def with_atomics(loop: For, dtypes: frozenset[str]) -> For:
    """`x[t] = op(x[t], v)` as an atomic update, for integer operations whose order cannot be seen,
    where that frees loops.
    """
    if not dtypes or not nest_of(loop).ordered:
        return loop
    uses = Counter(x for s in walk((loop,)) for x in operands_of(s) if isinstance(x, Value))
    touched = Counter(a.buffer for s in walk((loop,)) for a in accesses_of(s))

    def run(block: Block) -> Block:
        gone: set[Statement] = set()
        out: list[Statement] = []
        for n, s in enumerate(block):
            update = _update(block, n, uses, touched, dtypes) if isinstance(s, Store) else None
            if update is None:
                out.append(map_blocks(s, run))
                continue
            load, op, atomic = update
            gone |= {load, op}
            out.append(atomic)
        return tuple(s for s in out if s not in gone)

    changed = evolve(loop, body=run(loop.body))
    return changed if len(nest_of(changed).free) > len(nest_of(loop).free) else loop


def _update(
    block: Block, at: int, uses: Counter[Value], touched: Counter[Buffer], dtypes: frozenset[str]
) -> tuple[Load, Op, Atomic] | None:
    """The load, the operation, and what replaces them and the store at `at`;
    nothing else may touch the buffer or see the values.
    """
    store = block[at]
    assert isinstance(store, Store)
    op = next((s for s in block[:at] if isinstance(s, Op) and s.out is store.value), None)
    if op is None or op.op not in _ORDER_FREE or op.out.dtype not in dtypes or not is_integer(op.out.dtype):
        return None
    for load in block[:at]:
        if not isinstance(load, Load) or load.buffer is not store.buffer:
            continue
        same = load.index == store.index and load.out in op.args
        if same and touched[store.buffer] == 2 and uses[load.out] == 1 and uses[op.out] == 1:
            (other,) = (a for a in op.args if a is not load.out)
            return load, op, Atomic(op.op, store.buffer, store.index, other)
    return None
