"""What the primitives of loops and branches share: their bodies are jaxprs.

A body over scalars becomes part of one kernel: a loop of scalars runs in registers.  All others are loops of the
program around kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Extent
from tracejit.ir.forms import Operand
from tracejit.ir.jaxpr import Jaxpr
from tracejit.ir.kernel import index_const
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import full
from tracejit.primitives.elementwise import convert
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.errors import ShapeError
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.batch import move_to_front
from tracejit.tracer.stage import aval_of_argument, stage
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import shape_of

__all__ = [
    "described",
    "fixpoint",
    "is_differentiable",
    "is_linearizing",
    "placed",
    "scalar_operands",
    "spread",
    "staged_body",
    "tangents_out",
    "to_flag",
    "zero_tangent",
    "zeros_of",
]


def staged_body(function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str) -> Jaxpr:
    """The jaxpr of a rule's function; rules capture nothing."""
    result = stage(function, avals)
    if result.constants:
        raise AssertionError(f"[{name}] a rule captured a value")
    return result.jaxpr


def is_differentiable(aval: ShapedArray) -> bool:
    """Whether values of this kind have tangents."""
    return aval.dtype.kind == "f"


def is_linearizing(tangents: Sequence[ArrayLike]) -> bool:
    """Whether tangents are being recorded apart from primals (by linearize)."""
    return any(isinstance(t, Tracer) and t.interpreter.partial for t in tangents)


def described(aval: ShapedArray) -> str:
    """A Python number by the name of its type, an array by dtype and shape."""
    return f"a Python {_PYTHON_TYPES[aval.dtype.kind]}" if aval.weak and not aval.shape else str(aval)


_PYTHON_TYPES = {"b": "bool", "i": "int", "f": "float"}


def zeros_of(aval: ShapedArray) -> Result:
    """Zeros of a shape and dtype."""
    return full(aval.shape, aval.dtype.type(0))


def zero_tangent(x: ArrayLike) -> Result:
    """The tangent of what does not vary."""
    return zeros_of(aval_of_argument(x))


def spread(x: ArrayLike, axis: int | None, size: Extent) -> Result:
    """An operand with its mapped axis first; one that is not mapped is repeated along a new one."""
    if axis is not None:
        return move_to_front(x, axis)
    shape = shape_of(x)
    return broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))


def scalar_operands(
    operands: Sequence[Operand], avals: Sequence[ShapedArray], mapped: Sequence[bool], index: Sequence[IndexLike]
) -> list[Result]:
    """Operands as scalar arguments for one element of the domain:
    scalars read at it, arrays as functions that read them.
    """
    out: list[Any] = []
    for x, aval, m in zip(operands, avals, mapped, strict=True):
        at = tuple(index) if m else ()
        if not aval.shape:
            out.append(x[at])
        elif all(isinstance(n, int) and n == 1 for n in aval.shape):
            out.append(x[(*at, *[index_const(0)] * len(aval.shape))])
        else:
            out.append(lambda inner, x=x, at=at: x[(*at, *inner)])
    return out


def fixpoint(start: list[bool], step: Callable[[list[bool]], list[bool]]) -> list[bool]:
    """The least superset of `start` that an iteration maps into itself."""
    on = start
    while True:
        more = [a or b for a, b in zip(on, step(on), strict=True)]
        if more == on:
            return on
        on = more


def tangents_out(body: Jaxpr, const_on: Sequence[bool], carry_on: Sequence[bool], skip: int) -> list[bool]:
    """Which outputs of a body have tangents when these inputs have: by dependence through floating-point values."""
    live = {v for v, on in zip(body.inputs[: len(const_on)], const_on, strict=True) if on}
    live |= {v for v, on in zip(body.inputs[len(const_on) + skip :], carry_on, strict=False) if on}
    for e in body.equations:
        if any(a in live for a in e.inputs):
            live |= {v for v in e.outputs if is_differentiable(v.aval)}
    return [a in live for a in body.outputs]


def placed(given: Sequence[ArrayLike], on: Sequence[bool]) -> list[Result]:
    """The given tangents at the places that have some, None at the others."""
    it = iter(given)
    return [next(it) if f else None for f in on]


def to_flag(x: ArrayLike) -> Result:
    """A condition as a bool scalar."""
    aval = aval_of_argument(x)
    if aval.shape:
        raise ShapeError(
            f"a condition is {aval}, not a scalar; use np.where for elementwise choice, or reduce it with .all() or "
            ".any()"
        )
    return x if aval.dtype == np.bool_ else convert(x, np.bool_)
