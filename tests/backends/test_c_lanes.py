"""Kernels written with OpenCL's vector types, as on processors, at every width and against NumPy;
and the same programs with work-items, as on GPUs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators import expressions
from tests.generators.harness import Tally
from tracejit.backends.base import Backend
from tracejit.backends.opencl.backend import OpenCLBackend
from tracejit.backends.registry import temporary_backend
from tracejit.support.nodes import evolve

SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 130, 1000)


@pytest.fixture(params=[0, 128, 256, 512])
def wide(request: pytest.FixtureRequest, opencl_device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The name of a backend whose kernels have vectors of so many bits; 0: work-items."""
    bits = request.param
    if not opencl_device.capabilities.clang_builtins and bits:
        pytest.fail("this OpenCL device is not PoCL on a processor with fused multiply-add")
    monkeypatch.setattr(opencl_device, "capabilities", evolve(opencl_device.capabilities, vector_bits=bits))
    monkeypatch.setattr(opencl_device, "cores", bits > 0)
    made: Backend = OpenCLBackend()
    with temporary_backend(made) as name:
        yield name


def agree(f: Callable[..., Any], *args: Any, wide: str, rtol: float = 1e-12) -> None:
    """The same as plain Python on NumPy, of results and of arguments that are changed."""
    mine, theirs = [np.array(a) for a in args], [np.array(a) for a in args]
    with np.errstate(all="ignore"):
        want = f(*theirs)
    found = tj.jit(f, backend=wide)(*mine)
    several = zip(found, want, strict=True) if isinstance(want, tuple) else [] if want is None else [(found, want)]
    for g, w in (*several, *zip(mine, theirs, strict=True)):
        assert np.shape(g) == np.shape(w)
        assert np.asarray(g).dtype == np.asarray(w).dtype
        np.testing.assert_allclose(np.asarray(g), w, rtol=rtol, atol=rtol)


def floats(n: int, dtype: str = "f8", seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(n) * 3).astype(dtype)


def test_the_text_has_vectors_of_that_length(wide: str, opencl_device: Any):
    bits = opencl_device.capabilities.vector_bits
    text = tj.jit(lambda x: np.exp(x) * 2, backend=wide).lower(floats(100, "f4")).text("code")
    assert (f"float{bits // 32} " in text) is (bits > 0)


def test_every_remainder_of_a_vector(wide: str):
    f = tj.jit(lambda x: (x * 2 + 1, x.sum(), np.cumsum(x), x[::-1] - x, x > 0), backend=wide)
    for n in SIZES:
        for dtype in ("f8", "f4"):
            x = floats(n, dtype)
            for g, w in zip(f(x), (x * 2 + 1, x.sum(), np.cumsum(x), x[::-1] - x, x > 0), strict=True):
                np.testing.assert_allclose(np.asarray(g), w, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-5)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_of_every_width(dtype: str, wide: str):
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 101, dtype, endpoint=True)
    y = rng.integers(0, 9, 101).astype(dtype)

    def f(x: Any, y: Any) -> Any:
        return (
            (x + y, x - y, x * y, x & y, x | y, x ^ y, ~x, -x, np.abs(x)),
            (x << y, x >> y, x // y, x % y, np.minimum(x, y), np.maximum(x, y)),
            (x < y, x >= y, x == y, np.where(x > y, x, y), x.astype("f4"), x.astype("i2"), x.astype(bool)),
            (x.sum(), x.max(), x.argmin(), np.cumsum(y), np.bitwise_xor.reduce(x)),
        )

    for k in range(4):
        agree(lambda x, y, k=k: f(x, y)[k], x, y, wide=wide, rtol=1e-6)


def test_floats_of_every_kind(wide: str):
    special = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 0.5, 2.0**31, -(2.0**63), 1e6]
    for dtype in ("f8", "f4", "f2"):
        with np.errstate(all="ignore"):
            x = np.array(special * 3).astype(dtype)
        y = x[::-1].copy()
        tolerance = {"f8": 1e-13, "f4": 1e-5, "f2": 2e-3}[dtype]
        agree(lambda x, y: (x + y, x * y, x / y, np.fmax(x, y), np.maximum(x, y), np.copysign(x, y)), x, y, wide=wide)
        agree(lambda x, y: (np.floor(x), np.rint(x), np.sqrt(x), np.abs(x), -x, np.signbit(x)), x, y, wide=wide)
        agree(lambda x, y: (np.isnan(x), x < y, x == y, np.where(x > y, x, y), x != x), x, y, wide=wide)
        finite = np.clip(np.nan_to_num(x), -1e4, 1e4)
        agree(
            lambda x: (np.exp(-np.abs(x)), np.sin(x), np.tanh(x), np.log1p(np.abs(x))),
            finite,
            wide=wide,
            rtol=tolerance,
        )
        if dtype != "f2":
            small = np.clip(np.nan_to_num(x), -1e9, 1e9)
            agree(lambda x: (x.astype("i4"), x.astype("i8"), x.astype(bool), x.astype("f2")), small, wide=wide)


