"""Early returns of tuples out of loops in loops, with what the function goes on changing; random programs of them."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tracejit.support.errors import TracejitError

ARRAYS = (np.array([0.2, 1.3, 0.7]), np.array([2.0, -0.5, 0.1]), np.array([0.01, 0.02, 0.03]))


def a_name_that_changes(x: Any) -> Any:
    s = 0.1
    for k in range(100):
        if s < k - x[0]:
            return x[0], s
        for q in x:
            if q > s + k:
                return q, s
        s += 0.1
    return x[0], s


def out_of_an_endless_loop(x: Any) -> Any:
    s, n = 0.1, 0
    while True:
        for q in x:
            if q + s > 1.9:
                return s, n
        s += 0.1
        n += 1
        if n > 30:
            return s, n


@pytest.mark.parametrize("f", [a_name_that_changes, out_of_an_endless_loop])
def test_programs(f: Any):
    compiled = tj.jit(f)
    for x in ARRAYS:
        np.testing.assert_allclose(compiled(x.copy()), f(x.copy()), rtol=1e-14)


class _Program:
    """The text of one random function."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = ["def f(x):", "    s = 0.1", "    v = x * 1", "    n = 0"]
        self.kinds = [self.random.choice(("number", "array", "count")) for _ in range(self.random.randint(2, 3))]
        while not any("for " in line or "while " in line for line in self.lines):
            self.block("    ", 0, [])
        self.lines.append("    " + self.returned([]))
        self.text = "\n".join([*self.lines, ""])

    def returned(self, near: list[str]) -> str:
        choices = {
            "number": ["s", "x[0]", "v[1]", "s + 1", "v.sum()", *near],
            "array": ["v", "v.copy()", "v * 2", "x + s"],
            "count": ["n", "n + 1"],
        }
        return "return " + ", ".join(self.random.choice(choices[k]) for k in self.kinds)

    def condition(self, near: list[str]) -> str:
        c = round(self.random.uniform(0, 3), 2)
        some = [f"s > {c}", f"v[0] > {c}", f"x[1] < s - {c}", f"v.sum() > {c}", *[f"{q} > s + {c}" for q in near]]
        return self.random.choice(some)

    def block(self, indent: str, depth: int, near: list[str]) -> None:
        updates = ["s += 0.3", "v[0] += s", "v = v + 1", "n += 1", "v[1:] *= 1.1", "s = s * 1.2 + 0.1"]
        self.lines.append(indent + self.random.choice(updates))
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if kind < 0.35:
                self.lines.append(indent + self.random.choice(updates))
            elif kind < 0.7:
                self.lines.append(f"{indent}if {self.condition(near)}: {self.returned(near)}")
            elif depth < 3:
                self.loop(indent, depth, near)
            if depth and self.random.random() < 0.1:
                word = self.random.choice(["break", "continue"])
                self.lines.append(f"{indent}if {self.condition(near)}: {word}")

    def loop(self, indent: str, depth: int, near: list[str]) -> None:
        i, inside = f"i{len(self.lines)}", indent + "    "
        match self.random.choice(("range", "array", "while")):
            case "range":
                self.lines.append(f"{indent}for {i} in range({self.random.randint(2, 5)}):")
            case "array":
                self.lines.append(f"{indent}for {i} in x:")
                near = [*near, i]
            case _:
                self.lines += [f"{indent}while s < {self.random.randint(1, 4)}:", f"{inside}s += 0.37"]
        self.block(inside, depth + 1, near)


def verdict(seed: int) -> bool:
    """Whether a random program was compiled; it agrees with Python then."""
    text = _Program(seed).text
    plain, compiled = loaded(text, SimpleNamespace())["f"], tj.jit(loaded(text)["f"])
    for x in ARRAYS:
        mine, theirs = x.copy(), x.copy()
        want = plain(theirs)
        try:
            found = compiled(mine)
        except TracejitError as error:
            if "in place" not in str(error):
                raise
            return False  # an array that is returned on some ways and changed on others
        for g, w in zip(found, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, err_msg=text)
        np.testing.assert_array_equal(mine, theirs, err_msg=text)
    return True


def test_random_programs():
    assert sum(map(verdict, range(40))) > 25
