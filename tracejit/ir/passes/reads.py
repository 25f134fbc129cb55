"""How forms read their operands: at which indices, in which loops.  What fusion decides by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tracejit.ir.extents import Extent, Shape
from tracejit.ir.forms import FanOut, Form, Map, Piecewise, Reduce, Scan, Scatter, Update
from tracejit.ir.kernel import Const, If, Lambda, Op, Operand, Read, Value, blocks, operands_of, results_of, walk
from tracejit.ir.passes.groups import form_cost
from tracejit.support.nodes import define, frozen

__all__ = ["Access", "Affine", "FormShape", "Place", "Position", "describe", "reads_own_base"]

Affine: TypeAlias = "tuple[int | None, int, Extent]"  # (index parameter, None for a constant; factor; offset)
# (loop of a group or of a member, None for a constant; ...)
Position: TypeAlias = "tuple[int | tuple[int, int] | None, int, Extent]"
Place: TypeAlias = "tuple[Position | tuple[int, int] | int, ...]"  # where an element is read, in the loops of its group


@frozen
class Access:
    """How a form reads an operand once: for each axis of the operand the form's index parameters it depends on;
    None: on data.

    at: each index as a parameter, a factor and an offset; None where it is not of that kind.
    """

    axes: tuple[frozenset[int] | None, ...]
    at: tuple[Affine | None, ...]
    own: bool = False  # at the form's own index


def add_accesses(lam: Lambda, into: dict[int, list[Access]]) -> None:
    """Add the reads of a lambda to `into`, by operand number."""
    depends: dict[Value, frozenset[int] | None] = {p: frozenset({n}) for n, p in enumerate(lam.params)}
    affine: dict[Operand, Affine] = {p: (n, 1, 0) for n, p in enumerate(lam.params)}

    def of(operands: Sequence[Operand]) -> frozenset[int] | None:
        out: frozenset[int] = frozenset()
        for a in operands:
            if isinstance(a, Value):
                d = depends.get(a)
                if d is None:
                    return None
                out |= d
        return out

    for s in walk(lam.body):
        if isinstance(s, Read):
            at = tuple((None, 0, a.value) if isinstance(a, Const) else affine.get(a) for a in s.index)
            own = len(at) == len(lam.params) and all(a is p for a, p in zip(s.index, lam.params, strict=True))
            into.setdefault(s.operand, []).append(Access(tuple(of((a,)) for a in s.index), at, own))
            depends[s.out] = None
        elif isinstance(s, Op):
            depends[s.out] = of(s.args)
            moved = _moved(s, affine)
            if moved is not None:
                affine[s.out] = moved
        else:
            for v in results_of(s):
                depends[v] = None if blocks(s) else of(operands_of(s))


def _moved(s: Op, affine: dict[Operand, Affine]) -> Affine | None:
    """The result of an index plus, minus or times a constant; None for anything else."""
    if s.op not in ("add", "sub", "mul") or s.out.dtype != "i64":
        return None
    a, b = s.args
    if isinstance(a, Const):
        if s.op == "sub":
            loop, factor, offset = affine.get(b, (None, 0, None))
            return None if offset is None else (loop, -factor, a.value - offset)
        a, b = b, a
    if not isinstance(b, Const) or a not in affine:
        return None
    loop, factor, offset = affine[a]
    if s.op == "mul":
        return (loop, factor * b.value, offset * b.value) if isinstance(b.value, int) else None
    return loop, factor, (offset + b.value if s.op == "add" else offset - b.value)


@define(eq=False)
class FormShape:
    """What fusion needs to know of one form, computed once."""

    space: Shape  # loop extents of one evaluation of all results, outermost first
    domain: Shape
    reads: dict[int, list[Access]]
    cost: float
    operations: int
    branches: bool  # whether operands are read inside of branches, out of which nothing is hoisted


def describe(form: Form) -> FormShape:
    """The loops and the reads of a form."""
    reads: dict[int, list[Access]] = {}
    bodies: list[Lambda] = []
    space: Shape = ()
    domain: Shape = ()
    match form:
        case Map():
            bodies, space, domain = [form.body], form.domain, form.domain
        case Reduce():
            bodies, space, domain = [form.body], (*form.domain, *form.over), form.domain
        case Scan():
            bodies, space, domain = [form.body], form.domain, form.domain
        case Piecewise():
            bodies, space, domain = [p.body for p in form.pieces], form.domain, form.domain
        case Update():
            bodies, space, domain = [form.body], form.region, form.domain
            add_accesses(form.start, reads)
        case Scatter() | FanOut():
            bodies, space, domain = [form.body], form.region, form.domain
        case _:
            pass
    for body in bodies:
        add_accesses(body, reads)
    if isinstance(form, (Update, Scatter)):
        every = range(len(domain))
        reads.setdefault(0, []).append(Access(tuple(frozenset({n}) for n in every), tuple((n, 1, 0) for n in every)))
    statements = [s for b in bodies for s in walk(b.body)]
    branches = any([isinstance(s, If) for s in statements])
    match form:
        case Piecewise():
            branches = branches or len(form.pieces) > 1
        case Update():
            branches = branches or any([k != 1 for k in form.step])
        case _:
            pass
    return FormShape(space, domain, reads, form_cost(form), len(statements), branches)


def reads_own_base(form: Form) -> bool:
    """Whether an update's or scatter's body reads the array it changes (other than the element it replaces)."""
    reads: dict[int, list[Access]] = {}
    if isinstance(form, (Update, Scatter)):
        add_accesses(form.body, reads)
    return 0 in reads
