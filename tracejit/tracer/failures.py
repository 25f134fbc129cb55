"""What can go wrong in a traced program depending on values: an index out of bounds,
a Python number that does not fit an array's dtype.

A level is what is not just a part of the trace around it: a program, a transformation, the eager interpreter.  Each has
one cell (an i64 of rank 0): 0 as long as nothing is wrong, then the first failure.  Loops and branches carry it as they
carry every array that their bodies change.  A program hands its cell out and fails by it; a transformation hands it on
to the level below, reduced over the mapped axis; the eager interpreter raises at once.

A failure is (number of the site + 1) * 2**48 + the index or number modulo 2**48.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, DimDependent, Extent, evaluate, has_count
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import (
    AllNaN,
    ChoiceOutOfBounds,
    IndexOutOfBounds,
    InfiniteRange,
    MixedNumber,
    NegativeCount,
    NegativePower,
    NoWeight,
    NumberOutOfBounds,
    ShapeError,
    TracejitError,
    UnorderedBins,
    UnsupportedError,
    ZeroInSequence,
)
from tracejit.support.nodes import define, field, frozen
from tracejit.support.source import Location, user_location
from tracejit.tracer.interpreter import Interpreter, current_interpreter, eager, use_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.traced_text import MARK, TracedText, message, plain_text
from tracejit.tracer.tracer import Tracer

__all__ = [
    "ALL_NAN", "BEYOND_MINLENGTH", "GROWTH", "INDEX_BITS", "INFINITE_RANGE", "LENGTHS", "NEGATIVE_COUNT",
    "NEGATIVE_POWER", "NO_CHOICE", "NO_WEIGHT", "UNORDERED_BINS", "ZERO_IN_SEQUENCE", "Failures", "Raised", "Reason",
    "Site", "Thrown", "empty_reduction", "failure_cell", "failure_error", "failure_so_far", "failures_here",
    "failures_noted", "hand_on", "note_failure", "number_error", "take_back", "with_numbers",
]  # fmt: skip

INDEX_BITS = 48
"""How many bits of an index a failure keeps."""
_MOST_SITES = (1 << (62 - INDEX_BITS)) - 1


@frozen(eq=False)
class Reason:
    """Why a program fails where neither an index nor a dtype is to blame.

    text: what the error says, with `{}` where it names the number that the failure carries.
    """

    kind: type[TracejitError]
    text: str

    def error(self, location: Location | None = None, number: int = -1) -> TracejitError:
        """The error at a line of the user's, the current one if none is given."""
        return self.kind(self.text.replace("{}", str(number)), location=location or user_location())


@frozen(eq=False)
class Raised:
    """An exception that the function raises on a condition which only the program knows."""

    exception: BaseException

    @property
    def text(self) -> str:
        return f"{type(self.exception).__name__}: {message(self.exception)}"

    @property
    def identity(self) -> Any:
        """The same of exceptions that are alike: of one class, with one text and nothing else."""
        error = self.exception
        plain = not vars(error) and all(type(x) in (str, TracedText) for x in error.args)
        return (type(error), self.text) if plain else id(error)

    def error(self, location: Location | None = None) -> Any:
        """The exception, a new one for each call that fails."""
        from copy import copy  # for speed of import

        try:
            made = copy(self.exception)
        except Exception:  # a class whose objects cannot be copied
            made = self.exception
        of = self.exception
        new = {"__traceback__": None, "__context__": None, "__cause__": of.__cause__}
        for name, value in (*new.items(), ("__suppress_context__", of.__suppress_context__)):
            object.__setattr__(made, name, value)  # a frozen class lets nobody else
        if any(type(x) is TracedText for x in made.args):
            object.__setattr__(made, "args", tuple(map(plain_text, made.args)))
        if location is not None:
            _note(made, location)
        return made


@frozen(eq=False)
class Thrown(Reason):
    """A function that the program calls has raised something, whose number the failure carries.

    find: the exception of a number.
    """

    find: Callable[[int], BaseException]

    def error(self, location: Location | None = None, number: int = -1) -> Any:
        """What the function has raised."""
        found = self.find(number)
        if location is not None:
            _note(found, location)
        return found


