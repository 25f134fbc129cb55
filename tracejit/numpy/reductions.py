"""Sums, extrema and statistics over axes."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, is_empty, prod as product_of, same_shape
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import axis_index, keeps, normalize_axes
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, broadcast_to, mask_of, plain, to_dtype
from tracejit.numpy.strides import in_order_of_kept_axes, in_order_of_operands
from tracejit.primitives import reduction as p
from tracejit.primitives.complex_numbers import imag, real
from tracejit.primitives.creation import extent_value
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.shape import reshape, transpose
from tracejit.support.dtypes import canonical, real_dtype, result_type
from tracejit.support.errors import DtypeError, RefusedByNumPy, ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result
from tracejit.tracer.failures import NO_WEIGHT, empty_reduction
from tracejit.tracer.interpreter import bind
from tracejit.tracer.layout import LAYOUTS, in_c_order
from tracejit.tracer.tables import (
    FUNCTIONS,
    IN_DTYPE_OF_OUT,
    LEAST_INTO_INTEGERS,
    METHODS,
    OUT_CASTING,
    UFUNCS,
    dtype_of_sum,
)
from tracejit.tracer.tracer import Tracer

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum", "max", "mean",
    "min", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip


def _one_axis(axis: AxisLike, rank: int) -> int:
    """An axis, counted from the first.  Raises: TracerError for several."""
    if isinstance(axis, (tuple, list)):
        raise RefusedByNumPy(
            f"one axis is expected, not {axis!r}; reshape the array so that several become one",
            location=user_location(),
        )
    return axis_index(axis, rank)


def _kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(n for d, n in enumerate(shape) if d not in axes)


_NOTHING: Any = np._NoValue  # pyright: ignore[reportPrivateUsage]


def _folded_axes(axis: AxisLike, rank: int) -> tuple[int, ...]:
    """As `normalize_axes`; like NumPy's ufuncs, folds take axis 0 or -1 of a number, which has none."""
    return () if rank == 0 and not isinstance(axis, (tuple, list)) and axis in (0, -1) else normalize_axes(axis, rank)


def _keep(result: ArrayLike, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Result:
    return reshape(result, tuple(1 if d in axes else n for d, n in enumerate(shape))) if keepdims else result


def _reduction(
    name: str,
    run: Callable[[Any, tuple[int, ...]], Any],
    widen: Callable[[np.dtype[Any]], np.dtype[Any]],
    combine: Callable[..., Any],
    identity: ArrayLike,
) -> Callable[..., Any]:
    def function(
        a: ArrayLike,
        axis: AxisLike = None,
        dtype: DTypeLike = None,
        out: ArrayLike = None,
        keepdims: Any = False,
        initial: ArrayLike = _NOTHING,
        where: ArrayLike = True,
        promote_integers: bool = True,
    ) -> Result:
        x = as_array(a)
        have = aval(x)
        if initial is None and identity is not None:  # which does not count then
            along = [have.shape[d] for d in _folded_axes(axis, have.ndim)]
            if builtins.any(map(is_empty, along)):
                raise empty_reduction(name).error()
            check_not_empty(name, *along)
        if initial is _NOTHING:
            initial = None
        initial = plain(initial)
        if isinstance(initial, np.generic):
            initial = initial.item()  # as checked as a number of Python's
        if (initial.shape if isinstance(initial, Tracer) else np.shape(initial)) != ():
            raise ShapeError(f"np.{name}: initial= is a number, not an array", location=user_location())
        if name in ("sum", "prod") and dtype is not None and canonical(dtype).kind == "b":
            truth = any if name == "sum" else all
            found = truth(x, axis, keepdims=keeps(keepdims), where=where)
            return found if initial is None else combine(found, np.bool_(initial))
        if dtype is None and not promote_integers and have.dtype.kind in "iu":
            dtype = have.dtype
        x = to_dtype(x, canonical(dtype) if dtype is not None else widen(have.dtype))
        axes = _folded_axes(axis, have.ndim)
        mask = mask_of(where)
        if mask is not None:
            if identity is None and initial is None:
                raise UnsupportedError(f"np.{name} with where= needs initial=", location=user_location())
            neutral = identity if identity is not None else to_dtype(initial, aval(x).dtype)
            x = u.where(broadcast_to(mask, have.shape), x, neutral)
        empty = builtins.any(isinstance(have.shape[d], int) and have.shape[d] == 0 for d in axes)
        if empty and identity is None and initial is not None:
            kept = tuple(n for d, n in enumerate(have.shape) if d not in axes)
            result = broadcast_to(to_dtype(initial, aval(x).dtype), kept)
        else:
            result = run(x, axes) if axes else u.unchanged(x)  # a number, also of an array of rank 0
            if name == "sum" and have.ndim == 0:  # from 0 on, so that -0.0 is none
                result = combine(result, aval(result).dtype.type(0))
            if initial is not None:
                result = combine(result, to_dtype(initial, aval(result).dtype))
        return _keep(result, have.shape, axes, keeps(keepdims))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} over `axis` (all axes by default), with `dtype`, `keepdims`, `initial`, `where`."
    return function


