"""What all loops are made of: bounds, phis, loops that count, and the strips after
which a loop looks whether it is to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracejit.backends.cpu.codegen import polls
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.llvm_like import llvm_type
from tracejit.backends.words import Key, Lines, Word, copies, project
from tracejit.ir.kernel import For, Value, operands_of, walk
from tracejit.support.errors import InternalError

__all__ = ["Strips", "bounds_of", "counted_loop", "phi_words", "settled", "trip_count", "widen", "write_phis"]


def bounds_of(e: FunctionEmitter, s: For) -> tuple[Word, Word]:
    """The bounds of a loop, the same for all lanes."""
    lower, upper = e.word(s.lower), e.word(s.upper)
    if not (lower.uniform and upper.uniform) or lower.axes or upper.axes:
        raise InternalError("a loop whose bounds vary over lanes")
    return lower, upper


def trip_count(lower: Word, upper: Word) -> int | None:
    """How often a loop runs, if the bounds are constants."""
    return None if lower.known is None or upper.known is None else max(0, upper.known - lower.known)


def widen(e: FunctionEmitter, w: Word, axes: Key, lanes: bool) -> Word:
    """A word held over more axes and, if asked, as vectors."""
    if w.axes == axes and (w.lanes or not lanes) and not w.stride:
        return w
    lanes = lanes or w.lanes or w.stride != 0
    regs = {
        k: e.vector(w, project(k, axes, w.axes)) if lanes else w.regs[project(k, axes, w.axes)]
        for k in copies(axes, e.counts)
    }
    return Word(w.dtype, axes, regs, lanes, depth=e.depth())


def settled_of(
    e: FunctionEmitter, s: For, inits: Sequence[Word], body: Callable[[], Sequence[Word]]
) -> list[tuple[Key, bool]]:
    """The same for a loop, found once for whatever it is given: in loops in each other the number of trials would
    double at every level.
    """
    read = e.read_in.get(s.index)
    if read is None:
        read = e.read_in[s.index] = tuple({x for t in walk(s.body) for x in operands_of(t) if isinstance(x, Value)})
    given = [*inits, *[w for x in read if (w := e.env.get(x)) is not None]]
    key = (
        s.index,
        e.width,
        e.mask is None,
        tuple(e.counts.items()),
        tuple([(w.axes, w.lanes, w.stride != 0, w.known) for w in given]),
    )
    found = e.settled.get(key)
    if found is None:
        found = e.settled[key] = settled(e, inits, s.params, body)
    return found


def settled(
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
        joined = [
            (tuple(sorted({*a, *w.axes})), lanes or w.lanes or w.stride != 0)
            for (a, lanes), w in zip(shapes, outs, strict=True)
        ]
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
    loop: For | None = None,
) -> list[Word]:
    """`for i in lower..upper step step` with carried words; bottom-tested, guarded where it may run zero times.

    strip: how far the index goes between two looks for Ctrl-C. The loop becomes two then, one over strips.  loop: the
    statement, where there is one.
    """
    if shapes is None:
        if not params or not (e.width > 1 or e.counts):
            shapes = [(w.axes, w.lanes) for w in inits]
        elif loop is None:
            shapes = settled(e, inits, params, lambda: body("%trial"))
        else:
            shapes = settled_of(e, loop, inits, lambda: body("%trial"))
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
        self.lines: Lines = []
        self._e = e
        self._index = ""
        self._carried: list[Word] = []

    def index(self) -> str:
        self._e.count += 1
        self._index = f"%i{self._e.count}"
        return self._index

    def carried(self, params: Sequence[Value], entering: Sequence[Word]) -> list[Word]:
        """The words that enter the loop as it carries them; the params mean these now."""
        self._carried = phi_words(self._e, params, entering)
        return self._carried

    def write(
        self, before: str, first: str, entering: Sequence[Word], latch: str, following: str, outs: Sequence[Word]
    ) -> None:
        if self._index:
            self.lines.append(f"  {self._index} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        write_phis(self._e, self.lines, entering, self._carried, outs, before, latch)


class Strips:
    """The loop around a `while` whose strips of some iterations end in a look for Ctrl-C.  Begins before the head
    of the inner loop.

    before, entering: the label and the words that enter the inner loop.
    """

    def __init__(
        self, e: FunctionEmitter, length: str, params: Sequence[Value], inits: Sequence[Word], head: str
    ) -> None:
        self._e, self._length, self._head, self._inits, self._outside = e, length, head, inits, e.label
        self.before, self.entering = e.label, list(inits)
        if not length:
            e.put(f"br label %{head}")
            return
        self.before = e.fresh_label("strip")
        e.put(f"br label %{self.before}")
        e.start(self.before)
        self._phis: Lines = []
        e.lines.append(self._phis)
        self.entering = phi_words(e, params, inits)
        e.count += 1
        self._counter = f"%k{e.count}"
        e.put(f"br label %{head}")

    def close(self, phis: Lines, outs: Sequence[Word], more: str = "", done: str = "") -> str:
        """End the inner loop, which goes on where `more` holds (always without it) and else to `done`;
        the label that goes to its head.
        """
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
        write_phis(e, self._phis, self._inits, self.entering, outs, self._outside, e.label)
        e.put(f"br label %{self.before}")
        return latch


def phi_words(e: FunctionEmitter, params: Sequence[Value], inits: Sequence[Word]) -> list[Word]:
    """Words for the values that a loop carries, as phis which `write_phis` fills."""
    carried: list[Word] = []
    for p, w in zip(params, inits, strict=True):
        regs: dict[Key, str] = {}
        for key in w.regs:
            e.count += 1
            regs[key] = f"%p{e.count}"
        carried.append(Word(w.dtype, w.axes, regs, w.lanes, depth=e.depth()))
        e.env[p] = carried[-1]
    return carried


def write_phis(
    e: FunctionEmitter,
    phis: Lines,
    inits: Sequence[Word],
    carried: Sequence[Word],
    outs: Sequence[Word],
    before: str,
    latch: str,
) -> None:
    """The phis of a loop: what enters it, and what an iteration hands to the next."""
    for w, c, o in zip(inits, carried, outs, strict=True):
        t = llvm_type(w.dtype, e.width if w.lanes else 1)
        phis.extend(f"  {c.regs[k]} = phi {t} [ {w.regs[k]}, %{before} ], [ {o.regs[k]}, %{latch} ]" for k in w.regs)
