"""Statements of a kernel that compute what nothing reads."""

from __future__ import annotations

from tracejit.ir.kernel import (
    Block,
    For,
    If,
    Kernel,
    Load,
    Op,
    Operand,
    Statement,
    While,
    operands_of,
)
from tracejit.support.nodes import evolve

__all__ = ["remove_dead"]


def remove_dead(kernel: Kernel) -> Kernel:
    """The kernel without scalar operations and loads whose results are not used."""
    return kernel.with_body(_live(kernel.body, set()))


def _live(body: Block, used: set[Operand]) -> Block:
    """The statements that are needed, seen from the last to the first; `used` collects what they read."""
    out: list[Statement] = []
    for s in reversed(body):
        if isinstance(s, (Op, Load)) and s.out not in used:
            continue
        used.update(operands_of(s))
        match s:
            case For():
                s = evolve(s, body=_live(s.body, used))
            case If():
                s = evolve(s, then=_live(s.then, used), orelse=_live(s.orelse, used))
            case While():
                inside = _live(s.body, used)
                s = evolve(s, condition=_live(s.condition, used), body=inside)
            case _:
                pass
        out.append(s)
    return tuple(reversed(out))
