"""The keys of a dict stay in the order in which they were inserted,
inside of traced functions and in what they return."""

from __future__ import annotations

import itertools
import pickle
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError
from tracejit.tree_util import flatten, map_tree, unflatten

A, B, C = np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([100.0, 200.0])
ORDERS = list(itertools.permutations({"w": A, "b": B, "a": C}.items()))


def weighted(d: Any) -> Any:
    """What depends on the order of the values."""
    total = np.zeros(2)
    for n, x in enumerate(d.values()):
        total = total * 10 + (n + 1) * x
    return total


def test_the_function_sees_the_callers_order():
    f = tj.jit(weighted)
    for _ in range(2):
        for order in ORDERS:
            np.testing.assert_array_equal(f(dict(order)), weighted(dict(order)))
    assert f.compilations == len(ORDERS)


def test_keys_that_are_equal_but_not_the_same_objects():
    f = tj.jit(weighted)
    f({"first key": A, "second key": B})
    again = {"".join(["first", " key"]): A, "".join(["second", " key"]): C}
    np.testing.assert_array_equal(f(again), weighted(again))
    assert f.compilations == 1


def test_results_come_in_the_order_of_insertion():
    def f(x: Any) -> Any:
        return {"z": x, "a": {"y": x + 1, "b": [{"d": x, "c": x * 2}]}, 3: x, 1: x, "m": x}

    result = tj.jit(f)(A)
    assert str(result) == str(f(A))
    assert str(tj.jit(f)(A)) == str(f(A))


def test_nested_dicts_among_the_arguments():
    def f(tree: Any) -> Any:
        return [(k, weighted(v)) for k, v in tree[0].items()]

    jitted = tj.jit(f)
    for outer in (("x", "y"), ("y", "x")):
        for order in ORDERS[:3]:
            tree = ({k: dict(order) for k in outer},)
            for (name, found), (wanted_name, wanted) in zip(jitted(tree), f(tree), strict=True):
                assert name == wanted_name
                np.testing.assert_array_equal(found, wanted)


