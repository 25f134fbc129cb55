"""Kernels that read one matrix, the first along its rows and the second down its columns, become one, which reads it
once (`ir/passes/sweep.py` says how it runs).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracejit.compiler.compilation import ComposedKernel
from tracejit.ir.extents import Extent, same_shape
from tracejit.ir.forms import Reduce
from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import Block, Buffer, For, Kernel, Load, accesses_of, is_pure, walk
from tracejit.ir.passes.collapse import collapse
from tracejit.ir.passes.groups import Group
from tracejit.ir.passes.merge_loops import merge_loops
from tracejit.ir.passes.privatize import is_scalar, parts_of
from tracejit.ir.passes.sweep import can_sweep_columns, rows_of
from tracejit.ir.rewrite import replace_buffers
from tracejit.ir.scalar import BITS
from tracejit.support.nodes import evolve

__all__ = ["may_share", "shared"]

LEAST = 1 << 18  # bytes: a smaller matrix is in a near cache when it is read again
MOST = 1 << 18  # bytes of some rows: of longer ones the first is not in a near cache any more
ROWS = 5  # so many of them
FEW = 32  # columns: shorter rows are folded side by side


def may_share(a: Group, b: Group) -> bool:
    """Whether two groups, of which one runs next to the other, both fold a matrix."""
    matrices = {v for v in a.inputs if v.aval.ndim == 2} & set(b.inputs)
    return (
        any(_is_worth_it(v) for v in matrices)
        and not (a.in_place or b.in_place)
        and all(any(isinstance(e.form, Reduce) for e in group.equations) for group in (a, b))
    )


def _is_worth_it(v: Var) -> bool:
    rows, columns = v.aval.shape
    size = BITS.get(str(v.aval.dtype), v.aval.dtype.itemsize * 8) // 8
    return _may(rows * columns * size, LEAST) and not _surely(columns * size * ROWS, MOST) and _may(columns, FEW)


def _may(extent: Extent, least: int) -> bool:
    return not isinstance(extent, int) or extent >= least


def _surely(extent: Extent, more: int) -> bool:
    return isinstance(extent, int) and extent > more


def shared(a: ComposedKernel, b: ComposedKernel, name: str) -> ComposedKernel | None:
    """One kernel for two; None if it would not read a matrix once in place of twice."""
    if a.edited or b.edited:
        return None
    first, second = (collapse(merge_loops(x.kernel)) for x in (a, b))
    return _joined(a, first, b, second, name) or _joined(b, second, a, first, name)


def _joined(a: ComposedKernel, rows: Kernel, b: ComposedKernel, columns: Kernel, name: str) -> ComposedKernel | None:
    """The kernel of a, which folds rows, and behind it that of b, which folds columns."""
    made = set(b.group.outputs)
    if not made.isdisjoint(a.group.inputs):
        return None
    parameters = dict(a.parameters)
    replaced: dict[Buffer, Buffer] = {}
    for v, buffer in b.parameters.items():
        if v not in parameters:
            stem = "out" if v in made else "in"
            parameters[v] = evolve(buffer, name=f"{stem}{len(parameters)}")
        elif not same_shape(buffer.shape, parameters[v].shape) or buffer.layout != parameters[v].layout:
            return None
        replaced[buffer] = parameters[v]
    theirs = replace_buffers(columns.body, replaced)
    head = [n for n, s in enumerate(theirs) if isinstance(s, For)][0:1]
    first = theirs[: head[0]] if head else ()
    if not all(is_pure(s) and is_scalar(s) for s in first):
        return None
    mine = {parameters[v] for v in a.group.outputs}
    if any(access.buffer in mine for s in first for access in accesses_of(s)):
        return None
    body = (*first, *rows.body, *theirs[len(first) :])
    if not _reads_twice(body):
        return None
    outputs = frozenset(parameters[v].name for v in (*a.group.outputs, *b.group.outputs))
    buffers = tuple(dict.fromkeys(parameters.values()))
    kernel = Kernel(name, buffers, outputs, body, tuple(sorted({*rows.dims, *columns.dims})))
    inside = {*a.group.outputs, *b.group.outputs}
    inputs = dict.fromkeys(v for v in (*a.group.inputs, *b.group.inputs) if v not in inside)
    results = tuple(dict.fromkeys((*a.group.outputs, *b.group.outputs)))
    group = Group((*a.group.equations, *b.group.equations), tuple(inputs), results)
    return ComposedKernel(group, a.layout_of, kernel, parameters, joined=True)


def _reads_twice(body: Block) -> bool:
    """Whether the only loops are one over rows and one over columns of one matrix, which can run in one pass."""
    places = [n for n, s in enumerate(body) if isinstance(s, For)]
    if len(places) != 2:
        return False
    at, end = places
    top, columns = body[at], body[end]
    assert isinstance(top, For) and isinstance(columns, For)
    rows = rows_of(top)
    if rows is None or not can_sweep_columns(rows, columns, body[at + 1 : end]):
        return False
    parts = parts_of(columns)
    assert parts is not None
    inner = [s for s in rows.folds if isinstance(s, For) and s.combine is not None]
    along = {b for loop in inner for b in _read_at(loop.body, top, loop)}
    return not along.isdisjoint(_read_at(parts[1].body, parts[1], columns))


def _read_at(body: Block, row: For, column: For) -> Iterator[Buffer]:
    """The row-major matrices of which an element is loaded at the indices of two loops."""
    for s in walk(body):
        if isinstance(s, Load) and s.buffer.layout == "C" and s.index == (row.index, column.index):
            yield s.buffer
