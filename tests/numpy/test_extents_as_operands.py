"""Extents among operands count as Python's integers do, also in the version for all sizes: dtypes, values, bytes."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "r_": lambda x, n: (np.r_[x, n], np.r_[n, x, 2], np.r_[x[0], n], np.r_[x, n + 1, n]),
    "percentile": lambda x, n: (
        np.percentile(x, n),
        np.percentile(x, n > 2),
        np.quantile(x, n > 2),
        np.nanpercentile(x, n),
        np.quantile(x, 1 / n),
    ),
    "pickle": lambda x, n: (pickle.dumps(n), pickle.dumps([n, {"n": (n,)}]), pickle.dumps(slice(n)), x.sum()),
    "joined": lambda x, n: (np.append(x, n), np.hstack([x, n]), np.insert(x, 1, n), np.array([n, x[0]])),
    "lists": lambda x, n: (np.array([n, n]), np.array([n, 2.5]), np.full(2, n), np.full_like(x, n)),
    "filled": lambda x, n: (np.where(x > 1, x, n), np.select([x > 1], [x], n), np.pad(x, 1, constant_values=n)),
    "folds": lambda x, n: (np.sum(x, initial=n), np.max(x, initial=n), np.interp(n, x, x), np.diff(x, append=n)),
    "ranges": lambda x, n: (np.linspace(0, n, 3), np.arange(0.5, n), np.eye(n), np.trapezoid(x, dx=n)),
    "numbers": lambda x, n: (np.float32(n), np.int8(n), float(n), complex(n), round(n / 3, 2), divmod(x, n)),
    "operators": lambda x, n: (n * x, x / n, n / x, x**n, n - x, x % n, n / 2 * x, x > n, abs(-n) * x),
}


def same(found: Any, right: Any) -> None:
    for a, b in zip(found, right, strict=True):
        if isinstance(b, bytes):
            assert a == b
        elif isinstance(b, tuple):
            same(a, b)
        else:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol=1e-2 if np.asarray(b).dtype == np.float16 else 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_pythons_integers(name: str, dtype: Any):
    function = FUNCTIONS[name]
    f = tj.jit(lambda x: function(x, len(x)))
    for n in (3, 4, 5):
        x = np.arange(1, n + 1).astype(dtype)
        same(f(x), function(x, n))


def test_operands_of_lax():
    lax = tj.lax
    f = tj.jit(lambda x: (lax.mul(x, len(x)), lax.pow(x, len(x)), lax.clamp(1, x, len(x)), lax.add(x, 2)))
    for dtype in (np.float32, np.int32):
        for n in (3, 4, 5):
            x = np.arange(1, n + 1).astype(dtype)
            same(f(x), (x * n, x**n, np.clip(x, 1, n), x + 2))
