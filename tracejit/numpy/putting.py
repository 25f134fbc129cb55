"""Functions that put values at places of an array: in place, or as a changed copy (`inplace=False`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import prod
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.assigning import updated
from tracejit.numpy.axes import axis_index, reject, same_extent, unsupported
from tracejit.numpy.bounds import Bounds
from tracejit.numpy.index_checks import check_safe_index
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, plain, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.primitives import creation as c, shape as p
from tracejit.primitives.indexing import gather
from tracejit.support.errors import DtypeError, IndexOutOfBounds, ShapeError, WriteError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, IndexLike, Result
from tracejit.tracer.cell import check_is_number
from tracejit.tracer.failures import Reason
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS, METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["place", "put", "put_along_axis"]


def handed_over(name: str, a: ArrayLike, new: ArrayLike, inplace: bool) -> Result:
    """A changed copy of an array; with `inplace` None, and the array has its elements.

    Raises: UnsupportedError in place for an array that is not traced, DtypeError for a number but in `put`, which
    changes an array that NumPy makes of it for the moment.
    """
    if not inplace:
        return new
    if isinstance(a, Tracer) and a.is_scalar:
        check_is_number(a)
        if name == "put" and not a.aval.weak:
            return None
        raise DtypeError(f"np.{name} changes an array, and was given a number", location=user_location())
    if not isinstance(a, Tracer):
        raise unsupported(
            f"np.{name} in traced code writes into arrays made inside the function or its arguments; this one is a "
            "constant, and inplace=False gives a changed copy"
        )
    OPERATORS.setitem(a, Ellipsis, new)
    return None


def put(a: ArrayLike, ind: IndexLike, v: ArrayLike, mode: str | None = "raise", *, inplace: bool = True) -> Result:
    """The elements at places of the flattened array set to values, which are repeated as often as it takes.

    mode: of places out of range: "raise" an error, "wrap" around, "clip" to the first and the last (-1 is the first);
    None counts from the end, then clips.  inplace: whether `a` is changed, or a changed copy is the result.
    Raises: IndexOutOfBounds, ShapeError for another mode, DtypeError for places that are no integers.
    Source: NumPy's put, JAX's `mode` and `inplace`.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.put(np.zeros(4), np.array([0, 2, -1]), np.array([5.0, 6.0]), inplace=False)
    Array([5., 0., 6., 5.], dtype=float64)
    """
    x = array_of(a)
    have, places = aval(x), array_of(ind)
    values = to_dtype(_values(plain(v), have.dtype), have.dtype)
    if not aval(places).size and not isinstance(places, Tracer):
        places = np.zeros(aval(places).shape, np.int64)
    check_safe_index("np.put", places)
    places = p.reshape(to_dtype(places, np.int64), (aval(places).size,))
    values = p.reshape(values, (aval(values).size,))
    size = have.size
    bounds: Bounds | None = None
    if mode == "wrap":
        places = u.remainder(places, OPERATORS.extent(size))
    elif mode in ("clip", None):
        bounds = Bounds(clip=True, wrap=mode is None)
    elif mode != "raise":
        raise reject(f"np.put: mode is 'raise', 'wrap' or 'clip', not {mode!r}")
    if _is_none(places) or _is_none(values):
        return handed_over("put", a, x, inplace)
    if _is_none(x):
        raise IndexOutOfBounds("np.put: the array has no elements to replace", location=user_location())
    new = updated(p.reshape(x, (size,)), places, _repeated(values, aval(places).shape[0]), True, bounds)
    return handed_over("put", a, p.reshape(new, have.shape), inplace)


def _values(given: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """What is stored: numbers in a list have to fit the dtype, as single ones do."""
    return FUNCTIONS[np.array](given, dtype) if isinstance(given, (list, tuple)) else as_array(given)


def _repeated(values: ArrayLike, count: Any) -> Result:
    """So many elements of a vector, from its first on again and again."""
    have = aval(values).shape[0]
    if same_extent(have, count):
        return values
    return gather(values, (0,), [u.remainder(c.iota((count,), 0, np.int64), OPERATORS.extent(have))])


def _is_none(x: ArrayLike) -> bool:
    """Whether an array certainly has no element."""
    return any(isinstance(n, int) and n == 0 for n in aval(x).shape)


def put_along_axis(
    arr: ArrayLike,
    indices: IndexLike,
    values: ArrayLike,
    axis: AxisLike,
    inplace: bool = True,
    *,
    mode: Any = None,
) -> Result:
    """arr[.., indices[.., i, ..], ..] = values[.., i, ..] along one axis (of the flattened array with None); the other
    axes of the three are broadcast.

    mode: what becomes of indices out of range (`tj.lax.GatherScatterMode`); by default they are an error.  inplace:
    whether `arr` is changed, or a changed copy is the result.
    Raises: IndexOutOfBounds, ShapeError for arrays of other ranks or an axis that is not there.
    Source: NumPy's put_along_axis, JAX's `mode` and `inplace`.

    >>> import numpy as np, tracejit as tj
    >>> x = np.array([[10, 30, 20], [60, 40, 50]])
    >>> tj.numpy.put_along_axis(x, np.argmax(x, 1)[:, None], 99, axis=1, inplace=False)
    Array([[10, 99, 20],
           [99, 40, 50]], dtype=int64)
    """
    x, places = array_of(arr), array_of(indices)
    have = aval(x).shape
    bounds = None if mode is None else Bounds.of(mode, reads=False)
    if axis is None:
        if aval(places).ndim != 1:
            raise reject("np.put_along_axis: without an axis the indices are a vector")
        if inplace and isinstance(arr, Tracer) and x.ndim and _is_copied(ravel(x)):
            raise WriteError(
                "np.put_along_axis: without an axis an array that does not lie in C order is read-only, in NumPy too; "
                "use np.put(x, indices, values)",
                location=user_location(),
            )
        new = updated(p.reshape(x, (prod(have),)), places, to_dtype(as_array(values), aval(x).dtype), True, bounds)
        return handed_over("put_along_axis", arr, p.reshape(new, have), inplace)
    rank = len(have)
    if aval(places).ndim != rank:
        raise reject(f"np.put_along_axis: arrays of rank {rank} and {aval(places).ndim}")
    k = axis_index(axis, rank)
    lines = lines_along(have, k)
    lines[k] = places
    new = updated(x, tuple(lines), to_dtype(as_array(values), aval(x).dtype), True, bounds)
    return handed_over("put_along_axis", arr, new, inplace)


def _is_copied(flat: ArrayLike) -> bool:
    """Whether the elements of an array along one axis are a copy, and no view."""
    return isinstance(flat, Tracer) and flat.root is None


def lines_along(shape: Any, axis: int) -> list[Any]:
    """Index arrays that name each place along the other axes."""
    rank = len(shape)
    return [
        None if d == axis else c.iota(tuple([n if e == d else 1 for e in range(rank)]), d, np.int64)
        for d, n in enumerate(shape)
    ]


_NO_VALUES = Reason(ShapeError, "np.place: there are no values to put")


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Result:
    """The elements for which a mask of as many holds set to values, one after another, repeated as often as it takes.

    inplace: whether `arr` is changed, or a changed copy is the result.
    Raises: ShapeError for a mask of another size, or no values.   Source: NumPy's place, JAX's `inplace`.

    >>> import numpy as np, tracejit as tj
    >>> x = np.arange(5)
    >>> tj.numpy.place(x, x % 2 == 0, np.array([-1, -2]), inplace=False)
    Array([-1,  1, -2,  3, -1], dtype=int64)
    """
    x, test = array_of(arr), u.not_equal(as_array(mask), 0)
    have = aval(x)
    if vals is arr and inplace:
        raise unsupported("np.place of an array's own elements, which NumPy reads while it changes them")
    values = _values(vals, have.dtype)
    listed = isinstance(vals, (list, tuple, np.generic)) or (isinstance(vals, Tracer) and vals.is_scalar)
    listed = listed or aval(values).weak
    if not listed and not np.can_cast(aval(values).dtype, have.dtype):
        raise DtypeError(
            f"np.place: {aval(values)} cannot be cast to {have.dtype} by the rule 'safe'", location=user_location()
        )
    values = to_dtype(values, have.dtype)
    values = p.reshape(values, (aval(values).size,))
    if _is_none(values):
        check_none(test, _NO_VALUES)
        return handed_over("place", arr, x, inplace)
    if not aval(test).size == have.size:
        raise reject(f"np.place: a mask of shape {aval(test).shape} is given for an array of shape {have.shape}")
    flat = p.reshape(test, (have.size,))
    number = u.subtract(r.cumsum(flat, dtype=np.int64), 1)
    which = u.remainder(number, OPERATORS.extent(aval(values).shape[0]))
    new = u.where(flat, gather(values, (0,), [which]), p.reshape(x, (have.size,)))
    return handed_over("place", arr, p.reshape(new, have.shape), inplace)


def _put_method(x: ArrayLike, indices: IndexLike, values: ArrayLike, mode: str = "raise") -> None:
    put(x, indices, values, mode)


METHODS["put"] = _put_method
for _name in __all__:
    FUNCTIONS[getattr(np, _name)] = globals()[_name]
