"""Gather and scatter as XLA has them: windows of an array at computed starts, read, written or combined.

An index that has them all is made for each axis that is not taken whole: the starts, and the places behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracejit.api.applying import applied_at
from tracejit.ir.extents import Extent, Shape, same_extent
from tracejit.lax.operands import array, aval, operands, reject
from tracejit.primitives import indexing, shape as p
from tracejit.primitives.arithmetic import Maximum, Minimum, Remainder
from tracejit.primitives.comparison import And, Ge, Le
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import add, convert, neg, select
from tracejit.support.axes import axis_index
from tracejit.support.errors import DtypeError
from tracejit.support.modes import GatherScatterMode
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather", "index_take", "scatter",
    "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip


class GatherDimensionNumbers(NamedTuple):
    """Which axes are what in a `gather`.

    offset_dims: axes of the result that belong to windows, in rising order.  collapsed_slice_dims: axes of the operand
    of which a window has one element, and that the result has not.  start_index_map: the axis of the operand that each
    number of an index is for.  operand_batching_dims, start_indices_batching_dims: axes of both that go together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are what in a `scatter`.

    update_window_dims: axes of the updates that belong to windows, in rising order.  inserted_window_dims: axes of the
    operand of which a window has one element, and that the updates have not.  scatter_dims_to_operand_dims: the axis of
    the operand that each number of an index is for.  operand_batching_dims, scatter_indices_batching_dims: axes of both
    that go together.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


@frozen(eq=False)
class _Windows:
    """Windows of an operand at computed starts.

    x: the operand; axes, indices: the axes that have index arrays, of shape [*batch, *windows of these axes]; valid: of
    shape [*batch], whether a window lies inside, None where all do; order: the window's axes as they stand behind
    [*batch], those with an index first.
    """

    x: Any
    axes: tuple[int, ...]
    indices: tuple[Any, ...]
    valid: Any
    batch: Shape
    order: tuple[int, ...]


def _checked_axes(what: str, axes: Sequence[int], rank: int, *, rising: bool) -> tuple[int, ...]:
    found = tuple(int(a) for a in axes)
    if any(not 0 <= a < rank for a in found) or len(set(found)) != len(found):
        raise reject(f"{what} {found} are not different axes of an array of rank {rank}")
    if rising and list(found) != sorted(found):
        raise reject(f"{what} {found} do not rise")
    return found


def _integers(name: str, x: ArrayLike) -> Result:
    indices = array(x)
    have = aval(indices)
    if have.dtype.kind not in "iu":
        raise DtypeError(f"[{name}] indices are integers, not {have}", location=user_location())
    if have.ndim == 0:
        raise reject(f"[{name}] indices have a last axis, along which the numbers of one index lie; this is {have}")
    if have.dtype == np.uint64:
        indices = bind(Minimum(), indices, np.uint64(2**63 - 1))
    return convert(indices, np.int64)


def _windows(
    name: str,
    x: ArrayLike,
    indices: ArrayLike,
    sizes: Sequence[Extent],
    of_index: Sequence[int],
    single: Sequence[int],
    batching: tuple[Sequence[int], Sequence[int]],
    *,
    clip: bool,
    whole: bool,
) -> _Windows:
    """The windows of these sizes.

    of_index: the axis of each number of an index; single: axes that a window has one element of.  whole: a window that
    takes all of an axis needs no index there, whatever its start; `valid` has looked at it.
    """
    have, places = aval(x).shape, aval(indices).shape
    rank, batch = len(have), places[:-1]
    of_index = _checked_axes(f"[{name}] indexed axes", of_index, rank, rising=False)
    single = _checked_axes(f"[{name}] axes of one element", single, rank, rising=True)
    own = _checked_axes(f"[{name}] operand_batching_dims", batching[0], rank, rising=True)
    theirs = _checked_axes(f"[{name}] batching axes of the indices", batching[1], len(batch), rising=False)
    if len(own) != len(theirs) or set(own) & (set(of_index) | set(single)):
        raise reject(f"[{name}] batching axes {own} and {theirs} do not go together, or are axes of something else too")
    if not same_extent(places[-1], len(of_index)):
        raise reject(f"[{name}] an index has {places[-1]} numbers, for {len(of_index)} axes")
    if len(sizes) != rank:
        raise reject(f"[{name}] windows of sizes {tuple(sizes)} of an array of rank {rank}")
    for d, (n, m) in enumerate(zip(sizes, have, strict=True)):
        fits = same_extent(n, m) or (n <= m and n >= 0)
        if not fits or (d in (*single, *own) and not n == 1):
            raise reject(f"[{name}] no window has {n} elements of axis {d}, of extent {m}")
    starts: dict[int, Any] = {}
    valid: Any = None
    for k, d in enumerate(of_index):
        start = p.reshape(p.slice_array(indices, (0,) * len(batch) + (k,), (*batch, 1)), batch)
        last = extent_value(have[d] - sizes[d], np.int64)
        if clip:
            start = bind(Maximum(), bind(Minimum(), start, last), np.int64(0))
        else:
            ok = bind(And(), bind(Ge(), start, np.int64(0)), bind(Le(), start, last))
            valid = ok if valid is None else bind(And(), valid, ok)
        starts[d] = start
    for d, k in zip(own, theirs, strict=True):
        starts[d] = iota(batch, k, np.int64)
    indexed: list[int] = []
    for d in range(rank):
        full = same_extent(sizes[d], have[d]) and not (d in single or d in own)
        if not full or (d in starts and not whole):
            indexed.append(d)
    windows = [d for d in indexed if d not in single and d not in own]
    shape = (*batch, *[sizes[d] for d in windows])
    arrays: list[Any] = []
    for d in indexed:
        place: Any = None
        if d in starts:
            place = p.broadcast_in_dim(starts[d], shape, tuple(range(len(batch))))
        if d in windows:
            along = iota(shape, len(batch) + windows.index(d), np.int64)
            place = along if place is None else add(place, along)
        arrays.append(p.broadcast_in_dim(np.int64(0), shape, ()) if place is None else place)
    rest = [d for d in range(rank) if d not in indexed]
    order = (*windows, *rest)
    if not indexed:  # an axis of one element, which every index names
        x, arrays = p.reshape(x, (1, *have)), [p.broadcast_in_dim(np.int64(0), batch, ())]
        return _Windows(x, (0,), tuple(arrays), valid, batch, order)
    return _Windows(x, tuple(indexed), tuple(arrays), valid, batch, order)


