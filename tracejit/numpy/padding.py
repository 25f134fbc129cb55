"""`np.pad`: borders around an array, in NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Extent, is_empty, is_one
from tracejit.numpy import quantiles, reductions, ufuncs as u
from tracejit.numpy.axes import (
    as_extent,
    axis_index,
    is_sequence,
    is_zero,
    items_of,
    not_negative,
    reject,
    static_int,
    unsupported,
)
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.evenly_spaced import linspace
from tracejit.numpy.joining import part
from tracejit.numpy.promotion import as_array, aval, broadcast_to as spread, to_dtype, wrapped_to_dtype
from tracejit.numpy.shaping import array_of, copy
from tracejit.numpy.strides import like_first
from tracejit.primitives import shape as p
from tracejit.support.errors import ShapeError
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.layout import LAYOUTS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["pad"]

Widths = tuple[tuple[Extent, Extent], ...]
_OPTIONS = {
    "constant": {"constant_values"}, "edge": set[str](), "empty": set[str](), "linear_ramp": {"end_values"},
    "maximum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"}, "minimum": {"stat_length"},
    "reflect": {"reflect_type"}, "symmetric": {"reflect_type"}, "wrap": set[str](),
}  # fmt: skip


def pad(array: ArrayLike, pad_width: ArrayLike, mode: Any = "constant", **kwargs: Any) -> Result:
    """The array with a border.

    pad_width: one number, (before, after), one such pair for each axis, or a dict from axis to these.
    mode: constant edge empty linear_ramp maximum mean median minimum reflect symmetric wrap; `empty` gives zeros.
    reflect_type "odd": twice the edge less what is mirrored.

    Raises: ShapeError for widths that do not fit; UnsupportedError for other modes.
    """
    if not isinstance(mode, str) or mode not in _OPTIONS:
        raise unsupported(
            f"np.pad's mode {mode!r} is not supported in traced code; supported are {', '.join(_OPTIONS)}"
        )
    for name in kwargs:
        if name not in _OPTIONS[mode]:
            raise reject(f"np.pad: {name} has no meaning in mode {mode!r}")
    x = array_of(array)
    have = aval(x)
    widths = _widths(pad_width, have.ndim)
    if all(is_zero(a) and is_zero(b) for a, b in widths):
        return copy(x)
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0))
    for k, (before, after) in enumerate(widths):
        if is_zero(before) and is_zero(after):
            continue
        nothing = Reason(
            ShapeError,
            f"np.pad cannot extend the empty axis {k} in mode {mode!r}; modes 'constant' and 'empty' can",
        )
        check_not_empty("pad", aval(x).shape[k], why=nothing)
        if is_empty(aval(x).shape[k]):
            raise nothing.error()
        x = _extended(x, k, before, after, mode, kwargs)
    return x


def _widths(given: ArrayLike, rank: int) -> Widths:
    if isinstance(given, dict):
        table: list[tuple[Extent, Extent]] = [(0, 0)] * rank
        for axis, width in cast("dict[Any, Any]", given).items():
            table[axis_index(axis, rank)] = _pairs(width, 1, "pad_width")[0]
        pairs = table
    else:
        pairs = _pairs(given, rank, "pad_width")
    fault = "np.pad: pad_width may not be negative"
    return tuple([(not_negative(as_extent(a), fault), not_negative(as_extent(b), fault)) for a, b in pairs])


def _pairs(given: ArrayLike, rank: int, what: str) -> list[tuple[Result, Result]]:
    """(before, after) for each axis from NumPy's short forms; the values may be traced."""
    if not is_sequence(given):
        return [(given, given)] * rank
    rows = [list(items_of(row)) if is_sequence(row) else row for row in items_of(given)]
    if all(not isinstance(row, list) for row in rows):
        if len(rows) == 1:
            return [(rows[0], rows[0])] * rank
        if len(rows) == 2:
            return [(rows[0], rows[1])] * rank
    elif all(isinstance(row, list) and len(row) in (1, 2) for row in rows) and len(rows) in (1, rank):
        pairs = [(row[0], row[-1]) for row in rows]
        return pairs * rank if len(pairs) == 1 else pairs
    raise reject(f"np.pad: {what} {given!r} does not fit an array of rank {rank}")


def _constant(x: ArrayLike, widths: Widths, values: ArrayLike) -> Result:
    have = aval(x)
    pairs = _pairs(values, have.ndim, "constant_values")
    first = pairs[0][0]
    if all(a is first and b is first for a, b in pairs):
        return p.pad(x, _scalar(first, have.dtype), [a for a, _ in widths], [b for _, b in widths])
    for k, ((before, after), (low, high)) in enumerate(zip(widths, pairs, strict=True)):
        none = [0] * have.ndim
        x = p.pad(x, _scalar(low, have.dtype), [*none[:k], before, *none[k + 1 :]], none)
        x = p.pad(x, _scalar(high, have.dtype), none, [*none[:k], after, *none[k + 1 :]])
    return x


