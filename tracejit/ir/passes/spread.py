"""A loop that adds integers to places which data say (a histogram), shared out among threads: each task has a table of
its own, and the tables are added up.

    alloc table[tasks, ..]
    for task, parallel:  fill table[task] with zeros;  for i in its part:  table[task, place] += v
    for j, lanes:  out[j] += table[0, j] + table[1, j] + ...

Floating-point numbers are added one by one, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracejit.ir.extents import Extent
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    If,
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
    is_opaque,
    operands_of,
    walk,
)
from tracejit.ir.rewrite import fresh_lambda, inline, map_accesses, map_blocks
from tracejit.support.nodes import evolve

__all__ = ["spread", "table_of"]

ZERO = index_const(0)


def table_of(loop: For) -> Buffer | None:
    """The integers that a loop adds to, if it writes nothing else and may run in parts; None of another loop."""
    if loop.step != 1 or loop.lower != ZERO or not isinstance(loop.upper, Const) or loop.axis != SERIAL:
        return None
    inside = list(walk(loop.body))
    if any(is_opaque(s) or allocated_by(s) or isinstance(s, Prefix) for s in inside):
        return None
    written = {a.buffer for s in inside for a in accesses_of(s) if a.writes}
    if len(written) != 1 or (loop.params and _combined(loop) is None):
        return None
    (table,) = written
    if table.dtype[0] not in "iu" or not all(isinstance(n, int) for n in table.shape) or not table.shape:
        return None
    uses: dict[Value, int] = {}
    for s in inside:
        for a in operands_of(s):
            if isinstance(a, Value):
                uses[a] = uses.get(a, 0) + 1
    accesses = sum(1 for s in inside for a in accesses_of(s) if a.buffer is table)
    return table if accesses and 2 * sum(_additions(loop.body, table, uses)) == accesses else None


def _additions(block: Block, table: Buffer, uses: dict[Value, int]) -> Iterator[int]:
    """For each element of the table that is read, added to and stored at once: 1."""
    for n, s in enumerate(block):
        if isinstance(s, Store) and s.buffer is table and isinstance(s.value, Value):
            add = next((x for x in block[:n] if isinstance(x, Op) and x.out is s.value), None)
            if add is not None and add.op == "add" and uses.get(add.out) == 1:
                for x in block[:n]:
                    if isinstance(x, Load) and x.buffer is table and x.index == s.index and uses.get(x.out) == 1:
                        yield sum(a is x.out for a in add.args)
        if isinstance(s, (If, For)):
            for inner in (s.then, s.orelse) if isinstance(s, If) else (s.body,):
                yield from _additions(inner, table, uses)


def _combined(loop: For) -> Lambda | None:
    """How what the parts of a loop carry is joined: as it says, or the first failure where that is all it carries."""
    if loop.combine is not None:
        return loop.combine
    if len(loop.params) != 1 or loop.inits != (Const(0, "i64"),) or not _keeps_first(loop):
        return None
    a, b, there, found = Value("i64"), Value("i64"), Value("bool"), Value("i64")
    body = (Op(there, "ne", (a, Const(0, "i64"))), Op(found, "select", (there, a, b)))
    return Lambda((a, b), body, (found,))


def _keeps_first(loop: For) -> bool:
    """Whether a number that a loop carries stays what it is from when on it is not 0, and decides nothing else."""
    (carry,) = loop.params
    after: set[Value] = {carry}  # what follows from it
    kept: set[Operand] = {carry}  # what is it, where it is not 0
    there: dict[Value, Operand] = {}  # tests of what is kept

    def run(block: Block) -> bool:
        for s in block:
            if isinstance(s, If):
                if not (run(s.then) and run(s.orelse)):
                    return False
                for r, a, b in zip(s.results, s.then_yields, s.else_yields, strict=True):
                    if not {a, b}.isdisjoint(after):
                        after.add(r)
                    if a in kept and b in kept:
                        kept.add(r)
                if s.condition in after:
                    return False
                continue
            if after.isdisjoint(operands_of(s)):
                continue
            if not isinstance(s, Op):
                return False
            after.add(s.out)
            if s.op == "ne" and s.args[0] in kept and s.args[1] == Const(0, "i64"):
                there[s.out] = s.args[0]
            elif s.op == "select" and isinstance(s.args[0], Value) and there.get(s.args[0]) is s.args[1]:
                kept.add(s.out)
        return True

    return run(loop.body) and loop.yields[0] in kept


def spread(loop: For, table: Buffer, grain: int, lanes: Axis) -> Block:
    """The loop with a table for each `grain` iterations; `table_of` has given the table."""
    assert isinstance(loop.upper, Const)
    count: Extent = loop.upper.value
    tasks: Extent = (count + (grain - 1)) // grain
    own = Buffer(f"table{loop.index.id}", table.dtype, (tasks, *table.shape), space="local")
    combine = _combined(loop)
    task, low, end, high = (Value("i64") for _ in range(4))
    params = tuple([Value(p.dtype) for p in loop.params])
    results = tuple([Value(p.dtype) for p in loop.params])

    def moved(buffer: Buffer, index: tuple[Operand, ...] | None) -> tuple[Buffer, tuple[Operand, ...] | None]:
        return (own, (task, *(index or ()))) if buffer is table else (buffer, index)

    def in_own(block: Block) -> Block:
        return tuple([map_blocks(map_accesses(s, moved), in_own) for s in block])

    part = evolve(loop, lower=low, upper=high, body=in_own(loop.body), results=results)
    joined: Block = ()
    yields: tuple[Operand, ...] = ()
    if combine is not None:
        joined, yields = inline(combine, (*params, *results))
    body: Block = (
        Op(low, "mul", (task, index_const(grain))),
        Op(end, "add", (low, index_const(grain))),
        Op(high, "min", (end, loop.upper)),
        _each(table, lanes, lambda at: (Store(own, (task, *at), Const(0, table.dtype)),)),
        part,
        *joined,
    )
    shared = For(
        task, ZERO, index_const(tasks), body, Axis("parallel", factor=1), params, loop.inits, yields, loop.results,
        None if combine is None else fresh_lambda(combine)
    )  # fmt: skip

    def total(at: tuple[Operand, ...]) -> Block:
        t, carry, held, more, whole, before, after = (
            Value("i64"), *(Value(table.dtype) for _ in range(6))
        )  # fmt: skip
        add = Op(more, "add", (carry, held))
        fold = For(
            t, ZERO, index_const(tasks), (Load(held, own, (t, *at)), add), SERIAL, (carry,),
            (Const(0, table.dtype),), (more,), (whole,), _sum(table.dtype)
        )  # fmt: skip
        return (fold, Load(before, table, at), Op(after, "add", (before, whole)), Store(table, at, after))

    return (Alloc(own), shared, _each(table, lanes, total))


def _each(table: Buffer, lanes: Axis, make: Callable[[tuple[Operand, ...]], Block]) -> Statement:
    """Loops over the places of a table, the last one in lanes."""
    indices = [Value("i64") for _ in table.shape]
    body: Block = make(tuple(indices))
    for k in range(len(indices) - 1, -1, -1):
        axis = lanes if k == len(indices) - 1 else SERIAL
        body = (For(indices[k], ZERO, index_const(table.shape[k]), body, axis),)
    return body[0]


def _sum(dtype: str) -> Lambda:
    a, b, c = (Value(dtype) for _ in range(3))
    return Lambda((a, b), (Op(c, "add", (a, b)),), (c,))
