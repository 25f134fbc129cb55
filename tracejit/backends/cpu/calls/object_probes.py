"""Whether this interpreter's objects lie in memory as `object_words.py` says: tried on live ones."""

from __future__ import annotations

import ctypes
import sys
from collections import OrderedDict, defaultdict
from functools import cache
from types import CellType
from typing import Any

from tracejit.backends.cpu.calls.object_words import (
    ORDERED_STATE,
    SET_MASK,
    SET_TABLE,
    SET_USED,
    Unwatchable,
    cell_checks,
    contents_checks,
    dict_checks,
    hold,
    slot_checks,
    word_at,
)
from tracejit.tracer.places import MISSING

__all__ = ["contents_are_understood", "dicts_are_understood"]


class _Sample:
    def __init__(self) -> None:
        self.first, self.second = object(), object()


class _Slotted:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first, self.second = object(), object()


@cache
def dicts_are_understood() -> bool:
    """Whether checks see every change, tried on live dicts: of a module, of an object,
    with keys that are no strings.
    """
    try:
        return (
            all(_sees_changes(namespace) for namespace in _samples())
            and all(_sees_new_names(namespace) for namespace in _samples())
            and all(
                map(_sees_contents, ({"a": 1, "b": 2}, {1: 1, "b": 2}, _Sample().__dict__, defaultdict(int, {"a": 1})))
            )
            and _sees_contents([1, 2])
            and _cell_is_understood()
            and _slot_is_understood()
        )
    except Unwatchable:
        return False


def contents_are_understood(base: type | None) -> bool:
    """Whether checks see every change of what a container of this class of Python's holds."""
    return _sets_are_understood() if base is set else base is not OrderedDict or _orders_are_understood()


def _samples() -> list[dict[Any, Any]]:
    plain: dict[Any, Any] = {f"name{n}": object() for n in range(9)}
    del plain["name3"]
    mixed: dict[Any, Any] = {1: object(), "two": object(), (3,): object()}
    return [plain, mixed, _Sample().__dict__, dict(vars(sys))]


def _sees_changes(namespace: dict[Any, Any]) -> bool:
    name = list(namespace)[1]
    before = namespace[name]
    if not hold(dict_checks(namespace, [(name, before)])):
        return False
    checks = dict_checks(namespace, [(name, before)])
    namespace[name] = object()
    if hold(checks):
        return False
    namespace[name] = before
    if not hold(checks):
        return False
    del namespace[name]
    return not hold(checks)


def _sees_new_names(namespace: dict[Any, Any]) -> bool:
    checks = dict_checks(namespace, [("a new name", MISSING)])
    if not hold(checks):
        return False
    namespace["a new name"] = 1
    return not hold(checks)


def _sees_contents(container: Any) -> bool:
    """Whether another item, one more and one less are seen."""
    for change in (_exchange, _grow, _shrink):
        checks, blocks = contents_checks(container)
        before = [ctypes.string_at(address, 8 * count) for address, count in blocks]
        if not hold(checks) or container != container.copy():
            return False
        change(container)
        if hold(checks) and [ctypes.string_at(address, 8 * count) for address, count in blocks] == before:
            return False
    return True


def _exchange(container: Any) -> None:
    if isinstance(container, set):
        container.discard(next(iter(container)))
        container.add(object())
    else:
        container[next(iter(container)) if isinstance(container, dict) else 0] = object()


def _grow(container: Any) -> None:
    container.add(object()) if isinstance(container, set) else container.update(new=1) if isinstance(
        container, dict
    ) else container.append(1)


def _shrink(container: Any) -> None:
    container.popitem() if isinstance(container, dict) else container.pop()


@cache
def _sets_are_understood() -> bool:
    sample: set[Any] = {1, "a", (2, 3)}
    at = id(sample)
    if word_at(at + SET_USED) != 3 or word_at(at + SET_MASK) != 7:
        return False
    entries = (ctypes.c_size_t * 16).from_address(word_at(at + SET_TABLE))
    return {x for x in entries[::2] if x} == {id(x) for x in sample} and all(
        _sees_contents(x) for x in (sample, set(range(100)))
    )


@cache
def _orders_are_understood() -> bool:
    sample: OrderedDict[str, int] = OrderedDict(a=1, b=2)
    if OrderedDict.__basicsize__ < ORDERED_STATE + 8:
        return False
    before = word_at(id(sample) + ORDERED_STATE)
    if before > 1 << 20:
        return False
    sample.move_to_end("a")
    return word_at(id(sample) + ORDERED_STATE) != before


def _cell_is_understood() -> bool:
    value = object()
    cell = CellType(value)
    return hold(cell_checks(cell, value)) and not hold(cell_checks(cell, object()))


def _slot_is_understood() -> bool:
    sample = _Slotted()
    return hold(slot_checks(sample, _Slotted.__dict__["second"], sample.second))  # raises where it is not
