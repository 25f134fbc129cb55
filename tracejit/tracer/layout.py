"""Where the elements of a traced array would lie in NumPy's memory, as far as what a program means depends on it.

Whether `y.ravel()` is a view of `y` or a copy follows from the strides that NumPy's array has there, and a write tells
the difference. Arrays that NumPy lays out in C order, nearly all, have the layout None.  Others have their strides in
bytes, or are `Open`: the trace has to start again, knowing more about an argument; or UNKNOWN: then a write whose
effect would depend on it is refused.

Results of functions have memory of their own, except those of the functions in `AS_IS`, which may give views or
operands, and operands that the functions in `HANDED_BACK` give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracejit.ir.extents import Extent, Shape, same_shape
from tracejit.support.nodes import frozen

if TYPE_CHECKING:
    from tracejit.tracer.tracer import Tracer

__all__ = [
    "AS_IS", "HANDED_BACK", "LAYOUTS", "UNKNOWN", "Layout", "Open", "Strides", "c_strides", "in_c_order",
    "layout_of_array", "ordered_strides", "same_layout",
]  # fmt: skip

Strides = tuple[Extent, ...]
"""In bytes, for each axis."""


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN: Any = _Unknown()
"""The layout of an array of which NumPy's strides are not followed."""


@frozen(eq=False)
class Open:
    """A layout that is known when the trace has started again: raise `error` for that."""

    error: BaseException


Layout = Strides | Open | Any | None
"""None (C order), strides, `Open`, or UNKNOWN."""

AS_IS: set[Any] = set()
"""Functions of the tables in `tracer` whose results are handed out as they are:
views, operands, arrays whose layout is right."""
HANDED_BACK: set[Any] = set()
"""Functions that give their operand itself where there is nothing to do, and else arrays of their own."""
LAYOUTS: dict[Any, Callable[..., Layout]] = {}
"""Function of the tables in `tracer` to the layout of its result where operands are not all in C order:
called with a list of the arrays among the operands, the result, and the operands as they were passed."""


def in_c_order(arrays: Sequence[Any], result: Tracer, *operands: Any, **options: Any) -> None:
    """The layout of what functions give that make arrays in C order of any operands."""


def c_strides(shape: Shape, itemsize: int) -> Strides:
    """The strides of an array in C order."""
    return ordered_strides(shape, itemsize, range(len(shape)))


def ordered_strides(shape: Shape, itemsize: int, order: Sequence[int]) -> Strides:
    """The strides of an array without gaps whose axes lie in memory in an order,
    from the outermost to the innermost.
    """
    out: list[Extent] = [0] * len(shape)
    step: Extent = itemsize
    for axis in reversed(order):
        out[axis] = step
        step = step * shape[axis]
    return tuple(out)


def same_layout(one: Layout, two: Layout) -> bool:
    """Whether arrays of one shape lie in memory alike, as far as that is known."""
    if isinstance(one, tuple) and isinstance(two, tuple):
        return same_shape(one, two)
    return one is two and one is not UNKNOWN


def layout_of_array(array: np.ndarray[Any, Any]) -> Layout:
    """The layout of an array that is there."""
    return None if array.flags.c_contiguous else array.strides
