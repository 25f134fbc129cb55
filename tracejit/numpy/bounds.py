"""Indices that obey a mode: counted from the start, and brought into range or left outside of it, where what reads
takes a fill value and what writes drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent
from tracejit.numpy import ufuncs as u
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives.indexing import filled, gather
from tracejit.support.modes import GatherScatterMode
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["Bounds", "gathered", "inside"]


@frozen
class Bounds:
    """What is done with indices out of range.

    wrap: negative ones count from the end.  clip: the others are brought to the nearest one in range.
    """

    clip: bool
    wrap: bool = True

    @staticmethod
    def of(mode: Any, *, wrap: bool = True, reads: bool) -> Bounds:
        """As a mode says, for what reads or writes."""
        found = GatherScatterMode.from_any(mode)
        promised = found is GatherScatterMode.PROMISE_IN_BOUNDS
        return Bounds(found is GatherScatterMode.CLIP or (promised and reads), wrap)

    def known(self, k: Any, n: Extent) -> bool:
        """Whether an index is a number that is known to be in range, counted from the end too."""
        if isinstance(k, (Tracer, Dim)) or not isinstance(n, int):
            return False
        return (-n if self.wrap else 0) <= int(k) < n

    def settle(self, k: IndexLike, n: Extent) -> Result:
        """Indices of an axis of extent n, counted from the start; those still out of range are to be dropped."""
        if isinstance(k, Dim):
            k = OPERATORS.extent(k)
        if aval(k).dtype == np.uint64:
            k = u.minimum(k, np.uint64(2**63 - 1))
        place = to_dtype(k, np.int64)
        end = OPERATORS.extent(n)
        if self.wrap:
            place = u.where(u.less(place, 0), u.add(place, end), place)
        if not self.clip:
            return place
        return u.maximum(u.minimum(place, u.subtract(end, 1)), np.int64(0))


def inside(indices: Sequence[IndexLike], extents: Sequence[Extent]) -> Result:
    """Where all of some index arrays of one shape are in range."""
    found: Any = None
    for k, n in zip(indices, extents, strict=True):
        ok = u.logical_and(u.greater_equal(k, 0), u.less(k, OPERATORS.extent(n)))
        found = ok if found is None else u.logical_and(found, ok)
    return found


def gathered(x: ArrayLike, axes: Sequence[int], indices: Sequence[IndexLike], fill_value: ArrayLike = None) -> Result:
    """The elements of x at index arrays over axes, a fill value where one is out of range."""
    valid = inside(indices, [aval(x).shape[a] for a in axes])
    dtype = aval(x).dtype
    value = None if fill_value is None else to_dtype(fill_value, dtype)
    return filled(gather(x, tuple(axes), indices, fill=True), valid, value)
