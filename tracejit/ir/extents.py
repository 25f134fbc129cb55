"""Extents of arrays: integers, or polynomials of symbols (`Dim`) with what is known of their values."""

from __future__ import annotations

import itertools
import math
import numbers
import operator
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np

from tracejit.support.digest import fingerprint
from tracejit.support.errors import Restart
from tracejit.support.nodes import Undecided, frozen
from tracejit.support.source import is_internal

__all__ = [
    "ASKED",
    "Count",
    "Dim",
    "DimDependent",
    "Extent",
    "Index",
    "NUMBERS",
    "Shape",
    "affine",
    "decided_from",
    "evaluate",
    "is_asked_by_the_user",
    "exceeds",
    "fits_in_64_bits",
    "greater_extent",
    "greatest_extent",
    "has_count",
    "has_index",
    "held",
    "is_decided_for_large",
    "index_number",
    "is_empty",
    "is_one",
    "on_behalf",
    "operations",
    "prod",
    "same_extent",
    "same_shape",
    "smaller_extent",
    "smallest_extent",
    "solved",
    "spreads",
    "substituted",
    "surely_at_most",
]


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class DimDependent(Restart, Undecided):
    """A decision depends on the value of symbolic extents: the trace restarts with these symbols fixed.

    periods: by what symbols need only be known modulo, for a decision that depends on remainders alone.  difference:
    of what was compared.
    """

    def __init__(
        self, symbols: frozenset[str], periods: Mapping[str, int] | None = None, difference: Extent | None = None
    ) -> None:
        super().__init__(f"the value of {', '.join(sorted(symbols))} is needed while tracing")
        self.symbols = symbols
        self.periods = periods or {}
        self.difference = difference


class Numbers:
    """How a program knows extents as numbers: NumPy's layer tells, before anything is traced."""

    of: Callable[[Dim], Any]


NUMBERS = Numbers()

LARGE = 16
"""The least extent of a symbol `large0`: slices that leave out a few elements at the ends are decided for such
extents."""


class Index(str):
    """A symbol that the program binds, as the index of a loop is: from 0 to `most`, an extent that may have others,
    bound before.

    Of two indices the one with the greater number is further inside.  What is decided of an extent, and kept, follows
    from `most`: so that is in the name.
    """

    most: Extent
    used: bool
    """Whether it is in an extent."""

    def __new__(cls, number: int, most: Extent) -> Self:
        last = f"x{fingerprint(str(most))[:10]}" if isinstance(most, Dim) else f"to{most}".replace("-", "m")
        made = super().__new__(cls, f"index{number}{last}")
        made.most = most
        made.used = False
        return made

    @property
    def number(self) -> int:
        return index_number(self)


class Count(Index):
    """A symbol for a number that the program computes, as how many elements a mask selects: from 0 to `most`.

    what: what it is the number of, in messages.
    """

    what: str

    def __new__(cls, number: int, most: Extent, what: str = "what it selects") -> Self:
        made = super().__new__(cls, number, most)
        made.what = what
        return made


def index_number(symbol: str) -> int:
    """The number of an index, of its name."""
    return int(symbol[len("index") :].partition("to")[0].partition("x")[0])


