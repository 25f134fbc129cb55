"""Arrays of rank 0, and numbers, that loops and branches hand on: what changes them in place afterwards."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tracejit.support.errors import TracejitError

WAYS = {  # how v, of w and q, is handed on; s decides
    "rotated": "for i in range(12): v, q = q, v",
    "changed and bound": "for i in range(12):\n        v += 1\n        v = q",
    "chosen in a loop": "for i in range(12): v = v if s > i else q",
    "branch": "if s > 1: v = q",
    "chosen": "v = w if s > 1 else q",
    "a number on one way": "if s > 1: v = w * 2",
    "a new array": "if s > 1: v = np.array(w * 2)\n    else: v = np.array(q)",
    "new ones in a loop": "for i in range(12): v = np.array(v + s)",
    "a number after a loop": "for i in range(12): v = v + s",
    "while": "k = 0\n    while k < s:\n        v = q\n        k += 1",
    "counted": "k = 0\n    while k < s:\n        v = np.array(v + 1)\n        k += 1",
    "a helper": "v = helper(w, q, s)",
    "nothing": "pass",
}
CHANGES = [
    "v += 1", "v *= 2", "u = v; u += 1", "u = [v]; u[0] += 1", "v[...] = 3", "v[()] = 3", "v.fill(3)",
    "np.copyto(v, 3)",
    "np.add(v, 1, out=v)", "np.add.at(v, (), 1)", "u = np.asarray(v); u += 1", "u = np.atleast_1d(v); u[0] = 3",
    "u = v.reshape(1); u[0] = 3", "u = v[None]; u[0] = 3", "u = v.T; u += 1", "u = v.copy(); u += 1",
    "u = v.astype(float, copy=False); u += 1", "u = np.ravel(v); u[0] = 3", "u = v + 0; u += 1", "u = v[...]; u += 1",
]  # fmt: skip

MADE = """
import numpy as np

def helper(w, q, s):
    if s > 1:
        return w
    return q

def f(w, q, s):
    v = {first}
    {way}
    {change}
    return v, w, q
"""


def outcome(f: Callable[..., Any], s: int) -> Any:
    given = [np.array(1.0), np.array(2.0)]
    try:
        found = f(*given, s)
    except TracejitError:
        return "refused", given
    except Exception as error:
        return type(error).__name__, given
    return [float(x) for x in found], [float(x) for x in given]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", ["w", "w.copy()", "w * 1"])
def test_as_python_or_refused(way: str, first: str):
    answered = 0
    for change in CHANGES:
        f = loaded(MADE.format(first=first, way=WAYS[way], change=change))["f"]
        jitted = tj.jit(f)
        for s in (3, 0):
            found, want = outcome(jitted, s), outcome(f, s)
            if found[0] == "refused" or isinstance(want[0], str):
                continue
            assert found == want, (change, s)
            answered += 1
    assert answered >= (28 if way == "nothing" else 2)


def test_numbers_stay_numbers():
    def f(x):
        total = np.array(0.0)
        for v in x:
            total = total + v
        count = np.zeros((), int)
        for v in x:
            if v > 1:
                count = count + 1
        return total, count, total * 2

    np.testing.assert_array_equal(tj.jit(f)(np.arange(5.0)), f(np.arange(5.0)))


PUT = [
    "y.put(0, 5)", "np.put(y, 0, 5)", "np.put(y, [0], [5.0])", "np.putmask(y, y > 0, 7)", "np.place(y, True, 5)",
    "np.copyto(y, 5)", "v = np.broadcast_to(z, ()); v[...] = 5", "v = np.broadcast_to(y, ()); v[...] = 5",
    "v = np.broadcast_to(z, ()); v += 1", "v = np.broadcast_to(x, x.shape); v[0] = 5", "z.put(0, 5)",
    "np.putmask(z, z > 0, 7)", "np.place(z, np.array(True), 5)", "v = np.broadcast_to(z, ()); z += v",
]  # fmt: skip


@pytest.mark.parametrize("change", PUT)
@pytest.mark.parametrize("number", ["x[0]", "x.sum()", "z + 0"])
def test_what_puts_elements_into_numbers(change: str, number: str):
    f = loaded(f"def f(x, z):\n    y = {number}\n    {change}\n    return y, y + z")["f"]
    given, want = [np.ones(3), np.array(2.0)], [np.ones(3), np.array(2.0)]
    try:
        expected = f(*want)
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError, TracejitError)):
            tj.jit(f)(*given)
    else:
        np.testing.assert_array_equal(tj.jit(f)(*given), expected)
    for one, other in zip(given, want, strict=True):
        np.testing.assert_array_equal(one, other)
