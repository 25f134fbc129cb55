"""The table of words by which a call sees whether what its program depends on is as it was: names, variables of
enclosing functions, attributes, captured arrays.

Where the objects of this interpreter are not understood, calls are dispatched in Python.
"""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np

from tracejit.backends.cpu.calls.object_probes import contents_are_understood, dicts_are_understood
from tracejit.backends.cpu.calls.object_words import (
    Block,
    Check,
    Unwatchable,
    array_checks,
    cell_checks,
    class_checks,
    contents_checks,
    dict_checks,
    dict_of_class,
    function_checks,
    hold,
    need,
    own_dict_checks,
    slot_checks,
    word_at,
    writeable_checks,
)
from tracejit.backends.cpython import native_dispatch_supported
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
        need(all(read.holds() for read in dependencies.reads if isinstance(read.place, ContentsPlace)))
    except Unwatchable:
        return Watch(0, holds), dependencies
    # An object's dict can be replaced by another, and would then be freed.
    held = [_dict_of(read) for read in dependencies.reads]
    return Watch(table.ctypes.data, holds), (table, copies, dependencies, held)


def words_hold(watch: Watch) -> bool:
    """What compiled entries find: whether the words are as they were."""
    if not watch.address:
        return watch.holds()
    at = watch.address
    count = word_at(at)
    words = (ctypes.c_size_t * (3 * count)).from_address(at + 8)
    if not hold(list(zip(words[0::3], words[1::3], words[2::3], strict=True))):
        return False
    at += 8 + 24 * count
    count = word_at(at)
    for n in range(count):
        address, size, copy = (word_at(at + 8 + 24 * n + 8 * k) for k in range(3))
        if ctypes.string_at(address, 8 * size) != ctypes.string_at(copy, 8 * size):
            return False
    call = word_at(at + 8 + 24 * count)
    return not call or watch.holds()


def _table(dependencies: Dependencies) -> _Table:
    if not native_dispatch_supported()[0] or not dicts_are_understood():
        raise Unwatchable
    table = _Table()
    dicts: dict[int, tuple[dict[Any, Any], list[tuple[Any, Any]]]] = {}
    for read in dependencies.reads:
        namespace = _dict_of(read)
        if namespace is not None:
            dicts.setdefault(id(namespace), (namespace, []))[1].append((_key_of(read), read.value))
            if isinstance(read.place, AttributePlace):
                table.add(own_dict_checks(read.place.owner))
            continue
        try:
            _add_place(table, read)
        except Unwatchable:
            if not read.holds():
                raise
            table.slow.append(read.holds)
    for namespace, names in dicts.values():
        table.add(dict_checks(namespace, names))
    for item in (*dependencies.constants, *dependencies.looked_at):
        if isinstance(item, np.ndarray):
            table.add(array_checks(item))
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
            table.add(cell_checks(cell, value))
        case SlotPlace(owner, slot):
            table.add(slot_checks(owner, slot, value))
        case KindPlace(owner):
            table.add(class_checks(owner, value))
        case ClassPlace(kind, name):
            need(read.holds())
            for base in kind.__mro__:
                if base.__flags__ & HEAP_TYPE:
                    table.add(dict_checks(dict_of_class(base), [(name, base.__dict__.get(name, MISSING))]))
                if name in base.__dict__:
                    break
        case FunctionPlace(function, name):
            table.add(function_checks(function, name, value))
        case ContentsPlace(container):
            need(read.holds() and contents_are_understood(family(type(container))))
            table.add(*contents_checks(container))
        case _:
            raise Unwatchable


def _add_elements(table: _Table, array: np.ndarray[Any, Any]) -> None:
    """The elements of an array of up to `MOST_CONTENT` bytes."""
    data, size = array.ctypes.data, array.nbytes
    if size > MOST_CONTENT:
        return
    if data % 8 or not array.flags.c_contiguous:
        known = content(array)
        table.slow.append(lambda: content(array) == known)
        return
    table.add([*array_checks(array), *writeable_checks(array)], [(data, size // 8)] if size >= 8 else [])
    if size % 8:
        mask = 2 ** (8 * (size % 8)) - 1
        last = int.from_bytes(array.tobytes()[-(size % 8) :], "little")
        table.add([(data + size // 8 * 8, mask, last)])
