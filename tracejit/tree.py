"""Pytrees under the names of `jax.tree`; see `tracejit.tree_util`."""

import dataclasses
from typing import Any

from tracejit.tree_util import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path,
    tree_map as map,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_structure as structure,
    tree_transpose as transpose,
    tree_unflatten as unflatten,
)

__all__ = [
    "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
    "reduce_associative", "static", "structure", "transpose", "unflatten",
]  # fmt: skip


def static(**kwargs: Any) -> Any:
    """A field of a data class that `tree_util.register_dataclass` takes for part of the structure.

    kwargs: those of `dataclasses.field`.

    >>> import dataclasses, tracejit as tj
    >>> @tj.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: list
    ...     name: str = tj.tree.static(default="")
    >>> tj.tree.leaves(Layer([1, 2], "first"))
    [1, 2]
    """
    return dataclasses.field(metadata={**(kwargs.pop("metadata", None) or {}), "static": True}, **kwargs)
