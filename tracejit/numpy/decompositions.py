"""The part of `np.linalg` that decomposes matrices: systems, determinants, eigenvalues, singular values.

As in NumPy float32 is computed in float64 and rounded at the end, complex64 in complex128; integers are float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, prod, same_extent
from tracejit.numpy import linear, reductions as r, shaping, ufuncs as u
from tracejit.numpy.axes import is_zero, reject, unsupported
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast_shapes, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import (
    eigen,
    lu as lu_primitive,
    matrix_loops as m,
    qr as qr_primitive,
    shape as p,
    spectral,
    triangular,
)
from tracejit.primitives.creation import extent_value, iota
from tracejit.support.dtypes import complex_dtype, real_dtype, short_name
from tracejit.support.errors import DtypeError, LinearAlgebraError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tables import FUNCTIONS
from tracejit.tracer.tracer import Tracer

__all__ = [
    "cholesky", "cond_of_singular_values", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matrix_rank", "pinv", "qr", "singular_values", "slogdet", "solve", "svd", "svdvals", "tensorinv", "tensorsolve",
    "unchecked_inverse",
]  # fmt: skip

SINGULAR = Reason(LinearAlgebraError, "Singular matrix")
NOT_DEFINITE = Reason(LinearAlgebraError, "Matrix is not positive definite")
NO_SVD = Reason(LinearAlgebraError, "SVD did not converge")
NOT_FINITE = Reason(LinearAlgebraError, "Array must not contain infs or NaNs")
NO_LEAST_SQUARES = Reason(LinearAlgebraError, "SVD did not converge in Linear Least Squares")

_WIDE, _WIDE_COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)


def _fails(message: str) -> LinearAlgebraError:
    return LinearAlgebraError(message, location=user_location())


def _matrices(x: ArrayLike, square: bool = False) -> tuple[Result, np.dtype[Any]]:
    """The matrices in float64 or complex128, and the dtype of what is computed of them.

    Raises: LinearAlgebraError for other shapes, DtypeError for other dtypes.
    """
    y = array_of(x)
    have = aval(y)
    if have.ndim < 2:
        raise _fails(f"{have.ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and not same_extent(have.shape[-1], have.shape[-2]) and have.shape[-1] != have.shape[-2]:
        raise _fails("Last 2 dimensions of the array must be square")
    dtype = _result_dtype(have.dtype)  # which refuses some
    return to_dtype(y, _wide(dtype)), dtype


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which what is of this one is computed."""
    return _WIDE_COMPLEX if dtype.kind == "c" else _WIDE


def _result_dtype(have: np.dtype[Any]) -> np.dtype[Any]:
    if have == np.float16:
        raise DtypeError(f"array type {have.name} is unsupported in linalg", location=user_location())
    if have.kind not in "biufc":
        raise DtypeError(
            f"np.linalg decomposes matrices of numbers, not of {short_name(have)}", location=user_location()
        )
    return have if have.kind in "fc" else _WIDE


def _named(function: str) -> Any:
    """The class of NumPy's results that have names."""
    return type(getattr(np.linalg, function)(np.ones((1, 1))))


def _part(x: ArrayLike, *index: Any) -> Result:
    return OPERATORS.getitem(x, (..., *index))


def _column(x: ArrayLike) -> Result:
    return p.reshape(x, (*aval(x).shape, 1))


def _nothing(shape: Any) -> bool:
    return any(is_zero(n) for n in shape)


