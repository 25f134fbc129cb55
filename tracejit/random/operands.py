"""What all functions of this namespace do first: keys, shapes, dtypes and parameters as users give them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, is_one, prod, same_extent, same_shape
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import ShiftRight
from tracejit.primitives.creation import extent_value, iota
from tracejit.primitives.elementwise import convert
from tracejit.primitives.random import Threefry2x32
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array
from tracejit.support.config import config
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.errors import ConcretizationError, DtypeError, ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike, has_aval
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer, extent_of

__all__ = [
    "as_shape", "aval", "blocks", "common_shape", "default_int", "element_words", "float_dtype", "floats", "integers",
    "known_integer", "operand", "own_float", "parameters", "reject", "shape_for", "spread", "static_shape", "words_of",
]  # fmt: skip

_KEY = "a key, uint32 of shape (2,), is what tj.random.key(seed) gives"


def reject(message: str) -> ShapeError:
    """A ShapeError at the user's line."""
    return ShapeError(message, location=user_location())


def operand(x: ArrayLike) -> Result:
    """An array as it is, a number or a list as one."""
    if isinstance(x, Dim):
        return extent_value(x, np.int64)
    if isinstance(x, (Tracer, np.ndarray, np.generic)) or has_aval(x):
        return x
    return np.asarray(x)


def aval(x: ArrayLike) -> ShapedArray:
    """The shape and dtype of an array."""
    return aval_of_argument(x)


# -- keys --------------------------------------------------------------------------------------------------------------
def words_of(name: str, key: ArrayLike) -> tuple[Result, Result]:
    """The two words of a key, of rank 0.

    Raises: DtypeError, ShapeError for what is no key.
    """
    x = operand(key)
    if aval(x).dtype != np.uint32:
        raise DtypeError(f"tj.random.{name}: {_KEY}, not {aval(x)}", location=user_location())
    if not same_shape(aval(x).shape, (2,)):
        several = "; use tj.vmap for several keys" if aval(x).ndim > 1 else ""
        raise reject(f"tj.random.{name}: {_KEY}, not {aval(x)}{several}")
    return tuple([reshape(slice_array(x, (n,), (1,)), ()) for n in (0, 1)])  # pyright: ignore[reportReturnType]


def blocks(words: tuple[Result, Result], count: Extent) -> tuple[Result, Result]:
    """The blocks of the counters 0, 1, ..., count - 1 under a key: two vectors of words."""
    if isinstance(count, int) and count <= 2**32:
        return bind(Threefry2x32(), *words, np.uint32(0), iota((count,), 0, np.uint32))
    counters = iota((count,), 0, np.uint64)
    high = convert(bind(ShiftRight(), counters, np.uint64(32)), np.uint32)
    return bind(Threefry2x32(), *words, high, convert(counters, np.uint32))


def element_words(name: str, key: ArrayLike, shape: Shape) -> tuple[Result, Result]:
    """Two words for each element of a shape."""
    first, second = blocks(words_of(name, key), prod(shape))
    return reshape(first, shape), reshape(second, shape)


# -- dtypes ------------------------------------------------------------------------------------------------------------
def float_dtype(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype of the result; float64 where none is given (float32 if `tj.config.default_dtype_bits` is 32).

    Raises: DtypeError for one that is not floating-point.
    """
    if dtype is None:
        return np.dtype(np.float32 if config.default_dtype_bits == 32 else np.float64)
    found = canonical(float if dtype is float else dtype)
    if found.kind != "f":
        raise DtypeError(f"tj.random.{name} gives floats, not {found}", location=user_location())
    return found


def default_int() -> np.dtype[Any]:
    """The dtype of integers that nobody gave one."""
    return np.dtype(np.int32 if config.default_dtype_bits == 32 else np.int64)


def floats(x: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """A parameter of a distribution in a dtype."""
    return convert(OPERATORS.to_dtype(operand(x), dtype), dtype)


def integers(name: str, x: ArrayLike) -> Result:
    """An operand of integers.  Raises: DtypeError for another."""
    found = operand(x)
    if aval(found).dtype.kind not in "iub":
        raise DtypeError(f"tj.random.{name} takes integers, not {aval(found)}", location=user_location())
    return found


def own_float(x: ArrayLike) -> np.dtype[Any]:
    """The dtype in which probabilities are computed: theirs if it is floating-point, else the default."""
    if weak_kind(x) is None and aval(operand(x)).dtype.kind == "f" and not isinstance(x, (list, tuple)):
        return aval(operand(x)).dtype
    return float_dtype("", None)


# -- shapes ------------------------------------------------------------------------------------------------------------
def as_shape(shape: ShapeLike) -> Shape:
    """A shape from an integer or a sequence of them.

    Raises: ShapeError for a negative extent, TracerError for what is no integer.
    """
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0)
    items = list(cast("Sequence[Any]", shape)) if several else [shape]
    out = tuple([_extent(n) for n in items])
    if any(isinstance(n, int) and n < 0 for n in out):
        raise reject(f"negative dimensions are not allowed in shape {out}")
    return out


def _extent(n: Any) -> Extent:
    n = extent_of(n)
    if isinstance(n, Dim):
        return n
    try:
        return operator.index(n)
    except ConcretizationError:
        raise
    except TypeError as error:
        raise TracerError(
            f"a shape is made of integers, not of {type(n).__name__} {n!r}", location=user_location()
        ) from error


def known_integer(name: str, what: str, n: Any) -> int:
    """An integer that has to be known while tracing.  Raises: TracerError."""
    found = _extent(n)
    if isinstance(found, Dim):
        raise TracerError(
            f"tj.random.{name}: {what} has to be a number, and is an extent that differs from call to call",
            location=user_location(),
        )
    return found


def static_shape(shape: Shape) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(n, int) for n in shape)


def common_shape(name: str, *shapes: Shape) -> Shape:
    """What shapes are together, by NumPy's rule.  Raises: ShapeError."""
    rank = max(map(len, shapes), default=0)
    out: list[Extent] = []
    for d in range(rank):
        extents = [s[d - rank + len(s)] for s in shapes if d - rank + len(s) >= 0]
        wide = [n for n in extents if not is_one(n)]
        if any(not same_extent(n, wide[0]) for n in wide):
            raise reject(f"tj.random.{name}: shapes {', '.join(map(str, shapes))} cannot be broadcast together")
        out.append(wide[0] if wide else 1)
    return tuple(out)


def shape_for(name: str, shape: ShapeLike | None, *parameters: Shape) -> Shape:
    """The shape of the result: what the parameters are together, or the one that is given, which they fit.

    Raises: ShapeError where they do not.
    """
    together = common_shape(name, *parameters)
    if shape is None:
        return together
    out = as_shape(shape)
    if not same_shape(common_shape(name, out, together), out):
        raise reject(f"tj.random.{name}: parameters of shape {together} cannot be broadcast to shape {out}")
    return out


def spread(x: ArrayLike, shape: Shape) -> Result:
    """x broadcast to a shape that it fits."""
    rank = aval(x).ndim
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - rank, len(shape))))


def parameters(
    name: str, shape: ShapeLike | None, dtype: np.dtype[Any], *given: ArrayLike
) -> tuple[Shape, Sequence[Result]]:
    """The shape of the result, and the parameters in a dtype, broadcast to it."""
    arrays = [floats(x, dtype) for x in given]
    out = shape_for(name, shape, *[aval(x).shape for x in arrays])
    return out, [spread(x, out) if aval(x).shape else x for x in arrays]
