"""The parser of kernels; the grammar is in `tracejit.ir.text.kernel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir import kernel as k
from tracejit.ir.extents import Extent
from tracejit.ir.kernel import Axis, Block, Buffer, Const, Factor, Kernel, Lambda, MatrixProduct, Operand, Value
from tracejit.ir.scalar import OPS
from tracejit.ir.text.kernel import inferred_dtype
from tracejit.ir.text.syntax import statement_of_word, syntax_of, tokens_of
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
        dims, product = self.listed("dims", tokens.name), self.product() if tokens.accept("product") else None
        body, yields, _ = self.block()
        if yields:
            tokens.fail("a kernel yields nothing", back=1)
        return Kernel(name, tuple(buffers), frozenset(outputs), body, tuple(dims), product)

    def product(self) -> MatrixProduct:
        tokens = self.tokens
        tokens.expect("(")
        dtype = tokens.dtype()
        extents: list[Extent] = []
        for _ in range(4):
            tokens.expect(",")
            extents += tokens.extents(",")
        sides: list[Factor] = []
        for _ in range(2):
            tokens.expect(",")
            sides.append(Factor(tokens.name("an axis: m, n, k or x"), tokens.accept("computed")))
        tokens.expect(",")
        epilogue = tokens.integer()
        tokens.expect(")")
        return MatrixProduct(dtype, *extents, *sides, epilogue)  # pyright: ignore[reportCallIssue]  (four and two)

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
            self.tokens.fail(
                f"{token} is not a value of {dtype}; constants that are not i64 state their dtype: {token}:f32", back=1
            )

    def operands(self, *ends: str) -> tuple[Operand, ...]:
        out: list[Operand] = []
        while self.tokens.peek not in ends:
            out.append(self.operand())
        return tuple(out)

    def index(self) -> tuple[Operand, ...]:
        out: list[Operand] = []
        while self.tokens.peek != "]":
            out.append(self.operand())
            if not self.tokens.accept(","):
                break
        return tuple(out)

    def block(self, *, keep: bool = False) -> tuple[Block, tuple[Operand, ...], str]:
        """Statements, the operands of the closing `yield` or `test`, and that word;
        buffers and, unless `keep`, values stay inside.
        """
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
            case _:
                kind = statement_of_word(word)
                return self.operation(word, names) if kind is None else self.by_syntax(kind, names)

    def operation(self, word: str, names: list[tuple[str, str | None]]) -> k.Op:
        tokens = self.tokens
        if not names:
            tokens.fail(f"there is no statement {word!r}", back=1)
        if word not in OPS:
            tokens.fail(f"there is no scalar operation {word!r}", back=1)
        if len(names) != 1:
            tokens.fail(f"{word!r} has not {len(names)} results", back=1)
        args = self.operands("\n", ";", "}", "")
        if len(args) != OPS[word].arity:
            tokens.fail(f"{word} takes {OPS[word].arity} operands, not {len(args)}")
        return k.Op(self.define(names[0][0], names[0][1] or inferred_dtype(word, args)), word, args)

    def by_syntax(self, kind: type, names: list[tuple[str, str | None]]) -> Any:
        """A statement as its class says that it is written; what it defines is named already."""
        word, *parts = syntax_of(kind)
        defined = [(name, many) for name, (role, many) in k.roles_of(kind).items() if role == "defined"]
        if (not defined and names) or (defined and not defined[0][1] and len(names) != 1):
            self.tokens.fail(f"{word!r} has not {len(names)} results", back=1)
        fields: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, str):
                self.tokens.expect(*tokens_of(part))
            else:
                fields[part.name] = self.filled(part.what)
        like: str | None = getattr(kind, "like", None)
        for name, many in defined:
            known = () if like is None else fields[like] if isinstance(fields[like], tuple) else (fields[like],)
            made = self.results(names, [x.dtype for x in known])
            fields[name] = made if many else made[0]
        return kind(**fields)

    def filled(self, what: str) -> Any:
        match what:
            case "operand":
                return self.operand()
            case "operands":
                return self.operands(")", "\n", ";", "}", "")
            case "index":
                return self.index()
            case "buffer":
                return self.known_buffer()
            case "declared":
                return self.buffer()
            case "integer":
                return self.tokens.integer()
            case _:
                return self.tokens.name()

    def results(self, names: list[tuple[str, str | None]], implied: Sequence[str]) -> tuple[Value, ...]:
        return tuple(
            self.define(name, dtype or (implied[n] if n < len(implied) else None))
            for n, (name, dtype) in enumerate(names)
        )

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
        return k.If(
            condition, then, orelse, then_yields, else_yields, self.results(names, [y.dtype for y in then_yields])
        )


def parse_kernel(text: str) -> Kernel:
    """The inverse of `print_kernel`.  Raises ParseError, with the line, where the text is no kernel."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.tokens.end()
    return kernel
