"""What stands for what a traced function reads outside: clones of functions, views of modules, tracers of arrays."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, contextmanager
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, TypeVar

import numpy as np

from tracejit.ir.extents import DimDependent
from tracejit.support.config import config
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import define, field
from tracejit.support.source import Location, is_internal
from tracejit.support.weak import WeakMap
from tracejit.tracer.bytecode import catches, decides, swallows
from tracejit.tracer.caches import Cached, CachedProperty
from tracejit.tracer.catching import managed
from tracejit.tracer.contents import family, namespace_of, underlying
from tracejit.tracer.current import current_trace
from tracejit.tracer.environment import Environment, getenv
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.methods import holds_attributes
from tracejit.tracer.namespace import ModuleView, Namespace, code_names, stored_globals
from tracejit.tracer.ownership import is_users_enumeration, is_users_function, is_users_module, is_users_type
from tracejit.tracer.places import MISSING, CellPlace, NamePlace, NamesPlace
from tracejit.tracer.recorder import symbols_here
from tracejit.tracer.statements.calls import statements
from tracejit.tracer.substitutes import refuse_random, substitute_for, type_of
from tracejit.tracer.trace import Trace
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.wrappers import CACHED, WRAPPERS, is_wrapper, leads_to_users, rewrapped

__all__ = ["Substitution", "substitution"]

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), range, slice, np.dtype, type(Ellipsis)})
_DECORATED = ContextDecorator()(iter).__code__  # type: ignore[attr-defined, arg-type]
_CONTEXT_MANAGER = contextmanager(iter).__code__  # type: ignore[attr-defined, arg-type]
_SINGLE_DISPATCH = functools.singledispatch(len).__code__  # type: ignore[attr-defined]
_MEMBERS = frozenset({staticmethod, classmethod, property, functools.cached_property, CACHED})
_HOLDERS = _MEMBERS | {functools.partial, functools.partialmethod, functools.singledispatchmethod, np.vectorize}
_WATCHED_MODULES = frozenset({
    "builtins", "copy", "functools", "importlib", "itertools", "math", "os", "random", "scipy", "scipy.fft",
    "scipy.linalg", "scipy.special", "tracejit", "tracejit.numpy", "warnings",
})  # fmt: skip


@define(eq=False)
class Substitution:
    """The substitutes: of modules and namespaces one that lasts, shared by all traces; of a function one for each
    trace, as it may get attributes there, and one for use outside of traces.
    """

    clones: WeakMap[FunctionType, FunctionType] = field(factory=WeakMap[FunctionType, FunctionType])
    originals: WeakMap[FunctionType, FunctionType] = field(factory=WeakMap[FunctionType, FunctionType])
    namespaces: dict[int, Namespace] = field(factory=dict[int, Namespace])
    modules: dict[str, ModuleView] = field(factory=dict[str, ModuleView])
    lock: threading.RLock = field(factory=threading.RLock)

    def redirect(self, function: F) -> F:
        """The function as it is traced: a clone that sees traced functions in place of NumPy's.

        Plain functions, bound methods and `functools.partial` objects are cloned, callable objects of a user's class
        get redirected methods for the trace; anything else is returned as it is.  A function has one clone in a trace.
        A function of an installed package is cloned too if it is given here, the functions it calls are not.  One of
        this package never is.

        Raises: UnsupportedError, when the clone is called, if the function or one of the user's it calls stores global
        names.
        """
        if is_wrapper(function):
            return self.value(function)
        if is_internal(getattr(getattr(function, "__code__", None), "co_filename", "")):
            return function
        if type(function) is FunctionType:
            return self.function(function)  # type: ignore[return-value]
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            self.value(function)
            return MethodType(self.function(function.__func__), function.__self__)  # type: ignore[return-value]
        return self.value(function)

    def name(self, namespace: dict[str, Any], name: str, value: Any) -> Any:
        """What stands for a global name, or a module's attribute; the current trace depends on it."""
        trace = current_trace()
        if trace is not None:
            trace.reads.note(NamePlace(namespace, name), value)
        return self.value(value)

    def names(self, namespace: dict[str, Any]) -> list[str]:
        """The names of a module; the current trace depends on all of them."""
        trace = current_trace()
        if trace is not None:
            place = NamesPlace.of(namespace, list)
            trace.reads.note(place, place.names)
        return list(namespace)

    def value(self, value: Any) -> Any:
        """What stands for a value from outside."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, Tracer):
            return value
        found = self._stands_for(value, kind)
        if found is not value and not isinstance(found, (Tracer, MethodType)):
            trace = current_trace()
            if trace is not None:
                trace.changes.stand_ins.add(found, value)
        return found

    def _stands_for(self, value: Any, kind: Any) -> Any:
        if kind is FunctionType:
            if value is os.getenv:
                return getenv
            if is_users_function(value):
                return self.function(value)
            return self._wrapper(value) if value.__closure__ else substitute_for(value)
        if isinstance(value, np.ndarray):
            trace = current_trace()
            return value if trace is None else trace.reads.array(value)
        if kind is ModuleType:
            return self.module(value)
        if kind in (MethodType, BuiltinMethodType) and _is_pythons_random(value.__self__):  # random.random is one
            return refuse_random(f"random.{value.__name__}", value)
        if kind is MethodType:
            return self._method(value)
        if kind in _HOLDERS or issubclass(kind, WRAPPERS):
            return self._holder(value)
        if isinstance(value, (tuple, frozenset)) or family(kind) is not None or namespace_of(value) is not None:
            if is_users_type(kind):
                self._meet(value)
            trace = current_trace()
            return value if trace is None else trace.container(value)  # type: ignore[arg-type]
        if kind is MappingProxyType:
            trace = current_trace()
            if trace is None or not trace.reads.is_outside(value):
                return value
            held = underlying(value)
            found = self.value(held)
            return value if found is held else trace.once(value, lambda _: MappingProxyType(found))
        if value is os.environ:
            return Environment()
        if kind in (BuiltinMethodType, MethodWrapperType) and (
            type(value.__self__) is np.ndarray or family(type(value.__self__)) is not None
        ):
            owner = self.held(value.__self__)  # w.sum, or LOG.append, under a name
            return value if owner is value.__self__ else getattr(owner, value.__name__)
        if kind is MethodWrapperType and value.__name__ == "__call__" and leads_to_users(value.__self__):
            return self.held(value.__self__)
        found = substitute_for(value)
        if found is not value:
            return found
        if getattr(value, "__module__", None) == "numpy.random" and callable(value) and not isinstance(value, type):
            return refuse_random(f"np.random.{value.__name__}", value)
        if isinstance(value, (np.random.Generator, np.random.RandomState)) or _is_pythons_random(value):
            return _RandomView(value)
        self._meet(value)
        return value

    def _wrapper(self, value: Any) -> Any:
        """What stands for a function that the standard library has put around one of the user's."""
        found = substitute_for(value)
        if found is not value or not is_wrapper(value):
            return found
        if value.__code__ is _SINGLE_DISPATCH:
            return self._dispatched(value)
        if value.__code__ is _DECORATED:
            return self._decorated(value)
        if value.__code__ is _CONTEXT_MANAGER:
            return contextmanager(self.held(value.__wrapped__))
        return rewrapped(value, self.held)

    def _decorated(self, value: Any) -> Any:
        """A function that a `contextlib.ContextDecorator` has decorated, whose manager may swallow errors."""
        function, manager = (cell.cell_contents for cell in rewrapped(value, self.held).__closure__)

        def run(*args: Any, **kwargs: Any) -> Any:
            with managed(manager._recreate_cm()):
                return function(*args, **kwargs)

        return functools.update_wrapper(run, value)

    def _dispatched(self, value: Any) -> Any:
        """A `functools.singledispatch` function that takes a traced array for what it stands for."""
        self.held(dict(value.registry))

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            if not args:
                return value(*args, **kwargs)
            return self.held(value.dispatch(type_of(args[0])))(*args, **kwargs)

        return functools.update_wrapper(dispatch, value)

    def _holder(self, value: Any) -> Any:
        """What stands for a `functools.partial`, or for what a class holds to be called and is no function."""
        if type(value) is functools.partial:
            return self._partial(value)
        if type(value) not in _MEMBERS:
            return self._rewrapped(value) if is_wrapper(value) else value
        if type(value) is property:
            get, set_, delete = (None if f is None else self.held(f) for f in (value.fget, value.fset, value.fdel))
            return property(get, set_, delete, value.__doc__)
        if type(value) is functools.cached_property:
            return CachedProperty(value, self)
        if type(value) is CACHED:
            trace = current_trace()
            return Cached(value, self) if trace is None else trace.once(value, lambda held: Cached(held, self))
        return type(value)(self.held(value.__func__))

    def _rewrapped(self, value: Any) -> Any:
        if not is_users_type(type(value)):
            return rewrapped(value, self.held)
        self._meet(value)
        made, trace = rewrapped(value, self.held), current_trace()
        if trace is not None and type(value).__dictoffset__:
            trace.reads.reach(value)
            trace.reads.stands_for(made, value)
        return made

    def held(self, value: Any) -> Any:
        """What stands for a value that a function or method from outside holds: no name leads to it."""
        trace = current_trace()
        if trace is not None:
            trace.reads.reach(value)
        return self.value(value)

    def _meet(self, value: Any) -> None:
        """The methods of a user's class, or of the class of an object, are redirected from here on."""
        trace = current_trace()
        kind = value if isinstance(value, type) else type(value)
        if trace is None:
            return
        if is_users_type(type(kind)):  # a class of a class
            trace.patches.add(type(kind))
        if is_users_type(kind) or is_users_enumeration(kind):
            trace.patches.add(kind)
        elif kind is not value:
            trace.warn_of_state(value)
            if holds_attributes(kind):
                trace.patches.watch(kind)
                trace.warn_of(value)

    def function(self, function: FunctionType) -> FunctionType:
        """The clone of a user's function."""
        if isinstance(function.__globals__, Namespace):
            return function
        stored = stored_globals(function.__code__)
        if stored:
            return _refusing(function, stored)
        trace = current_trace()
        if trace is not None:
            return trace.clone(function, self._build)
        if function.__closure__ or function.__dict__ or _has_special_defaults(function):
            return self._build(function)
        with self.lock:
            clone = self.clones.get(function)
            if clone is None or not _same_function(clone, function):
                clone = self.clones[function] = self._build(function)
        return clone

    def _build(self, function: FunctionType, trace: Trace | None = None) -> FunctionType:
        cells = function.__closure__ or ()
        names = function.__code__.co_freevars
        stored = code_names(function.__code__)[2]
        closure = [self._cell(cell, name, name in stored, trace) for cell, name in zip(cells, names, strict=True)]
        code = traced_code(function.__code__)
        if code is function.__code__ and (swallows(code) or catches(code)):
            _know_sizes()
        by_name = dict(zip(names, [new for new, _ in closure], strict=True))
        clone = FunctionType(
            code,
            self.namespace(function.__globals__),
            function.__name__,
            function.__defaults__,
            tuple([by_name[n] if n in by_name else CellType(statements()) for n in code.co_freevars]),
        )
        _copy_attributes(function, clone)
        if trace is not None:
            trace.remember(function, clone)  # before its cells are filled: a function may refer to itself
        for cell, (new, is_fresh), name in zip(cells, closure, names, strict=True):
            if is_fresh:
                self._fill(cell, new, name, trace)
            if trace is not None and name in stored:
                trace.changes.may_store(cell, new, name, function)
        if _has_special_defaults(function):
            clone.__defaults__ = (
                None if function.__defaults__ is None else tuple(self.held(x) for x in function.__defaults__)
            )
            if function.__kwdefaults__:
                clone.__kwdefaults__ = {name: self.held(x) for name, x in function.__kwdefaults__.items()}
        if trace is not None:
            if function.__dict__:
                clone.__dict__ = self.held(function.__dict__)
            trace.enter(function)
        self.originals[clone] = function
        return clone

    def original(self, x: Any) -> Any:
        """The function, or bound method, that a clone stands for; anything else as it is."""
        if type(x) is MethodType and type(x.__func__) is FunctionType:
            function = self.original(x.__func__)
            return x if function is x.__func__ else MethodType(function, x.__self__)
        return x if type(x) is not FunctionType else self.originals.get(x) or x

    def _cell(self, cell: CellType, name: str, stored: bool, trace: Trace | None) -> tuple[CellType, bool]:
        """(what a clone has for a variable of an enclosing function, whether it is to be filled).

        The variable itself where it holds what nothing has to stand for: others may bind it anew while the function
        is traced.  Else one that all clones share.
        """
        if trace is None:
            return (cell, False) if stored else (CellType(), True)
        place = CellPlace(cell, name)
        value = place.read()
        if name == "__class__":
            return cell, False
        if value is MISSING:
            trace.reads.note(place, value)  # it may get one
            trace.share(cell)
            return cell, False
        trace.reads.note(place, value)
        if type(value) in _PLAIN and not trace.stands_in_for(cell):
            trace.share(cell)
        return (cell, False) if trace.shares(cell) else trace.cell(cell)

    def _fill(self, cell: CellType, new: CellType, name: str, trace: Trace | None) -> None:
        value = CellPlace(cell, name).read()
        if value is not MISSING:
            new.cell_contents = value if name == "__class__" else self.value(value)

    def namespace(self, real: dict[str, Any]) -> Namespace:
        """The namespace that stands for a function's globals."""
        with self.lock:
            found = self.namespaces.get(id(real))
            if found is None or found.real is not real:
                found = self.namespaces[id(real)] = Namespace(real, self)
            return found

    def module(self, module: ModuleType) -> ModuleType:
        """The view of a module: NumPy's, `math`, a user's."""
        name = module.__name__
        if not (name == "numpy" or name.startswith("numpy.") or name in _WATCHED_MODULES or is_users_module(module)):
            return module
        with self.lock:
            view = self.modules.get(name)
            if view is None or object.__getattribute__(view, "__real__") is not module:
                view = self.modules[name] = (
                    ModuleView(module, self.name, self.namespace(module.__dict__))
                    if is_users_module(module)
                    else ModuleView(module, lambda _n, _a, value: self.value(value))
                )
            return view

    def _method(self, method: MethodType) -> Any:
        trace = current_trace()
        if trace is None or not trace.has_made(method.__self__):
            self.held(method.__self__)
        function = self.value(method.__func__)
        return method if function is method.__func__ else MethodType(function, method.__self__)

    def _partial(self, partial: functools.partial[Any]) -> Any:
        trace = current_trace()
        if trace is None:
            return self._partial_of(partial)
        if trace.changes.stand_ins.matters(partial.func) or trace.has_made(partial):
            return partial
        trace.reads.reach(partial)
        return trace.once(partial, self._partial_of)

    def _partial_of(self, partial: functools.partial[Any]) -> Any:
        function = self.value(partial.func)
        args = tuple(self.held(x) for x in partial.args)
        keywords = {name: self.held(x) for name, x in partial.keywords.items()}
        same = function is partial.func and all(a is b for a, b in zip(args, partial.args, strict=True))
        same = same and all(keywords[name] is partial.keywords[name] for name in keywords)
        return partial if same else functools.partial(function, *args, **keywords)


