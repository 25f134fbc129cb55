"""Branches and loops that differ from element to element of what `vmap` maps over, under all transformations.

The oracle of values is Python, one element after the other; that of derivatives are central differences of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

TABLE = np.array([0.5, -1.25, 2.0, 0.75])


def number(x, n, w):
    if n > 0:
        return (x * np.sqrt(n)).sum() * w
    return (3 * x).sum()


def scalars_alone(x, n, w):
    a = x[0]
    if n > 0:
        a = a * np.sqrt(n) * w
    elif a > 1:
        a = a / (n - 1)
    return a


def whole_arrays(x, n, w):
    if n > 0:
        x = x * np.sqrt(n) * w
    return x


def two_arrays(x, n, w):
    y = np.zeros(3)
    if n > 1:
        x, y = x / n, x * w
    elif n > 0:
        y = np.log(n) + x
    return x + 2 * y


def row_of_table(x, n, w):
    k = int(n)
    if 0 <= n < 4:
        x = x * TABLE[k] + w
    return x


def guarded_loop(x, n, w):
    if n != 0:
        while n % 2 == 0:
            n = n // 2
        x = x * n + w
    return x


def loop_in_loop(x, n, w):
    while n > 1:
        while n % 2 == 0:
            n = n / 2
            x = x * w
        n = n - 3
        x = x + 1
    return x


def guarded_sweeps(x, n, w):
    if n > 0:
        for _ in range(3):
            x = x + np.sqrt(n) * w
    return x


def first_small(x, n, w):
    for k in range(3):
        if x[k] * n < 1:
            return x * k + w
    return x / n


def steps(x, n, w):
    a, k = x[0], 0
    while a < 20 and k < 6:
        if n > 0:
            a = a + np.sqrt(n) + w * w
        else:
            a = a * 1.5 + 1
        k += 1
    return a


def steps_at_most(x, n, w):
    a = x[0]
    for k in range(6):
        if a > 20:
            break
        if n > 0:
            a = a * np.sqrt(n) + k
        else:
            a = a * 1.5 + w
    return a


def matrices(x, n, w):
    m = np.outer(x, x) + 5 * np.eye(3)
    if n > 0:
        m = m * w
        x = np.linalg.solve(m, x) * np.sqrt(n)
    return x


def raises_nothing(x, n, w):
    if 0 <= n < 3:
        return x[int(n)] * x * w
    return x


BODIES = [
    number, scalars_alone, whole_arrays, two_arrays, row_of_table, guarded_loop, loop_in_loop, guarded_sweeps,
    first_small, steps, steps_at_most, matrices, raises_nothing,
]  # fmt: skip
OPEN_ENDED = [guarded_loop, loop_in_loop, steps]  # loops without a bound have no reverse derivative
RANDOM = np.random.default_rng(5)
ELEMENTS = {
    "some": np.array([1.0, -2.0, 4.0, 0.0, 2.0]),
    "none": np.array([-1.0, -4.0]),
    "all": np.array([2.0, 5.0, 12.0]),
    "one": np.array([-3.0]),
}
W = 0.75


def _rows(n: np.ndarray) -> np.ndarray:
    return RANDOM.uniform(0.5, 2, (len(n), 3))


def _mapped(body: Callable[..., Any], **axes: Any) -> Callable[..., Any]:
    return tj.vmap(body, in_axes=(0, 0, None), **axes)


def _by_element(body: Callable[..., Any], x: np.ndarray, n: np.ndarray, w: float) -> np.ndarray:
    return np.array([body(x[k].copy(), n[k], w) for k in range(len(n))])


def _differences(body: Callable[..., Any], x: np.ndarray, n: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, float]:
    """Those of `(c * bodies).sum()` by x and by w."""
    h = 1e-6

    def total(x: np.ndarray, w: float) -> float:
        return float((c * _by_element(body, x, n, w)).sum())

    by_x = np.zeros_like(x)
    for k in np.ndindex(*x.shape):
        e = np.zeros_like(x)
        e[k] = h
        by_x[k] = (total(x + e, W) - total(x - e, W)) / (2 * h)
    return by_x, (total(x, W + h) - total(x, W - h)) / (2 * h)


@pytest.mark.parametrize("which", ELEMENTS)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_values_are_those_of_each_element(body, which):
    n = ELEMENTS[which]
    x = _rows(n)
    wanted = _by_element(body, x, n, W)
    f = tj.jit(_mapped(body))
    np.testing.assert_allclose(f(x, n, W), wanted, rtol=1e-13)
    np.testing.assert_allclose(_mapped(body)(x, n, W), wanted, rtol=1e-13)
    for size in (len(n) + 1, len(n) + 2):  # symbolic sizes
        more = np.resize(n, size)
        y = _rows(more)
        np.testing.assert_allclose(f(y, more, W), _by_element(body, y, more, W), rtol=1e-13)


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_no_element_at_all(body):
    f = tj.jit(_mapped(body))
    for size in (3, 2, 0, 4):
        n = np.resize(ELEMENTS["some"], size)
        x = _rows(n)
        assert np.shape(f(x, n, W))[0] == size
    assert np.shape(tj.jit(_mapped(body))(np.ones((0, 3)), np.ones(0), W))[0] == 0


@pytest.mark.parametrize("which", ELEMENTS)
@pytest.mark.parametrize("body", [b for b in BODIES if b not in OPEN_ENDED], ids=lambda f: f.__name__)
def test_reverse_derivatives(body, which):
    n = ELEMENTS[which]
    x = _rows(n)
    c = RANDOM.uniform(0.5, 2, np.shape(_by_element(body, x, n, W)))
    by_x, by_w = _differences(body, x, n, c)

    def after(x, n, w, c):
        return (c * _mapped(body)(x, n, w)).sum()

    def before(x, n, w, c):
        return (c * body(x, n, w)).sum()

    for gradient in (tj.jit(tj.grad(after, (0, 2))), tj.grad(tj.jit(after), (0, 2)), tj.grad(after, (0, 2))):
        dx, dw = gradient(x, n, W, c)
        np.testing.assert_allclose(dx, by_x, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(dw, by_w, rtol=1e-7, atol=1e-7)
    dx, dw = tj.jit(tj.vmap(tj.grad(before, (0, 2)), in_axes=(0, 0, None, 0)))(x, n, W, c)
    np.testing.assert_allclose(dx, by_x, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(np.sum(dw), by_w, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("which", ELEMENTS)
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_forward_derivatives(body, which):
    n = ELEMENTS[which]
    x = _rows(n)
    v = RANDOM.uniform(-1, 1, x.shape)
    h = 1e-6
    wanted = (_by_element(body, x + h * v, n, W + h) - _by_element(body, x - h * v, n, W - h)) / (2 * h)

    def after(x, n, w, v):
        return tj.jvp(lambda x, w: _mapped(body)(x, n, w), (x, w), (v, 1.0))[1]

    def before(x, n, w, v):
        return tj.jvp(lambda x, w: body(x, n, w), (x, w), (v, 1.0))[1]

    np.testing.assert_allclose(tj.jit(after)(x, n, W, v), wanted, rtol=1e-7, atol=1e-7)
    found = tj.jit(tj.vmap(before, in_axes=(0, 0, None, 0)))(x, n, W, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_two_axes(body):
    n = np.array([[1.0, -2.0, 4.0], [0.0, 3.0, -1.0]])
    x = RANDOM.uniform(0.5, 2, (2, 3))
    wanted = np.array([[body(x[i].copy(), n[i, j], W) for j in range(3)] for i in range(2)])
    twice = tj.vmap(tj.vmap(body, in_axes=(None, 0, None)), in_axes=(0, 0, None))
    np.testing.assert_allclose(tj.jit(twice)(x, n, W), wanted, rtol=1e-13)
    if body not in OPEN_ENDED:
        _, dw = tj.jit(tj.grad(lambda x, n, w: twice(x, n, w).sum(), (0, 2)))(x, n, W)
        h = 1e-6
        up, down = (np.sum([body(x[i].copy(), m, w) for i in range(2) for m in n[i]]) for w in (W + h, W - h))
        np.testing.assert_allclose(dw, (up - down) / (2 * h), rtol=1e-7, atol=1e-7)


def test_a_second_derivative():
    n = ELEMENTS["some"]
    x = _rows(n)

    def total(x, n):
        return (_mapped(lambda x, n, _: whole_arrays(x * x, n, W) * x)(x, n, 0) ** 2).sum()

    g = tj.jit(tj.grad(lambda x, n: (tj.grad(total)(x, n) * np.cos(x)).sum()))(x, n)
    first = tj.jit(tj.grad(total))
    h = 1e-5
    for k in np.ndindex(*x.shape):
        e = np.zeros_like(x)
        e[k] = h
        up, down = ((np.asarray(first(y, n)) * np.cos(y)).sum() for y in (x + e, x - e))
        np.testing.assert_allclose(g[k], (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def test_what_keeps_derivatives_finite_costs_nothing_where_there_are_none():
    """The choice between x and x as a constant is gone from programs without derivatives."""

    def f(x, n):
        if n > 0:
            x = x * n
        return x

    n = np.array([1.0, -2.0])
    x = np.ones((2, 3))
    g = tj.jit(tj.vmap(f))
    np.testing.assert_allclose(g(x, n), [[1, 1, 1], [1, 1, 1]])
    assert [e.primitive.name for e in g.lower(x, n).jaxpr.equations].count("select") == 1


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_jacobians_by_forward_mode_go_through_every_loop(body):
    n = ELEMENTS["some"]
    x = _rows(n)
    h = 1e-6
    jacobian = tj.jit(tj.vmap(lambda x, n: tj.jacfwd(lambda x: body(x, n, W))(x)))(x, n)
    for k in range(3):
        e = h * np.eye(3)[k]
        wanted = (_by_element(body, x + e, n, W) - _by_element(body, x - e, n, W)) / (2 * h)
        np.testing.assert_allclose(jacobian[..., k], wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tj.jit(tj.jacfwd(lambda x: body(x, n[0], W)))(x[0]), jacobian[0], rtol=1e-12, atol=1e-14)


def test_jacobians_by_forward_mode_hand_on_what_is_beside():
    def f(x):
        r = x[0]
        while r < 50:
            r = r * x[1]
        return {"a": x * 2}, r

    x = np.array([1.1, 1.3])
    made, beside = tj.jit(tj.jacfwd(f, has_aux=True))(x)
    np.testing.assert_array_equal(made["a"], 2 * np.eye(2))
    assert beside == f(x)[1]


def chosen(x):
    if x[0] > 0:
        return x * x
    return -3 * x


@pytest.mark.parametrize(
    "transformed",
    [
        lambda x: tj.jvp(tj.vmap(chosen), (x,), (x,))[1],
        lambda x: tj.jvp(lambda x: tj.lax.map(chosen, x), (x,), (x,))[1],
        lambda x: tj.linearize(tj.vmap(chosen), x)[1](x),
        lambda x: tj.vjp(tj.vmap(chosen), x)[1](x)[0],
        lambda x: tj.vjp(tj.jit(tj.vmap(chosen)), x)[1](x)[0],
        lambda x: tj.vjp(tj.vmap(tj.jit(chosen)), x)[1](x)[0],
        lambda x: tj.vmap(lambda x: tj.jvp(chosen, (x,), (x,))[1])(x),
        lambda x: x * tj.grad(lambda x: tj.vmap(chosen)(x).sum())(x),
        lambda x: x * tj.value_and_grad(lambda x: tj.vmap(chosen)(x).sum())(x)[1],
        lambda x: np.einsum("ijij,ij->ij", tj.jacrev(tj.vmap(chosen))(x), x),
        lambda x: np.einsum("ijij,ij->ij", tj.jacfwd(tj.vmap(chosen))(x), x),
        lambda x: x * np.asarray(tj.vmap(tj.vmap(tj.grad(lambda a: a * a if a > 0 else -3 * a)))(x)),
    ],
)  # fmt: skip
def test_derivatives_outside_of_jit_in_all_orders(transformed):
    x = np.array([[1.0, 2.0], [-1.0, -3.0], [0.5, 0.25]])
    np.testing.assert_allclose(transformed(x), np.where(x[:, :1] > 0, 2 * x * x, -3 * x), rtol=1e-14)


def test_derivatives_of_a_power_of_zero_by_its_exponent():
    for f in (lambda y: np.power(0.0, y), lambda y: 0.0**y):
        for y in (0.5, 2.0):
            assert tj.jit(tj.grad(f))(y) == 0
            assert tj.jit(tj.grad(tj.grad(f)))(y) == 0
            assert tj.jit(tj.hessian(f))(y) == 0
