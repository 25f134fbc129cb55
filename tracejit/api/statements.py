"""Python's `if`, `for` and `while` in traced functions: run by Python where it can decide, else loops and branches of
the program.

What blocks bind is handed on as the state of a loop, or the result of a branch, by the names' variables.  A loop whose
number of iterations is known is traced once for all of them; where that is not what Python would do (lists that grow,
an index used as a number, shapes that change), the trace starts again and Python runs it, iteration by iteration.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.api.bodies import Body, IndexDecides, carried
from tracejit.api.carries import Sharing, can_be_carried, is_array, order_of, places_after, root_of
from tracejit.api.range import TracedRange, bounds_of, trip_count
from tracejit.ir.extents import Dim, Extent, has_index, same_extent, surely_at_most
from tracejit.primitives.creation import zeros_of
from tracejit.support.errors import TracejitError, TracerError
from tracejit.support.nodes import define, field
from tracejit.support.source import frames_of, located, raised_at, user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.bytecode import raises
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import Raised
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.ownership import is_installed
from tracejit.tracer.recorder import StageInterpreter, recording
from tracejit.tracer.statements.calls import Statements
from tracejit.tracer.statements.decisions import Site, as_python
from tracejit.tracer.statements.variables import UNBOUND, Variables, is_flag
from tracejit.tracer.tracer import Tracer

__all__ = ["STATEMENTS"]

_MOST_BRANCHES = 64
"""Of a loop that Python runs and that may be left: how many iterations may follow."""
_FEW = 4
"""Loops of so many iterations at most are written out."""


# -- values that decide ------------------------------------------------------------------------------------------------
def _is_open(x: Any) -> bool:
    """Whether a condition is known only when the program runs; arrays of several elements are none, as in NumPy."""
    return isinstance(x, Tracer) and x.size == 1 and x.seen().concrete() is None and recording() is not None


def _flag(x: Tracer) -> Any:
    return x if not x.shape else x.reshape(())


def branch(
    test: Any,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    assigned: Sequence[str],
    known: Sequence[str],
    augmented: Sequence[str],
    sure: Sequence[str],
) -> Any:
    """`if test: then() else: orelse()`; what the block returns, where the statement ends the function."""
    site = _site(then)
    if not _is_open(test) or _is_decided(site):
        return _native(then if test else orelse, assigned)
    return _branch(test, then, orelse, Variables((then, orelse), assigned), known, augmented, sure, site)


def _branch(
    test: Any,
    then: Callable[[], Any],
    orelse: Callable[[], Any],
    variables: Variables,
    known: Sequence[str],
    augmented: Sequence[str],
    sure: Sequence[str],
    site: Site,
) -> Any:
    kept = [n for n in known if n in variables.cells and _stays(variables.before[n], n in augmented)]
    names = [n for n in known if n in variables.cells and n not in kept]
    filled = _filled(variables, (then, orelse), [n for n in names if variables.before[n] is UNBOUND and n not in sure])
    names = [n for n in names if variables.before[n] is not UNBOUND or n in sure or n in filled]
    seen: dict[Callable[[], Any], tuple[Any, Sharing]] = {}  # of each block the last trace counts

    def run(block: Callable[[], Any]) -> Callable[[], Any]:
        def traced() -> Any:
            variables.restore()
            try:
                value = _run(block)
                left = tuple([filled[n]() if n in filled and variables[n] is UNBOUND else variables[n] for n in names])
                _check_kept(variables, kept)
                _check_bound(names, left)
                interpreter = current_interpreter()
                assert isinstance(interpreter, StageInterpreter)
                seen[block] = (value, left), Sharing.of(interpreter, (), (value, left))
                return value, left
            finally:
                variables.restore()

        return traced

    try:
        with _branching(site):
            value, left = control.cond(_flag(test), run(then), run(orelse))
    except _Raises as raising:
        fails = raising.block is then
        with located(raised_at(raising.exception)):
            OPERATORS.check_none(_flag(test) if fails else np.logical_not(_flag(test)), Raised(raising.exception))
        return _native(orelse if fails else then, tuple(variables.cells))
    value, left = _shared(tuple(seen.values()), (value, left), ())
    _finish(variables, names, left, [*kept, *[n for n in variables.cells if n in augmented and n not in known]])
    return value


def _site(block: Callable[..., Any]) -> Site:
    """The branch that a block belongs to."""
    return Site(block.__code__, 0, "branch")


def _is_decided(site: Site) -> bool:
    """Whether Python has to decide a branch."""
    trace = current_trace()
    return trace is not None and site in trace.loops.python


def _branching(site: Site) -> AbstractContextManager[None]:
    trace = current_trace()
    return nullcontext() if trace is None else trace.loops.branching(site)


class _Raises(Exception):
    """A block raises an exception whenever it runs."""

    def __init__(self, block: Callable[[], Any], exception: Exception) -> None:
        super().__init__()
        self.block = block
        self.exception = exception


def _run(block: Callable[[], Any]) -> Any:
    """What a block returns.  Raises: _Raises if it ends in a `raise` or `assert` of the user's functions."""
    try:
        return block()
    except TracejitError:
        raise
    except Exception as error:
        code, place = frames_of(error)[-1]
        if is_installed(code.co_filename) or not raises(code, place):
            raise
        raise _Raises(block, error) from None


