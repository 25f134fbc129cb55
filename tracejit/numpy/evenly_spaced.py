"""Evenly spaced numbers: arange, linspace, logspace and geomspace."""

from __future__ import annotations

import builtins
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Extent, steps_over
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, axis_index, not_negative, reject, static_array
from tracejit.numpy.conversions import refuse_like
from tracejit.numpy.creation import default_float, default_int, filled, fresh, in_order
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, broadcast, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import moveaxis
from tracejit.numpy.strides import layout_of
from tracejit.primitives import creation as c, shape as p
from tracejit.support.config import config
from tracejit.support.dtypes import canonical, result_type, weak_kind
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result
from tracejit.tracer.failures import ZERO_IN_SEQUENCE
from tracejit.tracer.layout import UNKNOWN
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer, extent_of

__all__ = ["arange", "geomspace", "linspace", "logspace"]


# -- ranges ------------------------------------------------------------------------------------------------------------
def arange(
    start_or_stop: ArrayLike = None,
    /,
    stop: ArrayLike = None,
    step: ArrayLike = 1,
    dtype: DTypeLike = None,
    *,
    device: Any = None,
    like: Any = None,
    start: ArrayLike = None,
) -> Result:
    """start, start + step, ... before stop; all three are known while tracing (symbolic extents with step 1 are)."""
    refuse_like(like)
    first = start if start is not None else start_or_stop
    if first is None:
        if stop is None:
            raise reject("arange needs a stop")
        first = 0
    if stop is None:
        first, stop = 0, first
    first, stop, step = extent_of(first), extent_of(stop), 1 if step is None else step
    if any(isinstance(n, Dim) for n in (first, stop, step)):
        return _symbolic_range(first, stop, step, dtype)
    a, b, s = [
        n if weak_kind(n) is not None else cast(Any, static_array(n, "arange's arguments")[()])
        for n in (first, stop, step)
    ]
    line: np.ndarray[Any, Any] = np.arange(a, b, s, dtype=dtype)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    if dtype is None and config.default_dtype_bits == 32:
        line = line.astype(
            default_float() if line.dtype.kind == "f" else line.dtype if line.dtype.kind == "c" else default_int()
        )
    return _affine_line(line)


def _affine_line(line: np.ndarray[Any, Any]) -> Result:
    """A range computed where it is used instead of read, as NumPy computes it: first + k * (second - first)."""
    dtype = line.dtype
    if line.size < 2:
        return filled(line.shape, line[0] if line.size else dtype.type(0), dtype)
    if dtype.kind == "b":
        return to_dtype(c.iota(line.shape, 0, np.int64), dtype)
    wide = dtype
    if dtype.itemsize < 4:
        wide = np.dtype(np.float32 if dtype.kind == "f" else np.int64)
    first, second = line[0].astype(wide), line[1].astype(wide)
    x = c.iota(line.shape, 0, wide)
    x = x if second - first == 1 else u.multiply(x, second - first)
    x = x if first == 0 else u.add(x, first)
    return fresh(to_dtype(x, dtype))


def _symbolic_range(first: ArrayLike, stop: ArrayLike, step: ArrayLike, dtype: DTypeLike) -> Result:
    if not all(isinstance(n, (Dim, int, np.integer)) for n in (first, stop, step)):
        first, stop, step = [n if not isinstance(n, Dim) else int(n) for n in (first, stop, step)]
    if not isinstance(step, (int, np.integer)):
        step = int(step)
    if step == 0:
        raise reject("arange's step may not be 0")
    count: Extent = steps_over(stop - first if step > 0 else first - stop, int(builtins.abs(step)))
    count = 0 if count < 0 else count
    dtype = default_int() if dtype is None else canonical(dtype)
    x = c.iota((count,), 0, dtype)
    x = x if step == 1 else u.multiply(x, np.array(int(step)).astype(dtype))  # -1 wraps around as an unsigned one
    return x if isinstance(first, (int, np.integer)) and first == 0 else u.add(x, to_dtype(as_array(first), dtype))


