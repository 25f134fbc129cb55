"""Bits, uniform floats, integers and truth values: recorded numbers of JAX's, ranges, shapes, dtypes."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, OptionError, ShapeError, TracerError

KEY = tj.random.key(42)
R = tj.random
BROKEN: Any = (1.5,)

# with jax_enable_x64 and jax_threefry_partitionable
JAX_BITS = {
    "uint8": [162, 217, 249, 215, 21],
    "uint16": [5026, 12505, 63993, 49623, 29461],
    "uint32": [2098992034, 2919706841, 2646866425, 2409546199, 1935504149],
    "uint64": [
        7871734211187709741, 276886910877598708, 10591095138341673235, 13462782411356743825, 12687676868490354166,
    ],
}  # fmt: skip
JAX_UNIFORM = {
    "float16": [0.076171875, 0.1904296875, 0.9755859375, 0.7568359375],
    "float32": [0.48870956897735596, 0.6797971725463867, 0.6162714958190918, 0.5610160827636719],
    "float64": [0.4267275666499091, 0.015010069515314584, 0.5741444178995352, 0.7298188969046309],
}
JAX_RANDINT = {
    **{name: [38, 79, 89, 54, 28, 39] for name in ("int8", "uint8", "int16", "int32")},
    **{name: [34, 78, 93, 73, 60, 49] for name in ("int64", "uint64")},
}


@pytest.mark.parametrize("dtype", JAX_BITS)
def test_bits_are_those_of_jax(dtype: str):
    for bits in (R.bits, tj.jit(R.bits, static_argnums=(1, 2))):
        found = bits(KEY, (5,), dtype)
        assert found.dtype == dtype
        assert found.tolist() == JAX_BITS[dtype]


@pytest.mark.parametrize("dtype", JAX_UNIFORM)
def test_uniform_numbers_are_those_of_jax(dtype: str):
    for uniform in (R.uniform, tj.jit(R.uniform, static_argnums=(1, 2))):
        found = uniform(KEY, (4,), dtype)
        assert found.dtype == dtype
        assert found.tolist() == JAX_UNIFORM[dtype]


@pytest.mark.parametrize("dtype", JAX_RANDINT)
def test_integers_are_those_of_jax(dtype: str):
    for low, high in ((3, 100), (np.int64(3), np.int16(100))):
        for randint in (R.randint, tj.jit(R.randint, static_argnums=(1, 4))):
            found = randint(KEY, (6,), low, high, dtype)
            assert found.dtype == dtype
            assert found.tolist() == JAX_RANDINT[dtype]


def test_truth_values_and_signs_are_those_of_jax():
    want = [False, True, False, False, False, False, False, False, True, True]
    assert R.bernoulli(KEY, 0.3, (10,)).tolist() == want
    assert tj.jit(lambda k, p: R.bernoulli(k, p, (10,)))(KEY, 0.3).tolist() == want
    assert R.rademacher(KEY, (6,)).tolist() == [1, 1, -1, -1, -1, -1]
    assert R.rademacher(KEY, (6,), np.float32).dtype == np.float32
    assert R.rademacher(KEY, ()).dtype == np.int64


def test_elements_are_those_of_the_flat_array_and_of_a_longer_one():
    flat = R.uniform(KEY, (24,))
    np.testing.assert_array_equal(R.uniform(KEY, (2, 3, 4)), flat.reshape(2, 3, 4))
    np.testing.assert_array_equal(R.uniform(KEY, 7), flat[:7])
    assert R.uniform(KEY) == flat[0]
    assert R.uniform(KEY, (2, 0)).shape == (2, 0)


def test_one_program_serves_all_sizes():
    f = tj.jit(lambda k, x: (R.uniform(k, x.shape), R.bits(k, (x.shape[0], 2)), R.randint(k, x.shape, 0, 10)))
    for n in (3, 5, 0, 1, 2, 40):
        for found, want in zip(
            f(KEY, np.zeros(n)), (R.uniform(KEY, n), R.bits(KEY, (n, 2)), R.randint(KEY, n, 0, 10)), strict=True
        ):
            np.testing.assert_array_equal(found, want)
    assert f.compilations <= 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_lie_between_their_bounds(dtype: str):
    low, high = np.array([-3.0, 0.0, 5.0], dtype), np.array([[-1.0], [8.0]], dtype)
    found = tj.jit(lambda k, a, b: R.uniform(k, (2, 3), dtype, a, b))(KEY, low, high)
    assert found.dtype == dtype
    unit = R.uniform(KEY, (2, 3), dtype)
    np.testing.assert_allclose(found, np.maximum(unit * (high - low) + low, low), rtol=4 * float(np.finfo(dtype).eps))
    slopes = tj.grad(lambda a, b: R.uniform(KEY, minval=a, maxval=b), argnums=(0, 1))(1.0, 3.0)
    np.testing.assert_allclose(slopes, (1 - R.uniform(KEY), R.uniform(KEY)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_lie_between_their_bounds(dtype: str):
    info = np.iinfo(dtype)
    for low, high in (
        (0, 7), (0, 64), (-5, 3), (info.min, info.max), (info.min, info.max + 1), (info.max - 1, info.max + 1), (5, 5),
        (9, 3), (0, 2**70), (-(2**70), info.min + 3),
    ):  # fmt: skip
        found = R.randint(KEY, (200,), low, high, dtype)
        assert found.dtype == dtype
        least, most = max(low, info.min), min(high - 1, info.max)
        assert found.min() >= min(least, info.max)
        assert found.max() <= max(most, least)
        if high - 1 >= info.max and low <= 0:
            assert found.max() > info.max // 2
        if -(2**63) <= low and high < 2**63:
            np.testing.assert_array_equal(R.randint(KEY, (200,), np.int64(low), np.int64(high), dtype), found)
    rows = R.randint(KEY, (4, 3), np.array([0, 10, 20]), np.array([1, 20, 20]), dtype)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 2] == 20).all()
    assert ((rows[:, 1] >= 10) & (rows[:, 1] < 20)).all()


def chi_square(counts: Any, expected: Any) -> float:
    return float(np.sum((counts - expected) ** 2 / expected))


def test_integers_and_bits_are_uniform():
    n = 60_000
    counts = np.bincount(R.randint(KEY, (n,), 0, 13), minlength=13)
    assert chi_square(counts, np.full(13, n / 13)) < 12 + 5 * np.sqrt(24)
    words = R.bits(KEY, (n,), np.uint32)
    ones = np.array([int(np.sum((words >> np.uint32(b)) & np.uint32(1))) for b in range(32)])
    assert np.abs(ones - n / 2).max() < 4.5 * np.sqrt(n) / 2
    pairs = np.bincount((words[:-1] >> np.uint32(28)) * 16 + (words[1:] >> np.uint32(28)), minlength=256)
    assert chi_square(pairs, np.full(256, (n - 1) / 256)) < 255 + 5 * np.sqrt(510)
    u = R.uniform(KEY, (n,))
    assert np.sqrt(n) * np.abs(np.sort(u) - (np.arange(n) + 0.5) / n).max() < 1.9


def test_the_high_mode_resolves_small_probabilities():
    p = np.float32(2.0**-30)
    keys = np.stack([KEY, R.key(1)])
    assert not R.bernoulli(KEY, p, (1000,), mode="high").all()
    assert tj.jit(tj.vmap(lambda k: R.bernoulli(k, np.float32(0.25), (5,), mode="high")))(keys).shape == (2, 5)
    # of 2**-23 the low mode makes 0, which is below every p
    assert (
        R.bernoulli(KEY, np.float16(2.0**-14), (20_000,)).sum()
        > R.bernoulli(KEY, np.float16(2.0**-14), (20_000,), mode="high").sum()
    )


@pytest.mark.parametrize("backend", ["reference", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_other_backends_have_the_same_bits(backend: str, record_backend: Any):
    record_backend(backend)

    def draw(k: Any) -> Any:
        first, second = R.split(k)
        return R.bits(first, (5,)), R.uniform(second, (2, 3)), R.uniform(first, (3,), np.float32), R.randint(k, 4, 0, 9)

    for found, want in zip(tj.jit(draw, backend=backend)(KEY), draw(KEY), strict=True):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: R.uniform(KEY, (2,), np.int32), DtypeError, "tj.random.uniform gives floats, not int32"),
        (lambda: R.bits(KEY, (2,), np.int32), DtypeError, "gives unsigned integers, not int32"),
        (lambda: R.randint(KEY, (2,), 0, 5, np.float32), DtypeError, "gives integers, not float32"),
        (lambda: R.rademacher(KEY, (2,), np.uint8), DtypeError, "gives signed numbers"),
        (lambda: R.uniform(KEY, (-1,)), ShapeError, "negative dimensions"),
        (lambda: R.uniform(KEY, BROKEN), TracerError, "a shape is made of integers"),
        (lambda: R.uniform(KEY, (2,), minval=np.zeros(3)), ShapeError, "(3,)"),
        (lambda: R.randint(KEY, (2,), np.zeros(3, int), 5), ShapeError, "cannot be broadcast"),
        (lambda: R.bernoulli(KEY, np.zeros(3), (2,)), ShapeError, "cannot be broadcast"),
        (lambda: R.bernoulli(KEY, 0.5, (2,), mode="medium"), OptionError, "mode is 'low' or 'high'"),
    ],
)
def test_what_does_not_fit_is_an_error(call: Any, error: type[Exception], text: str):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)


def test_the_default_may_have_32_bits():
    before = tj.config.default_dtype_bits
    tj.config.default_dtype_bits = 32
    try:
        assert R.uniform(KEY, (2,)).tolist() == R.uniform(KEY, (2,), np.float32).tolist()
        assert R.bits(KEY).dtype == np.uint32
        assert R.randint(KEY, (), 0, 5).dtype == np.int32
    finally:
        tj.config.default_dtype_bits = before
