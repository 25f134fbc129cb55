"""Classes with declared fields, cheap to define.

The names are those of attrs: an annotation declares a field, `field` says more of one than its default, `define` makes
a class whose instances may change, `frozen` one whose instances stay as they are, and with `eq=False` they are compared
by identity.

A first call needs some 200 classes, and attrs, which compiles the methods of each, took 40 to 60 ms for them. Here they
share their methods, and `__init__` is compiled when a class turns out to have several instances: of the 89 classes that
a first call makes instances of, two thirds have one or two. The fields are listed in `__attrs_attrs__`: attrs'
functions take these classes, and the functions below take those of attrs. Modules that a first call does not load have
attrs itself make their records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["Undecided", "as_dict", "define", "evolve", "field", "fields_of", "frozen", "has_fields"]

_NOTHING: Any = type("_Nothing", (), {"__repr__": lambda _: "NOTHING"})()

T = TypeVar("T")


class Undecided(BaseException):
    """A value cannot say yet whether it equals another one.

    Instances that hold such values are equal if these are the same as written: the values have a method `same`.
    """


class Field:
    """What is known of one field: `name` and `alias`, its argument of `__init__`, from the annotation,
    the rest from `field`.
    """

    __slots__ = ("alias", "converter", "default", "factory", "init", "metadata", "name")

    def __init__(
        self,
        default: Any,
        factory: Callable[[], Any] | None = None,
        converter: Callable[[Any], Any] | None = None,
        init: bool = True,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.name = self.alias = ""
        self.default = default
        self.factory = factory
        self.converter = converter
        self.init = init
        self.metadata = metadata


def field(
    *,
    default: Any = _NOTHING,
    factory: Callable[[], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
    init: bool = True,
    metadata: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """A field with a default, with one made anew for each instance, or with a function that its arguments pass through.

    init: False for a field that only `factory` sets.  metadata: what else a class wants to say of it.
    """
    return Field(default, factory, converter, init, metadata)


@overload
def frozen(cls: type[T]) -> type[T]: ...
@overload
def frozen(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T] | None = None, *, eq: bool = True) -> Any:
    """A frozen class, compared by class and fields; with `eq=False` by identity, or as it says itself."""

    def decorate(cls: type[T]) -> type[T]:
        if _adds_nothing(cls) and (not eq or cls.__eq__ is _equal):
            return cls
        return _made(cls, _FROZEN | _COMPARED if eq else _FROZEN)

    return decorate if cls is None else decorate(cls)


@overload
def define(cls: type[T]) -> type[T]: ...
@overload
def define(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def define(cls: type[T] | None = None, *, eq: bool = True) -> Any:
    """A class whose instances may change; compared by class and fields, with `eq=False` by identity."""

    def decorate(cls: type[T]) -> type[T]:
        return _made(cls, _SHOWN | {"__eq__": _equal, "__hash__": None} if eq else _SHOWN)

    return decorate if cls is None else decorate(cls)


def fields_of(cls: type) -> Sequence[Field]:
    """The fields of a class in order, those of its bases first."""
    return getattr(cls, "__attrs_attrs__", ())


def has_fields(cls: type) -> bool:
    """Whether a class was made here, or by attrs."""
    return hasattr(cls, "__attrs_attrs__")


def as_dict(x: Any) -> dict[str, Any]:
    """The fields of an instance: names and values, in order."""
    return {f.name: getattr(x, f.name) for f in fields_of(type(x))}


def evolve(x: T, **changes: Any) -> T:
    """A copy with other values of some fields."""
    for f in fields_of(type(x)):
        if f.init and f.alias not in changes:
            changes[f.alias] = getattr(x, f.name)
    return type(x)(**changes)


def _adds_nothing(cls: type) -> bool:
    """Whether a class has the fields of its base and no others: then it is made without further work."""
    return not cls.__annotations__ and cls.__base__ is not None and has_fields(cls.__base__)


def _made(cls: type[T], shared: dict[str, Any]) -> type[T]:
    """The class with slots for its fields and the methods that it does not define."""
    own, inherited = _own_fields(cls), [f.name for f in fields_of(cls)]
    fields = (*[f for f in fields_of(cls) if f.name not in own], *own.values())
    names = [f.name for f in fields]
    slots = [name for name in own if name not in inherited]
    if not hasattr(cls.__base__, "__weakref__"):
        slots.append("__weakref__")
    kept = {
        name: item for name, item in cls.__dict__.items() if name not in own and name not in ("__dict__", "__weakref__")
    }
    body = {
        "__init__": _first_init(lambda: made),
        "__match_args__": tuple([f.name for f in fields if f.init]),
        "__reduce__": _reduce,
        **shared,
        **kept,
        "__attrs_attrs__": fields,
        "__slots__": slots,
        "__values__": attrgetter(*names) if names else type,
    }
    made: type[T] = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    _adopt(cls, made)
    return made


def _own_fields(cls: type) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name, annotation in cls.__annotations__.items():
        if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            default = cls.__dict__.get(name, _NOTHING)
            found[name] = f = default if type(default) is Field else Field(default)
            f.name, f.alias = name, name.lstrip("_")
    return found


def _adopt(cls: type, made: type) -> None:
    """Have `super()` in the methods of `cls` mean the class that replaces it:
    they share one cell that names their class.
    """
    for method in cls.__dict__.values():
        if type(method) is FunctionType and "__class__" in method.__code__.co_freevars:
            assert method.__closure__
            method.__closure__[method.__code__.co_freevars.index("__class__")].cell_contents = made
            return


_FEW = 4


def _first_init(cls: Callable[[], type]) -> Any:
    """An `__init__` for the first instances, which the compiled one replaces then."""
    made = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1
        if made <= _FEW and _filled(self, cls(), args, kwargs):
            return
        init = _compiled_init(cls())
        cls().__init__ = init
        init(self, *args, **kwargs)

    return __init__


def _filled(x: Any, cls: type, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Give an instance its fields, as the compiled `__init__` does; whether the arguments are those that it takes."""
    fields = fields_of(cls)
    accepted = [f.alias for f in fields if f.init]
    given = {**dict(zip(accepted, args, strict=False)), **kwargs}
    if len(given) < len(args) + len(kwargs) or not given.keys() <= set(accepted):
        return False
    values = [given.get(f.alias, f.default) if f.init else _NOTHING for f in fields]
    if any(value is _NOTHING and f.factory is None for f, value in zip(fields, values, strict=True)):
        return False
    for f, value in zip(fields, values, strict=True):
        if value is _NOTHING and f.factory is not None:
            value = f.factory()
        getattr(cls, f.name).__set__(x, value if f.converter is None else f.converter(value))
    if hasattr(cls, "__post_init__"):
        x.__post_init__()
    return True


