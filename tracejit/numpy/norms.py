"""Norms, powers and chains of products of `np.linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, is_empty
from tracejit.numpy import linear, reductions as r, shaping, ufuncs as u
from tracejit.numpy.axes import axis_index, axis_list, reject, static_int
from tracejit.numpy.decompositions import cond_of_singular_values, inv, singular_values, unchecked_inverse
from tracejit.numpy.powers import power
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import array_of, ravel
from tracejit.numpy.triangles import eye
from tracejit.primitives import shape as p
from tracejit.support.dtypes import real_dtype
from tracejit.support.errors import LinearAlgebraError
from tracejit.support.precision import PrecisionLike, check_precision
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, Result
from tracejit.tracer.layout import AS_IS, HANDED_BACK
from tracejit.tracer.tables import FUNCTIONS, OUT_CASTING

__all__ = [
    "cond",
    "cross",
    "diagonal",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "outer",
    "trace",
    "vector_norm",
]


def _floats(x: ArrayLike) -> Result:
    y = array_of(x)
    return y if aval(y).dtype.kind in "fc" else to_dtype(y, np.float64)


def _root(total: ArrayLike) -> Result:
    return u.sqrt(total)


def _vector(x: ArrayLike, order: Any, axis: AxisLike, keepdims: bool) -> Result:
    """The norm of a given order along axes."""
    if order is None or order == 2:
        return _root(r.sum(r.square_of_size(x), axis=axis, keepdims=keepdims))
    size = u.absolute(x)
    if order == np.inf:
        return r.max(size, axis=axis, keepdims=keepdims, initial=0)
    if order == -np.inf:
        return r.min(size, axis=axis, keepdims=keepdims)
    if order == 0:
        return r.sum(to_dtype(u.not_equal(x, 0), real_dtype(aval(x).dtype)), axis=axis, keepdims=keepdims)
    if order == 1:
        return r.sum(size, axis=axis, keepdims=keepdims)
    if isinstance(order, str):
        raise reject(f"np.linalg.norm: order {order!r} is for matrices")
    return power(r.sum(power(size, float(order)), axis=axis, keepdims=keepdims), 1.0 / float(order))


def _matrix(x: ArrayLike, order: Any, axes: tuple[int, int], keepdims: bool) -> Result:
    """The norm of a given order of the matrices in two axes."""
    rows, columns = axes
    if order is None or order in ("fro", "f"):
        return _root(r.sum(r.square_of_size(x), axis=axes, keepdims=keepdims))
    if order in (1, -1, np.inf, -np.inf):
        over, rest = (rows, columns) if order in (1, -1) else (columns, rows)
        sums = r.sum(u.absolute(x), axis=over, keepdims=True)
        # of no columns the greatest sum is 0, and there is no least one
        out = (
            r.max(sums, axis=rest, keepdims=True, initial=0)
            if order in (1, np.inf)
            else r.min(sums, axis=rest, keepdims=True)
        )
        have = aval(out).shape
        return out if keepdims else p.reshape(out, tuple([n for d, n in enumerate(have) if d not in axes]))
    if (isinstance(order, str) and order != "nuc") or order not in (2, -2, "nuc"):
        raise reject("Invalid norm order for matrices.")
    s = singular_values(shaping.moveaxis(x, axes, (-2, -1)))
    if order == "nuc":
        out = r.sum(s, axis=-1)
    else:
        out = r.max(s, axis=-1, initial=0) if order == 2 else r.min(s, axis=-1)
    rank = aval(x).ndim
    return p.reshape(out, tuple([1 if d in axes else aval(x).shape[d] for d in range(rank)])) if keepdims else out


def norm(x: ArrayLike, ord: Any = None, axis: AxisLike = None, keepdims: bool = False) -> Result:
    """The norm of vectors (one axis) or matrices (two axes); of all elements where neither order nor axes are given.

    Orders 2, -2 and "nuc" of matrices are of singular values.
    """
    y = _floats(x)
    rank = aval(y).ndim
    if axis is None:
        if ord is None or (ord in ("fro", 2) and rank == 2 and ord == "fro") or (ord == 2 and rank == 1):
            flat = _vector(ravel(y), None, None, False)
            return p.reshape(flat, (1,) * rank) if keepdims else flat
        axes = tuple(range(rank))
    else:
        axes = axis_list(axis, rank)
    if len(axes) == 1:
        return _vector(y, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix(y, ord, (axes[0], axes[1]), keepdims)
    raise reject(f"np.linalg.norm takes one axis or two, not {len(axes)}")


def vector_norm(x: ArrayLike, /, *, axis: AxisLike = None, keepdims: bool = False, ord: Any = 2) -> Result:
    """The norm of vectors in one axis, in several taken together, or of all elements."""
    y = _floats(x)
    rank = aval(y).ndim
    axes = tuple(range(rank)) if axis is None else axis_list(axis, rank)
    return _vector(y, ord, axes, keepdims)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Result:
    """The norm of the matrices in the last two axes."""
    y = _floats(x)
    rank = aval(y).ndim
    if rank < 2:
        raise reject("np.linalg.matrix_norm needs at least 2 axes")
    return _matrix(y, ord, (axis_index(-2, rank), axis_index(-1, rank)), keepdims)


def matrix_power(a: ArrayLike, n: ArrayLike) -> Result:
    """The n-th power of square matrices, n known while tracing, by repeated squaring; of the inverse for a negative n.
    The first power is the array itself.
    """
    x = array_of(a)
    have = aval(x)
    if have.ndim < 2 or have.shape[-1] != have.shape[-2]:
        raise reject(f"np.linalg.matrix_power takes square matrices, not shape {have.shape}")
    count = static_int(n, "np.linalg.matrix_power's exponent")
    if count < 0:
        x, count = inv(x), -count
    if count == 0:
        return shaping.broadcast_to(eye(have.shape[-1], dtype=have.dtype), have.shape)
    result: Any = None
    while count:
        if count & 1:
            result = x if result is None else linear.matmul(result, x)
        count >>= 1
        x = linear.matmul(x, x) if count else x
    return result


def cond(x: ArrayLike, p: Any = None) -> Result:
    """The condition number of matrices, by a norm: of singular values for p None, 2 and -2.   x: [.., m, n] -> [..]

    Raises: LinAlgError for empty matrices, and for other norms if they are not square.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.cond(a))(np.array([[4.0, 0.0], [0.0, 2.0]]))
    np.float64(2.0)
    """
    y = array_of(x)
    have = aval(y)
    if any(map(is_empty, have.shape)):
        raise LinearAlgebraError("cond is not defined on empty arrays", location=user_location())
    if p is None or p in (2, -2):
        out = cond_of_singular_values(y, p == -2)
    else:
        wide = to_dtype(y, np.float64)
        inverse = unchecked_inverse(y)
        out = to_dtype(u.multiply(norm(wide, p, (-2, -1)), norm(inverse, p, (-2, -1))), _floats(y).dtype)
    lost = u.logical_and(u.isnan(out), u.logical_not(r.any(u.isnan(y), axis=(-2, -1))))
    return u.where(lost, aval(out).dtype.type(np.inf), out)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Result:
    """np.linalg.outer, which unlike np.outer takes vectors only."""
    if aval(array_of(x1)).ndim != 1 or aval(array_of(x2)).ndim != 1:
        raise reject("np.linalg.outer takes two vectors; np.outer flattens")
    return linear.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Result:
    """np.linalg.cross, which unlike np.cross takes vectors of 3 only."""
    for x in (array_of(x1), array_of(x2)):
        if aval(x).shape[axis_index(axis, aval(x).ndim)] != 3:
            raise reject("np.linalg.cross takes vectors of 3 elements")
    return linear.cross(x1, x2, axis=axis)


def multi_dot(arrays: Sequence[ArrayLike], *, out: ArrayLike = None, precision: PrecisionLike = None) -> Result:
    """The product of a chain of matrices in the cheapest order, each in the dtype of its factors;
    a vector may stand at either end.   precision: changes nothing.
    """
    check_precision("np.linalg.multi_dot", precision)
    xs = [as_array(x) for x in arrays]
    if len(xs) < 2:
        raise reject("np.linalg.multi_dot takes at least two arrays")
    first, last = aval(xs[0]).ndim == 1, aval(xs[-1]).ndim == 1
    if first:
        xs[0] = p.reshape(xs[0], (1, *aval(xs[0]).shape))
    if last:
        xs[-1] = p.reshape(xs[-1], (*aval(xs[-1]).shape, 1))
    if any(aval(x).ndim != 2 for x in xs):
        raise reject("np.linalg.multi_dot takes matrices, and vectors at the ends")
    shapes = [aval(x).shape for x in xs]
    # In which order matters little where all are of one dtype: extents need not be known then.
    alike = len({aval(x).dtype for x in xs}) == 1 and not all(isinstance(n, int) for s in shapes for n in s)
    result = _from_left(xs) if alike else _chain(xs, [n for n, _ in shapes] + [shapes[-1][1]])
    have = aval(result).shape
    return p.reshape(result, have[1 if first else 0 : 1 if last else 2])


def _from_left(xs: Sequence[ArrayLike]) -> Result:
    out = xs[0]
    for x in xs[1:]:
        out = linear.matmul(out, x)
    return out


def _chain(xs: Sequence[ArrayLike], sizes: Sequence[Extent]) -> Result:
    """The product with the fewest multiplications.

    Source: the dynamic program over split points; of equal ones NumPy's choice.
    """
    n = len(xs)
    if n == 3:
        left = sizes[0] * sizes[2] * (sizes[1] + sizes[3]) < sizes[1] * sizes[3] * (sizes[0] + sizes[2])
        return _from_left(xs) if left else linear.matmul(xs[0], linear.matmul(xs[1], xs[2]))
    cost: list[list[Extent]] = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [(cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            cost[i][j], split[i][j] = min(options)

    def product(i: int, j: int) -> Result:
        return xs[i] if i == j else linear.matmul(product(i, split[i][j]), product(split[i][j] + 1, j))

    return product(0, n - 1)


def diagonal(x: ArrayLike, /, *, offset: ArrayLike = 0) -> Result:
    """np.linalg.diagonal: of the matrices along the last two axes."""
    return linear.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: ArrayLike = 0, dtype: DTypeLike = None) -> Result:
    """np.linalg.trace: of the matrices along the last two axes."""
    return linear.trace(x, offset, -2, -1, dtype)


AS_IS.add(diagonal)
HANDED_BACK.add(matrix_power)
FUNCTIONS.update({
    np.linalg.norm: norm, np.linalg.matrix_power: matrix_power, np.linalg.multi_dot: multi_dot,
    np.linalg.vector_norm: vector_norm, np.linalg.matrix_norm: matrix_norm,
    np.linalg.cond: cond, np.linalg.outer: outer, np.linalg.cross: cross, np.linalg.tensordot: linear.tensordot,
    np.linalg.matmul: linear.matmul, np.linalg.vecdot: linear.vecdot,
    np.linalg.matrix_transpose: shaping.matrix_transpose, np.linalg.diagonal: diagonal,
    np.linalg.trace: trace,
})  # fmt: skip
OUT_CASTING[multi_dot] = "equiv"
