"""Random functions that are all jumps: branches that may return, loops with `break`, `continue`, `else` in each other.

They compute with Python integers alone, so that Python runs every statement of what a traced function is rewritten to.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

__all__ = ["jumping"]

_MOST_DEEP = 3


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0  # around the statement
        self.counters = 0

    def function(self) -> str:
        self.put(0, "def f(a, b):")
        self.put(1, "c = 0")
        for _ in range(self.random.randint(2, 5)):
            self.statement(1)
        self.put(1, "return a, b, c")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)
        if self.random.random() < 0.4:
            jumps = ["break", "continue"] * bool(self.loops) + [f"return {self.random.randint(10, 99)}, a, c"]
            self.put(depth, self.random.choice(jumps))

    def statement(self, depth: int) -> None:
        r = self.random.random()
        if depth > _MOST_DEEP or r < 0.35:
            name = self.random.choice("abc")
            self.put(depth, f"{name} = (3 * {name} + {self.random.choice('abc')} + 1) % 11")
        elif r < 0.75:
            self.branch(depth)
        else:
            self.loop(depth)

    def test(self) -> str:
        return f"{self.random.choice('abc')} {self.random.choice(['<', '>', '!='])} {self.random.randint(1, 8)}"

    def branch(self, depth: int) -> None:
        self.put(depth, f"if {self.test()}:")
        self.block(depth + 1)
        while self.random.random() < 0.2:
            self.put(depth, f"elif {self.test()}:")
            self.block(depth + 1)
        if self.random.random() < 0.5:
            self.put(depth, "else:")
            self.block(depth + 1)

    def loop(self, depth: int) -> None:
        self.counters += 1
        k = f"k{self.counters}"
        if self.random.random() < 0.5:
            self.put(depth, f"for {k} in {self.random.choice(['range(3)', '(1, 4, 2)', 'range(a % 4)'])}:")
        else:
            self.put(depth, f"{k} = 0")
            self.put(depth, f"while {k} < {self.random.randint(2, 4)}:")
            self.put(depth + 1, f"{k} += 1")
        self.loops += 1
        self.block(depth + 1)
        self.loops -= 1
        if self.random.random() < 0.4:
            self.put(depth, "else:")
            self.block(depth + 1)


def jumping(seed: int) -> tuple[Callable[..., Any], str]:
    """A function of two integers, and its source."""
    text = Writer(seed).function()
    file = f"<jumps {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return scope["f"], text