def _compiled_init(cls: type) -> Callable[..., None]:
    """`__init__` of a class: each argument goes through its converter into its slot,
    past the `__setattr__` of frozen classes.
    """
    scope: dict[str, Any] = {"NOTHING": _NOTHING}
    parameters: list[str] = []
    lines: list[str] = []
    names: list[str] = []
    for n, f in enumerate(fields_of(cls)):
        given = f"field{n}"
        scope |= {
            f"set{n}": getattr(cls, f.name).__set__,
            f"default{n}": f.default,
            f"factory{n}": f.factory,
            f"convert{n}": f.converter,
        }
        if f.init:
            optional = f.default is not _NOTHING or f.factory
            names.append(f.alias)
            parameters.append(f"{given}=default{n}" if optional else given)
        if f.factory:
            given = f"factory{n}() if {given} is NOTHING else {given}" if f.init else f"factory{n}()"
        lines.append(f"    set{n}(self, {f'convert{n}({given})' if f.converter else given})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    text = f"def __init__({', '.join(['self', *parameters])}):\n" + "\n".join(lines or ["    pass"])
    code = _CODES.get(text)  # classes of as many fields have it in common, but for the names
    if code is None:
        code = _CODES[text] = compile(text, "<fields>", "exec")
    exec(code, scope)
    made: FunctionType = scope["__init__"]
    where = {"co_filename": f"<fields of {cls.__module__}.{cls.__qualname__}>", "co_varnames": ("self", *names)}
    made.__code__ = made.__code__.replace(**where)  # type: ignore[arg-type]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


_CODES: dict[str, CodeType] = {}


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name!r} stays as it is")


def _reduce(self: Any) -> Any:
    return type(self), tuple([getattr(self, f.name) for f in fields_of(type(self)) if f.init])


def _equal(self: Any, other: object) -> Any:
    if self is other:
        return True
    if type(other) is not type(self):
        return NotImplemented
    try:
        return self.__values__(self) == self.__values__(other)
    except Undecided:
        return _alike(self.__values__(self), self.__values__(other))


def _alike(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_alike, a, b))
    same = getattr(a, "same", None) or getattr(b, "same", None)
    return (type(a) is type(b) and bool(same(b))) if same is not None else bool(a == b)


def _hash(self: Any) -> int:
    return hash((type(self), self.__values__(self)))


@recursive_repr()
def _show(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields_of(type(self)))
    return f"{type(self).__name__}({shown})"


_FROZEN = {"__setattr__": _refuse, "__delattr__": _refuse, "__repr__": _show}
_SHOWN = {"__repr__": _show}
_COMPARED = {"__eq__": _equal, "__hash__": _hash, "__repr__": _show}
