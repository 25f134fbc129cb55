"""Transposing linear programs, and the helpers that transpose rules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.ir.extents import Shape
from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import TracejitError
from tracejit.support.source import located
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import PRIMITIVES

__all__ = ["UndefinedPrimal", "backward_pass", "shape_of", "sum_to"]


class UndefinedPrimal:
    """A linear argument of a transpose rule: only its abstract value is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval


def shape_of(x: Any) -> Shape:
    """The shape of a tracer, array or number."""
    return aval_of_argument(x).shape


def sum_to(ct: Any, aval: ShapedArray) -> Any:
    """The cotangent of an operand of rank 0 that was spread over the result: the sum."""
    shape = shape_of(ct)
    if shape == aval.shape or aval.shape:
        return ct
    return PRIMITIVES.reduce_sum(ct, tuple(range(len(shape))))


def backward_pass(jaxpr: Jaxpr, residuals: Sequence[Any], cotangents: Sequence[Any], linear: int) -> list[Any]:
    """Cotangents of the first `linear` inputs of a linear program, given those of its outputs.

    The inputs after the first `linear` are residuals: known values the linear equations refer to.  Equations on known
    values only are evaluated first.  A cotangent of None is zero.
    """
    known, equations = _evaluate_known(
        jaxpr, dict(zip(jaxpr.inputs[linear:], residuals, strict=True)), set(jaxpr.inputs[:linear])
    )
    totals: dict[Var, Any] = {}

    def accumulate(atom: Any, ct: Any) -> None:
        if ct is None or isinstance(atom, Literal) or atom in known:
            return
        have = totals.get(atom)
        totals[atom] = ct if have is None else PRIMITIVES.add(have, ct)

    for atom, ct in zip(jaxpr.outputs, cotangents, strict=True):
        accumulate(atom, ct)
    for equation in reversed(equations):
        cts = [totals.pop(v, None) for v in equation.outputs]
        if all(c is None for c in cts):
            continue
        args = [_operand(a, known) for a in equation.inputs]
        with located(equation.location):
            parts = _transposed(equation, cts, args)
            for atom, arg, part in zip(equation.inputs, args, parts, strict=True):
                if isinstance(arg, UndefinedPrimal):
                    accumulate(atom, part)
    return [totals.get(v) for v in jaxpr.inputs[:linear]]


def _transposed(equation: Equation, cts: Sequence[Any], args: Sequence[Any]) -> Sequence[Any]:
    try:
        return equation.primitive.transpose(cts if equation.primitive.multiple_results else cts[0], *args)
    except TracejitError as error:
        error.at(equation.location)
        raise


def _operand(atom: Atom, known: dict[Var, Any]) -> Any:
    if isinstance(atom, Literal):
        return atom.value
    return known[atom] if atom in known else UndefinedPrimal(atom.aval)


def _evaluate_known(jaxpr: Jaxpr, known: dict[Var, Any], unknown: set[Var]) -> tuple[dict[Var, Any], list[Equation]]:
    """The known values with those that follow from them, and the equations that are left."""
    left: list[Equation] = []
    for equation in jaxpr.equations:
        if any(a in unknown for a in equation.inputs):
            unknown.update(equation.outputs)
            left.append(equation)
            continue
        with located(equation.location):
            out = bind(equation.primitive, *[_operand(a, known) for a in equation.inputs])
        known.update(zip(equation.outputs, out if equation.primitive.multiple_results else (out,), strict=True))
    return known, left
