"""Functions that put elements into an axis, or take some out, at places that are known while tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.numpy.axes import axis_index, reject, static_array, unsupported
from tracejit.numpy.joining import join, part
from tracejit.numpy.promotion import aval, broadcast_to as spread
from tracejit.numpy.shaping import array_of, moveaxis, ravel
from tracejit.numpy.strides import laid_out, like, outer_first, strides_of
from tracejit.primitives import shape as p
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import LAYOUTS, Layout
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["delete", "insert"]


def delete(arr: ArrayLike, obj: ArrayLike, axis: AxisLike = None) -> Result:
    """Without the elements at the places `obj`, which are known while tracing."""
    x, k, where = _place_of_deletion(arr, obj, axis)
    n = int(aval(x).shape[k])
    try:
        kept = np.delete(np.arange(n), where if isinstance(where, slice) or where.size else [])
    except IndexError as error:
        raise reject(f"np.delete: {error}") from error
    made = (
        (current_interpreter().fresh(x) if isinstance(x, Tracer) else x.copy()) if kept.size == n else _runs(x, k, kept)
    )
    if isinstance(made, Tracer) and made.ndim > 1:
        made.layout = _layout_of_rest([], made, arr, obj, axis)
    return made


def _place_of_deletion(arr: ArrayLike, obj: ArrayLike, axis: AxisLike) -> tuple[Result, int, Result]:
    x = array_of(arr)
    if axis is None:
        x, axis = ravel(x), 0
    where = obj if isinstance(obj, slice) else static_array(obj, "np.delete's places")
    return x, axis_index(axis, aval(x).ndim), where


def _layout_of_rest(
    arrays: Sequence[ArrayLike], made: Tracer, arr: ArrayLike, obj: ArrayLike, axis: AxisLike = None
) -> Layout:
    """NumPy fills a new array from slices, of C or Fortran order as the first one, or indexes that with a mask.

    Then the axis that the mask is for comes first in memory, and the others in their order.
    """
    x, k, where = _place_of_deletion(arr, obj, axis)
    if isinstance(where, slice) or (where.size == 1 and where.dtype.kind in "iu"):
        return like(x, made.shape, made.dtype, "A")
    strides = strides_of(x)
    if not isinstance(strides, tuple):
        return strides
    return laid_out(made.shape, made.itemsize, [k, *[d for d in outer_first(strides) if d != k]])


_MOST_RUNS = 16  # pieces of code


def _runs(x: ArrayLike, k: int, places: np.ndarray[Any, Any]) -> Result:
    """The elements at increasing places, taken run by run, or one by one where these are many."""
    if not places.size:
        return part(x, k, 0, 0)
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    if breaks.size >= _MOST_RUNS:
        return OPERATORS.getitem(x, (slice(None),) * k + (places,))
    return join([part(x, k, int(run[0]), len(run)) for run in np.split(places, breaks)], k)


def insert(arr: ArrayLike, obj: ArrayLike, values: ArrayLike, axis: AxisLike = None) -> Result:
    """With `values` before the place `obj`, one integer known while tracing."""
    x = array_of(arr)
    if axis is None:
        x, axis = ravel(x), 0
    k = axis_index(axis, aval(x).ndim)
    have = aval(x).shape
    where = static_array(obj, "np.insert's place") if not isinstance(obj, slice) else np.zeros(2)
    if where.size != 1 or where.dtype.kind not in "iu":
        raise unsupported("np.insert takes one integer place in traced code; use np.concatenate for several")
    n = have[k]
    place = int(where.reshape(()))
    at = n + place if place < 0 else place
    if at < 0 or at > n:
        raise reject(f"np.insert: place {place} is out of bounds for an axis of extent {n}")
    new = FUNCTIONS[np.array](values, aval(x).dtype)
    rank = len(have)
    got = aval(new).shape
    new = p.reshape(new, (*(1,) * (rank - len(got)), *got))
    new = moveaxis(new, 0, k) if where.ndim == 0 else new
    got = aval(new).shape
    new = spread(new, tuple([got[d] if d == k else m for d, m in enumerate(have)]))
    return join([part(x, k, 0, at), new, part(x, k, at, n - at)], k)


FUNCTIONS.update({np.delete: delete, np.insert: insert})
LAYOUTS[delete] = _layout_of_rest
