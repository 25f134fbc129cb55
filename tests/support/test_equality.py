"""Which constants are the same to a function that looks into them."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.equality import strictly_equal


@dataclass(frozen=True)
class Box:
    value: Any


@dataclass(frozen=True)
class Named:
    name: str
    w: Any = field(compare=False, default=None)


class Slotted:
    __slots__ = ("key", "value")

    def __init__(self, key: str, value: Any) -> None:
        self.key, self.value = key, value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


DIFFERENT = [
    (1, 1.0), (1, True), (0.0, -0.0), (Box(1), Box(1.0)), (Box(1), Box(True)), (Box(0.0), Box(-0.0)),
    (Box((1, 2)), Box((1.0, 2))), (frozenset([1]), frozenset([1.0])), (range(0), range(5, 5)),
    (Decimal(1), Decimal("1.00")), (Named("a", 1.0), Named("a", 2.0)), (Slotted("a", 1), Slotted("a", 2)),
    (Box(np.float32(1)), Box(1.0)), (slice(0, 1), slice(False, True)), (Box(Box(1)), Box(Box(1.0))),
    (Named("a", np.ones(2)), Named("a", np.ones(2))), (Box(np.float64(0)), Box(np.float64(-0.0))),
    ({"a": 1}, {"a": 1.0}),
]  # fmt: skip
EQUAL = [
    (1, 1), (Box(1), Box(1)), (Box((1, "x")), Box((1, "x"))), (float("nan"), float("nan")),
    (range(3), range(3)), (frozenset([1, 2]), frozenset([2, 1])), (Decimal("1.5"), Decimal("1.5")),
    (Fraction(1, 3), Fraction(1, 3)), (Slotted("a", 1), Slotted("a", 1)), (Named("a", 2.0), Named("a", 2.0)),
    (np.float32(1), np.float32(1)), (np.dtype("f4"), np.dtype("f4")),
    ("abc", "abc"), (slice(0, 5), slice(0, 5)), ({"a": [1, 2]}, {"a": [1, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_different(one: Any, two: Any):
    assert not strictly_equal(one, two)


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_equal(one: Any, two: Any):
    assert strictly_equal(one, two)


def test_objects_that_hold_themselves():
    one, two = Box([]), Box([])
    one.value.append(one)
    two.value.append(two)
    with pytest.raises(RecursionError):
        one == two  # noqa: B015
    assert not strictly_equal(one, two)
    assert strictly_equal(one, one)


@pytest.mark.parametrize(
    ("first", "second"),
    [(Box(1), Box(1.0)), (Box(True), Box(1)), (Named("a", 1.0), Named("a", 2.0)), (Slotted("a", 1), Slotted("a", 3))],
)
def test_arguments_that_are_equal_by_their_own_account(first: Any, second: Any):
    def f(x: Any, o: Any) -> Any:
        return x * (o.w if isinstance(o, Named) else o.value)

    jitted, x = tj.jit(f), np.array([3, 1, 2])
    for o in (first, second, first, type(first)(*_parts(first)), second):
        found, want = jitted(x, o), f(x, o)
        assert (found.dtype, found.tolist()) == (want.dtype, want.tolist())
    assert jitted.compilations == 2


def _parts(o: Any) -> tuple[Any, ...]:
    return (o.value,) if isinstance(o, Box) else (o.name, o.w) if isinstance(o, Named) else (o.key, o.value)


def test_zeros_of_both_signs_in_an_object():
    jitted = tj.jit(lambda x, o: np.copysign(x, o.value))
    assert [jitted(np.ones(1), Box(z))[0] for z in (0.0, -0.0, 0.0)] == [1, -1, 1]


@tj.jit
def decorated(x: Any) -> Any:
    return x + 1


def test_decorated_functions_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    other = pickle.loads(pickle.dumps(tj.jit(_plain)))
    assert other(np.ones(2)).tolist() == [2, 2]


def _plain(x: Any) -> Any:
    return 2 * x


@dataclass(unsafe_hash=True)
class Schedule:
    rate: float

    @tj.jit
    def step(self, u: Any) -> Any:
        return u * self.rate


def test_objects_whose_hash_changes():
    schedule = Schedule(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(140):  # more than a function keeps programs
            assert schedule.step(np.ones(2))[0] == schedule.rate
            schedule.rate = k * 0.5
