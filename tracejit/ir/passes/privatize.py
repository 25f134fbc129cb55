"""Reductions down the columns of a large array, run along its rows: `for j: for k: acc += x[k, j]` visits one page after the other for a
few elements each.  Privatized, a block of columns has its accumulators in local memory and the rows are read in order:

    for block: alloc acc;  for j in block: acc[j] = init;  for k: for j in block: acc[j] += x[k, j];  for j in block: out[j] = acc[j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.ir.kernel import Alloc, Axis, Buffer, Const, For, If, Load, Op, Operand, Prefix, Store, Value, While, blocks, index_const
from tracejit.support.nodes import evolve

__all__ = ["can_privatize", "clone", "privatize"]


def clone(statements: Sequence[Any], rename: dict[Value, Operand]) -> tuple[Any, ...]:
    """The statements with new values for all they define; `rename` maps what comes from outside and collects the new values."""

    def get(x: Any) -> Any:
        return rename.get(x, x) if isinstance(x, Value) else x

    def many(xs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(get(x) for x in xs)

    def fresh(vs: Sequence[Value]) -> tuple[Value, ...]:
        made = tuple(Value(v.dtype) for v in vs)
        rename.update(zip(vs, made, strict=True))
        return made

    out: list[Any] = []
    for s in statements:
        match s:
            case Op():
                args = many(s.args)
                out.append(evolve(s, args=args, out=fresh((s.out,))[0]))
            case Load():
                index = many(s.index)
                out.append(evolve(s, index=index, out=fresh((s.out,))[0]))
            case Store():
                out.append(evolve(s, index=many(s.index), value=get(s.value)))
            case Prefix():
                params, elements = many(s.params), many(s.elements)
                out.append(evolve(s, params=params, elements=elements, outs=fresh(s.outs)))
            case For():
                lower, upper, inits = get(s.lower), get(s.upper), many(s.inits)
                (index,), params = fresh((s.index,)), fresh(s.params)
                body = clone(s.body, rename)
                out.append(
                    evolve(
                        s,
                        index=index,
                        lower=lower,
                        upper=upper,
                        inits=inits,
                        params=params,
                        body=body,
                        yields=many(s.yields),
                        results=fresh(s.results),
                    )
                )
            case While():
                inits, params = many(s.inits), fresh(s.params)
                condition = clone(s.condition, rename)
                test = get(s.test)
                body = clone(s.body, rename)
                out.append(
                    evolve(
                        s,
                        inits=inits,
                        params=params,
                        condition=condition,
                        test=test,
                        body=body,
                        yields=many(s.yields),
                        results=fresh(s.results),
                    )
                )
            case If():
                condition = get(s.condition)
                then, orelse = (clone(b, rename) for b in blocks(s))
                yields = many(s.then_yields), many(s.else_yields)
                out.append(
                    evolve(
                        s,
                        condition=condition,
                        then=then,
                        orelse=orelse,
                        then_yields=yields[0],
                        else_yields=yields[1],
                        results=fresh(s.results),
                    )
                )
            case _:
                out.append(s)
    return tuple(out)


def _parts(loop: For) -> tuple[tuple[Any, ...], For, tuple[Any, ...]] | None:
    """(statements before, the reduction, statements after) of a loop that holds exactly one reduction and scalar statements."""
    inner = [n for n, s in enumerate(loop.body) if not isinstance(s, (Op, Load, Store))]
    if len(inner) != 1 or not isinstance(loop.body[inner[0]], For):
        return None
    at = inner[0]
    return loop.body[:at], loop.body[at], loop.body[at + 1 :]


def can_privatize(loop: For) -> bool:
    """Whether a carry-free loop over columns holds one reduction whose range does not depend on the column."""
    parts = _parts(loop)
    if parts is None or loop.params or not isinstance(loop.lower, Const) or not isinstance(loop.upper, Const):
        return False
    before, reduction, _ = parts
    if reduction.combine is None or any(isinstance(s, (Prefix, For, While, If)) for s in reduction.body):
        return False
    made = {s.out for s in before if isinstance(s, (Op, Load))} | {loop.index}
    return not any(isinstance(s, Store) for s in before) and not any(b in made for b in (reduction.lower, reduction.upper))


def privatize(loop: For, block: int, outer: Axis, inner: Axis) -> For:
    """The loop in blocks of columns with local accumulators; `can_privatize(loop)` holds."""
    parts = _parts(loop)
    assert parts is not None and isinstance(loop.lower, Const) and isinstance(loop.upper, Const)
    before, reduction, after = parts
    number, start, span, stop, offset = (Value("i64") for _ in range(5))
    head: list[Any] = [
        Op(offset, "mul", (number, index_const(block))),
        Op(start, "add", (offset, loop.lower)),
        Op(span, "add", (start, index_const(block))),
        Op(stop, "min", (span, loop.upper)),
    ]
    accumulators = [Buffer(f"acc{reduction.index.id}_{n}", p.dtype, (block,), space="local") for n, p in enumerate(reduction.params)]
    head += [Alloc(b) for b in accumulators]

    def columns(make: Any) -> For:
        index, place = Value("i64"), Value("i64")
        body: list[Any] = [Op(place, "sub", (index, start))]
        body += make(index, place)
        return For(index, start, stop, tuple(body), inner)

    def fill(index: Value, place: Value) -> list[Any]:
        return [Store(b, (place,), i) for b, i in zip(accumulators, reduction.inits, strict=True)]

    row = Value("i64")

    def fold(index: Value, place: Value) -> list[Any]:
        rename: dict[Value, Operand] = {loop.index: index, reduction.index: row}
        out = list(clone(before, rename))
        for p, b in zip(reduction.params, accumulators, strict=True):
            held = Value(p.dtype)
            out.append(Load(held, b, (place,)))
            rename[p] = held
        out += clone(reduction.body, rename)
        out += [
            Store(b, (place,), rename.get(y, y) if isinstance(y, Value) else y) for b, y in zip(accumulators, reduction.yields, strict=True)
        ]
        return out

    def finish(index: Value, place: Value) -> list[Any]:
        rename: dict[Value, Operand] = {loop.index: index}
        out = list(clone(before, rename))
        for r, b in zip(reduction.results, accumulators, strict=True):
            held = Value(r.dtype)
            out.append(Load(held, b, (place,)))
            rename[r] = held
        return [*out, *clone(after, rename)]

    rows = For(row, reduction.lower, reduction.upper, (columns(fold),))
    count = index_const((loop.upper.value - loop.lower.value + (block - 1)) // block)
    return For(number, index_const(0), count, (*head, columns(fill), rows, columns(finish)), outer)
