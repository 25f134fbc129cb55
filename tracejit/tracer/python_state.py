"""What Python's objects hold while the body of a loop is traced.

A body is traced once and stands for every iteration. What it does to arrays is recorded; what it does to Python's own objects (two
attributes that swap their arrays, a counter, an iterator that moves on) happens while tracing, once, and the next iteration would not see
it. So all that the body can reach is looked at before and after. What it adds under a new name or key is taken for a cache that it fills,
unless it is a number or text: that may be counted up.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from types import BuiltinMethodType, CellType, FunctionType, GeneratorType, MemberDescriptorType, MethodType, MethodWrapperType
from typing import Any

import numpy as np

from tracejit.support.errors import TracerError
from tracejit.support.source import user_location
from tracejit.tracer.contents import contents, family, is_keyed, may_be_counted, namespace_of, same
from tracejit.tracer.ownership import is_users_function, is_users_type, module_of
from tracejit.tracer.places import MISSING, StandIn, default_of, held_by_class
from tracejit.tracer.redirect import current_trace
from tracejit.tracer.tracer import Tracer

__all__ = ["PythonState"]

MOST_OBJECTS = 65536  # that are looked at; more are taken as they are

_NUMBERS = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice})
_CALLS = (MethodType, BuiltinMethodType, MethodWrapperType, partial)


class PythonState:
    """What can be reached from some objects, as it is now."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._held: list[tuple[Any, _Holder, Any]] = []
        trace = current_trace()
        self._changes = None if trace is None else trace.changes
        self._outside = None if self._changes is None else self._changes.mark()
        seen: dict[int, Any] = {}
        pending = list(roots)
        while pending and len(seen) < MOST_OBJECTS:
            item = pending.pop()
            if type(item) in _NUMBERS or id(item) in seen or isinstance(item, (Tracer, np.ndarray, np.generic)):
                continue
            seen[id(item)] = item
            for holder, items in _holdings(item):
                if holder is not _through:
                    self._held.append((item, holder, items))
                pending += items.values() if isinstance(items, dict) else items

    def check(self, what: str, instead: str) -> None:
        """Raises TracerError if anything has changed."""
        changed = next((said for item, holder, before in self._held if (said := holder(item, before)) is not None), None)
        if changed is None and self._changes is not None and self._outside is not None:
            changed = self._changes.changed_since(self._outside)
        if changed is not None:
            raise TracerError(
                f"{what} changes {changed}, which would happen once, while the body is traced, and not in every iteration; {instead}",
                location=user_location(),
            )


_Holder = Callable[[Any, Any], "str | None"]  # (object, what it held) -> what has changed, in words


def _through(item: Any, before: Any) -> str | None:
    """Of what cannot change itself."""
    raise AssertionError


def _holdings(item: Any) -> Iterator[tuple[_Holder, dict[Any, Any] | tuple[Any, ...]]]:
    """For each part of an object that can change: how to find out, and what it holds now."""
    kind: Any = type(item)
    if isinstance(item, (tuple, frozenset)):
        yield _through, tuple(item)  # type: ignore[arg-type]
    elif kind is FunctionType:
        yield from _of_function(item)
    elif kind is CellType:
        yield _changed_cell, _cell(item)
    elif isinstance(item, _CALLS):
        yield _through, _parts(item)
    elif kind is GeneratorType:
        if item.gi_frame is not None and not item.gi_running:
            yield _changed_generator, (item.gi_frame.f_lasti, *item.gi_frame.f_locals.values())
    elif module_of(kind) in ("builtins", "itertools") and isinstance(item, Iterator):
        yield _changed_iterator, _iterator(item)
    elif (namespace := namespace_of(item)) is not None:
        yield _changed_attributes, dict(namespace)
    else:
        if family(kind) is not None:
            yield (_changed_mapping, _mapping(item)) if is_keyed(kind) else (_changed_sequence, contents(item))
        if is_users_type(kind):
            yield _changed_attributes, _attributes(item)


