"""Functions of matrices: the exponential and what is made of it, and the square root."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.control import fori_loop
from tracejit.ir.extents import is_one
from tracejit.numpy import joining, linear, reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import (
    creation as c,
    matrix_exponential as of_exp,
    matrix_loops as m,
    matrix_root as of_root,
    schur as of_schur,
    shape as p,
)
from tracejit.primitives.complex_numbers import real
from tracejit.scipy.linalg.operands import (
    double_dtype,
    fails,
    inexact_dtype,
    is_empty,
    is_square,
    numbers,
    refuse_options,
    together,
)
from tracejit.scipy.linalg.systems import solve
from tracejit.support.dtypes import complex_dtype, real_dtype
from tracejit.support.typing import ArrayLike, Result

__all__ = ["coshm", "cosm", "expm", "expm_frechet", "funm", "sinhm", "sinm", "sqrtm", "tanhm", "tanm"]


def _squares(name: str, x: ArrayLike) -> Result:
    """Raises: LinearAlgebraError unless x is square matrices."""
    y = numbers(name, x, False)
    if aval(y).ndim < 2:
        raise fails("The input array must be at least two-dimensional")
    if not is_square(y):
        raise fails("Last 2 dimensions of the array must be square")
    return to_dtype(y, inexact_dtype(y))


def _exponential(x: ArrayLike) -> Result:
    return u.exp(x) if is_one(aval(x).shape[-1]) else of_exp.expm(x)


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Result:
    """The exponentials of square matrices, by scaling and squaring.   A: [.., n, n]; a number gives one of one element

    NaN where an element is infinite or NaN.  All derivatives are there, by Fréchet's derivative.
    upper_triangular, max_squarings: JAX's, which change nothing here.

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.expm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float64)
    """
    x = numbers("expm", A, False)
    if aval(x).ndim < 2 and all(is_one(n) for n in aval(x).shape):
        return u.exp(p.reshape(to_dtype(x, double_dtype(x)), (1, 1)))
    return _exponential(_squares("expm", x))


def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """(expm(A), its derivative in the direction E), or without compute_expm the derivative alone, in float64
    or complex128.
    A, E: [.., n, n]

    method: "SPS" or "blockEnlarge", which are computed alike.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for other shapes and methods.
    Source: SciPy's scipy.linalg.expm_frechet.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.expm_frechet(np.zeros((2, 2)), np.array([[1.0, 2.0], [3.0, 4.0]]), compute_expm=False)
    Array([[1., 2.],
           [3., 4.]], dtype=float64)
    """
    x, direction = numbers("expm_frechet", A, check_finite), numbers("expm_frechet", E, check_finite)
    for name, y in (("A", x), ("E", direction)):
        if not is_square(y):
            raise reject(f"expected {name} to be a square matrix")
    if aval(x).shape[-2:] != aval(direction).shape[-2:]:
        raise reject("expected A and E to be the same shape")
    if method not in (None, "SPS", "blockEnlarge"):
        raise reject(f"Unknown implementation {method}")
    dtype = double_dtype(x, direction)
    x, direction = together((to_dtype(x, dtype), 2), (to_dtype(direction, dtype), 2))
    slope = of_exp.expm_frechet(x, direction)
    return (of_exp.expm(x), slope) if compute_expm else slope


def coshm(A: ArrayLike) -> Result:
    """The hyperbolic cosines of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.coshm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.coshm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    x = _squares("coshm", A)
    return u.multiply(u.add(_exponential(x), _exponential(u.negative(x))), aval(x).dtype.type(0.5))


def sinhm(A: ArrayLike) -> Result:
    """The hyperbolic sines of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.sinhm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.sinhm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[0., 1.],
           [0., 0.]], dtype=float64)
    """
    x = _squares("sinhm", A)
    return u.multiply(u.subtract(_exponential(x), _exponential(u.negative(x))), aval(x).dtype.type(0.5))


def tanhm(A: ArrayLike) -> Result:
    """The hyperbolic tangents of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.tanhm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.tanhm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[0., 1.],
           [0., 0.]], dtype=float64)
    """
    x = _squares("tanhm", A)
    return x if is_empty(x) else solve(coshm(x), sinhm(x), check_finite=False)


def _turned(name: str, A: ArrayLike) -> tuple[Result, Result]:
    """The cosine and sine of square matrices: parts of the exponential of [[0, -A], [A, 0]]."""
    x = _squares(name, A)
    none = m.zeros(aval(x).shape, aval(x).dtype)
    rank = aval(x).ndim
    n = aval(x).shape[-1]
    rows = [joining.concatenate(r, -1) for r in ((none, u.negative(x)), (x, none))]
    both = of_exp.expm(joining.concatenate(rows, -2))
    left = joining.part(both, rank - 1, 0, n)
    return joining.part(left, rank - 2, 0, n), joining.part(left, rank - 2, n, n)


