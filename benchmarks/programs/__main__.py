"""The programs with loops beside Numba's: `python -m benchmarks.programs [names] [--no-numba] [--output PAGE]`.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from benchmarks.programs import PROGRAMS, Program

ROUNDS = 9
LONGEST = 60.0  # seconds of a process
WARM = 0.6  # seconds
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
        for _ in range(3):  # tracejit's final code is made in the background from the second call on
            timed(function, arguments, 1)
            time.sleep(WARM / 3)
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


def alone(program: Program, with_numba: bool) -> dict[str, Any] | str:
    """The figures of one program, measured in a process of its own; why there are none."""
    command = [sys.executable, "-m", "benchmarks.programs", program.name, "--child"]
    try:
        run = subprocess.run(
            command + ["--no-numba"] * (not with_numba), capture_output=True, text=True, timeout=LONGEST, check=True
        )
    except subprocess.SubprocessError as problem:
        said = getattr(problem, "stderr", None)
        return said.strip().splitlines()[-1] if isinstance(said, str) and said.strip() else str(problem)
    return json.loads(run.stdout.splitlines()[-1])


@frozen
class Row:
    """A program's line.  ratio: of tracejit's time to Numba's, where both are right."""

    name: str
    cells: tuple[str, ...]
    ratio: float | None
    failed: bool


def row_of(program: Program, figures: dict[str, Any] | str) -> Row:
    if isinstance(figures, str):
        return Row(program.name, (figures[:150],), None, failed=True)
    wrong = [name for name in ("numba", "tracejit") if figures.get(f"{name} error", 0) > program.tolerance]
    ratio = figures["tracejit"] / figures["numba"] if "numba" in figures and not wrong else None
    times = [readable(figures.get(name)) for name in ("python", "numba", "tracejit")]
    first = [readable(figures.get(name)) for name in ("numba first", "tracejit first")]
    beside = f"wrong: {', '.join(wrong)}" if wrong else "-" if ratio is None else f"{ratio:.2f}"
    return Row(program.name, (*times, beside, *first), ratio, failed="tracejit" in wrong)


def summary(rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if not ratios:
        return ""
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    ahead = sum(ratio <= 1 for ratio in ratios)
    return f"{len(ratios)} programs beside Numba: {mean:.2f} of its time (geometric mean), ahead on {ahead}."


HEAD = ("program", "Python", "Numba", "tracejit", "ratio", "first: Numba", "first: tracejit")


def page(rows: Sequence[Row]) -> str:
    """The table as a document."""
    from importlib.metadata import version

    from benchmarks.report import machine

    versions = {name: version(name) for name in ("numpy", "numba")}
    lines = [
        "# Programs with loops, beside Numba", "",
        "Written by `python -m benchmarks.programs --output docs/programs.md`: textbook loops over NumPy arrays "
        "(`benchmarks/programs/`), the same text under `tj.jit` and `numba.njit`. Ratios carry over, times "
        "do not.", "", machine(1, versions), "", summary(rows), "",
        f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}",
        *[f"| {' | '.join((row.name, *row.cells))} |" for row in rows], "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs or families; without any, all")
    parser.add_argument("--no-numba", action="store_true")
    parser.add_argument("--output", type=Path, help="write the table here")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(PROGRAMS[options.names[0]], not options.no_numba)))
        return 0
    rows: list[Row] = []
    print(" ".join([f"{HEAD[0]:24}", *[f"{name:>12}" for name in HEAD[1:]]]))
    for program in PROGRAMS.values():
        if options.names and not {program.name, program.family} & set(options.names):
            continue
        rows.append(row_of(program, alone(program, not options.no_numba)))
        print(" ".join([f"{program.name:24}", *[f"{cell:>12}" for cell in rows[-1].cells]]), flush=True)
    print(summary(rows))
    if options.output:
        options.output.write_text(page(rows))
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
