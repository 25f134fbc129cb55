"""`x[index]` as NumPy means it, for traced arrays.

Integers, slices, None and Ellipsis (traced integers too) give views, which read and write through the array they came
from; index arrays gather.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import FAR, Dim, Extent, Shape, greater_extent, has_count, steps_over
from tracejit.ir.types import ShapedArray
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import is_whole, is_zero, unsupported
from tracejit.numpy.bounds import Bounds, gathered
from tracejit.numpy.conversions import asarray
from tracejit.numpy.counts import may_count, place_in_counted, slice_by_numbers, slice_of_counted
from tracejit.numpy.index_checks import from_start, known_to_be_outside
from tracejit.numpy.masked import select
from tracejit.numpy.promotion import aval, broadcast_shapes, broadcast_to, to_dtype
from tracejit.numpy.strides import outer_first, strides_of
from tracejit.numpy.through import through
from tracejit.numpy.views import BasicIndex, Flat, Rearranged, of_a_number, undecided, view
from tracejit.primitives.indexing import gather
from tracejit.primitives.shape import reshape, slice_array, transpose
from tracejit.primitives.slicing import dynamic_slice
from tracejit.support.errors import (
    ConcretizationError,
    FloatIndex,
    IndexOutOfBounds,
    UnsupportedError,
)
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.layout import AS_IS, Layout, ordered_strides
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import with_masks_by_value
from tracejit.tracer.tables import METHODS
from tracejit.tracer.tracer import Tracer, extent_of

__all__ = [
    "IndexArray", "basic_index", "classify", "expanded", "fitting_mask", "getitem", "has_traced_mask", "index_arrays",
    "masked_part", "rank_at", "read_view", "single_mask",
]  # fmt: skip


@frozen(eq=False)
class IndexArray:
    """An index array (or boolean mask already turned into integers).  settled: it is counted from the start."""

    value: Any
    settled: bool = False


def expanded(index: IndexLike, rank: int) -> list[Result]:
    """The index as a list over all axes, Ellipsis written out."""
    parts = [_plain(part) for part in (index if isinstance(index, tuple) else (index,))]
    parts = [asarray(x) if isinstance(x, (list, tuple)) and _holds_tracer(x) else x for x in parts]  # A[[i, j]]
    taken = 0
    for part in parts:
        if part is None or part is Ellipsis:
            continue
        taken += aval(part).ndim if _is_mask(part) else 1
    if sum(1 for part in parts if part is Ellipsis) > 1:
        raise IndexOutOfBounds("an index can have one Ellipsis only", location=user_location())
    if taken > rank:
        raise IndexOutOfBounds(
            f"too many indices: the array has {rank} axes, {taken} are indexed", location=user_location()
        )
    fill = [slice(None)] * (rank - taken)
    where = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    return [*parts[:where], *fill, *parts[where + 1 :]]


def _plain(part: IndexLike) -> Result:
    """An index that is an array of another kind, as a NumPy array or number;
    a mask that the trace made, with its values.
    """
    if isinstance(part, Tracer) and part.dtype == np.bool_:
        known = part.seen().made()
        if known is None and with_masks_by_value():
            known = part.known()
        return part if known is None else known
    if isinstance(part, (Tracer, Dim, np.ndarray, np.generic)) or not hasattr(part, "__array__"):
        return part
    found = np.asarray(part)
    return found if found.ndim else found[()]


def _holds_tracer(part: Sequence[Any]) -> bool:
    return any(isinstance(x, Tracer) or (isinstance(x, (list, tuple)) and _holds_tracer(x)) for x in part)


def _is_mask(part: IndexLike) -> bool:
    if isinstance(part, (bool, np.bool_)):
        return True
    if isinstance(part, list):
        part = np.asarray(part)
    return isinstance(part, (Tracer, np.ndarray)) and part.dtype == np.bool_


def _is_integer(part: IndexLike) -> bool:
    if isinstance(part, (bool, np.bool_)):
        return False
    return isinstance(part, (int, np.integer, Dim)) or (
        isinstance(part, Tracer) and not part.shape and part.dtype.kind in "iu"
    )


def _static_position(k: ArrayLike, n: Extent) -> Result:
    """A known index counted from the start; the nearest one if it is outside and the program fails by it
    (`known_to_be_outside`).

    A comparison with a symbolic extent that does not hold for all of them fixes it: no extent may be left for which the
    index is outside.
    """
    k = k if isinstance(k, Dim) else int(k)
    if has_count(n) or has_count(k):
        return place_in_counted(k, n)
    if not (-n <= k and k < n):
        known_to_be_outside(int(k), n)
        return 0 if k < 0 else n - 1
    return k + n if k < 0 else k


def _slice_of(part: slice, n: Extent) -> tuple[Result, Extent, int]:
    """(start, size, step) of a slice along an axis."""
    part = slice(extent_of(part.start), extent_of(part.stop), part.step)
    for bound in (part.start, part.stop, part.step):
        if isinstance(bound, (float, np.floating)):
            raise TypeError("slice indices must be integers or None or have an __index__ method")
        if isinstance(bound, Tracer):
            try:
                if may_count() and _is_integer(bound) and bound.seen().concrete() is None:
                    if part.step is not None and operator.index(part.step) != 1:
                        raise unsupported(
                            "a slice whose bounds are traced numbers has no step; take it first: x[a:b][::step]"
                        )
                    return *slice_by_numbers(part.start, part.stop, n), 1
                operator.index(bound)
            except ConcretizationError as error:
                raise ConcretizationError(
                    f"a slice needs the value of a traced array {bound.aval}, which is not known while tracing; for "
                    "one element use "
                    "x[i], for a block of known size tj.lax.dynamic_slice(x, starts, sizes)",
                    location=user_location(),
                ) from error
    step = 1 if part.step is None else int(part.step)
    if step == 0:
        raise IndexOutOfBounds("a slice step cannot be zero", location=user_location())
    if not isinstance(n, Dim) and not any(isinstance(b, Dim) for b in (part.start, part.stop)):
        start, stop, step = slice(part.start, part.stop, part.step).indices(n)
        return start, len(range(start, stop, step)), step
    if step > 0 and any(map(has_count, (n, part.start, part.stop))):
        start, size = slice_of_counted(part.start, part.stop, n)
        if isinstance(start, Tracer) and step != 1:
            raise unsupported("a slice with a bound that may be negative has no step; take it first: x[a:b][::step]")
        return start, steps_over(size, step), min(step, FAR)
    # As slice.indices, with extents: what is not decided for all of them raises.
    first, last = (0, n) if step > 0 else (-1, n - 1)

    def place(bound: ArrayLike, default: Extent) -> Extent:
        if bound is None:
            return default
        bound = bound if isinstance(bound, Dim) else operator.index(bound)
        if bound < 0:
            bound = n + bound
            return first if bound < first else bound
        return last if bound > last else bound

    start, stop = (
        (place(part.start, first), place(part.stop, last))
        if step > 0
        else (place(part.start, last), place(part.stop, first))
    )
    size = stop - start if step > 0 else start - stop
    stride = abs(step)
    if size < 0 or is_zero(size):
        return start, 0, step
    if has_count(n):
        start = greater_extent(start, 0)  # an element that exists, even where it has none
    return start, steps_over(size, stride), max(-FAR, min(step, FAR))


def basic_index(parts: Sequence[IndexLike], shape: Shape, checked: bool = True) -> BasicIndex:
    """Integers, slices, None and Ellipsis, one for each axis or new axis, as starts, extents and steps."""
    start: list[Any] = []
    size: list[Extent] = []
    step: list[int] = []
    out: list[Extent] = []
    axis = 0
    for part in parts:
        if part is None:
            out.append(1)
            continue
        n = shape[axis]
        axis += 1
        if isinstance(part, slice):
            a, m, k = _slice_of(part, n)
            out.append(m)
        elif isinstance(part, Tracer):
            a, m, k = from_start(part, n, checked), 1, 1
        else:
            a, m, k = _static_position(part, n), 1, 1
        start.append(a)
        size.append(m)
        step.append(k)
    return BasicIndex(tuple(start), tuple(size), tuple(step), tuple(out))


def classify(
    x: ArrayLike, index: IndexLike, checked: bool = True, bounds: Bounds | None = None
) -> BasicIndex | list[Result]:
    """What x[index] takes: a view, or the parts of an index with arrays.

    checked: traced integers out of range are an error.  bounds: what is done with integers out of range instead.
    """
    have = aval(x)
    parts = expanded(index, have.ndim)
    if bounds is not None:
        parts = _settled(parts, have.shape, bounds)
    for k, part in enumerate(parts):
        if part is None or isinstance(part, (slice, IndexArray)) or _is_integer(part):
            continue
        if isinstance(part, (list, tuple, range, np.ndarray, Tracer)) or isinstance(part, (bool, np.bool_)):
            listed = isinstance(part, (list, tuple, range))
            parts[k] = IndexArray(np.asarray(part, dtype=None if len(part) else np.int64) if listed else part)
            continue
        raise IndexOutOfBounds(
            f"an index is {type(part).__name__}; indices are integers, slices, None, Ellipsis and arrays",
            location=user_location(),
        )
    if any(isinstance(part, IndexArray) for part in parts):
        if any(map(_has_traced_bounds, parts)):
            raise UnsupportedError(
                "an index array beside a slice whose bounds are numbers of the program is not supported; index in two "
                "steps, first by the slice (x[:, :i][k])",
                location=user_location(),
            )
        given = index if isinstance(index, tuple) else (index,)
        if len(parts) < len(given):  # an Ellipsis of no axes; between index arrays it separates them all the same
            parts.insert(next(k for k, part in enumerate(given) if part is Ellipsis), Ellipsis)
        return parts
    return basic_index(parts, have.shape, checked)


def _settled(parts: Sequence[IndexLike], shape: Shape, bounds: Bounds) -> list[Result]:
    """The parts of an index, integers as index arrays that obey `bounds`; those known to be in range remain where there
    are no others.
    """
    numbers: list[tuple[int, int]] = []
    axis = 0
    for k, part in enumerate(parts):
        if part is None:
            continue
        if not isinstance(part, slice) and not _is_mask(part):
            numbers.append((k, axis))
        axis += aval(part).ndim if _is_mask(part) else 1
    if all(_is_integer(parts[k]) and bounds.known(parts[k], shape[d]) for k, d in numbers):
        return list(parts)
    out = list(parts)
    for k, d in numbers:
        part = out[k]
        if isinstance(part, (list, tuple, range)):
            part = np.asarray(part, dtype=None if len(part) else np.int64)
        if aval(part).dtype.kind in "iu":
            out[k] = IndexArray(bounds.settle(part, shape[d]), settled=True)
    return out


# -- reading -----------------------------------------------------------------------------------------------------------
def getitem(
    x: ArrayLike,
    index: IndexLike,
    checked: bool = True,
    bounds: Bounds | None = None,
    fill_value: ArrayLike = None,
) -> Result:
    """x[index]: a view for basic indices, a new array for index arrays.

    checked: an error for traced indices out of range.  bounds: what is done with them instead; if they are not brought
    into range they read a fill value.
    """
    if has_traced_mask(index):
        place = masked_part(x, index)
        if place is not None:
            return select(*place)
    found = classify(x, index, checked, bounds)
    if not isinstance(found, BasicIndex):
        return _gather(x, found, checked, bounds is not None and not bounds.clip, fill_value)
    view = read_view(x, found)
    if isinstance(view, Tracer) and isinstance(getattr(x, "index", None), Flat):
        return METHODS["copy"](view) if found.shape else Tracer(view.interpreter, view.value, view.aval)
    parts = index if isinstance(index, tuple) else (index,)
    if (
        isinstance(view, Tracer)
        and isinstance(x, Tracer)
        and x.is_scalar
        and (found.shape or any(part is Ellipsis for part in parts))
    ):
        return of_a_number(view, x)
    if found.shape or not isinstance(view, Tracer) or any(part is Ellipsis for part in parts):
        if isinstance(view, Tracer) and any(map(_is_rank_0_array, parts)):
            return METHODS["copy"](view, "K")
        if isinstance(x, Tracer) and isinstance(view, Tracer) and any(map(_is_number_or_array, parts)):
            return undecided(
                x,
                view,
                "whether x[k] is a view or a copy depends on what k is, the smallest or largest of an array of rank 0 "
                "and a number, and a change in place makes the difference; use int(k) for a view, x[k].copy() for a "
                "copy",
            )
        return view
    return Tracer(view.interpreter, view.value, view.aval)  # one element is a number, not a view: it stays what it is


def _has_traced_bounds(part: Any) -> bool:
    """Whether a part of an index is a slice whose ends only the program knows."""
    return isinstance(part, slice) and any(isinstance(b, Tracer) for b in (part.start, part.stop, part.step))


def _is_rank_0_array(part: IndexLike) -> bool:
    """Whether a part of an index is an array of rank 0: NumPy reads where it says as where an integer does,
    and copies.
    """
    if isinstance(part, Tracer):
        return not part.shape and not part.is_scalar and part.dtype.kind in "iu"
    return isinstance(part, np.ndarray) and not part.ndim and part.dtype.kind in "iu"


def _is_number_or_array(part: IndexLike) -> bool:
    """Whether only values tell if a part of an index is an array of rank 0 or a number."""
    return isinstance(part, Tracer) and not part.shape and part.is_array is None and part.dtype.kind in "iu"


def read_view(x: ArrayLike, index: IndexLike) -> Result:
    """The view of x at a basic index (or by a rearrangement), with its present value."""
    if isinstance(index, Rearranged):
        return view(x, index)
    if not index.static and isinstance(x, Tracer) and x.root is not None:
        base, at, turns = through(x, index)
        value = _elements(base, at)
        for turn in reversed(turns):
            value = turn.undo(value)
    else:
        value = _elements(x, index)
    value = reshape(value, index.shape)
    if not isinstance(value, Tracer) or not isinstance(x, Tracer):
        return value
    return Tracer(value.interpreter, value.value, value.aval, root=x, index=index)


def _elements(x: ArrayLike, index: BasicIndex) -> Result:
    """The elements of x at an index, an axis for each of x's."""
    if index.static:
        return slice_array(x, index.start, index.size, index.step)
    if all(k == 1 for k in index.step):
        starts = [s if isinstance(s, Tracer) else OPERATORS.extent(s) for s in index.start]
        return dynamic_slice(x, starts, index.size)
    traced = [isinstance(s, Tracer) for s in index.start]
    first = tuple(0 if t else s for t, s in zip(traced, index.start, strict=True))
    size = tuple(whole if t else n for t, whole, n in zip(traced, aval(x).shape, index.size, strict=True))
    part = slice_array(x, first, size, tuple(1 if t else k for t, k in zip(traced, index.step, strict=True)))
    return dynamic_slice(part, [s if isinstance(s, Tracer) else np.int64(0) for s in index.start], index.size)


