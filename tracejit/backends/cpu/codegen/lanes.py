"""Loops over vectors: iterations as lanes, the joining of lanes, and running folds over them."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.cpu.codegen import polls
from tracejit.backends.cpu.codegen.arithmetic import apply, inline, plus
from tracejit.backends.cpu.codegen.counting import bounds_of, counted_loop, trip_count, widen
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.llvm_like import llvm_type
from tracejit.backends.words import Word
from tracejit.ir.kernel import For, Lambda, Op, Prefix, walk
from tracejit.ir.scalar import OPS
from tracejit.support.errors import InternalError

__all__ = ["emit_prefix", "emit_vector"]

PEEL_OPERATIONS = 120  # a vector loop with a longer body gets one masked form instead of main, remainder and tail


def emit_vector(e: FunctionEmitter, s: For) -> None:
    """Main loop of `factor` vectors, remainder of single vectors, masked tail; or one masked loop for long bodies."""
    lower, upper = bounds_of(e, s)
    width, factor = s.axis.width, s.axis.factor
    scan = any(isinstance(x, Prefix) and x.params == s.params for x in s.body)
    if s.params and s.combine is None:
        raise InternalError("a recurrence cannot be a vector loop")
    if scan:
        factor = 1
    long = sum(1 + (8 if isinstance(x, Op) and OPS[x.op].math else 0) for x in walk(s.body)) > PEEL_OPERATIONS
    trips = trip_count(lower, upper)
    inits = [e.word(i) for i in s.inits]
    carries = inits
    start = lower.regs[()]
    end = upper.regs[()]
    if not long or (trips is not None and trips % width == 0):
        for count in (factor, 1) if factor > 1 else (1,):
            block = width * count
            if trips is not None:
                left = trips - (int(start) - lower.known) if start.lstrip("-").isdigit() else trips % (width * factor)
                if left < block:
                    continue
                stop = str(int(start) + left // block * block)
            else:
                span = e.line(f"sub i64 {end}, {start}")
                whole = e.line(f"sdiv i64 {span}, {block}")
                stop = e.line(f"add i64 {start}, {e.line(f'mul i64 {whole}, {block}')}")
            carries = _lane_loop(
                e, s, width, count, start, stop, carries, scan, masked=False, skip=trips is None, first=carries is inits
            )
            start = stop if trips is not None else _not_below(e, stop, start)
    rest = trips is None or int(start) < upper.known
    if rest:
        carries = _lane_loop(
            e, s, width, 1, start, end, carries, scan, masked=True, skip=trips is None, first=carries is inits
        )
    if carries and carries[0].lanes:
        carries = _fold_lanes(e, s.combine, carries, width)
    for r, w in zip(s.results, carries, strict=True):
        e.env[r] = w


def _not_below(e: FunctionEmitter, a: str, b: str) -> str:
    return e.line(f"select i1 {e.line(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")


def _lane_loop(
    e: FunctionEmitter,
    s: For,
    width: int,
    count: int,
    start: str,
    stop: str,
    inits: Sequence[Word],
    scan: bool,
    *,
    masked: bool,
    skip: bool,
    first: bool,
) -> list[Word]:
    """One loop over vectors: `count` of them in flight, the last one masked if asked.  Reduction carries are vectors of
    partial results.
    """
    e.axes += 1
    axis = e.axes
    e.counts[axis] = count
    e.width = width
    identities = [e.word(i) for i in s.inits]
    entering: list[Word] = []
    for w, identity in zip(inits, identities, strict=True):
        if scan:
            entering.append(w)
            continue
        vector = w if w.lanes else widen(e, identity, (), True)
        regs = {(k,): vector.regs[()] if k == 0 or not vector.lanes else e.vector(identity, ()) for k in range(count)}
        entering.append(Word(w.dtype, (axis,), regs, True, depth=e.depth()))
    outer_mask = e.mask

    def body(index: str) -> list[Word]:
        regs = {(k,): plus(e, index, k * width, e.depth()) for k in range(count)}
        if count > 1:
            e.env[s.index] = Word("i64", (axis,), regs, stride=1, depth=e.depth(), apart=width)
        else:
            e.env[s.index] = Word("i64", (), {(): index}, stride=1, depth=e.depth())
        if masked:
            left = e.line(f"sub i64 {stop}, {index}")
            few = e.line(f"icmp slt i64 {left}, {width}")
            inside = e.line(f"select i1 {few}, i64 {left}, i64 {width}")
            narrow = e.line(f"trunc i64 {inside} to i32")
            spread = e.vector(Word("i32", (), {(): narrow}, depth=e.depth()), ())
            lanes = ", ".join(f"i32 {k}" for k in range(width))
            e.mask = Word(
                "bool", (), {(): e.line(f"icmp ugt <{width} x i32> {spread}, <{lanes}>")}, True, depth=e.depth()
            )
        try:
            e.block(s.body)
            outs = [e.word(y) for y in s.yields]
            if scan:
                return [_last_lane(e, w) for w in outs]
            if masked and outs:
                assert e.mask is not None
                kept = [e.word(p) for p in s.params]
                outs = [apply(e, "select", o.dtype, [e.mask, o, p]) for o, p in zip(outs, kept, strict=True)]
            return outs
        finally:
            e.mask = outer_mask

    shapes = [((axis,) if not scan else w.axes, not scan) for w in entering]
    enclosing, e.scan = e.scan, s if scan else e.scan
    lanes = width * count
    strip = "" if masked and not first else polls.strip_of(e, s, lanes=lanes, step=lanes)  # a tail is one iteration
    results = counted_loop(e, start, stop, lanes, entering, s.params, body, skip=skip, shapes=shapes, strip=strip)
    e.scan = enclosing
    if not scan:
        results = _join_copies(e, s.combine, results, axis, count)
    del e.counts[axis]
    e.width = 1
    return results


def _join_copies(
    e: FunctionEmitter, combine: Lambda | None, words: Sequence[Word], axis: int, count: int
) -> list[Word]:
    """The partial results of `count` vectors in flight joined pairwise."""
    if not words:
        return []
    assert combine is not None
    parts = [[Word(w.dtype, (), {(): w.regs[(k,)]}, True, depth=e.depth()) for w in words] for k in range(count)]
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        parts = [
            inline(e, combine, [*parts[k], *parts[k + half]]) if k + half < len(parts) else parts[k]
            for k in range(half)
        ]
    return parts[0]


def _fold_lanes(e: FunctionEmitter, combine: Lambda | None, words: Sequence[Word], width: int) -> list[Word]:
    """A tree over the lanes: halves are combined until one lane is left."""
    assert combine is not None
    current = [w.regs[()] for w in words]
    n = width
    while n > 1:
        half = n // 2
        low: list[Word] = []
        high: list[Word] = []
        for w, r in zip(words, current, strict=True):
            t = llvm_type(w.dtype, n)
            for side, first in ((low, 0), (high, half)):
                if half == 1:
                    register = e.line(f"extractelement {t} {r}, i64 {first}")
                else:
                    order = ", ".join(f"i32 {first + k}" for k in range(half))
                    register = e.line(f"shufflevector {t} {r}, {t} poison, <{half} x i32> <{order}>")
                side.append(Word(w.dtype, (), {(): register}, half > 1, depth=e.depth()))
        e.width = half
        current = [e.vector(w, ()) for w in inline(e, combine, [*low, *high])]
        n = half
    e.width = 1
    results = [Word(w.dtype, (), {(): r}, depth=e.depth()) for w, r in zip(words, current, strict=True)]
    return results


def _last_lane(e: FunctionEmitter, w: Word) -> Word:
    if not w.lanes:
        return w
    t = llvm_type(w.dtype, e.width)
    return Word(
        w.dtype,
        w.axes,
        {k: e.line(f"extractelement {t} {r}, i64 {e.width - 1}") for k, r in w.regs.items()},
        depth=e.depth(),
    )


def emit_prefix(e: FunctionEmitter, s: Prefix) -> None:
    """The running fold: by shifts over the lanes where the scan loop itself is the vector loop,
    else one combination.
    """
    scan = e.scan
    params, elements = [e.word(p) for p in s.params], [e.word(x) for x in s.elements]
    vectorised = scan is not None and scan.params == s.params
    loop = scan if vectorised else e.scans[s.params]
    assert loop is not None and loop.combine is not None
    combine = loop.combine
    if not vectorised:
        for out, w in zip(s.outs, inline(e, combine, [*params, *elements]), strict=True):
            e.env[out] = w
        return
    assert scan is not None
    identity = [e.word(i) for i in scan.inits]
    n = e.width
    current = [widen(e, w, w.axes, True) for w in elements]
    if e.mask is not None:
        current = [apply(e, "select", w.dtype, [e.mask, w, i]) for w, i in zip(current, identity, strict=True)]
    shift = 1
    while shift < n:
        moved: list[Word] = []
        for w, i in zip(current, identity, strict=True):
            t = llvm_type(w.dtype, n)
            order = ", ".join(f"i32 {k - shift if k >= shift else n + k}" for k in range(n))
            moved.append(
                Word(
                    w.dtype,
                    (),
                    {(): e.line(f"shufflevector {t} {w.regs[()]}, {t} {e.vector(i, ())}, <{n} x i32> <{order}>")},
                    True,
                    depth=e.depth(),
                )
            )
        current = inline(e, combine, [*moved, *current])
        shift *= 2
    for out, w in zip(s.outs, inline(e, combine, [*params, *current]), strict=True):
        e.env[out] = w
