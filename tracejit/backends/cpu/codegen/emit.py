"""Kernel IR to LLVM IR text, in its final form: vectors, masks, unrolled copies and tails are written here,
not found by LLVM.

A `vector` loop is SPMD: values are uniform, affine in the lane, or vectors; a varying `if` is masked, a varying `while`
runs until no lane is left; memory access is contiguous, broadcast or gathered by how the index varies.  A carry-free
`unroll` loop is jammed: its body is written once per statement for all copies.  A `parallel` loop becomes a function of
its own that the thread pool calls.

Note [regions]: every loop body and branch is a region with its own cache of broadcast registers, written where the
value was defined, so that nothing is used where it does not dominate.  Indices and addresses are computed once, in the
outermost region that knows their operands (`index_op`, `place`): LLVM's loop strength reduction, which is slow, has
nothing left to do and is switched off.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tracejit.backends.cpu.codegen.polls import Lengths, leave_without_memory
from tracejit.backends.cpu.codegen.words import Key, Lines, Region, Word, copies, project, union
from tracejit.backends.cpu.runtime.processor import attributes
from tracejit.backends.llvm_like import Emit, constant, llvm_type, scalar_op
from tracejit.ir.builder import make_lambda
from tracejit.ir.extents import Dim, Extent, operations
from tracejit.ir.kernel import (
    Alloc,
    Atomic,
    Block,
    Buffer,
    Const,
    For,
    Lambda,
    Load,
    Op,
    Operand,
    Store,
    Value,
)
from tracejit.ir.math import EXPANSIONS, expand
from tracejit.ir.scalar import BITS, OPS, poison_byte
from tracejit.support.config import config
from tracejit.support.errors import InternalError, TracejitError, UnsupportedError
from tracejit.support.nodes import frozen

__all__ = ["FunctionEmitter", "Module"]

STACK_BYTES = 16384  # local buffers up to this size live on the stack
_MATH: dict[tuple[str, str, Any], Lambda] = {}


def _math_lambda(name: str, dtype: str) -> Lambda:
    """The elementary function as scalar statements, recorded once."""
    key = (name, dtype, EXPANSIONS.get(name))
    if key not in _MATH:
        if name not in EXPANSIONS:
            raise UnsupportedError(
                f"the scalar operation {name} has no expansion and the cpu backend no spelling of it on {dtype}; "
                f"give it one: tj.register_intrinsic({name!r}, ..., backend='cpu', dtypes={dtype!r})"
            )
        _MATH[key] = make_lambda([dtype] * OPS[name].arity, lambda r, *xs: expand(name, r, *xs))
    return _MATH[key]


GUARD = 64
"""Bytes before and after memory that are watched where `config.poison` is on."""
_GUARDS = """
define internal void @set_guards(ptr %p, i64 %n) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %out, label %set
set:
  %start = getelementptr i8, ptr %p, i64 64
  %end = getelementptr i8, ptr %start, i64 %n
  store <8 x i64> @@, ptr %p, align 1
  store <8 x i64> @@, ptr %end, align 1
  br label %out
out:
  ret void
}
define internal void @check_guards(ptr %p, i64 %n) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %out, label %check
check:
  %start = getelementptr i8, ptr %p, i64 64
  %end = getelementptr i8, ptr %start, i64 %n
  %before = load <8 x i64>, ptr %p, align 1
  %after = load <8 x i64>, ptr %end, align 1
  %x = icmp eq <8 x i64> %before, @@
  %y = icmp eq <8 x i64> %after, @@
  %both = and <8 x i1> %x, %y
  %bits = bitcast <8 x i1> %both to i8
  %whole = icmp eq i8 %bits, -1
  br i1 %whole, label %out, label %broken
broken:
  call void @llvm.trap()
  unreachable
out:
  ret void
}""".replace("@@", f"<{', '.join(['i64 -4340410370284600381'] * 8)}>")


class Module:
    """The text of one LLVM module: functions, and the declarations they need."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.outlined: dict[tuple[int, int], tuple[str, list[Value]]] = {}  # rare blocks written as functions
        self.names = 0

    def declare(self, symbol: str, text: str) -> None:
        self.declarations[symbol] = text

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}.{self.names}"

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions, ""])


