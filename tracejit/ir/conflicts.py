"""Whether iterations of a loop may store to one place: indices that come from memory cannot be told apart.

A store to such an index is safe in a loop if one of its indices is affine in the loop's index with a factor that is not
zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.kernel import Access, Const, For, Op, Operand, Value, accesses_of, bound_in, results_of, walk
from tracejit.support.nodes import frozen

__all__ = ["Conflicts", "conflicts"]


@frozen
class Conflicts:
    """stores: iterations may store to one place, so they run in order;
    updates: they also read what others wrote, so not even in step.
    """

    stores: bool = False
    updates: bool = False


def conflicts(loop: For) -> Conflicts:
    """What may go wrong when iterations of `loop` run in another order (`stores`), or in lanes (`updates`)."""
    unsafe = [
        a
        for s in walk(loop.body)
        for a in accesses_of(s)
        if a.writes and not a.atomic and not (a.index and any(i is loop.index for i in a.index))
    ]
    if not any(a.index is None or any(isinstance(i, Value) for i in a.index) for a in unsafe):
        return Conflicts()
    strides, data = _flow(loop)
    written = {a.buffer for a in unsafe if _may_meet(a, strides, data)}
    if not written:
        return Conflicts()
    return Conflicts(True, any(a.reads and a.buffer in written for s in walk(loop.body) for a in accesses_of(s)))


def _may_meet(access: Access, strides: dict[Value, int], data: set[Operand]) -> bool:
    """Whether iterations may store to one element."""
    if access.index is None:
        return True
    return any(i in data for i in access.index) and not any(_moves(i, strides) for i in access.index)


def _moves(i: Operand, strides: dict[Value, int]) -> bool:
    return isinstance(i, Value) and strides.get(i, 0) != 0


def _flow(loop: For) -> tuple[dict[Value, int], set[Operand]]:
    """Values affine in the loop's index, with their factors, and values that depend on memory,
    branches or earlier iterations.
    """
    strides: dict[Value, int] = {loop.index: 1}
    data: set[Operand] = set(loop.params)
    for _ in range(2):  # carries need a second look
        for s in walk(loop.body):
            match s:
                case Op():
                    if any(a in data for a in s.args):
                        data.add(s.out)
                    elif any(isinstance(a, Value) and a in strides for a in s.args):
                        factor = _factor(s, strides)
                        if factor is not None:
                            strides[s.out] = factor
                case For():
                    if s.lower in data or s.upper in data:
                        data.add(s.index)
                    elif isinstance(s.lower, Value) and s.lower in strides:
                        strides[s.index] = strides[s.lower]
                    data.update((*s.params, *s.results))
                case _:
                    data.update((*bound_in(s), *results_of(s)))
    return strides, data


def _factor(s: Op, strides: dict[Value, int]) -> int | None:
    """The factor of the loop's index in a sum or a product with a constant; None for anything else."""
    parts: Sequence[int] = [strides.get(a, 0) if isinstance(a, Value) else 0 for a in s.args]
    match s.op, s.args:
        case "add", _:
            return parts[0] + parts[1]
        case "sub", _:
            return parts[0] - parts[1]
        case "mul", (_, Const(value=int() as k)):
            return parts[0] * k
        case "mul", (Const(value=int() as k), _):
            return parts[1] * k
        case "convert", _ if s.out.dtype == "i64":
            return parts[0]
        case _:
            return None
