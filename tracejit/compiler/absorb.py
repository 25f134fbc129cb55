"""Loops of a program that become kernels: `for` and `while` over small kernels, nests of them and branches included.

What is launched in such a loop is written into one kernel, whose loops are those of the program: scalars that lay in
memory between launches are values there, carried from one iteration to the next, and arrays stay where they are.  The
order of everything stays, so nothing has to be proven.  Without this an iteration costs launches, and nothing stays in
a register from one to the next.

A launch takes part if its kernel runs on one thread and is no matrix product; where the target has no vectors (a grid
is a device with many threads) also if its own loops are short.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from tracejit.compiler.loop_kernels import Unsuitable, Writer, is_scalar, is_short, mentioned
from tracejit.ir.extents import Dim, Extent, prod
from tracejit.ir.kernel import (
    SERIAL,
    Alloc,
    Atomic,
    Const,
    For,
    If,
    Kernel,
    Load,
    Op,
    Store,
    While,
    accesses_of,
    walk,
)
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.passes.forward import without_copies
from tracejit.ir.passes.inductions import fold_inductions
from tracejit.ir.passes.rare import failures_in_branches
from tracejit.ir.program import (
    BindExtent,
    Branch,
    Copy,
    CountedLoop,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Steps,
    Swap,
    WhileLoop,
    walk_steps,
)
from tracejit.ir.schedule import Schedule, apply, name_loops
from tracejit.support.nodes import evolve

__all__ = ["absorb"]

MOST_STATEMENTS = 1_500
MOST_VECTOR_LOOPS = 6
"""Where an iteration does more, launches are not what it costs, and one large function is slow to make."""
_COPIED = 1 << 12
_ALONE = frozenset({"serial", "vector", "unroll"})
_TAKEN = (Op, Load, Store, Alloc, Atomic, For, While, If)
Made = Callable[[Kernel, Iterable[Kernel]], None]


def absorb(
    program: Program, *, vectors: bool, made: Made, pick: Callable[[Kernel], Schedule], launched: bool = False
) -> Program:
    """The program with the loops that can be kernels as launches of these.

    vectors: whether the target has them.  launched: each kernel is launched from Python, which takes as long as to copy
    some thousand elements.  made: told of each new kernel, and of those that it is made of.
    """
    if not any(isinstance(s, CountedLoop | WhileLoop) for s in walk_steps(program.steps)):
        return program
    passing = _Pass(program, vectors, launched, made, pick)
    steps = passing.block(program.steps)
    return program if steps is program.steps else evolve(program, steps=steps)


class _Pass:
    def __init__(
        self, program: Program, vectors: bool, launched: bool, made: Made, pick: Callable[[Kernel], Schedule]
    ) -> None:
        self.vectors = vectors
        self.launched = launched
        self.made = made
        self.pick = pick
        self.numbers = itertools.count()
        self.kept = {*program.inputs, *program.outputs}
        self.all = mentioned(program.steps)
        self.suits: dict[int, bool] = {}

    def block(self, steps: Steps) -> Steps:
        """The steps with loops replaced; the same tuple if none is.  What sets a loop's numbers comes along."""
        out: list[Step] = []
        for s in steps:
            if isinstance(s, CountedLoop | WhileLoop) and self.fits(s):
                first = len(out)
                while first and self.sets_numbers(out[first - 1]):
                    first -= 1
                launch = self.launch((*out[first:], s))
                if launch is not None:
                    out[first:] = [launch]
                    continue
            out.append(self.step(s))
        changed = len(out) != len(steps) or any(a is not b for a, b in zip(out, steps, strict=True))
        return tuple(out) if changed else steps

    def sets_numbers(self, s: Step) -> bool:
        """Whether a step does nothing but change numbers by numbers."""
        match s:
            case Launch():
                return self.suitable(s) and all(is_scalar(b) for b in s.arguments)
            case Copy():
                return is_scalar(s.target)
            case _:
                return False

    def step(self, s: Step) -> Step:
        match s:
            case CountedLoop():
                body = self.block(s.body)
                return s if body is s.body else evolve(s, body=body)
            case WhileLoop():
                condition, body = self.block(s.condition), self.block(s.body)
                return s if condition is s.condition and body is s.body else evolve(s, condition=condition, body=body)
            case Branch():
                then, orelse = self.block(s.then), self.block(s.orelse)
                return s if then is s.then and orelse is s.orelse else evolve(s, then=then, orelse=orelse)
            case _:
                return s

    def fits(self, loop: Step) -> bool:
        """Whether all steps inside can be statements of one kernel."""
        size = vectors = 0
        for s in walk_steps((loop,)):
            match s:
                case CountedLoop() | WhileLoop() | Branch() | BindExtent():
                    pass
                case Launch():
                    if not self.suitable(s):
                        return False
                    size += sum(1 for _ in walk(s.kernel.body))
                    vectors += sum(isinstance(x, For) and x.axis.kind == "vector" for x in walk(s.kernel.body))
                case Copy(target=a) | Swap(a=a):
                    count = prod(a.shape)
                    if not (is_scalar(a) or is_short(count) or (self.may_copy(count) and a.layout == "C")):
                        return False
                    size += 4
                case _:
                    return False
            if size > MOST_STATEMENTS or vectors > MOST_VECTOR_LOOPS:
                return False
        return True

    def may_copy(self, count: Extent) -> bool:
        """Whether so many elements are copied sooner than a kernel is launched."""
        return self.vectors and self.launched and isinstance(count, int) and count <= _COPIED

    def suitable(self, s: Launch) -> bool:
        known = self.suits.get(id(s.kernel))
        if known is None:
            known = self.suits[id(s.kernel)] = s.product is None and self.is_small(s.kernel)
        return known

    def is_small(self, kernel: Kernel) -> bool:
        if kernel.product is not None:
            return False
        scalars = {b for b in kernel.buffers if is_scalar(b)}
        for s in walk(kernel.body):
            if not isinstance(s, _TAKEN):
                return False
            match s:
                case For():
                    if s.axis.kind not in _ALONE:
                        return False
                    if not self.vectors and not (isinstance(s.upper, Const) and is_short(s.upper.value)):
                        return False
                    ordered = s.combine is None and s.axis.kind == "serial"
                    if not ordered and any(
                        a.writes and a.buffer in scalars for x in walk(s.body) for a in accesses_of(x)
                    ):
                        return False
                case Atomic():
                    if s.buffer in scalars:
                        return False
                case Alloc():
                    if any(isinstance(n, Dim) for n in s.buffer.shape):
                        return False
                case _:
                    pass
        return True

    def launch(self, steps: Steps) -> Launch | None:
        """Steps as a kernel."""
        inside = mentioned(steps)
        seen = {b for b in inside if b in self.kept or inside[b] < self.all[b]}
        writer = Writer(steps, seen)
        try:
            kernel, arguments = writer.kernel(f"loop_{next(self.numbers)}")
        except Unsuitable:
            return None
        own = [p for p, b in zip(kernel.buffers, arguments, strict=True) if b not in seen]
        kernel = remove_dead(without_copies(failures_in_branches(fold_inductions(kernel)), own))
        kernel, arguments = _on_what_it_uses(kernel, arguments)
        schedule = _of_plain_nests(self.pick(kernel), kernel)
        kernel = apply(kernel, schedule)
        self.made(kernel, [s.kernel for s in walk_steps(steps) if isinstance(s, Launch)])
        return Launch(kernel, arguments, schedule)


def _on_what_it_uses(kernel: Kernel, arguments: tuple[ProgramBuffer, ...]) -> tuple[Kernel, tuple[ProgramBuffer, ...]]:
    """A kernel without the parameters that it does not touch, and what it is launched on then."""
    used = {a.buffer for s in walk(kernel.body) for a in accesses_of(s)}
    kept = [(p, b) for p, b in zip(kernel.buffers, arguments, strict=True) if p in used]
    buffers = tuple([p for p, _ in kept])
    outputs = kernel.outputs & {p.name for p in buffers}
    return evolve(kernel, buffers=buffers, outputs=outputs), tuple([b for _, b in kept])


def _of_plain_nests(schedule: Schedule, kernel: Kernel) -> Schedule:
    """A schedule without what it says of nests in which loops of kernels that came along have their axes already."""
    names = name_loops(kernel.body)
    taken = {
        names[inner.index]
        for nest in kernel.body
        if any(isinstance(s, For) and s.axis != SERIAL for s in walk((nest,)))
        for inner in walk((nest,))
        if isinstance(inner, For)
    }
    kept = [d for d in schedule.directives if getattr(d, "loop", "").split(".")[0] not in taken]
    return Schedule(tuple(kept))
