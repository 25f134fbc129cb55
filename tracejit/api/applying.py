"""Functions of elements at computed places, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.control import scan
from tracejit.ir.extents import Shape, prod
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.operators import OPERATORS

__all__ = ["applied_at"]


def applied_at(
    x: ArrayLike,
    axes: Sequence[int],
    arrays: Sequence[IndexLike],
    function: Callable[[Any, Any], Any],
    values: ArrayLike = None,
    *,
    unique: bool = False,
) -> Result:
    """x with function(x[k], value) at each place k in range that index arrays over axes name.

    values: [*shape of the arrays, *other axes of x], or None.  unique: no element is named twice, so all are computed
    together.
    """
    have, batch = aval_of_argument(x), aval_of_argument(arrays[0]).shape
    kept = tuple([n for d, n in enumerate(have.shape) if d not in axes])
    if unique:
        new = _stored(function(gather(x, tuple(axes), arrays), values), have.dtype, (*batch, *kept))
        return scatter(x, new, tuple(axes), arrays, "set", unique=True)
    count = prod(batch)
    rows: list[Any] = [reshape(a, (count,)) for a in arrays]
    if values is not None:
        rows.append(reshape(values, (count, *kept)))

    def step(y: Any, row: Any) -> tuple[Any, None]:
        places, value = row[: len(axes)], row[len(axes)] if values is not None else None
        old = gather(y, tuple(axes), places)
        new = _stored(function(old, value), have.dtype, kept)
        return scatter(y, new, tuple(axes), places, "set", unique=True), None

    return scan(step, x, tuple(rows))[0]


def _stored(x: ArrayLike, dtype: np.dtype[Any], shape: Shape) -> Result:
    """What a function gives, as elements that are stored; one number for all is repeated."""
    value = OPERATORS.to_dtype(x, dtype)
    return value if aval_of_argument(value).shape else broadcast_in_dim(value, shape, ())
