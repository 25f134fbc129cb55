"""Tokens shared by the parsers, the error they raise, and the text of extents and dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from typing import Any, NoReturn

import numpy as np

from tracejit.ir.extents import Dim, Extent
from tracejit.ir.scalar import ALL_DTYPES
from tracejit.support.errors import UserError

__all__ = ["ParseError", "Tokens", "parse_extent", "parse_extents", "print_float"]

_SPACE = r"(?:[ \t\r]|\#[^\n]*)*"
_TYPE = r"(?:bool|[iu](?:8|16|32|64)|f(?:16|32|64)|c(?:64|128))~?\[[^\]\n]*\]"
_COMMON = r"""
    -?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf\b|nan\b)   # numbers as Python prints them
  | b?'(?:[^'\\\n]|\\.)*' | b?"(?:[^"\\\n]|\\.)*"
  | [?%][A-Za-z0-9_?]+
  | [A-Za-z_]\w*(?:\.\w+)*
  | \.\. | \n | .
"""
_SEPARATE = re.compile(rf"{_SPACE}({_COMMON}|\Z)", re.VERBOSE)
_WITH_TYPES = re.compile(rf"{_SPACE}({_TYPE}|{_COMMON}|\Z)", re.VERBOSE)
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


class ParseError(UserError, ValueError):
    """Text is not what the grammar of an IR allows.  line: 1-based; what: the complaint."""

    def __init__(self, line: int, what: str, source: str = "") -> None:
        super().__init__(f"line {line}: {what}" + (f"\n    {source.strip()}" if source.strip() else ""))
        self.line = line
        self.what = what


class Tokens:
    """The tokens of a text and a position among them.  Newlines are tokens;
    comments run from `#` to the end of the line.
    """

    def __init__(self, text: str, *, types: bool = False) -> None:
        """types: whether `f32[3, n0]` is one token (jaxprs) or its parts (kernels)."""
        self._pattern = _WITH_TYPES if types else _SEPARATE
        self.text = text
        self.items: list[str] = self._pattern.findall(text)
        self.items += ["", ""]
        self.at = 0

    @property
    def peek(self) -> str:
        return self.items[self.at]

    def next(self) -> str:
        token = self.items[self.at]
        if token:
            self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.items[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if self.items[self.at] != token:
                self.fail(f"expected {_shown(token)}, found {_shown(self.items[self.at])}")
            self.at += 1

    def name(self, what: str = "a name") -> str:
        token = self.items[self.at]
        if not (token[:1].isalpha() or token[:1] == "_"):
            self.fail(f"expected {what}, found {_shown(token)}")
        self.at += 1
        return token

    def integer(self) -> int:
        token = self.next()
        try:
            return int(token)
        except ValueError:
            self.fail(f"expected an integer, found {_shown(token)}", back=1)

    def string(self) -> Any:
        """The value of a string or bytes token."""
        token = self.next()
        if token[-1:] not in ("'", '"') or len(token) < 2:
            self.fail(f"expected a string, found {_shown(token)}", back=1)
        return ast.literal_eval(token)

    def find(self, token: str) -> int:
        """The position of the next such token; of the end where there is none."""
        try:
            return self.items.index(token, self.at)
        except ValueError:
            return len(self.items) - 1

    def skip_lines(self) -> None:
        while self.items[self.at] == "\n":
            self.at += 1

    def end(self) -> None:
        self.skip_lines()
        if self.peek:
            self.fail(f"nothing may follow here, found {_shown(self.peek)}")

    def upto(self, *stops: str) -> str:
        """The text of the tokens before the first of `stops` outside brackets; the stop itself stays."""
        open_brackets: list[str] = []
        start = self.at
        while True:
            token = self.items[self.at]
            if not open_brackets and token in stops:
                return "".join(self.items[start : self.at])
            if token in ("", "\n"):
                self.fail(f"expected {' or '.join(map(_shown, stops))} before the end of the line")
            if token in _BRACKETS:
                open_brackets.append(_BRACKETS[token])
            elif open_brackets and token == open_brackets[-1]:
                open_brackets.pop()
            self.at += 1

    def declaration(self, name: str, known: Container[str]) -> tuple[str, tuple[Extent, ...]]:
        """(dtype, shape) of a buffer whose name has just been read: `: f64[n0,3]`."""
        if name in known:
            self.fail(f"buffer {name} is declared twice", back=1)
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        shape = self.extents("]")
        self.expect("]")
        return dtype, shape

    def extents(self, *stops: str) -> tuple[Extent, ...]:
        """Comma-separated extents up to one of `stops`."""
        text = self.upto(*stops)
        try:
            return parse_extents(text)
        except ValueError as error:
            self.fail(str(error))

    def dtype(self) -> str:
        token = self.name("a dtype")
        if token not in ALL_DTYPES:
            self.fail(f"{token!r} is not a dtype; dtypes are {', '.join(ALL_DTYPES)}", back=1)
        return token

    def fail(self, what: str, back: int = 0) -> NoReturn:
        """Raise ParseError at the token `back` before the current one."""
        position, wanted = 0, self.at - back
        for count, match in enumerate(self._pattern.finditer(self.text)):
            position = match.start(1)
            if count == wanted:
                break
        line = self.text.count("\n", 0, position) + 1
        raise ParseError(line, what, self.text.split("\n")[line - 1])


def _shown(token: str) -> str:
    return {"": "the end of the text", "\n": "the end of the line"}.get(token, f"'{token}'")


_ATOMS = ("floordiv", "mod", "max", "min")


def _extent(node: ast.AST, text: str) -> Extent:
    match node:
        case ast.Constant(value=int(value)) if type(value) is int:
            return value
        case ast.Name(id=name):
            return Dim.symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_extent(operand, text)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, ast.Add | ast.Sub | ast.Mult):
            a, b = _extent(left, text), _extent(right, text)
            return a + b if isinstance(op, ast.Add) else (a - b if isinstance(op, ast.Sub) else a * b)
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in _ATOMS:
            # Built as it stands: the operators would simplify, and printed text must not change.
            return Dim(((((name, _extent(left, text), _extent(right, text)),), 1),))
        case _:
            raise ValueError(
                f"{text!r} is not an extent: integers, names, + - *, floordiv(a, b), mod(a, b), max(a, b) and min(a, "
                "b) are"
            )


def _tree(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError):
        raise ValueError(f"{text!r} is not an extent") from None


def parse_extent(text: str) -> Extent:
    """The inverse of `str` on extents: `parse_extent("2*n0+1")`.  Raises ValueError."""
    text = text.strip()
    return int(text) if text.isdigit() else _extent(_tree(text), text)


def parse_extents(text: str) -> tuple[Extent, ...]:
    """Comma-separated extents.  Raises ValueError."""
    if not text.strip():
        return ()
    tree = _tree(f"({text},)")
    assert isinstance(tree, ast.Tuple)
    return tuple(_extent(item, text) for item in tree.elts)


def print_float(value: Any) -> str:
    """Text that `float` reads back exactly, the sign of NaN included."""
    number = float(value)
    return ("-nan" if np.signbit(number) else "nan") if number != number else repr(number)
