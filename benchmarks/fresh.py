"""One figure of one framework, measured in this process, which was started for nothing else. Prints it as the last
line.

Only what the measured framework loads anyway is imported before the clock starts.
"""

import itertools
import sys
import time
from typing import Any

import numpy as np


def load(framework: str) -> None:
    if framework != "numpy":
        __import__(framework)


def finite_differences(f, argnums):
    """What is right for a gradient by central differences, to about 1e-9."""

    def gradient(*args):
        found = []
        for k in argnums:
            out = np.empty_like(args[k])
            for place in np.ndindex(out.shape):
                ends = []
                for step in (1e-5, -1e-5):
                    moved = args[k].copy()
                    moved[place] += step
                    ends.append(f(*args[:k], moved, *args[k + 1 :]))
                out[place] = (ends[0] - ends[1]) / 2e-5
            found.append(out)
        return found

    return gradient


def compile_with(framework: str, source: str, name: str):
    """The function `name` of `source`, jitted. `np` in it is `jax.numpy` for JAX."""
    scope: dict[str, Any] = {"np": np, "gradient": finite_differences}
    if framework == "jax":
        import jax

        scope.update(np=jax.numpy, gradient=jax.grad)
    elif framework == "tracejit":
        import tracejit

        scope["gradient"] = tracejit.grad
    # A file that can be read back, as a user's function has: error messages and Numba look for the source.
    import linecache

    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), scope)
    function = scope[name]
    match framework:
        case "numpy":
            return function
        case "jax":
            return jax.jit(function)
        case "numba":
            import numba

            return numba.njit(function)
        case "tracejit":
            import tracejit

            return tracejit.jit(function)
    raise SystemExit(f"unknown framework {framework}")


BLACK_SCHOLES = """
def normal_cdf(x):
    t = 1 / (1 + 0.2316419 * np.abs(x))
    tail = 0.3989422804014327 * np.exp(-0.5 * x * x)
    tail = tail * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.where(x < 0, tail, 1 - tail)

def black_scholes(s, k, t, r, v):
    spread = v * np.sqrt(t)
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / spread
    return s * normal_cdf(d1) - k * np.exp(-r * t) * normal_cdf(d1 - spread)
"""


# The gradient of the loss of a network with two hidden layers; `gradient` is the framework's.
MLP = """
def loss(w1, b1, w2, b2, w3, b3, x, y):
    h = np.tanh(x @ w1 + b1)
    h = np.tanh(h @ w2 + b2)
    p = h @ w3 + b3
    return np.mean((p - y) ** 2)

mlp = gradient(loss, (0, 1, 2, 3, 4, 5))
"""

# A block of a residual network: convolutions as sums of shifted products, normalisation over the batch.
RESIDUAL_BLOCK = """
def convolve(x, w):
    n, h, v, _ = x.shape
    k = w.shape[0]
    padded = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    total = 0
    for i in range(k):
        for j in range(k):
            total = total + padded[:, i:i + h, j:j + v] @ w[i, j]
    return total

def normalise(x):
    mean = np.mean(x, axis=(0, 1, 2), keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, axis=(0, 1, 2), keepdims=True) + 1e-5)

def residual_block(x, w1, w2, w3):
    y = np.maximum(normalise(convolve(x, w1)), 0)
    y = np.maximum(normalise(convolve(y, w2)), 0)
    return np.maximum(normalise(convolve(y, w3)) + x, 0)
"""

# A loop that Python unrolls: steps of Runge and Kutta's method on three numbers.
UNROLLED = """
def slope(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6666666666666665 * z

def unrolled(x, y, z, h):
    for _ in range(STEPS):
        a, b, c = slope(x, y, z)
        d, e, f = slope(x + h / 2 * a, y + h / 2 * b, z + h / 2 * c)
        g, i, j = slope(x + h / 2 * d, y + h / 2 * e, z + h / 2 * f)
        k, l, m = slope(x + h * g, y + h * i, z + h * j)
        x = x + h / 6 * (a + 2 * d + 2 * g + k)
        y = y + h / 6 * (b + 2 * e + 2 * i + l)
        z = z + h / 6 * (c + 2 * f + 2 * j + m)
    return x, y, z
"""


def mlp_arguments():
    rng = np.random.default_rng(5)
    sizes = [32, 64, 64, 8]
    pairs = [(rng.standard_normal((m, n)) / np.sqrt(m), rng.standard_normal(n)) for m, n in itertools.pairwise(sizes)]
    return [*itertools.chain(*pairs), rng.standard_normal((128, 32)), rng.standard_normal((128, 8))]


def block_arguments():
    rng = np.random.default_rng(6)
    return [rng.standard_normal((4, 14, 14, 16)), *[rng.standard_normal((k, k, 16, 16)) / (4 * k) for k in (1, 3, 1)]]


# Numba compiles a loop over scalars several times faster than array expressions, so that is what it is given.
NUMBA_BLACK_SCHOLES = """
import math
import numba

@numba.njit
def normal_cdf(x):
    t = 1 / (1 + 0.2316419 * abs(x))
    tail = 0.3989422804014327 * math.exp(-0.5 * x * x)
    tail = tail * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return tail if x < 0 else 1 - tail

def black_scholes(s, k, t, r, v):
    out = np.empty_like(s)
    for i in range(s.size):
        spread = v[i] * math.sqrt(t[i])
        d1 = (math.log(s[i] / k[i]) + (r[i] + v[i] * v[i] / 2) * t[i]) / spread
        out[i] = s[i] * normal_cdf(d1) - k[i] * math.exp(-r[i] * t[i]) * normal_cdf(d1 - spread)
    return out
"""


