"""Random programs as people write them: loops, branches, copies, views, in-place writes, aliases, helpers,
state from outside.

A program is Python source.  Floating-point values stay small multiples of a power of two where their order of addition
matters, so every result is compared to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.generators.harness import Case, Statement
from tracejit.support.nodes import define

__all__ = ["program"]

Shape = tuple[int, ...]
KEYS = "zbaycx"  # of dicts that are returned

# What gives a new array of the same values; {x} is any array, {n} its first extent, {shape} its shape.
COPIES = [
    "{x}.copy()", "np.copy({x})", "np.array({x})", "np.array({x}, copy=True)", "{x}.astype({x}.dtype)", "+{x}",
    "np.positive({x})", "{x} * 1", "{x} + 0", "{x} - 0", "{x} ** 1", "{x} // 1", "np.conjugate({x})",
    "np.concatenate([{x}])", "np.concatenate([{x}, {x}[:0]])", "np.roll({x}, 0, axis=0)", "np.tile({x}, 1)",
    "np.pad({x}, 0)", "np.append({x}, {x}[:0], axis=0)", "np.delete({x}, [], axis=0)", "np.repeat({x}, 1, axis=0)",
    "{x}.repeat(1, axis=0)", "np.take({x}, np.arange({n}), axis=0)", "{x}[np.arange({n})]", "{x}[list(range({n}))]",
    "np.where(True, {x}, 0)", "np.clip({x}, -99, 99)", "{x}.clip(-99, 99)", "np.minimum({x}, 99)",
    "np.maximum({x}, -99)", "np.stack([{x}])[0]", "np.flip(np.flip({x})).copy()", "{x}.flatten().reshape({shape})",
    "np.nan_to_num({x})", "copy.copy({x})", "copy.deepcopy({x})", "np.round({x}, 2)", "np.vstack([{x}[None]])[0]",
    "np.hstack([{x}])", "np.broadcast_to({x}, {shape}).copy()", "np.ascontiguousarray({x}).copy()",
    "{x}.copy(order='F')", "np.array({x}, order='F')", "np.where({x} == {x}, {x}, {x})", "-(-{x})",
    "np.zeros_like({x}) + {x}", "{x}.T.copy().T", "np.full_like({x}, 0) + {x}", "np.select([{x} == {x}], [{x}])",
    "np.add({x}, np.zeros({shape}, {x}.dtype))", "np.resize({x}, {shape})",
]  # fmt: skip
# What gives the array itself or a view of it, whatever its memory order.
VIEWS = [
    "{x}[:]", "{x}[...]", "np.asarray({x})", "np.asanyarray({x})", "{x}.reshape({shape})", "np.reshape({x}, {shape})",
    "np.squeeze({x}[None])", "np.atleast_1d({x})", "{x}[None][0]", "np.expand_dims({x}, 0)[0]", "np.transpose({x}.T)",
    "{x}.T.T", "np.moveaxis({x}, 0, 0)", "np.swapaxes({x}, 0, 0)", "{x}.real", "{x}.conj()",
    "np.real({x})", "np.split({x}, 1)[0]", "np.array_split({x}, 1)[0]",
    "{x}[::-1][::-1]", "np.flip({x}, 0)[::-1]", "{x}.astype({x}.dtype, copy=False)", "np.array({x}, copy=None)",
    "{x}.squeeze()", "np.rollaxis({x}, 0)", "np.array({x}, copy=False)",
    "{x}.swapaxes(0, -1).swapaxes(0, -1)", "np.flipud(np.flipud({x}))",
]  # fmt: skip
# Which of the two it is depends on the memory order.
EITHER = [
    "np.ravel({x}).reshape({shape})", "{x}.ravel().reshape({shape})", "{x}.reshape(-1).reshape({shape})",
    "np.ascontiguousarray({x})", "np.asfortranarray({x})", "{x}.ravel(order='F').reshape({shape}, order='F')",
    "{x}.ravel('K').reshape({shape})", "{x}.reshape(-1, order='F').reshape({shape}, order='F')",
    "{x}.reshape({shape}, order='A')", "{x}.T.reshape(-1).reshape({shape})", "np.asarray({x}, order='C')",
    "np.asarray({x}, order='F')",
]  # fmt: skip

HELPERS = """\
import copy


