"""Donation: results that take over the memory of arguments which the caller gives up.

A result may lie where an argument lies if nothing reads the argument once the result is begun: the last step that
mentions the one comes before the first that mentions the other, or copies one to the other, or is a kernel that reads
each element just where it stores the new one.  The result's buffer is then replaced by the argument's in every step.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.extents import same_shape
from tracejit.ir.kernel import Access, Buffer, For, Kernel, Statement, Value, accesses_of, blocks, walk
from tracejit.ir.program import Copy, Launch, Program, ProgramBuffer, mentions, replace_in_step, walk_steps
from tracejit.ir.rewrite import replace_buffers
from tracejit.support.nodes import evolve

__all__ = ["donate"]


def donate(program: Program, donated: Sequence[int]) -> Program:
    """The program with results in the memory of the inputs `donated`, as many as can be."""
    for n in donated:
        argument = program.inputs[n]
        if argument.layout != "C" or not argument.shape:
            continue
        for result in program.outputs:
            if result.role == "output" and result.dtype == argument.dtype and same_shape(result.shape, argument.shape):
                changed = _merged(program, result, argument)
                if changed is not None:
                    program = changed
                    break
    return program


def _merged(program: Program, result: ProgramBuffer, argument: ProgramBuffer) -> Program | None:
    """The program with `argument` in the place of `result`; None where that would change what it computes."""
    used: dict[ProgramBuffer, list[int]] = {argument: [], result: []}
    for n, top in enumerate(program.steps):
        for step in walk_steps((top,)):
            for b in mentions(step):
                if b in used and (not used[b] or used[b][-1] != n):
                    used[b].append(n)
    last, first = max(used[argument], default=-1), min(used[result], default=len(program.steps))
    steps = list(program.steps)
    if last > first:
        return None
    if last == first:
        meeting = steps[last]
        match meeting:
            case Copy(target=target, source=source) if target is result and source is argument:
                del steps[last]
            case Launch():
                launch = _in_place(meeting, result, argument)
                if launch is None:
                    return None
                steps[last] = launch
            case _:
                return None
    outputs = tuple(argument if b is result else b for b in program.outputs)
    return evolve(program, steps=tuple(replace_in_step(s, {result: argument}) for s in steps), outputs=outputs)


def _in_place(launch: Launch, result: ProgramBuffer, argument: ProgramBuffer) -> Launch | None:
    """The launch with one parameter for both buffers; None where its kernel reads elements
    that it may have replaced.
    """
    kernel = launch.kernel
    pairs = list(zip(kernel.buffers, launch.arguments, strict=True))
    old = [b for b, a in pairs if a is argument]
    new = [b for b, a in pairs if a is result]
    if len(old) != 1 or len(new) != 1:
        return None
    (old_parameter,), (new_parameter,) = old, new
    if old_parameter.layout != "C" or not same_shape(old_parameter.shape, new_parameter.shape):
        return None
    if not _element_by_element(kernel, old_parameter, new_parameter):
        return None
    kept = [(b, a) for b, a in pairs if a is not result]
    body = replace_buffers(kernel.body, {new_parameter: old_parameter})
    outputs = (kernel.outputs - {new_parameter.name}) | {old_parameter.name}
    changed = evolve(kernel, buffers=tuple(b for b, _ in kept), outputs=outputs, body=body)
    return evolve(launch, kernel=changed, arguments=tuple(a for _, a in kept))


def _element_by_element(kernel: Kernel, old: Buffer, new: Buffer) -> bool:
    """Whether `new` is stored once, at an index that each iteration of the loops around has for itself,
    after all loads of that of `old`.

    Loops whose index is no part of it are parallel (their iterations store to different places, as no two may store to
    one).
    """
    stores: list[tuple[Access, tuple[For, ...]]] = []
    loads: list[Access] = []
    stack: list[tuple[Statement, tuple[For, ...]]] = [(s, ()) for s in reversed(kernel.body)]
    while stack:
        s, loops = stack.pop()
        for access in sorted(accesses_of(s), key=lambda a: a.writes):  # a statement reads before it writes
            if access.buffer is old and not access.writes and not stores:
                loads.append(access)
            elif access.buffer is new and not access.reads:
                stores.append((access, loops))
            elif access.buffer is old or access.buffer is new:
                return False
        if isinstance(s, For):
            stack += [(x, (*loops, s)) for x in reversed(s.body)]
        elif any(a.buffer in (old, new) for block in blocks(s) for x in walk(block) for a in accesses_of(x)):
            return False
    if len(stores) != 1:
        return False
    store, loops = stores[0]
    if store.index is None:
        return False
    values = [i for i in store.index if isinstance(i, Value)]
    if any(load.index != store.index for load in loads):
        return False
    return all(loop.index in values or loop.axis.kind == "parallel" for loop in loops)