def test_branches_and_loops_of_lanes(wide: str):
    def collatz(x: Any) -> Any:
        def steps(n: Any) -> Any:
            k = 0
            while n > 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                k += 1
            return k

        return tj.vmap(steps)(x)

    n = np.arange(40)
    got = np.asarray(tj.jit(collatz, backend=wide)(n))

    def plain(m: int) -> int:
        k = 0
        while m > 1:
            m, k = (m // 2 if m % 2 == 0 else 3 * m + 1), k + 1
        return k

    assert got.tolist() == [plain(int(m)) for m in n]

    def picked(x: Any) -> Any:
        return tj.vmap(
            lambda v: tj.lax.cond(v > 0, lambda: np.sqrt(v) + v, lambda: tj.lax.cond(v < -1, lambda: -v, lambda: 0.0))
        )(x)

    x = floats(77)
    with np.errstate(all="ignore"):
        want = np.where(x > 0, np.sqrt(x) + x, np.where(x < -1, -x, 0.0))
    np.testing.assert_allclose(np.asarray(tj.jit(picked, backend=wide)(x)), want, rtol=1e-13)


def test_a_loop_of_lanes_within_a_branch_of_lanes(wide: str):
    def halved(v: Any) -> Any:
        n = 0
        if v > 0:
            while v > 0.1:
                v = v / 2
                n += 1
        else:
            for _ in range(3):
                if v < -1:
                    v = v + 0.5
        return v, n

    x = floats(45)
    found = [np.asarray(r) for r in tj.jit(tj.vmap(halved), backend=wide)(x)]
    want = [halved(v) for v in x]
    np.testing.assert_allclose(found[0], [v for v, _ in want], rtol=1e-13)
    assert found[1].tolist() == [n for _, n in want]


def test_memory_of_every_layout(wide: str):
    x = floats(24 * 36).reshape(24, 36)

    def f(a: Any, b: Any) -> Any:
        return a + b, a.T * 2, a[::2, ::-3], a[:, 5] - b[:, 7], a.sum(0), a.sum(1), a[::-1].copy(), (a > b).any(1)

    for a in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1, ::-1]):
        for b in (x[0], x[:, :1], x):
            if np.ndim(b) == 2 and b.shape[1] > 7:
                mine = tj.jit(f, backend=wide)(a, b)
                for g, w in zip(mine, f(a, b), strict=True):
                    np.testing.assert_allclose(np.asarray(g), w, rtol=1e-12)
            np.testing.assert_allclose(np.asarray(tj.jit(lambda a, b: a * b - 1, backend=wide)(a, b)), a * b - 1)


