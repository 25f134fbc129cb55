"""What Python's objects hold while the body of a loop is traced.

A body is traced once and stands for every iteration. What it does to arrays is recorded; what it does to Python's own
objects (two attributes that swap their arrays, a counter, an iterator that moves on) happens while tracing, once, and
the next iteration would not see it. So all that the body can reach is looked at before and after. What it adds under a
new name or key is taken for a cache that it fills, unless it is a number or text: that may be counted up. A cache whose
values differ from one iteration to the next is one too many: `filled` tells what was added.
"""

from __future__ import annotations

import gc
import io
import itertools
import operator
import warnings
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from enum import Enum, EnumMeta
from functools import cache, cached_property, partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
)
from typing import Any

import numpy as np

from tracejit.support.errors import TracerError
from tracejit.support.source import user_location
from tracejit.tracer.contents import contents, family, is_keyed, may_be_counted, namespace_of, same
from tracejit.tracer.current import current_trace
from tracejit.tracer.ownership import is_users_function, is_users_type, module_of
from tracejit.tracer.places import MISSING, StandIn, default_of, held_by_class
from tracejit.tracer.slots import HeldChanges, Slot
from tracejit.tracer.tracer import Tracer

__all__ = ["PythonState", "is_array_alone", "reachable"]

MOST_OBJECTS = 65536  # that are looked at
_MANY_ITEMS = 256  # of a container from outside, whose items are not looked at: what is stored there is seen
_FEW_BYTES = 64
_MOST_SLOTS = 256  # that a statement hands on

_NUMBERS = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range})
_STATES: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    **{kind: lambda x: (x.tell(), x.getvalue()) for kind in (io.StringIO, io.BytesIO)},
    np.nditer: lambda x: (x.finished or x.iterindex,),
}
_CACHED = frozenset({type(cache(len))})
_LED = frozenset({
    zip, map, filter, enumerate, itertools.chain, itertools.islice, itertools.takewhile, itertools.dropwhile,
    itertools.starmap, itertools.compress, itertools.accumulate, itertools.pairwise, itertools.groupby,
    itertools.zip_longest, itertools.filterfalse, type(iter(lambda: 0, 0)), getattr(itertools, "batched", zip),
    itertools.repeat,
})  # fmt: skip
"""Iterators that move with others, by a function's effects, or never."""
_REDUCED = frozenset({
    itertools.product, itertools.permutations, itertools.combinations, itertools.combinations_with_replacement,
    itertools.cycle,
})  # fmt: skip
"""Iterators whose place a copy would have."""
_CALLS = (MethodType, BuiltinMethodType, MethodWrapperType, partial)


