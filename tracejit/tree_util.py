"""Pytrees: nested tuples, lists, dicts, None, named tuples and registered classes,
with arrays and numbers at their ends.

Under JAX's names, and under short ones.  `tracejit.tree` has those of `jax.tree`.  The functions under JAX's names take
the items of a dict in the order of its keys, as JAX does; `flatten` and `map_tree` in the order of their insertion.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tracejit.support.errors import ShapeError, TracerError, UserError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.tree import (
    LEAF,
    TreeDef,
    flatten,
    is_node_class,
    map_tree,
    register_node,
    split_node,
    unflatten,
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef", "SequenceKey",
    "TreeDef", "all_leaves", "flatten", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node",
    "keystr", "map_tree", "register_dataclass", "register_node", "register_pytree_node",
    "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static",
    "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative", "tree_structure", "tree_transpose",
    "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple", "unflatten",
]  # fmt: skip

C = TypeVar("C", bound=type)
IsLeaf = Callable[..., bool] | None
PyTreeDef = TreeDef
KeyPath = tuple[Any, ...]


# -- leaves and structures ---------------------------------------------------------------------------------------------
def _split(x: Any, is_leaf: IsLeaf = None) -> tuple[Any, Any, Sequence[Any]] | None:
    """(kind, data, children) of a container, those of a dict in the order of its keys; None for a leaf."""
    split = None if is_leaf is not None and is_leaf(x) else split_node(x)
    if split is None or split[0] != "dict":
        return split
    kind, keys, children = split
    try:
        order = sorted(x)
    except TypeError:  # keys of different kinds
        return kind, keys, children
    return kind, type(keys)(order), [x[k] for k in order]


def _flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    split = _split(tree, is_leaf)
    if split is None:
        return [tree], LEAF
    kind, data, children = split
    parts = [_flatten(child, is_leaf) for child in children]
    return [x for leaves, _ in parts for x in leaves], TreeDef(kind, data, tuple([treedef for _, treedef in parts]))


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """(leaves, structure).  A dict's leaves come in the order of its keys, sorted.  None has no leaf.

    is_leaf: says of a node whether it is one.   Source: JAX's tree_flatten.

    >>> import tracejit as tj
    >>> leaves, treedef = tj.tree_util.tree_flatten({"w": 1, "b": (2, None)})
    >>> leaves, str(treedef)
    ([2, 1], "{'b': (*, None), 'w': *}")
    """
    return _flatten(tree, is_leaf)


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of this structure with these leaves.   Raises: ShapeError for another number of them.

    >>> import tracejit as tj
    >>> _, treedef = tj.tree_util.tree_flatten((1, [2]))
    >>> tj.tree_util.tree_unflatten(treedef, [10, 20])
    (10, [20])
    """
    given = list(leaves)
    if len(given) != treedef.leaves:
        raise ShapeError(
            f"tree_unflatten: {len(given)} leaves for a structure with {treedef.leaves}, {treedef}",
            location=user_location(),
        )
    return unflatten(treedef, given)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_leaves({"w": 1, "b": [2, 3]})
    [2, 3, 1]
    """
    return _flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """The structure: comparable, hashable where the static parts of nodes are.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_structure((1, 2)) == tj.tree_util.tree_structure(("a", "b"))
    True
    """
    return _flatten(tree, is_leaf)[1]


def _flatten_up_to(tree: Any, treedef: TreeDef) -> list[Any] | None:
    """The parts of a tree that stand where a structure has its leaves, None where the tree ends before."""
    if treedef.kind == "leaf":
        return [tree]
    split = _split(tree)
    if split is None or split[0] != treedef.kind:
        return None
    _, data, children = split
    if treedef.kind == "dict":
        if len(data) != len(treedef.data) or any(k not in tree for k in treedef.data):
            return None
        children = [tree[k] for k in treedef.data]
    elif data != treedef.data or len(children) != len(treedef.children):
        return None
    out: list[Any] = []
    for child, part in zip(children, treedef.children, strict=True):
        found = _flatten_up_to(child, part)
        if found is None:
            return None
        out += found
    return out


def _columns(what: str, tree: Any, rest: Sequence[Any], is_leaf: IsLeaf) -> tuple[list[list[Any]], TreeDef]:
    leaves, treedef = _flatten(tree, is_leaf)
    return [leaves, *_others(what, treedef, rest)], treedef


def _others(what: str, treedef: TreeDef, rest: Sequence[Any]) -> list[list[Any]]:
    """What other trees have where a structure has its leaves.  Raises: TracerError where they have another one."""
    columns: list[list[Any]] = []
    for other in rest:
        more = _flatten_up_to(other, treedef)
        if more is None:
            raise TracerError(
                f"{what}: the trees differ in structure: {treedef} and {_flatten(other)[1]}", location=user_location()
            )
        columns.append(more)
    return columns


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of each leaf, and of what the other trees have at its place.

    The others have the structure of the first, or more below its leaves.

    Raises: TracerError where they have not.
    Source: JAX's tree_map.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [20], "a": 10})
    {'a': 11, 'b': [22]}
    """
    columns, treedef = _columns("tree_map", tree, rest, is_leaf)
    return unflatten(treedef, [f(*row) for row in zip(*columns, strict=True)])


