"""What rewritten functions call.  The functions stand in a layer above, which provides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.support.nodes import define

__all__ = ["HELPERS", "Statements", "provided_by", "statements"]

HELPERS = "statements@"
"""The name of the `Statements` in rewritten code: a variable, or one of its globals."""


@define(eq=False)
class Statements:
    """One function for each kind of statement and expression that decides.

    Blocks are functions without parameters (that of a `for` has the item) over variables of the function around them.
    assigned: the names that blocks bind.  known, carry: those of them that are wanted afterwards.  augmented: those
    bound by `x += ...` alone.  sure: those that both blocks bind in any case.  stop: whether a loop has been left, None
    where nothing leaves it.  written: the names whose arrays blocks change in place.
    """

    branch: Callable[..., Any]
    """(test, then, orelse, assigned, known, augmented, sure): `if`; what the block returns."""
    iteration: Callable[..., None]
    """(source, body, tail, stop, assigned, carry, augmented, between, written): `for`.  tail: what of an iteration
    follows a `break`, or None; between: what of `assigned` is wanted there or later.
    """
    repetition: Callable[..., None]
    """(test, body, stop, assigned, carry, augmented, written): `while`."""
    items: Callable[..., Any]
    """(kind, *arguments): what `range`, `enumerate`, `zip`, `reversed` give to a `for`."""
    reduces: Callable[[Any, str], bool]
    """Whether a name that stands for `any`, `all` or `sum` of a generator expression is that function of Python's."""
    held: Callable[[Any], Any]
    """What a `for` goes over that has a name, and others may go over."""
    choose: Callable[..., Any]
    """(test, yes, no): `yes() if test else no()`."""
    both: Callable[..., Any]
    """(value, *later): `and`."""
    either: Callable[..., Any]
    """(value, *later): `or`."""
    all_of: Callable[..., Any]
    """(value, *later): `and`, of which only the truth is asked for."""
    any_of: Callable[..., Any]
    """(value, *later): `or`, of which only the truth is asked for."""
    negation: Callable[[Any], Any]
    """`not`."""
    among: Callable[..., Any]
    """(x, python, *elements): `x in (a, b)`; python: that for an x."""
    held_by: Callable[[Any, Any], Any]
    """`x in y`, of a y that does not stand in the code."""
    identical: Callable[[Any, Any], Any]
    """`x is y`."""
    compared: Callable[[str, Any, Any], Any]
    """(operator, x, y): `x == y`, `x < y` and so on."""
    item: Callable[..., Any]
    """(holder, index, here): `holder[index]`; here: a function of the place."""
    subject: Callable[[Any], Any]
    """What is matched with patterns such as `case None` and `case True`."""
    chain: Callable[..., Any]
    """(left, *(operator, later)): `a < b < c`."""
    selects: Callable[[Any], Any]
    """The value that a comprehension asks for its truth."""
    claim: Callable[..., Any]
    """(test, message): what `assert` asserts."""
    caught: Callable[[], None]
    """An `except` has caught something."""
    numpys: Callable[[], None]
    """An error is about to meet an `except`."""
    everything: type[BaseException]
    """What a `try` that is added here catches, to raise it again."""
    ended: Callable[[], None]
    """A `finally` has raised something."""
    leaving: Callable[[], None]
    """A `finally` leaves by a jump."""
    managed: Callable[[Any], Any]
    """The manager of a `with`."""
    joined: Callable[..., Any]
    """An f-string."""
    formatted: Callable[[Any, str, Any], Any]
    """A part of one."""
    percent: Callable[[Any, Any], Any]
    """`a % b` of what may be text"""
    formatter: Callable[[Any], Callable[..., Any]]
    """`a.format`"""
    joiner: Callable[[Any], Callable[..., Any]]
    """`a.join`"""
    given_text: Callable[[Any], Any]
    """What `__str__` and its like return."""


_providers: list[Callable[[], Statements]] = []


def provided_by(provider: Callable[[], Statements]) -> None:
    """Say where they are to be had; asked when the first function is rewritten."""
    _providers.append(provider)


def statements() -> Statements:
    """What rewritten functions call."""
    return _providers[-1]()
