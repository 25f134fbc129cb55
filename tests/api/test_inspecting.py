"""What a function would do: make_jaxpr, eval_shape, linear_transpose."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, TracerError, UnsupportedError, UserError

X = np.arange(6.0).reshape(2, 3)


def test_shapes_are_known_without_arrays():
    big = tj.ShapeDtypeStruct((1_000_000, 1_000_000), np.float32)
    got = tj.eval_shape(lambda x, n: {"s": x.sum(axis=0), "b": x > n}, big, 3)
    assert got == {
        "s": tj.ShapeDtypeStruct((1_000_000,), "float32"),
        "b": tj.ShapeDtypeStruct((1_000_000, 1_000_000), bool),
    }
    assert (big.ndim, big.size, str(big)) == (
        2,
        10**12,
        "ShapeDtypeStruct(shape=(1000000, 1000000), dtype=float32)",
    )


def test_what_is_no_array_is_as_it_is():
    assert tj.eval_shape(lambda x, how: x.sum() if how == "sum" else x, X, how="sum").shape == ()
    assert tj.eval_shape(tj.grad(lambda x: np.sum(x**2)), X).shape == (2, 3)
    with pytest.raises(ShapeError):
        tj.eval_shape(lambda x: x @ x, X)


def test_a_jaxpr_is_what_is_traced():
    made = tj.make_jaxpr(lambda x, n: np.sin(x) ** n, static_argnums=1)(X, 2)
    assert made.equations[0].primitive.name == "sin"
    assert [v.aval.shape for v in made.inputs] == [(2, 3)]
    _, shapes = tj.make_jaxpr(lambda x: (x, x.sum()), return_shape=True)(X)
    assert shapes[1] == tj.ShapeDtypeStruct((), np.float64)


def test_linear_functions_are_transposed():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    transposed = tj.linear_transpose(lambda x: {"y": a @ x, "s": 2 * x.sum()}, tj.ShapeDtypeStruct((3,), np.float64))
    (got,) = transposed({"y": np.array([1.0, -1.0]), "s": 0.5})
    np.testing.assert_array_equal(got, a.T @ [1.0, -1.0] + 1.0)
    compiled = tj.jit(lambda x: tj.linear_transpose(lambda x: 3 * x, x)(x)[0])
    np.testing.assert_array_equal(compiled(X), 3 * X)
    (zero, one) = tj.linear_transpose(lambda x, y: y + 0 * y, X, X)(X)
    np.testing.assert_array_equal(zero, np.zeros((2, 3)))
    np.testing.assert_array_equal(one, X)


def test_what_is_not_linear_is_refused():
    for f in (lambda x: x * x, lambda x: x @ x, lambda x: 1 / x, lambda x: np.sin(x)):
        with pytest.raises(UnsupportedError, match="is not linear in its arguments"):
            tj.linear_transpose(f, np.ones(3))(f(np.ones(3)))
    with pytest.raises(DtypeError, match="not of floats"):
        tj.linear_transpose(lambda x: x, np.arange(3))
    with pytest.raises(TracerError, match="differs in structure"):
        tj.linear_transpose(lambda x: x, X)((X,))
    with pytest.raises(ShapeError, match="the cotangent has shape"):
        tj.linear_transpose(lambda x: x, X)(X[0])
    with pytest.raises(UserError, match="wants a function"):
        tj.make_jaxpr(3)  # pyright: ignore[reportArgumentType]


def test_programs_for_jax_may_say_these():
    tree: dict[str, Any] = {"x": X, "y": tj.device_put(X, "cpu")}
    assert tj.block_until_ready(tree)["x"] is X
    with tj.named_scope("block"):
        assert tj.jit(lambda x: x.sum())(X) == 15.0
