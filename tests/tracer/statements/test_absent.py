"""Names that have no value, or None, on a condition which only the program knows: Python's answer, or its error."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def bound_in_one_branch(x):
    if x.sum() > 0:
        t = x * 2
    y = x + 1
    if x.sum() > 0:
        y = t
    return y


def bound_in_one_branch_and_read(x):
    if x.sum() > 0:
        t = x[0] * 2
    return t + x


def found_in_a_loop(x):
    for i in range(len(x)):
        if x[i] > 1:
            found = x[i]
    return found


def found_or_not(x):
    found = None
    for i in range(len(x)):
        if x[i] > 1:
            found = i
            break
    if found is None:
        return -1.0
    return x[found] * 2


def none_in_a_branch(x):
    t = x * 2 if x[0] > 0 else None
    if t is None:
        return x
    return t


def returned_by_a_helper(x):
    def helper(y):
        for i in range(len(y)):
            if y[i] > 1:
                return y[i]
        return None

    found = helper(x)
    return x.sum() if found is None else found + 1


def greatest(x):
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best


def greatest_of_some(x):
    best = None
    for v in x:
        if v < 0:
            continue
        if best is None or v > best:
            best = v
    return 0.0 if best is None else best


def reset_to_none(x):
    last = x[0]
    total = 0.0
    for i in range(len(x)):
        if last is not None:
            total += last
        last = x[i] if x[i] > 0 else None
    return total


def counted_from_the_last(x):
    since = None
    n = 0
    while n < x.shape[0] and x[n] < 4:
        if x[n] > 1:
            since = n
        n += 1
    if since is not None:
        n -= since
    return n


def array_or_none(x):
    kept = None
    for i in range(len(x)):
        if x[i] > 1:
            kept = x * i
        if kept is not None:
            kept[0] += 1
    return x if kept is None else kept


def by_a_loop_that_may_be_empty(x):
    n = np.argmax(x)
    for k in range(n):
        last = x[k] + 1
    return last


def deleted(x):
    t = x + 1
    if x[0] > 0:
        del t
        t = x * 3
    else:
        del t
    if x[0] > 0:
        return t
    return x


def pair_or_none(x):
    pair = None
    if x[0] > 0:
        pair = (x[0], x * 2)
    if pair is None:
        return x
    a, b = pair
    return a + b


def used_where_it_is_none(x):
    t = None
    if x[0] > 0:
        t = x[1]
    return t * 2


def of_two_kinds(x):
    p = None
    n = None
    if x[0] > 0:
        p = x[1] * 1.0
        n = 1
    for i in range(len(x)):
        if x[2] > 0:
            p = 1 if p is None else p * 2
            n = 0.5 if n is None else n + i
    return -1.0 if p is None else p, -2.0 if n is None else n


PROGRAMS: list[Callable[[Any], Any]] = [
    bound_in_one_branch, bound_in_one_branch_and_read, found_in_a_loop, found_or_not, none_in_a_branch,
    returned_by_a_helper, greatest, greatest_of_some, reset_to_none, counted_from_the_last, array_or_none,
    by_a_loop_that_may_be_empty, deleted, pair_or_none, used_where_it_is_none, of_two_kinds,
]  # fmt: skip
INPUTS = [
    np.array([0.5, 2.0, -1.0, 3.0, 0.2, 5.0]), -np.arange(6.0), np.array([3.0, -1.0, 0.0, 0.0, 2.0, 1.5]),
    np.array([-1.0, 0.5, 0.3, 4.0, 1.0, 1.2]), np.zeros(6),
]  # fmt: skip


def outcome(f: Callable[[Any], Any], x: Any) -> Any:
    try:
        return f(x.copy())
    except (UnboundLocalError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_answers_and_errors_are_pythons(function: Callable[[Any], Any], backend: str):
    jitted = tj.jit(function, backend=backend)
    for x in INPUTS:
        want, got = outcome(function, x), outcome(jitted, x)
        if isinstance(want, type):
            assert got is want
        else:
            np.testing.assert_array_equal(got, want)
    assert jitted.compilations == 1


@pytest.mark.parametrize("function", [found_or_not, greatest_of_some, reset_to_none, pair_or_none, array_or_none])
def test_batches_and_derivatives(function: Callable[[Any], Any]):
    rows = np.array(INPUTS)
    got = tj.jit(tj.vmap(function))(rows)
    np.testing.assert_array_equal(got, [function(x.copy()) for x in rows])
    for x in INPUTS[:4]:
        x = x + 0.01
        gradient = tj.jit(tj.grad(lambda x: np.sum(function(x))))(x)
        step = 1e-6
        for k, e in enumerate(np.eye(6)):
            up, down = np.sum(function(x + step * e)), np.sum(function(x - step * e))
            np.testing.assert_allclose(gradient[k], (up - down) / (2 * step), rtol=1e-6, atol=1e-6)


def test_none_is_unlike_every_number():
    def equal(k):
        v = None if k > 1 else k
        return v == 1, v != 1, 1 == v, 5 if v == 0 else 6

    def matched(k):
        v = None if k > 1 else k
        match v:
            case 1:
                return 10
            case None:
                return 20
            case _:
                return 30

    for f in (equal, matched):
        jitted = tj.jit(f)
        for k in (0, 1, 2, 3):
            np.testing.assert_array_equal(jitted(k), f(k))


def index_of(x, t):
    for i in range(len(x)):
        if x[i] > t:
            return i


def first_or_none(x, t):
    for v in x:
        if v > t:
            return v
    return None


def best_beside_others(x, t):
    b = None
    for v in x:
        if v > t and (b is None or v > b):
            b = v
    return b, 1.0, {"again": b}


def doubled_or_none(x, t):
    r = None
    if x[0] > t:
        r = x * 2
    return r


def two_of_their_own(x, t):
    r = q = None
    if x[0] > t:
        r = x * 2
    for v in x:
        if v > t + 1:
            q = v
            break
    return {"r": r, "q": q}


def place_and_value(x, t):
    for i in range(len(x)):
        if x[i] > t:
            return i, x[i]


def taken_apart(x, t):
    p = None
    for i in range(len(x)):
        if x[i] > t:
            p = i, x[i]
            break
    i, v = p
    return i, v


def selected(x, t):
    if x.sum() > t:
        return x[x > t]


def changed_before(x, t):
    if x[0] > t:
        return None
    x[0] = t
    return x.sum()


def array_and_number(x, t):
    if x[0] > t:
        return x * 2, 1.0
    return None


def arrays_of_a_loop(x, t):
    for i in range(len(x)):
        x = x + 1
        if x[i] > t:
            return {"x": x}["x"], (x[:1], i), np.ones(2)
    return None


def selected_and_number(x, t):
    return (x[x > t], 1) if x.sum() > t else None


def selected_in_a_loop(x, t):
    best, n = None, 0
    for i in range(len(x)):
        c = x[x > x[i]]
        if x[i] > t and (best is None or c.sum() > best.sum()):
            best = c
            n += 1
    return best, n


RETURNED = [
    selected_in_a_loop,
    array_and_number, arrays_of_a_loop, selected_and_number, index_of, first_or_none, best_beside_others,
    doubled_or_none, two_of_their_own, place_and_value, taken_apart, selected, changed_before,
]  # fmt: skip


@pytest.mark.parametrize("f", RETURNED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
def test_a_function_may_return_none_or_a_value(f: Callable[[Any, Any], Any], backend: str):
    def outcome(g: Callable[[Any, Any], Any], x: Any, t: float) -> Any:
        x = x.copy()
        try:
            return g(x, t), x
        except TypeError:
            return TypeError

    jitted = tj.jit(f, backend=backend)
    x = np.array([0.5, 2.0, 3.0])
    for t in (0.0, 2.5, 10.0, 1.0, 10.0, 10.0):
        for given in (x, x[:2], x, x[:0] if f in (index_of, first_or_none) else x):
            got, want = outcome(jitted, given, t), outcome(f, given, t)
            np.testing.assert_equal(got, want)
            if want is not TypeError:
                assert type(got[0]) is type(want[0])


@pytest.mark.parametrize("place", ["cpu", "opencl"])
def test_arrays_of_a_device_or_none(place: str):
    x = tj.device_put(np.array([0.5, 2.0, 3.0]), place)
    for f in (index_of, doubled_or_none, place_and_value):
        jitted = tj.jit(f)
        for t in (0.25, 9.0, 0.25, 9.0):
            got, want = jitted(x, t), f(np.array([0.5, 2.0, 3.0]), t)
            assert (got is None) == (want is None)
            if want is not None:
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
