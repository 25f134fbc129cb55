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
    Alloc,
    Atomic,
    Barrier,
    Buffer,
    Const,
    For,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    While,
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
        match s:
            case Load():
                reads.add(s.buffer)
            case Store():
                writes.add(s.buffer)
            case Atomic():
                reads.add(s.buffer)
                writes.add(s.buffer)
            case Alloc():
                own.add(s.buffer)
            case Barrier():
                opaque = True
            case _:
                pass
    return Accesses(frozenset(reads - own), frozenset(writes - own), opaque)


def defined_in(body: Sequence[Statement]) -> dict[Value, Statement]:
    """Every value that a block or a block nested in it defines, with its statement."""
    found: dict[Value, Statement] = {}
    for s in walk(tuple(body)):
        found.update(dict.fromkeys(results_of(s), s))
        match s:
            case For():
                found.update(dict.fromkeys((s.index, *s.params), s))
            case While():
                found.update(dict.fromkeys(s.params, s))
            case _:
                pass
    return found


def linear(x: Operand, defined: dict[Value, Statement]) -> Linear:
    """`x` as a sum of coefficient * value; the constant under None.  A value that is no sum stands for itself."""
    if isinstance(x, Const):
        return {None: x.value}
    s = defined.get(x)
    if not isinstance(s, Op) or s.op not in ("add", "sub", "mul", "neg") or s.out.dtype != "i64":
        return {x: 1}
    parts = [linear(a, defined) for a in s.args]
    match s.op:
        case "neg":
            return {v: -c for v, c in parts[0].items()}
        case "mul":
            constant = next((p for p in parts if set(p) <= {None}), None)
            if constant is None:
                return {x: 1}
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
    found: dict[Buffer, list[Load | Store | Atomic]] = {buffer: [] for buffer in touched.writes}
    for s in walk((nest,)):
        if isinstance(s, (Load, Store, Atomic)) and s.buffer in found:
            found[s.buffer].append(s)
    left = {buffer: statements for buffer, statements in found.items() if not _plainly_separate(statements, index)}
    if not left:
        return True
    defined = defined_in((nest,))
    return all(_separate(buffer, statements, index, defined) for buffer, statements in left.items())


def can_run_in_step(loop: For) -> bool:
    """Whether the statements of a loop without carries may be run for all its iterations one after the other."""
    return independent(loop, loop.index) and not any(isinstance(s, Alloc) for s in walk(loop.body))


def _plainly_separate(found: Sequence[Load | Store | Atomic], index: Value) -> bool:
    """Whether all of a buffer's accesses are atomic, or have the index itself at one axis."""
    if all(isinstance(s, Atomic) for s in found):
        return True
    return any(all(s.index[axis] is index for s in found) for axis in range(len(found[0].buffer.shape)))


def _separate(
    buffer: Buffer, found: Sequence[Load | Store | Atomic], index: Value, defined: dict[Value, Statement]
) -> bool:
    return any(
        _axis_separates([linear(s.index[axis], defined) for s in found], index, defined)
        for axis in range(len(buffer.shape))
    )


def _axis_separates(forms: list[Linear], index: Value, defined: dict[Value, Statement]) -> bool:
    first = forms[0]
    others = [v for v, c in first.items() if v is not None and v is not index and str(c) != "0"]
    if not _nonzero(first.get(index, 0)) or any(v in defined for v in others):
        return False
    return all(_same(first, form) for form in forms[1:])
