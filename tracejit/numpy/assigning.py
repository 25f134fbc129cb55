"""Assignments to elements: the statement x[index] = value, and the arrays that hold its new values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Shape, has_count, is_one, same_shape
from tracejit.ir.types import ShapedArray
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import is_whole
from tracejit.numpy.bounds import Bounds
from tracejit.numpy.counts import may_count, with_selected
from tracejit.numpy.indexing import (
    IndexArray,
    basic_index,
    classify,
    has_traced_mask,
    index_arrays,
    masked_part,
    single_mask,
)
from tracejit.numpy.masked import Selection, assigned
from tracejit.numpy.number_checks import check_number
from tracejit.numpy.promotion import as_array, aval, broadcast_to, fitting, numbers_to_dtype, plain, to_dtype
from tracejit.numpy.through import through
from tracejit.numpy.views import BasicIndex, Rearranged
from tracejit.primitives.indexing import scatter
from tracejit.primitives.shape import reshape, slice_array, transpose
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice, update_slice
from tracejit.support.errors import (
    DtypeError,
    RefusedByNumPy,
    ShapeError,
    UnsupportedError,
)
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.cell import check_is_number
from tracejit.tracer.mixed import as_pythons, has_mixed
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["assign", "changed_part", "scattered", "setitem", "updated", "value_for"]


def assign(x: ArrayLike, index: IndexLike, value: ArrayLike) -> None:
    """The statement `x[index] = value`: a NumPy scalar has to fit signed integers, as in NumPy;
    in unsigned ones it wraps around.

    Raises: TracerError if x is a number.
    """
    if isinstance(x, Tracer) and x.is_scalar:
        check_is_number(x)
        raise RefusedByNumPy(
            "a number has no elements to change, in NumPy neither; make it an array (np.array(x))",
            location=user_location(),
        )
    if isinstance(x, Tracer) and x.shape and x.dtype.kind == "i" and not _has_arrays(index):
        value = fitting(value, x.dtype)
    setitem(x, index, value)


def _has_arrays(index: IndexLike) -> bool:
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (list, np.ndarray)) or (
            isinstance(part, Tracer) and (part.shape or part.dtype == np.bool_)
        ):
            return True
    return False


def setitem(x: ArrayLike, index: IndexLike, value: ArrayLike, casting: str = "unsafe") -> None:
    """x[index] = value: a new value for the cell."""
    if not isinstance(x, Tracer):
        raise UnsupportedError(
            "an array that is not traced is changed in place by a traced value", location=user_location()
        )
    value = plain(value)
    if has_traced_mask(index) or isinstance(value, Selection):
        place = masked_part(x, index)
        if place is not None:
            part, mask, at = place
            part.assign(assigned(part, mask, at, value if isinstance(value, Selection) else as_array(value)))
            return
    value = as_array(numbers_to_dtype(value, x.dtype) if isinstance(value, (list, tuple)) else value)
    if casting != "unsafe" and not np.can_cast(aval(value).dtype, x.dtype, casting) and not aval(value).weak:  # pyright: ignore[reportArgumentType]
        raise DtypeError(
            f"cannot change an array of {x.dtype} in place by one of {aval(value).dtype}; use y = x + ... for a new "
            "array",
            location=user_location(),
        )
    # Python's integers are not cast to those that cannot hold them
    if has_mixed(value) and x.dtype.kind in "iu" and not np.can_cast(aval(value).dtype, x.dtype):
        check_number(as_pythons(value, value.mixed), x.dtype)
    value = to_dtype(value, x.dtype)
    if _writes_itself(x, index, value):
        return
    if x.root is not None and not isinstance(index, Rearranged):
        found = index if isinstance(index, BasicIndex) else classify(x, index)
        if isinstance(found, BasicIndex):
            value = reshape(_fit(value, found.shape), found.size)
            x, index, turns = through(x, found)
            for turn in turns:
                value = turn.apply(value)
    x.assign(updated(x, index, value))


def _writes_itself(x: Tracer, index: IndexLike, value: ArrayLike) -> bool:
    """Whether the value is the very view that is assigned to: what remains
    of `x[1:] += y` after the view was changed.
    """
    view = getattr(value, "index", None)
    if not isinstance(value, Tracer) or value.root is not x or not isinstance(view, BasicIndex) or not view.static:
        return False
    if isinstance(index, Rearranged):
        return False
    found = index if isinstance(index, BasicIndex) else classify(x, index)
    if not isinstance(found, BasicIndex) or not found.static:
        return False
    return (found.start, found.size, found.step, found.shape) == (view.start, view.size, view.step, view.shape)


def updated(
    x: ArrayLike,
    index: IndexLike,
    value: ArrayLike,
    checked: bool = True,
    bounds: Bounds | None = None,
    unique: bool = False,
) -> Result:
    """x with x[index] replaced, as a new array.

    checked: an error for traced indices out of range.  bounds: what is done with them instead.  unique: no element is
    named twice.
    """
    have: ShapedArray = aval(x)
    if isinstance(index, Rearranged):
        return index.write(x, value)
    if isinstance(index, BasicIndex):
        found: Any = index
    elif index is Ellipsis or (have.shape and isinstance(index, slice) and is_whole(index)):
        return _fit(value, have.shape)
    else:
        mask = single_mask(index, have)
        if mask is not None:
            return _masked(x, mask, value)
        found = classify(x, index, checked, bounds)
    if isinstance(found, BasicIndex):
        part = reshape(_fit(value, found.shape), found.size)
        if found.static:
            # computed ones are not compared by value: what is whole may be a part as well
            counted = any(map(has_count, (*found.size, *have.shape)))
            if all(k == 1 for k in found.step) and (
                same_shape(found.size, have.shape) if counted else found.size == have.shape
            ):
                return part
            return update_slice(x, part, found.start, found.step)
        starts = [s if isinstance(s, Tracer) else OPERATORS.extent(s) for s in found.start]
        if any(k != 1 for k in found.step):  # a block of whole axes where there are steps, changed and put back
            stepped = [k != 1 for k in found.step]
            if any(s and isinstance(first, Tracer) for s, first in zip(stepped, found.start, strict=True)):
                raise UnsupportedError(
                    "an assignment to a slice with a step that begins at a traced number is not supported; use an "
                    "array of indices (x[np.arange(n) * step + i] = v)",
                    location=user_location(),
                )
            zero = np.int64(0)
            starts = [zero if s else first for s, first in zip(stepped, starts, strict=True)]
            block = [n if s else k for s, n, k in zip(stepped, have.shape, found.size, strict=True)]
            inner = [first if s else 0 for s, first in zip(stepped, found.start, strict=True)]
            part = update_slice(dynamic_slice(x, starts, tuple(block)), part, tuple(inner), found.step)
        return dynamic_update_slice(x, part, starts)
    return scattered(x, found, value, "set", checked, unique)


def scattered(
    x: ArrayLike, parts: IndexLike, value: ArrayLike, op: str, checked: bool = True, unique: bool = False
) -> Result:
    """x with the elements at index arrays set to a value, or combined with one (`Scatter`'s op).

    unique: no element is named twice.
    """
    axes, arrays, rest, first = index_arrays(x, parts, checked)
    have = aval(x)
    cut = {item[0]: item[1] for item in rest if isinstance(item, tuple)}
    # Slices become index arrays of their own axis only where they are not whole.
    partial = {d: s for d, s in cut.items() if not is_whole(s)}
    batch = aval(arrays[0]).shape
    if partial:
        return changed_part(x, parts, partial, lambda part, inner: scattered(part, inner, value, op, checked, unique))
    kept = tuple([n for d, n in enumerate(have.shape) if d not in axes])
    return scatter(x, value_for(value, batch, kept, rest, first), tuple(axes), arrays, op, unique=unique)


def value_for(value: ArrayLike, batch: Shape, kept: Shape, rest: Sequence[Any], first: bool) -> Result:
    """The value of an assignment by index arrays, spread, with the axes of these (`batch`) before those that are kept.

    rest, first: of `index_arrays`.
    """
    shape = (*batch, *kept)
    order: list[int] = list(range(len(batch))) if first else []
    where = len(batch)
    target: list[Any] = []
    done = first
    for item in rest:
        if item is None:
            target.append(None)
        elif item == "index":
            if not done:
                order += range(len(batch))
                target += range(len(batch))
                done = True
        else:
            order.append(where)
            target.append(where)
            where += 1
    numpy_shape = tuple(1 if t is None else shape[t] for t in ([*range(len(batch)), *target] if first else target))
    spread = reshape(_fit(value, numpy_shape), tuple(shape[o] for o in order))
    return transpose(spread, [order.index(k) for k in range(len(order))])


def changed_part(
    x: ArrayLike,
    parts: Sequence[IndexLike],
    partial: dict[int, slice],
    change: Callable[[Any, list[Any]], Any],
) -> Result:
    """Index arrays together with slices: the sliced part is changed, then written back."""
    shape = aval(x).shape
    cut = [partial.get(d, slice(None)) for d in range(len(shape))]
    basic = basic_index(cut, shape)
    part = slice_array(x, basic.start, basic.size, basic.step)
    inner = [slice(None) if isinstance(item, slice) else item for item in parts]
    return update_slice(x, change(part, inner), basic.start, basic.step)


def _fit(value: ArrayLike, shape: Shape) -> Result:
    have = aval(value).shape
    extra = len(have) - len(shape)
    if extra > 0 and all(map(is_one, have[:extra])):
        value = reshape(value, have[extra:])
    try:
        return broadcast_to(value, shape)
    except ShapeError as error:
        raise ShapeError(
            f"a value of shape {have} cannot be assigned to {tuple(shape)}", location=user_location()
        ) from error


def _masked(x: ArrayLike, mask: ArrayLike, value: ArrayLike) -> Result:
    have = aval(x)
    rest = have.ndim - aval(mask).ndim
    shape = aval(value).shape
    if len(shape) > rest and not all(map(is_one, shape[: len(shape) - rest])):
        if isinstance(mask, np.ndarray):
            return scattered(x, [*[IndexArray(a) for a in np.nonzero(mask)], *[slice(None)] * rest], value, "set")
        if may_count() and not isinstance(x, np.ndarray) and isinstance(mask, Tracer):
            return with_selected(x, mask, value)
        raise UnsupportedError(
            "x[mask] = array needs the number of True elements, which depends on data; use np.where with a value for "
            "every element",
            location=user_location(),
        )
    if len(shape) > rest:
        value = reshape(value, shape[len(shape) - rest :])
    wide = reshape(mask, (*aval(mask).shape, *[1] * rest))
    return u.where(wide, value, x)
