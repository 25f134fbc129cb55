"""Ranges of integer values: what is known of indices without running, from extents, loops and constants.

A range is the least and the greatest value, both extents; None is an end that is not known.  Operations on ranges are
those on all values in them; sums of what has no known end may wrap around and are anything.  `IndexRanges` follows the
i64 values of a kernel: comparisons and clamps of indices that cannot go out of range fold away.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from tracejit.ir.extents import Dim, Extent, fits_in_64_bits, greatest_extent, smallest_extent, surely_at_most
from tracejit.ir.kernel import Const, Operand, Value

__all__ = [
    "ANYTHING", "ARGUMENTS", "IndexRanges", "Range", "difference", "either", "fixed",
    "for_all_iterations", "greatest", "least", "negated",
    "power", "product", "quotient", "remainder", "total", "within",
]  # fmt: skip

_End: TypeAlias = Extent | None
Range: TypeAlias = tuple[_End, _End]
ANYTHING: Range = (None, None)
ARGUMENTS = (1 - 2**61, 2**61 - 1)
"""Integers of Python's that are traced as arguments: sums of a few still have 64 bits.  Others are constants
of versions of their own."""


def within(a: Range, low: Extent, high: Extent) -> bool:
    """Whether all values lie between `low` and `high`, both included, for all admissible extents."""
    return a[0] is not None and a[1] is not None and surely_at_most(low, a[0]) and surely_at_most(a[1], high)


def for_all_iterations(a: Range) -> Range:
    """The same without indices of loops: what holds in every iteration."""
    low, high = a
    return (
        smallest_extent(low) if isinstance(low, Dim) else low,
        greatest_extent(high) if isinstance(high, Dim) else high,
    )


def fixed(a: Range) -> Extent | None:
    """The one value of a range, if it has no other."""
    low, high = a
    return low if low is not None and high is not None and surely_at_most(high, low) else None


def total(a: Range, b: Range) -> Range:
    """x + y"""
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        return ANYTHING
    return a[0] + b[0], a[1] + b[1]


def negated(a: Range) -> Range:
    """-x"""
    return ANYTHING if a[0] is None or a[1] is None else (0 - a[1], 0 - a[0])


def difference(a: Range, b: Range) -> Range:
    """x - y"""
    return total(a, negated(b))


def product(a: Range, b: Range) -> Range:
    """x * y where one of them is a known number, or all ends are."""
    if all(isinstance(end, int) for end in (*a, *b)):
        corners = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(corners), max(corners)
    for x, factor in ((a, fixed(b)), (b, fixed(a))):
        if isinstance(factor, int) and x[0] is not None and x[1] is not None:
            return (x[0] * factor, x[1] * factor) if factor >= 0 else (x[1] * factor, x[0] * factor)
    return ANYTHING


def power(a: Range, b: Range) -> Range:
    """x ** y of integers where all ends are known, and y is neither negative nor great."""
    (low, high), (least, most) = a, b
    if not all(isinstance(end, int) for end in (*a, *b)) or not 0 <= least <= most < 64:  # type: ignore[operator]
        return ANYTHING
    if low > 0:  # type: ignore[operator]
        return low**least, high**most  # type: ignore[operator]
    reached = max(-low, high, 1) ** most  # type: ignore[operator, type-var]
    return (-reached if low < 0 else 0), reached  # type: ignore[operator]


def quotient(a: Range, b: Range) -> Range:
    """x // y, rounded down, where y is a known positive number."""
    divisor = fixed(b)
    if not isinstance(divisor, int) or divisor <= 0:
        return ANYTHING
    return None if a[0] is None else a[0] // divisor, None if a[1] is None else a[1] // divisor


def remainder(b: Range) -> Range:
    """x mod y, with y's sign, where y is known and positive."""
    divisor = fixed(b)
    return (0, divisor - 1) if divisor is not None and surely_at_most(1, divisor) else ANYTHING


def _smaller(a: _End, b: _End) -> _End:
    """The smaller of two ends if that can be told."""
    if a is None or b is None:
        return None
    return a if surely_at_most(a, b) else b if surely_at_most(b, a) else None


def _larger(a: _End, b: _End) -> _End:
    if a is None or b is None:
        return None
    return b if surely_at_most(a, b) else a if surely_at_most(b, a) else None


