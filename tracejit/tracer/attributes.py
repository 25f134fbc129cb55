"""Attributes as a traced function sees them: what it reads and stores through dots, `getattr`, `hasattr`, `vars`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import (
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    ModuleType,
)
from typing import Any

import numpy as np

from tracejit.tracer import namespace
from tracejit.tracer.cell import OF_ATTRIBUTES, is_number, python_name
from tracejit.tracer.current import current_trace
from tracejit.tracer.methods import HOOKED
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.own_attributes import OwnAttributes
from tracejit.tracer.ownership import MADE_WHILE_TRACING, is_users_type
from tracejit.tracer.places import MISSING, ClassPlace, ComputedPlace, KindPlace, NamesPlace, held_by_class
from tracejit.tracer.substitutes import REDIRECTED, Redirected, is_instance, redirect_members, type_of
from tracejit.tracer.substitution import substitution
from tracejit.tracer.tracer import Tracer

__all__ = ["ATTRIBUTES"]

_SET: Any = object.__setattr__
_DELETE: Any = object.__delattr__


class _Attributes:
    """What a trace makes of attributes (see `methods.Attributes`)."""

    def active(self) -> bool:
        return current_trace() is not None

    def member(self, kind: type, name: str, original: Any, owner: type) -> Any:
        trace = current_trace()
        if trace is not None:
            trace.reads.note(ClassPlace(owner if held_by_class(owner, name) is original else kind, name), original)
        return substitution.value(original)

    def missing(self, kind: type, name: str) -> None:
        trace = current_trace()
        if trace is not None:
            trace.reads.note(ClassPlace(kind, name), held_by_class(kind, name))

    def found(self, owner: Any, name: str, value: Any) -> Any:
        trace = current_trace()
        if name == "__class__":
            _asked_for_class(owner)
            return value
        if name == "__dict__":
            return value if trace is None or not trace.reads.is_outside(owner) else _own_attributes(owner, value)
        is_data = trace is not None and trace.reads.attribute(owner, name, value)
        return substitution.value(value) if is_data else value

    def made(self, owner: Any, value: Any) -> Any:
        trace = current_trace()
        if trace is None or not trace.reads.is_outside(owner):
            return value
        if type(owner).__dictoffset__:  # it may look there in ways that are not seen
            trace.reads.reach(object.__getattribute__(owner, "__dict__"))
        return substitution.held(value)

    def enumerated(self, owner: Any, value: Any) -> Any:
        trace = current_trace()
        if trace is None or MADE_WHILE_TRACING.get(type(owner)):
            return value
        trace.reads.reach(owner)
        _, before = trace.reads.members[id(object.__getattribute__(owner, "__dict__"))]
        return substitution.held(value) if any(value is x for x in before) else value  # or else the trace has stored it

    def descriptor(self, held: Any) -> None:
        trace = current_trace()
        if trace is not None:
            trace.reads.reach(held)

    def function(self, function: FunctionType) -> Callable[..., Any]:
        return substitution.value(function)

    def store(self, owner: Any, name: str, put: Callable[..., None], *value: Any) -> None:
        trace = current_trace()
        if trace is None:
            put(owner, name, *value)
            return
        if name == "__dict__" and value and isinstance(value[0], OwnAttributes):
            if not trace.reads.is_outside(owner):  # made here, it has the attributes of the other
                trace.reads.stands_for(owner, value[0].owner)
                put(owner, name, trace.changes.stand_ins.original(value[0]))
                return
            value = (trace.changes.stand_ins.original(value[0]),)
        trace.changes.store(owner, name, put, *value)


ATTRIBUTES = _Attributes()


def _own_attributes(owner: Any, value: Any) -> Any:
    """What stands for the `__dict__` of an object from outside."""
    trace = current_trace()
    assert trace is not None
    owner = trace.reads.original(owner)
    held = held_by_class(type(owner), "__dict__")
    if isinstance(held, GetSetDescriptorType):  # it can be given another
        place = ComputedPlace(owner, "__dict__", held)
        trace.reads.note_object(place, place.read())
    if type(value) is not dict or object.__getattribute__(owner, "__dict__") is not value or value is owner:
        trace.reads.reach(value, unseen=True)
        return value
    return trace.own_attributes(owner, value)


def _get_attribute(owner: Any, name: str, *default: Any) -> Any:
    _note_lookup(owner, name)
    if default and isinstance(owner, Tracer) and not _stands_for_one_with(owner, name):
        if name.startswith("__") or not hasattr(type_of(owner), name):
            return default[0]  # a number of Python's has no shape
        return getattr(owner, name)  # which says that it is not supported
    if isinstance(owner, Tracer) and is_number(owner) and OPERATORS.may_be_caught(OF_ATTRIBUTES):
        if not _stands_for_one_with(owner, name):
            raise AttributeError(f"{python_name(owner)!r} object has no attribute {name!r}")
    if isinstance(owner, Tracer) and hasattr(Tracer, name) and name != "at" and not hasattr(type_of(owner), name):
        raise AttributeError(f"{python_name(owner)!r} object has no attribute {name!r}")
    return getattr(owner, name, *default)


def _has_attribute(owner: Any, name: str) -> bool:
    _note_lookup(owner, name)
    return _stands_for_one_with(owner, name) if isinstance(owner, Tracer) else hasattr(owner, name)


def _stands_for_one_with(x: Tracer, name: str) -> bool:
    """Whether what a traced value stands for has an attribute; a method of arrays that is not supported it has not."""
    kind = type_of(x)
    if kind is np.ndarray:  # what it has besides is no matter of the user's
        theirs = hasattr(np.empty(0), name) or (x.fixed and name == "at")
        return theirs and (name.startswith("__") or hasattr(x, name))
    return hasattr(kind(0), name)


def _note_lookup(owner: Any, name: str) -> None:
    """Of attributes that are not there only these look-ups are seen,
    where it is a class or function that may have them.
    """
    trace = current_trace()
    if trace is None:
        return
    if isinstance(owner, type) and is_users_type(owner):
        place = ClassPlace(owner, name)
        trace.reads.note(place, place.read())
    elif type(owner) is FunctionType:
        trace.reads.reach(substitution.original(owner).__dict__)


def _asked_for_class(x: Any) -> None:
    """The class of an object decides something: one from outside may be given another (`o.__class__ = ...`)."""
    trace = current_trace() if is_users_type(type(x)) else None
    if trace is not None and trace.reads.is_outside(x):
        owner = trace.reads.original(x)
        trace.reads.note(KindPlace(owner), type(owner))


def _isinstance(x: Any, kinds: Any, /) -> bool:
    """isinstance of objects and of what stands for arrays."""
    _asked_for_class(x)
    return is_instance(x, kinds)


def _type(*args: Any, **kwargs: Any) -> Any:
    """type, for which a traced array is what it stands for."""
    if len(args) != 1 or kwargs:
        return type(*args, **kwargs)
    _asked_for_class(args[0])
    return type_of(args[0])


def _vars(*owner: Any) -> Any:
    """vars(owner); of a class of the user's what it holds, not what stands there for the time of the trace."""
    trace = current_trace()
    if trace is None or not owner or not isinstance(owner[0], type) or not is_users_type(owner[0]):
        return vars(*owner) if owner else sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
    kind: type = owner[0]
    names = NamesPlace.of(kind, _names_of_class)
    trace.reads.note(names, names.names)
    found: dict[str, Any] = {}
    for name, held in (trace.patches.before.get(kind) or dict(vars(kind))).items():
        if not isinstance(held, GetSetDescriptorType):
            trace.reads.note(ClassPlace(kind, name), held)
        found[name] = substitution.value(held)
    return MappingProxyType(found)


