"""Methods of the user's classes while a function is traced.

An object finds its methods in its class, whose functions have globals of their own: no clone of a caller changes that.
So for the time of a trace the class holds descriptors in place of its functions.  They hand out the redirected function
to the thread that traces and the original to all others.  A class that several threads trace gets its functions back
with the last of them; one that is traced often keeps the descriptors.  Attributes of objects and classes pass by the
same way, because arrays among them are read at each call and the program depends on which they are; so do stores of
attributes, because no traced array may stay behind.
"""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import EnumMeta
from types import DynamicClassAttribute, FunctionType, MemberDescriptorType, MethodType, WrapperDescriptorType
from typing import Any, Protocol

from tracejit.support.nodes import field, frozen
from tracejit.support.type_flags import HEAP_TYPE, IMMUTABLE_TYPE
from tracejit.support.weak import WeakMap
from tracejit.tracer.ownership import is_users_enumeration, is_users_type, module_of
from tracejit.tracer.places import MISSING, StandIn, held_by_class
from tracejit.tracer.special_names import is_special
from tracejit.tracer.substitutes import substitute_for
from tracejit.tracer.wrappers import CACHED, leads_to_users

__all__ = ["HOOKED", "Attributes", "ClassPatches", "holds_attributes"]

_LEFT_ALONE = frozenset({
    "__del__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__",
    "__subclasshook__", "__instancecheck__", "__subclasscheck__", "__prepare__", "__mro_entries__", "_abc_impl",
})  # fmt: skip

_lock = threading.RLock()
_KINDS = (
    FunctionType,
    property,
    staticmethod,
    classmethod,
    functools.cached_property,
    functools.partialmethod,
    functools.singledispatchmethod,
    CACHED,
    DynamicClassAttribute,
)
_KEPT = 16
"""From so many traces on a class keeps the descriptors: each change of a class costs CPython its caches of look-ups,
so an eager transformation that is called again and again should make none."""

_methods: dict[type, int] = {}  # class -> in how many traces its methods are redirected now
_readers: dict[type, int] = {}  # class -> in how many its attributes are
_hooks: dict[type, dict[str, Any]] = {}  # class -> what it held under the names of `_HOOKS`
_uses: WeakMap[type, int] = WeakMap()  # class -> in how many its methods ever were


class Attributes(Protocol):
    """What a trace makes of the attributes of the user's classes and of their objects."""

    def active(self) -> bool:
        """Whether the calling thread traces."""
        ...

    def member(self, kind: type, name: str, original: Any, owner: type) -> Any:
        """What stands for what the class `kind` holds under a name, found through `owner` or one of its objects."""
        ...

    def missing(self, kind: type, name: str) -> None:
        """A class was asked for what its own class holds: what it gets itself comes first."""
        ...

    def found(self, owner: Any, name: str, value: Any) -> Any:
        """What stands for the value of an object's attribute; `MISSING` is told too."""
        ...

    def made(self, owner: Any, value: Any) -> Any:
        """What stands for what an object's `__getattr__` gives, or its own `__getattribute__`."""
        ...

    def enumerated(self, owner: Any, value: Any) -> Any:
        """What stands for what a member of an enumeration has."""
        ...

    def descriptor(self, held: Any) -> None:
        """A class of the user's has a descriptor of the user's: what its `__get__` reads of it counts."""
        ...

    def function(self, function: FunctionType) -> Callable[..., Any]:
        """The redirected function."""
        ...

    def store(self, owner: Any, name: str, put: Callable[..., None], *value: Any) -> None:
        """Have `put(owner, name, *value)` set an object's attribute, or delete it."""
        ...


