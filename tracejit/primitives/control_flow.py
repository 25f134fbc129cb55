"""What the primitives of loops and branches share: their bodies are jaxprs.

A body over scalars becomes part of one kernel: a loop of scalars runs in registers.  All others are loops of the
program around kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Count, Dim, Shape, greatest_extent, same_shape
from tracejit.ir.forms import Operand
from tracejit.ir.jaxpr import Jaxpr, bound_symbols, symbols_of
from tracejit.ir.kernel import index_const
from tracejit.ir.types import ShapedArray
from tracejit.primitives.creation import zeros_of
from tracejit.primitives.elementwise import convert
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice
from tracejit.support.errors import ShapeError, UnsupportedError
from tracejit.support.typing import ArrayLike, IndexLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.recorder import StageInterpreter
from tracejit.tracer.stage import stage
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import shape_of

__all__ = [
    "block_of",
    "counts_inside",
    "dependent_outputs",
    "described",
    "fixpoint",
    "has_any",
    "in_room",
    "is_differentiable",
    "is_linearizing",
    "placed",
    "room_of",
    "scalar_operands",
    "staged_body",
    "tangents_out",
    "to_flag",
]


def staged_body(function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], name: str) -> Jaxpr:
    """The jaxpr of a rule's function; rules capture nothing.

    Raises: UnsupportedError where a user's rule does.
    """
    result = stage(function, avals)
    if result.outer_cells:
        raise UnsupportedError(
            f"[{name}] the rule of a derivative (tj.custom_jvp, tj.custom_vjp) that is used in a loop or branch does "
            "what may fail when the program runs: it takes an element at an index of the program, or solves a system; "
            "clip the index (x.at[i].get()), or use tj.lax.linalg, which gives NaN"
        )
    if result.constants:
        raise UnsupportedError(
            f"[{name}] the rule of a derivative (tj.custom_jvp, tj.custom_vjp) that is used in a loop or branch reads "
            "an array from outside; pass it to the function as an argument"
        )
    return result.jaxpr


def is_differentiable(aval: ShapedArray) -> bool:
    """Whether values of this kind have tangents."""
    return aval.dtype.kind in "fc"


def is_linearizing(tangents: Sequence[ArrayLike]) -> bool:
    """Whether tangents are being recorded apart from primals (by linearize)."""
    return any(isinstance(t, Tracer) and t.interpreter.partial for t in tangents)


def counts_inside(jaxpr: Jaxpr) -> list[Count]:
    """The extents in a linear program that the body which is being traced computes, in order."""
    inner = current_interpreter()
    bound = bound_symbols(inner.equations) if isinstance(inner, StageInterpreter) else {}
    used = symbols_of(jaxpr)
    return [e.primitive.index for s, e in bound.items() if s in used]  # type: ignore[attr-defined]


def room_of(shape: Shape) -> Shape:
    """The greatest extents of a shape with symbols that a program binds."""
    return tuple([greatest_extent(n) for n in shape])


def has_any(shape: Shape, symbols: Sequence[str]) -> bool:
    """Whether one of these symbols is in a shape."""
    return any(isinstance(n, Dim) and not n.symbols().isdisjoint(symbols) for n in shape)


def in_room(x: ArrayLike) -> Result:
    """A value whose extents the program computes, at the beginning of one as large as the largest: it is handed out of
    a loop or branch.
    """
    room = room_of(shape_of(x))
    if same_shape(room, shape_of(x)):
        return x
    whole = zeros_of(aval_of_argument(x).strong().with_shape(room))
    return dynamic_update_slice(whole, x, [np.int64(0)] * len(room))


def block_of(x: ArrayLike, shape: Shape) -> Result:
    """So many elements from the beginning."""
    return x if same_shape(shape_of(x), shape) else dynamic_slice(x, [np.int64(0)] * len(shape), shape)


def described(aval: ShapedArray) -> str:
    """A Python number by the name of its type, an array by dtype and shape."""
    return f"a Python {_PYTHON_TYPES[aval.dtype.kind]}" if aval.weak and not aval.shape else str(aval)


_PYTHON_TYPES = {"b": "bool", "i": "int", "f": "float", "c": "complex"}


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


def dependent_outputs(
    body: Jaxpr, on: Sequence[bool], through: Callable[[ShapedArray], bool] | None = None
) -> list[bool]:
    """Which outputs of a body depend on the inputs that are `on`; with `through` by values of such kinds alone."""
    live = {v for v, is_on in zip(body.inputs, on, strict=True) if is_on}
    for e in body.equations:
        if any(a in live for a in e.inputs):
            live |= {v for v in e.outputs if through is None or through(v.aval)}
    return [a in live for a in body.outputs]


def tangents_out(body: Jaxpr, on: Sequence[bool]) -> list[bool]:
    """Which outputs of a body have tangents when these inputs have."""
    return dependent_outputs(body, on, is_differentiable)


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
