"""Prints device kernels as LLVM IR for GPUs: what `c_like` is for C.

What differs between GPUs comes from a `Machine`: calling convention, address spaces, thread ids and barrier.  Scalar
operations are `llvm_like`'s, one element each; mathematical functions are written out by `ir.math`, once a program.

Control flow stays structured: a loop is a header whose phis are its index and carries, a branch two blocks that meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never, NoReturn

from tracejit.backends.grid import Launch
from tracejit.backends.llvm_like import Emit, constant, llvm_type, scalar_op
from tracejit.backends.packed import neighbours
from tracejit.backends.printing import (
    EntryPoint,
    Printed,
    arguments_of,
    expansion,
    extents_of,
    iterations_of,
    own_memory,
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
from tracejit.ir.scalar import BITS, OPS, is_float, is_signed, numpy_dtype, poison_value
from tracejit.support.config import config
from tracejit.support.errors import InternalError, UnsupportedError
from tracejit.support.nodes import define, field, frozen

__all__ = ["Machine", "print_kernels"]


@frozen
class Machine:
    """How a GPU is spoken to in LLVM IR.

    backend: whose users' spellings are printed.  name: the language, in messages.  header: data layout and triple.
    kernel: what a kernel begins with, up to its name.  attributes: of one, a template over {group}, the number of
    work-items of its groups.  spaces: numbers of address spaces.  threads: intrinsics of 32 bits for "lane_id",
    "group_id", "group_size" and "group_count".  barrier: the instruction, and its declaration.  scope: of atomics.
    """

    backend: str
    name: str
    header: str
    kernel: str
    attributes: str
    spaces: Mapping[str, int]
    threads: Mapping[str, str]
    barrier: tuple[str, str]
    scope: str = ""


def print_kernels(launches: Sequence[Launch], machine: Machine) -> Printed:
    """One module of all kernels.

    Raises: UnsupportedError where an operation has no spelling, or a local array no constant shape.
    """
    program = _Program(machine)
    entries: list[EntryPoint] = []
    bodies: list[str] = []
    for launch in launches:
        writer = _Writer(program, launch.work_group)
        entries.append(writer.kernel(launch.kernel))
        bodies.append(writer.text())
    parts = [machine.header, *program.arrays, *program.functions.values(), *bodies, *program.declared.values()]
    return Printed("\n\n".join(parts) + "\n", tuple(entries), frozenset(program.uses))


@define(eq=False)
class _Program:
    """What the kernels of one module share: names, shared arrays, functions, declarations, dtypes seen."""

    machine: Machine
    taken: set[str] = field(factory=set[str])
    arrays: list[str] = field(factory=list[str])
    functions: dict[str, str] = field(factory=dict[str, str])
    declared: dict[str, str] = field(factory=dict[str, str])
    uses: set[str] = field(factory=set[str])

    def entry_name(self, name: str) -> str:
        """A kernel's name as an identifier that no other kernel has."""
        stem = found = "kernel_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        while found in self.taken:
            found = f"{stem}_{len(self.taken)}"
        self.taken.add(found)
        return found

    def function(self, op: str, dtype: str) -> str:
        """The name of the function that computes a mathematical operation, written at first use."""
        name = f"tj_{op}_{dtype}"
        if name not in self.functions:
            self.functions[name] = ""  # it may use itself only through others, which come before it
            writer = _Writer(self, exact=False)
            body = writer.function(name, expansion(op, dtype), dtype)
            del self.functions[name]
            self.functions[name] = body
        return name