def index_arrays(
    x: ArrayLike, parts: Sequence[IndexLike], checked: bool
) -> tuple[list[int], list[Result], list[Result], bool]:
    """(indexed axes, integer index arrays broadcast to one shape, remaining parts, whether the results' axes come
    first).
    """
    shape = aval(x).shape
    axes: list[int] = []
    arrays: list[Any] = []
    rest: list[Any] = []
    places: list[int] = []
    settled: set[int] = set()
    axis = 0
    for position, part in enumerate(parts):
        if part is Ellipsis:  # of no axes
            continue
        if part is None:
            rest.append(None)
        elif isinstance(part, slice):
            rest.append((axis, part))
            axis += 1
        elif _is_integer(part):
            axes.append(axis)
            arrays.append(to_dtype(part, np.int64) if not isinstance(part, Dim) else OPERATORS.extent(part))
            rest.append("index")
            places.append(position)
            axis += 1
        else:
            value = part.value
            if _is_mask(value):
                if isinstance(value, Tracer):
                    raise UnsupportedError(
                        "the shape of x[mask] depends on data, which is not supported here; use np.where(mask, x, "
                        "other)",
                        location=user_location(),
                    )
                value = np.asarray(value)
                if not value.ndim:
                    raise UnsupportedError(
                        "x[True] and x[False] are not supported in traced code; x[None] adds an axis",
                        location=user_location(),
                    )
                fitting_mask(value, shape[axis : axis + value.ndim])
                for k, hits in enumerate(np.nonzero(value)):
                    axes.append(axis + k)
                    arrays.append(hits)
                    rest.append("index")
                    places.append(position)
                axis += value.ndim
                continue
            if aval(value).dtype.kind not in "iu":
                if isinstance(value, Tracer) and value.is_scalar:
                    raise FloatIndex(
                        "an index is a float here; an int and a float that meet in a branch or loop become a float: "
                        "write int(k)",
                        location=user_location(),
                    )
                raise IndexOutOfBounds(
                    f"an index array is {aval(value)}; indices are integers or booleans", location=user_location()
                )
            if part.settled:
                settled.add(len(arrays))
            axes.append(axis)
            arrays.append(value)
            rest.append("index")
            places.append(position)
            axis += 1
    common = broadcast_shapes(*[aval(a).shape for a in arrays])
    wrapped = [
        broadcast_to(a if k in settled else _from_start(a, shape[d], checked), common)
        for k, (a, d) in enumerate(zip(arrays, axes, strict=True))
    ]
    adjacent = all(b - a <= 1 for a, b in itertools.pairwise(places))
    return axes, wrapped, rest, not adjacent


