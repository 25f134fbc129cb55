"""tj.lax.linalg: exchanges of rows, reflections, tridiagonal systems and subsets of eigenvalues."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

L = tj.lax.linalg
RNG = np.random.default_rng(0)


def reflections(m: int, n: int) -> tuple[Any, Any, Any]:
    """(vectors below the diagonal, factors, their product), by Householder's method in NumPy."""
    a, q = RNG.normal(size=(m, n)), np.eye(m)
    packed, taus = a.copy(), np.zeros(min(m, n))
    for k in range(min(m, n)):
        v = packed[k:, k].copy()
        top = -np.copysign(np.linalg.norm(v), v[0])
        taus[k] = (top - v[0]) / top
        v = v / (v[0] - top)
        v[0] = 1.0
        h = np.eye(m)
        h[k:, k:] -= taus[k] * np.outer(v, v)
        packed, q = h @ packed, q @ h
        packed[k + 1 :, k] = 0.0
        a[k + 1 :, k] = v[1:]
    return a, taus, q


@pytest.mark.parametrize(("m", "n"), [(5, 3), (4, 4), (1, 1)])
def test_products_of_reflections(m: int, n: int):
    a, taus, q = reflections(m, n)
    np.testing.assert_allclose(tj.jit(lambda a, t: L.householder_product(a, t))(a, taus), q[:, :n], atol=1e-12)
    c = RNG.normal(size=(m, 2))
    for left, transposed in ((True, False), (True, True), (False, False), (False, True)):
        t = q.T if transposed else q
        operand = c if left else c.T
        got = tj.jit(lambda a, s, c, o=(left, transposed): L.ormqr(a, s, c, left=o[0], transpose=o[1]))(
            a, taus, operand
        )
        np.testing.assert_allclose(got, t @ operand if left else operand @ t, atol=1e-12)
    stack = tj.jit(tj.vmap(lambda a: L.householder_product(a, taus)))(np.stack([a, a]))
    np.testing.assert_allclose(stack[1], q[:, :n], atol=1e-12)


def test_exchanges_make_a_permutation():
    pivots = np.array([[2, 2, 3], [0, 1, 2]], np.int32)
    got = tj.jit(lambda p: L.lu_pivots_to_permutation(p, 4))(pivots)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [[2, 0, 3, 1], [0, 1, 2, 3]])
    a = RNG.normal(size=(6, 6))
    _, pivots, order = tj.jit(lambda a: L.lu(a))(a)
    np.testing.assert_array_equal(L.lu_pivots_to_permutation(pivots, 6), order)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tridiagonal_systems(dtype: str):
    solve = tj.jit(lambda *xs: L.tridiagonal_solve(*xs))
    for n in (1, 2, 3, 40):
        dl, d, du = RNG.normal(size=(3, n)).astype(dtype)
        b = RNG.normal(size=(n, 2)).astype(dtype)
        full = np.diag(d + 3) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
        got = solve(dl, d + dtype_of(dtype)(3), du, b)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.linalg.solve(full, b), rtol=1e-4 if dtype == "f4" else 1e-10, atol=1e-6)


def dtype_of(code: str) -> Any:
    return np.dtype(code).type


def test_a_pivot_of_zero_is_exchanged():
    dl, d, du = np.array([9.0, 1, 2]), np.zeros(3) + [0, 0, 1], np.array([1.0, 3, 9])
    full = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    got = tj.jit(lambda b: L.tridiagonal_solve(dl, d, du, b))(np.ones((3, 1)))
    np.testing.assert_allclose(full @ got, np.ones((3, 1)), atol=1e-12)


def test_stacks_of_bidiagonal_systems():
    """Their rows have two elements, which are read from one array at two places."""
    rows, sides = RNG.normal(size=(4, 3, 2)) + 3, RNG.normal(size=(4, 3, 4))
    from tracejit.lax.banded import back_substituted

    got = tj.jit(lambda r, s: back_substituted(r, s))(rows, sides)
    for k in range(3):
        full = np.diag(rows[:, k, 0]) + np.diag(rows[:-1, k, 1], 1)
        np.testing.assert_allclose(got[:, k], np.linalg.solve(full, sides[:, k]), rtol=1e-12)


def test_subsets_of_eigenvalues_and_symmetric_products():
    a = RNG.normal(size=(5, 5))
    v, w = tj.jit(lambda a: L.eigh(a, subset_by_index=(1, 3)))(a + a.T)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a + a.T)[1:3], atol=1e-12)
    np.testing.assert_allclose((a + a.T) @ v, v * w, atol=1e-12)
    got = tj.jit(lambda a, c: L.symmetric_product(a, c, alpha=2.0, beta=3.0))(a[:, :2], a + a.T)
    np.testing.assert_allclose(got, 2 * a[:, :2] @ a[:, :2].T + 3 * (a + a.T), atol=1e-12)


def test_what_is_not_supported_is_refused():
    v = np.ones(3)
    with pytest.raises(UnsupportedError, match="perturb_singular is not supported"):
        L.tridiagonal_solve(v, v, v, np.ones((3, 1)), perturb_singular=True)
    with pytest.raises(ShapeError, match=r"takes diagonals of one shape"):
        L.tridiagonal_solve(v, v, v[:2], np.ones((3, 1)))
    with pytest.raises(DtypeError, match="computes in float32, float64 or complex"):
        L.tridiagonal_solve(*np.ones((3, 3), int), np.ones((3, 1), int))
    with pytest.raises(ShapeError, match="are no factors of the reflections"):
        L.householder_product(np.ones((3, 2)), v)
    with pytest.raises(ShapeError, match="are no exchanges of 2 rows"):
        L.lu_pivots_to_permutation(np.ones(3, int), 2)
    with pytest.raises(ShapeError, match="is not within 3 eigenvalues"):
        L.eigh(np.eye(3), subset_by_index=(2, 5))


@pytest.mark.parametrize("algorithm", [None, *tj.lax.linalg.SvdAlgorithm])
def test_singular_values_by_any_algorithm_and_some_of_them(algorithm: Any):
    x = np.random.default_rng(0).normal(size=(5, 3))
    left, s, right = tj.lax.linalg.svd(x, full_matrices=False, algorithm=algorithm)
    np.testing.assert_allclose(left * s @ right, x, atol=1e-12)
    some = tj.lax.linalg.svd(x, full_matrices=False, subset_by_index=(0, 2), algorithm=algorithm)
    for got, want in zip(some, (left[:, :2], s[:2], right[:2]), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
    values = tj.lax.linalg.svd(x, compute_uv=False, subset_by_index=(1, 3))
    np.testing.assert_allclose(values, s[1:], atol=1e-12)
    with pytest.raises(ShapeError, match="cannot both be set"):
        tj.lax.linalg.svd(x, subset_by_index=(0, 2))
