"""`np.lib.stride_tricks.sliding_window_view`, against NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, WriteError

windows = np.lib.stride_tricks.sliding_window_view

CASES: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: windows(x, 3, axis=1),
    "columns": lambda x: windows(x, 2, axis=0),
    "both": lambda x: windows(x, (2, 3)),
    "both, the other way": lambda x: windows(x, (3, 2), axis=(1, 0)),
    "an axis twice": lambda x: windows(x, (2, 2), axis=(1, 1)),
    "of one": lambda x: windows(x, (1, 1)),
    "the last axis": lambda x: windows(x, (2,), axis=-1),
    "moving average": lambda x: windows(x, 3, axis=1).mean(axis=-1),
    "dilation": lambda x: windows(x, (2, 2)).max(axis=(2, 3)),
    "median": lambda x: np.median(windows(x, (2, 2)), axis=(-1, -2)),
    "correlation": lambda x: np.einsum("ijkl,kl->ij", windows(x, (2, 3)), np.arange(6.0).reshape(2, 3)),
    "of a part": lambda x: windows(x[1:, ::-1], (2, 2))[0],
    "a part of it": lambda x: windows(x, (2, 2))[::2, 1:, 0],
    "transposed": lambda x: windows(x.T, (2, 2)).sum(axis=0),
    "as large as its axis": lambda x: windows(x, x.shape[0], axis=0),
}


@pytest.mark.parametrize("name", CASES)
def test_windows(name: str):
    f = CASES[name]
    compiled = tj.jit(f)
    for shape in ((3, 4), (5, 3), (4, 4), (7, 9)):
        for order in ("C", "F"):
            x = np.random.default_rng(0).normal(size=shape).copy(order)
            got, want = compiled(x), f(x)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


def test_a_view_shows_what_is_written_later():
    def f(x: Any) -> Any:
        seen = windows(x, 2)
        before = seen.sum(axis=1)
        x[1:] = x[:-1] * 2
        return before, seen * 1, seen.sum(axis=1)

    x = np.arange(6.0)
    for got, want in zip(tj.jit(f)(x.copy()), f(x.copy()), strict=True):
        np.testing.assert_array_equal(got, want)


def test_in_a_loop_with_derivatives_and_batches():
    def smoothed(x: Any) -> Any:
        for _ in range(3):
            x = np.pad(windows(x, 3).mean(axis=1), 1)
        return x

    x = np.random.default_rng(0).normal(size=8)
    np.testing.assert_allclose(tj.jit(smoothed)(x), smoothed(x), rtol=1e-13)
    slopes = [(smoothed(x + 1e-6 * e) - smoothed(x - 1e-6 * e)).sum() / 2e-6 for e in np.eye(8)]
    np.testing.assert_allclose(tj.grad(lambda x: smoothed(x).sum())(x), slopes, atol=1e-8)
    batch = np.stack([x, -x])
    np.testing.assert_allclose(tj.vmap(smoothed)(batch), [smoothed(row) for row in batch], rtol=1e-13)


def test_what_numpy_refuses():
    x = np.arange(6.0)
    for bad in (lambda x: windows(x, 7), lambda x: windows(x, (2, 2)), lambda x: windows(x, -1)):
        with pytest.raises(ValueError, match=r"window|axis"):
            bad(x)
        with pytest.raises(ShapeError):
            tj.jit(bad)(x)

    def written(x: Any) -> Any:
        windows(x, 2)[0] = 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        written(x)
    with pytest.raises(WriteError, match="read-only"):
        tj.jit(written)(x)
