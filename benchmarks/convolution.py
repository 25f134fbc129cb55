"""Convolutions and pooling beside JAX's: `python -m benchmarks.convolution`.  Milliseconds, medians of interleaved
runs, of results that are compared before a time counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tracejit as tj

Maker = Callable[[Any], Callable[..., Any]]
"""Of a namespace (`tj.lax`, `jax.lax`) the function that is timed."""

ROUNDS = 15
LAYOUTS = {"NHWC": ("NHWC", "HWIO", "NHWC"), "NCHW": ("NCHW", "OIHW", "NCHW")}
# batch, size, channels, channels out, filter, stride, groups, lhs_dilation
CASES = [
    ("3x3", (8, 56, 64, 64, 3, 1, 1, 1)), ("1x1", (8, 56, 64, 128, 1, 1, 1, 1)),
    ("3x3, stride 2", (8, 56, 64, 64, 3, 2, 1, 1)), ("7x7 of 3 channels, stride 2", (1, 224, 3, 64, 7, 2, 1, 1)),
    ("3x3 of 14x14", (8, 14, 256, 256, 3, 1, 1, 1)), ("3x3 in 4 groups", (8, 28, 64, 64, 3, 1, 4, 1)),
    ("3x3, depthwise", (8, 56, 64, 64, 3, 1, 64, 1)), ("3x3, transposed by 2", (8, 28, 64, 64, 3, 1, 1, 2)),
]  # fmt: skip


def medians(functions: Sequence[Callable[..., Any]], *arguments: Any) -> list[float]:
    """The milliseconds of each function, from interleaved runs."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, found in zip(functions, times, strict=True):
            start = time.perf_counter()
            function(*arguments)
            found.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(t) for t in times]


def operands(layout: str, n: int, size: int, c: int, o: int, k: int, groups: int) -> list[Any]:
    """An array and a filter, small enough for sums near 1."""
    rng = np.random.default_rng(0)
    extents = {"N": n, "C": c, "H": size, "W": size}, {"O": o, "I": c // groups, "H": k, "W": k}
    names = LAYOUTS[layout]
    return [
        (rng.standard_normal([of[letter] for letter in text]) / k).astype(np.float32)
        for text, of in zip(names[:2], extents, strict=True)
    ]


def convolution(numbers: tuple[str, str, str], k: int, stride: int, groups: int, spread: int) -> Maker:
    """A convolution by a namespace, with the padding that keeps the extents."""
    low, high = (k - 1, k - 1) if spread > 1 else ((k - 1) // 2, k - 1 - (k - 1) // 2)
    rest = (stride, stride), [(low, high)] * 2, (spread, spread), None, numbers, groups
    return lambda lax: lambda x, w: lax.conv_general_dilated(x, w, *rest)


def pooling(layout: str, fold: str, start: float) -> Maker:
    """A fold of windows of 3x3 by a namespace."""
    window = tuple([3 if letter in "HW" else 1 for letter in layout])
    return lambda lax: lambda x: lax.reduce_window(x, np.float32(start), getattr(lax, fold), window, (1,) * 4, "SAME")


def compare(name: str, make: Maker, arguments: Sequence[Any]) -> None:
    """A row of the table."""
    import jax

    ours, theirs = tj.jit(make(tj.lax)), jax.jit(make(jax.lax))
    waited = lambda *xs: jax.block_until_ready(theirs(*xs))  # noqa: E731
    for _ in range(2):
        np.testing.assert_allclose(ours(*arguments), np.asarray(waited(*arguments)), rtol=1e-3, atol=1e-3)
    time.sleep(0.5)  # the second tier is made in the background
    a, b = medians([ours, waited], *arguments)
    print(f"| {name} | {a:.2f} | {b:.2f} | {a / b:.2f} |", flush=True)


def main() -> None:
    print("| float32 | tracejit | JAX | ratio |\n|---|---|---|---|")
    for layout, numbers in LAYOUTS.items():
        for name, (n, size, c, o, k, stride, groups, spread) in CASES:
            arguments = operands(layout, n, size, c, o, k, groups)
            compare(f"{layout} {name}", convolution(numbers, k, stride, groups, spread), arguments)
        x = operands(layout, 8, 56, 64, 1, 1, 1)[:1]
        for fold, start in (("max", -np.inf), ("add", 0.0)):
            compare(f"{layout} {fold} of 3x3", pooling(layout, fold, start), x)


if __name__ == "__main__":
    main()
