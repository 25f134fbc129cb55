"""`jit`: trace on the first call, compile, and hand later calls to the compiled entry."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from tracejit.api.array import Array
from tracejit.api.options import Options
from tracejit.api.signature import (
    MOST_LEAVES,
    ArrayLeaf,
    CallSignature,
    Leaf,
    NumberLeaf,
    StaticLeaf,
    leaf_path,
    leaf_paths,
    signature_of,
    static_numbers,
)
from tracejit.api.writeback import refuse_impossible_writes
from tracejit.backends.callable import CompiledFunction
from tracejit.backends.registry import get_backend
from tracejit.ir.ranges import ARGUMENTS
from tracejit.ir.types import LARGE, Dim, DimDependent, affine, least_extent, solved
from tracejit.support.config import config
from tracejit.support.errors import ConcretizationError, TracejitError, TracerError, UnsupportedError, UserError
from tracejit.support.forks import at_fork
from tracejit.support.nodes import define, evolve, field, frozen
from tracejit.support.source import Location, frames_of, raised_at, user_location
from tracejit.support.tree import TreeDef, flatten, unflatten
from tracejit.support.weak import WeakMap
from tracejit.tracer.captured import Dependencies
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.layout import Layout, Open
from tracejit.tracer.redirect import prepared, tracing
from tracejit.tracer.stage import ChangedLater, NeedStrides, NeedValue, Staged, stage
from tracejit.tracer.tracer import Tracer, is_number

if TYPE_CHECKING:
    from tracejit.api.entry import Called, Runner
    from tracejit.backends.base import Dispatcher, NativeCalls
    from tracejit.compiler.lowered import Lowered

__all__ = ["JitFunction", "compiled_with", "jit", "options_of"]

_MANY_OUTDATED = 8
"""After how many recompilations because of rebound names a warning says which."""

P = ParamSpec("P")
R = TypeVar("R")


@frozen(eq=False)
class Specialisation:
    """One compiled version: the signature it serves, its stages, how results are assembled."""

    signature: CallSignature
    lowered: Lowered
    staged: Staged
    out_tree: TreeDef
    out_leaves: tuple[Any, ...]  # an output number, or a _Constant
    static: frozenset[int]
    run: Runner
    dependencies: Dependencies
    reason: str


@frozen(eq=False)
class _Constant:
    value: Any


@define(eq=False)
class _State:
    """What a jitted function remembers; guarded by `lock`."""

    lock: threading.RLock = field(factory=threading.RLock)
    versions: dict[CallSignature, Specialisation] = field(factory=dict)
    static: set[int] = field(factory=set)  # leaves whose values the trace has asked for
    strided: set[int] = field(factory=set)  # leaves whose strides it has asked for
    last: dict[Any, CallSignature] = field(factory=dict)  # signature without extents -> latest
    compilations: int = 0
    values: set[Any] = field(factory=set[Any])  # of numbers that it was compiled for
    warned_of_values: bool = False
    because: str = ""  # why the next version is compiled, where a version was dropped for it
    asked_at: dict[int, Location | None] = field(factory=dict)  # static position -> where its value was asked for
    dtypes: dict[Any, list[tuple[str, ...]]] = field(factory=dict)  # structure and ranks -> dtypes compiled for; emptied by the warning
    warned_of_dtypes: bool = False
    outdated: int = 0  # versions that were dropped because of what the function reads from outside

    def asked(self, signature: CallSignature, need: NeedStrides | NeedValue) -> None:
        """Remember what a trace wants to know of an argument before it starts again."""
        position = signature.traced()[need.position]
        if isinstance(need, NeedStrides):
            self.strided.add(position)
            return
        self.static.add(position)
        self.asked_at[position] = need.location


class _Forks:
    """A fork waits until no thread compiles: the child would inherit locks that nobody is left to release."""

    def __init__(self) -> None:
        self._states: WeakMap[_State, None] = WeakMap()
        self._gate = threading.Lock()  # held while a fork waits: what it waits for may make functions, nobody else
        self._lock = threading.Lock()
        self._held: list[_State] = []
        at_fork(self._before, self._after, self._in_child)

    def add(self, state: _State) -> None:
        with self._gate if current_interpreter() is eager else nullcontext(), self._lock:
            self._states[state] = None

    def _before(self) -> None:
        self._gate.acquire()
        with self._lock:
            states = list(self._states)
        self._held = [state for state in states if state.lock.acquire(timeout=_FORK_PATIENCE)]
        self._lock.acquire()

    def _after(self) -> None:
        for state in self._held:
            state.lock.release()
        self._held = []
        self._lock.release()
        self._gate.release()

    def _in_child(self) -> None:
        held = {id(state) for state in self._held}
        for state in self._states:
            if id(state) not in held:
                state.lock = threading.RLock()
        self._after()


_MANY_DTYPES = 4  # combinations of dtypes after which a function warns
_MANY_VALUES = 8  # specialisations after which a function warns
_RECURRING = 60  # calls at the end of a recursion, among which one of the user's is found if it is the user's
_WALK_CONTAINERS = ("tree.py", "nodes.py", "entry.py", "signature.py")
_FORK_PATIENCE = 10.0  # seconds that a fork waits for one function's compilation
_forks = _Forks()


class JitFunction(CompiledFunction, Generic[P, R]):
    """A compiled function.  Calls look like the original's; `lower`, `explain` and `clear_cache` show and manage what was compiled."""

    __slots__ = ("__call__", "__dict__", "__weakref__", "_dispatcher", "_function", "_options", "_state")

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._state = _State()
        _forks.add(self._state)
        self._dispatcher: Dispatcher | None = None
        self._reset_entry()

    def _reset_entry(self) -> None:
        """The callable that serves calls: Python's until the first program is compiled (LLVM is not imported before)."""
        self.__call__ = functools.partial(_miss, self)

    def _called(self) -> Called:
        """The function as those see it who serve its calls."""
        from tracejit.api.entry import Called

        return Called(self._function, functools.partial(_dispatched, self), functools.partial(_miss, self))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<tj.jit of {getattr(self._function, '__qualname__', self._function)!r}>"

    def __reduce__(self) -> Any:
        if _is_found_by_name(self):  # as Python pickles functions; the undecorated one is no longer to be found
            return self.__qualname__
        return _rebuild, (self._function, self._options)

    def like(self, function: Callable[..., Any]) -> JitFunction[Any, Any]:
        """Another function compiled with the same options: what a transformation makes of a jitted function."""
        return JitFunction(function, self._options.without_donation())

    # -- looking ------------------------------------------------------------------------------------------------------------------
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for these arguments without running: `.text("jaxpr")`, ... `.text("asm")`.

        >>> import numpy as np, tracejit as tj
        >>> print(tj.jit(lambda x: x * 2 + 1).lower(np.ones(3)).text("kernel"))
        kernel mul_add_1(in0: f64[3] C, out1: f64[3] C out) {
          for %i0 in 0..3 {
            %0 = load in0[%i0]
            %1 = mul %0 2.0:f64
            %2 = add %1 1.0:f64
            store out1[%i0] = %2
          }
        }
        """
        state = self._state
        while True:
            signature, leaves, _ = signature_of(self._function, args, kwargs, frozenset(state.static), frozenset(state.strided))
            try:
                return _trace(self, signature, leaves)[1]
            except (NeedStrides, NeedValue) as need:
                state.asked(signature, need)

    @property
    def compilations(self) -> int:
        """How many programs were compiled so far.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.jit(lambda x: x + 1)
        >>> for n in (3, 4, 5, 6):
        ...     _ = f(np.ones(n))
        >>> f.compilations
        2
        """
        return self._state.compilations

    def clear_cache(self) -> None:
        """Forget every compiled version."""
        with self._state.lock:
            self._state.versions.clear()
            self._state.last.clear()
            if self._dispatcher is not None:
                self._dispatcher.clear()

    def _asked(self, position: int) -> str:
        location = self._state.asked_at.get(position)
        return "" if location is None else f", which {location.short()} asks for"

    def explain(self) -> str:
        """What was compiled and why: one paragraph a version.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.jit(lambda x: x + 1)
        >>> for n in (3, 4, 5):
        ...     _ = f(np.ones(n))
        >>> print(f.explain())
        version 0: f64[3]
          compiled for the first call
          1 kernel for 1 equation on cpu
        version 1: f64[n0]
          compiled because argument 1 is f64[4], not f64[3]; serves other sizes too
          1 kernel for 1 equation on cpu
        """
        from tracejit.api.explain import shown, unrolled

        out: list[str] = []
        for n, (signature, version) in enumerate(list(self._state.versions.items())):
            out.append(f"version {n}: {', '.join(map(shown, signature.leaves))}\n  compiled {version.reason}")
            kernels, equations = len(version.lowered.log.kernels), len(version.lowered.report)
            out.append(f"  {_count(kernels, 'kernel')} for {_count(equations, 'equation')} on {version.lowered.backend.name}")
            out += [
                f"  specialised on the value of argument {leaf_path(signature.tree, p)}{self._asked(p)}"
                for p in static_numbers(signature, version.static)
            ]
            out += [f"  unrolled: {text}" for text in unrolled(version.staged.jaxpr)]
        return "\n".join(out) or "nothing is compiled yet"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _rebuild(function: Any, options: Options) -> JitFunction[Any, Any]:
    return JitFunction(function, options)


def options_of(f: JitFunction[Any, Any]) -> Options:
    """What `jit` was told of a function.  (A property of the function's would hide an attribute of the user's.)"""
    return f._options  # pyright: ignore[reportPrivateUsage]


def compiled_with(f: JitFunction[Any, Any], options: Options) -> JitFunction[Any, Any]:
    """The user's function that `f` compiles, compiled anew with these options."""
    return JitFunction(f._function, options)  # pyright: ignore[reportPrivateUsage]


