"""Equations after lowering, the groups that become kernels, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.extents import Extent, Shape, prod
from tracejit.ir.forms import FanOut, Form, Map, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.jaxpr import Atom, Var
from tracejit.ir.kernel import (
    For,
    Op,
    Statement,
    While,
    blocks,
)
from tracejit.ir.scalar import OPS
from tracejit.support.nodes import field, frozen
from tracejit.support.source import Location

__all__ = [
    "FormEquation",
    "Group",
    "MANY",
    "WRITE_OUT",
    "WRITE_OUT_COLUMNS",
    "form_cost",
    "statement_count",
    "is_few_columns",
    "is_written_out",
    "same_space",
]


WRITE_OUT = 8  # reductions over so few elements become straight lines
WRITE_OUT_COLUMNS = 4  # so many last columns of a result that reductions feed are computed side by side
MANY = 80  # operations of a group from which on nothing is written out


@frozen(eq=False)
class FormEquation:
    """One equation after lowering."""

    form: Form
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...]
    name: str
    location: Location | None = None


@frozen(eq=False)
class Group:
    """Equations that become one kernel; `outputs` are stored, everything from outside is read from `inputs`.

    `in_place` maps an output to the input whose memory it takes over (the base of an update).
    """

    equations: tuple[FormEquation, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    in_place: dict[Var, Var] = field(factory=dict)


def statement_count(form: Form) -> int:
    """How many statements the bodies of a form have."""
    match form:
        case Map() | Reduce() | Scan() | Update() | Scatter() | FanOut():
            return len(form.body.body)
        case Piecewise():
            return sum(len(p.body.body) for p in form.pieces)
        case _:
            return 0


def is_few_columns(shape: Sequence[Extent]) -> bool:
    """Whether a last axis is so short that a group with reductions computes it side by side (if it has at most MANY
    operations).
    """
    return len(shape) > 1 and isinstance(shape[-1], int) and 1 < shape[-1] <= WRITE_OUT_COLUMNS


def is_written_out(form: Form) -> bool:
    """Whether a reduction is over so few elements that it becomes a straight line (in a group of at most MANY
    operations).
    """
    size = prod(form.over) if isinstance(form, Reduce) else 0
    return isinstance(size, int) and 0 < size <= WRITE_OUT


def same_space(a: Shape, b: Shape) -> bool:
    """Whether two iteration spaces are one; symbolic extents as they are written."""
    return len(a) == len(b) and all(
        (x == y) if isinstance(x, int) and isinstance(y, int) else (not isinstance(x, int) and x.same(y))
        for x, y in zip(a, b, strict=True)
    )


def form_cost(form: Form) -> float:
    """Cost of one result element in vector adds, operands given."""

    def cost(statements: Sequence[Statement]) -> float:
        total = 0.0
        for s in statements:
            if type(s) is Op:
                total += OPS[s.op].cost
            else:
                nested = sum([cost(block) for block in blocks(s)])
                total += 20 * nested if isinstance(s, (For, While)) else nested
        return total

    match form:
        case Map():
            return cost(form.body.body)
        case Piecewise():
            return max((cost(p.body.body) for p in form.pieces), default=0.0) + 2 * len(form.pieces)
        case _:
            return 1000.0
