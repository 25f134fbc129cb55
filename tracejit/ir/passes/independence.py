"""Which loops of a nest may run in any order: every iteration touches memory of its own.

A loop index i is independent when every buffer written in the nest has an axis at which all its accesses have one and
the same index expression, linear in i with a coefficient that is not zero, whose other terms do not change inside the
nest; or expressions that are numbers in a system of digits, i one of them: each coefficient is greater than what all
smaller terms come to (`y[8 * i + 2 * k + j]` for a k known to be below 4 and a j below 2).
"""

from __future__ import annotations

import itertools
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
    if not _nonzero(first.get(index, 0)):
        return False
    if not any(v in defined for v in others) and all(_same(first, form) for form in forms[1:]):
        return True
    return _digits_separate(forms, index, defined)


def _digits_separate(forms: list[Linear], index: Value, defined: dict[Value, Statement]) -> bool:
    """Whether places are equal only where all loop indices in them are, and so are the constants: those of loops
    over known ranges are digits, and the constants are one more.
    """
    constants: set[int] = set()
    steps: dict[Value, int] = {}
    for n, form in enumerate(forms):
        terms = {v: c for v, c in form.items() if v is not None and str(c) != "0"}
        if not all(isinstance(c, int) for c in (*terms.values(), form.get(None, 0))):
            return False
        if n and terms != steps:
            return False
        steps = terms  # type: ignore[assignment]
        constants.add(form.get(None, 0))  # type: ignore[arg-type]
    ordered = sorted(constants)
    digits: list[tuple[int, int]] = []  # (the least step, the greatest sum of steps)
    if len(ordered) > 1:
        digits.append((min(b - a for a, b in itertools.pairwise(ordered)), ordered[-1] - ordered[0]))
    for v, step in steps.items():
        if v not in defined:
            continue  # the same everywhere
        loop = defined[v]
        if not isinstance(loop, For) or loop.index is not v:
            return False
        lower, upper = (x.value if isinstance(x, Const) else None for x in (loop.lower, loop.upper))
        if not (isinstance(lower, int) and isinstance(upper, int)):
            return False
        if upper - lower > 1:
            digits.append((abs(step) * loop.step, abs(step) * (upper - 1 - lower)))
    reached = 0
    for step, most in sorted(digits):
        if step <= reached:
            return False
        reached += most
    return True
