"""Random programs that make state on the way: attributes and keys that are there from the second iteration on,
iterators that move, objects that are reached through a global, classes of objects that change; in loops and branches.

What is made and read is as in plain Python, or refused.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["making"]

PREAMBLE = """import collections, itertools, types
import numpy as np

class Box: pass

class Acc:
    def __init__(self): self.n = 0; self.t = 0.0; self.items = []
    def tick(self): self.n += 1; return self.n
    def lazy(self, v):
        self.last, old = v, getattr(self, 'last', 0.0)
        return old

class Delay:
    def run(self, v):
        if not hasattr(self, 'q'): self.q = collections.deque([0.0] * 2, maxlen=2)
        out = self.q[0]
        self.q.append(v)
        return out

class Lane:
    def run(self, v):
        if not hasattr(self, 'st'): self.st = types.SimpleNamespace(a=0.0, b=0.0)
        out = self.st.b
        self.st.b = self.st.a
        self.st.a = v
        return out

class Mapping(dict): pass

class Pair(collections.namedtuple("Pair", "a b")): pass

def lazy():
    if not hasattr(lazy, 'k'): lazy.k = 0
    lazy.k += 1
    return lazy.k

def tallied():
    tallied.k = getattr(tallied, 'k', 0) + 1

def counter():
    k = 0
    def step():
        nonlocal k
        k += 1
        return k
    return step

class One:
    def go(self): self.__class__ = Two; return 1.0

class Two:
    def go(self): self.__class__ = One; return -1.0

G = Box()
D = {}

def values(v):
    for w in v: yield w

def pairs():
    for a in (1.0, 1.0, 2.0):
        for b in range(40): yield a * b
"""
_ITERATORS = (
    "itertools.cycle([1.0, -1.0, 0.5])", "itertools.count(0.5, 0.25)", "iter([1.0, 1.0, 2.0, 2.0] * 20)",
    "values([0.5, 0.5, 1.5] * 30)", "pairs()", "(w * 0.5 for w in [1.0, 1.0, 3.0] * 30)",
    "itertools.chain([1.0], [2.0, 2.0] * 40)", "itertools.accumulate([0.25] * 80)",
    "iter(collections.deque([1.0, 2.0] * 40))",
    "map(float, range(80))", "(a + b for a, b in itertools.product([0.0, 1.0], [0.0, 0.5] * 20))",
)  # fmt: skip
_KEYS = ("a", "b", "c")


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = 10

    def place(self) -> tuple[str, str]:
        """A place, and how it is read where it may not be there yet."""
        r, key = self.random, self.random.choice(_KEYS)
        start = r.choice(["0.0", "0", "1.5", "np.float64(0)", "v", "len(x)"])
        holder = r.choice(["d", "d", "d", "o", "o", "D", "G"])
        if holder in ("d", "D"):
            return f"{holder}['{key}']", r.choice([
                f"{holder}.get('{key}', {start})", f"({holder}['{key}'] if '{key}' in {holder} else {start})",
                f"{holder}.setdefault('{key}', {start})",
            ])  # fmt: skip
        return f"{holder}.{key}", f"getattr({holder}, '{key}', {start})"

    def value(self) -> str:
        r = self.random
        _, read = self.place()
        return r.choice(
            ["v", "v * 0.5", "s", "1.0", "0.25", read, f"{read} + 1", f"{read} + v", f"{read} * 0.5", "next(it)"]
        )

    def simple(self) -> str:
        r = self.random
        place, read = self.place()
        return r.choice([
            f"{place} = {self.value()}", f"{place} = {read} + {r.choice(['1', '0.5', 'v'])}", f"s = s + {read} * v",
            f"{place} = {read}", f"s = s * 0.5 + {self.value()}", "s = s + next(it) * v", "s = s + next(it) * v",
            "s = s + G.acc.tick() * v", "G.acc.n += 1", "G.acc.t = G.acc.t + v", "s = s + G.acc.t",
            "s = s + m.go() * v",
            "s = s + acc.lazy(v)", "acc.n += 1", "s = s + acc.n * v", "l[0] = l[0] + 1", "s = s + l[0] * v",
            "s = s + delay.run(v)", "s = s + lane.run(v)", "s = s + lazy() * v", "tallied()",
            "s = s + d.setdefault('q', collections.deque([0.0, 1.0], maxlen=2))[0]; d['q'].append(v)",
            "c = d.setdefault('c', counter()); s = s + c() * v",
            "c = d.setdefault('m', Mapping(n=0)); c['n'] = c['n'] + 1; s = s + c['n'] * v",
            "d['t'] = (d.get('t', (0,))[0] + 1,)", "s = s + d.get('t', (0,))[0]", "d.setdefault('h', []).append(1)",
            "o.st = (v, getattr(o, 'st', (0, 0))[1] + 1)", "s = s + getattr(o, 'st', (0, 0))[1] * v",
            "pair.n = getattr(pair, 'n', 0) + 1; s = s + pair.n * v", "d['w'] = x if d.get('w') is y else y",
            "s = s + d.get('w', x)[0]", "od.move_to_end(next(iter(od)))", "s = s + next(iter(od)) * v",
        ])  # fmt: skip

    def block(self, depth: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(self.random.randint(1, 3))]

    def statement(self, depth: int) -> Statement:
        r = self.random
        self.left -= 1
        if depth and self.left > 0 and r.random() < 0.3:
            key = r.choice(_KEYS)
            test = r.choice(["v > 1", "v > 100", "s > v", f"'{key}' in d", f"hasattr(o, '{key}')", "x[0] > 0"])
            return Statement(f"if {test}:", self.block(depth - 1))
        return Statement(self.simple())


def making(seed: int) -> Case:
    """A program and its calls."""
    w = Writer(seed)
    r = w.random
    start = [
        "d = {}; o = Box(); l = [0]; m = One(); acc = Acc(); od = collections.OrderedDict([(1, 0), (2, 0), (3, 0)])",
        f"it = {r.choice(_ITERATORS)}",
        "D.clear(); vars(G).clear(); G.acc = Acc(); vars(lazy).clear(); vars(tallied).clear()",
        "delay = Delay(); lane = Lane(); pair = Pair(1, 2); y = x * 3",
        r.choice(["s = 0.0", "s = x[0] * 0"]),
        "v = x[0]",
    ]
    body = [Statement(line, fixed=True) for line in start]
    body += w.block(1) if r.random() < 0.3 else []
    loop = r.choice(["for v in x:", "for v in x:", "for i in range(len(x)):", "while k < len(x):"])
    inside = w.block(2)
    if loop.startswith("for i"):
        inside = [Statement("v = x[i]", fixed=True), *inside]
    if loop.startswith("while"):
        body.append(Statement("k = 0", fixed=True))
        inside = [Statement("v = x[k]", fixed=True), *inside, Statement("k += 1", fixed=True)]
    body.append(Statement(loop, inside))
    body += w.block(1) if r.random() < 0.5 else []
    body.append(Statement("D.clear(); vars(G).clear()", fixed=True))
    body.append(Statement("return s", fixed=True))
    sizes = [12, 7, 3, 12] if r.random() < 0.7 else [3, 20, 6]
    calls = [([f"np.linspace(-1.0, 3.0, {n}).round(2) * 0.25 + {r.choice(['0', '0.5', '2'])}"], []) for n in sizes]
    return Case(PREAMBLE, ["x"], body, calls)
