"""Which arguments a program reads, changes or takes over.  (What its steps do to memory: `ir.program`.)"""

from __future__ import annotations

from typing import Any

from tracejit.ir.program import Program, ProgramBuffer, step_effects, walk_steps
from tracejit.support.nodes import frozen

__all__ = ["Effects", "donated_inputs", "effects_of"]


@frozen
class Effects:
    """What running a program does to its arguments; by number, or by name as `Lowered.effects` says it.

    reads: their elements matter.  writes: they hold other elements afterwards.  donated: their memory is a result's
    afterwards.
    """

    reads: frozenset[Any]
    writes: frozenset[Any]
    donated: frozenset[Any]


def donated_inputs(program: Program) -> list[int]:
    """The inputs in whose memory results lie."""
    return [n for n, b in enumerate(program.inputs) if b in program.outputs]


def effects_of(program: Program) -> Effects:
    """The effects of a program on its inputs, by number."""
    reads: set[ProgramBuffer] = set()
    writes: set[ProgramBuffer] = set()
    for step in walk_steps(program.steps):
        read, written = step_effects(step)
        reads |= read
        writes |= written

    def numbers(buffers: set[ProgramBuffer]) -> frozenset[int]:
        return frozenset(n for n, b in enumerate(program.inputs) if b in buffers)

    return Effects(numbers(reads), numbers(writes), frozenset(donated_inputs(program)))
