"""What a `for` goes over, as a number of items by number: ranges, arrays, `zip`, `enumerate`, `reversed`."""

from __future__ import annotations

import builtins
import gc
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracejit.api.control import python_integer
from tracejit.api.range import TracedRange, bounds_of, trip_count
from tracejit.ir.extents import Dim, Extent, surely_at_most
from tracejit.support.nodes import define
from tracejit.tracer.failures import Raised
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.ownership import is_users_type
from tracejit.tracer.recorder import recording
from tracejit.tracer.substitutes import substitute_for
from tracejit.tracer.tracer import Tracer

__all__ = ["Items", "Unrolled", "counted_items", "held", "is_shared", "items", "items_of", "reduces", "unroll"]


@define(eq=False)
class Items:
    """What a loop goes over: `item(k)` for k = 0, 1, ... count - 1.

    count: None if only the program knows; then `bounds` are those of a range.  asked: `tj.range` asks for a loop of the
    program: it is one, or an error.
    """

    count: Extent | None
    item: Callable[[Any], Any]
    bounds: tuple[Any, Any, Any] | None = None
    asked: bool = False

    def __iter__(self) -> Iterator[Any]:
        return (self.item(k) for k in builtins.range(operator.index(self.count)))  # type: ignore[arg-type]


class Unrolled:
    """What `unroll` gives: Python goes over it."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __iter__(self) -> Iterator[Any]:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)


def unroll(iterable: Any) -> Any:
    """`for i in tj.unroll(range(n))`: a loop that is written out: Python runs it while it is traced, and each iteration
    is compiled for itself, with i a Python number.  The opposite of `tj.range`.

    iterable: anything that Python can go over, as often as it knows while tracing.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def power_sums(x):
    ...     return [np.sum(x**k) for k in tj.unroll(range(4))]
    >>> [float(s) for s in power_sums(np.array([1.0, 2.0]))]
    [2.0, 3.0, 5.0, 9.0]
    """
    return Unrolled(iterable)


def items(kind: Any, *args: Any) -> Any:
    """What a `for` goes over, of `range`, `enumerate`, `zip` or `reversed`: a loop can be made of it."""
    if recording() is None:
        return kind(*args)
    if kind is builtins.range:
        return _range(*args)
    if kind not in (enumerate, zip, reversed):
        return kind(*args)
    if kind is reversed and len(args) == 1 and isinstance(args[0], Items) and args[0].bounds is None:
        return reversed(zip())  # type: ignore[call-overload]  # Python's error: only ranges go backwards
    parts = [items_of(a) for a in args]
    if kind is reversed and len(parts) == 1 and parts[0] is not None and parts[0].bounds is not None:
        start, end, step = parts[0].bounds
        if type(step) is int and step in (1, -1):
            return _range(end - step, start - step, -step)
    counts = [None if p is None else p.count for p in parts]
    if kind is enumerate and len(args) == 2 and counts[0] is not None and _is_integer(args[1]):
        return _enumerated(parts[0], args[1])
    if any(n is None for n in counts) or not parts or (kind is not zip and len(parts) > 1):
        return kind(*[_python(a) for a in args])
    first = parts[0]
    assert first is not None
    asked = any(p is not None and p.asked for p in parts)
    if kind is enumerate:
        return _enumerated(first, 0)
    if kind is reversed:
        last = first.count - 1  # type: ignore[operator]
        return Items(first.count, lambda k: first.item(last - k), asked=asked)
    if all(isinstance(n, int) for n in counts):
        return Items(min(counts), lambda k: tuple([p.item(k) for p in parts]), asked=asked)  # type: ignore[type-var, union-attr]
    if all(n == counts[0] for n in counts):
        return Items(counts[0], lambda k: tuple([p.item(k) for p in parts]), asked=asked)  # type: ignore[union-attr]
    return zip(*[_python(a) for a in args], strict=False)


def reduces(function: Any, name: str) -> bool:
    """Whether a name stands for Python's own function."""
    own = getattr(builtins, name)
    return function is own or function is substitute_for(own)


def _is_integer(x: Any) -> bool:
    return isinstance(x, (int, np.integer, Dim)) or (isinstance(x, Tracer) and not x.shape and x.dtype.kind in "iu")


def _enumerated(found: Items | None, start: Any) -> Items:
    """`enumerate(found, start)`"""
    assert found is not None
    start = start if isinstance(start, Dim) else python_integer(start, "enumerate")
    plain = isinstance(start, int) and start == 0
    return Items(found.count, lambda k: (k if plain else k + start, found.item(k)), asked=found.asked)


