"""Which loops must run one iteration after the other, because an iteration may touch what another one writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tracejit.ir.extents import evaluate
from tracejit.ir.kernel import (
    Alloc,
    Atomic,
    Buffer,
    Const,
    For,
    If,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    blocks,
    results_of,
    walk,
)

__all__ = ["depends_on_order"]

Access: TypeAlias = "Load | Store | Atomic"
Linear: TypeAlias = "dict[Value | None, int]"


def depends_on_order(loop: For, place: Callable[[Buffer], tuple[int, bool]], dims: Mapping[str, int]) -> bool:
    """Whether running the iterations of `loop` in step with each other may differ from running them in order.

    place(buffer): a number of the memory that a buffer lies in, and whether no other view of that memory is in use.
    Iterations are apart where some axis of every access to a written memory has one index: linear in the loop's index,
    the rest unchanged by the loop.  A lone store directly in the body needs no proof: the store itself resolves
    repeated targets.
    """
    own = {id(s.buffer) for s in walk(loop.body) if isinstance(s, Alloc)}
    groups: dict[int, list[Access]] = {}
    shared: set[int] = set()
    for s in walk(loop.body):
        if isinstance(s, Load | Store | Atomic) and id(s.buffer) not in own:
            number, alone = place(s.buffer)
            groups.setdefault(number, []).append(s)
            if not alone:
                shared.add(number)
    suspects = {n: group for n, group in groups.items() if _needs_proof(group, loop)}
    if not suspects:
        return False
    if shared & set(suspects):
        return True
    forms = _LinearForms(loop, dims)
    return not all(_apart(group, loop.index, forms) for group in suspects.values())


def _needs_proof(group: Sequence[Access], loop: For) -> bool:
    if all(isinstance(s, Load) for s in group):
        return False
    if all(isinstance(s, Atomic) for s in group):
        return len({s.op for s in group if isinstance(s, Atomic)}) > 1
    return len(group) > 1 or not _runs_once(group[0], loop.body)


def _runs_once(statement: Access, body: Iterable[Statement]) -> bool:
    """Whether a statement is in the body itself or under its branches, not in a further loop."""
    work = list(body)
    while work:
        s = work.pop()
        if s is statement:
            return True
        if isinstance(s, If):
            for block in blocks(s):
                work += block
    return False


def _apart(group: Sequence[Access], index: Value, forms: _LinearForms) -> bool:
    for axis in range(len(group[0].index)):
        first = forms.of(group[0].index[axis])
        fixed = all(v is None or v is index or v not in forms.inside for v in first)
        if first.get(index) and fixed and all(forms.of(s.index[axis]) == first for s in group):
            return True
    return False


class _LinearForms:
    """Index operands as sums of coefficient * value plus the constant under None."""

    def __init__(self, loop: For, dims: Mapping[str, int]) -> None:
        self.dims = dims
        self.inside: set[Value] = {loop.index, *loop.params}
        self.forms: dict[Value, Linear] = {}
        for s in walk(loop.body):
            self.inside.update(results_of(s))
            if isinstance(s, For):
                self.inside.add(s.index)
            self.inside.update(getattr(s, "params", ()))
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
