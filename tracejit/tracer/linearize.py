"""Linearization: the primal computation at once, the tangent computation as a linear jaxpr.  `vjp` transposes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Count, Dim, Extent, substituted
from tracejit.ir.jaxpr import Jaxpr, Literal, Var, primitive_with_extents
from tracejit.ir.passes.simplify import dce
from tracejit.ir.primitive import Primitive
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import located
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import new_count
from tracejit.tracer.failures import hand_on
from tracejit.tracer.interpreter import bind, current_interpreter, use_interpreter
from tracejit.tracer.jvp import JVPInterpreter
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.trace import leave
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Describe, describe_position
from tracejit.tracer.transpose import backward_pass

__all__ = ["Linearized", "evaluate_jaxpr", "linearize"]


@frozen(eq=False)
class Linearized:
    """The outputs of a function at a point and its derivative there: a linear jaxpr whose last inputs are `residuals`.

    `zero[k]` says that output k does not depend on the inputs.
    """

    outputs: tuple[Any, ...]
    jaxpr: Jaxpr
    residuals: tuple[Any, ...]
    linear: int
    zero: tuple[bool, ...]

    def pullback(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs; None stands for zero."""
        live = [c for c, zero in zip(cotangents, self.zero, strict=True) if not zero]
        return backward_pass(self.jaxpr, self.residuals, live, self.linear)

    def pushforward(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs; None stands for zero."""
        live = iter(evaluate_jaxpr(self.jaxpr, [*tangents, *self.residuals]))
        return [None if zero else next(live) for zero in self.zero]

    def detached(self) -> Linearized:
        """The same with its own copies of NumPy arrays: later changes to the user's arrays do not reach it."""
        return evolve(self, residuals=tuple(np.array(r) if isinstance(r, np.ndarray) else r for r in self.residuals))


def linearize(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    *,
    name: str = "linearize",
    describe: Describe = describe_position,
) -> Linearized:
    """Linearize a flat function at `primals` (all of them differentiable)."""
    recorder = StageInterpreter(current_interpreter(), partial=True)
    recorder.name = name
    forward = JVPInterpreter(recorder, name, describe)
    tangents = [recorder.new_input(aval_of_argument(p).strong()) for p in primals]
    tracers = [forward.argument(n, p, t) for n, (p, t) in enumerate(zip(primals, tangents, strict=True))]
    try:
        with use_interpreter(forward):
            pairs = [forward.pair(r) for r in function(*tracers)]
        hand_on(forward)
        zero = tuple(t is None for _, t in pairs)
        with use_interpreter(recorder):
            outputs = [recorder.atom(t) for _, t in pairs if t is not None]
    finally:
        leave(forward)
        forward.alive = recorder.alive = False
    jaxpr = dce(Jaxpr([*recorder.inputs, *recorder.captured.values()], recorder.equations, outputs))
    # What no result depends on (a root that is only compared) leaves nothing behind: it may be infinite.
    used = {a for e in jaxpr.equations for a in e.inputs}.union(jaxpr.outputs)
    kept = [(v, r) for v, r in zip(recorder.captured.values(), recorder.constants, strict=True) if v in used]
    inputs = [*recorder.inputs, *[v for v, _ in kept]]
    linear = Jaxpr(inputs, jaxpr.equations, jaxpr.outputs)
    return Linearized(tuple(p for p, _ in pairs), linear, tuple(r for _, r in kept), len(primals), zero)


def evaluate_jaxpr(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a jaxpr under the current interpreter.  Symbols of extents that it binds are others each time."""
    environment: dict[Var, Any] = dict(zip(jaxpr.inputs, args, strict=True))
    extents: dict[str, Extent] = {}
    for equation in jaxpr.equations:
        values = [a.value if isinstance(a, Literal) else environment[a] for a in equation.inputs]
        primitive = primitive_with_extents(equation.primitive, extents) if extents else equation.primitive
        if primitive.binds:
            primitive = _bound_anew(primitive, values[0], extents)
        with located(equation.location):
            out = bind(primitive, *values)
        for var, value in zip(equation.outputs, out if equation.primitive.multiple_results else (out,), strict=True):
            environment[var] = value
    return [a.value if isinstance(a, Literal) else environment[a] for a in jaxpr.outputs]


def _bound_anew(primitive: Primitive, value: Any, extents: dict[str, Extent]) -> Primitive:
    """The primitive, which binds a symbol of extents, with another one; what stands for it comes into `extents`."""
    symbol: Count = getattr(primitive, primitive.binds)
    most = substituted(symbol.most, extents)
    if not isinstance(value, Tracer):
        extents[symbol] = int(value)
        return primitive
    new = new_count(most, symbol.what)
    if new is None:  # while a program is made of it: once
        return primitive
    extents[symbol] = Dim.symbol(new)
    return evolve(primitive, **{primitive.binds: new})