substitution = Substitution()


def _is_pythons_random(value: Any) -> bool:
    """Whether a value is a generator of Python's `random`, which holds one itself."""
    random = sys.modules.get("random")
    return random is not None and isinstance(value, random.Random)


def _know_sizes() -> None:
    """A function may end what a trace begins again by, where it asks for a symbolic extent: they are known before.

    Raises: DimDependent.
    """
    symbols = symbols_here()
    if symbols:
        raise DimDependent(symbols)


def traced_code(code: CodeType) -> CodeType:
    """The code that is traced in place of a function's: with calls of `Statements` where it decides, if possible."""
    if not config.statements or not decides(code):
        return code
    from tracejit.tracer.statements.source import rewritten  # for speed of import

    return rewritten(code) or code


def _has_special_defaults(function: FunctionType) -> bool:
    values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(type(x) not in _PLAIN for x in values)


def _same_function(clone: FunctionType, function: FunctionType) -> bool:
    """Whether a clone is up to date: code and defaults can be assigned."""
    return (
        clone.__code__ is traced_code(function.__code__)
        and clone.__defaults__ is function.__defaults__
        and clone.__kwdefaults__ is function.__kwdefaults__
    )


def _copy_attributes(function: FunctionType, clone: FunctionType) -> None:
    clone.__dict__.update(function.__dict__)
    clone.__kwdefaults__ = function.__kwdefaults__
    clone.__annotations__ = function.__annotations__
    clone.__doc__ = function.__doc__
    clone.__module__ = function.__module__
    clone.__qualname__ = function.__qualname__
    parameters = getattr(function, "__type_params__", None)  # from 3.12 on
    if parameters is not None:
        setattr(clone, "__type_params__", parameters)  # noqa: B010


def _refusing(function: FunctionType, stored: tuple[str, ...]) -> Any:
    """Stands for a function that stores globals: refused when it is called while tracing."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if current_interpreter() is eager:
            return function(*args, **kwargs)
        names = ", ".join(map(repr, stored))
        raise UnsupportedError(
            f"{function.__qualname__} changes the global {names}, which would happen once, while tracing, and not at "
            "each call; "
            "return the new value instead, or turn redirection off with @tj.jit(redirect=False)",
            location=Location(function.__code__, 0),
        )

    return refuse


class _RandomView:
    """A generator of random numbers from outside; its methods are refused while tracing."""

    __slots__ = ("_real",)

    def __init__(self, real: Any) -> None:
        self._real = real

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] -- isinstance() sees the real one
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._real, name)
        return refuse_random(f"{type(self._real).__name__}.{name}", value) if callable(value) else value
