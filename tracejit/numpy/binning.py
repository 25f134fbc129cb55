"""How many elements there are of each value, and in each of many intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import as_extent, is_sequence, is_zero, not_negative, reject, same_shape, unsupported
from tracejit.numpy.differences import diff
from tracejit.numpy.evenly_spaced import linspace
from tracejit.numpy.joining import element_at, part
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.numpy.taking import searchsorted
from tracejit.primitives import shape as p
from tracejit.primitives.creation import full
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.reduction import reduce_max
from tracejit.support.dtypes import PYTHON_NUMBERS
from tracejit.support.errors import ConcretizationError, DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import BEYOND_MINLENGTH, INFINITE_RANGE, NEGATIVE_COUNT, UNORDERED_BINS
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(
    x: ArrayLike, /, weights: ArrayLike = None, minlength: ArrayLike = 0, *, length: ArrayLike = None
) -> Result:
    """How often each of 0, 1, 2, ... is among integers that are not negative, or the sum of the weights of each.

    x: integer[n], weights: number[n] -> int64[m], float64[m] of weights, where m is the greatest integer plus 1, at
    least `minlength`.  Where only the program knows x, the result has `minlength` elements, and the program fails if x
    holds one as great.
    length: how many elements the result has, as in JAX: what is beyond is left out, what is negative counts as 0, sums
    have the dtype of the weights.
    Raises: NegativeCount, a ValueError; ConcretizationError for unknown x without `minlength` or `length`; DtypeError.
    Source: NumPy's bincount, JAX's `length`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.bincount(x, minlength=4))(np.array([1, 3, 1]))
    array([0, 2, 0, 1])
    """
    y = array_of(x)
    have = aval(y)
    if have.ndim != 1:
        raise reject(f"np.bincount takes a vector, not {have}")
    if not isinstance(y, Tracer) and not have.size and have.dtype.kind == "f" and isinstance(x, (list, tuple)):
        y = np.zeros(0, np.int64)
    elif have.dtype.kind not in "iub":
        raise DtypeError(f"np.bincount counts integers, not {have}", location=user_location())
    y = to_dtype(y, np.int64)
    w = None if weights is None else array_of(weights)
    if w is not None and not same_shape(aval(w).shape, have.shape) and tuple(aval(w).shape) != tuple(have.shape):
        raise reject("np.bincount: the weights and the vector differ in length")
    if length is not None:
        count = not_negative(as_extent(length), "np.bincount: length is not negative")
        dtype = np.dtype(np.int64) if w is None else aval(w).dtype
        return _counted(u.maximum(y, 0), count, w, dtype)
    least = not_negative(as_extent(minlength), "np.bincount: minlength is not negative")
    count = _known_count(y, least)
    if count is None:
        if isinstance(least, int) and least == 0:
            raise ConcretizationError(
                "np.bincount gives as many elements as the greatest value says, which is not known while tracing; give "
                "minlength=, if no value is greater, or length= of tj.numpy.bincount, which leaves out those that are",
                location=user_location(),
            )
        count = least
    _check_counted(y, count)
    plain = w is None or is_zero(aval(y).shape[0])  # of nothing NumPy counts without weights
    return _counted(y, count, w, np.dtype(np.int64 if plain else np.float64))


def _check_counted(y: ArrayLike, count: Any) -> None:
    """The program fails if a number is negative, or as great as `count`, of which NumPy would make more."""
    n = aval(y).shape[0]
    if is_zero(n):
        return
    # Negative numbers are the greatest unsigned ones: the greatest element is wrong if any is.
    worst = reduce_max(to_dtype(y, np.uint64), (0,))
    some = u.greater(OPERATORS.extent(n), 0)
    check_none(u.logical_and(some, u.less(to_dtype(worst, np.int64), 0)), NEGATIVE_COUNT)
    check_none(
        u.logical_and(some, u.greater_equal(to_dtype(worst, np.int64), OPERATORS.extent(count))), BEYOND_MINLENGTH
    )


def _known_count(y: ArrayLike, least: Any) -> Any:
    """How many elements the result has, if that is known."""
    values = y.seen().made() if isinstance(y, Tracer) else np.asarray(y)
    if values is None and isinstance(y, Tracer):
        values = y.known()  # it may follow from sizes
    if values is None:
        return least if is_zero(aval(y).shape[0]) else None
    most = int(values.max()) + 1 if values.size else 0
    return most if isinstance(least, int) and least <= most else max(most, int(least))


def _counted(places: ArrayLike, count: Any, weights: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """The sums of weights (of ones) at each of `count` places; what lies outside is left out."""
    shape = aval(places).shape
    new = full(shape, dtype.type(1)) if weights is None else to_dtype(weights, dtype)
    return scatter(full((count,), dtype.type(0)), new, (0,), [places], "add")


# -- histograms --------------------------------------------------------------------------------------------------------
def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike | str = 10, range: Any = None, weights: ArrayLike = None
) -> Result:
    """The edges of bins for `histogram`: of so many of one width, from the least element to the greatest or over
    `range`; edges that are given are those.

    Raises: ShapeError, a ValueError, for no bins, a range that is none or edges that fall; ConcretizationError for a
    rule ("auto") where only the program knows the elements.   Source: NumPy's histogram_bin_edges.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.histogram_bin_edges(x, 4))(np.array([0.0, 2.0, 1.0]))
    array([0. , 0.5, 1. , 1.5, 2. ])
    """
    return _edges("histogram_bin_edges", ravel(array_of(a)), bins, range, weights)[0]


def _edges(name: str, x: ArrayLike, bins: Any, over: Any, weights: ArrayLike) -> tuple[Result, Any]:
    """(edges of bins, how many there are if all are of one width)"""
    if aval(x).dtype.kind == "b":
        x = to_dtype(x, np.uint8)
    if isinstance(bins, str):
        return _by_rule(name, x, bins, over, weights), None
    if is_sequence(bins):
        edges = as_array(bins)
        if aval(edges).ndim != 1:
            raise reject(f"np.{name}: the edges of bins are a vector")
        n = aval(edges).shape[0]
        if not isinstance(n, int) or n > 1:
            first, second = part(edges, 0, 0, n - 1), part(edges, 0, 1, n - 1)
            check_none(u.less(second, first), UNORDERED_BINS)
            if aval(edges).dtype.kind in "fc":  # NaN is greatest
                check_none(u.logical_and(u.isnan(first), u.logical_not(u.isnan(second))), UNORDERED_BINS)
        return edges, None
    if isinstance(bins, (float, np.floating)) or (getattr(bins, "ndim", 1) == 0 and aval(bins).dtype.kind not in "iu"):
        raise DtypeError(f"np.{name}: bins is a number of bins, edges or a rule's name", location=user_location())
    count = as_extent(bins)
    if isinstance(count, int) and count < 1:
        raise reject(f"np.{name}: there is no histogram of {count} bins")
    first, last = _ends(name, x, over)
    if name == "histogramdd":
        return linspace(first, last, count + 1), count
    ends = [first, last, x]
    dtype = np.result_type(*[_sample(e) for e in ends])
    if dtype.kind in "iub":
        dtype = np.result_type(dtype, float)
    return linspace(first, last, count + 1, dtype=dtype), count


def _sample(x: Any) -> Any:
    """What NumPy's promotion asks of x: a number as it is, else a dtype."""
    have = aval(x)
    if not have.weak:
        return have.dtype
    return PYTHON_NUMBERS[have.dtype.kind]


