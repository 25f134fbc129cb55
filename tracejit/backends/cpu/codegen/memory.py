"""Memory: local buffers, where elements lie, and how they are read and written, by one lane or by all."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tracejit.backends.cpu.codegen.arithmetic import index_op
from tracejit.backends.cpu.codegen.emit import FunctionEmitter
from tracejit.backends.cpu.codegen.polls import leave_without_memory
from tracejit.backends.cpu.runtime.processor import features, is_x86
from tracejit.backends.cpu.runtime.templates import Template
from tracejit.backends.llvm_like import llvm_type
from tracejit.backends.printing import own_memory
from tracejit.backends.words import Key, Word, copies, is_literal, literal_of, project, union
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.kernel import (
    Alloc,
    Atomic,
    Buffer,
    Const,
    Load,
    Operand,
    Store,
    index_const,
)
from tracejit.ir.scalar import BITS, poison_byte
from tracejit.support.config import config
from tracejit.support.errors import InternalError, UnsupportedError
from tracejit.support.nodes import frozen

__all__ = [
    "GUARD", "emit_alloc", "emit_atomic", "emit_load", "emit_store", "emit_stores", "guarded", "on_stack", "poison",
]  # fmt: skip

STACK_BYTES = 16384  # local buffers up to this size live on the stack
STACK_OF_FUNCTION = 262144
"""Bytes that all local memory of a function takes at most of the stack: of a thread 8 MiB, on some systems 512 KiB."""
ROWS = (2, 4, 8, 16, 32, 64)  # elements of rows that are stored together, one a lane
GUARD = 64
"""Bytes before and after memory that are watched where `config.poison` is on."""


@frozen(eq=False)
class Place:
    """Where an element lies: a pointer for each copy of `axes`, or a vector of pointers.

    step: where it differs from lane to lane (`varying`), 1 or -1 if one pointer tells, to the element of the first
    lane; 2 or -2 if it does and the elements are parts of complex numbers that lie side by side, any number if it was
    asked for.  starts: the pointers as others and so many elements more.
    """

    axes: Key
    pointers: dict[Key, str]
    step: int
    varying: bool
    starts: dict[Key, tuple[str, int]]


def _alloc(e: FunctionEmitter, b: Buffer) -> None:
    """A local buffer: on the stack if it is small, else from the recycling allocator,
    at the head of the function.
    """
    size: Extent = BITS[b.dtype] // 8 if b.dtype != "bool" else 1
    for n in b.shape:
        size = size * n
    e.count += 1
    pointer = f"%r{e.count}"
    nbytes = e.polynomial(size) if isinstance(size, Dim) else str(size)
    whole: Extent = size + 2 * GUARD if config.poison else size
    if isinstance(whole, int) and on_stack(e, whole, STACK_BYTES):
        e.entry.append(f"  {pointer} = alloca [{max(whole, 1)} x i8], align 64")
        inside = guarded(e, pointer, nbytes)
    else:
        taken = e.polynomial(whole) if isinstance(whole, Dim) else str(whole)
        e.declare("@tj_alloc", "declare ptr @tj_alloc(i64)")
        e.declare("@tj_free", "declare void @tj_free(ptr, i64)")
        e.entry.append(f"  {pointer} = call ptr @tj_alloc(i64 {taken})")
        inside = guarded(e, pointer, nbytes)
        e.exit.append(f"  call void @tj_free(ptr {pointer}, i64 {taken})")
        leave_without_memory(e, pointer)
    e.buffers[b] = (inside, [])
    poison(e, inside, nbytes, b.dtype)


def on_stack(e: FunctionEmitter, nbytes: int, most: int) -> bool:
    """Whether memory of a function goes to the stack: there is a limit for each piece, and for all of them."""
    taken = -(-max(nbytes, 1) // 64) * 64
    if nbytes > most or e.stack + taken > STACK_OF_FUNCTION:
        return False
    e.stack += taken
    return True


@functools.cache
def _guards() -> str:
    return Template("codegen/guards").text(guard=GUARD)


def guarded(e: FunctionEmitter, pointer: str, nbytes: str) -> str:
    """Where `config.poison` is on, the inner part of memory that is `2 * GUARD` bytes longer.

    The function looks at both ends when it is left, and ends the process if something has written there.
    """
    if not config.poison:
        return pointer
    e.declare("@llvm.trap", "declare void @llvm.trap()")
    e.declare("@guards", _guards())
    e.entry.append(f"  call void @set_guards(ptr {pointer}, i64 {nbytes})")
    e.exit.append(f"  call void @check_guards(ptr {pointer}, i64 {nbytes})")
    return e.at(e.entry, lambda: e.line(f"getelementptr i8, ptr {pointer}, i64 {GUARD}"))


def poison(e: FunctionEmitter, pointer: str, nbytes: str, dtype: str) -> None:
    """Where the switch is on, fill fresh memory so that reading an element before it is written shows."""
    if config.poison:
        e.declare("@llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        e.put(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 {poison_byte(dtype)}, i64 {nbytes}, i1 false)")


def _place(
    e: FunctionEmitter, b: Buffer, index: Sequence[Operand], *, by_parts: bool = False, any_step: bool = False
) -> Place:
    """Where an element lies.  by_parts: those between every other one are accessed with them (`Place.step` 2, -2).
    any_step: what lanes add is told where it is a number.

    The offset is summed from what is known furthest outside, so that a loop only adds what changes in it; constants
    come last, where they are part of the instruction that reads or writes.
    """
    words = [e.word(i) for i in index]
    size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
    base, steps = e.buffer(b)
    in_bytes = b.layout != "C"
    if not in_bytes:
        steps = _steps(e, b)
    elif b.layout == "unit":
        steps = [*steps, str(size)]
    unit = "i8" if in_bytes or b.dtype == "bool" else llvm_type(b.dtype, 1)
    across = [w for w, s in zip(words, steps, strict=True) if w.lanes or (w.stride and not is_literal(s))]
    stride = 0 if across else sum(w.stride * int(s) for w, s in zip(words, steps, strict=True) if w.stride)
    near = (1, -1, 2, -2) if by_parts and _part(b, index) is not None else (1, -1)
    if in_bytes:
        stride, odd = divmod(stride, size)
        stride = 0 if odd else stride
    if any_step and not across:
        near = (stride,)
    varying = bool(across) or any(w.stride for w in words)
    axes = union(words)
    terms = sorted(zip(words, steps, strict=True), key=lambda t: (not t[0].uniform, t[0].depth))
    pointers: dict[Key, str] = {}
    starts: dict[Key, tuple[str, int]] = {}
    for key in copies(axes, e.counts):
        row, shift, last, outside, reached = "0", 0, "0", 0, 0
        lanes: list[str] = []
        for w, s in terms:
            at, depth = project(key, axes, w.axes), min(w.depth, e.depth())
            if w.lanes:
                lanes.append(_scaled(e, w, at, s))
                continue
            if w.stride and stride not in near:
                lanes.append(_lane_steps(e, w.stride, s))
            register, known = w.regs[at], literal_of(w.regs[at])
            if known is not None and is_literal(s):
                shift += known * int(s)
                continue
            if is_literal(s):
                register, plus = e.shifted.get(register, (register, 0))
                shift += plus * int(s)
            reached = max(reached, depth)
            term = index_op(e, "mul", register, s, depth)
            if w.stride:
                last = term if last == "0" else index_op(e, "add", last, term, reached)
            else:
                row = term if row == "0" else index_op(e, "add", row, term, reached)
                outside = reached
        pointer = base if row == "0" else _at(e, base, unit, row, outside)
        start = _at(e, pointer, unit, last, reached)
        starts[key] = start, shift
        pointer = _at(e, start, unit, str(shift), reached)
        if lanes:
            offsets = functools.reduce(lambda a, c: e.line(f"add <{e.width} x i64> {a}, {c}"), lanes)
            pointer = e.line(f"getelementptr {unit}, ptr {pointer}, <{e.width} x i64> {offsets}")
        pointers[key] = pointer
    return Place(axes, pointers, stride, varying, starts)


def _part(b: Buffer, index: Sequence[Operand]) -> int | None:
    """Which part of a complex number an element is, if its buffer has two along the last axis."""
    if len(b.shape) < 2 or b.dtype not in ("f32", "f64") or not isinstance(index[-1], Const):
        return None
    if not isinstance(b.shape[-1], int) or b.shape[-1] != 2:
        return None
    which = index[-1].value
    return which if type(which) is int and which in (0, 1) else None  # a symbol's value is not known here


def _steps(e: FunctionEmitter, b: Buffer) -> list[str]:
    """By how many elements those of a row-major buffer lie apart along each axis."""
    steps: list[str] = []
    step: Extent = 1
    for n in reversed(b.shape):
        steps.append(e.polynomial(step) if isinstance(step, Dim) else str(step))
        step = step * n
    return steps[::-1]


def _scaled(e: FunctionEmitter, w: Word, at: Key, step: str) -> str:
    """A vector of indices times what elements lie apart along their axis."""
    n, register = e.width, e.vector(w, at)
    if step == "1":
        return register
    by = e.vector(Word("i64", (), {(): step}, known=literal_of(step)), ())
    return e.line(f"mul <{n} x i64> {register}, {by}")


def _lane_steps(e: FunctionEmitter, stride: int, step: str) -> str:
    """How far the element of each lane lies from that of the first one."""
    n, lanes = e.width, ", ".join(f"i64 {k * stride}" for k in range(e.width))
    if is_literal(step):
        return "<" + ", ".join(f"i64 {k * stride * int(step)}" for k in range(n)) + ">"

    def write() -> str:
        by = e.vector(Word("i64", (), {(): step}), ())
        return e.line(f"mul <{n} x i64> {by}, <{lanes}>")

    return e.in_region(0, ("lane steps", n, stride, step), write)


def _at(e: FunctionEmitter, base: str, unit: str, offset: str, depth: int) -> str:
    """The address so many units after another one."""
    if offset == "0":
        return base
    return e.in_region(
        depth, ("at", unit, base, offset), lambda: e.line(f"getelementptr {unit}, ptr {base}, i64 {offset}")
    )


def _load(e: FunctionEmitter, b: Buffer, index: Sequence[Operand]) -> Word:
    place = _place(e, b, index, by_parts=True)
    part = _part(b, index) if place.step in (2, -2) else None
    if part:
        place = _place(e, b, (*index[:-1], index_const(0)), by_parts=True)
    memory = "i8" if b.dtype == "bool" else llvm_type(b.dtype, 1)
    size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
    varying = place.varying
    guard = e.mask if varying or _by_copy(e) else None
    axes = place.axes if guard is None else union([place, guard])
    regs: dict[Key, str] = {}
    for key in copies(axes, e.counts):
        pointer = place.pointers[project(key, axes, place.axes)]
        mask = None if guard is None else _flag(e, guard, project(key, axes, guard.axes), varying)
        if not varying:
            raw = e.line(f"load {memory}, ptr {_where(e, mask, pointer)}, align {size}")
            regs[key] = e.line(f"icmp ne i8 {raw}, 0") if b.dtype == "bool" else raw  # as NumPy: any byte but 0
            continue
        if place.step in (1, -1):
            raw = _load_vector(e, pointer, memory, place.step, size, mask)
        elif part is not None:
            raw = _load_parts(e, pointer, memory, size, mask, part, place.step)
        else:
            raw = _gather(e, pointer, memory, size, mask)
        regs[key] = e.line(f"icmp ne <{e.width} x i8> {raw}, zeroinitializer") if b.dtype == "bool" else raw
    return Word(b.dtype, axes, regs, varying, depth=e.depth())


def _by_copy(e: FunctionEmitter) -> bool:
    """Whether the mask is a flag for each copy of an unrolled loop, not one for each lane."""
    return e.mask is not None and not e.mask.lanes


def _flag(e: FunctionEmitter, mask: Word, key: Key, varying: bool) -> str:
    """The mask of one copy, for all lanes of an access that varies over them."""
    return e.vector(mask, key) if varying else mask.regs[key]


def _where(e: FunctionEmitter, flag: str | None, pointer: str) -> str:
    """The pointer, or one to memory that nobody reads where the flag is off:
    what it points to may be no element.
    """
    if flag is None:
        return pointer
    if e.nowhere == "":
        e.nowhere = "%nowhere"
        e.entry.append(f"  {e.nowhere} = alloca [16 x i8], align 16")
    return e.line(f"select i1 {flag}, ptr {pointer}, ptr {e.nowhere}")


def _load_vector(e: FunctionEmitter, first: str, memory: str, step: int, size: int, mask: str | None) -> str:
    n = e.width
    t = f"<{n} x {memory}>"
    if step == -1:
        first = e.line(f"getelementptr {memory}, ptr {first}, i64 {1 - n}")
        mask = None if mask is None else _reverse(e, mask, "i1")
    if mask is None:
        raw = e.line(f"load {t}, ptr {first}, align {size}")
    else:
        symbol = f"@llvm.masked.load.v{n}{_suffix(memory)}.p0"
        e.declare(symbol, f"declare {t} {symbol}(ptr, i32, <{n} x i1>, {t})")
        raw = e.line(f"call {t} {symbol}(ptr {first}, i32 {size}, <{n} x i1> {mask}, {t} zeroinitializer)")
    return _reverse(e, raw, memory) if step == -1 else raw


def _load_parts(e: FunctionEmitter, first: str, memory: str, size: int, mask: str | None, part: int, step: int) -> str:
    """Every other element from `part` on.  What is between is loaded too: it is part of the same numbers."""
    n = e.width
    t = f"<{2 * n} x {memory}>"
    if step < 0:
        first = e.line(f"getelementptr {memory}, ptr {first}, i64 {2 - 2 * n}")
        mask = None if mask is None else _reverse(e, mask, "i1")
    if mask is None:
        raw = e.line(f"load {t}, ptr {first}, align {size}")
    else:
        symbol = f"@llvm.masked.load.v{2 * n}{_suffix(memory)}.p0"
        e.declare(symbol, f"declare {t} {symbol}(ptr, i32, <{2 * n} x i1>, {t})")
        twice = _twice(e, mask)
        raw = e.line(f"call {t} {symbol}(ptr {first}, i32 {size}, <{2 * n} x i1> {twice}, {t} zeroinitializer)")
    order = ", ".join(f"i32 {2 * k + part}" for k in (range(n) if step > 0 else reversed(range(n))))
    return e.line(f"shufflevector {t} {raw}, {t} poison, <{n} x i32> <{order}>")


def _twice(e: FunctionEmitter, mask: str) -> str:
    """A mask of lanes as one of their parts."""
    n = e.width
    order = ", ".join(f"i32 {k // 2}" for k in range(2 * n))
    return e.line(f"shufflevector <{n} x i1> {mask}, <{n} x i1> poison, <{2 * n} x i32> <{order}>")


def _reverse(e: FunctionEmitter, register: str, memory: str) -> str:
    n = e.width
    order = ", ".join(f"i32 {n - 1 - k}" for k in range(n))
    return e.line(f"shufflevector <{n} x {memory}> {register}, <{n} x {memory}> poison, <{n} x i32> <{order}>")


def _gather(e: FunctionEmitter, pointers: str, memory: str, size: int, mask: str | None) -> str:
    n = e.width
    t = f"<{n} x {memory}>"
    symbol = f"@llvm.masked.gather.v{n}{_suffix(memory)}.v{n}p0"
    e.declare(symbol, f"declare {t} {symbol}(<{n} x ptr>, i32, <{n} x i1>, {t})")
    lanes = mask or "splat (i1 true)"
    return e.line(f"call {t} {symbol}(<{n} x ptr> {pointers}, i32 {size}, <{n} x i1> {lanes}, {t} zeroinitializer)")


def _store(e: FunctionEmitter, b: Buffer, index: Sequence[Operand], value: Operand) -> None:
    place = _place(e, b, index)
    w = e.word(value)
    memory = "i8" if b.dtype == "bool" else llvm_type(b.dtype, 1)
    size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
    varying = place.varying
    if not varying and (w.lanes or w.stride):
        raise InternalError("lanes store to one place")
    axes = union([place, w, *([e.mask] if e.mask is not None else [])])
    n = e.width
    for key in copies(axes, e.counts):
        pointer, of = place.pointers[project(key, axes, place.axes)], project(key, axes, w.axes)
        mask = None if e.mask is None else _flag(e, e.mask, project(key, axes, e.mask.axes), varying)
        if not varying:
            register = w.regs[of]
            if b.dtype == "bool":
                register = e.line(f"zext i1 {register} to i8")
            if mask is not None and not _by_copy(e):
                raise InternalError("a masked store to one place")
            e.put(f"store {memory} {register}, ptr {_where(e, mask, pointer)}, align {size}")
            continue
        register = e.vector(w, of)
        if b.dtype == "bool":
            register = e.line(f"zext <{n} x i1> {register} to <{n} x i8>")
        if place.step in (1, -1):
            _store_vector(e, pointer, memory, place.step, size, register, mask)
        else:
            symbol = f"@llvm.masked.scatter.v{n}{_suffix(memory)}.v{n}p0"
            e.declare(symbol, f"declare void {symbol}(<{n} x {memory}>, <{n} x ptr>, i32, <{n} x i1>)")
            lanes = mask or "splat (i1 true)"
            e.put(
                f"call void {symbol}(<{n} x {memory}> {register}, <{n} x ptr> {pointer}, i32 {size}, <{n} x i1> "
                f"{lanes})"
            )


def _store_vector(
    e: FunctionEmitter, first: str, memory: str, step: int, size: int, register: str, mask: str | None
) -> None:
    n = e.width
    if step == -1:
        first = e.line(f"getelementptr {memory}, ptr {first}, i64 {1 - n}")
        register = _reverse(e, register, memory)
        mask = None if mask is None else _reverse(e, mask, "i1")
    if mask is None:
        # LLVM makes a masked store of one of `select m, new, old`, which is microcode on AMD's processors: not of this.
        register = e.line(f"freeze <{n} x {memory}> {register}")
        e.put(f"store <{n} x {memory}> {register}, ptr {first}, align {size}")
        return
    if memory in ("i8", "i16", "i32") and is_x86() and "avx512f" in features():
        mask = _unforeseen(e, mask)
    symbol = f"@llvm.masked.store.v{n}{_suffix(memory)}.p0"
    e.declare(symbol, f"declare void {symbol}(<{n} x {memory}>, ptr, i32, <{n} x i1>)")
    e.put(f"call void {symbol}(<{n} x {memory}> {register}, ptr {first}, i32 {size}, <{n} x i1> {mask})")


def _unforeseen(e: FunctionEmitter, mask: str) -> str:
    """The mask, as LLVM cannot compute it.

    Where it finds that a single lane is stored, LLVM 22 makes that a store of the lane, and forgets that it is stored
    in fewer bits than it has if it is the result of a conversion: the store goes over what is behind it.
    """
    n = e.width
    bits = max(n, 8)
    word = e.line(f"bitcast <{n} x i1> {mask} to i{n}")
    if bits > n:
        word = e.line(f"zext i{n} {word} to i{bits}")
    hidden = e.line(f'call i{bits} asm "", "=r,0"(i{bits} {word})')
    if bits > n:
        hidden = e.line(f"trunc i{bits} {hidden} to i{n}")
    return e.line(f"bitcast i{n} {hidden} to <{n} x i1>")


def _suffix(memory: str) -> str:
    return {"half": "f16", "float": "f32", "double": "f64"}.get(memory, memory)


def emit_alloc(e: FunctionEmitter, s: Alloc) -> None:
    """Write the statement."""
    own_memory(s.buffer, "cpu")
    _alloc(e, s.buffer)


def emit_load(e: FunctionEmitter, s: Load) -> None:
    """Write the statement."""
    e.env[s.out] = _load(e, s.buffer, s.index)


def emit_store(e: FunctionEmitter, s: Store) -> None:
    """Write the statement."""
    _store(e, s.buffer, s.index, s.value)


def emit_stores(e: FunctionEmitter, stores: Sequence[Store]) -> int:
    """Write the first of several stores to one buffer as one; how many these are.

    Each is the element of a row of so many, and each lane has a row, one behind the other (parts of complex numbers are
    rows of two): alone they would be scattered, so elements are exchanged between vectors.
    """
    b = stores[0].buffer
    if len(stores) < 2 or e.width < 2 or b.layout != "C" or b.dtype not in ("f32", "f64"):
        return 0
    first = _place(e, b, stores[0].index, any_step=True)
    count = first.step
    if not first.varying or count not in ROWS or count > len(stores):
        return 0
    stores = stores[:count]
    for n, s in enumerate(stores):
        place = _place(e, b, s.index, any_step=True)
        wanted = {key: (start, shift + n) for key, (start, shift) in first.starts.items()}
        if place.step != count or place.starts != wanted:
            return 0
    words = [e.word(s.value) for s in stores]
    n, memory, size = e.width, llvm_type(b.dtype, 1), BITS[b.dtype] // 8
    axes = union([first, *words, *([e.mask] if e.mask is not None else [])])
    for key in copies(axes, e.counts):
        vectors = _interleaved(e, [e.vector(w, project(key, axes, w.axes)) for w in words], memory)
        pointer = first.pointers[project(key, axes, first.axes)]
        mask = None if e.mask is None else _flag(e, e.mask, project(key, axes, e.mask.axes), True)
        for k, vector in enumerate(vectors):
            place = pointer if k == 0 else e.line(f"getelementptr {memory}, ptr {pointer}, i64 {k * n}")
            flags = mask
            if mask is not None:
                order = ", ".join(f"i32 {(k * n + i) // count}" for i in range(n))
                flags = e.line(f"shufflevector <{n} x i1> {mask}, <{n} x i1> poison, <{n} x i32> <{order}>")
            _store_vector(e, place, memory, 1, size, vector, flags)
    return count


def _interleaved(e: FunctionEmitter, vectors: Sequence[str], memory: str) -> list[str]:
    """Vectors that have, one behind the other, the first elements of all given, then the second ones, and so on."""
    if len(vectors) == 1:
        return list(vectors)
    n = e.width
    t = f"<{n} x {memory}>"
    found: list[str] = []
    halves = (_interleaved(e, vectors[start::2], memory) for start in (0, 1))
    for a, b in zip(*halves, strict=True):
        for half in (0, 1):
            order = ", ".join(f"i32 {half * n // 2 + i // 2 + (n if i % 2 else 0)}" for i in range(n))
            found.append(e.line(f"shufflevector {t} {a}, {t} {b}, <{n} x i32> <{order}>"))
    return found


def emit_atomic(e: FunctionEmitter, s: Atomic) -> None:
    """Raises: UnsupportedError."""
    raise UnsupportedError("atomics are not used on the cpu backend: scatters run in order")
