"""Loops over the thread pool: the body as a function of its own, partial results, and their joining in order."""

from __future__ import annotations

from tracejit.backends.cpu.codegen import polls
from tracejit.backends.cpu.codegen.arithmetic import inline
from tracejit.backends.cpu.codegen.counting import bounds_of, counted_loop
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.llvm_like import llvm_type
from tracejit.backends.words import Word
from tracejit.ir.kernel import Block, For, walk
from tracejit.support.errors import InternalError

__all__ = ["emit_parallel", "scans"]


def emit_parallel(e: FunctionEmitter, s: For) -> None:
    """A function that runs `factor` iterations a chunk, called by the pool;
    reduction carries of chunks are combined in order.
    """
    lower, upper = bounds_of(e, s)
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


def _launch(
    e: FunctionEmitter, s: For, inner: FunctionEmitter, lower: Word, upper: Word, grain: int, size: int
) -> None:
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
    e.line(
        f"call i32 @tj_parallel_for_interruptible(ptr @{inner.name}, ptr {frame}, i64 {chunks}, ptr {e.stop_word()})"
    )
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
        return inline(e, combine, [*[e.word(p) for p in s.params], *parts])

    results = counted_loop(e, "0", chunks, 1, [e.word(i) for i in s.inits], s.params, body)
    e.put(f"call void @tj_free(ptr {partials}, i64 {nbytes})")
    for r, w in zip(s.results, results, strict=True):
        e.env[r] = w


def scans(e: FunctionEmitter, body: Block) -> None:
    """Note which loop each prefix belongs to, by its params."""
    e.scans = dict(e.parent.scans) if e.parent is not None else {}
    e.scans.update({s.params: s for s in walk(tuple(body)) if isinstance(s, For) and s.combine is not None})
