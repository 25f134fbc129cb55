"""Reading and adding at computed places, and counting."""

import numpy as np

from benchmarks.workload import Workload


def gather(x, index):
    return x[index]


def scatter_add(x, index, value):
    out = x.copy()
    np.add.at(out, index, value)
    return out


def jax_scatter_add():
    import jax

    return jax.jit(lambda x, index, value: x.at[index].add(value))


def numba_gather():
    import numba

    @numba.njit(parallel=True)
    def take(x, index):
        out = np.empty(index.size, x.dtype)
        for i in numba.prange(index.size):
            out[i] = x[index[i]]
        return out

    return take


def numba_scatter_add():
    import numba

    @numba.njit
    def add(x, index, value):
        out = x.copy()
        for i in range(index.size):
            out[index[i]] += value[i]
        return out

    return add


def places(rng, n, dtype):
    return rng.normal(size=n).astype(dtype), rng.integers(0, n, n)


def places_and_values(rng, n, dtype):
    return np.zeros(n, dtype), rng.integers(0, n, n), rng.random(n).astype(dtype)


def histogram(x):
    """How many of x, in [0, 1), lie in each of 256 bins."""
    return np.bincount((x * BINS).astype(np.int64), minlength=BINS)


def histogram_by_elements(x):
    counts = np.zeros(BINS, np.int64)
    for v in x:
        counts[int(v * BINS)] += 1
    return counts


def jax_histogram():
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda x: jnp.bincount((x * BINS).astype(jnp.int64), length=BINS))


def numba_histogram():
    import numba

    return numba.njit(histogram_by_elements)


def tracejit_histogram():
    import tracejit as tj

    return tj.jit(histogram_by_elements)


def numbers(rng, n, dtype):
    return (rng.random(n).astype(dtype),)


def narrow(arguments):
    """The same with indices of int32."""

    def made(rng, n, dtype):
        x, index, *rest = arguments(rng, n, dtype)
        return x, index.astype(np.int32), *rest

    return made


BINS = 256
EDGES = {"f4": 0.0, "f8": 0.0}
MILLION = {"1e6": 1_000_000}

WORKLOADS = [
    Workload("gather", MILLION, places, gather, {"numba": numba_gather}),
    Workload("gather_int32", MILLION, narrow(places), gather, {"numba": numba_gather}),
    Workload(
        "scatter_add",
        MILLION,
        places_and_values,
        scatter_add,
        {"numba": numba_scatter_add, "jax": jax_scatter_add},
    ),
    Workload(
        "scatter_add_int32",
        MILLION,
        narrow(places_and_values),
        scatter_add,
        {"numba": numba_scatter_add, "jax": jax_scatter_add},
    ),
    Workload(
        "histogram", MILLION, numbers, histogram, {"numba": numba_histogram, "jax": jax_histogram}, tolerance=EDGES
    ),
    Workload(
        "histogram_by_elements",
        MILLION,
        numbers,
        histogram,
        {"numba": numba_histogram, "jax": jax_histogram, "tracejit": tracejit_histogram},
        tolerance=EDGES,
    ),
]
