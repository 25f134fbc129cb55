"""Arrays whose extents are computed, beside others: the program checks that they agree, and fails where they do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracejit.ir.extents import Extent, Shape, has_count, same_extent
from tracejit.numpy.number_checks import check_none
from tracejit.primitives.comparison import Ne
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.indexing import clamped, gather
from tracejit.primitives.shape import transpose
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import LENGTHS
from tracejit.tracer.interpreter import bind

__all__ = ["agreed", "as_long_as", "is_counted"]


def is_counted(*shapes: Shape) -> bool:
    """Whether an extent of these shapes is computed."""
    return any(has_count(n) for shape in shapes for n in shape)


def as_long_as(x: ArrayLike, have: Shape, want: Shape) -> Result:
    """x, of shape `have`, with the extents `want` where one of both is computed and they are not known to be one: the
    program fails where they differ.  The axes of both are compared from the last one on.
    """
    offset = len(want) - len(have)
    for axis, n in enumerate(have):
        m = want[axis + offset] if axis + offset >= 0 else n
        if same_extent(n, m) or (isinstance(n, int) and n == 1) or not (has_count(n) or has_count(m)):
            continue
        number = extent_value(n, np.int64)
        check_none(bind(Ne(), number, extent_value(m, np.int64)), LENGTHS)
        if isinstance(n, int) and n == 0:
            continue
        x = gather(x, (axis,), [clamped(iota((m,), 0, np.int64), n - 1)])
        if axis:
            x = transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, len(have))))
    return x


def agreed(xs: Sequence[ArrayLike], shapes: Sequence[Shape]) -> tuple[list[Result], list[Shape]]:
    """Arrays that are broadcast, with the same symbol for extents of one axis, and their shapes."""
    rank = max(map(len, shapes))
    want: list[Extent] = []
    for axis in range(-rank, 0):
        found = [s[axis] for s in shapes if len(s) >= -axis and not (isinstance(s[axis], int) and s[axis] == 1)]
        fixed = [n for n in found if not has_count(n)]
        want.append((fixed or found or [1])[0])
    out: list[Result] = []
    new: list[Shape] = []
    for x, shape in zip(xs, shapes, strict=True):
        fitting = tuple(want[rank - len(shape) :])
        out.append(as_long_as(x, shape, fitting))
        new.append(
            tuple(
                [
                    m if has_count(n) or (has_count(m) and not (isinstance(n, int) and n == 1)) else n
                    for n, m in zip(shape, fitting, strict=True)
                ]
            )
        )
    return out, new
