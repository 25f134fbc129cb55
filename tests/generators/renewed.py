"""Random programs whose loops bind lists and dicts anew (the parameters of a model in each step), change them in place,
give them other names, keep them elsewhere, and go on with them behind the loop.

What they hold then, and which of them are one, is as in plain Python, or refused.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["renewed"]

PREAMBLE = """import numpy as np
import tracejit as tj

class Box: pass

def stepped(p, v): return {k: q * 0.5 + v for k, q in p.items()}
"""


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.left = 9

    def dict_(self) -> str:
        r, name = self.random, self.random.choice(["p", "p", "q", "best"])
        return r.choice([
            f"{{k: w * 0.5 + v for k, w in {name}.items()}}", f"{{**{name}, 'a': {name}['a'] + v}}", f"dict({name})",
            f"{name}.copy()", f"stepped({name}, v)", f"tj.tree.map(lambda w: w * 0.9, {name})", name, "p", "q",
            f"dict(a={name}['b'], b={name}['a'], c={name}['c'])", f"{{'a': {name}['a'], 'b': {name}['b'] - v, 'c': v}}",
            f"{{'c': v, 'b': {name}['b'], 'a': {name}['a']}}",
        ])  # fmt: skip

    def list_(self) -> str:
        r, name = self.random, self.random.choice(["l", "l", "m"])
        return r.choice([
            f"[w * 0.5 + v for w in {name}]", f"[*{name}[1:], v]", f"{name}[::-1]", f"list({name})", name,
            f"{name} + []", "[w + u for w, u in zip(l, m)]", f"{name}[1:] + {name}[:1]", f"[{name}[0] * v, {name}[1]]",
        ])  # fmt: skip

    def value(self) -> str:
        return self.random.choice(["v", "s", "p['a'].max()", "l[0]", "v * 0.5", "q['b'] * 1.0", "m[1] + v"])

    def simple(self) -> str:
        r = self.random
        d, m = r.choice(["p", "p", "q", "best"]), r.choice(["l", "l", "m"])
        return r.choice([
            f"{d} = {self.dict_()}", f"{d} = {self.dict_()}", f"{d} = {self.dict_()}", f"{m} = {self.list_()}",
            f"{m} = {self.list_()}", f"{d}['{r.choice('abc')}'] = {self.value()}", f"{m}[{r.choice('01')}] = v",
            f"s = s + {d}['{r.choice('abc')}'].max()", f"s = s * 0.5 + {m}[{r.choice('01')}]", "p, q = q, p",
            "l, m = m, l",
            f"o.d = {d}", "s = s + o.d['a'].max()", f"n += 1 if {d} is {r.choice(['p', 'q', 'best'])} else 10",
            f"{d}['a'] += v", f"hist.append({d})", f"n += len({d}) + len({m})", f"both = ({d}, {m})",
        ])  # fmt: skip

    def block(self, depth: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(self.random.randint(1, 3))]

    def statement(self, depth: int) -> Statement:
        r = self.random
        self.left -= 1
        if depth and self.left > 0 and r.random() < 0.2:
            test = r.choice(["v > 0.5", "v > 100", "i == 0", "s > 3"])
            return Statement(f"if {test}:", self.block(depth - 1))
        return Statement(self.simple())


def renewed(seed: int) -> Case:
    """A program and its calls."""
    w = Writer(seed)
    r = w.random
    start = [
        "p = {'a': x * 2, 'b': x[0] * 1.5, 'c': x[1:] + 1}; s = x[0] * 0; n = 0; v = x[0]; hist = []",
        f"q = {r.choice(['p', 'dict(p)', 'stepped(p, v)'])}; best = {r.choice(['p', 'q', 'dict(q)'])}; both = 0",
        f"l = [v, v * 2]; m = {r.choice(['l', 'list(l)', '[s, v]'])}",
        f"o = Box(); o.d = {r.choice(['p', 'q', 'dict(p)'])}",
    ]
    body = [Statement(line, fixed=True) for line in start]
    body.append(Statement("for i in range(len(x)):", [Statement("v = x[i]", fixed=True), *w.block(1), *w.block(1)]))
    if r.random() < 0.3:
        body[-1].body.append(Statement("if s > 40: break"))
    body += [Statement(w.simple()) for _ in range(r.randint(0, 2))]
    body.append(Statement("return s, n, p, q, best, l, m", fixed=True))
    calls = [([f"np.linspace(-1.0, 3.0, {n}).round(2) * 0.25 + 0.25"], []) for n in (12, 7, 3, 12)]
    return Case(PREAMBLE, ["x"], body, calls)