def cosm(A: ArrayLike) -> Result:
    """The cosines of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.cosm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.cosm(np.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    return _turned("cosm", A)[0]


def sinm(A: ArrayLike) -> Result:
    """The sines of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.sinm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.sinm(np.zeros((2, 2)))
    Array([[0., 0.],
           [0., 0.]], dtype=float64)
    """
    return _turned("sinm", A)[1]


def tanm(A: ArrayLike) -> Result:
    """The tangents of square matrices.   A: [.., n, n]

    Raises: LinAlgError for other shapes.
    Source: SciPy's scipy.linalg.tanm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.tanm(np.zeros((2, 2)))
    Array([[0., 0.],
           [0., 0.]], dtype=float64)
    """
    cosine, sine = _turned("tanm", A)
    return cosine if is_empty(cosine) else solve(cosine, sine, check_finite=False)


# -- any function ------------------------------------------------------------------------------------------------------
def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """`func` of square matrices, from what it is of complex numbers.   A: [.., n, n]; complex in any case

    disp: without it a second result is an estimate of the error in the 1-norm, relative to that of the result.  Equal
    eigenvalues, or nearly equal ones, make the result inexact, as in SciPy.  There are no derivatives.

    Raises: LinAlgError for other shapes, and for what is not finite when the program has run; ShapeError where `func`
    does not give an array of the shape of its argument.
    Source: SciPy's scipy.linalg.funm; Golub and Van Loan, Matrix Computations, algorithm 11.1.1 (Parlett).

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.funm(np.array([[4.0, 1.0], [0.0, 9.0]]), np.sqrt).real.round(12)
    Array([[2. , 0.2],
           [0. , 3. ]], dtype=float64)
    """
    x = _squares("funm", A)
    n = aval(x).shape[-1]
    if is_empty(x):
        return (x, np.zeros(aval(x).shape[:-2])) if not disp else x
    t, z = of_schur.schur(x)
    if not m.is_complex(t):
        t, z = m.each_matrix(
            of_schur.to_complex,
            to_dtype(t, complex_dtype(aval(t).dtype)),
            to_dtype(z, complex_dtype(aval(z).dtype)),
            ranks=(2, 2),
        )
    dtype = aval(t).dtype
    values = array_of(func(m.diagonal_of(t)))
    if aval(values).shape != aval(t).shape[:-1]:
        raise reject(f"funm: the function makes {aval(values)} of {aval(t).shape[:-1]} eigenvalues")
    values = to_dtype(values, dtype)
    eye = m.eye_like(t)
    steps = u.subtract(c.iota((n, n), 1, np.int64), c.iota((n, n), 0, np.int64))
    eigenvalues = m.diagonal_of(t)
    rows, columns = [p.reshape(eigenvalues, (*aval(eigenvalues).shape[:-1], *s)) for s in ((n, 1), (1, n))]
    apart = u.subtract(columns, rows)
    equal = u.equal(apart, 0)
    divisors = u.where(equal, 1, apart)

    def next_diagonal(k: Any, carry: Any) -> Any:
        """The k-th diagonal above the middle one: F T = T F, of which those before are there."""
        f, least = carry
        commuted = u.subtract(linear.matmul(t, f), linear.matmul(f, t))
        here = u.equal(steps, k)
        size = u.absolute(apart)
        low = r.min(u.where(here, size, np.inf), axis=(-2, -1))
        return u.where(here, u.divide(commuted, divisors), f), u.minimum(least, low)

    start = m.scaled_columns(eye, values)
    real_ = real_dtype(dtype)
    least = to_dtype(u.add(u.multiply(real(values), 0), np.inf), real_)
    f, least = fori_loop(1, n, next_diagonal, (start, r.min(least, axis=-1)))
    out = linear.matmul(linear.matmul(z, f), m.adjoint(z))
    if disp:
        return out
    eps = np.finfo(real_).eps
    above = u.absolute(m.upper_part(t, True))
    least = u.where(u.equal(least, 0), eps, least)
    error = u.minimum(1, u.maximum(eps, u.multiply(u.divide(eps, least), r.max(r.sum(above, axis=-2), axis=-1))))
    finite = r.all(u.isfinite(f), axis=(-2, -1))
    return out, u.where(finite, error, np.inf)


# -- the square root ---------------------------------------------------------------------------------------------------
def sqrtm(A: ArrayLike, disp: Any = None, blocksize: Any = None) -> Result:
    """The principal square roots of square matrices, complex in any case.   A: [.., n, n]

    Its derivative is there where A is not singular.  blocksize: changes nothing.

    Raises: LinAlgError for other shapes, UnsupportedError for disp.
    Source: SciPy's scipy.linalg.sqrtm.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.sqrtm(np.array([[4.0, 1.0], [0.0, 4.0]])).real
    Array([[2.  , 0.25],
           [0.  , 2.  ]], dtype=float64)
    """
    refuse_options("sqrtm", disp=(disp is False, "leave it out"))
    return of_root.sqrtm(_squares("sqrtm", A))
