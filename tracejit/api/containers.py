"""Lists, dicts and other objects in what a branch gives.

Of containers the program gives new ones.  Python gives those of one side, which may have other names: that makes a
difference where one of them is changed afterwards.  A container that both sides give stays the one it is, and so does
an object of another kind, of which the program knows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim
from tracejit.support.errors import TracerError
from tracejit.support.nodes import define, field
from tracejit.support.source import user_location
from tracejit.support.tree import LEAF, TreeDef, flatten, split_node, unflatten
from tracejit.tracer.cell import Cell
from tracejit.tracer.current import current_trace
from tracejit.tracer.python_state import reachable
from tracejit.tracer.statements.variables import UNBOUND
from tracejit.tracer.tracer import Lost

__all__ = ["Given", "give_one_of"]


@define(eq=False)
class Given:
    """What the sides of a branch give, in the order in which they were traced last."""

    sides: dict[Callable[[], Any], Any] = field(factory=dict[Callable[[], Any], Any])

    def add(self, side: Callable[[], Any], value: Any) -> Any:
        """The value as the program gives it: as it is now, in containers of its own, as those that were there before
        are restored; numbers stand for other objects.

        Raises: TracerError where the sides give different ones, or dicts of different orders.
        """
        self.sides[side] = value
        leaves, tree = flatten(value)
        objects = [*map(_is_object, leaves)]
        if len(self.sides) == 2:
            one, other = self.sides.values()
            _check_alike(one, other)
        if not any(objects) and not _has_container(value):
            return value
        return unflatten(tree, [0 if is_object else x for x, is_object in zip(leaves, objects, strict=True)])

    def shared(self, made: Any) -> Callable[[], Any]:
        """What gives the value of the branch, once all that it hands on is in its place.  made: as the program gives
        it.  What the sides can reach is as it was before.
        """
        one, other = self.sides.values()
        if not any(_has_container(x) or any(map(_is_object, flatten(x)[0])) for x in (one, other)):
            return lambda: made
        trace = current_trace()
        there = {id(x) for x in reachable([*self.sides, *([] if trace is None else trace.changes.held_outside())])}

        counts = Counter(id(x) for side in (one, other) for x in _all_in(side))

        def is_new(x: Any) -> bool:
            """Whether a side has made it, and nothing else has it."""
            return id(x) not in there and counts[id(x)] == 1 and trace is not None and not trace.is_from_outside(x)

        found: list[Any] = []
        result = _joined(made, one, other, is_new, found)

        def ended() -> Any:
            if trace is not None:
                trace.loops.given.add(found)
            return result

        return ended


def give_one_of(items: Sequence[Any], made: Any) -> Any:
    """What the program chooses between items: new containers, so that neither they nor those of the items may change
    from here on.
    """
    trace = current_trace()
    found = [x for item in (*items, made) for x in _all_in(item)]
    if found and trace is not None and not any(made is item for item in items):
        trace.loops.given.add(found)
    return made


def _is_mutable(x: Any) -> bool:
    return x is not None and not isinstance(x, tuple) and split_node(x) is not None


def _all_in(x: Any) -> Iterator[Any]:
    """The containers that can be changed, from the outside inwards."""
    if _is_mutable(x):
        yield x
    for child in (split_node(x) or (None, None, ()))[2]:
        yield from _all_in(child)


def _has_container(x: Any) -> bool:
    return next(_all_in(x), None) is not None


def _is_object(x: Any) -> bool:
    """Whether something is no number (of Python's own classes or NumPy's), no array, and no container."""
    return not (
        type(x) in (bool, int, float, complex)
        or isinstance(x, (np.generic, Cell, Dim, Lost))
        or x is UNBOUND
        or hasattr(type(x), "__array__")
        or split_node(x) is not None
    )


def _check_alike(one: Any, other: Any) -> None:
    """Raises: TracerError where two values have different objects in one place, or dicts with their keys in another
    order.
    """
    if _is_object(one) or _is_object(other):
        if not (one is other or (isinstance(one, _VALUES) and type(one) is type(other) and one == other)):
            raise TracerError(
                f"the sides of a branch give different objects ({_named(one)} and {_named(other)}), which the program "
                "does not know; have them give numbers, arrays, or tuples of these",
                location=user_location(),
            )
        return
    split, against = split_node(one), split_node(other)
    if split is None or against is None:
        found = [x for x in (*flatten(one)[0], *flatten(other)[0]) if _is_object(x)]
        if found:
            _check_alike(found[0], None)
        return
    if split[0] == against[0] == "dict" and split[1] != against[1] and {*split[1]} == {*against[1]}:
        raise TracerError(
            f"the sides of a branch give dicts with their keys in different orders: {[*split[1]]} and {[*against[1]]}",
            location=user_location(),
        )
    for a, b in zip(split[2], against[2], strict=False):
        _check_alike(a, b)


_VALUES = (str, bytes, range, slice, np.dtype)
"""Of these two that are equal are as good as one."""


def _named(x: Any) -> str:
    if x is None or isinstance(x, (*_VALUES, type)):
        return f"{x!r:.40}"
    return getattr(x, "__name__", None) or f"a {type(x).__name__}"


def _joined(made: Any, one: Any, other: Any, is_new: Callable[[Any], bool], found: list[Any]) -> Any:
    """The value with containers that both sides give.  found: gets those that may be one, depending on the side."""
    if _is_mutable(made):
        if one is other:
            return one
        if not (is_new(one) and is_new(other)):
            found += [x for x in (made, one, other) if not any(x is y for y in found)]
    split = split_node(made)
    if split is None:
        return one if _is_object(one) else made
    kind, data, children = split
    sides = [split_node(x) for x in (one, other)]
    assert sides[0] is not None
    assert sides[1] is not None
    parts = [_joined(x, a, b, is_new, found) for x, a, b in zip(children, sides[0][2], sides[1][2], strict=True)]
    if all(x is y for x, y in zip(parts, children, strict=True)):
        return made
    if type(made) is list:
        made[:] = parts
        return made
    if type(made) is dict:
        made.update(zip(made, parts, strict=True))
        return made
    return unflatten(TreeDef(kind, data, (LEAF,) * len(parts)), parts)