@frozen(eq=False)
class Dim:
    """A canonical integer polynomial over named extents, each known to be at least 2,
    or more if its name says so (`least_extent`), and over indices of loops (`Index`).

    terms: ((monomial, coefficient), ...), sorted; a monomial is a sorted tuple of atoms; an atom is a symbol's name or
    ("floordiv" | "mod" | "max" | "min", a, b).  Arithmetic gives `int` where the symbols cancel.  A comparison that
    holds or fails for all admissible extents is decided; any other raises `DimDependent`.
    """

    terms: tuple[tuple[tuple[Any, ...], int], ...]

    @staticmethod
    def symbol(name: str) -> Dim:
        return Dim((((name,), 1),))

    @property  # pyright: ignore[reportIncompatibleMethodOverride]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
        """For a function that is traced, whose globals are no dict, a Python integer's."""
        return Dim if type(sys._getframe(1).f_globals) is dict else int  # pyright: ignore[reportPrivateUsage]

    def symbols(self) -> frozenset[str]:
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    for part in atom[1:]:
                        found |= part.symbols() if isinstance(part, Dim) else set()
        return frozenset(found)

    def _specialise(self, other: object = None, modulo: object = None) -> Any:
        """An operation whose result is not an extent needs the value;
        what is not a number (a traced array) takes over itself.
        """
        if other is None or isinstance(other, (int, float, complex, np.number, Dim)):
            raise DimDependent(self.symbols() | (other.symbols() if isinstance(other, Dim) else frozenset()))
        return NotImplemented

    def _as_number(self, operation: str, other: Any) -> Any:
        """An operation whose result is no extent: the program computes it from the index of a loop, other extents are
        fixed.
        """
        if not has_index(self) and not has_index(other):
            return self._specialise(other)
        if not isinstance(other, (int, float, complex, np.number, Dim)):
            return NotImplemented
        return getattr(NUMBERS.of(self), operation)(NUMBERS.of(other) if isinstance(other, Dim) else other)

    def __add__(self, other: Extent) -> Extent:
        return _collect(_terms(self) + _terms(other)) if _is_extent(other) else self._as_number("__add__", other)

    __radd__ = __add__

    def __neg__(self) -> Extent:
        return _collect([(m, -c) for m, c in self.terms])

    def __sub__(self, other: Extent) -> Extent:
        return (
            _collect(_terms(self) + [(m, -c) for m, c in _terms(other)])
            if _is_extent(other)
            else self._as_number("__sub__", other)
        )

    def __rsub__(self, other: Extent) -> Extent:
        return (
            _collect(_terms(other) + [(m, -c) for m, c in self.terms])
            if _is_extent(other)
            else self._as_number("__rsub__", other)
        )

    def __mul__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._as_number("__mul__", other)
        return _collect([(tuple(sorted(a + b, key=_by_text)), c * d) for a, c in self.terms for b, d in _terms(other)])

    __rmul__ = __mul__

    def __floordiv__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._as_number("__floordiv__", other)
        other = other if isinstance(other, Dim) else int(other)
        if _negative(other):
            return -self // -other
        exact = _divide(self, other)
        if exact is not None:
            return exact
        if type(other) is int and (quotient := _quotient(self)) is not None:
            (above, below), added = quotient
            return (above + added * below) // (below * other)
        whole, rest = _whole(self, other)
        return whole + (Dim((((("floordiv", rest, other),), 1),)) if isinstance(rest, Dim) else rest // other)

    def __rfloordiv__(self, other: int) -> Extent:
        return -other // -self if _negative(self) else Dim((((("floordiv", other, self),), 1),))

    def __mod__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._as_number("__mod__", other)
        other = other if isinstance(other, Dim) else int(other)
        if _negative(other):
            return -(-self % -other)
        _, rest = _whole(self, other)
        if isinstance(rest, Dim):
            return 0 if _divide(rest, other) is not None else Dim((((("mod", rest, other),), 1),))
        return rest % other

    def __rmod__(self, other: int) -> Extent:
        return -(-other % -self) if _negative(self) else Dim((((("mod", other, self),), 1),))

    def __divmod__(self, other: Extent) -> tuple[Extent, Extent]:
        if not _is_extent(other):
            return self._as_number("__divmod__", other)
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self._as_number("__truediv__", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._as_number("__rtruediv__", other)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if isinstance(other, int) and 0 <= other <= 4 and modulo is None and has_index(self):
            return prod([self] * other)
        return self._specialise(other) if modulo is not None else self._as_number("__pow__", other)

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        return self._specialise(other) if modulo is not None else self._as_number("__rpow__", other)

    __rdivmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _specialise
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __trunc__ = __floor__ = __ceil__ = (
        __complex__
    ) = _specialise

    def __round__(self, digits: int | None = None) -> Extent:
        return self if digits is None or (type(digits) is int and digits >= 0) else self._specialise()

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Extent:
        return self if self >= 0 else -self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._specialise()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in inputs:
            if (
                not isinstance(x, Dim)
                and hasattr(type(x), "__array_ufunc__")
                and not isinstance(x, (np.ndarray, np.generic))
            ):
                return NotImplemented
        if any(isinstance(x, Dim) and has_count(x) for x in inputs):
            return getattr(ufunc, method)(*[NUMBERS.of(x) if isinstance(x, Dim) else x for x in inputs], **kwargs)
        return self._specialise()

    def maximum(self, other: Extent) -> Extent:
        low, high = _bounds(self - other)
        if low is not None and low >= 0:
            return self
        if high is not None and high <= 0:
            return other
        return Dim((((("max", self, other),), 1),))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            if self.same(other):
                return True
        elif isinstance(other, (float, complex)):
            if other.imag or not float(other.real).is_integer():
                return False
            other = int(other.real)
        elif isinstance(other, np.integer) and is_asked_by_the_user():
            return self._as_number("__eq__", other)
        elif not isinstance(other, (int, np.integer)):
            # Python's other numbers, as of `fractions`, compare with integers
            return bool(self._specialise() == other) if isinstance(other, numbers.Number) else NotImplemented
        difference = self - cast("Extent", other)
        low, high = _bounds(difference)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        if low == high == 0:
            return True
        if has_count(difference) and is_asked_by_the_user():
            return _in_the_program("__eq__", self, other)
        raise _undecided(self, other, difference)

    def __ne__(self, other: object) -> bool:
        if isinstance(other, np.integer) and is_asked_by_the_user():
            return self._as_number("__ne__", other)
        try:
            return not self == other
        except DimDependent:
            if (not has_count(self) and not has_count(cast("Extent", other))) or not is_asked_by_the_user():
                raise
            return _in_the_program("__ne__", self, other)

    def same(self, other: object) -> bool:
        """Structural equality, never undecided."""
        if not isinstance(other, Dim) or len(self.terms) != len(other.terms):
            return False
        return self is other or all(
            c == d and len(a) == len(b) and all(map(_same_atom, a, b))
            for (a, c), (b, d) in zip(self.terms, other.terms, strict=True)
        )

    def __hash__(self) -> int:
        # a key of the user's, which is a number
        return self._specialise() if is_asked_by_the_user() else hash(_told_apart(self.terms))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._specialise() if is_asked_by_the_user() else super().__reduce_ex__(protocol)

    def _ordered(self, name: str, other: Extent, *, sign: int, strict: bool) -> bool:
        if not _is_extent(other, 4):
            return self._as_number(name, other)
        difference = (self - other) * sign
        low, high = _bounds(difference)
        edge = 1 if strict else 0
        if low is not None and low >= edge:
            return True
        if high is not None and high < edge:
            return False
        if has_count(difference) and is_asked_by_the_user(3):
            return _in_the_program(name, self, other)
        raise _undecided(self, other, difference)

    def __ge__(self, other: Extent) -> bool:
        return self._ordered("__ge__", other, sign=1, strict=False)

    def __gt__(self, other: Extent) -> bool:
        return self._ordered("__gt__", other, sign=1, strict=True)

    def __le__(self, other: Extent) -> bool:
        return self._ordered("__le__", other, sign=-1, strict=False)

    def __lt__(self, other: Extent) -> bool:
        return self._ordered("__lt__", other, sign=-1, strict=True)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise DimDependent(self.symbols())

    __int__ = __index__

    def __float__(self) -> float:
        raise DimDependent(self.symbols())

    def __getattr__(self, name: str) -> Any:
        if name in _OF_INTEGERS:
            return self._specialise()
        raise AttributeError(name)

    def __format__(self, spec: str) -> str:
        if spec or is_asked_by_the_user():
            return format(NUMBERS.of(self), spec) if has_count(self) else self._specialise()
        return str(self)

    def __str__(self) -> str:
        if is_asked_by_the_user():
            return str(NUMBERS.of(self)) if has_count(self) else self._specialise()
        return self.spelt()

    def spelt(self) -> str:
        """The text of the polynomial."""

        def operand(x: Any) -> str:
            return x.spelt() if isinstance(x, Dim) else str(x)

        def atom(a: Any) -> str:
            if isinstance(a, str):
                return a
            name, x, y = a
            return f"{name}({operand(x)}, {operand(y)})"

        out: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [atom(a) for a in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            out.append("*".join(factors))
        return "+".join(out).replace("+-", "-")

    __repr__ = __str__


_OF_INTEGERS = frozenset({
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "imag", "is_integer", "numerator",
    "real", "to_bytes",
})  # fmt: skip


def _in_the_program(name: str, a: Dim, b: Any) -> Any:
    """A comparison of the user's that the program makes: of a number that it computes."""
    return getattr(NUMBERS.of(a), name)(NUMBERS.of(b) if isinstance(b, Dim) else b)


class _Asked(threading.local):
    text = False


ASKED = _Asked()
"""text: whether text is made for a traced function, by functions of this package that stand for Python's."""


_ON_BEHALF: dict[int, Any] = {}
"""Code of functions of this package that do what the user's code asks them to, by identity."""


def on_behalf(function: F) -> F:
    """A function whose operators are those of the code that calls it: the statements of traced functions call some."""
    code = function.__code__
    _ON_BEHALF[id(code)] = code
    return function


def is_asked_by_the_user(depth: int = 2) -> bool:
    """Whether it is a traced function that asks for a key or for text, directly or through a library:
    this package keeps symbols.
    """
    if ASKED.text:
        return True
    frame: Any = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]
    while id(frame.f_code) in _ON_BEHALF and frame.f_back is not None:
        frame = frame.f_back
    if is_internal(frame.f_code.co_filename):
        return False
    while frame is not None:
        # a redirected function, or what traces it
        if type(frame.f_globals) is not dict or is_internal(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


Extent: TypeAlias = int | Dim
Shape: TypeAlias = tuple[Extent, ...]


def _quotient(x: Dim) -> tuple[tuple[Extent, int], int] | None:
    """((a, b), c) of a // b + c, where b is a positive number, so that another division makes one of both."""
    atoms = [(monomial, count) for monomial, count in x.terms if monomial]
    if len(atoms) != 1 or atoms[0][1] != 1 or len(atoms[0][0]) != 1:
        return None
    (atom,) = atoms[0][0]
    if isinstance(atom, str) or atom[0] != "floordiv" or type(atom[2]) is not int or atom[2] <= 0:
        return None
    return (atom[1], atom[2]), sum(count for monomial, count in x.terms if not monomial)


def _is_extent(x: object, depth: int = 3) -> bool:
    """Whether an operation of an extent and this is one.  With a user's NumPy integer its result is NumPy's."""
    return isinstance(x, (int, Dim)) or (isinstance(x, np.integer) and not is_asked_by_the_user(depth))


USUAL = 2**31
FAR = 2**40  # a step that leads beyond the end of any array
"""Below this an extent is taken to be, for numbers computed from extents."""
_MOST_ELEMENTS = 2**47


def fits_in_64_bits(x: Dim, sizes: Iterable[Extent] = ()) -> bool:
    """Whether a number computed from extents has at most 64 bits, if each is below `USUAL` and arrays have these sizes.

    >>> n = Dim.symbol("n")
    >>> fits_in_64_bits(n * (n - 1)), fits_in_64_bits(n * n * n), fits_in_64_bits(n * n * n, [n * n * n])
    (True, False, True)
    """
    known = [monomial for size in sizes for monomial, _ in _terms(size)]

    def most(monomial: tuple[Any, ...]) -> int:
        found = 1
        for atom in monomial:
            parts = (atom,) if isinstance(atom, str) else atom[1 : 3 if atom[0] in ("max", "min") else 2]
            found *= max(USUAL if isinstance(part, str) else limit(part) for part in parts)
        if all(isinstance(a, str) for a in monomial) and any(
            all(monomial.count(a) <= size.count(a) for a in monomial) for size in known
        ):
            return min(found, _MOST_ELEMENTS)
        return found

    def limit(x: Extent) -> int:
        return sum(abs(c) * most(monomial) for monomial, c in _terms(x))

    return limit(x) < 2**63


def _terms(x: Extent) -> list[tuple[tuple[Any, ...], int]]:
    return list(x.terms) if isinstance(x, Dim) else ([((), int(x))] if x else [])


def _collect(terms: Iterable[tuple[tuple[Any, ...], int]]) -> Extent:
    total: dict[tuple[Any, ...], int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    quotients = sum(1 for m, c in total.items() if c for a in m if type(a) is tuple and a[0] == "floordiv")
    if quotients > 1:
        whole = _added_up(total)
        if whole is not None:
            return whole
    kept = sorted(((m, c) for m, c in total.items() if c), key=lambda mc: (-len(mc[0]), _spelt(mc[0])))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Dim(tuple(kept))


def _spelt(x: Any) -> str:
    """The text of what an extent is made of, by which its parts are in order."""
    if isinstance(x, Dim):
        return x.spelt()
    if type(x) is not tuple:
        return repr(x)
    return f"({', '.join(map(_spelt, x))}{',' if len(x) == 1 else ''})"  # pyright: ignore[reportUnknownArgumentType]


def _by_text(atom: Any) -> str:
    """In which order atoms are multiplied."""
    return atom if isinstance(atom, str) else _spelt(atom)


def _added_up(total: Mapping[tuple[Any, ...], int]) -> Extent | None:
    """A sum in which parts that make up a whole, n // 2 and (n + 1) // 2, are one; None if there are none.

    Source: Hermite's identity: n // d + (n + 1) // d + ... + (n + d - 1) // d = n for a positive d.
    """
    parts: dict[Any, dict[int, tuple[Any, Extent, tuple[Any, ...]]]] = {}
    for monomial, coefficient in total.items():
        for place, atom in enumerate(monomial):
            if coefficient and type(atom) is tuple and atom[0] == "floordiv" and type(atom[2]) is int and atom[2] > 1:
                constant = sum(c for m, c in _terms(atom[1]) if not m)
                others = monomial[:place] + monomial[place + 1 :]
                key = atom[2], coefficient > 0, _spelt(others), _spelt(atom[1] - constant)
                parts.setdefault(key, {})[constant] = monomial, atom[1], others
    for (divisor, *_), found in parts.items():
        first = min(found)
        if any(first + k not in found for k in range(divisor)):
            continue
        monomials = [found[first + k][0] for k in range(divisor)]
        count = min([total[m] for m in monomials], key=abs)
        rest = dict(total)
        for m in monomials:
            rest[m] -= count
        _, whole, others = found[first]
        return _collect(
            [*rest.items(), *[(tuple(sorted(others + m, key=_by_text)), c * count) for m, c in _terms(whole)]]
        )
    return None


def _undecided(a: Dim, b: Any, difference: Extent) -> DimDependent:
    """The error of a comparison.  A difference that takes few values depends on remainders."""
    periods: dict[str, int] = {}
    if None not in _bounds(difference):
        rest, _ = _without(difference, "floordiv")
        for m, _ in _terms(rest):
            for atom in m:
                if not isinstance(atom, str):
                    _add_periods(Dim((((atom,), 1),)), 1, periods)
    return DimDependent(a.symbols() | (b.symbols() if isinstance(b, Dim) else frozenset()), periods, difference)


def _add_periods(x: Extent, divisor: int, periods: dict[str, int]) -> None:
    """By what the symbols of x must be known modulo, for x to be known modulo `divisor`; into `periods`."""
    for m, _ in _terms(x):
        for atom in m:
            if isinstance(atom, str):
                periods[atom] = math.lcm(periods.get(atom, 1), divisor)
            elif atom[0] in ("max", "min"):
                _add_periods(atom[1], divisor, periods)
                _add_periods(atom[2], divisor, periods)
            elif not isinstance(atom[2], Dim):
                _add_periods(atom[1], divisor * int(atom[2]), periods)


def _negative(divisor: Extent) -> bool:
    """Whether a divisor is negative: atoms have positive ones only.  Raises ZeroDivisionError;
    DimDependent where it may be zero.
    """
    if divisor == 0:
        raise ZeroDivisionError("division of an extent by zero")
    return divisor < 0


def _same_atom(a: Any, b: Any) -> bool:
    """Whether two atoms are certainly equal; their parts are compared as written, never by value."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return a[0] == b[0] and same_extent(a[1], b[1]) and same_extent(a[2], b[2])


def _divide(a: Dim, b: Extent) -> Extent | None:
    """a / b where it is exact term by term (b an integer or a single monomial)."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if a.same(b) else None
    (monomial, coefficient), out = divisor[0], cast("list[tuple[tuple[Any, ...], int]]", [])
    for m, c in a.terms:
        rest = list(m)
        for atom in monomial:
            at = next((n for n, other in enumerate(rest) if _same_atom(atom, other)), None)
            if at is None:
                return None
            del rest[at]
        if c % coefficient:
            return None
        out.append((tuple(rest), c // coefficient))
    return _collect(out)


def _bounds(x: Extent) -> tuple[int | None, int | None]:
    """(least, greatest) value over admissible extents, or further apart; None where unbounded or unknown.

    A quotient is also seen as (a - mod(a, k)) / k, and a remainder as a - k*floordiv(a, k): of `n - floordiv(n, 2)` the
    first view shows that it is positive, of `n - mod(n, 8)` the second.
    """
    if not isinstance(x, Dim):
        return int(x), int(x)
    low, high = _bounds_as_written(x)
    for kind in ("floordiv", "mod"):
        other, factor = _without(x, kind)
        if other is not x:
            least, greatest = _bounds_as_written(other)
            low = max((n for n in (low, None if least is None else -(-least // factor)) if n is not None), default=None)
            high = min(
                (n for n in (high, None if greatest is None else greatest // factor) if n is not None), default=None
            )
    return low, high


def _without(x: Extent, kind: str) -> tuple[Extent, int]:
    """(factor * x, factor), with remainders in place of quotients by positive numbers (kind "floordiv"),
    or the other way round ("mod").
    """
    factor = 1
    while isinstance(x, Dim):
        atoms = [a for m, _ in x.terms for a in m if not isinstance(a, str) and a[0] == kind]
        found = [a for a in atoms if isinstance(a[2], (int, np.integer)) and a[2] > 0]
        if not found:
            break
        _, a, k = atom = found[0]
        times = {m: sum(_same_atom(atom, f) for f in m) for m, _ in x.terms}
        scale, power = (int(k), max(times.values())) if kind == "floordiv" else (1, 0)
        value = a - a % k if kind == "floordiv" else a - k * (a // k)
        total: Extent = 0
        for m, c in x.terms:
            rest = tuple([f for f in m if not _same_atom(atom, f)])
            term = _collect([(rest, c * scale ** (power - times[m]))]) if kind == "floordiv" else _collect([(rest, c)])
            for _ in range(times[m]):
                term = term * value
            total = total + term
        x, factor = total, factor * scale**power
    return x, factor


_BOXED = 6  # atoms whose least and greatest values are both tried


def _bounds_as_written(x: Extent) -> tuple[int | None, int | None]:
    """Bounds of a polynomial whose atoms vary independently, each from its least to its greatest value.

    An atom in a finite range that occurs at most once in each term takes both ends: there lie the extrema of what is
    linear in it.  Every other is written least + t with t >= 0; with all coefficients of one sign after that the
    constant is the bound.
    """
    if not isinstance(x, Dim):
        return int(x), int(x)
    found = _between_ends(x)
    if found is not None:
        return found
    ranges: dict[Any, tuple[int, int | None]] = {}
    for monomial, _ in x.terms:
        for a in monomial:
            low, high = _range(a)
            if low is None:
                return None, None
            ranges[a] = low, high
    repeated = {a for m, _ in x.terms for n, a in enumerate(m) if any(_same_atom(a, f) for f in m[:n])}
    boxed = [a for a, (_, high) in ranges.items() if high is not None and a not in repeated][:_BOXED]
    lows: list[int | None] = []
    highs: list[int | None] = []
    for ends in itertools.product(*[cast("tuple[int, int]", ranges[a]) for a in boxed]):
        fixed = dict(zip(boxed, ends, strict=True))
        shifted: dict[tuple[Any, ...], int] = {}
        for monomial, coefficient in x.terms:
            coefficient *= math.prod(fixed[a] for a in monomial if a in fixed)
            free = tuple([a for a in monomial if a not in fixed])
            for subset in range(1 << len(free)):
                left = tuple(a for n, a in enumerate(free) if subset >> n & 1)
                constants = math.prod(ranges[a][0] for n, a in enumerate(free) if not subset >> n & 1)
                shifted[left] = shifted.get(left, 0) + coefficient * constants
        constant = shifted.pop((), 0)
        signs = [c for c in shifted.values() if c]
        lows.append(constant if all(c > 0 for c in signs) else None)
        highs.append(constant if all(c < 0 for c in signs) else None)
    return (
        None if None in lows else min(cast("list[int]", lows)),
        None if None in highs else max(cast("list[int]", highs)),
    )


def _between_ends(x: Dim) -> tuple[int | None, int | None] | None:
    """Bounds of what rises or falls with the index of a loop: they lie where the loop begins and where it ends."""
    for index in _indices(x):
        ends = _ends(x, index)
        if ends is not None:
            return _bounds_as_written(ends[0])[0], _bounds_as_written(ends[1])[1]
    return None


def _indices(x: Dim) -> list[Index]:
    """The indices of loops in an extent, those further inside first."""
    found = {a for m, _ in x.terms for a in m if isinstance(a, Index)}
    return sorted(found, key=lambda a: a.number, reverse=True)


def _ends(x: Dim, index: Index) -> tuple[Extent, Extent] | None:
    """(the least, the greatest) of what is linear in an index, if it is known whether it rises or falls."""
    slope: Extent = 0
    rest: Extent = 0
    for m, c in x.terms:
        if m.count(index) > 1:
            return None
        if index in m:
            slope = slope + _collect([(tuple([a for a in m if not _same_atom(a, index)]), c)])
        else:
            rest = rest + _collect([(m, c)])
    low, high = _bounds_as_written(slope)
    last = rest + slope * index.most
    if low is not None and low >= 0:
        return rest, last
    return (last, rest) if high is not None and high <= 0 else None


def _told_apart(x: Any) -> Any:
    """What extents are made of, without the one pair of integers that has the same hash: extents that are not equal
    can often not be compared, so dicts of them should never have to.
    """
    if isinstance(x, int):
        return 2 * x
    return tuple(map(_told_apart, x)) if isinstance(x, tuple) else x


def is_decided_for_large(x: Extent) -> bool:
    """Whether a number is known to be 0, or above or below, once the sizes of arguments are large."""
    if not isinstance(x, Dim):
        return True
    every = set(x.symbols())
    for index in _indices(x):
        every |= index.most.symbols() if isinstance(index.most, Dim) else set[str]()
    larger: dict[str, Extent] = {s: Dim.symbol(f"large{s[1:]}") for s in every if s.startswith("n")}
    if not larger:
        return False
    for index in reversed(_indices(x)):
        larger[index] = Dim.symbol(Index(index.number, substituted(index.most, larger)))
    low, high = _bounds(substituted(x, larger))
    return (low is not None and low > 0) or (high is not None and high < 0) or low == high == 0


def decided_from(x: Extent, index: Index) -> tuple[int, int] | None:
    """(first, last): of a number that depends on an index it is known whether it is 0, or above or below, once so many
    iterations at the beginning and the end are left out; None where it is not known of a few.
    """
    for both in range(1, _MOST_APART + 1):
        for first, last in ((both, 0), (0, both), (both, both)):
            most = index.most - first - last
            if isinstance(most, int) and most < 0:
                continue
            rest = Index(index.number, most)
            low, high = _bounds(substituted(x, {index: Dim.symbol(rest) + first}))
            if (low is not None and low > 0) or (high is not None and high < 0):
                return first, last
    return None


_MOST_APART = 3


def greatest_extent(x: Extent) -> Extent:
    """An extent without indices of loops that no value of it exceeds: how much memory it may need."""
    while isinstance(x, Dim) and (inside := _every_index(x)):
        x = _limits(x, max(inside, key=lambda a: a.number))[1]
    return x


def smallest_extent(x: Extent) -> Extent:
    """An extent without indices of loops that is never greater."""
    while isinstance(x, Dim) and (inside := _every_index(x)):
        x = _limits(x, max(inside, key=lambda a: a.number))[0]
    return x


def has_index(x: Extent) -> bool:
    """Whether an extent depends on the index of a loop."""
    return bool(_every_index(x))


def has_count(x: Extent) -> bool:
    """Whether an extent depends on a number that the program computes."""
    return any(isinstance(a, Count) for a in x.symbols()) if isinstance(x, Dim) else False


def _every_index(x: Extent) -> list[Index]:
    return [a for a in x.symbols() if isinstance(a, Index)] if isinstance(x, Dim) else []


def exceeds(m: Extent, n: Extent) -> bool:
    """Whether one extent is greater than another: not so where only the index of a loop tells, of which no iteration
    runs that would make it so.
    """
    try:
        return m > n
    except DimDependent as decision:
        if any(isinstance(a, Index) for a in decision.symbols):
            return False
        raise


def _limits(x: Extent, index: Index) -> tuple[Extent, Extent]:
    """Between which extents without an index another lies.  Its atoms are taken to be at least 0."""
    if not isinstance(x, Dim) or index not in x.symbols():
        return x, x
    nested = any(not isinstance(a, str) and index in Dim((((a,), 1),)).symbols() for m, _ in x.terms for a in m)
    ends = None if nested else _ends(x, index)
    if ends is not None:
        return ends
    low: Extent = 0
    high: Extent = 0
    for m, c in x.terms:
        least: Extent = 1
        most: Extent = 1
        for a in m:
            bottom, top = _limits_of_atom(a, index)
            least, most = least * bottom, most * top
        low, high = (low + least * c, high + most * c) if c > 0 else (low + most * c, high + least * c)
    return low, high


def _limits_of_atom(atom: Any, index: Index) -> tuple[Extent, Extent]:
    if isinstance(atom, str):
        return (0, index.most) if atom == index else (Dim.symbol(atom), Dim.symbol(atom))
    (low, high), (small, large) = _limits(atom[1], index), _limits(atom[2], index)
    if atom[0] == "max":
        return greater_extent(low, small), greater_extent(high, large)
    if atom[0] == "min":
        return smaller_extent(low, small), smaller_extent(high, large)
    return (0, large - 1) if atom[0] == "mod" else (low // large, high // small)


def smaller_extent(a: Extent, b: Extent) -> Extent:
    """The lesser of two extents."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return min(a, b)
    if not isinstance(a, Dim):
        a, b = b, a
    assert isinstance(a, Dim)
    low, high = _bounds(a - b)
    if low is not None and low >= 0:
        return b
    return a if high is not None and high <= 0 else Dim((((("min", a, b),), 1),))


def greater_extent(a: Extent, b: Extent) -> Extent:
    """The greater of two extents."""
    if isinstance(a, Dim):
        return a.maximum(b)
    return b.maximum(a) if isinstance(b, Dim) else max(a, b)


def steps_over(distance: Extent, stride: int) -> Extent:
    """How many steps of `stride` begin within a distance; sums with a very long one would go beyond 64 bits."""
    if stride == 1:
        return distance
    if stride >= FAR and isinstance(distance, Dim):
        return smaller_extent(distance, 1)
    return (distance + (stride - 1)) // stride


def substituted(x: Extent, values: Mapping[str, Extent]) -> Extent:
    """An extent with others in place of some of its symbols."""
    if not isinstance(x, Dim) or x.symbols().isdisjoint(values):
        return x

    def leaf(a: int | str) -> Extent:
        return a if isinstance(a, int) else values[a] if a in values else Dim.symbol(a)

    def apply(name: str, p: Extent, q: Extent) -> Extent:
        if name in ("max", "min"):
            return (greater_extent if name == "max" else smaller_extent)(p, q)
        return _OPERATIONS[name](p, q)  # type: ignore[arg-type]

    return operations(x, leaf, apply)


def is_one(n: Extent) -> bool:
    """Whether an extent is 1, where that decides what an operation means: a half or a difference of extents may be.

    Raises: DimDependent where the call's sizes decide.
    """
    return n == 1


def spreads(n: Extent, m: Extent) -> bool:
    """Whether NumPy broadcasts an axis of extent n to m: they are equal, or n is 1.

    Raises: DimDependent where the call's sizes decide.
    """
    return (isinstance(n, int) and n == 1) or same_extent(n, m) or n == m or is_one(n)


def is_empty(n: Extent) -> bool:
    """Whether an extent is 0, where that decides what an operation means: one that the program computes counts as if it
    had elements, and who asks sees to it that the program fails where it has none.

    Raises: DimDependent where the call's sizes decide.
    """
    return not has_count(n) and n == 0


def least_extent(symbol: str) -> int:
    """The least extent a symbol stands for."""
    if symbol.startswith("index"):
        return 0
    return LARGE if symbol.startswith("large") else 2


def _range(atom: Any) -> tuple[int | None, int | None]:
    """The least and the greatest value of an atom over admissible extents, or further apart;
    None if unbounded or unknown.
    """
    if isinstance(atom, str):
        return least_extent(atom), None
    kind, (low, high), (small, large) = atom[0], _bounds(atom[1]), _bounds(atom[2])
    if kind == "min":
        return None if low is None or small is None else min(low, small), min(
            (n for n in (high, large) if n is not None), default=None
        )
    if kind == "max":
        return max(
            (n for n in (low, small) if n is not None), default=None
        ), None if high is None or large is None else max(high, large)
    if small is None or small <= 0 or (large is not None and large < small):
        return None, None
    if kind == "mod":
        return 0, None if large is None else large - 1
    # A quotient is closest to zero for the greatest divisor, farthest from it for the least.
    nearest = -1 if large is None else large
    if low is not None:
        low = (low // nearest if large is not None else 0) if low >= 0 else low // small
    if high is not None:
        high = high // small if high >= 0 else (high // nearest if large is not None else -1)
    return low, high


def affine(n: Dim) -> tuple[str, int, int]:
    """(s, a, b) of the extent a*s + b of an argument, s a symbol."""
    (monomial, factor), *rest = n.terms
    return monomial[0], factor, rest[0][1] if rest else 0


def solved(n: Dim, extent: int) -> tuple[str, int] | None:
    """The symbol of an argument's extent and its value for a concrete one; None where there is no admissible value."""
    symbol, factor, offset = affine(n)
    value, left = divmod(extent - offset, factor)
    return None if left or value < least_extent(symbol) else (symbol, value)


def _whole(a: Dim, b: Extent) -> tuple[Extent, Extent]:
    """(q, r) with a = q*b + r and the coefficients of r in 0..b-1, for an integer b; (0, a) for others."""
    if isinstance(b, Dim):
        return 0, a
    return _collect([(m, c // b) for m, c in a.terms]), _collect([(m, c % b) for m, c in a.terms])


def operations(x: Extent, leaf: Callable[[int | str], T], apply: Callable[[str, T, T], T]) -> T:
    """An extent as operations: what `leaf` makes of its numbers and symbols, put together by `apply`.

    The operations are "add", "mul", "max", "min", and "floordiv" and "mod" by what is positive.
    """
    if not isinstance(x, Dim):
        return leaf(int(x))
    total: T | None = None
    for monomial, coefficient in x.terms:
        term = None if coefficient == 1 and monomial else leaf(coefficient)
        for a in monomial:
            if isinstance(a, str):
                factor = leaf(a)
            else:
                factor = apply(a[0], operations(a[1], leaf, apply), operations(a[2], leaf, apply))
            term = factor if term is None else apply("mul", term, factor)
        assert term is not None
        total = term if total is None else apply("add", total, term)
    return leaf(0) if total is None else total


def evaluate(x: Extent, values: Mapping[str, int]) -> int:
    """The value of an extent for given symbols."""
    return operations(x, lambda a: a if isinstance(a, int) else values[a], lambda name, p, q: _OPERATIONS[name](p, q))


def held(x: Extent, values: Mapping[str, int]) -> int:
    """How many elements of an axis are in memory: one at least where the program computes how many count, as an index
    that is outside reads the nearest one.
    """
    n = evaluate(x, values)
    return max(n, 1) if has_count(x) else n


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "floordiv": operator.floordiv,
    "max": max,
    "min": min,
    "mod": operator.mod,
    "mul": operator.mul,
}


def prod(shape: Iterable[Extent]) -> Extent:
    """The number of elements of a shape."""
    total: Extent = 1
    for n in shape:
        total = total * n
    return total


def surely_at_most(a: Extent, b: Extent) -> bool:
    """Whether `a <= b` for all admissible values of the symbols in them."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    low = _bounds(b - a)[0]
    if low is not None and low >= 0:
        return True
    for x, of_all, other in ((a, "max", b), (b, "min", a)):
        atom = _only_atom(x)
        if atom is not None:
            pairs = [(p, other) if x is a else (other, p) for p in atom[1:]]
            if (all if atom[0] == of_all else any)(surely_at_most(*pair) for pair in pairs):
                return True
    return False


def _only_atom(x: Extent) -> Any:
    """("max" | "min", p, q) of an extent that is nothing else."""
    match x:
        case Dim(terms=(((("max" | "min", _, _) as atom,), 1),)):
            return atom
        case _:
            return None


def same_extent(a: Extent, b: Extent) -> bool:
    """Whether two extents are certainly equal; symbolic ones are compared as written, never by value."""
    return a == b if isinstance(a, int) and isinstance(b, int) else isinstance(a, Dim) and a.same(b)


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are certainly equal; symbolic extents are compared as written, never by value."""
    return a is b or (len(a) == len(b) and all(map(same_extent, a, b)))
