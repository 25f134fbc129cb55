"""The kernel that a loop of a program is: what its steps launch, written into one.

Scalars that lay in memory between launches are values here: `Writer` follows the steps of the program, `_Inlined` the
statements of a kernel among them, and both carry through a loop or a branch what it changes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from tracejit.ir.builder import ScalarRecorder, extent_function
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Atomic,
    Block,
    Buffer,
    Const,
    For,
    If,
    Kernel,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    While,
    accesses_of,
    index_const,
    walk,
)
from tracejit.ir.program import (
    BindExtent,
    Branch,
    Copy,
    CountedLoop,
    Launch,
    ProgramBuffer,
    Step,
    Steps,
    Swap,
    WhileLoop,
    mentions,
    walk_steps,
)
from tracejit.ir.rewrite import fresh_lambda, inline
from tracejit.support.nodes import evolve

__all__ = ["Unsuitable", "Writer", "is_scalar", "is_short", "mentioned"]

_SHORT = 16  # elements or iterations


def is_scalar(b: ProgramBuffer | Buffer) -> bool:
    """Whether it has one element."""
    return all(isinstance(n, int) and n == 1 for n in b.shape)


def is_short(n: Extent) -> bool:
    """Whether so many are few."""
    return isinstance(n, int) and n <= _SHORT


def mentioned(steps: Steps) -> Counter[ProgramBuffer]:
    """How many steps mention each buffer."""
    return Counter(b for s in walk_steps(steps) for b in mentions(s))


class Unsuitable(Exception):
    """A loop that no kernel can be."""


def _assigned(steps: Steps) -> dict[ProgramBuffer, None]:
    """The scalars that steps may change, in order."""
    found: dict[ProgramBuffer, None] = {}
    for s in walk_steps(steps):
        match s:
            case Launch():
                written = s.accesses()[1]
            case Copy():
                written = [s.target]
            case Swap():
                written = [s.a, s.b]
            case _:
                written = []
        found.update({b: None for b in written if is_scalar(b)})
    return found


class Writer:
    """Writes the kernel of a loop and of what sets its numbers.  seen: the buffers that other steps mention."""

    def __init__(self, steps: Steps, seen: set[ProgramBuffer]) -> None:
        self.steps = steps
        self.seen = seen
        self.r = ScalarRecorder()
        self.scalars: dict[ProgramBuffer, Operand] = {}  # what they are now
        self.symbols: dict[str, Operand] = {}  # of extents, inside of the loops that bind them
        self.dims: dict[str, None] = {}
        self.bound = {s.index for s in walk_steps(steps) if isinstance(s, CountedLoop | BindExtent)}
        self.whole = mentioned(steps)
        self.numbers = itertools.count()  # of arrays that launches allocate
        self.shapes = self._shapes()
        self.buffers: dict[ProgramBuffer, Buffer] = {}
        self.outputs: set[str] = set()

    # -- the kernel ----------------------------------------------------------------------------------------------------
    def kernel(self, name: str) -> tuple[Kernel, tuple[ProgramBuffer, ...]]:
        """The kernel, and the buffers it is to be launched on."""
        changed = _assigned(self.steps)
        read = dict.fromkeys([b for s in walk_steps(self.steps) for b in mentions(s) if is_scalar(b)])
        for b in [b for b in read if b in self.seen]:
            self.scalars[b] = self.load(b, ())
        self.block(self.steps)
        for b in changed:
            if b in self.seen:
                self.store(b, (), self.scalars[b])
        for b in self.buffers.values():
            for n in b.shape:
                self.note(n)
        kernel = Kernel(
            name, tuple(self.buffers.values()), frozenset(self.outputs), tuple(self.r.statements), tuple(self.dims)
        )
        return kernel, tuple(self.buffers)

    def _shapes(self) -> dict[ProgramBuffer, tuple[Extent, ...] | None]:
        """How the kernel sees each array: as the launches do, if they agree and no loop inside says how long it is;
        else (None) as one row.
        """
        found: dict[ProgramBuffer, tuple[Extent, ...] | None] = {}
        for s in walk_steps(self.steps):
            if not isinstance(s, Launch):
                continue
            for parameter, b in zip(s.kernel.buffers, s.arguments, strict=True):
                shape = parameter.shape
                if any(isinstance(n, Dim) and n.symbols() & self.bound for n in shape):
                    shape = None
                if b not in found:
                    found[b] = shape
                elif found[b] is None or shape is None or str(found[b]) != str(shape):
                    found[b] = None
                if found[b] is None and b.layout != "C":
                    _refuse()
        return found

    def parameter(self, b: ProgramBuffer) -> Buffer:
        """The kernel's buffer for one of the program's."""
        made = self.buffers.get(b)
        if made is None:
            shape = self.shapes.get(b, b.shape)
            if is_scalar(b):
                shape = b.shape
            elif shape is None:
                shape = (prod(b.room),)
            if any(isinstance(n, Dim) and n.symbols() & self.bound for n in shape):
                _refuse()
            made = self.buffers[b] = Buffer(b.name, b.dtype, shape, b.layout)
        return made

    def load(self, b: ProgramBuffer, index: tuple[Operand, ...]) -> Value:
        out = Value(b.dtype)
        buffer = self.parameter(b)
        self.r.statements.append(Load(out, buffer, index or (index_const(0),) * len(buffer.shape)))
        return out

    def store(self, b: ProgramBuffer, index: tuple[Operand, ...], value: Operand) -> None:
        buffer = self.parameter(b)
        self.outputs.add(buffer.name)
        self.r.statements.append(Store(buffer, index or (index_const(0),) * len(buffer.shape), value))

    def note(self, n: Extent) -> None:
        """Remember the symbols of an extent, which the kernel is to be given."""
        if isinstance(n, Dim):
            self.dims.update(dict.fromkeys(sorted(n.symbols())))

    def extent(self, n: Extent) -> Operand:
        """An extent as an operand: computed where a loop inside binds a symbol of it."""
        if not isinstance(n, Dim):
            return index_const(n)
        if n.symbols().isdisjoint(self.symbols):
            if n.symbols() & self.bound:
                _refuse()
            self.note(n)
            return index_const(n)
        symbols, function = extent_function(n)
        arguments: list[Operand] = []
        for symbol in symbols:
            if symbol not in self.symbols:
                if symbol in self.bound:
                    _refuse()
                self.dims.setdefault(symbol)
            arguments.append(self.symbols.get(symbol, index_const(Dim.symbol(symbol))))
        statements, (result,) = inline(function, arguments)
        self.r.statements += statements
        return result

    # -- steps ---------------------------------------------------------------------------------------------------------
    def block(self, steps: Steps) -> None:
        """Steps in order; the extents that they bind are bound in this block only."""
        bound = [s.index for s in steps if isinstance(s, BindExtent)]
        for s in steps:
            self.step(s)
        for index in bound:
            del self.symbols[index]

    def step(self, s: Step) -> None:
        match s:
            case Launch():
                _Inlined(self, s).run()
            case Copy():
                self.copy(s)
            case Swap():
                self.swap(s)
            case CountedLoop():
                self.counted(s)
            case WhileLoop():
                self.while_loop(s)
            case Branch():
                self.branch(s)
            case BindExtent():
                self.symbols[s.index] = self.value(s.count)
            case _:
                _refuse()

    def value(self, b: ProgramBuffer) -> Operand:
        """What a scalar is now."""
        found = self.scalars.get(b)
        if found is None:
            found = self.scalars[b] = Const(_nothing(b.dtype), b.dtype)
        return found

    def copy(self, s: Copy) -> None:
        if is_scalar(s.target):
            self.scalars[s.target] = self.value(s.source)
            return

        def one(index: tuple[Operand, ...]) -> None:
            at = self.place(s.target, index)
            self.store(s.target, at, self.load(s.source, self.place(s.source, index)))

        self.each(s.target.shape, one)

    def swap(self, s: Swap) -> None:
        if is_scalar(s.a):
            self.scalars[s.a], self.scalars[s.b] = self.value(s.b), self.value(s.a)
            return

        def one(index: tuple[Operand, ...]) -> None:
            i, j = self.place(s.a, index), self.place(s.b, index)
            a, b = self.load(s.a, i), self.load(s.b, j)
            self.store(s.a, i, b)
            self.store(s.b, j, a)

        self.each(s.a.shape, one)

    def each(self, shape: Sequence[Extent], run: Callable[[tuple[Operand, ...]], None]) -> None:
        """What is done for each element, one after the other where they are few, else in loops."""
        if is_short(prod(shape)):
            for index in _indices(shape):
                run(tuple(map(index_const, index)))
            return
        values = tuple([Value("i64") for _ in shape])
        body, _ = self.nested(lambda: run(values))
        for i, n in reversed(list(zip(values, shape, strict=True))):
            body = (For(i, index_const(0), index_const(n), body),)
        self.r.statements += body

    def place(self, b: ProgramBuffer, index: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """Where an element of an array lies in the kernel's buffer."""
        shape = self.parameter(b).shape
        if len(shape) == len(b.shape) and all(map(_equal, shape, b.shape)):
            return index
        if len(shape) != 1:
            _refuse()
        flat: Operand = index_const(0)
        for i, n in zip(index, b.shape, strict=True):
            assert isinstance(n, int)
            if isinstance(i, Const) and isinstance(flat, Const):
                flat = index_const(int(flat.value) * n + int(i.value))
            else:
                flat = self.r.op("add", self.r.op("mul", flat, index_const(n)), i)
        return (flat,)

    def nested(self, run: Callable[[], None]) -> tuple[Block, dict[ProgramBuffer, Operand]]:
        """The statements of a block, and the scalars after it; those of this one stay as they are."""
        before, scalars = self.r, self.scalars
        self.r, self.scalars = ScalarRecorder(), dict(scalars)
        try:
            run()
            return tuple(self.r.statements), self.scalars
        finally:
            self.r, self.scalars = before, scalars

    def _carried(self, loop: Step) -> list[ProgramBuffer]:
        """The scalars that a loop changes and that have a value before it, or are mentioned elsewhere."""
        inside = mentioned((loop,))
        return [b for b in _assigned((loop,)) if b in self.scalars or b in self.seen or inside[b] < self.whole[b]]

    def counted(self, s: CountedLoop) -> None:
        count = self.extent(s.count)
        carried = self._carried(s)
        inits = tuple([self.value(b) for b in carried])
        params = tuple([Value(b.dtype) for b in carried])
        index = Value("i64")

        def run() -> None:
            self.scalars.update(zip(carried, params, strict=True))
            if s.index != "_":
                self.symbols[s.index] = index
            self.block(s.body)
            self.symbols.pop(s.index, None)

        body, after = self.nested(run)
        results = tuple([Value(b.dtype) for b in carried])
        yields = tuple([after[b] for b in carried])
        self.r.statements.append(
            For(index, index_const(0), count, body, params=params, inits=inits, yields=yields, results=results)
        )
        self.scalars.update(zip(carried, results, strict=True))

    def while_loop(self, s: WhileLoop) -> None:
        carried = self._carried(s)
        inits = tuple([self.value(b) for b in carried])
        params = tuple([Value(b.dtype) for b in carried])
        found: list[Operand] = []

        def test() -> None:
            self.scalars.update(zip(carried, params, strict=True))
            self.block(s.condition)
            found.append(self.value(s.flag))

        condition, between = self.nested(test)
        scalars, self.scalars = self.scalars, between
        body, after = self.nested(lambda: self.block(s.body))
        self.scalars = scalars
        results = tuple([Value(b.dtype) for b in carried])
        yields = tuple([after[b] for b in carried])
        self.r.statements.append(While(params, inits, condition, found[0], body, yields, results))
        self.scalars.update(zip(carried, results, strict=True))
        changed = [b for b in carried if between[b] is not params[carried.index(b)]]
        if changed:
            # A `while` ends after its condition, whose own results are those of one more look than its body's.
            block, last = self.nested(lambda: self.block(s.condition))
            self.r.statements += block
            self.scalars.update({b: last[b] for b in changed})

    def branch(self, s: Branch) -> None:
        flag = self.value(s.flag)
        changed = [b for b in _assigned((*s.then, *s.orelse))]
        then, after_then = self.nested(lambda: self.block(s.then))
        orelse, after_else = self.nested(lambda: self.block(s.orelse))
        changed = [b for b in changed if b in after_then or b in after_else]

        def last(after: Mapping[ProgramBuffer, Operand]) -> tuple[Operand, ...]:
            return tuple([after[b] if b in after else Const(_nothing(b.dtype), b.dtype) for b in changed])

        results = tuple([Value(b.dtype) for b in changed])
        self.r.statements.append(If(flag, then, orelse, last(after_then), last(after_else), results))
        self.scalars.update(zip(changed, results, strict=True))


