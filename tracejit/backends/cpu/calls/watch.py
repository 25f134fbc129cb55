"""Words of memory that show whether what a program depends on is as it was:
names, closure variables, attributes, captured arrays.

A name is found by the words that CPython's own specialised instructions trust: a dict's keys object is the same, of the
same size, and the entry in it has the same key and value. So no look-up is done, a name costs about one nanosecond, and
any way of rebinding it is seen, at once. Every word that is read lies in an object that is held, or in one that the
words before it proved to be alive. When a dict has grown, the check fails for names that are the same; the caller then
looks with Python, and makes a new table.

Source: CPython's Include/internal/pycore_dict.h (3.11 to 3.14). Where the probes of this interpreter fail, calls are
dispatched in Python.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import OrderedDict, defaultdict
from functools import cache, partial
from types import CellType, FunctionType
from typing import Any, TypeAlias

import numpy as np

from tracejit.backends.cpython import layout, native_dispatch_supported
from tracejit.backends.entry import Watch
from tracejit.support.nodes import define, field
from tracejit.support.type_flags import HEAP_TYPE
from tracejit.tracer.captured import Dependencies, Read, content
from tracejit.tracer.contents import family
from tracejit.tracer.known import MOST_CONTENT
from tracejit.tracer.places import (
    MISSING,
    AttributePlace,
    CellPlace,
    ClassPlace,
    ContentsPlace,
    FunctionPlace,
    ItemPlace,
    KindPlace,
    NamePlace,
    SlotPlace,
)

__all__ = ["make_watch", "words_hold"]

Check: TypeAlias = tuple[int, int, int]
"""(address of a word, mask, what the masked word is)"""
Block: TypeAlias = tuple[int, int]
"""(address, how many words): memory that is compared with a copy"""

_ALL = 2**64 - 1
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
_SET_USED, _SET_MASK, _SET_TABLE, _SET_ENTRY = 24, 32, 40, 2
_ORDERED_STATE = 72
"""Bytes into an OrderedDict to the count of changes of its order."""
_FUNCTION_WORDS = 20


class _Unwatchable(Exception):
    """The place cannot be watched by words."""


@define(eq=False)
class _Table:
    """What is compared: words and blocks of memory, and what only Python can tell."""

    checks: dict[Check, None] = field(factory=dict[Check, None])
    blocks: dict[Block, None] = field(factory=dict[Block, None])
    slow: list[Any] = field(factory=list[Any])  # functions that say whether something is as it was

    def add(self, checks: list[Check], blocks: list[Block] | None = None) -> None:
        self.checks.update(dict.fromkeys(checks))
        self.blocks.update(dict.fromkeys(blocks or []))

    def words(self) -> tuple[Any, Any]:
        """(the table as `tj_watched` reads it, what it points to)"""
        copies = [
            np.frombuffer(ctypes.string_at(address, 8 * count), np.uint64).copy() for address, count in self.blocks
        ]
        call = partial(_all_hold, tuple(self.slow)) if self.slow else None
        table = [len(self.checks), *(word for check in self.checks for word in check), len(copies)]
        table += [
            word
            for (address, count), copy in zip(self.blocks, copies, strict=True)
            for word in (address, count, copy.ctypes.data)
        ]
        return np.array([*table, 0 if call is None else id(call)], np.uint64), (copies, call)


def _all_hold(questions: tuple[Any, ...]) -> bool:
    return all(holds() for holds in questions)


def make_watch(dependencies: Dependencies) -> tuple[Watch, Any]:
    """What a compiled entry watches for these dependencies, and the memory that must live as long.

    Where the words cannot be had, the address is 0: compiled entries never match, and each call is looked at in Python.
    """

    def holds() -> bool:
        return not dependencies.changed()

    try:
        found = _table(dependencies)
        table, copies = found.words()
        # while it was copied
        _need(all(read.holds() for read in dependencies.reads if isinstance(read.place, ContentsPlace)))
    except _Unwatchable:
        return Watch(0, holds), dependencies
    # An object's dict can be replaced by another, and would then be freed.
    held = [_dict_of(read) for read in dependencies.reads]
    return Watch(table.ctypes.data, holds), (table, copies, dependencies, held)


def words_hold(watch: Watch) -> bool:
    """What compiled entries find: whether the words are as they were."""
    if not watch.address:
        return watch.holds()
    at = watch.address
    count = _word(at)
    words = (ctypes.c_size_t * (3 * count)).from_address(at + 8)
    if not _holds(list(zip(words[0::3], words[1::3], words[2::3], strict=True))):
        return False
    at += 8 + 24 * count
    count = _word(at)
    for n in range(count):
        address, size, copy = (_word(at + 8 + 24 * n + 8 * k) for k in range(3))
        if ctypes.string_at(address, 8 * size) != ctypes.string_at(copy, 8 * size):
            return False
    call = _word(at + 8 + 24 * count)
    return not call or watch.holds()


def _table(dependencies: Dependencies) -> _Table:
    if not native_dispatch_supported()[0] or not _dicts_are_understood():
        raise _Unwatchable
    table = _Table()
    dicts: dict[int, tuple[dict[Any, Any], list[tuple[Any, Any]]]] = {}
    for read in dependencies.reads:
        namespace = _dict_of(read)
        if namespace is not None:
            dicts.setdefault(id(namespace), (namespace, []))[1].append((_key_of(read), read.value))
            if isinstance(read.place, AttributePlace):
                table.add(_own_dict_checks(read.place.owner))
            continue
        try:
            _add_place(table, read)
        except _Unwatchable:
            if not read.holds():
                raise
            table.slow.append(read.holds)
    for namespace, names in dicts.values():
        table.add(dict_checks(namespace, names))
    for item in (*dependencies.constants, *dependencies.looked_at):
        if isinstance(item, np.ndarray):
            table.add(_array_checks(item))
    for item in dependencies.frozen_arrays:
        _add_elements(table, item)
    return table


def _dict_of(read: Read) -> dict[Any, Any] | None:
    """The dict in which one item is watched."""
    match read.place:
        case NamePlace(namespace, _):
            return namespace
        case AttributePlace(owner, _):
            return object.__getattribute__(owner, "__dict__")
        case ItemPlace(container, _):
            return container
        case _:
            return None


def _key_of(read: Read) -> Any:
    return read.place.key if isinstance(read.place, ItemPlace) else read.place.name  # type: ignore[union-attr]


def _add_place(table: _Table, read: Read) -> None:
    value = read.value
    match read.place:
        case CellPlace(cell, _):
            table.add([(id(cell) + _CELL_CONTENTS, _ALL, 0 if value is MISSING else id(value))])
        case SlotPlace(owner, slot):
            address = id(owner) + _word(_word(id(slot) + _MEMBER) + _MEMBER_OFFSET)
            _need(_word(address) == (0 if value is MISSING else id(value)))
            table.add([(address, _ALL, _word(address))])
        case KindPlace(owner):
            table.add([(id(owner) + layout().object_type, _ALL, id(value))])
        case ClassPlace(kind, name):
            _need(read.holds())
            for base in kind.__mro__:
                if base.__flags__ & HEAP_TYPE:
                    table.add(dict_checks(_dict_of_class(base), [(name, base.__dict__.get(name, MISSING))]))
                if name in base.__dict__:
                    break
        case FunctionPlace(function, name):
            address = id(function) + _function_offset(name)
            _need(_word(address) == id(value))
            table.add([(address, _ALL, id(value))])
        case ContentsPlace(container):
            _need(read.holds())
            table.add(*_contents_checks(container))
        case _:
            raise _Unwatchable


def _need(condition: bool) -> None:
    if not condition:
        raise _Unwatchable


def _dict_of_class(kind: type) -> dict[str, Any]:
    """The dict behind a class's `__dict__`, which is a proxy."""
    found = [x for x in gc.get_referents(kind.__dict__) if type(x) is dict]
    _need(bool(found))
    return found[0]