class PythonState:
    """What can be reached from some objects, as it is now.

    certain: whether the body surely runs; else an object which the function itself has made may get no new names and
    keys, by which it could tell.
    """

    def __init__(self, roots: Iterable[Any], *, certain: bool = True) -> None:
        self._certain = certain
        self._held: list[tuple[Any, _Holder, Any]] = []
        trace = current_trace()
        self._changes = None if trace is None else trace.changes
        self._outside = None if self._changes is None else self._changes.mark()
        self._count = 0
        self._named = [] if self._changes is None else self._changes.with_new_attributes()
        for item in reachable([*roots, *([] if self._changes is None else self._changes.held_outside())]):
            self._count += 1
            self._held += [(item, holder, items) for holder, items in _holdings(item) if holder is not _through]

    def _all_held(self) -> Iterator[tuple[Any, _Holder, Any]]:
        """What is held, and functions from outside that have attributes now, and had none."""
        yield from self._held
        for clone in [] if self._changes is None else self._changes.with_new_attributes():
            if not any(clone is known for known in self._named):
                yield clone, _changed_function, {}

    def added(self) -> dict[tuple[int, Any], Any]:
        """What is under names and keys that were not there: what a cache holds now, or was put somewhere for a moment.
        By the identities of what holds it, and the name or key.
        """
        found: dict[tuple[int, Any], Any] = {}
        for item, holder, before in self._all_held():
            if isinstance(before, dict):
                now = next((items for again, items in _holdings(item) if again is holder), {})
                if isinstance(now, dict):
                    found.update({(id(item), key): value for key, value in now.items() if key not in before})
            elif holder is _changed_cell and not before:
                found.update({(id(item), None): value for value in _cell(item)})
        if self._changes is not None and self._outside is not None:
            found.update(self._changes.added_since(self._outside))
        return found

    def added_now(self) -> dict[Any, Any]:
        """The same as it is now, to be compared with what the next iteration adds."""
        seen: dict[int, Any] = {}
        return {key: _as_it_is(value, seen) for key, value in self.added().items()}

    def forget(self) -> None:
        """What was put under new names and keys is gone: it is traced in another way."""
        if self._changes is not None and self._outside is not None:
            self._changes.forget_since(self._outside)
        for item, holder, before in list(self._all_held()):
            if holder is _changed_function:
                for name in [name for name in item.__dict__ if name not in before]:
                    del item.__dict__[name]
        for item, holder, before in self._held:
            if holder is _changed_cell and not before:
                with suppress(ValueError):  # still without a value
                    del item.cell_contents
            if not _is_made_here(item):
                continue
            if holder is _changed_mapping:
                base: Any = OrderedDict if isinstance(item, OrderedDict) else dict
                for key in [key for key in _mapping(item) if key not in before]:
                    base.__delitem__(item, key)
            elif holder is _changed_attributes and (namespace := namespace_of(item)) is not None:
                for name in [name for name in namespace if name not in before]:
                    del namespace[name]
            elif holder is _changed_attributes:
                for name in [name for name in _attributes(item) if name not in before]:
                    with suppress(AttributeError):
                        object.__delattr__(item, name)

    def filled(self) -> Iterator[Tracer]:
        """The traced arrays among these."""
        return (x for x in reachable(self.added().values()) if isinstance(x, Tracer))

    def _added(self, item: Any, holder: _Holder, before: Any) -> str | None:
        """The first new name or key of an object which the function has made, in words."""
        if holder not in (_changed_mapping, _changed_attributes) or not _is_made_here(item):
            return None
        now = next((items for again, items in _holdings(item) if again is holder), before)
        new = next((key for key in now if key not in before and not _is_cached_property(item, key)), MISSING)
        if new is MISSING:
            return None
        where = "a" if holder is _changed_mapping else "an object of class"
        return f"{new!r:.40}, which is new, of {where} {type(item).__name__}"

    def check(self, what: str, instead: str) -> None:
        """Raises: TracerError if anything has changed; HeldChanges if it is such as a statement can hand on."""
        if self._count >= MOST_OBJECTS:
            raise TracerError(
                f"{what} reaches more than {MOST_OBJECTS:,} objects of Python's, too many to see what it changes "
                "there; make large tables outside of the function",
                location=user_location(),
            )
        changed = next(
            (said for item, holder, before in self._all_held() if (said := holder(item, before)) is not None), None
        )
        if changed is None and not self._certain:
            changed = next((said for held in self._held if (said := self._added(*held)) is not None), None)
        if changed is None and self._changes is not None and self._outside is not None:
            changed = self._changes.changed_since(self._outside)
            if changed is None and not self._certain:
                added = self._changes.added_since(self._outside)
                if not all(map(_is_of_arrays, added.values())):
                    changed = "an object from outside, which gets a new name or key"
        if changed is not None:
            text = (
                f"{what} changes {changed}, which would happen once, while the body is traced, and not in every "
                f"iteration; {instead}"
            )
            slots = [] if self._has_filled_caches() else self._slots()
            raise HeldChanges(text, slots) if slots else TracerError(text, location=user_location())

    def _has_filled_caches(self) -> bool:
        """Whether a function that keeps its results has computed some: it would not do that again."""
        return any(h is _filled_cache and _of_cached(item).keys() != before.keys() for item, h, before in self._held)

    def _slots(self) -> list[tuple[Slot, Any]]:
        """All that has changed, and what it was; nothing where that is more than other values at places which objects
        of the function had before.
        """
        changes, outside = self._changes, self._outside
        if changes is None or outside is None or changes.changed_since(outside) is not None:
            return []
        found: list[tuple[Slot, Any]] = []
        for item, holder, before in self._all_held():
            if not self._certain and self._added(item, holder, before) is not None:
                return []
            if holder(item, before) is None:
                continue
            slots = _slots_of(item, holder, before) if _is_made_here(item) else None
            if slots is None:
                return []
            found += slots
        return found if len(found) <= _MOST_SLOTS else []


_OF_THE_BODY = "an array of the body"


def is_array_alone(x: Any) -> bool:
    """Whether what `added_now` gives stands for an array."""
    return x is _OF_THE_BODY or (type(x) is tuple and x[:1] == ("array",))


