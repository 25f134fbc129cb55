"""Functions of the user's that are reached by a package's wrapper, or by CPython itself: they see arrays as NumPy's,
and what they read from outside is followed."""

import abc
import contextlib
import enum
import functools
import typing
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

GAIN = 2.0
W = np.ones(2)
X = np.array([1.0, 2.0])


def scaled(x: Any) -> Any:
    return x * GAIN * W if isinstance(x, np.ndarray) else x * 0


@contextlib.contextmanager
def manager() -> Any:
    yield


class Own(property):
    pass


class Model:
    weight = 2.0

    def __init__(self, value: float = 2.0) -> None:
        self.value = value

    def times(self, k: float, x: Any) -> Any:
        return x * k * GAIN * self.value if isinstance(x, np.ndarray) else x * 0

    thrice = functools.partialmethod(times, 3)
    held = staticmethod(functools.partial(scaled))
    silent = np.errstate(all="ignore")(scaled)
    silent_static = staticmethod(np.errstate(all="ignore")(scaled))
    gain_of = property(functools.partial(lambda factor, self: factor * GAIN, 2))

    @np.errstate(all="ignore")
    def method(self, x: Any) -> Any:
        return x * GAIN * self.value if isinstance(x, np.ndarray) else x * 0

    @classmethod
    @np.errstate(all="ignore")
    def of_class(cls, x: Any) -> Any:
        return x * GAIN * cls.weight if isinstance(x, np.ndarray) else x * 0

    @property
    @np.errstate(all="ignore")
    def gain(self) -> float:
        return GAIN * self.value

    @Own
    def own(self) -> float:
        return GAIN

    @functools.singledispatchmethod
    def kind(self, x: Any) -> Any:
        return x * 0

    @kind.register
    def _(self, x: np.ndarray) -> Any:
        return x * GAIN if isinstance(x, np.ndarray) else x * 5

    @np.errstate(all="ignore")
    def __call__(self, x: Any) -> Any:
        return scaled(x)

    @np.errstate(all="ignore")
    def __add__(self, x: Any) -> Any:
        return scaled(x)

    def __class_getitem__(cls, x: Any) -> Any:
        return scaled(x)


class Value:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return other * GAIN
        return abs(self.value - other.value) < GAIN

    def __ne__(self, other: Any) -> Any:
        return abs(self.value - other.value) >= GAIN

    def __str__(self) -> str:
        return str(GAIN)

    def __repr__(self) -> str:
        return str(GAIN + 1)

    def __format__(self, how: str) -> str:
        return str(GAIN + 2)

    def __hash__(self) -> int:
        return int(GAIN)

    def __bool__(self) -> bool:
        return bool(W[0] > 3)

    def __float__(self) -> float:
        return float(W[0])

    def __int__(self) -> int:
        return int(W[0])

    def __index__(self) -> int:
        return int(W[0])

    def __len__(self) -> int:
        return int(W[0])


class Made:
    def __new__(cls, x: Any) -> Any:
        made = object.__new__(cls)
        made.x = scaled(x)
        return made


class Shape(typing.NamedTuple):
    side: Any
    weight = 2.0

    @property
    def area(self) -> Any:
        return self.side * GAIN if isinstance(self.side, np.ndarray) else self.side * GAIN * 3

    @staticmethod
    def scaled(x: Any) -> Any:
        return scaled(x)


Pair = namedtuple("Pair", "side")
Pair.area = property(lambda self: self.side * GAIN)  # type: ignore[attr-defined]


class OnlyManaged:
    scale = 2.0

    @contextlib.contextmanager
    def scales(self) -> Any:
        yield self.scale * GAIN

    @property
    def gain(self) -> float:
        return GAIN


class Mode(enum.Enum):
    FAST = 1

    def apply(self, x: Any) -> Any:
        return scaled(x)

    @property
    def gain(self) -> float:
        return GAIN

    def __call__(self, x: Any) -> Any:
        return scaled(x)


class Twice:
    value = 2.0

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name) * 2


class Sided(typing.Protocol):
    @property
    def gain(self) -> float:
        return GAIN


class Square(Sided):
    pass


class Base(abc.ABC):  # noqa: B024
    pass


