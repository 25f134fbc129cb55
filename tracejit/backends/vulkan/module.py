"""A SPIR-V module under construction: its declarations, each once, and functions of structured blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracejit.backends.vulkan.target import WORDS, ZERO, Capabilities
from tracejit.ir.scalar import BITS, numpy_dtype

__all__ = ["Function", "Module", "kind_of"]

_STORED = {"bool": "u8", "f16": "u16"}
_CAPABILITIES = {"u8": "Int8", "u16": "Int16", "u64": "Int64", "f64": "Float64"}
_BUILT_IN = {"NumWorkgroups": "u32x3", "WorkgroupId": "u32x3", "LocalInvocationIndex": "u32"}


def kind_of(dtype: str, stored: bool = False) -> str:
    """The type in which a dtype is held, in registers or in memory: integers have no sign, f16 is an f32 in registers,
    a bool a byte in memory.
    """
    if stored and dtype in _STORED:
        return _STORED[dtype]
    return "f32" if dtype == "f16" else f"u{BITS[dtype]}" if dtype[0] in "iu" else dtype


class Module:
    """Declarations are named by what they are, so that each is made once and equal kernels give equal text."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.uses: set[str] = set()
        self.functions: dict[str, list[str]] = {}
        self.entries: list[str] = []
        self.modes: list[str] = []
        self.needs: dict[str, None] = dict.fromkeys(["Shader", "VulkanMemoryModel", "PhysicalStorageBufferAddresses"])
        self._annotations: list[str] = []
        self._globals: dict[str, str] = {}
        self._count = 0

    def text(self) -> str:
        """The module as `assembly.assemble` takes it."""
        parts = [
            *[f"OpCapability {name}" for name in self.needs],
            '%glsl = OpExtInstImport "GLSL.std.450"',
            "OpMemoryModel PhysicalStorageBuffer64 Vulkan",
            *self.entries,
            *self.modes,
            *self._annotations,
            *self._globals.values(),
        ]
        for lines in self.functions.values():
            parts += ["", *lines]
        return "\n".join(parts) + "\n"

    def fresh(self) -> str:
        """An id that nothing has."""
        self._count += 1
        return f"%{self._count}"

    def declare(self, name: str, text: str, *annotations: str) -> str:
        """A type, constant or variable of the module, written at its first use."""
        if name not in self._globals:
            self._globals[name] = f"{name} = {text}"
            self._annotations += annotations
        return name

    def annotate(self, text: str) -> None:
        self._annotations.append(text)

    # Types

    def type(self, kind: str) -> str:
        """void, bool, a number, or several of them: "u32x3"."""
        name = f"%{kind}"
        if name in self._globals:
            return name
        if kind in ("void", "bool"):
            return self.declare(name, f"OpType{kind.capitalize()}")
        element, _, count = kind.partition("x")
        if count:
            return self.declare(name, f"OpTypeVector {self.type(element)} {count}")
        if kind in _CAPABILITIES:
            self.needs[_CAPABILITIES[kind]] = None
        return self.declare(name, f"OpTypeFloat {kind[1:]}" if kind[0] == "f" else f"OpTypeInt {kind[1:]} 0")

    def pointer(self, space: str, kind: str) -> str:
        """A pointer to a number, or to several, in a storage class."""
        bits = kind.partition("x")[0][1:]
        if space == "PhysicalStorageBuffer" and bits in ("8", "16"):
            self.needs[f"StorageBuffer{bits}BitAccess"] = None
        return self.declare(f"%{space}_{kind}", f"OpTypePointer {space} {self.type(kind)}")

    def array(self, space: str, kind: str, count: int) -> str:
        """A pointer to an array in a storage class."""
        array = self.declare(f"%{kind}_{count}s", f"OpTypeArray {self.type(kind)} {self.constant(count, 'u32')}")
        return self.declare(f"%{space}_{kind}_{count}s", f"OpTypePointer {space} {array}")

    def signature(self, result: str, params: Sequence[str]) -> str:
        """The type of a function."""
        types = " ".join(map(self.type, (result, *params)))
        return self.declare(f"%{'_'.join(['to', result, *params])}", f"OpTypeFunction {types}")

    # Constants and variables

    def constant(self, value: Any, kind: str) -> str:
        """A number, which is taken as its representation where `kind` is an integer."""
        if kind == "bool":
            name = "True" if value else "False"
            return self.declare(f"%{name.lower()}", f"OpConstant{name} {self.type(kind)}")
        bits = int(kind[1:])
        if kind[0] == "u":
            pattern = int(value) & ((1 << bits) - 1)
            text = str(pattern)
        else:
            number = numpy_dtype(kind).type(value)
            pattern = int(number.view(f"u{bits // 8}"))
            text = _float_text(number, pattern, bits)
        name = f"%{kind}_{pattern}" if kind[0] == "u" and pattern < 1 << 31 else f"%{kind}_x{pattern:x}"
        return self.declare(name, f"OpConstant {self.type(kind)} {text}")

    def built_in(self, name: str) -> str:
        """The variable of what a work-item is told of itself."""
        kind = _BUILT_IN[name]
        pointer = self.declare(f"%Input_{kind}", f"OpTypePointer Input {self.type(kind)}")
        return self.declare(f"%{name}", f"OpVariable {pointer} Input", f"OpDecorate %{name} BuiltIn {name}")

    def push_constants(self) -> str:
        """The variable of what a launch passes directly: `WORDS` words."""
        count = self.constant(WORDS, "u32")
        words = self.declare("%Words", f"OpTypeArray {self.type('u64')} {count}", "OpDecorate %Words ArrayStride 8")
        block = self.declare(
            "%Launch", f"OpTypeStruct {words}", "OpDecorate %Launch Block", "OpMemberDecorate %Launch 0 Offset 0"
        )
        pointer = self.declare("%PushConstant_Launch", f"OpTypePointer PushConstant {block}")
        return self.declare("%launch", f"OpVariable {pointer} PushConstant")


