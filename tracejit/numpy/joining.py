"""Functions that put arrays together, repeat them and take them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, is_empty
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import (
    as_extent,
    as_shape,
    axis_index,
    is_flattened,
    is_sequence,
    is_zero,
    items_of,
    known,
    not_negative,
    reject,
    same_extent,
    static_array,
)
from tracejit.numpy.promotion import aval, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of, as_rank_0_array, atleast_1d, atleast_2d, atleast_3d, copy, ravel
from tracejit.numpy.strides import like
from tracejit.primitives import shape as p
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import add, select, sub
from tracejit.primitives.indexing import gather, scatter
from tracejit.support.dtypes import canonical, result_type
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.layout import AS_IS, LAYOUTS, UNKNOWN, Layout, in_c_order
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS, OUT_CASTING
from tracejit.tracer.tracer import Tracer

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit",
    "hstack", "repeat", "resize", "roll", "split", "stack", "tile", "unstack", "vsplit", "vstack",
]  # fmt: skip


def part(x: ArrayLike, axis: int, start: Extent, count: Extent, step: int = 1) -> Result:
    """`count` elements of one axis from `start` on."""
    have = aval(x).shape
    starts = tuple([start if d == axis else 0 for d in range(len(have))])
    counts = tuple([count if d == axis else n for d, n in enumerate(have)])
    return p.slice_array(x, starts, counts, tuple([step if d == axis else 1 for d in range(len(have))]))


def element_at(x: ArrayLike, n: Extent) -> Result:
    """x[n]"""
    return p.reshape(part(x, 0, n, 1), aval(x).shape[1:])


def view(x: ArrayLike, axis: int, start: Extent, stop: Extent) -> Result:
    """A basic slice of one axis: writes into it reach the traced array it was taken from."""
    if isinstance(x, Tracer):
        return OPERATORS.getitem(x, (slice(None),) * axis + (slice(start, stop),))
    return part(x, axis, start, stop - start)


# -- joining -----------------------------------------------------------------------------------------------------------
def _sequence(arrays: ArrayLike, name: str) -> list[Result]:
    """The arrays to join; the rows of one array.  Raises ShapeError if there are none."""
    xs = list(arrays)
    if not xs:
        raise reject(f"np.{name} needs at least one array")
    return xs


def _alike(arrays: Sequence[ArrayLike], dtype: DTypeLike, casting: Any) -> list[Result]:
    """Arrays of one dtype: the promoted one, or `dtype` if `casting` allows it."""
    xs = [array_of(a) for a in arrays]
    avals = [aval(x) for x in xs]
    if dtype is None:
        target, _ = result_type(*[(a.dtype, a.weak) for a in avals])
    else:
        target = canonical(dtype)
    if dtype is not None or casting in ("no", "equiv"):
        for a in avals:
            if not np.can_cast(a.dtype, target, casting):
                raise DtypeError(f"{a} cannot be cast to {target} by the rule {casting!r}", location=user_location())
    return [to_dtype(x, target) for x in xs]


def join(xs: Sequence[ArrayLike], axis: int) -> Result:
    """Arrays of one dtype one after the other; the first axis where others differ is named."""
    first = aval(xs[0]).shape
    for n, x in enumerate(xs):
        have = aval(x).shape
        if len(have) != len(first):
            raise reject(f"arrays to concatenate differ in rank: shape {first} of array 0 and {have} of array {n}")
        for d, (a, b) in enumerate(zip(first, have, strict=True)):
            if d != axis and not same_extent(a, b) and a != b:
                raise reject(
                    f"arrays to concatenate along axis {axis} differ in axis {d}: shape {first} of array 0 and {have} "
                    f"of array {n}"
                )
    kept = [x for x in xs if not is_zero(aval(x).shape[axis])] or [xs[0]]
    return copy(kept[0]) if len(kept) == 1 else p.concatenate(kept, axis)


def concatenate(
    arrays: ArrayLike, /, axis: AxisLike = 0, *, dtype: DTypeLike = None, casting: Any = "same_kind"
) -> Result:
    """Arrays one after the other along an existing axis; with axis=None all are flattened first.

    Raises: ShapeError if ranks differ or extents of another axis do.
    """
    xs = _alike(_sequence(arrays, "concatenate"), dtype, casting)
    if axis is None:
        return join([ravel(x) for x in xs], 0)
    if aval(xs[0]).ndim == 0:
        raise reject("arrays of rank 0 cannot be concatenated; use np.stack or np.hstack")
    return join(xs, axis_index(axis, aval(xs[0]).ndim))


concat = concatenate


def stack(arrays: ArrayLike, axis: AxisLike = 0, *, dtype: DTypeLike = None, casting: Any = "same_kind") -> Result:
    """Arrays of one shape along a new axis.

    Raises: ShapeError if shapes differ.
    """
    xs = _alike(_sequence(arrays, "stack"), dtype, casting)
    have = aval(xs[0]).shape
    for n, x in enumerate(xs):
        other = aval(x).shape
        if len(other) != len(have) or any(not same_extent(a, b) and a != b for a, b in zip(have, other, strict=True)):
            raise reject(f"arrays to stack differ in shape: {have} of array 0 and {other} of array {n}")
    k = axis_index(axis, len(have) + 1, "a result")
    return join([p.reshape(x, (*have[:k], 1, *have[k:])) for x in xs], k)


def _stacker(name: str, lift: Callable[..., Any], axis_of: Callable[[Any], int], doc: str) -> Callable[..., Any]:
    def function(tup: ArrayLike, *, dtype: DTypeLike = None, casting: Any = "same_kind") -> Result:
        xs = [lift(array_of(x)) for x in _sequence(tup, name)]
        return concatenate(xs, axis_of(xs[0]), dtype=dtype, casting=casting)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _column(x: ArrayLike) -> Result:
    return p.reshape(x, (aval(x).size, 1)) if aval(x).ndim < 2 else x


vstack = _stacker("vstack", atleast_2d, lambda x: 0, "Arrays below each other: one of rank 1 is a row.")
hstack = _stacker("hstack", atleast_1d, lambda x: 0 if aval(x).ndim == 1 else 1, "Arrays side by side.")
dstack = _stacker("dstack", atleast_3d, lambda x: 2, "Arrays behind each other along the third axis.")
column_stack = _stacker("column_stack", _column, lambda x: 1, "Arrays side by side: one of rank 1 is a column.")


def append(arr: ArrayLike, values: ArrayLike, axis: AxisLike = None) -> Result:
    """`values` after `arr` along an axis; with axis=None both are flattened."""
    return concatenate((arr, values), axis)


def block(arrays: ArrayLike) -> Result:
    """Blocks put together: the innermost lists along the last axis, the next along the one before it."""
    depth = _depth(arrays)
    leaves: list[Any] = []
    stack_: list[Any] = [arrays]
    while stack_:
        item = stack_.pop()
        if isinstance(item, list):
            stack_.extend(cast("list[Any]", item))
        else:
            leaves.append(item)
    rank = max([depth, *[aval(array_of(x)).ndim for x in leaves]])
    return copy(_block(arrays, depth, rank)) if depth else copy(_block(arrays, depth, rank), "C")


def _depth(arrays: ArrayLike) -> int:
    depth = 0
    while isinstance(arrays, list):
        if not arrays:
            raise reject("np.block: an empty list has no block")
        arrays, depth = cast("list[Any]", arrays)[0], depth + 1
    return depth


def _block(arrays: ArrayLike, depth: int, rank: int) -> Result:
    if isinstance(arrays, list) != (depth > 0):
        raise reject("np.block: lists are nested to different depths")
    if depth == 0:
        x = array_of(arrays)
        have = aval(x).shape
        return p.reshape(x, (*(1,) * (rank - len(have)), *have))
    return concatenate([_block(item, depth - 1, rank) for item in arrays], rank - depth)


# -- repeating ---------------------------------------------------------------------------------------------------------
def tile(A: ArrayLike, reps: ArrayLike) -> Result:
    """The array repeated `reps` times along each axis."""
    x = array_of(A)
    counts = [as_extent(n) for n in items_of(reps)]
    counts = [not_negative(n, f"np.tile cannot repeat {counts} times") for n in counts]
    have = aval(x).shape
    rank = max(len(counts), len(have))
    counts = [1] * (rank - len(counts)) + counts
    have = (*(1,) * (rank - len(have)), *have)
    if all(isinstance(n, int) and n == 1 for n in counts):
        return copy(p.reshape(x, have))
    wide: list[Extent] = []
    source: list[Extent] = []
    for n, m in zip(counts, have, strict=True):
        wide += [n, m]
        source += [1, m]
    spread_out = spread(p.reshape(x, tuple(source)), tuple(wide))
    return p.reshape(spread_out, tuple([n * m for n, m in zip(counts, have, strict=True)]))


def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: AxisLike = None, *, total_repeat_length: int | None = None
) -> Result:
    """Each element repeated; `repeats` is known while tracing, one number or one for each element of the axis.

    total_repeat_length: how many elements there are in the end, as JAX has it; `repeats` may then be computed.  More
    are left out, fewer end in the last element.

    >>> import numpy as np, tracejit as tj
    >>> f = tj.jit(lambda x, n: tj.numpy.repeat(x, n, total_repeat_length=5))
    >>> f(np.array([7, 8]), np.array([1, 2]))
    array([7, 8, 8, 8, 8])
    """
    x = array_of(a)
    if is_flattened(axis, aval(x).ndim):
        x, axis = ravel(x), 0
    k = axis_index(axis, aval(x).ndim)
    have = aval(x).shape
    if total_repeat_length is not None:
        return _repeat_to_length(x, k, repeats, as_extent(total_repeat_length))
    if isinstance(repeats, Dim):
        return _repeat_each(x, k, not_negative(repeats, "np.repeat's counts may not be negative"))
    counts = static_array(repeats, "np.repeat's counts")
    counts = counts.astype(np.int64) if isinstance(repeats, (list, tuple, range)) and not counts.size else counts
    if counts.dtype.kind not in "iub" or counts.ndim > 1:
        raise reject(
            f"np.repeat's counts are integers, one or one for each element, not {counts.dtype} of shape {counts.shape}"
        )
    if (counts < 0).any():
        raise reject("np.repeat's counts may not be negative")
    if counts.size == 1:
        return _repeat_each(x, k, int(counts.reshape(())))
    if have[k] != counts.size:
        raise reject(f"np.repeat: {counts.size} counts for an axis of extent {have[k]}")
    return OPERATORS.getitem(x, (slice(None),) * k + (np.repeat(np.arange(counts.size), counts),))


def _repeat_each(x: ArrayLike, k: int, count: Extent) -> Result:
    have = aval(x).shape
    wide: Shape = (*have[: k + 1], count, *have[k + 1 :])
    y = p.broadcast_in_dim(x, wide, tuple([d if d <= k else d + 1 for d in range(len(have))]))
    return p.reshape(y, (*have[:k], have[k] * count, *have[k + 1 :]))


def _repeat_to_length(x: ArrayLike, k: int, repeats: ArrayLike, total: Extent) -> Result:
    """Elements repeated as often as the program says, so that there are `total`."""
    counts = array_of(repeats)
    n = aval(x).shape[k]
    if aval(counts).dtype.kind not in "iub" or aval(counts).ndim > 1:
        raise reject(f"np.repeat's counts are integers, one or one for each element, not {aval(counts)}")
    if is_zero(total):
        return part(x, k, 0, 0)
    if is_empty(n):
        raise reject(f"np.repeat: there is no element to make {total} of")
    ones = spread(np.int64(1), (n,))
    counts = spread(to_dtype(counts, np.int64), (n,))
    begins = sub(cumulative("cumsum", counts, 0), counts)
    # each element counts one up where it begins; what is behind the last one is the last one
    marks = scatter(spread(np.int64(0), (total,)), ones, (0,), [begins], "add")
    found = gather(x, (k,), [sub(cumulative("cumsum", marks, 0), spread(np.int64(1), (total,)))])
    return _axis_first_to(found, k)


def resize(a: ArrayLike, new_shape: ShapeLike) -> Result:
    """The elements in C order, repeated or cut to fill a new shape."""
    x = ravel(a)
    want = as_shape(new_shape)
    have = int(aval(x).size)
    total = int(np.prod([int(n) for n in want], dtype=np.int64))
    if have == 0:
        return as_rank_0_array(p.broadcast_in_dim(aval(x).dtype.type(0), want, ()))
    times = -(-total // have)
    return as_rank_0_array(p.reshape(part(tile(x, times), 0, 0, total), want))


def roll(a: ArrayLike, shift: ArrayLike, axis: AxisLike = None) -> Result:
    """Elements moved by `shift` along an axis, the last ones to the front; with axis=None over the flattened array.

    Several axes may be rolled at once, an axis more than once.
    """
    x = array_of(a)
    have = aval(x).shape
    if axis is None:
        flat = ravel(x)
        return as_rank_0_array(p.reshape(roll(flat, shift, 0), have))
    axes = items_of(axis)
    given = [_shift(s) for s in _shifts(shift)]
    if any(isinstance(s, (Dim, Tracer)) for s in given):
        shifts = np.empty(len(given), object)
        for k, s in enumerate(given):  # all at once, NumPy would ask for their values
            shifts[k] = s
    else:
        shifts = static_array(shift, "np.roll's shift")
    pairs = np.broadcast(shifts, np.array([axis_index(k, len(have)) for k in axes]))
    if pairs.ndim > 1:
        raise reject("np.roll: shift and axis are numbers or sequences of them")
    total: dict[int, Any] = {}
    for s, k in pairs:
        total[int(k)] = total.get(int(k), 0) + (s if isinstance(s, (Dim, Tracer)) else int(s))
    y = x
    for k, s in total.items():
        y = _rolled_by_data(y, s, k) if isinstance(s, Tracer) else _roll_axis(y, s, k)
    return copy(y) if y is x else y


def _shifts(shift: ArrayLike) -> Sequence[Any]:
    """The numbers of a shift, which is one or a sequence."""
    if isinstance(shift, Tracer) and shift.ndim == 1 and isinstance(shift.shape[0], int):
        return [shift[n] for n in range(shift.shape[0])]
    return items_of(shift)


def _shift(s: Any) -> Any:
    """A number to roll by: its value where that can be had, else a traced integer."""
    if not isinstance(s, Tracer) or s.ndim:
        return s
    s.ask()
    value = s.known()
    if value is not None:
        return value
    if s.dtype.kind not in "iub":
        raise reject(f"np.roll by {s.dtype}: shifts are integers")
    if s.dtype == np.uint64:
        return s
    return to_dtype(s, np.dtype(np.int64))


def _rolled_by_data(x: ArrayLike, shift: Tracer, k: int) -> Result:
    """An axis rolled by as many elements as data say."""
    n = aval(x).shape[k]
    if is_zero(n):
        return x
    length = extent_value(n, np.int64)
    by = u.remainder(shift, length if shift.dtype != np.uint64 else to_dtype(length, np.dtype(np.uint64)))
    by = to_dtype(by, np.dtype(np.int64))
    place = sub(iota((n,), 0, np.int64), spread(by, (n,)))
    zero = spread(np.int64(0), (n,))
    found = gather(x, (k,), [select(u.less(place, zero), add(place, spread(length, (n,))), place)])
    return _axis_first_to(found, k)


def _axis_first_to(x: ArrayLike, k: int) -> Result:
    """An array whose first axis belongs at place k."""
    return p.transpose(x, (*range(1, k + 1), 0, *range(k + 1, aval(x).ndim))) if k else x


def _layout_of_rolled(
    arrays: Sequence[ArrayLike], result: Tracer, a: ArrayLike, shift: ArrayLike = None, axis: AxisLike = None
) -> Layout:
    return None if axis is None else like(a, result.shape, result.dtype)


def _roll_axis(x: ArrayLike, shift: Extent, k: int) -> Result:
    n = aval(x).shape[k]
    if is_zero(n) or is_zero(shift):
        return x
    if known(lambda: 0 <= shift and shift < n, False):
        moved = shift
    else:
        moved = n + shift if known(lambda: -n < shift and shift < 0, False) else shift % n
    if is_zero(moved):
        return x
    return p.concatenate([part(x, k, n - moved, moved), part(x, k, 0, n - moved)], k)


# -- taking apart ------------------------------------------------------------------------------------------------------
def array_split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: AxisLike = 0) -> list[Result]:
    """Parts of an axis, between the given indices or as many as given (the first ones longer by one if need be)."""
    x = array_of(ary)
    k = axis_index(axis, aval(x).ndim)
    n = aval(x).shape[k]
    if is_sequence(indices_or_sections):
        return _cut(x, k, n, [as_extent(i) for i in items_of(indices_or_sections)])
    count = int(as_extent(indices_or_sections))
    if count <= 0:
        raise reject(f"np.split into {count} sections: the number must be positive")
    each, more = n // count, next(r for r in range(count) if n % count == r)
    edges = [each * (i + 1) + min(i + 1, more) for i in range(count - 1)]
    return _cut(x, k, n, edges)


def _cut(x: ArrayLike, k: int, n: Extent, edges: Sequence[Extent]) -> list[Result]:
    starts = [0, *[_clamped(e, n) for e in edges]]
    stops = [*starts[1:], n]
    return [view(x, k, a, b if known(lambda a=a, b=b: a <= b, True) else a) for a, b in zip(starts, stops, strict=True)]


def _clamped(edge: Extent, n: Extent) -> Extent:
    """An index of a slice as a place in 0..n."""
    if isinstance(edge, int) and edge < 0:
        return 0 if n + edge < 0 else n + edge
    if isinstance(edge, int) and edge == 0:
        return 0
    return n if edge > n else edge


def split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: AxisLike = 0) -> list[Result]:
    """Parts of an axis, between the given indices or as many equal ones as given.

    Raises: ShapeError if equal parts are asked for and the extent is not divisible.
    """
    if not is_sequence(indices_or_sections):
        have = aval(array_of(ary)).shape
        n = have[axis_index(axis, len(have))]
        count = as_extent(indices_or_sections)
        if isinstance(count, int) and count > 0 and n % count != 0:
            raise reject(f"an axis of extent {n} cannot be split into {count} equal parts; np.array_split can")
    return array_split(ary, indices_or_sections, axis)


def _splitter(name: str, least: int, axis: int) -> Callable[..., Any]:
    def function(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Result]:
        rank = aval(array_of(ary)).ndim
        if rank < least:
            raise reject(f"np.{name} needs at least {least} axes; the array has {rank}")
        return split(ary, indices_or_sections, 0 if rank == 1 else axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`split` along axis {axis}."
    return function


hsplit = _splitter("hsplit", 1, 1)
vsplit = _splitter("vsplit", 2, 0)
dsplit = _splitter("dsplit", 3, 2)


def unstack(x: ArrayLike, /, *, axis: AxisLike = 0) -> tuple[Result, ...]:
    """The subarrays along an axis."""
    x = array_of(x)
    k = axis_index(axis, aval(x).ndim)
    lead = (slice(None),) * k
    return tuple(
        [
            OPERATORS.getitem(x, (*lead, n)) if isinstance(x, Tracer) else x[(*lead, n)]
            for n in range(int(aval(x).shape[k]))
        ]
    )


def _layout_of_tiled(arrays: Sequence[ArrayLike], result: Tracer, x: ArrayLike, reps: ArrayLike) -> Layout:
    """Once in every direction is a copy, as np.array makes it; else NumPy repeats, which gives C order."""
    if any(n != 1 for n in items_of(reps)):
        return None
    return like(x, result.shape, result.dtype) if aval(array_of(x)).ndim == result.ndim else UNKNOWN


METHODS["repeat"] = repeat
for _function in (
    concatenate, stack, vstack, hstack, dstack, column_stack, append, block, tile, repeat, resize, roll, array_split,
    split, hsplit, vsplit, dsplit,
):  # fmt: skip
    FUNCTIONS[getattr(np, _function.__name__)] = _function
LAYOUTS.update({repeat: in_c_order, tile: _layout_of_tiled, resize: in_c_order, roll: _layout_of_rolled})
OUT_CASTING.update(dict.fromkeys((concatenate, stack, vstack, hstack, dstack, column_stack), "same_kind"))
LAYOUTS[block] = lambda arrays, result, given: UNKNOWN if isinstance(given, list) else None
AS_IS.update((array_split, split, hsplit, vsplit, dsplit, unstack))
if hasattr(np, "unstack"):
    FUNCTIONS[np.unstack] = unstack
