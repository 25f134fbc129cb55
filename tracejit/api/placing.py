"""Where functions run that nobody has given a backend (`default_device`), and whether they are compiled at all
(`disable_jit`).

Compiled functions go from the interpreter's call straight to machine code, which knows nothing of this.  So while some
thread has another default, the calls of functions without `backend=` pass through Python, where that is looked up; and
while some thread compiles nothing, those of all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from tracejit.api.option_checks import flag, known_backend
from tracejit.backends.registry import AUTO, get_backend
from tracejit.support.forks import at_fork
from tracejit.support.weak import WeakMap

__all__ = ["compiling", "default_device", "default_place", "disable_jit", "jit_is_disabled", "route"]

_default: ContextVar[str] = ContextVar("default_device", default="")
_lock = threading.Lock()
at_fork(_lock.acquire, _lock.release, _lock.release)


_disabled: ContextVar[bool] = ContextVar("disable_jit", default=False)
_entered = {_default: 0, _disabled: 0}
"""In how many blocks something else than usual holds."""
_routes: WeakMap[Any, tuple[Callable[[Any, bool], None], bool]] = WeakMap()
"""What has the calls of a function pass through Python (True), or go where they went before; and whether the function
has a backend of its own.
"""


def default_place() -> str:
    """What `default_device` says here; empty: nothing."""
    return _default.get()


def jit_is_disabled() -> bool:
    """Whether `disable_jit` holds here."""
    return _disabled.get()


def route(function: Any, by: Callable[[Any, bool], None], placed: bool) -> None:
    """Send the calls of a compiled function where they are to go now, and whenever that changes.

    by: a function of `function` and of whether through Python.  placed: the function has a backend of its own.
    """
    with _lock:
        _routes[function] = by, placed
        by(function, _through_python(placed))


def _through_python(placed: bool) -> bool:
    return _entered[_disabled] > 0 or (not placed and _entered[_default] > 0)


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
    with _inside(_default, device):
        yield


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None]:
    """Have functions that `tj.jit` compiles run as the Python they are, in this thread, for the time of a `with`: to
    step through them with a debugger, to print what they compute.

    What traces (`tj.grad`, `tj.vmap`, the bodies of `tj.lax`'s loops) still does.  disable: False compiles again.
    Source of the interface: JAX's disable_jit.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def half(x):
    ...     print("half of", x)
    ...     return x / 2
    >>> with tj.disable_jit():
    ...     half(np.array([1.0, 3.0]))
    half of [1. 3.]
    array([0.5, 1.5])
    """
    flag("disable_jit", "disable", disable)
    with _inside(_disabled, disable):
        yield


def compiling() -> AbstractContextManager[None]:
    """For a `with` around what runs compiled whatever `disable_jit` says: operations of arrays on devices."""
    return disable_jit(False) if _disabled.get() else nullcontext()


@contextmanager
def _inside(variable: ContextVar[Any], value: Any) -> Generator[None]:
    token = variable.set(value)
    _count(variable, 1)
    try:
        yield
    finally:
        variable.reset(token)
        _count(variable, -1)


def _count(variable: ContextVar[Any], change: int) -> None:
    with _lock:
        before = _through_python(True), _through_python(False)
        _entered[variable] += change
        if before != (_through_python(True), _through_python(False)):
            for function in _routes:
                found = _routes.get(function)
                assert found is not None
                by, placed = found
                if before[not placed] != _through_python(placed):
                    by(function, _through_python(placed))
