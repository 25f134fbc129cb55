"""Enumerations that other packages extend, by members that may carry values.

A member is text, equal to it, and there is one object for each: `SPACES("shared")`.  What carries values is a frozen
class, of attrs or of `support.nodes`, that is registered under a word; its members are written as calls:

    @SPACES.register("bank")
    @attrs.frozen
    class Bank:
        number: int

    SPACES(Bank(3)) is SPACES("bank(3)")

    match buffer.space.value:
        case Bank(number=3): ...

Text that nobody knows is a member too, whose value is `Undefined`; who needs to know it refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tracejit.support.errors import UserError
from tracejit.support.nodes import fields_of, frozen

__all__ = ["Member", "Members", "Undefined"]

T = TypeVar("T", bound=type)
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_KINDS: dict[str, tuple[Callable[[str], Any], re.Pattern[str]]] = {
    "int": (int, re.compile(r"-?\d+")),
    "bool": (lambda text: text == "true", re.compile("true|false")),
    "str": (str, re.compile(r"[A-Za-z_]\w*")),
}
"""Of the values: how text is read, and what text there is."""


@frozen
class Undefined:
    """What a member carries whose text nobody has registered."""

    text: str


class Member(str):
    """A member of an enumeration: its text.  value: what it carries; None where that is nothing."""

    value: Any
    enumeration: str

    @property
    def word(self) -> str:
        """Without the values."""
        return self.partition("(")[0]

    @property
    def known(self) -> bool:
        """Whether somebody has registered it."""
        return not isinstance(self.value, Undefined)

    def __reduce__(self) -> Any:
        return _restored, (self.enumeration, str(self))


_ALL: dict[str, Members] = {}


def _restored(enumeration: str, text: str) -> Member:
    return _ALL[enumeration](text)


class Members:
    """An enumeration.  what: one of its members, in words.  names: those that carry nothing.

    >>> from tracejit.support.members import Members
    >>> from tracejit.support.nodes import frozen
    >>> COLOURS = Members("colour", "red", "blue")
    >>> @COLOURS.register("grey")
    ... @frozen
    ... class Grey:
    ...     percent: int
    >>> COLOURS(Grey(40)), COLOURS("grey( 40 )").value, COLOURS("red") == "red", COLOURS("mauve").known
    ('grey(40)', Grey(percent=40), True, False)
    """

    def __init__(self, what: str, *names: str) -> None:
        self.what = what
        self._members: dict[str, Member] = {}
        self._kinds: dict[str, type] = {}
        _ALL[what] = self
        for name in names:
            self.add(name)

    def add(self, name: str) -> Member:
        """A new member that carries nothing.   Raises: UserError where there is one of this name."""
        self._free(name)
        return self._interned(name, None)

    def register(self, word: str) -> Callable[[T], T]:
        """Make members of what a class can carry: for a frozen class whose fields are int, bool, or names (str).

        Raises: UserError.
        """
        self._free(word)

        def registered(kind: T) -> T:
            types = [_type_of(kind, f.name) for f in fields_of(kind)]
            if not types or not set(types) <= set(_KINDS):
                raise UserError(
                    f"{self.what} {word!r}: {kind.__name__} is no frozen class whose fields are int, bool or str"
                )
            if kind.__setattr__ is object.__setattr__ or kind.__hash__ is None:
                raise UserError(f"{self.what} {word!r}: {kind.__name__} can be changed; make it with attrs.frozen")
            self._kinds[word] = kind
            for text in [t for t, member in self._members.items() if not member.known and member.word == word]:
                del self._members[text]  # known from now on
            return kind

        return registered

    def unregister(self, word: str) -> None:
        """Forget what was added or registered.   Raises: KeyError."""
        if self._kinds.pop(word, None) is None and not self._members[word].known:
            raise KeyError(word)
        for text in [t for t, member in self._members.items() if member.word == word]:
            del self._members[text]

    def __iter__(self) -> Iterator[str]:
        """The names of members that carry nothing, and the forms of the others."""
        yield from (text for text, member in self._members.items() if member.value is None)
        for word, kind in self._kinds.items():
            yield f"{word}({', '.join(f.name for f in fields_of(kind))})"

    def __call__(self, x: Any) -> Member:
        """The member of a text, or that carries a value.  Text that nobody knows gives one whose value is `Undefined`.

        Raises: UserError for a value of a class that is not registered, or that cannot be written.
        """
        found = self._members.get(x) if isinstance(x, str) else None
        if found is not None:
            return found
        if isinstance(x, str):
            return self._parsed(x)
        word = next((w for w, kind in self._kinds.items() if type(x) is kind), None)
        if word is None:
            raise UserError(f"{x!r:.60} is no {self.what}: register its class; registered are {', '.join(self)}")
        values: list[str] = []
        for f in fields_of(type(x)):
            value, kind = getattr(x, f.name), _type_of(type(x), f.name)
            text = str(value).lower() if kind == "bool" else str(value)
            if type(value).__name__ != kind or not _KINDS[kind][1].fullmatch(text):
                raise UserError(
                    f"{self.what} {word!r}: {f.name} is {value!r:.40}, which is no {kind} that can be written"
                )
            values.append(text)
        text = f"{word}({', '.join(values)})"
        return self._members.get(text) or self._interned(text, x)

    def _parsed(self, text: str) -> Member:
        """The member of a text that is not there yet."""
        match = _CALL.fullmatch(text)
        word, inside = match.groups() if match else (text, None)
        if inside is None:
            return self._members.get(word) or self._interned(word, Undefined(word))
        parts = [p.strip() for p in inside.split(",")]
        kind = self._kinds.get(word)
        if kind is not None:
            types = [_type_of(kind, f.name) for f in fields_of(kind)]
            if len(parts) == len(types) and all(_KINDS[t][1].fullmatch(p) for t, p in zip(types, parts, strict=True)):
                return self(kind(*[_KINDS[t][0](p) for t, p in zip(types, parts, strict=True)]))
        text = f"{word}({', '.join(parts)})"
        return self._members.get(text) or self._interned(text, Undefined(text))

    def _free(self, word: str) -> None:
        if not word.isidentifier():
            raise UserError(f"{self.what} {word!r} is no name")
        if word in self._kinds or (word in self._members and self._members[word].known):
            raise UserError(f"there is a {self.what} {word!r} already")

    def _interned(self, text: str, value: Any) -> Member:
        made = Member(text)
        made.value, made.enumeration = value, self.what
        self._members[text] = made
        return made


def _type_of(kind: type, name: str) -> str:
    """The annotation of a field, by name."""
    for cls in kind.__mro__:
        found = getattr(cls, "__annotations__", {}).get(name)
        if found is not None:
            return found if isinstance(found, str) else getattr(found, "__name__", str(found))
    return ""
