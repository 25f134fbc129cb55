"""Primitives that make arrays from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import Form, FormBuilder, Operand
from tracejit.ir.kernel import index_const
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import Range
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.types import ShapedArray
from tracejit.primitives.shape import BroadcastInDim
from tracejit.support.dtypes import canonical
from tracejit.support.nodes import field, frozen
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind

__all__ = ["extent_value", "full", "iota"]


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
