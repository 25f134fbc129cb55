"""Decompositions of matrices under JAX's names: in the dtype of the operand, of floating-point or complex numbers, and
without checks.

What has no answer (a matrix that is not positive definite, a singular one) gives NaN or infinities.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from tracejit.api.control import scan, while_loop
from tracejit.ir.extents import Extent, is_empty
from tracejit.lax.banded import tridiagonal_solve
from tracejit.lax.operands import array, aval, operands, reject
from tracejit.lax.reflections import householder_product, ormqr
from tracejit.primitives import (
    eigen,
    hessenberg as of_hessenberg,
    lu as of_lu,
    matrix_loops as m,
    qr as of_qr,
    schur as of_schur,
    shape as p,
    spectral,
    triangular,
    tridiagonal as of_tridiagonal,
)
from tracejit.primitives.arithmetic import Minimum
from tracejit.primitives.comparison import And, Eq, Gt, Le, Lt, Or
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import add, convert, div, mul, select, sub
from tracejit.primitives.reduction import reduce_max, reduce_sum
from tracejit.primitives.transcendental import Cbrt, Sqrt
from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = [
    "SvdAlgorithm", "cholesky", "cholesky_update", "eig", "eigh", "hessenberg", "householder_product", "lu",
    "lu_pivots_to_permutation", "ormqr", "qdwh", "qr", "schur",
    "svd", "symmetric_product", "triangular_solve", "tridiagonal", "tridiagonal_solve",
]  # fmt: skip


def _symmetric(x: ArrayLike) -> Result:
    """The symmetric, or Hermitian, part of matrices."""
    triangular.check_matrices("symmetrize_input", aval(x))
    return mul(add(x, m.adjoint(x)), m.dtype_of(x).type(0.5))


def _refuse(name: str, **options: Any) -> None:
    for option, value in options.items():
        if value:
            raise UnsupportedError(
                f"tj.lax.linalg.{name}: {option} is not supported; leave it out", location=user_location()
            )


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Result:
    """The lower factor of symmetric, or Hermitian, positive definite matrices.   x: [.., n, n]

    Diagonal elements are NaN from the first column on where x is found not to be positive definite.  Without
    symmetrize_input the lower triangle alone is read.  Source: jax.lax.linalg.cholesky.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.lax.linalg.cholesky(a))(np.array([[4.0, 2.0], [2.0, 5.0]]))
    array([[2., 0.],
           [1., 2.]])
    """
    y = array(x)
    return triangular.cholesky(_symmetric(y) if symmetrize_input else y)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Result:
    """The upper factor of r.T @ r + outer(w, w), in a time that grows as n^2.   r_matrix: [n, n] upper, real;
    w_vector: [n] -> [n, n]

    The diagonal is positive where r's is.

    Raises: ShapeError for other shapes, DtypeError for other dtypes.
    Source: jax.lax.linalg.cholesky_update; a rotation of each row and w makes w's next element zero.

    >>> import numpy as np, tracejit as tj
    >>> r, w = np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([4.0, 3.0])
    >>> tj.jit(lambda r, w: tj.lax.linalg.cholesky_update(r, w))(r, w)
    array([[5.        , 3.        ],
           [0.        , 2.23606798]])
    """
    r, w = operands("cholesky_update", r_matrix, w_vector)
    triangular.check_matrices("cholesky_update", aval(r))
    if aval(r).ndim != 2 or aval(w).shape != aval(r).shape[:1] or m.is_complex(r):
        raise reject(f"cholesky_update: a real matrix and a vector as long go together, not {aval(r)} and {aval(w)}")
    n = aval(w).shape[0]
    if is_empty(n):
        return r
    places = iota((n,), 0, np.int64)

    def rotate(rest: ArrayLike, step: Any) -> tuple[Result, Result]:
        row, k = step
        here = bind(Eq(), places, p.broadcast_in_dim(k, (n,), ()))
        first, second = [reduce_sum(select(here, x, m.zeros((n,), m.dtype_of(x))), (0,)) for x in (row, rest)]
        length = bind(Sqrt(), add(mul(first, first), mul(second, second)))
        none = bind(Eq(), length, m.dtype_of(r).type(0))
        safe = select(none, m.dtype_of(r).type(1), length)
        cosine, sine = select(none, m.dtype_of(r).type(1), div(first, safe)), div(second, safe)
        cosine, sine = [p.broadcast_in_dim(x, (n,), ()) for x in (cosine, sine)]
        turned = add(mul(cosine, row), mul(sine, rest))
        rest = sub(mul(cosine, rest), mul(sine, row))
        return select(here, m.zeros((n,), m.dtype_of(r)), rest), turned

    return scan(rotate, w, (m.upper_part(r), places))[1]


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Result:
    """x with op(a) @ x == b, or x @ op(a) == b without left_side.   a: [.., n, n], b: matrices, or vectors

    op: the transpose with transpose_a, conjugated with conjugate_a.  lower: which triangle of a counts.
    unit_diagonal: its diagonal is taken for ones.  Source: jax.lax.linalg.triangular_solve.

    >>> import numpy as np, tracejit as tj
    >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0])
    >>> tj.jit(lambda a, b: tj.lax.linalg.triangular_solve(a, b, left_side=True, lower=True))(a, b)
    array([1., 2.])
    """
    x, right = operands("triangular_solve", a, b)
    if conjugate_a:
        x = conj(x)
    shape = aval(right).shape
    vectors = aval(right).ndim == aval(x).ndim - 1
    if vectors:
        right = p.reshape(right, (*shape, 1) if left_side else (*shape[:-1], 1, shape[-1]))
    if not left_side:
        right = m.swapped(right)
    out = triangular.triangular_solve(x, right, lower=lower, transposed=transpose_a == left_side, unit=unit_diagonal)
    if not left_side:
        out = m.swapped(out)
    return p.reshape(out, shape) if vectors else out


def lu(x: ArrayLike) -> tuple[Result, Result, Result]:
    """(factors in one matrix, pivots, permutation) with partial pivoting.   x: [.., m, n]

    Row i of L @ U is row permutation[i] of x; step i has exchanged rows i and pivots[i].  Source: jax.lax.linalg.lu.

    >>> import numpy as np, tracejit as tj
    >>> factors, pivots, permutation = tj.jit(lambda x: tj.lax.linalg.lu(x))(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> factors
    array([[4.  , 4.  ],
           [0.25, 1.  ]])
    >>> permutation
    array([1, 0], dtype=int32)
    """
    return of_lu.lu(array(x))


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: Extent) -> Result:
    """The permutation that the exchanges of `lu` make: row i of the result is row permutation[i].
    pivots: i32[.., k] -> i32[.., permutation_size]

    Raises: ShapeError for less than k elements, and for no vector.   Source: jax.lax.linalg.lu_pivots_to_permutation.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda p: tj.lax.linalg.lu_pivots_to_permutation(p, 3))(np.array([2, 2, 2], np.int32))
    array([2, 0, 1], dtype=int32)
    """
    x = array(pivots)
    have = aval(x)
    if not have.ndim or have.dtype.kind not in "iu" or not permutation_size >= have.shape[-1]:
        raise reject(f"lu_pivots_to_permutation: {have} are no exchanges of {permutation_size} rows")
    *lead, k = have.shape
    rank = len(lead)
    shape = (*lead, permutation_size)
    start = iota(shape, rank, np.int32)
    if is_empty(k):
        return start
    places, none = iota(shape, rank, np.int64), m.zeros(shape, np.dtype(np.int32))

    def exchange(order: ArrayLike, step: Any) -> Any:
        one, other = [p.broadcast_in_dim(i, shape, tuple(range(aval(i).ndim))) for i in step]
        here, there = bind(Eq(), places, one), bind(Eq(), places, other)
        first, second = [
            p.broadcast_in_dim(reduce_sum(select(at, order, none), (rank,)), shape, tuple(range(rank)))
            for at in (here, there)
        ]
        return select(here, second, select(there, first, order)), None

    exchanges = p.transpose(convert(x, np.int64), (rank, *range(rank)))
    return scan(exchange, start, (iota((k,), 0, np.int64), exchanges))[0]


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Result:
    """alpha * a @ a.T + beta * c, for symmetric c.   a: [.., m, n], c: [.., m, m] -> [.., m, m]

    symmetrize_output: the lower triangle stands above the diagonal, too, whatever c has there.

    Source: jax.lax.linalg.symmetric_product.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.lax.linalg.symmetric_product(a, np.eye(2), beta=1.0))(np.array([[1.0], [2.0]]))
    array([[2., 2.],
           [2., 5.]])
    """
    x, y = operands("symmetric_product", a_matrix, c_matrix)
    triangular.check_matrices("symmetric_product", aval(x), square=False)
    triangular.check_matrices("symmetric_product", aval(y))
    if aval(y).shape[:-1] != aval(x).shape[:-1]:
        raise reject(f"symmetric_product: {aval(y)} is not of the shape of a product of {aval(x)} with its transpose")
    dtype = m.dtype_of(x)
    out = mul(m.product(x, m.swapped(x)), dtype.type(alpha))
    out = add(out, mul(y, dtype.type(beta))) if beta else out
    return m.mirrored(out) if symmetrize_output else out


def hessenberg(a: ArrayLike) -> tuple[Result, Result]:
    """(packed, taus): square matrices with zeros below the elements beside the diagonal, in whose place the vectors of
    the reflections 1 - tau v v^H lie, without their ones, by which they are made.
    a: [.., n, n] -> [.., n, n], [.., n - 1]

    Raises: UnsupportedError for derivatives.   Source: jax.lax.linalg.hessenberg, LAPACK's gehrd.

    >>> import numpy as np, tracejit as tj
    >>> a = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [4.0, 6.0, 7.0]])
    >>> tj.jit(lambda a: tj.lax.linalg.hessenberg(a)[1])(a)
    array([1.6, 0. ])
    """
    packed, taus = bind(of_hessenberg.PackedHessenberg(), array(a))
    return packed, taus


def qdwh(
    x: ArrayLike,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: None = None,
) -> tuple[Result, Result, Result, Result]:
    """(U, H, iterations, converged) with x == U @ H, orthonormal columns in U and H symmetric (Hermitian) and positive
    semidefinite.   x: [m, n], m >= n

    max_iterations: 10 by default.  eps: the rounding unit that is taken, by default that of the dtype.  is_hermitian
    changes nothing.

    Raises: ShapeError for other shapes, UnsupportedError for dynamic_shape.
    Source: Nakatsukasa, Bai and Gygi, Optimizing Halley's iteration for computing the matrix polar decomposition, 2010.

    >>> import numpy as np, tracejit as tj
    >>> u, h, n, done = tj.lax.linalg.qdwh(np.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> bool(np.allclose(h, [[3, 0], [0, 2]])), bool(done)
    (True, True)
    """
    _refuse("qdwh", dynamic_shape=dynamic_shape)
    y = array(x)
    triangular.check_matrices("qdwh", aval(y), square=False)
    if aval(y).ndim != 2 or of_lu.is_wide(*aval(y).shape):
        raise reject(f"qdwh takes one matrix that has as many rows as columns or more, not {aval(y)}")
    rows, columns = aval(y).shape
    real_ = m.part_dtype(y)
    unit = float(np.finfo(real_).eps) if eps is None else float(eps)
    most = 10 if max_iterations is None else int(max_iterations)
    # the 2-norm is at most the square root of the product of the 1-norm and that of infinity
    sizes = m.size_of(y)
    bound = bind(Sqrt(), mul(*[reduce_max(reduce_sum(sizes, (d,)), (0,)) for d in (0, 1)]))
    one = real_.type(1)
    bound = select(bind(Eq(), bound, real_.type(0)), one, bound)
    start = div(y, m.like(p.broadcast_in_dim(bound, (rows, columns), ()), y))
    near, still = real_.type(5 * unit), real_.type(np.cbrt(5 * unit))
    eye = m.eye_like(m.zeros((columns, columns), m.dtype_of(y)))

    def goes_on(carry: Any) -> Result:
        _, low, change, count = carry
        moves = bind(Or(), bind(Gt(), sub(one, low), near), bind(Gt(), change, still))
        return bind(And(), moves, bind(Lt(), count, np.int64(most)))

    def step(carry: Any) -> Any:
        old, low, _, count = carry
        square = mul(low, low)
        d = bind(Cbrt(), div(mul(real_.type(4), sub(one, square)), mul(square, square)))
        root = bind(Sqrt(), add(one, d))
        inner = div(mul(real_.type(8), sub(real_.type(2), square)), mul(square, root))
        a = add(root, mul(real_.type(0.5), bind(Sqrt(), add(sub(real_.type(8), mul(real_.type(4), d)), inner))))
        b = mul(real_.type(0.25), mul(sub(a, one), sub(a, one)))
        c = sub(add(a, b), one)
        scale = bind(Sqrt(), c)

        def times(z: ArrayLike, number: ArrayLike) -> Result:
            return mul(z, m.like(p.broadcast_in_dim(number, aval(z).shape, ()), z))

        q, _ = of_qr.qr(p.concatenate([times(old, scale), eye], 0), False)
        q1, q2 = p.slice_array(q, (0, 0), (rows, columns)), p.slice_array(q, (rows, 0), (columns, columns))
        ratio = div(b, c)
        new = add(times(old, ratio), times(m.product(q1, m.adjoint(q2)), div(sub(a, ratio), scale)))
        moved = bind(Sqrt(), reduce_sum(m.squared(sub(new, old)), (0, 1)))
        low = div(mul(low, add(a, mul(b, square))), add(one, mul(c, square)))
        return new, bind(Minimum(), low, one), moved, add(count, np.int64(1))

    begin = (start, real_.type(unit), real_.type(np.inf), np.int64(0))
    u, low, change, count = while_loop(goes_on, step, begin)
    # a Newton-Schulz step takes out what rounding left
    u = sub(mul(u, m.dtype_of(u).type(1.5)), mul(m.product(u, m.product(m.adjoint(u), u)), m.dtype_of(u).type(0.5)))
    done = bind(And(), bind(Le(), sub(one, low), near), bind(Le(), change, still))
    return u, _symmetric(m.product(m.adjoint(u), y)), count, done


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Result, ...]:
    """(Q, R) with x == Q @ R and orthonormal columns in Q.   x: [.., m, n]   Source: jax.lax.linalg.qr.

    pivoting: a third result is the order of x's columns that Q @ R has, by LAPACK's pivots.

    Raises: UnsupportedError for derivatives of full matrices where m > n.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.lax.linalg.qr(a, full_matrices=False)[1])(np.array([[3.0], [4.0]]))
    array([[-5.]])
    """
    return of_qr.qr_of_ordered(array(x), full_matrices) if pivoting else of_qr.qr(array(x), full_matrices)


class SvdAlgorithm(enum.Enum):
    """JAX's ways to a singular value decomposition; here all are computed alike."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    DIVIDE_AND_CONQUER = "divide and conquer"
    POLAR = "polar"


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """(U, S, Vh) with x == U @ diag(S) @ Vh and S descending; only S without compute_uv.   x: [.., m, n]

    subset_by_index: (first, end) of the singular values that are given, with their vectors; all are computed, and
    without `full_matrices`.  algorithm: as in JAX, which changes nothing.

    Raises: UnsupportedError for derivatives of full matrices where m and n differ.  Source: jax.lax.linalg.svd.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.linalg.svd(x, compute_uv=False))(np.array([[0.0, 2.0], [3.0, 0.0]]))
    array([3., 2.])
    """
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    if subset_by_index is not None and full_matrices and compute_uv:
        raise reject("lax.linalg.svd: full_matrices and subset_by_index cannot both be set")
    if compute_uv:
        left, s, right = spectral.svd(array(x), full_matrices)
        if subset_by_index is None:
            return left, s, right
        take = OPERATORS.getitem
        return take(left, (..., part)), take(s, (..., part)), take(right, (..., part, slice(None)))
    (s,) = bind(spectral.SVD(False, False), array(x))
    return s if subset_by_index is None else OPERATORS.getitem(s, (..., part))


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Result, Result]:
    """(eigenvectors, eigenvalues ascending) of symmetric matrices, or Hermitian ones.   x: [.., n, n]

    Without symmetrize_input one triangle alone is read, the lower one unless lower is false.  sort_eigenvalues: they
    are in order in any case.  subset_by_index: (first, end) of those that are given; all are computed.

    Raises: ShapeError for a subset that there is not.   Source: jax.lax.linalg.eigh.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.linalg.eigh(x)[1])(np.array([[5.0, 0.0], [0.0, 1.0]]))
    array([1., 5.])
    """
    y = array(x)
    w, v = spectral.eigh(_symmetric(y) if symmetrize_input else y, lower)
    if subset_by_index is None:
        return v, w
    first, end = subset_by_index
    *lead, n, _ = aval(v).shape
    if not 0 <= first <= end or not n >= end:
        raise reject(f"eigh: subset_by_index={subset_by_index} is not within {n} eigenvalues")
    none = [0] * len(lead)
    return p.slice_array(v, (*none, 0, first), (*lead, n, end - first)), p.slice_array(
        w, (*none, first), (*lead, end - first)
    )


