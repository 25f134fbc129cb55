"""Python's `min` and `max` of arrays and of many numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def test_the_greatest_with_a_default():
    x = np.array([1.0, 22.5, -3.0])
    for f in (
        lambda x: max(x, default=0), lambda x: min([x[0], x[1]], default=None), lambda x: max([], default=x[0]),
        lambda x: max((abs(v) for v in x), default=0.0), lambda x: max([v for v in x], default=-1, key=None),
    ):  # fmt: skip
        got, want = tj.jit(f)(x), f(x)
        assert repr(got) == repr(want)


@pytest.mark.parametrize("f", [
    lambda a: min(a), lambda a: max(a), lambda a: max(a) - min(a), lambda a: max([abs(v) for v in a]),
    lambda a: min(float(v) for v in a), lambda a: max(list(a)),
])  # fmt: skip
def test_the_least_and_greatest_of_many(f: Callable[..., Any]):
    """As Python compares: the first of equal ones, a NaN only where it comes first."""
    compiled, rng = tj.jit(f), np.random.default_rng(0)
    for n in (3, 18, 40, 41, 2, 1, 40, 41):
        for _ in range(3):
            for dtype in (np.float64, np.int16, np.float32):
                a = rng.integers(-3, 4, n).astype(dtype)
                if dtype != np.int16 and rng.random() < 0.7:
                    a[rng.integers(0, n)], a[rng.integers(0, n)], a[-1] = np.nan, -0.0, np.inf
                with np.errstate(invalid="ignore"):
                    assert repr(compiled(a)) == repr(f(a))
    with pytest.raises(ValueError, match="empty"):
        compiled(np.zeros(0))


def test_the_least_of_an_array_is_one_loop():
    compiled = tj.jit(lambda a: min(a))
    compiled(np.arange(20.0))
    compiled(np.arange(30_000.0))
    assert len(compiled.lower(np.arange(30_000.0)).text("jaxpr").splitlines()) < 20
