"""Copies that need not be made: where what they are copied from stays as it is until their last element is read.

`x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]` reads an array and then changes it.  As steps of a program these are a copy
of `x[:i]`, a product of that, and an update; written into one kernel they are a loop that copies, one that reads the
copy from its first element to its last, and a store behind it.  The second loop can read the array itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tracejit.ir.kernel import (
    Block,
    Buffer,
    Const,
    For,
    Kernel,
    Load,
    Op,
    Operand,
    Statement,
    Store,
    Value,
    accesses_of,
    operands_of,
    walk,
)
from tracejit.ir.passes.dead import remove_dead
from tracejit.ir.rewrite import fresh_statement, map_blocks
from tracejit.support.nodes import evolve, frozen

__all__ = ["without_copies"]


def without_copies(kernel: Kernel, own: Collection[Buffer]) -> Kernel:
    """The kernel with loads of copies replaced by loads of what they are copies of.

    own: the buffers that nobody reads after the kernel, nor wrote before it for the kernel to read.
    """
    accesses: dict[Buffer, int] = {}
    for s in walk(kernel.body):
        for a in accesses_of(s):
            accesses[a.buffer] = accesses.get(a.buffer, 0) + 1
    if accesses.keys().isdisjoint(own):
        return kernel
    body = _forwarded(kernel.body, frozenset(own), accesses)
    return kernel if body is kernel.body else remove_dead(kernel.with_body(body))


@frozen(eq=False)
class _Copy:
    """What a loop nest copies: elements of `source` into `target`, one for each combination of its indices."""

    nest: tuple[For, ...]
    load: Load
    store: Store
    ops: tuple[Op, ...]  # which may say where an element comes from


def _forwarded(block: Block, own: frozenset[Buffer], accesses: Mapping[Buffer, int]) -> Block:
    statements = [map_blocks(s, lambda inner: _forwarded(inner, own, accesses)) for s in block]
    changed = any(a is not b for a, b in zip(statements, block, strict=True))
    for k in range(len(statements)):
        for copy in _copies(statements[k], own):
            rest = _reading(statements[k + 1 :], copy, accesses[copy.store.buffer] - 1)
            if rest is not None:
                statements[k] = _without(statements[k], copy.store)
                statements[k + 1 :] = rest
                changed = True
    return tuple([s for s in statements if not _is_empty(s)]) if changed else block


def _copies(s: Statement, own: frozenset[Buffer]) -> list[_Copy]:
    """What a nest copies, if copies are all that it makes."""
    nest: list[For] = []
    while isinstance(s, For) and not s.params:
        nest.append(s)
        if len(s.body) != 1:
            break
        s = s.body[0]
    if not nest:
        return []
    body = nest[-1].body
    loads = {x.out: x for x in body if isinstance(x, Load)}
    stores = [x for x in body if isinstance(x, Store)]
    ops = tuple([x for x in body if isinstance(x, Op)])
    if len(loads) + len(stores) + len(ops) != len(body) or any(x.buffer not in own for x in stores):
        return []
    if any(i in loads for x in (*ops, *loads.values()) for i in operands_of(x)):
        return []  # where an element comes from is itself loaded
    indices = {f.index for f in nest}
    written = {x.buffer for x in stores}
    found: list[_Copy] = []
    for store in stores:
        load = loads.get(store.value) if isinstance(store.value, Value) else None
        places = [i for i in store.index if isinstance(i, Value)]
        if load is None or load.buffer in written or len(places) != len(nest) or set(places) != indices:
            continue
        found.append(_Copy(tuple(nest), load, store, ops))
    return found


def _reading(after: Sequence[Statement], copy: _Copy, readers: int) -> list[Statement] | None:
    """The statements behind a copy, reading what it is a copy of; None where they must not.

    readers: how many accesses of the copy there are: all of them have to be here, and to pass over it as the copy did.
    """
    out: list[Statement] = []
    source = copy.load.buffer
    for n, s in enumerate(after):
        inside = [a for x in walk((s,)) for a in accesses_of(x)]
        found = sum(a.buffer is copy.store.buffer for a in inside)
        if any(a.buffer is source and a.writes for a in inside):
            return None
        if found:
            replaced = _replaced(s, copy, ())
            if replaced is None:
                return None
            s = replaced
            readers -= found
        out.append(s)
        if readers == 0:
            return [*out, *after[n + 1 :]]
    return None


def _replaced(s: Statement, copy: _Copy, loops: tuple[For, ...]) -> Statement | None:
    """A statement with its loads of the copy replaced, if each is in loops like those of the copy."""
    target = copy.store.buffer
    if any(a.buffer is target for a in accesses_of(s)):
        return None  # not within loops
    inner = (*loops, s) if isinstance(s, For) else loops
    failed: list[Statement] = []

    def block(body: Block) -> Block:
        out: list[Statement] = []
        for x in body:
            if isinstance(x, Load) and x.buffer is target:
                made = _load(x, copy, inner)
                if made is None:
                    failed.append(x)
                    return body
                out += made
            elif any(a.buffer is target for y in walk((x,)) for a in accesses_of(y)):
                made_inside = _replaced(x, copy, inner)
                if made_inside is None:
                    failed.append(x)
                    return body
                out.append(made_inside)
            else:
                out.append(x)
        return tuple(out)

    made = map_blocks(s, block)
    return None if failed else made


def _load(x: Load, copy: _Copy, loops: tuple[For, ...]) -> list[Statement] | None:
    """What is loaded in place of an element of the copy, which loops like those of the copy ask for."""
    if len(loops) != len(copy.nest):
        return None
    bound = {f.index: f for f in loops}
    values: dict[Value, Operand] = {}
    for mine, its in zip(x.index, copy.store.index, strict=True):
        if isinstance(its, Const):
            if mine != its:
                return None
            continue
        loop = bound.get(mine) if isinstance(mine, Value) else None
        made = next(f for f in copy.nest if f.index is its)
        if loop is None or (loop.lower, loop.upper, loop.step) != (made.lower, made.upper, made.step):
            return None
        values[made.index] = mine
    if copy.nest[-1].index in values and values[copy.nest[-1].index] is not loops[-1].index:
        return None  # by columns what was copied by rows
    out: list[Statement] = [fresh_statement(op, values) for op in copy.ops]
    load = fresh_statement(copy.load, values)
    return [*out, evolve(load, out=x.out)]


def _without(s: Statement, store: Store) -> Statement:
    return map_blocks(s, lambda body: tuple([_without(x, store) for x in body if x is not store]))


def _is_empty(s: Statement) -> bool:
    """Whether a loop does nothing any more: what is left in it is read by nobody."""
    return (
        isinstance(s, For)
        and not s.params
        and not any(a.writes for x in walk(s.body) for a in accesses_of(x))
        and all(isinstance(x, For | Load | Op) for x in walk(s.body))
    )
