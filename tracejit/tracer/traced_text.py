"""Text made of numbers and arrays whose values only the program knows: it may be shown, and nothing follows from it.

A traced array gives no text to whom asks for it in a traced function, but where the text is marked as such (`made`):
by `str`, `repr` and `format`, f-strings, `%`, `format` and `join` of text in the code.  What these give is no `str`
then, so that no function of C can look at its characters.
"""

from __future__ import annotations

import operator
import re
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NoReturn

from tracejit.ir.extents import ASKED, on_behalf
from tracejit.support.errors import ConcretizationError, Restart, TracejitError
from tracejit.support.source import frames_of, is_internal, user_location
from tracejit.tracer.bytecode import raises
from tracejit.tracer.current import current_trace
from tracejit.tracer.ownership import is_installed

__all__ = [
    "MARK", "TracedText", "formatted", "formatter", "given_text", "joined", "joiner", "made", "message",
    "names_a_tracer", "percent", "plain_text", "shown",
]  # fmt: skip

MARK = "Tracer<"
"""With which the text of a traced array begins."""
_SHOWS = frozenset({"IPython", "_pytest", "bdb", "code", "logging", "pdb", "pydevd", "traceback", "unittest"})
"""Packages that ask for text in order to show it."""


class _Local(threading.local):
    asked: list[int] | None = None
    """Where text is made that will be marked: how often traced arrays were asked."""
    trace: weakref.ref[Any] | None = None
    """The one in which there was marked text last."""


_local = _Local()


class TracedText:
    """Text that holds the description of a traced array in place of digits.

    It can be printed, logged, put into exceptions, and joined with other text; while a function is traced, what depends
    on its characters raises ConcretizationError.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text
        trace = current_trace()
        _local.trace = None if trace is None else weakref.ref(trace)

    def __str__(self) -> str:
        return shown(self._text)

    def __repr__(self) -> str:
        return shown(repr(self._text))

    def __format__(self, spec: str) -> str:
        return shown(self._text)

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: Any) -> Any:
        return TracedText(self._text + plain_text(other)) if isinstance(other, str | TracedText) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return TracedText(other + self._text) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return TracedText(self._text * count)

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return TracedText, (self._text,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(str, name):
            raise AttributeError(f"'str' object has no attribute {name!r}")
        if name in ("center", "ljust", "rjust", "title", "upper", "lower", "capitalize", "strip", "zfill"):
            return lambda *args: TracedText(getattr(self._text, name)(*args))  # of description, not of digits
        if current_trace() is not None:
            _refuse(f"text.{name}()")
        return getattr(self._text, name)


def _refusing(name: str) -> Callable[..., Any]:
    own = getattr(str, name)
    what = {"__len__": "the length of text", "__hash__": "a key made of text", "__iter__": "a loop over text"}.get(
        name, "what is done with text here"
    )

    def method(self: TracedText, *args: Any) -> Any:
        if current_trace() is not None:
            _refuse(what)
        return own(self._text, *map(plain_text, args))  # pyright: ignore[reportPrivateUsage]

    method.__name__ = name
    return method


for _name in (
    "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__hash__", "__iter__", "__le__", "__len__", "__lt__",
    "__ne__",
):  # fmt: skip
    setattr(TracedText, _name, _refusing(_name))


def plain_text(x: Any) -> Any:
    """The characters of text, from which anything may follow."""
    return x._text if type(x) is TracedText else x  # pyright: ignore[reportPrivateUsage]


def _refuse(what: str) -> NoReturn:
    raise ConcretizationError(
        f"{what} depends on digits that only the program knows (text was made of a traced number or array); compute "
        "with the number (//, %), or return it and format it outside",
        location=user_location(),
    )


def shown(description: str) -> str:
    """What `__str__` and its like, which call this, give for a traced array.

    Raises: ConcretizationError where a traced function would get text that is not marked.
    """
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if _local.asked is not None and _is_asked_by_made(frame):
        _local.asked[0] += 1
        return description
    if current_trace() is None:
        return description
    if is_internal(frame.f_code.co_filename) or frame.f_globals.get("__name__", "").partition(".")[0] in _SHOWS:
        return description
    while frame is not None:  # a library asks, or the function that is traced
        if type(frame.f_globals) is not dict or is_internal(frame.f_code.co_filename):
            _refuse("text that is made here")
        frame = frame.f_back
    return description


def _is_asked_by_made(frame: FrameType | None) -> bool:
    """Whether text is asked for by `made` itself, and not by a traced function that it has called."""
    while frame is not None and frame.f_code is not made.__code__:
        if type(frame.f_globals) is not dict and not _only_joins(frame.f_code):
            return False
        frame = frame.f_back
    return frame is not None


def _only_joins(code: CodeType) -> bool:
    """Whether code is a `__repr__` that `dataclasses` or attrs have generated: it looks at no character."""
    by = code.co_qualname.startswith("__create_fn__.<locals>.") or code.co_filename.startswith("<attrs generated")
    return by and code.co_name == "__repr__"


def made(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """The text that a function makes, marked if it has asked traced arrays for theirs."""
    outer, asked = _local.asked, [0]
    _local.asked, ASKED.text = asked, current_trace() is not None
    try:
        result = function(*args, **kwargs)
    finally:
        _local.asked, ASKED.text = outer, outer is not None
    return TracedText(result) if asked[0] and isinstance(result, str) else result


def given_text(text: Any) -> Any:
    """What a method such as `__str__` returns: to `made` a `str`, which Python takes there alone."""
    if type(text) is not TracedText or _local.asked is None:
        return text
    _local.asked[0] += 1
    return plain_text(text)


def joined(*parts: Any) -> Any:
    """An f-string of these parts."""
    return made(lambda: "".join([str(x) for x in parts]))


def formatted(value: Any, conversion: str, spec: Any) -> Any:
    """A part of an f-string: `{value!conversion:spec}`."""
    if type(value) is TracedText:
        return value
    convert: Any = {"r": repr, "s": str, "a": ascii}.get(conversion)
    return made(lambda: format(value if convert is None else convert(value), plain_text(spec)))


@on_behalf
def percent(text: Any, values: Any) -> Any:
    """`text % values`"""
    if not isinstance(text, str):
        return text % values
    return made(lambda: operator.mod(*_with_descriptions(text, values)))


_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?[#0\- +]*(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?[hlL]?(?P<kind>.)", re.DOTALL
)
"""Source: printf-style string formatting in the documentation of Python's `str`."""
_NUMBERS = frozenset("diouxXeEfFgGc")


