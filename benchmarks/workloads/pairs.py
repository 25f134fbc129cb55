"""All pairs: the arithmetic is over n*n, the result is over n or n*n, the (n, n, 3) array need never exist."""

import math

import numpy as np

from benchmarks.workload import Workload


def accelerations(position, mass):
    """Gravity of n bodies on each other, softened."""
    d = position[None, :, :] - position[:, None, :]
    r2 = np.sum(d * d, axis=2) + 0.01
    weight = mass[None, :] / (r2 * np.sqrt(r2))
    return np.sum(weight[:, :, None] * d, axis=1)


def numba_accelerations():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def pull(position, mass):
        n = mass.size
        real = mass.dtype.type
        out = np.empty_like(position)
        xs, ys, zs = position[:, 0].copy(), position[:, 1].copy(), position[:, 2].copy()
        for i in numba.prange(n):
            ax = ay = az = real(0)
            for j in range(n):
                dx, dy, dz = xs[j] - xs[i], ys[j] - ys[i], zs[j] - zs[i]
                r2 = dx * dx + dy * dy + dz * dz + real(0.01)
                weight = mass[j] / (r2 * math.sqrt(r2))
                ax += weight * dx
                ay += weight * dy
                az += weight * dz
            out[i, 0], out[i, 1], out[i, 2] = ax, ay, az
        return out

    return pull


def distances(x):
    """As one writes the definition."""
    return np.sqrt(np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2))


def distances_by_product(x):
    """As one writes it for speed in NumPy and JAX: |x|^2 + |y|^2 - 2 x.y; less accurate for near points."""
    squares = np.sum(x * x, axis=1)
    return np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * (x @ x.T), 0))


def numba_distances():
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def pairs(x):
        n, width = x.shape
        out = np.empty((n, n), x.dtype)
        for i in numba.prange(n):
            for j in range(n):
                s = x.dtype.type(0)
                for k in range(width):
                    difference = x[i, k] - x[j, k]
                    s += difference * difference
                out[i, j] = math.sqrt(s)
        return out

    return pairs


def bodies(rng, n, dtype):
    return rng.normal(size=(n, 3)).astype(dtype), rng.uniform(0.5, 1.5, n).astype(dtype)


def numba_distances_by_product():
    import numba

    return numba.njit(fastmath=True)(distances_by_product)


def points(rng, n, dtype):
    return (rng.normal(size=(n, 16)).astype(dtype),)


WORKLOADS = [
    Workload("n_body", {"1000": 1000, "4000": 4000}, bodies, accelerations, {"numba": numba_accelerations}),
    Workload(
        "distances_16",
        {"500": 500, "2000": 2000},
        points,
        distances,
        {"numba": numba_distances},
        ("f4",),
        tolerance={"f4": 1e-5},
    ),
    Workload(
        "distances_16_by_product",
        {"500": 500, "2000": 2000},
        points,
        distances_by_product,
        {"numba": numba_distances_by_product},
        ("f4",),
        tolerance={"f4": 1e-3},  # this form loses half the digits on the diagonal
        reference=distances,
    ),
]
