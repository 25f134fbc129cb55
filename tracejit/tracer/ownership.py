"""Whose code something is: the user's, which is redirected while it is traced, or an installed package's,
which is left alone.
"""

from __future__ import annotations

import sys
from enum import EnumMeta
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tracejit.support.source import is_internal
from tracejit.support.type_flags import HEAP_TYPE, IMMUTABLE_TYPE
from tracejit.support.weak import WeakMap

__all__ = [
    "MADE_WHILE_TRACING", "is_installed", "is_users_enumeration", "is_users_function", "is_users_module",
    "is_users_type", "module_of",
]  # fmt: skip


@cache
def _installed_roots() -> tuple[str, ...]:
    import site  # at first use: both take a millisecond to import
    import sysconfig

    paths = sysconfig.get_paths()
    roots = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths}
    roots.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
    roots.add(str(site.getusersitepackages()) if hasattr(site, "getusersitepackages") else "")
    return tuple(str(Path(root)) + "/" for root in roots if root)


@cache
def is_installed(file: str) -> bool:
    """Whether a file of Python code is a package's, Python's own or ours."""
    path = file.replace("\\", "/")
    if path.startswith("<frozen") or path == "<__array_function__ internals>" or is_internal(file):
        return True
    return (
        "/site-packages/" in path
        or "/dist-packages/" in path
        or path.startswith(tuple(root.replace("\\", "/") for root in _installed_roots()))
    )


def is_users_function(function: FunctionType) -> bool:
    """Whether a function is the user's.  Code made by `exec` (a dataclass's `__init__`) belongs to the module it was
    made for.
    """
    file = function.__code__.co_filename
    if file.startswith("<") and not file.startswith("<frozen"):
        file = function.__globals__.get("__file__") or file
    return not is_installed(file)


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is the user's: a file of theirs, `__main__`, or one made at run time."""
    held = vars(module)  # a module's own `__getattr__` may fail for names that it does not expect
    file = held.get("__file__")
    if file is not None:
        return not is_installed(file)
    spec = held.get("__spec__")
    if spec is not None and spec.origin in ("built-in", "frozen"):
        return False
    return module.__name__ not in sys.builtin_module_names and not _is_namespace_of_installed(module)


def _is_namespace_of_installed(module: ModuleType) -> bool:
    """A namespace package has no file but directories."""
    return any(is_installed(str(path) + "/") for path in vars(module).get("__path__", ()))


_classes: WeakMap[type, bool] = WeakMap()
MADE_WHILE_TRACING: WeakMap[type, bool] = WeakMap()
"""The classes whose statements traced code has run."""


def module_of(kind: type) -> str:
    """The name of the module a class is from; empty where its code ran under no name."""
    return getattr(kind, "__module__", None) or ""


def _is_users_class(kind: type) -> bool:
    if isinstance(kind, EnumMeta) or kind.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) != HEAP_TYPE:
        return False
    functions = [x for x in vars(kind).values() if type(x) is FunctionType]
    if any(is_users_function(f) for f in functions):
        return True
    if functions and not _is_of_users_module(kind):
        return False
    if module_of(kind) in ("builtins", "__builtin__"):  # also what `exec` makes where there is no `__name__`
        return "__dict__" in vars(kind) and "__weakref__" in vars(kind)
    module = sys.modules.get(module_of(kind))
    return module is None or is_users_module(module)  # no module: one made at run time


def is_users_enumeration(kind: type) -> bool:
    """Whether a class is an enumeration of the user's: its members are values, its methods are code."""
    return isinstance(kind, EnumMeta) and _is_of_users_module(kind)


def _is_of_users_module(kind: type) -> bool:
    """Whether a class says that it is from a module of the user's."""
    module = sys.modules.get(module_of(kind))
    return module is not None and is_users_module(module)


def is_users_type(kind: Any) -> bool:
    """Whether a class is defined by the user.  Enumerations are values and do not count."""
    if not isinstance(kind, type):
        return False
    found = _classes.get(kind)
    if found is None:
        found = _classes[kind] = _is_users_class(kind)
    return found
