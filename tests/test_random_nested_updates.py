"""Random loops and branches inside of each other that change arrays in place, against the same text in plain Python.

Each program is written twice: with `tj.range` and `tj.lax.cond`, and with `range` and `if`.  Integers keep results
exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

LIMIT = 1021  # results are kept below it


VECTORS = [
    "a[::-1]", "a[:]", "b[0]", "b[:, 1]", "b.T[0]", "b[::-1][-1]",
    "b.ravel()[::n + 1]", "b.reshape(-1)[:n]", "b.ravel()[-n:]",
    "a.reshape(n, 1)[:, 0]", "a[None][0]", "b[::-1, ::-1].T[1]", "b[:, :1].T.reshape(n)",
]  # fmt: skip
"""Views of n elements of the arguments."""
MATRICES = ["b.T", "b[::-1]", "b[:, ::-1]", "b.reshape(n, n)", "b.ravel().reshape(n, n)", "b[:, :, None][..., 0]"]


class Writer:
    """Writes the two texts of one program side by side."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.traced: list[str] = []
        self.plain: list[str] = []
        self.loops: list[str] = []  # names of the indices around
        self.names = 0
        self.vectors = ["a", "c"]
        self.matrices = ["b"]

    def both(self, depth: int, text: str) -> None:
        for lines in (self.traced, self.plain):
            lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def place(self) -> str:
        r = self.r
        index = r.choice([*self.loops, *self.loops, "0", "-1", "k"])
        return r.choice(
            [index, index, f"{index} - 1" if index != "-1" else "-1", f"-1 - {index}" if index != "-1" else "0"]
        )

    def element(self) -> str:
        r = self.r
        if r.random() < 0.4:
            return f"{r.choice(self.matrices)}[{self.place()}, {self.place()}]"
        return f"{r.choice(self.vectors)}[{self.place()}]"

    def expression(self) -> str:
        r = self.r
        terms = [self.element() for _ in range(r.randint(1, 3))]
        if r.random() < 0.3:
            terms.append(r.choice(["a.sum()", "b.sum()", "c.max()", "b[0].sum()", "b[:, -1].max()", "k", *self.loops]))
        return r.choice([" + ", " - ", " * "]).join(terms)

    def change(self, depth: int) -> None:
        r = self.r
        match r.randint(0, 12):
            case 0:
                self.both(depth, f"a[1:] = ({r.choice(['a[:-1]', 'c[1:]', 'a[1:]'])} + {self.expression()}) % {LIMIT}")
            case 1:
                self.both(
                    depth,
                    f"b[{self.place()}] = ({r.choice(['a', 'c', 'b[0]', 'b[:, 0]'])} + {self.expression()}) % {LIMIT}",
                )
            case 2:
                self.both(depth, f"{r.choice(self.matrices)}[:, {self.place()}] += 1")
            case 3:
                i, j = self.place(), self.place()
                name = r.choice(self.vectors)
                self.both(depth, f"{name}[{i}], {name}[{j}] = {name}[{j}], {name}[{i}]")
            case 5 | 6:
                targets = [self.element() for _ in range(r.randint(2, 3))]
                values = [r.choice([self.element(), f"({self.expression()}) % {LIMIT}"]) for _ in targets]
                if r.random() < 0.5:
                    values = [*targets[1:], targets[0]]
                self.both(depth, f"{', '.join(targets)} = {', '.join(values)}")
            case 7:
                i, j = self.place(), self.place()
                one, two = (f"b[{i}]", "c") if r.random() < 0.5 else (f"b[{i}]", f"b[{j}]")
                two = f"{two}[...]" if two == "c" else two
                self.both(depth, f"{one}, {two} = {two}.copy(), {one}.copy()")
            case 4:
                self.both(depth, f"c[...] = {r.choice(['a', 'b[0]', 'c[::-1]', 'a + c'])} % {LIMIT}")
            case _:
                self.both(depth, f"{self.element()} = ({self.expression()}) % {LIMIT}")

    def branch(self, depth: int) -> None:
        condition = f"{self.element()} % 2 == {self.r.randint(0, 1)}"
        yes, no = self.fresh("yes"), self.fresh("no")
        kept, outer = self.traced, self.plain
        blocks: list[tuple[list[str], list[str]]] = []
        for _ in range(2):
            self.traced, self.plain = [], []
            if self.r.random() < 0.75:
                self.block(depth + 1, self.r.randint(1, 2))
            else:
                self.both(depth + 1, "pass")
            blocks.append((self.traced, self.plain))
        self.traced, self.plain = kept, outer
        indent = "    " * depth
        for name, (lines, _) in zip((yes, no), blocks, strict=True):
            self.traced += [f"{indent}def {name}():", *lines]
        self.traced.append(f"{indent}tj.lax.cond({condition}, {yes}, {no})")
        self.plain += [f"{indent}if {condition}:", *blocks[0][1], f"{indent}else:", *blocks[1][1]]

    def loop(self, depth: int) -> None:
        i = self.fresh("i")
        first, last = self.r.choice([("0", "n"), ("1", "n"), ("0", "k + 1"), ("0", "2"), ("n - 1, -1", "-1")])
        limits = f"{first}, {last}"
        self.traced.append("    " * depth + f"for {i} in tj.range({limits}):")
        self.plain.append("    " * depth + f"for {i} in range({limits}):")
        self.loops.append(i)
        self.block(depth + 1, self.r.randint(1, 3))
        self.loops.pop()

    def block(self, depth: int, statements: int) -> None:
        for _ in range(statements):
            kind = self.r.random()
            if kind < 0.3 and depth < 5 and len(self.loops) < 3:
                self.loop(depth)
            elif kind < 0.5 and depth < 5:
                self.branch(depth)
            else:
                self.change(depth)


