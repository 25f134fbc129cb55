"""Loops in order, and written out: what the axis of a `for` says,
with `lanes.py` for vectors and `threads.py` for the pool.
"""

from __future__ import annotations

import math

from tracejit.backends.cpu.codegen import polls
from tracejit.backends.cpu.codegen.counting import bounds_of, counted_loop, trip_count
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.cpu.codegen.lanes import emit_vector
from tracejit.backends.cpu.codegen.threads import emit_parallel
from tracejit.backends.words import Word
from tracejit.ir.kernel import Block, Const, For, Op, blocks
from tracejit.ir.scalar import OPS
from tracejit.support.errors import InternalError, UnsupportedError

__all__ = ["emit_for"]

UNROLL_LIMIT = 8  # iterations a serial loop with a constant trip count may have to be written out
UNROLL_OPERATIONS = 256  # and how many statements it may become


def emit_for(e: FunctionEmitter, s: For) -> None:
    """A loop as its axis says: in order, unrolled and jammed, over vectors, or over the thread pool.

    Raises: UnsupportedError for a step, which loops have on grids of a device only.
    """
    if s.step != 1:
        raise UnsupportedError("the cpu backend runs loops of step 1")
    match s.axis.kind:
        case "parallel" if e.width == 1 and not e.counts:
            emit_parallel(e, s)
        case "vector":
            if e.width > 1:
                raise InternalError("a vector loop inside of a vector loop")
            emit_vector(e, s)
        case "unroll" if not s.params:
            _jammed(e, s)
        case _:
            _serial(e, s)


def _serial(e: FunctionEmitter, s: For) -> None:
    lower, upper = bounds_of(e, s)
    trips = trip_count(lower, upper)
    operations = _copied(s.body) * math.prod(e.counts.values())
    if trips is not None and _is_written_out(trips, operations):
        words = [e.word(i) for i in s.inits]
        for n in range(trips):
            e.env[s.index] = Word("i64", (), {(): str(lower.known + n)}, known=lower.known + n)
            for p, w in zip(s.params, words, strict=True):
                e.env[p] = w
            e.block(s.body)
            words = [e.word(y) for y in s.yields]
        for r, w in zip(s.results, words, strict=True):
            e.env[r] = w
        return

    def body(index: str) -> list[Word]:
        e.env[s.index] = Word("i64", (), {(): index}, depth=e.depth())
        e.block(s.body)
        return [e.word(y) for y in s.yields]

    inits = [e.word(i) for i in s.inits]
    skip = trips is None or trips == 0
    results = counted_loop(
        e, lower.regs[()], upper.regs[()], 1, inits, s.params, body, skip=skip, strip=polls.strip_of(e, s), loop=s
    )
    for r, w in zip(s.results, results, strict=True):
        e.env[r] = w


def _copied(body: Block) -> int:
    """How many statements a body is when its unrolled loops are written out."""
    total = 0
    for s in body:
        total += 16 if isinstance(s, Op) and OPS[s.op].math else 1
        inside = sum(_copied(block) for block in blocks(s))
        if isinstance(s, For) and s.axis.kind == "vector":
            inside *= s.axis.factor + 2  # vectors in flight, single vectors, the tail
        elif isinstance(s, For) and (trips := _trips(s)) is not None:
            if s.axis.kind == "unroll" or (s.axis.kind == "serial" and _is_written_out(trips, inside)):
                inside *= max(1, trips)
        total += inside
    return total


def _trips(s: For) -> int | None:
    """How many iterations a loop has, if its bounds are numbers."""
    match s.lower, s.upper:
        case Const(value=int(lower)), Const(value=int(upper)):
            return upper - lower
        case _:
            return None


def _is_written_out(trips: int, operations: int) -> bool:
    """Whether a loop in order becomes its iterations, one after the other."""
    return trips == 1 or (trips <= UNROLL_LIMIT and trips * operations <= UNROLL_OPERATIONS)


def _jammed(e: FunctionEmitter, s: For) -> None:
    """All iterations at once: every statement is written for all copies before the next one."""
    lower, upper = bounds_of(e, s)
    if lower.known is None or upper.known is None:
        raise InternalError("an unrolled loop needs constant bounds")
    if upper.known - lower.known <= 0:
        return
    e.axes += 1
    axis = e.axes
    e.counts[axis] = upper.known - lower.known
    e.env[s.index] = Word("i64", (axis,), {(k,): str(lower.known + k) for k in range(e.counts[axis])}, depth=0)
    e.block(s.body)
    del e.counts[axis]
