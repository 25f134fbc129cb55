"""Random functions in which Python integers meet narrow integers of NumPy's, in branches, loops, `max` and `min`."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("y", "z")


class Writer:
    """Writes one function of two vectors of narrow integers, an array that takes numbers, and a Python integer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.index: str | None = None

    def function(self) -> str:
        first = self.random.choice(["3", "b[0]", "i", "0", "c[1]"])
        self.lines = ["def f(b, c, out, i):", f"    y, z = {first}, {self.random.choice(['0', '1', 'i', 'b[1]'])}"]
        for _ in range(self.random.randint(1, 4)):
            self.statement(1)
        self.lines.append(f"    return {self.random.choice(['y, z', 'y', 'out', 'y, out', '(y, z), out'])}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def atom(self) -> str:
        r, place = self.random, self.index or self.random.choice("01")
        return r.choice([
            "y", "z", "y", "z", f"b[{place}]", f"c[{place}]", f"b[{place}]", "i", str(r.randint(0, 9)),
            str(r.choice([50, 100, 120])), self.index or "2",
        ])  # fmt: skip

    def number(self) -> str:
        r = self.random
        if r.random() < 0.4:
            return self.atom()
        return r.choice([
            f"{self.atom()} + {self.atom()}", f"{self.atom()} - {self.atom()}", f"{self.atom()} * {self.atom()}",
            f"max({self.atom()}, {self.atom()})", f"min({self.atom()}, {self.atom()})", f"-{self.atom()}",
            f"({self.atom()} if {self.test()} else {self.atom()})", f"abs({self.atom()})",
            f"{self.atom()} // 3", f"{self.atom()} % 7", f"max({self.atom()}, {self.atom()}, {self.atom()})",
            f"np.add({self.atom()}, {self.atom()})", f"{self.atom()} & 15",
        ])  # fmt: skip

    def test(self) -> str:
        place = self.index or "0"
        return self.random.choice([f"b[{place}] > 3", f"c[{place}] > b[1]", "y > z", f"b[{place}] % 2 == 0", "y > 40"])

    def statement(self, depth: int) -> None:
        r = self.random
        kind = r.choice(["set", "set", "add", "store", "if", "if", "for", "while"])
        if depth > 3 and kind in ("if", "for", "while"):
            kind = "set"
        name = r.choice(NAMES)
        if kind == "set":
            self.put(depth, f"{name} = {self.number()}")
        elif kind == "add":
            self.put(depth, f"{name} {r.choice(['+', '-', '*', '+'])}= {self.number()}")
        elif kind == "store":
            self.put(depth, f"out[{self.index or r.randint(0, 1)}] = {self.number()}")
        elif kind == "if":
            self.put(depth, f"if {self.test()}:")
            self.statement(depth + 1)
            if r.random() < 0.7:
                self.put(depth, "else:")
                self.statement(depth + 1)
        elif kind == "for" and self.index is None:
            self.put(depth, "for k in range(len(b)):")
            self.index = "k"
            for _ in range(r.randint(1, 3)):
                self.statement(depth + 1)
            self.index = None
        else:
            self.put(depth, "w = 0")
            self.put(depth, f"while {name} < {r.choice([9, 60])} and w < 9:")
            self.put(depth + 1, f"w += 1; {name} += {r.randint(1, 5)}")
            self.statement(depth + 1)


def function_of(seed: int) -> tuple[Callable[..., Any], str]:
    """A function that a seed gives, and its text."""
    text = Writer(seed).function()
    name = f"<narrow {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"np": np, "__name__": "narrow"}
    exec(compile(text, name, "exec"), space)
    return space["f"], text
