"""Flags that are given in other ways than by True, and memory orders of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

X = np.arange(12.0).reshape(3, 4) % 5

FOLDS: list[Callable[..., Any]] = [
    lambda x, k: np.sum(x, axis=1, keepdims=k),
    lambda x, k: np.argmax(x, axis=1, keepdims=k),
    lambda x, k: np.argmin(x, keepdims=k),
    lambda x, k: np.nanargmax(x, axis=0, keepdims=k),
    lambda x, k: np.average(x, axis=0, keepdims=k),
    lambda x, k: np.any(x, axis=0, keepdims=k),
    lambda x, k: np.subtract.reduce(x, axis=0, keepdims=k),
    lambda x, k: np.hypot.reduce(x, axis=1, keepdims=k),
    lambda x, k: np.add.reduce(x, keepdims=k),
    lambda x, k: np.mean(x, axis=0, keepdims=k),
    lambda x, k: np.median(x, axis=1, keepdims=k),
    lambda x, k: np.max(x, axis=0, keepdims=k),
    lambda x, k: x.argmax(axis=1, keepdims=k),
    lambda x, k: np.var(x, keepdims=k),
    lambda x, k: np.count_nonzero(x, axis=0, keepdims=k),
]


@pytest.mark.parametrize("keep", [True, 1, False, 0])
@pytest.mark.parametrize("number", range(len(FOLDS)))
def test_keepdims(number: int, keep: Any):
    f = FOLDS[number]
    got, expected = tj.jit(lambda x: f(x, keep))(X), f(X, keep)
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda: np.zeros((), order="F"),
        lambda: np.ones((), order="F"),
        lambda: np.full((), 3.0, order="F"),
        lambda: np.zeros_like(np.float64(2.0), order="F"),
        lambda: np.zeros((2, 3), order="F"),
        lambda: np.ones(3, order="F"),
    ],
)
def test_order_of_numbers(f: Callable[..., Any]):
    got, expected = tj.jit(f)(), f()
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_array_equal(got, expected)
