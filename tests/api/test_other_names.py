"""Gradients that functions give themselves, and JAX's names of what is here under another one."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import BackendError, ConcretizationError, DtypeError, OptionError


def test_a_function_gives_its_gradient_beside_its_result():
    @tj.custom_gradient
    def scaled(x: Any, y: Any) -> Any:
        return np.sin(x) * y, lambda g: (10 * g, g * np.sin(x))

    x, y = np.array([0.5, 1.0]), np.array([2.0, 3.0])
    np.testing.assert_allclose(scaled(x, y), np.sin(x) * y)
    np.testing.assert_allclose(tj.jit(scaled)(x, y), np.sin(x) * y)
    for gradient in (
        tj.grad(lambda x, y: scaled(x, y).sum(), (0, 1)),
        tj.jit(tj.grad(lambda x, y: scaled(x, y).sum(), (0, 1))),
    ):
        first, second = gradient(x, y)
        np.testing.assert_allclose(first, [10.0, 10.0])
        np.testing.assert_allclose(second, np.sin(x))
    np.testing.assert_allclose(tj.vmap(tj.grad(scaled))(x, y), [10.0, 10.0])
    one = tj.custom_gradient(lambda x: (x**2, lambda g: 5 * g))
    assert tj.grad(one)(3.0) == 5


def test_names_of_what_is_here():
    np.testing.assert_allclose(tj.jacobian(lambda x: x**2)(np.array([1.0, 2.0])), np.diag([2.0, 4.0]))
    seen: list[Any] = []
    tj.jit(lambda x: seen.append((tj.typeof(x).shape, tj.typeof(x).dtype)) or x)(np.ones((2, 3), np.float32))
    assert seen[0] == ((2, 3), np.float32)
    assert tj.typeof(1.5).shape == ()
    with pytest.raises(DtypeError):
        tj.typeof("x")
    assert tj.named_call(lambda x: x + 1)(2) == 3
    assert tj.default_backend() == tj.config.backend
    assert tj.device_count() == len(tj.devices()) == len(tj.local_devices()) == tj.local_device_count()
    assert (tj.process_count(), tj.process_index()) == (1, 0)
    with pytest.raises(OptionError, match="there is one process, 0, and no process 3"):
        tj.local_devices(3)


def test_errors_by_the_names_of_jax():
    assert issubclass(ConcretizationError, tj.errors.TracerBoolConversionError)
    with pytest.raises(tj.errors.ConcretizationTypeError):
        tj.jit(lambda x: x.tolist())(np.ones(2))
    assert issubclass(BackendError, tj.errors.JaxRuntimeError)