def _float_text(number: Any, pattern: int, bits: int) -> str:
    """In hexadecimal, exactly: an infinity or a NaN has the exponent behind the largest."""
    fraction, bias = (52, 1023) if bits == 64 else (23, 127)
    if np.isfinite(number):
        return float(number).hex()
    sign = "-" if pattern >> (bits - 1) else ""
    digits = bits // 4 - (3 if bits == 64 else 2)
    return f"{sign}0x1.{(pattern & (1 << fraction) - 1) << (4 * digits - fraction):0{digits}x}p+{bias + 1}"


class Function:
    """The instructions of one function, block after block.

    Blocks are structured as SPIR-V wants it: a branch names the block where its arms meet, a loop is entered by a
    header of its own, which names the block behind the loop and the one that goes back.
    """

    def __init__(self, module: Module, name: str, kind: str, params: Sequence[str] = ()) -> None:
        """kind: of the result."""
        self.module = module
        self.params = [module.fresh() for _ in params]
        self.lines = [
            f"%{name} = OpFunction {module.type(kind)} None {module.signature(kind, params)}",
            *[f"{x} = OpFunctionParameter {module.type(p)}" for x, p in zip(self.params, params, strict=True)],
        ]
        self.block = ""
        self.begin(module.fresh())
        self._at = len(self.lines)
        self._variables: list[str] = []
        self._first: list[str] = []
        self._hidden: dict[str, str] = {}

    def end(self, result: str = "") -> list[str]:
        """The text, with variables and hidden constants where they must be: in the first block."""
        self.line(f"OpReturnValue {result}" if result else "OpReturn")
        self.line("OpFunctionEnd")
        return [*self.lines[: self._at], *self._variables, *self._first, *self.lines[self._at :]]

    def line(self, text: str) -> None:
        self.lines.append(text)

    def emit(self, op: str, kind: str, *operands: str) -> str:
        """An instruction with a result of a kind; its id."""
        out = self.module.fresh()
        self.lines.append(f"{out} = {op} {self.module.type(kind)} {' '.join(operands)}")
        return out

    def emit_pointer(self, op: str, space: str, kind: str, *operands: str) -> str:
        """An instruction whose result is a pointer to a number."""
        out = self.module.fresh()
        self.lines.append(f"{out} = {op} {self.module.pointer(space, kind)} {' '.join(operands)}")
        return out

    def exact(self, op: str, kind: str, *operands: str) -> str:
        """An instruction on floats that no compiler may merge with others, or rewrite as if there were no NaN."""
        out = self.emit(op, kind, *operands)
        self.module.annotate(f"OpDecorate {out} NoContraction")
        return out

    def glsl(self, name: str, kind: str, *operands: str) -> str:
        """A function of GLSL.std.450."""
        return self.exact("OpExtInst", kind, "%glsl", name, *operands)

    def number(self, value: Any, kind: str) -> str:
        return self.module.constant(value, kind)

    def pushed(self, word: int) -> str:
        """What the launch passes directly."""
        path = (self.module.push_constants(), self.number(0, "u32"), self.number(word, "u32"))
        pointer = self.emit_pointer("OpAccessChain", "PushConstant", "u64", *path)
        return self.emit("OpLoad", "u64", pointer)

    def hidden(self, constant: str, kind: str) -> str:
        """A number whose value compilers cannot see, computed once."""
        return self._once(constant, lambda: self.blurred(constant, kind))

    def blurred(self, x: str, kind: str) -> str:
        """A number of which compilers do not know that it is `x`."""
        bits = kind.replace("f", "u")
        zero = self._once(
            bits, lambda: self.pushed(ZERO) if bits == "u64" else self.emit("OpUConvert", bits, self.pushed(ZERO))
        )
        if kind == bits:
            return self.emit("OpBitwiseXor", bits, x, zero)
        return self.emit("OpBitcast", kind, self.emit("OpBitwiseXor", bits, self.emit("OpBitcast", bits, x), zero))

    def _once(self, key: str, make: Callable[[], str]) -> str:
        """What is computed in the first block."""
        if key not in self._hidden:
            lines, self.lines = self.lines, self._first
            self._hidden[key] = make()
            self.lines = lines
        return self._hidden[key]

    def variable(self, pointer: str) -> str:
        """Private memory of the function."""
        out = self.module.fresh()
        self._variables.append(f"{out} = OpVariable {pointer} Function")
        return out

    # Blocks

    def begin(self, label: str) -> None:
        self.line(f"{label} = OpLabel")
        self.block = label

    def branch(self, label: str) -> None:
        self.line(f"OpBranch {label}")

    @contextmanager
    def where(self, condition: str) -> Generator[None]:
        """Instructions that run where a condition holds."""
        then, merge = self.module.fresh(), self.module.fresh()
        self.line(f"OpSelectionMerge {merge} None")
        self.line(f"OpBranchConditional {condition} {then} {merge}")
        self.begin(then)
        yield
        self.branch(merge)
        self.begin(merge)

    def phi(self, kind: str, *sources: tuple[str, str]) -> str:
        """A value by the block from which this one was reached."""
        return self.emit("OpPhi", kind, *[word for source in sources for word in source])

    def loop(self, kinds: Sequence[str], inits: Sequence[str], control: str = "None") -> Loop:
        """A loop with carried values, which the header holds."""
        return Loop(self, kinds, inits, control)


