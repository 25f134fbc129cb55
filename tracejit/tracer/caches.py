"""Functions and properties that keep what they compute, as a traced function sees them."""

from __future__ import annotations

import functools
from operator import is_
from types import (
    MethodType,
)
from typing import TYPE_CHECKING, Any

from tracejit.ir.extents import Dim
from tracejit.support.errors import LeakedTracerError
from tracejit.tracer.current import current_trace
from tracejit.tracer.kept import holds_tracer
from tracejit.tracer.ownership import is_users_type
from tracejit.tracer.places import MISSING, AttributePlace, CallPlace
from tracejit.tracer.tracer import Tracer

if TYPE_CHECKING:
    from tracejit.tracer.substitution import Substitution
    from tracejit.tracer.trace import Trace

__all__ = ["Cached", "CachedProperty"]


class CachedProperty:
    """Stands for a `cached_property`: an object from outside keeps the value that it has outside of traces."""

    __slots__ = ("_original", "_substitution")

    def __init__(self, original: functools.cached_property[Any], substitution: Substitution) -> None:
        self._original, self._substitution = original, substitution

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        trace, original = current_trace(), self._original
        if instance is None or trace is None:
            return original.__get__(instance, owner)
        if trace.reads.is_outside(instance):
            try:
                with trace.unseen():
                    return original.__get__(instance, owner)
            except LeakedTracerError:  # it uses what this trace has stored in the object
                pass
            except Exception:
                trace.reads.note(CallPlace(original.__get__, (instance, owner), {}), MISSING)
                raise
        redirected = functools.cached_property(self._substitution.held(original.func))
        redirected.__set_name__(type(instance), original.attrname)  # type: ignore[arg-type]
        return redirected.__get__(instance, owner)


class Cached:
    """Stands for a function with `functools.cache`: it keeps what it gives outside of traces.

    What it gives for objects that the trace has made nobody finds again, and is computed as the rest of the trace is.
    """

    __slots__ = ("_original", "_substitution")

    def __init__(self, original: Any, substitution: Substitution) -> None:
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_substitution", substitution)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        trace, original = current_trace(), self._original
        if trace is None:
            return original(*args, **kwargs)
        args, kwargs = tuple(map(_known, args)), {name: _known(x) for name, x in kwargs.items()}
        if holds_tracer((args, kwargs)) or any(_is_new(x, trace) for x in (*args, *kwargs.values())):
            anew = trace.cached(original, lambda: functools.cache(self._substitution.value(original.__wrapped__)))
            return anew(*args, **kwargs)
        args = tuple([_outside(x, trace) for x in args])
        kwargs = {name: _outside(x, trace) for name, x in kwargs.items()}
        place = CallPlace(original, args, kwargs)
        try:
            with trace.unseen():
                found = original(*args, **kwargs)
        except Exception:  # nothing is remembered: it may go well another time
            trace.reads.note(place, MISSING)
            raise
        trace.reads.note(place, found)
        return self._substitution.value(found)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        trace = current_trace()
        found = getattr(self._original, name)
        if trace is None:
            return found
        if trace.changes.is_stored(AttributePlace(self._original, name)):
            return found
        trace.reads.reach(self._original.__dict__)
        return self._substitution.held(found)

    def __setattr__(self, name: str, value: Any) -> None:
        trace = current_trace()
        if trace is None:
            setattr(self._original, name, value)
        else:
            trace.reads.reach(self._original)
            trace.changes.store(self._original, name, setattr, value)


def _is_new(x: Any, trace: Trace) -> bool:
    """Whether a value is an object that the trace has made, and equal to no other."""
    kind = type(x)
    return kind.__hash__ is object.__hash__ and is_users_type(kind) and not trace.reads.is_outside(x)


def _outside(x: Any, trace: Trace) -> Any:
    """What a value stands for, and what is in it if it is a tuple or frozenset."""
    found = trace.changes.stand_ins.original(x)
    if found is not x or not isinstance(x, (tuple, frozenset)):
        return found
    items: list[Any] = [_outside(item, trace) for item in x]  # type: ignore[arg-type]
    if all(map(is_, items, x)):  # type: ignore[arg-type]
        return x  # type: ignore[return-value]
    base: Any = tuple if isinstance(x, tuple) else frozenset
    made = base.__new__(type(x), items)
    if type(x).__dictoffset__:
        object.__setattr__(made, "__dict__", object.__getattribute__(x, "__dict__"))
    return made


def _known(x: Any) -> Any:
    """A number whose value the trace knows, as that; an extent as a number, for which the trace starts again."""
    if isinstance(x, Dim):
        return int(x)
    known = x.known() if isinstance(x, Tracer) and not x.shape else None
    return x if known is None else known.item() if x.aval.weak else known[()]
