"""PTX text to functions of instructions, with every name resolved.

Source: PTX ISA 8.x, chapters 4 to 6 (syntax) and 11 (directives).  What is not understood is a `PTXError` that names it
and its line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

__all__ = [
    "Address", "CARRY", "DTYPES", "Function", "Group", "Guard", "Immediate", "Instruction", "Module", "Name", "Negated",
    "Operand", "PTXError", "Pair", "Register", "Sink", "Special", "Variable", "Vector", "parse",
]  # fmt: skip

DTYPES = {
    "u8": "u1", "s8": "i1", "b8": "u1", "u16": "u2", "s16": "i2", "b16": "u2", "f16": "f2", "u32": "u4", "s32": "i4",
    "b32": "u4", "f32": "f4", "u64": "u8", "s64": "i8", "b64": "u8", "f64": "f8", "f16x2": "u4", "pred": "?",
}  # fmt: skip
"""NumPy's dtype of every type of PTX's that is executed."""

CARRY = 0
"""The register CC.CF of the extended-precision instructions, which has no name in the text."""

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<string>"[^"\n]*")
      |(?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+U?)
      |(?P<word>[.%$_A-Za-z][\w$]*(?:(?:\.|::)[\w$]+)*)
      |(?P<mark>[{}()\[\],;:|!@+\-=<>])""",
    re.VERBOSE | re.DOTALL,
)
_LINE_DIRECTIVES = re.compile(r"^[ \t]*\.(?:loc|file)\b[^\n;]*;?", re.MULTILINE)
_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid)\.[xyz]|laneid|warpid|nwarpid|lanemask_(?:eq|le|lt|ge|gt)|clock|clock64|globaltimer|"
    r"smid|nsmid|gridid|dynamic_smem_size|total_smem_size)|WARP_SZ"
)
_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+")
_LINKAGE = (".visible", ".extern", ".weak", ".common", ".internal")
_SPACES = (".global", ".const", ".shared", ".local", ".param")
_LIMITS = (".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg")


