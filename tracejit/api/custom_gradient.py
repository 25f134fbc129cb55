"""Functions that give their derivative beside their result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tracejit.api.custom import custom_vjp
from tracejit.api.transform import checked_function

__all__ = ["custom_gradient"]


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of what `fun` gives first, with the derivative in reverse mode that it gives second: `fun(*args)` is
    (result, rule), and `rule(cotangent)` the cotangents of the arguments, of one argument in a tuple or as it is.

    In reverse `fun` is computed again, from the arguments.  There is no derivative in forward mode.

    Raises: as `custom_vjp`.
    Source: JAX's custom_gradient.

    >>> import numpy as np, tracejit as tj
    >>> @tj.custom_gradient
    ... def clipped(x):
    ...     return x, lambda g: np.clip(g, -1.0, 1.0)
    >>> tj.grad(lambda x: np.sum(clipped(x) ** 2))(np.array([0.25, 3.0]))
    array([0.5, 1. ])
    """
    checked_function("custom_gradient", fun)
    with_rule = custom_vjp(lambda *args: fun(*args)[0])

    def backward(args: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
        found = fun(*args)[1](cotangent)
        return found if isinstance(found, tuple) else (found,)

    with_rule.defvjp(lambda *args: (fun(*args)[0], args), backward)

    @functools.wraps(fun)
    def call(*args: Any) -> Any:
        return with_rule(*args)

    return call
