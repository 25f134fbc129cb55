"""The cost of a cached call: ten float32, so little work that only the call itself counts."""

import numpy as np

from benchmarks.workload import Workload

TEN = {"10": 10}


def x_plus_1(x):
    return x + 1


def ten_arguments(a, b, c, d, e, f, g, h, i, j):
    return a + b + c + d + e + f + g + h + i + j


def descend(p):
    """A step of gradient descent on a dict of parameters."""
    return {"w": p["w"] - 0.1 * p["dw"], "b": p["b"] - 0.1 * p["db"]}


def numba_x_plus_1():
    import numba

    return numba.njit(x_plus_1)


def numba_ten_arguments():
    """One loop without temporaries: what a Numba user writes where a call must be cheap."""
    import numba

    @numba.njit
    def total(a, b, c, d, e, f, g, h, i, j):
        out = np.empty_like(a)
        for k in range(a.size):
            out[k] = a[k] + b[k] + c[k] + d[k] + e[k] + f[k] + g[k] + h[k] + i[k] + j[k]
        return out

    return total


def numba_descend():
    """Numba takes no dict of arrays: a Python function opens it and calls one compiled function."""
    import numba

    @numba.njit
    def step(w, dw, b, db):
        return w - np.float32(0.1) * dw, b - np.float32(0.1) * db

    def descend_in_numba(p):
        w, b = step(p["w"], p["dw"], p["b"], p["db"])
        return {"w": w, "b": b}

    return descend_in_numba


def vectors(count):
    return lambda rng, n, dtype: tuple(rng.normal(size=n).astype(dtype) for _ in range(count))


def parameters(rng, n, dtype):
    return ({name: rng.normal(size=n).astype(dtype) for name in ("w", "dw", "b", "db")},)


WORKLOADS = [
    Workload("call_x_plus_1", TEN, vectors(1), x_plus_1, {"numba": numba_x_plus_1}, dtypes=("f4",)),
    Workload(
        "call_x_plus_1_from_numpy",
        TEN,
        vectors(1),
        x_plus_1,
        {"numba": numba_x_plus_1},
        dtypes=("f4",),
        peers_take_numpy=True,
    ),
    Workload("call_10_arguments", TEN, vectors(10), ten_arguments, {"numba": numba_ten_arguments}, dtypes=("f4",)),
    Workload("call_dict", TEN, parameters, descend, {"numba": numba_descend}, dtypes=("f4",)),
]
