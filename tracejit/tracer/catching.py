"""Whether a `try` of the user's is around what is traced, or a `with` that swallows errors: neither sees what the
program raises.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Set as AbstractSet
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from tracejit.ir.extents import DimDependent
from tracejit.support.errors import Restart, TracejitError, TracerError, UnsupportedError, meet
from tracejit.support.source import is_internal, user_location
from tracejit.tracer.bytecode import catches, catches_all, catches_at, gives_nothing, swallows
from tracejit.tracer.cell import Cell
from tracejit.tracer.current import current_trace
from tracejit.tracer.numpys_errors import as_numpy_raises, is_refusal
from tracejit.tracer.places import held_by_class
from tracejit.tracer.recorder import recording, symbols_here

__all__ = ["OF_INDICES", "caught", "ended", "leaving", "managed", "may_be_caught", "refuse_if_caught"]

OF_INDICES = frozenset({"IndexError", "LookupError"})
"""The classes of errors by which an index out of range is caught."""


def may_be_caught(names: AbstractSet[str] = frozenset()) -> bool:
    """Whether an `except` of the function that is traced, or of one that it calls, is around.

    names: only one in a function that reads one of these, or has a bare `except` if "BaseException" is among them.  One
    around a transformation that runs without being compiled catches what is raised when that has run.
    """
    trace = current_trace()
    if trace is not None and any(m.trace is trace and m.catches(names) for m in _open()):
        return True
    found = within = False
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        code = frame.f_code
        if is_internal(code.co_filename):
            if code.co_name == "trace_call":
                return found
            if code.co_qualname == "prepared.<locals>.run":
                within = found
        elif catches_at(code, frame.f_lasti) and _names_one(code, names):
            found = True
        frame = frame.f_back
    return within


def _names_one(code: CodeType, names: AbstractSet[str]) -> bool:
    if not names or not names.isdisjoint(code.co_names):
        return True
    return "BaseException" in names and (catches_all(code) or swallows(code))


def refuse_if_caught(
    kind: type[BaseException], name: str, *, by: AbstractSet[str] = frozenset(), numbers: Iterable[Any] = ()
) -> None:
    """An error of a class may leave the program, or numbers may be such that Python raises it where NumPy has a value.

    name: what it is called.  by: the classes of errors by which it is caught, if not by all that it is of.

    Raises: TracerError within a `try` that catches it, whose `except` would not see it; NeedValue there if that tells
    one of `numbers`.
    """
    names = by or {base.__name__ for base in kind.__mro__ if issubclass(base, BaseException)}
    if recording() is not None and may_be_caught(names):
        for x in numbers:
            if isinstance(x, Cell):
                x.ask()
        error = TracerError(
            f"whether {name} is raised is known to the program alone, and a `try` or `with` around it may catch it: an "
            "exception leaves the compiled function; decide with `if`, or np.where, what is done in its place, or put "
            "the `try` around the call of that",
            location=user_location(),
        )
        meet(error)  # what is traced as it is may catch it
        raise error


_managers = threading.local()


def _open() -> list[_Managed]:
    """The managers whose `with` runs in this thread, of those that may swallow an error."""
    found: list[_Managed] | None = getattr(_managers, "open", None)
    if found is None:
        found = _managers.open = []
    return found


class _Managed:
    """Stands for a manager which may swallow errors, so that one knows when its `with` runs."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.trace = current_trace()

    def catches(self, names: AbstractSet[str]) -> bool:
        """Whether it may swallow an error, of these classes if there are names."""
        if isinstance(self._manager, contextlib.ExitStack):
            return _swallows_within(self._manager)
        kinds = getattr(self._manager, "_exceptions", None) if type(self._manager) is contextlib.suppress else None
        return not names or kinds is None or not names.isdisjoint(b.__name__ for kind in kinds for b in _below(kind))

    def __enter__(self) -> Any:
        value = type(self._manager).__enter__(self._manager)
        _open().append(self)
        return value

    def __exit__(self, *error: Any) -> Any:
        _open().remove(self)
        given = error[1]
        found = as_numpy_raises(given)
        if found is not None:
            error = type(found), found, found.__traceback__
        swallowed = type(self._manager).__exit__(self._manager, *error)
        if swallowed and found is not None:
            caught(found)
        elif found is not None and found is not given:
            raise found from None
        return swallowed


def _swallows_within(stack: contextlib.ExitStack[Any]) -> bool:
    """Whether a manager that a stack holds may swallow an error.  Source: contextlib's `_BaseExitStack`."""
    callbacks: Any = getattr(stack, "_exit_callbacks", ())
    managers = [exit.__self__ if isinstance(exit, MethodType) else None for _, exit in callbacks]
    return any(manager is not None and _may_swallow(manager) for manager in managers)


def _below(kind: Any) -> list[type]:
    """A class, and those of errors that `except kind` catches, as far as `OF_INDICES` names them."""
    return [x for x in (kind, IndexError, LookupError) if isinstance(kind, type) and issubclass(x, kind)]


def managed(manager: Any) -> Any:
    """The manager of a `with`, watched if it may swallow an error."""
    return _Managed(manager) if current_trace() is not None and _may_swallow(manager) else manager


def _may_swallow(manager: Any) -> bool:
    """Whether the `__exit__` of a manager is one of the user's that gives something, the generator behind it has an
    `except`, or it is `contextlib.suppress`.
    """
    kind: Any = type(manager)
    if kind is contextlib.suppress or isinstance(manager, contextlib.ExitStack):
        return True
    generator = getattr(manager, "gen", None) if issubclass(kind, contextlib._GeneratorContextManager) else None  # pyright: ignore[reportPrivateUsage]
    if generator is not None:
        code = getattr(generator, "gi_code", None)
        return isinstance(code, CodeType) and catches(code)
    leave = held_by_class(kind, "__exit__")
    return (
        type(leave) is FunctionType
        and not is_internal(leave.__code__.co_filename)
        and not gives_nothing(leave.__code__)
    )


def caught(error: BaseException | None = None) -> None:
    """An `except` of the function has caught something, or a manager swallowed this error.

    Raises: DimDependent where that may come of it that something was given a symbolic extent; what was caught if NumPy
    would not have raised it, or the trace begins again by it.
    """
    error = sys.exc_info()[1] if error is None else error
    if isinstance(error, BaseExceptionGroup):  # of `except*`
        group: BaseExceptionGroup[Any] = error
        for part in group.exceptions:
            caught(part)
        return
    if isinstance(error, Restart):
        raise error
    if isinstance(error, TracejitError) and current_trace() is not None and is_refusal(error):
        if not isinstance(error, UnsupportedError):  # which is met where it is made
            meet(error)
            raise error
    symbols = symbols_here()
    if symbols:
        raise DimDependent(symbols)


def ended() -> None:
    """A `finally` has raised something: if the trace was about to begin again, it does so, and a refusal stays one."""
    error = sys.exc_info()[1]
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while error is not None:
        if (is_refusal(error) or isinstance(error, Restart)) and _came_through(error, frame):
            raise error
        error = error.__context__


def _came_through(error: BaseException, frame: FrameType) -> bool:
    at = error.__traceback__
    while at is not None and at.tb_frame is not frame:
        at = at.tb_next
    return at is not None


def leaving() -> None:
    """A `finally` leaves by `return`, `break` or `continue`, and with it what was raised, if anything was."""
    if sys.exc_info()[1] is not None:
        caught()
