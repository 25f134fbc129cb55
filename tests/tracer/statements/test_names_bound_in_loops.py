"""Names that a loop over a symbolic extent binds to what it cannot hand on, read behind it, within branches and loops
and where an `except` could tell that they have no value; and text of numbers.
"""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError


def caught(x):
    for _ in range(len(x)):
        g = "ab"
    try:
        y = len(g)
    except NameError:
        y = -1
    return y


def caught_by_all(x):
    for v in x:
        f = {"a": v}
    try:
        return f["a"] * 2
    except Exception:
        return -1.0


def in_a_branch(x):
    y = np.zeros(3)
    if x[0] > 0:
        for k in range(len(x)):
            mode = "sum"
            y[k % 3] += x[k]
        y[0] = 7.0 if mode == "sum" else 8.0
    return y


def in_a_while(x):
    i = 0
    while x[0] > i:
        for _ in x:
            last = None
            i += 1
        i += 1 if last is None else 2
    return i


def a_function(x):
    s = 0.0
    if x[0] > 0:
        for v in x:

            def g(t):
                return t * 2

            s += v
        s += g(1.0)
    return s


def a_list_in_a_long_loop(x):
    s = 0.0
    for j in range(20):
        if x[0] > j:
            for k in range(len(x)):
                g = [1.0]
                s += x[k]
            s += g[0]
    return s


@pytest.mark.parametrize(
    "function", [caught, caught_by_all, in_a_branch, in_a_while, a_function, a_list_in_a_long_loop]
)
def test_as_python_or_refused(function):
    f = tj.jit(function)
    answered = 0
    for n in (3, 7, 5, 1, 7):
        x = np.arange(1.0, n + 1)
        try:
            result = f(x)
        except TracerError as error:
            assert "becomes a" in str(error) or "is bound anew" in str(error)  # noqa: PT017
            continue
        np.testing.assert_array_equal(result, function(x))
        answered += 1
    assert answered == 5 or function in (a_list_in_a_long_loop, a_function)


def text(k, p):
    table = {"(3, 4)": 5.0, "[3]": 7.0, "3": 1.0}
    return (
        repr((k, p)) == "(3, 4)", table.get(str([k]), 0.0), f"{(k, 1)}" == "(3, 1)", str((k, "a"))[1] == "3",
        len(repr(k)), len(f"{(k, p)}"), len(f"{k=}"), len(ascii([k])), len(str(slice(k))), len(f"{k!r}"),
        table.get(str(k), 0.0), k * 2, {repr(k): p}[f"{k}"],
    )  # fmt: skip


@pytest.mark.parametrize("make", [int, float, lambda n: n > 3])
def test_numbers_in_text_are_numbers(make):
    f = tj.jit(text)
    for k, p in ((3, 4), (5, 6), (3, 4), (12345, 1)):
        args = make(k), make(p)
        assert f(*args) == text(*args)
