"""Weak collections that run no Python code when a key dies.

The standard library's remove a dead key in a callback.  The garbage collector calls it, and a Ctrl-C that arrived
meanwhile is raised in there, where it is printed and lost.  These forget dead keys when they next grow.
"""

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_FEW = 64  # entries below which nothing is searched for the dead


class WeakMap(Generic[K, V]):
    """Values by the identity of objects that it does not keep alive.  Not safe for threads that write at once.

    >>> class Key: pass
    >>> key, map = Key(), WeakMap()
    >>> map[key] = 1
    >>> map.get(key), len(map)
    (1, 1)
    >>> del key
    >>> len(map)
    0
    """

    __slots__ = ("_entries", "_many")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}
        self._many = _FEW

    def get(self, key: K) -> V | None:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def __setitem__(self, key: K, value: V) -> None:
        if len(self._entries) >= self._many:
            self._entries = {k: entry for k, entry in self._entries.items() if entry[0]() is not None}
            self._many = 2 * len(self._entries) + _FEW
        self._entries[id(key)] = weakref.ref(key), value

    def __iter__(self) -> Iterator[K]:
        for ref, _ in list(self._entries.values()):
            if (key := ref()) is not None:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)
