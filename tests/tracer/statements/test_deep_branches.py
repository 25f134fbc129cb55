"""Branches in branches are traced once each, however deep, and what is too deep is said."""

import importlib.util
import inspect
import sys

import numpy as np
import pytest

import tracejit as tj
from tracejit.api import bodies
from tracejit.support.errors import UserError


def elifs(x):
    y = 0.0
    if x[0] < 1:
        y = 1
    elif x[0] < 2:
        y = x[1]
    elif x[0] < 3:
        y = 2.5
    elif x[0] < 4:
        y = x[2] * 2
    elif x[0] < 5:
        y = -1
    elif x[0] < 6:
        y = 7.5
    elif x[0] < 7:
        y = x[0]
    elif x[0] < 8:
        y = 3
    return y


def nested(x):
    if x[0] > 0:
        x[0] += 1
        if x[1] > 0:
            x[1] += 1
            if x[2] > 0:
                x[2] += 1
                if x[0] > 1:
                    x[0] *= 2
                    if x[1] > 1:
                        x[1] *= 2
                        if x[2] > 1:
                            x[2] *= 2
    return x.sum()


def machine(program, tape):
    place = at = 0
    while at < len(program):
        c = program[at]
        if c == 0:
            place += 1
        elif c == 1:
            place -= 1
        elif c == 2:
            tape[place] += 1
        elif c == 3:
            tape[place] *= 2
        elif c == 4:
            tape[place] = 0
        elif c == 5:
            at += 1
        at += 1
    return place, at


def several(x):
    """Some sides return, some bind a name that others do not."""
    if x[0] < 1:
        a = 1.5
    elif x[0] < 2:
        return x * 2
    elif x[0] < 3:
        a = 2
    elif x[0] < 4:
        return x
    elif x[0] < 5:
        a = x[1]
    else:
        a = 0
    return x + a


def heap(x):
    """A helper that returns nothing, from within its loop and at its end."""

    def sift(i):
        while True:
            child = 2 * i + 1
            if child >= len(x):
                return
            if child + 1 < len(x) and x[child + 1] > x[child]:
                child += 1
            if x[i] < x[child]:
                x[i], x[child] = x[child], x[i]
                i = child
            else:
                return

    for k in range(len(x) // 2 - 1, -1, -1):
        sift(k)
    return x


@pytest.mark.parametrize(
    ("function", "calls", "most"),
    [
        (elifs, [(np.array([k + 0.5, 10.0, 20.0]),) for k in range(10)], 50),
        (nested, [(np.array(x),) for x in ([1.0, 1, 1], [0.0, 1, 1], [1.0, 1, 0], [1.0, 0.5, 1])], 20),
        (machine, [(np.array([0, 2, 3, 0, 2, 5, 4, 1, 2]), np.arange(4.0)), (np.array([4]), np.arange(4.0))], 60),
        (heap, [(np.array([5.0, 0, 7, 1, 0]),), (np.arange(17.0),), (np.array([1.0, 2.0]),)], 120),
        (several, [(np.array([k + 0.5, 10.0]),) for k in range(7)], 60),
    ],
    ids=lambda x: x.__name__ if callable(x) else None,
)
def test_branches_in_branches(function, calls, most, monkeypatch):
    made = 0
    before = bodies.Body.__init__

    def counted(self, *args, **options):
        nonlocal made
        made += 1
        before(self, *args, **options)

    monkeypatch.setattr(bodies.Body, "__init__", counted)
    jitted = tj.jit(function)
    for n, args in enumerate(calls):
        ours, theirs = ([x.copy() for x in args] for _ in range(2))
        got, want = jitted(*ours), function(*theirs)
        np.testing.assert_allclose(got, want, rtol=1e-14)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
        if n == 0:
            assert made <= most


def shifted(x, depth):
    if depth == 0:
        return x
    if x[0] > depth:
        return shifted(x - 1, depth - 1)
    return shifted(x + 2, depth - 1)


def merge_sort(x):
    n = len(x)
    if n <= 1:
        return x
    a, b = merge_sort(x[: n // 2]), merge_sort(x[n // 2 :])
    out, i, j = np.zeros(n), 0, 0
    for k in range(n):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
    return out


def even(x, n):
    return x if n == 0 else odd(x + 1, n - 1)


def odd(x, n):
    if x[0] > 3:
        x = x * 2
    return x if n == 0 else even(x, n - 1)


class Walker:
    def walk(self, x, depth):
        if depth == 0:
            return x
        if x[0] > 0:
            x = x - 1
        return self.walk(x, depth - 1)


@pytest.mark.parametrize(
    ("function", "more"), [(shifted, (2,)), (merge_sort, ()), (even, (3,)), (odd, (4,)), (Walker().walk, (3,))]
)
def test_functions_that_call_themselves_have_branches(function, more):
    jitted = tj.jit(function)
    for x in (np.array([3.0, 1, 2, 5, 4]), np.array([7.0, 2, 9, 1, 1]), np.zeros(5)):
        np.testing.assert_array_equal(jitted(x, *more), function(x, *more))


def chain(tmp_path, count):
    text = "def f(k, x):\n" + "".join(f"    if k == {i}: return x * {i}\n" for i in range(count)) + "    return x\n"
    path = tmp_path / "chain.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"chain_{count}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.f


def test_many_branches_that_return(tmp_path):
    f = tj.jit(chain(tmp_path, 40))
    x = np.arange(3.0)
    for k in (0, 1, 7, 39, 40):
        np.testing.assert_array_equal(f(k, x), x * k if k < 40 else x)
    assert f.compilations == 1


def test_branches_deeper_than_the_recursion_limit(tmp_path):
    f = tj.jit(chain(tmp_path, 60))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 800)
    try:
        with pytest.raises(UserError, match="branches in branches deeper than Python's recursion limit"):
            f(7, np.arange(3.0))
        sys.setrecursionlimit(10_000)
        np.testing.assert_array_equal(f(7, np.arange(3.0)), 7 * np.arange(3.0))
    finally:
        sys.setrecursionlimit(limit)