def _ends(name: str, x: ArrayLike, over: Any) -> tuple[Any, Any]:
    """The first and the last edge."""
    if over is not None:
        first, last = over if isinstance(over, (tuple, list)) else (element_at(over, 0), element_at(over, 1))
        known = [None if isinstance(e, Tracer) else e for e in (first, last)]
        if None not in known:
            if first > last:
                raise reject(f"np.{name}: the range {over} ends before it begins")
            if not (np.isfinite(first) and np.isfinite(last)):
                raise reject(f"np.{name}: the range {over} is not finite")
        else:
            check_none(u.logical_not(u.isfinite(u.subtract(last, first))), INFINITE_RANGE)
    elif is_zero(aval(x).shape[0]):
        first, last = 0, 1
    else:
        first, last = r.min(x), r.max(x)
        check_none(u.logical_not(u.isfinite(u.subtract(last, first))), INFINITE_RANGE)
    same = u.equal(first, last)
    if not isinstance(same, Tracer):
        return (u.subtract(first, 0.5), u.add(last, 0.5)) if same else (first, last)
    return u.where(same, u.subtract(first, 0.5), first), u.where(same, u.add(last, 0.5), last)


def _by_rule(name: str, x: ArrayLike, rule: str, over: Any, weights: ArrayLike) -> Result:
    """Edges whose number a rule finds for known elements."""
    if weights is not None:
        raise DtypeError(f"np.{name}: a rule for the bins takes no weights", location=user_location())
    try:
        return np.histogram_bin_edges(np.asarray(x), rule, over)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"np.{name} with bins={rule!r} has as many bins as values say, which are not known while tracing; give "
            "their number, or edges",
            location=user_location(),
        ) from error


