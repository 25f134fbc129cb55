"""Random functions with slices as long as the index of a loop, and loops that begin or end at it."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np


class Writer:
    """Writes one function of a matrix and a vector, loop by loop."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.left = 7  # statements

    def function(self) -> str:
        self.lines = ["def f(A, x):", "    n = len(x)", "    y = x * 0.5", "    s = 0.0"]
        while self.left > 0:
            self.loop(1, [])
        self.lines.append(f"    return {self.random.choice(['y', 'y, s', 's', 'A.sum(), y', 'y[1:], s'])}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def loop(self, depth: int, around: list[str]) -> None:
        r, index = self.random, "ijk"[len(around)]
        outer = around[-1] if around else None
        ranges = ["range(n)", "range(1, n)", "range(n - 1)", "range(n - 1, -1, -1)", "range(2, n - 2)"]
        if outer is not None:
            ranges += 2 * [f"range({outer})", f"range({outer}, n)", f"range({outer} + 1, n)", f"range({outer} + 1)"]
        self.put(depth, f"for {index} in {r.choice(ranges)}:")
        for _ in range(r.randint(1, 3)):
            if len(around) < 2 and r.random() < 0.35:
                self.loop(depth + 1, [*around, index])
            else:
                self.left -= 1
                self.put(depth + 1, self.statement([*around, index]))

    def span(self, indices: list[str]) -> str:
        """A slice, as long as an index tells."""
        i = self.random.choice(indices)
        return self.random.choice([f":{i}", f"{i}:", f":{i} + 1", f"{i} + 1:", f":n - {i}", f"n - {i} - 1:"])

    def vector(self, span: str, indices: list[str]) -> str:
        r, i = self.random, self.random.choice(indices)
        whole = [f"x[{span}]", f"y[{span}]", f"A[{i}, {span}]", f"A[{span}, {i}]"]
        one = r.choice(whole)
        return r.choice([one, one, f"{one} * {r.choice(whole)}", f"np.sin({one})", f"{one}[::-1]", f"{one} + x[{i}]"])

    def statement(self, indices: list[str]) -> str:
        r, i, span = self.random, self.random.choice(indices), self.span(indices)
        a, b = self.vector(span, indices), self.vector(span, indices)
        number = r.choice(
            [f"np.sum({a})", f"({a}) @ ({b})", f"np.sum({a}, initial=0.5)", f"x[{i}]", f"A[{i}, {i}]", "s"]
        )
        return r.choice([
            f"y[{i}] = 0.1 * {number}", f"y[{i}] += 0.1 * {number}", f"A[{i}, {i}] = 0.2 * {number}",
            f"s = 0.5 * s + {number} * 0.1", f"y[{span}] += 0.1 * ({a})", f"A[{i}, {span}] = 0.5 * ({a})",
            f"A[{span}, {i}] *= 0.9", f"y[{span}] = 0.5 * ({a}) + 0.25 * ({b})",
            f"A[{span}, {span}] += 0.01 * np.outer({a}, {b})", f"s += 0.01 * np.sum(A[{span}, {i}] * ({a}))",
        ])  # fmt: skip


def function_of(seed: int) -> tuple[Callable[..., Any], str]:
    """The function, and its text."""
    text = Writer(seed).function()
    name = f"<triangles {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], text