def _first_known(*ends: _End) -> _End:
    return next((e for e in ends if e is not None), None)


def either(a: Range, b: Range) -> Range:
    """x or y"""
    return _smaller(a[0], b[0]), _larger(a[1], b[1])


def least(a: Range, b: Range) -> Range:
    """min(x, y), which is above neither: one known end above is enough."""
    return _smaller(a[0], b[0]), _first_known(_smaller(a[1], b[1]), a[1], b[1])


def greatest(a: Range, b: Range) -> Range:
    """max(x, y)"""
    return _first_known(_larger(a[0], b[0]), a[0], b[0]), _larger(a[1], b[1])


class IndexRanges:
    """Ranges of the integers of a kernel: of loop indices, of dtypes, and of what is computed from them.

    folded: how often `fold` found something: then other operations may be dead.
    """

    def __init__(self) -> None:
        self.folded = 0
        self._known: dict[Value, tuple[Extent, Extent]] = {}

    def bind(self, index: Value, lower: Operand, upper: Operand) -> None:
        """Inside of its loop an index is at least `lower` and below `upper`."""
        first, last = self.of(lower), self.of(upper)
        if first is not None and last is not None:
            self._known[index] = first[0], last[1] - 1

    def bind_between(self, value: Value, low: Extent, high: Extent) -> None:
        """A value is at least `low` and at most `high`."""
        self._known[value] = low, high

    def in_order(self, a: Operand, b: Operand, strict: bool) -> bool:
        """Whether a is surely less than b, or at most that."""
        x, y = self.of(a), self.of(b)
        return x is not None and y is not None and surely_at_most(x[1] + strict, y[0])

    @contextmanager
    def narrowed(self, order: Sequence[tuple[Operand, Operand, bool]]) -> Generator[None]:
        """Where values are known to be in this order: (a, b, whether a is less than b or at most that)."""
        before: list[tuple[Value, tuple[Extent, Extent]]] = []
        for a, b, strict in order:
            x, y = self.of(a), self.of(b)
            if x is None or y is None:
                continue
            for v, (low, high) in (
                (a, (x[0], _least_end(x[1], y[1] - strict))),
                (b, (_greatest_end(y[0], x[0] + strict), y[1])),
            ):
                if isinstance(v, Value) and v in self._known:
                    before.append((v, self._known[v]))
                    self._known[v] = low, high
        try:
            yield
        finally:
            for v, ends in reversed(before):
                self._known[v] = ends

    def computed(self, out: Value, name: str, args: tuple[Operand, ...]) -> Const | None:
        """Note that `out = name(*args)`; the constant that it is, if no other value is in range."""
        rule = _COMPUTED.get(name)
        if rule is None or out.dtype not in _HOLDS:
            return None
        ranges = [self.of(x) for x in args]
        if None in ranges or (
            name not in _OF_EXTENTS and any(not isinstance(end, int) for ends in ranges for end in ends or ())
        ):
            return None
        low, high = rule(*ranges)
        if low is None or high is None or not _fits(low, high, out.dtype):
            return None
        self._known[out] = low, high
        if isinstance(low, int) and isinstance(high, int) and low == high:
            self.folded += 1
            return Const(bool(low) if out.dtype == "bool" else low, out.dtype)
        return None

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
        a, b = self.of(args[0]), self.of(args[1])
        if a is None or b is None:
            return None
        # all of a below all of b, and above
        below, above = _at_most(a[1] + 1, b[0]), _at_most(b[1] + 1, a[0])
        match name:
            case "lt" | "ge" if below or _at_most(b[1], a[0]):
                return Const(below == (name == "lt"), "bool")
            case "le" | "gt" if above or _at_most(a[1], b[0]):
                return Const(above != (name == "le"), "bool")
            case "eq" | "ne" if below or above:
                return Const(name == "ne", "bool")
            case "min" | "max" if _at_most(a[1], b[0]):
                return args[name == "max"]
            case "min" | "max" if _at_most(b[1], a[0]):
                return args[name == "min"]
            case _:
                return None

    def of(self, x: Operand) -> tuple[Extent, Extent] | None:
        """Between which values an operand lies, if that is known."""
        if isinstance(x, Const):
            return (x.value, x.value) if x.dtype in _HOLDS else None
        return self._known.get(x) or _ALL.get(x.dtype)