def _is_found_by_name(f: Any) -> bool:
    """Whether a compiled function is what its module holds under its name: a decorated one."""
    found: Any = sys.modules.get(getattr(f, "__module__", None) or "")
    for name in getattr(f, "__qualname__", "<").split("."):
        found = getattr(found, name, None)
    return found is f


def _dispatched(f: Any, native: NativeCalls) -> Dispatcher:
    """What calls of a compiled function go to."""
    made = f._dispatcher
    if made is None:
        made = f._dispatcher = native.dispatcher(f, functools.partial(_miss, f), getattr(f, "__name__", "compiled"))
        f.__call__ = made.callable
    return made


def _miss(f: JitFunction[Any, Any], *args: Any, **kwargs: Any) -> Any:
    """A call no compiled entry serves: trace and compile, or run the function under the interpreter at hand."""
    if current_interpreter() is not eager:
        function = f._function  # pyright: ignore[reportPrivateUsage]
        redirected = f._options.redirect  # pyright: ignore[reportPrivateUsage]
        from tracejit.api.control import apart

        return apart((prepared(function) if redirected else function)(*args, **kwargs))
    state = f._state  # pyright: ignore[reportPrivateUsage]
    try:
        with state.lock:
            version, values, leaves = _version(f, args, kwargs)
            aliases = _aliases(f, version, leaves)
            if aliases:
                version, values, leaves = _version(f, args, kwargs, aliases)
    except TracejitError as error:
        error.at(raised_at(error) or user_location())  # not every place that raises knows the user's line
        raise
    except (TypeError, ValueError) as error:
        if isinstance(error.__cause__, ConcretizationError):  # NumPy has asked a traced array for its elements
            raise UnsupportedError(
                "a NumPy array that the trace did not make is filled with traced values; make it in the function, by np.zeros, np.empty or "
                "np.array",
                location=raised_at(error),
            ) from error
        raise
    except RecursionError as error:
        known = _recursion(f, error)
        if known is None:
            raise
        raise known from error
    return version.run(values, leaves)


