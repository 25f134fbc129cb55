"""The parser of kernels; the grammar is in `tracejit.ir.text.kernel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir import kernel as k
from tracejit.ir.kernel import Axis, Block, Buffer, Const, Kernel, Lambda, Operand, Value
from tracejit.ir.scalar import OPS
from tracejit.ir.text.kernel import inferred_dtype
from tracejit.ir.text.tokens import Tokens, parse_extent
from tracejit.support.nodes import evolve

__all__ = ["parse_kernel"]


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.values: dict[str, Value] = {}
        self.buffers: dict[str, Buffer] = {}

    def kernel(self) -> Kernel:
        tokens = self.tokens
        tokens.skip_lines()
        tokens.expect("kernel")
        name = self.symbol("the kernel's name")
        tokens.expect("(")
        buffers: list[Buffer] = []
        outputs: set[str] = set()
        while not tokens.accept(")"):
            tokens.skip_lines()
            buffers.append(self.buffer())
            if tokens.accept("out"):
                outputs.add(buffers[-1].name)
            if not tokens.accept(","):
                tokens.skip_lines()
                tokens.expect(")")
                break
        dims, notes = self.listed("dims", tokens.name), self.listed("notes", tokens.string)
        body, yields, _ = self.block()
        if yields:
            tokens.fail("a kernel yields nothing", back=1)
        return Kernel(name, tuple(buffers), frozenset(outputs), body, tuple(dims), tuple(notes))

    def symbol(self, what: str) -> str:
        return self.tokens.string() if self.tokens.peek[:1] in ("'", '"') else self.tokens.name(what)

    def listed(self, word: str, item: Callable[[], Any]) -> list[Any]:
        tokens = self.tokens
        out: list[Any] = []
        if not tokens.accept(word):
            return out
        tokens.expect("(")
        while not tokens.accept(")"):
            out.append(item())
            if not tokens.accept(","):
                tokens.expect(")")
                break
        return out

    def buffer(self) -> Buffer:
        tokens = self.tokens
        name = tokens.name("a buffer")
        if name in self.buffers:
            tokens.fail(f"buffer {name} is declared twice", back=1)
        tokens.expect(":")
        dtype = tokens.dtype()
        tokens.expect("[")
        shape = tokens.extents("]")
        tokens.expect("]")
        layout = tokens.name("a layout: C, unit or strided")
        space = tokens.name() if tokens.peek.isidentifier() and tokens.peek not in ("out", "align") else "global"
        alignment = tokens.integer() if tokens.accept("align") else 0
        made = self.buffers[name] = Buffer(name, dtype, shape, layout, space, alignment)
        return made

    def known_buffer(self) -> Buffer:
        name = self.tokens.name("a buffer")
        found = self.buffers.get(name)
        if found is None:
            self.tokens.fail(f"buffer {name} is not declared here", back=1)
        return found

    def value_name(self) -> str:
        token = self.tokens.next()
        if token[:1] != "%" or len(token) < 2:
            self.tokens.fail(f"expected a value such as %0, found {token!r}", back=1)
        return token

    def stated(self) -> str | None:
        return self.tokens.dtype() if self.tokens.accept(":") else None

    def declared(self) -> tuple[str, str | None]:
        return self.value_name(), self.stated()

    def define(self, name: str, dtype: str | None) -> Value:
        if dtype is None:
            self.tokens.fail(f"the dtype of {name} must be stated: {name}: f32")
        value = self.values[name] = Value(dtype)
        return value

    def operand(self) -> Operand:
        tokens = self.tokens
        token = tokens.next()
        first = token[:1]
        if first == "%":
            found = self.values.get(token)
            if found is None:
                tokens.fail(f"{token} is not defined here", back=1)
            return found
        if token in ("True", "False"):
            return Const(token == "True", "bool")
        if first == "(":
            found = tokens.extents(")")
            tokens.expect(")")
            if len(found) != 1:
                tokens.fail("expected one extent in parentheses", back=1)
            return Const(found[0], self.stated() or "i64")
        if first == "-" or first.isdigit() or token in ("inf", "nan"):
            return self.number(token)
        if first.isidentifier():
            return Const(parse_extent(token), self.stated() or "i64")
        tokens.fail(f"expected an operand, found {token!r}", back=1)

    def number(self, token: str) -> Const:
        dtype = self.stated() or "i64"
        try:
            return Const(float(token) if dtype[0] == "f" else int(token), dtype)
        except ValueError:
            self.tokens.fail(f"{token} is not a value of {dtype}; constants that are not i64 state their dtype: {token}:f32", back=1)

    def operands(self, *ends: str) -> tuple[Operand, ...]:
        out: list[Operand] = []
        while self.tokens.peek not in ends:
            out.append(self.operand())
        return tuple(out)

    def index(self) -> tuple[Operand, ...]:
        tokens = self.tokens
        tokens.expect("[")
        out: list[Operand] = []
        while not tokens.accept("]"):
            out.append(self.operand())
            if not tokens.accept(","):
                tokens.expect("]")
                break
        return tuple(out)

    def block(self, *, keep: bool = False) -> tuple[Block, tuple[Operand, ...], str]:
        """Statements, the operands of the closing `yield` or `test`, and that word; buffers and, unless `keep`, values stay inside."""
        self.tokens.expect("{")
        values, buffers = self.values, self.buffers
        self.values, self.buffers = dict(values), dict(buffers)
        found = self.statements()
        self.buffers = buffers
        if not keep:
            self.values = values
        return found

    def statements(self) -> tuple[Block, tuple[Operand, ...], str]:
        tokens, out = self.tokens, list[Any]()
        last: tuple[Operand, ...] = ()
        word = ""
        while True:
            while tokens.peek in ("\n", ";"):
                tokens.at += 1
            if tokens.accept("}"):
                return tuple(out), last, word
            if word:
                tokens.fail(f"expected '}}' after {word}")
            if tokens.peek in ("yield", "test"):
                word = tokens.next()
                last = self.operands("\n", ";", "}", "")
                continue
            out.append(self.statement())
            if tokens.peek not in ("\n", ";", "}"):
                tokens.fail(f"expected the end of the statement, found {tokens.peek!r}")

    def statement(self) -> Any:
        tokens = self.tokens
        names: list[tuple[str, str | None]] = []
        if tokens.peek[:1] == "%":
            names.append(self.declared())
            while tokens.accept(","):
                names.append(self.declared())
            tokens.expect("=")
        word = tokens.name("a statement")
        match word:
            case "for":
                return self.for_(names)
            case "while":
                return self.while_(names)
            case "if":
                return self.if_(names)
            case "call":
                return self.call(names)
            case "prefix":
                return self.prefix(names)
            case _:
                return self.one_result(word, names[0]) if len(names) == 1 else self.no_result(word, len(names))

    def one_result(self, word: str, name: tuple[str, str | None]) -> Any:
        tokens = self.tokens
        if word == "load":
            buffer = self.known_buffer()
            index = self.index()
            return k.Load(self.define(name[0], name[1] or buffer.dtype), buffer, index)
        if word == "read":
            number, index = tokens.integer(), self.index()
            return k.Read(self.define(*name), number, index)
        if word not in OPS:
            tokens.fail(f"there is no scalar operation {word!r}", back=1)
        args = self.operands("\n", ";", "}", "")
        if len(args) != OPS[word].arity:
            tokens.fail(f"{word} takes {OPS[word].arity} operands, not {len(args)}")
        return k.Op(self.define(name[0], name[1] or inferred_dtype(word, args)), word, args)

    def no_result(self, word: str, results: int) -> Any:
        tokens = self.tokens
        if results:
            tokens.fail(f"{word!r} has not {results} results", back=1)
        match word:
            case "store":
                buffer, index = self.known_buffer(), self.index()
                tokens.expect("=")
                return k.Store(buffer, index, self.operand())
            case "alloc":
                return k.Alloc(self.buffer())
            case "atomic":
                op, buffer, index = tokens.name("an operation"), self.known_buffer(), self.index()
                return k.Atomic(op, buffer, index, self.operand())
            case "barrier":
                return k.Barrier(tokens.name("a scope"))
            case _:
                tokens.fail(f"there is no statement {word!r}", back=1)

    def results(self, names: list[tuple[str, str | None]], implied: Sequence[str]) -> tuple[Value, ...]:
        return tuple(self.define(name, dtype or (implied[n] if n < len(implied) else None)) for n, (name, dtype) in enumerate(names))

    def carry(self) -> tuple[list[tuple[str, str | None]], tuple[Operand, ...]]:
        tokens = self.tokens
        names: list[tuple[str, str | None]] = []
        inits: list[Operand] = []
        if tokens.accept("carry"):
            tokens.expect("(")
            while not tokens.accept(")"):
                names.append(self.declared())
                tokens.expect("=")
                inits.append(self.operand())
                if not tokens.accept(","):
                    tokens.expect(")")
                    break
        return names, tuple(inits)

    def axis(self) -> Axis:
        tokens = self.tokens
        if not tokens.peek.isidentifier() or tokens.peek in ("carry", "combine"):
            return Axis()
        kind, width, factor = tokens.name(), 1, 1
        if tokens.accept("("):
            width = tokens.integer()
            tokens.expect(",")
            factor = tokens.integer()
            tokens.expect(")")
        return Axis(kind, width, factor)

    def scoped(self, define: Callable[[], Any]) -> Any:
        """`define()` in a scope of its own."""
        values = self.values
        self.values = dict(values)
        try:
            return define()
        finally:
            self.values = values

    def function(self, implied: Sequence[str]) -> Lambda:
        def run() -> Lambda:
            tokens = self.tokens
            names: list[tuple[str, str | None]] = []
            tokens.expect("(")
            while not tokens.accept(")"):
                names.append(self.declared())
                if not tokens.accept(","):
                    tokens.expect(")")
                    break
            params = self.results(names, implied)
            body, results, _ = self.block()
            return Lambda(params, body, results)

        return self.scoped(run)

    def for_(self, names: list[tuple[str, str | None]]) -> k.For:
        tokens = self.tokens
        index_name, index_dtype = self.declared()
        tokens.expect("in")
        lower = self.operand()
        tokens.expect("..")
        upper = self.operand()
        step = tokens.integer() if tokens.accept("step") else 1
        axis = self.axis()
        carried, inits = self.carry()
        dtypes = [i.dtype for i in inits]
        combine = self.function(dtypes + dtypes) if tokens.accept("combine") else None

        def run() -> k.For:
            index = self.define(index_name, index_dtype or "i64")
            params = self.results(carried, dtypes)
            body, yields, _ = self.block()
            return k.For(index, lower, upper, body, axis, params, inits, yields, (), combine, step)

        made = self.scoped(run)
        return evolve(made, results=self.results(names, dtypes))

    def while_(self, names: list[tuple[str, str | None]]) -> k.While:
        tokens = self.tokens
        carried, inits = self.carry()
        unroll = self.listed("unroll", tokens.integer) or [1]
        dtypes = [i.dtype for i in inits]

        def run() -> k.While:
            params = self.results(carried, dtypes)
            condition, test, word = self.block(keep=True)
            if word != "test" or len(test) != 1:
                tokens.fail("the condition of a while ends with `test` and one operand", back=1)
            tokens.expect("do")
            body, yields, _ = self.block()
            return k.While(params, inits, condition, test[0], body, yields, (), unroll[0])

        made = self.scoped(run)
        return evolve(made, results=self.results(names, dtypes))

    def if_(self, names: list[tuple[str, str | None]]) -> k.If:
        condition = self.operand()
        then, then_yields, _ = self.block()
        orelse: Block = ()
        else_yields: tuple[Operand, ...] = ()
        if self.tokens.accept("else"):
            orelse, else_yields, _ = self.block()
        return k.If(condition, then, orelse, then_yields, else_yields, self.results(names, [y.dtype for y in then_yields]))

    def call(self, names: list[tuple[str, str | None]]) -> k.Call:
        tokens = self.tokens
        symbol = self.symbol("a symbol")
        tokens.expect("(")
        args = self.operands(")", "\n", "")
        tokens.expect(")")
        return k.Call(self.results(names, ()), symbol, args)

    def prefix(self, names: list[tuple[str, str | None]]) -> k.Prefix:
        tokens = self.tokens
        tokens.expect("(")
        params: list[Value] = []
        while not tokens.accept(")"):
            operand = self.operand()
            if not isinstance(operand, Value):
                tokens.fail("a prefix names the carried values of its loop", back=1)
            params.append(operand)
        elements = self.operands("\n", ";", "}", "")
        return k.Prefix(self.results(names, [p.dtype for p in params]), tuple(params), elements)


def parse_kernel(text: str) -> Kernel:
    """The inverse of `print_kernel`.  Raises ParseError, with the line, where the text is no kernel."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.tokens.end()
    return kernel