def _python(x: Any) -> Any:
    """What Python's own functions take for a sequence."""
    return builtins.range(*[operator.index(b) for b in x.bounds]) if isinstance(x, Items) and x.bounds else x


def _range(*args: Any) -> Any:
    if not 1 <= len(args) <= 3:
        return builtins.range(*args)
    start, stop, step = bounds_of(args)
    if not all(isinstance(b, (int, np.integer, Tracer, Dim)) for b in (start, stop, step)):
        return builtins.range(*args)
    if isinstance(step, Tracer) and step.known() is None:
        step.ask()
        numbers = [python_integer(b, "range") for b in (start, stop, step)]
        OPERATORS.check_none(numbers[2] == 0, Raised(ValueError("range() arg 3 must not be zero")))
        return Items(None, lambda k: k, (numbers[0], numbers[1], numbers[2]))
    count = trip_count(start, stop, step)
    step = operator.index(step)
    if count is None:
        return Items(None, lambda k: k, (python_integer(start, "range"), python_integer(stop, "range"), step))
    start = start if isinstance(start, Dim) else operator.index(start)
    plain = step == 1 and isinstance(start, int) and start == 0
    return Items(count, (lambda k: k) if plain else (lambda k: k * step + start), (start, stop, step))


def items_of(x: Any) -> Items | None:
    """The items of a range or an array; None of anything else."""
    if isinstance(x, Items):
        return x
    if type(x) is builtins.range:
        return _range(x.start, x.stop, x.step)
    if type(x) is TracedRange:
        made = _range(*x.bounds)
        return Items(made.count, made.item, made.bounds, asked=True)
    if isinstance(x, Tracer) and x.shape:
        return Items(x.shape[0], lambda k: x[k])
    return None


class Held:
    """An iterator that a loop goes over and that has a name: who reads it afterwards sees how far the loop has come."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator

    def __iter__(self) -> Iterator[Any]:
        return self.iterator


def held(x: Any) -> Any:
    """What a loop goes over that is no new object."""
    return Held(x) if not isinstance(x, Tracer) and isinstance(x, Iterator) else x


_PRIVATE: Any = (
    zip, enumerate, reversed, itertools.product, itertools.permutations, itertools.combinations, itertools.chain,
    itertools.combinations_with_replacement, itertools.zip_longest, itertools.islice, itertools.pairwise,
    itertools.repeat, itertools.count, itertools.cycle,
    *{type(iter(x)) for x in ([], (), {}, {}.values(), {}.items(), set[int](), "", b"", range(0), range(2**70))},
    type(reversed([])), type(reversed({})),
)  # fmt: skip
"""Iterators that do nothing but give items."""


def is_shared(source: Any) -> bool:
    """Whether somebody else sees how far a loop has come in what it goes over: an iterator that has a name, or that
    does something of its own when it is asked for an item.
    """
    if isinstance(source, Held):
        return True
    if not isinstance(source, Iterator):
        return is_users_type(type(source))
    if not isinstance(source, _PRIVATE):
        return True
    inside, direct = _inner(source)
    return (
        any(n > _ALONE_INSIDE for _, n in inside)
        or any(n > _ALONE for _, n in direct)
        or any(is_shared(x) for x, _ in (*inside, *direct))
    )


def _inner(iterator: Any) -> tuple[list[tuple[Any, int]], list[tuple[Any, int]]]:
    """The iterators that one takes its items from, in a tuple of its own or not, and how many references each has."""
    inside: list[tuple[Any, int]] = []
    direct: list[tuple[Any, int]] = []
    for x in gc.get_referents(iterator):
        if type(x) is tuple:
            for y in x:
                if isinstance(y, Iterator):
                    inside.append((y, sys.getrefcount(y)))
        elif isinstance(x, Iterator):
            direct.append((x, sys.getrefcount(x)))
    return inside, direct


# references to an iterator that nothing but another one has
_ALONE_INSIDE = max(n for _, n in _inner(zip([], [], strict=True))[0])
_ALONE = max(n for _, n in _inner(enumerate([]))[1])


def counted_items(found: Items) -> Items | None:
    """A range whose bounds are traced integers, where they are extents: of the index of a loop around."""
    assert found.bounds is not None
    bounds = [b.extent() if isinstance(b, Tracer) else b for b in found.bounds]
    if any(b is None for b in bounds) or isinstance(bounds[2], Dim):
        return None
    made = _range(*bounds)
    count = made.count
    if isinstance(count, Dim) and not surely_at_most(0, count):  # it is stacked, perhaps
        count = count.maximum(0)
    return Items(count, made.item, made.bounds, found.asked)