def _from_start(a: ArrayLike, n: Extent, checked: bool) -> Result:
    """An index array counted from the start.  Raises IndexOutOfBounds as far as values are known."""
    known = a.seen().made() if isinstance(a, Tracer) else np.asarray(a)
    if known is not None and known.size and not (-n <= int(known.min()) and int(known.max()) < n):
        bad = known[(known < -n) | (known >= n)].flat[0]
        known_to_be_outside(int(bad), int(n))
        a = np.clip(known, -int(n), int(n) - 1)
    if isinstance(a, Tracer):
        return from_start(a, n, checked and known is None)
    found = np.asarray(a, np.int64)
    if isinstance(n, int) or not (found < 0).any():
        return np.where(found < 0, found + int(n), found) if isinstance(n, int) else found
    return u.where(u.less(found, 0), u.add(found, OPERATORS.extent(n)), found)


def _gather(
    x: ArrayLike, parts: Sequence[IndexLike], checked: bool, fills: bool = False, fill_value: ArrayLike = None
) -> Result:
    axes, arrays, rest, first = index_arrays(x, parts, checked)
    # Slices on the other axes come first: they are views, and the gather then reads from them.
    shape = aval(x).shape
    cut = [slice(None)] * len(shape)
    for item in rest:
        if isinstance(item, tuple):
            cut[item[0]] = item[1]
    basic = basic_index(cut, shape)
    y = slice_array(x, basic.start, basic.size, basic.step) if not all(map(is_whole, cut)) else x
    batch = len(aval(arrays[0]).shape)
    found = gathered(y, axes, arrays, fill_value) if fills else gather(y, tuple(axes), arrays)
    out = _arrange(found, batch, rest, first)
    if isinstance(out, Tracer) and out.ndim > 1:
        out.layout = _layout_of_gathered(x, out, batch, rest, first)
    return out