def test_places_that_data_choose(wide: str):
    rng = np.random.default_rng(5)
    x, at, m = floats(500), rng.integers(-500, 500, 200), floats(200) > 0
    agree(lambda x, at: (x[at], np.take(x, at, mode="wrap")), x, at, wide=wide)
    agree(lambda x, m, at: (np.where(m, x[at], 0), x[at][m]), x, m, at, wide=wide)

    def written(x: Any, at: Any, m: Any) -> None:
        x[:200][m] = 7.0
        x[300:] += 1

    agree(written, x, at, m, wide=wide)
    agree(lambda x, at: np.bincount(np.abs(at), x[:200], 600), x, at, wide=wide)
    agree(lambda x: (np.sort(x), np.argsort(x, kind="stable"), np.unique(np.rint(x))), x, wide=wide)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_products_and_columns(dtype: str, wide: str):
    rng = np.random.default_rng(7)
    for n, m, k in ((1, 1, 1), (2, 3, 4), (17, 33, 65), (64, 48, 96), (130, 70, 40)):
        a, b = (rng.integers(-3, 4, s).astype(dtype) for s in ((n, k), (k, m)))
        agree(lambda a, b: (a @ b, (a.T @ a), b @ b.T, a.sum(0), a.max(1), np.cumsum(a, 0)), a, b, wide=wide, rtol=1e-6)


def test_sums_over_threads(wide: str):
    x = floats(300_000, "f4", 9)
    f = tj.jit(lambda x: (x.sum(), x.max(), x.argmax(), np.cumsum(x)[-1], (x * x).mean()), backend=wide)
    want = x.astype("f8")
    for y, w in ((x, want), (x[:-77], want[:-77])):
        found = [np.asarray(v) for v in f(y)]
        np.testing.assert_allclose(found[0], w.sum(), rtol=1e-4)
        assert (found[1], found[2]) == (y.max(), y.argmax())
        np.testing.assert_allclose(found[4], (w * w).mean(), rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_random_expressions(seed: int, wide: str, monkeypatch: pytest.MonkeyPatch):
    made = expressions.group(91_000 + seed, 20)

    def run(group: Any, nodes: Any) -> Any:
        names = expressions.loaded(group.text(nodes), tj)
        errors: dict[int, BaseException] = {}
        names["failed"] = errors.__setitem__
        with np.errstate(all="ignore"):
            found = tj.jit(names["f"], backend=wide)(*group.arguments.values())
        return found, errors

    monkeypatch.setattr(expressions, "run", run)
    wrong = expressions.verdicts(made, Tally())
    assert not wrong, "\n".join(made.alone(*w) for w in wrong)


def heat(u: Any) -> Any:
    for _ in range(50):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u


def jacobi(u: Any) -> Any:
    v = u.copy()
    for _ in range(40):
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u, v = v, u
    return u


def newton(x: Any) -> Any:
    k = 0
    while np.abs(x * x - 2).max() > 1e-9:
        x = 0.5 * (x + 2 / x)
        k += 1
    return x, k


def recurrence(x: Any) -> Any:
    a, b = x, x + 1
    for _ in range(30):
        a, b = b, (a + b) % 7
    return a


@pytest.mark.parametrize(
    ("f", "shape", "most"),
    [
        (heat, (200,), 2),
        (jacobi, (30, 40), 2),
        (newton, (50,), 3),
        (recurrence, (100,), 2),
        (recurrence, (10, 12), 2),
        (recurrence, (4, 5000), 31),  # too many elements to exchange by one thread
    ],
)
def test_loops_of_small_steps_are_one_kernel(
    f: Callable[..., Any], shape: tuple[int, ...], most: int, opencl_device: Any, monkeypatch: pytest.MonkeyPatch
):
    launches: list[int] = []
    enqueue = opencl_device.enqueue
    monkeypatch.setattr(opencl_device, "enqueue", lambda *a: (launches.append(a[1]), enqueue(*a)))
    x = np.random.default_rng(3).random(shape) + 1
    mine, theirs = x.copy(), x.copy()
    found, want = tj.jit(f, backend="opencl")(mine), f(theirs)
    for g, w in zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]:
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-12)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert len(launches) <= most
