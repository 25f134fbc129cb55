"""np.linalg compiled, beside NumPy's and JAX's, which call LAPACK.

    python -m benchmarks.decompositions [repeats]

Single matrices of several sizes, and stacks of small ones; microseconds a call, medians of interleaved runs in one
process.  JAX is left out where it is not installed.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracejit as tj


def functions(of: Any) -> dict[str, Callable[[Any], Any]]:
    """What is measured, by name; `of` is NumPy, or JAX's namespace like it."""
    return {
        "cholesky": lambda a: of.linalg.cholesky(a),
        "solve": lambda a: of.linalg.solve(a, a[..., :1]),
        "inv": lambda a: of.linalg.inv(a),
        "det": lambda a: of.linalg.det(a),
        "qr": lambda a: of.linalg.qr(a),
        "eigh": lambda a: of.linalg.eigh(a),
        "svd": lambda a: of.linalg.svd(a),
    }


SHAPES = (
    (2, 2),
    (8, 8),
    (32, 32),
    (128, 128),
    (500, 500),
    (10_000, 3, 3),
    (10_000, 4, 4),
    (1_000, 8, 8),
    (100, 32, 32),
)


def matrix(shape: tuple[int, ...]) -> Any:
    """Symmetric positive definite matrices."""
    x = np.random.default_rng(0).normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def of_jax() -> dict[str, Callable[[Any], Any]]:
    """JAX's functions, which wait for their results; none where it is not installed."""
    if importlib.util.find_spec("jax") is None:
        return {}
    import jax

    jax.config.update("jax_enable_x64", True)

    def waiting(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        compiled = jax.jit(function)
        return lambda a: jax.block_until_ready(compiled(a))

    return {name: waiting(f) for name, f in functions(jax.numpy).items()}


def seconds(function: Callable[[Any], Any], a: Any) -> float:
    """Of one call, from as many as take a millisecond."""
    start = time.perf_counter()
    function(a)
    count = max(1, int(1e-3 / (time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(count):
        function(a)
    return (time.perf_counter() - start) / count


def main(repeats: int) -> None:
    """Print a line for each function and shape."""
    plain, others = functions(np), of_jax()
    for shape in SHAPES:
        a = matrix(shape)
        for name, function in plain.items():
            teams = {"tracejit": tj.jit(function), "NumPy": function} | ({"JAX": others[name]} if others else {})
            for f in teams.values():
                f(a)
                f(a)
            time.sleep(0.3)  # code that is made well comes in the background
            times: dict[str, list[float]] = {team: [] for team in teams}
            for _ in range(repeats):
                for team, f in teams.items():
                    times[team].append(seconds(f, a))
            found = {team: statistics.median(t) * 1e6 for team, t in times.items()}
            print(f"{name:9} {shape!s:16}", "  ".join(f"{team} {t:10.1f}" for team, t in found.items()), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
