"""Operands of comparisons, `and`, `or`, `not` and `a if c else b` that change state: they run where Python has them
run, and not where an operand before has decided.
"""

import random
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tests.tracer.statements import asserting
from tracejit.support.errors import TracejitError

MADE = """
class Counter:
    def __init__(self, at):
        self.at, self.n = at, 0

    def get(self):
        self.n += 1
        return self.at

def f(x):
    n, c, l, d, r = 0, Counter(x[0]), [1.0, 2.0], {{'k': 0}}, np.zeros(2)

    def bump(v):
        nonlocal n
        n += 1
        return v

    def push(v):
        l[0] += v
        return l[0]

    def put(v):
        d['k'] += 1
        return v

    def store(v):
        r[0] += 1
        return v

    def maybe(v):
        nonlocal n
        if v > 0:
            n += 10
        return v

    t = {text}
    return n, c.n, *l, d['k'], r, t
"""
ATOMS = [
    "x[0]",
    "x[1]",
    "bump(x[1])",
    "bump(x[-1])",
    "c.get()",
    "push(x[1])",
    "put(x[0])",
    "store(x[1])",
    "maybe(x[0])",
]


def expression(r: random.Random, depth: int = 0) -> str:
    def atom() -> str:
        return r.choice(ATOMS)

    match r.randrange(7 if depth < 2 else 3):
        case 0:
            return f"({atom()} {r.choice(['<', '>', '<=', '!='])} {atom()})"
        case 1:
            return f"({atom()} < {atom()} {r.choice(['<', '>', '<='])} {atom()})"
        case 2:
            return f"({atom()} < {atom()} > {atom()} < 5.0)"
        case 3 | 4 as which:
            operands = [expression(r, depth + 1) for _ in range(r.randint(2, 3))]
            return f"({(' and ' if which == 3 else ' or ').join(operands)})"
        case 5:
            return f"({expression(r, depth + 1)} if {expression(r, depth + 1)} else {expression(r, depth + 1)})"
        case _:
            return f"(not {expression(r, depth + 1)})"


@pytest.mark.parametrize("part", range(5))
def test_random_expressions(part: int):
    r, refused = random.Random(part), 0
    for _ in range(24):
        text = expression(r)
        f = loaded(MADE.format(text=text))["f"]
        jitted = tj.jit(f)
        for x in (np.array([0.5, -1.0]), np.array([0.5, 0.3]), np.array([3.0, 0.2]), np.array([-1.0, 2.0, 3.0])):
            try:
                found: Any = jitted(x)
            except TracejitError:
                refused += 1
                break
            for got, want in zip(found, f(x), strict=True):
                np.testing.assert_array_equal(got, want, err_msg=text)
    assert refused < 4


def test_in_loops_and_lists():
    def f(x):
        n, seen = 0, [0.0, 0.0]

        def bump(v):
            nonlocal n
            n += 1
            seen[0] += v
            return v

        k = 0
        for v in x:
            if 0.0 < v < bump(2.0) < 4.0:
                k += 1
        return n, k, seen

    jitted = tj.jit(f)
    for n in (1, 3, 12):
        for x in (np.arange(float(n)), np.arange(float(n)) - 2, np.ones(n)):
            assert jitted(x) == f(x)


@pytest.mark.parametrize("name", [n for n in vars(asserting) if n.startswith(("with_", "that_", "counting_"))])
def test_messages_of_assertions_are_made_where_these_fail(name: str):
    f = getattr(asserting, name)
    jitted = tj.jit(f)
    for n in (3, 12):
        np.testing.assert_array_equal(jitted(np.arange(n) + 1.0), f(np.arange(n) + 1.0))
        with pytest.raises((AssertionError, KeyError)):
            jitted(np.arange(n) - 20.0)


GROWING = """
def f(x):
    said = []

    def message():
        said.append(1)
        return "too small"

    assert x[0] > -5, message()
    return len(said)
"""


def test_what_a_message_of_an_assertion_cannot_undo_is_refused():
    with pytest.raises(TracejitError, match="changes what is in a list"):
        tj.jit(loaded(GROWING)["f"])(np.ones(3))
