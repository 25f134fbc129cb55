"""Functions of Python's that compiled programs call, as functions of C."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.forms import HostFunction
from tracejit.ir.scalar import numpy_dtype

__all__ = ["address"]


def address(function: HostFunction, arrays: Sequence[tuple[str, int]], results: int) -> int:
    """Where the function of C is: it takes the addresses of arrays, operands first, and then all their extents.

    arrays: their dtypes and ranks, of which the last `results` are results.  It holds the interpreter while it runs,
    and lives as long as `function`.
    """
    if function.native is None:
        kinds = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * sum(rank for _, rank in arrays)
        dtypes = [(numpy_dtype(dtype), rank) for dtype, rank in arrays]

        def called(*given: Any) -> None:
            extents = iter(given[len(dtypes) :])
            seen = [
                _array(pointer, dtype, [next(extents) for _ in range(rank)])
                for pointer, (dtype, rank) in zip(given, dtypes, strict=False)
            ]
            split = len(seen) - results
            function.run(seen[:split], seen[split:])

        function.native = ctypes.CFUNCTYPE(None, *kinds)(called)
    return ctypes.cast(function.native, ctypes.c_void_p).value or 0


def _array(pointer: int | None, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """The memory at an address as an array, row-major."""
    count = math.prod(shape)
    if not count or pointer is None:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(memory, dtype, count).reshape(shape)