PLAIN_STATE = (
    "axes", "count", "exact", "label", "lengths", "lines", "mask", "nowhere", "polled", "scan", "width",
)  # fmt: skip
TABLES = ("buffers", "captured", "counts", "dims", "env", "polynomials", "scans", "shifted")


class FunctionEmitter(Emit):
    """Writes one LLVM function.

    What changes while it does is `entry`, `exit`, `required`, `regions`, and what PLAIN_STATE and TABLES name: `trial`
    puts all of it back.
    """

    def __init__(self, module: Module, name: str, parent: FunctionEmitter | None = None) -> None:
        super().__init__(self._line, module.declare)
        self.module = module
        self.name = name
        self.parent = parent
        self.count = 0
        self.entry: Lines = []  # allocas and captured values
        self.exit: Lines = []  # frees
        self.required: list[str] = []  # memory without which nothing runs
        self.lines: Lines = []
        self.regions = [Region(self.entry)]
        self.env: dict[Value, Word] = {}
        self.buffers: dict[Buffer, tuple[str, list[str]]] = {}  # pointer, byte strides ("C": empty)
        self.dims: dict[str, str] = {}
        self.counts: dict[int, int] = {}
        self.width = 1
        self.mask: Word | None = None
        self.nowhere = ""
        self.label = "start"
        self.captured: dict[tuple[str, str], str] = {}
        self.polynomials: dict[Dim, str] = {}
        self.shifted: dict[str, tuple[str, int]] = {}  # a register that is another one plus a constant
        self.exact = True
        self.axes = 0
        self.scan: For | None = None  # the scan loop that is the vector loop being written
        self.scans: dict[tuple[Value, ...], For] = {}  # scan loops by their params
        self.lengths: Lengths | None = None  # of the loops here, which look for Ctrl-C; None: they do not
        self.polled = False  # whether one does

    # -- text ----------------------------------------------------------------------------------------------------------
    def _line(self, text: str) -> str:
        self.count += 1
        register = f"%r{self.count}"
        self.lines.append(f"  {register} = {text}")
        return register

    def put(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def fresh_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def at(self, where: Lines, write: Callable[[], str]) -> str:
        """Run `write` with its lines going to `where`."""
        saved, self.lines = self.lines, where
        try:
            return write()
        finally:
            self.lines = saved

    def depth(self) -> int:
        return len(self.regions) - 1

    def in_region(self, depth: int, key: Hashable, write: Callable[[], str]) -> str:
        """A register computed once in the region at `depth` (see Note [regions])."""
        region = self.regions[depth]
        found = region.cache.get(key)
        if found is None:
            found = write() if depth == self.depth() else self.at(self.regions[depth + 1].pre, write)
            region.cache[key] = found
        return found

    def enter(self) -> None:
        """Open a region; its `pre` text goes at the current position."""
        pre: Lines = []
        self.lines.append(pre)
        self.regions.append(Region(pre))

    def leave(self) -> None:
        self.regions.pop()

    @contextmanager
    def trial(self) -> Generator[None]:
        """What is written in the block is thrown away: it only shows what would come of it.

        Texts that are written to are cut, tables get their entries back, so that whoever holds one sees it as it was.
        """
        plain = {name: getattr(self, name) for name in PLAIN_STATE}
        texts = [self.entry, self.exit, self.required, *[region.pre for region in self.regions]]
        lengths = [len(text) for text in texts]
        tables = [getattr(self, name) for name in TABLES] + [region.cache for region in self.regions]
        entries = [dict(table) for table in tables]
        regions = list(self.regions)
        self.lines = []
        try:
            yield
        finally:
            for name, value in plain.items():
                setattr(self, name, value)
            for text, length in zip(texts, lengths, strict=True):
                del text[length:]
            for table, before in zip(tables, entries, strict=True):
                table.clear()
                table.update(before)
            self.regions[:] = regions

    # -- operands ------------------------------------------------------------------------------------------------------
    def word(self, x: Operand) -> Word:
        if type(x) is Const:
            if isinstance(x.value, Dim):
                return Word("i64", (), {(): self.polynomial(x.value)})
            return Word(x.dtype, (), {(): constant(x.value, x.dtype)}, known=x.value)
        found = self.env.get(x)  # type: ignore[arg-type]
        if found is None:
            found = self.capture_word(x)  # type: ignore[arg-type]
        return found

    def capture_word(self, x: Value) -> Word:
        if self.parent is None:
            raise InternalError(f"kernel value {x} is used before it is computed")
        outer = self.parent.word(x)
        if outer.axes or not outer.uniform:
            raise InternalError("a parallel loop inside of a vector or unrolled loop")
        word = Word(outer.dtype, (), {(): self.capture(outer.regs[()], llvm_type(outer.dtype, 1))}, known=outer.known)
        self.env[x] = word
        return word

    def capture(self, register: str, t: str) -> str:
        """A register of the enclosing function, passed through the frame."""
        if not register.startswith("%"):
            return register
        key = (register, t)
        found = self.captured.get(key)
        if found is None:
            number = len(self.captured)
            found = self.captured[key] = f"%c{number}"
            self.entry.append(f"  %cp{number} = getelementptr i64, ptr %frame, i64 {number}")
            if t == "i1":
                self.entry.append(f"  %cb{number} = load i8, ptr %cp{number}")
                self.entry.append(f"  {found} = trunc i8 %cb{number} to i1")
            else:
                self.entry.append(f"  {found} = load {t}, ptr %cp{number}")
        return found

    def buffer(self, b: Buffer) -> tuple[str, list[str]]:
        found = self.buffers.get(b)
        if found is None:
            if self.parent is None:
                raise InternalError(f"buffer {b.name} is not a parameter")
            pointer, strides = self.parent.buffer(b)
            found = self.buffers[b] = (self.capture(pointer, "ptr"), [self.capture(s, "i64") for s in strides])
        return found

    def dim(self, name: str) -> str:
        found = self.dims.get(name)
        if found is None:
            if self.parent is None:
                raise InternalError(f"extent {name} is not a parameter")
            found = self.dims[name] = self.capture(self.parent.dim(name), "i64")
        return found

    def stop_word(self) -> str:
        """The address of the word that is not 0 once the job is to be left."""
        self.polled = True
        return "%stop" if self.parent is None else self.capture(self.parent.stop_word(), "ptr")

    def polynomial(self, d: Dim) -> str:
        """An extent polynomial, computed at the head of the function."""
        found = self.polynomials.get(d)
        if found is None:
            leaf = lambda a: self.dim(a) if isinstance(a, str) else str(a)  # noqa: E731
            found = self.polynomials[d] = operations(d, leaf, self._on_extents)
        return found

    def _on_extents(self, name: str, p: str, q: str) -> str:
        def line(text: str) -> str:
            self.count += 1
            self.entry.append(f"  %r{self.count} = {text}")
            return f"%r{self.count}"

        if name in ("add", "mul"):
            return line(f"{name} i64 {p}, {q}")
        if name == "max":
            return line(f"select i1 {line(f'icmp sgt i64 {p}, {q}')}, i64 {p}, i64 {q}")
        # Rounded to minus infinity: the divisor, an extent, is positive; the dividend need not be.
        rest = line(f"srem i64 {p}, {q}")
        less = line(f"icmp slt i64 {rest}, 0")
        if name == "mod":
            return line(f"add i64 {rest}, {line(f'select i1 {less}, i64 {q}, i64 0')}")
        return line(f"add i64 {line(f'sdiv i64 {p}, {q}')}, {line(f'sext i1 {less} to i64')}")

    def vector(self, w: Word, key: Key, lanes: int | None = None) -> str:
        """The register of one copy as a vector over the lanes."""
        n = lanes or self.width
        register = w.regs[key]
        if w.lanes or n == 1:
            return register
        if w.known is not None:
            return constant(w.known, w.dtype, n)
        return self.in_region(min(w.depth, self.depth()), (register, w.stride, n), lambda: self._spread(w, key, n))

    def _spread(self, w: Word, key: Key, n: int) -> str:
        t, scalar, register = llvm_type(w.dtype, n), llvm_type(w.dtype, 1), w.regs[key]
        if w.apart and key[0]:  # adding constants takes any unit, a broadcast only the one for shuffles
            return self.line(f"add {t} {self.vector(w, (0,), n)}, {constant(key[0] * w.apart, w.dtype, n)}")
        if register.startswith("%"):
            one = self.line(f"insertelement {t} poison, {scalar} {register}, i64 0")
            spread = self.line(f"shufflevector {t} {one}, {t} poison, <{n} x i32> zeroinitializer")
        else:
            spread = f"splat ({scalar} {register})"
        if w.stride == 0:
            return spread
        steps = ", ".join(f"{scalar} {k * w.stride}" for k in range(n))
        return self.line(f"add {t} {spread}, <{steps}>")

    # -- scalar operations ---------------------------------------------------------------------------------------------
    def apply(self, name: str, dtype: str, args: Sequence[Word]) -> Word:
        """One scalar operation on words."""
        if OPS[name].math and not (self.own and self.spells(name, args[-1].dtype)):
            return self._math(name, args)
        axes = union(args)
        if (
            dtype == "i64"
            and name in ("add", "sub", "mul")
            and not any(a.lanes for a in args)
            and any(a.stride for a in args)
        ):
            affine = self._affine(name, args, axes)
            if affine is not None:
                return affine
        lanes = any(a.lanes or a.stride for a in args)
        if dtype == "i64" and not lanes and name in _OF_INDICES and not self.own:
            (a, b), depth = args, self._depth_of(args)
            regs = {
                key: self.index_op(name, a.regs[project(key, axes, a.axes)], b.regs[project(key, axes, b.axes)], depth)
                for key in copies(axes, self.counts)
            }
            known = None if axes or not _is_literal(regs[()]) else int(regs[()])
            return Word("i64", axes, regs, depth=depth, known=known)
        n = self.width if lanes else 1
        types, known = [a.dtype for a in args], [a.known for a in args]
        regs: dict[Key, str] = {}
        for key in copies(axes, self.counts):
            operands = [
                self.vector(a, project(key, axes, a.axes)) if lanes else a.regs[project(key, axes, a.axes)]
                for a in args
            ]
            regs[key] = scalar_op(self, name, dtype, operands, types, n, known, self.exact)
        return Word(dtype, axes, regs, lanes, depth=self.depth())

    def _affine(self, name: str, args: Sequence[Word], axes: Key) -> Word | None:
        a, b = args
        if name == "mul":
            if a.stride and b.stride:
                return None
            factor = b.known if a.stride else a.known
            if factor is None:
                return None
            stride = (a.stride or b.stride) * factor
        else:
            stride = a.stride + b.stride if name == "add" else a.stride - b.stride
        depth = self._depth_of(args)
        regs = {
            key: self.index_op(name, a.regs[project(key, axes, a.axes)], b.regs[project(key, axes, b.axes)], depth)
            for key in copies(axes, self.counts)
        }
        return Word("i64", axes, regs, False, stride, depth)

    def _depth_of(self, args: Sequence[Word]) -> int:
        """The outermost region where what depends on these words can be computed."""
        return min(max(a.depth for a in args), self.depth())

    def index_op(self, name: str, x: str, y: str, depth: int) -> str:
        """An operation on indices of one lane, written once in the region where its operands are known."""
        a, b = _literal(x), _literal(y)
        if a is not None and b is not None and (name in ("add", "sub", "mul") or (a >= 0 and b > 0)):
            found = _FOLDED[name](a, b)
            if -(2**63) <= found < 2**63:
                return str(found)
        if name == "sub" and b is not None:
            name, b = "add", -b
        if name == "add":
            if a is not None:
                x, a, b = y, b, a
            if b is not None:
                base, shift = self.shifted.get(x, (x, 0))
                return self.plus(base, shift + b, depth)
        elif name == "mul" and (a in (0, 1) or b in (0, 1)):
            return "0" if 0 in (a, b) else y if a == 1 else x
        elif name == "mul" and b is not None and x in self.shifted:  # what differs by a constant goes on doing so
            base, shift = self.shifted[x]
            return self.plus(self.index_op("mul", base, y, depth), shift * b, depth)
        if name in ("add", "sub") and (x in self.shifted or y in self.shifted):
            (x, shift), (y, other) = self.shifted.get(x, (x, 0)), self.shifted.get(y, (y, 0))
            return self.plus(self.index_op(name, x, y, depth), shift + other if name == "add" else shift - other, depth)
        if name == "add":
            x, y = sorted((x, y))
        return self.in_region(
            depth,
            (name, x, y),
            lambda: scalar_op(self, name, "i64", [x, y], ["i64", "i64"], 1, [_literal(x), _literal(y)]),
        )

    def plus(self, base: str, shift: int, depth: int) -> str:
        """A register plus a constant."""
        if _is_literal(base):
            return str(int(base) + shift)
        if not shift:
            return base

        def write() -> str:
            register = self.line(f"add i64 {base}, {shift}")
            self.shifted[register] = base, shift
            return register

        return self.in_region(depth, ("add", base, shift), write)

    def _math(self, name: str, args: Sequence[Word]) -> Word:
        dtype = args[-1].dtype
        if dtype == "f16":
            wide = [self.apply("convert", "f32", [a]) for a in args]
            return self.apply("convert", "f16", [self.apply(name, "f32", wide)])
        saved, self.exact = self.exact, False
        try:
            return self.inline(_math_lambda(name, dtype), args)[0]
        finally:
            self.exact = saved

    def inline(self, lam: Lambda, args: Sequence[Word]) -> list[Word]:
        """The statements of a lambda over words; its values leave no trace in the environment."""
        saved = self.env
        self.env = dict(zip(lam.params, args, strict=True))
        try:
            self.block(lam.body)
            return [self.word(r) for r in lam.results]
        finally:
            self.env = saved

    # -- statements ----------------------------------------------------------------------------------------------------
    def block(self, statements: Block) -> None:
        for s in statements:
            emit = EMIT.get(type(s))
            if emit is None:
                raise InternalError(f"the cpu backend has no {type(s).__name__}")
            emit(self, s)

    def operation(self, s: Op) -> None:
        try:
            self.env[s.out] = self.apply(s.op, s.out.dtype, [self.word(a) for a in s.args])
        except TracejitError as error:
            error.at(s.location)
            raise

    def load_statement(self, s: Load) -> None:
        self.env[s.out] = self.load(s.buffer, s.index)

    # -- memory --------------------------------------------------------------------------------------------------------
    def alloc(self, b: Buffer) -> None:
        """A local buffer: on the stack if it is small, else from the recycling allocator,
        at the head of the function.
        """
        size: Extent = BITS[b.dtype] // 8 if b.dtype != "bool" else 1
        for n in b.shape:
            size = size * n
        self.count += 1
        pointer = f"%r{self.count}"
        nbytes = self.polynomial(size) if isinstance(size, Dim) else str(size)
        whole: Extent = size + 2 * GUARD if config.poison else size
        if isinstance(whole, int) and whole <= STACK_BYTES:
            self.entry.append(f"  {pointer} = alloca [{max(whole, 1)} x i8], align 64")
            inside = self.guarded(pointer, nbytes)
        else:
            taken = self.polynomial(whole) if isinstance(whole, Dim) else str(whole)
            self.declare("@tj_alloc", "declare ptr @tj_alloc(i64)")
            self.declare("@tj_free", "declare void @tj_free(ptr, i64)")
            self.entry.append(f"  {pointer} = call ptr @tj_alloc(i64 {taken})")
            inside = self.guarded(pointer, nbytes)
            self.exit.append(f"  call void @tj_free(ptr {pointer}, i64 {taken})")
            leave_without_memory(self, pointer)
        self.buffers[b] = (inside, [])
        self.poison(inside, nbytes, b.dtype)

    def guarded(self, pointer: str, nbytes: str) -> str:
        """Where `config.poison` is on, the inner part of memory that is `2 * GUARD` bytes longer.

        The function looks at both ends when it is left, and ends the process if something has written there.
        """
        if not config.poison:
            return pointer
        self.declare("@llvm.trap", "declare void @llvm.trap()")
        self.declare("@guards", _GUARDS)
        self.entry.append(f"  call void @set_guards(ptr {pointer}, i64 {nbytes})")
        self.exit.append(f"  call void @check_guards(ptr {pointer}, i64 {nbytes})")
        return self.at(self.entry, lambda: self.line(f"getelementptr i8, ptr {pointer}, i64 {GUARD}"))

    def poison(self, pointer: str, nbytes: str, dtype: str) -> None:
        """Where the switch is on, fill fresh memory so that reading an element before it is written shows."""
        if config.poison:
            self.declare("@llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            self.put(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 {poison_byte(dtype)}, i64 {nbytes}, i1 false)")

    def place(self, b: Buffer, index: Sequence[Operand]) -> Place:
        """Where an element lies.

        The offset is summed from what is known furthest outside, so that a loop only adds what changes in it; constants
        come last, where they are part of the instruction that reads or writes.
        """
        words = [self.word(i) for i in index]
        size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
        base, steps = self.buffer(b)
        in_bytes = b.layout != "C"
        if not in_bytes:
            steps = self._steps(b)
        elif b.layout == "unit":
            steps = [*steps[:-1], str(size)]
        unit = "i8" if in_bytes or b.dtype == "bool" else llvm_type(b.dtype, 1)
        across = [w for w, s in zip(words, steps, strict=True) if w.lanes or (w.stride and not _is_literal(s))]
        stride = 0 if across else sum(w.stride * int(s) for w, s in zip(words, steps, strict=True) if w.stride)
        if in_bytes:
            stride, odd = divmod(stride, size)
            stride = 0 if odd else stride
        varying = bool(across) or any(w.stride for w in words)
        axes = union(words)
        terms = sorted(zip(words, steps, strict=True), key=lambda t: (not t[0].uniform, t[0].depth))
        pointers: dict[Key, str] = {}
        for key in copies(axes, self.counts):
            row, shift, last, outside, reached = "0", 0, "0", 0, 0
            lanes: list[str] = []
            for w, s in terms:
                at, depth = project(key, axes, w.axes), min(w.depth, self.depth())
                if w.lanes:
                    lanes.append(self._scaled(w, at, s))
                    continue
                if w.stride and stride not in (1, -1):
                    lanes.append(self._lane_steps(w.stride, s))
                register, known = w.regs[at], _literal(w.regs[at])
                if known is not None and _is_literal(s):
                    shift += known * int(s)
                    continue
                if _is_literal(s):
                    register, plus = self.shifted.get(register, (register, 0))
                    shift += plus * int(s)
                reached = max(reached, depth)
                term = self.index_op("mul", register, s, depth)
                if w.stride:
                    last = term if last == "0" else self.index_op("add", last, term, reached)
                else:
                    row = term if row == "0" else self.index_op("add", row, term, reached)
                    outside = reached
            pointer = base if row == "0" else self._at(base, unit, row, outside)
            pointer = self._at(self._at(pointer, unit, last, reached), unit, str(shift), reached)
            if lanes:
                offsets = functools.reduce(lambda a, c: self.line(f"add <{self.width} x i64> {a}, {c}"), lanes)
                pointer = self.line(f"getelementptr {unit}, ptr {pointer}, <{self.width} x i64> {offsets}")
            pointers[key] = pointer
        return Place(axes, pointers, stride, varying)

    def _steps(self, b: Buffer) -> list[str]:
        """By how many elements those of a row-major buffer lie apart along each axis."""
        steps: list[str] = []
        step: Extent = 1
        for n in reversed(b.shape):
            steps.append(self.polynomial(step) if isinstance(step, Dim) else str(step))
            step = step * n
        return steps[::-1]

    def _scaled(self, w: Word, at: Key, step: str) -> str:
        """A vector of indices times what elements lie apart along their axis."""
        n, register = self.width, self.vector(w, at)
        if step == "1":
            return register
        by = self.vector(Word("i64", (), {(): step}, known=_literal(step)), ())
        return self.line(f"mul <{n} x i64> {register}, {by}")

    def _lane_steps(self, stride: int, step: str) -> str:
        """How far the element of each lane lies from that of the first one."""
        n, lanes = self.width, ", ".join(f"i64 {k * stride}" for k in range(self.width))
        if _is_literal(step):
            return "<" + ", ".join(f"i64 {k * stride * int(step)}" for k in range(n)) + ">"

        def write() -> str:
            by = self.vector(Word("i64", (), {(): step}), ())
            return self.line(f"mul <{n} x i64> {by}, <{lanes}>")

        return self.in_region(0, ("lane steps", n, stride, step), write)

    def _at(self, base: str, unit: str, offset: str, depth: int) -> str:
        """The address so many units after another one."""
        if offset == "0":
            return base
        return self.in_region(
            depth, ("at", unit, base, offset), lambda: self.line(f"getelementptr {unit}, ptr {base}, i64 {offset}")
        )

    def load(self, b: Buffer, index: Sequence[Operand]) -> Word:
        place = self.place(b, index)
        memory = "i8" if b.dtype == "bool" else llvm_type(b.dtype, 1)
        size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
        varying = place.varying
        guard = self.mask if varying or self._by_copy() else None
        axes = place.axes if guard is None else union([place, guard])
        regs: dict[Key, str] = {}
        for key in copies(axes, self.counts):
            pointer = place.pointers[project(key, axes, place.axes)]
            mask = None if guard is None else self._flag(guard, project(key, axes, guard.axes), varying)
            if not varying:
                raw = self.line(f"load {memory}, ptr {self._where(mask, pointer)}, align {size}")
                regs[key] = self.line(f"trunc i8 {raw} to i1") if b.dtype == "bool" else raw
                continue
            if place.step in (1, -1):
                raw = self._load_vector(pointer, memory, place.step, size, mask)
            else:
                raw = self._gather(pointer, memory, size, mask)
            regs[key] = self.line(f"icmp ne <{self.width} x i8> {raw}, zeroinitializer") if b.dtype == "bool" else raw
        return Word(b.dtype, axes, regs, varying, depth=self.depth())

    def _by_copy(self) -> bool:
        """Whether the mask is a flag for each copy of an unrolled loop, not one for each lane."""
        return self.mask is not None and not self.mask.lanes

    def _flag(self, mask: Word, key: Key, varying: bool) -> str:
        """The mask of one copy, for all lanes of an access that varies over them."""
        return self.vector(mask, key) if varying else mask.regs[key]

    def _where(self, flag: str | None, pointer: str) -> str:
        """The pointer, or one to memory that nobody reads where the flag is off:
        what it points to may be no element.
        """
        if flag is None:
            return pointer
        if self.nowhere == "":
            self.nowhere = "%nowhere"
            self.entry.append(f"  {self.nowhere} = alloca [16 x i8], align 16")
        return self.line(f"select i1 {flag}, ptr {pointer}, ptr {self.nowhere}")

    def _load_vector(self, first: str, memory: str, step: int, size: int, mask: str | None) -> str:
        n = self.width
        t = f"<{n} x {memory}>"
        if step == -1:
            first = self.line(f"getelementptr {memory}, ptr {first}, i64 {1 - n}")
            mask = None if mask is None else self._reverse(mask, "i1")
        if mask is None:
            raw = self.line(f"load {t}, ptr {first}, align {size}")
        else:
            symbol = f"@llvm.masked.load.v{n}{_suffix(memory)}.p0"
            self.declare(symbol, f"declare {t} {symbol}(ptr, i32, <{n} x i1>, {t})")
            raw = self.line(f"call {t} {symbol}(ptr {first}, i32 {size}, <{n} x i1> {mask}, {t} zeroinitializer)")
        return self._reverse(raw, memory) if step == -1 else raw

    def _reverse(self, register: str, memory: str) -> str:
        n = self.width
        order = ", ".join(f"i32 {n - 1 - k}" for k in range(n))
        return self.line(f"shufflevector <{n} x {memory}> {register}, <{n} x {memory}> poison, <{n} x i32> <{order}>")

    def _gather(self, pointers: str, memory: str, size: int, mask: str | None) -> str:
        n = self.width
        t = f"<{n} x {memory}>"
        symbol = f"@llvm.masked.gather.v{n}{_suffix(memory)}.v{n}p0"
        self.declare(symbol, f"declare {t} {symbol}(<{n} x ptr>, i32, <{n} x i1>, {t})")
        lanes = mask or "splat (i1 true)"
        return self.line(
            f"call {t} {symbol}(<{n} x ptr> {pointers}, i32 {size}, <{n} x i1> {lanes}, {t} zeroinitializer)"
        )

    def store(self, b: Buffer, index: Sequence[Operand], value: Operand) -> None:
        place = self.place(b, index)
        w = self.word(value)
        memory = "i8" if b.dtype == "bool" else llvm_type(b.dtype, 1)
        size = 1 if b.dtype == "bool" else BITS[b.dtype] // 8
        varying = place.varying
        if not varying and (w.lanes or w.stride):
            raise InternalError("lanes store to one place")
        axes = union([place, w, *([self.mask] if self.mask is not None else [])])
        n = self.width
        for key in copies(axes, self.counts):
            pointer, of = place.pointers[project(key, axes, place.axes)], project(key, axes, w.axes)
            mask = None if self.mask is None else self._flag(self.mask, project(key, axes, self.mask.axes), varying)
            if not varying:
                register = w.regs[of]
                if b.dtype == "bool":
                    register = self.line(f"zext i1 {register} to i8")
                if mask is not None and not self._by_copy():
                    raise InternalError("a masked store to one place")
                self.put(f"store {memory} {register}, ptr {self._where(mask, pointer)}, align {size}")
                continue
            register = self.vector(w, of)
            if b.dtype == "bool":
                register = self.line(f"zext <{n} x i1> {register} to <{n} x i8>")
            if place.step in (1, -1):
                self._store_vector(pointer, memory, place.step, size, register, mask)
            else:
                symbol = f"@llvm.masked.scatter.v{n}{_suffix(memory)}.v{n}p0"
                self.declare(symbol, f"declare void {symbol}(<{n} x {memory}>, <{n} x ptr>, i32, <{n} x i1>)")
                lanes = mask or "splat (i1 true)"
                self.put(
                    f"call void {symbol}(<{n} x {memory}> {register}, <{n} x ptr> {pointer}, i32 {size}, <{n} x i1> "
                    f"{lanes})"
                )

    def _store_vector(self, first: str, memory: str, step: int, size: int, register: str, mask: str | None) -> None:
        n = self.width
        if step == -1:
            first = self.line(f"getelementptr {memory}, ptr {first}, i64 {1 - n}")
            register = self._reverse(register, memory)
            mask = None if mask is None else self._reverse(mask, "i1")
        if mask is None:
            self.put(f"store <{n} x {memory}> {register}, ptr {first}, align {size}")
            return
        symbol = f"@llvm.masked.store.v{n}{_suffix(memory)}.p0"
        self.declare(symbol, f"declare void {symbol}(<{n} x {memory}>, ptr, i32, <{n} x i1>)")
        self.put(f"call void {symbol}(<{n} x {memory}> {register}, ptr {first}, i32 {size}, <{n} x i1> {mask})")

    def atomic(self, s: Atomic) -> None:
        raise UnsupportedError("atomics are not used on the cpu backend: scatters run in order")

    # -- finishing -----------------------------------------------------------------------------------------------------
    def finish(self, signature: str, result: str = "ret void", refusal: str = "ret void") -> None:
        """Write the function into the module; it ends with `refusal` where `required` memory could not be had."""
        start: Lines = ["  br label %start"]
        if self.required:
            start = [f"  %lack{n} = icmp eq ptr {pointer}, null" for n, pointer in enumerate(self.required)]
            start += [
                f"  %lacks{n} = or i1 {f'%lacks{n - 1}' if n else 'false'}, %lack{n}" for n in range(len(self.required))
            ]
            start += [
                f"  br i1 %lacks{len(self.required) - 1}, label %refused, label %start",
                "refused:",
                list(self.exit),
                f"  {refusal}",
            ]
        body = _flatten([self.entry, start, "start:", self.lines, self.exit, f"  {result}"])
        self.module.functions.append(f"define {signature} {attributes()} {{\nentry:\n" + "\n".join(body) + "\n}")


@frozen(eq=False)
class Place:
    """Where an element lies: a pointer for each copy of `axes`, or a vector of pointers.

    step: where it differs from lane to lane (`varying`), 1 or -1 if one pointer tells, to the element of the first
    lane.
    """

    axes: Key
    pointers: dict[Key, str]
    step: int
    varying: bool


_OF_INDICES = frozenset({"add", "sub", "mul", "idiv", "irem"})
_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "idiv": operator.floordiv, "irem": operator.mod,
}  # fmt: skip


def _literal(register: str) -> int | None:
    """The number that stands in the place of a register, if one does."""
    return int(register) if _is_literal(register) else None


def _is_literal(register: str) -> bool:
    return register[0] != "%"


EMIT: dict[type, Callable[[FunctionEmitter, Any], None]] = {
    Op: FunctionEmitter.operation,
    Load: FunctionEmitter.load_statement,
    Store: lambda e, s: e.store(s.buffer, s.index, s.value),
    Alloc: lambda e, s: e.alloc(s.buffer),
    Atomic: FunctionEmitter.atomic,
}
"""What writes a statement; `program.py` adds loops and branches."""


def _flatten(lines: Lines) -> list[str]:
    out: list[str] = []
    stack = list(reversed(lines))
    while stack:
        x = stack.pop()
        if isinstance(x, str):
            out.append(x)
        else:
            stack.extend(reversed(x))
    return out


def _suffix(memory: str) -> str:
    return {"half": "f16", "float": "f32", "double": "f64"}.get(memory, memory)
