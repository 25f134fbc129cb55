"""Complex numbers and their parts by JAX's names."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

lax = tj.lax
Z = np.array([1 + 2j, 3 - 1j, complex(-0.0, np.inf)])


@pytest.mark.parametrize("z", [Z, Z.astype(np.complex64)])
def test_parts_and_back(z: Any):
    def f(z: Any) -> Any:
        return lax.real(z), lax.imag(z), lax.conj(z), lax.complex(lax.real(z), lax.imag(z))

    for got in (f(z), tj.jit(f)(z)):
        for have, want in zip(got, (z.real, z.imag, z.conj(), z), strict=True):
            assert have.dtype == want.dtype
            np.testing.assert_array_equal(have, want)


def test_conjugates_of_real_numbers_are_complex():
    x = np.array([1.0, np.inf], np.float32)
    got = tj.jit(lax.conj)(x)
    assert got.dtype == np.complex64
    np.testing.assert_array_equal(got.real, x)
    np.testing.assert_array_equal(np.signbit(got.imag), [True, True])


def test_derivatives():
    def f(x: Any, y: Any) -> Any:
        z = lax.complex(x, y)
        return np.sum(lax.real(z * lax.conj(z)) + 3.0 * lax.imag(z))

    x, y = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    dx, dy = tj.grad(f, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(dx, 2 * x)
    np.testing.assert_allclose(dy, 2 * y + 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: lax.real(x), lambda x: lax.imag(x), lambda x: lax.conj(x > 1),
        lambda x: lax.complex(x, x.astype("f4")), lambda x: lax.complex(x > 1, x > 1),
    ],
)  # fmt: skip
def test_other_dtypes_are_refused(wrong: Any):
    with pytest.raises(TypeError, match=r"^\[?\w*"):
        tj.jit(wrong)(np.ones(3))
