"""Values that a name may not have: whether it has one, or has None instead, only the program knows.

What may be absent is handed on as a flag and a value (zeros where it is absent).  Whatever uses the value fails in the
program where it is absent, with the error that Python would raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.primitive import Primitive
from tracejit.support.errors import TracerError, UnsupportedError
from tracejit.support.nodes import field, frozen
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.failures import Raised, Reason
from tracejit.tracer.interpreter import watchers
from tracejit.tracer.operators import OPERATORS, PRIMITIVES
from tracejit.tracer.tracer import Tracer

__all__ = ["Absence", "absence_of", "handed_on_absence", "known_to_be_there", "perhaps", "unmarked", "used"]


@frozen(eq=False)
class Absence:
    """flag: whether the value is absent.  name: the variable.  none: it is None then; else it is not bound.  whole:
    the value itself if it is a tuple, whose items are marked.
    """

    flag: Any
    name: str
    none: bool
    whole: list[Any] = field(factory=list[Any])

    def error(self) -> Exception:
        """What Python raises for a use of the absent value."""
        if self.none:
            return TypeError(f"{self.name!r} is None here")
        return UnboundLocalError(f"cannot access local variable {self.name!r} where it is not associated with a value")

    def use(self) -> None:
        """The program fails here if the value is absent."""
        OPERATORS.check_none(self.flag, Raised(self.error()))


def perhaps(value: Any, flag: Any, name: str, *, none: bool) -> Any:
    """A value that is absent where the flag holds.  What is marked is this name's alone: of an array a view of all of
    it, of a number another one, as other names may hold them too.
    """
    if not isinstance(flag, Tracer):
        return value
    if not watchers:
        watchers.append(_watch)
    absence = Absence(flag, name, none)
    leaves, tree = flatten(value)
    if not leaves:
        raise TracerError(
            f"whether {name!r} is an empty tuple, or None or without a value, is known to the program alone",
            location=user_location(),
        )
    marked: list[Any] = []
    for x in leaves:
        if not isinstance(x, Tracer):
            is_python = isinstance(x, (bool, int, float, complex))
            x = PRIMITIVES.full((), np.asarray(x)[()])
            if is_python:
                x.weaken()
        else:
            x = _again(x) if x.is_scalar else OPERATORS.getitem(_without_mark(x), Ellipsis)
        x.absence = absence
        marked.append(x)
    made = unflatten(tree, marked)
    if isinstance(made, tuple):
        absence.whole.append(made)
    return made


def absence_of(value: Any) -> Absence | None:
    """When a value is absent, if it may be.  A tuple is there also where one of its items is None."""
    if type(value) is Tracer:
        return value.absence
    if isinstance(value, tuple):
        return next((a for a in _marks(value) if any(x is value for x in a.whole)), None)
    return None


def handed_on_absence(value: Any) -> Absence | None:
    """The same of a value that a loop or branch hands on.  A tuple of which an item may have no value uses it: Python
    would have failed where it was made.  One of which an item is None is not handed on: the program fails there.
    """
    absence = absence_of(value)
    if absence is None and isinstance(value, tuple):
        for mark in _marks(value):
            if mark.none:
                why = f"a loop or branch hands on a tuple in which {mark.name!r} is None here; hand on its items under "
                OPERATORS.check_none(mark.flag, Reason(UnsupportedError, f"{why}names of their own"))
            else:
                mark.use()
    return absence


def known_to_be_there(value: Any, what: str) -> Any:
    """The value, of which `what` is asked.   Raises: TracerError where it is a tuple, or None, depending on data."""
    absence = absence_of(value) if isinstance(value, tuple) else None
    if absence is not None:
        raise TracerError(
            f"{what} {absence.name!r}, which is None or a tuple, is known to the program alone; ask "
            f"`{absence.name} is None` first",
            location=user_location(),
        )
    return value


def _marks(value: Any) -> list[Absence]:
    """When the parts of a value are absent that may be."""
    return [x.absence for x in flatten(value)[0] if type(x) is Tracer and x.absence is not None]


def unmarked(value: Any) -> Any:
    """A value to hand on with its flag, which is no use of it: its numbers and arrays without marks."""
    leaves, tree = flatten(value)
    return unflatten(tree, [_without_mark(x) if type(x) is Tracer else x for x in leaves])


def _without_mark(x: Tracer) -> Any:
    """The same number as another object, or the array that a marked one is a view of."""
    if x.absence is None:
        return x
    return _again(x) if x.is_scalar else x.root


def _again(x: Tracer) -> Tracer:
    """The same number as another object, without a mark."""
    made = Tracer(x.interpreter, x.value, x.aval)
    made.is_array, made.mixed = x.is_array, x.mixed
    return made


def used(value: Any) -> Any:
    """The value, which is used here: the program fails if it is absent."""
    for absence in [value.absence] if type(value) is Tracer else _marks(value):
        if absence is not None:
            absence.use()
    return value


def _watch(primitive: Primitive, operands: Sequence[Any]) -> None:
    """Before a primitive is applied.  Those that run jaxprs hand on what these may use."""
    if not primitive.runs_jaxprs:
        for x in operands:
            if type(x) is Tracer and x.absence is not None:
                x.absence.use()
