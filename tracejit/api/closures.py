"""`closure_convert`: what a function reads from outside becomes arguments of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracejit.api.apart import apart
from tracejit.api.transform import checked_function, is_array, name_of, of_some_leaves
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.tracer import Tracer

__all__ = ["closure_convert"]


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The function without what it reads from outside and is being traced: (function, values), where
    `function(*args, *values)` is `fun(*args)`.

    example_args: as those it will be called with: shapes and dtypes of arrays count, and what is no array.  For
    functions of the user's that go into `tj.custom_jvp` and `tj.custom_vjp` as static arguments: what they read would
    have no derivative else.

    Raises: UserError where the function is called with arguments of another structure.

    Source of the interface: JAX's closure_convert.

    >>> import numpy as np, tracejit as tj
    >>> def slope(a):
    ...     line, values = tj.closure_convert(lambda x: a * x, 1.0)
    ...     return line(3.0, *[2 * v for v in values])
    >>> float(tj.grad(slope)(5.0))
    6.0
    """
    checked_function("closure_convert", fun)
    leaves, tree = flatten((example_args, {}))
    places = [k for k, x in enumerate(leaves) if is_array(x)]
    flat, out = of_some_leaves("closure_convert", fun, fun, leaves, tree, places)
    staged = apart(flat, [aval_of_argument(leaves[k]) for k in places], f"{name_of(fun)}, under closure_convert,")
    structure = out[0]
    read = [k for k, x in enumerate(staged.constants) if isinstance(x, Tracer)]

    def converted(*args: Any) -> Any:
        split = len(args) - len(read)
        given, found = flatten((args[:split], {}))
        if split < 0 or found != tree:
            raise UserError(
                f"{name_of(fun)}, converted by closure_convert, takes arguments like those it was converted for, and "
                f"{len(read)} values that it read from outside",
                location=user_location(),
            )
        constants = list(staged.constants)
        for k, x in zip(read, args[split:], strict=True):
            constants[k] = x
        return unflatten(structure, staged.run([*[given[k] for k in places], *constants]))

    return converted, [staged.constants[k] for k in read]
