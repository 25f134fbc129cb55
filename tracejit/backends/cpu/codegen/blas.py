"""The BLAS that NumPy brings along, as an alternative to generated code for products of two matrices.

`jit(alternatives=("blas",))` chooses it.  It runs on its own threads, after the operands have been stored: nothing is
fused into it.

Source: the C interface of BLAS (cblas_dgemm); the names under which NumPy's wheels export it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.ir.forms import Environment, FormBuilder, LibraryCall, Operand, Whole
from tracejit.ir.kernel import Const
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import BackendUnavailable

if TYPE_CHECKING:
    from tracejit.primitives.contraction import DotGeneral

__all__ = ["BLAS", "fits", "product"]

_NAMES = (  # template over "s" or "d", dtype of its integers
    ("scipy_cblas_{}gemm64_", "i64"),
    ("cblas_{}gemm64_", "i64"),
    ("cblas_{}gemm$NEWLAPACK$ILP64", "i64"),
    ("scipy_cblas_{}gemm", "i32"),
    ("cblas_{}gemm$NEWLAPACK", "i32"),
    ("cblas_{}gemm", "i32"),
)
_ROW_MAJOR, _AS_IS, _TRANSPOSED = (Const(n, "i32") for n in (101, 111, 112))
_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}


@cache
def _library() -> ctypes.CDLL:
    """NumPy's extension module: the loader looks for names in the libraries it is linked with too."""
    return ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))


def _find(symbol: str) -> int:
    try:
        address = ctypes.cast(getattr(_library(), symbol), ctypes.c_void_p).value
    except AttributeError:
        address = None
    if not address:
        raise BackendUnavailable(f"the libraries of NumPy have no function {symbol}; leave the alternative 'blas' out")
    return address


BLAS = Environment("blas", _find)


@cache
def _gemm(letter: str) -> tuple[str, str]:
    """(symbol, dtype of its integers) of the product of a precision.  Raises BackendUnavailable if NumPy exports
    none.
    """
    for template, integer in _NAMES:
        symbol = template.format(letter)
        try:
            BLAS.find(symbol)
        except BackendUnavailable:
            continue
        return symbol, integer
    raise BackendUnavailable("NumPy exports no BLAS in a known name on this system; leave the alternative 'blas' out")


def fits(primitive: DotGeneral, x: ShapedArray, y: ShapedArray) -> bool:
    """Whether it is a product of two float32 or float64 matrices that have elements,
    with extents that BLAS can count.
    """
    if not (x.ndim == y.ndim == 2 and len(primitive.contract[0]) == 1 and x.dtype in _LETTERS):
        return False
    extents = (*x.shape, *y.shape)
    wide = _gemm(_LETTERS[x.dtype])[1] == "i64"
    return all(wide if isinstance(n, Dim) else 0 < n < (2**63 if wide else 2**31) for n in extents)


def product(primitive: DotGeneral, b: FormBuilder, x: Operand, y: Operand) -> LibraryCall:
    """`dot_general` of two matrices as one call; an operand whose contracted axis lies first (second for y) is passed
    as its transpose.
    """
    symbol, integer = _gemm(_LETTERS[x.aval.dtype])
    ((inner_x,), (inner_y,)) = primitive.contract
    count = lambda n: Const(n, integer)  # noqa: E731
    rows, columns, inner = x.shape[1 - inner_x], y.shape[1 - inner_y], x.shape[inner_x]
    return LibraryCall(
        symbol, BLAS, (
            _ROW_MAJOR, _AS_IS if inner_x == 1 else _TRANSPOSED, _AS_IS if inner_y == 0 else _TRANSPOSED,
            count(rows), count(columns), count(inner),
            Const(1.0, x.dtype), Whole("operand", 0), count(x.shape[1]), Whole("operand", 1), count(y.shape[1]),
            Const(0.0, x.dtype), Whole("result", 0), count(columns),
        ),
    )  # fmt: skip