def gather(
    operand: ArrayLike,
    start_indices: IndexLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[Extent],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: ArrayLike = None,
) -> Result:
    """Windows of an operand, of `slice_sizes`, that begin where the indices along the last axis of `start_indices` say.

    operand: [*s], start_indices: integer[*b, k] -> [*b and windows], the axes of windows at `offset_dims`.
    mode: of windows that do not lie inside (`GatherScatterMode`): by default they are moved until they do; with "fill"
    they are `fill_value` (NaN, the least signed or greatest unsigned integer, True).  unique_indices and
    indices_are_sorted make no difference.
    Raises: ShapeError for axes or sizes that do not fit, DtypeError for indices that are no integers.
    Source: JAX's lax.gather, XLA's Gather.

    >>> import numpy as np, tracejit as tj
    >>> pairs = tj.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,))
    >>> tj.lax.gather(np.arange(5.0), np.array([[0], [3], [4]]), pairs, slice_sizes=(2,), mode="fill")
    array([[ 0.,  1.],
           [ 3.,  4.],
           [nan, nan]])
    """
    x, indices = array(operand), _integers("gather", start_indices)
    numbers = GatherDimensionNumbers(*dimension_numbers)
    clip = mode is None or GatherScatterMode.from_any(mode) in (
        GatherScatterMode.CLIP,
        GatherScatterMode.PROMISE_IN_BOUNDS,
    )
    found = _windows(
        "gather", x, indices, tuple(slice_sizes), numbers.start_index_map, numbers.collapsed_slice_dims,
        (numbers.operand_batching_dims, numbers.start_indices_batching_dims), clip=clip, whole=True,
    )  # fmt: skip
    out = indexing.gather(found.x, found.axes, found.indices)
    if found.valid is not None:
        value = None if fill_value is None else OPERATORS.to_dtype(fill_value, aval(x).dtype)
        out = indexing.filled(out, found.valid, value)
    rank = len(found.batch) + len(found.order)
    offsets = _checked_axes("[gather] offset_dims", numbers.offset_dims, rank, rising=True)
    if len(offsets) != len(found.order):
        raise reject(f"[gather] {len(offsets)} offset_dims for windows of {len(found.order)} axes")
    place = {offsets[k]: len(found.batch) + found.order.index(d) for k, d in enumerate(sorted(found.order))}
    of_batch = iter(range(len(found.batch)))
    return p.transpose(out, tuple([place[d] if d in place else next(of_batch) for d in range(rank)]))


