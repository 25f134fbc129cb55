"""The error tree: the user's errors, limitations, a backend's failures, and bugs.

Every error may carry the `Location` of the user's line and notes; its text shows them, underlined.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from tracejit.support.source import Location

__all__ = [
    "AxisOutOfBounds", "BackendError", "BackendUnavailable", "CompileError", "ConcretizationError", "DtypeError",
    "FloatIndex", "NoReverseMode",
    "FailedCheck",
    "ForbiddenValue",
    "InternalError", "LaunchError",
    "LeakedTracerError", "LinearAlgebraError", "MissingRuleError", "OptionError", "OutOfMemory",
    "RefusedByNumPy", "Restart",
    "ScheduleError", "ShapeError",
    "TracejitError",
    "TracerError", "IndexOutOfBounds", "NegativePower", "NumberOutOfBounds", "UnsupportedAttribute", "UnsupportedError",
    "UnknownBackend", "UserError", "VerifyError", "UnsupportedDtype", "WriteError", "meet", "name_in", "pass_over",
    "refusals",
]  # fmt: skip


class TracejitError(Exception):
    """Root of all errors raised on purpose by tracejit.

    backend, primitive: whose code was made or run, and for which operation of the user's function; empty where that is
    not known.
    """

    backend: str = ""
    primitive: str = ""

    def __init__(self, message: str, *, location: Location | None = None, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.notes = notes

    def about(self, *, backend: str = "", primitive: str = "") -> TracejitError:
        """Say whose error it is, if that is not known yet."""
        self.backend = self.backend or backend
        self.primitive = self.primitive or primitive
        return self

    def at(self, location: Location | None) -> TracejitError:
        """Attach the user's line if none is known yet."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.location is not None:
            parts.append(self.location.show())
        parts += [f"  {note}" for note in self.notes]
        return "\n".join(parts)


class Restart(BaseException):
    """The trace begins again with more known.  No error: an `except Exception`
    of the user's function must not catch it.
    """


class UserError(TracejitError):
    """The program asks for something that has no meaning."""


class ShapeError(UserError, ValueError):
    """Shapes, ranks or axes do not fit."""


class AxisOutOfBounds(ShapeError, AxisError):
    """There is no such axis: NumPy's AxisError, which is an IndexError too."""

    def __init__(self, axis: int, rank: int, what: str, *, location: Location | None = None) -> None:
        ShapeError.__init__(self, f"axis {axis} is out of bounds for {what} of rank {rank}", location=location)
        self.axis, self.ndim = axis, rank

    def __str__(self) -> str:
        return ShapeError.__str__(self)


class DtypeError(UserError, TypeError):
    """A dtype is not accepted by this operation."""


class TracerError(UserError, TypeError):
    """A traced value was used where a concrete one is needed, or the other way round."""


class RefusedByNumPy(TracerError):
    """NumPy, or Python, refuses it as well: an `except` of the function may catch it."""


class FloatIndex(TracerError, IndexError):
    """An index that is a float of Python's here, and an int where it has not met a float in a branch or loop."""


class ConcretizationError(TracerError):
    """Python asked a traced value for its concrete value (`if x > 0`, `float(x)`, `range(x)`)."""


class LeakedTracerError(TracerError):
    """A traced value outlived the function whose trace made it."""


class IndexOutOfBounds(UserError, IndexError):
    """An index is outside the array, as NumPy would say."""


class ChoiceOutOfBounds(IndexOutOfBounds, ValueError):
    """A number of a choice that there is not; a ValueError in NumPy."""


class NumberOutOfBounds(UserError, OverflowError):
    """A Python number does not fit the integer dtype of the array that it meets, as NumPy would say."""


class MixedNumber(UserError):
    """What is computed of a number depends on whether it is one of Python's or of NumPy's, which depends on data."""


class NegativePower(UserError, ValueError):
    """An integer to a negative integer power, as NumPy would say."""


class UnorderedBins(UserError, ValueError):
    """Edges of bins that neither rise nor fall."""


class ZeroInSequence(UserError, ValueError):
    """A zero at an end of a sequence with equal quotients."""


class NegativeCount(UserError, ValueError):
    """A negative number where numbers from 0 on are counted."""


class InfiniteRange(UserError, ValueError):
    """Bins between numbers that are not finite."""


class AllNaN(UserError, ValueError):
    """The place of an extremum among NaN only."""


