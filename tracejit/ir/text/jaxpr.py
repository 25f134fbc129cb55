"""Jaxprs as text.

    jaxpr    = "jaxpr(" [name: type, ...] ") {" equation* "return" atom* "}"
    equation = name: type, ... = primitive[field=value, ...] atom*      (`() = ...` without outputs)
    atom     = name | number:type
    type     = dtype[extent, ...], with `~` after the dtype where weak

A nested jaxpr is a parameter value with its own names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tracejit.ir.extents import Count, Dim, Extent, Index, substituted
from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Literal, Var, with_extents
from tracejit.ir.primitive import Primitive, primitives
from tracejit.ir.text.tokens import Tokens, print_float
from tracejit.ir.text.values import read_aval, read_parameters
from tracejit.ir.types import ShapedArray

__all__ = ["parse_jaxpr", "print_jaxpr"]

_RESERVED = frozenset({"return", "jaxpr", "inf", "nan", "bool", "True", "False", "None"})
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _name(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    out = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        out = _LETTERS[digit] + out
    return out


def _names() -> Iterator[str]:
    number = 0
    while True:
        name = _name(number)
        number += 1
        if name not in _RESERVED:
            yield name


def _print_literal(atom: Literal) -> str:
    value = atom.value
    kind = atom.aval.dtype.kind
    if kind != "f":
        return f"{value}:{atom.aval}"
    text = print_float(value) if value != value or atom.aval.dtype == np.float64 else str(value)
    return f"{text}:{atom.aval}"


def print_jaxpr(jaxpr: Jaxpr) -> str:
    """The text of a jaxpr; names are numbered in order of definition.  An undefined variable prints as `?id`."""
    return "\n".join(_jaxpr_lines(jaxpr)[0])


def _jaxpr_lines(jaxpr: Jaxpr) -> tuple[list[str], list[int]]:
    """Lines, and for each equation the number of its first line."""
    names: dict[Var, str] = {}
    types: dict[int, str] = {}
    shown: dict[int, str] = {}
    fresh = _names()

    def define(var: Var) -> str:
        name = names[var] = next(fresh)
        aval = var.aval
        known = types.get(id(aval))
        if known is None:
            known = types[id(aval)] = f": {aval}"
        return name + known

    def use(atom: Atom) -> str:
        if isinstance(atom, Literal):
            return _print_literal(atom)
        return names.get(atom) or f"?{atom.id}"

    count = 1
    lines = ["jaxpr(" + ", ".join([define(v) for v in jaxpr.inputs]) + ") {"]
    starts: list[int] = []
    for equation in jaxpr.equations:
        primitive = equation.primitive
        text = shown.get(id(primitive))
        if text is None:
            text = shown[id(primitive)] = str(primitive)
        right = [text, *map(use, equation.inputs)]
        left = ", ".join([define(v) for v in equation.outputs]) or "()"
        line = f"  {left} = {' '.join(right)}"
        starts.append(count)
        if "\n" in line:
            line = line.replace("\n", "\n  ")
            count += line.count("\n")
        lines.append(line)
        count += 1
    lines.append("  " + " ".join(["return", *map(use, jaxpr.outputs)]))
    lines.append("}")
    return lines, starts


def show_equation(jaxpr: Jaxpr, number: int, context: int = 3) -> str:
    """Equation `number` (-1: the inputs, len(equations): the outputs) underlined, among the lines around it."""
    lines, starts = _jaxpr_lines(jaxpr)
    rows = "\n".join(lines).split("\n")
    at = 0 if number < 0 else (starts[number] if number < len(starts) else len(rows) - 2)
    return mark_line(rows, at, context)


def mark_line(rows: list[str], at: int, context: int = 3) -> str:
    """Line `at` (0-based) underlined, with `context` lines around it."""
    first, last = max(0, at - context), min(len(rows), at + context + 1)
    out: list[str] = []
    for number in range(first, last):
        row = rows[number]
        out.append(f"{number + 1:5} | {row}")
        if number == at:
            indent = len(row) - len(row.lstrip())
            out.append("      | " + " " * indent + "^" * min(len(row) - indent, 100))
    return "\n".join(out)


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.table = primitives()
        self.known: dict[tuple[str, ...], Primitive] = {}
        self.bound: dict[str, Extent] = {}  # the symbols that equations bind

    def jaxpr(self, tokens: Tokens) -> Jaxpr:
        tokens.skip_lines()
        tokens.expect("jaxpr", "(")
        known: dict[str, Var] = {}
        inputs: list[Var] = []
        if not tokens.accept(")"):
            inputs = self.variables(known)
            tokens.expect(")")
        tokens.expect("{")
        equations: list[Equation] = []
        while True:
            tokens.skip_lines()
            if tokens.accept("return"):
                break
            equations.append(self.equation(known))
        outputs = self.atoms(known)
        tokens.skip_lines()
        tokens.expect("}")
        return Jaxpr(inputs, equations, outputs)

    def variables(self, known: dict[str, Var]) -> list[Var]:
        tokens, out = self.tokens, list[Var]()
        while True:
            name = tokens.name("a variable")
            if name in known:
                tokens.fail(f"{name} is defined twice", back=1)
            tokens.expect(":")
            known[name] = var = Var(read_aval(tokens, tokens.next()))
            out.append(var)
            if not tokens.accept(","):
                return out

    def equation(self, known: dict[str, Var]) -> Equation:
        tokens = self.tokens
        defined: dict[str, Var] = {}
        outputs: list[Var] = []
        if tokens.accept("("):
            tokens.expect(")")
        else:
            outputs = self.variables(defined)
        tokens.expect("=")
        primitive = self.primitive()
        inputs = self.atoms(known)
        for name in defined:
            if name in known:
                tokens.fail(f"{name} is defined twice", back=1)
        known.update(defined)
        return Equation(primitive, tuple(inputs), tuple(outputs))

    def primitive(self) -> Primitive:
        """Equal text gives one instance; a nested jaxpr is read anew."""
        tokens = self.tokens
        name = tokens.name("a primitive")
        cls = self.table.get(name)
        if cls is None:
            tokens.fail(f"there is no primitive {name!r}", back=1)
        start = tokens.at
        end = tokens.find("]") + 1 if tokens.peek == "[" else start
        key = (name, *tokens.items[start:end])
        known = self.known.get(key)
        if known is not None:
            tokens.at = end
            return known
        made = self.make(cls, read_parameters(tokens, cls.__module__, self.jaxpr) if tokens.accept("[") else {})
        if tokens.at == end:
            self.known[key] = made
        return made

    def make(self, cls: type[Primitive], parameters: dict[str, Any]) -> Primitive:
        try:
            index = parameters.get("index")
            if isinstance(index, Count):
                index = parameters["index"] = Count(index.number, substituted(index.most, self.bound), index.what)
                self.bound[index] = Dim.symbol(index)
            elif isinstance(index, Index):  # in the text its extents only have the name
                known: dict[str, Extent] = {index: Dim.symbol(index)}
                parameters = {n: with_extents(v, known) if isinstance(v, Jaxpr) else v for n, v in parameters.items()}
            return cls(**{name.lstrip("_"): value for name, value in parameters.items()})
        except (TypeError, ValueError) as error:
            self.tokens.fail(f"parameters do not fit primitive {cls.name!r}: {error}", back=1)

    def atoms(self, known: dict[str, Var]) -> list[Atom]:
        tokens, out = self.tokens, list[Atom]()
        while True:
            token = tokens.peek
            if token == "\n" or token == "}" or token == "":
                return out
            tokens.at += 1
            var = known.get(token)
            if var is not None:
                out.append(var)
            elif tokens.accept(":"):
                out.append(self.literal(token))
            else:
                tokens.fail(f"{token!r} is not defined", back=1)

    def literal(self, token: str) -> Literal:
        tokens = self.tokens
        aval: ShapedArray = read_aval(tokens, tokens.next())
        kind = aval.dtype.kind
        if kind == "b" and token in ("True", "False"):
            return Literal(token == "True", aval)
        try:
            return Literal(float(token) if kind == "f" else int(token), aval)
        except (ValueError, OverflowError):
            tokens.fail(f"{token!r} is not a value of {aval}", back=3)


def parse_jaxpr(text: str) -> Jaxpr:
    """The inverse of `print_jaxpr`.  Raises ParseError, with the line,
    where the text is no jaxpr of registered primitives.
    """
    tokens = Tokens(text, types=True)
    with np.errstate(all="ignore"):
        parser = _Parser(tokens)
        jaxpr = parser.jaxpr(tokens)
    tokens.end()
    return with_extents(jaxpr, parser.bound) if parser.bound else jaxpr
