"""Dtypes and promotion: NumPy's rules (NEP 50), with Python scalars weak."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.support.errors import DtypeError, UnsupportedDtype
from tracejit.support.typing import has_aval

__all__ = [
    "PYTHON_NUMBERS", "SUPPORTED", "canonical", "complex_dtype", "real_dtype", "result_type", "short_name",
    "weak_kind",
]  # fmt: skip

_CODES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
SUPPORTED = tuple(map(np.dtype, _CODES))
_SHORT = {dtype: ("bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}") for dtype in SUPPORTED}
_KNOWN = {dtype: dtype for dtype in SUPPORTED}
_PARTS = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
_WEAK = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}


PYTHON_NUMBERS: dict[str, bool | int | float | complex] = {"b": False, "i": 0, "f": 0.0, "c": 0j}
"""A Python number of each kind of dtypes, for what NumPy's promotion asks of one."""


def canonical(dtype: Any) -> np.dtype[Any]:
    """The supported dtype equal to `dtype`.  Raises DtypeError, naming what is supported, for any other."""
    if isinstance(dtype, np.dtype):
        known = _KNOWN.get(dtype)  # pyright: ignore[reportUnknownArgumentType]
        if known is not None:
            return known
    if has_aval(dtype):  # NumPy would take the dtype that a traced value has
        raise DtypeError(f"{dtype!r} stands for a value, and is not a dtype; a shape is one argument, np.zeros((2, n))")
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise DtypeError(f"{dtype!r} is not a dtype") from error
    if not found.isnative:
        raise UnsupportedDtype(
            f"dtype {found} is not in native byte order; convert it with x.astype(x.dtype.newbyteorder('='))"
        )
    for known in SUPPORTED:
        if found == known:
            return known
    raise UnsupportedDtype(f"dtype {found} is not supported; supported are {', '.join(_SHORT.values())}")


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of complex numbers; any other as it is."""
    return _PARTS.get(dtype, dtype)


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of complex numbers that hold those of `dtype`: complex64 for float16 and float32."""
    return np.result_type(dtype, np.complex64) if dtype.kind in "fc" else _KNOWN[np.dtype(np.complex128)]


def short_name(dtype: np.dtype[Any]) -> str:
    """`f32`, `i64`, `bool`: the names both IRs print."""
    return _SHORT.get(dtype) or str(dtype)


def weak_kind(value: Any) -> np.dtype[Any] | None:
    """The dtype a Python scalar has on its own; None for anything that is not exactly bool, int, float or complex."""
    return _WEAK.get(type(value))


def result_type(*operands: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], bool]:
    """(dtype, weak) of mixing operands given as (dtype, weak).

    Weak operands bend to the strong ones as in NEP 50: a Python float with int32 arrays gives float64, with float32
    gives float32.
    """
    strong = [dtype for dtype, weak in operands if not weak]
    soft = [dtype for dtype, weak in operands if weak]
    if not strong:
        return np.result_type(*soft), True
    result = np.result_type(*strong)
    order = "biufc"
    for dtype in soft:
        have, want = order.index(result.kind), order.index(dtype.kind)
        if want <= have or {result.kind, dtype.kind} == {"i", "u"}:
            continue
        result = (
            np.result_type(result, 1j)
            if dtype.kind == "c"
            else (np.dtype(np.float64) if dtype.kind == "f" else np.dtype(np.int64))
        )
    return result, False
