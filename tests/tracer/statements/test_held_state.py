"""State in objects: attributes, items of lists, values of dicts and variables of enclosing functions that loops and
branches of the program bind anew.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import Tally, verdict
from tests.generators.rebinding import branching, handing, held
from tests.numpy.cases import Cases
from tracejit.support.errors import TracejitError

X = np.array([0.5, 1.0, 0.25, 2.0, 3.0, 1.5, 0.75])
CASES = Cases()
case = CASES.case


class Account:
    """An object with state, as simulations have it."""

    fee = 0.5

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.best = None
        self.seen = np.zeros(3)
        self.place = (0.0, 0)

    def take(self, v: Any) -> None:
        if v > 1:
            self.total += v
            self.count += 1
            self.seen[0] += v
            self.best = v if self.best is None else max(self.best, v)
            self.place = (v, self.count)
        else:
            self.total -= self.fee


class Slotted:
    __slots__ = ("n", "u", "v")


@attrs.define
class Walker:
    x: float = 0.0
    steps: int = 0

    def go(self, v: Any) -> None:
        self.x += v
        self.steps += 1
        if self.x > 2:
            self.x = -self.x


@case
def an_account(x, t):
    a = Account()
    for v in x:
        a.take(v)
    return a.total, a.count, 0.0 if a.best is None else a.best, a.seen, a.place


@case
def a_walker(x, t):
    w = Walker()
    while w.x > -t and w.steps < 7:
        w.go(x[w.steps])
    return w.x, w.steps


@case
def slots(x, t):
    s = Slotted()
    s.n, s.u, s.v = 0, x.copy(), x * 2
    while s.n < 50:
        s.v[1:] = s.u[:-1]
        if s.v.sum() > 9 * t:
            break
        s.u, s.v = s.v, s.u + 1
        s.n += 1
    return s.n, s.u, s.v


@case
def the_best_in_a_list(x, t):
    best = [0.0, -1]
    for i in range(len(x)):
        if x[i] > best[0]:
            best[0] = x[i]
            best[1] = i
    return best


@case
def a_dict_in_a_while(x, t):
    state = {"n": 0, "s": 0.0, "u": x * 2}
    while state["s"] < t and state["n"] < len(x):
        state["s"] += x[state["n"]]
        state["n"] += 1
        if state["n"] == 3:
            state["u"] = state["u"][::-1]
    return state


@case
def nested(x, t):
    grid = [[0.0, 1.0], {"a": [x.sum()]}]
    for i in range(20):
        for j in range(3):
            if x[j] * i > t:
                grid[0][0] += x[j]
                grid[1]["a"][0] -= 1
            else:
                grid[0][1] = grid[0][0] + grid[0][1]
    return grid


@case
def a_helper_changes_it(x, t):
    state = OrderedDict(a=0.0, b=1.0)

    def step(s, v):
        s["a"] += v
        s["b"] *= 0.5
        if s["a"] > t:
            s["a"] = 0.0

    for v in x:
        step(state, v)
    return dict(state)


@case
def a_variable_of_an_enclosing_function(x, t):
    n, last = 0, 0.0

    def seen(v):
        nonlocal n, last
        if v > t:
            n += 1
            last = v

    for v in x:
        seen(v)
    return n, last


@case
def counters(x, t):
    c, d = Counter(a=0), defaultdict(float, b=0.0)
    for v in x:
        if v > 1:
            c["a"] += 1
            d["b"] += v
    return dict(c), dict(d)


@case
def a_namespace(x, t):
    o = SimpleNamespace(lo=np.inf, hi=-np.inf, turn=False)
    for v in x:
        o.lo, o.hi = min(o.lo, v), max(o.hi, v)
        if v == t:
            o.turn = not o.turn
    return o.lo, o.hi, o.turn


@case
def two_names_of_it(x, t):
    p = {"w": x * 1.0}
    q = p
    for i in range(30):
        q["w"] = p["w"] * 0.5 + i
        if p["w"][0] > 20:
            break
    return p["w"], q["w"]


@case
def buffers(x, t):
    b = [x.copy(), x * 2]
    k = 0
    while b[0].sum() < 40 and k < 30:
        b[1][1:] = b[0][:-1] + 1
        b[0], b[1] = b[1], b[0]
        k += 1
    return b, k


@case
def a_controller(x, t):
    class Pid:
        def __init__(self):
            self.i, self.last = 0.0, None

        def __call__(self, e):
            self.i += e
            d = 0.0 if self.last is None else e - self.last
            self.last = e
            if abs(self.i) > 4:
                self.i = 4.0 if self.i > 0 else -4.0
            return 0.5 * e + 0.1 * self.i + 0.2 * d

    pid, y, out = Pid(), 0.0, np.zeros(60)
    for k in range(60):
        y += pid(t - y)
        out[k] = y
    return out, pid.i


@case
def left_early(x, t):
    a = Account()
    for v in x:
        a.total += v
        if a.total > t:
            return a.total, True
    return a.total, False


@case
def counts_that_begin_with_extents(x, t):
    a = Account()
    a.total = len(x)
    d, q, n = {"left": len(x) // 2}, [x.shape[0] - 1, x.size], len(x)

    def fewer():
        nonlocal n
        n -= 1

    if x[0] > t:
        a.total += 1
        fewer()
    for v in x:
        if v > t:
            d["left"] -= 1
            q[0], q[1] = q[1], q[0]
            fewer()
    return a.total, d, q, n


@pytest.mark.parametrize("t", [0.75, 1.5, 5.0])
@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_as_python(f: Callable[..., Any], t: float):
    jitted = tj.jit(f)
    for x in (X, X[:4], X[::-1].copy(), X[:3] * 0, X):
        if f is a_walker and len(x) < 7:
            continue
        np.testing.assert_equal(jitted(x.copy(), t), f(x.copy(), t))


def test_one_loop_of_the_program():
    """A loop that changes a dict is traced once."""

    def f(x):
        p = {"w": np.zeros(3), "b": 0.0}
        for i in range(500):
            p["w"] = p["w"] + x[i % 3]
            p["b"] += 1.0
        return p

    jitted = tj.jit(f)
    np.testing.assert_equal(jitted(X), f(X))
    told = jitted.explain()
    assert "left to Python" not in told, told
    assert jitted.lower(X).text("jaxpr").count("\n") < 40


def a_text(x):
    o = SimpleNamespace(mode="slow")
    if x[0] > 0:
        o.mode = "fast"
    return x, len(o.mode)


def a_new_key(x):
    d = {}
    if x[0] > 0:
        d["a"] = 1
    return len(d)


def a_list_that_grows(x):
    found = []
    for v in x:
        if v > 1:
            found.append(v)
    return len(found)


@pytest.mark.parametrize("f", [a_text, a_new_key, a_list_that_grows])
def test_refused_with_the_line(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match="changes") as error:
        tj.jit(f)(X.copy())
    assert error.value.location is not None


def test_arguments_that_are_changed_are_refused():
    def f(p, x):
        for v in x:
            if v > 1:
                p["b"] += v
        return p

    with pytest.raises(TracejitError, match="changes a list or dict that it was given"):
        tj.jit(f)({"b": 0.0}, X)


def test_derivatives_and_vmap():
    def f(x):
        a = Account()
        for v in x:
            a.total += v * v
            if a.total > 3:
                a.total *= 0.5
        return a.total

    eps = 1e-6
    expected = [(f(X + eps * e) - f(X - eps * e)) / (2 * eps) for e in np.eye(len(X))]
    np.testing.assert_allclose(tj.jit(tj.grad(f))(X), expected, rtol=1e-6)
    many = np.array([X, X * 2, X * 0.1])
    np.testing.assert_allclose(tj.jit(tj.vmap(f))(many), [f(x) for x in many])


CHUNK = 30


@pytest.mark.parametrize("make", [held, branching, handing])
@pytest.mark.parametrize("first", range(0, 120, CHUNK))
def test_random_programs(first: int, make: Callable[[int], Any]):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        made = make(seed)
        found = verdict(made, tally)
        assert found is None, made.alone(found)
    assert tally.calls > CHUNK


def test_the_random_programs_hold_state_everywhere():
    texts = [held(seed).text().split("def f(")[1] for seed in range(200)]
    for word in ("s.a", "d['b']", "q[2]", "w.c", "e[0][3]", "bump()", "return", "break"):
        assert sum(word in text for text in texts) >= 10, word


class Clock:
    def __init__(self):
        self.n = 0

    def goes_on(self, x):
        self.n += 1
        return self.n < x[3]


def a_test_that_changes_an_object(x):
    c = Clock()
    total = 0.0
    while c.goes_on(x):
        total += c.n
    return c.n, total


def a_test_that_changes_a_variable(x):
    n = 0

    def goes_on():
        nonlocal n
        n += 1
        return n < 9 * x[3]

    while goes_on():
        n += 1
    return n


def an_operand_that_changes_an_object(x):
    c = Clock()
    total = 0.0
    while total < 9 and c.goes_on(x):
        total += c.n
    return c.n, total


@pytest.mark.parametrize(
    "f", [a_test_that_changes_an_object, a_test_that_changes_a_variable, an_operand_that_changes_an_object]
)
def test_tests_of_loops_change_nothing(f: Callable[..., Any]):
    with pytest.raises(TracejitError, match="changes") as error:
        tj.jit(f)(X.copy())
    assert error.value.location is not None


def test_they_may_change_it_in_the_body():
    def f(x):
        c = Clock()
        total = 0.0
        while True:
            if not c.goes_on(9 * x):
                break
            total += c.n
        return c.n, total

    assert tj.jit(f)(X.copy()) == f(X.copy())


def test_a_loop_that_python_raises_in_at_its_end_is_no_endless_trace():
    def f(k):
        d, o, i = {}, None, 0
        while i < k or o < 1.5:
            i += 1
            d["n"] = i
        return i

    with pytest.raises((TracejitError, TypeError)):
        tj.jit(f)(3)
