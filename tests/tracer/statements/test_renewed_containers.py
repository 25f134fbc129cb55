"""Loops that bind lists and dicts anew in each iteration: the parameters of a model, a state vector, a window."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()


def trained_by_a_comprehension(p: Any, x: Any, y: Any) -> Any:
    p = {"w": p["w"], "b": p["b"], "v": p["v"]}
    for _ in range(60):
        g: Any = tj.grad(loss)(p, x, y)
        p = {k: q - 0.1 * g[k] for k, q in p.items()}
    return p


def trained_by_map(p: Any, x: Any, y: Any) -> Any:
    for _ in range(60):
        g: Any = tj.grad(loss)(p, x, y)
        p = tj.tree.map(lambda a, b: a - 0.1 * b, p, g)
    return p


def trained_in_a_function(p: Any, x: Any, y: Any) -> Any:
    def step(p: Any, k: Any) -> Any:
        g: Any = tj.grad(loss)(p, x, y)
        return {name: q - 0.1 / k * g[name] for name, q in p.items()}

    for k in range(1, 61):
        p = step(p, k)
    return p


@pytest.mark.parametrize("program", [trained_by_a_comprehension, trained_by_map, trained_in_a_function])
def test_training_is_a_loop_of_the_program(program: Any):
    rng = np.random.default_rng(0)
    compiled = tj.jit(program)
    for n in (30, 40):
        p = {"w": rng.normal(size=(4, 8)), "b": np.zeros(8), "v": rng.normal(size=8)}
        x, y = rng.normal(size=(n, 4)), rng.normal(size=n)
        got, want = compiled(p, x, y), program(p, x, y)
        assert list(got) == ["w", "b", "v"]
        for k, q in want.items():
            np.testing.assert_allclose(got[k], q, rtol=1e-9, atol=1e-12)
        assert "loop[" in compiled.lower(p, x, y).text("jaxpr")


def window(x: Any) -> Any:
    last, y = [0.0, 0.0, 0.0], np.zeros_like(x)
    for i in range(len(x)):
        last = [*last[1:], x[i]]
        y[i] = sum(last)
    return y, last


def nested(x: Any) -> Any:
    state = {"position": [x[0], 0.0], "step": (0.1, 1)}
    for v in x:
        p, (h, n) = state["position"], state["step"]
        state = {"position": [p[0] + h * p[1], p[1] + h * v], "step": (h * 0.99, n + 1)}
    return state


def grown_then_changed_behind_the_loop(x: Any) -> Any:
    p = {"a": x * 1.0, "n": 0}
    for v in x:
        p = {**p, "a": p["a"] + v, "n": p["n"] + 1}
    p["a"] += 1
    p["z"] = 5
    return p


def another_has_it(x: Any) -> Any:
    p = [x[0], x[0] * 2]
    q, seen = p, 0
    for v in x:
        seen += p is q
        p = [v, p[0]]
        q = p
        q[1] = v + 1
    return p, q, seen


def changed_in_place_as_well(x: Any) -> Any:
    p = [x[0], x[0] * 2]
    for v in x:
        p[0] = p[0] + v
        p = [p[1], p[0]]
    return p


def changed_by_another_name(x: Any) -> Any:
    p = {"a": x[0], "b": x[0] * 2}
    q = p
    s = x[0] * 0
    for v in x:
        q["b"] = v
        s = s + p["b"]
        p = {"a": v, "b": p["a"]}
    return s, p, q


def exchanged(x: Any) -> Any:
    p, q = {"a": x[0]}, {"a": x[0] * 2}
    first = p
    for _ in x:
        p, q = q, p
    return p["a"], q["a"], 1 if p is first else 2


def of_another_form(x: Any) -> Any:
    p = [x[0]]
    for v in x:
        p = [*p, v]
    return p


@pytest.mark.filterwarnings("ignore:.*is written out:UserWarning")
@pytest.mark.parametrize(
    "program",
    [
        window, nested, grown_then_changed_behind_the_loop, another_has_it, changed_in_place_as_well,
        changed_by_another_name, exchanged, of_another_form,
    ],
)  # fmt: skip
def test_lists_and_dicts_are_those_of_plain_python(program: Any):
    compiled = tj.jit(program)
    for size in (12, 7, 30, 1):
        x = np.linspace(-1, 2, size)
        got, want = compiled(x), program(x)
        for one, other in zip(tj.tree.leaves(want), tj.tree.leaves(got), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12)
        assert tj.tree.structure(got) == tj.tree.structure(want)
