"""Abstract values: shapes and dtypes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape, prod
from tracejit.support.dtypes import canonical, short_name, weak_kind
from tracejit.support.nodes import field, frozen

__all__ = ["ShapedArray", "aval_of"]


def _as_shape(shape: Iterable[Any]) -> Shape:
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int and type(n) is not Dim:
                break
        else:
            return shape
    return tuple(n if isinstance(n, Dim) else int(n) for n in shape)


@frozen
class ShapedArray:
    """What is known of an array while tracing.  `weak` marks values that came from Python scalars."""

    shape: Shape = field(converter=_as_shape)
    dtype: np.dtype[Any] = field(converter=canonical)
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Extent:
        return prod(self.shape)

    def with_shape(self, shape: Iterable[Extent]) -> ShapedArray:
        return ShapedArray(tuple(shape), self.dtype, self.weak)

    def strong(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype) if self.weak else self

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}{'~' if self.weak else ''}[{','.join(map(str, self.shape))}]"


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of a NumPy array, NumPy scalar or Python scalar."""
    if (dtype := weak_kind(x)) is not None:
        return ShapedArray((), dtype, weak=True)
    array = np.asarray(x)
    return ShapedArray(array.shape, array.dtype)
