"""Values in a trace that depend on no argument: what Python asks for while tracing (`if`, `range`, a shape) can be answered from these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, field

from tracejit.ir.jaxpr import Atom, Equation, Literal, Var
from tracejit.tracer.interpreter import eager, use_interpreter

__all__ = ["KnownValues"]

_UNKNOWN = object()


@define(eq=False)
class KnownValues:
    """The values of variables of a growing list of equations, as far as they follow from constants.

    `given(var)` is the array behind an input of the trace, None for an argument.  Values are computed when they are asked for, once.
    """

    equations: Sequence[Equation]
    given: Callable[[Var], Any]
    _seen: int = 0
    _producer: dict[Var, Equation] = field(factory=dict[Var, Equation])
    _values: dict[Var, Any] = field(factory=dict[Var, Any])

    def value(self, atom: Atom) -> Any:
        """The array that `atom` is, or None if it depends on an argument."""
        if isinstance(atom, Literal):
            return np.asarray(atom.value)
        for needed in self._needed(atom):
            self._compute(needed)
        found = self._values.get(atom, _UNKNOWN)
        return None if found is _UNKNOWN else found

    def sources(self, atom: Atom) -> list[Var]:
        """The inputs of the trace that `atom` depends on."""
        return [] if isinstance(atom, Literal) else [v for v in self._needed(atom, known=False) if v not in self._producer]

    def _index(self) -> None:
        for equation in self.equations[self._seen :]:
            for var in equation.outputs:
                self._producer[var] = equation
        self._seen = len(self.equations)

    def _needed(self, atom: Var, known: bool = True) -> list[Var]:
        """What `atom` is computed from, operands first; without what has a value already if `known`."""
        self._index()
        order: dict[Var, None] = {}
        stack: list[tuple[Var, bool]] = [(atom, False)]
        while stack:
            var, ready = stack.pop()
            if var in order or (known and var in self._values):
                continue
            equation = self._producer.get(var)
            if ready or equation is None:
                order[var] = None
                continue
            stack.append((var, True))
            stack += [(x, False) for x in equation.inputs if isinstance(x, Var)]
        return list(order)

    def _compute(self, var: Var) -> None:
        equation = self._producer.get(var)
        if equation is None:
            value = self.given(var)
            self._values[var] = _UNKNOWN if value is None else value
            return
        if var in self._values:  # a sibling result of the same equation
            return
        inputs = [np.asarray(x.value) if isinstance(x, Literal) else self._values[x] for x in equation.inputs]
        if any(x is _UNKNOWN for x in inputs):
            self._values.update(dict.fromkeys(equation.outputs, _UNKNOWN))
            return
        with use_interpreter(eager):
            results = eager.process(equation.primitive, inputs)
        self._values.update(zip(equation.outputs, [np.asarray(r) for r in results], strict=True))
