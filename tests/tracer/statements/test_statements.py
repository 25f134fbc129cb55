"""Python's own loops and branches on traced values: loops and branches of the program, with plain Python's results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.tracer.statements.asserting import all_positive
from tracejit.support.config import config
from tracejit.support.errors import TracejitError, UnsupportedError
from tracejit.support.tree import flatten

PROGRAMS: list[tuple[Callable[..., Any], tuple[tuple[Any, ...], ...], set[str]]] = []


@pytest.fixture(autouse=True)
def _statements() -> Iterator[None]:
    before, config.statements = config.statements, True
    unroll, config.unroll = config.unroll, 0
    yield
    config.statements, config.unroll = before, unroll


def program(kinds: set[str], *calls: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """kinds: the operations that the program has of `loop`, `while` and `cond`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append((function, calls, kinds))
        return function

    return register


def copied(args: tuple[Any, ...]) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


# -- loops -------------------------------------------------------------------------------------------------------------
@program({"loop"}, (np.arange(5.0),), (np.arange(9.0),), (np.arange(7.0, dtype="f4"),), (np.arange(6),))
def numbers_that_widen(x):
    s, best = 0, -1
    for i in range(x.shape[0]):
        s += x[i] * i
        last = x[i]
    return s, last, best


@program({"loop"}, (np.array([1.0, -2.0, 3.0] * 3), np.zeros(9)))
def arrays_in_place_and_branches(x, out):
    n = 0
    for i in range(x.shape[0]):
        if x[i] > 0:
            out[i] = x[i]
            n += 1
        else:
            out[i] = -1
        out += 1
    return n


@program({"loop"}, (np.arange(12.0).reshape(6, 2), np.arange(6.0)))
def enumerate_zip_reversed(x, w):
    s = np.zeros(2)
    for i, (row, k) in enumerate(zip(x, w, strict=False)):
        s += row * k + i
    for row in reversed(x):
        s = s / 2 + row
    return s


@program({"loop"}, (np.arange(10.0) ** 2, 20), (np.arange(12.0) ** 2, 30))
def heat(u, steps):
    for _ in range(steps):
        old = u.copy()
        u[1:-1] = 0.5 * (old[:-2] + old[2:])
    return u.sum()


@program({"loop"}, (np.random.default_rng(1).random((8, 8)),), (np.random.default_rng(2).random((9, 9)),))
def shortest_paths(d):
    for k in range(d.shape[0]):
        d[:] = np.minimum(d, d[:, k][:, None] + d[k][None])
    return d


@program({"loop"}, (np.random.default_rng(3).random(9),), (np.random.default_rng(4).random(12),))
def bubble_sort(x):
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x


@program({"loop"}, (20,), (30,))
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@program({"loop"}, (np.arange(6.0), 10), (np.arange(7.0), 11))
def names_of_earlier_iterations(x, n):
    previous = x
    for i in range(n):
        current = np.sin(previous) + i
        change = current - previous
        previous = current
    return previous, change, i


