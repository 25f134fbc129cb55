"""A loop as consecutive loops between the places where conditions on its index change:
inside of each the conditions are gone.

The interior of `roll`, `pad` and `concatenate` then runs without branches or masks.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.builder import fold_constants, fold_index
from tracejit.ir.extents import Extent, same_extent, surely_at_most
from tracejit.ir.kernel import (
    Block,
    Const,
    For,
    If,
    Op,
    Operand,
    Statement,
    Value,
    allocated_by,
    index_const,
    walk,
)
from tracejit.ir.ranges import IndexRanges
from tracejit.ir.rewrite import fresh_statement, replace
from tracejit.support.nodes import evolve

__all__ = ["can_cut", "cut"]

MOST_POINTS = 4
MOST_STATEMENTS = 400  # of all pieces together


def can_cut(loop: For) -> bool:
    """Whether `cut` has something to do: conditional blocks, places where conditions change,
    and nothing carried between the pieces.
    """
    if loop.step != 1 or loop.params or not (isinstance(loop.lower, Const) and isinstance(loop.upper, Const)):
        return False
    inside = list(walk(loop.body))
    if not any(isinstance(s, If) for s in inside) or any(allocated_by(s) for s in inside):
        return False
    points = _points(loop, inside)
    return bool(points) and (len(points) + 1) * len(inside) <= MOST_STATEMENTS


def cut(loop: For, names: dict[Value, str]) -> list[Statement]:
    """The pieces, in order, without what cannot happen in them: loops, and the statements of a single iteration.

    `names` gets the names of copied loops: those of the loops they were copied from.
    """
    points = _points(loop, list(walk(loop.body)))
    pieces: list[Statement] = []
    for lower, upper in zip(
        (loop.lower, *map(index_const, points)), (*map(index_const, points), loop.upper), strict=True
    ):
        copier = _Copier(names)
        assert isinstance(lower, Const)
        assert isinstance(upper, Const)
        if same_extent(upper.value, lower.value + 1):
            copier.values[loop.index] = lower
            pieces += copier.block(loop.body)
        else:
            pieces.append(copier.loop(evolve(loop, lower=lower, upper=upper)))
    return pieces


def _points(loop: For, inside: Sequence[Statement]) -> list[Extent]:
    """Where between its bounds a comparison of the index with a constant changes its answer;
    [] if there are too many.
    """
    offset: dict[Operand, Extent] = {loop.index: 0}  # values that are the index and a constant
    found: list[Extent] = []
    for s in inside:
        if not isinstance(s, Op) or len(s.args) != 2:
            continue
        a, b = s.args
        if s.op in ("add", "sub") and a in offset and isinstance(b, Const):
            offset[s.out] = offset[a] + b.value if s.op == "add" else offset[a] - b.value
        elif s.op == "add" and b in offset and isinstance(a, Const):
            offset[s.out] = offset[b] + a.value
        elif s.op in _AFTER and a in offset and isinstance(b, Const):
            found += [b.value - offset[a] + k for k in _AFTER[s.op]]
        elif s.op in _AFTER and b in offset and isinstance(a, Const):
            found += [a.value - offset[b] + k for k in _AFTER[_TURNED[s.op]]]
    points: list[Extent] = []
    assert isinstance(loop.lower, Const)
    assert isinstance(loop.upper, Const)
    for p in found:
        if not (surely_at_most(loop.lower.value + 1, p) and surely_at_most(p + 1, loop.upper.value)):
            continue
        place = sum(surely_at_most(q, p) for q in points)
        if any(not surely_at_most(p, q) for q in points[place:]):
            return []  # of two symbolic places nobody knows which comes first
        if place == 0 or not surely_at_most(p, points[place - 1]):
            points.insert(place, p)
    return points if len(points) <= MOST_POINTS else []


# i op c: where the answer changes, from c on
_AFTER = {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,), "eq": (0, 1), "ne": (0, 1)}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


class _Copier:
    """Copies statements with values of their own, and folds what the ranges of indices decide."""

    def __init__(self, names: dict[Value, str]) -> None:
        self.names = names
        self.values: dict[Value, Operand] = {}
        self.ranges = IndexRanges()

    def block(self, body: Block) -> Block:
        return tuple([made for s in body for made in self.statement(s)])

    def statement(self, s: Statement) -> Block:
        match s:
            case Op():
                return self.op(s)
            case For():
                return (self.loop(s),)
            case If() if isinstance(condition := replace(s.condition, self.values), Const):
                taken, yields = (s.then, s.then_yields) if condition.value else (s.orelse, s.else_yields)
                body = self.block(taken)
                self.values.update(zip(s.results, [replace(y, self.values) for y in yields], strict=True))
                return body
            case _:
                return (fresh_statement(s, self.values, self.block),)

    def op(self, s: Op) -> Block:
        made = fresh_statement(s, self.values)
        folded = (
            fold_index(s.op, made.args)
            or self.ranges.fold(s.op, made.args)
            or fold_constants(s.op, made.args, s.out.dtype)
            or self.ranges.computed(made.out, s.op, made.args)
        )
        if folded is None:
            return (made,)
        self.values[s.out] = folded
        return ()

    def loop(self, s: For) -> For:
        def body(block: Block) -> Block:
            index = self.values[s.index]
            assert isinstance(index, Value)
            self.ranges.bind(index, replace(s.lower, self.values), replace(s.upper, self.values))
            self.names[index] = self.names[s.index]
            return self.block(block)

        return fresh_statement(s, self.values, body)
