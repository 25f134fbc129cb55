"""Control flow under JAX's names."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracejit.api import control
from tracejit.api.control import cond, scan, while_loop
from tracejit.api.implicit import custom_linear_solve, custom_root
from tracejit.lax.derivatives import stop_gradient
from tracejit.lax.scans import associative_scan, map
from tracejit.support.config import config
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.tracer.current import current_trace

__all__ = [
    "associative_scan", "composite", "cond", "custom_linear_solve", "custom_root", "fori_loop", "map",
    "platform_dependent", "scan", "stop_gradient", "switch", "while_loop",
]  # fmt: skip

_NOTHING: Any = object()


def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool | None = None
) -> Any:
    """`for i in range(lower, upper): carry = body_fun(i, carry)`; the carry's structure, shapes and dtypes stay.

    With bounds known while tracing the loop has a derivative in both modes, else it is a while loop.  unroll: changes
    nothing.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.fori_loop(0, 5, lambda i, s: s * x + i, np.zeros(2)))(np.array([1.0, 2.0]))
    array([10., 26.])
    """
    return control.fori_loop(lower, upper, body_fun, init_val)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NOTHING) -> Any:
    """`branches[index](*operands)`, the index clamped; only that branch runs.   operand: one operand, by name.

    >>> import numpy as np, tracejit as tj
    >>> f = tj.jit(lambda i, x: tj.lax.switch(i, [np.sin, np.cos, lambda x: x * 10], x))
    >>> f(2, np.ones(2)), f(1, np.zeros(2))
    (array([10., 10.]), array([1., 1.]))
    """
    if operand is not _NOTHING:
        if operands:
            raise UserError("switch: operands are given by place, or one by name (operand=)", location=user_location())
        operands = (operand,)
    return control.switch(index, branches, *operands)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that goes by a name in JAX's programs: here it is `decomposition`, called with the arguments, and with
    attributes by their names.

    >>> import tracejit as tj
    >>> tj.lax.composite(lambda x, *, scale: x * scale, name="my.scaled")(2.0, scale=3.0)
    6.0
    """

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        return decomposition(*args, **attributes)

    return call


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
