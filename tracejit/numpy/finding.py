"""Where the elements are that are not zero, and those elements: results with as many elements as data say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, same_extent
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import axis_index, reject
from tracejit.numpy.counts import may_count, places_where
from tracejit.numpy.data_dependent import MASK, data_dependent
from tracejit.numpy.indexing import getitem
from tracejit.numpy.joining import part
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.taking import take
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.shape import reshape
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.layout import LAYOUTS, in_c_order
from tracejit.tracer.tables import FUNCTIONS, METHODS, OUT_CASTING
from tracejit.tracer.tracer import Tracer

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero"]


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function where a program is traced, or a size is given; NumPy's for values that are known there."""
    original = getattr(np, function.__name__)
    known = data_dependent(function.__name__, MASK, original)

    def run(a: ArrayLike, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
        found = a if isinstance(a, Tracer) else as_array(a)
        if size is None and (not isinstance(found, Tracer) or not may_count() or found.seen().concrete() is not None):
            return known(a)
        return function(found, size, fill_value)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    FUNCTIONS[original] = run
    return run


def _places(a: ArrayLike, size: ArrayLike) -> tuple[Result, Result]:
    """(where in C order the elements are that are not zero, whether each of these places is one of them).

    Beyond the last one places are 0 and the mask is False; without a size there is no mask.
    """
    mask = reshape(to_dtype(a, np.bool_), (aval(a).size,))
    places, count = places_where(mask, size)
    inside = None if size is None else u.less(iota(aval(places).shape, 0, np.int64), count)
    return places, inside


def _filled(places: ArrayLike, inside: ArrayLike, fill: ArrayLike) -> Result:
    return METHODS["copy"](places) if inside is None or fill is None else u.where(inside, places, fill)


@_counted
def nonzero(a: ArrayLike, size: ArrayLike, fill_value: ArrayLike) -> tuple[Result, ...]:
    """Of every axis the indices of the elements that are not zero, in C order.  As many as there are, int64.

    `size` and `fill_value` are JAX's: the first `size` of them, then the value (one for all axes, or one for each), 0
    where there is none.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.numpy.nonzero(x, size=3, fill_value=-1)[0])(np.array([0, 5, 7]))
    array([ 1,  2, -1])
    """
    shape = aval(a).shape
    if not shape:
        raise reject("np.nonzero: an array of rank 0 has no axes; use np.atleast_1d(x).nonzero()")
    fills = list(fill_value) if isinstance(fill_value, (list, tuple)) else [fill_value] * len(shape)
    if len(fills) != len(shape):
        raise reject(f"np.nonzero: {len(fills)} values of fill_value for {len(shape)} axes")
    places, inside = _places(a, size)
    found: list[Any] = []
    for n in reversed(shape[1:]):
        found.append(u.remainder(places, extent_value(n, np.int64)))
        places = u.floor_divide(places, extent_value(n, np.int64))
    return tuple([_filled(x, inside, fill) for x, fill in zip([places, *reversed(found)], fills, strict=True)])


@_counted
def flatnonzero(a: ArrayLike, size: ArrayLike, fill_value: ArrayLike) -> Result:
    """Where in C order the elements are that are not zero.   `size` and `fill_value` as in `nonzero`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.numpy.flatnonzero(x, size=1))(np.array([0, 5, 7]))
    array([1])
    """
    fill = fill_value[0] if isinstance(fill_value, (list, tuple)) else fill_value
    return _filled(*_places(a, size), fill)


@_counted
def argwhere(a: ArrayLike, size: ArrayLike, fill_value: ArrayLike) -> Result:
    """The indices of the elements that are not zero, one row each.   `size` and `fill_value` as in `nonzero`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.numpy.argwhere(x, size=1))(np.array([[0, 5], [7, 0]]))
    array([[0, 1]])
    """
    if not aval(a).shape:
        found = nonzero(reshape(a, (1,)), size=size, fill_value=fill_value)[0]
        return part(reshape(found, (*aval(found).shape, 1)), 1, 0, 0)
    return FUNCTIONS[np.stack](nonzero(a, size=size, fill_value=fill_value), axis=1)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: ArrayLike = None,
    fill_value: ArrayLike = 0,
) -> Result:
    """The parts of `a` along an axis (of all elements where it is None) for which the condition, of rank 1, holds.

    size, fill_value: JAX's: the first `size` parts, and this value in those behind the last one.
    """
    a, condition = as_array(a), as_array(condition)
    if aval(condition).ndim != 1:
        raise reject("np.compress: the condition has rank 1")
    if axis is None:
        a, axis = reshape(a, (aval(a).size,)), 0
    axis = axis_index(axis, aval(a).ndim)
    known = condition.known() if isinstance(condition, Tracer) else condition
    if size is None and known is not None:
        return take(a, np.flatnonzero(known), axis)
    n: Extent = aval(condition).shape[0]
    if not same_extent(n, aval(a).shape[axis]):
        a = getitem(a, (*[slice(None)] * axis, slice(None, n)))
    if size is None:
        return getitem(a, (*[slice(None)] * axis, to_dtype(condition, np.bool_)))
    places, inside = _places(condition, size)
    found = getitem(a, (*[slice(None)] * axis, places))
    wide = reshape(inside, (*aval(inside).shape, *[1] * (aval(a).ndim - axis - 1)))
    return u.where(wide, found, to_dtype(fill_value, aval(a).dtype))


def extract(condition: ArrayLike, arr: ArrayLike, *, size: ArrayLike = None, fill_value: ArrayLike = 0) -> Result:
    """The elements of `arr`, in C order, for which the condition holds.   size, fill_value: as of `compress`."""
    arr, condition = as_array(arr), as_array(condition)
    return compress(reshape(condition, (aval(condition).size,)), arr, size=size, fill_value=fill_value)


METHODS["nonzero"] = nonzero
OUT_CASTING[compress] = "back"
FUNCTIONS[np.compress], FUNCTIONS[np.extract] = compress, extract
LAYOUTS[compress] = in_c_order
METHODS["compress"] = lambda a, condition, axis=None: compress(condition, a, axis)