def _together(a: ArrayLike, b: ArrayLike) -> list[Result]:
    return broadcast([a, b], [aval(a).shape, aval(b).shape], keep_scalars=False)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
    *,
    device: Any = None,
) -> Result:
    """`num` evenly spaced values from start to stop, which may be traced arrays.

    Source: the order of operations of numpy.linspace, so that values agree to the last bit.
    """
    count = as_extent(num)
    count = not_negative(count, f"linspace: the number of values is {count}")
    a, b = as_array(start), as_array(stop)
    computed, _ = result_type(
        (aval(a).dtype, aval(a).weak), (aval(b).dtype, aval(b).weak), (np.dtype(np.float64), True)
    )
    if weak_kind(a) is not None and weak_kind(b) is not None and computed.kind == "f":
        computed = default_float()
    target = computed if dtype is None else canonical(dtype)
    a, b = _together(to_dtype(a, computed), to_dtype(b, computed))
    gaps = count - 1 if endpoint else count
    delta = u.subtract(b, a)
    shape = (count, *aval(a).shape)
    k = c.iota(shape, 0, computed)
    lead = tuple(range(1, len(shape)))

    def along(x: ArrayLike) -> Result:
        return p.broadcast_in_dim(x, shape, lead)

    if gaps <= 0:
        step = np.nan
        y = u.add(u.multiply(k, along(delta)), along(a))
    else:
        div = to_dtype(as_array(gaps), computed)
        step = u.divide(delta, div)
        # Where one step underflows to zero, or is none, all are taken after the product.
        late = FUNCTIONS[np.any](u.equal(step, 0))
        y = u.where(spread(late, shape), u.multiply(u.divide(k, div), along(delta)), u.multiply(k, along(step)))
        y = u.add(y, along(a))
        if endpoint:
            y = u.where(u.equal(k, div), along(b), y)
    if target.kind in "iu" and computed.kind == "f":
        y = u.floor(y)
    y = to_dtype(y, target)
    y = _moved(fresh(y), axis, start, stop)
    return (y, step) if retstep else y


def _moved(y: ArrayLike, axis: AxisLike, *operands: ArrayLike) -> Result:
    """What is made of operands along its first axis, with that at `axis`, as it lies in memory."""
    if not axis_index(axis, aval(y).ndim):
        return y
    moved = moveaxis(y, 0, axis)
    if not isinstance(moved, Tracer):
        return moved
    made = in_order(fresh(moved), "K", moved)
    if any(layout_of(x) is not None for x in operands):
        made.layout = UNKNOWN
    return made


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
) -> Result:
    """`base` to evenly spaced powers from start to stop."""
    base = as_array(base)
    if aval(base).ndim:  # it stands beside the ends, each of its elements for a row
        ends = [as_array(start), as_array(stop), base]
        start, stop, base = broadcast(ends, [aval(z).shape for z in ends], keep_scalars=False)
        base = p.reshape(base, (1, *aval(base).shape))
    y = power(base, linspace(start, stop, num, endpoint))
    return _moved(y if dtype is None else to_dtype(y, dtype), axis, start, stop)


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: ArrayLike = 50,
    endpoint: bool = True,
    dtype: DTypeLike = None,
    axis: AxisLike = 0,
) -> Result:
    """`num` values with equal quotients from start to stop, both of one sign; of complex numbers along a spiral.

    Raises: ZeroInSequence, a ValueError, for a zero; where that depends on values, the program does.
    """
    a, b = as_array(start), as_array(stop)
    asked = np.dtype(np.float64) if dtype is None else canonical(dtype)
    computed, _ = result_type(
        (aval(a).dtype, aval(a).weak), (aval(b).dtype, aval(b).weak), (np.dtype(np.float64), True), (asked, False)
    )
    a, b = _together(to_dtype(a, computed), to_dtype(b, computed))
    zeros = FUNCTIONS[np.any](u.equal(a, 0)), FUNCTIONS[np.any](u.equal(b, 0))
    check_none(u.logical_or(*zeros), ZERO_IN_SEQUENCE)
    sign = u.sign(a)
    low, high = u.log10(u.divide(a, sign)), u.log10(u.divide(b, sign))
    y = logspace(low, high, num, endpoint, 10.0)
    count = as_extent(num)
    shape = (count, *aval(a).shape)
    lead = tuple(range(1, len(shape)))
    k = c.iota(shape, 0, np.int64)
    y = u.multiply(p.broadcast_in_dim(sign, shape, lead), y)
    if endpoint and count != 1:
        y = u.where(u.equal(k, as_array(count - 1)), p.broadcast_in_dim(b, shape, lead), y)
    y = u.where(u.equal(k, 0), p.broadcast_in_dim(a, shape, lead), y)
    return _moved(y if dtype is None else to_dtype(y, dtype), axis, start, stop)


for _function in (arange, linspace, logspace, geomspace):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
