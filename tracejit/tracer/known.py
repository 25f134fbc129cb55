"""What a trace knows of its values: those that depend on no argument, and between which numbers integers lie.

What Python asks for while tracing (`if`, `range`, a shape) can be answered from the former; the latter tell which
indices need no check.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Count, Dim, DimDependent, Extent, fits_in_64_bits, surely_at_most
from tracejit.ir.jaxpr import Atom, Equation, Literal, Var, calls_python
from tracejit.ir.primitive import Primitive
from tracejit.ir.ranges import ANYTHING, Range, within
from tracejit.support.nodes import define, field
from tracejit.tracer.interpreter import eager, use_interpreter

__all__ = ["MOST_CONTENT", "TAKEN_FOR_CONSTANT", "KnownRanges", "KnownValues", "range_of_array"]

MOST_CONTENT = 1 << 20
"""Bytes up to which the elements of an array from outside are compared at each call,
where the trace asked for their values."""
TAKEN_FOR_CONSTANT = (
    "is taken for a constant of the compiled program, because comparing it at each call would take long; pass it as "
    "an argument, or call "
    "clear_cache() of the function when it has changed"
)
_UNKNOWN = object()


@define(eq=False)
class KnownValues:
    """The values of variables of a growing list of equations, as far as they follow from constants.

    `given(var)` is the array behind an input of the trace, None for an argument.  Values are computed when they are
    asked for, once.
    """

    equations: Sequence[Equation]
    given: Callable[[Var], Any]
    _seen: int = 0
    _producer: dict[Var, Equation] = field(factory=dict[Var, Equation])
    _values: dict[Var, Any] = field(factory=dict[Var, Any])
    _looked_at: set[Var] = field(factory=set[Var])  # in `_values` if they depend on an argument
    _sources: dict[Var, dict[Var, None]] = field(factory=dict[Var, "dict[Var, None]"])  # inputs, in an order

    def value(self, atom: Atom) -> Any:
        """The array that `atom` is, or None if it depends on an argument."""
        if isinstance(atom, Literal):
            return np.asarray(atom.value)
        decision: DimDependent | None = None
        for needed in self.needed(atom, self._looked_at):
            try:
                self._look_at(needed)
                self._looked_at.add(needed)
            except DimDependent as found:
                decision = decision or found
        if atom not in self._values:  # nothing is computed, nor asked, for what depends on an argument as well
            if decision is not None:
                raise decision
            for needed in self.needed(atom, self._values):
                self._compute(needed)
        found = self._values.get(atom, _UNKNOWN)
        return None if found is _UNKNOWN else found

    def sources(self, atom: Atom) -> list[Var]:
        """The inputs of the trace that `atom` depends on."""
        if isinstance(atom, Literal):
            return []
        for var in self.needed(atom, self._sources):
            equation = self._producer.get(var)
            if equation is None:
                self._sources[var] = {var: None}
                continue
            of_inputs = [self._sources[x] for x in equation.inputs if isinstance(x, Var)]
            most = max(of_inputs, key=len, default={})
            more = {v: None for found in of_inputs if found is not most for v in found if v not in most}
            self._sources[var] = most | more if more else most
        return list(self._sources[atom])

    def _index(self) -> None:
        for equation in self.equations[self._seen :]:
            for var in equation.outputs:
                self._producer[var] = equation
        self._seen = len(self.equations)

    def producer(self, var: Var) -> Equation | None:
        """The equation that computes a variable, None for an input of the trace."""
        self._index()
        return self._producer.get(var)

    def needed(self, atom: Var, done: Container[Var], follow: Callable[[Equation], bool] = lambda e: True) -> list[Var]:
        """What `atom` is computed from and `atom`, operands first,
        but for what is `done` and what only that is computed from.

        Operands of equations that are not to be followed are not among them.
        """
        self._index()
        order: dict[Var, None] = {}
        stack: list[tuple[Var, bool]] = [(atom, False)]
        while stack:
            var, ready = stack.pop()
            if var in order or var in done:
                continue
            equation = self._producer.get(var)
            if ready or equation is None or not follow(equation):
                order[var] = None
                continue
            stack.append((var, True))
            stack += [(x, False) for x in equation.inputs if isinstance(x, Var)]
        return list(order)

    def _look_at(self, var: Var) -> None:
        """The value of an input of the trace, and which values depend on those that are not known."""
        equation = self._producer.get(var)
        if equation is None:
            value = self.given(var)
            self._values[var] = _UNKNOWN if value is None else value
        elif calls_python(equation.primitive) or any(
            isinstance(x, Var) and self._values.get(x) is _UNKNOWN for x in equation.inputs
        ):
            self._values.update(dict.fromkeys(equation.outputs, _UNKNOWN))

    def _compute(self, var: Var) -> None:
        if var in self._values:  # a sibling result of the same equation, too
            return
        equation = self._producer[var]
        inputs = [np.asarray(x.value) if isinstance(x, Literal) else self._values[x] for x in equation.inputs]
        if any(x is _UNKNOWN for x in inputs):
            self._values.update(dict.fromkeys(equation.outputs, _UNKNOWN))
            return
        try:
            with use_interpreter(eager):
                results = eager.process(equation.primitive, inputs)
        except DimDependent as decision:
            if not any(isinstance(s, Count) for s in decision.symbols):
                raise
            self._values.update(dict.fromkeys(equation.outputs, _UNKNOWN))
            return
        self._values.update(zip(equation.outputs, [np.asarray(r) for r in results], strict=True))


_EXACT = 62
"""Bits of integers that extents are taken to fit, so that sums of a few do not wrap around."""


def _of_dtype(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """The values of a dtype, where they are few enough to tell something about an index."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu" or dtype.itemsize > 4:
        return None
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _checked(found: Range, dtype: np.dtype[Any]) -> Range:
    """The range of a result of this dtype: anything where numbers beyond its limits would have wrapped around."""
    limits = _of_dtype(dtype)
    if limits is None:
        fits = all(map(_is_exact, found)) and (dtype.kind != "u" or _not_negative(found))
        return found if fits and dtype.kind in "iu" else ANYTHING
    return found if within(found, *limits) else limits


