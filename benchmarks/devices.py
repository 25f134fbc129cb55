"""A device of this machine beside the CPU backend, on arrays that lie there; and the time of a call that is our own.

    python -m benchmarks.devices [--backend opencl] [--json FILE] [ROW ...]

For PoCL, which runs on the same cores. The two take turns; a figure is the median of the turns. Before a time counts,
both results are compared with NumPy's in float64.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import tracejit as tj
from benchmarks.null_device import NullBackend
from tracejit.backends.registry import get_backend, register_backend

ROUNDS = 7
TURN_SECONDS = 0.05
TOLERANCE = 1e-4  # of the norm of the difference over that of the result

RNG = np.random.default_rng(0)
LONG = RNG.random(1 << 20).astype("f4")
TABLE = RNG.random((2048, 512)).astype("f4")
A, B = (RNG.random((512, 512)).astype("f4") for _ in range(2))
AT = RNG.integers(0, LONG.size, LONG.size).astype("i4")
BINS = RNG.integers(0, 1000, LONG.size).astype("i4")
SMALL = RNG.random(100).astype("f4")


@frozen
class Row:
    """A function of arrays, and how many times the CPU's time it may take (0: nothing is asked)."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    most: float = 0.0


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def fused(x: Any) -> Any:
    return np.sqrt(np.exp(-x * x) + 1) * np.sin(x) + x * 2 - 1


def steps(x: Any) -> Any:
    for _ in range(100):
        x = x * 0.99 + 0.01
    return x


def until(x: Any) -> Any:
    while x.max() < 1e3:
        x = x * 1.07 + 1
    return x


def smooth(x: Any) -> Any:
    out = np.zeros_like(x)
    c = x.dtype.type(0)
    for i in range(len(x)):
        c = c * x.dtype.type(0.5) + x[i]
        out[i] = c
    return out


ROWS = (
    Row("x + 1, 1e6", lambda x: x + 1, (LONG,), 2),
    Row("ten operations, 1e6", fused, (LONG,), 2),
    Row("softmax, 2048 x 512", softmax, (TABLE,), 2),
    Row("sum, 1e6", lambda x: x.sum(), (LONG,), 2),
    Row("sums of rows, 2048 x 512", lambda x: x.sum(1), (TABLE,), 2),
    Row("sums of columns, 2048 x 512", lambda x: x.sum(0), (TABLE,), 3),
    Row("cumsum, 1e6", np.cumsum, (LONG,), 2),
    Row("cumsum of rows", lambda x: np.cumsum(x, 1), (TABLE,), 2),
    Row("cumsum of columns", lambda x: np.cumsum(x, 0), (TABLE,), 2),
    Row("gather, 1e6", lambda x, at: x[at], (LONG, AT), 2),
    Row("bincount with weights, 1e6", lambda x, at: np.bincount(at, x, 1000), (LONG, BINS), 4),
    Row("A @ B, 512", lambda a, b: a @ b, (A, B), 3),
    Row("A @ B.T, 512", lambda a, b: a @ b.T, (A, B), 3),
    Row("A.T @ B, 512", lambda a, b: a.T @ b, (A, B), 3),
    Row("transpose, 2048 x 512", lambda x: x.T.copy(), (TABLE,)),
    Row("sort, 1e5", np.sort, (LONG[:100_000],)),
    Row("100 steps of 100 elements", steps, (SMALL,)),
    Row("while, 100 elements", until, (SMALL,)),
    Row("recurrence, 1000 elements", smooth, (LONG[:1000],)),
)


def checked(row: Row, found: Any, what: str) -> None:
    """Raises: AssertionError where a result is not NumPy's."""
    want = row.function(*[a.astype("f8") if a.dtype.kind == "f" else a for a in row.arguments])
    error = np.linalg.norm(np.asarray(found) - want) / max(np.linalg.norm(want), 1e-30)
    assert error <= TOLERANCE, f"{row.name} on {what}: error {error:.1e}"


def turn(run: Callable[[], Any]) -> float:
    """Seconds of a run, over a turn."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < TURN_SECONDS:
        run()
        count += 1
    return (time.perf_counter() - start) / count


def measured(row: Row, backend: str) -> tuple[float, float]:
    """(CPU's seconds, the device's), medians of turns."""
    here, there = tj.jit(row.function), tj.jit(row.function, backend=backend)
    arguments = [tj.device_put(a, backend) for a in row.arguments]
    checked(row, here(*row.arguments), "cpu")
    here.finish()
    checked(row, there(*arguments), backend)
    runs: tuple[Callable[[], Any], ...] = (
        lambda: here(*row.arguments),
        lambda: there(*arguments).block_until_ready(),
    )
    times = [[turn(run) for run in runs] for _ in range(ROUNDS)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def host_time(count: int) -> float:
    """Seconds of a cached call with so many arrays that are the host's own: on a device that does nothing."""
    register_backend("null", NullBackend, priority=-1)
    arrays = [tj.device_put(SMALL, "null") for _ in range(count)]
    f = tj.jit(lambda *a: sum(a[1:], a[0] + 1))
    f(*arrays)
    return min(_processor_time(f, arrays) for _ in range(ROUNDS))


def _processor_time(f: Callable[..., Any], arrays: list[Any], runs: int = 3000) -> float:
    start = time.process_time()
    for _ in range(runs):
        f(*arrays)
    return (time.process_time() - start) / runs


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.devices", description=__doc__)
    parser.add_argument("--backend", default="opencl")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("rows", nargs="*", help="parts of names; all by default")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    device: Any = get_backend(options.backend)
    print(f"{device.device.name}; microseconds")
    print(f"| {'':28} | {'cpu':>9} | {options.backend:>9} | ratio |\n|:{'-' * 29}|{'-' * 10}:|{'-' * 10}:|------:|")
    for row in ROWS:
        if options.rows and not any(part in row.name for part in options.rows):
            continue
        cpu, there = measured(row, options.backend)
        figures[row.name] = {"cpu": cpu, options.backend: there, "most": row.most}
        late = " (over its bar)" if row.most and there > row.most * cpu else ""
        print(f"| {row.name:28} | {cpu * 1e6:9.1f} | {there * 1e6:9.1f} | {there / cpu:5.2f} |{late}", flush=True)
    if not options.rows:
        for count in (1, 10):
            seconds = figures[f"call, {count}"] = host_time(count)
            print(f"a cached call with {count} arrays, on a device that does nothing: {seconds * 1e6:.1f} us")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
