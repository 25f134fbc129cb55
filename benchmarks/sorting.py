"""Sorts beside NumPy's: `python -m benchmarks.sorting`.  Milliseconds, medians of interleaved runs,
of stable orders that are compared with NumPy's before a time counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj

ROUNDS = 9


def medians(functions: Sequence[Callable[[Any], Any]], x: Any) -> list[float]:
    """The milliseconds of each function, from interleaved runs."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, found in zip(functions, times, strict=True):
            start = time.perf_counter()
            function(x)
            found.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(t) for t in times]


def main() -> None:
    print("| elements | sort | NumPy's | argsort | NumPy's, stable |\n|---|---|---|---|---|")
    plain = [np.sort, lambda x: np.argsort(x, kind="stable")]
    ours = [tj.jit(lambda x: np.sort(x)), tj.jit(lambda x: np.argsort(x))]
    for dtype in ("f8", "f4", "i8", "i4"):
        for n in (1_000, 100_000, 1_000_000):
            x = (np.random.default_rng(0).random(n) * 1e9).astype(dtype)
            for f, g in zip(ours, plain, strict=True):
                np.testing.assert_array_equal(f(x), g(x))
            a, b, c, d = medians([ours[0], plain[0], ours[1], plain[1]], x)
            print(f"| {n:,} {dtype} | {a:.3f} | {b:.3f} | {c:.3f} | {d:.3f} |")


if __name__ == "__main__":
    main()
