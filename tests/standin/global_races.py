"""Races on global memory: two threads access a place, one of them writes, and nothing orders them.

Threads of all blocks run as one vector here, so that a kernel which reads what its neighbours write may give what its
author expects, and not on a GPU.  A log of all accesses of a launch shows it.  Within a block barriers order accesses.
Blocks are ordered by nothing, so that kernels whose blocks wait for each other by atomic operations give false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.standin.exact import Array

__all__ = ["AccessLog", "READ", "Race", "STRONG", "WRITE"]

READ, WRITE, STRONG = 0, 1, 2
"""Kinds of access; strong ones (atomic operations, stores that say so) do not race among themselves."""


@dataclass(frozen=True)
class Race:
    """The place, as `AccessLog.note` was given it, and two threads by (block, thread)."""

    place: int
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True)
class _Accesses:
    place: Array
    block: Array
    thread: Array
    phase: Array
    kind: Array
    value: Array
    size: int


class AccessLog:
    """All accesses of a launch to global memory."""

    def __init__(self) -> None:
        self._notes: list[_Accesses] = []

    def note(
        self, places: Array, size: int, block: Array, thread: Array, phase: Array, kind: int, value: Array | None
    ) -> None:
        """Each thread accesses `size` bytes at its place, behind `phase` barriers of its block."""
        kinds = np.full(places.size, kind, np.int8)
        if value is None:
            values = np.zeros(places.size, "u8")
        else:
            values = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").astype("u8")
        self._notes.append(_Accesses(places, block, thread, phase, kinds, values, size))

    def race(self) -> Race | None:
        """One of the races, if there are any."""
        if not self._notes:
            return None
        # accesses of unlike sizes are compared in units of the smallest; values of the wider ones are cut
        unit = min(n.size for n in self._notes)
        columns: list[Array] = []
        for name in ("place", "block", "thread", "phase", "kind", "value"):
            columns.append(np.concatenate([_in_units(n, name, unit) for n in self._notes]))
        place, block, thread, phase, kind, value = columns
        order = np.lexsort((thread, phase, block, place))
        place, block, thread, phase, kind, value = (c[order] for c in columns)
        between = _conflict([place], block, kind, value)
        if between is not None:
            start, end = between
            return _pair(place, block, thread, kind, block, start, end)
        within = _conflict([place, block, phase], thread, kind, value)
        if within is None:
            return None
        start, end = within
        return _pair(place, block, thread, kind, thread, start, end)


def _in_units(note: _Accesses, name: str, unit: int) -> Array:
    column = getattr(note, name)
    count = note.size // unit
    if count == 1:
        return column
    steps = np.arange(count, dtype=column.dtype)
    if name == "place":
        return (column[:, None] + steps * unit).ravel()
    if name == "value":
        return (column[:, None] >> (steps * column.dtype.type(8 * unit))).ravel() & np.uint64((1 << 8 * unit) - 1)
    return np.repeat(column, count)


def _conflict(keys: Sequence[Array], who: Array, kind: Array, value: Array) -> tuple[int, int] | None:
    """The first group of like `keys` whose accesses are of unlike `who` and race."""
    changes = np.zeros(who.size, bool)
    changes[0] = True
    for key in keys:
        changes[1:] |= key[1:] != key[:-1]
    starts = np.flatnonzero(changes)
    several = np.minimum.reduceat(who, starts) != np.maximum.reduceat(who, starts)
    least, most = np.minimum.reduceat(kind, starts), np.maximum.reduceat(kind, starts)
    writes = np.logical_or.reduceat(kind == WRITE, starts)
    # several threads may write the same value
    same = np.minimum.reduceat(value, starts) == np.maximum.reduceat(value, starts)
    benign = (least == WRITE) & (most == WRITE) & same
    mixed = (least == READ) & (most == STRONG)
    wrong = np.flatnonzero(several & ((writes & ~benign) | mixed))
    if not wrong.size:
        return None
    ends = np.append(starts[1:], who.size)
    return int(starts[wrong[0]]), int(ends[wrong[0]])


def _pair(place: Array, block: Array, thread: Array, kind: Array, who: Array, start: int, end: int) -> Race:
    """A thread that writes in a group, and another one of it."""
    kinds = kind[start:end]
    one = start + int(np.argmax(kinds == (WRITE if (kinds == WRITE).any() else STRONG)))
    other = start + int(np.argmax(who[start:end] != who[one]))
    return Race(int(place[start]), (int(block[one]), int(thread[one])), (int(block[other]), int(thread[other])))
