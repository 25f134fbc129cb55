"""Containers that can change: what is in them, copies of them, and putting a copy's contents back.

A family is a builtin class, or one of `collections` or `array`, with all classes derived from it: methods of the family
itself are used, so no method of the user's runs.
"""

from __future__ import annotations

import gc
import itertools
from array import array
from collections import ChainMap, OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from operator import is_
from types import BuiltinMethodType, MappingProxyType, MemberDescriptorType, MethodType, SimpleNamespace
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.support.equality import strictly_equal
from tracejit.support.type_flags import HEAP_TYPE
from tracejit.tracer.ownership import module_of

__all__ = [
    "contents",
    "copied",
    "family",
    "is_keyed",
    "may_be_counted",
    "merge",
    "namespace_of",
    "refill",
    "same",
    "underlying",
]

_VALUES = frozenset({bool, int, float, complex, str, bytes, type(None), range, slice})
_COUNTED = frozenset({bool, int, float, complex, str, bytes, type(None)})
_NAMESPACES = frozenset({SimpleNamespace, ChainMap, UserDict, UserList})


def _pairs(items: Iterator[tuple[Any, Any]] | Any) -> tuple[Any, ...]:
    return tuple([x for pair in items for x in pair])


_READERS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    OrderedDict: lambda c: _pairs(OrderedDict.items(c)),
    defaultdict: lambda c: (c.default_factory, *_pairs(dict.items(c))),
    dict: lambda c: _pairs(dict.items(c)),
    list: lambda c: tuple(list.__iter__(c)),
    set: lambda c: tuple(set.__iter__(c)),
    deque: lambda c: (c.maxlen, *deque.__iter__(c)),
    bytearray: lambda c: (bytes(c),),
    array: lambda c: (c.typecode, array.tobytes(c)),
}
_KEYED = (OrderedDict, defaultdict, dict)
_families: dict[type, type | None] = {kind: kind for kind in _READERS}


def family(kind: type) -> type | None:
    """The family of a class of containers, None for other classes.

    >>> from collections import Counter
    >>> family(Counter), family(tuple)
    (<class 'dict'>, None)
    """
    if kind.__flags__ & HEAP_TYPE:  # not remembered: the class may go
        return next((base for base in kind.__mro__ if base in _READERS), None)
    return _families.get(kind)


def is_keyed(kind: type) -> bool:
    """Whether a class of containers holds values under keys."""
    return family(kind) in _KEYED


def contents(container: Any) -> tuple[Any, ...]:
    """All that is in a container of a family, in order; of a dict keys and values in turn."""
    base = family(type(container))
    assert base is not None
    return _READERS[base](container)


def namespace_of(value: Any) -> dict[str, Any] | None:
    """The dict of an object that is read without our seeing it and holds nothing but names and values."""
    kind = type(value)
    if kind in _NAMESPACES or (module_of(kind), kind.__name__) == ("argparse", "Namespace"):
        return value.__dict__
    return None


def underlying(proxy: MappingProxyType[Any, Any]) -> Any:
    """The mapping behind a proxy."""
    return next(iter(gc.get_referents(proxy)), None)


def _itself(x: Any) -> Any:
    return x


def copied(
    container: Any, stands_for: Callable[[Any], Any] = _itself, begin: Callable[[Any], None] = lambda made: None
) -> Any:
    """A copy of the same class, with what stands for each item, and key.  Attributes are shared with the container.

    The container itself if its class has slots, and a set none of whose items is another: a copy would go over them in
    another order.
    begin: told of the copy before it is filled.
    """
    kind: Any = type(container)
    base = family(kind)
    if kind is not base and _has_slots(kind):
        for item in contents(container):  # what it holds is met all the same
            stands_for(item)
        return container
    if base is array:
        made_array: Any = array.__new__
        return made_array(kind, container.typecode, array.tobytes(container))
    if base is set:
        items = [stands_for(item) for item in set.__iter__(container)]
        if stands_for is not _itself and all(map(is_, items, container)):
            return container
    else:
        items = []
    made: Any = base.__new__(kind)  # type: ignore[union-attr]
    begin(made)
    if base in _KEYED:
        if base is defaultdict:
            made.default_factory = stands_for(container.default_factory)
        for key, item in base.items(container):  # type: ignore[union-attr]
            base.__setitem__(made, stands_for(key), stands_for(item))  # type: ignore[union-attr]
    elif base is deque:
        deque.__init__(made, [stands_for(item) for item in deque.__iter__(container)], container.maxlen)
    elif base is list:
        list.extend(made, [stands_for(item) for item in list.__iter__(container)])
    elif base is set:
        set.update(made, items)
    else:
        bytearray.extend(made, container)
    if kind.__dictoffset__:
        own = object.__getattribute__(container, "__dict__")
        object.__setattr__(made, "__dict__", made if own is container else own)
    return made


