"""The parser of kernels; the grammar is in `tracejit.ir.text.kernel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, cycle, repeat
from typing import Any, TypeAlias, TypeVar

from tracejit.ir import kernel as k
from tracejit.ir.extents import Extent
from tracejit.ir.kernel import (
    Axis,
    Block,
    BlockField,
    Buffer,
    Const,
    Factor,
    Kernel,
    Lambda,
    MatrixProduct,
    Operand,
    Statement,
    Value,
)
from tracejit.ir.scalar import OPS
from tracejit.ir.syntax import Hole, Maybe, Part, tokens_of
from tracejit.ir.text.kernel import inferred_dtype
from tracejit.ir.text.tokens import Tokens, parse_extent
from tracejit.support.nodes import define, field

__all__ = ["parse_kernel"]

T = TypeVar("T")
Name: TypeAlias = tuple[str, str | None]
"""A value that is named in front of what gives it its dtype, and the dtype where it is stated."""


@define(eq=False)
class _Unmade:
    """A statement of which a part is read.  bound: the names of values that its blocks see, by field."""

    kind: type
    fields: dict[str, Any] = field(factory=dict)
    bound: dict[str, list[Name]] = field(factory=dict)

    def dtypes(self) -> list[str]:
        """Those of the field that results and the parameters of functions are like."""
        like = k.syntax_of(self.kind).like
        found = self.fields.get(like, ()) if like else ()
        return [x.dtype for x in (found if isinstance(found, tuple) else (found,))]


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
        dtype, shape = tokens.declaration(name, self.buffers)
        layout = tokens.name("a layout: C, unit or strided")
        space = self.space() if tokens.peek.isidentifier() and tokens.peek not in ("out", "align") else "global"
        alignment = tokens.integer() if tokens.accept("align") else 0
        made = self.buffers[name] = Buffer(name, dtype, shape, layout, space, alignment)
        return made

    def space(self) -> str:
        """A memory space: a name, and what it carries."""
        text = self.tokens.name()
        if self.tokens.accept("("):
            text += "("
            while self.tokens.peek not in ("", ")"):
                text += self.tokens.next()
            self.tokens.expect(")")
            text += ")"
        return text

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

    def declared(self) -> Name:
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
        if token == "complex":
            real, imaginary = float(tokens.next()), float(tokens.next())
            return Const(complex(real, imaginary), self.stated() or "c128")
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
        """Operands up to one of `ends` or the end of the statement."""
        out: list[Operand] = []
        while self.tokens.peek not in ("\n", ";", "}", "", *ends):
            out.append(self.operand())
        return tuple(out)

    def index(self) -> tuple[Operand, ...]:
        out: list[Operand] = []
        while self.tokens.peek != "]":
            out.append(self.operand())
            if not self.tokens.accept(","):
                break
        return tuple(out)

    def block(self, word: str = "yield", *, keep: bool = False) -> tuple[Block, tuple[Operand, ...], str]:
        """Statements, the operands behind the closing `word`, and that word, or "yield" if it stands there instead;
        buffers and, unless `keep`, values stay inside.
        """
        self.tokens.expect("{")
        values, buffers = self.values, self.buffers
        self.values, self.buffers = dict(values), dict(buffers)
        found = self.statements(word)
        self.buffers = buffers
        if not keep:
            self.values = values
        return found

    def statements(self, word: str) -> tuple[Block, tuple[Operand, ...], str]:
        tokens, out = self.tokens, list[Statement]()
        last: tuple[Operand, ...] = ()
        found = ""
        while True:
            while tokens.peek in ("\n", ";"):
                tokens.at += 1
            if tokens.accept("}"):
                return tuple(out), last, found
            if found:
                tokens.fail(f"expected '}}' after {found}")
            if tokens.peek in (word, "yield"):
                found = tokens.next()
                last = self.operands()
                continue
            out.append(self.statement())
            if tokens.peek not in ("\n", ";", "}"):
                tokens.fail(f"expected the end of the statement, found {tokens.peek!r}")

    def statement(self) -> Statement:
        tokens = self.tokens
        names: list[Name] = []
        if tokens.peek[:1] == "%":
            names.append(self.declared())
            while tokens.accept(","):
                names.append(self.declared())
            tokens.expect("=")
        word = tokens.name("a statement")
        kind = k.statement_of(word)
        return self.operation(word, names) if kind is None else self.by_syntax(kind, names)

    def operation(self, word: str, names: list[Name]) -> k.Op:
        tokens = self.tokens
        if not names:
            tokens.fail(f"there is no statement {word!r}", back=1)
        if word not in OPS:
            tokens.fail(f"there is no scalar operation {word!r}", back=1)
        if len(names) != 1:
            tokens.fail(f"{word!r} has not {len(names)} results", back=1)
        args = self.operands()
        if len(args) != OPS[word].arity:
            tokens.fail(f"{word} takes {OPS[word].arity} operands, not {len(args)}")
        return k.Op(self.define(names[0][0], names[0][1] or inferred_dtype(word, args)), word, args)

    def by_syntax(self, kind: type, names: list[Name]) -> Any:
        """A statement as its class says that it is written; what it defines is named already."""
        syntax, unmade, outside = k.syntax_of(kind), _Unmade(kind), self.values
        defined = k.fields_by_role(kind, "defined")
        given = _given_out(names, defined)
        if given is None:
            self.tokens.fail(f"{syntax.word!r} has not {len(names)} results", back=1)
        self.parts(syntax.parts, unmade)
        self.values = outside
        dtypes = chain(unmade.dtypes(), repeat(None))
        for name, several in defined:
            made = self.results(given[name], dtypes)
            unmade.fields[name] = made if several else made[0]
        return kind(**unmade.fields)

    def parts(self, parts: Sequence[Part], unmade: _Unmade) -> None:
        tokens = self.tokens
        for part in parts:
            if isinstance(part, str):
                tokens.expect(*tokens_of(part))
            elif isinstance(part, Maybe):
                if tokens.peek == tokens_of(str(part.parts[0]))[0]:
                    self.parts(part.parts, unmade)
                else:
                    unmade.fields.update(part.usual)
            elif part.what in ("bound", "carried"):
                self.name_bound(part, unmade)
            elif part.what == "block":
                self.nested(k.block_field(unmade.kind, part.name), unmade)
            else:
                unmade.fields[part.name] = self.filled(part, unmade)

    def filled(self, hole: Hole, unmade: _Unmade) -> Any:
        match hole.what:
            case "operand":
                return self.operand()
            case "operands":
                return self.operands(*hole.stops)
            case "index":
                return self.index()
            case "buffer":
                return self.known_buffer()
            case "declared":
                return self.buffer()
            case "integer":
                return self.tokens.integer()
            case "axis":
                return self.axis(hole.stops)
            case "function":
                return self.function(unmade.dtypes())
            case _:
                return self.tokens.name()

    def name_bound(self, hole: Hole, unmade: _Unmade) -> None:
        """The names of bound values, and the initial values of those that are carried; the blocks define them."""
        several = k.roles_of(unmade.kind)[hole.name][1]
        names, inits = unmade.bound.setdefault(hole.name, []), list[Operand]()
        while not several or self.tokens.peek[:1] == "%":
            names.append(self.declared())
            if hole.what == "carried":
                self.tokens.expect("=")
                inits.append(self.operand())
            if not (several and self.tokens.accept(",")):
                break
        if hole.what == "carried":
            unmade.fields[hole.inits] = tuple(inits)
            unmade.bound[hole.name] = [(name, dtype or i.dtype) for (name, dtype), i in zip(names, inits, strict=True)]

    def nested(self, block: BlockField, unmade: _Unmade) -> None:
        """A block, after the values that it sees are defined, and the operands read at its end."""
        self.values = dict(self.values)
        for name, names in unmade.bound.items():
            several = k.roles_of(unmade.kind)[name][1]
            made = self.results(names, repeat(None if several else "i64"))
            unmade.fields[name] = made if several else made[0]
        unmade.bound.clear()
        body, last, word = self.block(block.word, keep=block.seen)
        given = _given_out(last, block.last)
        if given is None or (last and word != block.word):
            count = f"`{block.word}` and {_counted(block.last)}" if block.last else "no operands"
            self.tokens.fail(f"{block.name} in `{k.syntax_of(unmade.kind).word}` ends with {count}", back=1)
        unmade.fields[block.name] = body
        unmade.fields |= {name: tuple(given[name]) if several else given[name][0] for name, several in block.last}

    def results(self, names: Sequence[Name], implied: Iterable[str | None]) -> tuple[Value, ...]:
        return tuple([self.define(name, dtype or other) for (name, dtype), other in zip(names, implied, strict=False)])

    def axis(self, stops: Sequence[str]) -> Axis:
        tokens = self.tokens
        if not tokens.peek.isidentifier() or tokens.peek in stops:
            return Axis()
        kind, width, factor = tokens.name(), 1, 1
        if tokens.accept("("):
            width = tokens.integer()
            tokens.expect(",")
            factor = tokens.integer()
            tokens.expect(")")
        return Axis(kind, width, factor)

    def function(self, implied: Sequence[str]) -> Lambda:
        """A function; `implied` are the dtypes of its parameters, in turn."""
        tokens, outside = self.tokens, self.values
        self.values = dict(outside)
        names: list[Name] = []
        tokens.expect("(")
        while not tokens.accept(")"):
            names.append(self.declared())
            if not tokens.accept(","):
                tokens.expect(")")
                break
        params = self.results(names, cycle(implied or (None,)))
        body, results, _ = self.block()
        self.values = outside
        return Lambda(params, body, results)


def _given_out(found: Sequence[T], fields: Sequence[tuple[str, bool]]) -> dict[str, Sequence[T]] | None:
    """What was read by the fields that hold it, of which one may hold several; None where there are too many or too
    few.
    """
    spare = len(found) - sum(not several for _, several in fields)
    if spare < 0 or (spare and not any(several for _, several in fields)):
        return None
    out: dict[str, Sequence[T]] = {}
    at = 0
    for name, several in fields:
        count = spare if several else 1
        out[name] = found[at : at + count]
        at += count
    return out


def _counted(fields: Sequence[tuple[str, bool]]) -> str:
    """How many operands fields hold."""
    if any(several for _, several in fields):
        return "its operands"
    return "one operand" if len(fields) == 1 else f"{len(fields)} operands"


def parse_kernel(text: str) -> Kernel:
    """The inverse of `print_kernel`.  Raises ParseError, with the line, where the text is no kernel."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.tokens.end()
    return kernel
