"""Blocks that raise whenever they run: where only the program knows whether they do, it raises the exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.bodies import Again
from tracejit.api.handing_on import run_by_python
from tracejit.ir.extents import DimDependent
from tracejit.support.errors import (
    IndexOutOfBounds,
    NegativePower,
    NumberOutOfBounds,
    Restart,
    TracejitError,
    TracerError,
    name_in,
)
from tracejit.support.source import frames_of, located, raised_at, user_location
from tracejit.tracer.bytecode import raises
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import Raised, with_numbers
from tracejit.tracer.numpys_errors import given_a_tracer, numpys_own
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import symbols_here
from tracejit.tracer.traced_text import names_a_tracer

__all__ = ["Raises", "raise_where", "run_block"]


class Raises(Again):
    """A block raises an exception whenever it runs."""

    def __init__(self, block: Callable[[], Any], exception: BaseException) -> None:
        super().__init__()
        self.block = block
        self.exception = with_numbers(exception)


def run_block(block: Callable[[], Any], assigned: Sequence[str] = ()) -> Any:
    """What a block returns.

    Raises: Raises if it ends in an exception that is none of ours, or one that NumPy raises there; DimDependent if the
    former may come of it that something was given a symbolic extent.
    """
    try:
        return run_by_python(block, assigned)
    except _NUMPYS as error:
        raise Raises(block, error) from None
    except TracejitError as error:
        raise Raises(block, numpys_own(error)) from None
    except Exception as error:
        code, place = frames_of(error)[-1]
        trace = current_trace()
        if trace is not None:
            trace.loops.given.check()  # what has changed unseen may be why
        if isinstance(error, NameError):
            if trace is not None and name_in(error) in trace.loops.dropped:
                raise
        elif not raises(code, place):
            if isinstance(error, RecursionError | MemoryError):  # of the trace, not of what is traced
                raise
            symbols = symbols_here()
            if symbols:
                raise DimDependent(symbols) from error
        if names_a_tracer(error):
            raise given_a_tracer(error) from error
        raise Raises(block, error) from None
    except BaseException as error:  # such as that of sys.exit
        if isinstance(error, Restart | Again) or not (isinstance(error, SystemExit) or raises(*frames_of(error)[-1])):
            raise
        raise Raises(block, error) from None


_NUMPYS = IndexOutOfBounds, NumberOutOfBounds, NegativePower
"""Errors of this package for what NumPy and Python refuse too, where it runs."""


def raise_where(condition: Any, raising: Raises) -> None:
    """The program raises an exception where the condition holds.

    Raises: TracerError within a `try` of the user's: its `except` would not see it.
    """
    error = raising.exception
    with located(raised_at(error)):
        if isinstance(error, StopIteration | StopAsyncIteration):
            raise TracerError(
                "whether an iterator ends here is known to the program alone, which takes nothing from iterators; "
                "write the loop as `while`, or yield from a generator",
                location=user_location(),
            ) from error
        OPERATORS.check_none(condition if condition.dtype == np.bool_ else np.not_equal(condition, 0), Raised(error))