def managed(x: Any) -> Any:
    with OnlyManaged().scales() as k:
        return x * k


silent = np.errstate(all="ignore")(scaled)
nested = np.printoptions()(np.errstate(all="ignore")(scaled))
by_manager = manager()(scaled)
call = silent.__call__
vectorized = np.vectorize(lambda q: q * GAIN)
cached = functools.lru_cache(lambda n: n * GAIN)
model, square, shape, pair, only, twice = Model(), Square(), Shape(3.0), Pair(3.0), OnlyManaged(), Twice()
near, far = Value(1.0), Value(8.0)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "errstate": lambda x: silent(x),
    "errstate itself": silent,
    "two": lambda x: nested(x),
    "two themselves": nested,
    "manager": lambda x: by_manager(x),
    "manager itself": by_manager,
    "__call__": lambda x: call(x),
    "vectorize": lambda x: x * vectorized(2.0),
    "__wrapped__": lambda x: silent.__wrapped__(x),
    "of cache": lambda x: x * cached.__wrapped__(3),
    "method": lambda x: model.method(x),
    "class method": lambda x: Model.of_class(x),
    "static": lambda x: model.silent_static(x),
    "function in a class": lambda x: Model.silent(x),
    "property": lambda x: x * model.gain,
    "class of properties": lambda x: x * model.own,
    "property of a partial": lambda x: x * model.gain_of,
    "partial": lambda x: model.held(x),
    "partialmethod": lambda x: model.thrice(x),
    "singledispatchmethod": lambda x: model.kind(x),
    "called": lambda x: model(x),
    "operator": lambda x: model + x,
    "__class_getitem__": lambda x: Model[x],
    "==": lambda x: x * (near == far),
    "!=": lambda x: x * (near != far),
    "== array": lambda x: near == x,
    "str": lambda x: x * float(str(near)),
    "repr": lambda x: x * float(repr(near)),
    "format": lambda x: x * float(f"{near}"),
    "hash": lambda x: x * hash(near),
    "bool": lambda x: x * (1 if near else 2),
    "float": lambda x: x * float(near),
    "int": lambda x: x * int(near),
    "index": lambda x: x * [5, 6, 7, 8, 9, 10, 11, 12, 13][near],
    "len": lambda x: x * len(near),
    "__new__": lambda x: Made(x).x,
    "named tuple made": lambda x: Shape(x).area,
    "named tuple": lambda x: x * shape.area,
    "static of a named tuple": lambda x: Shape.scaled(x),
    "attribute of a named tuple's class": lambda x: x * Shape.weight,
    "namedtuple": lambda x: x * pair.area,
    "manager's method": managed,
    "beside a manager": lambda x: x * only.gain,
    "class attribute beside a manager": lambda x: x * OnlyManaged.scale,
    "protocol": lambda x: x * square.gain,
    "enumeration": lambda x: Mode.FAST.apply(x),
    "property of an enumeration": lambda x: x * Mode.FAST.gain,
    "enumeration called": lambda x: Mode.FAST(x),
    "__getattribute__": lambda x: x * twice.value,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_behind_wrappers_follow_what_they_read(name: str):
    global GAIN
    function, jitted = FUNCTIONS[name], tj.jit(FUNCTIONS[name])
    try:
        for gain, weight, of_class in (
            (2.0, 1.0, 2.0),
            (9.0, 1.0, 2.0),
            (9.0, 5.0, 2.0),
            (9.0, 5.0, 3.0),
            (2.0, 1.0, 2.0),
        ):
            GAIN, W[:] = gain, weight
            Model.weight = Shape.weight = OnlyManaged.scale = Twice.value = of_class
            for _ in range(2):
                expected = function(X)
                result = jitted(X)
                np.testing.assert_array_equal(result, expected)
                assert type(result) is type(expected)
    finally:
        GAIN, W[:] = 2.0, 1.0
        Model.weight = Shape.weight = OnlyManaged.scale = Twice.value = 2.0


@pytest.mark.parametrize("transform", [tj.vmap, lambda f: tj.grad(lambda x: f(x).sum())])
def test_transformations_of_wrapped_functions(transform: Any):
    for f in (silent, nested, by_manager):
        np.testing.assert_array_equal(transform(f)(X), transform(scaled)(X))
