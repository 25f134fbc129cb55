"""Reductions that leave NaN out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast_to, mask_of, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.numpy.strides import in_order_of_kept_axes, in_order_of_operands
from tracejit.support.dtypes import canonical, real_dtype
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result
from tracejit.tracer.failures import ALL_NAN
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.tables import FUNCTIONS, IN_DTYPE_OF_OUT, OUT_CASTING, dtype_of_sum

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip


def _without(a: ArrayLike, value: ArrayLike) -> tuple[Result, Result]:
    """(the array with NaN replaced, where there was one; None for dtypes without NaN)"""
    x = array_of(a)
    if aval(x).dtype.kind not in "fc":
        return x, None
    gone = u.isnan(x)
    return u.where(gone, aval(x).dtype.type(value), x), gone


def nansum(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    keepdims: Any = False,
    **kwargs: Any,
) -> Result:
    """The sum of what is not NaN."""
    return r.sum(_without(a, 0)[0], axis, dtype, keepdims=keepdims, **kwargs)


def nanprod(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    keepdims: Any = False,
    **kwargs: Any,
) -> Result:
    """The product of what is not NaN."""
    return r.prod(_without(a, 1)[0], axis, dtype, keepdims=keepdims, **kwargs)


def nancumsum(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
    """Running sums; a NaN counts as 0."""
    return r.cumsum(_without(a, 0)[0], axis, dtype)


def nancumprod(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
    """Running products; a NaN counts as 1."""
    return r.cumprod(_without(a, 1)[0], axis, dtype)


def _extremum(fold: Callable[..., Any], worst: float, doc: str) -> Callable[..., Any]:
    def function(
        a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, keepdims: Any = False, **kwargs: Any
    ) -> Result:
        x, gone = _without(a, worst)
        result = fold(x, axis, keepdims=keepdims, **kwargs)
        if gone is None or kwargs.get("initial") is not None:
            return result
        nothing: Any = aval(x).dtype.type(np.nan)
        if aval(x).dtype.kind == "c" and not any(isinstance(n, int) and n == 0 for n in aval(x).shape):
            nothing = fold(_firsts(array_of(a), axis), axis, keepdims=keepdims)
        return u.where(r.all(gone, axis, keepdims=keepdims), nothing, result)

    function.__doc__ = doc
    return function


def _firsts(x: Any, axis: Any) -> Any:
    """The first elements along axes, which have one place left: of complex NaN the other part counts."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    along = {operator.index(d) % x.ndim for d in axes} if x.ndim else ()
    return x[tuple([slice(1 if d in along else None) for d in range(x.ndim)])]


nanmax = _extremum(r.max, -np.inf, "The maximum of what is not NaN; NaN if there is nothing else.")
nanmin = _extremum(r.min, np.inf, "The minimum of what is not NaN; NaN if there is nothing else.")
nanmax.__name__, nanmin.__name__ = "nanmax", "nanmin"


def nanargmax(a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, *, keepdims: Any = False) -> Result:
    """The place of the first maximum that is not NaN.

    Raises: AllNaN where there is nothing else; where that depends on values, the program does.
    """
    return _place(r.argmax, a, -np.inf, axis, keepdims)


def nanargmin(a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, *, keepdims: Any = False) -> Result:
    """The place of the first minimum that is not NaN.

    Raises: AllNaN where there is nothing else; where that depends on values, the program does.
    """
    return _place(r.argmin, a, np.inf, axis, keepdims)


def _place(find: Callable[..., Any], a: ArrayLike, worst: float, axis: AxisLike, keepdims: Any) -> Result:
    x, gone = _without(a, worst)
    if gone is not None:
        check_none(r.any(r.all(gone, axis)), ALL_NAN)
    return find(x, axis, keepdims=keepdims)


def nanmean(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    keepdims: Any = False,
    *,
    where: ArrayLike = True,
) -> Result:
    """The mean of what is not NaN (where a mask holds)."""
    x, gone = _without(a, 0)
    if gone is None:
        return r.mean(x, axis, dtype, keepdims=keepdims, where=where)
    mask = mask_of(where)
    if mask is not None:
        mask = broadcast_to(mask, aval(x).shape)
        gone = u.logical_or(gone, u.logical_not(mask))
        x = u.where(mask, x, 0)
    result = aval(x).dtype if dtype is None else canonical(dtype)
    wide = np.dtype(np.float32) if result == np.float16 else result
    count = r.sum(u.logical_not(gone), axis, keepdims=keepdims)
    return to_dtype(u.divide(r.sum(x, axis, wide, keepdims=keepdims), to_dtype(count, wide)), result)


def nanvar(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    ddof: ArrayLike = 0,
    keepdims: Any = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike = None,
    correction: ArrayLike = None,
) -> Result:
    """The variance of what is not NaN (where a mask holds); NaN where no more than `ddof` numbers are."""
    x, gone = _without(a, 0)
    ddof = correction if correction is not None else ddof
    if gone is None:
        return r.var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
    mask = mask_of(where)
    if mask is not None:
        mask = broadcast_to(mask, aval(x).shape)
        gone = u.logical_or(gone, u.logical_not(mask))
        x = u.where(mask, x, 0)
    result = aval(x).dtype if dtype is None else canonical(dtype)
    wide = np.dtype(np.float32) if result == np.float16 else result
    x = to_dtype(x, wide)
    present = u.logical_not(gone)
    count = to_dtype(r.sum(present, axis, keepdims=True), wide)
    center = u.divide(r.sum(x, axis, keepdims=True), count) if mean is None else mean
    gap = u.where(gone, wide.type(0), u.subtract(x, center))
    free = u.subtract(to_dtype(r.sum(present, axis, keepdims=keepdims), real_dtype(wide)), ddof)
    total = r.sum(r.square_of_size(gap), axis, keepdims=keepdims)
    wide = real_dtype(wide)
    kept = result if dtype is not None else real_dtype(result)
    return to_dtype(u.where(u.less_equal(free, 0), wide.type(np.nan), u.divide(total, free)), kept)


def nanstd(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    ddof: ArrayLike = 0,
    keepdims: Any = False,
    **options: Any,
) -> Result:
    """The standard deviation of what is not NaN (where a mask holds)."""
    return u.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, **options))


IN_DTYPE_OF_OUT.update(dict.fromkeys((nansum, nanprod, nancumsum, nancumprod), dtype_of_sum))
IN_DTYPE_OF_OUT.update(
    {nanmean: IN_DTYPE_OF_OUT[r.mean], nanvar: IN_DTYPE_OF_OUT[r.var], nanstd: IN_DTYPE_OF_OUT[r.std]}
)
OUT_CASTING.update(dict.fromkeys((nanmean, nanvar, nanstd), "same_kind"))
LAYOUTS.update({globals()[name]: in_order_of_kept_axes for name in __all__ if name not in ("nanargmax", "nanargmin")})
LAYOUTS.update({nancumsum: in_order_of_operands, nancumprod: in_order_of_operands})
for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