def _pairs(*sizes: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(5)
    return [(rng.normal(size=n), rng.normal(size=n)) for n in sizes]


@program({"loop"}, *_pairs(8, 9))
def arrays_that_change_names(u, v):
    for _ in range(11):
        u[1:-1] = v[:-2] + v[2:]
        u, v = v, u
    return u


@program({"loop"}, *_pairs(8, 9))
def arrays_that_change_names_and_are_changed_later(u, v):
    first = u
    for _ in range(12):
        u[1:-1] = 0.5 * (v[:-2] + v[2:])
        u, v = v, u
    u[0] = 5
    first[1] = 6
    return u, v, first


@program({"loop"}, *[(*uv, n) for uv in _pairs(8, 9) for n in (5, 6, 1)])
def arrays_that_change_names_so_many_times(u, v, n):
    for _ in range(n):
        u[1:-1] = 0.5 * (v[:-2] + v[2:])
        u, v = v, u
    return u, v


@program({"loop"}, *_pairs(6, 7, 8))
def three_arrays_that_change_names(u, v):
    w = np.zeros_like(u)
    for _ in range(u.shape[0] * 2 - 3):
        w[1:-1] = 0.5 * (v[:-2] + u[2:])
        u, v, w = v, w, u
    return u, v, w


@program({"while"}, *_pairs(8, 9))
def arrays_that_change_names_until_they_agree(u, v):
    change, k = 1.0, 0
    while change > 1e-3 and k < 37:
        v[1:-1] = 0.25 * (u[:-2] + u[2:])
        change = np.abs(u - v).max()
        u, v = v, u
        k += 1
    return u, k


@program({"while", "cond"}, *_pairs(8, 9))
def arrays_that_change_names_after_a_test(u, v):
    for i in range(30):  # noqa: B007
        v[1:-1] = 0.25 * (u[:-2] + u[2:])
        error = np.abs(u - v).max()
        if error < 0.05:
            break
        u, v = v, u
    return u, i, error


@program({"while"}, *_pairs(8, 9))
def new_names_of_old_arrays_after_a_test(u, v):
    p = u
    for i in range(20):  # noqa: B007
        q = np.sin(p) + v
        change = np.abs(q - p).sum()
        if change < 0.1:
            break
        p = q
    return p, q, i, change


@program({"loop"}, *_pairs(8, 9))
def arrays_that_change_names_in_two_loops(u, v):
    for _ in range(9):
        for _ in range(7):
            v[1:-1] = 0.25 * (u[:-2] + u[2:])
            u, v = v, u
        u[0] += 1
    return u, v


@program({"loop"}, *_pairs(8, 9))
def arrays_that_change_names_between_branches(u, v):
    for _ in range(9):
        if u[0] > 0:
            v[1:] = u[:-1] + 1
        else:
            v[0] += 1
        u, v = v, u
        u[2] *= 0.5
    return v


@program({"loop"}, (np.arange(6.0), 10))
def steps_down(x, n):
    s = 0.0
    for i in range(n, 0, -3):
        s = s * 0.5 + x.sum() * i
    for j in range(2, 17, 2):
        s -= j
    return s, i, j


# -- jumps -------------------------------------------------------------------------------------------------------------
@program({"while"}, (np.array([3.0, 90.0]),), (np.array([0.5]),))
def halved(x):
    steps = 0
    while x.max() > 1:
        x = x / 2
        steps += 1
    return x, steps


@program({"while", "cond"}, (np.array([1.0, 5.0, 2.0, 7.0, 1, 1]), 3.0), (np.array([1.0, 2.0] * 4), 3.0))
def first_above(x, limit):
    for i in range(x.shape[0]):
        if x[i] > limit:
            break
    else:
        i = -1
    return i


@program({"while", "cond"}, (np.array([1.0, 5.0, 2.0, 1, 1]), 3.0), (np.array([1.0, -2.0] * 5), 3.0))
def early_return(x, limit):
    s = 0.0
    for row in x:
        if row > limit:
            return row * 10
        if row < 0:
            continue
        s += row
    return s


@program({"while"}, (np.float64(9.0),), (np.float64(2.0),))
def newton(a):
    x = a
    for _ in range(50):
        new = 0.5 * (x + a / x)
        if abs(new - x) < 1e-12:
            break
        x = new
    return x


@program({"while"}, (np.diag([3.0, 1.0, 2.0, 5.0]) + 0.1, np.ones(4)))
def power_iteration(a, v):
    eigenvalue = 0.0
    for i in range(100):
        w = a @ v
        norm = np.sqrt(w @ w)
        v = w / norm
        if abs(norm - eigenvalue) < 1e-10 or i > 90:
            break
        eigenvalue = norm
    return eigenvalue, v, i


@program({"while"}, (27,), (97,))
def collatz(n):
    k, x = 0, np.int64(n)
    while x != 1:
        if x % 2 == 0:
            x //= 2
        else:
            x = 3 * x + 1
        k += 1
    return k


# -- branches and expressions ------------------------------------------------------------------------------------------
@program({"cond"}, (np.array(2.0),), (np.array(-2.0),), (np.array(9.0),))
def chain_and_choice(x):
    if 0 < x < 5:
        return x * 2
    y = x if x > 5 and not x > 100 else -x
    return y + 1


@program({"cond"}, (np.ones(3),), (-np.ones(3),))
def bound_in_both_branches(x):
    if x.sum() > 0 or x[0] > 5:
        y, z = x * 2, 1
    elif x.sum() < -100:
        y, z = x, 3
    else:
        y, z = x - 1, 2
    return y, z


@program({"cond"}, (np.ones(3),), (-np.ones(3),))
def a_new_array_changed_afterwards(x):
    if x.sum() > 0:
        x = x * 2
    y = x + 1
    y[0] = 5
    return y


# -- what stays with Python --------------------------------------------------------------------------------------------
@program(set(), (np.ones(3),))
def lists_that_grow(x):
    rows = []
    for i in range(10):
        rows.append(x * i)
    return np.stack(rows)


@program(set(), *_pairs(8, 9))
def two_names_of_one_array_that_change(u, v):
    u = v
    for _ in range(9):
        v[1:] = u[1:] + 1
        u[0] += 1
        u, v = v, u
    return u


@program(set(), *_pairs(8, 9))
def rows_that_change_names(u, v):
    both = np.stack([u, v])
    p, q = both[0], both[1]
    for _ in range(9):
        p[1:-1] = q[2:]
        p, q = q, p
    return both


@program({"loop"}, (np.ones(3),))
def index_used_as_a_number(x):
    table = {k: float(k) for k in range(10)}
    for i in range(10):
        x = x * 0.5 + table[i]
    return x


@program(set(), (np.ones(3),))
def integers_without_bound(x):
    for i in range(70):
        x = x + 2.0**-i * 2**i
    return x


@program({"loop"}, (np.arange(4.0),))
def other_names_of_an_array(x):
    y = x
    for _ in range(9):
        x[0] += 1
        y = y * 1.5
        y[1] += 1
    return x, y


@program(set(), (np.arange(4.0),))
def shapes_that_change(x):
    for _ in range(6):
        x = np.concatenate([x, x[:1]])
    return x


@pytest.mark.parametrize(("function", "calls", "kinds"), PROGRAMS, ids=[f.__name__ for f, _, _ in PROGRAMS])
def test_programs(function: Callable[..., Any], calls: tuple[tuple[Any, ...], ...], kinds: set[str]):
    jitted = tj.jit(function)
    for args in (*calls, *calls):
        ours, theirs = copied(args), copied(args)
        got, want = flatten((jitted(*ours), ours))[0], flatten((function(*theirs), theirs))[0]
        assert len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12 if np.asarray(y).dtype != np.float32 else 1e-5)
            assert np.asarray(x).dtype == np.asarray(y).dtype
            assert np.shape(x) == np.shape(y)
    found = {e.primitive.name for e in jitted.lower(*copied(calls[0])).jaxpr.equations}
    assert found & {"loop", "while", "cond"} == kinds