NEGATIVE_POWER = Reason(
    NegativePower, "integers to negative integer powers are not allowed; make the base floating point"
)
GROWTH = Reason(
    NumberOutOfBounds,
    "the result is an integer beyond 64 bits, which Python has and compiled code has not; compute it in floating "
    "point (2.0**n)",
)
MIXED = Reason(
    MixedNumber,
    "data decide whether a number is a Python integer or one of NumPy's with a narrow dtype (a branch or loop hands on "
    "either), and here that makes a difference: NumPy's would wrap around, Python's does not; write int(x[i]) where it "
    "is NumPy's",
)
ZERO_IN_SEQUENCE = Reason(ZeroInSequence, "np.geomspace: a geometric sequence has no zero")
UNORDERED_BINS = Reason(UnorderedBins, "the edges of bins must rise or fall from first to last; sort them")
NEGATIVE_COUNT = Reason(NegativeCount, "np.bincount: the vector has negative elements, which it does not count")
BEYOND_MINLENGTH = Reason(
    UnsupportedError,
    "np.bincount of values that only the program knows gives minlength= elements, and one of them is not less; give a "
    "greater minlength",
)
INFINITE_RANGE = Reason(
    InfiniteRange, "a histogram has bins from the least to the greatest element, which are not finite; give range="
)
ALL_NAN = Reason(AllNaN, "all that np.nanargmax or np.nanargmin looks at is NaN; replace it first")
LENGTHS = Reason(
    ShapeError,
    "arrays of different lengths, of which data say one at least, cannot be broadcast; one that has one element by "
    "chance is not spread either",
)
NO_CHOICE = Reason(
    ChoiceOutOfBounds, "np.choose: an element is no number of a choice; mode='clip' and mode='wrap' take any integers"
)
NO_WEIGHT = Reason(NoWeight, "np.average: weights sum to zero; divide the sums yourself and say what is to come out")


def _note(error: BaseException, location: Location) -> None:
    """The user's line, for tracebacks."""
    try:
        error.add_note(location.show())
    except AttributeError:  # of a frozen class
        object.__setattr__(error, "__notes__", [*getattr(error, "__notes__", ()), location.show()])


def empty_reduction(name: str) -> Reason:
    """Why a reduction without identity fails."""
    return Reason(ShapeError, f"np.{name}: zero-size array to a reduction that has no identity")


@frozen(eq=False)
class Site:
    """Where the user's code can fail.  about: the extent of the axis it indexes,
    the dtype a Python number has to fit, or the reason.
    """

    about: Extent | np.dtype[Any] | Reason | Raised
    location: Location | None


def with_numbers(error: BaseException, *, leaves: bool = False) -> BaseException:
    """An exception of the function's, without extents in what it carries: what the program counts are its numbers, or
    where the exception leaves the trace, text.

    Raises: DimDependent for others, which have to be known.
    """
    pending, symbols = [*error.args, *vars(error).values()], frozenset[str]()
    seen: set[int] = set()
    while pending:
        x = pending.pop()
        if isinstance(x, Dim):
            symbols |= frozenset() if has_count(x) else x.symbols()
        elif type(x) in (tuple, list, set, frozenset, dict) and id(x) not in seen:
            seen.add(id(x))
            pending += [*x, *x.values()] if type(x) is dict else x
    if symbols:
        raise DimDependent(symbols) from error
    args = tuple([_carried(x, leaves) for x in error.args])
    if any(new is not old for new, old in zip(args, error.args, strict=True)):
        object.__setattr__(error, "args", args)
    for name, x in [*vars(error).items()]:
        carried = _carried(x, leaves)
        if carried is not x:
            object.__setattr__(error, name, carried)  # a frozen class lets nobody else
    return error


def _carried(x: Any, leaves: bool) -> Any:
    if isinstance(x, tuple):
        items = [_carried(y, leaves) for y in x]
        same = all(new is old for new, old in zip(items, x, strict=True))
        return x if same else tuple.__new__(type(x), items)
    if type(x) is list:
        items = [_carried(y, leaves) for y in x]
        return x if all(new is old for new, old in zip(items, x, strict=True)) else items
    if type(x) is dict:
        named = {key: _carried(y, leaves) for key, y in x.items()}
        return x if all(named[key] is y for key, y in x.items()) else named
    if isinstance(x, Dim):
        return f"{MARK}i64~[]>" if leaves else OPERATORS.number_of_extents(x)
    return plain_text(x) if leaves else x


@define(eq=False)
class Failures:
    """The cell of a level, and the sites of all levels of a program."""

    cell: Tracer
    sites: list[Site] = field(factory=list[Site])
    numbers: dict[Any, int] = field(factory=dict[Any, int])
    noted: int = 0  # how often something has been found that can fail

    def site(self, about: Extent | np.dtype[Any] | Reason | Raised) -> int:
        """The number of the user's line as one that can fail so.  Lines beyond what a failure can count share one."""
        location = user_location()
        key = (
            about.identity if isinstance(about, Raised) else about.text if isinstance(about, Reason) else str(about),
            location and (location.code, location.lasti),
        )
        number = self.numbers.get(key)
        if number is None:
            if len(self.sites) < _MOST_SITES:
                self.sites.append(Site(about, location))
            number = self.numbers[key] = len(self.sites) - 1
        return number


