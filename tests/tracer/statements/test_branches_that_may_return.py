"""Branches of which one way returns and another goes on: what follows them is there on each way, with its own jumps."""

import time

import numpy as np
import pytest

import tracejit as tj


def loop_with_else(x, u):
    if x[1] > 3:
        if x[0] > 2:
            x[1] = 3
        else:
            return u
    for i in range(len(x)):
        x[i] += 1
    else:
        u = 7.0
    return u


def break_behind(x, u):
    if x[1] > 3:
        if x[0] > 2:
            x[1] = 3
        else:
            return -1
    n = 0
    for i in range(len(x)):
        n += 1
        if x[i] > 3:
            break
    return n


def return_behind(x, u):
    if x[1] > 3:
        if x[0] > 2:
            x[1] = 3
        else:
            return -1
    for i in range(len(x)):
        if x[i] > 3:
            return i
        x[i] += 1
    return 100


def while_behind(x, u):
    if x[1] > 3:
        if x[0] > 2:
            x[1] = 3
        else:
            return -1
    n = 0
    while n < len(x):
        if x[n] > 3:
            break
        n += 1
    return n


@pytest.mark.parametrize("f", [loop_with_else, break_behind, return_behind, while_behind], ids=lambda f: f.__name__)
def test_jumps_behind_a_branch_that_may_return(f):
    jitted = tj.jit(f)
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = rng.integers(0, 8, 5)
        y = x.copy()
        assert repr(jitted(x, 0.5)) == repr(f(y, 0.5))
        np.testing.assert_array_equal(x, y)


def test_many_branches_that_may_return_compile_in_linear_time():
    lines = ["def f(x):"]
    for k in range(24):
        lines += [f"    if x[{k}] > 0:", f"        if x[{k}] > 9:", f"            return {k}", f"        x[{k}] += 1"]
    text = "\n".join([*lines, "    return -1", ""])
    f = _compiled(text)
    jitted = tj.jit(f)
    start = time.process_time()
    for x in (np.arange(24), np.zeros(24, int), np.full(24, 9), np.arange(24) % 5):
        y = x.copy()
        assert jitted(x) == f(y)
        np.testing.assert_array_equal(x, y)
    assert time.process_time() - start < 60  # it was over an hour


def _compiled(text):
    import linecache

    file = "<branches that may return>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {}
    exec(compile(text, file, "exec"), scope)
    return scope["f"]


def sift(a, hi):
    root = 0
    while root < hi:
        if a[root] >= 3:
            return
        root += 1


def sift_or_none(a, hi):
    for k in range(hi):
        if a[k] >= 3:
            return None
    return None


def a_number_or_nothing(a, hi):
    for k in range(hi):
        if a[k] >= 3:
            return
        if a[k] == 2:
            return k
    return 5


@pytest.mark.parametrize("helper", [sift, sift_or_none, a_number_or_nothing], ids=lambda f: f.__name__)
def test_a_helper_that_returns_nothing_in_a_loop_is_called_in_one(helper):
    def each(a):
        for e in range(len(a)):
            if helper(a, e) is None:
                a[e] += 1
        return a

    f = tj.jit(each)
    for values in ([3, 1, 2, 5, 4, 0], [0, 1, 2], [2, 2, 2, 2]):
        np.testing.assert_array_equal(f(np.array(values)), each(np.array(values)))
