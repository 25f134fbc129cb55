"""lax.map with batches and lax.associative_scan against loops in Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import OptionError, ShapeError, TracerError

RNG = np.random.default_rng(0)


def loop(fn: Callable[[Any, Any], Any], xs: Any) -> Any:
    out = [xs[0]]
    for x in xs[1:]:
        out.append(fn(out[-1], x))
    return np.stack(out)


@pytest.mark.parametrize("count", range(1, 18))
def test_all_prefixes_are_joined(count: int):
    x = RNG.uniform(0.5, 1.5, count)
    np.testing.assert_allclose(tj.lax.associative_scan(np.multiply, x), np.multiply.accumulate(x), rtol=1e-13)
    np.testing.assert_allclose(tj.lax.associative_scan(np.add, x, reverse=True), np.cumsum(x[::-1])[::-1], rtol=1e-13)


def test_no_element_has_no_prefix():
    assert tj.lax.associative_scan(np.add, np.zeros((0, 2))).shape == (0, 2)


def test_one_program_serves_several_lengths():
    f = tj.jit(lambda x: tj.lax.associative_scan(np.maximum, x, axis=-1))
    for count in (1, 2, 0, 7, 8, 3):
        x = RNG.standard_normal((2, count))
        np.testing.assert_array_equal(f(x), np.maximum.accumulate(x, axis=-1))


def test_matrices_are_joined_in_order():
    x = RNG.standard_normal((7, 2, 2))
    np.testing.assert_allclose(tj.jit(lambda x: tj.lax.associative_scan(np.matmul, x))(x), loop(np.matmul, x))


def test_a_pytree_is_a_linear_recurrence():
    a, b = RNG.uniform(0.5, 1.0, 11), RNG.standard_normal(11)

    def recurrence(a: Any, b: Any) -> Any:
        def joined(x: Any, y: Any) -> Any:
            return {"a": x["a"] * y["a"], "b": y["a"] * x["b"] + y["b"]}

        return tj.lax.associative_scan(joined, {"a": a, "b": b})["b"]

    want, state = [], 0.0
    for k in range(11):
        state = a[k] * state + b[k]
        want.append(state)
    np.testing.assert_allclose(recurrence(a, b), want, rtol=1e-12)
    np.testing.assert_allclose(tj.jit(recurrence)(a, b), want, rtol=1e-12)
    rows = np.stack([b, 2 * b])
    np.testing.assert_allclose(tj.jit(tj.vmap(recurrence, (None, 0)))(a, rows)[1], 2 * np.array(want), rtol=1e-12)


def test_derivatives_go_through_it():
    x = RNG.uniform(0.5, 1.5, 6)
    got = tj.jit(tj.grad(lambda x: np.sum(tj.lax.associative_scan(np.multiply, x))))(x)
    products = np.multiply.accumulate(x)
    np.testing.assert_allclose(got, [np.sum(products[k:]) / x[k] for k in range(6)], rtol=1e-12)


def test_scans_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"different lengths along axis 0: \[2, 3\]"):
        tj.lax.associative_scan(lambda a, b: a, (np.ones(2), np.ones(3)))
    with pytest.raises(ShapeError, match="axis 1"):
        tj.lax.associative_scan(np.add, np.ones(2), axis=1)
    with pytest.raises(TracerError, match="fn returns"):
        tj.lax.associative_scan(lambda a, b: (a, b), np.ones(2))
    with pytest.raises(OptionError, match="reverse is 1"):
        tj.lax.associative_scan(np.add, np.ones(2), reverse=1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10])
def test_batches_give_what_single_elements_give(size: int):
    x = RNG.standard_normal((7, 3))

    def f(x: Any) -> Any:
        return tj.lax.map(lambda row: {"s": np.sum(row), "y": np.sin(row)}, x, batch_size=size)

    for made in (f, tj.jit(f)):
        got = made(x)
        np.testing.assert_allclose(got["s"], np.sum(x, axis=1), rtol=1e-14)
        np.testing.assert_allclose(got["y"], np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: np.sum(f(x)["y"])))(x), np.cos(x), rtol=1e-14)


def test_batches_that_do_not_fit_are_refused():
    with pytest.raises(OptionError, match="batch_size is 0; it is an integer above 0"):
        tj.lax.map(np.sin, np.ones(3), batch_size=0)
    with pytest.raises(ShapeError, match="leading axis"):
        tj.lax.map(lambda x: x[0], (np.ones(3), np.ones(2)), batch_size=2)
