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
from tracejit.support.nodes import define, field
from tracejit.support.source import user_location
from tracejit.support.tree import flatten
from tracejit.tracer.cell import Cell
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.tracer import Tracer

__all__ = ["Sharing", "can_be_carried", "is_array", "is_tuple", "order_of", "places_after", "root_of", "turned"]

_NUMBERS = (bool, int, float, complex, np.generic)


def is_tuple(x: Any) -> bool:
    """Whether something is a tuple, perhaps one with names."""
    return type(x) is tuple or (isinstance(x, tuple) and hasattr(type(x), "_fields"))


def can_be_carried(x: Any) -> bool:
    """Whether a value may be another one in each iteration, or branch: arrays, numbers, and (named) tuples of them."""
    if is_tuple(x):
        return all(map(can_be_carried, x))
    if type(x) in (bool, int, float, complex):
        return type(x) is not int or -(2**63) <= x < 2**63
    return type(x) is Tracer or (isinstance(x, (np.generic, np.ndarray)) and x.dtype.kind in "biufc")


def is_array(x: Any) -> bool:
    """Whether `x += 1` changes it in place."""
    return isinstance(x, np.ndarray) or (isinstance(x, Tracer) and not x.is_scalar)


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


@define(eq=False)
class Sharing:
    """What the arrays are that one run of a block leaves under names: those of its trace are new ones, others were
    there before.

    outer: (number of the leaf, the array from around).  possible: arrays from around that it may be.  inner: (number,
    number of the leaf that the block was given).  twins: numbers of leaves that are one array, or parts of one; `same`
    where they are one object.  turned: names that hand their arrays round (see the function), about which nothing else
    is said.
    """

    outer: list[tuple[int, Tracer]] = field(factory=list[tuple[int, Tracer]])
    inner: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    possible: list[tuple[int, Tracer]] = field(factory=list[tuple[int, Tracer]])
    twins: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    same: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    turned: dict[int, int] = field(factory=dict[int, int])

    @staticmethod
    def of(interpreter: StageInterpreter, given: Sequence[Any], left: Any) -> Sharing:
        """given: the leaves that the block got as its own; left: the tree of what it leaves.

        Raises: TracerError where a block has changed an array that it was given as its own: the one outside is another.
        """
        entered = {id(x): n for n, x in enumerate(given) if isinstance(x, Cell)}
        leaves = flatten(left)[0]
        found = Sharing(turned=turned(given, leaves))
        if any(isinstance(x, Cell) and x.version and n not in found.turned for n, x in enumerate(given)):
            raise TracerError("an array is changed in place whose name is also bound anew", location=user_location())
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
        return found
