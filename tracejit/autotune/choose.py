"""The one hook of autotuning: which schedule a kernel runs under on a target."""

from __future__ import annotations

from tracejit.autotune.heuristic import heuristic_schedule, threads_schedule
from tracejit.autotune.place import database_path
from tracejit.backends.base import Target
from tracejit.ir.kernel import Kernel
from tracejit.ir.schedule import Schedule, apply
from tracejit.support.errors import ScheduleError

__all__ = ["choose", "default_schedule", "tuned_schedule"]


def choose(kernel: Kernel, target: Target) -> Schedule:
    """The tuned schedule of a kernel if the database has one, else the heuristic's."""
    return tuned_schedule(kernel, target) or default_schedule(kernel, target)


def default_schedule(kernel: Kernel, target: Target) -> Schedule:
    """The heuristic's choice where there are vectors, or threads; a grid has defaults of its own, others run loops as
    they are.
    """
    if target.vector_bits:
        return heuristic_schedule(kernel, target.vector_bits)
    return threads_schedule(kernel) if target.threads > 1 and not target.grid else Schedule()


def tuned_schedule(kernel: Kernel, target: Target) -> Schedule | None:
    """What the database has for a kernel.  An entry that does not fit (an edited file) is passed over with a
    warning.
    """
    path = database_path()
    if path is None or not path.exists():
        return None
    from tracejit.autotune.database import current_database, kernel_key

    database = current_database()
    if database is None or not len(database):
        return None
    entry = database.get(kernel_key(kernel, target))
    if entry is None:
        return None
    try:
        apply(kernel, entry.schedule)
    except ScheduleError as error:
        import warnings

        warnings.warn(
            f"the tuned schedule of {kernel.name} in {database.path} is not legal: {error.message}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return entry.schedule
