"""Prints kernels as C-family text: what OpenCL C, CUDA C and plain C have in common.

The words come from a `Dialect`, every spelling from one `Intrinsics` table.  Mathematical functions that the table does
not spell are written out by `ir.math` as functions of the other operations, once a program.

Loops of kind grid and block read thread ids.  An iteration of a grid loop is one group where it contains block loops,
which the work-items of the group share, and one work-item where it does not; that takes as many iterations as the
loop is wide.  All other kinds run in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never, NoReturn

from tracejit.backends.c_lanes import written_with_lanes
from tracejit.backends.c_operands import Emitter, ProgramText, dim_name
from tracejit.backends.c_scalar import Dialect, Intrinsics
from tracejit.backends.intrinsics import intrinsics_of
from tracejit.backends.nest import without_prefixes
from tracejit.backends.packed import neighbours
from tracejit.backends.printing import (
    EntryPoint,
    Printed,
    arguments_of,
    expansion,
    extents_of,
    iterations_of,
    view_arguments,
)
from tracejit.ir.builder import extent_function
from tracejit.ir.extents import Dim, prod
from tracejit.ir.kernel import (
    Alloc,
    Atomic,
    Barrier,
    Block,
    Buffer,
    Const,
    For,
    If,
    Kernel,
    Lambda,
    Load,
    Op,
    Operand,
    Prefix,
    Read,
    Statement,
    Store,
    Value,
    While,
    walk,
)
from tracejit.ir.scalar import BITS, OPS, poison_value
from tracejit.support.config import config
from tracejit.support.errors import InternalError, UnsupportedError

__all__ = ["Writer", "print_kernels"]


def print_kernels(kernels: Sequence[tuple[Kernel, int]], dialect: Dialect, intrinsics: Intrinsics) -> Printed:
    """Print kernels, each with the number of work-items a group it will be launched with, as one program.  What users
    spell for the dialect's backend comes before `intrinsics`.

    Kernels come from `grid.bind_grid` (its launches) where a grid runs them; their bodies from `nest.printable` where
    one thread does.

    Raises: UnsupportedError where the table has no spelling for an operation or atomic, or a local array has no
    constant shape.
    """
    own = intrinsics_of(dialect.backend)
    intrinsics = intrinsics.extended(own)
    program = ProgramText(dialect, intrinsics, frozenset(own))
    bodies: list[str] = []
    entries: list[EntryPoint] = []
    for kernel, group in kernels:
        writer = Writer(program, group)
        entries.append(writer.kernel(kernel))
        bodies.append("\n".join(writer.lines))
    helpers = [intrinsics.helpers[name].source for name in intrinsics.closure(program.helpers)]
    parts = [dialect.header, *helpers, *program.functions.values(), *bodies]
    return Printed("\n\n".join(p for p in parts if p) + "\n", tuple(entries), frozenset(program.uses))


def _expanded(program: ProgramText, op: str, dtype: str) -> str:
    """The name of the function that computes a mathematical operation, printed at first use."""
    name = f"tj_{op}_{dtype}"
    if name not in program.functions:
        writer = Writer(program)
        writer.function(name, expansion(op, dtype), dtype)
        program.functions[name] = "\n".join(writer.lines)
    return name


class Writer(Emitter):
    """Prints one function; `group` is how many work-items a group of the launch has."""

    def __init__(self, program: ProgramText, group: int = 1) -> None:
        super().__init__(program)
        self.group = group
        self.positive: set[Operand] = set()  # extents that others are divided by

    def another(self) -> Writer:
        """A writer of another function of the program."""
        return Writer(self.program, self.group)

    def mark(self) -> tuple[Any, ...]:
        """What `go_back` needs to undo what is printed from here on."""
        return (
            len(self.lines),
            self.count,
            self.indent,
            dict(self.names),
            dict(self.buffers),
            set(self.program.functions),
        )

    def go_back(self, mark: tuple[Any, ...]) -> None:
        """Forget what was printed since."""
        lines, self.count, self.indent, self.names, self.buffers, functions = mark
        del self.lines[lines:]
        for name in [n for n in self.program.functions if n not in functions]:
            del self.program.functions[name]

    def is_spelled(self, *keys: str) -> bool:
        """Whether users have spelled an operation."""
        return any(k in self.program.own for k in keys)

    # Functions

    def function(self, name: str, body: Lambda, dtype: str) -> None:
        """A function of scalars with one result."""
        params = ", ".join(f"const {self.declare(p, 'x')}" for p in body.params)
        self.line(f"{self.dialect.function_prefix} {self.type_of(dtype)} {name}({params}) {{")
        self.indent += 1
        self.block(body.body)
        self.line(f"return {self.operand(body.results[0])};")
        self.indent -= 1
        self.line("}")

    def kernel(self, kernel: Kernel) -> EntryPoint:
        params: list[str] = []
        for n, buffer in enumerate(kernel.buffers):
            written = buffer.name in kernel.outputs
            name = self.buffers[buffer] = f"{'out' if written else 'in'}_{n}"
            self.program.uses.add(buffer.dtype)
            if written:
                self.written.add(buffer)
            space = self.dialect.spaces["global"]
            params.append(f"{space} {'' if written else 'const '}{self.dialect.storage[buffer.dtype]}* {name}".strip())
            for a in view_arguments(buffer):
                place = "offset" if a.kind == "offset" else f"stride{a.axis}"
                params.append(f"const {self.type_of('i64')} {name}_{place}")
        for dim in kernel.dims:
            params.append(f"const {self.type_of('i64')} {dim_name(dim)}")
        name = self.program.entry_name(kernel.name)
        if self.dialect.group:
            self.line(self.dialect.group.format(size=self.group))
        self.line(f"{self.dialect.kernel_prefix} {name}({', '.join(params)}) {{")
        self.indent += 1
        self.name_extents(extents_of(kernel.body))
        for statement in walk(kernel.body):
            if isinstance(statement, Alloc) and statement.buffer.space == "shared":
                self.array(statement.buffer)
        self.block(kernel.body)
        self.indent -= 1
        self.line("}")
        return EntryPoint(name, arguments_of(kernel))

    def name_extents(self, extents: Sequence[Dim]) -> None:
        symbols, function = extent_function(*extents)
        self.names.update(zip(function.params, map(dim_name, symbols), strict=True))
        self.positive.update([s.args[1] for s in function.body if isinstance(s, Op) and s.op in ("idiv", "irem")])
        self.block(function.body)
        self.extents.update(zip(extents, map(self.operand, function.results), strict=True))

    def array(self, buffer: Buffer) -> None:
        """Declare an array of constant shape."""
        size = prod(buffer.shape)
        if isinstance(size, Dim):
            raise UnsupportedError(f"an array in {buffer.space} memory needs a constant shape, not {buffer.shape}")
        name = self.buffers[buffer] = self.fresh("shared" if buffer.space == "shared" else "a")
        space = self.dialect.space(buffer.space)
        self.program.uses.add(buffer.dtype)
        self.line(f"{space} {self.dialect.storage[buffer.dtype]} {name}[{max(1, size)}];".strip())
        if config.poison and buffer.space != "shared":
            value = self.stored(buffer.dtype, self.literal(poison_value(buffer.dtype), buffer.dtype))
            self.line(f"for (int fresh = 0; fresh < {size}; fresh++) {name}[fresh] = {value};")

    # Statements

    def block(self, body: Block) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Op():
                text = self.expression(s)
                self.line(f"const {self.declare(s.out)} = {text};")
            case Load():
                text = self.load(s.buffer, s.index)
                self.line(f"const {self.declare(s.out)} = {text};")
            case Store():
                self.line(f"{self.address(s.buffer, s.index)} = {self.stored(s.buffer.dtype, self.operand(s.value))};")
            case Alloc():
                if s.buffer.space != "shared":  # those are declared at the head of the function
                    self.array(s.buffer)
            case For():
                self.loop(s)
            case While():
                self.while_loop(s)
            case If():
                self.branch(s)
            case Atomic():
                space = s.buffer.space
                key = f"atomic.{s.op}.{s.buffer.dtype}.{space}"
                self.line(self.spell((key,), f"&{self.address(s.buffer, s.index)}", self.operand(s.value)) + ";")
            case Barrier():
                self.line(self.spell(("barrier",)) + ";")
            case Read() | Prefix():
                raise InternalError(
                    f"a {type(s).__name__} statement cannot be printed as {self.dialect.name}; printers take what "
                    "`grid.bind_grid` or `nest.printable` makes of a kernel"
                )
            case _:
                _unknown(s, self.dialect.name)

    def expression(self, s: Op) -> str:
        args = [self.operand(a) for a in s.args]
        source, out = s.args[-1].dtype, s.out.dtype
        if s.op in ("convert", "bitcast"):
            return self.spell((f"{s.op}.{source}.{out}",), *args)
        checked = (f"{s.op}.{source}", s.op)
        safe = _is_safe(s) or (s.op in ("idiv", "irem") and s.args[1] in self.positive)
        text = self.program.spell((f"{s.op}_safe.{source}", *checked) if safe else checked, *args)
        if text is not None:
            return text
        if not OPS[s.op].math:
            raise UnsupportedError(
                f"{self.dialect.name} has no spelling of {s.op} on {source}; define one in its intrinsics",
                location=s.location,
            )
        try:
            return f"{_expanded(self.program, s.op, source)}({', '.join(args)})"
        except UnsupportedError as error:
            error.at(s.location)
            raise

    def carries(self, params: Sequence[Value], inits: Sequence[Operand], results: Sequence[Value]) -> None:
        """Variables that live through a loop; a result is its variable after the loop."""
        texts = [self.operand(i) for i in inits]
        for param, text, result in zip(params, texts, results, strict=True):
            self.line(f"{self.declare(param, 'c')} = {text};")
            self.names[result] = self.names[param]

    def advance(self, params: Sequence[Value], yields: Sequence[Operand]) -> None:
        """All carries take their next values at once."""
        moves = [(self.names[p], p.dtype, self.operand(y)) for p, y in zip(params, yields, strict=True) if y is not p]
        targets = {target for target, _, _ in moves}
        for n, (target, dtype, text) in enumerate(moves):
            if text in targets:
                saved = self.fresh("t")
                self.line(f"const {self.type_of(dtype)} {saved} = {text};")
                moves[n] = (target, dtype, saved)
        for target, _, text in moves:
            self.line(f"{target} = {text};")

    def loop(self, s: For) -> None:
        kind = s.axis.kind
        if kind in ("grid", "block"):
            if s.params or s.step != 1:
                raise UnsupportedError(
                    f"{self.dialect.name} cannot run a {kind} loop with carries or a step; bind it with backends.grid"
                )
            (self.grid_loop if kind == "grid" else self.block_loop)(s)
            return
        if kind in ("vector", "unroll") and self.dialect.lanes:
            if written_with_lanes(self, s):
                return
            (plain,) = without_prefixes((s,))
            assert isinstance(plain, For)
            s = plain
        self.carries(s.params, s.inits, s.results)
        if kind == "unroll" and self.dialect.unroll:
            self.line(self.dialect.unroll.format(s.axis.factor))
        lower, upper = self.operand(s.lower), self.operand(s.upper)
        index = self.declare(s.index, "i")
        name = self.names[s.index]
        self.line(f"for ({index} = {lower}; {name} < {upper}; {name} += {self.literal(s.step, 'i64')}) {{")
        self.indent += 1
        self.block(s.body)
        self.advance(s.params, s.yields)
        self.indent -= 1
        self.line("}")

    def start(self, s: For, thread: str) -> tuple[str, str]:
        """(the index's declaration, its name) in a loop whose iterations are given out by thread id."""
        lower, first = self.operand(s.lower), self.spell((thread,))
        index = self.declare(s.index, "i")
        return f"{index} = {first}" if s.lower == Const(0, "i64") else f"{index} = {lower} + {first}", self.names[
            s.index
        ]

    def scoped(self, head: str, body: Block, tail: str = "}") -> None:
        self.line(head)
        self.indent += 1
        self.block(body)
        self.indent -= 1
        self.line(tail)

    def block_loop(self, s: For) -> None:
        """Iterations shared by the work-items of a group; one each, without a loop, where there are as many."""
        start, name = self.start(s, "lane_id")
        count = iterations_of(s)
        if count is None or count > self.group:
            self.scoped(
                f"for ({start}; {name} < {self.operand(s.upper)}; {name} += {self.spell(('group_size',))}) {{", s.body
            )
            return
        self.line(f"const {start};")
        self.scoped("{" if count == self.group else f"if ({name} < {self.operand(s.upper)}) {{", s.body)

    def grid_loop(self, s: For) -> None:
        """One iteration in each group, or in each work-item that has one: the last group may reach beyond the loop."""
        if any(isinstance(x, For) and x.axis.kind == "block" for x in walk(s.body)):
            self.line(f"const {self.start(s, 'group_id')[0]};")
            self.scoped("{", s.body)
            return
        if s.axis.width > 1:
            self.packed_loop(s)
            return
        start, name = self.start(s, "global_id")
        upper, count = self.operand(s.upper), iterations_of(s)
        if isinstance(s.upper, Value):  # how many iterations there are was not known at the launch
            self.scoped(f"for ({start}; {name} < {upper}; {name} += {self.spell(('global_size',))}) {{", s.body)
            return
        self.line(f"const {start};")
        if count is not None and count % self.group == 0:
            self.scoped("{", s.body)
            return
        if not (self.dialect.group_guard and _worth_twice(s, count, self.group)):
            self.scoped(f"if ({name} < {upper}) {{", s.body)
            return
        self.scoped(
            f"if ({self.spell(('group_id',))} < {upper} / {self.literal(self.group, 'i64')}) {{",
            s.body,
            f"}} else if ({name} < {upper}) {{",
        )
        self.indent += 1
        self.block(s.body)
        self.indent -= 1
        self.line("}")

    def packed_loop(self, s: For) -> None:
        """As many neighbouring iterations in each work-item as the loop is wide, with one access of memory for each
        array; the last iterations one by one where their number is no multiple of that.
        """
        width, upper, count = s.axis.width, self.operand(s.upper), iterations_of(s)
        index, name = self.declare(s.index, "i"), self.names[s.index]
        self.line(f"const {index} = {self.spell(('global_id',))} * {self.literal(width, 'i64')};")
        whole, full = (count is not None and count % n == 0 for n in (width, width * self.group))
        self.line("{" if full else f"if ({name} + {width - 1} < {upper}) {{")
        self.indent += 1
        self.neighbours(s)
        self.indent -= 1
        if whole:
            self.line("}")
            return
        self.line("} else {")
        self.indent += 1
        each = self.declare(s.index, "i")
        self.scoped(f"for ({each} = {name}; {self.names[s.index]} < {upper}; {self.names[s.index]}++) {{", s.body)
        self.indent -= 1
        self.line("}")

    def neighbours(self, s: For) -> None:
        """Iterations i, i + 1, ... of a packed loop: all loads, what is computed for each, all stores."""
        width, first = s.axis.width, self.names[s.index]

        def whole(buffer: Buffer) -> tuple[str, str]:
            """(the type of all elements that are taken of a buffer at once, their place)"""
            constant = "" if buffer in self.written else "const "
            kind = self.dialect.vector.format(type=self.dialect.storage[buffer.dtype], width=width)
            return kind, f"*({self.dialect.spaces['global']} {constant}{kind}*)({self.buffers[buffer]} + {first})"

        taken: dict[Buffer, str] = {}
        for x in s.body:
            if isinstance(x, Load) and neighbours(x, s) and x.buffer not in taken:
                taken[x.buffer] = self.fresh("q")
                kind, place = whole(x.buffer)
                self.line(f"const {kind} {taken[x.buffer]} = {place};")
        stores = [x for x in s.body if isinstance(x, Store)]
        given: dict[Store, list[str]] = {x: [] for x in stores}
        for lane in range(width):
            if lane:
                self.line(f"const {self.declare(s.index, 'i')} = {first} + {lane};")
            for x in s.body:
                if isinstance(x, Load) and neighbours(x, s):
                    text = self.loaded(x.buffer.dtype, f"{taken[x.buffer]}.s{lane:x}")
                    self.line(f"const {self.declare(x.out)} = {text};")
                elif isinstance(x, Store):
                    given[x].append(self.fresh("w"))
                    kind, text = self.dialect.storage[x.buffer.dtype], self.operand(x.value)
                    self.line(f"const {kind} {given[x][-1]} = {self.stored(x.buffer.dtype, text)};")
                else:
                    self.statement(x)
        for x in stores:
            kind, place = whole(x.buffer)
            self.line(f"{place} = ({kind})({', '.join(given[x])});")

    def while_loop(self, s: While) -> None:
        self.carries(s.params, s.inits, s.results)
        self.line("for (;;) {")
        self.indent += 1
        self.block(s.condition)
        self.line(f"if (!{self.operand(s.test)}) break;")
        self.block(s.body)
        self.advance(s.params, s.yields)
        self.indent -= 1
        self.line("}")

    def branch(self, s: If) -> None:
        condition = self.operand(s.condition)
        for result in s.results:
            self.line(f"{self.declare(result)};")
        self.line(f"if ({condition}) {{")
        self.arm(s.then, s.results, s.then_yields)
        if s.orelse or s.results:
            self.line("} else {")
            self.arm(s.orelse, s.results, s.else_yields)
        self.line("}")

    def arm(self, body: Block, results: Sequence[Value], yields: Sequence[Operand]) -> None:
        self.indent += 1
        self.block(body)
        for result, operand in zip(results, yields, strict=True):
            self.line(f"{self.names[result]} = {self.operand(operand)};")
        self.indent -= 1


def _unknown(s: Never, language: str) -> NoReturn:
    """(A type checker shows a statement that `Writer.statement` leaves out.)"""
    raise InternalError(f"{language} has no {type(s).__name__}")


_TWICE = 200  # statements: a longer body is printed once, with a test in each work-item


def _worth_twice(loop: For, count: int | None, group: int) -> bool:
    """Whether there may be full groups, and the body is short enough to be printed for them and for the last group."""
    if loop.lower != Const(0, "i64") or sum(1 for _ in walk(loop.body)) >= _TWICE:
        return False
    return group > 1 and (count is None or count >= group)


def _is_safe(s: Op) -> bool:
    """Whether the second operand is a constant for which a division or shift needs no check."""
    if (
        s.op not in ("idiv", "irem", "shl", "shr", "lshr")
        or not isinstance(s.args[1], Const)
        or isinstance(s.args[1].value, Dim)
    ):
        return False
    constant = int(s.args[1].value)
    return constant > 0 if s.op in ("idiv", "irem") else 0 <= constant < BITS[s.out.dtype]
