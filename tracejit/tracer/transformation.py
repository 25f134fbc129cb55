"""What the interpreters of transformations share: tracers that hold a pair of a value
of the interpreter below and something about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.ranges import Range
from tracejit.support.errors import TracerError
from tracejit.support.source import user_location
from tracejit.tracer.cell import Cell, aval_of_argument
from tracejit.tracer.interpreter import Interpreter, use_interpreter
from tracejit.tracer.known import range_of_array
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.same import same_value
from tracejit.tracer.tracer import Tracer

__all__ = ["Describe", "Transformation", "describe_position"]

Describe = Callable[[int], str]
"""The name a user knows an argument by, from its position: `1['w']`."""


def describe_position(position: int) -> str:
    """Arguments named by number."""
    return str(position + 1)


class Transformation(Interpreter):
    """Values are (value below, extra), extra None where the transformation does not touch the value.

    `transformation` is the name users know ("grad", "vmap"); `describe` names an argument in messages.
    """

    def __init__(self, parent: Interpreter, transformation: str, describe: Describe = describe_position) -> None:
        super().__init__(parent)
        self.name = transformation
        self._describe = describe
        self._arguments: dict[int, tuple[Tracer, int]] = {}

    def pair(self, x: Any) -> tuple[Any, Any]:
        """(value, extra) of an operand; one of an outer interpreter, or a plain array, is untouched."""
        if isinstance(x, Tracer) and x.interpreter is self:
            return x.value
        return x, None

    def wrap(self, value: Any, extra: Any) -> Tracer:
        return Tracer(self, (value, extra), aval_of_argument(value))

    def lift(self, value: Any) -> Tracer:
        return self.wrap(value, None)

    def fresh(self, cell: Cell) -> Tracer:
        if cell.interpreter is self:
            made = Tracer(self, cell.value, cell.aval)
        else:
            assert self.parent is not None
            with use_interpreter(self.parent):
                made = self.lift(self.parent.fresh(cell))
        made.is_array = cell.is_array
        return made

    def argument(self, position: int, value: Any, extra: Any) -> Tracer:
        """The tracer of an argument: one that the function must not change in place."""
        tracer = self.wrap(value, extra)
        tracer.layout = OPERATORS.layout(value, self.mapped_axis(extra))
        self._arguments[id(tracer)] = (tracer, position)
        return tracer

    def mapped_axis(self, extra: Any) -> int | None:
        """The axis of a value below that the transformation takes away."""
        return None

    def write(self, cell: Any, value: Any) -> None:
        known = self._arguments.get(id(cell))
        if known is not None:
            raise TracerError(
                f"{self.name}: argument {self._describe(known[1])} is changed in place, which has no meaning under "
                f"{self.name}; "
                "copy it first (x = x.copy()) and return the new value",
                location=user_location(),
            )
        cell.store(self, self.pair(value))

    def known(self, value: Any) -> Any:
        """The concrete value of a value of the interpreter below, None if it has none."""
        return value.concrete() if isinstance(value, Tracer) else np.asarray(value)

    def lowered(self, tracer: Cell) -> Any:
        """The value below, of what the transformation does not touch."""
        value, extra = tracer.value
        return value if extra is None else None

    def made_here(self, tracer: Cell) -> Any:
        """The value below, where that is known or follows from what the trace below has made."""
        value = tracer.value[0]
        return value.made() if isinstance(value, Tracer) else np.asarray(value)

    def same_value(self, x: Cell, y: Cell) -> bool:
        """Whether two arrays have the same elements (see `same.same_value`): the values below, mapped alike;
        tangents do not count.
        """
        (a, this), (b, that) = x.value, y.value
        if (isinstance(this, int) or isinstance(that, int)) and this != that:
            return False
        assert self.parent is not None
        with use_interpreter(self.parent):
            return same_value(a, b)

    def value_range(self, tracer: Cell) -> Range:
        """That of the value below."""
        value = tracer.value[0]
        return value.value_range() if isinstance(value, Tracer) else range_of_array(value)

    def need_value(self, tracer: Cell) -> None:
        """Python asks for a value: a trace further out may restart with it."""
        value = tracer.value[0]
        if isinstance(value, Tracer):
            value.interpreter.need_value(value)
