"""Control flow under JAX's names."""

from collections.abc import Callable
from typing import Any

from tracejit.api.control import cond, fori_loop, scan, switch, while_loop
from tracejit.api.implicit import custom_linear_solve, custom_root
from tracejit.lax.derivatives import stop_gradient
from tracejit.lax.scans import associative_scan, map
from tracejit.support.config import config
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.tracer.current import current_trace

__all__ = [
    "associative_scan", "cond", "custom_linear_solve", "custom_root", "fori_loop", "map", "platform_dependent", "scan",
    "stop_gradient", "switch", "while_loop",
]  # fmt: skip

_PLATFORMS = {"reference": "cpu"}
"""JAX's names of backends that have another one here."""


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """What the function for the backend gives of the arguments: cpu=, cuda=, opencl=, vulkan=, reference= (or cpu=),
    and `default` for the others.  The others are not called.

    Raises: UserError where there is none for the backend.
    Source: jax.lax.platform_dependent.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.platform_dependent(x, cpu=np.negative, default=np.exp))(np.array([1.0]))
    array([-1.])
    """
    trace = current_trace()
    name = config.backend if trace is None or trace.backend is None else trace.backend
    for key in (name, _PLATFORMS.get(name)):
        if key in per_platform:
            return per_platform[key](*args)
    if default is None:
        raise UserError(
            f"lax.platform_dependent: there is no function for the backend {name!r}; give it, or a default",
            location=user_location(),
        )
    return default(*args)
