"""Eigenvalues of any square matrices, and the forms which they follow from: Schur's and Hessenberg's."""

from __future__ import annotations

from typing import Any

from tracejit.numpy.axes import reject
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives import (
    eigen,
    hessenberg as of_hessenberg,
    matrix_loops as m,
    schur as of_schur,
)
from tracejit.scipy.linalg.operands import (
    floats,
    inexact_dtype,
    is_empty,
    is_square,
    lapack_dtype,
    numbers,
    refuse_options,
    same_rows,
    together,
)
from tracejit.scipy.linalg.systems import solve
from tracejit.support.dtypes import complex_dtype
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import bind

__all__ = ["eig", "eigvals", "hessenberg", "rsf2csf", "schur"]


def _square(name: str, a: ArrayLike, check_finite: bool) -> Result:
    x = numbers(name, a, check_finite)
    if not is_square(x):
        raise reject("expected square matrix")
    return x


# -- eigenvalues -------------------------------------------------------------------------------------------------------
def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Any:
    """(eigenvalues, eigenvectors v with a @ v == v * w) of square matrices; all of them are complex.
    a: [.., n, n] -> [.., n], [.., n, n]

    b: for a @ v == b @ v * w, by the system that it is.  left: the vectors u with u^H @ a == w * u^H are given, before
    those of the right side; without either the values alone.  Vectors are of length 1, with their element of greatest
    magnitude positive.

    Raises: ValueError for what is not finite, and LinAlgError for a singular b, when the program has run; ShapeError
    for shapes that do not fit; UnsupportedError for homogeneous_eigvals.
    Source: SciPy's scipy.linalg.eig.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eig(np.array([[0.0, 2.0], [-2.0, 0.0]]))[0]
    Array([0.+2.j, 0.-2.j], dtype=complex128)
    """
    refuse_options("eig", homogeneous_eigvals=(homogeneous_eigvals, "leave it out"))
    x = _square("eig", a, check_finite)
    other = None
    if b is None:
        x = floats(x)
    else:
        other = _square("eig", b, check_finite)
        if not same_rows(x, other):
            raise reject("a and b must have the same shape")
        dtype = lapack_dtype(x, other)
        x, other = together((to_dtype(x, dtype), 2), (to_dtype(other, dtype), 2))
        x = x if is_empty(x) else solve(other, x, check_finite=False)
    if not left and not right:
        return bind(eigen.Eig(False), x)[0]
    w, v = eigen.eig(x)
    outs = [w]
    if left:
        outs.append(eigen.left_vectors(v if other is None else m.product(m.like(other, v), v)))
    return (*outs, v) if right else tuple(outs)


def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Result:
    """The eigenvalues of square matrices, complex; arguments and errors are those of `eig`.   a: [.., n, n] -> [.., n]

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eigvals(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    Array([0.+2.j, 0.-2.j], dtype=complex128)
    """
    return eig(a, b, False, False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# -- forms -------------------------------------------------------------------------------------------------------------
def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: Any = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> tuple[Result, Result]:
    """(T, Z) with a == Z @ T @ Z^H, unitary Z and a triangle T.   a: [.., n, n]

    Of real matrices both are real, and pairs of complex eigenvalues are blocks of two rows on T's diagonal, unless
    output is "complex".  There are no derivatives, as T and Z do not follow from a alone.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes and outputs;
    UnsupportedError for sort.
    Source: SciPy's scipy.linalg.schur.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.schur(np.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float64)
    """
    if output not in ("real", "complex", "r", "c"):
        raise reject("argument must be 'real', or 'complex'")
    refuse_options("schur", sort=(sort, "leave it out"))
    x = floats(_square("schur", a, check_finite))
    if output[0] == "c":
        x = to_dtype(x, complex_dtype(aval(x).dtype))
    return of_schur.schur(x)


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Result, Result]:
    """(T, Z) of `schur` with output "complex", of those with output "real".   T, Z: [.., n, n]

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes.
    Source: SciPy's scipy.linalg.rsf2csf.

    >>> import numpy as np, tracejit as tj
    >>> t, z = tj.scipy.linalg.rsf2csf(*tj.scipy.linalg.schur(np.array([[0.0, 2.0], [-2.0, 0.0]])))
    >>> np.diag(t).round(12)
    Array([0.+2.j, 0.-2.j], dtype=complex128)
    """
    given = [numbers("rsf2csf", x, check_finite) for x in (Z, T)]
    for name, x in zip("ZT", given, strict=True):
        if not is_square(x):
            raise reject(f"Input '{name}' must be square.")
    z, t = given
    if not same_rows(z, t):
        raise reject(f"Input array shapes must match: Z: {aval(z).shape} vs. T: {aval(t).shape}")
    dtype = complex_dtype(inexact_dtype(z, t))
    t, z = together((to_dtype(t, dtype), 2), (to_dtype(z, dtype), 2))
    out = m.each_matrix(of_schur.to_complex, t, z, ranks=(2, 2))
    return out[0], out[1]


def hessenberg(a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """H, or (H, Q) with calc_q, with a == Q @ H @ Q^H, unitary Q and zeros in H below the elements beside its diagonal.
    a: [.., n, n]

    There are no derivatives, as H and Q do not follow from a alone.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes.
    Source: SciPy's scipy.linalg.hessenberg.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    x = floats(_square("hessenberg", a, check_finite))
    if calc_q:
        return of_hessenberg.hessenberg(x)
    (h,) = bind(of_hessenberg.Hessenberg(False), x)
    return h