_NOTHING: Any = object()


def tree_reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING, is_leaf: IsLeaf = None
) -> Any:
    """The leaves joined from the first to the last, as `functools.reduce` does.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_reduce(lambda a, b: a + b, {"a": 1, "b": (2, 3)})
    6
    """
    leaves = _flatten(tree, is_leaf)[0]
    return (
        functools.reduce(function, leaves)
        if initializer is _NOTHING
        else functools.reduce(function, leaves, initializer)
    )


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _NOTHING, is_leaf: IsLeaf = None
) -> Any:
    """The leaves joined by an associative operation, neighbours first: a tree of joins, not a chain.

    identity: what a tree without leaves gives.

    Raises: ShapeError for a tree without leaves, and no identity.
    Source: JAX's tree_reduce_associative.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_reduce_associative(lambda a, b: a + b, {"a": "x", "b": ("y", "z")})
    'xyz'
    """
    leaves = _flatten(tree, is_leaf)[0]
    while len(leaves) > 1:
        pairs = [operation(leaves[k], leaves[k + 1]) for k in range(0, len(leaves) - 1, 2)]
        leaves = pairs + leaves[2 * len(pairs) :]
    if leaves:
        return leaves[0]
    if identity is _NOTHING:
        raise ShapeError("tree_reduce_associative: the tree has no leaves; give identity=", location=user_location())
    return identity


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether all items are leaves.

    >>> import tracejit as tj
    >>> tj.tree_util.all_leaves([1, "x"]), tj.tree_util.all_leaves([1, (2,)])
    (True, False)
    """
    return all(_split(x, is_leaf) is None for x in iterable)


# -- structures --------------------------------------------------------------------------------------------------------
def treedef_is_leaf(treedef: TreeDef) -> bool:
    """Whether a structure is a leaf.

    >>> import tracejit as tj
    >>> tj.tree_util.treedef_is_leaf(tj.tree_util.tree_structure(1))
    True
    """
    return treedef.kind == "leaf"


def treedef_children(treedef: TreeDef) -> list[TreeDef]:
    """The structures that a structure is made of, of a leaf none.

    >>> import tracejit as tj
    >>> list(map(str, tj.tree_util.treedef_children(tj.tree_util.tree_structure((1, [2])))))
    ['*', '[*]']
    """
    return list(treedef.children)


def treedef_tuple(treedefs: Iterable[TreeDef]) -> TreeDef:
    """The structure of a tuple of trees with these structures.

    >>> import tracejit as tj
    >>> leaf = tj.tree_util.tree_structure(0)
    >>> str(tj.tree_util.treedef_tuple([leaf, leaf]))
    '(*, *)'
    """
    return TreeDef("tuple", None, tuple(treedefs))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true, as Python asks.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_all([True, (1, "x")]), tj.tree_util.tree_all({"a": 0})
    (True, False)
    """
    return all(_flatten(tree, is_leaf)[0])


