"""Functions of one element that decide by it, mapped by `vmap`: values and derivatives.

An element is a vector x, a number a and an integer n; w and TABLE are shared.  Branches guard what is only defined
behind them (roots, logarithms, quotients, rows of a table), loops end only because of what stands around them.  The
oracle is Python, one element after the other; that of derivatives are central differences.
"""

from __future__ import annotations

import random
import textwrap
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tracejit as tj
from tests.generators.harness import Tally, loaded, refused
from tracejit.support.nodes import define

__all__ = ["Mapped", "alone", "mapped", "verdict"]

STEP = 1e-6
# (condition, what is defined behind it: a number, a vector)
GUARDS = [
    ("a > 0", "np.sqrt(a)", "x * np.log(a)"),
    ("a > 0.25", "1 / (a - 0.2)", "x / (a - 0.2)"),
    ("n > 0", "np.sqrt(n * 1.0)", "x * np.log(n)"),
    ("n != 0", "w / n", "x / n"),
    ("0 <= n < 4", "TABLE[n]", "TABLE[n] * x"),
    ("0 <= n < 3", "x[n]", "x[n] * x"),
    ("a * a < 1", "np.sqrt(1 - a * a)", "np.arccos(a) * x"),
    ("x[0] > 0", "np.log(x[0])", "x * np.sqrt(x[0])"),
    ("x.sum() > 0.5", "x.sum()", "x / x.sum()"),
    ("np.abs(a) < 5", "np.exp(a)", "x * np.exp(a)"),
]
NUMBERS = [
    "a * w",
    "a + 0.3",
    "np.sin(a)",
    "x.sum() * 0.2",
    "x[1] - a",
    "(x * x).sum() * w",
    "w",
    "a * 0.5 + n * 0.1",
    "x @ TABLE[:3]",
]
VECTORS = [
    "x * w",
    "x + a",
    "np.cos(x)",
    "x[::-1] * 0.5",
    "np.roll(x, 1)",
    "x * TABLE[1:]",
    "np.outer(x, x) @ x * 0.1",
    "np.cumsum(x) * 0.5",
    "x - x.sum() * w",
]
# loops that never end where the guard does not hold, and change n or a only
ENDLESS = [
    ("n != 0", "while n % 2 == 0:", "n = n // 2"),
    ("a > 0", "while a < 3:", "a = a * 2"),
    ("n > 0", "while n < 9:", "n = n + n"),
]


@define(eq=False)
class Mapped:
    """The source of `f(x, a, n, w)`, and whether it has a derivative in reverse."""

    text: str
    reverse: bool
    seed: int


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"mapped {seed}")
        self.endless = False

    def one(self, choices: Any) -> Any:
        return self.random.choice(choices)

    def simple(self, guard: Any = None) -> str:
        if self.random.random() < 0.5:
            found = guard[1] if guard and self.random.random() < 0.7 else self.one(NUMBERS)
            return f"a = {found}"
        found = guard[2] if guard and self.random.random() < 0.7 else self.one(VECTORS)
        return self.one(
            [
                f"x = {found}",
                f"x = x + {found}",
                "x = x.copy()\nx[1:] += 0.1 * a",
                f"y = {found}\nx = 0.5 * x + 0.25 * y",
            ]
        )

    def block(self, depth: int, guard: Any = None, loop: bool = False) -> str:
        parts = [self.statement(depth, guard, loop) for _ in range(self.one([1, 1, 2, 2, 3]))]
        return "\n".join(parts)

    def statement(self, depth: int, guard: Any, loop: bool) -> str:
        kind = self.random.random()
        if depth == 0 or kind < 0.3:
            return self.simple(guard)
        if kind < 0.6:
            g = self.one(GUARDS)
            text = f"if {g[0]}:\n" + textwrap.indent(self.block(depth - 1, g, loop), "    ")
            if self.random.random() < 0.3:
                e = self.one(GUARDS)
                text += f"\nelif {e[0]}:\n" + textwrap.indent(self.block(depth - 1, e, loop), "    ")
            if self.random.random() < 0.4:
                text += "\nelse:\n" + textwrap.indent(self.block(depth - 1, None, loop), "    ")
            return text
        if kind < 0.7:
            g, head, step = self.one(ENDLESS)
            self.endless = True
            inner = f"{step}\n{self.one(['', 'x = x * 0.9', 'x = x + 0.1 * a', 'x = x * w'])}".rstrip()
            after = self.one(["", "x = x * n * 0.1", "a = a + n * 0.1"])
            return f"if {g}:\n    {head}\n" + textwrap.indent(inner, " " * 8) + (f"\n    {after}" if after else "")
        if kind < 0.85:
            k = self.one("ijk")
            body = self.block(depth - 1, None, True)
            if self.random.random() < 0.5:
                leave = self.one(["break", "continue"])
                body += f"\nif {self.one(GUARDS)[0]}:\n    {leave}\n{self.simple()}"
            return f"for {k} in range({self.one([2, 3])}):\n" + textwrap.indent(body, "    ")
        if kind < 0.92:
            g = self.one(GUARDS)
            return f"if {g[0]}:\n    return x * 0.5 + {g[1]}"
        return f"{self.one(['a', 'a'])} = {self.one(NUMBERS)} if {self.one(GUARDS)[0]} else {self.one(NUMBERS)}"


def mapped(seed: int) -> Mapped:
    """A random function."""
    writer = _Writer(seed)
    body = writer.block(3) + "\n" + writer.block(2)
    result = writer.one(["x * a", "x + a * w", "np.sin(x) + np.cos(a)"])
    text = "TABLE = np.array([0.5, -1.25, 2.0, 0.75])\n\n\ndef f(x, a, n, w):\n"
    text += textwrap.indent(f"{body}\nreturn {result}", "    ") + "\n"
    return Mapped(text, not writer.endless, seed)