class _Inlined:
    """Writes the statements of one launch into the kernel of a loop."""

    def __init__(self, writer: Writer, launch: Launch) -> None:
        self.w = writer
        self.kernel = launch.kernel
        self.program_buffers = dict(zip(launch.kernel.buffers, launch.arguments, strict=True))
        self.own: dict[Buffer, Buffer] = {}
        self.values: dict[Value, Operand] = {}
        self.short = all(is_short(prod(b.shape)) for b in launch.kernel.buffers)  # lanes would be empty, most of them

    def run(self) -> None:
        self.block(self.kernel.body)

    def operand(self, x: Operand) -> Operand:
        if isinstance(x, Value):
            return self.values[x]
        return self.w.extent(x.value) if isinstance(x.value, Dim) and x.dtype == "i64" else self.noted(x)

    def noted(self, x: Const) -> Const:
        if isinstance(x.value, Dim):
            if x.value.symbols() & self.w.bound:
                _refuse()
            self.w.note(x.value)
        return x

    def operands(self, xs: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple([self.operand(x) for x in xs])

    def define(self, v: Value) -> Value:
        made = self.values[v] = Value(v.dtype)
        return made

    def put(self, s: Statement) -> None:
        self.w.r.statements.append(s)

    def at(self, b: Buffer, index: tuple[Operand, ...]) -> tuple[Buffer, tuple[Operand, ...]]:
        """The kernel's buffer and index for an access of this launch."""
        if b in self.own:
            return self.own[b], self.operands(index)
        target = self.w.parameter(self.program_buffers[b])
        places = self.operands(index)
        if len(target.shape) == len(b.shape) and all(map(_equal, target.shape, b.shape)):
            return target, places
        flat: Operand = index_const(0)
        for i, n in zip(places, b.shape, strict=True):
            flat = self.w.r.op("add", self.w.r.op("mul", flat, self.w.extent(n)), i)
        return target, (flat,)

    def scalar(self, b: Buffer) -> ProgramBuffer | None:
        """The program's scalar that this is."""
        found = self.program_buffers.get(b)
        return found if found is not None and is_scalar(found) else None

    def block(self, body: Block) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        match s:
            case Op():
                args = self.operands(s.args)
                self.put(Op(self.define(s.out), s.op, args, s.location))
            case Load():
                scalar = self.scalar(s.buffer)
                if scalar is not None:
                    self.values[s.out] = self.w.value(scalar)
                else:
                    buffer, index = self.at(s.buffer, s.index)
                    self.put(Load(self.define(s.out), buffer, index))
            case Store():
                value = self.operand(s.value)
                scalar = self.scalar(s.buffer)
                if scalar is not None:
                    self.w.scalars[scalar] = value
                else:
                    buffer, index = self.at(s.buffer, s.index)
                    self.w.outputs.add(buffer.name)
                    self.put(Store(buffer, index, value))
            case Atomic():
                value = self.operand(s.value)
                buffer, index = self.at(s.buffer, s.index)
                self.w.outputs.add(buffer.name)
                self.put(Atomic(s.op, buffer, index, value))
            case Alloc():
                made = self.own[s.buffer] = evolve(s.buffer, name=f"local{next(self.w.numbers)}")
                self.put(Alloc(made))
            case For():
                self.loop(s)
            case While():
                self.while_loop(s)
            case If():
                self.branch(s)
            case _:
                _refuse()

    def changed(self, *bodies: Block) -> list[ProgramBuffer]:
        """The scalars of the program that blocks store."""
        found: dict[ProgramBuffer, None] = {}
        for body in bodies:
            for s in walk(body):
                for a in accesses_of(s):
                    b = self.scalar(a.buffer) if a.writes else None
                    if b is not None:
                        found[b] = None
        return list(found)

    def loop(self, s: For) -> None:
        lower, upper = self.operand(s.lower), self.operand(s.upper)
        carried = self.changed(s.body)
        inits = (*self.operands(s.inits), *[self.w.value(b) for b in carried])
        index = self.define(s.index)
        params = tuple([self.define(p) for p in s.params])
        own = tuple([Value(b.dtype) for b in carried])
        yields: list[Operand] = []

        def run() -> None:
            self.w.scalars.update(zip(carried, own, strict=True))
            self.block(s.body)
            yields.extend([*self.operands(s.yields), *[self.w.scalars[b] for b in carried]])

        body, _ = self.w.nested(run)
        results = tuple([self.define(r) for r in s.results])
        last = tuple([Value(b.dtype) for b in carried])
        self.put(
            evolve(
                s,
                axis=SERIAL if self.short else s.axis,
                index=index,
                lower=lower,
                upper=upper,
                body=body,
                params=(*params, *own),
                inits=inits,
                yields=tuple(yields),
                results=(*results, *last),
                combine=s.combine and fresh_lambda(s.combine),
            )
        )
        self.w.scalars.update(zip(carried, last, strict=True))

    def while_loop(self, s: While) -> None:
        carried = self.changed(s.condition, s.body)
        if self.changed(s.condition):
            _refuse()
        inits = (*self.operands(s.inits), *[self.w.value(b) for b in carried])
        params = tuple([self.define(p) for p in s.params])
        own = tuple([Value(b.dtype) for b in carried])
        tests: list[Operand] = []
        yields: list[Operand] = []

        def test() -> None:
            self.w.scalars.update(zip(carried, own, strict=True))
            self.block(s.condition)
            tests.append(self.operand(s.test))

        condition, between = self.w.nested(test)

        def run() -> None:
            self.w.scalars.update(between)
            self.block(s.body)
            yields.extend([*self.operands(s.yields), *[self.w.scalars[b] for b in carried]])

        body, _ = self.w.nested(run)
        results = tuple([self.define(r) for r in s.results])
        last = tuple([Value(b.dtype) for b in carried])
        self.put(While((*params, *own), inits, condition, tests[0], body, tuple(yields), (*results, *last), s.unroll))
        self.w.scalars.update(zip(carried, last, strict=True))

    def branch(self, s: If) -> None:
        condition = self.operand(s.condition)
        changed = self.changed(s.then, s.orelse)
        befores = [self.w.value(b) for b in changed]
        ends: list[tuple[Operand, ...]] = []
        made: list[Block] = []
        for block, yields in ((s.then, s.then_yields), (s.orelse, s.else_yields)):

            def run(block: Block = block, yields: Sequence[Operand] = yields) -> None:
                self.w.scalars.update(zip(changed, befores, strict=True))
                self.block(block)
                ends.append((*self.operands(yields), *[self.w.scalars[b] for b in changed]))

            made.append(self.w.nested(run)[0])
        results = tuple([self.define(r) for r in s.results])
        last = tuple([Value(b.dtype) for b in changed])
        self.put(If(condition, made[0], made[1], ends[0], ends[1], (*results, *last)))
        self.w.scalars.update(zip(changed, last, strict=True))


def _refuse() -> NoReturn:
    raise Unsuitable


def _nothing(dtype: str) -> bool | int | float:
    """What stands for a value that nobody reads."""
    return False if dtype == "bool" else 0.0 if dtype.startswith("f") else 0


def _equal(a: Extent, b: Extent) -> bool:
    if isinstance(a, Dim) or isinstance(b, Dim):
        return isinstance(a, Dim) and isinstance(b, Dim) and a.same(b)
    return a == b


def _indices(shape: Sequence[Extent]) -> Iterable[tuple[int, ...]]:
    return itertools.product(*[range(n) for n in shape if isinstance(n, int)])