# -- systems -----------------------------------------------------------------------------------------------------------
def cholesky(a: ArrayLike, /, *, upper: bool = False, symmetrize_input: bool = False) -> Result:
    """L with L @ L.T == a, or U with U.T @ U == a.   a: [.., n, n] symmetric, of which that triangle alone is read.

    Of complex numbers a is Hermitian, and the transposes are conjugated.  Gradients are symmetric, as JAX's.
    symmetrize_input: JAX's; the mean of a and its transpose is taken, not the triangle.

    Raises: LinAlgError if a is not positive definite, when the program has run.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.cholesky(a))(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    x, dtype = _matrices(a, square=True)
    if symmetrize_input:
        x = _symmetric(x)
    if upper:
        x = m.adjoint(x)
    out = bind(triangular.Cholesky(True), x)
    shape = aval(x).shape
    if not _nothing(shape[-1:]):
        lost = r.any(u.isnan(m.diagonal_of(out)), -1)
        finite = r.all(u.isfinite(m.lower_part(x)), (-2, -1))
        check_none(u.logical_and(lost, finite), NOT_DEFINITE)
    return to_dtype(m.adjoint(out) if upper else out, dtype)


def _symmetric(x: ArrayLike) -> Result:
    """The mean of matrices and their transposes, conjugated."""
    return u.multiply(u.add(x, m.adjoint(x)), 0.5)


def _factored(x: ArrayLike, checked: bool = True) -> tuple[Result, Result]:
    """Factors and permutation.  checked: the program fails where a pivot is zero."""
    factors, _, order = lu_primitive.lu(x)
    if checked and not _nothing(aval(x).shape[-1:]):
        check_none(u.equal(m.diagonal_of(factors), 0.0), SINGULAR)
    return factors, order


def _solved(factors: ArrayLike, order: ArrayLike, right: ArrayLike) -> Result:
    y = triangular.triangular_solve(factors, lu_primitive.permuted_rows(right, order), lower=True, unit=True)
    return triangular.triangular_solve(factors, y, lower=False)


def solve(a: ArrayLike, b: ArrayLike) -> Result:
    """x with a @ x == b, by LU with partial pivoting.   a: [.., n, n], b: [n] or [.., n, k]

    Raises: LinAlgError if a is singular, when the program has run; ShapeError if the shapes do not fit.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a, b: np.linalg.solve(a, b))(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 8.0]))
    array([1., 2.])
    """
    x, dtype = _matrices(a, square=True)
    right = array_of(b)
    have = aval(right)
    dtype = np.result_type(dtype, _result_dtype(have.dtype))
    if not have.ndim:
        raise _fails("0-dimensional array given. Array must be at least one-dimensional")
    x, right = to_dtype(x, _wide(dtype)), to_dtype(right, _wide(dtype))
    if have.ndim == 1:
        right = _column(right)
    n, k = aval(x).shape[-1], aval(right).shape[-1]
    if aval(right).shape[-2] != n:
        name, signature = ("solve1", "(m,m),(m)->(m)") if have.ndim == 1 else ("solve", "(m,m),(m,n)->(m,n)")
        raise reject(
            f"{name}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature {signature} (size "
            f"{aval(right).shape[-2]} is different from {n})"
        )
    factors, order = _factored(x)
    lead = _together(aval(x).shape[:-2], aval(right).shape[:-2])
    right = shaping.broadcast_to(right, (*lead, n, k))
    factors = shaping.broadcast_to(factors, (*lead, n, n))
    order = shaping.broadcast_to(order, (*lead, n))
    out = to_dtype(_solved(factors, order, right), dtype)
    return p.reshape(out, aval(out).shape[:-1]) if have.ndim == 1 else out


def _together(a: Any, b: Any) -> Any:
    """Leading shapes, broadcast by NumPy's rules."""
    if not b or a == b:
        return a
    if not a:
        return b
    return broadcast_shapes(a, b)


def unchecked_inverse(a: ArrayLike, checked: bool = False) -> Result:
    """Inverses in float64 or complex128; singular matrices give infinities and NaN unless the program fails of them."""
    x, _ = _matrices(a, square=True)
    factors, order = _factored(x, checked)
    return _solved(factors, order, m.eye_like(x))


