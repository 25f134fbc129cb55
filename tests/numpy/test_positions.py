"""Indices of diagonals, triangles, flat places and meshes, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

Z = np.arange(12.0).reshape(3, 4)


def test_triangles_and_diagonals_are_numpys(agree_together: Callable[..., None]):
    agree_together(
        [
            lambda xp, z: z[xp.tril_indices(3, 1, 4)], lambda xp, z: z[xp.triu_indices_from(z, -1)],
            lambda xp, z: xp.tril_indices_from(z, 2), lambda xp, z: xp.triu_indices(3),
            lambda xp, z: xp.mask_indices(3, np.triu, 1), lambda xp, z: z[xp.diag_indices(3)],
            lambda xp, z: xp.diag_indices_from(z[:, :3]), lambda xp, z: xp.diag_indices(2, 3),
        ],
        Z,
    )  # fmt: skip


@pytest.mark.parametrize("order", ["C", "F"])
def test_flat_places_are_numpys(agree_together: Callable[..., None], order: Any):
    i = np.array([[0, 5], [11, 7]])
    j = np.array([[0, 1], [3, -2]])
    agree_together(
        [
            lambda xp, i, j: xp.unravel_index(i, (3, 4), order=order), lambda xp, i, j: xp.unravel_index(i, 12),
            lambda xp, i, j: xp.ravel_multi_index((i % 3, i % 4), (3, 4), order=order),
            *[
                lambda xp, i, j, m=mode: xp.ravel_multi_index((j, i), (3, 4), mode=m, order=order)
                for mode in ("wrap", "clip", ("clip", "wrap"))
            ],
        ],
        i, j,
    )  # fmt: skip


def test_places_of_symbolic_shapes_are_one_program():
    f = tj.jit(lambda x, i: (x[np.unravel_index(i, x.shape)], x[np.diag_indices_from(x)]))
    for n in (3, 5, 1, 2, 4, 7):
        x, i = np.arange(n * n).reshape(n, n), np.arange(0, n * n, 2)
        flat, diagonal = f(x, i)
        np.testing.assert_array_equal(flat, i)
        np.testing.assert_array_equal(diagonal, np.diag(x))
    assert f.compilations <= 4


def test_a_place_outside_is_a_value_error_of_the_program():
    for f in (lambda i: np.unravel_index(i, (3, 3)), lambda i: np.ravel_multi_index((i, i), (3, 3))):
        for x in (np.array([0, 9]), np.array([-1, 0])):
            for g in (f, tj.jit(f)):
                with pytest.raises(ValueError, match=r"out of bounds|invalid entry"):
                    g(x)
        with pytest.raises(TypeError):
            tj.jit(f)(np.array([0.5]))


def test_meshes_are_numpys(agree_together: Callable[..., None]):
    agree_together(
        [
            lambda xp, z, m, i: z[xp.ix_([0, 2], [1, 3, 0])],
            lambda xp, z, m, i: z[xp.ix_(np.array([True, False, True]), i)],
            lambda xp, z, m, i: xp.ix_(i, i + 1, [5]), lambda xp, z, m, i: z[xp.ix_([], i)],
        ],
        Z, np.array([True, False, True]), np.array([3, 0]),
    )  # fmt: skip
    f = tj.jit(lambda z, m, i: z[np.ix_(m, i)])
    for m in ([True, False, True], [False, False, True]):
        np.testing.assert_array_equal(f(Z, np.array(m), np.array([3, 0])), Z[np.ix_(m, [3, 0])])
    with pytest.raises(ValueError, match="Cross index must be 1 dimensional"):
        tj.jit(lambda z: np.ix_(z))(Z)


def test_arrays_of_other_ranks_are_rejected():
    for f in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from):
        with pytest.raises(ValueError, match="2-d"):
            tj.jit(lambda x, f=f: f(x))(np.ones(3))
    with pytest.raises(ValueError, match="equal length"):
        tj.jit(lambda x: np.diag_indices_from(x))(Z)
