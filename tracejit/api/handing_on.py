"""What blocks bind is handed on: which names can be, what they have afterwards, and which arrays are one then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tracejit.api.bodies import OF_ITS_OWN_LENGTH, Body, carried
from tracejit.api.carries import (
    Alternatives,
    Sharing,
    can_be_carried,
    is_array,
    is_tuple,
    kind_of_rank_0,
    root_of,
)
from tracejit.api.lengths import in_the_room, settled
from tracejit.ir.extents import Dim
from tracejit.primitives.creation import zeros_of
from tracejit.support.errors import ShapeError, TracerError
from tracejit.support.nodes import define, field
from tracejit.support.source import frames_of, user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.absence import Absence, handed_on_absence
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import current_trace
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.python_state import reachable
from tracejit.tracer.slots import HeldChanges, Slot
from tracejit.tracer.statements.decisions import Site
from tracejit.tracer.statements.variables import UNBOUND, Variables, codes_within
from tracejit.tracer.tracer import Lost, Tracer

__all__ = [
    "Like",
    "check_bound",
    "check_kept",
    "extents_as_numbers",
    "finish",
    "holding",
    "may_be_one",
    "named_in",
    "not_handed_on",
    "number_of",
    "probed",
    "run_by_python",
    "shared_results",
    "stays",
    "taken_on",
]


def holding(variables: Variables, run: Callable[[Variables], Any]) -> Any:
    """What `run` gives for the variables of a statement, joined by the places of objects that its blocks bind anew:
    these are found by tracing it, and it is traced again.
    """
    joined = variables.joined_by(_remembered(variables))
    while True:
        try:
            return run(joined)
        except HeldChanges as error:
            new = taken_on(joined, error)
            if not new:
                raise TracerError(error.message, location=error.location) from error.__cause__
            for slot, before in new:
                slot.cell_contents = before
            joined = variables.joined_by([*joined.slots.values(), *[slot for slot, _ in new]])
            if (trace := current_trace()) is not None:
                root, found = trace.root, trace.loops.slots
                found[:] = [known for known in found if known[0] is root]
                found += [(root, variables.codes[0], slot) for slot, _ in new]


def _remembered(variables: Variables) -> list[Slot]:
    """Places that statements within the blocks have bound anew before, as a loop's do that Python began to run."""
    trace = current_trace()
    if trace is None or not trace.loops.slots:
        return []
    codes, root = {code for block in variables.codes for code in codes_within(block)}, trace.root
    known = {slot.identity: slot for other, code, slot in trace.loops.slots if other is root and code in codes}
    there = {id(x) for x in reachable([b for b in variables.blocks if b is not None])} if known else set[int]()
    return [slot for slot in known.values() if id(slot.holder) in there and _holds_what_lasts(slot)]


def _holds_what_lasts(slot: Slot) -> bool:
    """Whether a place has what a statement can hand on."""
    try:
        value = slot.cell_contents
    except ValueError:
        return False
    alive = all(x.interpreter.alive for x in flatten(value)[0] if isinstance(x, Tracer))
    return alive and type(value) is not Lost and can_be_carried(value)


def taken_on(variables: Variables, error: HeldChanges) -> list[tuple[Slot, Any]]:
    """The places that a statement can hand on as well, with what they held; nothing if these are not all."""
    known = {slot.identity for slot in variables.slots.values()}
    new = [(slot, before) for slot, before in error.slots if slot.identity not in known]
    return new if all(x is None or isinstance(x, Dim) or can_be_carried(x) for _, x in new) else []


def probed(
    variables: Variables, names: Sequence[str], given: Sequence[Any], run: Callable[..., Any]
) -> dict[str, Like]:
    """Of what kind the names are after `run`, of arrays like those given, which is traced for that and left out of the
    program.
    """
    found: dict[str, Like] = {}

    def traced(*args: Any) -> Any:
        try:
            variables.restore()
            run(*args)
            for n in names:
                if variables[n] is not UNBOUND and can_be_carried(settled(variables[n])):
                    found[n] = Like.of(variables[n])
        finally:
            variables.restore()
        return ()

    Body(traced, carried(given))
    return found


