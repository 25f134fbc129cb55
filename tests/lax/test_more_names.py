"""Halves of products, folds of bits, and decompositions that JAX has beside LAPACK's."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError, UserError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_the_upper_half_of_a_product(name: str):
    limits = np.iinfo(name)
    a, b = (RNG.integers(limits.min, limits.max, 99, dtype=name, endpoint=True) for _ in range(2))
    a[:3], b[:3] = [limits.min, limits.max, 0], [limits.min, limits.max, limits.min]
    want = [int(x) * int(y) >> (8 * a.itemsize) for x, y in zip(a, b, strict=True)]
    for call in (tj.lax.mulhi, tj.jit(lambda a, b: tj.lax.mulhi(a, b))):
        got = call(a, b)
        assert got.dtype == a.dtype
        assert [int(x) for x in got] == want
    with pytest.raises(DtypeError, match="takes integers"):
        tj.lax.mulhi(1.0, 2.0)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "?"])
def test_folds_of_bits(dtype: str):
    x = RNG.integers(0, 100, (4, 5, 3)).astype(dtype)
    for name, ufunc in (("xor", np.bitwise_xor), ("and", np.bitwise_and), ("or", np.bitwise_or)):
        f: Any = getattr(tj.lax, f"reduce_{name}")
        for axes in ((0,), (1, -1), (0, 1, 2), ()):
            want = ufunc.reduce(x, axes)
            for call in (f, tj.jit(lambda x, axes=axes, f=f: f(x, axes))):
                got = np.asarray(call(x, axes) if call is f else call(x))
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(tj.vmap(lambda v, f=f: f(v, (0,)))(x), ufunc.reduce(x, 1))
        with pytest.raises(DtypeError, match="takes bool and integers"):
            f(np.ones(2), (0,))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [float, complex])
def test_the_packed_form_of_hessenberg(dtype: Any, n: int):
    a = RNG.standard_normal((2, n, n)).astype(dtype)
    if dtype is complex:
        a = a + 1j * RNG.standard_normal((2, n, n))
    for call in (tj.lax.linalg.hessenberg, tj.jit(lambda a: tj.lax.linalg.hessenberg(a))):
        packed, taus = call(a)
        assert taus.shape == (2, max(n - 1, 0))
        for x, p, tau in zip(a, packed, taus, strict=True):
            q = np.eye(n, dtype=dtype)
            for k in range(n - 1):
                v = np.concatenate([np.zeros(k + 1), [1], p[k + 2 :, k]])
                q = q @ (np.eye(n) - tau[k] * np.outer(v, v.conj()))
            np.testing.assert_allclose(q @ np.triu(p, -1) @ q.conj().T, x, atol=1e-12)
    mapped = tj.vmap(tj.lax.linalg.hessenberg)(a)
    np.testing.assert_allclose(mapped[0], tj.lax.linalg.hessenberg(a)[0])
    if n:
        with pytest.raises(UnsupportedError, match="no derivative"):
            tj.grad(lambda a: tj.lax.linalg.hessenberg(a)[0].sum().real)(a.real)


def test_a_factor_after_a_change_of_rank_one():
    for n in (1, 2, 7):
        a = RNG.standard_normal((n, n))
        r, w = np.linalg.cholesky(a @ a.T + np.eye(n)).T, RNG.standard_normal(n)
        want = np.linalg.cholesky(r.T @ r + np.outer(w, w)).T
        for call in (tj.lax.linalg.cholesky_update, tj.jit(lambda r, w: tj.lax.linalg.cholesky_update(r, w))):
            np.testing.assert_allclose(call(r, w), want, atol=1e-12)
        got = tj.grad(lambda w, r=r: tj.lax.linalg.cholesky_update(r, w).sum())(w)
        whole = tj.grad(lambda w, r=r: np.linalg.cholesky(r.T @ r + np.outer(w, w)).sum())(w)
        np.testing.assert_allclose(got, whole, atol=1e-10)
    with pytest.raises(ShapeError, match="go together"):
        tj.lax.linalg.cholesky_update(np.eye(3), np.ones(2))


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (6, 3)])
def test_polar_factors_by_iteration(shape: tuple[int, int]):
    x = RNG.standard_normal(shape)
    for a in (x, x + 1j * RNG.standard_normal(shape), x * 1e-5):
        for call in (tj.lax.linalg.qdwh, tj.jit(lambda a: tj.lax.linalg.qdwh(a))):
            u, h, count, done = call(a)
            assert done
            assert 1 <= count <= 8
            np.testing.assert_allclose(u @ h, a, atol=1e-12 * np.abs(a).max())
            np.testing.assert_allclose(u.conj().T @ u, np.eye(shape[1]), atol=1e-12)
            assert np.all(np.linalg.eigvalsh(h) > 0)
    assert not tj.lax.linalg.qdwh(x, max_iterations=1)[3]
    with pytest.raises(ShapeError, match="as many rows"):
        tj.lax.linalg.qdwh(np.ones((2, 3)))


def test_a_product_is_made_symmetric_where_asked():
    a, c = RNG.standard_normal((3, 2)), RNG.standard_normal((3, 3))
    got = tj.lax.linalg.symmetric_product(a, c, beta=0.5, symmetrize_output=True)
    lower = np.tril(a @ a.T + 0.5 * c)
    np.testing.assert_allclose(got, lower + np.tril(lower, -1).T)


def test_loops_and_branches_take_the_names_of_jax():
    got = tj.lax.fori_loop(lower=0, upper=4, body_fun=lambda i, c: c + i, init_val=np.zeros(2), unroll=2)
    assert list(got) == [6.0, 6.0]
    f = tj.jit(lambda i, x: tj.lax.switch(i, [np.sin, np.cos], operand=x))
    assert f(1, 0.0) == 1.0
    with pytest.raises(UserError, match="one by name"):
        tj.lax.switch(0, [np.sin], 1.0, operand=2.0)
    assert tj.lax.composite(lambda x, k=1: x * k, "mine", version=2)(2.0, k=5) == 10.0
    assert tj.lax.concatenate(operands=[np.ones(2), np.ones(1)], dimension=0).shape == (3,)
    assert tj.lax.squeeze(array=np.ones((1, 2)), dimensions=(0,)).shape == (2,)
    assert tj.lax.expand_dims(array=np.ones(2), dimensions=(0,)).shape == (1, 2)
    assert tj.lax.stack(operands=[np.ones(2)] * 3).shape == (3, 2)
