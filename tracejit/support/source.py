"""Where in the user's program something was written: recorded cheaply, shown only when needed."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Generator
from contextvars import ContextVar
from functools import cache
from types import CodeType, FrameType

__all__ = [
    "Location", "frames_of", "is_internal", "is_ours", "located", "raised_at", "remembering_warnings", "user_location",
    "warn_once",
]  # fmt: skip

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # (pathlib takes 5 ms to import)
_PROGRAMS = os.path.join(_PACKAGE, "testing") + os.sep
_INTERNAL: dict[str, bool] = {}
_GENERATED = ("<__array_function__ internals>", "<fields of tracejit.", contextlib.__file__)


class Location:
    """One instruction of one code object: enough to find the line, the columns and the function."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    def position(self) -> tuple[str, int, int, int]:
        """(file, line, first column, last column); columns are 0-based and -1 where unknown."""
        for n, (line, end_line, first, last) in enumerate(self.code.co_positions()):
            if n == self.lasti // 2:
                if line is None:
                    break
                same_line = end_line == line and first is not None and last is not None
                return (
                    self.code.co_filename,
                    line,
                    first if same_line and first is not None else -1,
                    last if same_line and last is not None else -1,
                )
        return self.code.co_filename, self.code.co_firstlineno, -1, -1

    def short(self) -> str:
        """`train.py:12`"""
        file, line, _, _ = self.position()
        return f"{os.path.basename(file)}:{line}"

    def show(self) -> str:
        """The user's line, underlined, as an error shows it."""
        file, line, first, last = self.position()
        where = (
            f"  at {os.path.basename(file)}:{line}"
            + (f":{first + 1}" if first >= 0 else "")
            + f" in {self.code.co_name}"
        )
        text = linecache.getline(file, line).rstrip("\n")
        if not text.strip():
            return where
        stripped = text.lstrip()
        cut = len(text) - len(stripped)
        out = f"{where}\n      {stripped}"
        if first >= 0:
            # Columns count UTF-8 bytes; the line is shown in characters.
            begin = len(text.encode()[:first].decode(errors="replace")) - cut
            end = len(text.encode()[:last].decode(errors="replace")) - cut
            out += "\n      " + " " * begin + "^" * max(1, end - begin)
        return out

    def __str__(self) -> str:
        return self.short()

    def __repr__(self) -> str:
        return f"Location({self.short()} in {self.code.co_name})"


@cache
def _libraries() -> tuple[str, ...]:
    """Where NumPy is; asked for when it has been imported, which may be after this module."""
    found = getattr(sys.modules.get("numpy"), "__file__", None)
    return (os.path.dirname(found),) if found else ()


def is_ours(filename: str) -> bool:
    """Whether a code object is of this package.  (The programs of the conformance suite are as a user's.)"""
    return filename.startswith(_PACKAGE + os.sep) and not filename.startswith(_PROGRAMS)


def is_internal(filename: str) -> bool:
    """Whether a file belongs to this package (or to NumPy, whose protocols call us back)."""
    known = _INTERNAL.get(filename)
    if known is None:
        inside = filename.startswith((_PACKAGE, *_libraries(), *_GENERATED))
        known = _INTERNAL[filename] = inside and not filename.startswith(_PROGRAMS)
    return known


_derived: ContextVar[Location | None] = ContextVar("tracejit_location", default=None)


class located:
    """Operations recorded in the block come from `location`: they are derived from an operation the user wrote there.

    No code of the user's may run inside.
    """

    __slots__ = ("_location", "_token")

    def __init__(self, location: Location | None) -> None:
        self._location = location

    def __enter__(self) -> None:
        self._token = _derived.set(self._location)

    def __exit__(self, *_: object) -> None:
        _derived.reset(self._token)


def user_location(depth: int = 1) -> Location | None:
    """The innermost frame outside this package and NumPy.  About 0.4 us plus 0.1 us for each inner frame."""
    derived = _derived.get()
    if derived is not None:
        return derived
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if not is_internal(code.co_filename):
            return Location(code, frame.f_lasti)
        frame = frame.f_back
    return None


def raised_at(error: BaseException, last: int | None = None) -> Location | None:
    """The user's line nearest to where an exception was raised: the innermost frame outside this package and NumPy.

    last: how many frames to look at, all by default.
    """
    frames = frames_of(error)
    for code, lasti in reversed(frames if last is None else frames[-last:]):
        if not is_internal(code.co_filename):
            return Location(code, lasti)
    return None


def frames_of(error: BaseException) -> list[tuple[CodeType, int]]:
    """(code, instruction) of the calls that an exception came through, the outermost first."""
    frames: list[tuple[CodeType, int]] = []
    at = error.__traceback__
    while at is not None:
        frames.append((at.tb_frame.f_code, at.tb_lasti))
        at = at.tb_next
    return frames


_warned: ContextVar[set[tuple[str, int, str]]] = ContextVar("tracejit_warned", default=set())  # noqa: B039 -- of all


@contextlib.contextmanager
def remembering_warnings(warned: set[tuple[str, int, str]]) -> Generator[None]:
    """Of what `warned` holds the block does not warn again; what it warns of is added."""
    token = _warned.set(warned)
    try:
        yield
    finally:
        _warned.reset(token)


def warn_once(text: str, location: Location | None) -> None:
    """Warn at the user's line, once for each compiled function (outside of those, once in a process)."""
    file, line = location.position()[:2] if location is not None else ("<unknown>", 0)
    warned = _warned.get()
    if (file, line, text) not in warned:
        warned.add((file, line, text))
        warnings.warn_explicit(text, UserWarning, file, line)