def bump(a):
    a += 1
    return a


def halves(a):
    return a[:2], a[2:]


def first_to_last(a):
    t = a.copy()
    t[-1] = a[0]
    a[0] = t[1]
    return t


def smoothed(a, rounds=2):
    for _ in tj.range(rounds):
        old = a.copy()
        a[1:-1] = (old[:-2] + old[2:]) % 8
    return a


def swapped(a):
    a[0], a[1] = a[1], a[0]
    return a[::-1]


def reset(a, value=2):
    a[...] = value


def twice(f, a):
    return f(f(a))


def adder(a):
    def add(b):
        a[:1] += b[:1]
        return a[:1] + 0

    return add


class Box:
    def __init__(self, a):
        self.a = a
        self.b = a.copy()

    def step(self):
        self.a[0] += self.b[-1] % 5
        self.b = self.a.copy()
        return self.b


RATE = 2
TABLE = np.arange(6)
STATE = {"step": 1, "limits": [3, 5]}
"""
CHANGES = [
    "RATE = {n}", "TABLE[{i}] = {n}", "TABLE = np.arange(6) + {n}", 'STATE["step"] = {n}', 'STATE["limits"][0] = {n}',
    "TABLE += 1",
]  # fmt: skip


@define(eq=False)
class Name:
    """A variable: its shape, whether its elements are integers, the function that binds it."""

    name: str
    shape: Shape
    integer: bool
    owner: int
    writable: bool = True


class Programs:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[Name] = []
        self.counters: list[tuple[str, int]] = []
        self.made = 0
        self.owner = 0
        self.functions = 0
        self.depth = 0
        self.traced_loops = 0

    # -- drawing -------------------------------------------------------------------------------------------------------
    def of(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def fresh(self, prefix: str = "t") -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def add(self, name: str, shape: Shape, integer: bool, writable: bool = True) -> None:
        self.names.append(Name(name, shape, integer, self.owner, writable))

    def array(self, accept: Callable[[Name], bool] = lambda n: True) -> Name:
        found = [n for n in self.names if n.shape and accept(n)]
        return self.of(found or [n for n in self.names if n.shape])

    # -- reading -------------------------------------------------------------------------------------------------------
    def cut(self, have: int, want: int) -> str:
        """A slice of `want` out of `have`."""
        ways = []
        if have == want:
            ways += [":", "::-1", ":"]
        for start in range(have - want + 1):
            ways.append(f"{start or ''}:{start + want if start + want < have or self.chance(0.3) else ''}")
            if start:
                ways.append(f"{start - have}:{start + want - have if start + want < have else ''}")
        if (have + 1) // 2 == want:
            ways.append("::2")
        if have // 2 == want:
            ways.append("1::2")
        return self.of(ways)

    def place(self, n: int) -> str:
        fitting = [c for c, most in self.counters if most <= n]
        if fitting and self.chance(0.6):
            c = self.of(fitting)
            return self.of([c, c, f"-1 - {c}", f"({c} + 1) % {n}"])
        return str(self.random.randrange(-n, n))

    def read(self, shape: Shape) -> tuple[str, bool]:
        """An array of this shape in terms of one variable: (text, of integers)."""
        for _ in range(12):
            v = self.of(self.names)
            text = self.part(v, shape)
            if text:
                return text, v.integer
        if not shape:
            return str(self.random.randrange(5)), True
        return f"np.full({shape}, {self.random.randrange(5)})", True

    def part(self, v: Name, shape: Shape) -> str | None:
        x, s = v.name, v.shape
        if s == shape and self.chance(0.6):
            return x
        if not shape:
            if len(s) == 1:
                return f"{x}[{self.place(s[0])}]"
            return f"{x}[{self.place(s[0])}, {self.place(s[1])}]" if s else x
        if not s:
            return None
        if len(shape) == 1:
            (k,) = shape
            ways: list[str] = []
            if len(s) == 1 and s[0] >= k:
                ways += [f"{x}[{self.cut(s[0], k)}]"] * 4
            elif len(s) == 2:
                if s[1] >= k:
                    ways.append(f"{x}[{self.place(s[0])}, {self.cut(s[1], k)}]")
                    ways.append(f"{x}[{self.place(s[0])}][{self.cut(s[1], k)}]")
                if s[0] >= k:
                    ways.append(f"{x}[{self.cut(s[0], k)}, {self.place(s[1])}]")
                    ways.append(f"{x}.T[{self.place(s[1])}][{self.cut(s[0], k)}]")
                if min(s) >= k:
                    ways.append(f"{x}.diagonal()[{self.cut(min(s), k)}]")
                if s[0] * s[1] >= k:
                    flat = self.of([".ravel()", ".reshape(-1)", ".flatten()", ".T.ravel()"])
                    ways.append(f"{x}{flat}[{self.cut(s[0] * s[1], k)}]")
            return self.of(ways) if ways else None
        p, q = shape
        ways = []
        if len(s) == 2:
            if s[0] >= p and s[1] >= q:
                ways += [f"{x}[{self.cut(s[0], p)}, {self.cut(s[1], q)}]"] * 2
            if s[1] >= p and s[0] >= q:
                ways.append(f"{x}.T[{self.cut(s[1], p)}, {self.cut(s[0], q)}]")
                ways.append(f"{x}[{self.cut(s[0], q)}, {self.cut(s[1], p)}].T")
        elif s[0] >= p * q:
            ways.append(f"{x}[{self.cut(s[0], p * q)}].reshape({p}, {q})")
        if len(s) == 1 and s[0] >= q and self.chance(0.3):
            ways.append(f"np.broadcast_to({x}[{self.cut(s[0], q)}], ({p}, {q}))")
        return self.of(ways) if ways else None

    def value(self, shape: Shape, depth: int = 2) -> tuple[str, bool]:
        """An expression of this shape: (text, of integers)."""
        if depth == 0 or self.chance(0.25):
            return self.read(shape)
        match self.random.randrange(13):
            case 0 | 1 | 2 | 3:
                a, i = self.value(shape, depth - 1)
                b, j = self.value(self.of([shape, shape, shape, shape[-1:], ()]), depth - 1)
                op = self.of(["+", "-", "+", "-", "*"])
                return f"({a} {op} {b})", i and j
            case 4:
                a, i = self.value(shape, depth - 1)
                return f"({a} {self.of(['+', '-', '*'])} {self.random.randrange(4)})", i
            case 5:
                a, _ = self.value(shape, depth - 1)
                return f"({self.of(['0.5', '0.25', '1.5'])} * {a})", False
            case 6:
                (a, i), (b, j) = self.value(shape, depth - 1), self.value(shape, depth - 1)
                c, _ = self.value(shape, depth - 1)
                return f"np.where({c} > {self.random.randrange(4)}, {a}, {b})", i and j
            case 7:
                (a, i), (b, j) = self.value(shape, depth - 1), self.value(shape, depth - 1)
                return f"np.{self.of(['maximum', 'minimum'])}({a} + 0, {b} + 0)", i and j
            case 8:
                a, i = self.value(shape, depth - 1)
                return f"{self.of(['abs', '-', 'np.square', 'np.negative'])}({a})", i
            case 9 if shape:
                a, i = self.value(shape, depth - 1)
                way = self.of(
                    ["np.roll({}, 1, axis=0)", "np.cumsum(np.rint({} % 8), axis=0)", "{}[::-1]", "np.flip({}, 0)"]
                )
                return way.format(f"({a})"), i and "rint" not in way
            case 10 if shape:
                other, i = self.value((3, *shape) if len(shape) == 1 else (shape[0], shape[1], 2)[:2], depth - 1)
                if len(shape) == 1:
                    return self.of([f"np.sum(np.rint({other} % 8), axis=0)", f"np.max({other} % 9, axis=0)"]), False
                return f"({other})", i
            case 11 if shape == ():
                a, i = self.value(self.of([(4,), (2, 3), (3,)]), depth - 1)
                way = self.of(
                    [
                        "np.sum(np.rint(({}) % 8))",
                        "({}).max()",
                        "np.min({})",
                        "np.argmax({})",
                        "np.rint(({}) % 8).mean()",
                    ]
                )
                return way.format(a), way == "np.argmax({})" or (i and ("max()" in way or "min" in way))
            case 12 if len(shape) == 2:
                (a, _), (b, _) = self.value((shape[0], 3), depth - 1), self.value((3, shape[1]), depth - 1)
                return f"(np.rint({a} % 5) @ np.rint({b} % 5))", False
            case _:
                return self.read(shape)

    def small(self, shape: Shape, integer: bool | None = None, depth: int = 2) -> str:
        """An expression whose values stay small, of integers if asked."""
        text, i = self.value(shape, depth)
        bounded = self.of([f"({text}) % 7", f"np.clip({text}, -9, 9)", f"({text}) % 8", f"np.minimum({text}, 9) % 16"])
        return f"np.rint({bounded}).astype(np.int64)" if integer and not i else bounded

    # -- statements ----------------------------------------------------------------------------------------------------
    def like(self, form: str, v: Name, x: str | None = None) -> str:
        return form.format(x=x or v.name, n=v.shape[0], shape=v.shape)

    def copied(self) -> list[Statement]:
        v, t = self.array(), self.fresh()
        text = self.like(self.of(COPIES), v)
        self.add(t, v.shape, v.integer and not text.startswith("np.round"))
        self.names[-1].integer = v.integer
        return [Statement(f"{t} = {text}")]

    def viewed(self) -> list[Statement]:
        v, t = self.array(), self.fresh()
        if self.chance(0.35):
            text = self.like(self.of(VIEWS), v)
            shape = v.shape
        elif self.chance(0.3):
            text, shape = self.like(self.of(EITHER), v), v.shape
        else:
            shape = self.of([(2,), (3,), (4,), (2, 2), (2, 3), v.shape, v.shape[::-1]])
            text = self.part(v, shape) or self.like("{x}[:]", v)
            if text == self.like("{x}[:]", v):
                shape = v.shape
        self.add(t, shape, v.integer, v.writable and "diagonal" not in text and "broadcast_to" not in text)
        return [Statement(f"{t} = {text}")]

    def computed(self) -> list[Statement]:
        t, shape = self.fresh(), self.of([(6,), (4,), (4, 4), (2, 3), (3,), (6,), (4, 4)])
        integer = self.chance(0.5)
        text = self.small(shape, integer)
        self.add(t, shape, integer or text.startswith("np.rint"), writable=True)
        self.names[-1].integer = integer
        return [Statement(f"{t} = {text}" if integer else f"{t} = {text} * 1.0")]

    def aliased(self) -> list[Statement]:
        v, t = self.array(), self.fresh()
        self.add(t, v.shape, v.integer, v.writable)
        return [Statement(f"{t} = {v.name}")]

    def target(self) -> tuple[str, Shape, Name]:
        """Something that can be assigned to: (text, its shape, the variable)."""
        v = self.array(lambda n: n.writable)
        x, s = v.name, v.shape
        if len(s) == 1:
            (n,) = s
            if self.chance(0.2):
                return f"{x}[{self.place(n)}]", (), v
            k = self.of([n, n, max(1, n - 1), max(1, n - 2), (n + 1) // 2])
            if self.chance(0.15) and n > 2:
                return f"{x}[1:][{self.cut(n - 1, 2)}]", (2,), v
            if self.chance(0.1) and n > 2:
                return f"{x}[{self.of(['[0, 2]', 'np.array([1, 0])', '[-1, 1]'])}]", (2,), v
            return f"{x}[{self.cut(n, k) if k < n else self.of([':', '...', '::-1'])}]", (k,), v
        p, q = s
        match self.random.randrange(9):
            case 0:
                return f"{x}[{self.place(p)}]", (q,), v
            case 1:
                return f"{x}[:, {self.place(q)}]", (p,), v
            case 2:
                return f"{x}[{self.place(p)}, {self.place(q)}]", (), v
            case 3:
                k = self.of([max(1, q - 1), q])
                return f"{x}.T[{self.cut(q, k)}]", (k, p), v
            case 4:
                return f"{x}[[1, 0]]", (2, q), v
            case 5:
                return f"{x}[..., {self.cut(q, q - 1)}]", (p, q - 1), v
            case 6 if self.chance(0.5):
                k = self.of([2, 3])
                return f"{x}{self.of(['.ravel()', '.reshape(-1)'])}[{self.cut(p * q, k)}]", (k,), v
            case _:
                a, b = self.of([p, p - 1]) or 1, self.of([q, q - 1]) or 1
                return f"{x}[{self.cut(p, a)}, {self.cut(q, b)}]", (a, b), v

    def written(self) -> list[Statement]:
        text, shape, v = self.target()
        op = self.of(["=", "=", "+=", "-="])
        from_ = self.of([shape, shape, shape, shape[-1:], ()])
        return [Statement(f"{text} {op} {self.small(from_, v.integer)}")]

    def masked(self) -> list[Statement]:
        v = self.array(lambda n: n.writable)
        return [
            Statement(
                f"{v.name}[{v.name} > {self.random.randrange(6)}] {self.of(['=', '='])} {self.random.randrange(4)}"
            )
        ]

    def augmented(self) -> list[Statement]:
        v = self.array(lambda n: n.writable)
        x = v.name if v.owner == self.owner else f"{v.name}[...]"
        op = self.of(["+=", "-=", "+=", "*=", "%="])
        if op in ("*=", "%="):
            return [Statement(f"{x} {op} {2 if op == '*=' else 7}"), Statement(f"{x} %= 32")]
        return [Statement(f"{x} {op} {self.small(self.of([v.shape, v.shape[-1:], ()]), v.integer)}")]

    def called(self) -> list[Statement]:
        """Functions and methods that change an array."""
        v = self.array(lambda n: n.writable)
        x = v.name
        match self.random.randrange(8):
            case 0:
                return [Statement(f"{x}.fill({self.random.randrange(5)})")]
            case 1:
                return [Statement(f"np.copyto({x}, {self.small(v.shape, v.integer)})")]
            case 2 if len(v.shape) == 2:
                return [Statement(f"np.fill_diagonal({x}, {self.random.randrange(5)})")]
            case 3 if len(v.shape) == 1 and v.shape[0] > 2:
                return [Statement(f"np.add.at({x}, np.array([0, 1, 0]), {self.random.randrange(5)})")]
            case 4:
                return [Statement(f"np.clip({x}, 0, {self.random.randrange(2, 9)}, out={x})")]
            case 5:
                a, b = self.small(v.shape, v.integer, 1), self.small(v.shape, v.integer, 1)
                return [
                    Statement(
                        f"np.{self.of(['add', 'subtract', 'maximum'])}({a}, {b}, out={self.of([x, x + '[...]'])})"
                    )
                ]
            case 6:
                a = self.small(v.shape, v.integer, 1)
                t = self.fresh()
                self.add(t, v.shape, v.integer)
                return [Statement(f"{t} = np.subtract({a}, 1, out={x})")]
            case _:
                a = self.small(v.shape, v.integer, 1)
                return [Statement(f"np.add({x}, {a}, out={x})"), Statement(f"{x}[...] = {x} % 9")]

    def swap(self) -> list[Statement]:
        v = self.array(lambda n: n.writable and n.shape[0] >= 2)
        x, n = v.name, v.shape[0]
        if n < 2:
            return self.written()
        i, j = self.place(n), self.place(n)
        w = self.array(lambda o: o.shape == v.shape and o.integer == v.integer and o.owner == self.owner == v.owner)
        forms = [
            f"{x}[{i}], {x}[{j}] = {x}[{j}], {x}[{i}]",
            f"{x}[1:] = {x}[:-1]",
            f"{x}[:-1], {x}[1:] = {x}[1:], {x}[:-1]",
        ]
        if w.shape == v.shape and w.owner == v.owner == self.owner and w.integer == v.integer and not self.counters:
            forms.append(f"{x}, {w.name} = {w.name}, {x}")
        return [Statement(self.of(forms))]

    def rebound(self) -> list[Statement]:
        v = self.array(lambda n: n.owner == self.owner and n.writable)
        if v.owner != self.owner or (self.traced_loops and not self.chance(0.05)):
            return self.written()
        form = self.of(["{e}", "{c}", "{x}"])
        if form == "{c}":
            return [Statement(f"{v.name} = {self.like(self.of(COPIES), v)}")]
        if form == "{x}":
            w = self.array(lambda o: o.shape == v.shape and o.integer == v.integer)
            if w.shape == v.shape and w.integer == v.integer:
                return [Statement(f"{v.name} = {w.name}.astype({v.name}.dtype)")]
        return [
            Statement(f"{v.name} = ({self.small(v.shape, v.integer)} + np.zeros({v.shape})).astype({v.name}.dtype)")
        ]

    def helped(self) -> list[Statement]:
        v, t = self.array(lambda n: n.writable), self.fresh()
        x, n = v.name, v.shape[0]
        one = len(v.shape) == 1 and n >= 3
        forms: list[tuple[str, Shape | None]] = [
            (f"{t} = bump({x})", v.shape),
            (f"reset({x})", None),
            (f"{t} = twice(bump, {x})", v.shape),
        ]
        if one:
            forms += [
                (f"{t} = first_to_last({x})", v.shape), (f"{t} = smoothed({x})", v.shape),
                (f"{t} = swapped({x})", v.shape), (f"{t} = halves({x})[0]", (2,)), (f"{t} = adder({x})({x}[1:])", (1,)),
                (f"{t} = Box({x}).step()", v.shape), (f"{t} = smoothed({x}[::-1], 3)", v.shape),
            ]  # fmt: skip
        text, shape = self.of(forms)
        if shape:
            self.add(t, shape, v.integer)
        return [Statement(text)]

    def outer(self) -> list[Statement]:
        t = self.fresh()
        v = self.array(lambda n: n.writable)
        table = self.of(["TABLE", "TABLE.copy()", "TABLE[::-1]", "np.array(TABLE)", "TABLE % 5"])
        match self.random.randrange(4):
            case 0:
                self.add(t, (6,), True, "copy" in table or "array" in table or "%" in table)
                return [Statement(f"{t} = {table}")]
            case 1:
                return [Statement(f"{v.name}[{self.place(v.shape[0])}] += RATE")]
            case 2:
                return [Statement(f'{v.name}[{self.place(v.shape[0])}] = STATE["step"] + STATE["limits"][0]')]
            case _:
                return [
                    Statement('if STATE["step"] > 2 or RATE == 3:', self.block(1, 2)),
                    Statement("else:", self.block(1, 1)),
                ] if self.chance(0.5) else [Statement(f"if {v.name}.shape[0] > RATE:", self.block(1, 2))]  # fmt: skip

    # -- blocks --------------------------------------------------------------------------------------------------------
    def block(self, least: int, most: int) -> list[Statement]:
        """Statements whose new names end with the block."""
        kept = list(self.names)
        made: list[Statement] = []
        for _ in range(self.random.randint(least, most)):
            made += self.statement()
        self.names = kept
        return made

    def looped(self) -> list[Statement]:
        i, n = self.fresh("i"), self.of([1, 2, 3, 3, 4])
        self.counters.append((i, n))
        self.depth += 1
        kind = self.of(["tj.range", "tj.range", "tj.range", "range"])
        self.traced_loops += kind == "tj.range"
        before = len(self.names)
        body = self.block(1, 4)
        carried: list[Statement] = []
        t, v = "", self.names[0]
        if self.chance(0.4 if kind == "range" else 0.03):  # a name bound before and anew in the loop
            t = self.fresh()
            v = self.array()
            carried = [Statement(f"{t} = {self.like(self.of(COPIES), v)}")]
            after = self.like(self.of(COPIES), v, self.of([t, v.name]))
            body += (
                [Statement(f"{t} = ({after} + {self.of([t, v.name])}) % 8")]
                if self.chance(0.6)
                else [Statement(f"{t} = {after}")]
            )
        self.depth -= 1
        self.traced_loops -= kind == "tj.range"
        self.counters.pop()
        del self.names[before:]
        if carried:
            self.add(t, v.shape, v.integer)
        start = self.of(["", "", "", "1, "]) if n > 1 else ""
        return [*carried, Statement(f"for {i} in {kind}({start}{n}):", body)]

    def inside(self, least: int, most: int) -> tuple[list[Statement], int]:
        """The body of a nested function."""
        self.functions += 1
        outer, self.owner = self.owner, self.functions
        self.depth += 1
        body = self.block(least, most)
        self.depth -= 1
        self.owner = outer
        return body, self.functions

    def fori(self) -> list[Statement]:
        f, i, c, t, n = self.fresh("body"), self.fresh("i"), self.fresh("c"), self.fresh(), self.of([1, 2, 3, 4])
        v = self.array()
        init = self.of([v.name, self.like(self.of(COPIES), v)])
        kept = list(self.names)
        self.functions += 1
        outer, self.owner = self.owner, self.functions
        self.depth += 1
        self.add(c, v.shape, v.integer)
        self.counters.append((i, n))
        body = self.block(1, 3)
        result = f"({self.small(v.shape, v.integer)} + 0 * {v.name}).astype({c}.dtype)" if self.chance(0.6) else c
        self.counters.pop()
        self.depth -= 1
        self.owner, self.names = outer, kept
        body.append(Statement(f"return {result}", fixed=True))
        self.add(t, v.shape, v.integer)
        if self.chance(0.3):
            k = self.fresh("n")
            test = f"lambda s: s[0] < {n}"
            step = Statement(f"def step_{f}(s):", [Statement(f"return s[0] + 1, {f}(s[0], s[1])", fixed=True)])
            return [
                Statement(f"def {f}({i}, {c}):", body),
                step,
                Statement(f"{k}, {t} = tj.lax.while_loop({test}, step_{f}, (0, {init}))"),
            ]
        return [Statement(f"def {f}({i}, {c}):", body), Statement(f"{t} = tj.lax.fori_loop(0, {n}, {f}, {init})")]

    def branched(self) -> list[Statement]:
        yes, no, t = self.fresh("yes"), self.fresh("no"), self.fresh()
        v = self.array()
        flag, _ = self.value((), 1)
        made: list[Statement] = []
        operands = self.chance(0.4)
        p = self.fresh("p")
        for f in (yes, no):
            kept = list(self.names)
            self.functions += 1
            outer, self.owner = self.owner, self.functions
            self.depth += 1
            if operands:
                self.add(p, v.shape, v.integer)
            body = self.block(0 if operands else 1, 2)
            result = f"({self.small(v.shape, v.integer)} + 0 * {v.name}).astype({v.name}.dtype)"
            result = self.of(
                [result, result, self.like(self.of(COPIES), v, p if operands else None), p if operands else v.name]
            )
            self.depth -= 1
            self.owner, self.names = outer, kept
            body.append(Statement(f"return {result}", fixed=True))
            made.append(Statement(f"def {f}({p if operands else ''}):", body))
        self.add(t, v.shape, v.integer)
        return [
            *made,
            Statement(
                f"{t} = tj.lax.cond({flag} > {self.random.randrange(4)}, {yes}, "
                f"{no}{', ' + v.name if operands else ''})"
            ),
        ]

    def closure(self) -> list[Statement]:
        f, t = self.fresh("g"), self.fresh()
        v = self.array(lambda n: n.writable)
        body, _ = self.inside(1, 2)
        body.append(
            Statement(
                f"return {self.of([v.name, self.like(self.of(COPIES), v), self.like('{x}[::-1]', v)])}", fixed=True
            )
        )
        self.add(t, v.shape, v.integer)
        calls = [Statement(f"{t} = {f}()")] + ([Statement(f"{f}()")] if self.chance(0.3) else [])
        return [Statement(f"def {f}():", body), *calls]

    def statement(self) -> list[Statement]:
        kinds: list[tuple[Callable[[], list[Statement]], float]] = [
            (self.copied, 5), (self.viewed, 4), (self.computed, 2), (self.aliased, 1), (self.written, 9),
            (self.masked, 0.7), (self.augmented, 4), (self.called, 2), (self.swap, 1.5), (self.rebound, 1.5),
            (self.helped, 2), (self.outer, 1),
        ]  # fmt: skip
        if self.depth < 3:
            deep = 1.0 if not self.depth else 0.4
            kinds += [
                (self.looped, 4 * deep),
                (self.fori, 2 * deep),
                (self.branched, 1.5 * deep),
                (self.closure, 1 * deep),
            ]
        return self.random.choices([k for k, _ in kinds], [w for _, w in kinds])[0]()

    # -- the whole -----------------------------------------------------------------------------------------------------
    def results(self) -> str:
        parts: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            v = self.of(self.names)
            forms = (
                ["{x}", "{x}", "{x}"]
                if not v.shape
                else ["{x}", "{x}", "{x}[::-1]", "{x}.T", "{x} * 2", "{x}.copy()", "{x}.ravel()"]
            )
            parts.append(self.of(forms).format(x=v.name))
        recent = [n.name for n in self.names[-3:]]
        parts += recent
        if self.chance(0.2):
            return "{" + ", ".join(f"{k!r}: {p}" for k, p in zip(KEYS, parts, strict=False)) + "}"
        return f"{', '.join(parts)},"

    def program(self) -> Case:
        kinds = [self.of(["i8", "i8", "f8", "f8", "i4", "f4"]) for _ in range(4)]
        if self.chance(0.5):
            kinds = [kinds[0]] * 4
        shapes: list[Shape] = [(6,), (6,), (4, 4), (2, 3)]
        parameters = ["x", "y", "m", "r", "k"]
        for name, shape, kind in zip(parameters, shapes, kinds, strict=False):
            self.add(name, shape, kind[0] == "i")
        self.add("k", (), True)
        body: list[Statement] = []
        for _ in range(self.random.randint(3, 8)):
            body += self.statement()
        body.append(Statement(f"return {self.results()}", fixed=True))
        calls: list[tuple[list[str], list[str]]] = []
        layouts = [self.of(LAYOUTS[len(s)]) for s in shapes]
        for n in range(self.random.choice([2, 2, 3])):
            if self.chance(0.3):
                layouts = [self.of(LAYOUTS[len(s)]) for s in shapes]
            texts = [self.argument(s, k, y) for s, k, y in zip(shapes, kinds, layouts, strict=True)]
            if n and kinds[0] == kinds[1] and self.chance(0.3):
                texts[1] = "x"
            texts.append(str(self.random.randrange(4)))
            changes = [
                c.format(n=self.random.randrange(6), i=self.random.randrange(6))
                for c in CHANGES
                if n and self.chance(0.2)
            ]
            calls.append((texts, changes))
        return Case(HELPERS, parameters, body, calls)

    def argument(self, shape: Shape, kind: str, layout: str) -> str:
        values = np.array([self.random.randrange(-2, 7) for _ in range(int(np.prod(shape)))]).reshape(shape).tolist()
        return layout.format(f"np.array({values}, '{kind}')")


LAYOUTS = {
    1: ["{}", "{}", "{}", "{}[::-1]", "np.repeat({}, 2)[::2]", "np.append({0}, {0})[3:9]"],
    2: [
        "{}",
        "{}",
        "{}",
        "np.asfortranarray({})",
        "{}[::-1]",
        "np.repeat({}, 2, axis=1)[:, ::2]",
        "np.repeat({}, 2, axis=0)[1::2]",
    ],
}


def program(seed: int) -> Case:
    """The program of this seed."""
    return Programs(seed).program()
