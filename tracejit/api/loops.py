"""`for` and `while` in traced functions: run by Python where it has to, else loops of the program.

A loop whose number of iterations is known is traced once for all of them; where that is not what Python would do
(lists that grow, an index used as a number, shapes that change), the trace starts again: some iterations stand apart,
or Python runs it, iteration by iteration.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.api.absent import AbsentThere
from tracejit.api.bodies import Again, IndexDecides, strong
from tracejit.api.branches import traced_branch
from tracejit.api.carries import (
    Sharing,
    bound_anew,
    changed_elsewhere,
    check_alone,
    check_lost,
    containers_in,
    is_array,
    is_nest,
    kind_of_rank_0,
    order_of,
    perhaps_one_of,
    places_after,
    root_of,
)
from tracejit.api.conditions import all_of, both, identical
from tracejit.api.deciding import condition, is_open, negation, site_of
from tracejit.api.handing_on import (
    check_bound,
    check_kept,
    extents_as_numbers,
    finish,
    holding,
    may_be_one,
    named_in,
    not_handed_on,
    number_of,
    probed,
    run_by_python,
    shared_results,
    stays,
)
from tracejit.api.iterated import Items, counted_items, is_shared, items_of
from tracejit.api.lengths import Lengths, LengthsVary, settled
from tracejit.api.raising import Raises, run_block
from tracejit.ir.extents import Dim, Extent, has_index, same_extent, surely_at_most
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.support.errors import NoReverseMode, ShapeError, TracejitError, TracerError
from tracejit.support.nodes import define, field
from tracejit.support.source import user_location, warn_once
from tracejit.support.tree import TreeDef, flatten, map_tree, unflatten
from tracejit.tracer.absence import handed_on_absence, perhaps, unmarked
from tracejit.tracer.bytecode import catches
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.contents import contents
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import failure_so_far, failures_noted, take_back
from tracejit.tracer.interpreter import Interpreter, current_interpreter
from tracejit.tracer.mixed import as_flag, is_pythons, joined, marked, may_be_mixed, without_mark
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.python_state import reachable
from tracejit.tracer.recorder import StageInterpreter, recording
from tracejit.tracer.statements.decisions import Site, as_python
from tracejit.tracer.statements.variables import UNBOUND, Variables, is_flag
from tracejit.tracer.substitutes import type_of
from tracejit.tracer.tracer import Tracer, lose

__all__ = ["iteration", "repetition"]


_MOST_BRANCHES = 64
"""Of a loop that Python runs and that may be left: how many iterations may follow."""


_MANY, _LONG = 8, 60
"""After so many iterations of a `while`, and so many equations, it is the program's."""
_LOOKS = 8
"""After so many iterations of a `while` that Python runs it is seen whether a refusal is due."""
_ENDLESS = 1000
"""So many tests that hold, and of which the program computes something, are enough where Python runs a `while`."""
_MOST_EQUATIONS = 5000
"""A loop that Python runs, and that comes to more operations, is warned of."""
_FEW = 4
_MOST_COPIES = 16  # of the body of a loop of few iterations, in others
"""Loops of so many iterations at most are written out."""


