"""Prints device kernels as SPIR-V text.

A kernel is an entry point.  A launch passes it its arguments, 64-bit words in the order of `printing.arguments_of`, and
the number of its groups: these lie in two dimensions where a device has not enough of them along one, and what is too
many does nothing.  Buffers are addresses, and elements are reached by arithmetic on those.

As in `c_like`, an iteration of a grid loop is one group where it contains block loops, which the work-items of the
group share, and one work-item where it does not; mathematical functions are functions of the other operations, written
once a program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Never, NoReturn

import numpy as np

from tracejit.backends.intrinsics import intrinsics_of
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
from tracejit.backends.vulkan.formulas import formula
from tracejit.backends.vulkan.module import Function, Module, kind_of
from tracejit.backends.vulkan.scalar import SPELLINGS, Call, Scalars
from tracejit.backends.vulkan.target import ARGUMENTS, DIRECT, GROUPS, Capabilities
from tracejit.ir.builder import extent_function
from tracejit.ir.extents import Dim, Extent, prod
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
    index_const,
    walk,
)
from tracejit.ir.scalar import BITS, OPS, is_float, is_signed, numpy_dtype, poison_value
from tracejit.support.config import config
from tracejit.support.errors import InternalError, UnsupportedError
from tracejit.support.nodes import evolve

__all__ = ["print_kernels"]

_QUEUE_FAMILY, _WORKGROUP, _RELAXED = 5, 2, 0  # scopes, and memory semantics of an atomic
_GROUP_SEES = 0x8 | 0x40 | 0x100 | 0x2000 | 0x4000
"""Memory semantics of a barrier: acquire and release, of buffers and of shared memory, made available and visible."""
_VECTOR = 4  # the most components of a vector
_ATOMICS = {
    "add": ("IAdd", "IAdd"), "min": ("SMin", "UMin"), "max": ("SMax", "UMax"), "and": ("And", "And"),
    "or": ("Or", "Or"), "xor": ("Xor", "Xor"),
}  # fmt: skip


def print_kernels(kernels: Sequence[tuple[Kernel, int]], capabilities: Capabilities) -> Printed:
    """Print kernels from `grid.bind_grid`, each with the number of work-items a group it will be launched with, as one
    module.

    Raises: UnsupportedError where an operation has no spelling, or an array of a kernel's own no constant shape.
    """
    module = Module(capabilities)
    entries = [_Writer.of_kernel(module, kernel, group) for kernel, group in kernels]
    return Printed(module.text(), tuple(entries), frozenset(module.uses))


class _Writer(Scalars):
    """Prints one function; `group` is how many work-items a group of the launch has."""

    def __init__(self, function: Function, group: int = 1) -> None:
        super().__init__(function)
        self.module = function.module
        self.group = group
        self.names: dict[Value, str] = {}
        self.extents: dict[Dim, str] = {}
        self.places: dict[Buffer, str] = {}  # addresses, or variables
        self.strides: dict[Buffer, tuple[str, list[str]]] = {}  # offset and byte strides
        self.positive: set[Operand] = set()  # extents that others are divided by
        self.groups = self.group_id = self.lane = ""
        self.dims: dict[str, str] = {}
        self.variables: list[str] = []
        self.shared = 0  # bytes
        self.private = True  # no work-item reads what another one of its group has written

    # Functions

    @classmethod
    def of_lambda(cls, module: Module, name: str, body: Lambda, dtype: str, tolerant: bool = False) -> None:
        """A function of scalars with one result."""
        module.functions[name] = []  # functions that this one calls come after it
        writer = cls(Function(module, name, kind_of(dtype), [kind_of(p.dtype) for p in body.params]))
        writer.tolerant = tolerant
        writer.names.update(zip(body.params, writer.function.params, strict=True))
        writer.uses(*[p.dtype for p in body.params])
        writer.statements(body.body)
        module.functions[name] = writer.function.end(writer.handed_on(body.results[0]))

    @classmethod
    def of_kernel(cls, module: Module, kernel: Kernel, group: int) -> EntryPoint:
        name = stem = "kernel_" + re.sub(r"\W", "_", kernel.name, flags=re.ASCII)
        while name in module.functions:
            name = f"{stem}_{len(module.functions)}"
        module.functions[name] = []
        writer = cls(Function(module, name, "void"), group)
        writer.kernel(kernel)
        module.functions[name] = writer.function.end()
        module.entries.append(f'OpEntryPoint GLCompute %{name} "{name}" {" ".join(writer.variables)}')
        module.modes.append(f"OpExecutionMode %{name} LocalSize {group} 1 1")
        for mode, widths in (
            ("SignedZeroInfNanPreserve", module.capabilities.preserve),
            ("RoundingModeRTE", module.capabilities.nearest),
            ("DenormPreserve", module.capabilities.denormals),
        ):
            for bits in sorted(widths):
                module.needs[mode] = None
                module.modes.append(f"OpExecutionMode %{name} {mode} {bits}")
        return EntryPoint(name, arguments_of(kernel))

    def kernel(self, kernel: Kernel) -> None:
        f = self.function
        self.private = not any(isinstance(s, Barrier) for s in walk(kernel.body))
        self.launch()
        with f.where(f.emit("OpULessThan", "bool", self.group_id, self.groups)):
            self.arguments(kernel)
            self.name_extents(extents_of(kernel.body))
            self.statements(kernel.body)

    def launch(self) -> None:
        """The number of this group, and of this work-item in it."""
        f, m = self.function, self.module
        built_in = {name: m.built_in(name) for name in ("WorkgroupId", "NumWorkgroups", "LocalInvocationIndex")}
        self.variables += [m.push_constants(), *built_in.values()]
        self.groups = f.pushed(GROUPS)
        at, count = (f.emit("OpLoad", "u32x3", built_in[name]) for name in ("WorkgroupId", "NumWorkgroups"))
        x, y = (f.emit("OpCompositeExtract", "u32", at, axis) for axis in "01")
        row = f.emit("OpIMul", "u32", y, f.emit("OpCompositeExtract", "u32", count, "0"))
        self.group_id = f.emit("OpUConvert", "u64", f.emit("OpIAdd", "u32", row, x))
        lane = f.emit("OpLoad", "u32", built_in["LocalInvocationIndex"])
        self.lane = f.emit("OpUConvert", "u64", lane)

    def words(self, count: int) -> list[str]:
        """The arguments: passed directly, or in memory where there are many."""
        f = self.function
        if count <= DIRECT:
            return [f.pushed(ARGUMENTS + n) for n in range(count)]
        block = f.pushed(ARGUMENTS)
        places = [f.emit("OpIAdd", "u64", block, f.number(8 * n, "u64")) for n in range(count)]
        pointers = [f.emit_pointer("OpConvertUToPtr", "PhysicalStorageBuffer", "u64", place) for place in places]
        return [f.emit("OpLoad", "u64", pointer, "Aligned", "8") for pointer in pointers]

    def arguments(self, kernel: Kernel) -> None:
        buffers = {b.name: b for b in kernel.buffers}
        arguments = arguments_of(kernel)
        for a, word in zip(arguments, self.words(len(arguments)), strict=True):
            match a.kind:
                case "buffer":
                    self.places[buffers[a.name]] = word
                    self.uses(buffers[a.name].dtype)
                case "offset":
                    self.strides[buffers[a.name]] = word, []
                case "stride":
                    self.strides[buffers[a.name]][1].append(word)
                case _:
                    self.dims[a.name] = word

    def name_extents(self, extents: Sequence[Dim]) -> None:
        symbols, function = extent_function(*extents)
        self.names.update(zip(function.params, [self.dims[s] for s in symbols], strict=True))
        self.positive.update([s.args[1] for s in function.body if isinstance(s, Op) and s.op in ("idiv", "irem")])
        self.statements(function.body)
        self.extents.update(zip(extents, map(self.operand, function.results), strict=True))

    def uses(self, *dtypes: str) -> None:
        self.module.uses.update(dtypes)

    # Operands and memory

    def operand(self, x: Operand) -> str:
        if isinstance(x, Value):
            return self.names[x]
        return self.extent(x.value) if isinstance(x.value, Dim) else self.literal(x.value, x.dtype)

    def handed_on(self, x: Operand) -> str:
        """An operand that takes another name: note [zeros]."""
        return self.unseen(self.operand(x), x.dtype)

    def literal(self, value: Any, dtype: str) -> str:
        """A constant, exact for every value of its dtype."""
        self.uses(dtype)
        with np.errstate(all="ignore"):
            scalar = np.asarray(value).astype(numpy_dtype(dtype))[()]
        return self.number(scalar, dtype)

    def extent(self, n: Extent) -> str:
        return self.extents[n] if isinstance(n, Dim) else self.number(n, "i64")

    def define(self, value: Value, name: str) -> None:
        self.uses(value.dtype)
        self.names[value] = name

    def array(self, buffer: Buffer) -> None:
        """Memory of constant shape that the kernel has to itself."""
        size = prod(buffer.shape)
        if isinstance(size, Dim):
            raise UnsupportedError(f"an array in {buffer.space} memory needs a constant shape, not {buffer.shape}")
        self.uses(buffer.dtype)
        kind = kind_of(buffer.dtype, stored=True)
        if buffer.space == "shared":
            if buffer in self.places:
                return
            self.shared += max(1, size) * BITS[buffer.dtype] // 8
            if self.shared > self.capabilities.shared:
                raise UnsupportedError(
                    f"a group needs {self.shared} bytes of shared memory, and has {self.capabilities.shared}"
                )
            pointer, name = self.module.array("Workgroup", kind, max(1, size)), self.module.fresh()
            self.places[buffer] = self.module.declare(name, f"OpVariable {pointer} Workgroup")
            self.variables.append(name)
            return
        own_memory(buffer, "SPIR-V")
        if buffer not in self.places:
            self.places[buffer] = self.function.variable(self.module.array("Function", kind, max(1, size)))
        if config.poison:
            index, poison = Value("i64"), Const(poison_value(buffer.dtype), buffer.dtype)
            flat = evolve(buffer, shape=(size,))
            self.places[flat] = self.places[buffer]
            self.loop(For(index, index_const(0), index_const(size), (Store(flat, (index,), poison),)))

    def pointer(self, buffer: Buffer, index: tuple[Operand, ...], kind: str = "") -> tuple[str, list[str]]:
        """(a pointer to an element, taken as of another kind, and how it is accessed)"""
        f, kind = self.function, kind or kind_of(buffer.dtype, stored=True)
        if len(index) != len(buffer.shape):
            raise InternalError(f"buffer {buffer.name} of rank {len(buffer.shape)} indexed with {len(index)} operands")
        private = [] if self.private else ["NonPrivatePointer"]
        if buffer.space != "global":
            if buffer not in self.places:
                self.array(buffer)
            space = "Workgroup" if buffer.space == "shared" else "Function"
            at = f.emit("OpUConvert", "u32", self.linear(buffer, index))
            found = f.emit_pointer("OpAccessChain", space, kind, self.places[buffer], at)
            return found, private if space == "Workgroup" else []
        size = numpy_dtype(buffer.dtype).itemsize
        place = f.emit("OpIAdd", "u64", self.places[buffer], self.distance(buffer, index, size))
        access = ["|".join(["Aligned", *private]), str(size)]
        return f.emit_pointer("OpConvertUToPtr", "PhysicalStorageBuffer", kind, place), access

    def linear(self, buffer: Buffer, index: tuple[Operand, ...]) -> str:
        """The number of a row-major element."""
        if not index:
            return self.number(0, "i64")
        f, at = self.function, self.operand(index[0])
        for i, n in zip(index[1:], buffer.shape[1:], strict=True):
            at = f.emit("OpIAdd", "u64", f.emit("OpIMul", "u64", at, self.extent(n)), self.operand(i))
        return at

    def distance(self, buffer: Buffer, index: tuple[Operand, ...], size: int) -> str:
        """Bytes from the beginning of a buffer."""
        f = self.function
        if buffer.layout == "C":
            return f.emit("OpIMul", "u64", self.linear(buffer, index), self.number(size, "i64"))
        at, strides = self.strides[buffer]
        steps = [*strides, self.number(size, "i64")] if buffer.layout == "unit" else strides
        for i, step in zip(index, steps, strict=True):
            at = f.emit("OpIAdd", "u64", at, f.emit("OpIMul", "u64", self.operand(i), step))
        return at

    def load(self, s: Load) -> str:
        """A register value out of memory."""
        pointer, access = self.pointer(s.buffer, s.index)
        found = self.function.emit("OpLoad", kind_of(s.buffer.dtype, stored=True), pointer, *access)
        return self.loaded(s.buffer.dtype, found)

    def loaded(self, dtype: str, x: str) -> str:
        """The register value of what memory holds: f16 is widened, a bool byte tested."""
        match dtype:
            case "f16":
                return self.formula("tj_widen_f16", "f16", x)
            case "bool":
                return self.compare("ne", x, self.number(0, "u8"), "u8")
            case _:
                return x

    def store(self, s: Store) -> None:
        value = self.stored(s.buffer.dtype, self.operand(s.value))
        pointer, access = self.pointer(s.buffer, s.index)
        self.function.line(" ".join(["OpStore", pointer, value, *access]))

    def stored(self, dtype: str, x: str) -> str:
        """What is written to memory for a register value."""
        match dtype:
            case "f16":
                return self.formula("tj_narrow_f16", "u16", x)
            case "bool":
                return self.select(x, self.number(1, "u8"), self.number(0, "u8"), "u8")
            case _:
                return x

    # Operations

    def formula(self, name: str, dtype: str, *operands: str) -> str:
        return self.call(name, dtype, operands, lambda: formula(name))

    def call(
        self, name: str, dtype: str, operands: Sequence[str], body: Callable[[], Lambda], tolerant: bool = False
    ) -> str:
        """A call of a function, which is printed at its first use."""
        if name not in self.module.functions:
            _Writer.of_lambda(self.module, name, body(), dtype, tolerant)
        return self.function.emit("OpFunctionCall", kind_of(dtype), f"%{name}", *operands)

    def op(self, s: Op) -> str:
        args, source, out = [self.operand(a) for a in s.args], s.args[-1].dtype, s.out.dtype
        self.uses(source, out)
        own = intrinsics_of("vulkan").get(f"{s.op}.{source}")
        if own is not None:
            return self.rounded(self.from_template(str(own), source, out, args), out)
        if s.op in SPELLINGS:
            safe = _is_safe(s) or (s.op in ("idiv", "irem") and s.args[1] in self.positive)
            return self.operation(Call(s.op, source, out, args, safe))
        if not OPS[s.op].math:
            raise UnsupportedError(f"SPIR-V has no spelling of {s.op} on {source}", location=s.location)
        try:
            args = [self.handed_on(a) for a in s.args]
            tolerant = s.op != "fmod"  # which takes multiples of one number from another, however large
            return self.call(f"tj_{s.op}_{source}", out, args, lambda: expansion(s.op, source), tolerant)
        except UnsupportedError as error:
            error.at(s.location)
            raise

    def from_template(self, template: str, source: str, out: str, args: Sequence[str]) -> str:
        """A user's spelling, which `register_intrinsic` has checked: `backends.intrinsics` has the grammar."""
        names = {"type": self.module.type(kind_of(source)), "result": self.module.type(kind_of(out))}
        register = ""
        for line in template.strip().splitlines():
            target, equals, instruction = line.strip().partition(" = ")
            register = self.module.fresh()
            self.function.line(f"{register} = {(instruction if equals else target).format(*args, **names)}")
            if equals:
                names[target] = register
        return register

    # Statements

    def statements(self, body: Block) -> None:
        for s in body:
            self.statement(s)

    def statement(self, s: Statement) -> None:
        match s:
            case Op():
                self.define(s.out, self.op(s))
            case Load():
                self.define(s.out, self.load(s))
            case Store():
                self.store(s)
            case Alloc():
                self.array(s.buffer)
            case For():
                self.any_loop(s)
            case While():
                self.while_loop(s)
            case If():
                self.branch(s)
            case Atomic():
                self.atomic(s)
            case Barrier():
                scope, semantics = self.function.number(_WORKGROUP, "u32"), self.function.number(_GROUP_SEES, "u32")
                self.function.line(f"OpControlBarrier {scope} {scope} {semantics}")
            case Read() | Prefix():
                raise InternalError(
                    f"a {type(s).__name__} statement cannot be printed as SPIR-V; printers take what "
                    "`grid.bind_grid` makes of a kernel"
                )
            case _:
                _unknown(s)

    def any_loop(self, s: For) -> None:
        kind = s.axis.kind
        if kind not in ("grid", "block"):
            self.loop(s)
            return
        if s.params or s.step != 1:
            raise UnsupportedError(
                f"SPIR-V cannot run a {kind} loop with carries or a step; bind it with backends.grid"
            )
        (self.grid_loop if kind == "grid" else self.block_loop)(s)

    def loop(self, s: For) -> None:
        """Iterations in order."""
        control = "Unroll" if s.axis.kind == "unroll" else "None"
        self.counted(s, self.operand(s.lower), self.operand(s.upper), self.number(s.step, "i64"), control)

    def counted(self, s: For, lower: str, upper: str, step: str, control: str = "None") -> None:
        f = self.function
        kinds = ["u64", *[kind_of(p.dtype) for p in s.params]]
        loop = f.loop(kinds, [lower, *map(self.handed_on, s.inits)], control)
        self.define(s.index, loop.carried[0])
        for p, name in zip(s.params, loop.carried[1:], strict=True):
            self.define(p, name)
        loop.leave_unless(self.compare("lt", loop.carried[0], upper, "i64"))
        self.statements(s.body)
        yields = [self.handed_on(y) for y in s.yields]
        loop.to_next()
        loop.again([f.emit("OpIAdd", "u64", loop.carried[0], step), *yields])
        self.names.update(zip(s.results, loop.carried[1:], strict=True))

    def while_loop(self, s: While) -> None:
        loop = self.function.loop([kind_of(p.dtype) for p in s.params], [self.handed_on(x) for x in s.inits])
        for p, name in zip(s.params, loop.carried, strict=True):
            self.define(p, name)
        self.statements(s.condition)
        loop.leave_unless(self.operand(s.test))
        self.statements(s.body)
        loop.again([self.handed_on(y) for y in s.yields])
        self.names.update(zip(s.results, loop.carried, strict=True))

    def branch(self, s: If) -> None:
        f, fresh = self.function, self.module.fresh
        then, orelse, merge = fresh(), fresh(), fresh()
        f.line(f"OpSelectionMerge {merge} None")
        f.line(f"OpBranchConditional {self.operand(s.condition)} {then} {orelse}")
        sources: list[tuple[list[str], str]] = []
        for label, body, yields in ((then, s.then, s.then_yields), (orelse, s.orelse, s.else_yields)):
            f.begin(label)
            self.statements(body)
            sources.append(([self.handed_on(y) for y in yields], f.block))
            f.branch(merge)
        f.begin(merge)
        (yes, from_then), (no, from_else) = sources
        for result, x, y in zip(s.results, yes, no, strict=True):
            self.define(result, f.phi(kind_of(result.dtype), (x, from_then), (y, from_else)))

    def first(self, s: For, thread: str) -> str:
        """The first index of a loop whose iterations are given out by thread id."""
        if s.lower == Const(0, "i64"):
            return thread
        return self.function.emit("OpIAdd", "u64", self.operand(s.lower), thread)

    def body(self, s: For, index: str, tested: bool = True) -> None:
        """One iteration, where there is one."""
        self.define(s.index, index)
        if not tested:
            self.statements(s.body)
            return
        with self.function.where(self.compare("lt", index, self.operand(s.upper), "i64")):
            self.statements(s.body)

    def block_loop(self, s: For) -> None:
        """Iterations shared by the work-items of a group; one each, without a loop, where there are as many."""
        start, count = self.first(s, self.lane), iterations_of(s)
        if count is None or count > self.group:
            self.counted(s, start, self.operand(s.upper), self.number(self.group, "i64"))
        else:
            self.body(s, start, tested=count != self.group)

    def grid_loop(self, s: For) -> None:
        """One iteration in each group, or in each work-item that has one: the last group may reach beyond the loop."""
        f = self.function
        if any(isinstance(x, For) and x.axis.kind == "block" for x in walk(s.body)):
            self.body(s, self.first(s, self.group_id), tested=False)
            return
        group = self.number(self.group, "i64")
        item = f.emit("OpIAdd", "u64", f.emit("OpIMul", "u64", self.group_id, group), self.lane)
        count = iterations_of(s)
        if s.axis.width > 1:
            self.packed_loop(s, item)
        elif isinstance(s.upper, Value):  # how many iterations there are was not known at the launch
            items = f.emit("OpIMul", "u64", self.groups, group)
            self.counted(s, self.first(s, item), self.operand(s.upper), items)
        else:
            self.body(s, self.first(s, item), tested=count is None or count % self.group != 0)

    def packed_loop(self, s: For, item: str) -> None:
        """As many neighbouring iterations in each work-item as the loop is wide; the last ones one by one where their
        number is no multiple of that.
        """
        f, width, count = self.function, s.axis.width, iterations_of(s)
        first, upper = f.emit("OpIMul", "u64", item, self.number(width, "i64")), self.operand(s.upper)
        if count is not None and count % (width * self.group) == 0:
            self.neighbours(s, first)
            return
        last = f.emit("OpIAdd", "u64", first, self.number(width - 1, "i64"))
        whole = self.compare("lt", last, upper, "i64")
        with f.where(whole):
            self.neighbours(s, first)
        if count is None or count % width:
            with f.where(f.emit("OpLogicalNot", "bool", whole)):
                self.counted(s, first, upper, self.number(1, "i64"))

    def neighbours(self, s: For, first: str) -> None:
        """Iterations i, i + 1, ... of a packed loop: all loads, what is computed for each, all stores; several elements
        of an array at once.
        """
        f, width = self.function, s.axis.width
        taken: dict[Buffer, list[str]] = {}
        for x in s.body:
            if isinstance(x, Load) and neighbours(x, s) and x.buffer not in taken:
                taken[x.buffer] = self.load_several(x.buffer, first, width)
        given: dict[Store, list[str]] = {x: [] for x in s.body if isinstance(x, Store)}
        for lane in range(width):
            self.define(s.index, f.emit("OpIAdd", "u64", first, self.number(lane, "i64")) if lane else first)
            for x in s.body:
                if isinstance(x, Load) and neighbours(x, s):
                    self.define(x.out, self.loaded(x.buffer.dtype, taken[x.buffer][lane]))
                elif isinstance(x, Store):
                    given[x].append(self.stored(x.buffer.dtype, self.operand(x.value)))
                else:
                    self.statement(x)
        for x, elements in given.items():
            self.store_several(x.buffer, first, elements)

    def load_several(self, buffer: Buffer, first: str, width: int) -> list[str]:
        """Elements first, first + 1, ... of a row-major array, as memory holds them."""
        f, unit = self.function, _Unit(buffer.dtype, width)
        found: list[str] = []
        for part in range(0, width, unit.elements * unit.count):
            pointer, access = self.several(buffer, first, part, unit)
            words = [f.emit("OpLoad", unit.whole, pointer, *access)]
            if unit.count > 1:
                words = [f.emit("OpCompositeExtract", unit.kind, words[0], str(n)) for n in range(unit.count)]
            for word in words:
                if unit.elements == 1:
                    found.append(word)
                    continue
                vector = f.emit("OpBitcast", unit.vector, word)
                found += [f.emit("OpCompositeExtract", unit.element, vector, str(n)) for n in range(unit.elements)]
        return found

    def store_several(self, buffer: Buffer, first: str, elements: Sequence[str]) -> None:
        f, unit = self.function, _Unit(buffer.dtype, len(elements))
        for part in range(0, len(elements), unit.elements * unit.count):
            words: list[str] = []
            for n in range(part, part + unit.elements * unit.count, unit.elements):
                word = elements[n]
                if unit.elements > 1:
                    vector = f.emit("OpCompositeConstruct", unit.vector, *elements[n : n + unit.elements])
                    word = f.emit("OpBitcast", unit.kind, vector)
                words.append(word)
            value = f.emit("OpCompositeConstruct", unit.whole, *words) if unit.count > 1 else words[0]
            pointer, access = self.several(buffer, first, part, unit)
            f.line(" ".join(["OpStore", pointer, value, *access]))

    def several(self, buffer: Buffer, first: str, part: int, unit: _Unit) -> tuple[str, list[str]]:
        """(a pointer to elements first + part, ... of a row-major array, how it is accessed)"""
        f, size = self.function, numpy_dtype(buffer.dtype).itemsize
        begin = f.emit("OpIMul", "u64", first, self.number(size, "i64"))
        if part:
            begin = f.emit("OpIAdd", "u64", begin, self.number(size * part, "i64"))
        place = f.emit("OpIAdd", "u64", self.places[buffer], begin)
        access = ["Aligned" if self.private else "Aligned|NonPrivatePointer", str(size * unit.elements * unit.count)]
        return f.emit_pointer("OpConvertUToPtr", "PhysicalStorageBuffer", unit.whole, place), access

    # Atomics

    def atomic(self, s: Atomic) -> None:
        """By the device's own instruction where there is one, by compare-and-swap where not."""
        dtype, shared = s.buffer.dtype, s.buffer.space == "shared"
        have = self.capabilities.shared64 if shared else self.capabilities.atomics64
        if BITS[dtype] < 32 or (BITS[dtype] == 64 and not have):
            raise UnsupportedError(f"the device has no atomic {s.op} of {dtype} in {s.buffer.space} memory")
        if BITS[dtype] == 64:
            self.module.needs["Int64Atomics"] = None
        f, kind = self.function, f"u{BITS[dtype]}"
        value = self.operand(s.value)
        pointer, _ = self.pointer(s.buffer, s.index, kind)
        scope, semantics = f.number(_QUEUE_FAMILY, "u32"), f.number(_RELAXED, "u32")
        if not is_float(dtype) and s.op in _ATOMICS:
            name = _ATOMICS[s.op][0 if is_signed(dtype) else 1]
            f.emit(f"OpAtomic{name}", kind, pointer, scope, semantics, value)
            return
        before = f.emit("OpAtomicLoad", kind, pointer, scope, semantics)
        loop = f.loop([kind], [before])
        (seen,) = loop.carried
        element, out = Value(dtype), Value(dtype)
        self.define(element, f.emit("OpBitcast", dtype, seen) if is_float(dtype) else seen)
        self.statement(Op(out, s.op, (element, s.value)))
        after = f.emit("OpBitcast", kind, self.names[out]) if is_float(dtype) else self.names[out]
        found = f.emit("OpAtomicCompareExchange", kind, pointer, scope, semantics, semantics, after, seen)
        loop.leave_unless(f.emit("OpINotEqual", "bool", found, seen))
        loop.again([found])