def test_keys_of_one_hash_and_several_types():
    def f(d: Any) -> Any:
        return [x * k for k, x in d.items()]

    jitted, x = tj.jit(f), np.array([1, 2])
    for key in (1, 1.0, True, np.float32(1)):
        for found, wanted in zip(jitted({key: x}), f({key: x}), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


def test_keywords_are_a_dict_where_the_function_takes_them_as_one():
    f = tj.jit(lambda **named: weighted(named))
    for _ in range(2):
        for order in ORDERS:
            np.testing.assert_array_equal(f(**dict(order)), weighted(dict(order)))
    plain = tj.jit(lambda w, b, a: w + 2 * b + 3 * a)
    for _ in range(2):
        for order in ORDERS:
            np.testing.assert_array_equal(plain(**dict(order)), A + 2 * B + 3 * C)
    assert plain.compilations == 1


@pytest.mark.parametrize("wrap", [tj.jit, lambda f: f])
def test_gradients_have_the_order_of_the_argument(wrap: Any):
    def loss(d: Any) -> Any:
        return np.sum(weighted(d) ** 2)

    for order in ORDERS:
        gradient = wrap(tj.grad(loss))(dict(order))
        assert list(gradient) == [k for k, _ in order]
        for n, k in enumerate(gradient):
            np.testing.assert_allclose(gradient[k], 2 * weighted(dict(order)) * (n + 1) * 10 ** (2 - n))


def test_tangents_and_cotangents_are_matched_by_key():
    primal, tangent = {"w": A, "b": B}, {"b": np.ones(2), "w": np.zeros(2)}
    product = lambda d: {"y": d["w"] * d["b"], "x": d["w"]}  # noqa: E731
    value, slope = tj.jvp(product, (primal,), (tangent,))
    assert list(value) == list(slope) == ["y", "x"]
    np.testing.assert_array_equal(slope["y"], A)
    _, push = tj.linearize(product, primal)
    np.testing.assert_array_equal(push(tangent)["y"], A)
    _, pull = tj.vjp(product, primal)
    (back,) = pull({"x": np.zeros(2), "y": np.ones(2)})
    assert list(back) == ["w", "b"]
    np.testing.assert_array_equal(back["w"], B)
    with pytest.raises(TracerError, match="differ"):
        tj.jvp(product, (primal,), ({"w": A, "c": B},))


def test_loops_and_branches_match_by_key():
    def f(x: Any, n: Any) -> Any:
        start = {"z": x, "a": 0.0}
        fori = tj.lax.fori_loop(0, 3, lambda i, c: {"a": c["a"] + 1, "z": c["z"] * 2}, start)
        whilst = tj.lax.while_loop(lambda c: c["a"] < n, lambda c: {"a": c["a"] + 1, "z": c["z"] + 1}, start)
        last, rows = tj.lax.scan(lambda c, y: ({"a": c["a"] + y, "z": c["z"]}, {"q": y, "p": c["a"]}), start, x)
        branch = tj.lax.cond(n > 1, lambda: {"z": x, "a": x + 1}, lambda: {"a": x - 1, "z": -x})
        return fori, whilst, last, rows, branch

    for n in (0, 2):
        fori, whilst, last, rows, branch = tj.jit(f)(A, n)
        assert [list(d) for d in (fori, whilst, last, rows, branch)] == [["z", "a"]] * 3 + [["q", "p"], ["z", "a"]]
        np.testing.assert_array_equal(fori["z"], A * 8)
        np.testing.assert_array_equal(whilst["z"], A + n)
        assert (fori["a"], whilst["a"], last["a"]) == (3, n, 3)
        np.testing.assert_array_equal(rows["p"], [0, 1])
        np.testing.assert_array_equal(branch["a"], A + 1 if n > 1 else A - 1)
        np.testing.assert_array_equal(branch["z"], A if n > 1 else -A)
    with pytest.raises(
        TracerError, match=r"cond: the branches return different structures \(\{'z': \*\} and \{'y': \*\}\)"
    ):
        tj.jit(lambda x: tj.lax.cond(x[0] > 0, lambda: {"z": x}, lambda: {"y": x}))(A)


def test_vmap_keeps_the_order():
    f = lambda d: {"s": weighted(d), "b": d["b"], "a": 1.0}  # noqa: E731
    batch = {"w": np.stack([A, B]), "b": np.stack([B, C])}
    for wrap in (tj.jit, lambda g: g):
        found = wrap(tj.vmap(f, in_axes=({"b": 0, "w": 0},)))(batch)
        assert list(found) == ["s", "b", "a"]
        np.testing.assert_array_equal(found["s"], np.stack([weighted({"w": A, "b": B}), weighted({"w": B, "b": C})]))


@pytest.mark.parametrize("backend", tj.list_backends())
def test_ordered_and_default_dicts(backend: str, record_backend: Any):
    record_backend(backend)

    def f(d: Any) -> Any:
        return (
            type(d)(d, k=weighted(d))
            if isinstance(d, OrderedDict)
            else {**d, "k": weighted(d), "new": d.default_factory is list}
        )

    jitted = tj.jit(f, backend=backend)
    for _ in range(2):
        for order in ORDERS[:3]:
            for given in (OrderedDict(order), defaultdict(list, order), defaultdict(None, order)):
                found, wanted = jitted(given), f(given)
                assert type(found) is type(wanted)
                assert list(found) == list(wanted)
                np.testing.assert_array_equal(found["k"], wanted["k"])


def test_structures_are_pickled_and_rebuilt():
    tree = {"z": 1, "a": (2, {"y": 3, "x": None}), 1: OrderedDict(q=4, p=5), 2: defaultdict(int, s=6, r=7)}
    leaves, structure = flatten(tree)
    assert leaves == [1, 2, 3, 4, 5, 6, 7]
    again = pickle.loads(pickle.dumps(structure))
    assert again == structure
    assert hash(again) == hash(structure)
    assert repr(unflatten(again, leaves)) == repr(tree)
    assert list(map_tree(lambda x, y: x - y, {"b": 1, "a": 2}, {"a": 1, "b": 0}).items()) == [("b", 1), ("a", 1)]


CAPTURED = np.array([3, 1])


@pytest.mark.parametrize(
    "form",
    [
        "{int(k): a[k] for k in I}",
        "{k: a for k in I}",
        "{float(I[0]): a}",
        "{(int(I[0]), 'x'): a}",
        "[{int(I[1]): {int(I[0]): a}}]",
    ],
)
def test_numbers_of_captured_arrays_are_keys_of_results(form: str):
    names = {"np": np, "I": CAPTURED.copy()}
    f = eval(f"lambda a: {form}", names)
    jitted, a = tj.jit(f), np.arange(6.0)
    for step in range(3):
        assert repr(jitted(a)) == repr(f(a)), step
        names["I"][step % 2] += 1  # another key from now on


class Kind(str):
    __slots__ = ()


def test_keys_of_classes_derived_from_str():
    f = tj.jit(lambda d, x: [v * x for k, v in d.items()])
    for make in (Kind, np.str_, str, Kind, Kind, np.str_):
        got = f({make("a"): A, make("b"): B}, C)
        np.testing.assert_array_equal(got, [A * C, B * C])
    g = tj.jit(lambda x: {Kind("a"): x})
    for _ in range(2):
        assert [type(k) for k in g(A)] == [Kind]


def test_keys_that_are_equal_and_of_other_classes_have_programs_of_their_own():
    f = tj.jit(lambda d: [i for i, _ in d])
    g = tj.jit(lambda d, x: [x * i for k in d for i in k])
    h = tj.jit(lambda d: [1 / k if k else np.copysign(1.0, k) for k in d])
    for _ in range(2):
        for one in (1, 1.0, True):
            assert [type(i) for i in f({(one, 2): A})] == [type(one)]
            assert repr(g({frozenset([one]): A}, np.arange(2))) == repr([np.arange(2) * one])
        for zero in (0.0, -0.0, 0):
            assert h({zero: A}) == [np.copysign(1.0, zero)]
