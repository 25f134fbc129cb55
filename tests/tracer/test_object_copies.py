"""copy.copy and copy.deepcopy of objects from outside read what the objects hold at each call."""

import copy
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.tree import flatten


class Layer:
    def __init__(self) -> None:
        self.w = np.arange(1.0, 5)
        self.k = 1
        self.parts = [np.ones(4), 2]
        self.below: Any = None


class Slots:
    __slots__ = ("b", "k")

    def __init__(self) -> None:
        self.b = np.ones(4)
        self.k = 2


def attribute(layer: Layer, slots: Slots, x: Any) -> Any:
    return x + copy.deepcopy(layer).w


def filled(layer: Layer, slots: Slots, x: Any) -> Any:
    mine = deepcopy(layer)
    mine.w += x
    mine.parts[0][1] = x[0]
    return x * mine.k, mine.w, mine.parts[0], mine.below.w * x, mine.parts[1] * x


def shallow(layer: Layer, slots: Slots, x: Any) -> Any:
    mine = copy.copy(layer)
    return x * mine.k, x * mine.w, x * mine.below.w


def in_containers(layer: Layer, slots: Slots, x: Any) -> Any:
    mine = copy.deepcopy({"layer": layer, "list": [layer.w, x]})
    mine["list"][0][1] = 7  # the array of the object, too
    mine["list"][1][0] = -1
    return mine["layer"].w + x, mine["list"]


def with_memo(layer: Layer, slots: Slots, x: Any) -> Any:
    memo: dict[int, Any] = {}
    mine, again = deepcopy(layer, memo), deepcopy(layer.below, memo)
    again.w[0] = 5
    return mine.below.w * x


def of_slots(layer: Layer, slots: Slots, x: Any) -> Any:
    return x * copy.deepcopy(slots).k, x * deepcopy(slots).b.sum(), x * copy.copy(slots).k


@pytest.mark.parametrize("function", [attribute, filled, shallow, in_containers, with_memo, of_slots])
def test_copies_of_objects(function: Callable[..., Any]):
    layer, slots = Layer(), Slots()
    layer.below = Layer()

    def f(x: Any) -> Any:
        return function(layer, slots, x)

    jitted = tj.jit(f)
    x = np.arange(4.0)
    for n in range(4):
        got, want = jitted(x.copy()), f(x.copy())
        for g, w in zip(flatten(got)[0], flatten(want)[0], strict=True):
            np.testing.assert_array_equal(g, w)
        layer.w += 1
        layer.k += 1
        layer.parts[0] += n
        layer.parts[1] += 1
        layer.below.w += 2
        slots.b += 1
        slots.k += 1
        if n == 2:
            layer.below = Layer()
