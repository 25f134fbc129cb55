"""What hardly ever happens, out of the way: in a loop over scalars the failures of a program are noted in branches.

A program keeps the first failure: `total = select(total != 0, total, select(outside, mark, 0))`.  Where whole arrays
are computed that is one more operation among many; between two steps of a loop over scalars it would be most of the
work.  There it becomes `if outside { select(...) } else { total }`, and what only one side of a branch reads is
computed there.  So are indices from the end, and those that are out of range: what is loaded or stored there counts for
nothing, but must not fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tracejit.ir.extents import same_extent
from tracejit.ir.kernel import (
    SERIAL,
    Block,
    Const,
    For,
    If,
    Kernel,
    Op,
    Operand,
    Statement,
    Value,
    blocks,
    operands_of,
    walk,
)
from tracejit.ir.rewrite import fresh_copy, map_blocks
from tracejit.support.nodes import evolve

__all__ = ["failures_in_branches", "sink"]


def failures_in_branches(kernel: Kernel) -> Kernel:
    """The kernel with failures noted in branches."""
    uses = Counter(x for s in walk(kernel.body) for x in operands_of(s))
    body = _noted(_placed(kernel.body), uses)
    return kernel if body is kernel.body else kernel.with_body(sink(body))


def _placed(block: Block) -> Block:
    """The block with checked indices in branches where they are not between 0 and the size."""
    made: dict[Value, Op] = {s.out: s for s in block if isinstance(s, Op)}
    instead: dict[Value, tuple[Statement, ...]] = {}  # of the operations that define values
    for s in made.values():
        if s.op == "ge" and s.args[0].dtype == "u64" and s.out not in instead:
            parts, kept = _index(s, made)
            if kept and instead.keys().isdisjoint(kept):
                first = next(x for x in made if x in kept)
                instead |= dict.fromkeys(kept, ())
                instead[first] = _branch(parts, kept, s)
    out: list[Statement] = []
    for s in block:
        if isinstance(s, Op):
            out += instead.get(s.out, (s,))
        else:
            out.append(s if isinstance(s, For) and s.axis != SERIAL else map_blocks(s, _placed))
    return tuple(out)


def _index(check: Op, made: Mapping[Value, Op]) -> tuple[list[Op], list[Value]]:
    """(operations, what is read of them) of the index that is checked: from the end if it is negative, then limited."""
    given, size = check.args
    number = made.get(given) if isinstance(given, Value) else None
    if number is None or number.op != "convert" or not isinstance(size, Const):
        return [], []
    index = number.args[0]
    limits = [s for s in made.values() if s.op == "min" and s.args[0] is index and _is_last(s.args[1], size)]
    if len(limits) != 1:
        return [], []
    parts = [number, check, *limits]
    kept = [check.out, limits[0].out]
    for s in made.values():
        if s.op == "max" and s.args[0] is limits[0].out and _is_zero(s.args[1]):
            parts.append(s)
            kept.append(s.out)
    wrapped = made.get(index) if isinstance(index, Value) else None
    if wrapped is not None and wrapped.op == "select":
        test, moved = (made.get(x) if isinstance(x, Value) else None for x in wrapped.args[:2])
        x = wrapped.args[2]
        if test is not None and moved is not None and test.op == "lt" and test.args[0] is x and _is_zero(test.args[1]):
            return [test, moved, wrapped, *parts], [wrapped.out, *kept]
    return parts, kept


def _branch(parts: Sequence[Op], kept: Sequence[Value], check: Op) -> tuple[Statement, ...]:
    """The operations of an index, computed only if that is not between 0 and the size."""
    index = parts[0].args[0]
    number, far = Value("u64"), Value("bool")
    values: dict[Value, Operand] = {}
    then = fresh_copy(tuple(parts), values)
    return (
        Op(number, "convert", (index,)),
        Op(far, "ge", (number, check.args[1])),
        If(
            far,
            then,
            (),
            tuple([values[x] for x in kept]),
            tuple([Const(False, "bool") if x is check.out else index for x in kept]),
            tuple(kept),
            rare=1,
        ),
    )


def _is_last(x: Operand, size: Const) -> bool:
    return isinstance(x, Const) and same_extent(x.value + 1, size.value)


def _noted(block: Block, uses: Counter[Operand]) -> Block:
    made: dict[Value, Op] = {s.out: s for s in block if isinstance(s, Op)}
    out: list[Statement] = []
    for s in block:
        found = _first_failure(s, made, uses)
        if found is not None:
            outside, before, mark = found
            assert isinstance(s, Op)
            kept = Value(s.out.dtype)
            then = evolve(s, out=kept, args=(s.args[0], before, mark))
            out.append(If(outside, (then,), (), (kept,), (before,), (s.out,), rare=1))
        else:
            out.append(map_blocks(s, lambda inner: _noted(inner, uses)))
    return tuple(out) if any(a is not b for a, b in zip(out, block, strict=True)) else block


def _first_failure(
    s: Statement, made: dict[Value, Op], uses: Counter[Operand]
) -> tuple[Operand, Operand, Operand] | None:
    """(condition, the failure before, that of the condition) of a statement that keeps the first of two."""
    if not isinstance(s, Op) or s.op != "select" or s.out.dtype != "i64":
        return None
    there, before, found = s.args
    other = made.get(found) if isinstance(found, Value) else None
    if other is None or other.op != "select" or uses[found] != 1 or not _is_zero(other.args[2]):
        return None
    test = made.get(there) if isinstance(there, Value) else None
    if test is None or test.op != "ne" or test.args[0] is not before or not _is_zero(test.args[1]):
        return None
    return other.args[0], before, other.args[1]


def _is_zero(x: Operand) -> bool:
    return isinstance(x, Const) and x.dtype == "i64" and isinstance(x.value, int) and x.value == 0


Place = tuple[int, int]  # a branch among the statements of a block, and which of its sides; (-1, 0) for any other place
_HERE: Place = (-1, 0)


def sink(body: Block, last: Iterable[Operand] = ()) -> Block:
    """The block with operations that only one side of a branch reads on that side.  last: what is read at its end."""
    places: dict[Operand, set[Place]] = {}
    sunk: dict[Place, list[Statement]] = {}
    kept: list[tuple[int, Statement]] = []

    def read(operands: Iterable[Operand], place: Place) -> None:
        for x in operands:
            if isinstance(x, Value):
                places.setdefault(x, set()).add(place)

    read(last, _HERE)
    for n in range(len(body) - 1, -1, -1):
        s = body[n]
        if isinstance(s, Op):
            where = places.get(s.out)
            if where is None:
                continue
            (place,) = where if len(where) == 1 else (_HERE,)
            if place != _HERE:
                sunk.setdefault(place, []).append(s)
                read(s.args, place)
                continue
            read(s.args, _HERE)
        elif isinstance(s, If):
            read((s.condition,), _HERE)
            for side, (block, yields) in enumerate(((s.then, s.then_yields), (s.orelse, s.else_yields))):
                read(_read_in(block), (n, side))
                read(yields, (n, side))
        else:
            read(operands_of(s), _HERE)
            for block in blocks(s):
                read(_read_in(block), _HERE)
        kept.append((n, s))
    return tuple([_nested(s, sunk.get((n, 0), ()), sunk.get((n, 1), ())) for n, s in reversed(kept)])


def _nested(s: Statement, then: Sequence[Statement], orelse: Sequence[Statement]) -> Statement:
    """A statement with its blocks done; then, orelse: what comes to those of a branch, from the last on."""
    if isinstance(s, If):
        a = sink((*reversed(then), *s.then), s.then_yields)
        b = sink((*reversed(orelse), *s.orelse), s.else_yields)
        return evolve(s, then=a, orelse=b)
    if not blocks(s):
        return s
    # what is read at the ends of its blocks is among its operands; later blocks may see what earlier ones define
    several = len(blocks(s)) > 1
    every = [*operands_of(s), *[x for block in blocks(s) for x in _read_in(block) if several]]
    return map_blocks(s, lambda block: sink(block, every))


def _read_in(block: Block) -> list[Operand]:
    return [x for s in walk(block) for x in operands_of(s)]
