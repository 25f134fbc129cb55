"""Axes, shapes and counts as users write them: checked, normalised, symbolic extents left symbolic."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import (
    Dim,
    DimDependent,
    Extent,
    Shape,
    fits_in_64_bits,
    greater_extent,
    has_count,
    has_index,
    same_extent,
    same_shape,
    surely_at_most,
)
from tracejit.numpy.number_checks import check_none
from tracejit.primitives.comparison import Lt
from tracejit.support.axes import axis_index
from tracejit.support.errors import (
    ConcretizationError,
    DtypeError,
    RefusedByNumPy,
    ShapeError,
    UnsupportedError,
)
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result, ShapeLike
from tracejit.tracer.failures import Reason
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import sizes_of_inputs
from tracejit.tracer.tracer import Tracer, extent_of

__all__ = [
    "as_extent", "as_shape", "at_least_none", "axis_index", "axis_list", "is_flattened", "is_sequence", "is_whole",
    "is_zero", "items_of", "keeps", "known", "normalize_axes", "not_negative", "number_of_extents", "reject",
    "same_extent", "same_shape", "static_array", "static_int", "unsupported",
]  # fmt: skip


def is_whole(index: slice) -> bool:
    """Whether it is `:`.  Its parts may be traced, which do not compare with None."""
    return index.start is None and index.stop is None and index.step is None


def reject(message: str) -> ShapeError:
    """A ShapeError at the user's line."""
    return ShapeError(message, location=user_location())


def unsupported(message: str) -> UnsupportedError:
    """An UnsupportedError at the user's line."""
    return UnsupportedError(message, location=user_location())


def items_of(x: ArrayLike) -> Sequence[Result]:
    """The items of a sequence or vector; anything else as the only item."""
    if isinstance(x, (list, tuple)):
        return cast("Sequence[Any]", x)
    return list(x) if getattr(x, "ndim", 0) else (x,)


def is_sequence(x: ArrayLike) -> bool:
    """Whether an argument is a sequence or vector rather than one number."""
    return isinstance(x, (list, tuple)) or getattr(x, "ndim", 0) > 0


def is_flattened(axis: AxisLike, rank: int) -> bool:
    """Whether a function works on the flattened array: without an axis,
    and NumPy takes arrays of rank 0 for vectors.
    """
    return axis is None or (rank == 0 and isinstance(axis, (int, np.integer)) and axis in (0, -1))


def axis_list(axis: AxisLike, rank: int, what: str = "an array") -> tuple[int, ...]:
    """Axes in the order given, non-negative.  Raises ShapeError for a repeated or missing one."""
    axes = tuple([axis_index(a, rank, what) for a in items_of(axis)])
    if len(set(axes)) != len(axes):
        raise reject(f"axis {axis} names an axis twice")
    return axes


def normalize_axes(axis: AxisLike, rank: int) -> tuple[int, ...]:
    """Axes as a sorted tuple of non-negative integers; None means all.  Raises ShapeError (as
    numpy.exceptions.AxisError would).
    """
    if axis is None:
        return tuple(range(rank))
    axes = [axis_index(a, rank) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if len(set(axes)) != len(axes):
        raise reject(f"duplicate axes in {axis}")
    return tuple(sorted(axes))


def as_extent(n: ArrayLike) -> Extent:
    """An extent as an integer or a symbolic one.  Raises TracerError for a traced value, whose number is not known."""
    n = extent_of(n)
    if isinstance(n, Dim):
        return n
    try:
        return operator.index(n)
    except TypeError as error:
        if isinstance(error, ConcretizationError):
            raise
        raise RefusedByNumPy(
            f"a shape is made of integers, not of {type(n).__name__} {n!r}", location=user_location()
        ) from error


def not_negative(n: Extent, fault: str) -> Extent:
    """An extent, which is 0 or more: a program that computes less fails.

    Raises: ShapeError, by what `fault` says, for a negative one; DimDependent where the call's sizes decide.
    """
    if not isinstance(n, Dim) or surely_at_most(0, n):
        if isinstance(n, int) and n < 0:
            raise reject(fault)
        return n
    if has_index(n) or has_count(n):
        check_none(bind(Lt(), OPERATORS.extent(n), np.int64(0)), Reason(ShapeError, fault))
        return greater_extent(n, 0)
    if n < 0:
        raise reject(fault)
    return n


def keeps(keepdims: Any) -> bool:
    """Whether `keepdims=` asks for it, in whatever way; NumPy's mark for what is not given does not."""
    return keepdims is not np._NoValue and bool(keepdims)  # pyright: ignore[reportPrivateUsage]


def at_least_none(n: Extent) -> Extent:
    """An extent, 0 for a negative one.  Raises: DimDependent where the call's sizes decide."""
    if not isinstance(n, Dim):
        return max(n, 0)
    if surely_at_most(0, n):
        return n
    if has_index(n) or has_count(n):
        return greater_extent(n, 0)
    return 0 if n < 0 else n


def number_of_extents(n: Dim) -> Result:
    """What the user's function computes from extents, as the Python integer that it is;
    one too large for 64 bits becomes a constant.
    """
    if not fits_in_64_bits(n, sizes_of_inputs()):
        raise DimDependent(n.symbols())
    number = OPERATORS.extent(n)
    number.weaken()
    return number


def as_shape(shape: ShapeLike) -> Shape:
    """A shape from an integer or a sequence of them.  Raises ShapeError for a negative extent."""
    items = items_of(shape)
    if any(isinstance(n, (bool, np.bool_)) for n in items):
        raise DtypeError(f"a shape is made of integers, not of {shape!r}", location=user_location())
    out = tuple([as_extent(n) for n in items])
    out = tuple([not_negative(n, f"negative dimensions are not allowed in shape {out}") for n in out])
    if math.prod(n for n in out if isinstance(n, int) and n) >= 2**63:
        raise reject(f"an array of shape {out} is too big: its elements are more than 64 bits count")
    return out


def is_zero(n: Extent) -> bool:
    """Whether an extent is certainly 0."""
    return n == 0 if isinstance(n, int) else surely_at_most(n, 0) and surely_at_most(0, n)


def known(test: Any, default: bool) -> bool:
    """A comparison of extents, or `default` where it depends on symbols."""
    try:
        return bool(test())
    except DimDependent:
        return default


def static_array(x: ArrayLike, what: str) -> np.ndarray[Any, Any]:
    """Values that must be known while tracing: constants, or a number argument, which the trace then specialises on.

    Raises: ConcretizationError for those that follow from array arguments.
    """
    try:
        return np.asarray(x)
    except ConcretizationError as error:
        aval = x.aval if isinstance(x, Tracer) else "values"
        raise ConcretizationError(
            f"{what} must be known while tracing, not a traced array {aval}; make it a Python number or an array that "
            "is no argument",
            location=user_location(),
        ) from error


def static_int(x: ArrayLike, what: str) -> int:
    """An integer that must be known while tracing.  Raises TracerError for anything else."""
    try:
        return operator.index(static_array(x, what)[()])
    except TypeError as error:
        if isinstance(error, ConcretizationError):
            raise
        raise RefusedByNumPy(f"{what} must be an integer, not {x!r}", location=user_location()) from error
