"""Derivatives in reverse of loops that are left early: they have an iteration count that bounds them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError


def newton(a):
    x = a * 0.5 + 1
    for _ in range(50):
        step = (x * x - a) / (2 * x)
        x = x - step
        if abs(step) < 1e-13:
            break
    return x


def gauss_seidel(b):
    n = len(b)
    a = np.eye(n) * 4 + np.arange(n * n).reshape(n, n) * 0.01
    x = np.zeros(n)
    for _ in range(1000):
        change = 0.0
        for i in range(n):
            new = (b[i] - a[i, :i] @ x[:i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
            change = max(change, abs(new - x[i]))
            x[i] = new
        if change < 1e-13:
            break
    return x.sum() * x[0]


def first_over(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            continue
        total += x[i] ** 2
        if total > 4:
            return total * x[i]
    return -total


def in_place_until(x):
    y = x.copy()
    for k in range(20):  # noqa: B007
        y[1:] += 0.5 * y[:-1]
        if y.sum() > 30:
            break
        y *= 1.1
    return y.sum() + k


PROGRAMS: list[tuple[Callable[[Any], Any], Any]] = [
    (newton, 3.0), (gauss_seidel, np.array([1.0, 2.0, -1.0, 0.5, 3.0])), (first_over, np.array([1.0, -2.0, 1.5, 2.0])),
    (first_over, np.array([1.0, -2.0, 0.5])), (in_place_until, np.array([0.5, 1.0, 2.0])),
]  # fmt: skip


def differences(f: Callable[[Any], Any], x: Any) -> Any:
    x = np.asarray(x, float)
    step = 1e-6
    found = np.zeros(x.shape)
    for k in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[k] += step
        down[k] -= step
        found[k] = (f(up if x.shape else float(up)) - f(down if x.shape else float(down))) / (2 * step)
    return found


@pytest.mark.parametrize(("function", "x"), PROGRAMS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_gradients(function: Callable[[Any], Any], x: Any, backend: str):
    want = differences(function, x)
    np.testing.assert_allclose(tj.jit(tj.grad(function), backend=backend)(x), want, rtol=1e-6)
    value, gradient = tj.jit(tj.value_and_grad(function), backend=backend)(x)
    np.testing.assert_allclose(value, function(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, want, rtol=1e-6)


def test_in_any_order():
    x = np.array([0.5, 1.0, 2.0])
    rows = np.stack([x, x * 0.7, x * 1.5])
    want = np.stack([differences(in_place_until, row) for row in rows])
    np.testing.assert_allclose(tj.jit(tj.vmap(tj.grad(in_place_until)))(rows), want, rtol=1e-6)
    total = tj.jit(tj.grad(lambda rows: tj.vmap(in_place_until)(rows).sum()))(rows)
    np.testing.assert_allclose(total, want, rtol=1e-6)
    inner = tj.jit(in_place_until)
    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: inner(x)))(x), want[0], rtol=1e-6)
    hessian = tj.jit(tj.jacfwd(tj.grad(newton)))(3.0)
    np.testing.assert_allclose(hessian, -0.25 * 3.0**-1.5, rtol=1e-9)


def test_a_loop_without_a_bound_says_so():
    def halved(x: Any) -> Any:
        while x > 1:
            x = x * 0.5
        return x

    np.testing.assert_allclose(tj.jit(lambda x: tj.jvp(halved, (x,), (1.0,)))(10.0)[1], 0.0625)
    with pytest.raises(UnsupportedError, match="number of iterations is not known"):
        tj.jit(tj.grad(halved))(10.0)


def test_a_body_that_raises_whenever_it_runs():
    def repeated(x: Any) -> Any:
        n = 0
        while x.sum() > n:
            x[0] = 7
            raise ValueError("too much")
        return x

    def counted(x: Any) -> Any:
        for i in range(x.sum().astype(int)):
            x[i] = 7
            raise ValueError("too much")
        return x

    def unbound(x: Any) -> Any:
        while x.sum() > 0:
            q[0] = 1  # noqa: F821
            q = x  # noqa: F841
        return x

    for f in (repeated, counted, unbound):
        jitted = tj.jit(f)
        for x in (np.ones(3), -np.ones(3), np.ones(3)):
            if x[0] < 0:
                np.testing.assert_array_equal(jitted(x), x)
                continue
            with pytest.raises((ValueError, UnboundLocalError), match=r"too much|'q'"):
                jitted(x)
            np.testing.assert_array_equal(x, 1)
        assert jitted.compilations == 1


def deleted_after_a_loop(x, s):
    for i in range(len(x)):
        if x[i] > s:
            s += x[i]
    del i
    return s


def deleted_in_a_branch(x, s):
    for i in range(len(x)):
        t = x[i] * 2
        s += t
        del t
    if s > 3:
        y = s + 1
        s = y
        del y
    return s


@pytest.mark.parametrize("f", [deleted_after_a_loop, deleted_in_a_branch])
def test_names_are_deleted(f):
    compiled = tj.jit(f)
    for n in (3, 5, 60):
        x = np.random.default_rng(n).random(n)
        np.testing.assert_allclose(compiled(x, 0.2), f(x, 0.2), rtol=1e-13)
