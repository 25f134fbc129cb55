"""The body of a loop is traced once: what it does to Python's own objects is handed on, or refused, where the next
iteration would see it."""

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError


class Simulation:
    steps = 0

    def __init__(self, x: Any) -> None:
        self.new = x.copy()
        self.old = x
        self.count = 0
        self.history: list[Any] = []

    def advance(self) -> None:
        self.new[1:-1] = self.old[:-2] + self.old[2:]
        self.old, self.new = self.new, self.old

    def counts(self) -> None:
        self.count += 1

    def counts_from_the_class(self) -> None:
        self.steps += 1

    def remembers(self) -> None:
        self.history.append(self.old[0])

    @cached_property
    def weight(self) -> float:
        return 3.0


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> None:
        self.value += 1


def counter_in_a_closure() -> Callable[[], int]:
    count = 0

    def increment() -> int:
        nonlocal count
        count += 1
        return count

    return increment


def pairs(x: Any) -> Iterator[Any]:
    yield from x


OUTSIDE: dict[str, Any] = {"n": 0, "list": [0]}
SHARED = Simulation(np.zeros(4))


def rotated(x: Any) -> Callable[[], Any]:
    buffers = [x, x.copy()]

    def step() -> None:
        buffers[1][:] = buffers[0] + 1
        buffers.reverse()

    return step


def set_item(container: Any, key: Any, value: Any) -> None:
    container[key] = value


def counted(f: Any) -> Callable[[], None]:
    def call() -> None:
        f.calls += 1

    f.calls = 0
    return call


# Each makes what the body of a loop calls.
BODIES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "attributes swapped": lambda x: Simulation(x).advance,
    "an attribute counted": lambda x: Simulation(x).counts,
    "an attribute of the class counted": lambda x: Simulation(x).counts_from_the_class,
    "a list in an object": lambda x: Simulation(x).remembers,
    "an attribute of an object from outside": lambda x: SHARED.counts,
    "an attribute of the class of one from outside": lambda x: SHARED.counts_from_the_class,
    "a slot": lambda x: Slotted().add,
    "a closure": lambda x: counter_in_a_closure(),
    "buffers": rotated,
    "a list": lambda x: [0, 1].pop,
    "a list extended": lambda x: lambda stack=[]: stack.append(0),
    "a deque": lambda x: lambda d=deque([x, x + 1]): d.rotate(),
    "a dict": lambda x: lambda d={"n": 0}: set_item(d, "n", d["n"] + 1),
    "a Counter": lambda x: lambda d=Counter(): set_item(d, "n", d["n"] + 1),
    "a set": lambda x: lambda s=set(): s.add(len(s)),
    "an iterator": lambda x: iter([1, 2, 3, 4]).__next__,
    "rows": lambda x: iter(x).__next__,
    "a count": lambda x: lambda c=itertools.count(): next(c),  # noqa: B008
    "a zip": lambda x: lambda z=zip((1, 2, 3, 4), x): next(z),  # noqa: B008, B905
    "a generator": lambda x: lambda g=pairs(x): next(g),  # noqa: B008
    "an attribute of a function": lambda x: counted(lambda: None),
    "a dict from outside": lambda x: lambda: set_item(OUTSIDE, "n", OUTSIDE["n"] + 1),
    "a list from outside": lambda x: lambda: set_item(OUTSIDE["list"], 0, OUTSIDE["list"][0] + 1),
}


HANDED_ON = {
    "attributes swapped", "an attribute counted", "an attribute of the class counted", "a slot", "a closure", "buffers",
    "a dict", "a Counter", "an attribute of a function",
}  # fmt: skip


