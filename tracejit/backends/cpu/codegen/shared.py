"""Kernels of one program that differ in constant offsets only: they become one function,
with these offsets as arguments.

A loop or a stencil that Python unrolls makes many such kernels (`w[0, 0]`, `w[0, 1]`, ...), and generating code is most
of a first call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from tracejit.ir.extents import Dim
from tracejit.ir.kernel import Block, Buffer, Const, Kernel, Op, Operand, Statement, accesses_of, walk
from tracejit.ir.program import Launch, Program, walk_steps
from tracejit.ir.rewrite import map_accesses, map_blocks
from tracejit.support.nodes import evolve

__all__ = ["shared_kernels"]

Shared = tuple[Kernel, tuple[int, ...]]
"""A kernel that serves several, and the values of its last dims, which are the offsets."""


def shared_kernels(program: Program) -> dict[int, Shared]:
    """For each kernel that another one can serve as well, by identity:
    the kernel they share, and the offsets that make it this one.
    """
    kernels = {id(s.kernel): s.kernel for s in walk_steps(program.steps) if isinstance(s, Launch)}
    found: dict[int, Shared] = {}
    for alike in _grouped(kernels.values(), _outline):
        for group in _grouped(alike, _without_offsets):
            offsets = [list(_offsets(k.body)) for k in group]
            differ = [n for n, values in enumerate(zip(*offsets, strict=True)) if len(set(values)) > 1]
            names = {n: f"offset{m}" for m, n in enumerate(differ)}
            symbols = iter([Const(Dim.symbol(names[n]), "i64") if n in names else None for n in range(len(offsets[0]))])
            body = _replaced(group[0].body, lambda c, symbols=symbols: next(symbols) or c)
            kernel = evolve(group[0], body=body, dims=(*group[0].dims, *names.values()))
            for k, values in zip(group, offsets, strict=True):
                found[id(k)] = kernel, tuple([values[n] for n in differ])
    return found


def _grouped(kernels: Iterable[Kernel], key: Callable[[Kernel], Hashable]) -> Iterator[list[Kernel]]:
    """Those of several kernels that have a key in common."""
    groups: dict[Hashable, list[Kernel]] = {}
    for k in kernels:
        groups.setdefault(key(k), []).append(k)
    return (group for group in groups.values() if len(group) > 1)


def _outline(kernel: Kernel) -> Hashable:
    """What is equal of equal kernels, and quickly found."""
    return tuple([(b.dtype, b.shape, b.layout) for b in kernel.buffers]), tuple([type(s) for s in walk(kernel.body)])


def _without_offsets(kernel: Kernel) -> str:
    from tracejit.ir.text import print_kernel  # for speed of import: one kernel needs none of it

    return print_kernel(evolve(kernel, name="", body=_replaced(kernel.body, lambda c: Const(0, "i64"))))


def _offsets(body: Block) -> Iterator[int]:
    for s in walk(body):
        for x in _operands(s):
            if _is_offset(x):
                yield x.value  # type: ignore[union-attr]


def _operands(s: Statement) -> Sequence[Operand]:
    """The operands of a statement among which an offset may be."""
    if isinstance(s, Op):
        return s.args if s.op in ("add", "sub") and s.out.dtype == "i64" else ()
    return [i for a in accesses_of(s) for i in _free(a.buffer, a.index or ())]


def _free(buffer: Buffer, index: Sequence[Operand]) -> Sequence[Operand]:
    """Those of an index that may be offsets: which part of a complex number is read decides how."""
    return index[:-1] if buffer.shape and isinstance(buffer.shape[-1], int) and buffer.shape[-1] == 2 else index


def _is_offset(x: Operand) -> bool:
    return isinstance(x, Const) and type(x.value) is int and x.dtype == "i64"


def _replaced(body: Block, replacement: Callable[[Const], Operand]) -> Block:
    """A body with other offsets, in the order of `walk`."""
    return tuple([_statement(s, replacement) for s in body])


def _statement(s: Statement, replacement: Callable[[Const], Operand]) -> Statement:
    def replaced(operands: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple([replacement(x) if isinstance(x, Const) and _is_offset(x) else x for x in operands])

    def placed(buffer: Buffer, index: Sequence[Operand]) -> tuple[Operand, ...]:
        free = _free(buffer, index)
        return *replaced(free), *index[len(free) :]

    if any(map(_is_offset, _operands(s))):
        if isinstance(s, Op):
            return evolve(s, args=replaced(s.args))
        s = map_accesses(s, lambda buffer, index: (buffer, None if index is None else placed(buffer, index)))
    return map_blocks(s, lambda block: _replaced(block, replacement))