def _is_of_arrays(value: Any) -> bool:
    """Whether a value is arrays, in tuples and lists perhaps: rather what a cache holds than a state."""
    if type(value) in (tuple, list):
        return bool(value) and all(map(_is_of_arrays, value))
    return isinstance(value, (np.ndarray, Tracer))


def _as_it_is(value: Any, seen: dict[int, Any]) -> Any:
    """A value as it is now, with one mark for all arrays of the body that was traced."""
    if isinstance(value, Tracer):
        return ("array", value) if value.interpreter.alive else _OF_THE_BODY
    kind: Any = type(value)
    if id(value) in seen:
        return "again", kind
    if isinstance(value, (type, ModuleType, np.ndarray, np.generic)):
        return value
    parts = [items for holder, items in _holdings(value) if items or holder is not _through]
    if not parts and kind not in (tuple, frozenset):
        return value
    seen[id(value)] = value
    named = [x if isinstance(x, dict) else dict(enumerate(x)) for x in parts]
    own = value.__code__ if kind is FunctionType else None
    return kind, own, *[(key, _as_it_is(x, seen)) for part in named for key, x in part.items()]


def reachable(roots: Iterable[Any], but: Any = None) -> Iterator[Any]:
    """The objects that can be reached from some, each once, arrays too; not numbers.  but: not by way of this one."""
    seen: dict[int, Any] = {} if but is None else {id(but): but}
    trace = current_trace()
    pending = list(roots)
    while pending and len(seen) < MOST_OBJECTS:
        item = pending.pop()
        if type(item) in _NUMBERS or id(item) in seen:
            continue
        seen[id(item)] = item
        yield item
        if (
            trace is not None
            and type(item) in (dict, list, set)
            and len(item) > _MANY_ITEMS
            and trace.is_from_outside(item)
        ):
            continue
        if not isinstance(item, (Tracer, np.ndarray, np.generic)):
            for _, items in _holdings(item):
                pending += items.values() if isinstance(items, dict) else items


_Holder = Callable[[Any, Any], "str | None"]  # (object, what it held) -> what has changed, in words


def _through(item: Any, before: Any) -> str | None:
    """Of what cannot change itself."""
    raise AssertionError


def _holdings(item: Any) -> Iterator[tuple[_Holder, dict[Any, Any] | tuple[Any, ...]]]:
    """For each part of an object that can change: how to find out, and what it holds now."""
    kind: Any = type(item)
    if isinstance(item, (Tracer, np.generic)):
        return
    if isinstance(item, np.ndarray):
        yield from _of_array(item)
        return
    if isinstance(item, (tuple, frozenset)):
        yield _through, tuple(item)  # type: ignore[arg-type]
        if _has_attributes(kind):
            yield _changed_attributes, _attributes(item)
    elif isinstance(item, type):
        yield from _of_type(item)
    elif (state := _state_of(item)) is not None and not is_users_type(kind):
        yield _changed_state, state(item)
    elif kind in _CACHED:
        yield _filled_cache, _of_cached(item)
    elif kind is FunctionType:
        yield from _of_function(item)
    elif kind is CellType:
        yield _changed_cell, _cell(item)
    elif isinstance(item, _CALLS):
        yield _through, _parts(item)
        if isinstance(item, partial):
            yield _changed_partial, dict(item.__dict__)
    elif kind is GeneratorType:
        yield from _of_generator(item)
    elif isinstance(item, Iterator) and _moves_by_itself(kind):
        yield _changed_iterator, _iterator(item)
        if _has_attributes(kind):
            yield _changed_attributes, _attributes(item)
    elif (namespace := namespace_of(item)) is not None:
        yield _changed_attributes, dict(namespace)
    else:
        if family(kind) is not None:
            yield (_changed_mapping, _mapping(item)) if is_keyed(kind) else (_changed_sequence, contents(item))
        if state is not None:
            yield _changed_state, state(item)
        if _has_attributes(kind):
            yield _changed_attributes, _attributes(item)
            yield _changed_kind, (kind, *(item.args if isinstance(item, BaseException) else ()))
        elif family(kind) is None:
            yield _through, _wrapped(item)


def _of_generator(item: Any) -> Iterator[tuple[_Holder, tuple[Any, ...]]]:
    if item.gi_frame is not None and not item.gi_running:
        frame = item.gi_frame
        yield _changed_generator, (frame.f_lasti, item.gi_yieldfrom, *frame.f_locals.values())
        # what its loops go over lies on its stack
        yield _through, tuple([x for x in gc.get_referents(item) if isinstance(x, Iterator)])