def stays(before: Any, is_augmented: bool) -> bool:
    """Whether a name keeps its object: what cannot be carried, and arrays that `+=` changes in place."""
    changes = is_augmented and is_array(before) and not (isinstance(before, Tracer) and before.fixed)
    return before is not UNBOUND and (not can_be_carried(before) or changes)


def extents_as_numbers(variables: Variables, names: Sequence[str]) -> None:
    """Names that loops and branches bind anew have numbers of the program where they had extents."""
    for n in names:
        if isinstance(variables.before[n], Dim):
            variables.before[n] = variables[n] = number_of(variables.before[n])


def number_of(x: Any) -> Any:
    """What a loop goes over, or a loop or branch hands on, with the Python integer of the program that an extent is,
    also in tuples.
    """
    if is_tuple(x) and any(isinstance(item, Dim) for item in x):
        items = map(number_of, x)
        return tuple(items) if type(x) is tuple else type(x)._make(items)
    if not isinstance(x, Dim):
        return settled(x)
    number: Any = OPERATORS.extent(x)
    if isinstance(number, Tracer):
        number.weaken()
    return number


def check_kept(variables: Variables, kept: Sequence[str]) -> None:
    """Raises TracerError where a block binds a name anew that keeps its object."""
    for n in kept:
        before, now = variables.before[n], variables[n]
        if now is not before:
            raise TracerError(
                f"{n!r}, which is {_described(before)} before a loop or branch of the program, is bound anew there",
                location=user_location(),
            )


def _described(x: Any) -> str:
    return "None" if x is None else f"a {type(x).__name__}"


def check_bound(names: Sequence[str], values: Sequence[Any]) -> None:
    """Raises TracerError where names have what cannot be handed on."""
    for n, value in zip(names, values, strict=True):
        if value is UNBOUND:
            raise TracerError(f"{n!r} is deleted in a loop or branch of the program", location=user_location())
        if not can_be_carried(value):
            raise TracerError(not_handed_on(n, value), location=user_location())


def not_handed_on(name: str, value: Any) -> str:
    """Why a name cannot be handed on, as a sentence."""
    if isinstance(value, Tracer):
        return OF_ITS_OWN_LENGTH.format(repr(name))
    return (
        f"{name!r} becomes {_described(value)} in a loop or branch of the program, which hands on arrays, numbers and "
        "tuples of them"
    )


def finish(variables: Variables, names: Sequence[str], values: Sequence[Any], kept: Sequence[str]) -> None:
    """After a traced statement: what was handed on has new values, what it left as it is the old ones, and names that
    nobody reads any more have none.
    """
    for name in variables.cells:
        if name not in variables.slots:
            variables[name] = variables.before[name] if name in kept else UNBOUND
    for name, value in zip(names, values, strict=True):
        variables[name] = value


