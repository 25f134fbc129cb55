"""bincount, histograms, digitize and searchsorted, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError, DtypeError, ShapeError, UnsupportedError


def same(got: Any, want: Any, what: str = "") -> None:
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            same(g, w, f"{what}[{n}]")
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype.itemsize < 8 else 1e-12, atol=1e-12, err_msg=what)


# -- bincount ----------------------------------------------------------------------------------------------------------
def test_bincount_counts_and_sums_weights():
    def f(x: Any, w: Any) -> Any:
        return np.bincount(x, minlength=7), np.bincount(x, w, 9), np.bincount(x, weights=x, minlength=7)

    g = tj.jit(f)
    for n in (20, 5, 1, 0, 100):
        rng = np.random.default_rng(n)
        x, w = rng.integers(0, 7, n).astype(np.uint8), rng.random(n).astype(np.float32)
        same(g(x, w), f(x, w), f"size {n}")


def test_bincount_of_known_values_is_as_long_as_they_say():
    x = np.array([3, 1, 3, 0])
    same(tj.numpy.bincount(tj.Array(x)), np.bincount(x))
    same(tj.numpy.bincount([]), np.bincount([]))
    same(tj.numpy.bincount(np.array([True, False])), np.bincount(np.array([True, False])))
    same(tj.numpy.bincount(x, minlength=2), np.bincount(x, minlength=2))


def test_bincount_with_a_length_is_jaxs():
    x, w = np.array([1, -2, 3, 9]), np.ones(4, np.float32)
    f = tj.jit(lambda x, w: (tj.numpy.bincount(x, length=4), tj.numpy.bincount(x, w, length=3)))
    same(f(x, w), (np.array([1, 1, 0, 1]), np.array([1, 1, 0], np.float32)))


def test_bincount_fails_where_it_cannot_be_right():
    f = tj.jit(lambda x: np.bincount(x, minlength=4))
    with pytest.raises(ValueError, match="negative elements"):
        f(np.array([0, -1]))
    with pytest.raises(UnsupportedError, match="give a greater minlength"):
        f(np.array([0, 4]))
    with pytest.raises(ConcretizationError, match="give minlength="):
        tj.jit(lambda x: np.bincount(x))(np.array([0, 4]))
    for call, error in (
        (lambda x: np.bincount(x * 1.0, minlength=9), DtypeError),
        (lambda x: np.bincount(x[None], minlength=9), ShapeError),
        (lambda x: np.bincount(x, np.ones(5), minlength=9), ShapeError),
        (lambda x: np.bincount(x, minlength=-1), ShapeError),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(np.array([0, 1]))
        with pytest.raises(error):
            tj.jit(call)(np.array([0, 1]))


# -- histograms --------------------------------------------------------------------------------------------------------
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "ten bins": lambda x, w: np.histogram(x),
    "a range": lambda x, w: np.histogram(x, 7, (-1.5, 2)),
    "edges": lambda x, w: np.histogram(x, [-3, -1, 0.5, 0.5, 4]),
    "weights": lambda x, w: np.histogram(x, 5, weights=w),
    "edges and weights": lambda x, w: np.histogram(x, np.array([-1.0, 0.0, 2.0]), weights=w),
    "density": lambda x, w: np.histogram(x, 6, (-4, 4), density=True),
    "edges and density": lambda x, w: np.histogram(x, [-9, 0, 1, 9], weights=w, density=True),
    "one bin": lambda x, w: np.histogram(x, 1),
    "edges alone": lambda x, w: np.histogram_bin_edges(x, 4),
    "of two": lambda x, w: np.histogram2d(x, w, (3, 4)),
    "of two with edges": lambda x, w: np.histogram2d(x, w, [2, [0.0, 0.25, 1.0]], [[-2, 2], None], weights=w),
    "of three": lambda x, w: np.histogramdd(np.stack([x, w, x * w], 1), (2, 3, 1)),
    "of columns": lambda x, w: np.histogramdd((x, w), 3, [(-1, 1), (0, 1)], density=True),
}


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_histograms(dtype: str):
    rng = np.random.default_rng(0)
    x, w = (3 * rng.standard_normal(200)).astype(dtype), rng.random(200)
    got = tj.jit(lambda x, w: [f(x, w) for f in CALLS.values()])(x, w)
    for name, g in zip(CALLS, got, strict=True):
        same(g, CALLS[name](x, w), name)
        if dtype == "f8":
            same(CALLS[name].__globals__["np"] and _by_names(name)(x, w), CALLS[name](x, w), name)


def _by_names(name: str) -> Callable[[Any, Any], Any]:
    """The call with tracejit's functions in place of NumPy's."""
    f = CALLS[name]
    return type(f)(f.__code__, {**f.__globals__, "np": tj.numpy}, name, f.__defaults__, f.__closure__)  # pyright: ignore


def test_values_on_edges_and_outside_go_where_numpy_puts_them():
    edges = np.linspace(-1.0, 2.0, 8)
    x = np.concatenate([edges, np.nextafter(edges, -9), np.nextafter(edges, 9), [np.nan, np.inf, -np.inf, 5.0]])
    for f in (
        lambda x: np.histogram(x, 7, (-1.0, 2.0)),
        lambda x: np.histogram(x, edges),
        lambda x: np.histogram(x, 3, (0.1, 0.7)),
        lambda x: np.histogramdd(x[:, None], 7, [(-1.0, 2.0)]),
    ):
        same(tj.jit(f)(x), f(x))


def test_one_program_serves_arrays_of_many_sizes():
    def f(x: Any) -> Any:
        return np.histogram(x, 4), np.histogram(x, 3, (0, 1)), np.histogram(x, [0.0, 0.5, 1.0])

    g = tj.jit(f)
    for n in (8, 8, 2, 30, 1, 0):
        x = np.random.default_rng(n).random(n)
        same(g(x), f(x), f"size {n}")
    same(g(np.full(3, 0.5)), f(np.full(3, 0.5)), "equal values")


def test_random_histograms():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.choice([rng.standard_normal(50), rng.integers(-4, 5, 50) / 2.0])
        bins = int(rng.integers(1, 40))
        low, high = sorted(rng.choice([-2.0, -1.5, 0.0, 0.1, 1.0, 3.0], 2, replace=False))
        same(tj.numpy.histogram(x, bins, (low, high)), np.histogram(x, bins, (low, high)), f"seed {seed}")
        same(tj.numpy.histogram(x, bins), np.histogram(x, bins), f"seed {seed}")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.histogram(x, 0), ShapeError),
        (lambda x: np.histogram(x, [3, 2, 1]), ValueError),
        (lambda x: np.histogram(x, [[1, 2]]), ShapeError),
        (lambda x: np.histogram(x, 2.5), DtypeError),
        (lambda x: np.histogram(x, 3, (3, 0)), ShapeError),
        (lambda x: np.histogram(x, 3, (0, np.inf)), ShapeError),
        (lambda x: np.histogram(x, weights=np.ones(7)), ShapeError),
        (lambda x: np.histogram(x * np.nan), ValueError),
        (lambda x: np.histogramdd(x[:, None], (2, 3)), ShapeError),
    ],
)
def test_what_numpy_refuses_is_refused(call: Callable[..., Any], error: type[Exception]):
    x = np.array([1.0, 2.0, 0.5])
    with pytest.raises((TypeError, ValueError)), np.errstate(all="ignore"):
        call(x)
    with pytest.raises(error):
        tj.jit(call)(x)


def test_rules_for_bins_are_for_known_values():
    x = np.random.default_rng(0).standard_normal(40)
    same(tj.numpy.histogram(x, "auto"), np.histogram(x, "auto"))
    with pytest.raises(ConcretizationError, match="bins='fd'"):
        tj.jit(lambda x: np.histogram(x, "fd"))(x)


def test_derivatives_of_weights_and_batches():
    rng = np.random.default_rng(1)
    x, w = rng.random((4, 20)), rng.random((4, 20))
    slope = tj.grad(lambda w: (tj.numpy.histogram(x[0], 3, (0, 1), weights=w)[0] * np.arange(3)).sum())(w[0])
    np.testing.assert_allclose(slope, np.minimum((x[0] * 3).astype(int), 2))
    each = tj.vmap(lambda x, w: (tj.numpy.histogram(x, 3, (0, 1), weights=w)[0], tj.numpy.histogram(x, 3, (0, 1))[0]))
    for got, xs, ws in zip(zip(*each(x, w), strict=True), x, w, strict=True):
        same(got, (np.histogram(xs, 3, (0, 1), weights=ws)[0], np.histogram(xs, 3, (0, 1))[0]))
    counts = tj.jit(tj.vmap(lambda i: np.bincount(i, minlength=5)))((x * 5).astype(int))
    same(counts, np.stack([np.bincount((row * 5).astype(int), minlength=5) for row in x]))


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)

    def f(x: Any, w: Any) -> Any:
        return (
            np.histogram(x, 5, (0, 1)),
            np.histogram(x, [0, 0.1, 1], weights=w),
            np.bincount((x * 4).astype(np.int32), minlength=4),
        )

    x, w = np.random.default_rng(2).random(30), np.arange(30.0)
    same(tj.jit(f, backend=backend)(x, w), f(x, w))


# -- places in sorted vectors ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_takes_a_sorter_and_jaxs_method(side: Any):
    rng = np.random.default_rng(3)
    a, v = rng.integers(0, 9, 20).astype(float), rng.integers(-1, 10, (4, 5)).astype(float)
    order = np.argsort(a)
    same(tj.jit(lambda a, v, s: np.searchsorted(a, v, side, s))(a, v, order), np.searchsorted(a, v, side, order))
    for method in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        got = tj.jit(lambda a, v, m=method: tj.numpy.searchsorted(a, v, side, method=m))(np.sort(a), v)
        same(got, np.searchsorted(np.sort(a), v, side).astype(np.int32))
    same(tj.numpy.digitize(v, np.array([0, 3, 5]), method="sort"), np.digitize(v, [0, 3, 5]).astype(np.int32))
    with pytest.raises(ShapeError, match="method is one of"):
        tj.numpy.searchsorted(a, v, method="guess")


@pytest.mark.parametrize("f", [
    lambda x: np.bincount(np.arange(len(x)) // 2, weights=x), lambda x: np.bincount(np.arange(len(x)) % 3),
    lambda x: np.bincount(np.repeat(np.arange(3), len(x))), lambda x: np.bincount(BINS) * x.sum(),
    lambda x: np.bincount(np.arange(len(x)) // 2, weights=x, minlength=3),
])  # fmt: skip
def test_bincount_of_numbers_that_follow_from_sizes(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for n in (4, 7, 8, 2, 1, 7):
        x = np.arange(1.0, n + 1)
        same(compiled(x), f(x))


BINS = np.array([0, 2, 2, 1])
