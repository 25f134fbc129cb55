"""Systems whose matrices are bands, or follow from a vector: Toeplitz's and circulant ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.api.control import scan
from tracejit.ir.extents import Extent, is_one, same_extent
from tracejit.lax.banded import back_substituted, banded_solution, with_leading_steps, with_steps_back
from tracejit.numpy import fourier, joining, linear, reductions as r, shaping, ufuncs as u
from tracejit.numpy.axes import reject, static_int
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import matrix_loops as m, shape as p
from tracejit.primitives.creation import iota
from tracejit.primitives.slicing import dynamic_slice
from tracejit.scipy.linalg.operands import (
    FLOAT64,
    column,
    first_of,
    inexact_dtype,
    is_empty,
    lapack_dtype,
    real,
    same_rows,
    together,
    without_column,
)
from tracejit.scipy.linalg.special_matrices import toeplitz
from tracejit.support.errors import LinearAlgebraError
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason

__all__ = [
    "cho_solve_banded", "cholesky_banded", "matmul_toeplitz", "solve_banded", "solve_circulant", "solve_toeplitz",
    "solveh_banded",
]  # fmt: skip

_SINGULAR = Reason(LinearAlgebraError, "singular matrix")
_NOT_DEFINITE = Reason(LinearAlgebraError, "{}-th leading minor not positive definite")
_SYSTEM_NOT_DEFINITE = Reason(LinearAlgebraError, "{}th leading minor not positive definite")
_SINGULAR_MINOR = Reason(LinearAlgebraError, "Singular principal minor")
_NEAR_SINGULAR = Reason(LinearAlgebraError, "near singular circulant matrix.")


def tridiagonal_solution(a: ArrayLike, right: ArrayLike) -> tuple[Result, Result]:
    """(solutions, whether a pivot is zero) of systems of which the tridiagonal part counts.
    a: [.., n, n], right: [.., n, k] -> [.., n, k], bool[.., n]
    """
    diagonals = [column(_offset_diagonal(a, k)) for k in (-1, 0, 1)]
    return banded_solution(joining.concatenate(diagonals, -1), 1, right)


def _offset_diagonal(a: ArrayLike, k: int) -> Result:
    """a[.., i, i + k], and 0 where there is none.   a: [.., n, n] -> [.., n]"""
    shape = aval(a).shape
    rank = len(shape)
    here = u.equal(iota(shape, rank - 1, np.int64), u.add(iota(shape, rank - 2, np.int64), k))
    return r.sum(u.where(here, a, 0), -1)


# -- bands -------------------------------------------------------------------------------------------------------------
def _shifted(x: ArrayLike, by: int) -> Result:
    """x[.., j + by] for each j, and 0 where there is none."""
    shape = aval(x).shape
    n = shape[-1]
    if not by:
        return x
    zero, none = m.dtype_of(x).type(0), [0] * (len(shape) - 1)
    if by > 0:
        kept = p.slice_array(x, (*none, by), (*shape[:-1], n - by))
        return p.pad(kept, zero, [0] * len(shape), [*none, by])
    kept = p.slice_array(x, (0,) * len(shape), (*shape[:-1], n + by))
    return p.pad(kept, zero, [*none, -by], [0] * len(shape))


def _diagonal_row(ab: ArrayLike, i: int) -> Result:
    """Row i of matrices in diagonal form."""
    shape = aval(ab).shape
    row = p.slice_array(ab, (*[0] * (len(shape) - 2), i, 0), (*shape[:-2], 1, shape[-1]))
    return p.reshape(row, (*shape[:-2], shape[-1]))


def _rows_of_band(ab: ArrayLike, lower: int, upper: int) -> Result:
    """The rows of banded matrices, of what they have from `lower` elements left of the diagonal on.
    ab: [.., w, n] -> [.., n, w]

    ab[.., upper + i - j, j] is element (i, j).
    """
    n = aval(ab).shape[-1]
    parts: list[Result] = []
    for t in range(lower + upper + 1):
        shift = t - lower  # the column is i + shift
        if isinstance(n, int) and abs(shift) >= n:
            parts.append(u.multiply(column(_diagonal_row(ab, 0)), 0))
        else:
            parts.append(column(_shifted(_diagonal_row(ab, upper - shift), shift)))
    return joining.concatenate(parts, -1)


def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Result:
    """x with A @ x == b, A having `l` diagonals below its own and `u` above it, by elimination with partial pivoting.
    ab: [.., l + u + 1, n], b: [n] or [.., n, k]

    ab[u + i - j, j] is A[i, j].

    Raises: LinAlgError if A is singular, and ValueError for what is not finite, when the program has run; ShapeError
    for shapes that do not fit.
    Source: SciPy's scipy.linalg.solve_banded.

    >>> import numpy as np, tracejit as tj
    >>> ab = np.array([[0.0, 1.0], [2.0, 4.0], [0.0, 0.0]])
    >>> tj.scipy.linalg.solve_banded((1, 1), ab, np.array([4.0, 8.0]))
    Array([1., 2.], dtype=float64)
    """
    lower, upper = (int(k) for k in l_and_u)
    band, right = real("solve_banded", ab, check_finite), real("solve_banded", b, check_finite)
    dtype = np.result_type(*[inexact_dtype(x) for x in (band, right)])
    vector = aval(right).ndim == 1
    right = column(right) if vector else right
    if not same_rows(band, right):
        raise reject("shapes of ab and b are not compatible.")
    rows = aval(band).shape[-2]
    if lower + upper + 1 != rows:
        raise reject(
            "invalid values for the number of lower and upper diagonals: l+u+1 "
            f"({lower + upper + 1}) does not equal ab.shape[0] ({rows})"
        )
    band, right = together((to_dtype(band, dtype), 2), (to_dtype(right, dtype), 2))
    if is_empty(right):
        out = right
    elif is_one(aval(band).shape[-1]):
        out = u.divide(right, column(_diagonal_row(band, upper)))
    else:
        # diagonals beyond the corners hold nothing
        n = aval(band).shape[-1]
        least = min(lower, n - 1) if isinstance(n, int) else lower
        most = min(upper, n - 1) if isinstance(n, int) else upper
        shape = aval(band).shape
        start = (*[0] * (len(shape) - 2), upper - most, 0)
        band = p.slice_array(band, start, (*shape[:-2], least + most + 1, shape[-1]))
        out, singular = banded_solution(_rows_of_band(band, least, most), least, right)
        check_none(singular, _SINGULAR)
    return without_column(out) if vector else out


def _count(ab: ArrayLike) -> int:
    """How many diagonals there are."""
    return static_int(aval(ab).shape[-2], "the number of diagonals")


def _lower_form(ab: ArrayLike) -> Result:
    """The lower form of a symmetric matrix in the upper one: row d has the elements d below the diagonal.
    ab: [.., w, n]
    """
    w = _count(ab)
    rows = [_shifted_within(_diagonal_row(ab, w - 1 - d), d) for d in range(w)]
    return joining.stack(rows, -2)


def _upper_form(ab: ArrayLike) -> Result:
    """The opposite of `_lower_form`."""
    w = _count(ab)
    return joining.stack([_shifted_within(_diagonal_row(ab, d), -d) for d in range(w - 1, -1, -1)], -2)


def _shifted_within(x: ArrayLike, by: int) -> Result:
    n = aval(x).shape[-1]
    return u.multiply(x, 0) if isinstance(n, int) and abs(by) >= n else _shifted(x, by)


def _factored_band(ab: ArrayLike, reason: Reason) -> Result:
    """The Cholesky factor of symmetric banded matrices, both in lower form.   ab: [.., w, n]

    Source: the columns in order, with what they have taken from later ones as a window that moves down.
    """
    *lead, w, _ = aval(ab).shape
    none, dtype = [0] * len(lead), m.dtype_of(ab)
    rank = len(lead)

    def step(window: ArrayLike, entering: ArrayLike) -> tuple[Result, Result]:
        """window: what is taken from elements (i, j), j <= i < w - 1, from here on"""
        column_ = u.subtract(entering, p.reshape(p.slice_array(window, (*none, 0, 0), (*lead, w, 1)), (*lead, w)))
        top = p.slice_array(column_, (*none, 0), (*lead, 1))
        root = u.sqrt(u.where(u.greater(top, 0), top, dtype.type(np.nan)))
        found = u.divide(column_, root)
        wide = (*lead, w, w)
        over = tuple(range(rank))
        product = u.multiply(
            p.broadcast_in_dim(found, wide, (*over, rank)), p.broadcast_in_dim(found, wide, (*over, rank + 1))
        )
        total = u.add(window, product)
        rest = p.slice_array(total, (*none, 1, 1), (*lead, w - 1, w - 1))
        return p.pad(rest, dtype.type(0), [0] * (rank + 2), [*none, 1, 1]), found

    start = m.zeros((*lead, w, w), dtype)
    columns = scan(step, start, with_leading_steps(ab, -1))[1]
    factor = with_steps_back(columns, -1)
    found, number = first_of(u.isnan(_diagonal_row(factor, 0)))
    check_none(found, reason, u.add(number, 1))
    return factor


def _inside_band(ab: ArrayLike, lower: bool) -> Result:
    """Which elements of matrices in diagonal form are any of the matrices'."""
    *_, w, n = aval(ab).shape
    row, place = iota((w, n), 0, np.int64), iota((w, n), 1, np.int64)
    if lower:
        return u.less(u.add(row, place), to_dtype(_extent(n), np.int64))
    return u.greater_equal(u.add(row, place), w - 1)


