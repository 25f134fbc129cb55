"""Arrays written as an index, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

V, M = np.arange(3), np.arange(6).reshape(2, 3)


def test_joined_arrays_are_numpys(agree_together: Callable[..., None]):
    agree_together(
        [
            lambda xp, v, m: xp.r_[v, 0, 5.5, 1:4], lambda xp, v, m: xp.r_[0:1:5j, v],
            *[lambda xp, v, m, t=text: xp.r_[t, v, v] for text in ("0,2", "0,2,0", "0,3,-1", "0,3,1")],
            lambda xp, v, m: xp.r_["1,3,0", v, 1:4], lambda xp, v, m: xp.r_["-1", m, m],
            lambda xp, v, m: xp.r_[v.astype(np.float32), 1, 2.5], lambda xp, v, m: xp.r_["0,3,1", m, m],
            lambda xp, v, m: xp.c_[v, v * 2], lambda xp, v, m: xp.c_[v, 1:4], lambda xp, v, m: xp.c_[m, np.zeros(2)],
            lambda xp, v, m: xp.c_[v[None], 0, 0, v[None]],
        ],
        V, M,
    )  # fmt: skip
    f = tj.jit(lambda x: (np.r_[x, 1.0, x], np.c_[x, x]))
    for n in (3, 5, 1, 2, 0):
        x = np.arange(n)
        for got, want in zip(f(x), (np.r_[x, 1.0, x], np.c_[x, x]), strict=True):
            np.testing.assert_array_equal(got, want)


def test_grids_are_numpys(agree_together: Callable[..., None]):
    agree_together(
        [
            lambda xp, v, m: xp.mgrid[0:2, 0:3] + v, lambda xp, v, m: xp.mgrid[0:1:3j, 0:3] * v,
            lambda xp, v, m: xp.mgrid[-1:2] * v, lambda xp, v, m: xp.ogrid[0:2, 0:3][1] * v,
            lambda xp, v, m: xp.mgrid[0 : m.shape[0], 0 : m.shape[1]], lambda xp, v, m: xp.ogrid[0:1:3j] * v,
            lambda xp, v, m: m[xp.s_[1:, ::2]], lambda xp, v, m: m[xp.index_exp[..., 0]],
        ],
        V, M,
    )  # fmt: skip


def test_a_grid_can_be_filled():
    def f(x: Any) -> Any:
        grid = np.mgrid[0:2, 0:2]
        grid[0] = x
        return grid

    np.testing.assert_array_equal(tj.jit(f)(7), f(7))


def test_text_that_numpy_does_not_take_is_rejected():
    for key in ("z", "0,q"):
        with pytest.raises(ValueError, match="unknown special directive"):
            tj.jit(lambda v, key=key: np.r_[key, v])(V)
    with pytest.raises(ValueError, match="must be the first entry"):
        tj.jit(lambda v: np.r_[v, "0"])(V)
    with pytest.raises(UnsupportedError, match="matrix"):
        tj.jit(lambda v: np.r_["r", v])(V)


def test_joined_arrays_have_derivatives():
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: np.sum(np.r_[x, 2 * x, 1.0] ** 2)))(np.ones(2)), [10, 10])
