"""Why a trace starts again, with more known."""

from __future__ import annotations

from tracejit.support.errors import (
    Restart,
)
from tracejit.support.source import Location

__all__ = ["ChangedLater", "MasksByValue", "NeedStrides", "NeedValue", "SameArray"]


class NeedValue(Restart):
    """The trace needs the value of argument leaf `position`: it restarts with that argument static."""

    def __init__(self, position: int, location: Location | None = None) -> None:
        super().__init__(position)
        self.position = position
        self.location = location


class NeedStrides(Restart):
    """The trace needs the strides of argument leaf `position`: it restarts for arrays that lie in memory like
    that one.
    """

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class SameArray(Restart):
    """Arguments are one array, of which the function changes one and reads the other: pairs (first, again) of traced
    arguments.  The trace starts again with one array for both.
    """

    def __init__(self, pairs: tuple[tuple[int, int], ...]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class MasksByValue(Restart):
    """The shape of x[mask] is wanted, and the mask follows from arrays outside:
    the trace starts again with its value for the mask.
    """


class ChangedLater(Restart):
    """A loop changes an array whose first value the trace of its body has relied on:
    the program has to be traced without that.
    """