def _extreme(name: str, run: Callable[[Any, tuple[int, ...]], Any], combine: Callable[..., Any]) -> Callable[..., Any]:
    fold = _reduction(name, run, _same, combine, None)

    def function(
        a: ArrayLike,
        axis: AxisLike = None,
        out: ArrayLike = None,
        keepdims: Any = False,
        initial: ArrayLike = None,
        where: ArrayLike = True,
    ) -> Result:
        if initial is None:
            shape = aval(as_array(a)).shape
            check_not_empty(name, *[shape[d] for d in _folded_axes(axis, len(shape))])
        return fold(a, axis, None, out, keepdims, initial, where)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name} over `axis` (all axes by default), with `keepdims`, `initial`, `where`."
    return function


def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """NumPy sums small integers in the platform's integer."""
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def _same(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype


sum = _reduction("sum", lambda x, axes: p.reduce_sum(x, axes), _sum_dtype, u.add, 0)
prod = _reduction("prod", lambda x, axes: p.reduce_prod(x, axes), _sum_dtype, u.multiply, 1)
max = amax = _extreme("max", p.reduce_max, u.maximum)
min = amin = _extreme("min", p.reduce_min, u.minimum)


def all(
    a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, keepdims: Any = False, *, where: ArrayLike = True
) -> Result:
    """Whether all elements are nonzero."""
    x = u.logical_not(u.logical_not(a))
    mask = mask_of(where)
    if mask is not None:
        x = u.logical_or(x, u.logical_not(broadcast_to(mask, aval(x).shape)))
    return _truth_fold(x, axis, keepdims, p.reduce_min, True)


def any(
    a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, keepdims: Any = False, *, where: ArrayLike = True
) -> Result:
    """Whether an element is nonzero."""
    x = u.logical_not(u.logical_not(a))
    mask = mask_of(where)
    if mask is not None:
        x = u.logical_and(x, broadcast_to(mask, aval(x).shape))
    return _truth_fold(x, axis, keepdims, p.reduce_max, False)


def _truth_fold(x: ArrayLike, axis: AxisLike, keepdims: Any, fold: Callable[..., Any], empty: bool) -> Result:
    have = aval(x)
    axes = _folded_axes(axis, have.ndim)
    if builtins.any(isinstance(have.shape[d], int) and have.shape[d] == 0 for d in axes):
        kept = tuple(n for d, n in enumerate(have.shape) if d not in axes)
        return _keep(broadcast_to(np.bool_(empty), kept), have.shape, axes, keepdims)
    return _keep(fold(x, axes), have.shape, axes, keepdims)


def _count(shape: Shape, axes: tuple[int, ...]) -> Extent:
    return product_of(shape[d] for d in axes)


def mean(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike = None,
    out: ArrayLike = None,
    keepdims: Any = False,
    *,
    where: ArrayLike = True,
) -> Result:
    """The arithmetic mean over `axis`; float16 is summed in float32."""
    _of_integers("mean", dtype)
    x = as_array(a)
    have = aval(x)
    axes = normalize_axes(axis, have.ndim)
    result = (
        canonical(dtype) if dtype is not None else (have.dtype if have.dtype.kind in "fc" else np.dtype(np.float64))
    )
    wide = np.dtype(np.float32) if result == np.float16 else result
    mask = mask_of(where)
    if mask is not None:
        mask = broadcast_to(mask, have.shape)
        total, count = sum(x, axis, wide, keepdims=keepdims, where=mask), sum(mask, axis, wide, keepdims=keepdims)
        return to_dtype(u.divide(total, count), result)
    total = sum(x, axis, wide, keepdims=keepdims)
    return to_dtype(u.divide(total, extent_value(_count(have.shape, axes), wide)), result)


def var(
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
    """The variance over `axis`, in two passes, with `ddof` (or `correction`) taken off the count."""
    _of_integers("var", dtype)
    x = as_array(a)
    have = aval(x)
    axes = normalize_axes(axis, have.ndim)
    result = (
        canonical(dtype) if dtype is not None else (have.dtype if have.dtype.kind in "fc" else np.dtype(np.float64))
    )
    wide = np.dtype(np.float32) if result == np.float16 else result
    if mean is not None and dtype is None and result != np.float16:
        result = wide = result_type((result, False), (aval(as_array(mean)).dtype, aval(as_array(mean)).weak))[0]
    x = to_dtype(x, wide)
    result = result if dtype is not None else real_dtype(result)
    ddof = correction if correction is not None else ddof
    mask = mask_of(where)
    if mask is not None:
        mask = broadcast_to(mask, have.shape)
        number = sum(mask, axes, wide, keepdims=True)
        center = u.divide(sum(x, axes, wide, keepdims=True, where=mask), number) if mean is None else mean
        gap = u.where(mask, u.subtract(x, center), wide.type(0))
        count = u.maximum(u.subtract(number if keepdims else reshape(number, _kept(have.shape, axes)), ddof), 0)
        return to_dtype(u.divide(sum(square_of_size(gap), axes, keepdims=keepdims), real(count)), result)
    center = _mean(x, axes, wide) if mean is None else mean
    gap = u.subtract(x, center)
    count = u.maximum(u.subtract(extent_value(_count(have.shape, axes), real_dtype(wide)), ddof), 0)
    return to_dtype(u.divide(sum(square_of_size(gap), axes, keepdims=keepdims), count), result)


def square_of_size(x: ArrayLike) -> Result:
    """|x|**2"""
    if aval(x).dtype.kind != "c":
        return u.multiply(x, x)
    a, b = real(x), imag(x)
    return u.add(u.multiply(a, a), u.multiply(b, b))


def _of_integers(name: str, dtype: DTypeLike) -> None:
    """Raises: UnsupportedError for a mean in integers, which NumPy rounds on the way."""
    if dtype is not None and canonical(dtype).kind in "iub":
        raise UnsupportedError(
            f"np.{name} with dtype={canonical(dtype)} is not supported: it would round on the way; convert the result",
            location=user_location(),
        )


def _mean(x: ArrayLike, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Result:
    return u.divide(sum(x, axes, dtype, keepdims=True), extent_value(_count(aval(x).shape, axes), dtype))


def std(
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
    """The standard deviation over `axis`: the root of `var`, with its parameters."""
    return u.sqrt(var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


def _arg(primitive: Any) -> Callable[..., Any]:
    def function(a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, *, keepdims: Any = False) -> Result:
        x = as_array(a)
        have = aval(x)
        check_not_empty(primitive.name, *[have.shape[d] for d in _folded_axes(axis, have.ndim)])
        if axis is None or (have.ndim == 0 and axis in (0, -1)):
            flat = reshape(x, (have.size,))
            result = bind(primitive(0), flat)
            return reshape(result, (1,) * have.ndim) if keeps(keepdims) else result
        k = _one_axis(axis, have.ndim)
        return _keep(bind(primitive(k), x), have.shape, (k,), keeps(keepdims))

    return function


argmax = _arg(p.ArgMax)
argmin = _arg(p.ArgMin)


def _cumulative(name: str) -> Callable[..., Any]:
    def function(a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
        x = as_array(a)
        want = canonical(dtype) if dtype is not None else _sum_dtype(aval(x).dtype)
        truth = want.kind == "b"  # whether there was a nonzero element, or none that was zero
        x = to_dtype(u.not_equal(x, 0), np.int64) if truth else to_dtype(x, want)
        if axis is None or aval(x).ndim == 0:
            x, axis = reshape(x, (aval(x).size,)), axis or 0
        k = _one_axis(axis, aval(x).ndim)
        out = cumulative(name, x, k)
        return u.not_equal(out, 0) if truth else out

    function.__name__ = name
    return function


cumsum = _cumulative("cumsum")
cumprod = _cumulative("cumprod")


def count_nonzero(a: ArrayLike, axis: AxisLike = None, *, keepdims: Any = False) -> Result:
    """How many elements are nonzero."""
    return sum(u.not_equal(a, 0), axis, keepdims=keepdims)


def ptp(a: ArrayLike, axis: AxisLike = None, out: ArrayLike = None, keepdims: Any = False) -> Result:
    """Maximum minus minimum."""
    return u.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def average(
    a: ArrayLike, axis: AxisLike = None, weights: ArrayLike = None, returned: bool = False, *, keepdims: Any = False
) -> Result:
    """The weighted mean; with `returned` also the sum of the weights.

    weights: of a's shape, or of the shape of the axes that are averaged, in their order.

    Raises: ShapeError for weights of another shape, NoWeight if they sum to zero; where that depends on values, the
    program does.
    """
    x = as_array(a)
    have = aval(x)
    axis = tuple(axis) if isinstance(axis, list) else axis
    axes = normalize_axes(axis, have.ndim)
    keep = keeps(keepdims)
    if weights is None:
        center = mean(x, axis, keepdims=keep)
        total: Any = extent_value(_count(have.shape, axes), aval(center).dtype)
    else:
        floating = have.dtype if have.dtype.kind in "fc" else np.dtype(np.float64)
        w = _weights(as_array(weights), have.shape, None if axis is None else _listed(axis, have.ndim))
        dtype = result_type((floating, False), (aval(w).dtype, aval(w).weak))[0]
        w = to_dtype(w, dtype)
        total = sum(w, axes, keepdims=keep)
        check_none(u.equal(total, 0), NO_WEIGHT)
        center = u.divide(sum(u.multiply(to_dtype(x, dtype), w), axes, keepdims=keep), total)
    return (center, u.unchanged(broadcast_to(total, aval(center).shape))) if returned else center


def _listed(axis: AxisLike, rank: int) -> list[int]:
    """Axes as non-negative integers in the order in which they are given."""
    return [axis_index(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]


def _equal(a: Shape, b: Shape) -> bool:
    """Whether two shapes are equal; symbolic extents for which that is open are fixed."""
    return same_shape(a, b) or (len(a) == len(b) and builtins.all(n == m for n, m in zip(a, b, strict=True)))


def _weights(w: ArrayLike, shape: Shape, axes: list[int] | None) -> Result:
    """Weights with an axis for each of the array's, of extent 1 where they say nothing."""
    have = aval(w).shape
    if _equal(have, shape):
        return w
    if axes is None:
        raise ShapeError(
            f"np.average: weights of shape {have} for an array of shape {shape} need an axis", location=user_location()
        )
    if not _equal(have, tuple([shape[d] for d in axes])):
        raise ShapeError(
            f"np.average: weights of shape {have} do not fit axes {tuple(axes)} of shape {shape}",
            location=user_location(),
        )
    w = transpose(w, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    return broadcast_to(reshape(w, tuple([n if d in axes else 1 for d, n in enumerate(shape)])), shape)


for _name, _function in (
    ("sum", sum), ("prod", prod), ("max", max), ("min", min), ("all", all), ("any", any), ("mean", mean), ("var", var),
    ("std", std), ("argmax", argmax), ("argmin", argmin), ("cumsum", cumsum), ("cumprod", cumprod),
):  # fmt: skip
    METHODS[_name] = _function
    FUNCTIONS[getattr(np, _name)] = _function
for _name, _function in (
    ("count_nonzero", count_nonzero),
    ("ptp", ptp),
    ("average", average),
    ("amax", max),
    ("amin", min),
):
    FUNCTIONS[getattr(np, _name)] = _function


def _reduced(name: str, fold: Callable[..., Any]) -> Callable[..., Any]:
    """A ufunc's `reduce`."""
    code = fold.__code__  # type: ignore[attr-defined]
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def function(
        a: ArrayLike,
        axis: AxisLike = 0,
        dtype: DTypeLike = None,
        out: ArrayLike = None,
        keepdims: Any = False,
        **options: Any,
    ) -> Result:
        if "initial" in options and options["initial"] is None:  # not even the identity
            del options["initial"]
            shape = aval(as_array(a)).shape
            over = [shape[d] for d in _folded_axes(axis, len(shape))]
            check_not_empty(f"{name}.reduce", *over)
            if builtins.any(map(is_empty, over)):
                raise empty_reduction(f"{name}.reduce").error()
        if name in _TRUTHS:
            return _truth(a, axis, dtype, keepdims, options)
        if dtype is not None:
            options["dtype"] = dtype
        unknown = [option for option in options if option not in known and options[option] is not None]
        if unknown == ["dtype"] and name in ("maximum", "minimum"):
            a = to_dtype(as_array(a), np.dtype(options.pop("dtype")))
        elif unknown:
            raise UnsupportedError(
                f"np.{name}.reduce with {', '.join(unknown)}= is not supported in traced code", location=user_location()
            )
        return fold(a, axis=axis, keepdims=keepdims, **options)

    def _truth(a: ArrayLike, axis: AxisLike, dtype: DTypeLike, keepdims: Any, options: dict[str, Any]) -> Result:
        if dtype is not None and canonical(dtype).kind != "b":
            raise UnsupportedError(
                f"np.{name}.reduce with dtype={canonical(dtype)} is not supported in traced code; convert its results",
                location=user_location(),
            )
        initial = options.pop("initial", np._NoValue)  # pyright: ignore[reportPrivateUsage]
        found = fold(a, axis=axis, keepdims=keepdims, **options)
        return found if initial is np._NoValue else _TRUTHS[name](found, initial)  # pyright: ignore[reportPrivateUsage]

    return function


_TRUTHS: dict[str, Callable[..., Any]] = {"logical_and": u.logical_and, "logical_or": u.logical_or}


LAYOUTS.update(
    dict.fromkeys((sum, prod, max, min, all, any, mean, var, std, count_nonzero, ptp), in_order_of_kept_axes)
)
LEAST_INTO_INTEGERS.update({mean: 8, var: 16, std: 16})
IN_DTYPE_OF_OUT.update(dict.fromkeys((sum, prod, cumsum, cumprod), dtype_of_sum))
IN_DTYPE_OF_OUT.update(
    dict.fromkeys((mean, var, std), lambda have, out: out if np.can_cast(have, out, "same_kind") else None)
)
IN_DTYPE_OF_OUT[ptp] = lambda have, out: out if np.can_cast(have, out) else None
OUT_CASTING.update({std: "same_kind", ptp: "same_kind", argmax: "equiv", argmin: "equiv"})
LAYOUTS.update({argmax: in_c_order, argmin: in_c_order, cumsum: in_order_of_operands, cumprod: in_order_of_operands})
for _ufunc, _function in (
    (np.add, sum),
    (np.multiply, prod),
    (np.maximum, max),
    (np.minimum, min),
    (np.logical_and, all),
    (np.logical_or, any),
):
    UFUNCS[_ufunc, "reduce"] = _reduced(_ufunc.__name__, _function)


def _accumulated(fold: Callable[..., Any]) -> Callable[..., Any]:
    def function(a: ArrayLike, axis: AxisLike = 0, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
        if aval(as_array(a)).ndim == 0:
            raise DtypeError("a ufunc's accumulate() needs an array of rank 1 or more", location=user_location())
        return fold(a, axis, dtype)

    return function


UFUNCS[np.add, "accumulate"] = _accumulated(cumsum)
UFUNCS[np.multiply, "accumulate"] = _accumulated(cumprod)


def _running(name: str) -> Callable[..., Any]:
    """maximum.accumulate and minimum.accumulate: no change of dtype."""

    def function(a: ArrayLike, axis: AxisLike = 0, dtype: DTypeLike = None, out: ArrayLike = None) -> Result:
        x = as_array(a) if dtype is None else to_dtype(as_array(a), canonical(dtype))
        k = _one_axis(axis, aval(x).ndim)
        if aval(x).dtype == np.bool_:
            return to_dtype(cumulative(name, to_dtype(x, np.int8), k), np.bool_)
        return cumulative(name, x, k)

    return function


UFUNCS[np.maximum, "accumulate"] = _running("cummax")
UFUNCS[np.minimum, "accumulate"] = _running("cummin")
