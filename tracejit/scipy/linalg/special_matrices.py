"""Matrices that follow from a vector, or from a number that is known while tracing."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent, is_one
from tracejit.numpy import complex_parts, joining, shaping, ufuncs as u
from tracejit.numpy.axes import is_zero, reject, static_int
from tracejit.numpy.creation import zeros
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import matrix_loops as m, shape as p
from tracejit.primitives.creation import iota
from tracejit.primitives.indexing import gather
from tracejit.primitives.slicing import update_slice
from tracejit.scipy.linalg.operands import broadcast_over, column, together
from tracejit.support.dtypes import canonical
from tracejit.support.errors import ForbiddenValue, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.operators import OPERATORS

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "diagsvd", "fiedler", "fiedler_companion",
    "hadamard", "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "khatri_rao", "leslie", "pascal",
    "toeplitz",
]  # fmt: skip

_ZERO_FIRST = Reason(ForbiddenValue, "The first coefficient(s) of `a` (i.e. elements of `a[..., 0]`) must not be zero.")
_ZERO_LEADING = Reason(ForbiddenValue, "Leading coefficient is zero.")


def _vector(x: ArrayLike) -> Result:
    """An operand of one axis at least."""
    y = array_of(x)
    return y if aval(y).ndim else p.reshape(y, (1,))


def _indices(rows: Extent, columns: Extent) -> tuple[Result, Result]:
    return iota((rows, columns), 0, np.int64), iota((rows, columns), 1, np.int64)


def _at(x: ArrayLike, place: ArrayLike) -> Result:
    """x[.., place[i, j]]"""
    rank = aval(x).ndim
    if rank == 1:
        return gather(x, (0,), [place])
    moved = p.transpose(x, (rank - 1, *range(rank - 1)))
    found = gather(moved, (0,), [place])
    return p.transpose(found, (*range(2, rank + 1), 0, 1))


# -- of vectors --------------------------------------------------------------------------------------------------------
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Result:
    """The matrix whose first column is c and whose first row is r, constant along diagonals.
    c: [.., m], r: [.., n] -> [.., m, n]

    r: by default c's conjugate; its first element does not count.
    Source: SciPy's scipy.linalg.toeplitz.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.toeplitz(np.array([1, 2]), np.array([1, 8, 9]))
    Array([[1, 8, 9],
           [2, 1, 8]], dtype=int64)
    """
    first = _vector(c)
    row = complex_parts.conjugate(first) if r is None else _vector(r)
    first, row = together((first, 1), (row, 1))
    rows, columns = aval(first).shape[-1], aval(row).shape[-1]
    i, j = _indices(rows, columns)
    if is_zero(rows) or is_zero(columns):
        dtype = np.result_type(aval(first).dtype, aval(row).dtype)
        return m.zeros((*aval(first).shape[:-1], rows, columns), dtype)
    rest = joining.part(row, aval(row).ndim - 1, 1, columns - 1)
    values = joining.concatenate([p.reverse(first, (aval(first).ndim - 1,)), rest], -1)
    return _at(values, u.add(u.subtract(j, i), array_of(rows - 1)))


def circulant(c: ArrayLike) -> Result:
    """The matrix whose columns are c, each turned by one more place than the one before.   c: [.., n] -> [.., n, n]

    Source: SciPy's scipy.linalg.circulant.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.circulant(np.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int64)
    """
    x = _vector(c)
    n = aval(x).shape[-1]
    i, j = _indices(n, n)
    place = u.subtract(i, j)
    return _at(x, u.where(u.less(place, 0), u.add(place, array_of(n)), place))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Result:
    """The matrix whose first column is c and whose last row is r, constant along the other diagonals.
    c: [m], r: [n] -> [m, n]

    r: by default zeros; its first element does not count.

    Raises: UnsupportedError for arrays of several axes, which SciPy flattens and JAX takes for several vectors.
    Source: SciPy's scipy.linalg.hankel.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.hankel(np.array([1, 2]), np.array([2, 8, 9]))
    Array([[1, 2, 8],
           [2, 8, 9]], dtype=int64)
    """
    first = _vector(c)
    row = zeros(aval(first).shape, aval(first).dtype) if r is None else _vector(r)
    if aval(first).ndim > 1 or aval(row).ndim > 1:
        raise UnsupportedError(
            "scipy.linalg.hankel takes vectors here; flatten the arrays (x.ravel()), or map it over several vectors "
            "with tj.vmap",
            location=user_location(),
        )
    rows, columns = aval(first).shape[-1], aval(row).shape[-1]
    if is_zero(rows) or is_zero(columns):
        return m.zeros((rows, columns), np.result_type(aval(first).dtype, aval(row).dtype))
    i, j = _indices(rows, columns)
    values = joining.concatenate([first, joining.part(row, 0, 1, columns - 1)], -1)
    return _at(values, u.add(i, j))


def companion(a: ArrayLike) -> Result:
    """The companion matrix of a polynomial with coefficients a, the highest power first.   a: [.., n] -> [.., n-1, n-1]

    Raises: ValueError if the first coefficient is zero, when the program has run; ShapeError for less than two.
    Source: SciPy's scipy.linalg.companion.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.companion(np.array([1.0, -10.0, 31.0]))
    Array([[ 10., -31.],
           [  1.,   0.]], dtype=float64)
    """
    x = _vector(a)
    shape = aval(x).shape
    n, rank = shape[-1], len(shape)
    if not n >= 2:
        raise reject("The length of `a` along the last axis must be at least 2.")
    first = joining.part(x, rank - 1, 0, 1)
    check_none(u.equal(first, 0), _ZERO_FIRST)
    row = u.divide(u.negative(joining.part(x, rank - 1, 1, n - 1)), u.multiply(1.0, first))
    return _with_first_row(row, lambda i, j: u.equal(i, u.add(j, 1)))


def _with_first_row(row: ArrayLike, below: Any) -> Result:
    """Square matrices of a first row, with ones where `below` holds."""
    shape = aval(row).shape
    n = shape[-1]
    i, j = _indices(n, n)
    rest = to_dtype(below(i, j), aval(row).dtype)
    rest = broadcast_over(rest, shape[:-1], 2)
    wide = p.broadcast_in_dim(row, (*shape, n), (*range(len(shape) - 1), len(shape)))
    return u.where(u.equal(i, 0), wide, rest)


def leslie(f: ArrayLike, s: ArrayLike) -> Result:
    """Leslie's matrix of fecundities f, its first row, and survivals s, below the diagonal.
    f: [.., n], s: [.., n-1] -> [.., n, n]

    Raises: ShapeError for other lengths.
    Source: SciPy's scipy.linalg.leslie.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.leslie(np.array([0.1, 2.0]), np.array([0.5]))
    Array([[0.1, 2. ],
           [0.5, 0. ]], dtype=float64)
    """
    births, survivals = _vector(f), _vector(s)
    n, k = aval(births).shape[-1], aval(survivals).shape[-1]
    if n != k + 1:
        raise reject(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f."
        )
    if is_zero(k):
        raise reject("The length of s must be at least 1.")
    dtype = np.result_type(aval(births).dtype, aval(survivals).dtype)
    births, survivals = together((to_dtype(births, dtype), 1), (to_dtype(survivals, dtype), 1))
    shape = aval(births).shape
    i, j = _indices(n, n)
    wide = p.broadcast_in_dim(births, (*shape, n), (*range(len(shape) - 1), len(shape)))
    none = [0] * (len(shape) - 1)
    padded = p.pad(survivals, dtype.type(0), [0] * len(shape), [*none, 1])
    lower = p.broadcast_in_dim(padded, (*shape, n), (*range(len(shape) - 1), len(shape)))
    zero = dtype.type(0)
    return u.where(u.equal(i, 0), wide, u.where(u.equal(i, u.add(j, 1)), lower, zero))


def fiedler(a: ArrayLike) -> Result:
    """Fiedler's matrix abs(a[i] - a[j]).   a: [.., n] -> [.., n, n]

    Source: SciPy's scipy.linalg.fiedler.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.fiedler(np.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int64)
    """
    x = _vector(a)
    shape = aval(x).shape
    if len(shape) == 1 and is_zero(shape[0]):
        return m.zeros((0,), np.dtype(np.float64))
    if len(shape) == 1 and is_one(shape[0]):
        return m.zeros((1, 1), np.dtype(np.float64))
    return u.absolute(u.subtract(column(x), p.reshape(x, (*shape[:-1], 1, shape[-1]))))


def fiedler_companion(a: ArrayLike) -> Result:
    """Fiedler's companion matrix of a polynomial with coefficients a, the highest power first, with five diagonals.
    a: [.., n] -> [.., n-1, n-1]

    Raises: ValueError if the first coefficient is zero, when the program has run.
    Source: SciPy's scipy.linalg.fiedler_companion.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.fiedler_companion(np.array([1.0, -16.0, 86.0]))
    Array([[ 16., -86.],
           [  1.,   0.]], dtype=float64)
    """
    x = _vector(a)
    *lead, count = aval(x).shape
    n = static_int(count, "the number of coefficients") - 1
    if n < 1:
        return m.zeros((*lead, 0, 0) if lead else (0,), aval(x).dtype)  # several are JAX's, which are matrices
    first = joining.part(x, len(lead), 0, 1)
    if n > 1:
        check_none(u.equal(first, 0), _ZERO_LEADING)
    x = u.divide(x, first)
    if n == 1:
        return u.negative(p.reshape(joining.part(x, len(lead), 1, 1), (*lead, 1, 1)))
    # which coefficient stands at a place, with its sign turned; 0 for none, -1 for a one
    coefficient = np.zeros((n, n), int)
    coefficient[range(3, n, 2), range(1, n - 2, 2)] = -1
    coefficient[range(2, n, 2), range(1, n - 1, 2)] = range(3, n + 1, 2)
    coefficient[range(0, n - 2, 2), range(2, n, 2)] = -1
    coefficient[range(0, n - 1, 2), range(1, n, 2)] = range(2, n + 1, 2)
    coefficient[[0, 1], 0] = [1, -1]
    found = u.negative(OPERATORS.getitem(x, (..., np.maximum(coefficient, 0))))
    dtype = aval(x).dtype
    return u.where(coefficient > 0, found, (coefficient < 0).astype(dtype))


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Result:
    """The matrix A with A @ x == np.convolve(a, x, mode) for x of n elements.   a: [.., m] -> [.., k, n]

    Raises: ShapeError unless n is positive, for an a without elements and other modes.
    Source: SciPy's scipy.linalg.convolution_matrix.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.convolution_matrix(np.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int64)
    """
    count = static_int(n, "scipy.linalg.convolution_matrix's n")
    if count <= 0:
        raise reject("n must be a positive integer.")
    x = array_of(a)
    if any(is_zero(k) for k in aval(x).shape):
        raise reject("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise reject("'mode' argument must be one of ('full', 'valid', 'same')")
    x = _vector(x)
    shape = aval(x).shape
    size, rank = shape[-1], len(shape)
    none = [0] * (rank - 1)
    padded = p.pad(x, aval(x).dtype.type(0), [*none, count - 1], [*none, count - 1])
    if mode == "full":
        start, rows = 0, size + count - 1
    else:
        least = min(count, static_int(size, "the number of elements"))
        trim = least - 1
        start = trim if mode == "valid" else trim // 2
        rows = size + count - 1 - (2 * trim if mode == "valid" else trim)
    i, j = _indices(rows, count)
    return _at(padded, u.add(u.subtract(i, j), start + count - 1))


def diagsvd(s: ArrayLike, M: int, N: int) -> Result:
    """The matrix of M rows and N columns with s on its diagonal.   s: [.., k] -> [.., M, N]

    Raises: ShapeError unless s has M or N elements.
    Source: SciPy's scipy.linalg.diagsvd.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.diagsvd(np.array([2, 3]), 2, 3)
    Array([[2, 0, 0],
           [0, 3, 0]], dtype=int64)
    """
    x = _vector(s)
    *lead, k = aval(x).shape
    if k not in (M, N) or not k <= M or not k <= N:
        raise reject("Length of s must be M or N.")
    wide = (*lead, M, N)
    rank = len(wide)
    none = [0] * len(lead)
    padded = p.pad(x, aval(x).dtype.type(0), [0] * (rank - 1), [*none, M - k])
    spread = p.broadcast_in_dim(padded, wide, tuple(range(rank - 1)))
    i, j = _indices(M, N)
    return u.where(u.equal(i, j), spread, aval(x).dtype.type(0))


def block_diag(*arrs: ArrayLike) -> Result:
    """The matrix with these matrices on its diagonal, and zeros beside them.   arrs: [.., m, n], or vectors as rows

    Source: SciPy's scipy.linalg.block_diag.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.block_diag(np.array([[1]]), np.array([2, 3]))
    Array([[1, 0, 0],
           [0, 2, 3]], dtype=int64)
    """
    if not arrs:
        return m.zeros((1, 0), np.dtype(np.float64))
    blocks = [shaping.atleast_2d(array_of(x)) for x in arrs]
    dtype = np.result_type(*[aval(x).dtype for x in blocks])
    blocks = together(*[(to_dtype(x, dtype), 2) for x in blocks])
    lead = aval(blocks[0]).shape[:-2]
    rows: Extent = sum((aval(x).shape[-2] for x in blocks[1:]), aval(blocks[0]).shape[-2])
    columns: Extent = sum((aval(x).shape[-1] for x in blocks[1:]), aval(blocks[0]).shape[-1])
    out = m.zeros((*lead, rows, columns), dtype)
    top: Extent = 0
    left: Extent = 0
    for x in blocks:
        height, width = aval(x).shape[-2:]
        if not is_zero(height) and not is_zero(width):
            out = update_slice(out, x, (*[0] * len(lead), top, left))
        top, left = top + height, left + width
    return out


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Result:
    """The Kronecker products of the columns of two matrices.   a: [.., m, k], b: [.., n, k] -> [.., m * n, k]

    Raises: ShapeError for other shapes.
    Source: SciPy's scipy.linalg.khatri_rao.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.khatri_rao(np.array([[1, 2]]), np.array([[3, 4], [5, 6]]))
    Array([[ 3,  8],
           [ 5, 12]], dtype=int64)
    """
    x, y = array_of(a), array_of(b)
    if aval(x).ndim < 2 or aval(y).ndim < 2:
        raise reject("The both arrays should be 2-dimensional.")
    if aval(x).shape[-1] != aval(y).shape[-1]:
        raise reject("The number of columns for both arrays should be equal.")
    x, y = together((x, 2), (y, 2))
    *lead, rows, k = aval(x).shape
    others = aval(y).shape[-2]
    both = u.multiply(p.reshape(x, (*lead, rows, 1, k)), p.reshape(y, (*lead, 1, others, k)))
    return p.reshape(both, (*lead, rows * others, k))


# -- of a number -------------------------------------------------------------------------------------------------------
def _number(n: Any, name: str) -> int:
    return static_int(n, f"scipy.linalg.{name}'s n")


def hilbert(n: int) -> Result:
    """Hilbert's matrix 1 / (i + j + 1) of n rows, n known while tracing.   Source: SciPy's scipy.linalg.hilbert.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333333]], dtype=float64)
    """
    k = np.arange(_number(n, "hilbert"))
    return 1.0 / (1.0 + (k[:, None] + k))


def _beyond(name: str, n: int, most: int) -> UnsupportedError:
    return UnsupportedError(
        f"scipy.linalg.{name}: exact=True gives Python's integers for n={n}, which a program has not; they fit up to "
        f"{most}, and exact=False gives floating-point numbers",
        location=user_location(),
    )


def invhilbert(n: int, exact: bool = False) -> Result:
    """The inverse of Hilbert's matrix, rounded once; integers with `exact`.

    Raises: UnsupportedError for exact numbers from n 15 on.
    Source: SciPy's scipy.linalg.invhilbert.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.invhilbert(2, exact=True)
    Array([[ 4, -6],
           [-6, 12]], dtype=int64)
    """
    k = _number(n, "invhilbert")
    if exact and k > 14:
        raise _beyond("invhilbert", k, 14)

    def element(i: int, j: int) -> int:
        size = (i + j + 1) * comb(k + i, k - j - 1) * comb(k + j, k - i - 1) * comb(i + j, i) ** 2
        return -size if (i + j) % 2 else size

    rows = [[element(i, j) for j in range(k)] for i in range(k)]
    return np.array(rows, np.int64 if exact else np.float64).reshape(k, k)


def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Result:
    """Pascal's matrix of binomial coefficients, of n rows: "symmetric", or its "lower" or "upper" triangular factor.
    u64, or f64 unless `exact`

    Raises: UnsupportedError for exact numbers from n 35 on, ShapeError for another kind.
    Source: SciPy's scipy.linalg.pascal.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.pascal(3, exact=False)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float64)
    """
    if kind not in ("symmetric", "lower", "upper"):
        raise reject("kind must be 'symmetric', 'lower', or 'upper'")
    k = _number(n, "pascal")
    if exact and k >= 35:
        raise _beyond("pascal", k, 34)
    if kind == "symmetric":
        rows = [[comb(i + j, i) for j in range(k)] for i in range(k)]
    else:
        rows = [[comb(i, j) if kind == "lower" else comb(j, i) for j in range(k)] for i in range(k)]
    return np.array(rows, np.uint64 if exact else np.float64).reshape(k, k)


def invpascal(n: int, kind: str = "symmetric", exact: bool = True) -> Result:
    """The inverse of `pascal`.   i64, or f64 unless `exact`

    Raises: UnsupportedError for exact numbers from n 35 on, ShapeError for another kind.
    Source: SciPy's scipy.linalg.invpascal.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.invpascal(2)
    Array([[ 2, -1],
           [-1,  1]], dtype=int64)
    """
    if kind not in ("symmetric", "lower", "upper"):
        raise reject("'kind' must be 'symmetric', 'lower' or 'upper'.")
    k = _number(n, "invpascal")
    if exact and k > 34:
        raise _beyond("invpascal", k, 34)

    def element(i: int, j: int) -> int:
        if kind == "symmetric":
            size = sum(comb(q, i) * comb(q, j) for q in range(k))
        else:
            size = comb(i, j) if kind == "lower" else comb(j, i)
        return -size if (i + j) % 2 else size

    rows = [[element(i, j) for j in range(k)] for i in range(k)]
    return np.array(rows, np.int64 if exact else np.float64).reshape(k, k)


def hadamard(n: int, dtype: DTypeLike = int) -> Result:
    """Hadamard's matrix of n rows, a power of two, by Sylvester's construction.

    Raises: ShapeError for another n.
    Source: SciPy's scipy.linalg.hadamard.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int64)
    """
    k = _number(n, "hadamard")
    if k < 1 or k & (k - 1):
        raise reject("n must be an positive integer, and n must be a power of 2")
    rows = [[-1 if (i & j).bit_count() % 2 else 1 for j in range(k)] for i in range(k)]
    return np.array(rows).astype(dtype)


def helmert(n: int, full: bool = False) -> Result:
    """Helmert's matrix of contrasts, n - 1 orthonormal rows of n; with `full` the row of equal elements before them.

    Source: SciPy's scipy.linalg.helmert.

    >>> import tracejit as tj
    >>> tj.scipy.linalg.helmert(2)
    Array([[ 0.70710678, -0.70710678]], dtype=float64)
    """
    k = _number(n, "helmert")
    i, j = np.arange(k)[:, None], np.arange(k)
    rows = np.where(i == 0, 1.0, np.where(j < i, 1.0, np.where(i == j, -i, 0.0)))
    lengths = np.sqrt(np.where(i == 0, float(k), i * (i + 1.0)))
    made = rows / lengths
    return made if full else made[1:]


def dft(n: int, scale: str | None = None, dtype: DTypeLike = None) -> Result:
    """The matrix of the discrete Fourier transform of n elements, complex128 unless JAX's `dtype` is given.

    scale: "sqrtn" or "n" for division by these.

    Raises: ShapeError for another scale.
    Source: SciPy's scipy.linalg.dft.

    >>> import numpy as np, tracejit as tj
    >>> bool(np.allclose(tj.scipy.linalg.dft(2), [[1, 1], [1, -1]]))
    True
    """
    if scale not in (None, "sqrtn", "n"):
        raise reject(f"scale must be None, 'sqrtn', or 'n'; {scale!r} is not valid.")
    k = _number(n, "dft")
    turns = (np.arange(k)[:, None] * np.arange(k)) % max(k, 1)
    made = np.exp(-2j * np.pi * turns / max(k, 1))
    made = made if scale is None or not k else made / (k if scale == "n" else np.sqrt(k))
    return made if dtype is None else made.astype(canonical(dtype))
