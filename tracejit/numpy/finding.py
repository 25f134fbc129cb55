"""Where the elements are that are not zero, and those elements: results with as many elements as data say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, same_extent
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import axis_index, reject
from tracejit.numpy.counts import may_count, nonzero_of
from tracejit.numpy.data_dependent import MASK, data_dependent
from tracejit.numpy.indexing import getitem
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.primitives.creation import extent_value
from tracejit.primitives.shape import reshape
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero"]


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function where a program is traced; NumPy's for values that are known there."""
    original = getattr(np, function.__name__)
    known = data_dependent(function.__name__, MASK, original)

    def run(a: ArrayLike) -> Result:
        found = a if isinstance(a, Tracer) else as_array(a)
        if not isinstance(found, Tracer) or not may_count() or found.seen().concrete() is not None:
            return known(a)
        return function(found)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    FUNCTIONS[original] = run
    return run


@_counted
def nonzero(a: Tracer) -> tuple[Result, ...]:
    """Of every axis the indices of the elements that are not zero, in C order.  As many as there are, int64."""
    shape = aval(a).shape
    if not shape:
        raise reject("np.nonzero: an array of rank 0 has no axes; use np.atleast_1d(x).nonzero()")
    places = nonzero_of(to_dtype(a, np.bool_))[1]
    found: list[Any] = []
    for n in reversed(shape[1:]):
        found.append(u.remainder(places, extent_value(n, np.int64)))
        places = u.floor_divide(places, extent_value(n, np.int64))
    return tuple([METHODS["copy"](places), *reversed(found)])


@_counted
def flatnonzero(a: Tracer) -> Result:
    """Where in C order the elements are that are not zero."""
    return METHODS["copy"](nonzero_of(to_dtype(reshape(a, (aval(a).size,)), np.bool_))[1])


@_counted
def argwhere(a: Tracer) -> Result:
    """The indices of the elements that are not zero, one row each."""
    return FUNCTIONS[np.stack](nonzero(a), axis=1)


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None) -> Result:
    """The parts of `a` along an axis (of all elements where it is None) for which the condition, of rank 1, holds."""
    a, condition = as_array(a), as_array(condition)
    if aval(condition).ndim != 1:
        raise reject("np.compress: the condition has rank 1")
    if axis is None:
        a, axis = reshape(a, (aval(a).size,)), 0
    axis = axis_index(axis, aval(a).ndim)
    n: Extent = aval(condition).shape[0]
    if not same_extent(n, aval(a).shape[axis]):
        a = getitem(a, (*[slice(None)] * axis, slice(None, n)))
    return getitem(a, (*[slice(None)] * axis, to_dtype(condition, np.bool_)))


def extract(condition: ArrayLike, arr: ArrayLike) -> Result:
    """The elements of `arr`, in C order, for which the condition holds."""
    arr, condition = as_array(arr), as_array(condition)
    return compress(reshape(condition, (aval(condition).size,)), arr)


METHODS["nonzero"] = nonzero
FUNCTIONS[np.compress], FUNCTIONS[np.extract] = compress, extract
METHODS["compress"] = lambda a, condition, axis=None: compress(condition, a, axis)
