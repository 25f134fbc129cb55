"""A user's function as it is traced: a clone whose view of NumPy,
of its modules and of its own functions is redirected.

`redirect(function)` gives the clone: the same code object over other globals (`namespace.Namespace`) and, where they
hold something that is substituted, other closure cells.  Substituted are NumPy and `math`, under any name, by views of
them; functions that make arrays by ones that make traced arrays; Python functions of the user by their clones;
`functools.partial` objects and bound methods of those; arrays by tracers that read them at each call.  Methods need
more, see `methods`.  Functions of installed packages and of this one are left alone.

A `Trace` is what one tracing of a function knows: what it read from outside, and clones that are good for this trace
only.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

import numpy as np

from tracejit.support.errors import LeakedTracerError, Restart, UnsupportedError
from tracejit.support.nodes import define, field
from tracejit.support.source import Location, is_internal, user_location, warn_once
from tracejit.support.tree import flatten, unflatten
from tracejit.support.weak import WeakMap
from tracejit.tracer import namespace
from tracejit.tracer.bytecode import asks_for_booleans
from tracejit.tracer.captured import MOST_ITEMS, Reads
from tracejit.tracer.changes import Changes, holds_tracer
from tracejit.tracer.contents import family, namespace_of, underlying
from tracejit.tracer.copies import deep_copy, shallow_copy
from tracejit.tracer.interpreter import current_interpreter, eager, use_interpreter
from tracejit.tracer.methods import CACHED, ClassPatches, holds_attributes
from tracejit.tracer.namespace import ModuleView, Namespace, code_names, stored_globals
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.ownership import is_users_function, is_users_module, is_users_type, module_of
from tracejit.tracer.places import MISSING, CallPlace, CellPlace, ClassPlace, ItemPlace, NamePlace, held_by_class
from tracejit.tracer.substitutes import REDIRECTED, Redirected, refuse_random, substitute_for, type_of
from tracejit.tracer.tracer import Tracer

__all__ = ["Trace", "current_trace", "prepared", "redirect", "tracing"]

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), range, slice, np.dtype, type(Ellipsis)})
_CONTEXT_MANAGER = contextmanager(iter).__code__  # type: ignore[attr-defined, arg-type]
_SINGLE_DISPATCH = functools.singledispatch(len).__code__  # type: ignore[attr-defined]
_MEMBERS = frozenset({staticmethod, classmethod, property, functools.cached_property, CACHED})
_WATCHED_MODULES = frozenset({"copy", "importlib", "math", "os", "random"})

_trace: ContextVar[Trace | None] = ContextVar("tracejit_trace", default=None)


def _wants_booleans() -> bool:
    trace = _trace.get()
    return trace is not None and trace.wants_booleans


OPERATORS.wants_booleans = _wants_booleans


def current_trace() -> Trace | None:
    """The trace this thread is in, None outside."""
    return _trace.get()


@define(eq=False)
class _Substitution:
    """The substitutes that last: one for each function, module and namespace, shared by all traces."""

    clones: WeakMap[FunctionType, FunctionType] = field(factory=WeakMap[FunctionType, FunctionType])
    originals: WeakMap[FunctionType, FunctionType] = field(factory=WeakMap[FunctionType, FunctionType])
    namespaces: dict[int, Namespace] = field(factory=dict[int, Namespace])
    modules: dict[str, ModuleView] = field(factory=dict[str, ModuleView])
    lock: threading.RLock = field(factory=threading.RLock)

    def name(self, namespace: dict[str, Any], name: str, value: Any) -> Any:
        """What stands for a global name, or a module's attribute; the current trace depends on it."""
        trace = _trace.get()
        if trace is not None:
            trace.reads.note(NamePlace(namespace, name), value)
        return self.value(value)

    def value(self, value: Any) -> Any:
        """What stands for a value from outside."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, Tracer):
            return value
        if kind is FunctionType:
            if value is os.getenv:
                return _getenv
            if is_users_function(value):
                return self.function(value)
            return self._wrapper(value) if hasattr(value, "__wrapped__") else substitute_for(value)
        if isinstance(value, np.ndarray):
            trace = _trace.get()
            return value if trace is None else trace.reads.array(value)
        if kind is ModuleType:
            return self.module(value)
        if kind in (MethodType, BuiltinMethodType) and _is_pythons_random(value.__self__):  # random.random is one
            return refuse_random(f"random.{value.__name__}", value)
        if kind is MethodType and type(value.__func__) is FunctionType:
            return self._method(value)
        if kind is functools.partial:
            return self._partial(value)
        if kind in _MEMBERS:
            return self._member(value)
        if isinstance(value, tuple) or family(kind) is not None or namespace_of(value) is not None:
            if is_users_type(kind):
                self._meet(value)
            trace = _trace.get()
            return value if trace is None else trace.container(value)  # type: ignore[arg-type]
        if kind is MappingProxyType:
            trace = _trace.get()
            if trace is None or not trace.reads.is_outside(value):
                return value
            held = underlying(value)
            found = self.value(held)
            return value if found is held else MappingProxyType(found)
        if value is os.environ:
            return _Environment()
        if kind is BuiltinMethodType and (
            type(value.__self__) is np.ndarray or family(type(value.__self__)) is not None
        ):
            owner = self.held(value.__self__)  # w.sum, or LOG.append, under a name
            return value if owner is value.__self__ else getattr(owner, value.__name__)
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
        wrapped = value.__wrapped__
        if type(wrapped) is not FunctionType or not is_users_function(wrapped):
            return substitute_for(value)
        if value.__code__ is _CONTEXT_MANAGER:
            return contextmanager(self.held(wrapped))
        if value.__code__ is _SINGLE_DISPATCH:
            return self._dispatched(value)
        return substitute_for(value)

    def _dispatched(self, value: Any) -> Any:
        """A `functools.singledispatch` function that takes a traced array for what it stands for."""
        self.held(dict(value.registry))

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            if not args:
                return value(*args, **kwargs)
            return self.held(value.dispatch(type_of(args[0])))(*args, **kwargs)

        return functools.update_wrapper(dispatch, value)

    def _member(self, value: Any) -> Any:
        """What stands for something else than a function that a class holds to be called."""
        if type(value) is property:
            get, set_, delete = (None if f is None else self.value(f) for f in (value.fget, value.fset, value.fdel))
            return property(get, set_, delete, value.__doc__)
        if type(value) is functools.cached_property:
            return _CachedProperty(value)
        return _Cached(value) if type(value) is CACHED else type(value)(self.value(value.__func__))

    def held(self, value: Any) -> Any:
        """What stands for a value that a function or method from outside holds: no name leads to it."""
        trace = _trace.get()
        if trace is not None:
            trace.reads.reach(value)
        return self.value(value)

    def _meet(self, value: Any) -> None:
        """The methods of a user's class, or of the class of an object, are redirected from here on."""
        trace = _trace.get()
        kind = value if isinstance(value, type) else type(value)
        if trace is None:
            return
        if is_users_type(kind):
            trace.patches.add(kind)
        elif kind is not value and holds_attributes(kind):
            trace.patches.watch(kind)
            trace.warn_of(value)

    def function(self, function: FunctionType) -> FunctionType:
        """The clone of a user's function."""
        if isinstance(function.__globals__, Namespace):
            return function
        stored = stored_globals(function.__code__)
        if stored:
            return _refusing(function, stored)
        trace = _trace.get()
        if function.__closure__ or function.__dict__ or _has_special_defaults(function):
            return self._build(function) if trace is None else trace.clone(function, self._build)
        with self.lock:
            clone = self.clones.get(function)
            if clone is None or not _same_function(clone, function):
                clone = self.clones[function] = self._build(function)
        if trace is not None:
            trace.enter(function)
        return clone

    def _build(self, function: FunctionType, trace: Trace | None = None) -> FunctionType:
        cells = function.__closure__ or ()
        names = function.__code__.co_freevars
        stored = code_names(function.__code__)[2]
        closure = tuple(cell if name in stored else CellType() for cell, name in zip(cells, names, strict=True))
        clone = FunctionType(
            function.__code__, self.namespace(function.__globals__), function.__name__, function.__defaults__, closure
        )
        _copy_attributes(function, clone)
        if trace is not None:
            trace.remember(function, clone)  # before its cells are filled: a function may refer to itself
        for cell, new, name in zip(cells, closure, names, strict=True):
            if new is not cell:
                self._fill(cell, new, name, trace)
            elif trace is not None:
                trace.changes.may_store(cell, name, function)
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

    def _fill(self, cell: CellType, new: CellType, name: str, trace: Trace | None) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            return
        if trace is not None and name != "__class__":
            trace.reads.note(CellPlace(cell, name), value)
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
        self.held(method.__self__)
        function = self.value(method.__func__)
        return method if function is method.__func__ else MethodType(function, method.__self__)

    def _partial(self, partial: functools.partial[Any]) -> Any:
        trace = _trace.get()
        if trace is not None:
            trace.reads.reach(partial)
        function = self.value(partial.func)
        args = tuple(self.held(x) for x in partial.args)
        keywords = {name: self.held(x) for name, x in partial.keywords.items()}
        same = function is partial.func and all(a is b for a, b in zip(args, partial.args, strict=True))
        same = same and all(keywords[name] is partial.keywords[name] for name in keywords)
        return partial if same else functools.partial(function, *args, **keywords)


