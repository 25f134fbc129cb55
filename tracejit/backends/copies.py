"""How arrays get from one memory to another: rules by (source, destination), which packages add to.

A memory is the host's ("host"), or that of a backend's devices, by the name of the backend.  The rule for a pair is the
one that was registered for it, else that of ("host", "*"), ("*", "host") or ("*", "*"): the backend's `put` and the
array's `host`, one after the other between devices.  Where the host shares the memory of one of them, only the other
copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tracejit.backends.base import Resident
from tracejit.support.errors import UserError

if TYPE_CHECKING:
    from tracejit.backends.base import Backend

__all__ = ["HOST", "copied", "copy_rule", "register_copy", "unregister_copy"]

HOST = "host"
_ANY = "*"
CopyRule: TypeAlias = "Callable[[Any, Backend | None, str], Any]"
"""A function of an array (NumPy's on the host, a `Resident` on a device), of the backend of the destination (None: the
host) and of the place there, "opencl:0": the array at the destination."""
_RULES: dict[tuple[str, str], CopyRule] = {}


def register_copy(source: str, destination: str) -> Callable[[CopyRule], CopyRule]:
    """Have a function copy arrays from one memory to another: "host", the name of a backend, or "*" for all of these.

    Raises: UserError where there is one for this pair.

    >>> from tracejit.backends.copies import copy_rule, register_copy, unregister_copy
    >>> @register_copy("opencl", "cuda")
    ... def direct(x, backend, place):
    ...     return backend.put(x.host(), place)
    >>> copy_rule("opencl", "cuda") is direct
    True
    >>> unregister_copy("opencl", "cuda")
    """

    def registered(rule: CopyRule) -> CopyRule:
        if (source, destination) in _RULES:
            raise UserError(f"there is a copy from {source} to {destination} already; unregister_copy takes it away")
        _RULES[source, destination] = rule
        return rule

    return registered


def unregister_copy(source: str, destination: str) -> None:
    """Forget a rule.   Raises: KeyError."""
    del _RULES[source, destination]


def copy_rule(source: str, destination: str) -> CopyRule:
    """What copies from one memory to another."""
    pairs = [(source, destination)]
    pairs += [(source, _ANY)] if destination != HOST else []
    pairs += [(_ANY, destination)] if source != HOST else []
    return next((_RULES[p] for p in pairs if p in _RULES), _RULES[_ANY, _ANY])


def copied(x: Any, backend: Backend | None, place: str) -> Any:
    """An array at a place: NumPy's, which must not be written, on the host ("cpu", without a backend), else a
    `Resident` of the backend.  One that lies there is not copied.

    Raises: OutOfMemory; what the computation of it has raised.
    """
    if isinstance(x, Resident):
        if x.place == place:
            return x
        source = x.place.partition(":")[0]
    else:
        source = HOST
    if source == HOST and backend is None:
        return x
    return copy_rule(source, HOST if backend is None else backend.name)(x, backend, place)


@register_copy(HOST, _ANY)
def _put(x: Any, backend: Backend | None, place: str) -> Any:
    assert backend is not None
    array = np.asarray(x)
    return backend.put(np.ascontiguousarray(array).reshape(array.shape), place)


@register_copy(_ANY, HOST)
def _taken(x: Any, backend: Backend | None, place: str) -> Any:
    return x.host()


@register_copy(_ANY, _ANY)
def _through_the_host(x: Any, backend: Backend | None, place: str) -> Any:
    return _put(x.host(), backend, place)
