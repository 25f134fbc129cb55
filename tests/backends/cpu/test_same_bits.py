"""Equal arguments give equal bits: however many threads run, whatever was called before,
on whatever thread (docs/numerics.md)."""

import threading
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.runtime import pool

SUMS = {
    "sum": lambda x: np.sum(x),
    "rows": lambda x: np.sum(x, axis=1),
    "columns": lambda x: np.sum(x, axis=0),
    "mean and variance": lambda x: (x.mean(), x.var(axis=0)),
    "softmax": lambda x: (
        np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    ),
    "norm of the whole": lambda x: x / np.sqrt(np.sum(x * x)),
    "scan": lambda x: np.cumsum(x, axis=0),
    "flat scan": lambda x: np.cumsum(x.ravel()),
    "product": lambda x: x @ x.T,
    "row times matrix": lambda x: x[0] @ x.T,
    "product of all": lambda x: np.prod(1 + x * 1e-4),
    "gradient": lambda x: tj.grad(lambda w: np.sum(np.tanh(w @ w.T)))(x),
}


def leaves(x: Any) -> list[np.ndarray]:
    return [np.asarray(r) for r in (x if isinstance(x, tuple) else (x,))]


def assert_same_bits(x: Any, y: Any) -> None:
    for a, b in zip(leaves(x), leaves(y), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.fixture
def threads():
    before = pool.pool_size()
    yield pool.set_threads
    pool.set_threads(before)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_do_not_depend_on_the_number_of_threads(name, dynamic, dtype, threads):
    f = tj.jit(SUMS[name], dynamic_shapes=dynamic)
    for shape in [(300, 701), (3, 20_000), (900, 11)]:
        x = np.random.default_rng(5).standard_normal(shape).astype(dtype)
        results = []
        for n in (1, 2, 5):
            threads(n)
            results += [f(x), f(x)]
        for r in results[1:]:
            assert_same_bits(r, results[0])


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dynamic", [None, False, True])
def test_bits_do_not_depend_on_calls_in_between(name, dynamic):
    f = tj.jit(SUMS[name], dynamic_shapes=dynamic)
    sizes = [(300, 701), (301, 701), (300, 701), (17, 40), (64, 64), (5, 701)]
    arrays = [np.random.default_rng(6).standard_normal(s) for s in sizes]
    arrays += [np.asfortranarray(a) for a in arrays[:3]] + [a[::-1] for a in arrays[3:]]
    first = [f(x) for x in arrays]
    compilations = f.compilations
    for _ in range(2):
        for x, r in zip(arrays, first, strict=True):
            assert_same_bits(f(x), r)
    assert f.compilations == compilations


def test_the_first_size_keeps_the_code_made_for_it():
    """In the native entries, and so its speed: neither symbolic extents nor other memory orders take its calls."""
    f = tj.jit(lambda x: np.sum(x * 2))
    x = np.random.default_rng(6).standard_normal((300, 701))
    want = f(x)
    for other in (x[:200], x[:, :300], x.T, x[::2], x[:200].T):
        f(other)
    for _ in range(3):
        assert_same_bits(f(x), want)
    assert_same_bits(tj.jit(lambda x: np.sum(x * 2), dynamic_shapes=False)(x), want)


def test_bits_do_not_depend_on_the_calling_thread():
    x = np.random.default_rng(7).standard_normal((300, 701))
    f = tj.jit(SUMS["mean and variance"])
    want, found = f(x), []
    callers = [threading.Thread(target=lambda: found.extend(f(x) for _ in range(20))) for _ in range(3)]
    for c in callers:
        c.start()
    for c in callers:
        c.join()
    assert len(found) == 60
    for r in found:
        assert_same_bits(r, want)