class _Unit:
    """How neighbouring elements are accessed: `count` words at once, of `elements` each.

    Wide words, as lavapipe's accesses take the same time whatever their width is.
    """

    def __init__(self, dtype: str, width: int) -> None:
        self.element = kind_of(dtype, stored=True)
        bits = BITS[dtype]
        word = next((n for n in (64, 32) if n // bits in (1, 2, _VECTOR) and width * bits >= n), bits)
        self.elements = word // bits
        self.kind = self.element if self.elements == 1 else f"u{word}"
        self.vector = f"{self.element}x{self.elements}"
        self.count = min(_VECTOR, width // self.elements)
        self.whole = f"{self.kind}x{self.count}" if self.count > 1 else self.kind


def _unknown(s: Never) -> NoReturn:
    """(A type checker shows a statement that `_Writer.statement` leaves out.)"""
    raise InternalError(f"SPIR-V has no {type(s).__name__}")


def _is_safe(s: Op) -> bool:
    """Whether the second operand is a constant for which a division or shift needs no check."""
    if s.op not in ("idiv", "irem", "shl", "shr", "lshr") or not isinstance(s.args[1], Const):
        return False
    if isinstance(s.args[1].value, Dim):
        return False
    constant = int(s.args[1].value)
    return constant > 0 if s.op in ("idiv", "irem") else 0 <= constant < BITS[s.out.dtype]