def _at_most(a: Extent, b: Extent) -> bool:
    """Whether `a <= b`; a few extents together are less than 2**62."""
    if isinstance(a, Dim) and isinstance(b, int) and b >= 2**62:
        return all(len(monomial) <= 1 and abs(factor) < 2**10 for monomial, factor in a.terms[:8]) and len(a.terms) <= 8
    return surely_at_most(a, b)


def _least_end(a: Extent, b: Extent) -> Extent:
    """The lesser end if that can be told, else the first."""
    return b if surely_at_most(b, a) else a


def _greatest_end(a: Extent, b: Extent) -> Extent:
    return b if surely_at_most(a, b) else a


def _fits(low: Extent, high: Extent, dtype: str) -> bool:
    """Whether a dtype holds a range; products of extents are taken for sizes of arrays."""
    least, greatest = _HOLDS[dtype]
    return all(
        least <= end <= greatest if isinstance(end, int) else dtype == "i64" and fits_in_64_bits(end, [end])
        for end in (low, high)
    )


def _masked(a: Range, b: Range) -> Range:
    """x & y"""
    ends = [high for low, high in (a, b) if low is not None and surely_at_most(0, low)]
    return ANYTHING if not ends else (0, least((0, ends[0]), (0, ends[-1]))[1])


def _shifted(a: Range, b: Range) -> Range:
    """x >> y for a known y"""
    by = fixed(b)
    if not isinstance(by, int) or not 0 <= by < 64:
        return ANYTHING
    return quotient(a, (2**by, 2**by))


def _divided(a: Range, b: Range) -> Range:
    """x / y, rounded towards zero, of what is not negative"""
    return quotient(a, b) if a[0] is not None and surely_at_most(0, a[0]) else ANYTHING


def _times(a: Range, b: Range) -> Range:
    """x * y of known numbers"""
    ends = [x * y for x in a for y in b if isinstance(x, int) and isinstance(y, int)]
    return (min(ends), max(ends)) if len(ends) == 4 else ANYTHING


def _rest(a: Range, b: Range) -> Range:
    """What remains of x / y, with the sign of x"""
    divisor = fixed(b)
    if not isinstance(divisor, int) or divisor <= 0:
        return ANYTHING
    return 0 if a[0] is not None and surely_at_most(0, a[0]) else 1 - divisor, divisor - 1


def _differing(a: Range, b: Range) -> Range:
    """x ^ y, which has no sign and no more bits than the longer one where neither has a sign.  Extents are i64."""
    signless = all(low is not None and surely_at_most(0, low) for low, _ in (a, b))
    bits = max(high.bit_length() if isinstance(high, int) else 63 for _, high in (a, b))
    return (0, 2**bits - 1) if signless else ANYTHING


_COMPUTED: dict[str, Callable[..., Range]] = {
 "convert": lambda a: a, "add": total, "sub": difference, "mul": _times, "min": least, "max": greatest,
    "and": _masked, "xor": _differing,
    "shr": _shifted, "lshr": lambda a, b: _shifted(a, b) if a[0] is not None and surely_at_most(0, a[0]) else ANYTHING,
    "idiv": _divided, "irem": _rest, "select": lambda _, a, b: either(a, b),
}  # fmt: skip
"""How the range of a result follows from those of the operands, for operations of `ir.scalar`."""

_OF_EXTENTS = frozenset({"add", "sub", "convert", "and", "xor"})
"""Those that are computed of symbolic extents too."""

_HOLDS: dict[str, tuple[int, int]] = {"bool": (0, 1)}
for _bits in (8, 16, 32, 64):
    _HOLDS[f"i{_bits}"] = -(2 ** (_bits - 1)), 2 ** (_bits - 1) - 1
    _HOLDS[f"u{_bits}"] = 0, 2**_bits - 1
"""The values of each dtype."""
_ALL: dict[str, tuple[Extent, Extent]] = {dtype: ends for dtype, ends in _HOLDS.items() if dtype != "i64"}
"""Those that count: an i64 may be a sum of extents, which are compared with nothing less than what else is known
of it."""

_FOLDED = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "min", "max", "and", "or", "select"})
