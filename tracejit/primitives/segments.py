"""Folds of the elements that belong together, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import prod
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import And, Eq
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.elementwise import add, convert, mul, select
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.primitives.sorting import sort
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.stage import stage
from tracejit.tracer.transpose import shape_of

__all__ = ["product_by_segments"]


def product_by_segments(
    base: ArrayLike, updates: ArrayLike, axes: tuple[int, ...], indices: Sequence[IndexLike]
) -> Result:
    """What a `Scatter` multiplies, made of what has derivatives of all orders, right where factors are zero: factors in
    the order of their elements, running products that begin anew at each, of which the last is the element's.
    """
    have, dtype = shape_of(base), aval_of_argument(base).dtype
    batch = shape_of(indices[0])
    count = prod(batch)
    if any(isinstance(n, int) and n == 0 for n in (count, *have)):
        return convert(base, dtype)
    rest = tuple(n for d, n in enumerate(have) if d not in axes)
    flat = [reshape(convert(i, np.int64), (count,)) for i in indices]
    target: Any = np.int64(0)
    for a, i in zip(axes, flat, strict=True):
        target = add(mul(target, extent_value(have[a], np.int64)), i)
    _, order = sort([target, iota((count,), 0, np.int64)], 0)
    places = [gather(i, (0,), [order]) for i in flat]
    rows = gather(reshape(updates, (count, *rest)), (0,), [order])
    row, number = ShapedArray(rest, dtype), ShapedArray((), np.dtype(np.int64))

    def step(_: ArrayLike, running: ArrayLike, *xs: ArrayLike) -> list[Result]:
        before, factor, here = xs[: len(axes)], xs[len(axes)], xs[len(axes) + 1 :]
        same: Any = None
        for old, new in zip(before, here, strict=True):
            equal = bind(Eq(), old, new)
            same = equal if same is None else bind(And(), same, equal)
        same = broadcast_in_dim(same, rest, ()) if rest else same
        running = mul(select(same, running, dtype.type(1)), factor)
        return [running, *here, running]

    numbers = [number] * len(axes)
    body = stage(step, [number, row, *numbers, row, *numbers]).jaxpr
    first = full(rest, dtype.type(1))
    none = [np.int64(np.iinfo(np.int64).min)] * len(axes)
    products = bind(Loop(body, count, 0, 1 + len(axes)), first, *none, rows, *places)[-1]
    ones = full(have, dtype.type(1))
    return mul(base, scatter(ones, products, axes, places, "set"))
