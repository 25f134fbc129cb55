"""What a target lacks is refused before code is made, with the operation, the dtype, the backend and the line."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends import registry
from tracejit.backends.base import Backend, Target
from tracejit.backends.reference.backend import InterpretedProgram
from tracejit.ir.program import Program
from tracejit.support.errors import UnsupportedError


class Small(Backend):
    """A device without doubles, and without a rounding of half precision."""

    name = "small"
    compiled = 0

    def target(self) -> Target:
        doubles = "the device has no f64; use f32 arrays"
        return Target("small", lacks={"f64": doubles, "erf": "there is no erf", "floor.f16": "it rounds f32 only"})

    def compile(self, program: Program) -> Any:
        Small.compiled += 1
        return InterpretedProgram(program)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    monkeypatch.setattr(Small, "compiled", 0)
    registry.register_backend("small", Small, priority=1)


@pytest.mark.parametrize(
    ("function", "dtype", "text"),
    [
        (lambda x: np.sqrt(x), "f8", "sqrt of f64 on the small backend: the device has no f64; use f32 arrays"),
        (lambda x: x.astype("f8"), "f4", "convert of f64 on the small backend: the device has no f64; use f32 arrays"),
        (lambda x: x.T, "f8", "an array of f64 on the small backend: the device has no f64; use f32 arrays"),
        (lambda x: np.floor(x), "f2", "floor of f16 on the small backend: it rounds f32 only"),
        (lambda x: tj.lax.erf(x), "f4", "erf of f32 on the small backend: there is no erf"),
    ],
)
def test_what_a_target_lacks_is_refused_with_the_line(function: Any, dtype: str, text: str):
    with pytest.raises(UnsupportedError) as caught:
        tj.jit(function, backend="small")(np.ones((3, 2), dtype))
    assert caught.value.message == text
    assert caught.value.backend == "small"
    assert caught.value.primitive
    assert caught.value.location is not None
    assert caught.value.location.position()[0] == __file__
    assert not Small.compiled


def test_what_it_has_is_computed():
    f = tj.jit(lambda x: np.floor(np.sqrt(x)), backend="small")
    np.testing.assert_array_equal(f(np.full(3, 5, "f4")), np.full(3, 2, "f4"))
    assert Small.compiled == 1
