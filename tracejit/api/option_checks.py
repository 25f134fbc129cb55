"""Options of `jit`, `tune` and the transformations, checked where they are given."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from math import inf
from typing import Any

from tracejit.backends.registry import check_known
from tracejit.support.errors import OptionError, UnknownBackend
from tracejit.support.source import user_location

__all__ = ["duration", "expect", "flag", "flag_or_none", "known_backend", "positions"]


def expect(fits: bool, what: str, name: str, given: Any, meaning: str) -> None:
    """Raises: OptionError unless what was given as option `name` of `what` fits."""
    if not fits:
        raise OptionError(f"{what}: {name} is {given!r}; it is {meaning}", location=user_location())


def flag(what: str, name: str, given: Any) -> None:
    """Raises: OptionError for what is neither True nor False."""
    expect(isinstance(given, bool), what, name, given, "True or False")


def flag_or_none(what: str, name: str, given: Any) -> None:
    """Raises: OptionError for what is neither None, True nor False."""
    expect(given is None or isinstance(given, bool), what, name, given, "None, True or False")


def duration(what: str, name: str, given: Any) -> None:
    """Raises: OptionError for what is no number of seconds."""
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    expect(is_number and 0 < given < inf, what, name, given, "a number of seconds above 0")


def known_backend(what: str, given: Any, name: str = "backend") -> None:
    """Raises: OptionError for what is no name, UnknownBackend for one that is not registered."""
    if given is None:
        return
    meaning = 'the name of a backend, as tj.list_backends() gives them, one of its devices, "auto" or None'
    expect(isinstance(given, str), what, name, given, meaning)
    try:
        check_known(given, what)
    except UnknownBackend as error:
        error.at(user_location())
        raise


def positions(what: str, name: str, given: Any) -> tuple[int, ...]:
    """Numbers of positional arguments, given as one or as several.   Raises: OptionError."""
    numbers: tuple[Any, ...] = ()
    try:
        numbers = tuple(given) if isinstance(given, Iterable) else (given,)
        fits = not any(isinstance(n, bool) for n in numbers) and not isinstance(given, bytes)
        numbers = tuple(map(operator.index, numbers))
    except TypeError:
        fits = False
    expect(fits, what, name, given, "an integer or a sequence of integers")
    return numbers
