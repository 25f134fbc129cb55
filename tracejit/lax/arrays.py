"""Operations that make and rearrange arrays."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, steps_over
from tracejit.lax.operands import array, array as as_array, aval, operands, operands as of_one_dtype, reject
from tracejit.primitives import creation, shape as p, slicing
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.precision import check_one_device
from tracejit.support.typing import ArrayLike, DTypeLike, IndexLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tracer import extent_of

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcasted_iota", "collapse", "concatenate",
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "expand_dims", "full", "full_like", "index_in_dim", "iota",
    "pad", "reshape", "rev", "slice", "slice_in_dim", "split", "squeeze", "transpose",
]  # fmt: skip


def _shape(sizes: ShapeLike) -> Shape:
    given = sizes if isinstance(sizes, Sequence) else (sizes,)
    out = tuple([n if isinstance(n, Dim) else int(n) for n in map(extent_of, given)])
    if any(isinstance(n, int) and n < 0 for n in out):
        raise reject(f"shape {out} has a negative extent")
    return out


def full(shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike = None, *, sharding: Any = None) -> Result:
    """An array filled with a scalar."""
    check_one_device("full", sharding=sharding)
    value = (
        canonical(dtype).type(fill_value)
        if dtype is not None and weak_kind(fill_value) is not None
        else array(fill_value)
    )
    if dtype is not None:
        from tracejit.primitives.elementwise import convert

        value = convert(value, canonical(dtype))
    return creation.full(_shape(shape), value)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    shape: ShapeLike | None = None,
    sharding: Any = None,
) -> Result:
    """An array filled with a scalar, with x's shape and dtype unless given."""
    check_one_device("full_like", sharding=sharding)
    have = aval(array(x))
    return full(have.shape if shape is None else shape, fill_value, have.dtype if dtype is None else dtype)


def iota(dtype: DTypeLike, size: ArrayLike) -> Result:
    """0, 1, ..., size - 1."""
    return creation.iota(_shape(size), 0, canonical(dtype))


def broadcasted_iota(dtype: DTypeLike, shape: ShapeLike, dimension: int) -> Result:
    """0, 1, 2, ... along one axis of `shape`."""
    sizes = _shape(shape)
    return creation.iota(sizes, axis_index(dimension, len(sizes)), canonical(dtype))


def broadcast(operand: ArrayLike, sizes: ShapeLike) -> Result:
    """The operand repeated along new leading axes."""
    x = array(operand)
    have, lead = aval(x).shape, _shape(sizes)
    return p.broadcast_in_dim(x, (*lead, *have), tuple(builtins.range(len(lead), len(lead) + len(have))))


