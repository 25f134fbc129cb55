"""Arrays that a block leaves with another shape than it was given, or than the other side of a branch leaves: what is
handed on is a buffer for the most elements that there may be, and how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.api.bodies import Again
from tracejit.api.carries import is_array
from tracejit.ir.extents import (
    Dim,
    Extent,
    Shape,
    greater_extent,
    greatest_extent,
    has_count,
    same_extent,
    surely_at_most,
)
from tracejit.ir.jaxpr import bound_symbols
from tracejit.primitives.control_flow import block_of
from tracejit.primitives.creation import AsExtent, extent_value, zeros_of
from tracejit.primitives.slicing import dynamic_update_slice
from tracejit.support.errors import TracerError
from tracejit.support.nodes import define, field
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.support.typing import ArrayLike
from tracejit.tracer.absence import unmarked
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import new_count
from tracejit.tracer.interpreter import bind, current_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.tracer import Tracer

__all__ = ["LeftLengths", "Lengths", "LengthsVary", "has_own_length", "in_the_room", "settled"]


class LengthsVary(Again):
    """Arrays turn out to have different shapes: the block is to be traced again."""


def settled(x: Any) -> Any:
    """A value that is handed on: what a mask selects is an array, with as many elements as data say."""
    if isinstance(x, Tracer | tuple):
        for leaf in flatten(x)[0]:
            if isinstance(leaf, Tracer) and type(leaf) is not Tracer:
                aval_of_argument(leaf)  # it becomes one
    return x


def has_own_length(n: Extent) -> bool:
    """Whether the block that is being traced computes an extent."""
    inner = current_interpreter()
    if not has_count(n) or not isinstance(inner, StageInterpreter):
        return False
    assert isinstance(n, Dim)
    return not n.symbols().isdisjoint(bound_symbols(inner.equations))


def in_the_room(shape: Shape) -> Shape:
    """A shape with the most elements there may be where the block that is being traced computes how many."""
    return tuple([greatest_extent(n) if has_own_length(n) else n for n in shape])


def _most_of(a: Extent, b: Extent) -> Extent:
    return a if surely_at_most(b, a) else greater_extent(a, b)


_MOST_RAISED = 3
"""How many times the room of an axis may turn out to be too small: one that grows in each iteration always is."""


@define(eq=False)
class Lengths:
    """Of the leaves that are handed on, the axes whose extents differ.

    most: (number of the leaf, axis) and the greatest extent there.  groups: of these, which have one extent always, so
    that arrays of one length stay such.
    """

    most: dict[tuple[int, int], Extent] = field(factory=dict[tuple[int, int], Extent])
    groups: list[list[tuple[int, int]]] = field(factory=list[list[tuple[int, int]]])
    raised: dict[tuple[int, int], int] = field(factory=dict[tuple[int, int], int])
    given: dict[int, tuple[Tracer, Any]] = field(factory=dict[int, tuple[Tracer, Any]])
    numbers: list[tuple[Extent, Any]] = field(factory=list[tuple[Extent, Any]])
    version: int = 0

    def clear(self) -> None:
        """Nothing is known any more: the leaves have other numbers."""
        self.most.clear()
        self.groups.clear()
        self.raised.clear()

    def learn(self, one: Sequence[Any], other: Sequence[Any], *, always: bool) -> bool:
        """What is handed on in two ways, leaf by leaf; whether it is news.

        always: also where shapes differ that are known while tracing.

        Raises: TracerError for what grows with each iteration.
        """
        news = False
        for leaf, pair in enumerate(zip(one, other, strict=False)):
            if all(map(is_array, pair)):
                shapes = [aval_of_argument(x).shape for x in pair]
                if len(shapes[0]) == len(shapes[1]):
                    for axis, (a, b) in enumerate(zip(*shapes, strict=True)):
                        news = self._differs((leaf, axis), a, b, always) or news
        if news:
            self.groups[:] = [[*self.most]]
        news = any([self._split(one), self._split(other)]) or news
        self.version += news
        return news

    def _differs(self, place: tuple[int, int], a: Extent, b: Extent, always: bool) -> bool:
        """Whether it is news that the extents of an axis differ, or how much."""
        room = self.most.get(place)
        if room is None:
            if not (has_own_length(a) or has_own_length(b)) and (same_extent(a, b) or not always):
                return False
        else:
            if surely_at_most(a, room) and surely_at_most(b, room):
                return False
            self.raised[place] = self.raised.get(place, 0) + 1
            if self.raised[place] > _MOST_RAISED:
                raise TracerError(
                    "an array grows in a loop of the program, and how much room it needs cannot be known; make one "
                    "that is large enough before the loop, and count how many of its elements are used",
                    location=user_location(),
                )
        for n in (a, b):
            most = greatest_extent(n)
            room = most if room is None or surely_at_most(room, most) else _most_of(room, most)
        self.most[place] = room
        return True

    def _split(self, leaves: Sequence[Any]) -> bool:
        """Divide groups whose extents differ; whether there is one."""
        found: list[list[tuple[int, int]]] = []
        for group in self.groups:
            parts: list[tuple[Extent, Extent, list[tuple[int, int]]]] = []
            for leaf, axis in group:
                n, most = aval_of_argument(leaves[leaf]).shape[axis], self.most[leaf, axis]
                for have, room, part in parts:
                    if same_extent(n, have) and same_extent(most, room):
                        part.append((leaf, axis))
                        break
                else:
                    parts.append((n, most, [(leaf, axis)]))
            found += [part for *_, part in parts]
        changed = len(found) != len(self.groups)
        self.groups[:] = found
        return changed

    def handed(self, leaves: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """(the leaves, with buffers where extents differ; the extents of the groups, as numbers)."""
        made = [self._buffer(k, x) if any(leaf == k for leaf, _ in self.most) else x for k, x in enumerate(leaves)]
        return made, tuple([self._number(aval_of_argument(leaves[g[0][0]]).shape[g[0][1]]) for g in self.groups])

    def _buffer(self, leaf: int, x: ArrayLike) -> Any:
        if isinstance(x, Tracer) and not x.version and id(x) in self.given and self.given[id(x)][0] is x:
            return self.given[id(x)][1]
        aval = aval_of_argument(x)
        room = tuple([self.most.get((leaf, axis), n) for axis, n in enumerate(aval.shape)])
        there = unmarked(x) if type(x) is Tracer else x
        made: Any = dynamic_update_slice(zeros_of(aval.strong().with_shape(room)), there, [np.int64(0)] * len(room))
        if isinstance(made, Tracer):
            made.is_array = True
            made.layout = OPERATORS.layout_of_copy(x)
        return made

    def _number(self, n: Extent) -> Any:
        for extent, number in self.numbers:
            if same_extent(n, extent):
                return number
        return extent_value(n, np.int64)

    def taken(self, leaves: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The arrays again, of what was handed on: their extents are symbols of the program from here on."""
        if not self.groups:
            return [*leaves]
        self.given.clear()
        self.numbers.clear()
        extents: dict[tuple[int, int], Extent] = {}
        for group, number in zip(self.groups, numbers, strict=True):
            symbol = new_count(self.most[group[0]], "an array that a loop or branch hands on")
            assert symbol is not None
            bind(AsExtent(symbol), number)
            n = Dim.symbol(symbol)
            extents.update(dict.fromkeys(group, n))
            self.numbers.append((n, number))
        made = [*leaves]
        for k in sorted({leaf for leaf, _ in self.most}):
            x = leaves[k]
            shape = tuple([extents.get((k, axis), n) for axis, n in enumerate(aval_of_argument(x).shape)])
            made[k] = block_of(x, shape)
            made[k].is_array = True
            made[k].layout = x.layout
            self.given[id(made[k])] = made[k], x
        return made