def _extent(n: Extent) -> Result:
    return n if isinstance(n, int) else shaping.array_of(n)


def cholesky_banded(
    ab: ArrayLike, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> Result:
    """The Cholesky factor of symmetric banded matrices, in their form.   ab: [.., w, n]

    ab has the diagonal as its last row and those above it over that, or, with `lower`, as its first row and those
    below under it.  What lies outside of the matrix stays.

    Raises: LinAlgError if a matrix is not positive definite, and ValueError for what is not finite, when the program
    has run.
    Source: SciPy's scipy.linalg.cholesky_banded.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cholesky_banded(np.array([[4.0, 5.0], [2.0, 0.0]]), lower=True)
    Array([[2., 2.],
           [1., 0.]], dtype=float64)
    """
    band = real("cholesky_banded", ab, check_finite)
    band = to_dtype(band, lapack_dtype(band))
    if aval(band).ndim < 2:
        raise reject("cholesky_banded takes matrices in diagonal form, of two axes")
    if is_empty(band):
        return band
    inside = _inside_band(band, bool(lower))
    cleared = u.where(inside, band, 0)
    factor = _factored_band(cleared if lower else _lower_form(cleared), _NOT_DEFINITE)
    return u.where(inside, factor if lower else _upper_form(factor), band)


def _by_banded_factor(factor: ArrayLike, right: ArrayLike) -> Result:
    """Solutions of L L.T x = right, L in lower form.   factor: [.., w, n], right: [.., n, k]"""
    w = _count(factor)
    # row i of L from the diagonal to the left, which is solved from the first to the last
    rows = joining.stack([_shifted_within(_diagonal_row(factor, d), -d) for d in range(w)], -1)
    steps, sides = with_leading_steps(rows, -2), with_leading_steps(right, -2)
    half = p.reverse(back_substituted(p.reverse(steps, (0,)), p.reverse(sides, (0,))), (0,))
    columns = with_leading_steps(factor, -1)
    return with_steps_back(back_substituted(columns, half), -2)


def cho_solve_banded(
    cb_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Result:
    """x with A @ x == b, of what `cholesky_banded` gives for A.   cb: [.., w, n], b: [n] or [.., n, k]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.cho_solve_banded.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cho_solve_banded((np.array([[2.0, 2.0], [1.0, 0.0]]), True), np.array([8.0, 8.0]))
    Array([1.5, 1. ], dtype=float64)
    """
    factor, lower = cb_and_lower
    name = "cho_solve_banded"
    return _definite(name, factor, b, bool(lower), check_finite, "shapes of cb and b are not compatible.", True)


def _definite(
    name: str, ab: ArrayLike, b: ArrayLike, lower: bool, check_finite: bool, message: str, factored: bool
) -> Result:
    band, right = real(name, ab, check_finite), real(name, b, check_finite)
    vector = aval(right).ndim == 1
    right = column(right) if vector else right
    if aval(band).ndim < 2 or not same_rows(band, right):
        raise reject(message)
    dtype = lapack_dtype(band, right)
    band, right = together((to_dtype(band, dtype), 2), (to_dtype(right, dtype), 2))
    if is_empty(right):
        return without_column(right) if vector else right
    band = u.where(_inside_band(band, lower), band, 0)
    band = band if lower else _lower_form(band)
    out = _by_banded_factor(band if factored else _factored_band(band, _SYSTEM_NOT_DEFINITE), right)
    return without_column(out) if vector else out


def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Result:
    """x with A @ x == b, A symmetric and positive definite.
    ab: [.., w, n] as in `cholesky_banded`, b: [n] or [.., n, k]

    Raises: LinAlgError if A is not positive definite, and ValueError for what is not finite, when the program has run;
    ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.solveh_banded.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solveh_banded(np.array([[4.0, 5.0], [2.0, 0.0]]), np.array([8.0, 8.0]), lower=True)
    Array([1.5, 1. ], dtype=float64)
    """
    message = "shapes of ab and b are not compatible."
    return _definite("solveh_banded", ab, b, bool(lower), check_finite, message, False)


# -- matrices that follow from a vector --------------------------------------------------------------------------------
def _column_and_row(name: str, c_or_cr: Any, b: ArrayLike, check_finite: bool) -> tuple[Result, Result, Result]:
    """(first column, first row, right-hand side) in float64."""
    c, row = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, c_or_cr)
    given = [real(name, x, check_finite) for x in (c, row, b)]
    for x in given[:2]:
        if aval(x).ndim < 1:
            raise reject(f"{name}: a column or row is a vector, not a number")
    c, row, right = (to_dtype(x, FLOAT64) for x in given)
    return c, row, right


def _flipped(x: ArrayLike) -> Result:
    return p.reverse(x, (aval(x).ndim - 1,))


def solve_toeplitz(c_or_cr: Any, b: ArrayLike, check_finite: bool = True) -> Result:
    """x with T @ x == b for Toeplitz's T, in float64.   c_or_cr: the first column, or (column, row), each [.., n];
    b: [n] or [.., n, k]

    The time grows with the square of n.  Leading submatrices that are nearly singular cost digits.

    Raises: LinAlgError if a leading submatrix is singular, and ValueError for what is not finite, when the program has
    run; ShapeError for shapes that do not fit.
    Source: Levinson's recursion, as SciPy's scipy.linalg.solve_toeplitz.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solve_toeplitz(np.array([2.0, 1.0]), np.array([4.0, 5.0]))
    Array([1., 2.], dtype=float64)
    """
    c, row, right = _column_and_row("solve_toeplitz", c_or_cr, b, check_finite)
    vector = aval(right).ndim == 1
    right = column(right) if vector else right
    n = aval(c).shape[-1]
    if not (same_extent(n, aval(row).shape[-1]) or n == aval(row).shape[-1]) or not same_rows(row, right):
        raise reject("Incompatible dimensions.")
    c, row, right = together((c, 1), (row, 1), (right, 2))
    if is_empty(right):
        return without_column(right) if vector else right
    *lead, _, k = aval(right).shape
    none, rank, zero = [0] * len(lead), len(lead), np.float64(0)

    def part(x: ArrayLike, i: Any) -> Result:
        return p.slice_array(x, (*none, i), (*lead, 1))

    corner = part(c, 0)
    # places before the first are empty: c[i], c[i-1], .. stand there where a window begins n - 1 - i elements in
    turned = p.pad(_flipped(c), zero, [0] * (rank + 1), [*none, n])
    after = _shifted_within(row, 1)
    places = iota((*lead, n), rank, np.int64)
    wide = (*lead, n, k)

    def dot(x: ArrayLike, y: ArrayLike) -> Result:
        return r.sum(u.multiply(x, y), -1, keepdims=True)

    def step(carry: Any, i: Any) -> Any:
        ahead, back, x, lost = carry
        start = [*[np.int64(0)] * rank, u.subtract(_extent(n - 1), i)]
        below = dynamic_slice(turned, start, (*lead, n))
        error_ahead, error_back = dot(below, ahead), dot(after, back)
        wrong = r.sum(u.multiply(column(below), x), -2, keepdims=True)
        scale = u.subtract(1, u.multiply(error_ahead, error_back))
        lost = u.logical_or(lost, u.equal(scale, 0))
        scale = u.where(u.equal(scale, 0), 1, scale)
        shifted = _shifted(back, -1)
        ahead, back = (
            u.divide(u.subtract(ahead, u.multiply(error_ahead, shifted)), scale),
            u.divide(u.subtract(shifted, u.multiply(error_back, ahead)), scale),
        )
        side = r.sum(u.where(column(u.equal(places, i)), right, 0), -2, keepdims=True)
        x = u.add(x, u.multiply(u.subtract(side, wrong), column(back)))
        return (ahead, back, x, lost), None

    empty = u.equal(corner, 0)
    inverse = u.divide(1, u.where(empty, 1, corner))
    at_first = u.where(u.equal(places, 0), inverse, 0)
    first = p.slice_array(right, (*none, 0, 0), (*lead, 1, k))
    x = u.where(column(u.equal(places, 0)), u.multiply(first, column(inverse)), m.zeros(wide, FLOAT64))
    carry = (at_first, at_first, x, empty)
    if not is_one(n):
        carry, _ = scan(step, carry, u.add(iota((n - 1,), 0, np.int64), 1))
    check_none(carry[3], _SINGULAR_MINOR)
    return without_column(carry[2]) if vector else carry[2]


def matmul_toeplitz(c_or_cr: Any, x: ArrayLike, check_finite: bool = False, workers: Any = None) -> Result:
    """T @ x for Toeplitz's T, in float64.   c_or_cr: the first column, or (column, row); x: [n] or [.., n, k]

    Raises: ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.matmul_toeplitz, which computes by Fourier transforms; these are products.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.matmul_toeplitz((np.array([1.0, 2.0]), np.array([1.0, 3.0])), np.array([1.0, 10.0]))
    Array([31., 12.], dtype=float64)
    """
    c, row, right = _column_and_row("matmul_toeplitz", c_or_cr, x, check_finite)
    vector = aval(right).ndim == 1
    right = column(right) if vector else right
    if not same_rows(row, right):
        raise reject("Incompatible dimensions.")
    c, row, right = together((c, 1), (row, 1), (right, 2))
    out = linear.matmul(toeplitz(c, row), right)
    return without_column(out) if vector else out


def solve_circulant(
    c: ArrayLike,
    b: ArrayLike,
    singular: str = "raise",
    tol: ArrayLike = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Result:
    """x with C @ x == b for the circulant C whose first column is c, by Fourier transforms.   c: [.., n], b: [n, ..]

    caxis, baxis, outaxis: the axes of the systems; the others broadcast.  singular: "raise", or "lstsq" for least
    squares.  tol: the greatest eigenvalue that counts as zero.

    Raises: LinAlgError if C is nearly singular, when the program has run; ShapeError for shapes that do not fit.
    Source: SciPy's scipy.linalg.solve_circulant.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.solve_circulant(np.array([2.0, 0.0]), np.array([4.0, 8.0]))
    Array([2., 4.], dtype=float64)
    """
    first, right = (shaping.ravel(x) if not aval(x).ndim else x for x in (array_of(c), array_of(b)))
    n = _length_along("c", first, caxis)
    if n != _length_along("b", right, baxis):
        raise reject(f"Shapes of c {aval(first).shape} and b {aval(right).shape} are incompatible")
    is_complex = any(aval(x).dtype.kind == "c" for x in (first, right))
    if is_empty(right):
        return to_dtype(right, np.result_type(aval(first).dtype, aval(right).dtype, np.float32))
    values = fourier.fft(shaping.moveaxis(first, caxis, -1))
    sizes = u.absolute(values)
    if tol is None:
        eps = float(np.finfo(np.float64).eps)
        least = u.multiply(r.max(sizes, -1, keepdims=True), to_dtype(u.multiply(_extent(n), eps), aval(sizes).dtype))
    else:
        least = tol
    near = u.less_equal(sizes, least)
    if singular == "raise":
        check_none(r.any(near), _NEAR_SINGULAR)
    values = u.where(near, 1, values)
    quotient = u.divide(fourier.fft(shaping.moveaxis(right, baxis, -1)), values)
    out = fourier.ifft(u.where(near, 0, quotient))
    if not is_complex:
        out = out.real
    return shaping.moveaxis(out, -1, outaxis) if outaxis != -1 else out


def _length_along(name: str, x: ArrayLike, axis: int) -> Extent:
    rank = aval(x).ndim
    if not -rank <= axis < rank:
        raise reject(f"'{name}axis' entry is out of bounds")
    return aval(x).shape[axis]
