"""One array given several times, or arrays that share memory, to functions that change them: as in plain Python."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError, WriteError


def partitions(n: int) -> Iterator[tuple[int, ...]]:
    """Every way to give n arguments by arrays: of each argument the number of its array."""
    for which in itertools.product(range(n), repeat=n):
        if all(k <= max((*which[:i], -1)) + 1 for i, k in enumerate(which)):
            yield which


STATEMENTS = [
    "{a} *= 2", "{a} += {b}", "{a}[1:] = {b}[:-1]", "{a}[::-1] += 1", "{a}[0] = {b}[-1]", "{a}[{b} > 2] = 0",
    "{a}[:] = {b} - {c}", "s = s + {a} * {b}", "s = s - {a}[0] * {b}.sum()", "t = {a}.copy(); {a} -= 1; s += t * {b}",
    "{a}[...] = {b}", "np.copyto({a}, {b})", "{a}[1:] = {b}[1:]", "{a}[...] = {b}.reshape(4)", "{a}.fill(3)",
    "v = {a}[1:3]; v += {b}[1:3]", "s = np.where({a} > {b}, s, {c})",
]  # fmt: skip


def random_function(seed: int) -> tuple[Callable[..., Any], int]:
    """A function of two to four vectors that changes some of them, and how many it takes."""
    rng = random.Random(seed)
    n = rng.randint(2, 4)
    names = "xyzw"[:n]
    lines = [f"def f({', '.join(names)}):", "    s = np.zeros(4)"]
    for _ in range(rng.randint(1, 4)):
        a, b, c = (rng.choice(names) for _ in range(3))
        lines.append("    " + rng.choice(STATEMENTS).format(a=a, b=b, c=c))
    if rng.random() < 0.6:  # else the arguments are all that is left of it
        lines.append(f"    return s + {' + '.join(rng.sample(names, rng.randint(1, n)))}")
    scope: dict[str, Any] = {"np": np}
    exec("\n".join(lines), scope)
    return scope["f"], n


def arrays(which: tuple[int, ...]) -> list[np.ndarray]:
    kept = [np.arange(4.0) + 3 * k for k in range(len(which))]
    return [kept[k] for k in which]


def check(f: Callable[..., Any], jitted: Callable[..., Any], make: Callable[[], list[np.ndarray]]) -> None:
    args, wanted = make(), make()
    np.testing.assert_array_equal(jitted(*args), f(*wanted))
    for got, want in zip(args, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("changed", ["x", "y", "z"])
def test_one_array_three_times(changed: str):
    scope: dict[str, Any] = {}
    exec(f"def f(x, y, z):\n    {changed} *= 2\n    return x + 10 * y + 100 * z", scope)
    f = scope["f"]
    jitted = tj.jit(f)
    for which in [*partitions(3), *reversed([*partitions(3)])]:
        check(f, jitted, lambda which=which: arrays(which))


def test_what_is_changed_outside_is_changed_once_a_call():
    history: list[int] = []

    def f(x, y, gain):
        history.append(len(history))
        x[1:] += gain[1:]
        return y * 2

    jitted = tj.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(4):
            check(f, jitted, functools.partial(arrays, (0, 0, 1) if call % 2 else (0, 1, 2)))
            assert history == list(range(2 * call + 2))


def test_a_refused_call_changes_nothing_outside():
    calls: list[int] = []

    @tj.jit
    def f(x, y):
        calls.append(1)
        x += 1
        return y * 2

    a = np.zeros(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            with pytest.raises(WriteError):
                f(a[1:], a[:-1])
            assert not calls
            assert not a.any()
        f(a[1:], a[1:])
    assert calls == [1]


@pytest.mark.parametrize("seed", range(60))
def test_every_way_to_give_arrays_twice(seed: int):
    f, n = random_function(seed)
    jitted = tj.jit(f)
    ways = list(partitions(n))
    random.Random(seed).shuffle(ways)
    for which in [*ways[:8], *ways[:8]]:
        check(f, jitted, lambda which=which: arrays(which))


def test_equal_views_of_one_array_are_one():
    def f(x, y, z):
        z -= 1
        x += y
        return x * z

    jitted = tj.jit(f)
    for _ in range(2):
        check(f, jitted, lambda: (lambda a: [a[2:6], a[2:6], a[2:6]])(np.arange(9.0)))
        check(f, jitted, lambda: (lambda a: [a[0], a[0], a[0]])(np.arange(9.0).reshape(3, 3)))


def test_in_containers():
    def f(d, rows):
        rows[-1][:] = rows[0] + d["a"]
        return sum(rows) + d["a"] * 100

    jitted = tj.jit(f)
    for places in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 0)):
        got, want = ([np.arange(4.0), np.ones(4)] for _ in range(2))
        result = jitted({"a": got[0]}, [got[n] for n in places])
        np.testing.assert_array_equal(result, f({"a": want[0]}, [want[n] for n in places]))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(60))
def test_views_of_one_array_are_right_or_refused(seed: int):
    f, n = random_function(seed)
    rng = random.Random(seed)
    jitted = tj.jit(f)
    for _ in range(8):
        parts = [(rng.randint(0, 6), rng.choice((1, 1, -1))) for _ in range(n)]

        def make(parts: list[tuple[int, int]] = parts) -> list[np.ndarray]:
            whole = np.arange(10.0)
            return [whole[start : start + 4][::step] for start, step in parts]

        try:
            check(f, jitted, make)
        except WriteError:
            continue


@pytest.mark.parametrize("way", ["b[...] = d", "np.copyto(b, d)", "b[:] = d.reshape(3)", "b[...] = np.positive(d)"])
def test_an_argument_that_becomes_the_content_of_another(way: str):
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(c, d, b):\n    c += 1\n    {way}", scope)
    jitted = tj.jit(scope["f"])
    for _ in range(2):
        a, b = np.arange(3.0), np.zeros(3)
        jitted(a, a, b)
        assert b.tolist() == [1, 2, 3]
        jitted(np.arange(3.0), np.ones(3), b)
        assert b.tolist() == [1, 1, 1]
        k = np.arange(4.0)
        with pytest.raises(WriteError, match="overlap in memory"):
            jitted(k[1:], k[:-1], b)


def test_an_array_from_outside_that_becomes_the_content_of_an_argument():
    outer = np.arange(3.0)

    def f(c: Any, b: Any) -> None:
        c += 1
        b[...] = outer

    b = np.zeros(3)
    with pytest.raises(WriteError, match="overlap in memory"):
        tj.jit(f)(outer, b)
    tj.jit(f)(np.ones(3), b)
    assert b.tolist() == [0, 1, 2]


def test_three_that_overlap_in_part_are_refused():
    a = np.arange(9.0)
    with pytest.raises(WriteError, match="overlap in memory"):
        tj.jit(lambda x, y, z: (z.__imul__(2), x + y)[1])(a[:4], a[:4], a[2:6])


def copied_if_asked(x, copy=True):
    y = x.copy() if copy else x
    y += 1
    return y


def copied_first(x, copy=True):
    if copy:
        x = x.copy()
    x[0] = 5
    return x


def filled_or_new(x, copy=True):
    out = np.empty_like(x) if copy else x
    out[:] = x * 2
    return out


@pytest.mark.parametrize("f", [copied_if_asked, copied_first, filled_or_new])
def test_a_flag_among_the_arguments_decides_which_array_is_changed(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for flag in (True, False, True):
        for call in (lambda g, x, flag=flag: g(x, flag), lambda g, x, flag=flag: g(x, copy=flag)):
            x, y = np.arange(3.0), np.arange(3.0)
            np.testing.assert_array_equal(call(compiled, x), call(f, y))
            np.testing.assert_array_equal(x, y)


def test_data_do_not_decide_which_array_is_changed():
    with pytest.raises(TracejitError, match="depending on the data"):
        tj.jit(copied_first)(np.arange(3.0), np.array([True]))