class LeftLengths:
    """What the two sides of a branch leave, in one shape."""

    def __init__(self) -> None:
        self.lengths = Lengths()
        self.leaves: dict[Any, list[Any]] = {}  # what each side has left, by its block
        self.kinds: dict[Any, Any] = {}  # and how: its structure, and the ranks of its arrays
        self.versions: dict[Any, int] = {}  # and what was known of lengths then

    def begin(self, *, anew: bool = False) -> None:
        """The sides are about to be traced.  anew: they leave other leaves than before."""
        self.versions.clear()
        if anew:
            self.lengths.clear()
            self.leaves.clear()
            self.kinds.clear()

    def handed(self, block: Any, left: Any) -> Any:
        """What a side hands on for what it leaves.  Raises: LengthsVary where the other one has to be traced again."""
        leaves, tree = flatten(left)
        kind = self.kinds[block] = tree, [aval_of_argument(x).ndim for x in leaves]
        if any(x != kind for x in self.kinds.values()):
            return left  # which is refused, whatever their lengths
        other = next((x for b, x in self.leaves.items() if b is not block), leaves)
        self.leaves[block] = leaves
        self.lengths.learn(other, leaves, always=True)
        self.versions[block] = self.lengths.version
        if any(v != self.lengths.version for v in self.versions.values()):
            raise LengthsVary
        if not self.lengths.groups:
            return left
        leaves, numbers = self.lengths.handed(leaves)
        return unflatten(tree, leaves), numbers

    def taken(self, handed: Any) -> Any:
        """What is left, of what one of the sides has handed on."""
        if not self.lengths.groups:
            return handed
        left, numbers = handed
        leaves, tree = flatten(left)
        return unflatten(tree, self.lengths.taken(leaves, numbers))
