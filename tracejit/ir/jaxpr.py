"""The jaxpr: a typed, pure, single-assignment program over whole arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from tracejit.ir.extents import Dim, Extent, substituted
from tracejit.ir.primitive import Primitive
from tracejit.ir.printed import printed
from tracejit.ir.types import ShapedArray
from tracejit.support.nodes import evolve, field, fields_of, frozen
from tracejit.support.source import Location

__all__ = [
    "Atom", "Equation", "Jaxpr", "Literal", "Var", "bound_symbols", "calls_python", "primitive_with_extents",
    "primitives_of", "symbols_of", "symbols_used", "with_extents",
]  # fmt: skip

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


# -- extents -----------------------------------------------------------------------------------------------------------
def symbols_of(jaxpr: Jaxpr) -> frozenset[str]:
    """The symbols in the shapes and parameters of a program, and of those inside of it."""
    found: set[str] = set()

    def note(n: Dim) -> Dim:
        found.update(n.symbols())
        return n

    _Extents(note).jaxpr(jaxpr)
    return frozenset(found)


def primitives_of(primitive: Primitive) -> Iterator[Primitive]:
    """A primitive, and those that it runs."""
    yield primitive
    if primitive.runs_jaxprs:
        for value in primitive.parameters().values():
            for jaxpr in value if isinstance(value, tuple) else (value,):
                if isinstance(jaxpr, Jaxpr):
                    for e in jaxpr.equations:
                        yield from primitives_of(e.primitive)


def calls_python(primitive: Primitive) -> bool:
    """Whether a primitive, or what it runs, calls functions of the user's."""
    return primitive.calls_python or (primitive.runs_jaxprs and any(p.calls_python for p in primitives_of(primitive)))


def with_extents(jaxpr: Jaxpr, values: Mapping[str, Extent]) -> Jaxpr:
    """The program with other extents in place of some symbols."""
    return _Extents(lambda n: substituted(n, values)).jaxpr(jaxpr)


def primitive_with_extents(primitive: Primitive, values: Mapping[str, Extent]) -> Primitive:
    """The primitive with other extents in place of some symbols among its parameters."""
    return _Extents(lambda n: substituted(n, values)).of(primitive)


def bound_symbols(equations: Iterable[Equation]) -> dict[str, Equation]:
    """The symbols of extents that equations bind, and by which."""
    return {getattr(e.primitive, e.primitive.binds): e for e in equations if e.primitive.binds}


def symbols_used(equation: Equation) -> frozenset[str]:
    """The symbols in the shapes and parameters of an equation, but for one that it binds."""
    return symbols_of(Jaxpr([], [equation], []))


class _Extents:
    """A copy of a program, each symbolic extent in it as `change` gives it."""

    def __init__(self, change: Any) -> None:
        self.change = change

    def jaxpr(self, jaxpr: Jaxpr) -> Jaxpr:
        new: dict[Var, Var] = {}

        def variable(v: Var) -> Var:
            if v not in new:
                new[v] = Var(self.of(v.aval))
            return new[v]

        def atom(a: Atom) -> Atom:
            return variable(a) if isinstance(a, Var) else a

        inputs = [variable(v) for v in jaxpr.inputs]
        equations = [
            Equation(
                self.of(e.primitive),
                tuple([atom(a) for a in e.inputs]),
                tuple([variable(v) for v in e.outputs]),
                e.location,
            )
            for e in jaxpr.equations
        ]
        return Jaxpr(inputs, equations, [atom(a) for a in jaxpr.outputs])

    def of(self, x: Any) -> Any:
        """What a field holds, or the whole node."""
        if type(x) is Dim:
            return self.change(x)
        if isinstance(x, Jaxpr):
            return self.jaxpr(x)
        if type(x) is tuple:
            made = tuple([self.of(y) for y in x])
            return x if all(a is b for a, b in zip(x, made, strict=True)) else made
        if isinstance(x, (Primitive, ShapedArray)):
            given = {f.name: getattr(x, f.name) for f in fields_of(type(x)) if f.init}
            made = {name: self.of(value) for name, value in given.items()}
            return x if all(given[name] is made[name] for name in given) else evolve(x, **made)
        return x