def iteration(
    source: Any,
    body: Callable[[Any], None],
    tail: Callable[[], None] | None,
    stop: Callable[[], Any] | None,
    assigned: Sequence[str],
    carry: Sequence[str],
    augmented: Sequence[str],
    between: Sequence[str],
    written: Sequence[str],
) -> None:
    """`for item in source: body(item)`; where that has not left the loop, an iteration ends with its `tail`."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    site = Site(frame.f_code, frame.f_lasti)
    found = items_of(source) if recording() is not None else None
    steps = _Steps((body, tail, stop), assigned, carry if tail is None else between, augmented, written)
    if found is None:
        steps.run(source)
        return
    if not found.asked and _is_left_to_python(site, found):
        trace = current_trace()
        count = found.count if isinstance(found.count, int) and found.count <= _FEW else 1
        steps.look = _warning_of_many(site, found)
        with nullcontext() if trace is None else trace.loops.writing_out(count):
            steps.run(found)
        return
    trace = current_trace() if _can_start_again() else None
    if found.count is None and trace is not None and site in trace.loops.counted:
        found = counted_items(found) or found
    if found.count is None:

        def whole(item: Any) -> None:
            body(item)
            if tail is not None:
                steps(tail)

        again = site if trace is not None and counted_items(found) is not None else None

        def traced(variables: Variables) -> None:
            _count(_Loop(variables, carry, augmented, written), found, whole, stop, again)

        try:
            holding(steps.variables(), traced)
        except Exception as error:
            if again is not None:
                as_python(again, _first_line(error), counted=True)
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
    with nullcontext() if found.asked else decisions.tracing(site):
        try:
            steps.in_the_program(found, carry, site, decisions.apart.get(site, (0, 0)))
        except IndexDecides as error:
            as_python(site, _first_line(error), error.apart)
        except Exception as error:
            if found.asked and site in decisions.apart:
                raise
            as_python(site, _first_line(error))


def _warning_of_many(site: Site, found: Items) -> Callable[[], None]:
    """What is called after each iteration of a loop that Python runs: if it could be none of the program, and becomes
    much of one, a warning says why, once.
    """
    recorder, trace = recording(), current_trace()
    if recorder is None or trace is None:
        return lambda: None
    before, warned = len(recorder.equations), False

    def look() -> None:
        nonlocal warned
        if warned or site not in trace.loops.python or len(recorder.equations) - before <= _MOST_EQUATIONS:
            return
        warned = True
        warn_once(
            f"a loop of {found.count} iterations is written out to more than {_MOST_EQUATIONS:,} operations, which "
            f"takes long to compile: it is none of the program, as {trace.loops.python[site]}",
            user_location(),
        )

    return look


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _is_left_to_python(site: Site, found: Items) -> bool:
    if found.count is None:
        return False
    trace = current_trace()
    if trace is None or not _can_start_again() or site in trace.loops.python:
        return True
    if not isinstance(found.count, int):
        return False
    few = found.count <= _FEW and found.count * trace.loops.copies <= _MOST_COPIES
    return few or (site, found.count) in trace.loops.short


def _can_start_again() -> bool:
    """Whether the trace at hand is that of a program."""
    recorder = recording()
    return recorder is not None and recorder.of_program


def _may_run(count: Extent) -> bool:
    """Whether a loop has an iteration, or may have one."""
    return has_index(count) or not surely_at_most(count, 0)


class _Steps:
    """A loop that Python runs step by step; where only the program knows whether it was left, a step is a branch."""

    def __init__(
        self,
        blocks: tuple[Callable[[Any], None], Callable[[], None] | None, Callable[[], Any] | None],
        assigned: Sequence[str],
        carry: Sequence[str],
        augmented: Sequence[str],
        written: Sequence[str],
    ) -> None:
        self.blocks = blocks
        self.stop = blocks[-1]
        self.assigned = assigned
        self.carry = carry
        self.augmented_names = augmented
        self.written = written
        self.augmented = [n for n in augmented if n in carry]
        self.branches = 0
        self.look: Callable[[], None] = lambda: None

    def variables(self) -> Variables:
        """Those of the blocks, as they are now."""
        return Variables(self.blocks, self.assigned)

    def run(self, source: Iterable[Any]) -> None:
        body, tail, stop = self.blocks
        shared = stop is not None and is_shared(source)
        for item in source:
            if not self(body, item) or (tail is not None and not self(tail)):
                return
            self.look()
            left = stop is not None and stop()
            if not is_open(left):
                if left:
                    return
            elif shared:
                raise TracerError(
                    "a loop over an iterator may be left on a condition that only the program knows, and whether the "
                    "iterator gives its next item depends on that; loop over a list, or over tj.range",
                    location=user_location(),
                )

    def in_the_program(self, found: Items, carry: Sequence[str], site: Site | None, apart: tuple[int, int]) -> None:
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
            self.run(Items(count, lambda k: number_of(item(k))))
            return
        for k in builtins.range(done):
            self(body, number_of(item(k)))
            if tail is not None:
                self(tail)
        whole: Callable[[Any], None] = body
        place = item
        if tail is not None and not same_extent(count, done):
            # The tail hands names round.  As the beginning of the iteration that follows it does so in each.
            self(body, item(done))
            done += 1

            def turned_round(k: Any, /) -> None:
                tail()
                body(item(k))  # which the tail may have changed

            whole, place = turned_round, lambda k: k
        length = count - done - last
        following = Items(length, lambda k: place(k + done), asked=found.asked)
        if not same_extent(count - done, last):

            def traced(variables: Variables) -> None:
                names = carry if tail is None else self.carry
                loop = _Loop(variables, names, self.augmented_names, self.written, certain=surely_at_most(1, length))
                try:
                    _iterate(loop, following, whole, stop, site)
                except control.Short as short:
                    trace = current_trace()
                    assert trace is not None
                    assert site is not None
                    trace.loops.short.add((site, operator.index(count)))
                    if short.keeps:  # Python's iterations begin without what the trace of the body has left
                        as_python(site, "it is short", (0, 0))
                    variables.restore()
                    for x in following:
                        self(whole, x)

            holding(self.variables(), traced)
        if tail is not None:
            self(tail)
        for k in builtins.range(last):
            self(body, number_of(item(count - last + k)))

    def __call__(self, block: Callable[..., None], *args: Any) -> bool:
        """Run a block unless the loop was left; whether it may go on."""
        left = self.stop is not None and self.stop()
        if not is_open(left):
            if not left:
                run_by_python(block, self.assigned, *args)
            return not left
        self.branches += 1
        if self.branches > _MOST_BRANCHES:
            raise TracerError(
                f"a loop that Python runs goes on for more than {_MOST_BRANCHES} iterations after it may have been "
                "left on a condition which only the program knows; "
                + ("compile it (tj.jit)" if not _can_start_again() else "loop over a range or an array, or use a mask"),
                location=user_location(),
            )
        run = functools.partial(run_by_python, block, self.assigned, *args)
        variables = self.variables()
        traced_branch(negation(left), run, lambda: None, variables, self.carry, self.augmented, (), site_of(block))
        return True


def _iterate(
    loop: _Loop, found: Items, body: Callable[[Any], None], stop: Callable[[], Any] | None, site: Site | None
) -> None:
    count = found.count
    assert count is not None

    def once(k: Any) -> None:
        body(found.item(k))

    certain = surely_at_most(1, count)
    trace = current_trace()
    loop.begin(once, certain=certain, none=site is None or trace is None or site in trace.loops.apart)
    if stop is None:
        loop.end(
            lambda new: control.counted_loop(
                count, new, loop.begins_with(), loop.changed(), may_be_short=site is not None and not found.asked
            ),
            once,
            site,
            count,
            certain=certain,
        )
        return
    number = count if isinstance(count, int) else OPERATORS.extent(count)

    def run(new: Callable[[Any, Any], Any]) -> Any:
        def goes_on(state: Any) -> Any:
            with loop.at(state[1]):
                return both(state[0] < number, lambda: negation(stop()))

        def step(state: Any) -> Any:
            return state[0] + 1, new(*state)

        first = 0, loop.begins_with()
        return control.bounded_loop(goes_on, step, first, count, loop.changed(), counter=(0, count - 1))[1]

    loop.end(run, once, site, None)


def _count(
    loop: _Loop, found: Items, body: Callable[[Any], None], stop: Callable[[], Any] | None, again: Site | None
) -> None:
    """A range whose bounds the program computes.  again: of a loop whose iterations can be counted all the same, where
    that is needed.
    """
    assert found.bounds is not None
    start, end, step = found.bounds

    def once(k: Any) -> None:
        run_block(lambda: body(k), tuple(loop.variables.cells))

    def run(new: Callable[[Any, Any], Any]) -> Any:
        def goes_on(state: Any) -> Any:
            inside = _is_before(state[0], end, step)
            with loop.at(state[1]):
                return inside if stop is None else both(inside, lambda: negation(stop()))  # pyright: ignore[reportOptionalCall]

        def advance(state: Any) -> Any:
            return state[0] + step, new(*state)

        first = start, loop.begins_with()
        counter = _between(start, end, step)
        return control.bounded_loop(goes_on, advance, first, None, loop.changed(), again, counter=counter)[1]

    try:
        loop.begin(once, certain=False, none=True)
        loop.end(run, once, None, None)
    except Raises as raising:  # its first iteration does
        runs = _is_before(start, end, step)
        site, variables = site_of(body), loop.variables
        variables.restore()
        only = _raising(lambda: body(start), raising, start, end)
        traced_branch(runs, only, lambda: None, variables, [], [], (), site)


def _between(start: Any, end: Any, step: Any) -> Range:
    """Between which integers the numbers of a range lie."""
    if not isinstance(step, int) or step == 0:
        return ANYTHING
    (first, last), (low, high) = (
        x.seen().value_range() if isinstance(x, Tracer) else (x, x) if isinstance(x, int) else ANYTHING
        for x in (start, end)
    )
    found = (first, None if high is None else high - 1) if step > 0 else (None if low is None else low + 1, last)
    # a number beyond the end may turn around
    return found if step in (1, -1) or all(type(n) is int and abs(n) < 2**62 - abs(step) for n in found) else ANYTHING


def _where_python_raises_none(error: BaseException) -> TracerError:
    return TracerError(
        f"{type(error).__name__} in a loop whose numbers only the program knows, where Python raises none with its "
        f"first ones: {error.message if isinstance(error, TracejitError) else error}",
        location=error.location if isinstance(error, TracejitError) else user_location(),
    )


def _raising(block: Callable[[], None], raising: Raises, *known: Any) -> Callable[[], None]:
    """The first iteration of a loop, which raises whatever its index is.

    Raises: TracerError where it does not once its index is known; Restart first where Python may know more, such as
    the numbers in `known`.
    """

    def first() -> None:
        block()
        for x in known:
            if isinstance(x, Tracer):
                x.ask()
        raise _where_python_raises_none(raising.exception)

    return first


def _is_before(k: Any, end: Any, step: Any) -> Any:
    """Whether a range with this step goes on at k."""
    if not isinstance(step, int):  # one that is 0 is an error, and no loop
        up, down = np.logical_and(step > 0, k < end), np.logical_and(step < 0, k > end)
        return np.logical_or(up, down)
    return k < end if step > 0 else k > end


class _Loop:
    """A loop of the program, and the variables that its iterations hand on."""

    def __init__(
        self,
        variables: Variables,
        carry: Sequence[str],
        augmented: Sequence[str],
        written: Sequence[str],
        *,
        certain: bool = False,
    ) -> None:
        """certain: whether it has an iteration, so that names have what it binds to them behind it."""
        self.variables = variables
        self.written = written
        before = variables.before
        carried = [n for n in (*carry, *variables.slots) if n in variables.cells]
        extents_as_numbers(variables, carried)
        for n in carried:
            settled(before[n])
        # names that have a list or dict, and get another one in each iteration
        self.anew = [n for n in carried if certain and n in carry and n not in augmented and is_nest(before[n])]
        self.kept = [n for n in carried if n not in self.anew and stays(before[n], n in augmented)]
        self.in_place = [n for n in variables.cells if n in augmented and n not in carry]
        self.names = [n for n in carried if n not in self.kept]
        self.initial: dict[str, Any] = {n: before[n] for n in self.names if before[n] is not UNBOUND}
        # names that may have no value: whether they are None then; what is handed on is a flag and the value
        self.absent: dict[str, bool] = {}
        for n, value in self.initial.items():
            absence = handed_on_absence(value)
            if absence is not None:
                self.absent[n] = absence.none
                self.initial[n] = absence.flag, unmarked(value)
        # names, and which of their numbers may be Python's or NumPy's, of these dtypes
        self.mixed: dict[tuple[str, int], np.dtype[Any]] = {}
        if any([self._has_mixed(n, before[n]) for n in self.initial]):
            self._mix()
        self.seen: list[tuple[Any, Sharing]] = []
        self.state: Mapping[str, Any] = {}  # what the iteration that is traced began with
        self.lengths = Lengths()
        self.dropped: list[str] = []  # names that get a value which cannot be handed on
        self.tested: set[int] = set()  # arrays from around that the test of the loop reads
        self.unsure: set[int] = set()  # leaves that are numbers or arrays of rank 0
        # numbers of what an iteration is handed, and what that was said not to be (`is`); of which loop and number
        self.told_apart: list[tuple[int, Tracer, Any]] = []
        self.turns: Any = None  # of names that hand their arrays round: counted under a name of its own

    def begin(self, once: Callable[[Any], None], *, certain: bool, none: bool) -> None:
        """Give the names that the loop itself binds first a value: of their kind, which nobody sees.

        certain: whether the loop has an iteration.  none: also those that are None before it.

        Raises: TracerError where the loop might see it.
        """
        before = self.variables.before
        if any(n not in self.initial for n in self.names) and self.variables.may_be_caught_unbound():
            raise TracerError("a variable has no value yet where errors are caught", location=user_location())
        if none:
            self.names += [n for n in self.kept if before[n] is None]
        while unbound := [n for n in self.names if n not in self.initial]:
            leaves, tree = flatten(self.initial)

            def run(k: Any, *state: Any, tree: Any = tree) -> None:
                self.put(unflatten(tree, state))
                once(k)

            found = probed(self.variables, unbound, (0, *leaves), run)
            if not found:
                break
            for n, like in found.items():
                if before[n] is None or like.absence is not None or not (certain or is_flag(n)):
                    self.absent[n] = before[n] is None
                    self.initial[n] = True, like.zeros()
                    self.kept = [m for m in self.kept if m != n]
                else:
                    self.initial[n] = like.zeros()
        self.dropped = [n for n in self.names if n not in self.initial and n not in self.kept]
        self.names = [n for n in self.initial if n in self.names]
        self.initial = {n: self.initial[n] for n in sorted(self.initial, key=_OWN.__contains__)}  # numbered by places

    def put(self, state: Mapping[str, Any]) -> None:
        """The variables get what is handed on."""
        for n, value in state.items():
            if n in _OWN:
                continue
            none = self.absent.get(n)
            value = value if none is None else perhaps(value[1], value[0], n, none=none)
            flags = {k: flag for (m, k), flag in zip(self.mixed, state.get(_MIXED, ()), strict=True) if m == n}
            if flags:
                leaves, tree = flatten(value)
                value = unflatten(tree, [marked(x, flags[k]) if k in flags else x for k, x in enumerate(leaves)])
            self.variables[n] = value

    def _has_mixed(self, name: str, value: Any) -> bool:
        """Whether numbers of a name turn out to be mixed: which before the loop are Python's, and in the value that an
        iteration hands on are NumPy's, or the other way round.
        """
        news = False
        for k, pair in enumerate(zip(self._first(name)[0], flatten(value)[0], strict=False)):
            avals = [*map(aval_of_argument, pair)]
            dtypes = [a.dtype for a in avals if may_be_mixed(a)]
            if (
                dtypes
                and len({a.dtype.kind == "b" for a in avals}) == 1  # a bool beside an integer stays one
                and (name, k) not in self.mixed
                and joined(*map(is_pythons, pair))
                and not any(map(is_array, pair))
            ):
                self.mixed[name, k] = dtypes[0]
                news = True
        return news

    def _first(self, name: str) -> tuple[list[Any], TreeDef]:
        """The numbers and arrays that a name has before the loop, and how they are its value."""
        return flatten(self.initial[name][1] if name in self.absent else self.initial[name])

    def _mix(self) -> None:
        """Mixed numbers that have turned up begin with NumPy's dtype, and a flag."""
        flags = [*self.initial.get(_MIXED, ())]
        for (name, k), dtype in [*self.mixed.items()][len(flags) :]:
            leaves, tree = self._first(name)
            flags.append(as_flag(is_pythons(leaves[k])))
            leaves[k] = strong(leaves[k], dtype)
            value = unflatten(tree, leaves)
            self.initial[name] = (self.initial[name][0], value) if name in self.absent else value
        self.initial[_MIXED] = tuple(flags)

    def _left(self) -> dict[str, Any]:
        """What an iteration hands on.  Raises: AbsentThere if a name turns out to be one that may have no value."""
        left: dict[str, Any] = {}
        news = False
        for n in self.names:
            value = number_of(self.variables[n])
            absence = handed_on_absence(value)
            if value is None or absence is not None:
                none = value is None or absence is None or absence.none
                if n not in self.absent:
                    self.absent[n], news = none, True
                    self.initial[n] = False, self.initial[n]
                elif self.absent[n] != none:
                    raise TracerError(f"{n!r} is either None or has no value in a loop", location=user_location())
            if n in self.absent and not news:
                state = self.state[n]
                flag = True if value is None else False if absence is None else absence.flag
                value = flag, state[1] if value is None else unmarked(value)
            left[n] = value
        if news:
            raise AbsentThere
        return left

    def changed(self) -> list[Tracer]:
        """Arrays from around that the loop changes in place, as far as its text shows."""
        found: dict[int, Tracer] = {}
        for n in self.written:
            x = UNBOUND if n in self.names else self.variables.read(n)
            if type(x) is Tracer and is_array(x) and isinstance(root := root_of(x), Tracer):
                found[id(root)] = root
        return list(found.values())

    def at(self, state: Any) -> _At:
        """The variables hold in the block, the test of the loop, what is handed on."""
        return _At(self, self._taken(state), is_test=True)

    def begins_with(self) -> Any:
        """What the first iteration is handed."""
        return self._handed(self.initial)

    def _handed(self, state: dict[str, Any]) -> dict[str, Any]:
        """What is handed on for a state: of arrays whose lengths differ how long they are, too."""
        if not self.lengths.groups:
            return state
        leaves, tree = flatten(state)
        leaves, numbers = self.lengths.handed(leaves)
        return {**unflatten(tree, leaves), _LENGTHS: numbers}

    def _taken(self, handed: Mapping[str, Any]) -> dict[str, Any]:
        """The state that was handed on."""
        if not self.lengths.groups:
            return {**handed}
        leaves, tree = flatten({n: x for n, x in handed.items() if n != _LENGTHS})
        return unflatten(tree, self.lengths.taken(leaves, handed[_LENGTHS]))

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
        variables, names, trace = self.variables, self.names, current_trace()
        changed: set[int] = set()  # names that hand their arrays round, and change them
        around = current_interpreter()

        def new(k: Any, handed: dict[str, Any]) -> Any:
            first = flatten(self.initial)[0]
            state = self._taken(handed)
            given = flatten(state)[0]
            for n, (x, before) in enumerate(zip(given, first, strict=True)):
                if isinstance(x, Tracer) and isinstance(before, Tracer):
                    x.fixed = before.fixed
                if isinstance(x, Tracer) and not x.aval.shape:
                    x.is_array = None if n in self.unsure else kind_of_rank_0(before)
            kinds = [x.is_array if isinstance(x, Tracer) and not x.aval.shape else None for x in given]
            nests = {n: containers_in(state[n]) for n in self.anew}
            if trace is not None:  # which they are is not to be asked
                trace.loops.given.add([c for found in nests.values() for c, _ in found])
            with _At(self, state):
                once(k)
                self._check_anew(nests, once)
                left = self._left()
                dropped = {n: variables[n] for n in self.dropped if variables[n] is not UNBOUND}
                check_kept(variables, [*self.kept, *[n for n in self.in_place if is_array(variables.before[n])]])
            if news := {
                n
                for n, (x, kind) in enumerate(zip(flatten(left)[0], kinds, strict=False))
                if kind is not None and kind_of_rank_0(x) is not kind
            }:
                self.unsure |= news
                raise _KindsMix
            values = {n: x[1] if n in self.absent else x for n, x in left.items()}
            check_bound(names, tuple([() if n in self.anew else x for n, x in values.items()]))
            if any([self._has_mixed(n, x) for n, x in values.items()]):
                raise _NumbersMix
            if self.lengths.learn(first, flatten(left)[0], always=site is None):
                raise LengthsVary
            if trace is not None and site is not None:
                if dropped and not _TELLING.isdisjoint(site.code.co_names) and catches(site.code):
                    as_python(site, not_handed_on(*next(iter(dropped.items()))))  # an `except` could tell
                trace.loops.dropped.update({n: (site, not_handed_on(n, x)) for n, x in dropped.items()})
            interpreter = current_interpreter()
            assert isinstance(interpreter, StageInterpreter)
            sharing = self._shared(interpreter, around, given, left, changed)
            if self.turns is None and count is None and order_of(sharing.turned) > 1:
                self.turns = self.initial[_TURNS] = np.int64(0)
                raise _TurnsCount
            self.seen.append((left, sharing))
            if self.turns is not None:
                left[_TURNS] = state[_TURNS] + np.int64(1)
            if self.mixed:
                left[_MIXED] = tuple([as_flag(is_pythons(flatten(values[n])[0][k])) for n, k in self.mixed])
                left = {n: map_tree(without_mark, x) for n, x in left.items()}
            return self._handed(left)

        while True:
            try:
                results = self._taken(run(new))
                break
            except AbsentThere:
                self.lengths.clear()
            except (_TurnsCount, _KindsMix, LengthsVary):
                continue
            except _Keeps:
                names = self.names
            except _NumbersMix:
                self._mix()
            except ShapeError as error:
                left = self.seen[-1][0] if self.seen else {}
                raise named_in(error, [(n, self.initial[n], left[n]) for n in names if n in left]) from error.__cause__
        self._check_told_apart(self.seen[-1][1])
        shared = self._results(results, changed, site, count, certain=certain)
        finish(variables, [], [], [*self.kept, *self.in_place])
        self.put(shared)

    def _check_anew(
        self, given: Mapping[str, Sequence[tuple[Any, tuple[Any, ...]]]], body: Callable[[Any], None]
    ) -> None:
        """Lists and dicts that names get anew are made by the iteration, nobody else has them, nor those of before the
        loop, and those that it began with are as they were: which objects they are then is not seen.

        given: the containers that a name began with, and what was in them.   Raises: _Keeps.
        """
        trace = current_trace()
        outside = [] if trace is None else trace.changes.held_outside()
        begun = {id(c) for found in given.values() for c, _ in found}
        for n in self.anew:
            now, others = self.variables[n], [self.variables[m] for m in self.variables.cells if m != n]
            made = containers_in(now) if is_nest(now) else []
            mine = {id(c) for c, _ in made}
            own = mine | {id(c) for c, _ in containers_in(self.variables.before[n])}
            stay = all(len(contents(c)) == len(was) and all(map(operator.is_, contents(c), was)) for c, was in given[n])
            if (
                not made
                or not stay
                or not mine.isdisjoint(begun)
                or (trace is not None and any(trace.is_from_outside(c) for c, _ in made))
                or any(id(x) in own for x in reachable([*others, *outside, body], self.variables.cells[n]))
            ):
                self.anew.remove(n)
                self.kept.append(n)
                self.names = [m for m in self.names if m != n]
                del self.initial[n]
                raise _Keeps

    def _shared(
        self,
        interpreter: StageInterpreter,
        around: Interpreter,
        given: Sequence[Any],
        left: Mapping[str, Any],
        changed: set[int],
    ) -> Sharing:
        """What the arrays are that an iteration leaves.  changed: becomes the names that hand their arrays round, and
        change them.

        Raises: TracerError where an array that is changed in place may be seen by another name.
        """
        first = flatten(self.initial)[0]
        sharing = Sharing.of(interpreter, given, left).over_iterations(first)
        anew = {*sharing.anew}
        if any(not anew.isdisjoint(pair) for pair in sharing.pairs):
            raise bound_anew()
        if not anew.isdisjoint(n for n, _ in (*sharing.outer, *sharing.possible)):  # after some iterations
            raise bound_anew()
        changed.clear()
        changed.update(n for n in sharing.turned if given[n].version)
        if any(leaf in changed for leaf, _ in self.lengths.most):
            raise TracerError(
                "arrays of different lengths change places in a loop of the program, and are changed in place",
                location=user_location(),
            )
        as_given = {*interpreter.inputs}
        written = {n for n, (_, now) in interpreter.cells.items() if now not in as_given}
        others = [x for _, x in (*sharing.outer, *sharing.possible)]
        for x in (*[root_of(x) for x in first if isinstance(x, Tracer)], *map(root_of, others)):
            if id(x) in written:
                raise changed_elsewhere()
        if changed and any(k in sharing.turned and n not in sharing.turned for n, k in sharing.inner):
            raise changed_elsewhere()
        for n in sharing.turned if changed else ():
            check_alone(first[n], first, interpreter)
        for n in sharing.begins_anew():
            check_lost(first, n, interpreter, around)
        return sharing

    def check_class(self, n: int, kind: type) -> None:
        """Raises: TracerError where what an iteration is handed is of a class that it is not in the first one."""
        before = flatten(self.initial)[0][n]
        if type_of(before) is not kind:
            raise TracerError(
                f"the class of a value is asked that a loop begins with as {type_of(before).__name__}, and hands on as "
                f"{kind.__name__}; begin with that (0.0, np.float64(0))",
                location=user_location(),
            )

    def _check_told_apart(self, sharing: Sharing) -> None:
        """Raises: TracerError where a name has an array in an iteration that it was said not to have."""
        first = flatten(self.initial)[0]
        one = {frozenset(pair) for pair in (*sharing.pairs, *sharing.same, *sharing.twins)}
        for n, other, (loop, m) in [(n, other, of or (None, -1)) for n, other, of in self.told_apart]:
            if not other.interpreter.alive and loop is not self:
                continue  # of a trace that has been thrown away, or of a loop within this one, which has asked
            sources = {n, *[k for m, k in sharing.inner if m == n], *(sharing.turned if n in sharing.turned else ())}
            found = [first[k] for k in sources]
            found += [x for m, x in (*sharing.outer, *sharing.possible) if m == n]
            if loop is self:
                same = frozenset((n, m)) in one or identical(first[n], first[m])
            else:
                same = any(identical(x, other) is not False for x in found)
            if same is not False:
                raise TracerError(
                    "whether two names have one array is known to the program alone; compare what they hold",
                    location=user_location(),
                )

    def _results(self, results: Any, changed: set[int], site: Site | None, turns: Any, *, certain: bool) -> Any:
        """What the loop leaves, in which arrays are one that are one in Python.  turns: how many iterations it had.

        Raises: TracerError where its test reads an array that is changed by another name.
        """
        sharing = self.seen[-1][1]
        turned, lost = sharing.turned, sharing.begins_anew()
        first = flatten(self.initial)[0]
        away = {id(x): x for n in lost for x in perhaps_one_of(first[n])}
        if not self.tested.isdisjoint([*map(id, [first[n] for n in turned] if changed else ()), *away]):
            raise changed_elsewhere()
        shared = shared_results(self.seen[-1:], results, first, site, certain, lost)
        leaves, tree = flatten(shared)
        if not certain:  # they may be what was there before
            for n, (x, before) in enumerate(zip(leaves, first, strict=True)):
                if (
                    n not in turned
                    and n not in lost
                    and isinstance(before, Tracer)
                    and is_array(before)
                    and x is not before
                ):
                    may_be_one(x, root_of(before), site)
        for x in away.values():
            lose(x, site)
        self._turn(leaves, turned, changed, shared.get(_TURNS, 0) if turns is None else turns, site)
        return unflatten(tree, leaves)

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
                    may_be_one(leaves[n], root_of(first[m]) if isinstance(first[m], Tracer) else first[m], site)
            return
        after = places_after(turned, turns if order > 1 else 0)
        before = {n: leaves[n] for n in turned}
        for n, m in after.items():
            if changed:
                first[m].assign(before[n])
            leaves[n] = first[m]


