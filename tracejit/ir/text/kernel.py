"""Kernels as text.

    kernel    = "kernel" name "(" [buffer ["out"], ...] ")" ["dims(" name, ... ")"] [product] block
    buffer    = name ":" dtype "[" extent, ... "]" layout [space] ["align" n]   (space only where it is not global)
    product   = "product" "(" dtype "," outer "," m "," n "," k "," factor "," factor "," epilogue ")"
    factor    = ("m" | "n" | "k" | "x") ["computed"]
    block     = "{" statement* ["yield" operand*] "}"                (statements end at a line's end or at ";")
    statement = value "=" op operand*
              | value "=" "load" name "[" operand, ... "]"
              | "store" name "[" operand, ... "]" "=" operand
              | "alloc" buffer
              | [values "="] "for" value "in" operand ".." operand ["step" n] [axis] [carry ["combine" lambda]] block
              | [values "="] "while" [carry] ["unroll(" n ")"] "{" statement* "test" operand "}" "do" block
              | [values "="] "if" ["rare(" n ")"] operand block ["else" block]
              | "atomic" op name "[" operand, ... "]" operand
              | "barrier"
              | values "=" "prefix" "(" operand* ")" operand*        (carried values of the scan loop, elements)
              | value "=" "read" number "[" operand, ... "]"         (in forms only)
    axis      = kind | kind "(" width "," factor ")"                 (nothing: serial)
    carry     = "carry(" value "=" operand, ... ")"
    lambda    = "(" value, ... ")" block
    value     = "%" word [":" dtype]                                 (the dtype where nothing else tells it)
    operand   = "%" word | number [":" dtype] | True | False | dim | "(" extent ")"

Numbers and extents are i64 where no dtype follows.

Values live to the end of their block; those of a while's condition are seen in its body too.
A dtype follows from the operation, the buffer or the initial value; `convert`, `bitcast` and `read` state it.

All statements but operations are printed and parsed by the `syntax` of their classes (see `ir.syntax`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, cycle, repeat
from typing import Any, cast

from tracejit.ir import kernel as k
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Axis, Block, Buffer, Const, Kernel, Lambda, MatrixProduct, Operand, Statement, Value
from tracejit.ir.scalar import OPS, result_dtype
from tracejit.ir.syntax import Hole, Maybe, Part
from tracejit.ir.text.jaxpr import mark_line
from tracejit.ir.text.tokens import print_float

__all__ = ["KernelPrinter", "inferred_dtype", "print_kernel", "quoted", "show_statement"]

_INLINE = 4  # a combiner of at most so many simple statements prints on one line


def inferred_dtype(op: str, args: Sequence[Operand]) -> str | None:
    """The result dtype that an operation and its operands imply; None where the statement must state it."""
    spec = OPS.get(op)
    return None if spec is None or not args else result_dtype(spec, args[-1].dtype, None)


class KernelPrinter:
    """Prints statements into `lines`, naming values and buffers in order of definition."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.counts: dict[str, int] = {}
        self.buffers: dict[int, str] = {}
        self.taken: set[str] = set()
        self.row_of: dict[int, int] = {}
        self.indent = "  "

    def define(self, value: Value, implied: str | None, letter: str = "") -> str:
        number = self.counts.get(letter, 0)
        self.counts[letter] = number + 1
        name = self.names[value] = f"%{letter}{number}"
        return name if value.dtype == implied else f"{name}: {value.dtype}"

    def use(self, operand: Any) -> str:
        if isinstance(operand, Value):
            return self.names.get(operand) or f"%?{operand.id}"
        if not isinstance(operand, Const):
            return f"?{operand!r}"
        value, dtype = operand.value, operand.dtype
        if isinstance(value, Dim):
            text = str(value)
            text = text if text.isidentifier() and text not in _RESERVED else f"({text})"
            return text if dtype == "i64" else f"{text}:{dtype}"
        if dtype == "bool":
            return "True" if value else "False"
        if dtype[:1] == "f":
            return f"{print_float(value)}:{dtype}"
        if dtype[:1] == "c":
            return f"complex {print_float(value.real)} {print_float(value.imag)}:{dtype}"
        return str(int(value)) if dtype == "i64" else f"{int(value)}:{dtype}"

    def declare(self, buffer: Buffer) -> str:
        """`name: dtype[shape] layout space`, the name made unique in this text."""
        name, number = buffer.name, 1
        while name in self.taken:
            name, number = f"{buffer.name}_{number}", number + 1
        self.taken.add(name)
        self.buffers[id(buffer)] = name
        shape = ", ".join(map(str, buffer.shape))
        space = f" {buffer.space}" if buffer.space != "global" else ""
        return f"{name}: {buffer.dtype}[{shape}] {buffer.layout}{space}" + (
            f" align {buffer.alignment}" if buffer.alignment else ""
        )

    def buffer(self, buffer: Buffer) -> str:
        return self.buffers.get(id(buffer)) or f"?{buffer.name}"

    def write(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def block(self, block: Block, last: Sequence[Operand] = (), word: str = "yield") -> None:
        outer, self.indent = self.indent, self.indent + "  "
        for statement in block:
            self.row_of[id(statement)] = len(self.lines)
            self.statement(statement)
        if last:
            self.write(" ".join([word, *map(self.use, last)]))
        self.indent = outer

    def statement(self, s: Statement) -> None:
        if isinstance(s, k.Op):
            right = " ".join([s.op, *map(self.use, s.args)])
            self.write(f"{self.define(s.out, inferred_dtype(s.op, s.args))} = {right}")
            return
        syntax = k.syntax_of(type(s))
        dtypes: list[str] = []
        if syntax.like:
            like: Any = getattr(s, syntax.like)
            dtypes = [x.dtype for x in (like if isinstance(like, tuple) else (like,))]
        # Operands of its own are outside of its blocks: named before the values that these see are.
        used = {hole.name: self._operands(hole.what, getattr(s, hole.name)) for hole in syntax.outside}
        row = len(self.lines)
        self.write(self._parts(s, syntax.parts, syntax.word, used, dtypes))
        # Results come into being after the blocks, so they take their numbers after the values of these.
        names = [self.define(v, d) for v, d in zip(k.results_of(s), chain(dtypes, repeat(None)), strict=False)]
        if names:
            self.lines[row] = f"{self.indent}{', '.join(names)} = {self.lines[row][len(self.indent) :]}"

    def kernel(self, kernel: Kernel) -> None:
        parameters = [self.declare(b) + (" out" if b.name in kernel.outputs else "") for b in kernel.buffers]
        dims = f" dims({', '.join(kernel.dims)})" if kernel.dims else ""
        product = f" {_print_product(kernel.product)}" if kernel.product is not None else ""
        self.indent = ""
        self.write(f"kernel {quoted(kernel.name)}({', '.join(parameters)}){dims}{product} {{")
        self.block(kernel.body)
        self.write("}")

    def function(self, function: Lambda, implied: Sequence[str], head: str) -> str:
        """`head (params) { ... }`: all of it where it is short, else written up to the closing brace, which is
        returned.  implied: dtypes of the parameters, in turn.
        """
        params = [self.define(p, d) for p, d in zip(function.params, cycle(implied or (None,)), strict=False)]
        head = f"{head}({', '.join(params)}) {{"
        if len(function.body) <= _INLINE and all(isinstance(s, k.Op) for s in function.body):
            outer, self.lines, self.indent, kept = self.lines, [], "", self.indent
            for statement in function.body:
                self.row_of[id(statement)] = len(outer)
                self.statement(statement)
            parts, self.lines, self.indent = self.lines, outer, kept
            return f"{head} " + "; ".join([*parts, " ".join(["yield", *map(self.use, function.results)])]) + " }"
        self.write(head)
        self.block(function.body, function.results)
        return "}"

    def _parts(
        self, s: Statement, parts: Sequence[Part], text: str, used: Mapping[str, str], dtypes: Sequence[str]
    ) -> str:
        """`text` and the parts of a line behind it: its last line, where blocks and functions make several."""
        for part in parts:
            if type(part) is str:
                text += part
                continue
            if type(part) is Maybe:
                if any([getattr(s, name) != value for name, value in part.usual.items()]):
                    text = self._parts(s, part.parts, text, used, dtypes)
                continue
            assert type(part) is Hole
            x: Any = getattr(s, part.name)
            match part.what:
                case "operand" | "operands" | "index":
                    text += used[part.name] if used else self._operands(part.what, x)
                case "buffer":
                    text += self.buffer(x)
                case "block":
                    field = k.block_field(type(s), part.name)
                    self.write(text + "{")
                    self.block(x, k.last_of(s, field), field.word)
                    text = "}"
                case "bound" if isinstance(x, tuple):
                    text += ", ".join([self.define(v, None, "c") for v in cast("tuple[Value, ...]", x)])
                case "bound":
                    text += self.define(x, "i64", "i")
                case "carried":
                    text += self._carried(x, getattr(s, part.inits))
                case "axis":
                    text += _print_axis(x)
                case "function":
                    text = self.function(x, dtypes, text)
                case "declared":
                    text += self.declare(x)
                case _:
                    text += str(x)
        return text

    def _operands(self, what: str, x: Any) -> str:
        return self.use(x) if what == "operand" else (", " if what == "index" else " ").join([self.use(o) for o in x])

    def _carried(self, params: Sequence[Value], inits: Sequence[Operand]) -> str:
        # Initial values are outside the loop: named before the parameters are.
        texts = [self.use(i) for i in inits] + ["?"] * (len(params) - len(inits))
        dtypes = [i.dtype for i in inits] + [None] * (len(params) - len(inits))
        names = [self.define(p, d, "c") for p, d in zip(params, dtypes, strict=False)] + ["%?"] * (
            len(inits) - len(params)
        )
        return ", ".join([f"{n} = {t}" for n, t in zip(names, texts, strict=True)])


_RESERVED = frozenset({"True", "False", "inf", "nan"})


def quoted(name: str) -> str:
    """A name as texts have it."""
    return name if all(part.isidentifier() and part.isascii() for part in name.split(".")) else repr(name)


def _print_axis(axis: Axis) -> str:
    if axis.width == 1 and axis.factor == 1:
        return "" if axis.kind == "serial" else f" {axis.kind}"
    return f" {axis.kind}({axis.width}, {axis.factor})"


def _print_product(p: MatrixProduct) -> str:
    sides = [f"{side.along} computed" if side.computed else side.along for side in (p.lhs, p.rhs)]
    return f"product({', '.join([p.dtype, *map(str, (p.outer, p.m, p.n, p.k)), *sides, str(p.epilogue)])})"


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel.  What is used but not defined prints with a question mark."""
    printer = KernelPrinter()
    printer.kernel(kernel)
    return "\n".join(printer.lines)


def show_statement(kernel: Kernel, statement: Statement | None, context: int = 3) -> str:
    """The kernel's lines around `statement`, which is underlined;
    the head of the kernel where the statement is not in it.
    """
    printer = KernelPrinter()
    printer.kernel(kernel)
    return mark_line(printer.lines, printer.row_of.get(id(statement), 0), context)
