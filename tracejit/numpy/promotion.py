"""What every function of this namespace does with its operands first:
dtypes by NumPy's rules, shapes by broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, is_one, same_extent, same_shape, spreads
from tracejit.ir.ranges import within
from tracejit.ir.types import ShapedArray
from tracejit.numpy.agreement import agreed, as_long_as, is_counted
from tracejit.numpy.number_checks import check_number
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import broadcast_in_dim, reshape
from tracejit.support.dtypes import canonical, result_type, short_name, weak_kind
from tracejit.support.errors import DtypeError, NumberOutOfBounds, ShapeError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, has_aval
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.failures import number_error
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "as_array",
    "aval",
    "broadcast_shapes",
    "broadcast_to",
    "fitting",
    "leaves_of",
    "numbers_to_dtype",
    "promote",
    "to_dtype",
    "wrapped_to_dtype",
]


def as_array(x: ArrayLike) -> Result:
    """A tracer or array as it is; lists and tuples (which may hold tracers) stacked; numbers untouched."""
    if isinstance(x, (Tracer, np.ndarray, np.generic)) or weak_kind(x) is not None or has_aval(x):
        return x
    if isinstance(x, (list, tuple)):
        if any(isinstance(leaf, (Tracer, Dim)) for leaf in leaves_of(x)):
            return OPERATORS.stack([as_array(item) for item in x])
        return np.asarray(x)
    if isinstance(x, Dim):
        return OPERATORS.number_of_extents(x)
    if x is None or isinstance(x, (str, bytes)):
        advice = "; use `x is None`" if x is None else ""
        raise DtypeError(f"{type(x).__name__} is not an array{advice}", location=user_location())
    if hasattr(type(x), "__array__"):  # of the user's class, whose array may be traced
        made = x.__array__()
        return made if isinstance(made, Tracer) else np.asarray(made)
    return np.asarray(x)


def leaves_of(x: ArrayLike) -> list[Result]:
    """What nested lists and tuples hold."""
    out: list[Any] = []
    stack = [x]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            out.append(item)
    return out


def aval(x: ArrayLike) -> ShapedArray:
    """The abstract value of an operand.  Raises DtypeError for dtypes the IR has not."""
    return aval_of_argument(x)


def to_dtype(x: ArrayLike, dtype: DTypeLike) -> Result:
    """An operand as exactly `dtype`; a Python number becomes a NumPy scalar.

    Raises: NumberOutOfBounds for a Python number that does not fit an integer dtype; for a traced one the program does.
    DtypeError for a complex number where the dtype is real.
    """
    dtype = canonical(dtype)
    if dtype.kind != "c" and dtype.kind != "b" and aval(x).dtype.kind == "c":
        raise DtypeError(
            f"{short_name(aval(x).dtype)} as {short_name(dtype)} would lose the imaginary part; take a part: x.real, "
            "abs(x)",
            location=user_location(),
        )
    if isinstance(x, Tracer):
        if x.aval.weak and x.aval.dtype is dtype:
            number = x.as_numpy_number()
            if number is not None:
                return number
        if x.aval.weak and dtype.kind in "iu":
            check_number(x, dtype)
        elif (
            x.aval.weak
            and dtype.itemsize < 8
            and x.dtype.kind == "i"
            and not within(x.seen().value_range(), -(2**53), 2**53)
        ):
            x = convert(x, np.float64)  # rounded twice, as a Python integer is
        return convert(x, dtype)
    if weak_kind(x) is not None:
        return _number(x, dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return (
            x
            if x.dtype == dtype
            else (convert(x, dtype) if isinstance(x, np.ndarray) and x.ndim else np.asarray(x).astype(dtype)[()])
        )
    return convert(x, dtype)


def _number(x: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """A Python number as a NumPy scalar."""
    if dtype.kind in "iu" and type(x) is int:
        limits = np.iinfo(dtype)
        if not limits.min <= x <= limits.max:
            raise number_error(f"integer {x}", dtype)
    try:
        with np.errstate(all="ignore"):  # a number too great for a narrow floating-point dtype is infinite
            return dtype.type(x)
    except OverflowError as error:
        raise NumberOutOfBounds(str(error), location=user_location()) from None


def numbers_to_dtype(x: ArrayLike, dtype: DTypeLike) -> Result:
    """An operand whose Python number has become one of `dtype`;
    of nested sequences every member has, as NumPy stores each by itself.
    """
    dtype = canonical(dtype)

    def converted(x: ArrayLike) -> Result:
        if isinstance(x, (list, tuple)):
            return [converted(item) for item in cast("list[Any]", x)]
        x = as_array(x)
        return to_dtype(fitting(x, dtype) if dtype.kind == "i" else x, dtype)

    if isinstance(x, Tracer):
        return to_dtype(x, dtype) if x.aval.weak else x
    if any(isinstance(leaf, (Tracer, Dim)) for leaf in leaves_of(x)):
        return converted(x)
    try:
        return np.asarray(x, dtype) if isinstance(x, (list, tuple)) or weak_kind(x) is not None else x
    except OverflowError as error:
        raise NumberOutOfBounds(str(error), location=user_location()) from None


def plain(value: ArrayLike) -> Result:
    """A value that is stored: an integer of a class of its own (an IntEnum) is Python's there, which has to fit."""
    return int(value) if isinstance(value, int) and type(value) not in (int, bool) else value