def tree_transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees with the inner structure outside; inner_treedef: None takes it from the first part.

    Raises: TracerError where the tree has not these structures.

    >>> import tracejit as tj
    >>> outer, inner = tj.tree_util.tree_structure([0, 0]), tj.tree_util.tree_structure((0, 0))
    >>> tj.tree_util.tree_transpose(outer, inner, [(1, 2), (3, 4)])
    ([1, 3], [2, 4])
    """
    parts = _flatten_up_to(pytree_to_transpose, outer_treedef)
    if parts and inner_treedef is None:
        inner_treedef = _flatten(parts[0])[1]
    rows = [] if parts is None or inner_treedef is None else [_flatten_up_to(part, inner_treedef) for part in parts]
    if parts is None or inner_treedef is None or any(row is None for row in rows):
        raise TracerError(
            f"tree_transpose: {_flatten(pytree_to_transpose)[1]} is not {outer_treedef} of {inner_treedef}",
            location=user_location(),
        )
    columns = [[row[k] for row in rows if row is not None] for k in range(inner_treedef.leaves)]
    return unflatten(inner_treedef, [unflatten(outer_treedef, column) for column in columns])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the structure of `full_tree`, in which each leaf of a prefix of it stands at all places below.

    Raises: TracerError for what is no prefix.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_broadcast((1, 2), ([0, 0], {"a": 0}))
    ([1, 1], {'a': 2})
    """
    columns, treedef = _columns("tree_broadcast", prefix_tree, [full_tree], is_leaf)
    filled = [tree_map(lambda _, x=x: x, part, is_leaf=is_leaf) for x, part in zip(*columns, strict=True)]
    return unflatten(treedef, filled)


# -- paths -------------------------------------------------------------------------------------------------------------
@frozen
class SequenceKey:
    """A place in a tuple or list.

    >>> import tracejit as tj
    >>> str(tj.tree_util.SequenceKey(1))
    '[1]'
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@frozen
class DictKey:
    """A key of a dict.

    >>> import tracejit as tj
    >>> str(tj.tree_util.DictKey("w"))
    "['w']"
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@frozen
class GetAttrKey:
    """A field of a named tuple or data class.

    >>> import tracejit as tj
    >>> str(tj.tree_util.GetAttrKey("w"))
    '.w'
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@frozen
class FlattenedIndexKey:
    """A child of a registered class, by number.

    >>> import tracejit as tj
    >>> str(tj.tree_util.FlattenedIndexKey(0))
    '[<flat index 0>]'
    """

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
"""A step of a path; classes registered with keys may have others."""

_FIELDS: dict[type, tuple[str, ...]] = {}  # of registered data classes: the names of their children
_KEYED: dict[type, Callable[[Any], Iterable[tuple[Any, Any]]]] = {}  # of classes that give keys: (key, child) of each


def _keys_of(x: Any, kind: Any, data: Any, count: int) -> list[Any]:
    if kind == "dict":
        return [DictKey(k) for k in data]
    if kind in ("tuple", "list"):
        return [SequenceKey(k) for k in range(count)]
    if isinstance(x, dict):
        return [DictKey(k) for k in x]
    if kind in _KEYED:
        return [key for key, _ in _KEYED[kind](x)]
    names = _FIELDS.get(kind) or (getattr(kind, "_fields", None) if data == "namedtuple" else None)
    return [FlattenedIndexKey(k) for k in range(count)] if names is None else [GetAttrKey(n) for n in names]


def is_tree_node(typ: type) -> bool:
    """Whether objects of a class are containers, not leaves.

    >>> import tracejit as tj
    >>> tj.tree_util.is_tree_node(list), tj.tree_util.is_tree_node(set)
    (True, False)
    """
    return is_node_class(typ)


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """(what a container holds, what it is besides: the keys of a dict in order, the class of a named tuple, what a
    registered class says, else None).

    Raises: ShapeError, a ValueError, for a leaf.

    >>> import tracejit as tj
    >>> tj.tree_util.flatten_one_level({"b": [1, 2], "a": 3})
    ([3, [1, 2]], ('a', 'b'))
    """
    kind, data, children = _one_level(tree)
    return list(children), _besides(kind, data)


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """As `flatten_one_level`, with the key of each child before it.

    Raises: ShapeError, a ValueError, for a leaf.

    >>> import tracejit as tj
    >>> tj.tree_util.flatten_one_level_with_keys([5])
    ([(SequenceKey(idx=0), 5)], None)
    """
    kind, data, children = _one_level(tree)
    return list(zip(_keys_of(tree, kind, data, len(children)), children, strict=True)), _besides(kind, data)


def _one_level(tree: Any) -> tuple[Any, Any, Sequence[Any]]:
    split = _split(tree)
    if split is None:
        raise ShapeError(f"{type(tree).__name__} is a leaf, no container", location=user_location())
    return split


def _besides(kind: Any, data: Any) -> Any:
    if kind == "dict":
        return tuple(data)
    return kind if data == "namedtuple" else data


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> list[tuple[tuple[Any, ...], Any]]:
    """(path, leaf) in order; a path is a tuple of keys.   is_leaf_takes_path: `is_leaf` has the path before the node.

    >>> import tracejit as tj
    >>> [(tj.tree_util.keystr(path), x) for path, x in tj.tree_util.tree_leaves_with_path({"w": [1, 2]})]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    out: list[tuple[tuple[Any, ...], Any]] = []
    pending: list[tuple[tuple[Any, ...], Any]] = [((), tree)]
    while pending:
        path, x = pending.pop()
        split = _split(x, _at_path(is_leaf, path) if is_leaf_takes_path else is_leaf)
        if split is None:
            out.append((path, x))
            continue
        kind, data, children = split
        keys = _keys_of(x, kind, data, len(children))
        pending += [((*path, key), child) for key, child in zip(keys, children, strict=True)][::-1]
    return out


