"""How a statement is written: its class says so in a line, which printer and parser both read.

    syntax = "store {buffer}[{index}] = {value}"
    syntax = "while< carry({params=inits})>< unroll({unroll})> {condition} do {body}"

The first word tells which statement it is.  A hole is a field, written as what it holds:

    operands        one; several with commas between them in square brackets, elsewhere with spaces
    bound values    declared here, with their initial values in `{params=inits}`; the blocks see them
    a block         in braces, the operands that are read at its end behind a word of the block's (`yield`)
    other data      a buffer (declared here in `{buffer:declared}`), a name, an integer, an axis, a function

What stands between < and > is written where its fields are not as they are by default.  What the statement defines
stands before it, `%0 = `, and is not part of the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

from tracejit.support.nodes import evolve, fields_of, frozen

__all__ = ["Hole", "Maybe", "Part", "Syntax", "read_syntax", "tokens_of"]

What: TypeAlias = Literal[
    "operand", "operands", "index", "bound", "carried", "block", "buffer", "declared", "name", "integer", "axis",
    "function",
]  # fmt: skip


@frozen
class Hole:
    """A field in a line.  what: how it is written; inits: the field with the initial values of those that are carried;
    stops: what may stand behind it, where that is words or signs of the line.
    """

    name: str
    what: What
    inits: str = ""
    stops: tuple[str, ...] = ()


@frozen
class Maybe:
    """Parts that are written unless their fields have the values `usual`."""

    parts: tuple[str | Hole, ...]
    usual: Mapping[str, Any]


Part: TypeAlias = str | Hole | Maybe


@frozen
class Syntax:
    """The line of a class of statements.

    like: the field that results and the parameters of functions have their dtypes from; "" where the text states them.
    outside: the holes of operands, where values are bound that these do not see.
    """

    word: str
    parts: tuple[Part, ...]
    like: str
    outside: tuple[Hole, ...]


_MARKS = re.compile(r"\{(\w+)(?:([=:])(\w+))?\}|[<>]")
_WHAT: dict[str, What] = {
    "Buffer": "buffer", "str": "name", "int": "integer", "Axis": "axis", "Lambda": "function",
    "Lambda | None": "function",
}  # fmt: skip
"""How fields that are not in data flow are written, by their annotations."""
_UNWRITTEN = "Location | None"
"""The annotation of a field that no text has."""


def tokens_of(text: str) -> list[str]:
    """The words and signs of the text between holes."""
    return re.findall(r"\w+|\.\.|\S", text)


def read_syntax(
    kind: type, roles: Mapping[str, tuple[str, bool]], last: Mapping[str, Sequence[str]], like: str = ""
) -> Syntax:
    """What the line `kind.syntax` says.

    roles: what fields are to data flow, and whether they hold several; last: the fields read at the end of each block.
    Raises: TypeError where printer and parser could not follow it.
    """
    return _Reader(kind, roles, last).read(kind.syntax, like)  # type: ignore[attr-defined]


class _Reader:
    def __init__(self, kind: type, roles: Mapping[str, tuple[str, bool]], last: Mapping[str, Sequence[str]]) -> None:
        self.kind = kind
        self.roles = roles
        self.last = last
        self.fields = {f.name: f for f in fields_of(kind)}
        self.annotations: dict[str, str] = kind.__annotations__
        self.written: list[str] = []

    def fail(self, what: str) -> NoReturn:
        raise TypeError(f"{self.kind.__name__}.syntax {what}")

    def read(self, line: str, like: str) -> Syntax:
        word = re.match(r"[A-Za-z]*", line)[0]  # type: ignore[index]
        if not word:
            self.fail(f"begins with a word that tells which statement it is, not with {line!r}")
        parts = self.split(line[len(word) :])
        written = {name for name in self.fields if self.is_written(name)}
        if missing := sorted(written.difference(self.written)):
            self.fail(f"leaves out {', '.join(missing)}: what is not written is not read again")
        if like and not (like in self.fields and (like in self.roles or self.annotations[like] == "Buffer")):
            raise TypeError(f"{self.kind.__name__}.like is {like!r}, no field of operands and no buffer")
        for name in [p.name for p in parts if isinstance(p, Hole) and self.annotations[p.name].endswith("| None")]:
            self.fail(f"always writes {name}, which may be None: it belongs between < and >")
        parts = self.with_stops(parts)
        holes = [p for part in parts for p in (part.parts if isinstance(part, Maybe) else (part,)) if type(p) is Hole]
        binding = [n for n, hole in enumerate(holes) if hole.what in ("bound", "carried")]
        if binding and not any(hole.what == "block" for hole in holes[binding[-1] :]):
            self.fail(f"names {holes[binding[-1]].name} behind all blocks: none sees it")
        outside = tuple([hole for hole in holes if hole.what in ("operand", "operands", "index")]) if binding else ()
        return Syntax(word, tuple(parts), like, outside)

    def is_written(self, name: str) -> bool:
        role = self.roles.get(name, ("", False))[0]
        return role not in ("defined", "yielded") and self.annotations[name] != _UNWRITTEN

    def split(self, line: str) -> list[Part]:
        parts: list[Part] = []
        inside: list[str | Hole] | None = None
        before, at = "", 0
        for mark in _MARKS.finditer(line + "<"):  # (what follows the last hole is text, too)
            text = line[at : mark.start()]
            if "{" in text or "}" in text:
                self.fail(f"has a hole that is none of {{field}}, {{bound=inits}} and {{buffer:declared}}: {text!r}")
            to: list[Any] = parts if inside is None else inside
            if text:
                to.append(text)
            before, at = before + text, mark.end()
            if mark.start() == len(line):
                break
            if mark[1]:
                to.append(self.hole(mark[1], mark[2], mark[3], before))
                before = ""
            elif mark[0] == "<":
                if inside is not None:
                    self.fail("has a < between < and >")
                inside = []
            elif inside is None:
                self.fail("has a > without a <")
            else:
                parts.append(self.maybe(inside))
                inside = None
        if inside is not None:
            self.fail("has a < without a >")
        return parts

    def hole(self, name: str, sign: str | None, more: str | None, before: str) -> Hole:
        self.take(name)
        role, several = self.roles.get(name, ("", False))
        match role, sign:
            case "bound", "=":
                assert more is not None
                self.take(more)
                if not (several and self.roles.get(more) == ("used", True)):
                    self.fail(f"pairs {name} with {more}: initial values are several operands of as many values")
                return Hole(name, "carried", inits=more)
            case "bound", None:
                return Hole(name, "bound")
            case "nested", None:
                return Hole(name, "block")
            case "used", None:
                return Hole(name, "operand" if not several else "index" if before.endswith("[") else "operands")
            case "", ":" if more == "declared" and self.annotations[name] == "Buffer":
                return Hole(name, "declared")
            case "", None if self.annotations[name] in _WHAT:
                return Hole(name, _WHAT[self.annotations[name]])
            case "", None:
                have = ", ".join(_WHAT)
                self.fail(f"writes {name}, whose annotation is {self.annotations[name]}; what is written are {have}")
            case "defined" | "yielded", _:
                where = "before the statement" if role == "defined" else "at the end of its block"
                self.fail(f"names {name}, which is {role}: it stands {where} by itself")
            case _:
                self.fail(f"has no meaning for {sign}{more} behind {name}")

    def take(self, name: str) -> None:
        if name not in self.fields:
            self.fail(f"names {name!r}, which is no field; there are {', '.join(self.fields) or 'none'}")
        if name in self.written:
            self.fail(f"names {name} twice")
        self.written.append(name)

    def maybe(self, parts: Sequence[str | Hole]) -> Maybe:
        if not (parts and isinstance(parts[0], str) and tokens_of(parts[0])):
            self.fail("has no word or sign behind a <, by which the parser could tell what follows")
        names: list[str] = []
        for hole in [p for p in parts if isinstance(p, Hole)]:
            names += [hole.name, *([hole.inits] if hole.inits else []), *self.last.get(hole.name, ())]
        return Maybe(tuple(parts), {name: self.usual(name) for name in names})

    def usual(self, name: str) -> Any:
        """The value by which a field is not written."""
        role, several = self.roles.get(name, ("", False))
        default = self.fields[name].default
        if several or role == "nested":
            return ()
        if role or not (default is None or isinstance(default, (int, str))):
            self.fail(f"may leave out {name}, which has no default")
        return default

    def with_stops(self, parts: Sequence[Part], behind: tuple[str, ...] = ()) -> list[Any]:
        """The parts, each hole with what may stand behind it."""
        out: list[Any] = []
        for part in reversed(parts):
            match part:
                case str():
                    behind = tuple(tokens_of(part)[:1]) or behind
                case Hole():
                    if part.what == "operands" and out and not behind:
                        self.fail(f"has nothing between {part.name} and what follows, by which a reader knew its end")
                    part = evolve(part, stops=behind)
                    behind = ("{",) if part.what == "block" else behind if part.what == "axis" else ()
                case Maybe():
                    part = evolve(part, parts=tuple(self.with_stops(part.parts, behind)))
                    behind = (*tokens_of(str(part.parts[0]))[:1], *behind)
            out.append(part)
        return out[::-1]