def _is_pythons_random(value: Any) -> bool:
    """Whether a value is a generator of Python's `random`, which holds one itself."""
    random = sys.modules.get("random")
    return random is not None and isinstance(value, random.Random)


_substitution = _Substitution()


@define(eq=False)
class Trace:
    """One tracing of a function: what it reads from outside, its own clones, the classes whose methods it redirects."""

    patches: ClassPatches
    reads: Reads
    changes: Changes
    # the function tells an argument's True from other objects (`x is True`)
    need_booleans: Callable[[], None] = lambda: None
    wants_booleans: bool = False  # it does so, perhaps with what a comparison gave
    _clones: dict[tuple[int, int], tuple[FunctionType, Any, FunctionType]] = field(
        factory=dict[tuple[int, int], tuple[FunctionType, Any, FunctionType]]
    )
    _entered: set[int] = field(factory=set[int])
    _containers: dict[tuple[int, int], tuple[Any, Any]] = field(factory=dict[tuple[int, int], tuple[Any, Any]])

    def clone(self, function: FunctionType, build: Callable[[FunctionType, Trace], FunctionType]) -> FunctionType:
        """The clone of a function with cells.  Its cells hold tracers of one interpreter, so there is one for each."""
        key = id(function), id(current_interpreter())
        found = self._clones.get(key)
        return build(function, self) if found is None else found[2]

    def remember(self, function: FunctionType, clone: FunctionType) -> None:
        interpreter = current_interpreter()
        self._clones[id(function), id(interpreter)] = function, interpreter, clone

    def enter(self, function: FunctionType) -> None:
        """A function is about to be used: the classes its module defines get redirected methods."""
        self.reads.function(function)
        if asks_for_booleans(function.__code__):
            self.wants_booleans = True
            self.need_booleans()
        key = id(function.__globals__)
        if key not in self._entered:
            self._entered.add(key)
            for kind in _substitution.namespace(function.__globals__).classes():
                self.patches.add(kind)

    @contextmanager
    def changing(self) -> Generator[None]:
        """The block runs the function.  What it has changed before an exception stays, unless it will be run again."""
        try:
            yield
        except Restart:
            raise
        except BaseException:
            self.changes.keep(refuse=False)
            raise

    def warn_of(self, value: Any) -> None:
        """Where an object of an installed package holds items that are not followed, say so."""
        kind: Any = type(value)
        holds_items = any("__getitem__" in vars(base) for base in kind.__mro__)
        if holds_items and not module_of(kind).startswith(("tracejit.", "numpy")):
            warn_once(
                f"what is in an object of {module_of(kind)}.{kind.__qualname__} from outside is taken for a constant "
                "of the compiled "
                "program: only its attributes are followed; pass arrays as arguments, or call clear_cache() when it "
                "has changed",
                user_location(),
            )

    def restart(self) -> None:
        """The function is run again: what it has changed is undone."""
        self.changes.undo()
        self._containers.clear()

    def container(self, value: Any) -> Any:
        """A container from outside, with what stands for its items: a tuple, or a copy, one for the whole trace.

        A copy, because traced arrays must not get into the container itself; what the trace changes in it is put there
        at the end.
        """
        if not self.reads.is_outside(value) or (hasattr(value, "__len__") and len(value) > MOST_ITEMS):
            return value
        key = id(value), id(current_interpreter())
        known = self._containers.get(key)
        if known is not None:
            return known[1]
        self._containers[key] = value, value  # a container may hold itself
        if isinstance(value, tuple):
            items = tuple([_substitution.value(item) for item in value])
            changed = any(item is not one for item, one in zip(items, value, strict=True))
            found = tuple.__new__(type(value), items) if changed else value
        else:
            found = self.changes.copy(value, key, _substitution.value)
        self._containers[key] = value, found
        return found

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function that is traced, redirected."""
        self.reads.reach(getattr(function, "__self__", function))
        return redirect(function)

    def argument(self, value: Any) -> Any:
        """What stands for an argument that is not traced: a function, an object of the user's."""
        self.reads.reach(value)
        return _substitution.value(value)


