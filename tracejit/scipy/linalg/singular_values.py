"""Singular values, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent
from tracejit.numpy import decompositions as d, joining, linear, reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives import (
    lu as of_lu,
    matrix_loops as m,
    shape as p,
    spectral,
)
from tracejit.primitives.creation import extent_value, iota
from tracejit.scipy.linalg.operands import (
    column,
    floats,
    is_empty,
    is_square,
    lapack_dtype,
    numbers,
    refuse_options,
    single_matrix,
)
from tracejit.support.errors import LinearAlgebraError
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = ["lstsq", "null_space", "orth", "pinv", "pinvh", "subspace_angles", "svd", "svdvals"]

_NO_SVD = Reason(LinearAlgebraError, "SVD did not converge")


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, Vh) with a == U @ diag(s) @ Vh and s descending; only s without compute_uv.   a: [.., m, n]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for another rank or driver;
    UnsupportedError for derivatives of full matrices where m and n differ.
    Source: SciPy's scipy.linalg.svd.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.svd(np.array([[0.0, 2.0], [3.0, 0.0]]), compute_uv=False)
    Array([3., 2.], dtype=float64)
    """
    x = matrix("svd", a, check_finite)
    if lapack_driver not in ("gesdd", "gesvd"):
        raise reject(f'lapack_driver must be "gesdd" or "gesvd", not "{lapack_driver}"')
    if not check_finite:
        check_none(r.any(u.isnan(x)), _NO_SVD)
    if compute_uv:
        return spectral.svd(x, bool(full_matrices))
    (s,) = bind(spectral.SVD(False, False), x)
    return s


def matrix(name: str, a: ArrayLike, check_finite: bool, message: str = "expected matrix") -> Result:
    """Matrices in the precision of LAPACK.   Raises: ShapeError with this text for less than two axes."""
    x = floats(numbers(name, a, check_finite))
    if aval(x).ndim < 2:
        raise reject(message)
    return x


def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Result:
    """The singular values of matrices, descending.   a: [.., m, n] -> [.., k]

    Raises: as `svd`.
    Source: SciPy's scipy.linalg.svdvals.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.svdvals(np.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([3., 2.], dtype=float64)
    """
    return svd(a, compute_uv=False, check_finite=check_finite)


def _longer(x: ArrayLike) -> Extent:
    rows, columns = aval(x).shape[-2:]
    return columns if of_lu.is_wide(rows, columns) else rows


def _rounding(x: ArrayLike) -> Result:
    """The unit of rounding times the greater extent of matrices."""
    dtype = m.part_dtype(x)
    n = _longer(x)
    eps = dtype.type(np.finfo(dtype).eps)
    return u.multiply(to_dtype(extent_value(n, np.int64), dtype), eps) if isinstance(n, Dim) else dtype.type(n) * eps


def _least(x: ArrayLike, sizes: ArrayLike, atol: ArrayLike, rtol: ArrayLike) -> Result:
    """The greatest magnitude that counts as zero, for each matrix."""
    for tolerance in (atol, rtol):
        if isinstance(tolerance, (int, float)) and tolerance < 0:
            raise reject("atol and rtol values must be positive.")
    ratio = _rounding(x) if rtol is None else rtol
    most = r.max(sizes, -1, keepdims=True, initial=0)
    dtype = m.part_dtype(x)
    least = u.multiply(most, to_dtype(ratio, dtype))
    return least if atol is None else u.add(least, to_dtype(atol, dtype))


