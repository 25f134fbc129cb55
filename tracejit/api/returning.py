"""What a namespace of functions gives outside of traces."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tracejit.api.array import own
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.calls import handed_out
from tracejit.tracer.interpreter import current_interpreter, eager

__all__ = ["returning_arrays"]


def returning_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as users call it: outside of a trace its results are tj.Arrays."""

    @wraps(function)
    def call(*args: ArrayLike, **kwargs: Any) -> Result:
        result = handed_out(function, *args, **kwargs)
        return own(result, args, kwargs) if current_interpreter() is eager else result

    return call
