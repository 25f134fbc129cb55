"""How functions of elements are made of primitives and entered in the tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir import primitive as registry
from tracejit.numpy.elementwise import of_primitive
from tracejit.primitives.elementwise import Elementwise
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.tracer.calls import handed_out
from tracejit.tracer.layout import LAYOUTS


def _reference(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


@pytest.fixture
def of_three():
    """A function of three operands, whole: one class and one line."""

    @frozen(eq=False)
    class MultiplyAdd(Elementwise):
        """x * y + z"""

        name = "multiply_add"
        numpy_function = _reference

        def scalar(self, b: Any, *xs: Any) -> Any:
            return b.op("add", b.op("mul", xs[0], xs[1]), xs[2])

        def partials(self, out: Any, *xs: Any) -> Sequence[Any]:
            return (lambda: xs[1], lambda: xs[0], lambda: np.ones((), out.dtype))

    made = of_primitive("multiply_add", MultiplyAdd(), 3)
    yield made
    registry._REGISTRY.pop("multiply_add")
    LAYOUTS.pop(made)


def test_a_new_function_of_three_operands_promotes_broadcasts_and_compiles(of_three: Any):
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3, dtype=np.int32)
    f = tj.jit(lambda x, y: of_three(x, y, 2))
    np.testing.assert_array_equal(f(x, y), x * y + 2)
    np.testing.assert_array_equal(tj.vmap(f, in_axes=(0, None))(x, y), x * y + 2)
    np.testing.assert_allclose(tj.grad(lambda y: of_three(x[0], y, 2.0).sum())(y.astype(float)), x[0])


def test_its_results_lie_in_memory_as_the_operands_do(of_three: Any):
    def f(x: Any) -> Any:
        y = handed_out(of_three, x, x, 1.0)  # as the names of tj.numpy are called
        y.ravel(order="K")[1] = 7.0
        return y

    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    want = _reference(x, x, 1.0)
    want.ravel(order="K")[1] = 7.0
    np.testing.assert_array_equal(tj.jit(f)(x), want)


@pytest.mark.parametrize("given", [0, 1, 2, 4])
def test_a_wrong_number_of_operands_is_an_error_that_says_which(of_three: Any, given: int):
    with pytest.raises(UnsupportedError, match=f"np.multiply_add takes 3 operands, not {given}"):
        of_three(*[1.0] * given)


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "logaddexp2", "deg2rad", "rad2deg", "radians", "degrees"])
def test_functions_of_several_steps_round_float16_once(name: str):
    rng = np.random.default_rng(0)
    ufunc = getattr(np, name)
    operands = [rng.normal(size=2000).astype("f2") for _ in range(ufunc.nin)]
    got = tj.jit(lambda *a: ufunc(*a))(*operands)
    assert got.dtype == np.float16
    assert (got != ufunc(*operands)).mean() < 0.01  # but for what float32 rounds
    small = [x.astype("f4").astype("i1") for x in operands]
    np.testing.assert_array_equal(tj.jit(lambda *a: ufunc(*a))(*small), ufunc(*small))