class Loop:
    """A loop: `carried` hold in every iteration; what is emitted until `leave_unless` is its condition, and until
    `again` its body.
    """

    def __init__(self, function: Function, kinds: Sequence[str], inits: Sequence[str], control: str) -> None:
        fresh = function.module.fresh
        self.function = function
        self.kinds = kinds
        self.inits = inits
        self.entry = function.block
        self.header, self.next, self.merge = fresh(), fresh(), fresh()
        self.carried = [fresh() for _ in kinds]
        function.branch(self.header)
        function.begin(self.header)
        self._phis = len(function.lines)  # they name what the body hands on, which there is not yet
        function.line(f"OpLoopMerge {self.merge} {self.next} {control}")
        first = fresh()
        function.branch(first)
        function.begin(first)

    def leave_unless(self, condition: str) -> None:
        body = self.function.module.fresh()
        self.function.line(f"OpBranchConditional {condition} {body} {self.merge}")
        self.function.begin(body)

    def to_next(self) -> None:
        """The body ends here: what follows belongs to the way back."""
        self.function.branch(self.next)
        self.function.begin(self.next)

    def again(self, yields: Iterable[str]) -> None:
        """Back to the header with the next values of what is carried; the block behind the loop begins."""
        function = self.function
        if function.block != self.next:
            self.to_next()
        function.branch(self.header)
        given = zip(self.carried, self.kinds, self.inits, yields, strict=True)
        function.lines[self._phis : self._phis] = [
            f"{out} = OpPhi {function.module.type(kind)} {init} {self.entry} {value} {self.next}"
            for out, kind, init, value in given
        ]
        function.begin(self.merge)
