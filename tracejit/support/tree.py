"""Pytrees: nested tuples, lists, dicts, None and registered classes, flattened to leaves and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracejit.support.errors import TracerError
from tracejit.support.nodes import value

__all__ = ["LEAF", "TreeDef", "flatten", "flatten_with_paths", "map_tree", "register_node", "unflatten"]


@value
class TreeDef:
    """The shape of a pytree.  kind: "leaf", "none", "tuple", "list", "dict" or a registered class; `data` its static part.

    >>> treedef = flatten([1, (2, 3)])[1]
    >>> str(treedef), treedef.leaves
    ('[*, (*, *)]', 3)
    """

    kind: Any
    data: Any = None
    children: tuple[TreeDef, ...] = ()

    @property
    def leaves(self) -> int:
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def __str__(self) -> str:
        """The structure with * for leaves: `{'w': *, 'b': (*, None)}`."""
        inside = [str(child) for child in self.children]
        match self.kind:
            case "leaf":
                return "*"
            case "none":
                return "None"
            case "tuple":
                return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
            case "list":
                return f"[{', '.join(inside)}]"
            case "dict":
                return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(self.data, inside, strict=True)) + "}"
            case _:
                return f"{self.kind.__name__}({', '.join(inside)})"


LEAF = TreeDef("leaf")
_NONE = TreeDef("none")
_NODES: dict[type, tuple[Callable[[Any], tuple[Sequence[Any], Any]], Callable[[Any, Sequence[Any]], Any]]] = {}


def register_node(
    cls: type, to_children: Callable[[Any], tuple[Sequence[Any], Any]], from_children: Callable[[Any, Sequence[Any]], Any]
) -> type:
    """Make `cls` a container: `to_children(x) -> (children, static)`, `from_children(static, children) -> x`.

    >>> import numpy as np, tracejit as tj
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> _ = tj.tree_util.register_node(Point, lambda p: ((p.x, p.y), None), lambda _, children: Point(*children))
    >>> p = tj.jit(lambda p: Point(p.x + p.y, p.x * p.y))(Point(np.ones(2), np.full(2, 5.0)))
    >>> p.x, p.y
    (array([6., 6.]), array([5., 5.]))
    """
    _NODES[cls] = (to_children, from_children)
    return cls


def _split(x: Any) -> tuple[Any, Any, Sequence[Any]] | None:
    """(kind, data, children) of a container, None for a leaf."""
    cls = type(x)
    if cls is tuple:
        return "tuple", None, x
    if cls is list:
        return "list", None, x
    if cls is dict:
        try:
            keys = tuple(sorted(x))
        except TypeError:
            keys = tuple(x)
        return "dict", keys, [x[k] for k in keys]
    if x is None:
        return "none", None, ()
    if cls in _NODES:
        children, data = _NODES[cls][0](x)
        return cls, data, children
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return cls, "namedtuple", x
    return None


def flatten(x: Any) -> tuple[list[Any], TreeDef]:
    """Leaves in order, and the structure that `unflatten` rebuilds.

    >>> leaves, treedef = flatten({"w": 1, "b": (2, [3, None])})
    >>> leaves, str(treedef)
    ([2, 3, 1], "{'b': (*, [*, None]), 'w': *}")
    """
    split = _split(x)
    if split is None:
        return [x], LEAF
    kind, data, children = split
    if kind == "none":
        return [], _NONE
    leaves: list[Any] = []
    defs: list[TreeDef] = []
    for child in children:
        part, treedef = flatten(child)
        leaves += part
        defs.append(treedef)
    return leaves, TreeDef(kind, data, tuple(defs))


def flatten_with_paths(x: Any, path: str = "") -> list[tuple[str, Any]]:
    """Leaves with printable paths such as `[0]['w']`."""
    split = _split(x)
    if split is None:
        return [(path, x)]
    kind, data, children = split
    keys = data if kind == "dict" else range(len(children))
    out: list[tuple[str, Any]] = []
    for key, child in zip(keys, children, strict=True):
        out += flatten_with_paths(child, f"{path}[{key!r}]")
    return out


def _unflatten(treedef: TreeDef, leaves: Any) -> Any:
    if treedef.kind == "leaf":
        return next(leaves)
    if treedef.kind == "none":
        return None
    children = [_unflatten(child, leaves) for child in treedef.children]
    if treedef.kind == "tuple":
        return tuple(children)
    if treedef.kind == "list":
        return children
    if treedef.kind == "dict":
        return dict(zip(treedef.data, children, strict=True))
    if treedef.data == "namedtuple":
        return treedef.kind(*children)
    return _NODES[treedef.kind][1](treedef.data, children)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The inverse of `flatten`.

    >>> leaves, treedef = flatten({"w": 1, "b": (2, 3)})
    >>> unflatten(treedef, [10, 20, 30])
    {'b': (10, 20), 'w': 30}
    """
    return _unflatten(treedef, iter(leaves))


def map_tree(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`function` over the leaves of trees of one structure.  Raises TracerError where the structures differ.

    >>> map_tree(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, treedef = flatten(tree)
    columns = [leaves]
    for other in rest:
        more, other_def = flatten(other)
        if other_def != treedef:
            raise TracerError(f"pytrees differ in structure: {treedef} and {other_def}")
        columns.append(more)
    return unflatten(treedef, [function(*row) for row in zip(*columns, strict=True)])
