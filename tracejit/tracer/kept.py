"""What values of a trace are once it is over: what Python would have left in a place outside to which traced code has
stored them.

A traced array that depends on no argument is its value, a view a view; what stands for something from outside is that;
what the function itself has made (containers, objects, functions) is looked into.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, has_count
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import define, field
from tracejit.support.source import Location, user_location
from tracejit.support.type_flags import HEAP_TYPE
from tracejit.tracer.captured import CellTracer, Reads
from tracejit.tracer.contents import contents, family, refill, underlying
from tracejit.tracer.interpreter import use_interpreter
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.ownership import MADE_WHILE_TRACING, module_of
from tracejit.tracer.places import StandIn
from tracejit.tracer.traced_text import TracedText
from tracejit.tracer.tracer import Tracer

__all__ = ["CalledLater", "Kept", "Lowered", "StandIns", "holds_tracer"]

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), bytearray, range, type(Ellipsis)})
_METHODS = frozenset({staticmethod, classmethod})
_ITERATORS = frozenset({
    *map(type, (iter([]), iter(()), iter({}), {}.keys(), {}.values(), {}.items(), iter({}.values()), iter({}.items()))),
    type(iter(set())), type(reversed([])), enumerate, map, zip, reversed, filter,
})  # fmt: skip
"""What cannot be made anew."""


def _is(x: Any, kinds: type | tuple[type, ...]) -> bool:
    """isinstance that does not ask the object for its class, as that may run code of the user's."""
    return issubclass(type(x), kinds)


@define(eq=False)
class StandIns:
    """What a trace has in place of what is outside."""

    original_of: Callable[[Any], Any]
    """The function or method for which a clone stands; anything else as it is."""
    # under the identity of what stands for something: it, and that
    known: dict[int, tuple[Any, Any]] = field(factory=dict[int, tuple[Any, Any]])
    # what clones have for a variable of an enclosing function, under its identity, and the variable
    variables: dict[int, tuple[CellType, CellType]] = field(factory=dict[int, tuple[CellType, CellType]])

    def add(self, made: Any, original: Any) -> None:
        """`made` stands for `original`."""
        self.known.setdefault(id(made), (made, original))

    def is_one(self, x: Any) -> bool:
        """Whether a value stands for something."""
        return id(x) in self.known

    def original(self, x: Any) -> Any:
        """What a value stands for; the value itself if for nothing."""
        found = self.known.get(id(x))
        return self.original_of(x) if found is None else found[1]

    def is_made_here(self, x: Any) -> bool:
        """Whether a value is a function that traced code has made."""
        return _sees_stand_ins(x) and self.original(x) is x

    def matters(self, x: Any) -> bool:
        """Whether a value must not be found outside."""
        return _is(x, (Tracer, Dim)) or self.original(x) is not x or self.is_made_here(x)


def _sees_stand_ins(x: Any) -> bool:
    return type(x) is FunctionType and hasattr(x.__globals__, "real")


def _is_made_class(kind: type) -> bool:
    """Whether traced code has made a class."""
    return bool(kind.__flags__ & HEAP_TYPE) and MADE_WHILE_TRACING.get(kind) is not None


def _held_by(kind: type) -> list[Any]:
    """What a class holds, but for what stands there for the time of the trace."""
    return [x.original if _is(x, StandIn) else x for x in vars(kind).values()]


def _slots(kind: type) -> Iterator[MemberDescriptorType]:
    for base in kind.__mro__:
        if base.__flags__ & HEAP_TYPE:
            yield from (held for held in vars(base).values() if isinstance(held, MemberDescriptorType))


def _attributes(x: Any) -> list[Any]:
    """The values of an object's own attributes."""
    kind: Any = type(x)
    found = list(dict.values(object.__getattribute__(x, "__dict__"))) if kind.__dictoffset__ else []
    for slot in _slots(kind):
        try:
            found.append(slot.__get__(x))
        except AttributeError:
            continue
    return found


