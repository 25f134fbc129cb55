"""Axes as users write them."""

from __future__ import annotations

import operator
from typing import SupportsIndex, cast

from tracejit.support.errors import AxisOutOfBounds, TracejitError, TracerError
from tracejit.support.source import user_location
from tracejit.support.typing import AxisLike

__all__ = ["axis_index"]


def axis_index(axis: AxisLike, rank: int, what: str = "an array") -> int:
    """One axis as a non-negative integer.  Raises AxisOutOfBounds if there is no such axis."""
    try:
        k = operator.index(cast("SupportsIndex", axis))
    except TypeError as error:
        if isinstance(error, TracejitError):
            raise
        raise TracerError(f"an axis is an integer, not {axis!r}", location=user_location()) from error
    if not -rank <= k < rank:
        raise AxisOutOfBounds(k, rank, what, location=user_location())
    return k % rank