def fitting(value: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """A value that is stored; if it is a NumPy scalar that may not fit a dtype of integers,
    the program fails where it does not.
    """
    if isinstance(value, np.generic):
        return (
            to_dtype(value.item(), dtype)
            if value.dtype.kind in "iuf" and not np.can_cast(value.dtype, dtype)
            else value
        )
    scalar = isinstance(value, Tracer) and value.is_scalar and not value.aval.weak
    if scalar and value.dtype.kind in "iuf" and not np.can_cast(value.dtype, dtype):
        check_number(value, dtype)
    return value


def wrapped_to_dtype(x: ArrayLike, dtype: DTypeLike) -> Result:
    """An operand as exactly `dtype`, where a Python number that does not fit wraps around:
    what `where` and its relatives do.
    """
    dtype = canonical(dtype)
    if dtype.kind in "iu":
        if type(x) is int and -(2**63) <= x < 2**64:
            return np.asarray(x).astype(dtype)[()]
        if isinstance(x, Tracer) and x.aval.weak:
            return convert(x, dtype)
    return to_dtype(x, dtype)


def mask_of(where: ArrayLike) -> Result:
    """`where=` as booleans; None where it lets everything through.  NumPy takes None for False,
    and numbers and lists for their truth.

    Raises: DtypeError for an array of another dtype.
    """
    if where is True:
        return None
    if isinstance(where, np.ndarray) or (isinstance(where, Tracer) and not where.is_scalar):
        if where.dtype.kind != "b":
            raise DtypeError(
                f"where= is an array of {where.dtype}; NumPy takes one of bool: where=mask != 0",
                location=user_location(),
            )
        return where
    return to_dtype(as_array(False if where is None else where), np.bool_)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcast of shapes.  Raises ShapeError naming the axis."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Extent] = []
    for axis in range(rank):
        extent: Extent = 1
        for s in shapes:
            k = axis - (rank - len(s))
            if k < 0 or same_extent(s[k], extent):
                continue
            if isinstance(extent, int) and extent == 1:
                extent = s[k]
            elif spreads(s[k], extent):
                continue
            elif is_one(extent):
                extent = s[k]
            else:
                raise ShapeError(
                    f"shapes {' and '.join(map(str, shapes))} cannot be broadcast: axis {axis - rank} is {extent} and "
                    f"{s[k]}",
                    location=user_location(),
                )
        out.append(extent)
    return tuple(out)


def broadcast_to(x: ArrayLike, shape: Shape) -> Result:
    """x spread to `shape` by NumPy's rules."""
    have = aval(x).shape
    if same_shape(have, tuple(shape)):
        return x
    if is_counted(have, shape):
        x = as_long_as(x, have, shape)
        have = aval(x).shape
    broadcast_shapes(have, shape)
    offset = len(shape) - len(have)
    if offset < 0:
        raise ShapeError(f"shape {have} cannot be broadcast to {shape}", location=user_location())
    # Axes of extent 1 that are spread are dropped first, so that what remains maps axis to axis.
    kept = [d for d, n in enumerate(have) if not (isinstance(n, int) and n == 1)]
    return broadcast_in_dim(reshape(x, tuple(have[d] for d in kept)), tuple(shape), tuple(d + offset for d in kept))


def promote(
    *operands: ArrayLike,
    to: DTypeLike | Callable[[np.dtype[Any]], DTypeLike] = None,
    keep_scalars: bool = True,
    convert_with: Callable[[Any, Any], Any] = to_dtype,
) -> list[Result]:
    """Operands of one dtype and one shape (rank-0 ones may stay scalars).

    to: a dtype to use instead of the promoted one, or a function of the promoted dtype.  convert_with: what converts an
    operand.
    """
    xs = [as_array(x) for x in operands]
    avals = [aval(x) for x in xs]
    dtype, _ = result_type(*[(a.dtype, a.weak) for a in avals])
    if to is not None:
        dtype = to(dtype) if callable(to) and not isinstance(to, (type, np.dtype)) else np.dtype(to)
    if all([a.weak for a in avals]):
        _check_64_bits(xs)
    ys = [convert_with(x, dtype) for x in xs]
    return broadcast(ys, [a.shape for a in avals], keep_scalars)


def _check_64_bits(xs: Sequence[ArrayLike]) -> None:
    """Raises: UnsupportedError for an integer of more than 64 bits with one of Python's that the program computes."""
    great = next((x for x in xs if type(x) is int and not -(2**63) <= x < 2**63), None)
    if great is None or any(aval(x).dtype.kind not in "iub" for x in xs):
        return
    for x in xs:
        if isinstance(x, Tracer):
            x.ask()
    raise UnsupportedError(
        f"the integer {great} with one that only the program knows: integers of more than 64 bits are computed by "
        "Python alone; use np.uint64, which wraps around, or floats",
        location=user_location(),
    )


def broadcast(xs: Sequence[ArrayLike], shapes: Sequence[Shape], keep_scalars: bool = True) -> list[Result]:
    """Operands of these shapes, broadcast to the one they have together; numbers too, unless `keep_scalars`."""
    first = shapes[0]
    if all(s is first or same_shape(s, first) for s in shapes[1:]):
        return list(xs)
    if is_counted(*shapes):
        xs, shapes = agreed(xs, shapes)
    shape = broadcast_shapes(*shapes)
    return [x if keep_scalars and not s else broadcast_to(x, shape) for x, s in zip(xs, shapes, strict=True)]
