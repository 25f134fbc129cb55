"""The constants of an entry: the objects and numbers of this process that its compiled code reads from a table,
by position.

So the code has no address in it, and one object file serves every process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.backends.cpython import member_offset
from tracejit.backends.entry import (
    ArrayGuard,
    ConstSlot,
    DictGuard,
    EntrySpec,
    NumpyScalarGuard,
    ObjectGuard,
    OutCall,
    OutConst,
    OutDict,
    OutObject,
    StaticGuard,
    bound_names,
    is_builtin_number,
    leaves,
    nodes,
    result_nodes,
)
from tracejit.support.nodes import frozen

__all__ = ["FLAG_WARN_ON_WRITE", "FLAG_WRITEABLE", "Number", "constants"]

FLAG_C, FLAG_ALIGNED, FLAG_WRITEABLE, FLAG_WARN_ON_WRITE = 0x1, 0x100, 0x400, 0x80000000
"""NumPy's array flags. The last is on views that NumPy will make read-only some day."""


@frozen
class Number:
    """A number among an entry's constants."""

    value: int


def constants(spec: EntrySpec, on_status: Callable[..., Any] | None = None) -> dict[tuple[Any, ...], Any]:
    """Objects and `Number`s by role. Roles and their order depend on the spec's structure only, not on the objects."""
    found: dict[tuple[Any, ...], Any] = {("status",): on_status}
    for kind in (np.ndarray, float, int, complex, tuple, list, dict):
        found["type", kind.__name__] = kind
    found["True",], found["False",] = True, False
    for place, (keyword, _) in enumerate(spec.signature.kwargs):
        found["keyword", place] = sys.intern(keyword)
    _guard_constants(spec, found)
    _array_records(spec, found)
    if spec.watch is not None:
        found["watch",] = Number(spec.watch.address)
    for place, output in enumerate(spec.outputs):
        found["out", place] = output.dtype
    for place, slot in enumerate(spec.slots):
        if isinstance(slot, ConstSlot):
            found["word", place] = Number(slot.word)
    for place, node in enumerate(result_nodes(spec.result)):
        match node:
            case OutConst(value) | OutCall(value, _):
                found["result", place] = value
            case OutObject(kind, slots, _):
                found["result", place] = kind
                found.update(
                    {("result", place, item): Number(member_offset(kind, slot)) for item, slot in enumerate(slots)}
                )
            case OutDict(keys, _):
                found.update({("result", place, item): key for item, key in enumerate(keys)})
            case _:
                pass
    return found


def _guard_constants(spec: EntrySpec, found: dict[tuple[Any, ...], Any]) -> None:
    for place, node in enumerate(nodes(spec.signature)):
        match node:
            case NumpyScalarGuard(dtype):
                found["type", place] = dtype.type
            case StaticGuard(value):
                found["static", place] = value
            case ObjectGuard(kind, slots, _):
                found["type", place] = kind
                found.update(
                    {("offset", place, item): Number(member_offset(kind, slot)) for item, slot in enumerate(slots)}
                )
            case DictGuard(keys, _):
                found.update({("key", place, item): sys.intern(key) for item, key in enumerate(keys)})
            case _:
                pass


def _array_records(spec: EntrySpec, found: dict[tuple[Any, ...], Any]) -> None:
    """What `tj_match_arrays` reads of each array in turn: dtype, mask and value of the flags,
    rank and whether the dtype is a builtin number, the extents (the number of a name is given as its complement).
    """
    number = {name: index for index, name in enumerate(bound_names(spec.signature))}
    for place, leaf in enumerate(leaves(spec.signature)):
        if not isinstance(leaf, ArrayGuard):
            continue
        value = FLAG_ALIGNED | (FLAG_C if leaf.layout == "C" else 0) | (FLAG_WRITEABLE if leaf.writeable else 0)
        mask = value | (FLAG_WARN_ON_WRITE if leaf.writeable else 0) | (FLAG_C if leaf.scattered else 0)
        found["array", place] = leaf.dtype
        found["array", place, "flags"] = Number(mask | value << 32)
        found["array", place, "rank"] = Number(len(leaf.shape) | int(is_builtin_number(leaf.dtype)) << 32)
        for axis, extent in enumerate(leaf.shape):
            found["array", place, axis] = Number(~number[extent] if isinstance(extent, str) else extent)
