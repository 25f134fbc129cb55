"""Functions that put elements into an axis, or take some out, at places that are known while tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.numpy.axes import axis_index, reject, static_array, static_int
from tracejit.numpy.joining import join, part
from tracejit.numpy.promotion import aval, broadcast_to as spread, plain
from tracejit.numpy.shaping import array_of, moveaxis, ravel
from tracejit.numpy.strides import laid_out, like, outer_first, strides_of
from tracejit.primitives import shape as p
from tracejit.primitives.indexing import gather
from tracejit.support.errors import IndexOutOfBounds
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import LAYOUTS, Layout
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["delete", "insert"]


def delete(arr: ArrayLike, obj: ArrayLike, axis: AxisLike = None, *, assume_unique_indices: bool = False) -> Result:
    """Without the elements at the places `obj`, which are known while tracing.

    assume_unique_indices: JAX's, which changes nothing.
    """
    x, k, where = _place_of_deletion(arr, obj, axis)
    n = int(aval(x).shape[k])
    try:
        kept = np.delete(np.arange(n), where if isinstance(where, slice) or where.size else [])
    except IndexError as error:
        raise IndexOutOfBounds(f"np.delete: {error}", location=user_location()) from error
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
    """With `values` before the places `obj`, known while tracing: an integer, several, a slice or a mask.

    Raises: IndexOutOfBounds for a place outside.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.insert(x, [0, 2], 9))(np.array([1, 2, 3]))
    array([9, 1, 2, 9, 3])
    """
    x = array_of(arr)
    if axis is None:
        x, axis = ravel(x), 0
    k = axis_index(axis, aval(x).ndim)
    have = aval(x).shape
    n = have[k]
    if isinstance(obj, slice):
        where = np.arange(*_known(obj).indices(int(n)), dtype=np.int64)
    else:
        where = static_array(obj, "np.insert's place")
    if where.dtype.kind == "b" and where.ndim == 1:
        (where,) = np.nonzero(where)
    if where.size == 0 and isinstance(obj, (list, tuple)):
        where = where.astype(np.int64)
    if where.ndim > 1 or where.dtype.kind not in "iu":
        raise reject(f"np.insert: {where.dtype}[{where.ndim} axes] are no places; give integers in one axis, or a mask")
    new = FUNCTIONS[np.array](plain(values), aval(x).dtype)
    rank = len(have)
    got = aval(new).shape
    new = p.reshape(new, (*(1,) * (rank - len(got)), *got))
    if where.size != 1:
        return _several(x, k, _inside(where, int(n)), new)
    place = int(where.reshape(()))
    at = n + place if place < 0 else place
    if at < 0 or at > n:
        raise IndexOutOfBounds(
            f"np.insert: place {place} is out of bounds for an axis of extent {n}", location=user_location()
        )
    new = moveaxis(new, 0, k) if where.ndim == 0 else new
    got = aval(new).shape
    new = spread(new, tuple([got[d] if d == k else m for d, m in enumerate(have)]))
    return join([part(x, k, 0, at), new, part(x, k, at, n - at)], k)


def _known(where: slice) -> slice:
    bounds = [None if x is None else static_int(x, "np.insert's place") for x in (where.start, where.stop, where.step)]
    return slice(*bounds)


def _inside(where: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    """Places from the end as places from the beginning."""
    for place in where:
        if not -n <= place <= n:
            raise IndexOutOfBounds(
                f"np.insert: place {place} is out of bounds for an axis of extent {n}", location=user_location()
            )
    return np.where(where < 0, where + n, where).astype(np.int64)


def _several(x: ArrayLike, k: int, where: np.ndarray[Any, Any], new: ArrayLike) -> Result:
    """One of the new elements along axis k before each place; those of one place in their order."""
    have = aval(x).shape
    n, count = int(have[k]), where.size
    new = spread(new, tuple([count if d == k else m for d, m in enumerate(have)]))
    if not count:
        return current_interpreter().fresh(x) if isinstance(x, Tracer) else x.copy()
    order = np.argsort(where, kind="stable")
    if count <= _MOST_RUNS:
        pieces: list[Any] = []
        edges = [0, *map(int, where[order]), n]
        for place, begin, end in zip([*map(int, order), None], edges[:-1], edges[1:], strict=True):
            pieces.append(part(x, k, begin, end - begin))
            if place is not None:
                pieces.append(part(new, k, place, 1))
        return join([piece for piece in pieces if aval(piece).shape[k] != 0], k)
    found = np.empty(count, np.int64)
    found[order] = where[order] + np.arange(count)
    source = np.empty(n + count, np.int64)  # of each element of the result, in x followed by the new ones
    old = np.ones(n + count, np.bool_)
    old[found] = False
    source[old], source[found] = np.arange(n), n + np.arange(count)
    return moveaxis(gather(moveaxis(join([x, new], k), k, 0), (0,), [source]), 0, k)


FUNCTIONS.update({np.delete: delete, np.insert: insert})
LAYOUTS[delete] = _layout_of_rest
