"""`tj.range`: a loop whose body is traced once."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tracejit.api.bodies import are_alike, in_64_bits, is_positive, may_be_state, varies
from tracejit.ir.extents import Dim, Extent, steps_over
from tracejit.ir.jaxpr import Equation, Jaxpr, Literal, Var
from tracejit.ir.ranges import Range
from tracejit.ir.text import print_jaxpr
from tracejit.ir.types import ShapedArray
from tracejit.primitives.comparison import Lt
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.elementwise import Add
from tracejit.primitives.while_loop import While
from tracejit.support.errors import DtypeError, TracerError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.tracer.absence import used
from tracejit.tracer.bytecode import bound_first, carried_names, iterates_directly, target_of, yields_within
from tracejit.tracer.interpreter import bind, current_interpreter, enter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.python_state import PythonState
from tracejit.tracer.recorder import StageInterpreter, left_early, recording_of
from tracejit.tracer.restarts import ChangedLater
from tracejit.tracer.tracer import Tracer

__all__ = ["TracedRange", "bounds_of", "range", "trip_count"]


def range(*bounds: Any) -> Any:
    """`for i in tj.range(n)`: a loop whose body is traced once and stays a loop.  Outside
    of a trace it is Python's range.

    Names that the body binds anew are carried to the next iteration; what it changes in Python's objects (a counter in
    an attribute, a list that grows) would happen once, while tracing, and is refused.  In functions without source the
    body works on arrays in place, and names are not carried.  Bounds may depend on data: such a loop has a forward-mode
    derivative only, unless they are indices of loops around it.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def fibonacci(n):
    ...     pair = np.array([0, 1])
    ...     for i in tj.range(n):
    ...         pair[:] = pair[::-1] + np.array([0, 1]) * pair
    ...     return pair[0]
    >>> [int(fibonacci(n)) for n in (1, 5, 10)]
    [1, 5, 55]
    """
    if recording_of(current_interpreter()) is None:
        return builtins.range(*[operator.index(b) for b in bounds])
    return TracedRange(bounds)


class TracedRange:
    """What `range` is in a trace: for the head of a `for` statement only, which runs its body once."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: tuple[Any, ...]) -> None:
        self.bounds = bounds

    def __iter__(self) -> Iterator[Any]:
        if not iterates_directly(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            raise TracerError(
                "tj.range is iterated over by something else than a for statement (zip, enumerate, list, ...), which "
                "would take its one "
                "traced iteration for all of them; write `for i in tj.range(n)` and index with i (x[i] for each x of "
                "a zip), or use "
                "Python's range",
                location=user_location(),
            )
        return _iterations(self.bounds)

    def __reversed__(self) -> TracedRange:
        start, stop, step = bounds_of(self.bounds)
        count = trip_count(start, stop, step)
        if count is None:
            raise TypeError(
                "a tj.range whose bounds depend on data cannot be reversed; count upwards and index with n - 1 - i"
            )
        return TracedRange((start + (count - 1) * step, start - step, -step))

    def _as_python(self) -> builtins.range:
        """Python's range of the same numbers.  Raises ConcretizationError where bounds depend on data."""
        return builtins.range(*[operator.index(b) for b in self.bounds])

    def __eq__(self, other: object) -> bool:
        return self._as_python() == (other._as_python() if isinstance(other, TracedRange) else other)

    def __hash__(self) -> int:
        return hash(self._as_python())

    def __contains__(self, number: object) -> bool:
        return number in self._as_python()

    def __getitem__(self, place: Any) -> Any:
        return self._as_python()[place]

    def index(self, number: Any, /) -> int:
        return self._as_python().index(number)

    def count(self, number: Any, /) -> int:
        return self._as_python().count(number)

    @property
    def start(self) -> Any:
        return bounds_of(self.bounds)[0]

    @property
    def stop(self) -> Any:
        return bounds_of(self.bounds)[1]

    @property
    def step(self) -> Any:
        return bounds_of(self.bounds)[2]

    def __len__(self) -> int:
        count = trip_count(*bounds_of(self.bounds))
        if count is None:
            raise TypeError("the length of a tj.range whose bounds depend on data is not known while tracing")
        return operator.index(count)


def _iterations(bounds: tuple[Any, ...]) -> Iterator[Any]:
    current = current_interpreter()
    program = recording_of(current)
    assert program is not None
    start, stop, step = bounds_of(bounds)
    count = trip_count(start, stop, step)
    if isinstance(count, int) and count <= 0:
        return
    if count is None:
        start, stop = _bound(start), _bound(stop)
    else:  # numbers of NumPy's, of few bits perhaps, are Python's in a range
        numbers: list[Any] = [b if isinstance(b, (int, Dim)) else operator.index(b) for b in (start, step)]
        start, step = numbers
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    if yields_within(frame.f_code, frame.f_lasti):
        raise TracerError(
            "the body of the loop over tj.range is in a generator and yields, so that what iterates over the "
            "generator would see one "
            "iteration; loop over tj.range where the values are used, or use Python's range",
            location=user_location(),
        )
    before = dict(frame.f_locals)
    held = PythonState(before.values())
    first: StageInterpreter | None = None
    put: dict[Any, Any] = {}  # under new names and keys
    while True:
        inner = StageInterpreter(current)
        inner.name = "range"
        inner.certain = is_positive(count)
        # as range's numbers are: it bends to the dtype of arrays
        index: Any = inner.new_input(ShapedArray((), np.int64, weak=True))
        inner.ranges[index.value] = (0, count - 1) if count is not None else _numbers(start, stop, step)
        program.open_loops += 1
        enter(inner)
        try:
            yield (
                index
                if count is None or (step == 1 and isinstance(start, int) and start == 0)
                else index * step + start
            )
            enter(current)
            filled = first is None and (varies(inner, held.filled()) or _asks_for_names(frame.f_code))
        except GeneratorExit:  # an error raised here would be lost: the trace raises it when the function returns
            program.refused = left_early() if first is None else _filled_a_cache()
            # Whoever keeps the generator (a traceback) may let it go when other traces are at work, in any thread.
            if current_interpreter() is inner:
                enter(current)
            raise
        finally:
            inner.alive = False
            program.open_loops -= 1
        program.refused = program.refused or inner.refused or (left_early() if inner.open_loops else None)
        _check_names(frame, before, inner)
        held.check("the loop over tj.range", _INSTEAD)
        added = held.added_now()
        if first is not None and not are_alike(put, added):
            raise _filled_a_cache()
        if not filled and (first is not None or not may_be_state(added)):
            break
        first, put = inner, added  # what it put somewhere is there in the next iteration: that is traced as well
    if first is not None and not _same_program(first, inner):
        raise _filled_a_cache()
    cells = [c for c, _ in inner.cells.values()]
    # What was read of a cell before its first change is the carry of the iteration before.
    seen = [inner.captured_cells.get(id(c)) for c in cells]
    carries = [known[1] if known is not None else Var(c.aval.strong()) for known, c in zip(seen, cells, strict=True)]
    if not inner.relied_on.isdisjoint(carries):
        raise ChangedLater
    keep = [(v, c) for v, c in zip(inner.captured.values(), inner.constants, strict=True) if v not in carries]
    captured = [c for _, c in keep]
    if count is None:
        condition, body = _counting(inner, (start, stop, step), carries)
        results = bind(While(condition, body, 1, len(keep)), stop, *captured, start, *cells)[1:]
    else:
        jaxpr = Jaxpr(
            (*[v for v, _ in keep], inner.inputs[0], *carries), inner.equations, [v for _, v in inner.cells.values()]
        )
        results = bind(Loop(jaxpr, count, len(keep), len(cells)), *captured, *cells)
    for cell, new in zip(cells, results, strict=True):
        cell.assign(new)


_INSTEAD = "change arrays in place (x[...] = ...), use tj.lax.fori_loop with the values as its state, or Python's range"


def _filled_a_cache() -> TracerError:
    return TracerError(
        "the first iteration of the loop over tj.range leaves a value that depends on the iteration where the next "
        "one finds it (a cache, "
        f"a new key or attribute); {_INSTEAD}",
        location=user_location(),
    )


def _check_names(frame: FrameType, before: dict[str, Any], inner: StageInterpreter) -> None:
    """Raises TracerError if the body of a loop has bound a variable anew that the next iteration would read."""
    names, target = frame.f_locals, target_of(frame.f_code, frame.f_lasti)
    for name, old in before.items():
        if name not in names or name == target:
            continue
        new = names[name]
        if new is old or (isinstance(old, Tracer) and not old.interpreter.alive):
            continue  # the latter is what an earlier loop left, which cannot be read any more
        code, place = frame.f_code, frame.f_lasti
        made_here = isinstance(new, Tracer) and new.interpreter is inner
        if (made_here and name not in bound_first(code, place)) or name in carried_names(code, place):
            raise TracerError(
                f"the loop over tj.range binds {name!r} anew in every iteration, which is not carried to the next; "
                f"change an array in place ({name}[...] = ...) or use tj.lax.fori_loop",
                location=user_location(),
            )


def _same_program(one: StageInterpreter, two: StageInterpreter) -> bool:
    """Whether two traces of a body have recorded the same."""
    if len(one.constants) != len(two.constants) or [id(c) for c, _ in one.cells.values()] != [
        id(c) for c, _ in two.cells.values()
    ]:
        return False
    for a, b, where, there in zip(one.constants, two.constants, one.captured, two.captured, strict=True):
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        if where != there and not (arrays and a.tobytes() == b.tobytes()):
            return False

    def text(trace: StageInterpreter) -> str:
        inputs = [*trace.captured.values(), *trace.inputs]
        return print_jaxpr(
            Jaxpr(tuple(dict.fromkeys(inputs)), tuple(trace.equations), tuple([v for _, v in trace.cells.values()]))
        )

    return text(one) == text(two)


def _asks_for_names(code: CodeType) -> bool:
    """Whether code can tell that a variable has no value yet, as in the first iteration of a loop that binds it."""
    return not _TELLING_NAMES.isdisjoint(code.co_names)


_TELLING_NAMES = frozenset({"NameError", "UnboundLocalError", "locals", "vars", "dir"})


def bounds_of(bounds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """(start, stop, step) of a range's arguments.  Raises DtypeError for what is no integer."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"range expected 1 to 3 arguments, got {len(bounds)}")
    bounds = tuple([np.add(b, 0) if type(b) is Tracer and b.aval.weak and b.dtype.kind == "b" else b for b in bounds])
    for b in bounds:
        if isinstance(used(b), Tracer) and (b.shape or b.dtype.kind not in "iu"):
            raise DtypeError(
                f"tj.range counts in integers, not in a traced array {b.aval}; use x.astype(int)",
                location=user_location(),
            )
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else 1


def trip_count(start: Any, stop: Any, step: Any) -> Extent | None:
    """How many iterations; None if that is known only when the program runs."""
    if any(isinstance(b, Tracer) for b in (start, stop, step)):
        for b in (start, stop, step):
            if isinstance(b, Tracer) and b.known() is None:
                b.ask()
                operator.index(step)
                if step == 0:
                    raise ValueError("range() arg 3 must not be zero")
                return None
        return _length(*[operator.index(b) for b in (start, stop, step)])
    if isinstance(stop, Dim) or isinstance(start, Dim):
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
        return steps_over(distance, stride)
    return _length(operator.index(start), operator.index(stop), operator.index(step))


def _length(start: int, stop: int, step: int) -> int:
    """How many numbers a range has.  Raises: UnsupportedError for more than 64 bits count."""
    numbers = builtins.range(start, stop, step)
    try:
        return len(numbers)
    except OverflowError:
        raise UnsupportedError(
            f"{numbers} has more numbers than 64 bits count; loop `while` a number is in it", location=user_location()
        ) from None


def _numbers(start: Any, stop: Any, step: int) -> Range:
    """Between which numbers those of a range lie, as far as its bounds tell."""
    (low, high), (least, most) = (x.value_range() if isinstance(x, Tracer) else (int(x), int(x)) for x in (start, stop))
    if step > 0:
        return low, None if most is None else most - 1
    return None if least is None else least + 1, high


def _bound(b: Any) -> Any:
    """A bound of a range as it is now, which the loop's body may change."""
    if isinstance(b, Dim):
        return OPERATORS.extent(b)
    if not isinstance(b, Tracer):
        return np.int64(in_64_bits(operator.index(b), "tj.range"))
    if b.dtype == np.uint64:
        OPERATORS.check_number(b, np.dtype(np.int64))
    seen = b.seen()
    return OPERATORS.to_dtype(Tracer(seen.interpreter, seen.value, seen.aval.strong()), np.dtype(np.int64))


def _counting(inner: StageInterpreter, bounds: tuple[Any, Any, int], carries: Sequence[Var]) -> tuple[Jaxpr, Jaxpr]:
    """(condition, body) of the `while` that a range is whose bounds are known only when the program runs: it counts.

    condition: of (stop, number, carries...); body: of (captured..., number, carries...).
    """
    number, (_, _, step) = inner.inputs[0], bounds
    place, count = user_location(), ShapedArray((), np.int64)
    stop, goes_on, following = Var(count), Var(ShapedArray((), np.bool_)), Var(count)
    test = Equation(Lt(), (number, stop) if step > 0 else (stop, number), (goes_on,), place)
    steps = Equation(Add(), (number, Literal(step, count)), (following,), place)
    captured = [v for v in inner.captured.values() if v not in carries]
    after = [v for _, v in inner.cells.values()]
    condition = Jaxpr((stop, number, *[Var(v.aval) for v in carries]), (test,), (goes_on,))
    return condition, Jaxpr((*captured, number, *carries), (*inner.equations, steps), (following, *after))