def shared_results(
    seen: Sequence[tuple[Any, Sharing]],
    results: Any,
    initial: Sequence[Any],
    by: Site | Tracer | None = None,
    certain: bool = True,
    lost: Collection[int] = (),
) -> Any:
    """Results in which arrays are one that are one in Python; where only the data tell, neither can be changed.

    seen: what blocks left, and what their arrays were.  initial: what a loop began with.  by: its site, or the
    condition of a branch.  certain: whether one of the blocks runs.  lost: numbers of initial leaves that nobody sees
    any more.
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
    for n, x in enumerate(leaves):
        if isinstance(x, Tracer) and not x.aval.shape and n not in always:
            kinds = {kind_of_rank_0(left[n]) for left in lefts}
            kinds |= set[bool | None]() if certain or n >= len(initial) else {kind_of_rank_0(initial[n])}
            x.is_array = kinds.pop() if len(kinds) == 1 else None
    if len(seen) > 1:
        alternatives = Alternatives.of(leaves, lefts)
    else:
        alternatives = Alternatives.of_loop(leaves, initial, seen[0][1])
    for n, x in enumerate(leaves):
        if isinstance(x, Tracer) and n not in always:
            x.alternatives = alternatives
    pairs = [frozenset(sharing.same) for _, sharing in seen]
    for a, b in frozenset[tuple[int, int]]().union(*pairs):
        if certain and all((a, b) in these for these in pairs):  # a loop without an iteration leaves two
            leaves[b] = leaves[a]
        else:
            may_be_one(leaves[a], leaves[b], by)
    for _, sharing in seen:
        for a, b in sharing.twins:
            may_be_one(leaves[a], leaves[b], by)
        for n, source in (*sharing.outer, *sharing.possible):
            if n not in always:
                may_be_one(leaves[n], root_of(source), by)
        for n, k in sharing.inner:
            if isinstance(initial[k], Tracer) and is_array(initial[k]) and k not in lost:
                may_be_one(leaves[n], root_of(initial[k]), by)
    return unflatten(tree, leaves)


def _is_one_number(values: Sequence[Any]) -> bool:
    """Whether all of them are the same number, which Python knows."""
    first = values[0]
    return type(first) in (bool, int, float, complex) and all(
        type(x) is type(first) and repr(x) == repr(first) for x in values
    )


def may_be_one(a: Any, b: Any, by: Site | Tracer | None) -> None:
    """Two arrays may turn out to be one.  by: the site of the loop that makes it so, or the condition of the branch."""
    if isinstance(a, Tracer) and isinstance(b, Tracer) and a is not b:
        a.may_be(b, by)


def run_by_python(block: Callable[..., Any], assigned: Sequence[str], *args: Any) -> Any:
    """A block that Python runs.  An unbound variable of the function is a free one here; its error is given back the
    kind it had.
    """
    try:
        return block(*args)
    except NameError as e:
        if type(e) is NameError and e.name in assigned and e.name in frames_of(e)[-1][0].co_freevars:
            raise UnboundLocalError(
                f"cannot access local variable {e.name!r} where it is not associated with a value"
            ).with_traceback(e.__traceback__) from None
        raise


@define(eq=False)
class Like:
    """What is known of a value: its kind."""

    parts: list[Any] = field(factory=list[Any])
    tree: Any = None
    absence: Absence | None = None  # when a value of the kind is absent

    @staticmethod
    def of(value: Any) -> Like:
        leaves, tree = flatten(value)
        avals = [aval_of_argument(x) for x in leaves]
        parts = [(a.with_shape(in_the_room(a.shape)), is_array(x)) for a, x in zip(avals, leaves, strict=True)]
        return Like(parts, tree, handed_on_absence(value))

    def zeros(self) -> Any:
        return unflatten(self.tree, [_zeros(aval, array) for aval, array in self.parts])


def named_in(error: ShapeError, pairs: Iterable[tuple[str, Any, Any]]) -> ShapeError:
    """The error of a loop or branch that hands on values of two kinds, with the name that has them.

    pairs: names (an empty one of what a branch gives), and what they have on two ways.
    """
    for name, one, other in pairs:
        if one is UNBOUND or other is UNBOUND or not can_be_carried(one) or not can_be_carried(other):
            continue
        kinds = [[(a.shape, a.dtype) for a in map(aval_of_argument, flatten(x)[0])] for x in (one, other)]
        if kinds[0] != kinds[1] and "; make" in error.message:
            what, _, advice = error.message.partition("; make")
            said = repr(name) if name else "what the branch gives"
            return ShapeError(f"{what}: it is {said}; make{advice}", location=error.location)
    return error


def _zeros(aval: Any, array: bool) -> Any:
    if not aval.shape and not array:
        zero = aval.dtype.type(0)
        return zero.item() if aval.weak else zero
    made = zeros_of(aval)
    if isinstance(made, Tracer):
        made.is_array = True
    return made
