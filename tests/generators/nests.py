"""Random nests of loops over elements: numbers carried through them, stores at computed places, tests, early ends."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = ("s", "t")
COUNTS = ("c", "d")
INDICES = ("i", "j", "k", "m")


class Writer:
    """Writes one function of two vectors of n elements, an n x n array and n."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops: list[str] = []  # the indices of the loops around
        self.left = 16  # statements

    def function(self) -> str:
        self.lines = ["def f(x, z, A, n):", "    s, t, c, d = 0.5, -1.0, 0, 1"]
        while self.left > 0:
            self.loop(1)
        self.lines.append(f"    return {', '.join(self.random.sample((*NUMBERS, *COUNTS, 'x', 'z', 'A'), 4))}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        for line in text.split("\n"):
            self.lines.append("    " * depth + line)

    def place(self) -> str:
        r, i = self.random, self.random.choice(self.loops)
        return r.choice([i, i, i, self.random.choice(self.loops), f"{i} - 1", f"n - 1 - {i}", "c % n", "-1", "0"])

    def element(self) -> str:
        return self.random.choice([f"x[{self.place()}]", f"z[{self.place()}]", f"A[{self.place()}, {self.place()}]"])

    def number(self) -> str:
        r = self.random
        return r.choice([
            *NUMBERS, "c", r.choice(self.loops), f"{r.uniform(-2, 2):.1f}", self.element(), self.element(),
            f"0.5 * {self.element()}", f"{r.choice(NUMBERS)} * 0.5 + {self.element()}",
            f"min({r.choice(NUMBERS)}, {self.element()})", f"max({self.element()}, 0.0)", f"abs({self.element()})",
            f"x[:{r.choice(self.loops)}].sum()", f"np.tanh({self.element()})",
        ])  # fmt: skip

    def count(self) -> str:
        r, i = self.random, self.random.choice(self.loops)
        return r.choice(["c + 1", "d + 2", f"(c * 3 + {i}) % 7", f"{i} // 2", "c - d", f"int({self.element()} > 0)", i])

    def test(self) -> str:
        r, i = self.random, self.random.choice(self.loops)
        simple = r.choice([
            f"{self.number()} {r.choice('<>')} {self.number()}", f"{i} > 0", f"{i} % 2 == 0", f"c < {r.randint(0, 9)}",
            f"{i} + 1 < n", f"{self.element()} != 0",
        ])  # fmt: skip
        return r.choice([simple, simple, f"{simple} and c < 20", f"not {simple}", f"{i} == 1 or {simple}"])

    def loop(self, depth: int) -> None:
        self.left -= 1
        r, index = self.random, INDICES[len(self.loops)]
        heads = ["range(n)", "range(1, n)", "range(n - 1, -1, -1)", "range(0, n, 2)", "range(3)"]
        if self.loops:
            i = r.choice(self.loops)
            heads += [f"range({i})", f"range({i} + 1)", f"range({i}, n)", f"range({i} + 1, n)", "range(c % 4)"] * 2
        if self.loops and r.random() < 0.25:
            i = r.choice(self.loops)
            down = r.random() < 0.5
            self.put(depth, f"{index} = {i}")
            limit = f"{index} > 0" if down else f"{index} < n"
            self.put(depth, f"while {limit}{r.choice(['', f' and ({self.test()})'])}:")
            self.loops.append(index)
            self.put(depth + 1, f"{index} {'-' if down else '+'}= 1")
            self.loops[-1] = f"({index} {'' if down else '- 1'})".replace(" )", ")")
        else:
            self.put(depth, f"for {index} in {r.choice(heads)}:")
            self.loops.append(index)
        for _ in range(r.randint(1, 4)):
            self.statement(depth + 1)
        self.loops.pop()
        if r.random() < 0.1 and self.loops:
            self.put(depth, f"else:\n    {r.choice(NUMBERS)} = {self.number()}")

    def statement(self, depth: int) -> None:
        self.left -= 1
        r = self.random
        kinds: list[Callable[[int], None]] = [self.store, self.store, self.assign, self.assign]
        if depth < 5 and len(self.loops) < len(INDICES):
            kinds += [self.loop, self.loop]
        if depth < 6:
            kinds += [self.branch, self.jump]
        r.choice(kinds)(depth)

    def store(self, depth: int) -> None:
        r = self.random
        self.put(depth, r.choice([
            f"{self.element()} = {self.number()}", f"{self.element()} {r.choice(['+=', '-='])} 0.5 * {self.number()}",
            f"x[{self.place()}], z[{self.place()}] = z[{self.place()}], x[{self.place()}]",
            f"A[{self.place()}, {self.place()}] = {self.number()}",
        ]))  # fmt: skip

    def assign(self, depth: int) -> None:
        r = self.random
        self.put(depth, r.choice([
            f"{r.choice(NUMBERS)} = 1.0 * {self.number()}", f"{r.choice(NUMBERS)} += 0.1 * {self.number()}",
            f"{r.choice(COUNTS)} = {self.count()}", "c += 1", "s, t = t, s", "c, d = d, c",
            f"{r.choice(NUMBERS)} = 1.0 * {self.number()} if {self.test()} else 0.25 * {self.number()}",
        ]))  # fmt: skip

    def branch(self, depth: int) -> None:
        self.put(depth, f"if {self.test()}:")
        self.statement(depth + 1)
        if self.random.random() < 0.5:
            self.put(depth, "else:")
            self.statement(depth + 1)

    def jump(self, depth: int) -> None:
        self.put(depth, f"if {self.test()}:\n    {self.random.choice(['break', 'continue', 'break'])}")


def function_of(seed: int) -> tuple[Callable[..., Any], str]:
    """A function of two vectors, a matrix and their extent, and its source."""
    text = Writer(seed).function()
    file = f"<nest {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    return scope["f"], text
