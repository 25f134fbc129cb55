"""What a redirected function sees of the world outside: its globals, the builtins,
modules.  All of it is read live from the real one.

A function's globals may be an instance of a subclass of dict; CPython then looks names up through `__getitem__`, first
there and then in the builtins named by its item `__builtins__`.  Code of classes and of `eval` reads the dict itself
first, where only that item is, and then the builtins: so these answer with globals as well.  Stores of globals would go
into the dict itself unseen: such code is refused.

Source: CPython's Python/bytecodes.c, LOAD_GLOBAL, LOAD_NAME, IMPORT_NAME (3.11 to 3.14).
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import CodeType, ModuleType
from typing import Any, NoReturn, Protocol

import numpy as np

from tracejit.support.errors import UnsupportedError
from tracejit.support.source import user_location
from tracejit.tracer.bytecode import instructions, name_of
from tracejit.tracer.ownership import MADE_WHILE_TRACING, is_users_module, is_users_type
from tracejit.tracer.places import MISSING
from tracejit.tracer.special_names import is_special
from tracejit.tracer.statements.calls import HELPERS, statements
from tracejit.tracer.substitutes import (
    OF_LISTS,
    MethodsOfUfunc,
    called_here,
    converter,
    reads_attribute,
    refuse_random,
    substitute_for,
)

__all__ = ["Builtins", "ModuleView", "Namespace", "Substitution", "code_names", "stored_globals"]


_DEBUGGERS = frozenset({"__pdb_convenience_variables"})
"""Names that debuggers set among the globals of the functions they stop in, for themselves."""


class Substitution(Protocol):
    """What decides what a redirected function finds under a name."""

    def name(self, namespace: dict[str, Any], name: str, value: Any) -> Any:
        """What stands for the global `name`, which is `value`."""
        ...

    def names(self, namespace: dict[str, Any]) -> list[str]:
        """The global names, of which all count."""
        ...

    def value(self, value: Any) -> Any:
        """What stands for any value from outside."""
        ...


class Namespace(dict[str, Any]):
    """Globals of redirected functions: `real`, with substitutes."""

    __slots__ = ("_classes", "_size", "_substitution", "real")

    def __init__(self, real: dict[str, Any], substitution: Substitution) -> None:
        super().__init__()
        self.real = real
        self._size = -1
        self._classes: dict[str, type] = {}
        self._substitution = substitution
        dict.__setitem__(self, "__builtins__", Builtins(self))

    def find(self, name: str) -> Any:
        """What a function finds under a name, `MISSING` if nothing."""
        value = self.real.get(name, MISSING)
        return value if value is MISSING else self._substitution.name(self.real, name, value)

    def missed(self, name: str) -> None:
        """A function looks for a name that does not exist, and may go on without it."""
        self._substitution.name(self.real, name, MISSING)

    def classes(self) -> tuple[type, ...]:
        """The user's classes among the globals."""
        real = self.real
        if len(real) != self._size or any(real.get(name) is not kind for name, kind in self._classes.items()):
            self._classes = {
                name: value
                for name, value in list(real.items())
                if issubclass(type(value), type) and is_users_type(value)
            }
            self._size = len(real)
        return tuple(self._classes.values())

    def __getitem__(self, name: str) -> Any:
        if name == HELPERS:
            return statements()
        value = self.find(name)
        if value is MISSING:
            if name in _DEBUGGERS:
                return dict.__getitem__(self, name)
            raise KeyError(name)
        if isinstance(value, (type, np.ufunc)):
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            convert = converter(value)
            if convert is not None and called_here(frame):
                return convert
            if isinstance(value, np.ufunc) and reads_attribute(frame, *OF_LISTS):
                return MethodsOfUfunc(value)
            if isinstance(value, type) and is_users_type(value) and reads_attribute(frame, "__dict__"):
                return _ClassView(value)
        return value

    def substituted(self, value: Any) -> Any:
        return self._substitution.value(value)

    def imported(self, module: ModuleType) -> None:
        """A function imports a module: what the interpreter holds under its name counts."""
        if is_users_module(module):
            self._substitution.name(sys.modules, module.__name__, module)

    def not_imported(self, name: str) -> None:
        """A function fails to import a module, and may go on without it."""
        self._substitution.name(sys.modules, name, sys.modules.get(name, MISSING))

    # `globals()` in a redirected function.
    def get(self, name: str, default: Any = None) -> Any:
        value = self.find(name)
        if value is MISSING:
            self.missed(name)
            return default
        return value

    def __contains__(self, name: object) -> bool:
        if name in _DEBUGGERS:
            return dict.__contains__(self, name)
        if isinstance(name, str) and name not in self.real:
            self.missed(name)
            return False
        return isinstance(name, str) and self.find(name) is not MISSING

    def __iter__(self) -> Iterator[str]:
        return iter(self._substitution.names(self.real))

    def __len__(self) -> int:
        return len(self._substitution.names(self.real))

    def keys(self) -> Any:
        return dict.fromkeys(self).keys()

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __repr__(self) -> str:
        return f"<the globals of {self.real.get('__name__')} as a traced function sees them>"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UnsupportedError(
            "a traced function changes global names, which would happen once and not at each call; return the new "
            "value instead, "
            "or turn redirection off with @tj.jit(redirect=False)",
            location=user_location(),
        )

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in _DEBUGGERS:
            self._refuse()
        dict.__setitem__(self, name, value)

    def pop(self, name: str, *default: Any) -> Any:
        if name not in _DEBUGGERS:
            self._refuse()
        return dict.pop(self, name, *default)

    __delitem__ = update = setdefault = popitem = clear = _refuse  # type: ignore[assignment]


