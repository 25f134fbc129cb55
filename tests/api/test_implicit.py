"""custom_root and custom_linear_solve: derivatives of solutions, however these were found."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, IndexOutOfBounds, ShapeError, TracerError, UnsupportedError, UserError

A = np.array([[2.0, 0.3], [0.1, 3.0]])
B = np.array([1.0, 2.0])


def newton(f: Any, x: Any) -> Any:
    """One number after another, until all are found: no derivative in reverse mode."""
    slope = tj.grad(lambda x: np.sum(f(x)))
    return tj.lax.while_loop(lambda x: np.max(np.abs(f(x))) > 1e-13, lambda x: x - f(x) / slope(x), x)


def cube_root(a: Any) -> Any:
    return tj.lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))


def iterated(product: Any, b: Any) -> Any:
    return tj.lax.fori_loop(0, 80, lambda _, x: x + 0.2 * (b - product(x)), np.zeros_like(b))


def solved(a: Any, b: Any, symmetric: bool = False) -> Any:
    back = None if symmetric else iterated
    return tj.lax.custom_linear_solve(lambda x: a @ x, b, iterated, back, symmetric)


# -- roots -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_a_root_has_derivatives_of_all_orders_and_modes(compiled: Any):
    f: Any = cube_root
    for want in (2.0, 1 / 12, -2 / 9 * 8 ** (-5 / 3), 10 / 27 * 8 ** (-8 / 3)):
        np.testing.assert_allclose(compiled(f)(8.0), want, rtol=1e-12)
        f = tj.grad(f)
    np.testing.assert_allclose(compiled(tj.jacfwd(tj.jacrev(cube_root)))(8.0), -2 / 9 * 8 ** (-5 / 3), rtol=1e-12)
    value, slope = compiled(lambda a: tj.jvp(cube_root, (a,), (3.0,)))(8.0)
    np.testing.assert_allclose([value, slope], [2.0, 0.25], rtol=1e-12)


def test_roots_are_found_in_batches():
    a = np.array([1.0, 8.0, 27.0])
    np.testing.assert_allclose(tj.vmap(cube_root)(a), [1, 2, 3], rtol=1e-12)
    for f in (tj.vmap(tj.grad(cube_root)), tj.grad(lambda a: np.sum(tj.vmap(cube_root)(a)))):
        np.testing.assert_allclose(f(a), a ** (-2 / 3) / 3, rtol=1e-12)
        np.testing.assert_allclose(tj.jit(f)(a), a ** (-2 / 3) / 3, rtol=1e-12)


def test_the_guess_and_what_the_solver_reads_have_no_derivative():
    def root(guess: Any, step: Any) -> Any:
        def solve(f: Any, x: Any) -> Any:
            return tj.lax.fori_loop(0, 60, lambda _, x: x - step * f(x), x)

        return tj.lax.custom_root(lambda x: x**2 - 2.0, guess, solve, lambda g, y: y / g(1.0))

    np.testing.assert_allclose(root(1.0, 0.3), np.sqrt(2), rtol=1e-12)
    assert [float(x) for x in tj.grad(root, (0, 1))(1.0, 0.3)] == [0.0, 0.0]


def tree_root(a: Any) -> Any:
    def f(x: Any) -> Any:
        return {"u": a @ x["u"] + 0.1 * np.sin(x["v"]) - 1, "v": 2 * x["v"] + 0.1 * x["u"] ** 2 - a[0]}

    def flat(f: Any, like: Any) -> Any:
        _, back = tj.flatten_util.ravel_pytree(like)
        return lambda v: tj.flatten_util.ravel_pytree(f(back(v)))[0]

    def solve(f: Any, x: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            return v - np.linalg.solve(tj.jacfwd(flat(f, x))(v), flat(f, x)(v))

        v, back = tj.flatten_util.ravel_pytree(x)
        return back(tj.lax.fori_loop(0, 8, step, v)), {"steps": np.array(8)}

    def tangent_solve(g: Any, y: Any) -> Any:
        v, back = tj.flatten_util.ravel_pytree(y)
        return back(np.linalg.solve(tj.jacrev(flat(g, y))(v), v))

    return tj.lax.custom_root(f, {"u": np.ones(2), "v": np.zeros(2)}, solve, tangent_solve, has_aux=True)


@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_a_root_is_a_tree_and_comes_with_what_the_solver_tells(compiled: Any):
    x, aux = compiled(tree_root)(A)
    assert aux["steps"] == 8
    np.testing.assert_allclose(A @ x["u"] + 0.1 * np.sin(x["v"]), np.ones(2), rtol=1e-13)
    np.testing.assert_allclose(2 * x["v"] + 0.1 * x["u"] ** 2, A[0], rtol=1e-13)
    slopes = [compiled(d(lambda a: tree_root(a)[0]["v"]))(A) for d in (tj.jacfwd, tj.jacrev)]
    for n, m in np.ndindex(2, 2):
        ends = [tree_root(A + h * np.outer(np.eye(2)[n], np.eye(2)[m]))[0]["v"] for h in (1e-6, -1e-6)]
        for slope in slopes:
            np.testing.assert_allclose(slope[:, n, m], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-9)


def test_roots_in_a_loop_have_derivatives():
    def last(a: Any) -> Any:
        return tj.lax.scan(lambda c, y: (cube_root(a * c + y), c), 1.0, np.array([1.0, 2.0, 3.0]))[0] ** 2

    np.testing.assert_allclose(tj.jit(tj.grad(last))(2.0), (last(2.0 + 1e-6) - last(2.0 - 1e-6)) / 2e-6, rtol=1e-7)


def test_what_fails_in_a_solver_fails():
    def singular(a: Any) -> Any:
        return tj.lax.custom_root(lambda x: a @ x - B, B, lambda f, x: np.linalg.solve(a, B), lambda g, y: y)

    for f in (singular, tj.jit(singular), tj.jit(tj.grad(lambda a: np.sum(singular(a))))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            f(np.zeros((2, 2)))
    pick = tj.jit(lambda i: tj.lax.custom_root(lambda x: x - B[i], 1.0, lambda f, x: x - f(x), lambda g, y: y))
    assert pick(1) == 2.0
    with pytest.raises(IndexOutOfBounds):
        pick(2)


# -- linear systems ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_a_linear_system_has_the_derivatives_of_its_solution(compiled: Any):
    np.testing.assert_allclose(compiled(solved)(A, B), np.linalg.solve(A, B), rtol=1e-12)
    for d in (tj.jacfwd, tj.jacrev, tj.hessian):
        for n in (0, 1):
            want = d(np.linalg.solve, n)(A, B)
            np.testing.assert_allclose(compiled(d(solved, n))(A, B), want, rtol=1e-9, atol=1e-12)


def test_a_symmetric_system_needs_one_solver():
    a = np.array([[2.0, 0.3], [0.3, 3.0]])
    slope = tj.grad(lambda b: np.sum(solved(a, b, symmetric=True) ** 2))(B)
    np.testing.assert_allclose(slope, 2 * np.linalg.solve(a, np.linalg.solve(a, B)), rtol=1e-10)


def test_systems_are_solved_in_batches():
    bs = np.stack([B, 2 * B, B**2])
    want = np.linalg.solve(A, bs.T).T
    for f in (tj.vmap(solved, (None, 0)), tj.jit(tj.vmap(solved, (None, 0)))):
        np.testing.assert_allclose(f(A, bs), want, rtol=1e-12)
    each = tj.jit(tj.vmap(tj.grad(lambda a, b: np.sum(solved(a, b) ** 2)), (None, 0)))(A, bs)
    all_of_them = tj.jit(tj.grad(lambda a, b: np.sum(tj.vmap(solved, (None, 0))(a, b) ** 2)))(A, bs)
    for got, x in zip(each, want, strict=True):
        np.testing.assert_allclose(got, -2 * np.outer(np.linalg.solve(A.T, x), x), rtol=1e-9)
    np.testing.assert_allclose(all_of_them, np.sum(each, axis=0), rtol=1e-10)


def test_a_solution_is_linear_in_the_right_side():
    (back,) = tj.linear_transpose(lambda b: solved(A, b), B)(B)
    np.testing.assert_allclose(back, np.linalg.solve(A.T, B), rtol=1e-12)
    _, pushed = tj.linearize(lambda b: solved(A, b), B)
    np.testing.assert_allclose(pushed(2 * B), np.linalg.solve(A, 2 * B), rtol=1e-12)


def test_reverse_mode_wants_the_transposed_solver():
    def one_way(a: Any) -> Any:
        return np.sum(tj.lax.custom_linear_solve(lambda x: a @ x, B, iterated))

    np.testing.assert_allclose(tj.jvp(one_way, (A,), (A,))[1], -np.sum(np.linalg.solve(A, B)), rtol=1e-10)
    with pytest.raises(UnsupportedError, match=r"no transpose_solve, which .* reverse mode needs; give one, or symm"):
        tj.grad(one_way)(A)


def test_systems_in_a_loop_have_derivatives():
    def last(a: Any) -> Any:
        return np.sum(tj.lax.scan(lambda c, y: (solved(a + 0.1 * np.outer(c, c), y), c), B, np.stack([B, B**2]))[0])

    slope = tj.jit(tj.grad(last))(A)
    for n, m in np.ndindex(2, 2):
        ends = [last(A + h * np.outer(np.eye(2)[n], np.eye(2)[m])) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope[n, m], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-9)


# -- what is refused ---------------------------------------------------------------------------------------------------
def test_what_does_not_fit_is_refused():
    root = tj.lax.custom_root
    with pytest.raises(DtypeError, match=r"custom_root solves equations of floating-point numbers, not of i64\[\]"):
        root(lambda x: x, 1, newton, newton)
    with pytest.raises(ShapeError, match=r"custom_root: the result of <lambda> has shape \(2,\), not \(\)"):
        root(lambda x: x * B, 1.0, newton, newton)
    with pytest.raises(TracerError, match="custom_root: the result of solve has the structure"):
        root(lambda x: x, 1.0, lambda f, x: (x, x), newton)
    with pytest.raises(TracerError, match="with has_aux=True solve returns a pair"):
        root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True)
    with pytest.raises(UserError, match=r"lax\.custom_root wants a function, not int"):
        root(lambda x: x, 1.0, 3, newton)  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match=r"custom_linear_solve: the result of <lambda> is f32, not f64"):
        tj.lax.custom_linear_solve(lambda x: x.astype(np.float32), B, iterated)
