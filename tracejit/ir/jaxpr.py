"""The jaxpr: a typed, pure, single-assignment program over whole arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, TypeAlias

from tracejit.ir.primitive import Primitive
from tracejit.ir.printed import printed
from tracejit.ir.types import ShapedArray
from tracejit.support.nodes import field, frozen
from tracejit.support.source import Location

__all__ = ["Atom", "Equation", "Jaxpr", "Literal", "Var"]

_ids = itertools.count()


class Var:
    """One array value of a jaxpr; compared by identity."""

    __slots__ = ("aval", "id")

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval
        self.id = next(_ids)

    def __repr__(self) -> str:
        return f"v{self.id}:{self.aval}"


class Literal:
    """A scalar constant written into the program."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray) -> None:
        self.value = aval.dtype.type(value)
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.value}:{self.aval}"


Atom: TypeAlias = Var | Literal


@frozen(eq=False)
class Equation:
    """`outputs = primitive inputs`, with the user's line that asked for it."""

    primitive: Primitive
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    location: Location | None = None


def _tuple(x: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(x)


@frozen(eq=False)
class Jaxpr:
    """Inputs, equations in order, outputs.  Captured arrays are ordinary inputs that come after the arguments.

    Two jaxprs are equal when they print the same: names are renumbered, so this is equality up to renaming.
    """

    inputs: tuple[Var, ...] = field(converter=_tuple)
    equations: tuple[Equation, ...] = field(converter=_tuple)
    outputs: tuple[Atom, ...] = field(converter=_tuple)
    _text: list[str] = field(factory=list, init=False)

    def __str__(self) -> str:
        if not self._text:
            self._text.append(printed("jaxpr", self))
        return self._text[0]

    def __repr__(self) -> str:
        return f"Jaxpr(inputs={self.inputs!r}, equations={self.equations!r}, outputs={self.outputs!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Jaxpr) and str(self) == str(other))

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def in_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.inputs)

    @property
    def out_avals(self) -> tuple[ShapedArray, ...]:
        return tuple(v.aval for v in self.outputs)
