"""A part of a view, found in the array that the view was taken from.

`v = x[1:]; v[i] = a` changes one element of x, at i + 1.  Written so, a loop does it in place; as a new v, put back
into x, it would copy both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Extent, Shape, same_shape
from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import to_dtype
from tracejit.numpy.views import BasicIndex, Flat, Reshaped, Reversed, Transposed
from tracejit.primitives.shape import reshape, reverse, transpose
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.absence import used
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["Turn", "through"]


Entry = tuple[Any, Extent, int]
"""Of an index, along one axis: where it starts (a number, extent or traced integer), how many elements, with which
step."""


@frozen(eq=False)
class Turn:
    """How a region of a view lies in what the view was taken from: with another order of its axes, some of them
    reversed, and axes of extent 1 more or less.
    """

    before: Shape
    order: Sequence[int] | None
    reversed: Sequence[int]
    after: Shape

    def apply(self, value: ArrayLike) -> Result:
        """The value of the region, as it is to be written there."""
        value = value if self.order is None else transpose(value, self.order)
        return reshape(reverse(value, self.reversed) if self.reversed else value, self.after)

    def undo(self, value: ArrayLike) -> Result:
        """What was read there, as the view shows it."""
        if self.order is None:
            value = reshape(value, self.before)
            return reverse(value, self.reversed) if self.reversed else value
        return transpose(value, tuple([self.order.index(d) for d in range(len(self.order))]))


def through(x: Tracer, index: BasicIndex) -> tuple[Tracer, BasicIndex, list[Turn]]:
    """(array, index, how the value turns) of the same region in what the view x was taken from,
    as far back as it can be said.
    """
    entries: list[Entry] = list(zip(index.start, index.size, index.step, strict=True))
    turns: list[Turn] = []
    while x.root is not None and all(type(n) is int and n > 0 for _, n, _ in entries):
        found = _in_root(x, entries)
        if found is None:
            break
        before = tuple([n for _, n, _ in entries])
        entries, order, turned = found
        turns.append(Turn(before, order, turned, tuple([n for _, n, _ in entries])))
        used(x)
        x = cast("Tracer", x.root)
    size = tuple([n for _, n, _ in entries])
    return x, BasicIndex(tuple([a for a, _, _ in entries]), size, tuple([k for _, _, k in entries]), size), turns


def _in_root(x: Tracer, entries: list[Entry]) -> tuple[list[Entry], Sequence[int] | None, Sequence[int]] | None:
    """The entries along the axes of the array that x is a view of, and how the value turns:
    the new order of its axes, and those to be reversed.  None if it is no simple index there.
    """
    assert x.root is not None
    how, order, turned = x.index, None, ()
    match how:
        case BasicIndex():
            placed = _over_unit_axes(entries, x.shape, how.size)
            if placed is None:
                return None
            found = [(_affine(a, k, b), n, k * m) for a, k, (b, n, m) in zip(how.start, how.step, placed, strict=True)]
        case Transposed(perm=perm):
            order = tuple([perm.index(d) for d in range(len(perm))])
            found = [entries[k] for k in order]
        case Reversed(axes=axes):
            found = list(entries)
            for d in axes:
                a, n, k = entries[d]
                found[d] = (_affine(x.shape[d] - 1 - (n - 1) * k, -1, a), n, k)
            turned = tuple([d for d in axes if entries[d][1] != 1])
        case Reshaped() if type(how) in (Reshaped, Flat):
            placed = _over_unit_axes(entries, x.shape, x.root.shape)
            placed = _of_one_element(entries, x.shape, x.root.shape) if placed is None else placed
            if placed is None:
                return None
            found = placed
        case _:
            return None
    found = [(a, n, 1 if n == 1 else k) for a, n, k in found]
    if any(isinstance(a, Tracer) for a, _, _ in found) and any(k != 1 for _, _, k in found):
        return None
    return found, order, turned


def _over_unit_axes(entries: list[Entry], shape: Shape, target: Shape) -> list[Entry] | None:
    """The entries under a shape that differs by axes of extent 1 only; None if it differs otherwise."""
    kept = [(e, n) for e, n in zip(entries, shape, strict=True) if not _is_unit(n)]
    if not same_shape(tuple([n for _, n in kept]), tuple([n for n in target if not _is_unit(n)])):
        return None
    rest = iter(kept)
    return [(0, 1, 1) if _is_unit(n) else next(rest)[0] for n in target]


def _of_one_element(entries: list[Entry], shape: Shape, target: Shape) -> list[Entry] | None:
    """The entries of one element at a traced place under another shape of as many elements; None if it is a block."""
    if any(n != 1 for _, n, _ in entries) or not any(isinstance(a, Tracer) for a, _, _ in entries):
        return None
    place: Any = 0
    for (a, _, _), n in zip(entries, shape, strict=True):
        place = _sum(_product(place, n), a)
    found: list[Entry] = []
    for n in reversed(target[1:]):
        extent = OPERATORS.extent(n)
        found.append((u.remainder(place, extent), 1, 1))
        place = u.floor_divide(place, extent)
    return [(place, 1, 1), *reversed(found)]


def _is_unit(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


def _affine(a: Any, k: int, b: Any) -> Any:
    """a + k * b"""
    return _sum(_product(b, k), a)


def _product(a: Any, b: Extent) -> Any:
    if not isinstance(a, Tracer):
        return a * b
    if _is_unit(b):
        return a
    return u.multiply(to_dtype(a, np.int64), OPERATORS.extent(b))


def _sum(a: Any, b: Any) -> Any:
    if not isinstance(a, Tracer) and not isinstance(b, Tracer):
        return a + b
    if any(not isinstance(x, Tracer) and isinstance(x, int) and x == 0 for x in (a, b)):
        return a if isinstance(a, Tracer) else b
    return u.add(*[to_dtype(x if isinstance(x, Tracer) else OPERATORS.extent(x), np.int64) for x in (a, b)])
