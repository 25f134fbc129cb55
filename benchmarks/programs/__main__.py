"""The programs with loops beside Numba's: `python -m benchmarks.programs [names] [--no-numba]`.

Each in a process of its own: the first call of each, then interleaved calls on fresh copies of the arguments; medians.
Before a time counts, both answers are compared with plain Python's.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.programs import PROGRAMS, Program

ROUNDS = 9
LONGEST = 60.0  # seconds of a process
LEAST = 0.02  # seconds of calls in a round


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)]


def error(got: Any, wanted: Any) -> float:
    """The largest error over the largest value, over all results; inf where shapes differ."""
    worst = 0.0
    found, expected = leaves(got), leaves(wanted)
    if len(found) != len(expected):
        return math.inf
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return math.inf
        a, b = a.astype(float), b.astype(float)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return math.inf
        finite = np.isfinite(b)
        if finite.any():
            worst = max(worst, float(np.abs(a[finite] - b[finite]).max() / max(np.abs(b[finite]).max(), 1e-300)))
    return worst


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def timed(function: Any, arguments: tuple[Any, ...], calls: int) -> float:
    copies = [copied(arguments) for _ in range(calls)]
    start = time.perf_counter()
    for each in copies:
        function(*each)
    return (time.perf_counter() - start) / calls


def measure(program: Program, with_numba: bool) -> dict[str, Any]:
    """The figures of one program, in this process."""
    import tracejit as tj

    arguments = program.inputs(program.size)
    inputs = copied(arguments)
    start = time.perf_counter()
    wanted = program.function(*inputs), *inputs
    figures: dict[str, Any] = {"python": time.perf_counter() - start}
    functions = {"tracejit": tj.jit(program.function)}
    if with_numba and program.numba:
        import numba

        functions["numba"] = numba.njit(program.function)
    calls = {}
    for name, function in functions.items():
        inputs = copied(arguments)
        start = time.process_time()
        got = function(*inputs), *inputs
        figures[f"{name} first"] = time.process_time() - start
        figures[f"{name} error"] = error(got, wanted)
        calls[name] = max(1, int(LEAST / max(timed(function, arguments, 1), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(timed(function, arguments, min(calls[name], 1000)))
    for name, values in times.items():
        figures[name] = statistics.median(values)
    return figures


def readable(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs or families; without any, all")
    parser.add_argument("--no-numba", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(PROGRAMS[options.names[0]], not options.no_numba)))
        return 0
    chosen = [p for p in PROGRAMS.values() if not options.names or {p.name, p.family} & set(options.names)]
    ratios, failed = [], 0
    print(f"{'program':24} {'Python':>9} {'Numba':>9} {'tracejit':>9} {'ratio':>6}   first call: Numba, tracejit")
    for program in chosen:
        command = [sys.executable, "-m", "benchmarks.programs", program.name, "--child"]
        try:
            run = subprocess.run(
                command + ["--no-numba"] * options.no_numba, capture_output=True, text=True, timeout=LONGEST, check=True
            )
        except subprocess.SubprocessError as problem:
            failed += 1
            said = getattr(problem, "stderr", None)
            last = said.strip().splitlines()[-1] if isinstance(said, str) and said.strip() else str(problem)
            print(f"{program.name:24} failed: {last[:150]}", flush=True)
            continue
        figures = json.loads(run.stdout.splitlines()[-1])
        ratio = figures["tracejit"] / figures["numba"] if "numba" in figures else None
        wrong = [name for name in ("numba", "tracejit") if figures.get(f"{name} error", 0) > program.tolerance]
        failed += "tracejit" in wrong
        if ratio is not None and not wrong:
            ratios.append(ratio)
        shown = [readable(figures.get(name)) for name in ("python", "numba", "tracejit")]
        first = f"{readable(figures.get('numba first'))}, {readable(figures['tracejit first'])}"
        note = f"   wrong: {', '.join(wrong)} ({figures['tracejit error']:.1e})" if wrong else ""
        beside = f"{ratio:.2f}" if ratio is not None else "-"
        print(f"{program.name:24} {shown[0]:>9} {shown[1]:>9} {shown[2]:>9} {beside:>6}   {first}{note}", flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        ahead = sum(ratio <= 1 for ratio in ratios)
        print(f"{len(ratios)} beside Numba: {mean:.2f} of its time (geometric mean), ahead on {ahead}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
