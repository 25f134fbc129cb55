"""Places outside of a traced function that it can read: each can be read again,
to see whether it still holds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any

from tracejit.support.nodes import frozen
from tracejit.tracer.contents import contents
from tracejit.tracer.ownership import is_users_type

__all__ = [
    "MISSING", "AttributePlace", "CallPlace", "CellPlace", "ClassPlace", "ComputedPlace", "ContentsPlace",
    "FunctionPlace", "ItemPlace", "KindPlace", "NamePlace", "NamesPlace",
    "OwnDictPlace", "Place", "SlotPlace", "StandIn", "default_of",
    "held_by_class", "is_same", "number_said",
]  # fmt: skip


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Any = _Missing()
"""What a place holds where there is nothing."""


class StandIn:
    """What a class holds in place of `original` while a function that uses the class is traced."""

    __slots__ = ("original",)

    def __init__(self, original: Any) -> None:
        self.original = original

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] -- isinstance() sees what it stands for
        return type(self.original)

    def said(self, instance: Any) -> Any:
        """What the method it stands for gives of an instance."""
        return self.original(instance)


def held_by_class(kind: type, name: str) -> Any:
    """What a class and those it inherits from hold under a name, `MISSING` if none does."""
    for base in kind.__mro__:
        found = base.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found.original if isinstance(found, StandIn) else found
    return MISSING


def number_said(x: Any, name: str) -> Any:
    """What a method as `__float__` of an object of the user's gives, before Python makes a number of it; `MISSING`
    where the object is not the user's or has no such method in Python.
    """
    if not is_users_type(type(x)) or type(held_by_class(type(x), name)) is not FunctionType:
        return MISSING
    held = next(vars(base)[name] for base in type(x).__mro__ if name in vars(base))
    return held.said(x) if isinstance(held, StandIn) else held(x)


def default_of(kind: type, name: str) -> Any:
    """The value that a class holds for instances without one of their own, `MISSING` if there is none:
    methods and properties are none.
    """
    held = held_by_class(kind, name)
    return MISSING if hasattr(type(held), "__get__") else held


@frozen(eq=False)
class NamePlace:
    """A name in a module's namespace."""

    namespace: dict[str, Any]
    name: str

    def identity(self) -> tuple[Any, ...]:
        return NamePlace, id(self.namespace), self.name

    def read(self) -> Any:
        return self.namespace.get(self.name, MISSING)

    def __str__(self) -> str:
        return f"the global {self.name!r}"


