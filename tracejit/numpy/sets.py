"""Sets: the different elements of arrays, and what two arrays have in common.

All are one sort and a mask over it.  How many elements there are depends on data: it is a symbol of extents, as in
`np.nonzero`, unless `size=` says how many are wanted, as JAX has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, is_empty, prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import axis_index, normalize_axes, reject, unsupported
from tracejit.numpy.counts import checked_size, may_count, places_where
from tracejit.numpy.data_dependent import data_dependent
from tracejit.numpy.joining import concatenate, part
from tracejit.numpy.linear import alike
from tracejit.numpy.promotion import as_array, aval, broadcast_to, leaves_of, to_dtype, wrapped_to_dtype
from tracejit.numpy.shaping import array_of, moveaxis, ravel
from tracejit.numpy.taking import isin
from tracejit.primitives import sorting as s
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.shape import reshape, reverse
from tracejit.support.dtypes import result_type
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.layout import AS_IS
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "intersect1d", "setdiff1d", "setxor1d", "trim_zeros", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

_MOST_COLUMNS = 64
"""Numbers in a row up to which rows are compared: each is a key of the sort."""


def _is_known(*xs: ArrayLike) -> bool:
    """Whether NumPy can be asked: these values depend on no argument, or nothing is traced that could count."""
    return not may_count() or all(not isinstance(x, Tracer) or x.seen().concrete() is not None for x in leaves_of(xs))


def _differs(x: ArrayLike, y: ArrayLike, equal_nan: bool = False) -> Result:
    other = u.not_equal(x, y)
    if not equal_nan or aval(x).dtype.kind not in "fc":
        return other
    return u.logical_and(other, u.logical_not(u.logical_and(u.isnan(x), u.isnan(y))))


_KEEPS_FIRST_NAN = np.lib.NumpyVersion(np.__version__) >= "2.3.0"
"""From there on unique looks elements up as it meets them, and keeps the first NaN; before, the least one."""


def _with_one_nan(x: ArrayLike) -> Result:
    """A vector whose complex NaNs, of which there are many, are the one that `unique` keeps, the first."""
    if aval(x).dtype.kind != "c" or is_empty(aval(x).shape[0]) or not _KEEPS_FIRST_NAN:
        return x
    missing = u.isnan(x)
    return u.where(missing, gather(x, (0,), [r.argmax(missing)]), x)


def _with_equal_nans(x: ArrayLike) -> Result:
    """A vector that is sorted as one whose NaNs are all the same."""
    if aval(x).dtype.kind != "c":
        return x
    return u.where(u.isnan(x), aval(x).dtype.type(complex(np.nan, np.nan)), x)


def _begins(ordered: ArrayLike, differs: Callable[[Any, Any], Any]) -> Result:
    """Whether each element of a sorted vector (or row of an array) is the first of those equal to it."""
    n = aval(ordered).shape[0]
    i = iota((n,), 0, np.int64)
    before = gather(ordered, (0,), [u.maximum(u.subtract(i, 1), 0)])
    return u.logical_or(u.equal(i, 0), differs(ordered, before))


def _ends(begins: ArrayLike) -> Result:
    """Whether each is the last one."""
    (n,) = aval(begins).shape
    i = iota((n,), 0, np.int64)
    last = u.subtract(extent_value(n, np.int64), 1)
    return u.logical_or(u.equal(i, last), gather(begins, (0,), [u.minimum(u.add(i, 1), last)]))


def _padded(values: ArrayLike, count: ArrayLike, size: ArrayLike, fill: ArrayLike) -> Result:
    """The values, with `fill` in place of those from `count` on; as they are where none was asked for."""
    if size is None or fill is None:
        return values
    have = aval(values)
    mask = u.less(iota((have.shape[0],), 0, np.int64), count)
    mask = broadcast_to(reshape(mask, (have.shape[0], *(1,) * (have.ndim - 1))), have.shape)
    return u.where(mask, values, to_dtype(as_array(fill), have.dtype))


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: ArrayLike = None,
    fill_value: ArrayLike = None,
) -> Result:
    """The different elements in rising order, or the different parts along an axis; as many as there are.

    With `return_index` where each is found first, with `return_inverse` which of them each element is, with
    `return_counts` how many times each is there, all int64.  `size` and `fill_value` are JAX's: the first `size` of
    them, then the value, or the least element where there is none.  `sorted` changes nothing.

    Raises: ShapeError for an axis that is not there, UnsupportedError for parts of more than 64 numbers,
    ConcretizationError without `size` where nothing can be counted.
    Source: NumPy's unique, JAX's options.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unique(x, return_counts=True))(np.array([3, 1, 3]))
    (array([1, 3]), array([1, 2]))
    >>> tj.jit(lambda x: tj.numpy.unique(x, size=3, fill_value=-1))(np.array([3, 1, 3]))
    array([ 1,  3, -1])
    """
    options = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts}
    if size is None and _is_known(ar):
        advice = "give size=, how many there are at most, to tj.numpy.unique"
        return data_dependent("unique", advice, np.unique)(ar, **options, axis=axis, equal_nan=equal_nan)
    x = array_of(ar)
    have = aval(x)
    if axis is not None and have.ndim != 1:
        x = moveaxis(x, axis_index(axis, have.ndim), 0)
        return _unique_rows(x, axis_index(axis, have.ndim), options, size, fill_value)
    if axis is not None:
        axis_index(axis, 1)
    x = ravel(x)
    (n,) = aval(x).shape
    if is_empty(n) and size is not None and fill_value is None and not is_empty(checked_size(size)):
        raise reject("unique: of no elements there is none to fill with; give fill_value=")
    if equal_nan and not any(options.values()):
        x = _with_one_nan(x)
    ordered, order = s.sort([x, iota((n,), 0, np.int64)], 0)
    begins = _begins(ordered, lambda a, b: _differs(a, b, equal_nan))
    found = _of_marks(ordered, order, begins, options, size, fill_value)
    if return_inverse and axis is None:
        k = 2 if return_index else 1
        found[k] = reshape(found[k], have.shape)
    return tuple(found) if len(found) > 1 else found[0]


def _of_marks(
    ordered: ArrayLike, order: ArrayLike, begins: ArrayLike, options: dict[str, bool], size: ArrayLike, fill: ArrayLike
) -> list[Any]:
    """[values, index, inverse, counts] of a sorted array, as far as they are wanted."""
    n = aval(ordered).shape[0]
    total = extent_value(n, np.int64)
    places, count = places_where(begins, size)
    found = [_padded(gather(ordered, (0,), [places]), count, size, fill)]
    if options["return_index"]:
        found.append(gather(order, (0,), [places]))
    if options["return_inverse"]:
        number = u.subtract(cumulative("cumsum", to_dtype(begins, np.int64), 0), np.int64(1))
        found.append(scatter(full((n,), np.int64(0)), number, (0,), [order]))
    if options["return_counts"]:
        if size is None:
            k = iota(aval(places).shape, 0, np.int64)
            last = u.subtract(count, 1)
            after = gather(places, (0,), [u.minimum(u.add(k, 1), u.maximum(last, 0))])
            found.append(u.subtract(u.where(u.equal(k, last), total, after), places))
        else:
            edges, _ = places_where(begins, checked_size(size) + 1, total)
            found.append(u.subtract(part(edges, 0, 1, checked_size(size)), part(edges, 0, 0, checked_size(size))))
    return found


def _unique_rows(x: ArrayLike, axis: int, options: dict[str, bool], size: ArrayLike, fill: ArrayLike) -> Result:
    """The different parts of x along its first axis; `axis` is where that lay."""
    have = aval(x)
    n, width = have.shape[0], int(prod(have.shape[1:]))
    if not 0 < width <= _MOST_COLUMNS:
        raise UnsupportedError(
            f"np.unique with axis= compares parts of 1 to {_MOST_COLUMNS} numbers, not of {width}",
            location=user_location(),
        )
    rows = reshape(x, (n, width))
    columns = [reshape(part(rows, 1, k, 1), (n,)) for k in range(width)]
    order = s.sort([*columns, iota((n,), 0, np.int64)], 0, width)[-1]
    ordered = gather(rows, (0,), [order])
    begins = _begins(ordered, lambda a, b: r.any(u.not_equal(a, b), axis=1))
    found = _of_marks(ordered, order, begins, options, size, fill)
    values = reshape(found[0], (aval(found[0]).shape[0], *have.shape[1:]))
    found[0] = moveaxis(values, 0, axis)
    return tuple(found) if len(found) > 1 else found[0]


def unique_values(x: ArrayLike, /, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
    """The different elements in rising order; every NaN is one of its own.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unique_values(x))(np.array([3, 1, 3]))
    array([1, 3])
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(x: ArrayLike, /, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
    """(values, counts): the different elements in rising order, every NaN one of its own, and how often each is there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unique_counts(x).counts)(np.array([3, 1, 3]))
    array([1, 2])
    """
    from numpy.lib._arraysetops_impl import UniqueCountsResult  # for speed of import

    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: ArrayLike, /, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
    """(values, inverse_indices): the different elements in rising order, every NaN one of its own, and which of them
    each element is.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unique_inverse(x).inverse_indices)(np.array([3, 1, 3]))
    array([1, 0, 1])
    """
    from numpy.lib._arraysetops_impl import UniqueInverseResult  # for speed of import

    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_all(x: ArrayLike, /, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
    """(values, indices, inverse_indices, counts): the different elements in rising order, every NaN one of its own,
    where each is found first, which of them each element is, and how often each is there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.unique_all(x).indices)(np.array([3, 1, 3]))
    array([1, 0])
    """
    from numpy.lib._arraysetops_impl import UniqueAllResult  # for speed of import

    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


# -- of two arrays -----------------------------------------------------------------------------------------------------
def _together(ar1: ArrayLike, ar2: ArrayLike) -> tuple[Result, Result, Extent, Extent]:
    """(both arrays as one sorted vector, where its elements were, how many are of the first, of the second)

    Of equal elements those of the first come first.
    """
    x, y = (_with_one_nan(ravel(z)) for z in alike(ar1, ar2))
    n, m = aval(x).shape[0], aval(y).shape[0]
    both = concatenate([x, y])
    ordered, order = s.sort([_with_equal_nans(both), iota((n + m,), 0, np.int64)], 0)
    return ordered if aval(x).dtype.kind != "c" else gather(both, (0,), [order]), order, n, m


def _least_filled(values: ArrayLike, count: ArrayLike, size: ArrayLike, fill: ArrayLike) -> Result:
    """Padded with `fill`; where that is not given with the least value, or 0 where there is none."""
    if size is None:
        return values
    if fill is None:
        dtype = aval(values).dtype
        if is_empty(aval(values).shape[0]):
            return values
        first = reshape(part(values, 0, 0, 1), ())
        fill = u.where(u.equal(count, 0), dtype.type(0), first)
    return _padded(values, count, size, fill)


def _next(x: ArrayLike) -> Result:
    """x[k + 1] at k, the last element at the end."""
    (n,) = aval(x).shape
    i = iota((n,), 0, np.int64)
    return gather(x, (0,), [u.minimum(u.add(i, 1), u.subtract(extent_value(n, np.int64), 1))])


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: ArrayLike = None,
    fill_value: ArrayLike = None,
) -> Result:
    """The different elements that both arrays have, in rising order; with `return_indices` also where each of the
    (flattened) arrays has them first.

    `size` and `fill_value` are JAX's: the first `size` elements, then the value (the least element where there is
    none); places are then the lengths of the arrays.  `assume_unique`: neither array has an element twice.

    Raises: ConcretizationError without `size` where nothing can be counted.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.intersect1d(x, y))(np.array([3, 1, 2, 3]), np.array([5, 3, 1]))
    array([1, 3])
    """
    if size is None and _is_known(ar1, ar2):
        f = data_dependent("intersect1d", "use np.isin(x, y), a mask", np.intersect1d)
        return f(ar1, ar2, assume_unique, return_indices)
    ordered, order, n, m = _together(ar1, ar2)
    if is_empty(n + m):
        found: list[Any] = [ordered, order, order]
        return tuple(found) if return_indices else ordered
    total, first_count = extent_value(n + m, np.int64), extent_value(n, np.int64)
    i = iota(aval(ordered).shape, 0, np.int64)
    here = u.logical_and(u.less(i, u.subtract(total, 1)), u.equal(ordered, _next(ordered)))
    begin: Any = i
    if not assume_unique:
        here = u.logical_and(
            here, u.logical_and(u.less(order, first_count), u.greater_equal(_next(order), first_count))
        )
        begins = _begins(ordered, _differs)
        begin = cumulative("cummax", u.where(begins, i, np.int64(0)), 0)
    places, count = places_where(here, size)
    values = _least_filled(gather(ordered, (0,), [places]), count, size, fill_value)
    if not return_indices:
        return values
    one = gather(order, (0,), [gather(begin, (0,), [places])])
    other = u.subtract(gather(order, (0,), [u.add(places, 1)]), first_count)
    return (
        values,
        _padded(one, count, size, first_count),
        _padded(other, count, size, extent_value(m, np.int64)),
    )


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: ArrayLike = None, fill_value: ArrayLike = None) -> Result:
    """The different elements of two arrays in rising order.   `size` and `fill_value` as in `unique`.

    Raises: ConcretizationError without `size` where nothing can be counted.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.union1d(x, y))(np.array([3, 1]), np.array([2, 3]))
    array([1, 2, 3])
    """
    if size is None and _is_known(ar1, ar2):
        return data_dependent("union1d", "give size=, how many there are at most", np.union1d)(ar1, ar2)
    both = [as_array(z) for z in (ar1, ar2)]  # of which a Python number takes the dtype of the other
    dtype, _ = result_type(*[(aval(z).dtype, aval(z).weak) for z in both])
    both = [ravel(array_of(wrapped_to_dtype(z, dtype))) for z in both]
    return unique(concatenate(both), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: ArrayLike = None,
    fill_value: ArrayLike = None,
) -> Result:
    """The different elements of the first array that the second one lacks, in rising order; with `assume_unique` in
    the order of the first, and as often as there.

    `size` and `fill_value` are JAX's: the first `size` elements, then the value, 0 where there is none.

    Raises: ConcretizationError without `size` where nothing can be counted.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.setdiff1d(x, y))(np.array([3, 1, 2, 3]), np.array([1]))
    array([2, 3])
    """
    if size is None and _is_known(ar1, ar2):
        return data_dependent("setdiff1d", "use ~np.isin(x, y), a mask", np.setdiff1d)(ar1, ar2, assume_unique)
    mine = ravel(array_of(ar1))
    fill = 0 if fill_value is None else fill_value
    if assume_unique:
        values, here = mine, isin(mine, ar2, invert=True)
    else:
        (n,) = aval(mine).shape
        both, order, _, _ = _together(mine, ar2)
        source = u.greater_equal(order, extent_value(n, np.int64))
        begins = _begins(both, lambda a, b: _differs(a, b, True))
        alone = _of_last(source, _ends(begins))
        if aval(both).dtype.kind in "fc":
            alone = u.logical_and(alone, u.logical_not(u.isnan(both)))  # no NaN is another one
        here = u.logical_and(begins, u.logical_not(u.logical_or(source, alone)))
        values = gather(_with_one_nan(mine), (0,), [order])
    if is_empty(aval(values).shape[0]):
        return full((0 if size is None else checked_size(size),), aval(mine).dtype.type(fill))
    places, count = places_where(here, size)
    return _padded(gather(values, (0,), [places]), count, size, fill)


