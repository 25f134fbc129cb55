"""Medians, quantiles and percentiles: elements of sorted arrays, and what lies between two of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, has_count, is_empty, prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import items_of, normalize_axes, reject, unsupported
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, broadcast_to, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import sorting as s
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.indexing import gather
from tracejit.primitives.shape import reshape, transpose
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import DtypeError, IndexOutOfBounds, ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.tables import FUNCTIONS, LEAST_INTO_INTEGERS, OUT_CASTING
from tracejit.tracer.tracer import Tracer

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

_RANGE = Reason(ShapeError, "Quantiles must be in the range [0, 1]")
_RANGE_OF_HUNDRED = Reason(ShapeError, "Percentiles must be in the range [0, 100]")
_NOTHING = Reason(IndexOutOfBounds, "index -1 is out of bounds for axis 0 with size 0")
_NEGATIVE_WEIGHTS = Reason(ShapeError, "Weights must be non-negative.")
_BAD_WEIGHTS = Reason(ShapeError, "Weights included NaN, inf or were all zero.")


def median(
    a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, overwrite_input: bool = False, keepdims: Any = False
) -> Result:
    """The middle element over axes (all by default), or the mean of the two in the middle; NaN if there is NaN, or
    nothing.

    a: of any real dtype; integers give float64.  `overwrite_input` changes nothing.
    Raises: ShapeError for an axis that is not there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.median(x))(np.array([3.0, 1.0, 10.0, 2.0]))
    np.float64(2.5)
    """
    rows, kept = _rows("median", a, axis)
    return _with_axes(_median(rows, None), a, kept, (), keepdims)


def nanmedian(
    a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, overwrite_input: bool = False, keepdims: Any = False
) -> Result:
    """The median of what is not NaN; NaN if there is nothing else.

    Raises: ShapeError for an axis that is not there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.nanmedian(x))(np.array([3.0, np.nan, 1.0]))
    np.float64(2.0)
    """
    rows, kept = _rows("nanmedian", a, axis)
    return _with_axes(_median(rows, _numbers_in(rows)), a, kept, (), keepdims)


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    out: ArrayLike = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: ArrayLike = None,
) -> Result:
    """Below which value a part q of the elements lies, over axes (all by default); NaN if there is NaN.

    q: from 0 to 1, of rank 0 to 2, whose axes come first in the result.  method: one of NumPy's 13, which say where
    between two elements the value is taken.  weights: of a's shape, or of that of the axes, for method "inverted_cdf".
    `overwrite_input` changes nothing.

    Raises: ShapeError for an unknown method, an axis that is not there, a q beyond its range and bad weights; where
    that depends on values, the program does.  IndexOutOfBounds where there are no elements.
    Source: Hyndman and Fan, Sample Quantiles in Statistical Packages, 1996.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.quantile(x, [0.25, 0.5]))(np.array([0.0, 1.0, 2.0, 10.0]))
    array([0.75, 1.5 ])
    """
    return _of_part("quantile", a, q, axis, method, keepdims, weights, _RANGE)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    out: ArrayLike = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: ArrayLike = None,
) -> Result:
    """The quantile of q / 100.

    Raises: as `quantile`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.percentile(x, 25))(np.array([0.0, 1.0, 2.0, 10.0]))
    np.float64(0.75)
    """
    return _of_part("percentile", a, q, axis, method, keepdims, weights, _RANGE_OF_HUNDRED)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    out: ArrayLike = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: ArrayLike = None,
) -> Result:
    """The quantile of what is not NaN; NaN if there is nothing else.

    Raises: as `quantile`; where there are no elements the result is NaN.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.nanquantile(x, 0.5))(np.array([0.0, np.nan, 2.0]))
    np.float64(1.0)
    """
    return _of_part("nanquantile", a, q, axis, method, keepdims, weights, _RANGE)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    out: ArrayLike = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: Any = False,
    *,
    weights: ArrayLike = None,
) -> Result:
    """The quantile of q / 100 of what is not NaN; NaN if there is nothing else.

    Raises: as `quantile`; where there are no elements the result is NaN.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.nanpercentile(x, 50))(np.array([0.0, np.nan, 2.0]))
    np.float64(1.0)
    """
    return _of_part("nanpercentile", a, q, axis, method, keepdims, weights, _RANGE_OF_HUNDRED)


# -- rows: the axes that are reduced, together in the last one ---------------------------------------------------------
def _rows(name: str, a: ArrayLike, axis: AxisLike) -> tuple[Result, tuple[int, ...]]:
    """(a with the reduced axes joined in the last one, the axes that are kept)"""
    x = array_of(a)
    have = aval(x)
    if have.dtype.kind not in "biuf":
        raise DtypeError(f"np.{name}: a is an array of real numbers, not {have}", location=user_location())
    axes = normalize_axes(tuple(axis) if isinstance(axis, list) else axis, have.ndim)
    kept = tuple([d for d in range(have.ndim) if d not in axes])
    total = prod([have.shape[d] for d in axes])
    if (*kept, *axes) != tuple(range(have.ndim)):
        x = transpose(x, (*kept, *axes))
    return reshape(x, (*[have.shape[d] for d in kept], total)), kept


def _with_axes(found: ArrayLike, a: ArrayLike, kept: tuple[int, ...], lead: Shape, keepdims: Any) -> Result:
    """The result with the reduced axes put back as ones, if that is asked for; `lead` axes come first."""
    if not keepdims or keepdims is np._NoValue:  # pyright: ignore[reportPrivateUsage]
        return found
    shape = aval(array_of(a)).shape
    return reshape(found, (*lead, *[n if d in kept else 1 for d, n in enumerate(shape)]))


def _numbers_in(rows: ArrayLike) -> Result:
    """How many elements of each row are not NaN; None where the dtype has none."""
    if aval(rows).dtype.kind != "f":
        return None
    return r.sum(u.logical_not(u.isnan(rows)), axis=-1, dtype=np.int64)


def _taken(rows: ArrayLike, at: ArrayLike) -> Result:
    """The elements of each row at places of its own.   rows: [*kept, n], at: [.., *kept] -> [.., *kept]"""
    rank, places = aval(rows).ndim, aval(at).shape
    lead = len(places) - (rank - 1)
    return gather(rows, tuple(range(rank)), [*[iota(places, lead + d, np.int64) for d in range(rank - 1)], at])


def _median(rows: ArrayLike, numbers: ArrayLike) -> Result:
    """The medians of rows; of the first `numbers` elements of each sorted row, if these are given."""
    have = aval(rows)
    *kept, n = have.shape
    result = have.dtype if have.dtype.kind == "f" else np.dtype(np.float64)
    if is_empty(n):
        return broadcast_to(result.type(np.nan), tuple(kept))
    last = have.ndim - 1
    ordered = s.sort([rows], last)[0]
    wide = np.dtype(np.float32) if result == np.float16 else result
    count: Any = extent_value(n, np.int64) if numbers is None else numbers
    nothing: Any = u.equal(count, 0) if numbers is not None or has_count(n) else None

    def take(at: ArrayLike) -> Result:
        return gather(ordered, (last,), [at]) if numbers is None else _taken(ordered, at)

    low = take(u.maximum(u.floor_divide(u.subtract(count, 1), 2), 0))
    if isinstance(n, int) and n % 2 == 1 and numbers is None:
        found = to_dtype(low, result)
    else:
        a, b = to_dtype(low, wide), to_dtype(take(u.floor_divide(count, 2)), wide)
        odd = u.equal(u.remainder(count, 2), 1)
        found = to_dtype(u.where(odd, a, u.divide(u.add(a, b), wide.type(2))), result)
    if have.dtype.kind == "f" and numbers is None:
        greatest = take(u.subtract(count, 1))
        found = u.where(u.isnan(greatest), greatest, found)
    return found if nothing is None else u.where(nothing, result.type(np.nan), found)


# -- quantiles ---------------------------------------------------------------------------------------------------------
def _of_part(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike,
    method: str,
    keepdims: Any,
    weights: ArrayLike,
    limits: Reason,
) -> Result:
    rows, kept = _rows(name, a, axis)
    q = as_array(q) if isinstance(q, Dim) else q
    weak = (weak_kind(q) is not None or (isinstance(q, Tracer) and q.aval.weak)) and aval(q).dtype.kind != "b"
    part = to_dtype(as_array(q), np.float64) if weak and aval(as_array(q)).dtype.kind == "f" else array_of(q)
    if aval(part).dtype.kind not in "biuf":
        raise DtypeError(f"np.{name}: q is {aval(part)}, not a number", location=user_location())
    m: Any = u if isinstance(part, Tracer) else np
    if limits is _RANGE_OF_HUNDRED:
        part = m.true_divide(part, 100)
    elif aval(part).dtype.kind == "b":
        part = to_dtype(part, np.int64)
    if aval(part).ndim > 2:
        raise reject("q must be a scalar or 1d")
    check_none(m.logical_not(m.logical_and(m.greater_equal(part, 0), m.less_equal(part, 1))), limits)
    if method not in _METHODS:
        raise reject(f"{method!r} is not a valid method. Use one of: {', '.join(_METHODS)}")
    omit = name.startswith("nan")
    numbers = _numbers_in(rows) if omit else None
    *others, n = aval(rows).shape
    lead = aval(part).shape
    floating = aval(rows).dtype.kind == "f"
    if not omit:
        check_not_empty(name, n, why=_NOTHING)
    if is_empty(n):
        if not omit:
            raise _NOTHING.error()
        dtype = aval(rows).dtype if floating else np.dtype(np.float64)
        found = broadcast_to(dtype.type(np.nan), tuple(others))  # without the axes of q, as in NumPy
        return _with_axes(found, a, kept, (), keepdims)
    if weights is not None:
        if method != "inverted_cdf":
            raise reject(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
        found = _weighted(rows, part, _weight_rows(weights, a, axis, kept), omit)
    else:
        found = _between(rows, part, _METHODS[method], numbers, weak)
    if omit and not floating and has_count(n):
        if aval(found).dtype.kind == "f":
            found = u.where(u.equal(extent_value(n, np.int64), 0), aval(found).dtype.type(np.nan), found)
        else:  # NumPy's NaN is none of these numbers
            check_not_empty(name, n, why=_NOTHING)
    return _with_axes(found, a, kept, lead, keepdims)


def _between(rows: ArrayLike, q: ArrayLike, method: Callable[..., Any], numbers: ArrayLike, weak: bool) -> Result:
    """The quantiles of rows: `method` gives places, whole or in between, and how far on the next element counts.

    rows: [*kept, n], q: [*lead] -> [*lead, *kept]
    """
    have = aval(rows)
    *kept, n = have.shape
    last, lead = have.ndim - 1, aval(q).ndim
    ordered = s.sort([rows], last)[0]
    if numbers is None:
        count = extent_value(n, np.int64)
    else:
        count = numbers
        q = reshape(q, (*aval(q).shape, *(1,) * len(kept))) if kept else q
    if aval(q).dtype.kind == "f":
        count = to_dtype(count, aval(q).dtype)
    shape = (*aval(q).shape[:lead], *kept) if numbers is not None else aval(q).shape

    def take(at: ArrayLike) -> Result:
        at = to_dtype(at, np.int64)
        if numbers is None:
            return gather(ordered, (last,), [at])
        return _taken(ordered, broadcast_to(at, shape))

    m: Any = u if isinstance(q, Tracer) or isinstance(count, Tracer) else np  # or is known while tracing
    final = m.subtract(count, 1)
    place, weight_of = method(m, count, q)
    if weight_of is None:
        found = take(m.maximum(place, 0))
    else:
        before = m.floor(place)
        above, below = m.greater_equal(place, final), m.less(place, 0)
        least = m.multiply(before, 0)
        ends = [m.where(above, final, m.where(below, least, at)) for at in (before, m.add(before, 1))]
        weight = weight_of(m, m.subtract(place, m.where(above, -1, m.where(below, least, before))), place)
        if weak:
            weight = to_dtype(weight, have.dtype if have.dtype.kind == "f" else np.float64)
        elif numbers is None:
            weight = reshape(weight, (*aval(weight).shape, *(1,) * len(kept)))
        x, y = (take(m.maximum(at, 0)) for at in ends)
        gap = u.subtract(y, x)
        nearer = u.subtract(y, u.multiply(gap, u.subtract(1, weight)))
        found = u.where(u.greater_equal(weight, 0.5), nearer, u.add(x, u.multiply(gap, weight)))
    if have.dtype.kind != "f":
        return found
    if numbers is not None:
        return u.where(u.equal(numbers, 0), aval(found).dtype.type(np.nan), found)
    greatest = gather(ordered, (last,), [u.subtract(extent_value(n, np.int64), 1)])
    return u.where(u.isnan(greatest), to_dtype(greatest, aval(found).dtype), found)


def _plain(m: Any, weight: ArrayLike, place: ArrayLike) -> Result:
    return weight


def _linear(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
    place = m.multiply(m.subtract(n, 1), q)
    return place, (None if place.dtype.kind in "iu" else _plain)


def _by_formula(alpha: float, beta: float) -> Callable[..., Any]:
    """Hyndman and Fan's place of a quantile."""

    def method(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
        shift = m.add(alpha, m.multiply(q, 1 - alpha - beta))
        return m.subtract(m.add(m.multiply(n, q), shift), 1), _plain

    return method


def _on_elements(round_to: str) -> Callable[..., Any]:
    def method(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
        return getattr(m, round_to)(m.multiply(m.subtract(n, 1), q)), None

    return method


def _midpoint(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
    place = m.multiply(m.subtract(n, 1), q)
    middle = m.multiply(0.5, m.add(m.floor(place), m.ceil(place)))

    def weight(m: Any, _: ArrayLike, at: ArrayLike) -> Result:
        return m.where(m.equal(m.remainder(at, 1), 0), at.dtype.type(0), at.dtype.type(0.5))

    return middle, weight


def _averaged(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
    place = m.subtract(m.multiply(n, q), 1)

    def weight(m: Any, given: ArrayLike, at: ArrayLike) -> Result:
        return m.where(m.equal(given, 0), 0.5, 1.0)

    return place, weight


def _steps(back: float, stays: Callable[..., Any]) -> Callable[..., Any]:
    """The element before a place where `stays` holds, else the one behind it."""

    def method(m: Any, n: ArrayLike, q: ArrayLike) -> tuple[Any, Any]:
        place = m.subtract(m.multiply(n, q), 1)
        place = m.subtract(place, back) if back else place
        before = m.floor(place)
        return m.where(stays(m, m.subtract(place, before), before), before, m.add(before, 1)), None

    return method


_METHODS: dict[str, Callable[..., Any]] = {
    "inverted_cdf": _steps(0, lambda m, weight, _: m.equal(weight, 0)),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _steps(
        0.5, lambda m, weight, before: m.logical_and(m.equal(weight, 0), m.equal(m.remainder(before, 2), 1))
    ),
    "interpolated_inverted_cdf": _by_formula(0, 1),
    "hazen": _by_formula(0.5, 0.5),
    "weibull": _by_formula(0, 0),
    "linear": _linear,
    "median_unbiased": _by_formula(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _by_formula(3 / 8.0, 3 / 8.0),
    "lower": _on_elements("floor"),
    "higher": _on_elements("ceil"),
    "midpoint": _midpoint,
    "nearest": _on_elements("rint"),
}
"""By NumPy's name: (functions, count, q) -> (place, how much the next element counts).

The latter is None where the place is an element's.
"""


# -- with weights ------------------------------------------------------------------------------------------------------
def _weight_rows(weights: ArrayLike, a: ArrayLike, axis: AxisLike, kept: tuple[int, ...]) -> Result:
    """Weights in the shape of the rows."""
    w = array_of(weights)
    shape = aval(array_of(a)).shape
    have = aval(w).shape
    axes = [d for d in range(len(shape)) if d not in kept]
    if have != shape:
        if axis is None:
            raise DtypeError("Axis must be specified when shapes of a and weights differ.", location=user_location())
        given = [d % len(shape) for d in items_of(axis)]
        if have != tuple([shape[d] for d in given]):
            raise reject("Shape of weights must be consistent with shape of a along specified axis.")
        w = transpose(w, tuple([given.index(d) for d in axes]))
        w = broadcast_to(reshape(w, tuple([shape[d] if d in axes else 1 for d in range(len(shape))])), shape)
    check_none(u.less(w, 0), _NEGATIVE_WEIGHTS)
    total: Extent = prod([shape[d] for d in axes])
    return reshape(transpose(w, (*kept, *axes)), (*[shape[d] for d in kept], total))


def _weighted(rows: ArrayLike, q: ArrayLike, weights: ArrayLike, omit: bool) -> Result:
    """The first element of each sorted row up to which the weights sum to the part q of all of them."""
    have = aval(rows)
    *kept, n = have.shape
    last, lead = have.ndim - 1, aval(q).ndim
    floating = have.dtype.kind == "f"
    if omit and floating:
        weights = u.where(u.isnan(rows), aval(weights).dtype.type(0), weights)
    ordered, weights = s.sort([rows, weights], last)
    if aval(weights).dtype.kind == "b":
        raise unsupported("weights are numbers, not bool; convert them")
    sums = cumulative("cumsum", to_dtype(weights, np.float64), last)
    end = reshape(gather(sums, (last,), [u.subtract(extent_value(n, np.int64), 1)]), (*kept, 1))
    shares = u.divide(sums, end)
    nothing: Any = None
    if omit and floating:
        nothing = u.equal(_numbers_in(rows), 0)
        whole = u.isnan(reshape(gather(shares, (last,), [u.subtract(extent_value(n, np.int64), 1)]), tuple(kept)))
        check_none(u.logical_and(whole, u.logical_not(nothing)), _BAD_WEIGHTS)
    else:
        check_none(u.isnan(gather(shares, (last,), [u.subtract(extent_value(n, np.int64), 1)])), _BAD_WEIGHTS)
    if aval(q).dtype.kind == "f":
        shares = to_dtype(shares, aval(q).dtype)
    shares = u.where(u.equal(shares, 0), -1, shares)  # what has no weight is not the part 0
    wanted = reshape(q, (*aval(q).shape, *(1,) * (len(kept) + 1)))
    place = r.sum(u.less(shares, wanted), axis=-1, dtype=np.int64)
    limit = _numbers_in(rows) if omit and floating else extent_value(n, np.int64)
    place = u.maximum(u.minimum(place, u.subtract(limit, 1)), 0)
    place = broadcast_to(place, (*aval(q).shape[:lead], *kept))
    found = _taken(ordered, place)
    if nothing is not None:
        return u.where(nothing, have.dtype.type(np.nan), found)
    if not floating:
        return found
    greatest = gather(ordered, (last,), [u.subtract(extent_value(n, np.int64), 1)])
    return u.where(u.isnan(greatest), greatest, found)


for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
OUT_CASTING.update(dict.fromkeys((quantile, percentile), "same_kind"))
LEAST_INTO_INTEGERS.update(dict.fromkeys((median, nanmedian), 8))
