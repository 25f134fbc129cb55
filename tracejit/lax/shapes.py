"""Arrays repeated, stacked and taken apart, and what is known of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_one, same_extent
from tracejit.lax.arrays import concatenate, expand_dims, full
from tracejit.lax.operands import array, aval, operands as of_one_dtype, reject
from tracejit.primitives import shape as p
from tracejit.primitives.creation import extent_value
from tracejit.support.axes import axis_index
from tracejit.support.precision import check_one_device
from tracejit.support.tree import map_tree
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike

__all__ = [
    "broadcast_like", "broadcast_shapes", "broadcast_to_rank", "dtype", "empty", "optimization_barrier",
    "shape_as_value", "stack", "tile", "unstack",
]  # fmt: skip


def tile(operand: ArrayLike, reps: Sequence[int]) -> Result:
    """The operand repeated along each axis, reps[k] times along axis k.

    Raises: ShapeError unless there is one number for each axis, none of them negative.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.tile(np.array([[1, 2]]), (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    x = array(operand)
    have, times = aval(x).shape, [int(n) for n in reps]
    if len(times) != len(have) or any(n < 0 for n in times):
        raise reject(
            f"[tile] reps {tuple(reps)} for an array of rank {len(have)}: one number for each axis, not negative"
        )
    wide = tuple([m for n, k in zip(have, times, strict=True) for m in (k, n)])
    spread = p.broadcast_in_dim(x, wide, tuple(range(1, 2 * len(have), 2)))
    return p.reshape(spread, tuple([k * n for n, k in zip(have, times, strict=True)]))


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Result:
    """Arrays of one shape and dtype along a new axis.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
    array([[1, 3],
           [2, 4]])
    """
    xs = of_one_dtype("stack", *operands)
    if not xs:
        raise reject("[stack] needs at least one array")
    if any(aval(x).shape != aval(xs[0]).shape for x in xs):
        raise reject(f"[stack] arrays of one shape, not {', '.join(str(aval(x)) for x in xs)}")
    k = axis_index(axis, aval(xs[0]).ndim + 1)
    return concatenate([expand_dims(x, (k,)) for x in xs], k)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Result, ...]:
    """The parts of an array along an axis, whose extent is known while tracing; each without it.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.unstack(np.array([[1, 2], [3, 4]]), axis=1)
    (array([1, 3]), array([2, 4]))
    """
    y = array(x)
    have = aval(y).shape
    k = axis_index(axis, len(have))
    rest = (*have[:k], *have[k + 1 :])
    counts = tuple([1 if d == k else n for d, n in enumerate(have)])
    starts = [tuple([n if d == k else 0 for d in range(len(have))]) for n in range(int(have[k]))]
    return tuple([p.reshape(p.slice_array(y, start, counts), rest) for start in starts])


def broadcast_shapes(*shapes: ShapeLike) -> Shape:
    """The shape that arrays of these shapes are broadcast to.

    >>> import tracejit as tj
    >>> tj.lax.broadcast_shapes((2, 1), (1, 3))
    (2, 3)
    """
    given: list[tuple[Any, ...]] = [tuple(shape) if isinstance(shape, Sequence) else (shape,) for shape in shapes]
    rank = max((len(shape) for shape in given), default=0)
    found: list[Extent] = [1] * rank
    for shape in given:
        for d, n in enumerate(shape, rank - len(shape)):
            if is_one(found[d]):
                found[d] = n
            elif not (is_one(n) or same_extent(n, found[d]) or n == found[d]):
                raise reject(f"[broadcast_shapes] shapes {' and '.join(map(str, given))} cannot be broadcast")
    return tuple(found)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Result:
    """The array with leading axes of extent 1, up to a rank; as it is where it has that already.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.broadcast_to_rank(np.ones(3), 2).shape
    (1, 3)
    """
    y = array(x)
    have = aval(y).shape
    return p.reshape(y, (*(1,) * (rank - len(have)), *have)) if rank > len(have) else y


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Result:
    """The first array broadcast to the shape of the second.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.broadcast_like(np.array([1, 2]), np.zeros((2, 2)))
    array([[1, 2],
           [1, 2]])
    """
    x, shape = array(arr), aval(array(like_arr)).shape
    have = aval(x).shape
    if broadcast_shapes(have, shape) != shape:
        raise reject(f"[broadcast_like] an array of shape {have} is not broadcast to {shape}")
    return p.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(have), len(shape))))


def shape_as_value(shape: Sequence[Extent]) -> Result:
    """A shape as a vector of int32.

    >>> import tracejit as tj
    >>> tj.lax.shape_as_value((2, 3))
    array([2, 3], dtype=int32)
    """
    sizes = tuple(shape)
    if all(isinstance(n, (int, np.integer)) for n in sizes):
        return np.array(sizes, np.int32)
    return concatenate([p.reshape(extent_value(n, np.int32), (1,)) for n in sizes], 0)


def dtype(x: Any) -> np.dtype[Any]:
    """The dtype of an array or number.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.dtype(np.ones(2, np.float32))
    dtype('float32')
    """
    return aval(x if not isinstance(x, (list, tuple)) else array(x)).dtype


def empty(shape: ShapeLike, dtype: DTypeLike, *, out_sharding: Any = None) -> Result:
    """An array of zeros: memory is never left uninitialised.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.empty((2,), np.float32)
    array([0., 0.], dtype=float32)
    """
    check_one_device("empty", out_sharding=out_sharding)
    return full(shape, 0, dtype)


def optimization_barrier(operand: Any, /) -> Any:
    """A pytree of arrays as it is.  The compiler here may still compute across it; results are the same.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.optimization_barrier((np.array([1, 2]), 3.0))
    (array([1, 2]), array(3.))
    """
    return map_tree(lambda x: np.asarray(x) if isinstance(x, (bool, int, float)) else array(x), operand)
