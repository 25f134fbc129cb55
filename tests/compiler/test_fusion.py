"""What is fused of whole functions: row statistics join the loops over their rows,
and are never computed again for every column."""

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


@pytest.mark.parametrize(
    "f", [normalised, softmax, lambda x: np.cumsum(normalised(x), axis=1), lambda x: np.sum(softmax(x) ** 2, axis=1)]
)
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


# -- pairs: nothing of n * n elements is stored
# --------------------------------------------------------------------------------------------
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
    assert (
        stored_elements(
            lambda x: np.min(np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2) + 1e3 * np.eye(60), axis=1), x
        )
        <= 60 * 60
    )


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


# -- values that are read at several places
# ----------------------------------------------------------------------------------------------
def sobel(photo: Any) -> Any:
    grey = photo[:, :, 0] * 0.299 + photo[:, :, 1] * 0.587 + photo[:, :, 2] * 0.114
    dx = grey[:-2, 2:] - grey[:-2, :-2] + 2 * (grey[1:-1, 2:] - grey[1:-1, :-2]) + grey[2:, 2:] - grey[2:, :-2]
    dy = grey[2:, :-2] - grey[:-2, :-2] + 2 * (grey[2:, 1:-1] - grey[:-2, 1:-1]) + grey[2:, 2:] - grey[:-2, 2:]
    return np.sqrt(dx * dx + dy * dy)


def fused(f: Callable[..., Any], *args: Any) -> str:
    compiled = tj.jit(f)
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12, atol=1e-12)
    return compiled.lower(*args).text("fused")


def test_what_a_stencil_reads_at_many_places_is_computed_once():
    text = fused(sobel, np.random.default_rng(0).uniform(size=(20, 30, 3)))
    assert "it is read at 8 places, and would be evaluated at each" in text
    assert text.count("kernel ") == 2


def test_what_is_cheap_is_computed_again():
    text = fused(lambda x: (x[1:] + 1) * 2 - (x[:-1] + 1) * 2, np.arange(50.0))
    assert text.count("kernel ") == 1


def test_a_reduction_read_at_two_places_is_computed_once():
    text = fused(
        lambda x: np.sum(x, axis=1)[1:] - np.sum(x, axis=1)[:-1], np.random.default_rng(1).normal(size=(70, 40))
    )
    assert "it is read at 2 places" in text


def test_one_place_reached_in_two_ways_is_one():
    def f(x: Any) -> Any:
        e = np.exp(np.sin(x) * np.cos(x) + np.tanh(x))
        return e[1:][1:] * e[2:] + np.flip(e)[::-1][2:]

    assert fused(f, np.arange(20.0)).count("kernel ") == 1


# -- side by side ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("f", "kernels"),
    [
        (lambda x: (x + 1, x * 2, np.exp(x)), 1),
        (lambda x: (np.min(x, axis=1), np.max(x, axis=1), np.sum(x, axis=1)), 1),
        (lambda x: (np.min(x), np.max(x)), 1),
        (lambda x: (x + 1, np.sum(x, axis=1)), 1),
        (lambda x: (x + 1, np.sum(x), np.max(x)), 1),
        (lambda x: (x + 1, np.sum(x, axis=0)), 2),
        (lambda x: (x + np.sum(x * x), x * np.cumsum(x, axis=0)), 2),
        (lambda x: (x.T + 1, x + 1), 2),
    ],
)
def test_independent_results_that_read_one_array_share_loops(f: Callable[..., Any], kernels: int):
    compiled = tj.jit(f)
    for got, want in zip(compiled(X), f(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert len(compiled.lower(X).program.kernels()) == kernels


def heavy(x: Any) -> Any:
    return np.tanh(np.exp(x) * np.sin(x))


@pytest.mark.parametrize(
    ("f", "kernels"),
    [
        (lambda x: (np.exp(x) * 2, np.exp(x).sum()), 1),
        (lambda x: (np.exp(x) * 2, np.exp(x).sum(), np.exp(x).max()), 1),
        (lambda x: (np.exp(x) * 2, np.exp(x).sum(axis=1)), 1),
        (lambda x: (heavy(x) * 2, np.sqrt(heavy(x).sum())), 1),
        (lambda x: (heavy(x) * 2, np.sqrt(heavy(x).sum()) + np.log(heavy(x).max())), 1),
        (lambda x: (heavy(x)[1:] * 2, np.sqrt(heavy(x)[:-1].sum())), 3),  # at two places
    ],
)
def test_what_an_array_and_a_number_are_made_of_is_computed_once(f: Callable[..., Any], kernels: int):
    compiled = tj.jit(f)
    for got, want in zip(compiled(X), f(X), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert len(compiled.lower(X).program.kernels()) == kernels


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16])
def test_indices_of_any_dtype_are_checked_in_the_loop_that_reads_there(dtype: Any):
    f = tj.jit(lambda x, places: x[places])
    places = np.arange(-50, 50).astype(dtype) % 50
    np.testing.assert_array_equal(f(X.ravel(), places), X.ravel()[places])
    assert len(f.lower(X.ravel(), places).program.kernels()) == 1


def test_only_what_is_cheap_shares_the_loop_of_a_scatter():
    """Elements are scattered one after the other; what does not need that stays vectorised and parallel."""

    def binned(places: Any, x: Any, other: Any) -> Any:
        total = np.zeros(10)
        np.add.at(total, places, x)
        return total, other(x)

    rng = np.random.default_rng(0)
    places, x = rng.integers(0, 10, 20_000), rng.normal(size=20_000)
    for other, kernels in (
        (lambda x: x * 2, 2),
        (lambda x: x.sum(), 2),
        (lambda x: np.exp(x).argmax(), 2),
        (lambda x: (x > 1).sum(), 1),
    ):
        f = tj.jit(lambda p, x, other=other: binned(p, x, other))
        for got, want in zip(f(places, x), binned(places, x, other), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)
        assert len(f.lower(places, x).program.kernels()) == kernels