def _scattering(
    name: str, operand: ArrayLike, scatter_indices: IndexLike, shape: Shape, dimension_numbers: Any, mode: Any
) -> tuple[_Windows, tuple[int, ...]]:
    """The windows that updates of a shape go to, and the order of their axes that these have there."""
    x, indices = operand, _integers(name, scatter_indices)
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    clip = GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP
    rank = aval(x).ndim
    of_windows = _checked_axes(f"[{name}] update_window_dims", numbers.update_window_dims, len(shape), rising=True)
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = [d for d in range(rank) if d not in gone]
    if len(windows) != len(of_windows):
        raise reject(f"[{name}] {len(of_windows)} update_window_dims for windows of {len(windows)} axes")
    sizes: list[Any] = [1] * rank
    for d, k in zip(windows, of_windows, strict=True):
        sizes[d] = shape[k]
    found = _windows(
        name, x, indices, sizes, numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims,
        (numbers.operand_batching_dims, numbers.scatter_indices_batching_dims), clip=clip, whole=False,
    )  # fmt: skip
    of_batch = [k for k in range(len(shape)) if k not in of_windows]
    if len(of_batch) != len(found.batch) or not all(
        same_extent(shape[k], n) for k, n in zip(of_batch, found.batch, strict=True)
    ):
        raise reject(f"[{name}] updates of shape {tuple(shape)} for indices of shape {tuple(found.batch)}")
    order = (*of_batch, *[of_windows[windows.index(d)] for d in found.order])
    mapped = numbers.scatter_dims_to_operand_dims
    if found.valid is not None and not all(same_extent(sizes[d], 1) for d in mapped):
        # Windows go in whole or not at all; an element of size 1 is dropped by its own index.
        k = found.axes.index(mapped[0])
        inside = p.broadcast_in_dim(found.valid, aval(found.indices[k]).shape, tuple(range(len(found.batch))))
        indices = list(found.indices)
        indices[k] = select(inside, indices[k], np.int64(-1))
        found = _Windows(found.x, found.axes, tuple(indices), None, found.batch, found.order)
    return found, order


def _scatter(name: str, op: str, what: str) -> Callable[..., Any]:
    def function(
        operand: ArrayLike,
        scatter_indices: IndexLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Result:
        x, new = operands(name, operand, updates)
        if name == "scatter_sub":
            new = neg(new)
        if op in ("add", "mul") and aval(x).dtype.kind == "b":
            raise DtypeError(f"[{name}] does not accept bool; use scatter_max or scatter_min", location=user_location())
        found, order = _scattering(name, x, scatter_indices, aval(new).shape, dimension_numbers, mode)
        out = indexing.scatter(
            found.x, p.transpose(new, order), found.axes, found.indices, op, unique=bool(unique_indices)
        )
        return p.reshape(out, aval(x).shape)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The operand with updates {what} at windows that begin where the indices say.

    operand: [*s], scatter_indices: integer[*b, k], updates: [*b and windows], of the operand's dtype -> [*s].
    mode: of windows that do not lie inside (`GatherScatterMode`): by default they are left out.  unique_indices: no two
    windows share an element.  indices_are_sorted makes no difference.
    Raises: ShapeError for axes or sizes that do not fit, DtypeError for other dtypes.
    Source: JAX's lax.{name}, XLA's Scatter."""
    return function


scatter = _scatter("scatter", "set", "set, the last of several for one element,")
scatter_add = _scatter("scatter_add", "add", "added")
scatter_sub = _scatter("scatter_sub", "add", "subtracted")
scatter_mul = _scatter("scatter_mul", "mul", "multiplied")
scatter_min = _scatter("scatter_min", "min", "put where they are less")
scatter_max = _scatter("scatter_max", "max", "put where they are greater")


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: IndexLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[Extent] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Result:
    """The operand with `func` of the elements at windows, as often as these name them.

    update_shape: the shape that updates would have in `scatter`.  unique_indices: no two windows share an element, so
    all are computed together.
    Raises: ShapeError for axes or sizes that do not fit.   Source: JAX's lax.scatter_apply.

    >>> import numpy as np, tracejit as tj
    >>> each = tj.lax.ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> tj.lax.scatter_apply(np.ones(3), np.array([[0], [0], [2]]), lambda x: 2 * x, each, update_shape=(3,))
    array([4., 1., 2.])
    """
    x = array(operand)
    shape = tuple(update_shape)
    found, _ = _scattering("scatter_apply", x, scatter_indices, shape, dimension_numbers, mode)
    out = applied_at(found.x, found.axes, found.indices, lambda old, _: func(old), unique=bool(unique_indices))
    return p.reshape(out, aval(x).shape)


def index_take(src: ArrayLike, idxs: Sequence[IndexLike], axes: Sequence[int]) -> Result:
    """Elements of some axes at index vectors, which go around the ends; the other axes follow.

    src: [*s], idxs: integer[n] each -> [n, *s without axes].
    Raises: ShapeError for vectors and axes that do not go together.   Source: JAX's lax.index_take.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.index_take(np.arange(6.0).reshape(3, 2), (np.array([0, -1]),), (0,))
    array([[0., 1.],
           [4., 5.]])
    """
    x = array(src)
    have = aval(x).shape
    places = tuple(axis_index(a, len(have)) for a in axes)
    vectors = [convert(array(i), np.int64) for i in idxs]
    if len(vectors) != len(places) or any(aval(i).ndim != 1 for i in vectors):
        raise reject(f"[index_take] {len(vectors)} index vectors for axes {places}")
    around = [bind(Remainder(), i, extent_value(have[a], np.int64)) for i, a in zip(vectors, places, strict=True)]
    return indexing.gather(x, places, around)
