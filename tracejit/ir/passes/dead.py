"""Statements of a kernel that compute what nothing reads."""

from __future__ import annotations

from tracejit.ir.kernel import Block, Kernel, Operand, Statement, is_pure, operands_of, results_of
from tracejit.ir.rewrite import map_blocks

__all__ = ["remove_dead"]


def remove_dead(kernel: Kernel) -> Kernel:
    """The kernel without statements that only define values which are not used."""
    return kernel.with_body(_live(kernel.body, set()))


def _live(body: Block, used: set[Operand]) -> Block:
    """The statements that are needed, seen from the last to the first; `used` collects what they read."""
    out: list[Statement] = []
    for s in reversed(body):
        if is_pure(s) and used.isdisjoint(results_of(s)):
            continue
        used.update(operands_of(s))
        out.append(map_blocks(s, lambda block: _live(block, used), last_first=True))
    return tuple(reversed(out))