def _scalar(value: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """A value to pad with: a NumPy scalar to NumPy, which has to fit signed integers and wraps around in unsigned
    ones.
    """
    x = as_array(value)
    if dtype.kind == "i":
        x = p.reshape(x, ()).as_python_number() if isinstance(x, Tracer) else np.asarray(x).item()
        return p.reshape(to_dtype(x, dtype), ())
    if dtype.kind in "ub" and not isinstance(x, Tracer):
        x = np.asarray(x).astype(dtype)[()]
    return p.reshape(wrapped_to_dtype(x, dtype), ())


def _extended(x: ArrayLike, k: int, before: Extent, after: Extent, mode: str, options: dict[str, Any]) -> Result:
    match mode:
        case "reflect" | "symmetric" if options.get("reflect_type", "even") == "odd":
            sides = _odd(x, k, before, mode, left=True), _odd(x, k, after, mode, left=False)
        case "edge":
            n = aval(x).shape[k]
            sides = _stretched(part(x, k, 0, 1), k, before), _stretched(part(x, k, n - 1, 1), k, after)
        case "wrap" | "symmetric" | "reflect":
            sides = _periodic(x, k, before, mode, left=True), _periodic(x, k, after, mode, left=False)
        case "linear_ramp":
            low, high = _pairs(options.get("end_values", 0), aval(x).ndim, "end_values")[k]
            sides = _ramp(x, k, before, low, left=True), _ramp(x, k, after, high, left=False)
        case _:
            low, high = _pairs(options.get("stat_length"), aval(x).ndim, "stat_length")[k]
            sides = _statistic(x, k, before, mode, low, left=True), _statistic(x, k, after, mode, high, left=False)
    return p.concatenate([y for y in (sides[0], x, sides[1]) if not is_zero(aval(y).shape[k])], k)


def _stretched(edge: Any, k: int, count: Extent) -> Result:
    """A slice of extent 1 repeated along axis k."""
    have = aval(edge).shape
    return spread(edge, (*have[:k], count, *have[k + 1 :]))


def _periodic(x: ArrayLike, k: int, count: Extent, mode: str, left: bool) -> Result:
    """`count` elements beyond one side; whole periods are put together where the border is wider than the array."""
    n = aval(x).shape[k]
    if is_zero(count):
        return part(x, k, 0, 0)
    if is_one(n):
        return _stretched(x, k, count)
    skip = 1 if mode == "reflect" else 0
    unit = n - skip
    if count <= unit:
        if mode == "wrap":
            return part(x, k, n - count, count) if left else part(x, k, 0, count)
        return part(x, k, count - 1 + skip, count, -1) if left else part(x, k, n - 1 - skip, count, -1)
    there, back = part(x, k, skip, unit), part(x, k, unit - 1, unit, -1)
    chunks: list[Any] = []
    times = -(-int(count) // int(unit))
    for t in range(times):
        forward = mode == "wrap" or t % 2 == 1
        if left:
            # Beyond the left side come x[skip:] reversed, then x[:unit], and so on, each further left.
            chunks.insert(0, _forward(x, k, n, unit, mode) if forward else p.reverse(there, (k,)))
        else:
            chunks.append((x if mode == "wrap" else there) if forward else back)
    whole = chunks[0] if len(chunks) == 1 else p.concatenate(chunks, k)
    total = times * int(unit)
    return part(whole, k, total - int(count), count) if left else part(whole, k, 0, count)


def _odd(x: ArrayLike, k: int, count: Extent, mode: str, left: bool) -> Result:
    """Twice the edge less what is mirrored there; a border that is wider than the array goes on from its own end."""
    n = aval(x).shape[k]
    unit = n - 1 if mode == "reflect" else n
    if is_zero(count) or is_one(n):
        return _periodic(x, k, count, mode, left)
    wider = not count <= unit
    some = unit if wider else count
    edge = _stretched(part(x, k, 0, 1) if left else part(x, k, n - 1, 1), k, some)
    out = u.subtract(u.add(edge, edge), _periodic(x, k, some, mode, left))
    if not wider:
        return out
    end = [] if mode == "symmetric" else [part(x, k, 0, 1) if left else part(x, k, n - 1, 1)]
    near = p.concatenate([out, *end] if left else [*end, out], k)
    rest = _odd(near, k, count - unit, mode, left)
    return p.concatenate([rest, out] if left else [out, rest], k)


def _forward(x: ArrayLike, k: int, n: Extent, unit: Extent, mode: str) -> Result:
    return x if mode == "wrap" else part(x, k, 0, unit)


def _ramp(x: ArrayLike, k: int, count: Extent, end: ArrayLike, left: bool) -> Result:
    """A line from `end` to the edge, which itself is not repeated."""
    have = aval(x)
    n = have.shape[k]
    edge = part(x, k, 0, 1) if left else part(x, k, n - 1, 1)
    flat = p.reshape(edge, (*have.shape[:k], *have.shape[k + 1 :]))
    start = as_array(end)  # a Python number is an array of int64, float64 or complex128 to NumPy's linspace
    start = to_dtype(start, aval(start).dtype) if aval(start).weak else start
    line = linspace(start, flat, count, endpoint=False, dtype=have.dtype, axis=k)
    return line if left else p.reverse(line, (k,))


def _statistic(x: ArrayLike, k: int, count: Extent, mode: str, length: ArrayLike, left: bool) -> Result:
    """The maximum, mean, median or minimum of the `length` elements next to the border (all by default)."""
    have = aval(x)
    n = have.shape[k]
    some = x
    if length is not None:
        m = static_int(length, "np.pad's stat_length")
        if m <= 0:
            raise reject("np.pad: stat_length must be positive")
        if m < n:
            some = part(x, k, 0, m) if left else part(x, k, n - m, m)
    folds: dict[str, Callable[..., Any]] = {
        "maximum": reductions.max,
        "mean": reductions.mean,
        "median": quantiles.median,
        "minimum": reductions.min,
    }
    value = folds[mode](some, axis=k, keepdims=True)
    if mode in ("mean", "median") and have.dtype.kind in "iu":
        value = u.rint(value)
    return _stretched(to_dtype(value, have.dtype), k, count)


LAYOUTS[pad] = like_first
FUNCTIONS[np.pad] = pad
