"""What rewritten functions call.  The functions stand in a layer above, which provides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.support.nodes import define

__all__ = ["Statements", "provided_by", "statements"]


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
    choose: Callable[..., Any]
    """(test, yes, no): `yes() if test else no()`."""
    both: Callable[..., Any]
    """(value, *later): `and`."""
    either: Callable[..., Any]
    """(value, *later): `or`."""
    negation: Callable[[Any], Any]
    """`not`."""
    is_none: Callable[[Any], Any]
    """`x is None`."""
    chain: Callable[..., Any]
    """(left, *(operator, later)): `a < b < c`."""
    claim: Callable[..., Any]
    """(test, message): what `assert` asserts."""


_providers: list[Callable[[], Statements]] = []


def provided_by(provider: Callable[[], Statements]) -> None:
    """Say where they are to be had; asked when the first function is rewritten."""
    _providers.append(provider)


def statements() -> Statements:
    """What rewritten functions call."""
    return _providers[-1]()
