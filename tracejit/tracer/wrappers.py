"""What packages put around the user's functions: wrappers (`@np.errstate(...)`, `@contextmanager`'s managers as
decorators, `functools.partialmethod`, `singledispatchmethod`, subclasses of `property`).

Their own code is left alone; around clones of the user's functions they are made again.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import CellType, DynamicClassAttribute, FunctionType, MethodType
from typing import Any

import numpy as np

from tracejit.tracer.ownership import is_users_function, is_users_type
from tracejit.tracer.substitutes import converter, type_of

__all__ = ["CACHED", "WRAPPERS", "is_wrapper", "leads_to_users", "rewrapped"]

CACHED: Any = type(functools.cache(lambda: None))
"""The class of functions that remember their results."""
WRAPPERS = (
    property, staticmethod, classmethod, functools.partial, functools.singledispatchmethod, DynamicClassAttribute,
)  # fmt: skip
"""Builtin classes of wrappers from which users derive others."""
_DEPTH = 8
"""Wrappers in wrappers that are followed."""


def leads_to_users(value: Any, depth: int = _DEPTH) -> bool:
    """Whether calling a value, or reading it as a descriptor, runs a function of the user's that can be told."""
    if _is_users(value):
        return True
    return depth > 0 and any(leads_to_users(x, depth - 1) for x in _inside(value))


def is_wrapper(value: Any) -> bool:
    """Whether a value is a package's wrapper around functions of the user's."""
    return not _is_users(value) and leads_to_users(value)


def _is_users(value: Any) -> bool:
    """Whether a value is a function of the user's, or an object that is called as one."""
    if type(value) is FunctionType:
        return is_users_function(value)
    return callable(value) and not isinstance(value, (type, *WRAPPERS)) and is_users_type(type(value))


def _inside(value: Any) -> list[Any]:
    """The functions that a value calls."""
    if type(value) is FunctionType:
        if value.__globals__.get("__name__", "").partition(".")[0] == "tracejit":
            return []
        held = [_content(cell) for cell in value.__closure__ or ()]
        return [x for x in (*held, getattr(value, "__wrapped__", None)) if callable(x)]
    if isinstance(value, functools.partial) or type(value) is functools.partialmethod:
        return [value.func]
    if isinstance(value, (staticmethod, classmethod, MethodType)):
        return [value.__func__]
    if type(value) is CACHED:
        return [getattr(value, "__wrapped__", None)]
    if isinstance(value, (property, DynamicClassAttribute)):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.singledispatchmethod):
        return [value.func, *value.dispatcher.registry.values()]
    if type(value) is np.vectorize:
        return [value.pyfunc]
    return []


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def rewrapped(value: Any, substitute: Callable[[Any], Any]) -> Any:
    """A wrapper around what stands for the functions that it calls."""
    if type(value) is FunctionType:
        return _function(value, substitute)
    if type(value) is functools.partialmethod:
        keywords = {name: substitute(x) for name, x in value.keywords.items()}
        return functools.partialmethod(substitute(value.func), *map(substitute, value.args), **keywords)
    if isinstance(value, property):
        functions = [None if f is None else substitute(f) for f in (value.fget, value.fset, value.fdel)]
        return _of_the_kind(value, property, *functions)
    if isinstance(value, DynamicClassAttribute):
        made = copy.copy(value)
        made.fget, made.fset, made.fdel = (f and substitute(f) for f in (value.fget, value.fset, value.fdel))
        return made
    if isinstance(value, (staticmethod, classmethod)):
        base = staticmethod if isinstance(value, staticmethod) else classmethod
        return _of_the_kind(value, base, substitute(value.__func__))
    if isinstance(value, functools.partial):
        keywords = {name: substitute(x) for name, x in value.keywords.items()}
        return _of_the_kind(value, functools.partial, substitute(value.func), *map(substitute, value.args), **keywords)
    if isinstance(value, functools.singledispatchmethod):
        return _DispatchedMethod(value, substitute)
    if type(value) is np.vectorize:
        names = ("otypes", "excluded", "cache", "signature")
        options = {name: getattr(value, name) for name in names}
        kind = converter(np.vectorize) or np.vectorize  # which knows traced arrays
        return kind(substitute(value.pyfunc), doc=value.__doc__, **options)
    return value


def _of_the_kind(value: Any, base: Any, /, *args: Any, **kwargs: Any) -> Any:
    """An object of the user's subclass of a builtin class, which shares its attributes with another."""
    made = base.__new__(type(value), *args, **kwargs)
    base.__init__(made, *args, **kwargs)
    if type(value).__dictoffset__:
        object.__setattr__(made, "__dict__", object.__getattribute__(value, "__dict__"))
    return made


def _function(function: FunctionType, substitute: Callable[[Any], Any]) -> FunctionType:
    contents = [_content(cell) for cell in function.__closure__ or ()]
    closure = tuple(
        [
            CellType(substitute(x) if not _is_manager(x) else _manager(x, substitute)) if _matters(x) else cell
            for cell, x in zip(function.__closure__ or (), contents, strict=True)
        ]
    )
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)
    functools.update_wrapper(made, function)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__ = substitute(function.__dict__)
    return made


def _matters(x: Any) -> bool:
    """Whether a wrapper runs the user's code through what it holds."""
    return (callable(x) and leads_to_users(x)) or _is_manager(x) or is_users_type(type(x))


def _is_manager(x: Any) -> bool:
    """Whether a value is what a function with `contextlib.contextmanager` gives."""
    return hasattr(x, "_recreate_cm") and type(getattr(x, "func", None)) is FunctionType


def _manager(x: Any, substitute: Callable[[Any], Any]) -> Any:
    """The same manager of what stands for the user's function."""
    return type(x)(substitute(x.func), x.args, x.kwds)


class _DispatchedMethod:
    """Stands for a `functools.singledispatchmethod` that takes a traced array for what it stands for."""

    __slots__ = ("_original", "_substitute")

    def __init__(self, original: Any, substitute: Callable[[Any], Any]) -> None:
        self._original, self._substitute = original, substitute

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self._substitute(dict(self._original.dispatcher.registry))

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            method = self._original.dispatcher.dispatch(type_of(args[0]))
            return self._substitute(method).__get__(instance, owner)(*args, **kwargs)

        return dispatch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