def _arguments(seed: int, size: int) -> tuple[Any, ...]:
    numbers = np.random.default_rng(seed)
    return (
        numbers.uniform(-1, 1.5, (size, 3)),
        numbers.choice([-1.3, -0.4, 0.35, 0.8, 2.2, 0.0], size) + numbers.uniform(0, 0.02, size),
        numbers.choice([-6, -1, 0, 1, 2, 3, 4, 12], size),
        0.7,
    )


def _python(f: Callable[..., Any], x: Any, a: Any, n: Any, w: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([f(x[k].copy(), float(a[k]), int(n[k]), w) for k in range(len(a))]).reshape(len(a), 3)


def _slopes(f: Callable[..., Any], args: tuple[Any, ...], v: tuple[Any, ...]) -> Any:
    """(those along v, how much they differ from ones of a wider step)"""
    found = []
    for h in (STEP, 2 * STEP):
        up, down = (_python(f, args[0] + s * v[0], args[1] + s * v[1], args[2], args[3] + s * v[2]) for s in (h, -h))
        found.append((up - down) / (2 * h))
    return found[0], np.abs(found[0] - found[1])


def verdict(made: Mapped, tally: Tally) -> tuple[int, str] | None:
    """(elements, what differs) of the first wrong answer."""
    space = loaded(made.text)
    plain, f = loaded(made.text, source=False)["f"], space["f"]
    every = tj.vmap(f, in_axes=(0, 0, 0, None))
    jitted = tj.jit(every)
    with np.errstate(all="ignore"):
        for size in (4, 4, 5, 1, 6):
            args = _arguments(made.seed * 10 + size, size)
            try:
                want = _python(plain, *args)
                x, a, n, w = args
                near = _python(plain, x * (1 + 1e-14), a * (1 - 1e-14), n, w)
            except IndexError:
                tally.calls += 1
                if not _raises_index_error(jitted, args):
                    return size, "jit(vmap) does not raise IndexError, which an element does"
                continue
            ways = {"jit(vmap)": jitted} if size != 4 else {"jit(vmap)": jitted, "vmap": every}
            for name, way in ways.items():
                tally.calls += 1
                try:
                    got = np.asarray(way(*args))
                except Exception as error:
                    if not refused(error):
                        return size, f"{name} raises {error!r}"
                    tally.refusals[str(error).split("\n")[0]] += 1
                    return None
                allowed = 1e-11 + 1e-9 * np.abs(want) + 100 * np.abs(near - want)  # as rounding may grow
                far = ~(np.abs(got - want) <= allowed) & ~(np.isnan(got) & np.isnan(want)) & (got != want)
                if got.shape != want.shape or far.any():
                    return size, f"{name}: {got}, not {want}"
        return _derivatives(made, f, plain, every, tally)


def _raises_index_error(function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        function(*args)
    except IndexError:
        return True
    return False


def _derivatives(made: Mapped, f: Any, plain: Any, every: Any, tally: Tally) -> tuple[int, str] | None:
    for size in (5, 2):
        args = _arguments(made.seed * 10 + 7 + size, size)
        numbers = np.random.default_rng(made.seed)
        v = numbers.uniform(-1, 1, (size, 3)), numbers.uniform(-1, 1, size), 0.5
        c = numbers.uniform(0.5, 1.5, (size, 3))
        try:
            want, doubt = _slopes(plain, args, v)
        except IndexError:
            continue
        most = np.max(np.abs(want))
        if not np.isfinite(want).all() or np.max(doubt) > 1e-5 or most > 1e6:
            continue  # at a jump or a kink
        for name, run in _transformed(f, every, args, v, c, made.reverse):
            tally.calls += 1
            try:
                got = np.asarray(run())
            except Exception as error:
                if not refused(error):
                    return size, f"{name} raises {error!r}"
                tally.refusals[str(error).split("\n")[0]] += 1
                continue
            wanted = (c * want).sum() if name == "jit(grad(vmap))" else want
            if not np.allclose(got, wanted, rtol=1e-5, atol=3e-5 * size * (1 + most)):
                return size, f"{name}: {got}, not {wanted}"
    return None


def _transformed(
    f: Any, every: Any, args: tuple[Any, ...], v: tuple[Any, ...], c: Any, reverse: bool
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to the derivative along v, the last weighted by c and summed."""
    x, a, n, w = args

    def forward(x: Any, a: Any, w: Any, *v: Any) -> Any:
        return tj.jvp(lambda x, a, w: every(x, a, n, w), (x, a, w), v)[1]

    def by_element(x: Any, a: Any, n: Any, w: Any, *v: Any) -> Any:
        return tj.jvp(lambda x, a, w: f(x, a, n, w), (x, a, w), v)[1]

    def total(x: Any, a: Any, w: Any) -> Any:
        return (c * every(x, a, n, w)).sum()

    def backward() -> Any:
        slopes = tj.jit(tj.grad(total, (0, 1, 2)))(x, a, w)
        return sum(np.sum(np.asarray(g) * t) for g, t in zip(slopes, v, strict=True))

    yield "jit(jvp(vmap))", lambda: tj.jit(forward)(x, a, w, *v)
    yield "jit(vmap(jvp))", lambda: tj.jit(tj.vmap(by_element, in_axes=(0, 0, 0, None, 0, 0, None)))(*args, *v)
    if reverse:
        yield "jit(grad(vmap))", backward


def alone(made: Mapped, size: int, what: str) -> str:
    """A find as text."""
    return f"{made.text}\n# {size} elements: {what}"
