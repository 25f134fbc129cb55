"""Objects of Python's own classes whose state a program cannot follow: iterators, streams in memory, queues, ..."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextvars import ContextVar
from types import GeneratorType
from typing import Any
from weakref import ref

from tracejit.tracer.contents import family
from tracejit.tracer.ownership import is_users_type, module_of

__all__ = ["state_of"]

_NAMES = frozenset({
    "queue.Queue", "queue.LifoQueue", "queue.PriorityQueue", "_queue.SimpleQueue", "_thread._local",
    "functools.KeyWrapper", "weakref.WeakKeyDictionary", "weakref.WeakSet", "weakref.WeakValueDictionary",
})  # fmt: skip
_KINDS = (io.StringIO, io.BytesIO, ContextVar, ref, memoryview)


def state_of(value: Any) -> str:
    """What is not followed of an object from outside, in words; empty if there is nothing."""
    kind: Any = type(value)
    name = f"{module_of(kind)}.{kind.__qualname__}".removeprefix("builtins.")
    if isinstance(value, _KINDS) or name in _NAMES:
        return f"what is in {_an(name)} from outside"
    is_iterator = isinstance(value, Iterator) and not is_users_type(kind) and not isinstance(value, io.IOBase)
    if isinstance(value, GeneratorType) or is_iterator:
        return f"where {_an(name)} from outside stands"
    if isinstance(value, BaseException) and any(family(type(x)) is not None for x in value.args):
        return f"what is in the args of {_an(name)} from outside"
    return ""


def _an(noun: str) -> str:
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun
