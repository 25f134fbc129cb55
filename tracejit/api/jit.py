"""`jit`: trace on the first call, compile, and hand later calls to the compiled entry."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from tracejit.api.array import Array, data_of
from tracejit.api.branches import traced_branch
from tracejit.api.forks import FORKS
from tracejit.api.options import Options, checked_options, one_of, with_arguments
from tracejit.api.placing import jit_is_disabled, route
from tracejit.api.signature import in_order, leaf_path, signature_of, static_leaves, static_numbers
from tracejit.api.tracing import trace_call
from tracejit.api.versions import Versions
from tracejit.backends.base import Resident
from tracejit.backends.callable import CompiledFunction, pause, resume
from tracejit.support.errors import ConcretizationError, TracejitError, UnsupportedError, UserError
from tracejit.support.source import frames_of, is_ours, raised_at, user_location
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.numpys_errors import given_a_tracer
from tracejit.tracer.redirect import prepared
from tracejit.tracer.restarts import NeedStrides, NeedValue
from tracejit.tracer.traced_text import names_a_tracer

if TYPE_CHECKING:
    from tracejit.backends.base import Dispatcher, NativeCalls
    from tracejit.compiler.lowered import Lowered

__all__ = ["JitFunction", "compiled_with", "jit", "options_of"]

P = ParamSpec("P")
R = TypeVar("R")


_DEEP = 20  # branches in each other
_RECURRING = 60  # calls at the end of a recursion, among which one of the user's is found if it is the user's
_WALK_CONTAINERS = ("tree.py", "nodes.py", "entry.py", "signature.py")


class JitFunction(CompiledFunction, Generic[P, R]):
    """A compiled function.  Calls look like the original's; `lower`,
    `explain` and `clear_cache` show and manage what was compiled.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__", "_dispatcher", "_state")

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, function)
        self._state = Versions(function, options, functools.partial(_dispatched, self), functools.partial(_miss, self))
        FORKS.add(self._state)
        self._dispatcher: Dispatcher | None = None
        self._reset_entry()

    def _reset_entry(self) -> None:
        """The callable that serves calls: Python's until the first program is compiled (LLVM is not imported
        before).
        """
        self.__call__ = functools.partial(_miss, self)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<tj.jit of {getattr(self._state.function, '__qualname__', self._state.function)!r}>"

    def __reduce__(self) -> Any:
        if _is_found_by_name(self):  # as Python pickles functions; the undecorated one is no longer to be found
            return self.__qualname__
        return _rebuild, (self._state.function, self._state.options)

    def like(self, function: Callable[..., Any]) -> JitFunction[Any, Any]:
        """Another function compiled with the same options: what a transformation makes of a jitted function."""
        return JitFunction(function, self._state.options.without_donation())

    # -- looking -------------------------------------------------------------------------------------------------------
    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
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
        static = static_leaves(args, in_order(state.function, kwargs), state.options)
        while True:
            signature, _, _ = signature_of(
                state.function,
                args,
                kwargs,
                static | state.static,
                frozenset(state.strided),
                where=state.options.where,
            )
            try:
                return trace_call(state.function, state.options, signature).lowered
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

    def finish(self) -> None:
        """Have all that was compiled so far in its final form now:
        for benchmarks, and for services before their first request.

        On the CPU the first calls run code that was made quickly, and better code is made in the background once a
        function is called again.  The results are the same.

        >>> import numpy as np, tracejit as tj
        >>> f = tj.jit(lambda x: x + 1)
        >>> _ = f(np.ones(3))
        >>> f.finish()
        """
        with self._state.lock:
            self._state.finish()

    def clear_cache(self) -> None:
        """Forget every compiled version."""
        with self._state.lock:
            self._state.clear()
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
            out.append(
                f"  {_count(kernels, 'kernel')} for {_count(equations, 'equation')} on {version.lowered.backend.name}"
            )
            out += [
                f"  specialised on the value of argument {leaf_path(signature.tree, p)}{self._asked(p)}"
                for p in static_numbers(signature, version.static)
            ]
            out += [f"  unrolled: {text}" for text in unrolled(version.staged.jaxpr)]
            out += [
                f"  left to Python: the {what} at {at.short()}: {why}" for what, at, why in version.staged.by_python
            ]
        return "\n".join(out) or "nothing is compiled yet"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _rebuild(function: Any, options: Options) -> JitFunction[Any, Any]:
    return JitFunction(function, options)


