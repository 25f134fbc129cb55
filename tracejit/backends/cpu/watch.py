"""Words of memory that show whether what a program depends on is as it was: names, closure variables, attributes, captured arrays.

A name is found by the words that CPython's own specialised instructions trust: a dict's keys object is the same, of the same size, and the
entry in it has the same key and value. So no look-up is done, a name costs about one nanosecond, and any way of rebinding it is seen, at
once. Every word that is read lies in an object that is held, or in one that the words before it proved to be alive. When a dict has grown,
the check fails for names that are the same; the caller then looks with Python, and makes a new table.

Source: CPython's Include/internal/pycore_dict.h (3.11 to 3.14). Where the probes of this interpreter fail, calls are dispatched in Python.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from types import CellType
from typing import Any, TypeAlias

import numpy as np

from tracejit.backends.cpu.cpython import layout, native_dispatch_supported
from tracejit.backends.cpu.entry import Watch
from tracejit.tracer.captured import (
    MOST_CONTENT,
    AttributePlace,
    CellPlace,
    ClassPlace,
    Dependencies,
    ItemPlace,
    NamePlace,
    Place,
    SizePlace,
    SlotPlace,
)

__all__ = ["make_watch", "words_hold"]

Check: TypeAlias = tuple[int, int, int]
"""(address of a word, mask, what the masked word is)"""

_ALL = 2**64 - 1
# Bytes into a dict: number of items, keys object, values (of an object's dict that shares its keys with others).
_DICT_USED, _DICT_KEYS, _DICT_VALUES = 16, 32, 40
# Bytes into a keys object: log2 of its size, log2 of the bytes of its index, kind; how many entries; the index, which the entries follow.
_KEYS_SIZE, _KEYS_ENTRIES, _KEYS_INDEX = 8, 24, 32
_KEYS_FORM = 0xFFFFFF
_GENERAL = 0
_VALUES_ITEMS = 8 if sys.version_info >= (3, 13) else 0
_CELL_CONTENTS = 16
_MANAGED_DICT = -24
"""Bytes from an object to the pointer to its dict, unless its class says where in the object that is."""
# Bytes into a member descriptor: the address of its definition; in that: where the member is in an object.
_MEMBER, _MEMBER_OFFSET = 40, 16


class _Unwatchable(Exception):
    """The place cannot be watched by words."""


def make_watch(dependencies: Dependencies) -> tuple[Watch, Any]:
    """What a compiled entry watches for these dependencies, and the memory that must live as long.

    Where the words cannot be had, the address is 0: compiled entries never match, and each call is looked at in Python.
    """

    def holds() -> bool:
        return not dependencies.changed()

    try:
        checks = _checks(dependencies)
    except _Unwatchable:
        return Watch(0, holds), dependencies
    table = np.array([len(checks), *(word for check in checks for word in check)], np.uint64)
    # An object's dict can be replaced by another, and would then be freed.
    held = [(_dict_of(read.place), getattr(getattr(read.place, "owner", None), "__dict__", None)) for read in dependencies.reads]
    return Watch(table.ctypes.data, holds), (table, dependencies, held)


def words_hold(watch: Watch) -> bool:
    """What compiled entries find: whether the words are as they were."""
    if not watch.address:
        return watch.holds()
    count = _word(watch.address)
    words = (ctypes.c_size_t * (3 * count)).from_address(watch.address + 8)
    return _holds(list(zip(words[0::3], words[1::3], words[2::3], strict=True)))


def _checks(dependencies: Dependencies) -> list[Check]:
    if not native_dispatch_supported()[0] or not _dicts_are_understood():
        raise _Unwatchable
    dicts: dict[int, tuple[dict[Any, Any], list[tuple[Any, Any]]]] = {}
    checks: dict[Check, None] = {}
    for read in dependencies.reads:
        namespace = _dict_of(read.place)
        if namespace is None:
            checks.update(dict.fromkeys(_place_checks(read.place, read.value)))
        else:
            dicts.setdefault(id(namespace), (namespace, []))[1].append((_key_of(read.place), read.value))
            if isinstance(read.place, AttributePlace | ClassPlace):
                checks.update(dict.fromkeys(_own_dict_checks(read.place)))
    for namespace, names in dicts.values():
        checks.update(dict.fromkeys(dict_checks(namespace, names)))
    for array in dependencies.constants:
        if isinstance(array, np.ndarray):
            checks.update(dict.fromkeys(_array_checks(array)))
    for array in dependencies.frozen_arrays:
        checks.update(dict.fromkeys(_content_checks(array)))
    return list(checks)


def _dict_of(place: Place) -> dict[Any, Any] | None:
    match place:
        case NamePlace(namespace, _):
            return namespace
        case AttributePlace(owner, _):
            return owner.__dict__
        case ClassPlace(_, base, _):
            found = [x for x in gc.get_referents(base.__dict__) if type(x) is dict]  # the dict behind the mapping proxy
            return found[0] if found else None
        case ItemPlace(container, _) if type(container) is dict:
            return container
        case _:
            return None


def _key_of(place: Place) -> Any:
    return place.key if isinstance(place, ItemPlace) else place.name  # type: ignore[union-attr]


def _place_checks(place: Place, value: Any) -> list[Check]:
    at = layout()
    match place:
        case CellPlace(cell, _):
            return [(id(cell) + _CELL_CONTENTS, _ALL, id(value))]
        case SlotPlace(owner, slot):
            address = id(owner) + _word(_word(id(slot) + _MEMBER) + _MEMBER_OFFSET)
            if _word(address) != id(value):
                raise _Unwatchable
            return [(address, _ALL, id(value))]
        case ItemPlace(container, index) if type(container) is list:
            items = _word(id(container) + at.list_items)
            return [
                (id(container) + at.sequence_size, _ALL, len(container)),
                (id(container) + at.list_items, _ALL, items),
                (items + 8 * index, _ALL, id(value)),
            ]
        case SizePlace(container) if type(container) in (list, dict):
            offset = at.sequence_size if type(container) is list else _DICT_USED
            return [(id(container) + offset, _ALL, len(container))]
        case _:
            raise _Unwatchable


def _own_dict_checks(place: AttributePlace | ClassPlace) -> list[Check]:
    """The checks that an object's dict is the one it has now; for a class's attribute, that the object got none that could hide it."""
    own = getattr(place.owner, "__dict__", None)
    if own is None:
        return []
    offset = type(place.owner).__dictoffset__
    address = id(place.owner) + (offset if offset > 0 else _MANAGED_DICT)
    if _word(address) != id(own):
        raise _Unwatchable
    checks = [(address, _ALL, id(own))]
    return [*checks, (id(own) + _DICT_USED, _ALL, len(own))] if isinstance(place, ClassPlace) else checks


def dict_checks(namespace: dict[Any, Any], names: list[tuple[Any, Any]]) -> list[Check]:
    """The checks that each of `names` (key, value) is in a dict as it is now."""
    if type(namespace) is not dict:  # one of another class may look names up its own way
        raise _Unwatchable
    start = id(namespace)
    keys, values = _word(start + _DICT_KEYS), _word(start + _DICT_VALUES)
    checks = [
        (start + _DICT_KEYS, _ALL, keys),
        (start + _DICT_VALUES, _ALL, values),
        (keys + _KEYS_SIZE, _KEYS_FORM, _word(keys + _KEYS_SIZE) & _KEYS_FORM),
    ]
    places = _entries(namespace, keys)
    wide, key_at = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte(keys + _KEYS_SIZE + 1))
    for name, value in names:
        place = places.get(name)
        if place is None:
            raise _Unwatchable
        entry = first + place * wide + key_at
        checks.append((entry, _ALL, _word(entry)))
        checks.append((entry + 8 if not values else values + _VALUES_ITEMS + 8 * place, _ALL, id(value)))
    if any(_word(address) & mask != expected for address, mask, expected in checks):
        raise _Unwatchable
    return checks


def _entry_form(keys: int) -> tuple[int, int]:
    """(bytes of an entry, where its key is): entries whose keys are not all strings hold a hash before the key."""
    return (24, 8) if _byte(keys + _KEYS_SIZE + 2) == _GENERAL else (16, 0)


def _entries(namespace: dict[Any, Any], keys: int) -> dict[Any, int]:
    """Where each key is among the entries."""
    wide, key_at = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte(keys + _KEYS_SIZE + 1))
    count = _word(keys + _KEYS_ENTRIES)
    words = (ctypes.c_size_t * (count * wide // 8)).from_address(first)
    found = {words[index * wide // 8 + key_at // 8]: index for index in range(count)}
    return {key: found[id(key)] for key in list(namespace) if id(key) in found}


def _array_checks(array: np.ndarray[Any, Any]) -> list[Check]:
    """An array that the program reads in place: its memory, dtype and shape can be changed in place too."""
    at = layout()
    start = id(array)
    dims, strides = _word(start + at.array_shape), _word(start + at.array_strides)
    checks = [
        (start + at.array_data, _ALL, array.ctypes.data),
        (start + at.array_dtype, _ALL, id(array.dtype)),
        (start + at.array_ndim, 0xFFFFFFFF, array.ndim),
        (start + at.array_shape, _ALL, dims),
        (start + at.array_strides, _ALL, strides),
    ]
    checks += [(dims + 8 * axis, _ALL, extent) for axis, extent in enumerate(array.shape)]
    checks += [(strides + 8 * axis, _ALL, stride % 2**64) for axis, stride in enumerate(array.strides)]
    return checks


def _content_checks(array: np.ndarray[Any, Any]) -> list[Check]:
    """The elements of a small contiguous array; those of others are not watched."""
    data, size = array.ctypes.data, array.nbytes
    if size > MOST_CONTENT or data % 8 or not array.flags.c_contiguous:
        return []
    content = array.tobytes() + bytes(-size % 8)
    words = np.frombuffer(content, "<u8")
    last = 2 ** (8 * (size % 8)) - 1 if size % 8 else _ALL
    masks = [_ALL] * (len(words) - 1) + [last] * bool(len(words))
    return [(data + 8 * n, mask, int(word)) for n, (word, mask) in enumerate(zip(words, masks, strict=True))]


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _byte(address: int) -> int:
    return ctypes.c_ubyte.from_address(address).value


def _holds(checks: list[Check]) -> bool:
    return all(_word(address) & mask == expected for address, mask, expected in checks)


class _Sample:
    def __init__(self) -> None:
        self.first, self.second = object(), object()


class _Slotted:
    __slots__ = ("first", "second")

    def __init__(self) -> None:
        self.first, self.second = object(), object()


@cache
def _dicts_are_understood() -> bool:
    """Whether checks see every change, tried on live dicts: of a module, of an object, with keys that are no strings."""
    try:
        return all(_sees_changes(namespace) for namespace in _samples()) and _cell_is_understood() and _slot_is_understood()
    except _Unwatchable:
        return False


def _samples() -> list[dict[Any, Any]]:
    plain: dict[Any, Any] = {f"name{n}": object() for n in range(9)}
    del plain["name3"]
    mixed: dict[Any, Any] = {1: object(), "two": object(), (3,): object()}
    return [plain, mixed, _Sample().__dict__, dict(vars(sys))]


def _sees_changes(namespace: dict[Any, Any]) -> bool:
    name = list(namespace)[1]
    before = namespace[name]
    if not _holds(dict_checks(namespace, [(name, before)])):
        return False
    checks = dict_checks(namespace, [(name, before)])
    namespace[name] = object()
    if _holds(checks):
        return False
    namespace[name] = before
    if not _holds(checks):
        return False
    del namespace[name]
    return not _holds(checks)


def _cell_is_understood() -> bool:
    value = object()
    cell = CellType(value)
    return _word(id(cell) + _CELL_CONTENTS) == id(value)


def _slot_is_understood() -> bool:
    sample = _Slotted()
    return bool(_place_checks(SlotPlace(sample, _Slotted.__dict__["second"]), sample.second))
