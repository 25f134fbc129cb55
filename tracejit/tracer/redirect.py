"""A user's function as it is traced: a clone whose view of NumPy, modules and other functions is redirected.

`substitution.redirect(function)` gives the clone: the same code object over other globals (`namespace.Namespace`) and,
where they hold something that is substituted, other closure cells.  Substituted are NumPy and `math`, under any name,
by views of them; functions that make arrays by ones that make traced arrays; Python functions of the user by their
clones; `functools.partial` objects and bound methods of those; arrays by tracers that read them at each call.  Methods
need more, see `methods`.  Functions of installed packages and of this one are left alone.

A `Trace` is what one tracing of a function knows: what it read from outside, and clones that are good for this trace
only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from tracejit.support.errors import Restart, WriteError
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.attributes import ATTRIBUTES
from tracejit.tracer.captured import Reads
from tracejit.tracer.changes import Changes
from tracejit.tracer.current import current_trace, entered
from tracejit.tracer.kept import StandIns
from tracejit.tracer.methods import ClassPatches
from tracejit.tracer.substitution import substitution
from tracejit.tracer.trace import Trace

__all__ = ["prepared", "tracing"]

for _name in ("handed_functions", "standard_library"):  # they register what stands for their functions
    import_module(f"tracejit.tracer.{_name}")

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def tracing(*, nested: bool = False) -> Generator[Trace]:
    """A new trace for this thread inside the block.  What it changes outside stays, unless it starts again.

    nested: one that is in progress goes on; a new one serves an eager transformation, for which nothing is compiled:
    what it reads from objects is not remembered.
    """
    outer = current_trace()
    if nested and outer is not None:
        yield outer
        return
    reads = Reads()
    patches = ClassPatches(ATTRIBUTES)
    trace = Trace(
        patches,
        reads,
        Changes(reads, StandIns(substitution.original), lambda: patches.before),
        substitution,
        is_eager=nested,
    )
    trace.changes.clones = trace.clones
    try:
        with entered(trace):
            yield trace
    except (Restart, WriteError):  # a call that is refused has not happened
        trace.changes.undo()
        raise
    except BaseException:
        trace.changes.keep(refuse=False)
        raise
    else:
        trace.keep()
    finally:
        trace.patches.remove()


def prepared(function: F, outside: dict[int, Any] | None = None) -> F:
    """A function that runs its redirected clone, within the trace in progress or one of its own: for transformations.

    NumPy arrays among its arguments are traced as those are that it reads from outside, so that copies of them can be
    filled.

    outside: gets the arrays that it has read, under their identities.
    """

    def traced(trace: Trace, x: Any) -> Any:
        return trace.reads.array(x) if type(x) is np.ndarray and x.dtype.kind in "biufc" else x

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