def _parts(x: Any) -> list[Any]:
    """What a value holds."""
    kind: Any = type(x)
    if _is(x, (tuple, frozenset)):
        return [*x, *_attributes(x)]  # type: ignore[arg-type]
    if kind is np.ndarray:
        return list(x.flat) if x.dtype.hasobject else []
    if kind is functools.partial:
        return [x.func, *x.args, *x.keywords.values(), *x.__dict__.values()]
    if kind is slice:
        return [x.start, x.stop, x.step]
    if kind in _METHODS:
        return [x.__func__]
    if kind is property:
        return [x.fget, x.fset, x.fdel]
    if kind in _ITERATORS:
        return gc.get_referents(x)
    if kind is MethodType:
        return [x.__func__, x.__self__]
    if kind is BuiltinMethodType:
        return [] if isinstance(x.__self__, ModuleType) else [x.__self__]
    if kind is MappingProxyType:
        return [underlying(x)]
    if kind is FunctionType:
        return _parts_of_function(x) if _sees_stand_ins(x) else []
    if _is(x, type):
        return [*_held_by(x), *[base for base in x.__mro__[1:] if _is_made_class(base)]] if _is_made_class(x) else []
    if _is(x, ModuleType) or module_of(kind).partition(".")[0] == __name__.partition(".")[0]:
        return []
    held = list(contents(x)) if family(kind) is not None else []
    if _is(x, BaseException):
        held += x.args
    if _is_made_class(kind):
        held.append(kind)
    return held + _attributes(x) if kind.__flags__ & HEAP_TYPE or kind.__dictoffset__ else held


def _parts_of_function(function: FunctionType) -> list[Any]:
    held: list[Any] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held += function.__dict__.values()
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            continue
    return held


def _found(x: Any, is_it: Callable[[Any], bool], is_closed: Callable[[Any], bool]) -> bool:
    """Whether a value, or what it holds at any depth, is such; what is closed is not looked into."""
    seen: dict[int, Any] = {}
    pending = [x]
    while pending:
        item = pending.pop()
        if type(item) in _PLAIN:
            continue
        if is_it(item):
            return True
        if id(item) not in seen and not is_closed(item):
            seen[id(item)] = item
            pending += _parts(item)
    return False


def holds_tracer(x: Any) -> bool:
    """Whether a traced array, or text made of one, is in a value: in containers and objects, but not in functions."""
    return _found(x, lambda item: _is(item, (Tracer, Dim, TracedText)), _sees_stand_ins)


