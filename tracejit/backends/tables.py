"""Updates at places that data say, of which each group makes its own table in shared memory (a histogram).

    for group
      the table, filled with what the operation leaves unchanged; barrier
      each work-item updates the table by iterations of its own; barrier
      what the table has joins the array in global memory, element by element

So that many work-items meet in memory that is near, and few in memory that is far.  The operations are those of
integers whose order cannot be seen: results are the same bits in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracejit.backends.cooperative import Team, fits
from tracejit.backends.nest import GridSchedule, Nest, flatten
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    SERIAL,
    Atomic,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    If,
    Load,
    Op,
    Operand,
    Store,
    Value,
    accesses_of,
    index_const,
    walk,
)
from tracejit.ir.rewrite import replace_buffers
from tracejit.ir.scalar import is_signed, numpy_dtype
from tracejit.support.nodes import evolve, frozen

__all__ = ["TabledNest", "tabled"]

_EACH = 4
"""How many updates a group has for each element of its table at least: fewer, and joining the tables costs more."""
_LEAST = 4  # groups: fewer do not occupy a device
_MANY = 1 << 20  # iterations, where it is not known how many


@frozen
class TabledNest:
    """loops: over groups, with what stands before it.  groups: how many there are."""

    loops: Block
    groups: int


def tabled(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> TabledNest | None:
    """`nest` of so many iterations by groups with tables; None where it does more than to update one array of a known
    small size, or too little.
    """
    inside = list(walk(nest.body))
    updates = [s for s in inside if isinstance(s, Atomic)]
    if not updates or nest.ordered or not all(isinstance(s, (Op, Load, If, Atomic)) for s in inside):
        return None
    op, target = updates[0].op, updates[0].buffer
    touching = sum(a.buffer is target for s in inside for a in accesses_of(s))
    if touching != len(updates) or any(s.op != op for s in updates) or target.dtype not in schedule.tables:
        return None
    size, neutral = prod(target.shape), _neutral(op, target.dtype)
    if neutral is None or isinstance(size, Dim) or not fits(target, schedule.shared_bytes):
        return None
    groups = _groups(prod(extents), max(size, 2 * schedule.work_group), schedule)
    return _by_groups(nest, target, op, neutral, groups, schedule) if groups >= _LEAST else None


def _groups(count: Extent, least: int, schedule: GridSchedule) -> int:
    """How many groups there are if each has some iterations for each of `least`; where it is not known how many
    iterations there are, they are taken to be many.
    """
    return min(schedule.groups, (_MANY if isinstance(count, Dim) else count) // (_EACH * least))


def _neutral(op: str, dtype: str) -> Const | None:
    """What leaves any number as it is."""
    info = np.iinfo(numpy_dtype(dtype))
    ones = -1 if is_signed(dtype) else int(info.max)
    found = {"add": 0, "or": 0, "xor": 0, "and": ones, "mul": 1, "min": int(info.max), "max": int(info.min)}.get(op)
    return None if found is None else Const(found, dtype)


def _by_groups(nest: Nest, target: Buffer, op: str, neutral: Const, groups: int, schedule: GridSchedule) -> TabledNest:
    team, group = Team(schedule.work_group), Value("i64")
    table = team.array(evolve(target, layout="C"))
    body = replace_buffers(nest.body, {target: table})

    def over_elements(body: Callable[[tuple[Value, ...]], Block]) -> For:
        """`body(index)` for every element of the table, neighbours by neighbouring lanes."""
        index = tuple(Value("i64") for _ in target.shape)
        if not index:
            return team.lane_loop(1, lambda _: body(()))
        axes = [For(i, index_const(0), index_const(n), ()) for i, n in zip(index, target.shape, strict=True)]
        flat = flatten(axes, SERIAL, body(index))
        return team.lane_loop(team.lanes, lambda lane: _shared_out(flat, lane, team.lanes))

    def updates(lane: Value) -> Block:
        r = ScalarRecorder()
        member = r.op("add", r.op("mul", group, index_const(team.lanes)), lane)
        mine = flatten(nest.free, SERIAL, body, wide=schedule.wide)
        return (*r.statements, *_shared_out(mine, member, team.lanes * groups))

    def join(index: tuple[Value, ...]) -> Block:
        found, r = Value(target.dtype), ScalarRecorder()
        changed = r.op("ne", found, neutral)
        return (Load(found, table, index), *r.statements, If(changed, (Atomic(op, target, index, found),)))

    team.emit(over_elements(lambda index: (Store(table, index, neutral),)))
    team.emit(team.lane_loop(team.lanes, updates))
    team.emit(over_elements(join))
    return TabledNest((For(group, index_const(0), index_const(groups), team.statements, Axis("grid")),), groups)


def _shared_out(loop: Block, first: Operand, members: int) -> Block:
    """Every n-th iteration of a loop, which is the last statement of these, from one on."""
    *head, last = loop
    assert isinstance(last, For) and last.step == 1
    r = ScalarRecorder()
    lower = r.op("add", last.lower, first)
    return (*head, *r.statements, evolve(last, lower=lower, step=members, axis=SERIAL))
