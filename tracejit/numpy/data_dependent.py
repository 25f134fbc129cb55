"""Functions whose results have a shape that depends on values: for values that are known, and refused for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.support.errors import ConcretizationError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result, has_aval
from tracejit.tracer.tracer import Tracer

__all__ = ["MASK", "data_dependent"]

MASK = "index with the mask itself (x[mask] = value), or use np.where(mask, x, other)"


def data_dependent(name: str, advice: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function for values that are known, an error for others."""

    def run(*args: ArrayLike, **kwargs: Any) -> Result:
        try:
            return function(*[np.asarray(a) if isinstance(a, Tracer) or has_aval(a) else a for a in args], **kwargs)
        except ConcretizationError as error:
            raise ConcretizationError(
                f"np.{name} gives a result whose shape depends on values, which are not known while tracing; {advice}",
                location=user_location(),
            ) from error

    return run