def eig(
    x: ArrayLike, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True
) -> list[Result]:
    """[eigenvalues, eigenvectors of the left side, of the right side] of square matrices, all complex.   x: [.., n, n]

    u^H @ x == w * u^H and x @ v == v * w; vectors, of length 1, are there as far as they are asked for.
    Source: jax.lax.linalg.eig.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.linalg.eig(x)[0])(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    array([0.+2.j, 0.-2.j])
    """
    y = array(x)
    if not compute_left_eigenvectors and not compute_right_eigenvectors:
        return [bind(eigen.Eig(False), y)[0]]
    w, v = eigen.eig(y)
    left = [eigen.left_vectors(v)] if compute_left_eigenvectors else []
    return [w, *left, *([v] if compute_right_eigenvectors else [])]


def schur(
    x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None
) -> list[Result]:
    """[T, Z] with x == Z @ T @ Z^H, unitary Z and a triangle T, or T alone without compute_schur_vectors.
    x: [.., n, n]

    Of real matrices both are real, and pairs of complex eigenvalues are blocks of two rows on T's diagonal.

    Raises: UnsupportedError for sort_eig_vals and select_callable, and for derivatives.
    Source: jax.lax.linalg.schur.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.linalg.schur(x)[0])(np.array([[1.0, 2.0], [0.0, 3.0]]))
    array([[1., 2.],
           [0., 3.]])
    """
    _refuse("schur", sort_eig_vals=sort_eig_vals, select_callable=select_callable)
    return list(bind(of_schur.Schur(compute_schur_vectors), array(x)))


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Result, Result, Result, Result]:
    """(packed, d, e, taus): the tridiagonal form of symmetric, or Hermitian, matrices, of which one triangle is read.
    a: [.., n, n] -> [.., n, n], real[.., n], real[.., n-1], [.., n-1]

    d is its diagonal and e lies beside it; in packed these are in their places, and in the rest of that triangle the
    vectors of the reflections 1 - tau v v^H, without their ones, by which it is made.

    Raises: UnsupportedError for derivatives.   Source: jax.lax.linalg.tridiagonal.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda a: tj.lax.linalg.tridiagonal(a)[2])(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([2.])
    """
    packed, d, e, taus = bind(of_tridiagonal.Tridiagonal(lower), array(a))
    return packed, d, e, taus


def __getattr__(name: str) -> Any:
    from tracejit.support.not_here import reason_for  # for speed of import

    raise AttributeError(reason_for(name, __name__))
