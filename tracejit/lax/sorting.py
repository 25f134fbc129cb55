"""Sorts of several operands, and the greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.lax.operands import array, aval, reject
from tracejit.primitives import sorting as s
from tracejit.primitives.creation import iota
from tracejit.primitives.shape import reverse, slice_array
from tracejit.support.axes import axis_index
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Result:
    """The operand, or several of one shape, in the order that the first `num_keys` of them have along a dimension.

    The first key decides, then the second; equal ones stay in order, whatever `is_stable` says, and NaN comes last.
    A tuple of results for a sequence of operands.

    Raises: ShapeError for operands that differ in shape, a dimension that is not there, and a number of keys that is
    not 1 to as many as there are operands.
    Source: JAX's lax.sort.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda k, v: tj.lax.sort((k, v)))(np.array([2, 1, 2]), np.array([5, 6, 7]))
    (array([1, 2, 2]), array([6, 5, 7]))
    """
    if not isinstance(operand, (tuple, list)):
        return _sorted([operand], dimension, 1 if num_keys == 1 else 0)[0]
    return tuple(_sorted(operand, dimension, num_keys))


def _sorted(operands: Sequence[Any], dimension: int, keys: int) -> Sequence[Any]:
    xs = [array(x) for x in operands]
    if not 1 <= keys <= len(xs):
        raise reject(f"[sort] num_keys is 1 to the number of operands, {len(xs)}")
    if any(aval(x).shape != aval(xs[0]).shape for x in xs):
        raise reject(f"[sort] operands differ in shape: {', '.join(str(aval(x)) for x in xs)}")
    return s.sort(xs, axis_index(dimension, aval(xs[0]).ndim), keys)


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> Result:
    """(keys in rising order along a dimension, values in the order of their keys).

    Raises: as `sort`.
    Source: JAX's lax.sort_key_val.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.sort_key_val(np.array([2, 1]), np.array([5.0, 6.0]))[1]
    array([6., 5.])
    """
    return tuple(_sorted([keys, values], dimension, 1))


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> Result:
    """(the k greatest elements along an axis, falling; where they are, int32).

    Of equal elements the first comes first; NaN is greater than all numbers.

    Raises: ShapeError for a k that is negative or greater than the axis is long, and an axis that is not there.
    Source: JAX's lax.top_k.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.top_k(x, 2))(np.array([3.0, 9.0, 5.0]))
    (array([9., 5.]), array([1, 2], dtype=int32))
    """
    return _greatest("top_k", operand, k, axis, True)


def _greatest(name: str, operand: ArrayLike, k: Any, axis: int, greatest: bool) -> tuple[Result, Result]:
    x = array(operand)
    have = aval(x)
    axis = axis_index(axis, have.ndim)
    n = have.shape[axis]
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise DtypeError(f"[{name}] k is an integer that is known while tracing, not {k!r}", location=user_location())
    count = int(k)
    if count < 0 or bool(n < count):
        raise reject(f"[{name}] k={count} of an axis of extent {n}")
    places = iota(have.shape, axis, np.int32)
    if greatest:
        x, places = reverse(x, (axis,)), reverse(places, (axis,))
    found = s.sort([x, places], axis)
    start = tuple([n - count if d == axis and greatest else 0 for d in range(have.ndim)])
    shape = tuple([count if d == axis else m for d, m in enumerate(have.shape)])
    parts = [slice_array(y, start, shape) for y in found]
    return (reverse(parts[0], (axis,)), reverse(parts[1], (axis,))) if greatest else (parts[0], parts[1])


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Result:
    """The k greatest elements along a dimension, falling, and where they are, int32: exactly, whatever recall is asked
    for.

    Raises: as `top_k`.
    Source: JAX's lax.approx_max_k.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.approx_max_k(np.array([3.0, 9.0, 5.0]), 1)[0]
    array([9.])
    """
    return _greatest("approx_max_k", operand, k, reduction_dimension, True)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Result:
    """The k least elements along a dimension, rising, and where they are, int32: exactly, whatever recall is asked for.

    Raises: as `top_k`.
    Source: JAX's lax.approx_min_k.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.approx_min_k(np.array([3.0, 9.0, 5.0]), 1)[1]
    array([0], dtype=int32)
    """
    return _greatest("approx_min_k", operand, k, reduction_dimension, False)
