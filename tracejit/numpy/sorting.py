"""Sorted arrays, and the order of their elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, has_count, is_empty
from tracejit.numpy.axes import axis_index, is_sequence, known, reject, static_array, unsupported
from tracejit.numpy.joining import concatenate, part
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.primitives import creation as c, sorting as s
from tracejit.primitives.shape import reverse
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, IndexLike, Result
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")
_SELECTIONS = ("introselect",)


def sort(
    a: ArrayLike,
    axis: AxisLike = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Result:
    """The elements in rising order along an axis (of the flattened array with None), NaN last.

    Every `kind` is stable.  `descending`, as JAX has it: in falling order, NaN first.  Same shape and dtype.
    Raises: ShapeError for an axis that is not there, UnsupportedError for `order` (fields).

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.sort(x))(np.array([3, 1, 2]))
    array([1, 2, 3])
    """
    x, k = _along("sort", a, axis, kind, order)
    if k is None:
        return x
    found = s.sort([x], k)[0]
    return reverse(found, (k,)) if descending else found


def sort_complex(a: ArrayLike) -> Result:
    """The elements in rising order along the last axis, as complex numbers: by real parts, then by imaginary ones.

    Integers of 8 and 16 bits are complex64, other real numbers complex128.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.sort_complex(x))(np.array([3.0, 1.0]))
    array([1.+0.j, 3.+0.j])
    """
    x = sort(a)
    dtype = aval(x).dtype
    if dtype.kind == "c":
        return x
    return to_dtype(x, np.dtype(np.complex64 if dtype.char in "bhBH" else np.complex128))


def argsort(
    a: ArrayLike,
    axis: AxisLike = -1,
    kind: Any = None,
    order: Any = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Result:
    """The places, as int64, of the elements in rising order along an axis (of the flattened array with None).

    Equal elements stay in order, whatever `kind` says; NaN comes last.  `descending`, as JAX has it: in falling order,
    NaN first; equal elements stay in order there too.
    Raises: ShapeError for an axis that is not there, UnsupportedError for `order` (fields).

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.argsort(x))(np.array([3, 1, 2]))
    array([1, 2, 0])
    """
    x, k = _along("argsort", a, axis, kind, order)
    if k is None:
        return np.zeros(1, np.int64)
    places = c.iota(aval(x).shape, k, np.int64)
    if not descending:
        return s.sort([x, places], k)[1]
    return reverse(s.sort([reverse(x, (k,)), reverse(places, (k,))], k)[1], (k,))


def partition(
    a: ArrayLike, kth: IndexLike, axis: AxisLike = -1, kind: str = "introselect", order: Any = None
) -> Result:
    """The elements along an axis (of the flattened array with None) in such an order that those at the places `kth`
    are where a sorted array has them, smaller ones before and greater ones behind.

    NumPy leaves the order of the others open.  Here the first ones rise; behind one place they fall, as JAX has it,
    and of several places all rise.  Same shape and dtype.
    Raises: ShapeError for a place or an axis that is not there, ConcretizationError for places that are computed,
    DtypeError for places that are no integers, UnsupportedError for `order` (fields).

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.partition(x, 1))(np.array([3, 1, 4, 2]))
    array([1, 2, 4, 3])
    """
    x, k = _along("partition", a, axis, kind, order, _SELECTIONS)
    if k is None or any(map(is_empty, aval(x).shape)):  # NumPy looks at no places then
        return x
    place = _checked_places("partition", kth, aval(x).shape[k])
    found = s.sort([x], k)[0]
    return found if place is None else _tail_changed(found, k, place, lambda t: reverse(t, (k,)))


def argpartition(
    a: ArrayLike, kth: IndexLike, axis: AxisLike = -1, kind: str = "introselect", order: Any = None
) -> Result:
    """The places, as int64, of the elements in an order that `partition` could give them.

    NumPy leaves the order of the others open.  Here the first ones are in rising order; behind one place they stay
    as they were, as JAX has it.
    Raises: as `partition`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.argpartition(x, 1))(np.array([3, 1, 4, 2]))
    array([1, 3, 0, 2])
    """
    x, k = _along("argpartition", a, axis, kind, order, _SELECTIONS)
    if k is None:
        return np.zeros(1, np.int64)
    if any(map(is_empty, aval(x).shape)):
        return c.iota(aval(x).shape, k, np.int64)
    place = _checked_places("argpartition", kth, aval(x).shape[k])
    found = s.sort([x, c.iota(aval(x).shape, k, np.int64)], k)[1]
    return found if place is None else _tail_changed(found, k, place, lambda t: s.sort([t], k)[0])


def _checked_places(name: str, kth: IndexLike, n: Extent) -> Extent | None:
    """The one place that `kth` names, counted from the first; None for several.  All of them exist."""
    places = static_array(kth, f"np.{name}'s kth")
    if places.dtype.kind not in "iu":
        raise DtypeError("Partition index must be integer", location=user_location())
    if places.ndim > 1:
        raise reject("kth array must have dimension <= 1")
    for place in places.ravel().tolist():
        # one that the program computes is not looked at
        if known(lambda place=place: not -n <= place < n, False) if has_count(n) else not -n <= place < n:
            raise reject(f"kth(={place}) out of bounds ({n})")
    if places.ndim:
        return None
    place = int(places)
    return place if place >= 0 else n + place


def _tail_changed(x: ArrayLike, axis: int, place: Extent, change: Any) -> Result:
    """x with the part behind a place along an axis changed."""
    n = aval(x).shape[axis]
    first, rest = part(x, axis, 0, place + 1), part(x, axis, place + 1, n - place - 1)
    return concatenate([first, change(rest)], axis)


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
    k = axis_index(operator.index(axis), max(len(shape), 1))  # numbers are sorted as vectors are
    if not shape:
        return np.int64(0)
    return s.sort([*arrays[::-1], c.iota(shape, k, np.int64)], k, len(arrays))[-1]


def _along(
    name: str, a: ArrayLike, axis: AxisLike, kind: Any, order: Any, kinds: Sequence[Any] = _KINDS
) -> tuple[Result, int | None]:
    """The array and the axis to sort along; no axis for a single element that counts as a vector."""
    if order is not None:
        raise unsupported(f"np.{name}: order= names fields, which arrays here do not have; leave it out")
    if kind not in kinds:
        *first, last = [repr(k) for k in kinds if k is not None]
        raise reject(f"np.{name}: kind is {', '.join(first)}{' or ' if first else ''}{last}, not {kind!r}")
    x = array_of(a)
    if axis is None:
        return ravel(x), 0
    rank = aval(x).ndim
    if rank == 0 and name.startswith("arg") and axis in (0, -1):
        return x, None
    return x, axis_index(axis, rank)


def _sort_in_place(
    x: ArrayLike, axis: AxisLike = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None
) -> None:
    if axis is None:
        raise reject("sort() in place needs an axis; use np.sort(x, axis=None)")
    OPERATORS.setitem(x, ..., sort(x, axis, kind, order, stable=stable))


def _partition_in_place(
    x: ArrayLike, kth: IndexLike, axis: AxisLike = -1, kind: str = "introselect", order: Any = None
) -> None:
    if axis is None:
        raise reject("partition() in place needs an axis; use np.partition(x, kth, axis=None)")
    OPERATORS.setitem(x, ..., partition(x, kth, axis, kind, order))


METHODS.update({
    "sort": _sort_in_place, "argsort": argsort, "partition": _partition_in_place, "argpartition": argpartition,
})  # fmt: skip
for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