@define(eq=False)
class Kept:
    """Finds out what values are outside of a trace; what is one in the trace is one there."""

    stand_ins: StandIns
    reads: Reads
    # the arrays that others have found already for traced ones, under the identity of these
    arrays: dict[int, tuple[Tracer, Any]] = field(factory=dict[int, "tuple[Tracer, Any]"])
    # under the identity of a value, or variable: it, and what has been found for it
    _known: dict[int, tuple[Any, Any]] = field(factory=dict[int, tuple[Any, Any]])

    def matters(self, x: Any) -> bool:
        """Whether a value, or what it holds, must not be found outside.  What is from outside is not looked into."""
        return _found(x, self._is_one, self.reads.is_outside)

    def _is_one(self, x: Any) -> bool:
        return self.stand_ins.matters(x)

    def _original(self, x: Any) -> Any:
        return self.stand_ins.original(x)

    def value(self, x: Any, where: str, location: Location | None) -> Any:
        """What Python would have left in place of a value: itself if nothing in it matters.  What the function has made
        is changed in place.

        where, location: for messages, the place in which it is found, and where it was put there.
        Raises: UnsupportedError for a traced array that depends on an argument.
        """
        known = self._known.get(id(x))
        if known is not None:
            return known[1]
        original = self._original(x)
        if original is not x:
            return original
        if _is(x, Tracer):
            return self._remember(x, self._array(x, where, location))
        if _is(x, Dim):
            return self._extent(x, where, location)
        if type(x) in _PLAIN or not self.matters(x):
            return x

        def value(part: Any) -> Any:
            return self.value(part, where, location)

        kind: Any = type(x)
        if _is(x, (tuple, frozenset)):
            base = tuple if _is(x, tuple) else frozenset
            again: Any = base.__new__(kind, [value(item) for item in x])
            if kind.__dictoffset__:
                again.__dict__.update({name: value(item) for name, item in x.__dict__.items()})
            return self._remember(x, again)
        if kind is slice:
            return slice(value(x.start), value(x.stop), value(x.step))
        if kind in _METHODS:
            return self._remember(x, kind(value(x.__func__)))
        if kind is property:
            return self._remember(x, property(value(x.fget), value(x.fset), value(x.fdel), x.__doc__))
        if kind in _ITERATORS:
            raise UnsupportedError(
                f"a {kind.__name__} of traced arrays is stored outside of the traced function, in {where}; store a "
                "list or dict of values",
                location=location or user_location(),
            )
        if kind is functools.partial:
            keywords = {name: value(item) for name, item in x.keywords.items()}
            made = functools.partial(value(x.func), *map(value, x.args), **keywords)
            made.__dict__.update({name: value(item) for name, item in x.__dict__.items()})
            return self._remember(x, made)
        if kind is MethodType and isinstance(x.__self__, Tracer):
            return self._remember(x, getattr(value(x.__self__), x.__name__))
        if kind is MethodType:
            return self._remember(x, MethodType(value(x.__func__), value(x.__self__)))
        if kind is BuiltinMethodType:
            return self._remember(x, getattr(value(x.__self__), x.__name__))
        if kind is MappingProxyType:
            held = underlying(x)
            found = value(held)
            return self._remember(x, x if found is held else MappingProxyType(found))
        if kind is FunctionType:
            return self._function(x, value)
        self._remember(x, x)  # before it is looked into: it may hold itself
        self._in_place(x, value)
        return x

    def _remember(self, x: Any, found: Any) -> Any:
        self._known[id(x)] = x, found
        return found

    def _in_place(self, x: Any, value: Callable[[Any], Any]) -> None:
        kind: Any = type(x)
        if _is(x, type):
            for base in x.__mro__[1:]:
                value(base)
            for name, item in list(vars(x).items()):
                if _is(item, StandIn):
                    item.original = value(item.original)
                elif self.matters(item):
                    type.__setattr__(x, name, value(item))
            return
        if _is_made_class(kind):
            value(kind)
        if kind is np.ndarray:
            for n, item in enumerate(x.flat):
                x.flat[n] = value(item)
            return
        if family(kind) is not None:
            refill(x, tuple([value(item) for item in contents(x)]))
        if _is(x, BaseException):
            x.args = tuple(map(value, x.args))
        if kind.__dictoffset__:
            own = object.__getattribute__(x, "__dict__")
            if own is not x:
                for name, item in list(dict.items(own)):
                    dict.__setitem__(own, name, value(item))
        for slot in _slots(kind):
            try:
                held = slot.__get__(x)
            except AttributeError:
                continue
            now = value(held)
            if now is not held:
                slot.__set__(x, now)

    def _function(self, function: FunctionType, value: Callable[[Any], Any]) -> FunctionType:
        """A function that traced code has made as Python would have made it."""
        variables = self.stand_ins.variables
        cells = tuple([variables.get(id(cell), (cell, cell))[1] for cell in function.__closure__ or ()])
        real: Any = function.__globals__
        made = FunctionType(function.__code__, real.real, function.__name__, None, cells)
        self._remember(function, made)
        made.__defaults__ = None if function.__defaults__ is None else tuple(map(value, function.__defaults__))
        functools.update_wrapper(made, function, updated=())
        made.__dict__.pop("__wrapped__", None)
        made.__dict__.update({name: value(x) for name, x in function.__dict__.items()})
        if function.__kwdefaults__:
            made.__kwdefaults__ = {name: value(x) for name, x in function.__kwdefaults__.items()}
        for cell in cells:
            self._fill(cell, value)
        return made

    def _fill(self, cell: CellType, value: Callable[[Any], Any]) -> None:
        if id(cell) not in self._known:
            self._remember(cell, cell)
            with suppress(ValueError):  # not assigned yet
                held = cell.cell_contents
                if self.matters(held):
                    cell.cell_contents = value(held)

    def _extent(self, x: Any, where: str, location: Location | None) -> Any:
        if has_count(x):
            raise UnsupportedError(
                f"a number that the program counts is stored outside of the traced function, in {where}, where it "
                "would not change at each call; return it and store it outside",
                location=location or user_location(),
            )
        return int(x)  # the trace starts again with this extent

    def _array(self, x: Tracer, where: str, location: Location | None) -> Any:
        if isinstance(x, CellTracer):
            return x.array
        known = x.known() if x.interpreter.alive else None
        if known is None:
            raise UnsupportedError(
                f"a traced array {x.aval} is stored outside of the traced function, in {where}, where it would stay "
                "as it was while "
                "tracing and not change at each call; return the array and store it outside",
                location=location or _made_at(x) or user_location(),
            )
        if x.root is not None:
            found = OPERATORS.view_of(self.value(x.root, where, location), x.index)
            if found is None:
                raise UnsupportedError(
                    f"a view {x.aval} of another array is stored outside of the traced function, in {where}; copy it "
                    "first (x = x.copy())",
                    location=location or user_location(),
                )
            return self.arrays.setdefault(id(x), (x, found))[1]
        if x.shape or x.is_array:
            _, found = self.arrays.setdefault(id(x), (x, np.array(known)))
            found[...] = known  # which may have changed since
            return found
        return known.item() if x.aval.weak else known[()]


