"""Matrices by their diagonals: triangles, the identity, diag and vander."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, Shape
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import as_extent, as_shape, at_least_none, reject, static_int
from tracejit.numpy.conversions import refuse_like
from tracejit.numpy.creation import default_float, in_order, zeros
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.primitives import creation as c, shape as p
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import select
from tracejit.support.dtypes import canonical
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.layout import AS_IS
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["diag", "diagflat", "eye", "identity", "tri", "tril", "triu", "vander"]


# -- triangles and diagonals
# ------------------------------------------------------------------------------------------------------------
def _below(rows: Extent, columns: Extent, k: int) -> Result:
    """bool[rows, columns]: on or below diagonal k."""
    shape = (rows, columns)
    i = c.iota(shape, 0, np.int64)
    return u.greater_equal(i if k == 0 else u.add(i, k), c.iota(shape, 1, np.int64))


def _diagonal_number(k: ArrayLike) -> int:
    far = 2**62  # no matrix has so many rows
    return max(-far, min(static_int(k, "the number of a diagonal"), far))


def tri(N: ArrayLike, M: ArrayLike = None, k: ArrayLike = 0, dtype: DTypeLike = float, *, like: Any = None) -> Result:
    """Ones on and below diagonal k, zeros above."""
    refuse_like(like)
    rows = at_least_none(as_extent(N))
    columns = rows if M is None else at_least_none(as_extent(M))
    return to_dtype(_below(rows, columns, _diagonal_number(k)), canonical(dtype))


def _triangle(m: ArrayLike, k: ArrayLike, below: bool) -> Result:
    x = array_of(m)
    have = aval(x)
    if have.ndim == 0:
        raise reject("a triangle needs an array with at least 1 axis")
    if have.ndim == 1:
        x = p.broadcast_in_dim(x, (have.shape[0], have.shape[0]), (1,))
        have = aval(x)
    number = _diagonal_number(k)
    mask = _below(have.shape[-2], have.shape[-1], number if below else number - 1)
    mask = p.broadcast_in_dim(mask, have.shape, (have.ndim - 2, have.ndim - 1))
    zero = have.dtype.type(0)
    return select(mask, x, zero) if below else select(mask, zero, x)


def tril(m: ArrayLike, k: ArrayLike = 0) -> Result:
    """The elements on and below diagonal k of the last two axes, zeros elsewhere."""
    return _triangle(m, k, True)


def triu(m: ArrayLike, k: ArrayLike = 0) -> Result:
    """The elements on and above diagonal k of the last two axes, zeros elsewhere."""
    return _triangle(m, k, False)


def eye(
    N: ArrayLike,
    M: ArrayLike = None,
    k: ArrayLike = 0,
    dtype: DTypeLike = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Result:
    """Ones on diagonal k of an N x M matrix, zeros elsewhere."""
    refuse_like(like, order)
    shape = as_shape((N, N if M is None else M))
    table = _on_diagonal(shape, _diagonal_number(k))
    return in_order(to_dtype(table, np.dtype(dtype if dtype is not None else float)), order)


def _on_diagonal(shape: Shape, k: int) -> Result:
    i = c.iota(shape, 0, np.int64)
    return u.equal(i if k == 0 else u.add(i, k), c.iota(shape, 1, np.int64))


def identity(n: ArrayLike, dtype: DTypeLike = None, *, like: Any = None) -> Result:
    """The n x n identity matrix."""
    return eye(n, dtype=dtype if dtype is not None else default_float(), like=like)


def diag(v: ArrayLike, k: ArrayLike = 0) -> Result:
    """The diagonal k of a matrix, or the matrix that has a vector on its diagonal k."""
    x = array_of(v)
    have = aval(x)
    number = _diagonal_number(k)
    if have.ndim == 2:
        from tracejit.numpy.linear import diagonal

        return diagonal(x, number)
    if have.ndim != 1:
        raise reject(f"np.diag takes an array of rank 1 or 2, not {have.ndim}")
    extent = have.shape[0] + builtins.abs(number)
    zero = have.dtype.type(0)
    if number:
        x = p.pad(x, zero, (0,) if number > 0 else (-number,), (number,) if number > 0 else (0,))
    row = p.broadcast_in_dim(x, (extent, extent), (0,))
    return select(_on_diagonal((extent, extent), number), row, zero)


def diagflat(v: ArrayLike, k: ArrayLike = 0) -> Result:
    """The matrix that has the elements of v, in C order, on its diagonal k."""
    return diag(ravel(v), k)


def vander(x: ArrayLike, N: ArrayLike = None, increasing: bool = False) -> Result:
    """Powers of x as columns, the highest first unless `increasing`."""
    x = array_of(x)
    have = aval(x)
    if have.ndim != 1:
        raise reject("np.vander takes an array of rank 1")
    count = int(have.shape[0] if N is None else as_extent(N))
    dtype = np.promote_types(have.dtype, np.int64)
    x = to_dtype(x, dtype)
    if count == 0:
        return zeros((have.shape[0], 0), dtype)
    table = p.broadcast_in_dim(x, (have.shape[0], count), (0,))
    ones_first = select(u.equal(c.iota((have.shape[0], count), 1, np.int64), 0), dtype.type(1), table)
    powers = cumulative("cumprod", ones_first, 1)
    return powers if increasing else p.reverse(powers, (1,))


for _function in (diag, diagflat, eye, identity, tri, tril, triu, vander):
    FUNCTIONS[getattr(np, _function.__name__)] = _function
AS_IS.update((diag, eye))
