"""Arrays repeated, stacked and taken apart under JAX's names."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

lax = tj.lax
X = np.arange(6.0).reshape(2, 3)
CASES = {
    "tile": (lambda x: lax.tile(x, (2, 3)), np.tile(X, (2, 3))),
    "tile of nothing": (lambda x: lax.tile(x, (0, 1)), X[:0]),
    "stack": (lambda x: lax.stack([x, x], axis=-1), np.stack([X, X], -1)),
    "unstack": (lambda x: lax.unstack(x, axis=1), (X[:, 0], X[:, 1], X[:, 2])),
    "broadcast_to_rank": (lambda x: lax.broadcast_to_rank(x, 3), X[None]),
    "broadcast_to_rank as it is": (lambda x: lax.broadcast_to_rank(x, 1), X),
    "broadcast_like": (lambda x: lax.broadcast_like(x[0], x), np.stack([X[0]] * 2)),
    "shape_as_value": (lambda x: lax.shape_as_value(x.shape), np.array([2, 3], np.int32)),
    "empty": (lambda x: lax.empty((2,), np.float32), np.zeros(2, np.float32)),
    "optimization_barrier": (lambda x: lax.optimization_barrier((x, x + 1)), (X, X + 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_give_what_they_say(name: str):
    f: Any
    f, want = CASES[name]
    for got in (f(X), tj.jit(f)(X)):
        for g, w in zip(
            got if isinstance(want, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
        ):
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g, w)


def test_shapes_are_values_at_all_sizes():
    f = tj.jit(lambda x: lax.shape_as_value(x.shape))
    for n in (2, 3, 1, 0):
        assert list(f(np.zeros((n, 2)))) == [n, 2]


def test_shapes_are_broadcast_together():
    assert lax.broadcast_shapes((2, 1), (1, 3), ()) == (2, 3)
    assert lax.dtype(1.0) == np.float64
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        lax.broadcast_shapes((2,), (3,))


def test_what_does_not_fit_is_rejected():
    with pytest.raises(ShapeError, match="one number for each axis, not negative"):
        lax.tile(X, (2,))
    with pytest.raises(ShapeError, match="arrays of one shape"):
        lax.stack([X, X[0]])
    with pytest.raises(ShapeError, match="is not broadcast to"):
        lax.broadcast_like(X, X[0])
    with pytest.raises(DtypeError):
        lax.stack([X, X.astype(np.float32)])
    with pytest.raises(UnsupportedError, match="one device"):
        lax.full((2,), 1.0, sharding="x")
