"""Functions, and what holds functions, as keys of dicts and items of sets: registries, counters, what was visited."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.surroundings import Program, results


def registries() -> Program:
    scale = [1.0]

    def relu(x: Any) -> Any:
        return np.maximum(x, 0) * scale[0]

    def other(x: Any) -> Any:
        return x

    gains: dict[Any, float] = {relu: 2.0, np.sum: 3.0, np.sin: 4.0, max: 5.0, ("k", relu): 6.0}
    seen: set[Any] = {relu, np.sum}
    frozen = frozenset([relu, 3])

    def function(x: Any, k: int) -> Any:
        y = relu(x) * gains.get(relu, 10.0) + (relu in seen) + 2 * (relu in frozen) + gains.get(np.sum, -1)
        y = y + gains.get(np.sin, -1) + gains.get(max, -1) + (np.sum in seen) + gains.get(("k", relu), -1)
        y = y + gains.get(other, 0) + np.zeros(k).sum()
        for one in seen:
            if one is relu:
                y = y + one(x)
        for one in frozen:
            if callable(one):
                y = y - 2 * one(x)
        return y

    def change(i: int) -> None:
        scale[0] += 1
        gains[relu] += 1
        (seen.discard if i % 2 else seen.add)(np.sum)

    return function, change, lambda: len(gains)


def visited() -> Program:
    seen: set[Any] = set()

    def once(x: Any) -> Any:
        if once in seen:
            return x
        seen.add(once)
        return x * 2

    def function(x: Any, k: int) -> Any:
        return once(x) + np.zeros(k).sum()

    return function, lambda i: seen.clear() if i == 1 else None, lambda: (len(seen), once in seen)


def counters() -> Program:
    counts: Any = collections.Counter()
    calls: Any = collections.defaultdict(list)

    def relu(x: Any) -> Any:
        counts[relu] += 1
        calls[relu].append(counts[relu])
        return np.maximum(x, 0)

    def function(x: Any, k: int) -> Any:
        return relu(relu(x)) + counts[relu] + np.zeros(k).sum()

    def change(i: int) -> None:
        counts[relu] += 10

    return function, change, lambda: (counts[relu], len(counts), calls[relu], len(calls))


def buses() -> Program:
    class Model:
        def __init__(self) -> None:
            self.n = 0
            self.bus: set[Any] = {self.update}
            self.weights: dict[Any, float] = {self.update: 1.0}

        def update(self, x: Any) -> Any:
            self.n += 1
            return x + self.n

        def leave(self) -> None:
            self.bus.discard(self.update)
            self.weights.pop(self.update, None)

        def join(self) -> None:
            self.bus.add(self.update)
            self.weights[self.update] = 1.0

        def run(self, x: Any) -> Any:
            for one in self.bus:
                x = one(x)
            for one, weight in self.weights.items():
                x = one(x) * weight
            return x

    model = Model()

    def function(x: Any, k: int) -> Any:
        x = model.run(x)
        model.leave()
        x = model.run(x)
        model.join()
        return model.run(x) + np.zeros(k).sum()

    def change(i: int) -> None:
        model.weights[model.update] = 2.0 + i

    return function, change, lambda: (model.n, len(model.bus), len(model.weights))


def derivatives() -> Program:
    known: dict[Any, Any] = {}

    def defines(function: Any) -> Callable[[Any], Any]:
        return lambda derivative: known.setdefault(function, derivative)

    def square(x: Any) -> Any:
        return x * x

    @defines(square)
    def slope(x: Any) -> Any:
        return 2 * x

    def function(x: Any, k: int) -> Any:
        return (known[square](x) if square in known else x * 0) + np.zeros(k).sum()

    def change(i: int) -> None:
        if i == 1:
            known[square] = lambda x: 3 * x
        if i == 2:
            del known[square]

    return function, change, lambda: len(known)


def keys_that_hold_functions() -> Program:
    def act(x: Any) -> Any:
        return x * 2

    @dataclasses.dataclass(frozen=True)
    class Spec:
        n: int
        function: Any

    Pair = collections.namedtuple("Pair", "a b")
    built: dict[Any, float] = {Spec(3, act): 5.0}
    pairs: dict[Any, float] = {Pair(1, act): 2.0}

    def function(x: Any, k: int) -> Any:
        built[Spec(k, act)] = built.get(Spec(k, act), 0.0) + 1.0
        pairs[Pair(2, act)] = pairs.get(Pair(2, act), 0.0) + 1.0
        y = act(x) * built.get(Spec(3, act), 1.0) + pairs.get(Pair(1, act), -5) + pairs[Pair(2, act)]
        return y + np.zeros(k).sum()

    def change(i: int) -> None:
        built[Spec(3, act)] += 1.0

    return function, change, lambda: (len(built), built[Spec(3, act)], len(pairs))


def cached_functions_and_partials() -> Program:
    @functools.cache
    def table(n: int) -> float:
        return n * 2.0

    of_two = functools.partial(table, 2)
    weights = {table: 2.0, of_two: 3.0}
    seen = {table, of_two}
    order = [table]

    def function(x: Any, k: int) -> Any:
        y = x * weights.get(table, -1) + weights.get(of_two, -1) + (table in seen) + 2 * (of_two in seen)
        return y + table(3) + of_two() + (order[0] is table) + order.index(table) + np.zeros(k).sum()

    def change(i: int) -> None:
        weights[table] += 1
        seen.discard(of_two)

    return function, change, lambda: len(seen)


def keys_that_are_made() -> Program:
    counts: dict[Any, int] = {}
    seen: set[Any] = set()

    def act(x: Any) -> Any:
        return x

    def function(x: Any, k: int) -> Any:
        for i in range(3):
            counts[act, i] = counts.get((act, i), 0) + 1
            seen.add((act, i))
            seen.add(act)
        seen.discard((act, 1))
        return x + len(counts) + counts[act, 2] + len(seen) + np.zeros(k).sum()

    return (
        function,
        lambda i: seen.add((act, 1)),
        lambda: (len(counts), len(seen), act in seen, counts.get((act, 0))),
    )


def identities() -> Program:
    array, items = np.ones(2), [1, 2]
    pair = (1, items)

    def act(x: Any) -> Any:
        return x

    weights = {id(array): 5.0, id(items): 6.0, id(act): 7.0, id(pair): 8.0}

    def function(x: Any, k: int) -> Any:
        y = x * weights.get(id(array), 1.0) + weights.get(id(items), 0)
        return y + weights.get(id(act), 0) + weights.get(id(pair), 0) + np.zeros(k).sum()

    def change(i: int) -> None:
        weights[id(array)] += 1

    return function, change, lambda: len(weights)


def values_of_enumerations() -> Program:
    state = {"k": 2.0, "n": 0}
    array = np.ones(2)

    def relu(x: Any) -> Any:
        state["n"] += 1
        return np.maximum(x, 0) * state["k"]

    class Act(enum.Enum):
        PARTIAL = enum.member(functools.partial(relu))  # of itself it is one no more from Python 3.13 on
        PAIR = ("relu", relu)
        TABLE = {"f": relu}  # noqa: RUF012

        def __init__(self, *args: Any) -> None:
            self.function = args[-1]

        def run(self, x: Any) -> Any:
            return self.value[1](x)

        @enum.property
        def gain(self) -> float:
            state["n"] += 1
            return state["k"] * len(self.name)

    class Data(enum.Enum):
        ARRAY = array

    class Level(enum.IntFlag):
        LOW = 1
        HIGH = 2

    levels = [Level.LOW]

    def function(x: Any, k: int) -> Any:
        y = Act.PARTIAL.value(x) + Act.PAIR.value[1](x) + Act["TABLE"].value["f"](x) + Data.ARRAY.value.sum()
        y = (
            y
            + Act.PAIR.run(x)
            + Act.PAIR.function(x) * Act.PAIR.gain
            + (levels[0] | Level.HIGH).value
            + (Level.LOW in levels)
        )
        return y + np.zeros(k).sum() + [a.name for a in Act].index("PAIR")

    def change(i: int) -> None:
        state["k"] += 1
        array[0] += 1
        levels[0] = Level(i % 4)

    return function, change, lambda: state["n"]


def arguments_of_cached_functions() -> Program:
    made: list[Any] = []

    def relu(x: Any) -> Any:
        return x

    @functools.cache
    def weights(key: Any) -> Any:
        made.append(key)
        return np.ones(2)

    Key = collections.namedtuple("Key", "function n")
    weights(Key(relu, 3))[0] = 50.0
    weights(("w", relu))[0] = 5.0
    weights(np.sum)[1] = 3.0
    weights(frozenset([relu]))[0] = 2.0

    def function(x: Any, k: int) -> Any:
        y = x.sum() * weights(("w", relu)) + weights(np.sum) + weights(frozenset([relu])) + weights(np.max)
        return y + weights(Key(relu, 3)) + weights(max) + weights(("a", ("b", relu))) + np.zeros(k).sum()

    def change(i: int) -> None:
        weights(np.max)[0] += 1

    return (
        function,
        change,
        lambda: (len(made), [x is np.sum for x in made], [x is max for x in made], made[-1][1][1] is relu),
    )


def tuples_with_attributes() -> Program:
    class Items(tuple[Any, ...]):
        gain, n = 2.0, 0

        def call(self, x: Any) -> Any:
            self.n += 1
            return x * self.gain + self.n + self[0].sum()

    class Pair(collections.namedtuple("Pair", "a b")):
        k: float

    class Frozen(frozenset[Any]):
        gain = 1.0

    def act(x: Any) -> Any:
        return x

    items, pair, frozen = Items([np.ones(1)]), Pair(act, 2), Frozen([act])
    items.gain, pair.k, frozen.gain = 7.0, 3.0, 4.0

    def function(x: Any, k: int) -> Any:
        pair.k += 1
        y = items.call(x) * items.gain + pair.a(x) * pair.k + frozen.gain + (act in frozen)
        return y + np.zeros(k).sum()

    def change(i: int) -> None:
        items.gain += 1
        pair.k += 2
        frozen.gain += 1
        items[0][0] += 1

    return function, change, lambda: (items.n, items.gain, pair.k, frozen.gain)


def containers_with_empty_slots() -> Program:
    class Table(dict[Any, Any]):
        __slots__ = ()

    class Row(list[Any]):
        __slots__ = ()

    scale = [1.0]

    def act(x: Any) -> Any:
        return x * scale[0]

    table, weights, row, arrays = Table(f=act), Table({act: 2.0}), Row([act]), Row([np.zeros(1)])

    def function(x: Any, k: int) -> Any:
        row.append(k)
        y = table["f"](x) + (act in row) + row.index(act) + weights.get(act, 50.0) + sum(arrays) + len(row)
        return y + np.zeros(k).sum()

    def change(i: int) -> None:
        scale[0] += 1
        arrays[0][0] += 1
        weights[act] += 1

    return function, change, lambda: (row[1:], type(row).__name__)


def attributes_of_a_property() -> Program:
    class Unit(property):
        def __init__(self, get: Any, unit: str = "m") -> None:
            super().__init__(get)
            self.unit = unit

    class A:
        k = 2.0

        @Unit
        def value(self) -> float:
            return self.k

    a = A()

    def function(x: Any, k: int) -> Any:
        return x * a.value + len(A.value.unit) + isinstance(A.value, Unit)

    def change(i: int) -> None:
        a.k = 3.0 + i
        A.value.unit += "m"

    return function, change, lambda: A.value.unit


@pytest.mark.parametrize("program", [
    registries, visited, counters, buses, derivatives, keys_that_hold_functions, cached_functions_and_partials,
    keys_that_are_made, identities, values_of_enumerations,
    arguments_of_cached_functions, tuples_with_attributes, containers_with_empty_slots, attributes_of_a_property,
])  # fmt: skip
def test_functions_as_keys(program: Callable[[], Program]):
    assert results(program, tj.jit) == results(program, lambda function: function)


def test_what_the_function_stores_in_a_member_is_no_traced_array_later():
    class Level(enum.Enum):
        LOW = 1

    low: Any = Level.LOW
    low.data = 0.0

    @tj.jit
    def stores(x: Any) -> Any:
        low.data = (np.ones(2), 1)
        return x + low.data[0].sum()

    for n in (2, 3):
        np.testing.assert_array_equal(stores(np.ones(n)), np.full(n, 3.0))
        assert type(low.data[0]) is np.ndarray


def test_a_tuple_stored_before_the_attributes_are_replaced_holds_what_it_held():
    class Thing:
        data: Any = None

    thing, items = Thing(), [1.0, 2.0]

    @tj.jit
    def replaces(x: Any) -> Any:
        thing.data = (1, items)
        thing.__dict__ = {"data": thing.data, "more": 1}
        return x * 1.0

    replaces(np.ones(2))
    assert thing.data[1] is items
