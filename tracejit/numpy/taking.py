"""Elements at computed places, and the places of values in sorted arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import greatest_extent, has_index
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.agreement import as_long_as, is_counted
from tracejit.numpy.axes import axis_index, is_flattened, reject, same_shape
from tracejit.numpy.bounds import Bounds
from tracejit.numpy.joining import concatenate, part
from tracejit.numpy.linear import alike
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, broadcast_to as spread, to_dtype
from tracejit.numpy.selecting import clip
from tracejit.numpy.shaping import array_of, as_rank_0_array, ravel
from tracejit.primitives import creation as c, shape as p
from tracejit.primitives.complex_numbers import imag, make_complex, real
from tracejit.primitives.custom import stop_gradient
from tracejit.primitives.indexing import gather
from tracejit.primitives.sorting import sort
from tracejit.support.errors import DtypeError, IndexOutOfBounds, ShapeError
from tracejit.support.modes import GatherScatterMode
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, IndexLike, Result
from tracejit.tracer.failures import UNORDERED_BINS, Reason
from tracejit.tracer.layout import LAYOUTS, in_c_order
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS, OUT_CASTING
from tracejit.tracer.tracer import Tracer

__all__ = [
    "cumulative_prod", "cumulative_sum", "digitize", "interp", "isin", "searchsorted", "take",
    "take_along_axis",
]  # fmt: skip

_FEW = 16
"""Elements that `isin` compares with each one."""


def take(
    a: ArrayLike,
    indices: IndexLike,
    axis: AxisLike = None,
    out: ArrayLike = None,
    mode: Any = "raise",
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike = None,
) -> Result:
    """Elements of an axis (of the flattened array by default) at integer places.

    mode: "raise" as indexing does, "clip" to the axis, "wrap" around it; or JAX's "fill" and "promise_in_bounds" (see
    `tj.lax.GatherScatterMode`), which count negative places from the end.  fill_value: what places out of range read
    with "fill", by default NaN, the least signed or greatest unsigned integer, or True; given alone it makes that the
    mode.  unique_indices and indices_are_sorted change nothing.
    """
    x = array_of(a)
    if is_flattened(axis, aval(x).ndim):
        x, axis = ravel(x), 0
    k = axis_index(axis, aval(x).ndim)
    n = aval(x).shape[k]
    places = array_of(indices)
    # NumPy takes it for float64, and lets it pass
    if isinstance(indices, (list, tuple, range)) and not aval(places).size:
        places = np.zeros(aval(places).shape, np.int64)
    if aval(places).dtype.kind not in "iub":
        raise DtypeError(f"np.take: {aval(places)} is not an index", location=user_location())
    if mode == "clip":
        places = clip(places, 0, 0 if isinstance(n, int) and n == 0 else as_array(n - 1))
    elif mode == "wrap":
        places = u.remainder(to_dtype(places, np.int64), as_array(n))
    elif mode != "raise" or fill_value is not None:
        if not isinstance(mode, GatherScatterMode) and mode not in ("raise", "fill", "promise_in_bounds"):
            raise reject(f"np.take: mode is 'raise', 'wrap', 'clip', 'fill' or 'promise_in_bounds', not {mode!r}")
        bounds = Bounds.of("fill" if mode == "raise" else mode, wrap=True, reads=True)
        index = (slice(None),) * k + (to_dtype(places, np.int64),)
        return OPERATORS.getitem(x, index, True, bounds, fill_value)
    return OPERATORS.getitem(x, (slice(None),) * k + (to_dtype(places, np.int64),))


def take_along_axis(
    arr: ArrayLike,
    indices: IndexLike,
    axis: AxisLike = -1,
    mode: Any = None,
    fill_value: ArrayLike = None,
    *,
    wrap_negative_indices: bool = True,
) -> Result:
    """out[.., i, ..] = arr[.., indices[.., i, ..], ..] along one axis; the others are broadcast.

    mode: what becomes of indices out of range (`tj.lax.GatherScatterMode`), which by default are an error; with "fill"
    they read `fill_value` (NaN, the least signed or greatest unsigned integer, True).  wrap_negative_indices: whether
    -1 is the last element, or out of range.
    """
    x, places = array_of(arr), array_of(indices)
    if axis is None:
        x, axis = ravel(x), 0
    have = aval(x).shape
    rank = len(have)
    if aval(places).dtype.kind not in "iu":
        raise IndexOutOfBounds(
            f"np.take_along_axis: the indices are {aval(places)}, not integers", location=user_location()
        )
    if aval(places).ndim != rank:
        raise reject(f"np.take_along_axis: arrays of rank {rank} and {aval(places).ndim}")
    k = axis_index(axis, rank)
    lines = [c.iota(tuple([n if e == d else 1 for e in range(rank)]), d, np.int64) for d, n in enumerate(have)]
    lines[k] = places
    if mode is None and wrap_negative_indices:
        return OPERATORS.getitem(x, tuple(lines))
    if mode == "one_hot" or mode is GatherScatterMode.ONE_HOT:  # zero where no index is hit
        mode, fill_value = "fill", 0
    bounds = Bounds.of(mode, wrap=wrap_negative_indices, reads=True)
    return OPERATORS.getitem(x, tuple(lines), True, bounds, fill_value)


_METHODS = ("default", "scan", "scan_unrolled", "sort", "compare_all")


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike = None, *, method: str | None = None
) -> Result:
    """Where values would be put into a sorted vector, before (left) or after (right) equal ones; NaN is greatest.

    A binary search with as many steps as the extent has bits, whatever JAX's `method` says; with one the result is
    int32, as JAX's.
    """
    if method is not None and method not in _METHODS:
        raise reject(f"np.searchsorted: method is one of {', '.join(_METHODS)}, not {method!r}")
    if sorter is not None:
        a = take(a, sorter)
    if side not in ("left", "right"):
        raise reject(f"np.searchsorted: side is 'left' or 'right', not {side!r}")
    line, value = alike(a, v)
    if aval(line).ndim != 1:
        raise reject("np.searchsorted: the sorted array is a vector")
    n = _count(line)
    place = spread(np.int64(0), aval(value).shape)
    step = 1 << int(greatest_extent(aval(line).shape[0])).bit_length()
    while step := step // 2:
        further = u.add(place, step)
        inside = u.less_equal(further, n)
        last = u.subtract(u.minimum(further, n), 1)
        found = gather(line, (0,), [last if isinstance(n, int) else u.maximum(last, 0)])
        place = u.where(u.logical_and(inside, _before(found, value, side)), further, place)
    return place if method is None else to_dtype(place, np.int32)


def _count(line: ArrayLike) -> Any:
    """How many elements a vector has: as an integer, or as a number of the program where that computes it."""
    n = aval(line).shape[0]
    return OPERATORS.extent(n) if has_index(n) else int(n)


def _before(x: ArrayLike, value: ArrayLike, side: str) -> Result:
    """x < value (x <= value for the right side), NaN after all numbers."""
    compare = u.less if side == "left" else u.less_equal
    plain = compare(x, value)
    if aval(value).dtype.kind not in "fc":
        return plain
    return u.logical_or(
        plain, u.isnan(value) if side == "right" else u.logical_and(u.isnan(value), u.logical_not(u.isnan(x)))
    )


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Result:
    """The number of the bin that each value lies in; bins rise or fall.  method: of `searchsorted`.

    Raises: UnorderedBins if they do neither; where that depends on values, the program does.
    """
    edges = array_of(bins)
    if "c" in (aval(array_of(x)).dtype.kind, aval(edges).dtype.kind):
        raise DtypeError("np.digitize: x and bins may not be complex", location=user_location())
    if aval(edges).ndim != 1:
        raise reject("np.digitize: the bins are a vector")
    n = _count(edges)
    later, earlier = (OPERATORS.getitem(edges, cut) for cut in (slice(1, None), slice(None, -1)))
    falls, rises = r.any(u.less(later, earlier)), r.any(u.greater(later, earlier))
    check_none(u.logical_and(falls, rises), UNORDERED_BINS)
    side = "left" if right else "right"

    def rising() -> Result:
        return searchsorted(edges, x, side, method=method)

    def falling() -> Result:
        back = OPERATORS.getitem(edges, slice(None, None, -1))
        return u.subtract(n, searchsorted(back, x, side, method=method))

    if isinstance(falls, Tracer):
        return u.where(falls, falling(), rising())
    return falling() if falls else rising()


_NO_POINTS = Reason(ShapeError, "np.interp needs at least one point")


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike = None,
    right: ArrayLike = None,
    period: ArrayLike = None,
) -> Result:
    """Piecewise linear interpolation between points (xp, fp) with rising xp; `left` and `right` hold outside, or
    "extrapolate", as in JAX: the line through the two points there.

    period: x and xp are taken modulo it, in which case xp need not rise and left and right do not count.

    Raises: ValueError for a period that is known to be 0.
    """
    if period is not None:
        x, xp, fp = _in_one_period(x, xp, fp, period)
        left = right = None
    if aval(array_of(fp)).dtype.kind == "c":
        ends = [z if z is None or isinstance(z, str) else as_array(z) for z in (left, right)]
        return make_complex(*[
            interp(x, xp, of(array_of(fp)), *[z if z is None or isinstance(z, str) else of(z) for z in ends])
            for of in (real, imag)
        ])  # fmt: skip
    at, nodes, values = (to_dtype(array_of(z), np.float64) for z in (x, xp, fp))
    if is_counted(aval(nodes).shape, aval(values).shape) and aval(nodes).ndim == aval(values).ndim == 1:
        values = as_long_as(values, aval(values).shape, aval(nodes).shape)
    if aval(nodes).ndim != 1 or aval(values).ndim != 1 or not same_shape(aval(nodes).shape, aval(values).shape):
        raise reject(
            f"np.interp: points of shapes {aval(nodes).shape} and {aval(values).shape} are not two vectors of one "
            "length"
        )
    n = _count(nodes)
    if isinstance(n, int) and n == 0:
        raise _NO_POINTS.error()
    if not isinstance(n, int):
        check_none(u.equal(n, 0), _NO_POINTS)
    end = u.maximum(u.subtract(n, 1), 0)
    first, last = (gather(values, (0,), [k]) for k in (np.int64(0), end))
    for z in (left, right):
        if isinstance(z, str) and z != "extrapolate":
            raise reject(f"np.interp: left and right are numbers, or 'extrapolate', not {z!r}")
    low = first if left is None or isinstance(left, str) else to_dtype(as_array(left), np.float64)
    high = last if right is None or isinstance(right, str) else to_dtype(as_array(right), np.float64)
    if isinstance(n, int) and n == 1:
        inner = spread(first, aval(at).shape)
    else:
        place = clip(u.subtract(searchsorted(nodes, at, "right"), 1), 0, u.maximum(u.subtract(n, 2), 0))
        after = u.minimum(u.add(place, 1), end)
        x0, y0, x1, y1 = (gather(z, (0,), [k]) for k in (place, after) for z in (nodes, values))
        if isinstance(n, int):
            slopes = u.divide(
                u.subtract(part(values, 0, 1, n - 1), part(values, 0, 0, n - 1)),
                u.subtract(part(nodes, 0, 1, n - 1), part(nodes, 0, 0, n - 1)),
            )
            slope = gather(slopes, (0,), [place])
        else:
            slope = u.divide(u.subtract(y1, y0), u.subtract(x1, x0))
        inner = u.add(u.multiply(slope, u.subtract(at, x0)), y0)
        # Beside an infinite value, seen from the other point; on a point, its value.
        other = u.add(u.multiply(slope, u.subtract(at, x1)), y1)
        other = u.where(u.logical_and(u.isnan(other), u.equal(y0, y1)), y0, other)
        inner = u.where(u.equal(at, x0), _on_line(y0, inner), u.where(u.isnan(inner), other, inner))
    lowest, highest = (gather(nodes, (0,), [k]) for k in (np.int64(0), end))
    beyond = inner
    inner = u.where(u.equal(at, highest), _on_line(last, inner), inner)
    low, high = (beyond if isinstance(z, str) else value for z, value in ((left, low), (right, high)))
    out = u.where(u.greater(at, highest), high, u.where(u.less(at, lowest), low, inner))
    if isinstance(n, int):
        return out if n == 1 else u.where(u.isnan(at), at, out)
    return u.where(u.isnan(at), u.where(u.equal(n, 1), first, at), out)


def _on_line(value: ArrayLike, line: ArrayLike) -> Result:
    """The value at a point, with the derivative of the line there, which differs from it by rounding."""
    still = stop_gradient(line)
    return u.where(u.isfinite(still), u.subtract(stop_gradient(value), u.subtract(still, line)), value)


def _in_one_period(x: ArrayLike, xp: ArrayLike, fp: ArrayLike, period: ArrayLike) -> tuple[Result, Result, Result]:
    """Places and points within a period, with the last point before the first and the first behind the last."""
    if isinstance(period, (int, float)) and period == 0:
        raise reject("period must be a non-zero value")
    length = u.absolute(to_dtype(as_array(period), np.float64))
    at, nodes = (u.remainder(to_dtype(array_of(z), np.float64), length) for z in (x, xp))
    values = array_of(fp)
    if aval(nodes).ndim != 1 or aval(values).ndim != 1 or not same_shape(aval(nodes).shape, aval(values).shape):
        raise reject("Data points must be 1-D sequences of one length")
    nodes, order = sort([nodes, c.iota(aval(nodes).shape, 0, np.int64)], 0, keys=1)
    values = take(values, order)
    n = aval(nodes).shape[0]
    first, last = (part(nodes, 0, k, 1) for k in (0, n - 1))
    ends = [part(values, 0, k, 1) for k in (0, n - 1)]
    nodes = concatenate([u.subtract(last, length), nodes, u.add(first, length)])
    return at, nodes, concatenate([ends[1], values, ends[0]])


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
    method: str = "auto",
) -> Result:
    """Whether each element is among others, or with `invert` whether it is not.

    Few others are compared with each element, many are sorted first; `kind`, `method` and `assume_unique` change
    nothing.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.isin(x, [1, 3]))(np.array([3, 2]))
    array([ True, False])
    """
    x, others = array_of(element), ravel(test_elements)
    (n,) = aval(others).shape
    mine, theirs = aval(x).dtype, aval(others).dtype
    exact = mine == theirs or np.can_cast(theirs, mine) or np.can_cast(mine, theirs)
    if isinstance(n, int) and n > _FEW and exact:
        line, value = alike(others, x)
        line = sort([line], 0)[0]
        place = u.minimum(searchsorted(line, value), n - 1)
        found = u.equal(gather(line, (0,), [place]), value)
    else:
        found = r.any(u.equal(p.reshape(x, (*aval(x).shape, 1)), others), axis=-1)
    return as_rank_0_array(u.logical_not(found) if invert else found)


def _running(name: str, fold: Any, start: int) -> Result:
    def function(
        x: ArrayLike,
        /,
        *,
        axis: AxisLike = None,
        dtype: DTypeLike = None,
        out: ArrayLike = None,
        include_initial: bool = False,
    ) -> Result:
        y = array_of(x)
        if axis is None:
            if aval(y).ndim > 1:
                raise reject(f"np.{name} of an array of rank {aval(y).ndim} needs an axis")
            axis = 0
        y = p.reshape(y, (1,)) if aval(y).ndim == 0 else y
        result = fold(y, axis, dtype)
        if not include_initial:
            return result
        have = aval(result)
        k = axis_index(axis, have.ndim)
        return concatenate([spread(have.dtype.type(start), (*have.shape[:k], 1, *have.shape[k + 1 :])), result], k)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Running {name.removeprefix('cumulative_')}s along an axis, with a leading {start} if `include_initial`."
    )
    return function


cumulative_sum = _running("cumulative_sum", r.cumsum, 0)
cumulative_prod = _running("cumulative_prod", r.cumprod, 1)
OUT_CASTING[take] = "back"
LAYOUTS[take] = in_c_order
METHODS.update({"take": take, "searchsorted": searchsorted})
for _name in __all__:
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = globals()[_name]
