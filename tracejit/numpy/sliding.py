"""Windows that slide over arrays: `np.lib.stride_tricks.sliding_window_view`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Shape
from tracejit.numpy.axes import axis_index, items_of, not_negative, reject, static_int
from tracejit.numpy.promotion import aval
from tracejit.numpy.shaping import array_of
from tracejit.numpy.views import Rearranged, view
from tracejit.primitives import shape as p
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import add
from tracejit.primitives.indexing import gather
from tracejit.support.errors import UnsupportedError, WriteError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, Result, ShapeLike
from tracejit.tracer.layout import AS_IS, Strides
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["sliding_window_view"]


@frozen(eq=False)
class _Windows(Rearranged):
    """The windows of these sizes along axes, one axis after the other; they lie behind what is left of those."""

    sizes: tuple[Extent, ...]
    axes: tuple[int, ...]

    def read(self, x: ArrayLike) -> Result:
        for size, k in zip(self.sizes, self.axes, strict=True):
            count = aval(x).shape[k] - size + 1
            places = add(iota((count, size), 0, np.int64), iota((count, size), 1, np.int64))
            rank = aval(x).ndim
            # the axes of the places come first
            x = p.transpose(gather(x, (k,), [places]), (*range(2, k + 2), 0, *range(k + 2, rank + 1), 1))
        return x

    def write(self, x: ArrayLike, value: ArrayLike) -> Result:
        raise WriteError("assignment destination is read-only: it shows windows of an array", location=user_location())

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        return np.lib.stride_tricks.sliding_window_view(array, tuple(map(int, self.sizes)), self.axes)

    def strides(self, shape: Shape, strides: Strides) -> Strides | None:
        return (*strides, *[strides[k] for k in self.axes])


def sliding_window_view(
    x: ArrayLike, window_shape: ShapeLike, axis: AxisLike = None, *, subok: bool = False, writeable: bool = False
) -> Result:
    """All windows of a shape in an array, a view that cannot be written: one axis for each axis of the array, with as
    many elements as there are windows along it, then one for each of `window_shape`.

    axis: those that windows slide along, all by default; one may be named twice.

    Raises: ValueError for windows larger than the array, and where there are more or fewer sizes than axes;
    UnsupportedError with `writeable`.   Source: NumPy.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).sum(axis=1))(np.arange(5.0))
    array([3., 6., 9.])
    """
    if writeable:
        raise UnsupportedError(
            "np.lib.stride_tricks.sliding_window_view(writeable=True) is not supported in traced code: windows overlap",
            location=user_location(),
        )
    array = array_of(x)
    shape = aval(array).shape
    sizes = [n if isinstance(n, Dim) else static_int(n, "a window's size") for n in items_of(window_shape)]
    sizes = [not_negative(n, "`window_shape` cannot contain negative values") for n in sizes]
    axes = range(len(shape)) if axis is None else [axis_index(k, len(shape)) for k in items_of(axis)]
    if len(sizes) != len(axes):
        raise reject(
            f"window_shape has {len(sizes)} sizes for {len(axes)} axes: there is one for each, by default for all of x"
        )
    left = list(shape)
    for k, size in zip(axes, sizes, strict=True):
        if left[k] < size:
            raise reject("window shape cannot be larger than input array shape")
        left[k] = left[k] - size + 1
    return view(array, _Windows(tuple(sizes), tuple(axes)))


FUNCTIONS[np.lib.stride_tricks.sliding_window_view] = sliding_window_view
AS_IS.update((sliding_window_view,))
