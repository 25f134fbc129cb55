"""tracejit on an OpenCL device beside JAX on the same card: bandwidth, launches, products, rows, scans, small steps.

    python -m benchmarks.gpu [--scale 0.01] [--peer PYTHON] [--json FILE] [ROW ...]

The device is the one that TRACEJIT_OPENCL_DEVICE names. JAX runs in a process of its own, under the Python given by
--peer; where that is left out there is no peer. Arguments lie on the device, runs are queued and the last one is waited
for (where the row says so, each), and the two take turns. Before a time counts, the result is compared with NumPy's in
float64. --scale shrinks the arrays, to try the script on a device without much memory.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 7  # turns of each side; a figure is the median
TURN_SECONDS = 0.05  # a turn repeats the run for about this long
REPEAT = 1_000_003  # random numbers of an array before they come again
TOLERANCE = 1e-4  # of the norm of the difference over that of the result: float32 sums in any sensible order

Function = Callable[..., Any]
Loop = Callable[[int, int, Callable[[Any, Any], Any], Any], Any]


@frozen
class Row:
    """A workload: extents at scale 1, arguments for them, and a function written with a module like NumPy and a loop.

    moved: the bytes that must be read and written.  flops: what must be computed.  steps: launches that a run needs.
    fixed: extents do not shrink.  precise: JAX's products in float32, not in TF32.  waits: for each run.
    """

    name: str
    extents: tuple[int, ...]
    build: Callable[[Any, Loop], Function]
    moved: Callable[[tuple[int, ...]], float]
    flops: Callable[[tuple[int, ...]], float] = lambda _: 0.0
    steps: int = 0
    arguments: int = 1
    dtype: str = "f4"
    fixed: bool = False
    precise: bool = True
    waits: bool = False

    def extents_at(self, scale: float) -> tuple[int, ...]:
        if self.fixed:
            return self.extents
        return tuple(max(16, round(n * scale ** (1 / len(self.extents)))) for n in self.extents)

    def arrays(self, scale: float) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.name))
        shape = self.extents_at(scale)
        return [np.resize(rng.standard_normal(REPEAT), shape).astype(self.dtype) for _ in range(self.arguments)]


def over_rows(xp: Any, loop: Loop) -> Function:
    def softmax(x: Any) -> Any:
        e = xp.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return softmax


def layernorm(xp: Any, loop: Loop) -> Function:
    def normalised(x: Any) -> Any:
        d = x - x.mean(axis=1, keepdims=True)
        return d / xp.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)

    return normalised


def black_scholes(xp: Any, loop: Loop) -> Function:
    def normal_cdf(x: Any) -> Any:
        return 0.5 + 0.5 * xp.tanh(0.7978845608 * (x + 0.044715 * x * x * x))

    def price(a: Any, b: Any) -> Any:
        spot, strike = 100 * xp.exp(0.2 * a), 100 * xp.exp(0.2 * b)
        spread = 0.25
        d1 = (xp.log(spot / strike) + 0.03 + spread * spread / 2) / spread
        return spot * normal_cdf(d1) - strike * 0.97 * normal_cdf(d1 - spread)

    return price


def heat(xp: Any, loop: Loop) -> Function:
    def step(_: Any, u: Any) -> Any:
        around = xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1)
        return u + 0.1 * (around - 4 * u)

    return lambda u: loop(0, 1000, step, u)


def size(n: tuple[int, ...]) -> float:
    return float(math.prod(n))


ROWS = [
    Row("x + 1", (10,), lambda xp, loop: lambda x: x + 1, lambda n: 0, steps=1, fixed=True),
    Row("x + 1, each waited for", (10,), lambda xp, loop: lambda x: x + 1, lambda n: 0, steps=1, fixed=True,
        waits=True),
    Row("2 x + y", (1 << 27,), lambda xp, loop: lambda x, y: 2 * x + y, lambda n: 12 * size(n), arguments=2),
    Row("2 x + y, float64", (1 << 26,), lambda xp, loop: lambda x, y: 2 * x + y, lambda n: 24 * size(n), arguments=2,
        dtype="f8"),
    Row("Black-Scholes", (1 << 25,), black_scholes, lambda n: 12 * size(n), arguments=2),
    Row("sum of all", (1 << 26,), lambda xp, loop: lambda x: x.sum(), lambda n: 4 * size(n)),
    Row("sum of columns", (8192, 4096), lambda xp, loop: lambda x: x.sum(axis=0), lambda n: 4 * size(n)),
    Row("sum of rows", (8192, 4096), lambda xp, loop: lambda x: x.sum(axis=1), lambda n: 4 * size(n)),
    Row("softmax of rows", (8192, 4096), over_rows, lambda n: 8 * size(n)),
    Row("layer normalisation", (8192, 4096), layernorm, lambda n: 8 * size(n)),
    Row("running sum", (1 << 26,), lambda xp, loop: lambda x: xp.cumsum(x), lambda n: 8 * size(n)),
    Row("running sum of rows", (8192, 4096), lambda xp, loop: lambda x: xp.cumsum(x, axis=1), lambda n: 8 * size(n)),
    Row("transposed copy", (8192, 8192), lambda xp, loop: lambda x: x.T + 1, lambda n: 8 * size(n)),
    Row("product", (4096, 4096), lambda xp, loop: lambda a, b: a @ b, lambda n: 12 * size(n),
        flops=lambda n: 2.0 * n[0] ** 3, arguments=2),
    Row("product, JAX in TF32", (4096, 4096), lambda xp, loop: lambda a, b: a @ b, lambda n: 12 * size(n),
        flops=lambda n: 2.0 * n[0] ** 3, arguments=2, precise=False),
    Row("1000 steps of heat, 64 x 64", (64, 64), heat, lambda n: 0, steps=1000, fixed=True),
]  # fmt: skip


def python_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], x: Any) -> Any:
    for i in range(lower, upper):
        x = body(i, x)
    return x


def expected(row: Row, arrays: list[np.ndarray]) -> np.ndarray:
    """NumPy's result in float64."""
    return row.build(np, python_loop)(*(a.astype("f8") for a in arrays))


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """Of the norms; NaN where the result has one."""
    return float(np.linalg.norm(np.ravel(got.astype("f8") - want)) / np.linalg.norm(np.ravel(want)))


