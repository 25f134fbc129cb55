"""The default schedule of a kernel on a CPU: which loop becomes lanes, which is shared among threads, and how finely.

For each top-level loop nest every loop that may be the vector loop is rated by what memory access and arithmetic would
cost under it: contiguous and broadcast access cost one instruction a vector, anything else one a lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from tracejit.autotune.products import product_tile
from tracejit.autotune.rating import Nest, lanes_of, natural_width, nests_of, strides_in, vector_loops
from tracejit.ir.conflicts import conflicts
from tracejit.ir.extents import prod
from tracejit.ir.kernel import (
    Block,
    Buffer,
    Const,
    For,
    Kernel,
    Op,
    Prefix,
    Value,
    While,
    accesses_of,
    walk,
)
from tracejit.ir.passes.cut import can_cut, cut
from tracejit.ir.passes.independence import can_run_in_step, independent
from tracejit.ir.passes.privatize import can_privatize
from tracejit.ir.passes.spread import table_of
from tracejit.ir.passes.sweep import can_sweep_columns, rows_of
from tracejit.ir.scalar import BITS, OPS, is_float
from tracejit.ir.schedule import (
    Cut,
    Directive,
    Parallel,
    Privatize,
    Schedule,
    Split,
    Spread,
    Sweep,
    Unroll,
    Vector,
    WhileUnroll,
    apply,
    name_loops,
)
from tracejit.support.errors import ScheduleError

__all__ = ["heuristic_schedule", "threads_schedule"]

FEW_CHUNKS = 4
MANY_CHUNKS = 32  # beyond it threads finish together anyway
CHUNK_COST = 60_000.0  # vector-add units of work worth handing to another thread: about 6 us
JAM = 8  # a loop of so few iterations around other loops is written out
MOST_JAMMED = 64  # copies of what is inside of several such loops
LARGE = 4 << 20  # bytes: a column reduction over more reads rows in order (see Privatize)
COLUMNS = 2048  # columns of a block then
TABLE = 1 << 14  # elements of an array that many are added to, of which each task has one
FEW_PLACES = 1 << 10  # of one where it is not known that they are many
SPREAD = 1 << 15  # additions worth a task
SWEPT_ROWS = 8  # rows at a time, of a matrix whose rows and columns are folded in one pass
FOLLOWED = 16  # of those that are folded and then take a function which costs as much as COSTLY vector adds
COSTLY = 16.0
SWEPT = 1 << 17  # elements of it worth a task
NEAR = 16384  # bytes: as many of a block stay in the nearest cache, with all else
# floating-point sums longer than twice this (in each lane) are folded in blocks, so that errors grow as in pairwise
# sums
FOLD = 128
_SCALAR_BITS = 128  # of vectors by which the cost of loops without any is estimated: a compiler may find some


def heuristic_schedule(kernel: Kernel, vector_bits: int) -> Schedule:
    """The default schedule on a CPU with vectors of `vector_bits`."""
    tile = None if kernel.product is None else product_tile(kernel.product, vector_bits)
    if tile is not None:
        return Schedule((tile,))
    names = name_loops(kernel.body)
    swept = _swept(kernel, names, vector_bits)
    if swept is not None:
        return swept
    apart: list[str] = []
    out = _schedule_nests(kernel.body, names, vector_bits, apart)
    if apart:
        out = _legal(kernel, out)
    else:
        out = _rows_in_lanes(kernel.body, out, names, vector_bits)
    if any(isinstance(s, While) for s in walk(kernel.body)):
        out.append(WhileUnroll(4))
    return Schedule(tuple(out))


def threads_schedule(kernel: Kernel) -> Schedule:
    """The default schedule on a processor's threads, without vectors: the outermost loops that are worth it."""
    names = name_loops(kernel.body)
    out: list[Directive] = []
    for nest in nests_of(kernel.body):
        grain = 0 if nest.guarded else _grain(nest, vector_loops(nest, _SCALAR_BITS)[1])
        if grain:
            out.append(Parallel(names[nest.loop.index], grain))
    return Schedule(tuple(_legal(kernel, out)))


