"""Random programs that look items of lists, tuples and dicts up at places that data decide, and that compare tuples.

Places are elements of an array of integers, bools of comparisons, counters of loops and an argument of Python's, which
is an int, a bool or NumPy's by turns.  Many are out of range: the program raises as Python does.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["looked"]

HOLDERS = """import numpy as np
from collections import namedtuple
P = namedtuple("P", "y x")
MOVES = [(0, 1), (1, 0), (0, -1), (-1, 0)]
COSTS = {0: 1.5, 3: 2.5, -1: 7.0, 1: 2.0}
NAMES = {0: (1, 2.5), 1: (3, 0.5), 2: (7, -1.0)}
POINTS = (P(0, 1), P(2, 3), P(4, 5))
NEST = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
FLAGS = [True, False, False]
SMALL = [np.float32(0.5), np.float32(2), np.float32(3)]
MIXED = [1, 2.5, True]
ONE = np.float64(1)
"""
ITEMS = {
    "number": (
        "[10, 20, 30]", "(1.5, 2.5)", "[x[0], x[1], 0.5]", "COSTS", "FLAGS", "SMALL", "MIXED", "(x[0], 7)", "rows",
        "NEST[1]", "[p, p + 1, 5]", "range(3, 9)", "[1, 2, 3, 4, 5, 6][::2]", "{True: 3, False: 1}", "many",
    ),
    "tuple": ("MOVES", "NAMES", "((1, x[0]), (2, x[1]))", "[(x[0], 1), (k[0], 2), (0.5, 3)]", "POINTS"),
    "list": ("NEST", "[[x[0], 1.0], [2.0, x[1]]]", "[rows, rows]", "table", "pair", "bins"),
    "array": ("[x, x + 1]", "(x * 2, x, x[::-1])", "[x[:2], x[1:3], x[-2:]]", "arrays", "arrays"),
}  # fmt: skip
END = (
    "s * ONE, best[0] * ONE, best[1] * ONE, len(best), y, rows[0] * ONE, "
    "[[v * ONE for v in w] for w in (q, *table, *pair, bins[1])], arrays"
)
"""The results in one dtype: what is an int on one way and a float on another one is a float."""
SEQUENCES = ("tuple", "list")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops: list[str] = []

    def place(self) -> str:
        r = self.random
        at = r.randrange(3)
        plain = (
            f"k[{at}]", f"int(k[{at}])", f"k[{at}] % 3", f"k[{at}] % 2",
            f"x[0] > {r.randint(-1, 2)}", f"bool(x[{at}] > 0)", f"not x[{at}] > 1", "p",
            f"k[{at}] % 2", f"-1 - k[{at}]", f"(k[0] + k[{at}]) % 3", "int(p)", f"k[{at}] > 0 and x[0] > 0", "j",
            f"int(x[{at}])", f"np.argmax(x[:{at + 1}])", "j if x[0] > 0 else 1", f"0 if k[{at}] > 1 else -1", "s > 1",
        )  # fmt: skip
        return r.choice([*plain, *self.loops, *self.loops])

    def number(self, deep: int = 0) -> str:
        r = self.random
        match r.randrange(6 if deep < 2 else 3):
            case 0:
                return r.choice(["x[0]", "x[-1]", "k[1]", "s", "0.5", "3", "j"])
            case 1 | 2:
                return f"{r.choice(ITEMS['number'])}[{self.place()}]"
            case 3:
                return f"{r.choice(ITEMS[r.choice(SEQUENCES)])}[{self.place()}][{r.choice(['0', '1', '-1'])}]"
            case 4:
                return f"{r.choice(ITEMS['list'])}[{self.place()}][{self.place()}]"
            case _:
                test = self.test(deep + 1)
                return f"({self.number(deep + 1)} if {test} else {self.number(deep + 1)})"

    def tuple(self) -> str:
        r = self.random
        return r.choice(
            [
                f"{r.choice(ITEMS['tuple'])}[{self.place()}]", f"({self.number(1)}, {self.number(1)})",
                f"({self.number(1)}, {r.randrange(3)})", "best", "best", "(x[0], k[0])", "(x[1], k[1], s)",
            ]
        )  # fmt: skip

    def test(self, deep: int = 0) -> str:
        r = self.random
        sign = r.choice(["<", "<=", ">", ">=", "==", "!="])
        if r.random() < 0.6 or deep > 1:
            return f"{self.tuple()} {sign} {self.tuple()}" if r.random() < 0.5 else f"s {sign} {self.number(2)}"
        if r.random() < 0.5:
            return f"{self.tuple()} {sign} {self.tuple()} {r.choice(['<', '>='])} (1, 2)"
        return f"{self.number(1)} {r.choice(['in', 'not in'])} {r.choice(['[1, 2.5]', '(x[0], 3)', 'FLAGS', 'COSTS'])}"

    def statement(self, deep: int) -> list[Statement]:
        r = self.random
        match r.randrange(11 if deep < 2 else 7):
            case 0 | 1:
                return [Statement(f"s = s + {self.number()}")]
            case 2:
                return [Statement(f"best = {self.tuple()}")]
            case 3:
                return [Statement(f"best = {r.choice(['min', 'max'])}(best, {self.tuple()})")]
            case 4:
                return r.choice(
                    [
                        [Statement(f"y = {r.choice(ITEMS['array'])}[{self.place()}] * 1.0")],
                        [Statement(f"y = arrays[{self.place()}]"), Statement(f"y[0] = {self.number(2)}")],
                        [Statement(f"q = table[{self.place()}]")],
                        [Statement(f"q = {r.choice(['pair', 'bins'])}[{self.place()}]")],
                        [Statement(f"arrays[{r.randrange(2)}][0] = {self.number(2)}")],
                    ]
                )
            case 5:
                holder = r.choice(["rows", "rows", "table[0]", f"table[{self.place()}]", "q", "pair[1]"])
                return [
                    Statement(
                        f"{holder}[{r.choice(['0', '1', self.place()])}] {r.choice(['=', '+='])} {self.number(1)}"
                    )
                ]
            case 6:
                each = r.choice(["(v, n) for n, v in enumerate(x)", "zip(x, k)", "(k[n], x[n]) for n in range(3)"])
                return [Statement(f"best = {r.choice(['min', 'max'])}({each})")]
            case 7 | 8:
                return [Statement(f"if {self.test()}:", self.block(deep + 1))]
            case 9:
                self.loops.append("i")
                made = [Statement(f"for i in range({r.choice(['2', '3', 'len(x)'])}):", self.block(deep + 1))]
                self.loops.pop()
                return made
            case _:
                return [Statement(f"if {self.test()}:", [*self.block(deep + 1), Statement(f"return {END}")])]

    def block(self, deep: int) -> list[Statement]:
        return [s for _ in range(self.random.randint(1, 3)) for s in self.statement(deep)]


def looked(seed: int) -> Case:
    """The program of this seed."""
    writer = _Writer(seed)
    r = writer.random
    first = [
        Statement("rows, many = [x[0], x[1], 2.0], list(range(70))", fixed=True),
        Statement("table, arrays = [[x[0], 1.0], [2.0, x[1]]], [x * 2, x + 1]", fixed=True),
        Statement("q, bins = table[0], {0: [1.0, x[0]], 1: [x[1], 2.0]}", fixed=True),
        Statement("pair = ([0.0, x[1]], table[1])", fixed=True),
        Statement("s, best, y, j = 0, (x[0], 1), x * 1.0, k[2]", fixed=True),
    ]
    body = [*first, *[s for _ in range(r.randint(2, 5)) for s in writer.statement(0)]]
    vectors = ["np.array([0.5, 2.0, -1.0])", "np.array([1.0, -2.0, 0.5, 3.0])", "np.array([2.0, 2.0, 0.5])"]
    places = ["np.array([1, 0, 2])", "np.array([0, -1, 1])", "np.array([2, 1, 0])", "np.array([5, 0, 1])"]
    kind = r.choice(["", "", ".astype(np.int8)", ".astype(np.uint8) % 3"])
    numbers = r.sample(["0", "1", "True", "False", "2", "-1", "np.int64(1)", "np.int8(2)"], 4)
    calls = [
        ([r.choice(vectors), f"{places[n] if n < 3 or r.random() < 0.4 else places[0]}{kind}", numbers[n]], list[str]())
        for n in range(4)
    ]
    return Case(HOLDERS, ["x", "k", "p"], [*body, Statement(f"return {END}", fixed=True)], calls, independent=True)
