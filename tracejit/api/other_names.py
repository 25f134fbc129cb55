"""What is here under another name, or follows in a line: JAX's names of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracejit.api.devices import devices
from tracejit.api.inspecting import ShapeDtypeStruct, named_scope
from tracejit.api.jacobian import jacrev
from tracejit.api.transform import checked_function
from tracejit.support.config import config
from tracejit.support.errors import OptionError
from tracejit.support.source import user_location
from tracejit.tracer.cell import aval_of_argument

__all__ = [
    "default_backend", "device_count", "jacobian", "local_device_count", "local_devices", "named_call",
    "process_count", "process_index", "typeof",
]  # fmt: skip

jacobian = jacrev


def typeof(x: Any) -> ShapeDtypeStruct:
    """The shape and dtype of an array or number, traced or not.

    Raises: DtypeError for what is no array of numbers.   Source: JAX's typeof.

    >>> import numpy as np, tracejit as tj
    >>> tj.typeof(np.ones((2, 3))).shape
    (2, 3)
    """
    aval = aval_of_argument(x)
    return ShapeDtypeStruct(aval.shape, aval.dtype)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """The function, in a `named_scope` of its name, or of another.

    >>> import tracejit as tj
    >>> tj.named_call(lambda x: x + 1, name="next")(2)
    3
    """
    checked_function("named_call", fun)
    title = name or getattr(fun, "__name__", "call")

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        with named_scope(title):
            return fun(*args, **kwargs)

    return call


def default_backend() -> str:
    """The backend of functions that are compiled without `backend=`.

    >>> import tracejit as tj
    >>> tj.default_backend() in tj.list_backends()
    True
    """
    return config.backend


def device_count(backend: str | None = None) -> int:
    """How many devices there are, of one backend or of all.

    >>> import tracejit as tj
    >>> tj.device_count("cpu")
    1
    """
    return len(devices(backend))


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[str]:
    """The devices, all of which are this process's.

    Raises: OptionError for another process.

    >>> import tracejit as tj
    >>> tj.local_devices(backend="cpu")
    ['cpu']
    """
    for number in (process_index, host_id):
        if number not in (None, 0):
            raise OptionError(f"there is one process, 0, and no process {number}", location=user_location())
    return list(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices there are, of one backend or of all.

    >>> import tracejit as tj
    >>> tj.local_device_count("cpu")
    1
    """
    return len(local_devices(backend=backend))


def process_count(backend: str | None = None) -> int:
    """How many processes compute together: 1.

    >>> import tracejit as tj
    >>> tj.process_count()
    1
    """
    return 1


def process_index(backend: str | None = None) -> int:
    """Which of the processes that compute together this one is: 0.

    >>> import tracejit as tj
    >>> tj.process_index()
    0
    """
    return 0
