"""What lower layers ask of higher ones while they trace: NumPy's meaning of an index, an extent as a number,
a sum of cotangents.

Each layer that is asked has one class here, which lists its functions, and one place where it provides them, all at
once: `primitives` when the package is imported, NumPy's names in `numpy/operators.py`, before anything is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tracejit.support.errors import InternalError
from tracejit.support.nodes import define, fields_of

if TYPE_CHECKING:
    import numpy as np

    from tracejit.ir.extents import Dim, Extent
    from tracejit.tracer.layout import Layout

__all__ = ["ARITHMETIC", "OPERATORS", "PRIMITIVES", "NumPy", "Primitives", "provide"]


@define(eq=False)
class Primitives:
    """Primitives that the tracer, and rules of other families, use.  Operands have one dtype and shape."""

    add: Callable[[Any, Any], Any]
    sub: Callable[[Any, Any], Any]
    select: Callable[[Any, Any, Any], Any]
    full: Callable[[Any, Any], Any]
    reduce_sum: Callable[[Any, Sequence[int]], Any]
    broadcast_in_dim: Callable[[Any, Any, tuple[int, ...]], Any]
    transpose: Callable[[Any, Sequence[int]], Any]
    update_slice: Callable[..., Any]
    cumulative: Callable[..., Any]
    product_by_segments: Callable[..., Any]


@define(eq=False)
class NumPy:
    """NumPy's meaning of what Python asks of arrays.  Arrays are traced or NumPy's, numbers Python's or of either."""

    # -- indexing, and views ----
    getitem: Callable[..., Any]
    """(x, index): x[index], a view for basic indices."""
    setitem: Callable[..., None]
    """(x, index, value, casting="unsafe"): a new value for the cell x."""
    assign: Callable[[Any, Any, Any], None]
    """The statement `x[index] = value`."""
    set_flat: Callable[[Any, Any], None]
    """The statement `x.flat = value`."""
    set_part: Callable[[Any, str, Any], None]
    """(x, name, value): the statements `x.real = value` and `x.imag = value`."""
    read_view: Callable[[Any, Any], Any]
    """The view of x at an index that is resolved, with its present value."""
    view_of: Callable[[Any, Any], Any]
    """The view of a NumPy array at an index that is resolved, None if it is not known."""
    layout: Callable[..., Layout]
    """(x, without=None): how an array lies in memory, also one that is a view;
    or its parts along the axis `without`."""
    layout_of_copy: Callable[[Any], Layout]
    """How a copy of an array lies in memory."""
    mask_of: Callable[[Any], Any]
    """`where=` as booleans, None where it lets everything through."""
    stack: Callable[[Sequence[Any]], Any]
    """Arrays of one shape, stacked along a new first axis."""

    # -- numbers ----
    extent: Callable[[Extent], Any]
    """An extent as an int64 that the program knows when it runs."""
    number_of_extents: Callable[[Dim], Any]
    """A number that the function computes from extents, as a traced Python integer."""
    to_dtype: Callable[[Any, Any], Any]
    """An operand as exactly a dtype."""
    floats: Callable[..., list[Any]]
    """(*operands): in the floating-point dtype that holds all of them."""
    round_decimals: Callable[[Any, int], Any]
    # of a real and an imaginary part
    make_complex: Callable[[Any, Any], Any]
    """Python's round() of a float."""
    check_number: Callable[[Any, np.dtype[Any]], None]
    """The program fails if a number does not fit an integer dtype."""
    check_growth: Callable[[str, Any, Any], None]
    """The program fails if an operator's result on Python integers has more than 64 bits."""
    check_none: Callable[[Any, Any], None]
    """(wrong, reason): the program fails for a reason if an element of `wrong` holds."""
    may_be_caught: Callable[..., bool]
    """(names): whether an `except` for these classes of errors is around."""
    refuse_if_caught: Callable[..., None]
    """(kind, name, by=, numbers=): an error may leave the program, or is one that Python alone raises."""
    check_mixed: Callable[[Any], None]
    """(wrong): the program fails where `wrong` holds, as a mixed number is Python's and its dtype was used."""
    first_failure: Callable[[Any, Any], Any]
    """The failure noted before, or if there is none the greatest of those found."""


PRIMITIVES: Primitives = object.__new__(Primitives)
OPERATORS: NumPy = object.__new__(NumPy)
ARITHMETIC: dict[str, Callable[..., Any]] = {}
"""Python's operators by the names of their methods ("add", "eq", "invert", ...) to NumPy's functions."""

T = TypeVar("T")


def provide(place: T, functions: T) -> None:
    """Fill a layer's place with its functions.  Raises InternalError where that is done already."""
    for field in fields_of(type(place)):
        if hasattr(place, field.name):
            raise InternalError(f"the functions of {type(place).__name__} are provided twice")
        setattr(place, field.name, getattr(functions, field.name))
