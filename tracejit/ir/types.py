"""Abstract values: shapes with integer or symbolic extents, and a dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
from attrs import field, frozen

from tracejit.support.dtypes import canonical, short_name
from tracejit.support.errors import TracejitError

__all__ = [
    "Dim",
    "DimDependent",
    "Extent",
    "Shape",
    "ShapedArray",
    "aval_of",
    "evaluate",
    "prod",
    "same_extent",
    "same_shape",
    "surely_at_most",
]


class DimDependent(TracejitError):
    """A decision depends on the value of symbolic extents: the trace restarts with these symbols fixed."""

    def __init__(self, symbols: frozenset[str]) -> None:
        super().__init__(f"the value of {', '.join(sorted(symbols))} is needed while tracing")
        self.symbols = symbols


LARGE = 16
"""The least extent of a symbol `large0`: slices that leave out a few elements at the ends are decided for such extents."""


@frozen(eq=False)
class Dim:
    """A canonical integer polynomial over named extents, each known to be at least 2, or more if its name says so (`least_extent`).

    terms: ((monomial, coefficient), ...), sorted; a monomial is a sorted tuple of atoms; an atom is a symbol's name or
    ("floordiv" | "mod" | "max", a, b).  Arithmetic gives `int` where the symbols cancel.  A comparison that holds or
    fails for all admissible extents is decided; any other raises `DimDependent`.
    """

    terms: tuple[tuple[tuple[Any, ...], int], ...]

    @staticmethod
    def symbol(name: str) -> Dim:
        return Dim((((name,), 1),))

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
        """An operation whose result is not an extent needs the value; what is not a number (a traced array) takes over itself."""
        if other is None or isinstance(other, (int, float, complex, np.number, Dim)):
            raise DimDependent(self.symbols() | (other.symbols() if isinstance(other, Dim) else frozenset()))
        return NotImplemented

    def __add__(self, other: Extent) -> Extent:
        return _collect(_terms(self) + _terms(other)) if _is_extent(other) else self._specialise(other)

    __radd__ = __add__

    def __neg__(self) -> Extent:
        return _collect([(m, -c) for m, c in self.terms])

    def __sub__(self, other: Extent) -> Extent:
        return _collect(_terms(self) + [(m, -c) for m, c in _terms(other)]) if _is_extent(other) else self._specialise(other)

    def __rsub__(self, other: Extent) -> Extent:
        return _collect(_terms(other) + [(m, -c) for m, c in self.terms]) if _is_extent(other) else self._specialise(other)

    def __mul__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._specialise(other)
        return _collect([(tuple(sorted(a + b, key=str)), c * d) for a, c in self.terms for b, d in _terms(other)])

    __rmul__ = __mul__

    def __floordiv__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._specialise(other)
        if other == 1:
            return self
        exact = _divide(self, other)
        return exact if exact is not None else Dim((((("floordiv", self, other),), 1),))

    def __rfloordiv__(self, other: int) -> Extent:
        return Dim((((("floordiv", other, self),), 1),))

    def __mod__(self, other: Extent) -> Extent:
        if not _is_extent(other):
            return self._specialise(other)
        return 0 if _divide(self, other) is not None else Dim((((("mod", self, other),), 1),))

    def __rmod__(self, other: int) -> Extent:
        return Dim((((("mod", other, self),), 1),))

    def __divmod__(self, other: Extent) -> tuple[Extent, Extent]:
        return self // other, self % other

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __rdivmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _specialise
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __trunc__ = __floor__ = __ceil__ = __complex__ = _specialise

    def __round__(self, digits: int | None = None) -> Extent:
        return self

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Extent:
        return self if self >= 0 else -self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._specialise()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in inputs:
            if not isinstance(x, Dim) and hasattr(type(x), "__array_ufunc__") and not isinstance(x, (np.ndarray, np.generic)):
                return NotImplemented
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
            if self.terms == other.terms:
                return True
        elif not isinstance(other, (int, np.integer)):
            return NotImplemented
        low, high = _bounds(self - cast("Extent", other))
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        raise DimDependent(self.symbols() | (other.symbols() if isinstance(other, Dim) else frozenset()))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def same(self, other: object) -> bool:
        """Structural equality, never undecided."""
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def _ordered(self, other: Extent, *, sign: int, strict: bool) -> bool:
        low, high = _bounds((self - other) * sign)
        edge = 1 if strict else 0
        if low is not None and low >= edge:
            return True
        if high is not None and high < edge:
            return False
        raise DimDependent(self.symbols() | (other.symbols() if isinstance(other, Dim) else frozenset()))

    def __ge__(self, other: Extent) -> bool:
        return self._ordered(other, sign=1, strict=False)

    def __gt__(self, other: Extent) -> bool:
        return self._ordered(other, sign=1, strict=True)

    def __le__(self, other: Extent) -> bool:
        return self._ordered(other, sign=-1, strict=False)

    def __lt__(self, other: Extent) -> bool:
        return self._ordered(other, sign=-1, strict=True)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise DimDependent(self.symbols())

    __int__ = __index__

    def __float__(self) -> float:
        raise DimDependent(self.symbols())

    def __str__(self) -> str:
        def atom(a: Any) -> str:
            if isinstance(a, str):
                return a
            name, x, y = a
            return f"{name}({x}, {y})"

        out: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [atom(a) for a in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            out.append("*".join(factors))
        return "+".join(out).replace("+-", "-")

    __repr__ = __str__


Extent: TypeAlias = int | Dim
Shape: TypeAlias = tuple[Extent, ...]


def _is_extent(x: object) -> bool:
    return isinstance(x, (int, np.integer, Dim))


def _terms(x: Extent) -> list[tuple[tuple[Any, ...], int]]:
    return list(x.terms) if isinstance(x, Dim) else ([((), int(x))] if x else [])


def _collect(terms: Iterable[tuple[tuple[Any, ...], int]]) -> Extent:
    total: dict[tuple[Any, ...], int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = sorted(((m, c) for m, c in total.items() if c), key=lambda mc: (-len(mc[0]), str(mc[0])))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Dim(tuple(kept))


def _divide(a: Dim, b: Extent) -> Extent | None:
    """a / b where it is exact term by term (b an integer or a single monomial)."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if a.same(b) else None
    (monomial, coefficient), out = divisor[0], cast("list[tuple[tuple[Any, ...], int]]", [])
    for m, c in a.terms:
        rest = list(m)
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        out.append((tuple(rest), c // coefficient))
    return _collect(out)


def _bounds(x: Extent) -> tuple[int | None, int | None]:
    """(least, greatest) value over admissible extents; None where unbounded or unknown.

    Every symbol s >= 2 is written 2 + t with t >= 0, every other atom its least value + t; with all coefficients of one sign after that
    the constant is the bound.
    """
    if not isinstance(x, Dim):
        return int(x), int(x)
    shifted: dict[tuple[Any, ...], int] = {}
    for monomial, coefficient in x.terms:
        least = [_least(a) for a in monomial]
        if any(n is None for n in least):
            return None, None
        for subset in range(1 << len(monomial)):
            left = tuple(a for n, a in enumerate(monomial) if subset >> n & 1)
            constants = math.prod(cast("int", b) for n, b in enumerate(least) if not subset >> n & 1)
            shifted[left] = shifted.get(left, 0) + coefficient * constants
    constant = shifted.pop((), 0)
    signs = [c for c in shifted.values() if c]
    return (constant if all(c > 0 for c in signs) else None), (constant if all(c < 0 for c in signs) else None)


def least_extent(symbol: str) -> int:
    """The least extent a symbol stands for."""
    return LARGE if symbol.startswith("large") else 2


def _least(atom: Any) -> int | None:
    """The least value of an atom over admissible extents; None if unknown."""
    if isinstance(atom, str):
        return least_extent(atom)
    kind, a, b = atom
    if kind == "mod":
        return 0 if _bounds(b)[0] is not None and _bounds(b)[0] > 0 else None  # type: ignore[operator]
    low, other = _bounds(a)[0], _bounds(b)[0]
    if kind == "max":
        known = [n for n in (low, other) if n is not None]
        return max(known) if known else None
    if low is None or other is None or other <= 0:
        return None
    return low // int(b) if not isinstance(b, Dim) else min(low, 0)


def evaluate(x: Extent, values: Mapping[str, int]) -> int:
    """The value of an extent for given symbols."""
    if not isinstance(x, Dim):
        return int(x)

    def atom(a: Any) -> int:
        if isinstance(a, str):
            return values[a]
        p, q = evaluate(a[1], values), evaluate(a[2], values)
        return max(p, q) if a[0] == "max" else (p // q if a[0] == "floordiv" else p % q)

    return sum(c * math.prod(atom(a) for a in m) for m, c in x.terms)


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
    return low is not None and low >= 0


def same_extent(a: Extent, b: Extent) -> bool:
    """Whether two extents are certainly equal; symbolic ones are compared as written, never by value."""
    return a == b if isinstance(a, int) and isinstance(b, int) else isinstance(a, Dim) and a.same(b)


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are certainly equal; symbolic extents are compared as written, never by value."""
    return a is b or (len(a) == len(b) and all(map(same_extent, a, b)))


def _as_shape(shape: Iterable[Any]) -> Shape:
    if type(shape) is tuple:
        for n in shape:
            if type(n) is not int and type(n) is not Dim:
                break
        else:
            return shape
    return tuple(n if isinstance(n, Dim) else int(n) for n in shape)


@frozen(order=False)
class ShapedArray:
    """What is known of an array while tracing.  `weak` marks values that came from Python scalars."""

    shape: Shape = field(converter=_as_shape)
    dtype: np.dtype[Any] = field(converter=canonical)
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Extent:
        return prod(self.shape)

    def with_shape(self, shape: Iterable[Extent]) -> ShapedArray:
        return ShapedArray(tuple(shape), self.dtype, self.weak)

    def strong(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype) if self.weak else self

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}{'~' if self.weak else ''}[{','.join(map(str, self.shape))}]"


def aval_of(x: Any) -> ShapedArray:
    """The abstract value of a NumPy array, NumPy scalar or Python scalar."""
    if type(x) in (bool, int, float):
        return ShapedArray((), {bool: np.bool_, int: np.int64, float: np.float64}[type(x)], weak=True)
    array = np.asarray(x)
    return ShapedArray(array.shape, array.dtype)
