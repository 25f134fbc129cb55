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
              | [values "="] "if" operand block ["else" block]
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

Statements whose classes have a `syntax` are printed and parsed by it; operations, loops and branches are written out
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir import kernel as k
from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Axis, Block, Buffer, Const, Kernel, Lambda, MatrixProduct, Operand, Statement, Value
from tracejit.ir.scalar import OPS
from tracejit.ir.text.jaxpr import mark_line
from tracejit.ir.text.syntax import syntax_of
from tracejit.ir.text.tokens import print_float

__all__ = ["KernelPrinter", "extent_of", "inferred_dtype", "print_kernel", "show_statement"]

_INLINE = 4  # a combiner of at most so many simple statements prints on one line


def inferred_dtype(op: str, args: Sequence[Operand]) -> str | None:
    """The result dtype that an operation and its operands imply; None where the statement must state it."""
    spec = OPS.get(op)
    if spec is None or spec.result == "out" or not args:
        return None
    return "bool" if spec.result == "bool" else args[-1].dtype


def extent_of(extent: Any) -> Any:
    """The integer or polynomial that an extent of a buffer is; one stated as a constant is its value."""
    return extent.value if isinstance(extent, Const) else extent


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
        self.print_of: dict[type, Callable[[Any], None]] = {
            k.Op: self._op,
            k.For: self._for,
            k.While: self._while,
            k.If: self._if,
        }

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
        return str(int(value)) if dtype == "i64" else f"{int(value)}:{dtype}"

    def declare(self, buffer: Buffer) -> str:
        """`name: dtype[shape] layout space`, the name made unique in this text."""
        name, number = buffer.name, 1
        while name in self.taken:
            name, number = f"{buffer.name}_{number}", number + 1
        self.taken.add(name)
        self.buffers[id(buffer)] = name
        shape = ", ".join([str(extent_of(n)) for n in buffer.shape])
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
            self.print_of.get(type(statement), self._by_syntax)(statement)
        if last:
            self.write(" ".join([word, *map(self.use, last)]))
        self.indent = outer

    def kernel(self, kernel: Kernel) -> None:
        parameters = [self.declare(b) + (" out" if b.name in kernel.outputs else "") for b in kernel.buffers]
        dims = f" dims({', '.join(kernel.dims)})" if kernel.dims else ""
        product = f" {_print_product(kernel.product)}" if kernel.product is not None else ""
        self.indent = ""
        self.write(f"kernel {_quoted(kernel.name)}({', '.join(parameters)}){dims}{product} {{")
        self.block(kernel.body)
        self.write("}")

    def function(self, function: Lambda, implied: Sequence[str | None], head: str) -> str:
        """`head (params) { ... }`: all of it where it is short, else written up to the closing brace,
        which is returned.
        """
        params = [
            self.define(p, d) for p, d in zip(function.params, [*implied, *[None] * len(function.params)], strict=False)
        ]
        head = f"{head}({', '.join(params)}) {{"
        if len(function.body) <= _INLINE and all(isinstance(s, k.Op) for s in function.body):
            outer, self.lines, self.indent, kept = self.lines, [], "", self.indent
            for statement in function.body:
                self.row_of[id(statement)] = len(outer)
                self.print_of[k.Op](statement)
            parts, self.lines, self.indent = self.lines, outer, kept
            return f"{head} " + "; ".join([*parts, " ".join(["yield", *map(self.use, function.results)])]) + " }"
        self.write(head)
        self.block(function.body, function.results)
        return "}"

    def _defined(self, values: Sequence[Value], implied: Sequence[str | None]) -> str:
        names = [self.define(v, d) for v, d in zip(values, [*implied, *[None] * len(values)], strict=False)]
        return ", ".join(names) + " = " if names else ""

    def _op(self, s: k.Op) -> None:
        right = " ".join([s.op, *map(self.use, s.args)])
        self.write(f"{self.define(s.out, inferred_dtype(s.op, s.args))} = {right}")

    def _by_syntax(self, s: Statement) -> None:
        text = "".join(
            [
                part if isinstance(part, str) else self._filled(part.what, getattr(s, part.name))
                for part in syntax_of(type(s))
            ]
        )
        like: str | None = getattr(s, "like", None)
        implied = [] if like is None else [x.dtype for x in _several(getattr(s, like))]
        self.write(self._defined(k.results_of(s), implied) + text)

    def _filled(self, what: str, x: Any) -> str:
        match what:
            case "operand":
                return self.use(x)
            case "operands" | "index":
                return (", " if what == "index" else " ").join([self.use(o) for o in x])
            case "buffer":
                return self.buffer(x)
            case "declared":
                return self.declare(x)
            case _:
                return str(x)

    def _carry(self, params: Sequence[Value], inits: Sequence[Operand]) -> str:
        if not params and not inits:
            return ""
        # Initial values are outside the loop: named before the parameters are.
        texts = [self.use(i) for i in inits] + ["?"] * (len(params) - len(inits))
        dtypes = [i.dtype for i in inits] + [None] * (len(params) - len(inits))
        names = [self.define(p, d, "c") for p, d in zip(params, dtypes, strict=False)] + ["%?"] * (
            len(inits) - len(params)
        )
        return " carry(" + ", ".join([f"{n} = {t}" for n, t in zip(names, texts, strict=True)]) + ")"

    def _for(self, s: k.For) -> None:
        bounds = f"{self.use(s.lower)}..{self.use(s.upper)}"
        head = f"for {self.define(s.index, 'i64', 'i')} in {bounds}"
        if s.step != 1:
            head += f" step {s.step}"
        head += _print_axis(s.axis) + self._carry(s.params, s.inits)
        dtypes = [i.dtype for i in s.inits]
        start = len(self.lines)
        if s.combine is not None:
            head = self.function(s.combine, dtypes + dtypes, f"{head} combine")
        # Results come into being after the loop, so they take their numbers after its values.
        row = len(self.lines)
        self.write("")
        self.block(s.body, s.yields)
        self.write("}")
        self.lines[row] = f"{self.indent}{head} {{"
        self._put_results(start, s.results, dtypes)

    def _put_results(self, row: int, results: Sequence[Value], implied: Sequence[str | None]) -> None:
        self.lines[row] = self.indent + self._defined(results, implied) + self.lines[row][len(self.indent) :]

    def _while(self, s: k.While) -> None:
        start = len(self.lines)
        head = "while" + self._carry(s.params, s.inits) + (f" unroll({s.unroll})" if s.unroll != 1 else "")
        self.write(f"{head} {{")
        self.block(s.condition, (s.test,), "test")
        self.write("} do {")
        self.block(s.body, s.yields)
        self.write("}")
        self._put_results(start, s.results, [i.dtype for i in s.inits])

    def _if(self, s: k.If) -> None:
        start = len(self.lines)
        self.write(f"if {self.use(s.condition)} {{")
        self.block(s.then, s.then_yields)
        if s.orelse or s.else_yields:
            self.write("} else {")
            self.block(s.orelse, s.else_yields)
        self.write("}")
        self._put_results(start, s.results, [y.dtype for y in s.then_yields])


def _several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


_RESERVED = frozenset({"True", "False", "inf", "nan"})


def _quoted(name: str) -> str:
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


def show_statement(kernel: Kernel, statement: Any, context: int = 3) -> str:
    """The kernel's lines around `statement`, which is underlined;
    the head of the kernel where the statement is not in it.
    """
    printer = KernelPrinter()
    printer.kernel(kernel)
    return mark_line(printer.lines, printer.row_of.get(id(statement), 0), context)