def random_program(seed: int) -> tuple[Callable[..., Any], Callable[..., Any], str]:
    """(traced, plain, text): functions of a vector, a square matrix and a number that change the arrays."""
    w = Writer(seed)
    r = w.r
    w.both(0, "def f(a, b, k):")
    w.both(1, "n = a.shape[0]")
    w.both(1, f"c = {r.choice(['a.copy()', 'a[::-1].copy()', 'np.zeros_like(a)', 'b[0] + 1'])}")
    if r.random() < 0.3:
        w.both(1, "old = b.copy()")
    for k in range(r.choice([0, 0, 1, 2])):
        w.both(1, f"v{k} = {r.choice(VECTORS)}")
        w.vectors.append(f"v{k}")
    if r.random() < 0.4:
        w.both(1, f"m = {r.choice(MATRICES)}")
        w.matrices.append("m")
    for _ in range(r.randint(1, 2)):
        w.loop(1)
        if r.random() < 0.3:
            w.change(1)
    w.both(1, r.choice(["return c", "return a, c", "return a.sum() + c", "return b[0] + c", "return c[::-1], b.T"]))
    if "    old = b.copy()" in w.plain:
        w.both(0, "")
        for lines in (w.traced, w.plain):
            lines[-2] = lines[-2] + ", old"
    scopes: list[dict[str, Any]] = [{"np": np, "tj": tj}, {"np": np}]
    for scope, lines in zip(scopes, (w.traced, w.plain), strict=True):
        exec("\n".join(lines), scope)
    return scopes[0]["f"], scopes[1]["f"], "\n".join(w.traced)


def run(seed: int) -> int:
    """Check one program; how many calls it took."""
    traced, plain, text = random_program(seed)
    r = np.random.default_rng(seed)
    jitted = tj.jit(traced)
    calls = 0
    for n, k in ((4, 2), (4, 1), (5, 2), (6, 3), (2, 1), (4, 2)):
        a, b = r.integers(0, LIMIT, n), r.integers(0, LIMIT, (n, n))
        mine, theirs = (a.copy(), b.copy()), (a.copy(), b.copy())
        try:
            wanted = plain(*theirs, k)
        except IndexError:
            with pytest.raises(IndexError):
                jitted(*mine, k)
            continue
        got = jitted(*mine, k)
        calls += 1
        for x, y in zip(
            got if isinstance(got, tuple) else (got,), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
        ):
            np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}, n {n}, k {k}\n{text}")
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=f"an argument, seed {seed}, n {n}, k {k}\n{text}")
    return calls


