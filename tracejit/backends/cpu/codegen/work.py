"""How much a program does: its scalar operations, as far as constants and extents tell."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from tracejit.backends.cpu.codegen.polls import Lengths
from tracejit.ir.extents import Dim, Extent, evaluate
from tracejit.ir.kernel import Block, Const, For, Kernel, Op, While, blocks, walk
from tracejit.ir.program import BindExtent, CountedLoop, Launch, Program, Steps, WhileLoop, nested, walk_steps
from tracejit.ir.scalar import OPS
from tracejit.support.nodes import frozen

__all__ = ["is_scalar_code", "work"]

_SHORT = 16  # iterations
_MATH = 16  # operations that an elementary function stands for


def work(program: Program, dims: Mapping[str, int]) -> float:
    """The scalar operations of one run with these extents, at most; infinite if a loop runs as long as its data say."""
    return _steps(program.steps, dims)


def is_scalar_code(program: Program) -> bool:
    """Whether it has a kernel that goes over numbers one by one: LLVM's optimiser does much for that.  What is made for
    vectors is written in its final form.
    """
    return any(isinstance(s, Launch) and _goes_one_by_one(s.kernel) for s in walk_steps(program.steps))


def _goes_one_by_one(kernel: Kernel) -> bool:
    found = False
    for s in kernel.body:
        if isinstance(s, While):
            found = True
        elif isinstance(s, For) and s.axis.kind == "serial" and s.combine is None:
            found = found or not isinstance(s.upper, Const) or isinstance(s.upper.value, Dim) or s.upper.value > _SHORT
    return found and not any(isinstance(s, For) and s.axis.kind in ("vector", "parallel") for s in walk(kernel.body))


def _steps(steps: Steps, dims: Mapping[str, int]) -> float:
    total = 0.0
    for s in steps:
        match s:
            case BindExtent():
                dims = {**dims, s.index: _number(s.most, dims)}
            case Launch():
                total += _Kernel(Lengths(s.kernel.body), dims).block(s.kernel.body)
            case WhileLoop():
                return inf
            case CountedLoop():
                times = _number(s.count, dims)
                inside = dims if s.index == "_" else {**dims, s.index: max(0, times - 1) // 2}  # as it is on average
                total += times * _steps(s.body, inside)
            case _:  # branches count whole; copies and calls of libraries are what they are
                total += sum([_steps(block, dims) for block in nested(s)])
    return total


def _number(n: Extent, dims: Mapping[str, int]) -> int:
    return max(0, evaluate(n, dims))


@frozen(eq=False)
class _Kernel:
    lengths: Lengths
    dims: Mapping[str, int]

    def block(self, body: Block) -> float:
        total = 0.0
        for s in body:
            match s:
                case For():
                    trips = self.lengths.trips(s)
                    if trips is None:
                        return inf
                    total += _number(trips, self.dims) * self.block(s.body)
                case While():
                    return inf
                case Op() if OPS[s.op].math:
                    total += _MATH
                case _:
                    total += 1 + sum([self.block(block) for block in blocks(s)])
        return total
