"""Indices of the elements of arrays: of diagonals and triangles, in C order, of open meshes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, is_empty
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, as_shape, at_least_none, reject, same_shape, static_int
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast, to_dtype
from tracejit.numpy.reductions import any as any_of
from tracejit.numpy.shaping import array_of
from tracejit.primitives import creation as c, shape as p
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.failures import Raised
from tracejit.tracer.tables import FUNCTIONS

__all__ = [
    "diag_indices", "diag_indices_from", "ix_", "mask_indices", "ravel_multi_index", "tril_indices",
    "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip


# -- diagonals and triangles -------------------------------------------------------------------------------------------
def diag_indices(n: ArrayLike, ndim: int = 2) -> tuple[Result, ...]:
    """The indices of the main diagonal of an array with `ndim` axes of extent n: int64[n] for each axis.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.diag_indices(2)
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    line = c.iota((at_least_none(as_extent(n)),), 0, np.int64)
    return (line,) * static_int(ndim, "np.diag_indices' number of axes")


def diag_indices_from(arr: ArrayLike) -> tuple[Result, ...]:
    """The indices of the main diagonal of an array, whose axes have one extent.

    Raises: ShapeError for an array with fewer than 2 axes, or of several extents.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.diag_indices_from(np.zeros((2, 2)))
    (Array([0, 1], dtype=int64), Array([0, 1], dtype=int64))
    """
    have = aval(array_of(arr)).shape
    if len(have) < 2:
        raise reject("np.diag_indices_from: input array must be at least 2-d")
    if not same_shape(have, (have[0],) * len(have)) and any(n != have[0] for n in have):
        raise reject("np.diag_indices_from: all dimensions of input must be of equal length")
    return diag_indices(have[0], len(have))


def _triangle(n: ArrayLike, k: ArrayLike, m: ArrayLike, below: bool) -> tuple[Result, ...]:
    rows = static_int(n, "the number of rows of a triangle")
    columns = rows if m is None else static_int(m, "the number of columns of a triangle")
    number = static_int(k, "the number of a diagonal")
    made = np.tril_indices(rows, number, columns) if below else np.triu_indices(rows, number, columns)
    return tuple(made)


def tril_indices(n: ArrayLike, k: ArrayLike = 0, m: ArrayLike = None) -> tuple[Result, ...]:
    """The indices of the elements on and below diagonal k of an n x m matrix (n x n by default), in C order: int64.

    All three are known while tracing.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.tril_indices(2)
    (Array([0, 1, 1], dtype=int64), Array([0, 0, 1], dtype=int64))
    """
    return _triangle(n, k, m, True)


