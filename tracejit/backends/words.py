"""Registers of the kernel emitter: how one kernel value is held while lanes and unrolled copies are open.

A `Word` knows over which unrolled axes its value varies (one register per copy), whether it is a vector over the lanes,
or, for indices, a scalar base plus a lane stride.  So a row of a matrix product, a broadcast scalar and a vector of
results are one mechanism.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeAlias

from tracejit.support.nodes import define, field

__all__ = ["Lines", "Region", "Word", "copies", "is_literal", "literal_of", "project"]

Key = tuple[int, ...]
Lines: TypeAlias = "list[str | Lines]"
"""Text of a function; a list in it is written later."""


@define(eq=False)
class Word:
    """One kernel value.

    axes: the open unrolled axes it varies over, sorted; regs: one register for each combination of copies.
    lanes: whether the registers are vectors.  stride: for a scalar, what each lane adds (0: uniform).
    depth: the region it was defined in.  known: the constant it is, if any.
    apart: for an index over a single axis, what each copy adds to the one before; 0 where that is not known.
    """

    dtype: str
    axes: Key
    regs: dict[Key, str]
    lanes: bool = False
    stride: int = 0
    depth: int = 0
    known: Any = None
    apart: int = 0

    @property
    def uniform(self) -> bool:
        return not self.lanes and self.stride == 0


@define(eq=False)
class Region:
    """A loop body or branch being written.  `pre` is the text just before it;
    `cache` holds splats of values defined in it.
    """

    pre: Lines
    cache: dict[Hashable, str] = field(factory=dict)


def copies(axes: Key, counts: dict[int, int]) -> Iterator[Key]:
    """Every combination of copies of `axes`."""
    return itertools.product(*[range(counts[a]) for a in axes])


def project(key: Key, axes: Key, onto: Key) -> Key:
    """The part of a combination over `axes` that concerns `onto`."""
    if axes == onto:
        return key
    return tuple(k for k, a in zip(key, axes, strict=True) if a in onto)


def union(words: Sequence[Any]) -> Key:
    """The axes over which any of the words varies."""
    first = words[0].axes if words else ()
    if all(w.axes == first for w in words):
        return first
    return tuple(sorted({a for w in words for a in w.axes}))


def literal_of(register: str) -> int | None:
    """The number that stands in the place of a register, if one does."""
    return int(register) if is_literal(register) else None


def is_literal(register: str) -> bool:
    """Whether a number stands in the place of a register."""
    return register[0] != "%"
