"""The trace that this thread is in."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tracejit.ir.extents import Count, Extent

if TYPE_CHECKING:
    from tracejit.tracer.trace import Trace

__all__ = ["current_trace", "entered", "give_up", "new_count", "wants_booleans"]

_trace: ContextVar[Trace | None] = ContextVar("tracejit_trace", default=None)


def current_trace() -> Trace | None:
    """The trace this thread is in, None outside."""
    return _trace.get()


@contextmanager
def entered(trace: Trace | None) -> Generator[None]:
    """This thread is in the trace in the block, or in none."""
    token = _trace.set(trace)
    try:
        yield
    finally:
        _trace.reset(token)


def new_count(most: Extent, what: str) -> Count | None:
    """A symbol for a number that the program computes; None outside of a trace."""
    trace = _trace.get()
    if trace is None:
        return None
    trace.loops.indices += 1
    return Count(trace.loops.indices, most, what)


def wants_booleans() -> bool:
    """Whether the function that is traced tells True from other objects."""
    trace = _trace.get()
    return trace is not None and trace.wants_booleans


def give_up(reason: str) -> None:
    """In the body of a loop that is traced once: Python would do something else here than one program for all
    iterations.

    Raises: AsPython there.
    """
    trace = _trace.get()
    if trace is not None:
        trace.loops.give_up(reason)
