"""Loops in formulae: functions whose series and fractions end where the argument says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracejit.ir.math.term import Term

__all__ = ["repeat", "unit"]


def unit(x: Term) -> float:
    """The distance of 1 from the next number."""
    return 2.0**-x.format.fraction


def repeat(
    state: Sequence[Term], test: Callable[..., Term], body: Callable[..., Sequence[Term]], most: int
) -> list[Term]:
    """`while test(*state): state = body(*state)`, at most `most` times.

    A builder of expansions has `while_loop` where they are no straight lines.
    """
    b: Any = state[0].b
    count = state[0].const(0.0)

    def terms(operands: Sequence[Any]) -> list[Term]:
        return [Term(b, x) for x in operands]

    def going(operands: Sequence[Any]) -> Any:
        *values, n = terms(operands)
        return (test(*values) & (n < float(most))).operand

    def step(operands: Sequence[Any]) -> list[Any]:
        *values, n = terms(operands)
        return [x.operand for x in (*body(*values), n + 1.0)]

    return terms(b.while_loop([x.operand for x in (*state, count)], going, step))[:-1]
