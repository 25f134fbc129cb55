"""Arguments that a function changes in place: what is checked before it runs,
and how the caller's arrays get the new values.

A program computes new values of changed arguments apart and copies them at its end, so an exception or Ctrl-C leaves
the arguments as they were.  That is what NumPy does except where a changed argument shares memory with another one
which the function reads (or changes) later: there the same array given twice is traced as one, and arrays that overlap
in part are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from tracejit.api.signature import ArrayLeaf, CallSignature, leaf_paths
from tracejit.ir.jaxpr import Jaxpr, Var
from tracejit.ir.program import Copy, Program
from tracejit.support.errors import InternalError, TracerError, WriteError
from tracejit.support.nodes import evolve, frozen
from tracejit.support.source import Location, user_location
from tracejit.tracer.stage import Staged

__all__ = ["Writeback", "refuse_impossible_writes", "with_copies", "writeback_of"]

# steps NumPy may take to find out whether two arrays share an element; beyond it they are taken to
_OVERLAP_WORK = 10_000


@frozen(eq=False)
class Writeback:
    """Which traced arguments a version changes.

    first: input of the jaxpr -> the equation that changes it first.
    last: input -> the last equation that reads it.
    """

    first: Mapping[int, int]
    last: Mapping[int, int]

    @property
    def written(self) -> tuple[int, ...]:
        return tuple(self.first)

    def _matters(self, position: int, other: int) -> bool:
        """Whether the function reads or changes the other input after it has changed this one."""
        return other in self.first or self.last.get(other, -1) >= self.first[position]

    def reads_captured(self, arguments: int) -> bool:
        """Whether the order matters for an input that is no argument: no native entry can see that it overlaps one."""
        captured = {n for n in (*self.last, *self.first) if n >= arguments}
        return any(self._matters(position, other) for other in captured for position in self.first if position != other)

    def aliases(
        self, arrays: Sequence[Any], captured: Sequence[Any], taken: Sequence[Any], name: Callable[[int], str]
    ) -> tuple[tuple[int, int], ...]:
        """Pairs (first, again) of `arrays`, the traced arguments, that are one array and must be traced as one:
        every place of such an array but the first stands as `again` once, beside the first.

        captured: arrays from outside that the program reads.
        taken: those whose elements became part of it; when the function reads them is not known.

        Raises: WriteError if an array cannot be written, or overlaps in part with one where the order matters.
        """
        first = list(range(len(arrays)))  # of each argument: the first one that is the same array
        for position in self.written:
            target = arrays[position]
            if not target.flags.writeable:
                raise WriteError(
                    f"the function changes {name(position)} in place, but that array is read-only; pass a copy "
                    "(x.copy()), or have the "
                    "function work on a copy and return it",
                    location=user_location(),
                )
            if _overlaps_itself(target):
                raise WriteError(
                    f"the function changes {name(position)} in place, but elements of that array share memory "
                    f"(strides {target.strides} "
                    f"for shape {target.shape}); pass a copy (x.copy())",
                    location=user_location(),
                )
        everything = [*arrays, *captured, *taken]
        inputs = len(arrays) + len(captured)
        for position, other in _near(everything, self.first):
            target, beside = everything[position], everything[other]
            if (other < inputs and not self._matters(position, other)) or not _share(target, beside):
                continue
            if other >= len(arrays) or not _same(target, beside):
                raise WriteError(
                    f"{name(position)} and {name(other)} overlap in memory, and the function changes one before it is "
                    "done with "
                    "the other; pass a copy of one of them (x.copy())",
                    location=user_location(),
                )
            one, least = {first[position], first[other]}, min(first[position], first[other])
            first = [least if n in one else n for n in first]
        return tuple((n, again) for again, n in enumerate(first) if n != again)


def writeback_of(staged: Staged) -> Writeback | None:
    """What a staged function does to its arguments; None if it changes none."""
    if not staged.written:
        return None
    changed = [position for position, _ in staged.written]
    return Writeback(dict(staged.written), _last_uses(staged.jaxpr, changed, staged.sites is not None))


def _near(arrays: Sequence[Any], changed: Container[int]) -> list[tuple[int, int]]:
    """Pairs (changed array, another) whose spans of memory meet, found by going through the spans in order."""
    spans = sorted((*_span(x), n) for n, x in enumerate(arrays) if isinstance(x, np.ndarray) and x.size)
    found: list[tuple[int, int]] = []
    begun: list[tuple[int, int]] = []  # (end, number) of those that may reach into the next
    for low, high, n in spans:
        begun = [(end, m) for end, m in begun if end > low]
        for _, m in begun:
            found += [(a, b) for a, b in ((n, m), (m, n)) if a in changed]
        begun.append((high, n))
    return sorted(found)


def _span(x: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first byte of an array that has elements, and the one after its last."""
    steps = [stride * (extent - 1) for stride, extent in zip(x.strides, x.shape, strict=True)]
    start = x.__array_interface__["data"][0]
    return start + sum(n for n in steps if n < 0), start + sum(n for n in steps if n > 0) + x.itemsize


