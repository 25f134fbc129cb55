"""One group of work-items on one task: reductions as trees in shared memory, loops shared out, scalars computed by all.

A reduction gives lane l the iterations l, l + lanes, l + 2 * lanes, ..., or, `contiguous`, as many neighbouring ones;
the lanes' results are then combined in a fixed tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from tracejit.backends.group_scans import is_shared_out, scan_by_group
from tracejit.backends.nest import (
    GridSchedule,
    constant_bounds,
    flatten,
    flatten_reduction,
    handed_on,
    nest_of,
    scans,
    trip_count,
)
from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, prod
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Axis,
    Barrier,
    Block,
    Buffer,
    Const,
    For,
    Lambda,
    Load,
    Operand,
    Statement,
    Store,
    Value,
    allocated_by,
    index_const,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import inline, replace_buffers
from tracejit.ir.scalar import numpy_dtype
from tracejit.support.nodes import evolve

__all__ = ["Team", "bytes_of", "cooperates", "fits", "group_body"]


def bytes_of(buffer: Buffer) -> int | None:
    """The size of a buffer; None where it is symbolic."""
    count = prod(buffer.shape)
    return None if isinstance(count, Dim) else count * numpy_dtype(buffer.dtype).itemsize


def fits(buffer: Buffer, nbytes: int) -> bool:
    """Whether a buffer has a known size of at most `nbytes`."""
    size = bytes_of(buffer)
    return size is not None and size <= nbytes


@define(eq=False)
class Team:
    """The lanes of one group, their shared arrays, and what they touched since the last barrier."""

    lanes: int
    contiguous: bool = False
    out: list[Statement] = field(factory=list[Statement])
    arrays: dict[tuple[str, int], Buffer] = field(factory=dict[tuple[str, int], Buffer])
    shared: list[Buffer] = field(factory=list[Buffer])
    read: set[Buffer | str] = field(factory=set[Buffer | str])
    written: set[Buffer | str] = field(factory=set[Buffer | str])

    @property
    def statements(self) -> Block:
        """The block so far, its shared arrays first."""
        return (*(Alloc(b) for b in self.shared), *self.out)

    @property
    def shared_bytes(self) -> int:
        return sum(bytes_of(b) or 0 for b in self.shared)

    def array(self, buffer: Buffer) -> Buffer:
        """A shared array like `buffer`."""
        made = evolve(buffer, space="shared", name=f"shared{len(self.shared)}")
        self.shared.append(made)
        return made

    def partials(self, dtype: str, number: int) -> Buffer:
        """The shared array for the lanes' values of carry `number`; reductions that follow each other share it."""
        key = (dtype, number)
        if key not in self.arrays:
            self.arrays[key] = self.array(Buffer("partials", dtype, (self.lanes,)))
        return self.arrays[key]

    def emit(self, *statements: Statement) -> None:
        """Append statements, after a barrier if lanes would otherwise meet in memory.  Global buffers may overlap:
        they count as one.
        """
        touched = accesses(statements)
        read = {"global" if b.space == "global" else b for b in touched.reads}
        written = {"global" if b.space == "global" else b for b in touched.writes}
        if read & self.written or written & (self.read | self.written):
            self.out.append(Barrier())
            self.read.clear()
            self.written.clear()
        self.read |= read
        self.written |= written
        self.out += statements

    def lane_loop(self, count: int, body: Callable[[Value], Sequence[Statement]]) -> For:
        """`body(lane)` by the first `count` lanes."""
        lane = Value("i64")
        return For(lane, index_const(0), index_const(count), tuple(body(lane)), Axis("block"))

    def alone(self, *statements: Statement) -> None:
        """Statements run by the first lane only."""
        self.emit(self.lane_loop(1, lambda _: statements))

    def reduce(self, loop: For, results: Sequence[Value], share: tuple[Operand, int] | None = None) -> None:
        """Fold `loop` with all lanes; every lane then has `results`.  `share` = (group, groups) leaves the rest to
        other groups.
        """
        assert loop.combine is not None
        if accesses((loop,)).pure:
            loop = flatten_reduction(loop if self.contiguous else handed_on(loop))
        combine = loop.combine
        assert combine is not None
        parts = [self.partials(p.dtype, n) for n, p in enumerate(loop.params)]
        group, groups = share or (index_const(0), 1)

        def fold(lane: Value) -> list[Statement]:
            r = ScalarRecorder()
            member = r.op("add", r.op("mul", group, index_const(self.lanes)), lane)
            mine = tuple(Value(p.dtype) for p in loop.params)
            lower, upper, step = _share(r, loop, member, self.lanes * groups, self.contiguous)
            own = evolve(loop, lower=lower, upper=upper, step=step, results=mine, axis=SERIAL)
            return [*r.statements, own, *(Store(b, (lane,), v) for b, v in zip(parts, mine, strict=True))]

        self.emit(self.lane_loop(self.lanes, fold))
        self._tree(combine, parts)
        self.emit(*(Load(v, b, (index_const(0),)) for v, b in zip(results, parts, strict=True)))

    def scan(self, loop: For, nbytes: int) -> bool:
        """Scan with all lanes, if what is left of so much shared memory suffices."""
        made = scan_by_group(
            loop,
            self.lanes,
            lambda dtype, shape: self.array(Buffer("", dtype, shape)),
            nbytes - self.shared_bytes,
        )
        if made is None:
            return False
        scanned, results = made
        self.emit(scanned)
        self.emit(*results)
        return True

    def _tree(self, combine: Lambda, parts: Sequence[Buffer]) -> None:
        half = self.lanes // 2
        while half:
            self.emit(self.lane_loop(half, _joiner(combine, parts, half)))
            half //= 2


