"""Whole functions on a device of each driver against NumPy, and their derivatives against the CPU's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.grid import GridSchedule, bind_grid
from tracejit.ir.kernel import Barrier, walk


def normal(*shape: int, dtype: str = "f4", seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: str = "i4", low: int = -50, high: int = 50) -> np.ndarray:
    return np.random.default_rng(2).integers(low, high, shape).astype(dtype)


def mandelbrot(re: Any, im: Any) -> Any:
    x = y = inside = np.zeros((len(im), len(re)))
    for _ in range(20):
        x, y = x * x - y * y + re, 2 * x * y + im[:, None]
        inside = inside + (x * x + y * y < 4)
        x, y = np.clip(x, -4, 4), np.clip(y, -4, 4)
    return inside


def collatz(start: Any) -> Any:
    n, steps = start, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps = steps + 1
    return steps


def smooth(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


def branches(x: Any, limit: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        if x[i] > limit:
            total += x[i]
        elif x[i] < -limit:
            total -= 1.0
        else:
            total += 0.25
    return total


def histogram(at: Any, weight: Any) -> Any:
    counts = np.zeros(10, weight.dtype)
    np.add.at(counts, at, weight)
    return counts


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    m = x.mean(axis=-1, keepdims=True)
    v = ((x - m) ** 2).mean(axis=-1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * scale + shift


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def power_iteration(a: Any, v: Any) -> Any:
    for _ in range(8):
        w = a @ v
        v = w / np.sqrt((w * w).sum())
    return v


X, Y, V = normal(30, 40), normal(30, 40, seed=3), normal(300)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add one": (lambda x: x + 1, (X,)),
    "broadcasting": (lambda x, y: x * y[:, None] - y[3], (X, normal(30))),
    "polynomial": (lambda x: ((x * 0.5 + 1) * x - 2) * x, (X,)),
    "elementary": (lambda x: np.exp(-x * x) * np.sin(3 * x) + np.log1p(np.abs(x)), (X,)),
    "elementary in f64": (lambda x: np.tanh(x) + np.arctan2(x, 2.0) + np.cbrt(x), (normal(200, dtype="f8"),)),
    "powers": (lambda x: np.abs(x) ** 1.5 + x**3 + np.sqrt(np.abs(x)), (X,)),
    "half precision": (lambda x: x * x + x / 3, (normal(100, dtype="f2"),)),
    "comparisons": (lambda x, y: (x < y) | (x == 0) & ~(y > 1), (X, Y)),
    "where": (lambda x, y: np.where(x > y, x, -y), (X, Y)),
    "clip and sign": (lambda x: np.clip(x, -0.5, 0.5) + np.sign(x), (X,)),
    "rounding": (lambda x: np.floor(x) + np.ceil(x * 2) + np.trunc(x * 3) + np.rint(x * 4), (X,)),
    "integers": (lambda x, y: x // y + x % y + (x & y) - (x ^ y), (integers(99), integers(99, low=1))),
    "bytes": (lambda x: x * x + (x >> 1), (integers(99, dtype="i1"),)),
    "unsigned": (lambda x: x * x // 3 + (x << 3), (integers(99, dtype="u8", low=0),)),
    "conversions": (lambda x: x.astype(np.int16).astype(np.float64) + (x > 0).astype(np.uint8), (X * 9,)),
    "sum": (lambda x: x.sum(), (X,)),
    "sums of rows": (lambda x: x.sum(axis=1), (X,)),
    "sums of columns": (lambda x: x.sum(axis=0), (normal(3000, 7),)),
    "extrema": (lambda x: (x.max(axis=0), x.min(), x.argmax(axis=1), x.argmin()), (X,)),
    "mean and deviation": (lambda x: (x.mean(axis=0), x.std(axis=1), x.var()), (X,)),
    "any and all": (lambda x: ((x > 2).any(axis=0), (x > -9).all()), (X,)),
    "products": (lambda x: (x * 0.1 + 1).prod(axis=1), (X,)),
    "softmax": (softmax, (X,)),
    "layer norm": (layer_norm, (X, normal(40), normal(40, seed=5))),
    "cumsum": (lambda x: np.cumsum(x), (normal(5000, dtype="f8"),)),
    "cumsum of rows": (lambda x: np.cumsum(x, axis=1), (X,)),
    "matmul": (lambda x, y: x @ y.T, (X, Y)),
    "matmul and bias": (lambda x, y: np.maximum(x @ y.T + y[:, 0], 0), (X, Y)),
    "matrix and vector": (lambda x, y: x @ y, (X, normal(40))),
    "einsum": (lambda x, y: np.einsum("ij,kj->ik", x, y), (X, Y)),
    "outer and dot": (lambda x: (np.outer(x, x), x @ x), (V,)),
    "views": (lambda x: x[::2, ::-1] + x[1::2, :], (X,)),
    "transposes and joins": (lambda x, y: np.concatenate([x.T, y.T], axis=1), (X, Y)),
    "gathers": (lambda x, at: x[at] + x[-1], (X, integers(50, low=0, high=30))),
    "scatters": (histogram, (integers(500, low=0, high=10), normal(500))),
    "masks": (lambda x: x[x > 0].sum(), (X,)),
    "sorted places": (lambda x: np.nonzero(x > 1)[0], (V,)),
    "differences": (lambda x: np.diff(x) + np.roll(x, 1)[1:], (V,)),
    "padding": (lambda x: np.pad(x, 2), (X,)),
    "a loop over arrays": (power_iteration, (normal(20, 20), normal(20))),
    "a loop over elements": (smooth, (V,)),
    "a loop with branches": (branches, (V, np.float32(0.7))),
    "a while loop": (collatz, (27,)),
    "counts": (mandelbrot, (np.linspace(-2, 1, 30), np.linspace(-1, 1, 20))),
    "strided arguments": (lambda x: x * 2, (X[::3, ::-2],)),
    "nothing": (lambda x: x + 1, (np.zeros((0, 3), "f4"),)),
    "scalars": (lambda x, n: x * n + 1, (2.5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_numpy_gives(driver: str, name: str):
    function, arguments = FUNCTIONS[name]
    got, want = tj.jit(function, backend=driver)(*arguments), function(*arguments)
    for g, w in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "f":
            eps = np.finfo(w.dtype).eps
            np.testing.assert_allclose(g, w, rtol=64 * eps, atol=64 * eps * max(1, np.abs(w).max(initial=0)))
        else:
            np.testing.assert_array_equal(g, w)


SCALARS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: (softmax(x) * Y).sum(),
    "layer norm": lambda x: layer_norm(x, Y[0], Y[1])[0].sum(),
    "matmul": lambda x: np.tanh(x @ Y.T).sum(),
    "cumsum": lambda x: (np.cumsum(x, axis=1) ** 2).mean(),
    "gathers": lambda x: (x[np.array([1, 1, 2])] ** 3).sum(),
    "a loop": lambda x: power_iteration(x[:, :30], Y[:, 0])[0],
}


@pytest.mark.parametrize("name", SCALARS)
def test_a_gradient_is_that_of_the_cpu(driver: str, name: str):
    function = SCALARS[name]
    for transform in (tj.grad, lambda f: lambda x: tj.jvp(f, (x,), (Y,))[1]):
        there, here = (tj.jit(transform(function), backend=b)(X) for b in (driver, "cpu"))
        np.testing.assert_allclose(there, here, rtol=2e-4, atol=2e-5)


def test_vmap_over_functions_with_loops_and_branches(driver: str):
    for function, arguments in (
        (smooth, (X,)),
        (lambda x: branches(x, 0.7), (X,)),
        (lambda n: collatz(n), (np.arange(1, 40),)),
    ):
        got = tj.jit(tj.vmap(function), backend=driver)(*arguments)
        want = np.stack([function(*rows) for rows in zip(*arguments, strict=True)])
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_extents_are_symbols_of_one_program(driver: str):
    f = tj.jit(lambda x: np.cumsum(softmax(x), axis=1), backend=driver, dynamic_shapes=True)
    for rows, columns in ((2, 3), (30, 40), (7, 500)):
        x = normal(rows, columns)
        np.testing.assert_allclose(f(x), np.cumsum(softmax(x), axis=1), rtol=1e-5)


STAGED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda a, b: np.tanh(a @ b.T) + b[:, 0], (normal(70, 100), normal(50, 100, seed=2))),
    "batch of products": (lambda a, b: np.einsum("hik,hkj->hij", a, b), (normal(2, 40, 33), normal(2, 33, 65, seed=2))),
    "gradient": (tj.grad(lambda a, b: ((a @ b) ** 2).sum()), (normal(40, 48), normal(48, 36, seed=2))),
    "transposed": (lambda x: x.T * 2 + np.arange(64), (normal(64, 90),)),
    "axes turned": (lambda x: np.transpose(x, (2, 0, 1)) + 1, (normal(40, 3, 50),)),
    "running sums of rows": (lambda x: np.cumsum(x, axis=1), (normal(3, 700),)),
    "a long running sum": (lambda x: np.cumsum(x), (normal(6000),)),
}


@pytest.mark.parametrize(
    "driver",  # a processor's OpenCL has schedules of its own
    [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("cuda", "vulkan")],
    indirect=True,
)
@pytest.mark.parametrize("name", STAGED)
def test_functions_whose_groups_keep_parts_in_shared_memory(
    device: Any, driver: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    """As on a GPU, with small tiles."""
    schedule = GridSchedule(work_group=64, groups=8, jam=4, stage=32, shares=8)
    monkeypatch.setattr(device, "default_schedule", schedule)
    function, arguments = STAGED[name]
    launched: list[Any] = []
    compile_kernels = device.compile_kernels
    monkeypatch.setattr(
        device, "compile_kernels", lambda kernels, *rest: launched.extend(kernels) or compile_kernels(kernels, *rest)
    )
    compiled = tj.jit(function, backend=driver)
    got, want = compiled(*arguments), tj.jit(function)(*[x.astype("f8") for x in arguments])
    scale = np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * scale)
    bound = [launch.kernel for k in launched for launch in bind_grid(k, schedule).launches]
    assert any(isinstance(s, Barrier) for k in bound for s in walk(k.body))