def numba_straight_line(source: str) -> str:
    """The straight line inside a loop over the elements."""
    head, *lines, last = source.replace("np.abs", "abs").replace("np.minimum", "min").rstrip().splitlines()
    body = ["    " + line for line in lines]
    result = last.removeprefix("    return ")
    start = [
        "    out = np.empty_like(left)",
        "    for i in range(left.size):",
        "        a = left[i]",
        "        b = right[i]",
    ]
    return "\n".join(
        [head.replace("a, b", "left, right"), *start, *body, f"        out[i] = {result}", "    return out", ""]
    )


def straight_line(operations: int) -> str:
    """A function of that many operations, one a line, none of which can be left out; the values stay small."""
    rng = np.random.default_rng(1)
    lines = ["def straight(a, b):", "    x0 = a + b"]
    for i in range(1, operations):
        last, earlier = i - 1, max(0, i - 2 - int(rng.integers(0, 6)))
        match int(rng.integers(0, 5)):
            case 0:
                lines.append(f"    x{i} = x{last} * {rng.uniform(0.3, 0.7):.6f}")
            case 1:
                lines.append(f"    x{i} = x{last} + a")
            case 2:
                lines.append(f"    x{i} = b - x{last}")
            case 3:
                lines.append(f"    x{i} = np.abs(x{last})")
            case _:
                lines.append(f"    x{i} = np.minimum(x{last}, x{earlier})")
    return "\n".join([*lines, f"    return x{operations - 1}", ""])


def wait(result):
    if isinstance(result, (tuple, list)):
        return [wait(x) for x in result]
    return result.block_until_ready() if hasattr(result, "block_until_ready") else result


def options(n: int):
    rng = np.random.default_rng(3)
    return [rng.uniform(low, high, n) for low, high in [(50, 150), (50, 150), (0.1, 2), (0.0, 0.05), (0.1, 0.6)]]


def check(got, want) -> None:
    gots, wants = (got, want) if isinstance(got, (tuple, list)) else ([got], [want])
    if not all(np.allclose(np.asarray(g), w, rtol=1e-8, atol=1e-8) for g, w in zip(gots, wants, strict=True)):
        raise SystemExit("wrong result")


def first_call(framework: str, source: str, name: str, args: list, plain: str | None = None) -> float:
    """CPU milliseconds from the decorator to the first result, checked against `plain`, or the same source,
    run by NumPy.
    """
    started = time.process_time()
    function = compile_with(framework, source, name)
    got = wait(function(*args))
    spent = (time.process_time() - started) * 1e3
    check(got, compile_with("numpy", plain or source, name)(*args))
    return spent


def second_call(framework: str, source: str, name: str, args: list, plain: str | None = None) -> float:
    """As `first_call`, of a function that is not the first one of its process."""
    wait(compile_with(framework, "def x_plus_1(x):\n    return x + 1\n", "x_plus_1")(np.arange(10.0)))
    return first_call(framework, source, name, args, plain)


def later_size(framework: str, source: str, which: int) -> float:
    """CPU milliseconds of the first call at the `which`-th size."""
    function = compile_with(framework, source, "black_scholes")
    sizes = [10_000, 12_345, 9_001][:which]
    for n in sizes[:-1]:
        wait(function(*options(n)))
    args = options(sizes[-1])
    started = time.process_time()
    got = wait(function(*args))
    spent = (time.process_time() - started) * 1e3
    check(got, compile_with("numpy", BLACK_SCHOLES, "black_scholes")(*args))
    return spent


def peak_megabytes() -> float:
    """The most memory this process had; `ru_maxrss` counts that of the process which started it too,
    so Linux is asked elsewhere.
    """
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def figure(framework: str, program: str) -> float:
    started = time.process_time()
    load(framework)
    if program == "import":
        return (time.process_time() - started) * 1e3
    priced = NUMBA_BLACK_SCHOLES if framework == "numba" else BLACK_SCHOLES
    match program:
        case "x_plus_1":
            return first_call(framework, "def x_plus_1(x):\n    return x + 1\n", "x_plus_1", [np.arange(10.0)])
        case "black_scholes":
            return first_call(framework, priced, "black_scholes", options(10_000), BLACK_SCHOLES)
        case "straight_2000" | "straight_10000":
            source = straight_line(int(program.removeprefix("straight_")))
            spelled = numba_straight_line(source) if framework == "numba" else source
            return first_call(
                framework, spelled, "straight", [np.linspace(-1, 1, 1000), np.linspace(0, 1, 1000)], source
            )
        case "second_black_scholes":
            return second_call(framework, priced, "black_scholes", options(10_000), BLACK_SCHOLES)
        case "mlp_gradient":
            return second_call(framework, MLP, "mlp", mlp_arguments())
        case "residual_block":
            return second_call(framework, RESIDUAL_BLOCK, "residual_block", block_arguments())
        case "unrolled_50" | "unrolled_100" | "unrolled_200":
            source = UNROLLED.replace("STEPS", program.removeprefix("unrolled_"))
            return second_call(framework, source, "unrolled", [1.0, 2.0, 3.0, 1e-3])
        case "second_size" | "third_size":
            return later_size(framework, priced, 2 if program == "second_size" else 3)
        case "peak":
            first_call(framework, priced, "black_scholes", options(10_000), BLACK_SCHOLES)
            return peak_megabytes()
    raise SystemExit(f"unknown program {program}")


if __name__ == "__main__":
    print(figure(sys.argv[1], sys.argv[2]))
