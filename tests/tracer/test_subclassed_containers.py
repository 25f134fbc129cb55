"""Containers of the user's own classes that hold objects whose class no name leads to."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.surroundings import Program, results


class Slotted(list):  # type: ignore[type-arg]
    __slots__ = ("label",)


class SlottedDict(defaultdict):  # type: ignore[type-arg]
    __slots__ = ("label",)


def holding(base: type, slots: tuple[str, ...] | None = None) -> Callable[[], Program]:
    """A container of a subclass of `base`, made anew with the class of what it holds."""

    def program() -> Program:
        class Item:
            def __init__(self) -> None:
                self.n, self.w = 0, np.ones(1)

        members: dict[str, Any] = {"__module__": __name__, **({} if slots is None else {"__slots__": slots})}
        kind: Any = type("Bank", (base,), members)
        item = Item()
        keyed = issubclass(base, dict)
        bank = kind()
        if keyed:
            bank["s"] = item
        else:
            bank.append(item)
        place = "s" if keyed else 0
        nested = {"inner": [bank]}

        def function(x: Any, k: int) -> Any:
            held = bank[place]
            held.n += 1
            again = nested["inner"][0][place]
            return x * held.n + again.w * again.n + np.zeros(k).sum()

        def change(i: int) -> None:
            item.n += 10 * i
            item.w = item.w + i

        return function, change, lambda: (item.n, item.w.tolist(), bank[place] is item)

    return program


CASES = [
    *[holding(base) for base in (dict, defaultdict, OrderedDict, Counter, list, deque)],
    holding(defaultdict, ()), holding(dict, ()), holding(list, ("label",)), holding(defaultdict, ("label",)),
    holding(Slotted), holding(SlottedDict),
]  # fmt: skip


@pytest.mark.parametrize("program", CASES)
def test_what_they_hold_is_followed(program: Callable[[], Program]):
    assert results(program, tj.jit) == results(program, lambda function: function)


def test_what_is_missing_is_made_at_every_size():
    class Meter:
        def __init__(self) -> None:
            self.n = 0

    class Bank(defaultdict):  # type: ignore[type-arg]
        def __missing__(self, key: str) -> Meter:
            self[key] = made = Meter()
            return made

    bank = Bank()

    def f(x):
        bank["k"].n += x.size
        return x * bank["k"].n

    jitted, total = tj.jit(f), 0
    for size in (2, 2, 2, 3, 3, 1):
        total += size
        np.testing.assert_array_equal(jitted(np.ones(size)), np.full(size, float(total)))
        assert bank["k"].n == total