def histogram(
    a: ArrayLike,
    bins: ArrayLike | str = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike = None,
) -> tuple[Result, Result]:
    """How many elements lie in each of the bins, or the sum of their weights, and the edges of the bins: an edge
    belongs to the bin that it begins, the last one to the last.

    a: number of any shape; weights: of the same -> int64[m] (weights' dtype; float64 with density), [m + 1].
    density: counts are divided by the widths and by their sum.
    Raises: as `histogram_bin_edges`, and ShapeError for weights of another shape.   Source: NumPy's histogram.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.histogram(x, bins=3, range=(0, 3)))(np.array([0.5, 1.0, 3.0, 9.0]))
    (array([1, 1, 1]), array([0., 1., 2., 3.]))
    """
    given = array_of(a)
    if aval(given).dtype.kind == "c":
        raise unsupported("np.histogram of complex numbers, by their order, is not supported; take x.real or abs(x)")
    if aval(given).dtype.kind == "b":
        given = to_dtype(given, np.uint8)
    x = ravel(given)
    w = None if weights is None else array_of(weights)
    if w is not None:
        if not same_shape(aval(w).shape, aval(given).shape) and tuple(aval(w).shape) != tuple(aval(given).shape):
            raise reject("np.histogram: the weights are not of the array's shape")
        w = ravel(w)
        if aval(w).dtype.kind == "b" and is_sequence(bins):
            raise DtypeError("np.histogram: weights are added up, as numbers; convert bools", location=user_location())
    edges, count = _edges("histogram", x, bins, range, weights)
    m = aval(edges).shape[0] - 1
    counts = _in_bins([_of_width(x, edges, count) if count is not None else _of_edges(x, edges, with_nan=True)], [m], w)
    if w is not None:
        counts = to_dtype(counts, aval(w).dtype)
    if density:
        widths = to_dtype(diff(edges), np.float64)
        counts = u.divide(u.divide(counts, widths), r.sum(counts))
    return counts, edges


def _of_edges(x: ArrayLike, edges: ArrayLike, *, with_nan: bool = False) -> Result:
    """The bin of each element, by a search; -1 for those in none.  with_nan: a last edge of NaN has those below."""
    m = aval(edges).shape[0] - 1
    if isinstance(m, int) and m < 1:
        return full(aval(x).shape, np.int64(-1))
    found = u.subtract(searchsorted(edges, x, "right"), 1)
    last = element_at(edges, m)
    from_first, to_last = u.greater_equal(x, element_at(edges, 0)), u.less_equal(x, last)
    if aval(edges).dtype.kind in "fc":
        missing = u.isnan(x)
        from_first, to_last = u.logical_or(from_first, missing), u.logical_or(to_last, u.isnan(last))
        if not with_nan:
            to_last = u.logical_and(to_last, u.logical_not(missing))
    inside = u.logical_and(from_first, to_last)
    return u.where(inside, u.minimum(found, OPERATORS.extent(m - 1)), np.int64(-1))


def _of_width(x: ArrayLike, edges: ArrayLike, count: Any) -> Result:
    """The bin of each element where all are of one width: where it falls, one bin on or back as the edges say."""
    first, last = element_at(edges, 0), element_at(edges, count)
    wide = np.dtype(np.float64)
    at, low, high = (to_dtype(z, wide) for z in (x, first, last))
    guess = u.multiply(u.divide(u.subtract(at, low), u.subtract(high, low)), to_dtype(OPERATORS.extent(count), wide))
    inside = u.logical_and(u.greater_equal(x, first), u.less_equal(x, last))
    most = OPERATORS.extent(count - 1)
    k = u.minimum(to_dtype(u.where(inside, guess, 0.0), np.int64), most)
    early = u.less(x, gather(edges, (0,), [k]))
    k = u.where(u.logical_and(early, u.greater(k, 0)), u.subtract(k, 1), k)
    late = u.logical_and(u.greater_equal(x, gather(edges, (0,), [u.add(k, 1)])), u.less(k, most))
    return u.where(inside, u.where(late, u.add(k, 1), k), np.int64(-1))


