"""Reading and adding at computed places."""

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


MILLION = {"1e6": 1_000_000}

WORKLOADS = [
    Workload("gather", MILLION, places, gather, {"numba": numba_gather}, ("f4",)),
    Workload(
        "scatter_add",
        MILLION,
        places_and_values,
        scatter_add,
        {"numba": numba_scatter_add, "jax": jax_scatter_add},
        ("f4",),
    ),
]
