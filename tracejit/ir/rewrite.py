"""Copies of kernel statements with blocks, operands or buffers replaced: what passes and backends are made of.

Which fields of a statement hold what is declared by its class (`ir.kernel`); no function here names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any, TypeVar

from tracejit.ir.kernel import (
    ROLES,
    Block,
    Buffer,
    Lambda,
    Operand,
    Role,
    Value,
    allocated_by,
    allocated_in,
    fields_by_role,
    memory_of,
    roles_of,
)
from tracejit.support.nodes import evolve

__all__ = [
    "fresh_copy",
    "fresh_lambda",
    "fresh_statement",
    "inline",
    "map_accesses",
    "map_allocated",
    "map_blocks",
    "replace",
    "replace_buffers",
    "substitute",
]

S = TypeVar("S")


def replace(x: Operand, values: Mapping[Value, Operand]) -> Operand:
    """What stands for an operand."""
    return values.get(x, x) if type(x) is Value else x


def map_blocks(s: S, rewrite: Callable[[Block], Block], *, last_first: bool = False) -> S:
    """`s` with `rewrite` applied to each of its blocks, in order or from the last one on;
    `s` itself if that changes none.
    """
    changes: dict[str, Any] = {}
    names = fields_by_role(type(s), "nested")
    for name, _ in reversed(names) if last_first else names:
        block = getattr(s, name)
        made = rewrite(block)
        if made is not block:
            changes[name] = made
    return evolve(s, **changes) if changes else s


def map_accesses(
    s: S, rewrite: Callable[[Buffer, tuple[Operand, ...] | None], tuple[Buffer, tuple[Operand, ...] | None]]
) -> S:
    """`s` with each buffer that it reads or writes itself, and the index there (None: any), replaced by those that
    `rewrite` gives.

    Raises: ValueError where an access of any element should get an index.
    """
    changes: dict[str, Any] = {}
    for name, memory in memory_of(type(s)).items():
        buffer = getattr(s, name)
        index = None if memory.at is None else getattr(s, memory.at)
        new, at = rewrite(buffer, index)
        if new is not buffer:
            changes[name] = new
        if at is not index:
            if memory.at is None or changes.get(memory.at, at) != at:
                raise ValueError(f"{type(s).__name__}.{name} cannot take indices of its own")
            changes[memory.at] = at
    return evolve(s, **changes) if changes else s


def map_allocated(s: S, buffers: Mapping[Buffer, Buffer]) -> S:
    """`s` with the buffers that it allocates replaced."""
    names = allocated_in(type(s))
    return evolve(s, **{name: buffers.get(getattr(s, name), getattr(s, name)) for name in names}) if names else s


def substitute(s: S, values: Mapping[Value, Operand]) -> S:
    """`s` with the operands that it and its nested statements read replaced; what they define stays as it is."""
    changes: dict[str, Any] = {}
    for name, many in fields_by_role(type(s), "used", "yielded"):
        changes[name] = _replaced(getattr(s, name), many, values)
    for name, _ in fields_by_role(type(s), "nested"):
        changes[name] = tuple([substitute(x, values) for x in getattr(s, name)])
    return evolve(s, **changes) if changes else s


def fresh_copy(block: Block, values: MutableMapping[Value, Operand]) -> Block:
    """The statements with new values for all that they define.

    values: what stands for the values from outside; the new values come to it.
    """
    return tuple([fresh_statement(s, values) for s in block])


def fresh_statement(s: S, values: MutableMapping[Value, Operand], copy: Callable[[Block], Block] | None = None) -> S:
    """`s` with new values for all that it defines, its blocks included: both may stand in one kernel.  copy:
    what copies a block.
    """
    changes: dict[str, Any] = {}
    for name, role, many in _in_order(type(s)):
        have = getattr(s, name)
        if role in ("used", "yielded"):
            changes[name] = _replaced(have, many, values)
        elif role == "nested":
            changes[name] = fresh_copy(have, values) if copy is None else copy(have)
        else:
            made = [Value(v.dtype) for v in (have if many else (have,))]
            values.update(zip(have if many else (have,), made, strict=True))
            changes[name] = tuple(made) if many else made[0]
    return evolve(s, **changes) if changes else s


def inline(function: Lambda, args: Sequence[Operand]) -> tuple[Block, tuple[Operand, ...]]:
    """The statements of `function` applied to `args`, every value fresh, and its results."""
    values: dict[Value, Operand] = dict(zip(function.params, args, strict=True))
    body = fresh_copy(function.body, values)
    return body, tuple([replace(r, values) for r in function.results])


def fresh_lambda(function: Lambda) -> Lambda:
    """The same function over new values."""
    params = tuple([Value(p.dtype) for p in function.params])
    return Lambda(params, *inline(function, params))


def replace_buffers(body: Block, buffers: Mapping[Buffer, Buffer], prefix: tuple[Operand, ...] = ()) -> Block:
    """`body` with buffers replaced, and `prefix` put before the indices of those; the statements that allocate them
    are dropped.

    Raises: ValueError where a statement takes no indices that `prefix` could be put before.
    """

    def access(buffer: Buffer, index: tuple[Operand, ...] | None) -> tuple[Buffer, tuple[Operand, ...] | None]:
        new = buffers.get(buffer)
        if new is None:
            return buffer, index
        return new, prefix + (index or ()) if prefix else index

    def run(block: Block) -> Block:
        return tuple(
            [map_blocks(map_accesses(s, access), run) for s in block if not any(b in buffers for b in allocated_by(s))]
        )

    return run(body) if buffers else body


def _replaced(have: Any, many: bool, values: Mapping[Value, Operand]) -> Any:
    return tuple([replace(x, values) for x in have]) if many else replace(have, values)


@cache
def _in_order(kind: type) -> tuple[tuple[str, Role, bool], ...]:
    """The fields in the order in which a statement comes to them:
    blocks and what is read at their ends together, as they are declared.
    """
    rank: dict[Role, int] = {role: ROLES.index("nested" if role == "yielded" else role) for role in ROLES}
    found: list[tuple[str, Role, bool]] = [(name, role, many) for name, (role, many) in roles_of(kind).items()]
    return tuple(sorted(found, key=lambda f: rank[f[1]]))