def _last_uses(jaxpr: Jaxpr, changed: Sequence[int], checked: bool) -> dict[int, int]:
    """Input -> the last equation that reads it or a view of it; what loops and branches read counts as read at the end,
    and so does what is returned, or becomes the content of another input.

    Behind the results come the final values of the changed inputs, and if it is `checked` what failed.
    """
    origin: dict[Var, frozenset[int]] = {v: frozenset((n,)) for n, v in enumerate(jaxpr.inputs)}
    last: dict[int, int] = {}
    end = len(jaxpr.equations)
    for k, e in enumerate(jaxpr.equations):
        sources = [origin.get(a, frozenset[int]()) if isinstance(a, Var) else frozenset[int]() for a in e.inputs]
        when = end if e.primitive.runs_jaxprs else k
        for n in frozenset[int]().union(*sources):
            last[n] = max(when, last.get(n, -1))
        if e.primitive.gives_view and sources[0]:
            origin[e.outputs[0]] = sources[0]
    outputs = jaxpr.outputs[:-1] if checked else jaxpr.outputs
    owners = [*[None] * (len(outputs) - len(changed)), *changed]
    for a, owner in zip(outputs, owners, strict=True):
        for n in origin.get(a, ()) if isinstance(a, Var) else ():
            if n != owner:
                last[n] = end
    return last


def _share(a: Any, b: Any) -> bool:
    if not isinstance(b, np.ndarray) or not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # pyright: ignore[reportArgumentType]  (the stubs know two values only)
    except np.exceptions.TooHardError:
        return True


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return (
        a.__array_interface__["data"] == b.__array_interface__["data"]
        and a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def _overlaps_itself(a: np.ndarray[Any, Any]) -> bool:
    """Whether elements may share memory: along axes from the smallest stride on,
    one step must reach past all before.
    """
    reach = a.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if stride < reach:
            return a.size > 0
        reach = stride * (n - 1) + reach
    return False


def refuse_impossible_writes(signature: CallSignature, staged: Staged, name: str, allowed: bool) -> None:
    """Raises WriteError or TracerError where an argument is changed that cannot be:
    a number, a tj.Array, any at all unless `allowed`.
    """
    traced, paths = signature.traced(), leaf_paths(signature.tree) if staged.written else []
    for position, first in staged.written:
        leaf, path = signature.leaves[traced[position]], paths[traced[position]]
        where = _line_of_write(staged.jaxpr, first)
        if not allowed:
            raise WriteError(
                f"{name} changes its argument {path} in place, which writeback=False refuses; copy it first (x = "
                "x.copy())",
                location=where,
            )
        if not isinstance(leaf, ArrayLeaf) or (leaf.scalar and not leaf.wrapped):
            raise TracerError(
                f"{name} changes its argument {path} in place, which is a number and no array; pass np.array(x)",
                location=where,
            )
        if leaf.wrapped:
            raise WriteError(
                f"{name} changes its argument {path} in place, which is a tj.Array and never changes; use x = "
                "x.at[i].set(v) and return x, "
                "or pass np.array(x)",
                location=where,
            )


def _line_of_write(jaxpr: Jaxpr, first: int) -> Location | None:
    equations = jaxpr.equations[max(0, first - 1) : first]
    return equations[0].location if equations and equations[0].location is not None else user_location()


def with_copies(program: Program, written: Sequence[int]) -> Program | None:
    """The program with its last outputs, new values of the inputs `written`, copied there at the end;
    None if one is not contiguous.
    """
    targets = [program.inputs[n] for n in written]
    if any(b.layout != "C" for b in targets):
        return None
    split = len(program.outputs) - len(written)
    kept, fresh = program.outputs[:split], program.outputs[split:]
    if any(b.role != "output" for b in fresh):
        raise InternalError(f"new values of arguments are outputs, not {[b.role for b in fresh]}")
    copies = tuple(Copy(t, s) for t, s in zip(targets, fresh, strict=True))
    return evolve(program, outputs=kept, temporaries=(*program.temporaries, *fresh), steps=(*program.steps, *copies))
