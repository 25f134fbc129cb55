"""Arrays with as many elements as data say: x[mask], np.nonzero.

How many there are is a symbol of extents (`Count`), which the program computes before it uses it; memory is for the
most there may be.  Masks that have one value share one symbol, so that what they select can be computed with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import (
    Dim,
    Extent,
    Shape,
    greater_extent,
    has_count,
    is_empty,
    prod,
    same_extent,
    smaller_extent,
    surely_at_most,
)
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, not_negative, reject, unsupported
from tracejit.numpy.index_checks import check_index
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, broadcast_to, to_dtype
from tracejit.primitives.creation import AsExtent, full, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.reduction import reduce_sum
from tracejit.primitives.shape import reshape, transpose
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.current import current_trace, new_count
from tracejit.tracer.failures import Reason, empty_reduction
from tracejit.tracer.interpreter import Interpreter, bind, current_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import StageInterpreter, recording
from tracejit.tracer.same import distance, same_value
from tracejit.tracer.tracer import Tracer

__all__ = [
    "check_not_empty", "checked_size", "extent_of_number", "is_changed_here", "may_count", "nonzero_of",
    "place_in_counted", "places_where", "selected",
    "slice_by_numbers", "slice_of_counted", "with_selected",
]  # fmt: skip


def may_count() -> bool:
    """Whether extents may be computed: a program is being traced."""
    return current_trace() is not None and recording() is not None


def is_changed_here(x: ArrayLike, owner: Interpreter) -> bool:
    """Whether a loop or branch that is being traced changes an array which was made around it, by `owner`."""
    found: Interpreter | None = current_interpreter()
    while found is not None and found is not owner:
        if isinstance(found, StageInterpreter) and id(x) in found.cells:
            return True
        found = found.parent
    return False


def check_not_empty(name: str, *shape: Extent, why: Reason | None = None) -> None:
    """The program fails where one of these extents, which it computes, is 0: of a reduction by that name, if there is
    no other reason.
    """
    for n in shape:
        if has_count(n) and not surely_at_most(1, n):
            check_none(u.equal(OPERATORS.extent(n), 0), why or empty_reduction(name))


def place_in_counted(k: Extent, n: Extent) -> Extent:
    """An index counted from the start, of an axis whose extent the program computes: it fails where that is too small.

    Raises: IndexOutOfBounds, DimDependent as a comparison of extents does.
    """
    if surely_at_most(0, k):
        if not surely_at_most(k + 1, n):
            number = OPERATORS.extent(k)
            check_index(number, u.greater_equal(number, OPERATORS.extent(n)), n)
        return k
    if same_extent(k, n - 1):
        check_index(OPERATORS.extent(k), u.less_equal(OPERATORS.extent(n), 0), n)
        return greater_extent(k, 0)
    if not surely_at_most(k + 1, 0):
        raise unsupported("an index that may be negative and counts what the program computes is not supported")
    if not surely_at_most(0, n + k):
        number = OPERATORS.extent(k)
        check_index(number, u.less(u.add(OPERATORS.extent(n), number), 0), n)
    return greater_extent(n + k, 0)


def slice_of_counted(start: Extent | None, stop: Extent | None, n: Extent) -> tuple[Result, Extent]:
    """(start, size) of a slice of an axis whose extent, or that of the slice, the program computes.

    It starts at an element that exists, even where it has none: an index that is outside reads it.
    """
    first = 0 if start is None else _from_start(start, n)
    end = n if stop is None else _from_start(stop, n)
    if first is None or end is None:
        return slice_by_numbers(start, stop, n)
    if stop is not None and surely_at_most(0, stop):
        end = smaller_extent(end, n)
    return smaller_extent(first, greater_extent(n - 1, 0)), greater_extent(end - first, 0)


def _from_start(bound: Extent, n: Extent) -> Extent | None:
    """A bound of a slice, counted from the start; None where only the program knows whether it is negative."""
    if surely_at_most(0, bound):
        return bound
    if surely_at_most(bound + 1, 0):
        return greater_extent(n + bound, 0)
    if same_extent(bound, n - 1):  # before the first where there is none: all slices are empty then
        return greater_extent(bound, 0)
    return None


def slice_by_numbers(start: ArrayLike, stop: ArrayLike, n: Extent) -> tuple[Result, Extent]:
    """(start, size) of a slice whose bounds the program computes; it starts at an element that exists."""
    if is_empty(n):
        return np.int64(0), 0
    size = _size_of_block(start, stop, n)
    if size is not None:
        return to_dtype(start, np.int64), size
    length = OPERATORS.extent(n)

    def place(bound: ArrayLike, default: ArrayLike) -> Result:
        if bound is None:
            return default
        k = as_array(OPERATORS.extent(bound) if isinstance(bound, Dim) else bound)
        if aval(k).dtype == np.uint64:
            k = u.minimum(k, np.uint64(2**63 - 1))
        k = to_dtype(k, np.int64)
        return u.minimum(u.maximum(u.where(u.less(k, 0), u.add(k, length), k), np.int64(0)), length)

    first = place(start, np.int64(0))
    size = u.maximum(u.subtract(place(stop, length), first), np.int64(0))
    first = u.maximum(u.minimum(first, u.subtract(length, np.int64(1))), np.int64(0))
    trace = current_trace()
    assert trace is not None
    here = _around(current_interpreter())
    for before, interpreter, extent in trace.lengths:
        if interpreter.alive and interpreter in here and before.interpreter.alive and same_value(before, size):
            return first, extent
    extent = extent_of_number(size, n, "a slice by traced numbers")
    trace.lengths.append((size.seen(), current_interpreter(), extent))
    return first, extent


def _size_of_block(start: ArrayLike, stop: ArrayLike, n: Extent) -> int | None:
    """The extent of a slice that ends so many elements behind its start and lies within the axis, wherever it starts:
    `x[k // 3 * 3 : k // 3 * 3 + 3]`.
    """
    if not isinstance(start, Tracer) or not isinstance(stop, Tracer):
        return None
    low, high = start.seen().range_here()
    first, last = stop.seen().range_here()
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(first, int) and isinstance(last, int)):
        return None
    size = first - low
    fits = low >= 0 and size > 0 and last - high == size and surely_at_most(last, n)
    return size if fits and distance(start, stop) == size else None


def extent_of_number(n: Tracer, most: Extent, what: str) -> Extent:
    """A number of the program, from 0 to `most`, as an extent."""
    symbol = new_count(most, what)
    assert symbol is not None
    bind(AsExtent(symbol), n)
    return Dim.symbol(symbol)


def nonzero_of(mask: Tracer) -> tuple[Extent, Result]:
    """(how many elements of a mask are True, where they are in C order)."""
    trace = current_trace()
    assert trace is not None
    here = _around(current_interpreter())
    for before, interpreter, extent, places in trace.counted:
        if interpreter.alive and interpreter in here and before.interpreter.alive and same_value(before, mask):
            return extent, places
    seen = mask.seen()
    mask = Tracer(seen.interpreter, seen.value, seen.aval)
    flat = reshape(mask, (prod(aval(mask).shape),))
    numbers = to_dtype(flat, np.int64)
    n = aval(flat).shape[0]
    if is_empty(n):
        extent: Extent = 0
    elif (whole := _of_selection(mask)) is not None:
        extent = nonzero_of(whole)[0]
    else:
        extent = extent_of_number(reduce_sum(numbers, (0,)), n, "x[mask]")
    at = u.where(flat, u.subtract(cumulative("cumsum", numbers, 0), np.int64(1)), np.int64(-1))  # -1 is dropped
    places = scatter(full((extent,), np.int64(0)), iota((n,), 0, np.int64), (0,), [at])
    trace.counted.append((mask, current_interpreter(), extent, places))
    return extent, places


def places_where(mask: ArrayLike, size: ArrayLike = None, fill: Any = 0) -> tuple[Result, Result]:
    """(where a vector of booleans holds, how many times it does): all places, or `size` of them, then `fill`."""
    n = aval(mask).shape[0]
    numbers = to_dtype(mask, np.int64)
    if size is None:
        assert isinstance(mask, Tracer)
        extent, places = nonzero_of(mask)
        return places, OPERATORS.extent(extent)
    at = u.where(mask, u.subtract(cumulative("cumsum", numbers, 0), np.int64(1)), np.int64(-1))  # -1 is dropped
    base = full((checked_size(size),), fill if isinstance(fill, Tracer) else np.int64(fill))
    return scatter(base, iota((n,), 0, np.int64), (0,), [at]), reduce_sum(numbers, (0,))


def checked_size(size: ArrayLike) -> Extent:
    """The extent that `size=` asks for.  Raises ShapeError for a negative one."""
    count = as_extent(size)
    return not_negative(count, f"size={count} is negative")


def _of_selection(mask: Tracer) -> Tracer | None:
    """Of a mask that was selected by another one: where both hold, so that v[v > 0] of v = x[m] has one length,
    however it comes about.
    """
    trace = current_trace()
    assert trace is not None
    here = _around(current_interpreter())
    for made, whole, by in trace.selected:
        if made.interpreter.alive and made.interpreter in here and same_value(made, mask):
            return u.logical_and(by, whole)
    return None


def _around(interpreter: Interpreter | None) -> list[Interpreter]:
    """An interpreter and those around it."""
    found: list[Interpreter] = []
    while interpreter is not None:
        found.append(interpreter)
        interpreter = interpreter.parent
    return found


def selected(x: ArrayLike, mask: Tracer, at: int) -> Result:
    """x[mask]; `at` axes of x lie before those of the mask."""
    _, places = nonzero_of(mask)
    found = _taken(x, mask, at, places)
    trace = current_trace()
    if trace is not None and aval(x).dtype == np.bool_ and aval(x).ndim == aval(mask).ndim:
        trace.selected.append((found.seen(), x, mask))
    return found


def with_selected(x: ArrayLike, mask: Tracer, value: ArrayLike) -> Result:
    """x with the elements for which the mask holds replaced by those of an array, which has as many: the program checks
    that.
    """
    extent, places = nonzero_of(mask)
    shape, dtype = aval(x).shape, aval(x).dtype
    rest = shape[aval(mask).ndim :]
    have = aval(value).shape
    if len(have) > len(rest) + 1:
        raise reject(f"a value of rank {len(have)} is assigned to x[mask] of rank {len(rest) + 1}")
    lines = reshape(x, (prod(aval(mask).shape), *rest))
    return reshape(scatter(lines, to_dtype(broadcast_to(value, (extent, *rest)), dtype), (0,), [places]), shape)


def _taken(x: ArrayLike, mask: Tracer, at: int, places: ArrayLike) -> Result:
    shape, rank = aval(x).shape, aval(mask).ndim
    lines: Shape = (*shape[:at], prod(shape[at : at + rank]), *shape[at + rank :])
    found = gather(reshape(as_array(x), lines), (at,), [places])
    if not at:
        return found
    return transpose(found, (*range(1, at + 1), 0, *range(at + 1, len(lines))))
