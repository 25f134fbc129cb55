"""Fusion repeats no fold: eight times as many columns cost about eight times as many operations, whatever a fold's
result goes through: pads, joins, rolls, strided writes, masks, branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.codegen.work import work
from tracejit.ir.extents import prod
from tracejit.ir.program import Copy, CountedLoop, walk_steps


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


FOLDS: dict[str, Callable[[Any], Any]] = {
    "total": lambda x: x - np.exp(x).sum(),
    "log of a total": lambda x: x - np.log(1 + np.tanh(x).sum()),
    "rows": lambda x: x - np.exp(x).sum(axis=1, keepdims=True),
    "largest of rows": lambda x: x / x.max(axis=1)[:, None],
    "columns": lambda x: x - np.exp(x).sum(axis=0),
    "softmax": softmax,
    "deviations": lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True),
    "a choice": lambda x: np.where(np.log(np.exp(x).sum() + 1) > 1, x + 0.5, x + 1),
    "rows of tanh": lambda x: np.tanh(x[:, :1]) * x,
}


def added_to_every_other(y: Any, x: Any) -> Any:
    z = x.copy()
    z[:, ::2] += y[:, ::2]
    return z


def written_in_part(y: Any, x: Any) -> Any:
    z = np.zeros_like(x)
    z[1:, 3:] = y[1:, 3:]
    z[:, 1::3] *= 2.0
    return z


def masked(y: Any, x: Any) -> Any:
    z = x.copy()
    z[x > 0.5] = y[x > 0.5]
    return z


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "pad": lambda y, x: np.pad(y, 1),
    "pad with edges": lambda y, x: np.pad(y, ((0, 0), (2, 1)), mode="edge"),
    "concatenate rows": lambda y, x: np.concatenate([y, x]),
    "concatenate columns": lambda y, x: np.concatenate([x, y, x], axis=1),
    "stack": lambda y, x: np.stack([y, x], axis=1),
    "flat": lambda y, x: np.concatenate([y.ravel(), x[0]]),
    "roll": lambda y, x: np.roll(y, 3, axis=1),
    "roll both": lambda y, x: np.roll(y, (1, -2), axis=(0, 1)) + y,
    "shifted": lambda y, x: y[:, 1:] - y[:, :-1],
    "every other": added_to_every_other,
    "written in part": written_in_part,
    "masked": masked,
    "tile": lambda y, x: np.tile(y, (2, 2)),
    "repeat": lambda y, x: np.repeat(y, 2, axis=1),
    "flat again": lambda y, x: y.ravel() * 2 + 1,
    "other rows": lambda y, x: np.pad(y, 1)[1:-1, 1:-1].reshape(x.shape[1], -1) * x.reshape(x.shape[1], -1),
    "by index": lambda y, x: y[:, np.arange(x.shape[1])[::-1]],
    "sums of parts": lambda y, x: np.concatenate([y.sum(axis=1), y.ravel()]),
    "einsum": lambda y, x: np.einsum("ij,ij->ji", y, x),
    "where": lambda y, x: np.where(x > 0.5, y, x),
    "diff": lambda y, x: np.diff(y, axis=1, prepend=x[:, :1]),
    "reversed": lambda y, x: y[::-1, ::-1] + x,
    "transposed": lambda y, x: np.concatenate([y.T, x.T]),
}


@pytest.mark.parametrize(("fold", "way"), [*itertools.product(FOLDS, WAYS)])
def test_operations_grow_with_the_columns(fold: str, way: str):
    def f(x: Any) -> Any:
        return WAYS[way](FOLDS[fold](x), x)

    done = [work(tj.jit(f).lower(np.ones((48, n))).program, {}) for n in (64, 512)]
    assert 0 < done[1] / done[0] < 12, done
    x = np.random.default_rng(0).uniform(0.1, 1.0, (20, 13))
    np.testing.assert_allclose(tj.jit(f)(x), f(x), rtol=1e-10, atol=1e-12)


def filtered(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in tj.range(1, len(x)):
        y[i] = 0.9 * y[i - 1] + x[i]
    return y


def increased(x: Any) -> Any:
    for i in tj.range(len(x)):
        x[i] += 1
    return x


def summed_from_behind(x: Any) -> Any:
    n = len(x)
    for i in tj.range(n - 1):
        x[n - 2 - i] = x[n - 2 - i] + x[n - 1 - i] * 0.5
    return x


def two_at_once(x: Any) -> Any:
    y, z = x.copy(), np.zeros_like(x)
    for i in tj.range(1, len(x) - 1):
        y[i] = 0.5 * (y[i - 1] + y[i + 1])
        z[i] = z[i - 1] + y[i]
    return y + z


def exchanged(x: Any) -> Any:
    n = len(x)
    for i in tj.range(n // 2):
        t = x[i].copy()
        x[i] = x[n - 1 - i]
        x[n - 1 - i] = t
    return x


def between_two(x: Any) -> Any:
    y, z = x + 1, x * 2
    for i in tj.range(len(x)):
        y[i], z[i] = z[i].copy(), y[i].copy()
    return y - z[::-1]


def around_three(x: Any) -> Any:
    y, z, w = x + 1, x * 2, x - 3
    for i in tj.range(len(x)):
        y[i], z[i], w[i] = z[i] + 1, w[i] * 2, y[i].copy()
    return y - z[::-1] * w


def read_before_changed(x: Any) -> Any:
    y, z = x + 1, x * 2
    for i in tj.range(len(x) - 1):
        before = y[i + 1].copy()
        y[i + 1] = z[i] + 0.5
        z[i] = before
    return y - z[::-1]


def each_from_the_other(x: Any) -> Any:
    y, z = x + 1, x * 2
    for i in tj.range(1, len(x)):
        y[i], z[i] = z[i - 1] * 0.5 + y[i], y[i - 1] - z[i] * 0.25
    return y - z[::-1]


LOOPS = [
    filtered, increased, summed_from_behind, two_at_once, exchanged, between_two, around_three, read_before_changed,
    each_from_the_other,
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (3,)], ids=["vectors", "rows"])
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_that_change_an_element_do_not_copy_the_others(loop: Callable[..., Any], shape: tuple[int, ...]):
    programs = [tj.jit(loop).lower(np.ones((n, *shape))).program for n in (100, 800)]
    done = [work(program, {}) for program in programs]
    assert 0 < done[1] / done[0] < 12, done
    bodies = [s.body for s in walk_steps(programs[1].steps) if isinstance(s, CountedLoop)]
    assert not [s for body in bodies for s in walk_steps(body) if isinstance(s, Copy) and prod(s.source.shape) >= 800]
    x = np.random.default_rng(0).uniform(0.1, 1.0, (50, *shape))
    np.testing.assert_allclose(tj.jit(loop)(x.copy()), loop(x.copy()), rtol=1e-12)