def _swept(kernel: Kernel, names: dict[Value, str], vector_bits: int) -> Schedule | None:
    """The schedule of a kernel that `compiler/share.py` has made of one over rows and one over columns."""
    places = [n for n, s in enumerate(kernel.body) if isinstance(s, For)]
    if len(places) != 2:
        return None
    at, end = places
    top, columns = kernel.body[at], kernel.body[end]
    assert isinstance(top, For) and isinstance(columns, For)
    rows = rows_of(top)
    if rows is None or not can_sweep_columns(rows, columns, kernel.body[at + 1 : end]):
        return None
    nests = [n for n in nests_of(kernel.body) if n.loop is top or n.loop is columns]
    inner: list[Directive] = []
    for fold in _innermost(nests[0].children):
        inner += _in_lanes(fold, names[fold.loop.index], vector_bits)
    width = natural_width(nests[1], vector_bits)
    length = columns.upper.value if isinstance(columns.upper, Const) and isinstance(columns.upper.value, int) else 0
    block = SWEPT_ROWS if length * SWEPT_ROWS * 8 <= NEAR else SWEPT_ROWS // 2
    grain = max(block, SWEPT // max(length, 64) // block * block)
    return Schedule((*inner, Sweep(names[top.index], names[columns.index], block, grain, width, 4)))


def _rows_in_lanes(
    body: Block, directives: list[Directive], names: dict[Value, str], vector_bits: int
) -> list[Directive]:
    """The directives, with those loops over rows in blocks whose rows are folded and then take a costly function: that
    runs in lanes.
    """
    out = list(directives)
    for s in body:
        if not isinstance(s, For) or not isinstance(s.upper, Const):
            continue
        name = names[s.index]
        mine = [d for d in out if getattr(d, "loop", "") == name]
        table = None if mine else table_of(s)
        if table is not None:
            out += _spread(s, table, name, vector_bits)
            continue
        if any(not isinstance(d, Parallel) for d in mine) or (rows := rows_of(s)) is None:
            continue
        if sum(OPS[x.op].cost for x in rows.after if isinstance(x, Op)) < COSTLY or not rows.between:
            continue
        grain = mine[0].grain if mine and isinstance(mine[0], Parallel) else FOLLOWED * 64
        at = out.index(mine[0]) if mine else len(out)
        width = max(2, vector_bits // max(BITS[v.dtype] for v in rows.between))
        out[at : at + len(mine)] = [Sweep(name, "none", FOLLOWED, -(-grain // FOLLOWED) * FOLLOWED, width)]
    return out


def _spread(loop: For, table: Buffer, name: str, vector_bits: int) -> list[Directive]:
    """How a loop that adds to elements of a table is shared out, if it is long and the table is small."""
    size, count = prod(table.shape), loop.upper.value if isinstance(loop.upper, Const) else 0
    assert isinstance(size, int)
    grain = max(SPREAD, 32 * size)
    if size > TABLE or (count < 2 * grain if isinstance(count, int) else size > FEW_PLACES):
        return []
    if isinstance(count, int):
        grain = max(grain, -(-count // MANY_CHUNKS))
    return [Spread(name, grain, max(2, vector_bits // BITS[table.dtype]))]


def _legal(kernel: Kernel, directives: list[Directive]) -> list[Directive]:
    """Those directives that go together: the pieces that cutting makes of a loop may want different ones for loops
    of one name.
    """
    try:
        apply(kernel, Schedule(tuple(directives)))
    except ScheduleError:
        pass
    else:
        return directives
    kept: list[Directive] = []
    for d in directives:
        try:
            apply(kernel, Schedule((*kept, d)))
        except ScheduleError:
            continue
        kept.append(d)
    return kept


def _schedule_nests(body: Block, names: dict[Value, str], vector_bits: int, cut_apart: list[str]) -> list[Directive]:
    """Directives for each nest.  cut_apart: gets the names of loops of which cutting leaves pieces without them."""
    out: list[Directive] = []
    for nest in nests_of(body):
        if nest.guarded:
            continue
        apart = _cut_apart(nest.loop, names)
        if apart is not None:
            pieces, known = apart
            cut_apart.append(names[nest.loop.index])
            first: dict[Any, Directive] = {}  # pieces may hold copies of one loop, which share its name
            for d in _schedule_nests(pieces, known, vector_bits, cut_apart):
                first.setdefault((type(d), getattr(d, "loop", "")), d)
            out += [Cut(names[nest.loop.index]), *first.values()]
            continue
        loops, cost = vector_loops(nest, vector_bits)
        out += _schedule_nest(nest, loops, cost, names, vector_bits)
    return out


def _cut_apart(loop: For, names: dict[Value, str]) -> tuple[Block, dict[Value, str]] | None:
    """The statements that cutting makes of a loop, and the names of the loops in them;
    None if a loop of that name stays.

    One that writes three sums into an array of three is such a loop: each of its iterations does something else.
    """
    if not can_cut(loop):
        return None
    known = dict(names)
    pieces = tuple(cut(loop, known))
    stays = any(isinstance(s, For) and known[s.index] == names[loop.index] for s in walk(pieces))
    return None if stays else (pieces, known)


def _small_unrolls(nest: Nest, vectors: Sequence[Nest], names: dict[Value, str]) -> list[Directive]:
    """Short loops around other loops are written out and jammed:
    what does not depend on them is computed once for all copies.
    """
    out: list[Directive] = []
    stack = [(n, 1) for n in nest.children]
    while stack:
        n, copies = stack.pop()
        chosen = any(v is n for v in vectors)
        if (
            n.children
            and not chosen
            and not n.guarded
            and not n.loop.params
            and 1 < n.trips <= JAM
            and copies * n.trips <= MOST_JAMMED
            and not any(_holds(n, v) for v in vectors)
            and not conflicts(n.loop).stores
            and can_run_in_step(n.loop)
        ):
            out.append(Unroll(names[n.loop.index]))
            copies = int(copies * n.trips)
        stack += [(child, copies) for child in n.children]
    return out


def _holds(outer: Nest, inner: Nest) -> bool:
    return any(c is inner or _holds(c, inner) for c in outer.children)


def _column_bytes(nest: Nest) -> float:
    """How much memory a column reduction reads, if it is one that rows should be read for; else 0."""
    if not can_privatize(nest.loop) or len(nest.children) != 1 or not independent(nest.loop, nest.loop.index):
        return 0.0
    vary = strides_in(nest)
    reduction = nest.children[0]
    total = 0.0
    for s in reduction.loop.body:
        for access in accesses_of(s):
            if not access.reads:
                continue
            steps = [vary.get(i, 0) if isinstance(i, Value) else 0 for i in access.index or ()]
            if access.buffer.layout != "C" or not steps or steps[-1] != 1 or any(x != 0 for x in steps[:-1]):
                return 0.0
            total += nest.trips * reduction.trips * BITS[access.buffer.dtype] / 8
    return total


def _schedule_nest(
    nest: Nest, loops: list[Nest], cost: float, names: dict[Value, str], vector_bits: int
) -> list[Directive]:
    out: list[Directive] = []
    top, name = nest.loop, names[nest.loop.index]
    if _column_bytes(nest) >= LARGE and any(v.loop is top for v in loops):
        width = natural_width(nest, vector_bits)
        return [Privatize(name, COLUMNS), Parallel(f"{name}.o", 1), Vector(f"{name}.i", width, 4)]
    loops_inside = [top, *[s for s in nest.inside if isinstance(s, For)]]
    out += [Cut(names[s.index]) for s in loops_inside if can_cut(s)]
    loops = [v for v in loops if v.loop is top or _cut_apart(v.loop, names) is None]
    out += _small_unrolls(nest, loops, names)
    grain = _grain(nest, cost)
    parallel = grain > 0
    for v in loops:
        width, factor = lanes_of(v, vector_bits)
        block = width * factor
        if v.loop is top and parallel:
            size = max(block, -(-grain // block) * block)
            if _sums(top) and size > 2 * FOLD * block:
                out += [
                    Split(name, FOLD * block),
                    Parallel(f"{name}.o", -(-size // (FOLD * block))),
                    Vector(f"{name}.i", width, factor),
                ]
            else:
                out += [Split(name, size), Parallel(f"{name}.o", 1), Vector(f"{name}.i", width, factor)]
            return out
        out += _in_lanes(v, names[v.loop.index], vector_bits)
    taken = {v.loop.index for v in loops}
    for s in loops_inside:
        if s.index not in taken and _sums(s) and _may_exceed(Nest(s), 2 * FOLD) and not (s is top and parallel):
            out.append(Split(names[s.index], FOLD))
    if parallel:
        out.append(Parallel(name, grain))
    return out


def _grain(nest: Nest, cost: float) -> int:
    """How many iterations of the outermost loop are worth a thread; 0 where it stays on one."""
    top = nest.loop
    scan = any(isinstance(s, Prefix) and s.params == top.params for s in top.body)
    recurrence = (bool(top.params) and top.combine is None) or scan or not independent(top, top.index)
    simple = isinstance(top.lower, Const) and isinstance(top.upper, Const)
    dynamic = not (simple and isinstance(top.upper.value, int))  # type: ignore[union-attr]
    # what it costs where it is longest
    most = cost if not dynamic else cost / _iterations(nest) * nest.most_iterations
    if recurrence or not simple or most <= CHUNK_COST or conflicts(top).stores:
        return 0
    per_iteration = cost / max(nest.trips, 1)
    grain = max(1, int(CHUNK_COST / max(per_iteration, 1e-3)))
    return grain if dynamic else _balanced(grain, nest.trips)


def _in_lanes(v: Nest, name: str, vector_bits: int) -> list[Directive]:
    """A loop as lanes; long sums in blocks."""
    width, factor = lanes_of(v, vector_bits)
    block = width * factor
    if _sums(v.loop) and _may_exceed(v, 2 * FOLD * block):
        return [Split(name, FOLD * block), Vector(f"{name}.i", width, factor)]
    return [Vector(name, width, factor)]


def _innermost(nests: Sequence[Nest]) -> Iterator[Nest]:
    """The loops that have none inside."""
    for nest in nests:
        if nest.children:
            yield from _innermost(nest.children)
        else:
            yield nest


def _balanced(grain: int, trips: float) -> int:
    """The grain that makes of a few chunks a power of two, and at least FEW_CHUNKS.

    Five chunks would keep one of two threads waiting for a fifth of the time, and of two the second waits for a thread
    that starts late.
    """
    chunks = ceil(trips / grain)
    return (
        grain if chunks <= 1 or chunks > MANY_CHUNKS else ceil(trips / max(FEW_CHUNKS, 1 << (chunks - 1).bit_length()))
    )


def _sums(loop: For) -> bool:
    """Whether a loop adds or multiplies floating-point numbers up and can be cut into blocks."""
    if loop.combine is None or not (isinstance(loop.lower, Const) and isinstance(loop.upper, Const)):
        return False
    if any(isinstance(s, Prefix) and s.params == loop.params for s in loop.body):
        return False
    return any(isinstance(s, Op) and s.op in ("add", "mul") and is_float(s.out.dtype) for s in loop.combine.body)


def _may_exceed(nest: Nest, trips: int) -> bool:
    """Whether a loop has, or may have, more iterations than `trips`."""
    return nest.most_trips > trips


def _iterations(nest: Nest) -> float:
    """As many as its cost is made of."""
    return max(1, nest.trips) * max([1, *[_iterations(n) for n in nest.children]])
