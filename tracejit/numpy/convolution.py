"""Convolutions and correlations of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import LARGE, Dim, Extent, is_empty, surely_at_most
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import is_zero, known, reject
from tracejit.numpy.counts import check_not_empty
from tracejit.numpy.joining import concatenate, element_at, part
from tracejit.numpy.promotion import aval, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import shape as p
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import select
from tracejit.primitives.reduction import reduce_max, reduce_sum
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice
from tracejit.primitives.windows import surrounded, windows
from tracejit.support.dtypes import canonical, result_type
from tracejit.support.errors import ShapeError
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = ["convolve", "correlate"]

_UNROLLED_TAPS = 16  # up to here a convolution is written out tap by tap, above it is a product with windows


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """The discrete convolution of two vectors.

    mode: full (n + m - 1 values), same (max(n, m)), valid (max - min + 1).
    preferred_element_type: the vectors are converted to it first.  precision: everything is exact to rounding.

    Raises: ShapeError for an empty vector or one of another rank.
    """
    x, y = _vectors("convolve", a, v, preferred_element_type)
    # All products are summed in mode "full" whichever vector slides: there an undecided order of extents does not
    # matter.
    n, m = aval(x).shape[0], aval(y).shape[0]
    if known(lambda: m > n, isinstance(m, Dim)) if mode == "full" else m > n:
        x, y = y, x
    return _slide(x, p.reverse(y, (0,)), mode)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Result:
    """The cross-correlation of two vectors, the second one conjugated, in the modes of `convolve`, with its options."""
    if not aval(array_of(a)).ndim or not aval(array_of(v)).ndim:
        raise reject("np.correlate takes vectors, not numbers")
    x, y = _vectors("correlate", a, v, preferred_element_type)
    y = conj(y)
    if aval(y).shape[0] > aval(x).shape[0]:
        # The roles are exchanged and the result reversed, as in NumPy.
        return p.reverse(_slide(y, x, mode), (0,))
    return _slide(x, y, mode)


def _vectors(name: str, a: ArrayLike, v: ArrayLike, wanted: DTypeLike) -> tuple[Result, Result]:
    dtype, _ = result_type(*[(aval(z).dtype, False) for z in (array_of(a), array_of(v))])
    if wanted is not None:
        dtype = canonical(wanted)
    out: list[Any] = []
    for z in (array_of(a), array_of(v)):
        z = p.reshape(z, (1,)) if aval(z).ndim == 0 else z
        if aval(z).ndim != 1:
            raise reject(f"np.{name} takes vectors; an operand has rank {aval(z).ndim}")
        nothing = Reason(ShapeError, f"np.{name}: a vector is empty")
        check_not_empty(name, aval(z).shape[0], why=nothing)
        if is_empty(aval(z).shape[0]):
            raise nothing.error()
        out.append(to_dtype(z, dtype))
    return out[0], out[1]


def _slide(x: ArrayLike, taps: ArrayLike, mode: str) -> Result:
    """out[i] = sum of x[i + j - offset] * taps[j]: taps are the shorter vector."""
    n, m = aval(x).shape[0], aval(taps).shape[0]
    match mode:
        case "full":
            low, high = m - 1, m - 1
        case "same":
            high = (m - 1) // 2
            low = m - 1 - high
        case "valid":
            low, high = 0, 0
        case _:
            raise reject(f"the mode of a convolution is 'full', 'same' or 'valid', not {mode!r}")
    count = n + low + high - m + 1
    if isinstance(m, int) and m <= _UNROLLED_TAPS:
        return _with_edges(x, taps, m, low, high)
    if surely_at_most(m, n):
        return _by_windows(x, taps, low, high)
    return part(_spread_taps(x, taps), 0, m - 1 - low, count)


def _by_windows(x: ArrayLike, taps: ArrayLike, low: Extent, high: Extent) -> Result:
    """The middle, where windows of x lie on all taps, and the ends, where some of their elements count."""
    n, m = aval(x).shape[0], aval(taps).shape[0]
    dtype = aval(x).dtype
    pieces = [dot_general(windows(x, (0,), (m,)), taps, ((1,), (0,)))]
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    multiply, total = (u.logical_and, reduce_max) if wide == np.bool_ else (u.multiply, reduce_sum)

    def end(begin: Extent, before: Extent, after: Extent) -> Result:
        count, beside = before + after, to_dtype(part(x, 0, begin, m - 1), wide)
        terms = multiply(
            windows(surrounded(beside, wide.type(0), [(before, after)], (1,)), (0,), (m,)), to_dtype(taps, wide)
        )
        shape = (count, m)
        place = u.add(iota(shape, 0, np.int64), iota(shape, 1, np.int64))
        there = (
            u.greater_equal(place, OPERATORS.extent(before))
            if is_zero(after)
            else u.less(place, OPERATORS.extent(m - 1))
        )
        return to_dtype(total(select(there, terms, wide.type(0)), (1,)), dtype)

    if not is_zero(low):
        pieces.insert(0, end(0, low, 0))
    if not is_zero(high):
        pieces.append(end(n - m + 1, 0, high))
    return concatenate(pieces) if len(pieces) > 1 else pieces[0]


def _spread_taps(x: ArrayLike, taps: ArrayLike) -> Result:
    """The full convolution with the taps reversed: x times each, added where it belongs.

    Nothing lies beyond the ends of x, not even a zero that an infinite tap would make NaN.
    """
    from tracejit.api.control import fori_loop  # for speed of import: what only loops need

    n, m = aval(x).shape[0], aval(taps).shape[0]
    dtype = aval(x).dtype
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    x, taps = to_dtype(x, wide), to_dtype(taps, wide)
    multiply, add = (u.logical_and, u.logical_or) if wide == np.bool_ else (u.multiply, u.add)
    last = OPERATORS.extent(m - 1)

    def step(j: Any, out: ArrayLike) -> Result:
        place = u.subtract(last, j)
        term = multiply(x, p.reshape(dynamic_slice(taps, [to_dtype(j, np.int64)], (1,)), ()))
        return dynamic_update_slice(out, add(dynamic_slice(out, [place], (n,)), term), [place])

    return to_dtype(fori_loop(0, m, step, spread(wide.type(0), (n + m - 1,))), dtype)


def _padded(x: ArrayLike, low: Extent, high: Extent) -> Result:
    return x if is_zero(low) and is_zero(high) else p.pad(x, aval(x).dtype.type(0), (low,), (high,))


def _with_edges(x: ArrayLike, taps: ArrayLike, m: int, low: Extent, high: Extent) -> Result:
    """The middle, where all taps lie on x, and the ends, where some lie beyond it."""
    n = aval(x).shape[0]
    value = taps.known() if isinstance(taps, Tracer) else taps
    if value is not None and np.isfinite(value).all():  # times zero it is zero
        return _tap_by_tap(_padded(x, low, high), taps, m, n + low + high - m + 1, (0, 0))
    if (is_zero(low) and is_zero(high)) or not ((isinstance(n, int) or m <= LARGE) and n >= m):
        return _tap_by_tap(x, taps, m, n + low + high - m + 1, (low, high))
    first = _tap_by_tap(part(x, 0, 0, m - 1), taps, m, low, (low, 0))
    middle = _tap_by_tap(x, taps, m, n - m + 1, (0, 0))
    last = _tap_by_tap(part(x, 0, n - m + 1, m - 1), taps, m, high, (0, high))
    return concatenate([piece for piece, width in ((first, low), (middle, 1), (last, high)) if not is_zero(width)])


def _tap_by_tap(x: ArrayLike, taps: ArrayLike, m: int, count: Extent, widths: tuple[Extent, Extent]) -> Result:
    """Products are padded, not x: nothing lies beyond its ends, not even a zero that an infinite tap would make NaN."""
    dtype = aval(x).dtype
    wide = np.dtype(np.float32) if dtype == np.float16 else dtype
    x, taps = to_dtype(x, wide), to_dtype(taps, wide)
    multiply, add = (u.logical_and, u.logical_or) if wide == np.bool_ else (u.multiply, u.add)
    out: Any = None
    for j in range(m):
        term = part(_padded(multiply(x, element_at(taps, j)), *widths), 0, j, count)
        out = term if out is None else add(out, term)
    return to_dtype(out, dtype)


FUNCTIONS.update({np.convolve: convolve, np.correlate: correlate})