def _of_function(function: FunctionType) -> Iterator[tuple[_Holder, dict[Any, Any] | tuple[Any, ...]]]:
    closure = function.__closure__ or ()
    if is_users_function(function):
        yield _through, (*closure, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        yield _changed_function, dict(function.__dict__)
    else:  # one of ours around the user's
        values = [*(x for c in closure for x in _cell(c)), *(function.__defaults__ or ())]
        yield _through, tuple([x for x in values if type(x) is FunctionType or isinstance(x, _CALLS) or is_users_type(type(x))])


def _parts(call: Any) -> tuple[Any, ...]:
    if isinstance(call, partial):
        return (call.func, *call.args, *call.keywords.values())
    return (call.__self__, getattr(call, "__func__", None))


def _cell(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _mapping(container: Any) -> dict[Any, Any]:
    return dict(dict.items(container))


def _attributes(item: Any) -> dict[str, Any]:
    kind = type(item)
    own = dict(object.__getattribute__(item, "__dict__")) if kind.__dictoffset__ else {}
    for base in kind.__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType) and name not in own:
                try:
                    own[name] = slot.__get__(item, kind)
                except AttributeError:
                    continue
    return own


def _iterator(item: Any) -> tuple[Any, ...]:
    """Where an iterator of Python's own stands, and what it iterates over if that is an iterator as well."""
    import gc

    place = repr(item) if type(item) is itertools.count else operator.length_hint(item, -1)
    return (place, *gc.get_referents(item))


def _changed_key(before: dict[Any, Any], after: dict[Any, Any]) -> Any:
    """A key whose value has changed or that has gone, in a tuple; or a new one that may be a counter's."""
    changed = next(((key,) for key, value in before.items() if key not in after or not same(value, after[key])), None)
    return changed or next(((key,) for key in after if key not in before and may_be_counted(after[key])), None)


def _changed_attributes(item: Any, before: dict[str, Any]) -> str | None:
    namespace = namespace_of(item)
    now = _attributes(item) if namespace is None else namespace
    now = {name: value for name, value in now.items() if name in before or not _is_cached_property(item, name)}
    key = _changed_key(before, now) or next(((name,) for name in now if name not in before and _was_inherited(item, name, now[name])), None)
    return None if key is None else f"{key[0]!r} of an object of class {type(item).__name__}"


def _is_cached_property(item: Any, name: str) -> bool:
    return isinstance(held_by_class(type(item), name), (cached_property, StandIn))


def _was_inherited(item: Any, name: str, value: Any) -> bool:
    default = default_of(type(item), name)
    return default is not MISSING and not same(default, value)


def _changed_function(item: FunctionType, before: dict[str, Any]) -> str | None:
    key = _changed_key(before, item.__dict__)
    return None if key is None else f"{key[0]!r} of the function {item.__name__}"


def _changed_mapping(item: Any, before: dict[Any, Any]) -> str | None:
    now = _mapping(item)
    makes_keys = isinstance(item, (defaultdict, Counter))  # whose missing values are read
    key = _changed_key(before, now) or (next(((key,) for key in now if key not in before), None) if makes_keys else None)
    return None if key is None else f"the value of {key[0]!r:.40} in a {type(item).__name__}"


def _changed_sequence(item: Any, before: tuple[Any, ...]) -> str | None:
    now = contents(item)
    return None if len(now) == len(before) and all(map(same, now, before)) else f"what is in a {type(item).__name__}"


def _changed_cell(item: CellType, before: tuple[Any, ...]) -> str | None:
    return None if not before or same(before, _cell(item)) else "a variable of an enclosing function"


def _changed_generator(item: Any, before: tuple[Any, ...]) -> str | None:
    if item.gi_running:
        return None
    frame = item.gi_frame
    stays = frame is not None and frame.f_lasti == before[0] and all(map(same, frame.f_locals.values(), before[1:]))
    return None if stays else "a generator, which moves on"


def _changed_iterator(item: Any, before: tuple[Any, ...]) -> str | None:
    return None if _iterator(item)[0] == before[0] else "an iterator, which moves on"
