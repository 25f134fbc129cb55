"""`tune`: search the schedules of a function's kernels for given arguments, and remember what is faster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracejit.api.jit import JitFunction, compiled_with, options_of
from tracejit.api.option_checks import duration, expect
from tracejit.api.options import checked_options
from tracejit.backends.registry import get_backend
from tracejit.support.config import config
from tracejit.support.errors import UnsupportedError, UserError
from tracejit.support.nodes import evolve

if TYPE_CHECKING:
    from tracejit.api.tune_session import TuneReport
    from tracejit.ir.kernel import Kernel
    from tracejit.ir.schedule import Schedule

__all__ = ["tune"]


def tune(
    function: Callable[..., Any],
    /,
    *,
    backend: str | None = None,
    seconds: float = 30.0,
    dynamic_shapes: bool | None = None,
    default: Callable[[Kernel], Schedule] | None = None,
    database: str | Path | None = None,
) -> Callable[..., TuneReport]:
    """`tj.tune(f)(*args)` searches schedules for the kernels that `f` runs for these arguments.

    What is faster than the default beyond noise is kept in the database and used by every later compilation of the same
    kernels on the same device; `f`, if jitted, compiles anew at its next call.  Arguments are not changed.

    backend: as for `jit`; by default that of `f`.
    seconds: about how long it may take altogether.
    dynamic_shapes: True tunes the code for symbolic extents, False the code for exactly these; by default what `f`
        compiles first.
    default: the schedule to beat, per kernel; by default the heuristic's.
    database: a file; by default TRACEJIT_TUNE_DB or schedules.txt in the user's cache directory.

    Raises: OptionError, or UnknownBackend, for an option that may not be; UnsupportedError if kernels of the backend
    cannot be measured; UserError if `database` is no file; what tracing and compiling raise.

    >>> import numpy as np, tempfile, tracejit as tj
    >>> f = tj.jit(lambda x: np.exp(x).sum(axis=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = tj.tune(f, seconds=0.2, database=f"{folder}/schedules.txt")(np.ones((64, 64)))
    >>> len(report.outcomes)
    1
    """
    if not callable(function):
        raise UserError(f"tj.tune wants a function, not {type(function).__name__}")
    given = checked_options("tj.tune", backend, dynamic_shapes)
    duration("tj.tune", "seconds", seconds)
    fits = default is None or callable(default)
    expect(fits, "tj.tune", "default", default, "a function that gives a kernel's schedule, or None")
    place: Any = database
    expect(place is None or isinstance(place, (str, Path)), "tj.tune", "database", place, "a path or None")
    f: Any = function if isinstance(function, JitFunction) else JitFunction(function, given)
    options = options_of(f)
    where = backend or options.backend or config.backend

    def run(*args: Any, **kwargs: Any) -> TuneReport:
        from tracejit.api.tune_session import tune_call

        real = get_backend(where)
        if not real.is_scheduled:
            raise UnsupportedError(f"tj.tune: kernels of the {real.name} backend have no schedules to search")
        dynamic = options.dynamic_shapes if dynamic_shapes is None else dynamic_shapes
        tuned = compiled_with(f, evolve(options.without_donation(), backend=where, dynamic_shapes=dynamic is True))
        report = tune_call(tuned, real, default, database, seconds, args, kwargs)
        f.clear_cache()
        return report

    return run
