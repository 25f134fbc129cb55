"""Differences along axes, and what is made of them: integrals, angles without jumps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, greater_extent, has_count, is_empty
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import as_extent, axis_index, axis_list, is_zero, reject
from tracejit.numpy.joining import concatenate, element_at, part
from tracejit.numpy.promotion import as_array, aval, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.numpy.strides import in_order_of_operands
from tracejit.primitives import shape as p
from tracejit.support.dtypes import result_type
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.layout import HANDED_BACK, LAYOUTS, UNKNOWN, Layout
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["diff", "ediff1d", "gradient", "trapezoid", "unwrap"]


def _floats(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def diff(
    a: ArrayLike, n: ArrayLike = 1, axis: AxisLike = -1, prepend: ArrayLike = None, append: ArrayLike = None
) -> Result:
    """The n-th difference along an axis: out[i] = a[i + 1] - a[i], n times.  Of order 0 it is the array itself."""
    order = int(as_extent(n))  # one of extents is known once they are
    if order < 0:
        raise reject(f"np.diff: the order is a non-negative integer, not {n!r}")
    x = array_of(a)
    if order == 0:
        return x
    if aval(x).ndim == 0:
        raise reject("np.diff needs at least 1 axis")
    k = axis_index(axis, aval(x).ndim)
    ends = [None if e is np._NoValue else e for e in (prepend, append)]  # pyright: ignore[reportPrivateUsage]
    parts = [_end(ends[0], x, k), x, _end(ends[1], x, k)]
    x = concatenate([y for y in parts if y is not None], k) if any(e is not None for e in ends) else x
    for _ in range(order):
        x = _difference(x, k)
    return x


def _layout_of_differences(
    arrays: Sequence[ArrayLike],
    result: Tracer,
    a: ArrayLike,
    n: ArrayLike = 1,
    axis: AxisLike = -1,
    *ends: ArrayLike,
    **named_ends: ArrayLike,
) -> Layout:
    if result.ndim > 1 and any(e is not None and e is not np._NoValue for e in (*ends, *named_ends.values())):  # pyright: ignore[reportPrivateUsage]
        return UNKNOWN
    return in_order_of_operands(arrays, result)


def _end(value: ArrayLike, x: ArrayLike, k: int) -> Result:
    if value is None:
        return None
    y = array_of(value)
    have = aval(x).shape
    return spread(y, (*have[:k], 1, *have[k + 1 :])) if aval(y).ndim == 0 else y


def _difference(x: ArrayLike, k: int) -> Result:
    m = aval(x).shape[k]
    if not has_count(m) and (is_zero(m) or m < 1):
        return part(x, k, 0, 0)
    left = greater_extent(m - 1, 0) if has_count(m) else m - 1
    late, early = part(x, k, 1, left), part(x, k, 0, left)
    return u.not_equal(late, early) if aval(x).dtype == np.bool_ else u.subtract(late, early)


def ediff1d(ary: ArrayLike, to_end: ArrayLike = None, to_begin: ArrayLike = None) -> Result:
    """Differences of neighbours in the flattened array, with values before and after."""
    x = ravel(ary)
    dtype = aval(x).dtype
    if dtype.kind == "b":
        raise DtypeError(
            "np.ediff1d subtracts, and bools are not subtracted; convert them to integers", location=user_location()
        )

    def beside(value: ArrayLike) -> list[Result]:
        if value is None:
            return []
        y = array_of(value)
        if not np.can_cast(aval(y).dtype, dtype, "same_kind"):
            raise DtypeError(
                f"np.ediff1d: {aval(y)} cannot be put beside differences of {dtype}", location=user_location()
            )
        return [to_dtype(ravel(y), dtype)]

    parts = [*beside(to_begin), _difference(x, 0), *beside(to_end)]
    return concatenate(parts) if len(parts) > 1 else parts[0]


def gradient(f: Any, *varargs: ArrayLike, axis: AxisLike = None, edge_order: int = 1) -> Result:
    """Second-order central differences along axes, one-sided ones of order `edge_order` at the ends.

    varargs: the distance of samples, or their coordinates: none, one for all axes, or one for each.  One array for one
    axis, else a tuple.
    """
    x = array_of(f)
    have = aval(x)
    if have.dtype.kind == "b":
        raise DtypeError(
            "np.gradient subtracts, and bools are not subtracted; convert them to integers", location=user_location()
        )
    x = to_dtype(x, _floats(have.dtype))
    axes = tuple(range(have.ndim)) if axis is None else axis_list(axis, have.ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("np.gradient: one distance for all axes, or one for each")
    if edge_order not in (1, 2):
        raise reject("np.gradient: edge_order is 1 or 2")
    steps: Sequence[Any] = [1.0] * len(axes) if not varargs else (varargs * len(axes) if len(varargs) == 1 else varargs)
    if len(varargs) == 1 and aval(as_array(varargs[0])).ndim and len(axes) != 1:
        raise TypeError("np.gradient: coordinates are given for each axis")
    # In the dtype of f, whatever that of the coordinates is.
    out = tuple(
        [to_dtype(_slope(x, k, as_array(h), edge_order), aval(x).dtype) for k, h in zip(axes, steps, strict=True)]
    )
    return out[0] if len(axes) == 1 else out


def _slope(x: ArrayLike, k: int, h: ArrayLike, edge_order: int) -> Result:
    n = aval(x).shape[k]
    if n < edge_order + 1:
        raise reject(f"np.gradient: axis {k} has extent {n}; edge_order {edge_order} needs at least {edge_order + 1}")
    if aval(h).ndim == 0:
        dtype = result_type((aval(x).dtype, False), (aval(h).dtype, aval(h).weak))[0]
        return _uniform_slope(x, k, n, h, edge_order, dtype)
    if aval(h).ndim != 1:
        raise reject("np.gradient: a distance is a number or a vector of coordinates")
    if aval(h).shape[0] != n:
        raise reject(f"np.gradient: {aval(h).shape[0]} coordinates for axis {k} of extent {n}")
    if aval(h).dtype.kind == "b":
        raise DtypeError(
            "np.gradient subtracts coordinates, and bools are not subtracted; convert them", location=user_location()
        )
    h = to_dtype(h, np.float64) if aval(h).dtype.kind in "iu" else h  # whose differences would wrap around
    gaps = diff(h)
    gap = element_at(gaps, 0)
    slope = _coordinate_slope(x, k, n, gaps, edge_order)
    # NumPy's way with coordinates that are evenly spaced does not read the element between two.
    even = _uniform_slope(x, k, n, gap, edge_order, aval(slope).dtype)
    return u.where(r.all(u.equal(gaps, gap)), even, slope)


def _uniform_slope(x: ArrayLike, k: int, n: Extent, h: ArrayLike, edge_order: int, dtype: np.dtype[Any]) -> Result:
    def at(i: Extent) -> Result:
        return part(x, k, i, 1)

    middle = u.divide(u.subtract(part(x, k, 2, n - 2), part(x, k, 0, n - 2)), u.multiply(2.0, h))
    if edge_order == 1:
        first, last = u.divide(u.subtract(at(1), at(0)), h), u.divide(u.subtract(at(n - 1), at(n - 2)), h)
    else:
        a, b, c = u.divide(-1.5, h), u.divide(2.0, h), u.divide(-0.5, h)
        first = u.add(u.add(u.multiply(a, at(0)), u.multiply(b, at(1))), u.multiply(c, at(2)))
        a, b, c = u.divide(0.5, h), u.divide(-2.0, h), u.divide(1.5, h)
        last = u.add(u.add(u.multiply(a, at(n - 3)), u.multiply(b, at(n - 2))), u.multiply(c, at(n - 1)))
    return concatenate([to_dtype(y, dtype) for y in (first, middle, last)], k)


def _coordinate_slope(x: ArrayLike, k: int, n: Extent, h: ArrayLike, edge_order: int) -> Result:
    """Differences over uneven distances h[i] = x[i + 1] - x[i]."""
    h = to_dtype(h, np.promote_types(aval(h).dtype, aval(x).dtype))
    rank = aval(x).ndim

    def along(d: ArrayLike) -> Result:
        return p.reshape(d, tuple([aval(d).shape[0] if m == k else 1 for m in range(rank)]))

    def at(i: Extent) -> Result:
        return part(x, k, i, 1)

    def gap(i: Extent) -> Result:
        return element_at(h, i)

    def three(a: ArrayLike, b: ArrayLike, c: ArrayLike, i: ArrayLike, j: ArrayLike, m: ArrayLike) -> Result:
        return u.add(u.add(u.multiply(a, i), u.multiply(b, j)), u.multiply(c, m))

    d1, d2 = part(h, 0, 0, n - 2), part(h, 0, 1, n - 2)
    a = u.divide(u.negative(d2), u.multiply(d1, u.add(d1, d2)))
    b = u.divide(u.subtract(d2, d1), u.multiply(d1, d2))
    c = u.divide(d1, u.multiply(d2, u.add(d1, d2)))
    middle = three(along(a), along(b), along(c), part(x, k, 0, n - 2), part(x, k, 1, n - 2), part(x, k, 2, n - 2))
    if edge_order == 1:
        first = u.divide(u.subtract(at(1), at(0)), gap(0))
        last = u.divide(u.subtract(at(n - 1), at(n - 2)), gap(n - 2))
    else:
        p1, p2 = gap(0), gap(1)
        a = u.divide(u.negative(u.add(u.multiply(2.0, p1), p2)), u.multiply(p1, u.add(p1, p2)))
        b = u.divide(u.add(p1, p2), u.multiply(p1, p2))
        c = u.divide(u.negative(p1), u.multiply(p2, u.add(p1, p2)))
        first = three(a, b, c, at(0), at(1), at(2))
        p1, p2 = gap(n - 3), gap(n - 2)
        a = u.divide(p2, u.multiply(p1, u.add(p1, p2)))
        b = u.divide(u.negative(u.add(p2, p1)), u.multiply(p1, p2))
        c = u.divide(u.add(u.multiply(2.0, p2), p1), u.multiply(p2, u.add(p1, p2)))
        last = three(a, b, c, at(n - 3), at(n - 2), at(n - 1))
    return concatenate([first, middle, last], k)


def trapezoid(y: ArrayLike, x: ArrayLike = None, dx: ArrayLike = 1.0, axis: AxisLike = -1) -> Result:
    """The integral along an axis by the trapezoidal rule, over coordinates x or even steps dx."""
    values = array_of(y)
    rank = aval(values).ndim
    k = axis_index(axis, rank)
    if x is None:
        steps: Any = as_array(dx)
    else:
        coordinates = array_of(x)
        if aval(coordinates).ndim == 1:
            steps = diff(coordinates)
            steps = p.reshape(steps, tuple([aval(steps).shape[0] if d == k else 1 for d in range(rank)]))
        else:
            steps = diff(coordinates, axis=axis)
    n = aval(values).shape[k]
    if is_empty(n):
        late, early = values, values
    else:
        late, early = part(values, k, 1, n - 1), part(values, k, 0, n - 1)
    return r.sum(u.divide(u.multiply(steps, u.add(late, early)), 2.0), axis=axis)  # of more axes than y, perhaps


def unwrap(p: ArrayLike, discont: ArrayLike = None, axis: AxisLike = -1, *, period: ArrayLike = 2 * np.pi) -> Result:
    """Angles made continuous: jumps of more than half a period are replaced by their complement."""
    x = array_of(p)
    k = axis_index(axis, aval(x).ndim)
    step = diff(x, axis=k)
    dtype = result_type((aval(step).dtype, False), (aval(as_array(period)).dtype, True))[0]
    limit = period / 2 if discont is None else discont
    if dtype.kind in "iu":
        high, rest = divmod(period, 2)
        boundary = rest == 0
    else:
        high, boundary = period / 2, True
    low = -high
    wrapped = u.add(u.remainder(u.subtract(step, low), period), low)
    if boundary:
        wrapped = u.where(u.logical_and(u.equal(wrapped, low), u.greater(step, 0)), high, wrapped)
    small = spread(u.less(u.absolute(step), limit), aval(step).shape)  # as NumPy's where= is
    correction = u.where(small, 0, u.subtract(wrapped, step))
    total = r.cumsum(correction, axis=k)
    n = aval(x).shape[k]
    if is_empty(n):
        return to_dtype(x, dtype)
    first = to_dtype(part(x, k, 0, 1), dtype)
    return concatenate([first, to_dtype(u.add(part(x, k, 1, n - 1), total), dtype)], k)


for _function in (diff, ediff1d, gradient, trapezoid, unwrap):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
LAYOUTS[diff] = _layout_of_differences
HANDED_BACK.add(diff)
