"""Random conversions that are stored into parts of arrays: nothing beside the part may change, whatever its length."""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["narrowing"]

WIDE = ["int64", "int32", "int16", "uint64", "uint32", "float64", "float32"]
NARROW = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "bool", "float32", "float16"]
VALUES = ["v", "v * 3", "v % 11", "np.cumsum(v)", "np.where(v > 3, v, 1)", "v[::-1]", "np.abs(v - 4)", "v + s", "v * v"]
LOOPS = [
    ["while s < 3:", "s += 1"],
    ["for j in range(len(c)):", "if c[j] > 100: break"],
    ["for j in range(3):", "c[j:j + n] = v"],
    ["while c[s] < 90 and s < 5:", "s += 1"],
    [],
]


def narrowing(seed: int) -> Case:
    """The program of this seed: lengths are often one more than whole vectors."""
    r = random.Random(seed)
    wide, narrow = r.choice(WIDE), r.choice(NARROW)
    lengths = [r.choice([8, 16, 32]) * r.randint(0, 3) + r.choice([1, 1, 1, 2, 0, 7]) for _ in range(2)]
    static = r.random() < 0.7
    body = [Statement("s = 0", fixed=True), Statement(f"n = {lengths[0]}" if static else "n = len(v)", fixed=True)]
    for _ in range(r.randint(1, 3)):
        start = r.choice(["0", "1", "s", "3"])
        place = r.choice(
            [f"c[{start}:{start} + n]", "c[n - 1::-1]" if lengths[0] else "c[:n]", "m[1, :n]", "m[2, 9:9 + n]"]
        )
        length = "[:n]" if static else ""
        value = r.choice(VALUES).replace("v", f"v{length}")
        if r.random() < 0.2:
            value = f"({value}).astype(np.{narrow})"
        body.append(Statement(f"{place} = {value}"))
    loop = r.choice(LOOPS)
    if loop:
        inner = loop[1].replace("= v", "= v[:n]")
        body.append(Statement(loop[0], [Statement(inner)]))
    body.append(Statement("return c, m, s", fixed=True))
    matrix = r.choice(["(np.arange(390) % 7).reshape(130, 3).T", "(np.arange(390) % 7).reshape(3, 130)"])
    calls = [
        (
            [
                f"np.arange(130).astype(np.{narrow})",
                f"{matrix}.astype(np.{narrow})",
                f"(np.arange({104 if static else length}) * 3 % 13).astype(np.{wide})",
            ],
            list[str](),
        )
        for length in lengths
    ]
    return Case("import numpy as np", ["c", "m", "v"], body, calls)