class _Member(StandIn):
    """Stands in a class for data, a function, a static or class method."""

    __slots__ = ("_attributes", "_kind", "_name")

    def __init__(self, original: Any, kind: type, name: str, attributes: Attributes) -> None:
        super().__init__(original)
        self._kind = kind
        self._name = name
        self._attributes = attributes

    def _target(self, instance: Any, owner: Any) -> Any:
        if not self._attributes.active():
            return self.original
        if isinstance(instance, type):
            self._attributes.missing(instance, self._name)
        return self._attributes.member(
            self._kind, self._name, self.original, type(instance) if owner is None else owner
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._target(instance, owner).__get__(instance, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __reduce__(self) -> Any:
        return _same, (self.original,)


def _same(x: Any) -> Any:
    return x


class _Called(_Member):
    """Stands in a class for what can be called as it lies there."""

    __slots__ = ()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """CPython calls a class's `__get__` so, without asking for the bound method."""
        return self._target(args[0] if args else None, None)(*args, **kwargs)


_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool, "__complex__": complex, "__float__": float, "__hash__": operator.index,
    "__index__": operator.index,
    "__int__": operator.index, "__len__": operator.index,
}  # fmt: skip


class _Number(_Called):
    """Stands in a class for a method whose result Python takes for a number only: it has to be known."""

    __slots__ = ()

    def _target(self, instance: Any, owner: Any) -> Any:
        target = super()._target(instance, owner)
        convert = _NUMBERS[self._name]

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            found = target(*args, **kwargs)
            return found if type(found) in (bool, int, float, complex) else convert(found)

        return call

    def said(self, instance: Any) -> Any:
        """What the method gives, of which Python then makes a number: it may depend on data."""
        return super()._target(instance, None)(instance)


class _Data(_Member):
    """Stands in a class for what is no descriptor, and does as that does where it is found in its `__dict__`."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self._target(instance, owner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held(), name)

    def __hash__(self) -> int:
        return hash(self.original)

    def held(self) -> Any:
        """What is found in the class."""
        return self._target(None, self._kind)


def _as_held(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def call(self: _Data, *args: Any) -> Any:
        return function(self.held(), *args)

    return call


def _reflected(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)
    return lambda self, other: function(other, self.held())


_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
for _name in (*_ARITHMETIC, "lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs", "invert", "index", "contains",
              "getitem", "setitem", "delitem"):  # fmt: skip
    setattr(_Data, f"__{_name}__", _as_held(f"__{_name}__"))
for _name in _ARITHMETIC:
    setattr(_Data, f"__r{_name}__", _reflected(f"__{_name}__"))
for _function in (bool, float, int, len, iter, repr, str):
    setattr(_Data, f"__{_function.__name__}__", lambda self, f=_function: f(self.held()))


class _DataMember(_Member):
    """Stands in a class for a property."""

    __slots__ = ()

    def __set__(self, instance: Any, value: Any) -> None:
        self._target(instance, None).__set__(instance, value)

    def __delete__(self, instance: Any) -> None:
        self._target(instance, None).__delete__(instance)


def _attribute_reader(original: Callable[[Any, str], Any], attributes: Attributes) -> Callable[[Any, str], Any]:
    def __getattribute__(self: Any, name: str) -> Any:
        if (is_special(name) and name not in ("__dict__", "__class__")) or not attributes.active():
            return original(self, name)
        if name == "__class__":
            if type(original) is FunctionType:  # a hook of the user's may make another thing of it, or fail
                with suppress(Exception):
                    return attributes.function(original)(self, name)
                return type(self)
            return attributes.found(self, name, original(self, name))
        if type(original) is FunctionType and name != "__dict__":
            return attributes.made(self, attributes.function(original)(self, name))
        try:
            value = original(self, name)
        except AttributeError:
            attributes.found(self, name, MISSING)
            raise
        return attributes.found(self, name, value)

    return __getattribute__


def _inherited(kind: type, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of a class that has Python's own.  Where an object's class has another base behind this one, with a hook
    of its own, Python would have called that.
    """

    def call(self: Any, *args: Any) -> Any:
        own = type(self)
        if own is not kind:
            mro = own.__mro__
            following = next((base for base in mro[mro.index(kind) + 1 :] if name in base.__dict__), object)
            held = following.__dict__[name]
            if type(held) is not WrapperDescriptorType:
                return held.__get__(self, own)(*args)
        return hook(self, *args)

    return call


def _member_reader(original: Callable[[Any, str], Any], attributes: Attributes) -> Callable[[Any, str], Any]:
    def __getattribute__(self: Any, name: str) -> Any:
        value = original(self, name)
        if is_special(name) or not attributes.active() or isinstance(held_by_class(type(self), name), StandIn):
            return value
        return attributes.enumerated(self, value)

    return __getattribute__


def _attribute_maker(original: FunctionType, attributes: Attributes) -> Callable[[Any, str], Any]:
    def __getattr__(self: Any, name: str) -> Any:
        if is_special(name) or not attributes.active():
            return original(self, name)
        return attributes.made(self, attributes.function(original)(self, name))

    return __getattr__


def _foreign_reader(original: Callable[[Any, str], Any], attributes: Attributes) -> Callable[[Any, str], Any]:
    """Only what traced functions read: their globals are views.  The package's own functions go on with what there
    is.
    """

    def __getattribute__(self: Any, name: str) -> Any:
        value = original(self, name)
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if is_special(name) or type(caller.f_globals) is dict or not attributes.active():
            return value
        return attributes.found(self, name, value)

    return __getattribute__


def _attribute_writer(original: Callable[..., None], attributes: Attributes) -> Callable[..., None]:
    def write(self: Any, name: str, *value: Any) -> None:
        if attributes.active():
            # it may store in other objects
            put = attributes.function(original) if type(original) is FunctionType else original
            attributes.store(self, name, put, *value)
        else:
            original(self, name, *value)

    return write


def _foreign_writer(original: Callable[..., None], attributes: Attributes) -> Callable[..., None]:
    def write(self: Any, name: str, *value: Any) -> None:
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if type(caller.f_globals) is dict or not attributes.active():
            original(self, name, *value)
        else:
            attributes.store(self, name, original, *value)

    return write


_FOREIGN_HOOKS = {"__getattribute__": _foreign_reader, "__setattr__": _foreign_writer, "__delattr__": _foreign_writer}
_HOOKS = {"__getattribute__": _attribute_reader, "__setattr__": _attribute_writer, "__delattr__": _attribute_writer}
HOOKED = frozenset(_HOOKS)
"""The names under which a trace puts something into a class that the class may not have."""


@frozen
class ClassPatches:
    """The classes one trace redirects; without `with_attributes` only their functions."""

    attributes: Attributes
    with_attributes: bool = True
    _classes: dict[type, bool] = field(factory=dict[type, bool])  # class -> whether its attributes pass through here
    # what those held whose attributes do
    before: dict[type, dict[str, Any]] = field(factory=dict[type, dict[str, Any]])

    def add(self, kind: type) -> None:
        """Redirect a class and the user's classes it inherits from, until `remove`."""
        if kind in self._classes:
            return
        for base in kind.__mro__:
            if base not in self._classes and (is_users_type(base) or is_users_enumeration(base)):
                with _lock:
                    self._classes[base] = self._patch(base)
                self.add(type(base))  # what its `__call__` does is done at each call, too
                for held in list(vars(base).values()):
                    if hasattr(type(held), "__get__") and is_users_type(type(held)):
                        self.attributes.descriptor(held)
                        self.add(type(held))

    def _patch(self, kind: type) -> bool:
        _uses[kind] = (_uses.get(kind) or 0) + 1
        _methods[kind] = _methods.get(kind, 0) + 1
        data = self.with_attributes and not isinstance(kind, EnumMeta)
        makes_classes = issubclass(kind, type)  # how attributes of classes are read is left as it is
        for name, held in list(vars(kind).items()):
            if isinstance(held, StandIn):  # of another trace
                continue
            if isinstance(held, _KINDS) and _is_redirected(name, held):
                made = (
                    _DataMember
                    if isinstance(held, (property, DynamicClassAttribute))
                    else _Called
                    if callable(held)
                    else _Member
                )
                if made is _Called and name in _NUMBERS:
                    made = _Number
                _put(kind, name, made(held, kind, name, self.attributes))
            elif (
                data
                and not is_special(name)
                and name not in _LEFT_ALONE
                and _is_data(held)
                and not (name[0] == "_" and _is_of_c(kind))
            ):
                _put(kind, name, _Data(held, kind, name, self.attributes))
        if not self.with_attributes and not isinstance(kind, EnumMeta):
            return False
        self.before[kind] = {
            name: held.original if isinstance(held, StandIn) else held for name, held in vars(kind).items()
        }
        if makes_classes or not self.with_attributes:
            return False
        if kind not in _readers and isinstance(kind, EnumMeta):
            original: Any = kind.__getattribute__
            _hooks[kind] = {}
            if type(original) is WrapperDescriptorType:
                _hooks[kind]["__getattribute__"] = vars(kind).get("__getattribute__", MISSING)
                _put(kind, "__getattribute__", _member_reader(original, self.attributes))
        elif kind not in _readers:
            _hooks[kind] = {name: vars(kind).get(name, MISSING) for name in _HOOKS}
            maker: Any = vars(kind).get("__getattr__")
            if type(maker) is FunctionType:
                _hooks[kind]["__getattr__"] = maker
                _put(kind, "__getattr__", _attribute_maker(maker, self.attributes))
            for name, hook in _HOOKS.items():
                original = getattr(kind, name)
                if vars(kind).get(name) is original:
                    _put(kind, name, hook(original, self.attributes))
                elif type(original) is WrapperDescriptorType:  # others pass a base's
                    _put(kind, name, _inherited(kind, name, hook(original, self.attributes)))
        _readers[kind] = _readers.get(kind, 0) + 1
        return True

    def watch(self, kind: type) -> None:
        """Let the attributes of an installed package's objects pass through here where a traced function reads them,
        until `remove`.
        """
        if kind in self._classes or not self.with_attributes or not _can_be_watched(kind):
            return
        with _lock:
            _uses[kind] = (_uses.get(kind) or 0) + 1
            _methods[kind] = _methods.get(kind, 0) + 1
            if kind not in _readers:
                plain = {name: getattr(kind, name) for name in _FOREIGN_HOOKS if _is_plain(kind, name)}
                _hooks[kind] = dict.fromkeys(plain, MISSING)
                for name, original in plain.items():
                    _put(kind, name, _FOREIGN_HOOKS[name](original, self.attributes))
            _readers[kind] = _readers.get(kind, 0) + 1
            self._classes[kind] = True

    def remove(self) -> None:
        """Give the classes their functions back, unless another trace still redirects them, or many have."""
        with _lock:
            for kind, reads in self._classes.items():
                if reads and _released(_readers, kind):
                    _unhook(kind)
                if _released(_methods, kind) and (_uses.get(kind) or 0) < _KEPT:
                    _restore(kind, StandIn)
        self._classes.clear()


def _put(kind: Any, name: str, value: Any) -> None:
    """Have a class hold something, unless its own class has another use for the name, or refuses:
    then what it holds is not redirected.
    """
    if hasattr(type(held_by_class(type(kind), name)), "__set__"):
        return
    with suppress(Exception):
        if _is_of_c(kind):
            setattr(kind, name, value)
        else:
            type.__setattr__(kind, name, value)


def _drop(kind: Any, name: str) -> None:
    with suppress(Exception):
        if _is_of_c(kind):
            delattr(kind, name)
        else:
            type.__delattr__(kind, name)


def _is_of_c(kind: type) -> bool:
    """Whether the class of a class is written in C and wants to see what is put into it,
    as of the structures of ctypes.
    """
    found = next((base for base in type.mro(type(kind)) if "__setattr__" in vars(base)), type)
    return found is not type and isinstance(vars(found)["__setattr__"], WrapperDescriptorType)


def _released(counts: dict[type, int], kind: type) -> bool:
    """Count one trace less, and say whether it was the last."""
    counts[kind] -= 1
    if counts[kind]:
        return False
    del counts[kind]
    return True


def _unhook(kind: type) -> None:
    for name, original in _hooks.pop(kind).items():
        if original is not MISSING:
            _put(kind, name, original)
        elif name in vars(kind):
            _drop(kind, name)
    _restore(kind, _Data)


def _restore(kind: type, which: type[StandIn]) -> None:
    for name, held in list(vars(kind).items()):
        if isinstance(held, which):
            _put(kind, name, held.original)


def _can_be_watched(kind: type) -> bool:
    """Whether a class is written in Python, with objects that have attributes and are read in the usual way."""
    return (
        kind.__flags__ & (IMMUTABLE_TYPE | HEAP_TYPE) == HEAP_TYPE
        and _is_plain(kind, "__getattribute__")
        and holds_attributes(kind)
        and not isinstance(kind, EnumMeta)
        and (
            module_of(kind).partition(".")[0] not in ("tracejit", "numpy", "builtins", "functools")
            or module_of(kind).startswith("numpy.polynomial.")
        )
    )


def _is_plain(kind: type, name: str) -> bool:
    """Whether a class does something with attributes in the usual way."""
    return type(getattr(kind, name)) is WrapperDescriptorType and name not in vars(kind)


def holds_attributes(kind: type) -> bool:
    """Whether objects of a class have attributes of their own: a `__dict__`, or slots of a class statement."""
    if kind.__dictoffset__:
        return True
    written = [base for base in kind.__mro__ if base.__flags__ & (IMMUTABLE_TYPE | HEAP_TYPE) == HEAP_TYPE]
    return any(isinstance(x, MemberDescriptorType) for base in written for x in vars(base).values())


def _is_data(held: Any) -> bool:
    """Whether what a class holds is found as it is."""
    is_partial = type(held) is functools.partial and sys.version_info < (3, 14)  # from then on it binds as functions do
    return is_partial or type(held) is MethodType or not (isinstance(held, StandIn) or hasattr(held, "__get__"))


def _is_redirected(name: str, value: Any) -> bool:
    if name in _LEFT_ALONE:
        return False
    if type(value) is functools.cached_property:
        function: Any = value.func
    else:
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if leads_to_users(function):
        return True
    return type(value) is staticmethod and substitute_for(function) is not function  # staticmethod(np.zeros)
