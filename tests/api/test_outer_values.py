"""Arrays from outside whose elements NumPy takes while the function is traced: what is then changed is seen or refused.

Such an array is no input of the program. It may share memory with an argument that the function changes, and may be
changed between calls, whatever its dtype, its size, or the way its elements are taken.
"""

from __future__ import annotations

import functools
import itertools
import types
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
    "sort": lambda w: np.partition(numbers(w), -1)[-1],
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
    np.zeros(140_000, "M8[s]"), np.zeros(140_000, "U4"), np.zeros(140_000, "g"), np.zeros(140_000, "G"),
    np.zeros(140_000, ">f8"),
], ids=lambda a: a.dtype.str)  # fmt: skip
def test_a_large_array_of_a_dtype_that_is_not_traced_is_warned_of(array: np.ndarray):
    with pytest.warns(UserWarning, match="taken for a constant"):
        tj.jit(lambda x: x + np.sum(array == array[0]))(np.ones(3))


def test_each_function_of_one_line_warns():
    made = [tj.jit(lambda x, a=a: x + np.asarray_chkfinite(a)[-1]) for a in (np.zeros(300_000) for _ in range(3))]
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


class Holder:
    """Holds an array under a name that may be bound anew, and `kept` in what stays as it is."""

    def __init__(self, array: np.ndarray, keep: Callable[[np.ndarray], Any]) -> None:
        self.array = array
        self.kept = keep(array)


# how an array is kept -> (what keeps it, how it is read there)
KEPT: dict[str, tuple[Callable[[np.ndarray], Any], Callable[[Any], Any]]] = {
    "tuple": (lambda w: (w,), lambda t: t[0] * 1),
    "nested tuple": (lambda w: ((w, 2), 3), lambda t: t[0][0] * 1),
    "tuple in a list": (lambda w: [(w,)], lambda t: t[0][0] * 1),
    "tuple in a dict": (lambda w: {"a": (w, 0.5)}, lambda t: t["a"][0] * 1),
    "items": (lambda w: (w, w + 1), lambda t: sum((p**2).sum() for p in t)),
    "chain": (lambda w: (w,), lambda t: next(itertools.chain(t, t)) * 1),
    "number": (lambda w: (w,), lambda t: float(t[0][1])),
    "default": (lambda w: eval("lambda low=w: low * 1", {"w": w}), lambda f: f()),
    "partial": (lambda w: functools.partial(np.add, w), lambda f: f(1)),
    "method": (lambda w: w.sum, lambda f: f()),
    "special method": (lambda w: w.__getitem__, lambda f: f(1)),
    "method of a tuple": (lambda w: (w, 1).__getitem__, lambda f: f(0) * 1),
    "method of a list": (lambda w: [w].__getitem__, lambda f: f(0) * 1),
    "method of a dict": (lambda w: {"a": (w,)}.get, lambda f: f("a")[0] * 1),
    "partial method": (
        lambda w: type("C", (), {"m": functools.partialmethod(lambda _, a: a * 1, w)})(),
        lambda c: c.m(),
    ),
    "cache": (lambda w: functools.cache(lambda _: w), lambda f: f(1) * 1),
    "proxy": (lambda w: types.MappingProxyType({"a": (w,)}), lambda t: t["a"][0] * 1),
    "list": (lambda w: [w], lambda t: t[0] * 1),
    "dict": (lambda w: {"a": w}, lambda t: t["a"] * 1),
    "list and tuple": (lambda w: [w, (w,)], lambda t: t[0] + t[1][0] * 2),
}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("first", ["name", "kept"])
@pytest.mark.parametrize("where", ["attribute", "cell"])
def test_an_array_that_is_kept_stays_when_its_name_is_bound_anew(kept: str, first: str, where: str):
    keep, read = KEPT[kept]
    array = np.array([1.0, 2.0, 3.0])
    holder = Holder(array, keep)
    held = holder.kept
    f = {
        ("name", "attribute"): lambda x: x + holder.array * 10 + read(holder.kept),
        ("kept", "attribute"): lambda x: x + read(holder.kept) + holder.array * 10,
        ("name", "cell"): lambda x: x + array * 10 + read(held),
        ("kept", "cell"): lambda x: x + read(held) + array * 10,
    }[first, where]
    jitted = tj.jit(f)
    x = np.zeros(3)
    steps: list[tuple[np.ndarray | None, np.ndarray | None]] = [
        (None, None),
        (np.full(3, 7.0), None),
        (None, None),
        (None, np.full(3, 5.0)),
        (np.full(3, 8.0), None),
    ]
    for n, (anew, kept_anew) in enumerate(steps):
        if anew is not None:
            array = holder.array = anew
        if kept_anew is not None:
            holder.array.fill(4)
            held = holder.kept = keep(kept_anew)
        np.testing.assert_array_equal(jitted(x), f(x), err_msg=str(n))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ["len", "ndim", "shape", "size", "zeros_like", "dtype"])
def test_the_form_of_an_outer_array_is_followed(way: str):
    g = np.arange(4)
    read = {
        "len": lambda: len(g),
        "ndim": lambda: g.ndim,
        "shape": lambda: g.shape[0],
        "size": lambda: g.size,
        "zeros_like": lambda: np.zeros_like(g).shape[-1],
        "dtype": lambda: g.dtype == np.int64,
    }[way]
    f = lambda x: x + read()  # noqa: E731
    jitted = tj.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(np.zeros(2)), f(np.zeros(2)))
    if way == "dtype":
        g.dtype = np.float64
    elif way == "size":
        g.resize(2, refcheck=False)
    else:
        g.shape = 2, 2
    for _ in range(3):
        np.testing.assert_array_equal(jitted(np.zeros(2)), f(np.zeros(2)))


@pytest.mark.parametrize("dtype", [">i4", "G", "S3", "i4,f4", "O", "M8[s]", "S4000"])
def test_whether_an_outer_array_can_be_written_is_followed(dtype: str):
    """Where arrays are traced (the other dtypes) asking for flags is refused."""
    g = np.zeros(1, dtype)
    f = lambda x: x + np.asarray(g).flags.writeable  # noqa: E731
    jitted = tj.jit(f)
    for writeable in (True, True, False, False, True):
        g.flags.writeable = writeable
        np.testing.assert_array_equal(jitted(np.zeros(2)), f(np.zeros(2)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("shape", "strides"), [((4, 4), (8, 32)), ((4, 4), (40, 8)), ((4, 4), (0, 8)), ((16,), (0,)), ((8,), (16,))]
)
@pytest.mark.parametrize("read", [lambda x, g: x + g, lambda x, g: x + g.sum(0), lambda x, g: x + g[::-1][1]])
def test_strides_of_an_outer_array_that_change_are_followed(
    shape: tuple[int, ...], strides: tuple[int, ...], read: Callable[[Any, Any], Any]
):
    g = np.arange(32.0)[: 8 if shape == (8,) else 16].reshape(shape)
    f = lambda x: read(x, g)  # noqa: E731
    jitted = tj.jit(f)
    x = np.zeros(g.shape)
    for s in (g.strides, strides, g.strides, strides):
        g.strides = s
        for _ in range(2):
            np.testing.assert_array_equal(jitted(x), f(x))


def test_classes_made_where_nothing_has_a_name_are_followed():
    scope: dict[str, Any] = {}
    exec("class P:\n    k = 2\np = P()\ndef f(x): return x + p.k", scope)
    jitted = tj.jit(scope["f"])
    assert jitted(1) == 3
    scope["p"].k = 7
    assert jitted(1) == 8
