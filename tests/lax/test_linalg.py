"""tj.lax.linalg against NumPy: in the operand's dtype, without checks."""

import itertools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

L = tj.lax.linalg
RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)


def test_triangular_solve_has_all_options_of_jax():
    b, wide, vector = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4)), RNG.normal(size=4)
    for left, lower, transposed, unit in itertools.product((False, True), repeat=4):
        options = {"left_side": left, "lower": lower, "transpose_a": transposed, "unit_diagonal": unit}
        t = np.tril(A) if lower else np.triu(A)
        if unit:
            t = t - np.diag(np.diag(t)) + np.eye(4)
        t = t.T if transposed else t
        for right in (b if left else wide, vector):
            x = tj.jit(lambda a, b, options=options: L.triangular_solve(a, b, **options))(A, right)
            np.testing.assert_allclose(t @ x if left else x @ t, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_results_are_of_the_operands_dtype(dtype: str):
    a = A.astype(dtype)
    symmetric = (a + a.T) / 2
    near = 1e-5 if dtype == "f4" else 1e-12

    def close(x: Any, want: Any) -> None:
        assert x.dtype == dtype
        np.testing.assert_allclose(x, want, rtol=near, atol=near * 8)

    close(tj.jit(lambda a: L.cholesky(a @ a.T))(a), np.linalg.cholesky(a @ a.T))
    v, w = tj.jit(lambda a: L.eigh(a))(a)
    close((v * w) @ v.T, symmetric)
    q, r = tj.jit(lambda a: L.qr(a))(a)
    close(q @ r, a)
    u, s, vt = tj.jit(lambda a: L.svd(a))(a)
    close((u * s) @ vt, a)
    close(tj.jit(lambda a: L.svd(a, compute_uv=False))(a), s)
    factors, pivots, permutation = tj.jit(lambda a: L.lu(a))(a)
    assert (pivots.dtype, permutation.dtype) == (np.int32, np.int32)
    close((np.tril(factors, -1) + np.eye(4, dtype=dtype)) @ np.triu(factors), a[permutation])


def test_what_has_no_answer_is_nan():
    assert np.isnan(tj.jit(lambda a: L.cholesky(a))(np.array([[1.0, 2], [2, 1]]))[1, 1])
    assert np.isnan(L.cholesky(-np.eye(2))).any()


def test_gradients_agree_with_finite_differences():
    def loss(a: Any) -> Any:
        factors, _, _ = L.lu(a)
        return np.sum(np.cos(factors)) + np.sum(np.sin(L.cholesky(a @ a.T)))

    got = tj.jit(tj.grad(loss))(A)
    direction = RNG.normal(size=(4, 4))
    h = 1e-6 * direction
    want = (loss(A + h) - loss(A - h)) / 2e-6
    np.testing.assert_allclose(np.sum(np.asarray(got) * direction), np.asarray(want), rtol=1e-6)


def test_what_is_not_supported_is_refused():
    with pytest.raises(UnsupportedError, match=r"tj\.lax\.linalg\.schur: sort_eig_vals is not supported"):
        tj.jit(lambda a: L.schur(a, sort_eig_vals=True))(A)
    with pytest.raises(DtypeError, match="computes in float32, float64 or complex numbers of these, not in i64"):
        tj.jit(lambda a: L.lu(a))(np.eye(2, dtype=int))
    with pytest.raises(ShapeError, match="takes square matrices"):
        tj.jit(lambda a: L.cholesky(a))(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="are no right-hand sides"):
        tj.jit(lambda a, b: L.triangular_solve(a, b, left_side=True))(A, np.ones((3, 3)))