class _Writer:
    """Writes one function; `group` is how many work-items a group of the launch has."""

    def __init__(self, program: _Program, group: int = 1, exact: bool = True) -> None:
        self.program = program
        self.machine = program.machine
        self.group = group
        self.exact = exact
        self.emit = Emit(self.line, program.declared.__setitem__, program.machine.backend, guards_operands=True)
        self.head: list[str] = []  # arrays of its own: before everything else
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.views: dict[Buffer, list[str]] = {}  # offset and strides of those that are not row-major
        self.extents: dict[Dim, str] = {}
        self.label = "start"
        self.count = 0
        self.signature = ""

    # Text

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> str:
        """An instruction with a result; its register."""
        register = f"%{self.fresh('v')}"
        self.lines.append(f"  {register} = {text}")
        return register

    def do(self, text: str) -> None:
        """An instruction without one."""
        self.lines.append(f"  {text}")

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def text(self) -> str:
        return "\n".join([f"{self.signature} {{", "start:", *self.head, *self.lines, "}"])

    def type_of(self, dtype: str) -> str:
        """In a register."""
        self.program.uses.add(dtype)
        return llvm_type(dtype, 1)

    def stored_type(self, dtype: str) -> str:
        """In memory, where a bool is a byte."""
        self.program.uses.add(dtype)
        return "i8" if dtype == "bool" else llvm_type(dtype, 1)

    # Functions

    def function(self, name: str, body: Lambda, dtype: str) -> str:
        """A function of scalars with one result."""
        t = self.type_of(dtype)
        self.names.update({p: f"%x{n}" for n, p in enumerate(body.params)})
        self.block(body.body)
        self.do(f"ret {t} {self.operand(body.results[0])}")
        self.signature = f"define internal {t} @{name}({', '.join(f'{t} %x{n}' for n in range(len(body.params)))})"
        return self.text()

    def kernel(self, kernel: Kernel) -> EntryPoint:
        space = self.machine.spaces["global"]
        params: list[str] = []
        for argument in arguments_of(kernel):
            if argument.kind == "buffer":
                buffer = next(b for b in kernel.buffers if b.name == argument.name)
                register = self.buffers[buffer] = f"%b{len(self.buffers)}"
                params.append(f"ptr addrspace({space}) {register}")
                continue
            register = f"%n{len(params)}"
            params.append(f"i64 {register}")
            if argument.kind != "dim":
                self.views.setdefault(next(b for b in kernel.buffers if b.name == argument.name), []).append(register)
        dims = dict(zip(kernel.dims, [p.split()[-1] for p in params[len(params) - len(kernel.dims) :]], strict=True))
        name = self.program.entry_name(kernel.name)
        attributes = self.machine.attributes.format(group=self.group)
        self.signature = f"{self.machine.kernel} @{name}({', '.join(params)}) {attributes}".rstrip()
        self.name_extents(extents_of(kernel.body), dims)
        for statement in walk(kernel.body):
            if isinstance(statement, Alloc) and statement.buffer.space == "shared":
                self.shared_array(statement.buffer, name)
        self.block(kernel.body)
        self.do("ret void")
        return EntryPoint(name, arguments_of(kernel))

    def name_extents(self, extents: Sequence[Dim], dims: Mapping[str, str]) -> None:
        symbols, function = extent_function(*extents)
        self.names.update({p: dims[s] for p, s in zip(function.params, symbols, strict=True)})
        self.block(function.body)
        self.extents.update(zip(extents, map(self.operand, function.results), strict=True))

    # Arrays

    def elements(self, buffer: Buffer) -> int:
        size = prod(buffer.shape)
        if isinstance(size, Dim):
            raise UnsupportedError(f"an array in {buffer.space} memory needs a constant shape, not {buffer.shape}")
        return max(1, size)

    def shared_array(self, buffer: Buffer, kernel: str) -> None:
        name = self.buffers[buffer] = f"@{self.fresh('shared')}_{kernel}"
        kind = f"[{self.elements(buffer)} x {self.stored_type(buffer.dtype)}]"
        space = self.machine.spaces["shared"]
        self.program.arrays.append(f"{name} = internal addrspace({space}) global {kind} poison, align 16")

    def array(self, buffer: Buffer) -> None:
        """An array of a work-item's own."""
        own_memory(buffer, self.machine.name)
        size, t = self.elements(buffer), self.stored_type(buffer.dtype)
        name = self.buffers[buffer] = f"%{self.fresh('a')}"
        self.head.append(f"  {name} = alloca [{size} x {t}], align 16")
        if config.poison:
            value = self.in_memory(buffer.dtype, constant(poison_value(buffer.dtype), buffer.dtype))

            def poison(index: str) -> None:
                self.do(f"store {t} {value}, ptr {self.line(f'getelementptr {t}, ptr {name}, i64 {index}')}")

            self.counted("0", str(size), 1, poison)

    def pointer(self, buffer: Buffer) -> str:
        """The type of its address."""
        space = self.machine.spaces.get(buffer.space, 0)
        return f"ptr addrspace({space})" if space else "ptr"

    def address(self, buffer: Buffer, index: tuple[Operand, ...]) -> str:
        """The register of the address of an element."""
        name, pointer = self.buffers[buffer], self.pointer(buffer)
        if len(index) != len(buffer.shape):
            raise InternalError(f"buffer {buffer.name} of rank {len(buffer.shape)} indexed with {len(index)} operands")
        if buffer.layout == "C":
            at = "0"
            for n, (i, extent) in enumerate(zip(index, buffer.shape, strict=True)):
                text = self.operand(i)
                at = text if n == 0 else self.index("add", self.index("mul", at, self.extent(extent)), text)
            return self.line(f"getelementptr {self.stored_type(buffer.dtype)}, {pointer} {name}, i64 {at}")
        item = str(numpy_dtype(buffer.dtype).itemsize)
        at, *strides = self.views[buffer]
        for n, i in enumerate(index):
            at = self.index("add", at, self.index("mul", self.operand(i), strides[n] if n < len(strides) else item))
        return self.line(f"getelementptr i8, {pointer} {name}, i64 {at}")

    def index(self, op: str, x: str, y: str) -> str:
        """Arithmetic of indices."""
        if op == "add" and "0" in (x, y):
            return y if x == "0" else x
        if op == "mul" and "1" in (x, y):
            return y if x == "1" else x
        return self.line(f"{op} i64 {x}, {y}")

    def in_register(self, dtype: str, register: str) -> str:
        """What a loaded element is in a register."""
        return self.line(f"icmp ne i8 {register}, 0") if dtype == "bool" else register

    def in_memory(self, dtype: str, register: str) -> str:
        """What is stored of a register."""
        return self.line(f"zext i1 {register} to i8") if dtype == "bool" else register

    # Operands

    def operand(self, x: Operand) -> str:
        if isinstance(x, Value):
            return self.names[x]
        if isinstance(x.value, Dim):
            return self.extents[x.value]
        self.program.uses.add(x.dtype)
        return constant(x.value, x.dtype)

    def extent(self, n: Any) -> str:
        return self.extents[n] if isinstance(n, Dim) else str(n)

    def thread(self, name: str) -> str:
        """A number of the launch in 64 bits."""
        if name in ("global_id", "global_size"):
            first = self.index(
                "mul", self.thread("group_id" if name == "global_id" else "group_count"), str(self.group)
            )
            return self.index("add", first, self.thread("lane_id")) if name == "global_id" else first
        if name == "group_size":
            return str(self.group)
        symbol = self.machine.threads[name]
        self.program.declared[symbol] = f"declare i32 {symbol}()"
        return self.line(f"zext i32 {self.line(f'call i32 {symbol}()')} to i64")

    # Statements

    def block(self, body: Block) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Op():
                self.names[s.out] = self.operation(s)
            case Load():
                t = self.stored_type(s.buffer.dtype)
                at = self.address(s.buffer, s.index)
                found = self.line(f"load {t}, {self.pointer(s.buffer)} {at}")
                self.names[s.out] = self.in_register(s.buffer.dtype, found)
            case Store():
                value = self.in_memory(s.buffer.dtype, self.operand(s.value))
                at = self.address(s.buffer, s.index)
                self.do(f"store {self.stored_type(s.buffer.dtype)} {value}, {self.pointer(s.buffer)} {at}")
            case Alloc():
                if s.buffer.space != "shared":  # those are declared before the kernel
                    self.array(s.buffer)
            case For():
                self.loop(s)
            case While():
                self.while_loop(s)
            case If():
                self.branch(s)
            case Atomic():
                self.atomic(s)
            case Barrier():
                instruction, declaration = self.machine.barrier
                self.program.declared[declaration] = declaration
                self.do(instruction)
            case Read() | Prefix():
                raise InternalError(
                    f"a {type(s).__name__} statement cannot be printed as {self.machine.name}; printers take what "
                    "`grid.bind_grid` makes of a kernel"
                )
            case _:
                _unknown(s, self.machine.name)

    def operation(self, s: Op) -> str:
        args, source = [self.operand(a) for a in s.args], s.args[-1].dtype
        for dtype in (s.out.dtype, *[a.dtype for a in s.args]):
            self.program.uses.add(dtype)
        known = [a.value if isinstance(a, Const) and not isinstance(a.value, Dim) else None for a in s.args]
        try:
            if OPS[s.op].math and not self.emit.spells(s.op, source):
                name, t = self.program.function(s.op, source), llvm_type(source, 1)
                return self.line(f"call {t} @{name}({', '.join(f'{t} {a}' for a in args)})")
            return scalar_op(self.emit, s.op, s.out.dtype, args, [a.dtype for a in s.args], 1, known, self.exact)
        except UnsupportedError as error:
            error.at(s.location)
            raise

    def atomic(self, s: Atomic) -> None:
        """Integers in one instruction where there is one, everything else by compare and exchange."""
        dtype = s.buffer.dtype
        t, bits = self.stored_type(dtype), BITS[dtype]
        pointer, at, value = self.pointer(s.buffer), self.address(s.buffer, s.index), self.operand(s.value)
        scope = f"{self.machine.scope} monotonic".strip()
        if not is_float(dtype) and s.op in ("add", "min", "max", "and", "or", "xor") and bits >= 32:
            op = f"u{s.op}" if s.op in ("min", "max") and not is_signed(dtype) else s.op
            self.line(f"atomicrmw {op} {pointer} {at}, {t} {value} {scope}")
            return
        if bits < 32:
            raise UnsupportedError(f"{self.machine.name} has no atomic {s.op} on {dtype}")
        word = f"i{bits}"
        first = self.line(f"load atomic {word}, {pointer} {at} {scope}, align {bits // 8}")
        before, (again, after) = self.label, (self.fresh("again"), self.fresh("after"))
        self.do(f"br label %{again}")
        self.place(again)
        seen = self.line("phi")
        slot = len(self.lines) - 1
        old = self.line(f"bitcast {word} {seen} to {t}") if is_float(dtype) else seen
        new = scalar_op(self.emit, s.op, dtype, [old, value], [dtype, dtype], 1, [None, None])
        new = self.line(f"bitcast {t} {new} to {word}") if is_float(dtype) else new
        pair = self.line(f"cmpxchg {pointer} {at}, {word} {seen}, {word} {new} {scope} monotonic")
        found, done = (self.line(f"extractvalue {{ {word}, i1 }} {pair}, {n}") for n in (0, 1))
        self.lines[slot] = f"  {seen} = phi {word} [ {first}, %{before} ], [ {found}, %{self.label} ]"
        self.do(f"br i1 {done}, label %{after}, label %{again}")
        self.place(after)

    # Loops and branches

    def phis(self, params: Sequence[tuple[str, str, str]]) -> tuple[list[str], Callable[[Sequence[str]], None]]:
        """Registers of what is carried through a loop whose header begins here, (type, first value, from where) each,
        and what completes them once the next values are known, at the end of the loop.
        """
        registers = [self.line("phi") for _ in params]
        first = len(self.lines) - len(params)

        def complete(values: Sequence[str]) -> None:
            for n, ((t, init, before), register, value) in enumerate(zip(params, registers, values, strict=True)):
                self.lines[first + n] = f"  {register} = phi {t} [ {init}, %{before} ], [ {value}, %{self.label} ]"

        return registers, complete

    def counted(self, lower: str, upper: str, step: int, body: Callable[[str], None]) -> None:
        """`body(index)` for a range without carries."""
        self.ranged(lower, upper, str(step), [], lambda index, _: (body(index), [])[1])

    def ranged(
        self,
        lower: str,
        upper: str,
        step: str,
        carries: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], Sequence[str]],
    ) -> list[str]:
        """A range with carries, (type, first value) each, of which `body` gives the next values; the last ones."""
        head, inside, after = (self.fresh(x) for x in ("loop", "body", "done"))
        before = self.label
        self.do(f"br label %{head}")
        self.place(head)
        (index, *values), complete = self.phis([("i64", lower, before), *[(t, x, before) for t, x in carries]])
        test = self.line(f"icmp slt i64 {index}, {upper}")
        self.do(f"br i1 {test}, label %{inside}, label %{after}")
        self.place(inside)
        following = body(index, values)
        complete([self.line(f"add i64 {index}, {step}"), *following])
        self.do(f"br label %{head}")
        self.place(after)
        return values

    def loop(self, s: For) -> None:
        kind = s.axis.kind
        if kind in ("grid", "block"):
            if s.params or s.step != 1:
                raise UnsupportedError(
                    f"{self.machine.name} cannot run a {kind} loop with carries or a step; bind it with backends.grid"
                )
            (self.grid_loop if kind == "grid" else self.block_loop)(s)
            return

        def body(index: str, values: list[str]) -> list[str]:
            self.names[s.index] = index
            self.names.update(zip(s.params, values, strict=True))
            self.block(s.body)
            return [self.operand(y) for y in s.yields]

        carries = [(self.type_of(p.dtype), self.operand(i)) for p, i in zip(s.params, s.inits, strict=True)]
        last = self.ranged(self.operand(s.lower), self.operand(s.upper), str(s.step), carries, body)
        self.names.update(zip(s.results, last, strict=True))

    def run(self, s: For, index: str) -> None:
        """The body of a loop in one iteration."""
        self.names[s.index] = index
        self.block(s.body)

    def when(self, test: str, body: Callable[[], None]) -> None:
        inside, after = self.fresh("then"), self.fresh("done")
        self.do(f"br i1 {test}, label %{inside}, label %{after}")
        self.place(inside)
        body()
        self.do(f"br label %{after}")
        self.place(after)

    def first_index(self, s: For, thread: str) -> str:
        """The index of the iteration that a thread begins with."""
        return self.index("add", self.operand(s.lower), self.thread(thread))

    def block_loop(self, s: For) -> None:
        """Iterations shared by the work-items of a group; one each, without a loop, where there are as many."""
        first, count, upper = self.first_index(s, "lane_id"), iterations_of(s), self.operand(s.upper)
        if count is None or count > self.group:
            self.counted(first, upper, self.group, lambda index: self.run(s, index))
        elif count == self.group:
            self.run(s, first)
        else:
            self.when(self.line(f"icmp slt i64 {first}, {upper}"), lambda: self.run(s, first))

    def grid_loop(self, s: For) -> None:
        """One iteration in each group, or in each work-item that has one: the last group may reach beyond the loop."""
        if any(isinstance(x, For) and x.axis.kind == "block" for x in walk(s.body)):
            self.run(s, self.first_index(s, "group_id"))
            return
        if s.axis.width > 1:
            self.packed_loop(s)
            return
        first, count, upper = self.first_index(s, "global_id"), iterations_of(s), self.operand(s.upper)
        if isinstance(s.upper, Value):  # how many iterations there are was not known at the launch
            self.ranged(first, upper, self.thread("global_size"), [], lambda index, _: (self.run(s, index), [])[1])
        elif count is not None and count % self.group == 0:
            self.run(s, first)
        else:
            self.when(self.line(f"icmp slt i64 {first}, {upper}"), lambda: self.run(s, first))

    def packed_loop(self, s: For) -> None:
        """As many neighbouring iterations in each work-item as the loop is wide, with one access of memory for each
        array; the last iterations one by one where their number is no multiple of that.
        """
        width, upper, count = s.axis.width, self.operand(s.upper), iterations_of(s)
        first = self.index("mul", self.thread("global_id"), str(width))
        whole, full = (count is not None and count % n == 0 for n in (width, width * self.group))
        if full:
            self.neighbours(s, first)
            return
        fits = self.line(f"icmp sle i64 {self.index('add', first, str(width))}, {upper}")
        if whole:
            self.when(fits, lambda: self.neighbours(s, first))
            return
        inside, rest, after = (self.fresh(x) for x in ("then", "else", "done"))
        self.do(f"br i1 {fits}, label %{inside}, label %{rest}")
        self.place(inside)
        self.neighbours(s, first)
        self.do(f"br label %{after}")
        self.place(rest)
        self.counted(first, upper, 1, lambda index: self.run(s, index))
        self.do(f"br label %{after}")
        self.place(after)

    def neighbours(self, s: For, first: str) -> None:
        """Iterations i, i + 1, ... of a packed loop: all loads, what is computed for each, all stores."""
        width = s.axis.width

        def whole(buffer: Buffer) -> tuple[str, str, str]:
            """(type of the elements that are taken at once, their place, its type and alignment)"""
            t = self.stored_type(buffer.dtype)
            at = self.line(f"getelementptr {t}, {self.pointer(buffer)} {self.buffers[buffer]}, i64 {first}")
            alignment = width * numpy_dtype(buffer.dtype).itemsize
            return f"<{width} x {t}>", f"{self.pointer(buffer)} {at}", f"align {alignment}"

        taken: dict[Buffer, str] = {}
        for x in s.body:
            if isinstance(x, Load) and neighbours(x, s) and x.buffer not in taken:
                kind, at, alignment = whole(x.buffer)
                taken[x.buffer] = self.line(f"load {kind}, {at}, {alignment}")
        stores = [x for x in s.body if isinstance(x, Store)]
        given: dict[Store, str] = dict.fromkeys(stores, "poison")
        for lane in range(width):
            self.names[s.index] = self.index("add", first, str(lane))
            for x in s.body:
                if isinstance(x, Load) and neighbours(x, s):
                    kind = f"<{width} x {self.stored_type(x.buffer.dtype)}>"
                    found = self.line(f"extractelement {kind} {taken[x.buffer]}, i32 {lane}")
                    self.names[x.out] = self.in_register(x.buffer.dtype, found)
                elif isinstance(x, Store):
                    t = self.stored_type(x.buffer.dtype)
                    value = self.in_memory(x.buffer.dtype, self.operand(x.value))
                    given[x] = self.line(f"insertelement <{width} x {t}> {given[x]}, {t} {value}, i32 {lane}")
                else:
                    self.statement(x)
        for x in stores:
            kind, at, alignment = whole(x.buffer)
            self.do(f"store {kind} {given[x]}, {at}, {alignment}")

    def while_loop(self, s: While) -> None:
        head, inside, after = (self.fresh(x) for x in ("while", "body", "done"))
        inits, before = [self.operand(i) for i in s.inits], self.label
        self.do(f"br label %{head}")
        self.place(head)
        carried = [(self.type_of(p.dtype), x, before) for p, x in zip(s.params, inits, strict=True)]
        values, complete = self.phis(carried)
        self.names.update(zip(s.params, values, strict=True))
        self.block(s.condition)
        self.do(f"br i1 {self.operand(s.test)}, label %{inside}, label %{after}")
        self.place(inside)
        self.block(s.body)
        complete([self.operand(y) for y in s.yields])
        self.do(f"br label %{head}")
        self.place(after)
        self.names.update(zip(s.results, values, strict=True))

    def branch(self, s: If) -> None:
        inside, other, after = (self.fresh(x) for x in ("then", "else", "done"))
        self.do(f"br i1 {self.operand(s.condition)}, label %{inside}, label %{other}")
        ends: list[tuple[str, list[str]]] = []
        for label, body, yields in ((inside, s.then, s.then_yields), (other, s.orelse, s.else_yields)):
            self.place(label)
            self.block(body)
            ends.append((self.label, [self.operand(y) for y in yields]))
            self.do(f"br label %{after}")
        self.place(after)
        (then, ours), (orelse, theirs) = ends
        for result, a, b in zip(s.results, ours, theirs, strict=True):
            t = self.type_of(result.dtype)
            self.names[result] = self.line(f"phi {t} [ {a}, %{then} ], [ {b}, %{orelse} ]")


def _unknown(s: Never, language: str) -> NoReturn:
    """(A type checker shows a statement that `_Writer.statement` leaves out.)"""
    raise InternalError(f"{language} has no {type(s).__name__}")
