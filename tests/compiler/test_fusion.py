"""What is fused of whole functions: row statistics join the loops over their rows, and are never computed again for every column."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def normalised(x: Any) -> Any:
    return x / np.sum(x, axis=1, keepdims=True)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


X = np.random.default_rng(0).uniform(1, 2, (50, 30))


def kernels(f: Callable[..., Any]) -> int:
    compiled = tj.jit(f)
    np.testing.assert_allclose(compiled(X), f(X), rtol=1e-13)
    return len(compiled.lower(X).program.kernels())


@pytest.mark.parametrize("f", [normalised, softmax, lambda x: np.cumsum(normalised(x), axis=1), lambda x: np.sum(softmax(x) ** 2, axis=1)])
def test_row_statistics_join_loops_over_rows(f: Callable[..., Any]):
    assert kernels(f) == 1


AGAINST_ROWS: dict[str, Callable[..., Any]] = {
    "a scan down the columns": lambda x: np.cumsum(normalised(x), axis=0),
    "a sum down the columns": lambda x: np.sum(normalised(x), axis=0),
    "a transpose": lambda x: np.transpose(normalised(x)),
    "a transpose of a softmax": lambda x: np.transpose(softmax(x)),
    "a transpose, then cheap work": lambda x: np.transpose(normalised(x)) * 2 + 1,
}


@pytest.mark.parametrize("case", AGAINST_ROWS)
def test_row_statistics_are_stored_where_columns_are_the_outer_loop(case: str):
    assert kernels(AGAINST_ROWS[case]) == 2


# -- pairs: nothing of n * n elements is stored --------------------------------------------------------------------------------------------
def accelerations(position: Any, mass: Any) -> Any:
    d = position[None, :, :] - position[:, None, :]
    r2 = np.sum(d * d, axis=2) + 0.01
    weight = mass[None, :] / (r2 * np.sqrt(r2))
    return np.sum(weight[:, :, None] * d, axis=1)


def stored_elements(f: Callable[..., Any], *args: Any) -> int:
    """The most elements that a buffer of the compiled program has."""
    compiled = tj.jit(f)
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-11)
    kernels = compiled.lower(*args).program.kernels()
    return max(int(np.prod(b.shape)) for k in kernels for b in k.buffers)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "after",
    [
        lambda a: a,
        lambda a: 6.67 * a,
        lambda a: np.sqrt(np.sum(a * a, axis=1)),
        lambda a: a / np.max(np.abs(a), axis=1, keepdims=True),
    ],
)
def test_n_body_never_writes_what_it_sums_over(dimensions: int, after: Callable[[Any], Any]):
    rng = np.random.default_rng(dimensions)
    position, mass = rng.normal(size=(70, dimensions)), rng.uniform(1, 2, 70)
    assert stored_elements(lambda p, m: after(accelerations(p, m)), position, mass) <= 70 * dimensions


def test_distances_never_write_the_differences():
    x = np.random.default_rng(1).normal(size=(60, 5))
    assert stored_elements(lambda x: np.sqrt(np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)), x) == 60 * 60
    assert stored_elements(lambda x: np.min(np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2) + 1e3 * np.eye(60), axis=1), x) <= 60 * 60


def test_columns_are_not_written_out_in_kernels_too_long_for_it():
    """Then the weights are stored: computing them again for every column would cost more."""

    def f(position: Any, mass: Any) -> Any:
        d = position[None, :, :] - position[:, None, :]
        weight = np.sum(d * d, axis=2) + 0.01
        for _ in range(40):
            weight = np.sqrt(weight) + mass[None, :] / weight
        return np.sum(weight[:, :, None] * d, axis=1)

    rng = np.random.default_rng(2)
    assert stored_elements(f, rng.normal(size=(30, 3)), rng.uniform(1, 2, 30)) == 30 * 30
