"""Folds of axes and windows against folds written out in Python."""

from collections.abc import Callable, Sequence
from functools import reduce as fold
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.support.errors import DtypeError, ShapeError, TracerError

RNG = np.random.default_rng(0)
MONOIDS: list[tuple[Any, Any, float]] = [
    (lax.add, np.add, 0.0), (lax.mul, np.multiply, 1.0), (lax.max, np.maximum, -np.inf), (lax.min, np.minimum, np.inf),
    (lambda a, b: b + a, np.add, 0.5), (np.maximum, np.maximum, 0.25),
]  # fmt: skip


def in_order(function: Callable[[Any, Any], Any], elements: Any, start: Any) -> Any:
    return fold(function, elements, start)


def written_out(
    x: Any, start: Any, function: Any, sizes: Any, strides: Any, padding: Any, base: Any = None, apart: Any = None
) -> Any:
    """The fold of every window, in order; what lies beside the array, or between its elements, is left out."""
    rank = x.ndim
    base, apart = base or (1,) * rank, apart or (1,) * rank
    counts = []
    for n, k, s, (low, high), b, d in zip(x.shape, sizes, strides, padding, base, apart, strict=True):
        counts.append(max(0, ((n - 1) * b + 1 + low + high - (k - 1) * d - 1) // s + 1))
    out = np.empty(counts, x.dtype)
    for i in np.ndindex(*counts):
        total = start
        for k in np.ndindex(*sizes):
            at = [p * s + j * d - low for p, s, j, d, (low, _) in zip(i, strides, k, apart, padding, strict=True)]
            if all(a % b == 0 and 0 <= a // b < n for a, b, n in zip(at, base, x.shape, strict=True)):
                total = function(total, x[tuple(a // b for a, b in zip(at, base, strict=True))])
        out[i] = total
    return out


def drawn(rng: np.random.Generator) -> tuple[Any, ...]:
    rank = int(rng.integers(1, 4))
    few = lambda low, high: [int(n) for n in rng.integers(low, high + 1, rank)]  # noqa: E731
    x = rng.standard_normal(few(2, 6))
    return x, few(1, 3), few(1, 2), list(zip(few(-1, 2), few(0, 2), strict=True)), few(1, 2), few(1, 2)


# -- windows -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(14))
def test_folds_of_windows_are_the_folds_written_out(seed: int):
    rng = np.random.default_rng(seed)
    x, *window = drawn(rng)
    function, known, start = MONOIDS[seed % len(MONOIDS)]
    f = lambda x: lax.reduce_window(x, start, function, *window)  # noqa: E731
    want = written_out(x, start, known, *window)
    np.testing.assert_allclose(f(x), want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tj.jit(f)(x), want, rtol=1e-12, atol=1e-12)
    many = rng.standard_normal((3, *x.shape))
    np.testing.assert_allclose(tj.jit(tj.vmap(f))(many), np.stack([f(y) for y in many]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_any_function_goes_over_each_window_in_order(seed: int):
    x, *window = drawn(np.random.default_rng(100 + seed))
    function = lambda a, b: 0.5 * a + b * b  # noqa: E731
    f = lambda x: lax.reduce_window(x, 0.25, function, *window)  # noqa: E731
    want = written_out(x, 0.25, function, *window)
    np.testing.assert_allclose(tj.jit(f)(x), want, rtol=1e-12, atol=1e-12)
    s, h = np.random.default_rng(1).standard_normal(x.shape), 1e-6
    slope = tj.jit(tj.grad(lambda x: f(x).sum()))(x)
    np.testing.assert_allclose((slope * s).sum(), (f(x + h * s) - f(x - h * s)).sum() / (2 * h), rtol=1e-6, atol=1e-7)


def test_a_function_with_a_branch_is_one_for_each_element():
    def larger_square(a: Any, b: Any) -> Any:
        return lax.cond(b * b > a, lambda: b * b, lambda: a)

    x = RNG.standard_normal(9)
    got = tj.jit(lambda x: lax.reduce_window(x, 0.0, larger_square, (3,), (2,)))(x)
    np.testing.assert_allclose(got, written_out(x * x, 0.0, np.maximum, (3,), (2,), [(0, 0)]), rtol=1e-12)


def test_several_arrays_are_folded_together():
    def first_of_the_least(a: Any, b: Any) -> Any:
        take = b[0] < a[0]
        return np.where(take, b[0], a[0]), np.where(take, b[1], a[1])

    x = RNG.standard_normal((4, 7))
    places = np.arange(28).reshape(4, 7)
    start = (np.inf, -1)
    got = tj.jit(lambda x, k: lax.reduce_window((x, k), start, first_of_the_least, (1, 3), (1, 1)))(x, places)
    rows = np.lib.stride_tricks.sliding_window_view(x, (1, 3))[:, :, 0]
    np.testing.assert_array_equal(got[0], rows.min(-1))
    np.testing.assert_array_equal(x.ravel()[got[1]], rows.min(-1))
    least, place = tj.jit(lambda x, k: lax.reduce((x, k), start, first_of_the_least, (0,)))(x, places)
    np.testing.assert_array_equal(least, x.min(0))
    np.testing.assert_array_equal(place, x.argmin(0) * 7 + np.arange(7))


@pytest.mark.parametrize("function", [lax.add, lax.mul, lax.max, lax.min, lambda a, b: b + a, np.maximum, np.minimum])
def test_known_functions_are_no_loops(function: Any):
    f = lambda x: lax.reduce_window(x, 1.0, function, (2,), (1,)) + lax.reduce(x, 2.0, function, (0,))  # noqa: E731
    assert not {"loop", "while"} & {e.primitive.name for e in tj.make_jaxpr(f)(np.ones(5)).equations}


def test_the_first_of_equal_maxima_has_the_derivative():
    x = np.array([1.0, 3.0, 3.0, 2.0, 2.0, 2.0])
    pooled = lambda x: lax.reduce_window(x, -np.inf, lax.max, (3,), (1,)).sum()  # noqa: E731
    np.testing.assert_array_equal(tj.grad(pooled)(x), [0, 2, 1, 1, 0, 0])
    np.testing.assert_array_equal(tj.jit(tj.grad(pooled))(x), [0, 2, 1, 1, 0, 0])
    least = lambda x: lax.reduce_window(x, np.inf, lax.min, (2,), (2,)).sum()  # noqa: E731
    np.testing.assert_array_equal(tj.jit(tj.grad(least))(x), [1, 0, 0, 1, 1, 0])


@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "f2", "f4"])
def test_windows_of_every_dtype(dtype: str):
    x = RNG.integers(0, 2, (5, 6)).astype(dtype)
    for function, known in ((lax.max, np.maximum), (lax.add, np.add)):
        start = x.dtype.type(0)
        got = tj.jit(lambda x: lax.reduce_window(x, start, function, (2, 3), (1, 2), "SAME"))(x)  # noqa: B023
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, written_out(x, start, known, (2, 3), (1, 2), [(0, 1), (0, 1)]))


def test_nan_is_the_maximum_of_its_windows():
    x = np.array([1.0, np.nan, 2.0, 3.0, 1.0])
    got = tj.jit(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,)))(x)
    np.testing.assert_array_equal(got, [np.nan, np.nan, 3, 3])


def test_one_function_serves_all_sizes():
    pooled = tj.jit(lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 2), "SAME"))
    other = tj.jit(lambda x: lax.reduce(x, 1.0, lambda a, b: a * 0.5 + b, (1,)))
    slope = tj.jit(tj.grad(lambda x: (lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 2)) ** 2).sum()))
    for n, m in ((3, 6), (3, 7), (4, 31), (1, 2), (2, 1), (0, 3)):
        x = RNG.standard_normal((n, m))
        padding = [(0, 0), *lax.padtype_to_pads((m,), (3,), (2,), "SAME")]
        np.testing.assert_allclose(pooled(x), written_out(x, 0.0, np.add, (1, 3), (1, 2), padding), rtol=1e-12)
        np.testing.assert_allclose(other(x), in_order(lambda a, b: a * 0.5 + b, x.T, np.ones(n)), rtol=1e-12)
        pairs = x[:, : m // 2 * 2].reshape(n, m // 2, 2)
        want = np.zeros_like(x)
        want[:, : m // 2 * 2] = np.where(pairs == pairs.max(-1, keepdims=True), 2 * pairs, 0).reshape(n, m // 2 * 2)
        np.testing.assert_allclose(slope(x), want, rtol=1e-12)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
def test_on_other_backends(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)
    x = RNG.standard_normal((5, 6))
    window = ((2, 2), (1, 2), [(1, 0), (0, 1)])
    for function, known, start in (MONOIDS[0], (lambda a, b: 0.5 * a + b, None, 0.25)):
        got = tj.jit(lambda x: lax.reduce_window(x, start, function, *window), backend=backend)(x)  # noqa: B023
        np.testing.assert_allclose(got, written_out(x, start, known or function, *window), rtol=1e-12, atol=1e-12)
    slope = tj.jit(tj.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, *window).sum()), backend=backend)(x)
    np.testing.assert_allclose(slope, tj.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, *window).sum())(x))