def broadcast_in_dim(
    operand: ArrayLike, shape: ShapeLike, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Result:
    """The operand spread to `shape`, its axis k becoming axis broadcast_dimensions[k]."""
    check_one_device("broadcast_in_dim", out_sharding=out_sharding)
    return p.broadcast_in_dim(array(operand), _shape(shape), tuple(int(d) for d in broadcast_dimensions))


def reshape(
    operand: ArrayLike, new_sizes: ShapeLike, dimensions: Sequence[int] | None = None, *, out_sharding: Any = None
) -> Result:
    """The same elements under another shape, after a transpose by `dimensions`."""
    check_one_device("reshape", out_sharding=out_sharding)
    x = array(operand)
    if dimensions is not None:
        x = transpose(x, dimensions)
    return p.reshape(x, _shape(new_sizes))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Result:
    """A run of axes joined into one."""
    x = array(operand)
    have = aval(x).shape
    first, end, _ = builtins.slice(start_dimension, stop_dimension).indices(len(have))
    size: Extent = 1
    for n in have[first:end]:
        size = size * n
    return p.reshape(x, (*have[:first], size, *have[end:]))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Result:
    """New axes of extent 1 at the places `dimensions` of the result."""
    x = as_array(array)
    rank = aval(x).ndim + len(dimensions)
    places = {axis_index(d, rank) for d in dimensions}
    rest = iter(aval(x).shape)
    return p.reshape(x, tuple([1 if d in places else next(rest) for d in builtins.range(rank)]))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Result:
    """Without the given axes, which are of extent 1."""
    x = as_array(array)
    have = aval(x).shape
    gone = {axis_index(d, len(have)) for d in dimensions}
    for d in gone:
        if have[d] != 1:
            raise reject(f"[squeeze] axis {d} of shape {have} is of extent {have[d]}, not 1")
    return p.reshape(x, tuple([n for d, n in enumerate(have) if d not in gone]))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Result:
    """Axis k of the result is axis permutation[k] of the operand."""
    x = array(operand)
    perm = tuple(axis_index(d, aval(x).ndim) for d in permutation)
    if sorted(perm) != list(builtins.range(aval(x).ndim)):
        raise reject(f"[transpose] {tuple(permutation)} is not a permutation of {aval(x).ndim} axes")
    return p.transpose(x, perm)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Result:
    """Elements in the opposite order along axes."""
    x = array(operand)
    axes = tuple(axis_index(d, aval(x).ndim) for d in dimensions)
    return p.reverse(x, axes) if axes else x


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Result:
    """Arrays one after the other along an axis."""
    xs = of_one_dtype("concatenate", *operands)
    if not xs:
        raise reject("[concatenate] needs at least one array")
    return p.concatenate(xs, axis_index(dimension, aval(xs[0]).ndim))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[ArrayLike, ArrayLike, int]]
) -> Result:
    """The operand with (low, high, interior) elements of a value before, after and between; negative ones cut."""
    x, value = operands("pad", operand, padding_value)
    have = aval(x).shape
    if len(padding_config) != len(have):
        raise reject(f"[pad] {len(padding_config)} entries for an array of rank {len(have)}")
    if any(c < 0 for _, _, c in padding_config):
        raise reject("[pad] interior padding may not be negative")
    if any(c for _, _, c in padding_config):
        spread = tuple(
            [
                n + builtins.max(n - 1, 0) * c if isinstance(n, int) else n + (n - 1) * c
                for n, (_, _, c) in zip(have, padding_config, strict=True)
            ]
        )
        base = creation.full(spread, value)
        x = slicing.update_slice(base, x, (0,) * len(have), tuple(c + 1 for _, _, c in padding_config))
        have = spread
    cut = (
        [builtins.max(-a, 0) if isinstance(a, int) else 0 for a, _, _ in padding_config],
        [builtins.max(-b, 0) if isinstance(b, int) else 0 for _, b, _ in padding_config],
    )
    if any(cut[0]) or any(cut[1]):
        x = p.slice_array(x, tuple(cut[0]), tuple([n - a - b for n, a, b in zip(have, *cut, strict=True)]))
    low = [0 if isinstance(a, int) and a < 0 else a for a, _, _ in padding_config]
    high = [0 if isinstance(b, int) and b < 0 else b for _, b, _ in padding_config]
    return p.pad(x, value, low, high) if any(not isinstance(n, int) or n for n in (*low, *high)) else x


# -- slices ------------------------------------------------------------------------------------------------------------
def slice(
    operand: ArrayLike,
    start_indices: Sequence[ArrayLike],
    limit_indices: Sequence[Extent],
    strides: Sequence[int] | None = None,
) -> Result:
    """Elements from start up to limit with a stride along each axis, all known while tracing."""
    x = array(operand)
    have = aval(x).shape
    steps = tuple(strides) if strides is not None else (1,) * len(have)
    if not len(start_indices) == len(limit_indices) == len(steps) == len(have):
        raise reject(f"[slice] indices do not fit an array of rank {len(have)}")
    counts: list[Extent] = []
    for d, (a, b, k, n) in enumerate(zip(start_indices, limit_indices, steps, have, strict=True)):
        if k < 1 or a < 0 or a > b or b > n:
            raise reject(f"[slice] {a}:{b}:{k} is not a slice of axis {d} of extent {n}")
        counts.append(steps_over(b - a, k))
    return p.slice_array(x, tuple(start_indices), tuple(counts), steps)


def slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, limit_index: ArrayLike, stride: int = 1, axis: int = 0
) -> Result:
    """`slice` of one axis; negative places count from its end."""
    x = array(operand)
    have = aval(x).shape
    k = axis_index(axis, len(have))
    n = have[k]
    first = (
        0
        if start_index is None
        else (start_index + n if isinstance(start_index, int) and start_index < 0 else start_index)
    )
    end = (
        n
        if limit_index is None
        else (limit_index + n if isinstance(limit_index, int) and limit_index < 0 else limit_index)
    )
    starts: list[Any] = [0] * len(have)
    limits: list[Any] = list(have)
    starts[k], limits[k] = first, end
    return slice(x, starts, limits, tuple([stride if d == k else 1 for d in builtins.range(len(have))]))


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Result:
    """One element of an axis."""
    x = array(operand)
    k = axis_index(axis, aval(x).ndim)
    n = aval(x).shape[k]
    place = index + n if index < 0 else index
    out = slice_in_dim(x, place, place + 1, 1, k)
    return out if keepdims else squeeze(out, (k,))


