"""Where functions run that nobody has given a backend: `default_device`.

Compiled functions go from the interpreter's call straight to machine code, which knows nothing of this.  So while some
thread has another default, the calls of functions without `backend=` pass through Python, where that is looked up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tracejit.api.option_checks import known_backend
from tracejit.backends.registry import AUTO, get_backend
from tracejit.support.forks import at_fork
from tracejit.support.weak import WeakMap

__all__ = ["default_device", "default_place", "route"]

_default: ContextVar[str] = ContextVar("default_device", default="")
_lock = threading.Lock()
at_fork(_lock.acquire, _lock.release, _lock.release)


_defaults = 0
"""How many there are that are not the usual one."""
_routes: WeakMap[Any, Callable[[Any, bool], None]] = WeakMap()
"""What has the calls of a function pass through Python (True), or go where they went before."""


def default_place() -> str:
    """What `default_device` says here; empty: nothing."""
    return _default.get()


def route(function: Any, by: Callable[[Any, bool], None]) -> None:
    """Send the calls of a compiled function without `backend=` where they are to go now, and whenever that changes.

    by: a function of `function` and of whether through Python.
    """
    with _lock:
        _routes[function] = by
        by(function, _defaults > 0)


@contextmanager
def default_device(device: str) -> Generator[None]:
    """Have functions that `tj.jit` compiles without `backend=` run on a device, in this thread, for the time of a
    `with`: "cpu", the name of a backend, one of `tj.devices()`, or "auto".

    Arrays that lie on a device are used there as always; those of the host's are copied to the device, and results to
    the host, unless they are tj.Arrays.

    Raises: UnknownBackend, BackendUnavailable; OptionError for what is no name.

    >>> import numpy as np, tracejit as tj
    >>> double = tj.jit(lambda x: 2 * x)
    >>> with tj.default_device("reference"):
    ...     double(np.arange(3.0))
    array([0., 2., 4.])
    >>> print(double.explain().splitlines()[-1])
      1 kernel for 1 equation on reference
    """
    known_backend("default_device", device, "device")
    if device != AUTO:
        get_backend(device)
    token = _default.set(device)
    _count(1)
    try:
        yield
    finally:
        _default.reset(token)
        _count(-1)


def _count(change: int) -> None:
    global _defaults
    with _lock:
        before, _defaults = _defaults, _defaults + change
        if (before > 0) != (_defaults > 0):
            for function in _routes:
                by = _routes.get(function)
                assert by is not None
                by(function, _defaults > 0)