class _Attributes:
    """What a trace makes of attributes (see `methods.Attributes`)."""

    def active(self) -> bool:
        return _trace.get() is not None

    def member(self, kind: type, name: str, original: Any, owner: type) -> Any:
        trace = _trace.get()
        if trace is not None:
            trace.reads.note(ClassPlace(owner if held_by_class(owner, name) is original else kind, name), original)
        return _substitution.value(original)

    def found(self, owner: Any, name: str, value: Any) -> Any:
        trace = _trace.get()
        if name == "__dict__":
            if trace is not None and trace.reads.is_outside(owner):
                trace.reads.reach(value, unseen=True)
            return value
        is_data = trace is not None and trace.reads.attribute(owner, name, value)
        return _substitution.value(value) if is_data else value

    def made(self, owner: Any, value: Any) -> Any:
        trace = _trace.get()
        if trace is None or not trace.reads.is_outside(owner):
            return value
        if type(owner).__dictoffset__:  # it may look there in ways that are not seen
            trace.reads.reach(object.__getattribute__(owner, "__dict__"))
        return _substitution.held(value)

    def descriptor(self, held: Any) -> None:
        trace = _trace.get()
        if trace is not None:
            trace.reads.reach(held)

    def function(self, function: FunctionType) -> Callable[..., Any]:
        return _substitution.value(function)

    def store(self, owner: Any, name: str, put: Callable[..., None], *value: Any) -> None:
        trace = _trace.get()
        if trace is None:
            put(owner, name, *value)
        else:
            trace.changes.store(owner, name, put, *value)


