"""Lists of traced integers as indices, read and written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

INDICES = [0, 1, np.int64(2), np.int32(-1), np.array(2)]


def swap(a: Any, i: Any) -> Any:
    a[[0, i]] = a[[i, 0]]
    return a.copy()


def pivot(a: Any, i: Any) -> Any:
    for k in range(3):
        p = k + np.argmax(np.abs(a[k:, k]))
        a[[k, p]] = a[[p, k]]
        a[k + 1 :, k:] -= a[k + 1 :, k, None] / a[k, k] * a[k, k:]
    return a.copy()


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda a, i: a[[i, 0]],
    "elements": lambda a, i: a[[i, 0], [1, i]],
    "columns": lambda a, i: a[:, [i, -1]],
    "broadcast": lambda a, i: a[[[i], [0]], [i, 1]],
    "tuple": lambda a, i: a[(i, 1),],
    "one": lambda a, i: a[[i]],
    "of data": lambda a, i: a[[np.argmin(a[:, 0]), i]],
    "swap": swap,
    "pivot": pivot,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_list_of_traced_integers_is_an_index_array(name: str):
    f = FUNCTIONS[name]
    compiled = tj.jit(f)
    for shape in ((4, 4), (4, 6), (5, 4)):
        for i in INDICES:
            a = np.random.default_rng(0).normal(size=shape)
            b = a.copy()
            np.testing.assert_allclose(compiled(b, i), f(a, i), rtol=1e-12)
            np.testing.assert_allclose(b, a, rtol=1e-12)


def test_in_a_loop():
    def plain(a: Any, span: Any) -> Any:
        for i in span(a.shape[0]):
            a[[i, 0]] = a[[0, i]]
        return a.copy()

    compiled = tj.jit(lambda a: plain(a, tj.range))
    for n in (4, 5):
        a = np.arange(3.0 * n).reshape(n, 3)
        np.testing.assert_array_equal(compiled(a.copy()), plain(a, range))


def test_out_of_range():
    with pytest.raises(IndexError):
        tj.jit(lambda a, i: a[[0, i]])(np.ones(3), 3)
