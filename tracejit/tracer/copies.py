"""`copy.copy` and `copy.deepcopy` in traced functions: they read what an object from outside holds without asking the
object.

What is read is noted, as if the function had read each attribute; arrays are copied in the program, so that a deep copy
can be filled.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any

import numpy as np

from tracejit.support.type_flags import HEAP_TYPE
from tracejit.tracer.captured import Reads
from tracejit.tracer.contents import contents, family, namespace_of
from tracejit.tracer.places import MISSING, SlotPlace
from tracejit.tracer.tracer import Tracer

__all__ = ["deep_copy", "shallow_copy"]


def shallow_copy(reads: Reads, x: Any) -> Any:
    """copy.copy(x)."""
    _attributes(reads, x)
    return copy.copy(x)


def deep_copy(reads: Reads, changed: Callable[[Any], Any], x: Any, memo: dict[int, Any] | None = None) -> Any:
    """copy.deepcopy(x, memo).

    changed: what the trace has made of a container from outside, None if it has not changed it.
    """
    memo = {} if memo is None else memo
    seen: dict[int, Any] = {}
    others: dict[int, Any] = {}
    pending: list[Any] = [x]
    while pending:
        value = pending.pop()
        if id(value) in seen or id(value) in memo or isinstance(value, (Tracer, type)):
            continue
        seen[id(value)] = value
        if isinstance(value, np.ndarray):
            found = reads.array(value)
            if isinstance(found, Tracer):  # which stands for the array in the trace's own containers
                if id(found) not in memo:
                    memo[id(found)] = copy.copy(found)
                memo[id(value)] = memo[id(found)]
            continue
        if isinstance(value, (tuple, frozenset)):
            pending += value  # type: ignore[arg-type]
        elif family(type(value)) is not None:
            made = changed(value)
            if made is not None:
                others[id(value)] = made
            pending += contents(value if made is None else made)
        pending += _attributes(reads, value)
    for key, made in others.items():
        memo[key] = copy.deepcopy(made, memo)
    return copy.deepcopy(x, memo)


def _attributes(reads: Reads, x: Any) -> list[Any]:
    """The values of an object's own attributes, noted if it is from outside."""
    namespace = namespace_of(x)
    if namespace is not None:
        return list(namespace.values())
    kind: Any = type(x)
    if not kind.__flags__ & HEAP_TYPE or isinstance(x, type):
        return []
    found: list[Any] = []
    if kind.__dictoffset__:
        own = object.__getattribute__(x, "__dict__")
        if reads.is_outside(x):
            reads.reach(own)
        found += dict.values(own)
    for base in kind.__mro__:
        for held in list(vars(base).values()):
            if isinstance(held, MemberDescriptorType):
                place = SlotPlace(x, held)
                value = place.read()
                if reads.is_outside(x):
                    reads.note(place, value)
                if value is not MISSING:
                    found.append(value)
    return found