_attributes = _Attributes()


@contextmanager
def _outside() -> Generator[None]:
    """Nothing is traced in the block: functions that keep what they compute compute it as they do elsewhere."""
    token = _trace.set(None)
    try:
        with use_interpreter(eager):
            yield
    finally:
        _trace.reset(token)


class _CachedProperty:
    """Stands for a `cached_property`: an object from outside keeps the value that it has outside of traces."""

    __slots__ = ("_original",)

    def __init__(self, original: functools.cached_property[Any]) -> None:
        self._original = original

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        trace, original = _trace.get(), self._original
        if instance is None or trace is None:
            return original.__get__(instance, owner)
        if trace.reads.is_outside(instance):
            try:
                with _outside():
                    return original.__get__(instance, owner)
            except LeakedTracerError:  # it uses what this trace has stored in the object
                pass
        redirected = functools.cached_property(_substitution.value(original.func))
        redirected.__set_name__(type(instance), original.attrname)  # type: ignore[arg-type]
        return redirected.__get__(instance, owner)


class _Cached:
    """Stands for a function with `functools.cache`: it keeps what it gives outside of traces."""

    __slots__ = ("_original",)

    def __init__(self, original: Any) -> None:
        self._original = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace, original = _trace.get(), self._original
        if trace is None:
            return original(*args, **kwargs)
        args, kwargs = tuple(map(_known, args)), {name: _known(x) for name, x in kwargs.items()}
        if holds_tracer((args, kwargs)):
            return original(*args, **kwargs)
        args = tuple([_substitution.original(x) for x in args])
        kwargs = {name: _substitution.original(x) for name, x in kwargs.items()}
        with _outside():
            found = original(*args, **kwargs)
        trace.reads.note(CallPlace(original, args, kwargs), found)
        return _substitution.value(found)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _known(x: Any) -> Any:
    """A number whose value the trace knows, as that."""
    known = x.known() if isinstance(x, Tracer) and not x.shape else None
    return x if known is None else known.item() if x.aval.weak else known[()]


