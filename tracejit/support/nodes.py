"""Frozen attrs classes that cost little to make.

The package has some 200 of them, and generated comparisons, hashes and reprs would take half of its import time; these share theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tracejit.support.errors import TracejitError

__all__ = ["node", "value"]

if TYPE_CHECKING:
    from attrs import frozen as node, frozen as value
else:

    def node(cls: type) -> type:
        """`attrs.frozen` compared by identity (or as a base class says), without a generated repr."""
        if _adds_nothing(cls):
            return cls
        return attrs.define(cls, frozen=True, eq=False, repr=False)

    def value(cls: type) -> type:
        """`attrs.frozen` compared by class and fields, with functions that all such classes share."""
        if _adds_nothing(cls) and cls.__eq__ is _equal:
            return cls
        for name, function in (("__eq__", _equal), ("__hash__", _hash), ("__repr__", _show)):
            if name not in cls.__dict__:
                setattr(cls, name, function)
        return attrs.define(cls, frozen=True, eq=False, repr=False)


def _adds_nothing(cls: type) -> bool:
    """Whether an attrs class has the fields of its base and no others: then it is one without further work."""
    return not cls.__annotations__ and hasattr(cls.__base__, "__attrs_attrs__")


def _fields(x: Any) -> tuple[Any, ...]:
    return tuple([getattr(x, a.name) for a in x.__attrs_attrs__])


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if type(other) is not type(self):
        return NotImplemented
    try:
        return _fields(self) == _fields(other)
    except TracejitError:  # symbolic extents whose order is open: as values of an IR they are equal if they are written alike
        return _alike(_fields(self), _fields(other))


def _alike(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_alike, a, b))
    same = getattr(a, "same", None) or getattr(b, "same", None)
    return (type(a) is type(b) and bool(same(b))) if same is not None else bool(a == b)


def _hash(self: Any) -> int:
    return hash((type(self), _fields(self)))


def _show(self: Any) -> str:
    shown = ", ".join(f"{a.name}={getattr(self, a.name)!r}" for a in self.__attrs_attrs__)
    return f"{type(self).__name__}({shown})"
