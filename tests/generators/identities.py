"""Random programs that ask whether two names have one array, in loops that hand arrays round, keep the best, copy on
the first write: by `is`, of names, attributes and items.

What is asked is answered as in plain Python, or refused; arguments are changed where Python changes them.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["identities"]

PREAMBLE = """import numpy as np

class Box: pass
"""
_NAMES = ("cur", "prev", "best", "o.v", "l[0]", "l[1]")
_AROUND = ("a", "b", "x")


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = 8

    def name(self) -> str:
        return self.random.choice(_NAMES)

    def array(self) -> str:
        r = self.random
        return r.choice([r.choice(_AROUND), self.name(), self.name(), f"{self.name()} * 0.5", f"{self.name()}.copy()"])

    def asked(self) -> str:
        one, other = self.name(), self.random.choice([*_AROUND, *_NAMES])
        return f"{one} {self.random.choice(['is', 'is', 'is not'])} {other}"

    def simple(self) -> str:
        r, n = self.random, self.name()
        m = r.choice(_NAMES)
        return r.choice([
            f"{n} = {self.array()}", f"{n} = {self.array()}", f"{n}, {m} = {m}, {n}", f"n = n * 2 + ({self.asked()})",
            f"n += 1 if {self.asked()} else 10", f"s = s + v * (1.0 if {self.asked()} else -3.0)",
            f"{n} = {r.choice(_AROUND)} if {self.asked()} else {self.array()}", f"s = s + {n}[0]",
        ])  # fmt: skip

    def block(self, depth: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(self.random.randint(1, 3))]

    def statement(self, depth: int) -> Statement:
        r = self.random
        self.left -= 1
        if depth and self.left > 0 and r.random() < 0.35:
            test = r.choice([self.asked(), self.asked(), "v > 0.5", "v > 100"])
            return Statement(f"if {test}:", self.block(depth - 1))
        if r.random() < 0.15:
            n, around = self.name(), r.choice(_AROUND)
            copied = Statement(f"if {n} is {around}:", [Statement(f"{n} = {n}.copy()")], fixed=True)
            return Statement("if True:", [copied, Statement(f"{n}[0] = v + 1", fixed=True)], fixed=True)
        return Statement(self.simple())


def identities(seed: int) -> Case:
    """A program and its calls."""
    w = Writer(seed)
    r = w.random
    start = [
        "a = x * 2; b = x * 3; s = x[0] * 0; n = 0; v = x[0]",
        f"cur = {r.choice(_AROUND)}; prev = {r.choice(['a', 'b', 'cur'])}; best = {r.choice(['x', 'prev', 'b'])}",
        f"o = Box(); o.v = {r.choice(['a', 'x', 'cur'])}; l = [{r.choice(['a', 'best'])}, {r.choice(['b', 'cur'])}]",
    ]
    body = [Statement(line, fixed=True) for line in start]
    loop = r.choice(["for v in x:", "for i in range(len(x)):", "while k < len(x) and x[k] < 50:"])
    inside = w.block(2)
    if loop.startswith("for i"):
        inside = [Statement("v = x[i]", fixed=True), *inside]
    if loop.startswith("while"):
        body.append(Statement("k = 0", fixed=True))
        inside = [Statement("v = x[k]", fixed=True), *inside, Statement("k += 1", fixed=True)]
    body.append(Statement(loop, inside))
    body.append(Statement(f"return s, n, {w.name()}", fixed=True))
    calls = [([f"np.linspace(-1.0, 3.0, {n}).round(2) * 0.25 + 0.25"], []) for n in (12, 7, 3, 12)]
    return Case(PREAMBLE, ["x"], body, calls)
