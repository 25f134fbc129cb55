"""Blocks without loops and branches: copies of them for several iterations, and what of one a value needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from tracejit.ir.kernel import Block, If, Load, Op, Operand, Statement, Store, Value, operands_of, results_of
from tracejit.ir.rewrite import replace
from tracejit.support.errors import InternalError
from tracejit.support.nodes import evolve

__all__ = ["Copies", "needed_for"]


def needed_for(wanted: Iterable[Operand], block: Block, known: Iterable[Value] = ()) -> Block:
    """The statements of a straight-line block that `wanted` are computed by; `known` need none."""
    missing, kept = {x for x in wanted if isinstance(x, Value)}.difference(known), list[Statement]()
    for s in reversed(block):
        if missing.intersection(results_of(s)):
            kept.append(s)
            missing |= {x for x in operands_of(s) if isinstance(x, Value)}.difference(known)
    return tuple(reversed(kept))


@define(eq=False)
class Copies:
    """Statements for several iterations, each value computed once."""

    out: list[Statement] = field(factory=list[Statement])
    known: dict[tuple[object, ...], Value] = field(factory=dict[tuple[object, ...], Value])

    def inner(self) -> Copies:
        return Copies([], dict(self.known))

    def add(self, block: Block, values: dict[Value, Operand], guard: Operand | None = None) -> None:
        """A copy of straight-line statements; `values` is what their operands stand for, and learns their results.
        guard: whether stores are done.
        """
        for s in block:
            match s:
                case Load():
                    index = tuple(replace(x, values) for x in s.index)
                    key: tuple[object, ...] = ("load", s.buffer, *index)
                    values[s.out] = self.once(key, s.out.dtype, lambda v, s=s, i=index: evolve(s, out=v, index=i))
                case Op():
                    args = tuple(replace(x, values) for x in s.args)
                    key = (s.op, s.out.dtype, *args)
                    values[s.out] = self.once(key, s.out.dtype, lambda v, s=s, a=args: evolve(s, out=v, args=a))
                case Store():
                    index = tuple(replace(x, values) for x in s.index)
                    store = evolve(s, index=index, value=replace(s.value, values))
                    self.out.append(store if guard is None else If(guard, (store,)))
                case _:
                    raise InternalError(f"a {type(s).__name__} in a tile")

    def once(self, key: tuple[object, ...], dtype: str, make: Callable[[Value], Statement]) -> Value:
        made = self.known.get(key)
        if made is None:
            made = self.known[key] = Value(dtype)
            self.out.append(make(made))
        return made
