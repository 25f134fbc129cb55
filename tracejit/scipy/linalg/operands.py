"""What the functions of this namespace do with their operands first: dtypes, checks, shapes, as SciPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import Shape, is_empty as has_none, prod, same_extent
from tracejit.numpy import reductions as r, shaping, ufuncs as u
from tracejit.numpy.axes import reject
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import aval, broadcast_shapes, to_dtype
from tracejit.numpy.shaping import array_of
from tracejit.primitives import shape as p
from tracejit.primitives.creation import iota
from tracejit.support.dtypes import short_name
from tracejit.support.errors import DtypeError, ForbiddenValue, LinearAlgebraError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.failures import Reason

__all__ = [
    "FLOAT32", "FLOAT64", "broadcast_over", "column", "double_dtype", "fails", "finite", "first_of", "floats",
    "inexact_dtype", "is_empty", "is_square", "lapack_dtype", "numbers", "real", "refuse_options", "same_rows",
    "single_matrix", "square", "together", "without_column",
]  # fmt: skip

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NOT_FINITE = Reason(ForbiddenValue, "array must not contain infs or NaNs")
COMPLEX64, COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)
_SMALL = frozenset("?bBhHefF")
"""Codes of the dtypes that LAPACK's functions of single precision take."""


def fails(message: str) -> LinearAlgebraError:
    """A LinAlgError at the user's line."""
    return LinearAlgebraError(message, location=user_location())


def real(name: str, x: ArrayLike, check_finite: bool = True) -> Result:
    """An operand.   check_finite: the program fails if an element is infinite or NaN.

    Raises: DtypeError for complex numbers.
    """
    y = array_of(x)
    have = aval(y).dtype
    if have.kind not in "biuf":
        raise DtypeError(
            f"scipy.linalg.{name} computes with real numbers here, not with {short_name(have)}; a complex matrix a + "
            "ib is the real one [[a, -b], [b, a]]",
            location=user_location(),
        )
    return finite(y) if check_finite else y


def numbers(name: str, x: ArrayLike, check_finite: bool = True) -> Result:
    """An operand that may be complex.   check_finite: the program fails if an element is infinite or NaN.

    Raises: DtypeError for what is no number.
    """
    y = array_of(x)
    have = aval(y).dtype
    if have.kind not in "biufc":
        raise DtypeError(
            f"scipy.linalg.{name} computes with numbers, not with {short_name(have)}", location=user_location()
        )
    return finite(y) if check_finite else y


def finite(x: ArrayLike) -> Result:
    """An operand; the program fails if an element is infinite or NaN."""
    if aval(x).dtype.kind in "fc":
        check_none(u.logical_not(r.all(u.isfinite(x))), NOT_FINITE)
    return x


def lapack_dtype(*xs: ArrayLike) -> np.dtype[Any]:
    """The precision in which LAPACK takes operands: single for float32 and for what fits into it.

    Source: SciPy's find_best_blas_type.
    """
    small = all(aval(x).dtype.char in _SMALL for x in xs)
    if any(aval(x).dtype.kind == "c" for x in xs):
        return COMPLEX64 if small else COMPLEX128
    return FLOAT32 if small else FLOAT64


def inexact_dtype(*xs: ArrayLike) -> np.dtype[Any]:
    """The precision of functions that are no LAPACK's: double for integers."""
    dtype = np.result_type(*[aval(x).dtype for x in xs])
    if dtype.kind == "c":
        return COMPLEX64 if dtype.itemsize < 16 else COMPLEX128
    return FLOAT32 if dtype.kind == "f" and dtype.itemsize < 8 else FLOAT64


def double_dtype(*xs: ArrayLike) -> np.dtype[Any]:
    """Double precision, of complex numbers where an operand is of such."""
    return COMPLEX128 if any(aval(x).dtype.kind == "c" for x in xs) else FLOAT64


def floats(x: ArrayLike) -> Result:
    """An operand in the precision of LAPACK."""
    return to_dtype(x, lapack_dtype(x))


def is_square(x: ArrayLike) -> bool:
    """Whether an operand is matrices of as many rows as columns."""
    shape = aval(x).shape
    return len(shape) >= 2 and (same_extent(shape[-1], shape[-2]) or shape[-1] == shape[-2])


def square(x: ArrayLike, message: str) -> Result:
    """Raises: ShapeError with this text unless x is square matrices."""
    if not is_square(x):
        raise reject(message)
    return x


def single_matrix(name: str, x: ArrayLike) -> Result:
    """Raises: UnsupportedError for stacks of matrices."""
    if aval(x).ndim > 2:
        raise UnsupportedError(
            f"scipy.linalg.{name} takes one matrix here, as the shape of what it gives depends on it; call it for each "
            "of the stack",
            location=user_location(),
        )
    return x


def refuse_options(name: str, **options: tuple[Any, str]) -> None:
    """Raises: UnsupportedError for an option that is set; with it stands what to do instead."""
    for option, (value, instead) in options.items():
        if value:
            raise UnsupportedError(
                f"scipy.linalg.{name}: {option}={value!r} is not supported; {instead}", location=user_location()
            )


def is_empty(*xs: ArrayLike) -> bool:
    """Whether an operand has no elements."""
    return any(has_none(n) for x in xs for n in aval(x).shape)


def column(x: ArrayLike) -> Result:
    """x with an axis of one element behind the others."""
    return p.reshape(x, (*aval(x).shape, 1))


def without_column(x: ArrayLike) -> Result:
    """x without its last axis, of one element."""
    return p.reshape(x, aval(x).shape[:-1])


def broadcast_over(x: ArrayLike, lead: Shape, core: int) -> Result:
    """x repeated along leading axes; its last `core` axes stay."""
    shape = aval(x).shape
    inner = shape[len(shape) - core :]
    return x if shape == (*lead, *inner) else shaping.broadcast_to(x, (*lead, *inner))


def together(*operands: tuple[ArrayLike, int]) -> list[Result]:
    """Stacks of one leading shape: (operand, how many axes are the matrix's or vector's).

    Source: SciPy's linear algebra over batches.
    """
    shapes = [aval(x).shape[: max(aval(x).ndim - core, 0)] for x, core in operands]
    given = [s for s in shapes if s]
    lead = given[0] if given else ()
    for shape in given[1:]:
        lead = lead if shape == lead else broadcast_shapes(lead, shape)
    return [broadcast_over(x, lead, core) for x, core in operands]


def first_of(wrong: ArrayLike) -> tuple[Result, Result]:
    """(whether anything holds, the first place along the last axis where something does, in the first vector that has
    one).   wrong: bool[.., n]
    """
    shape = aval(wrong).shape
    n = shape[-1]
    flat = p.reshape(wrong, (prod(shape[:-1]), n))
    rows = r.any(flat, -1)
    number = r.sum(u.where(_is_first(rows), r.argmax(flat, -1), 0))
    return r.any(rows), to_dtype(number, np.int64)


def _is_first(x: ArrayLike) -> Result:
    """Whether an element is the first one that holds."""
    return u.equal(iota(aval(x).shape, 0, np.int64), r.argmax(x, 0))


def same_rows(a: ArrayLike, b: ArrayLike, axis: int = -2) -> bool:
    """Whether the matrices a have as many columns as b has elements along an axis."""
    n, k = aval(a).shape[-1], aval(b).shape[axis]
    return same_extent(n, k) or n == k
