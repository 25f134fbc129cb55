"""Loops and branches of the kernel emitter (see emit.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.backends.cpu import polls
from tracejit.backends.cpu.emit import FunctionEmitter
from tracejit.backends.cpu.words import Key, Word, copies, project, union
from tracejit.backends.llvm_like import constant, llvm_type
from tracejit.ir.kernel import Const, For, If, Lambda, Load, Op, Prefix, Store, Value, While, blocks, operands_of, results_of, walk
from tracejit.ir.scalar import OPS
from tracejit.support.errors import InternalError

__all__ = ["emit_for", "emit_if", "emit_prefix", "emit_while"]

UNROLL_LIMIT = 8  # iterations a serial loop with a constant trip count may have to be written out
SELECT_COST = 24.0  # a varying branch that costs more than this (in vector adds) is skipped when no lane takes it
PEEL_OPERATIONS = 120  # a vector loop with a longer body gets one masked form instead of main, remainder and tail


def emit_for(e: FunctionEmitter, s: For) -> None:
    """A loop as its axis says: in order, unrolled and jammed, over vectors, or over the thread pool."""
    match s.axis.kind:
        case "parallel" if e.width == 1 and not e.counts:
            _parallel(e, s)
        case "vector":
            if e.width > 1:
                raise InternalError("a vector loop inside of a vector loop")
            _vector(e, s)
        case "unroll" if not s.params:
            _jammed(e, s)
        case _:
            _serial(e, s)


# -- serial loops -----------------------------------------------------------------------------------------------------------------------
def _bounds(e: FunctionEmitter, s: For) -> tuple[Word, Word]:
    lower, upper = e.word(s.lower), e.word(s.upper)
    if not (lower.uniform and upper.uniform) or lower.axes or upper.axes:
        raise InternalError("a loop whose bounds vary over lanes")
    return lower, upper


def _trips(lower: Word, upper: Word) -> int | None:
    """How often a loop runs, if the bounds are constants."""
    return None if lower.known is None or upper.known is None else max(0, upper.known - lower.known)


def _serial(e: FunctionEmitter, s: For) -> None:
    lower, upper = _bounds(e, s)
    trips = _trips(lower, upper)
    operations = _copied(s.body)
    if trips is not None and (trips == 1 or (trips <= UNROLL_LIMIT and trips * operations <= 256)):
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
    results = counted_loop(e, lower.regs[()], upper.regs[()], 1, inits, s.params, body, skip=skip, strip=polls.strip_of(e, s))
    for r, w in zip(s.results, results, strict=True):
        e.env[r] = w


def _copied(body: Sequence[Any]) -> int:
    """How many statements a body is when its unrolled loops are written out."""
    total = 0
    stack: list[tuple[Any, int]] = [(s, 1) for s in body]
    while stack:
        s, times = stack.pop()
        total += times * (16 if isinstance(s, Op) and OPS[s.op].math else 1)
        if isinstance(s, For) and s.axis.kind == "unroll" and isinstance(s.upper, Const) and isinstance(s.lower, Const):
            times *= max(1, s.upper.value - s.lower.value)
        elif isinstance(s, For) and s.axis.kind == "vector" and times > 1:
            times *= s.axis.factor
        stack += [(x, times) for block in blocks(s) for x in block]
    return total


def widen(e: FunctionEmitter, w: Word, axes: Key, lanes: bool) -> Word:
    """A word held over more axes and, if asked, as vectors."""
    if w.axes == axes and (w.lanes or not lanes) and not w.stride:
        return w
    lanes = lanes or w.lanes or w.stride != 0
    regs = {k: e.vector(w, project(k, axes, w.axes)) if lanes else w.regs[project(k, axes, w.axes)] for k in copies(axes, e.counts)}
    return Word(w.dtype, axes, regs, lanes, depth=e.depth())


def _settle(
    e: FunctionEmitter, inits: Sequence[Word], params: Sequence[Value], body: Callable[[], Sequence[Word]]
) -> list[tuple[Key, bool]]:
    """Over which axes and lanes each carry varies: the body is written on trial until the answer stays."""
    shapes = [(w.axes, w.lanes or w.stride != 0) for w in inits]
    while True:
        with e.trial():
            e.enter()
            for p, (axes, lanes) in zip(params, shapes, strict=True):
                e.env[p] = Word(p.dtype, axes, {k: "%trial" for k in copies(axes, e.counts)}, lanes, depth=e.depth())
            outs = list(body())
        joined = [(tuple(sorted({*a, *w.axes})), lanes or w.lanes or w.stride != 0) for (a, lanes), w in zip(shapes, outs, strict=True)]
        if joined == shapes:
            return shapes
        shapes = joined


def counted_loop(
    e: FunctionEmitter,
    lower: str,
    upper: str,
    step: int,
    inits: Sequence[Word],
    params: Sequence[Value],
    body: Callable[[str], Sequence[Word]],
    *,
    skip: bool = True,
    shapes: Sequence[tuple[Key, bool]] | None = None,
    strip: str = "",
) -> list[Word]:
    """`for i in lower..upper step step` with carried words; bottom-tested, guarded where it may run zero times.

    strip: how far the index goes between two looks for Ctrl-C. The loop becomes two then, one over strips.
    """
    if shapes is None:
        shapes = (
            _settle(e, inits, params, lambda: body("%trial"))
            if params and (e.width > 1 or e.counts)
            else [(w.axes, w.lanes) for w in inits]
        )
    inits = [widen(e, w, axes, lanes) for w, (axes, lanes) in zip(inits, shapes, strict=True)]
    head, done = e.fresh_label("loop"), e.fresh_label("done")
    start = e.fresh_label("strip") if strip else head
    e.enter()
    before = e.label
    if skip:
        inside = e.line(f"icmp slt i64 {lower}, {upper}")
        e.put(f"br i1 {inside}, label %{start}, label %{done}")
    else:
        e.put(f"br label %{start}")
    first, end, entering, outer = lower, upper, list(inits), _Phis(e)
    if strip:
        e.start(start)
        e.lines.append(outer.lines)
        first, entering = outer.index(), outer.carried(params, inits)
        end = _end_of_strip(e, first, upper, strip)
        e.put(f"br label %{head}")
    e.start(head)
    phis = _Phis(e)
    e.lines.append(phis.lines)
    index = phis.index()
    phis.carried(params, entering)
    outs = [widen(e, w, axes, lanes) for w, (axes, lanes) in zip(body(index), shapes, strict=True)]
    following = e.line(f"add i64 {index}, {step}")
    more = e.line(f"icmp slt i64 {following}, {end}")
    latch = e.label
    after = e.fresh_label("stripped") if strip else done
    e.put(f"br i1 {more}, label %{head}, label %{after}")
    phis.write(start if strip else before, first, entering, latch, following, outs)
    if strip:
        e.start(after)
        again = e.fresh_label("again")
        e.put(f"br i1 {e.line(f'icmp slt i64 {following}, {upper}')}, label %{again}, label %{done}{polls.rarely(e)}")
        e.start(again)
        polls.look(e)
        outer.write(before, lower, inits, e.label, following, outs)
        e.put(f"br label %{start}")
        latch = after
    e.leave()
    e.start(done)
    results: list[Word] = []
    for w, o in zip(inits, outs, strict=True):
        t = llvm_type(w.dtype, e.width if w.lanes else 1)
        if skip:
            regs = {k: e.line(f"phi {t} [ {w.regs[k]}, %{before} ], [ {o.regs[k]}, %{latch} ]") for k in w.regs}
        else:
            regs = o.regs
        results.append(Word(w.dtype, w.axes, dict(regs), w.lanes, depth=e.depth()))
    return results


def _end_of_strip(e: FunctionEmitter, first: str, upper: str, length: str) -> str:
    """The end of a strip that begins at `first`, below `upper` (their distance may take all 64 bits)."""
    several = e.line(f"icmp ugt i64 {e.line(f'sub i64 {upper}, {first}')}, {length}")
    return e.line(f"select i1 {several}, i64 {e.line(f'add i64 {first}, {length}')}, i64 {upper}")


class _Phis:
    """The phi instructions at the head of a loop: named when it begins, written when it ends."""

    def __init__(self, e: FunctionEmitter) -> None:
        self.lines: list[Any] = []
        self._e = e
        self._index = ""
        self._carried: list[Word] = []

    def index(self) -> str:
        self._e.count += 1
        self._index = f"%i{self._e.count}"
        return self._index

    def carried(self, params: Sequence[Value], entering: Sequence[Word]) -> list[Word]:
        """The words that enter the loop as it carries them; the params mean these now."""
        self._carried = _phi_words(self._e, params, entering)
        return self._carried

    def write(self, before: str, first: str, entering: Sequence[Word], latch: str, following: str, outs: Sequence[Word]) -> None:
        if self._index:
            self.lines.append(f"  {self._index} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        _write_phis(self._e, self.lines, entering, self._carried, outs, before, latch)


def _jammed(e: FunctionEmitter, s: For) -> None:
    """All iterations at once: every statement is written for all copies before the next one."""
    lower, upper = _bounds(e, s)
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


# -- vector loops -------------------------------------------------------------------------------------------------------------------------
def _vector(e: FunctionEmitter, s: For) -> None:
    """Main loop of `factor` vectors, remainder of single vectors, masked tail; or one masked loop for long bodies."""
    lower, upper = _bounds(e, s)
    width, factor = s.axis.width, s.axis.factor
    scan = any(isinstance(x, Prefix) and x.params == s.params for x in s.body)
    if s.params and s.combine is None:
        raise InternalError("a recurrence cannot be a vector loop")
    if scan:
        factor = 1
    long = sum(1 + (8 if isinstance(x, Op) and OPS[x.op].math else 0) for x in walk(s.body)) > PEEL_OPERATIONS
    trips = _trips(lower, upper)
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
            carries = _lane_loop(e, s, width, count, start, stop, carries, scan, masked=False, skip=trips is None, first=carries is inits)
            start = stop if trips is not None else _not_below(e, stop, start)
    rest = trips is None or int(start) < upper.known
    if rest:
        carries = _lane_loop(e, s, width, 1, start, end, carries, scan, masked=True, skip=trips is None, first=carries is inits)
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
    """One loop over vectors: `count` of them in flight, the last one masked if asked.  Reduction carries are vectors of partial results."""
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
        regs = {(k,): index if k == 0 else e.line(f"add i64 {index}, {k * width}") for k in range(count)}
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
            e.mask = Word("bool", (), {(): e.line(f"icmp ugt <{width} x i32> {spread}, <{lanes}>")}, True, depth=e.depth())
        try:
            e.block(s.body)
            outs = [e.word(y) for y in s.yields]
            if scan:
                return [_last_lane(e, w) for w in outs]
            if masked and outs:
                assert e.mask is not None
                kept = [e.word(p) for p in s.params]
                outs = [e.apply("select", o.dtype, [e.mask, o, p]) for o, p in zip(outs, kept, strict=True)]
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


def _join_copies(e: FunctionEmitter, combine: Lambda | None, words: Sequence[Word], axis: int, count: int) -> list[Word]:
    """The partial results of `count` vectors in flight joined pairwise."""
    if not words:
        return []
    assert combine is not None
    parts = [[Word(w.dtype, (), {(): w.regs[(k,)]}, True, depth=e.depth()) for w in words] for k in range(count)]
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        parts = [e.inline(combine, [*parts[k], *parts[k + half]]) if k + half < len(parts) else parts[k] for k in range(half)]
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
        current = [e.vector(w, ()) for w in e.inline(combine, [*low, *high])]
        n = half
    e.width = 1
    results = [Word(w.dtype, (), {(): r}, depth=e.depth()) for w, r in zip(words, current, strict=True)]
    return results


def _last_lane(e: FunctionEmitter, w: Word) -> Word:
    if not w.lanes:
        return w
    t = llvm_type(w.dtype, e.width)
    return Word(w.dtype, w.axes, {k: e.line(f"extractelement {t} {r}, i64 {e.width - 1}") for k, r in w.regs.items()}, depth=e.depth())


def emit_prefix(e: FunctionEmitter, s: Prefix) -> None:
    """The running fold: by shifts over the lanes where the scan loop itself is the vector loop, else one combination."""
    scan = e.scan
    params, elements = [e.word(p) for p in s.params], [e.word(x) for x in s.elements]
    vectorised = scan is not None and scan.params == s.params
    loop = scan if vectorised else e.scans[s.params]
    assert loop is not None and loop.combine is not None
    combine = loop.combine
    if not vectorised:
        for out, w in zip(s.outs, e.inline(combine, [*params, *elements]), strict=True):
            e.env[out] = w
        return
    assert scan is not None
    identity = [e.word(i) for i in scan.inits]
    n = e.width
    current = [widen(e, w, w.axes, True) for w in elements]
    if e.mask is not None:
        current = [e.apply("select", w.dtype, [e.mask, w, i]) for w, i in zip(current, identity, strict=True)]
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
        current = e.inline(combine, [*moved, *current])
        shift *= 2
    for out, w in zip(s.outs, e.inline(combine, [*params, *current]), strict=True):
        e.env[out] = w


# -- parallel loops ------------------------------------------------------------------------------------------------------------------------
def _parallel(e: FunctionEmitter, s: For) -> None:
    """A function that runs `factor` iterations a chunk, called by the pool; reduction carries of chunks are combined in order."""
    lower, upper = _bounds(e, s)
    if s.params and s.combine is None:
        raise InternalError("a recurrence cannot be a parallel loop")
    grain = max(1, s.axis.factor)
    name = e.module.fresh(e.name)
    inner = FunctionEmitter(e.module, name, e)
    inner.exact, inner.lengths = e.exact, e.lengths
    scans(inner, s.body)
    size = 8 * len(s.params)
    low, high = inner.capture(lower.regs[()], "i64"), inner.capture(upper.regs[()], "i64")
    partial = inner.capture("%partials." + name, "ptr") if s.params else ""
    first = inner.line(f"add i64 {low}, {inner.line(f'mul i64 %chunk, {grain}')}")
    bound = inner.line(f"add i64 {first}, {grain}")
    last = inner.line(f"select i1 {inner.line(f'icmp slt i64 {bound}, {high}')}, i64 {bound}, i64 {high}")

    def body(index: str) -> list[Word]:
        inner.env[s.index] = Word("i64", (), {(): index}, depth=inner.depth())
        inner.block(s.body)
        return [inner.word(y) for y in s.yields]

    inits = [inner.word(i) for i in s.inits]
    results = counted_loop(inner, first, last, 1, inits, s.params, body, strip=polls.strip_of_chunk(inner, s, grain))
    for n, w in enumerate(results):
        slot = _slot(inner, partial, "%chunk", size, n)
        _put_word(inner, w.dtype, w.regs[()], slot)
    inner.finish(f"internal void @{name}(ptr %frame, i64 %chunk)")
    _launch(e, s, inner, lower, upper, grain, size)


def _slot(e: FunctionEmitter, partials: str, chunk: str, size: int, n: int) -> str:
    """The address of carrier n among the partial results of a chunk."""
    row = e.line(f"mul i64 {chunk}, {size}")
    return e.line(f"getelementptr i8, ptr {partials}, i64 {e.line(f'add i64 {row}, {8 * n}')}")


def _put_word(e: FunctionEmitter, dtype: str, register: str, slot: str) -> None:
    if dtype == "bool":
        e.put(f"store i8 {e.line(f'zext i1 {register} to i8')}, ptr {slot}")
    else:
        e.put(f"store {llvm_type(dtype, 1)} {register}, ptr {slot}")


def _get_word(e: FunctionEmitter, dtype: str, slot: str) -> str:
    if dtype == "bool":
        return e.line(f"trunc i8 {e.line(f'load i8, ptr {slot}')} to i1")
    return e.line(f"load {llvm_type(dtype, 1)}, ptr {slot}")


def _launch(e: FunctionEmitter, s: For, inner: FunctionEmitter, lower: Word, upper: Word, grain: int, size: int) -> None:
    span = e.line(f"sub i64 {upper.regs[()]}, {lower.regs[()]}")
    positive = e.line(f"select i1 {e.line(f'icmp sgt i64 {span}, 0')}, i64 {span}, i64 0")
    chunks = e.line(f"udiv i64 {e.line(f'add i64 {positive}, {grain - 1}')}, {grain}")
    partials = nbytes = ""
    if s.params:
        e.declare("@tj_alloc", "declare ptr @tj_alloc(i64)")
        e.declare("@tj_free", "declare void @tj_free(ptr, i64)")
        nbytes = e.line(f"mul i64 {e.line(f'add i64 {chunks}, 1')}, {size}")
        partials = e.line(f"call ptr @tj_alloc(i64 {nbytes})")
        polls.leave_without_memory(e, partials)
    frame = f"%frame.{inner.name}"
    e.entry.append(f"  {frame} = alloca [{max(1, len(inner.captured))} x i64], align 8")
    for number, (register, t) in enumerate(inner.captured):
        outer = partials if register.startswith("%partials.") else register
        slot = e.line(f"getelementptr i64, ptr {frame}, i64 {number}")
        if t == "i1":
            e.put(f"store i8 {e.line(f'zext i1 {outer} to i8')}, ptr {slot}")
        else:
            e.put(f"store {t} {outer}, ptr {slot}")
    one, many, done = e.fresh_label("one"), e.fresh_label("many"), e.fresh_label("joined")
    single = e.line(f"icmp ule i64 {chunks}, 1")
    e.put(f"br i1 {single}, label %{one}, label %{many}")
    e.start(one)
    e.put(f"call void @{inner.name}(ptr {frame}, i64 0)")
    e.put(f"br label %{done}")
    e.start(many)
    e.declare("@tj_parallel_for_interruptible", "declare i32 @tj_parallel_for_interruptible(ptr, ptr, i64, ptr)")
    e.line(f"call i32 @tj_parallel_for_interruptible(ptr @{inner.name}, ptr {frame}, i64 {chunks}, ptr {e.stop_word()})")
    e.put(f"br label %{done}")
    e.start(done)
    polls.leave_if_stopped(e, *([f"call void @tj_free(ptr {partials}, i64 {nbytes})"] if partials else []))
    if not s.params:
        return
    combine = s.combine
    assert combine is not None

    def body(index: str) -> list[Word]:
        parts = []
        for n, p in enumerate(s.params):
            slot = _slot(e, partials, index, size, n)
            parts.append(Word(p.dtype, (), {(): _get_word(e, p.dtype, slot)}, depth=e.depth()))
        return e.inline(combine, [*[e.word(p) for p in s.params], *parts])

    results = counted_loop(e, "0", chunks, 1, [e.word(i) for i in s.inits], s.params, body)
    e.put(f"call void @tj_free(ptr {partials}, i64 {nbytes})")
    for r, w in zip(s.results, results, strict=True):
        e.env[r] = w


def scans(e: FunctionEmitter, body: Sequence[Any]) -> None:
    """Note which loop each prefix belongs to, by its params."""
    e.scans = dict(e.parent.scans) if e.parent is not None else {}
    e.scans.update({s.params: s for s in walk(tuple(body)) if isinstance(s, For) and s.combine is not None})


# -- branches ------------------------------------------------------------------------------------------------------------------------------
def _cost(statements: Sequence[Any]) -> float:
    total = 0.0
    for s in walk(tuple(statements)):
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, (Load, Store)):
            total += 2
        elif isinstance(s, (For, While)):
            total += 100
    return total


def emit_if(e: FunctionEmitter, s: If) -> None:
    """A branch; where the condition varies over lanes or copies both sides are computed under masks."""
    condition = e.word(s.condition)
    if condition.known is not None:
        e.block(s.then if condition.known else s.orelse)
        for r, y in zip(s.results, s.then_yields if condition.known else s.else_yields, strict=True):
            e.env[r] = e.word(y)
        return
    if condition.lanes or condition.axes or not e.exact:
        _varying_if(e, s, condition)
        return
    _uniform_if(e, s, condition)


def _uniform_if(e: FunctionEmitter, s: If, condition: Word) -> None:
    then, orelse, done = e.fresh_label("then"), e.fresh_label("else"), e.fresh_label("endif")
    sides: list[tuple[list[Word], str, list[Any]]] = []
    e.enter()
    e.put(f"br i1 {condition.regs[()]}, label %{then}, label %{orelse}")
    for label, block, yields in ((then, s.then, s.then_yields), (orelse, s.orelse, s.else_yields)):
        e.start(label)
        e.regions[-1].cache = {}
        tail: list[Any] = []
        e.block(block)
        words = [e.word(y) for y in yields]
        e.lines.append(tail)
        sides.append((words, e.label, tail))
    merged: list[Word] = []
    (a, _, tail_a), (b, _, tail_b) = sides
    shapes = [(tuple(sorted({*x.axes, *y.axes})), bool(x.lanes or y.lanes or x.stride or y.stride)) for x, y in zip(a, b, strict=True)]
    for words, tail in ((a, tail_a), (b, tail_b)):
        saved, e.lines = e.lines, tail
        e.regions[-1].cache = {}
        words[:] = [widen(e, w, axes, lanes) for w, (axes, lanes) in zip(words, shapes, strict=True)]
        e.put(f"br label %{done}")
        e.lines = saved
    e.leave()
    e.start(done)
    for x, y in zip(a, b, strict=True):
        t = llvm_type(x.dtype, e.width if x.lanes else 1)
        regs = {k: e.line(f"phi {t} [ {x.regs[k]}, %{sides[0][1]} ], [ {y.regs[k]}, %{sides[1][1]} ]") for k in x.regs}
        merged.append(Word(x.dtype, x.axes, regs, x.lanes, depth=e.depth()))
    for r, w in zip(s.results, merged, strict=True):
        e.env[r] = w


def _guarded(e: FunctionEmitter, block: Sequence[Any], yields: Sequence[Any], mask: Word) -> list[Word]:
    """A side of a varying branch under `mask`: skipped when no lane is on if it is dear, or must be."""
    outer = e.mask
    if not e.exact and _cost(block) > SELECT_COST / 2:
        return _outlined(e, block, yields, mask)
    must = any(isinstance(s, (Load, Store, For, While)) for s in walk(tuple(block)))
    if not must and _cost(block) <= SELECT_COST:
        e.mask = mask
        try:
            e.block(block)
            return [e.word(y) for y in yields]
        finally:
            e.mask = outer
    alive = any_lane(e, mask)
    run, done = e.fresh_label("some"), e.fresh_label("none")
    e.enter()
    before = e.label
    e.put(f"br i1 {alive}, label %{run}, label %{done}")
    e.start(run)
    e.mask = mask
    try:
        e.block(block)
        words = [e.word(y) for y in yields]
    finally:
        e.mask = outer
    words = [widen(e, w, w.axes, w.lanes or w.stride != 0) for w in words]
    after = e.label
    e.put(f"br label %{done}")
    e.leave()
    e.start(done)
    out: list[Word] = []
    for w in words:
        t = llvm_type(w.dtype, e.width if w.lanes else 1)
        zero = constant(0, w.dtype, e.width if w.lanes else 1)
        regs = {k: e.line(f"phi {t} [ {zero}, %{before} ], [ {r}, %{after} ]") for k, r in w.regs.items()}
        out.append(Word(w.dtype, w.axes, regs, w.lanes, depth=e.depth()))
    return out


def _outlined(e: FunctionEmitter, block: Sequence[Any], yields: Sequence[Any], mask: Word) -> list[Word]:
    """The rare side of an elementary function: a function of its own, called when a lane needs it, written once a module and width."""
    name, needs = _rare_function(e, block, yields)
    arguments = [e.word(v) for v in needs]
    axes = union([*arguments, mask])
    run, done = e.fresh_label("some"), e.fresh_label("none")
    alive = any_lane(e, mask)
    e.enter()
    before = e.label
    e.put(f"br i1 {alive}, label %{run}, label %{done}")
    e.start(run)
    n = e.width
    types = [llvm_type(y.dtype, n) for y in yields]
    result = types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"
    found: list[dict[Key, str]] = [{} for _ in yields]
    for key in copies(axes, e.counts):
        passed = [f"{llvm_type(w.dtype, n)} {e.vector(w, project(key, axes, w.axes))}" for w in arguments]
        register = e.line(f"call {result} @{name}({', '.join(passed)})")
        for k, regs in enumerate(found):
            regs[key] = register if len(types) == 1 else e.line(f"extractvalue {result} {register}, {k}")
    after = e.label
    e.put(f"br label %{done}")
    e.leave()
    e.start(done)
    out: list[Word] = []
    for y, t, regs in zip(yields, types, found, strict=True):
        zero = constant(0, y.dtype, n)
        joined = {k: e.line(f"phi {t} [ {zero}, %{before} ], [ {r}, %{after} ]") for k, r in regs.items()}
        out.append(Word(y.dtype, axes, joined, n > 1, depth=e.depth()))
    return out


def _rare_function(e: FunctionEmitter, block: Sequence[Any], yields: Sequence[Any]) -> tuple[str, list[Value]]:
    """(name, values it takes) of the outlined block at the present width."""
    n = e.width
    key = (id(block), n)
    found = e.module.outlined.get(key)
    if found is not None:
        return found
    inside = {r for s in walk(tuple(block)) for r in results_of(s)}
    used = dict.fromkeys(a for s in walk(tuple(block)) for a in operands_of(s) if isinstance(a, Value) and a not in inside)
    used.update(dict.fromkeys(y for y in yields if isinstance(y, Value) and y not in inside))
    needs = list(used)
    inner = FunctionEmitter(e.module, e.module.fresh("rare"))
    inner.width, inner.exact = n, False
    for k, v in enumerate(needs):
        inner.env[v] = Word(v.dtype, (), {(): f"%a{k}"}, n > 1)
    inner.block(block)
    words = [inner.vector(inner.word(y), ()) for y in yields]
    types = [llvm_type(y.dtype, n) for y in yields]
    result = types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"
    value = words[0]
    if len(types) > 1:
        value = "poison"
        for k, (w, t) in enumerate(zip(words, types, strict=True)):
            value = inner.line(f"insertvalue {result} {value}, {t} {w}, {k}")
    parameters = ", ".join(f"{llvm_type(v.dtype, n)} %a{k}" for k, v in enumerate(needs))
    inner.finish(f"internal {result} @{inner.name}({parameters}) noinline", f"ret {result} {value}")
    e.module.outlined[key] = (inner.name, needs)
    return inner.name, needs


def _varying_if(e: FunctionEmitter, s: If, condition: Word) -> None:
    condition = widen(e, condition, condition.axes, e.width > 1)
    inverse = e.apply("not", "bool", [condition])
    then_mask = condition if e.mask is None else e.apply("and", "bool", [e.mask, condition])
    else_mask = inverse if e.mask is None else e.apply("and", "bool", [e.mask, inverse])
    then = _guarded(e, s.then, s.then_yields, then_mask)
    orelse = _guarded(e, s.orelse, s.else_yields, else_mask) if s.orelse or s.else_yields else []
    for r, a, b in zip(s.results, then, orelse, strict=True):
        e.env[r] = e.apply("select", r.dtype, [condition, a, b])


def any_lane(e: FunctionEmitter, mask: Word) -> str:
    """i1: whether any lane of any copy is on."""
    total = ""
    for register in mask.regs.values():
        if mask.lanes:
            bits = e.line(f"bitcast <{e.width} x i1> {register} to i{e.width}")
            one = e.line(f"icmp ne i{e.width} {bits}, 0")
        else:
            one = register
        total = one if not total else e.line(f"or i1 {total}, {one}")
    return total


# -- while loops ---------------------------------------------------------------------------------------------------------------------------
def emit_while(e: FunctionEmitter, s: While) -> None:
    """A while loop; where the test varies over lanes it runs until no lane is left."""
    inits = [e.word(i) for i in s.inits]

    def once() -> tuple[Word, list[Word]]:
        e.block(s.condition)
        test = e.word(s.test)
        e.block(s.body)
        return test, [e.word(y) for y in s.yields]

    tests: list[Word] = []

    def trial() -> list[Word]:
        test, outs = once()
        tests[:] = [test]
        if test.lanes or test.axes or test.stride:
            return [Word(w.dtype, union([w, test]), {}, w.lanes or test.lanes) for w in outs]
        return outs

    if e.width > 1 or e.counts:
        shapes = _settle(e, inits, s.params, trial)
        varying = tests[0].lanes or bool(tests[0].axes)
        if varying:
            vector = e.width > 1  # the mask is one, also where the test varies over unrolled copies only
            masked = {*tests[0].axes, *(e.mask.axes if e.mask is not None else ())}
            shapes = [(tuple(sorted({*a, *masked})), lanes or vector) for a, lanes in shapes]
    else:
        shapes, varying = [((), False) for _ in inits], False
    inits = [widen(e, w, axes, lanes) for w, (axes, lanes) in zip(inits, shapes, strict=True)]
    if varying:
        _masked_while(e, s, inits, shapes, tests[0], once)
    else:
        _plain_while(e, s, inits, shapes, once)


def _plain_while(e: FunctionEmitter, s: While, inits: Sequence[Word], shapes: Sequence[tuple[Key, bool]], once: Any) -> None:
    head, body, done = e.fresh_label("while"), e.fresh_label("do"), e.fresh_label("done")
    e.enter()
    strips = _Strips(e, polls.strip_of_while(e, s), s.params, inits, head)
    e.start(head)
    phis: list[Any] = []
    e.lines.append(phis)
    carried = _phi_words(e, s.params, strips.entering)
    e.block(s.condition)
    test = e.word(s.test)
    e.put(f"br i1 {test.regs[()]}, label %{body}, label %{done}")
    e.start(body)
    e.block(s.body)
    outs = [widen(e, e.word(y), axes, lanes) for y, (axes, lanes) in zip(s.yields, shapes, strict=True)]
    latch = strips.close(phis, outs)
    _write_phis(e, phis, strips.entering, carried, outs, strips.before, latch)
    e.leave()
    e.start(done)
    for r, c in zip(s.results, carried, strict=True):
        e.env[r] = Word(c.dtype, c.axes, c.regs, c.lanes, depth=e.depth())


class _Strips:
    """The loop around a `while` whose strips of some iterations end in a look for Ctrl-C.  Begins before the head of the inner loop.

    before, entering: the label and the words that enter the inner loop.
    """

    def __init__(self, e: FunctionEmitter, length: str, params: Sequence[Value], inits: Sequence[Word], head: str) -> None:
        self._e, self._length, self._head, self._inits, self._outside = e, length, head, inits, e.label
        self.before, self.entering = e.label, list(inits)
        if not length:
            e.put(f"br label %{head}")
            return
        self.before = e.fresh_label("strip")
        e.put(f"br label %{self.before}")
        e.start(self.before)
        self._phis: list[Any] = []
        e.lines.append(self._phis)
        self.entering = _phi_words(e, params, inits)
        e.count += 1
        self._counter = f"%k{e.count}"
        e.put(f"br label %{head}")

    def close(self, phis: list[Any], outs: Sequence[Word], more: str = "", done: str = "") -> str:
        """End the inner loop, which goes on where `more` holds (always without it) and else to `done`; the label that goes to its head."""
        e = self._e
        if not self._length:
            latch = e.label
            e.put(f"br i1 {more}, label %{self._head}, label %{done}" if more else f"br label %{self._head}")
            return latch
        again = e.fresh_label("again")
        if more:
            alive = e.fresh_label("alive")
            e.put(f"br i1 {more}, label %{alive}, label %{done}")
            e.start(alive)
        left = e.line(f"sub i64 {self._counter}, 1")
        latch = e.label
        e.put(f"br i1 {e.line(f'icmp eq i64 {left}, 0')}, label %{again}, label %{self._head}{polls.rarely(e)}")
        phis.append(f"  {self._counter} = phi i64 [ {self._length}, %{self.before} ], [ {left}, %{latch} ]")
        e.start(again)
        polls.look(e)
        _write_phis(e, self._phis, self._inits, self.entering, outs, self._outside, e.label)
        e.put(f"br label %{self.before}")
        return latch


def _phi_words(e: FunctionEmitter, params: Sequence[Value], inits: Sequence[Word]) -> list[Word]:
    carried: list[Word] = []
    for p, w in zip(params, inits, strict=True):
        regs: dict[Key, str] = {}
        for key in w.regs:
            e.count += 1
            regs[key] = f"%p{e.count}"
        carried.append(Word(w.dtype, w.axes, regs, w.lanes, depth=e.depth()))
        e.env[p] = carried[-1]
    return carried


def _write_phis(
    e: FunctionEmitter, phis: list[Any], inits: Sequence[Word], carried: Sequence[Word], outs: Sequence[Word], before: str, latch: str
) -> None:
    for w, c, o in zip(inits, carried, outs, strict=True):
        t = llvm_type(w.dtype, e.width if w.lanes else 1)
        phis.extend(f"  {c.regs[k]} = phi {t} [ {w.regs[k]}, %{before} ], [ {o.regs[k]}, %{latch} ]" for k in w.regs)


def _masked_while(e: FunctionEmitter, s: While, inits: Sequence[Word], shapes: Sequence[tuple[Key, bool]], test: Word, once: Any) -> None:
    """Runs until the mask is empty; `unroll` iterations between two looks at it.  Lanes that are off keep their carries."""
    axes = test.axes
    ones = constant(True, "bool", e.width)
    if e.mask is not None:
        start = widen(e, e.mask, tuple(sorted({*axes, *e.mask.axes})), e.width > 1)
    else:
        start = Word("bool", axes, {k: ones for k in copies(axes, e.counts)}, e.width > 1, depth=e.depth())
    head, done = e.fresh_label("while"), e.fresh_label("done")
    e.enter()
    outer = e.mask
    mask = Value("bool")
    params, inits = (*s.params, mask), [*inits, start]
    strips = _Strips(e, polls.strip_of_while(e, s), params, inits, head)
    e.start(head)
    phis: list[Any] = []
    e.lines.append(phis)
    *carried, active = entered = _phi_words(e, params, strips.entering)
    current: list[Word] = carried
    for _ in range(max(1, s.unroll)):
        for p, w in zip(s.params, current, strict=True):
            e.env[p] = w
        e.mask = active
        e.block(s.condition)
        inside = widen(e, e.word(s.test), axes, e.width > 1)
        active = e.apply("and", "bool", [active, inside])
        e.mask = active
        e.block(s.body)
        outs = [e.word(y) for y in s.yields]
        current = [
            widen(e, e.apply("select", o.dtype, [active, o, c]), a, lanes) for o, c, (a, lanes) in zip(outs, current, shapes, strict=True)
        ]
    e.mask = outer
    outs = [*current, active]
    latch = strips.close(phis, outs, any_lane(e, active), done)
    _write_phis(e, phis, strips.entering, entered, outs, strips.before, latch)
    e.leave()
    e.start(done)
    for r, c in zip(s.results, current, strict=True):
        e.env[r] = Word(c.dtype, c.axes, c.regs, c.lanes, depth=e.depth())