def split(operand: ArrayLike, sizes: Sequence[Extent], axis: int = 0) -> list[Result]:
    """The parts of an array along an axis, one of each of these sizes, which are as many elements as the axis has.

    Raises: ShapeError for other sizes.   Source: JAX's lax.split.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.split(np.arange(3), (1, 2))
    [array([0]), array([1, 2])]
    """
    x = array(operand)
    have = aval(x).shape
    k = axis_index(axis, len(have))
    counts = [extent_of(n) if isinstance(extent_of(n), Dim) else int(extent_of(n)) for n in sizes]
    total: Extent = 0
    for n in counts:
        if isinstance(n, int) and n < 0:
            raise reject(f"[split] {n} is no size")
        total = total + n
    if not total == have[k]:
        raise reject(f"[split] sizes {tuple(counts)} are not those of axis {k} of extent {have[k]}")
    parts: list[Any] = []
    begin: Extent = 0
    for n in counts:
        starts = tuple([begin if d == k else 0 for d in builtins.range(len(have))])
        parts.append(p.slice_array(x, starts, tuple([n if d == k else m for d, m in enumerate(have)])))
        begin = begin + n
    return parts


def _starts(start_indices: ArrayLike, rank: int) -> list[Result]:
    given = [start_indices[n] for n in builtins.range(rank)] if hasattr(start_indices, "shape") else list(start_indices)
    if len(given) != rank:
        raise reject(f"{len(given)} start indices for an array of rank {rank}")
    return [np.int64(s) if weak_kind(s) is not None else array(s) for s in given]


def _placed(starts: Sequence[ArrayLike], shape: Shape, negative: bool | Sequence[bool]) -> list[Result]:
    """Starts of a block; where they may be negative such ones count from the end."""
    allowed = [negative] * len(shape) if isinstance(negative, bool) else list(negative)
    return [_wrapped(s, n) if wrap else s for s, n, wrap in zip(starts, shape, allowed, strict=True)]


def _wrapped(start: ArrayLike, n: Extent) -> Result:
    """Negative starts count from the end, as in JAX."""
    from tracejit.primitives.elementwise import add, convert, select

    if isinstance(start, np.integer):
        return start if start >= 0 else array(int(start) + n)
    x = convert(start, np.int64)
    from tracejit.primitives.comparison import Lt

    return select(bind(Lt(), x, np.int64(0)), add(x, creation.extent_value(n, np.int64)), x)


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike,
    slice_sizes: ShapeLike,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Result:
    """A block of known size from computed starts, clamped so that all of it lies inside.

    allow_negative_indices: whether negative starts count from the end of the axis, for all axes or each.
    """
    x = array(operand)
    have = aval(x).shape
    starts = _placed(_starts(start_indices, len(have)), have, allow_negative_indices)
    return slicing.dynamic_slice(x, starts, _shape(slice_sizes))


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: ArrayLike,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Result:
    """`dynamic_slice` of one axis."""
    x = array(operand)
    have = aval(x).shape
    k = axis_index(axis, len(have))
    starts: list[Any] = [0] * len(have)
    starts[k] = start_index
    sizes = tuple([slice_size if d == k else n for d, n in enumerate(have)])
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: IndexLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Result:
    """The element of an axis at a computed place."""
    out = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return out if keepdims else squeeze(out, (axis,))


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Result:
    """The operand with a block written at computed starts, clamped so that all of it lies inside."""
    x, block = operands("dynamic_update_slice", operand, update)
    have = aval(x).shape
    starts = _placed(_starts(start_indices, len(have)), have, allow_negative_indices)
    return slicing.dynamic_update_slice(x, block, starts)


def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Result:
    """`dynamic_update_slice` along one axis."""
    x = array(operand)
    starts: list[Any] = [0] * aval(x).ndim
    starts[axis_index(axis, aval(x).ndim)] = start_index
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: IndexLike, axis: int, *, allow_negative_indices: bool = True
) -> Result:
    """The operand with the element of an axis at a computed place replaced."""
    x, block = operands("dynamic_update_index_in_dim", operand, update)
    k = axis_index(axis, aval(x).ndim)
    if aval(block).ndim != aval(x).ndim:
        have = aval(block).shape
        block = p.reshape(block, (*have[:k], 1, *have[k:]))
    return dynamic_update_slice_in_dim(x, block, index, k, allow_negative_indices=allow_negative_indices)
