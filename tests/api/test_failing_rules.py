"""What may fail when the program runs (an index, a singular matrix) in rules of derivatives, and under checkpoint."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import IndexOutOfBounds, UnsupportedError

A, B = np.array([[2.0, 0.3], [0.1, 3.0]]), np.array([1.0, 2.0])


@tj.custom_jvp
def solved(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b)


@solved.defjvp
def _solved_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (da, db) = primals, tangents
    x = solved(a, b)
    return x, np.linalg.solve(a, db - da @ x)


@tj.custom_vjp
def chosen(x: Any, i: Any) -> Any:
    return x[i]


def _chosen_forward(x: Any, i: Any) -> Any:
    return x[i], (x, i)


def _chosen_backward(residuals: Any, g: Any) -> Any:
    x, i = residuals
    return x * 0 + np.where(np.arange(2) == i, g * B[i], 0), None


chosen.defvjp(_chosen_forward, _chosen_backward)


@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_a_rule_solves_systems(compiled: Callable[..., Any]):
    got = compiled(tj.grad(lambda a: np.sum(solved(a, B) ** 2)))(A)
    x = np.linalg.solve(A, B)
    np.testing.assert_allclose(got, -2 * np.outer(np.linalg.solve(A.T, x), x), rtol=1e-12)
    both = compiled(tj.vmap(tj.jacfwd(lambda b: solved(A, b))))(np.stack([B, 2 * B]))
    np.testing.assert_allclose(both, [np.linalg.inv(A)] * 2, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_a_rule_fails_as_the_function_would(compiled: Callable[..., Any]):
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compiled(tj.grad(lambda a: np.sum(solved(a, B))))(np.zeros((2, 2)))
    slope = compiled(tj.grad(lambda x, i: 2 * chosen(x, i)))
    np.testing.assert_array_equal(slope(np.ones(2), 1), [0, 4])
    with pytest.raises(IndexOutOfBounds, match="index 2 is out of bounds for an axis of extent 2"):
        slope(np.ones(2), 2)


def test_a_rule_that_may_fail_in_a_loop_is_refused():
    with pytest.raises(UnsupportedError, match=r"used in a loop or branch does what may fail .*or use tj\.lax\.linalg"):
        tj.jit(tj.grad(lambda a: tj.lax.fori_loop(0, 3, lambda _, c: c + np.sum(solved(a * c, B)), 1.0)))(A)


@pytest.mark.parametrize("compiled", [lambda f: f, tj.jit])
def test_what_is_computed_again_may_fail(compiled: Callable[..., Any]):
    def rows(table: Any, tokens: Any) -> Any:
        return np.sum(tj.checkpoint(lambda table: np.sin(table[tokens]))(table) ** 2)

    table, tokens = np.arange(6.0).reshape(3, 2), np.array([2, 0, 2])
    want = np.zeros((3, 2))
    np.add.at(want, tokens, np.sin(2 * table[tokens]))
    np.testing.assert_allclose(compiled(tj.grad(rows))(table, tokens), want, rtol=1e-12)
    with pytest.raises(IndexOutOfBounds, match="index 3 is out of bounds for an axis of extent 3"):
        compiled(tj.grad(rows))(table, np.array([0, 3]))

    def looped(a: Any) -> Any:
        step = tj.checkpoint(lambda c: c + np.linalg.solve(a, c))
        return np.sum(tj.lax.fori_loop(0, 3, lambda _, c: step(c), B))

    ahead, behind = (looped(A + h * np.eye(2)) for h in (1e-6, -1e-6))
    np.testing.assert_allclose(np.trace(compiled(tj.grad(looped))(A)), (ahead - behind) / 2e-6, rtol=1e-7)


def test_a_try_around_a_transformation_that_is_not_compiled_catches_what_it_raises():
    def last(a: Any) -> Any:
        return np.sum(tj.lax.scan(lambda c, _: (np.linalg.solve(a, c), None), B, None, length=2)[0])

    for f in (last, tj.grad(last)):
        try:
            found = f(A)
        except np.linalg.LinAlgError:
            found = None
        assert found is not None
    np.testing.assert_allclose(last(A), np.sum(np.linalg.solve(A @ A, B)), rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"), np.errstate(all="ignore"):
        last(np.zeros((2, 2)))
