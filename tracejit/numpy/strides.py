"""NumPy's rules for memory: the strides of views, when a reshape is one, and how results of functions are laid out.

Strides are in bytes; they may be symbolic.  Source: NumPy's shape.c (attempt_nocopy_reshape), ctors.c
(PyArray_NewLikeArray) and nditer_constr.c (the order of axes an iterator finds, which decides the layout of the arrays
that it allocates).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tracejit.ir.extents import DimDependent, Extent, Shape, is_one, same_extent
from tracejit.numpy.axes import items_of
from tracejit.numpy.promotion import as_array, aval
from tracejit.support.dtypes import canonical
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, IndexLike
from tracejit.tracer.cell import Cell
from tracejit.tracer.layout import UNKNOWN, Layout, Open, Strides, c_strides, ordered_strides
from tracejit.tracer.tracer import Tracer

__all__ = [
    "as_iterated", "in_order_of_kept_axes", "in_order_of_operands", "is_contiguous", "known_strides", "laid_out_by",
    "layout_of", "like", "like_first", "outer_first", "reshaped_strides", "sliced_strides", "strides_of",
]  # fmt: skip


def strides_of(x: ArrayLike) -> Strides | Open | Any:
    """The strides NumPy's array would have; `Open` or UNKNOWN where they are not known."""
    if isinstance(x, (list, tuple)):  # an array is made of it
        have = aval(as_array(x))
        return c_strides(have.shape, have.dtype.itemsize)
    if not isinstance(x, Tracer):
        return np.asarray(x).strides
    chain: list[Cell] = [x]
    while chain[-1].root is not None:
        chain.append(chain[-1].root)
    base = chain.pop()
    shape = base.shape
    strides: Any = base.layout if base.layout is not None else c_strides(shape, base.dtype.itemsize)
    for t in reversed(chain):
        if not isinstance(strides, tuple):
            return strides
        index = t.index
        strides = index.strides(shape, strides)
        if strides is None:
            return UNKNOWN
        shape = t.shape
    return strides


def layout_of(x: ArrayLike, without: int | None = None) -> Layout:
    """How an array lies in memory, also one that is a view: the layout of an array that stands for it,
    or for its parts along an axis.
    """
    if isinstance(x, Tracer) and x.root is None and x.layout is None and not without:
        return None
    strides = strides_of(x)
    if not isinstance(strides, tuple):
        return strides
    kept = [d for d in range(len(strides)) if d != without]
    shape, strides = tuple([aval(x).shape[d] for d in kept]), tuple([strides[d] for d in kept])
    try:
        return None if is_contiguous(shape, strides, aval(x).dtype.itemsize) else strides
    except DimDependent as error:
        return Open(error)


def _is_unit(n: Extent) -> bool:
    """Whether an extent is 1 for all sizes; of one that may be,
    `is_one` asks where nothing else tells how elements lie.
    """
    return isinstance(n, int) and n == 1


def known_strides(x: ArrayLike) -> Strides | None:
    """The strides; None if they cannot be known.  Raises what starts the trace again where that helps."""
    found = strides_of(x)
    if isinstance(found, Open):
        raise found.error
    return None if found is UNKNOWN else found


def sliced_strides(index: IndexLike, strides: Strides) -> Strides:
    """Strides of a basic slice: those of axes of extent 1 do not matter."""
    wide = [s * k for s, k, n in zip(strides, index.step, index.size, strict=True) if not _is_unit(n)]
    rest = iter(wide)
    return tuple([0 if _is_unit(n) else next(rest) for n in index.shape])


# -- contiguity and reshapes
# ---------------------------------------------------------------------------------------------------------------
def is_contiguous(shape: Shape, strides: Strides, itemsize: int, order: str = "C") -> bool:
    """Whether elements lie without gaps in C order (or "F", Fortran's)."""
    if any(isinstance(n, int) and n == 0 for n in shape):
        return True
    step: Extent = itemsize
    pairs = list(zip(shape, strides, strict=True))
    for n, s in reversed(pairs) if order == "C" else pairs:
        if _is_unit(n):
            continue
        if not same_extent(s, step) and s != step:
            if is_one(n):
                continue
            return False
        step = step * n
    return True