def _is_exact(end: Extent | None) -> bool:
    """Whether 64 bits hold an end, and some more.  Products of extents are taken for sizes of arrays."""
    if isinstance(end, Dim):
        return fits_in_64_bits(end, [end])
    return end is None or abs(end) < 1 << _EXACT


def _not_negative(found: Range) -> bool:
    return found[0] is not None and surely_at_most(0, found[0])


def range_of_array(array: Any) -> Range:
    """The least and greatest element of an array of integers that is known."""
    array = np.asarray(array)
    return (int(array.min()), int(array.max())) if array.size and array.dtype.kind in "biu" else ANYTHING


def _tells(equation: Equation) -> bool:
    """Whether the range of a result follows from those of the operands."""
    primitive = equation.primitive
    return type(primitive).value_range is not Primitive.value_range and equation.outputs[0].aval.dtype.kind in "biu"


@define(eq=False)
class KnownRanges:
    """The ranges of integer variables of a growing list of equations.  `given(var)` is
    that of an input of the trace.
    """

    values: KnownValues
    given: Callable[[Var], Range]
    _ranges: dict[Var, Range] = field(factory=dict[Var, Range])

    def of(self, atom: Atom) -> Range:
        """Between which values the elements of an atom lie."""
        if isinstance(atom, Var):
            for var in self.values.needed(atom, self._ranges, _tells):
                self._ranges[var] = self._compute(var)
        return self._known(atom)

    def _known(self, atom: Atom) -> Range:
        return range_of_array(atom.value) if isinstance(atom, Literal) else self._ranges[atom]

    def _compute(self, var: Var) -> Range:
        equation = self.values.producer(var)
        if equation is None:
            found = self.given(var) if var.aval.dtype.kind in "biu" else ANYTHING
        elif not _tells(equation):
            found = ANYTHING
        else:
            found = equation.primitive.value_range(
                [self._known(x) for x in equation.inputs], *[x.aval for x in equation.inputs]
            )
        return _checked(found, var.aval.dtype)
