"""Bits, and what is uniform: floats, integers, truth values.  Bit for bit JAX's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Shape, prod
from tracejit.primitives.arithmetic import Maximum, Minimum, Remainder
from tracejit.primitives.comparison import And, Eq, Gt, Lt, Or, ShiftLeft, Xor
from tracejit.primitives.elementwise import add, constant_like, convert, mul, select, sub
from tracejit.primitives.random import UnitFloat
from tracejit.primitives.shape import reshape
from tracejit.random.keys import split
from tracejit.random.operands import (
    as_shape,
    aval,
    blocks,
    default_int,
    element_words,
    float_dtype,
    operand,
    own_float,
    parameters,
    shape_for,
    spread,
    words_of,
)
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, OptionError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = ["bernoulli", "bits", "rademacher", "randint", "uniform"]


def bits(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """Random bits as unsigned integers.   -> uint8, uint16, uint32 or uint64[*shape]

    dtype: uint64 where none is given (uint32 if `tj.config.default_dtype_bits` is 32).
    Raises: DtypeError for a dtype that is not unsigned.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.bits(tj.random.key(42), (3,), np.uint8)
    array([162, 217, 249], dtype=uint8)
    """
    kind = np.dtype(f"u{default_int().itemsize}") if dtype is None else canonical(dtype)
    if kind.kind != "u":
        raise DtypeError(f"tj.random.bits gives unsigned integers, not {kind}", location=user_location())
    return words(key, as_shape(shape), kind, "bits")


def words(key: ArrayLike, shape: Shape, dtype: np.dtype[Any], name: str) -> Result:
    """The same for a shape and a dtype that are checked."""
    first, second = blocks(words_of(name, key), prod(shape))
    if dtype.itemsize == 8:
        high = bind(ShiftLeft(), convert(first, dtype), np.uint64(32))
        flat = bind(Or(), high, convert(second, dtype))
    else:
        flat = convert(bind(Xor(), first, second), dtype)
    return reshape(flat, shape)


def unit(name: str, key: ArrayLike, shape: Shape, dtype: np.dtype[Any]) -> Result:
    """Numbers in [0, 1)."""
    return bind(UnitFloat(dtype), *element_words(name, key, shape))


def between(name: str, key: ArrayLike, shape: Shape, dtype: np.dtype[Any], low: float, high: float) -> Result:
    """Numbers in [low, high), two constants."""
    floor = dtype.type(low)
    scaled = mul(unit(name, key, shape, dtype), dtype.type(dtype.type(high) - floor))
    return bind(Maximum(), floor, add(scaled, floor))


def uniform(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Result:
    """Uniform numbers in [minval, maxval).   -> dtype[*shape]

    dtype: float64 where none is given, as NumPy has it (JAX: float32).
    Raises: ShapeError for bounds that do not fit the shape, DtypeError for a dtype that is not floating-point.

    >>> import tracejit as tj
    >>> tj.random.uniform(tj.random.key(42), (2,)).round(4)
    array([0.4267, 0.015 ])
    """
    kind = float_dtype("uniform", dtype)
    out = as_shape(shape)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit("uniform", key, out, kind)
    _, (low, high) = parameters("uniform", out, kind, minval, maxval)
    scaled = mul(unit("uniform", key, out, kind), sub(high, low))
    return bind(Maximum(), low, add(scaled, low))


def randint(key: ArrayLike, shape: ShapeLike, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike = None) -> Result:
    """Uniform integers in [minval, maxval).   -> dtype[*shape]

    maxval: one above the greatest of the dtype is right; where it is not above minval, all are minval.  Bounds beyond
    what the dtype holds are its ends, also beyond 32 bits, where JAX's wrap around for dtypes of 8 and 16.
    dtype: int64 where none is given (int32 if `tj.config.default_dtype_bits` is 32).
    Where the number of values is no power of 2, some are likelier, by less than that number over 2**32 (2**64 of 64
    bits).
    Raises: DtypeError for a dtype that is no integer's, ShapeError for bounds that do not fit the shape.

    >>> import tracejit as tj
    >>> tj.random.randint(tj.random.key(42), (4,), 0, 10)
    array([5, 8, 3, 1])
    """
    kind = default_int() if dtype is None else canonical(dtype)
    if kind.kind not in "iu":
        raise DtypeError(f"tj.random.randint gives integers, not {kind}", location=user_location())
    out = shape_for("randint", shape, *[() if type(x) is int else aval(operand(x)).shape for x in (minval, maxval)])
    # 8 and 16 bits would favour some values too much
    sampled = np.dtype(np.int32) if kind.itemsize < 4 else kind
    if type(minval) is int and type(maxval) is int:
        low, span, factor = _known_range(minval, maxval, kind, sampled)
    else:
        low, span, factor = (spread(x, out) if aval(x).shape else x for x in _range(minval, maxval, kind, sampled))
    first, second = split(key)
    unsigned = np.dtype(f"u{sampled.itemsize}")
    offset = _rest(words(second, out, unsigned, "randint"), span)
    if not (isinstance(factor, np.generic) and factor == 0):  # the upper words count
        upper = _rest(words(first, out, unsigned, "randint"), span)
        offset = _rest(add(mul(upper, factor), offset), span)
    return convert(add(low, convert(offset, sampled)), kind)


def _known_range(low: int, high: int, kind: np.dtype[Any], sampled: np.dtype[Any]) -> tuple[Result, Result, Result]:
    """The least value, how many there are (0 for as many as the dtype has) and the factor of the upper words."""
    info, bits_of = np.iinfo(kind), 8 * sampled.itemsize
    unsigned = np.dtype(f"u{sampled.itemsize}")
    low, high = min(max(low, info.min), info.max), min(max(high, info.min), info.max + 1)
    span = max(high - low, 1)
    factor = ((2 ** (bits_of // 2) % span) ** 2) % 2**bits_of % span
    return sampled.type(low), unsigned.type(span % 2**bits_of), unsigned.type(factor)


def _range(
    minval: ArrayLike, maxval: ArrayLike, kind: np.dtype[Any], sampled: np.dtype[Any]
) -> tuple[Result, Result, Result]:
    """The same of bounds that only the program knows."""
    unsigned = np.dtype(f"u{sampled.itemsize}")
    (low, _), (high, above) = _bound(minval, kind, sampled, 0), _bound(maxval, kind, sampled, 1)
    shape = shape_for("randint", None, aval(low).shape, aval(high).shape)
    low, high, above = (spread(x, shape) if aval(x).shape else x for x in (low, high, above))
    rising = bind(Lt(), low, high)
    span = select(rising, convert(sub(high, low), unsigned), _like(low, unsigned.type(1)))
    span = add(span, convert(bind(And(), rising, above), unsigned))
    half = _rest(_like(span, unsigned.type(2 ** (4 * sampled.itemsize))), span)
    return low, span, _rest(mul(half, half), span)


def _bound(x: ArrayLike, kind: np.dtype[Any], sampled: np.dtype[Any], beyond: int) -> tuple[Result, Result]:
    """A bound within what a dtype holds, and whether it is above that; there is room for one more in `sampled` if that
    is wider.
    """
    if type(x) is int:
        x = min(max(x, -(2**63)), 2**64 - 1)
        x = np.int64(x) if x < 2**63 else np.uint64(x)
    found = operand(x)
    if aval(found).dtype.kind not in "iu":
        found = convert(found, np.int64)
    have, info = np.iinfo(aval(found).dtype), np.iinfo(kind)
    top = info.max + (beyond if sampled != kind else 0)
    above = bind(Gt(), found, constant_like(found, info.max)) if info.max < have.max and sampled == kind else None
    inside = bind(Maximum(), found, constant_like(found, max(info.min, have.min)))
    inside = bind(Minimum(), inside, constant_like(found, min(top, have.max)))
    return convert(inside, sampled), _like(found, np.False_) if above is None else above


def _rest(x: ArrayLike, span: ArrayLike) -> Result:
    """x modulo a number of values, 0 of which are all there are."""
    if isinstance(span, np.generic):
        number = int(span)
        if number & (number - 1) == 0:  # a power of 2
            return bind(And(), x, type(span)(number - 1)) if number else x
        return bind(Remainder(), x, span)
    whole = bind(Eq(), span, constant_like(span, 0))
    return select(whole, x, bind(Remainder(), x, select(whole, constant_like(span, 1), span)))


def _like(x: ArrayLike, value: Any) -> Result:
    """A number in the shape of x."""
    return spread(value, aval(x).shape) if aval(x).shape else value


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None, mode: str = "low") -> Result:
    """Whether an event of probability p happens.   -> bool[*shape]

    shape: that of p where none is given.   mode: "high" takes twice the bits, for p near 0.
    Raises: ShapeError for p that does not fit the shape, OptionError for another mode.

    >>> import tracejit as tj
    >>> tj.random.bernoulli(tj.random.key(42), 0.3, (4,))
    array([False,  True, False, False])
    """
    if mode not in ("low", "high"):
        raise OptionError(f"tj.random.bernoulli: mode is 'low' or 'high', not {mode!r}", location=user_location())
    kind = own_float(p)
    out, (chance,) = parameters("bernoulli", shape, kind, p)
    if mode == "low":
        return bind(Lt(), unit("bernoulli", key, out, kind), chance)
    both = unit("bernoulli", key, (2, *out), kind)
    coarse, fine = both[0], both[1]
    fine = mul(fine, constant_like(fine, float(np.finfo(kind).eps)))
    return bind(Lt(), fine, sub(chance, coarse))


def rademacher(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = None) -> Result:
    """-1 or 1, each with probability 1/2.   -> dtype[*shape], int64 where none is given

    >>> import tracejit as tj
    >>> tj.random.rademacher(tj.random.key(42), (4,))
    array([ 1,  1, -1, -1])
    """
    kind = default_int() if dtype is None else canonical(dtype)
    if kind.kind not in "if":
        raise DtypeError(f"tj.random.rademacher gives signed numbers, not {kind}", location=user_location())
    coin = bernoulli(key, 0.5, as_shape(shape))
    return select(coin, kind.type(1), kind.type(-1))