def _moves_by_itself(kind: type) -> bool:
    """Whether a class of iterators has its place from one of Python's own."""
    base = next((b for b in kind.__mro__ if not is_users_type(b)), object)
    return issubclass(base, Iterator) and not issubclass(base, io.IOBase)


def _of_array(item: np.ndarray[Any, Any]) -> Iterator[tuple[_Holder, tuple[Any, ...]]]:
    if item.flags.writeable and item.dtype.hasobject:
        if item.size <= _MANY_ITEMS:
            yield _changed_objects, _objects(item)
    elif item.flags.writeable and type(item) in (np.ndarray, np.ma.MaskedArray):
        yield _changed_array, (_fingerprint(item),)


def _objects(item: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return tuple(np.ndarray.ravel(item.view(np.ndarray)).tolist())


def _of_type(kind: type) -> Iterator[tuple[_Holder, dict[Any, Any] | tuple[Any, ...]]]:
    if is_users_type(kind):
        yield _changed_class, _of_class(kind)
        yield _through, (*kind.__mro__[1:], type(kind))  # what it inherits
    elif isinstance(kind, EnumMeta):
        yield _through, tuple(vars(kind).values())


def _of_function(function: FunctionType) -> Iterator[tuple[_Holder, dict[Any, Any] | tuple[Any, ...]]]:
    closure = function.__closure__ or ()
    if is_users_function(function):
        yield _through, (*closure, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        yield _changed_function, dict(function.__dict__)
    else:  # one of ours around the user's
        values = [
            *(x for c in closure for x in _cell(c)),
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
        ]
        values += [x for table in values if type(table) is dict for x in table.values()]  # of functions.singledispatch
        yield _through, tuple([x for x in values if type(x) in (FunctionType, tuple) or _is_users(x)])


def _is_users(x: Any) -> bool:
    return isinstance(x, _CALLS) or is_users_type(type(x))


def _has_attributes(kind: type) -> bool:
    """Whether the attributes of a class's objects are looked at:
    those of the user's, of exceptions, and of Python's queues and events.
    """
    return is_users_type(kind) or issubclass(kind, BaseException) or module_of(kind) in ("queue", "threading")


_WRAPPERS = frozenset({"_contextvars", "_thread", "builtins", "contextlib", "enum", "functools", "operator", "types"})
"""Modules whose objects may be around functions: properties, static methods, views of dicts."""


_OPAQUE = (ModuleType, CodeType, FrameType, TracebackType)


def _wrapped(item: Any) -> tuple[Any, ...]:
    """The functions, and the objects of the user's, that an object of another package may call or hand out."""
    if isinstance(item, weakref.ref):
        return (item(),)
    if isinstance(item, ContextVar):
        return (item.get(None),)
    if isinstance(item, Enum):
        return (type(item), item.value)
    held: tuple[Any, ...] = ()
    if module_of(type(item)) in _WRAPPERS and not isinstance(item, _OPAQUE):
        held = tuple(gc.get_referents(item))
    held += tuple(_named(item, ("__wrapped__", "pyfunc")))
    kinds = (FunctionType, CellType, dict, list, set, tuple)
    return tuple([x for x in held if type(x) in kinds or isinstance(x, type) or _is_users(x) or _is_wrapper(x)])


def _named(item: Any, names: tuple[str, ...]) -> list[Any]:
    """What an object's own attributes of these names hold."""
    try:
        own = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return []
    return [own[name] for name in names if name in own] if type(own) is dict else []


def _is_wrapper(x: Any) -> bool:
    return isinstance(x, (staticmethod, classmethod, property))


def _of_class(kind: type) -> dict[str, Any]:
    return {name: x.original if isinstance(x, StandIn) else x for name, x in vars(kind).items()}


def _of_cached(function: Any) -> dict[Any, Any]:
    """What `functools.cache` has made of a function: that, and the arguments and results that it keeps, by identity."""
    parts = gc.get_referents(function)
    parts += [x for kept in parts if type(kept) is dict for x in kept.values()]
    return {id(x): x for x in parts if type(x) is not dict}


def _filled_cache(item: Any, before: dict[Any, Any]) -> str | None:
    return None  # `filled` tells


def _parts(call: Any) -> tuple[Any, ...]:
    if isinstance(call, partial):
        return (call.func, *call.args, *call.keywords.values())
    return (call.__self__, getattr(call, "__func__", None))


def _fingerprint(array: np.ndarray[Any, Any]) -> bytes:
    """What tells whether the elements of an array, which NumPy itself has made while the function was traced,
    have changed.
    """
    if array.nbytes <= _FEW_BYTES:
        return array.tobytes()
    from hashlib import blake2b

    return blake2b(np.ascontiguousarray(array).view(np.uint8).data).digest()


def _changed_array(item: np.ndarray[Any, Any], before: tuple[bytes]) -> str | None:
    return (
        None
        if _fingerprint(item) == before[0]
        else f"an array that NumPy has made ({item.dtype}, of shape {item.shape})"
    )


def _cell(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _mapping(container: Any) -> dict[Any, Any]:
    base: Any = OrderedDict if isinstance(container, OrderedDict) else dict
    return dict(base.items(container))


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
    """Where an iterator of Python's own stands, and what it iterates over if that is an iterator as well.

    What cannot tell is where it never was: it is taken to move.
    """
    kind: Any = type(item)
    held = gc.get_referents(item)
    # not the tuples themselves: where an input has ended, zip_longest has NULL in its own
    held = [x for y in held for x in (gc.get_referents(y) if type(y) is tuple else (y,))]
    place: Any = repr(item) if issubclass(kind, itertools.count) else operator.length_hint(item, -1)
    if place == -1:
        place = 0 if kind in _LED else _place_of_copy(item) if kind in _REDUCED else object()
    return (place, *held)


def _place_of_copy(item: Any) -> Any:
    """Where a copy of an iterator would begin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reduced = item.__reduce__()
        except TypeError:  # Python 3.14 copies none of them
            return object()
    ahead = [operator.length_hint(x, -1) for x in reduced[1]]  # iterators and tuples of what is left
    return ahead, repr(reduced[2:])


def _changed_key(before: dict[Any, Any], after: dict[Any, Any]) -> Any:
    """A key whose value has changed or that has gone, in a tuple; or a new one that may be a counter's."""
    changed = next(((key,) for key, value in before.items() if key not in after or not _stays(value, after[key])), None)
    return changed or next(((key,) for key in after if key not in before and may_be_counted(after[key])), None)


def _stays(before: Any, after: Any) -> bool:
    """Whether a value is what it was, but for arrays that an earlier loop has left, which cannot be read any more."""
    if before is after or (isinstance(before, Tracer) and not before.interpreter.alive):
        return True
    kind: Any = type(before)
    if kind in (tuple, list) and type(after) is kind and len(before) == len(after) and _is_over(before):
        return all(map(_stays, before, after))
    return same(before, after)


def _is_over(value: Any) -> bool:
    """Whether there is an array in a value that an earlier loop has left."""
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Tracer) and not item.interpreter.alive:
            return True
        if isinstance(item, (list, tuple)) and id(item) not in seen:
            seen[id(item)] = item
            pending += item  # type: ignore[arg-type]
    return False


def _changed_attributes(item: Any, before: dict[str, Any]) -> str | None:
    namespace = namespace_of(item)
    now = _attributes(item) if namespace is None else namespace
    now = {name: value for name, value in now.items() if name in before or not _is_cached_property(item, name)}
    key = _changed_key(before, now) or next(
        ((name,) for name in now if name not in before and _was_inherited(item, name, now[name])), None
    )
    return None if key is None else f"{key[0]!r} of an object of class {type(item).__name__}"


def _is_made_here(item: Any) -> bool:
    """Whether the function that is traced has made an object itself: it is part of what it computes, and no cache."""
    trace = current_trace()
    return trace is not None and not trace.is_from_outside(item)


def _is_cached_property(item: Any, name: str) -> bool:
    return isinstance(held_by_class(type(item), name), (cached_property, StandIn))


def _was_inherited(item: Any, name: str, value: Any) -> bool:
    default = default_of(type(item), name)
    return default is not MISSING and not same(default, value)


def _slots_of(item: Any, holder: _Holder, before: Any) -> list[tuple[Slot, Any]] | None:
    """The places of an object that have another value, with what they had; None if other things have changed."""
    values: dict[Any, Any]
    now: dict[Any, Any]
    if holder is _changed_cell:
        return [(Slot(item, "variable", None), before[0])] if _cell(item) else None
    if holder is _changed_sequence and isinstance(item, list):
        part, values, now = "item", dict(enumerate(before)), dict(enumerate(contents(item)))
        if len(values) != len(now):
            return None
    elif holder is _changed_mapping:
        part, values, now = "value", before, _mapping(item)
        if [*now][: len(values)] != [*values] or (len(now) > len(values) and isinstance(item, (defaultdict, Counter))):
            return None
    elif holder is _changed_attributes:
        namespace = namespace_of(item)
        part, values, now = "attribute", before, _attributes(item) if namespace is None else namespace
        new = [name for name in now if name not in values and not _is_cached_property(item, name)]
        if not values.keys() <= now.keys() or any(_was_inherited(item, name, now[name]) for name in new):
            return None
    elif holder is _changed_function:
        part, values, now = "attribute", before, item.__dict__
    else:
        return None
    if any(may_be_counted(now[key]) for key in now if key not in values):
        return None
    changed = [key for key, value in values.items() if not _stays(value, now[key])]
    return [(Slot(item, part, key), values[key]) for key in changed]


def _changed_class(item: type, before: dict[str, Any]) -> str | None:
    key = _changed_key(before, _of_class(item))
    return None if key is None else f"{key[0]!r} of the class {item.__name__}"


def _changed_function(item: FunctionType, before: dict[str, Any]) -> str | None:
    key = _changed_key(before, item.__dict__)
    return None if key is None else f"{key[0]!r} of the function {item.__name__}"


def _changed_partial(item: Any, before: dict[str, Any]) -> str | None:
    key = _changed_key(before, item.__dict__)
    return None if key is None else f"{key[0]!r} of a functools.partial"


def _changed_mapping(item: Any, before: dict[Any, Any]) -> str | None:
    now = _mapping(item)
    makes_keys = isinstance(item, (defaultdict, Counter))  # whose missing values are read
    key = _changed_key(before, now) or (
        next(((key,) for key in now if key not in before), None) if makes_keys else None
    )
    if key is None and [k for k in before if k in now] != [k for k in now if k in before]:
        return f"the order of a {type(item).__name__}"
    return None if key is None else f"the value of {key[0]!r:.40} in a {type(item).__name__}"


def _changed_sequence(item: Any, before: tuple[Any, ...]) -> str | None:
    now = contents(item)
    return None if len(now) == len(before) and all(map(same, now, before)) else f"what is in a {type(item).__name__}"


def _changed_cell(item: CellType, before: tuple[Any, ...]) -> str | None:
    stays = not before or _stays(before, _cell(item))
    return None if stays else "a variable of an enclosing function"


def _changed_state(item: Any, before: tuple[Any, ...]) -> str | None:
    state = _state_of(item)
    return None if state is None or state(item) == before else f"what is in a {type(item).__name__}"


def _state_of(item: Any) -> Callable[[Any], Any] | None:
    """How the state is asked for of an object whose state is not in attributes and items; None for others."""
    kind: Any = type(item)
    for base, state in _STATES.items():
        if issubclass(kind, base):
            return state
    if any((module_of(base), base.__name__) == ("random", "Random") for base in kind.__mro__):
        return lambda x: x.getstate()
    if issubclass(kind, memoryview) or module_of(kind) in ("ctypes", "mmap", "_ctypes"):
        return lambda x: bytes(memoryview(x))
    return None


def _changed_kind(item: Any, before: tuple[Any, ...]) -> str | None:
    if type(item) is not before[0]:
        return f"the class of an object of class {before[0].__name__}"
    args = item.args if isinstance(item, BaseException) else ()
    return None if len(args) == len(before) - 1 and all(map(same, args, before[1:])) else "what an exception holds"


def _changed_objects(item: Any, before: tuple[Any, ...]) -> str | None:
    return None if all(map(same, before, _objects(item))) else "an array of objects"


def _changed_generator(item: Any, before: tuple[Any, ...]) -> str | None:
    if item.gi_running:
        return None
    frame = item.gi_frame
    now = () if frame is None else (item.gi_yieldfrom, *frame.f_locals.values())
    stays = frame is not None and frame.f_lasti == before[0] and all(map(same, now, before[1:]))
    return None if stays else "a generator, which moves on"


def _changed_iterator(item: Any, before: tuple[Any, ...]) -> str | None:
    return None if _iterator(item)[0] == before[0] else "an iterator, which moves on"
