"""Ranks and modes, of `scipy.stats`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tracejit.ir.extents import is_empty, prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import normalize_axes, reject
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast_to, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.primitives import sorting as s
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.shape import reshape, reverse, transpose
from tracejit.support.axes import axis_index
from tracejit.support.errors import ShapeError
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.failures import Reason

__all__ = ["ModeResult", "mode", "rankdata"]

_POLICIES = ("propagate", "omit", "raise")
_NAN = Reason(ShapeError, "The input contains nan values")


class ModeResult(NamedTuple):
    """What `mode` gives: the most frequent values, and how often each of them is there."""

    mode: Any
    count: Any


def _checked(x: ArrayLike, nan_policy: str) -> Result:
    """Whether each element is NaN; None for a dtype that has none."""
    if nan_policy not in _POLICIES:
        raise reject("nan_policy must be one of {'propagate', 'omit', 'raise'}.")
    if aval(x).dtype.kind != "f":
        return None
    gone = u.isnan(x)
    if nan_policy == "raise":
        check_none(gone, _NAN)
    return gone


def _runs(ordered: ArrayLike) -> tuple[Result, Result, Result]:
    """(whether each element of sorted rows is the first of those equal to it, where these begin, where they end).

    Every NaN equals every other.
    """
    shape = aval(ordered).shape
    axis = len(shape) - 1
    i = iota(shape, axis, np.int64)
    last = u.subtract(extent_value(shape[axis], np.int64), 1)
    lines = [iota(shape, d, np.int64) for d in range(axis)]

    def at(x: ArrayLike, place: ArrayLike) -> Result:
        return gather(x, tuple(range(axis + 1)), [*lines, place])

    before = at(ordered, u.maximum(u.subtract(i, 1), 0))
    differs = u.not_equal(ordered, before)
    if aval(ordered).dtype.kind == "f":
        differs = u.logical_and(differs, u.logical_not(u.isnan(before)))
    begins = u.logical_or(u.equal(i, 0), differs)
    ends = u.logical_or(u.equal(i, last), at(begins, u.minimum(u.add(i, 1), last)))
    start = cumulative("cummax", u.where(begins, i, np.int64(0)), axis)
    stop = reverse(cumulative("cummin", reverse(u.where(ends, i, last), (axis,)), axis), (axis,))
    return begins, start, stop


_RANKS: dict[str, Callable[..., Any]] = {
    "average": lambda begins, start, stop, place: u.multiply(0.5, u.add(u.add(start, stop), 2)),
    "min": lambda begins, start, stop, place: u.add(start, 1),
    "max": lambda begins, start, stop, place: u.add(stop, 1),
    "dense": lambda begins, start, stop, place: cumulative("cumsum", to_dtype(begins, np.int64), aval(begins).ndim - 1),
    "ordinal": lambda begins, start, stop, place: u.add(place, 1),
}


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Result:
    """Which place, from 1 on, each element has in rising order along an axis (of the flattened array by default).

    method: what equal ones get: the "average" of their places, the "min" or "max" of them, the number of "dense"
    different values up to them, or "ordinal", their places.  nan_policy: with NaN all ranks of a row are NaN
    ("propagate"), or that of NaN alone ("omit"), or the program fails ("raise").  float64 where there may be NaN and
    for "average", else int64.

    Raises: ShapeError for an unknown method or policy, and an axis that is not there.
    Source: SciPy's stats.rankdata.

    >>> import numpy as np, tracejit as tj
    >>> from tracejit.scipy.stats import rankdata
    >>> tj.jit(lambda x: rankdata(x))(np.array([30.0, 10.0, 30.0]))
    array([2.5, 1. , 2.5])
    """
    if method not in _RANKS:
        raise reject(f'unknown method "{method}"')
    x = array_of(a)
    k = 0 if axis is None else axis_index(axis, aval(x).ndim)
    x = ravel(x) if axis is None else x
    rank = aval(x).ndim
    order = (*[d for d in range(rank) if d != k], k)
    rows = transpose(x, order)
    shape = aval(rows).shape
    gone = _checked(rows, nan_policy)
    places = iota(shape, rank - 1, np.int64)
    ordered, came_from = s.sort([rows, places], rank - 1)
    found = _RANKS[method](*_runs(ordered), places)
    lines = [iota(shape, d, np.int64) for d in range(rank - 1)]
    found = scatter(full(shape, aval(found).dtype.type(0)), found, tuple(range(rank)), [*lines, came_from])
    if gone is not None:
        found = to_dtype(found, np.float64)
        if nan_policy == "propagate":
            some = r.any(gone, axis=-1, keepdims=True)
            gone = broadcast_to(some, shape)
        found = u.where(gone, np.nan, found)
    return transpose(found, tuple([order.index(d) for d in range(rank)]))


def mode(a: ArrayLike, axis: AxisLike = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """(the most frequent element along axes (of all with None), how often it is there, int64); the least of several.

    nan_policy: all NaN count as one value, the greatest ("propagate"), or they are left out ("omit"), or the program
    fails ("raise").

    Raises: ShapeError for an unknown policy, and an axis that is not there.
    Source: SciPy's stats.mode.

    >>> import numpy as np, tracejit as tj
    >>> from tracejit.scipy.stats import mode
    >>> tj.jit(lambda x: mode(x))(np.array([3, 1, 3]))
    ModeResult(mode=np.int64(3), count=np.int64(2))
    """
    x = array_of(a)
    have = aval(x)
    axes = normalize_axes(tuple(axis) if isinstance(axis, list) else axis, have.ndim)
    kept = tuple([d for d in range(have.ndim) if d not in axes])
    lead = tuple([have.shape[d] for d in kept])
    rows = transpose(x, (*kept, *axes))
    rows = reshape(rows, (*lead, prod([have.shape[d] for d in axes])))
    gone = _checked(rows, nan_policy)
    *_, n = aval(rows).shape
    if is_empty(n):
        value = full(lead, (have.dtype if have.dtype.kind == "f" else np.dtype(np.float64)).type(np.nan))
        count = full(lead, np.float64(0))
    else:
        ordered = s.sort([rows], len(lead))[0]
        _, start, stop = _runs(ordered)
        lengths = u.add(u.subtract(stop, start), 1)
        if gone is not None and nan_policy == "omit":
            lengths = u.where(u.isnan(ordered), np.int64(0), lengths)
        place = r.argmax(lengths, axis=-1)
        lines = [iota(lead, d, np.int64) for d in range(len(lead))]
        value, count = (gather(z, tuple(range(len(lead) + 1)), [*lines, place]) for z in (ordered, lengths))
    if keepdims:
        shape = tuple([n if d in kept else 1 for d, n in enumerate(have.shape)])
        value, count = reshape(value, shape), reshape(count, shape)
    return ModeResult(value, count)
