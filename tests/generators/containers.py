"""Random programs with lists that names, functions, objects and branches share, and change in place.

All lists have two numbers, multiples of a half.  What a function or a branch gives may be a list of before, another
one, or a new one, depending on data.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["containers"]

HOLDER = """import numpy as np

class Base:
    def kept(self, v):
        if v < 0:
            return self.at
        self.at[1] -= v
        return self.at

    @property
    def first(self):
        self.n += 0.5
        return self.at

    @staticmethod
    def turned(p):
        p[0], p[1] = p[1], p[0]
        return p

class S(Base):
    def __init__(self, at):
        self.at, self.n = at, 0.0

    def step(self, v):
        if v > 0.5:
            self.n += 1.0
            return self
        self.at[0] += v
        return self

    def kept(self, v):
        return super().kept(v)
"""
LISTS = ("a", "b", "r", "a", "b", "r", "e[0]", "e[1]", "s.at", "d['k']", "t[1]")
TESTS = ("x[0] > c", "a[0] > b[0]", "x.sum() > {v}", "r[1] < {v}", "s.n > 1", "x[-1] > x[0]")
VALUES = ("0.5", "x[0]", "2.0", "-1.0", "a[1]", "r[0]")


class _Writer:
    """Writes functions of two lists and a number, and one of a vector and a number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0

    def list(self) -> str:
        return self.random.choice(LISTS)

    def value(self) -> str:
        return self.random.choice(VALUES)

    def test(self) -> str:
        return self.random.choice(TESTS).format(v=self.random.choice(["0.5", "3.0"]))

    def helper(self, n: int) -> Statement:
        r = self.random

        def given() -> str:
            return r.choice(["p", "p", "p", "q", "[v, p[0]]", "[p[1], v]", "list(p)"])

        def change() -> Statement:
            return Statement(r.choice(["p[0] += v", "p[1] -= 0.5", "q[0] = v", "p[0], p[1] = p[1], p[0]"]))

        body: list[Statement] = [change() for _ in range(r.randint(0, 1))]
        for _ in range(r.randint(1, 2)):
            test = r.choice(["v > 0.5", "p[0] > q[0]", "v < p[1]"])
            leaves = [change() for _ in range(r.randint(0, 1))] + [Statement(f"return {given()}")]
            body += [Statement(f"if {test}:", leaves), *[change() for _ in range(r.randint(0, 1))]]
        return Statement(f"def h{n}(p, q, v):", [*body, Statement(f"return {given()}", fixed=True)], fixed=True)

    def given(self) -> str:
        """A list that an expression gives."""
        r = self.random
        match r.randrange(10):
            case 8:
                return "s.first"
            case 9:
                return f"s.turned({self.list()})"
            case 0 | 1:
                return f"h{r.randrange(2)}({self.list()}, {self.list()}, {self.value()})"
            case 2:
                return f"{self.list()} if {self.test()} else {self.list()}"
            case 3:
                return f"[{self.value()}, 0.5] if {self.test()} else [1.0, {self.value()}]"
            case 4:
                return f"s.kept({self.value()})"
            case 5:
                return f"s.step({self.value()}).at"
            case 6:
                return f"list({self.list()})"
            case _:
                return self.list()

    def statement(self) -> list[Statement]:
        r = self.random
        deep = self.depth > 1
        match r.randrange(8 if deep else 12):
            case 0 | 1 | 2:
                return [Statement(f"{self.list()}[{r.randrange(2)}] += {self.value()}")]
            case 3:
                return [Statement(f"{self.list()}[{r.randrange(2)}] = {self.value()}")]
            case 4 | 5:
                return [Statement(f"r = {self.given()}")]
            case 6:
                return [Statement(f"({self.given()})[{r.randrange(2)}] += {self.value()}")]
            case 7:
                return [Statement(f"s.step({self.value()})")]
            case 8 | 9:
                return [Statement(f"if {self.test()}:", self.block())]
            case 10:
                return [Statement(f"for v in x[:{r.choice(['2', '3'])}]:", self.block())]
            case _:
                return [Statement(f"if {self.test()}:", [*self.block(), Statement(f"return {self.result()}")])]

    def block(self) -> list[Statement]:
        self.depth += 1
        made = [s for _ in range(self.random.randint(1, 2)) for s in self.statement()]
        self.depth -= 1
        return made

    def result(self) -> str:
        return self.random.choice(["a, b, r", "r, e, s.n", "[r, a], d", "r, r", "(a, [b]), s.at"])


def containers(seed: int) -> Case:
    """The program of this seed."""
    writer = _Writer(seed)
    r = writer.random
    body = [Statement("a, b = [x[0], 0.5], [1.0, x[1]]", fixed=True), Statement("r = a", fixed=True)]
    shared = [r.choice(["a", "b", "[0.0, x[1]]"]) for _ in range(3)]
    body.append(Statement(f"e, d, t = [a, {shared[0]}], {{'k': {shared[1]}}}, (1.0, b)", fixed=True))
    body.append(Statement(f"s = S({shared[2]})", fixed=True))
    body += [writer.helper(0), writer.helper(1)]
    body += [s for _ in range(r.randint(2, 6)) for s in writer.statement()]
    end = writer.result()
    # early returns have the structure of the last
    text = [_with_end(s, end) for s in body]
    vectors = ["np.array([0.0, 2.0, -1.0])", "np.array([1.0, -2.0, 0.5, 3.0])", "np.array([2.0, 0.5])"]
    calls = [([v, c], list[str]()) for v, c in zip([*vectors, vectors[0]], ("0.5", "0.0", "9.0", "-1.0"), strict=True)]
    return Case(HOLDER, ["x", "c"], [*text, Statement(f"return {end}", fixed=True)], calls)


def _with_end(s: Statement, end: str) -> Statement:
    if s.body is None or s.line.startswith("def "):
        return Statement(f"return {end}", fixed=s.fixed) if s.line.startswith("return ") else s
    return Statement(s.line, [_with_end(inner, end) for inner in s.body], s.fixed)
