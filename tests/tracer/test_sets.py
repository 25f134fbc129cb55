"""Sets from outside: what order their items come in, and which one `pop` takes, is that of the set itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.surroundings import Program, results
from tracejit.support.errors import TracerError


def colliding_items() -> Program:
    items = {1, 9, 17, 33}

    def function(x: Any, k: int) -> Any:
        for one in items:
            x = x * 2 + one
        return x + np.zeros(k).sum()

    def change(i: int) -> None:
        items.discard(9)
        items.add(25 + i)

    return function, change, lambda: list(items)


def what_is_left_of_a_large_set() -> Program:
    items = set(range(200))
    for i in range(200):
        if i not in (3, 64, 130):
            items.discard(i)

    def function(x: Any, k: int) -> Any:
        return x + items.pop()

    def change(i: int) -> None:
        items.update((300 + i, 9 + i * 8, 17))

    return function, change, lambda: list(items)


def a_subclass_and_what_is_made_of_it() -> Program:
    class Items(set[Any]):
        n = 0

    items, others = Items({1, 9, 17, 33}), {5, 13}

    def function(x: Any, k: int) -> Any:
        for one in items - {9} | {41}:
            x = x * 2 + one
        while len(others) > 1:
            found = others.pop()
            x = x * 3 + found
            if found == 5:
                others.add(29)
        items.n += 1
        return x + next(iter(items)) + items.n

    def change(i: int) -> None:
        items.discard(9)
        items.add(25 + i)
        others.update([5, 21 + i])

    return function, change, lambda: (list(items), list(others), items.n)


def work_list() -> Program:
    graph: dict[int, set[int]] = {1: {9, 17}, 9: {33}, 17: {33}, 33: set()}

    def function(x: Any, k: int) -> Any:
        todo, seen = {1}, set[int]()
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                x = x * 2 + node
                todo |= graph[node]
        graph[33].add(k)
        graph[33].discard(k)
        return x

    def change(i: int) -> None:
        graph[33] = {41 + i}
        graph[41 + i] = set()
        graph[1].add(25)
        graph[25] = set()

    return function, change, lambda: [list(v) for v in graph.values()]


@pytest.mark.parametrize("program", [
    colliding_items, what_is_left_of_a_large_set, a_subclass_and_what_is_made_of_it, work_list,
])  # fmt: skip
def test_sets(program: Callable[[], Program]):
    assert results(program, tj.jit) == results(program, lambda function: function)


def test_a_set_that_a_loop_of_the_program_fills_is_told(without_statements: None):
    seen: set[Any] = set()

    @tj.jit
    def fills(x: Any) -> Any:
        x = x.copy()
        for _ in tj.range(3):
            x += 1
            seen.add(7)
        return x

    with pytest.raises(TracerError, match="a set"):
        fills(np.ones(2))
