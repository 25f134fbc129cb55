"""np.linalg's decompositions of complex matrices, against NumPy; derivatives against finite differences."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.numpy.test_decompositions import check_outcome

FUNCTIONS = {
    "cholesky": lambda a: np.linalg.cholesky(a @ a.mT.conj() + np.eye(a.shape[-1])),
    "cholesky, upper": lambda a: np.linalg.cholesky(a @ a.mT.conj() + np.eye(a.shape[-1]), upper=True),
    "det": lambda a: np.linalg.det(a),
    "eigvalsh": lambda a: np.linalg.eigvalsh(a),
    "eigvalsh, U": lambda a: np.linalg.eigvalsh(a, "U"),
    "inv": lambda a: np.linalg.inv(a),
    "lstsq": lambda a: np.linalg.lstsq(a[:, :2], a[:, 1:]),
    "matrix_rank": lambda a: np.linalg.matrix_rank(a),
    "norm, nuc": lambda a: np.linalg.norm(a, "nuc", (-2, -1)),
    "pinv": lambda a: np.linalg.pinv(a),
    "pinv, hermitian": lambda a: np.linalg.pinv(a + a.mT.conj(), rcond=1e-9, hermitian=True),
    "qr": lambda a: np.linalg.qr(a),
    "qr, complete": lambda a: np.linalg.qr(a[..., :2], "complete"),
    "slogdet": lambda a: np.linalg.slogdet(a),
    "solve": lambda a: np.linalg.solve(a, a[..., :2].real),
    "solve, real": lambda a: np.linalg.solve(np.eye(a.shape[-1]) * 2, a),
    "svdvals": lambda a: np.linalg.svdvals(a),
}


def matrices(shape: tuple[int, ...], dtype: str = "c16", seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compiled_function_agrees_with_numpy_for_all_sizes(name: str):
    f = FUNCTIONS[name]
    compiled = tj.jit(f)
    sizes = ((3, 3), (5, 5), (0, 0), (1, 1), (2, 4, 4))
    for shape in sizes if "," not in name and name != "lstsq" else ((3, 3), (4, 4)):
        check_outcome(f, compiled, matrices(shape))


@pytest.mark.parametrize("name", ["inv", "svdvals", "qr", "slogdet", "eigvalsh"])
def test_single_precision_is_rounded_at_the_end(name: str):
    f = FUNCTIONS[name]
    check_outcome(f, tj.jit(f), matrices((3, 3), "c8"), near=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 3), (34, 34)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_vectors_are_orthonormal_and_give_the_matrix(shape: tuple[int, ...], full: bool):
    a = matrices(shape)
    u, s, vh = tj.jit(lambda a: np.linalg.svd(a, full_matrices=full))(a)
    want = np.linalg.svd(a, full_matrices=full)
    assert [x.shape for x in (u, s, vh)] == [x.shape for x in want]
    np.testing.assert_allclose(s, want.S, atol=1e-12)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-12)
    for x in (u.mT.conj() @ u, vh @ vh.mT.conj()):
        np.testing.assert_allclose(x, np.broadcast_to(np.eye(x.shape[-1]), x.shape), atol=1e-12)


def test_singular_vectors_of_a_singular_matrix():
    a = matrices((4, 2)) @ matrices((2, 4))
    u, s, vh = tj.jit(lambda a: np.linalg.svd(a))(a)
    np.testing.assert_allclose((u * s) @ vh, a, atol=1e-12)
    np.testing.assert_allclose(u.mT.conj() @ u, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3), (20, 20)])
def test_eigenvectors_of_hermitian_matrices_of_which_one_triangle_is_read(shape: tuple[int, ...], uplo: str):
    a = matrices(shape)
    w, v = tj.jit(lambda a: np.linalg.eigh(a, uplo))(a)
    want = np.linalg.eigh(a, uplo)
    np.testing.assert_allclose(w, want.eigenvalues, atol=1e-12)
    kept = np.tril(a, -1) if uplo == "L" else np.triu(a, 1)
    full = kept + kept.mT.conj() + np.eye(shape[-1]) * a.real
    np.testing.assert_allclose(full @ v, v * w[..., None, :], atol=1e-12)
    np.testing.assert_allclose(v.mT.conj() @ v, np.broadcast_to(np.eye(shape[-1]), shape), atol=1e-12)
    greatest = np.take_along_axis(v, np.argmax(np.abs(v), -2)[..., None, :], -2)
    np.testing.assert_allclose(greatest.imag, 0, atol=1e-14)
    assert np.all(greatest.real > 0)


def test_failures_have_numpys_text():
    for f, a in ((np.linalg.inv, np.zeros((2, 2)) + 0j), (np.linalg.cholesky, -np.eye(2) + 0j)):
        check_outcome(f, tj.jit(lambda a, f=f: f(a)), a)


SCALARS = {
    "cholesky": lambda a: np.sum(np.cos(np.linalg.cholesky(a @ a.mT.conj() + np.eye(3)).real)),
    "det": lambda a: np.abs(np.linalg.det(a)),
    "eigh": lambda a: np.sum(np.sin(np.linalg.eigh(a @ a.mT.conj()).eigenvectors.imag)),
    "inv": lambda a: np.sum(np.linalg.inv(a).real ** 2),
    "qr": lambda a: np.sum(np.sin(np.linalg.qr(a).Q.imag)) + np.sum(np.cos(np.linalg.qr(a).R.real)),
    "slogdet": lambda a: np.linalg.slogdet(a).logabsdet,
    "solve": lambda a: np.sum(np.linalg.solve(a, a.mT[:, :2]).imag),
    "svd": lambda a: np.sum(np.sin(np.linalg.svd(a).U.imag)) + np.sum(np.cos(np.linalg.svd(a).Vh.real)),
    "svd, wide": lambda a: np.sum(np.sin(np.linalg.svd(a[:2], full_matrices=False).Vh.imag)),
}


@pytest.mark.parametrize("name", SCALARS)
def test_gradients_agree_with_finite_differences(name: str):
    f, a = SCALARS[name], matrices((3, 3), seed=3)
    found = tj.jit(tj.grad(f))(a)
    compiled, step = tj.jit(f), 1e-6
    want = np.zeros_like(a)
    for at in np.ndindex(3, 3):
        for unit in (1, 1j):
            change = np.zeros_like(a)
            change[at] = step * unit
            slope = (compiled(a + change) - compiled(a - change)) / (2 * step)
            want[at] += slope if unit == 1 else -1j * slope  # cotangents are not conjugated
    np.testing.assert_allclose(found, want, atol=2e-7 * max(1.0, np.abs(want).max()))
