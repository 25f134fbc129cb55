"""Medians and quantiles, against NumPy."""

import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, TracejitError

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
]  # fmt: skip


def values(shape: Any, dtype: str = "f8", seed: int = 0, nan: float = 0.0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-5, 30, shape).astype(dtype)
    return np.where(rng.random(shape) < nan, np.nan, x).astype(dtype) if nan else x


def check(f: Any, g: Any, *args: Any, tolerance: float = 1e-13) -> None:
    """The same value, shape and dtype as NumPy's, NaN included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.asarray(g(*args))
    got = np.asarray(f(*args))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(
        got, want, rtol=max(tolerance, 4 * np.finfo(got.dtype).eps if got.dtype.kind == "f" else 0)
    )


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize(
    ("dtype", "nan"), [("f8", 0), ("f8", 0.3), ("f4", 0.3), ("f2", 0), ("i4", 0), ("u1", 0), ("?", 0)]
)
def test_medians_of_odd_and_even_numbers_of_elements(name: str, dtype: str, nan: float):
    function = getattr(np, name)
    f = tj.jit(lambda x: function(x))
    for n in (5, 2, 1, 33):
        check(f if dtype in ("f8", "i4") else tj.numpy.__dict__[name], function, values(n, dtype, n, nan))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, True), (0, False), (-1, True), ((2, 1), False), ((), True)])
def test_medians_over_any_axes(name: str, axis: Any, keepdims: bool):
    function = getattr(np, name)

    def g(x):
        return function(x, axis=axis, keepdims=keepdims)

    def f(x):
        return tj.numpy.__dict__[name](x, axis=axis, keepdims=keepdims)

    check(f, g, values((6, 1, 4), nan=0.1))
    if axis == (2, 1):
        check(tj.jit(lambda x: g(x)), g, values((2, 2, 7), nan=0.1))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_the_median_of_nothing_is_nan(shape: Any):
    for function in (np.median, np.nanmedian):
        f = getattr(tj.numpy, function.__name__)
        check(lambda x, f=f: f(x, axis=0), lambda x, f=function: f(x, axis=0), np.zeros(shape))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_quantiles(name: str, method: str):
    function = getattr(np, name)
    q = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.99, 1.0])

    def g(x):
        return function(x, q, axis=1, method=method)

    for shape in ((3, 1), (2, 12)):

        def f(x):
            return tj.numpy.__dict__[name](x, q, axis=1, method=method)

        check(f, g, values(shape, nan=0.02), tolerance=1e-12)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("method", ["linear", "closest_observation", "hazen"])
def test_one_program_has_quantiles_of_all_sizes(name: str, method: str):
    def g(x):
        return getattr(np, name)(x, [0.0, 0.3, 0.6, 1.0], axis=1, method=method)

    f = tj.jit(lambda x: g(x))
    for shape in ((2, 7), (3, 12), (3, 1), (3, 2)):
        check(f, g, values(shape, nan=0.02), tolerance=1e-12)


@pytest.mark.parametrize("method", ["linear", "lower", "hazen", "nearest"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "u1"])
@pytest.mark.parametrize(
    "q", [0.3, np.float64(0.3), np.float32(0.3), 1, [0.2, 0.9], np.array([0, 1]), [[0.1, 0.2], [0.5, 1.0]]]
)
def test_quantiles_have_the_dtype_of_numpys(method: str, dtype: str, q: Any):
    def g(x):
        return np.quantile(x, q, method=method)

    if dtype == "f4" and method == "linear":
        check(tj.jit(lambda x: g(x)), g, np.abs(values(9, dtype)))
    check(lambda x: tj.numpy.quantile(x, q, method=method), g, np.abs(values(8, dtype)))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, True), (0, False), ((2, 0), True), ((), False)])
def test_quantiles_over_any_axes(name: str, axis: Any, keepdims: bool):
    function = getattr(np, name)
    for q in ([0.1, 0.6],):

        def g(x, q=q):
            return function(x, q, axis=axis, keepdims=keepdims)

        f = tj.jit(lambda x, g=g: g(x))
        for shape in ((3, 4, 5), (2, 2, 7), (1, 3, 1)):
            check(f, g, values(shape, nan=0.1))


def test_percentiles_may_be_arguments():
    f = tj.jit(lambda x, q: (np.percentile(x, q), np.nanpercentile(x, q)))
    for n, q in ((7, 30.0), (8, 99.0), (9, np.array([0.0, 50.0]))):
        x = values(n)
        for got, want in zip(f(x, q), (np.percentile(x, q), np.nanpercentile(x, q)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)
    with pytest.raises(ValueError, match=r"in the range \[0, 100\]"):
        f(values(7), 101.0)


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile"])
def test_weights_move_quantiles(name: str):
    function = getattr(np, name)
    q = np.array([0.0, 0.3, 1.0]) * (100 if name == "percentile" else 1)
    for axis, w in ((1, [1.0, 0.0, 2.0, 0.5, 3.0]), (None, np.arange(15.0).reshape(3, 5)), ((1, 0), np.ones((5, 3)))):

        def g(x, w, axis=axis):
            return function(x, q, axis=axis, weights=w, method="inverted_cdf")

        def f(x, w, axis=axis):
            return tj.numpy.__dict__[name](x, q, axis=axis, weights=w, method="inverted_cdf")

        w = (
            np.broadcast_to(w, (3, 5)) if name == "nanquantile" and axis == 1 else np.asarray(w)
        )  # NumPy takes no others
        for nan in (0, 0.2):
            check(f, g, values((3, 5), nan=nan), w)
        if axis == 1:
            check(tj.jit(lambda x, w, g=g: g(x, w)), g, values((3, 5), nan=0.2), np.ascontiguousarray(w))


def test_bad_weights_are_refused_as_numpy_does():
    f = tj.jit(lambda x, w: np.quantile(x, 0.5, weights=w, method="inverted_cdf"))
    with pytest.raises(ValueError, match="non-negative"):
        f(values(3), np.array([1.0, -1, 2]))
    with pytest.raises(ValueError, match="all zero"):
        f(values(3), np.zeros(3))
    with pytest.raises(TypeError, match="Axis must be specified"):
        f(values((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="Only method"):
        tj.jit(lambda x, w: np.quantile(x, 0.5, weights=w))(values(3), np.ones(3))


def test_bad_arguments_are_refused():
    x = values((2, 3))
    with pytest.raises(ShapeError, match="not a valid method"):
        tj.jit(lambda x: np.quantile(x, 0.5, method="best"))(x)
    with pytest.raises(ShapeError, match=r"range \[0, 1\]"):
        tj.jit(lambda x: np.quantile(x, 1.5))(x)
    with pytest.raises(ShapeError):
        tj.jit(lambda x: np.median(x, axis=2))(x)
    with pytest.raises(ShapeError, match="duplicate"):
        tj.jit(lambda x: np.median(x, axis=(0, 0)))(x)
    with pytest.raises(IndexError):
        tj.jit(lambda x: np.quantile(x, 0.5))(np.zeros(0))
    with pytest.raises(DtypeError):
        tj.jit(lambda x: np.quantile(x, 0.5))(np.array([True, False]))


def test_out_takes_the_result():
    def f(x: Any) -> Any:
        y = np.zeros(2)
        np.median(x, axis=1, out=y)
        return y

    x = values((2, 5))
    np.testing.assert_array_equal(tj.jit(f)(x), np.median(x, axis=1))


def test_the_median_of_what_a_mask_selects():
    f = tj.jit(lambda x: np.median(x[x > 0]))
    for x in (np.array([1.0, -2, 5, 3]), np.array([-1.0, 4]), np.array([-1.0, -4, -2])):
        check(f, lambda x: np.median(x[x > 0]), x)


@pytest.mark.parametrize("n", [5, 6])
def test_gradients_go_to_the_elements_that_count(n: int):
    x = np.random.default_rng(n).permutation(n).astype(float)
    for function in (np.median, lambda x: np.quantile(x, 0.3), lambda x: np.nanquantile(x, 0.8, method="hazen")):
        got = tj.jit(tj.grad(lambda x, f=function: f(x)))(x)
        want = [(function(x + 1e-6 * e) - function(x - 1e-6 * e)) / 2e-6 for e in np.eye(n)]
        np.testing.assert_allclose(got, want, atol=1e-8)


def test_in_a_batch_a_loop_and_on_other_backends():
    x = values((4, 7), nan=0.1)
    for function in (np.nanmedian, lambda r: np.quantile(r, 0.3), lambda r: np.nanpercentile(r, [20, 50])):
        want = np.array([function(r) for r in x])
        np.testing.assert_allclose(tj.jit(tj.vmap(function))(x), want)
        np.testing.assert_allclose(tj.jit(tj.vmap(function, in_axes=1))(x.T.copy()), want)
        got = tj.jit(lambda x, f=function: f(x), backend="reference")(x[0])
        np.testing.assert_allclose(got, want[0])

    def loop(x: Any) -> Any:
        return tj.lax.fori_loop(0, 4, lambda i, s: s + np.nanmedian(x[i]), 0.0)

    np.testing.assert_allclose(tj.jit(loop)(x), np.nanmedian(x, axis=1).sum())


def test_a_median_that_was_refused_is_still_what_try_catches():
    def f(x: Any) -> Any:
        try:
            return np.quantile(x, 2.0)
        except ValueError:
            return x[0]

    with pytest.raises(TracejitError):
        tj.jit(lambda x: np.quantile(x, 2.0))(np.ones(3))
    assert tj.jit(f)(np.ones(3)) == 1


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32"])
@pytest.mark.parametrize("name", ["nanquantile", "nanpercentile"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_selected_elements_of_which_there_are_none(name: str, dtype: str):
    function = getattr(np, name)
    f = tj.jit(lambda x, m: function(x[m], 0.4))
    x = np.array([3, 1, 2, 7], dtype)
    for m in ([True] * 4, [False] * 4, [False, True, True, False], [False] * 4):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f(x, np.array(m)), function(x[np.array(m)], 0.4))


def test_no_elements_and_a_method_that_gives_one_of_them():
    f = tj.jit(lambda x, m: np.nanquantile(x[m], 0.4, method="lower"))
    assert f(np.array([3, 1, 2]), np.array([True, False, True])) == 2
    with pytest.raises(IndexError):
        f(np.array([3, 1, 2]), np.zeros(3, bool))
