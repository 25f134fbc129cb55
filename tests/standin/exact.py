"""Arithmetic on arrays in the roundings of PTX: fused multiply-add, and conversions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.standin.build import build_exact, default_folder
from tests.standin.ptx import DTYPES

__all__ = ["Array", "ROUNDINGS", "convert", "exact", "fma_f16"]

Array = np.ndarray[Any, Any]

ROUNDINGS = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(build_exact(default_folder())))


@cache
def _function(name: str, arrays: int) -> Callable[..., None]:
    found = getattr(_library(), name)
    found.restype = None
    found.argtypes = [ctypes.c_size_t, ctypes.c_int, *[ctypes.c_void_p] * arrays]
    return found


def exact(name: str, rounding: str, result: str, *sources: Array) -> Array:
    """The function `name` of `exact.c`, element by element; `result` is the type of its elements."""
    shape = sources[0].shape
    if any(x.shape != shape for x in sources):
        sources = np.broadcast_arrays(*sources)
    # kept by name while the function has their addresses
    arrays = [np.ascontiguousarray(x) for x in sources]
    out = np.empty(arrays[0].shape, DTYPES[result])
    pointers = [a.__array_interface__["data"][0] for a in (out, *arrays)]
    _function(name, len(pointers))(out.size, ROUNDINGS[rounding], *pointers)
    return out


def fma_f16(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of half precision, rounded once.

    The product is exact in double precision.  Their sum is as well, but where the product is below 2^-53 of z, and then
    z itself is the result either way: only numbers between two of half precision could be rounded twice."""
    return (x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)).astype(np.float16)


def convert(x: Array, result: str, source: str, rounding: str, saturate: bool) -> Array:
    """The value of `cvt.{rounding}.{result}.{source}`; flushing of subnormal numbers is the caller's."""
    if result[0] == "f":
        value = _to_float(x, result, source, rounding)
        # NaN is saturated to zero
        return np.where(value > 0, np.minimum(value, value.dtype.type(1)), value.dtype.type(0)) if saturate else value
    if source[0] == "f":
        return _float_to_integer(x, result, source, rounding)
    dtype = np.dtype(DTYPES[result])
    return _clamp(x, dtype) if saturate else x.astype(dtype)


def _clamp(x: Array, dtype: np.dtype[Any]) -> Array:
    ours, theirs = np.iinfo(x.dtype), np.iinfo(dtype)
    return np.clip(x, max(ours.min, theirs.min), min(ours.max, theirs.max)).astype(dtype)


def _to_float(x: Array, result: str, source: str, rounding: str) -> Array:
    dtype = DTYPES[result]
    if rounding in _TO_INTEGER:
        x = _TO_INTEGER[rounding](x)
        rounding = "rn"
    if source[0] != "f" and rounding != "rn" and result != "f16":
        wide = x.astype(np.int64 if source[0] == "s" else np.uint64)
        return exact(f"{source[0]}64_to_{result}", rounding, result, wide)
    if rounding == "rn" or (np.dtype(dtype).itemsize >= x.dtype.itemsize and source[0] == "f"):
        return x.astype(dtype)
    wide = x.astype(np.float64)
    value = wide.astype(dtype)
    back = value.astype(np.float64)
    down = np.nextafter(value, value.dtype.type(-np.inf))
    up = np.nextafter(value, value.dtype.type(np.inf))
    too_high = back > wide
    too_low = back < wide
    match rounding:
        case "rm":
            return np.where(too_high, down, value)
        case "rp":
            return np.where(too_low, up, value)
        case _:
            return np.where(too_high & (wide > 0), down, np.where(too_low & (wide < 0), up, value))


def _float_to_integer(x: Array, result: str, source: str, rounding: str) -> Array:
    """Values outside are clamped.  Source: PTX ISA, `cvt`, for NaN: zero, or 2^(bits-1) where the source is f64 or the
    result has 64 bits."""
    dtype = np.dtype(DTYPES[result])
    limits = np.iinfo(dtype)
    value = _TO_INTEGER[rounding](x.astype(np.float64))
    low, high = float(limits.min), 2.0 ** (limits.bits - (result[0] == "s"))
    nan = np.isnan(value)
    inside = ~nan & (value >= low) & (value < high)
    clamped = np.where(value < low, dtype.type(limits.min), dtype.type(limits.max))
    of_nan = np.zeros((), dtype)
    if source == "f64" or limits.bits == 64:
        of_nan = np.array(1 << (limits.bits - 1), f"u{dtype.itemsize}").view(dtype)
    return np.where(nan, of_nan, np.where(inside, np.where(inside, value, 0.0).astype(dtype), clamped))
