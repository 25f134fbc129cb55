"""What `vars(x)` and `x.__dict__` are in a traced function: a dict that reads and stores attributes as dots do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from tracejit.tracer.methods import Attributes
from tracejit.tracer.places import MISSING, NamesPlace, Place

__all__ = ["OwnAttributes"]


def _names(owner: Any) -> list[str]:
    return list(dict.keys(object.__getattribute__(owner, "__dict__")))


class OwnAttributes(dict[str, Any]):
    """The own attributes of an object from outside.

    attributes: how they are read and stored.  note: told of places that count, and what they hold.
    """

    __slots__ = ("_attributes", "_note", "owner")
    # a dict's own methods would look into itself
    get: Any = MutableMapping.get
    keys: Any = MutableMapping.keys
    values: Any = MutableMapping.values
    items: Any = MutableMapping.items
    update: Any = MutableMapping.update
    setdefault: Any = MutableMapping.setdefault
    clear: Any = MutableMapping.clear
    __eq__: Any = MutableMapping.__eq__
    __ne__: Any = MutableMapping.__ne__

    def __init__(self, owner: Any, attributes: Attributes, note: Callable[[Place, Any], None]) -> None:
        dict.__init__(self)
        self.owner, self._attributes, self._note = owner, attributes, note

    def show(self) -> None:
        """Have what functions written in C find in a dict without asking it."""
        dict.clear(self)
        dict.update(self, self.copy())

    def _own(self) -> dict[str, Any]:
        return object.__getattribute__(self.owner, "__dict__")

    def _all_names(self) -> list[str]:
        """The names, all of which count."""
        place = NamesPlace.of(self.owner, _names)
        self._note(place, place.names)
        return _names(self.owner)

    def __getitem__(self, name: str) -> Any:
        value = dict.get(self._own(), name, MISSING)
        if value is MISSING:
            self._attributes.found(self.owner, name, MISSING)
            raise KeyError(name)
        return self._attributes.found(self.owner, name, value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._attributes.store(
            self.owner, name, lambda _owner, name, value: dict.__setitem__(self._own(), name, value), value
        )

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._attributes.store(self.owner, name, lambda _owner, name: dict.__delitem__(self._own(), name))

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._all_names())

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._all_names())

    def __len__(self) -> int:
        return len(self._all_names())

    def __repr__(self) -> str:
        return repr(self.copy())

    def copy(self) -> dict[str, Any]:
        return {name: self[name] for name in self}

    __copy__ = copy

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def pop(self, name: str, *default: Any) -> Any:
        if default and name not in self:
            return default[0]
        found = self[name]
        del self[name]
        return found

    def popitem(self) -> tuple[str, Any]:
        names = self._all_names()
        if not names:
            raise KeyError("popitem(): dictionary is empty")
        return names[-1], self.pop(names[-1])

    def __or__(self, other: Any) -> Any:
        return dict.__or__(self.copy(), other)

    def __ror__(self, other: Any) -> Any:
        return dict.__or__(other, self.copy())

    def __ior__(self, other: Any) -> OwnAttributes:  # pyright: ignore[reportIncompatibleMethodOverride] -- any of dict's
        self.update(other)
        return self
