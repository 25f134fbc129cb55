"""Schedules: how the loops of a kernel run, as printable values, applied by pure functions that check legality.

A schedule is a tuple of directives over loops named `L0, L1, ...` in the order they are printed (before the schedule is
applied; a loop made by `split` is named after its parent, `L0.o` and `L0.i`).  An illegal directive raises
ScheduleError, it never gives wrong code.

A directive is a class: its fields are its text, `apply` says where it is legal and what it means.  Directives run by
their `order`: loops are cut, then split, then get an axis, whatever the order in which they are written.

    cut L0; split L0 4096; parallel L0.o 1; vector L0.i 16 4; unroll L2

GPU backends bind loops to a grid themselves; `grid work_group 64` sets one of their options
(`backends.grid.GridSchedule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from tracejit.ir.conflicts import conflicts
from tracejit.ir.kernel import (
    Axis,
    Block,
    Const,
    For,
    Kernel,
    Op,
    Operand,
    Prefix,
    Statement,
    Value,
    While,
    allocated_by,
    blocks,
    index_const,
    walk,
)
from tracejit.ir.passes.cut import can_cut, cut
from tracejit.ir.passes.independence import can_run_in_step, independent
from tracejit.ir.passes.privatize import can_privatize, privatize
from tracejit.ir.passes.spread import spread, table_of
from tracejit.ir.passes.sweep import can_sweep_columns, rows_of, sweep
from tracejit.ir.rewrite import inline, map_blocks
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import define, evolve, fields_of, frozen

__all__ = [
    "Cut", "Directive", "Grid", "Loops", "Parallel", "Privatize", "Schedule", "Split", "Spread", "Sweep", "Tile",
    "Tileable", "Unroll", "Vector", "WhileUnroll", "apply", "name_loops", "parse_schedule",
]  # fmt: skip


class Tileable(Protocol):
    """What a matrix product is made of."""

    def tiled(self, tile: Tile) -> Kernel:
        """Its kernel for a tile, all loops scheduled."""
        ...


@define(eq=False)
class Loops:
    """A kernel whose loops have names, while directives change it.

    names: by the loop's index; copies share the name.  first: the loops that the kernel came with.  whole: of a part
    that a directive made, the loop that it is a part of.  product: of a matrix product what it is made of; where that
    is not known, a tile is checked and leaves the plain loops.
    """

    kernel: Kernel
    names: dict[Value, str]
    first: frozenset[Value]
    whole: dict[Value, For]
    product: Tileable | None = None

    @staticmethod
    def of(kernel: Kernel, product: Tileable | None = None) -> Loops:
        """The loops of a kernel, named in printed order."""
        names = name_loops(kernel.body)
        return Loops(kernel, names, frozenset(names), {}, product)

    def change(self, d: Directive, name: str, make: Callable[[For], Sequence[Statement]]) -> None:
        """Every loop of a name, unless it was cut to nothing, becomes what `make` says.

        Raises: ScheduleError for other names.
        """
        known = set(self.names.values())
        if name not in known:
            have = f"it has {', '.join(sorted(known))}" if known else "none of its loops has a name"
            raise ScheduleError(f"{d}: kernel {self.kernel.name} has no loop {name}; {have}")

        def rewrite(block: Block) -> Block:
            out: list[Statement] = []
            for s in block:
                if isinstance(s, For) and self.names.get(s.index) == name:
                    if s.step != 1:
                        raise ScheduleError(f"{d}: the loop has a step of {s.step}")
                    out += make(s)
                else:
                    out.append(map_blocks(s, rewrite))
            return (
                block if len(out) == len(block) and all(a is b for a, b in zip(out, block, strict=True)) else tuple(out)
            )

        self.kernel = self.kernel.with_body(rewrite(self.kernel.body))

    def part(self, index: Value, name: str, of: For) -> None:
        """A loop that is a part of another one has a name."""
        self.names[index] = name
        self.whole[index] = self.whole.get(of.index, of)


class Directive:
    """What to do with loops.  word: how its text begins; its fields follow, in order."""

    word: ClassVar[str]
    order: ClassVar[int] = 2
    kinds: ClassVar[dict[str, type[Any]]] = {}

    def __init_subclass__(cls) -> None:
        Directive.kinds[cls.word] = cls

    def __str__(self) -> str:
        return " ".join([self.word, *(str(getattr(self, f.name)) for f in fields_of(type(self)))])

    @classmethod
    def candidates(cls, kernel: Kernel, target: Any) -> Sequence[Directive]:
        """What tuning tries of this kind, in place of those of the default schedule; what is not legal is passed over.

        target: a `backends.base.Target`.  (How the kinds of this file are varied together says `autotune.space`.)
        """
        return ()

    def apply(self, loops: Loops) -> None:
        """Change the loops.  Raises: ScheduleError where that is not legal."""


@frozen
class Cut(Directive):
    """Consecutive loops, all of the same name, between the places
    where conditions on the index change (see `ir.passes.cut`).
    """

    word: ClassVar = "cut"
    order: ClassVar = 0

    loop: str

    def apply(self, loops: Loops) -> None:
        def pieces(s: For) -> Sequence[Statement]:
            if can_cut(s):
                return cut(s, loops.names)
            if s.index in loops.first:  # copies in the pieces of a loop around may have no condition left
                raise ScheduleError(
                    f"{self}: no condition on its index changes within constant bounds, or it carries values"
                )
            return (s,)

        loops.change(self, self.loop, pieces)


@frozen
class Split(Directive):
    """Two loops for one: the outer (`L0.o`) over blocks of `size` iterations, the inner (`L0.i`) over a block."""

    word: ClassVar = "split"
    order: ClassVar = 1

    loop: str
    size: int

    def apply(self, loops: Loops) -> None:
        if self.size < 1:
            raise ScheduleError(f"{self}: the size must be positive")

        def split(s: For) -> Sequence[Statement]:
            if _is_scan(s) or _is_recurrence(s):
                raise ScheduleError(f"{self}: a recurrence or scan runs in order")
            if not (isinstance(s.lower, Const) and isinstance(s.upper, Const)):
                raise ScheduleError(
                    f"{self}: the bounds of the loop are computed; split loops have constant or symbolic bounds"
                )
            block, start, stop, span, offset = (Value("i64") for _ in range(5))
            head = (
                Op(offset, "mul", (block, index_const(self.size))),
                Op(start, "add", (offset, s.lower)),
                Op(span, "add", (start, index_const(self.size))),
                Op(stop, "min", (span, s.upper)),
            )
            results = tuple([Value(r.dtype) for r in s.results])
            params = tuple([Value(p.dtype) for p in s.params])
            joined: tuple[Operand, ...] = ()
            tail: Block = ()
            if s.combine is not None:
                tail, joined = inline(s.combine, (*params, *results))
            count = index_const((s.upper.value - s.lower.value + (self.size - 1)) // self.size)
            inner = evolve(s, lower=start, upper=stop, results=results, axis=Axis())
            loops.part(s.index, f"{self.loop}.i", s)
            loops.part(block, f"{self.loop}.o", s)
            body = (*head, inner, *tail)
            return (For(block, index_const(0), count, body, Axis(), params, s.inits, joined, s.results, s.combine),)

        loops.change(self, self.loop, split)


@frozen
class Privatize(Directive):
    """Columns in blocks of `block` (`L0.o`, `L0.i`) with local accumulators;
    the reduction runs over all of a block row by row.
    """

    word: ClassVar = "privatize"
    order: ClassVar = 1

    loop: str
    block: int

    def apply(self, loops: Loops) -> None:
        if self.block < 1:
            raise ScheduleError(f"{self}: the size must be positive")

        def blocked(s: For) -> Sequence[Statement]:
            if not can_privatize(s) or not independent(s, s.index):
                raise ScheduleError(
                    f"{self}: it is not a loop over columns, independent of each other, around one reduction"
                )
            made, columns = privatize(s, self.block)
            loops.part(made.index, f"{self.loop}.o", s)
            for index in columns:
                loops.part(index, f"{self.loop}.i", s)
            return (made,)

        loops.change(self, self.loop, blocked)


@frozen
class Sweep(Directive):
    """Rows in blocks of `block`, `grain` of them a task, and in one pass with them the columns of the same matrix (see
    `ir.passes.sweep`; `none`: rows alone), in vectors of `width`, `factor` of them in flight.
    """

    word: ClassVar = "sweep"
    order: ClassVar = 3

    rows: str
    columns: str
    block: int
    grain: int
    width: int
    factor: int = 1

    def apply(self, loops: Loops) -> None:
        sizes = self.block, self.grain, self.width, self.factor
        if min(sizes) < 1 or self.width & (self.width - 1) or self.grain % self.block:
            raise ScheduleError(
                f"{self}: sizes must be positive, the width a power of two, the grain a multiple of the block"
            )
        body = loops.kernel.body
        at = self._place(loops, self.rows)
        rows = rows_of(self._loop(body[at]))
        if rows is None:
            raise ScheduleError(f"{self}: {self.rows} is not a loop over independent rows that are folded")
        lanes = Axis("vector", self.width, self.factor) if self.width > 1 else Axis()
        if self.columns == "none":
            made, _ = sweep(rows, None, self.block, self.grain, lanes)
            loops.kernel = loops.kernel.with_body((*body[:at], *made, *body[at + 1 :]))
            return
        end = self._place(loops, self.columns)
        columns = self._loop(body[end])
        if end < at or not can_sweep_columns(rows, columns, body[at + 1 : end]):
            raise ScheduleError(f"{self}: {self.columns} does not fold, column by column, the rows of {self.rows}")
        made, joined = sweep(rows, columns, self.block, self.grain, lanes)
        loops.kernel = loops.kernel.with_body((*body[:at], *made, *body[at + 1 : end], *joined, *body[end + 1 :]))

    def _place(self, loops: Loops, name: str) -> int:
        """Which statement of the kernel a loop is."""
        for n, s in enumerate(loops.kernel.body):
            if isinstance(s, For) and loops.names.get(s.index) == name:
                return n
        raise ScheduleError(f"{self}: kernel {loops.kernel.name} has no loop {name} that is not inside of another")

    @staticmethod
    def _loop(s: Statement) -> For:
        assert isinstance(s, For)
        return s


@frozen
class Spread(Directive):
    """A loop that adds integers to places which data say, in tasks of `grain` iterations, each with a table of its own
    (see `ir.passes.spread`), whose elements are filled and added up in vectors of `width`.
    """

    word: ClassVar = "spread"
    order: ClassVar = 1

    loop: str
    grain: int
    width: int

    def apply(self, loops: Loops) -> None:
        if self.grain < 1 or self.width < 1 or self.width & (self.width - 1):
            raise ScheduleError(f"{self}: the grain must be positive, the width a power of two")
        if not any(isinstance(s, For) and loops.names.get(s.index) == self.loop for s in loops.kernel.body):
            raise ScheduleError(
                f"{self}: kernel {loops.kernel.name} has no loop {self.loop} that is not inside of another"
            )

        def shared(s: For) -> Sequence[Statement]:
            table = table_of(s)
            if table is None:
                raise ScheduleError(f"{self}: it does not only add to the elements of one array")
            return spread(s, table, self.grain, Axis("vector", self.width, 1) if self.width > 1 else Axis())

        loops.change(self, self.loop, shared)


class _AxisDirective(Directive):
    """How a loop runs."""

    word: ClassVar = ""
    loop: str

    def apply(self, loops: Loops) -> None:
        def along(s: For) -> Sequence[Statement]:
            if s.axis.kind != "serial":
                raise ScheduleError(f"{self}: the loop is {s.axis.kind} already; a loop has one axis")
            self.check(s, loops.whole.get(s.index, s))
            return (evolve(s, axis=self.axis),)

        loops.change(self, self.loop, along)

    @property
    def axis(self) -> Axis:
        """What the loop gets."""
        raise NotImplementedError

    def check(self, s: For, whole: For) -> None:
        """Raises: ScheduleError if loop `s`, which is a part of `whole`, cannot run so."""
        raise NotImplementedError

    def independent(self, whole: For) -> None:
        if not independent(whole, whole.index):
            raise ScheduleError(f"{self}: its iterations write to memory that others read or write")


@frozen
class Parallel(_AxisDirective):
    """Iterations on the thread pool, at least `grain` a chunk."""

    word: ClassVar = "parallel"

    loop: str
    grain: int = 1

    @property
    def axis(self) -> Axis:
        return Axis("parallel", factor=self.grain)

    def check(self, s: For, whole: For) -> None:
        if self.grain < 1:
            raise ScheduleError(f"{self}: the grain must be positive")
        self.independent(whole)
        if _is_recurrence(s) or _is_scan(s):
            raise ScheduleError(f"{self}: its iterations depend on each other")
        if conflicts(s).stores:
            raise ScheduleError(f"{self}: its iterations may store to one place, and the last one counts")


@frozen
class Vector(_AxisDirective):
    """Iterations as lanes: vectors of `width`, `factor` of them in flight."""

    word: ClassVar = "vector"

    loop: str
    width: int
    factor: int = 1

    @property
    def axis(self) -> Axis:
        return Axis("vector", self.width, self.factor)

    def check(self, s: For, whole: For) -> None:
        if self.width < 2 or self.width & (self.width - 1) or self.factor < 1:
            raise ScheduleError(f"{self}: the width must be a power of two above 1, the factor positive")
        self.independent(whole)
        if _is_recurrence(s):
            raise ScheduleError(f"{self}: its iterations depend on each other")
        if any(allocated_by(inside) for inside in walk(s.body)):
            raise ScheduleError(f"{self}: each iteration has local memory of its own")
        if conflicts(s).updates:
            raise ScheduleError(f"{self}: its iterations may update one place")


@frozen
class Unroll(_AxisDirective):
    """All iterations written out."""

    word: ClassVar = "unroll"

    loop: str

    @property
    def axis(self) -> Axis:
        return Axis("unroll")

    def check(self, s: For, whole: For) -> None:
        if not (isinstance(s.lower, Const) and isinstance(s.upper, Const) and isinstance(s.upper.value, int)):
            raise ScheduleError(f"{self}: its bounds are not constant")
        if not s.params and not can_run_in_step(s):
            raise ScheduleError(f"{self}: its iterations cannot run in step")
        if conflicts(s).stores:
            raise ScheduleError(f"{self}: its iterations may store to one place, and the last one counts")


@frozen
class WhileUnroll(Directive):
    """`factor` iterations of every while loop in lanes between two looks at its mask."""

    word: ClassVar = "while_unroll"
    order: ClassVar = 3

    factor: int

    def apply(self, loops: Loops) -> None:
        if self.factor < 1:
            raise ScheduleError(f"{self}: the factor must be positive")

        def in_lanes(block: Block) -> Block:
            return tuple(
                [
                    evolve(x, unroll=self.factor) if isinstance(x, While) else x
                    for x in [map_blocks(s, in_lanes) for s in block]
                ]
            )

        def outside(block: Block) -> Block:
            return tuple(
                [map_blocks(s, in_lanes if isinstance(s, For) and s.axis.kind == "vector" else outside) for s in block]
            )

        loops.kernel = loops.kernel.with_body(outside(loops.kernel.body))


@frozen
class Grid(Directive):
    """An option of how a GPU backend shares the kernel out; the backend checks it."""

    word: ClassVar = "grid"

    option: str
    value: int | str


@frozen
class Tile(Directive):
    """A matrix product by register tiles (see `ir.passes.contract`), in place of the kernel's plain loops.

    rows x columns elements of the result in registers, columns in vectors of `width`; `depth` contracted elements a
    block; a task has at most `tall` rows and `wide` columns.  pack: which operands are copied into panels ("none",
    "lhs", "rhs", "both").  share: what runs on the pool ("none", "tasks", "batch": one product an iteration), `grain`
    iterations a chunk; "depth": `grain` contracted elements a task, whose partial sums are joined in order.  flip:
    which packed operands lie across ("none", "lhs": contiguous along rows, "rhs": contiguous along the contracted axis,
    "lhs+rhs").
    """

    word: ClassVar = "tile"
    order: ClassVar = -1

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

    def apply(self, loops: Loops) -> None:
        """The kernel that `ir.passes.contract` builds for the tile; its loops have no names."""
        if loops.kernel.product is None:
            raise ScheduleError(f"{self}: kernel {loops.kernel.name} is no matrix product")
        sizes = self.rows, self.columns, self.width, self.depth, self.tall, self.wide, self.grain
        if min(sizes) < 1 or self.width & (self.width - 1):
            raise ScheduleError(f"{self}: sizes must be positive, the width a power of two")
        for what, given, known in (
            ("pack", self.pack, ("none", "lhs", "rhs", "both")),
            ("share", self.share, ("none", "tasks", "batch", "depth")),
            ("flip", self.flip, ("none", "lhs", "rhs", "lhs+rhs")),
        ):
            if given not in known:
                raise ScheduleError(f"{self}: {what} is one of {', '.join(known)}, not {given!r}")
        if loops.product is not None:
            loops.kernel, loops.names, loops.first = loops.product.tiled(self), {}, frozenset()


def _is_scan(s: For) -> bool:
    return any(isinstance(x, Prefix) and x.params == s.params for x in s.body)


def _is_recurrence(s: For) -> bool:
    return bool(s.params) and s.combine is None


@frozen
class Schedule:
    """What to do with the loops of one kernel; prints as `split L0 64; parallel L0.o 1`."""

    directives: tuple[Directive, ...] = ()

    def __str__(self) -> str:
        return "; ".join(map(str, self.directives))


def parse_schedule(text: str) -> Schedule:
    """The inverse of `str`.  Raises ScheduleError."""
    out: list[Directive] = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        word, *rest = part.split()
        kind = Directive.kinds.get(word) if word else None
        if kind is None:
            known = ", ".join(filter(None, Directive.kinds))
            raise ScheduleError(f"not a schedule directive: {part!r}; known are {known}")
        values: list[Any] = [int(r) if r.lstrip("-").isdigit() else r for r in rest]
        types = {name: getattr(of, "__name__", of) for name, of in kind.__annotations__.items()}
        fields = [(f.name, str(types[f.name])) for f in fields_of(kind)]
        fits = all(type(v).__name__ in of.split(" | ") for v, (_, of) in zip(values, fields, strict=False))
        try:
            made = kind(*values) if fits else None
        except TypeError:  # too few, or too many
            made = None
        if made is None:
            form = " ".join([word, *[f"<{name}: {of}>" for name, of in fields]])
            raise ScheduleError(f"{part!r} is not of the form `{form}`")
        out.append(made)
    return Schedule(tuple(out))


def name_loops(body: Block) -> dict[Value, str]:
    """Loop names by index variable, in printed order."""
    names: dict[Value, str] = {}
    stack: list[Statement] = list(reversed(body))
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            names[s.index] = f"L{len(names)}"
        for block in reversed(blocks(s)):
            stack.extend(reversed(block))
    return names


def apply(kernel: Kernel, schedule: Schedule, product: Tileable | None = None) -> Kernel:
    """The kernel with its loops scheduled; `product` is what a matrix product is made of (see `Loops`).

    Raises: ScheduleError for a directive that is not legal or names no loop.
    """
    loops = Loops.of(kernel, product)
    for d in sorted(schedule.directives, key=lambda d: d.order):
        d.apply(loops)
    _check_nesting(loops.kernel.body, loops.names)
    return loops.kernel


def _check_nesting(body: Block, names: dict[Value, str], lanes: bool = False, shared: bool = False) -> None:
    """Raise ScheduleError for lanes inside of lanes, and for threads inside of threads, lanes or any other block."""
    for s in body:
        within = (lanes, shared)
        if isinstance(s, For):
            kind = s.axis.kind
            if kind == "parallel" and (lanes or shared):
                raise ScheduleError(
                    f"parallel {names.get(s.index, '')}: it is inside of another parallel, vector or conditional region"
                )
            if kind == "vector" and lanes:
                raise ScheduleError(f"vector {names.get(s.index, '')}: it is inside of another vector loop")
            within = lanes or kind == "vector", shared or kind == "parallel"
        elif blocks(s):
            within = lanes, True
        for block in blocks(s):
            _check_nesting(block, names, *within)
