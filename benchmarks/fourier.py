"""Fourier transforms beside NumPy's: `python -m benchmarks.fourier`.  Microseconds, medians of interleaved runs of
results that are compared with NumPy's before a time counts, and milliseconds of the first call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj

ROUNDS = 15
LEAST = 2e-3
"""Seconds of one measurement: short calls are repeated."""
SHAPES = ((64,), (1000,), (1009,), (1024,), (4096,), (65_536,), (1_048_576,), (1000, 16), (256, 1000), (1000, 1024))
KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "fft": (lambda x: np.fft.fft(x), lambda x: x),
    "rfft": (lambda x: np.fft.rfft(x), lambda x: x.real.copy()),
    "irfft": (lambda x: np.fft.irfft(x), lambda x: x[..., : x.shape[-1] // 2 + 1].copy()),
    "fft of columns": (lambda x: np.fft.fft(x, axis=0), lambda x: x),
    "fft2": (lambda x: np.fft.fft2(x), lambda x: x),
}


def medians(functions: Sequence[Callable[[Any], Any]], x: Any) -> list[float]:
    """The microseconds of each function, from interleaved runs."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, found in zip(functions, times, strict=True):
            start, count, spent = time.perf_counter(), 0, 0.0
            while spent < LEAST:
                function(x)
                count, spent = count + 1, time.perf_counter() - start
            found.append(spent / count * 1e6)
    return [statistics.median(t) for t in times]


def check(got: Any, want: Any, n: int) -> None:
    """Raises: AssertionError where results are further apart than roundings that grow as the logarithm of n."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert np.abs(got - want).max() <= np.finfo(want.dtype).eps * (5 + 5 * np.log2(n)) * np.abs(want).max()


def settled(function: Callable[[Any], Any], x: Any) -> float:
    """The milliseconds of the first call; the code is made well, in the background, when this returns."""
    start = time.perf_counter()
    function(x)
    first = (time.perf_counter() - start) * 1e3
    for _ in range(4):
        function(x)
        time.sleep(0.3)
    return first


def main() -> None:
    print("| transform | of | us | NumPy's | ratio | first call, ms |\n|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for dtype in (np.complex128, np.complex64):
        for name, (plain, operand) in KINDS.items():
            for shape in SHAPES:
                if len(shape) == 1 and name in ("fft of columns", "fft2"):
                    continue
                x = operand((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))
                ours = tj.jit(plain)
                first = settled(ours, x)
                check(ours(x), plain(x), x.size)
                a, b = medians([ours, plain], x)
                print(f"| {name} | {x.dtype} {shape} | {a:,.1f} | {b:,.1f} | {a / b:.2f} | {first:.0f} |", flush=True)


if __name__ == "__main__":
    main()
