"""Derivatives through arrays with as many elements as data say, against differences of the plain function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

STEP = 1e-6


def central(f: Callable[[Any], Any], x: Any) -> Any:
    found = np.zeros_like(x)
    for k in range(x.size):
        step = np.zeros_like(x)
        step[k] = STEP
        found[k] = (f(x + step) - f(x - step)) / (2 * STEP)
    return found


def squares(x):
    return (x[x > 0.5] ** 2).sum()


def products_and_greatest(x):
    v = x[x > 0.3]
    return (v[1:] * v[:-1]).sum() + v.max() if len(v) else 0.0


def running_sums(x):
    w = np.cumsum(x[x > 0.3])
    return (w * np.arange(len(w))).sum()


def mean_of_some(x):
    v = x[x > 0.5]
    return (x * x).sum() + (v.mean() if len(v) > 0 else 0.0)


def in_a_loop_that_is_written_out(x):
    s = 0.0
    for i in range(3):
        v = x[x > 0.2 * i]
        s = s + (v * v).sum() / (len(v) + 1)
    return s


def of_rows_in_a_loop(x):
    B = np.outer(x, x)
    s = 0.0
    for r in range(len(x)):
        v = B[r][B[r] > 0.25]
        s += (v[:2] ** 3).sum()
    return s


def in_a_branch(x):
    if x.sum() > len(x) * 0.5:
        v = x[x > 0.5]
        s = (v * v).sum()
    else:
        w = x[x < 0.5]
        s = (w[:3] ** 3).sum()
    return s


def at_places(x):
    i = np.nonzero(x > 0.5)[0]
    y = x.copy()
    y[i] = x[i] ** 2
    return (y**2).sum()


def every_other(x):
    return (x[x > 0.5][::2] ** 2).sum()


def assigned_backwards(x):
    m = x > 0.5
    y = x * 1.0
    y[m] = x[m][::-1] ** 2
    return (y * np.arange(len(x))).sum()


def two_parts(x):
    v, w = x[x > 0.5], x[x <= 0.5]
    return (np.concatenate([v, w]) ** 2 * np.arange(len(x))).sum()


def of_a_block(x):
    k = (x > 0.5).sum()
    return (x[1:k] ** 2).sum() + (x[k:] ** 3).sum()


LOSSES = [
    squares, products_and_greatest, running_sums, mean_of_some, in_a_loop_that_is_written_out, of_rows_in_a_loop,
    in_a_branch, at_places, every_other, assigned_backwards, two_parts, of_a_block,
]  # fmt: skip


def check(f, backend):
    gradient = tj.jit(tj.grad(f), backend=backend)
    for n in (9, 9, 12, 2, 1, 0):
        for seed in range(2):
            x = np.random.default_rng(10 * n + seed).random(n)
            what = f"size {n}, seed {seed}"
            np.testing.assert_allclose(gradient(x), central(f, x), rtol=1e-6, atol=1e-7, err_msg=what)


@pytest.mark.parametrize("f", LOSSES, ids=lambda f: f.__name__)
def test_gradient(f):
    check(f, "cpu")


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("f", [squares, products_and_greatest, of_rows_in_a_loop], ids=lambda f: f.__name__)
def test_gradient_on_other_backends(f, backend, record_backend):
    record_backend(backend)
    check(f, backend)


def test_forward_derivative_has_as_many_elements():
    x = np.random.default_rng(0).random(20)
    f = tj.jit(lambda x: tj.jvp(lambda x: x[x > 0.4] * x[x > 0.4], (x,), (np.ones_like(x),)))
    value, tangent = f(x)
    np.testing.assert_allclose(value, x[x > 0.4] ** 2)
    np.testing.assert_allclose(tangent, 2 * x[x > 0.4])


def test_gradient_inside_a_compiled_function():
    x = np.random.default_rng(0).random(20)
    np.testing.assert_allclose(tj.jit(lambda x: tj.grad(squares)(x))(x), tj.grad(squares)(x))


def test_a_while_has_no_gradient_here_either():
    def loss(x):
        s, k = 0.0, 0
        while k < 5 and s < 3.0:
            s = s + (x[x > 0.1 * k] ** 2).sum()
            k += 1
        return s

    with pytest.raises(UnsupportedError, match="no reverse-mode derivative"):
        tj.jit(tj.grad(loss))(np.ones(4))