def reshaped_strides(shape: Shape, strides: Strides, want: Shape) -> Strides | None:
    """Strides under another shape if no element has to move, else None."""
    if any(isinstance(n, int) and n == 0 for n in shape):
        return c_strides(want, 1)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not _is_unit(n)]
    if all(same_extent(a[1], b[0] * b[1]) for a, b in pairwise(old)):
        unit = old[-1][1] if old else 1
        return tuple([unit * s for s in c_strides(want, 1)])
    return _by_groups([(n, s) for n, s in old if not is_one(n)], want)


def _by_groups(old: Sequence[tuple[Extent, Extent]], want: Shape) -> Strides | None:
    """Runs of old and new axes with equal products; the old ones of a run must lie behind each other in memory."""
    new = [n for n in want if not is_one(n)]
    found: list[Extent] = []
    i, j = 0, 0
    while i < len(old) and j < len(new):
        first, begin = i, j
        have, need = old[i][0], new[j]
        i, j = i + 1, j + 1
        while not same_extent(have, need) and have != need:
            if have < need:
                have, i = have * old[i][0], i + 1
            else:
                need, j = need * new[j], j + 1
        if any(not same_extent(a[1], b[0] * b[1]) and a[1] != b[0] * b[1] for a, b in pairwise(old[first:i])):
            return None
        found += [old[i - 1][1] * s for s in c_strides(tuple(new[begin:j]), 1)]
    rest = iter(found)
    return tuple([0 if is_one(n) else next(rest) for n in want])


# -- results -----------------------------------------------------------------------------------------------------------
def like(x: ArrayLike, shape: Shape, dtype: DTypeLike, order: Any = "K") -> Layout:
    """The layout of a new array as `copy`, `astype`, `array` and `zeros_like` make it from x, by `order`."""
    itemsize = canonical(dtype).itemsize
    if order == "C" or len(shape) < 2:
        return None
    if order == "F":
        return laid_out(shape, itemsize, range(len(shape) - 1, -1, -1))
    found = strides_of(x)
    if not isinstance(found, tuple):
        return found
    if len(found) != len(shape) and order != "A":  # "A" means Fortran's order whatever the rank
        return None
    have = aval(x)
    try:
        if is_contiguous(have.shape, found, have.dtype.itemsize):
            return None
        if order == "A" or is_contiguous(have.shape, found, have.dtype.itemsize, "F"):
            turned = is_contiguous(have.shape, found, have.dtype.itemsize, "F")
            return laid_out(shape, itemsize, range(len(shape) - 1, -1, -1)) if turned else None
        return laid_out(shape, itemsize, outer_first(found))
    except DimDependent as error:
        return Open(error)


def outer_first(strides: Strides) -> list[int]:
    """Axes from the greatest stride to the least, equal ones in order."""
    order: list[int] = []
    for axis, s in enumerate(strides):
        place = len(order)
        while place and _size(strides[order[place - 1]]) < _size(s):
            place -= 1
        order.insert(place, axis)
    return order


def _size(stride: Extent) -> Extent:
    return -stride if stride < 0 else stride


def laid_out(shape: Shape, itemsize: int, order: Sequence[int]) -> Layout:
    """The layout of an array without gaps whose axes lie in this order, the outermost first; None for C order."""
    wide = [axis for axis in order if not _is_unit(shape[axis])]
    if wide != sorted(wide):
        wide = [axis for axis in wide if not is_one(shape[axis])]
    return None if wide == sorted(wide) else ordered_strides(shape, itemsize, order)


