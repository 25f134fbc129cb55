"""Sequences of calls of one compiled function with arguments of many sizes and memory orders.

The function has a few random expressions over arrays whose extents are two numbers, so it is compiled for the first
sizes, then with symbolic extents, and again where 0, 1 or equal extents need it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tracejit as tj
from tests.generators.expressions import SCALARS, Expressions, Node, again, spelled, values, wrong
from tests.generators.harness import Tally, loaded, outcome, refused
from tests.generators.templates import ALL, Template
from tracejit.support.nodes import define

__all__ = ["Sequence", "laid_out", "sequence", "vanishing", "verdict"]

SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 9]
LARGE = [15, 16, 17, 31, 33, 64, 65, 100]
ORDERS = ["C", "C", "C", "C", "F", "reversed", "strided", "offset", "unaligned", "repeated", "read-only"]


DERIVED = [
    Template("part", text, ">")
    for text in (
        "{a}[:{a}.shape[0] // 2]", "{a}[{a}.shape[0] // 2:]",
        "{a}[1:-1]", "{a}[1:]", "{a}[:-1]", "{a}[2:]", "{a}[..., :{a}.shape[-1] // 2]",
        "{a}[..., 1:-1]", "{a}[..., 1:]", "{a}[:, {a}.shape[1] // 3:]", "{a}[:{a}.shape[0] // 3]", "{a}[::2]",
        "{a}[{a}.shape[0] % 2:]", "{a}[:-1, 1:]", "{a}[:{b}.shape[0]]",
    )
]  # fmt: skip
"""Parts whose extents follow from the arguments': they may be 0 or 1 where those are not."""


def shapes(n: int, m: int) -> list[tuple[int, ...]]:
    """The shapes of the arguments at a size."""
    return [(n,), (n,), (m,), (n, m), (n, m), (m, n), (n, n), (1, m), (n, 1), (), (2, n, m)]


def laid_out(a: Any, order: str) -> Any:
    """The values in another memory order; "repeated" has the first row only, again and again."""
    if not a.ndim:
        return a
    match order:
        case "F":
            return np.asfortranarray(a)
        case "reversed":
            return a[::-1].copy()[::-1]
        case "strided":
            wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
            wide[..., ::2] = a
            return wide[..., ::2]
        case "offset":
            long = np.zeros((a.shape[0] + 1, *a.shape[1:]), a.dtype)
            long[1:] = a
            return long[1:]
        case "unaligned":
            memory = np.zeros(a.nbytes + 1, np.uint8)
            made = memory[1:].view(a.dtype).reshape(a.shape)
            made[...] = a
            return made
        case "repeated":
            return np.broadcast_to(a[:1], a.shape)
        case "read-only":
            a = a.copy()
            a.flags.writeable = False
            return a
        case _:
            return np.ascontiguousarray(a)


@define(eq=False)
class Sequence:
    """A function of a few expressions and the sizes and orders of its calls."""

    seed: int
    names: list[str]
    dtypes: list[str]
    nodes: list[Node]
    calls: list[tuple[int, int, list[str], int]]

    def text(self) -> str:
        return (
            f"def f({', '.join(self.names)}):\n    return [\n"
            + "".join(f"        {n.text},\n" for n in self.nodes)
            + "    ]\n"
        )

    def arguments(self, call: tuple[int, int, list[str], int]) -> dict[str, Any]:
        n, m, orders, seed = call
        rng = np.random.default_rng(seed)
        made: dict[str, Any] = {}
        for name, shape, dtype, order in zip(self.names, shapes(n, m), self.dtypes, orders, strict=False):
            made[name] = laid_out(values(rng, shape, dtype), order)
        return made | {k: eval(v) for k, v in SCALARS.items()}


def sequence(seed: int, count: int = 100, expressions: int = 5) -> Sequence:
    """The sequence of this seed."""
    r = random.Random(seed)
    first = r.choice([(3, 5), (5, 3), (4, 4), (2, 6), (5, 5), (3, 2), (8, 3)])
    drawing = Expressions(seed, 3 * expressions, shapes(*first), 3)
    if seed % 2:
        drawing.derive(DERIVED, 24)
    drawn = drawing.group()
    nodes = [n for n in drawn.nodes if n.error is None and _needs(n)][:expressions]
    dtypes = [drawn.arguments[f"a{k}"].dtype.str[1:] for k in range(len(shapes(1, 1)))]
    sizes = [first]
    for _ in range(count - 1):
        n = r.choice(SMALL if r.random() < 0.8 else LARGE)
        m = n if r.random() < 0.25 else r.choice(SMALL if r.random() < 0.8 else LARGE)
        sizes.append((n, m) if r.random() < 0.8 else r.choice(sizes))
    calls: list[tuple[int, int, list[str], int]] = []
    for n, m in sizes:
        if len(calls) > 30 and r.random() < 0.7:  # a call like an earlier one: most of them find their version
            n, m, orders, _ = r.choice(calls)
        else:
            orders = ["C"] * len(dtypes) if r.random() < 0.6 else [r.choice(ORDERS) for _ in dtypes]
        calls.append((n, m, orders, r.randrange(2**32)))
    return Sequence(seed, drawn.names, dtypes, nodes, calls)


