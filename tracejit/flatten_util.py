"""A pytree as one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.api.transform import is_array
from tracejit.ir.extents import prod
from tracejit.support.errors import ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.tree import unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tree_util import tree_flatten

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(all elements in one vector, what makes of such a vector a pytree like this one).

    Items of a dict come in the order of its keys.  The vector has the dtype that the leaves have together, the leaves
    get theirs back.

    Raises: TracerError for a leaf that is no array; of the function ShapeError for a vector of another length.
    Source: JAX's ravel_pytree.

    >>> import numpy as np, tracejit as tj
    >>> vector, back = tj.flatten_util.ravel_pytree({"w": np.ones((2, 2)), "b": 5.0})
    >>> vector, back(2 * vector)["w"][0]
    (array([5., 1., 1., 1., 1.]), array([2., 2.]))
    """
    leaves, treedef = tree_flatten(pytree)
    for x in leaves:
        if not is_array(x):
            raise TracerError(f"ravel_pytree: a leaf is a {type(x).__name__}, not an array", location=user_location())
    avals = [aval_of_argument(x) for x in leaves]
    sizes = [prod(a.shape) for a in avals]
    dtype = np.result_type(*[a.dtype for a in avals]) if avals else np.dtype(np.float64)
    parts = [np.reshape(x, (-1,) if a.shape else (1,)).astype(dtype) for x, a in zip(leaves, avals, strict=True)]
    vector = np.concatenate(parts) if parts else np.zeros(0, dtype)

    def unravel(vector: Any) -> Any:
        """The pytree with the elements of a vector."""
        shape = aval_of_argument(vector).shape
        if shape != (sum(sizes),):
            raise ShapeError(
                f"unravel: the vector has shape {shape}; the pytree has {sum(sizes)} elements", location=user_location()
            )
        out: list[Any] = []
        at: Any = 0
        for n, a in zip(sizes, avals, strict=True):
            out.append(np.reshape(vector[at : at + n], a.shape).astype(a.dtype))
            at += n
        return unflatten(treedef, out)

    return vector, unravel