def _recursion(f: JitFunction[Any, Any], error: RecursionError) -> UserError | None:
    """Whose recursion it was: the user's functions', or ours through a container; None for another."""
    name = getattr(f, "__name__", "the function")
    found = raised_at(error, last=_RECURRING)
    if found is None:
        recurring = [code.co_filename for code, _ in frames_of(error)[-_RECURRING:]]
        if not all(file.endswith(_WALK_CONTAINERS) for file in recurring):
            return None
        return UserError(
            f"an argument or result of {name} is nested deeper than Python's recursion limit allows; make it one list or dict of arrays, "
            "or an array",
            location=user_location(2),
        )
    return UserError(
        f"{name} called itself, or others each other, until Python's recursion limit while it was traced: the recursion has to end "
        "on Python values such as shapes; where it ends on the values of arrays use tj.lax.while_loop",
        location=found,
    )


def _version(
    f: JitFunction[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], aliases: tuple[tuple[int, int], ...] = ()
) -> tuple[Specialisation, list[Any], list[Any]]:
    """(the version for a call, compiled if there is none; values of the call's leaves; the leaves)"""
    state = f._state  # pyright: ignore[reportPrivateUsage]
    while True:
        asked = len(state.static), len(state.strided)
        function = f._function  # pyright: ignore[reportPrivateUsage]
        signature, values, leaves = signature_of(function, args, kwargs, frozenset(state.static), frozenset(state.strided))
        signature = evolve(signature, aliases=aliases) if aliases else signature
        version = _current(f, state.versions.get(signature) or _symbolic_version(state, signature)) or _compile(f, signature, values)
        if version is not None and (len(state.static), len(state.strided)) == asked:
            return version, values, leaves