def pinv(
    a: ArrayLike,
    *,
    atol: ArrayLike = None,
    rtol: ArrayLike = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """The pseudo-inverses of matrices; with return_rank, and how many singular values count.
    a: [.., m, n] -> [.., n, m]

    Those up to atol + rtol times the greatest count as zeros; rtol is by default the unit of rounding times the greater
    extent.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for another rank, and for negative
    numbers.
    Source: SciPy's scipy.linalg.pinv.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]])) + 0.0
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float64)
    """
    x = matrix("pinv", a, check_finite)
    left, s, right = spectral.svd(x)
    large = u.greater(s, _least(x, s, atol, rtol))
    inverse = u.where(large, u.divide(1, u.where(large, s, 1)), 0)
    out = linear.matmul(m.adjoint(right), u.multiply(column(inverse), m.adjoint(left)))
    return (out, r.sum(to_dtype(large, np.int64), -1)) if return_rank else out


def pinvh(
    a: ArrayLike,
    atol: ArrayLike = None,
    rtol: ArrayLike = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Any:
    """`pinv` of symmetric, or Hermitian, matrices, by eigenvalues.   a: [.., n, n]

    One triangle counts, the lower one unless `lower` is false.

    Raises: as `pinv`, and ShapeError unless a is square.
    Source: SciPy's scipy.linalg.pinvh.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.pinvh(np.array([[2.0, 0.0], [0.0, 0.0]])) + 0.0
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float64)
    """
    x = matrix("pinvh", a, check_finite, 'expected square "a" matrix')
    if not is_square(x):
        raise reject('expected square "a" matrix')
    w, v = spectral.eigh(x, bool(lower))
    sizes = u.absolute(w)
    large = u.greater(sizes, _least(x, sizes, atol, rtol))
    inverse = u.where(large, u.divide(1, u.where(large, w, 1)), 0)
    out = linear.matmul(m.scaled_columns(v, inverse), m.adjoint(v))
    return (out, r.sum(to_dtype(large, np.int64), -1)) if return_rank else out


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: ArrayLike = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> Any:
    """(x, residuals, rank, singular values): x of least norm with least |a @ x - b|.   a: [m, n], b: [m] or [m, k]

    cond: singular values up to it times the greatest count as zeros.  Residuals are the squared lengths of the columns
    of a @ x - b if rank is n and m > n (an array of one for a vector b), else none.  lapack_driver: "gelsd" or "gelss";
    they are computed alike.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for shapes that do not fit;
    UnsupportedError for driver "gelsy" and for stacks.
    Source: SciPy's scipy.linalg.lstsq.

    >>> import numpy as np, tracejit as tj
    >>> x, *_ = tj.scipy.linalg.lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> float(np.round(x[0], 12))
    2.0
    """
    if lapack_driver not in (None, "gelsd", "gelsy", "gelss"):
        raise reject(f'LAPACK driver "{lapack_driver}" is not found')
    if lapack_driver == "gelsy":
        refuse_options("lstsq", lapack_driver=(lapack_driver, "use 'gelsd'"))
    x, right = numbers("lstsq", a, check_finite), numbers("lstsq", b, check_finite)
    for y in (x, right):
        single_matrix("lstsq", y)
    if aval(x).ndim != 2 or not aval(right).ndim:
        raise reject("Input array a should be 2D")
    rows, columns = aval(x).shape
    if rows != aval(right).shape[0]:
        raise reject(f"Shape mismatch: a and b should have the same number of rows ({rows} != {aval(right).shape[0]}).")
    dtype = lapack_dtype(x, right)
    x, right = to_dtype(x, dtype), to_dtype(right, dtype)
    if is_empty(x):
        x0 = m.zeros((columns, *aval(right).shape[1:]), dtype)
        residuals = r.sum(m.squared(right), axis=0) if columns == 0 else np.empty((0,))
        return x0, residuals, 0, np.empty((0,))
    out, residuals, rank, s = d.lstsq(x, right, float(np.finfo(dtype).eps) if cond is None else cond)
    return out, residuals, to_dtype(rank, np.int64), s


def _span(name: str, A: ArrayLike, rcond: ArrayLike, full: bool, check_finite: bool) -> tuple[Result, Result, Result]:
    """(left vectors, right vectors, how many singular values count)."""
    x = single_matrix(name, matrix(name, A, check_finite))
    left, s, right = spectral.svd(x, full)
    large = u.greater(s, _least(x, s, None, rcond))
    return left, right, r.sum(to_dtype(large, np.int64), -1)


def orth(A: ArrayLike, rcond: ArrayLike = None) -> Result:
    """An orthonormal basis of the columns of a matrix, as columns: as many as data say.   A: [m, n] -> [m, rank]

    rcond: singular values up to it times the greatest count as zeros; by default the unit of rounding times the greater
    extent.

    Raises: ValueError for what is not finite, when the program has run; UnsupportedError for stacks.
    Source: SciPy's scipy.linalg.orth.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.scipy.linalg.orth(a))(np.array([[0.0, 0.0], [2.0, 0.0]])).shape
    (2, 1)
    """
    left, _, rank = _span("orth", A, rcond, False, True)
    return OPERATORS.getitem(left, (slice(None), slice(None, rank)))


def null_space(
    A: ArrayLike,
    rcond: ArrayLike = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Result:
    """An orthonormal basis of the vectors that a matrix makes zero, as columns: as many as data say.
    A: [m, n] -> [n, n - rank]

    Raises: ValueError for what is not finite, when the program has run; UnsupportedError for stacks, and for
    derivatives where m and n differ.
    Source: SciPy's scipy.linalg.null_space.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.scipy.linalg.null_space(a))(np.array([[3.0, 0.0], [2.0, 0.0]]))
    array([[0.],
           [1.]])
    """
    _, right, rank = _span("null_space", A, rcond, True, check_finite)
    return m.adjoint(OPERATORS.getitem(right, (slice(rank, None), slice(None))))


def subspace_angles(A: ArrayLike, B: ArrayLike) -> Result:
    """The angles between the spans of the columns of two matrices, descending: as many as the lesser rank.
    A: [n, k], B: [n, l]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes; UnsupportedError
    for stacks.
    Source: Knyazev and Argentati 2002, as SciPy's scipy.linalg.subspace_angles.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a, b: tj.scipy.linalg.subspace_angles(a, b))(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]]))
    array([0.78539816])
    """
    first, second = numbers("subspace_angles", A), numbers("subspace_angles", B)
    for x in (first, second):
        if aval(x).ndim != 2:
            raise reject(f"expected 2D array, got shape {aval(x).shape}")
    if aval(first).shape[0] != aval(second).shape[0]:
        raise reject(
            f"A and B must have the same number of rows, got {aval(first).shape[0]} and {aval(second).shape[0]}"
        )
    one, _, rank = _span("subspace_angles", first, None, False, False)
    other, _, other_rank = _span("subspace_angles", second, None, False, False)
    if of_lu.is_wide(aval(one).shape[1], aval(other).shape[1]):
        one, other, rank, other_rank = other, one, other_rank, rank
    # vectors beyond the rank are zeros: the angles that they make come first, and are left out
    one, other = (
        u.where(u.less(iota(aval(q).shape, 1, np.int64), k), q, 0) for q, k in ((one, rank), (other, other_rank))
    )
    dtype = np.result_type(aval(one).dtype, aval(other).dtype)
    one, other = to_dtype(one, dtype), to_dtype(other, dtype)
    across = linear.matmul(m.adjoint(one), other)
    cosines = p.reverse(svdvals(across, check_finite=False), (0,))
    k = aval(cosines).shape[0]
    beyond = u.subtract(other, linear.matmul(one, across))
    beyond_one = u.subtract(one, linear.matmul(other, m.adjoint(across)))
    sines = u.where(
        u.greater_equal(rank, other_rank),
        joining.part(svdvals(beyond, check_finite=False), 0, 0, k),
        joining.part(svdvals(beyond_one, check_finite=False), 0, 0, k),
    )
    count = u.minimum(rank, other_rank)
    skipped = u.subtract(to_dtype(extent_value(k, np.int64), np.int64), count)
    place = u.maximum(u.subtract(iota((k,), 0, np.int64), skipped), 0)
    sines = OPERATORS.getitem(sines, place)
    large = u.greater_equal(u.multiply(cosines, cosines), aval(cosines).dtype.type(0.5))
    angles = u.where(
        large,
        u.arcsin(u.minimum(u.where(large, sines, 0), 1)),
        u.arccos(u.minimum(u.where(large, 0, cosines), 1)),
    )
    return OPERATORS.getitem(angles, slice(skipped, None))