@cache
def _function_offset(name: str) -> int:
    """Where a function holds what can be assigned to it."""

    def sample(x: int = 12345, *, y: int = 54321) -> int:
        return x + y

    words = (ctypes.c_size_t * _FUNCTION_WORDS).from_address(id(sample))[: FunctionType.__basicsize__ // 8]
    places = [n for n, word in enumerate(words) if word == id(getattr(sample, name))]
    _need(len(places) == 1)
    return 8 * places[0]


def _contents_checks(container: Any) -> tuple[list[Check], list[Block]]:
    at, start = layout(), id(container)
    base = family(type(container))
    if base is list:
        items = _word(start + at.list_items)
        checks = [(start + at.sequence_size, _ALL, len(container)), (start + at.list_items, _ALL, items)]
        return checks, [(items, len(container))] if len(container) else []
    if base is set:
        _need(_sets_are_understood())
        return _set_contents(container)
    if base in (dict, defaultdict, OrderedDict):
        checks, blocks = _dict_contents(container)
        if base is OrderedDict:
            _need(_orders_are_understood())
            checks.append((start + _ORDERED_STATE, _ALL, _word(start + _ORDERED_STATE)))
        if base is defaultdict:
            _need(
                container.default_factory is None or _word(start + dict.__basicsize__) == id(container.default_factory)
            )
            checks.append((start + dict.__basicsize__, _ALL, _word(start + dict.__basicsize__)))
        return checks, blocks
    raise _Unwatchable


def _set_contents(container: set[Any]) -> tuple[list[Check], list[Block]]:
    start = id(container)
    checks = [(start + n, _ALL, _word(start + n)) for n in (_SET_USED, _SET_MASK, _SET_TABLE)]
    return checks, [(_word(start + _SET_TABLE), _SET_ENTRY * (_word(start + _SET_MASK) + 1))]


def _dict_contents(container: dict[Any, Any]) -> tuple[list[Check], list[Block]]:
    start = id(container)
    keys, values = _word(start + _DICT_KEYS), _word(start + _DICT_VALUES)
    form = _word(keys + _KEYS_SIZE) & _KEYS_FORM
    count = _word(keys + _KEYS_ENTRIES)
    checks = [
        (start + _DICT_KEYS, _ALL, keys),
        (start + _DICT_VALUES, _ALL, values),
        (start + _DICT_USED, _ALL, len(container)),
        (keys + _KEYS_SIZE, _KEYS_FORM, form),
        (keys + _KEYS_ENTRIES, _ALL, count),
    ]
    if not count:
        return checks, []
    wide, _ = _entry_form(keys)
    first = keys + _KEYS_INDEX + (1 << _byte(keys + _KEYS_SIZE + 1))
    blocks = [(first, count * wide // 8)]
    return checks, [*blocks, (values + _VALUES_ITEMS, count)] if values else blocks


def _own_dict_checks(owner: Any) -> list[Check]:
    """The checks that an object's dict is the one it has now."""
    own = object.__getattribute__(owner, "__dict__")
    offset = type(owner).__dictoffset__
    address = id(owner) + (offset if offset > 0 else _MANAGED_DICT)
    _need(_word(address) == id(own))
    return [(address, _ALL, id(own))]


def dict_checks(namespace: dict[Any, Any], names: list[tuple[Any, Any]]) -> list[Check]:
    """The checks that each of `names` (key, value) is in a dict as it is now;
    where the value is `MISSING`, that the key is not.

    A key that is not there cannot come without a further entry, or into a slot of its own.
    """
    _need(type(namespace) is dict)  # one of another class may look names up its own way
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
        if value is MISSING:
            _need(name not in namespace)
            checks.append((keys + _KEYS_ENTRIES, _ALL, _word(keys + _KEYS_ENTRIES)))
            if values:  # what the dict's values are named is shared with others, which may have the name
                count = _word(keys + _KEYS_ENTRIES)
                checks += [(a, _ALL, 0) for n in range(count) if _word(a := values + _VALUES_ITEMS + 8 * n) == 0]
            continue
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


_WRITEABLE = 0x0400
"""The bit of an array's flags that can be set in place.  Source: NPY_ARRAY_WRITEABLE of NumPy's C interface."""


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


def _add_elements(table: _Table, array: np.ndarray[Any, Any]) -> None:
    """The elements of an array of up to `MOST_CONTENT` bytes."""
    data, size = array.ctypes.data, array.nbytes
    if size > MOST_CONTENT:
        return
    if data % 8 or not array.flags.c_contiguous:
        known = content(array)
        table.slow.append(lambda: content(array) == known)
        return
    flags = (id(array) + layout().array_flags, _WRITEABLE, array.flags.num & _WRITEABLE)
    table.add([*_array_checks(array), flags], [(data, size // 8)] if size >= 8 else [])
    if size % 8:
        mask = 2 ** (8 * (size % 8)) - 1
        last = int.from_bytes(array.tobytes()[-(size % 8) :], "little")
        table.add([(data + size // 8 * 8, mask, last)])


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


def _sees_new_names(namespace: dict[Any, Any]) -> bool:
    checks = dict_checks(namespace, [("a new name", MISSING)])
    if not _holds(checks):
        return False
    namespace["a new name"] = 1
    return not _holds(checks)


def _sees_contents(container: Any, find: Any = _contents_checks) -> bool:
    """Whether another item, one more and one less are seen."""
    for change in (_exchange, _grow, _shrink):
        checks, blocks = find(container)
        before = [ctypes.string_at(address, 8 * count) for address, count in blocks]
        if not _holds(checks) or container != container.copy():
            return False
        change(container)
        if _holds(checks) and [ctypes.string_at(address, 8 * count) for address, count in blocks] == before:
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
    if _word(at + _SET_USED) != 3 or _word(at + _SET_MASK) != 7:
        return False
    entries = (ctypes.c_size_t * 16).from_address(_word(at + _SET_TABLE))
    return {x for x in entries[::2] if x} == {id(x) for x in sample} and all(
        _sees_contents(x, _set_contents) for x in (sample, set(range(100)))
    )


@cache
def _orders_are_understood() -> bool:
    sample: OrderedDict[str, int] = OrderedDict(a=1, b=2)
    if OrderedDict.__basicsize__ < _ORDERED_STATE + 8:
        return False
    before = _word(id(sample) + _ORDERED_STATE)
    if before > 1 << 20:
        return False
    sample.move_to_end("a")
    return _word(id(sample) + _ORDERED_STATE) != before


def _cell_is_understood() -> bool:
    value = object()
    cell = CellType(value)
    return _word(id(cell) + _CELL_CONTENTS) == id(value)


def _slot_is_understood() -> bool:
    sample = _Slotted()
    _add_place(_Table(), Read(SlotPlace(sample, _Slotted.__dict__["second"]), sample.second))  # raises where it is not
    return True