def _with_descriptions(text: str, values: Any) -> tuple[str, Any]:
    """A format and its values, with descriptions in place of traced numbers whose digits it asks for (`%d`, `%.3e`)."""
    items: tuple[Any, ...] = values if isinstance(values, tuple) else (values,)  # pyright: ignore[reportUnknownVariableType]
    named: Any = values
    kept: list[Any] = []
    place, described = 0, False

    def conversion(found: re.Match[str]) -> str:
        nonlocal place, described
        key = found["key"]
        if found["kind"] == "%":
            return found[0]
        if key is None:
            end = place + 1 + (found["width"] == "*") + (found["precision"] == "*")
            used, place = items[place:end], end
        else:
            used = (named[key],)
        description = _description(used[-1]) if used and found["kind"] in _NUMBERS else None
        if description is None:
            kept.extend(used)
            return found[0]
        described = True
        return description.replace("%", "%%")

    replaced = _CONVERSION.sub(conversion, text)
    if not described:
        return text, values
    return replaced, values if isinstance(values, dict) else (*kept, *items[place:])


def _description(x: Any) -> str | None:
    """What stands for digits that the program alone knows; None for what has digits, or is no number."""
    if not type(x).__module__.startswith("tracejit."):
        return None
    asked = _local.asked
    assert asked is not None
    before = asked[0]
    text = format(x, "")
    return text if asked[0] > before else None


def formatter(text: Any) -> Callable[..., Any]:
    """`text.format`"""
    return (lambda *args, **kwargs: made(text.format, *args, **kwargs)) if isinstance(text, str) else text.format


def joiner(text: Any) -> Callable[..., Any]:
    """`text.join`"""
    if not isinstance(text, str):
        return text.join
    return lambda parts: made(lambda: text.join([str(x) if type(x) is TracedText else x for x in parts]))


# -- what functions say that were given traced arrays ------------------------------------------------------------------
_NAMED = re.compile(
    r"\bTracer\b(?!<|' object is not callable)|\bTracedText\b"  # no array and no number is callable
    "|object __array__ method not producing an array"  # but a traced one
)


def names_a_tracer(error: BaseException) -> bool:
    """Whether an error is about the class of traced numbers, or may be about text made of them (`eval` does not say
    what it was given), which a function that is not traced was given; not one that a function of the user's raises.
    """
    if isinstance(error, TracejitError):
        return False
    trace = None if _local.trace is None else _local.trace()
    given_text = isinstance(error, TypeError) and trace is not None and trace is current_trace()
    if not given_text and _NAMED.search(message(error)) is None:
        return False
    frames = frames_of(error)
    return not frames or is_installed(frames[-1][0].co_filename) or not raises(*frames[-1])


def message(error: BaseException) -> str:
    """What an error says, also where it holds objects with text of traced numbers; its class where it can say nothing
    for what it holds.
    """
    try:
        return plain_text(made(str, error))
    except (Exception, Restart):  # its own text is made of a number that the program alone has
        return type(error).__name__
