"""Pytrees: nested tuples, lists, dicts, None and registered classes, flattened to leaves and back.

A dict's keys stay in the order in which they were inserted, which is part of its structure.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracejit.support.errors import TracerError
from tracejit.support.nodes import frozen

__all__ = [
    "LEAF", "TreeDef", "flatten", "flatten_like", "flatten_with_paths", "is_node_class", "map_tree",
    "register_node",
    "split_node", "unflatten",
]  # fmt: skip


@frozen
class TreeDef:
    """The shape of a pytree.  kind: "leaf", "none", "tuple", "list", "dict" or a registered class;
    `data` its static part.

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

    @property
    def num_leaves(self) -> int:
        """JAX's name of `leaves`."""
        return self.leaves

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The pytree with these leaves."""
        return unflatten(self, leaves)

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
    cls: type,
    to_children: Callable[[Any], tuple[Sequence[Any], Any]],
    from_children: Callable[[Any, Sequence[Any]], Any],
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


def is_node_class(cls: type) -> bool:
    """Whether objects of a class are containers.

    >>> is_node_class(dict), is_node_class(set)
    (True, False)
    """
    if cls in (tuple, list, dict, type(None)) or cls in _NODES:
        return True
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


class _Keys(tuple[Any, ...]):
    """Keys that are not all strings.  1, 1.0 and True are one key of a dict, but not to the code that reads it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keys) and [*map(_exactly, self)] == [*map(_exactly, other)]

    def __hash__(self) -> int:
        return hash((*map(type, self), *self))


def _exactly(key: Any) -> Any:
    """What only a key is equal to that is the same to whoever reads it: of the same class, also in what it holds, and
    no other zero.
    """
    if isinstance(key, tuple):
        return type(key), *map(_exactly, key)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(key, frozenset):
        return type(key), frozenset(map(_exactly, key))  # pyright: ignore[reportUnknownArgumentType]
    return type(key), key, repr(key) if isinstance(key, float | complex) and not key else ""


def _keys(x: dict[Any, Any]) -> tuple[Any, ...]:
    return tuple(x) if all([type(k) is str for k in x]) else _Keys(x)


def split_node(x: Any) -> tuple[Any, Any, Sequence[Any]] | None:
    """(kind, data, children) of a container, None for a leaf.

    >>> split_node({"w": 1}), split_node(1)
    (('dict', ('w',), (1,)), None)
    """
    cls = type(x)
    if cls is tuple:
        return "tuple", None, x
    if cls is list:
        return "list", None, x
    if cls is dict:
        return "dict", _keys(x), tuple(x.values())
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
    ([1, 2, 3], "{'w': *, 'b': (*, [*, None])}")
    """
    split = split_node(x)
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


def flatten_like(x: Any, treedef: TreeDef) -> list[Any] | None:
    """Leaves in the order of a structure whose dicts may have the same keys in another order;
    None where the structures differ else.

    >>> leaves, treedef = flatten({"w": 1, "b": 2})
    >>> flatten_like({"b": 20, "w": 10}, treedef), flatten_like({"b": 20}, treedef)
    ([10, 20], None)
    """
    if treedef.kind == "leaf":
        return [x] if split_node(x) is None else None
    split = split_node(x)
    if split is None:
        return None
    kind, data, children = split
    if treedef.kind == "dict" and kind == "dict" and data != treedef.data:
        if len(data) != len(treedef.data) or any(k not in x for k in treedef.data):
            return None
        children = [x[k] for k in treedef.data]
    elif kind != treedef.kind or data != treedef.data or len(children) != len(treedef.children):
        return None
    leaves: list[Any] = []
    for child, part in zip(children, treedef.children, strict=True):
        found = flatten_like(child, part)
        if found is None:
            return None
        leaves += found
    return leaves


def flatten_with_paths(x: Any, path: str = "") -> list[tuple[str, Any]]:
    """Leaves with printable paths such as `[0]['w']`."""
    split = split_node(x)
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
        return tuple.__new__(treedef.kind, children)  # a `__new__` of the user's has made them from others
    return _NODES[treedef.kind][1](treedef.data, children)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The inverse of `flatten`.

    >>> leaves, treedef = flatten({"w": 1, "b": (2, 3)})
    >>> unflatten(treedef, [10, 20, 30])
    {'w': 10, 'b': (20, 30)}
    """
    return _unflatten(treedef, iter(leaves))


def map_tree(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`function` over the leaves of trees of one structure, that of the first.  Raises TracerError
    where the structures differ.

    >>> map_tree(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [20], "a": 10})
    {'a': 11, 'b': [22]}
    """
    leaves, treedef = flatten(tree)
    columns = [leaves]
    for other in rest:
        more = flatten_like(other, treedef)
        if more is None:
            raise TracerError(f"pytrees differ in structure: {treedef} and {flatten(other)[1]}")
        columns.append(more)
    return unflatten(treedef, [function(*row) for row in zip(*columns, strict=True)])


register_node(
    OrderedDict,
    lambda x: (list(x.values()), _keys(x)),
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
)
register_node(
    defaultdict,
    lambda x: (list(x.values()), (x.default_factory, _keys(x))),
    lambda data, children: defaultdict(data[0], zip(data[1], children, strict=True)),
)
