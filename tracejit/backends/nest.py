"""Loop nests: their independent loops, flattening, and the blocked fold of long sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tracejit.ir.builder import ScalarRecorder
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import (
    SERIAL,
    Axis,
    Block,
    Buffer,
    Const,
    For,
    Lambda,
    Load,
    Op,
    Operand,
    Prefix,
    Statement,
    Value,
    accesses_of,
    index_const,
    is_pure,
    results_of,
    walk,
)
from tracejit.ir.passes.independence import accesses, independent
from tracejit.ir.rewrite import inline, map_blocks
from tracejit.ir.scalar import OPS, is_float
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import evolve, frozen

__all__ = [
    "GridSchedule", "Nest", "constant_bounds", "flatten", "flatten_reduction", "fold_in_blocks", "handed_on", "nest_of",
    "printable", "recurrence", "repeatable", "rounds", "scans", "trip_count", "values_like", "without_prefixes",
]  # fmt: skip


@frozen
class GridSchedule:
    """How kernels are shared out over a grid.

    work_group: work-items a group, fewer where there are few.  groups: partial results of a reduction to a scalar.
    rows: "item" (one work-item a row), "group" (one group) or "auto" (by extents and by which index is the contiguous
    one).  group_extent: rows at least this long may take a group.  part_extent: columns are folded in parts of at least
    as many.  fold: sums longer than twice this are folded in blocks.  array_bytes: larger private arrays live in global
    memory.  shared_bytes: what a group may use.  shares: most parts of a long scan, whose results one work-item scans
    where they are at most `in_order`.  items: work-items for loops whose bounds depend on data.  pack: neighbouring
    elements that a work-item takes at once in plain loops of at least `pack_extent` iterations.  jam: most rows, and
    columns, of a product that a work-item takes at once.  stage: most of them that a group takes from shared memory;
    1: none.  contiguous: a lane of a reduction takes neighbouring elements
    (right for processors), not every n-th (right for GPUs).  wide: nests of symbolic extents may have 2**31 iterations
    and more.  atomics: dtypes whose integer updates may use them.  tables: those of which groups may keep tables of
    their own in shared memory while they update them.  cores: work-items are threads of a processor, among
    which `cores.bind_cores` shares out loops that are scheduled for it.
    """

    work_group: int = 128
    groups: int = 64
    rows: str = "auto"
    group_extent: int = 64
    part_extent: int = 64
    fold: int = 128
    array_bytes: int = 2048
    shared_bytes: int = 16384
    shares: int = 1024
    in_order: int = 2048
    items: int = 16384
    pack: int = 1
    pack_extent: int = 1 << 16
    jam: int = 1
    stage: int = 1
    contiguous: bool = False
    wide: bool = False
    atomics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    cores: bool = False

    def __post_init__(self) -> None:
        for name, number in (
            ("work_group", self.work_group),
            ("groups", self.groups),
            ("pack", self.pack),
            ("jam", self.jam),
            ("stage", self.stage),
        ):
            if number < 1 or number & (number - 1):
                raise ScheduleError(f"GridSchedule.{name} must be a power of two, not {number}")


def constant_bounds(loop: For) -> bool:
    """Whether both bounds are numbers or polynomials of dims."""
    return isinstance(loop.lower, Const) and isinstance(loop.upper, Const)


def trip_count(loop: For) -> Extent | None:
    """The number of iterations; None where it depends on data."""
    if not (isinstance(loop.lower, Const) and isinstance(loop.upper, Const)):
        return None
    count: Extent = loop.upper.value - loop.lower.value
    if isinstance(count, Dim):
        return _at_least_zero(count) if loop.step == 1 else _at_least_zero(count + (loop.step - 1)) // loop.step
    return max(0, -(-count // loop.step))


def _at_least_zero(n: Extent) -> Extent:
    return n.maximum(0) if isinstance(n, Dim) else max(0, n)


@frozen
class Nest:
    """A perfect nest: its independent loops, those that must run in order, and the innermost block."""

    free: tuple[For, ...]
    ordered: tuple[For, ...]
    block: Block

    @property
    def body(self) -> Block:
        """What one iteration of the independent loops runs."""
        body = self.block
        for loop in reversed(self.ordered):
            body = (evolve(loop, body=body, axis=SERIAL),)
        return body


def nest_of(root: For) -> Nest:
    """The nest that starts at `root`; what stands before an inner loop and is cheap to repeat moves into it.

    A loop that a schedule calls parallel is taken at its word where all loops around it are free.
    """
    loops, block = [root], root.body
    known = {root.index}
    written = accesses((root,)).writes
    while (inner := _inner_loop(loops[-1], known, written)) is not None:
        known |= {v for s in block[:-1] for v in results_of(s)} | {inner.index}
        loops.append(inner)
        block = (*block[:-1], *inner.body)
    free: list[For] = []
    ordered: list[For] = []
    for loop in loops:
        stated = loop.axis.kind in ("parallel", "vector", "grid") and not ordered
        (free if _plain(loop) and (stated or independent(root, loop.index)) else ordered).append(loop)
    return Nest(tuple(free), tuple(ordered), block)


_CHEAP = 24.0  # vector adds that are repeated rather than leave the loops after them to one work-item


def _inner_loop(loop: For, known: set[Value], written: frozenset[Buffer]) -> For | None:
    """The plain loop that `loop` ends in, if all before it can be repeated and its bounds are known outside
    of the nest.
    """
    *before, inner = loop.body or (None,)
    if not (_plain(loop) and isinstance(inner, For) and _plain(inner)):
        return None
    if not all(repeatable(s, written) for s in before) or sum(_cost(s) for s in before) > _CHEAP:
        return None
    outside = known | {v for s in before for v in results_of(s)}
    return None if inner.lower in outside or inner.upper in outside else inner


def repeatable(s: Statement, written: frozenset[Buffer]) -> bool:
    """Whether a statement gives the same values wherever it is computed: it reads no memory that is written."""
    return is_pure(s) and not any(a.buffer in written for a in accesses_of(s))


def _cost(s: Statement) -> float:
    return OPS[s.op].cost if isinstance(s, Op) else 2.0


def _plain(loop: For) -> bool:
    return not loop.params and loop.step == 1


def flatten(loops: Sequence[For], axis: Axis, body: Block, flat: Value | None = None, wide: bool = True) -> Block:
    """One loop over all iterations of `loops`, the last one fastest, after the statements that find how many there are.

    `flat`, where given, is its index, from 0.  Division is slow in 64 bits: 32 are used where the number of iterations
    is known to be below 2**31, or promised by not `wide`.
    """
    if len(loops) == 1 and flat is None:
        return (evolve(loops[0], axis=axis, body=body),)
    head, recorder = ScalarRecorder(), ScalarRecorder()
    counts = [_count(head, loop) for loop in loops]
    total: Operand = counts[0]
    for count in counts[1:]:
        total = head.op("mul", total, count)
    index = flat or Value("i64")
    rest: Operand = index
    if _below_2_31(total, wide):
        rest = recorder.op("convert", index, dtype="u32")
        inner = [Const(c.value, "u32") if _is_number(c) else head.op("convert", c, dtype="u32") for c in counts[1:]]
        counts = [counts[0], *inner]
    for n, (loop, count) in reversed(list(enumerate(zip(loops, counts, strict=True)))):
        here = recorder.op("irem", rest, count) if n else rest
        rest = recorder.op("idiv", rest, count) if n else rest
        if loop.lower == index_const(0):
            recorder.statements.append(Op(loop.index, "convert", (here,)))
        else:
            recorder.statements.append(Op(loop.index, "add", (recorder.op("convert", here, dtype="i64"), loop.lower)))
    return (*head.statements, For(index, index_const(0), total, (*recorder.statements, *body), axis))


def _is_number(x: Operand) -> TypeGuard[Const]:
    return isinstance(x, Const) and not isinstance(x.value, Dim)


def _below_2_31(total: Operand, wide: bool) -> bool:
    return total.value < 2**31 if _is_number(total) else isinstance(total, Const) and not wide


def _count(recorder: ScalarRecorder, loop: For) -> Operand:
    count = trip_count(loop)
    return (
        recorder.op("max", recorder.op("sub", loop.upper, loop.lower), index_const(0))
        if count is None
        else index_const(count)
    )


def values_like(values: Sequence[Value]) -> tuple[Value, ...]:
    """New values of the same dtypes."""
    return tuple(Value(v.dtype) for v in values)


def flatten_reduction(loop: For) -> For:
    """A reduction over several loops that only pass their carries on, as one loop; others come back unchanged."""
    loops, before = [loop], list[Statement]()
    while (inner := _continues(loops[-1])) is not None:
        before += loops[-1].body[:-1]
        loops.append(inner)
    if len(loops) == 1 or not all(s.step == 1 and constant_bounds(s) for s in loops):
        return loop
    last = loops[-1]
    *head, flat = flatten(loops, SERIAL, (*before, *last.body), Value("i64"))
    if head or not isinstance(flat, For):  # how many iterations there are is computed in the program
        return loop
    return evolve(
        flat, params=last.params, inits=loop.inits, yields=last.yields, results=loop.results, combine=last.combine
    )


def handed_on(loop: For) -> For:
    """A reduction that combines its carries with the results of an inner one that starts anew, as one that hands the
    carries on to it; others come back unchanged.
    """
    place = next((n for n, s in enumerate(loop.body) if isinstance(s, For)), None)
    if place is None or loop.combine is None:
        return loop
    inner, after = loop.body[place], loop.body[place + 1 :]
    assert isinstance(inner, For)
    inner = handed_on(inner)
    anew = tuple(inner.inits) == tuple(loop.inits) and all(isinstance(i, Const) for i in inner.inits)
    if inner.combine is None or scans(inner) or not anew:
        return loop
    joined = inline(loop.combine, (*loop.params, *inner.results))
    elements = (*loop.params, *inner.params)
    same = _alike(inline(loop.combine, elements), inline(inner.combine, elements))
    if not same or not _alike(joined, (after, tuple(loop.yields))):
        return loop
    body = (*loop.body[:place], evolve(inner, inits=loop.params))
    return evolve(loop, body=body, yields=inner.results)


def _alike(one: tuple[Block, tuple[Operand, ...]], other: tuple[Block, tuple[Operand, ...]]) -> bool:
    """Whether two straight-line blocks compute the same, in the same order."""
    known: dict[Operand, Operand] = {}
    for a, b in zip(*(block for block, _ in (one, other)), strict=False):
        if not isinstance(a, Op) or not isinstance(b, Op) or (a.op, a.out.dtype) != (b.op, b.out.dtype):
            return False
        if tuple(known.get(x, x) for x in a.args) != tuple(b.args):
            return False
        known[a.out] = b.out
    return len(one[0]) == len(other[0]) and tuple(known.get(x, x) for x in one[1]) == other[1]


def _continues(loop: For) -> For | None:
    """The inner reduction that `loop` ends in, if it takes the carries over and what stands before it is cheap to
    repeat.
    """
    *before, inner = loop.body or (None,)
    if not isinstance(inner, For) or inner.combine is None or scans(inner):
        return None
    cheap = all(isinstance(s, Load) or (isinstance(s, Op) and OPS[s.op].cost <= 2) for s in before)
    same = tuple(inner.inits) == tuple(loop.params) and tuple(loop.yields) == tuple(inner.results)
    return inner if cheap and same else None


def scans(loop: For) -> bool:
    """Whether a loop with a combiner is a scan, not a reduction."""
    return any(isinstance(s, Prefix) for s in loop.body)


def without_prefixes(body: Block) -> Block:
    """Scans as recurrences: each prefix is the combiner applied to the carries."""

    def run(block: Block) -> Block:
        return tuple(recurrence(map_blocks(s, run)) for s in block)

    return run(body)


def recurrence(s: Statement) -> Statement:
    """A scan as a loop with carries; other statements come back unchanged."""
    if not isinstance(s, For) or s.combine is None or not scans(s):
        return s
    body: list[Statement] = []
    for inner in s.body:
        if not isinstance(inner, Prefix):
            body.append(inner)
            continue
        statements, results = inline(s.combine, (*inner.params, *inner.elements))
        body += [*statements, *(Op(out, "convert", (r,)) for out, r in zip(inner.outs, results, strict=True))]
    return evolve(s, body=tuple(body), combine=None)


def rounds(combine: Lambda) -> bool:
    """Whether combining rounds, so that the order matters for accuracy."""
    return any(
        isinstance(s, Op) and s.op in ("add", "sub", "mul", "fma", "div") and is_float(s.out.dtype)
        for s in walk(combine.body)
    )


def fold_in_blocks(body: Block, size: int) -> Block:
    """Long serial sums fold blocks of `size` iterations from the identity, then combine the blocks; where there are
    many of these, blocks of blocks.

    The error grows with size * log(n) / log(size), not with n; with size + n / size**3 where n is not known.
    """

    def run(block: Block) -> Block:
        return tuple(_blocked(map_blocks(s, run), size) for s in block)

    return run(body)


_LEVELS = 3  # of blocks, where the number of iterations is not known


def _blocked(s: Statement, size: int, level: int = 0) -> Statement:
    if (
        not isinstance(s, For)
        or s.combine is None
        or not rounds(s.combine)
        or not all(isinstance(i, Const) for i in s.inits)
    ):
        return s
    count = trip_count(s)
    if level == _LEVELS if count is None or isinstance(count, Dim) else count <= 2 * size:
        return s
    start, params = Value("i64"), tuple(Value(p.dtype) for p in s.params)
    recorder = ScalarRecorder()
    stop = recorder.op("min", recorder.op("add", start, index_const(size * s.step)), s.upper)
    partial = tuple(Value(p.dtype) for p in s.params)
    inner = evolve(s, lower=start, upper=stop, results=partial)
    joined, yields = inline(s.combine, (*params, *partial))
    block = (*recorder.statements, inner, *joined)
    outer = For(start, s.lower, s.upper, block, SERIAL, params, s.inits, yields, s.results, s.combine, size * s.step)
    return _blocked(outer, size, level + 1)


def printable(body: Block, fold: int = 128) -> Block:
    """What a printer takes: scans as recurrences, long serial sums in blocks of `fold` iterations."""
    return fold_in_blocks(without_prefixes(body), fold)
