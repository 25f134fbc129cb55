"""Arrays from outside whose elements NumPy takes while the function is traced: what is then changed is seen or refused.

Such an array is no input of the program. It may share memory with an argument that the function changes, and may be
changed between calls, whatever its dtype, its size, or the way its elements are taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import WriteError

pytestmark = pytest.mark.filterwarnings("ignore:Warning. .partition. will ignore:UserWarning")


def unaligned(n: int) -> np.ndarray:
    made = np.zeros(8 * n + 1, "u1")[1:].view("f8")
    assert not made.flags.aligned
    return made


# kind -> (n -> an outer array and an array of float64 that is, or overlaps, what it holds)
KINDS: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "plain": lambda n: (a := np.zeros(n), a),
    "part": lambda n: (a := np.zeros(n + 1), a[1:])[::1],
    "unaligned": lambda n: (a := unaligned(n), a),
    "swapped": lambda n: (a := np.zeros(n), a.view(">f8"))[::-1],
    "complex": lambda n: (a := np.zeros(n, "c16"), a.real),
    "structured": lambda n: (a := np.zeros(n, [("x", "f8"), ("y", "f8")]), a["x"]),
    "packed": lambda n: (a := np.zeros(n, [("t", "u1"), ("x", "f8")]), a["x"]),
    "field": lambda n: (a := np.zeros(n, [("t", "u1"), ("x", "f8")])["x"], a),
    "masked": lambda n: (a := np.zeros(n), np.ma.masked_array(a, copy=False))[::-1],
    "subclass": lambda n: (a := np.zeros(n), a.view(type("Own", (np.ndarray,), {})))[::-1],
}


def numbers(w: Any) -> Any:
    """The elements of any of them as float64."""
    if w.dtype.names:
        w = w["x"]
    return (w.real if w.dtype.kind == "c" else w) * 1


WAYS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda w: np.asarray(numbers(w)).sum(),
    "function": lambda w: np.sum(numbers(w)),
    "sort": lambda w: np.sort(numbers(w))[-1],
    "median": lambda w: np.median(numbers(w)),
    "list": lambda w: sum(numbers(w).tolist()),
    "number": lambda w: float(numbers(w)[0]) * 2,
    "item": lambda w: numbers(w)[1].item() + numbers(w).item(0),
    "branch": lambda w: 1.0 if numbers(w)[0] > 0 else 0.0,
    "abs": lambda w: np.abs(w["x"] if w.dtype.names else w).max(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("held", ["global", "attribute", "closure"])
def test_an_outer_array_that_an_argument_overlaps_is_not_read_before_the_change(kind: str, way: str, held: str):
    outer, given = KINDS[kind](5)
    take = WAYS[way]

    class Holder:
        pass

    holder = Holder()
    holder.w = outer  # type: ignore[attr-defined]
    scope: dict[str, Any] = {"W": outer, "take": take, "holder": holder}
    name = {"global": "W", "attribute": "holder.w", "closure": "w"}[held]
    exec(f"def make(w):\n    def f(a):\n        a += 1\n        return a + take({name})\n    return f", scope)
    f = scope["make"](outer)
    jitted = tj.jit(f)
    for _ in range(3):
        before = given.copy()
        try:
            got = jitted(given)
        except WriteError:
            np.testing.assert_array_equal(given, before)
            continue
        given[...] = before
        np.testing.assert_array_equal(got, f(given))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [5, 200_000])
def test_an_outer_array_that_changes_between_calls_is_followed_or_warned_of(kind: str, way: str, n: int):
    outer, inside = KINDS[kind](n)
    take = WAYS[way]
    f = lambda x: x + take(outer)  # noqa: E731
    jitted = tj.jit(f)
    x = np.ones(3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        np.testing.assert_allclose(jitted(x), f(x))
        jitted(x)
    told = any("taken for a constant" in str(w.message) for w in seen)
    assert not (told and n == 5)
    inside += 1
    got, want = jitted(x), f(x)
    if not told:
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("array", [
    np.zeros(140_000, "M8[s]"), np.zeros(140_000, "U4"), np.zeros(140_000, "g"), np.zeros(140_000, "c8"),
    np.zeros(140_000, ">f8"),
], ids=lambda a: a.dtype.str)  # fmt: skip
def test_a_large_array_of_a_dtype_that_is_not_traced_is_warned_of(array: np.ndarray):
    with pytest.warns(UserWarning, match="taken for a constant"):
        tj.jit(lambda x: x + np.sum(array == array[0]))(np.ones(3))


def test_each_function_of_one_line_warns():
    made = [tj.jit(lambda x, a=a: x + np.sort(a)[-1]) for a in (np.zeros(300_000) for _ in range(3))]
    for f in made:
        with pytest.warns(UserWarning, match="taken for a constant"):
            f(np.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            f(np.ones(4))


def test_an_unaligned_outer_array_is_read_as_any_other():
    w = unaligned(6)
    w[...] = np.arange(6)

    def f(x, i, mask):
        s = np.zeros(2)
        for j in tj.range(5):
            s[0] += w[j] * x[j]
        return s[0] + w[i], w[mask], w.dot(x), w.clip(x, 4), w[1:] * 2, w.reshape(2, 3)[:, i % 3]

    jitted = tj.jit(f)
    for change in (lambda: None, lambda: w.fill(3), lambda: w.__imul__(2), lambda: None):
        change()
        for i in (0, 5, 2):
            args = np.arange(6.0), i, np.array([0, 5, 5])
            for got, want in zip(jitted(*args), f(*args), strict=True):
                np.testing.assert_allclose(got, want)
