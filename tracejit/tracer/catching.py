"""Whether a `try` of the user's is around what is traced: its `except` does not see what the program raises."""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet
from typing import Any

from tracejit.support.source import is_internal
from tracejit.tracer.bytecode import catches_at

__all__ = ["OF_INDICES", "may_be_caught"]

OF_INDICES = frozenset({"IndexError", "LookupError"})
"""The classes of errors by which an index out of range is caught."""


def may_be_caught(names: AbstractSet[str] = frozenset()) -> bool:
    """Whether an `except` of the function that is traced, or of one that it calls, is around.

    names: only one in a function that reads one of these.  One around a transformation that runs without being compiled
    catches what is raised when that has run.
    """
    found = within = False
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if is_internal(code.co_filename):
            if code.co_name == "trace_call":
                return found
            if code.co_qualname == "prepared.<locals>.run":
                within = found
        elif catches_at(code, frame.f_lasti) and (not names or not names.isdisjoint(code.co_names)):
            found = True
        frame = frame.f_back
    return within
