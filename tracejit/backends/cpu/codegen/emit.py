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

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tracejit.backends.cpu.codegen.polls import Lengths
from tracejit.backends.cpu.runtime.processor import attributes, is_x86
from tracejit.backends.llvm_like import Emit, constant, llvm_type, scalar_op
from tracejit.backends.words import Key, Lines, Region, Word
from tracejit.ir.builder import extent_function
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import (
    Block,
    Buffer,
    Const,
    For,
    Op,
    Operand,
    Store,
    Value,
)
from tracejit.support.errors import InternalError

__all__ = ["FunctionEmitter", "Module"]


class Module:
    """The text of one LLVM module: functions, and the declarations they need.

    writers: what writes a statement of a class.  together: writes the first of several stores to one buffer as one, and
    says how many it has.
    """

    def __init__(
        self,
        writers: Mapping[type, Callable[[FunctionEmitter, Any], None]],
        together: Callable[[FunctionEmitter, Sequence[Store]], int] = lambda *_: 0,
    ) -> None:
        self.writers = writers
        self.together = together
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
    "axes", "count", "exact", "indices", "label", "lengths", "lines", "mask", "nowhere", "polled", "scan", "stack",
    "width",
)  # fmt: skip
TABLES = ("buffers", "captured", "counts", "dims", "env", "polynomials", "scans", "shifted")


def _stores_to(buffer: Buffer, statements: Block, first: int) -> Sequence[Store]:
    """The stores to a buffer that follow each other from a statement on."""
    found: list[Store] = []
    for s in statements[first:]:
        if type(s) is not Store or s.buffer is not buffer:
            break
        found.append(s)
    return found


class FunctionEmitter(Emit):
    """Writes one LLVM function.

    What changes while it does is `entry`, `exit`, `ways`, `required`, `regions`, and what PLAIN_STATE and TABLES name:
    `trial` puts all of it back.  What trials have shown, in `settled`, stays.
    """

    def __init__(self, module: Module, name: str, parent: FunctionEmitter | None = None) -> None:
        super().__init__(self._line, module.declare, is_x86=is_x86())
        self.module = module
        self.name = name
        self.parent = parent
        self.count = 0
        self.entry: Lines = []  # allocas and captured values
        self.stack = 0  # bytes of the stack that are taken
        self.exit: Lines = []  # frees
        self.ways: list[str] = []  # out of the function, before its end: what is returned, and from which block
        self.required: list[str] = []  # memory without which nothing runs
        self.lines: Lines = []
        self.regions = [Region(self.entry)]
        self.env: dict[Value, Word] = {}
        self.buffers: dict[Buffer, tuple[str, list[str]]] = {}  # pointer, byte strides ("C": empty)
        self.dims: dict[str, str] = {}
        self.indices: set[str] = (
            set()
        )  # of the loops of a program around: their extents are computed where they are used
        self.counts: dict[int, int] = {}
        self.width = 1
        self.mask: Word | None = None
        self.nowhere = ""
        self.label = "start"
        self.captured: dict[tuple[str, str], str] = {}
        self.polynomials: dict[str, str] = {}  # by their text: two extents cannot always be compared
        self.shifted: dict[str, tuple[str, int]] = {}  # a register that is another one plus a constant
        self.exact = True
        self.axes = 0
        self.scan: For | None = None  # the scan loop that is the vector loop being written
        self.scans: dict[tuple[Value, ...], For] = {}  # scan loops by their params
        self.lengths: Lengths | None = None  # of the loops here, which look for Ctrl-C; None: they do not
        self.polled = False  # whether one does
        self.read_in: dict[Value, tuple[Value, ...]] = {}  # by the index of a loop: the values that are read in it
        self.settled: dict[Hashable, list[tuple[Key, bool]]] = {}  # what trials have shown, which stays

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
        texts: list[list[Any]] = [
            self.entry,
            self.exit,
            self.ways,
            self.required,
            *[region.pre for region in self.regions],
        ]
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
        """An extent polynomial, computed at the head of the function; in a loop of a program whose index it has, where
        it is asked for.
        """
        inside = not self.indices.isdisjoint(d.symbols())
        found = None if inside else self.polynomials.get(str(d))
        if found is None:
            symbols, function = extent_function(d)
            registers: dict[Operand, str] = dict(zip(function.params, map(self.dim, symbols), strict=True))

            def of(x: Operand) -> str:
                return constant(x.value, x.dtype) if isinstance(x, Const) else registers[x]

            def write() -> str:
                for s in function.body:
                    assert isinstance(s, Op)
                    args = [of(a) for a in s.args]
                    if s.op in ("idiv", "irem"):  # by an extent, which is positive
                        registers[s.out] = self.line(f"s{s.op[1:]} i64 {', '.join(args)}")
                        continue
                    known = [a.value if isinstance(a, Const) else None for a in s.args]
                    registers[s.out] = scalar_op(self, s.op, s.out.dtype, args, [a.dtype for a in s.args], 1, known)
                return of(function.results[0])

            if inside:
                return write()
            found = self.polynomials[str(d)] = self.at(self.entry, write)
        return found

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

    # -- statements ----------------------------------------------------------------------------------------------------
    def block(self, statements: Block) -> None:
        written = 0  # together with one before
        for n, s in enumerate(statements):
            if n < written:
                continue
            if type(s) is Store:
                found = self.module.together(self, _stores_to(s.buffer, statements, n))
                if found:
                    written = n + found
                    continue
            emit = self.module.writers.get(type(s))
            if emit is None:
                raise InternalError(f"the cpu backend has no {type(s).__name__}")
            emit(self, s)

    # -- finishing -----------------------------------------------------------------------------------------------------
    def return_from(self, value: str = "") -> None:
        """End the block by leaving the function, after what every way out does; `start` begins another one."""
        self.ways.append(f"[ {value}, %{self.label} ]")
        self.put("br label %out")

    def finish(self, signature: str, kind: str = "void", value: str = "", refusal: str = "") -> None:
        """Write the function into the module; it returns `refusal` where `required` memory could not be had.

        All ways out share what they do: written at each, it made functions grow with the square of their steps.
        """
        start: Lines = ["  br label %start"]
        if self.required:
            lacks = len(self.required) - 1
            start = [f"  %lack{n} = icmp eq ptr {pointer}, null" for n, pointer in enumerate(self.required)]
            start += [
                f"  %lacks{n} = or i1 {f'%lacks{n - 1}' if n else 'false'}, %lack{n}" for n in range(len(self.required))
            ]
            start += [f"  br i1 %lacks{lacks}, label %refused, label %start", "refused:", "  br label %out"]
            self.ways.append(f"[ {refusal}, %refused ]")
        end: Lines = []
        if self.ways:
            self.return_from(value)
            end = ["out:"]
            if kind != "void":
                end.append(f"  %result = phi {kind} {', '.join(self.ways)}")
                value = "%result"
        body = _flatten([self.entry, start, "start:", self.lines, *end, self.exit, f"  ret {kind} {value}"])
        self.module.functions.append(f"define {signature} {attributes()} {{\nentry:\n" + "\n".join(body) + "\n}")


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
