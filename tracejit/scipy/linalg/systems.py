"""Systems of equations and the decompositions that solve them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import is_one, prod
from tracejit.lax.linalg import lu_pivots_to_permutation
from tracejit.numpy import decompositions as d, norms, reductions as r, shaping, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives import lu as of_lu, matrix_loops as m, shape as p, sylvester as of_sylvester, triangular
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.creation import iota
from tracejit.scipy.linalg.banded import tridiagonal_solution
from tracejit.scipy.linalg.operands import (
    column,
    double_dtype,
    finite,
    first_of,
    floats,
    inexact_dtype,
    is_empty,
    is_square,
    lapack_dtype,
    numbers,
    same_rows,
    square,
    together,
    without_column,
)
from tracejit.support.dtypes import real_dtype
from tracejit.support.errors import LinearAlgebraError
from tracejit.support.typing import ArrayLike, AxisLike, Result
from tracejit.tracer.failures import Reason

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "inv", "lu", "lu_factor", "lu_solve", "norm", "solve",
    "solve_sylvester", "solve_triangular",
]  # fmt: skip

_ZERO_ON_DIAGONAL = Reason(LinearAlgebraError, "singular matrix: resolution failed at diagonal {}")
_NOT_DEFINITE = Reason(LinearAlgebraError, "{}-th leading minor of the array is not positive definite")
_SINGULAR = Reason(LinearAlgebraError, "A singular matrix detected: slice(s) [{}] are singular.")
_SINGULAR_NUMBER = Reason(LinearAlgebraError, "A singular matrix detected.")
_SINGULAR_IN_STACK = Reason(LinearAlgebraError, "A singular matrix detected: slice {} of the stack is singular.")


# -- triangles ---------------------------------------------------------------------------------------------------------
_TRANSPOSED = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}


def _is_transposed(name: str, trans: Any) -> bool:
    if trans not in _TRANSPOSED:
        raise reject(f"{name}: trans is 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    return _TRANSPOSED[trans]


def _is_conjugated(trans: Any) -> bool:
    return trans in (2, "C")


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Result:
    """x with a @ x == b, of a's upper or lower triangle.   a: [.., n, n], b: [n] or [.., n, k]

    trans: 1 or "T" for a's transpose, 2 or "C" for that conjugated.  unit_diagonal: a's diagonal is taken for ones.

    Raises: LinAlgError if the diagonal has a zero, and ValueError for what is not finite, when the program has run;
    ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.solve_triangular.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solve_triangular(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 9.0]), lower=True)
    Array([1., 2.], dtype=float64)
    """
    x, right = numbers("solve_triangular", a, check_finite), numbers("solve_triangular", b, check_finite)
    square(x, "expected square matrix")
    vector, have = aval(right).ndim == 1, aval(right).shape
    right = column(right) if vector else right
    if not same_rows(x, right):
        raise reject(f"shapes of a {aval(x).shape} and b {have} are incompatible")
    transposed = _is_transposed("solve_triangular", trans)
    dtype = lapack_dtype(x, right)
    x, right = together((to_dtype(x, dtype), 2), (to_dtype(right, dtype), 2))
    if _is_conjugated(trans):
        x = conj(x)
    if not unit_diagonal and not is_empty(right):
        check_none(*_with_reason(u.equal(m.diagonal_of(x), 0), _ZERO_ON_DIAGONAL))
    out = triangular.triangular_solve(x, right, lower=bool(lower), transposed=transposed, unit=bool(unit_diagonal))
    return without_column(out) if vector else out


def _with_reason(wrong: ArrayLike, reason: Reason, shift: int = 0) -> tuple[Result, Reason, Result]:
    """What `check_none` takes, for the first place along the last axis."""
    found, number = first_of(wrong)
    return found, reason, u.add(number, shift)


def _factor(name: str, a: ArrayLike, lower: bool, check_finite: bool) -> tuple[Result, Result]:
    """The operand in floating point, and its Cholesky factor."""
    x = floats(numbers(name, a, check_finite))
    shape = aval(x).shape
    if len(shape) < 2:
        x = p.reshape(x, (1, *shape) if shape else (1, 1))
        shape = aval(x).shape
    if not is_square(x):
        raise reject(f"Input array is expected to be square but has the shape: {shape}.")
    factor = triangular.cholesky(x if lower else m.adjoint(x))
    if not is_empty(x):
        check_none(*_with_reason(u.isnan(m.diagonal_of(factor)), _NOT_DEFINITE, 1))
    return x, factor if lower else m.adjoint(factor)


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Result:
    """U with U.T @ U == a, or L with L @ L.T == a.   a: [.., n, n] symmetric, of which that triangle alone is read.

    Of complex numbers a is Hermitian, and the transposes are conjugated.

    Raises: LinAlgError if a is not positive definite, and ValueError for what is not finite, when the program has run;
    ShapeError unless a is square.
    Source: SciPy's scipy.linalg.cholesky.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float64)
    """
    return _factor("cholesky", a, bool(lower), check_finite)[1]


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Result, bool]:
    """(factor, lower) for `cho_solve`: `cholesky` with a's own elements in the other triangle.

    Raises: as `cholesky`.
    Source: SciPy's scipy.linalg.cho_factor.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cho_factor(np.array([[4.0, 2.0], [2.0, 5.0]]), lower=True)
    (Array([[2., 2.],
           [1., 2.]], dtype=float64), True)
    """
    x, factor = _factor("cho_factor", a, bool(lower), check_finite)
    rest = m.upper_part(x, True) if lower else m.lower_part(x, True)
    return u.add(factor, rest), bool(lower)


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Result:
    """x with a @ x == b, of what `cho_factor` gives for a.   factor: [.., n, n], b: [n] or [.., n, k]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.cho_solve.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cho_solve((np.array([[2.0, 0.0], [1.0, 2.0]]), True), np.array([8.0, 8.0]))
    Array([1.5, 1. ], dtype=float64)
    """
    factor, lower = c_and_lower
    c, right = numbers("cho_solve", factor, check_finite), numbers("cho_solve", b, check_finite)
    square(c, "The factored matrix c is not square.")
    vector, have = aval(right).ndim == 1, aval(right).shape
    right = column(right) if vector else right
    if not same_rows(c, right):
        raise reject(f"incompatible dimensions ({aval(c).shape} and {have})")
    dtype = lapack_dtype(c, right)
    c, right = together((to_dtype(c, dtype), 2), (to_dtype(right, dtype), 2))
    out = _by_factor(c, right, bool(lower))
    return without_column(out) if vector else out


def _by_factor(c: ArrayLike, right: ArrayLike, lower: bool) -> Result:
    turned = conj(c)
    half = triangular.triangular_solve(c if lower else turned, right, lower=lower, transposed=not lower)
    return triangular.triangular_solve(turned if lower else c, half, lower=lower, transposed=lower)


# -- LU ----------------------------------------------------------------------------------------------------------------
def _places(order: ArrayLike) -> Result:
    """Where each number is in a permutation.   order: i32[.., n] -> i32[.., n]"""
    shape = aval(order).shape
    n = shape[-1]
    wide = (*shape, n)
    rank = len(shape)
    equal = u.equal(p.broadcast_in_dim(order, wide, (*range(rank - 1), rank)), iota(wide, rank - 1, np.int32))
    return to_dtype(r.sum(u.where(equal, iota(wide, rank, np.int32), 0), -1), np.int32)


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """(P, L, U) with a == P @ L @ U and partial pivoting.   a: [.., m, n] -> [.., m, m], [.., m, k], [.., k, n]

    permute_l: (P @ L, U) instead.  p_indices: P as i32[.., m], with a == L[P] @ U.  k is the lesser of m and n.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for less than two axes.
    Source: SciPy's scipy.linalg.lu.

    >>> import numpy as np, tracejit as tj
    >>> p, l, u = tj.scipy.linalg.lu(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> u
    Array([[4., 4.],
           [0., 1.]], dtype=float64)
    """
    x = floats(numbers("lu", a, check_finite))
    if aval(x).ndim < 2:
        raise reject("The input array must be at least two-dimensional.")
    factors, _, order = of_lu.lu(x)
    left, right = of_lu.lu_parts(factors)
    if permute_l:
        return of_lu.permuted_rows(left, _places(order)), right
    lead = aval(x).shape[:-2]
    if is_empty(x):
        none = (
            m.zeros((*lead, 0), np.dtype(np.int32)) if p_indices else m.zeros((*lead, 0, 0), real_dtype(aval(x).dtype))
        )
        return none, left, right
    if p_indices:
        return _places(order), left, right
    n = aval(order).shape[-1]
    wide = (*lead, n, n)
    rank = len(wide)
    spread = p.broadcast_in_dim(order, wide, (*range(rank - 2), rank - 1))
    return to_dtype(u.equal(spread, iota(wide, rank - 2, np.int32)), real_dtype(aval(x).dtype)), left, right


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Result, Result]:
    """(factors in one matrix, pivots) with partial pivoting.   a: [.., m, n] -> [.., m, n], i32[.., k]

    U, and below its diagonal L without its ones; step i has exchanged rows i and pivots[i].  Nothing warns of a
    singular matrix.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for less than two axes.
    Source: SciPy's scipy.linalg.lu_factor.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    (Array([[4.  , 4.  ],
           [0.25, 1.  ]], dtype=float64), Array([1, 1], dtype=int32))
    """
    x = floats(numbers("lu_factor", a, check_finite))
    if aval(x).ndim < 2:
        raise reject("expected a matrix, or a stack of them")
    factors, pivots, _ = of_lu.lu(x)
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Result:
    """x with a @ x == b, of what `lu_factor` gives for a.   factors: [.., n, n], pivots: [.., n], b: [n] or [.., n, k]

    trans: 1 for a's transpose, 2 for that conjugated.

    Raises: ValueError for elements of b that are not finite, when the program has run; ShapeError for shapes that do
    not fit.
    Source: SciPy's scipy.linalg.lu_solve.

    >>> import numpy as np, tracejit as tj
    >>> factors = np.array([[4.0, 4.0], [0.25, 1.0]]), np.array([1, 1])
    >>> tj.scipy.linalg.lu_solve(factors, np.array([3.0, 8.0]))
    Array([1., 1.], dtype=float64)
    """
    factors, pivots = lu_and_piv
    x, right = numbers("lu_solve", factors, False), numbers("lu_solve", b, check_finite)
    exchanges = shaping.array_of(pivots)
    square(x, "expected square matrix")
    vector, have = aval(right).ndim == 1, aval(right).shape
    right = column(right) if vector else right
    if not same_rows(x, right):
        raise reject(f"Shapes of lu {aval(x).shape} and b {have} are incompatible")
    transposed = _is_transposed("lu_solve", trans)
    dtype = lapack_dtype(x, right)
    x, exchanges, right = together((to_dtype(x, dtype), 2), (exchanges, 1), (to_dtype(right, dtype), 2))
    if _is_conjugated(trans):
        x = conj(x)
    order = lu_pivots_to_permutation(exchanges, aval(x).shape[-1])
    out = by_lu(x, order, right, transposed)
    return without_column(out) if vector else out


def by_lu(factors: ArrayLike, order: ArrayLike, right: ArrayLike, transposed: bool = False) -> Result:
    """The solutions of systems of which LU decompositions are known."""
    if not transposed:
        half = triangular.triangular_solve(factors, of_lu.permuted_rows(right, order), lower=True, unit=True)
        return triangular.triangular_solve(factors, half, lower=False)
    half = triangular.triangular_solve(factors, right, lower=False, transposed=True)
    half = triangular.triangular_solve(factors, half, lower=True, transposed=True, unit=True)
    return of_lu.permuted_rows(half, _places(order))


# -- solve and inv -----------------------------------------------------------------------------------------------------
_STRUCTURES = {
    None: "gen", "general": "gen", "gen": "gen", "banded": "gen", "diagonal": "diagonal",
    "tridiagonal": "tridiagonal", "upper triangular": "upper", "lower triangular": "lower", "pos": "pos",
    "positive definite": "pos", "sym": "sym", "symmetric": "sym", "her": "her", "hermitian": "her",
}  # fmt: skip


def _check_regular(wrong: ArrayLike) -> None:
    """The program fails if a matrix of a stack is singular.   wrong: bool[.., n], of the places that decide it"""
    stack = r.any(wrong, -1)
    flat = p.reshape(stack, (prod(aval(stack).shape),))
    found, number = first_of(flat)
    check_none(found, _SINGULAR_IN_STACK if aval(stack).ndim else _SINGULAR, number)


def _solved(a: ArrayLike, right: ArrayLike, kind: str, lower: bool, transposed: bool) -> Result:
    """The solutions of systems whose matrices have a structure."""
    if kind in ("upper", "lower"):
        _check_regular(u.equal(m.diagonal_of(a), 0))
        return triangular.triangular_solve(a, right, lower=kind == "lower", transposed=transposed)
    if kind == "diagonal":
        diagonal = m.diagonal_of(a)
        _check_regular(u.equal(diagonal, 0))
        return u.divide(right, column(diagonal))
    if kind == "tridiagonal":
        out, singular = tridiagonal_solution(m.swapped(a) if transposed else a, right)
        _check_regular(singular)
        return out
    if kind == "sym":
        half = m.lower_part(a) if lower else m.upper_part(a)
        a = u.add(half, m.swapped(m.lower_part(a, True) if lower else m.upper_part(a, True)))
    elif kind in ("pos", "her"):
        a = m.mirrored(a, lower)
        a = conj(a) if transposed else a
    if kind == "pos":
        factor = triangular.cholesky(a)
        _check_regular(u.isnan(m.diagonal_of(factor)))
        return _by_factor(factor, right, True)
    factors, _, order = of_lu.lu(a)
    _check_regular(u.equal(m.diagonal_of(factors), 0))
    return by_lu(factors, order, right, transposed and kind == "gen")


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Result:
    """x with a @ x == b.   a: [.., n, n], b: [n] or [.., n, k]

    assume_a: "general" ("gen"), "symmetric" ("sym"), "hermitian" ("her") and "positive definite" ("pos"), of which one
    triangle counts (the lower one with `lower`), "upper triangular", "lower triangular", "diagonal", "tridiagonal",
    which read no more than these elements, or "banded".  By default, and for symmetric and banded matrices, it is
    LU with partial pivoting.  transposed: a's transpose.  Nothing warns of matrices that are nearly singular.

    Raises: LinAlgError if a is singular, or not positive definite as assumed, and ValueError for what is not finite,
    when the program has run; ShapeError for shapes that do not fit and other structures.
    Source: SciPy's scipy.linalg.solve.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solve(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 8.0]))
    Array([1., 2.], dtype=float64)
    """
    if assume_a not in _STRUCTURES:
        raise reject(f"{assume_a} is not a recognized matrix structure")
    x, right = numbers("solve", a, check_finite), numbers("solve", b, check_finite)
    dtype = inexact_dtype(x, right)
    x, right = to_dtype(x, dtype), to_dtype(right, dtype)
    shape = aval(x).shape
    if len(shape) < 2:
        x = p.reshape(x, (1, *shape) if shape else (1, 1))
        shape = aval(x).shape
    if not aval(right).ndim:
        right = p.reshape(right, (1,))
    if not is_square(x):
        raise reject(f"Expected square matrix, got a1.shape={shape}")
    vector = aval(right).ndim == 1
    right = column(right) if vector else right
    if len(shape) == 2 and is_one(shape[-1]):  # a number, for any right-hand side
        number = p.reshape(x, ())
        check_none(u.equal(number, 0), _SINGULAR_NUMBER)
        out = u.divide(right, number)
        return without_column(out) if vector else out
    if not same_rows(x, right):
        raise reject(f"incompatible shapes: a1.shape={shape} and b1.shape={aval(right).shape}")
    x, right = together((x, 2), (right, 2))
    if is_empty(x, right):
        out = right
    else:
        out = _solved(x, right, _STRUCTURES[assume_a], bool(lower), bool(transposed))
    return without_column(out) if vector else out


def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Result:
    """The inverses of square matrices.   a: [.., n, n]   assume_a, lower: as in `solve`.

    Raises: as `solve`.
    Source: SciPy's scipy.linalg.inv.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float64)
    """
    if assume_a not in _STRUCTURES or _STRUCTURES[assume_a] == "tridiagonal" or assume_a == "banded":
        raise reject(f"{assume_a} is not a recognized matrix structure")
    x = floats(numbers("inv", a, check_finite))
    if aval(x).ndim < 2:
        raise reject(f"Expected at least ndim=2, got a1.ndim={aval(x).ndim}")
    if not is_square(x):
        raise reject(f"Expected square matrix, got a1.shape={aval(x).shape}")
    return x if is_empty(x) else _solved(x, m.eye_like(x), _STRUCTURES[assume_a], bool(lower), False)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Result:
    """The determinants of square matrices, in float64 or complex128.   a: [.., n, n] -> [..]

    The derivative at a singular matrix is NaN.

    Raises: ValueError for what is not finite, when the program has run; ShapeError unless a is square.
    Source: SciPy's scipy.linalg.det.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.scipy.linalg.det(np.array([[2.0, 0.0], [0.0, 4.0]])))
    8.0
    """
    x = numbers("det", a, check_finite)
    if aval(x).ndim < 2:
        raise reject("The input array must be at least two-dimensional.")
    if not is_square(x):
        raise reject(f"Last 2 dimensions of the array must be square but received shape {aval(x).shape}.")
    return d.det(to_dtype(x, double_dtype(x)))


def norm(
    a: ArrayLike, ord: Any = None, axis: AxisLike = None, keepdims: bool = False, check_finite: bool = True
) -> Result:
    """The norm of vectors (one axis) or matrices (two axes), as np.linalg.norm has it.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for orders that there are not.
    Source: SciPy's scipy.linalg.norm.

    >>> import numpy as np, tracejit as tj
    >>> float(tj.scipy.linalg.norm(np.array([3.0, 4.0])))
    5.0
    """
    x = shaping.array_of(a)
    return norms.norm(finite(x) if check_finite else x, ord, axis, keepdims)


# -- Sylvester's equation ----------------------------------------------------------------------------------------------
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Result:
    """x with a @ x + x @ b == q, by Schur's forms of a and b.   a: [.., m, m], b: [.., n, n], q: [.., m, n]

    All are NaN where an eigenvalue of a is the opposite of one of b, to within tol.  method: JAX's "schur" or "eigen",
    which are computed alike.

    Raises: ShapeError for shapes that do not fit and other methods.
    Source: SciPy's scipy.linalg.solve_sylvester, and JAX's.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solve_sylvester(2.0 * np.eye(2), np.eye(2), np.array([[3.0, 6.0], [0.0, 9.0]]))
    Array([[1., 2.],
           [0., 3.]], dtype=float64)
    """
    if method not in ("schur", "eigen"):
        raise reject(f"solve_sylvester: method is 'schur' or 'eigen', not {method!r}")
    given = [numbers("solve_sylvester", x, False) for x in (a, b, q)]
    for x in given[:2]:
        square(x, "expected square matrix")
    if aval(given[2]).ndim < 2 or not same_rows(given[0], given[2]) or not same_rows(given[1], given[2], -1):
        shapes = ", ".join(str(aval(x).shape) for x in given)
        raise reject(f"solve_sylvester: matrices of shapes {shapes} do not fit")
    dtype = lapack_dtype(*given)
    x, y, right = together(*[(to_dtype(x, dtype), 2) for x in given])
    return of_sylvester.sylvester(x, y, right, float(tol))
