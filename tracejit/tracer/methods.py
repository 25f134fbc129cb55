"""Methods of the user's classes while a function is traced.

An object finds its methods in its class, whose functions have globals of their own: no clone of a caller changes that.  So for the time
of a trace the class holds descriptors in place of its functions.  They hand out the redirected function to the thread that traces and
the original to all others.  A class that several threads trace gets its functions back with the last of them; one that is traced often
keeps the descriptors.  Attributes of objects pass by the same way, because arrays among them are read at each call and the program
depends on which they are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType, MemberDescriptorType, WrapperDescriptorType
from typing import Any

from tracejit.support.nodes import field, value
from tracejit.support.weak import WeakMap
from tracejit.tracer.captured import AttributePlace, ClassPlace, SlotPlace
from tracejit.tracer.ownership import is_users_function, is_users_type
from tracejit.tracer.substitutes import substitute_for

__all__ = ["ClassPatches"]

_LEFT_ALONE = frozenset({
    "__new__", "__init_subclass__", "__class_getitem__", "__set_name__", "__del__", "__getattribute__", "__getattr__", "__setattr__",
    "__delattr__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__repr__", "__hash__", "__eq__", "__ne__", "__str__",
    "__subclasshook__", "__dir__", "__sizeof__", "__format__", "__instancecheck__", "__subclasscheck__", "__prepare__", "__mro_entries__",
})  # fmt: skip

_lock = threading.RLock()
_KINDS = frozenset({FunctionType, property, staticmethod, classmethod})
_KEPT = 16
"""From so many traces on a class keeps the descriptors: each change of a class costs CPython its caches of look-ups, so an eager
transformation that is called again and again should make none."""

_methods: dict[type, int] = {}  # class -> in how many traces its methods are redirected now
_readers: dict[type, int] = {}  # class -> in how many its attributes are
_uses: WeakMap[type, int] = WeakMap()  # class -> in how many its methods ever were


class _Member:
    """Stands in a class for a function, a static or class method."""

    __slots__ = ("_active", "_substitute", "original")

    def __init__(self, original: Any, active: Callable[[], bool], substitute: Callable[[Any], Any]) -> None:
        self.original = original
        self._active = active
        self._substitute = substitute

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        target = self._substitute(self.original) if self._active() else self.original
        return target.__get__(instance, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __reduce__(self) -> Any:
        return _same, (self.original,)


def _same(x: Any) -> Any:
    return x


class _DataMember(_Member):
    """Stands in a class for a property."""

    __slots__ = ()

    def __set__(self, instance: Any, value: Any) -> None:
        target = self._substitute(self.original) if self._active() else self.original
        target.__set__(instance, value)

    def __delete__(self, instance: Any) -> None:
        self.original.__delete__(instance)


def _attribute_reader(
    original: Callable[[Any, str], Any],
    active: Callable[[], bool],
    attribute: Callable[[AttributePlace | ClassPlace | SlotPlace, Any], Any],
) -> Callable[[Any, str], Any]:
    def __getattribute__(self: Any, name: str) -> Any:
        value = original(self, name)
        if name[:2] == "__" or not active():
            return value
        place = _place_of(self, name, value)
        return value if place is None else attribute(place, value)

    return __getattribute__


def _place_of(owner: Any, name: str, value: Any) -> AttributePlace | ClassPlace | SlotPlace | None:
    """Where an attribute that holds data is kept; None for what a property or a method makes."""
    kind: Any = type(owner)
    base = next((c for c in kind.__mro__ if name in c.__dict__), None)
    held = None if base is None else base.__dict__[name]
    if isinstance(held, MemberDescriptorType):
        return SlotPlace(owner, held)
    if kind.__dictoffset__ and object.__getattribute__(owner, "__dict__").get(name) is value:
        return AttributePlace(owner, name)
    return ClassPlace(owner, base, name) if base is not None and held is value else None


@value
class ClassPatches:
    """The classes one trace redirects.  `active()` says whether the calling thread traces.

    substitute: of a function, property, static or class method.
    attribute: of an attribute that holds data: the place where it is kept, and its value; not called without `with_attributes`.
    """

    active: Callable[[], bool]
    substitute: Callable[[Any], Any]
    attribute: Callable[[AttributePlace | ClassPlace | SlotPlace, Any], Any]
    with_attributes: bool = True
    _classes: dict[type, bool] = field(factory=dict[type, bool])  # class -> whether its attributes pass through here

    def add(self, kind: type) -> None:
        """Redirect a class and the user's classes it inherits from, until `remove`."""
        if kind in self._classes:
            return
        for base in kind.__mro__:
            if base not in self._classes and is_users_type(base):
                with _lock:
                    self._classes[base] = self._patch(base)

    def _patch(self, kind: type) -> bool:
        _uses[kind] = (_uses.get(kind) or 0) + 1
        _methods[kind] = _methods.get(kind, 0) + 1
        for name, held in list(vars(kind).items()):
            if type(held) in _KINDS and _is_redirected(name, held):
                made = _DataMember if isinstance(held, property) else _Member
                type.__setattr__(kind, name, made(held, self.active, self.substitute))
        if not self.with_attributes or (kind not in _readers and type(kind.__getattribute__) is not WrapperDescriptorType):
            return False  # a class that looks attributes up its own way, or one below that passes them already
        if kind not in _readers:
            original: Any = kind.__getattribute__
            type.__setattr__(kind, "__getattribute__", _attribute_reader(original, self.active, self.attribute))
        _readers[kind] = _readers.get(kind, 0) + 1
        return True

    def remove(self) -> None:
        """Give the classes their functions back, unless another trace still redirects them, or many have."""
        with _lock:
            for kind, reads in self._classes.items():
                if reads and _released(_readers, kind):
                    type.__delattr__(kind, "__getattribute__")
                if _released(_methods, kind) and (_uses.get(kind) or 0) < _KEPT:
                    _restore(kind)
        self._classes.clear()


def _released(counts: dict[type, int], kind: type) -> bool:
    """Count one trace less, and say whether it was the last."""
    counts[kind] -= 1
    if counts[kind]:
        return False
    del counts[kind]
    return True


def _restore(kind: type) -> None:
    for name, held in list(vars(kind).items()):
        if isinstance(held, _Member):
            type.__setattr__(kind, name, held.original)


def _is_redirected(name: str, value: Any) -> bool:
    if name in _LEFT_ALONE:
        return False
    if isinstance(value, property):
        return any(type(f) is FunctionType and is_users_function(f) for f in (value.fget, value.fset, value.fdel))
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    if type(function) is FunctionType and is_users_function(function):
        return True
    return type(value) is staticmethod and substitute_for(function) is not function  # staticmethod(np.zeros)
