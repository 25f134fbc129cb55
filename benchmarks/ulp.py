"""Measures the accuracy and the speed of every elementary function and writes the table of docs/numerics.md.

    python -m benchmarks.ulp                    every function: f32 at every 257th bit pattern, f64 at 1.6 million
    points (2 minutes) python -m benchmarks.ulp exp log            some functions, printed only
    python -m benchmarks.ulp --exhaustive       f32 at all 2**32 bit patterns (about an hour)

Errors are |result - exact| in units in the last place of the exact result, which comes from float64 (f32), from the
64-bit significands of x87 long doubles (f64), or from mpmath where that has no such function.  Times are for 4096
elements in cache, one core.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from attrs import frozen

from benchmarks.vector_math import VectorFunction, compile_function
from tracejit.ir.math import EXPANSIONS
from tracejit.ir.scalar import OPS, numpy_dtype

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "numerics.md"
TWO_ARGUMENTS = {"pow", "atan2", "fmod"}
SPECIAL = {
    "bessel_i0e", "bessel_i1e", "digamma", "erf_inv", "erfc", "erfc_inv", "erfcx", "lgamma", "tgamma",
}  # fmt: skip  # against mpmath: tests/ir/test_special_functions.py
NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
}
TIMED_RANGE = {"exp": (-50, 50), "exp2": (-50, 50), "acosh": (1, 50), "pow": (0.5, 8)} | dict.fromkeys(
    ("asin", "acos", "atanh"), (-1, 1)
)
TIMED_RANGE |= dict.fromkeys(("log", "log2", "log10", "log1p"), (0.1, 100))
CHUNK = 1 << 22


@frozen
class Measured:
    """One row of the table."""

    name: str
    dtype: str
    worst: float
    at: str
    points: int
    nanoseconds: float
    numpy_nanoseconds: float | None


def numpy_function(name: str) -> Callable[..., Any] | None:
    return getattr(np, NUMPY_NAMES.get(name, name), None)


def errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Units in the last place between `got` and the wider `want`;
    infinite where NaN, an infinity or a zero's sign is wrong.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        _, exponent = np.frexp(np.maximum(np.abs(want), want.dtype.type(info.tiny)))
        distance = np.abs(got.astype(want.dtype) - want) / np.ldexp(want.dtype.type(1), exponent - 1 - info.nmant)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    distance = np.where(same & ~np.isfinite(distance), 0, distance)
    wrong_zero = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return np.where(np.isnan(distance) | wrong_zero, np.inf, distance).astype(np.float64)


def exact_f32(name: str) -> Callable[..., Any]:
    def run(*args: np.ndarray) -> np.ndarray:
        return np.asarray(OPS[name].impl(np.dtype(np.float64), *(a.astype(np.float64) for a in args)))

    return run


def long_double(x: mpmath.mpf) -> Any:
    high = float(x)
    return np.longdouble(high) + np.longdouble(float(x - high)) if math.isfinite(high) else np.longdouble(high)


def exact_f64(name: str) -> tuple[Callable[..., Any], int]:
    """The function in more than double precision, and every how many points to take."""
    function = numpy_function(name)
    if function is not None and np.finfo(np.longdouble).nmant >= 63:
        return lambda *args: function(*(a.astype(np.longdouble) for a in args)), 1

    def run(*args: np.ndarray) -> np.ndarray:
        exact = getattr(mpmath, name)
        with mpmath.workprec(120):
            return np.array(
                [long_double(exact(*map(mpmath.mpf, row))) for row in zip(*(a.tolist() for a in args), strict=True)],
                np.longdouble,
            )

    return run, 50


def unary_f32(stride: int) -> Iterator[tuple[np.ndarray, ...]]:
    for start in range(0, 2**32, CHUNK * stride):
        bits = np.arange(start, min(start + CHUNK * stride, 2**32), stride, dtype=np.uint64)
        yield (bits.astype(np.uint32).view(np.float32),)


def unary_f64(every: int) -> Iterator[tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(0)
    n = 400_000 // every
    yield (rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64),)
    yield (rng.uniform(-750, 750, n),)
    yield (rng.uniform(-3, 3, n),)
    yield (np.exp(rng.uniform(-40, 40, n)) * rng.choice([-1.0, 1.0], n),)
    yield (1 + rng.uniform(-1, 1, n) * 10.0 ** rng.uniform(-16, 0, n),)


def pairs(dtype: str) -> Iterator[tuple[np.ndarray, ...]]:
    rng, kind, n = np.random.default_rng(3), numpy_dtype(dtype), 400_000
    top = 700.0 if dtype == "f64" else 87.0
    with np.errstate(over="ignore"):
        yield tuple(rng.integers(0, 2 ** (8 * kind.itemsize), (2, n), dtype=f"u{kind.itemsize}").view(kind))
        yield np.exp(rng.uniform(-5, 5, n)).astype(kind), rng.uniform(-30, 30, n).astype(kind)
        yield np.exp(rng.uniform(-top, top, n)).astype(kind), rng.uniform(-1.1, 1.1, n).astype(kind)
        near_one = 1 + rng.uniform(-1, 1, n) * 10.0 ** rng.uniform(-7, 0, n)
        yield near_one.astype(kind), (rng.uniform(-1, 1, n) * 10.0 ** rng.uniform(0, 8, n)).astype(kind)
        yield -np.round(np.exp(rng.uniform(0, 5, n))).astype(kind), np.round(rng.uniform(-40, 40, n)).astype(kind)


def accuracy(function: VectorFunction, name: str, dtype: str, stride: int) -> tuple[float, str, int]:
    """The largest error, where, and over how many points."""
    exact, every = (exact_f32(name), 1) if dtype == "f32" else exact_f64(name)
    chunks = pairs(dtype) if name in TWO_ARGUMENTS else unary_f32(stride) if dtype == "f32" else unary_f64(every)
    worst, at, points = 0.0, "", 0
    for args in chunks:
        with np.errstate(all="ignore"):
            error = errors(function(*args), exact(*args))
        k = int(np.argmax(error))
        points += error.size
        if error[k] > worst:
            worst, at = float(error[k]), ", ".join(f"{a[k]:.9g}" for a in args)
    return worst, at, points


def best_time(call: Callable[[], Any], elements: int, rounds: int = 60, repeats: int = 20) -> float:
    """Least nanoseconds per element."""
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, time.perf_counter() - start)
    return best / repeats / elements * 1e9


def measure(name: str, dtype: str, stride: int) -> Measured:
    arity = 2 if name in TWO_ARGUMENTS else 1
    function = compile_function(name, dtype, arity)
    worst, at, points = accuracy(function, name, dtype, stride)
    low, high = TIMED_RANGE.get(name, (-8, 8))
    x = np.random.default_rng(1).uniform(low, high, 4096).astype(numpy_dtype(dtype))
    out, numpy = np.empty_like(x), numpy_function(name)
    ours = best_time(function.prepared(out, *[x] * arity), x.size)
    theirs = best_time(lambda: numpy(*[x] * arity, out=out), x.size, rounds=20, repeats=5) if numpy else None
    return Measured(name, dtype, worst, at, points, ours, theirs)


def table(rows: list[Measured]) -> str:
    lines = [
        "| function | f32 ulp | at | f64 ulp | at | f32 ns | NumPy | f64 ns | NumPy |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    by_name: dict[str, dict[str, Measured]] = {}
    for row in rows:
        by_name.setdefault(row.name, {})[row.dtype] = row

    def spelled(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    for name, both in by_name.items():
        a, b = both["f32"], both["f64"]
        times = " | ".join(spelled(v) for v in (a.nanoseconds, a.numpy_nanoseconds, b.nanoseconds, b.numpy_nanoseconds))
        lines.append(f"| {name} | {a.worst:.3f} | {a.at} | {b.worst:.3f} | {b.at} | {times} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="accuracy and speed of the elementary functions")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--exhaustive", action="store_true")
    options = parser.parse_args()
    rows: list[Measured] = []
    for name in options.names or sorted(set(EXPANSIONS) - SPECIAL):
        for dtype in ("f32", "f64"):
            row = measure(name, dtype, 1 if options.exhaustive else 257)
            rows.append(row)
            print(
                f"{name:6} {dtype}  {row.worst:.3f} ulp at {row.at} of {row.points} points, {row.nanoseconds:.2f} ns",
                flush=True,
            )
    if options.names:
        return
    start, end = "<!-- table: python -m benchmarks.ulp -->", "<!-- end of table -->"
    text = DOCUMENT.read_text()
    head, tail = text.index(start) + len(start), text.index(end)
    DOCUMENT.write_text(f"{text[:head]}\n{table(rows)}\n{text[tail:]}")


if __name__ == "__main__":
    main()
