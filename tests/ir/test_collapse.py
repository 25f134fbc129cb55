"""Loops over adjacent axes become one where they only walk memory;
whatever else touches the same arrays keeps its elements."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def border_kept(u: Any) -> Any:
    u = u.copy()
    u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1])
    return u


def first_column_added(u: Any) -> Any:
    return u * 2 + u[:, :1, :] - u[:1]


def channel_swapped(u: Any) -> Any:
    out = u * 0.5
    out[:, 0, -1] = u[:, -1, 0]
    return out


@pytest.mark.parametrize(
    "f", [border_kept, first_column_added, channel_swapped, lambda u: np.concatenate([u, u[:, :2]], axis=1) + 1]
)
@pytest.mark.parametrize("shape", [(5, 7, 3), (3, 3, 3), (40, 50, 3), (9, 8, 1), (4, 6, 20)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_values(f: Callable[[Any], Any], shape: tuple[int, ...], symbolic: bool):
    u = np.random.default_rng(0).normal(size=shape)
    compiled = tj.jit(f, dynamic_shapes=symbolic)
    np.testing.assert_allclose(compiled(u), f(u), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(tj.jit(f, backend="reference")(u), f(u), rtol=1e-13, atol=1e-14)


def test_the_channels_of_a_photograph_are_walked_with_its_columns():
    """Also where the border is copied in the same loop over rows."""
    text = tj.jit(border_kept).lower(np.ones((40, 50, 3), np.float32)).text("kernel")
    assert "f32[40, 150]" in text
    assert "in 0..144 " in text  # 48 columns of 3