@frozen(eq=False)
class CellPlace:
    """A variable of an enclosing function."""

    cell: CellType
    name: str

    def identity(self) -> tuple[Any, ...]:
        return CellPlace, id(self.cell), None

    def read(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING

    def __str__(self) -> str:
        return f"{self.name!r} of an enclosing function"


@frozen(eq=False)
class AttributePlace:
    """An attribute kept in an object's own `__dict__`, or the lack of one that would hide what the class has."""

    owner: Any
    name: str

    def identity(self) -> tuple[Any, ...]:
        return AttributePlace, id(self.owner), self.name

    def read(self) -> Any:
        return object.__getattribute__(self.owner, "__dict__").get(self.name, MISSING)

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of a {type(self.owner).__name__}"


@frozen(eq=False)
class OwnDictPlace:
    """The dict of an object's own attributes, which it can be given anew."""

    owner: Any

    def identity(self) -> tuple[Any, ...]:
        return OwnDictPlace, id(self.owner), None

    def read(self) -> Any:
        return object.__getattribute__(self.owner, "__dict__")

    def __str__(self) -> str:
        return f"the attributes of a {type(self.owner).__name__}"


@frozen(eq=False)
class ClassPlace:
    """An attribute of a class or of one that it inherits from: data, a method, a property, or nothing."""

    kind: type
    name: str

    def identity(self) -> tuple[Any, ...]:
        return ClassPlace, id(self.kind), self.name

    def read(self) -> Any:
        return held_by_class(self.kind, self.name)

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of the class {self.kind.__name__}"


@frozen(eq=False)
class KindPlace:
    """The class of an object."""

    owner: Any

    def identity(self) -> tuple[Any, ...]:
        return KindPlace, id(self.owner), None

    def read(self) -> Any:
        return type(self.owner)

    def __str__(self) -> str:
        return f"the class of a {type(self.owner).__name__}"


@frozen(eq=False)
class SlotPlace:
    """An attribute of an object of a class with `__slots__`."""

    owner: Any
    slot: MemberDescriptorType

    def identity(self) -> tuple[Any, ...]:
        return SlotPlace, id(self.owner), id(self.slot)

    def read(self) -> Any:
        try:
            return self.slot.__get__(self.owner)
        except AttributeError:
            return MISSING

    def __str__(self) -> str:
        return f"the attribute {self.slot.__name__!r} of a {type(self.owner).__name__}"


@frozen(eq=False)
class ComputedPlace:
    """An attribute that a class written in C computes from what an object holds:
    `value` of a number of ctypes, a field of a structure.
    """

    owner: Any
    name: str
    descriptor: Any

    def identity(self) -> tuple[Any, ...]:
        return ComputedPlace, id(self.owner), self.name

    def read(self) -> Any:
        try:
            return self.descriptor.__get__(self.owner, type(self.owner))
        except Exception:  # the trace meets it again
            return MISSING

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of a {type(self.owner).__name__}"


@frozen(eq=False)
class ItemPlace:
    """One item of a dict, whatever else is in it."""

    container: dict[Any, Any]
    key: Any

    def identity(self) -> tuple[Any, ...]:
        return ItemPlace, id(self.container), self.key

    def read(self) -> Any:
        return dict.get(self.container, self.key, MISSING)

    def __str__(self) -> str:
        return f"item {self.key!r} of a {type(self.container).__name__}"


@frozen(eq=False)
class ContentsPlace:
    """All that is in a container (see `contents`)."""

    container: Any

    def identity(self) -> tuple[Any, ...]:
        return ContentsPlace, id(self.container), None

    def read(self) -> tuple[Any, ...]:
        return contents(self.container)

    def __str__(self) -> str:
        return f"what is in a {type(self.container).__name__}"


@frozen(eq=False)
class FunctionPlace:
    """What a function can be given anew: `__code__`, `__defaults__`, `__kwdefaults__`."""

    function: FunctionType
    name: str

    def identity(self) -> tuple[Any, ...]:
        return FunctionPlace, id(self.function), self.name

    def read(self) -> Any:
        return getattr(self.function, self.name)

    def __str__(self) -> str:
        return f"{self.name} of {self.function.__qualname__}"


@frozen(eq=False)
class NamesPlace:
    """Which names there are in a namespace, class or object, as `listing` gives them: `names` when it was made."""

    owner: Any
    listing: Callable[[Any], Iterable[str]]
    names: tuple[str, ...]

    @staticmethod
    def of(owner: Any, listing: Callable[[Any], Iterable[str]]) -> NamesPlace:
        """The place as it is now."""
        return NamesPlace(owner, listing, tuple(listing(owner)))

    def identity(self) -> tuple[Any, ...]:
        return NamesPlace, id(self.owner), id(self.listing)

    def read(self) -> tuple[str, ...]:
        now = tuple(self.listing(self.owner))
        return self.names if now == self.names else now

    def __str__(self) -> str:
        kind = type(self.owner).__name__
        return "the names of " + (self.owner.__name__ if kind in ("type", "module") else f"a {kind}")


@frozen(eq=False)
class CallPlace:
    """What a function that remembers its results gives for these arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def identity(self) -> tuple[Any, ...]:
        return (
            CallPlace,
            id(self.function),
            tuple(map(id, self.args)),
            tuple([(k, id(x)) for k, x in self.kwargs.items()]),
        )

    def read(self) -> Any:
        try:
            return self.function(*self.args, **self.kwargs)
        except Exception:  # the trace meets it again
            return MISSING

    def __str__(self) -> str:
        return f"the remembered result of {getattr(self.function, '__qualname__', self.function)}"


Place = (
    NamePlace | CellPlace | AttributePlace | OwnDictPlace | SlotPlace | ComputedPlace | ClassPlace | KindPlace
    | ItemPlace | ContentsPlace | FunctionPlace | NamesPlace
    | CallPlace
)  # fmt: skip


def is_same(one: Any, two: Any) -> bool:
    """Whether what a place holds is what it held.  Bytes are compared: those of a bytearray are made at each look."""
    return one is two or (type(one) is type(two) is bytes and one == two)
