"""Items of Python's lists, tuples and dicts at an index or key that only the program knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.api.conditions import is_hashed, key_of, value_of_branch
from tracejit.api.containers import give_one_of
from tracejit.api.deciding import is_decided, is_open, python_bool, site_of
from tracejit.ir.extents import Dim
from tracejit.support.tree import flatten, map_tree
from tracejit.tracer.absence import absence_of, unmarked
from tracejit.tracer.failures import Raised
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["item"]

_NUMBERS = (bool, int, float, complex, Dim)
_MOST = 64
"""Items that are no numbers, between which as many branches choose, and keys of a dict."""


def item(holder: Any, index: Any, here: Callable[[], Any]) -> Any:
    """`holder[index]`.   here: a function of the place.

    An index out of range is an IndexError of the program, a key that there is not a KeyError.
    """
    if isinstance(index, (Dim, tuple)) and is_hashed(holder):
        index = key_of(index)
    if type(index) is not Tracer or index.shape or index.dtype.kind not in "iub":
        return holder[index]
    absence = absence_of(index)
    if absence is not None:  # None is no index
        absence.use()
        index = unmarked(index)
    kind: Any = type(holder)
    if issubclass(kind, (list, tuple)) and kind.__getitem__ in (list.__getitem__, tuple.__getitem__):
        plain: Any = list if isinstance(holder, list) else tuple
        items = [*plain.__iter__(holder)]  # whatever a subclass iterates over
        if not items or not _is_index(index) or not _is_chosen(items) or not is_open(index):
            return holder[index]
        place = index.astype(np.int64) if index.dtype.kind == "b" else index  # as an index, a bool would be a mask
        return give_one_of(items, _at(items, OPERATORS.getitem(np.arange(len(items)), place), here))
    if kind is dict and holder and len(holder) <= _MOST and all(type(k) in (int, bool) for k in holder):
        if not _is_chosen(list(holder.values())) or not is_open(index):
            return holder[index]
        return _of_key(holder, index, here)
    return holder[index]


def _is_index(index: Tracer) -> bool:
    """Whether Python takes a number for an index: bools of its own, none of NumPy's."""
    return index.dtype.kind != "b" or index.aval.weak


def _is_chosen(items: Sequence[Any]) -> bool:
    """Whether the program can choose between items: numbers of one kind, or few numbers, arrays and tuples of them."""
    if len(items) > _MOST:
        return _table(items) is not None
    leaves = flatten(list(items))[0]
    return all(type(x) in _NUMBERS or isinstance(x, (np.generic, np.ndarray, Tracer)) for x in leaves)


def _table(items: Sequence[Any]) -> Any:
    """Numbers of one kind as an array; None of others."""
    kinds = {type(x) for x in items}
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is int:
        fits = all(-(2**63) <= x < 2**63 for x in items)
        return np.array(items, np.int64) if fits else None
    return np.array(items) if kind in (bool, float) or (issubclass(kind, np.generic) and kind is not np.void) else None


def _at(items: Sequence[Any], place: Any, here: Callable[[], Any]) -> Any:
    """The item at a place that there is."""
    items = map_tree(lambda x: OPERATORS.number_of_extents(x) if isinstance(x, Dim) else x, list(items))
    first = items[0]
    if all(x is first for x in items):
        return first
    table = _table(items)
    if table is not None and table.dtype.kind in "iufcb":
        found = OPERATORS.getitem(table, place)
        return found if isinstance(first, np.generic) else found.as_python_number()
    if type(first) is tuple and all(type(x) is tuple and len(x) == len(first) for x in items):
        return tuple([_at([x[k] for x in items], place, here) for k in range(len(first))])
    half, site = len(items) // 2, site_of(here)
    low, high, before = items[:half], items[half:], python_bool(place < half)
    if is_decided(site) or not is_open(before):
        return items[place]
    return value_of_branch(before, lambda: _at(low, place, here), lambda: _at(high, place - half, here), site)


def _of_key(holder: Mapping[Any, Any], key: Tracer, here: Callable[[], Any]) -> Any:
    """The value of a key of a dict of integers."""
    keys = [int(k) for k in holder]
    same: list[Any] = [np.equal(key, k) for k in keys]
    place: Any = np.int64(0)
    found: Any = np.False_
    for n, x in enumerate(same):
        place, found = np.where(x, np.int64(n), place), np.logical_or(found, x)
    OPERATORS.check_none(np.logical_not(found), Raised(KeyError("a key that the program computes is not in the dict")))
    items = list(holder.values())
    return give_one_of(items, _at(items, place, here))
