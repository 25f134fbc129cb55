"""Which group runs after which is kept as sets of bits: they say what a walk over the stored values finds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.passes import fuse


def reachable(fuser: Any, start: int) -> set[int]:
    seen, stack = {start}, [start]
    while stack:
        for v in fuser.nodes[stack.pop()].outputs:
            new = {g for c in fuser.consumers.get(v, ()) for g in fuser.groups_of[c]} - seen
            seen |= new
            stack += new
    return seen - {start}


def program(seed: int, x: Any, y: Any) -> list[Any]:
    """Arrays and numbers made of one another, most of them used several times."""
    r = random.Random(seed)
    made = [x, y, x[:, :1], y.sum(0)]
    for _ in range(40):
        a, b = r.choice(made[-9:]), r.choice(made)
        made.append(
            r.choice(
                [
                    lambda a, b: a * 0.5 + b,
                    lambda a, b: np.tanh(a) - b,
                    lambda a, b: a - a.mean(),
                    lambda a, b: np.maximum(a, b).sum(-1, keepdims=True),
                    lambda a, b: np.cumsum(a, -1) * b,
                    lambda a, b: np.roll(a, 1, -1) + b,
                    lambda a, b: a / (1.0 + np.abs(b).max()),
                ]
            )(a, b)
        )
    return [m.sum() for m in made[-6:]]


@pytest.mark.parametrize("seed", range(12))
def test_bits_agree_with_a_walk_at_every_question(seed: int, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def downstream(self: Any, start: int, target: int) -> bool:
        asked.append(target)
        assert {g for g in self.nodes if self.after[start] >> g & 1} == reachable(self, start)
        return target in reachable(self, start)

    monkeypatch.setattr(fuse.Fuser, "downstream", downstream)
    x, y = np.random.default_rng(seed).random((2, 6, 6))
    f = tj.jit(lambda x, y: program(seed, x, y))
    for got, want in zip(f(x, y), program(seed, x, y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    assert asked
