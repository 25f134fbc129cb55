"""Loops with a `break` over parts of arrays that are as long as the index of a loop around: one loop of the program."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.config import config


@pytest.fixture(autouse=True)
def _statements(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(config, "statements", True)
    monkeypatch.setattr(config, "unroll", 0)


def seen_to_the_right(h):
    best = 0
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            d = 0
            for w in h[i, j + 1 :]:
                d += 1
                if w >= h[i, j]:
                    break
            best = max(best, d)
    return best


def scenic_score(h):
    best = 0
    for i in range(h.shape[0]):
        for j in range(h.shape[1]):
            height, score = h[i, j], 1
            for trees in (h[i, :j][::-1], h[i, j + 1 :], h[:i, j][::-1], h[i + 1 :, j]):
                d = 0
                for w in trees:
                    d += 1
                    if w >= height:
                        break
                score *= d
            best = max(best, score)
    return best


def next_greater(x):
    found = np.full(len(x), -1.0)
    for i in range(len(x)):
        for y in x[i + 1 :]:
            if y > x[i]:
                found[i] = y
                break
        else:
            found[i] = -2.0
    return found


def stops_before(x):
    count = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        for k, y in enumerate(x[:i]):
            if y * y > x[i]:
                count[i] = k
                break
    return count


FUNCTIONS: list[tuple[Callable[..., Any], int]] = [
    (seen_to_the_right, 2), (scenic_score, 2), (next_greater, 1), (stops_before, 1),
]  # fmt: skip


@pytest.mark.parametrize(("f", "rank"), FUNCTIONS)
@pytest.mark.parametrize("integers", [True, False])
def test_one_loop_for_all_sizes(f: Callable[..., Any], rank: int, integers: bool):
    compiled = tj.jit(f)
    rng = np.random.default_rng(5)
    for size in ((6, 5), (9, 20), (1, 1), (0, 3), (2, 1), (30, 11)):
        x = rng.integers(0, 9, size[:rank]) if integers else rng.standard_normal(size[:rank])
        for _ in range(2):
            np.testing.assert_array_equal(compiled(x), f(x))
    assert "left to Python" not in compiled.explain()


def test_a_loop_that_is_written_out_at_length_is_warned_of_on_the_way():
    """Not only when it has been written out, which may take minutes."""

    def f(q, last):
        k = q.astype(np.int16)
        for i in range(len(q)):
            q[i] = k[i] if i % 2 == 0 else q[i]
            if i == last:
                raise KeyError("never at the end")
        return q

    with pytest.warns(UserWarning, match="is written out to more than 5,000 operations"), pytest.raises(KeyError):
        tj.jit(f, static_argnums=1)(np.arange(1500), 1400)
