"""Convolutions and correlations of vectors against NumPy's, short and long."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj

RNG = np.random.default_rng(0)
PAIRS = [(60, 20), (20, 20), (20, 60), (61, 33), (17, 16), (1, 1), (2, 17), (40, 3)]


def functions(name: str, mode: str) -> tuple[Any, Any]:
    f = getattr(np, name)
    return lambda a, v: f(a, v, mode=mode), tj.jit(lambda a, v: f(a, v, mode=mode))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_one_function_convolves_vectors_of_all_lengths(name: str, mode: str):
    f, compiled = functions(name, mode)
    for n, m in PAIRS:
        a, v = RNG.standard_normal(n), RNG.standard_normal(m)
        np.testing.assert_allclose(compiled(a, v), f(a, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_derivatives_of_long_convolutions(mode: str):
    f, _ = functions("convolve", mode)
    a, v = RNG.standard_normal(60), RNG.standard_normal(21)
    ct, s, t = RNG.standard_normal(f(a, v).shape), RNG.standard_normal(60), RNG.standard_normal(21)
    to_a, to_v = tj.jit(lambda a, v, ct: tj.vjp(f, a, v)[1](ct))(a, v, ct)
    np.testing.assert_allclose((to_a * s).sum(), (ct * f(s, v)).sum(), rtol=1e-11)
    np.testing.assert_allclose((to_v * t).sum(), (ct * f(a, t)).sum(), rtol=1e-11)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4"])
@pytest.mark.parametrize("m", [3, 20])
def test_vectors_of_every_dtype(dtype: str, m: int):
    f, compiled = functions("convolve", "full")
    a, v = RNG.integers(0, 4, 60).astype(dtype), RNG.integers(0, 2, m).astype(dtype)
    assert compiled(a, v).dtype == f(a, v).dtype
    np.testing.assert_array_equal(compiled(a, v), f(a, v))


@pytest.mark.parametrize("m", [4, 20])
@pytest.mark.parametrize("mode", ["full", "same"])
def test_nothing_lies_beside_a_vector_not_even_a_zero(mode: str, m: int):
    f, compiled = functions("correlate", mode)
    a, v = RNG.standard_normal(60), RNG.standard_normal(m)
    v[1], a[2], a[40] = np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(compiled(a, v), f(a, v), rtol=1e-12)


def test_long_convolutions_in_a_batch():
    a, v = RNG.standard_normal((3, 50)), RNG.standard_normal((3, 20))
    got = tj.jit(tj.vmap(lambda a, v: np.convolve(a, v)))(a, v)
    np.testing.assert_allclose(got, [np.convolve(x, y) for x, y in zip(a, v, strict=True)], rtol=1e-12, atol=1e-12)


def test_preferred_element_type():
    got = tj.numpy.convolve(np.array([100], np.int8), np.array([100], np.int8), preferred_element_type=np.int32)
    assert (got.item(), got.dtype) == (10_000, np.int32)
    assert tj.numpy.correlate(np.ones(3, np.float32), np.ones(2), precision="highest").dtype == np.float64