def turn(run: Callable[[], Any], wait: Callable[[Any], Any], waits: bool = False) -> float:
    """Seconds a run, over about TURN_SECONDS.  wait: for what a run gave, and all before it."""
    wait(run())
    started = time.perf_counter()
    wait(run())
    once = max(time.perf_counter() - started, 1e-7)
    count = max(1, min(10_000, round(TURN_SECONDS / once)))
    last = None
    started = time.perf_counter()
    for _ in range(count):
        last = run()
        if waits:
            wait(last)
    wait(last)
    return (time.perf_counter() - started) / count


@frozen
class Side:
    """A row made ready by one side: the run, the wait for what it gave, and the result of one."""

    run: Callable[[], Any]
    wait: Callable[[Any], Any]
    result: Callable[[], np.ndarray]
    notes: dict[str, float] = field(factory=dict[str, float])


def ours(row: Row, arrays: list[np.ndarray]) -> Side:
    import tracejit as tj

    f = tj.jit(row.build(np, tj.lax.fori_loop), backend="opencl")
    started = time.perf_counter()
    compiled: Any = f.lower(*arrays).compile()
    notes = {"compile": time.perf_counter() - started}
    run: Callable[[], Any] = compiled.queued(arrays, {})
    wait = compiled.device.synchronize
    return Side(run, lambda _: wait(), lambda: np.asarray(compiled.run(arrays, {})[0]), notes)


def of_jax(row: Row, arrays: list[np.ndarray]) -> Side:
    import jax

    jax.config.update("jax_enable_x64", row.dtype == "f8")
    jax.config.update("jax_default_matmul_precision", "highest" if row.precise else None)
    f = jax.jit(row.build(jax.numpy, jax.lax.fori_loop))
    given = [jax.device_put(a) for a in arrays]
    started = time.perf_counter()
    jax.block_until_ready(f(*given))
    notes = {"compile": time.perf_counter() - started}
    return Side(lambda: f(*given), lambda x: x.block_until_ready(), lambda: np.asarray(f(*given)), notes)


def serve(scale: float) -> None:
    """JAX's process: a row's name makes it ready, "turn" times it."""
    import jax

    print(json.dumps({"jax": jax.__version__, "device": str(jax.devices()[0])}), flush=True)
    side: Side | None = None
    row = ROWS[0]
    for line in sys.stdin:
        command = json.loads(line)
        if command == "turn" and side is not None:
            print(json.dumps(turn(side.run, side.wait, row.waits)), flush=True)
            continue
        side = None
        row = next(r for r in ROWS if r.name == command)
        arrays = row.arrays(scale)
        try:
            side = of_jax(row, arrays)
            error = distance(side.result(), expected(row, arrays))
            print(json.dumps({"error": error, **side.notes}), flush=True)
        except Exception as failure:  # the row says so
            print(json.dumps({"failure": f"{type(failure).__name__}: {failure}"[:300]}), flush=True)


class Peer:
    """The other process."""

    def __init__(self, python: str, scale: float) -> None:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment = kept | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.gpu", "--serve", "--scale", str(scale)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.about = self.answer()

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def copy_bandwidth(scale: float) -> dict[str, float]:
    """Bytes a second that a copy on the device reads and writes."""
    from tracejit.backends.registry import get_backend

    device: Any = get_backend("opencl")
    device = device.device
    nbytes = max(1 << 16, round((1 << 30) * scale))
    source, target = (device.from_host(np.full(nbytes, k, np.uint8)) for k in (1, 2))

    device.copy(source, target)
    assert (device.to_host(target, "u1", (nbytes,)) == 1).all()
    seconds = statistics.median(
        turn(lambda: device.copy(source, target), lambda _: device.synchronize()) for _ in range(ROUNDS)
    )
    return {"bytes": nbytes, "seconds": seconds, "bandwidth": 2 * nbytes / seconds}


