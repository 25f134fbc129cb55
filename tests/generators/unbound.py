"""Functions in which a name is bound on a condition that data decide, and used in some way afterwards."""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

VALUES = ("1.0", "1", "np.float64(2)", "x[1]", "n[0]", "x * 2", "2 * n[0]")
USES = (
    "w + x.sum()", "x * w", "w * 2", "2 - w", "-w", "abs(w)", "w > 0", "w == 1", "np.sin(w)", "np.maximum(w, x)",
    "x[w]",
    "x[:w]", "max(w, 1)", "min(x[0], w)", "float(w)", "int(w)", "(w, x[0])", "[w]", "w if x[1] > 5 else 0.0",
    "0 if w > 0 else 1", "not w", "helper(w)", "np.array([w, 1])", "np.full(3, w)", "x.sum() + (w if True else 0)",
    "w ** 2", "np.where(x > 0, w, 0)", "w // 1", "divmod(w, 2)", "w % 2", "w + w", "round(w)", "sum([w, 1])",
    "np.float32(w)", "w < 1 < x[1]", "x.clip(0, w)", "np.zeros(3) + w", "math.sqrt(w)", "x @ (x * w)",
    "np.stack([x, x * w])", "isinstance(w, int)", "w is None", "w in (1, 2)",
)  # fmt: skip
STATEMENTS = (
    "x[0] = w", "x += w", "x[w] = 3", "for k in range(w): x[k] += 1", "while w < 3: w += 1", "if w > 0: x[1] = 5",
    "w += 1", "y = w\n    x += y", "out = [w]\n    x += out[0]", "d = {'a': w}\n    x += d['a']",
    "t = (w, 1)\n    x += t[0]", "for k in range(3): x[k] = w", "for k in range(3):\n        if x[k] > 1: x[k] = w",
    "assert w > 0", "w, v = 2, w\n    x += v",
)  # fmt: skip
BINDINGS = (
    "    if x[0] < 0:\n        w = {}\n", "    for j in range(n[1]):\n        w = {}\n",
    "    if x[0] < 0:\n        w = {}\n    else:\n        x[1] += 1\n",
)  # fmt: skip
"""What binds the name: on one side of a branch, in a loop that may have no iteration."""


def programs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Texts and functions of an array and two integers."""
    for value, use, binding in itertools.product(VALUES, (*USES, *STATEMENTS), BINDINGS):
        end = f"    return {use}\n" if use in USES else f"    {use}\n    return x\n"
        text = f"def f(x, n):\n{binding.format(value)}{end}"
        name = f"<unbound {hash(text)}>"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        space: dict[str, Any] = {"np": np, "math": math, "__name__": "unbound", "helper": lambda v: v * 3}
        exec(compile(text, name, "exec"), space)
        yield text, space["f"]


ARGUMENTS = ((-1.0, 2), (1.0, 0), (-1.0, 2))
"""The first element, and how many iterations: with a value, without, with one again."""
