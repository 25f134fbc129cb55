"""Eigenvalues of general matrices and the forms behind them, against SciPy; derivatives against finite differences."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.scipy.linear_algebra import scipy_linalg
from tracejit.support.errors import LinearAlgebraError, UnsupportedError

SIZES = [(1, 1), (2, 2), (3, 3), (6, 6), (13, 13), (2, 4, 4), (0, 0)]


def matrix(*shape: int, dtype: str = "f8", seed: int = 1) -> Any:
    rng = np.random.default_rng([seed, *shape])
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype[0] == "c" else x).astype(dtype)


def each(f: Any, *stacks: Any) -> list[Any]:
    """What SciPy's function of single matrices gives, stacked."""
    lead = stacks[0].shape[:-2]
    found = [f(*[s[at] for s in stacks]) for at in np.ndindex(*lead)]
    found = [x if isinstance(x, tuple) else (x,) for x in found]
    return [np.reshape(np.stack(x), (*lead, *x[0].shape)) for x in zip(*found, strict=True)]


def in_order(w: Any) -> Any:
    return np.take_along_axis(w, np.argsort(np.round(w.real, 8) + 1e-3 * w.imag, -1), -1)


SCHUR = tj.jit(lambda a: scipy_linalg.schur(a))
EIG = tj.jit(lambda a: np.linalg.eig(a))
HESSENBERG = tj.jit(lambda a: scipy_linalg.hessenberg(a, calc_q=True))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", SIZES)
def test_forms_agree_with_scipys_up_to_phases(shape: tuple[int, ...], dtype: str):
    a = matrix(*shape, dtype=dtype)
    for compiled, f in (
        (SCHUR, scipy_linalg.schur),
        (HESSENBERG, lambda a: scipy_linalg.hessenberg(a, calc_q=True)),
    ):
        form, q = compiled(a)
        np.testing.assert_allclose(q @ form @ q.mT.conj(), a, atol=1e-12)
        np.testing.assert_allclose(q.mT.conj() @ q, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-12)
        assert form.dtype == q.dtype == a.dtype
        if shape[-1]:
            want = each(f, a)[0]
            diagonals = [np.diagonal(x, axis1=-2, axis2=-1) for x in (form, want)]
            np.testing.assert_allclose(*diagonals, atol=1e-10)  # in this order
            if dtype == "c16":  # blocks of two rows have two normal forms
                np.testing.assert_allclose(np.abs(form), np.abs(want), atol=1e-10)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", SIZES)
def test_eigenvalues_and_vectors_agree_with_numpys(shape: tuple[int, ...], dtype: str):
    a = matrix(*shape, dtype=dtype)
    w, v = found = EIG(a)
    want = np.linalg.eig(a)
    assert type(found) is type(want)
    assert w.dtype == v.dtype == "c16"
    np.testing.assert_allclose(in_order(w), in_order(want.eigenvalues), atol=1e-10)  # NumPy balances matrices
    np.testing.assert_allclose(a @ v, v * w[..., None, :], atol=1e-10)
    if shape[-1]:
        np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1)
        greatest = np.take_along_axis(v, np.argmax(np.abs(v), -2)[..., None, :], -2)
        np.testing.assert_allclose(greatest.imag, 0, atol=1e-14)
        assert np.all(greatest.real > 0)
    np.testing.assert_allclose(tj.jit(lambda a: np.linalg.eigvals(a))(a), w, atol=1e-10)


def test_special_matrices_have_their_eigenvalues():
    turn = np.roll(np.eye(5), 1, axis=0)  # all shifts are alike, so that others are needed
    jordan = np.eye(4) * 2 + np.eye(4, k=1)
    others = np.zeros((3, 3)), np.eye(3), np.diag([3.0, 1, 2]), np.array([[0.0, 1], [-1, 0]])
    for a in (turn, turn + 0j, jordan, *others):
        w, v = EIG(a)
        want = np.linalg.eigvals(a).astype(complex)
        near = 1e-3 if a is jordan else 1e-12
        assert np.max(np.min(np.abs(w[:, None] - want), axis=1)) < near
        assert np.max(np.min(np.abs(w[:, None] - want), axis=0)) < near
        np.testing.assert_allclose(a @ v, v * w, atol=1e-10)
        np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1)


