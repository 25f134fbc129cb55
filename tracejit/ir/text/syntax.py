"""How a statement without blocks is written: its class says so in a line, which printer and parser both read.

    syntax = "store {buffer}[{index}] = {value}"

The first word tells which statement it is.  A hole is a field: an operand, a buffer, a name or a number; several
operands stand in square brackets with commas between them, elsewhere with spaces, up to the closing parenthesis or the
end of the statement.  `{buffer:declared}` declares the buffer there.  What the statement defines stands before it,
`%0 = `, and is not part of the line.
"""

from __future__ import annotations

import re
import string
from functools import cache
from typing import Literal, TypeAlias

from tracejit.ir.kernel import STATEMENTS, roles_of
from tracejit.support.nodes import frozen

__all__ = ["Hole", "Syntax", "statement_of_word", "syntax_of", "tokens_of"]


@frozen
class Hole:
    """A field in a line.  what: how it is written."""

    name: str
    what: Literal["operand", "operands", "index", "buffer", "declared", "name", "integer"]


Syntax: TypeAlias = tuple[str | Hole, ...]
"""Text to be written as it is, the first word alone, and holes."""
_PARTS = re.compile(r"\{(\w+)(?::(\w+))?\}")


def tokens_of(text: str) -> list[str]:
    """The words and signs of the text between holes."""
    return re.findall(r"\w+|\S", text)


@cache
def syntax_of(kind: type) -> Syntax:
    """The line of a class of statements."""
    line: str = kind.syntax  # type: ignore[attr-defined]
    word = line[: len(line) - len(line.lstrip(string.ascii_letters))]
    rest = line[len(word) :]
    parts: list[str | Hole] = [word]
    before = ""
    at = 0
    for match in _PARTS.finditer(rest):
        before += rest[at : match.start()]
        parts += [before, Hole(match[1], match[2] or _kind_of(kind, match[1], before))]  # type: ignore[arg-type]
        before, at = "", match.end()
    return tuple([part for part in (*parts, before + rest[at:]) if part])


def _kind_of(kind: type, name: str, before: str) -> str:
    role = roles_of(kind).get(name)
    if role is not None:
        return "operand" if not role[1] else "index" if before.endswith("[") else "operands"
    return {"Buffer": "buffer", "int": "integer"}.get(kind.__annotations__[name], "name")


def statement_of_word(word: str) -> type | None:
    """The class of statements whose line begins so."""
    for kind in STATEMENTS:
        if hasattr(kind, "syntax") and syntax_of(kind)[0] == word:
            return kind
    return None
