"""While loops: until the test fails for one number, or in lanes for all."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.cpu.codegen import polls
from tracejit.backends.cpu.codegen.arithmetic import apply
from tracejit.backends.cpu.codegen.branches import any_lane
from tracejit.backends.cpu.codegen.counting import Strips, phi_words, settled, widen, write_phis
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.llvm_like import constant
from tracejit.backends.words import Key, Lines, Word, copies, union
from tracejit.ir.kernel import Value, While

__all__ = ["emit_while"]


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
        shapes = settled(e, inits, s.params, trial)
        varying = tests[0].lanes or bool(tests[0].axes)
        if varying:
            vector = e.width > 1  # the mask is one, also where the test varies over unrolled copies only
            masked = {*tests[0].axes, *(e.mask.axes if e.mask is not None else ())}
            shapes = [(tuple(sorted({*a, *masked})), lanes or vector) for a, lanes in shapes]
    else:
        shapes, varying = [((), False) for _ in inits], False
    inits = [widen(e, w, axes, lanes) for w, (axes, lanes) in zip(inits, shapes, strict=True)]
    if varying:
        _masked_while(e, s, inits, shapes, tests[0])
    else:
        _plain_while(e, s, inits, shapes)


def _plain_while(e: FunctionEmitter, s: While, inits: Sequence[Word], shapes: Sequence[tuple[Key, bool]]) -> None:
    head, body, done = e.fresh_label("while"), e.fresh_label("do"), e.fresh_label("done")
    e.enter()
    strips = Strips(e, polls.strip_of_while(e, s), s.params, inits, head)
    e.start(head)
    phis: Lines = []
    e.lines.append(phis)
    carried = phi_words(e, s.params, strips.entering)
    e.block(s.condition)
    test = e.word(s.test)
    e.put(f"br i1 {test.regs[()]}, label %{body}, label %{done}")
    e.start(body)
    e.block(s.body)
    outs = [widen(e, e.word(y), axes, lanes) for y, (axes, lanes) in zip(s.yields, shapes, strict=True)]
    latch = strips.close(phis, outs)
    write_phis(e, phis, strips.entering, carried, outs, strips.before, latch)
    e.leave()
    e.start(done)
    for r, c in zip(s.results, carried, strict=True):
        e.env[r] = Word(c.dtype, c.axes, c.regs, c.lanes, depth=e.depth())


def _masked_while(
    e: FunctionEmitter, s: While, inits: Sequence[Word], shapes: Sequence[tuple[Key, bool]], test: Word
) -> None:
    """Runs until the mask is empty; `unroll` iterations between two looks at it.  Lanes
    that are off keep their carries.
    """
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
    strips = Strips(e, polls.strip_of_while(e, s), params, inits, head)
    e.start(head)
    phis: Lines = []
    e.lines.append(phis)
    *carried, active = entered = phi_words(e, params, strips.entering)
    current: list[Word] = carried
    for _ in range(max(1, s.unroll)):
        for p, w in zip(s.params, current, strict=True):
            e.env[p] = w
        e.mask = active
        e.block(s.condition)
        inside = widen(e, e.word(s.test), axes, e.width > 1)
        active = apply(e, "and", "bool", [active, inside])
        e.mask = active
        e.block(s.body)
        outs = [e.word(y) for y in s.yields]
        current = [
            widen(e, apply(e, "select", o.dtype, [active, o, c]), a, lanes)
            for o, c, (a, lanes) in zip(outs, current, shapes, strict=True)
        ]
    e.mask = outer
    outs = [*current, active]
    latch = strips.close(phis, outs, any_lane(e, active), done)
    write_phis(e, phis, strips.entering, entered, outs, strips.before, latch)
    e.leave()
    e.start(done)
    for r, c in zip(s.results, current, strict=True):
        e.env[r] = Word(c.dtype, c.axes, c.regs, c.lanes, depth=e.depth())
