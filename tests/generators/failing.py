"""Random programs that fail and go on: `try` with `except`, `else` and `finally`, managers, `raise` and `assert`, in
loops, branches on data, methods and generators, and functions that the tracer leaves as they are.

Sizes, counters and data decide where something fails; what handlers do is seen in numbers, arrays, lists and objects.
Values are multiples of a quarter, so that answers are exact.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.generators.harness import Case, Statement

__all__ = ["failing"]

PREAMBLE = """import contextlib
import numpy as np

class Failed(Exception):
    def __init__(self, value=0.0):
        super().__init__(value)
        self.value = value

class Both(ValueError, KeyError): pass

class Counts:
    def __init__(self): self.n = 0; self.v = 0.0

    def take(self, x, k):
        self.n += 1
        if k == 1: raise Failed(0.5)
        if k == 4: raise Both(k)
        self.v += 0.25
        return x[k]

    def surely(self, x, k):
        try: return self.take(x, k)
        except Failed as e: self.n += 100; return e.value
        except LookupError: self.v -= 1; return -1.0
        finally: self.n += 1000

class Swallows:
    def __init__(self, o, *kinds): self.o, self.kinds = o, kinds
    def __enter__(self): self.o.n += 1; return self
    def __exit__(self, kind, error, traceback):
        self.o.n += 10
        return True if kind is not None and issubclass(kind, self.kinds) else False

@contextlib.contextmanager
def swallowing(o, *kinds):
    o.n += 7
    try: yield o
    except kinds: o.v += 3
    else: o.n += 50
    finally: o.n += 5

def sized(x, k):
    if len(x) == k: raise ValueError(k)
    if len(x) < k: raise IndexError
    return x[k] * 2

def parts(x, k):
    for i in range(k):
        try:
            if i == 2: raise Failed(0.5)
            yield x[i]
        except Failed as e: yield e.value
        except IndexError: return