class _NumbersMix(Again):
    """A number that is carried turns out to be a mixed one: whether it is Python's is carried, too."""


_TELLING = frozenset({"NameError", "UnboundLocalError", "Exception", "BaseException"})
"""By which an `except` can tell that a name has no value."""


class _KindsMix(Again):
    """A name turns out to have an array of rank 0, or a number: nothing of it changes in place."""


class _Keeps(Again):
    """A list or dict of a name is changed, or seen by others: the name keeps it."""


class _TurnsCount(Again):
    """Names hand their arrays round in a loop that is left early: it has to count its iterations."""


_TURNS = "turns@"
_MIXED = "mixed@"
_LENGTHS = "lengths@"
_OWN = frozenset({_TURNS, _MIXED})
"""Names of what a loop itself hands on."""


@define(eq=False)
class _At:
    loop: _Loop
    state: Any
    is_test: bool = False
    held: dict[str, Any] = field(factory=dict[str, Any])  # what the variables began with

    def __enter__(self) -> None:
        self.loop.variables.restore()
        self.loop.state = self.state
        for n, x in enumerate(flatten(self.state)[0]):
            if isinstance(x, Tracer):
                x.of_loop = self.loop, n
        self.loop.put(self.state)
        self.held = {n: self.loop.variables[n] for n in self.loop.variables.cells}

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        interpreter, variables = current_interpreter(), self.loop.variables
        for x in flatten(self.state)[0]:
            if isinstance(x, Tracer):
                x.of_loop = None
        if self.is_test and isinstance(interpreter, StageInterpreter):
            self.loop.tested = {id(root_of(cell)) for cell, _ in interpreter.captured_cells.values()}
        changed = [n for n in variables.cells if self.is_test and variables[n] is not self.held[n]]
        variables.restore()
        if changed and error is None:
            raise TracerError(
                f"the test of a loop changes {changed[0]}, which is handed on from one iteration to the next; do that "
                "in the body (while True: if not test: break)",
                location=user_location(),
            )