VANISHING = [
    Template("part", text, ">")
    for text in (
        "{a}[:{a}.shape[0] // 3]",
        "{a}[2:]",
        "{a}[1:-1]",
        "{a}[..., 2:]",
        "{a}[..., :{a}.shape[-1] // 3]",
        "{a}[2::2]",
    )
]
"""Parts that have no elements where the arguments have a few."""
SELECTED = [
    Template("part", text, ">")
    for text in (
        "{a}[{a} > 1]",
        "{a}[{a} == {a}.max(initial=0)]",
        "{a}[np.flatnonzero({a}.ravel()[:{a}.shape[0]] > 2)]",
        "{a}[{a}.ravel()[:{a}.shape[0]] > 2]",
        "{a}[({a} > -2) & ({a} < 2)]",
        "{a}[np.arange({a}.shape[0]) > 2]",
        "{a}.compress(np.arange({a}.shape[0]) % 3 == 2, 0)",
    )
]
"""Parts that are as long as the values say."""


def vanishing(seed: int) -> Sequence:
    """One function after the other, of parts that have elements in the first calls, and none in a later one."""
    r = random.Random(seed)
    template = ALL[seed % len(ALL)]
    first = r.choice([(7, 9), (9, 8), (8, 8)])
    drawing = Expressions(seed, 1, shapes(*first), 3)
    drawing.derive(SELECTED if seed // len(ALL) % 2 else VANISHING, 40)
    drawing.pool = [n for n in drawing.pool if n.depth]
    nodes: list[Node] = []
    with np.errstate(all="ignore"):
        for _ in range(60):
            node = drawing.draw([template])
            if node is not None and node.error is None and node.value.size < 400 and len(nodes) < 2:
                nodes.append(node)
    dtypes = [drawing.arguments[f"a{k}"].dtype.str[1:] for k in range(len(shapes(1, 1)))]
    sizes = [
        first,
        (10, 7),
        (2, 2),
        (1, 8),
        (9, 3),
        (2, 7),
        (8, 2),
        (3, 1),
        (0, 4),
        (4, 0),
        (1, 1),
        (2, 3),
    ]
    calls = [(n, m, ["C"] * len(dtypes), r.randrange(2**32)) for n, m in sizes]
    return Sequence(seed, drawing.names, dtypes, nodes, calls)


def _needs(node: Node) -> bool:
    """Whether an argument is in it."""
    return any(o.depth == 0 or _needs(o) for o in node.operands.values())


def verdict(made: Sequence, tally: Tally | None = None, only: list[Node] | None = None) -> tuple[Node, int, str] | None:
    """The first wrong result: (expression, call, what)."""
    nodes = made.nodes if only is None else only
    text = Sequence(made.seed, made.names, made.dtypes, nodes, []).text()
    jitted = tj.jit(loaded(text, tj)["f"])
    for k, call in enumerate(made.calls):
        arguments = made.arguments(call)
        again(nodes, arguments)
        got = outcome(jitted, list(arguments.values()))
        if tally is not None:
            tally.calls += 1
        failing = next((n for n in nodes if n.error is not None), None)
        if got.error is not None:
            if failing is not None:
                continue
            if refused(got.error):
                if tally is not None:
                    tally.refuse(got.error)
                if len(nodes) > 1:  # one of them is not there for this size: look at each alone
                    for node in nodes:
                        found = verdict(made, tally, [node])
                        if found:
                            return found
                    return None
                continue
            return nodes[0], k, f"{type(got.error).__name__}: {got.error}"
        # a NumPy scalar has fewer methods, and compiled code does not warn
        if failing is not None and failing.error in ("ZeroDivisionError", "AttributeError", "RuntimeWarning"):
            continue
        if failing is not None:
            return failing, k, f"no exception where NumPy has {failing.error}"
        for node, result in zip(nodes, got.result, strict=True):
            what = wrong(result, None, node, tally)
            if what:
                return node, k, what
    return None


def alone(made: Sequence, node: Node, call: int, what: str) -> str:
    """A program of one expression and the fewest calls, found by leaving out the ones before."""
    made = Sequence(made.seed, made.names, made.dtypes, [node], made.calls[: call + 1])
    for n in range(call - 1, -1, -1):
        fewer = Sequence(made.seed, made.names, made.dtypes, [node], made.calls[:n] + made.calls[n + 1 :])
        found = verdict(fewer)
        if found and found[1] == len(fewer.calls) - 1:
            made = fewer
    used = [n for n in made.names if n in node.text]
    lines = [
        f"# {what}",
        "import numpy as np, tracejit as tj",
        f"f = lambda {', '.join(used)}: {node.text}",
        "jitted = tj.jit(f)",
    ]
    for c in made.calls:
        arguments = made.arguments(c)
        texts = [spelled(arguments[n]) for n in used]
        lines.append(f"# orders {[c[2][made.names.index(n)] for n in used if n in made.names[: len(c[2])]]}")
        lines.append(f"for g in (f, jitted): print(g({', '.join(texts)}))")
    return "\n".join(lines)
