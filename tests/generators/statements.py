"""Random functions with loops, branches, jumps, names bound anew, arrays changed in place and other names of them."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

ARRAYS = ("x", "y", "z")
NUMBERS = ("a", "b", "c")
COUNTS = ("i", "j", "k")
STATES = ("len(seen)", "box['v']", "len(box)", "next(it, -1.0)", "1.0 if found is True else 2.0")


class Writer:
    """Writes one function, statement by statement.

    absent: also with names that may have no value (q, an array) or be None (p, a number).  state: also with Python's
    objects that it changes, iterators, flags and exceptions.  lengths: also with a mask (m), what it selects (v), and a
    number of elements (h).
    """

    def __init__(self, seed: int, *, absent: bool = False, state: bool = False, lengths: bool = False) -> None:
        self.random = random.Random(seed)
        self.absent = absent
        self.state = state
        self.lengths = lengths
        self.lines: list[str] = []
        self.loops: list[str] = []  # the indices of the loops around, None for what has none
        self.left = 14  # statements

    def function(self) -> str:
        self.lines = ["def f(x, y, a, n):", "    z = x * 0.5", "    b, c = 0.0, 1"]
        while self.left > 0:
            self.statement(1, top=True)
        names = self.random.sample((*ARRAYS, *NUMBERS), 3)
        if self.absent:
            self.lines.insert(3, f"    p = {self.random.choice(['None', 'None', '0.5'])}")
            names += ["-1.0 if p is None else p", self.random.choice(["0.0", "0.0", "q"])]
        if self.state:
            self.lines.insert(3, "    box, seen, it, found = {'v': 0.5}, [], iter([0.5, 1.0, -1.0, 2.0] * 9), False")
            names += self.random.sample(STATES, 3)
        if self.lengths:
            self.lines[3:3] = ["    m = x > 0.0", f"    v = {self.random.choice(ARRAYS)}[m]", "    h = m.sum()"]
            names += ["v", "h"]
        self.lines.append(f"    return {', '.join(names)}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, *, top: bool = False) -> None:
        self.left -= 1
        kinds = [self.assign, self.assign, self.number, self.number, self.in_place, self.in_place, self.rename]
        if depth < 4:
            kinds += [self.loop, self.loop, self.branch, self.branch, self.repetition]
        if self.loops:
            kinds += [self.jump]
        if self.absent:
            kinds += [self.perhaps] * 4
        if self.state:
            kinds += [self.change] * 4
        if self.lengths:
            kinds += [self.select] * (8 if top else 3)
        self.random.choice(kinds)(depth)

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth)

    # -- values --------------------------------------------------------------------------------------------------------
    def place(self) -> str:
        return self.random.choice([*[i for i in self.loops if i], "0", "-1", "n - 1"])

    def scalar(self) -> str:
        r = self.random
        return r.choice([
            *NUMBERS, f"{r.uniform(-2, 2):.2f}", str(r.randint(-2, 3)), f"{r.choice(ARRAYS)}[{self.place()}]",
            f"{r.choice(ARRAYS)}.sum()", *[i for i in self.loops if i], f"{r.choice(ARRAYS)}.max()",
        ])  # fmt: skip

    def array(self) -> str:
        r = self.random
        one, two = r.choice(ARRAYS), r.choice(ARRAYS)
        return r.choice([
            f"{one} * {self.scalar()}", f"{one} + {two}", f"np.sin({one})", f"{one}[::-1] - {two}", f"{one}.copy()",
            f"np.minimum({one}, {two}) * 0.9", f"np.where({one} > {self.scalar()}, {two}, 0.1)",
        ])  # fmt: skip

    def test(self) -> str:
        r = self.random
        simple = f"{self.scalar()} {r.choice(['<', '>', '<=', '!='])} {self.scalar()}"
        return r.choice([
            simple, simple, f"{simple} and {self.scalar()} > 0", f"not {simple}", f"-1 < {self.scalar()} < 2",
            f"{simple} or {self.scalar()} < 1",
        ])  # fmt: skip

    # -- statements ----------------------------------------------------------------------------------------------------
    def assign(self, depth: int) -> None:
        self.put(depth, f"{self.random.choice(ARRAYS)} = {self.array()}")

    def number(self, depth: int) -> None:
        r, name = self.random, self.random.choice(NUMBERS)
        self.put(
            depth,
            r.choice([
                f"{name} = 0.5 * {name} + {self.scalar()}", f"{name} += {self.scalar()}", f"{name} = {self.scalar()}",
                f"{name} = {self.scalar()} if {self.test()} else {self.scalar()}", "a, b = b * 0.5, a",
                f"{name} = np.tanh({self.scalar()})",
            ]),
        )  # fmt: skip

    def in_place(self, depth: int) -> None:
        r, name = self.random, self.random.choice(ARRAYS)
        self.put(
            depth,
            r.choice([
                f"{name}[{self.place()}] = {self.scalar()}", f"{name} += {self.scalar()} * 0.1", f"{name}[1:] *= 0.5",
                f"{name}[:-1] = {r.choice(ARRAYS)}[1:]", f"{name}[...] = {self.array()}",
            ]),
        )  # fmt: skip

    def perhaps(self, depth: int) -> None:
        r, name = self.random, self.random.choice(NUMBERS)
        self.put(
            depth,
            r.choice([
                "p = None", f"p = {self.scalar()} * 0.5", f"p = {self.scalar()} * 0.5", f"q = {self.array()}",
                f"if {self.test()}: p = {self.scalar()} * 1.0", f"if {self.test()}: q = {self.array()}",
                f"if {self.test()}: p = None", f"{name} = p * 0.5 if p is not None else {name}",
                f"if p is None: {name} = 0.5", f"if p is not None: {name} = 0.5 * p + 1", f"{name} = q.sum() * 0.1",
                f"p = {self.scalar()} * 1.0 if {self.test()} else None", f"if p is None or p < 0.5: {name} = 2.0",
                f"if {self.test()}: q[0] = 0.5", "p = 1.0 if p is None else p * 0.5",
            ]),
        )  # fmt: skip

    def change(self, depth: int) -> None:
        r, name = self.random, self.random.choice(NUMBERS)
        text = r.choice([
            f"box['v'] = {self.scalar()}", "box['v'] += 1.0", f"if {self.test()}: box['v'] = {self.scalar()}",
            f"if {self.test()}: box['v'] = 1.0", f"if {self.test()}: box['w'] = (1, 2)", f"{name} = box['v'] * 0.5",
            f"{name} = {self.test()} and box.update(v=1.0)", "seen.append(1)", f"if {self.test()}: seen.append(1)",
            f"{name} = next(it, 0.0)", f"if {self.test()}: {name} = next(it, 0.0)", f"found = {self.test()}",
            f"if {self.test()}: found = True", f"{name} = 1.0 if found is True else 2.0",
            f"{name} = 1.0 if found is not False else 0.5", f"if {self.test()}: {name} = [1.0, 2.0][5]",
            f"for v in it:\n    {name} = v * 0.5\n    if {self.test()}: break",
            f"for v, w in zip([1.0, 2.0, 3.0], it):\n    {name} = v * w\n    if {self.test()}: break",
            f"for v, w in enumerate([1.0, 2.0, 3.0]):\n    {name} = v * w\n    if {self.test()}: break",
            f"t = 0\nwhile (v := y[t]) < {self.scalar()}:\n    t += 1\n    if t > 2: break\n{name} = v + t",
            f"try:\n    if {self.test()}: {name} = {{}}['k']\nexcept KeyError: {name} = 2.0",
            f"try:\n    {name} = 0.5\n    if {self.test()}: raise ValueError\nexcept ValueError: {name} = 2.0",
            f"try:\n    if {self.test()}: {name} = 0.5\n    {name} = {{}}['k']\nexcept KeyError: {name} += 1.0",
        ])  # fmt: skip
        for line in text.split("\n"):
            self.put(depth, line)

    def select(self, depth: int) -> None:
        r, name, one, two = (
            self.random,
            self.random.choice(NUMBERS),
            self.random.choice(ARRAYS),
            self.random.choice(ARRAYS),
        )
        s = r.choice([*NUMBERS, "0.0", "0.3", "-0.5", "1.0"])
        text = r.choice([
            f"m = {one} > {s}", f"v = {one}[{one} > {s}]", f"v = {one}[m]", f"v = {one}[h:]", f"v = {one}[1:h]",
            f"v[v > {s}] *= 0.5", f"v[v > {s}] = 0.25", f"v[v < {s}] -= {name}", "v += 0.5", "v = v * 2.0 - 1.0",
            f"v = v[v < {s}]", "v = v[:2]", "v = v[1:]", "v = v[::-1]", "v[:1] = 2.0", "v[-1:] = 4.0",
            "v = np.cumsum(v)",
            f"v = {one}[{one} > {s}] + 1.0", f"h = ({one} > {s}).sum()", "h = len(v)", "h = h - 1", "h = v.size // 2",
            f"{one}[h:] = {s}", f"{one}[:h] *= 0.5", f"{one}[h:h + 2] = 1.5", f"{one}[1:h] += {two}[1:h]",
            f"{one}[-h:] -= 0.5", f"{one}[m] += 0.5", f"{one}[m] = {two}[m]", f"{one}[{one} > {s}] *= 0.5",
            f"{one}[{one} > {s}] = {one}[{one} > {s}] * 0.5", f"{one}[np.flatnonzero({one} > {s})] = 0.5",
            f"for e in v: {name} = 0.5 * {name} + e", f"for e in {one}[{one} > {s}]: {one}[0] += 0.1 * e",
            f"for p in np.flatnonzero({one} > {s}): {one}[p] = {s}", f"for p in np.flatnonzero(m): {two}[p] *= 0.5",
            f"for e in v:\n    if e > {s}: break\n    {name} = e",
            f"{name} = v.sum() * 0.5", f"{name} = len(v) * 0.25", f"{name} = v[:1].sum()",
            f"{name} = v[len(v) - 1:].sum()",
            f"{name} = np.where(v > {s})[0].sum() * 0.1", f"{name} = np.flatnonzero(v < {s}).sum() * 0.1",
            f"{name} = v[np.flatnonzero(v > {s})].sum()", f"{name} = v[v > {s}][:1].sum()",
            f"{name} = {one}[m][:h].sum()", f"{name} = np.maximum({one}, {s})[m].max(initial=0.0)",
            f"{name} = v[0] if len(v) else 0.5", f"if len(v) > 1: {name} = v[1] * 0.5",
            f"{one}[h:] = {two}[h:]", f"{one} = np.where(m, {two}, {one})", f"{one}[:h] = {two}[:h][::-1]",
        ])  # fmt: skip
        for line in text.split("\n"):
            self.put(depth, line)

    def rename(self, depth: int) -> None:
        r = self.random
        self.put(depth, r.choice(["x, y = y, x", "z = x", "z = y[...]", "y = z", "x = x", "z, y = y * 1.0, z"]))

    def loop(self, depth: int) -> None:
        r = self.random
        index = next((i for i in COUNTS if i not in self.loops), "m")
        head = r.choice(["range(n)", "range(1, n)", "range(7)", "range(n - 1, -1, -1)", "range(0, 12, 2)", "values"])
        if head == "values":
            name = r.choice(ARRAYS)
            self.put(depth, f"for value, {index} in zip({name}, range(n)):")
            self.put(depth + 1, f"{r.choice(NUMBERS)} = value * 0.25")
        else:
            self.put(depth, f"for {index} in {head}:")
        self.loops.append(index if head in ("range(n)", "range(1, n)", "range(n - 1, -1, -1)", "values") else "")
        self.block(depth + 1)
        self.loops.pop()
        if r.random() < 0.2:
            self.put(depth, "else:")
            self.block(depth + 1)

    def repetition(self, depth: int) -> None:
        count = f"w{len(self.lines)}"
        self.put(depth, f"{count} = 0")
        self.put(depth, f"while {count} < {self.random.randint(2, 9)} and ({self.test()}):")
        self.put(depth + 1, f"{count} += 1")
        self.loops.append("")
        self.block(depth + 1)
        self.loops.pop()

    def branch(self, depth: int) -> None:
        self.put(depth, f"if {self.test()}:")
        self.block(depth + 1)
        if self.random.random() < 0.3:
            self.put(depth, f"elif {self.test()}:")
            self.block(depth + 1)
        if self.random.random() < 0.5:
            self.put(depth, "else:")
            self.block(depth + 1)

    def jump(self, depth: int) -> None:
        whole = "return x, a, c" + ", -1.0, b" * self.absent + ", 1, 2, b" * self.state + ", v, h" * self.lengths
        jump = self.random.choice(["break", "continue", "break", whole])
        self.put(depth, f"if {self.test()}:")
        self.put(depth + 1, jump)


def function_of(seed: int, **kinds: bool) -> tuple[Callable[..., Any], str]:
    """A function of two arrays, a number and their extent, and its source.  kinds: of `Writer`; it may raise then."""
    text = Writer(seed, **kinds).function()
    file = f"<statements {seed} {' '.join(kinds)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, file, "exec"), scope)
    return scope["f"], text