def options_of(f: JitFunction[Any, Any]) -> Options:
    """What `jit` was told of a function.  (A property of the function's would hide an attribute of the user's.)"""
    return f._state.options  # pyright: ignore[reportPrivateUsage]


def compiled_with(f: JitFunction[Any, Any], options: Options) -> JitFunction[Any, Any]:
    """The user's function that `f` compiles, compiled anew with these options."""
    return JitFunction(f._state.function, options)  # pyright: ignore[reportPrivateUsage]


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
        route(f, _routed, placed=f._state.options.backend is not None)
    return made


def _routed(f: Any, through_python: bool) -> None:
    """Have calls go through Python, or straight to the compiled code."""
    f._state.straight.clear()  # what calls on arrays of a device went to is learnt anew
    if through_python:
        f.__call__ = functools.partial(_miss, f)
        pause(f)
    else:
        f.__call__ = f._dispatcher.callable
        resume(f)


def _miss(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call no compiled entry serves: trace and compile, or run the function under the interpreter at hand."""
    if current_interpreter() is not eager:
        from tracejit.api.bodies import apart

        function = f._state.function
        return apart((prepared(function) if f._state.options.redirect else function)(*args, **kwargs))
    versions: Versions = f._state
    if jit_is_disabled():
        return versions.function(*args, **kwargs)
    try:
        with versions.lock:
            version, values, leaves = versions.of_call(args, kwargs)
            aliases = versions.aliases(version, leaves)
            if aliases:
                version, values, leaves = versions.of_call(args, kwargs, aliases)
    except TracejitError as error:
        error.at(raised_at(error) or user_location())  # not every place that raises knows the user's line
        raise
    except (TypeError, ValueError) as error:
        if isinstance(error.__cause__, ConcretizationError):  # NumPy has asked a traced array for its elements
            raise UnsupportedError(
                "a NumPy array that the trace did not make is filled with traced values; make it in the function, by "
                "np.zeros, np.empty or "
                "np.array",
                location=raised_at(error),
            ) from error
        if names_a_tracer(error):
            raise given_a_tracer(error) from error
        raise
    except RecursionError as error:
        known = _recursion(versions.named("the function"), error)
        if known is None:
            raise
        raise known from error
    except Exception as error:
        if not names_a_tracer(error):
            raise
        raise given_a_tracer(error) from error
    if not kwargs and args and version.signature.wrapped and versions.learn_straight(args, version, values):
        f.__call__ = _straight_first(f)
    return version.run(values, leaves)


def _straight_first(f: Any) -> Callable[..., Any]:
    """What calls go to once some on arrays of a device have run: those like them run without further ado."""
    versions: Versions = f._state
    known = versions.straight

    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and current_interpreter() is eager:
            data = [data_of(a) if type(a) is Array else a for a in args]
            found = known.get(tuple([x.kind if isinstance(x, Resident) else None for x in data]))
            if found is not None and found[1] is not None and not found[0].dependencies.changed():
                return found[1](data)
        return _miss(f, *args, **kwargs)

    return call


def _recursion(name: str, error: RecursionError) -> UserError | None:
    """Whose recursion it was: the user's functions', or ours through a container; None for another."""
    frames = frames_of(error)
    if sum(code is traced_branch.__code__ for code, _ in frames) > _DEEP:
        users = Counter(code for code, _ in frames if not is_ours(code.co_filename))
        if max(users.values(), default=0) <= _DEEP:
            return UserError(
                f"{name} has branches in branches deeper than Python's recursion limit allows (an `elif` lies in the "
                "`else` of what is before it); use match, a table that is indexed, or sys.setrecursionlimit",
                location=user_location(2),
            )
    found = raised_at(error, last=_RECURRING)
    if found is None:
        recurring = [code.co_filename for code, _ in frames[-_RECURRING:]]
        if not all(file.endswith(_WALK_CONTAINERS) for file in recurring):
            return None
        return UserError(
            f"an argument or result of {name} is nested deeper than Python's recursion limit allows; make it one list "
            "or dict of arrays, "
            "or an array",
            location=user_location(2),
        )
    return UserError(
        f"{name} called itself, or others each other, until Python's recursion limit while it was traced: the "
        "recursion has to end "
        "on Python values such as shapes; where it ends on the values of arrays use tj.lax.while_loop",
        location=found,
    )


@overload
def jit(
    function: Callable[P, R],
    /,
    *,
    backend: str | None = None,
    device: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
) -> JitFunction[P, R]: ...
@overload
def jit(
    *,
    backend: str | None = None,
    device: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
) -> Callable[[Callable[P, R]], JitFunction[P, R]]: ...
def jit(
    function: Any = None,
    /,
    *,
    backend: str | None = None,
    device: str | None = None,
    dynamic_shapes: bool | None = None,
    writeback: bool = True,
    redirect: bool = True,
    alternatives: Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Compile a function of arrays.

    The function runs once per combination of dtypes, ranks and layouts on traced arrays; what it does to them is
    compiled.  NumPy arrays and Python numbers are traced (a number whose value the trace needs becomes a constant);
    strings, None, dtypes and other objects are constants, but for what they hold, which is followed.  Results are
    NumPy arrays, rank-0 ones NumPy scalars; what Python would make of Python numbers alone is one.

    What the function reads from outside of itself is followed.  What it changes there (a counter, a cache) changes when
    it is traced, as in Python, and since the next call finds another state, it is traced for that; a traced array that
    would stay there is refused.

    backend: "cpu", "cuda", "opencl", "vulkan", "reference"; "auto": the best there is that is not the processor, else
        "cpu"; by default where the arguments lie (`device_put`), else what `default_device` says, else "cpu".
    device: one of `devices()`, as "opencl:1", where a backend has several.
    dynamic_shapes: None compiles the first call for its extents and the second for all; True for all at once; False for
        each alone.
    writeback: whether arguments the function changes in place are changed for the caller too; False makes such a write
        an error.
    redirect: whether the function, and functions and methods of yours that it calls, see traced versions of NumPy's
        functions that make arrays (`np.zeros(n)` can then be filled in place) and of arrays outside of it (read at each
        call, another may be bound to the name).  With False such arrays are constants, and only what NumPy hands over
        by its protocols is traced.
    alternatives: names of lowering rules that are used on demand only: "blas" hands products of two matrices to NumPy's
        BLAS.
    donate_argnums: positional arguments that the caller gives up: a result may be returned in the memory of such an
        array, whose old elements are gone then (the result is that array itself).  A read-only or overlapping array is
        copied first.
    static_argnums, static_argnames: arguments that are constants of the program, by position or name: hashable, the
        function is compiled for each value.  Strings, None, functions and other objects are constants anyway, numbers
        where the trace needs their values.
    donate_argnames: what `donate_argnums` says, by name.

    Raises: UserError if `function` is not callable or is a generator or coroutine function; OptionError, or
        UnknownBackend, for an option that may not be; what tracing and compiling raise, and BackendUnavailable where
        the backend cannot work here, at the first call.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def scaled(x, factor):
    ...     return np.exp(x) * factor
    >>> scaled(np.zeros(2), 3.0)
    array([3., 3.])
    """
    options = checked_options(
        "tj.jit", one_of(backend, device), dynamic_shapes, writeback, redirect, alternatives, donate_argnums
    )

    def wrap(f: Any) -> JitFunction[Any, Any]:
        if isinstance(f, (staticmethod, classmethod)):
            raise UserError("put @staticmethod or @classmethod above @tj.jit, not below it")
        if not callable(f):
            raise UserError(f"tj.jit wants a function, not {type(f).__name__}")
        if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
            raise UserError(
                "tj.jit cannot compile generator or coroutine functions; return arrays instead of yielding them"
            )
        chosen = with_arguments("tj.jit", options, f, static_argnums, static_argnames, donate_argnames)
        return JitFunction(f, chosen)

    return wrap if function is None else wrap(function)
