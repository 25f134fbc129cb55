"""Random functions of many kernels that are alike: they differ in constants (which column, from where on) and stand
between what cannot be fused with them.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

BARRIERS = ("np.sort({})", "np.cumsum({})", "np.argsort({}, kind='stable')", "{}[::-1].cumsum()")
"""What takes one vector and is a kernel or a loop of its own."""


class Writer:
    """Writes one function of an array of n rows and few columns, that of a vector as long, and a small number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.columns = self.random.choice([1, 2, 2, 2, 3, 4])
        self.complex = self.random.random() < 0.25

    def function(self) -> str:
        r = self.random
        lines, results = ["def f(p, v, k):"], []
        pattern = self.pattern()
        for m in range(r.randint(2, 6)):
            if r.random() < 0.3:
                pattern = self.pattern()
            text = pattern.format(**{name: r.randrange(self.columns) for name in ("a", "b")}, s=r.randrange(4))
            if r.random() < 0.7:
                text = r.choice(BARRIERS).format(f"({text})")
            lines.append(f"    t{m} = {text}")
            results.append(f"t{m}")
            if r.random() < 0.3:
                lines.append(f"    p[{r.randrange(3)}:, {r.randrange(self.columns)}] += {r.randrange(1, 3)}")
        if r.random() < 0.4:
            a, b = r.randrange(self.columns), r.randrange(self.columns)
            lines.append(f"    o = np.lexsort((p[:, {a}], p[:, {b}]))")
            results.append("o")
        return "\n".join([*lines, f"    return p, {', '.join(results)}"]) + "\n"

    def pattern(self) -> str:
        return self.random.choice([
            "p[:, {a}]", "p[:, {a}] + 0", "p[{s}:, {a}] * 2", "p[:, {a}] - p[:, {b}]", "p[{s}:, {a}][::-1]",
            "p[:len(p) - {s}, {a}]", "np.roll(p[:, {a}], {s})", "p.T[{a}] * v", "v[{s}:] + {s}", "p[::2, {a}]",
            "np.where(p[:, {a}] == k, p[:, {b}], v)", "np.pad(v, ({s}, 1))", "p.ravel()[{s}:]", "p[:, {a}] @ v + v",
            "p[:, {a}:].sum(1)", "v + np.arange(len(v)) * {s}",
        ])  # fmt: skip

    def arguments(self, n: int, seed: int) -> tuple[Any, ...]:
        g = np.random.default_rng(seed)
        p = g.integers(-4, 5, (n, self.columns)) * 0.5
        dtype = np.dtype(self.random.choice(["f4", "f8", "f8", "i8", "i4"]))
        if self.complex:
            p, dtype = p + 1j * g.integers(-4, 5, p.shape), np.dtype(np.complex128)
        return p.astype(dtype), g.integers(-4, 5, n).astype(dtype), 2


def function_of(seed: int) -> tuple[Callable[..., Any], str, Writer]:
    """A function that a seed gives, its text, and what gives its arguments."""
    writer = Writer(seed)
    text = writer.function()
    name = f"<alike {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"np": np, "__name__": "alike"}
    exec(compile(text, name, "exec"), space)
    return space["f"], text, writer
