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
from tracejit.tracer.cell import aval_of_argument

__all__ = ["default_backend", "device_count", "jacobian", "named_call", "typeof"]

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
