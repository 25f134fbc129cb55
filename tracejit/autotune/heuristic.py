"""The default schedule of a kernel on a CPU: which loop becomes lanes, which is shared among threads, and how finely.

For each top-level loop nest every loop that may be the vector loop is rated by what memory access and arithmetic would
cost under it: contiguous and broadcast access cost one instruction a vector, anything else one a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from tracejit.autotune.products import product_tile
from tracejit.ir.conflicts import conflicts
from tracejit.ir.kernel import (
    Access,
    Block,
    Const,
    For,
    If,
    Kernel,
    Op,
    Prefix,
    Statement,
    Value,
    While,
    accesses_of,
    blocks,
    is_pure,
    operands_of,
    results_of,
    walk,
)
from tracejit.ir.passes.cut import can_cut, cut
from tracejit.ir.passes.independence import can_run_in_step, independent
from tracejit.ir.passes.privatize import can_privatize
from tracejit.ir.scalar import BITS, OPS, is_float
from tracejit.ir.schedule import (
    Cut,
    Directive,
    Parallel,
    Privatize,
    Schedule,
    Split,
    Unroll,
    Vector,
    WhileUnroll,
    apply,
    name_loops,
)
from tracejit.support.errors import ScheduleError
from tracejit.support.nodes import define, field

__all__ = ["heuristic_schedule"]

FEW_CHUNKS = 4
MOST_ONE_BY_ONE = 128  # accesses of single lanes in the code of one iteration of a vector loop
FEWEST_LANES = 8
MANY_CHUNKS = 32  # beyond it threads finish together anyway
CHUNK_COST = 60_000.0  # vector-add units of work worth handing to another thread: about 6 us
JAM = 8  # a loop of so few iterations around other loops is written out
LARGE = 4 << 20  # bytes: a column reduction over more reads rows in order (see Privatize)
COLUMNS = 2048  # columns of a block then
UNKNOWN_EXTENT = 1024  # what a symbolic extent is taken for when loops are compared
# floating-point sums longer than twice this (in each lane) are folded in blocks, so that errors grow as in pairwise
# sums
FOLD = 128


@define(eq=False)
class _Nest:
    """One loop with what is known of it."""

    loop: For
    children: list[_Nest] = field(factory=list)
    guarded: bool = False  # inside a branch or while loop
    inside: Sequence[Statement] = ()  # every statement of the body, nested ones as well

    @property
    def trips(self) -> float:
        lower, upper = self.loop.lower, self.loop.upper
        if (
            isinstance(lower, Const)
            and isinstance(upper, Const)
            and isinstance(lower.value, int)
            and isinstance(upper.value, int)
        ):
            return max(0, upper.value - lower.value)
        return UNKNOWN_EXTENT


def _nests(body: Sequence[Any], guarded: bool = False) -> list[_Nest]:
    out: list[_Nest] = []
    for s in body:
        if isinstance(s, For):
            out.append(_Nest(s, _nests(s.body, guarded), guarded, tuple(walk(s.body))))
        else:
            for block in blocks(s):
                out += _nests(block, True)
    return out


def _strides(nest: _Nest) -> dict[Value, Any]:
    """For the values of a nest: how they vary with the index of its loop:
    an integer (affine), or None (any other way).  Absent: not at all.
    """
    vary: dict[Value, Any] = {nest.loop.index: 1}
    carries = any([isinstance(s, (For, While)) for s in nest.inside])
    for _ in range(2 if carries else 1):  # carries need a second look
        for s in nest.inside:
            if isinstance(s, Op):
                if any(isinstance(a, Value) and a in vary for a in s.args):
                    vary[s.out] = _affine(s, vary)
            elif isinstance(s, (For, While)):
                for p, r, y, i in zip(s.params, s.results, s.yields, s.inits, strict=True):
                    if any(isinstance(a, Value) and a in vary for a in (y, i)):
                        vary[p] = vary[r] = None
                if isinstance(s, While) and isinstance(s.test, Value) and s.test in vary:
                    for v in (*s.params, *s.results):
                        vary[v] = None
            elif isinstance(s, If):
                ys = (*s.then_yields, *s.else_yields, s.condition)
                if any(isinstance(a, Value) and a in vary for a in ys):
                    for r in s.results:
                        vary[r] = None
            elif any(isinstance(a, Value) and a in vary for a in operands_of(s)):
                vary.update(dict.fromkeys(results_of(s)))
    return vary


def _affine(s: Op, vary: dict[Value, Any]) -> Any:
    parts = [vary.get(a, 0) if isinstance(a, Value) else 0 for a in s.args]
    if any(p is None for p in parts) or s.out.dtype != "i64":
        return None
    if s.op == "add":
        return parts[0] + parts[1]
    if s.op == "sub":
        return parts[0] - parts[1]
    if s.op == "mul":
        a, b = s.args
        if isinstance(b, Const) and isinstance(b.value, int):
            return parts[0] * b.value
        if isinstance(a, Const) and isinstance(a.value, int):
            return parts[1] * a.value
    return None


def _access_cost(access: Access, vary: dict[Value, Any], width: int) -> float:
    """Instructions of one access for a whole vector."""
    steps = [vary.get(i, 0) if isinstance(i, Value) else 0 for i in access.index or ()]
    if all(s == 0 for s in steps):
        return 1.0
    contiguous = access.buffer.layout != "strided" and steps[-1] in (1, -1) and all(s == 0 for s in steps[:-1])
    return 1.0 if contiguous else float(width)


def _rate(nest: _Nest, vector: For, vary: dict[Value, Any], width: int) -> float:
    """Cost of one iteration of everything in `nest.loop.body`, for a whole vector of `vector`."""
    return _rate_block(nest.loop.body, vector, vary, width)


def _rate_block(body: Sequence[Any], vector: For, vary: dict[Value, Any], width: int) -> float:
    total = 0.0
    for s in body:
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, Prefix):
            total += 12.0 if s.params == vector.params else 2.0
        elif isinstance(s, For):
            n = _Nest(s).trips
            inner = _rate_block(s.body, vector, vary, width)
            if s is vector:
                vectors = -(-n // width)
                total += vectors * (inner + 2) + 6
            else:
                total += n * (inner + 2)
        elif isinstance(s, While):
            total += 30 * (_rate_block(s.condition, vector, vary, width) + _rate_block(s.body, vector, vary, width))
        elif isinstance(s, If):
            total += _rate_block(s.then, vector, vary, width) + _rate_block(s.orelse, vector, vary, width)
        else:
            total += sum([_access_cost(a, vary, width) for a in accesses_of(s)])
    return total


def _scalar_cost(body: Sequence[Any]) -> float:
    """Cost of one pass over a block without lanes."""
    total = 0.0
    for s in body:
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, For):
            total += _Nest(s).trips * (_scalar_cost(s.body) + 2)
        elif isinstance(s, (While, If)):
            factor = 30 if isinstance(s, While) else 1
            total += factor * sum(_scalar_cost(b) for b in blocks(s))
        else:
            total += 4.0 if isinstance(s, Prefix) else len(accesses_of(s))
    return total


def _may_be_vector(nest: _Nest) -> bool:
    loop = nest.loop
    if not independent(loop, loop.index):
        return False
    return (
        (not loop.params or loop.combine is not None)
        and not any([a.writes and not a.atomic and not a.index for s in nest.inside for a in accesses_of(s)])
        and not conflicts(loop).updates
    )


def _width(nest: _Nest, vector_bits: int) -> int:
    """Lanes of a vector loop: by the widest floating type, else by the widest element of memory."""
    kinds = {r.dtype for s in nest.inside if is_pure(s) for r in results_of(s)}
    floats = [BITS[dtype] for dtype in kinds if is_float(dtype)]
    memory = [BITS[a.buffer.dtype] for s in nest.inside for a in accesses_of(s) if not a.atomic]
    return max(2, vector_bits // max(max(floats or memory or [64]), 8))


def _factor(nest: _Nest) -> int:
    """Vectors in flight: more for short bodies, whose latency would show."""
    cost = sum([OPS[s.op].cost if isinstance(s, Op) else 1.0 for s in nest.inside])
    if any([isinstance(s, While) for s in nest.inside]):
        return 1
    return 4 if cost <= 24 else (2 if cost <= 80 else 1)


def _lanes(nest: _Nest, vector_bits: int) -> tuple[int, int]:
    """Lanes and vectors in flight of a loop that becomes a vector loop.

    Narrow elements that do not lie side by side are loaded and stored one by one, each an instruction, or a branch
    where a lane may be off: fewer lanes then, so that the code stays short.
    """
    width, factor = _width(nest, vector_bits), _factor(nest)
    one_by_one = _one_by_one(nest.loop.body, _strides(nest))
    if one_by_one * width * factor > MOST_ONE_BY_ONE:
        factor = 1
    while width > FEWEST_LANES and one_by_one * width * factor > MOST_ONE_BY_ONE:
        width //= 2
    return width, factor


def _one_by_one(body: Sequence[Statement], vary: dict[Value, Any]) -> float:
    """How many accesses of a pass over a body have no instruction for a vector of them."""
    total = 0.0
    for s in body:
        if isinstance(s, For):
            total += (_Nest(s).trips if isinstance(s.upper, Const) else 1) * _one_by_one(s.body, vary)
            continue
        total += sum(_one_by_one(block, vary) for block in blocks(s))
        for access in accesses_of(s):
            total += BITS[access.buffer.dtype] < 32 and _access_cost(access, vary, 2) > 1
    return total


def _choose(nest: _Nest, vector_bits: int) -> tuple[list[_Nest], float]:
    """The loops of a nest that become vector loops (one on every path), and the cost of the nest."""
    width = min(_width(nest, vector_bits), 64)
    inner_loops: list[_Nest] = []
    inner_cost = _scalar_cost([s for s in nest.loop.body if not isinstance(s, For)])
    for child in nest.children:
        loops, cost = _choose(child, vector_bits)
        inner_loops += loops
        inner_cost += cost
    best = (inner_loops, nest.trips * (inner_cost + 2))
    if not nest.guarded and nest.trips > 1 and _may_be_vector(nest):
        vary = _strides(nest)
        cost = -(-nest.trips // width) * (_rate(nest, nest.loop, vary, width) + 2) + 6
        if cost < best[1] and not _uniform_stores(nest, vary) and _bounds_uniform(nest, vary):
            best = ([nest], cost)
    return best


def _uniform_stores(nest: _Nest, vary: dict[Value, Any]) -> bool:
    """Whether some store inside would be to one place for all lanes."""
    return any(
        a.writes and not a.atomic and not any(isinstance(i, Value) and i in vary for i in a.index or ())
        for s in nest.inside
        for a in accesses_of(s)
    )


def _bounds_uniform(nest: _Nest, vary: dict[Value, Any]) -> bool:
    return not any(
        isinstance(s, For) and any(isinstance(b, Value) and b in vary for b in (s.lower, s.upper)) for s in nest.inside
    )


def heuristic_schedule(kernel: Kernel, vector_bits: int) -> Schedule:
    """The default schedule on a CPU with vectors of `vector_bits`."""
    tile = None if kernel.product is None else product_tile(kernel.product, vector_bits)
    if tile is not None:
        return Schedule((tile,))
    names = name_loops(kernel.body)
    apart: list[str] = []
    out = _schedule_nests(kernel.body, names, vector_bits, apart)
    if apart:
        out = _legal(kernel, out)
    if any(isinstance(s, While) for s in walk(kernel.body)):
        out.append(WhileUnroll(4))
    return Schedule(tuple(out))


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
    for nest in _nests(body):
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
        loops, cost = _choose(nest, vector_bits)
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


def _small_unrolls(nest: _Nest, vectors: Sequence[_Nest], names: dict[Value, str]) -> list[Directive]:
    """Short loops around other loops are written out and jammed:
    what does not depend on them is computed once for all copies.
    """
    out: list[Directive] = []
    stack = list(nest.children)
    while stack:
        n = stack.pop()
        stack += n.children
        chosen = any(v is n for v in vectors)
        if (
            n.children
            and not chosen
            and not n.guarded
            and not n.loop.params
            and 1 < n.trips <= JAM
            and not any(_holds(n, v) for v in vectors)
        ):
            if conflicts(n.loop).stores or not can_run_in_step(n.loop):
                continue
            out.append(Unroll(names[n.loop.index]))
    return out


def _holds(outer: _Nest, inner: _Nest) -> bool:
    return any(c is inner or _holds(c, inner) for c in outer.children)


def _column_bytes(nest: _Nest) -> float:
    """How much memory a column reduction reads, if it is one that rows should be read for; else 0."""
    if not can_privatize(nest.loop) or len(nest.children) != 1 or not independent(nest.loop, nest.loop.index):
        return 0.0
    vary = _strides(nest)
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
    nest: _Nest, loops: list[_Nest], cost: float, names: dict[Value, str], vector_bits: int
) -> list[Directive]:
    out: list[Directive] = []
    top, name = nest.loop, names[nest.loop.index]
    if _column_bytes(nest) >= LARGE and any(v.loop is top for v in loops):
        width = _width(nest, vector_bits)
        return [Privatize(name, COLUMNS), Parallel(f"{name}.o", 1), Vector(f"{name}.i", width, 4)]
    loops_inside = [top, *[s for s in nest.inside if isinstance(s, For)]]
    out += [Cut(names[s.index]) for s in loops_inside if can_cut(s)]
    loops = [v for v in loops if v.loop is top or _cut_apart(v.loop, names) is None]
    out += _small_unrolls(nest, loops, names)
    scan = any(isinstance(s, Prefix) and s.params == top.params for s in top.body)
    recurrence = (bool(top.params) and top.combine is None) or scan or not independent(top, top.index)
    simple = isinstance(top.lower, Const) and isinstance(top.upper, Const)
    dynamic = not (simple and isinstance(top.upper.value, int))  # type: ignore[union-attr]
    parallel = not recurrence and simple and (cost > CHUNK_COST or dynamic) and not conflicts(top).stores
    per_iteration = cost / max(nest.trips, 1)
    grain = max(1, int(CHUNK_COST / max(per_iteration, 1e-3)))
    if not dynamic:
        grain = _balanced(grain, nest.trips)
    for v in loops:
        width, factor = _lanes(v, vector_bits)
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
        inner = names[v.loop.index]
        if _sums(v.loop) and _may_exceed(v, 2 * FOLD * block):
            out += [Split(inner, FOLD * block), Vector(f"{inner}.i", width, factor)]
        else:
            out.append(Vector(inner, width, factor))
    taken = {v.loop.index for v in loops}
    for s in loops_inside:
        if s.index not in taken and _sums(s) and _may_exceed(_Nest(s), 2 * FOLD) and not (s is top and parallel):
            out.append(Split(names[s.index], FOLD))
    if parallel:
        out.append(Parallel(name, grain))
    return out


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


def _may_exceed(nest: _Nest, trips: int) -> bool:
    """Whether a loop has, or may have, more iterations than `trips`."""
    constant = isinstance(nest.loop.upper, Const) and isinstance(nest.loop.upper.value, int)
    return nest.trips > trips if constant else True