def _at_path(is_leaf: IsLeaf, path: tuple[Any, ...]) -> IsLeaf:
    return None if is_leaf is None else lambda x: is_leaf(path, x)


def _paths_and_structure(tree: Any, is_leaf: IsLeaf, takes_path: bool) -> tuple[list[Any], TreeDef]:
    """(path, leaf) in order, and the structure above these leaves."""
    found = tree_leaves_with_path(tree, is_leaf, takes_path)
    if not takes_path or is_leaf is None:
        return found, _flatten(tree, is_leaf)[1]

    def structure(path: tuple[Any, ...], x: Any) -> TreeDef:
        split = _split(x, _at_path(is_leaf, path))
        if split is None:
            return LEAF
        kind, data, children = split
        keys = _keys_of(x, kind, data, len(children))
        parts = [structure((*path, key), child) for key, child in zip(keys, children, strict=True)]
        return TreeDef(kind, data, tuple(parts))

    return found, structure((), tree)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeDef]:
    """(paths with leaves, structure).   is_leaf_takes_path: `is_leaf` has the path before the node.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_flatten_with_path([5])[0]
    [((SequenceKey(idx=0),), 5)]
    """
    return _paths_and_structure(tree, is_leaf, is_leaf_takes_path)


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None, is_leaf_takes_path: bool = False
) -> Any:
    """`f(path, leaf, ...)` of each leaf, as `tree_map`.   is_leaf_takes_path: `is_leaf` has the path before the node.

    >>> import tracejit as tj
    >>> tj.tree_util.tree_map_with_path(lambda path, x: tj.tree_util.keystr(path) + str(x), {"a": 1})
    {'a': "['a']1"}
    """
    found, treedef = _paths_and_structure(tree, is_leaf, is_leaf_takes_path)
    paths, leaves = [path for path, _ in found], [x for _, x in found]
    columns = [leaves, *_others("tree_map_with_path", treedef, rest)]
    return unflatten(treedef, [f(path, *row) for path, row in zip(paths, zip(*columns, strict=True), strict=True)])


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text.   simple: names alone.

    >>> import tracejit as tj
    >>> path = (tj.tree_util.DictKey("w"), tj.tree_util.SequenceKey(0))
    >>> tj.tree_util.keystr(path), tj.tree_util.keystr(path, simple=True, separator="/")
    ("['w'][0]", 'w/0')
    """
    if not simple:
        return separator.join(map(str, keys))
    names = ("key", "idx", "name")
    return separator.join([str(next(getattr(k, n) for n in names if hasattr(k, n))) for k in keys])


# -- classes -----------------------------------------------------------------------------------------------------------
def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container: `flatten_func(x) -> (children, static)`, `unflatten_func(static, children) -> x`.

    flatten_with_keys_func: as `flatten_func`, with pairs of a key and a child; the keys are those of paths.

    Source: JAX's register_pytree_node.

    >>> import tracejit as tj
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tj.tree_util.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> tj.tree_util.tree_leaves(Pair(1, (2, 3)))
    [1, 2, 3]
    """

    def to_children(x: Any) -> tuple[Sequence[Any], Any]:
        children, data = flatten_func(x)
        return tuple(children), data

    register_node(nodetype, to_children, lambda data, children: unflatten_func(data, tuple(children)))
    if flatten_with_keys_func is not None:
        _KEYED[nodetype] = lambda x: flatten_with_keys_func(x)[0]


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """`register_pytree_node` of a class whose children have keys.

    flatten_with_keys: `flatten_with_keys(x) -> ([(key, child), ..], static)`; flatten_func: the same without keys.

    Source: JAX's register_pytree_with_keys.

    >>> import tracejit as tj
    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> key = tj.tree_util.GetAttrKey
    >>> tj.tree_util.register_pytree_with_keys(
    ...     Point, lambda p: ([(key("x"), p.x), (key("y"), p.y)], None), lambda _, c: Point(*c)
    ... )
    >>> [tj.tree_util.keystr(path) for path, _ in tj.tree_util.tree_leaves_with_path([Point(1, 2)])]
    ['[0].x', '[0].y']
    """

    def without_keys(x: Any) -> tuple[Iterable[Any], Any]:
        pairs, data = flatten_with_keys(x)
        return [child for _, child in pairs], data

    register_pytree_node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: C) -> C:
    """A decorator for classes with methods `tree_flatten_with_keys` and, of the class, `tree_unflatten`; a method
    `tree_flatten` is used where it is there.

    >>> import tracejit as tj
    >>> @tj.tree_util.register_pytree_with_keys_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return ((tj.tree_util.GetAttrKey("x"), self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children):
    ...         return cls(*children)
    >>> tj.tree_util.tree_map_with_path(lambda path, x: tj.tree_util.keystr(path), Box(3)).x
    '.x'
    """
    made: Any = cls
    plain = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls, lambda x: x.tree_flatten_with_keys(), lambda data, children: made.tree_unflatten(data, children), plain
    )
    return cls


