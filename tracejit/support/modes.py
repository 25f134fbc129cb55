"""What becomes of indices out of range."""

from __future__ import annotations

import enum
from typing import Any

from tracejit.support.errors import ShapeError
from tracejit.support.source import user_location

__all__ = ["GatherScatterMode"]


class GatherScatterMode(enum.Enum):
    """What a gather reads, and a scatter does, where an index is out of range.

    CLIP: it is brought to the nearest one that is not.  FILL_OR_DROP: a gather reads a fill value, a scatter leaves it
    out.  PROMISE_IN_BOUNDS: there is none; where there is, a gather clips and a scatter drops.  ONE_HOT: as
    FILL_OR_DROP, of the functions that take it.

    >>> GatherScatterMode.from_any("drop")
    <GatherScatterMode.FILL_OR_DROP: 2>
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """A mode from itself, its name or None (FILL_OR_DROP).  Raises: ShapeError, a ValueError, for others."""
        if isinstance(mode, GatherScatterMode):
            return mode
        found = _BY_NAME.get(mode) if mode is None or isinstance(mode, str) else None
        if found is None:
            names = ", ".join(f"{name!r}" for name in _BY_NAME if name)
            raise ShapeError(f"a mode of indices out of range is {names}, not {mode!r}", location=user_location())
        return found


_BY_NAME: dict[str | None, GatherScatterMode] = {
    None: GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}
