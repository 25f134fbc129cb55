"""Pytrees under JAX's names."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit import tree_util
from tracejit.support.errors import ShapeError, TracerError, UserError

Point = namedtuple("Point", "x y")
TREE = {"w": [1, (2, None)], "b": Point(3, {"z": 4})}


def test_leaves_come_in_the_order_of_keys():
    assert tree_util.tree_leaves(TREE) == [3, 4, 1, 2]
    assert tree_util.tree_leaves({2: "b", 1: "a"}) == ["a", "b"]
    assert tree_util.tree_leaves({"x": 1, 2: 3}) == [1, 3]  # that cannot be sorted
    assert tree_util.tree_leaves(OrderedDict([("b", 1), ("a", 2)])) == [1, 2]
    assert tree_util.tree_leaves(defaultdict(int, a=1)) == [1]
    assert tree_util.tree_leaves(None) == []


def test_structures_are_put_together_again():
    leaves, treedef = tree_util.tree_flatten(TREE)
    assert tree_util.tree_unflatten(treedef, leaves) == TREE
    assert treedef.num_leaves == 4
    assert treedef.unflatten(leaves) == TREE
    assert treedef == tree_util.tree_structure({"b": Point(0, {"z": 0}), "w": [0, (0, None)]})
    assert hash(treedef) == hash(tree_util.tree_structure(TREE))
    assert treedef != tree_util.tree_structure({"b": Point(0, {"z": 0}), "w": [0, [0, None]]})
    with pytest.raises(ShapeError, match="3 leaves for a structure with 4"):
        tree_util.tree_unflatten(treedef, [1, 2, 3])


def test_maps_take_several_trees_and_what_is_a_leaf():
    add = tj.tree.map(lambda a, b: (a, b), {"a": 1, "b": [2]}, {"b": [{"c": 3}], "a": 4})
    assert add == {"a": (1, 4), "b": [(2, {"c": 3})]}
    assert tj.tree.map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    assert tj.tree.map(lambda x: x is None, [None, 1], is_leaf=lambda x: x is None) == [True, False]
    with pytest.raises(TracerError, match="differ in structure"):
        tj.tree.map(lambda a, b: a, {"a": 1}, {"b": 1})
    with pytest.raises(TracerError, match="differ in structure"):
        tj.tree.map(lambda a, b: a, (1, 2), (1, 2, 3))


def test_trees_are_reduced_and_asked():
    assert tj.tree.reduce(lambda a, b: a + b, TREE) == 10
    assert tj.tree.reduce(lambda a, b: a + b, (), 5) == 5
    assert tj.tree.all({"a": True, "b": [1]})
    assert not tj.tree.all([0, 1])


def test_a_tree_of_trees_is_turned_inside_out():
    outer, inner = tj.tree.structure([0, 0, 0]), tj.tree.structure({"a": 0, "b": 0})
    given = [{"a": n, "b": -n} for n in range(3)]
    want = {"a": [0, 1, 2], "b": [0, -1, -2]}
    assert tj.tree.transpose(outer, inner, given) == want == tj.tree.transpose(outer, None, given)
    with pytest.raises(TracerError, match="is not"):
        tj.tree.transpose(outer, tj.tree.structure((0, 0)), given)


def test_prefixes_are_broadcast():
    assert tj.tree.broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": (0,)}) == {"a": [1, 1], "b": (2,)}
    with pytest.raises(TracerError, match="differ in structure"):
        tj.tree.broadcast([1, 2], [0])


def test_paths_say_where_leaves_stand():
    found = {tree_util.keystr(path): x for path, x in tj.tree.leaves_with_path(TREE)}
    assert found == {"['b'].x": 3, "['b'].y['z']": 4, "['w'][0]": 1, "['w'][1][0]": 2}
    assert [x for _, x in tj.tree.flatten_with_path(TREE)[0]] == tj.tree.leaves(TREE)
    named = tj.tree.map_with_path(lambda path, x, y: tree_util.keystr(path, simple=True, separator="/") + y, [1], ["!"])
    assert named == ["0!"]


def test_classes_become_containers():
    class Pair:
        def __init__(self, a: Any, b: Any):
            self.a, self.b = a, b

    tree_util.register_pytree_node(Pair, lambda p: (iter((p.a, p.b)), "pair"), lambda static, children: Pair(*children))
    doubled = tj.jit(lambda p: tj.tree.map(lambda x: 2 * x, p))(Pair(np.ones(2), 3.0))
    assert isinstance(doubled, Pair)
    assert doubled.b == 6.0
    assert tree_util.keystr(tj.tree.leaves_with_path(Pair(1, 2))[1][0]) == "[<flat index 1>]"


def test_data_classes_become_containers():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: Any
        b: Any
        name: str = dataclasses.field(metadata={"static": True}, default="layer")

    loss = tj.jit(tj.grad(lambda layer, x: np.sum(layer.w * x + layer.b)))
    slope = loss(Layer(np.ones(2), 0.0, "in"), np.array([1.0, 2.0]))
    assert (slope.name, list(slope.w), slope.b) == ("in", [1.0, 2.0], 2.0)
    assert [tree_util.keystr(p) for p, _ in tj.tree.leaves_with_path(slope)] == [".w", ".b"]

    @dataclasses.dataclass
    class Other:
        x: Any
        y: Any

    with pytest.raises(UserError, match="name each field of Other once: x, y"):
        tree_util.register_dataclass(Other, data_fields=["x"], meta_fields=[])
    with pytest.raises(UserError, match="int is not a data class"):
        tree_util.register_dataclass(int)
    tree_util.register_dataclass(Other, ["x"], ["y"])
    assert tj.tree.leaves(Other(1, "y")) == [1]


def test_a_partial_is_an_argument_of_compiled_functions():
    p = tree_util.Partial(np.multiply, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(tj.jit(lambda p, x: p(x))(p, 10.0), [20.0, 30.0])
    assert tj.tree.map(lambda x: x + 1, tree_util.Partial(max, 1, key=None)).args == (2,)


# -- JAX's names of structures, keys and static classes ----------------------------------------------------------------
def test_structures_are_taken_apart_and_put_together():
    t = tj.tree_util
    leaf, pair = t.tree_structure(0), t.tree_structure((1, [2, 3]))
    assert t.treedef_is_leaf(leaf) and not t.treedef_is_leaf(pair)  # noqa: PT018
    assert [str(c) for c in t.treedef_children(pair)] == ["*", "[*, *]"]
    assert t.treedef_tuple(t.treedef_children(pair)) == pair
    assert t.all_leaves([1, "x"]) and not t.all_leaves([1, {}])  # noqa: PT018
    assert t.all_leaves([1, (2,)], is_leaf=lambda x: isinstance(x, tuple))


def test_leaves_are_joined_in_pairs():
    t = tj.tree_util
    for n in range(1, 10):
        assert t.tree_reduce_associative(lambda a, b: a + b, [str(k) for k in range(n)]) == "012345678"[:n]
    assert t.tree_reduce_associative(lambda a, b: a + b, {}, identity=7) == 7
    assert tj.tree.reduce_associative(max, {"b": 3, "a": (5, 1)}) == 5
    with pytest.raises(ShapeError, match="no leaves"):
        t.tree_reduce_associative(max, ())


def test_classes_with_keys_show_them_in_paths():
    t = tj.tree_util

    class Point:
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    key = t.GetAttrKey
    t.register_pytree_with_keys(Point, lambda p: ([(key("x"), p.x), (key("y"), p.y)], "p"), lambda data, c: Point(*c))
    paths = [t.keystr(path) for path, _ in t.tree_leaves_with_path({"a": Point(1, (2, 3))})]
    assert paths == ["['a'].x", "['a'].y[0]", "['a'].y[1]"]
    assert t.tree_map(lambda x: -x, Point(1, 2)).y == -2

    @t.register_pytree_with_keys_class
    class Box:
        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten_with_keys(self) -> Any:
            return ((key("x"), self.x),), None

        @classmethod
        def tree_unflatten(cls, data: None, children: Any) -> Any:
            return cls(*children)

    assert t.tree_map_with_path(lambda path, x: t.keystr(path) + str(x), Box([5])).x == [".x[0]5"]

    class Line:
        def __init__(self, a: Any) -> None:
            self.a = a

    t.register_pytree_node(
        Line, lambda n: ((n.a,), None), lambda _, c: Line(*c), lambda n: (((t.DictKey("a"), n.a),), None)
    )
    assert t.keystr(t.tree_leaves_with_path(Line(1))[0][0]) == "['a']"


def test_static_classes_are_part_of_the_structure():
    @tj.tree_util.register_static
    class Name(str):
        __slots__ = ()

    assert tj.tree_util.tree_leaves([Name("a"), 1]) == [1]
    assert tj.tree_util.tree_map(lambda x: x + 1, (Name("a"), 1)) == ("a", 2)
    assert tj.tree_util.tree_structure(Name("a")) == tj.tree_util.tree_structure(Name("a"))
    assert tj.tree_util.tree_structure(Name("a")) != tj.tree_util.tree_structure(Name("b"))


def test_a_leaf_may_depend_on_its_path():
    t = tj.tree_util
    tree = {"a": [1, 2], "b": [3]}

    def in_a(path: Any, x: Any) -> bool:
        return len(path) == 1 and path[0] == t.DictKey("a")

    found, structure = t.tree_flatten_with_path(tree, is_leaf=in_a, is_leaf_takes_path=True)
    assert [x for _, x in found] == [[1, 2], 3]
    assert str(structure) == "{'a': *, 'b': [*]}"
    mapped = t.tree_map_with_path(lambda path, x, y: (x, y), tree, tree, is_leaf=in_a, is_leaf_takes_path=True)
    assert mapped == {"a": ([1, 2], [1, 2]), "b": [(3, 3)]}


def test_one_level_of_containers():
    assert tree_util.flatten_one_level(TREE) == ([Point(3, {"z": 4}), [1, (2, None)]], ("b", "w"))
    assert tree_util.flatten_one_level(Point(1, 2)) == ([1, 2], Point)
    assert tree_util.flatten_one_level((1, [2])) == ([1, [2]], None)
    assert tree_util.flatten_one_level(None) == ([], None)
    keyed, besides = tree_util.flatten_one_level_with_keys(Point(1, [2]))
    assert [(str(key), x) for key, x in keyed] == [(".x", 1), (".y", [2])]
    assert besides is Point
    with pytest.raises(ShapeError, match="int is a leaf, no container"):
        tree_util.flatten_one_level(3)
    classes = (tuple, list, dict, type(None), Point, OrderedDict, int, set, str, np.ndarray)
    assert [tree_util.is_tree_node(c) for c in classes] == [True] * 6 + [False] * 4


def test_a_static_field_belongs_to_the_structure():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weights: Any
        activation: str = tj.tree.static(default="relu", metadata={"more": 1})

    layer = Layer(np.ones(2), "tanh")
    assert len(tree_util.tree_leaves(layer)) == 1
    assert tree_util.tree_map(lambda x: x + 1, layer).activation == "tanh"
    assert tree_util.tree_structure(layer) != tree_util.tree_structure(Layer(np.ones(2)))
    assert dataclasses.fields(Layer)[1].metadata == {"more": 1, "static": True}
