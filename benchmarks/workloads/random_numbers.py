"""A million random numbers from a key, beside JAX's and those of NumPy's generator."""

import math

import numpy as np

from benchmarks.workload import Case, Workload

KOLMOGOROV = 2.2
"""Bound of sqrt(n) times the greatest distance of distribution functions: one sample in 8,000 is beyond."""


def numpy_uniform(key, like):
    return np.random.default_rng(key).random(like.shape, like.dtype)


def numpy_normal(key, like):
    return np.random.default_rng(key).standard_normal(like.shape, like.dtype)


def numpy_bits(key, like):
    return np.random.default_rng(key).integers(0, 2**32, like.shape, np.uint32)


def spelled(name):
    """The function of `jax.random`, under both packages."""

    def jax():
        import jax

        draw = getattr(jax.random, name)
        return jax.jit(lambda key, like: draw(key, like.shape, like.dtype))

    def tracejit():
        import tracejit as tj

        draw = getattr(tj.random, name)
        return tj.jit(lambda key, like: draw(key, like.shape, like.dtype))

    return {
        "numba": {"uniform": numba_uniform, "normal": numba_normal, "bits": numba_bits}[name],
        "jax": jax,
        "tracejit": tracejit,
    }


def numba_uniform():
    """Numba's generators, one a thread, know no keys."""
    import numba

    @numba.njit(parallel=True)
    def draw(key, like):
        out = np.empty_like(like)
        for i in numba.prange(like.size):
            out[i] = np.random.random()
        return out

    return draw


def numba_normal():
    import numba

    @numba.njit(parallel=True)
    def draw(key, like):
        out = np.empty_like(like)
        for i in numba.prange(like.size):
            out[i] = np.random.standard_normal()
        return out

    return draw


def numba_bits():
    import numba

    @numba.njit(parallel=True)
    def draw(key, like):
        out = np.empty_like(like)
        for i in numba.prange(like.size):
            out[i] = np.random.randint(0, 2**32)
        return out

    return draw


def key_and_like(rng, n, dtype):
    """A key, and an array of the shape and dtype that are wanted."""
    return np.array([0, 20240], np.uint32), np.zeros(n, dtype)


def off(share):
    """How far numbers, as shares of their distribution in order of drawing, are from uniform and independent ones,
    over what is allowed.
    """
    n = share.size
    ranks = np.arange(n + 1) / n
    ordered = np.sort(share)
    distance = max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1]))
    centred = 12 * (share - 0.5)
    neighbours = abs(np.mean(centred[1:] * (share[:-1] - 0.5)))
    return max(math.sqrt(n) * distance / KOLMOGOROV, math.sqrt(n) * neighbours / 4)


def of_uniform(case: Case, x):
    inside = x.dtype == np.dtype(case.dtype) and x.min() >= 0 and x.max() <= 1  # rounded to float32
    return off(x.astype(np.float64)) if inside else math.inf


def of_normal(case: Case, x):
    if x.dtype != np.dtype(case.dtype) or not np.isfinite(x).all():
        return math.inf
    return off(np.vectorize(math.erfc, [np.float64])(-x.astype(np.float64) * math.sqrt(0.5)) / 2)


def of_bits(case: Case, x):
    """All of the numbers, and each bit."""
    if x.dtype != np.uint32:
        return math.inf
    each = [abs(np.mean(x >> k & 1) - 0.5) * 2 * math.sqrt(x.size) / 5 for k in range(32)]
    return max(off((x + 0.5) / 2.0**32), *each)


SIZES = {"1e6": 1_000_000}
WORKLOADS = [
    Workload("random_uniform", SIZES, key_and_like, numpy_uniform, spelled("uniform"), measure=of_uniform),
    Workload("random_normal", SIZES, key_and_like, numpy_normal, spelled("normal"), measure=of_normal),
    Workload("random_bits", SIZES, key_and_like, numpy_bits, spelled("bits"), ("u4",), measure=of_bits),
]
