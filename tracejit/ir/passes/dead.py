"""Statements of a kernel that compute what nothing reads."""

from __future__ import annotations

from tracejit.ir.kernel import Block, If, Kernel, Operand, Statement, is_pure, operands_of, results_of
from tracejit.ir.rewrite import map_blocks
from tracejit.support.nodes import evolve

__all__ = ["remove_dead"]


def remove_dead(kernel: Kernel) -> Kernel:
    """The kernel without statements that only define values which nothing uses, and such results of branches."""
    return kernel.with_body(_live(kernel.body, set()))


def _live(body: Block, used: set[Operand]) -> Block:
    """The statements that are needed, seen from the last to the first; `used` collects what they read."""
    out: list[Statement] = []
    for s in reversed(body):
        if is_pure(s) and used.isdisjoint(results_of(s)):
            continue
        if isinstance(s, If) and not used.issuperset(s.results):
            s = _wanted(s, used)
        used.update(operands_of(s))
        out.append(map_blocks(s, lambda block: _live(block, used), last_first=True))
    return tuple(reversed(out))


def _wanted(s: If, used: set[Operand]) -> If:
    """A branch with those results that are used."""
    kept = [n for n, r in enumerate(s.results) if r in used]
    results, then, otherwise = (tuple([have[n] for n in kept]) for have in (s.results, s.then_yields, s.else_yields))
    return evolve(s, results=results, then_yields=then, else_yields=otherwise)
