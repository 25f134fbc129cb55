"""Classes with declared fields."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, ClassVar

import attrs
import pytest

from tracejit.support.nodes import Undecided, as_dict, define, evolve, field, fields_of, frozen, has_fields


@frozen
class Point:
    """Two coordinates."""

    origin: ClassVar[tuple[int, int]] = (0, 0)
    x: int
    y: int = field(default=0, converter=int)


@frozen
class Named(Point):
    name: str = "p"


@frozen(eq=False)
class Held:
    inner: Any
    _notes: list[str] = field(factory=list)
    counts: dict[str, int] = field(factory=dict[str, int], init=False)

    def first(self) -> Any:
        return self.inner


@define(eq=False)
class State:
    steps: int = 0
    links: list[State] = field(factory=list["State"])

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"{self.steps} steps")


def test_values_are_equal_by_class_and_fields():
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    assert Point(1, 0) != Named(1, 0)
    assert Point(1, 2) != (1, 2)
    assert repr(Named(1, 2, "q")) == "Named(x=1, y=2, name='q')"


def test_nodes_and_records_are_equal_to_themselves_only():
    assert Held(1) != Held(1)
    assert State(1) != State(1)
    assert len({held := Held(1), held, Held(1)}) == 2


def test_defaults_factories_and_converters():
    assert Point(1, "7").y == 7  # pyright: ignore[reportArgumentType]
    assert Point(1).y == 0
    held, other = Held(1), Held(2, ["note"])
    held.counts["a"] = 1
    assert (held._notes, other._notes, other.counts) == ([], ["note"], {})  # pyright: ignore[reportPrivateUsage]
    assert Held.__match_args__ == ("inner", "_notes")
    assert Point.origin == (0, 0)
    with pytest.raises(ValueError, match="-1 steps"):
        State(-1)


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=2)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("held", [Point(1, 2), Held(1)])
def test_values_and_nodes_are_frozen(held: Any):
    name = fields_of(type(held))[0].name
    with pytest.raises(AttributeError, match=f"{type(held).__name__} is frozen"):
        setattr(held, name, 5)
    with pytest.raises(AttributeError, match="is frozen"):
        delattr(held, name)
    assert getattr(held, name) == 1


def test_records_change_and_show_themselves():
    state = State()
    state.steps, state.links = 3, [state]
    assert repr(state) == "State(steps=3, links=[...])"
    with pytest.raises(AttributeError):
        state.stepz = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_changed_copy():
    named = Named(1, 2, "q")
    assert evolve(named, y=5) == Named(1, 5, "q")
    assert evolve(Held(1, ["note"]), inner=2)._notes == ["note"]  # pyright: ignore[reportPrivateUsage]
    assert as_dict(named) == {"x": 1, "y": 2, "name": "q"}


def test_a_class_keeps_what_it_defines():
    @frozen
    class Folded:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Folded) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    assert {Folded("A"), Folded("a")} == {Folded("A")}


def test_super_means_the_made_class():
    @frozen(eq=False)
    class Twice(Held):
        factor: int = 2

        def first(self) -> Any:
            return self.factor * super().first()

    assert Twice(3).first() == 6


def test_each_class_has_the_constructor_of_its_own_fields_whichever_is_called_first():
    @frozen(eq=False)
    class Base:
        a: int

    @frozen(eq=False)
    class Derived(Base):
        b: int

    derived = Derived(1, 2)
    assert (Base(3).a, derived.a, derived.b, Derived(4, 5).b) == (3, 1, 2, 5)


def test_copies_and_pickles():
    for made in (copy.copy(Named(1, 2)), copy.deepcopy(Named(1, 2)), pickle.loads(pickle.dumps(Named(1, 2)))):
        assert made == Named(1, 2)


def test_attrs_reads_these_classes_and_is_read():
    @attrs.frozen
    class Theirs:
        _a: int
        b: int = 2

    assert attrs.evolve(Named(1, 2), name="q") == Named(1, 2, "q")
    assert attrs.asdict(Point(1, 2)) == {"x": 1, "y": 2}
    assert [f.alias for f in attrs.fields(Held) if f.init] == ["inner", "notes"]
    assert evolve(Theirs(1), b=3) == Theirs(1, 3)
    assert (has_fields(Theirs), has_fields(State), has_fields(dict)) == (True, True, False)


def test_errors_of_a_comparison_other_than_an_undecided_one_come_through():
    class Open:
        def __eq__(self, other: object) -> bool:
            raise Undecided("unknown")

        def same(self, other: object) -> bool:
            return True

    class Broken:
        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

    assert Point(Open(), 0) == Point(Open(), 0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ZeroDivisionError):
        assert Point(Broken(), 0) == Point(Broken(), 0)  # pyright: ignore[reportArgumentType]


def test_constructors_are_compiled_for_classes_of_several_instances():
    @frozen
    class Late:
        a: int
        _b: int = field(default=2, converter=lambda x: 10 * x)
        c: list[int] = field(factory=list[int], init=False)
        d: Any = field(factory=dict[str, int])

        def __post_init__(self) -> None:
            self.c.append(self.a)

    before: Any = inspect.getattr_static(Late, "__init__")
    for n in range(8):
        made = (Late(n), Late(a=n, **{"b": 2}), Late(n, 2, {}), Late(n, d={}))[n % 4]
        assert as_dict(made) == {"a": n, "_b": 20, "c": [n], "d": {}}
    after: Any = inspect.getattr_static(Late, "__init__")
    assert before.__code__.co_filename.endswith("nodes.py")
    assert after.__code__.co_filename.startswith("<fields of ")


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing 1 required positional argument: 'a'"), ((1, 2, 3), {}, "takes from 2 to 3 positional"),
        ((1,), {"a": 2}, "multiple values for argument 'a'"), ((1,), {"z": 2}, "unexpected keyword argument 'z'"),
    ],
)  # fmt: skip
def test_the_first_instance_of_a_class_takes_its_fields_and_no_other(
    args: tuple[int, ...], kwargs: dict[str, int], message: str
):
    @frozen
    class Strict:
        a: int
        b: int = 1

    with pytest.raises(TypeError, match=message):
        Strict(*args, **kwargs)
    assert Strict(3).b == 1
