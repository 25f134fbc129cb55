"""Pytrees as vectors."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.flatten_util import ravel_pytree
from tracejit.support.errors import ShapeError, TracerError


def test_a_vector_has_the_leaves_in_order_and_gives_them_back():
    tree = {"w": np.arange(6.0).reshape(2, 3), "b": (np.float32([7, 8]), 9)}
    vector, back = ravel_pytree(tree)
    np.testing.assert_array_equal(vector, [7, 8, 9, 0, 1, 2, 3, 4, 5])
    again = back(vector)
    np.testing.assert_array_equal(again["w"], tree["w"])
    assert again["b"][0].dtype == np.float32
    assert np.asarray(again["b"][1]).dtype == np.int64
    vector[0] = 100.0  # the tree's arrays are its own
    assert tree["b"][0][0] == 7


def test_an_empty_tree_is_an_empty_vector():
    vector, back = ravel_pytree({"a": ()})
    assert vector.shape == (0,)
    assert back(vector) == {"a": ()}


def test_derivatives_go_through_it():
    tree = {"w": np.ones((2, 2)), "b": np.arange(2.0)}
    vector, back = ravel_pytree(tree)

    def loss(v: Any) -> Any:
        t = back(v)
        return np.sum(t["w"] * 3) + np.sum(t["b"] ** 2)

    want = [0, 2, 3, 3, 3, 3]
    np.testing.assert_array_equal(tj.grad(loss)(vector), want)
    np.testing.assert_array_equal(tj.jit(tj.grad(loss))(vector), want)
    inside = tj.jit(lambda t: ravel_pytree(t)[0] * 2)
    np.testing.assert_array_equal(inside(tree), [0, 2, 2, 2, 2, 2])


def test_what_does_not_fit_is_refused():
    _, back = ravel_pytree([np.ones(2)])
    with pytest.raises(ShapeError, match=r"the vector has shape \(3,\); the pytree has 2 elements"):
        back(np.ones(3))
    with pytest.raises(TracerError, match="a leaf is a str"):
        ravel_pytree(["a"])
