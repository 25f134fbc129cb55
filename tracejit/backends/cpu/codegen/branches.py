"""Branches: one for all lanes, or a mask for each; what is rare is written out of the way."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.backends.cpu.codegen.arithmetic import apply
from tracejit.backends.cpu.codegen.counting import widen
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.cpu.codegen.polls import rarely
from tracejit.backends.llvm_like import constant, llvm_type
from tracejit.backends.words import Key, Lines, Word, copies, project, union
from tracejit.ir.kernel import Block, For, If, Op, Operand, Value, While, accesses_of, operands_of, results_of, walk
from tracejit.ir.scalar import OPS

__all__ = ["any_lane", "emit_if"]

SELECT_COST = 24.0  # a varying branch that costs more than this (in vector adds) is skipped when no lane takes it


def _cost(statements: Block) -> float:
    total = 0.0
    for s in walk(tuple(statements)):
        if isinstance(s, Op):
            total += OPS[s.op].cost
        elif isinstance(s, (For, While)):
            total += 100
        else:
            total += 2 * len(accesses_of(s))
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
    sides: list[tuple[list[Word], str, Lines]] = []
    e.enter()
    e.put(f"br i1 {condition.regs[()]}, label %{then}, label %{orelse}{rarely(e) if s.rare else ''}")
    for label, block, yields in ((then, s.then, s.then_yields), (orelse, s.orelse, s.else_yields)):
        e.start(label)
        e.regions[-1].cache = {}
        tail: Lines = []
        e.block(block)
        words = [e.word(y) for y in yields]
        e.lines.append(tail)
        sides.append((words, e.label, tail))
    merged: list[Word] = []
    (a, _, tail_a), (b, _, tail_b) = sides
    shapes = [
        (tuple(sorted({*x.axes, *y.axes})), bool(x.lanes or y.lanes or x.stride or y.stride))
        for x, y in zip(a, b, strict=True)
    ]
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


def _guarded(e: FunctionEmitter, block: Block, yields: Sequence[Operand], mask: Word) -> list[Word]:
    """A side of a varying branch under `mask`: skipped when no lane is on if it is dear, or must be."""
    outer = e.mask
    if not e.exact and _cost(block) > SELECT_COST / 2:
        return _outlined(e, block, yields, mask)
    must = any(accesses_of(s) or isinstance(s, (For, While)) for s in walk(tuple(block)))
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


def _outlined(e: FunctionEmitter, block: Block, yields: Sequence[Operand], mask: Word) -> list[Word]:
    """The rare side of an elementary function: a function of its own, called when a lane needs it,
    written once a module and width.
    """
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


def _rare_function(e: FunctionEmitter, block: Block, yields: Sequence[Operand]) -> tuple[str, list[Value]]:
    """(name, values it takes) of the outlined block at the present width."""
    n = e.width
    key = (id(block), n)
    found = e.module.outlined.get(key)
    if found is not None:
        return found
    inside = {r for s in walk(tuple(block)) for r in results_of(s)}
    used = dict.fromkeys(
        a for s in walk(tuple(block)) for a in operands_of(s) if isinstance(a, Value) and a not in inside
    )
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
    inner.finish(f"internal {result} @{inner.name}({parameters}) noinline", result, value)
    e.module.outlined[key] = (inner.name, needs)
    return inner.name, needs


def _varying_if(e: FunctionEmitter, s: If, condition: Word) -> None:
    condition = widen(e, condition, condition.axes, e.width > 1)
    inverse = apply(e, "not", "bool", [condition])
    then_mask = condition if e.mask is None else apply(e, "and", "bool", [e.mask, condition])
    else_mask = inverse if e.mask is None else apply(e, "and", "bool", [e.mask, inverse])
    then = _guarded(e, s.then, s.then_yields, then_mask)
    orelse = _guarded(e, s.orelse, s.else_yields, else_mask) if s.orelse or s.else_yields else []
    for r, a, b in zip(s.results, then, orelse, strict=True):
        e.env[r] = apply(e, "select", r.dtype, [condition, a, b])


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