def in_order_of_operands(arrays: Sequence[ArrayLike], result: Tracer, *operands: ArrayLike, **options: Any) -> Layout:
    """The layout of what an elementwise operation makes of arrays:
    their order of axes where they agree, else C order.
    """
    rank = result.ndim
    if rank < 2:
        return None
    rows: list[list[Extent]] = []
    for x in arrays:
        found = strides_of(x)
        if not isinstance(found, tuple):
            return found
        own: list[Extent] = [0 if _is_unit(n) else s for n, s in zip(aval(x).shape, found, strict=True)]
        if len(own) > rank:
            return UNKNOWN
        rows.append([0] * (rank - len(own)) + own)
    return laid_out_by(rows, result)


def laid_out_by(rows: Sequence[Sequence[Extent]], result: Tracer) -> Layout:
    """The layout of an array that an iterator makes, whose first axes are those of `result`:
    strides of each operand along its axes.
    """
    rank = result.ndim
    if rank < 2:
        return None
    try:
        order = _agreed(rows, len(rows[0]) if rows else rank)
        return laid_out(result.shape, result.itemsize, [axis for axis in order if axis < rank])
    except DimDependent as error:
        return Open(error)


def as_iterated(shape: Shape, strides: Strides) -> list[int]:
    """Axes from the outermost to the innermost, as an iterator over one array in the order of memory walks:
    those of stride 0 stay.
    """
    return _agreed([[0 if _is_unit(n) else s for n, s in zip(shape, strides, strict=True)]], len(shape))


def _agreed(rows: Sequence[Sequence[Extent]], rank: int) -> list[int]:
    """Axes from the outermost to the innermost: inserted one by one from the last,
    before those that lie further inside.
    """
    inner: list[int] = []  # from the innermost
    for axis in range(rank - 1, -1, -1):
        place = len(inner)
        for k in range(len(inner) - 1, -1, -1):
            inside = _lies_inside(rows, axis, inner[k])
            if inside is None:
                continue
            if not inside:
                break
            place = k
        inner.insert(place, axis)
    return inner[::-1]


def _lies_inside(rows: Sequence[Sequence[Extent]], axis: int, other: int) -> bool | None:
    """Whether all operands that walk along both axes take smaller steps along the first; None if there is none."""
    found: bool | None = None
    for row in rows:
        mine, theirs = row[axis], row[other]
        if _is_zero(mine) or _is_zero(theirs):
            continue
        if _size(theirs) <= _size(mine):
            return False  # where operands disagree, C order wins
        found = True
    return found


def _is_zero(s: Extent) -> bool:
    return isinstance(s, int) and s == 0


def in_order_of_kept_axes(
    arrays: Sequence[ArrayLike],
    result: Tracer,
    x: ArrayLike,
    axis: AxisLike = None,
    *operands: ArrayLike,
    **options: Any,
) -> Layout:
    """The layout of what a reduction of x along `axis` gives: the axes that stay, in their order."""
    if result.ndim < 2:
        return None
    strides = strides_of(x)
    if not isinstance(strides, tuple) or (len(arrays) > 1 and not isinstance(x, (list, tuple))):
        return UNKNOWN if isinstance(strides, tuple) else strides
    rank = len(strides)
    over = range(rank) if axis is None else [int(k) % rank for k in items_of(axis)]
    kept = [d for d in range(rank) if d not in over]
    places = {d: d if result.ndim == rank else kept.index(d) for d in kept}
    steps = [0 if _is_unit(n) else s for n, s in zip(aval(as_array(x)).shape, strides, strict=True)]
    try:
        order = [places[d] for d in _agreed([steps], rank) if d in places]
        gone = [d for d in range(result.ndim) if d not in order]
        return laid_out(result.shape, result.itemsize, [*gone, *order])
    except DimDependent as error:
        return Open(error)


def like_first(arrays: Sequence[ArrayLike], result: Tracer, *operands: ArrayLike, **options: Any) -> Layout:
    """The layout of what np.pad makes: Fortran's order if the array is in that alone, else C order."""
    return like(arrays[0], result.shape, result.dtype, "A")
