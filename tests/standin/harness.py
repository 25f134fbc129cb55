"""Kernels on NumPy arrays without a driver, for tests of the interpreter itself."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.standin.exact import Array
from tests.standin.memory import Range
from tests.standin.module import Loaded

__all__ = ["assert_same", "launch", "rounded"]


def launch(
    loaded: Loaded,
    name: str,
    arguments: Sequence[Array | np.generic],
    *,
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 64,
    shared: int = 0,
    global_races: bool = False,
) -> None:
    """Runs a kernel; arrays among its arguments are what it reads and writes, and all that it may."""
    function = loaded.kernel(name)
    packed = bytearray(function.parameter_size)
    memory: list[Range] = []
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        if isinstance(argument, np.ndarray):
            memory.append(Range(argument.ctypes.data, argument.nbytes, argument.ctypes.data))
            value = np.uint64(argument.ctypes.data).tobytes()
        else:
            value = argument.tobytes()
        packed[parameter.offset : parameter.offset + len(value)] = value
    blocks = (grid, 1, 1) if isinstance(grid, int) else grid
    threads = (block, 1, 1) if isinstance(block, int) else block
    loaded.launch(name, blocks, threads, shared, bytes(packed), memory, global_races=global_races)


def assert_same(actual: Array, expected: Any, what: str = "") -> None:
    """The same bits, but that every NaN is the same."""
    expected = np.asarray(expected, actual.dtype)
    assert actual.shape == expected.shape, what
    word = f"u{actual.dtype.itemsize}"
    different = np.ascontiguousarray(actual).view(word) != np.ascontiguousarray(expected).view(word)
    if actual.dtype.kind == "f":
        different &= ~(np.isnan(actual) & np.isnan(expected))
    where = np.flatnonzero(different)
    shown = [(int(i), actual.ravel()[i], expected.ravel()[i]) for i in where[:5]]
    assert not where.size, f"{what}: {where.size} differ, as (index, actual, expected): {shown}"


_FORMATS = {"f16": (11, -24, 15), "f32": (24, -149, 127), "f64": (53, -1074, 1023)}


def rounded(value: Fraction, kind: str, mode: str = "rn") -> float:
    """An exact number in a format of IEEE 754's: the oracle of all that rounds.  Zero is positive."""
    digits, least, most = _FORMATS[kind]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1
    while magnitude >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = max(exponent - digits + 1, least)
    scaled = magnitude / Fraction(2) ** unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    away = {
        "rn": half > 0 or (half == 0 and whole % 2 == 1),
        "rz": False,
        "rm": value < 0 and rest > 0,
        "rp": value > 0 and rest > 0,
    }[mode]
    whole += away
    result = Fraction(whole) * Fraction(2) ** unit
    if result >= Fraction(2) ** (most + 1):
        to_infinity = mode == "rn" or (mode == "rp" and value > 0) or (mode == "rm" and value < 0)
        largest = (Fraction(2) ** digits - 1) * Fraction(2) ** (most - digits + 1)
        number = float("inf") if to_infinity else float(largest)
    else:
        number = float(result)
    return -number if value < 0 else number