class NoWeight(UserError, ZeroDivisionError):
    """The weights of an average sum to zero."""


class LinearAlgebraError(UserError, np.linalg.LinAlgError):
    """A matrix that has not what is asked of it: a singular one has no inverse."""


class ForbiddenValue(UserError, ValueError):
    """A value that a function does not take: NaN, an infinity, or a zero by which it divides."""


class FailedCheck(UserError):
    """A compiled program found a value that it cannot go on with:
    `failure` says where, in the terms of the trace that made it.
    """

    def __init__(self, failure: int) -> None:
        super().__init__("an index or a number is out of bounds")
        self.failure = failure


class WriteError(UserError, ValueError):
    """An array that is to be changed in place cannot be: it is read-only, immutable,
    or shares memory in a way that matters.
    """


class OptionError(UserError, TypeError, ValueError):
    """An option of `jit`, `tune` or a transformation is none that may be given."""


class ScheduleError(UserError, ValueError):
    """A schedule is not legal for this kernel."""


_met: ContextVar[list[TracejitError] | None] = ContextVar("refusals that the trace in progress has met", default=None)


@contextmanager
def refusals() -> Generator[list[TracejitError]]:
    """What is met inside the block that NumPy would not have raised, whether it is caught there or not."""
    found: list[TracejitError] = []
    token = _met.set(found)
    try:
        yield found
    finally:
        _met.reset(token)
        for error in found:
            meet(error)


def meet(error: TracejitError) -> None:
    """NumPy would not raise this: whoever traces is told, should the function that is traced catch it."""
    found = _met.get()
    if found is not None:
        found.append(error)


def pass_over(error: TracejitError) -> None:
    """An error was met on the way to an answer."""
    found = _met.get()
    if found is not None and error in found:
        found.remove(error)


class UnsupportedError(TracejitError, NotImplementedError):
    """A known limitation; the text says what is supported."""

    def __init__(self, message: str, *, location: Location | None = None, notes: tuple[str, ...] = ()) -> None:
        super().__init__(message, location=location, notes=notes)
        meet(self)


class NoReverseMode(UnsupportedError):
    """A loop whose number of iterations only the program knows, in reverse mode."""


class UnsupportedAttribute(UnsupportedError, AttributeError):
    """A traced array lacks a method or property of NumPy's; `hasattr` says so."""

    def __init__(self, message: str, *, location: Location | None = None, notes: tuple[str, ...] = ()) -> None:
        TracejitError.__init__(self, message, location=location, notes=notes)  # is not met by who only asks


class UnsupportedDtype(UnsupportedError, DtypeError):
    """A dtype of NumPy's that nothing here computes in."""


class MissingRuleError(UnsupportedError):
    """A primitive lacks a rule; the text names primitive, rule and file."""


class BackendError(TracejitError, RuntimeError):
    """A backend failed."""


class BackendUnavailable(BackendError):
    """The backend is unknown, disabled or could not load; the text says why."""


class UnknownBackend(BackendUnavailable, UserError, ValueError):
    """There is no backend of that name; the text has those that there are."""


class CompileError(BackendError):
    """Code generation or a driver's compiler failed; carries the source and the log."""

    def __init__(self, message: str, *, source: str = "", log: str = "", **more: Any) -> None:
        super().__init__(message, **more)
        self.source = source
        self.log = log

    def __str__(self) -> str:
        return super().__str__() + (f"\n  log: {self.log.strip()}" if self.log.strip() else "")


class LaunchError(BackendError):
    """A compiled program failed while it ran."""


class OutOfMemory(BackendError, MemoryError):
    """No memory for `requested` bytes; `peak` bytes were in use."""

    def __init__(self, message: str, *, requested: int = 0, peak: int = 0, **more: Any) -> None:
        super().__init__(f"{message} (requested {requested} bytes, peak {peak} bytes)", **more)
        self.requested = requested
        self.peak = peak


class InternalError(TracejitError, AssertionError):
    """A bug of tracejit itself.  what: the message without the request to report it."""

    def __init__(self, message: str, **more: Any) -> None:
        self.what = message
        super().__init__(
            f"{message}\n  This is a bug in tracejit. Please report it with the function that was compiled.", **more
        )


class VerifyError(InternalError):
    """An IR is malformed after a pass."""


def name_in(error: NameError) -> str | None:
    """The name that has no value.  Python tells that of a local one in words only."""
    return error.name or next(iter(re.findall("'([^']+)'", str(error))), None)
