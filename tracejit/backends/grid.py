"""Binds unscheduled kernels to a grid of work-items: the pass before the printers of GPU targets.

`bind_grid` cuts the top level of a kernel into device kernels that run in order:

    a nest of independent loops  one work-item an iteration, or one group a row when rows are reduced along contiguous
                                 memory
    a reduction                  groups fold fixed shares into partial results, one last group folds those
    anything else                one work-item

Scalars that cross a cut travel through one-element buffers; arrays of the top level become global temporaries.  How
work is shared out, and so every result, depends on the extents and the schedule only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from tracejit.backends.cooperative import Team, cooperates, fits, group_body
from tracejit.backends.distribute import apart, distribute, with_atomics
from tracejit.backends.group_scans import is_shared_out
from tracejit.backends.jammed import jammed
from tracejit.backends.nest import (  # fmt: skip
    GridSchedule,
    Nest,
    flatten,
    flatten_reduction,
    handed_on,
    nest_of,
    printable,
    repeatable,
    scans,
    trip_count,
)
from tracejit.backends.packed import packed
from tracejit.backends.parts import contiguous, fold_parts, part_count
from tracejit.backends.shares import block_count, share_count, split_scan, splits
from tracejit.backends.staged_copies import staged_copy
from tracejit.backends.staged_products import staged_product
from tracejit.backends.tables import tabled
from tracejit.ir.extents import Dim, Extent, evaluate, prod
from tracejit.ir.kernel import (  # fmt: skip
    Axis,
    Block,
    Buffer,
    For,
    Kernel,
    Load,
    Statement,
    Store,
    Value,
    allocated_by,
    index_const,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import accesses
from tracejit.ir.rewrite import inline, replace_buffers
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import evolve, frozen

__all__ = ["Binder", "GridProgram", "GridSchedule", "Launch", "Segment", "bind_grid", "over_partials"]


@frozen
class Launch:
    """One device kernel and how many work-items it takes: one for `packed` iterations of a loop over `extents`,
    or `grouped`, one group each.
    """

    kernel: Kernel
    extents: tuple[Extent, ...]
    work_group: int
    grouped: bool = False
    packed: int = 1

    def iterations(self, dims: Mapping[str, int]) -> int:
        """How often the outermost loop runs for given symbols."""
        return math.prod(max(0, evaluate(n, dims)) for n in self.extents)

    def items(self, dims: Mapping[str, int]) -> int:
        """The global size for given symbols: a multiple of the work-group; 0 where there is nothing to do."""
        count = self.iterations(dims)
        return (count if self.grouped else -(-count // (self.work_group * self.packed))) * self.work_group


@frozen
class GridProgram:
    """Device kernels in the order in which they run, and the global memory they pass values through."""

    launches: tuple[Launch, ...]
    temporaries: tuple[Buffer, ...]


def bind_grid(kernel: Kernel, schedule: GridSchedule | None = None) -> GridProgram:
    """Share out a kernel over work-items.  A kernel whose top level has a grid loop is taken as scheduled."""
    schedule = schedule or GridSchedule()
    scheduled = next((s for s in kernel.body if isinstance(s, For) and s.axis.kind == "grid"), None)
    if scheduled is not None:
        return GridProgram((_as_scheduled(kernel, scheduled, schedule),), ())
    binder = Binder(kernel, schedule)
    binder.run()
    return GridProgram(tuple(binder.named()), tuple(binder.temporaries))


def _as_scheduled(kernel: Kernel, loop: For, schedule: GridSchedule) -> Launch:
    count = trip_count(loop)
    if count is None or len([s for s in kernel.body if isinstance(s, For)]) > 1:
        raise UnsupportedError(
            f"kernel {kernel.name}: a scheduled kernel is one grid loop with bounds known at the launch"
        )
    sizes = [trip_count(s) for s in walk(loop.body) if isinstance(s, For) and s.axis.kind == "block"]
    if not sizes:
        return Launch(kernel, (count,), schedule.work_group, packed=loop.axis.width)
    if not all(isinstance(n, int) for n in sizes):
        raise UnsupportedError(f"kernel {kernel.name}: the extents of block loops are numbers, not {sizes}")
    return Launch(kernel, (count,), max(n for n in sizes if isinstance(n, int)), grouped=True)


_SMALL_GROUP = 32  # work-items that a device runs in step
_TILES_GROUP = 128  # work-items of which each has a tile of a product in its registers: 256 take half as long again


@define(eq=False)
class Segment:
    """Statements of the top level that run in one device kernel (or two, for a reduction).  kind:
    "nest", "reduction", "single".
    """

    kind: str
    statements: list[Statement] = field(factory=list[Statement])
    defines: set[Value] = field(factory=set[Value])


def _uses(body: Iterable[Statement]) -> set[Value]:
    """The values that statements read, nested blocks and combiners included."""
    found: set[Value] = set()
    stack = [tuple(body)]
    while stack:
        for s in walk(stack.pop()):
            found.update(x for x in operands_of(s) if isinstance(x, Value))
            if isinstance(s, For) and s.combine is not None:
                found.update(x for x in s.combine.results if isinstance(x, Value))
                stack.append(s.combine.body)
    return found


@define(eq=False)
class Binder:
    """The device kernels, temporaries and crossing scalars of one kernel."""

    kernel: Kernel
    schedule: GridSchedule
    launches: list[Launch] = field(factory=list[Launch])
    temporaries: list[Buffer] = field(factory=list[Buffer])
    spilled: dict[Value, Buffer] = field(factory=dict[Value, Buffer])
    body: Block = ()
    pure: dict[Value, Statement] = field(factory=dict[Value, Statement])  # statements that any device kernel may repeat

    def run(self) -> None:
        """Cut, spill, and make a device kernel of each part."""
        self.body = self.shaped(self.globals_for_top_arrays(self.kernel.body))
        written = accesses(self.body).writes
        self.pure = {r: s for s in self.body if repeatable(s, written) for r in results_of(s)}
        segments = self._cut(frozenset(self.pure.values()))
        self._spill(segments)
        for segment in segments:
            match segment.kind:
                case "nest":
                    self.nest(segment)
                case "reduction" if self._shareable(segment):
                    self.reduction(segment)
                case _:
                    self.single(segment)

    def shaped(self, body: Block) -> Block:
        """The top level with its loops in a form that more work-items can share."""
        return tuple(
            with_atomics(p, self.schedule.atomics) if self.kind(p) != "reduction" and isinstance(p, For) else p
            for s in body
            for t in self._scan(s)
            for u in apart(t, self.schedule.atomics)
            for p in distribute(u)
        )

    def kind(self, s: Statement) -> str:
        """What becomes of a statement of the top level."""
        if not isinstance(s, For):
            return "single"
        if cooperates(s):
            return "reduction"
        return "nest" if nest_of(s).free else "single"

    def printable(self, body: Block) -> Block:
        """What the printer takes."""
        return printable(body, self.schedule.fold)

    def _cut(self, pure: frozenset[Statement]) -> list[Segment]:
        """Cut the top level at its loop nests; what lies between is joined, and follows a reduction in its last
        group.
        """
        segments: list[Segment] = []
        for s in self.body:
            if s in pure:
                continue
            kind = self.kind(s)
            if not segments or kind != "single" or segments[-1].kind == "nest":
                segments.append(Segment(kind))
            segments[-1].statements.append(s)
            segments[-1].defines.update(results_of(s))
        return segments

    # Memory

    def temporary(self, dtype: str, shape: tuple[Extent, ...]) -> Buffer:
        taken = {b.name for b in (*self.kernel.buffers, *self.temporaries)}
        name = next(n for n in (f"temporary{i}" for i in range(len(taken) + 1)) if n not in taken)
        made = Buffer(name, dtype, shape)
        self.temporaries.append(made)
        return made

    def globals_for_top_arrays(self, body: Block) -> Block:
        """Arrays of the top level are seen by several device kernels, or by all work-items of one."""
        arrays = [b for s in body for b in allocated_by(s)]
        return replace_buffers(body, {b: self.temporary(b.dtype, b.shape) for b in arrays})

    def globals_for_large_arrays(
        self, body: Block, index: tuple[Value, ...] = (), extents: tuple[Extent, ...] = ()
    ) -> Block:
        """Private arrays that are too large, or of symbolic size, become slices of a temporary, one an iteration."""
        large = [b for s in walk(body) for b in allocated_by(s) if not fits(b, self.schedule.array_bytes)]
        return replace_buffers(body, {b: self.temporary(b.dtype, (*extents, *b.shape)) for b in large}, index)

    # Scalars between device kernels

    def with_pure(self, statements: Sequence[Statement]) -> Block:
        """`statements` with the pure ones they need, in the order of the top level."""
        kept: set[Statement] = set(statements)
        stack = list(_uses(statements))
        while stack:
            s = self.pure.get(stack.pop())
            if s is not None and s not in kept:
                kept.add(s)
                stack += _uses((s,))
        return tuple(s for s in self.body if s in kept)

    def _spill(self, segments: Sequence[Segment]) -> None:
        """A value that a later segment needs and cannot compute again gets a buffer."""
        for n, segment in enumerate(segments):
            needed: set[Value] = set()
            for later in segments[n + 1 :]:
                needed |= _uses(self.with_pure(later.statements))
            for crossing in sorted(segment.defines & needed, key=lambda v: v.id):
                self.spilled[crossing] = self.temporary(crossing.dtype, ())

    def loads(self, segment: Segment) -> list[Statement]:
        needed = _uses(self.with_pure(segment.statements)) - segment.defines
        return [Load(v, b, ()) for v, b in self.spilled.items() if v in needed]

    def saves(self, segment: Segment) -> list[Statement]:
        return [Store(b, (), v) for v, b in self.spilled.items() if v in segment.defines]

    # Device kernels

    def add(
        self,
        body: Sequence[Statement],
        extents: tuple[Extent, ...],
        work_group: int,
        grouped: bool = False,
        pack: int = 1,
    ) -> None:
        """A device kernel of `body`, with the buffers that it touches."""
        block = self.printable(tuple(body))
        touched = accesses(block)
        used = [b for b in (*self.kernel.buffers, *self.temporaries) if b in touched.reads or b in touched.writes]
        outputs = frozenset(b.name for b in touched.writes)
        kernel = evolve(self.kernel, body=block, buffers=tuple(used), outputs=outputs)
        self.launches.append(Launch(kernel, extents, work_group, grouped, pack))

    def named(self) -> list[Launch]:
        """The launches, their kernels numbered where there are several."""
        if len(self.launches) == 1:
            return self.launches
        return [evolve(a, kernel=evolve(a.kernel, name=f"{a.kernel.name}_{n}")) for n, a in enumerate(self.launches)]

    def single(self, segment: Segment) -> None:
        body = self.globals_for_large_arrays(self.with_pure(segment.statements))
        self.add((*self.loads(segment), *body, *self.saves(segment)), (), 1)

    def nest(self, segment: Segment) -> None:
        (root,) = segment.statements
        assert isinstance(root, For)
        head = (*self.loads(segment), *self.with_pure([root])[:-1])
        nest = nest_of(root)
        counts = [trip_count(loop) for loop in nest.free]
        extents = tuple(n for n in counts if n is not None)
        fixed, wide = len(extents) == len(counts), self.schedule.wide
        most = self.schedule.work_group
        for staged in (staged_product, staged_copy) if fixed else ():
            if (tiles := staged(nest, extents, self.schedule)) is not None:
                body = flatten(tiles.free, Axis("grid"), tiles.body, wide=wide)
                self.add((*head, *body), tiles.extents, tiles.work_group, grouped=True)
                return
        if fixed and (tables := tabled(nest, extents, self.schedule)) is not None:
            self.add((*head, *tables.loops), (tables.groups,), most, grouped=True)
            return
        parts = part_count(nest, extents, self.schedule) if fixed else 1
        if parts > 1:
            (reduction,) = (s for s in nest.body if isinstance(s, For))
            partials = [self.temporary(p.dtype, (parts, *extents)) for p in reduction.params]
            part, folded, joined = fold_parts(nest, partials)
            self.add(
                (*head, *flatten((part, *nest.free), Axis("grid"), folded, wide=wide)),
                (parts, *extents),
                self.schedule.work_group,
            )
            nest = Nest(nest.free, (), joined)
        elif fixed and (jam := jammed(nest, extents, self.schedule)) is not None:
            nest, most = jam, _TILES_GROUP
            extents = tuple(n for n in map(trip_count, nest.free) if n is not None)
        elif fixed and _prefers_group(nest, extents, self.schedule):
            body = group_body(nest.body, self.schedule)
            if body is not None:
                self.add(
                    (*head, *flatten(nest.free, Axis("grid"), body, wide=wide)),
                    extents,
                    self.schedule.work_group,
                    grouped=True,
                )
                return
        large = any(not fits(b, self.schedule.array_bytes) for s in walk(nest.body) for b in allocated_by(s))
        if large and not fixed:
            self.single(segment)
            return
        flat = Value("i64") if large or not fixed else None
        body = nest.body if flat is None else self.globals_for_large_arrays(nest.body, (flat,), (prod(extents),))
        *before, loop = flatten(nest.free, Axis("grid"), body, flat, wide)
        assert isinstance(loop, For)
        loop = packed(loop, self.schedule)
        width, count = loop.axis.width, trip_count(loop)
        # bounds that depend on data: so many work-items stride over the loop, unless an empty loop is around it
        items = extents if fixed else (self.schedule.items if count is None else count,)
        self.add((*head, *before, loop), items, min(most, self._group_size(prod(items), width)), pack=width)

    def _group_size(self, iterations: Extent, width: int) -> int:
        """Smaller groups where work-items are few, so that all parts of a device have some."""
        size, schedule = self.schedule.work_group, self.schedule
        if schedule.contiguous or isinstance(iterations, Dim):
            return size
        while size > _SMALL_GROUP and iterations < size * width * schedule.groups // 4:
            size //= 2
        return size

    def _scan(self, s: Statement) -> Block:
        """A long scan of the top level as nests: fold shares, scan the shares' results, scan each share from there.
        Where there are many shares, those of each block of them are folded first.
        """
        if not isinstance(s, For) or s.combine is None or not scans(s):
            return (s,)
        count = trip_count(s)
        if count is None or not splits(s):
            return (s,)
        shares = share_count(count, self.schedule.shares)
        if shares == 1:
            return (s,)
        blocks = block_count(shares) if shares > self.schedule.in_order else 0
        partials, of_blocks = ([self.temporary(p.dtype, (n,)) for p in s.params if n] for n in (shares, blocks))
        return split_scan(s, partials, of_blocks, count)

    def _shareable(self, segment: Segment) -> bool:
        inside = walk((segment.statements[0],))
        return all(fits(b, self.schedule.array_bytes) for s in inside for b in allocated_by(s))

    def reduction(self, segment: Segment) -> None:
        """Partial results by many groups, then one group for those and for the statements that follow."""
        root, lanes = segment.statements[0], self.schedule.work_group
        assert isinstance(root, For)
        handed = root if self.schedule.contiguous else handed_on(root)
        loop = flatten_reduction(handed) if accesses((root,)).pure else root
        loads, before = self.loads(segment), self.with_pure([root])[:-1]
        groups = _group_count(loop, self.schedule)
        if groups > 1:
            partials = [self.temporary(p.dtype, (groups,)) for p in loop.params]
            self.add(
                (*loads, *before, _partial_results(loop, partials, groups, self.schedule)),
                (groups,),
                lanes,
                grouped=True,
            )
            loop = over_partials(loop, partials)
        everything = self.with_pure(segment.statements)
        at = everything.index(root)
        last = Team(lanes, self.schedule.contiguous)
        last.reduce(loop, root.results)
        after = (*self.globals_for_large_arrays(everything[at + 1 :]), *self.saves(segment))
        if after:
            last.alone(*after)
        self.add((*loads, *everything[:at], _one_group(last.statements)), (1,), lanes, grouped=True)


def _prefers_group(nest: Nest, extents: Sequence[Extent], schedule: GridSchedule) -> bool:
    """Whether a group takes a row: rows are long, and either contiguous or too few to occupy a device with one
    work-item each.
    """
    if schedule.rows != "auto":
        return schedule.rows == "group"
    reductions = [s for s in nest.body if isinstance(s, For) and cooperates(s)]
    counts = [trip_count(s) for s in reductions]
    if not reductions and any(_scanned_by_group(s, schedule) for s in nest.body):
        return True
    if not reductions:
        return _shares_inner_loops(nest, schedule)
    if any(isinstance(n, int) and n < schedule.group_extent for n in counts):
        return False
    rows = prod(extents)
    few = not isinstance(rows, Dim) and rows < 1024 and all(isinstance(n, int) and n >= 1024 for n in counts)
    return few or all(contiguous(s) for s in reductions)


def _scanned_by_group(s: Statement, schedule: GridSchedule) -> bool:
    """Whether a group scans contiguous memory: rows that are long enough, or of which it is not known how long."""
    if schedule.stage == 1 or not isinstance(s, For) or not scans(s) or not is_shared_out(s):
        return False
    count = trip_count(s)
    return contiguous(s) and not (isinstance(count, int) and count < schedule.group_extent * 4)


def _shares_inner_loops(nest: Nest, schedule: GridSchedule) -> bool:
    """Whether a row consists of long loops whose iterations are independent."""
    loops = [s for s in nest.body if isinstance(s, For)]
    counts = [trip_count(s) for s in loops]
    long = all(n is not None and (isinstance(n, Dim) or n >= schedule.group_extent) for n in counts)
    return bool(loops) and long and all(nest_of(s).free for s in loops)


def _group_count(loop: For, schedule: GridSchedule) -> int:
    """How many groups share a reduction: each lane should have some iterations."""
    count = trip_count(loop)
    if not isinstance(count, int):
        return schedule.groups
    wanted = count // (schedule.work_group * 8)
    return max(1, min(schedule.groups, wanted))


def _partial_results(loop: For, partials: Sequence[Buffer], groups: int, schedule: GridSchedule) -> For:
    """Each group folds its share of `loop` into one element of each of `partials`."""
    group = Value("i64")
    team = Team(schedule.work_group, schedule.contiguous)
    results = tuple(Value(p.dtype) for p in loop.params)
    team.reduce(loop, results, (group, groups))
    team.alone(*(Store(b, (group,), v) for b, v in zip(partials, results, strict=True)))
    return For(group, index_const(0), index_const(groups), team.statements, Axis("grid"))


def over_partials(loop: For, partials: Sequence[Buffer]) -> For:
    """The reduction of the groups' results."""
    assert loop.combine is not None
    index, params = Value("i64"), tuple(Value(p.dtype) for p in loop.params)
    elements = tuple(Value(p.dtype) for p in loop.params)
    loads = tuple(Load(v, b, (index,)) for v, b in zip(elements, partials, strict=True))
    body, yields = inline(loop.combine, (*params, *elements))
    results = tuple(Value(p.dtype) for p in loop.params)
    upper = index_const(partials[0].shape[0])
    return For(
        index,
        index_const(0),
        upper,
        (*loads, *body),
        params=params,
        inits=loop.inits,
        yields=yields,
        results=results,
        combine=loop.combine,
    )


def _one_group(body: Block) -> For:
    return For(Value("i64"), index_const(0), index_const(1), body, Axis("grid"))
