"""Checks of indices that are computed: NumPy raises IndexError, and so does the compiled program, after it has run.

Out of range, an index reads and writes the nearest element meanwhile, which is thrown away.
"""

from __future__ import annotations

import numpy as np

from tracejit.ir.extents import Dim, DimDependent, Extent, Index, prod, surely_at_most
from tracejit.ir.ranges import within
from tracejit.numpy import ufuncs as u
from tracejit.numpy.axes import is_zero
from tracejit.numpy.promotion import aval, to_dtype
from tracejit.primitives.reduction import reduce_max
from tracejit.support.errors import DtypeError, IndexOutOfBounds, TracerError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.catching import OF_INDICES, may_be_caught
from tracejit.tracer.current import give_up
from tracejit.tracer.failures import INDEX_BITS, failures_here, note_failure
from tracejit.tracer.interpreter import current_interpreter, surely_runs
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.tracer import Tracer

__all__ = ["check_index", "check_safe_index", "from_start", "known_to_be_outside"]


def check_safe_index(name: str, x: ArrayLike) -> None:
    """Integers that NumPy casts to int64 by the rule 'safe'.   Raises: DtypeError for others, uint64 among them."""
    have = aval(x)
    if have.dtype.kind not in "iub":
        raise DtypeError(f"{name}: {have} is not an index", location=user_location())
    if have.dtype == np.uint64:
        raise DtypeError(f"{name}: uint64 cannot be cast to int64 by the rule 'safe'", location=user_location())


def from_start(k: Tracer, n: Extent, checked: bool = True) -> Result:
    """Integers counted from the start of an axis of extent n.  `checked`:
    the program fails where one is out of range.
    """
    known = k.seen().range_here()
    if k.dtype == np.uint64 and not k.shape:  # an index as a Python integer is: it does not turn around
        k = u.minimum(k, np.uint64(2**63 - 1))
    place = to_dtype(k, np.int64)
    if known[0] is None or not within((known[0], known[0]), 0, known[0]):
        place = u.where(u.less(place, 0), u.add(place, OPERATORS.extent(n)), place)
    if checked and not within(known, 0 - n, n - 1):
        _check(k, place, n)
    return place


def _check(k: Tracer, place: ArrayLike, n: Extent) -> None:
    """The program fails if an element of `place`, which is k counted from the start,
    is outside of an axis of extent n.
    """
    shape = aval(k).shape
    seen = current_interpreter().checked
    if k.aval.weak and not shape and may_be_caught():
        _tell_if_caught(k)
    if any(isinstance(m, int) and m == 0 for m in shape) or seen.get((id(k.value), str(n))) is k.value:
        return
    seen[id(k.value), str(n)] = k.value  # kept, so that its identity is not given out again
    # Negative numbers are the greatest unsigned ones: the greatest element is out of range if any is.
    unsigned = to_dtype(place, np.uint64)
    worst = reduce_max(unsigned, tuple(range(len(shape)))) if shape else unsigned
    outside = u.greater_equal(worst, to_dtype(OPERATORS.extent(n), np.uint64))
    if not surely_at_most(1, n) and not all(surely_at_most(1, m) for m in shape):  # where there may be no index
        outside = u.logical_and(outside, u.greater(OPERATORS.extent(prod(shape)), 0))
    index = to_dtype(worst, np.int64)
    check_index(u.where(u.less(index, 0), u.subtract(index, OPERATORS.extent(n)), index), outside, n)


def _tell_if_caught(k: Tracer) -> None:
    """An `except IndexError` of the user's decides by the value of a number, if that can be had."""
    k.ask()
    found = k.extent()
    if isinstance(found, Dim):
        symbols = [s for s in found.symbols() if not isinstance(s, Index)]
        if len(symbols) == len(found.symbols()):
            raise DimDependent(frozenset(symbols))
        give_up("an index may be out of range, which an `except` catches")


def check_index(index: ArrayLike, outside: ArrayLike, n: Extent) -> None:
    """The program fails if an index is outside of an axis of extent n.

    Raises: TracerError within a `try` that catches an IndexError.
    """
    if may_be_caught(OF_INDICES):
        raise TracerError(
            "whether an index is out of range is known to the program alone, and a `try` or `with` around it would "
            "catch the IndexError: an exception leaves the compiled function; test the index by `if`",
            location=user_location(),
        )
    site = failures_here().site(n) + 1
    mark = u.bitwise_or(u.bitwise_and(index, (1 << INDEX_BITS) - 1), site << INDEX_BITS)
    note_failure(u.where(outside, mark, np.int64(0)))


def known_to_be_outside(index: int, n: Extent) -> None:
    """An index that is known to be outside of an axis of extent n: an error, or one of the program if it comes there.

    Raises: IndexOutOfBounds where the code surely runs, a `try` may catch it, or the axis has no element to take
    meanwhile.
    """
    if surely_runs() or is_zero(n) or may_be_caught():
        raise IndexOutOfBounds(f"index {index} is out of bounds for an axis of extent {n}", location=user_location())
    site = failures_here().site(n) + 1
    note_failure(np.int64(int(index) & ((1 << INDEX_BITS) - 1) | site << INDEX_BITS))


def first_failure(before: ArrayLike, found: ArrayLike) -> Result:
    """The failure noted before, or if there is none the greatest of those found."""
    shape = aval(found).shape
    found = reduce_max(found, tuple(range(len(shape)))) if shape else found
    if not all(isinstance(n, int) for n in shape):  # there may be none: what that gives is no failure
        found = u.maximum(found, np.int64(0))
    return found if before is None else u.where(u.not_equal(before, 0), before, found)
