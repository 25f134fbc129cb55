"""Every rule of fusion decides for a program that a user may write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.builder import make_lambda
from tracejit.ir.forms import Map, Piece, Piecewise
from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import index_const
from tracejit.ir.passes import fusion_rules
from tracejit.ir.passes.fuse import fuse
from tracejit.ir.passes.fusion_rules import ACCESS_RULES, LAST_RULES, RULES, Question, refusal
from tracejit.ir.passes.groups import FormEquation
from tracejit.ir.types import ShapedArray

X = np.linspace(0.1, 1.0, 64 * 64).reshape(64, 64)
W = X[::-1].copy()
LONG = np.linspace(0.1, 1.0, 100_000)
PLACES = np.arange(64)[::-1].copy()


def many_operations(x: Any) -> Any:
    for n in range(120):
        x = np.where(x > n, x * 1.25 + n, x - 0.5)
    return x.sum()


def first_row_changed(x: Any) -> Any:
    y = x + 1
    y[0] = np.sin(y[1]) * y[2]
    return y


def elements_exchanged(x: Any) -> Any:
    y = x + 1
    z = x * 2
    y[3], z[3] = z[3], y[3]
    return y - z[::-1]


PROGRAMS: dict[str, Callable[[], Any]] = {
    "always stored": lambda: (lambda x: np.cumsum(x, axis=1) * 2, X),
    "reads buffers": lambda: (lambda x: tj.lax.fori_loop(0, 3, lambda i, s: s @ x, np.exp(x)), X),
    "reads what is changed": lambda: (first_row_changed, X),
    "exchanges": lambda: (elements_exchanged, LONG),
    "row by row": lambda: (lambda x: np.fft.rfft(x), np.random.default_rng(0).normal(size=(3, 64))),
    "too many operations": lambda: (many_operations, X),
    "element by element": lambda: (lambda x: np.sin(np.exp(x)) * 2, X),
    "second product": lambda: (lambda x: (x @ W) + np.maximum(x @ x, 1), X),
    "product before a fold": lambda: (lambda x: (x @ W).sum(axis=1), X),
    "product before others": lambda: (lambda x: (x @ W)[::-1] + 1, X),
    "product": lambda: (lambda x: np.tanh(x @ W + 1), X),
    "follows another product": lambda: (lambda x: np.exp(x @ W) @ x, X),
    "packed": lambda: (lambda x: (np.sin(np.exp(x)) / np.tanh(x)) @ W, X),
    "cheap": lambda: (lambda x: (x + 1)[::-1].sum(axis=1), X),
    "repeated": lambda: (lambda x: x * (x.sum(axis=0) + 1), X),
    "fold before a product": lambda: (lambda x: (x - x.max(axis=1, keepdims=True)) @ W, X),
    "several places": lambda: ((lambda x: (lambda y: y[2:] + y[:-2] + y[1:-1] * y[3:4])(np.sin(np.exp(x)))), LONG),
    "computed index": lambda: (lambda x: np.sin(np.exp(x))[PLACES] + 1, X),
    "in its own loops": lambda: (lambda x: np.sin(np.exp(x))[::-1] * 2, X),
    "once for each packed element": lambda: (lambda x: np.sqrt(x) @ W, X),
    "tile by tile": lambda: ((lambda x: (lambda v: x @ W + v)(np.sin(np.exp(x[0])))), X),
    "contraction": lambda: (lambda x: np.einsum("ij,ij->i", np.sin(np.exp(x)), x) @ np.sin(np.exp(x)), X),
    "inner loops": lambda: (lambda x: x * np.sin(np.exp(x.mean(axis=0))), X),
    "few elements": lambda: (lambda x: x / x.sum(), LONG),
    "a number": lambda: (lambda x: np.ones(1) + x.sum()[None], LONG),
}


def asked(monkeypatch: pytest.MonkeyPatch, function: Any, *args: Any) -> set[str]:
    """The names of the rules that decide for a program."""
    found: set[str] = set()

    def watched(q: Question) -> str | None:
        first = next((rule for rule in RULES if rule.holds(q)), None)
        if first is not None:
            found.add(first.name)
        else:
            for access in q.accesses:
                about = next((rule for rule in ACCESS_RULES if rule.holds(q, access)), None)
                if about is not None:
                    found.add(about.name)
                    if about.reason is not None:
                        return refusal(q)
            found.update(rule.name for rule in LAST_RULES if rule.holds(q))
        return refusal(q)

    monkeypatch.setattr("tracejit.ir.passes.fuse.refusal", watched)
    tj.jit(function).lower(*args)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_rule_decides_somewhere(monkeypatch: pytest.MonkeyPatch, name: str, without_statements: None):
    function, x = PROGRAMS[name]()
    assert name in asked(monkeypatch, function, x)
    np.testing.assert_allclose(tj.jit(function)(x), function(x), rtol=1e-10)


def test_an_element_that_all_iterations_read_is_computed_once():
    """No operation of NumPy's reads one element of an array over a loop; a form that somebody registers may."""
    x, y, z = (Var(ShapedArray((n,), np.float64)) for n in (8, 8, 64))
    costly = make_lambda(["i64"], lambda r, i: r.op("exp", r.op("sin", r.read(0, (i,), "f64"))))
    first = make_lambda(["i64"], lambda r, i: r.read(0, (index_const(5),), "f64"))
    equations = [
        FormEquation(Map((8,), costly), (x,), (y,), "costly", None),
        FormEquation(Map((64,), first), (y,), (z,), "first", None),
    ]
    fusion = fuse(equations, [z])
    assert [(v, why) for v, why in fusion.refusals if v is y] == [(y, fusion_rules.AGAIN)]


def test_what_a_branch_reads_is_not_computed_there_for_each_iteration():
    """NumPy's pads and joins read element by element; a form that somebody registers may read fewer axes."""
    x, y, z = (Var(ShapedArray(shape, np.float64)) for shape in ((8,), (8,), (8, 64)))
    costly = make_lambda(["i64"], lambda r, i: r.op("exp", r.op("sin", r.read(0, (i,), "f64"))))
    rows = make_lambda(["i64", "i64"], lambda r, i, j: r.read(0, (i,), "f64"))
    pieces = (Piece((0, 0), (8, 30), rows), Piece((0, 0), (8, 64), rows))
    equations = [
        FormEquation(Map((8,), costly), (x,), (y,), "costly", None),
        FormEquation(Piecewise((8, 64), pieces), (y,), (z,), "rows", None),
    ]
    fusion = fuse(equations, [z])
    assert [(v, why) for v, why in fusion.refusals if v is y] == [(y, fusion_rules.AGAIN)]


def test_the_names_of_rules_are_different_and_each_has_a_program():
    names = [rule.name for rule in (*RULES, *ACCESS_RULES, *LAST_RULES)]
    assert len(set(names)) == len(names)
    assert set(names) - set(PROGRAMS) == {"off", "no loop of the consumer's", "in a branch"}
