"""What is known of i64 values from the loops they come from: comparisons and clamps of indices that cannot go out of range fold away."""

from __future__ import annotations

from tracejit.ir.kernel import Const, Operand, Value
from tracejit.ir.types import Extent, surely_at_most

__all__ = ["IndexRanges"]

_Range = tuple[Extent, Extent]  # the least and the greatest value


class IndexRanges:
    """Ranges of loop indices and of what is computed from them by constants.

    folded: how often `fold` found something: then other operations may be dead.
    """

    def __init__(self) -> None:
        self.folded = 0
        self._known: dict[Value, _Range] = {}

    def bind(self, index: Value, lower: Operand, upper: Operand) -> None:
        """Inside of its loop an index is at least `lower` and below `upper`."""
        if isinstance(lower, Const) and isinstance(upper, Const):
            self._known[index] = lower.value, upper.value - 1

    def computed(self, out: Value, name: str, args: tuple[Operand, ...]) -> None:
        """Note that `out = name(*args)`."""
        if name not in ("add", "sub") or out.dtype != "i64":
            return
        a, b = self._of(args[0]), self._of(args[1])
        if a is not None and b is not None:
            self._known[out] = (a[0] + b[0], a[1] + b[1]) if name == "add" else (a[0] - b[1], a[1] - b[0])

    def fold(self, name: str, args: tuple[Operand, ...]) -> Operand | None:
        """The operand that `name(*args)` equals for all values in range; None if that is not one for all."""
        if name not in _FOLDED:
            return None
        found = self._fold(name, args)
        self.folded += found is not None
        return found

    def _fold(self, name: str, args: tuple[Operand, ...]) -> Operand | None:
        if name in ("and", "or"):
            for x, other in ((args[0], args[1]), (args[1], args[0])):
                if isinstance(x, Const) and x.dtype == "bool":
                    return x if x.value == (name == "or") else other
            return None
        if name == "select":
            return (args[1] if args[0].value else args[2]) if isinstance(args[0], Const) else None
        if args[0].dtype != "i64":
            return None
        a, b = self._of(args[0]), self._of(args[1])
        if a is None or b is None:
            return None
        below, above = surely_at_most(a[1] + 1, b[0]), surely_at_most(b[1] + 1, a[0])  # all of a below all of b, and above
        match name:
            case "lt" | "ge" if below or surely_at_most(b[1], a[0]):
                return Const(below == (name == "lt"), "bool")
            case "le" | "gt" if above or surely_at_most(a[1], b[0]):
                return Const(above != (name == "le"), "bool")
            case "eq" | "ne" if below or above:
                return Const(name == "ne", "bool")
            case "min" | "max" if surely_at_most(a[1], b[0]):
                return args[name == "max"]
            case "min" | "max" if surely_at_most(b[1], a[0]):
                return args[name == "min"]
            case _:
                return None

    def _of(self, x: Operand) -> _Range | None:
        return (x.value, x.value) if isinstance(x, Const) else self._known.get(x)


_FOLDED = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "min", "max", "and", "or", "select"})
