"""Which loops of a nest may run in any order: every iteration touches memory of its own.

A loop index i is independent when every buffer written in the nest has an axis at which all its accesses have one and
the same index expression, linear in i with a coefficient that is not zero, whose other terms do not change inside the
nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tracejit.ir.extents import DimDependent, Extent
from tracejit.ir.kernel import (
    Access,
    Buffer,
    Const,
    For,
    Op,
    Operand,
    Prefix,
    Statement,
    Value,
    accesses_of,
    allocated_by,
    bound_in,
    is_opaque,
    results_of,
    walk,
)
from tracejit.support.nodes import frozen

__all__ = ["Accesses", "Linear", "accesses", "can_run_in_step", "defined_in", "independent", "linear"]

Linear: TypeAlias = "dict[Value | None, Extent]"  # a sum of coefficient * value, the constant under None


@frozen
class Accesses:
    """The buffers that statements read and write (those they allocate themselves left out),
    and whether they may do anything else.
    """

    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    opaque: bool

    @property
    def pure(self) -> bool:
        return not self.writes and not self.opaque


def accesses(body: Sequence[Statement]) -> Accesses:
    """What a block does to memory that outlives it."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    own: set[Buffer] = set()
    opaque = False
    for s in walk(tuple(body)):
        for access in accesses_of(s):
            if access.reads:
                reads.add(access.buffer)
            if access.writes:
                writes.add(access.buffer)
        own.update(allocated_by(s))
        opaque = opaque or (is_opaque(s) and not isinstance(s, Prefix))  # a prefix does nothing outside of its loop
    return Accesses(frozenset(reads - own), frozenset(writes - own), opaque)


def defined_in(body: Sequence[Statement]) -> dict[Value, Statement]:
    """Every value that a block or a block nested in it defines, with its statement."""
    found: dict[Value, Statement] = {}
    for s in walk(tuple(body)):
        found.update(dict.fromkeys((*results_of(s), *bound_in(s)), s))
    return found


def linear(x: Operand, defined: dict[Value, Statement]) -> Linear:
    """`x` as a sum of coefficient * value; the constant under None.  A value that is no sum stands for itself."""
    found: dict[Operand, Linear] = {}
    stack = [x]
    while stack:  # each value once, after its operands
        top = stack[-1]
        s = None if isinstance(top, Const) else defined.get(top)
        if top in found:
            stack.pop()
        elif isinstance(s, Op) and s.op in _LINEAR and s.out.dtype == "i64":
            missing = [a for a in s.args if a not in found]
            stack += missing
            if not missing:
                found[top] = _sum(s, [found[a] for a in s.args])
        else:
            found[top] = {None: top.value} if isinstance(top, Const) else {top: 1}
    return found[x]


_LINEAR = ("add", "sub", "mul", "neg")


def _sum(s: Op, parts: Sequence[Linear]) -> Linear:
    """An operation of `_LINEAR` on sums."""
    match s.op:
        case "neg":
            return {v: -c for v, c in parts[0].items()}
        case "mul":
            constant = next((p for p in parts if set(p) <= {None}), None)
            if constant is None:
                return {s.out: 1}
            other = parts[0] if constant is parts[1] else parts[1]
            factor = constant.get(None, 0)
            return {v: c * factor for v, c in other.items()}
        case _:
            total = dict(parts[0])
            sign = -1 if s.op == "sub" else 1
            for v, c in parts[1].items():
                total[v] = total.get(v, 0) + c * sign
            return total


def _same(a: Linear, b: Linear) -> bool:
    return {v: str(c) for v, c in a.items() if str(c) != "0"} == {v: str(c) for v, c in b.items() if str(c) != "0"}


def _nonzero(coefficient: Extent) -> bool:
    try:
        return bool(coefficient != 0)
    except DimDependent:
        return False


def independent(nest: For, index: Value) -> bool:
    """Whether iterations of `nest` (a For, perhaps of further loops)
    that differ in `index` never touch the same written element.
    """
    touched = accesses((nest,))
    if touched.opaque:
        return False
    found: dict[Buffer, list[Access]] = {buffer: [] for buffer in touched.writes}
    for s in walk((nest,)):
        for access in accesses_of(s):
            if access.buffer in found:
                found[access.buffer].append(access)
    left = [group for group in found.values() if not _plainly_separate(group, index)]
    if not left:
        return True
    defined = defined_in((nest,))
    return all(_separate(group, index, defined) for group in left)


def can_run_in_step(loop: For) -> bool:
    """Whether the statements of a loop without carries may be run for all its iterations one after the other."""
    return independent(loop, loop.index) and not any(allocated_by(s) for s in walk(loop.body))


def _plainly_separate(found: Sequence[Access], index: Value) -> bool:
    """Whether all of a buffer's accesses are atomic, or have the index itself at one axis."""
    if all(a.atomic for a in found):
        return True
    places = [a.index for a in found if a.index is not None]
    return len(places) == len(found) and any(all(i is index for i in axis) for axis in zip(*places, strict=True))


def _separate(found: Sequence[Access], index: Value, defined: dict[Value, Statement]) -> bool:
    places = [a.index for a in found if a.index is not None]
    return len(places) == len(found) and any(
        _axis_separates([linear(i, defined) for i in axis], index, defined) for axis in zip(*places, strict=True)
    )


def _axis_separates(forms: list[Linear], index: Value, defined: dict[Value, Statement]) -> bool:
    first = forms[0]
    others = [v for v, c in first.items() if v is not None and v is not index and str(c) != "0"]
    if not _nonzero(first.get(index, 0)) or any(v in defined for v in others):
        return False
    return all(_same(first, form) for form in forms[1:])