def _names_of_class(kind: type) -> list[str]:
    """The names that a class holds, but those under which a trace puts something into it."""
    return [name for name in vars(kind) if name not in HOOKED]


def _dir(*owner: Any) -> list[str]:
    """dir, of which all names count."""
    if not owner:
        return sorted(sys._getframe(1).f_locals)  # pyright: ignore[reportPrivateUsage]
    trace = current_trace()
    (x,) = owner
    if trace is None or isinstance(x, Tracer):
        return dir(x)
    real = object.__getattribute__(x, "__real__") if isinstance(x, namespace.ModuleView) else trace.reads.original(x)
    if isinstance(real, (type, ModuleType)) or trace.reads.is_outside(real):
        place = NamesPlace.of(real, dir)
        trace.reads.note(place, place.names)
    return dir(x)


def _get_of_object(owner: Any, name: str) -> Any:
    try:
        value = object.__getattribute__(owner, name)
    except AttributeError:
        ATTRIBUTES.found(owner, name, MISSING)
        raise
    return value if current_trace() is None else ATTRIBUTES.found(owner, name, value)


REDIRECTED[id(dir)] = Redirected(dir, _dir)
REDIRECTED[id(vars)] = Redirected(vars, _vars)
redirect_members({isinstance: _isinstance, type: _type})
REDIRECTED[id(getattr)] = Redirected(getattr, _get_attribute)
REDIRECTED[id(hasattr)] = Redirected(hasattr, _has_attribute)
REDIRECTED[id(object.__getattribute__)] = Redirected(object.__getattribute__, _get_of_object)
REDIRECTED[id(object.__setattr__)] = Redirected(
    object.__setattr__, lambda owner, name, value: ATTRIBUTES.store(owner, name, _SET, value)
)
REDIRECTED[id(object.__delattr__)] = Redirected(
    object.__delattr__, lambda owner, name: ATTRIBUTES.store(owner, name, _DELETE)
)
