"""Which loops must run one iteration after the other, because an iteration may touch what another one writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from tracejit.ir.extents import evaluate
from tracejit.ir.kernel import (
    Access,
    Buffer,
    Const,
    For,
    If,
    Op,
    Operand,
    Statement,
    Value,
    accesses_of,
    allocated_by,
    blocks,
    bound_in,
    results_of,
    walk,
)

__all__ = ["depends_on_order"]

Linear: TypeAlias = "dict[Value | None, int]"


def depends_on_order(loop: For, place: Callable[[Buffer], tuple[int, bool]], dims: Mapping[str, int]) -> bool:
    """Whether running the iterations of `loop` in step with each other may differ from running them in order.

    place(buffer): a number of the memory that a buffer lies in, and whether no other view of that memory is in use.
    Iterations are apart where some axis of every access to a written memory has one index: linear in the loop's index,
    the rest unchanged by the loop.  A lone store directly in the body needs no proof: the store itself resolves
    repeated targets.
    """
    own = {id(b) for s in walk(loop.body) for b in allocated_by(s)}
    groups: dict[int, list[Access]] = {}
    shared: set[int] = set()
    once = set(_once(loop.body))
    several: set[int] = set()  # what may be touched more than once in an iteration
    for s in walk(loop.body):
        for access in accesses_of(s):
            if id(access.buffer) in own:
                continue
            number, alone = place(access.buffer)
            groups.setdefault(number, []).append(access)
            if not alone:
                shared.add(number)
            if s not in once:
                several.add(number)
    suspects = {n: group for n, group in groups.items() if _needs_proof(group, n in several)}
    if not suspects:
        return False
    if shared & set(suspects):
        return True
    forms = _LinearForms(loop, dims)
    return not all(_apart(group, loop.index, forms) for group in suspects.values())


def _needs_proof(group: Sequence[Access], several: bool) -> bool:
    if not any(a.writes for a in group):
        return False
    if all(a.atomic for a in group):
        return len({a.atomic for a in group}) > 1
    return len(group) > 1 or several or group[0].reads or group[0].index is None


def _once(body: Iterable[Statement]) -> Iterator[Statement]:
    """The statements of a body and of its branches, not those of further loops."""
    for s in body:
        yield s
        if isinstance(s, If):
            for block in blocks(s):
                yield from _once(block)


def _apart(group: Sequence[Access], index: Value, forms: _LinearForms) -> bool:
    places = [a.index for a in group if a.index is not None]
    if len(places) < len(group):
        return False
    for axis in zip(*places, strict=True):
        first = forms.of(axis[0])
        fixed = all(v is None or v is index or v not in forms.inside for v in first)
        if first.get(index) and fixed and all(forms.of(i) == first for i in axis):
            return True
    return False


class _LinearForms:
    """Index operands as sums of coefficient * value plus the constant under None."""

    def __init__(self, loop: For, dims: Mapping[str, int]) -> None:
        self.dims = dims
        self.inside: set[Value] = {loop.index, *loop.params}
        self.forms: dict[Value, Linear] = {}
        for s in walk(loop.body):
            self.inside.update((*results_of(s), *bound_in(s)))
            if isinstance(s, Op) and s.out.dtype == "i64" and s.op in ("add", "sub", "mul"):
                form = self._combine(s.op, *map(self.of, s.args))
                if form is not None:
                    self.forms[s.out] = form

    def of(self, operand: Operand) -> Linear:
        if isinstance(operand, Const):
            return {None: evaluate(operand.value, self.dims)}
        return self.forms.get(operand) or {operand: 1}

    @staticmethod
    def _combine(op: str, a: Linear, b: Linear) -> Linear | None:
        if op == "mul":
            if set(a) <= {None}:
                a, b = b, a
            if not set(b) <= {None}:
                return None
            factor = b.get(None, 0)
            return {v: c * factor for v, c in a.items() if c * factor}
        sign = -1 if op == "sub" else 1
        total = dict(a)
        for v, c in b.items():
            total[v] = total.get(v, 0) + sign * c
        return {v: c for v, c in total.items() if c}
