"""Windows against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows_are_numpys_at_all_sizes_by_one_program(name: str):
    window: Any = getattr(np, name)
    f = tj.jit(lambda x: x * window(x.shape[0]))
    for n in (3, 5, 1, 2, 0, 4, 100):
        np.testing.assert_allclose(f(np.full(n, 2.0)), 2 * window(n), rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(np.asarray(getattr(tj.numpy, name)(n)), window(n), rtol=1e-14, atol=1e-15)
    assert f.compilations <= 4
    assert tj.numpy.hanning(-1).shape == (0,)


def test_the_kaiser_window_is_numpys():
    for n in (0, 1, 2, 9):
        np.testing.assert_array_equal(tj.jit(lambda x, n=n: x * np.kaiser(n, 14.0))(1.0), np.kaiser(n, 14.0))