def test_windows_in_a_loop():
    def eroded(x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, y: lax.reduce_window(y, np.inf, lax.min, (3,), (1,), "SAME"), x)

    x = RNG.standard_normal(20)
    np.testing.assert_array_equal(tj.jit(eroded)(x), written_out(x, np.inf, np.minimum, (9,), (1,), [(4, 4)]))


# -- whole axes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("function", "known", "start"), MONOIDS)
@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (-1,), (0, 1, 2)])
def test_folds_of_axes(function: Any, known: Any, start: float, axes: Sequence[int]):
    x = RNG.standard_normal((3, 4, 2))
    want = known(known.reduce(x, axis=tuple(axes)), start) if axes else known(x, start)
    for f in (lax.reduce, tj.jit(lax.reduce, static_argnums=(1, 2, 3))):
        np.testing.assert_allclose(f(x, start, function, tuple(axes)), want, rtol=1e-12)


def test_truth_values_and_bits():
    x = RNG.integers(0, 2, (4, 5)).astype(bool)
    k = RNG.integers(0, 100, (4, 5))
    np.testing.assert_array_equal(tj.jit(lambda x: lax.reduce(x, True, lax.bitwise_and, (1,)))(x), x.all(1))
    np.testing.assert_array_equal(tj.jit(lambda x: lax.reduce(x, False, lax.bitwise_or, (0,)))(x), x.any(0))
    np.testing.assert_array_equal(
        tj.jit(lambda k: lax.reduce(k, 0, lax.bitwise_xor, (1,)))(k), np.bitwise_xor.reduce(k, axis=1)
    )


