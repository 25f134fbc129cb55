"""The bits of integers and bytes, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "?"])
def test_bitwise_count(dtype: str):
    info = np.iinfo(dtype) if dtype != "?" else None
    x = np.array([0, 1, 5, 7] if info is None else [0, 1, 5, info.max, info.min, info.min // 2 + 3], dtype)
    got = tj.jit(lambda x: np.bitwise_count(x))(x)
    want = np.bitwise_count(x)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype == np.uint8
    assert tj.numpy.bitwise_count(7) == 3
    with pytest.raises(DtypeError):
        tj.numpy.bitwise_count(1.5)


@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_are_packed_and_unpacked_along_any_axis(order: Any):
    rng = np.random.default_rng(0)
    x, b = rng.integers(0, 2, (3, 10, 9)), rng.integers(0, 256, (3, 2, 4)).astype(np.uint8)

    def f(x: Any, b: Any) -> list[Any]:
        packed = [np.packbits(x, a, order) for a in (None, 1, -1)]
        wide = [np.unpackbits(b, a, c, order) for a, c in ((None, None), (None, 100), (0, 5), (1, None), (-1, -3))]
        return [*packed, np.packbits(x > 0, 2, order), *wide]

    for run in (lambda x, b: f(x, b), tj.jit(f)):
        for got, want in zip(run(x, b), f(x, b), strict=True):
            np.testing.assert_array_equal(got, want)
            assert np.asarray(got).dtype == np.uint8
    np.testing.assert_array_equal(tj.numpy.packbits(tj.Array(x), 1, order), np.packbits(x, 1, order))


def test_one_program_serves_arrays_of_many_sizes():
    f = tj.jit(lambda x, b: (np.packbits(x), np.unpackbits(b), np.unpackbits(b, count=-1)))
    for n in (9, 9, 2, 16, 33, 1, 0):
        x = np.arange(n) % 3
        b = (np.arange(n + 1) * 37 % 256).astype(np.uint8)
        for got, want in zip(f(x, b), (np.packbits(x), np.unpackbits(b), np.unpackbits(b, count=-1)), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_numpy_refuses_is_refused():
    for call, error in (
        (lambda x: np.packbits(x * 1.0), DtypeError),
        (lambda x: np.unpackbits(x), DtypeError),
        (lambda x: np.packbits(x, axis=1), ShapeError),
        (lambda x: np.packbits(x, bitorder="middle"), ShapeError),  # pyright: ignore
        (lambda x: np.unpackbits(x.astype(np.uint8), count=-100), ShapeError),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(np.arange(3))
        with pytest.raises(error):
            tj.jit(call)(np.arange(3))