class _Environment(MutableMapping[str, str]):
    """`os.environ` as a traced function sees it: the program depends on the variables that it looks up."""

    def _place(self, key: str) -> ItemPlace:
        real: Any = os.environ
        return ItemPlace(real._data, real.encodekey(key))

    def _note(self, key: str) -> None:
        trace = _trace.get()
        if trace is not None:
            place = self._place(key)
            trace.reads.note(place, place.read())

    def __getitem__(self, key: str) -> str:
        self._note(key)
        return os.environ[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._note(key)
        os.environ[key] = value

    def __delitem__(self, key: str) -> None:
        self._note(key)
        del os.environ[key]

    def _all(self) -> Any:
        trace, real = _trace.get(), os.environ
        if trace is not None:
            trace.reads.reach(real._data)  # type: ignore[attr-defined]
        return real

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def copy(self) -> dict[str, str]:
        return dict(self._all())


def _get_attribute(owner: Any, name: str, *default: Any) -> Any:
    _note_lookup(owner, name)
    if default and isinstance(owner, Tracer) and not _stands_for_one_with(owner, name):
        return default[0]  # a number of Python's has no shape
    return getattr(owner, name, *default)


def _has_attribute(owner: Any, name: str) -> bool:
    _note_lookup(owner, name)
    return _stands_for_one_with(owner, name) if isinstance(owner, Tracer) else hasattr(owner, name)


def _stands_for_one_with(x: Tracer, name: str) -> bool:
    """Whether what a traced value stands for has an attribute; a method of arrays that is not supported it has not."""
    kind = type_of(x)
    if kind is np.ndarray:
        return hasattr(np.empty(0) if name.startswith("__") else x, name)
    return hasattr(kind(0), name)


def _note_lookup(owner: Any, name: str) -> None:
    """Of attributes that are not there only these look-ups are seen,
    where it is a class or function that may have them.
    """
    trace = _trace.get()
    if trace is None:
        return
    if isinstance(owner, type) and is_users_type(owner):
        place = ClassPlace(owner, name)
        trace.reads.note(place, place.read())
    elif type(owner) is FunctionType:
        trace.reads.reach(_substitution.original(owner).__dict__)


def _vars(*owner: Any) -> Any:
    """vars(owner); of a class of the user's what it holds, not what stands there for the time of the trace."""
    trace = _trace.get()
    if trace is None or not owner or not isinstance(owner[0], type) or not is_users_type(owner[0]):
        return vars(*owner) if owner else sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
    kind: type = owner[0]
    found: dict[str, Any] = {}
    for name, held in (trace.patches.before.get(kind) or dict(vars(kind))).items():
        if not isinstance(held, GetSetDescriptorType):
            trace.reads.note(ClassPlace(kind, name), held)
        found[name] = _substitution.value(held)
    return MappingProxyType(found)


REDIRECTED[id(vars)] = Redirected(vars, _vars)
namespace.vars_of = _vars
REDIRECTED[id(getattr)] = Redirected(getattr, _get_attribute)
REDIRECTED[id(hasattr)] = Redirected(hasattr, _has_attribute)


def _get_of_object(owner: Any, name: str) -> Any:
    try:
        value = object.__getattribute__(owner, name)
    except AttributeError:
        _attributes.found(owner, name, MISSING)
        raise
    return value if _trace.get() is None else _attributes.found(owner, name, value)


REDIRECTED[id(object.__getattribute__)] = Redirected(object.__getattribute__, _get_of_object)
REDIRECTED[id(object.__setattr__)] = Redirected(
    object.__setattr__, lambda owner, name, value: _attributes.store(owner, name, _SET, value)
)
REDIRECTED[id(object.__delattr__)] = Redirected(
    object.__delattr__, lambda owner, name: _attributes.store(owner, name, _DELETE)
)
_SET: Any = object.__setattr__
_DELETE: Any = object.__delattr__


def _import_module(name: str, package: str | None = None) -> Any:
    module = importlib.import_module(name, package)
    if _trace.get() is not None and is_users_module(module):
        _substitution.name(sys.modules, module.__name__, module)
    return _substitution.value(module)


REDIRECTED[id(importlib.import_module)] = Redirected(importlib.import_module, _import_module)


def _copy(x: Any) -> Any:
    trace = _trace.get()
    return copy.copy(x) if trace is None else shallow_copy(trace.reads, x)


def _deepcopy(x: Any, memo: dict[int, Any] | None = None) -> Any:
    trace = _trace.get()
    return copy.deepcopy(x, memo) if trace is None else deep_copy(trace.reads, x, memo)


REDIRECTED[id(copy.copy)] = Redirected(copy.copy, _copy)
REDIRECTED[id(copy.deepcopy)] = Redirected(copy.deepcopy, _deepcopy)


def _getenv(key: str, default: Any = None) -> Any:
    return _Environment().get(key, default)


def _has_special_defaults(function: FunctionType) -> bool:
    values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return any(type(x) not in _PLAIN for x in values)


def _same_function(clone: FunctionType, function: FunctionType) -> bool:
    """Whether a clone is up to date: code and defaults can be assigned."""
    return (
        clone.__code__ is function.__code__
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


@contextmanager
def tracing(*, nested: bool = False) -> Generator[Trace]:
    """A new trace for this thread inside the block.  What it changes outside stays, unless it starts again.

    nested: one that is in progress goes on; a new one serves an eager transformation, for which nothing is compiled:
    what it reads from objects is not remembered.
    """
    outer = _trace.get()
    if nested and outer is not None:
        yield outer
        return
    reads = Reads()
    patches = ClassPatches(_attributes, with_attributes=not nested)
    trace = Trace(patches, reads, Changes(reads, _substitution.original, lambda: patches.before))
    token = _trace.set(trace)
    try:
        yield trace
    except Restart:
        trace.changes.undo()
        raise
    except BaseException:
        trace.changes.keep(refuse=False)
        raise
    else:
        trace.changes.keep()
    finally:
        _trace.reset(token)
        trace.patches.remove()


def redirect(function: F) -> F:
    """The function as it is traced: a clone that sees traced functions in place of NumPy's.

    Plain functions, bound methods and `functools.partial` objects are cloned, callable objects of a user's class get
    redirected methods for the trace; anything else is returned as it is.  A function keeps its clone.
    A function of an installed package is cloned too if it is given here, the functions it calls are not.  One of this
    package never is.

    Raises: UnsupportedError, when the clone is called, if the function or one of the user's it calls stores global
    names.
    """
    if is_internal(getattr(getattr(function, "__code__", None), "co_filename", "")):
        return function
    if type(function) is FunctionType:
        return _substitution.function(function)  # type: ignore[return-value]
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        _substitution.value(function)
        return MethodType(_substitution.function(function.__func__), function.__self__)  # type: ignore[return-value]
    return _substitution.value(function)


def prepared(function: F, outside: dict[int, Any] | None = None) -> F:
    """A function that runs its redirected clone, within the trace in progress or one of its own: for transformations.

    NumPy arrays among its arguments are traced as those are that it reads from outside, so that copies of them can be
    filled. outside: gets the arrays that it has read, under their identities.
    """

    def traced(trace: Trace, x: Any) -> Any:
        return trace.reads.array(x) if type(x) is np.ndarray and x.dtype.kind in "biuf" else x

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with tracing(nested=True) as trace:
            leaves, tree = flatten((args, kwargs))
            if any(type(x) is np.ndarray for x in leaves):
                args, kwargs = unflatten(tree, [traced(trace, x) for x in leaves])
            try:
                return trace.function(function)(*args, **kwargs)
            finally:
                if outside is not None:
                    outside.update(trace.reads.arrays())

    return run  # type: ignore[return-value]