def _look(turn: int) -> None:
    """Raises: a refusal that is due.  A `while` until a list is empty may never end, as it is a copy that shrinks."""
    trace = current_trace()
    if turn % _LOOKS == _LOOKS - 1 and trace is not None:
        trace.loops.given.check()


def repetition(
    test: Callable[[], Any],
    body: Callable[[], None],
    stop: Callable[[], Any] | None,
    assigned: Sequence[str],
    carry: Sequence[str],
    augmented: Sequence[str],
    written: Sequence[str],
) -> None:
    """`while test(): body()`.  Where Python knows the test it runs the loop, unless that takes many iterations of some
    length.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    site = Site(frame.f_code, frame.f_lasti, "while")
    recorder = recording()
    trace = current_trace() if _can_start_again() else None
    may_be_long = trace is not None and recorder is not None and site not in trace.loops.python
    is_long = may_be_long and site in trace.loops.long  # pyright: ignore[reportOptionalMemberAccess]
    begun = 0 if recorder is None else len(recorder.equations)
    computed = 0  # tests that hold, and of which the program computes something: whether they raise, say
    more: Any = None
    for turn in itertools.count():
        if is_long:
            break
        if may_be_long and turn >= _MANY and len(recorder.equations) - begun >= _LONG:  # pyright: ignore[reportOptionalMemberAccess]
            as_python(site, "its iterations are many", long=True)
        left = stop is not None and stop()
        if is_open(left):
            break
        if left:
            return
        before = 0 if recorder is None else len(recorder.equations)
        failure, noted = failure_so_far(), failures_noted()
        more = condition(run_by_python(test, assigned))
        if is_open(more):
            take_back(failure, noted)  # the loop does the test again, and what it calls must not be called twice
            break
        if not more:
            return
        if recorder is not None and len(recorder.equations) > before:
            computed += 1
            if computed > _ENDLESS:
                raise TracerError(
                    f"a `while` that Python runs goes on after {_ENDLESS} iterations, and only the program knows "
                    "whether its test raises an exception, so that it may never end here; compute the test without one",
                    location=user_location(),
                )
        run_by_python(body, assigned)
        _look(turn)

    def traced(variables: Variables) -> None:
        loop = _Loop(variables, carry, augmented, written)

        def once(_: Any) -> None:
            run_block(body, tuple(variables.cells))

        def run(new: Callable[[Any, Any], Any]) -> Any:
            def goes_on(state: Any) -> Any:
                with loop.at(state):
                    return test() if stop is None else all_of(negation(stop()), test)

            first = loop.begins_with()
            return control.bounded_loop(goes_on, lambda state: new(None, state), first, None, loop.changed())

        loop.begin(once, certain=False, none=True)
        loop.end(run, once, None, None)

    try:
        holding(Variables((body, test, stop), assigned), traced)
    except Exception as error:
        if is_long:
            as_python(site, _first_line(error))
        elif isinstance(error, TracejitError) and not isinstance(error, NoReverseMode) and isinstance(more, Tracer):
            more.ask()  # where it follows from numbers among the arguments, Python may run the loop
        raise
    except Raises as raising:  # its first iteration does
        if is_long:  # and does not as Python runs it, or raises there
            as_python(site, "its first iteration raises")
        variables = Variables((body, test, stop), assigned)
        more = test() if stop is None else all_of(negation(stop()), test)
        if not is_open(condition(more)):  # Python knows it here, and does not in the iterations that follow
            raise _where_python_raises_none(raising.exception) from raising.exception
        only = _raising(body, raising, more)
        traced_branch(more, only, lambda: None, variables, carry, augmented, (), site_of(body))
