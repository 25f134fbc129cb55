"""Elements put in at several places, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

X = np.arange(12.0).reshape(3, 4)
PLACES = [
    [0, 2],
    [2, 0],
    [1, 1],
    slice(1, 3),
    slice(None, None, 2),
    [-1, 0],
    [],
    np.array([True, False, True]),
    [3, 3, 0],
]


def test_several_places_are_numpys(agree_together: Callable[..., None]):
    agree_together(
        [lambda xp, x, v, p=places: xp.insert(x, p, 9, axis=0) for places in PLACES]
        + [lambda xp, x, v, p=places: xp.insert(x[:, 1], p, 9) for places in PLACES]
        + [lambda xp, x, v: xp.insert(x, [0, 2], v, axis=1), lambda xp, x, v: xp.insert(x, [5, 2, 5, 12], range(4))],
        X, np.arange(6.0).reshape(3, 2),
    )  # fmt: skip


def test_many_places_are_numpys(agree: Callable[..., None]):
    places = np.random.default_rng(0).integers(-12, 13, 40)
    agree(lambda xp, x, v: xp.insert(x, places, v), X, np.arange(40.0))


def test_inserted_elements_have_derivatives():
    f: Any = lambda x, v: np.sum(np.insert(x, [0, 2], v) * np.arange(5.0))  # noqa: E731
    left, right = tj.jit(tj.grad(f, argnums=(0, 1)))(np.ones(3), np.ones(2))
    np.testing.assert_array_equal(left, [1, 2, 4])
    np.testing.assert_array_equal(right, [0, 3])


def test_a_place_outside_is_an_index_error():
    for places in ([0, 4], [-4, 0]):
        with pytest.raises(IndexError, match="out of bounds"):
            tj.jit(lambda x, p=places: np.insert(x, p, 1))(np.ones(3))