def _of_last(x: ArrayLike, ends: ArrayLike) -> Result:
    """For each element of a sorted vector x at the last one of those equal to it."""
    (n,) = aval(x).shape
    i = iota((n,), 0, np.int64)
    at = u.where(ends, i, extent_value(n, np.int64))
    return gather(x, (0,), [reverse(cumulative("cummin", reverse(at, (0,)), 0), (0,))])


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: ArrayLike = None,
    fill_value: ArrayLike = None,
) -> Result:
    """The different elements that one of two arrays has and the other lacks, in rising order.

    `size` and `fill_value` as in `intersect1d`.

    Raises: ConcretizationError without `size` where nothing can be counted.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.setxor1d(x, y))(np.array([3, 1]), np.array([2, 3]))
    array([1, 2])
    """
    if size is None and _is_known(ar1, ar2):
        return data_dependent("setxor1d", "use ~np.isin(x, y), a mask", np.setxor1d)(ar1, ar2, assume_unique)
    ordered, order, n, m = _together(ar1, ar2)
    if is_empty(n + m):
        return ordered if size is None else full((checked_size(size),), aval(ordered).dtype.type(fill_value or 0))
    if assume_unique:
        begins = _begins(ordered, _differs)
        here = u.logical_and(begins, _ends(begins))
    else:
        source = u.greater_equal(order, extent_value(n, np.int64))
        begins = _begins(ordered, lambda a, b: _differs(a, b, True))
        alone = u.equal(source, _of_last(source, _ends(begins)))
        here = u.logical_and(begins, alone)
        if aval(ordered).dtype.kind in "fc":  # no NaN is another one: one of each array
            changes = u.logical_or(begins, _begins(source, _differs))
            here = u.where(u.isnan(ordered), changes, here)
    places, count = places_where(here, size)
    return _least_filled(gather(ordered, (0,), [places]), count, size, fill_value)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: AxisLike = None) -> Result:
    """The array without the zeros before the first and behind the last element that is none, along axes (all by
    default).

    trim: which ends, "f" (front) and "b" (back).

    Raises: ShapeError for another `trim` and an axis that is not there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.trim_zeros(x))(np.array([0, 1, 0, 2, 0]))
    array([1, 0, 2])
    """
    if _is_known(filt):
        return data_dependent("trim_zeros", "slice with known bounds", np.trim_zeros)(filt, trim, axis)
    if isinstance(filt, (list, tuple)):
        raise unsupported("np.trim_zeros of a list, of which data decide how long the result is; make it an array")
    x = array_of(filt)
    have = aval(x)
    ends = trim.lower()
    if ends not in ("fb", "bf", "f", "b"):
        raise reject(f"unexpected character(s) in `trim`: {ends!r}")
    index: list[slice] = [slice(None)] * have.ndim
    axes = normalize_axes(tuple(axis) if isinstance(axis, list) else axis, have.ndim)
    for k in axes:
        n = have.shape[k]
        if is_empty(n):
            continue
        mask = r.any(u.not_equal(x, 0), axis=tuple([d for d in range(have.ndim) if d != k]))
        nothing = u.logical_not(r.any(mask))
        zero, last = np.int64(0), extent_value(n, np.int64)
        start = u.where(nothing, zero, r.argmax(mask))
        stop = u.where(nothing, zero, u.subtract(last, r.argmax(reverse(mask, (0,)))))
        if len(ends) == 1:
            start, stop = (start, last) if ends == "f" else (zero, stop)
            start, stop = (u.where(nothing, zero, z) for z in (start, stop))
        index[k] = slice(start, stop)
    return OPERATORS.getitem(x, tuple(index))


AS_IS.update((trim_zeros,))
for _name in __all__:
    if hasattr(np, _name):
        FUNCTIONS[getattr(np, _name)] = globals()[_name]
