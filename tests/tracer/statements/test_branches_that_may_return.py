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
