"""Eigenvalues and eigenvectors of symmetric and Hermitian matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives import (
    matrix_loops as m,
    shape as p,
    spectral,
    triangular,
)
from tracejit.primitives.complex_numbers import conj
from tracejit.primitives.creation import iota
from tracejit.scipy.linalg.operands import (
    column,
    first_of,
    floats,
    is_empty,
    is_square,
    lapack_dtype,
    numbers,
    real,
    same_rows,
    single_matrix,
    together,
)
from tracejit.support.errors import LinearAlgebraError, TracerError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["eigh", "eigh_tridiagonal", "eigvalsh", "eigvalsh_tridiagonal"]

_B_NOT_DEFINITE = Reason(
    LinearAlgebraError,
    "The leading minor of order {} of B is not positive definite. The factorization of B could not be completed and no "
    "eigenvalues or eigenvectors were computed.",
)

_DRIVERS = (None, "ev", "evd", "evr", "evx", "gv", "gvd", "gvx")


def _generalized(x: ArrayLike, b: ArrayLike, lower: bool, kind: int) -> tuple[Result, Result]:
    """(matrices with the eigenvalues of a problem with two, the factor L of the second)."""
    x = m.mirrored(x, lower)
    factor = triangular.cholesky(m.mirrored(b, lower))
    found, number = first_of(u.isnan(m.diagonal_of(factor)))
    check_none(found, _B_NOT_DEFINITE, u.add(number, 1))
    if kind == 1:
        half = triangular.triangular_solve(factor, x, lower=True)
        return m.adjoint(triangular.triangular_solve(factor, m.adjoint(half), lower=True)), factor
    return m.product(m.product(m.adjoint(factor), x), factor), factor


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Any:
    """(eigenvalues ascending, eigenvectors) of symmetric matrices, or the values alone with eigvals_only.
    a, b: [.., n, n] -> [.., n], [.., n, n]

    Complex matrices are Hermitian, and their eigenvalues real.
    lower: which triangle counts.  b: for a @ v == w * b @ v (type 1), a @ b @ v == w * v (2), b @ a @ v == w * v (3).
    subset_by_index: (first, last) of those that are given.  subset_by_value: (low, high), without low itself; how many
    there are, data say.  All are computed in any case.  Eigenvectors have their element of greatest magnitude positive
    (for b: that of the problem to which this one is reduced).

    Raises: LinAlgError if b is not positive definite, and ValueError for what is not finite, when the program has run;
    ShapeError for shapes, subsets, types and drivers that there are not; UnsupportedError for a subset by value of
    several matrices.
    Source: SciPy's scipy.linalg.eigh.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eigh(np.array([[5.0, 0.0], [0.0, 1.0]]), eigvals_only=True)
    Array([1., 5.], dtype=float64)
    """
    _check_driver(driver, b, subset_by_index is not None or subset_by_value is not None)
    x = numbers("eigh", a, check_finite)
    if not is_square(x):
        raise reject('expected square "a" matrix')
    if b is None:
        x = floats(x)
        factor = None
    else:
        other = numbers("eigh", b, check_finite)
        if not is_square(other):
            raise reject('expected square "b" matrix')
        if not same_rows(x, other):
            raise reject(f"wrong b dimensions {aval(other).shape}, should be {aval(x).shape}")
        if type not in (1, 2, 3):
            raise reject('"type" keyword only accepts 1, 2, and 3.')
        dtype = lapack_dtype(x, other)
        x, other = together((to_dtype(x, dtype), 2), (to_dtype(other, dtype), 2))
        x, factor = (x, other) if is_empty(x) else _generalized(x, other, bool(lower), type)
    low, high = _subset(x, subset_by_index, subset_by_value)
    dtype = aval(x).dtype
    if eigvals_only:
        (w,) = bind(spectral.Eigh(bool(lower), False), x)
        v = None
    else:
        w, v = spectral.eigh(x, bool(lower))
        if factor is not None and not is_empty(x):
            v = (
                triangular.triangular_solve(conj(factor), v, lower=True, transposed=True)
                if type != 3
                else m.product(factor, v)
            )
    if not check_finite and not is_empty(x):
        finite = r.all(u.isfinite(m.mirrored(x, bool(lower))), axis=(-2, -1))
        w = u.where(column(finite), w, m.part_dtype(x).type(np.nan))
        v = v if v is None else u.where(column(column(finite)), v, dtype.type(np.nan))
    if subset_by_value is not None:
        single_matrix("eigh with subset_by_value", x)
        low, high = (to_dtype(r.sum(u.less_equal(w, k)), np.int64) for k in subset_by_value)
    if low is not None:
        w = OPERATORS.getitem(w, (..., slice(low, high)))
        v = v if v is None else OPERATORS.getitem(v, (..., slice(low, high)))
    return w if v is None else (w, v)


def _check_driver(driver: str | None, b: ArrayLike | None, subset: bool) -> None:
    if driver not in _DRIVERS:
        raise reject('"{}" is unknown. Possible values are "None", "{}".'.format(driver, '", "'.join(_DRIVERS[1:])))  # type: ignore[arg-type]
    if driver is None:
        return
    if b is None and driver[0] == "g":
        raise reject(f"{driver} requires input b array to be supplied for generalized eigenvalue problems.")
    if b is not None and driver[0] == "e":
        raise reject(f'"{driver}" does not accept input b array for standard eigenvalue problems.')
    if subset and driver in ("ev", "evd", "gv", "gvd"):
        raise reject(f'"{driver}" cannot compute subsets of eigenvalues')


def _subset(x: ArrayLike, by_index: Any, by_value: Any) -> tuple[Any, Any]:
    """(first, end) of the eigenvalues that are asked for by their indices."""
    if by_index is not None and by_value is not None:
        raise reject("Either index or value subset can be requested.")
    if by_value is not None:
        low, high = by_value
        if any(isinstance(k, Tracer) for k in (low, high)):
            raise TracerError("scipy.linalg.eigh: subset_by_value is known while tracing", location=user_location())
        if not -np.inf <= low < high <= np.inf:
            raise reject(
                "Requested eigenvalue bounds are not valid. Valid range is (-inf, inf) and low < high, but "
                f"low={low}, high={high} is given"
            )
    if by_index is None:
        return None, None
    low, high = (int(k) for k in by_index)
    n = aval(x).shape[-1]
    if not 0 <= low <= high or not n > high:
        raise reject(
            f"Requested eigenvalue indices are not valid. Valid range is [0, {n - 1}] and start <= end, but "
            f"start={low}, end={high} is given"
        )
    return low, high + 1


def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: str | None = None,
) -> Result:
    """The eigenvalues of symmetric matrices, ascending; arguments and errors are those of `eigh`.
    a, b: [.., n, n] -> [.., n]

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eigvalsh(np.array([[5.0, 0.0], [0.0, 1.0]]), 2.0 * np.eye(2))
    Array([0.5, 2.5], dtype=float64)
    """
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value, driver=driver,
    )  # fmt: skip


_SELECT = {0: "a", 1: "v", 2: "i", "all": "a", "value": "v", "index": "i", "a": "a", "v": "v", "i": "i"}
_TRIDIAGONAL_DRIVERS = ("auto", "stemr", "sterf", "stebz", "stev", "stevd")


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:
    """(eigenvalues ascending, eigenvectors) of symmetric tridiagonal matrices, or the values alone with eigvals_only.
    d: [.., n] on the diagonal, e: [.., n-1] beside it -> [.., n], [.., n, n]

    select: "a", "v" (those in (low, high], of one matrix) or "i" (from index low to high).  They are computed as of
    full matrices, in time that grows with the cube of n; tol and lapack_driver change nothing.

    Raises: ValueError for what is not finite, when the program has run; ShapeError for shapes, drivers and subsets that
    there are not; UnsupportedError for a subset by value of several matrices.
    Source: SciPy's scipy.linalg.eigh_tridiagonal.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eigh_tridiagonal(np.array([5.0, 1.0]), np.array([0.0]), eigvals_only=True)
    Array([1., 5.], dtype=float64)
    """
    x, beside = real("eigh_tridiagonal", d, check_finite), real("eigh_tridiagonal", e, check_finite)
    if not aval(x).ndim or not aval(beside).ndim:
        raise reject("expected a 1-D array")
    n, k = aval(x).shape[-1], aval(beside).shape[-1]
    if n != k + 1:
        raise reject(f"d ({n}) must have one more element than e ({k})")
    chosen = _SELECT.get(select.lower() if isinstance(select, str) else select)
    if chosen is None:
        raise reject("invalid argument for select")
    if lapack_driver not in _TRIDIAGONAL_DRIVERS:
        raise reject(f"lapack_driver must be one of {_TRIDIAGONAL_DRIVERS}, got {lapack_driver}")
    if chosen != "a":
        sizes = np.asarray(select_range)
        if sizes.ndim != 1 or sizes.size != 2 or sizes[1] < sizes[0]:
            raise reject("select_range must be a 2-element array-like in nondecreasing order")
        if chosen == "i":
            if sizes.dtype.kind not in "iu":
                raise reject(
                    f'when using select="i", select_range must contain integers, got dtype {sizes.dtype} '
                    f"({sizes.dtype.char})"
                )
            if sizes[0] < 0 or not n > sizes[1]:
                raise reject("select_range out of bounds")
    dtype = lapack_dtype(x, beside)
    x, beside = together((to_dtype(x, dtype), 1), (to_dtype(beside, dtype), 1))
    lead, rank = aval(x).shape[:-1], aval(x).ndim
    wide = (*lead, n, n)
    i, j = iota(wide, rank - 1, np.int64), iota(wide, rank, np.int64)
    padded = p.pad(beside, dtype.type(0), [0] * rank, [*[0] * (rank - 1), 1])
    below = p.broadcast_in_dim(padded, wide, (*range(rank - 1), rank))
    diagonal = p.broadcast_in_dim(x, wide, tuple(range(rank)))
    full = u.where(u.equal(i, j), diagonal, u.where(u.equal(i, u.add(j, 1)), below, dtype.type(0)))
    options: dict[str, Any] = {"v": {"subset_by_value": select_range}, "i": {"subset_by_index": select_range}}.get(
        chosen, {}
    )
    return eigh(full, eigvals_only=eigvals_only, check_finite=False, **options)


def eigvalsh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    select: Any = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Result:
    """The eigenvalues of symmetric tridiagonal matrices; arguments and errors are those of `eigh_tridiagonal`.

    >>> import numpy as np, tracejit as tj
    >>> tj.scipy.linalg.eigvalsh_tridiagonal(np.array([5.0, 1.0]), np.array([0.0]))
    Array([1., 5.], dtype=float64)
    """
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite, tol, lapack_driver)
