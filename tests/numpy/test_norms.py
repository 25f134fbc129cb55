"""Norms, matrix powers and chains of products, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

CASES = [
    "norm(x)", "norm(x[0])", "norm(x[0], 1)", "norm(x[0], np.inf)", "norm(x[0], -np.inf)", "norm(x[0], 0)",
    "norm(x[0], 3)", "norm(x[0], 2)", "norm(x, axis=1)", "norm(x, 1, axis=0, keepdims=True)", "norm(x, 'fro')",
    "norm(x, 1)", "norm(x, -1)", "norm(x, np.inf)", "norm(x, -np.inf)", "norm(x, axis=(0, 1))",
    "norm(np.stack([x, x * 2]), 1, axis=(1, 2))", "norm(x, keepdims=True)",
    "norm(np.stack([x, x]), np.inf, axis=(-1, 0), keepdims=True)", "vector_norm(x)", "vector_norm(x, axis=1, ord=1)",
    "matrix_norm(x)", "matrix_power(x @ x.T, 3)", "matrix_power(x.T @ x, 0)",
    "matrix_power(np.stack([x @ x.T] * 2), 2)", "matrix_power(x @ x.T, 1)", "multi_dot([x, x.T, x])",
    "multi_dot([x[0], x.T, x, x[0]])", "multi_dot([x, x.T])", "trace(np.stack([x, x]))",
    "diagonal(np.stack([x, x]), offset=1)", "outer(x[0], x[1])", "cross(x[0, :3], x[1, :3])", "matrix_transpose(x)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CASES)
def test_agrees_with_numpy(agree: Any, numbers: Any, expression: str):
    def f(_: Any, x: Any) -> Any:
        return eval(f"np.linalg.{expression}", {"np": np, "x": x})

    x = numbers((3, 4))
    want = f(None, x)
    for options in ({}, {"dynamic_shapes": True}):
        got = tj.jit(**options)(lambda x: f(None, x))(x)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert np.shape(got) == np.shape(want)


def test_integers_are_measured_in_double_precision():
    got = tj.jit(lambda x: np.linalg.norm(x))(np.array([3, 4], np.int8))
    assert got == 5.0
    assert got.dtype == np.float64


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("norm(x, 3)", ShapeError, "Invalid norm order for matrices"),
        ("norm(x, 'x')", ShapeError, "Invalid norm order"), ("norm(x[0], 'fro')", ShapeError, "is for matrices"),
        ("matrix_power(x, 2)", ShapeError, "square"),
        ("matrix_power(x @ x.T, -1)", np.linalg.LinAlgError, "Singular matrix"),
        ("multi_dot([x])", ShapeError, "at least two"), ("norm(np.stack([x, x]), 1)", ShapeError, "one axis or two"),
    ],
)  # fmt: skip
def test_errors(expression: str, error: Any, message: str):
    with pytest.raises(error, match=message):
        tj.jit(lambda x: eval(f"np.linalg.{expression}", {"np": np, "x": x}))(np.ones((3, 4)))


@pytest.mark.parametrize("call", ["outer(m, v)", "outer(v, s)", "cross(v[:2], v[:2])", "cross(m, m)"])
def test_what_np_linalg_does_not_take(call: str):
    f = eval(f"lambda m, v, s: np.linalg.{call}")
    arguments = np.ones((2, 2)), np.arange(3.0), np.array(2.0)
    with pytest.raises(ValueError, match=r".*"):
        f(*arguments)
    with pytest.raises(ValueError, match="takes"):
        tj.jit(f)(*arguments)


def test_products_of_np_linalg():
    v, w = np.arange(3.0), np.array([2.0, -1.0, 5.0])
    of_columns = lambda v, w: np.linalg.cross(v[:, None], w[:, None], axis=0)  # noqa: E731
    for f in (np.linalg.outer, np.linalg.cross, of_columns):
        np.testing.assert_array_equal(tj.jit(f)(v, w), f(v, w))


def test_the_greatest_of_no_elements_is_zero():
    for shape, axis in (((0,), None), ((0, 3), 0), ((0,), 0)):
        x = np.zeros(shape)
        want = np.max(np.abs(x), axis, initial=0.0)  # what NumPy gives from 2.3 on; before, it raises
        np.testing.assert_array_equal(tj.jit(lambda x, axis=axis: np.linalg.norm(x, np.inf, axis=axis))(x), want)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_matrices_of_several_dtypes(seed: int):
    """Each product is made in the dtype of its factors: of two matrices of bools it is one of bools,
    so the order counts."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    dtypes = rng.choice(["?", "u1", "i4", "u4", "f4", "f8"], n)
    jitted = tj.jit(lambda *a: np.linalg.multi_dot(a))
    for _ in range(2):
        sizes = rng.integers(1, 7, n + 1)
        xs = [rng.integers(0, 6, (sizes[k], sizes[k + 1])).astype(dtypes[k]) for k in range(n)]
        if seed % 3 == 0:
            xs[0] = xs[0][0]
        if seed % 5 == 0:
            xs[-1] = xs[-1][:, 0]
        want, got = np.linalg.multi_dot(xs), jitted(*xs)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want)
