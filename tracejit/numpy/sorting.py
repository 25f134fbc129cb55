"""Sorted arrays, and the order of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.numpy.axes import axis_index, is_sequence, reject, unsupported
from tracejit.numpy.promotion import aval
from tracejit.numpy.shaping import array_of, ravel
from tracejit.primitives import creation as c, sorting as s
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS

__all__ = ["argsort", "lexsort", "sort"]

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def sort(
    a: ArrayLike, axis: AxisLike = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
) -> Result:
    """The elements in rising order along an axis (of the flattened array with None), NaN last.

    Every `kind` is a stable merge sort.  Same shape and dtype.
    Raises: ShapeError for an axis that is not there, UnsupportedError for `order` (fields).

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.sort(x))(np.array([3, 1, 2]))
    array([1, 2, 3])
    """
    x, k = _along("sort", a, axis, kind, order)
    return x if k is None else s.sort([x], k)[0]


def argsort(
    a: ArrayLike, axis: AxisLike = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
) -> Result:
    """The places, as int64, of the elements in rising order along an axis (of the flattened array with None).

    Equal elements stay in order, whatever `kind` says; NaN comes last.
    Raises: ShapeError for an axis that is not there, UnsupportedError for `order` (fields).

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.argsort(x))(np.array([3, 1, 2]))
    array([1, 2, 0])
    """
    x, k = _along("argsort", a, axis, kind, order)
    if k is None:
        return np.zeros(1, np.int64)
    return s.sort([x, c.iota(aval(x).shape, k, np.int64)], k)[1]


def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Result:
    """The places, as int64, of elements in the order of several keys of one shape, the last of which decides first.

    Raises: ShapeError for no keys, other shapes, or an axis that is not there.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: np.lexsort((x, y)))(np.array([2, 1, 0]), np.array([1, 1, 0]))
    array([2, 1, 0])
    """
    if not is_sequence(keys):
        raise reject("np.lexsort: the keys are a sequence")
    arrays = [array_of(x) for x in keys]
    if not arrays:
        raise reject("np.lexsort: there are no keys")
    shape = aval(arrays[0]).shape
    if any(aval(x).shape != shape for x in arrays):
        raise reject("np.lexsort: the keys differ in shape")
    if not shape:
        return np.int64(0)
    k = axis_index(axis, len(shape))
    return s.sort([*arrays[::-1], c.iota(shape, k, np.int64)], k, len(arrays))[-1]


def _along(name: str, a: ArrayLike, axis: AxisLike, kind: Any, order: Any) -> tuple[Result, int | None]:
    """The array and the axis to sort along; no axis for a single element that counts as a vector."""
    if order is not None:
        raise unsupported(f"np.{name}: order= names fields, which arrays here do not have; leave it out")
    if kind not in _KINDS:
        raise reject(f"np.{name}: kind is 'quicksort', 'mergesort', 'heapsort' or 'stable', not {kind!r}")
    x = array_of(a)
    if axis is None:
        return ravel(x), 0
    rank = aval(x).ndim
    if rank == 0 and name == "argsort" and axis in (0, -1):
        return x, None
    return x, axis_index(axis, rank)


def _sort_in_place(
    x: ArrayLike, axis: AxisLike = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
) -> None:
    if axis is None:
        raise reject("sort() in place needs an axis; use np.sort(x, axis=None)")
    OPERATORS.setitem(x, ..., sort(x, axis, kind, order, stable=stable))


METHODS.update({"sort": _sort_in_place, "argsort": argsort})
for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
