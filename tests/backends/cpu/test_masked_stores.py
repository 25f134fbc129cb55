"""Stores of the lanes that are left over: nothing behind them is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def summed(c: Any, i: Any, n: int) -> Any:
    c[:n] = np.cumsum(i[:n])
    for j in range(n):
        if c[j] > 100:
            break
    return c


def converted(c: Any, i: Any, n: int) -> Any:
    c[:n] = i[:n]
    k = 0
    while k < n and c[k] < 1000:
        k += 1
    return k


def backwards(c: Any, i: Any, n: int) -> Any:
    c[n - 1 :: -1] = i[:n] * 3
    k = 0
    while k < n and c[k] < 1000:
        k += 1
    return k


@pytest.mark.parametrize("into", ["int8", "uint8", "int16", "int32", "uint32", "bool", "float16", "float32"])
@pytest.mark.parametrize("function", [summed, converted, backwards])
def test_conversions_of_one_more_element_than_vectors(function: Any, into: str):
    """LLVM 22 stores too many bytes where a single lane of a converted vector is stored, with AVX-512."""
    for source in ("int64", "int32", "float64"):
        for n in (1, 9, 17, 33):
            c, i = (np.arange(80) % 7).astype(into), (np.arange(80) * 3 % 11).astype(source)
            wanted, got = c.copy(), c.copy()
            expected = function(wanted, i, n)
            tj.jit(function, static_argnums=2)(got, i, n)
            np.testing.assert_array_equal(got, wanted, err_msg=f"{source} {n} {expected}")
