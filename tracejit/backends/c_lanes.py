"""Loops over vectors, and loops whose iterations are written side by side, in C-family languages with vector types.

A `vector` loop is SPMD, as on the CPU: values are uniform, affine in the lane, or vectors; a varying `if` is masked, a
varying `while` runs until no lane is left; memory access is contiguous, uniform or lane by lane.  A carry-free `unroll`
loop is jammed: its body is written once per statement for all copies.  What cannot be written so is printed in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import define

from tracejit.backends.c_vector_ops import spelling
from tracejit.backends.printing import expansion
from tracejit.backends.words import Key, Word, copies, project, union
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import (
    Block,
    Buffer,
    Const,
    For,
    If,
    Lambda,
    Load,
    Op,
    Operand,
    Prefix,
    Statement,
    Store,
    Value,
    While,
    operands_of,
    results_of,
)
from tracejit.ir.rewrite import inline
from tracejit.ir.scalar import OPS, numpy_dtype

if TYPE_CHECKING:
    from tracejit.backends.c_like import Writer

__all__ = ["written_with_lanes"]

_WIDEST = 16  # elements of a vector that there is a type for
_LONG = 40  # statements: a longer body is written for one vector at a time
Shape: TypeAlias = "tuple[frozenset[int], bool]"
"""Over which copies a value varies, and whether over lanes."""


class _InOrder(Exception):
    """A loop that has to be printed in order."""


def written_with_lanes(writer: Writer, loop: For) -> bool:
    """Print a loop whose axis is vector or unroll; False, and nothing printed, where it runs in order."""
    mark = writer.mark()
    try:
        _Lanes(writer).loop(loop)
    except _InOrder:
        writer.go_back(mark)
        return False
    return True


@define(eq=False)
class _Place:
    """Where a load or store begins: an index of elements, or of bytes, for lane 0, and what each lane adds.

    step: a number, the text of one, or None where `index` is a vector.
    """

    buffer: Buffer
    index: str
    step: int | str | None
    bytewise: bool

    @property
    def uniform(self) -> bool:
        return self.step == 0

    @property
    def unit(self) -> int:
        """1 where the lanes are neighbours, -1 where they are in the other direction, else 0."""
        size = numpy_dtype(self.buffer.dtype).itemsize if self.bytewise else 1
        return {size: 1, -size: -1}.get(self.step, 0) if isinstance(self.step, int) else 0


class _Lanes:
    """The words of one outermost loop over vectors or copies, while it is printed."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.env: dict[Value, Word] = {}
        self.counts: dict[int, int] = {}
        self.axes = 0
        self.width = 1
        self.mask: Word | None = None
        self.vector_scan: For | None = None  # the scan whose iterations are the lanes
        self.scans: dict[tuple[Value, ...], For] = {}

    # Types and registers

    def vector(self, dtype: str, width: int = 0) -> str:
        """The type of a vector; a scalar's where there is one lane."""
        width = width or self.width
        if dtype == "f16":
            raise _InOrder
        kind = self.writer.type_of("i32" if dtype == "bool" and width > 1 else dtype)
        return kind if width == 1 else self.writer.dialect.vector.format(type=kind, width=width)

    def memory(self, dtype: str, width: int) -> str:
        """The type of neighbouring elements in memory, which need not be aligned as a vector is."""
        if dtype == "f16":
            raise _InOrder
        stored = self.writer.dialect.storage[dtype]
        self.writer.type_of(dtype)
        kind = self.writer.dialect.vector.format(type=stored, width=width)
        name = f"{kind}_at_element"
        size = numpy_dtype(dtype).itemsize
        self.writer.program.functions.setdefault(name, f"typedef {kind} {name} __attribute__((aligned({size})));")
        return name

    def register(self, dtype: str, lanes: bool, text: str) -> str:
        """A new constant."""
        kind = self.vector(dtype) if lanes else self.writer.type_of(dtype)
        name = self.writer.fresh("v")
        self.writer.line(f"const {kind} {name} = {text};")
        return name

    def variable(self, dtype: str, lanes: bool, text: str) -> str:
        kind = self.vector(dtype) if lanes else self.writer.type_of(dtype)
        name = self.writer.fresh("c")
        self.writer.line(f"{kind} {name} = {text};")
        return name

    def word(self, x: Operand) -> Word:
        found = self.env.get(x) if isinstance(x, Value) else None
        if found is not None:
            return found
        known = x.value if isinstance(x, Const) and not isinstance(x.value, Dim) else None
        return Word(x.dtype, (), {(): self.writer.operand(x)}, known=known)

    def bind(self, value: Value, word: Word) -> None:
        self.env[value] = word
        if not word.axes and word.uniform:
            self.writer.names[value] = word.regs[()]

    def wide(self, w: Word, key: Key) -> str:
        """The text of a register as a vector over the lanes."""
        text = w.regs[key]
        if w.lanes or self.width == 1:
            return text
        kind = self.vector(w.dtype)
        if w.stride:
            return f"({text} + ({kind})({', '.join(self.writer.literal(k * w.stride, 'i64') for k in self.lanes)}))"
        return f"({kind})({text} ? -1 : 0)" if w.dtype == "bool" else f"({kind})({text})"

    @property
    def lanes(self) -> range:
        return range(self.width)

    def lane(self, w: Word, key: Key, n: int) -> str:
        """The text of one lane."""
        text = w.regs[key]
        if w.lanes:
            return f"({text}.s{n:x} != 0)" if w.dtype == "bool" else f"{text}.s{n:x}"
        return f"({text} + {self.writer.literal(n * w.stride, 'i64')})" if w.stride and n else text

    def gathered(self, dtype: str, texts: Sequence[str]) -> str:
        """A vector of scalars."""
        items = [f"-({t})" for t in texts] if dtype == "bool" else texts
        return f"({self.vector(dtype)})({', '.join(items)})"

    # Statements

    def block(self, body: Block) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        match s:
            case Op():
                self.bind(s.out, self.operation(s))
            case Load():
                self.bind(s.out, self.load(s))
            case Store():
                self.store(s)
            case For():
                self.loop(s)
            case If():
                self.branch(s)
            case While():
                self.while_loop(s)
            case Prefix():
                self.prefix(s)
            case _:
                raise _InOrder

    def operation(self, s: Op) -> Word:
        words = [self.word(x) for x in s.args]
        axes = union(words)
        keys = list(copies(axes, self.counts))
        if all(w.uniform for w in words):
            return Word(s.out.dtype, axes, {k: self.scalar(s, words, axes, k) for k in keys})
        if s.out.dtype == "i64" and (stride := _stride(s.op, words)) is not None:
            regs = {k: self.scalar(s, words, axes, k) for k in keys}
            return Word("i64", axes, regs, stride=stride) if stride else Word("i64", axes, regs)
        return Word(s.out.dtype, axes, {k: self.lanewise(s, words, axes, k) for k in keys}, lanes=True)

    def scalar(self, s: Op, words: Sequence[Word], axes: Key, key: Key) -> str:
        names = {x: w.regs[project(key, axes, w.axes)] for x, w in zip(s.args, words, strict=True)}
        return self.register(s.out.dtype, False, self.expression(s, names))

    def expression(self, s: Op, names: Mapping[Operand, str]) -> str:
        """The text of a scalar operation whose operands are called so."""
        known = self.writer.names
        values = {x: text for x, text in names.items() if isinstance(x, Value)}
        before = {x: known.get(x) for x in values}
        known.update(values)
        try:
            return self.writer.expression(s)
        finally:
            for x, text in before.items():
                if text is None:
                    del known[x]
                else:
                    known[x] = text

    def lanewise(self, s: Op, words: Sequence[Word], axes: Key, key: Key) -> str:
        """A vector of results."""
        source, out = s.args[-1].dtype, s.out.dtype
        at = [project(key, axes, w.axes) for w in words]
        own = self.writer.is_spelled(f"{s.op}.{source}")

        def wide() -> list[str]:
            return [self.wide(w, k) for w, k in zip(words, at, strict=True)]

        if not own and OPS[s.op].math:
            name = self.expanded(s.op, source)
            if name:
                return self.register(out, True, f"{name}({', '.join(wide())})")
        template = None if own else self.template(s.op, source, out)
        if template is not None:
            return self.register(out, True, template.format(*wide()))
        texts: list[str] = []
        for n in self.lanes:
            each = {x: self.lane(w, k, n) for x, w, k in zip(s.args, words, at, strict=True)}
            texts.append(f"({self.expression(s, each)})")
        return self.register(out, True, self.gathered(out, texts))

    def template(self, op: str, source: str, out: str) -> str | None:
        vectors = {d: self.vector(d) for d in ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32")}
        if "f64" in (source, out):
            vectors["f64"] = self.vector("f64")
        if "f16" in (source, out):
            raise _InOrder
        if op == "fma":
            return f"{self.fused(source)}({{0}}, {{1}}, {{2}})"
        if op == "div" and source == "f32" and not self.writer.dialect.correct_divide:
            return None
        return spelling(op, source, out, self.width, vectors)

    def fused(self, dtype: str) -> str:
        """The name of a function that multiplies and adds with one rounding: where contraction is allowed, Clang makes
        it the instruction that a processor with it has.
        """
        kind = self.vector(dtype)
        name = f"tj_fma_{kind}"
        source = (
            f"{self.writer.dialect.function_prefix} {kind} {name}(const {kind} x, const {kind} y, const {kind} z) {{\n"
            "#pragma OPENCL FP_CONTRACT ON\n  return x * y + z;\n}"
        )
        self.writer.program.functions.setdefault(name, source)
        return name

    def expanded(self, op: str, dtype: str) -> str:
        """The name of the function that computes a mathematical operation on vectors; empty if that is lane by lane."""
        name = f"tj_{op}_{self.vector(dtype)}"
        functions = self.writer.program.functions
        if name not in functions:
            writer = self.writer.another()
            inner = _Lanes(writer)
            inner.width = self.width
            try:
                inner.function(name, expansion(op, dtype), dtype)
            except _InOrder:
                functions[name] = ""
            else:
                functions[name] = "\n".join(writer.lines)
        return name if functions[name] else ""

    def function(self, name: str, body: Lambda, dtype: str) -> None:
        writer, kind = self.writer, self.vector(dtype)
        for p in body.params:
            self.env[p] = Word(dtype, (), {(): writer.fresh("x")}, lanes=True)
        params = ", ".join(f"const {kind} {self.env[p].regs[()]}" for p in body.params)
        writer.line(f"{writer.dialect.function_prefix} {kind} {name}({params}) {{")
        writer.indent += 1
        self.block(body.body)
        writer.line(f"return {self.wide(self.word(body.results[0]), ())};")
        writer.indent -= 1
        writer.line("}")

    # Memory

    def place(self, buffer: Buffer, words: Sequence[Word], axes: Key, key: Key) -> _Place:
        """The place of an element for lane 0, and how far apart lanes are."""
        writer = self.writer
        name = writer.buffers[buffer]
        bytewise = buffer.layout != "C"
        size = numpy_dtype(buffer.dtype).itemsize
        at = [project(key, axes, w.axes) for w in words]
        varying = any(w.lanes for w in words)
        texts = [self.wide(w, k) if w.lanes else w.regs[k] for w, k in zip(words, at, strict=True)]
        if varying:
            texts = [self.wide(w, k) for w, k in zip(words, at, strict=True)]
        steps = self.steps(buffer, name, size)
        terms = [f"{name}_offset"] if bytewise else []
        terms += [t if step == 1 else f"{t} * {step}" for t, step in zip(texts, steps, strict=True)]
        index = " + ".join(terms) or "0"
        if varying:
            return _Place(buffer, self.register("i64", True, index), None, bytewise)
        lane: int | str = 0
        for w, step in zip(words, steps, strict=True):
            if not w.stride:
                continue
            if isinstance(step, int) and isinstance(lane, int):
                lane += w.stride * step
            else:
                lane = f"{lane} + {w.stride} * {step}"
        return _Place(buffer, f"({index})", lane if isinstance(lane, int) else f"({lane})", bytewise)

    def steps(self, buffer: Buffer, name: str, size: int) -> list[int | str]:
        """How far apart neighbours along each axis are, in elements or bytes."""
        if buffer.layout != "C":
            last = len(buffer.shape) - 1
            return [
                size if buffer.layout == "unit" and axis == last else f"{name}_stride{axis}"
                for axis in range(len(buffer.shape))
            ]
        steps: list[int | str] = [1]
        for n in buffer.shape[:0:-1]:  # the first extent is no factor
            step = steps[-1]
            if isinstance(n, Dim) or isinstance(step, str):
                extent = self.writer.extent(n)
                steps.append(extent if step == 1 else f"({step} * {extent})")
            else:
                steps.append(step * n)
        return steps[len(buffer.shape) - 1 :: -1] if buffer.shape else []

    def element(self, p: _Place, lane: int) -> str:
        """An lvalue: the element of one lane."""
        if p.step is None:
            index = f"{p.index}.s{lane:x}" if self.width > 1 else p.index
        else:
            index = p.index if not lane or p.step == 0 else f"{p.index} + {lane} * {p.step}"
        name = self.writer.buffers[p.buffer]
        if not p.bytewise:
            return f"{name}[{index}]"
        space = self.writer.dialect.space(p.buffer.space)
        constant = "" if p.buffer in self.writer.written else "const "
        kind = self.writer.dialect.storage[p.buffer.dtype]
        return f"*({space} {constant}{kind}*)(({space} {constant}char*){name} + {index})".replace("( ", "(")

    def neighbours(self, p: _Place, first: str) -> str:
        """An lvalue: the elements of all lanes, which are neighbours from an element on."""
        space = self.writer.dialect.space(p.buffer.space)
        constant = "" if p.buffer in self.writer.written or p.buffer.space != "global" else "const "
        return f"*({space} {constant}{self.memory(p.buffer.dtype, self.width)}*)&{first}".replace("( ", "(")

    def load(self, s: Load) -> Word:
        words = [self.word(x) for x in s.index]
        mask = self.mask
        axes = union([*words, mask] if mask is not None else words)
        regs: dict[Key, str] = {}
        lanes = self.width > 1 and not all(w.uniform for w in words)
        for key in copies(axes, self.counts):
            p = self.place(s.buffer, words, axes, key)
            on = None if mask is None else project(key, axes, mask.axes)
            regs[key] = self.loaded(p, lanes, mask, on)
        return Word(s.out.dtype, axes, regs, lanes=lanes)

    def loaded(self, p: _Place, lanes: bool, mask: Word | None, on: Key | None) -> str:
        dtype, writer = p.buffer.dtype, self.writer
        if not lanes:
            text = writer.loaded(dtype, self.element(p, 0))
            if mask is not None and on is not None:
                some = self.some(mask, on) if mask.lanes else mask.regs[on]
                text = f"{some} ? {text} : {writer.literal(0, dtype)}"
            return self.register(dtype, False, text)
        if mask is None and p.unit:
            text = self.neighbours(p, self.element(p, 0 if p.unit > 0 else self.width - 1))
            if p.unit < 0:
                text = f"({text}).s{''.join(f'{n:x}' for n in reversed(self.lanes))}"
            if dtype == "bool":
                wide = self.vector("i32")
                text = f"__builtin_convertvector({text}, {wide}) != ({wide})(0)"
            return self.register(dtype, True, text)
        texts: list[str] = []
        for n in self.lanes:
            text = writer.loaded(dtype, self.element(p, n))
            if mask is not None and on is not None:
                text = f"{self.lane(mask, on, n)} ? {text} : {writer.literal(0, dtype)}"
            texts.append(f"({text})")
        return self.register(dtype, True, self.gathered(dtype, texts))

    def store(self, s: Store) -> None:
        words, value, mask = [self.word(x) for x in s.index], self.word(s.value), self.mask
        axes = union([*words, value, mask] if mask is not None else [*words, value])
        for key in copies(axes, self.counts):
            p = self.place(s.buffer, words, axes, key)
            on = None if mask is None else project(key, axes, mask.axes)
            self.stored(p, value, project(key, axes, value.axes), mask, on)

    def stored(self, p: _Place, value: Word, key: Key, mask: Word | None, on: Key | None) -> None:
        dtype, writer = p.buffer.dtype, self.writer
        spread = self.width > 1 and not (p.uniform and value.uniform and (mask is None or not mask.lanes))
        if not spread:
            guard = "" if mask is None or on is None else f"if ({mask.regs[on]}) "
            writer.line(f"{guard}{self.element(p, 0)} = {writer.stored(dtype, value.regs[key])};")
            return
        if mask is None and p.unit > 0:
            text = self.wide(value, key)
            if dtype == "bool":
                kind = writer.dialect.vector.format(type=writer.dialect.storage["bool"], width=self.width)
                text = f"__builtin_convertvector({text} & 1, {kind})"
            writer.line(f"{self.neighbours(p, self.element(p, 0))} = {text};")
            return
        # of several lanes that write one element the last one stays
        for n in self.lanes if mask is not None or not p.uniform else self.lanes[-1:]:
            guard = "" if mask is None or on is None else f"if ({self.lane(mask, on, n)}) "
            writer.line(f"{guard}{self.element(p, n)} = {writer.stored(dtype, self.lane(value, key, n))};")

    # What varies

    def shapes(self, s: For | While) -> dict[Value, Shape]:
        """Over what the carries of a loop vary."""
        known: dict[Value, Shape] = {}
        self.vary((s,), known)
        return known

    def shape(self, x: Operand, known: Mapping[Value, Shape]) -> Shape:
        if isinstance(x, Value):
            if x in known:
                return known[x]
            if x in self.env:
                w = self.env[x]
                return frozenset(w.axes), not w.uniform
        return frozenset(), False

    def joint(self, operands: Sequence[Operand], known: Mapping[Value, Shape]) -> Shape:
        found = [self.shape(x, known) for x in operands]
        return frozenset().union(*(a for a, _ in found)), any(lanes for _, lanes in found)

    def vary(self, body: Block, known: dict[Value, Shape]) -> None:
        """Learn over what each value of a block varies."""
        for s in body:
            match s:
                case For() | While():
                    self.vary_loop(s, known)
                case If():
                    self.vary(s.then, known)
                    self.vary(s.orelse, known)
                    for r, a, b in zip(s.results, s.then_yields, s.else_yields, strict=True):
                        known[r] = self.joint((s.condition, a, b), known)
                case Prefix():
                    for r, p, x in zip(s.outs, s.params, s.elements, strict=True):
                        known[r] = self.joint((p, x), known)
                case _:
                    shape = self.joint(operands_of(s), known)
                    known.update(dict.fromkeys(results_of(s), shape))

    def vary_loop(self, s: For | While, known: dict[Value, Shape]) -> None:
        over = isinstance(s, For) and s.axis.kind == "vector" and self.width == 1
        for p, x in zip(s.params, s.inits, strict=True):
            known[p] = self.shape(x, known)
        if isinstance(s, For):
            known[s.index] = frozenset(), over
        while True:
            if isinstance(s, While):
                self.vary(s.condition, known)
            self.vary(s.body, known)
            after = [self.joint((p, y), known) for p, y in zip(s.params, s.yields, strict=True)]
            if isinstance(s, While):
                axes, lanes = self.shape(s.test, known)
                after = [(a | axes, b or lanes) for a, b in after]
            if all(known[p] == a for p, a in zip(s.params, after, strict=True)):
                break
            known.update(zip(s.params, after, strict=True))
        for p, r in zip(s.params, s.results, strict=True):
            axes, lanes = known[p]
            known[r] = axes, lanes and not over

    # Loops in order

    def loop(self, s: For) -> None:
        kind = s.axis.kind
        if kind == "vector" and self.width == 1:
            self.vector_loop(s)
        elif kind == "unroll" and not s.params:
            self.jammed(s)
        elif kind in ("serial", "unroll", "parallel", "vector"):
            self.serial(s)
        else:
            raise _InOrder

    def bounds(self, s: For) -> tuple[Word, Word]:
        lower, upper = self.word(s.lower), self.word(s.upper)
        if lower.axes or upper.axes or not (lower.uniform and upper.uniform):
            raise _InOrder
        return lower, upper

    def carry(self, params: Sequence[Value], inits: Sequence[Word], shapes: Sequence[Shape]) -> list[Word]:
        """Variables that live through a loop."""
        words: list[Word] = []
        for p, w, (over, lanes) in zip(params, inits, shapes, strict=True):
            axes = tuple(sorted(over | set(w.axes)))
            lanes = lanes and self.width > 1
            regs = {
                k: self.variable(p.dtype, lanes, self.wide(w, at) if lanes else w.regs[at])
                for k in copies(axes, self.counts)
                for at in (project(k, axes, w.axes),)
            }
            words.append(Word(p.dtype, axes, regs, lanes=lanes))
            self.bind(p, words[-1])
        return words

    def advance(self, carries: Sequence[Word], nexts: Sequence[Word]) -> None:
        """All carries take their next values at once."""
        moves: list[tuple[str, str, bool, str]] = []
        for c, w in zip(carries, nexts, strict=True):
            if set(w.axes) - set(c.axes) or (not w.uniform and not c.lanes and self.width > 1):
                raise _InOrder
            for k in copies(c.axes, self.counts):
                at = project(k, c.axes, w.axes)
                text = self.wide(w, at) if c.lanes else w.regs[at]
                if text != c.regs[k]:
                    moves.append((c.regs[k], c.dtype, c.lanes, text))
        targets = {m[0] for m in moves}
        settled = [
            (target, self.register(dtype, lanes, text) if any(t in text for t in targets - {target}) else text)
            for target, dtype, lanes, text in moves
        ]
        for target, text in settled:
            self.writer.line(f"{target} = {text};")

    def serial(self, s: For) -> None:
        lower, upper = self.bounds(s)
        if s.combine is not None:
            self.scans[s.params] = s
        known = self.shapes(s)
        carries = self.carry(s.params, [self.word(x) for x in s.inits], [known[p] for p in s.params])
        writer = self.writer
        index = writer.declare(s.index, "i")
        name = writer.names[s.index]
        self.env[s.index] = Word("i64", (), {(): name})
        step = writer.literal(s.step, "i64")
        writer.line(f"for ({index} = {lower.regs[()]}; {name} < {upper.regs[()]}; {name} += {step}) {{")
        writer.indent += 1
        self.block(s.body)
        self.advance(carries, [self.word(y) for y in s.yields])
        writer.indent -= 1
        writer.line("}")
        for r, w in zip(s.results, carries, strict=True):
            self.bind(r, w)

    def jammed(self, s: For) -> None:
        """All iterations at once: every statement is written for all copies before the next one."""
        lower, upper = self.bounds(s)
        if not isinstance(lower.known, int) or not isinstance(upper.known, int) or s.step != 1:
            raise _InOrder
        count = upper.known - lower.known
        if count <= 0:
            return
        with_axis = self.open(count)
        literals = {(k,): self.writer.literal(lower.known + k, "i64") for k in range(count)}
        self.env[s.index] = Word("i64", (with_axis,), literals)
        self.block(s.body)
        del self.counts[with_axis]

    def open(self, count: int) -> int:
        self.axes += 1
        self.counts[self.axes] = count
        return self.axes

    # Loops over vectors

    def vector_loop(self, s: For) -> None:
        """So many vectors at a time, then single ones, then single iterations."""
        lower, upper = self.bounds(s)
        scan = any(isinstance(x, Prefix) and x.params == s.params for x in s.body)
        if s.step != 1 or (s.params and s.combine is None) or self.mask is not None:
            raise _InOrder
        width, factor = min(s.axis.width, _WIDEST), s.axis.factor
        inner = any(isinstance(x, For) for x in s.body)
        if scan or len(s.body) > _LONG or not (s.params or inner):
            factor = 1
        trips = _difference(lower, upper)
        writer = self.writer
        writer.type_of("i64")
        name = writer.fresh("i")
        writer.line(f"{writer.type_of('i64')} {name} = {lower.regs[()]};")
        words = [self.word(x) for x in s.inits]
        for lanes, count in dict.fromkeys([(width, factor), (width, 1), (1, 1)]):
            block = lanes * count
            if trips is not None:
                if trips < block:
                    continue
                once, trips = trips == block, trips % block
            else:
                once = False
            words = self.stage(s, name, upper.regs[()], lanes, count, words, scan, once)
            if trips == 0:
                break
        words = self.folded(s, words, width)
        for r, w in zip(s.results, words, strict=True):
            self.bind(r, w)

    def stage(
        self, s: For, name: str, upper: str, width: int, count: int, words: Sequence[Word], scan: bool, once: bool
    ) -> list[Word]:
        """Iterations while there are as many as lanes and vectors."""
        writer, block = self.writer, width * count
        if width == 1:
            words = self.folded(s, words, s.axis.width)
        axis = self.open(count)
        self.width = width
        if s.combine is not None:
            self.scans[s.params] = s
        self.vector_scan = s if scan and width > 1 else None
        known = self.shapes_over(s, axis)
        shapes = [(a, lanes and not scan) for a, lanes in (known[p] for p in s.params)]
        identities = [self.word(x) for x in s.inits]
        starts = list(words)
        if not scan and count > 1:
            starts = [self.first_of(w, identity, axis, count) for w, identity in zip(words, identities, strict=True)]
        carries = self.carry(s.params, starts, shapes)
        # a loop that runs once would keep a compiler busy
        head = "{" if once else f"for (; {name} <= {upper} - {block}; {name} += {block}) {{"
        writer.line(head)
        writer.indent += 1
        if count > 1:
            regs = {(k,): self.register("i64", False, f"{name} + {k * width}") if k else name for k in range(count)}
            self.env[s.index] = Word("i64", (axis,), regs, stride=int(width > 1))
        else:
            self.bind(s.index, Word("i64", (), {(): name}, stride=int(width > 1)))
        self.block(s.body)
        nexts = [self.word(y) for y in s.yields]
        if self.vector_scan is not None:
            nexts = [self.last_lane(w) for w in nexts]
        self.advance(carries, nexts)
        if once:
            writer.line(f"{name} += {block};")
        writer.indent -= 1
        writer.line("}")
        self.vector_scan = None
        if count > 1 and carries:
            carries = self.joined(s, carries, axis, count)
        del self.counts[axis]
        self.width = 1
        return carries

    def shapes_over(self, s: For, axis: int) -> dict[Value, Shape]:
        """Over what the carries of a vector loop vary where its index has the copies of an axis."""
        known: dict[Value, Shape] = {}
        own = frozenset((axis,)) if self.counts[axis] > 1 else frozenset[int]()
        for p, x in zip(s.params, s.inits, strict=True):
            axes, _ = self.shape(x, known)
            known[p] = axes | own, self.width > 1
        known[s.index] = own, self.width > 1
        self.vary(s.body, known)
        for p, y in zip(s.params, s.yields, strict=True):
            axes, lanes = self.joint((p, y), known)
            known[p] = axes, lanes
        return known

    def first_of(self, w: Word, identity: Word, axis: int, count: int) -> Word:
        """A carry's beginning in the first of several vectors; the others begin with the identity."""
        axes = tuple(sorted({*w.axes, axis}))
        at, lanes = axes.index(axis), w.lanes
        regs: dict[Key, str] = {}
        for k in copies(axes, {**self.counts, axis: count}):
            text = w.regs[project(k, axes, w.axes)] if k[at] == 0 else identity.regs[()]
            regs[k] = text if k[at] == 0 or not lanes else self.wide(identity, ())
        return Word(w.dtype, axes, regs, lanes=lanes)

    def combined(self, combine: Lambda, left: Sequence[Word], right: Sequence[Word]) -> list[Word]:
        values = [Value(w.dtype) for w in (*left, *right)]
        for v, w in zip(values, (*left, *right), strict=True):
            self.bind(v, w)
        body, results = inline(combine, values)
        self.block(body)
        return [self.word(x) for x in results]

    def joined(self, s: For, words: Sequence[Word], axis: int, count: int) -> list[Word]:
        """The partial results of several vectors joined pairwise."""
        assert s.combine is not None
        parts = [[_without(w, axis, k) for w in words] for k in range(count)]
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            parts = [
                self.combined(s.combine, parts[k], parts[k + half]) if k + half < len(parts) else parts[k]
                for k in range(half)
            ]
        return parts[0]

    def folded(self, s: For, words: Sequence[Word], width: int) -> list[Word]:
        """A tree over the lanes: halves are combined until one lane is left."""
        current, n = list(words), min(width, _WIDEST)
        if not any(w.lanes for w in current):
            return current
        assert s.combine is not None
        while n > 1:
            self.width = n // 2
            sides = [[self.half(w, side) for w in current] for side in ("lo", "hi")]
            current = [self.widened(w) for w in self.combined(s.combine, *sides)]
            n //= 2
        self.width = 1
        return current

    def half(self, w: Word, side: str) -> Word:
        """One half of the lanes."""
        if not w.lanes:
            return w
        narrow = self.width > 1
        regs = {
            k: self.register(w.dtype, narrow, self.part(w.dtype, f"{text}.{side}", narrow))
            for k, text in w.regs.items()
        }
        return Word(w.dtype, w.axes, regs, lanes=narrow)

    def part(self, dtype: str, text: str, lanes: bool) -> str:
        return f"{text} != 0" if dtype == "bool" and not lanes else text

    def widened(self, w: Word) -> Word:
        if w.lanes or self.width == 1:
            return w
        return Word(w.dtype, w.axes, {k: self.register(w.dtype, True, self.wide(w, k)) for k in w.regs}, lanes=True)

    def last_lane(self, w: Word) -> Word:
        if w.uniform:
            return w
        return Word(w.dtype, w.axes, {k: self.lane(w, k, self.width - 1) for k in w.regs})

    def prefix(self, s: Prefix) -> None:
        """The running fold: by shifts over the lanes where they are the scan's iterations, else one combination."""
        params, elements = [self.word(p) for p in s.params], [self.word(x) for x in s.elements]
        scan = self.vector_scan
        if scan is None or scan.params != s.params:
            found = self.scans.get(s.params)
            if found is None or found.combine is None:
                raise _InOrder
            for out, w in zip(s.outs, self.combined(found.combine, params, elements), strict=True):
                self.bind(out, w)
            return
        assert scan.combine is not None
        if self.mask is not None:
            raise _InOrder
        identities = [self.word(x) for x in scan.inits]
        current = [self.widened(w) for w in elements]
        shift = 1
        while shift < self.width:
            moved: list[Word] = []
            for w, i in zip(current, identities, strict=True):
                order = ", ".join(str(k - shift if k >= shift else self.width + k) for k in self.lanes)
                regs = {
                    k: self.register(w.dtype, True, f"__builtin_shufflevector({text}, {self.wide(i, ())}, {order})")
                    for k, text in w.regs.items()
                }
                moved.append(Word(w.dtype, w.axes, regs, lanes=True))
            current = [self.widened(w) for w in self.combined(scan.combine, moved, current)]
            shift *= 2
        for out, w in zip(s.outs, self.combined(scan.combine, params, current), strict=True):
            self.bind(out, w)

    # Branches

    def some(self, mask: Word, key: Key) -> str:
        """Whether a lane is on."""
        text = mask.regs[key]
        if not mask.lanes:
            return text
        kind, program = self.vector("bool"), self.writer.program
        name = f"tj_any_{kind}"
        if name not in program.functions:
            lines = [f"{self.writer.dialect.function_prefix} {self.writer.type_of('bool')} {name}({kind} x) {{"]
            n, width = "x", self.width
            while width > 2:
                width //= 2
                narrow = self.vector("bool", width)
                lines.append(f"  const {narrow} x{width} = {n}.lo | {n}.hi;")
                n = f"x{width}"
            lines += [f"  return ({n}.s0 | {n}.s1) != 0;", "}"]
            program.functions[name] = "\n".join(lines)
        return f"{name}({text})"

    def any_on(self, mask: Word) -> str:
        return " | ".join(self.some(mask, k) for k in copies(mask.axes, self.counts))

    def both(self, condition: Word, inverted: bool) -> Word:
        """The lanes that are on and have, or have not, a condition."""
        outer = self.mask
        words = [condition] if outer is None else [condition, outer]
        axes = union(words)
        lanes = any(not w.uniform for w in words)
        regs: dict[Key, str] = {}
        for k in copies(axes, self.counts):
            at = project(k, axes, condition.axes)
            text = self.wide(condition, at) if lanes else condition.regs[at]
            if inverted:
                text = f"~{text}" if lanes else f"!{text}"
            if outer is not None:
                on = project(k, axes, outer.axes)
                text += f" & {self.wide(outer, on) if lanes else outer.regs[on]}"
            regs[k] = self.register("bool", lanes, text)
        return Word("bool", axes, regs, lanes=lanes)

    def branch(self, s: If) -> None:
        condition = self.word(s.condition)
        known: dict[Value, Shape] = {}
        self.vary((s,), known)
        zeros = [Word(r.dtype, (), {(): self.writer.literal(0, r.dtype)}) for r in s.results]
        results = self.carry(s.results, zeros, [known[r] for r in s.results])
        writer = self.writer
        if condition.uniform and not condition.axes:
            writer.line(f"if ({condition.regs[()]}) {{")
            self.arm(s.then, s.then_yields, results, None)
            if s.orelse or s.results:
                writer.line("} else {")
                self.arm(s.orelse, s.else_yields, results, None)
            writer.line("}")
            return
        outer = self.mask
        then, orelse = self.both(condition, False), self.both(condition, True)
        writer.line(f"if ({self.any_on(then)}) {{")
        self.mask = then
        self.arm(s.then, s.then_yields, results, None)
        writer.line("}")
        if s.orelse or s.results:
            writer.line(f"if ({self.any_on(orelse)}) {{")
            self.mask = orelse
            self.arm(s.orelse, s.else_yields, results, condition)
            writer.line("}")
        self.mask = outer

    def arm(self, body: Block, yields: Sequence[Operand], results: Sequence[Word], condition: Word | None) -> None:
        """One side; `condition`, where given, says which lanes keep what the results are."""
        self.writer.indent += 1
        self.block(body)
        nexts = [self.word(y) for y in yields]
        if condition is not None:
            nexts = [self.chosen(condition, r, w) for r, w in zip(results, nexts, strict=True)]
        self.advance(results, nexts)
        self.writer.indent -= 1

    def chosen(self, condition: Word, yes: Word, no: Word) -> Word:
        """Per lane one of two words."""
        flag, a, b = Value("bool"), Value(yes.dtype), Value(yes.dtype)
        for v, w in ((flag, condition), (a, yes), (b, no)):
            self.bind(v, w)
        return self.operation(Op(Value(yes.dtype), "select", (flag, a, b)))

    def while_loop(self, s: While) -> None:
        known = self.shapes(s)
        test = self.shape(s.test, known)
        carries = self.carry(s.params, [self.word(x) for x in s.inits], [known[p] for p in s.params])
        writer, outer = self.writer, self.mask
        on: Word | None = None
        if test[0] or test[1]:
            before = outer or Word("bool", (), {(): writer.literal(True, "bool")})
            varies = test[0] | set(before.axes), test[1] or not before.uniform
            self.mask = on = self.carry([Value("bool")], [before], [varies])[0]
        writer.line("for (;;) {")
        writer.indent += 1
        self.block(s.condition)
        flag = self.word(s.test)
        if on is not None:
            active = self.both(flag, False)
            self.advance([on], [active])
            writer.line(f"if (!({self.any_on(active)})) break;")
        else:
            active = None
            writer.line(f"if (!{flag.regs[()]}) break;")
        self.block(s.body)
        nexts = [self.word(y) for y in s.yields]
        if active is not None:
            nexts = [self.chosen(active, w, c) for w, c in zip(nexts, carries, strict=True)]
        self.advance(carries, nexts)
        writer.indent -= 1
        writer.line("}")
        self.mask = outer
        for r, w in zip(s.results, carries, strict=True):
            self.bind(r, w)


def _stride(op: str, words: Sequence[Word]) -> int | None:
    """What each lane adds to a sum, difference or multiple of indices; None where they are not apart alike."""
    if any(w.lanes for w in words):
        return None
    match op, [w.stride for w in words], [w.known for w in words]:
        case "add", [a, b], _:
            return a + b
        case "sub", [a, b], _:
            return a - b
        case "mul", [a, 0], [_, int(k)]:
            return a * k
        case "mul", [0, a], [int(k), _]:
            return a * k
        case _:
            return None


def _difference(lower: Word, upper: Word) -> int | None:
    if isinstance(lower.known, int) and isinstance(upper.known, int):
        return max(0, upper.known - lower.known)
    return None


def _without(w: Word, axis: int, k: int) -> Word:
    """A word at one copy of an axis."""
    if axis not in w.axes:
        return w
    at = w.axes.index(axis)
    axes = (*w.axes[:at], *w.axes[at + 1 :])
    return Word(
        w.dtype, axes, {(*key[:at], *key[at + 1 :]): r for key, r in w.regs.items() if key[at] == k}, lanes=w.lanes
    )
