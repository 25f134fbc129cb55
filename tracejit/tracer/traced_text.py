"""Text made of numbers and arrays whose values only the program knows: it may be shown, and nothing follows from it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from tracejit.support.errors import ConcretizationError, TracejitError
from tracejit.support.source import frames_of, is_internal, user_location
from tracejit.tracer.bytecode import raises
from tracejit.tracer.current import current_trace
from tracejit.tracer.ownership import is_installed

__all__ = ["MARK", "TracedText", "names_a_tracer", "plain_text", "text"]

MARK = "Tracer<"
"""With which the text of a traced array begins."""


class TracedText(str):
    """Text that holds the description of a traced array in place of digits.

    While a function is traced it can be printed, logged, put into exceptions, and joined with other text; what depends
    on its characters raises ConcretizationError.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self


def plain_text(x: str) -> str:
    """The same characters, from which anything may follow."""
    return str.__add__("", x)


_NAMED = re.compile(r"\bTracer\b(?!<|' object is not callable)")  # no array and no number is


def names_a_tracer(error: BaseException) -> bool:
    """Whether an error is about the class of traced numbers, which a function that is not traced was given; not one that
    a function of the user's raises.
    """
    if isinstance(error, TracejitError) or _NAMED.search(plain_text(str(error))) is None:
        return False
    frames = frames_of(error)
    return not frames or is_installed(frames[-1][0].co_filename) or not raises(*frames[-1])


def text(made: Any) -> Any:
    """What an expression of text gives: marked where a traced array is shown in it."""
    return TracedText(made) if type(made) is str and MARK in made and current_trace() is not None else made


def _refuse(what: str) -> NoReturn:
    raise ConcretizationError(
        f"{what} depends on digits that only the program knows (text was made of a traced number or array); compute "
        "with the number (//, %), or return it and format it outside",
        location=user_location(),
    )


def _is_traced(frame: FrameType) -> bool:
    """Whether code is the function's, not that of a library which shows text, such as `logging`."""
    return type(frame.f_globals) is not dict or is_internal(frame.f_code.co_filename)


def _refusing(name: str) -> Callable[..., Any]:
    own = getattr(str, name)
    what = {"__len__": "the length of text", "__hash__": "a key made of text", "__iter__": "a loop over text"}.get(
        name, f"text.{name}()" if not name.startswith("__") else "what is done with text here"
    )

    def method(self: str, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is not None and _is_traced(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            _refuse(what)
        return own(plain_text(self), *args, **kwargs)

    method.__name__ = name
    return method


def _joining(name: str) -> Callable[..., Any]:
    own = getattr(str, name)

    def method(self: str, *args: Any, **kwargs: Any) -> Any:
        return text(own(plain_text(self), *args, **kwargs))

    method.__name__ = name
    return method


_JOINS = (
    "__add__", "__format__", "__mod__", "__mul__", "__rmul__", "center", "expandtabs", "format", "join", "ljust",
    "rjust",
)  # fmt: skip
_ASKS = (
    "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__hash__", "__iter__", "__le__", "__len__", "__lt__",
    "__ne__",
)  # fmt: skip
for _name in dir(str):
    if _name in _JOINS:
        setattr(TracedText, _name, _joining(_name))
    elif _name in _ASKS or not _name.startswith("__"):
        setattr(TracedText, _name, _refusing(_name))


def _radd(self: str, other: Any) -> Any:
    return text(other + plain_text(self)) if isinstance(other, str) else NotImplemented


TracedText.__radd__ = _radd  # pyright: ignore[reportAttributeAccessIssue]