@define(eq=False)
class CalledLater(Kept):
    """Finds out what a function is that the program calls: it is called as if here and now, so it has the variables of
    traced code as they are now.
    """

    def _function(self, function: FunctionType, value: Callable[[Any], Any]) -> FunctionType:
        variables, real = self.stand_ins.variables, function.__globals__
        pairs = [(cell, variables.get(id(cell), (cell, CellType()))[1]) for cell in function.__closure__ or ()]
        names: Any = getattr(real, "real", real)
        made = FunctionType(function.__code__, names, function.__name__, None, tuple([new for _, new in pairs]))
        self._remember(function, made)
        made.__defaults__ = None if function.__defaults__ is None else tuple(map(value, function.__defaults__))
        functools.update_wrapper(made, function, updated=())
        made.__dict__.pop("__wrapped__", None)
        made.__kwdefaults__ = {name: value(x) for name, x in (function.__kwdefaults__ or {}).items()}
        for cell, new in pairs:
            with suppress(ValueError):  # not assigned yet
                if id(cell) not in variables:
                    new.cell_contents = value(cell.cell_contents)
        return made

    def _array(self, x: Tracer, where: str, location: Location | None) -> Any:
        if isinstance(x, CellTracer) or (x.interpreter.alive and x.known() is not None):
            return super()._array(x, where, location)
        raise UnsupportedError(
            f"{where} reads a traced array {x.aval}, which it would find without a value; give it as an argument",
            location=location or user_location(),
        )


@define(eq=False)
class Lowered(Kept):
    """Finds out what values are where a transformation, or a part of a trace, ends: arrays that depend on none of its
    arguments belong to what is around it.
    """

    ending: Any = None  # the interpreter

    def _is_one(self, x: Any) -> bool:
        return _is(x, Tracer) and x.interpreter is self.ending and self.ending.lowered(x) is not None

    def _original(self, x: Any) -> Any:
        return x

    def _extent(self, x: Any, where: str, location: Location | None) -> Any:
        return int(x)

    def _array(self, x: Tracer, where: str, location: Location | None) -> Any:
        if not self._is_one(x):
            return x
        found = self.ending.lowered(x)
        if x.root is not None and isinstance(found, Tracer):
            with use_interpreter(found.interpreter):
                return OPERATORS.read_view(self.value(x.root, where, location), x.index)
        if not isinstance(found, Tracer):
            return np.array(found) if x.shape or x.is_array else found
        made = Tracer(found.interpreter, found.value, x.aval)
        made.is_array, made.layout = x.is_array, x.layout
        return made

    def _function(self, function: FunctionType, value: Callable[[Any], Any]) -> FunctionType:
        self._remember(function, function)
        for cell in function.__closure__ or ():
            self._fill(cell, value)
        if function.__defaults__:
            function.__defaults__ = tuple(map(value, function.__defaults__))
        return function


def _made_at(x: Tracer) -> Location | None:
    """Where an operation made a traced array."""
    producer = x.interpreter.made_by(x)
    return None if producer is None else producer.location
