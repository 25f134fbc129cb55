"""Differences, integrals and convolutions, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {"np": np})


@pytest.mark.parametrize(
    "expression",
    [
        "xp.diff(x)", "xp.diff(x, axis=0)", "xp.diff(x, 2)", "xp.diff(x, n=0)", "xp.diff(x, 7)",
        "xp.diff(x, prepend=0)", "xp.diff(x, append=x[:, :2])", "xp.diff(x, prepend=1, append=2, axis=0)",
        "xp.diff(x > 0)", "xp.ediff1d(x)", "xp.ediff1d(x, to_end=[1, 2])", "xp.ediff1d(x, to_begin=5, to_end=x[0])",
        "xp.gradient(x)", "xp.gradient(x, axis=0)", "xp.gradient(x, 2.0)", "xp.gradient(x, 0.5, 2)",
        "xp.gradient(x, axis=(1, 0))", "xp.gradient(x, edge_order=2)", "xp.gradient(x[0])",
        "xp.gradient(x[0], [0.0, 1, 3, 4, 7])", "xp.gradient(x[0], np.array([0.0, 1, 3, 4, 7]), edge_order=2)",
        "xp.gradient(x, [0.0, 1, 4], 2.0)", "xp.trapezoid(x)", "xp.trapezoid(x, axis=0)", "xp.trapezoid(x, dx=0.5)",
        "xp.trapezoid(x, [0, 1, 3, 4, 7])", "xp.trapezoid(x, x + 1)", "xp.trapezoid(x[0], x[1])", "xp.unwrap(x * 5)",
        "xp.unwrap(x * 5, axis=0)", "xp.unwrap(x * 10, period=3)", "xp.sinc(x)", "xp.polyval([1, 2, 3], x)",
        "xp.polyval(x[0], x[1])", "xp.polyval(x[0], 2.0)", "xp.polyval([], x)",
    ],
)  # fmt: skip
def test_differences(agree: Any, numbers: Any, expression: str):
    rtol = 1e-12
    agree(written(expression, "x"), numbers((3, 5)), rtol=rtol)
    if "unwrap" not in expression:
        agree(written(expression, "x"), numbers((3, 5), np.int32), rtol=rtol, symbolic=False, protocols=False)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.diff(x)", "xp.diff(x, 2, axis=0)", "xp.gradient(x)", "xp.gradient(x[:, 0], x[:, 1])", "xp.trapezoid(x)",
        "xp.ediff1d(x)", "xp.trapezoid(x, axis=0)", "xp.unwrap(x * 5)",
    ],
)  # fmt: skip
def test_differences_need_no_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((6, 4)), symbolic=True, rtol=1e-12)


@pytest.mark.parametrize("expression", ["xp.diff(x)", "xp.diff(x, 3)", "xp.ediff1d(x)", "xp.trapezoid(x)"])
@pytest.mark.parametrize("extent", [0, 1])
def test_short_axes(agree: Any, numbers: Any, expression: str, extent: int):
    agree(written(expression, "x"), numbers(extent))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.bool_, np.int8])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (4, 4), (1, 6), (50, 40), (90, 33)])
def test_convolutions(agree: Any, numbers: Any, dtype: Any, mode: str, sizes: Any):
    x, y = numbers(sizes[0], dtype), numbers(sizes[1], dtype, seed=1)
    plain = dtype == np.float64
    agree(
        lambda xp, x, y: (xp.convolve(x, y, mode), xp.correlate(x, y, mode)),
        x,
        y,
        rtol=1e-4 if dtype == np.float32 else 1e-12,
        symbolic=None if plain else False,
        protocols=plain,
    )


def test_convolution_with_a_short_vector_needs_no_extents(agree: Any, numbers: Any):
    agree(lambda xp, x: xp.convolve(x, np.array([1.0, 2, 1])), numbers(9), symbolic=True, rtol=1e-12)
    agree(lambda xp, x: xp.convolve(x, np.array([1.0, 2, 1]), "same"), numbers(9), rtol=1e-12)


def test_defaults_of_modes(agree: Any, numbers: Any):
    agree(
        lambda xp, x, y: (xp.convolve(x, y), xp.correlate(x, y), xp.convolve(x, 2.0)),
        numbers(6),
        numbers(3, seed=1),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("np.diff(x, -1)", "non-negative"), ("np.diff(x[0, 0])", "at least 1 axis"),
        ("np.diff(x, axis=3)", "out of bounds"), ("np.gradient(x[:, :1])", "axis 1 has extent 1"),
        ("np.gradient(x, edge_order=3)", "1 or 2"), ("np.gradient(x, [1.0, 2], 1.0)", "2 coordinates for axis 0"),
        ("np.convolve(x, x)", "takes vectors"), ("np.convolve(x[0], x[0, :0])", "is empty"),
        ("np.convolve(x[0], x[0], 'all')", "'full', 'same' or 'valid'"), ("np.polyval(1.0, x)", "not a number"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(expression: str, message: str):
    f = eval(compile(f"lambda np, x: {expression}", "user_program.py", "eval"))
    with pytest.raises(ShapeError, match=message) as caught:
        tj.jit(lambda x: f(np, x))(np.zeros((3, 4)))
    assert "user_program.py" in str(caught.value)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_nothing_lies_beyond_the_ends(name: str, mode: str):
    """An infinite tap meets no zeros there."""
    f = eval(f"lambda x, k: np.{name}(x, k, {mode!r})")
    jitted = tj.jit(f)
    for n in (1, 4, 9, 17, 40):
        for m in (1, 2, 3, 9, 17):
            for special in (np.inf, np.nan, 2.0):
                x, k = np.arange(1.0, n + 1), np.arange(1.0, m + 1)
                k[m // 2] = special
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(jitted(x, k), f(x, k))


def test_gradients_have_the_dtype_of_the_function():
    for dtype in ("f4", "f2", "f8", "i4"):
        for coordinates in (np.array([0, 1, 3]), np.array([0, 1, 3.0])):
            f = lambda x, c: np.gradient(x, c)  # noqa: E731
            x = np.array([1, 2, 4]).astype(dtype)
            want, found = f(x, coordinates), tj.jit(f)(x, coordinates)
            assert found.dtype == want.dtype
            np.testing.assert_allclose(found, want, rtol=1e-3)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_long_kernels_that_are_not_finite(dtype: str, function: Any, mode: str):
    compiled = tj.jit(lambda x, k: function(x, k, mode))
    rng = np.random.default_rng(0)
    for n, m in ((40, 33), (41, 34), (70, 69)):
        for special in (False, True):
            x, k = (rng.random(n) * 4).astype(dtype), (rng.random(m) * 4).astype(dtype)
            if special and dtype[0] == "f":
                k[0], k[-2] = np.inf, np.nan
            with np.errstate(all="ignore"):
                want = function(x, k, mode)
            got = compiled(x, k)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-4)


def test_autocorrelations_of_another_size():
    compiled = tj.jit(lambda x: np.correlate(x, x, "full"))
    for x in (np.ones(5), np.array([1, 2, np.inf]), np.ones(7), np.array([np.inf, 1, 2, 3])):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(x), np.correlate(x, x, "full"))


def test_the_derivative_of_a_long_convolution():
    x, k = np.random.default_rng(0).random(50), np.random.default_rng(1).random(40)
    weights = np.random.default_rng(2).random(89)
    slope = tj.jit(tj.grad(lambda x, k: np.sum(np.convolve(x, k) * weights), argnums=(0, 1)))(x, k)
    np.testing.assert_allclose(slope[0], np.correlate(weights, k, "valid"), rtol=1e-12)
    np.testing.assert_allclose(slope[1], np.correlate(weights, x, "valid"), rtol=1e-12)


def test_trapezoids_over_coordinates_of_more_axes():
    y, x = np.array([1.0, 4, 2]), np.array([[3.0, 0, 1], [6, 0, 2]])
    np.testing.assert_array_equal(tj.jit(np.trapezoid)(y, x), np.trapezoid(y, x))
    steps = np.array([[[1.0], [2]]])
    got = tj.jit(lambda y, d: np.trapezoid(y, dx=d))(np.ones((2, 3)), steps)
    np.testing.assert_array_equal(got, np.trapezoid(np.ones((2, 3)), dx=steps))
