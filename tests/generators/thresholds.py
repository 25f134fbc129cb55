"""Small arrays treated as large ones: what the compiler does only where there is much to do,
it does for the arrays of random programs.

Tiles, tasks, folds, privatised columns, pieces found by halves, values that are stored rather than computed twice: each
begins at a size that a program made of small arrays would never reach.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__all__ = ["lowered"]

THRESHOLDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "tracejit.ir.passes.product": {"LEAST_WORK": (1, 8, 64)},
    "tracejit.ir.passes.groups": {"WRITE_OUT": (0, 2), "WRITE_OUT_COLUMNS": (0, 2)},
    "tracejit.ir.passes.compose": {"MANY": (4, 16)},
    "tracejit.ir.passes.composer": {"KEEP_ROW_COST": (0.0, 2.0, 100.0)},
    "tracejit.ir.passes.elements": {"MANY": (4, 16), "MANY_PIECES": (2, 4)},
    "tracejit.ir.passes.fuse": {
        "CHEAP": (0.0, 100.0), "MAX_OPERATIONS": (3, 12, 4000), "MOST_PLACES": (1, 3), "SMALL_PART": (0, 1, 100),
    },
    "tracejit.ir.passes.group_rules": {"BESIDE_SCATTER": (0.0, 100.0), "MAX_OPERATIONS": (3, 12, 4000)},
    "tracejit.ir.passes.fusion_rules": {
        "AGAIN_COST": (0.0, 4.0, 1000.0), "ROOM": (1, 100), "PACK_COST": (0.0, 1000.0), "FEW": (1, 4), "SMALL": (1, 16),
    },
    "tracejit.ir.passes.tiles": {"STRIP": (1, 3), "PACKED": (2, 16), "SEPARATE_COST": (0.0, 1000.0)},
    "tracejit.ir.passes.cut": {"MOST_POINTS": (1, 16)},
    "tracejit.autotune.heuristic": {
        "CHUNK_COST": (1.0, 8.0, 60.0), "JAM": (0, 2, 16), "LARGE": (1, 256), "COLUMNS": (2, 16), "FOLD": (1, 2, 8),
        "FEW_CHUNKS": (1, 8),
    },
    "tracejit.autotune.rating": {"MOST_ONE_BY_ONE": (8, 100_000)},
    "tracejit.autotune.products": {
        "NEAR": (64, 512), "FAR": (64, 1024), "CACHED": (8, 256), "REUSE": (1, 100), "FEW_ROWS": (1, 6),
        "ONE_BLOCK": (1, 6), "NARROW": (4, 16), "TASK": (1, 64, 512), "STREAM": (4, 64), "ROWS": (1, 2),
    },
}  # fmt: skip


@contextmanager
def lowered(seed: int) -> Generator[dict[str, Any]]:
    """Some thresholds, drawn by the seed, are set so that small arrays pass them.  Gives their names and values."""
    r = random.Random(seed)
    often = r.random()
    before: list[tuple[Any, str, Any]] = []
    chosen: dict[str, Any] = {}
    for module, names in THRESHOLDS.items():
        holder = import_module(module)
        for name, values in names.items():
            value = r.choice(values)
            if r.random() < often:
                before.append((holder, name, getattr(holder, name)))
                setattr(holder, name, value)
                chosen[name] = value
    try:
        yield chosen
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)
