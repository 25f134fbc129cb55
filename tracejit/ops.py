"""Sums, products and extrema of the elements that have one number, under the names of `jax.ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.array import own
from tracejit.ir.extents import Extent, same_extent
from tracejit.ir.scalar import kernel_dtype
from tracejit.numpy.axes import as_extent, reject
from tracejit.numpy.bounds import Bounds
from tracejit.numpy.promotion import aval
from tracejit.numpy.shaping import array_of
from tracejit.primitives import reduction
from tracejit.primitives.creation import full
from tracejit.primitives.indexing import scatter
from tracejit.primitives.reduction import extreme
from tracejit.support.errors import ConcretizationError, DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import current_interpreter, eager, prepare
from tracejit.tracer.tracer import Tracer

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

prepare()  # what is called without jit needs the operators of arrays before anything is traced

_REDUCED = {
    "add": reduction.reduce_sum,
    "mul": reduction.reduce_prod,
    "min": reduction.reduce_min,
    "max": reduction.reduce_max,
}


def _identity(op: str, dtype: np.dtype[Any]) -> Any:
    """What a segment without elements has."""
    if op in ("add", "mul"):
        return dtype.type(op == "mul")
    return dtype.type(extreme(kernel_dtype(dtype), 1 if op == "min" else -1))


def _count(ids: ArrayLike, num_segments: Any, name: str) -> Extent:
    """How many segments there are: as given, or as the numbers say where these are known."""
    if num_segments is not None:
        count = as_extent(num_segments)
        if isinstance(count, int) and count < 0:
            raise reject(f"{name}: num_segments is not negative")
        return count
    values = ids.seen().made() if isinstance(ids, Tracer) else np.asarray(ids)
    if values is None:
        raise ConcretizationError(
            f"{name} without num_segments= has as many segments as the numbers say, which are not known while tracing",
            location=user_location(),
        )
    return int(values.max()) + 1 if values.size else 0


def _segments(
    op: str,
    name: str,
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: Any,
    unique: bool,
    buckets: Any,
    mode: Any,
) -> Result:
    x, ids = array_of(data), array_of(segment_ids)
    have = aval(x)
    if aval(ids).dtype.kind not in "iu":
        raise DtypeError(f"{name}: the numbers of segments are integers, not {aval(ids)}", location=user_location())
    if have.dtype.kind == "b" and op in ("add", "mul"):
        raise DtypeError(f"{name} does not accept bool; convert the data to integers", location=user_location())
    if aval(ids).ndim != 1 or not have.ndim or not same_extent(aval(ids).shape[0], have.shape[0]):
        raise reject(f"{name}: data {have} and segment_ids {aval(ids)} are not of one length along the first axis")
    count = _count(ids, num_segments, name)
    places = Bounds.of(mode, wrap=False, reads=False).settle(ids, count)
    first = _identity(op, have.dtype)
    n = have.shape[0]
    if buckets is None or not isinstance(n, int) or not n:
        base = full((count, *have.shape[1:]), first)
        return scatter(base, x, (0,), [places], op, unique=unique)
    # every bucket by itself, then their results together
    size = int(buckets)
    number = -(-n // size)
    base = full((number, count, *have.shape[1:]), first)
    found = scatter(base, x, (0, 1), [np.arange(n) // size, places], op, unique=unique)
    return _REDUCED[op](found, (0,))


def _function(op: str, what: str, none: str, example: str) -> Callable[..., Any]:
    name = {"add": "segment_sum", "mul": "segment_prod", "min": "segment_min", "max": "segment_max"}[op]

    def function(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
    ) -> Result:
        result = _segments(op, name, data, segment_ids, num_segments, bool(unique_indices), bucket_size, mode)
        return own(result, (data, segment_ids), {}) if current_interpreter() is eager else result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {what} of the elements along the first axis that have one number.

    data: number[n, *s], segment_ids: integer[n] -> [num_segments, *s], of the data's dtype.  A segment without elements
    has {none}.
    num_segments: how many there are; by default as many as the numbers say, where these are known.  mode: of numbers
    out of range (`tj.lax.GatherScatterMode`), which by default are left out.  unique_indices: no number comes twice.
    bucket_size: so many elements are put together at a time, and their results then.  indices_are_sorted makes no
    difference.
    Raises: ShapeError for arrays of other lengths, DtypeError for numbers that are no integers, ConcretizationError
    without `num_segments` where the numbers are not known.
    Source: JAX's ops.{name}.

    >>> import numpy as np, tracejit as tj
    >>> tj.ops.{name}(np.array([3.0, 4.0, 5.0]), np.array([0, 0, 2]), num_segments=3)
    Array([{example}], dtype=float64)
    """
    return function


segment_sum = _function("add", "sums", "0", "7., 0., 5.")
segment_prod = _function("mul", "products", "1", "12.,  1.,  5.")
segment_min = _function("min", "minima", "the greatest number of the dtype (infinity)", " 3., inf,  5.")
segment_max = _function("max", "maxima", "the least number of the dtype (-infinity)", "  4., -inf,   5.")
