"""Halves and differences of extents may be 0 or 1 where the extents are not:
one function at many sizes means what NumPy means at each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

SIZES = [(5, 7), (8, 3), (2, 3), (3, 2), (2, 2), (3, 3), (20, 17), (1, 1), (2, 9), (0, 3)]
PARTS: dict[str, Callable[[Any], Any]] = {
    "first half": lambda a: a[: a.shape[0] // 2], "second half": lambda a: a[a.shape[0] // 2 :],
    "inner": lambda a: a[1:-1], "rest": lambda a: a[1:], "third": lambda a: a[: a.shape[0] // 3],
    "columns": lambda a: a[:, : a.shape[1] // 2], "inner columns": lambda a: a[:, 1:-1], "block": lambda a: a[1:, 1:],
    "less two": lambda a: a[2:], "twice less": lambda a: a[: a.shape[1] - 1],
}  # fmt: skip
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda p, a: p + a, "where": lambda p, a: np.where(p > 2, p, a), "squeeze": lambda p, a: np.squeeze(p) * 1,
    "squeeze axis": lambda p, a: np.squeeze(p, 0) + 0, "max": lambda p, a: np.max(p),
    "min of columns": lambda p, a: p.min(0), "argmax": lambda p, a: p.argmax(),
    "argmin of rows": lambda p, a: np.argmin(p, 1), "sum": lambda p, a: p.sum(0), "sum of rows": lambda p, a: p.sum(1),
    "linspace": lambda p, a: np.linspace(0, 1, p.shape[0]),
    "open": lambda p, a: np.linspace(1, 2, p.shape[1], endpoint=False),
    "broadcast": lambda p, a: np.broadcast_to(p, a.shape) + 0, "einsum": lambda p, a: np.einsum("ij,ij->ij", p, a),
    "write": lambda p, a: _written(a, p), "tile": lambda p, a: np.tile(p, (2, 1)),
    "pad": lambda p, a: np.pad(p, 1, mode="reflect"), "wrap": lambda p, a: np.pad(p, 2, mode="wrap"),
    "edge": lambda p, a: np.pad(p, 1, mode="edge"), "ravel": lambda p, a: _ravelled(p, a),
    "matmul": lambda p, a: p @ a.T, "stack": lambda p, a: np.concatenate([p, a]),
    "cumsum": lambda p, a: np.cumsum(p, 0), "diff": lambda p, a: np.diff(p, axis=0),
    "gradient": lambda p, a: np.gradient(p, axis=0), "ptp": lambda p, a: np.ptp(p, 0),
    "maximum": lambda p, a: np.maximum(p, a[:1]), "outer": lambda p, a: np.outer(p[0], a[0]),
    "roll": lambda p, a: np.roll(p, 1, 0) - a[:, :1], "logspace": lambda p, a: np.logspace(0, 1, p.shape[0]),
    "gram": lambda p, a: p.T @ p, "vector": lambda p, a: p[:, 0] @ p, "cumprod": lambda p, a: np.cumprod(p, 1),
}  # fmt: skip


def _written(a: Any, p: Any) -> Any:
    b = a * 2
    b[:] = p
    return b


def _ravelled(p: Any, a: Any) -> Any:
    b = a + 0
    b[: p.shape[0], : p.shape[1]].ravel()[0] = 99
    return b


def outcome(f: Callable[..., Any], x: Any) -> Any:
    try:
        return f(x)
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:
        if isinstance(error, NotImplementedError):
            raise
        return "raises"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_function_at_every_size_means_what_numpy_means(name: str, part: str):
    def f(a: Any) -> Any:
        return OPERATIONS[name](PARTS[part](a), a)

    for sizes, dynamic in ((SIZES, None), (SIZES[::-1], True)):
        g = tj.jit(f, dynamic_shapes=dynamic)
        for shape in sizes:
            x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) % 7 + 0.5
            with np.errstate(all="ignore"):
                want = outcome(f, x)
            got = outcome(g, x)
            if isinstance(want, str) or isinstance(got, str):
                assert isinstance(got, str), (shape, got)
                assert isinstance(want, str), (shape, want)
            else:
                assert got.shape == want.shape, shape
                np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=str(shape))