"""
KINDS = (
    "ValueError", "KeyError", "IndexError", "(KeyError, ValueError)", "LookupError", "Exception", "Failed",
    "(Failed, IndexError)", "TypeError", "ZeroDivisionError", "ArithmeticError", "Both", "AssertionError",
    "np.linalg.LinAlgError",
)  # fmt: skip


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = 14
        self.names = 0
        self.indices: list[str] = []
        self.loops = 0
        self.on_data = 0  # branches around that data decide

    # -- expressions ---------------------------------------------------------------------------------------------------
    def index(self) -> str:
        return self.random.choice(
            ["0", "1", "2", "-1", "3", "4", *self.indices * 3, *[f"{i} + 1" for i in self.indices]]
        )

    def value(self) -> str:
        counted = [f"{i} * 0.5" for i in self.indices]
        return self.random.choice(
            ["1.5", "x[0]", "s * 0.5", "o.v", "a[1]", "a[0] + 1", "0.25", "n * 1.0", "x.max()", *counted]
        )

    def test(self) -> str:
        counted = [f"{i} == {self.random.randint(0, 3)}" for i in self.indices]
        return self.random.choice(
            ["len(x) > 3", "len(x) == 3", "len(x) < 3", "n > 2", "n % 2 == 0", "k > 2", *counted * 2]
        )

    def test_of_data(self) -> str:
        return self.random.choice(["x[0] > 0", "s > 0.5", "x.sum() > 2", "a[0] > 1", "s < x[0]"])

    # -- statements ----------------------------------------------------------------------------------------------------
    def simple(self) -> str:
        r, v = self.random, self.value()
        quiet = [
            f"s = {v}",
            f"s += {v}",
            f"a[{r.randint(0, 2)}] = {v}",
            f"x[0] = {v}",
            f"o.v += {v}",
            "a = a * 0.5",
            "n += 1",
        ]
        if self.on_data:
            return r.choice(quiet)
        at = self.index()
        raising = [
            f"x[{at}] += 1", f"a[{at}] = {v}", f"s += x[{at}]", f"s += sized(x, {r.randint(1, 4)})",
            f"s += o.take(a, {r.randint(0, 4)})", f"s += o.surely(x, {r.randint(0, 4)})", "s += (x + np.ones(3))[0]",
            f"a = a + np.ones({r.choice(['3', 'len(x)'])})", "s += 1 / (len(x) - 3)", "s += {1: 0.5, 2: 0.25}[n]",
            f"s += [0.5, 1.5, 2.5][{r.choice([*self.indices, 'n'])}]", "x[:3] += np.ones(3)", "p, q, w = x",
            f"l.append({v})", "l.pop()", "s += l[1]", "s += x.reshape(2, -1)[1, 0]", "s += sum(parts(x, k))",
            "s += np.linalg.det(np.ones((2, len(x))))", 's += len(np.stack([x, np.ones(3)]))', 'x[0] = "a"',
            f"assert {self.test()}, n", "s += np.zeros(len(x) - 2).size",
        ]  # fmt: skip
        return r.choice([*quiet, *raising, *raising])

    def block(self, depth: int, most: int = 3) -> list[Statement]:
        made = [s for _ in range(self.random.randint(1, most)) for s in self.statement(depth)]
        ends = [n for n, s in enumerate(made) if s.line.startswith(("raise", "break", "continue", "return"))]
        return made[: ends[0] + 1] if ends else made

    def within(self, depth: int, *, indices: Sequence[str] = (), loops: int = 0, data: int = 0) -> list[Statement]:
        before = self.indices, self.loops, self.on_data
        self.indices = [*self.indices, *indices]
        self.loops = 0 if data else self.loops + loops
        self.on_data += data
        made = self.block(depth - 1)
        self.indices, self.loops, self.on_data = before
        return made

    def statement(self, depth: int) -> list[Statement]:
        r = self.random
        self.left -= 1
        if depth <= 0 or self.left < 0:
            return [Statement(self.simple())]
        usual = {
            "simple": 5,
            "if": 1.5,
            "data": 1,
            "for": 1.5,
            "while": 0.5,
            "try": 4,
            "with": 1.2,
            "raise": 1,
            "jump": 1.2,
        }
        if self.on_data:
            usual = {"simple": 5, "if": 1, "try": 2, "with": 0.5}
        kind = r.choices(list(usual), list(usual.values()))[0]
        made: list[Statement] = getattr(self, f"of_{kind}")(depth)
        return made

    def of_simple(self, depth: int) -> list[Statement]:
        return [Statement(self.simple())]

    def of_if(self, depth: int) -> list[Statement]:
        made = [Statement(f"if {self.test()}:", self.within(depth))]
        return [*made, Statement("else:", self.within(depth))] if self.random.random() < 0.4 else made

    def of_data(self, depth: int) -> list[Statement]:
        made = [Statement(f"if {self.test_of_data()}:", self.within(depth, data=1))]
        return [*made, Statement("else:", self.within(depth, data=1))] if self.random.random() < 0.4 else made

    def of_for(self, depth: int) -> list[Statement]:
        self.names += 1
        i = f"i{self.names}"
        head = self.random.choice(["range(3)", "range(len(x))", "range(4)", "(0, 2, 1, 3)", "range(k)"])
        return [Statement(f"for {i} in {head}:", self.within(depth, indices=[i], loops=1))]

    def of_while(self, depth: int) -> list[Statement]:
        self.names += 1
        i = f"i{self.names}"
        body = [Statement(f"{i} += 1", fixed=True), *self.within(depth, indices=[i], loops=1)]
        return [Statement(f"{i} = 0", fixed=True), Statement(f"while {i} < {self.random.randint(2, 4)}:", body)]

    def of_try(self, depth: int) -> list[Statement]:
        r = self.random
        made = [Statement("try:", self.within(depth))]
        kinds = r.sample(KINDS, r.choice([0, 1, 1, 1, 2, 3]))
        for kind in kinds:
            name = " as e" if r.random() < 0.3 else ""
            said = [Statement("l.append(type(e).__name__)")] if name and r.random() < 0.5 and not self.on_data else []
            made.append(Statement(f"except {kind}{name}:", [*said, *self.within(depth - 1)]))
        if kinds and r.random() < 0.2:
            made.append(Statement(r.choice(["except:", "except Exception:"]), self.within(depth - 1)))
        if kinds and r.random() < 0.3:
            made.append(Statement("else:", self.within(depth - 1)))
        if not kinds or r.random() < 0.35:
            self.loops, loops = 0, self.loops
            made.append(Statement("finally:", [Statement(self.simple())]))
            self.loops = loops
        return made

    def of_with(self, depth: int) -> list[Statement]:
        kind = self.random.choice(KINDS[:9]).strip("()")
        managers = f"contextlib.suppress({kind})", f"Swallows(o, {kind})", "Swallows(o)", f"swallowing(o, {kind})"
        return [Statement(f"with {self.random.choice(managers)}:", self.within(depth))]

    def of_raise(self, depth: int) -> list[Statement]:
        errors = ["ValueError(n)", "KeyError('k')", "IndexError", "Failed(0.75)", "Both(1)", "TypeError"]
        return [Statement(f"raise {self.random.choice(errors)}")]

    def of_jump(self, depth: int) -> list[Statement]:
        jumps = ["break", "continue"] if self.loops else ["return s, n, a, l, o.n, o.v"]
        return [Statement(f"if {self.test()}:", [Statement(self.random.choice(jumps))])]


def failing(seed: int) -> Case:
    """The program of this seed."""
    writer = Writer(seed)
    first = ["s, n, l, o = 0.0, 0, [], Counts()", "a = np.arange(3.0)"]
    made: list[Statement] = []
    while writer.left > 0:
        made += writer.of_try(3) if writer.random.random() < 0.6 else writer.statement(4)
    if writer.random.random() < 0.15:  # functions that ask for their variables are traced as they are
        made.append(Statement("assert len(locals()) > 2"))
    if writer.random.random() < 0.85:  # so that it goes on to the end
        made = [Statement("try:", made), Statement("except Exception:", [Statement("n += 5")])]
    body = [*[Statement(s, fixed=True) for s in first], *made]
    body.append(Statement("return s, n, a, l, o.n, o.v", fixed=True))
    vectors = ["np.array([0.5, 2, -1])", "np.array([1, 1, 0.5, -2])", "np.array([3.0])", "np.array([-1, 2.5, 0, 1, 4])"]
    order = writer.random.choice([(0, 1, 3, 2), (1, 0, 3, 2), (3, 1, 0), (0, 2, 1, 1)])
    calls = [([vectors[n], writer.random.choice(["2", "3", "4"])], list[str]()) for n in order]
    return Case(PREAMBLE, ["x", "k"], body, calls)
