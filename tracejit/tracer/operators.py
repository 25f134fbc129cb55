"""What lower layers ask of higher ones while they trace: NumPy's meaning of an index, an extent as a number,
a sum of cotangents.

Each function is set once, by the module that defines it, when `tracejit.numpy` is imported, which is before anything is
traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tracejit.ir.extents import Dim, Extent
    from tracejit.tracer.layout import Layout

__all__ = ["ARITHMETIC", "OPERATORS"]

ARITHMETIC: dict[str, Callable[..., Any]] = {}
"""Python's operators by the names of their methods ("add", "eq", "invert", ...) to NumPy's functions."""


class _Operators:
    """The functions.  Arrays are traced or NumPy's, numbers Python's or of either."""

    # -- indexing, and views (numpy/indexing.py) ----
    getitem: Callable[..., Any]
    """(x, index): x[index], a view for basic indices."""
    setitem: Callable[..., None]
    """(x, index, value, casting="unsafe"): a new value for the cell x."""
    assign: Callable[[Any, Any, Any], None]
    """The statement `x[index] = value`."""
    set_flat: Callable[[Any, Any], None]
    """The statement `x.flat = value`."""
    read_view: Callable[[Any, Any], Any]
    """The view of x at an index that is resolved, with its present value."""
    layout: Callable[..., Layout]
    """(x, without=None): how an array lies in memory, also one that is a view;
    or its parts along the axis `without`."""
    layout_of_copy: Callable[[Any], Layout]
    """How a copy of an array lies in memory."""
    mask_of: Callable[[Any], Any]
    """`where=` as booleans, None where it lets everything through."""

    # -- numbers ----
    extent: Callable[[Extent], Any]
    """An extent as an int64 that the program knows when it runs."""
    number_of_extents: Callable[[Dim], Any]
    """A number that the function computes from extents, as a traced Python integer."""
    to_dtype: Callable[[Any, Any], Any]
    """An operand as exactly a dtype."""
    round_decimals: Callable[[Any, int], Any]
    """Python's round() of a float."""
    check_number: Callable[[Any, np.dtype[Any]], None]
    """The program fails if a number does not fit an integer dtype."""
    check_growth: Callable[[str, Any, Any], None]
    """The program fails if an operator's result on Python integers has more than 64 bits."""
    first_failure: Callable[[Any, Any], Any]
    """The failure noted before, or if there is none the greatest of those found."""
    type_of: Callable[[Any], type]
    """The class of what a traced value stands for."""
    wants_booleans: Callable[[], bool]
    """Whether the function that is traced tells True from other objects."""

    # -- primitives that rules of others use, on operands of one dtype and shape ----
    raw_add: Callable[[Any, Any], Any]
    raw_sub: Callable[[Any, Any], Any]
    raw_div: Callable[[Any, Any], Any]
    max: Callable[[Any, Any], Any]
    min: Callable[[Any, Any], Any]
    select: Callable[[Any, Any, Any], Any]
    full: Callable[[Any, Any], Any]
    stack: Callable[[Sequence[Any]], Any]
    reduce_sum: Callable[[Any, Sequence[int]], Any]
    reduce_any: Callable[[Any, Sequence[int]], Any]
    broadcast_in_dim: Callable[[Any, Any, tuple[int, ...]], Any]
    transpose: Callable[[Any, Sequence[int]], Any]
    update_slice: Callable[..., Any]


OPERATORS = _Operators()