def _filled(
    variables: Variables, blocks: Sequence[Callable[[], Any]], names: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """Of names that one of the blocks binds: what the other has for them, which nobody reads.  Only of those that an
    early `return` has made, a flag tells whether they count.
    """
    wanted = [n for n in names if is_flag(n)]
    if not wanted:
        return {}
    found: dict[str, Callable[[], Any]] = {}
    for block in blocks:
        likes = _probed(variables, wanted, (), lambda block=block: block())
        found.update({n: like.zeros for n, like in likes.items() if n not in found})
    return found


def _probed(
    variables: Variables, names: Sequence[str], given: Sequence[Any], run: Callable[..., Any]
) -> dict[str, _Like]:
    """Of what kind the names are after `run`, of arrays like those given, which is traced for that and left out of the
    program.
    """
    found: dict[str, _Like] = {}

    def traced(*args: Any) -> Any:
        try:
            variables.restore()
            run(*args)
            for n in names:
                if variables[n] is not UNBOUND and can_be_carried(variables[n]):
                    found[n] = _Like.of(variables[n])
        finally:
            variables.restore()
        return ()

    Body(traced, carried(given))
    return found


def _stays(before: Any, is_augmented: bool) -> bool:
    """Whether a name keeps its object: what cannot be carried, and arrays that `+=` changes in place."""
    return before is not UNBOUND and (not can_be_carried(before) or (is_augmented and is_array(before)))


def _check_kept(variables: Variables, kept: Sequence[str]) -> None:
    for n in kept:
        before, now = variables.before[n], variables[n]
        if now is not before:
            raise TracerError(
                f"{n!r}, which is {_described(before)} before a loop or branch of the program, is bound anew there",
                location=user_location(),
            )


def _described(x: Any) -> str:
    return "None" if x is None else f"a {type(x).__name__}"


def _check_bound(names: Sequence[str], values: Sequence[Any]) -> None:
    for n, value in zip(names, values, strict=True):
        if value is UNBOUND:
            raise TracerError(f"{n!r} is deleted in a loop or branch of the program", location=user_location())
        if not can_be_carried(value):
            raise TracerError(
                f"{n!r} becomes {_described(value)} in a loop or branch of the program, which hands on arrays, "
                "numbers and tuples of them",
                location=user_location(),
            )


def _finish(variables: Variables, names: Sequence[str], values: Sequence[Any], kept: Sequence[str]) -> None:
    """After a traced statement: what was handed on has new values, what it left as it is the old ones, and names that
    nobody reads any more have none.
    """
    for name in variables.cells:
        variables[name] = variables.before[name] if name in kept else UNBOUND
    for name, value in zip(names, values, strict=True):
        variables[name] = value


def _shared(
    seen: Sequence[tuple[Any, Sharing]],
    results: Any,
    initial: Sequence[Any],
    site: Site | None = None,
    certain: bool = True,
) -> Any:
    """Results in which arrays are one that are one in Python; where only the data tell, neither can be changed.

    seen: what blocks left, and what their arrays were.  initial: what a loop began with.  certain: whether one of the
    blocks runs.
    """
    leaves, tree = flatten(results)
    lefts = [flatten(left)[0] for left, _ in seen]
    always = set[int]()
    for n in range(len(leaves)):
        sources = [left[n] for left in lefts]
        outer = all(any(n == k for k, _ in sharing.outer) for _, sharing in seen)
        if outer and not (certain and sources[0].interpreter.alive and all(x is sources[0] for x in sources)):
            outer = False
        both_have = len(seen) > 1 and (all(x is sources[0] for x in sources) or _is_one_number(sources))
        if outer or both_have:
            leaves[n] = sources[0]
            always.add(n)
    pairs = [frozenset(sharing.same) for _, sharing in seen]
    for a, b in frozenset[tuple[int, int]]().union(*pairs):
        if all((a, b) in these for these in pairs):
            leaves[b] = leaves[a]
        else:
            _may_be_one(leaves[a], leaves[b], site)
    for _, sharing in seen:
        for a, b in sharing.twins:
            _may_be_one(leaves[a], leaves[b], site)
        for n, source in (*sharing.outer, *sharing.possible):
            if n not in always:
                _may_be_one(leaves[n], root_of(source), site)
        for n, k in sharing.inner:
            if isinstance(initial[k], Tracer) and is_array(initial[k]):
                _may_be_one(leaves[n], root_of(initial[k]), site)
    return unflatten(tree, leaves)


def _is_one_number(values: Sequence[Any]) -> bool:
    """Whether all of them are the same number, which Python knows."""
    first = values[0]
    return type(first) in (bool, int, float) and all(type(x) is type(first) and repr(x) == repr(first) for x in values)


def _may_be_one(a: Any, b: Any, site: Site | None) -> None:
    if isinstance(a, Tracer) and isinstance(b, Tracer) and a is not b:
        a.may_be(b, site)


def _native(block: Callable[..., Any], assigned: Sequence[str], *args: Any) -> Any:
    """A block that Python runs.  An unbound variable of the function is a free one here; its error is given back the
    kind it had.
    """
    try:
        return block(*args)
    except NameError as e:
        if type(e) is NameError and e.name in assigned and e.name in block.__code__.co_freevars:
            raise UnboundLocalError(
                f"cannot access local variable {e.name!r} where it is not associated with a value"
            ).with_traceback(e.__traceback__) from None
        raise


# -- loops -------------------------------------------------------------------------------------------------------------
@define(eq=False)
class _Items:
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


def items(kind: Any, *args: Any) -> Any:
    """What a `for` goes over, of `range`, `enumerate`, `zip` or `reversed`: a loop can be made of it."""
    if recording() is None:
        return kind(*args)
    if kind is builtins.range:
        return _range(*args)
    if kind not in (enumerate, zip, reversed):
        return kind(*args)
    parts = [_sequence(a) for a in args]
    counts = [None if p is None else p.count for p in parts]
    if any(n is None for n in counts) or not parts or (kind is not zip and len(parts) > 1):
        return kind(*[_python(a) for a in args])
    first = parts[0]
    assert first is not None
    asked = any(p is not None and p.asked for p in parts)
    if kind is enumerate:
        return _Items(first.count, lambda k: (k, first.item(k)), asked=asked)
    if kind is reversed:
        last = first.count - 1  # type: ignore[operator]
        return _Items(first.count, lambda k: first.item(last - k), asked=asked)
    if all(isinstance(n, int) for n in counts):
        return _Items(min(counts), lambda k: tuple([p.item(k) for p in parts]), asked=asked)  # type: ignore[type-var, union-attr]
    if all(n == counts[0] for n in counts):
        return _Items(counts[0], lambda k: tuple([p.item(k) for p in parts]), asked=asked)  # type: ignore[union-attr]
    return zip(*[_python(a) for a in args], strict=False)


def _python(x: Any) -> Any:
    """What Python's own functions take for a sequence."""
    return builtins.range(*[operator.index(b) for b in x.bounds]) if isinstance(x, _Items) and x.bounds else x


def _range(*args: Any) -> Any:
    if not 1 <= len(args) <= 3:
        return builtins.range(*args)
    start, stop, step = bounds_of(args)
    if isinstance(step, Tracer) or not all(isinstance(b, (int, np.integer, Tracer, Dim)) for b in (start, stop, step)):
        return builtins.range(*args)
    count = trip_count(start, stop, step)
    step = operator.index(step)
    if count is None:
        return _Items(None, lambda k: k, (start, stop, step))
    start = start if isinstance(start, Dim) else operator.index(start)
    plain = step == 1 and isinstance(start, int) and start == 0
    return _Items(count, (lambda k: k) if plain else (lambda k: k * step + start), (start, stop, step))


def _sequence(x: Any) -> _Items | None:
    if isinstance(x, _Items):
        return x
    if type(x) is builtins.range:
        return _range(x.start, x.stop, x.step)
    if type(x) is TracedRange:
        made = _range(*x.bounds)
        return _Items(made.count, made.item, made.bounds, asked=True)
    if type(x) is Tracer and x.shape:
        return _Items(x.shape[0], lambda k: x[k])
    return None


def iteration(
    source: Any,
    body: Callable[[Any], None],
    tail: Callable[[], None] | None,
    stop: Callable[[], Any] | None,
    assigned: Sequence[str],
    carry: Sequence[str],
    augmented: Sequence[str],
    between: Sequence[str],
) -> None:
    """`for item in source: body(item)`; where that has not left the loop, an iteration ends with its `tail`."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    site = Site(frame.f_code, frame.f_lasti)
    found = _sequence(source) if recording() is not None else None
    steps = _Steps((body, tail, stop), assigned, carry if tail is None else between, augmented)
    if found is None or (not found.asked and _is_left_to_python(site, found)):
        steps.run(source if found is None else found)
        return
    trace = current_trace() if _can_start_again() else None
    if found.count is None and trace is not None and site in trace.loops.counted:
        found = _counted(found) or found
    if found.count is None:

        def whole(item: Any) -> None:
            body(item)
            if tail is not None:
                steps(tail)

        try:
            _iterate(_Loop(steps.variables(), carry, augmented), found, whole, stop, None)
        except Exception as error:
            if trace is not None and _counted(found) is not None:
                as_python(site, _first_line(error), counted=True)
            raise
        return
    if not _may_run(found.count):
        return
    if trace is None:
        steps.in_the_program(found, carry, None, (0, 0))
        return
    decisions = trace.loops
    if site in decisions.python:
        raise TracerError(
            f"the loop over tj.range cannot be one of the program: {decisions.python[site]}", location=user_location()
        )
    with decisions.tracing(site):
        try:
            steps.in_the_program(found, carry, site, decisions.apart.get(site, (0, 0)))
        except IndexDecides as error:
            as_python(site, _first_line(error), error.apart)
        except Exception as error:
            if found.asked and site in decisions.apart:
                raise
            as_python(site, _first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _counted(found: _Items) -> _Items | None:
    """A range whose bounds are traced integers, where they are extents: of the index of a loop around."""
    assert found.bounds is not None
    bounds = [b.extent() if isinstance(b, Tracer) else b for b in found.bounds]
    if any(b is None for b in bounds):
        return None
    made = _range(*bounds)
    count = made.count
    if isinstance(count, Dim) and not surely_at_most(0, count):  # it is stacked, perhaps
        count = count.maximum(0)
    return _Items(count, made.item, made.bounds, found.asked)


def _is_left_to_python(site: Site, found: _Items) -> bool:
    if found.count is None:
        return False
    trace = current_trace()
    if trace is None or not _can_start_again() or site in trace.loops.python:
        return True
    return isinstance(found.count, int) and found.count <= _FEW


def _can_start_again() -> bool:
    """Whether the trace at hand is that of a program."""
    recorder = recording()
    return recorder is not None and recorder.of_program


def _may_run(count: Extent) -> bool:
    """Whether a loop has an iteration, or may have one where the index of a loop around tells how many it has."""
    return has_index(count) or bool(count >= 1)


def _number(x: Any) -> Any:
    """What a loop goes over, with the Python integer of the program that an extent is."""
    if not isinstance(x, Dim):
        return x
    number: Any = OPERATORS.extent(x)
    if isinstance(number, Tracer):
        number.weaken()
    return number


class _Steps:
    """A loop that Python runs step by step; where only the program knows whether it was left, a step is a branch."""

    def __init__(
        self,
        blocks: tuple[Callable[[Any], None], Callable[[], None] | None, Callable[[], Any] | None],
        assigned: Sequence[str],
        carry: Sequence[str],
        augmented: Sequence[str],
    ) -> None:
        self.blocks = blocks
        self.stop = blocks[-1]
        self.assigned = assigned
        self.carry = carry
        self.augmented_names = augmented
        self.augmented = [n for n in augmented if n in carry]
        self.branches = 0

    def variables(self) -> Variables:
        """Those of the blocks, as they are now."""
        return Variables(self.blocks, self.assigned)

    def run(self, source: Iterable[Any]) -> None:
        body, tail, _ = self.blocks
        for item in source:
            if not self(body, item) or (tail is not None and not self(tail)):
                return

    def in_the_program(self, found: _Items, carry: Sequence[str], site: Site | None, apart: tuple[int, int]) -> None:
        """A loop as one of the program.

        apart: so many iterations at the beginning and at the end are no part of it: what these alone do (names that the
        first one binds, numbers that become arrays there, values it computes for all, arrays without elements) is no
        matter of the loop.
        """
        body, tail, stop = self.blocks
        count, item = found.count, found.item
        assert count is not None
        done, last = apart
        if done + last and not count >= done + last:
            self.run(_Items(count, lambda k: _number(item(k))))
            return
        for k in builtins.range(done):
            self(body, _number(item(k)))
            if tail is not None:
                self(tail)
        whole = body
        if tail is not None and not same_extent(count, done):
            # The tail hands names round.  As the beginning of the iteration that follows it does so in each.
            self(body, item(done))
            done += 1

            def turned_round(item: Any, /) -> None:
                tail()
                body(item)

            whole = turned_round
        following = _Items(count - done - last, lambda k: item(k + done))
        if not same_extent(count - done, last):
            loop = _Loop(self.variables(), carry if tail is None else self.carry, self.augmented_names)
            _iterate(loop, following, whole, stop, site)
        if tail is not None:
            self(tail)
        for k in builtins.range(last):
            self(body, _number(item(count - last + k)))

    def __call__(self, block: Callable[..., None], *args: Any) -> bool:
        """Run a block unless the loop was left; whether it may go on."""
        left = self.stop is not None and self.stop()
        if not _is_open(left):
            if not left:
                _native(block, self.assigned, *args)
            return not left
        self.branches += 1
        if self.branches > _MOST_BRANCHES:
            raise TracerError(
                f"a loop that Python runs goes on for more than {_MOST_BRANCHES} iterations after it may have been "
                "left on a condition which only the program knows; loop over a range or an array, or use a mask",
                location=user_location(),
            )
        run = functools.partial(_native, block, self.assigned, *args)
        variables = self.variables()
        _branch(negation(left), run, lambda: None, variables, self.carry, self.augmented, (), _site(block))
        return True


def _iterate(
    loop: _Loop, found: _Items, body: Callable[[Any], None], stop: Callable[[], Any] | None, site: Site | None
) -> None:
    if found.count is None:
        _count(loop, found, body, stop)
        return
    count = found.count

    def once(k: Any) -> None:
        body(found.item(k))

    loop.begin(once)
    if stop is None:
        certain = surely_at_most(1, count)
        loop.end(lambda new: control.fori_loop(0, count, new, loop.initial), once, site, count, certain=certain)
        return
    number = count if isinstance(count, int) else OPERATORS.extent(count)

    def run(new: Callable[[Any, Any], Any]) -> Any:
        def goes_on(state: Any) -> Any:
            with loop.at(state[1]):
                return both(state[0] < number, lambda: negation(stop()))

        return control.while_loop(goes_on, lambda state: (state[0] + 1, new(*state)), (0, loop.initial))[1]

    loop.end(run, once, site, None)


def _count(loop: _Loop, found: _Items, body: Callable[[Any], None], stop: Callable[[], Any] | None) -> None:
    """A range whose bounds the program computes."""
    assert found.bounds is not None
    start, end, step = found.bounds
    loop.begin(body)

    def run(new: Callable[[Any, Any], Any]) -> Any:
        def goes_on(state: Any) -> Any:
            inside = state[0] < end if step > 0 else state[0] > end
            with loop.at(state[1]):
                return inside if stop is None else both(inside, lambda: negation(stop()))  # pyright: ignore[reportOptionalCall]

        return control.while_loop(goes_on, lambda state: (state[0] + step, new(*state)), (start, loop.initial))[1]

    loop.end(run, body, None, None)


class _Loop:
    """A loop of the program, and the variables that its iterations hand on."""

    def __init__(self, variables: Variables, carry: Sequence[str], augmented: Sequence[str]) -> None:
        self.variables = variables
        before = variables.before
        carried = [n for n in carry if n in variables.cells]
        self.kept = [n for n in carried if _stays(before[n], n in augmented)]
        self.in_place = [n for n in variables.cells if n in augmented and n not in carry]
        self.names = [n for n in carried if n not in self.kept]
        self.initial: dict[str, Any] = {n: before[n] for n in self.names if before[n] is not UNBOUND}
        self.seen: list[tuple[Any, Sharing]] = []
        self.turns: Any = None  # of names that hand their arrays round: counted under a name of its own

    def begin(self, once: Callable[[Any], None]) -> None:
        """Give the names that the loop itself binds first a value: of their kind, which nobody sees.

        Raises: TracerError where the loop might see it.
        """
        if any(n not in self.initial for n in self.names) and self.variables.may_be_caught_unbound():
            raise TracerError("a variable has no value yet where errors are caught", location=user_location())
        while unbound := [n for n in self.names if n not in self.initial]:
            leaves, tree = flatten(self.initial)

            def run(k: Any, *state: Any, tree: Any = tree) -> None:
                for n, value in unflatten(tree, state).items():
                    self.variables[n] = value
                once(k)

            found = _probed(self.variables, unbound, (0, *leaves), run)
            if not found:
                break
            self.initial.update({n: like.zeros() for n, like in found.items()})
        self.names = [n for n in self.initial if n in self.names]

    def at(self, state: Any) -> _At:
        """The variables hold a state in the block."""
        return _At(self, state)

    def end(
        self,
        run: Callable[[Any], Any],
        once: Callable[[Any], None],
        site: Site | None,
        count: Extent | None,
        *,
        certain: bool = False,
    ) -> None:
        """Trace the loop, and give the variables what it leaves.

        count: how many iterations, if that is known.  certain: whether it has one.
        """
        variables, names = self.variables, self.names
        changed: set[int] = set()  # names that hand their arrays round, and change them

        def new(k: Any, state: dict[str, Any]) -> Any:
            first = flatten(self.initial)[0]
            given = flatten(state)[0]
            with self.at(state):
                once(k)
                left = {n: variables[n] for n in names}
                _check_kept(variables, [*self.kept, *[n for n in self.in_place if is_array(variables.before[n])]])
            _check_bound(names, tuple(left.values()))
            interpreter = current_interpreter()
            assert isinstance(interpreter, StageInterpreter)
            sharing = Sharing.of(interpreter, given, left)
            changed.clear()
            changed.update(n for n in sharing.turned if given[n].version)
            written = {*interpreter.cells}
            for x in (*[root_of(x) for x in first if isinstance(x, Tracer)], *[root_of(x) for _, x in sharing.outer]):
                if id(x) in written:
                    raise _changed_elsewhere()
            self._check_turned(sharing.turned, changed, interpreter)
            self.seen.append((left, sharing))
            if self.turns is not None:
                left[_TURNS] = state[_TURNS] + np.int64(1)
            return left

        while True:
            results = run(new)
            turned = self.seen[-1][1].turned
            if self.turns is not None or count is not None or order_of(turned) == 1:
                break
            self.turns = self.initial[_TURNS] = np.int64(0)  # once more, and count them
        first = flatten(self.initial)[0]
        shared = _shared(self.seen[-1:], results, first, site, certain)
        leaves, tree = flatten(shared)
        if not certain:  # they may be what was there before
            for n, (x, before) in enumerate(zip(leaves, first, strict=True)):
                if n not in turned and isinstance(before, Tracer) and is_array(before) and x is not before:
                    _may_be_one(x, root_of(before), site)
        turns = shared.get(_TURNS, 0) if count is None else count
        self._turn(leaves, turned, changed, turns, site)
        shared = unflatten(tree, leaves)
        _finish(variables, names, [shared[n] for n in names], [*self.kept, *self.in_place])

    def _check_turned(self, turned: Mapping[int, int], changed: set[int], interpreter: StageInterpreter) -> None:
        """Names that hand round arrays which they change: each has its own, which nobody reads by another name."""
        if not changed:
            return
        first = flatten(self.initial)[0]
        arrays = [first[n] for n in turned]
        roots = [id(root_of(x)) for x in first if isinstance(x, Tracer) and is_array(x)]
        for x in arrays:
            if not isinstance(x, Tracer):
                raise TracerError("an array from outside is changed in place", location=user_location())
            if x.root is not None or id(x) in interpreter.captured_cells or roots.count(id(x)) > 1 or x.possible():
                raise _changed_elsewhere()

    def _turn(
        self, leaves: list[Any], turned: Mapping[int, int], changed: set[int], turns: Any, site: Site | None
    ) -> None:
        """What names have that handed their arrays round so many times: the arrays of before, with new elements.

        leaves: what the names were left with; changed here.
        """
        first = flatten(self.initial)[0]
        order = order_of(turned)
        if order > 1 and not isinstance(turns, int):
            rest = np.remainder(OPERATORS.extent(turns) if isinstance(turns, Dim) else turns, order)
            places = [places_after(turned, k) for k in builtins.range(order)]
            before = dict(enumerate(leaves))
            if changed:
                for m in turned:
                    value = before[m]
                    for k in builtins.range(1, order):
                        value = np.where(rest == k, before[next(n for n in turned if places[k][n] == m)], value)
                    first[m].assign(value)
            for n in turned:
                for m in {place[n] for place in places}:
                    _may_be_one(leaves[n], root_of(first[m]) if isinstance(first[m], Tracer) else first[m], site)
            return
        after = places_after(turned, turns if order > 1 else 0)
        before = {n: leaves[n] for n in turned}
        for n, m in after.items():
            if changed:
                first[m].assign(before[n])
            leaves[n] = first[m]


def _changed_elsewhere() -> TracerError:
    return TracerError(
        "a name stands for an array that the loop changes in place under another name", location=user_location()
    )


_TURNS = "turns@"


@define(eq=False)
class _At:
    loop: _Loop
    state: Any

    def __enter__(self) -> None:
        self.loop.variables.restore()
        for name, value in self.state.items():
            if name != _TURNS:
                self.loop.variables[name] = value

    def __exit__(self, *_: object) -> None:
        self.loop.variables.restore()


@define(eq=False)
class _Like:
    """What is known of a value: its kind."""

    parts: list[Any] = field(factory=list[Any])
    tree: Any = None

    @staticmethod
    def of(value: Any) -> _Like:
        leaves, tree = flatten(value)
        return _Like([(aval_of_argument(x), is_array(x)) for x in leaves], tree)

    def zeros(self) -> Any:
        return unflatten(self.tree, [_zeros(aval, array) for aval, array in self.parts])


def _zeros(aval: Any, array: bool) -> Any:
    if not aval.shape and not array:
        zero = aval.dtype.type(0)
        return zero.item() if aval.weak else zero
    made = zeros_of(aval)
    if isinstance(made, Tracer):
        made.is_array = True
    return made


def repetition(
    test: Callable[[], Any],
    body: Callable[[], None],
    stop: Callable[[], Any] | None,
    assigned: Sequence[str],
    carry: Sequence[str],
    augmented: Sequence[str],
) -> None:
    """`while test(): body()`."""
    while True:
        left = stop is not None and stop()
        if _is_open(left):
            break
        if left:
            return
        more = _native(test, assigned)
        if _is_open(more):
            break
        if not more:
            return
        _native(body, assigned)
    loop = _Loop(Variables((body, test, stop), assigned), carry, augmented)

    def once(_: Any) -> None:
        body()

    loop.begin(once)

    def run(new: Callable[[Any, Any], Any]) -> Any:
        def goes_on(state: Any) -> Any:
            with loop.at(state):
                return test() if stop is None else both(negation(stop()), test)

        return control.while_loop(goes_on, lambda state: new(None, state), loop.initial)

    loop.end(run, once, None, None)


# -- expressions -------------------------------------------------------------------------------------------------------
def choose(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """`yes() if test else no()`."""
    if not _is_open(test) or _is_decided(_site(yes)):
        return yes() if test else no()
    return _value_of_branch(test, yes, no, _site(yes))


def _value_of_branch(test: Tracer, yes: Callable[[], Any], no: Callable[[], Any], site: Site) -> Any:
    seen: dict[Callable[[], Any], tuple[Any, Sharing]] = {}

    def run(value_of: Callable[[], Any]) -> Callable[[], Any]:
        def traced() -> Any:
            value = value_of()
            interpreter = current_interpreter()
            assert isinstance(interpreter, StageInterpreter)
            seen[value_of] = value, Sharing.of(interpreter, (), value)
            return value

        return traced

    with _branching(site):
        result = control.cond(_flag(test), run(yes), run(no))
    return _shared(tuple(seen.values()), result, ())


def both(value: Any, *later: Callable[[], Any]) -> Any:
    """`value and later() and ...`."""
    for k, following in enumerate(later):
        site = _site(following)
        if _is_open(value) and not _is_decided(site):
            left, rest = value, later[k + 1 :]
            return _value_of_branch(left, lambda f=following, rest=rest: both(f(), *rest), lambda left=left: left, site)
        if not value:
            return value
        value = following()
    return value


def either(value: Any, *later: Callable[[], Any]) -> Any:
    """`value or later() or ...`."""
    for k, following in enumerate(later):
        site = _site(following)
        if _is_open(value) and not _is_decided(site):
            left, rest = value, later[k + 1 :]
            return _value_of_branch(
                left, lambda left=left: left, lambda f=following, rest=rest: either(f(), *rest), site
            )
        if value:
            return value
        value = following()
    return value


def negation(value: Any) -> Any:
    """`not value`."""
    return np.logical_not(_flag(value)) if _is_open(value) else not value


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def chain(left: Any, *pairs: tuple[str, Callable[[], Any]]) -> Any:
    """`left < later() < ...`, each operand computed where those before it hold."""
    for k, (which, later) in enumerate(pairs):
        right = later()
        result = _OPERATORS[which](left, right)
        if k == len(pairs) - 1:
            return result
        site = _site(later)
        if _is_open(result) and not _is_decided(site):
            rest = pairs[k + 1 :]
            return _value_of_branch(
                result, lambda right=right, rest=rest: chain(right, *rest), lambda result=result: result, site
            )
        if not result:
            return result
        left = right
    return left


def claim(test: Any, message: Callable[[], Any] | None) -> Any:
    """What is to be asserted; a condition of the program is checked there."""
    if not _is_open(test):
        return test
    said = () if message is None else (message(),)
    OPERATORS.check_none(np.logical_not(_flag(test)), Raised(AssertionError(*said)))
    return True


STATEMENTS = Statements(
    branch=branch,
    iteration=iteration,
    repetition=repetition,
    items=items,
    choose=choose,
    both=both,
    either=either,
    negation=negation,
    chain=chain,
    claim=claim,
)