def test_an_exception_on_a_condition_is_raised_by_the_program():
    @tj.jit
    def f(x):
        if np.any(x < 0):
            raise ValueError("negative")
        x += 1
        return np.sqrt(x)

    x = np.ones(3)
    np.testing.assert_array_equal(f(x), np.sqrt(np.full(3, 2.0)))
    for _ in range(2):
        y = -np.ones(3)
        with pytest.raises(ValueError, match="negative") as error:
            f(y)
        assert type(error.value) is ValueError
        assert (y == -1).all()


def test_an_assertion_fails_in_the_program():
    f = tj.jit(all_positive)
    assert f(np.ones(9)) == 9
    with pytest.raises(AssertionError, match="not positive"):
        f(np.arange(9.0) - 3)


def test_an_array_that_may_be_another_one_is_not_changed():
    @tj.jit
    def f(x):
        y = x * 1
        if x.sum() > 0:
            x = y
        x[0] = 5.0
        return y

    with pytest.raises(UnsupportedError, match="may be another one"):
        f(np.ones(3))


def test_what_branches_leave_has_one_kind():
    @tj.jit
    def f(x):
        if x.sum() > 0:
            y = x
        else:
            y = x[None]
        return y

    with pytest.raises(TracejitError, match="branch"):
        f(np.ones(3))


