"""Arguments that are constants of the program, and those that are given up by name."""

import functools
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import OptionError, UserError

X = np.arange(3.0)


def test_a_static_number_is_pythons_while_it_is_traced():
    @functools.partial(tj.jit, static_argnums=1)
    def f(x: Any, n: Any) -> Any:
        assert type(n) is int
        return x * n

    for n in (2, 3, 2, 3):
        np.testing.assert_array_equal(f(X, n), X * n)
        np.testing.assert_array_equal(f(X, n=n), X * n)
    assert f.compilations == 4  # by position and by name


def test_each_value_has_its_program_and_serves_all_sizes():
    f = tj.jit(lambda x, n: np.sum(x**n), static_argnames="n")
    for size in (0, 1, 2, 5, 9):
        for n in (2, 3):
            x = np.arange(float(size))
            np.testing.assert_allclose(f(x, n), np.sum(x**n), rtol=1e-14)


def test_values_are_told_apart_by_type_and_content():
    f = tj.jit(lambda x, kind: x + (1 if kind is True else 2.5 if type(kind) is float else 4), static_argnums=(1,))
    assert [list(f(np.zeros(1), kind)) for kind in (True, 1.0, 1, True)] == [[1.0], [2.5], [4.0], [1.0]]


def test_shapes_and_functions_are_static():
    f = tj.jit(lambda x, shape, g: g(np.broadcast_to(x, shape)), static_argnames=("shape", "g"))
    for shape in ((2, 3), (4, 3), (2, 3)):
        assert f(X, shape, np.sum) == 3.0 * shape[0]
        assert f(X, shape=shape, g=np.max) == 2.0


def test_transformations_keep_what_is_static():
    f = tj.jit(lambda x, n: np.sum(x**n), static_argnums=1)
    np.testing.assert_allclose(tj.grad(f)(X, 3), 3 * X**2)
    np.testing.assert_allclose(tj.grad(f)(X, 2), 2 * X)
    np.testing.assert_allclose(tj.jit(lambda x: f(x, 2) + f(x, 3))(X), np.sum(X**2) + np.sum(X**3))


def test_negative_positions_count_from_the_end():
    f = tj.jit(lambda x, y, n: x * y * n if type(n) is int else x, static_argnums=-1)
    np.testing.assert_array_equal(f(X, X, 2), X * X * 2)


def test_lower_takes_the_same_arguments():
    f = tj.jit(lambda x, n: x * n, static_argnums=1)
    assert "mul a 3.0" in f.lower(X, 3).text("jaxpr")


def test_what_is_not_hashable_is_refused():
    f = tj.jit(lambda x, n: x, static_argnums=1)
    for n, name in ((np.ones(2), "ndarray"), ([1], "list"), ({"a": 1}, "dict")):
        with pytest.raises(UserError, match=f"argument 2 is static .* and a {name}, which is not hashable"):
            f(X, n)


def test_arguments_that_there_are_not_are_refused():
    def f(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(OptionError, match="static_argnums is 2; it is positions of the function's 2 arguments"):
        tj.jit(f, static_argnums=2)
    with pytest.raises(OptionError, match="static_argnames is 'z'; it is a name among x, y"):
        tj.jit(f, static_argnames="z")
    with pytest.raises(OptionError, match="static_argnames is 3; it is a name or a sequence of names"):
        tj.jit(f, static_argnames=3)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(OptionError, match="donate_argnames is 'z'"):
        tj.jit(f, donate_argnames="z")
    with pytest.raises(OptionError, match="no argument that is static"):
        tj.jit(f, static_argnums=0, donate_argnames="x")


def test_an_argument_is_given_up_by_its_name():
    f = tj.jit(lambda u, dt: u + dt * (1 - u), donate_argnames="u")
    u = np.zeros(1000)
    assert f(u, 0.5) is u
    np.testing.assert_array_equal(u, np.full(1000, 0.5))


@pytest.mark.parametrize("name", ["f", "fun", "function", "self", "args", "x", "first", "name", "value", "base"])
def test_parameters_may_have_any_name(name: str):
    """No name of a parameter of ours is one of a function that is handed on by keyword."""
    names: dict[str, Any] = {}
    exec(f"def scaled(y, {name}=2.0):\n    return (y * {name}).sum()", names)
    scaled, y = names["scaled"], np.ones(3)
    given = {name: 3.0}
    assert tj.jit(scaled)(y, **given) == 9.0
    assert tj.jit(lambda y, **kw: scaled(y, **kw))(y, **given) == 9.0
    assert functools.partial(tj.jit(scaled), **given)(y) == 9.0
    assert tj.jit(scaled, static_argnames=name)(y, **given) == 9.0
    assert tj.jit(lambda y: tj.jit(scaled)(y, **given))(y) == 9.0
    assert tj.eval_shape(scaled, y, **given).shape == ()
    assert tj.jit(scaled).lower(y, **given) is not None
    np.testing.assert_array_equal(tj.jit(tj.grad(scaled))(y, **given), 3 * y)

    def formatted(y):
        if y[0] > 0:
            y = y * 2
        return y, f"{{{name}}}".format(**given)

    assert tj.jit(formatted)(y)[1] == "3.0"
