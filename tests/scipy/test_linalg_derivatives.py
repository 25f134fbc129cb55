"""Derivatives of SciPy's linear algebra against finite differences, and its functions mapped by vmap."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.scipy.linear_algebra import DEFINITE, GENERAL, NAMES, TALL, agree, scipy_linalg

L: Any = tj.scipy.linalg
V, COLUMNS = NAMES["v"], NAMES["columns"]
EYE = np.eye(4)


def symmetric(a: Any) -> Any:
    return a @ a.T + 4 * EYE[: a.shape[0], : a.shape[0]]


FUNCTIONS: dict[str, Any] = {
    "solve_triangular": lambda m, a: m.solve_triangular(a, a[:, :2], trans=1, lower=True),
    "cholesky": lambda m, a: m.cholesky(symmetric(a)),
    "cho_solve": lambda m, a: m.cho_solve(m.cho_factor(symmetric(a)), V),
    "lu": lambda m, a: m.lu(a)[1:],
    "lu_solve": lambda m, a: m.lu_solve(m.lu_factor(a), COLUMNS, trans=1),
    "solve": lambda m, a: m.solve(a, a[0]),
    "solve, tridiagonal": lambda m, a: m.solve(a, COLUMNS, assume_a="tridiagonal"),
    "solve, pos": lambda m, a: m.solve(symmetric(a), a[:, 0], assume_a="pos"),
    "inv": lambda m, a: m.inv(a),
    "det": lambda m, a: m.det(a),
    "qr": lambda m, a: m.qr(a),
    "qr, r": lambda m, a: m.qr(a[:, :2], mode="r")[0],
    "svdvals": lambda m, a: m.svdvals(a),
    "eigvalsh": lambda m, a: m.eigvalsh(a + a.T),
    "eigvalsh of two": lambda m, a: m.eigvalsh(a + a.T, symmetric(a)),
    "eigvalsh_tridiagonal": lambda m, a: m.eigvalsh_tridiagonal(a[0], a[1, :3]),
    "pinv": lambda m, a: m.pinv(a[:, :2]),
    "polar": lambda m, a: m.polar(a),
    "polar, tall": lambda m, a: m.polar(a[:, :2]),
    "polar, wide": lambda m, a: m.polar(a[:3], "left"),
    "orthogonal_procrustes": lambda m, a: m.orthogonal_procrustes(a, a[::-1] + EYE),
    "expm": lambda m, a: m.expm(a),
    "solve_banded": lambda m, a: m.solve_banded((1, 2), a + 4 * (np.arange(4) == 2)[:, None], a[:, :2]),
    "solveh_banded": lambda m, a: m.solveh_banded(np.concatenate([a[:1], a[1:2] ** 2 + 9]), V),
    "cholesky_banded": lambda m, a: m.cholesky_banded(np.concatenate([a[:2] ** 2 + 9, a[:1]])[1:], lower=True),
    "solve_toeplitz": lambda m, a: m.solve_toeplitz((a[0] + 9 * EYE[0], a[1]), a[:, 2:]),
    "matmul_toeplitz": lambda m, a: m.matmul_toeplitz((a[0], a[1]), a),
    "solve_circulant": lambda m, a: m.solve_circulant(a[0] + 9 * EYE[0], a[1]),
    "companion": lambda m, a: m.companion(a[0]),
    "block_diag": lambda m, a: m.block_diag(a, a[0], 2 * a[:, :1]),
    "hankel": lambda m, a: m.hankel(a[0], a[1]) + m.toeplitz(a[0], a[2]) + m.circulant(a[3]),
    "norm": lambda m, a: m.norm(a, 2),
    "householder_product": lambda m, a: tj.lax.linalg.householder_product(a[:, :3], a[0, :2] / 4),
    "tridiagonal_solve": lambda m, a: tj.lax.linalg.tridiagonal_solve(a[0], a[1] + 5, a[2], a),
}


def loss_of(name: str, module: Any) -> Any:
    def loss(a: Any) -> Any:
        found = FUNCTIONS[name](module, a)
        leaves = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(np.sin(x) * (1.0 + np.arange(np.size(x)).reshape(np.shape(x)) % 3)) for x in leaves)

    return loss


def near(got: Any, want: Any, close: float) -> None:
    np.testing.assert_allclose(got, want, rtol=close, atol=close * max(1.0, float(np.max(np.abs(want)))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree_with_finite_differences(name: str):
    module = L if "_solve" in name or "_product" in name else scipy_linalg
    a = GENERAL / 4 + EYE
    got = tj.jit(tj.grad(loss_of(name, module)))(a)
    loss = loss_of(name, L)  # in NumPy
    rng = np.random.default_rng(1)
    for direction in rng.normal(size=(3, 4, 4)):
        h = 1e-5 * direction
        want = float((loss(a + h) - loss(a - h)) / 2e-5)
        near(np.sum(got * direction), want, 1e-6)


@pytest.mark.parametrize("name", ["solve, tridiagonal", "polar, tall"])
def test_second_derivatives_agree_with_finite_differences(name: str):
    slope = tj.grad(loss_of(name, L))
    a, direction = GENERAL / 4 + EYE, np.random.default_rng(2).normal(size=(4, 4))
    _, got = tj.jit(lambda a, t: tj.jvp(slope, (a,), (t,)))(a, direction)
    compiled, h = tj.jit(slope), 1e-5 * direction
    near(got, (compiled(a + h) - compiled(a - h)) / 2e-5, 1e-6)


@pytest.mark.parametrize("a", [np.eye(3), np.diag([2.0, 2.0, 5.0]), np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])])
def test_the_polar_decomposition_has_a_derivative_where_singular_values_are_equal(a: Any):
    direction = np.random.default_rng(3).normal(size=(3, 3))
    _, got = tj.jit(lambda a, t: tj.jvp(lambda a: L.polar(a)[0], (a,), (t,)))(a, direction)
    h = 1e-6 * direction
    near(got, (scipy_linalg.polar(a + h)[0] - scipy_linalg.polar(a - h)[0]) / 2e-6, 1e-8)


MAPPED = {
    "solve": lambda m, a: m.solve(a, a[0]),
    "lu": lambda m, a: m.lu(a, permute_l=True),
    "lu_solve": lambda m, a: m.lu_solve(m.lu_factor(a), a[:, 1:]),
    "cholesky": lambda m, a: m.cholesky(symmetric(a)),
    "expm": lambda m, a: m.expm(a),
    "expm_frechet": lambda m, a: m.expm_frechet(a, DEFINITE)[1],
    "polar": lambda m, a: m.polar(a),
    "solve_banded": lambda m, a: m.solve_banded((2, 1), a, V),
    "solveh_banded": lambda m, a: m.solveh_banded(a[:2] * [[1.0]] + [[0.0], [20.0]], a),
    "solve_toeplitz": lambda m, a: m.solve_toeplitz(a[0] + 9 * EYE[0], a),
    "solve_circulant": lambda m, a: m.solve_circulant(a[0] + 9 * EYE[0], V),
    "toeplitz": lambda m, a: m.toeplitz(a[0], a[1]),
    "block_diag": lambda m, a: m.block_diag(a, a[0]),
}


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_functions_do_what_one_call_for_each_does(name: str):
    f = MAPPED[name]
    stack = np.stack([GENERAL, GENERAL[::-1] + 4 * EYE, GENERAL.T * 2])
    got = tj.jit(tj.vmap(lambda a: f(scipy_linalg, a)))(stack)
    for k, a in enumerate(stack):
        want = f(scipy_linalg, a)
        agree(tuple(x[k] for x in got) if isinstance(got, tuple) else got[k], want)


def test_gradients_of_mapped_functions():
    stack = np.stack([GENERAL, GENERAL.T]) / 4 + EYE
    slope = tj.grad(loss_of("solve", L))
    each = tj.jit(tj.vmap(slope))(stack)
    near(each, np.stack([tj.jit(slope)(a) for a in stack]), 1e-12)


def test_decompositions_without_a_derivative_say_so():
    from tracejit.support.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="use mode='reduced'"):
        tj.grad(lambda a: np.sum(L.qr(a)[0]))(TALL)