class PTXError(Exception):
    """What PTX text or a kernel's execution has wrong.

    `code` is the driver's number for it, `block` and `thread` where it happened, `address` what was accessed."""

    def __init__(
        self,
        message: str,
        code: int = 218,
        *,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        address: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.block = block
        self.thread = thread
        self.address = address


@dataclass(frozen=True)
class Register:
    """A register of a function: `index` in its list, and its declared type."""

    index: int
    type: str
    name: str


@dataclass(frozen=True)
class Special:
    """A special register, `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant: `form` is "int", "f32" or "f64"; of the last two `value` is the bits."""

    value: int
    form: str = "int"


@dataclass(frozen=True)
class Name:
    """A label, function, or table."""

    name: str


@dataclass(eq=False)
class Variable:
    """What a directive declares in a state space; `offset` is its place among the parameters or in local memory."""

    name: str
    space: str
    type: str
    count: int
    align: int
    offset: int = 0
    initial: list[Immediate | tuple[str, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        return np.dtype(DTYPES[self.type]).itemsize * self.count


@dataclass(frozen=True)
class Address:
    """`[base + offset]`, and a variable's address as a value."""

    base: Register | Variable | Immediate
    offset: int


@dataclass(frozen=True)
class Negated:
    """`!%p1`."""

    register: Register


@dataclass(frozen=True)
class Sink:
    """`_`: a result that is not kept."""


@dataclass(frozen=True)
class Vector:
    """`{a, b}`."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Group:
    """`(a, b)`: arguments or results of a call."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`p|q`."""

    first: Operand
    second: Operand


Operand = Register | Special | Immediate | Name | Variable | Address | Negated | Sink | Vector | Group | Pair


@dataclass(frozen=True)
class Guard:
    """`@p` or `@!p`."""

    register: Register
    negated: bool


@dataclass(frozen=True)
class Instruction:
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int

    @property
    def spelling(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(eq=False)
class Function:
    """A kernel (`entry`) or a device function; without a body, `defined` is False."""

    name: str
    entry: bool
    parameters: list[Variable]
    results: list[Variable]
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    defined: bool = False
    registers: list[str] = field(default_factory=lambda: ["pred"])
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    local_size: int = 0

    @property
    def parameter_size(self) -> int:
        return max((v.offset + v.size for v in self.parameters), default=0)


@dataclass(eq=False)
class Module:
    version: str
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def parse(text: str) -> Module:
    """The module that `text` describes.

    Raises: PTXError."""
    return _Parser(text).module()


def _align_up(offset: int, align: int) -> int:
    return -(-offset // align) * align


class _Parser:
    def __init__(self, text: str) -> None:
        # `.loc` and `.file` end with their line, unlike everything else
        text = _LINE_DIRECTIVES.sub("", text)
        self._line_starts = [m.end() for m in re.finditer("\n", text)]
        self._tokens = self._scan(text)
        self._at = 0
        self._scopes: list[dict[str, Register | Variable]] = [{}]
        self._functions: dict[str, Function] = {}

    # -- tokens

    def _scan(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise PTXError(f"line {self._line_of(at)}: cannot read {text[at : at + 20]!r}")
            if match.lastgroup != "skip":
                tokens.append(_Token(str(match.lastgroup), match.group(), at))
            at = match.end()
        tokens.append(_Token("end", "", len(text)))
        return tokens

    def _line_of(self, start: int) -> int:
        return bisect_right(self._line_starts, start) + 1

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _error(self, message: str) -> PTXError:
        return PTXError(f"line {self._line_of(self._token.start)}: {message}")

    def _next(self) -> str:
        token = self._token
        if token.kind == "end":
            raise self._error("the text ends within a declaration or a function")
        self._at += 1
        return token.text

    def _accept(self, *texts: str) -> str | None:
        if self._token.text in texts and self._token.kind != "end":
            return self._next()
        return None

    def _expect(self, text: str) -> None:
        if self._accept(text) is None:
            raise self._error(f"{text!r} expected, not {self._token.text!r}")

    def _word(self) -> str:
        if self._token.kind != "word":
            raise self._error(f"a name expected, not {self._token.text!r}")
        return self._next()

    def _integer(self) -> int:
        sign = -1 if self._accept("-") else 1
        value = self._number()
        if value.form != "int":
            raise self._error("an integer expected")
        return sign * value.value

    def _number(self) -> Immediate:
        if self._token.kind != "number":
            raise self._error(f"a number expected, not {self._token.text!r}")
        text = self._next()
        match text[:2].lower():
            case "0f":
                return Immediate(int(text[2:], 16), "f32")
            case "0d":
                return Immediate(int(text[2:], 16), "f64")
            case "0x" | "0b":
                return Immediate(int(text.rstrip("U"), 0))
        if "." in text:
            return Immediate(int(np.float64(text).view(np.uint64)), "f64")
        text = text.rstrip("U")
        return Immediate(int(text, 8) if text.startswith("0") and len(text) > 1 else int(text))

    def _skip_to(self, *ends: str) -> None:
        while self._next() not in ends:
            pass

    def _list(self, end: str, element: Callable[[], Operand]) -> tuple[Operand, ...]:
        parts: list[Operand] = []
        if self._accept(end):
            return ()
        while True:
            parts.append(element())
            if self._accept(end):
                return tuple(parts)
            self._expect(",")

    # -- module

    def module(self) -> Module:
        version = target = ""
        while self._token.kind != "end":
            word = self._word()
            match word:
                case ".version":
                    version = self._next()
                case ".target":
                    target = self._word()
                    while self._accept(","):
                        self._word()
                case ".address_size":
                    if self._integer() != 64:
                        raise self._error("only .address_size 64 is executed")
                case ".pragma" | ".alias":
                    self._skip_to(";")
                case ".section":
                    self._skip_to("{")
                    self._skip_to("}")
                case ".entry" | ".func":
                    self._function(word == ".entry")
                case ".noreturn":
                    pass
                case ".extern" if self._token.text in (".global", ".const"):
                    raise self._error("variables of other modules are not executed")
                case _ if word in _LINKAGE:
                    pass
                case _ if word in _SPACES:
                    self._variables(word[1:])
                case _:
                    raise self._error(f"the directive {word} is not known")
        if not version or not target:
            raise PTXError("a module begins with .version and .target")
        variables = {k: v for k, v in self._scopes[0].items() if isinstance(v, Variable)}
        return Module(version, target, self._functions, variables)

    def _variable(self, space: str) -> Variable:
        """What follows the space: `.align 4 .b8 name[16]`."""
        align = 0
        kind = ""
        while self._token.text.startswith("."):
            word = self._word()
            match word:
                case ".align":
                    align = align or self._integer()
                case ".ptr":  # its space and alignment are promises about what it points to
                    while self._token.text in (*_SPACES, ".align"):
                        if self._word() == ".align":
                            self._integer()
                case ".attribute":
                    self._skip_to(")")
                case _ if word[1:] in DTYPES:
                    kind = word[1:]
                case _:
                    raise self._error(f"variables of {word} are not executed")
        name = self._word()
        if not kind:
            raise self._error(f"{name} has no type")
        extents: list[int] = []
        while self._accept("["):
            extents.append(0 if self._token.text == "]" else self._integer())
            self._expect("]")
        return Variable(name, space, kind, prod(extents), align or np.dtype(DTYPES[kind]).itemsize)

    def _variables(self, space: str, function: Function | None = None) -> None:
        """A declaration up to its semicolon."""
        if function is not None and space in ("global", "const"):
            raise self._error(f"variables of .{space} within functions are not executed")
        while True:
            variable = self._variable(space)
            if self._accept("="):
                variable.initial = self._initial()
                variable.count = max(variable.count, len(variable.initial))
            if space == "local" and function is not None:
                variable.offset = _align_up(function.local_size, variable.align)
                function.local_size = variable.offset + variable.size
            self._scopes[-1][variable.name] = variable
            if self._accept(";"):
                return
            self._expect(",")

    def _initial(self) -> list[Immediate | tuple[str, int]]:
        if not self._accept("{"):
            return [self._initial_value()]
        values: list[Immediate | tuple[str, int]] = []
        while not self._accept("}"):
            if self._token.text == "{":
                values.extend(self._initial())
            else:
                values.append(self._initial_value())
            self._accept(",")
        return values

    def _initial_value(self) -> Immediate | tuple[str, int]:
        if self._token.kind == "word":
            name = self._word()
            if name == "generic":
                self._expect("(")
                name = self._word()
                self._expect(")")
            return name, self._integer() if self._accept("+") else 0
        if self._accept("-"):
            number = self._number()
            sign_bit = {"f32": 1 << 31, "f64": 1 << 63}
            return (
                Immediate(-number.value)
                if number.form == "int"
                else Immediate(number.value ^ sign_bit[number.form], number.form)
            )
        return self._number()

    # -- functions

    def _parameters(self, closing: str = ")") -> list[Variable]:
        found: list[Variable] = []
        offset = 0
        while not self._accept(closing):
            space = self._word()
            if space != ".param":
                raise self._error(f"parameters in {space} are not executed")
            variable = self._variable("param")
            variable.offset = _align_up(offset, variable.align)
            offset = variable.offset + variable.size
            found.append(variable)
            self._accept(",")
        return found

    def _function(self, entry: bool) -> None:
        results: list[Variable] = []
        if self._accept("("):
            results = self._parameters()
        name = self._word()
        if not _NAME.fullmatch(name):
            raise self._error(f"{name} is not a name that PTX allows")
        parameters = self._parameters() if self._accept("(") else []
        function = Function(name, entry, parameters, results)
        while self._token.text not in ("{", ";"):
            word = self._word()
            if word in _LIMITS:
                numbers = [self._integer()]
                while self._accept(","):
                    numbers.append(self._integer())
                function.limits[word[1:]] = tuple(numbers)
            elif word == ".pragma":
                self._skip_to(";")
            elif word not in (".noinline", ".noreturn"):
                raise self._error(f"the directive {word} of {name} is not known")
        if self._accept(";"):
            self._functions.setdefault(name, function)
            return
        earlier = self._functions.get(name)
        if earlier is not None and earlier.defined:
            raise self._error(f"{name} is defined twice")
        self._functions[name] = function
        function.defined = True
        self._expect("{")
        self._scopes.append({v.name: v for v in [*parameters, *results]})
        self._body(function)

    def _body(self, function: Function) -> None:
        depth = 1
        while depth:
            if self._accept("{"):
                self._scopes.append({})
                depth += 1
            elif self._accept("}"):
                self._scopes.pop()
                depth -= 1
            elif not self._accept(";"):
                self._statement(function)
        for instruction in function.body:
            if instruction.opcode == "bra" and isinstance(instruction.operands[-1], Name):
                name = instruction.operands[-1].name
                if name not in function.labels:
                    raise PTXError(f"line {instruction.line}: there is no label {name}")

    def _statement(self, function: Function) -> None:
        word = self._token.text
        if word == ".reg":
            self._next()
            self._registers(function)
        elif word in _SPACES:
            self._variables(self._next()[1:], function)
        elif word == ".pragma":
            self._skip_to(";")
        elif self._token.kind == "word" and self._tokens[self._at + 1].text == ":":
            self._label(function)
        elif word.startswith("."):
            raise self._error(f"the directive {word} is not known")
        else:
            function.body.append(self._instruction())

    def _label(self, function: Function) -> None:
        name = self._word()
        self._expect(":")
        if self._accept(".branchtargets"):
            names = [self._word()]
            while self._accept(","):
                names.append(self._word())
            self._expect(";")
            function.tables[name] = tuple(names)
        elif self._token.text == ".callprototype":
            raise self._error("calls of functions by their address are not executed")
        elif name in function.labels:
            raise self._error(f"the label {name} stands twice")
        else:
            function.labels[name] = len(function.body)

    def _registers(self, function: Function) -> None:
        kind = self._word()[1:]
        if kind not in DTYPES:
            raise self._error(f"registers of .{kind} are not executed")
        while True:
            name = self._word()
            if self._accept("<"):
                names = [f"{name}{i}" for i in range(self._integer())]
                self._expect(">")
            else:
                names = [name]
            for each in names:
                self._scopes[-1][each] = Register(len(function.registers), kind, each)
                function.registers.append(kind)
            if self._accept(";"):
                return
            self._expect(",")

    # -- instructions

    def _lookup(self, name: str) -> Register | Variable | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _register(self) -> Register:
        found = self._lookup(name := self._word())
        if not isinstance(found, Register):
            raise self._error(f"{name} is not a register")
        return found

    def _instruction(self) -> Instruction:
        line = self._line_of(self._token.start)
        guard = None
        if self._accept("@"):
            negated = self._accept("!") is not None
            guard = Guard(self._register(), negated)
        opcode, *modifiers = self._word().split(".")
        operands = self._list(";", self._operand)
        return Instruction(opcode, tuple(modifiers), operands, guard, line)

    def _operand(self) -> Operand:
        first = self._simple_operand()
        if self._accept("|"):
            return Pair(first, self._simple_operand())
        return first

    def _simple_operand(self) -> Operand:
        if self._accept("{"):
            return Vector(self._list("}", self._operand))
        if self._accept("("):
            return Group(self._list(")", self._operand))
        if self._accept("["):
            return self._address()
        if self._accept("!"):
            return Negated(self._register())
        if self._token.kind == "number" or self._token.text == "-":
            return self._constant()
        name = self._word()
        if name == "_":
            return Sink()
        found = self._lookup(name)
        if isinstance(found, Variable):
            return Address(found, self._offset()) if found.space != "param" or self._token.text == "+" else found
        if found is not None:
            return found
        if _SPECIAL.fullmatch(name):
            return Special(name)
        if name.startswith("%"):
            raise self._error(f"{name} is not a register that is declared, nor a special one that is known")
        return Name(name)

    def _constant(self) -> Immediate:
        if not self._accept("-"):
            return self._number()
        number = self._number()
        return (
            Immediate(-number.value)
            if number.form == "int"
            else Immediate(number.value ^ (1 << (31 if number.form == "f32" else 63)), number.form)
        )

    def _offset(self) -> int:
        if self._accept("+"):
            return self._integer()
        return self._integer() if self._token.text == "-" else 0

    def _address(self) -> Address:
        base: Register | Variable | Immediate
        if self._token.kind == "number":
            base = self._number()
        else:
            found = self._lookup(name := self._word())
            if found is None:
                raise self._error(f"{name} is not declared")
            base = found
        offset = self._offset()
        self._expect("]")
        return Address(base, offset)
