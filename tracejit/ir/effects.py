"""What programs do to memory: which buffers a step reads and writes, and which arguments a whole program reads,
changes or takes over.
"""

from __future__ import annotations

from typing import Any, assert_never

from tracejit.ir.kernel import Buffer, Kernel, accesses_of, walk
from tracejit.ir.program import (
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Swap,
    WhileLoop,
    walk_steps,
)
from tracejit.support.nodes import frozen

__all__ = ["Effects", "donated_inputs", "effects_of", "kernel_effects", "step_effects"]


@frozen
class Effects:
    """What running a program does to its arguments; by number, or by name as `Lowered.effects` says it.

    reads: their elements matter.  writes: they hold other elements afterwards.  donated: their memory is a result's
    afterwards.
    """

    reads: frozenset[Any]
    writes: frozenset[Any]
    donated: frozenset[Any]


def kernel_effects(kernel: Kernel) -> tuple[set[Buffer], set[Buffer]]:
    """(the parameters a kernel reads, those it writes)"""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for s in walk(kernel.body):
        for access in accesses_of(s):
            if access.reads:
                reads.add(access.buffer)
            if access.writes:
                writes.add(access.buffer)
    parameters = set(kernel.buffers)
    return reads & parameters, writes & parameters


def step_effects(step: Step) -> tuple[set[ProgramBuffer], set[ProgramBuffer]]:
    """(the buffers one step reads, those it writes), without the steps inside of it; a swap does both to both."""
    match step:
        case Launch():
            reads, writes = kernel_effects(step.kernel)
            pairs = list(zip(step.kernel.buffers, step.arguments, strict=True))
            return {a for b, a in pairs if b in reads}, {a for b, a in pairs if b in writes}
        case Call():
            written = set(step.writes)
            return {a for a in step.buffers if a not in written}, written
        case Copy():
            return {step.source}, {step.target}
        case Swap():
            return {step.a, step.b}, {step.a, step.b}
        case WhileLoop() | Branch():
            return {step.flag}, set()
        case Check():
            return {step.failure}, set()
        case CountedLoop():
            return set(), set()
        case _:
            assert_never(step)


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
