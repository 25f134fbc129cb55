"""Derivatives in reverse of loops as long as the index of another one, wherever they stand: under branches, in
functions that keep their arguments alone, in bodies of `tj.lax`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError


def triangle(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = s + x[i] * x[j] ** 2
    return s


def under_a_branch(x):
    s = 0.0
    if x[0] < 99:
        for i in range(len(x)):
            for j in range(i):
                s = s + x[i] * x[j] ** 2
    return s


def left_early(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] ** 2
        for j in range(i):
            s = s * x[j]
            if s > 2.5:
                return s * x[i]
        if s < -2:
            return -s
    return s * s


def behind_a_return(x):
    if x[0] > 99:
        return 0.0 * x[0]
    return triangle(x)


def sorted_by_bubbles(x):
    a = x * 1.0
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if a[j] > a[j + 1]:
                t = a[j] * 1
                a[j] = a[j + 1]
                a[j + 1] = t
    return (a * np.arange(n)).sum()


def in_lax(x):
    def body(c, v):
        return c + v * triangle(x), c

    return tj.lax.scan(body, 0.0, x)[0]


def in_cond(x):
    return tj.lax.cond(x[0] < 99, triangle, lambda x: 0.0 * x[0], x)


def slope(f: Callable[..., Any], x: np.ndarray[Any, Any]) -> Any:
    eps = 1e-6
    return [(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(len(x))]


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("f", [triangle, under_a_branch, left_early, behind_a_return, sorted_by_bubbles])
@pytest.mark.parametrize("way", ["plain", "checkpoint", "vmap"])
def test_in_reverse(f: Callable[..., Any], n: int, way: str):
    x = np.random.default_rng(3).normal(size=n)
    if way == "vmap":
        xs = np.stack([x, x + 0.3])
        got = tj.jit(tj.vmap(tj.grad(f)))(xs)
        np.testing.assert_allclose(got, [slope(f, v) for v in xs], rtol=1e-4, atol=1e-6)
        return
    if f is left_early and way == "checkpoint" and n > 3:  # the index of a loop that is left is no extent
        with pytest.raises(UnsupportedError, match="number of iterations is not known"):
            tj.jit(tj.grad(lambda x: tj.checkpoint(f)(x)))(x)
        return
    differentiated = tj.checkpoint(f) if way == "checkpoint" else f
    got = tj.jit(tj.grad(lambda x: differentiated(x)))(x)
    np.testing.assert_allclose(got, slope(f, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("f", [in_lax, in_cond])
def test_in_bodies(f: Callable[..., Any]):
    x = np.random.default_rng(4).normal(size=7)
    eps = 1e-6
    expected = [(tj.jit(f)(x + eps * e) - tj.jit(f)(x - eps * e)) / (2 * eps) for e in np.eye(7)]
    np.testing.assert_allclose(tj.jit(tj.grad(f))(x), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sizes", [(6, 8, 5)])
def test_at_many_sizes(sizes: tuple[int, ...]):
    f = tj.jit(tj.grad(under_a_branch))
    for n in sizes:
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_allclose(f(x), slope(under_a_branch, x), rtol=1e-5, atol=1e-6)
