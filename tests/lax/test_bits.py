"""lax's functions of bits, against NumPy's views and Python's integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError

lax = tj.lax
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def values(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    return np.append(
        rng.integers(info.min, info.max, 20, dtype, endpoint=True), np.array([0, 1, info.min, info.max], dtype)
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_population_count_and_clz(dtype: str):
    x = values(dtype)
    width = 8 * x.dtype.itemsize
    words = [int(v) % (1 << width) for v in x]
    got, zeros = tj.jit(lambda x: (lax.population_count(x), lax.clz(x)))(x)
    assert got.tolist() == [w.bit_count() for w in words]
    assert zeros.tolist() == [width - w.bit_length() for w in words]
    assert got.dtype == zeros.dtype == x.dtype
    assert lax.clz(np.int32(1)) == 31


@pytest.mark.parametrize("source", [*INTEGERS, "f2", "f4", "f8"])
def test_bitcasts_are_numpys_views(source: str):
    bytes_ = np.random.default_rng(1).integers(0, 256, 64).astype(np.uint8)
    bytes_ = np.where((bytes_ & 0x78) == 0x78, bytes_ ^ 0x40, bytes_)  # no NaN, whose bits are not kept everywhere
    for target in [*INTEGERS, "f2", "f4", "f8"]:
        x = bytes_.view(source).reshape(2, -1)
        old, new = x.dtype.itemsize, np.dtype(target).itemsize
        if new > old:
            x = x.reshape(2, -1, new // old)
            want = np.ascontiguousarray(x).view(target)[..., 0]
        else:
            want = x[..., None].view(target) if new < old else x.view(target)
        got = tj.jit(lambda x, t=target: lax.bitcast_convert_type(x, t))(x)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.view(f"u{new}"), want.view(f"u{new}"))


def test_bitcasts_that_do_not_fit_are_refused():
    with pytest.raises(DtypeError, match="has no bits to be"):
        lax.bitcast_convert_type(np.zeros(3, bool), np.uint8)
    with pytest.raises(ShapeError, match="along its last axis"):
        lax.bitcast_convert_type(np.zeros((3, 3), np.uint8), np.uint16)
    assert lax.bitcast_convert_type(np.zeros(3, bool), bool).dtype == bool
    with pytest.raises(DtypeError):
        lax.clz(np.zeros(3))


def test_reduce_precision_rounds_as_narrower_floats_do():
    rng = np.random.default_rng(2)
    x = rng.standard_normal(500) * 10.0 ** rng.integers(-3, 4, 500)
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1.0 + 2.0**-24, 1.0 + 3 * 2.0**-24]])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(lax.reduce_precision(x, 8, 23), x.astype(np.float32).astype(np.float64))
        wide = np.abs(x) >= 2.0**-14
        got = np.asarray(tj.jit(lambda x: lax.reduce_precision(x, 5, 10))(x.astype(np.float32)))
        want = x.astype(np.float32).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(got[wide | (x == 0)], want[wide | (x == 0)])
    np.testing.assert_array_equal(lax.reduce_precision(np.array([1e-5, -1e-5]), 5, 10), [0.0, -0.0])
    np.testing.assert_array_equal(np.signbit(lax.reduce_precision(np.array([1e-5, -1e-5]), 5, 10)), [False, True])
    for dtype in (np.float16, np.float32, np.float64):
        same = x.astype(dtype) if dtype is np.float64 else np.clip(x, -9, 9).astype(dtype)
        np.testing.assert_array_equal(lax.reduce_precision(same, 11, 52), same)
    np.testing.assert_array_equal(tj.grad(lambda x: lax.reduce_precision(x, 5, 3) * 1.1)(1.3), 1.125)
    with pytest.raises(ValueError, match="0 bits of exponent"):
        lax.reduce_precision(x, 0, 3)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.opencl
def test_other_backends_agree(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)

    def f(x: Any, y: Any, h: Any) -> Any:
        return (
            lax.population_count(x), lax.clz(x), lax.bitcast_convert_type(x, np.uint8),
            lax.bitcast_convert_type(y, np.int32), lax.reduce_precision(y, 5, 3),
            lax.bitcast_convert_type(h, np.uint16), lax.reduce_precision(h, 4, 3),
            lax.population_count(x.astype(np.int8)),
        )  # fmt: skip

    x, y, h = values("i4"), np.linspace(-3, 3, 24).astype(np.float32), np.linspace(-3, 3, 24).astype(np.float16)
    for got, want in zip(tj.jit(f, backend=backend)(x, y, h), f(x, y, h), strict=True):
        np.testing.assert_array_equal(got, want)
