"""Which words of memory show that an object is as it was: a dict, list, set, cell, function, array.

A name is found by the words that CPython's own specialised instructions trust: a dict's keys object is the same, of the
same size, and the entry in it has the same key and value. So no look-up is done, a name costs about one nanosecond, and
any way of rebinding it is seen, at once. Every word that is read lies in an object that is held, or in one that the
words before it proved to be alive. When a dict has grown, the check fails for names that are the same; the caller then
looks with Python, and makes a new table.

Source: CPython's Include/internal/pycore_dict.h (3.11 to 3.14). Whether that is how objects lie in this
interpreter, `object_probes.py` finds out.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import OrderedDict, defaultdict
from functools import cache
from types import CellType, FunctionType, MethodType
from typing import Any, TypeAlias

import numpy as np

from tracejit.backends.cpython import layout
from tracejit.tracer.contents import family
from tracejit.tracer.places import MISSING

__all__ = [
    "ORDERED_STATE", "SET_MASK", "SET_TABLE", "SET_USED", "Block", "Check", "Unwatchable", "array_checks",
    "cell_checks", "class_checks", "contents_checks", "dict_checks", "dict_of_class", "function_checks", "hold", "need",
    "own_dict_checks", "slot_checks", "word_at", "writeable_checks",
]  # fmt: skip

Check: TypeAlias = tuple[int, int, int]
"""(address of a word, mask, what the masked word is)"""
Block: TypeAlias = tuple[int, int]
"""(address, how many words): memory that is compared with a copy"""

_WHOLE = 2**64 - 1
# Bytes into a dict: number of items, keys object, values (of an object's dict that shares its keys with others).
_DICT_USED, _DICT_KEYS, _DICT_VALUES = 16, 32, 40
# Bytes into a keys object: log2 of its size, log2 of the bytes of its index, kind; how many entries; the index, which
# the entries follow.
_KEYS_SIZE, _KEYS_ENTRIES, _KEYS_INDEX = 8, 24, 32
_KEYS_FORM = 0xFFFFFF
_GENERAL = 0
_VALUES_ITEMS = 8 if sys.version_info >= (3, 13) else 0
_CELL_CONTENTS = 16
_MANAGED_DICT = -24
"""Bytes from an object to the pointer to its dict, unless its class says where in the object that is."""
# Bytes into a member descriptor: the address of its definition; in that: where the member is in an object.
_MEMBER, _MEMBER_OFFSET = 40, 16
# Bytes into a set: number of items, size of its table less one, the table; words of an entry.
SET_USED, SET_MASK, SET_TABLE, _SET_ENTRY = 24, 32, 40, 2
ORDERED_STATE = 72
"""Bytes into an OrderedDict to the count of changes of its order."""
_FUNCTION_WORDS = 20
_WRITEABLE = 0x0400
"""The bit of an array's flags that can be set in place.  Source: NPY_ARRAY_WRITEABLE of NumPy's C interface."""


class Unwatchable(Exception):
    """The place cannot be watched by words."""


def need(condition: bool) -> None:
    """Raises: Unwatchable unless the condition holds."""
    if not condition:
        raise Unwatchable


def word_at(address: int) -> int:
    """The 64 bits at an address, without sign."""
    return ctypes.c_size_t.from_address(address).value


def _byte_at(address: int) -> int:
    return ctypes.c_ubyte.from_address(address).value


def hold(checks: list[Check]) -> bool:
    """Whether all words are what they are to be."""
    return all(word_at(address) & mask == expected for address, mask, expected in checks)


def cell_checks(cell: CellType, value: Any) -> list[Check]:
    """That a variable of an enclosing function is `value`, which may be `MISSING`."""
    return [(id(cell) + _CELL_CONTENTS, _WHOLE, 0 if value is MISSING else id(value))]


def slot_checks(owner: Any, slot: Any, value: Any) -> list[Check]:
    """That what a class's member descriptor finds in an object is `value`, which may be `MISSING`."""
    address = id(owner) + word_at(word_at(id(slot) + _MEMBER) + _MEMBER_OFFSET)
    need(word_at(address) == (0 if value is MISSING else id(value)))
    return [(address, _WHOLE, word_at(address))]


