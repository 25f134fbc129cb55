"""Which barriers all lanes of a group reach: those under no condition, and in no loop, that differs between lanes."""

from __future__ import annotations

from tracejit.ir import kernel as k
from tracejit.ir.kernel import Block, Operand, Statement, Value

__all__ = ["divergent_barrier"]


def divergent_barrier(body: Block) -> Statement | None:
    """The first statement around a barrier that keeps some lanes from it; None where there is none.

    A value varies where it is computed from the index of a block loop, from memory at a place that varies, or from
    memory of each lane's own.  What varies in one iteration of a loop does so in all: carried values are looked at
    until no more are found.
    """
    if not any(isinstance(s, k.Barrier) for s in k.walk(body)):
        return None
    varying = set[Value]()
    while (found := _spread(body, varying)) != varying:
        varying = found
    most = max((_count(s) for s in k.walk(body) if _is_lanes(s)), default=0)
    return _diverging(body, varying, most)


def _is_lanes(s: Statement) -> bool:
    return isinstance(s, k.For) and s.axis.kind == "block"


def _count(s: Statement) -> float:
    """How many lanes a block loop has; infinity where that is not known."""
    assert isinstance(s, k.For)
    bounds = [x.value for x in (s.lower, s.upper) if isinstance(x, k.Const) and isinstance(x.value, int)]
    return bounds[1] - bounds[0] if len(bounds) == 2 else float("inf")


def _spread(body: Block, varying: set[Value]) -> set[Value]:
    """`varying`, and what one walk through the statements adds to it."""
    found = set(varying)
    for s in k.walk(body):
        own = any(a.reads and a.buffer.space == "local" for a in k.accesses_of(s))
        varies = own or not found.isdisjoint(k.operands_of(s))
        if isinstance(s, k.For):  # carried values may vary in a loop that all lanes run equally often
            if _is_lanes(s) or not found.isdisjoint((s.lower, s.upper)):
                found.add(s.index)
            if varies or s.index in found:
                found.update(s.params, s.results)
        elif varies:
            found.update(k.bound_in(s), k.results_of(s))
    return found


def _diverging(body: Block, varying: set[Value], lanes: float) -> Statement | None:
    for s in body:
        if not any(isinstance(x, k.Barrier) for block in k.blocks(s) for x in k.walk(block)):
            continue
        controls: list[Operand] = [getattr(s, x) for x, several in k.fields_by_role(type(s), "used") if not several]
        if isinstance(s, k.While):
            controls.append(s.test)
        if any(x in varying for x in controls) or (_is_lanes(s) and _count(s) < lanes):
            return s
        for block in k.blocks(s):
            if (inner := _diverging(block, varying, lanes)) is not None:
                return inner
    return None