def register_static(cls: C) -> C:
    """A decorator for classes whose objects have no leaves: they are part of the structure, so they are compared and
    hashed.

    Source: JAX's register_static.

    >>> import tracejit as tj
    >>> @tj.tree_util.register_static
    ... class Name(str):
    ...     pass
    >>> tj.tree_util.tree_leaves([Name("x"), 1])
    [1]
    """
    register_node(cls, lambda x: ((), x), lambda data, _: data)
    return cls


def register_pytree_node_class(cls: C) -> C:
    """A decorator for classes with methods `tree_flatten` and, of the class, `tree_unflatten`.

    >>> import tracejit as tj
    >>> @tj.tree_util.register_pytree_node_class
    ... class Box:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten(self):
    ...         return (self.x,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children):
    ...         return cls(*children)
    >>> tj.tree_util.tree_map(lambda x: -x, Box(3)).x
    -3
    """
    made: Any = cls
    register_pytree_node(cls, lambda x: x.tree_flatten(), lambda data, children: made.tree_unflatten(data, children))
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a data class a container: of `data_fields`, the others (`meta_fields`) being static.

    Without the lists, fields with `metadata={"static": True}` are static.  drop_fields: left to their defaults.

    Raises: UserError for what is no data class, or lists that have not each of its fields once.
    Source: JAX's register_dataclass.

    >>> import dataclasses, tracejit as tj
    >>> @tj.tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     w: float
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> tj.tree_util.tree_map(lambda x: 2 * x, Layer(1.5, "in"))
    Layer(w=3.0, name='in')
    """
    if not dataclasses.is_dataclass(nodetype):
        if data_fields is None or meta_fields is None:
            raise UserError(f"register_dataclass: {nodetype.__name__} is not a data class", location=user_location())
    else:
        initial = [f for f in dataclasses.fields(nodetype) if f.init]
        if data_fields is None and meta_fields is None:
            data_fields = [f.name for f in initial if not f.metadata.get("static") and f.name not in drop_fields]
            meta_fields = [f.name for f in initial if f.metadata.get("static") and f.name not in drop_fields]
        given = [*(data_fields or ()), *(meta_fields or ()), *drop_fields]
        if (
            data_fields is None
            or meta_fields is None
            or sorted(given) != sorted({*drop_fields, *[f.name for f in initial]})
        ):
            raise UserError(
                f"register_dataclass: data_fields and meta_fields name each field of {nodetype.__name__} once: "
                f"{', '.join(f.name for f in initial)}",
                location=user_location(),
            )
    data, meta = tuple(data_fields), tuple(meta_fields)
    made: Any = nodetype

    def rebuilt(static: tuple[Any, ...], children: Sequence[Any]) -> Any:
        return made(**dict(zip(data, children, strict=True)), **dict(zip(meta, static, strict=True)))

    register_node(nodetype, lambda x: ([getattr(x, n) for n in data], tuple([getattr(x, n) for n in meta])), rebuilt)
    _FIELDS[made] = data
    return made


class Partial(functools.partial[Any]):
    """`functools.partial` whose arguments are leaves, so that it may be an argument of compiled functions.

    >>> import numpy as np, tracejit as tj
    >>> p = tj.tree_util.Partial(np.multiply, 2.0)
    >>> tj.tree_util.tree_leaves(p), float(p(4.0))
    ([2.0], 8.0)
    """


register_node(
    Partial,
    lambda p: ([p.args, p.keywords], p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
