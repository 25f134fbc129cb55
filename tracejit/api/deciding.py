"""What decides: whether Python knows a condition, or only the program does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, has_count
from tracejit.support.errors import ConcretizationError
from tracejit.support.source import user_location
from tracejit.tracer.absence import absence_of, unmarked, used
from tracejit.tracer.current import current_trace
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.places import MISSING, number_said
from tracejit.tracer.recorder import recording
from tracejit.tracer.statements.decisions import CALLS_ITSELF, Site
from tracejit.tracer.substitutes import no_answer
from tracejit.tracer.tracer import Tracer

__all__ = [
    "branching", "condition", "flag", "is_decided", "is_open", "is_taken", "negation", "operand", "python_bool",
    "site_of",
]  # fmt: skip


def is_open(x: Any) -> bool:
    """Whether a condition is known only when the program runs; arrays of several elements are none, as in NumPy."""
    return isinstance(x, Tracer) and x.size == 1 and x.seen().concrete() is None and recording() is not None


def condition(x: Any) -> Any:
    """A value as a condition: one that may be None does not hold then; a computed extent is a number, an object of the
    user's what its `__bool__` says.
    """
    x = operand(x)
    if x is NotImplemented and current_trace() is not None:
        raise no_answer()
    if (said := number_said(x, "__bool__")) is not MISSING:
        x = said
    absence = absence_of(x)
    if isinstance(x, tuple) and x and absence is not None and absence.none:
        return negation(absence.flag)
    if type(x) is not Tracer or absence is None or not absence.none or x.size != 1:
        return x
    return python_bool(np.logical_and(np.not_equal(flag(unmarked(x)), 0), np.logical_not(absence.flag)))


def operand(x: Any) -> Any:
    """A value, of an extent that the program computes the number."""
    return OPERATORS.number_of_extents(x) if isinstance(x, Dim) and has_count(x) else x


def flag(x: Tracer) -> Any:
    """A condition as an array of rank 0."""
    used(x)
    return x if not x.shape else x.reshape(())


def site_of(block: Callable[..., Any]) -> Site:
    """The branch that a block belongs to."""
    return Site(block.__code__, 0, "branch")


def is_decided(site: Site) -> bool:
    """Whether Python has to decide a branch."""
    trace = current_trace()
    return trace is not None and site in trace.loops.python


def is_taken(test: Any, site: Site) -> bool:
    """The truth of a condition that Python decides.

    Raises: ConcretizationError where only the program knows it, and the branch can be none of the program.
    """
    trace = current_trace()
    if trace is None or site not in trace.loops.python or not is_open(test):
        return bool(test)
    test.ask()  # where it follows from numbers among the arguments, the trace starts again for their values
    reason = trace.loops.python[site]
    advice = "; data cannot say how deep a recursion goes: write a loop (`while`), with a stack in an array if need be"
    raise ConcretizationError(
        f"whether a branch is taken has to be known while tracing: {reason}{advice if reason == CALLS_ITSELF else ''}",
        location=user_location(),
    )


def branching(site: Site) -> AbstractContextManager[None]:
    """The sides of a branch are traced in the block."""
    trace = current_trace()
    return nullcontext() if trace is None else trace.loops.branching(site)


def negation(value: Any) -> Any:
    """`not value`."""
    value = condition(value)
    if not is_open(value):
        return not value
    return python_bool(np.logical_not(flag(value)))


def python_bool(x: Any) -> Any:
    """A bool of Python's."""
    if isinstance(x, Tracer):
        x.weaken()
    return x