def test_single_precision_is_that_of_the_namespace():
    a = matrix(3, 3, dtype="f4")
    assert EIG(a).eigenvalues.dtype == "c8"
    np.testing.assert_allclose(EIG(a).eigenvalues, np.linalg.eigvals(a), atol=1e-5)
    t, z = SCHUR(a)
    assert t.dtype == "f4"
    np.testing.assert_allclose(z @ t @ z.T, a, atol=1e-5)


def test_what_is_not_finite_is_an_error_of_numpys_and_nan_of_jaxs():
    a = np.array([[1.0, np.nan], [0, 1]])
    for f in (EIG, np.linalg.eig):
        with pytest.raises(np.linalg.LinAlgError, match="Array must not contain infs or NaNs") as error:
            f(a)
    assert isinstance(error.value, np.linalg.LinAlgError)
    assert issubclass(LinearAlgebraError, np.linalg.LinAlgError)
    assert all(np.isnan(x).all() for x in tj.jit(lambda a: tj.lax.linalg.eig(a))(a))


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_vectors_of_the_left_side(dtype: str):
    a, b = matrix(4, 4, dtype=dtype), matrix(4, 4, dtype=dtype, seed=2)
    w, left, right = tj.jit(lambda a: tj.lax.linalg.eig(a))(a)
    np.testing.assert_allclose(left.conj().T @ a, w[:, None] * left.conj().T, atol=1e-12)
    np.testing.assert_allclose(a @ right, right * w, atol=1e-12)
    w, left, right = tj.jit(lambda a, b: scipy_linalg.eig(a, b, left=True))(a, b)
    np.testing.assert_allclose(left.conj().T @ a, w[:, None] * (left.conj().T @ b), atol=1e-11)
    np.testing.assert_allclose(a @ right, b @ right * w, atol=1e-11)
    values = tj.jit(lambda a, b: scipy_linalg.eigvals(a, b))(a, b)
    np.testing.assert_allclose(values, w, atol=1e-12)


def test_real_forms_become_complex_ones():
    for shape in ((1, 1), (2, 2), (7, 7), (2, 4, 4)):
        t, z = each(scipy_linalg.schur, matrix(*shape))
        found = tj.jit(lambda t, z: scipy_linalg.rsf2csf(t, z))(t, z)
        for x, y in zip(found, each(scipy_linalg.rsf2csf, t, z), strict=True):
            np.testing.assert_allclose(np.abs(x), np.abs(y), atol=1e-10)
    t, z = tj.jit(lambda a: scipy_linalg.schur(a, output="complex"))(matrix(5, 5))
    np.testing.assert_allclose(np.tril(t, -1), 0)
    np.testing.assert_allclose(z @ t @ z.conj().T, matrix(5, 5), atol=1e-12)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 3)])
def test_tridiagonal_forms(shape: tuple[int, ...], dtype: str, lower: bool):
    a = matrix(*shape, dtype=dtype)
    a = a + a.mT.conj()
    read = np.tril(a) if lower else np.triu(a)
    packed, d, e, taus = tj.jit(lambda a: tj.lax.linalg.tridiagonal(a, lower=lower))(read)
    assert (d.dtype, e.dtype, taus.dtype) == ("f8", "f8", dtype)
    for at in np.ndindex(*shape[:-2]):
        full = np.diag(d[at]) + np.diag(e[at], 1) + np.diag(e[at], -1)
        np.testing.assert_allclose(np.linalg.eigvalsh(full), np.linalg.eigvalsh(a[at]), atol=1e-12)
        x = packed[at] if lower else packed[at][::-1, ::-1]
        q = np.eye(shape[-1], dtype=dtype)
        for k, tau in enumerate(taus[at] if lower else taus[at][::-1]):
            v = np.concatenate([np.zeros(k + 1), [1], x[k + 2 :, k]])
            q = q @ (np.eye(shape[-1]) - tau * np.outer(v, v.conj()))
        given, form = (a[at], full) if lower else (a[at][::-1, ::-1], full[::-1, ::-1])
        np.testing.assert_allclose(q @ form @ q.conj().T, given, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (6, 6), (2, 4, 4)])
