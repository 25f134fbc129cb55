"""Schedules: how the loops of a kernel run, as printable values, applied by pure functions that check legality.

A schedule is a tuple of directives over loops named `L0, L1, ...` in the order they are printed (before the schedule is applied; a loop
made by `split` is named after its parent, `L0.o` and `L0.i`).  An illegal directive raises ScheduleError, it never gives wrong code.

    cut L0; split L0 4096; parallel L0.o 1; vector L0.i 16 4; unroll L2

GPU backends bind loops to a grid themselves; `grid work_group 64` sets one of their options (`backends.grid.GridSchedule`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tracejit.ir.conflicts import conflicts
from tracejit.ir.kernel import Axis, Block, Const, For, If, Kernel, Op, Operand, Prefix, Value, While, blocks, index_const
from tracejit.ir.passes.cut import can_cut, cut
from tracejit.ir.passes.independence import independent
from tracejit.ir.passes.privatize import can_privatize, privatize
from tracejit.ir.rewrite import inline
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import evolve, frozen

__all__ = [
    "Cut",
    "Directive",
    "Grid",
    "Parallel",
    "Privatize",
    "Schedule",
    "Split",
    "Tile",
    "Unroll",
    "Vector",
    "WhileUnroll",
    "apply",
    "name_loops",
    "parse_schedule",
]


@frozen
class Split:
    """Two loops for one: the outer over blocks of `size` iterations, the inner over a block."""

    loop: str
    size: int

    def __str__(self) -> str:
        return f"split {self.loop} {self.size}"


@frozen
class Cut:
    """Consecutive loops, all of the same name, between the places where conditions on the index change (see `ir.passes.cut`)."""

    loop: str

    def __str__(self) -> str:
        return f"cut {self.loop}"


@frozen
class Privatize:
    """Columns in blocks of `block` with local accumulators, the reduction inside running over all of a block row by row."""

    loop: str
    block: int

    def __str__(self) -> str:
        return f"privatize {self.loop} {self.block}"


@frozen
class Parallel:
    """Iterations on the thread pool, at least `grain` a chunk."""

    loop: str
    grain: int = 1

    def __str__(self) -> str:
        return f"parallel {self.loop} {self.grain}"


@frozen
class Vector:
    """Iterations as lanes: vectors of `width`, `factor` of them in flight."""

    loop: str
    width: int
    factor: int = 1

    def __str__(self) -> str:
        return f"vector {self.loop} {self.width} {self.factor}"


@frozen
class Unroll:
    """All iterations written out."""

    loop: str

    def __str__(self) -> str:
        return f"unroll {self.loop}"


@frozen
class WhileUnroll:
    """`factor` iterations of every varying while loop between two looks at its mask."""

    factor: int

    def __str__(self) -> str:
        return f"while_unroll {self.factor}"


@frozen
class Grid:
    """An option of how a GPU backend shares the kernel out; the backend checks it."""

    option: str
    value: int | str

    def __str__(self) -> str:
        return f"grid {self.option} {self.value}"


@frozen
class Tile:
    """A matrix product by register tiles (see `ir.passes.contract`), in place of the kernel's plain loops.

    rows x columns elements of the result in registers, columns in vectors of `width`; `depth` contracted elements a block; a task has at
    most `tall` rows and `wide` columns.  pack: which operands are copied into panels ("none", "lhs", "rhs", "both").  share: what runs on
    the pool ("none", "tasks", "batch": one product an iteration), `grain` iterations a chunk; "depth": `grain` contracted elements a task,
    whose partial sums are joined in order.  flip: which packed operands lie across
    ("none", "lhs": contiguous along rows, "rhs": contiguous along the contracted axis, "lhs+rhs").
    """

    rows: int
    columns: int
    width: int
    depth: int
    tall: int
    wide: int
    pack: str = "both"
    share: str = "none"
    grain: int = 1
    flip: str = "none"

    def __str__(self) -> str:
        shape = f"{self.rows} {self.columns} {self.width} {self.depth} {self.tall} {self.wide}"
        return f"tile {shape} {self.pack} {self.share} {self.grain} {self.flip}"


Directive: TypeAlias = Cut | Split | Privatize | Parallel | Vector | Unroll | WhileUnroll | Grid | Tile


@frozen
class Schedule:
    """What to do with the loops of one kernel; prints as `split L0 64; parallel L0.o 1`."""

    directives: tuple[Directive, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.directives))


def parse_schedule(text: str) -> Schedule:
    """The inverse of `str`.  Raises ScheduleError."""
    kinds = {
        "cut": Cut,
        "split": Split,
        "privatize": Privatize,
        "parallel": Parallel,
        "vector": Vector,
        "unroll": Unroll,
        "while_unroll": WhileUnroll,
        "grid": Grid,
        "tile": Tile,
    }
    out: list[Directive] = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, *rest = part.split()
        try:
            values: list[Any] = [int(r) if r.lstrip("-").isdigit() else r for r in rest]
            out.append(kinds[name](*values))
        except (KeyError, TypeError) as error:
            raise ScheduleError(f"not a schedule directive: {part!r}; known are {', '.join(kinds)}") from error
    return Schedule(tuple(out))


def name_loops(body: tuple[Any, ...]) -> dict[Value, str]:
    """Loop names by index variable, in printed order."""
    names: dict[Value, str] = {}
    stack: list[Any] = list(reversed(body))
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            names[s.index] = f"L{len(names)}"
        for block in reversed(blocks(s)):
            stack.extend(reversed(block))
    return names


def apply(kernel: Kernel, schedule: Schedule) -> Kernel:  # noqa: C901  (the walks inside count)
    """The kernel with its loops scheduled.  Raises ScheduleError for a directive that is not legal or names no loop."""
    names = name_loops(kernel.body)
    uncut = set(names)
    splits = {d.loop: d.size for d in schedule.directives if isinstance(d, Split)}
    axes: dict[str, Axis] = {}
    cuts: set[str] = set()
    cut_already: set[Value] = set()
    while_unroll = 1
    private = {d.loop: d.block for d in schedule.directives if isinstance(d, Privatize)}
    known = set(names.values()) | {f"{n}.{s}" for n in (*splits, *private) for s in "oi"}
    for d in schedule.directives:
        if isinstance(d, WhileUnroll):
            while_unroll = d.factor
            continue
        if isinstance(d, Grid):
            continue
        if isinstance(d, Tile):
            _check_tile(kernel, d)
            continue
        if d.loop not in known:
            raise ScheduleError(f"{d}: kernel {kernel.name} has no loop {d.loop}; it has {', '.join(sorted(known))}")
        match d:
            case Split(size=size) | Privatize(block=size):
                if size < 1:
                    raise ScheduleError(f"{d}: the size must be positive")
            case Parallel(grain=grain):
                axes[d.loop] = Axis("parallel", factor=grain)
            case Vector(width=width, factor=factor):
                if width < 2 or width & (width - 1) or factor < 1:
                    raise ScheduleError(f"{d}: the width must be a power of two above 1, the factor positive")
                axes[d.loop] = Axis("vector", width, factor)
            case Unroll():
                axes[d.loop] = Axis("unroll")
            case Cut(loop=loop_name):
                cuts.add(loop_name)

    def rewrite(body: tuple[Any, ...], vector: bool, parallel: bool) -> tuple[Any, ...]:
        out: list[Any] = []
        for s in body:
            if isinstance(s, For):
                for part in pieces(s):
                    out += (
                        [loop(part, vector, parallel)]
                        if isinstance(part, For) and part.index in cut_already
                        else rewrite((part,), vector, parallel)
                    )
            elif isinstance(s, While):
                out.append(
                    evolve(
                        s,
                        condition=rewrite(s.condition, vector, True),
                        body=rewrite(s.body, vector, True),
                        unroll=while_unroll if vector else s.unroll,
                    )
                )
            elif isinstance(s, If):
                out.append(evolve(s, then=rewrite(s.then, vector, True), orelse=rewrite(s.orelse, vector, True)))
            else:
                out.append(s)
        return tuple(out)

    def pieces(s: For) -> list[Any]:
        name = names[s.index]
        found: list[Any] = [s]
        if name in cuts and can_cut(s):
            found = cut(s, names)
        elif name in cuts and s.index in uncut:  # copies in the pieces of a loop around may have no condition left
            raise ScheduleError(f"cut {name}: no condition on its index changes within constant bounds, or it carries values")
        cut_already.update(x.index for x in found if isinstance(x, For) and names[x.index] == name)
        return found

    def loop(s: For, vector: bool, parallel: bool) -> For:
        name = names[s.index]
        if name in splits:
            return split(s, name, vector, parallel)
        if name in private:
            if not can_privatize(s):
                raise ScheduleError(f"privatize {name}: it is not a loop over columns around one reduction")
            outer, inner = axes.get(f"{name}.o", Axis()), axes.get(f"{name}.i", Axis())
            blocked = privatize(s, private[name], outer, inner)
            legal(blocked, outer, f"{name}.o", vector, parallel, s)
            return blocked
        axis = axes.get(name, s.axis)
        legal(s, axis, name, vector, parallel)
        return evolve(s, axis=axis, body=rewrite(s.body, vector or axis.kind == "vector", parallel or axis.kind == "parallel"))

    def split(s: For, name: str, vector: bool, parallel: bool) -> For:
        if any(isinstance(x, Prefix) and x.params == s.params for x in s.body) or (s.params and s.combine is None):
            raise ScheduleError(f"split {name}: a recurrence or scan runs in order")
        size = splits[name]
        outer_axis, inner_axis = axes.get(f"{name}.o", Axis()), axes.get(f"{name}.i", Axis())
        block, start, stop, span = Value("i64"), Value("i64"), Value("i64"), Value("i64")
        offset = Value("i64")
        head: list[Any] = [
            Op(offset, "mul", (block, index_const(size))),
            Op(start, "add", (offset, s.lower)),
            Op(span, "add", (start, index_const(size))),
        ]
        head.append(Op(stop, "min", (span, s.upper)))
        inner = evolve(s, lower=start, upper=stop, axis=inner_axis)
        legal(inner, inner_axis, f"{name}.i", vector, parallel or outer_axis.kind == "parallel", s)
        results = tuple(Value(r.dtype) for r in s.results)
        params = tuple(Value(p.dtype) for p in s.params)
        inner_vector = vector or inner_axis.kind == "vector"
        inner = evolve(inner, body=rewrite(s.body, inner_vector, True), results=results)
        joined: tuple[Operand, ...] = ()
        tail: Block = ()
        if s.combine is not None:
            tail, joined = inline(s.combine, (*params, *results))
        count = _blocks(s, size)
        outer = For(block, index_const(0), count[1], (*head, inner, *tail), outer_axis, params, s.inits, joined, s.results, s.combine)
        legal(outer, outer_axis, f"{name}.o", vector, parallel, s)
        return outer

    return kernel.with_body(rewrite(kernel.body, False, False))


def _check_tile(kernel: Kernel, d: Tile) -> None:
    """A tile replaces the loops of a kernel that is a matrix product; `ir.passes.contract` builds what it says."""
    if kernel.product is None:
        raise ScheduleError(f"{d}: kernel {kernel.name} is no matrix product")
    if min(d.rows, d.columns, d.depth, d.tall, d.wide, d.grain) < 1 or d.width < 1 or d.width & (d.width - 1):
        raise ScheduleError(f"{d}: sizes must be positive, the width a power of two")
    for what, given, known in (
        ("pack", d.pack, ("none", "lhs", "rhs", "both")),
        ("share", d.share, ("none", "tasks", "batch", "depth")),
        ("flip", d.flip, ("none", "lhs", "rhs", "lhs+rhs")),
    ):
        if given not in known:
            raise ScheduleError(f"{d}: {what} is one of {', '.join(known)}, not {given!r}")


def _blocks(s: For, size: int) -> tuple[list[Any], Operand]:
    if not (isinstance(s.lower, Const) and isinstance(s.upper, Const)):
        raise ScheduleError("split: the bounds of the loop are computed; split loops have constant or symbolic bounds")
    return [], index_const((s.upper.value - s.lower.value + (size - 1)) // size)


def legal(s: For, axis: Axis, name: str, vector: bool, parallel: bool, whole: For | None = None) -> None:
    """Raise ScheduleError where a loop cannot run along an axis; `whole` is the loop it is a part of."""
    scan = any(isinstance(x, Prefix) and x.params == s.params for x in s.body)
    recurrence = bool(s.params) and s.combine is None
    if axis.kind in ("parallel", "vector") and not independent(whole or s, (whole or s).index):
        raise ScheduleError(f"{axis.kind} {name}: its iterations write to memory that others read or write")
    match axis.kind:
        case "parallel":
            if recurrence or scan:
                raise ScheduleError(f"parallel {name}: its iterations depend on each other")
            if conflicts(s).stores:
                raise ScheduleError(f"parallel {name}: its iterations may store to one place, and the last one counts")
            if parallel or vector:
                raise ScheduleError(f"parallel {name}: it is inside of another parallel, vector or conditional region")
        case "vector":
            if recurrence:
                raise ScheduleError(f"vector {name}: its iterations depend on each other")
            if conflicts(s).updates:
                raise ScheduleError(f"vector {name}: its iterations may update one place")
            if vector:
                raise ScheduleError(f"vector {name}: it is inside of another vector loop")
        case "unroll":
            if not (isinstance(s.lower, Const) and isinstance(s.upper, Const) and isinstance(s.upper.value, int)):
                raise ScheduleError(f"unroll {name}: its bounds are not constant")
            if conflicts(s).stores:  # copies run in step
                raise ScheduleError(f"unroll {name}: its iterations may store to one place, and the last one counts")
        case _:
            pass