class Builtins(dict[str, Any]):
    """The builtins of redirected functions: imports give views, calls of `isinstance`,
    `float` and a few others know traced arrays.
    """

    __slots__ = ("_namespace",)

    def __init__(self, namespace: Namespace) -> None:
        super().__init__()
        self._namespace = namespace
        dict.__setitem__(self, "__import__", self._import)

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        real = globals.real if isinstance(globals, Namespace) else globals
        try:
            module = builtins.__import__(name, real, locals, fromlist, level)
        except ImportError:
            if not level:
                self._namespace.not_imported(name)
            raise
        self._namespace.imported(module)
        return self._namespace.substituted(module)

    def __getitem__(self, name: str) -> Any:
        if name == "__import__":
            return dict.__getitem__(self, name)
        if name == "__build_class__":
            return _build_class
        value = self._namespace.find(name)
        if value is not MISSING:  # code of a class, or of eval
            return value
        real = self._namespace.real.get("__builtins__", builtins)
        table: Mapping[str, Any] = real.__dict__ if isinstance(real, ModuleType) else real
        if name not in table:
            self._namespace.missed(name)
        value = table[name]
        if value is object and reads_attribute(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            return _OBJECT
        if isinstance(value, type):
            convert = converter(value)
            return convert if convert is not None and called_here(sys._getframe(1)) else value  # pyright: ignore[reportPrivateUsage]
        return self._namespace.substituted(value)

    def __contains__(self, name: object) -> bool:
        return name in self._namespace.real or hasattr(builtins, str(name))


def _build_class(*args: Any, **kwargs: Any) -> Any:
    made = builtins.__build_class__(*args, **kwargs)
    if isinstance(made, type):
        MADE_WHILE_TRACING[made] = True
    return made


class _ClassView:
    """A class of the user's where a function is about to read its `__dict__`,
    in which other things lie while it is traced.
    """

    __slots__ = ("_kind",)

    def __init__(self, kind: type) -> None:
        self._kind = kind

    @property
    def __dict__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return substitute_for(vars)(self._kind)


class _ObjectView:
    """`object` where a function is about to read an attribute of it:
    `object.__getattribute__(o, name)` looks past the class of o.
    """

    def __getattribute__(self, name: str) -> Any:
        return substitute_for(getattr(object, name))


_OBJECT = _ObjectView()


class ModuleView(ModuleType):
    """A module whose members are substituted when they are looked up: NumPy, `math`, and modules of the user."""

    def __init__(
        self,
        real: ModuleType,
        substitute: Callable[[dict[str, Any], str, Any], Any],
        namespace: Namespace | None = None,
    ) -> None:
        object.__setattr__(self, "__real__", real)
        object.__setattr__(self, "__namespace__", real.__dict__ if namespace is None else namespace)
        object.__setattr__(self, "__substitute__", substitute)

    def __getattribute__(self, name: str) -> Any:
        real = object.__getattribute__(self, "__real__")
        if name == "__dict__":
            return object.__getattribute__(self, "__namespace__")
        if is_special(name):
            return type(self) if name == "__class__" else (real if name == "__real__" else getattr(real, name))
        try:
            value = getattr(real, name)
        except AttributeError:
            object.__getattribute__(self, "__substitute__")(real.__dict__, name, MISSING)
            raise
        if isinstance(value, (type, np.ufunc)):
            convert = converter(value)
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            if convert is not None and called_here(frame):
                return convert
            if isinstance(value, np.ufunc) and reads_attribute(frame, *OF_LISTS):
                return MethodsOfUfunc(value)
        if real is np.random and callable(value) and not isinstance(value, type):
            return refuse_random(f"np.random.{name}", value)
        return object.__getattribute__(self, "__substitute__")(real.__dict__, name, value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise UnsupportedError(
            f"a traced function sets {self.__name__}.{name}, which would happen once and not at each call",
            location=user_location(),
        )

    def __dir__(self) -> list[str]:
        return dir(object.__getattribute__(self, "__real__"))

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "__real__"))

    def __eq__(self, other: object) -> bool:
        real = object.__getattribute__(self, "__real__")
        return real is (object.__getattribute__(other, "__real__") if isinstance(other, ModuleView) else other)

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "__real__"))

    def __reduce__(self) -> Any:
        import importlib

        return importlib.import_module, (object.__getattribute__(self, "__real__").__name__,)


@cache
def stored_globals(code: CodeType) -> tuple[str, ...]:
    """The global names that code, or code within it, stores or deletes."""
    names: dict[str, None] = {}
    pending = [code]
    while pending:
        part = pending.pop()
        names.update(
            {name_of(part, op, n): None for op, n, _ in instructions(part) if op in ("STORE_GLOBAL", "DELETE_GLOBAL")}
        )
        pending += [x for x in part.co_consts if isinstance(x, CodeType)]
    return tuple(names)


@cache
def code_names(code: CodeType) -> tuple[frozenset[str], bool, frozenset[str]]:
    """(global names read, whether it imports, names of enclosing functions that it stores),
    of code and code within it.
    """
    read: set[str] = set()
    stored: set[str] = set()
    imports = False
    pending = [code]
    while pending:
        part = pending.pop()
        for op, n, _ in instructions(part):
            if op in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                read.add(name_of(part, op, n))
            elif op in ("STORE_DEREF", "DELETE_DEREF") and (name := name_of(part, op, n)) in part.co_freevars:
                stored.add(name)
            elif op == "IMPORT_NAME":
                imports = True
        pending += [x for x in part.co_consts if isinstance(x, CodeType)]
    return frozenset(read), imports, frozenset(stored)