def inv(a: ArrayLike) -> Result:
    """The inverses of square matrices.   a: [.., n, n]

    Raises: LinAlgError if one is singular, when the program has run.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.inv(a))(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return to_dtype(unchecked_inverse(a, checked=True), _matrices(a, square=True)[1])


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Any = None) -> Result:
    """x with np.tensordot(a, x, x.ndim) == b.

    Raises: LinAlgError if a is no square matrix, its axes taken together, or a singular one.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a, b: np.linalg.tensorsolve(a, b))(2.0 * np.eye(4).reshape(4, 2, 2), np.ones(4))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    x, right = array_of(a), array_of(b)
    rank = aval(x).ndim
    if axes is not None:
        rest = [d for d in range(rank) if d not in axes]
        x = shaping.transpose(x, (*rest, *axes))
    shape = aval(x).shape[aval(right).ndim - rank :] if rank > aval(right).ndim else ()
    n = prod(shape)
    if prod(aval(x).shape) != n * n:
        raise _fails("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return p.reshape(solve(p.reshape(x, (n, n)), p.reshape(right, (n,))), shape)


def tensorinv(a: ArrayLike, ind: int = 2) -> Result:
    """The inverse of a as a matrix of its first `ind` axes by the others.

    Raises: LinAlgError if that matrix is not square or singular, ShapeError unless ind is positive.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.tensorinv(a))(2.0 * np.eye(4).reshape(4, 1, 2, 2)).shape
    (2, 2, 4, 1)
    """
    x = array_of(a)
    if ind <= 0:
        raise reject("Invalid ind argument.")
    shape = aval(x).shape
    matrix = p.reshape(x, (prod(shape[:ind]), prod(shape[ind:])))
    return p.reshape(inv(matrix), (*shape[ind:], *shape[:ind]))


# -- determinants ------------------------------------------------------------------------------------------------------
def _diagonal_and_parity(x: ArrayLike) -> tuple[Result, Result]:
    factors, pivots, _ = lu_primitive.lu(x)
    n = aval(x).shape[-1]
    moved = r.sum(to_dtype(u.not_equal(pivots, iota((n,), 0, np.int32)), np.int64), -1)
    return m.diagonal_of(factors), to_dtype(u.subtract(1, u.multiply(2, u.remainder(moved, 2))), aval(x).dtype)


def det(a: ArrayLike) -> Result:
    """The determinants of square matrices.   a: [.., n, n] -> [..]

    The derivative at a singular matrix is NaN.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.det(a))(np.array([[2.0, 0.0], [0.0, 4.0]]))
    np.float64(8.0)
    """
    x, dtype = _matrices(a, square=True)
    diagonal, parity = _diagonal_and_parity(x)
    return to_dtype(u.multiply(parity, r.prod(diagonal, -1)), dtype)


def slogdet(a: ArrayLike, *, method: str | None = None) -> Any:
    """SlogdetResult(sign, logabsdet) of the determinants of square matrices.   a: [.., n, n] -> [..], [..]

    method: JAX's "lu" or "qr"; it is by LU decomposition in any case.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.slogdet(a))(np.array([[0.0, 1.0], [1.0, 0.0]]))
    SlogdetResult(sign=np.float64(-1.0), logabsdet=np.float64(0.0))
    """
    if method not in (None, "lu", "qr"):
        raise reject(f"np.linalg.slogdet: method is 'lu' or 'qr', not {method!r}")
    x, dtype = _matrices(a, square=True)
    diagonal, parity = _diagonal_and_parity(x)
    sign = u.multiply(parity, r.prod(u.sign(diagonal), -1))
    log = r.sum(u.log(u.absolute(diagonal)), -1)
    return _named("slogdet")(to_dtype(sign, dtype), to_dtype(log, real_dtype(dtype)))


# -- orthogonal decompositions -----------------------------------------------------------------------------------------
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QRResult(Q, R) with a == Q @ R and orthonormal columns in Q; with mode "r" only R.   a: [.., m, n]

    Raises: UnsupportedError for mode "raw", and for derivatives of mode "complete" where m > n.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.qr(a, mode="r"))(np.array([[3.0], [4.0]]))
    array([[-5.]])
    """
    if mode in ("f", "full"):  # NumPy's older names
        mode = "reduced"
    if mode in ("e", "economic", "raw"):
        raise unsupported(f"np.linalg.qr: mode {mode!r} is not supported; use 'reduced', 'complete' or 'r'")
    if mode not in ("reduced", "complete", "r"):
        raise reject(f"Unrecognized mode {mode!r}")
    x, dtype = _matrices(a)
    q, right = qr_primitive.qr(x, mode == "complete")
    if mode == "r":
        return to_dtype(right, dtype)
    return _named("qr")(to_dtype(q, dtype), to_dtype(right, dtype))


def _lower(uplo: str) -> bool:
    letter = uplo.upper()
    if letter not in ("L", "U"):
        raise reject("UPLO argument must be 'L' or 'U'")
    return letter == "L"


def eigh(a: ArrayLike, UPLO: str = "L", symmetrize_input: bool = False) -> Any:
    """EighResult(eigenvalues, eigenvectors) of symmetric matrices, ascending; NaN where one has NaN or infinities.
    a: [.., n, n] -> real[.., n], [.., n, n]

    Complex matrices are Hermitian.  UPLO: the triangle that is read.  symmetrize_input: JAX's; the mean of a and its
    transpose is taken, not a triangle.  Eigenvectors have their element of greatest
    magnitude positive.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.eigh(a).eigenvalues)(np.array([[5.0, 0.0], [0.0, 1.0]]))
    array([1., 5.])
    """
    lower = _lower(UPLO)
    x, dtype = _matrices(a, square=True)
    if symmetrize_input:
        x = _symmetric(x)
    w, v = spectral.eigh(x, lower)
    finite = _all_finite(x, lower)
    w, v = u.where(_column(finite), w, np.nan), u.where(_column(_column(finite)), v, np.nan)
    return _named("eigh")(to_dtype(w, real_dtype(dtype)), to_dtype(v, dtype))


def eigvalsh(a: ArrayLike, UPLO: str = "L", *, symmetrize_input: bool = False) -> Result:
    """The eigenvalues of symmetric, or Hermitian, matrices, ascending.   a: [.., n, n] -> real[.., n]

    UPLO, symmetrize_input: as in `eigh`.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.eigvalsh(a))(np.array([[5.0, 0.0], [0.0, 1.0]]))
    array([1., 5.])
    """
    lower = _lower(UPLO)
    x, dtype = _matrices(a, square=True)
    if symmetrize_input:
        x = _symmetric(x)
    (w,) = bind(spectral.Eigh(lower, False), x)
    return to_dtype(u.where(_column(_all_finite(x, lower)), w, np.nan), real_dtype(dtype))


def _all_finite(x: ArrayLike, lower: bool) -> Result:
    """Whether all elements of a triangle are; of others there are no eigenvalues.   x: [.., n, n] -> bool[..]"""
    rows, columns = (iota(aval(x).shape[-2:], d, np.int64) for d in (0, 1))
    unread = u.less(rows, columns) if lower else u.greater(rows, columns)
    return r.all(u.logical_or(unread, u.isfinite(x)), axis=(-2, -1))


def _for_eigenvalues(a: ArrayLike) -> tuple[Result, np.dtype[Any]]:
    """Square matrices, and the dtype of their eigenvalues; the program fails if an element is infinite or NaN."""
    x, dtype = _matrices(a, square=True)
    check_none(u.logical_not(r.all(u.isfinite(x))), NOT_FINITE)
    return x, complex_dtype(dtype)


def eig(a: ArrayLike) -> Any:
    """EigResult(eigenvalues, eigenvectors) of square matrices, both complex in any case, as in JAX.
    a: [.., n, n] -> complex[.., n], complex[.., n, n]

    Eigenvectors are of length 1, with their element of greatest magnitude positive.  Those of eigenvalues that are
    equal have no derivative.

    Raises: LinAlgError for what is not finite, when the program has run.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.eig(a).eigenvalues)(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    array([0.+2.j, 0.-2.j])
    """
    x, dtype = _for_eigenvalues(a)
    w, v = eigen.eig(x)
    return _named("eig")(to_dtype(w, dtype), to_dtype(v, dtype))


def eigvals(a: ArrayLike) -> Result:
    """The eigenvalues of square matrices, complex in any case, as in JAX.   a: [.., n, n] -> complex[.., n]

    Raises: LinAlgError for what is not finite, when the program has run.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.eigvals(a))(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    array([0.+2.j, 0.-2.j])
    """
    x, dtype = _for_eigenvalues(a)
    (w,) = bind(eigen.Eig(False), x)
    return to_dtype(w, dtype)


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """SVDResult(U, S, Vh) with a == U @ diag(S) @ Vh and S descending; only S without compute_uv.   a: [.., m, n]

    hermitian: a is symmetric, or Hermitian, and its lower triangle alone is read.  subset_by_index: JAX's, (first, end)
    of the singular values that are given, with their vectors; all are computed, and not with full_matrices.

    Raises: ShapeError for a subset of full matrices; LinAlgError for NaN, when the program has run; UnsupportedError
    for derivatives of full matrices where m and n differ.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.svd(a).S)(np.array([[0.0, 2.0], [3.0, 0.0]]))
    array([3., 2.])
    """
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    if not compute_uv:
        s = singular_values(a, hermitian)
        return s if subset_by_index is None else _part(s, part)
    if subset_by_index is not None and full_matrices:
        raise reject("np.linalg.svd: full_matrices and subset_by_index cannot both be set")
    x, dtype = _matrices(a, square=hermitian)
    if hermitian:
        x = m.mirrored(x)
    check_none(r.any(u.isnan(x), (-2, -1)), NO_SVD)
    left, s, right = spectral.svd(x, full_matrices)
    if subset_by_index is not None:
        left, s, right = _part(left, part), _part(s, part), _part(right, part, slice(None))
    return _named("svd")(to_dtype(left, dtype), to_dtype(s, real_dtype(dtype)), to_dtype(right, dtype))


def singular_values(x: ArrayLike, hermitian: bool = False, reason: Reason = NO_SVD) -> Result:
    """Singular values, descending; of a symmetric matrix the magnitudes of its eigenvalues."""
    y, dtype = _matrices(x, square=hermitian)
    if hermitian:
        y = m.mirrored(y)
    check_none(r.any(u.isnan(y), (-2, -1)), reason)
    (s,) = bind(spectral.SVD(False, False), y)
    return to_dtype(s, real_dtype(dtype))


def svdvals(x: ArrayLike, /) -> Result:
    """The singular values of matrices, descending.   x: [.., m, n] -> [.., k]

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.svdvals(a))(np.array([[0.0, 2.0], [3.0, 0.0]]))
    array([3., 2.])
    """
    return singular_values(x)


# -- by singular values ------------------------------------------------------------------------------------------------
def _greatest(shape: Any) -> Any:
    """The greater extent of matrices, as a number of the program where it is none."""
    rows, columns = shape[-2:]
    n: Extent = columns if lu_primitive.is_wide(rows, columns) else rows
    return to_dtype(extent_value(n, np.int64), _WIDE) if isinstance(n, Dim) else n


def matrix_rank(A: ArrayLike, tol: ArrayLike = None, hermitian: bool = False, *, rtol: ArrayLike = None) -> Result:
    """How many singular values are greater than tol, or rtol times the greatest.   A: [.., m, n] -> i64[..]

    Raises: ShapeError if both are given.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.matrix_rank(a))(np.ones((3, 3)))
    np.int64(1)
    """
    if tol is not None and rtol is not None:
        raise reject("`tol` and `rtol` can't be both set.")
    x = array_of(A)
    if aval(x).ndim < 2:
        found = to_dtype(u.logical_not(r.all(u.equal(x, 0))), np.int64)
        return found.as_python_number() if isinstance(found, Tracer) else int(found)  # as in NumPy
    s = singular_values(x, hermitian)
    if tol is not None:
        least = _column(array_of(tol))
    else:
        eps = float(np.finfo(aval(s).dtype).eps)
        ratio = u.multiply(_greatest(aval(x).shape), eps) if rtol is None else _column(array_of(rtol))
        least = u.multiply(r.max(s, axis=-1, keepdims=True, initial=0), ratio)
    return r.sum(to_dtype(u.greater(s, least), np.int64), -1)


_UNSET: Any = object()


def pinv(a: ArrayLike, rcond: ArrayLike = None, hermitian: bool = False, *, rtol: ArrayLike = _UNSET) -> Result:
    """The pseudo-inverses of matrices; singular values up to rcond times the greatest count as zeros.
    a: [.., m, n] -> [.., n, m]

    Raises: ShapeError if rcond and rtol are given, LinAlgError for NaN when the program has run.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: np.linalg.pinv(a))(np.array([[2.0, 0.0], [0.0, 0.0]])) + 0.0
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    x, dtype = _matrices(a, square=hermitian)
    if rcond is None:
        if rtol is _UNSET:
            rcond = 1e-15
        else:
            rcond = u.multiply(_greatest(aval(x).shape), float(np.finfo(dtype).eps)) if rtol is None else rtol
    elif rtol is not _UNSET:
        raise reject("`rtol` and `rcond` can't be both set.")
    shape = aval(x).shape
    if _nothing(shape[-2:]):
        return m.adjoint(array_of(a))
    if hermitian:
        x = m.mirrored(x)
    check_none(r.any(u.isnan(x), (-2, -1)), NO_SVD)
    left, s, right = spectral.svd(x)
    ratio = array_of(rcond)
    if aval(ratio).ndim:
        ratio = _column(ratio)
    large = u.greater(s, u.multiply(ratio, r.max(s, axis=-1, keepdims=True)))
    inverse = u.where(large, u.divide(1.0, u.where(large, s, 1.0)), 0.0)
    return to_dtype(linear.matmul(m.adjoint(right), u.multiply(_column(inverse), m.adjoint(left))), dtype)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike = None, *, numpy_resid: bool = True) -> Any:
    """(x, residuals, rank, singular values): x of least norm with least |a @ x - b|.   a: [m, n], b: [m] or [m, k]

    Residuals are the squared lengths of the columns of a @ x - b if rank is n and m > n, else none; with
    numpy_resid=False, which is JAX's default, they are there in any case.

    Raises: LinAlgError for NaN in a when the program has run, and for shapes that do not fit.

    >>> import numpy as np, tracejit as tj
    >>> x, *_ = tj.jit(lambda a, b: np.linalg.lstsq(a, b))(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> float(np.round(x[0], 12))
    2.0
    """
    x, dtype = _matrices(a)
    right = array_of(b)
    have = aval(right)
    dtype = np.result_type(dtype, _result_dtype(have.dtype))
    x, right = to_dtype(x, _wide(dtype)), to_dtype(right, _wide(dtype))
    if have.ndim == 1:
        right = _column(right)
    for y in (x, right):
        if aval(y).ndim != 2:
            raise _fails(f"{aval(y).ndim}-dimensional array given. Array must be two-dimensional")
    rows, columns = aval(x).shape
    if aval(right).shape[0] != rows:
        raise _fails("Incompatible dimensions")
    check_none(r.any(u.isnan(x)), NO_LEAST_SQUARES)
    left, s, vt = spectral.svd(x)
    eps = float(np.finfo(np.float64).eps)
    if rcond is None:
        rcond = u.multiply(_greatest((rows, columns)), eps)
    else:  # as LAPACK has it
        rcond = u.where(u.logical_or(u.less_equal(rcond, 0), u.greater_equal(rcond, 1)), eps, rcond)
    large = u.greater(s, u.multiply(rcond, r.max(s, axis=-1, keepdims=True, initial=0)))
    inverse = u.where(large, u.divide(1.0, u.where(large, s, 1.0)), 0.0)
    out = linear.matmul(m.adjoint(vt), u.multiply(_column(inverse), linear.matmul(m.adjoint(left), right)))
    rank = r.sum(to_dtype(large, np.int32), dtype=np.int32)
    if not numpy_resid or (not lu_primitive.is_wide(rows, columns) and not same_extent(rows, columns)):
        rest = u.subtract(linear.matmul(x, out), right)
        sums = to_dtype(r.sum(m.squared(rest), axis=0), real_dtype(dtype))
        full = u.equal(rank, to_dtype(extent_value(columns, np.int64), np.int32))
        residuals = OPERATORS.getitem(sums, shaping.broadcast_to(full, aval(sums).shape)) if numpy_resid else sums
    else:
        residuals = np.empty(0, real_dtype(dtype))
    if have.ndim == 1:
        out = p.reshape(out, (columns,))
    return to_dtype(out, dtype), residuals, rank, to_dtype(s, real_dtype(dtype))


def cond_of_singular_values(x: ArrayLike, least_first: bool) -> Result:
    """The greatest over the least singular value, or the other way round."""
    s = singular_values(x)
    first, last = _part(s, 0), _part(s, -1)
    return u.divide(last, first) if least_first else u.divide(first, last)


FUNCTIONS.update({
    np.linalg.cholesky: cholesky, np.linalg.det: det, np.linalg.eig: eig, np.linalg.eigh: eigh,
    np.linalg.eigvals: eigvals, np.linalg.eigvalsh: eigvalsh,
    np.linalg.inv: inv, np.linalg.lstsq: lstsq, np.linalg.matrix_rank: matrix_rank, np.linalg.pinv: pinv,
    np.linalg.qr: qr, np.linalg.slogdet: slogdet, np.linalg.solve: solve, np.linalg.svd: svd,
    np.linalg.svdvals: svdvals, np.linalg.tensorinv: tensorinv, np.linalg.tensorsolve: tensorsolve,
})  # fmt: skip
