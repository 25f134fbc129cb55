"""Decompositions by orthogonal matrices: QR and the polar one."""

from __future__ import annotations

from typing import Any

from tracejit.api.custom import custom_jvp
from tracejit.ir.extents import same_extent
from tracejit.numpy import linear, reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives import (
    lu as of_lu,
    matrix_loops as m,
    qr as of_qr,
    shape as p,
    spectral,
)
from tracejit.primitives.complex_numbers import conj, real
from tracejit.scipy.linalg.operands import (
    column,
    floats,
    lapack_dtype,
    numbers,
    refuse_options,
    together,
)
from tracejit.scipy.linalg.singular_values import matrix
from tracejit.support.typing import ArrayLike, Result

__all__ = ["orthogonal_procrustes", "polar", "qr", "qr_multiply"]


# -- QR ----------------------------------------------------------------------------------------------------------------
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(Q, R) with a == Q @ R and orthonormal columns in Q.   a: [.., m, n]

    mode: "full" (Q is square), "economic" (Q has the lesser of m and n columns), or "r" for (R,) alone.
    pivoting: a third result is an order of a's columns, i32[.., n], and Q @ R has them in this order: each with the
    greatest part outside of the span of those before it.

    Raises: UnsupportedError for mode "raw", and for derivatives of mode "full" where m > n; ValueError for
    what is not finite, when the program has run; ShapeError for another mode or rank.
    Source: SciPy's scipy.linalg.qr.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.qr(np.array([[3.0], [4.0]]), mode="economic")[1]
    Array([[-5.]], dtype=float64)
    """
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise reject("Mode argument should be one of ['full', 'r', 'economic', 'raw']")
    if mode == "raw":
        refuse_options("qr", mode=(mode, "use 'full', 'economic' or 'r'"))
    x = floats(numbers("qr", a, check_finite))
    if aval(x).ndim < 2:
        raise reject("expected a 2-D array")
    if mode != "r":
        return of_qr.qr_of_ordered(x, mode != "economic") if pivoting else of_qr.qr(x, mode != "economic")
    _, rest, *order = of_qr.qr_of_ordered(x) if pivoting else of_qr.qr(x)
    *lead, rows, columns = aval(x).shape
    if of_lu.is_wide(rows, columns) or same_extent(rows, columns):
        return (rest, *order)
    none = [0] * len(lead)
    return (p.pad(rest, aval(x).dtype.type(0), [*none, 0, 0], [*none, rows - columns, 0]), *order)


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Result, ...]:
    """(c @ Q, R), or (Q @ c, R) with mode "left", for the economic Q, R of a.   a: [.., m, n], c: matrices or a vector

    conjugate: Q conjugated in its place.  pivoting: a third result, as in `qr`.

    Raises: ShapeError for another mode and shapes that do not fit.
    Source: SciPy's scipy.linalg.qr_multiply.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.qr_multiply(np.array([[3.0], [4.0]]), np.array([5.0, 10.0]))[0]
    Array([-11.], dtype=float64)
    """
    if mode not in ("left", "right"):
        raise reject(f"Mode argument can only be 'left' or 'right' but not '{mode}'")
    x, y = numbers("qr_multiply", a, False), numbers("qr_multiply", c, False)
    dtype = lapack_dtype(x, y)
    x = to_dtype(x, dtype)
    q, *others = of_qr.qr_of_ordered(x) if pivoting else of_qr.qr(x)
    y = to_dtype(y, dtype)
    n = aval(q).shape[-1 if mode == "left" else -2]
    if aval(y).shape[-1 if mode == "right" or aval(y).ndim == 1 else -2] != n:
        raise reject(f"Array shapes are not compatible for Q @ c operation: {aval(q).shape} vs {aval(y).shape}")
    if conjugate:
        q = conj(q)
    return (linear.matmul(q, y) if mode == "left" else linear.matmul(y, q)), *others


# -- the polar decomposition -------------------------------------------------------------------------------------------
@custom_jvp
def _direction(a: ArrayLike) -> Result:
    """The nearest matrices with orthonormal columns to matrices that are not wide.   a: [.., m, n]"""
    left, _, right = spectral.svd(a)
    return linear.matmul(left, right)


@_direction.defjvp
def _of_direction(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Result, Result]:
    """dU = U X + (1 - U U^H) da P^-1 with X P + P X = U^H da - da^H U, which has an answer for equal singular values
    too, and not where two of them are zero.

    Source: the product rule on a = U P.
    """
    (a,), (t,) = primals, tangents
    left, s, right = spectral.svd(a)
    out = linear.matmul(left, right)
    v = m.adjoint(right)
    inner = linear.matmul(m.adjoint(out), t)
    uneven = linear.matmul(right, linear.matmul(u.subtract(inner, m.adjoint(inner)), v))
    sums = u.add(column(s), p.reshape(s, (*aval(s).shape[:-1], 1, aval(s).shape[-1])))
    x = linear.matmul(v, linear.matmul(u.divide(uneven, sums), right))
    change = linear.matmul(out, x)
    rows, columns = aval(a).shape[-2:]
    if not same_extent(rows, columns):
        outside = u.subtract(t, linear.matmul(out, inner))
        along = m.scaled_columns(linear.matmul(outside, v), u.divide(1, s))
        change = u.add(change, linear.matmul(along, right))
    return out, change


def _unitary(x: ArrayLike) -> Result:
    rows, columns = aval(x).shape[-2:]
    return m.adjoint(_direction(m.adjoint(x))) if of_lu.is_wide(rows, columns) else _direction(x)


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "svd",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Result, Result]:
    """(U, P) with a == U @ P, or P @ U with side "left": U with orthonormal columns (rows, of wide matrices), P
    symmetric (Hermitian, of complex numbers) and positive semidefinite.   a: [.., m, n]

    There is a derivative for full rank, of equal singular values too.  method, eps, max_iterations: JAX's, "qdwh" or
    "svd" and how exact; all are computed alike.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for another side or rank.
    Source: SciPy's scipy.linalg.polar.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.polar(np.array([[0.0, -2.0], [3.0, 0.0]]))[1].round(12)
    Array([[3., 0.],
           [0., 2.]], dtype=float64)
    """
    if side not in ("right", "left"):
        raise reject("`side` must be either 'right' or 'left'")
    if method not in ("qdwh", "svd"):
        raise reject(f"polar: method is 'qdwh' or 'svd', not {method!r}")
    x = matrix("polar", a, True, "`a` must be a 2-D array.")
    turned = _unitary(x)
    p_ = linear.matmul(m.adjoint(turned), x) if side == "right" else linear.matmul(x, m.adjoint(turned))
    return turned, u.multiply(u.add(p_, m.adjoint(p_)), aval(x).dtype.type(0.5))


def orthogonal_procrustes(A: ArrayLike, B: ArrayLike, check_finite: bool = True) -> tuple[Result, Result]:
    """(R, scale): the orthogonal (unitary) R with least |A @ R - B|, and the sum of the singular values of A.T @ B.
    A, B: [.., m, n] -> [.., n, n], [..]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes.
    Source: SciPy's scipy.linalg.orthogonal_procrustes.

    >>> import numpy as np, tracejit as tj
    >>> r, scale = tj.scipy.linalg.orthogonal_procrustes(np.eye(2), np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> r.round(12) + 0.0, float(scale.round(12))
    (Array([[0., 1.],
           [1., 0.]], dtype=float64), 5.0)
    """
    first, second = numbers("orthogonal_procrustes", A, check_finite), numbers("orthogonal_procrustes", B, check_finite)
    if aval(first).ndim < 2:
        raise reject(f"expected ndim to be 2, but observed {aval(first).ndim}")
    if aval(first).shape[-2:] != aval(second).shape[-2:]:
        raise reject(f"the shapes of A and B differ ({aval(first).shape} vs {aval(second).shape})")
    dtype = lapack_dtype(first, second)
    first, second = together((to_dtype(first, dtype), 2), (to_dtype(second, dtype), 2))
    product = linear.matmul(m.adjoint(first), second)
    turned = _direction(product)
    return turned, real(r.sum(u.multiply(conj(turned), product), (-2, -1)))
