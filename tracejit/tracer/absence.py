"""Values that a name may not have: whether it has one, or has None instead, only the program knows.

What may be absent is handed on as a flag and a value (zeros where it is absent).  Whatever uses the value fails in the
program where it is absent, with the error that Python would raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.ir.primitive import Primitive
from tracejit.support.nodes import field, frozen
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.failures import Raised
from tracejit.tracer.interpreter import watchers
from tracejit.tracer.operators import OPERATORS, PRIMITIVES
from tracejit.tracer.tracer import Tracer

__all__ = ["Absence", "absence_of", "perhaps", "unmarked", "used"]


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
    """A value that is absent where the flag holds.  Its arrays are marked, so they must be nobody else's; of numbers
    others are made, as a name may hold them too.
    """
    if not isinstance(flag, Tracer):
        return value
    if not watchers:
        watchers.append(_watch)
    absence = Absence(flag, name, none)
    leaves, tree = flatten(value)
    marked: list[Any] = []
    for x in leaves:
        if not isinstance(x, Tracer):
            is_python = isinstance(x, (bool, int, float, complex))
            x = PRIMITIVES.full((), np.asarray(x)[()])
            if is_python:
                x.weaken()
        else:
            x = _again(x)
        x.absence = absence
        marked.append(x)
    made = unflatten(tree, marked)
    if isinstance(made, tuple):
        absence.whole.append(made)
    return made


def absence_of(value: Any) -> Absence | None:
    """When a value is absent, if it may be."""
    if type(value) is Tracer:
        return value.absence
    if type(value) is tuple:
        return next((a for x in value if (a := absence_of(x)) is not None), None)
    return None


def unmarked(value: Any) -> Any:
    """A value to hand on with its flag, which is no use of it: its numbers without marks.  Arrays stay the ones they
    are.
    """
    leaves, tree = flatten(value)
    return unflatten(tree, [_again(x) if type(x) is Tracer and x.absence is not None else x for x in leaves])


def _again(x: Tracer) -> Tracer:
    """The same number as another object, without a mark; an array is the one it is."""
    if not x.is_scalar:
        return x
    made = Tracer(x.interpreter, x.value, x.aval)
    made.is_array, made.mixed = x.is_array, x.mixed
    return made


def used(value: Any) -> Any:
    """The value, which is used here: the program fails if it is absent."""
    absence = absence_of(value)
    if absence is not None:
        absence.use()
    return value


def _watch(primitive: Primitive, operands: Sequence[Any]) -> None:
    """Before a primitive is applied.  Those that run jaxprs hand on what these may use."""
    if not primitive.runs_jaxprs:
        for x in operands:
            if type(x) is Tracer and x.absence is not None:
                x.absence.use()