def _aliases(f: JitFunction[Any, Any], version: Specialisation, leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Which traced arguments are one array, where that matters because the function changes it."""
    if version.run.writeback is None:
        return ()
    traced, tree = version.signature.traced(), version.signature.tree
    name = getattr(f, "__name__", "the function")

    def describe(position: int) -> str:
        return (
            f"argument {leaf_path(tree, traced[position])} of {name}"
            if position < len(traced)
            else f"an array that {name} reads from outside"
        )

    return version.run.writeback.aliases([leaves[n] for n in traced], version.run.keep, describe)


def _current(f: JitFunction[Any, Any], version: Specialisation | None) -> Specialisation | None:
    """The version, brought up to date with what names outside of the function hold now; None if it is no longer valid."""
    if version is None:
        return None
    state = f._state  # pyright: ignore[reportPrivateUsage]
    renewed = version.dependencies.renewed()
    if renewed is None:
        state.outdated += 1
        if state.outdated == _MANY_OUTDATED:
            warnings.warn(
                f"{getattr(f, '__name__', 'a function')} was compiled {_MANY_OUTDATED} times anew because what it reads from outside "
                f"changed (now {version.dependencies.reason()}); pass what changes as an argument",
                stacklevel=5,
            )
        state.because = f"because {version.dependencies.reason()}"
        last = dict(state.last)
        _forget(state, version.signature)
        state.last.update(last)  # what the next one generalises
        return None
    version.run.follow(renewed)
    if renewed is not version.dependencies:
        version = state.versions[version.signature] = evolve(version, dependencies=renewed)
    return version


def _pattern(signature: CallSignature) -> Any:
    """The signature without extents (0 and 1 stay: they broadcast)."""
    parts: list[Any] = []
    for leaf in signature.leaves:
        if isinstance(leaf, ArrayLeaf):
            shape = tuple(n if isinstance(n, int) and n < 2 else -1 for n in leaf.shape)
            parts.append((leaf.dtype, shape, leaf.layout, leaf.scalar, leaf.wrapped, leaf.strides))
        else:
            parts.append(leaf)
    return signature.tree, tuple(parts), signature.aliases


def _symbolic_version(state: _State, signature: CallSignature) -> Specialisation | None:
    """The oldest version with symbolic extents that fits, as in the native entries: equal arguments always run the same code."""
    pattern = _pattern(signature)
    if pattern not in state.last:
        return None
    return next((v for known, v in state.versions.items() if _pattern(known) == pattern and _bind_dims(known, signature) is not None), None)


def _bind_dims(symbolic: CallSignature, concrete: CallSignature) -> dict[str, int] | None:
    """The extents that make `symbolic` equal `concrete`, or None."""
    dims: dict[str, int] = {}
    for a, b in zip(symbolic.leaves, concrete.leaves, strict=True):
        if not isinstance(a, ArrayLeaf):
            continue
        for n, m in zip(a.shape, b.shape, strict=True):  # type: ignore[union-attr]
            if isinstance(n, Dim):
                found = solved(n, m)
                if found is None or dims.setdefault(*found) != found[1]:
                    return None
            elif n != m:
                return None
    return dims


def _generalise(old: CallSignature, new: CallSignature) -> CallSignature:
    """Symbols where two signatures differ; axes that changed alike share one."""
    names: dict[Any, Dim] = {}
    leaves: list[Any] = []
    for a, b in zip(old.leaves, new.leaves, strict=True):
        if isinstance(b, ArrayLeaf) and isinstance(a, ArrayLeaf):
            shape: list[Any] = []
            for n, m in zip(a.shape, b.shape, strict=True):
                if m < 2 or (isinstance(n, int) and n == m):
                    shape.append(m)
                else:
                    shape.append(names.setdefault((n if isinstance(n, int) else str(n), m), Dim.symbol(f"n{len(names)}")))
            b = evolve(b, shape=tuple(shape))
        leaves.append(b)
    return evolve(new, leaves=tuple(leaves))


def _compile(f: JitFunction[Any, Any], signature: CallSignature, leaves: Sequence[Any]) -> Specialisation | None:
    """Compile for a signature: as it is the first time, with symbolic extents once only extents have changed."""
    state, dynamic = f._state, f._options.dynamic_shapes  # pyright: ignore[reportPrivateUsage]
    pattern = _pattern(signature)
    previous = state.last.get(pattern)
    wanted, began = signature, time.perf_counter()
    if dynamic is not False and previous is not None:
        wanted = _generalise(previous, signature)
    elif dynamic is True:
        wanted = _generalise(_with_other_extents(signature), signature)
    while True:
        try:
            staged, lowered, out_tree, out_leaves, dependencies = _trace(f, wanted, leaves)
            break
        except (NeedStrides, NeedValue) as need:
            state.asked(signature, need)
            return None
        except DimDependent as error:
            wanted = _decide(wanted, signature, error)
    from tracejit.api.entry import make_runner

    dependencies.spent = dependencies.reason()
    older = [known for known in state.versions if _pattern(known) == pattern]
    called = f._called()  # pyright: ignore[reportPrivateUsage]
    run = make_runner(called, wanted, lowered, staged, out_tree, out_leaves, dependencies, older)
    if dependencies.spent:
        run.remove()
    reason = _reason(state, signature, wanted)
    version = Specialisation(wanted, lowered, staged, out_tree, out_leaves, frozenset(state.static), run, dependencies, reason)
    while len(state.versions) >= max(1, config.cache_size):
        _forget(state, next(iter(state.versions)))
    state.versions[wanted] = version
    state.last[pattern] = wanted
    state.compilations += 1
    _log(f, version, time.perf_counter() - began)
    _warn_of_many_values(f, version)
    _warn_of_many_dtypes(f, version)
    return version


def _reason(state: _State, signature: CallSignature, wanted: CallSignature) -> str:
    """Why a version is compiled, as the rest of a sentence."""
    because, state.because = state.because, ""
    if because:
        return because
    if not state.versions:
        return "for the first call" if not state.compilations else "for the first call after clear_cache()"
    from tracejit.api.explain import difference

    more = "; serves other sizes too" if wanted.symbols else ""
    return f"because {difference(list(state.versions), signature)}{more}"


def _log(f: JitFunction[Any, Any], version: Specialisation, seconds: float) -> None:
    """Tell the logger `tracejit` of a compilation.  Who has not imported logging does not listen."""
    logging = sys.modules.get("logging")
    if logging is None:
        return
    logger = logging.getLogger("tracejit")
    if logger.isEnabledFor(logging.INFO):
        from tracejit.api.explain import shown

        name, leaves = getattr(f, "__qualname__", "a function"), ", ".join(map(shown, version.signature.leaves))
        logger.info("%s(%s) on %s: %.0f ms, %s", name, leaves, version.lowered.backend.name, 1000 * seconds, version.reason)


def _warn_of_many_dtypes(f: JitFunction[Any, Any], version: Specialisation) -> None:
    """Once a function, when it was compiled for many dtypes of arguments of one structure and rank."""
    state, signature = f._state, version.signature  # pyright: ignore[reportPrivateUsage]
    if state.warned_of_dtypes:
        return
    ranks = tuple([len(leaf.aval.shape) if not isinstance(leaf, StaticLeaf) else leaf for leaf in signature.leaves])
    found = tuple(["" if isinstance(x, StaticLeaf) else x.kind if isinstance(x, NumberLeaf) else x.dtype.name for x in signature.leaves])
    known = state.dtypes.setdefault((signature.tree, ranks), [])
    if found in known:
        return
    known.append(found)
    if len(known) < _MANY_DTYPES:
        return
    columns = [list(dict.fromkeys(column)) for column in zip(*known, strict=True)]
    told = [f"argument {leaf_path(signature.tree, n)} was {', '.join(names)}" for n, names in enumerate(columns) if len(names) > 1]
    state.warned_of_dtypes = True
    state.dtypes.clear()
    warnings.warn(
        f"{getattr(f, '__name__', 'a function')} was compiled for {_MANY_DTYPES} combinations of dtypes of arguments of the same ranks: "
        f"{'; '.join(told)}; convert them to one dtype (x.astype(dtype)) unless all are meant",
        stacklevel=5,
    )


def _warn_of_many_values(f: JitFunction[Any, Any], version: Specialisation) -> None:
    """Once a function, when it was compiled for many values of numbers that its trace asks for."""
    state = f._state  # pyright: ignore[reportPrivateUsage]
    asked = static_numbers(version.signature, version.static)
    if not asked:
        return
    leaves = version.signature.leaves
    state.values.add(tuple([(n, type(x.value).__name__, repr(x.value)) for n in asked if isinstance(x := leaves[n], StaticLeaf)]))
    if len(state.values) == _MANY_VALUES and not state.warned_of_values:
        state.warned_of_values = True
        places = " and ".join(f"argument {leaf_path(version.signature.tree, p)}" for p in asked)
        warnings.warn(
            f"{getattr(f, '__name__', 'a function')} was compiled for {_MANY_VALUES} values of {places}, whose value its trace needs (for "
            "a shape, range() or a branch); keep it to few values, or have the function take an array instead",
            stacklevel=5,
        )


def _forget(state: _State, signature: CallSignature) -> None:
    """Let a version go, and its native entry; and those made later that leave it calls."""
    from tracejit.api.entry import distance

    pattern = _pattern(signature)
    known = list(state.versions.items())
    place = next(n for n, (s, _) in enumerate(known) if s is signature)
    later = [s for s, _ in known[place + 1 :] if _pattern(s) == pattern and distance(signature, s) is not None]
    gone = {id(s) for s in (signature, *later)}
    for s, version in known:
        if id(s) in gone:
            version.run.remove()
            if state.last.get(pattern) is s:
                del state.last[pattern]
    # A new dict, because an object among the arguments may have another hash by now.
    state.versions = {s: version for s, version in known if id(s) not in gone}


def _with_other_extents(signature: CallSignature) -> CallSignature:
    leaves = [evolve(x, shape=tuple(n if n < 2 else -n for n in x.shape)) if isinstance(x, ArrayLeaf) else x for x in signature.leaves]
    return evolve(signature, leaves=tuple(leaves))


def _decide(wanted: CallSignature, concrete: CallSignature, error: DimDependent) -> CallSignature:
    """Symbols on which a decision of the trace depends.

    Where remainders decide, an extent becomes a multiple of a symbol plus the remainder that it has.  Else symbols become those of
    large extents, if they are; then constants.
    """
    symbols, found = error.symbols, _bind_dims(wanted, concrete) or {}
    periods = {s: k for s, k in error.periods.items() if found.get(s, 0) // k >= least_extent(s)}
    enlarge = not any(s.startswith("large") for s in symbols) and all(found.get(s, 0) >= LARGE for s in symbols)

    def replaced(n: Any, m: Any) -> Any:
        if not isinstance(n, Dim) or not n.symbols() & symbols:
            return n
        symbol, factor, offset = affine(n)
        if periods:
            k = periods.get(symbol)
            return n if k is None else factor * (k * Dim.symbol(symbol) + found[symbol] % k) + offset
        return factor * Dim.symbol(f"large{symbol[1:]}") + offset if enlarge else m

    leaves: list[Any] = []
    for a, b in zip(wanted.leaves, concrete.leaves, strict=True):
        if isinstance(a, ArrayLeaf) and isinstance(b, ArrayLeaf):
            a = evolve(a, shape=tuple([replaced(n, m) for n, m in zip(a.shape, b.shape, strict=True)]))
        leaves.append(a)
    return evolve(wanted, leaves=tuple(leaves))


def _refuse_changed_containers(name: str, tree: TreeDef, arguments: Any, passed: Sequence[Any]) -> None:
    """Raises: UserError if the function has changed a list or dict among its arguments; what it got were copies."""
    now, structure = flatten(arguments)
    if structure != tree or any(a is not b for a, b in zip(now, passed, strict=True)):
        raise UserError(
            f"{name} changes a list or dict that it was given, which the caller would not see; copy it first (d = dict(d)) and "
            "return the copy, or change the arrays in it in place (d['x'][...] = v)"
        )


def _a(noun: str) -> str:
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def _trace(
    f: JitFunction[Any, Any], signature: CallSignature, leaves: Sequence[Any]
) -> tuple[Staged, Lowered, TreeDef, tuple[Any, ...], Dependencies]:
    """Stage the function for a signature and run the passes."""
    from tracejit.compiler.pipeline import lower_jaxpr

    function = f._function  # pyright: ignore[reportPrivateUsage]
    redirected = f._options.redirect  # pyright: ignore[reportPrivateUsage]
    name = getattr(function, "__name__", "main")
    traced = signature.traced()
    out: dict[str, Any] = {}
    numbers: set[int] = set()

    def need_booleans() -> None:
        for position, n in enumerate(traced):
            leaf = signature.leaves[n]
            if isinstance(leaf, NumberLeaf) and leaf.kind == "bool":
                raise NeedValue(position)

    def flat(*tracers: Any) -> Sequence[Any]:
        argument = trace.argument if redirected else lambda value: value
        filled: list[Any] = [argument(leaf.value) if isinstance(leaf, StaticLeaf) else None for leaf in signature.leaves]
        for n, t in zip(traced, tracers, strict=True):
            filled[n] = t
        for n in traced:
            leaf = signature.leaves[n]
            filled[n].is_array = isinstance(leaf, ArrayLeaf) and not leaf.scalar
        for first, again in signature.aliases:
            filled[traced[again]] = filled[traced[first]]
        args, kwargs = unflatten(signature.tree, filled)
        with trace.changing():
            result = (trace.function(function) if redirected else function)(*args, **kwargs)
        _refuse_changed_containers(name, signature.tree, (args, kwargs), filled)
        values, out["tree"] = flatten(result)
        if len(values) > MOST_LEAVES:
            raise UserError(
                f"{name} returned {len(values):,} arrays and numbers, more than the {MOST_LEAVES:,} that are compiled one by one; return "
                "them in one array (np.stack, np.concatenate)"
            )
        kept: list[Any] = []
        slots: list[Any] = []
        numbers.clear()
        for v in values:
            v = int(v) if isinstance(v, Dim) else v  # a number of this size: the trace starts again with it fixed
            if isinstance(v, (Tracer, np.ndarray, np.generic, Array)):
                if type(v) is Tracer and is_number(v) and not signature.wrapped:
                    numbers.add(len(kept))
                slots.append(len(kept))
                kept.append(v)
            elif isinstance(v, str) and "Tracer<" in v:
                raise TracerError(
                    f"{name} returned {v!r}, a string made of an array whose value is not known; return the array and format it outside"
                )
            elif isinstance(v, (bool, int, float, str, bytes)) or v is None:
                slots.append(_Constant(v))
            else:
                raise TracerError(
                    f"{name} returned {_a(type(v).__name__)}; results are arrays, numbers, strings, None or containers of them"
                )
        out["slots"] = tuple(slots)
        trace.changes.keep()
        return kept

    def specialise(position: int) -> bool:
        return isinstance(signature.leaves[traced[position]], NumberLeaf)

    avals = [signature.leaves[n].aval for n in traced]  # type: ignore[union-attr]
    lies = [_layout(k, signature.leaves[n]) for k, n in enumerate(traced)]
    integers = {k: ARGUMENTS for k, n in enumerate(traced) if signature.leaves[n] == NumberLeaf("int")}
    with tracing() as trace:
        trace.need_booleans = need_booleans
        try:
            staged = stage(flat, avals, specialise=specialise, writeback=True, program=True, layouts=lies, ranges=integers)
        except ChangedLater:
            trace.restart()
            staged = stage(flat, avals, specialise=specialise, writeback=True, program=True, layouts=lies, ranges=integers, careful=True)
    staged = evolve(staged, numbers=frozenset(numbers))
    refuse_impossible_writes(signature, staged, name, f._options.writeback)  # pyright: ignore[reportPrivateUsage]
    dependencies = trace.reads.dependencies(staged.constants, staged.looked_into)
    layouts = [leaf.layout if isinstance(leaf, ArrayLeaf) else "C" for leaf in (signature.leaves[n] for n in traced)]
    layouts += ["C" if np.asarray(c).flags.c_contiguous else "strided" for c in staged.constants]
    backend = get_backend(f._options.backend or config.backend)  # pyright: ignore[reportPrivateUsage]
    alternatives = f._options.alternatives  # pyright: ignore[reportPrivateUsage]
    donated = _donated(f._options.donate, signature, staged, name)  # pyright: ignore[reportPrivateUsage]
    lowered = lower_jaxpr(
        staged.jaxpr,
        backend,
        layouts,
        name if name.isidentifier() else "main",
        staged.constants,
        alternatives=alternatives,
        donated=donated,
        checked=staged.sites is not None,
    )
    paths = leaf_paths(signature.tree)
    names = [paths[n] for n in traced] + [f"captured {n + 1}" for n in range(len(staged.constants))]
    lowered = evolve(lowered, arguments=tuple(names), written=tuple(n for n, _ in staged.written))
    return staged, lowered, out["tree"], out["slots"], dependencies


def _layout(position: int, leaf: Leaf) -> Layout:
    """How a traced argument lies in memory: what is not in C order is asked for where it matters."""
    if not isinstance(leaf, ArrayLeaf) or leaf.layout == "C":
        return None
    return Open(NeedStrides(position)) if leaf.strides is None else leaf.strides


def _donated(positions: Sequence[int], signature: CallSignature, staged: Staged, name: str) -> list[int]:
    """The inputs in arguments that the caller gives up; none where the function changes arguments or reads arrays from outside.

    (Those may share memory with what is given up, which no check at the call would see.)  Neither where the program can fail: an exception
    leaves the arguments as they were.
    """
    count, wanted = 0, set[int]()
    arguments = signature.tree.children[0].children
    for n in positions:
        if n >= len(arguments):
            raise UserError(f"donate_argnums={n}: {name} was called with {len(arguments)} positional arguments")
    for n, child in enumerate(arguments):
        if n in positions:
            wanted |= set(range(count, count + child.leaves))
        count += child.leaves
    traced = signature.traced()
    arrays = [(k, signature.leaves[n]) for k, n in enumerate(traced) if n in wanted]
    if any(isinstance(leaf, ArrayLeaf) and leaf.wrapped for _, leaf in arrays):
        raise UserError(f"donate_argnums: an argument of {name} is a tj.Array, which never changes; donation is for NumPy arrays")
    if staged.written or staged.constants or staged.sites is not None:
        return []
    return [k for k, leaf in arrays if isinstance(leaf, ArrayLeaf) and not leaf.scalar]


@overload
def jit(
    function: Callable[P, R],
    /,
    *,
    backend: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    backend: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    function: Any = None,
    /,
    *,
    backend: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Any:
    """Compile a function of arrays.

    The function runs once per combination of dtypes, ranks and layouts on traced arrays; what it does to them is compiled.  NumPy arrays
    and Python numbers are traced (a number whose value the trace needs becomes a constant); strings, None, dtypes and other hashable
    objects are constants.  Results are NumPy arrays, rank-0 ones NumPy scalars; what Python would make of Python numbers alone is one.

    What the function reads from outside of itself is followed.  What it changes there (a counter, a cache) changes when it is traced, as in
    Python, and since the next call finds another state, it is traced for that; a traced array that would stay there is refused.

    backend: "cpu" (default), "opencl", "reference".
    dynamic_shapes: None compiles the first call for its extents and the second for all; True for all at once; False for each alone.
    writeback: whether arguments the function changes in place are changed for the caller too; False makes such a write an error.
    redirect: whether the function, and functions and methods of yours that it calls, see traced versions of NumPy's functions that make
        arrays (`np.zeros(n)` can then be filled in place) and of arrays outside of it (read at each call, another may be bound
        to the name).  With False such arrays are constants, and only what NumPy hands over by its protocols is traced.
    alternatives: names of lowering rules that are used on demand only: "blas" hands products of two matrices to NumPy's BLAS.
    donate_argnums: positional arguments that the caller gives up: a result may be returned in the memory of such an array, whose old
        elements are gone then (the result is that array itself).  A read-only or overlapping array is copied first.

    Raises: UserError if `function` is not callable or is a generator or coroutine function; what tracing and compiling raise,
        at the first call.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def scaled(x, factor):
    ...     return np.exp(x) * factor
    >>> scaled(np.zeros(2), 3.0)
    array([3., 3.])
    """
    asked: tuple[str, ...] = ()
    if alternatives:
        from tracejit.compiler.lower import check_alternatives

        asked = check_alternatives(alternatives)
    donate = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
    if any(n < 0 for n in donate):
        raise UserError(f"donate_argnums are numbers of positional arguments from 0 on, not {donate_argnums!r}")
    options = Options(backend, dynamic_shapes, writeback, redirect, asked, donate)

    def wrap(f: Any) -> JitFunction[Any, Any]:
        if isinstance(f, (staticmethod, classmethod)):
            raise UserError("put @staticmethod or @classmethod above @tj.jit, not below it")
        if not callable(f):
            raise UserError(f"tj.jit wants a function, not {type(f).__name__}")
        if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
            raise UserError("tj.jit cannot compile generator or coroutine functions; return arrays instead of yielding them")
        return JitFunction(f, options)

    return wrap if function is None else wrap(function)