class Particle:
    def __init__(self) -> None:
        self.mass = 2.0

    def pull(self, x: Any) -> Any:
        for i in range(8):
            x = x - 0.1 * self.mass * self.of(x, i)
        return x

    def of(self, x: Any, i: Any) -> Any:
        return x if x.sum() > i else -x


def test_methods_and_what_they_call():
    particle = Particle()
    f = tj.jit(lambda x: particle.pull(x))
    for mass in (2.0, 3.0):
        particle.mass = mass
        np.testing.assert_allclose(f(np.ones(3)), particle.pull(np.ones(3)))
    names = [e.primitive.name for e in f.lower(np.ones(3)).jaxpr.equations]
    assert "loop" in names


def test_derivatives_and_batches():
    def f(x, w):
        s = x * 0.0
        for i in range(w.shape[0]):
            s = np.tanh(w[i] * x + s)
        return s

    x, w = np.linspace(-1, 1, 5), np.linspace(0.5, 1.5, 7)
    grad = tj.jit(tj.grad(lambda x: np.sum(f(x, w))))
    h = 1e-6
    want = [(np.sum(f(x + h * e, w)) - np.sum(f(x - h * e, w))) / (2 * h) for e in np.eye(5)]
    np.testing.assert_allclose(grad(x), want, rtol=1e-6)
    batched = tj.jit(tj.vmap(lambda x: f(x, w)))
    np.testing.assert_allclose(batched(np.stack([x, 2 * x])), [f(x, w), f(2 * x, w)], rtol=1e-12)


def test_explain_tells_which_loops_python_runs():
    @tj.jit
    def f(x):
        rows = []
        for i in range(10):
            rows.append(x * i)
        return np.stack(rows)

    f(np.ones(3))
    assert "left to Python: the loop at test_statements.py:" in f.explain()
    assert "for i in range" not in f.explain()


def test_short_loops_over_arrays_are_written_out(monkeypatch: pytest.MonkeyPatch):
    def f(x):
        for i in range(10):
            x = np.tanh(x * 0.5 + i)
        return x

    def scalars(a):
        for i in range(10):
            a = np.tanh(a * 0.5 + i)
        return a

    x = np.linspace(-1, 1, 7)
    for unroll, function, argument, kinds in ((100, f, x, set()), (20, f, x, {"loop"}), (100, scalars, 0.5, {"loop"})):
        monkeypatch.setattr(config, "unroll", unroll)
        jitted = tj.jit(function)
        np.testing.assert_allclose(jitted(argument), function(argument), rtol=1e-14)
        assert {e.primitive.name for e in jitted.lower(argument).jaxpr.equations} & {"loop", "while", "cond"} == kinds
        assert "left to Python" not in jitted.explain()


def test_not_alone_is_a_decision():
    def clean(x: Any) -> Any:
        return not np.any(np.isnan(x))

    def masked(x: Any) -> Any:
        q = not (x > 5).any()
        return np.where(q, x, 0)

    for x in (np.array([1.0, 2.0]), np.array([np.nan, 7.0])):
        assert tj.jit(clean)(x) is clean(x)
        np.testing.assert_array_equal(tj.jit(masked)(x), masked(x))


def test_vars_and_dir_of_an_object_do_not_see_variables():
    class Model:
        pass

    model = Model()
    model.n = 2  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        r = x * vars(model)["n"] + ("n" in dir(model))
        if x[0] > 1:
            return r
        return -r

    for x in (np.array([0.5]), np.array([2.0])):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))