def class_checks(owner: Any, kind: type) -> list[Check]:
    """That an object is of the class."""
    return [(id(owner) + layout().object_type, _WHOLE, id(kind))]


def function_checks(function: FunctionType | MethodType, name: str, value: Any) -> list[Check]:
    """That what a function holds under a name to which can be assigned is `value`."""
    address = id(function) + _function_offset(name)
    need(word_at(address) == id(value))
    return [(address, _WHOLE, id(value))]


@cache
def _function_offset(name: str) -> int:
    """Where a function holds what can be assigned to it."""

    def sample(x: int = 12345, *, y: int = 54321) -> int:
        return x + y

    words = (ctypes.c_size_t * _FUNCTION_WORDS).from_address(id(sample))[: FunctionType.__basicsize__ // 8]
    places = [n for n, word in enumerate(words) if word == id(getattr(sample, name))]
    need(len(places) == 1)
    return 8 * places[0]


def dict_of_class(kind: type) -> dict[str, Any]:
    """The dict behind a class's `__dict__`, which is a proxy."""
    found = [x for x in gc.get_referents(kind.__dict__) if type(x) is dict]
    need(bool(found))
    return found[0]


def own_dict_checks(owner: Any) -> list[Check]:
    """The checks that an object's dict is the one it has now."""
    own = object.__getattribute__(owner, "__dict__")
    offset = type(owner).__dictoffset__
    address = id(owner) + (offset if offset > 0 else _MANAGED_DICT)
    need(word_at(address) == id(own))
    return [(address, _WHOLE, id(own))]


def dict_checks(namespace: dict[Any, Any], names: list[tuple[Any, Any]]) -> list[Check]:
    """The checks that each of `names` (key, value) is in a dict as it is now;
    where the value is `MISSING`, that the key is not.

    A key that is not there cannot come without a further entry, or into a slot of its own.
    """
    need(type(namespace) is dict)  # one of another class may look names up its own way
    start = id(namespace)
    keys, values = word_at(start + _DICT_KEYS), word_at(start + _DICT_VALUES)
    checks = [
        (start + _DICT_KEYS, _WHOLE, keys),
        (start + _DICT_VALUES, _WHOLE, values),
        (keys + _KEYS_SIZE, _KEYS_FORM, word_at(keys + _KEYS_SIZE) & _KEYS_FORM),
    ]
    places = _entries(namespace, keys)
    wide, key_at = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte_at(keys + _KEYS_SIZE + 1))
    for name, value in names:
        if value is MISSING:
            need(name not in namespace)
            checks.append((keys + _KEYS_ENTRIES, _WHOLE, word_at(keys + _KEYS_ENTRIES)))
            if values:  # what the dict's values are named is shared with others, which may have the name
                count = word_at(keys + _KEYS_ENTRIES)
                checks += [(a, _WHOLE, 0) for n in range(count) if word_at(a := values + _VALUES_ITEMS + 8 * n) == 0]
            continue
        place = places.get(name)
        if place is None:
            raise Unwatchable
        entry = first + place * wide + key_at
        checks.append((entry, _WHOLE, word_at(entry)))
        checks.append((entry + 8 if not values else values + _VALUES_ITEMS + 8 * place, _WHOLE, id(value)))
    if any(word_at(address) & mask != expected for address, mask, expected in checks):
        raise Unwatchable
    return checks


def _entry_form(keys: int) -> tuple[int, int]:
    """(bytes of an entry, where its key is): entries whose keys are not all strings hold a hash before the key."""
    return (24, 8) if _byte_at(keys + _KEYS_SIZE + 2) == _GENERAL else (16, 0)


