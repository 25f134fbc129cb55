"""What a program pays before its first result: each figure from fresh processes, in CPU time,
so that other load counts little.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.compare import ROOT

REPEATS = 3
TIME_LIMIT = 60.0
PROGRAMS = {
    "import": "import, over numpy",
    "x_plus_1": "x + 1: first call",
    "black_scholes": "Black-Scholes 1e4: first call",
    "straight_2000": "2,000 straight-line operations: first call",
    "straight_10000": "10,000 straight-line operations: first call",
    "second_black_scholes": "Black-Scholes 1e4: first call, a second function",
    "mlp_gradient": "gradient of a network with two hidden layers: first call, a second function",
    "residual_block": "a residual block of 3 convolutions: first call, a second function",
    "unrolled_50": "50 steps of Runge-Kutta on 3 numbers, unrolled: first call, a second function",
    "unrolled_100": "100 steps",
    "unrolled_200": "200 steps",
    "second_size": "Black-Scholes: a second size",
    "third_size": "Black-Scholes: a third size",
    "peak": "peak memory after Black-Scholes, MB",
}


def environment(bytecode: str) -> dict[str, str]:
    """What every process sees: float64 in JAX, and a place of our own for bytecode, which `figure` fills first.

    An installed package has its bytecode beside it; a checkout may not, for example under PYTHONDONTWRITEBYTECODE.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "JAX_ENABLE_X64": "1", "PYTHONPYCACHEPREFIX": bytecode}


def once(framework: str, program: str, environment: dict[str, str]) -> float | str:
    """CPU milliseconds (for `peak` megabytes) of one fresh process, or why there is no figure."""
    command = [sys.executable, "-m", "benchmarks.fresh", framework, program]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"over {TIME_LIMIT:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        print(f"    {framework} {program}: {lines[-1] if lines else done.returncode}", flush=True)
        return "failed"
    return float(json.loads(done.stdout.splitlines()[-1]))


def figure(framework: str, program: str, bytecode: str) -> float | str:
    """Median of several processes after one that only writes bytecode."""
    values: list[float] = []
    for _ in range(1 + REPEATS):
        match once(framework, program, environment(bytecode)):
            case str(reason):
                return reason
            case value:
                values.append(value)
    return statistics.median(values[1:])


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def measure(frameworks: Sequence[str], programs: Sequence[str] = tuple(PROGRAMS)) -> str:
    """The table, printed row by row as it grows."""
    lines = ["| program | " + " | ".join(frameworks) + " |", "|---|" + "---|" * len(frameworks)]
    with tempfile.TemporaryDirectory(prefix="benchmark-bytecode-") as bytecode:
        for program in programs:
            cells = [shown(figure(framework, program, bytecode)) for framework in frameworks]
            lines.append(f"| {PROGRAMS[program]} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return "\n".join(lines)
