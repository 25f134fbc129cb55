"""What every function of this namespace does with its operands: numbers bend to the arrays, arrays are not promoted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, is_one, same_extent, same_shape
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import extent_value
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.dtypes import result_type, weak_kind
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result, has_aval
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["array", "aval", "operands", "reject", "spread"]


def reject(message: str) -> ShapeError:
    """A ShapeError at the user's line."""
    return ShapeError(message, location=user_location())


def array(x: ArrayLike) -> Result:
    """An operand: an array as it is, a number as one of rank 0, a list as an array."""
    if isinstance(x, Dim):
        return extent_value(x, np.int64)
    if isinstance(x, (Tracer, np.ndarray, np.generic)) or has_aval(x):
        return x
    return np.asarray(x)


def aval(x: ArrayLike) -> ShapedArray:
    """The shape and dtype of x."""
    return aval_of_argument(x)


def operands(name: str, *xs: ArrayLike) -> list[Result]:
    """Operands of one dtype.  Numbers take the arrays' dtype.

    Raises: DtypeError if arrays differ in dtype.
    """
    numbers = [OPERATORS.number_of_extents(x) if isinstance(x, Dim) else x for x in xs]  # as Python's integers
    arrays = [x if weak_kind(x) is not None else array(x) for x in numbers]
    avals = [aval(x) for x in arrays]
    strong = {a.dtype for a in avals if not a.weak}
    if len(strong) > 1:
        raise DtypeError(
            f"[{name}] operands differ in dtype: {', '.join(map(str, avals))}; lax does not promote, convert them "
            "first",
            location=user_location(),
        )
    dtype = result_type(*[(a.dtype, a.weak) for a in avals])[0] if not strong else next(iter(strong))
    return [_converted(x, a, dtype, name) for x, a in zip(arrays, avals, strict=True)]


def spread(xs: list[ArrayLike]) -> list[Result]:
    """Operands of one rank in one shape: axes of extent 1 are repeated.

    Source: JAX's lax, which broadcasts these and no others.
    """
    shapes = [aval(x).shape for x in xs]
    if len({len(s) for s in shapes if s}) != 1 or all(same_shape(s, shapes[0]) for s in shapes):
        return xs
    shape = tuple([_common(extents) for extents in zip(*[s for s in shapes if s], strict=True)])
    return [_repeated(x, s, shape) if s and not same_shape(s, shape) else x for x, s in zip(xs, shapes, strict=True)]


def _common(extents: Sequence[Extent]) -> Extent:
    """The extent that all have, or else the first that is not 1."""
    first = extents[0]
    return first if all(same_extent(n, first) for n in extents) else next((n for n in extents if not is_one(n)), 1)


def _repeated(x: ArrayLike, have: Shape, shape: Shape) -> Result:
    if any(not same_extent(n, m) and not is_one(n) for n, m in zip(have, shape, strict=True)):
        return x  # the primitive refuses it
    return broadcast_in_dim(x, shape, tuple(range(len(shape))))


def _converted(x: ArrayLike, a: ShapedArray, dtype: np.dtype[Any], name: str) -> Result:
    if not a.weak:
        return x
    if a.dtype.kind in "fc" and dtype.kind in "biu":
        raise DtypeError(
            f"[{name}] a floating-point number meets an array of {dtype}; convert one of them", location=user_location()
        )
    return OPERATORS.to_dtype(x, dtype)
