"""Products of Householder's reflections, as matrix products."""

from __future__ import annotations

from tracejit.lax.operands import aval, operands, reject
from tracejit.primitives import matrix_loops as m, triangular
from tracejit.primitives.elementwise import add, sub
from tracejit.primitives.shape import slice_array
from tracejit.support.typing import ArrayLike, Result

__all__ = ["householder_product", "ormqr"]


def _parts(name: str, a: ArrayLike, taus: ArrayLike) -> tuple[Result, Result]:
    """(V, T) of the product 1 - V @ T @ V^H of reflections.   a: [.., m, n], taus: [.., k] -> [.., m, k], [.., k, k]

    Source: Schreiber and Van Loan 1989, "A storage-efficient WY representation"; T is diag(taus) over a unit triangle.
    """
    shape, k = aval(a).shape, aval(taus).shape[-1:]
    triangular.check_matrices(name, aval(a), square=False)
    if not k or aval(taus).shape[:-1] != shape[:-2] or k[0] > shape[-1] or k[0] > shape[-2]:
        raise reject(f"{name}: {aval(taus)} are no factors of the reflections in {aval(a)}")
    v = slice_array(a, (0,) * len(shape), (*shape[:-1], k[0]))
    v = add(m.lower_part(v, True), m.eye_like(v))
    inner = m.product(m.adjoint(v), v)
    unit = m.scaled_columns(m.upper_part(inner, True), taus)
    t = triangular.triangular_solve(unit, m.eye_like(unit), lower=False, unit=True)
    return v, m.scaled_rows(t, taus)


def householder_product(a: ArrayLike, taus: ArrayLike) -> Result:
    """The first n columns of the product of reflections 1 - tau v v^H.   a: [.., m, n], taus: [.., k] -> [.., m, n]

    v is a column of a from its diagonal on, with a one there.

    Raises: ShapeError for shapes that do not fit, DtypeError unless a is of float32, float64 or complex numbers.
    Source: jax.lax.linalg.householder_product.

    >>> import numpy as np, tracejit as tj
    >>> a, taus = np.array([[0.0], [1.0]]), np.array([1.0])
    >>> tj.jit(lambda a, taus: tj.lax.linalg.householder_product(a, taus))(a, taus)
    array([[ 0.],
           [-1.]])
    """
    x, scales = operands("householder_product", a, taus)
    v, t = _parts("householder_product", x, scales)
    shape = aval(x).shape
    top = slice_array(v, (0,) * len(shape), (*shape[:-2], shape[-1], aval(v).shape[-1]))
    return sub(m.eye_like(x), m.product(v, m.product(t, m.adjoint(top))))


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Result:
    """Q @ c, or c @ Q without `left`, Q being the product of reflections of `householder_product`, of m columns.
    a: [.., m, n], taus: [.., k], c: matrices   transpose: Q's, conjugated.

    Raises: ShapeError for shapes that do not fit, DtypeError unless a is of float32, float64 or complex numbers.
    Source: jax.lax.linalg.ormqr.

    >>> import numpy as np, tracejit as tj
    >>> a, taus = np.array([[0.0], [1.0]]), np.array([1.0])
    >>> tj.jit(lambda a, taus, c: tj.lax.linalg.ormqr(a, taus, c))(a, taus, np.array([[1.0], [2.0]]))
    array([[-2.],
           [-1.]])
    """
    x, scales, y = operands("ormqr", a, taus, c)
    v, t = _parts("ormqr", x, scales)
    rows, have = aval(x).shape[-2], aval(y).shape
    if have[:-2] != aval(x).shape[:-2] or len(have) < 2 or have[-2 if left else -1] != rows:
        raise reject(f"ormqr: {aval(y)} cannot be multiplied by a matrix of {rows} rows and columns")
    t = m.adjoint(t) if transpose else t
    if left:
        return sub(y, m.product(v, m.product(t, m.product(m.adjoint(v), y))))
    return sub(y, m.product(m.product(m.product(y, v), t), m.adjoint(v)))