@pytest.mark.parametrize("start", range(0, 60, 10))
def test_nested_loops_and_branches_change_arrays_as_plain_python_does(start: int):
    assert sum(run(seed) for seed in range(start, start + 10)) > 10


SIDES = [
    "x, y", "y, x", "x.at[0].set(1.0), y", "y.at[0].set(1.0), x.at[1].set(2.0)",
    "y.at[0].set(x[1]), x.at[1].set(y[0])", "x, x", "y.at[2].set(3.0), y", "x + 1, y.at[0].add(x[0])",
    "x.at[0].set(y[0]), y.at[0].set(x[0])", "x[::-1], y", "x.at[0].add(y.sum()), y.at[1].add(x.sum())",
    "y[::-1], x.at[0].add(1.0)",
]  # fmt: skip


@pytest.mark.parametrize("yes", SIDES)
@pytest.mark.parametrize("no", SIDES)
def test_branches_exchange_and_change_what_they_are_given(yes: str, no: str):
    """One side hands arrays through, so that both work in their memory; the other may exchange them."""
    x, y, p = np.arange(1.0, 5), np.arange(10.0, 50, 10), np.array([1, 0, 1, 1, 0, 0, 1])
    scope: dict[str, Any] = {"np": np}
    exec(f"def yes(x, y): return {yes}\ndef no(x, y): return {no}", scope)

    def many(p: Any, x: Any, y: Any) -> Any:
        body = lambda i, c: tj.lax.cond(p[i] > 0, scope["yes"], scope["no"], *c)  # noqa: E731
        return tj.lax.fori_loop(0, p.shape[0], body, (x, y))

    def once(p: Any, x: Any, y: Any) -> Any:
        return tj.lax.cond(p[0] > 0, scope["yes"], scope["no"], x * 1, y + 0)

    want = tj.numpy.array(x), tj.numpy.array(y)
    for flag in p:  # outside of a trace `at` gives new arrays
        want = scope["yes" if flag else "no"](*want)
    for got in (tj.jit(many)(p, x, y), tj.jit(many)(p, x, y)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
    for flag in (0, 1):
        first = scope["yes" if flag else "no"](tj.numpy.array(x), tj.numpy.array(y))
        for a, b in zip(tj.jit(once)(np.array([flag]), x, y), first, strict=True):
            np.testing.assert_array_equal(a, b)


LAST = ["c", "c[::-1]", "(d[0], c[1])", "(c[1], d[0])", "(c[0], c[0] * 1)"]


@pytest.mark.parametrize("first", SIDES[::3])
@pytest.mark.parametrize("second", SIDES[1::3])
def test_inner_loops_exchange_and_change_what_they_are_given(first: str, second: str):
    """Two loops after each other work in the memory of what the loop around carries, which may exchange it."""
    p, x, y = np.array([1, 2, 0, 3]), np.arange(1.0, 5), np.arange(10.0, 50, 10)
    for last in LAST:
        scope: dict[str, Any] = {"np": np}
        exec(
            f"def one(x, y): return {first}\ndef two(x, y): return {second}\ndef last(c, d): return {last}",
            scope,
        )

        def traced(p: Any, x: Any, y: Any, s: dict[str, Any] = scope) -> Any:
            def body(i: Any, both: Any) -> Any:
                d = tj.lax.fori_loop(0, 2, lambda _, held: s["one"](*held), both)
                return s["last"](tj.lax.fori_loop(0, p[i], lambda _, held: s["two"](*held), d), d)

            return tj.lax.fori_loop(0, p.shape[0], body, (x, y))

        want = tj.numpy.array(x), tj.numpy.array(y)
        for times in p:
            d = scope["one"](*scope["one"](*want))
            c = d
            for _ in range(times):
                c = scope["two"](*c)
            want = scope["last"](c, d)
        for a, b in zip(tj.jit(traced)(p, x, y), want, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=last)
