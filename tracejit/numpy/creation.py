"""Functions that make arrays of a value, and grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.numpy.axes import as_shape, reject
from tracejit.numpy.conversions import refuse_like
from tracejit.numpy.promotion import as_array, aval, broadcast_to as spread, to_dtype
from tracejit.numpy.shaping import array_of, broadcast_arrays, check_order, copy as copied
from tracejit.numpy.strides import like as laid_out_like
from tracejit.numpy.views import reshaped
from tracejit.primitives import creation as c, shape as p
from tracejit.support.config import config
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.layout import AS_IS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "empty",
    "empty_like",
    "full",
    "full_like",
    "indices",
    "meshgrid",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def default_float() -> np.dtype[Any]:
    """The dtype of a float that nobody gave one: float64, or float32 if `tj.config.default_dtype_bits` is 32."""
    return np.dtype(np.float32 if config.default_dtype_bits == 32 else np.float64)


def default_int() -> np.dtype[Any]:
    """The dtype of an integer that nobody gave one."""
    return np.dtype(np.int32 if config.default_dtype_bits == 32 else np.int64)


# -- constants ---------------------------------------------------------------------------------------------------------
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Result:
    """An array filled with a value, which may be traced and is broadcast."""
    refuse_like(like, order)
    return in_order(filled(as_shape(shape), fill_value, dtype), order)


def filled(shape: Shape, value: ArrayLike, dtype: DTypeLike) -> Result:
    """A new array of a value; without a dtype in that of a value that nobody gave one."""
    x = as_array(value)
    if dtype is None:
        kind = weak_kind(x)
        if kind is None or kind == np.bool_:
            dtype = aval(x).dtype
        elif kind.kind == "f":
            dtype = default_float()
        elif kind.kind == "c":
            dtype = kind
        else:
            dtype = np.uint64 if _is_unsigned(value) else default_int()
    return fresh(spread(to_dtype(x, dtype), shape))


def _is_unsigned(x: Any) -> bool:
    """Whether a Python integer fits only uint64, which NumPy then takes it for."""
    return type(x) is int and 2**63 <= x < 2**64


def fresh(x: ArrayLike) -> Result:
    """An array that can be written and shares no memory."""
    if isinstance(x, Tracer):
        made = current_interpreter().fresh(x)
        made.is_array = True
        return made
    return np.array(x, order="C") if isinstance(x, (np.ndarray, np.generic)) else x


def in_order(x: ArrayLike, order: Any, model: ArrayLike = None) -> Result:
    """A new array as it lies in memory by `order`; "K" and "A" ask how `model` lies."""
    if isinstance(x, Tracer):
        x.layout = laid_out_like(x if model is None else model, x.shape, x.dtype, order)
    elif order == "F":
        x = np.asarray(x, order="F")
    return x


def _constant(name: str, value: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def function(
        shape: ShapeLike, dtype: DTypeLike = None, order: Any = "C", *, device: Any = None, like: Any = None
    ) -> Result:
        refuse_like(like, order)
        return in_order(filled(as_shape(shape), value, dtype if dtype is not None else default_float()), order)

    def function_like(
        a: ArrayLike,
        dtype: DTypeLike = None,
        order: Any = "K",
        subok: bool = True,
        shape: ShapeLike | None = None,
        *,
        device: Any = None,
    ) -> Result:
        return full_like(a, value, dtype, order, subok, shape)

    meaning = "zeros (memory is never left uninitialised)" if name == "empty" else name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"An array of {meaning}, float64 by default."
    function_like.__name__ = function_like.__qualname__ = f"{name}_like"
    function_like.__doc__ = f"An array of {meaning} with the shape and dtype of `a`, unless given."
    return function, function_like


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: Any = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
) -> Result:
    """An array filled with a value, with the shape and dtype of `a`, unless given."""
    check_order(order)
    model = as_array(a)
    have = aval(model)
    if dtype is None:
        dtype = np.dtype(np.uint64) if _is_unsigned(a) else have.dtype
    made = filled(have.shape if shape is None else as_shape(shape), fill_value, dtype)
    return in_order(made, order, model)


zeros, zeros_like = _constant("zeros", 0)
ones, ones_like = _constant("ones", 1)
empty, empty_like = _constant("empty", 0)


# -- grids -------------------------------------------------------------------------------------------------------------
def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Result, ...]:
    """Coordinate arrays of a grid from the coordinates along each axis."""
    if indexing not in ("xy", "ij"):
        raise reject("meshgrid's indexing is 'xy' or 'ij'")
    xs = [reshaped(x, (aval(x).size,)) for x in map(array_of, xi)]
    rank = len(xs)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[0], order[1] = 1, 0
    extents: list[Extent] = [1] * rank
    for d, x in zip(order, xs, strict=True):
        extents[d] = aval(x).shape[0]
    lines = [
        reshaped(x, tuple([n if k == d else 1 for k, n in enumerate(extents)])) for d, x in zip(order, xs, strict=True)
    ]
    out = lines if sparse else broadcast_arrays(*lines)
    return tuple([copied(x, "C") for x in out] if copy else out)


def indices(dimensions: ShapeLike, dtype: DTypeLike = int, sparse: bool = False) -> Result:
    """The index of every element along every axis: stacked, or one thin array per axis if `sparse`."""
    shape = as_shape(dimensions)
    rank = len(shape)
    if sparse:
        return tuple(
            [c.iota(tuple([n if k == d else 1 for k, n in enumerate(shape)]), d, canonical(dtype)) for d in range(rank)]
        )
    if rank == 0:
        return zeros((0,), dtype)
    return p.concatenate([p.reshape(c.iota(shape, d, canonical(dtype)), (1, *shape)) for d in range(rank)], 0)


AS_IS.update((empty, empty_like, full, full_like, meshgrid, ones, ones_like, zeros, zeros_like))
for _name in ("empty", "empty_like", "full", "full_like", "meshgrid", "ones", "ones_like", "zeros", "zeros_like"):
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
