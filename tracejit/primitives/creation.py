"""Primitives that make arrays from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Count, Dim, Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, Loop, Operand
from tracejit.ir.kernel import index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.shape import BroadcastInDim
from tracejit.support.dtypes import canonical
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.nodes import field, frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind

__all__ = ["AsExtent", "extent_value", "full", "iota"]


@frozen(eq=False)
class Iota(Primitive):
    """0, 1, 2, ... along `axis` of `shape`.   -> dtype[*shape]"""

    name = "iota"
    shape: Shape
    axis: int
    dtype: np.dtype[Any] = field(converter=canonical)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    def impl(self, *args: ArrayLike) -> Result:
        shape = cast("tuple[int, ...]", self.shape)
        line = np.arange(shape[self.axis]).astype(self.dtype)
        return np.broadcast_to(line.reshape([-1 if d == self.axis else 1 for d in range(len(shape))]), shape)

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return b.map(self.shape, lambda i: b.op("convert", i[self.axis], dtype=kernel_dtype(self.dtype)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        return bind(self), None

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, None]:
        return bind(self), None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return 0, self.shape[self.axis] - 1


@frozen(eq=False)
class ExtentValue(Primitive):
    """A symbolic extent as a number, computed from the arguments' shapes when the program runs.   -> dtype[]"""

    name = "extent"
    extent: Extent
    dtype: np.dtype[Any] = field(converter=canonical)

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), self.dtype)

    def impl(self, *args: ArrayLike) -> Result:
        return np.asarray(int(self.extent), self.dtype)[()]

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return b.map((), lambda i: b.op("convert", index_const(self.extent), dtype=kernel_dtype(self.dtype)))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        return bind(self), None

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, None]:
        return bind(self), None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        return self.extent, self.extent


@frozen(eq=False)
class AsExtent(Primitive):
    """A number that the program computes as an extent: `index`, from here on to the end of the block.   i64[] -> i64[]

    It lies between 0 and the symbol's greatest value.  Equations that have the symbol in a shape or a parameter come
    later, without having the result among their operands.
    """

    name = "as_extent"
    binds = "index"
    index: Count

    def abstract_eval(self, *avals: ShapedArray) -> ShapedArray:
        (n,) = avals
        if n.shape or n.dtype != np.int64:
            raise ShapeError(f"[{self.name}] an extent is one int64, not {n}")
        return n.strong()

    def impl(self, *args: ArrayLike) -> Result:
        return np.int64(args[0])

    def lower(self, b: FormBuilder, *operands: Operand) -> Form:
        return Loop("extent", (), (("index", self.index),))

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Result, Result]:
        return bind(self, *primals), None

    def batch(self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent) -> tuple[Result, None]:
        if dims[0] is not None:
            raise UnsupportedError(
                f"under vmap, the shape of {self.index.what} differs from element to element; use np.where(mask, x, "
                "other), or call the function in a loop",
                location=user_location(),
            )
        return bind(self, *args), None

    def value_range(self, ranges: Sequence[Range], *avals: ShapedArray) -> Range:
        known = Dim.symbol(self.index)
        return known, known


def extent_value(extent: Extent, dtype: DTypeLike) -> Result:
    """An extent as a scalar operand; a symbolic one is computed when the program runs."""
    return np.dtype(dtype).type(extent) if isinstance(extent, int) else bind(ExtentValue(extent, np.dtype(dtype)))


def iota(shape: Shape, axis: int, dtype: DTypeLike) -> Result:
    """0, 1, 2, ... along `axis`."""
    return bind(Iota(tuple(shape), axis, np.dtype(dtype)))


def full(shape: Shape, value: ArrayLike) -> Result:
    """An array of `shape` filled with a scalar."""
    return bind(BroadcastInDim(tuple(shape), ()), value)


def zeros_of(aval: ShapedArray) -> Result:
    """Zeros of a shape and dtype."""
    return full(aval.shape, aval.dtype.type(0))


def zero_tangent(x: ArrayLike) -> Result:
    """The tangent of what does not vary."""
    return zeros_of(aval_of_argument(x))


def filled_tangents(tangents: Sequence[ArrayLike], primals: Sequence[ArrayLike]) -> list[Result]:
    """Tangents with zeros where there is none."""
    return [zero_tangent(p) if t is None else t for t, p in zip(tangents, primals, strict=True)]