def test_square_roots(shape: tuple[int, ...], dtype: str):
    a = matrix(*shape, dtype=dtype)
    x = tj.jit(lambda a: scipy_linalg.sqrtm(a))(a)
    assert x.dtype == "c16"
    np.testing.assert_allclose(x, each(scipy_linalg.sqrtm, a)[0], atol=1e-10)
    np.testing.assert_allclose(tj.scipy.linalg.sqrtm(a), x, atol=1e-12)


def test_the_square_root_of_nothing():
    f = tj.jit(lambda a: scipy_linalg.sqrtm(a))
    np.testing.assert_array_equal(f(np.zeros((3, 3))), 0)
    assert f(np.zeros((0, 0))).shape == (0, 0)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_sylvesters_equation(dtype: str):
    f = tj.jit(lambda a, b, q: scipy_linalg.solve_sylvester(a, b, q))
    for m, n in ((1, 1), (3, 2), (5, 6)):
        a, b, q = (matrix(*s, dtype=dtype) for s in ((m, m), (n, n), (m, n)))
        x = f(a, b, q)
        assert x.dtype == dtype
        np.testing.assert_allclose(x, scipy_linalg.solve_sylvester(a, b, q), atol=1e-10)
    stack = matrix(4, 3, 2, dtype=dtype)
    x = f(matrix(3, 3, dtype=dtype), matrix(2, 2, dtype=dtype), stack)
    np.testing.assert_allclose(matrix(3, 3, dtype=dtype) @ x + x @ matrix(2, 2, dtype=dtype), stack, atol=1e-10)
    assert np.isnan(tj.scipy.linalg.solve_sylvester(np.eye(2), -np.eye(2), np.ones((2, 2)))).all()


SCALARS = {
    "eigvals": lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 3),
    "eig": lambda a: np.sum(np.sin(np.linalg.eig(a).eigenvectors.real)) + np.linalg.eig(a).eigenvectors[0, 1].imag,
    "sqrtm": lambda a: np.sum(np.cos(scipy_linalg.sqrtm(a).real)) + np.sum(scipy_linalg.sqrtm(a).imag),
    "solve_sylvester": lambda a: np.sum(np.abs(scipy_linalg.solve_sylvester(a, a[:2, :2], a[:, :2]))),
}


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", SCALARS)
def test_gradients_agree_with_finite_differences(name: str, dtype: str):
    f, a = SCALARS[name], matrix(4, 4, dtype=dtype, seed=5)
    found, compiled = tj.jit(tj.grad(f))(a), tj.jit(f)
    want, step = np.zeros_like(a), 1e-6
    for at in np.ndindex(4, 4):
        for unit in (1, 1j) if dtype == "c16" else (1,):
            change = np.zeros_like(a)
            change[at] = step * unit
            slope = (compiled(a + change) - compiled(a - change)) / (2 * step)
            want[at] += slope if unit == 1 else -1j * slope  # cotangents are not conjugated
    np.testing.assert_allclose(found, want, atol=2e-7 * max(1.0, np.abs(want).max()))


def test_batches_by_vmap():
    a = matrix(3, 4, 4)
    np.testing.assert_allclose(tj.vmap(lambda a: np.linalg.eigvals(a))(a), tj.numpy.linalg.eigvals(a), atol=1e-12)
    np.testing.assert_allclose(
        tj.vmap(lambda a, q: scipy_linalg.solve_sylvester(a, np.eye(4), q), in_axes=(None, 0))(a[0], a),
        tj.scipy.linalg.solve_sylvester(a[0], np.eye(4), a), atol=1e-12,
    )  # fmt: skip


def test_forms_have_no_derivative():
    for f in (lambda a: scipy_linalg.schur(a)[0], scipy_linalg.hessenberg, lambda a: tj.lax.linalg.tridiagonal(a)[1]):
        with pytest.raises(UnsupportedError, match="has no derivative with respect to the matrix"):
            tj.grad(lambda a, f=f: np.sum(f(a)))(matrix(3, 3))
