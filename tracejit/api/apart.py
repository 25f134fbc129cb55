"""Functions of the user's that are traced apart from what is around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.jaxpr import Jaxpr, Literal, Var
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import Restart, UnsupportedError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import raised_at, user_location
from tracejit.tracer.failures import failure_cell, note_failure
from tracejit.tracer.interpreter import current_interpreter, use_interpreter
from tracejit.tracer.linearize import evaluate_jaxpr
from tracejit.tracer.recorder import recording
from tracejit.tracer.stage import Staged, stage
from tracejit.tracer.tracer import Tracer

__all__ = ["Apart", "apart"]


def _staged(function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], what: str) -> Staged:
    try:
        return stage(function, avals)
    except Restart as restart:
        around = recording()
        if around is not None and around.of_program:  # which starts again
            raise
        raise UnsupportedError(
            f"{what} has a loop or branch that cannot be traced where nothing is compiled ({restart}); take the "
            "derivative in a function that tj.jit compiles",
            location=raised_at(restart),
        ) from None


@frozen(eq=False)
class Apart:
    """A function that was traced apart: a jaxpr of its arguments and of what it read from outside, the `constants`.

    failure: whether it may fail when the program runs, which the last output tells then.
    """

    jaxpr: Jaxpr
    constants: tuple[Any, ...]
    failure: bool

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Its results; what fails in it fails here.   args: the arguments, and something for each constant."""
        results = evaluate_jaxpr(self.jaxpr, args)
        if self.failure:
            note_failure(results.pop())
        return results

    def run_as_rule(self, args: Sequence[Any]) -> list[Any]:
        """The same for a rule of a derivative: where that is linear, what fails in it fails below.

        Raises: UnsupportedError where tangents decide whether it fails.
        """
        results = evaluate_jaxpr(self.jaxpr, args)
        if self.failure:
            found, level = results.pop(), current_interpreter()
            while level.partial:
                if isinstance(found, Tracer) and found.interpreter is level:
                    raise UnsupportedError(
                        "a rule of a derivative takes an element at an index that depends on a tangent, or fails by "
                        "one in another way; let it depend on arguments alone",
                        location=user_location(),
                    )
                assert level.parent is not None
                level = level.parent
            with use_interpreter(level):
                note_failure(found)
        return results

    @property
    def pure(self) -> Jaxpr:
        """What it computes, whether it fails or not: for derivatives, as it has been computed before."""
        return Jaxpr(self.jaxpr.inputs, self.jaxpr.equations, self.jaxpr.outputs[:-1]) if self.failure else self.jaxpr


def apart(function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], what: str) -> Apart:
    """A function of the user's, traced apart from what is around it.  It may fail when the program runs.

    Raises: UnsupportedError where it changes something there, or has a loop that is to be traced once more.
    """
    staged = _staged(function, avals, what)
    if not staged.outer_cells:
        return Apart(staged.jaxpr, staged.constants, failure=False)
    failure = failure_cell()
    if any(cell is not failure for cell, _ in staged.outer_cells):
        raise UnsupportedError(f"{what} changes an array from outside; return the new value", location=user_location())
    jaxpr, constants = staged.jaxpr, staged.constants
    ((_, failed),) = staged.outer_cells
    outputs = (*jaxpr.outputs, failed)
    before = next((var for cell, var in staged.captured_cells if cell is failure), None)
    if before is None:
        return Apart(Jaxpr(jaxpr.inputs, jaxpr.equations, outputs), constants, failure=True)
    # What was wrong before it is no matter of the function's.
    given: dict[Any, Any] = {before: Literal(np.int64(0), before.aval)}
    at = jaxpr.inputs.index(before)
    first = len(jaxpr.inputs) - len(constants)
    return Apart(
        Jaxpr(
            jaxpr.inputs[:at] + jaxpr.inputs[at + 1 :],
            [evolve(e, inputs=tuple([given.get(a, a) for a in e.inputs])) for e in jaxpr.equations],
            [given.get(a, a) if isinstance(a, Var) else a for a in outputs],
        ),
        constants[: at - first] + constants[at - first + 1 :],
        failure=True,
    )