def _in_bins(places: Sequence[ArrayLike], shape: Sequence[Any], weights: ArrayLike) -> Result:
    """Counts, or sums of weights as float64 or complex128, at the bins that elements lie in along each axis."""
    dtype = np.dtype(np.int64 if weights is None else np.result_type(aval(weights).dtype, np.float64))
    new = full(aval(places[0]).shape, dtype.type(1)) if weights is None else to_dtype(weights, dtype)
    return scatter(full(tuple(shape), dtype.type(0)), new, tuple(range(len(shape))), list(places), "add")


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike = None,
) -> tuple[Result, list[Result]]:
    """How many points lie in each of the boxes that bins along every axis make, or the sum of their weights, and the
    edges of the bins of each axis.

    sample: number[n, d], or d vectors [n]; bins: a number, or one or edges for each axis; range: (first, last) or None
    for each -> float64[m1, .., md], ([m1 + 1], ..).
    density: counts are divided by the volumes and by their sum.
    Raises: as `histogram`.   Source: NumPy's histogramdd.

    >>> import numpy as np, tracejit as tj
    >>> counts, _ = tj.jit(lambda x: np.histogramdd(x, (2, 1), ((0, 2), (0, 1))))(np.array([[0.5, 0.5], [1.5, 0.5]]))
    >>> counts
    array([[1.],
           [1.]])
    """
    columns = _columns(sample)
    d = len(columns)
    try:
        if len(bins) != d:
            raise reject(f"np.histogramdd: {len(bins)} bins for points of {d} numbers")
        each = list(bins)
    except TypeError:
        each = [bins] * d
    ranges = [None] * d if range is None else list(range)
    if len(ranges) != d:
        raise reject(f"np.histogramdd: {len(ranges)} ranges for points of {d} numbers")
    edges: list[Any] = []
    places: list[Any] = []
    for x, b, over in zip(columns, each, ranges, strict=True):
        if isinstance(b, str):
            raise unsupported("np.histogramdd takes numbers of bins or edges, no rules")
        e, _ = _edges("histogramdd", x, b, over, None)
        edges.append(e)
        places.append(_of_edges(x, e))
    shape = [aval(e).shape[0] - 1 for e in edges]
    w = None if weights is None else ravel(array_of(weights))
    if w is not None and not aval(w).shape[0] == aval(columns[0]).shape[0]:
        raise reject("np.histogramdd: there are not as many weights as points")
    counts = to_dtype(_in_bins(places, shape, w), np.float64)
    if density:
        total = r.sum(counts)
        for k, e in enumerate(edges):
            widths = p.broadcast_in_dim(to_dtype(diff(e), np.float64), aval(counts).shape, (k,))
            counts = u.divide(counts, widths)
        counts = u.divide(counts, total)
    return counts, edges


def _columns(sample: Any) -> list[Any]:
    """The coordinates of points, a vector for each axis."""
    if isinstance(sample, (list, tuple)):
        columns = [array_of(x) for x in sample]
        dtype = np.result_type(*[aval(x).dtype for x in columns])
        columns = [to_dtype(x, dtype) for x in columns]
        if all(aval(x).ndim <= 1 for x in columns):
            return [p.reshape(x, (aval(x).size,)) for x in columns] if aval(columns[0]).ndim else [_joined(columns)]
        sample = array_of(sample)
        return [_row(sample, k) for k, _ in enumerate(columns)]
    points = array_of(sample)
    have = aval(points).shape
    if len(have) == 1:
        return [points]
    if len(have) != 2:
        raise reject(f"np.histogramdd: points of shape {have} are not [n, d]")
    n, d = have[0], int(have[1])
    return [p.reshape(part(points, 1, k, 1), (n,)) for k in range(d)]


def _row(x: ArrayLike, k: int) -> Result:
    return p.reshape(part(x, 0, k, 1), (prod(aval(x).shape[1:]),))


def _joined(numbers: Sequence[Any]) -> Result:
    return OPERATORS.stack([array_of(x) for x in numbers])


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: ArrayLike = None,
) -> tuple[Result, Result, Result]:
    """`histogramdd` of points (x, y): the counts, the edges along x, and those along y.

    x, y: number[n]; bins: a number or edges for both, or two of them -> float64[m1, m2], [m1 + 1], [m2 + 1].
    Raises: as `histogramdd`.   Source: NumPy's histogram2d.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.histogram2d(x, y, 2, ((0, 2), (0, 2)))[0])(np.array([0.5, 1.5]), np.array([0.5, 0.5]))
    array([[1., 0.],
           [1., 0.]])
    """
    if not aval(array_of(x)).shape == aval(array_of(y)).shape:
        raise reject("np.histogram2d: x and y differ in length")
    count = len(bins) if is_sequence(bins) else 1
    if count not in (1, 2):  # edges for both
        bins = [as_array(bins)] * 2
    counts, (first, second) = histogramdd([x, y], bins, range, density, weights)
    return counts, first, second


for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
