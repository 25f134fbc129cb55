"""Races on shared memory: two threads access a byte, one of them writes, and no barrier is between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.standin.exact import Array

__all__ = ["RaceDetector"]

_NOBODY = -1
_SEVERAL = -2


class RaceDetector:
    """Remembers of every byte who wrote and who read it since the last barrier.

    A barrier of a block orders all its threads, one of a warp the threads of that warp.  Writes of the same value by
    several threads in one instruction, and strong accesses (atomic, volatile) among themselves, are no races."""

    def __init__(self, size: int, cta: Array, warp: Array) -> None:
        self._cta, self._warp = cta, warp
        self._block_phase = np.zeros(int(cta[-1]) + 1, np.int64)
        self._warp_phase = np.zeros(int(warp[-1]) + 1, np.int64)
        self._writer = _Last(size)
        self._reader = _Last(size)
        self._atomic = _Last(size)

    def barrier(self, threads: Array) -> None:
        self._block_phase[np.unique(self._cta[threads])] += 1

    def warp_barrier(self, threads: Array) -> None:
        self._warp_phase[np.unique(self._warp[threads])] += 1

    def access(
        self, threads: Array, offsets: Array, size: int, *, writes: bool, strong: bool, value: Array | None
    ) -> tuple[int, int] | None:
        """Notes that each thread accesses `size` bytes at its offset; gives the position of one that races, and the
        other thread."""
        if value is not None and not strong and (found := _different_values(threads, offsets, value)) is not None:
            return found
        octets = (offsets[:, None] + np.arange(size)).ravel()
        each = np.repeat(threads, size)
        rivals = [self._writer]
        if not strong:
            rivals.append(self._atomic)
        if writes:
            rivals.append(self._reader)
        phases = _Phases(each, self._warp[each], self._block_phase[self._cta[each]], self._warp_phase[self._warp[each]])
        for rival in rivals:
            if (found := rival.conflict(octets, phases)) is not None:
                return found[0] // size, found[1]
        mine = self._atomic if strong else self._writer if writes else self._reader
        if writes or not strong:
            mine.note(octets, phases)
        return None


@dataclass(frozen=True)
class _Phases:
    """Who accesses, in which warp, behind how many barriers of the block and of the warp."""

    thread: Array
    warp: Array
    block_phase: Array
    warp_phase: Array


class _Last:
    """The last thread that made a kind of access to each byte, and when; `_SEVERAL` if more than one did since."""

    def __init__(self, size: int) -> None:
        self._thread = np.full(size, _NOBODY, np.int32)
        self._one = np.full(size, _NOBODY, np.int32)
        self._warp = np.full(size, _NOBODY, np.int32)
        self._block_phase = np.full(size, -1, np.int32)
        self._warp_phase = np.full(size, -1, np.int32)

    def conflict(self, octets: Array, now: _Phases) -> tuple[int, int] | None:
        """The position of an access that no barrier orders behind one noted here, and whose that was."""
        other = self._thread[octets]
        suspect = (other != _NOBODY) & (other != now.thread) & (self._block_phase[octets] == now.block_phase)
        if not suspect.any():
            return None
        ordered = (self._warp[octets] == now.warp) & (self._warp_phase[octets] < now.warp_phase)
        suspect &= ~ordered
        if not suspect.any():
            return None
        at = int(np.argmax(suspect))
        return at, int(self._one[octets[at]])

    def note(self, octets: Array, now: _Phases) -> None:
        current = self._block_phase[octets] == now.block_phase
        thread, warp = self._thread[octets], self._warp[octets]
        self._thread[octets] = self._one[octets] = now.thread
        self._warp[octets] = now.warp
        for kept, before, ours in ((self._thread, thread, now.thread), (self._warp, warp, now.warp)):
            # others before in this phase, and others in this instruction
            several = (current & (before != _NOBODY) & (before != ours)) | (kept[octets] != ours)
            kept[octets[several]] = _SEVERAL
        self._block_phase[octets] = now.block_phase
        self._warp_phase[octets] = now.warp_phase


def _different_values(threads: Array, offsets: Array, value: Array) -> tuple[int, int] | None:
    """A position where two threads write different values to one place in one instruction, and the other thread."""
    order = np.argsort(offsets, kind="stable")
    bits = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")[order]
    where = offsets[order]
    wrong = np.flatnonzero((where[1:] == where[:-1]) & (bits[1:] != bits[:-1]))
    if not wrong.size:
        return None
    return int(order[wrong[0] + 1]), int(threads[order[wrong[0]]])
