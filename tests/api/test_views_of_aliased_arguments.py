"""A view of an argument shows what is done to another argument that is the same array, or overlaps it."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import WriteError

windows = np.lib.stride_tricks.sliding_window_view

VIEWS = {
    "whole": lambda x: x[:],
    "steps": lambda x: x[::2],
    "reversed": lambda x: x[::-1],
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "new axis": lambda x: x[:, None, 1:],
    "transposed": lambda x: x.T,
    "ravelled": lambda x: x.ravel(),
    "reshaped": lambda x: x.reshape(-1, 2),
    "swapped": lambda x: np.swapaxes(x, 0, 1),
    "squeezed": lambda x: x[:1].squeeze(),
    "spread": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "diagonal": lambda x: np.diagonal(x),
    "diag": lambda x: np.diag(x, 1),
    "einsum": lambda x: np.einsum("ii->i", x),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "windows": lambda x: windows(x, (2, 2)),
    "windows of an axis": lambda x: windows(x, 3, axis=1),
    "windows of a part": lambda x: windows(x[:, 1], 2)[:, 0],
    "flipped": lambda x: np.flip(x, 1),
    "turned": lambda x: np.rot90(x),
    "split": lambda x: np.split(x, 2)[1],
    "columns": lambda x: np.hsplit(x, 2)[0],
    "moved": lambda x: np.moveaxis(x, 0, 1),
    "three": lambda x: np.atleast_3d(x),
    "part of a part": lambda x: x[1:][::2].T[1:],
}


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", VIEWS)
def test_it_shows_what_is_done_to_the_same_array(name: str, dtype: str):
    view = VIEWS[name]

    def later(x: Any, y: Any) -> Any:
        v = view(x)
        y += 1
        return v * 2

    def loop(x: Any, y: Any) -> Any:
        v = view(x)
        for i in range(len(y)):
            y[i] += v.sum()
        return v * 2

    if name == "imag" and dtype == "f8":
        return  # zeros of its own
    for f in (later, loop):
        jitted: Any = tj.jit(f)
        for n in (4, 6, 4):
            a = np.arange(n * n, dtype=dtype).reshape(n, n)
            want, got = a.copy(), a.copy()
            assert np.array_equal(jitted(got, got), f(want, want))
            assert np.array_equal(got, want)
            one, other = a.copy(), a.copy()
            assert np.array_equal(jitted(one, other), f(a.copy(), a.copy()))
            both = np.arange((n + 1) * n, dtype=dtype).reshape(n + 1, n)
            want, got = both.copy(), both.copy()
            expected = f(want[1:], want[:-1])
            try:  # what overlaps in part is refused where it matters
                found = jitted(got[1:], got[:-1])
            except WriteError:
                assert np.array_equal(got, both)
            else:
                assert np.array_equal(found, expected)
                assert np.array_equal(got, want)
