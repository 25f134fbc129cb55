"""Functions at the ends of dtypes and beside gaps in the data, where NumPy goes over to another formula or dtype."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

big = 1.5e308
gaps = np.array([0.0, 1.0, np.nan, 3.0, 4.0, 7.0, np.inf, 2.0])
z = np.arange(12.0).reshape(3, 4) * (1 + 0.5j)
bits = np.array([3, 7, 9], np.uint8)
parts = np.array([big + big * 1j, np.inf + 0j, complex(1, np.nan), complex(0, -np.inf)])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "gradient over even coordinates": (lambda f, x: np.gradient(f, x), (gaps, np.arange(8.0))),
    "gradient of second order there": (lambda f, x: np.gradient(f, x, edge_order=2), (gaps, np.arange(8.0) * 0.25)),
    "gradient over uneven ones": (lambda f, x: np.gradient(f, x), (gaps, np.array([0, 1, 3, 4, 5, 9, 10, 12.0]))),
    "gradient along axes": (lambda f, x: np.gradient(f, x, axis=1), (np.stack([gaps, gaps[::-1]]), np.arange(8))),
    "isinf of great parts": (
        np.isinf,
        (parts,),
    ),
    "logspace of bases": (lambda b: np.logspace(0, 2, 3, base=b), (np.array([2.0, 3.0, 4.0]),)),
    "logspace of other bases": (lambda b: np.logspace(0, 2, 5, base=b), (np.array([2.0, 3.0, 4.0]),)),
    "logspace of both": (lambda s, b: np.logspace(s, 2, 5, base=b, axis=1), (np.arange(3.0), np.arange(2.0, 5.0))),
    "irfftn of as many as there are": (lambda z: np.fft.irfftn(z, s=(-1, -1), axes=(0, 1)), (z,)),
    "irfft2 of as many as there are": (lambda z: np.fft.irfft2(z, s=(-1, -1)), (z,)),
    "bits under a mask": (lambda u, m: np.bitwise_and.reduce(u, where=m), (bits, np.array([True, False, True]))),
    "no bits": (lambda u, m: np.bitwise_and.reduce(u, where=m), (bits, np.zeros(3, bool))),
    "the norm of Frobenius": (lambda a: np.linalg.norm(a, "f"), (z.real,)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(name: str):
    f, arguments = CASES[name]
    want, got = f(*arguments), tj.jit(f)(*arguments)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_falling_ranges_of_unsigned_integers():
    f: Any = tj.jit(lambda x: np.arange(len(x), 0, -1, dtype=np.uint8))
    for n in (4, 6, 9, 2, 1, 0):
        want = np.arange(n, 0, -1, dtype=np.uint8)
        got = f(np.zeros(n))
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)