def _layout_of_gathered(x: ArrayLike, out: Tracer, batch: int, rest: Sequence[IndexLike], first: bool) -> Layout:
    """NumPy puts the axes of index arrays outermost, then the others in the order of the array's memory."""
    strides = strides_of(x)
    if not isinstance(strides, tuple):
        return strides
    place: int = batch if first else 0
    of_arrays: list[int] = list(range(batch)) if first else []
    others: list[tuple[int, Any]] = []
    for item in rest:
        if item == "index":
            if not of_arrays and batch:
                of_arrays = list(range(place, place + batch))
                place += batch
            continue
        if item is not None:
            others.append((place, strides[item[0]]))
        place += 1
    order = [others[k][0] for k in outer_first(tuple([s for _, s in others]))]
    order = [*of_arrays, *order]
    wide = [axis for axis in order if has_count(out.shape[axis]) or out.shape[axis] != 1]
    if wide == sorted(wide):
        return None
    news = [axis for axis in range(out.ndim) if axis not in order]
    return ordered_strides(out.shape, out.itemsize, [*news, *order])


def _arrange(out: ArrayLike, batch: int, rest: Sequence[IndexLike], first: bool) -> Result:
    """Put the gathered axes where NumPy has them, and new axes where None stood."""
    shape = aval(out).shape
    kept = list(range(batch, len(shape)))
    order: list[int] = list(range(batch)) if first else []
    new: list[int] = []
    done = first
    for item in rest:
        if item is None:
            new.append(len(order) + len(new))
        elif item == "index":
            if not done:
                order += range(batch)
                done = True
        else:
            order.append(kept.pop(0))
    out = transpose(out, order)
    final = list(aval(out).shape)
    for position in new:
        final.insert(position, 1)
    return reshape(out, tuple(final))