@pytest.mark.parametrize("function", [lax.add, lax.max, lambda a, b: 2 * a + b])
def test_the_fold_of_nothing_is_its_start(function: Any):
    x = np.ones((3, 0))
    f = lambda x: lax.reduce(x, 7.0, function, (1,))  # noqa: E731
    np.testing.assert_array_equal(f(x), [7, 7, 7])
    np.testing.assert_array_equal(tj.jit(f)(x), [7, 7, 7])
    np.testing.assert_array_equal(lax.reduce_window(np.ones(2), 7.0, function, (3,), (1,)), [])


def test_the_derivative_of_a_maximum_over_axes_is_shared_out():
    x = np.array([2.0, 1.0, 2.0])
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: lax.reduce(x, -np.inf, lax.max, (0,))))(x), [0.5, 0, 0.5])
    start = tj.grad(lambda s: lax.reduce(x, s, lambda a, b: 2 * a + b, (0,)))(1.0)
    assert start == 8.0


X = np.ones((3, 4))
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.reduce(X, 0.0, lax.add, (2,)), ShapeError, "axis 2"),
    (lambda: lax.reduce(X, 0.0, lax.add, (0, -2)), ShapeError, "twice"),
    (lambda: lax.reduce(X, np.float32(0), lax.add, (0,)), DtypeError, "differ in dtype"),
    (lambda: lax.reduce(X, X, lax.add, (0,)), ShapeError, "a number"),
    (lambda: lax.reduce((X, X), 0.0, lax.add, (0,)), TracerError, "structure"),
    (lambda: lax.reduce((X, X[0]), (0.0, 0.0), lambda a, b: a, (0,)), ShapeError, "differ in shape"),
    (lambda: lax.reduce(X, 0.0, lambda a, b: (a, b), (0,)), TracerError, "another structure"),
    (lambda: lax.reduce(X, 0.0, lambda a, b: a < b, (0,)), DtypeError, "makes bool"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2,), (1, 1)), ShapeError, "window_dimensions has 1 entries for 2"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (0, 2), (1, 1)), ShapeError, "at least 1"),
    (lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), [(0, 0)]), ShapeError, "1 pairs for 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_what_is_no_fold_is_refused(call: Callable[[], Any], error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        call()
