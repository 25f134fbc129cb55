"""Programs as text.

    program = "program" name "(" [dim, ...] ")" "{" buffer* step* "return" [name, ...] "}"
    buffer  = role name ":" dtype "[" [extent, ...] "]" [layout]        role: input, output, temporary
    step    = as its class says (`ir.program`), a line and the blocks in it

Kernels and libraries are named only: a text is read together with the program that it was edited from, which has them.
A result that lies in an argument is an input that is returned.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias

from tracejit.ir.extents import Count, Dim, Extent, Index, index_number, substituted
from tracejit.ir.kernel import Const
from tracejit.ir.program import (
    STEPS,
    BindExtent,
    Call,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Steps,
    replace_in_step,
    walk_steps,
)
from tracejit.ir.syntax import tokens_of
from tracejit.ir.text.kernel import quoted
from tracejit.ir.text.tokens import Tokens, parse_extent
from tracejit.support.errors import InternalError
from tracejit.support.nodes import evolve

__all__ = ["parse_program", "print_program", "show_step"]

_ROLES = ("input", "output", "temporary")
_Line: TypeAlias = "tuple[tuple[str, str, str], ...]"


@cache
def _line_of(kind: type) -> _Line:
    """The line of a class of steps: (the text before a hole, its field, the field's annotation)."""
    holes = string.Formatter().parse(kind.syntax)  # type: ignore[attr-defined]
    annotations = {
        name: x for base in reversed(kind.__mro__) for name, x in vars(base).get("__annotations__", {}).items()
    }
    return tuple([(text, name or "", annotations.get(name or "", "")) for text, name, *_ in holes])


def _end_of(line: _Line, name: str) -> str:
    """What stands after a hole for an extent."""
    places = [n for _, n, _ in line]
    if "Steps" in [annotation for *_, annotation in line]:
        return "{"
    after = line[places.index(name) + 1 :]
    return next(iter(tokens_of(after[0][0])), "\n") if after else "\n"


# -- printing ----------------------------------------------------------------------------------------------------------
def print_program(program: Program) -> str:
    """The text of a program, without its kernels."""
    lines = [f"program {quoted(program.name)}({', '.join(program.dims)}) {{"]
    for b in dict.fromkeys((*program.inputs, *program.outputs, *program.temporaries)):
        layout = "" if b.layout == "C" else f" {b.layout}"
        lines.append(f"  {b.role} {b.name}: {b.dtype}[{', '.join(map(str, b.shape))}]{layout}")
    lines += _lines(program.steps, 1)
    lines.append(f"  return {_names(program.outputs)}".rstrip())
    return "\n".join([*lines, "}"])


def show_step(s: Step) -> str:
    """The first line of a step."""
    return _lines((s,), 0)[0]


def _names(items: Sequence[ProgramBuffer | Const]) -> str:
    return ", ".join([x.name if isinstance(x, ProgramBuffer) else repr(x) for x in items])


def _lines(steps: Steps, depth: int) -> list[str]:
    pad, out = "  " * depth, list[str]()
    for s in steps:
        line = pad
        for text, name, annotation in _line_of(type(s)):
            line += text
            value: Any = getattr(s, name) if name else ""
            match annotation:
                case "Steps":
                    out += [line + "{", *_lines(value, depth + 1)]
                    line = pad + "}"
                case "ProgramBuffer":
                    line += value.name
                case "Kernel":
                    line += quoted(value.name)
                case _:
                    line += _names(value) if isinstance(value, tuple) else str(value)
        out.append(line)
    return out


# -- parsing -----------------------------------------------------------------------------------------------------------
class _Parser:
    """Reads a program; `before` is what it was edited from."""

    def __init__(self, text: str, before: Program) -> None:
        self.tokens = Tokens(text)
        self.buffers: dict[str, ProgramBuffer] = {}
        self.kinds = {tokens_of(_line_of(kind)[0][0])[0]: kind for kind in STEPS}
        known = list(walk_steps(before.steps))
        self.launches = [s for s in known if isinstance(s, Launch)]
        self.environments = {s.environment.name: s.environment for s in known if isinstance(s, Call)}

    def program(self) -> Program:
        tokens = self.tokens
        tokens.skip_lines()
        tokens.expect("program")
        name = self.symbol("the program's name")
        tokens.expect("(")
        dims = self.listed(lambda: tokens.name("an extent"), ")")
        tokens.expect(")", "{")
        tokens.skip_lines()
        while tokens.peek in _ROLES:
            self.declare()
        steps = self.steps()
        tokens.expect("return")
        outputs = self.listed(self.buffer, "\n", "}")
        tokens.skip_lines()
        tokens.expect("}")
        tokens.end()
        whole = _indexed(steps, self.buffers.values())
        steps = tuple([replace_in_step(s, whole) for s in steps])
        buffers = [whole.get(b, b) for b in self.buffers.values()]
        inputs, _, temporaries = ([b for b in buffers if b.role == role] for role in _ROLES)
        outputs = [whole[b] if b in whole else b for b in outputs]
        return Program(name, tuple(inputs), tuple(outputs), tuple(temporaries), steps, tuple(dims))

    def symbol(self, what: str) -> str:
        return self.tokens.string() if self.tokens.peek[:1] in ("'", '"') else self.tokens.name(what)

    def listed(self, item: Any, *ends: str) -> list[Any]:
        out: list[Any] = []
        while self.tokens.peek not in ends:
            out.append(item())
            if not self.tokens.accept(","):
                break
        return out

    def declare(self) -> None:
        tokens = self.tokens
        role, name = tokens.next(), tokens.name("a buffer")
        dtype, shape = tokens.declaration(name, self.buffers)
        layout = "C" if tokens.peek == "\n" else tokens.name("a layout: C, unit or strided")
        self.buffers[name] = ProgramBuffer(name, dtype, shape, role, layout)
        tokens.skip_lines()

    def buffer(self) -> ProgramBuffer:
        name = self.tokens.name("a buffer")
        found = self.buffers.get(name)
        if found is None:
            self.tokens.fail(f"buffer {name} is not declared", back=1)
        return found

    def argument(self) -> ProgramBuffer | Const:
        """A buffer, or a constant with its dtype."""
        tokens = self.tokens
        if tokens.peek in self.buffers:
            return self.buffer()
        text = tokens.upto(":")
        tokens.expect(":")
        dtype = tokens.dtype()
        try:
            if dtype == "bool" or dtype[0] == "f":
                return Const({"True": True, "False": False}[text] if dtype == "bool" else float(text), dtype)
            return Const(int(text) if text.lstrip("-").isdigit() else parse_extent(text), dtype)
        except (KeyError, ValueError):
            tokens.fail(f"{text} is neither a buffer nor a value of {dtype}", back=1)

    def block(self) -> Steps:
        self.tokens.expect("{")
        steps = self.steps()
        self.tokens.expect("}")
        return steps

    def steps(self) -> Steps:
        """Steps up to what is none."""
        out: list[Step] = []
        while True:
            self.tokens.skip_lines()
            if self.tokens.peek in ("return", "}", ""):
                return tuple(out)
            out.append(self.step())
            if self.tokens.peek not in ("\n", "}"):
                self.tokens.fail(f"expected the end of the step, found {self.tokens.peek!r}")

    def step(self) -> Step:
        tokens = self.tokens
        kind = self.kinds.get(tokens.peek)
        if kind is None:
            tokens.fail(f"there is no step {tokens.peek!r}; there are {', '.join(self.kinds)}")
        at = tokens.at
        fields: dict[str, Any] = {}
        for text, name, annotation in _line_of(kind):
            tokens.expect(*tokens_of(text))
            match annotation:
                case "Steps":
                    fields[name] = self.block()
                case "ProgramBuffer":
                    fields[name] = self.buffer()
                case "Extent":
                    fields[name] = self.extent(_end_of(_line_of(kind), name))
                case "str":
                    fields[name] = tokens.name("an index, or _")
                case "Kernel":
                    fields[name] = self.symbol("a kernel")
                case "tuple[ProgramBuffer, ...]":
                    fields[name] = tuple(self.listed(self.buffer, ")", "\n", "}"))
                case "tuple[ProgramBuffer | Const, ...]":
                    fields[name] = tuple(self.listed(self.argument, ")"))
                case "" if name == "function":
                    fields |= self.function()
                case "" if not name:
                    pass
                case _:
                    raise InternalError(f"{kind.__name__}.{name}: programs as text have no {annotation or name}")
        return self.launch(at, **fields) if kind is Launch else kind(**fields)

    def extent(self, end: str) -> Extent:
        found = self.tokens.extents(end)
        if len(found) != 1:
            self.tokens.fail("expected one extent")
        return found[0]

    def function(self) -> dict[str, Any]:
        """A function of a library that the program calls."""
        name, _, symbol = self.tokens.name("a function of a library").rpartition(".")
        environment = self.environments.get(name)
        if environment is None:
            known = ", ".join(self.environments) or "none"
            self.tokens.fail(f"{name!r} is no library that the program calls; there are {known}", back=1)
        return {"symbol": symbol, "environment": environment}

    def launch(self, at: int, kernel: str, arguments: tuple[ProgramBuffer, ...]) -> Launch:
        """A launch of a kernel of the program's: of several that have its name (donation changes one where it is
        launched) that which has these arguments, or so many.
        """
        named = [s for s in self.launches if s.kernel.name == kernel]
        known = [s for s in named if _names(s.arguments) == _names(arguments)] or [
            s for s in named if len(s.arguments) == len(arguments)
        ]
        if len({s.kernel for s in known}) != 1:
            back = self.tokens.at - at - 1
            if known:
                self.tokens.fail(f"there are several kernels {kernel}; edit what an earlier pass makes", back)
            if named:
                self.tokens.fail(f"kernel {kernel} takes {len(named[0].arguments)} buffers, not {len(arguments)}", back)
            names = ", ".join(dict.fromkeys([s.kernel.name for s in self.launches]))
            self.tokens.fail(f"there is no kernel {kernel}; there are {names or 'none'}", back)
        return Launch(known[0].kernel, arguments, known[0].schedule, known[0].product)


def _indexed(steps: Steps, buffers: Iterable[ProgramBuffer]) -> dict[ProgramBuffer, ProgramBuffer]:
    """Of buffers with the indices of loops in their extents: those with what is known of these."""
    known: dict[str, Extent] = {}
    for s in walk_steps(steps):
        if isinstance(s, CountedLoop) and s.index != "_":
            known[s.index] = Dim.symbol(Index(index_number(s.index), substituted(s.count, known) - 1))
        elif isinstance(s, BindExtent):
            known[s.index] = Dim.symbol(Count(index_number(s.index), substituted(s.most, known)))
    shapes = [(b, tuple([substituted(n, known) for n in b.shape])) for b in buffers]
    return {b: evolve(b, shape=shape) for b, shape in shapes if shape is not b.shape and known}


def parse_program(text: str, before: Program) -> Program:
    """The inverse of `print_program`, with the kernels and libraries of `before`.   Raises: ParseError."""
    return _Parser(text, before).program()
