"""Covariances and correlations, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

RNG = np.random.default_rng(0)
X, Y = RNG.random((3, 6)), RNG.random((2, 6))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: np.cov(x), (X,)),
        (lambda x: np.cov(x, bias=True), (X[0],)),
        (lambda x, y: np.cov(x, y, ddof=2), (X, Y)),
        (lambda x, y: np.cov(x, y, rowvar=False), (X.T.copy(), Y.T.copy())),
        (lambda x, y: np.cov(x, y, rowvar=False), (X[0], Y[1])),
        (lambda x: np.cov(x, fweights=[1, 2, 0, 3, 1, 1]), (X,)),
        (lambda x, w: np.cov(x, aweights=w), (X, Y[0])),
        (lambda x, w: np.cov(x, aweights=w, fweights=[1, 2, 0, 3, 1, 1], ddof=0), (X, Y[0])),
        (lambda x, w: np.cov(x, aweights=w, fweights=[1, 2, 0, 3, 1, 1]), (X, Y[0])),
        (lambda x: np.cov(x, dtype=np.float32), (X,)),
        (lambda x: np.cov(x), (np.arange(6).reshape(2, 3),)),
        (lambda x: np.cov(x), (np.zeros((0, 4)),)),
        (lambda x: np.corrcoef(x), (X,)),
        (lambda x, y: np.corrcoef(x, y), (X[0], Y[0])),
        (lambda x: np.corrcoef(x), (X[0],)),
        (lambda x: np.corrcoef(x, rowvar=False), (X,)),
    ],
)
def test_variables_vary_together_as_numpys(function: Any, args: Any):
    got, want = tj.jit(function)(*args), function(*args)
    assert (np.shape(got), np.asarray(got).dtype) == (np.shape(want), np.asarray(want).dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5 if want.dtype == np.float32 else 1e-12, atol=1e-14)


def test_one_program_takes_more_observations():
    f = tj.jit(lambda x, y: (np.cov(x, y), np.corrcoef(x)))
    for n in (6, 9, 2, 40):
        x, y = RNG.random((3, n)), RNG.random(n)
        for got, want in zip(f(x, y), (np.cov(x, y), np.corrcoef(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def test_correlations_have_derivatives_and_batches():
    def loss(x: Any) -> Any:
        return (np.corrcoef(x) ** 2).sum() + np.cov(x, aweights=[1.0, 2, 1, 1, 1, 3])[0, 1]

    got = tj.jit(tj.grad(loss))(X)
    want = np.empty_like(X)
    for k in np.ndindex(X.shape):
        h = np.zeros_like(X)
        h[k] = 1e-6
        want[k] = (loss(X + h) - loss(X - h)) / 2e-6
    np.testing.assert_allclose(got, want, atol=1e-7)
    many = RNG.random((4, 3, 6))
    np.testing.assert_allclose(tj.jit(tj.vmap(lambda x: np.cov(x)))(many), [np.cov(x) for x in many], rtol=1e-10)


def test_bad_weights_are_refused():
    f = tj.jit(lambda x, w: np.cov(x, aweights=w))
    with pytest.raises(ValueError, match="cannot be negative"):
        f(X, -Y[0])
    with pytest.raises(ShapeError, match="incompatible numbers"):
        f(X, Y[0, :5])
    with pytest.raises(ShapeError, match="multidimensional"):
        f(X, Y)
    with pytest.raises(DtypeError, match="must be integer"):
        tj.jit(lambda x, w: np.cov(x, fweights=w))(X, Y[0])
    with pytest.raises(ShapeError, match="more than 2 dimensions"):
        tj.jit(lambda x: np.cov(x))(np.ones((2, 2, 2)))
