"""Objects as arguments that have no hash: data classes, namespaces, sets, counters.  What they hold is followed, and
what the function changes in them is changed, as it is of objects from outside.
"""

from __future__ import annotations

import collections
import dataclasses
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.config import config

Program = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Callable[[int], Any], Callable[[], Any]]
"""A function, its arguments at each call, what changes between calls, and what is to be seen of them."""


@dataclasses.dataclass
class Settings:
    rate: float = 1.0


@dataclasses.dataclass
class State:
    scale: float
    weights: Any
    n: int = 0
    inner: Settings = dataclasses.field(default_factory=Settings)


def data_class() -> Program:
    state = State(2.0, np.ones(2))

    def function(state: State, x: Any) -> Any:
        state.n += 1
        return x * state.scale + state.weights.sum() + state.n

    def change(i: int) -> None:
        state.scale += 1
        state.weights[0] += 1

    return function, lambda i: (state, np.ones(2 + i % 3)), change, lambda: state


def new_ones_at_each_call() -> Program:
    made: list[State] = []

    def function(state: State, x: Any) -> Any:
        return x * state.scale + state.weights.sum() + state.inner.rate

    def arguments(i: int) -> tuple[Any, ...]:
        made.append(State(1.0 + i // 2, np.ones(2) * i, inner=Settings(i % 2)))
        return made[-1], np.ones(3)

    return function, arguments, lambda i: None, lambda: made


def namespaces() -> Program:
    state = types.SimpleNamespace(a=2.0, weights=np.ones(2), history=[])

    def function(state: Any, x: Any) -> Any:
        state.a = state.a + 1
        state.history.append(state.a)
        return x * state.a + state.weights.sum()

    def change(i: int) -> None:
        state.weights = state.weights * 2
        state.a += 5

    return function, lambda i: (state, np.ones(2 + i % 3)), change, lambda: state


def containers() -> Program:
    counter, items = collections.Counter(a=1), {1, 2}
    row: Any = collections.deque([np.ones(2), 1.0], 30)

    def function(counter: Any, items: Any, row: Any, x: Any) -> Any:
        counter["a"] += 1
        counter["b"] += len(items)
        items.add(len(items))
        row.append(2.0)
        return x * counter["a"] + counter["b"] + sum(items) + row[0].sum() + len(row)

    def change(i: int) -> None:
        counter["a"] += 5
        items.discard(0)
        row[0] = np.ones(2) * i

    return function, lambda i: (counter, items, row, np.ones(2 + i % 3)), change, lambda: (counter, items, row)


def equal_ones() -> Program:
    one, two = Settings(), Settings()

    def function(p: Settings, q: Settings, x: Any) -> Any:
        p.rate += 1.0
        return x * p.rate + q.rate * 10 + (p is q)

    def arguments(i: int) -> tuple[Any, ...]:
        return (one, two, np.ones(2)) if i % 2 else (two, one if i % 3 else two, np.ones(2))

    return function, arguments, lambda i: None, lambda: (one, two)


def within_containers() -> Program:
    settings = Settings()

    def function(given: dict[str, Any], x: Any) -> Any:
        return x * given["settings"].rate + given["k"]

    def change(i: int) -> None:
        settings.rate += 1

    return function, lambda i: ({"settings": settings, "k": float(i)}, np.ones(2)), change, lambda: settings


def results(program: Callable[[], Program], wrap: Callable[..., Any]) -> list[Any]:
    function, arguments, change, state = program()
    call = wrap(function)
    found: list[Any] = []
    for i in range(6):
        found += [np.asarray(call(*arguments(i))).tolist(), repr(state())]
        change(i)
    return found


@pytest.mark.parametrize("program", [
    data_class, new_ones_at_each_call, namespaces, containers, equal_ones, within_containers,
])  # fmt: skip
def test_objects_without_a_hash(program: Callable[[], Program]):
    assert results(program, tj.jit) == results(program, lambda function: function)


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    rate: float = 0.1
    n: int = 0

    @tj.jit
    def step(self, x: Any, y: Any) -> Any:
        self.n += 1
        residual = x @ self.weights - y
        return residual @ residual

    def loss(self, weights: Any, x: Any, y: Any) -> Any:
        residual = x @ weights - y
        return (residual @ residual) * self.rate


def test_methods_of_a_data_class():
    model, x, y = Model(np.ones(3)), np.arange(6.0).reshape(2, 3), np.ones(2)
    for n in (1, 2, 3):
        residual = x @ model.weights - y
        assert model.step(x, y) == pytest.approx(residual @ residual)
        assert model.n == n
        model.weights = model.weights * 2
    gradient = tj.jit(tj.grad(model.loss))
    for rate in (0.1, 1.0):
        model.rate = rate
        want = 2 * rate * (x @ model.weights - y) @ x
        np.testing.assert_allclose(gradient(model.weights, x, y), want)
        np.testing.assert_allclose(tj.grad(Model.loss, argnums=1)(model, model.weights, x, y), want)
    rows = tj.vmap(lambda m, row: row * m.rate, in_axes=(None, 0))(model, x)
    np.testing.assert_allclose(rows, x)


def test_what_a_function_was_called_with_is_kept_with_its_programs_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "cache_size", 4)

    class Held:
        def __init__(self):
            self.scale = 3

    f = tj.jit(lambda x, held: x * held.scale)
    seen: list[weakref.ref[Held]] = []
    for n in range(12):
        held = Held()
        held.number = n  # of its own
        f(1.0, held)
        seen.append(weakref.ref(held))
    del held
    gc.collect()
    assert sum(r() is not None for r in seen) <= 4
    f.clear_cache()
    gc.collect()
    assert not any(r() is not None for r in seen)
