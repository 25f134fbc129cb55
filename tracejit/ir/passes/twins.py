"""Reductions of one loop that are the same one, as merged loops have them, become one; and what is then computed twice
is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

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
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.rewrite import map_blocks, replace, substitute
from tracejit.support.nodes import evolve

__all__ = ["without_twins"]


def without_twins(kernel: Kernel) -> Kernel:
    """The kernel in which no loop folds the same elements in the same way twice; itself where none does."""
    stored = {a.buffer for s in walk(kernel.body) for a in accesses_of(s) if a.writes}
    folds = [s for s in walk(kernel.body) if isinstance(s, For) and s.combine is not None and len(s.params) > 1]
    if not any(_twins(s, stored) for s in folds):
        return kernel
    return kernel.with_body(_Once(stored).block(kernel.body, {}))


class _Once:
    """Statements of which equal ones are left out, with what stands for their results."""

    def __init__(self, stored: set[Buffer]) -> None:
        self.stored = stored
        self.same: dict[Value, Operand] = {}

    def block(self, body: Block, known: dict[Hashable, Value]) -> Block:
        """A block; known: what was computed before it, by `_key`."""
        known = dict(known)
        out: list[Statement] = []
        for s in body:
            s = substitute(s, self.same)
            key = _key(s, self.stored)
            if key is not None and isinstance(s, (Op, Load)):
                first = known.setdefault(key, s.out)
                if first is not s.out:
                    self.same[s.out] = first
                    continue
            if isinstance(s, For):
                s = self._fold(s)
            s = map_blocks(s, lambda inner: self.block(inner, known))
            out.append(substitute(s, self.same))
        return tuple(out)

    def _fold(self, s: For) -> For:
        while twins := _twins(s, self.stored):
            first, second = twins
            self.same[s.params[second]] = s.params[first]
            self.same[s.results[second]] = s.results[first]
            assert s.combine is not None
            n, c = len(s.params), s.combine
            same: dict[Value, Operand] = {c.params[second + k]: c.params[first + k] for k in (0, n)}
            ends = tuple([replace(r, same) for k, r in enumerate(c.results) if k != second])
            combine = Lambda(
                tuple([p for k, p in enumerate(c.params) if k % n != second]),
                _needed(tuple([substitute(x, same) for x in c.body]), ends),
                ends,
            )
            params, inits, yields, results = (
                tuple([x for k, x in enumerate(have) if k != second])
                for have in (s.params, s.inits, s.yields, s.results)
            )
            body = tuple([substitute(x, self.same) for x in s.body])
            yields = tuple([replace(y, self.same) for y in yields])
            s = evolve(
                s, params=params, inits=inits, yields=yields, results=results, combine=combine, body=body
            )  # fmt: skip
        return s


def _needed(body: Block, ends: tuple[Operand, ...]) -> Block:
    """The statements of a function that its results follow from."""
    wanted, out = set(ends), list[Statement]()
    for s in reversed(body):
        if not wanted.isdisjoint(results_of(s)):
            wanted.update(operands_of(s))
            out.append(s)
    return tuple(reversed(out))


def _twins(s: For, stored: set[Buffer]) -> tuple[int, int] | None:
    """Two carries of a loop that begin as the same, take the same and are combined in the same way."""
    if s.combine is None:
        return None
    n = len(s.params)
    for second in range(1, n):
        for first in range(second):
            if s.inits[first] != s.inits[second] or s.params[first].dtype != s.params[second].dtype:
                continue
            pairs = [(s.params[second], s.params[first])]
            over = [(s.combine.params[second + k], s.combine.params[first + k]) for k in (0, n)]
            if _equal(s.body, pairs, (s.yields[first], s.yields[second]), stored) and _equal(
                s.combine.body, over, (s.combine.results[first], s.combine.results[second]), stored
            ):
                return first, second
    return None


def _equal(
    body: Sequence[Statement], same: Iterable[tuple[Value, Value]], ends: tuple[Operand, Operand], stored: set[Buffer]
) -> bool:
    """Whether two values after the statements are equal, if those of the pairs are."""
    values: dict[Value, Operand] = dict(same)
    known: dict[Hashable, Value] = {}
    for s in body:
        key = _key(substitute(s, values), stored) if isinstance(s, (Op, Load)) else None
        if key is not None and isinstance(s, (Op, Load)):
            first = known.setdefault(key, s.out)
            if first is not s.out:
                values[s.out] = first
    a, b = (replace(x, values) for x in ends)
    return a == b


def _key(s: Statement, stored: set[Buffer]) -> Hashable | None:
    """By what equal statements are found; None of those that may differ each time."""
    if isinstance(s, Op):
        return s.op, s.out.dtype, s.args
    if isinstance(s, Load) and s.buffer not in stored:
        return s.buffer, s.index
    return None