def whole_call() -> dict[str, float]:
    """Seconds of a cached call from NumPy to NumPy: the argument goes to the device, the result comes back."""
    import tracejit as tj

    f, x = tj.jit(lambda x: x + 1, backend="opencl"), np.ones(10, np.float32)
    for _ in range(50):
        f(x)
    return {"seconds": statistics.median(turn(lambda: f(x), lambda y: y) for _ in range(ROUNDS))}


def compared(row: Row, scale: float, peer: Peer | None) -> dict[str, Any]:
    """The figures of a row; a side that fails, or is wrong, has the reason instead."""
    arrays = row.arrays(scale)
    extents = row.extents_at(scale)
    found: dict[str, Any] = {"extents": extents, "bytes": row.moved(extents), "flops": row.flops(extents)}
    turns: dict[str, Callable[[], float]] = {}
    try:
        side = ours(row, arrays)
        found["tracejit"] = {"error": distance(side.result(), expected(row, arrays)), **side.notes}
        turns["tracejit"] = lambda: turn(side.run, side.wait, row.waits)
    except Exception as failure:  # the row says so
        found["tracejit"] = {"failure": f"{type(failure).__name__}: {failure}"[:300]}
    if peer is not None:
        found["jax"] = peer.ask(row.name)
        turns["jax"] = lambda: peer.ask("turn")
    limit = TOLERANCE if row.precise or row.dtype == "f8" else 1e-2
    for name in list(turns):
        if not found[name].get("error", np.nan) <= (limit if name == "jax" else TOLERANCE):
            del turns[name]
    samples: dict[str, list[float]] = {name: [] for name in turns}
    for n in range(ROUNDS):
        for name, run in list(turns.items())[:: 1 if n % 2 else -1]:
            samples[name].append(run())
    for name, times in samples.items():
        found[name] |= {"seconds": statistics.median(times), "fastest": min(times), "slowest": max(times)}
    return found


def reading(row: Row, found: dict[str, Any], copy: float) -> str:
    """A line of the table."""
    cells = [f"{row.name} {' x '.join(map(str, found['extents']))}"]
    ours, theirs = found["tracejit"], found.get("jax", {})
    for side in (ours, theirs):
        if "seconds" not in side:
            cells.append(side.get("failure") or (f"wrong by {side['error']:.1e}" if "error" in side else "-"))
        else:
            cells.append(duration(side["seconds"]) + rate(row, found, side["seconds"], copy))
    both = "seconds" in ours and "seconds" in theirs
    cells.append(f"{ours['seconds'] / theirs['seconds']:.2f}" if both else "-")
    return "| " + " | ".join(cells) + " |"


def duration(seconds: float) -> str:
    unit, factor = next((u, f) for u, f in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if seconds >= f or u == "µs")
    return f"{seconds / factor:.3g} {unit}"


def rate(row: Row, found: dict[str, Any], seconds: float, copy: float) -> str:
    if found["flops"]:
        return f" ({found['flops'] / seconds / 1e12:.2f} TFLOP/s)"
    if found["bytes"]:
        bandwidth = found["bytes"] / seconds
        return f" ({bandwidth / 1e9:.0f} GB/s, {bandwidth / copy:.2f} of a copy)"
    return f" ({duration(seconds / row.steps)} a step)" if row.steps > 1 else ""


def main() -> None:
    """Print the table, one line a row as it is found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--peer", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve(options.scale)
        return
    from tracejit.backends.registry import get_backend

    target = get_backend("opencl").target()
    peer = Peer(options.peer, options.scale) if options.peer else None
    about = {
        "device": target.device, "driver": target.driver, "python": sys.version.split()[0], "numpy": np.__version__,
        "date": time.strftime("%Y-%m-%d"), "peer": peer.about if peer else None,
    }  # fmt: skip
    results: dict[str, Any] = {"about": about, "copy": copy_bandwidth(options.scale), "call": whole_call(), "rows": {}}
    print(about)
    copy = results["copy"]["bandwidth"]
    print(f"copy {copy / 1e9:.0f} GB/s; a call from NumPy to NumPy {duration(results['call']['seconds'])}")
    print("| | tracejit | JAX | ratio |\n|---|---|---|---|")
    for row in ROWS:
        if options.rows and not any(wanted in row.name for wanted in options.rows):
            continue
        results["rows"][row.name] = found = compared(row, options.scale, peer)
        print(reading(row, found, copy), flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
