"""The bits of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import same_extent
from tracejit.lax.operands import array, aval, operands, reject, spread
from tracejit.primitives import bits, shape as p
from tracejit.primitives.comparison import And, Lt, Or, ShiftLeft, ShiftRight
from tracejit.primitives.elementwise import add, convert, mul, select, sub
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["bitcast_convert_type", "clz", "mulhi", "population_count", "reduce_precision"]


def population_count(x: ArrayLike) -> Result:
    """How many bits of integers are set, those of negative ones in two's complement; same shape and dtype.

    Raises: DtypeError for floating point and bool.   Source: JAX's lax.population_count.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.population_count(np.array([0, 5, -1], np.int8))
    array([0, 2, 8], dtype=int8)
    """
    return bind(bits.PopulationCount(), *operands("population_count", x))


def clz(x: ArrayLike) -> Result:
    """How many bits of integers are zero before the first that is set; same shape and dtype.

    Raises: DtypeError for floating point and bool.   Source: JAX's lax.clz.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.clz(np.array([0, 5, -1], np.int8))
    array([8, 5, 0], dtype=int8)
    """
    return bind(bits.Clz(), *operands("clz", x))


def mulhi(x: ArrayLike, y: ArrayLike) -> Result:
    """The upper half of the bits of products of integers, which are twice as long as their factors; of their dtype.

    Raises: DtypeError for floating point and bool, and where the dtypes differ.   Source: JAX's lax.mulhi.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.mulhi(np.array([2**62, -1]), np.array([8, 1]))
    array([ 2, -1])
    """
    a, b = spread(operands("mulhi", x, y))
    dtype = aval(a).dtype
    if dtype.kind not in "iu":
        raise DtypeError(f"[mulhi] takes integers, not {aval(a)}", location=user_location())
    if dtype.itemsize < 8:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        product = mul(convert(a, wide), convert(b, wide))
        return convert(bind(ShiftRight(), product, wide.type(8 * dtype.itemsize)), dtype)
    word = np.dtype(np.uint64)
    high = _upper_half(convert(a, word), convert(b, word))
    if dtype.kind == "u":
        return high
    # a negative number is 2**64 less than the bits say, so the product is less by the other factor's upper half
    for one, other in ((a, b), (b, a)):
        high = sub(high, select(bind(Lt(), one, np.int64(0)), convert(other, word), word.type(0)))
    return convert(high, dtype)


def _upper_half(a: ArrayLike, b: ArrayLike) -> Result:
    """The upper 64 bits of products of uint64, made of four products of halves.

    Source: Warren, Hacker's Delight, "High-order half of 64-bit product".
    """
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)

    def upper(x: ArrayLike) -> Result:
        return bind(ShiftRight(), x, half)

    def lower(x: ArrayLike) -> Result:
        return bind(And(), x, mask)

    low = upper(mul(lower(a), lower(b)))
    crossed = add(mul(upper(a), lower(b)), low)
    other = add(mul(lower(a), upper(b)), lower(crossed))
    return add(add(mul(upper(a), upper(b)), upper(crossed)), upper(other))


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Result:
    """Numbers rounded to those that a float of so many bits of exponent and mantissa has; same shape and dtype.

    Raises: DtypeError for integers, ShapeError, a ValueError, for no bit of exponent or less than none of mantissa.
    Source: JAX's lax.reduce_precision, XLA's ReducePrecision.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.reduce_precision(np.array([1.1, 1e6]), exponent_bits=5, mantissa_bits=3)
    array([1.125,   inf])
    """
    if exponent_bits < 1 or mantissa_bits < 0:
        raise reject(
            f"[reduce_precision] {exponent_bits} bits of exponent and {mantissa_bits} of mantissa are no float"
        )
    return bind(bits.ReducePrecision(int(exponent_bits), int(mantissa_bits)), *operands("reduce_precision", operand))


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Result:
    """The bits of an array as another dtype.

    A narrower one has a new last axis, of as many elements as one number is made of, the lowest bits first; a wider one
    needs such an axis, and is without it.
    Raises: DtypeError for bool as anything else, ShapeError where the last axis is not as long.
    Source: JAX's lax.bitcast_convert_type.

    >>> import numpy as np, tracejit as tj
    >>> tj.lax.bitcast_convert_type(np.array([1.0, -2.0], np.float32), np.uint16)
    array([[    0, 16256],
           [    0, 49152]], dtype=uint16)
    """
    x, target = array(operand), canonical(new_dtype)
    have = aval(x)
    if have.dtype == target:
        return convert(x, target)
    if "b" in (have.dtype.kind, target.kind):
        raise DtypeError(f"[bitcast_convert_type] {have} has no bits to be {target}", location=user_location())
    old, new = have.dtype.itemsize, target.itemsize
    if old == new:
        return bind(bits.Bitcast(target), x)
    if old > new:
        return _narrower(x, target, old // new)
    if not have.shape or not same_extent(have.shape[-1], new // old):
        raise reject(f"[bitcast_convert_type] {have} has not {new // old} elements along its last axis for a {target}")
    return _wider(x, target, new // old)


def _unsigned(size: int) -> np.dtype[Any]:
    return np.dtype(f"u{size}")


def _narrower(x: ArrayLike, target: np.dtype[Any], count: int) -> Result:
    have = aval(x)
    word = have.dtype if have.dtype.kind == "u" else _unsigned(have.dtype.itemsize)
    whole = x if have.dtype == word else bind(bits.Bitcast(word), x)
    wide = (*have.shape, count)
    over = p.broadcast_in_dim(whole, wide, tuple(range(have.ndim)))
    shifts = np.arange(count, dtype=word) * word.type(8 * target.itemsize)
    part = bind(ShiftRight(), over, p.broadcast_in_dim(shifts, wide, (have.ndim,)))
    part = convert(part, _unsigned(target.itemsize))
    return part if target.kind == "u" else bind(bits.Bitcast(target), part)


def _wider(x: ArrayLike, target: np.dtype[Any], count: int) -> Result:
    have, word = aval(x), _unsigned(target.itemsize)
    parts = x if have.dtype.kind == "u" else bind(bits.Bitcast(_unsigned(have.dtype.itemsize)), x)
    out: Any = None
    for k in range(count):
        shape = have.shape[:-1]
        part = p.reshape(p.slice_array(parts, (0,) * len(shape) + (k,), (*shape, 1)), shape)
        part = bind(ShiftLeft(), convert(part, word), word.type(8 * have.dtype.itemsize * k))
        out = part if out is None else bind(Or(), out, part)
    return out if target.kind == "u" else bind(bits.Bitcast(target), out)
