"""Systems solved by products: the solutions are those of `np.linalg.solve`, and so are derivatives."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracerError

RNG = np.random.default_rng(0)
G = RNG.normal(size=(6, 6))
POSITIVE, REGULAR = G @ G.T + 3 * np.eye(6), G + 6 * np.eye(6)
B = RNG.normal(size=6)
linalg = tj.scipy.sparse.linalg
MATRICES = {"cg": POSITIVE, "bicgstab": REGULAR, "gmres": REGULAR}


def solver(name: str, **options: Any) -> Any:
    return lambda a, b: getattr(linalg, name)(a, b, **{"tol": 1e-13, **options})[0]


@pytest.mark.parametrize("name", MATRICES)
def test_systems_are_solved(name: str):
    a, f = MATRICES[name], solver(name)
    want = np.linalg.solve(a, B)
    assert isinstance(f(a, B), tj.Array)
    np.testing.assert_allclose(f(a, B), want, rtol=1e-9)
    np.testing.assert_allclose(tj.jit(f)(a, B), want, rtol=1e-9)
    np.testing.assert_allclose(solver(name, x0=B)(a, B), want, rtol=1e-9)
    np.testing.assert_allclose(f(a, 0 * B), 0 * B)
    before = tj.jit(lambda a, b: solver(name, M=np.diag(1 / np.diagonal(a)))(a, b))
    np.testing.assert_allclose(before(a, B), want, rtol=1e-9)
    single = f(a.astype(np.float32), B.astype(np.float32))
    assert single.dtype == np.float32
    loose = solver(name, tol=1e-2)(a, B)
    assert np.linalg.norm(a @ np.asarray(loose) - B) <= 1e-2 * np.linalg.norm(B)


@pytest.mark.parametrize("name", MATRICES)
def test_a_system_of_trees_is_one_of_functions(name: str):
    a = MATRICES[name]

    @tj.jit
    def solve(a: Any, b: Any) -> Any:
        def product(x: Any) -> Any:
            y = a @ np.concatenate([x["u"], x["v"].ravel()])
            return {"u": y[:2], "v": y[2:].reshape(2, 2)}

        x = getattr(linalg, name)(product, {"u": b[:2], "v": b[2:].reshape(2, 2)}, tol=1e-13)[0]
        return np.concatenate([x["u"], x["v"].ravel()])

    np.testing.assert_allclose(solve(a, B), np.linalg.solve(a, B), rtol=1e-9)
    slopes = tj.jit(tj.jacrev(solve, 1))(a, B)
    np.testing.assert_allclose(slopes, np.linalg.inv(a), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MATRICES)
def test_derivatives_are_those_of_the_solution(name: str):
    a, f = MATRICES[name], solver(name)

    def loss(solve: Any) -> Any:
        # of the symmetric part where the method relies on it
        return lambda a, b: np.sum(solve((a + a.T) / 2 if name == "cg" else a, b) ** 3)

    for n in (0, 1):
        want = tj.grad(loss(np.linalg.solve), n)(a, B)
        np.testing.assert_allclose(tj.jit(tj.grad(loss(f), n))(a, B), want, rtol=1e-7, atol=1e-10)
    want = tj.hessian(loss(np.linalg.solve), 1)(a, B)
    np.testing.assert_allclose(tj.jit(tj.hessian(loss(f), 1))(a, B), want, rtol=1e-7, atol=1e-10)
    _, slope = tj.jvp(lambda b: f(a, b), (B,), (B**2,))
    np.testing.assert_allclose(slope, np.linalg.solve(a, B**2), rtol=1e-8)


@pytest.mark.parametrize("name", MATRICES)
def test_each_system_of_a_batch_ends_by_itself(name: str):
    a, f = MATRICES[name], solver(name)
    bs = np.stack([B, 0 * B, B**2])
    np.testing.assert_allclose(tj.jit(tj.vmap(f, (None, 0)))(a, bs), np.linalg.solve(a, bs.T).T, rtol=1e-9)


@pytest.mark.parametrize("name", MATRICES)
def test_complex_systems_are_solved(name: str):
    a = MATRICES[name] + 0.2j * (G - G.T)
    b = B + 1j * B[::-1]
    np.testing.assert_allclose(solver(name)(a, b), np.linalg.solve(a, b), rtol=1e-9)


def test_steps_are_counted():
    one = solver("cg", maxiter=1)(POSITIVE, B)
    np.testing.assert_allclose(one, B * (B @ B) / (B @ POSITIVE @ B), rtol=1e-12)
    restarted = solver("gmres", restart=2, maxiter=60)(REGULAR, B)
    np.testing.assert_allclose(restarted, np.linalg.solve(REGULAR, B), rtol=1e-9)
    krylov = np.stack([B, REGULAR @ B], axis=1)
    y = np.linalg.lstsq(REGULAR @ krylov, B, rcond=None)[0]
    np.testing.assert_allclose(solver("gmres", restart=2, maxiter=1)(REGULAR, B), krylov @ y, rtol=1e-9)


def test_the_best_vector_may_be_found_early():
    for name in MATRICES:
        np.testing.assert_allclose(solver(name)(np.eye(6), B), B, rtol=1e-13)
    x, info = linalg.gmres(REGULAR, B)
    assert int(info) == 0
    assert x.shape == (6,)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match=r"cg: A is a square matrix, not of shape \(2, 3\)"):
        linalg.cg(np.ones((2, 3)), B)
    with pytest.raises(TracerError, match="A is a matrix or a function, not str"):
        linalg.bicgstab("matrix", B)
    with pytest.raises(DtypeError, match=r"b is i64\[6\], use b\.astype\(float\)"):
        linalg.gmres(REGULAR, np.arange(6))
    with pytest.raises(ShapeError, match=r"x0 has shape \(5,\), b has \(6,\)"):
        linalg.cg(POSITIVE, B, x0=np.ones(5))
    with pytest.raises(TracerError, match="x0 differs in structure from b"):
        linalg.cg(POSITIVE, B, x0=(B, B))
    with pytest.raises(OptionError, match="solve_method is 'batched' or 'incremental', not 'fast'"):
        linalg.gmres(REGULAR, B, solve_method="fast")
    with pytest.raises(OptionError, match="restart is a number of vectors, not 0"):
        linalg.gmres(REGULAR, B, restart=0)
