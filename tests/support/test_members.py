"""Enumerations that packages extend: one object a member, equal to its text, with values that are matched."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tracejit.support.errors import UserError
from tracejit.support.members import Members, Undefined

COLOURS = Members("colour of the tests", "red", "blue")


@attrs.frozen
class Grey:
    percent: int
    warm: bool = False
    paper: str = "matt"


@pytest.fixture
def colours() -> Iterator[Members]:
    COLOURS.register("grey")(Grey)
    yield COLOURS
    COLOURS.unregister("grey")


def test_a_member_is_its_text(colours: Members):
    assert colours("red") == "red"
    assert colours("red") is colours(colours("red"))
    assert str(colours(Grey(40))) == "grey(40, false, matt)"
    assert list(colours) == ["red", "blue", "grey(percent, warm, paper)"]


def test_there_is_one_object_for_each(colours: Members):
    grey = colours(Grey(40, True))
    assert grey is colours("grey(40, true, matt)")
    assert grey is colours(" grey( 40,true ,matt )")
    assert grey is colours(Grey(40, True, "matt"))
    for member in (grey, colours("red"), colours("nobody(3)")):
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is member


def matched(member: Any) -> str:
    match member:
        case "red":
            return "red"
        case _:
            pass
    match member.value:
        case Grey(percent=40, warm=w):
            return f"grey, {w}"
        case Undefined(text=text):
            return f"unknown: {text}"
        case _:
            return "another"


def test_members_are_matched_by_what_they_carry(colours: Members):
    assert matched(colours("red")) == "red"
    assert matched(colours("grey(40, true, matt)")) == "grey, True"
    assert matched(colours("grey(50, true, matt)")) == "another"
    assert matched(colours("grey(50)")) == "unknown: grey(50)"


def test_unknown_text_is_undefined_until_somebody_registers_it(colours: Members):
    wood = colours("wood(3)")
    assert not wood.known
    assert wood.value == Undefined("wood(3)")
    assert wood == "wood(3)"
    assert wood not in list(colours)
    assert colours("wood( 3)") is wood
    assert not colours("wood (").known

    @colours.register("wood")
    @attrs.frozen
    class Wood:
        rings: int

    assert colours("wood(3)").value == Wood(3)
    colours.unregister("wood")
    assert not colours("wood(3)").known
    with pytest.raises(KeyError):
        colours.unregister("wood")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda c: c(3), "3 is no colour of the tests: register its class; registered are red, blue, grey"),
        (lambda c: c(Grey("dark")), "percent is 'dark', which is no int that can be written"),
        (lambda c: c(Grey(1, paper="a b")), "paper is 'a b', which is no str that can be written"),
        (lambda c: c(Grey(True)), "percent is True, which is no int"),
        (lambda c: c.add("red"), "there is a colour of the tests 'red' already"),
        (lambda c: c.register("grey"), "there is a colour of the tests 'grey' already"),
        (lambda c: c.add("dark red"), "'dark red' is no name"),
        (lambda c: c.register("number")(int), "int is no frozen class whose fields are int, bool or str"),
        (
            lambda c: c.register("loose")(attrs.make_class("Loose", {"x": attrs.field(type=int)})),
            "Loose can be changed; make it with attrs.frozen",
        ),
    ],
)
def test_what_is_no_member_is_refused(colours: Members, wrong: Any, said: str):
    with pytest.raises(UserError) as caught:
        wrong(colours)
    assert said in str(caught.value)
    assert list(colours) == ["red", "blue", "grey(percent, warm, paper)"]