def body_of(name: str, x: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What a loop calls, and what shows what that has done."""
    body: Any = BODIES[name](x)
    owner = getattr(body, "__self__", None)
    if isinstance(owner, Slotted):
        return body, lambda: owner.value
    if owner is not None:
        return body, lambda: (vars(owner), owner.steps)
    held = {**dict(enumerate(body.__defaults__ or ())), **dict(enumerate(body.__closure__ or (), 10))}

    def shown(x: Any) -> Any:
        found = getattr(x, "cell_contents", x)
        return dict(x) if isinstance(x, Counter) else vars(found) if isinstance(found, FunctionType) else found

    return body, lambda: list(map(shown, held.values()))


@pytest.mark.parametrize("name", BODIES)
def test_what_the_next_iteration_would_see_is_refused_or_handed_on(name: str) -> None:
    def by_range(x: Any) -> Any:
        body, shown = body_of(name, x)
        for _ in tj.range(3):
            body()
        return x, shown() if name in HANDED_ON else None

    def by_fori_loop(x: Any) -> Any:
        body = BODIES[name](x)

        def step(_: Any, total: Any) -> Any:
            body()
            return total + 1

        return tj.lax.fori_loop(0, 3, step, 0)

    for f in (by_range, by_fori_loop):
        if f is by_range and name in HANDED_ON:
            given = np.array([1.0, 2.0, 3.0, 5.0])
            np.testing.assert_equal(tj.jit(f)(given.copy()), f(given.copy()))
            continue
        with pytest.raises(TracerError, match=r"which would happen once.*\n.*test_python_state"):
            tj.jit(f)(np.ones(4))


def test_caches_may_be_filled() -> None:
    cache: dict[int, tuple[float, int]] = {}

    def kernel(n: int) -> float:
        if n not in cache:
            cache[n] = (2.0 * n, n)
        return cache[n][0]

    def f(x: Any) -> Any:
        simulation = Simulation(x)
        own: dict[str, Any] = {}
        for i in tj.range(3):
            x += kernel(4) + simulation.weight
            own["first"] = [2.0]
            x[i] *= own["first"][0]
            simulation.count = 0  # what it was
        return x

    got = tj.jit(f)(np.ones(4))
    assert cache == {4: (8.0, 4)}
    cache.clear()
    np.testing.assert_array_equal(got, f(np.ones(4)))
    assert cache == {4: (8.0, 4)}


def test_numbers_that_the_body_makes_may_be_counters() -> None:
    """Under a name or key that was not there a number looks like a cache's; the next iteration would count on."""

    class Owner:
        @cached_property
        def k(self) -> int:
            return 3

    outside: dict[str, int] = {}
    owner = Owner()

    def in_a_dict(x: Any) -> Any:
        found: dict[str, int] = {}
        for _ in tj.range(5):
            found["n"] = found.get("n", 0) + 1
        return x * found["n"]

    def in_one_outside(x: Any) -> Any:
        for _ in tj.range(5):
            outside["n"] = outside.get("n", 0) + 1
        return x * outside["n"]

    def in_an_attribute(x: Any) -> Any:
        made: Any = Owner()
        for _ in tj.range(5):
            made.n = getattr(made, "n", 0) + 1
        return x * made.n

    def in_one_of_an_object_outside(x: Any) -> Any:
        for _ in tj.range(5):
            owner.n = getattr(owner, "n", 0) + 1  # type: ignore[attr-defined]
        return x * owner.n  # type: ignore[attr-defined]

    def in_a_body(x: Any) -> Any:
        def body(i: Any, a: Any) -> Any:
            outside["m"] = outside.get("m", 0) + 1
            return a + outside["m"]

        return tj.lax.fori_loop(0, 3, body, x)

    for f in (in_a_dict, in_an_attribute):  # but for the first iteration, it is there before
        np.testing.assert_array_equal(tj.jit(f)(np.ones(3)), f(np.ones(3)))
    for f in (in_one_outside, in_one_of_an_object_outside, in_a_body):
        with pytest.raises(TracerError, match="which would happen once"):
            tj.jit(f)(np.ones(3))
        outside.clear()
        vars(owner).pop("n", None)

    def cached(x: Any) -> Any:
        own = Owner()
        for _ in tj.range(5):
            x += own.k + owner.k
        return x

    assert tj.jit(cached)(np.ones(1)) == 31


def test_arrays_of_objects_change_in_place() -> None:
    def f(x: Any) -> Any:
        simulation = Simulation(x)
        for _ in tj.range(3):
            simulation.new += simulation.old
            simulation.new[0], simulation.old[1] = 2.0, simulation.new[2]
        return simulation.new

    np.testing.assert_array_equal(tj.jit(f)(np.ones(4)), f(np.ones(4)))


def test_a_range_is_for_for_statements(without_statements: None) -> None:
    def by_zip(x: Any) -> None:
        for i, v in zip(tj.range(3), x):  # noqa: B905
            x[i] = v * 2

    def by_enumerate(x: Any) -> None:
        for k, i in enumerate(tj.range(3)):
            x[i] = k

    def by_product(x: Any) -> None:
        for i, j in itertools.product(tj.range(3), tj.range(2)):
            x[i] += j

    def by_list(x: Any) -> None:
        for i in list(tj.range(3)):
            x[i] = i

    def by_generator(x: Any) -> None:
        for i in (2 * i for i in tj.range(2)):
            x[i] = i

    def by_map(x: Any) -> None:
        for i in map(lambda i: i, tj.range(3)):
            x[i] = i

    for f in (by_zip, by_enumerate, by_product, by_list, by_map):
        with pytest.raises(TracerError, match=r"something else than a for statement"):
            tj.jit(f)(np.ones(3))
    with pytest.raises(TracerError, match=r"in a generator and yields"):
        tj.jit(by_generator)(np.ones(3))


def test_a_range_can_be_looped_over_again_and_backwards() -> None:
    def f(x: Any) -> Any:
        steps = tj.range(1, len(x))
        for i in steps:
            x[i] += x[i - 1]
        for i in steps:
            x[i] *= 2
        for i in reversed(tj.range(len(x) - 1)):
            x[i] += x[i + 1]
        for i in reversed(tj.range(1, len(x), 2)):
            x[i] -= x[i - 1] * len(steps)
        return x

    compiled = tj.jit(f)
    for n in (4, 1, 2, 9, 0):
        np.testing.assert_array_equal(compiled(np.arange(n) + 1.0), f(np.arange(n) + 1.0))


def test_a_generator_that_goes_through_another_moves_on() -> None:
    def f(x: Any) -> Any:
        items = pairs(x)
        next(items)
        total = np.zeros(1)
        for _ in tj.range(2):
            total += next(items)
        return total

    with pytest.raises(TracerError, match="a generator"):
        tj.jit(f)(np.arange(4.0))
