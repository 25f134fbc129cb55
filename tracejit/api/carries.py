"""What a traced statement hands on under names: which values can be, and which arrays these may turn out to be.

A loop or branch of the program gives new arrays; in Python a name may have become another one of an array that is there
already.  That makes a difference only where one of them is changed in place, which is refused then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any

import numpy as np

from tracejit.support.errors import TracerError
from tracejit.support.nodes import define, evolve, field
from tracejit.support.source import user_location
from tracejit.support.tree import flatten
from tracejit.tracer.absence import absence_of
from tracejit.tracer.cell import Cell
from tracejit.tracer.contents import contents
from tracejit.tracer.interpreter import Interpreter
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.tracer import Lost, Tracer

__all__ = [
    "Alternatives", "Sharing", "bound_anew", "can_be_carried", "changed_elsewhere", "check_alone", "check_lost",
    "containers_in", "is_array", "is_nest", "is_tuple", "kind_of_rank_0", "order_of", "perhaps_one_of", "places_after",
    "root_of", "surely_two", "turned",
]  # fmt: skip

_NUMBERS = (bool, int, float, complex, np.generic)


def is_tuple(x: Any) -> bool:
    """Whether something is a tuple, perhaps one with names."""
    return type(x) is tuple or (isinstance(x, tuple) and hasattr(type(x), "_fields"))


def can_be_carried(x: Any) -> bool:
    """Whether a value may be another one in each iteration, or branch: arrays, numbers, and (named) tuples of them, in
    which None stays None.
    """
    if is_tuple(x):
        return all(y is None or can_be_carried(y) for y in x)
    if type(x) in (bool, int, float, complex):
        return type(x) is not int or -(2**63) <= x < 2**63
    if type(x) is Lost:
        x.check()
    return type(x) is Tracer or (isinstance(x, (np.generic, np.ndarray)) and x.dtype.kind in "biufc")


def is_nest(x: Any) -> bool:
    """Whether a value is a list or dict of what can be carried, also in others of them, and not empty."""
    if type(x) is dict or type(x) is list:
        return bool(x) and all(map(_may_be_in_nest, x.values() if type(x) is dict else x))
    return False


def _may_be_in_nest(x: Any) -> bool:
    if type(x) in (tuple, list, dict):
        return all(map(_may_be_in_nest, x.values() if type(x) is dict else x))
    return can_be_carried(x) and absence_of(x) is None and not (isinstance(x, Tracer) and x.mixed is not None)


def containers_in(x: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """The lists and dicts in a value, and what is in them."""
    found: list[tuple[Any, tuple[Any, ...]]] = []
    pending = [x]
    for y in pending:
        if type(y) in (tuple, list, dict):
            items = contents(y) if type(y) is not tuple else y
            found += [(y, items)] if type(y) is not tuple else []
            pending += items
    return found


def is_array(x: Any) -> bool:
    """Whether `x += 1` changes it in place."""
    return isinstance(x, np.ndarray) or (isinstance(x, Tracer) and not x.is_scalar)


def kind_of_rank_0(x: Any) -> bool | None:
    """Whether what is handed on is an array also where its rank is 0: None if data say that."""
    return x.is_array if isinstance(x, Tracer) and not x.aval.shape and x.root is None else is_array(x)


def root_of(x: Tracer) -> Cell:
    """The array that a view is part of."""
    found: Cell = x
    while found.root is not None:
        found = found.root
    return found


def turned(given: Sequence[Any], left: Sequence[Any]) -> dict[int, int]:
    """Of names that hand their arrays round (`u, v = v, u`, or `v = v` itself): the number of the name whose array each
    has after an iteration.  Nothing else has one of these arrays, or a part of it.

    given: what an iteration began with.  left: what its names are afterwards, in the same order.
    """
    places = {id(x): n for n, x in enumerate(given) if isinstance(x, Tracer) and is_array(x)}
    holders: dict[int, int] = {}
    source: dict[int, int] = {}
    for n, leaf in enumerate(left):
        if isinstance(leaf, Tracer) and is_array(leaf) and (place := places.get(id(root_of(leaf)))) is not None:
            holders[place] = holders.get(place, 0) + 1
            if id(leaf) in places:
                source[n] = place
    found: dict[int, int] = {}
    for n in source:
        cycle, k = [n], source[n]
        while k != n and k in source and len(cycle) <= len(source):
            cycle.append(k)
            k = source[k]
        if k == n and all(holders[m] == 1 for m in cycle):
            found[n] = source[n]
    return found


def places_after(turns: Mapping[int, int], count: int) -> dict[int, int]:
    """The number of the name whose array each has after so many iterations."""
    now = {n: n for n in turns}
    for _ in range(count % order_of(turns)):
        now = {n: now[source] for n, source in turns.items()}
    return now


def order_of(turns: Mapping[int, int]) -> int:
    """After how many iterations every name has its own array again."""
    order = 1
    for n in turns:
        length, k = 1, turns[n]
        while k != n:
            length, k = length + 1, turns[k]
        order = lcm(order, length)
    return order


def bound_anew() -> TracerError:
    """The error for an array that is changed in a loop and may be that of another name then."""
    return TracerError(
        "an array is changed in place whose name is also bound anew, to an array that may have another name; bind it "
        "to a copy",
        location=user_location(),
    )


def _is_of_its_own(n: int, leaves: Sequence[Any], interpreter: StageInterpreter, entered: Mapping[int, int]) -> bool:
    """Whether what a name has is an array of the block."""
    if not is_array(leaves[n]):
        return True
    if not isinstance(leaves[n], Tracer):
        return False
    root = root_of(leaves[n])
    return all(x.interpreter is interpreter or id(x) in entered for x in (root, *root.possible()))


@define(eq=False)
class Alternatives:
    """Results of a branch or loop: which of them are two arrays, whatever side is taken and whenever it ends."""

    two: frozenset[frozenset[int]]  # identities

    @staticmethod
    def of(results: Sequence[Any], sides: Sequence[Sequence[Any]]) -> Alternatives:
        """sides: what each side left, in the order of the results."""
        found: set[frozenset[int]] = set()
        places = [n for n, x in enumerate(results) if isinstance(x, Tracer) and is_array(x)]
        for k, a in enumerate(places):
            for b in places[k + 1 :]:
                pairs = [(side[a], side[b]) for side in sides]
                if all(isinstance(x, Tracer) for pair in pairs for x in pair) and all(
                    surely_two(root_of(x), root_of(y)) for x, y in pairs
                ):
                    found.add(frozenset((id(results[a]), id(results[b]))))
        return Alternatives(frozenset(found))

    @staticmethod
    def of_loop(results: Sequence[Any], initial: Sequence[Any], sharing: Sharing) -> Alternatives:
        """initial: what the loop began with, in the order of the results.  sharing: over all iterations."""
        elsewhere = {n for n, _ in (*sharing.outer, *sharing.possible)}
        maybe = sharing.pairs | _pairs(initial)

        def is_array_of_its_own(x: Any) -> bool:
            return isinstance(x, Tracer) and is_array(x)

        both = enumerate(zip(results, initial, strict=False))
        places = [n for n, xs in both if n not in elsewhere and all(map(is_array_of_its_own, xs))]
        two = [(a, b) for k, a in enumerate(places) for b in places[k + 1 :] if frozenset((a, b)) not in maybe]
        return Alternatives(frozenset(frozenset((id(results[a]), id(results[b]))) for a, b in two))


def _pairs(leaves: Sequence[Any]) -> set[frozenset[int]]:
    """The numbers of leaves that may be one array, or parts of one."""
    roots = [(n, root_of(x)) for n, x in enumerate(leaves) if isinstance(x, Tracer) and is_array(x)]
    return {frozenset((n, m)) for k, (n, x) in enumerate(roots) for m, y in roots[k + 1 :] if not surely_two(x, y)}


def _ordered(pair: frozenset[int]) -> tuple[int, int]:
    return min(pair), max(pair)


def surely_two(a: Cell, b: Cell) -> bool:
    """Whether two arrays, which are no views, are certainly not one."""
    if a is b:
        return False
    if not a.twins and not b.twins:
        return True
    either = {id(a), *map(id, a.possible())}
    if either.isdisjoint([id(b), *map(id, b.possible())]):
        return True
    return a.is_apart_from(b)


@define(eq=False)
class Sharing:
    """What the arrays are that one run of a block leaves under names: those of its trace are new ones, others were
    there before.

    outer: (number of the leaf, the array from around).  possible: arrays from around that it may be.  inner: (number,
    number of the leaf that the block was given).  twins: numbers of leaves that are one array, or parts of one; `same`
    where they are one object.  turned: names that hand their arrays round (see the function), about which nothing else
    is said.  anew: leaves that the block was given, has changed in place, and has bound to another array, perhaps.
    pairs: numbers of leaves that may be one array, those of twins too.
    """

    outer: list[tuple[int, Tracer]] = field(factory=list[tuple[int, Tracer]])
    inner: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    possible: list[tuple[int, Tracer]] = field(factory=list[tuple[int, Tracer]])
    twins: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    same: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    turned: dict[int, int] = field(factory=dict[int, int])
    anew: list[int] = field(factory=list[int])
    pairs: set[frozenset[int]] = field(factory=set[frozenset[int]])

    def begins_anew(self) -> list[int]:
        """Leaves of which the first iteration's array is not the last one's, and has been changed; those that such a
        name may have had before, too.
        """
        found = [*self.anew]
        for n in found:
            found += [k for m, k in self.inner if m == n and k not in found]
        return found

    def over_iterations(self, first: Sequence[Any]) -> Sharing:
        """The same of a loop, whose names may have what others had an iteration before.

        first: the leaves that it begins with.
        """
        sources = {n: {k for m, k in self.inner if m == n} for n, _ in self.inner}
        sources |= {n: {k} for n, k in self.turned.items()}
        pairs = {*self.pairs}
        before = _pairs(first)
        while True:
            before |= pairs
            more = {
                frozenset((n, m))
                for n in sources
                for m in sources
                if n < m and any(frozenset((k, j)) in before for k in sources[n] for j in sources[m])
            }
            if more <= pairs:
                break
            pairs |= more
        reached = {n: {*found} for n, found in sources.items()}
        for found in reached.values():
            pending = [*found]
            for k in pending:
                new = sources.get(k, set[int]()) - found
                found |= new
                pending += new
        possible = [*self.possible]
        for n, found in reached.items():
            possible += [(n, x) for k, x in (*self.outer, *self.possible) if k in found and k != n]
        inner = [(n, k) for n, found in reached.items() for k in sorted(found) if n not in self.turned]
        twins = [pair for pair in map(_ordered, pairs) if pair not in self.same]
        return evolve(self, inner=inner, possible=possible, twins=twins, pairs=pairs)

    @staticmethod
    def of(interpreter: StageInterpreter, given: Sequence[Any], left: Any) -> Sharing:
        """given: the leaves that the block got as its own; left: the tree of what it leaves.

        Raises: TracerError where a block has changed an array that it was given as its own, and the next one of the
        same name may be an array that has another name, too.
        """
        entered = {id(x): n for n, x in enumerate(given) if isinstance(x, Cell)}
        leaves = flatten(left)[0]
        found = Sharing(turned=turned(given, leaves), pairs=_pairs(leaves))
        found.anew = [n for n, x in enumerate(given) if isinstance(x, Cell) and x.version and n not in found.turned]
        if not all(_is_of_its_own(n, leaves, interpreter, entered) for n in found.anew):
            raise bound_anew()
        first: dict[int, tuple[int, Any]] = {}
        for n, leaf in enumerate(leaves):
            if not isinstance(leaf, Tracer) or not is_array(leaf) or n in found.turned:
                continue
            root = root_of(leaf)
            if id(root) in entered:
                found.inner.append((n, entered[id(root)]))
            elif root.interpreter is not interpreter:
                found.outer.append((n, leaf))
            for other in root.possible():
                if id(other) in entered:
                    found.inner.append((n, entered[id(other)]))
                elif other.interpreter is not interpreter and isinstance(other, Tracer):
                    found.possible.append((n, other))
            if id(root) in first:
                other, object_ = first[id(root)]
                (found.same if object_ is leaf else found.twins).append((other, n))
            else:
                first[id(root)] = n, leaf
        known = {*found.same, *found.twins}
        found.twins += [pair for pair in sorted(map(_ordered, found.pairs)) if pair not in known]
        return found


def check_alone(x: Any, first: Sequence[Any], interpreter: StageInterpreter) -> None:
    """Raises: TracerError where an array that a loop begins with, and changes, is seen by another name there."""
    if not isinstance(x, Tracer):
        raise TracerError("an array from outside is changed in place", location=user_location())
    roots = [id(root_of(y)) for y in first if isinstance(y, Tracer) and is_array(y)]
    if x.root is not None or id(x) in interpreter.captured_cells or roots.count(id(x)) > 1 or x.possible():
        raise changed_elsewhere()


def check_lost(first: Sequence[Any], n: int, interpreter: StageInterpreter, around: Interpreter) -> None:
    """Raises: TracerError where an array that a loop begins with, and changes before its name has another one, is seen
    in the loop by another name, or belongs to what is around a branch, of which the other side may be taken.
    """
    if not isinstance(first[n], Tracer):
        raise TracerError("an array from outside is changed in place", location=user_location())
    root = root_of(first[n])
    others = [root_of(x) for m, x in enumerate(first) if m != n and isinstance(x, Tracer) and is_array(x)]
    seen = {id(root_of(cell)) for cell, _ in interpreter.captured_cells.values()}
    for x in perhaps_one_of(first[n]):
        if type(x) is not Tracer or x.interpreter is not around or id(x) in seen:
            raise changed_elsewhere()
    if not all(surely_two(root, other) for other in others):
        raise changed_elsewhere()


def perhaps_one_of(x: Tracer) -> list[Any]:
    """The arrays that an array, or what it is a part of, may be."""
    root = root_of(x)
    return [root, *root.possible()]


def changed_elsewhere() -> TracerError:
    """The error for an array that a loop changes by one name and sees by another."""
    return TracerError(
        "a name stands for an array that the loop changes in place under another name", location=user_location()
    )
