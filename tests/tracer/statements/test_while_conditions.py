"""Conditions of a `while` that are Python's bool on one way and NumPy's on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj


def left_by_a_counter(x):
    total = 0
    for k in range(100):
        i = 0
        while x[i] > 0:
            i += 1
            if i >= len(x):
                break
            total += k
        x[k % len(x)] *= -0.5
    return total


def left_by_a_number(x):
    s, n = 0.3, 0
    for _ in range(100):
        while s < x[0]:
            s += 1
            if s > 2:
                break
            n += 1
        s -= 0.5
    return s, n


def left_twice(x):
    c = 0
    for k in range(60):
        going = True
        while going and x[k % 5] > c:
            c += 1
            if c % 7 == 0:
                break
            going = c < 9
    return c


def components(heads, edges):
    """Tarjan's numbers of a graph, depth first with a stack of its own."""
    n = len(heads) - 1
    order, stack, at = np.full(n, -1), np.zeros(n, np.int64), heads[:-1].copy()
    count = 0
    for root in range(n):
        if order[root] >= 0:
            continue
        top = 0
        stack[0] = root
        order[root] = count
        count += 1
        while top >= 0:
            v = stack[top]
            found = -1
            while at[v] < heads[v + 1]:
                w = edges[at[v]]
                at[v] += 1
                if order[w] < 0:
                    found = w
                    break
            if found < 0:
                top -= 1
            else:
                top += 1
                stack[top] = found
                order[found] = count
                count += 1
    return order


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (left_by_a_counter, [np.array([1.0, 2.0, 3.0, -1.0, 5.0])]),
        (left_by_a_counter, [np.array([1.0, 2.0])]),
        (left_by_a_number, [np.array([5.0])]),
        (left_by_a_number, [np.array([1.2])]),
        (left_twice, [np.array([1.0, 20.0, 3.0, -1.0, 5.0])]),
        (components, [np.array([0, 2, 3, 3, 5, 5, 6]), np.array([1, 3, 2, 4, 0, 5])]),
    ],
)
def test_a_while_left_by_break_in_another_loop(f: Callable[..., Any], arguments: list[Any]):
    ours, numpys = [a.copy() for a in arguments], [a.copy() for a in arguments]
    got, expected = tj.jit(f)(*ours), f(*numpys)
    np.testing.assert_allclose(got, expected, rtol=1e-13)
    for a, b in zip(ours, numpys, strict=True):
        np.testing.assert_array_equal(a, b)
