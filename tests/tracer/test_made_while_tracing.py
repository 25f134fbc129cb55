"""Objects, methods and `functools.partial`s that traced code makes and hands to transformations: what they hold is the
trace's own, and nothing from outside.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

P, X = {"a": np.array([1.0, 2.0, 3.0])}, np.arange(6.0).reshape(2, 3)


class Layer:
    def __init__(self, params: Any) -> None:
        self.params = params

    def apply(self, x: Any) -> Any:
        return self.params["a"] * x

    def __call__(self, x: Any) -> Any:
        return self.apply(x)


def times(params: Any, x: Any) -> Any:
    return params["a"] * x


MADE: dict[str, Callable[[Any, Any], Any]] = {
    "partial": lambda p, x: tj.vmap(functools.partial(times, p))(x),
    "partial by keyword": lambda p, x: tj.vmap(functools.partial(lambda x, p: times(p, x), p=p))(x),
    "partial of a partial": lambda p, x: tj.vmap(functools.partial(functools.partial(times), p))(x),
    "partial of NumPy's": lambda p, x: tj.vmap(functools.partial(np.multiply, p["a"]))(x),
    "partial of one that keeps": lambda p, x: tj.vmap(functools.partial(lambda ps, x: times(ps[0], x), [p]))(x),
    "method": lambda p, x: tj.vmap(Layer(p).apply)(x),
    "object": lambda p, x: tj.vmap(Layer(p))(x),
    "compiled": lambda p, x: tj.jit(functools.partial(times, p))(x),
    "checkpoint": lambda p, x: tj.checkpoint(functools.partial(times, p))(x),
    "gradient": lambda p, x: tj.grad(functools.partial(lambda p, x: np.sum(times(p, x) * x) / 2, p))(x),
    "method in a loop": lambda p, x: tj.lax.map(Layer(p).apply, x),
}


@pytest.mark.parametrize("name", MADE)
def test_what_traced_code_makes_may_hold_traced_arrays(name: str):
    f = MADE[name]
    for made in (f, tj.jit(f)):
        np.testing.assert_allclose(made(P, X), P["a"] * X)

    def loss(p: Any, x: Any) -> Any:
        return np.sum(f(p, x))

    for slope in (tj.grad(loss)(P, X), tj.jit(tj.grad(loss))(P, X), tj.jit(lambda p, x: tj.grad(loss)(p, x))(P, X)):
        np.testing.assert_allclose(slope["a"], X.sum(axis=0))


def test_objects_from_outside_are_followed_as_before():
    layer = Layer({"a": np.ones(3)})
    bound = functools.partial(times, layer.params)
    f = tj.jit(lambda x: tj.vmap(layer.apply)(x) + tj.vmap(bound)(x))
    np.testing.assert_array_equal(f(X), 2 * X)
    layer.params["a"] = np.full(3, 2.0)
    np.testing.assert_array_equal(f(X), 4 * X)
    layer.params = {"a": np.zeros(3)}
    np.testing.assert_array_equal(f(X), 2 * X)
