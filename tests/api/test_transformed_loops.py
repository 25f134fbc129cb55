"""Loops and branches under grad, vmap, jit and each other: against finite differences, loops over elements,
and the eager run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import lax
from tracejit.support.config import config
from tracejit.support.errors import ConcretizationError, UnsupportedError


def recurrence(x: Any) -> Any:
    """A scan over rows with a carry and outputs."""

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        new = np.tanh(carry * 0.7 + row)
        return new, new * row

    last, outs = lax.scan(step, x[0] * 0.5, x)
    return np.sum(last**2) + np.sum(outs)


def backwards(x: Any) -> Any:
    last, outs = lax.scan(lambda c, r: (np.sin(c + r), c * r), np.zeros(x.shape[1]), x, reverse=True)
    return np.sum(last) + np.sum(outs * x)


def counted(x: Any) -> Any:
    """A counted loop that reads what surrounds it and its own index."""
    return np.sum(lax.fori_loop(0, 4, lambda i, c: c * np.cos(x) + x * (i + 1.0), x))


def numbers(x: Any) -> Any:
    """A loop over scalars: part of one kernel."""
    return np.sum(x) * lax.fori_loop(0, 5, lambda i, c: np.sin(c) + 0.1 * c * i, x[0, 1])


def filled(x: Any) -> Any:
    """A loop that fills an array in place."""
    out = np.zeros_like(x)
    for i in tj.range(1, x.shape[0]):
        out[i] = out[i - 1] * 0.5 + np.sin(x[i]) * x[i - 1]
    return np.sum(out**2)


def branched(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda y: np.sum(np.sin(y) * y), lambda y: np.sum(y**3), x)


def nested(x: Any) -> Any:
    """A branch in a loop in a loop."""

    def inner(i: Any, c: Any) -> Any:
        return lax.cond(np.sum(c) > 0, lambda a: np.sin(a) + x[0], lambda a: a * 0.9 - x[1], c)

    return np.sum(lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, inner, c * 1.1), x[1]))


def switched(x: Any) -> Any:
    which = np.argmax(x[0])
    return np.sum(lax.switch(which, [np.sin, np.cos, lambda y: y * y], x))


def mapped(x: Any) -> Any:
    return np.sum(lax.map(lambda row: np.sum(np.exp(row)) * row, x))


PROGRAMS = [recurrence, backwards, counted, numbers, filled, branched, nested, switched, mapped]
POINTS = [np.random.default_rng(k).uniform(-1, 1, (4, 3)) for k in range(4)]


def difference(f: Callable[..., Any], x: Any, t: Any, h: float = 1e-6) -> Any:
    return (np.asarray(f(x + h * t)) - np.asarray(f(x - h * t))) / (2 * h)


def near(got: Any, want: Any, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradients(f: Callable[..., Any]):
    for x in POINTS[:2]:
        t = POINTS[3]
        gradient = tj.grad(f)(x)
        near(np.sum(gradient * t), difference(f, x, t), 1e-6)
        near(tj.jvp(f, (x,), (t,))[1], np.sum(gradient * t))
        near(tj.jit(tj.grad(f))(x), gradient)
        near(tj.grad(tj.jit(f))(x), gradient)
        near(tj.jit(f)(x), f(x))


@pytest.mark.parametrize("f", PROGRAMS)
def test_vmap(f: Callable[..., Any]):
    xs = np.stack(POINTS)
    want = np.array([f(x) for x in POINTS])
    near(tj.vmap(f)(xs), want)
    near(tj.jit(tj.vmap(f))(xs), want)
    near(tj.vmap(f, in_axes=2)(np.moveaxis(xs, 0, 2)), want)


@pytest.mark.parametrize("f", PROGRAMS)
def test_gradients_of_each_element(f: Callable[..., Any]):
    xs = np.stack(POINTS)
    want = np.stack([tj.grad(f)(x) for x in POINTS])
    near(tj.vmap(tj.grad(f))(xs), want)
    near(tj.jit(tj.vmap(tj.grad(f)))(xs), want)


@pytest.mark.parametrize("f", [p for p in PROGRAMS if p not in (branched, nested, switched)])
def test_gradient_of_a_mapped_loop(f: Callable[..., Any]):
    xs = np.stack(POINTS)
    want = np.stack([tj.grad(f)(x) for x in POINTS])
    near(tj.grad(lambda ys: np.sum(tj.vmap(f)(ys)))(xs), want)
    near(tj.jit(tj.grad(lambda ys: np.sum(tj.vmap(f)(ys))))(xs), want)


@pytest.mark.parametrize("f", PROGRAMS)
def test_second_derivatives(f: Callable[..., Any]):
    x, t = POINTS[0], POINTS[3]
    want = difference(tj.grad(f), x, t)
    hessian = tj.hessian(f)(x)
    near(np.tensordot(hessian, t, 2), want, 1e-5)
    near(tj.jit(tj.hessian(f))(x), hessian, 1e-10)
    near(tj.grad(lambda y: np.sum(tj.grad(f)(y) * t))(x), np.tensordot(hessian, t, 2), 1e-10)


def newton(a: Any) -> Any:
    """The square root by iteration to convergence: how often is not known."""
    return lax.while_loop(lambda c: np.abs(c * c - a) > 1e-12, lambda c: 0.5 * (c + a / c), a)


def test_a_while_loop_has_forward_mode_only():
    near(tj.jvp(newton, (2.0,), (1.0,))[1], 0.5 / np.sqrt(2.0), 1e-9)
    near(tj.jit(lambda a: tj.jvp(newton, (a,), (1.0,))[1])(2.0), 0.5 / np.sqrt(2.0), 1e-9)
    with pytest.raises(UnsupportedError, match="no reverse-mode derivative"):
        tj.grad(newton)(2.0)


def test_mapped_while_loops_end_each_on_its_own():
    a = np.array([2.0, 9.0, 1e6, 0.25])
    near(tj.vmap(newton)(a), np.sqrt(a))
    near(tj.jit(tj.vmap(newton))(a), np.sqrt(a))
    near(tj.vmap(lambda b: tj.jvp(newton, (b,), (1.0,))[1])(a), 0.5 / np.sqrt(a), 1e-9)


def test_a_long_loop_stays_a_loop_under_grad():
    def f(x: Any) -> Any:
        out = np.zeros_like(x)
        for i in tj.range(500):
            out += np.sin(x + i) * 0.01
        return np.sum(out)

    text = tj.jit(tj.grad(f)).lower(np.ones(3)).text("jaxpr")
    assert "loop[" in text
    assert len(text.splitlines()) < 60
    near(tj.jit(tj.grad(f))(np.ones(3)), np.sum(np.cos(np.ones(3)[:, None] + np.arange(500)) * 0.01, axis=1), 1e-12)


def test_integer_carries_and_captured_values():
    w = np.array([0.5, -0.25])

    def f(x: Any) -> Any:
        def step(carry: Any, row: Any) -> tuple[Any, Any]:
            count, total = carry
            return (count + 1, total + row * w * count), count

        (_, total), counts = lax.scan(step, (0, x * 0.0), np.arange(6.0).reshape(3, 2))
        return np.sum(total * x) + np.sum(counts)

    x = np.array([1.0, 2.0])
    t = np.array([0.3, -0.7])
    near(np.sum(tj.grad(f)(x) * t), difference(f, x, t), 1e-7)
    near(tj.jit(tj.grad(f))(x), tj.grad(f)(x))


def test_what_python_carries_from_one_iteration_to_the_next(monkeypatch: pytest.MonkeyPatch):
    """The body is traced once: without a function's source, numbers that count and names that change places would be
    those of the first iteration in all.
    """

    def counter(x: Any) -> Any:
        k, total = 0, np.zeros(1)
        for _ in tj.range(3):
            total += x[k]
            k += 1
        return total

    def swapped(x: Any) -> Any:
        u, v = x.copy(), x * 0
        for _ in tj.range(3):
            v[1:] = u[:-1] + 1
            u, v = v, u
        return u

    def bound_first(x: Any) -> Any:
        j, factor, total = 7, 1, np.zeros(1)
        for i in tj.range(3):
            factor = 2
            for j in range(2):
                total += factor * x[i] * (j + 1) * sum(k for k in range(3))
        return total + j

    x = np.arange(5.0)
    for f, name in ((counter, "k"), (swapped, "u")):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))
        monkeypatch.setattr(config, "statements", False)
        with pytest.raises(TypeError, match=f"binds '{name}' anew"):
            tj.jit(f)(x)
        monkeypatch.undo()
    np.testing.assert_array_equal(tj.jit(bound_first)(x), bound_first(x))


def test_leaving_a_traced_loop_early_is_refused(without_statements: None):
    def broken(x: Any) -> Any:
        out = np.zeros(3)
        for _ in tj.range(5):
            for _ in tj.range(2):
                out += x
                break
        return out

    def returned(x: Any) -> Any:
        for _ in tj.range(5):
            return x + 1.0

    x = np.ones(3)
    np.testing.assert_array_equal(broken(x), 5 * x)  # outside of a trace it is Python's range
    for f, line in ((broken, "break"), (returned, "return x + 1.0")):
        for run in (tj.jit(f), tj.jit(tj.vmap(f, in_axes=None, axis_size=2))):
            with pytest.raises(TypeError, match="is left early") as error:
                run(x)
            assert line in str(error.value)


def test_an_exception_in_a_traced_loop_is_the_users_own():
    def f(x: Any) -> Any:
        for _ in tj.range(5):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tj.jit(f)(np.ones(3))
    assert tj.grad(np.sum)(np.ones(2)).tolist() == [1.0, 1.0]

    def g(x: Any) -> Any:
        for _ in tj.range(5):
            x += np.ones(7)
        return x

    with pytest.raises(ValueError, match="broadcast"):
        tj.jit(g)(np.ones(3))


def test_branches_change_arrays_in_different_orders():
    def f(x: Any, y: Any) -> Any:
        def yes() -> None:
            x[0], y[0], x[1] = 1, 2, y[1]

        def no() -> None:
            y[0], x[0] = 3, 4

        lax.cond(x[0] > 0, yes, no)

    for first in (0.0, 5.0):
        x, y = np.array([first, 7]), np.array([8, 9.0])
        tj.jit(f)(x, y)
        np.testing.assert_array_equal([x, y], [[1, 9], [2, 9]] if first else [[4, 7], [3, 9]])


# -- arrays that several levels change and read
# -----------------------------------------------------------------------------------------
def inner_loop(n: int) -> Any:
    k, total = np.zeros(1), np.zeros(1)
    for _ in tj.range(n):
        k += 5
        for _ in tj.range(2):
            total += k
    return total


def read_before_the_change(n: int) -> Any:
    k, total = np.zeros(1), np.zeros(1)
    for _ in tj.range(n):
        for _ in tj.range(2):
            total += k
        k += 5
    return total


def counted_inside(n: int) -> Any:
    k, total = np.zeros(1), np.zeros(1)
    for _ in tj.range(n):
        k += 5
        total[0] += lax.fori_loop(0, 2, lambda i, c: c + k[0], 0.0)  # noqa: B023
    return total


def branch_inside(n: int) -> Any:
    k, total = np.zeros(1), np.zeros(1)
    for i in tj.range(n):
        total += lax.cond(i > 0, lambda: k * 1, lambda: k * 0)  # noqa: B023
        k += 5
        total += lax.cond(i > 0, lambda: k * 1, lambda: k * 0)  # noqa: B023
    return total


def gradient_inside(n: int) -> Any:
    k, total = np.zeros(1), np.zeros(1)
    for _ in tj.range(n):
        k += 5
        total[0] += tj.grad(lambda x: x * k[0])(1.0)  # noqa: B023
    return total


@pytest.mark.parametrize("f", [inner_loop, read_before_the_change, counted_inside, branch_inside, gradient_inside])
def test_a_body_reads_what_the_loop_around_it_has_changed(f: Callable[..., Any]):
    np.testing.assert_array_equal(tj.jit(f)(3), f(3))


def test_the_first_value_of_an_array_that_a_loop_changes_is_not_relied_on(monkeypatch: pytest.MonkeyPatch):
    def branched() -> Any:
        k, total = np.zeros(1), np.zeros(1)
        for _ in tj.range(3):
            if k[0] == 0:
                total += 1
            k += 1
        return total

    def number() -> Any:
        k, total = np.array(0), np.zeros(1)
        for _ in tj.range(3):
            if k == 0:
                total += 1
            k += 1
        return total

    def cut(x: Any) -> Any:
        k = np.zeros(1, np.int64)
        for _ in tj.range(3):
            x[int(k[0]) :] += 1
            k += 1
        return x

    def fixed() -> Any:
        k, total = np.array([2, 5]), np.zeros(1)
        for _ in tj.range(3):
            if k[0] == 2:
                total += k[1]
        return total

    for f in (branched, number):
        assert tj.jit(f)() == f() == 1
    monkeypatch.setattr(config, "statements", False)
    for f in (branched, number):
        with pytest.raises(ConcretizationError):
            tj.jit(f)()
    monkeypatch.undo()
    for n in (5, 5, 7, 2):
        np.testing.assert_array_equal(tj.jit(cut)(np.arange(float(n))), cut(np.arange(float(n))))
    assert tj.jit(fixed)() == 15


SIZES = np.array([0, 1])


def test_a_captured_array_that_shapes_a_body_under_a_transformation_is_watched():
    f = tj.jit(tj.grad(lambda x: lax.fori_loop(0, 2, lambda i, c: c + x[: int(np.sum(SIZES))].sum(), 0.0)))
    x = np.ones(3)
    try:
        np.testing.assert_array_equal(f(x), [2, 0, 0])
        SIZES[:] = 1
        np.testing.assert_array_equal(f(x), [2, 2, 0])
    finally:
        SIZES[:] = 0, 1


# -- carries that no iteration changes
# ---------------------------------------------------------------------------------------------------
def test_a_carry_that_is_handed_on_is_no_carry():
    """Copying it in every iteration would cost as much as the array is large."""

    def solved(matrix: Any, b: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            matrix, x, b = state
            done = tj.numpy.where(tj.numpy.arange(x.shape[0]) < i, matrix[i] * x, 0.0).sum()
            return matrix, x.at[i].set((b[i] - done) / matrix[i, i]), b

        return tj.lax.fori_loop(0, b.shape[0], step, (matrix, b * 0, b))

    rng = np.random.default_rng(0)
    matrix, b = np.tril(rng.random((9, 9))) + 9 * np.eye(9), rng.random(9)
    f = tj.jit(solved)
    same, x, again = f(matrix, b)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b))
    np.testing.assert_array_equal(same, matrix)
    np.testing.assert_array_equal(again, b)
    assert "carries=1" in f.lower(matrix, b).text("jaxpr")
    gradient = tj.grad(lambda m: solved(m, b)[1].sum())(matrix)
    lower = np.linalg.inv(matrix)
    np.testing.assert_allclose(gradient, np.tril(-np.outer(lower.sum(0), x)))


@pytest.mark.parametrize("jit", [False, True])
def test_loops_that_hand_on_some_or_all_carries(jit: bool):
    run = tj.jit if jit else lambda f: f
    x, y = np.arange(3.0), np.ones(2)
    for loop in (
        lambda x, y: tj.lax.fori_loop(0, 3, lambda i, c: c, (x, y)),
        lambda x, y: tj.lax.while_loop(lambda c: c[0].sum() < 0, lambda c: c, (x, y)),
        lambda x, y: tj.lax.scan(lambda c, _: (c, None), (x, y), None, length=2)[0],
    ):
        for got, want in zip(run(loop)(x, y), (x, y), strict=True):
            np.testing.assert_array_equal(got, want)
    (total, fixed), rows = run(lambda x, y: tj.lax.scan(lambda c, r: ((c[0] + r, c[1]), c[1] * r), (0.0, y), x))(x, y)
    assert total == 3.0
    np.testing.assert_array_equal(fixed, y)
    np.testing.assert_array_equal(rows, np.outer(x, y))
    grown, limit, step = run(
        lambda x, y: tj.lax.while_loop(
            lambda c: c[0].sum() < c[1], lambda c: (c[0] + c[2], c[1], c[2]), (x, 20.0, np.ones(3))
        )
    )(x, y)
    np.testing.assert_array_equal(grown, x + 6)
    assert limit == 20.0
    np.testing.assert_array_equal(step, np.ones(3))


@pytest.mark.parametrize("name", ["set", "add"])
def test_loops_of_at_work_in_place(name: str):
    f = tj.jit(lambda x: tj.lax.fori_loop(0, x.shape[0], lambda i, x: getattr(x.at[i], name)(i * 2.0), x))
    np.testing.assert_array_equal(f(np.zeros(5)), 2.0 * np.arange(5))
    text = f.lower(np.zeros(5)).text("program")
    assert "swap out0" not in text, text  # another array in every iteration


def _root_compared(z: Any) -> Any:
    w = z * z + z
    for _ in range(6):
        if np.sqrt(w) > 20:
            break
        w = w * 0.5
    return w


def _root_that_chooses(z: Any) -> Any:
    w = z * z + z
    for _ in range(10):
        w = np.where(np.sqrt(w) > 20, w + z * z, w * 0.5 + z)
    return w


def _norm_as_a_test(z: Any) -> Any:
    x = np.array([0.3, 0.2]) * (1 + z)
    w = x * 1.0
    for _ in range(20):
        new = np.minimum(w, 1.0) * 1.0
        if np.linalg.norm(new - w) < 1e-9:
            break
        w = new * x
    return (w * w * x).sum()


@pytest.mark.parametrize("f", [_root_compared, _root_that_chooses, _norm_as_a_test], ids=lambda f: f.__name__)
def test_what_is_only_compared_leaves_nothing_infinite_in_second_derivatives(f: Callable[[Any], Any]):
    """The slope of a root is infinite at 0, where its value decides and is not in the result."""
    h = 1e-4
    wanted = (f(2 * h) - 2 * f(h) + f(0.0)) / h**2 if f is not _norm_as_a_test else (f(h) - 2 * f(0.0) + f(-h)) / h**2
    for second in (tj.jit(tj.grad(tj.grad(f))), tj.jit(tj.hessian(f)), tj.jit(tj.jacrev(tj.jacrev(f)))):
        np.testing.assert_allclose(second(0.0), wanted, rtol=1e-5, atol=1e-5)
    found = tj.jit(tj.vmap(tj.grad(tj.grad(f))))(np.array([0.0, 0.0]))
    np.testing.assert_allclose(found, [wanted] * 2, rtol=1e-5, atol=1e-5)


def _until_it_grows(b: Any) -> Any:
    x = b * 0.0
    old = np.inf
    for _ in range(20):
        x = x + (b - x) * 1.0
        n = np.linalg.norm(b - x)
        if n >= old:
            break
        old = n
    return x.sum()


def _history(b: Any) -> Any:
    x = b * 0.0
    h = np.zeros(20)
    for k in range(20):
        x = x + (b - x) * 1.0
        h[k] = np.linalg.norm(b - x)
        if h[k] < 1e-9:
            break
    return x.sum()


def _best_so_far(b: Any) -> Any:
    x = b * 0.0
    e0, bx = np.inf, x
    for _ in range(10):
        x = x + (b - x) * 1.0
        e = np.linalg.norm(b - x)
        if e < e0:
            e0, bx = e, x
    return bx.sum()


def _log_compared(b: Any) -> Any:
    w, log = b * 0.0, np.zeros(10)
    for k in range(10):
        log[k] = np.sqrt(w[0])
        w = w * 0.5
    if log[3] > 2:
        w = w + 1
    return (w + b).sum()


def _log_counted(b: Any) -> Any:
    w, log = b * 0.0, np.zeros(10)
    for k in range(10):
        log[k] = np.sqrt(w[0])
        w = w * 0.5
    return (w + b).sum() * (log > 3).sum() + b.sum()


def _log_stopped(b: Any) -> Any:
    w, log = b * 0.0, np.zeros(10)
    for k in range(10):
        log[k] = np.sqrt(w[0])
        w = w * 0.5
    return (w + b).sum() + lax.stop_gradient(log.sum())


RECORDS = [_until_it_grows, _history, _best_so_far, _log_compared, _log_counted, _log_stopped]


@pytest.mark.parametrize("f", RECORDS, ids=lambda f: f.__name__)
def test_what_loops_record_and_only_compare_has_no_part_in_derivatives(f: Callable[[Any], Any]):
    """The recorded norms and roots are 0, where their slopes are infinite."""
    b = np.array([2.0, 3.0])
    both = np.array([b, b])
    np.testing.assert_array_equal(tj.jit(tj.grad(f))(b), [1, 1])
    np.testing.assert_array_equal(tj.jit(tj.jacfwd(f))(b), [1, 1])
    np.testing.assert_array_equal(tj.jit(tj.vmap(tj.grad(f)))(both), np.ones((2, 2)))
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: tj.vmap(f)(x).sum()))(both), np.ones((2, 2)))


def test_carries_that_nobody_wants_are_not_computed():
    def f(x: Any) -> Any:
        dead = x * 1.0
        for k in tj.range(5):
            dead = np.cos(dead) * k
            x = x * 0.5
        return x

    jaxpr = tj.jit(f).lower(np.ones(3)).jaxpr
    (loop,) = [e for e in jaxpr.equations if e.primitive.name == "loop"]
    assert [v.aval.shape for v in loop.outputs] == [(3,)]
    assert "cos" not in str(loop.primitive.body)