def single_mask(index: IndexLike, have: ShapedArray) -> Result:
    """The mask, if the index is one mask of the whole shape; None if not."""
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    index = _plain(index)
    if isinstance(index, (Tracer, np.ndarray)) and index.dtype == np.bool_:
        return fitting_mask(index, have.shape[: index.ndim])
    return None


def fitting_mask(mask: ArrayLike, shape: Shape) -> Result:
    """A mask for axes of these extents; as in NumPy one of extent 0 fits any, and selects nothing.

    Raises: IndexOutOfBounds for another extent.
    """
    have = tuple(mask.shape)
    if have == tuple(shape):
        return mask
    if len(have) != len(shape) or not all(
        m == n or (isinstance(m, int) and m == 0) for m, n in zip(have, shape, strict=True)
    ):
        raise IndexOutOfBounds(f"a mask of shape {have} does not fit axes of {tuple(shape)}", location=user_location())
    return broadcast_to(np.False_, shape)


def has_traced_mask(index: IndexLike) -> bool:
    """Whether a mask that is not known is among the parts of an index."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(part, Tracer) and part.dtype == np.bool_ and isinstance(_plain(part), Tracer) for part in parts
    )


def rank_at(index: IndexLike, rank: int) -> int:
    """How many axes x[index] has, of an x of this rank."""
    kept, arrays = 0, 0
    for part in expanded(index, rank):
        if part is None or isinstance(part, slice):
            kept += 1
        elif _is_mask(part):
            arrays = max(arrays, 1)
        elif not _is_integer(part):
            arrays = max(arrays, np.ndim(part))
    return kept + arrays


def masked_part(x: ArrayLike, index: IndexLike) -> tuple[Result, Result, int] | None:
    """(what the other indices leave of x, the mask, how many axes lie before those of the mask) for an index with a
    mask that is not known.

    None for other indices.
    """
    have: ShapedArray = aval(x)
    parts = expanded(index, have.ndim)
    masks = [part for part in parts if isinstance(part, Tracer) and part.dtype == np.bool_]
    if not masks:
        return None
    rest = [part for part in parts if part is not masks[0]]
    if len(masks) > 1 or not all(isinstance(part, slice) or _is_integer(part) for part in rest):
        raise UnsupportedError(
            "an index of a mask that is not known while tracing and of other masks, arrays or None is not supported; "
            "index in two steps "
            "(x[:, i][mask]), or use np.where",
            location=user_location(),
        )
    mask: Any = masks[0]
    place = next(k for k, part in enumerate(parts) if part is mask)
    slices = [k for k, part in enumerate(parts) if isinstance(part, slice)]
    at = sum(1 for k in slices if k < place)
    numbers = [k for k, part in enumerate(parts) if part is not mask and k not in slices]
    if at and any(min(k, place) < s < max(k, place) for k in numbers for s in slices):
        raise UnsupportedError(
            "an index with a slice between a number and a mask puts the selected elements first, which is not "
            "supported; index in two "
            "steps (x[i][:, mask])",
            location=user_location(),
        )
    rank = aval(mask).ndim
    axis = place  # every part before the mask has one axis
    mask = fitting_mask(mask, have.shape[axis : axis + rank])
    if all(is_whole(parts[k]) for k in slices) and not numbers:
        return x, mask, at
    others = (*parts[:place], *[slice(None)] * rank, *parts[place + 1 :])
    # Numbers alone give an element; with `...` it is a view, through which it can be changed.
    return getitem(x, others if slices or rank else (*others, Ellipsis)), mask, at


AS_IS.add(getitem)
