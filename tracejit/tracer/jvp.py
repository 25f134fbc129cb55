"""Forward-mode differentiation: an interpreter on pairs (primal, tangent)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir.primitive import Primitive
from tracejit.tracer.cell import Cell
from tracejit.tracer.failures import hand_on
from tracejit.tracer.interpreter import current_interpreter, use_interpreter
from tracejit.tracer.trace import leave
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transformation import Describe, Transformation, describe_position

__all__ = ["JVPInterpreter", "jvp"]


class JVPInterpreter(Transformation):
    """Values are (primal, tangent) with a tangent of None for a symbolic zero; both live in the interpreter below."""

    def process(self, primitive: Primitive, args: Sequence[Any]) -> tuple[Any, ...]:
        assert self.parent is not None
        primals: list[Any] = []
        tangents: list[Any] = []
        moves = False
        for a in args:
            primal, tangent = self.pair(a)
            primals.append(primal)
            tangents.append(tangent)
            moves = moves or tangent is not None
        with use_interpreter(self.parent):
            if not moves:
                return tuple([self.wrap(o, None) for o in self.parent.process(primitive, primals)])
            out, tangent = primitive.jvp(primals, tangents)
        if primitive.multiple_results:
            return tuple([self.wrap(o, t) for o, t in zip(out, tangent, strict=True)])
        return (self.wrap(out, tangent),)

    def concrete(self, tracer: Cell) -> Any:
        """The primal, where the interpreter below computes eagerly."""
        return self.known(tracer.value[0])

    def loses_derivative(self, tracer: Cell) -> bool:
        """Whether a Python number made of this value would silently drop its derivative."""
        primal, tangent = tracer.value
        return tangent is not None or (isinstance(primal, Tracer) and primal.interpreter.loses_derivative(primal))


def jvp(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    name: str = "jvp",
    describe: Describe = describe_position,
) -> tuple[list[Any], list[Any]]:
    """(outputs, output tangents) of a flat function; a tangent that is symbolically zero is None, on both sides."""
    interpreter = JVPInterpreter(current_interpreter(), name, describe)
    tracers = [interpreter.argument(n, p, t) for n, (p, t) in enumerate(zip(primals, tangents, strict=True))]
    try:
        with use_interpreter(interpreter):
            pairs = [interpreter.pair(r) for r in function(*tracers)]
        hand_on(interpreter)
    finally:
        leave(interpreter)
        interpreter.alive = False
    return [p for p, _ in pairs], [t for _, t in pairs]
