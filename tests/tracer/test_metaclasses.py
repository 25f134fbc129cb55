"""What the class of a class does and holds is seen at each call: single objects, registries, counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import tracejit as tj


class Singleton(type):
    instances: ClassVar[dict[type, Any]] = {}
    count = 0

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls not in cls.instances:
            cls.instances[cls] = super().__call__(*args, **kwargs)
        return cls.instances[cls]

    def counted(cls) -> int:
        return cls.count


class Settings(metaclass=Singleton):
    def __init__(self) -> None:
        self.scale = 3.0
        self.n = 0


class Derived(Settings):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 7.0


def reads_the_one(x: Any, k: int) -> Any:
    return x * Settings().scale


def reads_it_by_name(x: Any, k: int) -> Any:
    return x * Singleton.instances[Settings].scale if Settings in Singleton.instances else x


def changes_the_one(x: Any, k: int) -> Any:
    one = Settings()
    one.n += 1
    return x + one.n


def starts_again(x: Any, k: int) -> Any:
    one = Settings()
    one.n += 1
    return x + one.n + np.zeros(k).sum()


def reads_a_derived_one(x: Any, k: int) -> Any:
    return x * Derived().scale


def calls_a_method_of_the_class(x: Any, k: int) -> Any:
    return x * Settings.counted()  # type: ignore[attr-defined]


def counts(x: Any, k: int) -> Any:
    Singleton.count = Singleton.count + 1
    return x * Settings.count  # type: ignore[attr-defined]


class Rates(type):
    rate = 0.1
    held = 2.0

    @property
    def doubled(cls) -> float:
        return 2 * cls.held

    def third(cls) -> float:
        return cls.held / 3


def test_what_a_class_gets_itself_comes_before_what_its_class_holds():
    class Settings(metaclass=Rates):
        pass

    def function(x: Any) -> Any:
        return x * Settings.rate + Settings.doubled + Settings.third()  # type: ignore[attr-defined]

    compiled = tj.jit(function)
    for change in (lambda: None, lambda: setattr(Settings, "rate", 5.0), lambda: setattr(Settings, "held", 7.0)):
        change()
        np.testing.assert_allclose(compiled(np.ones(2)), function(np.ones(2)))


class ClassProperty(property):
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.fget(owner)  # type: ignore[misc]


class Base:
    on = 1.0
    tags: ClassVar[list[int]] = []
    fields: ClassVar[list[float]] = [1.0]

    @ClassProperty
    def rate(cls: Any) -> float:
        return cls.on

    @classmethod
    def has_tags(cls) -> bool:
        return bool(cls.__dict__.get("tags"))

    def all_fields(self) -> float:
        found: list[float] = []
        for kind in type(self).__mro__:
            if "fields" in kind.__dict__:
                found += kind.__dict__["fields"]
        return sum(found)


class Grown(Base):
    tags: ClassVar[list[int]] = []
    fields: ClassVar[list[float]] = [2.0, 3.0]


def test_properties_of_classes_and_what_a_class_holds_itself():
    def function(x: Any) -> Any:
        return x * Grown.rate + Base().rate + Grown.has_tags() + Grown().all_fields()

    compiled = tj.jit(function)
    for change in (
        lambda: None,
        lambda: setattr(Base, "on", 5.0),
        lambda: Grown.tags.append(1),
        lambda: Base.fields.append(3.0),
    ):
        change()
        np.testing.assert_allclose(compiled(np.ones(2)), function(np.ones(2)))


def results(function: Callable[..., Any], made: bool) -> list[Any]:
    Singleton.instances.clear()
    Singleton.count = 0
    if made:
        Settings(), Derived()
    found: list[Any] = []
    for n in (2, 3, 3, 4, 2):
        found.append(np.asarray(function(np.ones(n), n)).tolist())
        Settings().scale = 5.0 + len(found)
        Derived().scale = 9.0 + len(found)
        Singleton.count += 2
        found.append((Settings().n, len(Singleton.instances), Singleton.count))
    return found


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("function", [
    reads_the_one, reads_it_by_name, changes_the_one, starts_again, reads_a_derived_one, calls_a_method_of_the_class,
    counts,
])  # fmt: skip
def test_classes_of_classes(function: Callable[..., Any], made: bool):
    assert results(tj.jit(function), made) == results(function, made)
