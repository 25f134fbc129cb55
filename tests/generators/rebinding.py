"""Random loops in which arrays are changed in place and names are bound to other arrays, depending on data or not.

Names begin with arrays of their own, with parts of one, with the argument itself, or with each other's; values are
multiples of a half, so that answers are exact.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from tests.generators.harness import Case, Statement, source

__all__ = ["branching", "handing", "held", "rebinding"]

NAMES = ("a", "b", "c")
PLACES = ("s.{0}", "s.{0}", "d['{0}']", "q[{1}]", "w.{0}", "e[0][{1}]")
HOLDERS = """import numpy as np

class S: pass

class W:
    __slots__ = ('a', 'b', 'c', 'k')
"""


class Writer:
    """Writes one function of a vector, a matrix and two numbers.

    everywhere: it also has branches outside of loops, and returns from within.
    """

    def __init__(self, seed: int, *, everywhere: bool = False) -> None:
        self.random = random.Random(seed)
        self.everywhere = everywhere
        self.wanted = self.random.sample([*NAMES, "x", "M2"], 3) if everywhere else []
        self.left = 10
        self.depth = 0

    def name(self) -> str:
        return self.random.choice(NAMES)

    def place(self) -> str:
        return self.random.choice(["0", "-1", "1", "k % 3", "i % 2"] if self.depth else ["0", "-1", "1"])

    def function(self) -> list[Statement]:
        r = self.random
        of_its_own = ["x.copy()", "x * 2", "x[::-1].copy()", "M[0] + 1", "np.zeros_like(x)"]
        shared = ["x", "a", "M[1]", "M2[0]", "M2[1]"]
        first = r.choice(["0", "0", "0", "len(x) // 3", "M.shape[0] - 2", "x.size % 3"])
        body = [Statement(f"k = {first}", fixed=True), *[Statement(s, fixed=True) for s in ("i = 0", "M2 = M.copy()")]]
        for n in NAMES:
            first = r.choice(of_its_own if r.random() < 0.75 or n == "a" else shared)
            body.append(Statement(f"{n} = {first}", fixed=True))
        body += self.block(r.randint(0, 1))
        while self.left > 0:
            body.append(self.loop())
            body += self.block(r.randint(0, 1))
        wanted = self.wanted or r.sample([*NAMES, "k", "x", "M2"], r.randint(2, 5))
        nothing = self.everywhere and r.random() < 0.1
        return [*body, Statement("return None" if nothing else f"return {self.parts(wanted)}", fixed=True)]

    def parts(self, names: list[str]) -> str:
        """What is returned: the names, and now and then only parts of their arrays."""
        parts = {"k": ["{}"], "M2": ["{}", "{}[0]", "{}[:, ::-1]"]}
        usual = ["{}", "{}", "{}[:2]", "{}[::-1]", "{}[k % 3]", "{}.copy()", "{}[1:][:1]"]
        chosen = [self.random.choice(parts.get(n, usual)) if self.random.random() < 0.3 else "{}" for n in names]
        return ", ".join(part.format(n) for part, n in zip(chosen, names, strict=True))

    def block(self, count: int) -> list[Statement]:
        return [s for _ in range(count) for s in self.statement()]

    def loop(self) -> Statement:
        r = self.random
        self.depth += 1
        self.left -= 1
        kind = r.randrange(4)
        head = [
            f"for i in range({r.choice(['n', '9', 'len(x)', '5'])}):",
            f"while k < {r.choice(['n', '8', '12'])}:",
            "for i, o in enumerate(x):",
            f"while {self.name()}.sum() < t and k < 20:",
        ][kind]
        body = self.block(r.randint(1, 4))
        if self.depth < 2 and r.random() < 0.25:
            body.insert(r.randint(0, len(body)), self.loop())
        if head.startswith("while"):
            last = r.random() < 0.5 and "continue" not in source(body)  # it would be endless
            body.insert(len(body) if last else 0, Statement("k += 1", fixed=True))
        self.depth -= 1
        return Statement(head, body)

    def statement(self) -> list[Statement]:
        r = self.random
        self.left -= 1
        a, b, c = r.sample(NAMES, 3)
        if (self.depth or self.everywhere) and r.random() < 0.35:
            test = r.choice([f"{a}.max() > t", f"{a}[0] < {b}[0]", "k % 2 == 0", f"{a}.sum() > 4", "i > 2"])
            leaves = self.depth > 0 and r.random() < 0.45
            inner = self.block(r.randint(0 if leaves else 1, 2))
            if self.everywhere and r.random() < 0.12:
                leaves = True
                inner.append(Statement(f"return {self.parts(self.wanted)}" if r.random() < 0.8 else "return None"))
            elif leaves:
                inner.append(Statement(r.choice(["break", "break", "continue"])))
            made = [Statement(f"if {test}:", inner)]
            if not leaves and r.random() < 0.3:
                made.append(Statement("else:", self.block(r.randint(1, 2))))
            return [s if s.line != "else:" else Statement(s.line, s.body) for s in made]
        match r.randrange(14):
            case 0 | 1 | 2:
                return [Statement(f"{a}[{self.place()}] += {r.choice(['0.5', '1', '-1', f'{b}[0]'])}")]
            case 3:
                return [Statement(f"{a} *= 0.5"), Statement(f"{a} -= {a} % 0.5")]
            case 4:
                return [Statement(f"{a}[1:] = {b}[:-1]")]
            case 5:
                return [Statement(f"{a} %= 16")]
            case 6:
                return [Statement(f"{a} = np.roll({a}, 1)")]
            case 7:
                return [Statement(f"{a} = {b} + {r.choice(['1', c, '0.5'])}"), Statement(f"{a} %= 32")]
            case 8:
                return [Statement(f"{a}, {b} = {b}, {a}")]
            case 9:
                return [Statement(f"{a} = {b}")]
            case 10:
                return [Statement(f"{a} = {b}.copy()")]
            case 11:
                return [Statement(f"{a} = {r.choice([a, b])}[::-1]")]
            case 12:
                return [Statement(f"{a}, {b}, {c} = {b}, {c}, {a}")]
            case _:
                return [Statement("k += 1")]


def branching(seed: int) -> Case:
    """The program of this seed, which branches and returns anywhere."""
    return rebinding(seed, everywhere=True)


def rebinding(seed: int, *, everywhere: bool = False) -> Case:
    """The program of this seed."""
    body = Writer(seed, everywhere=everywhere).function()
    vectors = ["np.array([0.5, 2, -1, 3])", "np.array([1, 1, 0.5, -2, 4, 0])", "np.array([3, -3.5, 1])"]
    calls = [
        ([vector, "np.array([x, x + 2])", str(n), str(t)], list[str]())
        for vector, n, t in zip([*vectors, vectors[0], vectors[1]], (6, 3, 7, 0, 11), (3, 5.5, -1, 2, 100), strict=True)
    ]
    return Case("import numpy as np", ["x", "M", "n", "t"], body, calls)


def handing(seed: int) -> Case:
    """A small loop of this seed, which does little but change arrays and hand them on."""
    r = random.Random(seed)
    names = "abcd"
    shared = [f"{n} = {r.choice(names[:k] + 'x')}" if k else "a = x" for k, n in enumerate(names)]
    own = ["a = x.copy()", "b = x * 2", "c = x + 1", "d = x[::-1] * 3"]
    body = [Statement(f"{n} = M[{k % 2}]" if r.random() < 0.1 else r.choice([s, o, o, o]), fixed=True)
            for k, (n, s, o) in enumerate(zip(names, shared, own, strict=True))]  # fmt: skip

    def hand(deep: int = 0) -> list[Statement]:
        a, b, c = r.sample(names, 3)
        match r.randrange(13 if deep < 2 else 10):
            case 0 | 1 | 2:
                return [Statement(f"{a}[{r.choice(['0', '1', 'k % 3'])}] += {r.choice(['1', 'k', '0.5'])}")]
            case 3 | 4 | 5 | 6:
                return [Statement(f"{a} = {b}")]
            case 7:
                return [Statement(f"{a} = {b} + {r.choice(['1', c])}"), Statement(f"{a} %= 64")]
            case 8:
                return [Statement(f"{a}, {b} = {b}, {a}") if r.random() < 0.6 else Statement(f"{a}, {b} = {b}, {c}")]
            case 9:
                return [Statement(r.choice([f"{a} = {b}[::-1]", f"{a} = {b}.reshape(len({b}))", f"{a} = {b}.copy()"]))]
            case 10:
                return [
                    Statement(
                        f"if {a}[0] > {r.choice(['t', '4', '40'])}:", [Statement(r.choice(["break", "continue"]))]
                    )
                ]
            case 11:
                inner = [s for _ in range(r.randint(1, 2)) for s in hand(deep + 1)]
                return [Statement(f"if {r.choice([f'{a}[0] > {b}[0]', 'k % 2', 'k > 2', f'{a}.sum() > t'])}:", inner)]
            case _:
                inner = [s for _ in range(r.randint(1, 2)) for s in hand(2)]
                return [Statement(f"for j in range({r.choice(['3', '5', '12'])}):", inner)]

    loop = [s for _ in range(r.randint(2, 5)) for s in hand()]
    if r.random() < 0.5:
        body += [Statement("for k in range(n):", loop)]
    else:
        body += [Statement("k = 0", fixed=True), Statement("while k < n:", [Statement("k += 1", fixed=True), *loop])]
    after = [s for _ in range(r.randint(0, 1)) for s in hand(2)]
    body += [*([Statement("k = 1", fixed=True)] * bool(after)), *after, Statement("return a, b, c, d", fixed=True)]
    vectors = ["np.array([0.5, 2, -1, 3])", "np.array([3, -3.5, 1])"]
    calls = [
        ([vector, "np.array([x, x + 2])", n, t], list[str]())
        for vector, n, t in (
            (vectors[0], "20", "5"),
            (vectors[1], "3", "-1"),
            (vectors[0], "0", "2"),
            (vectors[0], "31", "1e9"),
        )
    ]
    return Case("import numpy as np", ["x", "M", "n", "t"], body, calls)


def held(seed: int) -> Case:
    """The program of this seed with some of its variables in objects: attributes, items of lists, values of dicts, and
    variables that a function within it binds.
    """
    made = rebinding(seed, everywhere=seed % 2 > 0)
    r = random.Random(seed)
    places = {n: r.choice(PLACES).format(n, m) for m, n in enumerate((*NAMES, "k")) if r.random() < 0.6}
    makes = ["s = S()", "w = W()", "d = {n: None for n in 'abck'}", "q = [None] * 4", "e = [[None] * 4]"]
    body = [Statement(line, fixed=True) for line in makes]
    if "k" not in places:
        bump = [Statement("nonlocal k"), Statement("k += 1")]
        body += [Statement("k = 0", fixed=True), Statement("def bump():", bump, fixed=True)]
    if r.random() < 0.3:  # another way to the same
        body.append(Statement("s, d, q = (z := (s, d, q))", fixed=True))
    return Case(HOLDERS, made.parameters, [*body, *_in_places(made.body, places)], made.calls)


def _in_places(statements: list[Statement], places: Mapping[str, str]) -> list[Statement]:
    return [
        Statement(_placed(s.line, places), _in_places(s.body, places) if s.body else s.body, fixed=s.fixed)
        for s in statements
    ]


def _placed(line: str, places: Mapping[str, str]) -> str:
    if line == "k += 1" and "k" not in places:
        return "bump()"
    return re.sub(r"\b[abck]\b", lambda found: places.get(found[0], found[0]), line)