def _has_slots(kind: type) -> bool:
    """Whether a class of containers has slots of its own; `defaultdict` has one that is none of the user's."""
    own = [c for c in kind.__mro__ if c not in _READERS]
    return any(isinstance(x, MemberDescriptorType) for c in own for x in vars(c).values())


def may_be_counted(value: Any) -> bool:
    """Whether a value under a new key may be no cache's: another iteration of a loop would find it,
    and go on from it.
    """
    return type(value) in _COUNTED or isinstance(value, (np.generic, Enum, Dim))


def merge(container: Any, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    """Change a container as a copy of it was changed: contents `before` and `after`.  It may have been changed itself
    meanwhile.
    """
    base = family(type(container))
    now = contents(container)
    if len(now) == len(before) and all(map(is_, now, before)):
        refill(container, after)
    elif base in _KEYED:
        old, new = (
            dict(zip(x[::2], x[1::2], strict=True))
            for x in ((before[1:], after[1:]) if base is defaultdict else (before, after))
        )
        for key in old.keys() - new.keys():
            dict.pop(container, key, None) if base is not OrderedDict else container.pop(key, None)
        for key, item in new.items():
            if key not in old or old[key] is not item:
                base.__setitem__(container, key, item)  # type: ignore[union-attr]
    elif base is set:
        set.difference_update(container, set(before) - set(after))
        set.update(container, set(after) - set(before))
    elif base in (list, deque) and len(after) >= len(before) and all(map(is_, before, after)):
        base.extend(container, after[len(before) :])  # type: ignore[union-attr]
    else:
        refill(container, after)


def refill(container: Any, items: tuple[Any, ...]) -> None:
    """Make `items`, as `contents` gives them, what is in a container."""
    base = family(type(container))
    if base in _KEYED:
        pairs = items[1:] if base is defaultdict else items
        wanted = list(zip(pairs[::2], pairs[1::2], strict=True))
        if len(wanted) < len(container) or not all(map(is_, [key for key, _ in wanted], dict.keys(container))):
            dict.clear(container) if base is not OrderedDict else OrderedDict.clear(container)
        for key, item in wanted:
            base.__setitem__(container, key, item)  # type: ignore[union-attr]
    elif base is list:
        list.__setitem__(container, slice(None), items)
    elif base is set:
        set.clear(container)
        set.update(container, _in_order_of_insertion(items))
    elif base is deque:
        deque.clear(container)
        deque.extend(container, items[1:])
    elif base is bytearray:
        container[:] = items[0]
    elif base is array:
        made: Any = array
        container[:] = made(*items)


def _in_order_of_insertion(items: tuple[Any, ...]) -> Iterable[Any]:
    """The items of a set in an order in which a new set has to get them to go over them as they are given.

    Where hashes collide, it is not always the same order.  It is searched for among all of a small set, and a few of
    others, as a set may have been larger once; any order is right but for that.
    """
    orders: Iterable[Iterable[Any]] = itertools.permutations(items) if len(items) <= 6 else (items, items[::-1])
    return next((order for order in orders if all(map(is_, set(order), items))), items)


def same(one: Any, two: Any) -> bool:
    """Whether two values are one for a program: the same object, or equal numbers, strings and tuples of them."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if type(one) is tuple:
        return len(one) == len(two) and all(map(same, one, two))
    if type(one) in _VALUES or isinstance(one, np.generic):
        return strictly_equal(one, two)
    return isinstance(one, (MethodType, BuiltinMethodType)) and bool(one == two)