def triu_indices(n: ArrayLike, k: ArrayLike = 0, m: ArrayLike = None) -> tuple[Result, ...]:
    """The indices of the elements on and above diagonal k of an n x m matrix (n x n by default), in C order: int64.

    All three are known while tracing.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.triu_indices(2)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    return _triangle(n, k, m, False)


def _of_matrix(name: str, arr: ArrayLike) -> tuple[Extent, Extent]:
    have = aval(array_of(arr)).shape
    if len(have) != 2:
        raise reject(f"np.{name}: input array must be 2-d")
    return have[0], have[1]


def tril_indices_from(arr: ArrayLike, k: ArrayLike = 0) -> tuple[Result, ...]:
    """The indices of the elements on and below diagonal k of a matrix.  Raises: ShapeError for other ranks.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.tril_indices_from(np.zeros((2, 2)), -1)
    (Array([1], dtype=int64), Array([0], dtype=int64))
    """
    n, m = _of_matrix("tril_indices_from", arr)
    return _triangle(n, k, m, True)


def triu_indices_from(arr: ArrayLike, k: ArrayLike = 0) -> tuple[Result, ...]:
    """The indices of the elements on and above diagonal k of a matrix.  Raises: ShapeError for other ranks.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.triu_indices_from(np.zeros((2, 2)), 1)
    (Array([0], dtype=int64), Array([1], dtype=int64))
    """
    n, m = _of_matrix("triu_indices_from", arr)
    return _triangle(n, k, m, False)


def mask_indices(
    n: ArrayLike, mask_func: Callable[..., Any], k: Any = 0, *, size: ArrayLike = None
) -> tuple[Result, ...]:
    """Where `mask_func(ones, k)` of an n x n matrix of ones is not zero, as `nonzero` gives it.

    size: JAX's, as that of `nonzero`.

    >>> import numpy as np, tracejit as tj
    >>> tj.numpy.mask_indices(2, np.triu)
    (Array([0, 0, 1], dtype=int64), Array([0, 1, 1], dtype=int64))
    """
    rows = static_int(n, "np.mask_indices' number of rows")
    mask = u.not_equal(mask_func(np.ones((rows, rows), np.int64), k), 0)
    return FUNCTIONS[np.nonzero](mask) if size is None else FUNCTIONS[np.nonzero](mask, size=size)


# -- in C order --------------------------------------------------------------------------------------------------------
def _order(name: str, order: Any) -> bool:
    """Whether the first index varies fastest."""
    if order not in ("C", "F"):
        raise reject(f"np.{name}: only 'C' or 'F' order is permitted, not {order!r}")
    return order == "F"


def _index(name: str, x: ArrayLike) -> Result:
    y = array_of(x)
    if aval(y).dtype.kind not in "biu":
        raise DtypeError(f"np.{name}: {aval(y)} is not an index; only integers are", location=user_location())
    return to_dtype(y, np.int64)


def _extent(n: Extent) -> Result:
    return c.extent_value(n, np.int64) if isinstance(n, Dim) else n


def unravel_index(indices: ArrayLike, shape: ShapeLike, order: Any = "C") -> tuple[Result, ...]:
    """The index along each axis of a shape, of elements by their places in C order (or F): int64, of indices' shape.

    Raises: ValueError for a place outside; where that depends on values, the program does.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda i: np.unravel_index(i, (2, 3)))(np.array([1, 5]))
    (array([0, 1]), array([1, 2]))
    """
    fortran = _order("unravel_index", order)
    sizes = as_shape(shape)
    rest = _index("unravel_index", indices)
    count: Extent = 1
    for n in sizes:
        count = count * n
    outside = u.logical_or(u.less(rest, 0), u.greater_equal(rest, _extent(count)))
    check_none(outside, Raised(ValueError(f"an index is out of bounds for array with size {count}")))
    found: list[Any] = []
    for n in sizes if fortran else reversed(sizes):
        found.append(u.remainder(rest, _extent(n)))
        rest = u.floor_divide(rest, _extent(n))
    return tuple(found if fortran else reversed(found))


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: ShapeLike,
    mode: Any = "raise",
    order: Any = "C",
    *,
    dtype: DTypeLike = None,
) -> Result:
    """The places in C order (or F) of elements by their indices along each axis: int64, of the indices' common shape.

    mode: what an index outside of its axis does: "raise", "wrap" or "clip", one for all axes or for each.
    dtype: of the result.

    Raises: ValueError for an index outside with "raise"; where that depends on values, the program does.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda i, j: np.ravel_multi_index((i, j), (2, 3)))(np.array([0, 1]), np.array([1, 2]))
    array([1, 5])
    """
    fortran = _order("ravel_multi_index", order)
    sizes = as_shape(dims)
    given = list(multi_index) if isinstance(multi_index, (list, tuple)) else [x for x in array_of(multi_index)]
    if len(given) != len(sizes):
        raise reject(f"np.ravel_multi_index: {len(given)} indices for {len(sizes)} axes")
    modes = list(mode) if isinstance(mode, (list, tuple)) else [mode] * len(sizes)
    xs = [_index("ravel_multi_index", x) for x in given]
    xs = broadcast(xs, [aval(x).shape for x in xs])
    if any(map(is_empty, sizes)) and not any(map(is_empty, aval(xs[0]).shape)):
        raise reject("np.ravel_multi_index: an axis of the shape has no elements")
    inside = [_inside(x, n, how) for x, n, how in zip(xs, sizes, modes, strict=True)]
    found: Any = np.int64(0)
    for x, n in zip(*((inside[::-1], sizes[::-1]) if fortran else (inside, sizes)), strict=True):
        found = u.add(u.multiply(found, _extent(n)), x)
    return found if dtype is None else to_dtype(found, canonical(dtype))


def _inside(x: ArrayLike, n: Extent, mode: Any) -> Result:
    if mode == "clip":
        return u.minimum(u.maximum(x, 0), u.subtract(_extent(n), 1))
    if mode == "wrap":
        return u.remainder(x, _extent(n))
    if mode != "raise":
        raise reject(f"np.ravel_multi_index: clipmode must be one of 'clip', 'raise', or 'wrap', not {mode!r}")
    outside = any_of(u.logical_or(u.less(x, 0), u.greater_equal(x, _extent(n))))
    check_none(outside, Raised(ValueError("invalid entry in coordinates array")))
    return x


# -- meshes ------------------------------------------------------------------------------------------------------------
def ix_(*args: ArrayLike) -> tuple[Result, ...]:
    """Vectors as indices of the rectangle they span: each along an axis of its own; masks as the places they hold.

    Raises: ShapeError for an operand that is no vector.

    >>> import numpy as np, tracejit as tj
    >>> x = np.arange(6).reshape(2, 3)
    >>> tj.jit(lambda x: x[np.ix_([1], [0, 2])])(x)
    array([[3, 5]])
    """
    rank = len(args)
    found: list[Any] = []
    for d, given in enumerate(args):
        x = array_of(given)
        if aval(x).ndim != 1:
            raise reject("np.ix_: Cross index must be 1 dimensional")
        if aval(x).dtype.kind == "b":
            (x,) = FUNCTIONS[np.nonzero](x)
        elif aval(x).size == 0 and isinstance(given, (list, tuple, range)):
            x = np.zeros(0, np.int64)
        found.append(p.reshape(x, tuple([aval(x).shape[0] if e == d else 1 for e in range(rank)])))
    return tuple(found)


FUNCTIONS.update({
    np.diag_indices_from: diag_indices_from, np.tril_indices_from: tril_indices_from,
    np.triu_indices_from: triu_indices_from, np.unravel_index: unravel_index,
    np.ravel_multi_index: ravel_multi_index, np.ix_: ix_,
})  # fmt: skip