def _entries(namespace: dict[Any, Any], keys: int) -> dict[Any, int]:
    """Where each key is among the entries."""
    wide, key_at = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte_at(keys + _KEYS_SIZE + 1))
    count = word_at(keys + _KEYS_ENTRIES)
    words = (ctypes.c_size_t * (count * wide // 8)).from_address(first)
    found = {words[index * wide // 8 + key_at // 8]: index for index in range(count)}
    return {key: found[id(key)] for key in list(namespace) if id(key) in found}


def contents_checks(container: Any) -> tuple[list[Check], list[Block]]:
    """The checks that a container holds the same objects in the same order."""
    at, start = layout(), id(container)
    base = family(type(container))
    if base is list:
        items = word_at(start + at.list_items)
        checks = [(start + at.sequence_size, _WHOLE, len(container)), (start + at.list_items, _WHOLE, items)]
        return checks, [(items, len(container))] if len(container) else []
    if base is set:
        return _set_contents(container)
    if base in (dict, defaultdict, OrderedDict):
        checks, blocks = _dict_contents(container)
        if base is OrderedDict:
            checks.append((start + ORDERED_STATE, _WHOLE, word_at(start + ORDERED_STATE)))
        if base is defaultdict:
            need(
                container.default_factory is None
                or word_at(start + dict.__basicsize__) == id(container.default_factory)
            )
            checks.append((start + dict.__basicsize__, _WHOLE, word_at(start + dict.__basicsize__)))
        return checks, blocks
    raise Unwatchable


def _set_contents(container: set[Any]) -> tuple[list[Check], list[Block]]:
    start = id(container)
    checks = [(start + n, _WHOLE, word_at(start + n)) for n in (SET_USED, SET_MASK, SET_TABLE)]
    return checks, [(word_at(start + SET_TABLE), _SET_ENTRY * (word_at(start + SET_MASK) + 1))]


def _dict_contents(container: dict[Any, Any]) -> tuple[list[Check], list[Block]]:
    start = id(container)
    keys, values = word_at(start + _DICT_KEYS), word_at(start + _DICT_VALUES)
    form = word_at(keys + _KEYS_SIZE) & _KEYS_FORM
    count = word_at(keys + _KEYS_ENTRIES)
    checks = [
        (start + _DICT_KEYS, _WHOLE, keys),
        (start + _DICT_VALUES, _WHOLE, values),
        (start + _DICT_USED, _WHOLE, len(container)),
        (keys + _KEYS_SIZE, _KEYS_FORM, form),
        (keys + _KEYS_ENTRIES, _WHOLE, count),
    ]
    if not count:
        return checks, []
    wide, _ = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte_at(keys + _KEYS_SIZE + 1))
    blocks = [(first, count * wide // 8)]
    return checks, [*blocks, (values + _VALUES_ITEMS, count)] if values else blocks


def array_checks(array: np.ndarray[Any, Any]) -> list[Check]:
    """An array that the program reads in place: its memory, dtype and shape can be changed in place too."""
    at = layout()
    start = id(array)
    dims, strides = word_at(start + at.array_shape), word_at(start + at.array_strides)
    checks = [
        (start + at.array_data, _WHOLE, array.ctypes.data),
        (start + at.array_dtype, _WHOLE, id(array.dtype)),
        (start + at.array_ndim, 0xFFFFFFFF, array.ndim),
        (start + at.array_shape, _WHOLE, dims),
        (start + at.array_strides, _WHOLE, strides),
    ]
    checks += [(dims + 8 * axis, _WHOLE, extent) for axis, extent in enumerate(array.shape)]
    checks += [(strides + 8 * axis, _WHOLE, stride % 2**64) for axis, stride in enumerate(array.strides)]
    return checks


def writeable_checks(array: np.ndarray[Any, Any]) -> list[Check]:
    """That an array can, or cannot, be written as now."""
    return [(id(array) + layout().array_flags, _WRITEABLE, array.flags.num & _WRITEABLE)]