class _Raising(Tracer):
    """The cell of the eager interpreter: what has failed is raised."""

    __slots__ = ()

    def store(self, interpreter: Interpreter, value: Any) -> None:
        """Raises: the error that `value` stands for, unless it is 0."""
        note_failure(value)


_eager: ContextVar[Failures | None] = ContextVar("tracejit_failures", default=None)


def failures_here() -> Failures:
    """Those of the level that the current operation belongs to."""
    return _of(_level(current_interpreter()))


def failure_cell() -> Tracer | None:
    """The cell of the level that the current operation belongs to, None as long as nothing can fail."""
    found = _present()
    return None if found is None else found.cell


def failures_noted() -> int:
    """A number that grows whenever the current operation's level can fail in one more way."""
    found = _present()
    return 0 if found is None else found.noted


def failure_so_far() -> Any:
    """What the cell of the current operation's level has now, for `take_back`."""
    cell = failure_cell()
    if cell is None or cell.interpreter is eager:
        return np.int64(0)
    here = cell.seen()
    return Tracer(here.interpreter, here.value, here.aval)


def take_back(before: Any, noted: int) -> None:
    """What was noted since then is noted once more by what is traced in its place.

    noted: `failures_noted()` then.
    """
    if failures_noted() != noted:
        failures_here().cell.assign(before)


def _present() -> Failures | None:
    level = _level(current_interpreter())
    return _eager.get() if level is eager else level.failures


def _level(interpreter: Interpreter) -> Interpreter:
    while interpreter.is_part and interpreter.parent is not None:
        interpreter = interpreter.parent
    return interpreter


def _of(level: Interpreter) -> Failures:
    found = _eager.get() if level is eager else level.failures
    if found is not None:
        return found
    cell = _Raising(level, np.int64(0), ShapedArray((), np.int64)) if level is eager else level.lift(np.int64(0))
    cell.is_array = True  # it changes
    if level.is_program or level.parent is None:
        found = Failures(cell)
    else:
        below = _of(_level(level.parent))
        found = Failures(cell, below.sites, below.numbers)
    if level is eager:
        _eager.set(found)
    else:
        level.failures = found
    return found


def note_failure(found: Any) -> None:
    """The level fails by the greatest element of `found`, unless that is 0 or something else was wrong before.

    Raises: the failure's error where values are known.
    """
    failures = failures_here()
    cell = failures.cell
    if any(isinstance(n, int) and n == 0 for n in (found.shape if isinstance(found, Tracer) else np.shape(found))):
        return
    if not isinstance(found, Tracer):
        found = np.max(found)
        if not found:
            return
        if cell.interpreter is eager and current_interpreter() is eager:
            raise failure_error(int(found), failures.sites, {})
    failures.noted += 1
    first = current_interpreter() is cell.interpreter and not cell.version
    cell.assign(OPERATORS.first_failure(None if first else cell, found))


def hand_on(level: Interpreter) -> None:
    """What has failed in a transformation fails in the level below."""
    failures = level.failures
    if failures is None or not failures.cell.version:
        return
    below = level.parent
    while below is not None and below.partial:  # it records what is linear, and a failure is not
        below = below.parent
    assert below is not None
    with use_interpreter(below):
        note_failure(failures.cell.value[0])


def failure_error(failure: int, sites: Sequence[Site], dims: Mapping[str, int]) -> Exception:
    """The error that a failure stands for; `dims` are the symbolic extents of the call."""
    number, index = failure >> INDEX_BITS, failure & ((1 << INDEX_BITS) - 1)
    index -= (index >> (INDEX_BITS - 1)) << INDEX_BITS
    site = sites[number - 1]
    about = site.about
    if isinstance(about, Raised):
        return about.error(site.location)
    if isinstance(about, Reason):
        return about.error(site.location, index)
    if isinstance(about, np.dtype):
        limits = np.iinfo(about)
        # one of more bits than are kept
        shown = f"integer {index}" if not limits.min <= index <= limits.max else "number"
        return number_error(shown, about, site.location)
    if has_count(about):
        return IndexOutOfBounds(
            f"index {index} is out of bounds for an axis that data make shorter", location=site.location
        )
    extent = evaluate(about, dims)
    # One of more bits than are kept may look as if it were inside.
    what = "an index" if -extent <= index < extent else f"index {index}"
    return IndexOutOfBounds(f"{what} is out of bounds for an axis of extent {extent}", location=site.location)


def number_error(shown: str, dtype: np.dtype[Any], location: Location | None = None) -> NumberOutOfBounds:
    """The error for a Python number, `integer 300`, that does not fit a dtype."""
    return NumberOutOfBounds(f"Python {shown} out of bounds for {dtype}", location=location or user_location())