def _share(
    r: ScalarRecorder, loop: For, member: Operand, members: int, contiguous: bool
) -> tuple[Operand, Operand, int]:
    """The bounds and step of the iterations that one of `members` takes."""
    if not contiguous:
        return r.op("add", loop.lower, r.op("mul", member, index_const(loop.step))), loop.upper, loop.step * members
    span = r.op("sub", loop.upper, loop.lower)
    size = r.op("add", r.op("idiv", span, index_const(members * loop.step)), index_const(1))
    size = r.op("mul", size, index_const(loop.step))
    lower = r.op("min", r.op("add", loop.lower, r.op("mul", member, size)), loop.upper)
    return lower, r.op("min", r.op("add", lower, size), loop.upper), loop.step


def _joiner(combine: Lambda, parts: Sequence[Buffer], half: int) -> Callable[[Value], list[Statement]]:
    """Lane l combines its value with that of lane l + half."""

    def join(lane: Value) -> list[Statement]:
        r = ScalarRecorder()
        other = r.op("add", lane, index_const(half))
        mine = [Value(b.dtype) for b in parts]
        theirs = [Value(b.dtype) for b in parts]
        loads = [
            Load(v, b, (at,))
            for at, values in ((lane, mine), (other, theirs))
            for v, b in zip(values, parts, strict=True)
        ]
        body, results = inline(combine, (*mine, *theirs))
        return [*r.statements, *loads, *body, *(Store(b, (lane,), v) for b, v in zip(parts, results, strict=True))]

    return join


def group_body(body: Block, schedule: GridSchedule) -> Block | None:
    """`body`, written for one thread, for a group: None where it has statements that cannot be shared out,
    or needs too much memory.
    """
    team = Team(schedule.work_group, schedule.contiguous)
    for buffer in [b for s in body for b in allocated_by(s)]:
        if not fits(buffer, schedule.shared_bytes):
            return None
        body = replace_buffers(body, {buffer: team.array(buffer)})
    for s in body:
        if not _place(s, team, schedule):
            return None
    return team.statements if team.shared_bytes <= schedule.shared_bytes else None


def _place(s: Statement, team: Team, schedule: GridSchedule) -> bool:
    if isinstance(s, For) and scans(s):
        return schedule.stage > 1 and is_shared_out(s) and team.scan(s, schedule.shared_bytes)
    touched = accesses((s,))
    if touched.opaque or not all(fits(b, schedule.array_bytes) for x in walk((s,)) for b in allocated_by(x)):
        return False
    if isinstance(s, For) and cooperates(s) and not _short(s):
        team.reduce(s, s.results)
        return True
    if touched.pure:
        team.emit(s)
        return True
    if results_of(s):
        return False
    nest = nest_of(s) if isinstance(s, For) else None
    if nest is not None and nest.free and all(constant_bounds(loop) for loop in nest.free):
        team.emit(*flatten(nest.free, Axis("block"), nest.body))
    else:
        team.alone(s)
    return True


def cooperates(loop: For) -> bool:
    """Whether lanes may share a reduction: it starts from constants, and what it writes is each iteration's own."""
    if loop.combine is None or scans(loop) or not all(isinstance(i, Const) for i in loop.inits):
        return False
    return accesses((loop,)).pure or independent(loop, loop.index)


def _short(loop: For) -> bool:
    """Too few iterations to share out: every lane runs them all."""
    count = trip_count(loop)
    return isinstance(count, int) and count <= 8
