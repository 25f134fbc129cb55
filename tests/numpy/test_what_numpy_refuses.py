"""Dtypes and values that NumPy has no answer for are errors here too."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

Z, X, B, I = np.array([1 + 2j, 3 - 4j]), np.array([1.0, 2.0]), np.array([True, False]), np.array([1, 2])

REFUSED = {
    "deg2rad": (np.deg2rad, Z),
    "degrees": (np.degrees, Z),
    "rad2deg": (np.rad2deg, Z),
    "radians": (np.radians, Z),
    "ldexp": (np.ldexp, Z, 2),
    "ldexp by integers": (np.ldexp, Z, I),
    "gcd of bools": (np.gcd, B, B),
    "lcm of bools": (np.lcm, B, B),
    "isposinf": (np.isposinf, Z),
    "isneginf": (np.isneginf, Z),
    "complex bins": (np.digitize, X, Z),
    "bools as places": (lambda x, k: np.take_along_axis(x, k, 0), X, B),
    "a zero in a geometric sequence": (lambda a, b: np.geomspace(a, b, 4), X - 1, X),
    "at its end": (lambda a, b: np.geomspace(a, b, 4), X, X - 1),
    "casting": (lambda x: np.add(x, 1, casting="no"), B),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses(name):
    function, *arguments = REFUSED[name]
    for call in (function, tj.jit(function)):
        with pytest.raises((TypeError, ValueError, IndexError, UnsupportedError)):
            call(*arguments)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.complex64])
def test_geometric_sequences(dtype):
    if dtype == np.float64:
        a, b = np.array([1.0, -3, 2]), np.array([1000.0, -0.1, 2])
    else:
        a, b = (np.array(x).astype(dtype) for x in ([1 + 2j, -3 - 4j, 1j], [8 + 1j, -30, 100j]))
    for count in (1, 2, 7):
        got = tj.jit(lambda a, b, count=count: np.geomspace(a, b, count))(a, b)
        want = np.geomspace(a, b, count)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == np.complex64 else 1e-13)
